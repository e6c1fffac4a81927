"""Boosters of trees as estimators: `max_depth`."""

import pickle

import jax
import numpy as np
import pandas
import pytest
from sklearn.base import clone

import jboost
import jboost.sklearn as js
from jboost.sklearn import tables


def checkerboard(num_rows=60):
    """Rows whose class no stump tells, but one tree of depth 2."""
    X = np.round(np.random.default_rng(0).normal(size=(num_rows, 3)), 1)
    return X, ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)


def test_trees_of_depth_two_are_certified_and_equal_the_function(tmp_path):
    X, y = checkerboard()
    model = js.LPBoostClassifier(max_rounds=5, max_depth=2, nu=0.5, calibration=None).fit(X, y)
    assert model.score(X, y) == 1
    bounds = model.certificate_
    assert 0.999 < bounds.lower_bound <= bounds.upper_bound < 1.001
    rows = tables.merge(X, y, np.ones(len(y)))
    dataset = model.prepare(rows, rows.signs(1))[1]
    learner = jboost.learners.trees(2)
    expected = jboost.lpboost.fit(dataset, learner, max_rounds=5, nu=0.5, tolerance=1e-3)
    found = model.votes_[0].ensemble
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected.ensemble), strict=True):
        np.testing.assert_array_equal(one, other)
    assert "if x0 > " in str(model.rules_)
    assert model.feature_importances_.tolist() == [0.5, 0.5, 0.0]
    js.save(model, tmp_path / "model.npz")
    for copy in (pickle.loads(pickle.dumps(model)), js.load(tmp_path / "model.npz")):
        assert copy.max_depth == 2
        assert copy.decision_function(X).tolist() == model.decision_function(X).tolist()
        assert str(copy.rules_) == str(model.rules_)
    module = {}
    exec(jboost.export.to_python(found, names=["x0", "x1", "x2"]), module)
    scores = [module["score"](dict(zip(("x0", "x1", "x2"), row, strict=True))) for row in X]
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-6)


def test_deeper_trees_take_text_missing_values_and_several_classes():
    X, y = checkerboard(90)
    y = y + (X[:, 2] > 0.5)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["a"] = np.where(X[:, 0] > 0, "high", "low")
    frame.loc[::7, "b"] = np.nan
    model = js.AdaBoostClassifier(max_rounds=4, max_depth=3, cv=2, random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.8
    assert model.predict_proba(frame).shape == (90, 3)
    assert "a == high" in str(model.rules_)
    assert model.feature_importances_.min() > 0
    stumps = clone(model).set_params(max_depth=1, calibration=None).fit(frame, y)
    assert stumps.score(frame, y) < model.score(frame, y)


@pytest.mark.parametrize("kind", [js.InfoBoostClassifier, js.RelaxedMarginClassifier])
def test_other_boosters_take_trees(kind):
    X, y = checkerboard()
    model = kind(max_rounds=3, max_depth=2, calibration=None)
    if kind is js.RelaxedMarginClassifier:
        model.set_params(nu=0.5)
    assert model.fit(X, y).score(X, y) == 1


def test_warm_starts_and_early_stopping_of_trees():
    X, y = checkerboard()
    y = y ^ (np.arange(60) % 9 == 0)
    model = js.AdaBoostClassifier(max_rounds=3, warm_start=True, calibration=None).fit(X, y)
    stumps = set(model._new_states)
    model.set_params(max_depth=2).fit(X, y)
    assert not stumps & set(model._new_states)
    fresh = clone(model).set_params(warm_start=False).fit(X, y)
    assert model.decision_function(X).tolist() == fresh.decision_function(X).tolist()
    model.set_params(warm_start=False, early_stopping=True, validation_fraction=0.3, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.7
