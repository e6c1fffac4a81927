"""Separators whose cost grows with the distance of the points that they get wrong: the linear program of the literature, as a baseline.

Paper 000, Section 4, sets such weights beside its own and says that they solve another problem; here they can be compared. The program
is that of Bennett and Mangasarian 1992 (the paper's [2]): with slacks xi_i = max(0, 1 - y_i (v . x_i + v0)) it minimises the weighted mean
slack of either class, summed, so that v = 0 is never better than a line. An outlier that costs 1 in the exact engine costs here as much as
it lies off.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost import lp
from jboost.base import check, types
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike

_STEEPEST = 2.0**10  # of v and v0, half the extent of the points being 1: a bound is provable only where variables have one


class DistanceSeparator(NamedTuple):
    """score(x) = normal . (x - anchor) + bias, of least total distance; a point of score 0 counts as misclassified."""

    normal: Array  # [2], 0 where no direction helps
    anchor: Array  # [2]
    bias: Array  # []
    objective: Array  # [], the mean slack of either class, summed, of this line
    lower_bound: Array  # [], proven for the program in scaled coordinates
    loss: Array  # [], weight misclassified, as `optimal_separator` counts it
    status: Array  # [] int32


@predict_scores.register
def _(model: DistanceSeparator, features: ArrayLike) -> Array:
    features = check.numeric("features", features, shape=("k", model.normal.shape[0]), kinds="fiu")
    return _scores(model.normal, model.anchor, model.bias, features.astype(model.normal.dtype))


def _scores(normal: Array, anchor: Array, bias: Array, points: Array) -> Array:
    return jnp.sum(normal[None] * (points - anchor[None]), axis=-1) + bias


def least_distance_separator(
    points: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None, mask: ArrayLike | None = None
) -> DistanceSeparator:
    """The line of least mean slack, by a linear program; for comparison with `optimal_separator`, which counts errors instead.

    Gaps narrower than about 2^-10 of the extent of the points are not sought. It may be jitted and vmapped.

    Args:
      points: [n, 2], real, n at least 1.
      labels: [n], +1 or -1.
      weights: [n], positive; None for ones.
      mask: [n] bool, False for rows that only pad.

    Returns:
      `DistanceSeparator`; statuses are those of `jboost.lp.solve`: without 64-bit types NUMERICAL_ERROR is common where gaps are
        narrow. If the points are of one class it is the constant classifier.

    Raises:
      ValueError: at trace time, naming the argument, where a shape or a kind is wrong. Values that are not allowed give status
        INVALID_INPUT and NaN.

    >>> import jboost
    >>> separator = jboost.pair.least_distance_separator([[0.0, 0.0], [2.0, 0.0], [3.0, 1.0]], [-1, 1, 1])
    >>> round(float(separator.objective), 4), float(separator.loss)
    (0.0, 0.0)
    """
    points = check.numeric("points", points, shape=("n", 2), kinds="fiu")
    labels = check.numeric("labels", labels, shape=(points.shape[0],), kinds="fiu")
    weights, mask = types.fill(weights, mask, points.shape[0])
    if points.shape[0] == 0:
        raise ValueError("points has no rows: a linear program needs one at least")
    return _solve(points, labels, weights, mask)


@functools.partial(jax.jit)
def _solve(points: Array, labels: Array, weights: Array, mask: Array) -> DistanceSeparator:
    dtype = jnp.result_type(float)
    points, labels, weights = (lax.stop_gradient(array).astype(dtype) for array in (points, labels, weights))
    sound = jnp.all(jnp.isfinite(points), axis=1) & (jnp.abs(labels) == 1) & (weights > 0) & jnp.isfinite(weights)
    valid = jnp.all(sound | ~mask)
    live = mask & valid
    points = jnp.where(live[:, None], points, 0)
    labels, weights = jnp.where(live, labels, 0), jnp.where(live, weights, 0)
    low, high = (pick(jnp.where(live[:, None], points, fill), axis=0) for pick, fill in ((jnp.min, jnp.inf), (jnp.max, -jnp.inf)))
    some = jnp.any(live)
    anchor = jnp.where(some, (low + high) / 2, 0)
    extent = jnp.where(some, jnp.max(high - low) / 2, 0)
    size = jnp.where(extent > 0, extent, 1)
    scaled = jnp.where(live[:, None], (points - anchor[None]) / size, 0)
    share = _shares(weights, labels > 0) + _shares(weights, labels < 0)
    size_rows = labels.shape[0]
    matrix = jnp.concatenate([labels[:, None] * scaled, labels[:, None], jnp.eye(size_rows, dtype=dtype)], axis=1)
    free = jnp.full(3, _STEEPEST, dtype)
    program = lp.make_program(
        jnp.concatenate([jnp.zeros(3, dtype), share]),
        matrix,
        row_lower=jnp.where(live, 1, -jnp.inf),
        lower=jnp.concatenate([-free, jnp.zeros(size_rows, dtype)]),
        upper=jnp.concatenate([free, jnp.where(live, jnp.inf, 0).astype(dtype)]),
    )
    solution = lp.solve(program)
    one_class = ~(jnp.any(labels > 0) & jnp.any(labels < 0))
    normal = jnp.where(one_class, 0, solution.primal[:2] / size)
    bias = jnp.where(one_class, jnp.where(jnp.any(labels < 0), -1, 1), solution.primal[2])
    scores = labels * _scores(normal, anchor, bias, points)
    slacks = jnp.maximum(1 - scores, 0)
    spoiled = jnp.where(valid, 0, jnp.nan)
    return DistanceSeparator(
        normal=normal,
        anchor=anchor,
        bias=bias,
        objective=jnp.sum(share * slacks) + spoiled,
        lower_bound=jnp.where(one_class, 0, jnp.maximum(solution.lower_bound, 0)) + spoiled,
        loss=jnp.sum(jnp.where(live & (scores <= 0), weights, 0)) + spoiled,
        status=jnp.where(valid, jnp.where(one_class, int(Status.OPTIMAL), solution.status), int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _shares(weights: Array, members: Array) -> Array:
    """Each member's share of the weight of its class, 0 for others."""
    own = jnp.where(members, weights, 0)
    total = jnp.sum(own)
    return own / jnp.where(total > 0, total, 1)
