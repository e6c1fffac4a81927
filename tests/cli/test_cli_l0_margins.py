"""Many margins of l0 on the command line, beside the library."""

import json
import signal

import jax
import numpy as np
import polars
import pytest

from command_line import interrupted_after, run_in
from jboost import l0, learners, make_dataset
from jboost.cli import resolution
from jboost.cli.l0 import margin_search
from jboost.data import binarization
from jboost.monomials import costs

ROWS, KAPPA, PENALTY = 30, 0.5, 0.05
DATA = ("--data", "data.csv", "--label", "ill", "--method", "l0", "--kappa", KAPPA)
CUTS = ("--cuts", "quantiles", "--quantiles", 2, "--rounds", 8)


def make_frame():
    """Two numbers that tell the class together, and one of no use."""
    generator = np.random.default_rng(5)
    heat, pulse, noise = generator.normal(size=(3, ROWS)).round(2)
    ill = (heat + pulse > 0) ^ (generator.uniform(size=ROWS) < 0.1)
    return polars.DataFrame(
        {"heat": heat, "pulse": pulse, "noise": noise, "ill": np.where(ill, "yes", "no")}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the data."""
    path = tmp_path_factory.mktemp("margins")
    make_frame().write_csv(path / "data.csv")
    return path


def data_of(frame):
    """The data set and the learner of a fit of rules of one literal, by the library."""
    points = frame.select("heat", "pulse", "noise").to_numpy()
    labels = np.where(frame["ill"].to_numpy() == "yes", 1.0, -1.0)
    found = binarization.fit(points, labels, cuts="quantiles", num_quantiles=2)
    bits = np.asarray(binarization.apply(found, points))
    price = costs.mdl(KAPPA, num_attributes=bits.shape[1], num_examples=len(labels))
    return make_dataset(bits, labels), learners.monomials(1, cost=price, num_proposed=64)


def settings_of(**values):
    given = {"data": "data.csv", "label": "ill", "method": "l0"}
    return resolution.resolve(given | values, dict.fromkeys(values, True))


@pytest.mark.exhaustive
def test_the_search_of_the_margin_is_that_of_the_library(folder):
    fit = ("fit", *DATA, *CUTS, "--margin", "search", "--margin-penalty", PENALTY)
    code, said, err = run_in(folder, *fit, "--tolerance", 0.001, "--output", "out")
    assert (code, err) == (0, "")
    report = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    found = report["margin_search"]
    with jax.enable_x64(True):
        dataset, learner = data_of(make_frame())
        search = l0.search_margin(
            dataset,
            learner,
            penalty=PENALTY,
            max_rounds=8,
            tolerance=0.001,
            config=l0.RelaxationConfig(max_rounds=5),
            max_columns=1024,
        )
    assert found["status"] == "OPTIMAL"
    # The command merges equal rows, so that both end within the tolerance, not at the same point.
    assert found["margin"] == pytest.approx(float(search.margin), abs=1e-6)
    near = PENALTY * 0.001 * ROWS
    for name in ("lower_bound", "upper_bound"):
        assert found[name] == pytest.approx(float(getattr(search, name)), abs=near)
    assert found["lower_bound"] <= float(search.upper_bound)
    assert float(search.lower_bound) <= found["upper_bound"]
    assert len(found["tried"]) == int(search.num_margins)
    assert report["model"]["margin"] == found["margin"]
    assert (
        f"margin      {found['margin']:.6g}: {found['lower_bound']:.6g} <= largest margin" in said
    )
    # the model is that of the margin found
    fit = ("fit", *DATA, *CUTS, "--margin", found["margin"], "--tolerance", 0.001)
    assert run_in(folder, *fit, "--output", "again")[0] == 0
    again = json.loads((folder / "again" / "report.json").read_text(encoding="utf-8"))
    assert again["margin_search"] is None
    assert again["model"] == report["model"]


def search_in(folder, *arguments):
    """The report of a fit at the margin that a search found, the text, and the errors."""
    fit = ("fit", *DATA, *CUTS, "--margin", "search", "--margin-penalty", PENALTY)
    code, said, err = run_in(folder, *fit, *arguments, "--output", "searched", "--overwrite")
    assert code == 0
    report = (folder / "searched" / "report.json").read_text(encoding="utf-8")
    return json.loads(report, parse_constant=pytest.fail), said, err


@pytest.mark.slow
def test_ctrl_c_ends_the_search_with_the_best_so_far_and_it_resumes(folder, monkeypatch):
    whole, _, err = search_in(folder)
    assert err == ""
    assert len(whole["margin_search"]["tried"]) > 2
    with interrupted_after(2), monkeypatch.context() as patch:
        patch.setattr(l0, "fit", pytest.fail)
        patch.setattr(l0, "fit_large", pytest.fail)
        ended, said, err = search_in(folder, "--checkpoint", "states")
    assert "ends with the best so far" in err
    found = ended["margin_search"]
    assert found["status"] == "TIME_LIMIT"
    assert found["tried"] == whole["margin_search"]["tried"][:2]
    assert found["lower_bound"] <= whole["margin_search"]["lower_bound"]
    assert whole["margin_search"]["upper_bound"] <= found["upper_bound"]
    assert ended["model"]["margin"] == found["margin"]
    text = "2 margins tried: TIME_LIMIT: ended by the time limit (or interrupted) with the best so"
    assert text in said
    resumed, _, err = search_in(folder, "--checkpoint", "states", "--resume")
    assert err == "jboost: continues from the checkpoint in states\n"
    for part in ("margin_search", "model"):
        assert resumed[part] == whole[part]


@pytest.mark.slow
def test_ctrl_c_ends_the_search_between_the_rounds_of_a_margin(folder, monkeypatch):
    """SIGINT during the first round of the first margin."""
    advance = l0.path.__globals__["_advance_round_on_host"]

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return advance(*arguments)

    monkeypatch.setitem(l0.path.__globals__, "_advance_round_on_host", interrupted)
    ended, _, err = search_in(folder)
    assert "ends with the best so far" in err
    found = ended["margin_search"]
    assert (found["status"], len(found["tried"])) == ("TIME_LIMIT", 1)
    assert found["lower_bound"] <= found["upper_bound"]
    assert ended["model"]["num_rounds"] == 1
    assert ended["model"]["certificate"]["status"] == "TIME_LIMIT"


@pytest.mark.slow
def test_the_search_has_a_share_of_the_time_limit_and_the_fit_the_rest(folder, monkeypatch):
    monkeypatch.setattr(margin_search, "_SHARE", 0.0)
    report, _, err = search_in(folder, "--time-limit", 1000, "--tolerance", 0.5)
    assert err == ""
    assert report["margin_search"]["status"] == "TIME_LIMIT"
    assert [one["margin"] for one in report["margin_search"]["tried"]] == [
        pytest.approx(report["model"]["margin"])
    ]
    assert report["model"]["certificate"]["status"] == "OPTIMAL"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--margin search needs the worth of an error"),
        ({"margin": ("search", 0.1)}, "2 values are given of --margin: give one"),
        ({"kappa": (0.5, 1.5)}, "2 values are given of --kappa: give one"),
        ({"vote": ("sparse", "relaxed")}, "2 values are given of --vote: give one"),
        ({"max_order": "cv"}, "search cannot be combined with --max-order cv: give a number to"),
        ({"max_rules": "cv"}, "search cannot be combined with --max-rules cv: give a number to"),
        ({"margin": (0.1,), "margin_penalty": 0.2}, "--margin-penalty 0.2 is for --margin search"),
    ],
)
def test_what_the_search_is_not_combined_with(options, message):
    with pytest.raises(ValueError, match=message):
        settings_of(**{"margin": ("search",)} | options)


def test_the_search_takes_one_of_each():
    settings = settings_of(margin=("search",), margin_penalty=0.2)
    assert (settings.margin, settings.margin_penalty) == (("search",), 0.2)
