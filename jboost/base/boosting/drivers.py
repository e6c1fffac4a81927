"""The loops that run all rounds: one compiled program, or one round at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import batching, check, checksums, devices, exact_sums, loops, meshes
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
from jboost.base.boosting.validation import check_arguments, validate_key
from jboost.base.loops import OnStep
from jboost.base.protocols import hook
from jboost.base.status import Status
from jboost.base.types import Array, Dataset, is_packed

Finish = Callable[[State, Dataset], Any]  # a `Fit`, or a record with its fields and more


def run(
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    *,
    key: Array | None,
    max_rounds: int,
    finish: Finish = finish,
) -> Fit:
    """All rounds of a fit in one compiled program: `start`, rounds until the limit or until the
    booster stops, then `finish`. Raises the errors of `start`.

    On a CPU it is compiled with the options of `drive`, so that the two results are usually bitwise
    equal. XLA may still fuse operations differently in the two programs, as it does for `l0`.
    """
    dataset = check_arguments(learner, dataset, max_rounds)
    return _run(booster, learner, dataset, key, max_rounds=max_rounds, finish=finish)


@devices.public_jit(static_argnames=("max_rounds", "finish"))
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

    takes_turns = hook(Booster, booster, "takes_turns")
    fitted: Fit = (batching.in_chunks(whole, at_once=1) if takes_turns else whole)(
        booster, learner, dataset, key
    )
    return fitted


def lower(
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    *,
    key: Array | None,
    max_rounds: int,
    finish: Finish = finish,
) -> jax.stages.Lowered:
    """The program of `run`, lowered, for validated arguments that are not traced."""
    lowered: jax.stages.Lowered = _run.lower(
        booster, learner, dataset, key, max_rounds=max_rounds, finish=finish
    )
    return lowered


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
    """As `run`, with one compiled round at a time. `on_step(state, info)` is called between rounds;
    False ends the loop.

    The status is then TIME_LIMIT. The state that `on_step` got can be continued by `step(state,
    dataset)`, or as the `initial` of a later call. The result of that call is bitwise that of a
    call without interruption. The state holds checksums of the data set, for which the features are
    read once. Not under jit or vmap.

    Raises:
      ValueError: as for `start`; for traced data, which the host cannot read; for an `initial` of
        another fit or of other data. A state without checksums is accepted for any data of its
        sizes: one that `init` made, or an earlier version.
    """
    dataset = check_arguments(learner, dataset, max_rounds)
    check.can_be_watched(on_step, (booster, dataset, key, initial), between="rounds")
    finish_on_host = _on_host(finish)
    if initial is None:
        state = begin_compiled(booster, learner, dataset, key, max_rounds=max_rounds)
    else:
        state = _check_initial(initial, booster, learner, dataset, key, max_rounds=max_rounds)
    # Compiled programs do not see the checksums.
    found = _checksums(dataset, on_step, state)
    state = state._replace(checksums=None)
    if bool(unfinished(state)):
        devices.compile_side_by_side(
            step_compiled.lower(state, dataset), finish_on_host.lower(state, dataset)
        )
    while bool(unfinished(state)):
        state, info = step_compiled(state, dataset)
        if not loops.goes_on(on_step, state._replace(checksums=found), info):
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
    deterministic: bool = False,
) -> Fit:
    """`drive` if there is an `on_step` or an `initial`, else `run`.

    With `deterministic` all sums over the examples are those of `exact_sums`. Raises ValueError,
    naming the argument, for a learner or features of which this is not known, and for few rows.
    """
    check.choice("deterministic", deterministic, (False, True))
    check.watcher("on_step", on_step)
    validate_key(key)
    if deterministic:
        _validate_exact_sums(learner, dataset)
        return exact_sums.in_scope(
            fit,
            booster,
            learner,
            dataset,
            key=key,
            max_rounds=max_rounds,
            finish=finish,
            on_step=on_step,
            initial=initial,
        )
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


def _validate_exact_sums(learner: Learner, dataset: Dataset) -> None:
    if not hook(Learner, learner, "has_exact_sums"):
        raise ValueError(
            f"learner is a {type(learner).__name__}, whose sums may depend on the number of"
            " devices: with deterministic=True pass jboost.learners.pool, literals or stumps"
        )
    if isinstance(dataset, Dataset) and is_packed(dataset.features):
        raise ValueError(
            f"dataset has features of type {type(dataset.features).__name__}, and deterministic is"
            " True: pass features.to_dense(), or deterministic=False"
        )
    if isinstance(dataset, Dataset):
        meshes.validate_rows_for_exact_sums("dataset", dataset.labels.shape[0])


def _check_initial(
    initial: State,
    booster: Booster,
    learner: Learner,
    dataset: Dataset,
    key: Array | None,
    *,
    max_rounds: int,
) -> State:
    """The state. Raises ValueError, naming the difference, if it is not a state of this fit. Of the
    data this checks the sizes.
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
        tree._replace(booster=None, ensemble=tree.ensemble._replace(learner=None), checksums=None)
        for tree in (initial, expected)
    )
    check.like("initial", moving, wanted, kind="jboost.boosting.State")
    return initial


def _checksums(dataset: Dataset, on_step: OnStep | None, state: State) -> np.ndarray | None:
    """The checksums of the data set, where states are given out or one that holds them came in.
    Raises ValueError, naming what differs, for a state of other data.
    """
    if on_step is None and state.checksums is None:
        return None
    found = checksums.of_dataset(dataset)
    if state.checksums is not None:
        checksums.require_same(state.checksums, found, parts=Dataset._fields, what="fit")
    return found


def _is_same(one: Any, other: Any) -> bool:
    """Whether two pytrees of numbers are equal; NaN counts as equal to NaN."""
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    structures: tuple[Any, ...] = jax.tree.structure(one), jax.tree.structure(other)
    return bool(structures[0] == structures[1]) and all(
        np.array_equal(np.asarray(leaf), np.asarray(its), equal_nan=True)
        for leaf, its in zip(leaves, others, strict=True)
    )


_on_host = functools.cache(devices.host_jit)
