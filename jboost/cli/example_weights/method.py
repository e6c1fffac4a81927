"""Example weights for the command line.

The numeric columns are the points. The penalty can be chosen by cross-validation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jboost import example_weights
from jboost.base import loops
from jboost.base.loops import OnStep
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.cli import checkpointing, inputs, sizes
from jboost.cli.inputs import HostExamples, Source
from jboost.cli.option import CV
from jboost.cli.options import AUTO, Settings
from jboost.data.table import Table
from jboost.example_weights import ExampleWeightModel
from jboost.example_weights.defaults import PENALTY_FACTORS, Measure, measure_for
from jboost.kernels import Hyperplanes, IsotropicHyperplanes, Kernel
from jboost.report import example_weights as report_module

_STREAM = 3  # random stream of the folds for the choice; `evaluate` uses another one


@dataclasses.dataclass(frozen=True)
class ChosenPenalty:
    """The chosen penalty, and the held-out losses of the candidates."""

    penalty: float
    # For each candidate: penalty, mean and rates. Empty if there was one candidate.
    losses: tuple[dict[str, Any], ...] = ()
    num_candidates: int = 0  # more than the number of losses if the choice was ended early


def feature_names(table: Table) -> tuple[str, ...]:
    """Returns the names of the numeric columns. Raises ValueError if there are none."""
    if not table.numeric:
        raise ValueError(
            f"{table.source}: no numeric columns, which example weights require: encode text as"
            " numbers, or use --method l0"
        )
    return tuple(table.numeric)


def left_out_notes(table: Table) -> tuple[str, ...]:
    """Returns notes on the columns that are not used."""
    names = ", ".join(table.categorical)
    return (
        (f"example weights use numeric columns: text columns are left out ({names})",)
        if names
        else ()
    )


def read_points(table: Table, names: tuple[str, ...]) -> np.ndarray:
    """Returns the named columns [m, d] in float64. Raises ValueError if a value is missing."""
    return np.stack([table.numbers(name) for name in names], axis=1)


def read_examples(source: Source, names: tuple[str, ...], settings: Settings) -> HostExamples:
    """Returns the points and labels in the precision of the settings."""
    return inputs.cast_examples(read_points(source.table, names), source, settings)


def measure_of(points: np.ndarray, chosen: np.ndarray, settings: Settings) -> Measure:
    """Returns the measure around the mean of the chosen rows.

    The radius is that of the settings. With "auto" it is the smallest that the rows allow.

    Raises:
      ValueError: if distances between the rows overflow.
    """
    radius = None if settings.radius == AUTO else float(settings.radius)
    with jax.enable_x64(settings.precision == "float64"):
        return measure_for(points[chosen], settings.measure, radius)


def fit(
    examples: HostExamples, chosen: np.ndarray, settings: Settings, penalty: float
) -> ExampleWeightModel:
    """Fits a model to the rows where `chosen` [m] is True.

    All masks and penalties share one compilation, and so do similar numbers of rows.

    Raises:
      ValueError: if the rows do not allow the penalty or the radius, or if there is no classifier.
    """
    kernel, centre = measure_of(examples.points, chosen, settings)
    padded, mask = _padded(examples, chosen)
    with jax.enable_x64(settings.precision == "float64"):
        _validate(examples, chosen, kernel, centre, penalty)
        price = np.asarray(penalty, settings.precision)
        model = _without_padding(
            _fit(padded.points, padded.labels, mask, price, kernel, centre), len(chosen)
        )
    if Status(int(model.status)) in (Status.INVALID_INPUT, Status.INFEASIBLE):
        radius = report_module.radius_of(kernel)
        width = "" if radius is None else f" and radius {radius:g}"
        raise ValueError(
            f"example-weights found no classifier at penalty {penalty:g}{width}: choose others"
        )
    return model


def _validate(
    examples: HostExamples, chosen: np.ndarray, kernel: Kernel, centre: np.ndarray, penalty: float
) -> None:
    """Raises ValueError if the rows do not allow the penalty or the radius."""
    measure: dict[str, Any] = {"kernel": kernel}
    if isinstance(kernel, IsotropicHyperplanes):
        lengths = np.linalg.norm((examples.points - centre)[chosen].astype(np.float64), axis=1)
        if lengths.max() > float(kernel.radius):
            raise ValueError(
                f"radius is {float(kernel.radius):g}, and a row is {lengths.max():.6g} from the"
                " mean of the rows: raise --radius above that, or leave it out"
            )
    elif isinstance(kernel, Hyperplanes):  # the message then has the radius that is needed
        measure = {"radius": float(kernel.radius)}
    example_weights.validate(
        examples.points,
        examples.labels,
        penalty=penalty,
        centre=centre,
        mask=chosen,
        **measure,
    )


def _padded(examples: HostExamples, chosen: np.ndarray) -> tuple[HostExamples, np.ndarray]:
    """Returns the padded examples and the mask of the chosen ones."""
    size = sizes.cubic(len(chosen))
    return examples.padded(size), np.pad(chosen, (0, size - len(chosen)))


def _without_padding(model: ExampleWeightModel, size: int) -> ExampleWeightModel:
    names = ("points", "labels", "example_weights", "row_weights")
    return jax.block_until_ready(
        dataclasses.replace(model, **{name: getattr(model, name)[:size] for name in names})
    )


@jax.jit
def _fit(
    points: Any, labels: Any, mask: Any, penalty: Any, kernel: Any, centre: Any
) -> ExampleWeightModel:
    return example_weights.fit(
        points, labels, mask=mask, penalty=penalty, kernel=kernel, centre=centre
    )


def penalties(settings: Settings, num_rows: int) -> tuple[float, ...]:
    """Returns the candidates of the penalty in increasing order.

    "cv" stands for the values of `PENALTY_FACTORS` over the number of rows.
    """
    grid = (
        {min(1.0, factor / num_rows) for factor in PENALTY_FACTORS}
        if CV in settings.penalty
        else set()
    )
    return tuple(sorted(grid | {float(value) for value in settings.penalty if value != CV}))


def choose(
    examples: HostExamples, chosen: np.ndarray, settings: Settings, *, on_step: OnStep | None = None
) -> ChosenPenalty:
    """Chooses the penalty of smallest held-out loss, on the rows where `chosen` is True.

    The loss is estimated by stratified cross-validation or on one split, in one compiled call. With
    `on_step` there is one call for each penalty, and the state is saved for --checkpoint.

    Args:
      examples: all rows.
      chosen: [m] bool.
      settings: all options.
      on_step: called after each penalty. If it returns False, the choice ends with the penalties
        tried so far.

    Raises:
      ValueError: if there are more folds than rows of the minority class, or if no penalty has a
        solution on all folds.
    """
    candidates = penalties(settings, int(chosen.sum()))
    if len(candidates) == 1:
        return ChosenPenalty(candidates[0])
    split = _validation_split(examples.labels, chosen, settings)
    if not split:
        inputs.check_folds(examples.labels[chosen], settings)
    measure = measure_of(examples.points, chosen, settings)
    padded, mask = _padded(examples, chosen)

    def watch(state: Any, info: tuple[int, int]) -> bool:
        return loops.goes_on(on_step, state, f"penalty {candidates[info[0] - 1]:g}")

    data = {"points": padded.points, "labels": padded.labels, "mask": mask}
    with (
        jax.enable_x64(settings.precision == "float64"),
        checkpointing.kept(
            settings,
            None if on_step is None else watch,
            lambda: example_weights.PenaltyChoiceState,
            data,
        ) as (save, initial),
    ):
        watched = {"on_step": save, "initial": initial}
        table = _losses(padded, mask, measure, candidates, settings, **split, **watched)
    best = min(table, key=lambda row: (row["mean"], row["penalty"]))
    if not np.isfinite(best["mean"]):
        raise ValueError(
            f"penalty: none of {', '.join(f'{one:g}' for one in candidates)} is 1 / rows of a"
            " training part or more: raise --penalty"
        )
    return ChosenPenalty(best["penalty"], tuple(table), len(candidates))


def _validation_split(
    labels: np.ndarray, chosen: np.ndarray, settings: Settings
) -> dict[str, np.ndarray]:
    """Returns the mask `held_out` [m] of one stratified split, or {} if folds are used instead."""
    if settings.validation == 0:
        return {}
    rows = np.flatnonzero(chosen)
    _, apart = inputs.split_rows(
        labels[rows], settings.validation, settings.seed + _STREAM, option="validation"
    )
    return {"held_out": np.isin(np.arange(len(labels)), rows[apart])}


def _losses(
    padded: HostExamples,
    mask: np.ndarray,
    measure: Measure,
    candidates: tuple[float, ...],
    settings: Settings,
    *,
    held_out: np.ndarray | None = None,
    **watched: Any,
) -> list[dict[str, Any]]:
    """Returns the held-out losses of the penalties that were tried. `watched` are the arguments
    `on_step` and `initial` of the choice.
    """
    if held_out is not None:
        held_out = np.pad(held_out, (0, len(mask) - len(held_out)))
    found = example_weights.choose_penalty(
        padded.points,
        padded.labels,
        penalties=np.array(candidates, settings.precision),
        key=jax.random.fold_in(jax.random.key(settings.seed), _STREAM),
        num_folds=settings.folds,
        held_out=held_out,
        kernel=measure.kernel,
        centre=measure.centre,
        mask=mask,
        **watched,
    )
    means, of_folds = (
        np.asarray(found.losses, np.float64),
        np.asarray(found.fold_losses, np.float64),
    )
    return [
        {"penalty": one, "mean": float(mean), "rates": rates.tolist()}
        for one, mean, rates in zip(candidates, means, of_folds.T, strict=True)
        if not np.isnan(mean)
    ]


def scores(model: ExampleWeightModel, points: np.ndarray, precision: str) -> np.ndarray:
    """Returns the scores [k] of points [k, d] in float64."""
    with jax.enable_x64(precision == "float64"):
        return np.asarray(predict_scores(model, points.astype(precision)), np.float64)
