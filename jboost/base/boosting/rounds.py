"""The rounds of a booster, one by one: `start`, `step` and `finish`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import check, derivatives, devices, labelled, loops, meshes, reduce
from jboost.base.boosting.protocols import Booster, Learner
from jboost.base.boosting.slots import spoil_unless
from jboost.base.boosting.types import Ensemble, Fit, Info, State
from jboost.base.boosting.validation import (
    check_arguments,
    is_valid,
    validate_costs,
    validate_key,
    validate_proposal,
)
from jboost.base.protocols import hook, optional_hook
from jboost.base.status import Status
from jboost.base.types import Array, Dataset


@meshes.takes_sharded
@derivatives.without("init of a booster")
def start(
    booster: Booster, learner: Learner, dataset: Dataset, *, key: Array | None, max_rounds: int
) -> State:
    """The state before the first round, with a capacity for `max_rounds` rounds.

    Raises:
      ValueError: at trace time, naming the argument: for `max_rounds` below 1, a learner that is
        not a pytree of numbers, outputs of a wrong shape, or a learner's state whose shapes change
        from round to round; for concrete labels and weights that are not allowed.
    """
    return begin(
        booster,
        learner,
        check_arguments(learner, dataset, max_rounds),
        key=key,
        max_rounds=max_rounds,
    )


def begin(
    booster: Booster, learner: Learner, dataset: Dataset, *, key: Array | None, max_rounds: int
) -> State:
    """`start` for checked arguments. It is compiled if they are concrete, so that `drive` starts
    from a bitwise equal state.
    """
    validate_key(key)
    make = begin_traced if check.are_traced((booster, learner, dataset, key)) else begin_compiled
    return make(booster, learner, dataset, key, max_rounds=max_rounds)


def begin_traced(
    booster: Booster, learner: Learner, dataset: Dataset, key: Array | None, *, max_rounds: int
) -> State:
    validate_costs(booster, learner)
    state = learner.init(key, dataset)
    num_proposed, hypotheses = validate_proposal(learner, state, len(dataset.labels))
    capacity = booster.capacity(max_rounds, num_proposed)
    count_hypotheses = optional_hook(Learner, learner, "num_hypotheses")
    if hook(Booster, booster, "takes_each_once") and count_hypotheses is not None:
        num_hypotheses = count_hypotheses(dataset.features.shape[1])
        takes_all = hook(Booster, booster, "takes_all")(learner, dataset)
        capacity = num_hypotheses if takes_all else min(capacity, num_hypotheses)
    first = booster.init(dataset, capacity)
    unused = jnp.full((max_rounds,), jnp.inf, first.edge.dtype)
    slots = jax.tree.map(
        lambda leaf: jnp.zeros((capacity, *leaf.shape[1:]), leaf.dtype), hypotheses
    )
    sound = is_valid(dataset) & (first.status != int(Status.INVALID_INPUT))
    return State(
        booster=booster,
        learner=state,
        memory=first.memory,
        example_weights=first.example_weights,
        ensemble=Ensemble(learner, slots, first.votes, first.constant, first.count),
        certificate=spoil_unless(sound, first.certificate),
        trace=hook(Booster, booster, "empty_trace")(unused),
        num_rounds=jnp.zeros((), jnp.int32),
        status=jnp.where(sound, first.status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


@meshes.takes_sharded
@derivatives.without("step of a booster")
def step(state: State, dataset: Dataset) -> tuple[State, Info]:
    """One round, for a loop of your own, `jax.jit` or `lax.scan`. A state that is not UNFINISHED is
    returned unchanged.

    On concrete arrays it runs the compiled round of `fit`, with bitwise equal results. Inside a
    program of the caller, XLA may fuse operations differently, so that results differ by rounding.
    """
    dataset = labelled.mask_zeros(dataset)
    one_step = _one_step if check.are_traced((state, dataset)) else step_compiled
    after, info = one_step(state._replace(checksums=None), dataset)
    return after._replace(checksums=state.checksums), info


def _one_step(state: State, dataset: Dataset) -> tuple[State, Info]:
    state = loops.cond(unfinished(state), advance, lambda same, _: same, state, dataset)
    certificate = state.certificate
    edge = state.trace.edges[jnp.maximum(state.num_rounds - 1, 0)]
    return state, Info(
        state.num_rounds,
        edge,
        certificate.lower_bound,
        certificate.upper_bound,
        certificate.seen_upper_bound,
    )


def unfinished(state: State) -> Array:
    """Whether another round follows, [] bool."""
    return (state.status == int(Status.UNFINISHED)) & (state.num_rounds < len(state.trace.edges))


def _propose(state: State, dataset: Dataset) -> Any:
    """The proposal of the learner, or the result of the booster's `ask` hook."""
    learner = state.ensemble.learner
    ask = optional_hook(Booster, state.booster, "ask")
    if ask is not None:
        return ask(state.memory, dataset, learner, state.learner)
    return learner.propose(state.learner, state.example_weights)


def advance(state: State, dataset: Dataset) -> State:
    """One round, for any status."""
    proposal = _propose(state, dataset)
    proposal = proposal._replace(
        outputs=jnp.where(
            dataset.mask[None, :], proposal.outputs, jnp.zeros((), proposal.outputs.dtype)
        )
    )
    now = state.booster.absorb(state.memory, dataset, proposal, state.ensemble)
    sound = reduce.all_true(
        jnp.abs(proposal.outputs.astype(jnp.result_type(float))) <= 1, axis=(0, 1)
    ) & (now.status != int(Status.INVALID_INPUT))
    hypotheses = jax.tree.map(
        lambda slots, new: slots.at[now.slots].set(new, mode="drop"),
        state.ensemble.hypotheses,
        proposal.hypotheses,
    )
    certificate = spoil_unless(sound, now.certificate)
    bounds = (
        now.edge,
        certificate.lower_bound,
        certificate.upper_bound,
        certificate.seen_upper_bound,
        *now.measures,
    )
    return State(
        booster=state.booster,
        learner=proposal.state,
        memory=now.memory,
        example_weights=now.example_weights,
        ensemble=Ensemble(state.ensemble.learner, hypotheses, now.votes, now.constant, now.count),
        certificate=certificate,
        trace=type(state.trace)(
            *(
                column.at[state.num_rounds].set(bound)
                for column, bound in zip(state.trace, bounds, strict=True)
            )
        ),
        num_rounds=state.num_rounds + 1,
        status=jnp.where(sound, now.status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


@meshes.takes_sharded
@derivatives.without("finish of a booster")
def finish(state: State, dataset: Dataset | None = None) -> Fit:
    """The result of a state. The status UNFINISHED becomes ROUND_LIMIT if all rounds are used.
    `dataset` is not used here; the `finish` of some boosters needs it.
    """
    del dataset
    used_up = (state.status == int(Status.UNFINISHED)) & (
        state.num_rounds >= len(state.trace.edges)
    )
    status = jnp.where(used_up, int(Status.ROUND_LIMIT), state.status).astype(jnp.int32)
    return Fit(
        unless_invalid(state.ensemble, status),
        state.certificate,
        state.trace,
        state.num_rounds,
        status,
    )


def unless_invalid(ensemble: Ensemble, status: Array) -> Ensemble:
    """The ensemble; if the status is INVALID_INPUT, with scores that are all NaN."""
    return ensemble._replace(
        constant=jnp.where(status == int(Status.INVALID_INPUT), jnp.nan, ensemble.constant)
    )


@devices.host_jit(static_argnames=("max_rounds",))
def begin_compiled(
    booster: Booster, learner: Learner, dataset: Dataset, key: Array | None, *, max_rounds: int
) -> State:
    first = begin_traced(booster, learner, dataset, key, max_rounds=max_rounds)
    # A weak type would only last until the first round, and the second round would be compiled
    # again.
    return jax.tree.map(
        lambda leaf: leaf.astype(leaf.dtype) if isinstance(leaf, jax.Array) else leaf, first
    )


@devices.host_jit
def step_compiled(state: State, dataset: Dataset) -> tuple[State, Info]:
    return _one_step(state, dataset)
