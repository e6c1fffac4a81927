"""Loops and branches that also work under `shard_map`, and a loop with a maximum of iterations.

Under `shard_map`, JAX requires that the carry of a loop varies over a mesh axis from the start if
an iteration makes it vary. All branches of a conditional must vary over the same axes. `scan`,
`fori_loop`, `while_loop`, `cond` and `switch` here are those of `jax.lax`. Under `shard_map` they
mark carries and results as varying over every axis over which an input varies, or an array in a
closure of the step. A step is therefore the same function on a mesh and off it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array

State = TypeVar("State")
# callback of a loop on the host: (state, info) -> False to end the loop, anything else to go on
OnStep = Callable[[Any, Any], bool | None]


def scan(
    step: Callable[[State, Any], tuple[State, Any]],
    state: State,
    items: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[State, Any]:
    """`jax.lax.scan`."""
    axes = _axes_on_mesh(state, step, items)

    def turn(now: State, item: Any) -> tuple[State, Any]:
        after, output = step(now, item)
        return _varying(after, axes), output

    last: tuple[State, Any] = lax.scan(
        turn if axes else step,
        _varying(state, axes),
        items,
        length=length,
        reverse=reverse,
        unroll=unroll,
    )
    return last


def fori_loop(
    begin: Any,
    end: Any,
    step: Callable[[Array, State], State],
    state: State,
    *,
    unroll: int | None = None,
) -> State:
    """`jax.lax.fori_loop`."""
    axes = _axes_on_mesh(state, step, begin, end)
    last: State = lax.fori_loop(
        begin, end, _marking(step, axes), _varying(state, axes), unroll=unroll
    )
    return last


def while_loop(
    unfinished: Callable[[State], Array], step: Callable[[State], State], state: State
) -> State:
    """`jax.lax.while_loop`."""
    axes = _axes_on_mesh(state, step, unfinished)
    last: State = lax.while_loop(unfinished, _marking(step, axes), _varying(state, axes))
    return last


def cond(
    is_first: Array, first: Callable[..., State], second: Callable[..., State], *operands: Any
) -> State:
    """`jax.lax.cond`."""
    axes = _axes_on_mesh(first, second, operands)
    # Marked outside of the branches: inside, `vmap` would mark them a second time.
    operands = _varying(operands, axes)
    chosen: State = lax.cond(is_first, _marking(first, axes), _marking(second, axes), *operands)
    return chosen


def switch(number: Array, branches: Sequence[Callable[..., State]], *operands: Any) -> State:
    """`jax.lax.switch`."""
    axes = _axes_on_mesh(branches, operands)
    chosen: State = lax.switch(number, [_marking(branch, axes) for branch in branches], *operands)
    return chosen


def _marking(function: Callable[..., State], axes: frozenset[str]) -> Callable[..., State]:
    """Returns the function with its results marked as varying over these mesh axes."""
    return (lambda *arguments: _varying(function(*arguments), axes)) if axes else function


def _varying(values: State, axes: frozenset[str]) -> State:
    """The values, marked as varying over these mesh axes."""

    def mark(leaf: Array) -> Array:
        missing = tuple(sorted(axes - _axes_of(leaf, set())))
        return lax.pcast(leaf, missing, to="varying") if missing else leaf

    marked: State = jax.tree.map(mark, values) if axes else values
    return marked


def beside(state: State, data: Any) -> State:
    """The initial state of a `jax.lax` loop, marked as varying like the data of its steps.

    Outside `shard_map` the state is returned unchanged.
    """
    return _varying(state, _axes_on_mesh(data))


def is_on_mesh() -> bool:
    """Whether the caller is traced under `shard_map`."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _axes_on_mesh(*things: Any) -> frozenset[str]:
    """The mesh axes over which arrays of pytrees and closures vary; none outside `shard_map`."""
    return _axes_of(things, set()) if is_on_mesh() else frozenset()


def _axes_of(thing: Any, visited: set[int]) -> frozenset[str]:
    """The mesh axes over which arrays of a pytree vary, and arrays that its functions hold."""
    axes: frozenset[str] = frozenset()
    for leaf in jax.tree.leaves(thing):
        if isinstance(leaf, jax.core.Tracer):
            axes |= jax.typeof(leaf).manual_axis_type.varying
        elif callable(leaf) and id(leaf) not in visited:
            visited.add(id(leaf))
            axes |= _axes_of(_held_by(leaf), visited)
    return axes


def _held_by(function: Any) -> list[Any]:
    """The objects that a function holds.

    These are its closure cells, the arguments of a `partial`, the object of a bound method, and the
    function that a wrapper wraps.
    """
    cells = [
        cell.cell_contents
        for cell in getattr(function, "__closure__", None) or ()
        if cell != types.CellType()
    ]
    names = ("func", "args", "keywords", "__self__", "__func__", "__wrapped__")
    return cells + [getattr(function, name) for name in names if hasattr(function, name)]


def bounded_loop(
    step: Callable[[State], State],
    unfinished: Callable[[State], Array],
    state: State,
    *,
    max_checks: int,
) -> tuple[State, Array]:
    """Runs `step` while `unfinished(state)`, at most `max_checks` times.

    `unfinished` should be a comparison such as `error > tolerance`. It is False for NaN, which ends
    the loop. Under `vmap` the loop runs as long as its slowest member. The states of finished
    members do not change.

    Args:
      step: state -> state, of the same structure, shapes and dtypes.
      unfinished: state -> [] bool.
      state: any pytree of arrays.
      max_checks: the maximum number of steps, static.

    Returns:
      The last state, and the number of steps, [] int32. It is `max_checks` if the maximum ended the
      loop.
    """

    def inner(carry: tuple[State, Array]) -> tuple[State, Array]:
        now, count = carry
        return step(now), count + jnp.ones((), jnp.int32)

    def keep_on(carry: tuple[State, Array]) -> Array:
        now, count = carry
        return unfinished(now) & (count < max_checks)

    return while_loop(keep_on, inner, (state, jnp.zeros((), jnp.int32)))


def one_of(
    is_first: Array,
    effort: Array,
    idle: Array | float,
    first: Callable[[Array], State],
    second: Callable[[Array], State],
) -> State:
    """The result of one of two computations that hold loops.

    Under `vmap` both run. The one that is not chosen then receives `idle`, with which its loops end
    at once.

    Args:
      is_first: [] bool, whether `first` is chosen.
      effort: [] the argument of the chosen computation: a number of rounds, or a tolerance.
      idle: the argument of the other one: 0 rounds, or an infinite tolerance.
      first: effort -> result.
      second: effort -> a result of the same structure, shapes and dtypes.
    """
    no_effort = jnp.full_like(effort, idle)
    efforts = jnp.where(is_first, effort, no_effort), jnp.where(is_first, no_effort, effort)
    found: State = cond(is_first, lambda: first(efforts[0]), lambda: second(efforts[1]))
    return found


def goes_on(on_step: OnStep | None, state: Any, info: Any) -> bool:
    """Calls `on_step`, if given, and returns whether the loop goes on.

    The loop ends if the callback returns a false value other than None.
    """
    result = None if on_step is None else on_step(state, info)
    return result is None or bool(result)
