"""The vote of the relaxation (18) of Goldberg and Eckstein (2009) as it is: their Algorithm 1
returns (xi, mu, lambda), and lambda is the vote.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jax import lax
from jax.scipy.sparse.linalg import cg

from jboost.base import reduce
from jboost.base.types import Array
from jboost.l0.votes import local_search
from jboost.l0.votes.local_search import FeasibleVote, VoteInstance

# A row has just the margin up to this, and gains if it gains at least this share of what most do.
TIGHT, LEAST_GAIN = 1e-5, 0.1
_MAX_STEPS = 100  # of conjugate gradients


@dataclasses.dataclass(frozen=True)
class CoefficientsConfig:
    """The final vote is lambda, the solution of the last relaxation (18), rounded to multiples of
    the unit of the float type.

    lambda is not unique. The interior point method gives a central point of all solutions, which
    spreads over most columns that are held; a vertex would have fewer.

    In a solution many rows have just the margin. lambda is moved by a few units, so that rounding
    does not take it from them. Where the margin is the largest that the hypotheses can give these
    rows, as with votes of one third and the margin 1/3, there is no such move, and the loss of the
    vote counts rows as missed that have the margin up to rounding. A slightly smaller margin, such
    as 0.333, has none of these.
    """


def vote_of(instance: VoteInstance, coefficients: Array) -> FeasibleVote:
    """The vote lambda [n]: of two roundings the one of less loss."""
    inner = local_search.evaluate(instance, _moved_inside(instance, coefficients))
    return local_search.better(local_search.evaluate(instance, coefficients), inner)


def _moved_inside(instance: VoteInstance, coefficients: Array) -> Array:
    """Coefficients [n] moved by so much that rows that have just the margin still have it after
    rounding, if all of them can gain.
    """
    is_used = instance.is_column & (coefficients > 0)
    above = _times(coefficients, instance.margins) - instance.margin
    is_tight = (jnp.abs(above) <= TIGHT) & (instance.weights > 0)
    gain = _equal_gain(instance.margins, is_used, is_tight)
    gains = _times(gain, instance.margins)
    least = reduce.least(jnp.where(is_tight & (gains > LEAST_GAIN), gains, jnp.inf))
    number = jnp.sum(is_used, dtype=jnp.int32).astype(coefficients.dtype)
    rounding = (number + 1) * jnp.finfo(coefficients.dtype).eps
    missing = rounding + reduce.largest(jnp.where(is_tight, jnp.maximum(-above, 0.0), 0.0))
    moved = jnp.maximum(coefficients + gain * (missing / least), 0.0)
    return jnp.where(jnp.isfinite(moved).all() & (least < jnp.inf), moved, coefficients)


def _equal_gain(margins: Array, is_used: Array, is_tight: Array) -> Array:
    """The least change of the used coefficients, of sum 0, by which the tight rows of margins [n,
    m] gain as nearly as possible 1 each. It copies no part of the margins.
    """
    number = jnp.maximum(jnp.sum(is_used, dtype=jnp.int32), 1).astype(margins.dtype)

    def centred(change: Array) -> Array:
        kept = jnp.where(is_used, change, 0.0)
        return jnp.where(is_used, kept - jnp.sum(kept) / number, 0.0)

    def products(change: Array) -> Array:
        gains = jnp.where(is_tight, _times(centred(change), margins), 0.0)
        return centred(_times(margins, gains))

    wanted = centred(_times(margins, jnp.where(is_tight, 1.0, 0.0).astype(margins.dtype)))
    return centred(cg(products, wanted, maxiter=_MAX_STEPS)[0])


def _times(first: Array, second: Array) -> Array:
    return jnp.matmul(first, second, precision=lax.Precision.HIGHEST)
