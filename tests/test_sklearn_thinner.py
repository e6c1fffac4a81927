"""What `MarginThinner` takes for the output of a member, and what its time limit leaves."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import jboost.sklearn as js
from jboost import lpboost
from jboost.base.status import Status
from jboost.sklearn import thinner
from jboost.sklearn.watch import FitClock


def noisy(num_rows=80):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(num_rows, 3))
    return X, (X[:, 0] + 0.3 * generator.normal(size=num_rows) > 0).astype(int)


@pytest.mark.parametrize(
    "ensemble",
    [
        AdaBoostClassifier(LinearSVC(), n_estimators=5, random_state=0),
        BaggingClassifier(LinearSVC(), n_estimators=5, random_state=0),
        VotingClassifier([("one", LinearSVC(C=0.01)), ("two", LinearSVC())]),
    ],
)
def test_members_without_probabilities_vote_alike_under_all_names_of_classes(ensemble):
    X, codes = noisy()
    scores = []
    for names in ([-1, 1], [0, 1], [3, 7], [-7, -3], ["h", "s"]):
        y = np.asarray(names)[codes]
        thin = js.MarginThinner(ensemble.fit(X, y), nu=0.3, calibration=None).fit(X, y)
        assert (thin.predict(X) == y).mean() > 0.85
        scores.append(thin.decision_function(X))
    np.testing.assert_allclose(scores, np.broadcast_to(scores[0], (5, len(X))), atol=1e-6)


def test_a_member_that_knows_one_class_votes_for_it():
    X, y = noisy()
    y = np.where(np.arange(80) < 2, "rare", "usual")
    ensemble = BaggingClassifier(KNeighborsClassifier(1), 10, random_state=0).fit(X, y)
    sizes = {len(one.classes_) for one in ensemble.estimators_}
    assert sizes == {1, 2}
    thin = js.MarginThinner(ensemble, nu=0.3, calibration=None).fit(X, y)
    assert (thin.predict(X) == y).all()


def test_members_that_all_know_one_class_are_refused():
    X, y = noisy()
    forest = RandomForestClassifier(2, random_state=0).fit(X, y)
    forest.estimators_ = [one.fit(X, np.zeros(80)) for one in forest.estimators_]
    with pytest.raises(ValueError, match="the members of estimator know the classes"):
        js.MarginThinner(forest).fit(X, y)


def test_where_no_member_votes_the_majority_class_is_predicted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    for second in (20, 40):
        y = np.arange(60) < second  # nothing that the rows tell
        forest = RandomForestClassifier(5, max_depth=1, random_state=0).fit(
            X[::-1], rng.permuted(y)
        )
        thin = js.MarginThinner(forest, nu=0.05, random_state=0).fit(X, y)
        assert len(thin.kept_) == 0
        assert (thin.predict(X) == (second == 40)).all()
        np.testing.assert_allclose(thin.predict_proba(X)[:, 1], second / 60)


NU = 0.3


def margins_of(forest, X, y):
    shares = np.stack([one.predict_proba(X)[:, 1] for one in forest.estimators_], axis=1)
    outputs = 2 * shares - 1
    return np.where(y == 1, 1, -1)[:, None] * outputs / np.abs(outputs).max(axis=0)


def make_forest():
    X, y = noisy(120)
    forest = RandomForestClassifier(30, max_depth=3, random_state=0).fit(X, y)
    return forest, X, y, margins_of(forest, X, y)


def soft_margin_of(margins, votes):
    """The soft margin of votes: the mean of the smallest margins, a share NU of all."""
    sizes = np.sort(margins @ votes)
    count = NU * len(sizes)
    weights = np.clip(count - np.arange(len(sizes)), 0, 1)
    return sizes @ weights / count


def largest_soft_margin(margins):
    """The optimum over votes of sum one, by HiGHS."""
    m, size = margins.shape
    costs = np.concatenate([np.zeros(size), np.full(m, 1 / (NU * m)), [-1.0]])
    found = linprog(
        costs,
        A_ub=np.concatenate([-margins, -np.eye(m), np.ones((m, 1))], axis=1),
        b_ub=np.zeros(m),
        A_eq=np.concatenate([np.ones(size), np.zeros(m + 1)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (size + m) + [(None, None)],
    )
    return -found.fun


def assert_bounds_hold(thin, margins, *, signed=False):
    """Votes and example weights prove the bounds by themselves, which enclose the optimum over
    votes of sum one; if `signed`, over votes of either sign.
    """
    columns = np.concatenate([margins, -margins], axis=1) if signed else margins
    certificate, optimum = thin.certificate_, largest_soft_margin(columns)
    assert certificate.lower_bound <= optimum + 1e-6
    assert certificate.upper_bound >= optimum - 1e-6
    attained = soft_margin_of(margins, thin.coefficients_)
    np.testing.assert_allclose(attained, certificate.lower_bound, atol=1e-5)
    weights = certificate.example_weights / certificate.example_weights.sum()
    excess = np.maximum(weights - 1 / (NU * len(margins)), 0).sum()  # margins are at least -1
    proven = (weights @ columns).max() + 2 * excess
    np.testing.assert_allclose(proven, certificate.upper_bound, atol=1e-5)


def test_a_time_limit_ends_lpboost_with_valid_bounds(monkeypatch):
    monkeypatch.setattr(thinner, "_PIVOTS_OF_STAGE", 2)
    forest, X, y, margins = make_forest()
    options = {"nu": NU, "calibration": None}
    stopped = js.MarginThinner(forest, max_seconds=1e-9, **options).fit(X, y)
    assert stopped.status_ == Status.TIME_LIMIT
    assert stopped.certificate_.upper_bound - stopped.certificate_.lower_bound > 1e-2
    assert_bounds_hold(stopped, margins)
    whole = js.MarginThinner(forest, max_seconds=1e6, tolerance=1e-4, **options).fit(X, y)
    assert whole.status_ == Status.OPTIMAL
    assert whole.certificate_.upper_bound - whole.certificate_.lower_bound <= 1e-4
    assert_bounds_hold(whole, margins)


def test_a_time_limit_ends_the_relaxed_margin_with_valid_bounds():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 5))
    y = (X[:, 0] + 2 * generator.normal(size=300) > 0).astype(int)
    # of labels that say nothing, so that the votes take more than one stage
    forest = RandomForestClassifier(250, max_depth=6, random_state=0).fit(X, generator.permuted(y))
    options = {"nu": NU, "calibration": None, "method": "relaxed_margin", "tolerance": 1e-5}
    stopped = js.MarginThinner(forest, max_seconds=1e-9, **options).fit(X, y)
    assert stopped.status_ == Status.TIME_LIMIT
    assert stopped.certificate_.upper_bound - stopped.certificate_.lower_bound > 1e-5
    assert_bounds_hold(stopped, margins_of(forest, X, y), signed=True)


def test_folds_share_the_time_limit():
    forest, X, y, margins = make_forest()
    thin = js.MarginThinner(forest, nu=NU, num_folds=3, max_seconds=1e-9, random_state=0)
    assert_bounds_hold(thin.fit(X, y), margins)
    assert thin.predict_proba(X).shape == (120, 2)


def test_stages_that_find_nothing_better_end():
    calls = []

    def solve(*, config, initial=None):
        calls.append(initial)
        return lpboost.LPBoostSolution(
            np.ones(1), np.ones(1), np.float32(0), np.float32(1), 2, (), Status.ITERATION_LIMIT
        )

    found = thinner._in_stages(solve, 1e-3, FitClock(None))
    assert len(calls) == thinner._MOST_STAGES
    assert found.status == Status.ITERATION_LIMIT
