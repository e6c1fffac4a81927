"""Rows with extreme, missing and unseen values, models of bits, and what runs each export."""

import json
import math
import sqlite3
import tempfile

import jax.numpy as jnp
import numpy as np

import jboost
from jboost import export, learners
from jboost.data import binarization
from jboost.ensemble import Ensemble
from jboost.learners import Monomial
from jboost.learners.trees import Tree
from jboost.pair.types import Separator

NUM_ROWS = 10_000
TINY = float(np.finfo(np.float32).tiny)
MAX = float(np.finfo(np.float32).max)
EXTREMES = (
    *(0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 5e-324, 1e-310, 2.2e-308, 1e-40, -1e-40),
    *(TINY, math.nextafter(TINY, 0), TINY - 2.0**-150, MAX, MAX + 2.0**102, MAX + 2.0**103),
    *(-MAX, -MAX - 2.0**103, 1e300, -1e300, 1.7e308, -1.7e308, 2.0**53 + 2, 1e-300, -1e-300),
)
TEXTS = ("red", "it's", 'a "b"', "", "grün", "x\ny")


def around(numbers):
    """Numbers, their neighbours in 32 and in 64 bits, and the middles between float32 neighbours
    with their neighbours.
    """
    found = list(numbers)
    for number in numbers:
        single = np.float32(number)
        for direction in (-np.inf, np.inf):
            other = np.nextafter(single, np.float32(direction))
            middle = float(single) / 2 + float(other) / 2
            found += [
                math.nextafter(number, direction),
                float(other),
                *(middle, math.nextafter(middle, -math.inf), math.nextafter(middle, math.inf)),
            ]
    return found


def make_columns(seed, thresholds, num_columns, *, missing=True, finite=False):
    """[NUM_ROWS, num_columns] numbers: extremes, neighbours of thresholds, plain ones, NaN."""
    rng = np.random.default_rng(seed)
    special = [*EXTREMES, *around(thresholds)]
    special = [number for number in special if math.isfinite(number) or not finite]
    special += [math.nan] * (len(special) // 8 if missing else 0)
    shape = NUM_ROWS, num_columns
    table = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), rng.normal(size=shape))
    return table.astype(np.float64)


# --- the formats, each run by its own machine -----------------------------------------------------


def run_python(model, columns, **options):
    module = {}
    exec(compile(export.to_python(model, **options), "exported", "exec"), module)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [module["score"](row) for row in rows], [module["predict"](row) for row in rows]


def rows_of(columns):
    none = [[None if value != value else value for value in values] for values in columns.values()]
    return list(zip(*none, strict=True))


def create(columns, number):
    kinds = [
        "VARCHAR" if any(isinstance(value, str) for value in values) else number
        for values in columns.values()
    ]
    quoted = [name.replace('"', '""') for name in columns]
    declared = ", ".join(f'"{name}" {kind}' for name, kind in zip(quoted, kinds, strict=True))
    return f"CREATE TABLE data (place INTEGER, {declared})"


def finish_sql(found, query):
    assert len(found) == NUM_ROWS, query
    found.sort()
    return [math.nan if row[-2] is None else row[-2] for row in found], [row[-1] for row in found]


def run_sqlite(model, columns, **options):
    query = export.to_sql(model, **options)
    with sqlite3.connect(":memory:") as database:
        database.execute(create(columns, "REAL"))
        marks = ", ".join("?" * (len(columns) + 1))
        rows = [(place, *row) for place, row in enumerate(rows_of(columns))]
        database.executemany(f"INSERT INTO data VALUES ({marks})", rows)
        found = database.execute(query).fetchall()
    database.close()
    return finish_sql([(row[0], *row[-2:]) for row in found], query)


def run_duckdb(model, columns, **options):
    import duckdb
    import polars

    query = export.to_sql(model, **options)
    frame = polars.DataFrame(
        {"place": range(NUM_ROWS), **{name: list(values) for name, values in columns.items()}},
        strict=False,
    )
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        frame.write_parquet(f"{folder}/data.parquet")
        database.execute(f"CREATE TABLE data AS FROM read_parquet('{folder}/data.parquet')")
        found = database.execute(query).fetchall()
    return finish_sql([(row[0], *row[-2:]) for row in found], query)


def run_onnx(model, columns, **options):
    import onnx
    import onnxruntime

    proto = export.to_onnx(model, **options)
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    named = {one.key: json.loads(one.value) for one in proto.metadata_props}
    numbers = [np.asarray(columns[name], np.float64) for name in named["numbers"]]
    given = {"numbers": np.stack(numbers, 1) if numbers else np.zeros((NUM_ROWS, 0))}
    if named["texts"]:
        texts = [[value or "" for value in columns[name]] for name in named["texts"]]
        given["texts"] = np.array(texts, object).T
    score, prediction = session.run(["score", "prediction"], given)
    assert (score.shape, prediction.shape) == ((NUM_ROWS,), (NUM_ROWS,))
    return score, prediction


def run_json(model, columns, **options):
    """An evaluation of the format as docs/export.md documents it."""
    document = json.loads(export.to_json(model, **options))
    version = 2 if document["kind"] == "trees" else 1
    assert (document["format"], document["format_version"]) == ("jboost-export", version)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    scores = [score_of(document, row) for row in rows]
    return scores, [0 if score != score else 1 if score > 0 else -1 for score in scores]


def rounded(value, document):
    """A number in the precision of the document; subnormal numbers are 0."""
    value = math.nan if value is None else value
    with np.errstate(over="ignore"):
        value = float(np.float64(value).astype(document["precision"]))
    return 0.0 if abs(value) < np.finfo(document["precision"]).tiny else value


HEAD = {"format", "format_version", "jboost_version", "kind", "precision", "columns"}
BODY = {
    "rules": {"constant", "score_error", "rules", "slopes"},
    "trees": {"constant", "trees"},
    "scores": {"normal", "anchor", "bias"},
}


def is_missing(value):
    return value is None or value != value


def holds(condition, value):
    test = condition["test"]
    if test in ("always", "never", "missing", "known"):
        return {
            "always": True,
            "never": False,
            "missing": is_missing(value),
            "known": not is_missing(value),
        }[test]
    if is_missing(value):
        return condition["if_missing"]
    if test == "text":
        inside = value == condition["text"]
    else:
        inside = float(condition["low"]) <= value <= float(condition["high"])
    return inside != condition["negated"]


def score_of(document, row):
    assert set(document) - HEAD == BODY[document["kind"]]
    if document["kind"] == "scores":
        values = [rounded(row[one["name"]], document) for one in document["columns"]]
        if not all(map(math.isfinite, values)):
            return math.nan
        terms = zip(document["normal"], values, document["anchor"], strict=True)
        return sum(n * (x - a) for n, x, a in terms) + document["bias"]
    if document["kind"] == "trees":
        return score_of_trees(document, row)
    total = float(document["constant"])
    for rule in document["rules"]:
        if all(holds(one, row[one["column"]]) for one in rule["conditions"]):
            if abs(float(rule["vote"])) == math.inf:
                return float(rule["vote"])
            total += float(rule["vote"])
    for slope in document["slopes"]:
        value = rounded(row[slope["column"]], document)
        side = "if_positive" if value > 0 else "if_negative"
        total += (slope[side] if value else 0.0) * value
    return total


def score_of_trees(document, row):
    votes = []
    for node in document["trees"]:
        while "vote" not in node:
            condition = node["condition"]
            is_true = holds(condition, row[condition["column"]])
            node = node["if_true" if is_true else "if_false"]
        votes.append(float(node["vote"]))
    infinite = [vote for vote in votes if abs(vote) == math.inf]
    return infinite[0] if infinite else sum(votes, float(document["constant"]))


RUNNERS = {
    "python": run_python,
    "sqlite": run_sqlite,
    "duckdb": run_duckdb,
    "onnx": run_onnx,
    "json": run_json,
}


def assert_equal(model, columns, features, runner, *, scale=1.0, exact=False, **options):
    """The export of a model gives its classes, and its scores to 1e-6 of the sum of all votes."""
    with np.errstate(over="ignore"):  # as the command line does
        features = np.asarray(features).astype(jnp.zeros(()).dtype)
    expected = np.asarray(jboost.predict_scores(model, features))
    precision = expected.dtype
    classes = np.asarray(jboost.predict(model, features))
    score, prediction = RUNNERS[runner](model, columns, **options)
    np.testing.assert_array_equal(prediction, classes)
    with np.errstate(over="ignore"):
        score = np.asarray(score, np.float64).astype(precision)
    if exact:
        np.testing.assert_array_equal(score, expected)
    else:
        np.testing.assert_allclose(score, expected, rtol=1e-6, atol=1e-6 * scale)
    assert len(np.unique(classes)) > 1


def make_binarizer(*, missing="literal"):
    rng = np.random.default_rng(1)
    rows = np.empty((60, 4), object)
    rows[:, 0] = rng.normal(size=60).round(1)
    rows[:, 1] = rng.choice([0.1, 2.5, 1e-39, 1e30], 60)
    rows[:, 2] = [*TEXTS[:3], *rng.choice([*TEXTS[:3], TEXTS[4], TEXTS[5]], 57)]
    rows[:, 3] = rng.choice([1.0, 2.0, 16777217.0], 60)
    rows[::7, 0], rows[1::9, 2] = None, None
    labels = np.where(rng.random(60) < 0.5, -1, 1)
    return binarization.fit(
        rows,
        labels,
        names=["age", 'a "b"\nc', "colour's", "kind"],
        categorical=["kind"],
        cuts="midpoints",
        missing=missing,
    )


def make_rules(binarizer, *, votes, dtype="float32", seed=0):
    """An ensemble of monomials of up to 3 literals, both signs, and one without literals."""
    rng = np.random.default_rng(seed)
    size = len(votes)
    literals = np.zeros((size, binarizer.num_bits + 3), np.int8)
    for row in literals[1:]:
        chosen = rng.choice(binarizer.num_bits, rng.integers(1, 4), replace=False)
        row[chosen] = rng.choice([-1, 1], len(chosen))
    for bit in range(min(size - 1, binarizer.num_bits)):
        literals[1 + bit] = 0
        literals[1 + bit, bit] = rng.choice([-1, 1])
    signs = rng.choice([-1, 1], size).astype(np.int8)
    return Ensemble(
        learners.monomials(3),
        Monomial(jnp.asarray(literals), jnp.asarray(signs)),
        jnp.asarray(np.stack([votes, votes], 1), dtype),
        jnp.asarray(-0.25, dtype),
        jnp.int32(size),
    )


def make_table(binarizer, seed=3):
    """Rows for the binarizer, as columns by name and as it takes them."""
    rng = np.random.default_rng(seed)
    thresholds = [0.0, *np.asarray(binarizer.thresholds).tolist()]
    numbers = make_columns(seed, thresholds, 3)
    texts = rng.choice(np.array([*TEXTS[:3], *TEXTS[4:], "unseen", None], object), NUM_ROWS)
    ordered = [numbers[:, 0], numbers[:, 1], texts, numbers[:, 2]]
    rows = np.empty((NUM_ROWS, 4), object)
    for index, column in enumerate(ordered):
        rows[:, index] = column
    return dict(zip(binarizer.names, ordered, strict=True)), rows


def make_trees(features, *, depth, votes, categorical=(), seed=0, dtype="float32"):
    """An ensemble of trees with random tests of features [k, N] that hold NaN, some of them tests
    of missing values alone, and some nodes without a test.
    """
    rng = np.random.default_rng(seed)
    num_features, shape = features.shape[1], (len(votes), 2**depth - 1)
    feature = rng.integers(0, num_features, shape)
    threshold = features[rng.integers(0, len(features), shape), feature]
    is_bit = np.isin(features, [0.0, 1.0]) | np.isnan(features)
    is_cut = is_bit.all(axis=0)[feature] & ~np.isin(feature, categorical)
    threshold = np.where(is_cut, rng.choice([0.5, 0.5, 0.5, -0.5], shape), threshold)
    has_none = np.isnan(threshold) | (rng.random(shape) < 0.05)
    tree = Tree(
        jnp.asarray(feature, "int32"),
        jnp.asarray(np.where(has_none, np.inf, threshold), dtype),
        jnp.asarray(rng.random(shape) < 0.5),
        jnp.asarray(rng.choice([-1.0, 1.0], (len(votes), 2**depth)), dtype),
    )
    return Ensemble(
        learners.trees(depth, categorical=categorical),
        tree,
        jnp.asarray(votes, dtype),
        jnp.asarray(-0.25, dtype),
        jnp.int32(len(votes)),
    )


def make_separator(dtype, normal, anchor, bias):
    fields = {"normal": normal, "anchor": anchor, "bias": bias}
    rest = dict.fromkeys(("offset", "loss", "lower_bound", "margin"), 0.0)
    arrays = {name: jnp.asarray(value, dtype) for name, value in (fields | rest).items()}
    return Separator(**arrays, misclassified=jnp.zeros(1, bool), status=jnp.int32(0))
