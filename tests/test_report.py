"""The rules beside the optimal combination, the numbers and words of a report, and the figure."""

import json
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.image
import numpy as np
import pytest

from jboost import plots
from jboost.data import synthetic
from jboost.data.table import LabelMapping
from jboost.pair.types import Separator
from jboost.plots import separators
from jboost.report import bounds, build, rules, text

NAMES = ("lda", "tree")


def make_separator(points, labels, normal, bias, margin=0.25):
    """The line normal . x + bias = 0 with a record that fits it, as the engine would return it."""
    scores = points @ np.array(normal) + bias
    wrong = np.where(labels > 0, scores <= 0, scores >= 0)
    number = jnp.float32
    return Separator(
        normal=jnp.array(normal, number),
        anchor=jnp.zeros(2, number),
        bias=number(bias),
        offset=number(bias),
        loss=number(wrong.sum()),
        lower_bound=number(wrong.sum()),
        margin=number(margin),
        misclassified=jnp.array(wrong),
        status=jnp.int32(0),
    )


@pytest.fixture(scope="module")
def ripley():
    dataset = synthetic.ripley_mixture(jax.random.key(0), 120)
    points, labels = (
        np.asarray(dataset.features, np.float64),
        np.asarray(dataset.labels, np.float64),
    )
    return points, labels, make_separator(points, labels, [0.25, 1.0], -0.5, 0.02)


# --- rules ----------------------------------------------------------------------------------------


def test_rules_on_four_points():
    points = np.array([[1.0, -2.0], [1.0, 2.0], [-1.0, 0.5], [-1.0, -1.0]])
    labels = np.array([1.0, 1.0, -1.0, -1.0])
    weights = np.array([1.0, 2.0, 4.0, 8.0])
    fitted = rules.fit_rules(
        points, labels, weights, NAMES, make_separator(points, labels, [1.0, 0.0], 0.0)
    )
    lost = {
        f"{rule.name}: {rule.detail}".split(" 0")[0]: rules.loss(rule, points, labels, weights)
        for rule in fitted
    }
    assert lost["lda: above"] == 0
    assert lost["tree: above"] == 1 + 4
    assert lost["tree: best threshold: 1.25"] == 1
    assert lost["majority vote: a tie counts half"] == 5 / 2
    assert lost["average: of both scores, above"] == 1
    assert lost["optimal combination: of both scores, exact"] == 0
    assert fitted[-1].name == rules.OPTIMAL


def test_stacking_does_not_depend_on_the_unit():
    generator = np.random.default_rng(0)
    points, labels = generator.normal(size=(30, 2)), np.where(np.arange(30) % 2, 1.0, -1.0)
    votes = [
        rules._stacking(points * scale, labels, np.ones(30)).vote(points * scale).tolist()
        for scale in (1.0, 2.0**1015)
    ]
    assert votes[0] == votes[1]


def test_best_threshold_is_the_best_of_all():
    generator = np.random.default_rng(0)
    for _ in range(200):
        scores = generator.integers(0, 4, size=6).astype(float)
        labels, weights = (
            generator.choice([-1.0, 1.0], size=6),
            generator.integers(1, 5, size=6).astype(float),
        )
        candidates = [-math.inf, *(np.arange(4) + 0.5)]
        least = min(weights[np.where(scores > t, 1, -1) != labels].sum() for t in candidates)
        found = rules.best_threshold(scores, labels, weights)
        assert weights[np.where(scores > found, 1, -1) != labels].sum() == least


def test_best_threshold_between_neighbouring_floats():
    low = 1.0
    high = np.nextafter(low, 2)
    assert low <= rules.best_threshold(np.array([low, high]), np.array([-1, 1]), np.ones(2)) < high


# --- words and numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("normal", "anchor", "bias", "formula"),
    [
        ([1, 1], [0, 0], 0, "predict +1 where 1 * lda + 1 * tree + 0 > 0, else -1"),
        (
            [-0.5, 2],
            [1, -3],
            -0.25,
            "predict +1 where -0.5 * (lda - 1) + 2 * (tree + 3) - 0.25 > 0, else -1",
        ),
        ([0, -1], [0, 2], 1, "predict +1 where -1 * (tree - 2) + 1 > 0, else -1"),
        ([0, 0], [0, 0], -1, "predict -1 always"),
    ],
)
def test_formula(normal, anchor, bias, formula):
    separator = make_separator(np.zeros((1, 2)), np.ones(1), normal, bias)._replace(
        anchor=jnp.array(anchor, jnp.float32)
    )
    assert build.formula(separator, NAMES, None) == formula


def test_formula_speaks_of_the_classes():
    mapping = LabelMapping("diagnosis", "benign", "malignant")
    separator = make_separator(np.zeros((1, 2)), np.ones(1), [1, 0], 2)
    assert (
        build.formula(separator, NAMES, mapping)
        == "predict malignant where 1 * lda + 2 > 0, else benign"
    )


def test_infinite_margin_is_valid_json(tmp_path):
    separator = make_separator(np.zeros((1, 2)), np.ones(1), [0, 0], 1, math.inf)
    certificate, description = (
        build.certificate(separator),
        build.describe_separator(separator, NAMES, None),
    )
    build.write({"certificate": certificate, "separator": description}, tmp_path / "report.json")
    read = json.loads(
        (tmp_path / "report.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    assert read["certificate"]["margin"] is None
    assert read["separator"]["constant"] is True
    assert "infinite" in "\n".join(text.certificate_lines(certificate, description))


def test_a_gap_between_the_bounds_is_said():
    separator = make_separator(np.zeros((1, 2)), np.ones(1), [1, 0], 1)._replace(
        loss=jnp.float32(3), lower_bound=jnp.float32(2), status=jnp.int32(1)
    )
    lines = "\n".join(
        text.certificate_lines(
            build.certificate(separator), build.describe_separator(separator, NAMES, None)
        )
    )
    assert "3, not proven optimal (2 <= optimum <= 3)" in lines
    assert "PRECISION_LIMIT" in lines


def test_a_bound_that_is_rounded_below_the_loss_is_the_optimum():
    """With weights that are not integers the status tells, as docs/certificates.md says."""
    separator = make_separator(np.zeros((1, 2)), np.ones(1), [1, 0], 1)._replace(
        loss=np.float64(11.362), lower_bound=np.nextafter(11.362, 0)
    )
    lines = "\n".join(
        text.certificate_lines(
            build.certificate(separator), build.describe_separator(separator, NAMES, None)
        )
    )
    assert "11.362, the optimum (11.362 <= optimum <= 11.362)" in lines


def test_printed_bounds_hold_where_the_computed_ones_do():
    """Against exact arithmetic: outwards, by one unit of the sixth digit at most."""
    random = np.random.default_rng(0)
    for value in random.normal(size=500) * 10.0 ** random.integers(-8, 5, 500):
        exact, unit = (
            Fraction(float(value)),
            Fraction(10) ** (math.floor(math.log10(abs(value))) - 5),
        )
        lower, upper = (Fraction(show(value)) for show in (bounds.lower_text, bounds.upper_text))
        assert exact - unit <= lower <= exact <= upper <= exact + unit


# --- the figure -----------------------------------------------------------------------------------


def colours(path):
    """The shares of bluish, reddish and dark pixels."""
    picture = matplotlib.image.imread(path)[:, :, :3]
    assert picture.shape[0] > 600
    assert picture.shape[1] > 800
    red, blue = picture[:, :, 0], picture[:, :, 2]
    return {
        "blue": (blue - red > 0.35).mean(),
        "vermilion": (red - blue > 0.35).mean(),
        "ink": (picture.max(axis=2) < 0.2).mean(),
    }


@pytest.mark.slow
def test_figure_shows_both_classes_and_the_line(ripley, tmp_path):
    points, labels, separator = ripley
    before = matplotlib.get_backend(auto_select=False)
    path = tmp_path / "plane.png"
    plots.plot_separator(
        points, labels, separator, names=NAMES, path=path, class_names=("no", "yes")
    )
    assert min(colours(path).values()) > 0.001
    assert matplotlib.get_backend(auto_select=False) == before
    assert [file.name for file in tmp_path.iterdir()] == ["plane.png"]


@pytest.mark.slow
def test_outliers_do_not_squeeze_the_figure(ripley, tmp_path):
    points, labels, separator = ripley
    far = points.copy()
    right = np.flatnonzero(~np.asarray(separator.misclassified))[:2]
    far[right] *= 1e6
    low, high = separators._view(far, labels, np.asarray(separator.misclassified))
    assert (high - low < 10).all()
    plots.plot_separator(far, labels, separator, names=NAMES, path=tmp_path / "plane.png")
    assert colours(tmp_path / "plane.png")["blue"] > 0.001


@pytest.mark.parametrize("bias", [-1, 1])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_constant_classifiers_have_a_figure(size, bias, tmp_path):
    points, labels = np.ones((size, 2)), np.where(np.arange(size) % 3, -1.0, 1.0)
    separator = make_separator(points, labels, [0, 0], bias, math.inf)
    plots.plot_separator(points, labels, separator, names=NAMES, path=tmp_path / "plane.png")
    assert colours(tmp_path / "plane.png")["ink"] > 0


def test_figure_of_other_points_is_refused(ripley, tmp_path):
    points, labels, separator = ripley
    with pytest.raises(ValueError, match=r"points has shape \[3, 2\]: expected shape \[120, 2\]"):
        plots.plot_separator(
            points[:3], labels[:3], separator, names=NAMES, path=tmp_path / "plane.png"
        )
    with pytest.raises(ValueError, match="txt"):
        plots.plot_separator(points, labels, separator, names=NAMES, path=tmp_path / "plane.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scale", [0.0, 1e100])
def test_boundaries_of_points_far_away_or_in_one_place_have_a_figure(scale, tmp_path):
    points = 1e25 + scale * np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]])
    path = tmp_path / "boundary.png"
    plots.plot_example_weights(
        points,
        [-1, 1, 1],
        [0.5, 0.5, 0.0],
        lambda grid: grid.sum(axis=1) - 3e25 - scale,
        names=NAMES,
        path=path,
    )
    assert colours(path)["ink"] > 0
    with pytest.raises(
        ValueError,
        match=r"points reach as far as 1e\+308, and the axes of a figure 4e\+307 at most",
    ):
        plots.plot_example_weights(
            np.full((3, 2), 1e308), [-1, 1, 1], np.ones(3), len, names=NAMES, path=path
        )


# --- the figures of boosting ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "margins", [[], [0.5, -0.2, 0.0], [math.inf] * 3, [-math.inf, 0.3, 1.0, math.inf]]
)
def test_margins_have_a_figure(margins, tmp_path):
    plots.plot_margins(np.array(margins), path=tmp_path / "margins.png", title="Training margins")
    shares = colours(tmp_path / "margins.png")
    assert shares["ink"] > 0
    assert (shares["blue"] > 0.001) == any(map(math.isinf, margins))


def test_margins_past_the_ends_by_rounding_are_counted(tmp_path):
    for name, end in (("at.png", 1.0), ("past.png", 1 + 1e-7)):
        plots.plot_margins(
            [0.2, -0.2, end, end, -end], path=tmp_path / name, title="Training margins"
        )
    np.testing.assert_array_equal(
        *(matplotlib.image.imread(tmp_path / name) for name in ("at.png", "past.png"))
    )


def test_margins_that_are_no_numbers_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"margins\[1\] is NaN"):
        plots.plot_margins([0.5, math.nan], path=tmp_path / "margins.png", title="")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ([], []),
        ([0.0, 0.2, math.inf], [math.inf, 0.5, math.inf]),
        ([0.1], [math.inf]),
        ([0.0] * 99, [1.0] * 99),
    ],
)
def test_bounds_have_a_figure(lower, upper, tmp_path):
    plots.plot_bounds(
        np.array(lower),
        np.array(upper),
        path=tmp_path / "gap.png",
        title="Bounds",
        quantity="margin",
        names=("training error", "its bound"),
    )
    assert colours(tmp_path / "gap.png")["ink"] > 0


@pytest.mark.parametrize("held_out", [None, [0.3, 0.2, 0.1]])
def test_a_path_has_a_figure(held_out, tmp_path):
    plots.plot_path(
        [0.3, 0.1, 0.2],
        [1, 5, 2],
        [0.3, 0.1, 0.0],
        held_out,
        parameter="nu",
        path=tmp_path / "path.png",
    )
    assert colours(tmp_path / "path.png")["ink"] > 0
    plots.plot_path([], [], [], parameter="nu", path=tmp_path / "empty.png")
    with pytest.raises(ValueError, match="training has shape"):
        plots.plot_path([0.1], [2], [0.1, 0.2], parameter="nu", path=tmp_path / "path.png")


def test_bounds_of_other_rounds_are_refused(tmp_path):
    with pytest.raises(ValueError, match="upper has shape"):
        plots.plot_bounds([0.0], [1.0, 2.0], path=tmp_path / "gap.png", title="", quantity="")
