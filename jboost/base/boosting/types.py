"""Records of the boosting loop: what learners, boosters and the loop pass to each other."""

from __future__ import annotations

from typing import Any, NamedTuple

from jboost.base.types import Array, PyTree


class Proposal(NamedTuple):
    """The proposal of a learner under some example weights: k hypotheses, best first."""

    hypotheses: PyTree  # leaves [k, ...]
    outputs: Array  # [k, m] in [-1, 1], on the examples of the data set
    # [k] the criterion that the learner maximises: the edge, sum_i example_weights_i y_i h(x_i),
    # unless its docstring defines another one
    values: Array
    # [] an upper bound, valid despite rounding, on the edges of all hypotheses of the learner (and
    # of their negations, if these are hypotheses); +inf proves nothing
    upper_bound: Array
    state: PyTree  # for the next call


class Everything(NamedTuple):
    """All hypotheses of a learner with a method `every(state)`, with their costs."""

    hypotheses: PyTree  # leaves [U, ...]
    outputs: Array  # [U, m], 0 on padding
    costs: Array  # [U]


class Ensemble(NamedTuple):
    """A weighted vote of hypotheses. Each hypothesis h adds votes[0] h(x) where h(x) > 0 and
    votes[1] h(x) where h(x) < 0.

    If a hypothesis adds an infinite vote to a row, the score of that row is infinite. Its sign is
    that of the first such vote, in the order of the slots.
    """

    learner: Any  # the learner, which evaluates hypotheses
    hypotheses: PyTree  # leaves [capacity, ...]
    # [capacity, 2] for positive and for negative outputs; 0 in slots that are not in use
    votes: Array
    constant: Array  # [] added to every score; NaN if the fit ended in INVALID_INPUT
    count: Array  # [] int32, slots in use


class Certificate(NamedTuple):
    """Bounds that anyone can recompute from the ensemble and from `example_weights`. The bounded
    quantity is documented by each booster.
    """

    lower_bound: Array  # []
    # [] over all hypotheses of the learner; +inf if the learner proves nothing
    upper_bound: Array
    seen_upper_bound: Array  # [] over the hypotheses that the ensemble has a slot for
    example_weights: Array  # [m] that prove `seen_upper_bound`


class Trace(NamedTuple):
    """One number per round; +inf past the last round. A booster may have a record with more fields
    (`Booster.empty_trace`).
    """

    edges: Array  # [max_rounds] of the best proposed hypothesis
    lower_bounds: Array  # [max_rounds]
    upper_bounds: Array  # [max_rounds]
    seen_upper_bounds: Array  # [max_rounds]


class Absorbed(NamedTuple):
    """The result of a booster's `absorb`."""

    memory: PyTree
    example_weights: Array  # [m] for the next proposal
    # [k] int32, the slots of the proposed hypotheses; the capacity for those that are dropped
    slots: Array
    votes: Array  # [capacity, 2], of all slots
    constant: Array  # []
    count: Array  # [] int32
    certificate: Any  # a `Certificate`, or a record with its fields and more
    edge: Array  # [] of the best proposed hypothesis
    status: Array  # [] int32, UNFINISHED to continue
    # the numbers [] of this round for the fields that the trace of the booster has after those of
    # `Trace`, in their order
    measures: tuple[Array, ...] = ()


class State(NamedTuple):
    """The state of a fit between rounds, the argument of `step(state, dataset)`."""

    booster: Any
    learner: PyTree  # the learner's state
    memory: PyTree  # the booster's
    example_weights: Array  # [m] under which the learner proposes next
    ensemble: Ensemble
    certificate: Any  # a `Certificate`, or a record with its fields and more
    trace: Any  # a `Trace`, or a record with its fields and more
    num_rounds: Array  # [] int32
    status: Array  # [] int32, UNFINISHED while rounds remain and nothing stopped them
    # [4] uint32, on the host, of the features, labels, weights and mask, in a state that `on_step`
    # receives; None in others. A fit of other data refuses the state as its `initial`.
    checksums: Any = None


class Info(NamedTuple):
    """A summary of one round, for progress reports."""

    num_rounds: Array  # []
    edge: Array  # []
    lower_bound: Array  # []
    upper_bound: Array  # []
    seen_upper_bound: Array  # []


class Fit(NamedTuple):
    """The result of a booster."""

    ensemble: Ensemble
    certificate: Any  # a `Certificate`, or a record with its fields and more
    trace: Any  # a `Trace`, or a record with its fields and more
    num_rounds: Array  # [] int32
    status: Array  # [] int32
