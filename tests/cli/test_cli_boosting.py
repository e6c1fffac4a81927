"""Boosting from the command line: what the methods write, say and refuse. Few rows, few rounds and
float32 keep it quick.
"""

import json
import signal
import sys
from pathlib import Path

import jax
import numpy as np
import polars
import pytest

import jboost
from jboost import cli, files
from jboost.cli import devices, inputs, limits, option, resolution
from jboost.cli.boosting import evaluate as boost_evaluate
from jboost.cli.boosting import fit as boost_fit
from jboost.cli.boosting import nu_choice
from jboost.data import binarization
from jboost.data.table import Table
from jboost.report import boosting
from marks import slow_but

ROWS = 40
WRITTEN = ["gap.png", "margins.png", "model.npz", "report.json"]


@pytest.fixture(scope="module")
def frame():
    """Three noisy columns in [-1, 1], one Boolean column, text with gaps, weights, and labels in
    words.
    """
    generator = np.random.default_rng(0)
    signs = np.where(np.arange(ROWS) % 2, 1, -1)
    columns = {name: np.tanh(generator.normal(size=ROWS) + 0.7 * signs) for name in ("a", "b", "c")}
    flag = (generator.uniform(size=ROWS) < 0.5 + 0.3 * signs).astype(int)
    words = np.where(signs > 0, "yes", "no")
    colours = ["red", "blue", None, "blue", "red"] * (ROWS // 5)
    return polars.DataFrame(
        columns
        | {
            "flag": flag,
            "colour": colours,
            "cost": [1, 2, 3, 4] * (ROWS // 4),
            "ill": words,
        }
    )


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, frame):
    """Runs jboost in-process beside data.csv; returns (status, output, errors)."""
    monkeypatch.chdir(tmp_path)
    frame.write_csv("data.csv")

    def run(*arguments):
        with pytest.raises(SystemExit) as exit:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return exit.value.code, captured.out, captured.err

    return run


DATA = ("--data", "data.csv", "--label", "ill", "--weights", "cost")
QUICK = ("--precision", "float32", "--rounds", "4")


def read_report(path="out/report.json"):
    return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=pytest.fail)


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def features_of(binarizer, frame, plain=("a", "b", "c", "flag")):
    """What the model was fitted on, by the library: numbers as they are, then the bits of numbers
    and of text.
    """
    rows = frame.select("a", "b", "c", "flag", "colour").to_numpy().astype(object)
    numbers = (
        frame.select(plain).to_numpy().astype(np.float32)
        if plain
        else np.zeros((frame.height, 0), np.float32)
    )
    return np.concatenate([numbers, np.asarray(binarization.apply(binarizer, rows))], axis=1)


# --- what it does ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_in_the_choice_of_nu_does_not_end_the_fit(run, monkeypatch):
    def interrupted(source, settings, *, on_step):
        signal.raise_signal(signal.SIGINT)
        assert not on_step([], "")
        return nu_choice.ChosenNu(0.3)

    monkeypatch.setattr(nu_choice, "choose", interrupted)
    fit = ("fit", *DATA, "--method", "lpboost", *QUICK, "--time-limit", "1000")
    code, _, err = run(*fit, "--output", "out")
    assert code == 0
    assert "ends with the best so far" in err
    assert read_report()["boosting"]["num_rounds"] > 1


def test_ctrl_c_at_a_terminal_ends_the_rounds_with_the_vote_so_far(run, monkeypatch):
    fit = jboost.adaboost.fit

    def interrupted(*arguments, on_step, **options):
        def after(state, info):
            signal.raise_signal(signal.SIGINT)
            return on_step(state, info)

        return fit(*arguments, on_step=after, **options)

    monkeypatch.setattr(jboost.adaboost, "fit", interrupted)
    monkeypatch.setattr(limits, "is_attended", lambda: True)
    code, _, err = run("fit", *DATA, "--method", "adaboost", *QUICK, "--output", "out")
    assert code == 0
    assert "ends with the best so far" in err
    assert read_report()["boosting"]["num_rounds"] == 1


@pytest.mark.parametrize("method", slow_but(option.BOOSTERS, "adaboost"))
def test_from_fit_to_prediction(run, frame, method):
    nu = ("--nu", "0.7") if method in option.SOFT_MARGINS else ()
    code, out, err = run("fit", *DATA, "--method", method, *QUICK, *nu, "--output", "out")
    assert (code, err) == (0, "")
    assert names_in("out") == WRITTEN
    report = read_report()
    certificate = report["boosting"]["certificate"]
    assert certificate["lower_bound"] <= certificate["upper_bound"]
    assert certificate["explanation"] in out
    assert report["boosting"]["num_rounds"] <= 4
    assert not any("left out" in note for note in report["data"]["notes"])
    assert report["data"]["total_weight"] == frame["cost"].sum()
    assert len(report["rules"]) == report["boosting"]["num_hypotheses"]
    assert report["rules"][0] in out
    if method not in option.SOFT_MARGINS:
        assert report["nu"] is None
        assert report["losses"][0]["training"]["rate"] == pytest.approx(
            certificate["lower_bound"], abs=1e-5
        )

    frame.drop("ill").write_csv("new.csv")
    assert run("predict", "out", "--data", "new.csv", "--output", "p.csv") == (
        0,
        f"p.csv: {ROWS} predictions\n",
        "",
    )
    predictions = polars.read_csv("p.csv")
    held = files.load("out/model.npz")
    assert held["binarizer"].bit_names == ("colour == blue", "colour == red", "colour is missing")
    scores = jboost.predict_scores(held["ensemble"], features_of(held["binarizer"], frame))
    np.testing.assert_allclose(predictions["score"].to_numpy(), scores, rtol=1e-6)
    wrong = predictions["prediction"].to_numpy() != frame["ill"].to_numpy()
    assert frame["cost"].to_numpy()[wrong].sum() == report["losses"][0]["training"]["weight"]

    code, out, err = run("inspect", "out")
    assert (code, err) == (0, "")
    assert all(rule in out for rule in report["rules"])
    assert "ill: no -> -1, yes -> +1" in out
    assert certificate["explanation"] in out


@pytest.mark.slow
def test_lpboost_by_the_simplex_method(run):
    code, out, err = run(
        "fit",
        *DATA,
        "--method",
        "lpboost",
        "--solver",
        "simplex",
        *QUICK,
        "--nu",
        "0.7",
        "--output",
        "out",
    )
    assert (code, err) == (0, "")
    report = read_report()
    assert report["settings"]["solver"] == "simplex"
    assert (
        report["boosting"]["certificate"]["lower_bound"]
        <= report["boosting"]["certificate"]["upper_bound"]
    )
    assert report["boosting"]["certificate"]["explanation"] in out


@pytest.mark.slow
@pytest.mark.parametrize("method", option.SOFT_MARGINS)
def test_several_nus_are_chosen_among_with_one_compilation(run, compilations, method):
    fit = ("fit", *DATA, "--method", method, *QUICK, "--folds", "2", "--output", "out")
    code, out, err = run(*fit, "--nu", "0.2", "--nu", "0.5", "--nu", "0.2")
    assert (code, err) == (0, "")
    choice = read_report()["nu"]
    assert [row["nu"] for row in choice["losses"]] == [0.5, 0.2]
    assert (choice["rows"], choice["candidates"]) == (ROWS, 2)
    tried = [row for row in choice["losses"] if row["mean"] is not None]
    assert all(
        len(row["rates"]) == 2 and row["mean"] == pytest.approx(np.mean(row["rates"]))
        for row in tried
    )
    least = min(row["mean"] for row in tried if row["says_something"])
    assert choice["chosen"] == max(row["nu"] for row in tried if row["mean"] == least)
    assert f"{choice['chosen']:g}: held-out loss {least:.2%}" in out
    assert out.count(", chosen") == 1
    before = compilations()
    assert run(*fit, "--overwrite", "--nu", "0.3", "--nu", "0.6", "--nu", "0.9")[0] == 0
    assert compilations() - before < 5


def settings_of(**values):
    return resolution.resolve(
        {"data": "data.csv", "label": "ill", "weights": "cost", "rounds": 4, "precision": "float32"}
        | values,
        {},
    )


@pytest.mark.slow
def test_the_choice_of_nu_sees_training_rows_alone(run, monkeypatch):
    seen = []

    def choose(source, settings):
        seen.append(np.stack([source.table.numeric[name] for name in "abc"], axis=1))
        return nu_choice.ChosenNu(0.5)

    monkeypatch.setattr(nu_choice, "choose", choose)
    settings = settings_of(method="lpboost", folds=2)
    with devices.restored():
        source = inputs.read_source(settings)
    masks = inputs.hold_out_masks(source.table.labels, settings, stream=1)
    check = boost_evaluate.evaluate_folds(source, settings, masks)
    everything = np.stack([source.table.numeric[name] for name in "abc"], axis=1)
    for number, held_out in enumerate(masks):
        check(number)
        np.testing.assert_array_equal(seen[number], everything[~held_out])


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """A table on which votes for small nus say nothing: a noisy column, and one of noise; its
    source, and options for it.
    """
    generator = np.random.default_rng(4)
    signs = np.where(np.arange(ROWS) % 2, 1, -1)
    good = np.where(generator.uniform(size=ROWS) < 0.8, signs, -signs)
    path = tmp_path_factory.mktemp("hard") / "data.csv"
    polars.DataFrame(
        {"good": good, "noise": good[::-1], "cost": [1] * ROWS, "ill": signs}
    ).write_csv(path)
    settings = settings_of(data=str(path), method="lpboost", folds=2, nu=("cv",))
    with devices.restored():
        return inputs.read_source(settings), settings


def test_the_choice_goes_down_the_grid_until_a_value_says_nothing(hard):
    source, settings = hard
    shown = []
    choice = nu_choice.choose(source, settings, on_step=lambda found, info: shown.append(info))
    assert shown == [f"nu {nu:g}" for nu in sorted(nu_choice.GRID, reverse=True)]
    assert [f"nu {row['nu']:g}" for row in choice.losses] == shown
    assert choice.num_candidates == len(nu_choice.GRID)
    tried = [row for row in choice.losses if row["mean"] is not None]
    assert 0 < len(tried) < len(choice.losses)
    assert all(
        row["says_something"] == (min(row["soft_margins"]) > settings.tolerance) for row in tried
    )
    chosen = next(row for row in tried if row["nu"] == choice.nu)
    assert chosen["says_something"]
    assert chosen["mean"] == min(row["mean"] for row in tried if row["says_something"])


@pytest.mark.slow
def test_one_call_chooses_as_a_call_for_each_value_does(hard):
    source, settings = hard
    together, one_by_one = (
        nu_choice.choose(source, settings),
        nu_choice.choose(source, settings, on_step=lambda found, info: None),
    )
    assert together.nu == one_by_one.nu
    for row, other in zip(together.losses, one_by_one.losses, strict=True):
        assert row["nu"] == other["nu"]
        assert row["mean"] == (
            None if other["mean"] is None else pytest.approx(other["mean"], abs=1e-6)
        )


def test_a_choice_that_is_ended_early_is_among_what_was_tried(hard):
    source, settings = hard

    choice = nu_choice.choose(source, settings, on_step=lambda found, info: info != "nu 0.7")
    assert [row["nu"] for row in choice.losses] == [0.8, 0.7]
    assert choice.nu in (0.8, 0.7)
    said = boosting.choice_lines(nu_choice.describe(choice))
    assert said[-1] == f"note: the choice of nu was ended after 2 of {len(nu_choice.GRID)} values"


def test_ctrl_c_ends_the_choice_with_what_was_tried(hard, monkeypatch):
    source, settings = hard
    walk, calls = nu_choice._walk, []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return walk(*arguments)

    monkeypatch.setattr(nu_choice, "_walk", stopped)
    choice = nu_choice.choose(source, settings, on_step=lambda found, info: None)
    assert ([row["nu"] for row in choice.losses], choice.num_candidates) == (
        [0.8],
        len(nu_choice.GRID),
    )
    calls.append(None)
    monkeypatch.setattr(
        nu_choice,
        "_walk",
        lambda *arguments: stopped(calls.clear() or calls.append(None), *arguments),
    )
    with pytest.raises(KeyboardInterrupt):
        nu_choice.choose(source, settings, on_step=lambda found, info: None)


@pytest.mark.parametrize(
    ("bounds", "loss", "reasons"),
    [
        (
            {"lower_bound": 0.0, "upper_bound": 0.004, "seen_upper_bound": 0.002},
            0.1,
            ["soft margin is 0", "the largest possible is at most 0.004"],
        ),
        (
            {"lower_bound": -1e-9, "upper_bound": None, "seen_upper_bound": 0.03},
            0.1,
            ["soft margin is 0", "the largest possible is at most 0.03"],
        ),
        (
            {"lower_bound": 0.2, "upper_bound": 0.21, "seen_upper_bound": 0.21},
            0.4,
            ["misclassifies 40.00% of the training weight", "alone 40.00%"],
        ),
        ({"lower_bound": 0.2, "upper_bound": 0.21, "seen_upper_bound": 0.21}, 0.3, []),
    ],
)
def test_a_vote_that_says_nothing_is_not_called_optimal_alone(bounds, loss, reasons):
    examples = inputs.HostExamples(np.zeros((5, 1)), np.array([1, 1, -1, -1, -1.0]), np.ones(5))
    settings = settings_of(method="lpboost")
    found = boost_fit._assess(
        bounds, [{"training": {"rate": loss}}], examples, nu_choice.ChosenNu(0.1), settings
    )
    assert found["says_something"] == (not reasons)
    assert all(reason in "; ".join(found["reasons"]) for reason in reasons)
    assert found["constant_loss_rate"] == 0.4
    fit = {
        "num_hypotheses": 2,
        "learner": "stumps",
        "num_rounds": 5,
        "method": "lpboost",
        "verdict": found,
    }
    fit["certificate"] = bounds | {"meaning": "", "explanation": "OPTIMAL: proven"}
    said = boosting.lines(fit, [])
    status = next(line for line in said if line.startswith("status"))
    if reasons:
        verdict = next(line for line in said if line.startswith("verdict     not informative: "))
        assert verdict.endswith(
            "Remedy: a greater --nu than 0.1, --nu cv, or a smaller --tolerance"
        )
        assert status == "status      of the computation alone: OPTIMAL: proven"
    else:
        assert status == "status      OPTIMAL: proven"
        assert found["remedy"] is None
    tried = ({"says_something": False},)
    exhausted = boost_fit._assess(
        bounds, [{"training": {"rate": loss}}], examples, nu_choice.ChosenNu(0.8, tried), settings
    )
    assert exhausted["remedy"] == (
        "another --learner or other columns: no tried nu has a soft margin above the tolerance"
        if reasons
        else None
    )


@pytest.mark.slow
def test_too_small_a_nu_is_reported_as_not_informative(run, hard):
    _, settings = hard
    data = ("--data", settings.data, "--label", "ill", "--ignore", "cost", "--method", "lpboost")
    code, out, err = run("fit", *data, *QUICK, "--nu", "0.05", "--output", "nothing")
    assert (code, err) == (0, "")
    verdict = read_report("nothing/report.json")["boosting"]["verdict"]
    assert not verdict["says_something"]
    for said in (out, run("inspect", "nothing")[1]):
        assert f"verdict     not informative: {verdict['reasons'][0]}" in said
        assert f"Remedy: {verdict['remedy']}" in said


def test_the_choice_draws_each_class_by_its_share():
    labels = np.where(np.arange(3 * nu_choice.MOST_ROWS) % 3 == 0, 1.0, -1.0)
    table = Table("memory", len(labels), {"x": labels}, {}, {}, labels=labels)
    drawn = nu_choice._drawn(inputs.Source(table, None, "cpu"), seed=0)
    assert abs(len(drawn) - nu_choice.MOST_ROWS) <= 1
    assert abs((labels[drawn] > 0).mean() - 1 / 3) < 1e-3
    assert (np.diff(drawn) > 0).all()
    few = inputs.Source(table.rows(np.arange(50)), None, "cpu")
    np.testing.assert_array_equal(nu_choice._drawn(few, seed=0), np.arange(50))


def test_cv_stands_for_a_grid_beside_what_is_named():
    assert nu_choice.values(settings_of(method="lpboost")) == tuple(
        sorted(nu_choice.GRID, reverse=True)
    )
    assert nu_choice.values(settings_of(method="lpboost", nu=("cv", 0.55))) == tuple(
        sorted({*nu_choice.GRID, 0.55}, reverse=True)
    )
    assert nu_choice.values(settings_of(method="lpboost", nu=(0.3,))) == (0.3,)
    assert settings_of(method="lpboost", learner="mlp").nu == (0.1,)
    assert settings_of(method="lpboost", learner="mlp", nu=("cv",)).nu == ("cv",)
    assert settings_of(method="l0", margin=("cv",)).margin == ("auto", 0.05, 0.1, 0.2, 0.4)
    assert settings_of(method="l0", margin=("auto",)).margin == ("auto",)


@pytest.mark.parametrize("method", slow_but(option.BOOSTERS, "adaboost"))
def test_evaluate(run, method):
    several = ("--nu", "0.2", "--nu", "0.5") if method in option.SOFT_MARGINS else ()
    code, out, err = run(
        "evaluate",
        *DATA,
        "--method",
        method,
        *QUICK,
        *several,
        "--folds",
        "2",
        "--report",
        "folds.json",
    )
    assert (code, err) == (0, "")
    rows = read_report("folds.json")["losses"]
    assert [row["rule"] for row in rows] == ["scikit-learn AdaBoost", method]
    assert all(
        0 <= rate <= 1
        for row in rows
        for part in ("training", "held_out")
        for rate in row[part]["rates"]
    )
    assert "±" in out


def test_folds_agree_on_the_peer(run, frame):
    frame.with_columns(polars.Series("a", [None, *frame["a"][1:]])).write_csv("data.csv")
    assert run(
        "evaluate", *DATA, "--method", "adaboost", *QUICK, "--folds", "2", "--report", "folds.json"
    )[::2] == (0, "")
    assert [row["rule"] for row in read_report("folds.json")["losses"]] == ["adaboost"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "drop"), [("pool", []), ("literals", ["a", "b", "c"]), ("mlp", []), ("trees", [])]
)
@pytest.mark.parametrize("method", ["adaboost", "infoboost"])
def test_other_learners(run, frame, learner, drop, method):
    frame.drop(drop).write_csv("data.csv")
    code, _, err = run(
        "fit", *DATA, "--method", method, "--learner", learner, *QUICK, "--output", "out"
    )
    assert (code, err) == (0, "")
    assert names_in("out") == WRITTEN
    assert (read_report()["rules"] is None) == (learner == "mlp")
    code, out, err = run("predict", "out", "--data", "data.csv")
    assert (code, err) == (0, "")
    wrong = polars.read_csv(out.encode())["prediction"].to_numpy() != frame["ill"].to_numpy()
    assert frame["cost"].to_numpy()[wrong].sum() == read_report()["losses"][0]["training"]["weight"]
    assert run("inspect", "out")[0] == 0


@pytest.mark.slow
def test_a_learner_without_bounds_has_those_of_what_was_seen(run):
    code, out, err = run(
        "fit", *DATA, "--method", "relaxed-margin", "--learner", "mlp", *QUICK, "--output", "out"
    )
    assert (code, err) == (0, "")
    certificate = read_report()["boosting"]["certificate"]
    assert certificate["upper_bound"] is None
    assert certificate["lower_bound"] <= certificate["seen_upper_bound"]
    assert "over the hypotheses seen" in out
    with pytest.raises(ValueError, match="the learner, a Trained, holds what a file cannot"):
        files.load("out/model.npz")


@pytest.mark.slow
def test_64_bits_and_missing_values(run, frame):
    gaps = [None if row % 9 == 4 else value for row, value in enumerate(frame["a"])]
    frame.with_columns(polars.Series("a", gaps)).write_csv("data.csv")
    code, _, err = run(
        "fit", *DATA, "--method", "adaboost", "--rounds", "4", "--holdout", "0.1", "--output", "out"
    )
    assert (code, err) == (0, "")
    losses = read_report()["losses"][0]
    code, out, _ = run("predict", "out", "--data", "data.csv")
    with jax.enable_x64(True):
        assert files.load("out/model.npz")["ensemble"].votes.dtype == np.float64
    wrong = polars.read_csv(out.encode())["prediction"].to_numpy() != frame["ill"].to_numpy()
    assert (
        frame["cost"].to_numpy()[wrong].sum()
        == losses["training"]["weight"] + losses["held_out"]["weight"]
    )
    assert run("evaluate", *DATA, "--method", "adaboost", "--rounds", "4", "--folds", "2")[0] == 0


@pytest.mark.slow
def test_an_ensemble_without_votes_says_so(run, frame):
    frame.select("ill", "cost", polars.lit(0.0).alias("a")).write_csv("data.csv")
    code, out, err = run(
        "fit", *DATA, "--method", "adaboost", "--learner", "pool", *QUICK, "--output", "out"
    )
    assert (code, err) == (0, "")
    assert "NO_EDGE" in out
    assert read_report()["rules"] == []
    assert "rules       none" in out
    code, out, err = run("predict", "out", "--data", "data.csv")
    assert set(polars.read_csv(out.encode())["prediction"]) == {"no"}


@pytest.mark.slow
def test_a_configuration_keeps_what_other_methods_take(run, tmp_path):
    config = 'data = "data.csv"\nlabel = "ill"\nweights = "cost"\nclassifiers = ["lda", "tree"]\n'
    config += 'learner = "stumps"\nrounds = 4\nnu = 0.3\nprecision = "float32"'
    (tmp_path / "job.toml").write_text(config, encoding="utf-8")
    code, _, err = run(
        "fit", "--config", "job.toml", "--method", "relaxed-margin", "--output", "out"
    )
    assert (code, err) == (0, "")
    settings = read_report()["settings"]
    assert (settings["nu"], settings["rounds"], settings["classifiers"]) == ([0.3], 4, None)
    values = resolution.read_config("job.toml")
    assert resolution.resolve(values, {}).classifiers == ["lda", "tree"]
    assert resolution.resolve(values | {"method": "adaboost"}, {}).nu == ("cv",)


# --- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--method", "pair", "--nu", "0.2"),
            "lpboost, and the method is pair: change --method or leave it out",
        ),
        (
            ("--method", "adaboost", "--tolerance", "0.2"),
            (
                "--tolerance is for the method l0 or relaxed-margin or lpboost, and the method is"
                " adaboost"
            ),
        ),
        (
            ("--method", "adaboost", "--scores", "a", "b"),
            "--scores is for the method pair or combine, and the method is adaboost",
        ),
        (
            ("--learner", "pool"),
            (
                "--learner is for the method relaxed-margin or lpboost or adaboost or infoboost,"
                " and the method is pair"
            ),
        ),
        (("--method", "relaxed-margin", "--nu", "0"), "0.0 is not in the range 0<x<=1"),
        (("--method", "relaxed-margin", "--tolerance", "0"), "'--tolerance'"),
        (("--method", "adaboost", "--rounds", "0"), "'--rounds'"),
        (
            ("--method", "adaboost", "--learner", "forests"),
            "'forests' is not one of 'stumps', 'pool', 'literals', 'mlp', 'trees'",
        ),
        (
            ("--method", "adaboost", "--max-depth", "3"),
            "--max-depth is for --learner trees, and the",
        ),
        (
            ("--method", "adaboost", "--learner", "trees", "--max-depth", "1"),
            "1 is not in the range 2<=x<=10",
        ),
        (
            ("--method", "adaboost", "--learner", "pool", "--cuts", "midpoints"),
            "--cuts converts numbers to bits, but the learner pool uses the columns",
        ),
        (
            ("--method", "lpboost", "--nu", "few"),
            "'few' is not a valid number: expected a number or cv",
        ),
        (("--method", "lpboost", "--tolerance", "few"), "'few' is not a valid number"),
        (("--method", "lpboost", "--nu", "nan"), "nan is not a finite number"),
        (
            ("--method", "lpboost", "--folds", "30"),
            "or give a single number to --nu",
        ),
        (
            ("--method", "relaxed-margin", "--nu", "0.1", "--nu", "0.2", "--folds", "30"),
            "folds is 30, but the smaller class has 20 rows",
        ),
    ],
)
def test_user_errors_are_one_line(run, arguments, message):
    code, out, err = run("fit", *DATA, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("jboost: error: ")
    assert message in err
    assert names_in(".") == ["data.csv"]


@pytest.mark.parametrize(
    ("learner", "values", "message"),
    [
        (
            "pool",
            [2.5] * ROWS,
            (
                "column 'a' holds 2.5 in row 1: the learner pool requires outputs in [-1, 1]: scale"
                " the column, or use --learner stumps"
            ),
        ),
        ("pool", [None, *[0.0] * (ROWS - 1)], "column 'a' has no value in row 1"),
    ],
)
def test_values_that_a_learner_cannot_take(run, frame, learner, values, message):
    frame.select("ill", "cost", polars.Series("a", values)).write_csv("data.csv")
    code, _, err = run("fit", *DATA, "--method", "adaboost", "--learner", learner)
    assert code == 2
    assert message in err


def test_text_alone_is_no_pool(run, frame):
    frame.select("ill", "cost", "colour").write_csv("data.csv")
    code, _, err = run("fit", *DATA, "--method", "adaboost", "--learner", "pool")
    assert code == 2
    assert "no numeric columns, which the learner pool requires: use --learner stumps" in err


def test_columns_that_do_not_vary_are_refused(run, frame):
    frame.select("ill", "cost", polars.lit("red").alias("colour")).write_csv("data.csv")
    code, _, err = run("fit", *DATA, "--method", "adaboost")
    assert code == 2
    assert "no column takes two values on the training rows: provide columns that vary" in err


def test_rows_unlike_those_of_training_are_predicted(run, frame):
    """Text that training never saw is no category; a number that is missing for the first time says
    nothing; what no rule asks may be anything.
    """
    frame.select("ill", "cost", "a", "colour", polars.lit(7.0).alias("same")).write_csv("data.csv")
    assert run("fit", *DATA, "--method", "adaboost", *QUICK, "--output", "out")[0] == 0
    rules = read_report()["rules"]
    assert any("colour" in rule for rule in rules)
    assert any("a > " in rule for rule in rules)
    polars.DataFrame({"colour": ["violet", None, "red"], "a": [0.5, 0.5, None]}).write_csv(
        "new.csv"
    )
    code, out, err = run("predict", "out", "--data", "new.csv")
    assert (code, "column 'colour': 1 value that training never saw: violet (1)" in err) == (
        0,
        True,
    )
    expected = []
    for colour, number in (("violet", 0.5), (None, 0.5), ("red", None)):
        score = 0.0
        for rule in rules:
            vote, said = rule.removesuffix("]").split(" * [")
            condition = said.split(" if ")[1].split(" else ")[0]
            name = condition.split()[0]
            if name == "a" and number is None:
                continue
            holds = (
                number > float(condition.split(" > ")[1])
                if name == "a"
                else _holds(condition, colour)
            )
            score += float(vote) * float(
                said.split(" if ")[0] if holds else said.split(" else ")[1]
            )
        expected.append(score)
    np.testing.assert_allclose(
        polars.read_csv(out.encode())["score"].to_numpy(), expected, atol=2e-3
    )


def _holds(condition, colour):
    """Whether a condition on the colour holds, read by Python."""
    return (
        colour is None
        if condition == "colour is missing"
        else colour == condition.removeprefix("colour == ")
    )


def test_predict_names_a_missing_column(run, frame):
    assert run("fit", *DATA, "--method", "adaboost", *QUICK, "--output", "out")[0] == 0
    frame.drop("b").write_csv("new.csv")
    code, _, err = run("predict", "out", "--data", "new.csv")
    assert code == 2
    assert "new.csv: there is no column 'b'" in err


def test_a_nu_in_a_configuration_is_a_number(run, tmp_path):
    (tmp_path / "job.toml").write_text('nu = ["0.1"]', encoding="utf-8")
    code, _, err = run("fit", "--config", "job.toml")
    assert code == 2
    assert "nu is ['0.1']: expected a number or 'cv' or a list of them" in err


def test_an_end_in_the_middle_leaves_nothing(run, monkeypatch):
    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("os._exit", sys.exit)
    monkeypatch.setattr("jboost.plots.plot_bounds", fail)
    assert run("fit", *DATA, "--method", "adaboost", *QUICK, "--output", "out")[0] == 130
    assert names_in(".") == ["data.csv"]


# --- relaxations of the margin --------------------------------------------------------------------

RELAXED = ("--method", "relaxed-margin", *QUICK)


@pytest.mark.parametrize(
    "case",
    slow_but(
        [
            (("hard",), "hard margin"),
            (("norm-ball", "--radius", "0.4"), "margin over a norm ball"),
            (("norm-ball", "--radius", "0.4", "--order", "3.5"), "margin over a norm ball"),
            (("norm-penalty", "--scale", "0.5", "--order", "inf"), "margin plus a norm penalty"),
            (
                ("hard", "--vote-strength", "0.5", "--update", "line_search"),
                "hard margin minus the cost of the votes",
            ),
            (("entropy", "--scale", "0.1", "--nu", "0.5"), "margin with binary entropies"),
        ],
        (("norm-ball", "--radius", "0.4"), "margin over a norm ball"),
    ),
)
def test_fit_reports_the_relaxation(run, case):
    arguments, quantity = case
    code, out, err = run("fit", *DATA, *RELAXED, "--relaxation", *arguments, "--output", "out")
    assert (code, err) == (0, "")
    report = read_report()
    assert report["boosting"]["relaxation"] == arguments[0]
    bounds = report["boosting"]["certificate"]
    assert bounds["quantity"] == quantity
    assert quantity in out
    assert bounds["lower_bound"] <= bounds["upper_bound"]
    assert report["nu"] is None


@pytest.mark.slow
def test_update_chooses_how_votes_move(run):
    hard = ("--relaxation", "hard", "--output", "out")
    assert run("fit", *DATA, *RELAXED, *hard, "--update", "line_search")[0] == 0
    assert read_report()["boosting"]["certificate"]["quantity"] == "hard margin"


@pytest.mark.slow
def test_evaluate_takes_a_relaxation(run):
    code, out, err = run("evaluate", *DATA, *RELAXED, "--relaxation", "hard", "--folds", "2")
    assert (code, err) == (0, "")
    assert "relaxed-margin" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--relaxation", "norm-ball"), "give --radius R"),
        (("--relaxation", "norm-penalty"), "give --scale SCALE"),
        (("--relaxation", "entropy", "--scale", "1"), "give one --nu NU"),
        (("--relaxation", "hard", "--nu", "0.5"), "--nu is for --relaxation soft or entropy"),
        (
            ("--relaxation", "norm-ball", "--radius", "0.001"),
            "radius",
        ),
        (("--relaxation", "norm-ball", "--radius", "1", "--order", "0.5"), "'--order'"),
        (("--vote-strength", "0"), "'--vote-strength'"),
        (("--vote-strength", "1", "--update", "pairwise"), "take another --update"),
        (("--order", "1"), "--order is for --relaxation norm-ball or norm-penalty"),
        (("--radius", "1"), "--radius is for --relaxation norm-ball"),
    ],
)
def test_relaxation_refuses_bad_combinations(run, arguments, message):
    code, _, err = run("fit", *DATA, *RELAXED, *arguments, "--output", "out")
    assert code != 0
    assert message in err
    assert not Path("out").exists()
