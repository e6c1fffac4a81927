"""Converts the columns of a table to bits, with the options --cuts, --quantiles, --missing and
--min-separation.

A binarizer is fitted to the training rows and applied to any rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jboost.base import memory
from jboost.cli.option import UNCUT
from jboost.cli.options import Settings
from jboost.data import binarization, cuts
from jboost.data.binarization import Binarizer
from jboost.data.frames import is_missing

ROWS_AT_ONCE = 1 << 16  # rows converted or scored at a time, which bounds the memory


def fit(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    names: Sequence[str],
    settings: Settings,
    *,
    source: str,
    copies: int,
) -> Binarizer:
    """Returns a binarizer for the training rows. None of its bits is constant on them.

    Args:
      rows: [m, n], the result of `jboost.data.table.Table.matrix`.
      labels: [m] -1 or +1.
      weights: [m], or None for ones.
      names: the names of the n columns.
      settings: all options.
      source: the name of the table, for messages.
      copies: the number of copies of all bits that a fit holds in memory, in the precision of the
        result.

    Raises:
      ValueError: if the bits would not fit into memory. The message contains an estimate.
    """
    bytes_each = len(rows) * (
        1 if settings.min_separation else copies * np.dtype(settings.precision).itemsize
    )
    require_memory(rows, labels, weights, settings, source, bytes_each)
    return binarizer_of(rows, labels, weights, names, settings)


def binarizer_of(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    names: Sequence[str],
    settings: Settings,
    *,
    mask: np.ndarray | None = None,
) -> Binarizer:
    """Returns the binarizer for the rows where `mask` [m] is True."""
    with jax.enable_x64(settings.precision == "float64"):
        return binarization.fit(
            rows,
            labels,
            weights=weights,
            mask=mask,
            names=names,
            cuts=settings.cuts,
            num_quantiles=settings.quantiles,
            missing=settings.missing,
            min_separation=settings.min_separation,
        )


def refuse_none(binarizer: Binarizer, source: str) -> None:
    """Raises ValueError if there are no bits."""
    if binarizer.num_bits == 0:
        raise ValueError(
            f"{source}: no column takes two values on the training rows: provide columns that vary"
        )


def require_memory(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    settings: Settings,
    source: str,
    bytes_each: int,
) -> None:
    """Raises ValueError if the bits exceed the available memory. One bit of all rows takes
    `bytes_each` bytes.

    The message contains an estimate and suggests options that fit.
    """
    available = memory.of_device()
    numbers, texts = _columns(rows)
    cut = numbers if settings.cuts != UNCUT else []
    num_categories = sum(len(set(text)) for text in texts)
    # Each cut lies between two values, so the number of values bounds the number of cuts. This
    # check avoids the computation of the cuts in most cases.
    if (num_categories + sum(len(np.unique(values)) for values in cut)) * bytes_each <= available:
        return
    num_cuts = 0
    for values in cut:
        known = ~np.isnan(values)
        sizes = None if weights is None else weights[known]
        num_cuts += len(
            cuts.cut_points(
                values[known],
                labels[known],
                weights=sizes,
                rule=settings.cuts,
                num_quantiles=settings.quantiles,
            )
        )
    num_bits = num_categories + num_cuts
    if num_bits * bytes_each > available:
        fits = (available // bytes_each - num_categories) // max(len(cut), 1)
        how = (
            f"--cuts quantiles with --quantiles {fits} or fewer"
            if fits > 1
            else "fewer rows, or --ignore for columns of many categories"
        )
        need, have = (f"{size / 1e9:,.1f} GB" for size in (num_bits * bytes_each, available))
        size = f"{num_bits:,} Boolean conditions on {len(rows):,} rows"
        raise ValueError(f"{source}: {size} take about {need}, and there are {have}: use {how}")


def has_missing(rows: np.ndarray) -> bool:
    """Whether a value of the rows [m, n] is missing."""
    if rows.dtype != object:
        return bool(np.isnan(rows).any())
    return any(is_missing(value) for value in rows.flat)


def _columns(rows: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the columns of numbers, with NaN for missing values, and the columns of text."""
    if rows.dtype != object:
        return list(rows.T), []
    texts = [column for column in rows.T if any(isinstance(value, str) for value in column)]
    others = [column for column in rows.T if not any(isinstance(value, str) for value in column)]
    return [
        np.array([np.nan if is_missing(value) else value for value in column], np.float64)
        for column in others
    ], texts


def apply(
    binarizer: Binarizer, rows: np.ndarray, precision: str, *, width: int | None = None
) -> np.ndarray:
    """Returns the bits [m, N] of rows [m, n], or [m, width] padded with columns of 0.

    The type is uint8. If a missing value satisfies neither a bit nor its negation, the type is the
    float type of the precision, and the entry is NaN.
    """
    with jax.enable_x64(precision == "float64"):
        numbers = binarization.encode(binarizer, rows)
        parts = [
            _as_bytes(np.asarray(binarization.apply(binarizer, numbers[part])), precision)
            for part in parts_of(len(rows))
        ]
    bits = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return bits if width is None else widened(bits, width)


def _as_bytes(bits: np.ndarray, precision: str) -> np.ndarray:
    return bits.astype(precision) if np.isnan(bits).any() else bits.astype(np.uint8)


def parts_of(num_rows: int) -> list[slice]:
    """Returns slices of at most `ROWS_AT_ONCE` rows that cover all rows; at least one slice."""
    return [
        slice(begin, begin + ROWS_AT_ONCE) for begin in range(0, max(num_rows, 1), ROWS_AT_ONCE)
    ]


def widened(bits: np.ndarray, width: int) -> np.ndarray:
    """Returns bits [..., N] padded with columns of 0 to [..., width]."""
    return np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, width - bits.shape[-1])])
