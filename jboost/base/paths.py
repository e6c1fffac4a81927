"""One booster for many numbers: what was learnt for one is there for the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import boosting, loops
from jboost.base.boosting import Fit, State
from jboost.base.status import Status
from jboost.base.types import Array, Dataset, PyTree

Reopen = Callable[[State, Array], State]


def open_again(state: State, number: Array, reopen: Reopen) -> State:
    """The state for another number, its traces empty; input that is not allowed stays so.

    Args:
      state: of the last number, finished or not.
      number: [].
      reopen: (state, number) -> the state with the columns kept and nothing proven but what they
        prove.
    """
    is_sound = state.status != int(Status.INVALID_INPUT)
    opened = reopen(state, number)
    return opened._replace(
        trace=jax.tree.map(lambda line: jnp.full_like(line, jnp.inf), state.trace),
        certificate=boosting.spoil_unless(is_sound, opened.certificate),
        status=jnp.where(is_sound, opened.status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def advance_to_end(state: State, dataset: Dataset) -> State:
    """Rounds until none is left or the booster stops."""
    last, _ = loops.bounded_loop(
        lambda now: boosting.advance(now, dataset),
        boosting.unfinished,
        state,
        max_checks=len(state.trace.edges),
    )
    return last


def _is_fit(part: Any) -> bool:
    """Whether it is a `Fit`, or a record with its fields and more."""
    return isinstance(part, tuple) and hasattr(part, "trace")


def walk(
    first: State,
    numbers: Array,
    reopen: Reopen,
    dataset: Dataset,
    *,
    finish: Callable[[State, Dataset], PyTree] = boosting.finish,
) -> Any:
    """A fit for each of the numbers [L], or as many as `finish` makes of a state, one number after
    the other; a leading axis [L] on every array.

    The rounds of `first` are those of the whole path; `num_rounds` and `trace` count the rounds of
    each number alone.
    """

    def visit(state: State, number: Array) -> tuple[State, PyTree]:
        last = advance_to_end(open_again(state, number, reopen), dataset)

        def alone(fit: Fit) -> Fit:
            trace = jax.tree.map(lambda line: jnp.roll(line, -state.num_rounds), fit.trace)
            return fit._replace(trace=trace, num_rounds=last.num_rounds - state.num_rounds)

        return last, jax.tree.map(alone, finish(last, dataset), is_leaf=_is_fit)

    _, fits = loops.scan(visit, first, numbers)
    return fits
