"""Binarization: converts attributes with numbers, categories and missing values to bits.

The method is that of Boros, Hammer, Ibaraki and Kogan (1997). The bits are the binary attributes of
the monomials of Goldberg and Eckstein (2009). A bit is one condition, such as `age <= 54.5` for a
numeric attribute, `cp == 4` for a categorical one, or `chol is missing` for one with missing
values. `fit` uses only the training rows and returns a `Binarizer`. `apply` is a pure function of
it. `jboost.data.cuts` chooses the cuts, and `jboost.data.support_sets` selects bits.

A monomial over N bits is a vector of `literals` [N]: +1 if the bit must be 1, -1 if it must be 0, 0
if it is not used. A bit that is NaN satisfies neither literal. The same holds for a monomial as
text: a comparison with a missing value is false, so `x > 3` does not cover a row without x.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, labelled, words
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.data import attributes as tables
from jboost.data import cuts as cut_module
from jboost.data import frames
from jboost.data.support_sets import select_support_set

__all__ = [
    "Binarizer",
    "Kind",
    "apply",
    "apply_on_host",
    "describe_literal",
    "describe_monomial",
    "encode",
    "fit",
    "select_support_set",
]

_MISSING_BIT = 2  # the int8 code of NaN among bits of 0 and 1
_IN_WORDS = "return the arrays, and describe them afterwards"


class Kind(enum.IntEnum):
    """The kind of condition of a bit."""

    AT_MOST = 0  # value <= threshold
    EQUAL = 1  # value == threshold
    MISSING = 2


class _Asked(NamedTuple):
    attribute: int
    kind: Kind
    threshold: float


@register
@dataclasses.dataclass(frozen=True)
class Binarizer:
    """The conditions of the bits; the result of `fit`."""

    attributes: Array  # [N] int32, the column of the features that each bit depends on
    kinds: Array  # [N] int32, a `Kind`
    # [N] float64, the cut, or the category (for text, its index in `categories`); 0 for MISSING
    thresholds: Array
    # [n] bool, whether bits of this attribute are 0 for a missing value; otherwise they are NaN
    missing_is_value: Array
    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})  # of the n attributes
    # for each attribute, the texts by code; None for numbers
    categories: tuple[tuple[str, ...] | None, ...] = dataclasses.field(metadata={"static": True})
    # attributes with one value in training, which have no bits
    constant_attributes: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    # attributes with values that differ in 64 bits only, and therefore count as equal
    coarse_attributes: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    # the number of bits dropped because an earlier bit is equal or complementary
    num_redundant: int = dataclasses.field(metadata={"static": True})
    # the number of bits that are not in the support set
    num_unselected: int = dataclasses.field(metadata={"static": True})

    @property
    def num_bits(self) -> int:
        """N."""
        return int(self.attributes.shape[0])

    @property
    def bit_names(self) -> tuple[str, ...]:
        """The condition of each bit, as text."""
        return tuple(describe_literal(self, index, True) for index in range(self.num_bits))


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
    if names is None and frames.is_frame(features):
        names = frames.names_of(features)
    table = tables.as_table(features)
    labels_of_rows, sizes, rows = _training(labels, weights, mask, len(table))
    if labels is None and (cuts == "class_changes" or min_separation is not None):
        wanted = 'cuts "class_changes"' if cuts == "class_changes" else "min_separation"
        raise ValueError(
            f'labels is None: {wanted} needs labels; pass them, or choose "midpoints" or'
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
    chosen_categorical = tables.columns_of(categorical, attribute_names)
    values = tables.to_numbers(table, categories, attribute_names, numbered)
    tables.require_finite(values, numbered)

    asked: list[_Asked] = []
    missing_is_value, constant, coarse = [], [], []
    for column, name in enumerate(attribute_names):
        known = ~np.isnan(values[:, column])
        as_value = missing == "literal" and not known.all()
        missing_is_value.append(as_value)
        distinct = np.unique(values[known, column])
        categories_held = distinct[np.unique(cut_module.as_held(distinct), return_index=True)[1]]
        if len(categories_held) < len(distinct):
            coarse.append(name)
        if len(categories_held) + as_value < 2:
            constant.append(name)
        elif column in chosen_categorical or categories[column] is not None:
            asked += [_Asked(column, Kind.EQUAL, float(category)) for category in categories_held]
        else:
            column_values, column_labels = values[known, column], labels_of_rows[known]
            points = cut_module.cut_points(
                column_values,
                column_labels,
                weights=sizes[known],
                rule=cuts,
                num_quantiles=num_quantiles,
            )
            asked += [_Asked(column, Kind.AT_MOST, float(point)) for point in points]
        if as_value and name not in constant:
            asked.append(_Asked(column, Kind.MISSING, 0.0))

    answers = _answers(values, asked, missing_is_value)
    kept = _distinct(answers) if drop_redundant else np.arange(len(asked))
    num_redundant, num_distinct = len(asked) - len(kept), len(kept)
    if min_separation is not None:
        bits = np.where(answers[kept] == _MISSING_BIT, np.float32(np.nan), answers[kept]).T
        kept = kept[select_support_set(bits, labels_of_rows, min_separation=min_separation)]
    asked = [asked[index] for index in kept]
    return Binarizer(
        attributes=np.array([one.attribute for one in asked], np.int32),
        kinds=np.array([one.kind for one in asked], np.int32),
        thresholds=np.array([one.threshold for one in asked], np.float64),
        missing_is_value=np.array(missing_is_value, bool),
        names=attribute_names,
        categories=categories,
        constant_attributes=tuple(constant),
        coarse_attributes=tuple(coarse),
        num_redundant=num_redundant,
        num_unselected=num_distinct - len(asked),
    )


def apply(binarizer: Binarizer, features: Any) -> Array:
    """The bits of rows of features. For features of numbers, it may be jitted and vmapped.

    Args:
      binarizer: from `fit`.
      features: [m, n] of any kind that `fit` accepts. A JAX array, as under jit and vmap, contains
        numbers, and the codes of `encode` instead of text. In a list or a NumPy array, numbers are
        converted to text if training had text. A DataFrame must have the columns of `fit`, in any
        order.

    Returns:
      [m, N] floats 0 and 1. A bit is NaN if the value is missing, and `missing` was "none" or the
      attribute had no missing values in training.

    Raises:
      ValueError: if `features` has a wrong shape or kind, or text where training had numbers.

    >>> binarizer = fit([[1.0], [2.0], [np.nan]], [1, -1, -1], names=["size"])
    >>> binarizer.bit_names
    ('size <= 1.5', 'size is missing')
    >>> apply(binarizer, [[1.2], [np.nan]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    numbers = encode(binarizer, features)
    is_floating = jnp.issubdtype(numbers.dtype, jnp.floating)
    held = numbers.astype(
        jnp.promote_types(numbers.dtype, jnp.float32) if is_floating else jnp.result_type(float)
    )
    if binarizer.num_bits == 0:
        return jnp.zeros((held.shape[0], 0), held.dtype)
    return _bits(
        held,
        binarizer.attributes,
        binarizer.kinds,
        jnp.asarray(binarizer.thresholds),
        jnp.asarray(binarizer.missing_is_value),
    )


def apply_on_host(binarizer: Binarizer, numbers: np.ndarray) -> np.ndarray:
    """The bits of rows, computed by NumPy: nothing is compiled, whatever the number of rows.

    Args:
      binarizer: of `fit`.
      numbers: [m, n] floats as `encode` gives them.

    Returns:
      [m, N] floats as `apply` gives them.

    >>> binarizer = fit([[1.0], [2.0], [np.nan]], [1, -1, -1], names=["size"])
    >>> apply_on_host(binarizer, np.asarray(encode(binarizer, [[1.2], [np.nan]]))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    fields = (
        binarizer.attributes,
        binarizer.kinds,
        binarizer.thresholds,
        binarizer.missing_is_value,
    )
    return _bits_by(np, numbers, *(np.asarray(field) for field in fields))


def _bits_by(
    module: Any,
    features: Any,
    attributes: Any,
    kinds: Any,
    thresholds: Any,
    missing_is_value: Any,
) -> Any:
    """The bits, computed by NumPy or `jax.numpy`."""
    values = features[:, attributes]
    limits = thresholds.astype(features.dtype)[None, :]
    is_missing = module.isnan(values)
    holds = module.where((kinds == Kind.AT_MOST)[None, :], values <= limits, values == limits)
    holds = module.where((kinds == Kind.MISSING)[None, :], is_missing, holds)
    unmatched = is_missing & ~missing_is_value[attributes][None, :]
    return module.where(unmatched, module.nan, holds).astype(features.dtype)


_bits = jax.jit(functools.partial(_bits_by, jnp))


def encode(binarizer: Binarizer, features: Any) -> Array:
    """Rows of features as numbers, converted on the host. Text becomes its index among the
    categories of training, or -1 if it did not occur in training.

    Args:
      binarizer: from `fit`.
      features: [m, n] of any kind that `fit` accepts. A JAX array is returned unchanged, because it
        contains such numbers already.

    Returns:
      [m, n] numbers in a JAX array, NaN where missing.

    Raises:
      ValueError: if `features` has a wrong shape, or text where training had numbers.

    >>> binarizer = fit(np.array([["red", 1], ["blue", 2], [None, 3]], object), [1, -1, -1])
    >>> encode(binarizer, np.array([["blue", 4], ["red", None], ["green", 5]], object)).tolist()
    [[0.0, 4.0], [1.0, nan], [-1.0, 5.0]]
    """
    num_attributes = len(binarizer.names)
    if isinstance(features, jax.Array):
        return check.numeric("features", features, shape=("m", num_attributes), kinds="fiub")
    check.on_host(
        "jboost.data.binarization.encode, of lists and tables,",
        instead="pass one JAX array [m, n]",
        features=features,
    )
    table = tables.as_table(features, binarizer.names)
    if table.shape[1] != num_attributes:
        raise ValueError(
            f"features has shape {list(table.shape)}: expected shape [m, {num_attributes}], as in"
            " training"
        )
    numbers = tables.to_numbers(table, binarizer.categories, binarizer.names, np.arange(len(table)))
    with np.errstate(over="ignore"):  # a value that overflows gives the same bits as infinity
        return jnp.asarray(numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64))


def describe_literal(binarizer: Binarizer, index: int, positive: bool) -> str:
    """One bit, or its negation, as text.

    Args:
      binarizer: from `fit`.
      index: of the bit.
      positive: False for the negation.

    Returns:
      A condition that is true for exactly the rows that the literal covers.

    Raises:
      ValueError: if there is no such bit.

    >>> binarizer = fit([[1.0], [2.0], [np.nan]], [1, -1, -1], names=["size"])
    >>> describe_literal(binarizer, 0, True), describe_literal(binarizer, 0, False)
    ('size <= 1.5', '(size > 1.5 or missing)')
    """
    check.on_host(
        "jboost.data.binarization.describe_literal",
        instead=_IN_WORDS,
        binarizer=binarizer,
        index=index,
    )
    if not 0 <= index < binarizer.num_bits:
        raise ValueError(f"index is {index}: there are {binarizer.num_bits} bits, counted from 0")
    return " and ".join(_conditions(binarizer, [(_asked(binarizer, index), positive)]) or ())


def describe_monomial(binarizer: Binarizer, literals: ArrayLike) -> str:
    """A monomial as text. The condition is true for exactly the rows that the monomial covers.

    Args:
      binarizer: from `fit`.
      literals: [N] integers: +1 if the bit must be 1, -1 if it must be 0, 0 if it is not used.

    Returns:
      Conditions joined by " and ", in the order of the attributes. The conditions on a numeric
      attribute form an interval: `40.5 < age <= 54.5 and cp != 4`. The empty monomial is "always".
      A monomial is "never" if two literals of one attribute contradict each other.

    Raises:
      ValueError: if `literals` has a wrong shape or other entries.

    >>> binarizer = fit(
    ...     [[30, 0], [45, 0], [60, 1]], [-1, 1, -1], names=["age", "smokes"], drop_redundant=False
    ... )
    >>> binarizer.bit_names
    ('age <= 37.5', 'age <= 52.5', 'smokes <= 0.5')
    >>> (
    ...     describe_monomial(binarizer, [-1, 1, 0]),
    ...     describe_monomial(binarizer, [0, 0, 0]),
    ...     describe_monomial(binarizer, [1, -1, 0]),
    ... )
    ('37.5 < age <= 52.5', 'always', 'never')
    """
    check.on_host(
        "jboost.data.binarization.describe_monomial",
        instead=_IN_WORDS,
        binarizer=binarizer,
        literals=literals,
    )
    signs = check.host_array("literals", literals, shape=(binarizer.num_bits,), kinds="i")
    if (np.abs(signs) > 1).any():
        raise ValueError("literals are +1, -1 or 0: the bit is 1, the bit is 0, or it is not used")
    asked: dict[int, list[tuple[_Asked, bool]]] = {}
    for index in np.flatnonzero(signs):
        one = _asked(binarizer, int(index))
        asked.setdefault(one.attribute, []).append((one, bool(signs[index] > 0)))
    conditions: list[str] = []
    for of_one_attribute in asked.values():
        found = _conditions(binarizer, of_one_attribute)
        if found is None:
            return "never"
        conditions += found
    return " and ".join(conditions) or "always"


def _asked(binarizer: Binarizer, index: int) -> _Asked:
    return _Asked(
        int(binarizer.attributes[index]),
        Kind(int(binarizer.kinds[index])),
        float(binarizer.thresholds[index]),
    )


def _conditions(binarizer: Binarizer, literals: Sequence[tuple[_Asked, bool]]) -> list[str] | None:
    """The conditions of the literals (bit, whether positive) of one attribute; None if no value
    satisfies all of them.
    """
    attribute = literals[0][0].attribute
    name, texts = words.quoted(binarizer.names[attribute]), binarizer.categories[attribute]
    asked: dict[tuple[Kind, bool], list[float]] = {}
    for one, positive in literals:
        asked.setdefault((one.kind, positive), []).append(one.threshold)
    at_most, above = asked.get((Kind.AT_MOST, True), []), asked.get((Kind.AT_MOST, False), [])
    equal, unequal = asked.get((Kind.EQUAL, True), []), asked.get((Kind.EQUAL, False), [])
    if (Kind.MISSING, True) in asked:
        return None if at_most or equal else [f"{name} is missing"]
    if (
        len(equal) > 1
        or set(equal) & set(unequal)
        or (at_most and above and max(above) >= min(at_most))
    ):
        return None
    if at_most:
        low = f"{tables.number_text(max(above))} < " if above else ""
        return [f"{low}{name} <= {tables.number_text(min(at_most))}"]

    def category(code: float) -> str:
        return tables.number_text(code) if texts is None else words.quoted(texts[int(code)])

    if equal:
        return [f"{name} == {category(equal[0])}"]
    negated = (
        [f"{name} > {tables.number_text(max(above))}"]
        if above
        else [f"{name} != {category(code)}" for code in unequal]
    )
    if (Kind.MISSING, False) in asked:
        return negated or [f"{name} is not missing"]
    return (
        [f"({text} or missing)" for text in negated]
        if binarizer.missing_is_value[attribute]
        else negated
    )


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
    values: np.ndarray, asked: Sequence[_Asked], missing_is_value: Sequence[bool]
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
