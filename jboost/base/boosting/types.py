"""Records of the boosting loop: what learners, boosters and the loop pass to each other."""

from __future__ import annotations

from typing import Any, NamedTuple

from jboost.base.types import Array, PyTree


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
