"""The command line from the outside: what it writes, what it says, and what it refuses. One
compilation serves nearly all tests.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import jax
import numpy as np
import polars
import pytest
import threadpoolctl

import jboost
from jboost import cli, drive, files
from jboost.cli import devices, limits, options, programs, resolution
from jboost.cli import evaluate as evaluate_module
from jboost.cli.inputs import HostExamples
from jboost.cli.pair import method as solve
from jboost.data import classifiers
from jboost.pair.types import Separator
from jboost.report import rules
from jboost.report.rules import OPTIMAL
from marks import slow

ROOT = Path(__file__).parents[2]
ROWS = 48


@pytest.fixture(scope="module")
def frame():
    """Two score columns, text, gaps, weights, and labels in words."""
    generator = np.random.default_rng(0)
    signs = np.where(np.arange(ROWS) % 2, 1, -1)
    scores = generator.normal(size=(ROWS, 2)) + 0.8 * signs[:, None]
    gaps = [None if row % 11 == 3 else float(row % 7) for row in range(ROWS)]
    colours = [None if row % 13 == 5 else ("07", "blue")[row % 3 == 0] for row in range(ROWS)]
    weights = generator.integers(1, 5, size=ROWS)
    words = np.where(signs > 0, "yes", "no")
    return polars.DataFrame(
        {
            "a": scores[:, 0],
            "b": scores[:, 1],
            "gaps": gaps,
            "colour": colours,
            "cost": weights,
            "ill": words,
        }
    )


@pytest.fixture
def data(frame, tmp_path):
    frame.write_csv(tmp_path / "data.csv")
    return tmp_path / "data.csv"


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs jboost in-process, in a folder of its own; returns (status, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os._exit", sys.exit)

    def run(*arguments):
        with pytest.raises(SystemExit) as exit:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return exit.value.code, captured.out, captured.err

    return run


SCORES = ("--label", "ill", "--scores", "a", "b")


def read_report(folder):
    return json.loads(
        (folder / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


# --- what it does ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_time_limit_ends_the_separator_and_its_analyses_with_valid_bounds(
    run, tmp_path, monkeypatch
):
    """Of a table that is taken as a large one."""
    random = np.random.default_rng(0)
    points = random.normal(size=(48, 2))
    ill = points.sum(axis=1) + random.normal(size=48) > 0
    polars.DataFrame({"a": points[:, 0], "b": points[:, 1], "ill": ill}).write_csv("data.csv")
    fit = ("fit", "--data", "data.csv", *SCORES, "--time-limit", "1000")
    assert run(*fit, "--output", "whole")[0] == 0
    whole = read_report(tmp_path / "whole")["certificate"]
    assert whole["status"] == "OPTIMAL"
    monkeypatch.setattr("jboost.cli.pair.fit.LARGEST_SWEEP", 10)
    monkeypatch.setattr(limits, "is_over", lambda: True)
    code, out, _ = run(*fit, "--loo", "--pareto", "--output", "short")
    short = read_report(tmp_path / "short")["certificate"]
    assert code == 0
    assert "TIME_LIMIT" in out
    assert short["status"] == "TIME_LIMIT"
    assert short["lower_bound"] <= whole["loss"] <= short["loss"]


@pytest.mark.slow
def test_score_columns_from_fit_to_prediction(run, data, frame, tmp_path):
    code, out, err = run("fit", "--data", data, *SCORES, "--weights", "cost", "--output", "out")
    assert (code, err) == (0, "")
    assert names_in("out") == ["model.npz", "report.json", "separator.png"]
    assert names_in(".") == ["data.csv", "out"]
    report = read_report(tmp_path / "out")
    certificate = report["certificate"]
    assert certificate["status"] == "OPTIMAL"
    assert certificate["loss"] == certificate["lower_bound"]
    assert report["data"]["labels"] == {"column": "ill", "-1": "no", "+1": "yes"}
    assert report["data"]["total_weight"] == frame["cost"].sum()
    assert report["data"]["missing_values"] == {"gaps": 5, "colour": 4}
    assert {"compile", "solve", "reading"} <= set(report["seconds"])
    assert report["versions"]["jax"] == jax.__version__
    losses = {(row["rule"], row["detail"]): row["training"]["weight"] for row in report["losses"]}
    assert [row["rule"] for row in report["losses"]] == [
        "a",
        "a",
        "b",
        "b",
        "majority vote",
        "average",
        "logistic stacking",
        OPTIMAL,
    ]
    assert min(losses.values()) == losses[OPTIMAL, "of both scores, exact"] == certificate["loss"]
    assert report["separator"]["formula"] in out

    code, out, err = run("predict", "out", "--data", data, "--output", "predictions.csv")
    assert (code, out, err) == (0, f"predictions.csv: {ROWS} predictions\n", "")
    predictions = polars.read_csv("predictions.csv")
    points = frame.select("a", "b").to_numpy()
    with jax.enable_x64(True):
        model = files.load("out/model.npz")
        expected = np.asarray(jboost.predict(model, points))
        np.testing.assert_array_equal(
            predictions["score"].to_numpy(), jboost.predict_scores(model, points)
        )
    assert predictions["prediction"].to_list() == np.where(expected > 0, "yes", "no").tolist()
    wrong = predictions["prediction"].to_numpy() != frame["ill"].to_numpy()
    assert frame["cost"].to_numpy()[wrong].sum() == certificate["loss"]
    np.testing.assert_array_equal(wrong, model.misclassified)

    code, out, err = run("predict", "out", "--data", data)
    assert (code, err) == (0, "")
    assert out == Path("predictions.csv").read_text(encoding="utf-8")

    code, out, err = run("inspect", "out")
    assert (code, err) == (0, "")
    assert report["separator"]["formula"] in out
    assert "ill: no -> -1, yes -> +1" in out
    assert "the result is optimal" in out

    code, out, err = run("verify", "out", "--data", data)  # the model knows the column of weights
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "valid"
    frame.with_columns(a=-frame["a"]).write_csv("other.csv")
    code, out, err = run("verify", "out", "--data", "other.csv")
    assert (code, err) == (1, "")
    assert "NOT VALID" in out
    assert "loss is" in out


@pytest.mark.slow
def test_trained_classifiers_with_gaps_text_and_a_holdout(run, data, frame, tmp_path):
    fit = (
        "fit",
        "--data",
        data,
        "--label",
        "ill",
        "--classifiers",
        "logistic",
        "tree",
        "--folds",
        "3",
        "--precision",
        "float32",
    )
    code, out, err = run(
        *fit, "--holdout", "0.25", "--tie-break", "none", "--fat", "flipped", "--output", "deep/out"
    )
    assert (code, err) == (0, "")
    assert names_in("deep/out") == ["base.skops", "model.npz", "report.json", "separator.png"]
    report = read_report(tmp_path / "deep" / "out")
    assert report["data"]["held_out_rows"] == ROWS // 4
    assert all(0 <= row["held_out"]["rate"] <= 1 for row in report["losses"])
    assert report["losses"][-1]["training"]["weight"] == min(
        row["training"]["weight"] for row in report["losses"]
    )
    assert report["data"]["categorical_columns"] == ["colour"]
    assert "held-out loss" in out

    frame.drop("ill").write_parquet("new.parquet")
    code, out, _ = run("predict", "deep/out", "--data", "new.parquet")
    predictions = polars.read_csv(out.encode())
    base = classifiers.load_base("deep/out/base.skops")
    from jboost.data.readers import read_table

    points = base.predict_scores(read_table("new.parquet")).astype(np.float32)
    np.testing.assert_array_equal(
        predictions.select("score_logistic", "score_tree").to_numpy().astype(np.float32), points
    )
    is_code = frame["colour"] == "07"
    frame.filter(is_code).drop("ill").write_csv("codes.csv")  # numbers, by themselves
    assert polars.read_csv(run("predict", "deep/out", "--data", "codes.csv")[1].encode()).equals(
        predictions.filter(is_code)
    )
    model = files.load("deep/out/model.npz")
    assert model.normal.dtype == np.float32
    # there, the float32 score of jboost.predict may have the other sign
    close = np.abs(predictions["score"].to_numpy()) < 1e-5
    np.testing.assert_array_equal(
        (predictions["prediction"].to_numpy() == "yes")[~close],
        (np.asarray(jboost.predict(model, points)) > 0)[~close],
    )


@pytest.mark.parametrize(
    ("size", "choices"),
    [
        (ROWS, {}),
        slow(ROWS * 3 // 4, {"precision": "float32", "tie_break": "none", "fat": "flipped"}),
    ],
)
def test_nothing_loses_less_than_the_optimal_combination(size, choices):
    """Rounded points with ties, integer and real weights; float32 points are compared as they were
    solved.
    """
    settings = resolution.resolve({"data": "sklearn:wine"} | choices, {})
    solver, _ = solve.compile_solver(size, settings)
    for seed in range(6):
        generator = np.random.default_rng(seed)
        labels = generator.choice([-1.0, 1.0], size=size)
        points = (generator.normal(size=(size, 2)) + 0.7 * labels[:, None]).round(seed)
        weights = (
            generator.integers(1, 9, size=size)
            if seed % 2
            else generator.uniform(0.1, 1, size=size)
        )
        examples = HostExamples(
            *(part.astype(settings.precision) for part in (points, labels, weights))
        )
        separator = solver(examples)
        training = examples.in_float64()
        lost = [
            rules.loss(rule, *training)
            for rule in rules.fit_rules(*training, ("a", "b"), separator)
        ]
        assert lost[-1] <= min(lost) * (1 + 1e-12)
        assert lost[-1] == pytest.approx(float(separator.loss), rel=1e-6)


@pytest.mark.slow
def test_evaluate_shows_mean_and_error(run, data):
    code, out, err = run(
        "evaluate", "--data", data, *SCORES, "--folds", "4", "--report", "folds.json"
    )
    assert (code, err) == (0, "")
    report = json.loads(Path("folds.json").read_text(encoding="utf-8"))
    assert names_in(".") == ["data.csv", "folds.json"]
    assert report["folds"] == 4
    for row in report["losses"]:
        for part in ("training", "held_out"):
            rates = np.array(row[part]["rates"])
            assert row[part]["mean"] == pytest.approx(rates.mean())
            assert row[part]["standard_error"] == pytest.approx(rates.std(ddof=1) / 2)
    assert report["losses"][-1]["training"]["mean"] == min(
        row["training"]["mean"] for row in report["losses"]
    )
    assert "±" in out
    assert OPTIMAL in out


def test_evaluate_stops_when_told(frame, data):
    settings = resolution.resolve({"data": str(data), "label": "ill", "scores": ("a", "b")}, {})
    with devices.restored():
        source = evaluate_module.inputs.read_source(settings)
    masks = evaluate_module.inputs.hold_out_masks(source.table.labels, settings)
    folds = evaluate_module.cross_validate(
        source, settings, masks, on_step=lambda folds, info: len(folds) < 2
    )
    assert len(folds) == 2
    assert evaluate_module.summarise(folds)[-1]["rule"] == OPTIMAL


def test_a_second_fit_needs_leave_and_spares_foreign_files(run, data):
    fit = ("fit", "--data", data, *SCORES, "--output", "out")
    assert run(*fit)[0] == 0
    first = Path("out/report.json").stat().st_mtime_ns
    code, _, err = run(*fit)
    assert code == 2
    assert "the output folder already exists: add --overwrite" in err
    assert Path("out/report.json").stat().st_mtime_ns == first
    assert run(*fit, "--force")[0] == 0
    assert Path("out/report.json").stat().st_mtime_ns > first
    Path("out/thesis.tex").write_text("years of work", encoding="utf-8")
    code, _, err = run(*fit, "--overwrite")
    assert code == 2
    assert "holds files that jboost did not write (thesis.tex)" in err
    assert "thesis.tex" in names_in("out")


@pytest.mark.parametrize(
    "command",
    [(), ("fit",), ("predict",), ("evaluate",), ("inspect",), ("export",), ("verify",)],
)
def test_help_is_enough_to_start(run, command):
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, "")
    assert "  jboost " in out
    assert "Example" in out
    for option in options.OPTIONS:
        assert (
            command not in [(name,) for name in option.commands]
            or f"--{option.name.replace('_', '-')}" in out
        )


def test_version(run):
    assert run("--version") == (0, f"jboost {jboost.__version__}\n", "")


def test_python_m_jboost_is_the_command(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["jboost", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("jboost", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"jboost {jboost.__version__}\n")


# --- configuration files --------------------------------------------------------------------------


def write_config(folder, **values):
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    (folder / "job.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder / "job.toml"


def test_flags_override_the_configuration(run, data, tmp_path):
    (tmp_path / "jobs").mkdir()
    config = write_config(
        tmp_path / "jobs",
        data="../data.csv",
        label="ill",
        classifiers=["lda", "tree"],
        seed=3,
        output="from-config",
        holdout=0.25,
    )
    code, _, err = run(
        "fit", "--config", config, "--scores", "a", "b", "--output", "out", "--holdout", "0"
    )
    assert (code, err) == (0, "")
    settings = read_report(tmp_path / "out")["settings"]
    assert settings["seed"] == 3
    assert settings["scores"] == ["a", "b"]
    assert settings["classifiers"] is None
    assert settings["holdout"] == 0
    assert Path(settings["data"]) == tmp_path / "jobs" / ".." / "data.csv"
    assert not (tmp_path / "from-config").exists()


def test_every_option_is_in_the_quickstart(run):
    path = ROOT / "configs" / "quickstart.toml"
    content = path.read_text(encoding="utf-8")
    values = resolution.read_config(path)
    for option in options.OPTIONS:
        assert f"\n{option.name} = " in content or f"\n# {option.name} = " in content, option.name
        if option.name in values and option.name not in (
            "data",
            "method",
            "cuts",
            "quantiles",
            "min_separation",
            "rounds",
            "overwrite",
        ):
            default = list(option.default) if isinstance(option.default, tuple) else option.default
            assert values[option.name] == default, option.name
    assert resolution.resolve(values, {}).method == "l0"
    pair = resolution.read_config(ROOT / "configs" / "pair.toml")
    assert resolution.resolve(pair, {}).classifiers == ["lda", "naive-bayes"]
    assert all(value == values.get(key, value) for key, value in pair.items() if key != "method")
    code, _, err = run("fit", "--config", path, "--folds", "one")
    assert code == 2
    assert "'one'" in err


def test_score_columns_example(run, tmp_path, frame):
    path = ROOT / "configs" / "score-columns.toml"
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    assert resolution.read_config(path)["data"] == str(path.parent / "scores.csv")
    frame.rename({"a": "model_a", "b": "model_b", "ill": "label"}).write_csv(
        tmp_path / values["data"]
    )
    (tmp_path / "job.toml").write_bytes(path.read_bytes())
    code, _, err = run("fit", "--config", "job.toml", "--holdout", "0")
    assert (code, err) == (0, "")
    assert names_in("jboost-scores") == ["model.npz", "report.json", "separator.png"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fold": 3}, "there is no option 'fold'; did you mean 'folds'?"),
        ({"folds": "3"}, "folds is '3': expected a whole number"),
        ({"folds": True}, "folds is True: expected a whole number"),
        ({"holdout": "0.5"}, "holdout is '0.5': expected a number"),
        ({"data": 3}, "data is 3: expected a string"),
        (
            {"method": "triple"},
            (
                "method is 'triple': expected 'l0' or 'pair' or 'combine' or 'example-weights' or"
                " 'relaxed-margin' or 'lpboost' or 'adaboost' or 'infoboost' or 'slipper'"
            ),
        ),
        ({"scores": ["a"]}, "scores is ['a']: expected a list of 2 strings or more"),
        ({"scores": "ab"}, "scores is 'ab': expected a list of 2 strings"),
        ({"overwrite": 1}, "overwrite is 1: expected true or false"),
        ({"folds": 1}, "1 is not in the range x>=2"),
        (
            {"scores": ["a", "b"], "classifiers": ["lda", "tree"]},
            "both score columns and classifiers are given",
        ),
        ({"data": "sklearn:wine", "label": "x"}, "an embedded data set brings its labels"),
    ],
)
def test_bad_configurations(run, data, tmp_path, values, message):
    config = write_config(tmp_path, **({"data": "data.csv", "label": "ill"} | values))
    code, out, err = run("fit", "--config", config)
    assert_refused(code, out, err, message)
    assert names_in(".") == ["data.csv", "job.toml"]


def test_a_configuration_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "job.toml").write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert resolution.read_config(tmp_path / "job.toml") == {"seed": 3}


def test_a_flag_for_embedded_data_displaces_the_label():
    values = {"data": "sklearn:wine", "label": "ill"}
    assert resolution.resolve(values, {"data": True}).label is None
    with pytest.raises(ValueError, match="brings its labels"):
        resolution.resolve(values, {"data": True, "label": True})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such configuration file"),
        (b"a = [", "not readable as TOML"),
        (b"[fit]\nseed = 1", "[fit] is a table: expected options at the top level"),
    ],
)
def test_unreadable_configurations(run, tmp_path, content, message):
    if content is not None:
        (tmp_path / "job.toml").write_bytes(content)
    assert_refused(*run("fit", "--config", "job.toml"), message)


# --- what it refuses ------------------------------------------------------------------------------


def assert_refused(code, out, err, message):
    """Status 2 and one line on the standard error, nothing else."""
    assert (code, out) == (2, "")
    assert err.startswith("jboost: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit",), "no data: give --data FILE"),
        (("fit", "--data", "data.csv"), "data.csv: no label column: name it with --label COLUMN"),
        (
            ("fit", "--data", "dta.csv", *SCORES),
            "dta.csv: there is no such file; did you mean 'data.csv'?",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "il", "--scores", "a", "b"),
            "there is no column 'il'; did you mean 'ill'?",
        ),
        (("fit", "--data", "data.csv", "--label", "cost"), "column 'cost' holds 4 distinct values"),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--scores", "a", "c"),
            "there is no column 'c'",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--scores", "a", "colour"),
            "column 'colour' is not numeric: row 1 holds 'blue'",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--scores", "a", "gaps"),
            "column 'gaps' has no value in row 4",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--scores", "a", "a"),
            "the column 'a' is named twice",
        ),
        (("fit", "--data", "data.csv", *SCORES, "--weights", "b"), "the column 'b' is named twice"),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--weights", "b"),
            "weights are not negative",
        ),
        (
            ("fit", "--data", "data.csv", *SCORES, "--classifiers", "lda", "tree"),
            "both score columns and classifiers are given",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--classifiers", "lda", "tre"),
            "there is no base classifier 'tre'; did you mean 'tree'?",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--folds", "30"),
            "folds is 30, but the smaller class has 24 rows",
        ),
        (("fit", "--data", "data.csv", *SCORES, "--holdout", "0.01"), "holdout is 0.01"),
        (("fit", "--data", "data.csv", *SCORES, "--holdout", "1"), "'--holdout'"),
        (
            ("fit", "--data", "data.csv", *SCORES, "--holdout", "nan"),
            "'--holdout': nan is not a finite number",
        ),
        (
            ("fit", "--data", "data.csv", *SCORES, "--seed", "99999999999999999999999"),
            "'--seed': 99999999999999999999999 is not in the range",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--method", "l0", "--exact", "nan"),
            "'--exact': nan is not a finite number",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--method", "l0", "--kappa", "nan"),
            "'--kappa': nan is not a finite number",
        ),
        (
            ("fit", "--data", "data.csv", "--label", "ill", "--method", "l0", "--margin", "nan"),
            "'--margin': nan is not a finite number",
        ),
        (
            (
                "fit",
                "--data",
                "data.csv",
                "--label",
                "ill",
                "--method",
                "l0",
                "--min-separation",
                "9" * 400,
            ),
            "'--min-separation'",
        ),
        (
            (
                "fit",
                "--data",
                "data.csv",
                "--label",
                "ill",
                "--method",
                "example-weights",
                "--penalty",
                "inf",
            ),
            "'--penalty': inf is not a finite number",
        ),
        (
            (
                "fit",
                "--data",
                "data.csv",
                "--label",
                "ill",
                "--method",
                "adaboost",
                "--rounds",
                "100000000000000",
            ),
            "'--rounds': 100000000000000 is not",
        ),
        (
            ("fit", "--data", "data.csv", *SCORES, "--output", "data.csv"),
            "the output folder is a file",
        ),
        (("fit", "--data", "data.csv", *SCORES, "--precison", "float32"), "--precison"),
        (
            ("fit", "--data", "data.csv", *SCORES, "--method", "triple"),
            (
                "'triple' is not one of 'l0', 'pair', 'combine', 'example-weights',"
                " 'relaxed-margin', 'lpboost', 'adaboost', 'infoboost', 'slipper'"
            ),
        ),
        (("fit", "--data", "sklearn:moons"), "'breast_cancer', 'digits', 'wine'"),
        (("evaluate", "--data", "data.csv", *SCORES, "--folds", "25"), "folds is 25"),
        (("predict", "nowhere", "--data", "data.csv"), "nowhere: there is no such folder"),
        (("predict", "out"), "--data"),
        (("inspect", "."), ".: no output folder of jboost fit"),
        (("inspect",), "MODEL_DIR"),
        (("fix",), "fix"),
    ],
)
def test_user_errors_are_one_line(run, data, arguments, message):
    assert_refused(*run(*arguments), message)
    assert names_in(".") == ["data.csv"]


@pytest.mark.parametrize("output", [".", "..", "../deep"])
def test_the_folder_that_one_works_in_stays(run, data, monkeypatch, output):
    Path("out/deep").mkdir(parents=True)
    monkeypatch.chdir("out/deep")
    assert_refused(
        *run("fit", "--data", data, *SCORES, "--output", output, "--overwrite"),
        f"{output}: the output folder is replaced",
    )
    assert names_in(data.parent / "out") == ["deep"]


def test_scores_beyond_the_precision_are_named(run, frame):
    frame.with_columns(polars.col("a") * 1e39).write_csv("data.csv")
    assert_refused(
        *run("fit", "--data", "data.csv", *SCORES, "--precision", "float32"),
        "inf: not a finite number",
    )
    assert names_in(".") == ["data.csv"]


def test_scores_whose_differences_overflow_are_named(run, frame):
    frame.with_columns(polars.col("b").sign() * 1.5e308).write_csv("data.csv")
    assert_refused(
        *run("fit", "--data", "data.csv", *SCORES),
        "1.5e+308 in row 1: scores must not exceed 4e+307; rescale the column",
    )


def test_predict_refuses_other_data_and_damaged_folders(run, data, frame):
    assert run("fit", "--data", data, *SCORES, "--output", "out")[0] == 0
    frame.drop("b").write_csv("new.csv")
    assert_refused(
        *run("predict", "out", "--data", "new.csv", "--output", "p.csv"),
        "new.csv: there is no column 'b'",
    )
    assert_refused(
        *run("predict", "out", "--data", "data.csv", "--output", "no/p.csv"),
        "there is no folder no",
    )
    Path("out/model.npz").write_bytes(b"PK")
    assert_refused(
        *run("predict", "out", "--data", "data.csv", "--output", "p.csv"),
        "not a model file of jboost, or damaged",
    )
    assert names_in(".") == ["data.csv", "new.csv", "out"]


def test_a_model_of_the_library_is_no_folder_of_fit(run):
    Path("out").mkdir()
    zero, plane = np.float32(0), np.zeros(2, np.float32)
    files.save(
        Separator(plane, plane, zero, zero, zero, zero, zero, np.zeros(0, bool), np.int32(0)),
        "out/model.npz",
    )
    assert_refused(*run("inspect", "out"), "not written by jboost fit: use jboost.files.load")


# --- nothing half-written -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("the disk is\nfull"), 2), (OSError("no space"), 2), (KeyboardInterrupt(), 130)],
)
def test_an_end_in_the_middle_leaves_nothing(run, data, monkeypatch, error, status):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("jboost.plots.plot_separator", fail)
    code, out, err = run("fit", "--data", data, *SCORES, "--output", "out")
    assert (code, out, len(err.strip().splitlines())) == (status, "", 1)
    assert names_in(".") == ["data.csv"]


def test_a_lack_of_memory_is_no_bug():
    for error in (
        MemoryError("Unable to allocate 291. GiB"),
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
    ):
        assert cli._message(error).startswith("out of memory (")
    assert cli._message(RuntimeError("INTERNAL: a bug")) is None


@pytest.fixture
def interrupts():
    """Lets an interrupt raise, which a process that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_that_python_ignores_comes_again():
    class Holder:
        def __del__(self):
            raise KeyboardInterrupt

    def hold_and_wait():
        Holder()
        for _ in range(500):
            time.sleep(0.01)

    with drive.lasting_interrupts(), pytest.raises(KeyboardInterrupt):
        hold_and_wait()


def test_a_missing_package_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    assert_refused(
        *run("fit"), "the command line needs the package polars: pip install 'jboost[cli]'"
    )


def test_progress_shows_and_goes_on(capsys):
    with drive.progress("folds", 2, enabled=True) as on_step:
        assert on_step(None, "fold 1")
        assert on_step(None, "fold 2")
    assert "folds" in capsys.readouterr().err


def test_a_bug_keeps_its_traceback(data, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jboost.plots.plot_separator", lambda *args, **kwargs: {}["key"])
    with pytest.raises(KeyError):
        cli.main(["fit", "--data", str(data), *SCORES])
    monkeypatch.setenv("JBOOST_TRACEBACK", "1")
    with pytest.raises(ValueError, match="no label column"):
        cli.main(["fit", "--data", str(data)])
    assert names_in(".") == ["data.csv"]


@pytest.mark.slow
def test_the_installed_command(data, tmp_path):
    command = [str(Path(sys.executable).with_name("jboost")), "fit", "--data", "data.csv", *SCORES]
    refused = subprocess.run(
        [*command, "--weights", "none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert_refused(
        refused.returncode, refused.stdout, refused.stderr, "data.csv: there is no column 'none'"
    )
    assert names_in(tmp_path) == ["data.csv"]


@pytest.fixture
def no_cache():
    """JAX as a user has it who has said nothing about what is compiled, as it was before
    afterwards.
    """
    names = (
        "jax_enable_compilation_cache",
        "jax_compilation_cache_dir",
        "jax_compilation_cache_max_size",
        "jax_persistent_cache_min_compile_time_secs",
    )
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_compiled_programs_are_kept_in_the_users_cache(no_cache, monkeypatch, tmp_path):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    programs.prepare()
    folder = Path(jax.config.jax_compilation_cache_dir)
    assert folder.is_dir()
    assert folder.is_relative_to(tmp_path / "jboost")
    assert 0 < jax.config.jax_compilation_cache_max_size < 1 << 30


def test_the_command_says_how_xla_is_to_compile(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    programs.prepare()
    assert os.environ["XLA_FLAGS"].split()[-1] == "--xla_cpu_use_fusion_emitters=false"
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=true")
    programs.prepare()
    assert os.environ["XLA_FLAGS"].count("fusion_emitters") == 1  # what the user said stands
    monkeypatch.setenv("XLA_FLAGS", "")
    # whose XLA may not know the flag, and end the process at it
    monkeypatch.setattr(jax.version, "__version_info__", (9, 0, 0))
    programs.prepare()
    assert "fusion_emitters" not in os.environ["XLA_FLAGS"]


@pytest.mark.parametrize(("told", "threads"), [(None, {1}), ("2", {2})])
def test_factorisations_of_the_command_take_one_thread_unless_told_otherwise(
    told, threads, monkeypatch
):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if told:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", told)
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        programs.prepare()
        assert {
            library["num_threads"]
            for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"
        } == threads


@pytest.mark.parametrize("reason", ["told", "off"])
def test_what_jax_was_told_of_compiled_programs_stands(
    reason, no_cache, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    told = str(tmp_path / "mine") if reason == "told" else None
    jax.config.update("jax_compilation_cache_dir", told)
    jax.config.update("jax_enable_compilation_cache", reason != "off")
    programs.prepare()
    assert jax.config.jax_compilation_cache_dir == told
    assert names_in(tmp_path) == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("is_named", [False, True])
def test_a_cache_folder_that_cannot_be_written_is_named_in_a_warning(
    is_named, no_cache, monkeypatch, tmp_path, capsys
):
    (tmp_path / "file").write_text("no folder")
    folder = tmp_path / "file" / "cache"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: folder)
    jax.config.update("jax_compilation_cache_dir", str(folder) if is_named else None)
    programs.prepare()
    assert not jax.config.jax_enable_compilation_cache
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("jboost: warning: compiled programs are not kept")
    assert str(folder) in line
    assert "JAX_COMPILATION_CACHE_DIR" in line
    assert names_in(tmp_path) == ["file"]


@pytest.mark.slow
def test_the_second_command_finds_what_the_first_one_compiled(data, tmp_path):
    told = {
        name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"
    }
    home = {**told, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [str(Path(sys.executable).with_name("jboost")), "fit", "--data", "data.csv", *SCORES]
    reports = []
    for name in ("first", "second"):
        done = subprocess.run(
            [*command, "--output", name],
            cwd=tmp_path,
            env=home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        kept = sorted(path.name for path in (tmp_path / "cache" / "jboost").rglob("*-cache"))
        reports.append((kept, read_report(tmp_path / name)["certificate"]))
    assert reports[0][0]
    assert reports[1] == reports[0]


@pytest.mark.slow
def test_leave_one_out_and_front(run, data):
    code, out, err = run("fit", "--data", data, *SCORES, "--output", "out", "--loo", "--pareto")
    assert (code, err) == (0, "")
    assert {"kinds.png", "front.png"} <= set(names_in("out"))
    report = read_report(Path("out"))
    kinds, counts = report["leave_one_out"]["kinds"], report["leave_one_out"]["counts"]
    assert len(kinds) == sum(counts.values()) == ROWS
    assert f"{counts['always_wrong']} wrong" in out
    front = report["pareto"]
    assert front["losses"] == sorted(front["losses"])
    assert front["losses"][0] == report["certificate"]["loss"]
    assert front["margins"][-1] is None
    assert run("fit", "--data", data, *SCORES, "--output", "out", "--overwrite")[0] == 0
    assert read_report(Path("out"))["pareto"] is None
