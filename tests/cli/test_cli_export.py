"""The command `jboost export`: what it writes says what `jboost predict` says."""

import csv
import dataclasses
import json
import sqlite3
import sys

import numpy as np
import polars
import pytest

from command_line import run_in
from exported_models import make_separator
from jboost import files
from jboost.cli import output
from jboost.data.kinds import ColumnKind
from marks import slow

ROWS = 40
SMALL = ("--label", "ill", "--precision", "float32", "--seed", 1)
FITS = {
    "l0": ("--method", "l0", "--max-order", 2, "--cuts", "quantiles", "--quantiles", 3),
    "adaboost": ("--method", "adaboost", "--learner", "stumps", "--rounds", 3),
    "trees": ("--method", "lpboost", "--learner", "trees", "--rounds", 4),
    "deep": ("--method", "infoboost", "--learner", "trees", "--max-depth", 4, "--rounds", 3),
    "pair": ("--scores", "heat", "pulse"),
    "combine": ("--scores", "heat", "pulse", "age", "--method", "combine"),
}


MADE = "made/model.npz"  # a folder as a fit of the method pair writes it
METADATA = {
    "method": "pair",
    "names": ["heat", "pulse"],
    "score_columns": ["heat", "pulse"],
    "labels": {"column": "ill", "negative": "no", "positive": "yes"},
    "precision": "float32",
}


def make_frame():
    rng = np.random.default_rng(2)
    heat, pulse, age = rng.normal(size=(3, ROWS)).round(2)
    face = rng.choice(["red", "pale", "it's"], ROWS)
    ill = (heat + pulse > 0) ^ (face == "pale")
    return polars.DataFrame(
        {"heat": heat, "pulse": pulse, "age": age, "face": face, "ill": np.where(ill, "yes", "no")}
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function that fits a method once, and returns the folder with its data and results."""
    path = tmp_path_factory.mktemp("export")
    make_frame().write_csv(path / "data.csv")

    def fit(name):
        if name == "made" and not (path / name).exists():
            (path / name).mkdir()
            files.save(
                make_separator("float32", [1 / 3, 1.0], [0.1, 0.2], 0.1),
                path / MADE,
                metadata=METADATA,
            )
        if not (path / name).exists():
            frame = "numbers.csv" if "--scores" in FITS[name] else "data.csv"
            make_frame().drop("face").write_csv(path / "numbers.csv")
            given = ("--data", frame, *SMALL, *FITS[name], "--output", name)
            code, _, err = run_in(path, "fit", *given)
            assert code == 0, err
        return path

    return fit


def predictions(path, name):
    code, out, err = run_in(path, "predict", name, "--data", "data.csv")
    assert code == 0, err
    rows = list(csv.DictReader(out.splitlines()))
    return [float(row["score"]) for row in rows], [row["prediction"] for row in rows]


@pytest.mark.parametrize("name", ["made", *map(slow, FITS)])
def test_an_export_says_what_predict_says(folders, name):
    path = folders(name)
    scores, labels = predictions(path, name)
    signs = [1 if label == "yes" else -1 for label in labels]
    module = {}
    code, out, err = run_in(path, "export", name, "--format", "python")
    assert (code, err) == (0, "")
    exec(out, module)
    rows = make_frame().to_dicts()
    np.testing.assert_allclose([module["score"](row) for row in rows], scores, rtol=1e-6)
    assert [module["predict"](row) for row in rows] == signs

    given = ("--format", "sql", "--table", "my rows", "--output", "model.sql")
    code, out, err = run_in(path, "export", name, *given)
    assert (code, out, err) == (0, "model.sql: sql\n", "")
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE "my rows" (heat REAL, pulse REAL, age REAL, face TEXT)')
    values = [[row[column] for column in ("heat", "pulse", "age", "face")] for row in rows]
    database.executemany('INSERT INTO "my rows" VALUES (?, ?, ?, ?)', values)
    found = database.execute((path / "model.sql").read_text(encoding="utf-8")).fetchall()
    database.close()
    assert [row[-1] for row in found] == signs

    assert run_in(path, "export", name, "--format", "onnx", "--output", "model.onnx")[0] == 0
    assert (path / "model.onnx").stat().st_size > 100
    document = json.loads(run_in(path, "export", name, "--format", "json")[1])
    assert document["precision"] == "float32"
    assert "The class is +1" in run_in(path, "export", name, "--format", "text")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "onnx"), "an ONNX file is not text: name a file with --output"),
        (("--format", "json", "--table", "t"), "--table is for --format sql"),
        (("--format", "text", "--score", "s"), "--score is for --format sql"),
        (("--format", "sql", "--score", "heat"), "the model reads the column 'heat'"),
        (("--format", "sql", "--output", "Makefile"), "exists and is no .sql file by its name"),
        (
            ("--format", "json", "--output", "made/report.json"),
            "made is an output folder of jboost",
        ),
        (("--format", "sql", "--output", "made/new.sql"), "choose a file in another folder"),
        (("--format", "sql", "--output", "data.csv"), "exists and is no .sql file by its name"),
        (("--format", "c"), "'c' is not one of 'python', 'sql', 'onnx', 'json', 'text'"),
    ],
)
def test_user_errors_of_export_are_one_line(folders, arguments, message):
    path = folders("made")
    own = [path / "Makefile", path / "made" / "report.json"]
    for file in own:
        file.write_text("mine", encoding="utf-8")
    code, out, err = run_in(path, "export", "made", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert [file.read_text(encoding="utf-8") for file in own] == ["mine", "mine"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("Makefile", "Makefile: exists and is no .csv or .tsv or .txt file by its name"),
        ("made/predictions.csv", "made is an output folder of jboost fit"),
    ],
)
def test_predictions_replace_no_other_file(folders, output, message):
    path = folders("made")
    (path / "Makefile").write_text("mine", encoding="utf-8")
    code, out, err = run_in(path, "predict", "made", "--data", "data.csv", "--output", output)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert (path / "Makefile").read_text(encoding="utf-8") == "mine"
    assert not (path / "made" / "predictions.csv").exists()


@pytest.mark.parametrize("flag", ["--report", "--figure"])
def test_other_commands_write_no_file_into_a_model_folder(folders, flag):
    name = str(folders("made") / "made" / "report.json")
    with pytest.raises(ValueError, match=f"^{flag} .*is an output folder of jboost fit"):
        output.check_file(flag, name, (".json",))


def test_an_export_parses_what_predict_parses(tmp_path):
    kinds = {
        "heat": ColumnKind("percent"),
        "pulse": ColumnKind("date", order="day first", origin=18262.0),
    }
    reading = {"columns": {name: dataclasses.asdict(kind) for name, kind in kinds.items()}}
    (tmp_path / "made").mkdir()
    model = make_separator("float32", [-0.5, 0.01], [0.1, 0.2], 0.1)
    files.save(model, tmp_path / MADE, metadata=METADATA | {"reading": reading})
    rng = np.random.default_rng(5)
    rows = [
        (f"{rng.integers(0, 1000) / 10}%", f"{rng.integers(1, 29):02}.{month:02}.2020")
        for month in rng.integers(1, 13, 1000)
    ]
    frame = polars.DataFrame(rows, schema=["heat", "pulse"], orient="row")
    frame.write_csv(tmp_path / "data.csv")
    signs = [1 if label == "yes" else -1 for label in predictions(tmp_path, "made")[1]]
    names = ("--score", "model score", "--prediction", "class")
    code, query, err = run_in(tmp_path, "export", "made", "--format", "sql", *names)
    assert (code, err) == (0, "")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (heat TEXT, pulse TEXT)")
    database.executemany("INSERT INTO data VALUES (?, ?)", rows)
    found = database.execute(query)
    assert [one[0] for one in found.description] == ["heat", "pulse", "model score", "class"]
    assert [row[-1] for row in found.fetchall()] == signs
    database.close()
    module = {}
    exec(run_in(tmp_path, "export", "made", "--format", "python")[1], module)
    assert [module["predict"]({"heat": heat, "pulse": pulse}) for heat, pulse in rows] == signs
    assert len(set(signs)) == 2


@pytest.mark.slow
def test_a_model_that_cannot_be_exported_is_named(folders):
    path = folders("made")
    make_frame().drop("face").write_csv(path / "numbers.csv")
    fit = ("--method", "example-weights", "--penalty", 0.05, "--radius", 5, "--output", "weights")
    code, _, err = run_in(path, "fit", "--data", "numbers.csv", *SMALL, *fit)
    assert code == 0, err
    code, _, err = run_in(path, "export", "weights", "--format", "sql")
    assert code == 2
    assert "model is of the type ExampleWeightModel, which jboost.export.to_sql cannot" in err


def test_export_without_onnxscript_names_the_extra(folders, monkeypatch):
    path = folders("made")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    given = ("--format", "onnx", "--output", "none.onnx")
    code, _, err = run_in(path, "export", "made", *given)
    assert code == 2
    assert "needs the package onnxscript" in err
    assert "pip install 'jboost[export]'" in err
    assert not (path / "none.onnx").exists()
