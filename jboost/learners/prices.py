"""The worth of hypotheses in the pricing problem of L0-RBoost: g + s - c of Goldberg and Eckstein
2009, (21), for outputs -1, 0 and +1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check
from jboost.base.types import Array, ArrayLike


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


def validate_pairs(pair_weights: Array | None, num_examples: int, dtype: jnp.dtype) -> Array:
    """The rewards of pairs [m, m], 0 for None. Raises ValueError, naming them, for a wrong shape or
    dtype.
    """
    if pair_weights is None:
        return jnp.zeros((num_examples, num_examples), dtype)
    pairs: Array = check.numeric(
        "pair_weights", pair_weights, shape=(num_examples, num_examples), kinds="f"
    )
    return pairs


def worth(
    outputs: Array, labels: Array, example_weights: Array, pairs: Array, cost: Array
) -> Worth:
    """The worth of hypotheses with outputs [m, n], for labels [m] that are 0 on padding. `slack`
    bounds its rounding error.
    """
    margins = outputs * labels[:, None]
    edges = jnp.matmul(example_weights, margins, precision=lax.Precision.HIGHEST)

    def served(sign: float) -> Array:
        hits, misses = sign * margins == 1, (sign * margins != -1) & (labels != 0)[:, None]
        reached = jnp.matmul(pairs, misses.astype(pairs.dtype), precision=lax.Precision.HIGHEST)
        return jnp.sum(jnp.where(hits, reached, 0.0), axis=0)

    return Worth(edges + served(1.0) - cost, -edges + served(-1.0) - cost)


def slack(example_weights: Array, pairs: Array, cost: Array) -> Array:
    """An upper bound on the rounding error of any worth, []."""
    eps = jnp.finfo(example_weights.dtype).eps
    return (
        2
        * (example_weights.shape[0] + 8)
        * eps
        * (jnp.sum(pairs) + jnp.sum(example_weights) + jnp.max(cost, initial=0.0))
    )
