"""How many programs the estimators compile for training rows of many sizes."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import jboost.sklearn as js

# rows, columns, classes
SHAPES = (
    *((20, 1, 2), (120, 10, 3), (35, 2, 2), (50, 3, 3), (64, 4, 2), (77, 5, 3)),
    *((90, 6, 2), (100, 7, 3), (110, 8, 2), (28, 9, 3), (43, 10, 2), (57, 1, 3)),
)
# The most compilations of all fits and predictions: those of the method, and the check for options
# of the compiler, which is done once in a process.
MOST = {
    "AdaBoostClassifier": (js.AdaBoostClassifier(max_rounds=5, cv=2), 3),
    "InfoBoostClassifier": (js.InfoBoostClassifier(max_rounds=5, cv=2), 3),
    "LPBoostClassifier": (js.LPBoostClassifier(nu=0.3, max_rounds=5, cv=2), 3),
    "RelaxedMarginClassifier": (js.RelaxedMarginClassifier(nu=0.3, max_rounds=3, cv=2), 4),
    "SlipperClassifier": (js.SlipperClassifier(max_rounds=5, cv=2), 4),
    # the measure for two columns has programs of its own, as its formula depends on the dimension
    "ExampleWeightsClassifier": (js.ExampleWeightsClassifier(penalty=0.2, cv=2), 4),
    "OptimalVoteClassifier": (
        js.OptimalVoteClassifier(
            [("logistic", LogisticRegression()), ("bayes", GaussianNB())], cv=2
        ),
        2,
    ),
    "MarginThinner": (js.MarginThinner(RandomForestClassifier(5, random_state=0)), 1),
}


def rows_of(index):
    """Rows of the shape of this index, and labels that the first column tells but for noise."""
    num_rows, num_columns, num_classes = SHAPES[index]
    generator = np.random.default_rng(index)
    X = generator.normal(size=(num_rows, num_columns))
    values = X[:, 0] + 0.5 * generator.normal(size=num_rows)
    return X, np.digitize(values, np.quantile(values, np.arange(1, num_classes) / num_classes))


def fit_all(model):
    """Fits and predictions of all shapes."""
    for index in range(len(SHAPES)):
        X, y = rows_of(index)
        y = np.minimum(y, 1) if isinstance(model, js.MarginThinner) else y
        fitted = clone(model).fit(X, y)
        assert fitted.predict(X[: len(X) // 2]).shape == (len(X) // 2,)
        if hasattr(fitted, "predict_proba"):
            assert fitted.predict_proba(X).shape == (len(X), len(np.unique(y)))


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST)
def test_fits_of_many_shapes_share_programs(name, compilations):
    model, most = MOST[name]
    jax.clear_caches()
    fit_all(model)
    assert 0 < compilations() <= most


@pytest.mark.slow
def test_rules_of_many_shapes_share_programs(compilations):
    """The prices of rules, the master, the search for votes, and the prediction."""
    jax.clear_caches()
    fit_all(js.RuleClassifier(calibration=None, max_rules=3, max_rounds=1))
    assert 0 < compilations() <= 4


def test_bits_compile_nothing(compilations):
    for index in range(len(SHAPES)):
        X, _ = rows_of(index)
        bits = js.Binarizer().fit(X).transform(X)
        assert len(bits) == len(X)
    assert compilations() == 0


def test_a_second_fit_of_other_sizes_compiles_nothing(compilations):
    model = js.AdaBoostClassifier(max_rounds=3, calibration=None)
    clone(model).fit(*rows_of(0)).predict(rows_of(0)[0])
    before = compilations()
    for index in (1, 2):
        X, y = rows_of(index)
        clone(model).fit(X, y).predict(X)
    assert compilations() == before


def test_monomials_of_another_width_than_new_ones_predict_the_same():
    """As those of a file of an earlier version, which padded few bits to 32 columns."""
    X, y = rows_of(2)
    model = js.SlipperClassifier(max_rounds=3, calibration=None, random_state=0).fit(X, y)
    (vote,) = model.votes_
    hypotheses = vote.ensemble.hypotheses
    narrow = hypotheses._replace(literals=hypotheses.literals[:, :32])
    assert not np.any(hypotheses.literals[:, 32:])
    assert np.any(narrow.literals)
    expected = model.decision_function(X)
    ensemble = vote.ensemble._replace(hypotheses=narrow)
    model.votes_ = [dataclasses.replace(vote, ensemble=ensemble)]
    assert model.decision_function(X).tolist() == expected.tolist()
