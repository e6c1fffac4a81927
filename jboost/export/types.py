"""The intermediate form of a model, from which all formats are written.

A `RuleVote` has a constant, rules (a vote if all conditions hold) and slopes (a vote times a
column). A `TreeVote` has a constant and decision trees. A `ScoreVote` is normal . (x - anchor) +
bias of columns of scores. Conditions test columns of the table, not bits.
`jboost.export.intervals` computes the bounds of their intervals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from jboost.data.kinds import NUMBER, ColumnKind

# Float64 scores are scaled by `SHARE` if a coordinate is above `LARGE`, so that differences do not
# overflow. `jboost.geometry.linear` does the same.
SHARE = 1 / 16
LARGE = float(np.finfo(np.float64).max) * SHARE


class ExportColumn(NamedTuple):
    """A column of the table that a model uses."""

    name: str
    texts: tuple[str, ...] | None  # the categories of a text column by code; None for numbers
    kind: ColumnKind = ColumnKind(NUMBER)  # of the cells of a column of numbers


class ExportCondition(NamedTuple):
    """The condition that a value is in [low, high], or is not in it if `negated`.

    For a missing value the condition has the value `if_missing`. The value of a text column is the
    code of the text, or -1 if the text is not among the categories. An interval with low > high is
    empty.
    """

    column: int
    low: float
    high: float
    negated: bool
    if_missing: bool


class ExportRule(NamedTuple):
    """A vote that is cast if all conditions hold.

    If rules with an infinite vote hold, the first of them is the score. A vote of NaN gives the
    score NaN.
    """

    conditions: tuple[ExportCondition, ...]
    vote: float
    text: str  # the conditions as text, with the thresholds of the model


class ExportSplit(NamedTuple):
    """A node of a tree. A row for which the condition holds goes to `if_true`."""

    condition: ExportCondition
    text: str  # the condition as text, with the threshold of the model
    if_true: ExportTree
    if_false: ExportTree


ExportTree = ExportSplit | float  # a leaf is its vote


class Slope(NamedTuple):
    """A vote times the value of a column of numbers; NaN if the value is missing."""

    column: int
    if_positive: float  # the vote for a value above 0
    if_negative: float  # the vote for a value below 0


@dataclasses.dataclass(frozen=True)
class RuleVote:
    """The sum of a constant, the votes of all rules that hold, and all slopes."""

    columns: tuple[ExportColumn, ...]
    constant: float
    rules: tuple[ExportRule, ...]
    slopes: tuple[Slope, ...]
    precision: str  # "float32" or "float64": numbers are rounded to it before slopes
    # A bound on the difference between the score of the model, before it is rounded to its
    # precision, and the exported score. It is 0 without slopes: no sum is rounded, in any order
    # (`jboost.ensemble.vote_unit`). For slopes it assumes columns with values in [-1, 1].
    score_error: float


@dataclasses.dataclass(frozen=True)
class TreeVote:
    """The sum of a constant and of the votes of the leaves that a row reaches, one of each tree.

    If it reaches leaves with infinite votes, the first of them is the score. Sums of finite votes
    are not rounded, in any order (`jboost.ensemble.vote_unit`).
    """

    columns: tuple[ExportColumn, ...]
    constant: float
    trees: tuple[ExportTree, ...]
    precision: str  # "float32" or "float64", of the model


@dataclasses.dataclass(frozen=True)
class ScoreVote:
    """normal . (x - anchor) + bias, in float64; NaN if a score is missing or infinite."""

    columns: tuple[ExportColumn, ...]
    normal: tuple[float, ...]
    anchor: tuple[float, ...]
    bias: float
    precision: str  # "float32" or "float64": scores are rounded to it first


Described = RuleVote | TreeVote | ScoreVote


def with_votes(tree: ExportTree, change: Callable[[float], float]) -> ExportTree:
    """Returns the tree with changed votes of its leaves. Equal subtrees of a node become one.

    >>> condition = ExportCondition(0, 0.0, 1.0, False, False)
    >>> with_votes(ExportSplit(condition, "0 <= a <= 1", 0.5, -0.5), abs)
    0.5
    """
    if not isinstance(tree, ExportSplit):
        return change(tree)
    if_true, if_false = (with_votes(side, change) for side in (tree.if_true, tree.if_false))
    return if_true if if_true == if_false else tree._replace(if_true=if_true, if_false=if_false)


def leaves(tree: ExportTree) -> Iterator[float]:
    """Yields the votes of the leaves, those of `if_true` first."""
    if isinstance(tree, ExportSplit):
        yield from leaves(tree.if_true)
        yield from leaves(tree.if_false)
    else:
        yield tree


def one_line(text: str) -> str:
    """Replaces line breaks and other unprintable characters of a text by spaces."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
