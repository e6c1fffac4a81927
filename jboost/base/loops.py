"""The one loop of jboost: a step, a check, and a cap; and the word that a watcher has in loops that the host drives."""

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


def goes_on(on_step: OnStep | None, state: Any, info: Any) -> bool:
    """Shows a step to the watcher, if there is one; False where that answers so. To answer nothing, None, is to go on."""
    answer = None if on_step is None else on_step(state, info)
    return answer is None or bool(answer)
