"""Warm starts of the estimators of rules; those of stumps are in the other files."""

import numpy as np
import pytest
from sklearn.base import clone

import jboost
import jboost.sklearn as js


def noisy(num_rows=60):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(num_rows, 3))
    return X, X[:, 0] + X[:, 1] + 0.5 * generator.normal(size=num_rows) > 0


class Stop:
    """A callback of scikit-learn that ends a fit after a number of rounds on the relaxation."""

    def __init__(self, num_rounds):
        self.num_rounds = num_rounds
        self.seen = []

    def setup(self, estimator, context):
        self.seen = []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **others):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata=None, **others):
        self.seen += [metadata["num_rounds"]] if metadata else []
        return bool(metadata) and metadata["num_rounds"] >= self.num_rounds


RULES = js.RuleClassifier(
    max_order=1, max_rules=4, num_quantiles=4, tolerance=0.0, max_rounds=6, calibration=None
)


def test_rules_go_on_from_the_last_round():
    X, y = noisy()
    model = clone(RULES).set_params(warm_start=True, random_state=0)
    stop = Stop(2)
    model.set_callbacks(stop).fit(X, y)
    assert stop.seen[-1] == 2
    stopped = model.certificate_
    (state,) = model._new_states.values()
    assert isinstance(state, jboost.l0.LargeState)
    stop.num_rounds = 100
    model.fit(X, y)
    assert stop.seen[0] == 3  # neither a first vote nor the first two rounds
    assert model.certificate_.upper_bound <= stopped.upper_bound
    whole = clone(RULES).fit(X, y)
    for name in ("lower_bound", "upper_bound"):
        found, expected = (getattr(one.certificate_, name) for one in (model, whole))
        assert float(found) == pytest.approx(float(expected), rel=1e-9)
    # of other options it begins anew
    stop.num_rounds = 2
    model.set_params(kappa=1.0).fit(X, y)
    assert stop.seen[0] == 0
    assert len(model._new_states) == 1


def test_without_warm_start_no_state_is_kept():
    X, y = noisy()
    model = clone(RULES).set_callbacks(Stop(1)).fit(X, y)
    assert model._new_states == {}


def test_the_seed_of_slipper_is_that_of_the_last_fit():
    X, y = noisy()
    model = js.SlipperClassifier(num_rounds=4, max_rounds=4, num_quantiles=4, calibration=None)
    model.set_params(warm_start=True, max_seconds=1e-9)
    seeds = [model.fit(X, y)._seed for _ in range(2)]
    assert seeds[0] == seeds[1]
    assert model.n_iter_ == 2


@pytest.mark.parametrize("num_rounds", [4, None])
def test_slipper_goes_on_from_the_last_round(num_rounds):
    X, y = noisy()
    model = js.SlipperClassifier(
        num_rounds=num_rounds,
        max_rounds=4,
        num_quantiles=4,
        calibration=None,
        warm_start=True,
        max_seconds=1e-9,
        random_state=0,
    )
    first = model.fit(X, y).n_iter_
    whole = clone(model).set_params(max_seconds=None).fit(X, y)
    assert first == 1 < whole.n_iter_
    assert model.fit(X, y).n_iter_ == 2
    for _ in range(2):  # the state of a fit that has ended is kept
        model.set_params(max_seconds=None).fit(X, y)
        assert model.decision_function(X).tolist() == whole.decision_function(X).tolist()
        assert len(model._new_states) == 1
