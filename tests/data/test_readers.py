"""Data files and embedded sets as tables, and the base classifiers that are trained on them."""

import csv
import gzip
import io
import warnings

import numpy as np
import polars
import pytest

from jboost.data import classifiers, embedded, readers
from jboost.data.table import Table, map_labels

CSV = "age,colour,smokes,ill\n31,red,true,no\n,blue,false,yes\n45.5,,true,no\n28,red,false,yes\n"


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


def write_as(folder, name):
    path = folder / name
    if name.endswith(".parquet"):
        polars.read_csv(CSV.encode()).write_parquet(path)
    else:
        text = CSV.replace(",", "\t") if ".tsv" in name else CSV
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz", "A.CSV", "a.parquet"])
def test_every_kind_of_file_gives_the_same_table(tmp_path, name):
    table = readers.read_table(write_as(tmp_path, name), label="ill")
    assert (table.num_rows, tuple(table.numeric), tuple(table.categorical)) == (
        4,
        ("age", "smokes"),
        ("colour",),
    )
    assert table.missing == {"age": 1, "colour": 1}
    np.testing.assert_array_equal(table.numeric["age"], [31, np.nan, 45.5, 28])
    assert table.numeric["smokes"].tolist() == [1, 0, 1, 0]
    assert table.categorical["colour"].tolist() == ["red", "blue", None, "red"]
    assert table.labels.tolist() == [-1, 1, -1, 1]
    assert str(table.mapping) == "ill: no -> -1, yes -> +1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n", "the file holds no data"),
        ("a,y\n", "has column names but no rows"),
        ("a,b\n1,0\n2,1\n", "there is no column 'y'; the columns are a, b"),
        ("a,Y\n1,0\n2,1\n", "there is no column 'y'; did you mean 'Y'?"),
        ("a,y\n1,0\ninf,1\n", "column 'a' holds inf in row 2"),
        ("a,y\n1,0\n2,\n", "column 'y' has no label in row 2"),
        (
            "a,y\n1,0\n2,0\n",
            "column 'y' holds 1 distinct value, 0 (2): labels take exactly two values",
        ),
        ("a,y\n1,0\n2,1\n3,2\n4,2\n", "column 'y' holds 3 distinct values, 2 (2), 0 (1), 1 (1)"),
        ("a,a,y\n1,1,0\n", "two columns are named 'a'"),
        ('\n"a ""b""",y,"a ""b"""\n1,1,0\n', "two columns are named 'a \"b\"'"),
        ("1.5,2,0\n2,1,1\n", "the first line holds numbers (1.5, 2, 0, ...)"),
        (
            "a,y\n1,0\n2,1,7,8\n",
            (
                "not readable as .csv: line 3 has 4 fields, and there are 2 columns: field 3 has no"
                " column"
            ),
        ),
        (
            b"a,y\n\xff\xfe,0\n2,1\n",
            "not readable as .csv: line 2, character 1: the byte 0xff is not UTF-8",
        ),
        ("a,y\ngröße,0\n2,1\n".encode("latin-1"), "save it in UTF-8"),
        (
            "größe,y\n1,0\n2,1\n".encode("latin-1"),
            "line 1, character 3: the byte 0xf6 is not UTF-8: name the encoding",
        ),
        ("a,y\n1,1\n2,1.0\n3,01\n", "column 'y' holds 1 distinct value, 1 (3)"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError) as caught:
        readers.read_table(path, label="y")
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("peple.csv", "there is no such file; did you mean 'people.csv'?"),
        ("nowhere/people.csv", "there is no folder"),
        ("people.xlsx", "expected a name that ends in .csv, .csv.gz, .tsv, .tsv.gz, .parquet"),
        ("folder.csv", "is a folder"),
        ("broken.csv.gz", "not readable as .csv.gz"),
        ("broken.parquet", "not readable as .parquet"),
    ],
)
def test_files_that_are_not_there_or_not_what_they_say(people, name, message):
    (people.parent / "folder.csv").mkdir()
    (people.parent / "broken.parquet").write_bytes(b"PAR1 no more")
    (people.parent / "broken.csv.gz").write_bytes(gzip.compress(CSV.encode() * 100)[:-20])
    with pytest.raises(ValueError, match="^[^\n]*$") as caught:
        readers.read_table(people.parent / name)
    assert message in str(caught.value)


def test_an_empty_name_of_a_file_is_said():
    with pytest.raises(ValueError, match="the name of the data file is empty"):
        readers.read_table("")


def test_columns_are_text_where_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,c,d,e\n01,true,1.0,,5\n02,true,NA,,6\n", encoding="utf-8")
    table = readers.read_table(path, text=["c", "b", "a", "d", "gone"])
    assert {name: values.tolist() for name, values in table.categorical.items()} == {
        "a": ["01", "02"],
        "b": ["true", "true"],
        "c": ["1.0", None],
        "d": [None, None],
    }
    assert table.numeric["e"].tolist() == [5, 6]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_name_with_brackets_is_no_pattern(tmp_path, kind):
    for name, value in (("my[1]", 9), ("my1", 1)):
        getattr(polars.DataFrame({"a": [value]}), f"write_{kind}")(tmp_path / f"{name}.{kind}")
    assert readers.read_table(tmp_path / f"my[1].{kind}").numeric["a"].tolist() == [9]


BLANK = [
    "a,b\n1,2\n\n3,4\n",
    "\na,b\r\n\r\n1,2\r\n,\r\n\r\n3,4\r\n\r\n\r\n",
    'a,b\n"x\n\ny",2\n\nNA,\n"",""\n\n\n3,4',
    "a\n1\n\n3\n",
]


@pytest.mark.parametrize("text", BLANK)
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_blank_lines_are_no_rows(tmp_path, text, name):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    table = readers.read_table(tmp_path / name, text=["a", "b"])
    header, *rows = list(csv.reader(io.StringIO(text.lstrip(), newline="")))
    wanted = [row or [""] for row in rows if row or len(header) == 1]
    found = list(zip(*(table.categorical[column] for column in header), strict=True))
    assert found == [
        tuple(None if field in readers.MISSING else field for field in row) for row in wanted
    ]
    num_blank = len(rows) - len(wanted)
    lines = "line was" if num_blank == 1 else "lines were"
    assert table.notes == (
        (f"{num_blank} blank {lines} left out; rows are counted without",) if num_blank else ()
    )


def test_blank_lines_alone_are_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has column names but no rows"):
        readers.read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.parquet"])
def test_names_that_look_like_marks_are_names(tmp_path, name):
    columns = ["x", "x_duplicated_0", "y"]
    if name.endswith(".parquet"):
        polars.DataFrame([[1, 2]] * 3, schema=columns).write_parquet(tmp_path / name)
    else:
        text = "\n".join(
            [("\t" if ".tsv" in name else ",").join(line) for line in (columns, "123", "456")]
        )
        (tmp_path / name).write_bytes(
            gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        )
    assert readers.read_table(tmp_path / name).columns == tuple(columns)


def test_other_columns_are_left_out_and_said(tmp_path):
    frame = polars.DataFrame(
        {"day": ["2020-01-02", "2020-01-03"], "a": [1, 2], "nothing": [None, None]}
    ).with_columns(polars.col("day").str.to_date())
    frame.write_parquet(tmp_path / "a.parquet")
    table = readers.read_table(tmp_path / "a.parquet")
    assert table.columns == ("a", "nothing")
    assert table.notes == ("columns that are neither numbers nor text were left out: day (Date)",)


@pytest.mark.parametrize(
    ("values", "signs", "mapping", "noted"),
    [
        ([1, -1], [1, -1], "y: -1 -> -1, 1 -> +1", False),
        ([-1.0, 1.0], [-1, 1], "y: -1 -> -1, 1 -> +1", False),
        ([0, 1, 1], [-1, 1, 1], "y: 0 -> -1, 1 -> +1", True),
        ([True, False], [1, -1], "y: False -> -1, True -> +1", True),
        ([10, 9], [1, -1], "y: 9 -> -1, 10 -> +1", True),
        (["10", "9"], [-1, 1], "y: 10 -> -1, 9 -> +1", True),
    ],
)
def test_labels_are_mapped_and_said(values, signs, mapping, noted):
    labels, said, notes = map_labels("memory", "y", values)
    assert (labels.tolist(), str(said), bool(notes)) == (signs, mapping, noted)
    assert said.to_text(labels) == [
        str(int(value)) if isinstance(value, float) else str(value) for value in values
    ]


@pytest.mark.parametrize(
    ("written", "signs", "noted"),
    [
        (["true", "false"], [1, -1], True),
        (["01", "02"], [-1, 1], True),
        (["1", "-1"], [1, -1], False),
        (["-1", "+1"], [-1, 1], False),
        (["1.0", "0.0"], [1, -1], True),
        (["10", "9"], [1, -1], True),
        (["1e1", ".5"], [1, -1], True),
        (["9007199254740993", "9007199254740992"], [1, -1], True),
        (["1_0", "9"], [-1, 1], True),  # text
        (["yes", " no"], [1, -1], True),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_labels_of_text_files_keep_their_spelling(tmp_path, kind, written, signs, noted):
    path = tmp_path / f"a.{kind}"
    separator = "," if kind == "csv" else "\t"
    path.write_text(
        "".join(f"{left}{separator}{right}\n" for left, right in [("a", "y"), *enumerate(written)]),
        encoding="utf-8",
    )
    table = readers.read_table(path, label="y")
    assert (table.labels.tolist(), bool(table.notes)) == (signs, noted)
    assert table.mapping.to_text(table.labels) == written


def test_the_commonest_spelling_of_a_label_stands_for_all(tmp_path):
    (tmp_path / "a.csv").write_text("y,a\nTrue,1\ntrue,1\nFALSE,2\ntrue,3\n", encoding="utf-8")
    assert (
        str(readers.read_table(tmp_path / "a.csv", label="y").mapping)
        == "y: FALSE -> -1, true -> +1"
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_integers_that_float64_merges_are_noted(tmp_path, kind):
    keys = [2**53 + row % 2 for row in range(8)] + [-(2**60), None]
    frame = polars.DataFrame({"key": keys, "far": [2**60 * row for row in range(10)]})
    getattr(frame, f"write_{kind}")(tmp_path / f"a.{kind}")
    assert readers.read_table(tmp_path / f"a.{kind}").notes == (
        "column 'key' has integers beyond 2^53: 3 different ones are read as 2 numbers;"
        " --categorical key keeps them apart",
    )
    apart = readers.read_table(tmp_path / f"a.{kind}", text=["key"])
    assert len({*apart.categorical["key"]}) == 4


@pytest.mark.parametrize("values", [[[1], [2]], [{"b": 1}, {"b": 2}], [b"no", b"yes"]])
def test_labels_are_no_lists(tmp_path, values):
    polars.DataFrame({"a": [1, 2], "y": values}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        ValueError,
        match="column 'y' holds values of the type .*: labels are numbers, text, or true and false",
    ):
        readers.read_table(tmp_path / "a.parquet", label="y")


def test_numbers_names_the_first_bad_row(people):
    table = readers.read_table(people)
    with pytest.raises(ValueError, match="people.csv: column 'age' has no value in row 2"):
        table.numbers("age")
    with pytest.raises(ValueError, match="column 'colour' is not numeric: row 1 holds 'red'"):
        table.numbers("colour")
    with pytest.raises(ValueError, match="there is no column 'colur'; did you mean 'colour'?"):
        table.numbers("colur")
    assert table.weights("smokes").tolist() == [1, 0, 1, 0]
    costs = Table("memory", 2, {"cost": np.array([1.0, -2.0]), "none": np.zeros(2)}, {}, {})
    with pytest.raises(
        ValueError,
        match=(
            "column 'cost' holds -2 in row 2: weights are not negative; a weight of 0 leaves the"
            " row out"
        ),
    ):
        costs.weights("cost")
    with pytest.raises(
        ValueError, match="column 'none' is 0 in all rows: at least one weight must be above 0"
    ):
        costs.weights("none")
    mixed = Table("memory", 3, {}, {"a": np.array(["1", None, "x1"], dtype=object)}, {"a": 1})
    with pytest.raises(ValueError, match="row 3 holds 'x1'"):
        mixed.numbers("a")


def test_a_column_without_values_is_numeric_where_numbers_are_wanted(people):
    people.write_text("age,colour\n,red\n,blue\n", encoding="utf-8")
    table = readers.read_table(people)
    np.testing.assert_array_equal(table.matrix(["age"], ()), np.full((2, 1), np.nan))
    assert table.matrix([], ["age"]).tolist() == [[None], [None]]
    with pytest.raises(ValueError, match="column 'age' has no value in row 1"):
        table.numbers("age")


def test_rows_and_without(people):
    table = readers.read_table(people, label="ill")
    some = table.rows(np.array([1, 3]))
    assert (some.num_rows, some.missing, some.labels.tolist()) == (2, {"age": 1}, [1, 1])
    assert table.without(["age"]).columns == ("smokes", "colour")
    assert table.without(["age"]).missing == {"colour": 1}


@pytest.mark.parametrize("name", embedded.names())
def test_embedded_sets(name):
    table = embedded.load_table(name)
    assert set(table.labels) == {-1.0, 1.0}
    assert table.matrix(tuple(table.numeric), ()).shape == (table.num_rows, len(table.columns))


def test_unknown_embedded_set():
    with pytest.raises(ValueError, match="'moon'.*'breast_cancer', 'digits', 'wine'"):
        embedded.load_table("moon")


# --- base classifiers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed():
    """Sixty rows with numbers, text, and gaps in both."""
    generator = np.random.default_rng(0)
    labels = np.where(np.arange(60) % 3 == 0, 1.0, -1.0)
    numbers = generator.normal(size=60) + labels
    numbers[5] = np.nan
    text = np.where(labels > 0, "yes", "no").astype(object)
    text[generator.permutation(60)[:15]] = "maybe"
    text[7] = None
    constant = np.full(60, np.nan)
    return Table(
        "memory",
        60,
        {"a": numbers, "empty": constant},
        {"b": text},
        {"a": 1, "empty": 60, "b": 1},
        labels,
    )


FOLDS = [np.arange(60) % 4 == fold for fold in range(4)]


@pytest.mark.slow
def test_all_classifiers_score_finitely_and_survive_the_file(mixed, tmp_path):
    names = classifiers.names()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        base = classifiers.fit_base(mixed, names, folds=FOLDS)
        assert base.scores.shape == (60, len(names))
        assert np.isfinite(base.scores).all()
        classifiers.save_base(base, tmp_path / "base.skops")
        loaded = classifiers.load_base(tmp_path / "base.skops")
        scores = base.predict_scores(mixed)
        np.testing.assert_array_equal(loaded.predict_scores(mixed), scores)
    assert (loaded.names, loaded.numeric, loaded.categorical) == (names, ("a", "empty"), ("b",))
    right = (np.sign(scores) == mixed.labels[:, None]).mean(axis=0)
    assert (right > 0.8).all(), dict(zip(names, right, strict=True))


def test_out_of_fold_scores_come_from_classifiers_that_did_not_see_the_row(mixed):
    base = classifiers.fit_base(mixed, ["knn"], folds=FOLDS)
    inside = classifiers.fit_base(mixed, ["knn"], scores="in-sample")
    first = mixed.rows(np.flatnonzero(~FOLDS[0]))
    apart = classifiers.fit_base(first, ["knn"], scores="in-sample").predict_scores(
        mixed.rows(np.flatnonzero(FOLDS[0]))
    )
    np.testing.assert_array_equal(base.scores[FOLDS[0]], apart)
    assert (inside.scores[:, 0] * mixed.labels).min() > (base.scores[:, 0] * mixed.labels).min()


def test_same_seed_same_scores(mixed):
    first, second = (
        classifiers.fit_base(mixed, ["forest"], seed=3, scores="in-sample").scores for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_new_rows_may_hold_unknown_text_and_gaps(mixed):
    base = classifiers.fit_base(mixed, ["logistic", "tree"], scores="in-sample")
    new = Table(
        "new",
        2,
        {"a": np.array([np.nan, 1.0]), "empty": np.array([1.0, np.nan])},
        {"b": np.array([None, "never seen"], dtype=object)},
        {},
    )
    assert np.isfinite(base.predict_scores(new)).all()
    # text that looks like numbers in this file
    codes = Table("new", 1, {"a": np.ones(1), "empty": np.ones(1), "b": np.array([7.0])}, {}, {})
    assert np.isfinite(base.predict_scores(codes)).all()
    with pytest.raises(ValueError, match="new: column 'a' is not numeric: row 1 holds 'x'"):
        base.predict_scores(
            Table(
                "new",
                1,
                {"empty": np.ones(1)},
                {"a": np.array(["x"], dtype=object), "b": np.array(["no"], dtype=object)},
                {},
            )
        )
    with pytest.raises(ValueError, match="new: there is no column 'b'"):
        base.predict_scores(Table("new", 1, {"a": np.ones(1), "empty": np.ones(1)}, {}, {}))


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["treee"], {}, "there is no base classifier 'treee'; did you mean 'tree'"),
        (["tree", "tree"], {}, "not distinct"),
        (["tree"], {"scores": "best"}, "scores is 'best'"),
        (["tree"], {"folds": FOLDS[:2]}, "folds do not hold every row out once"),
    ],
)
def test_bad_requests(mixed, names, options, message):
    with pytest.raises(ValueError, match=message):
        classifiers.fit_base(mixed, names, **options)


def test_too_few_rows_are_said(mixed):
    few = mixed.rows(np.array([0, 1, 2, 4]))
    with pytest.raises(ValueError, match="the smaller class has 1 row"):
        classifiers.fit_base(few, ["tree"], folds=[np.arange(4) % 2 == fold for fold in range(2)])
    with pytest.raises(
        ValueError, match="memory: the base classifier 'knn' cannot be trained: .*n_neighbors"
    ):
        classifiers.fit_base(
            mixed.rows(np.array([0, 1, 3, 4])), ["knn"], folds=[np.arange(4) < 2, np.arange(4) >= 2]
        )
    with pytest.raises(ValueError, match="no column is left"):
        classifiers.fit_base(mixed.without(["a", "empty", "b"]), ["tree"], folds=FOLDS)


def test_files_of_other_things_are_refused(tmp_path):
    import skops.io
    from sklearn.cluster import KMeans

    with pytest.raises(ValueError, match="there is no such file"):
        classifiers.load_base(tmp_path / "none.skops")
    (tmp_path / "damaged.skops").write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="not readable as base classifiers"):
        classifiers.load_base(tmp_path / "damaged.skops")
    skops.io.dump({"names": KMeans()}, tmp_path / "other.skops")
    with pytest.raises(ValueError, match="not readable as base classifiers"):
        classifiers.load_base(tmp_path / "other.skops")
    skops.io.dump({"names": gzip.compress}, tmp_path / "function.skops")
    with pytest.raises(ValueError, match="types that jboost does not trust: gzip.compress"):
        classifiers.load_base(tmp_path / "function.skops")
