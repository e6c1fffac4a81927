"""The base class of the learners of trees.

It quantises the features, makes a proposal from the splits of a tree, and computes the outputs of a
tree.

The nodes of a tree of depth d are numbered level by level: the root is 0, and the children of node
i are 2 i + 1 on the left side and 2 i + 2 on the right side. Its 2^d leaves are numbered from left
to right.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import boosting, check, loops, numerics, reduce, words
from jboost.base.boosting import Proposal
from jboost.base.boosting.protocols import Learner
from jboost.base.types import Array, Dataset
from jboost.learners import criteria
from jboost.learners.trees import cuts


class Tree(NamedTuple):
    """A decision tree of depth d.

    At a node, a number goes to the right side if it is above the threshold, a category if it equals
    the threshold, and a missing value if `missing_right` is True. A node with the threshold +inf
    and `missing_right` False sends all examples to the left side.
    """

    feature: Array  # [2^d - 1] int32
    threshold: Array  # [2^d - 1]
    missing_right: Array  # [2^d - 1] bool
    leaves: Array  # [2^d] -1 or +1


class TreesState(NamedTuple):
    """The state of the learner, which `propose` takes."""

    codes: Array  # [N, m] uint8, see `cuts`
    thresholds: Array  # [N, B]
    labels: Array  # [m] +1 or -1, 0 on padding
    has_split: Array  # [] bool, whether a feature has two codes on the unmasked examples
    has_missing: Array  # [] bool, whether a value of the unmasked examples is missing


class TreeSplits(NamedTuple):
    """The nodes of a tree over codes, and a bound on the edges of all trees."""

    feature: Array  # [2^d - 1] int32
    split: Array  # [2^d - 1] int32, numbered as in `cuts`
    upper_bound: Array  # []


@dataclasses.dataclass(frozen=True)
class Trees(Learner):
    """A learner of trees over quantised cuts. Subclasses choose the splits."""

    max_depth: int
    num_cuts: int
    categorical: tuple[int, ...]

    @abc.abstractmethod
    def search(self, state: TreesState, signed: Array) -> TreeSplits:
        """Returns the splits of a tree for signed example weights [m]."""

    def init(self, key: Array | None, dataset: Dataset) -> TreesState:
        """Computes the cuts of every feature and the codes of all values. `key` is not used."""
        del key
        boosting.validate_size(dataset)
        check.matrix("features", dataset.features)
        num_features = dataset.features.shape[1]
        check.has_columns(num_features)
        self._validate_categorical(num_features)
        columns = dataset.features.T.astype(jnp.result_type(float))
        columns = jnp.where(dataset.mask[None, :], columns, jnp.nan)
        thresholds = cuts.find(columns, self.categorical, self.num_cuts)
        codes = cuts.encode(columns, thresholds, self.are_categories(num_features))
        least, largest = reduce.extremes(
            jnp.where(dataset.mask, codes, self.num_cuts + 1).astype(jnp.int32),
            jnp.where(dataset.mask, codes, 0).astype(jnp.int32),
        )
        return TreesState(
            codes,
            thresholds,
            boosting.signs(dataset),
            has_split=reduce.any_true(least < largest),
            has_missing=reduce.any_true(largest == self.num_cuts + 1),
        )

    def propose(
        self,
        state: TreesState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """Proposes one tree. Its outputs are NaN if no feature has a cut."""
        criteria.refuse_prices("learners.trees", pair_weights, costs)
        signed = example_weights * state.labels
        splits = self.search(state, signed)
        leaf = self._leaf_of(splits, state.codes)
        leaves, edge = numerics.in_64_bits(self._votes)(leaf, signed)
        cut = splits.split % (self.num_cuts + 1)
        thresholds = jnp.pad(state.thresholds, ((0, 0), (0, 1)), constant_values=jnp.inf)
        tree = Tree(
            splits.feature, thresholds[splits.feature, cut], splits.split > self.num_cuts, leaves
        )
        outputs = jnp.where(state.labels == 0, 0.0, leaves[leaf])
        outputs = jnp.where(state.has_split, outputs, jnp.nan)
        one_tree = Tree(*(part[None] for part in tree))
        return Proposal(one_tree, outputs[None], edge[None], splits.upper_bound, state)

    def outputs(self, hypothesis: Tree, features: Array) -> Array:
        """Returns the outputs [k] of a tree on features [k, N]."""
        features = jnp.asarray(features)
        check.matrix("features", features)
        are_categories = self.are_categories(features.shape[1])
        row = jnp.arange(features.shape[0])

        def descend(_: Array, node: Array) -> Array:
            feature = hypothesis.feature[node]
            value = features[row, feature].astype(hypothesis.threshold.dtype)
            threshold = hypothesis.threshold[node]
            is_equal = (value == threshold) & (threshold < jnp.inf)
            right = jnp.where(are_categories[feature], is_equal, value > threshold)
            right = jnp.where(value == value, right, hypothesis.missing_right[node])
            return 2 * node + 1 + right

        node = loops.fori_loop(0, self.max_depth, descend, jnp.zeros_like(row))
        return hypothesis.leaves[node - (2**self.max_depth - 1)]

    def places(self, hypotheses: Tree) -> Array:
        """Returns the features of the nodes of each tree, -1 for nodes without a split."""
        return jnp.where(_has_no_split(hypotheses), -1, hypotheses.feature)

    def validate(self, dataset: Dataset) -> None:
        """Raises ValueError if every feature is constant on the unmasked examples."""
        check.matrix("features", dataset.features)
        columns = np.asarray(dataset.features)[np.asarray(dataset.mask)]
        columns = columns.astype(jnp.result_type(float))
        least = jnp.finfo(columns.dtype).tiny
        columns = np.where(np.abs(columns) < least, 0, columns)  # as XLA compares them
        is_missing = np.isnan(columns)
        is_constant = (is_missing == is_missing[:1]) & (is_missing | (columns == columns[:1]))
        if columns.size and is_constant.all():
            raise ValueError(
                f"features have no cut: each of the {columns.shape[1]} columns has one value on all"
                f" {len(columns)} examples that count, and learners.trees needs a column with two;"
                " pass columns that vary"
            )

    def outputs_are_signs(self, state: TreesState) -> Array:
        """Returns True, [] bool: all outputs are -1 or +1."""
        del state
        return jnp.ones((), bool)

    def never_abstains(self, state: TreesState) -> Array:
        """Returns True, [] bool: no output is 0."""
        del state
        return jnp.ones((), bool)

    def describe(self, hypothesis: Tree, names: Any) -> str:
        """Returns the tree as one line of text. Subtrees of equal leaves become one leaf."""
        tree = Tree(*(np.asarray(part) for part in hypothesis))
        return _text(tree, 0, names, self.categorical)

    def are_categories(self, num_features: int) -> Array:
        """Returns whether each feature holds categories, [N] bool."""
        return jnp.asarray(np.isin(np.arange(num_features), self.categorical))

    def _validate_categorical(self, num_features: int) -> None:
        if self.categorical and self.categorical[-1] >= num_features:
            raise ValueError(
                f"categorical holds {self.categorical[-1]}, but the features have {num_features}"
                " columns, numbered from 0: pass the numbers of columns that are there"
            )

    def _leaf_of(self, splits: TreeSplits, codes: Array) -> Array:
        """Returns the leaf [m] that each example reaches."""
        are_categories = self.are_categories(codes.shape[0])
        example = jnp.arange(codes.shape[1], dtype=jnp.int32)

        def descend(_: Array, node: Array) -> Array:
            feature = splits.feature[node]
            right = cuts.is_right(
                codes[feature, example],
                splits.split[node],
                are_categories[feature],
                self.num_cuts,
            )
            return 2 * node + 1 + right.astype(jnp.int32)

        node = loops.fori_loop(0, self.max_depth, descend, jnp.zeros_like(example))
        return node - (2**self.max_depth - 1)

    def _votes(self, leaf: Array, signed: Array) -> tuple[Array, Array]:
        """Returns the votes [2^d] of the leaves, and the edge [].

        The vote of a leaf is the sign of its weighted sum of labels. If the sum is 0, the vote is
        the sign of the smallest enclosing subtree with a nonzero sum. Call the function with 64-bit
        types enabled.
        """
        num_leaves = 2**self.max_depth
        sums = jnp.zeros((num_leaves,), jnp.float64).at[leaf].add(signed.astype(jnp.float64))
        index = lax.iota(jnp.int32, num_leaves)

        def widen(level: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            votes, subtree = carry
            subtree = subtree + subtree[index ^ (jnp.int32(1) << level)]
            return jnp.where(votes == 0, jnp.sign(subtree), votes), subtree

        votes, _ = loops.fori_loop(
            jnp.int32(0), jnp.int32(self.max_depth), widen, (jnp.sign(sums), sums)
        )
        votes = jnp.where(votes == 0, 1.0, votes).astype(signed.dtype)
        return votes, reduce.total(jnp.abs(sums)).astype(signed.dtype)


def _has_no_split(tree: Tree) -> Any:
    return (tree.threshold == jnp.inf) & ~tree.missing_right


def _text(tree: Tree, node: int, names: Any, categorical: tuple[int, ...]) -> str:
    """Returns the subtree of a node as text."""
    num_nodes = tree.feature.shape[0]
    if node >= num_nodes:
        return f"{float(tree.leaves[node - num_nodes]):+.0f}"
    left = _text(tree, 2 * node + 1, names, categorical)
    if _has_no_split(Tree(*(part[node : node + 1] for part in tree)))[0]:
        return left
    right = _text(tree, 2 * node + 2, names, categorical)
    if left == right:
        return left
    left, right = (f"({side})" if " " in side else side for side in (left, right))
    feature, threshold = int(tree.feature[node]), tree.threshold[node]
    condition = _condition(str(names[feature]), threshold, feature in categorical)
    if tree.missing_right[node]:
        missing = f"{words.quoted(str(names[feature]))} is missing"
        condition = missing if threshold == np.inf else f"{condition} or {missing}"
    return f"{right} if {condition} else {left}"


def _condition(name: str, threshold: Any, is_category: bool) -> str:
    """Returns the condition under which a present value goes to the right side.

    A feature whose name is a condition is a bit that is 1 if the condition holds. Its text is the
    name.
    """
    if words.is_condition(name) and not is_category and 0 <= threshold < 1:
        return name
    return f"{words.quoted(name)} {'==' if is_category else '>'} {words.number(threshold)}"
