"""The tree of largest edge among all trees of depth 2, with an upper bound on all edges.

S denotes the weighted sum of the labels of a set of examples. The edge of a tree is the sum of |S|
over its four leaves. For a given split at the root, the best splits of its two sides are
independent of each other. A histogram of S over the codes of two features, that of the root and
that of a child, gives S of the leaves for all splits of both features. Demirovic et al. (2022,
"MurTree") use this search for trees of depth 2 over bits.

A proposal takes O(m N^2 + N^2 B^3), because sums over codes are products with a matrix of 0 and 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array
from jboost.learners import criteria
from jboost.learners.trees import cuts
from jboost.learners.trees.learner import Trees, TreeSplits, TreesState

# The rounding error of an edge in units of `criteria.slack`, which is twice the error of a sum over
# the examples. The S of the four leaves have 1, 2, 2 and 4 terms that are such sums. The error of
# the edge is therefore at most that of 9 sums and 10 additions.
_SLACKS = 6


class _Root(NamedTuple):
    """The best tree with a given feature at the root."""

    edge: Array  # []
    split: Array  # [3] int32, the splits of the root, its left child and its right child
    feature: Array  # [3] int32


class ExactTrees(Trees):
    """The learner of `trees(2)`."""

    def search(self, state: TreesState, signed: Array) -> TreeSplits:
        """Returns the splits of the best tree, and an upper bound on the edge of every tree."""
        feature, split, upper_bound = numerics.in_64_bits(self._best)(
            state.codes, state.has_missing, signed
        )
        return TreeSplits(feature, split, upper_bound)

    def _best(self, codes: Array, has_missing: Array, signed: Array) -> tuple[Array, Array, Array]:
        num_features = codes.shape[0]
        are_categories = self.are_categories(num_features)
        index = lax.iota(jnp.int32, num_features)
        wide = signed.astype(jnp.float64)
        # The root and the children can each send missing values to the left or to the right. If
        # there are no missing values, one of the four combinations is enough.
        num_ways = jnp.where(has_missing, jnp.int32(4), jnp.int32(1))

        def of_root(_: None, root: Array) -> tuple[None, _Root]:
            cells = self._cells(codes, root, wide)
            return None, self._best_under(cells, are_categories, root, num_ways)

        _, found = loops.scan(of_root, None, index)
        greatest = reduce.largest(found.edge)
        root = _first(found.edge == greatest)
        slack = _SLACKS * criteria.slack(signed, num_more=2 * (self.num_cuts + 2))
        upper_bound = numerics.round_up(greatest + slack, signed.dtype)
        return found.feature[root], found.split[root], upper_bound

    def _cells(self, codes: Array, root: Array, signed: Array) -> Array:
        """Returns S for each feature, code of the root's feature, and code of the feature.

        The shape is [N, B + 2, B + 2].
        """
        num_features, num_codes = codes.shape[0], self.num_cuts + 2
        own = codes[root].astype(jnp.int32)[None, :]
        row = lax.iota(jnp.int32, num_features)[:, None] * num_codes + own
        sums = jnp.zeros((num_features * num_codes * num_codes,), jnp.float64)
        sums = sums.at[row * num_codes + codes.astype(jnp.int32)].add(
            jnp.broadcast_to(signed, codes.shape)
        )
        return sums.reshape(num_features, num_codes, num_codes)

    def _best_under(
        self, cells: Array, are_categories: Array, root: Array, num_ways: Array
    ) -> _Root:
        """Returns the best tree with the feature `root` at the root."""
        is_category = are_categories[root]
        edges = self._edges_of_root(cells, are_categories, is_category, num_ways)
        edge = reduce.largest(edges)
        split = _first(edges == edge)
        codes = lax.iota(jnp.int32, self.num_cuts + 2)
        right = cuts.is_right(codes, split, is_category, self.num_cuts)[None, :, None]
        children = jnp.stack(
            [
                _best_child(reduce.total(jnp.where(side, cells, 0.0), axis=1), are_categories)
                for side in (~right, right)
            ]
        )
        num_splits = edges.shape[0]
        return _Root(
            edge,
            jnp.concatenate([split[None], children % num_splits]),
            jnp.concatenate([root[None], children // num_splits]),
        )

    def _edges_of_root(
        self, cells: Array, are_categories: Array, is_category: Array, num_ways: Array
    ) -> Array:
        """Returns the edge of the best tree for each split at the root, [2 (B + 1)]."""
        by_root = reduce.total(cells[0])
        by_child = cuts.right_sums_of_present(cells, are_categories[:, None])
        by_child = jnp.swapaxes(by_child, 1, 2)  # feature, split of the child, code of the root
        missing = cells[:, None, :, -1]

        def consider(way: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
            at_root, at_child = way // 2, way % 2
            side = by_child + jnp.where(at_child == 1, missing, 0.0)
            of_right, whole_right = (
                cuts.right_sums_of_present(sums, is_category)
                + jnp.where(at_root == 1, sums[..., -1:], 0.0)
                for sums in (side, by_root)
            )
            of_left = reduce.total(side)[..., None] - of_right
            sides = (of_left, reduce.total(by_root) - whole_right), (of_right, whole_right)
            left, right = (
                known.at[at_root].max(reduce.largest(_edges(*sums), axis=(0, 1)))
                for known, sums in zip(best, sides, strict=True)
            )
            return left, right

        none = jnp.full((2, self.num_cuts + 1), -jnp.inf, jnp.float64)
        left, right = loops.fori_loop(jnp.int32(0), num_ways, consider, (none, none))
        return (left + right).reshape(-1)


def _best_child(sums: Array, are_categories: Array) -> Array:
    """Returns the index of the best split of a child among the splits of all features.

    Args:
      sums: [N, B + 2], S of the child's examples for each feature and code.
      are_categories: [N] bool.
    """
    edges = _edges(cuts.right_sums(sums, are_categories), reduce.total(sums)[:, None])
    edges = edges.reshape(-1)
    return _first(edges == reduce.largest(edges))


def _edges(of_leaf: Array, of_side: Array) -> Array:
    """Returns the edge of the two leaves of a child, the sum of their |S|.

    Args:
      of_leaf: S of the right leaf.
      of_side: S of the child.
    """
    side = of_side.reshape((1,) * (of_leaf.ndim - of_side.ndim) + of_side.shape)
    return jnp.abs(of_leaf) + jnp.abs(side - of_leaf)


def _first(mask: Array) -> Array:
    """Returns the int32 index of the first True of a mask [n], or the last index if there is none.

    A mask without True occurs if the edges are NaN.
    """
    return jnp.minimum(numerics.first_true(mask), mask.shape[0] - 1).astype(jnp.int32)


register(ExactTrees, static=("max_depth", "num_cuts", "categorical"))
