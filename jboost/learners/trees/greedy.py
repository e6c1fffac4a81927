"""Greedy trees: each node takes the split of least Gini impurity (Breiman, Friedman, Olshen and
Stone 1984, Chapter 4), level by level.

With W the weight of the examples of a side and S their weighted sum of labels, the impurity of a
split is that of the node without S^2 / W of both sides, but for a factor. The split of greatest
sum of S^2 / W is taken. The weighted error itself is no good criterion here: it does not change as
long as both sides have the same majority.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array
from jboost.learners.trees import cuts
from jboost.learners.trees.learner import Splits, Trees, TreesState

# The share of the weight of a node below which a side counts as empty, for each example: sums of
# weights in 64 bits are only known to such a share.
_ROUNDING = 2.0**-51


class GreedyTrees(Trees):
    """The learner behind `trees` for depths above 2."""

    def search(self, state: TreesState, signed: Array) -> Splits:
        """Greedy splits. Their bound is +inf: they prove nothing."""
        feature, split = numerics.in_64_bits(self._grow)(state.codes, signed)
        return Splits(feature, split, jnp.full((), jnp.inf, signed.dtype))

    def _grow(self, codes: Array, signed: Array) -> tuple[Array, Array]:
        """The feature and the split [2^d - 1] of each node. All levels have as many places as the
        last one, so that one loop body computes any level.
        """
        are_categories = self.are_categories(codes.shape[0])
        example = lax.iota(jnp.int32, codes.shape[1])
        terms = signed.astype(jnp.float64)
        terms = jnp.stack([terms, jnp.abs(terms)], axis=1)

        def grow(place: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
            feature, split = self._best_splits(codes, are_categories, place, terms)
            own = feature[place]
            right = cuts.is_right(
                codes[own, example], split[place], are_categories[own], self.num_cuts
            )
            return 2 * place + right.astype(jnp.int32), (feature, split)

        _, levels = loops.scan(grow, jnp.zeros_like(example), None, length=self.max_depth)
        feature, split = (
            jnp.concatenate([level[depth, : 2**depth] for depth in range(self.max_depth)])
            for level in levels
        )
        return feature, split

    def _best_splits(
        self, codes: Array, are_categories: Array, place: Array, terms: Array
    ) -> tuple[Array, Array]:
        """The feature and the split of least impurity for the node of each place, [2^(d - 1)]."""
        num_places, num_codes = 2 ** (self.max_depth - 1), self.num_cuts + 2

        def gains_of(_: None, part: tuple[Array, Array]) -> tuple[None, Array]:
            row, has_categories = part
            sums = jnp.zeros((num_places * num_codes, 2), jnp.float64)
            sums = sums.at[place * num_codes + row.astype(jnp.int32)].add(terms)
            sums = sums.T.reshape(2, num_places, num_codes)
            whole = reduce.total(sums)[..., None]
            right = cuts.right_sums(sums, has_categories)
            least = whole[1:] * _ROUNDING * (len(place) + num_codes)
            return None, _gain(right, whole - right, least)

        _, gains = loops.scan(gains_of, None, (codes, are_categories))
        num_splits = gains.shape[-1]
        gains = jnp.swapaxes(gains, 0, 1).reshape(num_places, -1)
        greatest = reduce.largest(gains)
        best = numerics.first_true(gains == greatest[:, None]).astype(jnp.int32)
        can_split = greatest > -jnp.inf
        feature = jnp.where(can_split, best // num_splits, 0)
        return feature, jnp.where(can_split, best % num_splits, self.num_cuts)


def _gain(right: Array, left: Array, least: Array) -> Array:
    """S^2 / W of both sides, of sums S and W [2, ...]; -inf where a side has at most the weight
    `least`.
    """
    sums, weights = jnp.stack([right, left], axis=1)
    has_weight = weights > least
    shares = sums * (sums / jnp.where(has_weight, weights, 1.0))
    total = jnp.minimum(shares, weights)
    return jnp.where(has_weight[0] & has_weight[1], total[0] + total[1], -jnp.inf)


register(GreedyTrees, static=("max_depth", "num_cuts", "categorical"))
