"""Exports a model to readable text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jboost.base import words
from jboost.data.binarization import Binarizer
from jboost.data.kinds import ColumnKind
from jboost.export import kinds as kind_module
from jboost.export.description import describe
from jboost.export.types import (
    Described,
    ExportSplit,
    ExportTree,
    RuleVote,
    ScoreVote,
    TreeVote,
    leaves,
    one_line,
)


def to_text(
    model: Any,
    *,
    binarizer: Binarizer | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, ColumnKind] | None = None,
) -> str:
    """Exports a model to text, with one line for each term of the score, and trees as nested lines.

    Votes have enough digits for an exact round trip. Thresholds are those of the model, which
    compares in its own precision.

    Args:
      model: as in `to_python`.
      binarizer: as in `to_python`.
      names: as in `to_python`.
      kinds: as in `to_python`.

    Returns:
      Lines of text.

    Raises:
      ValueError: as in `to_python`.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [-1, 1, 1, -1])
    >>> fit = jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=1)
    >>> print(to_text(fit.ensemble, names=["age"]))
    The score is the sum of:
      +0.549306... if age > 0.5
      -0.549306... if age <= 0.5
    The class is +1 if the score is above 0, else -1.
    """
    described = describe(model, "to_text", binarizer=binarizer, names=names, kinds=kinds)
    return "\n".join(lines_of(described)) + "\n"


def lines_of(described: Described) -> list[str]:
    """Returns the lines of `to_text`. No line contains a line break, even if a name does."""
    if isinstance(described, RuleVote):
        terms, unknown = _rules(described), bool(described.slopes)
    elif isinstance(described, TreeVote):
        terms, unknown = _trees(described), False
    else:
        terms, unknown = _scores(described), True
    lines = [
        *terms,
        "The class is +1 if the score is above 0, else -1"
        + ("; 0 if a value is missing." if unknown else "."),
        *(f"The number {text}." for text in kind_module.readings(described.columns).values()),
    ]
    return [one_line(line) for line in lines]


def _rules(vote: RuleVote) -> list[str]:
    decisive = [rule for rule in vote.rules if math.isinf(rule.vote)]
    others = [rule for rule in vote.rules if not math.isinf(rule.vote)]
    lines = ["The score is that of the first rule that holds:"] if decisive else []
    lines += [f"  {rule.vote:+} if {rule.text}" for rule in decisive]
    lines.append("Else the score is the sum of:" if decisive else "The score is the sum of:")
    if vote.constant:
        lines.append(f"  {vote.constant:+} always")
    for rule in others:
        condition = "always" if rule.text == "always" else f"if {rule.text}"
        lines.append(f"  {rule.vote:+} {condition}")
    for slope in vote.slopes:
        name = words.quoted(vote.columns[slope.column].name)
        lines.append(f"  {slope.if_positive:+} * {name}")
        if slope.if_positive != slope.if_negative:
            lines[-1] += f" if {name} > 0, {slope.if_negative:+} * {name} if {name} < 0"
    is_empty = not (vote.constant or others or vote.slopes)
    return [*lines, "  0 always"] if is_empty else lines


def _trees(vote: TreeVote) -> list[str]:
    decides = any(math.isinf(leaf) for tree in vote.trees for leaf in leaves(tree))
    lines = ["The score is the first infinite vote of a tree."] if decides else []
    lines.append("Else the score is the sum of:" if decides else "The score is the sum of:")
    if vote.constant:
        lines.append(f"  {vote.constant:+} always")
    for index, tree in enumerate(vote.trees):
        lines.append(f"  tree {index + 1}:")
        lines += [f"    {line}" for line in _tree(tree)]
    return lines if vote.constant or vote.trees else [*lines, "  0 always"]


def _tree(tree: ExportTree) -> list[str]:
    if not isinstance(tree, ExportSplit):
        return [f"{tree:+}"]
    if_true, if_false = (
        [f"  {line}" for line in _tree(side)] for side in (tree.if_true, tree.if_false)
    )
    return [f"if {tree.text}:", *if_true, "else:", *if_false]


def _scores(vote: ScoreVote) -> list[str]:
    lines = ["The score is the sum of:"]
    for column, normal, anchor in zip(vote.columns, vote.normal, vote.anchor, strict=True):
        name = words.quoted(column.name)
        moved = name if anchor == 0 else f"({name} - {anchor!r})"
        lines.append(f"  {normal:+} * {moved}")
    return [*lines, f"  {vote.bias:+} always"]
