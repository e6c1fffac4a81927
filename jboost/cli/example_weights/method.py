"""Example weights for the command line: numeric columns as points, one fit, and the choice of the
penalty by cross-validation.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from jboost import example_weights, kernels
from jboost.base import loops
from jboost.base.loops import OnStep
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.cli import inputs, sizes
from jboost.cli.inputs import Examples, Source
from jboost.cli.option import CV
from jboost.cli.options import AUTO, Settings
from jboost.data.table import Table
from jboost.example_weights import ExampleWeightModel

_GRID = (1.5, 2.0, 3.0, 5.0, 9.0)  # candidates of --penalty cv, over the number of rows
_SLACK = 1.001  # of an automatic radius, for rounding
_STREAM = 3  # the folds that choose the penalty are others than those of `evaluate`


@dataclasses.dataclass(frozen=True)
class Choice:
    """The penalty that was chosen, and what each of the candidates lost on held-out rows."""

    penalty: float
    # penalty, mean and rates of each; empty where there was no choice
    losses: tuple[dict[str, Any], ...] = ()
    num_candidates: int = 0  # more than there are losses, where the choice was ended early


def feature_names(table: Table) -> tuple[str, ...]:
    """The numeric columns; ValueError where there are none."""
    if not table.numeric:
        raise ValueError(
            f"{table.source}: no numeric columns, and example weights take no others: write text as"
            " numbers, or take --method l0"
        )
    return tuple(table.numeric)


def left_out_notes(table: Table) -> tuple[str, ...]:
    """Which columns are not looked at."""
    names = ", ".join(table.categorical)
    return (
        (f"example weights take numeric columns: text columns are left out ({names})",)
        if names
        else ()
    )


def read_points(table: Table, names: tuple[str, ...]) -> np.ndarray:
    """The named columns [m, d] in float64; ValueError where a value is missing."""
    return np.stack([table.numbers(name) for name in names], axis=1)


def read_examples(source: Source, names: tuple[str, ...], settings: Settings) -> Examples:
    """Points and labels in the requested precision."""
    return inputs.cast_examples(read_points(source.table, names), source, settings)


class Cube(NamedTuple):
    """What hyperplanes are drawn from: their nearest point to the centre is uniform in it."""

    centre: np.ndarray  # [d], in the precision of the points
    radius: float  # R, half its width


def cube_for(points: np.ndarray, chosen: np.ndarray, settings: Settings) -> Cube:
    """The cube round the mean of the chosen rows, as wide as was asked for, or as little as they
    allow; ValueError where their distances overflow.
    """
    rows = points[chosen]
    with np.errstate(over="ignore", invalid="ignore"):
        centre = rows.mean(axis=0, dtype=np.float64).astype(points.dtype)
        centred = (rows - centre).astype(np.float64)  # after rounding, as the fit sees them
        least = (
            float((np.abs(centred).max(axis=1) + np.linalg.norm(centred, axis=1)).max())
            / 2
            * _SLACK
        )
        # no sum or difference of two points is longer
        is_held = np.isfinite(points.dtype.type(4 * least))
    if not is_held:
        largest, precision = float(np.abs(rows).max()), settings.precision
        raise ValueError(
            f"the columns hold numbers up to {largest:.3g}, and distances between such rows"
            f" overflow {precision}: rescale the columns"
        )
    if settings.radius != AUTO:
        return Cube(centre, float(settings.radius))
    return Cube(centre, least if least > np.finfo(points.dtype).tiny else 1.0)


def fit(
    examples: Examples, chosen: np.ndarray, settings: Settings, penalty: float
) -> ExampleWeightModel:
    """One fit on the rows where `chosen` [m] is True; all masks and penalties share one
    compilation, and so do similar numbers of rows.

    Raises:
      ValueError: naming the option, for a penalty or a radius that the rows do not allow, or where
        there is no classifier.
    """
    centre, radius = cube_for(examples.points, chosen, settings)
    padded, mask = _padded(examples, chosen)
    with jax.enable_x64(settings.precision == "float64"):
        example_weights.validate(
            examples.points,
            examples.labels,
            penalty=penalty,
            radius=radius,
            centre=centre,
            mask=chosen,
        )
        price, width = (np.asarray(number, settings.precision) for number in (penalty, radius))
        model = _without_padding(
            _fit(padded.points, padded.labels, mask, price, width, centre), len(chosen)
        )
    if Status(int(model.status)) in (Status.INVALID_INPUT, Status.INFEASIBLE):
        raise ValueError(
            f"example-weights found no classifier at penalty {penalty:g} and radius {radius:g}:"
            " choose others"
        )
    return model


def _padded(examples: Examples, chosen: np.ndarray) -> tuple[Examples, np.ndarray]:
    """The examples in a size that others share, and the mask of those that are chosen."""
    size = sizes.cubic(len(chosen))
    return examples.padded(size), np.pad(chosen, (0, size - len(chosen)))


def _without_padding(model: ExampleWeightModel, size: int) -> ExampleWeightModel:
    names = ("points", "labels", "example_weights", "row_weights")
    return jax.block_until_ready(
        dataclasses.replace(model, **{name: getattr(model, name)[:size] for name in names})
    )


@jax.jit
def _fit(
    points: Any, labels: Any, mask: Any, penalty: Any, radius: Any, centre: Any
) -> ExampleWeightModel:
    return example_weights.fit(
        points, labels, mask=mask, penalty=penalty, radius=radius, centre=centre
    )


def penalties(settings: Settings, num_rows: int) -> tuple[float, ...]:
    """The penalties to choose from, the least first; cv stands for multiples of one over the number
    of rows.
    """
    grid = {min(1.0, factor / num_rows) for factor in _GRID} if CV in settings.penalty else set()
    return tuple(sorted(grid | {float(value) for value in settings.penalty if value != CV}))


def choose(
    examples: Examples, chosen: np.ndarray, settings: Settings, *, on_step: OnStep | None = None
) -> Choice:
    """The penalty of least error on the rows where `chosen` is True, in stratified cross-validation
    or on one split, all in one compiled call.

    Args:
      examples: all rows.
      chosen: [m] bool.
      settings: all options.
      on_step: called after each penalty, which then has a call of its own over all folds; False
        ends the choice with those that were tried, and so does Ctrl-C.

    Raises:
      ValueError: naming the option, for more folds than the smaller class has rows, or where no
        penalty has a solution on all folds.
    """
    count = int(chosen.sum())
    candidates = penalties(settings, count)
    if len(candidates) == 1:
        return Choice(candidates[0])
    split = _validation_split(examples.labels, chosen, settings)
    if not split:
        inputs.check_folds(examples.labels[chosen], settings)
    centre, radius = cube_for(examples.points, chosen, settings)
    padded, mask = _padded(examples, chosen)
    table: list[dict[str, Any]] = []
    with jax.enable_x64(settings.precision == "float64"):
        for part in [candidates] if on_step is None else [(one,) for one in candidates]:
            try:
                table += _losses(padded, mask, Cube(centre, radius), part, settings, **split)
            except KeyboardInterrupt:
                if not table:
                    raise
                break
            if not loops.goes_on(on_step, table, f"penalty {part[-1]:g}"):
                break
    best = min(table, key=lambda row: (row["mean"], row["penalty"]))
    if not np.isfinite(best["mean"]):
        raise ValueError(
            f"penalty: none of {', '.join(f'{one:g}' for one in candidates)} is 1 / rows of a"
            " training part or more: raise --penalty"
        )
    return Choice(best["penalty"], tuple(table), len(candidates))


def _validation_split(
    labels: np.ndarray, chosen: np.ndarray, settings: Settings
) -> dict[str, np.ndarray]:
    """The rows of the one split that are held out, `held_out` [m] bool, the same fraction of each
    class; empty for folds.
    """
    if settings.validation == 0:
        return {}
    rows = np.flatnonzero(chosen)
    _, apart = inputs.split_rows(
        labels[rows], settings.validation, settings.seed + _STREAM, option="validation"
    )
    return {"held_out": np.isin(np.arange(len(labels)), rows[apart])}


def _losses(
    padded: Examples,
    mask: np.ndarray,
    cube: Cube,
    candidates: tuple[float, ...],
    settings: Settings,
    *,
    held_out: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """What penalties lose on held-out rows, by one compiled call over folds and penalties."""
    if held_out is not None:
        held_out = np.pad(held_out, (0, len(mask) - len(held_out)))
    found = example_weights.choose_penalty(
        padded.points,
        padded.labels,
        penalties=np.array(candidates, settings.precision),
        key=jax.random.fold_in(jax.random.key(settings.seed), _STREAM),
        num_folds=settings.folds,
        held_out=held_out,
        kernel=kernels.hyperplanes(cube.radius),
        centre=cube.centre,
        mask=mask,
    )
    means, of_folds = (
        np.asarray(found.losses, np.float64),
        np.asarray(found.fold_losses, np.float64),
    )
    return [
        {"penalty": one, "mean": float(mean), "rates": rates.tolist()}
        for one, mean, rates in zip(candidates, means, of_folds.T, strict=True)
    ]


def scores(model: ExampleWeightModel, points: np.ndarray, precision: str) -> np.ndarray:
    """The scores [k] of points [k, d], in float64."""
    with jax.enable_x64(precision == "float64"):
        return np.asarray(predict_scores(model, points.astype(precision)), np.float64)
