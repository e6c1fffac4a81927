"""Loops and branches: JAX's own, legal under `shard_map` too; a loop with a check and a cap; one of two that hold loops; and a watcher's word.

What a loop carries must vary over a mesh from the start wherever a turn makes it vary, and branches must return what varies alike. `scan`,
`fori_loop`, `while_loop`, `cond` and `switch` here are those of `jax.lax`, but that under `shard_map` they look first at what comes out, and
mark what goes in, or comes out of another branch: no step needs to know whether it runs on a mesh.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array

State = TypeVar("State")
OnStep = Callable[[Any, Any], bool | None]  # state and info of a loop that the host drives -> False to end it


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

    def turn(now: State) -> State:
        return step(now, jax.tree.map(lambda leaf: lax.index_in_dim(leaf, 0, keepdims=False), items))[0]

    has_turns = all(leaf.shape[0] for leaf in jax.tree.leaves(items))
    first = _varying_as_after(turn, state) if has_turns else state
    last: tuple[State, Any] = lax.scan(step, first, items, length=length, reverse=reverse, unroll=unroll)
    return last


def fori_loop(begin: Any, end: Any, step: Callable[[Array, State], State], state: State, *, unroll: int | None = None) -> State:
    """`jax.lax.fori_loop`."""
    last: State = lax.fori_loop(begin, end, step, _varying_as_after(lambda now: step(jnp.asarray(begin), now), state), unroll=unroll)
    return last


def while_loop(unfinished: Callable[[State], Array], step: Callable[[State], State], state: State) -> State:
    """`jax.lax.while_loop`."""
    last: State = lax.while_loop(unfinished, step, _varying_as_after(step, state))
    return last


def cond(is_first: Array, first: Callable[..., State], second: Callable[..., State], *operands: Any) -> State:
    """`jax.lax.cond`."""
    chosen: State = lax.cond(is_first, *_varying_alike([first, second], operands), *operands)
    return chosen


def switch(number: Array, branches: Sequence[Callable[..., State]], *operands: Any) -> State:
    """`jax.lax.switch`."""
    chosen: State = lax.switch(number, _varying_alike(branches, operands), *operands)
    return chosen


def _varying_alike(branches: Sequence[Callable[..., State]], operands: tuple[Any, ...]) -> Sequence[Callable[..., State]]:
    """The branches, with results marked as varying over those axes of the mesh over which those of any branch vary."""
    if not _is_on_mesh():
        return branches
    axes = jax.tree.map(lambda *leaves: frozenset().union(*map(_axes, leaves)), *(jax.eval_shape(branch, *operands) for branch in branches))

    def marked(branch: Callable[..., State], *operands: Any) -> State:
        result: State = jax.tree.map(_vary, branch(*operands), axes)
        return result

    return [functools.partial(marked, branch) for branch in branches]


def _is_on_mesh() -> bool:
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _vary(leaf: Array, axes: frozenset[str]) -> Array:
    """The array, marked as varying over these axes too."""
    missing = tuple(sorted(axes - _axes(leaf)))
    return lax.pcast(leaf, missing, to="varying") if missing else leaf


def _varying_as_after(turn: Callable[[State], State], state: State) -> State:
    """The state, marked as varying over those axes of the mesh over which it varies after any number of turns."""
    while _is_on_mesh():
        axes = jax.tree.map(_axes, jax.eval_shape(turn, state))
        if all(jax.tree.leaves(jax.tree.map(lambda now, then: then <= _axes(now), state, axes))):
            break
        state = jax.tree.map(_vary, state, axes)
    return state


def _axes(leaf: Any) -> frozenset[str]:
    """The axes of the mesh over which an array varies."""
    return (leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)).manual_axis_type.varying


def bounded_loop(step: Callable[[State], State], unfinished: Callable[[State], Array], state: State, *, max_checks: int) -> tuple[State, Array]:
    """Runs `step` while `unfinished(state)`, at most `max_checks` times.

    `unfinished` should be an ordinary comparison such as `error > tolerance`: it is False on NaN, so that a loop on
    garbage ends. Under `vmap` the loop runs as long as its slowest member, and members that are done stand still.

    Args:
      step: state -> state, of the same structure, shapes and dtypes.
      unfinished: state -> [] bool.
      state: any pytree of arrays.
      max_checks: the cap, static.

    Returns:
      The last state, and the number of checks that were passed, [] int32: `max_checks` if the cap ended the loop.
    """

    def inner(carry: tuple[State, Array]) -> tuple[State, Array]:
        now, count = carry
        return step(now), count + jnp.ones((), jnp.int32)

    def keep_on(carry: tuple[State, Array]) -> Array:
        now, count = carry
        return unfinished(now) & (count < max_checks)

    return while_loop(keep_on, inner, (state, jnp.zeros((), jnp.int32)))


def one_of(is_first: Array, effort: Array, idle: Array | float, first: Callable[[Array], State], second: Callable[[Array], State]) -> State:
    """One of two computations of some effort; where both run, under `vmap`, the other one gets `idle`, with which its loops end at once.

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
    """Shows a step to the watcher, if there is one; False where that answers so. To answer nothing, None, is to go on."""
    answer = None if on_step is None else on_step(state, info)
    return answer is None or bool(answer)
