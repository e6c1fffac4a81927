"""The description length of a vote and of the labels that it leaves wrong, and the risk bound that
follows: (5) to (8) of Goldberg and Eckstein (2009).

Their ||lambda||_0 is `support`, K `num_tables`, |U_k(u)| `table_sizes`, M `num_examples`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jboost.base import check


class CodeLength(NamedTuple):
    """The bits of a two-part code of the labels, by host integers."""

    support: int  # hypotheses that vote
    model: int  # (6)
    linear_bound: int  # (7), at least `model`, linear in the support
    uniform_bound: int  # (8), at least (7), which takes the largest table for all hypotheses
    errors: int  # ceil(log2 M) for each example that the vote gets wrong
    total: int  # model + errors


def code_length(
    table_sizes: Sequence[int], *, num_tables: int, num_examples: int, num_errors: int
) -> CodeLength:
    """The length in bits of the labels, encoded by a vote and its errors.

        model = s ceil(log2 K) + sum_u ceil(log2 |U_k(u)|) + (s + 1) ceil(log2 M)        (6)
             <= s (ceil(log2 K) + 2 ceil(log2 M)) + sum_u ceil(log2 |U_k(u)|)            (7)
             <= s (ceil(log2 K) + 2 ceil(log2 M) + max_u ceil(log2 |U_k(u)|))            (8)

    `jboost.l0.encode_labels` writes the labels in that many bits. The number s of hypotheses and
    the number of errors are not counted, as in the paper.

    Args:
      table_sizes: the number of hypotheses in the table of each of the s hypotheses that vote.
        Monomials of k of N attributes with a class are 2^(k + 1) C(N, k).
      num_tables: K, at least 1.
      num_examples: M, at least 1.
      num_errors: examples with y g(x) <= 0, from 0 to M.

    Returns:
      A `CodeLength`. Without hypotheses (7) and (8) do not hold, and their fields are that of (6).

    Raises:
      ValueError: for a number that is no integer or out of its range.

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
    """ceil(log2 count), the bits of a number below count, exact for any integer."""
    return (int(count) - 1).bit_length()


def risk_bound(num_bits: float, num_examples: int, *, delta: float = 0.05) -> float:
    """With probability 1 - delta the error on as many new examples is at most code length / M +
    ln(1 / delta) / M; above 1 it says nothing.

    Args:
      num_bits: the length of a code that could encode the labels of the new examples too, such as
        `CodeLength.total`.
      num_examples: M, at least 1.
      delta: in (0, 1].

    Raises:
      ValueError: for a number out of its range.

    Source: Goldberg and Eckstein (2009), (5), where ln(delta) is printed; Blum and Langford (2003).

    >>> round(risk_bound(59, 100), 4)
    0.62
    """
    check.on_host(
        "risk_bound", instead="its arguments are Python numbers", num_bits=num_bits, delta=delta
    )
    check.number("num_bits", num_bits, low=0)
    check.count("num_examples", num_examples, low=1)
    check.number("delta", delta, low=0, high=1, open_low=True)
    return (float(np.asarray(num_bits)) - math.log(float(np.asarray(delta)))) / num_examples
