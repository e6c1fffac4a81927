"""The description length of a vote and of its errors, and the resulting risk bound.

The formulas are (5) to (8) of Goldberg and Eckstein (2009). In their notation `support` is
||lambda||_0, `num_tables` K, `table_sizes` |U_k(u)| and `num_examples` M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from jboost.base import check


class CodeLength(NamedTuple):
    """The number of bits of a two-part code of the labels, as Python integers."""

    support: int  # s, the number of hypotheses that vote
    model: int  # (6)
    linear_bound: int  # (7), at least `model`, linear in the support
    uniform_bound: int  # (8), at least (7), with the size of the largest table for all hypotheses
    errors: int  # ceil(log2 M) for each misclassified example
    total: int  # model + errors


def code_length(
    table_sizes: Sequence[int], *, num_tables: int, num_examples: int, num_errors: int
) -> CodeLength:
    """Returns the number of bits of the labels, encoded as a vote and its errors.

        model = s ceil(log2 K) + sum_u ceil(log2 |U_k(u)|) + (s + 1) ceil(log2 M)        (6)
             <= s (ceil(log2 K) + 2 ceil(log2 M)) + sum_u ceil(log2 |U_k(u)|)            (7)
             <= s (ceil(log2 K) + 2 ceil(log2 M) + max_u ceil(log2 |U_k(u)|))            (8)

    `jboost.l0.encode_labels` attains this length. As in the paper, the bits of the number s of
    hypotheses and of the number of errors are not counted.

    Args:
      table_sizes: the number of hypotheses in the table of each of the s hypotheses that vote.
        The table of monomials of k of N attributes with a class has 2^(k + 1) C(N, k).
      num_tables: K, at least 1.
      num_examples: M, at least 1.
      num_errors: the number of examples with y g(x) <= 0, from 0 to M.

    Returns:
      A `CodeLength`. If there are no hypotheses, (7) and (8) do not hold, and both fields are equal
      to (6).

    Raises:
      ValueError: if a number is not an integer or is out of its range.

    >>> code_length([16, 112], num_tables=3, num_examples=100, num_errors=3).total
    57
    """
    for name, value, low in (
        ("num_tables", num_tables, 1),
        ("num_examples", num_examples, 1),
        ("num_errors", num_errors, 0),
    ):
        check.count(name, value, low=low)
    if num_errors > num_examples:
        raise ValueError(
            f"num_errors is {num_errors}, and num_examples is {num_examples}: expected at most one"
            " error for each example"
        )
    for index, size in enumerate(table_sizes):
        check.count(f"table_sizes[{index}]", size, low=1)
    indices = [bits_for(size) for size in table_sizes]
    support, table, row = len(indices), bits_for(num_tables), bits_for(num_examples)
    model = support * table + sum(indices) + (support + 1) * row
    linear, uniform = (
        support * (table + 2 * row) + rest
        for rest in (sum(indices), support * max(indices, default=0))
    )
    if support == 0:
        linear = uniform = model
    return CodeLength(support, model, linear, uniform, num_errors * row, model + num_errors * row)


def bits_for(count: int) -> int:
    """Returns ceil(log2 count), the bits of a number below `count`, exact for any integer."""
    return (int(count) - 1).bit_length()


def risk_bound(num_bits: float, num_examples: int, *, delta: float = 0.05) -> float:
    """Returns an upper bound on the error on M new examples.

    The bound is code length / M + ln(1 / delta) / M. It holds with probability 1 - delta. A bound
    of 1 or more is vacuous.

    Args:
      num_bits: the length of a code that can encode the labels of the new examples as well, such
        as `CodeLength.total`.
      num_examples: M, at least 1.
      delta: in (0, 1].

    Raises:
      ValueError: if a number is out of its range.

    Source: Goldberg and Eckstein (2009), (5), with ln(1 / delta) instead of the printed ln(delta);
    Blum and Langford (2003).

    >>> round(risk_bound(59, 100), 4)
    0.62
    """
    bits = check.host_number("risk_bound", "num_bits", num_bits, low=0)
    check.count("num_examples", num_examples, low=1)
    confidence = check.host_number("risk_bound", "delta", delta, low=0, high=1, open_low=True)
    return (bits - math.log(confidence)) / num_examples
