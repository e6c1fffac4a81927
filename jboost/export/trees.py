"""Reads a decision tree of a model as nested conditions on columns of the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jboost.export.types import ExportCondition, ExportSplit, ExportTree, one_line

NEVER, ALWAYS = (math.inf, -math.inf), (-math.inf, math.inf)  # intervals of no and all numbers
# The condition of a node, for its feature, its threshold, and its side for missing values.
_Test = Callable[[int, float, bool], tuple[ExportCondition, str]]


def read(tree: Any, test: _Test, vote: Callable[[float], float], node: int = 0) -> ExportTree:
    """Returns the subtree of a node, without the nodes that separate no rows or equal votes.

    Args:
      tree: a `jboost.learners.trees.Tree` of NumPy arrays.
      test: returns the condition under which a row goes to the right side, and its text.
      vote: returns the vote for the output of a leaf.
      node: numbered as in `jboost.learners.trees`.
    """
    num_nodes = len(tree.feature)
    if node >= num_nodes:
        return vote(float(tree.leaves[node - num_nodes]))
    left = read(tree, test, vote, 2 * node + 1)
    threshold, missing_right = float(tree.threshold[node]), bool(tree.missing_right[node])
    if threshold == math.inf and not missing_right:
        return left
    right = read(tree, test, vote, 2 * node + 2)
    if left == right:
        return left
    condition, text = test(int(tree.feature[node]), threshold, missing_right)
    if (condition.low, condition.high) == NEVER and not condition.if_missing:
        return left
    if (condition.low, condition.high) == ALWAYS and condition.if_missing:
        return right
    return ExportSplit(condition, one_line(text), right, left)


def of_bit(
    condition: ExportCondition,
    text: str,
    name: str,
    *,
    goes_right: tuple[bool, bool],
    missing_right: bool,
    missing_is_value: bool,
) -> tuple[ExportCondition, str]:
    """Returns the condition under which a row goes to the right side of a test of a bit.

    Args:
      condition: the condition under which the bit is 1, or 0 if only a bit of 0 goes to the right.
      text: of the condition.
      name: of the column, as in texts.
      goes_right: whether a bit of 0 and a bit of 1 go to the right side.
      missing_right: whether a bit that is NaN goes to the right side.
      missing_is_value: whether the bit of a missing value is not NaN.
    """
    if goes_right[0] == goes_right[1]:
        low, high = ALWAYS if goes_right[0] else NEVER
        condition = ExportCondition(condition.column, low, high, False, goes_right[0])
        text = f"{name} is not missing"
    if missing_is_value:
        return condition, text
    return or_missing(condition._replace(if_missing=missing_right), text, name)


def or_missing(condition: ExportCondition, text: str, name: str) -> tuple[ExportCondition, str]:
    """Returns the condition with a text that also tells what it is for missing values.

    >>> or_missing(ExportCondition(0, 0.5, math.inf, False, True), "age > 0.5", "age")[1]
    'age > 0.5 or age is missing'
    """
    if not condition.if_missing:
        return condition, text
    missing = f"{name} is missing"
    is_never = (condition.low, condition.high) == NEVER
    return condition, missing if is_never else f"{text} or {missing}"
