"""The method l0 of the command line: rules that people read, from fit to evaluation. One fit and
one cross-validation serve nearly all tests.
"""

import json
import math
import sys
from pathlib import Path

import jax
import numpy as np
import polars
import pytest

import command_line
import jboost
from jboost import cli, files
from jboost.cli import resolution, sizes
from jboost.data import binarization, readers
from jboost.report import l0 as report_module

ROWS = 60


def make_frame():
    """Numbers with gaps, text with gaps, a column that says nothing, weights, and labels in words:
    ill where old and not 07, a few flipped.
    """
    generator = np.random.default_rng(0)
    age = generator.integers(20, 80, size=ROWS)
    colours = np.array(["red", "07", "green"])[generator.integers(0, 3, size=ROWS)]
    ill = (age > 50) & (colours != "07")
    ill[::20] = ~ill[::20]
    return polars.DataFrame(
        {
            "age": [None if row % 17 == 3 else int(value) for row, value in enumerate(age)],
            "colour": [None if row % 19 == 5 else str(value) for row, value in enumerate(colours)],
            "same": [1.5] * ROWS,
            "cost": [1, 2] * (ROWS // 2),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def run_in(folder, capture, *arguments):
    """Runs jboost in-process in a folder; returns (status, output, errors)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("os._exit", sys.exit)
        with pytest.raises(SystemExit) as exit:
            cli.main([str(argument) for argument in arguments])
    captured = capture.readouterr()
    return exit.value.code, captured.out, captured.err


DATA = ("--data", "data.csv", "--label", "ill", "--method", "l0")
QUICK = (
    "--max-order",
    "2",
    "--precision",
    "float32",
    "--cuts",
    "quantiles",
    "--quantiles",
    "4",
    "--rounds",
    "5",
    "--margin",
    "0.2",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data, and the place where the fit is."""
    path = tmp_path_factory.mktemp("l0")
    make_frame().write_csv(path / "data.csv")
    return path


@pytest.fixture(scope="module")
def said(folder):
    """The text that the one fit printed."""
    status, out, err = command_line.run_in(
        folder, "fit", *DATA, *QUICK, "--weights", "cost", "--output", "out"
    )
    assert (status, err) == (0, "")
    return out


@pytest.fixture(scope="module")
def report(folder, said):
    return json.loads(
        (folder / "out" / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )


@pytest.fixture
def run(folder, capsys):
    return lambda *arguments: run_in(folder, capsys, *arguments)


def covers(text, row):
    """Whether a rule as text holds for a row of the frame, read by Python: the oracle
    of the words.
    """
    for condition in text.split(" and "):
        optional = condition.startswith("(")
        condition = condition.strip("()").removesuffix(" or missing") if optional else condition
        name = next(word for word in condition.split() if word in row)
        value = row[name]
        if condition == f"{name} is missing":
            holds = value is None
        elif condition == f"{name} is not missing":
            holds = value is not None
        elif value is None:
            holds = optional
        elif " == " in condition or " != " in condition:
            holds = (value == condition.split()[-1]) == (" == " in condition)
        else:
            holds = eval(condition, {}, {name: value})
        if not holds:
            return False
    return True


@pytest.mark.slow
def test_the_rules_are_what_they_say(folder, said, report):
    frame, rules = make_frame(), report["model"]["rules"]
    assert rules
    for rule in rules:
        held = np.array([covers(rule["text"], row) for row in frame.iter_rows(named=True)])
        ill = (frame["ill"] == "yes").to_numpy()
        assert (rule["covers_positive"], rule["covers_negative"]) == (
            int((held & ill).sum()),
            int((held & ~ill).sum()),
        ), rule["text"]
        assert rule["label"] == ("yes" if rule["sign"] > 0 else "no")
        assert f"{rule['coefficient']:.4f} {rule['label']} if {rule['text']}" in said
        assert 1 <= rule["order"] <= 2
    weight = sum(rule["coefficient"] for rule in rules) + abs(report["model"]["constant"])
    assert weight <= 1 + 1e-6
    assert [rule["coefficient"] for rule in rules] == sorted(
        (rule["coefficient"] for rule in rules), reverse=True
    )


@pytest.mark.slow
def test_the_numbers_of_the_report(said, report):
    model = report["model"]
    bounds = model["certificate"]
    assert bounds["integer_lower_bound"] <= bounds["integer_upper_bound"]
    assert bounds["lower_bound"] <= bounds["upper_bound"]
    assert model["cost_of_rules"] + model["margin_errors"] == pytest.approx(
        bounds["integer_upper_bound"]
    )
    num_bits = model["attributes"]["bits"]
    for rule in model["rules"]:
        subsets = math.comb(num_bits, rule["order"])
        assert rule["cost"] == pytest.approx(
            (rule["order"] + math.log2(subsets) + 1) / math.log2(ROWS) + 1.5, rel=1e-5
        )
    assert model["proven"] in said
    assert bounds["explanation"] in said
    assert model["rows"]["+1"] + model["rows"]["-1"] == ROWS
    assert model["attributes"]["constant_columns"] == ["same"]
    settings = report["settings"]
    assert (settings["learner"], settings["method"], settings["rounds"], settings["margin"]) == (
        "monomials",
        "l0",
        5,
        [0.2],
    )
    assert report["data"]["missing_values"] == {"age": 4, "colour": 3}
    assert report["losses"][0]["rule"] == "larger class"
    assert report["losses"][1]["training"]["weight"] < report["losses"][0]["training"]["weight"]
    assert model["notes"] == []


@pytest.mark.slow
def test_code_length_and_risk_bound_are_those_of_the_paper(folder, report):
    model = report["model"]
    predictions = score_rows(folder)
    signs = np.where(make_frame()["ill"].to_numpy() == "yes", 1, -1)
    errors, place, num_bits = (
        int((signs * predictions <= 0).sum()),
        math.ceil(math.log2(ROWS)),
        model["attributes"]["bits"],
    )
    orders = [rule["order"] for rule in model["rules"]] + ([0] if model["constant"] else [])
    tables = math.ceil(math.log2(3))  # orders 0, 1, 2
    entries = sum(
        math.ceil(math.log2(2 * 2**order * math.comb(num_bits, order))) for order in orders
    )
    length = len(orders) * tables + entries + (len(orders) + 1) * place
    assert model["code_length"] == {
        "support": len(orders),
        "model": length,
        "errors": errors * place,
        "total": length + errors * place,
    }
    assert model["risk_bound"] == pytest.approx(
        (length + errors * place) / ROWS + math.log(20) / ROWS
    )


def score_rows(folder):
    """The scores by the library: the model file, binarization and ensemble, without the command
    line.
    """
    held = files.load(folder / "out" / "model.npz")
    table = readers.read_table(folder / "data.csv", label="ill").without(["cost"])
    bits = binarization.apply(
        held["binarizer"], table.matrix(tuple(table.numeric), tuple(table.categorical))
    )
    return np.asarray(jboost.predict_scores(held["ensemble"], np.asarray(bits)))


@pytest.mark.slow
def test_prediction_reads_raw_rows(folder, report, run):
    frame = make_frame()
    assert run("predict", "out", "--data", "data.csv", "--explain", "--output", "p.csv") == (
        0,
        f"p.csv: {ROWS} predictions\n",
        "",
    )
    predictions = polars.read_csv(folder / "p.csv")
    np.testing.assert_allclose(predictions["score"].to_numpy(), score_rows(folder), atol=1e-6)
    wrong = predictions["prediction"].to_numpy() != frame["ill"].to_numpy()
    assert frame["cost"].to_numpy()[wrong].sum() == report["losses"][1]["training"]["weight"]
    rules = report["model"]["rules"]
    for row, explained in zip(frame.iter_rows(named=True), predictions["rules"], strict=True):
        held = [rule for rule in rules if covers(rule["text"], row)]
        assert (explained or "") == "; ".join(
            f"{rule['coefficient']:.4f} {rule['label']} if {rule['text']}" for rule in held
        )
    assert polars.read_csv(run("predict", "out", "--data", "data.csv")[1].encode()).columns == [
        "score",
        "prediction",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("said")
def test_prediction_of_a_row_is_that_of_its_file(folder, run):
    """Text that looks like numbers alone, and a number that is missing everywhere, are what they
    were in training.
    """
    frame = make_frame().with_columns(
        polars.when(polars.col("colour") == "07")
        .then(None)
        .otherwise(polars.col("age"))
        .alias("age")
    )

    def predict(rows):
        rows.write_csv(folder / "new.csv")
        return polars.read_csv(run("predict", "out", "--data", "new.csv")[1].encode())

    assert predict(frame.filter(colour="07")).equals(predict(frame).filter(frame["colour"] == "07"))


@pytest.mark.slow
@pytest.mark.usefixtures("said")
def test_prediction_of_rows_unlike_those_of_training(folder, run):
    polars.DataFrame(
        {
            "colour": ["violet", None, "7"],
            "same": [None, 2.5, 1.5],
            "age": [None, 99.5, 1e9],
            "more": ["x", "y", "z"],
        }
    ).write_csv(folder / "new.csv")
    code, out, err = run("predict", "out", "--data", "new.csv", "--explain")
    told = (
        "column 'colour': 2 values that training never saw: violet (1), 7 (1); 1 of these are"
        " numbers, and the column was text in training"
    )
    assert (code, err) == (0, f"jboost: note: {told}\n")
    assert np.isfinite(polars.read_csv(out.encode())["score"].to_numpy()).all()
    polars.DataFrame({"colour": ["red"], "same": [1.5]}).write_csv(folder / "new.csv")
    code, _, err = run("predict", "out", "--data", "new.csv")
    assert code == 2
    assert "new.csv: there is no column 'age'" in err
    polars.DataFrame({"colour": ["red"], "same": [1.5], "age": ["old"]}).write_csv(
        folder / "new.csv"
    )
    code, _, err = run("predict", "out", "--data", "new.csv")
    assert code == 2
    assert "column 'age' is not numeric: row 1 holds 'old'" in err


@pytest.mark.slow
def test_inspect_says_what_fit_said(report, run):
    code, out, err = run("inspect", "out")
    assert (code, err) == (0, "")
    assert all(rule["text"] in out for rule in report["model"]["rules"])
    assert report["model"]["proven"] in out
    assert "ill: no -> -1, yes -> +1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time-limit", "0.000001"), "--time-limit 1e-06 expired during reading"),
        (("--time-limit", "0"), "0"),
        (
            ("--max-order", "cv", "--vote", "relaxed"),
            "--max-order cv chooses among sparse votes of l0: omit --vote relaxed, or give",
        ),
        (
            ("--max-rules", "cv", "--exact", "5"),
            "--exact computes the best vote of any number of rules",
        ),
    ],
)
def test_limits_and_sizes_that_cannot_be_are_one_line(run, arguments, message):
    code, out, err = run("fit", *DATA, *QUICK, *arguments, "--output", "unseen")
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.slow
def test_the_order_and_the_number_of_rules_are_chosen(run, folder):
    sized = ("--max-order", "cv", "--max-rules", "cv", "--folds", "2", "--time-limit", "600")
    code, out, _ = run("fit", *DATA, *QUICK, *sized, "--output", "sized")
    assert code == 0
    report = json.loads((folder / "sized" / "report.json").read_text(encoding="utf-8"))
    chosen, losses = report["choice"]["chosen"], report["choice"]["losses"]
    assert len(losses) == 3 * 5
    best = min(loss["mean"] for loss in losses)
    assert [loss["mean"] for loss in losses if chosen.items() <= loss.items()] == [best]
    assert len(report["model"]["rules"]) <= chosen["max_rules"]
    assert (
        max((rule["order"] for rule in report["model"]["rules"]), default=0) <= chosen["max_order"]
    )
    assert "literals, at most" in out


@pytest.mark.parametrize(
    ("arguments", "search"),
    [
        ((), jboost.l0.SearchConfig()),
        (("--vote", "relaxed"), jboost.l0.RelaxedConfig()),
        (("--max-rules", "3"), jboost.l0.SearchConfig(max_hypotheses=3)),
        (("--max-rules", "3", "--vote", "relaxed"), jboost.l0.RelaxedConfig(3)),
    ],
)
def test_the_vote_is_the_one_asked_for(run, monkeypatch, arguments, search):
    asked = {}

    def fit(dataset, learner, **options):
        asked.update(options)
        raise ValueError("seen")

    monkeypatch.setattr(jboost.l0, "fit_large", fit)
    code, out, err = run("fit", *DATA, *QUICK, *arguments, "--output", "unseen")
    assert (code, out) == (2, "")
    assert "seen" in err
    assert asked["search"] == search


SOLUTIONS = {
    "coefficients": jboost.l0.CoefficientsConfig(),
    "vertex": jboost.l0.VertexConfig(),
}


@pytest.mark.parametrize("before", [(), ("sparse",)], ids=["alone", "one of two"])
@pytest.mark.parametrize("solution", SOLUTIONS)
def test_the_vote_of_the_coefficients_is_that_of_fit_large(run, monkeypatch, before, solution):
    vote = (*before, solution)
    asked = {}

    def fit(*arguments, **options):
        asked.update(options)
        raise ValueError("seen")

    monkeypatch.setattr(jboost.l0, "fit_large" if len(vote) == 1 else "choose", fit)
    votes = tuple(word for one in vote for word in ("--vote", one))
    code, out, err = run("fit", *DATA, *QUICK, *votes, "--output", "unseen")
    assert (code, out) == (2, "")
    assert "seen" in err
    wanted = SOLUTIONS[solution]
    assert asked["search"] == (wanted if len(vote) == 1 else [jboost.l0.SearchConfig(), wanted])


@pytest.mark.parametrize("solution", SOLUTIONS)
def test_a_vote_of_the_coefficients_is_fitted_and_evaluated(folder, run, solution):
    output = f"by-{solution}"
    code, out, err = run("fit", *DATA, *QUICK, "--vote", solution, "--output", output)
    assert (code, err) == (0, "")
    fitted = json.loads((folder / output / "report.json").read_text(encoding="utf-8"))
    # the label is that of two columns but for one row in twenty
    assert fitted["model"]["rules"]
    assert fitted["losses"][1]["training"]["rate"] < 0.2
    code, out, err = run("evaluate", *DATA, *QUICK, "--vote", solution, "--folds", "2")
    assert (code, err) == (0, "")
    assert "error" in out or "loss" in out


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("fit", ("--max-rules", "3")),
        ("fit", ("--max-order", "cv")),
        ("fit", ("--exact", "5")),
        ("evaluate", ("--max-rules", "3")),
        ("evaluate", ("--max-order", "cv")),
    ],
)
@pytest.mark.parametrize("solution", SOLUTIONS)
def test_the_vote_of_the_coefficients_has_no_limit(run, command, option, solution):
    output = ("--output", "unseen") if command == "fit" else ()
    code, out, err = run(command, *DATA, *QUICK, "--vote", solution, *option, *output)
    assert (code, out) == (2, "")
    assert option[0] in err
    assert f"--vote {solution}" in err


@pytest.mark.slow
def test_rules_of_the_relaxation(folder, report, run):
    code, _, err = run("fit", *DATA, *QUICK, "--vote", "relaxed", "--output", "relaxed")
    assert (code, err) == (0, "")
    found = json.loads(
        (folder / "relaxed" / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    assert found["settings"]["vote"] == ["relaxed"]
    assert len(found["model"]["rules"]) >= len(report["model"]["rules"])


@pytest.mark.slow
def test_kappa_margin_and_vote_are_chosen_on_folds_of_the_training_rows(folder, run):
    choices = (
        "--kappa",
        "0.2",
        "--kappa",
        "9",
        "--margin",
        "0.4",
        "--vote",
        "sparse",
        "--vote",
        "relaxed",
    )
    code, out, err = run(
        "fit", *DATA, *QUICK, *choices, "--weights", "cost", "--folds", "2", "--output", "chosen"
    )
    assert (code, err) == (0, "")
    report = json.loads(
        (folder / "chosen" / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    losses, chosen = report["choice"]["losses"], report["choice"]["chosen"]
    assert [(row["kappa"], row["margin"], row["vote"]) for row in losses] == [
        (kappa, margin, vote)
        for kappa in (0.2, 9.0)
        for margin in (0.2, 0.4)
        for vote in ("sparse", "relaxed")
    ]
    least = [row for row in losses if row["mean"] == min(other["mean"] for other in losses)]
    best = max(least, key=lambda row: (row["kappa"], row["margin"], row["vote"] == "sparse"))
    assert chosen == {name: best[name] for name in chosen}
    assert report["model"]["margin"] == chosen["margin"]
    assert (
        f"kappa {best['kappa']:g}, margin {best['margin']:g}, vote {best['vote']}: held-out loss"
        f" {best['mean']:.2%}" in out
    )
    assert out.count(", chosen") == 1
    again = (f"--{name}={value}" for name, value in chosen.items())
    assert (
        run(
            "fit",
            *DATA,
            *(word for word in QUICK if word not in ("--margin", "0.2")),
            *again,
            "--weights",
            "cost",
            "--output",
            "again",
        )[0]
        == 0
    )
    same = json.loads((folder / "again" / "report.json").read_text(encoding="utf-8"))
    assert (same["choice"], same["model"]["margin"]) == (None, chosen["margin"])
    # optima tie, so the rules may differ, but not the bounds
    one, other = (model["model"]["certificate"] for model in (report, same))
    assert max(one["lower_bound"], other["lower_bound"]) <= min(
        one["upper_bound"], other["upper_bound"]
    )


@pytest.mark.slow
def test_the_vote_is_proven_to_be_the_best(folder, run):
    small = (
        "--max-order",
        "1",
        "--precision",
        "float32",
        "--cuts",
        "quantiles",
        "--quantiles",
        "2",
        "--margin",
        "0.4",
        "--tolerance",
        "1e-3",
    )
    code, out, err = run("fit", *DATA, *small, "--exact", "300", "--output", "exact")
    assert (code, err) == (0, "")
    report = json.loads(
        (folder / "exact" / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    assert report["search"]["status"] == "OPTIMAL"
    bounds = report["model"]["certificate"]
    assert bounds["integer_upper_bound"] - bounds["integer_lower_bound"] <= 1e-4 * max(
        bounds["integer_upper_bound"], 1
    )
    assert (
        f"{report['search']['hypotheses']} rules in play after reduced costs,"
        f" {report['search']['nodes']} nodes: OPTIMAL" in out
    )
    spent = report["model"]["cost_of_rules"] + report["model"]["margin_errors"]
    assert spent == pytest.approx(bounds["integer_upper_bound"])
    code, out, err = run(
        "fit",
        *DATA,
        *small[:-4],
        "--margin",
        "0.05",
        "--tolerance",
        "1e-3",
        "--kappa",
        "0.1",
        "--exact",
        "1e-9",
        "--output",
        "brief",
    )
    assert (code, err) == (0, "")
    report = json.loads(
        (folder / "brief" / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    assert report["search"]["status"] in ("OPTIMAL", "TIME_LIMIT")
    bounds = report["model"]["certificate"]
    assert bounds["integer_lower_bound"] <= bounds["integer_upper_bound"]


@pytest.mark.slow
def test_folds_share_one_compilation(folder, run, compilations):
    evaluate = (
        "evaluate",
        *DATA,
        *QUICK,
        "--weights",
        "cost",
        "--folds",
        "2",
        "--report",
        "folds.json",
    )
    code, out, err = run(*evaluate)
    assert (code, err) == (0, "")
    report = json.loads(
        (folder / "folds.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    larger, rules = report["losses"]
    assert (larger["rule"], rules["rule"]) == ("larger class", "l0")
    assert rules["held_out"]["mean"] < larger["held_out"]["mean"]
    assert rules["support"]["mean"] == np.mean(rules["support"]["sizes"])
    assert f"accuracy {1 - rules['held_out']['mean']:.2%}" in out
    before = compilations()
    # other folds may have other numbers of distinct rows
    assert run(*evaluate, "--kappa", "0.7")[0] == 0
    assert compilations() - before < 10


@pytest.mark.slow
def test_tables_of_similar_size_share_the_long_compilations(folder, run, compilations):
    make_frame().head(ROWS - 4).write_csv(folder / "fewer.csv")
    # here and not in a fixture: between two tests the compiled programs may be dropped
    assert run("fit", *DATA, *QUICK, "--weights", "cost", "--output", "more")[0] == 0
    before = compilations()
    data = ("--data", "fewer.csv", "--label", "ill", "--method", "l0")
    code, _, err = run(
        "fit", *data, *QUICK, "--quantiles", "3", "--weights", "cost", "--output", "fewer"
    )
    assert (code, err) == (0, "")
    # of the size of one operation, on arrays of the sizes of the table
    assert compilations() - before < 25


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--kappa", "0.5", "--kappa", "0.9", "--folds", "2")])
def test_padding_changes_nothing(folder, report, run, monkeypatch, more):
    def fit(output):
        assert run("fit", *DATA, *QUICK, "--weights", "cost", *more, "--output", output)[0] == 0
        return json.loads((folder / output / "report.json").read_text(encoding="utf-8"))

    padded = fit(f"padded{len(more)}")
    seen = []
    for name in ("linear", "superlinear", "literals"):
        monkeypatch.setattr(sizes, name, lambda size: seen.append(size) or size)
    plain = fit(f"plain{len(more)}")
    assert seen
    for name in ("constant", "margin_errors", "cost_of_rules"):
        assert plain["model"][name] == pytest.approx(padded["model"][name], rel=1e-5)
    assert [rule["text"] for rule in plain["model"]["rules"]] == [
        rule["text"] for rule in padded["model"]["rules"]
    ]
    assert plain["losses"] == padded["losses"]


# --- the words and the numbers alone --------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (
            40.0,
            42.0,
            (
                "margin 0.1 can cost less than 40 (errors plus costs of rules); this one costs 42,"
                " so it is within 5 % of the best"
            ),
        ),
        (40.0, 40.0, "this one costs 40, and so is the best"),
        (0.0, 42.0, "this vote costs 42 (errors plus costs of rules), and there is no lower bound"),
        (None, None, "there is no bound: the search stopped"),
    ],
)
def test_certificates_in_words(lower, upper, message):
    assert message in report_module.in_words(
        {"integer_lower_bound": lower, "integer_upper_bound": upper}, max_order=1, margin=0.1
    )


def test_rules_of_any_order_are_told():
    bounds = {"integer_lower_bound": 4.0, "integer_upper_bound": 5.0}
    assert (
        "no vote of monomials of any number of literals with margin 0.1"
        in report_module.in_words(bounds, max_order=None, margin=0.1)
    )
    assert "no vote of constants with margin 0.1" in report_module.in_words(
        bounds, max_order=0, margin=0.1
    )
    sizes = {"has_constant": False, "num_errors": 4, "num_examples": 16, "num_attributes": 3}
    assert report_module.code_length([2], **sizes, max_order=None) == report_module.code_length(
        [2], **sizes, max_order=3
    )
    bits = np.array([[0, 1, 1], [1, 0, 1]], np.float32)
    ensemble = jboost.ensemble.Ensemble(
        jboost.learners.monomials(None, kappa=0.5), None, np.zeros((1, 2)), 0.0, 0
    )
    wanted = jboost.monomials.costs.mdl(0.5)(np.arange(1, 4), 3, 2.0, 3)
    np.testing.assert_allclose(
        report_module.costs(ensemble, bits), [0, *np.asarray(wanted)], rtol=1e-6
    )


def test_code_length_of_no_rule():
    nothing = report_module.code_length(
        [], has_constant=True, num_errors=4, num_examples=16, num_attributes=3, max_order=1
    )
    assert nothing == {"support": 1, "model": 1 + 1 + 2 * 4, "errors": 16, "total": 26}


# --- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*DATA, "--learner", "stumps"),
            (
                "--learner is for the method relaxed-margin or lpboost or adaboost or infoboost,"
                " and the method is l0"
            ),
        ),
        (
            (*DATA, "--nu", "0.2"),
            "--nu is for the method relaxed-margin or lpboost, and the method is l0",
        ),
        (
            (*DATA[:4], "--method", "pair", "--kappa", "2"),
            "--kappa is for the method l0, and the method is pair",
        ),
        (
            (*DATA, "--exact", "5", "--max-rules", "3"),
            "--exact computes the best vote of any number of rules, but --max-rules limits the",
        ),
        (
            (*DATA, "--exact", "5", "--vote", "relaxed"),
            (
                "--exact computes the vote of least errors plus costs, but --vote relaxed requests"
                " another vote"
            ),
        ),
        ((*DATA, "--margin", "2"), "2.0 is not in the range 0<x<=1"),
        ((*DATA, "--margin", "large"), "'large'"),
        (
            (*DATA, "--cuts", "random"),
            "'random' is not one of 'class_changes', 'midpoints', 'quantiles'",
        ),
        ((*DATA, "--max-order", "0"), "'--max-order'"),
        ((*DATA, "--max-order", "500"), "max_order is 500, and the columns of data.csv give"),
        (
            ("--data", "flat.csv", "--label", "ill", "--method", "l0"),
            "flat.csv: no column takes two values on the training rows",
        ),
    ],
)
def test_user_errors_are_one_line(folder, run, arguments, message):
    polars.DataFrame({"a": [1, 1, 1, 1], "ill": [0, 1, 0, 1]}).write_csv(folder / "flat.csv")
    code, out, err = run("fit", *arguments, "--output", "none")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (folder / "none").exists()


def test_explaining_needs_rules(folder, run):
    polars.DataFrame(
        {"a": [-1.0, 1.0] * 6, "b": [-1.0, 1.0, 1.0] * 4, "ill": [0, 1] * 6}
    ).write_csv(folder / "pair.csv")
    assert (
        run(
            "fit",
            "--data",
            "pair.csv",
            "--label",
            "ill",
            "--method",
            "adaboost",
            "--rounds",
            "2",
            "--output",
            "boosted",
        )[0]
        == 0
    )
    code, _, err = run("predict", "boosted", "--data", "pair.csv", "--explain")
    assert code == 2
    assert "boosted: --explain requires a model of rules" in err


def test_settings_of_a_configuration(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(
        'data = "sklearn:wine"\nmethod = "l0"\nmargin = "auto"\nmin_separation = 2',
        encoding="utf-8",
    )
    settings = resolution.resolve(resolution.read_config(path), {})
    assert (settings.margin, settings.min_separation, settings.rounds, settings.learner) == (
        ("auto",),
        2,
        30,
        "monomials",
    )
    assert resolution.resolve({"data": "sklearn:wine", "method": "adaboost"}, {}).rounds == 100
    path.write_text('margin = "large"', encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=(
            "margin is 'large': expected a number or 'auto' or 'cv' or 'search' or a list of them"
        ),
    ):
        resolution.read_config(path)


@pytest.mark.slow
def test_a_model_holds_its_learner_and_its_binarizer(folder, said):
    held = files.load(folder / "out" / "model.npz")
    learner, binarizer = held["ensemble"].learner, held["binarizer"]
    assert (learner.max_order, type(learner.cost).__name__, learner.config.num_best) == (
        2,
        "MDL",
        1,
    )
    assert isinstance(binarizer.thresholds, np.ndarray)
    assert binarizer.thresholds.dtype == np.float64
    assert isinstance(learner.constant_cost, jax.Array)
    assert binarizer.categories[binarizer.names.index("colour")] == ("07", "green", "red")
    again = folder / "again.npz"
    files.save(held, again)
    assert Path(again).exists()
    assert files.load(again)["ensemble"].learner == learner


def test_small_tables_get_rules_by_the_automatic_margin(folder, run):
    """20 / rows is above 1/2 for fewer than 40 rows, where no vote of rules has both classes
    right.
    """
    lines = [f"{row},{'ill' if row > 10 else 'well'}" for row in range(24)]
    (folder / "small.csv").write_text("\n".join(["age,state", *lines]), encoding="utf-8")
    data = ("--data", "small.csv", "--label", "state", "--method", "l0")
    status, _, err = run("fit", *data, "--precision", "float32", "--rounds", "5", "--output", "few")
    assert (status, err) == (0, "")
    written = json.loads((folder / "few" / "report.json").read_text(encoding="utf-8"))
    assert written["model"]["margin"] == 0.4
    assert written["losses"][1]["training"]["rate"] == 0
