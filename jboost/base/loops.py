"""Loops and branches: JAX's own, legal under `shard_map` too; a loop with a check and a cap; one of
two that hold loops; and a watcher's word.

What a loop carries must vary over a mesh from the start if a turn makes it vary, and branches must
return what varies alike. `scan`, `fori_loop`, `while_loop`, `cond` and `switch` here are those of
`jax.lax`, but that under `shard_map` they mark what they carry and return as varying wherever any
array varies that a step is given or holds: no step needs to know whether it runs on a mesh.
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
# state and info of a loop that the host drives -> False to end it
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
    # here, as `vmap` marks them a second time inside the branches
    operands = _varying(operands, axes)
    chosen: State = lax.cond(is_first, _marking(first, axes), _marking(second, axes), *operands)
    return chosen


def switch(number: Array, branches: Sequence[Callable[..., State]], *operands: Any) -> State:
    """`jax.lax.switch`."""
    axes = _axes_on_mesh(branches, operands)
    chosen: State = lax.switch(number, [_marking(branch, axes) for branch in branches], *operands)
    return chosen


def _marking(function: Callable[..., State], axes: frozenset[str]) -> Callable[..., State]:
    """The function, with results that vary over these axes at least."""
    return (lambda *arguments: _varying(function(*arguments), axes)) if axes else function


def _varying(values: State, axes: frozenset[str]) -> State:
    """The values, marked as varying over these axes of a mesh too."""

    def mark(leaf: Array) -> Array:
        missing = tuple(sorted(axes - _axes_of(leaf, set())))
        return lax.pcast(leaf, missing, to="varying") if missing else leaf

    marked: State = jax.tree.map(mark, values) if axes else values
    return marked


def beside(state: State, data: Any) -> State:
    """The state that a loop of the caller's own begins with: under `shard_map` it varies wherever
    the data does that steps are given.
    """
    return _varying(state, _axes_on_mesh(data))


def is_on_mesh() -> bool:
    """Whether this is being traced under `shard_map`."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _axes_on_mesh(*things: Any) -> frozenset[str]:
    """The axes over which arrays vary, none outside `shard_map`."""
    return _axes_of(things, set()) if is_on_mesh() else frozenset()


def _axes_of(thing: Any, visited: set[int]) -> frozenset[str]:
    """The axes of a mesh over which arrays vary: those of a pytree, and those that its functions
    hold.
    """
    axes: frozenset[str] = frozenset()
    for leaf in jax.tree.leaves(thing):
        if isinstance(leaf, jax.core.Tracer):
            axes |= jax.typeof(leaf).manual_axis_type.varying
        elif callable(leaf) and id(leaf) not in visited:
            visited.add(id(leaf))
            axes |= _axes_of(_held_by(leaf), visited)
    return axes


def _held_by(function: Any) -> list[Any]:
    """What a function was made with: its cells, arguments that are filled in, the object whose
    method it is, and what it wraps.
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

    `unfinished` should be an ordinary comparison such as `error > tolerance`: it is False on NaN,
    so that a loop on garbage ends. Under `vmap` the loop runs as long as its slowest member, and
    members that are done stand still.

    Args:
      step: state -> state, of the same structure, shapes and dtypes.
      unfinished: state -> [] bool.
      state: any pytree of arrays.
      max_checks: the cap, static.

    Returns:
      The last state, and the number of checks that were passed, [] int32: `max_checks` if the cap
      ended the loop.
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
    """One of two computations of some effort; where both run, under `vmap`, the other one gets
    `idle`, with which its loops end at once.

    Args:
      is_first: [] bool.
      effort: [] what the chosen one is given: rounds, or a tolerance.
      idle: no rounds, or an infinite tolerance.
      first: effort -> result.
      second: effort -> a result of the same structure, shapes and dtypes.
    """
    rest = jnp.full_like(effort, idle)
    efforts = jnp.where(is_first, effort, rest), jnp.where(is_first, rest, effort)
    found: State = cond(is_first, lambda: first(efforts[0]), lambda: second(efforts[1]))
    return found


def goes_on(on_step: OnStep | None, state: Any, info: Any) -> bool:
    """Shows a step to the watcher, if there is one; False where that answers so. To answer nothing,
    None, is to go on.
    """
    answer = None if on_step is None else on_step(state, info)
    return answer is None or bool(answer)
