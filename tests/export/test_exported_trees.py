"""Exports of trees say what the model says: on rows with extreme, missing and unseen values."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
import stored_models
from exported_models import (
    NUM_ROWS,
    RUNNERS,
    assert_equal,
    make_binarizer,
    make_columns,
    make_table,
    make_trees,
)
from jboost import export, learners
from jboost.data import binarization
from jboost.ensemble import Ensemble
from jboost.learners.trees import Tree
from marks import slow_but

quick_runners = pytest.mark.parametrize("runner", slow_but(RUNNERS, "sqlite", "duckdb", "onnx"))
CATEGORIES = (0.0, 3.0, 16777216.0, -1e-40)


def make_plain(seed):
    """Columns of numbers, one of categories: by name, and as a model takes them."""
    plain = make_columns(seed, [0.1, 1e30, -1e-40, 1.5], 3)
    rng = np.random.default_rng(seed)
    plain[:, 1] = rng.choice([*CATEGORIES, 16777217.0, 7.0, math.inf, math.nan], NUM_ROWS)
    return {f"plain {index}": plain[:, index] for index in range(3)}, plain


@quick_runners
@pytest.mark.parametrize("depth,votes", [(2, "reals"), (4, "infinite"), (10, "reals")])
def test_trees_on_numbers_and_categories(runner, depth, votes):
    columns, features = make_plain(seed=depth)
    numbers = np.random.default_rng(depth).normal(size=(1 if depth == 10 else 25, 2))
    if votes == "infinite":
        numbers[3:6, 0], numbers[6, 1] = np.inf, np.inf
    with np.errstate(over="ignore"):
        rows = features.astype(np.float32)
    model = make_trees(rows, depth=depth, votes=numbers, categorical=(1,))
    assert_equal(model, columns, features, runner, names=list(columns), exact=True)


@quick_runners
@pytest.mark.parametrize("missing", ["literal", "none"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_trees_on_numbers_and_bits(runner, missing, dtype):
    binarizer = make_binarizer(missing=missing)
    columns, rows = make_table(binarizer)
    more, plain = make_plain(seed=5)
    with jax.enable_x64(dtype == "float64"), np.errstate(over="ignore"):
        bits = np.asarray(binarization.apply(binarizer, rows))
        features = np.concatenate([plain.astype(dtype), bits], axis=1)
        votes = np.random.default_rng(6).normal(size=(40, 2))
        categorical = (1, 4, features.shape[1] - 1)  # a column and two bits
        model = make_trees(features, depth=3, votes=votes, categorical=categorical, dtype=dtype)
        options = {"binarizer": binarizer, "names": list(more)}
        assert_equal(model, columns | more, features, runner, exact=True, **options)


BOOSTERS = {
    "adaboost": lambda data, trees: jboost.adaboost.fit(data, trees, max_rounds=4),
    "infoboost": lambda data, trees: jboost.infoboost.fit(data, trees, max_rounds=4),
    "lpboost": lambda data, trees: jboost.lpboost.fit(data, trees, nu=0.3, max_rounds=6),
    "relaxed_margin": lambda data, trees: jboost.relaxed_margin.fit(
        data, trees, relaxation=jboost.relaxations.soft_margin(nu=0.3), max_rounds=6
    ),
}


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("name", BOOSTERS)
def test_trees_of_every_booster_are_exported(name, depth):
    columns, features = make_plain(seed=7)
    with np.errstate(over="ignore"):
        rows = features[:60].astype(np.float32)
    rows[np.isinf(rows)] = 4.0
    labels = np.where(np.nan_to_num(rows[:, 0]) * np.nan_to_num(rows[:, 2]) > 0, 1, -1)
    labels[::9] *= -1
    data = jboost.make_dataset(rows, labels)
    trees = learners.trees(depth, num_cuts=8, categorical=(1,))
    model = BOOSTERS[name](data, trees).ensemble
    for runner in ("python", "sqlite"):
        assert_equal(model, columns, features, runner, names=list(columns), exact=True)


def make_single(leaves, **nodes):
    """A tree of depth 2 with the vote 0.5 for both signs; nodes without a test by default."""
    given = {"feature": [0, 0, 0], "threshold": [np.inf] * 3, "missing_right": [False] * 3} | nodes
    kinds = {"feature": "int32", "threshold": "float32", "missing_right": bool}
    parts = {key: jnp.asarray([value], kinds[key]) for key, value in given.items()}
    return Ensemble(
        learners.trees(2),
        Tree(**parts, leaves=jnp.asarray([leaves], "float32")),
        jnp.full((1, 2), 0.5),
        jnp.float32(0),
        jnp.int32(1),
    )


def test_nodes_that_separate_nothing_are_left_out():
    whole = make_single([1.0, -1.0, -1.0, -1.0])
    assert "tree 1:\n    +0.5\n" in export.to_text(whole)
    assert json.loads(export.to_json(whole))["columns"] == []
    equal = make_single([1.0, 1.0, -1.0, -1.0], threshold=[0.5, 0.5, np.inf])
    lines = export.to_text(equal, names=["age"]).splitlines()
    assert lines[2:6] == ["    if age > 0.5:", "      -0.5", "    else:", "      +0.5"]


def test_a_test_of_missing_values_alone_is_exported():
    model = make_single([1.0, -1.0, -1.0, -1.0], missing_right=[True, False, False])
    assert "    if age is missing:\n      -0.5" in export.to_text(model, names=["age"])
    module = {}
    exec(export.to_python(model, names=["age"]), module)
    found = [module["score"]({"age": value}) for value in (0.0, math.inf, None, math.nan)]
    assert found == [0.5, 0.5, -0.5, -0.5]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("size", [0, 1])
def test_models_of_no_tree_or_one_leaf_are_exported_to_onnx(rows, size):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = make_single([1.0] * 4)
    model = model._replace(votes=model.votes * size)
    session = onnxruntime.InferenceSession(
        export.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    score, prediction = session.run(None, {"numbers": np.ones((rows, 0))})
    np.testing.assert_array_equal(score, [0.5 * size] * rows)
    np.testing.assert_array_equal(prediction, [1 if size else -1] * rows)


@pytest.mark.parametrize("name", ["trees", "greedy_trees"])
def test_stored_trees_are_exported(name):
    model = jboost.files.load(stored_models.Path(__file__).parents[1] / "models" / f"{name}.npz")
    module = {}
    exec(export.to_python(model, names=["a", "b"]), module)
    features = stored_models.features(name)
    found = [module["score"]({"a": float(a), "b": float(b)}) for a, b in features]
    np.testing.assert_allclose(found, stored_models.scores(model, features), rtol=1e-6)


def test_to_jax_of_trees_is_predict_scores():
    _, features = make_plain(seed=2)
    with np.errstate(over="ignore"):
        rows = features[:64].astype(np.float32)
    model = make_trees(rows, depth=3, votes=np.ones((5, 2)), categorical=(1,))
    exported = jax.export.export(jax.jit(export.to_jax(model)))(
        jax.ShapeDtypeStruct(rows.shape, rows.dtype)
    )
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(rows), jboost.predict_scores(model, rows))
