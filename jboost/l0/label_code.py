"""A two-part code of labels: a vote and its errors (Goldberg and Eckstein 2009, Section 2).

Sender and receiver share the unlabelled examples and a `CodeBook`. The message has three parts:

- for each of the s hypotheses of the vote, its table and its index in the table;
- the indices of s examples on which the vote is exactly +1 or -1, of ceil(log2 M) bits each, and
  the number of those with +1; these determine the coefficients (Theorem 2.1);
- the indices of the examples that the vote misclassifies.

The coefficients of the message differ from those of the sender. They are a vertex of {lambda >= 0 :
p_i H_i lambda >= 1}, where p are the signs of the sender's vote. The vertex has the same signs, and
s linearly independent rows are equal to 1 there (Lemma 3.3).

The examples with +1 precede those with -1, and each group is in ascending order. The number of
examples with +1 is stored modulo s. If it is 0, a descending list means that all examples have -1.
All computations use fractions, so that sender and receiver obtain the same signs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import numpy as np

from jboost.base import check, example_values
from jboost.base.boosting import Ensemble
from jboost.l0.description import bits_for

Place = tuple[int, int]  # the table of a hypothesis, and its index in the table


@dataclasses.dataclass(frozen=True)
class CodeBook:
    """The tables of hypotheses that the sender and the receiver share."""

    table_sizes: tuple[int, ...]
    """|U_k|, the number of hypotheses of each table."""
    num_examples: int
    """M."""
    outputs: Callable[[int, int], np.ndarray]
    """A function (table, index) -> outputs [M] of a hypothesis, each -1, 0 or +1."""


class LabelCode(NamedTuple):
    """The message. `support` and `num_errors` are sent separately and not counted by (6)."""

    bits: np.ndarray  # [L] bool, L = `jboost.l0.code_length(...).total`
    support: int
    num_errors: int


def listed_code_book(outputs: Any, tables: Sequence[int] | None = None) -> CodeBook:
    """Returns the code book of hypotheses that are listed by their outputs.

    Args:
      outputs: [M, U] of -1, 0 and +1.
      tables: [U] the table of each hypothesis, an integer >= 0; None for one table. The index of a
        hypothesis is its rank among the hypotheses of its table.

    Raises:
      ValueError: if the outputs or the tables have another shape or invalid values.

    >>> book = listed_code_book([[1, 1, -1], [-1, 1, 0]], [0, 1, 1])
    >>> book.table_sizes, book.outputs(1, 1).tolist()
    ((1, 2), [-1, 0])
    """
    columns = check.host_array("outputs", outputs, shape=("M", "U"), kinds="fiub")
    if not np.isin(columns, (-1, 0, 1)).all():
        raise ValueError("outputs have values other than -1, 0 and +1: expected only those")
    columns = columns.astype(int)
    of_each = np.zeros(columns.shape[1], int) if tables is None else np.asarray(tables)
    if of_each.shape != columns.shape[1:] or of_each.dtype.kind not in "iu" or (of_each < 0).any():
        raise ValueError(
            f"tables is {tables!r}: expected one integer from 0 up for each of the"
            f" {columns.shape[1]} hypotheses"
        )
    members = [np.flatnonzero(of_each == table) for table in range(max(of_each, default=-1) + 1)]
    return CodeBook(
        tuple(len(member) for member in members),
        columns.shape[0],
        lambda table, index: columns[:, members[table][index]],
    )


def monomial_code_book(features: Any, *, max_order: int | None = None) -> CodeBook:
    """Returns the code book of Boolean monomials.

    Table k has the 2^(k + 1) C(N, k) pairs of a monomial of k literals and a class. Table 0 has the
    two constants.

    Args:
      features: [M, N] of 0 and 1. NaN means that neither literal holds.
      max_order: the largest k; None for N.

    Raises:
      ValueError: if the features have another shape, or if `max_order` is not an integer from 0 to
        N.

    >>> book = monomial_code_book([[1, 1], [1, 0], [0, 1]], max_order=2)
    >>> book.table_sizes, book.outputs(2, 7).tolist()
    ((2, 8, 8), [1, 0, 0])
    """
    rows = check.host_array("features", features, shape=("M", "N"), kinds="fiub").astype(float)
    num_attributes = rows.shape[1]
    highest = num_attributes if max_order is None else max_order
    check.count("max_order", highest, low=0)
    if highest > num_attributes:
        raise ValueError(
            f"max_order is {highest}, above the {num_attributes} attributes: pass at most"
            f" {num_attributes}, or None"
        )
    sizes = tuple(
        2 ** (order + 1) * math.comb(num_attributes, order) for order in range(highest + 1)
    )

    def outputs(table: int, index: int) -> np.ndarray:
        index, positive = divmod(index, 2)
        rank, signs = divmod(index, 2**table)
        holds = np.ones(len(rows), bool)
        for bit, attribute in enumerate(_subset(rank, table, num_attributes)):
            holds &= rows[:, attribute] == (signs >> bit & 1)
        return np.where(holds, 2 * positive - 1, 0)

    return CodeBook(sizes, len(rows), outputs)


def places_of_monomials(ensemble: Ensemble) -> tuple[list[Place], np.ndarray]:
    """Returns (table, index) of the monomials with a vote, and their coefficients [s].

    The tables are those of `monomial_code_book`. A constant of the ensemble is one of the two
    hypotheses of table 0.

    Raises:
      ValueError: if the hypotheses of the ensemble are not monomials.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, -1, -1, -1] * 3)
    >>> learner = jboost.learners.monomials(2, kappa=0.1)
    >>> fitted = jboost.l0.fit(dataset, learner, margin=0.1, max_rounds=10, max_columns=32)
    >>> places, coefficients = places_of_monomials(fitted.ensemble)
    >>> book = monomial_code_book(dataset.features, max_order=2)
    >>> code = encode_labels(book, places, coefficients, dataset.labels)
    >>> decode_labels(book, code).tolist()[:4]
    [1, -1, -1, -1]
    """
    if not hasattr(ensemble.hypotheses, "literals"):
        raise ValueError(
            f"ensemble has hypotheses of type {type(ensemble.hypotheses).__name__}: expected those"
            " of jboost.learners.monomials; for others list their outputs by `listed_code_book`"
        )
    votes = np.asarray(ensemble.votes)[:, 0]
    constant = float(ensemble.constant)
    places, coefficients = [], []
    for slot in np.flatnonzero(votes):
        literals = np.asarray(ensemble.hypotheses.literals[slot])
        sign = int(ensemble.hypotheses.sign[slot])
        places.append(_place(literals, sign if votes[slot] > 0 else -sign))
        coefficients.append(abs(votes[slot]))
    if constant != 0:
        places.append((0, int(constant > 0)))
        coefficients.append(abs(constant))
    return places, np.asarray(coefficients, float)


def encode_labels(
    book: CodeBook, places: Sequence[Place], coefficients: Any, labels: Any
) -> LabelCode:
    """Encodes labels as a vote and its errors.

    The number of bits of the vote is (6) for the hypotheses in the message. These are all or some
    of the given hypotheses. Every error of the message is an example with y_i H_i lambda <= 0.

    Args:
      book: the shared `CodeBook`.
      places: [s] the table and the index of each hypothesis.
      coefficients: [s] lambda, finite and nonnegative.
      labels: [M] of -1 and +1.

    Returns:
      A `LabelCode` for `decode_labels`.

    Raises:
      ValueError: if a place is not in the book, or if the coefficients or labels have another shape
        or invalid values.

    Source: Goldberg and Eckstein (2009), Theorem 2.1.

    >>> book = listed_code_book([[1, 1, -1], [-1, 1, -1], [1, -1, 1], [-1, -1, 1]])
    >>> code = encode_labels(book, [(0, 0), (0, 1)], [0.7, 0.3], [1, -1, 1, 1])
    >>> len(code.bits), code.support, code.num_errors
    (8, 1, 1)
    """
    labels = check.host_array("labels", labels, shape=(book.num_examples,), kinds="fiu").astype(int)
    example_values.require_labels(labels, np.ones(labels.shape, bool))
    with jax.enable_x64(True):  # signs of votes are exact, so no coefficient may be rounded
        numbers = check.host_array("coefficients", coefficients, shape=(len(places),), kinds="fiu")
    if not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ValueError(
            "coefficients have a negative or infinite entry: expected finite numbers from 0 up;"
            " negate the hypothesis of a negative one"
        )
    outputs = _columns(book, places)
    exact = [Fraction(float(number)) for number in numbers]
    vertex = _vertex(outputs, exact)
    chosen = [places[column] for column in vertex.columns]
    predicted = _signs(outputs[:, vertex.columns], vertex.coefficients)
    errors = np.flatnonzero(predicted != labels)
    bits = [bit for field in _model_fields(book, chosen, vertex) for bit in _written(*field)]
    row = bits_for(book.num_examples)
    bits += [bit for error in errors for bit in _written(int(error), row)]
    return LabelCode(np.array(bits, bool), len(chosen), len(errors))


def decode_labels(book: CodeBook, code: LabelCode) -> np.ndarray:
    """Decodes the labels [M] of -1 and +1 that `encode_labels` encoded.

    Raises:
      ValueError: if the length of the message does not match its counts, or if the message does not
        determine a vote of the book.

    Source: Goldberg and Eckstein (2009), Theorem 2.1.

    >>> book = listed_code_book([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    >>> code = encode_labels(book, [(0, 0), (0, 1)], [0.7, 0.3], [1, -1, 1, 1])
    >>> decode_labels(book, code).tolist()
    [1, -1, 1, 1]
    """
    reader = _MessageReader(code.bits)
    row, table_bits = bits_for(book.num_examples), bits_for(len(book.table_sizes))
    places = []
    for _ in range(code.support):
        table = reader.read(table_bits)
        size = book.table_sizes[table] if table < len(book.table_sizes) else 1
        places.append((table, reader.read(bits_for(size))))
    outputs = _columns(book, places)
    examples = [reader.read(row) for _ in range(code.support)]
    values = _values_of(examples, reader.read(row), outputs)
    errors = [reader.read(row) for _ in range(code.num_errors)]
    reader.finish()
    if any(example >= book.num_examples for example in (*examples, *errors)):
        raise ValueError(
            "code names an example that the book does not have: pass the book of the sender"
        )
    system = [[Fraction(int(entry)) for entry in outputs[example]] for example in examples]
    labels = _signs(outputs, _solved(system, values))
    labels[errors] *= -1
    return labels


# --- the vertex -----------------------------------------------------------------------------------


class _CodedVertex(NamedTuple):
    columns: list[int]  # [s] the hypotheses with a positive coefficient
    coefficients: list[Fraction]  # [s] their coefficients
    examples: list[int]  # [s] linearly independent rows on which the vote is +1 or -1
    positive: list[bool]  # [s] True where the vote is +1


def _vertex(outputs: np.ndarray, coefficients: list[Fraction]) -> _CodedVertex:
    """Returns a vertex with the signs of the vote.

    Each step moves along the null space of the rows that are equal to 1. It ends when another row
    becomes 1 or a coefficient becomes 0.
    """
    votes = _products(outputs, coefficients)
    signs = [(vote > 0) - (vote < 0) for vote in votes]
    rows = [index for index, sign in enumerate(signs) if sign]
    if not rows:
        return _CodedVertex([], [], [], [])
    margins = np.array([[signs[row]] for row in rows]) * outputs[rows]
    scale = min(abs(votes[row]) for row in rows)
    point = [number / scale for number in coefficients]
    while True:
        columns = [index for index, number in enumerate(point) if number > 0]
        values = _products(margins, point)
        tight = [index for index, value in enumerate(values) if value == 1]
        independent, direction = _eliminated(margins[tight][:, columns])
        if direction is None:
            chosen = [rows[tight[index]] for index in independent]
            return _CodedVertex(
                columns,
                [point[column] for column in columns],
                chosen,
                [signs[row] > 0 for row in chosen],
            )
        point = _moved(point, columns, direction, margins, values)


def _moved(
    point: list[Fraction],
    columns: list[int],
    direction: list[Fraction],
    margins: np.ndarray,
    values: list[Fraction],
) -> list[Fraction]:
    """Returns the point after the longest feasible step along a direction.

    The step keeps all rows at least 1 and all coefficients at least 0.
    """
    if min(direction) >= 0:  # in the opposite direction a coefficient decreases: the step is finite
        direction = [-number for number in direction]
    slopes = _products(margins[:, columns], direction)
    steps = [(value - 1) / -slope for value, slope in zip(values, slopes, strict=True) if slope < 0]
    steps += [
        point[column] / -number
        for column, number in zip(columns, direction, strict=True)
        if number < 0
    ]
    moved = list(point)
    for column, number in zip(columns, direction, strict=True):
        moved[column] += min(steps) * number
    return moved


def _eliminated(rows: np.ndarray) -> tuple[list[int], list[Fraction] | None]:
    """Returns indices of independent rows, and a nonzero vector of the null space or None."""
    num_columns = rows.shape[1]
    pivots: dict[int, list[Fraction]] = {}  # reduced rows by the column of their leading 1
    independent = []
    for index, row in enumerate(rows):
        reduced = _reduced([Fraction(int(entry)) for entry in row], pivots)
        lead = next((column for column, entry in enumerate(reduced) if entry), None)
        if lead is None:
            continue
        reduced = [entry / reduced[lead] for entry in reduced]
        pivots = {
            column: [a - other[lead] * b for a, b in zip(other, reduced, strict=True)]
            for column, other in pivots.items()
        }
        pivots[lead] = reduced
        independent.append(index)
    free = next((column for column in range(num_columns) if column not in pivots), None)
    if free is None:
        return independent, None
    direction = [Fraction(0)] * num_columns
    direction[free] = Fraction(1)
    for column, row in pivots.items():
        direction[column] = -row[free]
    return independent, direction


def _reduced(row: list[Fraction], pivots: dict[int, list[Fraction]]) -> list[Fraction]:
    """Returns the row after elimination with the reduced rows."""
    for column, pivot in pivots.items():
        if row[column]:
            factor = row[column]
            row = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return row


def _solved(rows: list[list[Fraction]], values: list[int]) -> list[Fraction]:
    """Returns the solution of a square system. Raises ValueError if it is not unique."""
    extended = [[*row, Fraction(value)] for row, value in zip(rows, values, strict=True)]
    size = len(rows)
    for column in range(size):
        found = next((row for row in range(column, size) if extended[row][column]), None)
        if found is None:
            raise ValueError(
                "code has examples that determine no vote: pass the book of the sender"
            )
        extended[column], extended[found] = extended[found], extended[column]
        lead = extended[column][column]
        extended[column] = [entry / lead for entry in extended[column]]
        for row in range(size):
            factor = extended[row][column]
            if row != column and factor:
                extended[row] = [
                    a - factor * b for a, b in zip(extended[row], extended[column], strict=True)
                ]
    return [row[-1] for row in extended]


def _products(rows: np.ndarray, numbers: Sequence[Fraction]) -> list[Fraction]:
    """Returns the exact products of rows of -1, 0 and +1 with numbers."""
    if not len(numbers):
        return [Fraction(0)] * len(rows)
    common = math.lcm(*(number.denominator for number in numbers))
    integers = np.array([int(number * common) for number in numbers], object)
    return [Fraction(int(total), common) for total in rows.astype(object) @ integers]


def _signs(rows: np.ndarray, coefficients: Sequence[Fraction]) -> np.ndarray:
    """Returns the predicted labels of a vote. A vote of 0 predicts -1."""
    return np.array([1 if total > 0 else -1 for total in _products(rows, coefficients)], int)


# --- the fields -----------------------------------------------------------------------------------


def _model_fields(
    book: CodeBook, places: Sequence[Place], vertex: _CodedVertex
) -> Iterator[tuple[int, int]]:
    """Yields the numbers of the model and the number of bits of each."""
    for table, index in places:
        yield table, bits_for(len(book.table_sizes))
        yield index, bits_for(book.table_sizes[table])
    row, support = bits_for(book.num_examples), len(places)
    pairs = list(zip(vertex.examples, vertex.positive, strict=True))
    positive = sorted(example for example, is_positive in pairs if is_positive)
    negative = sorted(example for example, is_positive in pairs if not is_positive)
    if not positive:
        negative.reverse()
    for example in (*positive, *negative):
        yield example, row
    # For a single hypothesis the output determines the sign, because the coefficient is positive.
    yield len(positive) % support if support else 0, row


def _values_of(examples: Sequence[int], num_positive: int, outputs: np.ndarray) -> list[int]:
    """Returns the values +1 or -1 of the vote on the examples of the message."""
    support = len(examples)
    if support == 1:
        return [int(outputs[examples[0], 0]) if examples[0] < len(outputs) else 1]
    if num_positive > max(support - 1, 0):
        raise ValueError(
            f"code has {num_positive} of {support} examples with a vote of +1: pass the code and"
            " the book of the sender"
        )
    if num_positive == 0 and list(examples) == sorted(examples):
        num_positive = support
    return [1] * num_positive + [-1] * (support - num_positive)


def _written(number: int, num_bits: int) -> list[bool]:
    """Returns the bits of a number, the most significant bit first."""
    return [bool(number >> bit & 1) for bit in reversed(range(num_bits))]


class _MessageReader:
    """Reads the numbers of a message one after another."""

    def __init__(self, bits: Any) -> None:
        self.bits, self.next = np.asarray(bits, bool), 0

    def read(self, num_bits: int) -> int:
        """Returns the next number. Raises ValueError at the end of the message."""
        taken = self.bits[self.next : self.next + num_bits]
        if len(taken) < num_bits:
            raise ValueError(
                f"code has {len(self.bits)} bits, fewer than its support and errors need: pass the"
                " code and the book of the sender"
            )
        self.next += num_bits
        return sum(int(bit) << shift for shift, bit in enumerate(reversed(taken.tolist())))

    def finish(self) -> None:
        """Raises ValueError if bits remain."""
        if self.next < len(self.bits):
            raise ValueError(
                f"code has {len(self.bits)} bits, and its support and errors need {self.next}: pass"
                " the code and the book of the sender"
            )


def _columns(book: CodeBook, places: Sequence[Place]) -> np.ndarray:
    """Returns the outputs of hypotheses, [M, s]."""
    columns = [_outputs(book, place) for place in places]
    return np.array(columns, int).reshape(len(places), book.num_examples).T


def _outputs(book: CodeBook, place: Place) -> np.ndarray:
    """Returns the outputs of a hypothesis. Raises ValueError if the place is not in the book."""
    table, index = place
    if not (0 <= table < len(book.table_sizes) and 0 <= index < book.table_sizes[table]):
        raise ValueError(
            f"place {place} is not in the book, whose tables have the sizes"
            f" {list(book.table_sizes)}: expected (table, index)"
        )
    return np.asarray(book.outputs(int(table), int(index)), int)


# --- monomials ------------------------------------------------------------------------------------


def _place(literals: np.ndarray, sign: int) -> Place:
    """Returns the table and the index of a monomial."""
    attributes = np.flatnonzero(literals).tolist()
    rank = sum(math.comb(attribute, index + 1) for index, attribute in enumerate(attributes))
    signs = sum(int(literals[attribute] > 0) << bit for bit, attribute in enumerate(attributes))
    order = len(attributes)
    return order, ((rank << order | signs) << 1) | int(sign > 0)


def _subset(rank: int, size: int, num_attributes: int) -> list[int]:
    """Returns the ascending attributes of the subset of this rank (combinatorial number system)."""
    chosen, highest = [], num_attributes - 1
    for count in range(size, 0, -1):
        while math.comb(highest, count) > rank:
            highest -= 1
        chosen.append(highest)
        rank -= math.comb(highest, count)
        highest -= 1
    return chosen[::-1]
