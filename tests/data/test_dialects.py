"""Tables as people have them: dialects of text files, what their cells mean, and what is refused,
with the line, the column and the cell.
"""

import gzip
import io
import math

import numpy as np
import polars
import pytest

from jboost.data import dates, readers
from jboost.data.kinds import ColumnKind
from jboost.data.readers import Reading

NAN = math.nan


def read(folder, content, name="a.csv", *, label="y", **reading):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return readers.read_table(path, label=label, reading=Reading(**reading))


def columns_of(table):
    return {
        name: values.tolist() for name, values in {**table.numeric, **table.categorical}.items()
    }


def same(found, wanted):
    return found.keys() == wanted.keys() and all(
        len(found[name]) == len(values)
        and all(
            one == other or (one != one and other != other)
            for one, other in zip(found[name], values, strict=True)
        )
        for name, values in wanted.items()
    )


# --- dialects -------------------------------------------------------------------------------------

AGES = {"age": [31.0, 45.0]}
WAGES = AGES | {"wage": [1250.5, 980.25]}
DIALECTS = {  # name -> content, options, columns
    "plain": ("age,y\n31,no\n45,yes\n", {}, AGES),
    "no end of the last line": ("age,y\n31,no\n45,yes", {}, AGES),
    "Windows ends of lines": ("age,y\r\n31,no\r\n45,yes\r\n", {}, AGES),
    "CR alone": ("age,y\r31,no\r45,yes\r", {}, AGES),
    "UTF-8 with a mark": ("\ufeffage,y\n31,no\n45,yes\n", {}, AGES),
    "UTF-16": ("age,y\n31,no\n45,yes\n".encode("utf-16"), {}, AGES),
    "UTF-16 without a mark": ("age,y\r\n31,no\r\n45,yes\r\n".encode("utf-16-be"), {}, AGES),
    "cp1252": (
        "age,straße,y\n31,Köln,no\n45,Ulm,yes\n".encode("cp1252"),
        {"encoding": "cp1252"},
        AGES | {"straße": ["Köln", "Ulm"]},
    ),
    "German Excel": ("age;wage;y\r\n31;1250,5;no\r\n45;980,25;yes\r\n", {}, WAGES),
    "German thousands": (
        "age;wage;y\n31;1.250,5;no\n45;980,25;yes\n28;12.000,00;no\n",
        {},
        {"age": [31, 45, 28], "wage": [1250.5, 980.25, 12000]},
    ),
    "US thousands": (
        'age,wage,y\n31,"1,250.5",no\n45,980.25,yes\n28,"12,000",no\n',
        {},
        {"age": [31, 45, 28], "wage": [1250.5, 980.25, 12000]},
    ),
    "Swiss thousands": ("wage,y\n1'250.5,no\n3'980.25,yes\n", {}, {"wage": [1250.5, 3980.25]}),
    "French thousands": (
        "wage;y\n1\u202f250,5;no\n3\u202f980,25;yes\n",
        {},
        {"wage": [1250.5, 3980.25]},
    ),
    "quoted decimal commas": ('age,wage,y\n31,"1250,5",no\n45,"980,25",yes\n', {}, WAGES),
    "Excel says the separator": ("sep=;\nage;y\n31;no\n45;yes\n", {}, AGES),
    "bars": ("age|y\n31|no\n45|yes\n", {}, AGES),
    "tabs in a .csv": ("age\ty\n31\tno\n45\tyes\n", {}, AGES),
    "blanks after commas": ("age, wage, y\n31, 1250.5, no\n45, 980.25, yes\n", {}, WAGES),
    "aligned columns": ("  age    wage  y\n   31  1250.5  no\n   45  980.25  yes\n", {}, WAGES),
    "another separator": ("age:y\n31:no\n45:yes\n", {"separator": ":"}, AGES),
    "R's write.csv": ('"","age","y"\n"1",31,"no"\n"2",45,"yes"\n', {}, AGES),
    "R's write.table": ('"age" "wage" "y"\n"1" 31 1250.5 "no"\n"2" 45 980.25 "yes"\n', {}, WAGES),
    "pandas with an index": (",age,y\n0,31,no\n1,45,yes\n", {}, AGES),
    "separators at the ends": ("age,y,\n31,no,\n45,yes,\n", {}, AGES),
    "separators at the ends of rows": ("age,y\n31,no,\n45,yes,\n", {}, AGES),
    "separator at the end of the names": ("age,y,\n31,no\n45,yes\n", {}, AGES),
    "comments before": ("# from the clinic, 2024\n# two rows\nage,y\n31,no\n45,yes\n", {}, AGES),
    "comments between": ("age,y\n% first\n31,no\n45,yes\n% end\n", {"comment": "%"}, AGES),
    "a mark within quotes": (
        '# one "\nage,said,y\n31,"x\n# no comment",no\n# one\n45,z,yes\n',
        {},
        AGES | {"said": ["x\n# no comment", "z"]},
    ),
    "names behind a mark": (
        "##bed\n#age\tbase\ty\n31\tA\tno\n45\tC\tyes\n",
        {},
        AGES | {"base": ["A", "C"]},
    ),
    "blank lines": ("\n\nage,y\n31,no\n\n45,yes\n\n", {}, AGES),
    "quotes, commas and breaks in a field": (
        'age,said,y\n31,"a ""word"", or\ntwo",no\n45,"x",yes\n',
        {},
        AGES | {"said": ['a "word", or\ntwo', "x"]},
    ),
    "quoted names": (
        '"age","the wage, gross",y\n31,1250.5,no\n45,980.25,yes\n',
        {},
        AGES | {"the wage, gross": [1250.5, 980.25]},
    ),
    "packed": (gzip.compress(b"age,y\n31,no\n45,yes\n"), {}, AGES),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_are_read_as_a_person_reads_them(tmp_path, dialect):
    content, reading, wanted = DIALECTS[dialect]
    table = read(tmp_path, content, **reading)
    assert same(columns_of(table), wanted), columns_of(table)
    assert table.labels.tolist() == [-1, 1, -1][: table.num_rows]


def test_there_are_thirty_dialects():
    assert len(DIALECTS) >= 30


def test_what_was_sniffed_is_told(tmp_path):
    table = read(tmp_path, "# by hand\nage;wage;y\n31;1,5;no\n45;2,5;yes\n".encode("utf-16"))
    assert (
        table.notes[0]
        == "the file is read with separator ;, decimal ,, comments after #, encoding utf-16"
    )
    assert table.reading.describe() == {
        "separator": ";",
        "decimal": ",",
        "comment": "#",
        "encoding": "utf-16",
    }


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.txt.gz", "a.tsv.gz"])
def test_names_of_text_files(tmp_path, name):
    data = b"age\ty\n31\tno\n45\tyes\n"
    assert (
        columns_of(read(tmp_path, gzip.compress(data) if name.endswith(".gz") else data, name))
        == AGES
    )


@pytest.mark.parametrize("name", ["a.feather", "a.parquet", "a.csv"])
def test_files_of_columns_are_known_by_their_beginning(tmp_path, name):
    data = io.BytesIO()
    frame = polars.DataFrame({"age": [31, 45], "code": ["1", "2"], "y": ["no", "yes"]})
    frame.write_ipc(data) if name.endswith("feather") else frame.write_parquet(data)
    assert columns_of(read(tmp_path, data.getvalue(), name)) == AGES | {"code": ["1", "2"]}


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"age;y\n31;no\n45;yes\n")))
    table = readers.read_table("-", label="y")
    assert (table.source, columns_of(table)) == ("standard input", AGES)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(ValueError, match="standard input: the file is empty"):
        readers.read_table("-")


# --- cells ----------------------------------------------------------------------------------------

NUMBERS = [str(value) for value in range(21, 33)]


def column(cells):
    """A table of one column and labels."""
    return "v;y\n" + "".join(
        f"{cell};{'no' if row % 2 else 'yes'}\n" for row, cell in enumerate(cells)
    )


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        *(
            (spelling, NAN)
            for spelling in (
                "",
                "na",
                "NA",
                "#N/A",
                "#n/a n/a",
                "None",
                "Null",
                "NAN",
                "-nan",
                "<na>",
                "n/a",
                "?",
                "-",
                " - ",
                "1.#IND",
            )
        ),
        *(
            (spelling, 7.0)
            for spelling in ("+7", " 7", "7 ", "\t7", "+7.0", "07", "7e0", "\u00a07")
        ),
    ],
)
def test_one_cell_among_numbers_is_a_number_or_missing(tmp_path, cell, value):
    table = read(tmp_path, column([*NUMBERS, cell]))
    np.testing.assert_array_equal(table.numeric["v"], [*map(float, NUMBERS), value])


@pytest.mark.parametrize(
    "cell", ["oops", "1,200", "5%", "12a", "--", "seven", "1e", "$5", "1 2", "."]
)
def test_an_odd_cell_among_numbers_is_refused(tmp_path, cell):
    cells = [*NUMBERS[:5], cell, *NUMBERS[5:]]
    with pytest.raises(ValueError) as caught:
        read(tmp_path, column(cells), decimal=".", separator=";")
    said = str(caught.value)
    assert (
        f"column 'v' holds {cell} in row 6 (line 7): most of the column is a number, and this"
        " is not" in said
    )
    assert "correct the cell" in said
    assert "--categorical v" in said
    assert read(tmp_path, column(cells), categorical=("v",)).categorical["v"].tolist() == cells


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "+INF", "1e999"])
def test_infinite_numbers_are_refused(tmp_path, cell):
    with pytest.raises(
        ValueError, match=r"column 'v' holds .* in row 13 \(line 14\): it is infinite"
    ) as caught:
        read(tmp_path, column([*NUMBERS, cell]))
    assert f"holds {cell} in" in str(caught.value)


@pytest.mark.parametrize(
    ("cells", "values", "note"),
    [
        (
            ["5%", "12.5 %", "-", "+3%"],
            [0.05, 0.125, NAN, 0.03],
            "column 'v' is written in percent: 5% is read as 0.05",
        ),
        (
            ["1,200", "950", "12,000.5"],
            [1200, 950, 12000.5],
            "column 'v' has thousands separators: 1,200 is read as 1200",
        ),
        (["true", "FALSE", ""], [1, 0, NAN], None),
        (["NA", "", "None"], [NAN] * 3, None),
    ],
)
def test_whole_columns_of_a_style_are_numbers(tmp_path, cells, values, note):
    table = read(tmp_path, column(cells), decimal=".")
    np.testing.assert_array_equal(table.numeric["v"], values)
    assert note is None or note in table.notes


@pytest.mark.parametrize(
    ("cells", "row", "cell", "usual"),
    [
        (["5%", "6%", "7"], 3, "7", "a percentage"),
        (["1,200", "3,400", "x"], 3, "x", "a number with thousands separators"),
        (["1,200", "3,400", "5000"], 3, "5000", "a number with thousands separators"),
        (["1", "2", "x", "z"], 3, "x", "a number"),
    ],
)
def test_mixed_styles_are_refused(tmp_path, cells, row, cell, usual):
    with pytest.raises(ValueError) as caught:
        read(tmp_path, column(cells), decimal=".")
    assert (
        f"column 'v' holds {cell} in row {row} (line {row + 1}): most of the column is {usual}"
        in str(caught.value)
    )


def test_another_decimal_sign_is_told(tmp_path):
    with pytest.raises(
        ValueError,
        match=(
            r"holds 1.5 in row 1 \(line 2\): the decimal sign of the file is ,, and this has"
            r" another: name it with"
        ),
    ):
        read(tmp_path, column(["1.5", "2.5"]), decimal=",")


def test_text_with_some_numbers_is_text(tmp_path):
    assert read(tmp_path, column(["red", " blue ", "07", "NA", "blue"])).categorical[
        "v"
    ].tolist() == ["red", "blue", "07", None, "blue"]


def test_missing_values_replace_the_list(tmp_path):
    table = read(
        tmp_path, column(["1", "-999", "Missing", "2"]), missing_values=("-999", "missing")
    )
    np.testing.assert_array_equal(table.numeric["v"], [1, NAN, NAN, 2])
    with pytest.raises(ValueError, match=r"column 'v' holds NA in row 3 \(line 4\)"):
        read(tmp_path, column(["1", "2", "NA", "3"]), missing_values=("-999",))


def test_identifiers_are_refused_by_name(tmp_path):
    content = column([f"A-{row}" for row in range(30)])
    with pytest.raises(
        ValueError,
        match=(
            r"column 'v' holds A-0 in row 1 \(line 2\): 30 different texts in 30 cells look like an"
            r" identifier"
        ),
    ) as caught:
        read(tmp_path, content)
    assert "--ignore v" in str(caught.value)
    assert "--id v" in str(caught.value)
    assert (
        read(tmp_path, content, id="v").columns
        == read(tmp_path, content, ignore=("v",)).columns
        == ()
    )
    assert read(tmp_path, content, categorical=("v",)).columns == ("v",)


# --- dates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["2024-03-02", "2024-02-29", ""], [2, 0, NAN]),
        (["2024/03/02", "2024/03/01"], [1, 0]),
        (["2024-03-01T12:00:00Z", "2024-03-01 18:00:00+06:00"], [0.5, 0.5]),
        (["31.12.23", "1.1.24"], [0, 1]),
        (["12/31/2023", "1/1/2024"], [0, 1]),
        (["31-12-2023", "01-01-2024"], [0, 1]),
        (["1/1/2024", "2/2/2024"], [0, 32]),
        (["20231231", "20240101"], [0, 1]),
        (["", "-"], [NAN, NAN]),
        (["31 Dec 2023", "1 January 2024"], [0, 1]),
        (["Dec 31, 2023", "Jan 1, 2024"], [0, 1]),
    ],
)
def test_dates_become_days_since_the_first(tmp_path, cells, values):
    np.testing.assert_allclose(
        read(tmp_path, column(cells), dates=("v",)).numeric["v"], values, atol=1e-9
    )
    if cells[0] and not cells[0].isdigit():
        with pytest.raises(
            ValueError,
            match=(
                r"column 'v' holds .* in row 1 \(line 2\): a date is neither a number nor a"
                r" category: .*--date v"
            ),
        ):
            read(tmp_path, column(cells))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["1/2/2024", "3/4/2024"],
            r"holds 1/2/2024 in row 1 \(line 2\): is that day first or month first",
        ),
        (
            ["2024-01-02", "2024-13-02"],
            r"holds 2024-13-02 in row 2 \(line 3\): a date \(year first\) is expected",
        ),
        (["2024-01-02", "soon"], r"holds soon in row 2 \(line 3\): a date"),
    ],
)
def test_dates_that_do_not_fit_are_refused(tmp_path, cells, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, column(cells), dates=("v",))


def test_identifiers_of_a_parquet_file(tmp_path):
    polars.DataFrame({"v": [f"A-{row}" for row in range(30)]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        ValueError,
        match=(
            "column 'v' holds A-0 in row 1: 30 different texts in 30 cells look like an identifier"
        ),
    ):
        readers.read_table(tmp_path / "a.parquet")
    assert readers.read_table(
        tmp_path / "a.parquet", reading=Reading(categorical=("v",))
    ).columns == ("v",)
    table = readers.read_table(tmp_path / "a.parquet", no_features=("v",))
    with pytest.raises(ValueError, match=r"the weights \(--weights\) are column 'v', which holds"):
        table.weights("v")


def test_dates_are_kept_for_new_rows(tmp_path):
    kind = read(tmp_path, column(["2024-03-02", "2024-03-01"]), dates=("v",)).kinds["v"]
    (tmp_path / "new.csv").write_text("v\n2024-03-31\n")
    assert readers.read_new_rows(tmp_path / "new.csv", {"v": kind}).table.numeric["v"].tolist() == [
        30
    ]
    assert dates.text(kind.origin) == "2024-03-01"


def test_what_is_advised_can_be_typed(tmp_path):
    with pytest.raises(ValueError, match="--categorical 'the age'"):
        read(tmp_path, "the age,y\n1,a\n2,b\nx,a\n")


def test_cells_are_shown_in_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"^[^\n]* holds a b c(c)*\.\.\. in row 3 [^\n]*$"):
        read(tmp_path, f'v,y\n1,a\n2,b\n"a\nb\n{"c" * 80}",a\n')


def test_many_different_texts_take_no_time(tmp_path):
    """Of twenty thousand that look a little like numbers some are looked at."""
    with pytest.raises(
        ValueError, match="20000 different texts in 20000 cells look like an identifier"
    ):
        read(tmp_path, column([f"{row}-17-x" for row in range(20_000)]))


def test_dates_of_a_parquet_file(tmp_path):
    polars.DataFrame({"d": ["2024-01-02", None, "2024-01-01"]}).with_columns(
        polars.col("d").str.to_date()
    ).write_parquet(tmp_path / "a.parquet")
    table = readers.read_table(tmp_path / "a.parquet", reading=Reading(dates=("d",)))
    np.testing.assert_array_equal(table.numeric["d"], [1, NAN, 0])


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "reading", "mapping"),
    [
        (["NA", "None", "NA"], {}, "y: NA -> -1, None -> +1"),
        (["True", "False", "True"], {}, "y: False -> -1, True -> +1"),
        (["2", "1", "2"], {"positive": "1"}, "y: 2 -> -1, 1 -> +1"),
        (["a", "b", "c"], {"positive": "b"}, "y: not b -> -1, b -> +1"),
        (["1", "2", "3"], {"positive": "3"}, "y: not 3 -> -1, 3 -> +1"),
        (["yes ", "no", " yes"], {}, "y: no -> -1, yes  -> +1"),
    ],
)
def test_classes(tmp_path, labels, reading, mapping):
    table = read(
        tmp_path,
        "x,y\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels)),
        **reading,
    )
    assert str(table.mapping) == mapping


@pytest.mark.parametrize(
    ("labels", "reading", "message"),
    [
        (
            ["a", "b", "c", "a"],
            {},
            (
                "column 'y' holds 3 distinct values, a (2), b (1), c (1): labels take exactly two"
                " values, or name the class"
            ),
        ),
        (
            ["a", "b", "c"],
            {"positive": "B"},
            "column 'y' has no class 'B' for --positive; did you mean 'b'?",
        ),
        (
            ["a", "NA", "b"],
            {"missing_values": ("NA",)},
            "column 'y' has no label in row 2 (line 3)",
        ),
        (["a", "", "b"], {}, "column 'y' has no label in row 2 (line 3)"),
    ],
)
def test_classes_that_are_refused(tmp_path, labels, reading, message):
    with pytest.raises(ValueError) as caught:
        read(
            tmp_path,
            "x,y\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels)),
            **reading,
        )
    assert message in str(caught.value)


# --- faults of files ------------------------------------------------------------------------------

FAULTS = [
    (
        "a,b,y\n1,2,x\n3,z\n",
        {},
        "line 3 has 2 fields, and there are 3 columns: it ends before column 'y'",
    ),
    (
        "a,y\n1,x\n2,x,3\n",
        {},
        "line 3 has 3 fields, and there are 2 columns: field 3 has no column",
    ),
    ("\n# c\n\na,y\n1,x\n2\n", {"comment": "#"}, "line 6 has 1 field, and there are 2 columns"),
    ('a,y\n"1\n1",x\n2\n', {}, "line 4 has 1 field"),
    ('a,y\n1,x\n"2,x\n3,z\n', {}, "line 3 has a quote that is not closed"),
    ('a,y\n1,x\n"2"3,z\n', {}, "line 3, field 1 is not readable"),
    (
        "a,y\n1,x\n2,\ufffd\n".encode("utf-16-le")[:-3] + b"\xd8\n\0",
        {"encoding": "utf-16-le"},
        "is not UTF-16-LE: name another --encoding",
    ),
    (
        "a,y\n1,größe\n".encode("latin-1"),
        {},
        (
            "line 2, character 5: the byte 0xf6 is not UTF-8: name the encoding, as in --encoding"
            " cp1252"
        ),
    ),
    (
        "a,y\n1,größe\n".encode("latin-1"),
        {"encoding": "ascii"},
        "line 2, character 5: the byte 0xf6 is not ASCII: name another --encoding",
    ),
    (b"a,y\n1,x\0\n", {}, "line 2 holds a NUL character"),
    (
        b"PK\x03\x04...",
        {},
        "the file is a workbook or a zip archive, and not text: save the sheet as .csv",
    ),
    (
        "1,2\n3,4\n",
        {},
        "the first line holds numbers (1, 2, ...): expected a line of column names (line 1)",
    ),
    ("a,b,a,y\n1,2,3,x\n", {}, "two columns are named 'a': rename one (columns 1 and 3 of line 1)"),
    ("a,y\n", {}, "the file has column names but no rows"),
    ("# only\n# comments\n", {}, "the file holds no data"),
    (
        "a;y\n1;x\n",
        {"separator": ","},
        (
            "there is one column, 'a;y': semicolons separate the fields, but the file is read"
            " otherwise"
        ),
    ),
    ("a,y\n1,x\n", {"ignore": ("b",)}, "there is no column 'b'; the columns are a, y"),
    ("age,y\n1,x\n", {"dates": ("agee",)}, "there is no column 'agee'; did you mean 'age'?"),
    ("age,y\n1,x\n", {"id": "who"}, "there is no column 'who'"),
    ("age,y\n1,x\n", {"categorical": ("ag",)}, "there is no column 'ag'; did you mean 'age'?"),
]


@pytest.mark.parametrize(("content", "reading", "message"), FAULTS)
def test_faults_of_files_are_told_with_their_place(tmp_path, content, reading, message):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        read(tmp_path, content, **reading)
    assert str(caught.value).startswith(str(tmp_path / "a.csv"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ({"separator": "ab"}, "separator is 'ab': one character"),
        ({"separator": "x"}, "separator is 'x'"),
        ({"separator": ""}, "separator is ''"),
        ({"separator": '"'}, "separator is"),
        ({"decimal": ";"}, "decimal is ';': . or , is expected"),
        ({"comment": ""}, "comment is empty"),
        ({"encoding": "utf-99"}, "encoding is 'utf-99', which Python does not know"),
        ({"encoding": "hex"}, "encoding is 'hex', which Python does not know"),
    ],
)
def test_readings_that_mean_nothing(reading, message):
    with pytest.raises(ValueError) as caught:
        Reading(**reading)
    assert message in str(caught.value)


def test_ways_to_say_a_separator():
    assert [Reading(separator=word).separator for word in ("tab", "\\t", "space", ";")] == [
        "\t",
        "\t",
        " ",
        ";",
    ]


# --- rows to predict ------------------------------------------------------------------------------


def new_rows(folder, content, kinds, **options):
    (folder / "new.csv").write_text(content, encoding="utf-8")
    return readers.read_new_rows(folder / "new.csv", kinds, **options)


def test_rows_keep_their_place(tmp_path):
    rows = new_rows(
        tmp_path,
        "who,v,w\na,1,x\n\nb,2\nc,3,y,z\n\nd,4,\n\n\n",
        {"v": ColumnKind("number")},
        reading=Reading(id="who"),
    )
    assert rows.is_usable.tolist() == [True, False, False, False, False, True]
    assert rows.table.numeric["v"].tolist() == [1, 4]
    assert (rows.id_name, rows.ids) == ("who", ("a", "", "b", "c", "", "d"))
    assert [reason and reason.rpartition(" (")[2] for reason in rows.reasons] == [
        "",
        "line 3)",
        "line 4)",
        "line 5)",
        "line 6)",
        "",
    ]
    assert rows.reasons[1:4] == (
        "a blank line (line 3)",
        "2 fields, and there are 3 columns: it ends before column 'w' (line 4)",
        "4 fields, and there are 3 columns: field 4 has no column (line 5)",
    )
    assert rows.notes == ("4 of 6 rows cannot be predicted: the column 'note' says why",)


def test_other_columns_do_not_matter(tmp_path):
    rows = new_rows(tmp_path, "v,w,w,\n1,inf,x,2\n2,,5%,\n", {"v": ColumnKind("number")})
    assert rows.table.numeric["v"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="two columns are named 'w'"):
        new_rows(tmp_path, "v,w,w\n1,2,3\n", {"w": ColumnKind("number")})
    with pytest.raises(ValueError, match="has column names but no rows"):
        new_rows(tmp_path, "v,w\n\n", {"v": ColumnKind("number")})
    with pytest.raises(ValueError, match="there is no column 'z'"):
        new_rows(tmp_path, "v,w\n1,2\n", {"z": ColumnKind("number")})


def test_unseen_categories_are_counted(tmp_path):
    rows = new_rows(
        tmp_path, "v\nred\n7\nviolet\n7\n?\n", {"v": ColumnKind("text", categories=("red",))}
    )
    assert rows.table.categorical["v"].tolist() == ["red", "7", "violet", "7", None]
    assert rows.notes == (
        (
            "column 'v': 3 values that training never saw: 7 (2), violet (1); 2 of these are"
            " numbers, and the column was text in training"
        ),
    )


@pytest.mark.parametrize(
    ("kind", "cell", "message"),
    [
        (
            ColumnKind("number"),
            "x",
            "column 'v' is not numeric: row 2 holds 'x' (line 3); a number is expected",
        ),
        (ColumnKind("number"), "5%", "column 'v' is not numeric: row 2 holds '5%' (line 3)"),
        (ColumnKind("number"), "inf", "column 'v' holds inf in row 2 (line 3): it is infinite"),
        (
            ColumnKind("percent"),
            "5",
            (
                "column 'v' holds 5 in row 2 (line 3): a percentage such as 5% is expected, as in"
                " the other rows or in training"
            ),
        ),
        (
            ColumnKind("truth"),
            "maybe",
            "column 'v' holds maybe in row 2 (line 3): true or false is expected",
        ),
        (
            ColumnKind("date", order=dates.YEAR_FIRST),
            "1.2.2024",
            "column 'v' holds 1.2.2024 in row 2 (line 3): a date (year first) is expected",
        ),
        (
            ColumnKind("grouped", group="'"),
            "1,200",
            "column 'v' holds 1,200 in row 2 (line 3): a number such as 1'200 is expected",
        ),
    ],
)
def test_cells_that_do_not_fit_the_training_data(tmp_path, kind, cell, message):
    with pytest.raises(ValueError) as caught:
        new_rows(tmp_path, f"v;w\n;1\n{cell};2\n", {"v": kind}, reading=Reading(decimal="."))
    assert message in str(caught.value)


def test_new_rows_are_read_as_the_training_data(tmp_path):
    trained = Reading(
        separator=";",
        decimal=",",
        comment="%",
        missing_values=("none",),
        id="who",
        encoding="cp1252",
    )
    (tmp_path / "new.csv").write_bytes("who;v\n% c\né;1.200\nb;None\n".encode("cp1252"))
    rows = readers.read_new_rows(
        tmp_path / "new.csv", {"v": ColumnKind("grouped", group=".")}, like=trained
    )
    np.testing.assert_array_equal(rows.table.numeric["v"], [1200, NAN])
    assert rows.ids == ("é", "b")
    assert new_rows(tmp_path, "v\n1\n", {"v": ColumnKind("number")}, like=trained).ids is None
    with pytest.raises(ValueError, match="there is no column 'who'"):
        new_rows(tmp_path, "v\n1\n", {"v": ColumnKind("number")}, reading=Reading(id="who"))


@pytest.mark.parametrize(
    ("content", "values"),
    [
        # beside semicolons a comma is decimal
        ("a;ill\n1,100;no\n1,200;no\n3,300;yes\n3,400;yes\n", [1.1, 1.2, 3.3, 3.4]),
        ("a;ill\n1,100,000;no\n1,200;no\n3,300;yes\n3,400;yes\n", [1_100_000, 1200, 3300, 3400]),
        # the other column shows the sign
        ("a;b;ill\n1,100;0.5;no\n1,200;1;no\n3,300;2;yes\n3,400;1;yes\n", [1100, 1200, 3300, 3400]),
    ],
)
def test_three_digits_behind_a_comma(content, values, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8")
    assert readers.read_table(path, label="ill").numeric["a"].tolist() == values


def test_leading_zeros_are_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("zip,ill\n01234,no\n1234,yes\n0.5,yes\n0,no\n", encoding="utf-8")
    notes = readers.read_table(path, label="ill").notes
    assert (
        "column 'zip' has numbers such as 01: they are read as 1; --categorical zip keeps them"
        " apart" in notes
    )
