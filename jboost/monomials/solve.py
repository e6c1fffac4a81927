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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, derivatives, devices, labelled, meshes, numerics
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.monomials import instance, integers, search, singles
from jboost.monomials.compact import compact
from jboost.monomials.found import Outcome
from jboost.monomials.search import Sizes
from jboost.monomials.types import Monomials, MonomialSolution, SearchConfig

# Costs are padded to at least this many orders, so that problems with a smaller `max_order` share a
# compiled program.
_NUM_PADDED_ORDERS = 6
_LEAST_BATCH = 32  # the least number of nodes measured at once
_MOST_ROWS = 1 << 18  # with more rows, sums of the low bits of integers are not exact in 32 bits
_MOST_ROWS_OF_PAIRS = 1 << 15  # with more rows, the index of a pair does not fit into 32 bits


class _Scale(NamedTuple):
    """The amounts of work that suit a kind of device."""

    entries: int  # entries of the products of a batch
    batch: int  # the largest number of nodes measured at once
    flows: int  # the largest number of nodes bounded at once
    narrow: int  # the largest number of literals of a node that is searched as a separate instance
    capacity: int  # the least capacity of a stack


# for CPUs: the arrays of a batch stay in the cache
_OF_CACHES = _Scale(entries=1 << 16, batch=64, flows=32, narrow=128, capacity=1 << 16)
# for accelerators: a thousand nodes take as long as one
_OF_MANY_LANES = _Scale(entries=1 << 22, batch=2048, flows=2048, narrow=0, capacity=1 << 14)
# The largest number of nodes measured at once, per literal: with few literals there are few nodes.
_NODES_TO_A_LITERAL = 16
_CHILDREN_TO_A_NODE = 8  # children made at once, for each node bounded at once
_LOADS = 16  # the capacity of a stack is at least this many times the children made at once


class _Problem(NamedTuple):
    """The arguments as arrays, and as integers."""

    features: Array  # [m, N]
    labels: Array  # [m]
    weights: Array  # [m] 0 where masked out
    rewards: Array | None  # [m, m]
    costs: Array  # [D]
    power: Array  # [] the integers are the amounts times 2^power, rounded
    whole_weights: Array  # [m] int
    whole_rewards: Array | None  # [m, m] int
    whole_costs: Array  # [D] int
    whole_enough: Array | None  # [] int
    spare: Array  # [] a bound of the effect of the rounding to integers on a value
    is_valid: Array  # [] bool


@meshes.takes_gathered
@derivatives.without("jboost.monomials.maximum_agreement")
def maximum_agreement(
    features: ArrayLike,
    labels: ArrayLike,
    example_weights: ArrayLike,
    *,
    max_order: int | None,
    costs: ArrayLike | None = None,
    pair_weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    enough: ArrayLike | None = None,
    config: SearchConfig | None = None,
) -> MonomialSolution:
    """The monomial and the sign that agree best with the labels, and an upper bound of all values:
    (27) of Goldberg and Eckstein (2009), by branch and bound.

    Weights are rounded to integers that sum to at least 2^29 (2^49 in float64). The monomial is
    optimal for the rounded weights, and `upper_bound` includes the largest effect of the rounding.
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
      pair_weights: [m, m], not negative. Entry (i, i') is gained by a cover with i and without i',
        if y_i equals the sign and y_i' does not. Entries within a class are ignored. None for 0.
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
    problem, adds_free = _validate(
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


def _validate(
    features: ArrayLike,
    labels: ArrayLike,
    example_weights: ArrayLike,
    max_order: int | None,
    costs: ArrayLike | None,
    pair_weights: ArrayLike | None,
    mask: ArrayLike | None,
    enough: ArrayLike | None,
) -> tuple[_Problem, bool]:
    """The problem, and whether literals cost nothing and their number is not limited."""
    table = check.numeric("features", features, shape=("m", "N"), kinds="fiub")
    num_examples, num_attributes = table.shape
    if num_examples > _MOST_ROWS:
        raise ValueError(
            f"features has {num_examples} rows: {_MOST_ROWS} at most; merge equal ones"
            " (jboost.data.merging) or take a sample"
        )
    signs = check.label_array("labels", labels, shape=(num_examples,), kinds="fi")
    weights = check.numeric("example_weights", example_weights, shape=(num_examples,), kinds="fiu")
    if max_order is not None:
        check.count("max_order", max_order, low=0)
        if max_order > num_attributes:
            check.has_columns(num_attributes)
            raise ValueError(
                f"max_order is {max_order}, above the {num_attributes} attributes: pass"
                f" {num_attributes}, or None for any order"
            )
    highest = num_attributes if max_order is None else max_order
    prices, rewards = None, None
    if costs is not None:
        prices = check.numeric("costs", costs, shape=(highest + 1,), kinds="fiu")
    if pair_weights is not None:
        if num_examples > _MOST_ROWS_OF_PAIRS:
            raise ValueError(
                f"pair_weights is of {num_examples} examples: {_MOST_ROWS_OF_PAIRS} at most; merge"
                " equal ones (jboost.data.merging)"
            )
        rewards = check.numeric(
            "pair_weights", pair_weights, shape=(num_examples, num_examples), kinds="fiu"
        )
    dtype = jnp.result_type(
        *(_float_of(part.dtype) for part in (table, weights, prices, rewards) if part is not None)
    )
    weights = weights.astype(dtype)
    prices = jnp.zeros((highest + 1,), dtype) if prices is None else prices.astype(dtype)
    rewards = None if rewards is None else rewards.astype(dtype)
    kept = (
        jnp.ones((num_examples,), bool)
        if mask is None
        else check.numeric("mask", mask, shape=(num_examples,), kinds="b")
    )
    if rewards is None:  # with rewards, an example of weight 0 may count in pairs
        kept = labelled.without_zeros(weights, kept)
    labelled.validate_known_labels(signs, kept)
    _validate_values(table, signs, weights, prices, rewards, kept)
    if num_examples == 0:  # one example that does not count avoids empty arrays
        table, signs, weights, kept = (
            jnp.pad(part, [(0, 1)] + [(0, 0)] * (part.ndim - 1))
            for part in (table, signs, weights, kept)
        )
        rewards = None if rewards is None else jnp.pad(rewards, (0, 1))
    wanted = None if enough is None else check.number("enough", enough, low=-np.inf).astype(dtype)
    return (
        _prepare(table.astype(dtype), signs.astype(dtype), weights, prices, rewards, kept, wanted),
        costs is None and max_order is None,
    )


def _float_of(dtype: Any) -> Any:
    return (
        jnp.dtype(dtype)
        if jnp.issubdtype(dtype, jnp.floating) and jnp.dtype(dtype).itemsize >= 4
        else jnp.zeros(()).dtype
    )


def _validate_values(
    table: Array, labels: Array, weights: Array, costs: Array, rewards: Array | None, mask: Array
) -> None:
    if check.are_traced(table, labels, weights, costs, rewards, mask):
        return
    kept = np.asarray(mask)
    values = np.asarray(table, np.float64)
    is_bad = ~np.isin(values, (0, 1)) & ~np.isnan(values) & kept[:, None]
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        raise ValueError(
            f"features[{row}, {column}] is {values[row, column]:g}: expected 0 or 1;"
            " jboost.data.binarization makes such attributes"
        )
    for name, array, allowed in (
        ("example_weights", np.where(kept, weights, 0), lambda x: (x >= 0) & np.isfinite(x)),
        ("costs", np.asarray(costs), lambda x: x >= 0),
        (
            "pair_weights",
            np.zeros(0) if rewards is None else np.where(kept[:, None] & kept[None, :], rewards, 0),
            lambda x: (x >= 0) & np.isfinite(x),
        ),
    ):
        for place in np.argwhere(~allowed(array))[:1].tolist():
            expected = (
                "a number from 0 up, or +inf for an order that is not allowed"
                if name == "costs"
                else "a finite number from 0 up"
            )
            raise ValueError(f"{name}{place} is {array[tuple(place)]:g}: expected {expected}")
    total = _add_up("example_weights", 0.0, np.where(kept, weights, 0), weights.dtype)
    if rewards is not None:
        is_wanted = np.asarray(labels) > 0
        between = kept[:, None] & kept[None, :] & (is_wanted[:, None] != is_wanted[None, :])
        _add_up("pair_weights", total, np.where(between, rewards, 0), weights.dtype)
    if not np.isfinite(np.asarray(costs)).any():
        raise ValueError("costs are all +inf: allow one order at least")


def _add_up(name: str, before: float, amounts: np.ndarray, dtype: Any) -> float:
    """The sum of `before` and of the amounts. Raises ValueError if it overflows the float type."""
    with np.errstate(over="ignore"):
        total = before + float(np.sum(amounts, dtype=np.float64))
    most = float(jnp.finfo(dtype).max)
    if not total <= most:
        raise ValueError(
            f"{name} sum to {total:g} in all, more than {dtype} holds ({most:.2g}): divide all of"
            " them by one large number"
        )
    return total


@jax.jit
def _prepare(
    table: Array,
    labels: Array,
    weights: Array,
    costs: Array,
    rewards: Array | None,
    mask: Array,
    enough: Array | None,
) -> _Problem:
    """Amounts as integers of one unit."""
    table = jnp.where(mask[:, None], table, 0)
    weights = jnp.where(mask, weights, 0)
    labels = jnp.where(mask, labels, 1)
    if rewards is not None:
        between = mask[:, None] & mask[None, :] & (labels[:, None] * labels[None, :] < 0)
        rewards = jnp.where(between, rewards, 0)
    total = jnp.sum(weights) + (0 if rewards is None else jnp.sum(rewards))
    power = integers.exponent(total)
    is_valid = jnp.all((table == 0) | (table == 1) | jnp.isnan(table)) & jnp.all(
        jnp.abs(labels) == 1
    )
    is_valid &= (
        jnp.all(weights >= 0) & (total < jnp.inf) & jnp.all(costs >= 0) & jnp.any(costs < jnp.inf)
    )
    whole = integers.to_integers(jnp.where(weights >= 0, weights, 0), power)
    hidden = jnp.sum(
        jnp.abs(numerics.times_power_of_two(weights, power) - whole.astype(weights.dtype))
    )
    whole_rewards = None
    vanished = jnp.sum((whole == 0) & (weights > 0))
    if rewards is not None:
        is_valid &= jnp.all(rewards >= 0)
        whole_rewards = integers.to_integers(jnp.where(rewards >= 0, rewards, 0), power)
        hidden += jnp.sum(
            jnp.abs(
                numerics.times_power_of_two(rewards, power) - whole_rewards.astype(weights.dtype)
            )
        )
        vanished += jnp.sum((whole_rewards == 0) & (rewards > 0))
    # an order that costs more than the least cost by the largest possible gain is never the best
    whole_costs, cut = integers.floor_to_integers(costs, power)
    spare = numerics.times_power_of_two(
        (hidden + cut + vanished.astype(hidden.dtype)) * 1.001, -power
    )
    whole_enough = None
    if enough is not None:
        is_valid &= ~jnp.isnan(enough)
        most = 1 << integers.bits(weights.dtype)
        whole_enough = jnp.clip(
            jnp.floor(numerics.times_power_of_two(enough + jnp.min(costs), power)), -most, most
        ).astype(whole.dtype)
    return _Problem(
        table,
        labels,
        weights,
        rewards,
        costs,
        power,
        whole,
        whole_rewards,
        whole_costs,
        whole_enough,
        spare,
        is_valid,
    )


def _sizes(
    config: SearchConfig, num_rows: int, num_attributes: int, max_order: int, adds_free: bool
) -> Sizes:
    num_literals = 2 * num_attributes
    scale = _OF_CACHES if devices.platform() == "cpu" else _OF_MANY_LANES
    narrow = scale.narrow if config.narrow is None else config.narrow
    batch, narrow_batch = (
        _batch(scale, num_rows, width) if config.batch is None else config.batch
        for width in (num_literals, narrow)
    )
    # the beam search extends all its monomials in one batch
    batch = max(batch, config.beam_width if config.beam_depth else 1)
    flows = min(batch, scale.flows)
    children = max(
        _CHILDREN_TO_A_NODE * flows if config.children is None else config.children, num_literals, 1
    )
    return Sizes(
        batch,
        flows,
        children,
        narrow if num_literals > 2 * narrow else 0,
        narrow_batch,
        max(scale.capacity, _LOADS * children) if config.capacity is None else config.capacity,
        config.max_steps,
        config.beam_width,
        min(config.beam_depth, max_order + 1),
        config.num_matchings,
        config.num_nested,
        adds_free,
    )


def _batch(scale: _Scale, num_rows: int, num_literals: int) -> int:
    """The number of nodes measured at once."""
    most = min(scale.batch, max(_LEAST_BATCH, _NODES_TO_A_LITERAL * num_literals))
    return min(
        most,
        max(_LEAST_BATCH, scale.entries // max(instance.layout(num_rows).block, num_literals, 1)),
    )


@functools.partial(jax.jit, static_argnames=("num_best", "takes_missing"))
def _value_singles(problem: _Problem, *, num_best: int, takes_missing: bool) -> MonomialSolution:
    """The solution if only orders 0 and 1 are allowed."""
    features, dtype = problem.features, problem.features.dtype
    known = (~jnp.isnan(features)).astype(dtype) if takes_missing else None
    ones = (features == 1).astype(dtype)
    amounts = problem.whole_weights, problem.whole_rewards, problem.whole_costs
    outcome = singles.both_signs(ones, known, problem.labels, *amounts, num_best=num_best)
    return _finish(_without_missing(problem, takes_missing), outcome, jnp.arange(features.shape[1]))


def _without_missing(problem: _Problem, takes_missing: bool) -> _Problem:
    """The problem with NaN handled. It is invalid if NaN occurs and is not allowed."""
    return (
        problem
        if takes_missing
        else problem._replace(is_valid=problem.is_valid & ~jnp.any(jnp.isnan(problem.features)))
    )


def _solve_compact(problem: _Problem, config: SearchConfig, adds_free: bool) -> MonomialSolution:
    rewards = None if problem.whole_rewards is None else np.asarray(problem.whole_rewards)
    costs = np.asarray(problem.costs)
    small = compact(
        np.asarray(problem.features),
        np.asarray(problem.labels),
        np.asarray(problem.whole_weights),
        rewards,
        merge_columns=bool(np.all(costs[1:] >= costs[:-1])),
    )
    prices = _with_padded_orders(problem.whole_costs)
    sizes = _sizes(config, small.ones.shape[1], small.ones.shape[2], prices.shape[0] - 1, adds_free)
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
    return _finish(problem, outcome, jnp.asarray(small.columns))


def _with_padded_orders(costs: Array) -> Array:
    """The integer costs, padded with orders that are not allowed, so that problems with different
    `max_order` share a compiled program.
    """
    missing = max(0, _NUM_PADDED_ORDERS - costs.shape[0])
    return jnp.pad(costs, (0, missing), constant_values=integers.largest(costs.dtype))


def _solve_uncompacted(
    problem: _Problem, config: SearchConfig, adds_free: bool
) -> MonomialSolution:
    num_rows, num_attributes = problem.features.shape
    sizes = _sizes(config, num_rows, num_attributes, problem.costs.shape[0] - 1, adds_free)
    is_own = jnp.stack([problem.labels == 1, problem.labels == -1])
    twice = jnp.broadcast_to(problem.features[None], (2, num_rows, num_attributes))
    weights = jnp.where(is_own, problem.whole_weights[None, :], 0)
    rewards = None
    if problem.whole_rewards is not None:
        rewards = jnp.where(is_own[:, :, None], problem.whole_rewards[None], 0)
    known = (~jnp.isnan(twice)).astype(twice.dtype) if config.missing else None
    every = jnp.ones((num_attributes,), bool)
    ones, costs, enough = (
        (twice == 1).astype(twice.dtype),
        problem.whole_costs,
        problem.whole_enough,
    )
    outcome = _search(
        ones, known, weights, rewards, every, costs, enough, config=config, sizes=sizes
    )
    return _finish(_without_missing(problem, config.missing), outcome, jnp.arange(num_attributes))


@functools.partial(jax.jit, static_argnames=("config", "sizes"))
def _search(
    ones: Array,
    known: Array | None,
    weights: Array,
    rewards: Array | None,
    is_attribute: Array,
    costs: Array,
    enough: Array | None,
    *,
    config: SearchConfig,
    sizes: Sizes,
) -> Outcome:
    """Searches both signs. `ones` holds the examples of class +1, then those of class -1."""
    both, places = instance.make(
        instance.literals_of(ones, known), weights, rewards, costs, is_attribute
    )
    outcome = search.both_signs(both, enough, sizes, num_best=config.num_best)
    return _renamed(outcome, places)


def _renamed(outcome: Outcome, places: Array) -> Outcome:
    """The outcome with literals in the original order. `places` [2N] are their indices in the
    search.
    """
    flags = integers.unpack(outcome.found.literals, places.shape[0])
    return outcome._replace(found=outcome.found._replace(literals=integers.pack(flags[:, places])))


@jax.jit
def _finish(problem: _Problem, outcome: Outcome, columns: Array) -> MonomialSolution:
    """The solution in terms of the caller's attributes and weights. `columns` [n] is N for padding
    attributes.
    """
    num_attributes, width = problem.features.shape[1], columns.shape[0]
    flags = integers.unpack(outcome.found.literals, 2 * width).astype(jnp.int8)
    literals = (
        jnp.zeros((flags.shape[0], num_attributes + 1), jnp.int8)
        .at[:, columns]
        .set(flags[:, :width] - flags[:, width:])[:, :num_attributes]
    )
    is_allowed = jnp.sum(jnp.abs(literals), axis=1, dtype=jnp.int32) < problem.costs.shape[0]
    is_found = (
        (outcome.found.values > jnp.iinfo(outcome.found.values.dtype).min)
        & is_allowed
        & problem.is_valid
    )
    values = jnp.where(is_found, _value(problem, literals, outcome.found.signs), -jnp.inf)
    # sorted anew: with rewards the search has lower bounds only, and integer costs are rounded down
    order = jnp.argsort(-values, stable=True)
    values = values[order]
    literals = jnp.where((values > -jnp.inf)[:, None], literals[order], 0)
    signs = jnp.where(values > -jnp.inf, outcome.found.signs[order], 1).astype(jnp.int8)
    dtype = values.dtype
    rounded = numerics.round_up(outcome.bound, dtype)
    above = (
        numerics.times_power_of_two(rounded, -problem.power)
        - jnp.min(problem.costs)
        + problem.spare
    )
    eps = jnp.where(problem.spare + jnp.min(problem.costs) > 0, 2 * jnp.finfo(dtype).eps, 0).astype(
        dtype
    )
    above += eps * jnp.abs(above) + eps * jnp.min(problem.costs)
    upper = jnp.where(problem.is_valid, jnp.maximum(above, values[0]), jnp.inf)
    status = jnp.where(
        outcome.is_cut_off,
        int(Status.ITERATION_LIMIT),
        jnp.where(outcome.is_enough, int(Status.ENOUGH), int(Status.OPTIMAL)),
    )
    status = jnp.where(outcome.is_full, int(Status.CAPACITY_LIMIT), status)
    status = jnp.where(problem.is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
    return MonomialSolution(
        literals[0],
        signs[0],
        values[0],
        upper,
        Monomials(literals, signs, values),
        outcome.num_nodes,
        status,
    )


@meshes.takes_gathered
def covers(literals: ArrayLike, features: ArrayLike) -> Array:
    """Which examples [m, N] satisfy monomials [k, N] of +1, -1 and 0: [k, m] bool. Raises
    ValueError for shapes that do not agree.
    """
    table = check.numeric("features", features, shape=("m", "N"), kinds="fiub")
    signs = check.numeric("literals", literals, shape=("k", table.shape[1]), kinds="fi")
    dtype = _float_of(table.dtype)
    wanted = jnp.concatenate([signs == 1, signs == -1], axis=1).astype(dtype)
    missed = jnp.concatenate([table != 1, table != 0], axis=1).astype(dtype)
    return numerics.times(wanted, missed.T) == 0


def _value(problem: _Problem, literals: Array, signs: Array) -> Array:
    """(27) of monomials [k, N] with signs [k], in floats."""
    inside = covers(literals, problem.features)
    agreement = numerics.times(
        inside.astype(problem.weights.dtype), (problem.weights * problem.labels)[:, None]
    )[:, 0]
    worth = (
        signs.astype(agreement.dtype) * agreement
        - problem.costs[jnp.sum(jnp.abs(literals), axis=1, dtype=jnp.int32)]
    )
    if problem.rewards is None:
        return worth
    own = (inside & (problem.labels[None, :] == signs[:, None])).astype(worth.dtype)
    return worth + jnp.sum(jnp.where(inside, 0.0, numerics.times(own, problem.rewards)), axis=1)
