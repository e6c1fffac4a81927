"""`jboost path`, beside `jboost.l0.path` and `jboost.lpboost.path`."""

import json

import jax
import numpy as np
import pytest
from test_cli_l0_margins import KAPPA, ROWS, data_of, make_frame

import jboost
from command_line import run_in
from jboost import l0, lpboost
from jboost.cli import inputs, options
from jboost.report import text

DATA = ("--data", "data.csv", "--label", "ill")
MARGINS, NUS = (0.1, 0.3), (0.6, 0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the data."""
    path = tmp_path_factory.mktemp("path")
    make_frame().write_csv(path / "data.csv")
    return path


def run_path(folder, *arguments):
    """The report and the text of a path."""
    code, said, err = run_in(folder, "path", *DATA, *arguments, "--report", "path.json")
    assert (code, err) == (0, "")
    content = (folder / "path.json").read_text(encoding="utf-8")
    return json.loads(content, parse_constant=pytest.fail), said


def rate_of(ensemble, dataset):
    return float(np.mean(np.asarray(jboost.predict(ensemble, dataset.features)) != dataset.labels))


@pytest.mark.exhaustive
def test_the_path_of_lpboost_is_that_of_the_library(folder):
    nus = [part for nu in reversed(NUS) for part in ("--nu", nu)]
    report, said = run_path(folder, "--method", "lpboost", *nus, "--tolerance", 1e-6)
    points = make_frame().select("heat", "pulse", "noise").to_numpy()
    labels = np.where(make_frame()["ill"].to_numpy() == "yes", 1, -1)
    with jax.enable_x64(True):
        dataset = jboost.make_dataset(points, labels)
        stumps = jboost.learners.stumps()
        fits = lpboost.path(dataset, stumps, NUS, tolerance=1e-6, config=lpboost.SimplexConfig())
        for index, row in enumerate(report["path"]):
            one = jax.tree.map(lambda leaf, index=index: leaf[index], fits)
            assert row["nu"] == NUS[index]
            for name in ("lower_bound", "upper_bound"):
                bound = float(getattr(one.certificate, name))
                assert row["certificate"][name] == pytest.approx(bound, abs=2e-6)
            assert row["num_rules"] == int((np.asarray(one.ensemble.votes) != 0).any(axis=1).sum())
            assert row["training"]["rate"] == pytest.approx(rate_of(one.ensemble, dataset))
            assert "held_out" not in row
    assert len(report["path"]) == len(NUS)
    assert "soft margin" in said
    assert "least held-out loss" not in said


@pytest.mark.exhaustive
def test_the_path_of_l0_is_that_of_the_library(folder):
    margins = [part for margin in MARGINS for part in ("--margin", margin)]
    cuts = ("--cuts", "quantiles", "--quantiles", 2, "--kappa", KAPPA, "--rounds", 20)
    report, said = run_path(folder, *margins, *cuts, "--tolerance", 1e-4)
    with jax.enable_x64(True):
        dataset, learner = data_of(make_frame())
        fits = l0.path(
            dataset,
            learner,
            MARGINS,
            max_rounds=20,
            tolerance=1e-4,
            config=l0.RelaxationConfig(max_rounds=5),
            max_columns=1024,
        )
        for index, row in enumerate(report["path"]):
            one = jax.tree.map(lambda leaf, index=index: leaf[index], fits)
            assert row["margin"] == MARGINS[index]
            for name in ("lower_bound", "upper_bound", "integer_lower_bound"):
                bound = float(getattr(one.certificate, name))
                assert row["certificate"][name] == pytest.approx(bound, rel=3e-4)
            cost = float(one.certificate.integer_upper_bound)
            assert row["certificate"]["integer_upper_bound"] == pytest.approx(cost, rel=1e-6)
            assert row["training"]["rate"] == pytest.approx(rate_of(one.ensemble, dataset))
            assert row["num_rules"] == int((np.asarray(one.ensemble.votes) != 0).any(axis=1).sum())
    assert len(report["path"]) == len(MARGINS)
    assert "errors + costs" in said


def test_a_lower_bound_of_l0_holds_for_greater_margins(folder):
    """The rounds of the path are used up at the first margin, so that the others prove nothing."""
    margins = [part for margin in (*MARGINS, 0.4) for part in ("--margin", margin)]
    cuts = ("--cuts", "quantiles", "--quantiles", 2, "--kappa", KAPPA, "--rounds", 2)
    report, _ = run_path(folder, *margins, *cuts, "--tolerance", 1e-4)
    assert [row["num_rounds"] for row in report["path"]] == [2, 0, 0]
    first, *others = (row["certificate"] for row in report["path"])
    assert first["lower_bound"] > 0
    for name in ("lower_bound", "integer_lower_bound"):
        assert all(one[name] == first[name] for one in others)


@pytest.mark.exhaustive
def test_held_out_rows_are_apart(folder):
    report, said = run_path(
        folder,
        "--method",
        "lpboost",
        "--learner",
        "literals",
        "--nu",
        0.5,
        "--holdout",
        0.3,
        "--figure",
        "path.png",
    )
    assert (folder / "path.png").stat().st_size > 5_000
    (row,) = report["path"]
    labels = np.where(make_frame()["ill"].to_numpy() == "yes", 1, -1)
    kept, apart = inputs.split_rows(labels, 0.3, 0)
    assert report["data"]["held_out_rows"] == len(apart) == ROWS - len(kept)
    for part, count in (("training", len(kept)), ("held_out", len(apart))):
        assert row[part]["rate"] == pytest.approx(row[part]["weight"] / count)
    assert f"least held-out loss: {row['held_out']['rate']:.2%} at nu 0.5" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kappa", "1", "--kappa", "2"), "jboost path takes one --kappa, and 2 are given"),
        (("--vote", "sparse", "--vote", "relaxed"), "jboost path takes one --vote, and 2 are"),
        (("--max-order", "cv"), "jboost path does not choose --max-order: give a number"),
        (("--max-rules", "cv"), "jboost path does not choose --max-rules: give a number"),
        (("--method", "pair"), "'pair' is not one of 'l0', 'lpboost'"),
        (("--margin", "search"), "jboost path does not search the margin: give numbers"),
        (("--time-limit", "3"), "--time-limit"),
        (("--nu", "0.5"), "--nu is for the method relaxed-margin or lpboost"),
        (("--method", "lpboost", "--margin", "0.5"), "--margin is for the method l0"),
        (("--report", "table.csv"), "table.csv"),
        (("--figure", "table.csv"), "table.csv"),
        (("--figure", "path.xyz"), "--figure path.xyz: expected a name that ends in .png or .svg"),
        (("--figure", "path"), "--figure path: expected a name that ends in .png or .svg"),
        (("--report", "path.dat"), "--report path.dat: expected a name that ends in .json or"),
        (("--figure", "none/path.png"), "none/path.png: there is no folder"),
    ],
)
def test_refusals_name_the_options(folder, arguments, message):
    (folder / "table.csv").write_text("kept", encoding="utf-8")
    code, said, err = run_in(folder, "path", *DATA, *arguments)
    assert (code, said) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert (folder / "table.csv").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (
            'margin = "search"\nmargin_penalty = 0.05',
            (),
            "jboost path does not search the margin: give numbers, auto or cv, or use jboost fit:"
            " 'search' is given by margin in job.toml",
        ),
        (
            "kappa = [0.5, 1.5]",
            (),
            "one --kappa, and 2 are given by kappa in job.toml: give one to",
        ),
        ('max_rules = "cv"', (), "give a number in place of the cv of max_rules in job.toml"),
        (
            "kappa = [0.5, 1.5]",
            ("--kappa", 1, "--kappa", 2, "--kappa", 3),
            "one --kappa, and 3 are given by --kappa: give one to --kappa",
        ),
    ],
)
def test_refusals_name_the_configuration_file(folder, content, arguments, message):
    (folder / "job.toml").write_text(content, encoding="utf-8")
    code, said, err = run_in(folder, "path", *DATA, "--config", "job.toml", *arguments)
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert message in err


def test_the_options_of_a_path():
    found = {option.name: option for option in options.options_of("path")}
    assert {"data", "label", "margin", "nu", "learner", "max_order", "holdout"} <= set(found)
    assert not {"time_limit", "output", "checkpoint", "scores", "penalty", "folds"} & set(found)
    assert found["method"].default == "l0"
    assert found["margin"].default == ("cv",)
    fit = {option.name: option for option in options.options_of("fit")}
    assert set(fit) == {option.name for option in options.OPTIONS if "fit" in option.commands}


def test_the_table_has_the_bounds_that_are_known():
    unknown = {"lower_bound": 0.25, "upper_bound": None, "status": "ROUND_LIMIT"}
    row = {"nu": 0.1, "num_rules": 3, "certificate": unknown, "training": {"rate": 0.5}}
    cells = [list(column.cells) for column in text.path_table([row], "nu").columns]
    assert cells == [["0.1"], ["0.25 to unknown"], ["3"], ["50.00%"], ["ROUND_LIMIT"]]
