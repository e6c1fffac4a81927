"""The worth of hypotheses in the pricing problem of L0-RBoost: g + s - c of Goldberg and Eckstein
2009, (21), for outputs -1, 0 and +1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check, loops, numerics
from jboost.base.types import Array, ArrayLike
from jboost.monomials.types import Rewards

_PAIRS_AT_ONCE = 256  # pairs of one product; a round number, not tuned


class Worth(NamedTuple):
    """g + s - c of some hypotheses and of their negations."""

    own: Array  # [n]
    negated: Array  # [n]


def validate_cost(cost: float) -> float:
    """The cost of a hypothesis, static. Raises ValueError for values that are not allowed, and for
    a traced number.
    """
    if isinstance(cost, jax.core.Tracer):
        raise ValueError(
            "cost is traced, but it is static for this learner: pass a concrete number, or use"
            " monomials, whose kappa may be traced"
        )
    check.number("cost", cost, low=0, high=check.LARGEST)
    return float(cost)


def validate_costs(costs: ArrayLike) -> Array:
    """The costs of the columns of a pool, [N]. Raises ValueError for values that are not allowed,
    if they are concrete. If traced ones are not allowed, all become -1, with which a fit ends in
    INVALID_INPUT.
    """
    given: Array = check.numeric("costs", costs, shape=("N",), kinds="fiu")
    if not isinstance(given, jax.core.Tracer):
        values = np.asarray(given, np.float64)
        for (index,) in np.argwhere(~((values >= 0) & (values < check.LARGEST)))[:1].tolist():
            raise ValueError(
                f"costs[{index}] is {values[index]:g}: expected costs that are finite and not"
                " negative"
            )
    given = given.astype(jnp.result_type(float))
    return jnp.where(jnp.all((given >= 0) & (given < check.LARGEST)), given, -1.0)


def validate_pairs(pair_weights: Array | None, num_examples: int, dtype: jnp.dtype) -> Rewards:
    """The list of all rewards of a matrix of pairs [m, m], empty for None. Raises ValueError,
    naming them, for a wrong shape or dtype.
    """
    if pair_weights is None:
        return Rewards(jnp.zeros((0, 2), jnp.int32), jnp.zeros((0,), dtype))
    pairs = check.numeric(
        "pair_weights", pair_weights, shape=(num_examples, num_examples), kinds="f"
    )
    return Rewards(jnp.indices(pairs.shape, jnp.int32).reshape(2, -1).T, pairs.reshape(-1))


def of_examples(rewards: Rewards, labels: Array) -> Rewards:
    """The rewards. Empty slots, pairs within a class, and pairs with padding, whose label [m] is 0,
    get the value 0.
    """
    is_used = jnp.all(rewards.pairs >= 0, axis=1)
    pairs = jnp.where(is_used[:, None], rewards.pairs, 0)
    first, second = pairs.T
    is_used &= labels[first] * labels[second] < 0
    return Rewards(pairs, jnp.where(is_used, rewards.values, 0))


def worth(
    outputs: Array, labels: Array, example_weights: Array, rewards: Rewards, cost: Array
) -> Worth:
    """The worth of hypotheses with outputs [m, n], for labels [m] that are 0 on padding. `slack`
    bounds its rounding error.
    """
    margins = outputs * labels[:, None]
    edges = jnp.matmul(example_weights, margins, precision=lax.Precision.HIGHEST)
    own, negated = _served(margins, of_examples(rewards, labels))
    return Worth(edges + own - cost, negated - edges - cost)


def _served(margins: Array, rewards: Rewards) -> Array:
    """The rewards of hypotheses with margins [m, n], and those of their negations, [2, n]. They are
    summed in 64 bits, a block of pairs at a time.
    """
    num_pairs, num_columns = rewards.values.shape[0], margins.shape[1]
    if num_pairs == 0:
        return jnp.zeros((2, num_columns), margins.dtype)
    at_once = min(num_pairs, _PAIRS_AT_ONCE)
    missing = (0, -num_pairs % at_once)
    first, second = jnp.pad(rewards.pairs, (missing, (0, 0))).T
    values = jnp.pad(rewards.values, missing)

    def summed(margins: Array, values: Array) -> Array:
        wide = values.astype(jnp.float64)

        def add(step: Array, total: Array) -> Array:
            places = step * at_once + jnp.arange(at_once, dtype=jnp.int32)
            mine, theirs = margins[first[places]], margins[second[places]]
            are_served = jnp.concatenate(
                [(mine == 1) & (theirs != -1), (mine == -1) & (theirs != 1)], axis=1
            )
            return total + numerics.times(wide[None, places], are_served.astype(wide.dtype))

        empty = jnp.zeros((1, 2 * num_columns), wide.dtype)
        total = loops.fori_loop(jnp.int32(0), jnp.int32(len(wide) // at_once), add, empty)
        return total.reshape(2, num_columns).astype(margins.dtype)

    served: Array = numerics.in_64_bits(summed)(margins, values)
    return served


def slack(example_weights: Array, rewards: Rewards, cost: Array) -> Array:
    """An upper bound on the rounding error of any worth, []."""
    eps = jnp.finfo(example_weights.dtype).eps
    is_used = jnp.all(rewards.pairs >= 0, axis=1)
    total = jnp.sum(jnp.where(is_used, rewards.values, 0))
    total += jnp.sum(example_weights) + jnp.max(cost, initial=0.0)
    return 2 * (example_weights.shape[0] + 8) * eps * total
