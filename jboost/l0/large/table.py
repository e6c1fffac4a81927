"""The data of a fit: the rows that count and all monomials over them, checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jboost.base import check, example_values, memory
from jboost.base.types import Dataset
from jboost.l0.large import sizes
from jboost.l0.large.proof import MonomialTable
from jboost.learners.monomials import Monomials
from jboost.monomials import products

MOST_MONOMIALS = 4_000_000  # the most monomials of one sign, since all values are held at once
# The least and the largest total of the weights: the duals are in float32, in units of the mean.
_LEAST_TOTAL, _LARGEST_TOTAL = 1e-30, 1e30
# The numbers of such arrays that a fit holds at a time, to estimate its memory.
_ARRAYS_OF_ROWS, _COPIES_OF_MASTER, _ARRAYS_OF_MONOMIALS = 24, 4, 6


def _at_once(compute: Callable[[], Any]) -> Any:
    return compute()


def make_table(
    dataset: Dataset,
    learner: Monomials,
    margin: float,
    *,
    in_time: Callable[[Callable[[], Any]], Any] = _at_once,
) -> tuple[MonomialTable, np.ndarray]:
    """All monomials over the rows that count, and the indices of these rows. Raises ValueError for
    values that are not allowed.

    Args:
      dataset: of all rows.
      learner: with its costs, which are compiled.
      margin: rho.
      in_time: returns the result of a computation, or None if a time limit came first. Then the
        table has no monomials.
    """
    check.on_host("jboost.l0.fit_large", instead="jboost.l0.fit may be traced", dataset=dataset)
    features, labels, weights = (np.asarray(part) for part in dataset[:3])
    is_kept = np.asarray(dataset.mask) & (weights != 0)
    _check_values(features, labels, weights, is_kept)
    rows = _mixed(np.flatnonzero(is_kept), labels)
    max_order = learner.max_order or 1
    check_size(len(rows), features.shape[1], max_order)
    literals = products.literals_of(features[rows])
    constant_cost = float(np.asarray(learner.constant_cost))

    def list_monomials(prices: np.ndarray) -> products.ListedMonomials:
        costs_rise = bool(np.all(np.diff([constant_cost, *prices]) >= 0))
        return products.every_monomial(literals, max_order, keeps_redundant=not costs_rise)

    prices = in_time(
        lambda: np.asarray(learner.price_list(features.shape[1], len(rows)), np.float64)
    )
    listed = None if prices is None else in_time(lambda: list_monomials(prices))
    if listed is None:
        listed, prices = products.no_monomials(), np.zeros(max_order)
    table = MonomialTable(
        literals,
        listed,
        prices[listed.orders - 1],
        np.sign(labels[rows]).astype(np.int8),
        weights[rows].astype(np.float64),
        margin,
        constant_cost,
    )
    return table, rows


def check_size(num_rows: int, num_bits: int, max_order: int) -> None:
    """Raises ValueError if so many rows and bits are too large for a fit of this order."""
    _check_number(num_bits, max_order)
    _check_memory(num_rows, num_bits, max_order)


def num_monomials(num_bits: int, max_order: int) -> int:
    """The number of monomials of up to `max_order` literals of one sign."""
    return products.num_monomials(2 * num_bits, max_order)


def _check_number(num_bits: int, max_order: int) -> None:
    """Raises ValueError if there are too many monomials to hold all their values."""
    number = num_monomials(num_bits, max_order)
    if number > MOST_MONOMIALS:
        raise ValueError(
            f"dataset has {num_bits} bits, and there are {number:,} monomials of up to"
            f" {max_order} literals, above {MOST_MONOMIALS:,}: lower max_order, or make fewer bits"
            " (coarser cuts, min_separation of jboost.data.binarization.fit)"
        )


def num_bytes(num_rows: int, num_bits: int, max_order: int) -> int:
    """An estimate of the bytes that a fit holds at its peak.

    Bits as bytes twice, the columns of the pool, the master of all rows with its least columns,
    products of literals, and a dozen numbers for each monomial and sign.
    """
    rows = num_rows * (2 * num_bits + sizes.LEAST_COLUMNS + 8 * _ARRAYS_OF_ROWS)
    master = 4 * _COPIES_OF_MASTER * max(sizes.ENTRIES, num_rows * sizes.LEAST_COLUMNS)
    monomials = 2 * 8 * _ARRAYS_OF_MONOMIALS * num_monomials(num_bits, max_order)
    return rows + master + monomials


def _check_memory(num_rows: int, num_bits: int, max_order: int) -> None:
    """Raises ValueError if a fit would take more memory than there is, with a size that fits."""
    needed, most = num_bytes(num_rows, num_bits, max_order), memory.of_device()
    if needed > most:
        raise ValueError(
            f"dataset has {num_rows:,} rows of {num_bits:,} bits: a fit takes about {needed:,}"
            f" bytes, and there are {most:,}; make fewer bits (coarser cuts), use monomials of"
            f" fewer literals, or about {int(num_rows * most / needed):,} of the rows"
        )


def _mixed(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rows [r] in an order in which any first part has both classes in proportion. If there are
    many rows, the order within each class is random.
    """
    if len(rows) <= 2 * sizes.FIRST_ROWS:
        return rows
    keys = np.empty(len(rows))
    shuffled = np.random.default_rng(0).permutation(len(rows))
    for sign in (1, -1):
        indices = shuffled[labels[rows][shuffled] == sign]
        keys[indices] = (np.arange(len(indices)) + 0.5) / max(len(indices), 1)
    return rows[np.argsort(keys, kind="stable")]


def _check_values(
    features: np.ndarray, labels: np.ndarray, weights: np.ndarray, is_kept: np.ndarray
) -> None:
    if not is_kept.any():
        raise ValueError(
            "dataset has no examples that count: pass one at least with mask True and weight"
            " above 0"
        )
    bad = is_kept & ~((weights > 0) & (weights < np.inf))
    for row in np.flatnonzero(bad)[:1]:
        raise ValueError(f"weights[{row}] is {weights[row]}: expected a finite number from 0 up")
    total = float(np.sum(weights, where=is_kept, dtype=np.float64))
    if not _LEAST_TOTAL <= total <= _LARGEST_TOTAL:
        raise ValueError(
            f"weights sum to {total:g}: expected {_LEAST_TOTAL:g} to {_LARGEST_TOTAL:g}; multiply"
            " weights and the costs of the learner by one number"
        )
    example_values.require_labels(labels, is_kept)
    for column in range(features.shape[1]):
        values = features[:, column]
        wrong = is_kept & (values != 0) & (values != 1)
        if values.dtype.kind == "f":
            wrong &= ~np.isnan(values)
        for row in np.flatnonzero(wrong)[:1]:
            raise ValueError(
                f"features[{row}, {column}] is {values[row]:g}: expected 0, 1 or NaN;"
                " jboost.data.binarization makes such attributes"
            )
