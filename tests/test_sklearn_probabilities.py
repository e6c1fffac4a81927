"""Probabilities of the estimators that combine other classifiers."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import jboost
import jboost.sklearn as js
from jboost.sklearn import calibration

PAIR = [("logistic", LogisticRegression()), ("bayes", GaussianNB())]


def noisy(num_rows=90, seed=0):
    """Rows whose first two columns tell the class, but for a fifth of the labels."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(num_rows, 3))
    return X, (X[:, 0] + X[:, 1] > 0) ^ (generator.random(num_rows) < 0.2)


def isotonic(held_out, is_class, weights, scores):
    """Isotonic regression on held-out scores, on the side of 1/2 of the predicted class."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(held_out, is_class, weights)
    found = fitted.predict(scores)
    return np.where(scores > 0, np.maximum(found, 0.5), np.minimum(found, 0.5))


def scores_of_pair(models, X):
    logistic, bayes = models
    return np.stack([logistic.decision_function(X), 2 * bayes.predict_proba(X)[:, 1] - 1], axis=1)


@pytest.mark.slow
def test_optimal_vote_is_calibrated_on_rows_that_no_part_was_trained_on():
    X, y = noisy()
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    folds = list(StratifiedKFold(3).split(X, y))
    cross = np.zeros((len(y), 2))
    for training, testing in folds:
        models = [
            clone(one).fit(X[training], y[training], sample_weight=weights[training])
            for _, one in PAIR
        ]
        cross[testing] = scores_of_pair(models, X[testing])
    held_out = np.zeros(len(y))
    for training, testing in folds:
        vote = jboost.combine.fit(
            jnp.asarray(cross[training], jnp.float32),
            np.where(y[training], 1, -1),
            weights=weights[training],
        )
        size = np.abs(vote.coefficients).sum()
        held_out[testing] = jboost.predict_scores(vote, jnp.asarray(cross[testing])) / size
    model = js.OptimalVoteClassifier(PAIR, cv=3, calibration="isotonic")
    model.fit(X, y, sample_weight=weights)
    scores = model.decision_function(X) / np.abs(model.votes_[0].coefficients).sum()
    kept = weights > 0
    expected = isotonic(held_out[kept], y[kept], weights[kept], scores)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_probabilities_of_an_optimal_vote_agree_with_its_predictions(method):
    X, y = noisy()
    for labels in (y, y + (X[:, 2] > 0)):
        for cv in (3, "prefit"):
            pairs = PAIR if cv == 3 else [(name, clone(one).fit(X, labels)) for name, one in PAIR]
            model = js.OptimalVoteClassifier(pairs, cv=cv, calibration=method).fit(X, labels)
            found = model.predict_proba(X)
            np.testing.assert_allclose(found.sum(axis=1), 1)
            assert (model.classes_[found.argmax(axis=1)] == model.predict(X)).all()
            assert found.shape == (len(y), len(model.classes_))


def test_a_constant_piece_around_zero_leaves_the_class_to_the_score():
    scores, covered = np.array([-2.0, -1.0, 1.0, 2.0]), np.ones(4, bool)
    is_class = np.array([False, True, False, True])  # 1/2 from -1 to 1
    found = calibration.fit(
        scores, is_class, np.ones(4), "isotonic", is_covered=covered, base_rate=0.5
    )(scores, covered)
    assert ((found > 1 - found) == (scores > 0)).all()


def test_probabilities_are_those_of_the_function_where_it_names_the_predicted_class():
    rng = np.random.default_rng(0)
    scores, covered = rng.normal(size=400), np.ones(400, bool)
    is_class = rng.random(400) < 1 / (1 + np.exp(1.5 - 2 * scores))  # 1/2 at the score 3/4
    for method in calibration.METHODS:
        fitted = calibration.fit(
            scores, is_class, np.ones(400), method, is_covered=covered, base_rate=0.3
        )
        found, plain = fitted(scores, covered), fitted.function(scores)
        names_same = (plain > 0.5) == (scores > 0)
        assert 0.5 < names_same.mean() < 1
        assert (found[names_same] == plain[names_same]).all()
        np.testing.assert_allclose(found[~names_same], 0.5, rtol=1e-15)


def test_scores_that_say_nothing_leave_the_base_rate():
    scores, covered = np.array([-2.0, -1.0, 1.0, 2.0]), np.ones(4, bool)
    is_class = np.array([True, False, False, False])  # lower scores for the class
    for method in calibration.METHODS:
        fitted = calibration.fit(
            scores, is_class, np.ones(4), method, is_covered=covered, base_rate=0.25
        )
        np.testing.assert_allclose(fitted(scores, covered), [0.25, 0.25, 0.5, 0.5], rtol=1e-15)


def test_prefit_classifiers_with_a_class_of_one_row_are_calibrated_on_their_own_rows():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    y = np.array([0, 0, 0, 1])
    inner = LogisticRegression(C=100.0).fit(X, y)
    model = js.OptimalVoteClassifier([("one", inner)], cv="prefit").fit(X, y)
    assert model.predict_proba(X).argmax(axis=1).tolist() == model.predict(X).tolist()


def test_probabilities_of_prefit_classifiers_do_not_depend_on_rows_of_weight_0():
    X, y = noisy(40)
    inner = LogisticRegression().fit(X, y)
    model = js.OptimalVoteClassifier([("one", inner)], cv="prefit")
    expected = model.fit(X, y).predict_proba(X)
    longer, labels = np.concatenate([X[:7], X]), np.concatenate([1 - y[:7], y])
    weights = np.concatenate([np.zeros(7), np.ones(len(y))])
    model.fit(longer, labels, sample_weight=weights)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-6)


@pytest.mark.slow
def test_margin_thinner_is_calibrated_on_rows_that_chose_no_votes():
    X, y = noisy(120)
    weights = np.random.default_rng(2).integers(0, 3, len(y)).astype(float)
    forest = RandomForestClassifier(8, max_depth=2, random_state=0).fit(X[:40], y[:40])
    thin = js.MarginThinner(forest, nu=0.8, num_folds=3, calibration="isotonic", random_state=0)
    thin.fit(X[40:], y[40:], sample_weight=weights[40:])
    assert len(thin.kept_) > 0
    X, y, weights = X[40:][weights[40:] > 0], y[40:][weights[40:] > 0], weights[40:]
    weights = weights[weights > 0]
    outputs = np.stack([2 * one.predict_proba(X)[:, 1] - 1 for one in forest.estimators_], axis=1)
    outputs = outputs / thin._scales
    signs, held_out = np.where(y, 1.0, -1.0), np.zeros(len(y))
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    for training, testing in splitter.split(X, y):
        found = jboost.lpboost.solve(
            jnp.asarray(signs[training, None] * outputs[training], jnp.float32),
            nu=0.8,
            weights=weights[training],
            tolerance=1e-3,
        )
        held_out[testing] = outputs[testing] @ np.asarray(found.coefficients, np.float64)
    expected = isotonic(held_out, y, weights, thin.decision_function(X))
    found = thin.predict_proba(X)
    np.testing.assert_allclose(found[:, 1], expected, atol=2e-2)
    assert np.median(np.abs(found[:, 1] - expected)) < 1e-6
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_margin_thinner_that_fits_its_ensemble_has_probabilities():
    X, y = noisy(120)
    thin = js.MarginThinner(RandomForestClassifier(6, random_state=0), random_state=0).fit(X, y)
    found = thin.predict_proba(X)
    assert (thin.classes_[found.argmax(axis=1)] == thin.predict(X)).all()
    order = np.argsort(thin.decision_function(X))
    assert (np.diff(found[order, 1]) >= 0).all()


def test_calibration_of_none_has_no_predict_proba_and_bad_options_are_named():
    X, y = noisy(30)
    vote, thin = js.OptimalVoteClassifier(PAIR), js.MarginThinner(RandomForestClassifier(3))
    for model in (vote, thin):
        assert hasattr(model, "predict_proba")
        assert not hasattr(clone(model).set_params(calibration=None), "predict_proba")
        with pytest.raises(ValueError, match="calibration is 'platt'"):
            clone(model).set_params(calibration="platt").fit(X, y)
    with pytest.raises(ValueError, match="num_folds is 1"):
        thin.set_params(num_folds=1).fit(X, y)
