"""Files of estimators: parameters of all types, older files, and damaged ones."""

import copy

import numpy as np
import pytest
from sklearn.base import clone

import jboost
import jboost.sklearn as js

BOOSTER = js.AdaBoostClassifier(max_rounds=3, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return X, clone(BOOSTER).fit(X, np.where(X[:, 0] > 0, "a", "b"))


@pytest.fixture
def written(fitted, tmp_path):
    """A function that writes the fitted model with changed metadata, and returns the path."""
    path = tmp_path / "model.npz"
    js.save(fitted[1], path)
    model, original = jboost.files.load(path), jboost.files.load_metadata(path)

    def write(change):
        metadata = copy.deepcopy(original)
        change(metadata["estimator"])
        jboost.files.save(model, path, metadata=metadata)
        return path

    return write


@pytest.mark.parametrize("number", [int, np.int64])
def test_class_weights_keep_the_types_of_their_classes(number, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    weights = {number(0): 1.0, number(1): number(2)}
    model = clone(BOOSTER).set_params(calibration=None, class_weight=weights).fit(X, y)
    js.save(model, tmp_path / "model.npz")
    found = js.load(tmp_path / "model.npz")
    assert found.class_weight == {0: 1.0, 1: 2}
    assert clone(found).fit(X, y).decision_function(X).tolist() == (
        model.decision_function(X).tolist()
    )


def test_parameters_may_be_numbers_of_numpy(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = js.LPBoostClassifier(
        max_rounds=np.int64(3),
        nu=np.float32(0.5),
        categorical=(np.int64(1),),
        warm_start=np.bool_(False),
        calibration=None,
    )
    js.save(model.fit(np.round(X), X[:, 0] > 0), tmp_path / "model.npz")
    found = js.load(tmp_path / "model.npz")
    assert (found.max_rounds, found.nu, found.warm_start) == (3, 0.5, False)
    assert [*found.categorical] == [1]
    assert found.options_ == {"nu": 0.5}


def test_example_weights_survive_files(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    heights = np.where(X[:, 1] > 1, "high", "low").astype(object)
    table = np.column_stack([X.astype(object), heights])
    for rows, y in ((X, X[:, 0] > 0), (table, np.digitize(X[:, 0], [-0.5, 0.5]))):
        model = js.ExampleWeightsClassifier(penalty=0.2, cv=2, random_state=0).fit(rows, y)
        js.save(model, tmp_path / "model.npz")
        found = js.load(tmp_path / "model.npz")
        assert isinstance(found, js.ExampleWeightsClassifier)
        assert found.decision_function(rows).tolist() == model.decision_function(rows).tolist()
        assert found.predict_proba(rows).tolist() == model.predict_proba(rows).tolist()
        assert found.certificate_ == model.certificate_
        assert found.status_ == model.status_
    jboost.files.save(
        {"votes": [{**entry, "plain": entry["plain"][:1]} for entry in parts(tmp_path)]},
        tmp_path / "damaged.npz",
        metadata=jboost.files.load_metadata(tmp_path / "model.npz"),
    )
    with pytest.raises(ValueError, match="the estimator in the file is damaged"):
        js.load(tmp_path / "damaged.npz")


def parts(folder):
    """The votes in the file of a model."""
    return jboost.files.load(folder / "model.npz")["votes"]


def test_a_calibration_that_was_not_fitted_is_not_saved(tmp_path):
    X = np.arange(20.0)[:, None]
    model = clone(BOOSTER).set_params(calibration=None).fit(X, X[:, 0] > 9)
    with pytest.raises(ValueError, match="calibration is 'sigmoid', and the estimator was fitted"):
        js.save(model.set_params(calibration="sigmoid"), tmp_path / "model.npz")


def test_older_files_load(fitted, written):
    X, model = fitted
    rows = np.concatenate([X, [[np.nan, np.nan]]])

    def as_before(metadata):
        del metadata["mappings"], metadata["base_rates"]
        metadata["parameters"]["class_weight"] = {"a": 1.0, "b": 1.0}

    found = js.load(written(as_before))
    assert found.class_weight == {"a": 1.0, "b": 1.0}
    assert found.predict_proba(rows).tolist() == model.predict_proba(rows).tolist()
    assert found.predict(rows).tolist() == model.predict(rows).tolist()


BAD = [None, -1, float("inf"), "x", [], {}, [[1]], 10**30, True, [1, 2]]
PARTS = [
    ("kind",),
    ("parameters",),
    ("parameters", "calibration"),
    ("mappings",),
    ("classes",),
    ("dtype",),
    ("num_features",),
    ("names",),
    ("num_rounds",),
    ("options",),
    ("base_rates",),
    ("calibrators",),
    ("calibrators", 0),
    ("calibrators", 0, "function"),
    ("calibrators", 0, "function", "slope"),
    ("calibrators", 0, "base_rate"),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: ".".join(map(str, part)))
def test_damaged_parts_are_refused_or_do_no_harm(part, fitted, written):
    X, model = fitted
    values = [*BAD, "<M8[s]", "V8", "<U0", "S99999999999", "i4,i4"]
    refusals = []
    for value in values:

        def change(metadata, value=value):
            for name in part[:-1]:
                metadata = metadata[name]
            metadata[part[-1]] = value

        path = written(change)
        try:
            found = js.load(path)
        except ValueError as error:
            refusals.append(str(error))
            continue
        assert found.predict(X).tolist() == model.predict(X).tolist()
        if found.calibration is not None:
            assert found.predict_proba(X).shape == (60, 2)
    assert len(refusals) >= len(values) - 4
    assert all(str(path) in message for message in refusals)


@pytest.mark.parametrize(
    "function",
    [
        {"scores": [0.0, 1.0], "probabilities": [0.5]},
        {"scores": [], "probabilities": []},
        {"scores": [1.0, 0.0], "probabilities": [0.1, 0.9]},
        {"scores": [0.0, 1.0], "probabilities": [0.9, 0.1]},
        {"scores": [0.0, 1.0], "probabilities": [0.1, 1.9]},
        {"slope": 1.0, "intercept": 0.0},
    ],
)
def test_functions_that_are_no_probabilities_are_refused(function, written):
    def change(metadata):
        metadata["calibrators"][0]["function"] = function

    with pytest.raises(ValueError, match="the estimator in the file is damaged"):
        js.load(written(change))


def test_the_number_of_votes_is_that_of_the_classes(written):
    def change(metadata):
        metadata["classes"] = ["a", "b", "c"]

    with pytest.raises(ValueError, match="the estimator in the file is damaged"):
        js.load(written(change))
