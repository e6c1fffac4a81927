"""Greedy trees, grown level by level: each node uses the split of smallest Gini impurity.

The method is that of Breiman, Friedman, Olshen and Stone (1984, Chapter 4). Let W be the weight of
the examples of a side and S their weighted sum of labels. Up to a factor, a split reduces the
impurity of the node by the sum of S^2 / W over both sides. The search maximises this sum. The
weighted error is not a useful criterion, because it does not change if both sides have the same
majority.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array
from jboost.learners.trees import cuts
from jboost.learners.trees.learner import Trees, TreeSplits, TreesState

# Relative rounding error of a sum of weights in 64 bits, for each summand. A side whose weight is
# below this fraction of the weight of the node counts as empty.
_ROUNDING = 2.0**-51


class GreedyTrees(Trees):
    """The learner of `trees` for depths above 2."""

    def search(self, state: TreesState, signed: Array) -> TreeSplits:
        """Returns greedy splits with the upper bound +inf."""
        feature, split = numerics.in_64_bits(self._grow)(state.codes, signed)
        return TreeSplits(feature, split, jnp.full((), jnp.inf, signed.dtype))

    def _grow(self, codes: Array, signed: Array) -> tuple[Array, Array]:
        """Returns the feature and the split of each node, [2^d - 1].

        Every level has the number of nodes of the last level, with unused nodes, so that one loop
        body serves all levels.
        """
        are_categories = self.are_categories(codes.shape[0])
        example = lax.iota(jnp.int32, codes.shape[1])
        terms = signed.astype(jnp.float64)
        terms = jnp.stack([terms, jnp.abs(terms)], axis=1)

        def grow(node: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
            feature, split = self._best_splits(codes, are_categories, node, terms)
            own = feature[node]
            right = cuts.is_right(
                codes[own, example], split[node], are_categories[own], self.num_cuts
            )
            return 2 * node + right.astype(jnp.int32), (feature, split)

        _, levels = loops.scan(grow, jnp.zeros_like(example), None, length=self.max_depth)
        feature, split = (
            jnp.concatenate([level[depth, : 2**depth] for depth in range(self.max_depth)])
            for level in levels
        )
        return feature, split

    def _best_splits(
        self, codes: Array, are_categories: Array, node: Array, terms: Array
    ) -> tuple[Array, Array]:
        """Returns the feature and the split of smallest impurity for each node, [2^(d - 1)].

        `node` [m] is the node that each example reaches, an index within the level.
        """
        num_nodes, num_codes = 2 ** (self.max_depth - 1), self.num_cuts + 2

        def gains_of(_: None, part: tuple[Array, Array]) -> tuple[None, Array]:
            row, has_categories = part
            sums = jnp.zeros((num_nodes * num_codes, 2), jnp.float64)
            sums = sums.at[node * num_codes + row.astype(jnp.int32)].add(terms)
            sums = sums.T.reshape(2, num_nodes, num_codes)
            whole = reduce.total(sums)[..., None]
            right = cuts.right_sums(sums, has_categories)
            least = whole[1:] * _ROUNDING * (len(node) + num_codes)
            return None, _gain(right, whole - right, least)

        _, gains = loops.scan(gains_of, None, (codes, are_categories))
        num_splits = gains.shape[-1]
        gains = jnp.swapaxes(gains, 0, 1).reshape(num_nodes, -1)
        greatest = reduce.largest(gains)
        best = numerics.first_true(gains == greatest[:, None]).astype(jnp.int32)
        can_split = greatest > -jnp.inf
        feature = jnp.where(can_split, best // num_splits, 0)
        return feature, jnp.where(can_split, best % num_splits, self.num_cuts)


def _gain(right: Array, left: Array, least: Array) -> Array:
    """Returns the sum of S^2 / W over both sides; -inf if the weight of a side is within rounding.

    Args:
      right: [2, ...], the sums S and W of the right side.
      left: [2, ...], the sums S and W of the left side.
      least: the rounding error of a weight.
    """
    sums, weights = jnp.stack([right, left], axis=1)
    has_weight = weights > least
    shares = sums * (sums / jnp.where(has_weight, weights, 1.0))
    total = jnp.minimum(shares, weights)
    return jnp.where(has_weight[0] & has_weight[1], total[0] + total[1], -jnp.inf)


register(GreedyTrees, static=("max_depth", "num_cuts", "categorical"))
