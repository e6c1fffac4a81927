"""The tree of greatest edge among all trees of depth 2, with a bound that proves it.

For a given split at the root, the best splits of its two sides are independent of one another: the
edge of a tree is the sum over both sides of |S| of the two leaves there. One histogram over the
codes of the feature at the root and those of another feature has S of all four leaves, for all
splits of both features. A proposal takes O(m N^2 + N^2 B^2) (the four-cell tables of Demirovic et
al. 2022, "MurTree", Section 4.3, for features of many values).
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
from jboost.learners.trees.learner import Splits, Trees, TreesState

# The edge is a sum over four leaves. S of the leaves has 1, 2, 2 and 4 terms that are sums over
# examples, so that its error is at most that of 9 such sums, and of 10 additions of these.
# `criteria.slack` is twice the error of a sum.
_SLACKS = 6


class _Root(NamedTuple):
    """The best tree with a given feature at the root."""

    edge: Array  # []
    split: Array  # [3] int32, of the root, of its left and of its right side
    feature: Array  # [3] int32; that of the root is filled in by the caller


class ExactTrees(Trees):
    """The learner behind `trees(2)`."""

    def search(self, state: TreesState, signed: Array) -> Splits:
        """The best splits of all, and an upper bound on the exact edge of every tree."""
        feature, split, upper_bound = numerics.in_64_bits(self._best)(state.codes, signed)
        return Splits(feature, split, upper_bound)

    def _best(self, codes: Array, signed: Array) -> tuple[Array, Array, Array]:
        num_features = codes.shape[0]
        are_categories = self.are_categories(num_features)
        index = lax.iota(jnp.int32, num_features)
        wide = signed.astype(jnp.float64)

        def of_root(_: None, root: Array) -> tuple[None, _Root]:
            return None, self._best_under(codes, are_categories, root, wide)

        _, found = loops.scan(of_root, None, index)
        greatest = reduce.largest(found.edge)
        root = jnp.minimum(numerics.first_true(found.edge == greatest), jnp.int32(num_features - 1))
        feature = jnp.where(lax.iota(jnp.int32, 3) == 0, root, found.feature[root])
        slack = _SLACKS * criteria.slack(signed, num_more=2 * (self.num_cuts + 2))
        return feature, found.split[root], numerics.round_up(greatest + slack, signed.dtype)

    def _best_under(self, codes: Array, are_categories: Array, root: Array, signed: Array) -> _Root:
        """The best tree with this feature at the root."""
        num_features, num_codes = codes.shape[0], self.num_cuts + 2
        own, has_categories = codes[root].astype(jnp.int32), are_categories[root]
        first = lax.iota(jnp.int32, num_features)[:, None] * num_codes + own[None, :]
        cells = jnp.zeros((num_features * num_codes * num_codes,), jnp.float64)
        cells = cells.at[first * num_codes + codes.astype(jnp.int32)].add(
            jnp.broadcast_to(signed, codes.shape)
        )
        cells = cells.reshape(num_features, num_codes, num_codes)  # feature, code of root, code

        # S on the right side of each child's split, of all examples and of those on the right side
        # of each split at the root
        by_child = jnp.swapaxes(cuts.right_sums(cells, are_categories[:, None]), 1, 2)
        of_right = cuts.right_sums(by_child, has_categories)
        of_all = reduce.total(by_child)[..., None]
        by_root = reduce.total(cells[0])
        whole_right = cuts.right_sums(by_root, has_categories)
        whole_left = reduce.total(by_root) - whole_right

        best_right = reduce.largest(_edges(of_right, whole_right), axis=(0, 1))
        best_left = reduce.largest(_edges(of_all - of_right, whole_left), axis=(0, 1))
        edges = best_left + best_right
        edge, num_splits = reduce.largest(edges), edges.shape[0]
        split = _first(edges == edge)
        under_split = of_right[..., split]
        children = jnp.stack(
            [
                _first_largest(_edges(of_all[..., 0] - under_split, whole_left[split])),
                _first_largest(_edges(under_split, whole_right[split])),
            ]
        )
        return _Root(
            edge,
            jnp.concatenate([split[None], children % num_splits]),
            jnp.concatenate([root[None], children // num_splits]),
        )


def _edges(of_leaf: Array, of_side: Array) -> Array:
    """The edge on one side of the root, of S on the right side of a child's split and of S on the
    whole side.
    """
    side = of_side.reshape((1,) * (of_leaf.ndim - of_side.ndim) + of_side.shape)
    return jnp.abs(of_leaf) + jnp.abs(side - of_leaf)


def _first(mask: Array) -> Array:
    """The index of the first True of a mask [n], int32; the last index if there is none, as for
    NaN.
    """
    return jnp.minimum(numerics.first_true(mask), mask.shape[0] - 1).astype(jnp.int32)


def _first_largest(values: Array) -> Array:
    """The index of the first maximum of all entries, int32."""
    values = values.reshape(-1)
    return _first(values == reduce.largest(values))


register(ExactTrees, static=("max_depth", "num_cuts", "categorical"))
