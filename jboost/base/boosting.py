"""The one path that all boosters share: the learner proposes hypotheses, the booster takes their
columns and weighs the examples anew.

    dataset -> Learner.propose(example_weights) -> Proposal -> Booster.absorb(proposal) -> Absorbed
    -> ... -> Ensemble + Certificate

A learner is a `Learner` (jboost/base/protocols.py), or any other pytree with its three abstract
methods. A booster is anything with the methods of `Booster`. Both are pytrees, so that the numbers
inside them may be traced. `start`, `step` and `finish` run the rounds one by one; `run` runs them
in one compiled loop, `drive` in one that the host may watch and stop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import (
    batching,
    check,
    derivatives,
    devices,
    labelled,
    loops,
    meshes,
    numerics,
    reduce,
)
from jboost.base.loops import OnStep
from jboost.base.protocols import Booster as Booster
from jboost.base.protocols import Learner as Learner
from jboost.base.status import Status
from jboost.base.types import Array, Dataset, PyTree


class Proposal(NamedTuple):
    """What a learner offers under some example weights: k hypotheses, the best first."""

    hypotheses: PyTree  # leaves [k, ...]
    outputs: Array  # [k, m] in [-1, 1], on the examples of the data set
    # [k] what the learner maximises: the edge, sum_i example_weights_i y_i h(x_i), unless its
    # docstring says otherwise
    values: Array
    # [] no hypothesis of the learner, nor its negation if that is one, has a greater edge, rounding
    # included; +inf proves nothing
    upper_bound: Array
    state: PyTree  # for the next call


class Everything(NamedTuple):
    """All hypotheses of a learner that can list them by a method `every(state)`, with what they
    cost.
    """

    hypotheses: PyTree  # leaves [U, ...]
    outputs: Array  # [U, m], 0 on padding
    costs: Array  # [U]


class Ensemble(NamedTuple):
    """A weighted vote of hypotheses. Each hypothesis h adds votes[0] h(x) where h(x) > 0 and
    votes[1] h(x) where h(x) < 0.

    An infinite vote settles a row: the first hypothesis, in order, that casts one decides alone,
    with an infinite score.
    """

    learner: Any  # the learner, which knows how to evaluate a hypothesis
    hypotheses: PyTree  # leaves [capacity, ...]
    # [capacity, 2] for positive and for negative outputs; 0 in slots that are not in use
    votes: Array
    constant: Array  # [] added to every score; NaN if the fit ended in INVALID_INPUT
    count: Array  # [] int32, slots in use


class Certificate(NamedTuple):
    """Bounds that anyone can recompute from the ensemble and from `example_weights`; each booster
    says of what.
    """

    lower_bound: Array  # []
    # [] over all hypotheses of the learner; +inf where the learner proves nothing
    upper_bound: Array
    seen_upper_bound: Array  # [] over the hypotheses that the ensemble has a slot for
    example_weights: Array  # [m] that prove `seen_upper_bound`


class Trace(NamedTuple):
    """One number per round; +inf past the last round."""

    edges: Array  # [max_rounds] of the best proposed hypothesis
    lower_bounds: Array  # [max_rounds]
    upper_bounds: Array  # [max_rounds]
    seen_upper_bounds: Array  # [max_rounds]


class Absorbed(NamedTuple):
    """What a booster makes of a proposal."""

    memory: PyTree
    example_weights: Array  # [m] for the next proposal
    # [k] int32, where the proposed hypotheses go; the capacity for those that are dropped
    slots: Array
    votes: Array  # [capacity, 2], of all slots
    constant: Array  # []
    count: Array  # [] int32
    certificate: Any  # a `Certificate`, or a record with its fields and more
    edge: Array  # [] of the best proposed hypothesis
    status: Array  # [] int32, UNFINISHED to go on


class State(NamedTuple):
    """What the next step needs: `step(state, dataset)`."""

    booster: Any
    learner: PyTree  # the learner's state
    memory: PyTree  # the booster's
    example_weights: Array  # [m] under which the next hypothesis is asked for
    ensemble: Ensemble
    certificate: Any  # a `Certificate`, or a record with its fields and more
    trace: Trace
    num_rounds: Array  # [] int32
    status: Array  # [] int32, UNFINISHED while rounds remain and nothing stopped them


class Info(NamedTuple):
    """One round, as a progress bar would show it."""

    num_rounds: Array  # []
    edge: Array  # []
    lower_bound: Array  # []
    upper_bound: Array  # []
    seen_upper_bound: Array  # []


class Fit(NamedTuple):
    """What a booster returns."""

    ensemble: Ensemble
    certificate: Any  # a `Certificate`, or a record with its fields and more
    trace: Trace
    num_rounds: Array  # [] int32
    status: Array  # [] int32


def has_negations(learner: Learner) -> bool:
    """Whether the negation of a hypothesis is one too; True where the learner does not say."""
    return bool(getattr(learner, "has_negations", True))


def has_quick_answers(learner: Learner) -> bool:
    """Whether a learner has the method `propose_above`, and gains by it; False where it does not
    say.
    """
    return bool(getattr(learner, "has_quick_answers", False))


def before_first_round(
    memory: PyTree, example_weights: Array, certificate: Any, capacity: int
) -> Absorbed:
    """What a booster's `init` returns: no votes in any slot, and a first question to
    the learner.
    """
    zero = jnp.zeros((), example_weights.dtype)
    return Absorbed(
        memory=memory,
        example_weights=example_weights,
        slots=jnp.zeros((1,), jnp.int32),
        votes=jnp.zeros((capacity, 2), example_weights.dtype),
        constant=zero,
        count=jnp.zeros((), jnp.int32),
        certificate=certificate,
        edge=zero,
        status=jnp.full((), int(Status.UNFINISHED)),
    )


def take_slot(
    ensemble: Ensemble, proposed: Array, vote: Array, is_wanted: Array
) -> tuple[Array, Array, Array]:
    """The next free slot for one of the proposed hypotheses, with its vote [] or [2], where it is
    wanted.

    Args:
      proposed: [k] bool, True for the one.

    Returns:
      The `slots`, `votes` and `count` of `Absorbed`.
    """
    slots = jnp.where(proposed & is_wanted, ensemble.count, ensemble.votes.shape[0])
    votes = ensemble.votes.at[ensemble.count].set(jnp.where(is_wanted, vote, 0.0), mode="drop")
    return slots, votes, ensemble.count + is_wanted.astype(jnp.int32)


def enter_columns(
    columns: Array, count: Array, rows: Array, wanted: Array
) -> tuple[Array, Array, Array]:
    """Writes the wanted rows into slots: that of an equal column if there is one, else the next
    free one.

    Args:
      columns: [capacity, m].
      count: [] int32, how many slots are in use.
      rows: [k, m].
      wanted: [k] bool.

    Returns:
      The columns, the slots [k] int32, and the count; a slot is the capacity for a row that is not
      wanted or finds no room.
    """
    capacity = columns.shape[0]

    def enter(
        carry: tuple[Array, Array], item: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        columns, count = carry
        row, is_wanted = item
        is_same = jnp.all(columns == row[None, :], axis=1) & (jnp.arange(capacity) < count)
        is_known = jnp.any(is_same)
        slot = jnp.where(
            is_wanted, jnp.where(is_known, jnp.argmax(is_same), count), capacity
        ).astype(jnp.int32)
        entered = columns.at[slot].set(row, mode="drop")
        return (
            entered,
            count + (is_wanted & ~is_known & (count < capacity)).astype(jnp.int32),
        ), slot

    (columns, count), slots = loops.scan(enter, (columns, count), (rows, wanted))
    return columns, slots, count


def spoil_unless(is_sound: Array, certificate: Any) -> Any:
    """The certificate, or NaN in all its floats: what came from input that is not allowed bounds
    nothing.
    """

    def spoil(certificate: Any) -> Any:
        return jax.tree.map(
            lambda leaf: (
                jnp.full_like(leaf, jnp.nan) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
            ),
            certificate,
        )

    return loops.cond(is_sound, lambda same: same, spoil, certificate)


def is_valid(dataset: Dataset) -> Array:
    """Whether labels, weights and mask are allowed, [] bool; features are judged by the learner's
    outputs.
    """
    labels_are_signs = (dataset.labels == 1) | (dataset.labels == -1)
    return _holds_where_it_counts(dataset, _weights_are_sound(dataset) & labels_are_signs)


def has_sound_weights(dataset: Dataset) -> Array:
    """Whether an example counts, and all that do have weights that are positive, normal and finite,
    [] bool.
    """
    return _holds_where_it_counts(dataset, _weights_are_sound(dataset))


def _weights_are_sound(dataset: Dataset) -> Array:
    weights = dataset.weights.astype(jnp.result_type(float))
    return (weights >= jnp.finfo(weights.dtype).tiny) & (weights < jnp.inf)


def _holds_where_it_counts(dataset: Dataset, condition: Array) -> Array:
    """Whether an example counts, and the condition [m] holds of all that do, [] bool."""
    counts = dataset.mask.astype(jnp.int32)
    num_examples, num_exceptions = reduce.totals(counts, jnp.where(condition, 0, counts))
    return (num_examples > 0) & (num_exceptions == 0)


def signs(dataset: Dataset) -> Array:
    """The labels as floats [m], 0 on padding: what turns outputs into margins."""
    return jnp.where(dataset.mask, jnp.sign(dataset.labels.astype(jnp.result_type(float))), 0.0)


def initial_distribution(dataset: Dataset) -> Array:
    """The weights that the user gives, as a distribution over the examples, [m]: positive, however
    small a share is, on all that are not padding.
    """
    weights = numerics.to_unit(
        jnp.where(dataset.mask, dataset.weights.astype(jnp.result_type(float)), 0.0)
    )
    total = numerics.precise_sum(weights)
    shares = numerics.safe_divide(weights, jnp.full_like(weights, total))
    tiny = jnp.finfo(shares.dtype).tiny
    return jnp.where(dataset.mask & (shares < tiny), tiny, shares)


@meshes.takes_sharded
@derivatives.without("init of a booster")
def start(
    booster: Booster, learner: Learner, dataset: Dataset, *, key: Array | None, max_rounds: int
) -> State:
    """The state before the first round, with room for `max_rounds`.

    Raises:
      ValueError: at trace time, naming the argument: `max_rounds` below 1, a learner that is no
        pytree of numbers, outputs of a wrong shape, a learner's state whose shapes change from one
        round to the next. Where their values are known, for labels and weights that are not
        allowed.
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
    """`start`, of arguments that `check_arguments` has seen: compiled where they are concrete, so
    that `drive` begins with the same bits.
    """
    make = _begin if check.are_traced((booster, learner, dataset, key)) else _start
    return make(booster, learner, dataset, key, max_rounds=max_rounds)


def _begin(
    booster: Booster, learner: Learner, dataset: Dataset, key: Array | None, *, max_rounds: int
) -> State:
    state = learner.init(key, dataset)
    num_proposed, hypotheses = _validate_proposal(learner, state, len(dataset.labels))
    capacity = booster.capacity(max_rounds, num_proposed)
    if getattr(booster, "takes_each_once", False) and hasattr(learner, "num_hypotheses"):
        num_hypotheses = learner.num_hypotheses(dataset.features.shape[1])
        takes_all = hasattr(booster, "takes_all") and booster.takes_all(learner, dataset)
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
        trace=Trace(unused, unused, unused, unused),
        num_rounds=jnp.zeros((), jnp.int32),
        status=jnp.where(sound, first.status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def check_arguments(learner: Learner, dataset: Dataset, max_rounds: int) -> Dataset:
    """The data set as it counts, with examples of weight 0 masked out.

    Raises:
      ValueError: naming the argument, for what `jax.jit` would say less clearly; where values are
        known, for labels and weights that are not allowed, and for features that the learner does
        not take.
    """
    check.count("max_rounds", max_rounds, low=1)
    dataset = check_kinds(learner, dataset)
    check.pytree_of_numbers(
        "learner",
        learner,
        remedy=(
            "register its dataclass by jboost.learners.register, functions and sizes in fields with"
            " metadata={'static': True}"
        ),
    )
    validate = getattr(learner, "validate", None)
    # else the outputs are NaN, and the status INVALID_INPUT on every process
    if validate is not None and check.are_known(dataset):
        validate(dataset)
    return dataset


def check_kinds(learner: Learner, dataset: Dataset) -> Dataset:
    """The data set as it counts. Raises ValueError unless these are a learner and a data set of
    labels and weights that are allowed, where known.
    """
    missing = [name for name in ("init", "propose", "outputs") if not hasattr(learner, name)]
    if missing:
        raise ValueError(
            f"learner is a {type(learner).__name__} without {', '.join(missing)}: pass one of"
            " jboost.learners, or of your own"
        )
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"dataset is a {type(dataset).__name__}: expected a jboost.Dataset;"
            " jboost.make_dataset(features, labels) makes one"
        )
    return labelled.counted(dataset)


def validate_size(dataset: Dataset) -> None:
    """Raises ValueError unless there is a row, for what cannot do without."""
    if dataset.labels.shape[0] == 0:
        raise ValueError("dataset has no examples: expected one at least, which may be masked out")


def _validate_proposal(learner: Learner, state: PyTree, num_examples: int) -> tuple[int, PyTree]:
    example_weights = jax.ShapeDtypeStruct((num_examples,), jnp.result_type(float))
    proposal = jax.eval_shape(learner.propose, state, example_weights)
    validate_outputs(proposal, num_examples)
    before, after = (
        jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)
        for tree in (state, proposal.state)
    )
    if before != after:
        raise ValueError(
            f"learner changes the shapes of its state from {before} to {after}: keep shapes and"
            " dtypes from round to round"
        )
    return proposal.outputs.shape[0], proposal.hypotheses


def validate_outputs(proposal: Proposal, num_examples: int) -> None:
    """Raises ValueError, naming the learner, unless there are k rows of outputs on all examples and
    as many hypotheses and values.
    """
    shape = proposal.outputs.shape
    if len(shape) != 2 or shape[1] != num_examples:
        raise ValueError(
            f"learner proposes outputs of shape {list(shape)}: expected [k, {num_examples}], a row"
            " for each hypothesis"
        )
    sizes = {leaf.shape[:1] for leaf in jax.tree.leaves(proposal.hypotheses)} | {
        proposal.values.shape
    }
    if sizes != {shape[:1]}:
        raise ValueError(
            f"learner proposes {shape[0]} rows of outputs, but hypotheses or values of leading"
            f" sizes {sorted(sizes)}"
        )


@meshes.takes_sharded
@derivatives.without("step of a booster")
def step(state: State, dataset: Dataset) -> tuple[State, Info]:
    """One round, for a loop of one's own, `jax.jit` or `lax.scan`; a state that is not UNFINISHED
    is returned as it is.

    Called on concrete arrays it is the compiled round of `fit`, to the bit. Inside a program of the
    caller's XLA may round otherwise, as it merges operations in other ways.
    """
    dataset = labelled.mask_zeros(dataset)
    return (_one_step if check.are_traced((state, dataset)) else _step)(state, dataset)


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
    """Whether there is a round to come, [] bool."""
    return (state.status == int(Status.UNFINISHED)) & (state.num_rounds < len(state.trace.edges))


def _ask(state: State, dataset: Dataset) -> Any:
    """The learner's answer to the booster's question."""
    learner = state.ensemble.learner
    ask = getattr(state.booster, "ask", None)
    if ask is not None:
        return ask(state.memory, dataset, learner, state.learner)
    return learner.propose(state.learner, state.example_weights)


def advance(state: State, dataset: Dataset) -> State:
    """One round, whatever the status."""
    proposal = _ask(state, dataset)
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
    )
    return State(
        booster=state.booster,
        learner=proposal.state,
        memory=now.memory,
        example_weights=now.example_weights,
        ensemble=Ensemble(state.ensemble.learner, hypotheses, now.votes, now.constant, now.count),
        certificate=certificate,
        trace=Trace(
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
    """What a state has come to; UNFINISHED becomes ROUND_LIMIT once all rounds are used. A
    booster's own `finish` may look at the data.
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
    """The ensemble; of a fit that ends in INVALID_INPUT one whose scores are NaN."""
    return ensemble._replace(
        constant=jnp.where(status == int(Status.INVALID_INPUT), jnp.nan, ensemble.constant)
    )


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
        first = _begin(booster, learner, dataset, key, max_rounds=max_rounds)
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
        state = _start(booster, learner, dataset, key, max_rounds=max_rounds)
    else:
        state = _check_initial(initial, booster, learner, dataset, key, max_rounds=max_rounds)
    if bool(unfinished(state)):
        devices.compile_side_by_side(
            _step.lower(state, dataset), finish_on_host.lower(state, dataset)
        )
    while bool(unfinished(state)):
        state, info = _step(state, dataset)
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
        functools.partial(_begin, max_rounds=max_rounds), booster, learner, dataset, key
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


@devices.host_jit(static_argnames=("max_rounds",))
def _start(
    booster: Booster, learner: Learner, dataset: Dataset, key: Array | None, *, max_rounds: int
) -> State:
    first = _begin(booster, learner, dataset, key, max_rounds=max_rounds)
    # A weak type would last for one round alone: the second one would need a program of its own.
    return jax.tree.map(
        lambda leaf: leaf.astype(leaf.dtype) if isinstance(leaf, jax.Array) else leaf, first
    )


@devices.host_jit
def _step(state: State, dataset: Dataset) -> tuple[State, Info]:
    return _one_step(state, dataset)
