"""What the pair engine returns, and how it predicts."""

from __future__ import annotations

from typing import Literal, NamedTuple

from jboost.base import check
from jboost.base.predict import scores_of, unless_invalid
from jboost.base.types import Array, ArrayLike
from jboost.geometry.linear import score_points

# Which points a margin is measured on: all but the misclassified ones, or all with the labels of
# those flipped.
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
    offset: Array  # [], bias - normal . anchor, rounded: a convenience
    # [], weight misclassified by the score evaluated in float64, as `jboost.predict` does
    loss: Array
    lower_bound: Array  # [], no separator loses less
    margin: Array  # [], distance of the nearest point that counts
    misclassified: Array  # [n] bool
    status: Array  # [] int32


class LeaveOneOut(NamedTuple):
    """What the best separator of all points but one does to the one left out."""

    error: Array  # [], the mean of `errors`: the leave-one-out estimate of the risk
    errors: Array  # [n], in the unit of the weights; 0 where masked
    # [n] int32: 1 always right, 2 always wrong, 3 both among equally good separators; 0 where
    # masked
    kinds: Array
    status: Array  # [] int32


class ParetoFront(NamedTuple):
    """All best compromises between weight and margin, the lightest first; entries from `count` on
    are padding.

    The i-th separator is score(x) = normals[i] . (x - anchors[i]) + biases[i]. It keeps points of
    the weight that losses[i] leaves at a distance of margins[i] at least, each on its side.
    """

    losses: Array  # [k] weight that is given up, increasing; infinite padding
    margins: Array  # [k] increasing, infinite for a constant classifier; padded with 0
    normals: Array  # [k, d]
    anchors: Array  # [k, d]
    biases: Array  # [k]
    count: Array  # [] int32
    status: Array  # [] int32


class TradeOff(NamedTuple):
    """One point of a Pareto front, with its separator; score(x) = normal . (x - anchor) + bias."""

    energy: Array  # []
    index: Array  # [] int32, its place on the front
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
