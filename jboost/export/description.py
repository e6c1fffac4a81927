"""Reads a model in the intermediate form of `jboost.export.types`."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jboost import ensemble
from jboost.base import check, words
from jboost.base.boosting import Ensemble
from jboost.base.predict import refuse_invalid
from jboost.combine.types import LinearVote
from jboost.data import attributes
from jboost.data.binarization import Binarizer, Kind, describe_monomial
from jboost.data.kinds import NUMBER, ColumnKind
from jboost.export import intervals, trees
from jboost.export import kinds as kind_module
from jboost.export.types import (
    Described,
    ExportColumn,
    ExportCondition,
    ExportRule,
    ExportTree,
    RuleVote,
    ScoreVote,
    Slope,
    TreeVote,
    one_line,
    with_votes,
)
from jboost.learners.columns import Columns
from jboost.learners.monomials import Monomials
from jboost.learners.quantised import QuantisedStumps
from jboost.learners.signed import Signs
from jboost.learners.stumps import Stumps
from jboost.learners.trees import Trees
from jboost.pair.baselines import DistanceSeparator
from jboost.pair.types import Separator, TradeOff
from jboost.slipper import Rules

_SCORES = (Separator, TradeOff, DistanceSeparator, LinearVote)


def describe(
    model: Any,
    target: str,
    *,
    binarizer: Binarizer | None = None,
    names: Sequence[str] | None = None,
    kinds: Mapping[str, ColumnKind] | None = None,
) -> Described:
    """Returns the intermediate form of a model.

    Args:
      model: as in `jboost.export.to_python`.
      target: the name of the function of the format, for messages.
      binarizer: as in `jboost.export.to_python`.
      names: as in `jboost.export.to_python`.
      kinds: as in `jboost.export.to_python`.

    Raises:
      ValueError: if the model cannot be exported. The message names the model and the format.
    """
    check.on_host(
        f"jboost.export.{target}",
        instead="return the model, and export it afterwards",
        model=model,
        binarizer=binarizer,
    )
    names, known = _checked_names(names), kind_module.check(kinds, target)
    if isinstance(model, _SCORES):
        refuse_invalid(model)
        return _scores(model, target, binarizer, names, known)
    if not isinstance(model, Ensemble):
        hint = "pass its field `ensemble`; " if hasattr(model, "ensemble") else ""
        raise ValueError(
            f"model is of the type {type(model).__name__}, which jboost.export.{target} cannot"
            f" write: {hint}expected an Ensemble, or one of"
            f" {', '.join(kind.__name__ for kind in _SCORES)}; to_jax takes every model"
        )
    refuse_invalid(model)
    return _HypothesisReader(model, target, binarizer, names, known).read()


def _checked_names(names: Any) -> tuple[str, ...] | None:
    """Returns the names as a tuple. Raises ValueError if they are one text, or no list."""
    if names is None:
        return None
    try:
        found = tuple(names)
    except TypeError:
        found = ()
    if isinstance(names, str) or not (found or hasattr(names, "__len__")):
        raise ValueError(f"names is {names!r}: expected a list of texts, one for each feature")
    return found


def _scores(
    model: Any,
    target: str,
    binarizer: Binarizer | None,
    names: Sequence[str] | None,
    kinds: Mapping[str, ColumnKind],
) -> ScoreVote:
    if binarizer is not None:
        raise ValueError(
            f"binarizer is given for a {type(model).__name__}, whose inputs are scores: omit it"
        )
    if isinstance(model, LinearVote):
        normal, bias = model.coefficients, model.offset
        anchor = np.zeros_like(np.asarray(normal))
    else:
        normal, anchor, bias = model.normal, model.anchor, model.bias
    precision = _precision(model, bias, target)
    named = attributes.attribute_names(names, np.asarray(normal).shape[0])

    def numbers(values: Any) -> tuple[float, ...]:
        return tuple(
            intervals.held(value, precision) for value in np.asarray(values, np.float64).tolist()
        )

    return ScoreVote(
        tuple(_number_column(name, kinds) for name in named),
        numbers(normal),
        numbers(anchor),
        numbers([bias])[0],
        precision,
    )


def _number_column(name: str, kinds: Mapping[str, ColumnKind]) -> ExportColumn:
    return ExportColumn(name, None, kinds.get(name, ColumnKind(NUMBER)))


def _precision(model: Any, array: Any, target: str) -> str:
    precision = str(np.asarray(array).dtype)
    if precision not in ("float32", "float64"):
        raise ValueError(
            f"model is a {type(model).__name__} of {precision}, which jboost.export.{target} cannot"
            " write: expected float32 or float64"
        )
    return precision


class _HypothesisReader:
    """Converts the hypotheses of an ensemble one by one and collects the columns that they use."""

    def __init__(
        self,
        model: Ensemble,
        target: str,
        binarizer: Binarizer | None,
        names: Sequence[str] | None,
        kinds: Mapping[str, ColumnKind],
    ) -> None:
        self.model, self.target, self.binarizer, self.kinds = model, target, binarizer, kinds
        self.precision = _precision(model, model.votes, target)
        self.signs = isinstance(model.learner, Signs)
        self.learner = model.learner.learner if self.signs else model.learner
        self.num_plain, self.plain_names = self._plain(names)
        self.columns: dict[str, ExportColumn] = {}

    def _plain(self, names: Sequence[str] | None) -> tuple[int, tuple[str, ...]]:
        """Returns the number and names of the features that are columns of the table.

        With a binarizer these are the features before the bits. Without one they are all features.
        """
        if self.binarizer is not None:
            named = tuple(names or ())
            return len(named), attributes.attribute_names(named, len(named))
        if names is not None:
            return len(names), attributes.attribute_names(names, len(names))
        num_features = self._num_features()
        return num_features, attributes.attribute_names(None, num_features)

    def _num_features(self) -> int:
        """Returns a lower bound on the number of features of the hypotheses."""
        hypotheses = self.model.hypotheses
        if isinstance(self.learner, Monomials | Rules):
            return int(hypotheses.literals.shape[1])
        indices = (
            hypotheses.index
            if isinstance(self.learner, Columns)
            else getattr(hypotheses, "feature", np.zeros(0))
        )
        return int(np.max(np.asarray(indices), initial=-1)) + 1

    def read(self) -> RuleVote | TreeVote:
        """Returns the intermediate form, with votes in multiples of the unit of the model."""
        held = np.asarray(
            [[self._held(vote) for vote in pair] for pair in np.asarray(self.model.votes).tolist()]
        ).reshape(-1, 2)
        constant = self._held(float(self.model.constant))
        unit = ensemble.vote_unit(held, constant)
        constant = float(ensemble.votes_in_units(constant, unit))
        votes = ensemble.votes_in_units(held, unit)
        if isinstance(self.learner, Trees):
            return self._trees(constant, votes, unit)
        return self._rule_vote(constant, votes, unit)

    def _rule_vote(self, constant: float, votes: np.ndarray, unit: float) -> RuleVote:
        rules: list[ExportRule] = []
        slopes: list[Slope] = []
        for slot, hypothesis in self._used_hypotheses(votes):
            more, slope = self._terms(hypothesis, *votes[slot].tolist())
            rules += [
                rule._replace(text=one_line(rule.text), vote=_nearest_multiple(rule.vote, unit))
                for rule in more
                if rule.vote != 0
            ]
            slopes += slope
        finite = np.where(np.isfinite(votes), np.abs(votes), 0.0)
        return RuleVote(
            tuple(self.columns.values()),
            constant,
            tuple(rules),
            tuple(slopes),
            self.precision,
            _score_error([*finite.ravel().tolist(), abs(constant)], unit) if slopes else 0.0,
        )

    def _trees(self, constant: float, votes: np.ndarray, unit: float) -> TreeVote:
        found: list[ExportTree] = []
        for slot, tree in self._used_hypotheses(votes):
            positive, negative = votes[slot].tolist()
            vote = functools.partial(self._vote, positive, negative)
            own = trees.read(tree, self._test_of_node, vote)
            found.append(with_votes(own, functools.partial(_nearest_multiple, unit=unit)))
        return TreeVote(tuple(self.columns.values()), constant, tuple(found), self.precision)

    def _used_hypotheses(self, votes: np.ndarray) -> list[tuple[int, Any]]:
        """Returns the slots with a vote and their hypotheses."""
        hypotheses = jax.tree.map(np.asarray, self.model.hypotheses)
        return [
            (int(slot), jax.tree.map(lambda leaf, slot=slot: leaf[slot], hypotheses))
            for slot in np.flatnonzero(np.any(votes != 0, axis=1))
        ]

    def _vote(self, positive: float, negative: float, output: float) -> float:
        """Returns the vote for an output of a hypothesis with these votes."""
        output = math.copysign(1.0, output) if self.signs and output else output
        return output * (positive if output > 0 else negative) if output else 0.0

    def _test_of_node(
        self, feature: int, threshold: float, missing_right: bool
    ) -> tuple[ExportCondition, str]:
        """Returns the condition under which a row goes to the right side of a node of a tree."""
        is_category, threshold = feature in self.learner.categorical, self._held(threshold)
        if self.binarizer is not None and feature >= self.num_plain:
            goes_right = (
                (threshold == 0, threshold == 1) if is_category else (threshold < 0, threshold < 1)
            )
            return self._test_of_bit(feature - self.num_plain, goes_right, missing_right)
        column, name = self._plain_column(feature), words.quoted(self.plain_names[feature])
        ends = intervals.above(threshold, self.precision), math.inf
        if is_category:
            ends = self._equal(threshold)
        if math.isnan(ends[0]) or threshold == math.inf:  # no number is on the right side
            ends = trees.NEVER
        text = f"{name} {'==' if is_category else '>'} {_number_text(threshold)}"
        return trees.or_missing(ExportCondition(column, *ends, False, missing_right), text, name)

    def _test_of_bit(
        self, bit: int, goes_right: tuple[bool, bool], missing_right: bool
    ) -> tuple[ExportCondition, str]:
        condition, text = self._bit(bit, goes_right[1])
        binarizer = self.binarizer
        assert binarizer is not None
        attribute = int(binarizer.attributes[bit])
        return trees.of_bit(
            condition,
            text,
            words.quoted(binarizer.names[attribute]),
            goes_right=goes_right,
            missing_right=missing_right,
            missing_is_value=bool(binarizer.missing_is_value[attribute]),
        )

    def _terms(
        self, hypothesis: Any, positive: float, negative: float
    ) -> tuple[list[ExportRule], list[Slope]]:
        """Returns the rules and slopes of one hypothesis with its votes for both signs."""
        if isinstance(self.learner, Stumps | QuantisedStumps):
            return self._stump(hypothesis, positive, negative), []
        if isinstance(self.learner, Monomials | Rules):
            sign = float(hypothesis.sign)
            conditions, text = self._monomial(hypothesis.literals)
            vote = sign * (positive if sign > 0 else negative)
            return [] if conditions is None else [ExportRule(conditions, vote, text)], []
        if isinstance(self.learner, Columns):
            return self._column(hypothesis, positive, negative)
        raise ValueError(
            f"model is an Ensemble of {type(self.learner).__name__}, which"
            f" jboost.export.{self.target} cannot write: it writes rules, stumps, trees and"
            " votes of scores; to_jax takes every model"
        )

    def _stump(self, stump: Any, positive: float, negative: float) -> list[ExportRule]:
        vote = functools.partial(self._vote, positive, negative)
        left, right, feature = float(stump.left), float(stump.right), int(stump.feature)
        if left == right:
            return [ExportRule((), vote(right), "always")]
        threshold = float(stump.threshold)
        return [
            *self._rules(feature, threshold, vote(right), is_above=True),
            *self._rules(feature, threshold, vote(left), is_above=False),
        ]

    def _rules(
        self, feature: int, threshold: float, vote: float, *, is_above: bool
    ) -> list[ExportRule]:
        """Returns the rules of a feature above a threshold, or present and not above it."""
        if feature < self.num_plain or self.binarizer is None:
            return [self._side(feature, threshold, vote, is_above=is_above)]
        bit_values = [value for value in (0, 1) if (value > threshold) == is_above]
        found = []
        for value in bit_values:
            condition, text = self._bit(feature - self.num_plain, bool(value))
            found.append(ExportRule((condition,), vote, text))
        return found

    def _side(self, feature: int, threshold: float, vote: float, *, is_above: bool) -> ExportRule:
        column, name = self._plain_column(feature), words.quoted(self.plain_names[feature])
        low, high = -math.inf, math.inf
        if is_above:
            low = intervals.above(threshold, self.precision)
            if math.isnan(low):
                low, high = math.inf, -math.inf  # no number is above infinity
        else:
            high = intervals.at_most(threshold, self.precision)
        text = f"{name} {'>' if is_above else '<='} {_number_text(threshold)}"
        return ExportRule((ExportCondition(column, low, high, False, False),), vote, text)

    def _column(
        self, column: Any, positive: float, negative: float
    ) -> tuple[list[ExportRule], list[Slope]]:
        feature, sign = int(column.index), float(column.sign)
        # The votes if the feature itself, without the sign of the hypothesis, is above or below 0.
        up, down = (positive, negative) if sign > 0 else (negative, positive)
        signs = [
            *self._rules_of_sign(feature, sign * up, is_above=True),
            *self._rules_of_sign(feature, -sign * down, is_above=False),
        ]
        if self.learner.boolean:
            return signs, []
        if feature >= self.num_plain:
            raise ValueError(
                f"model is an Ensemble of {type(self.learner).__name__} of bits, which"
                f" jboost.export.{self.target} cannot write: fit learners.literals on the bits"
            )
        index = self._plain_column(feature)
        is_missing = ExportCondition(index, math.inf, -math.inf, False, True)
        name = words.quoted(self.plain_names[feature])
        unknown = ExportRule((is_missing,), math.nan, f"{name} is missing")
        if self.signs:
            return [*signs, unknown], []
        if math.isfinite(up) and math.isfinite(down):
            return [], [Slope(index, sign * up, sign * down)]
        finite = [sign * vote if math.isfinite(vote) else 0.0 for vote in (up, down)]
        decisive = [rule for rule in signs if math.isinf(rule.vote)]
        return [*decisive, unknown], [Slope(index, *finite)]

    def _rules_of_sign(self, feature: int, vote: float, *, is_above: bool) -> list[ExportRule]:
        """Returns the rules of a feature above 0, or below 0. For literals, 0 counts as below."""
        if is_above or self.learner.boolean:
            return self._rules(feature, 0.0, vote, is_above=is_above)
        column, name = self._plain_column(feature), words.quoted(self.plain_names[feature])
        below = -intervals.above(0.0, self.precision)
        return [
            ExportRule(
                (ExportCondition(column, -math.inf, below, False, False),), vote, f"{name} < 0"
            )
        ]

    def _monomial(self, literals: np.ndarray) -> tuple[tuple[ExportCondition, ...] | None, str]:
        """Returns the conditions of a conjunction and their text.

        The conditions are None if no row satisfies them.
        """
        used = np.flatnonzero(literals)
        if self.binarizer is None:
            found = [self._given_bit(int(index), bool(literals[index] > 0)) for index in used]
        else:
            num_bits = self.binarizer.num_bits
            if self.num_plain or np.any(used >= num_bits):
                raise ValueError(
                    f"binarizer has {num_bits} bits, and names has {self.num_plain}: the monomials"
                    f" of model are of {len(literals)} bits; pass the binarizer that made them"
                    " and no names"
                )
            found = [self._bit(int(index), bool(literals[index] > 0)) for index in used]
            padded = np.zeros(num_bits, np.int8)
            padded[used] = literals[used]
            text = describe_monomial(self.binarizer, padded)
            return None if text == "never" else tuple(one for one, _ in found), text
        return tuple(one for one, _ in found), " and ".join(text for _, text in found) or "always"

    def _given_bit(self, feature: int, is_one: bool) -> tuple[ExportCondition, str]:
        """Returns the condition that a feature is 1 (or 0) and its text."""
        value = 1.0 if is_one else 0.0
        condition = ExportCondition(self._plain_column(feature), *self._equal(value), False, False)
        return condition, f"{words.quoted(self.plain_names[feature])} == {int(is_one)}"

    def _bit(self, index: int, is_one: bool) -> tuple[ExportCondition, str]:
        """Returns the condition on the table under which a bit is 1 (or 0), and its text."""
        binarizer = self.binarizer
        assert binarizer is not None
        if index >= binarizer.num_bits:
            raise ValueError(
                f"names and binarizer give {self.num_plain + binarizer.num_bits} features, and"
                f" model reads feature {self.num_plain + index}: pass those of the fit"
            )
        attribute, kind = int(binarizer.attributes[index]), Kind(int(binarizer.kinds[index]))
        as_value = bool(binarizer.missing_is_value[attribute])
        limit = float(binarizer.thresholds[index])
        column = self._used(binarizer.names[attribute], binarizer.categories[attribute])
        if kind is Kind.MISSING:
            # Without `missing_is_value` the bit of a missing value is NaN: neither 0 nor 1.
            whole = (math.inf, -math.inf) if is_one else (-math.inf, math.inf)
            condition = ExportCondition(column, *whole, False, is_one and as_value)
        elif kind is Kind.AT_MOST:
            end = intervals.at_most(limit, self.precision)
            condition = ExportCondition(column, -math.inf, end, not is_one, as_value and not is_one)
        else:
            ends = self._equal(limit) if binarizer.categories[attribute] is None else (limit, limit)
            condition = ExportCondition(column, *ends, not is_one, as_value and not is_one)
        literals = np.zeros(binarizer.num_bits, np.int8)
        literals[index] = 1 if is_one else -1
        return condition, describe_monomial(binarizer, literals)

    def _held(self, value: float) -> float:
        return intervals.held(value, self.precision)

    def _equal(self, value: float) -> tuple[float, float]:
        """Returns the least and the greatest number that the model rounds to this one."""
        return intervals.at_least(value, self.precision), intervals.at_most(value, self.precision)

    def _plain_column(self, feature: int) -> int:
        if feature >= self.num_plain:
            raise ValueError(
                f"names holds {self.num_plain} texts, and model reads feature {feature}: pass one"
                " name for each feature"
            )
        return self._used(self.plain_names[feature], None)

    def _used(self, name: str, texts: tuple[str, ...] | None) -> int:
        column = _number_column(name, self.kinds) if texts is None else ExportColumn(name, texts)
        self.columns.setdefault(name, column)
        if (self.columns[name].texts is None) != (texts is None):
            raise ValueError(
                f"names holds {name!r}, a column of text of binarizer: a feature is a number"
            )
        return list(self.columns).index(name)


def _nearest_multiple(vote: float, unit: float) -> float:
    """The vote of a rule as the model adds it: an output that is no sign may leave the units."""
    return round(vote / unit) * unit if math.isfinite(vote) else vote


def _score_error(sizes: Sequence[float], unit: float) -> float:
    """Returns a bound on the difference between sums of products in units, and in float64.

    The latter may be in any order (Higham 2002, Section 4.2).
    """
    num_terms = sum(size > 0 for size in sizes)
    error = (num_terms + 1) * 2.0**-53
    share = error / (1 - error) if error < 1 else math.inf
    return math.fsum(sizes) * share + num_terms * unit


def _number_text(number: float) -> str:
    return attributes.number_text(number) if math.isfinite(number) else f"{number}"
