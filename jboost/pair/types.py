"""The results of the pair engine, and their predictions."""

from __future__ import annotations

from typing import Literal, NamedTuple

from jboost.base import check
from jboost.base.predict import scores_of, unless_invalid
from jboost.base.types import Array, ArrayLike
from jboost.geometry.linear import score_points

# The points that a margin is measured on: "removed" means all except the misclassified ones,
# "flipped" means all, with the labels of the misclassified ones flipped.
Fat = Literal["removed", "flipped"]


class Separator(NamedTuple):
    """An oriented hyperplane with score(x) = normal . (x - anchor) + bias, and the proof of its
    quality.

    A point of score 0 counts as misclassified. A constant classifier has normal 0, bias +1 or -1
    and an infinite margin.
    """

    normal: Array  # [d], not necessarily a unit vector
    anchor: Array  # [d], a support point
    bias: Array  # []
    offset: Array  # [], bias - normal . anchor, rounded; for convenience
    # [], weight misclassified by the score evaluated in float64, as `jboost.predict` does
    loss: Array
    lower_bound: Array  # [], no separator loses less
    margin: Array  # [], distance of the nearest point that counts
    misclassified: Array  # [n] bool
    status: Array  # [] int32


class LeaveOneOut(NamedTuple):
    """Leave-one-out errors: each point is classified by the optimal separators of all other
    points.
    """

    error: Array  # [], the mean of `errors`: the leave-one-out estimate of the risk
    errors: Array  # [n], in the unit of the weights; 0 where masked
    # [n] int32: 1 if all optimal separators of the other points classify the point correctly, 2 if
    # none does, 3 if some do; 0 where masked
    kinds: Array
    status: Array  # [] int32


class ParetoFront(NamedTuple):
    """The Pareto front of weight and margin, by increasing weight. Entries from `count` on are
    padding.

    The i-th separator is score(x) = normals[i] . (x - anchors[i]) + biases[i]. All points except
    some of total weight losses[i] are on their side at a distance of at least margins[i].
    """

    losses: Array  # [k] the weight of the points that are not kept, increasing; padded with inf
    margins: Array  # [k] increasing, infinite for a constant classifier; padded with 0
    normals: Array  # [k, d]
    anchors: Array  # [k, d]
    biases: Array  # [k]
    count: Array  # [] int32
    status: Array  # [] int32


class TradeOff(NamedTuple):
    """One point of a Pareto front, with its separator; score(x) = normal . (x - anchor) + bias."""

    energy: Array  # []
    index: Array  # [] int32, its index on the front
    normal: Array  # [d]
    anchor: Array  # [d]
    bias: Array  # []
    loss: Array  # []
    margin: Array  # []
    status: Array  # [] int32, that of the front


@scores_of.register
def _(model: Separator | TradeOff, features: ArrayLike) -> Array:
    features = check.numeric("features", features, shape=("k", model.normal.shape[0]), kinds="fiu")
    return score_points(features, model.normal, model.anchor, unless_invalid(model, model.bias))
