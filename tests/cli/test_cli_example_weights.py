"""The method example-weights of the command line, from fit to evaluation. One fit serves nearly all
tests.
"""

import io
import json
from pathlib import Path

import jax
import numpy as np
import polars
import pytest

import jboost
from command_line import run_in
from jboost import example_weights, files, kernels
from jboost.cli import resolution
from jboost.cli.example_weights import method
from jboost.cli.inputs import HostExamples
from jboost.report import example_weights as report_module

ROWS = 32
DATA = ("--data", "data.csv", "--label", "class", "--method", "example-weights")


def make_frame():
    """Two noisy half moons, and a column of text that is left out."""
    generator = np.random.default_rng(0)
    signs = np.where(np.arange(ROWS) % 2 == 0, 1, -1)
    angles = generator.uniform(0, np.pi, ROWS)
    points = (
        np.stack([np.cos(angles) * signs, np.sin(angles) * signs], axis=1)
        + generator.normal(size=(ROWS, 2)) * 0.2
    )
    return polars.DataFrame(
        {
            "x": points[:, 0],
            "y": points[:, 1],
            "colour": ["red", "blue"] * (ROWS // 2),
            "class": np.where(signs > 0, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data, and the one fit in the folder `out`."""
    path = tmp_path_factory.mktemp("example_weights")
    make_frame().write_csv(path / "data.csv")
    status, said, err = run_in(
        path, "fit", *DATA, "--radius", "5", "--penalty", "0.1", "--output", "out"
    )
    assert (status, err) == (0, "")
    (path / "said.txt").write_text(said, encoding="utf-8")
    return path


@pytest.mark.slow
def test_fit_writes_model_report_and_figures(folder):
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "boundary.png",
        "margins.png",
        "model.npz",
        "report.json",
    ]
    report = json.loads(
        (folder / "out" / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    model = report["model"]
    assert model["status"] == "OPTIMAL"
    assert 0 < model["lower_bound"] <= model["upper_bound"] <= model["lower_bound"] * (1 + 1e-6)
    assert sum(example["weight"] for example in model["support"]) == pytest.approx(1)
    assert report["penalty"] == {
        "chosen": 0.1,
        "losses": [],
        "candidates": 0,
        "validation": 0.0,
    }
    said = (folder / "said.txt").read_text(encoding="utf-8")
    assert f"support     {len(model['support'])} of {ROWS} examples have weight" in said
    assert "text columns are left out (colour)" in said


@pytest.mark.slow
def test_predict_and_inspect_give_back_the_model(folder):
    status, said, err = run_in(folder, "predict", "out", "--data", "data.csv")
    assert (status, err) == (0, "")
    rows = polars.read_csv(io.StringIO(said))
    with jax.enable_x64(True):
        model = files.load(folder / "out" / "model.npz")
        scores = np.asarray(jboost.predict_scores(model, make_frame().select("x", "y").to_numpy()))
    np.testing.assert_allclose(
        model.centre, make_frame().select("x", "y").mean().row(0), rtol=1e-12
    )
    np.testing.assert_allclose(rows["score"].to_numpy(), scores, rtol=1e-9, atol=1e-15)
    assert (rows["prediction"].to_numpy() == np.where(scores > 0, "yes", "no")).all()
    status, said, err = run_in(folder, "inspect", "out")
    assert (status, err) == (0, "")
    assert "certificate the best soft margin is" in said


@pytest.mark.slow
def test_weights_of_a_configuration_do_not_become_a_feature(folder):
    (folder / "weighted.toml").write_text('weights = "cost"\n')
    status, _, err = run_in(
        folder,
        "fit",
        *DATA,
        "--config",
        "weighted.toml",
        "--radius",
        "5",
        "--penalty",
        "0.1",
        "--output",
        "other",
    )
    assert status == 2
    assert (
        "weights is 'cost', but the method example-weights does not use weights: remove it from the"
        " configuration" in err
    )
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--radius", "0.3"), "radius is 0.3: the point"),
        (("--penalty", "0.01"), "penalty is 0.01, below 1 / m = 0.03125 for 32 examples"),
        (("--weights", "x"), "--weights is for the method"),
        (("--nu", "0.1"), "--nu is for the method"),
        (("--radius", "wide"), "wide"),
    ],
)
def test_errors_are_one_line(folder, arguments, message):
    values = {"--radius": "5", "--penalty": "0.1"} | {arguments[0]: arguments[1]}
    status, _, err = run_in(
        folder,
        "fit",
        *DATA,
        *(part for pair in values.items() for part in pair),
        "--output",
        "other",
    )
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (folder / "other").exists()


def settings_of(**values):
    return resolution.resolve(
        {"data": "data.csv", "label": "class", "method": "example-weights"} | values, {}
    )


@pytest.mark.parametrize(
    ("measure", "size", "kernel"),
    [
        ("auto", 2, "Hyperplanes"),
        ("auto", 3, "IsotropicHyperplanes"),
        ("cube", 3, "Hyperplanes"),
        ("isotropic", 2, "IsotropicHyperplanes"),
        ("central", 2, "CentralHyperplanes"),
        ("stumps", 2, "RandomStumps"),
    ],
)
def test_the_measure_by_name(measure, size, kernel):
    points = np.random.default_rng(0).normal(size=(20, size))
    chosen = np.arange(20) < 15
    found = method.measure_of(points, chosen, settings_of(measure=measure))
    assert type(found.kernel).__name__ == kernel
    np.testing.assert_allclose(found.centre, points[:15].mean(axis=0), rtol=1e-12)
    with jax.enable_x64(True):
        assert np.asarray(found.kernel.is_inside(points[:15] - found.centre)).all()


@pytest.mark.parametrize("measure", ["central", "stumps"])
def test_a_radius_is_refused_for_measures_without_one(measure):
    with pytest.raises(ValueError, match=f"isotropic, and the measure is {measure}: change"):
        settings_of(measure=measure, radius=5.0)
    assert settings_of(measure=measure).radius == "auto"


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["auto", "central", "stumps"])
def test_six_columns_from_fit_to_prediction(tmp_path, measure):
    """The command finds the margin of the library."""
    generator = np.random.default_rng(1)
    labels = np.where(np.arange(ROWS) % 2 == 0, 1, -1)
    points = generator.normal(size=(ROWS, 6)) + 0.8 * labels[:, None]
    frame = polars.DataFrame({f"x{index}": points[:, index] for index in range(6)})
    frame.with_columns(polars.Series("class", labels)).write_csv(tmp_path / "data.csv")
    fit = ("fit", *DATA, "--penalty", "0.1", "--measure", measure, "--output", "out")
    status, said, err = run_in(tmp_path, *fit)
    assert (status, err) == (0, "")
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))["model"]
    centred = points - points.mean(axis=0)
    with jax.enable_x64(True):
        kernel = {
            "auto": lambda: kernels.isotropic_hyperplanes(report["radius"]),
            "central": kernels.central_hyperplanes,
            "stumps": lambda: kernels.stumps(
                centred.min(axis=0) - 1e-3 * np.ptp(centred, axis=0),
                centred.max(axis=0) + 1e-3 * np.ptp(centred, axis=0),
            ),
        }[measure]()
        model = example_weights.fit(
            points, labels, penalty=0.1, kernel=kernel, centre=points.mean(axis=0)
        )
        scores = np.asarray(jboost.predict_scores(model, points))
    assert report["lower_bound"] == pytest.approx(float(model.lower_bound), rel=1e-6)
    assert report["upper_bound"] == pytest.approx(float(model.upper_bound), rel=1e-6)
    assert report["lower_bound"] > 1e-3
    assert report["measure"] == ("isotropic" if measure == "auto" else measure)
    status, said, err = run_in(tmp_path, "predict", "out", "--data", "data.csv")
    assert (status, err) == (0, "")
    found = polars.read_csv(io.StringIO(said))["score"].to_numpy()
    np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-9)
    status, said, err = run_in(tmp_path, "inspect", "out")
    assert (status, err) == (0, "")
    assert "measure     " in said
    short = (*DATA, "--penalty", "0.1", "--measure", "isotropic", "--radius", "0.1")
    status, said, err = run_in(tmp_path, "fit", *short, "--output", "other")
    assert status == 2
    assert "radius is 0.1, and a row is" in err


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e30])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_the_automatic_radius_is_enough_for_what_the_fit_sees(shift, scale):
    generator = np.random.default_rng(0)
    for size in (1, 2, 7, 30):
        points = ((generator.normal(size=(size, 3)) + shift) * scale).astype(np.float32)
        chosen = np.arange(size) % 3 != 1
        settings = settings_of(precision="float32", measure="cube")
        kernel, centre = method.measure_of(points, chosen, settings)
        radius = float(kernel.radius)
        example_weights.validate(points, np.ones(size), radius=radius, centre=centre, mask=chosen)
        if size > 2:
            with pytest.raises(ValueError, match="needs"):
                example_weights.validate(
                    points, np.ones(size), radius=0.99 * radius, centre=centre, mask=chosen
                )


@pytest.mark.parametrize(("dtype", "size"), [("float32", 2e38), ("float64", 1e307)])
def test_columns_whose_distances_overflow_are_named(dtype, size):
    points = np.array([[size], [-size]], dtype)
    with pytest.raises(
        ValueError, match=f"distances between such rows overflow {dtype}: rescale the columns"
    ):
        method.measure_of(points, np.ones(2, bool), settings_of(precision=dtype))


def test_more_folds_than_rows_are_refused():
    examples = HostExamples(np.zeros((6, 1)), np.array([1.0, 1, 1, 1, -1, -1]), np.ones(6))
    with pytest.raises(
        ValueError,
        match=(
            "folds is 1000000, but the smaller class has 2 rows to spread over them: choose --folds"
            " 2 or fewer"
        ),
    ):
        method.choose(examples, np.ones(6, bool), settings_of(folds=1_000_000))


def test_cv_stands_for_multiples_of_one_over_the_rows():
    assert (
        method.penalties(settings_of(), 20)
        == method.penalties(settings_of(penalty=("cv",)), 20)
        == (0.075, 0.1, 0.15, 0.25, 0.45)
    )
    assert method.penalties(settings_of(penalty=("cv", 0.5)), 20) == (
        0.075,
        0.1,
        0.15,
        0.25,
        0.45,
        0.5,
    )
    assert method.penalties(settings_of(penalty=(0.5,)), 20) == (0.5,)


def test_a_choice_of_the_penalty_that_is_ended_early_says_so(monkeypatch):
    examples, rates = (
        HostExamples(np.zeros((6, 1)), np.array([1.0, 1, 1, -1, -1, -1]), np.ones(6)),
        np.array([0.5, 0.25, 0.0]),
    )
    settings = settings_of(penalty=(0.2, 0.4, 0.8), folds=2)

    def choose_penalty(points, labels, *, penalties, on_step, initial, **options):
        num_done = 0
        while num_done < 3:
            num_done += 1
            if on_step is not None and not on_step("state", (num_done, 3)):
                break
        losses = np.where(np.arange(3) < num_done, rates, np.nan)
        return example_weights.PenaltyChoice(None, losses, np.stack([losses] * 2), None, None)

    monkeypatch.setattr(example_weights, "choose_penalty", choose_penalty)
    choice = method.choose(
        examples,
        np.ones(6, bool),
        settings,
        on_step=lambda state, info: info != "penalty 0.4",
    )
    assert (choice.penalty, len(choice.losses), choice.num_candidates) == (0.4, 2, 3)
    assert choice.losses[1] == {"penalty": 0.4, "mean": 0.25, "rates": [0.25, 0.25]}
    said = report_module.choice_lines(
        {"chosen": choice.penalty, "losses": choice.losses, "candidates": choice.num_candidates}
    )
    assert said[-1] == "note: the choice of the penalty was ended after 2 of 3 values"
    assert method.choose(examples, np.ones(6, bool), settings).penalty == 0.8


@pytest.mark.slow
def test_the_penalty_is_chosen_and_evaluated(folder):
    status, said, err = run_in(
        folder,
        "evaluate",
        *DATA,
        "--folds",
        "3",
        "--penalty",
        "0.1",
        "--penalty",
        "0.3",
        "--report",
        "table.json",
    )
    assert (status, err) == (0, "")
    report = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    assert [row["rule"] for row in report["losses"]] == ["scikit-learn SVC", "example-weights"]
    status, said, err = run_in(folder, "fit", *DATA, "--output", "chosen", "--precision", "float32")
    assert (status, err) == (0, "")
    assert "by cross-validation" in said


def test_validation_holds_out_a_share_of_each_class(monkeypatch):
    frame = make_frame()
    points = frame.select("x", "y").to_numpy()
    labels = np.where(frame["class"].to_numpy() == "yes", 1, -1)
    asked = {}

    def choose_penalty(points, labels, **options):
        asked.update(options)
        raise ValueError("seen")

    monkeypatch.setattr(example_weights, "choose_penalty", choose_penalty)
    settings = settings_of(penalty=(0.1, 0.2), validation=0.25)
    chosen = np.arange(ROWS) < 24
    with pytest.raises(ValueError, match="seen"):
        method.choose(HostExamples(points, labels, np.ones(ROWS)), chosen, settings)
    held_out = asked["held_out"]
    assert held_out.dtype == bool
    assert not held_out[24:].any()
    assert held_out[:24][labels[:24] > 0].sum() == 3
    assert held_out[:24][labels[:24] < 0].sum() == 3
    few = np.arange(ROWS) < 4
    with pytest.raises(ValueError, match=r"validation is 0\.25: of the 2 rows of class -1"):
        method.choose(HostExamples(points, labels, np.ones(ROWS)), few, settings)


def _crescents(num_rows):
    """Two noisy crescents, as in the banana set."""
    generator = np.random.default_rng(1)
    signs = np.where(generator.random(num_rows) < 0.45, 1, -1)
    angles = generator.uniform(0, np.pi, num_rows)
    points = np.stack([np.cos(angles) * signs + 0.5 * signs, np.sin(angles) * signs], axis=1)
    return points + generator.normal(size=(num_rows, 2)) * 0.25, signs


def _mixture(num_rows):
    """Ripley's mixture."""
    dataset = jboost.data.synthetic.ripley_mixture(jax.random.key(0), num_rows)
    return np.asarray(dataset.features), np.asarray(dataset.labels)


@pytest.mark.parametrize(
    ("name", "draw", "num_rows", "kind"),
    [("ripley", _mixture, 250, "training"), ("banana", _crescents, 5300, "held_out")],
)
def test_configurations_of_the_paper_run_on_data_of_the_same_kind(
    tmp_path, capsys, name, draw, num_rows, kind
):
    points, signs = draw(num_rows)
    frame = polars.DataFrame({"x": points[:, 0], "y": points[:, 1], "label": (signs > 0) * 1})
    frame.write_csv(tmp_path / "drawn.csv")
    config = Path(__file__).parents[2] / "configs" / f"{name}.toml"
    status, _, err = run_in(
        tmp_path, "fit", "--config", config, "--data", "drawn.csv", "--output", "out"
    )
    assert (status, err) == (0, "")
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    (fitted,) = report["losses"]
    assert fitted[kind]["rate"] < 0.15
