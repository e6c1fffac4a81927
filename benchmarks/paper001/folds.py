"""Binarization is fitted on the training rows of each fold, and of each inner fold anew.

The folds of a replication share one shape, hence one compilation: rows that are held out are
masked, attributes that a fold lacks are columns of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import jboost
from jboost.data import binarization, merging

_STEP = 16  # sizes are multiples, so that replications share what is compiled


class Inner(NamedTuple):
    """Folds inside the training rows, for choosing."""

    held_out: np.ndarray  # [F, m] bool
    features: np.ndarray  # [F, m, N'] of 0 and 1, by the training rows that each leaves, padded


class Prepared(NamedTuple):
    """One fold, in the shape of all folds."""

    features: np.ndarray  # [m, N] of 0 and 1, padded
    numbers: np.ndarray  # [m, n] the table without binarization, the same in all folds
    training: np.ndarray  # [m] bool
    num_attributes: int
    num_rows: int  # of training rows that some bit tells apart, at most
    inner: Inner | None  # where the settings have inner folds
    key: Any  # for all that is drawn on this fold


class _Bits(NamedTuple):
    """One fold before it is padded."""

    training: np.ndarray
    bits: np.ndarray  # [m, n]
    held_out: np.ndarray  # [F, m]
    inner: list[np.ndarray]  # [m, n'] each


def prepare(
    table: np.ndarray, labels: np.ndarray, names: Sequence[str], settings: dict[str, Any]
) -> Iterator[tuple[int, int, Prepared]]:
    """All folds, binarized by their training rows: replication, fold, and what is to be learnt
    from. One width and one number of rows for all.
    """
    width = inner_width = num_rows = 0
    numbers = numbers_of(table)
    for replication in range(settings["replications"]):
        keys = [
            jax.random.key(replication * settings["folds"] + fold)
            for fold in range(settings["folds"])
        ]
        held_out = folds_of(labels, replication, settings["folds"])
        parts = [
            _bits_of(table, labels, names, ~rows, key, settings)
            for rows, key in zip(held_out, keys, strict=True)
        ]
        # one that pads at least: AdaBoost always has its constant
        width = max(width, _rounded_up(1 + max(part.bits.shape[1] for part in parts)))
        inner_width = max(
            [inner_width, *(_rounded_up(bits.shape[1]) for part in parts for bits in part.inner)]
        )
        num_rows = max(
            num_rows,
            min(len(labels), _rounded_up(max(_num_distinct(part, labels) for part in parts))),
        )
        for fold, (part, key) in enumerate(zip(parts, keys, strict=True)):
            inner = (
                Inner(part.held_out, np.stack([_padded(bits, inner_width) for bits in part.inner]))
                if part.inner
                else None
            )
            yield (
                replication,
                fold,
                Prepared(
                    _padded(part.bits, width),
                    numbers,
                    part.training,
                    part.bits.shape[1],
                    num_rows,
                    inner,
                    key,
                ),
            )


def alike(parts: Sequence[Prepared]) -> list[Prepared]:
    """Folds in one shape, that of the last: later replications may have more bits and rows."""
    last = parts[-1]
    widths = last.features.shape[1], 0 if last.inner is None else last.inner.features.shape[2]
    return [
        part._replace(
            features=_padded(part.features, widths[0]),
            num_rows=last.num_rows,
            inner=part.inner
            and part.inner._replace(
                features=np.stack([_padded(bits, widths[1]) for bits in part.inner.features])
            ),
        )
        for part in parts
    ]


def numbers_of(table: np.ndarray) -> np.ndarray:
    """The numbers of a table, [m, n] float32, NaN where unknown; a column of text becomes one
    column of 0 and 1 for each of its values.
    """
    columns = []
    for column in np.asarray(table).T:
        is_text = np.array([isinstance(value, str) for value in column])
        if not is_text.any():
            columns.append(column.astype(np.float32))
            continue
        for value in sorted(set(column[is_text])):
            columns.append(np.where(is_text, column == value, np.nan).astype(np.float32))
    return np.stack(columns, axis=1)


def folds_of(labels: np.ndarray, replication: int, num_folds: int) -> np.ndarray:
    """Which examples each fold holds out, [num_folds, m] bool, stratified."""
    return np.asarray(
        jboost.folds.stratified_folds(jax.random.key(replication), labels, num_folds=num_folds)
    )


def _bits_of(
    table: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    training: np.ndarray,
    key: Any,
    settings: dict[str, Any],
) -> _Bits:
    def binarize(rows: np.ndarray) -> np.ndarray:
        binarizer = binarization.fit(
            table,
            labels,
            mask=rows,
            names=names,
            cuts=settings["cuts"],
            missing="literal",
            min_separation=settings.get("min_separation"),
        )
        return np.nan_to_num(np.asarray(binarization.apply(binarizer, table)), nan=0.0).astype(
            np.float32
        )

    held_out = np.zeros((0, len(labels)), bool)
    if "inner_folds" in settings:
        held_out = np.asarray(
            jboost.folds.stratified_folds(
                key, labels, num_folds=settings["inner_folds"], mask=training
            )
        )
    return _Bits(
        training, binarize(training), held_out, [binarize(training & ~rows) for rows in held_out]
    )


def _num_distinct(part: _Bits, labels: np.ndarray) -> int:
    bits = np.concatenate([part.bits, *part.inner], axis=1)
    return int(
        merging.merge_equal(
            jboost.make_dataset(bits, labels, mask=part.training)
        ).dataset.mask.sum()
    )


def _rounded_up(size: int) -> int:
    return _STEP * -(-size // _STEP)


def _padded(bits: np.ndarray, width: int) -> np.ndarray:
    return np.pad(bits, ((0, 0), (0, width - bits.shape[1])))
