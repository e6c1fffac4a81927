"""Measures for many columns: the estimator in float32 against HiGHS; what underflow is called."""

import jax
import numpy as np
import pytest

from jboost import example_weights, kernels
from jboost.base.status import Status
from jboost.example_weights import defaults
from jboost.sklearn import ExampleWeightsClassifier
from tests.oracles import example_weights as oracle

NUM_ROWS, NUM_COLUMNS = 64, 30


def two_classes(num_columns=NUM_COLUMNS):
    """Standardised columns whose sum shows the class, with noise."""
    rng = np.random.default_rng(4)
    labels = np.where(np.arange(NUM_ROWS) % 2 == 0, 1, -1)
    points = rng.normal(size=(NUM_ROWS, num_columns)) + 0.5 * labels[:, None]
    return points.astype(np.float32), np.where(np.arange(NUM_ROWS) < 3, -labels, labels)


def distances(points, radius):
    """P of isotropic hyperplanes in float64, with the mean of |u_1| by the recurrence
    kappa_d kappa_(d+1) = 2 / (pi d).
    """
    kappa = 1.0
    for dimension in range(1, points.shape[1]):
        kappa = 2 / (np.pi * dimension * kappa)
    wide = points.astype(np.float64)
    apart = np.sqrt(((wide[:, None] - wide[None, :]) ** 2).sum(axis=2))
    return kappa * apart / (2 * radius)


def test_thirty_columns_have_a_margin_in_float32():
    points, labels = two_classes()
    fitted = ExampleWeightsClassifier(penalty=0.1, calibration=None).fit(points, labels)
    (vote,) = fitted.votes_
    model = vote.model
    assert model.points.dtype == np.float32
    assert Status(vote.status) is Status.OPTIMAL
    live = np.asarray(model.labels) != 0
    exact = distances(np.asarray(model.points)[live], float(model.kernel.radius))
    best = oracle.solve(exact, np.asarray(model.labels)[live], 0.1).objective
    assert vote.certificate.lower_bound <= best * (1 + 1e-4)
    assert vote.certificate.upper_bound >= best * (1 - 1e-4)
    assert vote.certificate.lower_bound >= 0.98 * best > 0
    assert fitted.score(points, labels) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True])
def test_breast_cancer_has_a_margin(wide):
    datasets = pytest.importorskip("sklearn.datasets")
    points, labels = datasets.load_breast_cancer(return_X_y=True)
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    with jax.enable_x64(wide):
        fitted = ExampleWeightsClassifier(penalty=3 / 569, calibration=None).fit(points, labels)
    assert Status(fitted.votes_[0].status) is Status.OPTIMAL
    assert fitted.votes_[0].certificate.lower_bound > 1e-3
    assert fitted.score(points, labels) > 0.9


@pytest.mark.slow
def test_underflow_of_the_measure_is_not_called_a_lack_of_edge():
    """All probabilities of the cube are below the least normal float32."""
    points, labels = two_classes(60)
    centre, radius = defaults.smallest_cube(points)
    kernel = kernels.hyperplanes(radius)
    assert np.asarray(kernel.underflows(points - centre)).all()
    model = example_weights.fit(points, labels, penalty=0.1, kernel=kernel, centre=centre)
    assert Status(int(model.status)) is Status.PRECISION_LIMIT
    assert float(model.lower_bound) <= 0 <= float(model.upper_bound)


def test_points_near_the_origin_underflow_under_the_cube():
    points = np.array([[0.0, 0.0], [1e-25, 0.0], [1.0, 2.0]], np.float32)
    assert kernels.hyperplanes(4.0).underflows(points).tolist() == [False, True, False]
    assert not np.asarray(kernels.isotropic_hyperplanes(4.0).underflows(points)).any()


@pytest.mark.parametrize("name", ["auto", "cube", "isotropic"])
@pytest.mark.parametrize("num_columns", [1, 2, 5])
def test_measure_holds_all_points(name, num_columns):
    points = two_classes(num_columns)[0]
    kernel, centre = defaults.measure_for(points, name)
    assert np.asarray(kernel.is_inside(points - centre)).all()
    assert (type(kernel) is kernels.Hyperplanes) == (
        name == "cube" or (name == "auto" and num_columns <= 2)
    )
    assert float(defaults.measure_for(points, name, 7.0).kernel.radius) == 7.0
    equal = np.ones((3, num_columns), np.float32)
    assert float(defaults.measure_for(equal, name).kernel.radius) == 1.0


@pytest.mark.parametrize("name", defaults.WITHOUT_RADIUS)
@pytest.mark.parametrize("num_columns", [1, 5])
def test_measures_without_a_radius_hold_all_points(name, num_columns):
    points = two_classes(num_columns)[0]
    for scale in (1e-20, 1.0, 1e30):
        scaled = (points * scale).astype(np.float32)
        kernel, centre = defaults.measure_for(scaled, name)
        assert np.asarray(kernel.is_inside(scaled - centre)).all()
        apart = np.asarray(kernel.disagreement(scaled - centre, scaled - centre))
        assert ((apart >= 0) & (apart <= 1)).all()
        assert apart.max() > 0.4
    equal = np.ones((3, num_columns), np.float32)
    kernel, centre = defaults.measure_for(equal, name)
    assert np.asarray(kernel.is_inside(equal - centre)).all()
    with pytest.raises(ValueError, match=f"radius is 2, and the measure {name} has none"):
        defaults.measure_for(points, name, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", defaults.WITHOUT_RADIUS)
def test_the_estimator_takes_measures_without_a_radius(name):
    points, labels = two_classes(5)
    fitted = ExampleWeightsClassifier(penalty=0.1, measure=name, calibration=None)
    assert fitted.fit(points, labels).score(points, labels) > 0.75
    with pytest.raises(ValueError, match=f"radius is 2, and the measure {name} has none"):
        ExampleWeightsClassifier(penalty=0.1, measure=name, radius=2.0).fit(points, labels)


def test_measure_of_the_estimator_is_one_of_three():
    with pytest.raises(ValueError, match="measure is 'ball': expected one of auto, cube, isotrop"):
        ExampleWeightsClassifier(measure="ball", penalty=0.5).fit(np.eye(4), [0, 1, 0, 1])
