"""From settings to the two scores of every row: reading, splitting, training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from jboost.base import folds, types
from jboost.cli import devices
from jboost.cli.options import EMBEDDED, Settings
from jboost.cli.reading import make_reading
from jboost.data import classifiers, embedded, readers
from jboost.data.classifiers import BaseFit
from jboost.data.table import Table

_LARGEST_SCORE = 4e307  # so that differences of scores are finite


@dataclasses.dataclass(frozen=True)
class Examples:
    """Scored examples on the host, in the requested precision."""

    points: np.ndarray  # [n, 2] scores, or [n, N] features
    labels: np.ndarray  # [n]
    weights: np.ndarray  # [n]

    def padded(self, num_rows: int, num_columns: int | None = None) -> Examples:
        """With rows of label and weight 1 behind, which a mask is to leave out, and columns of
        zeros.
        """
        rows = num_rows - len(self.labels)
        columns = 0 if num_columns is None else num_columns - self.points.shape[1]
        labels, weights = (
            np.pad(part, (0, rows), constant_values=1) for part in (self.labels, self.weights)
        )
        return Examples(np.pad(self.points, ((0, rows), (0, columns))), labels, weights)

    def in_float64(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points, labels and weights, for sums on the host."""
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
    device: str  # the platform that computes

    def rows(self, chosen: np.ndarray) -> Source:
        weights = None if self.weights is None else self.weights[chosen]
        return Source(self.table.rows(chosen), weights, self.device)


def read_source(settings: Settings) -> Source:
    """Reads the data, checks the named columns, and chooses the device; ValueError in
    one line where something is wrong.
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
            settings.data, label=settings.label, reading=reading, columns=columns
        )
    for name in settings.scores or ():
        table.numbers(name)
    device = devices.choose(settings.device, table.num_rows, len(table.columns))
    if settings.weights is None:
        return Source(table, None, device)
    weights = table.weights(settings.weights)
    source = Source(table.without([settings.weights]), weights, device)
    return source if weights.all() else _without_idle_rows(source, settings.weights)


def _without_idle_rows(source: Source, name: str) -> Source:
    """The rows whose weight is above 0; ValueError where these are of one class."""
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
    """Indices of the rows to train on and of those held out, the same fraction of each class;
    messages name the option.

    Raises:
      ValueError: if a class would be empty on one side.
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
    """Stratified folds, [m] bool each, True where held out; other streams split differently. Raises
    ValueError as `check_folds`.
    """
    check_folds(labels, settings)
    key = jax.random.fold_in(jax.random.key(settings.seed), stream)
    return list(
        np.asarray(folds.stratified_folds(key, labels.astype(np.float32), num_folds=settings.folds))
    )


def check_folds(labels: np.ndarray, settings: Settings) -> None:
    """Raises ValueError if the smaller class has fewer rows than there are folds."""
    smaller = int(min((labels > 0).sum(), (labels < 0).sum()))
    if smaller < settings.folds:
        if smaller < 2:
            raise ValueError(
                f"the smaller class has {smaller} rows, too few for any folds: give more rows"
            )
        raise ValueError(
            f"folds is {settings.folds}, but the smaller class has {smaller} rows to spread over"
            f" them: choose --folds {smaller} or fewer"
        )


def score_training_rows(source: Source, settings: Settings) -> tuple[Examples, BaseFit | None]:
    """The scores that the combination is fitted to, and the classifiers if they were
    trained here.
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


def score_other_rows(source: Source, settings: Settings, base: BaseFit | None) -> Examples:
    """The scores of rows that nothing was fitted to."""
    return cast_examples(score_rows(source.table, settings.scores, base), source, settings)


def exported_columns(
    names: Sequence[str], columns: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that an exported combination reads, and a note where they are scores of trained
    classifiers: `jboost predict` writes those.
    """
    if columns is not None:
        return tuple(columns), ()
    scores = tuple(f"score_{name}" for name in names)
    note = f"the export has the combination alone: it reads the columns {', '.join(scores)}"
    return scores, (f"{note} of jboost predict",)


def score_rows(table: Table, columns: Sequence[str] | None, base: BaseFit | None) -> np.ndarray:
    """Scores [k, 2] float64 by trained classifiers, or from two columns."""
    if base is not None:
        return base.predict_scores(table)
    assert columns is not None
    return _columns(table, columns)


def _columns(table: Table, names: Sequence[str]) -> np.ndarray:
    columns = [table.numbers(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        row = int(np.abs(column).argmax())
        if abs(column[row]) > _LARGEST_SCORE:
            held = f"{table.source}: column '{name}' holds {column[row]:g} in row {row + 1}"
            raise ValueError(
                f"{held}: scores reach {_LARGEST_SCORE:g} at most; rescale the"
                f" column{table.line(row)}"
            )
    return np.stack(columns, axis=1)


def cast_examples(
    points: np.ndarray, source: Source, settings: Settings, *, may_miss: bool = False
) -> Examples:
    """Casts to the precision and checks all values before any work; with `may_miss`, NaN is a
    missing value and allowed.
    """
    dtype = np.dtype(settings.precision)
    labels = source.table.labels
    assert labels is not None
    weights = np.ones(len(labels)) if source.weights is None else source.weights
    with np.errstate(over="ignore"):
        examples = Examples(points.astype(dtype), labels.astype(dtype), weights.astype(dtype))
    checked = (
        np.where(np.isnan(examples.points), 0, examples.points) if may_miss else examples.points
    )
    with jax.enable_x64(settings.precision == "float64"):
        types.validate(types.make_dataset(checked, examples.labels, weights=examples.weights))
    return examples
