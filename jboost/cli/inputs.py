"""Reads the data, splits the rows, and computes the scores of base classifiers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from jboost.base import folds, types
from jboost.cli import devices
from jboost.cli.option import BOOSTERS, L0, SLIPPER, UNCUT
from jboost.cli.options import EMBEDDED, Settings
from jboost.cli.reading import make_reading
from jboost.data import classifiers, embedded, readers
from jboost.data.classifiers import BaseFit
from jboost.data.table import Table

_LARGEST_SCORE = 4e307  # differences of smaller scores are finite in float64


@dataclasses.dataclass(frozen=True)
class HostExamples:
    """Examples on the host, in the precision of the settings."""

    points: np.ndarray  # [n, 2] scores, or [n, N] features
    labels: np.ndarray  # [n]
    weights: np.ndarray  # [n]

    def padded(self, num_rows: int, num_columns: int | None = None) -> HostExamples:
        """Returns the examples padded with rows and with columns of zeros.

        The padding rows have label and weight 1. The caller must mask them out.
        """
        rows = num_rows - len(self.labels)
        columns = 0 if num_columns is None else num_columns - self.points.shape[1]
        labels, weights = (
            np.pad(part, (0, rows), constant_values=1) for part in (self.labels, self.weights)
        )
        return HostExamples(np.pad(self.points, ((0, rows), (0, columns))), labels, weights)

    def in_float64(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns points, labels and weights in float64, for sums on the host."""
        return (
            self.points.astype(np.float64),
            self.labels.astype(np.float64),
            self.weights.astype(np.float64),
        )


@dataclasses.dataclass(frozen=True)
class Source:
    """A table with labels, and the weights of its rows."""

    table: Table  # without the column of the weights
    weights: np.ndarray | None  # [m]
    device: str  # the platform of the computation

    def rows(self, chosen: np.ndarray) -> Source:
        weights = None if self.weights is None else self.weights[chosen]
        return Source(self.table.rows(chosen), weights, self.device)


def read_source(settings: Settings) -> Source:
    """Reads the data, checks the named columns, and chooses the device.

    Raises:
      ValueError: if an option or the data are invalid.
    """
    if settings.data.startswith(EMBEDDED):
        table = embedded.load_table(settings.data.removeprefix(EMBEDDED))
    else:
        columns = (
            None
            if settings.scores is None
            else [*settings.scores, *([settings.weights] if settings.weights else [])]
        )
        reading = make_reading(dataclasses.asdict(settings))
        table = readers.read_table(
            settings.data,
            label=settings.label,
            reading=reading,
            columns=columns,
            no_features=[
                *(settings.scores or ()),
                *([settings.weights] if settings.weights else []),
            ],
        )
    for name in settings.scores or ():
        table.numbers(name)
    device = devices.choose(settings.device, table.num_rows, _num_features(table, settings))
    if settings.weights is None:
        return Source(table, None, device)
    weights = table.weights(settings.weights)
    source = Source(table.without([settings.weights]), weights, device)
    return source if weights.all() else _without_idle_rows(source, settings.weights)


def _num_features(table: Table, settings: Settings) -> int:
    """An estimate of the number of features of a fit: the columns, or where these are cut into bits
    about --quantiles for each.
    """
    takes_bits = settings.method in (L0, SLIPPER, *BOOSTERS) and settings.cuts != UNCUT
    return len(table.columns) * (settings.quantiles if takes_bits else 1)


def _without_idle_rows(source: Source, name: str) -> Source:
    """Returns the rows of positive weight. Raises ValueError if they are all of one class."""
    assert source.weights is not None
    counts = source.weights > 0
    note = f"rows left out whose weight '{name}' is 0: {int((~counts).sum())}"
    kept = source.rows(counts)
    assert kept.table.labels is not None
    if len(np.unique(kept.table.labels)) < 2:
        raise ValueError(
            f"{source.table.source}: the rows whose weight '{name}' is above 0 are of one class:"
            " give rows of both"
        )
    return dataclasses.replace(
        kept, table=dataclasses.replace(kept.table, notes=(*kept.table.notes, note))
    )


def split_rows(
    labels: np.ndarray, fraction: float, seed: int, *, option: str = "holdout"
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of the training rows and of the held-out rows, stratified by class.

    Raises:
      ValueError: if one of the two parts would have no rows of a class. The message names `option`.
    """
    generator = np.random.default_rng(seed)
    kept, held_out = [], []
    for sign in (-1, 1):
        rows = generator.permutation(np.flatnonzero(labels == sign))
        count = round(fraction * len(rows))
        if fraction and not 0 < count < len(rows):
            raise ValueError(
                f"{option} is {fraction:g}: of the {len(rows)} rows of class {sign:+d} it would"
                f" hold out {count}: choose another fraction"
            )
        held_out.append(rows[:count])
        kept.append(rows[count:])
    return np.sort(np.concatenate(kept)), np.sort(np.concatenate(held_out))


def hold_out_masks(labels: np.ndarray, settings: Settings, *, stream: int = 0) -> list[np.ndarray]:
    """Returns stratified folds as masks [m] that are True for held-out rows.

    Different values of `stream` give different random folds. Raises ValueError like `check_folds`.
    """
    check_folds(labels, settings)
    key = jax.random.fold_in(jax.random.key(settings.seed), stream)
    return list(
        np.asarray(folds.stratified_folds(key, labels.astype(np.float32), num_folds=settings.folds))
    )


def check_folds(labels: np.ndarray, settings: Settings) -> None:
    """Raises ValueError if the minority class has fewer rows than there are folds."""
    smaller = int(min((labels > 0).sum(), (labels < 0).sum()))
    if smaller < settings.folds:
        if smaller < 2:
            raise ValueError(
                "the smaller class has 1 row, too few for cross-validation: give more rows"
            )
        raise ValueError(
            f"folds is {settings.folds}, but the smaller class has {smaller} rows to spread over"
            f" them: choose --folds {smaller} or fewer"
        )


def score_training_rows(source: Source, settings: Settings) -> tuple[HostExamples, BaseFit | None]:
    """Returns the scores for the fit of the combination, and the base classifiers.

    The base classifiers are None if the scores are columns of the table.
    """
    table = source.table
    assert table.labels is not None
    if settings.scores:
        return cast_examples(_columns(table, settings.scores), source, settings), None
    assert settings.classifiers is not None
    masks = hold_out_masks(table.labels, settings) if settings.train_scores == "out-of-fold" else ()
    base = classifiers.fit_base(
        table,
        settings.classifiers,
        seed=settings.seed,
        folds=masks,
        scores="out-of-fold" if masks else "in-sample",
    )
    return cast_examples(base.scores, source, settings), base


def score_other_rows(source: Source, settings: Settings, base: BaseFit | None) -> HostExamples:
    """Returns the scores of rows that were not used for training."""
    return cast_examples(score_rows(source.table, settings.scores, base), source, settings)


def exported_columns(
    names: Sequence[str], columns: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the columns that an exported combination reads, and notes for the user.

    If the scores come from trained classifiers, the columns are those that `jboost predict` writes,
    and there is a note.
    """
    if columns is not None:
        return tuple(columns), ()
    scores = tuple(f"score_{name}" for name in names)
    note = f"the export contains only the combination: its inputs are {', '.join(scores)}"
    return scores, (f"{note}, columns of jboost predict",)


def score_rows(table: Table, columns: Sequence[str] | None, base: BaseFit | None) -> np.ndarray:
    """Returns the float64 scores [k, d] of trained classifiers, or from score columns."""
    if base is not None:
        return base.predict_scores(table)
    assert columns is not None
    return _columns(table, columns)


def _columns(table: Table, names: Sequence[str]) -> np.ndarray:
    columns = [table.numbers(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        row = int(np.abs(column).argmax())
        if abs(column[row]) > _LARGEST_SCORE:
            found = f"{table.source}: column '{name}' holds {column[row]:g} in row {row + 1}"
            raise ValueError(
                f"{found}: scores must not exceed {_LARGEST_SCORE:g}; rescale the"
                f" column{table.line(row)}"
            )
    return np.stack(columns, axis=1)


def cast_examples(
    points: np.ndarray, source: Source, settings: Settings, *, may_miss: bool = False
) -> HostExamples:
    """Casts the examples to the precision of the settings and validates all values.

    With `may_miss`, NaN stands for a missing value and is accepted.
    """
    dtype = np.dtype(settings.precision)
    labels = source.table.labels
    assert labels is not None
    weights = np.ones(len(labels)) if source.weights is None else source.weights
    with np.errstate(over="ignore"):
        examples = HostExamples(points.astype(dtype), labels.astype(dtype), weights.astype(dtype))
    checked = (
        np.where(np.isnan(examples.points), 0, examples.points) if may_miss else examples.points
    )
    with jax.enable_x64(settings.precision == "float64"):
        types.validate(types.make_dataset(checked, examples.labels, weights=examples.weights))
    return examples
