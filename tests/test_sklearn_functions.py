"""Estimators equal the functions of jboost for the same rows and seed, bit by bit. Several classes
and folds in one vmapped call, as on an accelerator, equal one fit after another.
"""

import jax
import numpy as np
import pytest
from sklearn.base import clone

import jboost
import jboost.sklearn as js
from jboost.base import devices
from jboost.l0.margins import usual_margin
from jboost.monomials import costs
from jboost.sklearn import tables
from jboost.sklearn.stumps import dataset_of
from marks import slow_but

STUMPS = jboost.learners.stumps()


def noisy(num_rows=60, num_columns=3, seed=0):
    """Rows whose first two columns tell the class, but for a tenth of the labels."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(num_rows, num_columns))
    y = (X[:, 0] + X[:, 1] > 0) ^ (generator.random(num_rows) < 0.1)
    return X, y.astype(int)


def assert_same(found, expected):
    """Ensembles or models are equal bit by bit."""
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


BOOSTERS = {
    "adaboost": (js.AdaBoostClassifier(max_rounds=9), {}),
    "infoboost": (js.InfoBoostClassifier(max_rounds=9, smoothing=0.01), {"smoothing": 0.01}),
    "lpboost": (js.LPBoostClassifier(max_rounds=9, nu=0.4), {"nu": 0.4, "tolerance": 1e-3}),
    "relaxed_margin": (
        js.RelaxedMarginClassifier(max_rounds=5, nu=0.4),
        {"relaxation": jboost.relaxations.soft_margin(nu=0.4), "tolerance": 1e-2},
    ),
}


COST = jboost.relaxations.squared_norm(0.1)
RELAXED = {"relaxation": jboost.relaxations.soft_margin(nu=0.4), "votes": COST, "stop_on": "seen"}
# further options that the estimator and the function share
WITH_OPTIONS = {
    "adaboost": (
        js.AdaBoostClassifier(max_rounds=9, margin_precision=0.5),
        {"margin_precision": 0.5},
    ),
    "lpboost": (
        js.LPBoostClassifier(max_rounds=9, nu=0.4, tolerance=0.1, stop_on="seen"),
        {"nu": 0.4, "tolerance": 0.1, "stop_on": "seen"},
    ),
    "relaxed_margin": (
        js.RelaxedMarginClassifier(max_rounds=5, **RELAXED),
        {"tolerance": 1e-2, **RELAXED},
    ),
}


@pytest.mark.parametrize(
    "name, case",
    [
        *((name, case) for name, case in BOOSTERS.items()),
        *((name, case) for name, case in WITH_OPTIONS.items()),
    ],
    ids=[*BOOSTERS, *(f"{name}-options" for name in WITH_OPTIONS)],
)
def test_boosters_equal_the_function(name, case):
    model, options = case
    X, y = noisy()
    model = clone(model).set_params(calibration=None).fit(X, y)
    rows = tables.merge(X, y, np.ones(len(y)))
    seen, dataset = model.prepare(rows, rows.signs(1))
    fit = getattr(jboost, name).fit
    expected = fit(dataset, STUMPS, max_rounds=model.max_rounds, **options)
    assert_same(model.votes_[0].ensemble, expected.ensemble)
    assert_same(model.certificate_, expected.certificate)
    scores = jboost.predict_scores(expected.ensemble, seen.matrix(X))
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-6)


def bits_of(model, X, y):
    """The rows, and the features of a fitted estimator of rules."""
    rows = tables.merge(X, y, np.ones(len(y)))
    seen = model.votes_[0].features
    return rows, seen, seen.matrix(rows.table)


def test_slipper_equals_the_function_of_the_same_key():
    X, y = noisy()
    model = js.SlipperClassifier(num_rounds=6, calibration=None, random_state=4).fit(X, y)
    rows, _, bits = bits_of(model, X, y)
    expected = jboost.slipper.fit(
        dataset_of(bits, rows.signs(1), rows.weights),
        jboost.slipper.rules(model.max_order, positive=model.positive),
        key=devices.key_of(np.random.RandomState(4).randint(np.iinfo(np.int32).max)),
        max_rounds=model.max_rounds,
        num_rounds=6,
    )
    assert_same(model.votes_[0].ensemble, expected.ensemble)


def test_rules_equal_the_function():
    X, y = noisy()
    model = js.RuleClassifier(max_rules=3, max_rounds=2, max_cuts=64, calibration=None).fit(X, y)
    rows, seen, bits = bits_of(model, X, y)
    width = seen.binarizer.num_bits
    cost = costs.mdl(1.5, num_attributes=width, num_examples=float(len(y)))
    expected = jboost.l0.fit_large(
        jboost.make_dataset(bits[:, :width], rows.signs(1)),
        jboost.learners.monomials(2, cost=cost),
        margin=usual_margin(float(len(y))),
        tolerance=1e-2,
        max_rounds=2,
        max_columns=1024,
        max_cuts=64,
        search=jboost.l0.SearchConfig(max_hypotheses=3),
    )
    ensemble = model.votes_[0].ensemble
    assert_same(
        (ensemble.votes, ensemble.constant, ensemble.hypotheses.literals[:, :width]),
        (
            expected.ensemble.votes,
            expected.ensemble.constant,
            expected.ensemble.hypotheses.literals,
        ),
    )
    assert_same(model.certificate_, expected.certificate)


@pytest.mark.parametrize("name", slow_but(BOOSTERS, "adaboost"))
def test_classes_and_folds_in_one_call_equal_one_after_another(name, monkeypatch):
    X, _ = noisy(70)
    y = np.digitize(X[:, 0] + 0.1 * X[:, 1], [-0.5, 0.5])
    model = clone(BOOSTERS[name][0]).set_params(cv=2, random_state=0)
    expected = clone(model).fit(X, y)
    monkeypatch.setattr(devices, "platform", lambda: "gpu")
    found = clone(model).fit(X, y)
    assert [float(one.lower_bound) for one in found.certificate_] == pytest.approx(
        [float(one.lower_bound) for one in expected.certificate_], abs=2e-3
    )
    # of LP-Boost and the relaxed margin several votes are optimal within the tolerance
    assert np.mean(found.predict(X) == expected.predict(X)) > 0.95
    if name in ("adaboost", "infoboost"):
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-3)


def test_a_class_without_rows_in_a_fold_has_a_constant_vote_in_one_call(monkeypatch):
    X, _ = noisy(30)
    y = np.array([0] * 14 + [1] * 14 + [2] * 2)
    parts = [(np.arange(28), np.arange(28, 30)), (np.arange(30), np.arange(5))]
    monkeypatch.setattr(devices, "platform", lambda: "gpu")
    model = js.AdaBoostClassifier(max_rounds=3, cv=parts).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.slow
def test_trees_in_one_call_are_those_of_one_after_another(monkeypatch):
    X, _ = noisy(70)
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    model = js.AdaBoostClassifier(max_rounds=4, max_depth=2, cv=2, random_state=0)
    expected = clone(model).fit(X, y).predict_proba(X)
    monkeypatch.setattr(devices, "platform", lambda: "gpu")
    np.testing.assert_allclose(clone(model).fit(X, y).predict_proba(X), expected, atol=1e-5)
