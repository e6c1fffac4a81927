"""Fits that go on from the last state of an earlier fit of the same rows (`warm_start`)."""

from __future__ import annotations

import json
import numbers
from collections.abc import Callable
from typing import Any

from jboost.base.boosting import Fit
from jboost.base.types import Dataset
from jboost.checkpoints import fingerprint
from jboost.sklearn import parameters
from jboost.sklearn.base import RuleVoteClassifier
from jboost.sklearn.watch import FitWatch


class WarmStartClassifier(RuleVoteClassifier):
    """The base class of the estimators with `warm_start`.

    The last state of each fit of a vote is kept under the fingerprint of its data and options, so
    that a fit with other rows or options begins anew.
    """

    warm_start: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fits the estimator; see `VoteClassifier.fit`."""
        # the last states of the fits before this one and of this one, by rows and options
        self._old_states = getattr(self, "_new_states", {}) if self.warm_start else {}
        self._new_states: dict[str, Any] = {}
        return super().fit(X, y, sample_weight, groups)

    def _new_seed(self) -> int:
        """The seed; of a warm start that of the last fit, unless `random_state` is a number."""
        is_kept = self.warm_start and not isinstance(self.random_state, numbers.Integral)
        return self._seed if is_kept and hasattr(self, "_seed") else super()._new_seed()

    def _validate(self) -> None:
        super()._validate()
        parameters.flag(self, "warm_start")

    def _resumed(
        self,
        algorithm: str,
        options: dict[str, Any],
        dataset: Dataset,
        watch: FitWatch,
        fit: Callable[..., Fit],
    ) -> Fit:
        """Calls `fit(on_step=, initial=)`, with the state of an earlier fit of the same rows and
        options as `initial` where there is one.

        Args:
          algorithm: its name.
          options: all that `fit` depends on beside the data set, by name.
          dataset: that `fit` is called with.
          watch: ends the fit.
          fit: of one vote.
        """
        if not (watch.is_needed or self.warm_start):
            return fit(on_step=None, initial=None)
        if not self.warm_start:
            return fit(on_step=watch.on_step, initial=None)
        run = fingerprint.make(algorithm, options, fingerprint.digest(dataset), {})
        name = json.dumps(run, sort_keys=True)
        initial = self._old_states.get(name)
        if initial is not None:  # kept, in case that the fit ends before a step
            self._new_states[name] = initial

        def on_step(state: Any, info: Any) -> bool:
            if state is not None:  # None before the first round of `jboost.l0.fit_large`
                self._new_states[name] = state
            return watch.on_step(state, info)

        return fit(on_step=on_step, initial=initial)
