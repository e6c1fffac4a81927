"""The loops that run all rounds: one compiled program, or one round at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import batching, check, devices, loops
from jboost.base.boosting.protocols import Booster, Learner
from jboost.base.boosting.rounds import (
    advance,
    begin_compiled,
    begin_traced,
    finish,
    step_compiled,
    unfinished,
)
from jboost.base.boosting.types import Fit, State
from jboost.base.boosting.validation import check_arguments
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, Dataset

Finish = Callable[[State, Dataset], Fit]


def run(
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    *,
    key: Array | None,
    max_rounds: int,
    finish: Finish = finish,
) -> Fit:
    """`start`, rounds until none is left or the booster stops, `finish`: one compiled program.
    Raises what `start` raises.

    On a CPU it is compiled with the options of `drive`, so that the two end in the same bits as a
    rule; XLA may still merge operations otherwise in one program than in another, as it does for
    `l0`.
    """
    dataset = check_arguments(learner, dataset, max_rounds)
    return _run(booster, learner, dataset, key, max_rounds=max_rounds, finish=finish)


@functools.partial(devices.host_jit, platforms=("cpu",), static_argnames=("max_rounds", "finish"))
def _run(
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    key: Array | None,
    *,
    max_rounds: int,
    finish: Finish,
) -> Fit:
    def whole(booster: Booster, learner: Learner, dataset: Dataset, key: Array | None) -> Fit:
        first = begin_traced(booster, learner, dataset, key, max_rounds=max_rounds)
        last, _ = loops.bounded_loop(
            lambda state: advance(state, dataset), unfinished, first, max_checks=max_rounds
        )
        return finish(last, dataset)

    takes_turns = getattr(booster, "takes_turns", False)
    fitted: Fit = (batching.in_chunks(whole, at_once=1) if takes_turns else whole)(
        booster, learner, dataset, key
    )
    return fitted


def drive(
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    on_step: OnStep | None,
    *,
    key: Array | None,
    max_rounds: int,
    finish: Finish = finish,
    initial: State | None = None,
) -> Fit:
    """`run`, one compiled round at a time; `on_step(state, info)`, called between two, ends the
    loop by returning False.

    The status is then TIME_LIMIT, and the state that `on_step` was given goes on by `step(state,
    dataset)`, or as the `initial` of a later call, which ends in the same bits as a call that was
    not stopped. Not under jit or vmap.

    Raises:
      ValueError: what `start` raises; for traced data, which no host can look at; for an `initial`
        of another fit.
    """
    dataset = check_arguments(learner, dataset, max_rounds)
    check.can_be_watched(on_step, (booster, dataset, key, initial), between="rounds")
    finish_on_host = _on_host(finish)
    if initial is None:
        state = begin_compiled(booster, learner, dataset, key, max_rounds=max_rounds)
    else:
        state = _check_initial(initial, booster, learner, dataset, key, max_rounds=max_rounds)
    if bool(unfinished(state)):
        devices.compile_side_by_side(
            step_compiled.lower(state, dataset), finish_on_host.lower(state, dataset)
        )
    while bool(unfinished(state)):
        state, info = step_compiled(state, dataset)
        if not loops.goes_on(on_step, state, info):
            state = state._replace(
                status=jnp.where(unfinished(state), int(Status.TIME_LIMIT), state.status).astype(
                    jnp.int32
                )
            )
    return finish_on_host(state, dataset)


def fit(
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    *,
    key: Array | None,
    max_rounds: int,
    finish: Finish = finish,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> Fit:
    """`run`; `drive` where there is an `on_step` or an `initial`."""
    if on_step is None and initial is None:
        return run(booster, learner, dataset, key=key, max_rounds=max_rounds, finish=finish)
    return drive(
        booster,
        learner,
        dataset,
        on_step,
        key=key,
        max_rounds=max_rounds,
        finish=finish,
        initial=initial,
    )


def _check_initial(
    initial: State,
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    key: Array | None,
    *,
    max_rounds: int,
) -> State:
    """The state. Raises ValueError, naming what differs, where it is not one of this fit; of its
    data only the sizes are known.
    """
    remedy = "pass a state as `init` of this fit makes it, or as its `on_step` gets it"
    if not isinstance(initial, State):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.boosting.State; {remedy}"
        )
    rounds = len(initial.trace.edges)
    if rounds != max_rounds:
        raise ValueError(
            f"initial is a state of a fit of max_rounds={rounds}, and max_rounds is {max_rounds}:"
            " pass the same"
        )
    for name, one, other in (
        ("booster", initial.booster, booster),
        ("learner", initial.ensemble.learner, learner),
    ):
        if not _is_same(one, other):
            raise ValueError(
                f"initial is a state of the {name} {one!r}, and this fit is of {other!r}: {remedy}"
            )
    expected = jax.eval_shape(
        functools.partial(begin_traced, max_rounds=max_rounds), booster, learner, dataset, key
    )
    moving, wanted = (
        tree._replace(booster=None, ensemble=tree.ensemble._replace(learner=None))
        for tree in (initial, expected)
    )
    check.like("initial", moving, wanted, kind="jboost.boosting.State")
    return initial


def _is_same(one: Any, other: Any) -> bool:
    """Whether two pytrees of numbers are equal, NaN to NaN."""
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    structures: tuple[Any, ...] = jax.tree.structure(one), jax.tree.structure(other)
    return bool(structures[0] == structures[1]) and all(
        np.array_equal(np.asarray(leaf), np.asarray(its), equal_nan=True)
        for leaf, its in zip(leaves, others, strict=True)
    )


_on_host = functools.cache(devices.host_jit)
