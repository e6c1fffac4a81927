"""The arguments of a problem: checked, as arrays, and rounded to integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, labelled, numerics
from jboost.base.types import Array, ArrayLike
from jboost.monomials import integers

_MOST_ROWS = 1 << 18  # with more rows, sums of the low bits of integers are not exact in 32 bits
_MOST_ROWS_OF_PAIRS = 1 << 15  # with more rows, the index of a pair does not fit into 32 bits


class MonomialProblem(NamedTuple):
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


def make_problem(
    features: ArrayLike,
    labels: ArrayLike,
    example_weights: ArrayLike,
    max_order: int | None,
    costs: ArrayLike | None,
    pair_weights: ArrayLike | None,
    mask: ArrayLike | None,
    enough: ArrayLike | None,
) -> tuple[MonomialProblem, bool]:
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
    highest = _highest_order(max_order, num_attributes)
    prices = None
    if costs is not None:
        prices = check.numeric("costs", costs, shape=(highest + 1,), kinds="fiu")
    rewards = None if pair_weights is None else _rewards_of(pair_weights, num_examples)
    dtype = jnp.result_type(
        *(
            float_type_of(part.dtype)
            for part in (table, weights, prices, rewards)
            if part is not None
        )
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


def _rewards_of(pair_weights: ArrayLike, num_examples: int) -> Array:
    """The pair weights [m, m] as an array. Raises ValueError for too many examples."""
    if num_examples > _MOST_ROWS_OF_PAIRS:
        raise ValueError(
            f"pair_weights is of {num_examples} examples: {_MOST_ROWS_OF_PAIRS} at most; merge"
            " equal ones (jboost.data.merging)"
        )
    return check.numeric(
        "pair_weights", pair_weights, shape=(num_examples, num_examples), kinds="fiu"
    )


def float_type_of(dtype: Any) -> Any:
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
) -> MonomialProblem:
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
    hidden = _rounding_of(weights, whole, power)
    whole_rewards = None
    vanished = jnp.sum((whole == 0) & (weights > 0))
    if rewards is not None:
        is_valid &= jnp.all(rewards >= 0)
        whole_rewards = integers.to_integers(jnp.where(rewards >= 0, rewards, 0), power)
        hidden += _rounding_of(rewards, whole_rewards, power)
        vanished += jnp.sum((whole_rewards == 0) & (rewards > 0))
    # an order that costs more than the least cost by the largest possible gain is never the best
    whole_costs, cut = integers.floor_to_integers(costs, power)
    spare = integers.loss_of_rounding(hidden + cut + vanished.astype(hidden.dtype), power)
    whole_enough = None
    if enough is not None:
        is_valid &= ~jnp.isnan(enough)
        most = 1 << integers.bits(weights.dtype)
        whole_enough = jnp.clip(
            jnp.floor(numerics.times_power_of_two(enough + jnp.min(costs), power)), -most, most
        ).astype(whole.dtype)
    return MonomialProblem(
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


def _rounding_of(amounts: Array, whole: Array, power: Array) -> Array:
    """The sum [] of the changes of amounts by the rounding to integers, in their unit."""
    return jnp.sum(
        jnp.abs(numerics.times_power_of_two(amounts, power) - whole.astype(amounts.dtype))
    )
