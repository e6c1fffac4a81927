"""Exports a model to an ONNX graph, built with onnxscript."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jboost import files
from jboost.data.binarization import Binarizer
from jboost.data.kinds import ColumnKind
from jboost.export import kinds as kind_module
from jboost.export.description import describe
from jboost.export.types import (
    LARGE,
    SHARE,
    Described,
    ExportColumn,
    ExportCondition,
    ExportRule,
    ExportSplit,
    ExportTree,
    RuleVote,
    ScoreVote,
    Slope,
    TreeVote,
)

# The oldest versions with the operators below for these types.
_OPSET, _ML_OPSET, _IR_VERSION = 18, 2, 8
_UNSEEN, _MISSING = -1, -2  # codes of texts


def to_onnx(
    model: Any,
    *,
    binarizer: Binarizer | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, ColumnKind] | None = None,
) -> Any:
    """Exports a model to an ONNX graph for onnxruntime. Requires the extra `export`.

    The inputs are `numbers` [k, a] float64, where NaN is a missing value, and, if the model uses
    text columns, `texts` [k, b] strings, where "" is a missing value. The metadata properties
    `numbers` and `texts` are JSON lists of the names of their columns. The outputs are `score` [k]
    float64 and `prediction` [k] int64, which is +1, -1, or 0 if the score is NaN.

    Args:
      model: as in `to_python`.
      binarizer: as in `to_python`.
      names: as in `to_python`.
      kinds: as in `to_python`.

    Returns:
      An `onnx.ModelProto`; `onnx.save` writes it.

    Raises:
      ValueError: as in `to_python`; and if "" is a category, which stands for a missing text here.

    >>> import jboost
    >>> separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    >>> graph = to_onnx(separator, names=["a", "b"]).graph
    >>> [one.name for one in graph.input], [one.name for one in graph.output]
    (['numbers'], ['score', 'prediction'])
    """
    described = describe(model, "to_onnx", binarizer=binarizer, names=names, kinds=kinds)
    graph = _Graph(described.columns)
    return graph.finish(_score(graph, described))


class _Graph:
    """The nodes in the order of evaluation, and the position of each column of the model."""

    def __init__(self, columns: tuple[ExportColumn, ...]) -> None:
        try:
            from onnxscript import ir
        except ImportError as error:
            raise ValueError(
                f"jboost.export.to_onnx needs the package onnxscript ({error}): pip install"
                " 'jboost[export]'"
            ) from None
        self.ir, self.tape = ir, ir.tape.Tape()
        self.num_constants = 0
        self.names: dict[str, list[str]] = {
            "numbers": [column.name for column in columns if column.texts is None],
            "texts": [column.name for column in columns if column.texts is not None],
        }
        self.readings = kind_module.readings(columns)
        self.numbers = self._input("numbers", ir.DataType.DOUBLE)
        parts, self.inputs = [self.numbers], [self.numbers]
        if self.names["texts"]:
            texts = self._input("texts", ir.DataType.STRING)
            self.inputs.append(texts)
            coded = [column for column in columns if column.texts is not None]
            parts += [self._codes(texts, index, column) for index, column in enumerate(coded)]
        self.values = self.op("Concat", *parts, axis=1) if len(parts) > 1 else self.numbers
        order = self.names["numbers"] + self.names["texts"]
        self.positions = [order.index(column.name) for column in columns]

    def _input(self, name: str, kind: Any) -> Any:
        shape = self.ir.Shape(["k", len(self.names[name])])
        return self.ir.Value(name=name, type=self.ir.TensorType(kind), shape=shape)

    def _codes(self, texts: Any, index: int, column: ExportColumn) -> Any:
        """Returns the codes [k, 1] of a text column, NaN for missing values."""
        assert column.texts is not None
        if "" in column.texts:
            raise ValueError(
                f"model tests whether column {column.name!r} is '', which jboost.export.to_onnx"
                " cannot write: an empty text is a missing value there"
            )
        part = self.op("Gather", texts, self.constant(np.array([index], np.int64)), axis=1)
        codes = self.op(
            "LabelEncoder",
            part,
            domain="ai.onnx.ml",
            keys_strings=[*column.texts, ""],
            values_int64s=[*range(len(column.texts)), _MISSING],
            default_int64=_UNSEEN,
        )
        is_missing = self.op("Equal", codes, self.constant(np.int64(_MISSING)))
        numbers = self.op("Cast", codes, to=int(self.ir.DataType.DOUBLE))
        return self.op("Where", is_missing, self.constant(np.float64(np.nan)), numbers)

    def op(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> Any:
        return self.tape.op(kind, list(inputs), attributes or None, domain=domain)

    def constant(self, value: Any) -> Any:
        self.num_constants += 1
        return self.tape.initializer(
            self.ir.tensor(np.asarray(value), name=f"c{self.num_constants}")
        )

    def columns(self, indices: Sequence[int]) -> Any:
        """Returns the values [k, a] of columns of the model."""
        positions = np.array([self.positions[index] for index in indices], np.int64)
        return self.op("Gather", self.values, self.constant(positions), axis=1)

    def zeros(self) -> Any:
        """Returns zeros [k]."""
        size = self.op("Shape", self.numbers, start=0, end=1)
        return self.op("Expand", self.constant(np.zeros(1)), size)

    def normal(self, values: Any, least: float) -> Any:
        """Replaces numbers whose absolute value is below `least` by 0."""
        is_small = self.op("Less", self.op("Abs", values), self.constant(np.float64(least)))
        return self.op("Where", is_small, self.constant(np.float64(0)), values)

    def rounded(self, values: Any, precision: str) -> Any:
        """Rounds numbers to the precision of the model."""
        if precision == "float64":
            return self.normal(values, 2.0**-1022)
        single = self.op("Cast", values, to=int(self.ir.DataType.FLOAT))
        return self.normal(self.op("Cast", single, to=int(self.ir.DataType.DOUBLE)), 2.0**-126)

    def finish(self, score: Any) -> Any:
        ir = self.ir
        is_above = self.op("Greater", score, self.constant(np.float64(0)))
        below = self.op(
            "Where",
            self.op("IsNaN", score),
            self.constant(np.int64(0)),
            self.constant(np.int64(-1)),
        )
        prediction = self.op("Where", is_above, self.constant(np.int64(1)), below)
        for value, name, kind in (
            (score, "score", ir.DataType.DOUBLE),
            (prediction, "prediction", ir.DataType.INT64),
        ):
            value.name, value.shape = name, ir.Shape(["k"])
            value.type = ir.TensorType(kind)
        graph = ir.Graph(
            self.inputs,
            [score, prediction],
            nodes=self.tape.nodes,
            initializers=self.tape.initializers,
            opset_imports={"": _OPSET, "ai.onnx.ml": _ML_OPSET},
            name="jboost",
        )
        model = ir.Model(
            graph,
            ir_version=_IR_VERSION,
            producer_name="jboost",
            producer_version=files.package_version("jboost"),
        )
        for name, columns in self.names.items():
            model.metadata_props[name] = json.dumps(columns)
        if self.readings:
            model.metadata_props["readings"] = json.dumps(self.readings)
        return ir.serde.serialize_model(model)


def _score(graph: _Graph, described: Described) -> Any:
    """Returns the score [k]."""
    if isinstance(described, RuleVote):
        return _rules(graph, described)
    if isinstance(described, TreeVote):
        return _trees(graph, described)
    return _scores(graph, described)


def _rules(graph: _Graph, vote: RuleVote) -> Any:
    finite = [rule for rule in vote.rules if not math.isinf(rule.vote)]
    total = graph.op("Add", graph.zeros(), graph.constant(np.float64(vote.constant)))
    if finite:
        votes = np.array([rule.vote for rule in finite])
        given = graph.op(
            "Where", _fired(graph, finite), graph.constant(votes), graph.constant(np.float64(0))
        )
        total = graph.op("Add", total, _sum(graph, given))
    if vote.slopes:
        total = graph.op("Add", total, _sum(graph, _slopes(graph, vote.slopes, vote.precision)))
    decisive = [rule for rule in vote.rules if math.isinf(rule.vote)]
    return _decided(graph, decisive, total) if decisive else total


def _sum(graph: _Graph, terms: Any) -> Any:
    """Returns the sums [k] of terms [k, a]."""
    return graph.op("ReduceSum", terms, graph.constant(np.array([1], np.int64)), keepdims=0)


def _decided(graph: _Graph, rules: Sequence[ExportRule], total: Any) -> Any:
    """Returns the vote of the first rule that holds, or the total if none holds."""
    first, is_decided = _first_true(graph, _fired(graph, rules))
    votes = graph.constant(np.array([rule.vote for rule in rules]))
    return graph.op("Where", is_decided, graph.op("Gather", votes, first, axis=0), total)


def _first_true(graph: _Graph, values: Any) -> tuple[Any, Any]:
    """Returns the index [k] of the first true value of each row [k, a], and whether it exists."""
    numbers = graph.op("Cast", values, to=int(graph.ir.DataType.FLOAT))
    first = graph.op("ArgMax", numbers, axis=1, keepdims=0)
    largest = graph.op("ReduceMax", numbers, graph.constant(np.array([1], np.int64)), keepdims=0)
    return first, graph.op("Greater", largest, graph.constant(np.float32(0)))


class _Node(NamedTuple):
    """A node of a tree. The sides of a leaf are the leaf itself."""

    column: int  # the position in the values of the graph
    low: float
    high: float
    negated: bool
    differs: bool  # as in `_holds`
    if_true: int
    if_false: int
    vote: float  # of a leaf


def _add_tree(nodes: list[_Node], tree: ExportTree, positions: Sequence[int]) -> tuple[int, int]:
    """Appends the nodes of a tree. Returns the index of its root, and its depth."""
    if not isinstance(tree, ExportSplit):
        index = len(nodes)
        nodes.append(_Node(0, 0.0, 0.0, False, False, index, index, tree))
        return index, 0
    if_true, depth_true = _add_tree(nodes, tree.if_true, positions)
    if_false, depth_false = _add_tree(nodes, tree.if_false, positions)
    column, low, high, negated, if_missing = tree.condition
    differs = negated != if_missing
    nodes.append(_Node(positions[column], low, high, negated, differs, if_true, if_false, 0.0))
    return len(nodes) - 1, max(depth_true, depth_false) + 1


def _trees(graph: _Graph, vote: TreeVote) -> Any:
    total = graph.op("Add", graph.zeros(), graph.constant(np.float64(vote.constant)))
    if not vote.trees:
        return total
    votes = _votes_of_trees(graph, vote.trees)
    is_infinite = graph.op("IsInf", votes)
    finite = graph.op("Where", is_infinite, graph.constant(np.float64(0)), votes)
    total = graph.op("Add", total, _sum(graph, finite))
    first, is_decided = _first_true(graph, is_infinite)
    one = graph.constant(np.array([1], np.int64))
    chosen = graph.op("GatherElements", votes, graph.op("Unsqueeze", first, one), axis=1)
    return graph.op("Where", is_decided, graph.op("Squeeze", chosen, one), total)


def _votes_of_trees(graph: _Graph, trees: Sequence[ExportTree]) -> Any:
    """Returns the vote of each tree, [k, trees]. All rows descend all trees, a level at a time."""
    nodes: list[_Node] = []
    roots, depths = zip(*(_add_tree(nodes, tree, graph.positions) for tree in trees), strict=True)
    fields = [graph.constant(np.array(field)) for field in zip(*nodes, strict=True)]
    size = graph.op("Shape", graph.numbers, start=0, end=1)
    shape = graph.op("Concat", size, graph.constant(np.array([len(trees)], np.int64)), axis=0)
    node = graph.op("Expand", graph.constant(np.array([roots], np.int64)), shape)
    for _ in range(max(depths)):
        column, *interval, if_true, if_false = (
            graph.op("Gather", field, node, axis=0) for field in fields[:-1]
        )
        values = graph.op("GatherElements", graph.values, column, axis=1)
        node = graph.op("Where", _holds(graph, values, *interval), if_true, if_false)
    return graph.op("Gather", fields[-1], node, axis=0)


def _fired(graph: _Graph, rules: Sequence[ExportRule]) -> Any:
    """Returns which rules hold, [k, rules] bool: those without a failed condition."""
    conditions = list(dict.fromkeys(one for rule in rules for one in rule.conditions))
    if not conditions:
        size = graph.op("Shape", graph.numbers, start=0, end=1)
        shape = graph.op("Concat", size, graph.constant(np.array([len(rules)], np.int64)), axis=0)
        return graph.op("Expand", graph.constant(np.array([True])), shape)
    row_of = {one: index for index, one in enumerate(conditions)}
    is_in_rule = np.zeros((len(conditions), len(rules)), np.float32)
    for index, rule in enumerate(rules):
        for one in rule.conditions:
            is_in_rule[row_of[one], index] = 1
    fails = graph.op("Cast", _failed(graph, conditions), to=int(graph.ir.DataType.FLOAT))
    # Float32 is exact for the numbers of failed conditions.
    failed = graph.op("MatMul", fails, graph.constant(is_in_rule))
    return graph.op("Equal", failed, graph.constant(np.float32(0)))


def _failed(graph: _Graph, conditions: Sequence[ExportCondition]) -> Any:
    """Returns which conditions do not hold, [k, conditions] bool."""
    values = graph.columns([one.column for one in conditions])

    def given(numbers: Sequence[float], kind: Any = np.float64) -> Any:
        return graph.constant(np.array(numbers, kind))

    holds = _holds(
        graph,
        values,
        given([one.low for one in conditions]),
        given([one.high for one in conditions]),
        given([one.negated for one in conditions], bool),
        given([one.negated != one.if_missing for one in conditions], bool),
    )
    return graph.op("Not", holds)


def _holds(graph: _Graph, values: Any, low: Any, high: Any, negated: Any, differs: Any) -> Any:
    """Returns whether values are in [low, high], or are not in it if `negated`.

    A missing value is in no interval. `differs` is whether its condition is not `negated`.
    """
    inside = graph.op(
        "And", graph.op("GreaterOrEqual", values, low), graph.op("LessOrEqual", values, high)
    )
    turned = graph.op("And", graph.op("IsNaN", values), differs)
    return graph.op("Xor", graph.op("Xor", inside, negated), turned)


def _slopes(graph: _Graph, slopes: Sequence[Slope], precision: str) -> Any:
    """Returns the votes of slopes, [k, slopes]."""
    values = graph.rounded(graph.columns([slope.column for slope in slopes]), precision)
    zero = graph.constant(np.float64(0))
    up, down = (
        graph.constant(np.array([getattr(slope, field) for slope in slopes]))
        for field in ("if_positive", "if_negative")
    )
    below = graph.op("Where", graph.op("Less", values, zero), down, zero)
    vote = graph.op("Where", graph.op("Greater", values, zero), up, below)
    return graph.op("Mul", vote, values)


def _scores(graph: _Graph, vote: ScoreVote) -> Any:
    """Returns the score, with the operations of `jboost.geometry.linear` in the same order."""
    wide = vote.precision == "float64"
    indices = range(len(vote.columns))
    rounded = graph.rounded(graph.columns(indices), vote.precision)
    values, anchor, bias = rounded, graph.constant(np.array(vote.anchor)), vote.bias
    share = None
    if wide:  # coordinates that would overflow are scaled, and subnormal results are 0
        share = _share(graph, rounded, max(*map(abs, vote.anchor), abs(bias)))
        values, anchor = (graph.op("Mul", each, share) for each in (values, anchor))
    moved = graph.op("Sub", values, anchor)
    terms = graph.op("Mul", graph.constant(np.array(vote.normal)), graph.normal(moved, 2.0**-1022))
    terms = graph.normal(terms, 2.0**-1022)
    total = graph.op("Unsqueeze", graph.zeros(), graph.constant(np.array([1], np.int64)))
    for index in indices:  # a loop, so that the sum is rounded as in the model
        term = graph.op("Gather", terms, graph.constant(np.array([index], np.int64)), axis=1)
        total = graph.op("Add", total, term)
    offset = graph.constant(np.float64(bias))
    total = graph.op("Add", total, graph.op("Mul", offset, share) if wide else offset)
    total = graph.op("Div", graph.normal(total, 2.0**-1022), share) if wide else total
    total = graph.op("Squeeze", total, graph.constant(np.array([1], np.int64)))
    sizes = graph.op("Abs", rounded)
    # A comparison with NaN is false.
    finite = graph.op("LessOrEqual", sizes, graph.constant(np.float64(np.finfo(np.float64).max)))
    count = _sum(graph, graph.op("Cast", finite, to=int(graph.ir.DataType.DOUBLE)))
    is_finite = graph.op("Equal", count, graph.constant(np.float64(len(vote.columns))))
    return graph.op("Where", is_finite, total, graph.constant(np.float64(np.nan)))


def _share(graph: _Graph, values: Any, largest: float) -> Any:
    """Returns the scale factor of the coordinates of each row, [k, 1]."""
    size = graph.op(
        "ReduceMax",
        graph.op("Abs", values),
        graph.constant(np.array([1], np.int64)),
        keepdims=1,
    )
    size = graph.op("Max", size, graph.constant(np.array([[largest]])))
    is_large = graph.op("Greater", size, graph.constant(np.float64(LARGE)))
    return graph.op(
        "Where", is_large, graph.constant(np.float64(SHARE)), graph.constant(np.float64(1))
    )
