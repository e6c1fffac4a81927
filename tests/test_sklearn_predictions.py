"""The predicted class has the highest probability, also where no rule votes."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone

import jboost
import jboost.sklearn as js
from jboost.sklearn import calibration

BOOSTER = js.AdaBoostClassifier(max_rounds=5, random_state=0)


def rows_of(counts, seed=0):
    """Rows of several classes, with one column for each class: one stump separates a class."""
    codes = np.repeat(np.arange(len(counts)), counts)
    noise = np.random.default_rng(seed).normal(size=(len(codes), len(counts)))
    return np.eye(len(counts))[codes] + 0.01 * noise, np.array([*"abc"])[codes]


@pytest.mark.parametrize("counts", [(10, 50), (50, 10), (10, 20, 30), (10, 30, 20)])
def test_a_row_without_votes_has_the_class_of_highest_base_rate(counts):
    X, y = rows_of(counts)
    missing = np.full((1, X.shape[1]), np.nan)
    model = clone(BOOSTER).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(missing)[0], np.divide(counts, 60))
    expected = ["abc"[np.argmax(counts)]]
    assert model.predict(missing).tolist() == expected
    assert not model.decision_function(missing).any()
    assert model.set_params(calibration=None).fit(X, y).predict(missing).tolist() == expected


@pytest.mark.parametrize(
    "model",
    [
        js.AdaBoostClassifier(max_rounds=5, calibration=None),
        js.SlipperClassifier(max_rounds=5, calibration=None, random_state=0),
    ],
    ids=["stumps", "monomials"],
)
def test_rows_with_a_vote_are_those_of_an_output_that_votes(model):
    X, y = rows_of((10, 20, 30))
    table = np.where(np.random.default_rng(1).random(X.shape) < 0.4, np.nan, X)
    for vote in clone(model).fit(X, y).votes_:
        width = getattr(vote.ensemble.hypotheses, "literals", np.zeros((0, 0))).shape[1] or None
        outputs = np.asarray(
            jboost.ensemble.outputs(vote.ensemble, vote.features.matrix(table, width))
        )
        # without the rules that cover all rows
        votes = vote.ensemble.votes * (outputs == 0).any(axis=1, keepdims=True)
        sides = np.where(outputs > 0, votes[:, :1], votes[:, 1:])
        expected = ((outputs != 0) & (sides != 0)).any(axis=0)
        assert expected.any()
        assert not expected.all()
        nothing = np.zeros_like(vote.ensemble.constant)
        ensemble = vote.ensemble._replace(votes=votes, constant=nothing)
        found = dataclasses.replace(vote, ensemble=ensemble).covers(table, np.zeros(len(table)))
        assert found.tolist() == expected.tolist()


def test_classes_without_votes_share_the_highest_score_and_the_base_rate_decides():
    X, y = rows_of((10, 20, 30))
    model = clone(BOOSTER).fit(X, y)
    rows = np.full((3, 3), np.nan)
    rows[[0, 1, 2], [0, 1, 2]] = 0.0  # a row is not of one class, and nothing else is known
    assert (model.decision_function(rows) < 0).sum(axis=1).tolist() == [1, 1, 1]
    assert model.predict(rows).tolist() == ["c", "c", "b"]
    assert model.classes_[model.predict_proba(rows).argmax(axis=1)].tolist() == ["c", "c", "b"]


def test_predictions_of_rows_with_votes_are_those_of_the_function():
    X, y = rows_of((10, 50))
    model = clone(BOOSTER).set_params(calibration=None).fit(X, y)
    vote = model.votes_[0]
    scores = jboost.predict_scores(vote.ensemble, vote.features.matrix(X))
    assert model.predict(X).tolist() == np.where(np.asarray(scores) > 0, "b", "a").tolist()


def test_base_rates_and_probabilities_have_one_largest_class():
    rates = calibration.base_rates(np.array([0, 1, 2, 2, 2]), np.ones(5), 3)
    assert rates.tolist() == [0.2, 0.2, 0.6]
    assert calibration.base_rates(np.zeros(2, int), np.ones(2), 1).tolist() == [1.0]
    scores = np.where(np.eye(3, dtype=bool)[[1, 0, 2, 2, 2]], 1.0, -1.0)
    covered = np.ones((5, 3), bool)
    codes = np.array([1, 0, 2, 2, 2])
    found = calibration.fit_votes(scores, covered, codes, np.ones(5), rates, "sigmoid")
    nothing = np.zeros((1, 3), bool)
    shares = calibration.probabilities(found, np.zeros((1, 3)), nothing, np.zeros(1, int))
    np.testing.assert_allclose(shares, [[0.2, 0.2, 0.6]])


def test_a_function_of_one_at_zero_leaves_negative_scores_to_the_first_class():
    scores, is_class = np.array([-2.0, -1.0, -1.0]), np.array([False, True, True])
    found = calibration.fit(
        scores, is_class, np.ones(3), "isotonic", is_covered=np.ones(3, bool), base_rate=0.6
    )
    assert found.function(np.zeros(1))[0] > 0.99
    values = found(np.array([-1.5, -0.5, 0.0, 0.5]), np.ones(4, bool))
    assert (np.diff(values) >= 0).all()
    assert values[2] <= 0.5 < values[3]


def test_ties_are_broken_towards_the_predicted_class():
    shares = calibration.normalize(np.full((3, 3), 0.5), np.arange(3))
    assert shares.argmax(axis=1).tolist() == [0, 1, 2]
    np.testing.assert_allclose(shares, 1 / 3, rtol=1e-15)
    assert calibration.normalize(np.zeros((1, 3)), np.array([2])).argmax() == 2


def test_isotonic_probabilities_of_three_classes_agree_with_predictions():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 3))
    y = np.digitize(X[:, 0] + 0.5 * generator.normal(size=80), [-0.5, 1.5])
    rows = 2 * generator.normal(size=(500, 3))
    model = clone(BOOSTER).set_params(max_rounds=8, calibration="isotonic").fit(X, y)
    found = model.predict_proba(rows)
    assert (model.classes_[found.argmax(axis=1)] == model.predict(rows)).all()
