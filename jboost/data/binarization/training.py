"""Chooses the bits of each attribute from the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jboost.base import check, labelled
from jboost.base.types import ArrayLike
from jboost.data import attributes as tables
from jboost.data import cuts as cut_module
from jboost.data import frames
from jboost.data.binarization.conditions import Binarizer, BitCondition, Kind
from jboost.data.support_sets import select_support_set

_MISSING_BIT = 2  # the int8 code of NaN among bits of 0 and 1


def fit(
    features: Any,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    categorical: Sequence[int | str] = (),
    cuts: str = "class_changes",
    num_quantiles: int = 10,
    missing: str = "literal",
    drop_redundant: bool = True,
    min_separation: int | None = None,
) -> Binarizer:
    """Chooses the bits of each attribute from the training rows, on the host.

    A numeric attribute gets one bit for each cut of `jboost.data.cuts.cut_points`. A categorical
    attribute gets one bit for each category. No bit is constant on the training rows: a constant
    attribute has no bits and is recorded. If all labels are of one class, the rule "class_changes"
    makes no cuts, and the matrix of bits may be [m, 0]. The other rules do not use labels.

    Args:
      features: [m, n] numbers, NaN or masked where missing; an object array (such as that of
        `jboost.data.table.Table.matrix`) of numbers, text, and None or NaN where missing; a sparse
        matrix of scipy; or a DataFrame of pandas or polars, whose columns give the names.
        Attributes with text are categorical, and so are categories and booleans of a DataFrame. Its
        dates and times become days since 1970-01-01.
      labels: [m], +1 or -1; may be None unless `cuts` is "class_changes" or `min_separation` is
        given.
      weights: [m] not negative; 0 has the effect of `mask` False. Other values affect only
        "quantiles". None for ones.
      mask: [m] boolean, True for training rows; other rows may have any values. None for all rows.
      names: n distinct names; None for those of a DataFrame, else x0, x1, ...
      categorical: names or columns of attributes whose numbers are categories.
      cuts: "class_changes", "midpoints", "quantiles", or "none" for no cuts: then numbers have only
        bits for missing values.
      num_quantiles: static, at least 2.
      missing: "literal" or "none". With "literal", an attribute with missing values in training
        gets a bit that is 1 if the value is missing; its other bits are then 0. If an attribute has
        no missing values in training, a later missing value satisfies neither a bit nor its
        negation. With "none", no missing value satisfies a bit or its negation (its bits are NaN),
        and there are no bits for missing values.
      drop_redundant: whether to drop bits that are equal or complementary to an earlier bit on the
        training rows.
      min_separation: None to keep all bits, else the argument of `select_support_set`, which
        selects the bits.

    Returns:
      A `Binarizer`.

    Raises:
      ValueError: naming the argument and the remedy, if a shape or an option is not as above, a
        training value is infinite or a label is not +1 or -1; for a column of a DataFrame that
        mixes kinds; and for a sparse matrix that is too large for a dense copy.

    >>> from jboost.data.binarization import describe_monomial
    >>> binarizer = fit(
    ...     [[50, 1], [59, 4], [61, 4], [48, 2]],
    ...     [-1, 1, 1, -1],
    ...     names=["age", "cp"],
    ...     categorical=["cp"],
    ... )
    >>> binarizer.bit_names, binarizer.num_redundant
    (('age <= 54.5', 'cp == 1', 'cp == 2'), 1)
    >>> describe_monomial(binarizer, [1, -1, 0])
    'age <= 54.5 and cp != 1'
    """
    before = "fit the bits before; jboost.data.binarization.apply may be traced"
    check.on_host(
        "jboost.data.binarization.fit",
        instead=before,
        features=features,
        labels=labels,
        weights=weights,
        mask=mask,
    )
    check.choice("cuts", cuts, cut_module.RULES)
    check.choice("missing", missing, ("literal", "none"))
    check.choice("drop_redundant", drop_redundant, (True, False))
    rows = _read_rows(
        features,
        labels,
        weights,
        mask,
        names=names,
        categorical=categorical,
        labels_for=_option_of_labels(cuts, min_separation),
    )
    chosen = _choose(
        rows, rule=cuts, num_quantiles=num_quantiles, with_missing=missing == "literal"
    )
    kept = _keep(rows, chosen, drop_redundant=drop_redundant, min_separation=min_separation)
    return _make_binarizer(rows, chosen, kept)


class _TrainingRows(NamedTuple):
    """Training rows in numbers."""

    values: np.ndarray  # [m, n]
    labels: np.ndarray  # [m]
    weights: np.ndarray  # [m]
    names: tuple[str, ...]  # n
    categories: tuple[tuple[str, ...] | None, ...]  # n, the texts by code; None for numbers
    is_categorical: list[bool]  # n


def _read_rows(
    features: Any,
    labels: Any,
    weights: Any,
    mask: Any,
    *,
    names: Sequence[str] | None,
    categorical: Sequence[int | str],
    labels_for: str | None,
) -> _TrainingRows:
    """The training rows. Raises the errors of `fit`."""
    if names is None and frames.is_frame(features):
        names = frames.names_of(features)
    table = tables.as_table(features)
    labels_of_rows, sizes, rows = _training(labels, weights, mask, len(table))
    if labels is None and labels_for is not None:
        raise ValueError(
            f'labels is None: {labels_for} needs labels; pass them, or choose "midpoints" or'
            ' "quantiles" and no min_separation'
        )
    table = table[rows]
    attribute_names = tables.attribute_names(names, table.shape[1])
    numbered = np.flatnonzero(rows)
    columns = (
        [tables.texts_of(column, str(index), numbered) for index, column in enumerate(table.T)]
        if table.dtype == object
        else None
    )
    categories = tuple(columns) if columns is not None else (None,) * table.shape[1]
    chosen = tables.columns_of(categorical, attribute_names)
    values = tables.to_numbers(table, categories, attribute_names, numbered)
    tables.require_finite(values, numbered)
    is_categorical = [
        column in chosen or texts is not None for column, texts in enumerate(categories)
    ]
    return _TrainingRows(values, labels_of_rows, sizes, attribute_names, categories, is_categorical)


class _ChosenBits(NamedTuple):
    """The bits of all attributes, before any is dropped."""

    asked: list[BitCondition]
    missing_is_value: list[bool]  # of each attribute
    constant: list[str]
    coarse: list[str]


def _choose(
    rows: _TrainingRows, *, rule: str, num_quantiles: int, with_missing: bool
) -> _ChosenBits:
    """The bits of the attributes of training rows."""
    values = rows.values
    chosen = _ChosenBits([], [], [], [])
    for column, name in enumerate(rows.names):
        known = ~np.isnan(values[:, column])
        as_value = with_missing and not known.all()
        chosen.missing_is_value.append(as_value)
        distinct = np.unique(values[known, column])
        held = distinct[np.unique(cut_module.as_held(distinct), return_index=True)[1]]
        if len(held) < len(distinct):
            chosen.coarse.append(name)
        is_constant = len(held) + as_value < 2
        if is_constant:
            chosen.constant.append(name)
        elif rows.is_categorical[column]:
            chosen.asked.extend(BitCondition(column, Kind.EQUAL, float(code)) for code in held)
        else:
            points = cut_module.cut_points(
                values[known, column],
                rows.labels[known],
                weights=rows.weights[known],
                rule=rule,
                num_quantiles=num_quantiles,
            )
            chosen.asked.extend(
                BitCondition(column, Kind.AT_MOST, float(point)) for point in points
            )
        if as_value and not is_constant:
            chosen.asked.append(BitCondition(column, Kind.MISSING, 0.0))
    return chosen


class _KeptBits(NamedTuple):
    """The bits of a binarizer, and the numbers of those that are dropped."""

    asked: list[BitCondition]
    num_redundant: int  # equal or complementary to an earlier bit
    num_unselected: int  # not in the support set


def _keep(
    rows: _TrainingRows, chosen: _ChosenBits, *, drop_redundant: bool, min_separation: int | None
) -> _KeptBits:
    """Drops redundant bits, and then those outside a support set."""
    answers = _answers(rows.values, chosen.asked, chosen.missing_is_value)
    kept = _distinct(answers) if drop_redundant else np.arange(len(answers))
    num_redundant, num_distinct = len(answers) - len(kept), len(kept)
    if min_separation is not None:
        bits = np.where(answers[kept] == _MISSING_BIT, np.float32(np.nan), answers[kept]).T
        kept = kept[select_support_set(bits, rows.labels, min_separation=min_separation)]
    asked = [chosen.asked[index] for index in kept]
    return _KeptBits(asked, num_redundant, num_distinct - len(asked))


def _make_binarizer(rows: _TrainingRows, chosen: _ChosenBits, kept: _KeptBits) -> Binarizer:
    asked = kept.asked
    return Binarizer(
        attributes=np.array([one.attribute for one in asked], np.int32),
        kinds=np.array([one.kind for one in asked], np.int32),
        thresholds=np.array([one.threshold for one in asked], np.float64),
        missing_is_value=np.array(chosen.missing_is_value, bool),
        names=rows.names,
        categories=rows.categories,
        constant_attributes=tuple(chosen.constant),
        coarse_attributes=tuple(chosen.coarse),
        num_redundant=kept.num_redundant,
        num_unselected=kept.num_unselected,
    )


def _option_of_labels(cuts: str, min_separation: int | None) -> str | None:
    """The option that needs labels, None if none does."""
    if cuts == "class_changes":
        return 'cuts "class_changes"'
    return None if min_separation is None else "min_separation"


def _training(
    labels: Any, weights: Any, mask: Any, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels and weights of the training rows, and the mask of the training rows among `size`
    rows.
    """
    signs, sizes, rows = labelled.validate_on_host(
        np.ones(size, np.int32) if labels is None else labels, weights, mask, size
    )
    return signs[rows], sizes[rows], rows


def _answers(
    values: np.ndarray, asked: Sequence[BitCondition], missing_is_value: Sequence[bool]
) -> np.ndarray:
    """The bits of the training rows [N, m] int8, `_MISSING_BIT` for NaN."""
    answers = np.empty((len(asked), len(values)), np.int8)
    held, limits = (
        cut_module.as_held(numbers)
        for numbers in (values, np.array([one.threshold for one in asked]))
    )
    for index, (column, kind, _) in enumerate(asked):
        of_column = held[:, column]
        is_missing = np.isnan(of_column)
        if kind is Kind.MISSING:
            answers[index] = is_missing
        elif kind is Kind.AT_MOST:
            answers[index] = of_column <= limits[index]
        else:
            answers[index] = of_column == limits[index]
        if not missing_is_value[column]:
            answers[index, is_missing] = _MISSING_BIT
    return answers


def _distinct(answers: np.ndarray) -> np.ndarray:
    """Indices of the rows [N, m] that are neither equal nor complementary to an earlier one."""
    first: dict[bytes, int] = {}
    for index, row in enumerate(answers):
        known = row != _MISSING_BIT
        flip = bool(row[known.argmax()] == 1)
        first.setdefault(
            (np.where(known, 1 - row, row) if flip else row).astype(np.int8).tobytes(), index
        )
    return np.fromiter(first.values(), np.int64, len(first))
