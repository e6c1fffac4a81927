"""Computes the values of all monomials of at most two literals, with rewards for a list of pairs.
It uses integers and products of matrices.

Let C [L + 1, m] be the covers of the empty monomial and of each literal. The weight that "l and l'"
covers is (C diag(w) C')_ll'. A pair (i, j) rewards a cover with i and without j. Its reward is
added to the weight of i, and subtracted again where j is covered too. With R the literals that i
and j share, the second part is (R diag(v) R')_ll'. No array of size m x m is made. Memory is (L +
1) (m + K + 4 (L + 1)) numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import check, devices, numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.monomials import integers
from jboost.monomials.found import FoundMonomials, merge, nothing
from jboost.monomials.instance import literals_of
from jboost.monomials.types import Monomials, MonomialSolution, Rewards

MOST_LITERALS = 1024  # the largest number of literals for which all pairs are valued at once
_CANDIDATES = 8  # candidates for each monomial returned, because some may be duplicates


class _Whole(NamedTuple):
    """Amounts as integers of one unit."""

    weights: Array  # [m]
    rewards: Array  # [K]
    costs: Array  # [3], the largest integer for orders that are not allowed
    power: Array  # [] the integers are the amounts times 2^power, rounded
    spare: Array  # [] a bound of the effect of the rounding to integers on a value


def best_of_all(
    features: Array,
    labels: Array,
    weights: Array,
    rewards: Rewards,
    costs: Array,
    *,
    num_best: int,
    takes_missing: bool,
) -> MonomialSolution:
    """The best monomials of both signs, and an upper bound of all values. The length of `costs`
    limits the number of literals.

    This is `maximum_agreement` for a list of pairs, with the same integers. It can be traced, and
    it does no search.

    Args:
      features: [m, N] of 0, 1, and NaN, which satisfies neither literal of an attribute.
      labels: [m] -1 or +1.
      weights: [m], not negative, 0 for examples that do not count.
      rewards: of K pairs of examples of opposite classes; others are ignored.
      costs: [1] to [3] by order.
      num_best: static.
      takes_missing: static, whether features may be NaN.
    """
    check.count("num_best", num_best, low=1)
    return _best_of_all(
        features, labels, weights, rewards, costs, num_best=num_best, takes_missing=takes_missing
    )


@devices.public_jit(static_argnames=("num_best", "takes_missing"))
def _best_of_all(
    features: Array,
    labels: Array,
    weights: Array,
    rewards: Rewards,
    costs: Array,
    *,
    num_best: int,
    takes_missing: bool,
) -> MonomialSolution:
    dtype = weights.dtype
    known = (~jnp.isnan(features)).astype(dtype) if takes_missing else None
    ones = (features == 1).astype(dtype)
    literals = literals_of(ones, known)
    covers = jnp.concatenate([jnp.ones_like(labels)[:, None].astype(dtype), literals], axis=1)
    rewards = _between_classes(rewards, labels)
    whole = _as_integers(weights, rewards, costs)
    has_pairs = costs.shape[0] > 2
    value, gained, kept = _values(covers, labels, whole, rewards, has_pairs=has_pairs)
    signs = jnp.broadcast_to(
        jnp.array([1, -1], value.dtype).reshape((2,) + (1,) * (value.ndim - 1)), value.shape
    )
    numbers = jnp.stack([part.reshape(-1) for part in (value, gained, kept, signs)], axis=1)
    _, best = numerics.top_k(numbers[:, 0], min(numbers.shape[0], _CANDIDATES * num_best))
    num_words = -(-literals.shape[1] // 32)
    words = _words_of(best, covers.shape[1], num_words, has_pairs=has_pairs)
    found = merge(
        nothing(value.dtype, num_best=num_best, num_words=num_words),
        FoundMonomials(numbers[best], words),
    )
    is_valid = _is_valid(features, labels, weights, rewards, costs, takes_missing=takes_missing)
    return _solution(found, covers, labels, weights, rewards, costs, whole, is_valid)


def _between_classes(rewards: Rewards, labels: Array) -> Rewards:
    """The rewards, with empty slots and pairs within a class replaced by pairs of the first example
    with itself and value 0.
    """
    is_used = jnp.all(rewards.pairs >= 0, axis=1)
    pairs = jnp.where(is_used[:, None], rewards.pairs, 0)
    is_used &= labels[pairs[:, 0]] * labels[pairs[:, 1]] < 0
    return Rewards(pairs, jnp.where(is_used, rewards.values, 0))


def _as_integers(weights: Array, rewards: Rewards, costs: Array) -> _Whole:
    total = jnp.sum(weights) + jnp.sum(rewards.values)
    power = integers.exponent(total)
    parts = [jnp.where(part >= 0, part, 0) for part in (weights, rewards.values)]
    whole = [integers.to_integers(part, power) for part in parts]
    hidden = sum(_hidden(part, number, power) for part, number in zip(parts, whole, strict=True))
    prices, cut = integers.floor_to_integers(costs, power)
    prices = jnp.pad(
        prices, (0, 3 - prices.shape[0]), constant_values=integers.largest(prices.dtype)
    )
    spare = integers.loss_of_rounding(hidden + cut, power)
    return _Whole(whole[0], whole[1], prices, power, spare)


def _hidden(part: Array, number: Array, power: Array) -> Array:
    """A bound [] of the loss by rounding numbers [k] to integers, plus one unit for each number
    that becomes 0.
    """
    lost = jnp.sum(jnp.abs(numerics.times_power_of_two(part, power) - number.astype(part.dtype)))
    return lost + jnp.sum((number == 0) & (part > 0)).astype(part.dtype)


def _values(
    covers: Array, labels: Array, whole: _Whole, rewards: Rewards, *, has_pairs: bool
) -> tuple[Array, Array, Array]:
    """The values, gains and losses of all monomials of sign +1 and -1, [2, L + 1, L + 1] each;
    [2, L + 1] for at most one literal.
    """
    first, second = rewards.pairs.T
    paid = jnp.zeros_like(whole.weights).at[first].add(whole.rewards)
    gains = whole.weights + paid
    shared = covers[first] * covers[second]
    size = covers.shape[1]

    def of_sign(sign: Array) -> tuple[Array, Array, Array]:
        """The gain and the loss of each cover, and the rewards that it does not gain because it
        covers both examples of a pair.
        """
        own = labels == sign
        parts = (
            (covers, jnp.where(own, gains, 0)),
            (covers, jnp.where(own, 0, whole.weights)),
            (shared, jnp.where(labels[first] == sign, whole.rewards, 0)),
        )
        gained, kept, missed = (
            _summed(table, amounts, has_pairs=has_pairs) for table, amounts in parts
        )
        return gained, kept, missed

    gained, kept, missed = jax.vmap(of_sign)(jnp.array([1, -1], labels.dtype))
    orders = _orders(size, has_pairs=has_pairs)
    prices = jnp.where(whole.costs > jnp.sum(gains), integers.largest(gains.dtype), whole.costs)
    value = gained - kept - missed - prices[jnp.maximum(orders, 0)][None]
    return jnp.where(orders[None] < 0, jnp.iinfo(value.dtype).min, value), gained, kept


def _summed(table: Array, amounts: Array, *, has_pairs: bool) -> Array:
    """Sums [k, k] of integers [r] over the rows in which two columns of a table [r, k] of 0 and 1
    are both 1; without pairs, sums [k] over the rows in which one column is 1.
    """
    if not has_pairs:
        return integers.product(table.T, amounts[:, None])[:, 0]
    return integers.product(table.T, amounts[:, None] * table.astype(amounts.dtype))


def _orders(size: int, *, has_pairs: bool) -> Array:
    """The number of literals of the monomial at each index, -1 if the index holds none. Index 0
    stands for no literal; the literals follow.
    """
    places = jnp.arange(size)
    alone = jnp.where(places == 0, 0, 1)
    if not has_pairs:
        return alone
    num_bits = (size - 1) // 2
    row, column = places[:, None], places[None, :]
    is_pair = (row > 0) & (column > row) & (column - row != num_bits)
    return jnp.where(row == 0, alone[None, :], jnp.where(is_pair, 2, -1))


def _words_of(places: Array, size: int, num_words: int, *, has_pairs: bool) -> Array:
    """The literals of monomials at flat places [k] of [2, size(, size)], as words [k, W]."""
    ends = [places % size, (places // size) % size] if has_pairs else [places % size]
    words = jnp.zeros((places.shape[0], num_words), jnp.uint32)
    for end in ends:
        words |= jnp.where(
            (end > 0)[:, None],
            integers.one_bit(jnp.maximum(end - 1, 0).astype(jnp.int32), num_words),
            jnp.uint32(0),
        )
    return words


def _is_valid(
    features: Array,
    labels: Array,
    weights: Array,
    rewards: Rewards,
    costs: Array,
    *,
    takes_missing: bool,
) -> Array:
    is_bit = (features == 0) | (features == 1)
    is_valid = jnp.all(is_bit | jnp.isnan(features) if takes_missing else is_bit) & jnp.all(
        jnp.abs(labels) == 1
    )
    is_valid &= (
        jnp.all(weights >= 0)
        & jnp.all(rewards.values >= 0)
        & jnp.all(costs >= 0)
        & jnp.any(costs < jnp.inf)
    )
    return is_valid & (jnp.sum(weights) + jnp.sum(rewards.values) < jnp.inf)


def _solution(
    found: FoundMonomials,
    covers: Array,
    labels: Array,
    weights: Array,
    rewards: Rewards,
    costs: Array,
    whole: _Whole,
    is_valid: Array,
) -> MonomialSolution:
    """The solution of the monomials found, with the caller's amounts, the best first."""
    num_literals = covers.shape[1] - 1
    flags = integers.unpack(found.literals, num_literals)
    half = num_literals // 2
    literals = flags[:, :half].astype(jnp.int8) - flags[:, half:].astype(jnp.int8)
    orders = jnp.sum(jnp.abs(literals), axis=1, dtype=jnp.int32)
    missing = numerics.times(flags.astype(covers.dtype), 1 - covers[:, 1:].T)
    inside = missing == 0
    agreement = numerics.times(inside.astype(weights.dtype), (weights * labels)[:, None])[:, 0]
    first, second = rewards.pairs.T
    chosen = found.signs.astype(agreement.dtype)
    serves = inside[:, first] & ~inside[:, second] & (labels[first][None, :] == chosen[:, None])
    paid = numerics.times(serves.astype(weights.dtype), rewards.values[:, None])[:, 0]
    allowed = orders < costs.shape[0]
    worth = chosen * agreement + paid - costs[jnp.minimum(orders, costs.shape[0] - 1)]
    is_found = (found.values > jnp.iinfo(found.values.dtype).min) & allowed & is_valid
    values = jnp.where(is_found, worth, -jnp.inf)
    order = jnp.argsort(-values, stable=True)
    values = values[order]
    literals = jnp.where((values > -jnp.inf)[:, None], literals[order], 0)
    signs = jnp.where(values > -jnp.inf, found.signs[order], 1).astype(jnp.int8)
    best = reduce.largest(found.values)
    above = integers.largest_value(best, whole.power, jnp.min(costs), whole.spare)
    upper = jnp.where(is_valid, jnp.maximum(above, values[0]), jnp.inf)
    status = jnp.where(is_valid, int(Status.OPTIMAL), int(Status.INVALID_INPUT)).astype(jnp.int32)
    num_valued = jnp.asarray(2 * covers.shape[1], jnp.int32)
    return MonomialSolution(
        literals[0],
        signs[0],
        values[0],
        upper,
        Monomials(literals, signs, values),
        num_valued,
        status,
    )
