"""Columns of a table as bits, by the options --cuts, --quantiles, --missing and --min-separation: fitted on training rows, applied to any."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jboost.cli.options import Settings
from jboost.data import binarization
from jboost.data.binarization import Binarizer


def fit(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, names: Sequence[str], settings: Settings) -> Binarizer:
    """The bits that training rows call for, none of them constant there.

    Args:
      rows: [m, n] of `jboost.data.table.Table.matrix`.
      labels: [m] -1 or +1.
      weights: [m], or None for ones.
      names: of the n columns.
      settings: all options.
    """
    with jax.enable_x64(settings.precision == "float64"):
        return binarization.fit(
            rows,
            labels,
            weights=weights,
            names=names,
            cuts=settings.cuts,
            num_quantiles=settings.quantiles,
            missing=settings.missing,
            min_separation=settings.min_separation,
        )


def apply(binarizer: Binarizer, rows: np.ndarray, precision: str) -> np.ndarray:
    """The bits [m, N] of rows [m, n]: 0, 1, or NaN where a missing value meets neither a bit nor its negation."""
    with jax.enable_x64(precision == "float64"):
        return np.asarray(binarization.apply(binarizer, rows)).astype(precision)


def widened(bits: np.ndarray, width: int) -> np.ndarray:
    """Bits [m, N] with columns of 0 after them, `width` in all."""
    return np.pad(bits, ((0, 0), (0, width - bits.shape[1])))
