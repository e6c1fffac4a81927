"""The result of a combination of classifiers, and its predictions."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check
from jboost.base.predict import scores_of
from jboost.base.types import Array, ArrayLike
from jboost.geometry.linear import score_points


class InfeasibleSubsystems(NamedTuple):
    """A certificate of a lower bound on the loss of every linear vote with an offset.

    Row g names up to d + 2 examples that no vote has all right: with the multipliers lambda > 0 of
    Farkas, sum_i lambda_i y_i (x_i, 1) = 0. Every vote therefore misclassifies one of them. The
    amounts of the rows that name an example sum to at most its weight, up to the rounding of the
    weights. The loss is then at least the sum of all amounts. With equal weights the rows are
    disjoint. The multipliers are rounded; exact ones exist. `jboost.combine.recompute_bound` solves
    for them in fractions.
    """

    members: Array  # [n, d + 2] int32 indices of examples, -1 for unused slots and rows
    multipliers: Array  # [n, d + 2] of the members, at most 1; 0 for unused slots
    amounts: Array  # [n], 0 for unused rows
    lower_bound: Array  # []


class LinearVote(NamedTuple):
    """A linear combination of d classifiers, score(x) = coefficients . x + offset, with its loss
    and a lower bound.

    An example of score 0 counts as misclassified. So does an example whose score is so close to 0
    that rounding could change its sign. Evaluation in float64, in any order, therefore never gives
    a larger loss than `loss`. A constant classifier has coefficients 0, offset +1 or -1 and an
    infinite margin.
    """

    coefficients: Array  # [d]
    offset: Array  # []
    loss: Array  # [], the misclassified weight
    lower_bound: Array  # [], on the loss of all linear combinations
    margin: Array  # [], distance of the nearest correct example, in the units of the scores
    misclassified: Array  # [n] bool
    status: Array  # [] int32
    # None in model files of earlier versions
    certificate: InfeasibleSubsystems | None = None


@scores_of.register
def _(model: LinearVote, features: ArrayLike) -> Array:
    features = check.numeric(
        "features", features, shape=("k", model.coefficients.shape[0]), kinds="fiu"
    )
    return score_points(
        features, model.coefficients, jnp.zeros_like(model.coefficients), model.offset
    )
