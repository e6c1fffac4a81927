"""The estimators of scikit-learn: scikit-learn's own checks, and what they do not look at."""

import pickle
import warnings

import jax
import numpy as np
import pandas
import polars
import pytest
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.callback import ProgressBar
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.inspection import (
    PartialDependenceDisplay,
    partial_dependence,
    permutation_importance,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import jboost
import jboost.sklearn as js
from jboost.base.status import Status
from jboost.sklearn import calibration, features, folds, tables
from jboost.sklearn.base import VoteClassifier
from jboost.sklearn.stumps import StumpsClassifier, dataset_of

STUMPS = (
    js.AdaBoostClassifier,
    js.InfoBoostClassifier,
    js.LPBoostClassifier,
    js.RelaxedMarginClassifier,
)
RULES = (js.RuleClassifier, js.SlipperClassifier)
FIRST = js.AdaBoostClassifier(max_rounds=20, calibration=None, random_state=0)


def noisy(num_rows=120, num_columns=4, seed=0):
    """Rows whose first two columns tell the class, but for a tenth of the labels."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(num_rows, num_columns))
    y = (X[:, 0] + X[:, 1] > 0) ^ (generator.random(num_rows) < 0.1)
    return X, np.where(y, "yes", "no")


# --- scikit-learn's checks ------------------------------------------------------------------------

CHECKED = {
    "AdaBoostClassifier": js.AdaBoostClassifier(max_rounds=20),
    # without smoothing it undoes class weights of 1e7 : 1 in 20 rounds
    "InfoBoostClassifier": js.InfoBoostClassifier(max_rounds=20, smoothing=1e-3),
    "LPBoostClassifier": js.LPBoostClassifier(),
    "RelaxedMarginClassifier": js.RelaxedMarginClassifier(),
    "RuleClassifier": js.RuleClassifier(calibration=None, max_rules=4, max_rounds=2),
    "SlipperClassifier": js.SlipperClassifier(max_rounds=20),
    "ExampleWeightsClassifier": js.ExampleWeightsClassifier(),
    "OptimalVoteClassifier": js.OptimalVoteClassifier(
        [("logistic", LogisticRegression()), ("bayes", GaussianNB())]
    ),
    "MarginThinner": js.MarginThinner(RandomForestClassifier(10, random_state=0)),
    "Binarizer": js.Binarizer(),
}


# Random forests are among scikit-learn's own exceptions: their bootstrap draws rows.
_DRAWS_ROWS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
EXPECTED_FAILURES = {"MarginThinner": _DRAWS_ROWS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "AdaBoostClassifier" else pytest.mark.exhaustive)
        for name in CHECKED
    ],
)
def test_check_estimator_passes(name):
    results = check_estimator(CHECKED[name], on_fail=None, on_skip=None)
    failed = {
        result["check_name"]: str(result["exception"])
        for result in results
        if result["status"] not in ("passed", "skipped")
        and result["check_name"] not in EXPECTED_FAILURES.get(name, ())
    }
    assert failed == {}
    assert len(results) > 40


# --- classes, weights, missing values -------------------------------------------------------------


def test_several_classes_are_one_vote_each():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(90, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = clone(FIRST).fit(X, y)
    for index in range(3):
        one = clone(FIRST).fit(X, y == index)
        assert model.decision_function(X)[:, index].tolist() == one.decision_function(X).tolist()
    assert len(model.certificate_) == 3
    assert (model.predict(X) == y).mean() > 0.9


# --- rows, weights, classes -----------------------------------------------------------------------


def test_weights_equal_repetition_and_order_does_not_matter():
    X, y = noisy(60)
    weights = np.random.default_rng(2).integers(0, 4, 60)
    repeated = clone(FIRST).fit(X.repeat(weights, axis=0), y.repeat(weights))
    order = np.random.default_rng(3).permutation(60)
    weighted = clone(FIRST).fit(X[order], y[order], sample_weight=weights[order])
    assert weighted.decision_function(X).tolist() == repeated.decision_function(X).tolist()


def test_merge_sorts_and_treats_signed_zeros_and_nans_alike():
    table = np.array([[0.0, np.nan], [-0.0, np.nan], [-1.0, 2.0], [0.0, 1.0]])
    rows = tables.merge(table, np.array([1, 1, 0, 1]), np.array([1.0, 2.0, 1.0, 0.0]))
    assert rows.weights.tolist() == [1.0, 3.0]
    assert rows.codes.tolist() == [0, 1]


def test_class_weight_balanced_equals_explicit_weights():
    X, y = noisy(80)
    keep = (y == "yes") | (np.arange(80) % 3 == 0)
    X, y = X[keep], y[keep]
    counts = {name: (y == name).sum() for name in ("no", "yes")}
    explicit = {name: len(y) / (2 * count) for name, count in counts.items()}
    balanced = clone(FIRST).set_params(class_weight="balanced").fit(X, y)
    weighted = clone(FIRST).set_params(class_weight=explicit).fit(X, y)
    assert balanced.decision_function(X).tolist() == weighted.decision_function(X).tolist()


def test_error_costs_move_predictions_and_are_for_two_classes():
    X, y = noisy(200)
    shares = []
    for cost in (0.05, 1.0, 20.0):
        model = clone(FIRST).set_params(false_negative_cost=cost, max_rounds=5).fit(X, y)
        shares.append((model.predict(X) == "yes").mean())
    assert shares[0] < shares[1] < shares[2]
    with pytest.raises(ValueError, match="false_positive_cost and false_negative_cost are for two"):
        clone(FIRST).set_params(false_negative_cost=2.0).fit(X, np.arange(200) % 3)


def test_one_class_is_predicted_always():
    model = clone(FIRST).set_params(calibration="sigmoid").fit([[1.0], [2.0]], ["a", "a"])
    assert model.predict([[5.0]]).tolist() == ["a"]
    assert model.predict_proba([[5.0]]).tolist() == [[1.0]]


def test_text_and_missing_values_of_a_frame_are_used():
    colours = ["red", "green", None, "blue"] * 15
    frame = polars.DataFrame({"colour": colours, "size": [1.0, None, 3.0, 4.0] * 15})
    y = np.array([colour == "red" for colour in colours])
    model = clone(FIRST).fit(frame, y)
    assert model.predict(frame).tolist() == y.tolist()
    assert "colour == red" in str(model.rules_)
    importances = dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))
    assert importances["colour"] > 0
    assert sum(importances.values()) == pytest.approx(1)
    with pytest.raises(ValueError, match=r"(?s)feature names.*colour"):
        model.predict(frame.rename({"colour": "color"}))
    unseen = polars.DataFrame({"colour": ["violet"], "size": [1.0]})
    assert model.predict(unseen).shape == (1,)


def test_limit_cuts_keeps_the_weight_of_both_sides():
    generator = np.random.default_rng(4)
    column, weights = generator.normal(size=(50, 1)), generator.random(50)
    limited = features.limit_cuts(column, weights, 0.2)
    for cut in np.unique(limited)[:-1]:
        below = weights[limited[:, 0] <= cut].sum() / weights.sum()
        assert 0.2 <= below <= 0.8
        assert ((column[:, 0] <= cut) == (limited[:, 0] <= cut)).all()


# --- probabilities --------------------------------------------------------------------------------


def test_probabilities_agree_with_predictions_and_scores():
    X, y = noisy(150)
    model = clone(FIRST).set_params(calibration="sigmoid", cv=3).fit(X, y)
    scores, found = model.decision_function(X), model.predict_proba(X)
    order = np.argsort(scores)
    assert (np.diff(found[order, 1]) >= 0).all()
    assert (model.classes_[found.argmax(axis=1)] == model.predict(X)).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_calibration_without_information_is_the_base_rate():
    scores, covered = np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4, bool)
    is_class = np.array([True, True, False, False])
    found = calibration.fit(
        scores, is_class, np.ones(4), "sigmoid", is_covered=covered, base_rate=0.25
    )
    assert found.function(scores).tolist() == [0.25] * 4


def test_rows_without_votes_have_the_base_rate():
    scores, covered = np.array([-1.0, 0.0, 1.0]), np.array([True, False, True])
    found = calibration.fit(
        scores, scores > 0, np.ones(3), "isotonic", is_covered=covered, base_rate=0.3
    )
    assert found(scores, covered)[1] == 0.3


def test_without_calibration_there_is_no_predict_proba():
    assert not hasattr(FIRST, "predict_proba")


def test_folds_of_a_number_keep_equal_rows_together():
    X = np.repeat(np.arange(10.0), 3)[:, None]
    codes = (X[:, 0] > 4).astype(int)
    rows = tables.merge(X, codes, np.ones(30))
    parts = folds.make(5, rows, X, codes, np.ones(30), None, 0)
    for part in parts:
        assert not set(part.training.table[:, 0]) & set(part.testing.table[:, 0])
    assert sum(part.testing.weights.sum() for part in parts) == 30
    assert folds.make(5, rows.among(np.array([0, 9])), X, codes, np.ones(30), None, 0) == []


# --- choice, early stopping, time -----------------------------------------------------------------


def test_lpboost_chooses_nu_by_cross_validation():
    X, y = noisy(100)
    model = js.LPBoostClassifier(cv=3, calibration=None, random_state=0).fit(X, y)
    assert model.options_["nu"] in (0.8, 0.5, 0.3, 0.1)


def test_early_stopping_keeps_the_best_round():
    X, y = noisy(200)
    model = clone(FIRST).set_params(
        early_stopping=True, validation_fraction=0.3, n_iter_no_change=3
    )
    model.fit(X, y)
    rows = tables.merge(X, (y == "yes").astype(int), np.ones(len(y)))
    signs = rows.signs(1)
    training, testing = train_test_split(
        np.arange(200), test_size=60, stratify=signs, random_state=model._seed
    )
    seen, dataset = model.prepare(rows.among(training), signs[training])
    losses = []
    for num_rounds in range(1, 21):
        fitted = jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=num_rounds)
        scores = jboost.predict_scores(fitted.ensemble, seen.matrix(rows.table[testing]))
        losses.append(((np.asarray(scores) > 0) != (signs[testing] > 0)).sum())
    best = next(
        place
        for place in range(20)
        if place + 4 > 20 or min(losses[place + 1 : place + 4]) >= min(losses[: place + 1])
    )
    assert best > 0
    assert model.n_iter_ == 1 + int(np.argmin(losses[: best + 1]))
    with pytest.raises(ValueError, match="early_stopping holds out rows of each class"):
        model.fit([[1.0], [2.0]], [0, 1])


def test_max_seconds_ends_a_fit_and_warm_start_goes_on():
    X, y = noisy(200)
    whole = clone(FIRST).set_params(warm_start=True).fit(X, y)
    model = clone(FIRST).set_params(warm_start=True, max_seconds=1e-9).fit(X, y)
    assert model.n_iter_ < 20
    model.set_params(max_seconds=None).fit(X, y)
    assert model.decision_function(X).tolist() == whole.decision_function(X).tolist()


def test_warm_start_of_other_options_begins_anew():
    X, y = noisy(60)
    model = js.LPBoostClassifier(nu=0.8, warm_start=True, calibration=None).fit(X, y)
    model.set_params(nu=0.3).fit(X, y)
    fresh = js.LPBoostClassifier(nu=0.3, warm_start=True, calibration=None).fit(X, y)
    assert model.decision_function(X).tolist() == fresh.decision_function(X).tolist()
    assert len(model._new_states) == 1


# --- other estimators -----------------------------------------------------------------------------


def test_optimal_vote_of_two_has_the_least_loss():
    X, y = noisy(60)
    model = js.OptimalVoteClassifier(
        [("logistic", LogisticRegression()), ("bayes", GaussianNB())], cv=3
    ).fit(X, y)
    loss, lower_bound = model.certificate_
    assert loss == lower_bound
    folds = list(StratifiedKFold(3).split(X, y))
    scores = model._cross_fit(X, y, folds, {"logistic": {}, "bayes": {}})[:, :, 0]
    generator = np.random.default_rng(5)
    for _ in range(300):
        values = scores @ generator.normal(size=2)
        for threshold in values:
            wrong = (values > threshold) != (y == "yes")
            assert wrong.sum() >= loss
    with pytest.raises(ValueError, match="estimators is"):
        js.OptimalVoteClassifier([]).fit(X, y)


@pytest.mark.parametrize("seconds, status", [(1e-9, Status.TIME_LIMIT), (None, Status.OPTIMAL)])
def test_max_seconds_ends_the_exact_vote(seconds, status):
    X, y = noisy(60)
    fitted = [("a", LogisticRegression().fit(X, y)), ("b", GaussianNB().fit(X, y))]
    model = js.OptimalVoteClassifier(
        fitted, strategy="exact", cv="prefit", max_seconds=seconds, calibration=None
    ).fit(X, y)
    assert model.status_ == status
    loss, lower_bound = model.certificate_
    assert lower_bound <= loss <= (model.classes_[0] == y).sum()
    best = js.OptimalVoteClassifier(fitted, cv="prefit", calibration=None).fit(X, y).certificate_
    assert lower_bound <= best[0] <= loss
    with pytest.raises(ValueError, match="max_seconds is 1, and strategy is 'greedy', which has"):
        model.set_params(strategy="greedy", max_seconds=1).fit(X, y)


def soft_margin(margins, nu):
    """The largest soft margin over votes in the simplex, by HiGHS."""
    m, size = margins.shape
    costs = np.concatenate([np.zeros(size), np.full(m, 1 / (nu * m)), [-1.0]])
    upper = np.concatenate([-margins, -np.eye(m), np.ones((m, 1))], axis=1)
    equal = np.concatenate([np.ones(size), np.zeros(m), [0.0]])[None]
    bounds = [(0, None)] * (size + m) + [(None, None)]
    found = linprog(costs, A_ub=upper, b_ub=np.zeros(m), A_eq=equal, b_eq=[1.0], bounds=bounds)
    return -found.fun


@pytest.mark.parametrize("vote", ["sparse", "relaxed"])
def test_rules_of_few_rows_tell_the_classes_apart(vote):
    """20 over the number of rows is above 1/2, where no vote of rules has both classes right."""
    X = np.arange(24.0)[:, None]
    model = js.RuleClassifier(max_order=1, vote=vote, calibration=None).fit(X, X[:, 0] > 10)
    assert model.score(X, X[:, 0] > 10) > 0.9


@pytest.mark.parametrize(
    "ensemble",
    [
        RandomForestClassifier(12, max_depth=3, random_state=0),
        AdaBoostClassifier(n_estimators=12, random_state=0),
        GradientBoostingClassifier(n_estimators=12, random_state=0),
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), 12, random_state=0, max_features=2),
    ],
)
def test_margin_thinner_bounds_hold_the_optimum(ensemble):
    X, y = noisy(80)
    ensemble.fit(X, y)
    thin = js.MarginThinner(ensemble, nu=0.3).fit(X, y)
    from jboost.sklearn import thinner

    outputs = thinner._outputs(thinner._members(ensemble), X)
    margins = np.where(y == "yes", 1, -1)[:, None] * outputs / np.abs(outputs).max(axis=0)
    optimum = soft_margin(margins, 0.3)
    assert thin.certificate_.lower_bound <= optimum + 1e-5
    assert thin.certificate_.upper_bound >= optimum - 1e-5
    assert thin.certificate_.upper_bound - thin.certificate_.lower_bound < 2e-3
    assert (thin.predict(X) == y).mean() > 0.7


def test_margin_thinner_names_what_it_does_not_take():
    X, y = noisy(40)
    with pytest.raises(ValueError, match="estimator is a LogisticRegression"):
        js.MarginThinner(LogisticRegression().fit(X, y)).fit(X, y)
    with pytest.raises(ValueError, match="Only binary classification"):
        js.MarginThinner(RandomForestClassifier(3)).fit(X, np.arange(40) % 3)


def test_binarizer_equals_the_function():
    X = noisy(40)[0]
    found = js.Binarizer(num_quantiles=4).fit(X)
    expected = jboost.data.binarization.fit(X, cuts="quantiles", num_quantiles=4)
    assert tuple(found.get_feature_names_out()) == expected.bit_names
    bits = jboost.data.binarization.apply(expected, X)
    assert found.transform(X).tolist() == np.asarray(bits).tolist()
    with pytest.raises(ValueError, match="needs two"):
        js.Binarizer(cuts="class_changes").fit(X, np.arange(40) % 3)


# --- files and other programs ---------------------------------------------------------------------


def test_models_survive_pickle_and_files(tmp_path):
    X, y = noisy(100)
    model = clone(FIRST).set_params(calibration="isotonic", cv=3).fit(X, y)
    js.save(model, tmp_path / "model.npz")
    for copy in (pickle.loads(pickle.dumps(model)), js.load(tmp_path / "model.npz")):
        assert copy.decision_function(X).tolist() == model.decision_function(X).tolist()
        assert copy.predict_proba(X).tolist() == model.predict_proba(X).tolist()
        assert str(copy.rules_) == str(model.rules_)
    with pytest.raises(ValueError, match="cv is a GroupKFold"):
        js.save(model.set_params(cv=GroupKFold()), tmp_path / "other.npz")
    metadata = jboost.files.load_metadata(tmp_path / "model.npz")
    metadata["estimator"]["parameters"]["max_round"] = 3
    jboost.files.save({"votes": []}, tmp_path / "damaged.npz", metadata=metadata)
    with pytest.raises(ValueError, match=r"damaged.npz: the estimator in the file is damaged"):
        js.load(tmp_path / "damaged.npz")
    jboost.files.save(model.votes_[0].ensemble, tmp_path / "plain.npz")
    with pytest.raises(ValueError, match="holds no estimator"):
        js.load(tmp_path / "plain.npz")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*STUMPS, *RULES])
def test_every_estimator_of_rules_survives_files(kind, tmp_path):
    X, y = noisy(80)
    model = kind(calibration="sigmoid", cv=2, random_state=0).fit(X, y)
    js.save(model, tmp_path / "model.npz")
    copy = js.load(tmp_path / "model.npz")
    assert copy.decision_function(X).tolist() == model.decision_function(X).tolist()
    assert str(copy.rules_) == str(model.rules_)
    assert len(model.rules_) > 0


SMALL = js.AdaBoostClassifier(max_rounds=5, calibration=None, random_state=0)


def test_searches_pipelines_and_calibration_of_scikit_learn_take_the_estimators():
    X, y = noisy(60)
    search = GridSearchCV(SMALL, {"min_weight_fraction_leaf": [0.0, 0.1]}, cv=2).fit(X, y)
    assert search.best_params_["min_weight_fraction_leaf"] in (0.0, 0.1)
    pipeline = make_pipeline(
        ColumnTransformer([("scaled", StandardScaler(), [0, 1])], remainder="passthrough"), SMALL
    )
    assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.6
    calibrated = CalibratedClassifierCV(SMALL, cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (60, 2)


@pytest.mark.slow
def test_fits_in_other_processes_equal_those_in_this_one():
    X, y = noisy(60)
    expected = cross_val_score(SMALL, X, y, cv=2)
    assert cross_val_score(SMALL, X, y, cv=2, n_jobs=2).tolist() == expected.tolist()


def test_inspection_of_scikit_learn_takes_the_estimators():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    X, y = noisy(60)
    fitted = clone(SMALL).fit(X, y)
    importance = permutation_importance(fitted, X, y, n_repeats=2, random_state=0)
    assert importance.importances_mean[:2].sum() > importance.importances_mean[2:].sum()
    found = partial_dependence(fitted, X, [0], grid_resolution=5)["average"]
    assert found.shape == (1, 5)
    display = PartialDependenceDisplay.from_estimator(fitted, X, [0], grid_resolution=5)
    assert display.lines_[0, 0].get_ydata().tolist() == found[0].tolist()


def test_groups_and_outputs_of_other_libraries_are_taken():
    X, y = noisy(60)
    model = clone(SMALL).set_params(calibration="sigmoid", cv=GroupKFold(2))
    assert model.fit(X, y, groups=np.arange(60) % 4).predict_proba(X).shape == (60, 2)
    bits = js.Binarizer().set_output(transform="polars").fit_transform(X)
    assert bits.columns[0].startswith("x0 <= ")


@pytest.mark.slow
def test_progress_bar_of_scikit_learn_runs():
    X, y = noisy(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(FIRST).set_params(max_rounds=3).set_callbacks(ProgressBar())
        assert model.fit(X, y).n_iter_ == 3


@pytest.mark.parametrize(
    "change, message",
    [
        ({"calibration": "platt"}, "calibration is 'platt'"),
        ({"false_positive_cost": 0.0}, "false_positive_cost is 0.0"),
        ({"max_seconds": -1.0}, "max_seconds is -1.0"),
        ({"calibration": "sigmoid", "cv": 1}, "cv is 1"),
    ],
)
def test_bad_parameters_are_named(change, message):
    X, y = noisy(30)
    with pytest.raises(ValueError, match=message):
        clone(FIRST).set_params(**change).fit(X, y)


def test_bad_data_are_refused_in_the_words_of_scikit_learn():
    X, y = noisy(30)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        clone(FIRST).fit(X, y, sample_weight=-np.ones(30))
    with pytest.raises(ValueError, match="at least one non-zero"):
        clone(FIRST).fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match="infinity"):
        clone(FIRST).fit(np.where(X > 1, np.inf, X), y)
    with pytest.raises(ValueError, match="max_rules is None"):
        js.RuleClassifier(vote="relaxed", max_rules=None).fit(X, y)
    with pytest.raises(ValueError, match="max_order is 4"):
        js.RuleClassifier(max_order=4).fit(X, y)
    with pytest.raises(ValueError, match="Input contains NaN"):
        js.ExampleWeightsClassifier(penalty=0.2).fit(np.where(X > 1, np.nan, X).astype(object), y)


def test_padded_data_set_has_a_shared_size():
    dataset = dataset_of(np.zeros((10, 32), np.float32), np.ones(10), np.full(10, 3.0))
    assert dataset.features.shape == (512, 32)
    assert jax.numpy.sum(dataset.mask) == 10
    assert np.asarray(dataset.weights)[:10].tolist() == [1.0] * 10


def test_a_frame_of_pandas_may_have_numbers_as_names():
    X, y = noisy(40)
    frame = pandas.DataFrame(X)
    bits = jboost.data.binarization.fit(frame, cuts="quantiles")
    assert bits.names == ("0", "1", "2", "3")
    model = clone(FIRST).fit(frame, pandas.Series(y))
    assert (model.predict(frame) == clone(FIRST).fit(X, y).predict(X)).all()
    table = model.rules_.as_frame()
    assert list(table.columns) == ["text", "target", "vote", "vote_otherwise"]
    assert len(table) == len(model.rules_)


def test_base_classes_of_estimators_are_abstract():
    for base in (VoteClassifier, StumpsClassifier):
        with pytest.raises(TypeError, match="abstract"):
            base()
