"""Bits as conditions: their kinds, the result of a fit, and literals and monomials as text."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jboost.base import check, words
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.data import attributes as tables

_IN_WORDS = "return the arrays, and describe them afterwards"


class Kind(enum.IntEnum):
    """The kind of condition of a bit."""

    AT_MOST = 0  # value <= threshold
    EQUAL = 1  # value == threshold
    MISSING = 2


class BitCondition(NamedTuple):
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

    >>> from jboost.data.binarization import fit
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

    >>> from jboost.data.binarization import fit
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
    asked: dict[int, list[tuple[BitCondition, bool]]] = {}
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


def _asked(binarizer: Binarizer, index: int) -> BitCondition:
    return BitCondition(
        int(binarizer.attributes[index]),
        Kind(int(binarizer.kinds[index])),
        float(binarizer.thresholds[index]),
    )


def _conditions(
    binarizer: Binarizer, literals: Sequence[tuple[BitCondition, bool]]
) -> list[str] | None:
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
