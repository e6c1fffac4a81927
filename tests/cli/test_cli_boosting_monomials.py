"""Boosting of monomials from the command line, beside the library and a linear program over all
rules.
"""

import io
import itertools
import json
import sqlite3

import jax
import numpy as np
import polars
import pytest
from scipy.optimize import linprog

from command_line import run_in
from jboost import learners, lpboost, make_dataset
from jboost.cli import resolution
from jboost.data import binarization

ROWS, NU, ORDER = 40, 0.4, 2
DATA = ("--data", "data.csv", "--label", "ill", "--weights", "cost")
RULES = ("--learner", "monomials", "--max-order", ORDER, "--cuts", "quantiles", "--quantiles", 3)
QUICK = ("--rounds", 12, "--output", "out", "--overwrite")


def make_frame():
    """Two numbers that tell the class together, text with gaps, and a column of no use."""
    generator = np.random.default_rng(3)
    heat, pulse, noise = generator.normal(size=(3, ROWS)).round(2)
    ill = (heat > 0) & (pulse > 0) ^ (generator.uniform(size=ROWS) < 0.1)
    return polars.DataFrame(
        {
            "heat": heat,
            "pulse": pulse,
            "noise": noise,
            "face": ["red", "pale", None, "pale"] * (ROWS // 4),
            "cost": [1, 2, 3, 4] * (ROWS // 4),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the data."""
    path = tmp_path_factory.mktemp("monomials")
    make_frame().write_csv(path / "data.csv")
    return path


def read_report(path):
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def bits_of(frame):
    """The bits of the fit, by the library, with the labels and the weights."""
    rows = frame.select("heat", "pulse", "noise", "face").to_numpy().astype(object)
    labels = np.where(frame["ill"].to_numpy() == "yes", 1.0, -1.0)
    costs = frame["cost"].to_numpy().astype(float)
    found = binarization.fit(
        rows,
        labels,
        weights=costs,
        names=("heat", "pulse", "noise", "face"),
        cuts="quantiles",
        num_quantiles=3,
    )
    return np.asarray(binarization.apply(found, rows)), labels, costs


def best_soft_margin(bits, labels, costs, nu):
    """The largest soft margin over all conjunctions of up to two literals, by HiGHS."""
    covers = [np.ones(len(bits), bool)]
    literals = [(index, value) for index in range(bits.shape[1]) for value in (0, 1)]
    for order in (1, 2):
        for chosen in itertools.combinations(literals, order):
            covers.append(np.all([bits[:, index] == value for index, value in chosen], axis=0))
    columns = np.unique(np.array(covers, float), axis=0)
    outputs = np.concatenate([columns, -columns]).T * labels[:, None]
    num_rows, num_columns = outputs.shape
    prices = costs / costs.sum() / nu
    found = linprog(
        np.concatenate([np.zeros(num_columns), prices, [-1.0]]),
        A_ub=np.concatenate([-outputs, -np.eye(num_rows), np.ones((num_rows, 1))], axis=1),
        b_ub=np.zeros(num_rows),
        A_eq=np.concatenate([np.ones(num_columns), np.zeros(num_rows + 1)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (num_columns + num_rows) + [(None, None)],
    )
    return -found.fun


@pytest.mark.exhaustive
def test_lpboost_of_monomials_is_certified_over_all_of_them(folder):
    code, out, err = run_in(folder, "fit", *DATA, "--method", "lpboost", *RULES, *QUICK, "--nu", NU)
    assert (code, err) == (0, "")
    report = read_report(folder / "out" / "report.json")
    found = report["boosting"]["certificate"]
    data = bits_of(make_frame())
    optimum = best_soft_margin(*data, NU)
    assert found["lower_bound"] - 1e-9 <= optimum <= found["upper_bound"] + 1e-9
    assert found["upper_bound"] - found["lower_bound"] <= report["settings"]["tolerance"]
    assert "of the learner monomials after" in out
    assert all(rule in out for rule in report["rules"])
    with jax.enable_x64(True):
        bits, labels, costs = data
        fitted = lpboost.fit(
            make_dataset(bits, labels, weights=costs),
            learners.monomials(ORDER, num_proposed=8),
            nu=NU,
            tolerance=0.01,
            max_rounds=12,
            config=lpboost.SimplexConfig(),
        )
        bounds = fitted.certificate
        assert found["lower_bound"] == pytest.approx(float(bounds.lower_bound), abs=1e-9)
        assert found["upper_bound"] == pytest.approx(float(bounds.upper_bound), abs=1e-9)


def test_adaboost_of_monomials_from_fit_to_export(folder):
    one = ("--learner", "monomials", "--cuts", "quantiles", "--quantiles", 2)
    fit = ("fit", *DATA, "--method", "adaboost", *one, "--rounds", 3, "--output", "ada")
    code, out, err = run_in(folder, *fit)
    assert (code, err) == (0, "")
    report = read_report(folder / "ada" / "report.json")
    assert report["settings"]["max_order"] == 1
    assert all(rule in out for rule in report["rules"])
    frame = make_frame()
    seen = [name for name in ("heat", "pulse", "noise", "face") if name in str(report["rules"])]
    assert 0 < len(seen) < 4
    frame.select(seen).write_csv(folder / "new.csv")  # the columns that the rules use, alone
    code, out, err = run_in(folder, "predict", "ada", "--data", "new.csv")
    assert (code, err) == (0, "")
    said = polars.read_csv(io.StringIO(out))["prediction"].to_numpy()
    wrong = said != frame["ill"].to_numpy()
    assert frame["cost"].to_numpy()[wrong].sum() == report["losses"][0]["training"]["weight"]
    code, out, err = run_in(folder, "export", "ada", "--format", "sql")
    assert (code, err) == (0, "")
    with sqlite3.connect(":memory:") as base:
        base.execute("create table data (heat real, pulse real, noise real, face text)")
        rows = frame.select("heat", "pulse", "noise", "face").rows()
        base.executemany("insert into data values (?, ?, ?, ?)", rows)
        classes = [row[-1] for row in base.execute(out).fetchall()]
    assert classes == np.where(said == "yes", 1, -1).tolist()


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["infoboost", "relaxed-margin"])
def test_the_other_boosters_take_monomials(folder, method):
    nu = ("--nu", NU) if method == "relaxed-margin" else ()
    code, out, err = run_in(folder, "fit", *DATA, "--method", method, *RULES, *QUICK, *nu)
    assert (code, err) == (0, "")
    report = read_report(folder / "out" / "report.json")
    bounds = report["boosting"]["certificate"]
    assert bounds["lower_bound"] <= bounds["upper_bound"]
    if method == "relaxed-margin":
        optimum = best_soft_margin(*bits_of(make_frame()), NU)
        assert bounds["lower_bound"] - 1e-9 <= optimum <= bounds["upper_bound"] + 1e-9
    code, out, err = run_in(folder, "inspect", "out")
    assert (code, err) == (0, "")
    assert all(rule in out for rule in report["rules"])


@pytest.mark.exhaustive
def test_a_missing_value_that_meets_no_condition(folder):
    fit = ("fit", *DATA, "--method", "lpboost", *RULES, *QUICK, "--nu", NU, "--missing", "none")
    code, _, err = run_in(folder, *fit)
    assert (code, err) == (0, "")
    report = read_report(folder / "out" / "report.json")
    bounds = report["boosting"]["certificate"]
    assert bounds["upper_bound"] - bounds["lower_bound"] <= report["settings"]["tolerance"]
    code, out, err = run_in(folder, "predict", "out", "--data", "data.csv")
    assert (code, err) == (0, "")
    wrong = polars.read_csv(io.StringIO(out))["prediction"] != make_frame()["ill"]
    weight = make_frame()["cost"].filter(wrong).sum()
    assert weight == report["losses"][0]["training"]["weight"]


@pytest.mark.exhaustive
def test_the_choice_of_nu_over_monomials(folder):
    nus = ("--nu", 0.3, "--nu", 0.6, "--folds", 2)
    code, out, err = run_in(folder, "fit", *DATA, "--method", "lpboost", *RULES, *QUICK, *nus)
    assert (code, err) == (0, "")
    choice = read_report(folder / "out" / "report.json")["nu"]
    assert [row["nu"] for row in choice["losses"]] == [0.6, 0.3]
    assert out.count(", chosen") == 1
    code, out, err = run_in(
        folder, "evaluate", *DATA, "--method", "lpboost", *RULES, *nus, "--rounds", 12
    )
    assert (code, err) == (0, "")
    assert "lpboost" in out


@pytest.mark.exhaustive
def test_a_resumed_fit_of_monomials_has_the_same_bounds(folder):
    fit = ("fit", *DATA, "--method", "lpboost", *RULES, *QUICK, "--nu", NU)
    assert run_in(folder, *fit, "--time-limit", 500)[0] == 0
    whole = read_report(folder / "out" / "report.json")["boosting"]
    kept = (*fit, "--checkpoint", "states")
    assert run_in(folder, *kept)[0] == 0
    code, _, err = run_in(folder, *kept, "--resume")
    assert (code, err) == (0, "jboost: continues from the checkpoint in states\n")
    assert read_report(folder / "out" / "report.json")["boosting"] == whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-order", "2"), "--max-order is for --learner monomials, and the learner is stumps"),
        (
            ("--learner", "literals", "--min-separation", "2"),
            "--min-separation is for --learner monomials, and the learner is literals",
        ),
        (
            ("--learner", "monomials", "--max-depth", "3"),
            "--max-depth is for --learner trees, and the learner is monomials",
        ),
        (("--learner", "monomials", "--max-order", "99"), "max_order is 99, and the columns of"),
        (
            ("--learner", "monomials", "--max-order", "cv"),
            "--max-order cv is for the method l0, and the method is adaboost: give a number",
        ),
        (("--learner", "monomials", "--kappa", "2"), "--kappa is for the method l0"),
    ],
)
def test_refusals_name_the_options(folder, arguments, message):
    code, _, err = run_in(folder, "fit", *DATA, "--method", "adaboost", *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_options_of_rules_in_a_file_are_for_their_learner():
    given = {"data": "data.csv", "label": "ill", "method": "lpboost", "max_order": "cv"}
    stumps = resolution.resolve(given | {"min_separation": 2}, {})
    assert (stumps.max_order, stumps.min_separation, stumps.cuts) == (1, None, "none")
    rules = given | {"max_order": 3, "min_separation": 2, "learner": "monomials"}
    rules = resolution.resolve(rules, {})
    assert (rules.max_order, rules.min_separation, rules.cuts) == (3, 2, "class_changes")
