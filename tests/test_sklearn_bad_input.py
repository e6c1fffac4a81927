"""Weights, costs, seeds and folds at their limits: they are taken, or named in a ValueError."""

import inspect

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import jboost.sklearn as js
from jboost.sklearn import tables

BOOSTER = js.AdaBoostClassifier(max_rounds=3, calibration=None, random_state=0)


def noisy(num_rows=80):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(num_rows, 3))
    return X, X.sum(axis=1) + 0.5 * generator.normal(size=num_rows) > 0


@pytest.mark.parametrize(
    "change, message",
    [
        ({"false_positive_cost": np.inf}, "false_positive_cost is inf"),
        ({"false_positive_cost": "a"}, "false_positive_cost is 'a'"),
        ({"false_negative_cost": None}, "false_negative_cost is None"),
        ({"false_negative_cost": np.nan}, "false_negative_cost is nan"),
        ({"class_weight": {False: np.nan, True: 1}}, "class_weight gives"),
        ({"class_weight": {False: -1, True: 1}}, "class_weight gives"),
        ({"class_weight": {False: np.inf, True: 1}}, "class_weight gives"),
        ({"class_weight": {False: 0, True: 0}}, "class_weight gives"),
        ({"warm_start": True, "early_stopping": True}, "warm_start=True and early_stopping=True"),
        ({"max_rounds": 0}, "max_rounds is 0: expected an integer of at least 1"),
        ({"max_depth": 0}, "max_depth is 0: expected an integer from 1 to 10"),
        ({"max_depth": 11}, "max_depth is 11: expected an integer from 1 to 10"),
        ({"max_seconds": "a"}, "max_seconds is 'a': expected a number above 0 or None"),
        ({"max_seconds": True}, "max_seconds is True: expected a number above 0 or None"),
        ({"min_weight_fraction_leaf": 2.0}, "min_weight_fraction_leaf is 2.0: expected a number"),
        ({"min_weight_fraction_leaf": np.nan}, "min_weight_fraction_leaf is nan"),
        (
            {"early_stopping": True, "validation_fraction": 2.0},
            "validation_fraction is 2.0: expected a number above 0 and below 1",
        ),
        ({"validation_fraction": 0}, "validation_fraction is 0: expected a number above 0"),
        ({"early_stopping": "a"}, "early_stopping is 'a': expected True or False"),
        ({"n_iter_no_change": 0}, "n_iter_no_change is 0: expected an integer of at least 1"),
        ({"n_iter_no_change": 2.5}, "n_iter_no_change is 2.5: expected an integer"),
        ({"random_state": -1}, "random_state is -1: expected an integer from 0 to 4294967295"),
        ({"categorical": 1}, "categorical is 1: expected a list"),
        ({"categorical": "x1"}, "categorical is 'x1': expected a list"),
        ({"calibration": "sigmoid", "cv": []}, "cv has no folds"),
    ],
)
def test_limits_of_parameters_are_named(change, message):
    X, y = noisy()
    with pytest.raises(ValueError, match=message):
        clone(BOOSTER).set_params(**change).fit(X, y)


FOREST = RandomForestClassifier(2, random_state=0)
TWO = [("logistic", LogisticRegression()), ("bayes", GaussianNB())]


@pytest.mark.parametrize(
    "model, message",
    [
        (js.InfoBoostClassifier(smoothing=-1), "smoothing is -1: expected a number of at least 0"),
        (js.LPBoostClassifier(nu=0), "nu is 0: expected a number above 0 up to 1 or 'cv'"),
        (js.LPBoostClassifier(tolerance="a"), "tolerance is 'a': expected a number of at least 0"),
        (js.RelaxedMarginClassifier(nu="a"), "nu is 'a': expected a number above 0"),
        (js.RelaxedMarginClassifier(tolerance=None), "tolerance is None"),
        (js.AdaBoostClassifier(margin_precision=0), "margin_precision is 0: expected a number"),
        (js.RuleClassifier(max_cuts=0), "max_cuts is 0: expected an integer of at least 1 or None"),
        (js.RuleClassifier(max_rules=0), "max_rules is 0: expected an integer of at least 1"),
        (js.RuleClassifier(kappa="a"), "kappa is 'a': expected a number of at least 0 or 'cv'"),
        (js.RuleClassifier(margin=2), "margin is 2: expected a number above 0 up to 1 or 'auto'"),
        (js.RuleClassifier(max_columns=0), "max_columns is 0: expected an integer of at least 1"),
        (js.ExampleWeightsClassifier(penalty="a"), "penalty is 'a': expected a number above 0"),
        (js.ExampleWeightsClassifier(penalty=None), "penalty is None: expected a number above 0"),
        (js.ExampleWeightsClassifier(radius="a"), "radius is 'a': expected a number above 0"),
        (js.ExampleWeightsClassifier(radius=None), "radius is None: expected a number above 0"),
        (js.ExampleWeightsClassifier(tolerance="a"), "tolerance is 'a': expected a number"),
        (js.ExampleWeightsClassifier(tolerance=-1), "tolerance is -1: expected a number"),
        (js.MarginThinner(FOREST, validation_fraction=2.0), "validation_fraction is 2.0: expected"),
        (js.MarginThinner(FOREST, num_folds="a"), "num_folds is 'a': expected an integer of at"),
        (js.MarginThinner(FOREST, max_seconds=0), "max_seconds is 0: expected a number above 0"),
        (js.MarginThinner(FOREST, nu=2), "nu is 2: expected a number above 0 up to 1"),
        (js.MarginThinner(3), "estimator is 3: expected an ensemble"),
        (js.OptimalVoteClassifier(TWO, max_sweeps=0), "max_sweeps is 0: expected an integer"),
        (js.OptimalVoteClassifier([("a", 3)]), "estimators holds 3 for 'a': expected a classifier"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_parameters_of_each_estimator_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*noisy())


ESTIMATORS = {
    js.AdaBoostClassifier: {"calibration": None},
    js.InfoBoostClassifier: {"calibration": None},
    js.LPBoostClassifier: {"calibration": None, "nu": 0.5},
    js.RelaxedMarginClassifier: {"calibration": None, "nu": 0.5},
    js.RuleClassifier: {"calibration": None},
    js.SlipperClassifier: {"calibration": None},
    js.ExampleWeightsClassifier: {"calibration": None, "penalty": 0.2},
    js.OptimalVoteClassifier: {"estimators": TWO},
    js.MarginThinner: {"estimator": FOREST},
    js.Binarizer: {},
}


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_an_object_is_refused_by_the_name_of_every_parameter(kind):
    X, y = noisy()
    for name in inspect.signature(kind).parameters:
        fixed = dict(ESTIMATORS[kind])
        if name == "cv" and "calibration" in fixed:
            fixed["calibration"] = "sigmoid"  # else no folds are made
        with pytest.raises(ValueError, match=name):
            kind(**fixed | {name: object()}).fit(X, y)


def test_a_class_of_weight_zero_counts_as_absent():
    X, y = noisy()
    model = clone(BOOSTER).set_params(class_weight={False: 0, True: 1}).fit(X, y)
    assert model.predict(X).all()


@pytest.mark.parametrize(
    "model",
    [
        BOOSTER,
        clone(BOOSTER).set_params(calibration="sigmoid", cv=2),
        js.SlipperClassifier(num_rounds=2, calibration=None, random_state=0),
    ],
)
def test_only_the_ratios_of_extreme_weights_count(model):
    X, y = noisy()
    ones = np.ones(len(y))
    expected = clone(model).fit(X, y, sample_weight=2.0**-1 * ones).decision_function(X)
    for weight in (1e308, 1e-300, 5e-324):
        found = clone(model).fit(X, y, sample_weight=weight * ones)
        assert found.decision_function(X).tolist() == expected.tolist()
        if model.calibration is not None:
            assert np.ptp(found.predict_proba(X)[:, 1]) > 0.5


def test_only_the_ratios_of_extreme_weights_count_in_thinning():
    X, y = noisy(40)
    forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    expected = js.MarginThinner(forest, nu=0.5, calibration=None).fit(X, y)
    assert len(expected.kept_)
    for weight in (2.0**1020, 2.0**126, 2.0**-1000):  # float32 holds none of these sums
        model = js.MarginThinner(forest, nu=0.5, calibration=None)
        found = model.fit(X, y, sample_weight=np.full(40, weight))
        assert found.coefficients_.tolist() == expected.coefficients_.tolist()
        assert found.certificate_[:2] == expected.certificate_[:2]


def test_only_the_ratios_of_extreme_weights_count_in_the_optimal_vote():
    X, y = noisy(40)
    classifiers = [("one", GaussianNB()), ("two", GaussianNB(var_smoothing=0.5))]
    vote = js.OptimalVoteClassifier(classifiers, cv=2)
    expected = clone(vote).fit(X, y).decision_function(X)
    for weight in (2.0**1020, 2.0**-1000):
        found = clone(vote).fit(X, y, sample_weight=np.full(40, weight)).decision_function(X)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_ensemble_of_regressors_is_refused():
    X, y = noisy(40)
    model = js.MarginThinner(RandomForestRegressor(2).fit(X, np.arange(40)))
    with pytest.raises(ValueError, match="expected an ensemble of classifiers"):
        model.fit(X, y)


def test_extreme_costs_and_class_weights_are_taken():
    X, y = noisy()
    model = clone(BOOSTER).set_params(false_negative_cost=1e308)
    assert model.fit(X, y, sample_weight=np.full(80, 1e308)).predict(X).all()
    balanced = clone(BOOSTER).set_params(class_weight={False: 1e308, True: 1e308}).fit(X, y)
    assert (balanced.predict(X) == clone(BOOSTER).fit(X, y).predict(X)).all()


def test_moderate_weights_are_unchanged_and_extreme_ones_keep_their_ratios():
    weights = np.array([0.0, 1.0, 3.0, 1e30])
    assert tables.moderate(weights) is weights
    for factor in (2.0**1020, 2.0**-1000):
        found = tables.moderate(np.array([0.0, 1.0, 3.0]) * factor)
        assert found[2] == 0.75
        assert found[1] * 3 == found[2]
    assert tables.moderate(np.zeros(2)).tolist() == [0, 0]


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0), 3])
def test_warm_start_goes_on_with_any_random_state(random_state):
    X, y = noisy()
    model = clone(BOOSTER).set_params(
        max_rounds=10, warm_start=True, max_seconds=1e-9, random_state=random_state
    )
    counts = [model.fit(X, y).n_iter_ for _ in range(3)]
    assert counts[0] < counts[1] < counts[2]
    whole = clone(BOOSTER).set_params(max_rounds=10, random_state=model._seed)
    model.set_params(max_seconds=None).fit(X, y)
    assert model.decision_function(X).tolist() == whole.fit(X, y).decision_function(X).tolist()


def test_without_warm_start_each_fit_has_a_new_seed():
    X, y = noisy()
    model = clone(BOOSTER).set_params(random_state=None)
    assert model.fit(X, y)._seed != model.fit(X, y)._seed


def test_a_splitter_that_trains_on_rows_of_weight_zero_is_named():
    X, y = noisy()
    groups = np.arange(80) % 4
    model = clone(BOOSTER).set_params(calibration="sigmoid", cv=LeaveOneGroupOut())
    with pytest.raises(ValueError, match="cv has no row of positive weight to train on in fold 0"):
        model.fit(X, y, sample_weight=groups == 0, groups=groups)
    model.fit(X, y, sample_weight=groups < 2, groups=groups)
    assert (model.predict(X) == y).mean() > 0.6


def three_classes():
    X = np.random.default_rng(1).normal(size=(80, 3))
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


def test_scores_of_pairs_of_classes_are_refused_or_left_for_probabilities():
    X, y = three_classes()
    one_for_each = js.OptimalVoteClassifier([("svc", SVC())], calibration=None).fit(X, y)
    assert one_for_each.score(X, y) > 0.8
    pairs = SVC(decision_function_shape="ovo")
    for inner in (pairs, make_pipeline(pairs)):
        with pytest.raises(ValueError, match="decision_function_shape='ovo', which scores"):
            js.OptimalVoteClassifier([("svc", inner)]).fit(X, y)
    two = js.OptimalVoteClassifier([("svc", pairs)], calibration=None)
    assert two.fit(X, y > 0).score(X, y > 0) > 0.8


class Both(SVC):
    """Scores of pairs, and probabilities."""

    def predict_proba(self, X):
        return np.eye(3)[np.searchsorted(self.classes_, self.predict(X))]


class Wide(LogisticRegression):
    """A score too many."""

    def decision_function(self, X):
        found = super().decision_function(X)
        return np.concatenate([found, found[:, :1]], axis=1)


def test_a_classifier_needs_a_score_for_each_class():
    X, y = three_classes()
    inner = Both(decision_function_shape="ovo").fit(X, y)
    model = js.OptimalVoteClassifier([("svc", inner)], cv="prefit", calibration=None).fit(X, y)
    assert model.score(X, y) == inner.score(X, y)
    with pytest.raises(ValueError, match="Wide whose scores have 4 columns for 3 classes"):
        js.OptimalVoteClassifier([("wide", Wide()), ("bayes", GaussianNB())]).fit(X, y)


# --- columns of another kind ----------------------------------------------------------------------

FRAME = pandas.DataFrame(
    {"colour": ["red", "green", None, "blue"] * 10, "size": [1.0, 2.0, np.nan, 4.0] * 10}
)
Y_OF_FRAME = (FRAME["colour"] == "red").to_numpy()
TABLE = FRAME.to_numpy(object)


def predicted_by(model):
    return getattr(model, "predict", None) or model.transform


@pytest.mark.parametrize("X", [FRAME, TABLE], ids=["frame", "array"])
@pytest.mark.parametrize("model", [BOOSTER, js.Binarizer()], ids=["booster", "binarizer"])
def test_columns_of_another_kind_than_in_fit_are_named(X, model):
    names = ["colour", "size"] if X is FRAME else ["x0", "x1"]
    predict = predicted_by(clone(model).fit(X, Y_OF_FRAME))

    def changed(colours, sizes):
        columns = {"colour": colours, "size": sizes}
        frame = pandas.DataFrame(columns, index=range(2))
        return frame if X is FRAME else frame.to_numpy(object)

    with pytest.raises(ValueError, match=f"'{names[0]}' had text in fit and has numbers: pass"):
        predict(changed([1.0, np.nan], [1.0, 2.0]))
    with pytest.raises(ValueError, match=f"'{names[1]}' had numbers in fit and has text: pass"):
        predict(changed(["red", "blue"], ["1", "2"]))
    both = f"'{names[0]}' had text in fit and has numbers; '{names[1]}' had numbers in fit"
    with pytest.raises(ValueError, match=both):
        predict(changed([3, 4], ["1", "2"]))
    for colours in (["violet", None], [None, None]):
        assert len(predict(changed(colours, [np.nan, np.nan]))) == 2


@pytest.mark.parametrize("model", [BOOSTER, js.Binarizer()], ids=["booster", "binarizer"])
def test_numbers_may_be_categories(model):
    """Also among texts, where a number is the category of its text."""
    codes = np.arange(40.0)[:, None] % 4
    y = codes[:, 0] == 2
    declared = clone(model).set_params(categorical=[0]).fit(codes, y)
    found = np.asarray(predicted_by(declared)(codes))
    assert len(np.unique(found, axis=0)) == (2 if model is BOOSTER else 4)
    mixed = np.where(codes == 0, "none", codes.astype(int).astype(object))
    fitted = clone(model).fit(mixed, y)
    rows = np.array([[2], [3]], object)
    expected = np.asarray(predicted_by(fitted)(np.array([["2"], ["3"], ["none"]], object)))[:2]
    assert np.asarray(predicted_by(fitted)(rows)).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [js.AdaBoostClassifier, js.SlipperClassifier, js.RuleClassifier])
@pytest.mark.parametrize(
    ("value", "what"),
    [
        pytest.param(1e39, "1e[+]39, more than float32 holds", id="1e39"),
        pytest.param(10**400, "inf; correct it", id="integer"),
    ],
)
def test_a_number_too_large_is_named_by_its_row_and_column(kind, value, what):
    """Rows are sorted and merged later; a row of weight 0 does not count."""
    cells = [3.0, 1.0, 2.0, value, 1.0, value]
    frame = pandas.DataFrame({"a": range(6), "b": cells})
    weights = [1, 1, 1, 0, 1, 1]
    with pytest.raises(ValueError, match=rf"X\[5, 'b'\] is {what}"):
        kind(calibration=None).fit(frame, [0, 1, 0, 1, 0, 1], weights)


def test_a_column_that_float32_makes_constant_is_named_by_a_warning():
    X, y = noisy()
    X[:, 1] = 1e6 + 1e-3 * X[:, 1]
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    with pytest.warns(UserWarning, match="column 'b' of X has 80 distinct numbers") as found:
        BOOSTER.fit(frame, y)
    assert len(found) == 1
    BOOSTER.fit(frame[["a", "c"]], y)  # warnings are errors


def test_scores_that_are_nan_name_the_classifier():
    class Nan(LogisticRegression):
        def decision_function(self, X):
            return np.full(len(X), np.nan)

    X, y = noisy()
    vote = js.OptimalVoteClassifier([("one", LogisticRegression()), ("other", Nan())])
    with pytest.raises(ValueError, match="estimators holds a Nan whose scores are NaN"):
        vote.fit(X, y)


def test_a_penalty_too_small_for_the_rows_says_how_large_it_must_be():
    model = js.ExampleWeightsClassifier(penalty=0.1, calibration=None)
    with pytest.raises(ValueError, match=r"penalty is 0\.1: expected at least 0\.5"):
        model.fit([[0.0], [1.0]], [0, 1])


def test_probabilities_of_extreme_costs_are_in_the_unit_interval():
    X, y = noisy()
    found = js.AdaBoostClassifier(max_rounds=3, false_negative_cost=1e100).fit(X, y)
    probabilities = found.predict_proba(X)
    assert (probabilities >= 0).all()
    assert (probabilities <= 1).all()
