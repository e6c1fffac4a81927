"""Exports read booleans, percentages, dates and grouped numbers as the model does."""

import csv
import datetime
import json
import math
import sqlite3

import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from exported_models import make_rules
from jboost import export, learners
from jboost.data import binarization, readers
from jboost.data.dialect import Reading
from jboost.data.kinds import DATE, PERCENT, TRUTH, ColumnKind
from jboost.ensemble import Ensemble
from jboost.learners import Stump

ROWS = 1000
KINDS = {
    "truth": "truth",
    "share": "percent",
    "size": "grouped",
    "day": "date",
    "german": "date",
    "moment": "date",
}
FIRST = datetime.datetime(2019, 12, 20)


def make_cells():
    """Rows of text as they are in a file, some of them empty."""
    rng = np.random.default_rng(0)
    days = [FIRST + datetime.timedelta(days=int(day)) for day in rng.integers(0, 1500, ROWS)]
    moments = [day + datetime.timedelta(seconds=int(rng.integers(86400))) for day in days]
    cells = {
        "truth": rng.choice(["True", "False", "TRUE"], ROWS).tolist(),
        "share": [f"{number / 10}%" for number in rng.integers(0, 1000, ROWS)],
        "size": [f"{number:,}" for number in rng.integers(1, 9000, ROWS)],
        "day": [f"{day:%Y-%m-%d}" for day in days],
        "german": [f"{day:%d.%m.%Y}" for day in rng.permutation(days)],
        "moment": [f"{moment:%Y/%m/%d %H:%M:%S}" for moment in moments],
    }
    for column in cells.values():
        for row in rng.choice(ROWS, 50, replace=False):
            column[row] = ""
    return cells


def make_stumps(features):
    """Stumps on all columns, which do not cast their votes for missing values."""
    size = 4 * features.shape[1]
    feature = np.arange(size) % features.shape[1]
    quantiles = np.nanquantile(features, [0.2, 0.4, 0.6, 0.8], axis=0)
    rng = np.random.default_rng(1)
    return Ensemble(
        learners.stumps(abstain=True),
        Stump(
            jnp.asarray(feature, "int32"),
            jnp.asarray(quantiles.reshape(-1)),
            -jnp.ones(size),
            jnp.ones(size),
        ),
        jnp.asarray(rng.normal(size=(size, 1)).repeat(2, 1)),
        jnp.float32(0.01),
        jnp.int32(size),
    )


@pytest.fixture(scope="module")
def parsed(tmp_path_factory):
    """The cells of a file, a model of its columns, how it is exported, and its classes."""
    cells = make_cells()
    path = tmp_path_factory.mktemp("cells") / "data.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))
    table = readers.read_table(path, reading=Reading(dates=("day", "german", "moment")))
    assert {name: kind.name for name, kind in table.kinds.items()} == KINDS
    features = table.matrix(list(KINDS), []).astype(np.float32)
    model = make_stumps(features)
    classes = np.asarray(jboost.predict(model, features)).tolist()
    assert len(set(classes)) == 2
    return cells, model, {"names": list(KINDS), "kinds": table.kinds}, classes


def connect(name):
    if name == "sqlite":
        return sqlite3.connect(":memory:")
    return pytest.importorskip("duckdb").connect()


def classes_of(database, query, columns):
    """The classes of a query over columns, given by name as (type, values)."""
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    database.execute(f"CREATE TABLE data (place INTEGER, {declared})")
    marks = ", ".join("?" * (len(columns) + 1))
    rows = zip(*(values for _, values in columns.values()), strict=True)
    database.executemany(
        f"INSERT INTO data VALUES ({marks})", [(place, *row) for place, row in enumerate(rows)]
    )
    found = sorted(database.execute(query).fetchall())
    database.close()
    return [row[-1] for row in found]


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_sql_parses_cells_as_the_fit_did(name, parsed):
    cells, model, options, classes = parsed
    columns = {column: ("VARCHAR", values) for column, values in cells.items()}
    assert classes_of(connect(name), export.to_sql(model, **options), columns) == classes


def make_typed():
    """The cells as values of the types of a database."""

    def convert(text, function):
        return function(text) if text else None

    cells = make_cells()
    of = {
        "truth": ("BOOLEAN", lambda text: text.lower() == "true"),
        "share": ("DOUBLE", lambda text: float(text[:-1]) / 100),
        "size": ("INTEGER", lambda text: int(text.replace(",", ""))),
        "day": ("DATE", datetime.date.fromisoformat),
        "german": ("DATE", lambda text: datetime.datetime.strptime(text, "%d.%m.%Y").date()),
        "moment": ("TIMESTAMP", lambda text: datetime.datetime.fromisoformat(_iso(text))),
    }
    return {
        name: (kind, [convert(text, function) for text in cells[name]])
        for name, (kind, function) in of.items()
    }


def _iso(text):
    return text.replace("/", "-")


def test_duckdb_reads_columns_of_its_types(parsed):
    _, model, options, classes = parsed
    assert classes_of(connect("duckdb"), export.to_sql(model, **options), make_typed()) == classes


def test_sqlite_reads_numbers_and_dates_that_it_stores_as_text(parsed):
    _, model, options, classes = parsed
    columns = {}
    for name, (kind, values) in make_typed().items():
        if kind in ("DATE", "TIMESTAMP"):
            texts = [value if value is None else str(value) for value in values]
            columns[name] = "TEXT", texts
        else:
            columns[name] = "REAL", values
    assert classes_of(connect("sqlite"), export.to_sql(model, **options), columns) == classes


@pytest.mark.parametrize("form", ["texts", "values"])
def test_python_parses_cells_as_the_fit_did(form, parsed):
    cells, model, options, classes = parsed
    module = {}
    exec(export.to_python(model, **options), module)
    if form == "values":
        cells = {name: values for name, (_, values) in make_typed().items()}
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    assert [module["predict"](row) for row in rows] == classes


def test_other_formats_say_what_numbers_they_expect(parsed):
    _, model, options, _ = parsed
    expected = {
        "truth": "truth is 1 for true and 0 for false",
        "share": "share is a share: 5% is 0.05",
        "size": "size has no thousands separators: 1,200 is 1200",
        "day": "day is in days since 2019-12-20",
    }
    document = json.loads(export.to_json(model, **options))
    columns = {column["name"]: column for column in document["columns"]}
    text = export.to_text(model, **options)
    for name, sentence in expected.items():
        assert columns[name]["reading"] == sentence
        assert f"The number {sentence}." in text
    pytest.importorskip("onnxscript")
    properties = {one.key: one.value for one in export.to_onnx(model, **options).metadata_props}
    assert "share is a share: 5% is 0.05" in properties["readings"]


UNREADABLE = [
    (TRUTH, "perhaps"),
    (PERCENT, "80"),
    (PERCENT, "%"),
    (DATE, "2020"),
    (DATE, "2020-02-30"),
    (DATE, "soon"),
    ("number", "80%"),
    ("number", "2020-01-31"),
    ("number", "31.1.2020"),
    ("number", "True"),
]


@pytest.mark.parametrize(("kind", "cell"), UNREADABLE)
def test_a_cell_of_another_kind_has_no_class(kind, cell):
    kinds = {"x": ColumnKind(kind, order="year first" if kind == DATE else "")}
    model, options = make_stumps(np.arange(4.0)[:, None]), {"names": ["x"], "kinds": kinds}
    for name in ("sqlite", "duckdb"):
        columns = {"x": ("VARCHAR", [cell, "", None])}
        found = classes_of(connect(name), export.to_sql(model, **options), columns)
        assert found == [0, 1, 1]
    module = {}
    exec(export.to_python(model, **options), module)
    with pytest.raises(ValueError, match=f"column 'x' holds '{cell}': .* is expected"):
        module["predict"]({"x": cell})


def test_python_reads_integers_beyond_floats_as_infinite():
    model, module = make_stumps(np.arange(4.0)[:, None]), {}
    exec(export.to_python(model, names=["x"]), module)
    for sign in (1, -1):
        row = {"x": sign * 10**400}
        assert module["score"](row) == module["score"]({"x": sign * math.inf})
    with pytest.raises(ValueError, match=r"column 'x' holds \[\]: a number is expected"):
        module["score"]({"x": []})


def test_kinds_are_checked_by_name():
    model = make_stumps(np.arange(4.0)[:, None])
    for write in (export.to_python, export.to_sql, export.to_json, export.to_text):
        with pytest.raises(ValueError, match="^kinds is of the type list"):
            write(model, kinds=["date"])
        with pytest.raises(ValueError, match=r"^kinds\['x0'\] is of the type str"):
            write(model, kinds={"x0": "date"})


@pytest.fixture(scope="module")
def booleans():
    """A DataFrame with a column of booleans, a model of its bits, and the classes."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({"b": rng.random(ROWS) < 0.5, "x": rng.normal(size=ROWS).round(2)})
    labels = np.where(rng.random(ROWS) < 0.5, -1, 1)
    binarizer = binarization.fit(frame, labels, cuts="quantiles", drop_redundant=False)
    model = make_rules(binarizer, votes=rng.normal(size=binarizer.num_bits + 20))
    bits = np.pad(np.asarray(binarization.apply(binarizer, frame)), ((0, 0), (0, 3)))
    classes = np.asarray(jboost.predict(model, bits)).tolist()
    assert len(set(classes)) == 2
    return frame, model, binarizer, classes


@pytest.mark.parametrize(
    ("name", "kind", "convert"),
    [
        ("sqlite", "BOOLEAN", bool),
        ("sqlite", "REAL", float),
        ("sqlite", "TEXT", str),
        ("duckdb", "BOOLEAN", bool),
        ("duckdb", "INTEGER", int),
        ("duckdb", "VARCHAR", str),
    ],
)
def test_sql_reads_booleans_of_a_frame(name, kind, convert, booleans):
    frame, model, binarizer, classes = booleans
    columns = {
        "b": (kind, [convert(value) for value in frame.b.tolist()]),
        "x": ("DOUBLE", frame.x.tolist()),
    }
    query = export.to_sql(model, binarizer=binarizer)
    assert classes_of(connect(name), query, columns) == classes


@pytest.mark.parametrize("convert", [bool, np.bool_, int, float, str])
def test_python_reads_booleans_of_a_frame(convert, booleans):
    frame, model, binarizer, classes = booleans
    module = {}
    exec(export.to_python(model, binarizer=binarizer), module)
    rows = zip(frame.b.tolist(), frame.x.tolist(), strict=True)
    assert [module["predict"]({"b": convert(b), "x": x}) for b, x in rows] == classes


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_no_column_of_the_table_is_taken_for_the_score(name):
    """Nor for any other name that the query makes."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(ROWS, 1)).astype(np.float32)
    model = make_stumps(features)
    others = ("Score", "prediction", "total", "v0", "s", "v", "d", "scored")
    columns = {"x": ("DOUBLE", features[:, 0].tolist())}
    columns |= {other: ("DOUBLE", rng.normal(size=ROWS).tolist()) for other in others}
    found = classes_of(connect(name), export.to_sql(model, names=["x"]), columns)
    assert found == np.asarray(jboost.predict(model, features)).tolist()


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "python"])
def test_dates_of_a_frame_are_days_since_1970(name):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    minutes = rng.integers(-(10**7), 3 * 10**7, ROWS)  # from 1950 to 2027
    moments = [datetime.datetime(1970, 1, 1) + datetime.timedelta(minutes=int(m)) for m in minutes]
    frame = pandas.DataFrame({"t": pandas.to_datetime(pandas.Series(moments))})
    labels = np.where(rng.random(ROWS) < 0.5, -1, 1)
    binarizer = binarization.fit(frame, labels, cuts="quantiles", drop_redundant=False)
    model = make_rules(binarizer, votes=rng.normal(size=binarizer.num_bits + 5))
    bits = np.pad(np.asarray(binarization.apply(binarizer, frame)), ((0, 0), (0, 3)))
    options = {"binarizer": binarizer, "kinds": {"t": ColumnKind(DATE, order="year first")}}
    if name == "python":
        module = {}
        exec(export.to_python(model, **options), module)
        found = [module["predict"]({"t": moment}) for moment in frame.t]
    else:
        kind = "TEXT" if name == "sqlite" else "TIMESTAMP"
        columns = {"t": (kind, [str(moment) for moment in moments])}
        found = classes_of(connect(name), export.to_sql(model, **options), columns)
    assert found == np.asarray(jboost.predict(model, bits)).tolist()
