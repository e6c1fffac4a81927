"""What the boosters of stumps and trees share: features, data sets, early stopping."""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from sklearn.model_selection import train_test_split

from jboost import learners
from jboost.base import boosting, devices
from jboost.base.padding import stack_datasets
from jboost.base.types import Dataset
from jboost.sklearn import features, parameters
from jboost.sklearn.base import OneAgainstRest
from jboost.sklearn.features import FeatureMap, padded_rows
from jboost.sklearn.tables import LabelledRows
from jboost.sklearn.votes import ClassVote, Constant, of_fit
from jboost.sklearn.warm_starts import WarmStartClassifier
from jboost.sklearn.watch import FitWatch

_MOST_DEPTH = 10  # of `jboost.learners.trees`
# The work of a tree of depth 2 grows with the square of the number of columns, so that they are
# padded to a multiple of few.
_COLUMNS_OF_TREES = 8


@functools.cache  # one object for each depth, so that nothing compiles twice
def _learner(max_depth: int) -> Any:
    return learners.stumps() if max_depth == 1 else learners.trees(max_depth)


def dataset_of(matrix: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> Dataset:
    """The data set of a fit, padded to one of a few numbers of rows.

    Weights are divided by their mean: their scale does not matter to a booster, and sums of large
    weights lose digits in float32.
    """
    missing, dtype = padded_rows(len(signs)) - len(signs), matrix.dtype
    weights = (weights / weights.mean()).astype(dtype)
    parts = (
        np.pad(matrix, ((0, missing), (0, 0))),
        np.pad(signs.astype(dtype), (0, missing), constant_values=1),
        np.pad(weights, (0, missing), constant_values=1),
        np.arange(len(signs) + missing) < len(signs),
    )
    return Dataset(*(devices.from_host(part) for part in parts))


class StumpsClassifier(WarmStartClassifier):
    """A booster of decision stumps or trees on numbers, categories and missing values."""

    categorical: Any
    max_rounds: int
    max_depth: int
    min_weight_fraction_leaf: float
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int

    def prepare(self, rows: LabelledRows, signs: np.ndarray) -> tuple[FeatureMap, Dataset]:
        """The features of training rows, and the data set that the booster is called with."""
        seen = features.numbers_and_bits(rows, self._names(), self.categorical)
        width = None  # predictions have the padded size
        if self.max_depth > 1:
            width = max(-(-seen.size // _COLUMNS_OF_TREES), 1) * _COLUMNS_OF_TREES
        matrix = features.limit_cuts(
            seen.matrix(rows.table, width), rows.weights, self.min_weight_fraction_leaf
        )
        return seen, dataset_of(matrix, signs, rows.weights)

    def _validate(self) -> None:
        super()._validate()
        parameters.whole(self, "max_rounds", low=1)
        parameters.whole(self, "max_depth", low=1, high=_MOST_DEPTH)
        parameters.number(self, "min_weight_fraction_leaf", low=0, high=0.5)
        parameters.number(self, "validation_fraction", low=0, high=1, open_low=True, open_high=True)
        parameters.whole(self, "n_iter_no_change", low=1)
        parameters.flag(self, "early_stopping")
        if self.warm_start and self.early_stopping:
            raise ValueError(
                "warm_start=True and early_stopping=True: a fit with early stopping keeps no state"
                " to go on from; pass one of them"
            )

    @property
    def _learner(self) -> Any:
        """What proposes stumps or trees."""
        return _learner(int(self.max_depth))

    @abc.abstractmethod
    def _boost(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The module of the booster, and the options of its `init` and `fit`."""

    def _fit_votes(
        self, sides: Sequence[OneAgainstRest], options: dict[str, Any], watch: FitWatch
    ) -> list[Any]:
        """One vote for each side. On an accelerator all are fitted by one vmapped call, unless
        something must happen between the rounds. On a CPU they follow each other: a vmapped call
        runs until its last fit ends, and has a program for each number of sides.
        """
        is_watched = watch.is_needed or self.warm_start or self.early_stopping
        open_sides = [side for side in sides if not side.is_constant]
        if is_watched or len(open_sides) < 2 or devices.platform() == "cpu":
            return super()._fit_votes(sides, options, watch)
        together = iter(self._fit_together(open_sides, options))
        return [
            Constant(float(side.signs[0])) if side.is_constant else next(together) for side in sides
        ]

    def _fit_together(
        self, sides: Sequence[OneAgainstRest], options: dict[str, Any]
    ) -> list[ClassVote]:
        """The votes of several sides, each with rows of both signs, by one vmapped call."""
        booster, options = self._boost(options | {"max_rounds": self.max_rounds})
        seen, datasets = zip(*(self.prepare(*side) for side in sides), strict=True)
        fitted = jax.device_get(
            jax.vmap(lambda dataset: booster.fit(dataset, self._learner, **options))(
                stack_datasets(datasets)
            )
        )
        return [
            of_fit(jax.tree.map(operator.itemgetter(index), fitted), features)
            for index, features in enumerate(seen)
        ]

    def _fit_vote(
        self, rows: LabelledRows, signs: np.ndarray, options: dict[str, Any], watch: FitWatch
    ) -> ClassVote:
        # without a key, which stumps and trees do not use
        booster, options = self._boost(options | {"max_rounds": self.max_rounds})
        if self.early_stopping:
            return self._stopped_early(rows, signs, booster, options, watch)
        seen, dataset = self.prepare(rows, signs)
        fit = functools.partial(booster.fit, dataset, self._learner, **options)
        described = options | {"max_depth": self.max_depth}
        return of_fit(self._resumed(booster.__name__, described, dataset, watch, fit), seen)

    def _stopped_early(
        self,
        rows: LabelledRows,
        signs: np.ndarray,
        booster: Any,
        options: dict[str, Any],
        watch: FitWatch,
    ) -> ClassVote:
        """The vote of the round of least error on held-out rows."""
        if np.bincount(signs + 1)[[0, 2]].min() < 2:
            raise ValueError(
                "early_stopping holds out rows of each class: expected at least two distinct rows"
                " of each; pass early_stopping=False"
            )
        training, testing = train_test_split(
            np.arange(len(signs)),
            test_size=max(2, int(np.ceil(self.validation_fraction * len(signs)))),
            stratify=signs,
            random_state=self._seed,
        )
        seen, dataset = self.prepare(rows.among(training), signs[training])
        held_out = rows.among(testing)
        state = booster.init(dataset, self._learner, **options)
        best, least, num_idle = None, np.inf, 0
        for _ in range(self.max_rounds):
            state, info = booster.step(state, dataset)
            vote = of_fit(booster.finish(state, dataset), seen)
            wrong = (vote.scores(held_out.table) > 0) != (signs[testing] > 0)
            loss = held_out.weights[wrong].sum()
            best, least, num_idle = (vote, loss, 0) if loss < least else (best, least, num_idle + 1)
            is_over = not watch.on_step(state, info) or num_idle >= self.n_iter_no_change
            if is_over or not boosting.unfinished(state):
                break
        assert best is not None
        return best
