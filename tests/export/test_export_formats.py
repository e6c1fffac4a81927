"""Exports of odd models: hostile names, none or one row, no rules, and models that are refused."""

import json
import math
import sqlite3
import types
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
import stored_models
from exported_models import make_binarizer, make_rules, make_separator, make_table
from jboost import export, learners
from jboost.data import binarization
from jboost.ensemble import Ensemble
from jboost.learners import Column, Stump

WRITERS = (export.to_python, export.to_sql, export.to_onnx, export.to_json, export.to_text)
writers = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)


def make_stumps(feature=0, *, votes=((0.5, 0.5),), threshold=0.5, learner=None):
    size = len(votes)
    return Ensemble(
        learner or learners.stumps(),
        Stump(
            jnp.full(size, feature, jnp.int32),
            jnp.full(size, threshold),
            -jnp.ones(size),
            jnp.ones(size),
        ),
        jnp.asarray(votes),
        jnp.float32(0.25),
        jnp.int32(size),
    )


HOSTILE = (
    "'a\nimport os\nos.abort()\n'",
    'a"; DROP TABLE data; --',
    "a\\'; raise SystemExit\r#",
    '"""\nraise SystemExit\n"""',
    "a\u2028b\x0craise",
    "*/ -- {x} %s",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_not_code(name):
    model = make_stumps()
    module = {}
    exec(export.to_python(model, names=[name]), module)
    assert [module["score"]({name: value}) for value in (1.0, 0.0, None)] == [0.75, -0.25, 0.25]
    database = sqlite3.connect(":memory:")
    quoted = name.replace('"', '""')
    database.execute(f'CREATE TABLE data ("{quoted}" REAL)')
    database.executemany("INSERT INTO data VALUES (?)", [(1.0,), (0.0,), (None,)])
    found = database.execute(export.to_sql(model, names=[name])).fetchall()
    database.close()
    assert found == [(1.0, 0.75, 1), (0.0, -0.25, -1), (None, 0.25, 1)]
    assert json.loads(export.to_json(model, names=[name]))["columns"][0]["name"] == name
    assert len(export.to_text(model, names=[name]).splitlines()) == 5


def test_to_sql_says_which_names_it_cannot_hold():
    model = make_separator("float32", [1.0, 1.0], [0.0, 0.0], 0.0)
    for names, options, message in (
        (["Age", "age"], {}, "the names 'Age' and 'age' are one name in SQL"),
        (["a", "score"], {}, "^score is 'score', and the model reads the column 'score'"),
        (["a", "Score"], {}, "column 'Score', which is the same name in SQL: pass another name"),
        (["x", "b"], {"score": "x"}, "^score is 'x', and the model reads the column 'x'"),
        (["x", "b"], {"prediction": "B"}, "^prediction is 'B', and the model reads the column 'b'"),
        (["a", "b"], {"score": "prediction"}, "^score is 'prediction' and prediction is"),
        (["a", "b"], {"score": "Prediction"}, "^score is 'Prediction' and prediction is"),
        (["a", "b\0"], {}, "cannot write: rename it"),
        (["a", "b"], {"table": ""}, "^table is '', which jboost.export.to_sql cannot write"),
        (["a", "b"], {"table": 3}, "^table is 3: jboost.export.to_sql expects a text"),
        (["a", "b"], {"score": None}, "^score is None: jboost.export.to_sql expects a text"),
        (["a", "b"], {"prediction": b"p"}, "^prediction is b'p': jboost.export.to_sql expects"),
    ):
        with pytest.raises(ValueError, match=message):
            export.to_sql(model, names=names, **options)
    assert '"Score 2"' in export.to_sql(model, names=["a", "Score"], score="Score 2")


def test_sql_does_not_take_a_column_that_is_not_there_for_text():
    query = export.to_sql(make_stumps(), names=["age"])
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (other REAL)")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        database.execute(query)
    database.close()


@writers
def test_models_that_cannot_be_written_are_named(write):
    name = f"jboost.export.{write.__name__} cannot write"
    network = Ensemble(stored_models.network(), {}, jnp.ones((1, 2)), jnp.float32(0), jnp.int32(1))
    for model, message in (
        (network, f"model is an Ensemble of Trained, which {name}"),
        (3.0, f"model is of the type float, which {name}"),
        (types.SimpleNamespace(ensemble=network), f"{name}: pass its field `ensemble`"),
        (make_binarizer(), f"model is of the type Binarizer, which {name}"),
        (
            make_stumps()._replace(votes=jnp.ones((1, 2), jnp.bfloat16)),
            f"of bfloat16, which {name}",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            write(model)
    invalid = make_stumps()._replace(constant=jnp.float32(math.nan))
    with pytest.raises(ValueError, match="INVALID_INPUT"):
        write(invalid)
    for names, message in (
        ([], "names holds 0 texts, and model reads feature 1"),
        (["a", "a"], "names holds 1 distinct entries"),
        (["a", 3], "names holds 2 distinct entries: 2 distinct texts expected"),
        ("ab", "names is 'ab': expected a list of texts"),
        (3, "names is 3: expected a list of texts"),
    ):
        with pytest.raises(ValueError, match=message):
            write(make_stumps(1), names=names)


def test_sql_takes_numbers_among_text_as_the_model_does():
    rows = np.array([["1", 1], ["2.5", 2], ["a", 3], ["-1", 4]], object)
    binarizer = binarization.fit(rows, [1, -1, 1, -1], names=["t", "k"], drop_redundant=False)
    model = make_rules(binarizer, votes=2.0 ** np.arange(binarizer.num_bits))
    module = {}
    exec(export.to_python(model, binarizer=binarizer), module)
    values = [1, 1.0, "1", "1.0", 2.5, "2.5", -1.0, 0.0, "a", None]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (t, k)")  # of no type: holds numbers as they are
    database.executemany("INSERT INTO data VALUES (?, 1)", [(value,) for value in values])
    found = database.execute(export.to_sql(model, binarizer=binarizer)).fetchall()
    database.close()
    expected = [module["score"]({"t": value, "k": 1}) for value in values]
    assert [score for _, _, score, _ in found] == expected
    assert expected[0] == expected[1] == expected[2] != expected[3]


def test_an_empty_category_is_refused_where_it_is_missing():
    rows = np.array([["", 1], ["a", 2], [None, 3]], object)
    binarizer = binarization.fit(rows, [1, -1, 1], names=["text", "number"], drop_redundant=False)
    model = make_rules(binarizer, votes=np.ones(6))
    with pytest.raises(ValueError, match="tests whether column 'text' is ''"):
        export.to_onnx(model, binarizer=binarizer)
    assert "''" in export.to_sql(model, binarizer=binarizer)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("size", [0, 1])
def test_models_without_rules_and_tables_without_rows(rows, size):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = make_stumps(votes=np.zeros((size, 2), np.float32) + 0.5)
    proto = export.to_onnx(model, names=["a"])
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    score, prediction = session.run(None, {"numbers": np.ones((rows, size))})
    np.testing.assert_array_equal(score, [0.25 + 0.5 * size] * rows)
    np.testing.assert_array_equal(prediction, [1] * rows)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (a REAL)")
    database.executemany("INSERT INTO data VALUES (?)", [(1.0,)] * rows)
    found = database.execute(export.to_sql(model, names=["a"])).fetchall()
    database.close()
    assert found == [(1.0, 0.25 + 0.5 * size, 1)] * rows


def test_sqlite_takes_thousands_of_rules():
    model = make_stumps(votes=np.ones((3000, 2), np.float32))
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data AS SELECT 1.0 AS x0")
    assert database.execute(export.to_sql(model)).fetchall() == [(1.0, 3000.25, 1)]
    database.close()


def test_exported_votes_have_one_sum_in_any_order():
    rng = np.random.default_rng(0)
    votes = (rng.normal(size=200) * 10.0 ** rng.integers(-9, 1, 200)).astype(np.float32)
    model = make_stumps(votes=np.stack([votes, votes], 1), threshold=-1.0)
    document = json.loads(export.to_json(model))
    assert document["score_error"] == 0
    found = [rule["vote"] for rule in document["rules"]][::2]  # of the upper sides
    np.testing.assert_allclose(found, votes, rtol=2.0**-24, atol=2.0**-42)
    terms = [*found, document["constant"]]
    sums = {float(np.add.accumulate(rng.permutation(terms))[-1]) for _ in range(200)}
    assert sums == {math.fsum(terms)}


def test_score_error_of_slopes_bounds_what_products_lose():
    rng = np.random.default_rng(1)
    votes = rng.normal(size=(30, 2)).astype(np.float32)
    model = Ensemble(
        learners.pool(),
        Column(jnp.arange(30), jnp.ones(30, jnp.int8)),
        jnp.asarray(votes),
        jnp.float32(0.25),
        jnp.int32(30),
    )
    document = json.loads(export.to_json(model))
    rows = rng.uniform(-1, 1, (50, 30)).astype(np.float32)
    expected = np.asarray(jboost.predict_scores(model, rows))
    for row, score in zip(rows.astype(float), expected, strict=True):
        pairs = zip(document["slopes"], row, strict=True)
        terms = [x * one["if_positive" if x > 0 else "if_negative"] for one, x in pairs]
        sums = float(np.add.accumulate([document["constant"], *terms])[-1])
        exact = Fraction(document["constant"]) + sum(map(Fraction, terms))
        assert 0 < document["score_error"] < 1e-10
        assert abs(Fraction(sums) - exact) <= document["score_error"]
        assert abs(score - sums) <= document["score_error"] + abs(sums) * 2.0**-24


def test_to_text_is_the_model_in_words():
    binarizer = make_binarizer()
    model = make_rules(binarizer, votes=np.array([2.0, 1.5, np.inf]))
    lines = export.to_text(model, binarizer=binarizer).splitlines()
    assert lines[0] == "The score is that of the first rule that holds:"
    assert sum("inf if" in line for line in lines) == 1
    assert "  -0.25 always" in lines
    assert lines[-1] == "The class is +1 if the score is above 0, else -1."


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_to_jax_is_predict_scores_and_exported(dtype):
    with jax.enable_x64(dtype == "float64"):
        binarizer = make_binarizer()
        model = make_rules(binarizer, votes=np.linspace(-1, 1, 9), dtype=dtype)
        _, rows = make_table(binarizer)
        with np.errstate(over="ignore"):
            codes = binarization.encode(binarizer, rows[:64])
        literals = model.hypotheses.literals[:, : binarizer.num_bits]
        model = model._replace(hypotheses=model.hypotheses._replace(literals=literals))
        function = jax.jit(export.to_jax(model, binarizer=binarizer))
        exported = jax.export.export(function, platforms=("cpu", "cuda", "tpu"))(
            jax.ShapeDtypeStruct(codes.shape, codes.dtype)
        )
        expected = jboost.predict_scores(model, binarization.apply(binarizer, rows[:64]))
        again = jax.export.deserialize(exported.serialize())
        np.testing.assert_array_equal(again.call(codes), expected)
    with pytest.raises(ValueError, match="num_plain"):
        export.to_jax(model, num_plain=-1)


@pytest.mark.parametrize("name", ["separator", "trade_off", "distance", "stumps", "quantised"])
def test_stored_models_are_exported(name):
    path = stored_models.Path(__file__).parents[1] / "models" / f"{name}.npz"
    given = {"quantised": learners.quantised_stumps()}
    model = jboost.files.load(path, learner=given.get(name))
    module = {}
    exec(export.to_python(model, names=["a", "b"]), module)
    features = stored_models.features(name)
    found = [module["score"]({"a": float(a), "b": float(b)}) for a, b in features]
    np.testing.assert_allclose(found, stored_models.scores(model, features), rtol=1e-6)


@pytest.mark.parametrize("name", ["literals", "monomials", "rules"])
def test_stored_rules_are_exported(name):
    model = jboost.files.load(stored_models.Path(__file__).parents[1] / "models" / f"{name}.npz")
    module = {}
    exec(export.to_python(model, names=["a", "b"]), module)
    features = stored_models.features(name)
    found = [module["score"]({"a": float(a), "b": float(b)}) for a, b in features]
    np.testing.assert_allclose(found, stored_models.scores(model, features), rtol=1e-6)
