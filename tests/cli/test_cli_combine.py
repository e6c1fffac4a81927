"""The method combine on the command line: lists of many names, the folder that a fit writes, and
what is refused.
"""

import json
import sys
from pathlib import Path

import numpy as np
import polars
import pytest

import jboost
from jboost import cli
from jboost.cli import resolution
from jboost.cli.combine.method import split_lists

ROOT = Path(__file__).parents[2]
ROWS = 30
BASE = ("--data", "data.csv", "--label", "ill", "--method", "combine")
SCORES = ("--scores", "a", "b", "c")


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs jboost in-process, in a folder that holds data.csv; returns (status, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os._exit", sys.exit)
    generator = np.random.default_rng(0)
    signs = np.where(np.arange(ROWS) % 2, 1, -1)
    scores = np.round(generator.normal(size=(ROWS, 3)) + 0.8 * signs[:, None], 2)
    cost = generator.integers(1, 4, ROWS)
    frame = polars.DataFrame(
        {
            "a": scores[:, 0],
            "b": scores[:, 1],
            "c": scores[:, 2],
            "cost": cost,
            "ill": np.where(signs > 0, "yes", "no"),
        }
    )
    frame.write_csv(tmp_path / "data.csv")

    def run(*arguments):
        with pytest.raises(SystemExit) as exit:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return exit.value.code, captured.out, captured.err

    return run


@pytest.mark.slow
def test_fit_predict_and_inspect(run, tmp_path):
    code, out, err = run(
        "fit",
        *BASE,
        *SCORES,
        "--strategy",
        "hierarchical",
        "--weights",
        "cost",
        "--precision",
        "float32",
        "--output",
        "out",
    )
    assert (code, err) == (0, "")
    assert "logistic stacking" in out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "margins.png",
        "model.npz",
        "report.json",
    ]
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    losses = {(row["rule"], row["detail"]): row["training"]["weight"] for row in report["losses"]}
    assert (
        losses["combination", "by exact searches"]
        == report["certificate"]["loss"]
        == min(losses.values())
    )
    assert report["certificate"]["lower_bound"] <= report["certificate"]["loss"]
    assert report["combination"]["strategy"] == "hierarchical"
    assert report["settings"]["scores"] == ["a", "b", "c"]

    code, out, err = run("predict", "out", "--data", "data.csv")
    assert (code, err) == (0, "")
    predictions = polars.read_csv(out.encode())
    table = polars.read_csv(tmp_path / "data.csv")
    vote = jboost.files.load(tmp_path / "out" / "model.npz")
    signs = np.asarray(
        jboost.predict(vote, table.select("a", "b", "c").to_numpy().astype(np.float32))
    )
    assert predictions.columns == ["score_a", "score_b", "score_c", "score", "prediction"]
    assert predictions["prediction"].to_list() == np.where(signs > 0, "yes", "no").tolist()
    wrong = (predictions["prediction"] != table["ill"]).to_numpy()
    assert table["cost"].to_numpy()[wrong].sum() == report["certificate"]["loss"]

    code, out, err = run("inspect", "out")
    assert (code, err) == (0, "")
    assert report["combination"]["formula"] in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*BASE, "--scores", "a", "b"),
            "scores has 2 names, and the method combine takes three or more",
        ),
        (
            (*BASE[:4], "--scores", "a", "--seed", "1"),
            "--scores takes two names or more, and one follows: name more",
        ),
        (
            (*BASE, "--seed", "1", "--classifiers"),
            "--classifiers takes two names or more, and none follows: name more",
        ),
        ((*BASE[:4], *SCORES, "--loo"), "--loo is for the method pair, and the method is combine"),
        ((*BASE, "--scores", "a", "b", "a"), "the column 'a' is named twice"),
        ((*BASE, "--scores", "a", "b", "d"), "there is no column 'd'"),
        ((*BASE, *SCORES, "--strategy", "best"), "'best'"),
        ((*BASE, *SCORES, "--tie-break", "none"), "--tie-break is for the method pair"),
        ((*BASE[:4], "--strategy", "greedy"), "--strategy is for the method combine"),
        (
            (*BASE, "--classifiers", "lda", "tree", "tre"),
            "there is no base classifier 'tre'; did you mean 'tree'?",
        ),
    ],
)
def test_refusals(run, arguments, message):
    code, out, err = run("fit", *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_lists_are_split():
    assert split_lists(["--scores", "a", "b"]) == (["--scores", "a", "b"], {})
    assert split_lists(["--classifiers", "a", "b", "c", "-h"]) == (
        ["--classifiers", "a", "b", "-h"],
        {"classifiers": ("a", "b", "c")},
    )
    assert split_lists(["--scores", "a", "b", "c", "--scores", "d", "e"]) == (
        ["--scores", "a", "b", "--scores", "d", "e"],
        {},
    )


def test_a_pair_of_three_is_a_combination():
    assert (
        resolution.resolve(
            {"data": "sklearn:wine", "method": "pair", "classifiers": ("lda", "qda", "svm")}, {}
        ).method
        == "combine"
    )
    assert (
        resolution.resolve(
            {"data": "sklearn:wine", "method": "pair", "classifiers": ("lda", "qda")}, {}
        ).method
        == "pair"
    )


@pytest.mark.slow
def test_the_optimum_of_three_columns(run, tmp_path):
    code, _, err = run(
        "fit", *BASE[:4], "--method", "pair", *SCORES, "--strategy", "exact", "--output", "out"
    )
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert (
        report["certificate"]["loss"]
        == report["certificate"]["lower_bound"]
        == min(row["training"]["weight"] for row in report["losses"])
    )


def test_configuration():
    values = resolution.read_config(ROOT / "configs" / "combine.toml")
    settings = resolution.resolve(values, {})
    assert settings.method == "combine"
    assert len(settings.classifiers) == 7
    assert resolution.resolve({"data": "sklearn:wine", "method": "combine"}, {}).classifiers == (
        "lda",
        "naive-bayes",
        "forest",
        "knn",
        "svm",
    )


@pytest.mark.slow
def test_trained_classifiers_from_a_configuration_and_folds(run, tmp_path):
    (tmp_path / "job.toml").write_text(
        'data = "data.csv"\nlabel = "ill"\nmethod = "combine"\nclassifiers = ["lda", "tree", "knn",'
        ' "logistic"]\nfolds = 3\nholdout = 0.2\n'
    )
    code, _, err = run("fit", "--config", "job.toml", "--output", "out")
    assert (code, err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "base.skops",
        "margins.png",
        "model.npz",
        "report.json",
    ]
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["settings"]["classifiers"] == ["lda", "tree", "knn", "logistic"]
    assert "held_out" in report["losses"][-1]
    assert run("predict", "out", "--data", "data.csv")[0] == 0
    code, _, err = run(
        "evaluate",
        "--config",
        "job.toml",
        "--classifiers",
        "lda",
        "tree",
        "stump",
        "--report",
        "table.json",
    )
    assert (code, err) == (0, "")
    table = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert table["settings"]["classifiers"] == ["lda", "tree", "stump"]
    assert [row["rule"] for row in table["losses"]][-2:] == ["logistic stacking", "combination"]


@pytest.mark.slow
def test_the_optimum_of_four_columns_and_its_time_limit(run, tmp_path):
    """By branch and cut, which ends at the time limit with valid bounds."""
    four = (*BASE, *SCORES, "cost", "--strategy", "exact")
    code, _, err = run("fit", *four, "--output", "whole")
    assert (code, err) == (0, "")
    code, _, err = run("fit", *four, "--time-limit", "0.000001", "--output", "short")
    whole = json.loads((tmp_path / "whole" / "report.json").read_text(encoding="utf-8"))
    assert whole["certificate"]["is_optimal"]
    assert whole["combination"]["strategy"] == "exact"
    if code == 0:
        short = json.loads((tmp_path / "short" / "report.json").read_text(encoding="utf-8"))
        bounds = short["certificate"]
        assert bounds["lower_bound"] <= whole["certificate"]["loss"] <= bounds["loss"]
    else:
        assert "--time-limit 1e-06 expired" in err
