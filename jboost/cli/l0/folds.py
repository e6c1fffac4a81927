"""The bits of the rows for `--method l0`, and the folds on which numbers are chosen, each with its
own bits.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from jboost.cli import bits as bit_module
from jboost.cli import inputs
from jboost.cli.l0 import large as l0_large
from jboost.cli.l0.candidates import num_choices
from jboost.cli.option import CV
from jboost.cli.options import Settings
from jboost.data.binarization import Binarizer
from jboost.data.table import Table

# Copies of all bits that are in memory at a time while equal rows are merged, measured at 30,000
# rows of 1,600 bits: the rows as words, their sorted copy, and the distinct rows. Bits are bytes.
_COPIES_OF_MERGING = 5
_COPIES_OF_FOLD = 2  # of the bits of a fold for the choice: one alone, and one beside the others
_MOST_LITERALS = 3  # largest order that --max-order cv considers
_STREAM = 3  # random stream of the folds for the choice; `evaluate` uses another one


def read_rows(table: Table, numeric: tuple[str, ...], categorical: tuple[str, ...]) -> np.ndarray:
    """Returns the named columns as one array [m, n] for a binarizer."""
    return table.matrix(numeric, categorical)


def binarize(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    names: tuple[str, ...],
    settings: Settings,
    source: str,
    *,
    num_tables: int = 1,
    is_path: bool = False,
) -> Binarizer:
    """Fits the binarizer to the training rows.

    Args:
      rows: [m, n] the training rows.
      labels: [m] -1 or +1.
      weights: [m] or None.
      names: of the n columns.
      settings: all options.
      source: the name of the table, for messages.
      num_tables: the number of such tables whose bits are in memory at the same time.
      is_path: whether several margins are a path, for which there are no folds.

    Raises:
      ValueError: if there are no bits, or fewer bits than literals allowed in a rule, or if the
        bits would not fit into memory. The message contains an estimate.
    """
    num_folds = settings.folds if num_choices(settings) > 1 and not is_path else 0
    bytes_each = _bytes_each(rows, settings, num_tables, num_folds)
    bit_module.require_memory(rows, labels, weights, settings, source, bytes_each)
    binarizer = bit_module.binarizer_of(rows, labels, weights, names, settings)
    bit_module.refuse_none(binarizer, source)
    if settings.max_order != CV and settings.max_order > binarizer.num_bits:
        most = binarizer.num_bits
        raise ValueError(
            f"max_order is {settings.max_order}, and the columns of {source} give {most} bits:"
            f" choose --max-order {most} or less"
        )
    return binarizer


def _bytes_each(rows: np.ndarray, settings: Settings, num_tables: int, num_folds: int) -> int:
    """Returns the bytes that one bit of all rows takes at the peak.

    That is where bits are made, in the precision of the settings for a part of the rows at a time,
    or where equal rows are merged, with the bits of all folds side by side unless the order or the
    number of rules is chosen. The fit itself refuses what does not fit after the merging.
    """
    num_rows, itemsize = len(rows), np.dtype(settings.precision).itemsize
    if settings.min_separation:
        return num_rows
    size = itemsize if settings.missing == "none" and bit_module.has_missing(rows) else 1
    held = num_tables * (1 + _COPIES_OF_FOLD * num_folds) * size * num_rows
    side_by_side = 1 if l0_large.chooses_size(settings) else 1 + num_folds
    merging = _COPIES_OF_MERGING * side_by_side * size * num_rows
    making = (itemsize + 1) * min(num_rows, bit_module.ROWS_AT_ONCE)
    return held + max(merging, making)


@dataclasses.dataclass(frozen=True)
class Inner:
    """The folds for the choice of kappa, margin and vote.

    Each fold has its own bits, which are fitted to the training rows of the fold.
    """

    held_out: np.ndarray  # [F, m] bool, within the training rows
    bits: np.ndarray  # [F, m, N'], padded with columns of 0

    def widened(self, width: int) -> Inner:
        """Returns the folds with padding columns, so that there are `width` columns."""
        return Inner(self.held_out, bit_module.widened(self.bits, width))

    def side_by_side(self) -> np.ndarray:
        """Returns the bits of all folds, [m, F N']."""
        return np.concatenate(list(self.bits), axis=1)

    def have_gaps(self, chosen: np.ndarray) -> bool:
        """Whether the bits of the training rows of any fold contain NaN."""
        return bool((np.isnan(self.bits).any(axis=2) & chosen & ~self.held_out).any())


def choosing_folds(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    names: tuple[str, ...],
    settings: Settings,
) -> Inner | None:
    """Returns stratified folds of the rows where `chosen` [m] is True, each with its own bits.

    The result is None if there is only one candidate.
    """
    if num_choices(settings) == 1:
        return None
    held_out = np.zeros((settings.folds, len(labels)), bool)
    held_out[:, chosen] = inputs.hold_out_masks(labels[chosen], settings, stream=_STREAM)
    binarizers = [
        bit_module.binarizer_of(rows, labels, weights, names, settings, mask=chosen & ~fold)
        for fold in held_out
    ]
    width = max(
        common_width(binarizers), _MOST_LITERALS if settings.max_order == CV else settings.max_order
    )
    return Inner(
        held_out,
        np.stack(
            [bit_module.apply(one, rows, settings.precision, width=width) for one in binarizers]
        ),
    )


def common_width(binarizers: list[Binarizer]) -> int:
    """Returns the largest number of bits of the binarizers."""
    return max(one.num_bits for one in binarizers)
