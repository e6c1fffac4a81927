"""Maximum monomial agreement: problem (27) of Goldberg and Eckstein (2009), solved to proven
optimality.

The maximum over monomials u (conjunctions of literals) and signs s, with cover C_u and order k_u,
of

    s sum_{i in C_u} w_i y_i
    +  sum of v_ii' over y_i = s, i in C_u, y_i' = -s, i' not in C_u
    -  c(k_u).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import batching, check, derivatives, devices, meshes
from jboost.base.types import Array, ArrayLike
from jboost.monomials import instance, integers, search, singles
from jboost.monomials.compact import compact, pairs_of_rows
from jboost.monomials.found import SearchOutcome
from jboost.monomials.problem import MonomialProblem, make_problem
from jboost.monomials.rewards import PairsOfClasses
from jboost.monomials.search import Sizes
from jboost.monomials.sizes import sizes_of
from jboost.monomials.solution import make_solution
from jboost.monomials.types import MonomialSolution, Rewards, SearchConfig

# Costs are padded to at least this many orders, so that problems with a smaller `max_order` share a
# compiled program.
_NUM_PADDED_ORDERS = 6


@meshes.takes_gathered
@derivatives.without("jboost.monomials.maximum_agreement")
def maximum_agreement(
    features: ArrayLike,
    labels: ArrayLike,
    example_weights: ArrayLike,
    *,
    max_order: int | None,
    costs: ArrayLike | None = None,
    pair_weights: ArrayLike | Rewards | None = None,
    mask: ArrayLike | None = None,
    enough: ArrayLike | None = None,
    config: SearchConfig | None = None,
) -> MonomialSolution:
    """The monomial and the sign that agree best with the labels, and an upper bound of all values:
    (27) of Goldberg and Eckstein (2009), by branch and bound.

    Weights are rounded to integers that sum to at least 2^29 (2^49 in float64). The monomial is
    optimal for the rounded weights, and `upper_bound` includes the largest effect of the rounding.
    Weights, costs and rewards below the least normal float, 1.2e-38 in float32, count as 0.
    The function can be jitted and vmapped. With concrete arrays it merges equal examples first,
    which is faster.

    Args:
      features: [m, N] 0 or 1 (`jboost.data.binarization` makes them). NaN means that neither
        literal of the attribute holds; under jit it requires `config.missing=True`.
      labels: [m] -1 or +1.
      example_weights: [m], not negative. The computation uses the widest float type of features,
        weights, costs and rewards.
      max_order: the largest number of literals, static; None for no limit.
      costs: [max_order + 1], or [N + 1], by number of literals, not negative, +inf for orders that
        are not allowed; None for 0.
      pair_weights: the rewards of K pairs, a `Rewards`; or all of them as a matrix [m, m], of which
        those above 0 are listed. Not negative. The reward of (i, i') is gained by a cover with i
        and without i', if y_i equals the sign and y_i' does not. Rewards within a class are
        ignored. None for 0. A list takes O(K) numbers beside the examples; under jit a matrix
        takes those of a list of m^2 pairs.
      mask: [m] bool, False for examples that do not count; None for all True.
      enough: [] if the beam search finds a monomial of a larger value, branch and bound is skipped;
        None to find the best of all monomials.
      config: static sizes.

    Returns:
      A `MonomialSolution`. Its statuses are: OPTIMAL; ENOUGH, with a monomial of a value above
      `enough` and the trivial bound; ITERATION_LIMIT and CAPACITY_LIMIT, with the best monomial
      found and a valid bound; INVALID_INPUT.

    Raises:
      ValueError: at trace time, naming the argument, if shapes do not fit or `max_order` exceeds N;
        and, if the values are known, for values that are not allowed.

    >>> import jboost
    >>> solution = jboost.monomials.maximum_agreement(
    ...     [[1, 1], [1, 0], [0, 1], [0, 0]], [1, -1, -1, -1], [0.25] * 4, max_order=2
    ... )
    >>> (
    ...     solution.literals.tolist(),
    ...     int(solution.sign),
    ...     float(solution.value),
    ...     float(solution.upper_bound),
    ... )
    ([0, 0], -1, 0.5, 0.5)
    """
    config = check.config("config", config, SearchConfig)
    problem, adds_free = make_problem(
        features, labels, example_weights, max_order, costs, pair_weights, mask, enough
    )
    is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in problem if leaf is not None)
    if problem.costs.shape[0] <= 2:
        takes_missing = config.missing if is_traced else bool(np.isnan(problem.features).any())
        return _value_singles(problem, num_best=config.num_best, takes_missing=takes_missing)
    return (
        _solve_uncompacted(problem, config, adds_free)
        if is_traced
        else _solve_compact(problem, config, adds_free)
    )


@meshes.takes_gathered
@derivatives.without("jboost.monomials.greedy")
def greedy(
    features: ArrayLike,
    labels: ArrayLike,
    example_weights: ArrayLike,
    *,
    max_order: int | None,
    **options: Any,
) -> MonomialSolution:
    """The best monomial that a beam search finds, without a proof of optimality.

    This is `maximum_agreement` without branch and bound, for example to find a first column
    quickly. The upper bound is the trivial one. The arguments are those of `maximum_agreement`.
    `config.beam_width` and `config.beam_depth` set the extent of the search.

    >>> import jboost
    >>> solution = jboost.monomials.greedy(
    ...     [[1, 1], [1, 0], [0, 1], [0, 0]], [1, -1, -1, -1], [0.4, 0.2, 0.2, 0.2], max_order=2
    ... )
    >>> solution.literals.tolist(), int(solution.sign), round(float(solution.value), 6)
    ([1, 1], 1, 0.4)
    """
    config = check.config("config", options.pop("config", None), SearchConfig)
    return maximum_agreement(
        features,
        labels,
        example_weights,
        max_order=max_order,
        config=dataclasses.replace(config, max_steps=0),
        **options,
    )


@devices.public_jit(static_argnames=("num_best", "takes_missing"))
def _value_singles(
    problem: MonomialProblem, *, num_best: int, takes_missing: bool
) -> MonomialSolution:
    """The solution if only orders 0 and 1 are allowed."""
    features, dtype = problem.features, problem.features.dtype
    known = (~jnp.isnan(features)).astype(dtype) if takes_missing else None
    ones = (features == 1).astype(dtype)
    amounts = problem.whole_weights, problem.whole_pairs, problem.whole_costs
    outcome = singles.both_signs(ones, known, problem.labels, *amounts, num_best=num_best)
    return make_solution(
        _without_missing(problem, takes_missing), outcome, jnp.arange(features.shape[1])
    )


def _solve_compact(
    problem: MonomialProblem, config: SearchConfig, adds_free: bool
) -> MonomialSolution:
    pairs = rewards = None
    if problem.whole_pairs is not None:
        pairs, rewards = (np.asarray(leaf) for leaf in problem.whole_pairs)
    costs = np.asarray(problem.costs)
    small = compact(
        np.asarray(problem.features),
        np.asarray(problem.labels),
        np.asarray(problem.whole_weights),
        pairs,
        rewards,
        merge_columns=bool(np.all(costs[1:] >= costs[:-1])),
    )
    prices = _with_padded_orders(problem.whole_costs)
    sizes = sizes_of(
        config, small.ones.shape[1], small.ones.shape[2], prices.shape[0] - 1, adds_free
    )
    outcome = _search(
        small.ones,
        small.known,
        small.weights,
        small.rewards,
        small.is_attribute,
        prices,
        problem.whole_enough,
        config=config,
        sizes=sizes,
    )
    return make_solution(problem, outcome, jnp.asarray(small.columns))


def _with_padded_orders(costs: Array) -> Array:
    """The integer costs, padded with orders that are not allowed, so that problems with different
    `max_order` share a compiled program.
    """
    missing = max(0, _NUM_PADDED_ORDERS - costs.shape[0])
    return jnp.pad(costs, (0, missing), constant_values=integers.largest(costs.dtype))


def _solve_uncompacted(
    problem: MonomialProblem, config: SearchConfig, adds_free: bool
) -> MonomialSolution:
    num_rows, num_attributes = problem.features.shape
    sizes = sizes_of(config, num_rows, num_attributes, problem.costs.shape[0] - 1, adds_free)
    is_own = jnp.stack([problem.labels == 1, problem.labels == -1])
    twice = jnp.broadcast_to(problem.features[None], (2, num_rows, num_attributes))
    weights = jnp.where(is_own, problem.whole_weights[None, :], 0)
    rewards = None
    if problem.whole_pairs is not None:
        places = jnp.arange(num_rows, dtype=jnp.int32)
        rewards = pairs_of_rows(*problem.whole_pairs, places, problem.labels)
    known = (~jnp.isnan(twice)).astype(twice.dtype) if config.missing else None
    every = jnp.ones((num_attributes,), bool)
    ones, costs, enough = (
        (twice == 1).astype(twice.dtype),
        problem.whole_costs,
        problem.whole_enough,
    )
    run = functools.partial(_search, config=config, sizes=sizes)
    outcome = batching.in_chunks(run, at_once=1)(
        ones, known, weights, rewards, every, costs, enough
    )
    return make_solution(
        _without_missing(problem, config.missing), outcome, jnp.arange(num_attributes)
    )


def _without_missing(problem: MonomialProblem, takes_missing: bool) -> MonomialProblem:
    """The problem with NaN handled. It is invalid if NaN occurs and is not allowed."""
    return (
        problem
        if takes_missing
        else problem._replace(is_valid=problem.is_valid & ~jnp.any(jnp.isnan(problem.features)))
    )


@devices.public_jit(static_argnames=("config", "sizes"))
def _search(
    ones: Array,
    known: Array | None,
    weights: Array,
    rewards: PairsOfClasses | None,
    is_attribute: Array,
    costs: Array,
    enough: Array | None,
    *,
    config: SearchConfig,
    sizes: Sizes,
) -> SearchOutcome:
    """Searches both signs. `ones` holds the examples of class +1, then those of class -1."""
    both, places = instance.make(
        instance.literals_of(ones, known), weights, rewards, costs, is_attribute
    )
    outcome = search.both_signs(both, enough, sizes, num_best=config.num_best)
    return _renamed(outcome, places)


def _renamed(outcome: SearchOutcome, places: Array) -> SearchOutcome:
    """The outcome with literals in the original order. `places` [2N] are their indices in the
    search.
    """
    flags = integers.unpack(outcome.found.literals, places.shape[0])
    return outcome._replace(found=outcome.found._replace(literals=integers.pack(flags[:, places])))
