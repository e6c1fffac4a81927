"""Choices of l0 on the command line that Ctrl-C, a time limit or the memory cut short."""

import dataclasses
import json

import numpy as np
import polars
import pytest

from command_line import interrupted_after, run_in
from jboost.cli import bits as bit_module
from jboost.cli import limits, resolution
from jboost.cli.l0 import folds, large
from jboost.l0.large import table

ROWS = 40
DATA = ("--data", "data.csv", "--label", "ill", "--method", "l0", "--precision", "float32")
QUICK = ("--cuts", "quantiles", "--quantiles", 2, "--rounds", 6, "--folds", 2, "--margin", 0.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two numbers that tell the class together, and one of no use."""
    path = tmp_path_factory.mktemp("choices")
    generator = np.random.default_rng(5)
    heat, pulse, noise = generator.normal(size=(3, ROWS)).round(2)
    ill = np.where((heat + pulse > 0) ^ (generator.uniform(size=ROWS) < 0.1), "yes", "no")
    columns = {"heat": heat, "pulse": pulse, "noise": noise, "ill": ill}
    polars.DataFrame(columns).write_csv(path / "data.csv")
    return path


def seconds_pass(seconds):
    limits._limit.begin -= seconds


def fit_in(folder, *arguments):
    """The report of a fit, the text, and the errors."""
    code, said, err = run_in(
        folder, "fit", *DATA, *QUICK, *arguments, "--output", "out", "--overwrite"
    )
    assert code == 0, err
    report = (folder / "out" / "report.json").read_text(encoding="utf-8")
    return json.loads(report, parse_constant=pytest.fail), said, err


KAPPAS = ("--kappa", 0.25, "--kappa", 1.5)


def test_ctrl_c_in_a_choice_of_kappas_keeps_the_best_so_far_and_fits_it(folder):
    with interrupted_after(1):
        report, said, err = fit_in(folder, *KAPPAS)
    assert "ends with the best so far" in err
    choice = report["choice"]
    assert choice["chosen"] == {"kappa": 0.25, "margin": 0.2, "vote": "sparse"}
    assert [(row["kappa"], row["folds"]) for row in choice["losses"]] == [(0.25, 1)]
    assert choice["losses"][0]["standard_error"] is None
    assert (choice["status"], choice["candidates"], choice["folds"]) == ("TIME_LIMIT", 2, 2)
    assert report["model"]["num_rounds"] > 1
    assert report["model"]["certificate"]["status"] != "TIME_LIMIT"
    assert "the choice ended early (time limit or Ctrl-C): 1 of 4 fits, of 2 candidates" in said
    assert "in 1 of 2 folds, chosen" in said


def test_the_time_limit_ends_a_choice_of_kappas_and_leaves_time_for_the_fit(folder):
    with interrupted_after(1, lambda: seconds_pass(650)):
        report, said, err = fit_in(folder, *KAPPAS, "--time-limit", 1000)
    assert err == ""
    assert report["choice"]["status"] == "TIME_LIMIT"
    assert [row["folds"] for row in report["choice"]["losses"]] == [1]
    assert report["model"]["num_rounds"] > 1
    assert report["model"]["certificate"]["status"] != "TIME_LIMIT"
    assert "the choice ended early" in said


def test_ctrl_c_in_the_fit_after_a_choice_of_kappas_ends_it(folder):
    with interrupted_after(5):
        report, said, _ = fit_in(folder, *KAPPAS)
    assert report["choice"]["status"] == "OPTIMAL"
    assert "ended early" not in said
    assert report["model"]["num_rounds"] == 1
    assert report["model"]["certificate"]["status"] == "TIME_LIMIT"


def test_ctrl_c_in_a_choice_of_the_size_ends_only_the_choice(folder, monkeypatch):
    """Rules of three literals are too many to hold, so that the choice is among two orders."""
    sized = ("--max-order", "cv", "--max-rules", 3)
    monkeypatch.setattr(table, "MOST_MONOMIALS", 30)
    with interrupted_after(2):
        report, said, err = fit_in(folder, *sized)
    assert "ends with the best so far" in err
    choice = report["choice"]
    assert [(row["max_order"], row["folds"]) for row in choice["losses"]] == [(1, 1), (2, 1)]
    assert (choice["status"], choice["candidates"], choice["folds"]) == ("TIME_LIMIT", 2, 2)
    note = "rules of up to 3 literals are no candidates: 41 rules of 3 bits, above 30"
    assert choice["notes"] == [note]
    assert f"note: {note}\n" in said
    assert report["model"]["num_rounds"] > 0
    assert report["model"]["certificate"]["status"] != "TIME_LIMIT"
    assert "the choice ended early (time limit or Ctrl-C): 2 of 4 fits, of 2 candidates" in said


def test_orders_that_do_not_fit_into_memory_are_no_candidates(monkeypatch):
    monkeypatch.setattr(large.memory, "of_device", lambda: table.num_bytes(ROWS, 20, 2))
    settings = resolution.resolve({"data": "data.csv", "label": "ill", "method": "l0"}, {})
    settings = dataclasses.replace(settings, max_order="cv")
    orders, left_out = large._orders_that_fit(settings, ROWS, 20, 20)
    assert orders == (1, 2)
    assert left_out[0].startswith("rules of up to 3 literals are no candidates: a fit takes about")
    assert large._orders_that_fit(settings, 10**9, 20, 20)[0] == (1,)  # which the choice refuses
    assert large._orders_that_fit(settings, ROWS, 1, 20) == ((1,), ())


@pytest.mark.parametrize(
    ("command", "options", "copies"),
    [
        ("fit", (), 1 + 5),
        ("fit", KAPPAS, 1 + 2 * 2 + 5 * (1 + 2)),
        ("fit", ("--max-order", "cv"), 1 + 2 * 2 + 5),
        ("evaluate", (), 2 + 5),
        ("path", (), 1 + 5),
    ],
    ids=["fit", "choice", "size", "evaluate", "path"],
)
def test_bits_that_do_not_fit_into_memory_are_refused_before_they_are_made(
    folder, monkeypatch, command, options, copies
):
    long = folder / "long.csv"
    values = np.random.default_rng(0).permutation(4 * ROWS)
    polars.DataFrame({"x": values, "ill": ["yes", "no"] * (2 * ROWS)}).write_csv(long)
    num_rows = 2 * ROWS if command == "evaluate" else 4 * ROWS  # evaluate trains on half of them
    needed = copies * num_rows * (num_rows - 1)
    asked = (command, "--data", "long.csv", "--label", "ill", "--method", "l0", *options)
    asked += (
        "--precision",
        "float32",
        "--cuts",
        "midpoints",
        *(() if command == "path" else ("--folds", 2)),
    )

    def make(*arguments, **options):
        raise ValueError("the bits are made")

    monkeypatch.setattr(bit_module, "binarizer_of", make)
    monkeypatch.setattr(bit_module.memory, "of_device", lambda: needed - 1)
    output = ("--output", "unseen") if command == "fit" else ()
    code, _, err = run_in(folder, *asked, *output)
    assert (code, err.count("\n")) == (2, 1)
    assert f"long.csv: {num_rows - 1} Boolean conditions on {num_rows} rows take about" in err
    assert "use --cuts quantiles with --quantiles" in err
    monkeypatch.setattr(bit_module.memory, "of_device", lambda: needed)
    assert run_in(folder, *asked, *output)[2] == "jboost: error: the bits are made\n"


def test_bits_with_gaps_are_numbers_and_take_their_memory():
    settings = resolution.resolve({"data": "data.csv", "label": "ill", "method": "l0"}, {})
    rows = np.array([["a", 1.0], ["b", None]], object)
    for missing, size in (("literal", 1), ("none", 8)):
        told = dataclasses.replace(settings, missing=missing)
        assert folds._bytes_each(rows, told, 1, 0) == 2 * size + max(2 * 5 * size, 2 * 9)
