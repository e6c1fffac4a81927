"""The one loop of jboost: a step, a check, and a cap; one of two that hold loops; and the word that a watcher has in loops that the host drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import numerics
from jboost.base.types import Array

State = TypeVar("State")
OnStep = Callable[[Any, Any], bool | None]  # state and info of a loop that the host drives -> False to end it


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

    none = numerics.start_loop_beside(jnp.zeros((), jnp.int32), jax.tree.leaves(state)[0])
    return lax.while_loop(keep_on, inner, (state, none))


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
    found: State = lax.cond(is_first, lambda: first(efforts[0]), lambda: second(efforts[1]))
    return found


def goes_on(on_step: OnStep | None, state: Any, info: Any) -> bool:
    """Shows a step to the watcher, if there is one; False where that answers so. To answer nothing, None, is to go on."""
    answer = None if on_step is None else on_step(state, info)
    return answer is None or bool(answer)
