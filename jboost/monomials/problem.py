"""The arguments of a problem: checked, as arrays, and rounded to integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, labelled, numerics
from jboost.base.types import Array, ArrayLike
from jboost.monomials import integers
from jboost.monomials.types import Rewards

_MOST_ROWS = 1 << 18  # with more rows, sums of the low bits of integers are not exact in 32 bits
# With more rows, the index of an entry of a matrix of pairs does not fit into 32 bits.
_MOST_ROWS_OF_PAIRS = 1 << 15
# The list of the entries of a matrix is padded to the least of 256, 1024, 4096, ... that holds it,
# so that few sizes are compiled.
_LEAST_LIST, _NEXT_LIST = 256, 4


class MonomialProblem(NamedTuple):
    """The arguments as arrays, and as integers."""

    features: Array  # [m, N]
    labels: Array  # [m]
    weights: Array  # [m] 0 where masked out
    pairs: Rewards | None  # of K pairs; pairs that do not count have value 0
    costs: Array  # [D]
    power: Array  # [] the integers are the amounts times 2^power, rounded
    whole_weights: Array  # [m] int
    whole_pairs: Rewards | None  # the same pairs with integers
    whole_costs: Array  # [D] int
    whole_enough: Array | None  # [] int
    spare: Array  # [] a bound of the effect of the rounding to integers on a value
    is_valid: Array  # [] bool


def make_problem(
    features: ArrayLike,
    labels: ArrayLike,
    example_weights: ArrayLike,
    max_order: int | None,
    costs: ArrayLike | None,
    pair_weights: ArrayLike | Rewards | None,
    mask: ArrayLike | None,
    enough: ArrayLike | None,
) -> tuple[MonomialProblem, bool]:
    """The problem, and whether literals cost nothing and their number is not limited."""
    table = _table_of(features)
    num_examples, num_attributes = table.shape
    signs = check.label_array("labels", labels, shape=(num_examples,), kinds="fi")
    weights = check.numeric("example_weights", example_weights, shape=(num_examples,), kinds="fiu")
    highest = _highest_order(max_order, num_attributes)
    prices = None
    if costs is not None:
        prices = check.numeric("costs", costs, shape=(highest + 1,), kinds="fiu")
    rewards = None if pair_weights is None else _rewards_of(pair_weights, num_examples)
    amounts = (table, weights, prices, None if rewards is None else rewards.values)
    dtype = jnp.result_type(*(float_type_of(part.dtype) for part in amounts if part is not None))
    weights = weights.astype(dtype)
    prices = jnp.zeros((highest + 1,), dtype) if prices is None else prices.astype(dtype)
    if rewards is not None:
        rewards = rewards._replace(values=rewards.values.astype(dtype))
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
    wanted = None if enough is None else check.number("enough", enough, low=-np.inf).astype(dtype)
    return (
        _prepare(table.astype(dtype), signs.astype(dtype), weights, prices, rewards, kept, wanted),
        costs is None and max_order is None,
    )


def _table_of(features: ArrayLike) -> Array:
    """The attributes as an array. Raises ValueError for a wrong shape and for too many rows."""
    table = check.numeric("features", features, shape=("m", "N"), kinds="fiub")
    if table.shape[0] > _MOST_ROWS:
        raise ValueError(
            f"features has {table.shape[0]} rows: {_MOST_ROWS} at most; merge equal ones"
            " (jboost.data.merging) or take a sample"
        )
    return table


def _highest_order(max_order: int | None, num_attributes: int) -> int:
    """The largest number of literals. Raises ValueError for more than there are attributes."""
    if max_order is None:
        return num_attributes
    check.count("max_order", max_order, low=0)
    if max_order > num_attributes:
        check.has_columns(num_attributes)
        raise ValueError(
            f"max_order is {max_order}, above the {num_attributes} attributes: pass"
            f" {num_attributes}, or None for any order"
        )
    return max_order


def _rewards_of(pair_weights: ArrayLike | Rewards, num_examples: int) -> Rewards:
    """The list of the rewards. Raises ValueError for wrong shapes and for indices out of range."""
    if not isinstance(pair_weights, Rewards):
        return _listed(pair_weights, num_examples)
    pairs = check.numeric("pair_weights.pairs", pair_weights.pairs, shape=("K", 2), kinds="i")
    values = check.numeric(
        "pair_weights.values", pair_weights.values, shape=(pairs.shape[0],), kinds="fiu"
    )
    if not check.are_traced(pairs):
        host = np.asarray(pairs)
        for index in np.flatnonzero(((host < -1) | (host >= num_examples)).any(axis=1))[:1]:
            raise ValueError(
                f"pair_weights.pairs[{index}] is {host[index].tolist()}: expected rows from 0 to"
                f" {num_examples - 1}, or -1 for an empty slot"
            )
    return Rewards(pairs.astype(jnp.int32), values)


def _listed(pair_weights: ArrayLike, num_examples: int) -> Rewards:
    """The list of the entries of a matrix [m, m] that are not 0; of all entries of a traced one.
    Raises ValueError for too many examples.
    """
    if num_examples > _MOST_ROWS_OF_PAIRS:
        raise ValueError(
            f"pair_weights is of {num_examples} examples: {_MOST_ROWS_OF_PAIRS} at most; merge"
            " equal ones (jboost.data.merging)"
        )
    matrix = check.numeric(
        "pair_weights", pair_weights, shape=(num_examples, num_examples), kinds="fiu"
    )
    if check.are_traced(matrix):
        ends = jnp.indices(matrix.shape, jnp.int32).reshape(2, -1)
        return Rewards(ends.T, matrix.reshape(-1))
    host = np.asarray(matrix)
    places = np.argwhere(host)
    size = _LEAST_LIST
    while size < len(places):
        size *= _NEXT_LIST
    missing = (0, size - len(places))
    pairs = np.pad(places, (missing, (0, 0)), constant_values=-1).astype(np.int32)
    return Rewards(jnp.asarray(pairs), jnp.asarray(np.pad(host[tuple(places.T)], missing)))


def float_type_of(dtype: Any) -> Any:
    return (
        jnp.dtype(dtype)
        if jnp.issubdtype(dtype, jnp.floating) and jnp.dtype(dtype).itemsize >= 4
        else jnp.zeros(()).dtype
    )


def _validate_values(
    table: Array,
    labels: Array,
    weights: Array,
    costs: Array,
    rewards: Rewards | None,
    mask: Array,
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
        ("example_weights", np.where(kept, weights, 0), _are_amounts),
        ("costs", np.asarray(costs), lambda x: x >= 0),
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
        between = _validate_pairs(rewards, np.asarray(labels), kept)
        _add_up("pair_weights", total, between, weights.dtype)
    if not np.isfinite(np.asarray(costs)).any():
        raise ValueError("costs are all +inf: allow one order at least")


def _are_amounts(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = (values >= 0) & np.isfinite(values)
    return found


def _validate_pairs(rewards: Rewards, labels: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The rewards of pairs of different classes, from labels [m] and `kept` [m] bool. Raises
    ValueError for a negative reward of examples that count.
    """
    pairs, values = np.asarray(rewards.pairs), np.asarray(rewards.values)
    is_used = (pairs >= 0).all(axis=1)
    pairs, values = pairs[is_used], values[is_used]
    counts = kept[pairs].all(axis=1)
    pairs, values = pairs[counts], values[counts]
    for index in np.flatnonzero(~_are_amounts(values))[:1]:
        raise ValueError(
            f"pair_weights{pairs[index].tolist()} is {values[index]:g}: expected a finite number"
            " from 0 up"
        )
    is_wanted = labels[pairs] > 0
    between: np.ndarray = values[is_wanted[:, 0] != is_wanted[:, 1]]
    return between


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
    rewards: Rewards | None,
    mask: Array,
    enough: Array | None,
) -> MonomialProblem:
    """Amounts as integers of one unit."""
    table = jnp.where(mask[:, None], table, 0)
    weights = jnp.where(mask, weights, 0)
    labels = jnp.where(mask, labels, 1)
    pairs = None if rewards is None else _between_classes(rewards, labels, mask)
    total = jnp.sum(weights) + (0 if pairs is None else jnp.sum(pairs.values))
    power = integers.exponent(total)
    is_valid = jnp.all((table == 0) | (table == 1) | jnp.isnan(table)) & jnp.all(
        jnp.abs(labels) == 1
    )
    is_valid &= (
        jnp.all(weights >= 0) & (total < jnp.inf) & jnp.all(costs >= 0) & jnp.any(costs < jnp.inf)
    )
    whole, hidden, vanished = _rounded(weights, power)
    whole_pairs = None
    if rewards is not None and pairs is not None:
        is_valid &= jnp.all(pairs.values >= 0) & jnp.all(rewards.pairs < labels.shape[0])
        whole_values, of_values, more = _rounded(pairs.values, power)
        whole_pairs = pairs._replace(values=whole_values)
        hidden, vanished = hidden + of_values, vanished + more
    # an order that costs more than the least cost by the largest possible gain is never the best
    whole_costs, cut = integers.floor_to_integers(costs, power)
    spare = integers.loss_of_rounding(hidden + cut + vanished.astype(hidden.dtype), power)
    whole_enough = None
    if enough is not None:
        is_valid &= ~jnp.isnan(enough)
        whole_enough = _whole_value(enough + jnp.min(costs), power, weights.dtype, whole.dtype)
    return MonomialProblem(
        table,
        labels,
        weights,
        pairs,
        costs,
        power,
        whole,
        whole_pairs,
        whole_costs,
        whole_enough,
        spare,
        is_valid,
    )


def _whole_value(value: Array, power: Array, dtype: Any, whole_dtype: Any) -> Array:
    """A value [] as an integer, rounded down, within the range of sums of integers."""
    most = 1 << integers.bits(dtype)
    return jnp.clip(jnp.floor(numerics.times_power_of_two(value, power)), -most, most).astype(
        whole_dtype
    )


def _between_classes(rewards: Rewards, labels: Array, mask: Array) -> Rewards:
    """The rewards; all that do not count, such as empty slots and pairs within a class, become
    pairs of the first example with itself, of value 0.
    """
    is_used = jnp.all((rewards.pairs >= 0) & (rewards.pairs < labels.shape[0]), axis=1)
    first, second = jnp.where(is_used[:, None], rewards.pairs, 0).T
    is_used &= mask[first] & mask[second] & (labels[first] * labels[second] < 0)
    pairs = jnp.where(is_used[:, None], jnp.stack([first, second], axis=1), 0)
    return Rewards(pairs, jnp.where(is_used, rewards.values, 0))


def _rounded(amounts: Array, power: Array) -> tuple[Array, Array, Array]:
    """Amounts as integers, negative ones as 0; the sum [] of the changes by the rounding, in the
    unit of the integers; and the number [] of positive amounts that became 0.
    """
    whole = integers.to_integers(jnp.where(amounts >= 0, amounts, 0), power)
    changes = jnp.abs(numerics.times_power_of_two(amounts, power) - whole.astype(amounts.dtype))
    return whole, jnp.sum(changes), jnp.sum((whole == 0) & (amounts > 0))
