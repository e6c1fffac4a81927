"""Metadata routing of scikit-learn: weights and groups through pipelines and searches."""

import types
from typing import ClassVar

import jax
import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import jboost.sklearn as js
from jboost.combine import LinearVote

BOOSTERS = (
    js.AdaBoostClassifier,
    js.InfoBoostClassifier,
    js.LPBoostClassifier,
    js.RelaxedMarginClassifier,
    js.RuleClassifier,
    js.SlipperClassifier,
)
NUM_GROUPS, SIZE = 6, 4
ROWS = np.arange(NUM_GROUPS * SIZE)
X = ROWS[:, None].astype(float)  # a row is its index
Y = ROWS % 2
WEIGHTS = 1.0 + ROWS
GROUPS = ROWS // SIZE


@pytest.fixture(autouse=True)
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Line:
    """A vote whose score is the index of the row, less a half of the rows."""

    model = types.SimpleNamespace(penalty=1.0)

    def scores(self, table):
        return table[:, 0] - len(ROWS) / 2

    def covers(self, table, scores):
        return np.ones(len(table), bool)


def record_fits(kind, monkeypatch):
    """The training rows of each vote that is fitted, without fitting it."""
    seen = []

    def fit_vote(self, rows, signs, options, watch):
        seen.append(rows)
        return Line()

    monkeypatch.setattr(kind, "_fit_vote", fit_vote)
    return seen


def assert_whole_groups(indices):
    """Every group is in as a whole or not at all, and one at least is not."""
    counts = np.bincount(GROUPS[indices], minlength=NUM_GROUPS)
    assert set(counts.tolist()) <= {0, SIZE}
    assert 0 in counts.tolist()


def requested(estimator, method):
    return set(estimator.get_metadata_routing()._serialize().get(method, {}))


@pytest.mark.parametrize("kind", BOOSTERS)
def test_fit_takes_weights_and_groups_and_score_takes_weights(kind):
    assert requested(kind(), "fit") == {"sample_weight", "groups"}
    assert requested(kind(), "score") == {"sample_weight"}


def test_estimators_without_weights_request_none():
    assert requested(js.ExampleWeightsClassifier(), "fit") == {"groups"}
    assert requested(js.Binarizer(), "fit") == set()


@pytest.mark.parametrize("kind", BOOSTERS)
def test_grid_search_of_a_pipeline_passes_weights_and_groups(kind, monkeypatch):
    seen = record_fits(kind, monkeypatch)
    model = kind(cv=GroupKFold(2)).set_fit_request(sample_weight=True, groups=True)
    model.set_score_request(sample_weight=True)
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), model),
        {f"{kind.__name__.lower()}__calibration": ["sigmoid"]},
        cv=GroupKFold(3),
        refit=False,
    )
    search.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
    assert len(seen) >= 3 * 3  # two folds and the whole part, in each of three parts
    for rows in seen:
        indices = rows.table[:, 0].astype(int)
        assert_whole_groups(indices)
        assert rows.weights.tolist() == WEIGHTS[indices].tolist()


@pytest.mark.parametrize("kind", [*BOOSTERS, js.ExampleWeightsClassifier])
def test_cross_validate_passes_groups(kind, monkeypatch):
    seen = record_fits(kind, monkeypatch)
    model = kind(cv=GroupKFold(2)).set_fit_request(groups=True)
    cross_validate(make_pipeline(model), X, Y, params={"groups": GROUPS}, cv=GroupKFold(3))
    assert len(seen) >= 3 * 3
    for rows in seen:
        assert_whole_groups(rows.table[:, 0].astype(int))
        assert rows.weights.tolist() == [1.0] * len(rows.weights)


@pytest.mark.parametrize("name", ["sample_weight", "groups"])
def test_metadata_without_a_request_are_refused(name, monkeypatch):
    record_fits(js.AdaBoostClassifier, monkeypatch)
    with pytest.raises(UnsetMetadataPassedError, match=name):
        make_pipeline(js.AdaBoostClassifier()).fit(X, Y, **{name: WEIGHTS})
    fitted = make_pipeline(
        js.AdaBoostClassifier().set_fit_request(sample_weight=False, groups=False)
    )
    with pytest.raises(TypeError, match=name):
        fitted.fit(X, Y, **{name: WEIGHTS})


class Recorder(ClassifierMixin, BaseEstimator):
    """Scores a row by its index, and records the weights of its fits."""

    calls: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        given = None if sample_weight is None else list(sample_weight)
        type(self).calls.append((X[:, 0].astype(int).tolist(), given))
        return self

    def decision_function(self, X):
        return X[:, 0] - len(ROWS) / 2


class Other(Recorder):
    calls: ClassVar[list] = []


@pytest.fixture
def calls(monkeypatch):
    """Empty records, and votes that are not fitted."""
    Recorder.calls, Other.calls = [], []

    def vote(self, scores, signs, weights, clock):
        return jax.tree.map(
            np.asarray,
            LinearVote(np.ones(scores.shape[1]), 0.0, 0.0, 0.0, 0.0, signs < 0, 0),
        )

    monkeypatch.setattr(js.OptimalVoteClassifier, "_vote", vote)


def solve_by_ones(self, margins, weights, clock):
    """A vote of 1 for each member, in place of `MarginThinner._solve`."""
    ones = np.ones(margins.shape[1])
    return types.SimpleNamespace(
        coefficients=ones, lower_bound=0, upper_bound=0, example_weights=weights, status=0
    )


def test_optimal_vote_routes_weights_to_those_that_request_them_and_groups_to_cv(calls):
    pairs = [
        ("asks", Recorder().set_fit_request(sample_weight=True)),
        ("refuses", Other().set_fit_request(sample_weight=False)),
    ]
    model = js.OptimalVoteClassifier(pairs, cv=GroupKFold(3), calibration=None)
    model.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
    assert len(Recorder.calls) == len(Other.calls) == 4
    for indices, weights in Recorder.calls[:3]:
        assert_whole_groups(indices)
        assert weights == WEIGHTS[indices].tolist()
    assert Recorder.calls[3] == (ROWS.tolist(), WEIGHTS.tolist())
    assert [weights for _, weights in Other.calls] == [None] * 4
    unset = js.OptimalVoteClassifier([("unset", Recorder())], calibration=None)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        unset.fit(X, Y, sample_weight=WEIGHTS)


def test_optimal_vote_in_a_search_gets_its_own_weights(calls):
    inner = Recorder().set_fit_request(sample_weight=True)
    model = js.OptimalVoteClassifier([("asks", inner)], cv=GroupKFold(2), calibration=None)
    model.set_fit_request(sample_weight=True, groups=True).set_score_request(sample_weight=True)
    cross_validate(
        make_pipeline(model),
        X,
        Y,
        params={"sample_weight": WEIGHTS, "groups": GROUPS},
        cv=GroupKFold(3),
    )
    assert len(Recorder.calls) == 9
    for indices, weights in Recorder.calls:
        assert_whole_groups(indices)
        assert weights == WEIGHTS[indices].tolist()


def test_estimators_that_fit_others_need_no_metadata(calls, monkeypatch):
    model = js.OptimalVoteClassifier([("one", Recorder())], cv=3, calibration=None).fit(X, Y)
    assert [weights for _, weights in Recorder.calls] == [None] * 4
    assert model.predict(X[:1]).shape == (1,)
    monkeypatch.setattr(js.MarginThinner, "_solve", solve_by_ones)
    forest = RandomForestClassifier(3, max_depth=1, random_state=0)
    thin = js.MarginThinner(forest, calibration=None, random_state=0).fit(X, Y)
    assert thin.predict(X).shape == Y.shape


def test_without_routing_weights_go_to_all_classifiers(calls):
    with sklearn.config_context(enable_metadata_routing=False):
        pairs = [("one", Recorder()), ("two", Other())]
        model = js.OptimalVoteClassifier(pairs, cv=GroupKFold(3), calibration=None)
        model.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
        assert Recorder.calls == Other.calls
        assert Recorder.calls[3] == (ROWS.tolist(), WEIGHTS.tolist())


@pytest.mark.parametrize("asks", [True, False])
def test_margin_thinner_routes_weights_to_an_ensemble_that_it_fits(asks, monkeypatch):
    seen = []
    fit = RandomForestClassifier.fit

    def record(self, X, y, sample_weight=None):
        seen.append((X[:, 0].astype(int), sample_weight))
        return fit(self, X, y)

    monkeypatch.setattr(RandomForestClassifier, "fit", record)
    monkeypatch.setattr(js.MarginThinner, "_solve", solve_by_ones)
    inner = RandomForestClassifier(3, max_depth=1, random_state=0)
    inner.set_fit_request(sample_weight=asks)
    model = js.MarginThinner(inner, calibration=None, random_state=0)
    model.set_fit_request(sample_weight=True)
    make_pipeline(model).fit(X, Y, sample_weight=WEIGHTS)
    ((indices, weights),) = seen
    assert len(indices) < len(ROWS)
    expected = WEIGHTS[indices].tolist() if asks else None
    assert (weights if weights is None else weights.tolist()) == expected
    fitted = js.MarginThinner(fit(inner, X, Y))
    fitted.fit(X, Y, sample_weight=WEIGHTS)  # the ensemble is not fitted: it gets no weights
