"""The method slipper of the command line, from fit to evaluation: numbers, text and gaps. One fit
serves nearly all tests.
"""

import contextlib
import json
import signal

import jax
import numpy as np
import polars
import pytest

import jboost
from command_line import run_in
from jboost import files, slipper
from jboost.base import memory
from jboost.cli import limits, resolution, sizes
from jboost.data import binarization, readers

ROWS, ROUNDS, FOLDS, SEED = 60, 6, 2, 3
DATA = ("--data", "data.csv", "--label", "ill", "--weights", "cost", "--method", "slipper")
QUICK = (
    "--precision",
    "float32",
    "--cuts",
    "quantiles",
    "--quantiles",
    "4",
    "--rounds",
    ROUNDS,
    "--folds",
    FOLDS,
    "--seed",
    SEED,
)


def make_frame():
    """Numbers with gaps, text with gaps, weights, and labels in words: ill where hot and not pale,
    a few flipped.
    """
    generator = np.random.default_rng(1)
    heat = generator.uniform(35, 41, size=ROWS).round(1)
    face = np.array(["red", "pale", "01"])[generator.integers(0, 3, size=ROWS)]
    ill = (heat > 38) & (face != "pale")
    ill[::15] = ~ill[::15]
    return polars.DataFrame(
        {
            "heat": [None if row % 17 == 3 else float(value) for row, value in enumerate(heat)],
            "face": [None if row % 19 == 5 else str(value) for row, value in enumerate(face)],
            "cost": [1, 2] * (ROWS // 2),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data, what the one fit printed, and its results in the folder `out`."""
    path = tmp_path_factory.mktemp("slipper")
    make_frame().write_csv(path / "data.csv")
    status, said, err = run_in(path, "fit", *DATA, *QUICK, "--output", "out")
    assert (status, err) == (0, "")
    (path / "said.txt").write_text(said, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(folder):
    return read_report(folder / "out")["model"]


def read_report(path):
    return json.loads(
        (path / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )


def predictions_of(folder, *arguments):
    status, out, err = run_in(folder, "predict", *arguments, "--data", "data.csv", "--explain")
    assert (status, err) == (0, "")
    return polars.read_csv(out.encode())


def test_scores_are_the_votes_of_the_rules_that_hold(folder, model):
    found = predictions_of(folder, "out")
    votes = {
        f"{abs(rule['vote']):.4f} {rule['label']} {rule['text']}": rule["vote"]
        for rule in model["rules"]
    }
    assert {rule["label"] for rule in model["rules"]} == {
        "yes" if vote > 0 else "no" for vote in votes.values()
    }
    for score, prediction, text in zip(
        found["score"], found["prediction"], found["rules"], strict=True
    ):
        held = [part.replace(" if ", " ", 1) for part in (text or "").split("; ") if part]
        assert score == pytest.approx(sum(votes[part] for part in held), abs=1e-5)
        assert prediction == ("yes" if score > 0 else "no")
    frame = make_frame()
    wrong = found["prediction"].to_numpy() != frame["ill"].to_numpy()
    losses = read_report(folder / "out")["losses"]
    assert [row["rule"] for row in losses] == ["larger class", "slipper"]
    assert (
        frame["cost"].to_numpy()[wrong].sum()
        == losses[1]["training"]["weight"]
        < losses[0]["training"]["weight"]
    )


def test_rules_are_about_the_columns_of_the_table(folder, model):
    rules = [rule for rule in model["rules"] if rule["text"] != "always"]
    assert rules
    frame, said = make_frame(), (folder / "said.txt").read_text(encoding="utf-8")
    for rule in rules:
        assert any(name in rule["text"] for name in ("heat", "face"))
        assert f"{abs(rule['vote']):.4f} {rule['label']} if {rule['text']}" in said
        assert rule["covers_positive"] + rule["covers_negative"] <= frame.height
    assert model["certificate"]["lower_bound"] <= model["certificate"]["upper_bound"]


def test_the_fit_is_that_of_the_library(folder, model):
    """The same key, bits and sizes by `slipper.fit`: the same rounds and the same votes."""
    table = readers.read_table(folder / "data.csv", label="ill")
    weights, table = table.numbers("cost"), table.without(["cost"])
    held = files.load(folder / "out" / "model.npz")
    bits = np.asarray(binarization.apply(held["binarizer"], table.matrix(("heat",), ("face",))))
    rows, width = sizes.linear(ROWS), sizes.literals(bits.shape[1])
    dataset = jboost.make_dataset(
        np.pad(bits, ((0, rows - ROWS), (0, width - bits.shape[1]))),
        np.pad(table.labels, (0, rows - ROWS), constant_values=1).astype(np.float32),
        weights=np.pad(weights, (0, rows - ROWS), constant_values=1).astype(np.float32),
        mask=np.arange(rows) < ROWS,
    )
    fitted = slipper.fit(
        dataset, slipper.rules(16), key=jax.random.key(SEED), max_rounds=ROUNDS, num_folds=FOLDS
    )
    assert (
        int(fitted.num_rounds)
        == model["rounds"]["chosen"]
        == 1 + int(np.argmin(model["rounds"]["errors"]))
    )
    votes = np.asarray(fitted.ensemble.votes)[:, 0]
    np.testing.assert_allclose(
        sorted(votes[votes != 0]), sorted(rule["vote"] for rule in model["rules"]), rtol=1e-5
    )


@pytest.mark.slow
def test_a_given_number_of_rounds_and_class_are_kept_to(folder):
    given = (
        "--num-rounds",
        ROUNDS,
        "--rules-for",
        "negative",
        "--max-order",
        1,
        "--missing",
        "none",
        "--output",
        "given",
    )
    status, said, err = run_in(folder, "fit", *DATA, *QUICK, *given)
    assert (status, err) == (0, "")
    model = read_report(folder / "given")["model"]
    assert model["rounds"] == {"chosen": ROUNDS, "errors": [], "candidates": 0, "status": None}
    assert f"rounds      {ROUNDS}\n" in said
    assert all(
        rule["label"] == "no" and rule["order"] == 1
        for rule in model["rules"]
        if rule["text"] != "always"
    )
    assert not any("missing" in rule["text"] for rule in model["rules"])
    assert predictions_of(folder, "given").height == ROWS


def fit_with(happens, *, in_choice, after, folder, patch, arguments=()):
    """A fit in which something happens after a round of the choice, or of the fit. Returns its
    report, and what it said on the standard error.
    """
    kept, made = limits.progress, []

    @contextlib.contextmanager
    def progress(*described):
        with kept(*described) as on_step:

            def watch(state, info):
                is_choice = state is None or state.fit.num_rounds == 0
                made.append(is_choice)
                if is_choice == in_choice and made.count(in_choice) == after:
                    happens()
                return on_step(state, info)

            yield watch

    patch.setattr(limits, "progress", progress)
    status, _, err = run_in(
        folder, "fit", *DATA, *QUICK, *arguments, "--output", "ended", "--overwrite"
    )
    assert status == 0
    return read_report(folder / "ended")["model"], err


def seconds_pass(seconds):
    def happens():
        limits._limit.begin -= seconds

    return happens


LIMIT = ("--time-limit", 1000)


@pytest.mark.slow
def test_the_time_limit_ends_the_choice_of_rounds_and_the_fit(folder, model, monkeypatch):
    """Of 1000 s, 992 are for loops, 595 of them for the choice."""
    errors = model["rounds"]["errors"]
    for seconds, after in ((650, 2), (2000, 3)):
        ended, _ = fit_with(
            seconds_pass(seconds),
            in_choice=True,
            after=after,
            folder=folder,
            patch=monkeypatch,
            arguments=LIMIT,
        )
        monkeypatch.undo()
        np.testing.assert_allclose(ended["rounds"]["errors"], errors[:after], atol=1e-6)
        chosen = 1 + int(np.argmin(errors[:after]))
        if seconds == 650:
            assert ended["rounds"]["chosen"] == chosen
            assert ended["certificate"]["status"] == "ROUND_LIMIT"
        else:  # nothing is left for the fit, which does one round
            assert ended["num_rounds"] == 1
    ended, _ = fit_with(
        seconds_pass(2000),
        in_choice=False,
        after=2,
        folder=folder,
        patch=monkeypatch,
        arguments=(*LIMIT, "--num-rounds", ROUNDS),
    )
    assert (ended["num_rounds"], ended["certificate"]["status"]) == (2, "TIME_LIMIT")
    assert 0 < ended["certificate"]["lower_bound"] <= ended["certificate"]["upper_bound"]


@pytest.mark.slow
@pytest.mark.parametrize("in_choice", [True, False], ids=["choice", "fit"])
def test_ctrl_c_ends_the_choice_of_rounds_or_the_fit(in_choice, folder, model, monkeypatch):
    ended, err = fit_with(
        lambda: signal.raise_signal(signal.SIGINT),
        in_choice=in_choice,
        after=2,
        folder=folder,
        patch=monkeypatch,
        arguments=() if in_choice else ("--num-rounds", ROUNDS),
    )
    assert "ends with the best so far; press Ctrl-C again to end at once" in err
    errors = model["rounds"]["errors"][:2]
    if in_choice:  # the fit of the number chosen is done
        np.testing.assert_allclose(ended["rounds"]["errors"], errors, atol=1e-6)
        assert ended["num_rounds"] == 1 + int(np.argmin(errors))
        assert ended["certificate"]["status"] == "ROUND_LIMIT"
    else:
        assert (ended["num_rounds"], ended["certificate"]["status"]) == (2, "TIME_LIMIT")


@pytest.mark.slow
def test_a_run_whose_choice_was_cut_short_resumes_to_the_whole_one(folder, model, monkeypatch):
    """The choice ends after the first of its rounds, and the fit with it. In the resumed run both
    go on.
    """
    saving = ("--checkpoint", "cut")
    ended, _ = fit_with(
        seconds_pass(650),
        in_choice=True,
        after=1,
        folder=folder,
        patch=monkeypatch,
        arguments=(*LIMIT, *saving),
    )
    monkeypatch.undo()
    rounds = ended["rounds"]
    assert (rounds["status"], rounds["candidates"]) == ("TIME_LIMIT", ROUNDS)
    assert rounds["chosen"] == len(rounds["errors"]) == 1 < model["rounds"]["chosen"]
    status, said, err = run_in(
        folder, "fit", *DATA, *QUICK, *saving, "--resume", "--output", "cut-out"
    )
    assert (status, err) == (0, "jboost: continues from the checkpoint in cut\n")
    assert read_report(folder / "cut-out")["model"] == model
    whole, resumed = (files.load(folder / name / "model.npz") for name in ("out", "cut-out"))
    jax.tree.map(np.testing.assert_array_equal, whole["ensemble"], resumed["ensemble"])
    assert "the choice of the number of rounds was ended" not in said
    status, said, _ = run_in(folder, "inspect", "ended")
    assert (
        "the choice of the number of rounds was ended by the time limit (or interrupted) after 1"
        f" of {ROUNDS} rounds" in said
    )


@pytest.mark.slow
def test_a_whole_choice_is_not_repeated_by_a_resumed_run(folder, model, monkeypatch):
    saving = ("--checkpoint", "whole")
    ended, _ = fit_with(
        lambda: signal.raise_signal(signal.SIGINT),
        in_choice=False,
        after=1,
        folder=folder,
        patch=monkeypatch,
        arguments=saving,
    )
    monkeypatch.undo()
    assert (ended["num_rounds"], ended["rounds"]["status"]) == (1, "OPTIMAL")
    monkeypatch.setattr(slipper, "choose_rounds", pytest.fail)
    arguments = (*saving, "--resume", "--time-limit", 1000, "--output", "whole-out")
    status, _, err = run_in(folder, "fit", *DATA, *QUICK, *arguments)
    assert (status, err) == (0, "jboost: continues from the checkpoint in whole\n")
    assert read_report(folder / "whole-out")["model"] == model


@pytest.mark.slow
def test_evaluate_and_inspect(folder, model):
    status, _, err = run_in(folder, "evaluate", *DATA, *QUICK, "--report", "folds.json")
    assert (status, err) == (0, "")
    rows = json.loads((folder / "folds.json").read_text(encoding="utf-8"))["losses"]
    assert [row["rule"] for row in rows] == ["larger class", "slipper"]
    assert rows[1]["held_out"]["mean"] < rows[0]["held_out"]["mean"]
    status, out, err = run_in(folder, "inspect", "out")
    assert (status, err) == (0, "")
    assert all(rule["text"] in out for rule in model["rules"])
    status, _, err = run_in(folder, "predict", "out", "--data", "data.csv", "--output", "data.csv")
    assert status == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--num-rounds", "0"), "'--num-rounds'"),
        (("--num-rounds", "few"), "'few' is not a valid integer: expected"),
        (("--rules-for", "all"), "'all' is not one of 'minority', 'positive', 'negative'"),
        (("--kappa", "1"), "--kappa is for the method l0, and the method is slipper"),
        (("--folds", "40"), "folds is 40, but the smaller class has"),
    ],
)
def test_user_errors_are_one_line(folder, arguments, message):
    status, out, err = run_in(folder, "fit", *DATA, *arguments, "--output", "other")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (folder / "other").exists()


def test_what_is_not_said_is_the_library_s():
    settings = resolution.resolve({"data": "data.csv", "label": "ill", "method": "slipper"}, {})
    assert (settings.max_order, settings.rounds, settings.num_rounds, settings.rules_for) == (
        16,
        100,
        "cv",
        "minority",
    )
    assert (
        resolution.resolve({"data": "data.csv", "label": "ill", "method": "l0"}, {}).max_order == 1
    )


def test_a_number_of_rounds_in_a_configuration(folder):
    for value, message in (
        ("2.5", "num_rounds is 2.5: expected a whole number or 'cv'"),
        ('"all"', "num_rounds is 'all': expected a whole number or 'cv'"),
    ):
        (folder / "job.toml").write_text(f"num_rounds = {value}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            resolution.read_config(folder / "job.toml")
    (folder / "job.toml").write_text(
        'num_rounds = "cv"\nrules_for = "positive"\n', encoding="utf-8"
    )
    assert resolution.read_config(folder / "job.toml") == {
        "num_rounds": "cv",
        "rules_for": "positive",
    }


@pytest.mark.parametrize(
    "method", [("--method", "slipper"), ("--method", "adaboost", "--learner", "literals")]
)
def test_bits_that_do_not_fit_into_memory_are_refused_with_what_would(folder, monkeypatch, method):
    values = np.random.default_rng(0).permutation(2 * ROWS)
    polars.DataFrame({"x": values, "y": values[::-1], "ill": ["yes", "no"] * ROWS}).write_csv(
        folder / "long.csv"
    )
    asked = (
        "fit",
        "--data",
        "long.csv",
        "--label",
        "ill",
        *method,
        "--precision",
        "float32",
        "--output",
        "other",
    )
    monkeypatch.setattr(memory, "of_device", lambda: 240_000)
    status, out, err = run_in(folder, *asked, "--cuts", "midpoints")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert (
        f"long.csv: {2 * (2 * ROWS - 1)} Boolean conditions on {2 * ROWS} rows take about 0.0"
        " GB, and there are 0.0 GB" in err
    )
    most = int(err.split("use --cuts quantiles with --quantiles ")[1].split()[0])
    assert 1 < most < 2 * ROWS
    monkeypatch.setattr(memory, "of_device", lambda: 1000)
    assert (
        "use fewer rows, or --ignore for columns of many categories"
        in run_in(folder, *asked, "--cuts", "midpoints")[2]
    )
    assert not (folder / "other").exists()


def test_a_table_that_does_not_vary_is_refused(folder):
    polars.DataFrame({"same": [1.5] * 6, "ill": ["yes", "no"] * 3}).write_csv(folder / "same.csv")
    status, _, err = run_in(
        folder,
        "fit",
        "--data",
        "same.csv",
        "--label",
        "ill",
        "--method",
        "slipper",
        "--output",
        "other",
    )
    assert status == 2
    assert (
        "same.csv: no column takes two values on the training rows: provide columns that vary"
        in err
    )
