"""Decision trees over quantised cuts: greedy trees, and the best tree of depth 2."""

from __future__ import annotations

from collections.abc import Iterable

from jboost.base import check
from jboost.learners.trees.exact import ExactTrees
from jboost.learners.trees.greedy import GreedyTrees
from jboost.learners.trees.learner import Tree, Trees

__all__ = ["ExactTrees", "GreedyTrees", "Tree", "Trees", "trees"]

# Codes have 8 bits. With B cuts there are B + 2 codes: B + 1 intervals, and missing values.
_MOST_CUTS = 254
_MOST_DEPTH = 10  # arrays have 2^depth entries for each feature and code


def trees(max_depth: int, *, num_cuts: int = 32, categorical: Iterable[int] = ()) -> Trees:
    """A learner of decision trees on numbers, categories and missing values.

    A node tests whether a number is above a threshold, whether a category equals a given one, or
    whether the value is missing. If the test is true, the example goes to the right side. Missing
    values go to the side that is better on the training examples, or to the left side if no
    training value is missing. A leaf votes the sign of its weighted sum of labels.

    `max_depth=2` gives the tree of largest edge among all trees of these cuts. `upper_bound` is at
    least the exact edge of each tree, and at most one rounding above the largest edge. The
    certificates of `jboost.lpboost` and `jboost.relaxed_margin` therefore cover all trees of depth
    2. A proposal takes O(m N^2 + N^2 num_cuts^3).

    Larger depths give greedy trees: each node uses the split of smallest Gini impurity. There is no
    bound (`upper_bound` is +inf). A proposal takes O(max_depth (m N + 2^max_depth N num_cuts^2)).

    Args:
      max_depth: static, 2 to 10. For trees of depth 1 use `jboost.learners.stumps`.
      num_cuts: static, the largest number of cuts of each feature, 1 to 254. If a feature has more
        values, the cuts are those nearest to the quantiles of the training examples, which are not
        weighted. If a feature has more categories, the cuts are the most frequent ones.
      categorical: static, the indices of the columns that hold categories. Categories are encoded
        as numbers, whose order has no meaning.

    Returns:
      A learner for features [m, N]; a hypothesis is a `Tree`. NaN is a missing value.

    Raises:
      ValueError: for an invalid argument, which the message names. `init` raises it for an index in
        `categorical` that is not a column. A fit raises it if all features are constant; if the
        features are traced, the fit ends with the status INVALID_INPUT instead.

    Breiman, Friedman, Olshen and Stone 1984, Chapter 4 (greedy trees); Shalev-Shwartz and Singer
    2008, Figure 1 (the largest edge).

    >>> import jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> features = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> dataset = jboost.make_dataset(features, [-1, 1, 1, -1])
    >>> learner = learners.trees(2)
    >>> proposal = learner.propose(learner.init(None, dataset), jnp.full(4, 0.25))
    >>> proposal.outputs.tolist(), proposal.values.tolist()
    ([[-1.0, 1.0, 1.0, -1.0]], [1.0])
    >>> fitted = jboost.adaboost.fit(dataset, learner, max_rounds=1)
    >>> print(jboost.ensemble.describe(fitted.ensemble, ["a", "b"]))
    inf * [(-1 if b > 0.5 else +1) if a > 0.5 else (+1 if b > 0.5 else -1)]
    """
    check.count("max_depth", max_depth, low=2, high=_MOST_DEPTH)
    check.count("num_cuts", num_cuts, low=1, high=_MOST_CUTS)
    columns = _columns(categorical)
    learner = ExactTrees if max_depth == 2 else GreedyTrees
    return learner(max_depth, num_cuts, columns)


def _columns(categorical: Iterable[int]) -> tuple[int, ...]:
    """Returns the distinct indices in ascending order. Raises ValueError for other values."""
    if isinstance(categorical, str) or not isinstance(categorical, Iterable):
        raise ValueError(
            f"categorical is {categorical!r}: expected the numbers of columns, such as (0, 3)"
        )
    columns = tuple(categorical)
    for column in columns:
        check.count("categorical", column, low=0)
    return tuple(sorted({int(column) for column in columns}))
