"""`jboost verify` reads a table as `jboost fit` does, in whatever format it is."""

import gzip
import io

import numpy as np
import polars
import pytest

import jboost
from command_line import run_in
from jboost.cli import inputs

POINTS = [(0, 0), (1, 0), (2, 0), (4, 0), (5, 0), (6, 0)]
LABELS = [-1, -1, -1, 1, 1, 1]
TABLE = "a,b,y\n" + "".join(
    f"{a},{b},{'yes' if y > 0 else 'no'}\n" for (a, b), y in zip(POINTS, LABELS, strict=True)
)


def make_model(folder, num_points=6, **metadata):
    """The line between the classes, as `jboost fit` stores it."""
    separator = jboost.pair.Separator(
        normal=np.array([1.0, 0.0]),
        anchor=np.array([3.0, 0.0]),
        bias=np.zeros(()),
        offset=np.array(-3.0),
        loss=np.zeros(()),
        lower_bound=np.zeros(()),
        margin=np.ones(()),
        misclassified=np.zeros(num_points, bool),
        status=np.zeros((), np.int32),
    )
    stored = {
        "method": "pair",
        "names": ["a", "b"],
        "score_columns": ["a", "b"],
        "labels": {"column": "y", "negative": "no", "positive": "yes"},
        "weights": None,
        "reading": None,
    }
    (folder / "out").mkdir()
    jboost.files.save(separator, folder / "out" / "model.npz", metadata=stored | metadata)


def parquet():
    stream = io.BytesIO()
    polars.read_csv(io.StringIO(TABLE)).write_parquet(stream)
    return stream.getvalue()


def spaced():
    return TABLE.replace(",yes", ',"yes "').replace(",no", ", no")


FILES = {
    "plain.csv": TABLE.encode(),
    "bom.csv": b"\xef\xbb\xbf" + TABLE.replace("\n", "\r\n").encode(),
    "utf16.csv": TABLE.encode("utf-16"),
    "comment.csv": b"# mine, of today\n" + TABLE.encode(),
    "packed.csv.gz": gzip.compress(TABLE.encode()),
    "typed.parquet": parquet(),
    "spaces.csv": spaced().encode(),
    "tabs.tsv": TABLE.replace(",", "\t").encode(),
    "grouped.csv": (TABLE + '"1,200",0,yes\n"1,300",0,yes\n').encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_verify_reads_the_formats_that_fit_reads(name, tmp_path):
    make_model(tmp_path, num_points=8 if "grouped" in name else 6)
    (tmp_path / name).write_bytes(FILES[name])
    code, out, err = run_in(tmp_path, "verify", "out", "--data", name)
    assert (code, err) == (0, ""), out
    assert out.startswith("valid")


def test_verify_reads_percentages_and_classes_as_fit_does(tmp_path):
    make_model(tmp_path, labels={"column": "y", "negative": "not 1", "positive": "1"})
    classes = ("0", "2", "0.0", "1.0", "1", "1")
    rows = [f"{100 * a}%,{b},{y}\n" for (a, b), y in zip(POINTS, classes, strict=True)]
    (tmp_path / "data.csv").write_text("a,b,y\n" + "".join(rows), encoding="utf-8")
    assert run_in(tmp_path, "verify", "out", "--data", "data.csv")[0] == 0


def test_verify_refuses_a_third_class_of_which_the_fit_knew_nothing(tmp_path):
    make_model(tmp_path)
    (tmp_path / "data.csv").write_text(TABLE.replace("2,0,no", "2,0,maybe"), encoding="utf-8")
    code, _, err = run_in(tmp_path, "verify", "out", "--data", "data.csv")
    assert (code, "holds more than the two classes of the fit, no and yes" in err) == (2, True)


def test_verify_leaves_out_the_rows_that_the_fit_left_out(tmp_path):
    """Rows of weight 0 and rows that were held out, which lie on the wrong side here."""
    apart = inputs.split_rows(np.repeat([-1, 1], 6), 0.5, 0)[1]
    held_out = iter([(9, 0), (9, 0), (9, 0), (0, 0), (0, 0), (0, 0)])
    kept = iter(POINTS)
    rows = [next(held_out if row in apart else kept) for row in range(12)]
    lines = [f"{a},{b},{-1 if row < 6 else 1},1\n" for row, (a, b) in enumerate(rows)]
    text = "a,b,y,w\n9,9,-1,0\n" + "".join(lines)
    (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    make_model(
        tmp_path,
        labels={"column": "y", "negative": "-1", "positive": "1"},
        weights="w",
        held_out={"fraction": 0.5, "seed": 0},
    )
    code, out, _ = run_in(tmp_path, "verify", "out", "--data", "data.csv")
    assert (code, out.splitlines()[0]) == (0, "valid")


def test_verify_ends_with_status_2_if_there_is_no_model(tmp_path):
    (tmp_path / "data.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    for model, flaw in (("nowhere", "there is no such file"), ("empty", "it has no model.npz")):
        code, out, err = run_in(tmp_path, "verify", model, "--data", "data.csv")
        assert (code, out) == (2, "")
        assert flaw in err


def test_verify_takes_the_number_of_points_whose_lines_are_tried(tmp_path):
    make_model(tmp_path)
    (tmp_path / "data.csv").write_text(TABLE, encoding="utf-8")
    arguments = ("verify", "out", "--data", "data.csv", "--max-points")
    assert "lower bounds of more than 5 points" in run_in(tmp_path, *arguments, 5)[1]
    assert "lower bounds" not in run_in(tmp_path, *arguments, 6)[1]


@pytest.mark.parametrize(
    ("name", "reading"), [("bom.csv", {}), ("comment.csv", {"comment": "#"}), ("plain.csv", {})]
)
def test_the_file_of_verify_alone_reads_marks_comments_and_classes(name, reading, tmp_path):
    make_model(
        tmp_path, labels={"column": "y", "negative": "not yes", "positive": "yes"}, reading=reading
    )
    (tmp_path / name).write_bytes(FILES[name])
    assert jboost.verify.verify_file(tmp_path / "out", tmp_path / name).valid


@pytest.mark.slow
def test_verify_proves_a_fit_with_a_holdout_weights_of_0_and_three_classes(tmp_path):
    random = np.random.default_rng(0)
    points = random.normal(size=(40, 2))
    classes = np.where(points[:, 0] + random.normal(size=40) > 0, "red", "blue")
    rows = [
        f"{a};{b};{'green' if row % 9 == 4 else y};{row % 4}\n"
        for row, ((a, b), y) in enumerate(zip(points.tolist(), classes, strict=True))
    ]
    (tmp_path / "data.txt").write_text("a;b;y;w\n" + "".join(rows), encoding="utf-8")
    fit = ("fit", "--data", "data.txt", "--label", "y", "--positive", "red", "--scores", "a", "b")
    assert run_in(tmp_path, *fit, "--weights", "w", "--holdout", "0.3", "--output", "out")[0] == 0
    code, out, _ = run_in(tmp_path, "verify", "out", "--data", "data.txt")
    assert (code, out.splitlines()[0]) == (0, "valid")
