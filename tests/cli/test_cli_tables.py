"""Tables as people have them, from the command line: what fit is told of them, what a model keeps,
and what prediction needs.
"""

import io
import json
import sys
from pathlib import Path

import numpy as np
import polars
import pytest

from jboost import cli, files
from jboost.cli import resolution
from jboost.cli.option import ADABOOST
from jboost.cli.reading import recall_reading

ROWS = 40
FIT = ("--label", "ill", "--method", "adaboost", "--precision", "float32", "--rounds", "4")


def people(kinds=2):
    """German people: a key, an age that tells who is ill, a percentage that tells as much, two
    columns that tell nothing; of two classes or three.
    """
    random = np.random.default_rng(0)
    age = random.integers(18, 80, ROWS)
    rate = np.where(random.uniform(size=ROWS) < 0.2, 100 - age, age)
    ill = np.where(age + rate > 100, "yes", np.where((age % 2 == 1) | (kinds == 2), "no", "maybe"))
    rows = [
        f"P{row};{a};{b},5%;1.1.2024;well;{c}"
        for row, (a, b, c) in enumerate(zip(age, rate, ill, strict=True))
    ]
    return "key;age;rate;seen;remark;ill\n" + "\n".join(rows) + "\n"


def run_in(folder, arguments, capture=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("os._exit", sys.exit)
        with pytest.raises(SystemExit) as exit:
            cli.main([str(argument) for argument in arguments])
    captured = capture.readouterr() if capture else None
    return exit.value.code, captured.out if captured else "", captured.err if captured else ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the data and a model of them."""
    path = tmp_path_factory.mktemp("tables")
    (path / "data.csv").write_text(people(), encoding="utf-8")
    assert (
        run_in(path, ("fit", "--data", "data.csv", *FIT, "--id", "key", "--date", "seen"))[0] == 0
    )
    return path


@pytest.fixture
def run(folder, capsys):
    return lambda *arguments: run_in(folder, arguments, capsys)


def predictions(folder, run, content, *options):
    (folder / "new.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run("predict", "jboost-out", "--data", "new.csv", *options)
    assert code == 0, err
    return polars.read_csv(out.encode(), infer_schema_length=None), err


# --- fit ------------------------------------------------------------------------------------------


def test_the_report_tells_how_the_table_was_read(folder):
    data = json.loads((folder / "jboost-out" / "report.json").read_text(encoding="utf-8"))["data"]
    assert data["reading"] == {
        "separator": ";",
        "decimal": ",",
        "comment": None,
        "encoding": "utf-8",
    }
    assert data["columns"] == {"age": "number", "rate": "percent", "seen": "date", "remark": "text"}
    assert "column 'rate' is written in percent: 5% is read as 0.05" in data["notes"]
    assert "column 'seen' is read as days since 2024-01-01 (day first)" in data["notes"]
    assert "the file is read with separator ;, decimal ," in data["notes"]


def test_the_model_keeps_what_prediction_needs(folder):
    kinds, reading = recall_reading(
        files.load_metadata(folder / "jboost-out" / "model.npz")["reading"]
    )
    assert (reading.separator, reading.decimal, reading.id) == (";", ",", "key")
    assert {name: kind.name for name, kind in kinds.items()} == {
        "age": "number",
        "rate": "percent",
        "seen": "date",
        "remark": "text",
    }
    assert kinds["remark"].categories == ("well",)


REFUSED = [
    (
        (),
        (
            "column 'key' holds P0 in row 1 (line 2): 40 different texts in 40 cells look like an"
            " identifier"
        ),
    ),
    (
        ("--ignore", "key"),
        "column 'seen' holds 1.1.2024 in row 1 (line 2): a date is neither a number nor a category",
    ),
    (("--ignore", "kay"), "data.csv: there is no column 'kay'; did you mean 'key'?"),
    (
        ("--id", "ill"),
        (
            "the column 'ill' is named by --id, and by --label, --weights or --scores: leave it out"
            " of one"
        ),
    ),
    (
        ("--id", "key", "--ignore", "key"),
        "the column 'key' is named by --id and by --ignore: leave it out of one",
    ),
    (
        ("--date", "seen", "--categorical", "seen"),
        "the column 'seen' is named by --categorical and by --date: leave it out of one",
    ),
    (("--separator", ";;"), "separator is ';;': one character such as , ; | is expected"),
    (("--decimal", ";"), "'--decimal'"),
    (("--encoding", "utf-99"), "encoding is 'utf-99', which Python does not know"),
    (("--id", "key", "--date", "seen", "--decimal", "."), "column 'rate' holds"),
    (
        ("--id", "key", "--date", "seen", "--positive", "often"),
        "column 'ill' has no class 'often' for --positive; the classes are no, yes",
    ),
    (("--id", "key", "--date", "age"), "column 'age' holds"),
    (
        ("--weights", "key", "--date", "seen"),
        (
            "the weights (--weights) are column 'key', which holds 'P0' in row 1 (line 2): expected"
            " numbers from 0 up; name another column, or leave --weights out"
        ),
    ),
    (("--data", "sklearn:wine", "--label", "ill"), "an embedded data set brings its labels"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_tables_that_are_refused(run, arguments, message):
    code, out, err = run("fit", "--data", "data.csv", *FIT, *arguments, "--output", "other")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_options_of_files_are_not_for_embedded_data():
    with pytest.raises(
        ValueError,
        match="sklearn:wine: --ignore is about a file, and the data set is embedded: leave it out",
    ):
        resolution.resolve({"data": "sklearn:wine", "ignore": ("hue",)}, {"ignore": True})
    displaced = resolution.resolve(
        {"data": "sklearn:wine", "ignore": ("hue",), "separator": ";"}, {"data": True}
    )
    assert (displaced.ignore, displaced.separator) == ((), None)


def test_a_configuration_may_hold_the_same(tmp_path):
    config = tmp_path / "job.toml"
    config.write_text(
        'data = "-"\nignore = ["a", "b"]\ndate = "when"\nmissing_values = "NA,-"\nseparator ='
        ' "tab"\n'
    )
    assert resolution.read_config(config) == {
        "data": "-",
        "ignore": ["a", "b"],
        "date": ["when"],
        "missing_values": "NA,-",
        "separator": "tab",
    }


def test_only_named_columns_may_be_at_fault_where_scores_are_combined(folder):
    from jboost.cli import inputs

    (folder / "scores.csv").write_text(
        "name,a,b,when,y\n"
        + "".join(f"N{row},{row},{row % 3},2024-01-01,{row % 2}\n" for row in range(30))
    )
    settings = resolution.resolve(
        {"data": str(folder / "scores.csv"), "label": "y", "scores": ("a", "b")}, {}
    )
    table = inputs.read_source(settings).table
    assert (tuple(table.numeric), tuple(table.categorical)) == (("a", "b"), ("name", "when"))


# --- predict --------------------------------------------------------------------------------------

HEAD = "key;age;rate;seen;remark;ill\n"


def test_prediction_reads_the_same_dialect_without_options(folder, run):
    frame, err = predictions(folder, run, people())
    assert err == ""
    assert frame.columns == ["key", "score", "prediction"]
    assert frame["key"].to_list() == [f"P{row}" for row in range(ROWS)]
    wanted = [line.rpartition(";")[2] for line in people().splitlines()[1:]]
    assert (
        sum(one == other for one, other in zip(frame["prediction"], wanted, strict=True))
        > 0.9 * ROWS
    )


def test_rows_that_cannot_be_predicted_keep_their_place(folder, run):
    frame, err = predictions(
        folder,
        run,
        HEAD + "A;20;20,5%;1.2.2024;;\n\nB;30\n"
        "C;79;79,5%;2.2.2024;x;yes;more\nD;79;79,5%;2.2.2024;;maybe\n\n",
    )
    assert frame["key"].to_list() == ["A", None, "B", "C", "D"]
    assert frame["prediction"].to_list() == ["no", None, None, None, "yes"]
    assert frame["score"].is_null().to_list() == [False, True, True, True, False]
    assert frame["note"].to_list() == [
        None,
        "a blank line (line 3)",
        "2 fields, and there are 6 columns: it ends before column 'rate' (line 4)",
        "7 fields, and there are 6 columns: field 7 has no column (line 5)",
        None,
    ]
    assert err == "jboost: note: 3 of 5 rows cannot be predicted: the column 'note' says why\n"
    alone, _ = predictions(folder, run, HEAD + "\nA\n")
    assert alone["note"].len() == 2


def test_columns_that_the_model_does_not_use_may_hold_anything(folder, run):
    kept = polars.read_csv(people().encode(), separator=";")
    usual, _ = predictions(folder, run, people())
    odd, err = predictions(
        folder,
        run,
        "age;rate;remark;remark;ill\n"
        + "".join(f"{row['age']};{row['rate']};inf;;5%\n" for row in kept.to_dicts()),
    )
    assert err == ""
    assert odd.columns == ["score", "prediction"]
    assert odd.equals(usual.drop("key"))


def test_another_dialect_is_sniffed_or_told(folder, run):
    usual, _ = predictions(folder, run, people())
    plain = people().replace(",5%", ".5%").replace(";", ",")
    for content, told in (
        (plain, ()),
        (people().encode("utf-16"), ()),
        (people().replace(";", ":"), ("--separator", ":")),
        ("% c\n" + people(), ("--comment", "%")),
        (people().replace("key", "who"), ("--id", "who")),
    ):
        frame, err = predictions(folder, run, content, *told)
        assert frame.rename({"who": "key"}, strict=False).equals(usual)
        assert err == ""


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (
            HEAD + "A;x;5%;1.1.2024;;\n",
            (),
            "new.csv: column 'age' is not numeric: row 1 holds 'x' (line 2); a number is expected",
        ),
        (
            HEAD + "A;20;5;1.1.2024;;\n",
            (),
            "new.csv: column 'rate' holds 5 in row 1 (line 2): a percentage such as 5% is expected",
        ),
        (
            HEAD + "A;inf;5%;1.1.2024;;\n",
            (),
            "new.csv: column 'age' holds inf in row 1 (line 2): it is infinite",
        ),
        ("key;rate\nA;5%\n", (), "new.csv: there is no column 'age'"),
        (
            HEAD + "A;20;5%;1.1.2024;;\n",
            ("--id", "kee"),
            "new.csv: there is no column 'kee'; did you mean 'key'?",
        ),
        (
            "score;age;rate\n1;20;5%\n",
            ("--id", "score"),
            "the column 'score' of --id has the name of a column of the predictions",
        ),
    ],
)
def test_predictions_that_are_refused(folder, run, content, arguments, message):
    (folder / "new.csv").write_text(content)
    code, out, err = run(
        "predict", "jboost-out", "--data", "new.csv", *arguments, "--output", "none.csv"
    )
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (folder / "none.csv").exists()


def test_data_from_the_standard_input(folder, run, monkeypatch):
    usual, _ = predictions(folder, run, people())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(people().encode())))
    code, out, _ = run("predict", "jboost-out", "--data", "-")
    assert code == 0
    assert polars.read_csv(out.encode()).equals(usual)


def test_one_class_against_the_rest(folder, run):
    (folder / "three.csv").write_text(people(3))
    fit = ("--data", "three.csv", *FIT, "--id", "key", "--date", "seen")
    code, _, err = run("fit", *fit, "--output", "three")
    assert code == 2
    assert "column 'ill' holds 3 distinct values, " in err
    assert "name the class that is to be told from all others with --positive CLASS" in err
    assert run("fit", *fit, "--positive", "maybe", "--output", "three")[0] == 0
    code, out, _ = run("predict", "three", "--data", "three.csv")
    assert code == 0
    assert set(polars.read_csv(out.encode())["prediction"]) <= {"maybe", "not maybe"}
    code, out, err = run("evaluate", *fit, "--positive", "maybe", "--folds", "2")
    assert (code, err) == (0, "")
    assert "labels were mapped: ill: not maybe -> -1, maybe -> +1" in out


def test_a_model_of_an_older_jboost_still_predicts(folder, run):
    """Its file does not say how the columns were read: numbers are plain, and the rest is text."""
    path = Path(folder) / "jboost-out" / "model.npz"
    before, metadata = path.read_bytes(), files.load_metadata(path)
    assert metadata["method"] == ADABOOST
    model = files.load(path)
    try:
        files.save(
            model,
            path,
            metadata={name: value for name, value in metadata.items() if name != "reading"},
        )
        frame, _ = predictions(folder, run, "age,rate,seen\n20,0.205,1\n79,0.795,1\n")
        assert frame["prediction"].to_list() == ["no", "yes"]
    finally:
        path.write_bytes(before)


def test_rows_of_weight_0_count_as_absent(tmp_path, capsys):
    head, *rows = people().splitlines()
    idle = [row.rpartition(";")[0] + ";no" for row in rows[:9]]
    (tmp_path / "plain.csv").write_text(
        "\n".join([f"{head};w", *(f"{row};1" for row in rows)]) + "\n", encoding="utf-8"
    )
    (tmp_path / "idle.csv").write_text(
        "\n".join([f"{head};w", *(f"{row};1" for row in rows), *(f"{row};0" for row in idle)])
        + "\n",
        encoding="utf-8",
    )
    votes = {}
    for name in ("plain", "idle"):
        arguments = (
            "fit",
            "--data",
            f"{name}.csv",
            *FIT,
            "--id",
            "key",
            "--date",
            "seen",
            "--weights",
            "w",
            "--output",
            name,
        )
        code, _, err = run_in(tmp_path, arguments, capsys)
        assert code == 0, err
        report = json.loads((tmp_path / name / "report.json").read_text(encoding="utf-8"))
        votes[name] = report["losses"]
    assert votes["plain"] == votes["idle"]
    assert "rows left out whose weight 'w' is 0: 9" in report["data"]["notes"]
