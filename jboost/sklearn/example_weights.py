"""The classifier of example weights as an estimator."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from jboost import example_weights
from jboost.base import devices
from jboost.base.padding import shared_size
from jboost.base.predict import predict_scores
from jboost.base.records import register
from jboost.base.status import Status, explain
from jboost.base.types import Array
from jboost.example_weights import ExampleWeightModel
from jboost.example_weights.defaults import (
    AUTO,
    MEASURES,
    PENALTY_FACTORS,
    measure_for,
)
from jboost.kernels import Hyperplanes, IsotropicHyperplanes, Kernel
from jboost.kernels.planes import mean_component
from jboost.sklearn import features, parameters, tables
from jboost.sklearn.base import CV, VoteClassifier
from jboost.sklearn.features import FeatureMap, padded_rows
from jboost.sklearn.tables import LabelledRows
from jboost.sklearn.watch import FitWatch

# Padded sizes: programs are shared among few of them.
_LEAST_ROWS, _ROWS_DOUBLE_TO = 128, 512
_LEAST_COLUMNS, _COLUMNS_DOUBLE_TO = 16, 64
_scores = jax.jit(predict_scores)


class SoftMarginBounds(NamedTuple):
    """The bounds of the largest soft margin."""

    lower_bound: float
    upper_bound: float


@register
@dataclasses.dataclass(frozen=True)
class PaddedHyperplanes(IsotropicHyperplanes):
    """`IsotropicHyperplanes` for points with further columns of 0."""

    factor: Array  # [] the mean of |u_1| of a unit vector in all columns over that in its own

    def disagreement(self, points_a: Array, points_b: Array) -> Array:
        """That of the columns that do not pad."""
        return super().disagreement(points_a, points_b) * self.factor

    def draw(self, key: Array, points: Array) -> Array:
        """Raises ValueError: the number of the columns that do not pad is not kept."""
        return Kernel.draw(self, key, points)


@dataclasses.dataclass(frozen=True)
class PointsVote:
    """A fitted classifier for one class against the others."""

    features: FeatureMap
    model: ExampleWeightModel

    @property
    def certificate(self) -> SoftMarginBounds:
        """The bounds of the largest soft margin."""
        return SoftMarginBounds(float(self.model.lower_bound), float(self.model.upper_bound))

    @property
    def status(self) -> int:
        """The status of the fit."""
        return int(self.model.status)

    @property
    def num_rounds(self) -> int:
        """The number of iterations."""
        return int(self.model.num_iterations)

    def scores(self, table: np.ndarray) -> np.ndarray:
        """The scores [k] of the rows of a table, in float64."""
        points = _points(self.features, table)
        model = _padded(self.model)
        rows, columns = padded_rows(len(points)), model.points.shape[1]
        padding = ((0, rows - len(points)), (0, columns - points.shape[1]))
        found = _scores(model, np.pad(points, padding))
        return np.asarray(found, np.float64)[: len(points)]

    def covers(self, table: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Every row is covered, [k] bool."""
        return np.ones(len(table), bool)


class ExampleWeightsClassifier(VoteClassifier):
    """A kernel classifier of weighted examples, as an estimator of scikit-learn
    (`jboost.example_weights.fit`).

    It compares distances between rows, so columns should have similar scales. A category becomes a
    column of 0 and 1. Missing values are not allowed, and neither are weights. The work grows with
    the cube of the number of rows: `jboost.example_weights.fit_large` is for many thousands.

    Args:
      penalty: C, the cost of a unit of shortfall, at least 1 / m; "cv" chooses by cross-validation
        among multiples of 1 / m.
      measure: the measure on hyperplanes. "cube" is that of the paper, whose probabilities decrease
        exponentially with the number of columns, so that float32 resolves no margin with ten
        columns, and float64 none with thirty. "isotropic" draws a uniform direction and distance.
        "auto" is "cube" for one or two columns and "isotropic" for more. "central" draws
        hyperplanes through the mean of the rows, and "stumps" thresholds in the ranges of random
        columns.
      radius: R of the measure, half the width of the cube or the largest distance; "auto" for the
        least that the rows allow. "central" and "stumps" have none.
      tolerance: the relative gap between the bounds at which the fit ends; None for the least that
        the float type allows.
      categorical: names or indices of columns whose numbers are categories.
      calibration: "sigmoid" or "isotonic" for `predict_proba`, fitted to scores of rows that the
        classifier was not trained on; None for no probabilities.
      cv: the number of folds, or a splitter of scikit-learn, or pairs of indices.
      max_seconds: the time after which no further value is tried; None for no limit.
      random_state: the seed of the folds.

    Naish-Guzman, Holden and Paquet.

    >>> import numpy as np
    >>> X = np.arange(20.0)[:, None]
    >>> model = ExampleWeightsClassifier(penalty=0.2).fit(X, X[:, 0] > 9)
    >>> model.predict([[2.0], [15.0]]).tolist()
    [False, True]
    """

    # a penalty of "cv" is chosen as a multiple of 1 / m
    _grids = MappingProxyType({"penalty": PENALTY_FACTORS})
    class_weight = None
    false_positive_cost = false_negative_cost = 1.0

    def __init__(
        self,
        *,
        penalty: Any = CV,
        measure: str = AUTO,
        radius: Any = AUTO,
        tolerance: float | None = None,
        categorical: Any = (),
        calibration: str | None = "sigmoid",
        cv: Any = 5,
        max_seconds: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.measure = measure
        self.radius = radius
        self.tolerance = tolerance
        self.categorical = categorical
        self.calibration = calibration
        self.cv = cv
        self.max_seconds = max_seconds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Any:  # type: ignore[override]
        """Fits the estimator; see `VoteClassifier.fit`. There are no weights."""
        super().fit(X, y, groups=groups)
        if self.penalty == CV and self.votes_:
            self.options_ = {"penalty": float(self.votes_[0].model.penalty)}
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _validate(self) -> None:
        super()._validate()
        if self.measure not in MEASURES:
            raise ValueError(f"measure is {self.measure!r}: expected one of {', '.join(MEASURES)}")
        parameters.number(self, "penalty", low=0, open_low=True, also=(CV,))
        parameters.number(self, "radius", low=0, open_low=True, also=(AUTO,))
        parameters.number(self, "tolerance", low=0, also=(None,))

    def _rows(self, table: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> LabelledRows:
        return tables.sort(table, codes)

    def _fit_vote(
        self, rows: LabelledRows, signs: np.ndarray, options: dict[str, Any], watch: FitWatch
    ) -> PointsVote:
        seen = features.numbers_and_bits(rows, self._names(), self.categorical)
        points, count = _points(seen, rows.table), len(signs)
        if np.isnan(points).any():
            raise ValueError(
                "Input X contains NaN: ExampleWeightsClassifier takes no missing values"
            )
        penalty = options["penalty"]
        penalty = min(1.0, penalty / count) if self.penalty == CV else penalty
        radius = None if self.radius == AUTO else float(self.radius)
        kernel, centre = measure_for(points, self.measure, radius)
        wide, *measure = _with_more_columns(points, kernel, centre)
        missing = shared_size(count, least=_LEAST_ROWS, doubles_to=_ROWS_DOUBLE_TO) - count
        model = _fit(
            np.pad(wide, ((0, missing), (0, 0)), mode="edge"),
            np.pad(signs, (0, missing), constant_values=1).astype(points.dtype),
            np.arange(count + missing) < count,
            points.dtype.type(penalty),
            *measure,
            self.tolerance,
        )
        if int(model.status) == Status.INFEASIBLE:
            raise ValueError(
                f"penalty is {penalty:g}: expected at least {1 / count:g}, which is 1 divided"
                " by the number of distinct training rows"
            )
        if int(model.status) == Status.INVALID_INPUT:
            width = "" if not hasattr(kernel, "radius") else f" and radius {float(kernel.radius):g}"
            raise ValueError(f"penalty is {penalty:g}{width}: {explain(int(model.status))}")
        model = jax.tree.map(np.asarray, dataclasses.replace(model, kernel=kernel, centre=centre))
        columns = np.ascontiguousarray(model.points[:, : points.shape[1]])
        return PointsVote(seen, dataclasses.replace(model, points=columns))


def _points(seen: FeatureMap, table: np.ndarray) -> np.ndarray:
    """The rows as points [k, d], without padding: the measure depends on the dimension."""
    return seen.matrix(table)[:, : max(seen.size, 1)]


def _with_more_columns(
    points: np.ndarray, kernel: Kernel, centre: np.ndarray
) -> tuple[np.ndarray, Kernel, np.ndarray]:
    """Points [m, d], their kernel and their centre with columns of 0 up to one of a few numbers, if
    the measure depends on distances alone: then fits of all numbers of columns share programs.
    """
    num_columns = points.shape[1]
    # with one column the measure of the paper is this one
    if not isinstance(kernel, IsotropicHyperplanes) and not (
        isinstance(kernel, Hyperplanes) and num_columns == 1
    ):
        return points, kernel, centre
    width = shared_size(num_columns, least=_LEAST_COLUMNS, doubles_to=_COLUMNS_DOUBLE_TO)
    factor = mean_component(num_columns) / mean_component(width)
    padding = (0, width - num_columns)
    padded = PaddedHyperplanes(kernel.radius, np.asarray(factor, points.dtype))
    return np.pad(points, ((0, 0), padding)), padded, np.pad(centre, padding)


def _padded(model: ExampleWeightModel) -> ExampleWeightModel:
    """The model with more columns, and with examples of weight 0, as many as rows are padded to for
    a prediction.
    """
    missing = padded_rows(len(model.labels)) - len(model.labels)
    points, kernel, centre = _with_more_columns(model.points, model.kernel, model.centre)
    parts: dict[str, Any] = {
        name: np.pad(getattr(model, name), (0, missing))
        for name in ("labels", "example_weights", "row_weights")
    }
    points = np.pad(points, ((0, missing), (0, 0)))
    return dataclasses.replace(model, kernel=kernel, centre=centre, points=points, **parts)


@devices.public_jit
def _fit(
    points: Any, labels: Any, mask: Any, penalty: Any, kernel: Any, centre: Any, tolerance: Any
) -> ExampleWeightModel:
    return example_weights.fit(
        points,
        labels,
        mask=mask,
        penalty=penalty,
        kernel=kernel,
        centre=centre,
        tolerance=tolerance,
    )
