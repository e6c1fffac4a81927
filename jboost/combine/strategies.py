"""A combination of many classifiers from exact combinations of pairs (Boyarshinov and Magdon-Ismail
2005, Section 4), from arrays to a `LinearVote`.

The steps: arrays -> `votes.gather` (columns and integer weights, in 64 bits) -> a strategy, which
tries pairs -> the best vote found, evaluated again on the scores as they were passed -> a lower
bound.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import jax.numpy as jnp
from jax import lax

from jboost.base import check, derivatives, devices, labelled, meshes, numerics
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.combine import agglomerate, coordinate, exact, stacking
from jboost.combine.branch_and_cut import ExactState
from jboost.combine.results import (
    StrategyResult,
    best_at_lengths,
    directions_of,
    found,
    solve_votes,
)
from jboost.combine.stacking import LogOdds
from jboost.combine.types import LinearVote
from jboost.combine.votes import Arithmetic, ScoredExamples
from jboost.pair.separator import optimal_separator

STRATEGIES = ("greedy", "hierarchical", "coordinate", "exact")
_MOST_SWEPT = 3  # the most classifiers for which the sweeps find the optimum
# How much larger than another score the sweeps of three take a score, less than their own limit.
_MOST_SPREAD = 2.0**20
_MOST_FACTOR = 2.0**900  # by which a score is multiplied, so that nothing overflows
# The most classifiers for branch and cut. Infeasible subsystems of more examples bound little.
_MOST_EXACT = 8
# The penalties of the two stacking votes: the usual one, and one that is small enough to separate
# separable data.
_PENALTIES = (1.0, 1e-3)


@meshes.takes_gathered
@derivatives.without("jboost.combine.fit")
def fit(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    strategy: Literal["greedy", "hierarchical", "coordinate", "exact"] = "greedy",
    with_stacking: bool = True,
    max_sweeps: int = 50,
    time_limit: float | None = None,
    max_nodes: int | None = None,
    on_step: OnStep | None = None,
    initial: ExactState | None = None,
) -> LinearVote:
    """A linear combination of d classifiers that misclassifies little weight, by exact combinations
    of pairs or, for "exact", the least weight.

    Strategies. The best combination of more than two classifiers is a hard problem, so that all but
    the last one are heuristics:
      * "greedy": all pairs are tried, and the best one by loss, then by margin, becomes one vote.
        This is repeated until one vote is left. It takes (d - 1)^2 exact pairs.
      * "hierarchical": the classifiers are clustered by agreement, and pairs are combined along the
        tree. Then the vote is paired once with every classifier. It takes 2 d - 1 exact pairs.
      * "coordinate": in turn for each classifier, the vote moves to the exact optimum of the plane
        that it spans with that classifier, until no move improves it. The loss never increases. It
        starts from the best classifier and from stacking, and returns the best result.
      * "exact": the optimum, for at most eight classifiers. For up to three it is found by sweeps
        (Theorem 4.1), in O(n^3 log n) for three, which is practical for up to about a thousand
        examples. For more it is found by branch and cut on the errors, which the host drives. Its
        time grows with the number of errors more than with that of the classifiers.

    By default two stacking votes (logistic regression on the scores, with a usual and a small
    penalty) are added to the classifiers. The loss of the heuristics is then at most that of
    stacking at any threshold, up to the rounding of the vote to its float type. The loss of every
    strategy is at most that of the best classifier. For two classifiers all strategies return the
    optimum. Votes are rounded to the float type, an optimum at 32 different lengths. If none of
    these keeps the loss of the exact search, the loss is higher; use 64-bit types then. It may be
    jitted and vmapped over data sets.

    Args:
      scores: [n, d], real, of d classifiers on n examples. They may have any units for which all
        coefficients of a vote fit the float type.
      labels: [n], +1 or -1.
      weights: [n], not negative, the costs of misclassifying the examples, which are added as in
        `jboost.pair.optimal_separator`; 0 has the effect of `mask` False. None for ones.
      mask: [n] bool, False for rows that are only padding.
      strategy: which pairs are combined, or "exact".
      with_stacking: whether stacking votes are added.
      max_sweeps: the largest number of passes of "coordinate" over all classifiers, from each
        start.
      time_limit: of branch and cut, in seconds from the call, compilation included; None for no
        limit. The batch of nodes that runs is completed, and the vote is then evaluated.
      max_nodes: of branch and cut; after so many nodes of this call, those of `initial` left out,
        no further batch of up to 32 nodes starts. None for 1,000,000.
      on_step: of branch and cut; called on the host after each batch of nodes with (state, info),
        an `ExactState` and an `ExactInfo`. If it returns False, the search ends with status
        TIME_LIMIT.
      initial: of branch and cut; a state that `on_step` received for the same data, from which the
        search continues.

      A `time_limit`, `max_nodes`, `on_step` or `initial` selects branch and cut for any number of
      classifiers.

    Returns:
      A `LinearVote`. `loss` is the loss of the returned coefficients and offset on the scores.
      `lower_bound` holds for all linear combinations with an offset. `certificate` proves one for
      every strategy by infeasible subsystems of examples, from which `recompute_bound` recomputes
      it. For d <= 2 and for "exact", `lower_bound` is what the search proves, which is the optimum
      if it is completed. The status is OPTIMAL if loss and bound are equal (up to 2^-20 of the
      loss, if weights were rounded). Otherwise it is LOCAL_OPTIMUM for a heuristic. For branch and
      cut it is TIME_LIMIT or ITERATION_LIMIT (`max_nodes`) if it was stopped. PRECISION_LIMIT means
      that no vote was found in the float type that attains the bound of a completed search.

    Raises:
      ValueError: at trace time, naming the argument, if a shape, a dtype or an option is wrong; for
        concrete labels and weights that are not allowed; for branch and cut of traced arrays.
        Traced labels and weights, and NaN among the scores, give status INVALID_INPUT and NaN.

    >>> import jboost
    >>> scores = [
    ...     [1.0, -1.0, -1.0],
    ...     [-1.0, 1.0, -1.0],
    ...     [-1.0, -1.0, 1.0],
    ...     [1.0, 1.0, -1.0],
    ...     [1.0, -1.0, 1.0],
    ...     [-1.0, 1.0, 1.0],
    ... ]
    >>> vote = jboost.combine.fit(scores, [-1, -1, -1, 1, 1, 1])
    >>> float(vote.loss), float(vote.lower_bound), jboost.predict(vote, scores).tolist()
    (0.0, 0.0, [-1, -1, -1, 1, 1, 1])
    """
    begin = time.monotonic()
    check.choice("strategy", strategy, STRATEGIES)
    check.choice("with_stacking", with_stacking, (False, True))
    check.count("max_sweeps", max_sweeps, low=1)
    limit = None if time_limit is None else float(check.number("time_limit", time_limit, low=0))
    if max_nodes is not None:
        check.count("max_nodes", max_nodes, low=1)
    examples = arrays(scores, labels, weights, mask)
    options = {
        "time_limit": limit,
        "max_nodes": max_nodes,
        "on_step": on_step,
        "initial": initial,
    }
    _validate_branch_and_cut(examples, strategy, options)
    if not is_driven_by_host(strategy, examples[0].shape[1], **options):
        return _fit(
            *examples, strategy=strategy, with_stacking=with_stacking, max_sweeps=max_sweeps
        )
    end = None if limit is None else begin + limit
    return _branch_and_cut(
        examples, with_stacking, end=end, max_nodes=max_nodes, on_step=on_step, initial=initial
    )


def is_driven_by_host(strategy: str, num_classifiers: int, **options: Any) -> bool:
    """Whether `fit` runs branch and cut, which the host drives, so that it cannot be jitted.

    Args:
      strategy: as of `fit`.
      num_classifiers: d.
      options: the `time_limit`, `max_nodes`, `on_step` and `initial` of `fit`; each is None if left
        out.
    """
    is_given = any(option is not None for option in options.values())
    return strategy == "exact" and (num_classifiers > _MOST_SWEPT or is_given)


def _validate_branch_and_cut(
    examples: tuple[Array, ...], strategy: str, options: dict[str, Any]
) -> None:
    """Raises ValueError, naming the argument, if the options of branch and cut do not fit."""
    check.watcher("on_step", options["on_step"])
    given = [name for name, value in options.items() if value is not None]
    num_classifiers = examples[0].shape[1]
    if strategy != "exact":
        if given:
            raise ValueError(
                f"{given[0]} is given, and strategy is {strategy!r}, which makes no steps: leave it"
                " out, or pass strategy='exact'"
            )
        return
    if num_classifiers > _MOST_EXACT:
        raise ValueError(
            f"strategy is 'exact', which takes at most {_MOST_EXACT} classifiers, and scores has"
            f" {num_classifiers}: pass 'greedy'"
        )
    if is_driven_by_host(strategy, num_classifiers, **options) and check.are_traced(*examples):
        reason = given[0] + " is given" if given else f"scores has {num_classifiers} classifiers"
        raise ValueError(
            f"{reason} and strategy is 'exact', whose branch and cut the host drives, and the"
            " arguments are traced: call it outside jit, vmap and grad"
        )


def arrays(
    scores: ArrayLike, labels: ArrayLike, weights: ArrayLike | None, mask: ArrayLike | None
) -> tuple[Array, Array, Array, Array]:
    """The arguments as arrays, validated; `mask` is False where a weight is 0."""
    scores = check.numeric("scores", scores, shape=("n", "d"), kinds="fiu")
    return scores, *labelled.validate_examples(labels, weights, mask, scores.shape[0])


@devices.public_jit(static_argnames=("strategy", "with_stacking", "max_sweeps"))
def _fit(
    scores: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    strategy: str,
    with_stacking: bool,
    max_sweeps: int,
) -> LinearVote:
    num_classifiers = scores.shape[1]
    if num_classifiers <= 2 or strategy == "exact":
        return solve_votes(_optimum, scores, labels, weights, mask, short=Status.PRECISION_LIMIT)
    stacked = tuple(_stacked(scores, labels, weights, mask)) if with_stacking else ()

    def run(examples: ScoredExamples, arithmetic: Arithmetic, *stacked: Array) -> StrategyResult:
        directions = directions_of(examples, *stacked)
        if strategy == "greedy":
            return found(agglomerate.greedy(examples, directions, arithmetic))
        if strategy == "hierarchical":
            return found(
                agglomerate.hierarchical(examples, directions, num_classifiers, arithmetic),
            )
        alone = agglomerate.best_alone(examples, directions[:num_classifiers], arithmetic)
        starts = jnp.concatenate([alone.coefficients[None], directions[num_classifiers:]])
        return found(
            coordinate.descend(
                examples, starts, directions, arithmetic, max_sweeps * directions.shape[0]
            ),
        )

    return solve_votes(run, scores, labels, weights, mask, *stacked)


def _branch_and_cut(
    examples: tuple[Array, Array, Array, Array], with_stacking: bool, **options: Any
) -> LinearVote:
    """The optimum, from the classifiers and the stacking votes. The options are those of
    `exact.fit`.
    """
    directions = jnp.eye(examples[0].shape[1])
    if with_stacking:
        directions = jnp.concatenate([directions, _stacked(*examples)])
    return exact.fit(*examples, directions, **options)


@devices.public_jit
def _stacked(scores: Array, labels: Array, weights: Array, mask: Array) -> Array:
    """The coefficients of the stacking votes, as rows."""
    penalties = jnp.asarray(_PENALTIES)
    return lax.map(
        lambda penalty: log_odds(scores, labels, weights, mask, penalty).coefficients, penalties
    )


def _optimum(examples: ScoredExamples, arithmetic: Arithmetic) -> StrategyResult:
    """The optimum of two or three classifiers; if there is only one, the other has the score 0."""
    signs, factors = jnp.where(examples.positive, 1, -1), _toward_one_unit(examples.columns)
    scaled = examples.columns * factors[:, None]
    separator = optimal_separator(scaled.T, signs, weights=examples.weights, mask=examples.live)
    first = directions_of(examples)[0]  # for a constant classifier
    direction = jnp.where(jnp.any(separator.normal != 0), separator.normal * factors, first)
    is_proven = examples.faithful & (separator.status == int(Status.OPTIMAL))
    return found(best_at_lengths(examples, direction[None], arithmetic))._replace(
        least=jnp.where(
            is_proven, numerics.masked_sum(examples.integers, separator.misclassified), 0
        ),
        lower_bound=jnp.where(examples.faithful, separator.lower_bound, 0.0),
    )


def _toward_one_unit(columns: Array) -> Array:
    """Powers of two [d] by which scores `columns` [d, n] are multiplied for `optimal_separator`, 1
    for those that are large enough. They change no loss.
    """
    if columns.shape[0] < _MOST_SWEPT:  # in the plane, each axis has its own unit
        return jnp.ones(columns.shape[:1], columns.dtype)
    reach = jnp.max(jnp.abs(columns), axis=1, initial=0.0)
    units = numerics.power_of_two_at_least(jnp.maximum(reach / 2, 1 / _MOST_FACTOR))
    factors = jnp.clip(jnp.max(units) / units / _MOST_SPREAD, 1.0, _MOST_FACTOR)
    return jnp.where(reach > 0, factors, 1.0)


def log_odds(
    scores: Array, labels: Array, weights: Array, mask: Array, penalty: Array | float = 1.0
) -> LogOdds:
    """The stacking vote of checked arrays, in the default float type. Entries that are not finite
    become 0.
    """
    dtype = jnp.result_type(float)
    sound = mask & jnp.all(jnp.isfinite(scores), axis=1) & jnp.isfinite(weights) & (weights > 0)
    inputs = jnp.where(sound[:, None], scores, jnp.zeros((), scores.dtype)).astype(dtype)
    signs = jnp.where(sound, jnp.sign(labels.astype(dtype)), 0.0)
    model = stacking.fit_log_odds(
        *lax.stop_gradient((inputs, signs, jnp.where(sound, weights.astype(dtype), 0.0))),
        jnp.asarray(penalty, dtype),
    )
    finite = jnp.all(jnp.isfinite(model.coefficients)) & jnp.isfinite(model.offset)
    return LogOdds(*(jnp.where(finite, part, 0.0) for part in model))
