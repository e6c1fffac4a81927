"""`ExampleWeightsClassifier`, whose rows and columns are padded, against the functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
import jboost.sklearn as js
from jboost.example_weights import recompute_bounds
from jboost.example_weights.defaults import measure_for
from jboost.sklearn import tables
from jboost.sklearn.example_weights import _with_more_columns


def noisy(num_columns):
    generator = np.random.default_rng(num_columns)
    X = generator.normal(size=(40, num_columns)).astype(np.float32)
    return X, (X[:, 0] + 0.3 * generator.normal(size=40) > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("num_columns, measure", [(1, "auto"), (3, "auto"), (2, "isotropic")])
def test_example_weights_equal_those_of_the_function(num_columns, measure):
    X, y = noisy(num_columns)
    model = js.ExampleWeightsClassifier(penalty=0.1, measure=measure, calibration=None).fit(X, y)
    rows = tables.sort(X.astype(float), y)
    points = rows.table.astype(np.float32)
    kernel, centre = measure_for(points, measure)
    expected = jboost.example_weights.fit(
        points, rows.signs(1), penalty=0.1, kernel=kernel, centre=centre
    )
    scores = jboost.predict_scores(expected, X)
    tolerance = 0.01 * float(abs(scores).max())  # of the bounds, with ends of the same optimum
    np.testing.assert_allclose(model.decision_function(X), scores, atol=tolerance)
    bounds = model.certificate_
    assert bounds.lower_bound <= float(expected.upper_bound) * (1 + 1e-6)
    assert bounds.upper_bound >= float(expected.lower_bound) * (1 - 1e-6)
    assert model.predict(X).tolist() == (np.asarray(scores) > 0).astype(int).tolist()


@pytest.mark.slow
def test_bounds_are_those_of_the_weights_and_the_columns_of_the_data():
    X, y = noisy(4)
    model = js.ExampleWeightsClassifier(penalty=0.1, calibration=None).fit(X, y)
    (vote,) = model.votes_
    assert vote.model.points.shape[1] == len(vote.model.centre) == 4
    assert type(vote.model.kernel) is jboost.kernels.IsotropicHyperplanes
    lower, upper = recompute_bounds(vote.model)
    assert (float(lower), float(upper)) == pytest.approx(tuple(model.certificate_), rel=1e-6)


def test_columns_of_zeros_change_no_distance():
    X, _ = noisy(4)
    points, centre = X - X.mean(axis=0), X.mean(axis=0)
    wide, kernel, wide_centre = _with_more_columns(
        points, jboost.kernels.isotropic_hyperplanes(3.0), centre
    )
    assert wide.shape == (40, 16)
    assert wide_centre[4:].tolist() == [0.0] * 12
    distances = np.linalg.norm((points[:, None] - points[None]).astype(np.float64), axis=-1)
    of_direction = 4 / (3 * np.pi)  # the mean of |u_1| of a unit vector in four columns
    np.testing.assert_allclose(
        kernel.disagreement(jnp.asarray(wide), jnp.asarray(wide)),
        of_direction * distances / (2 * 3.0),
        rtol=1e-5,
        atol=1e-7,
    )
    with pytest.raises(ValueError, match="draws no hypotheses"):
        kernel.draw(jax.random.key(0), jnp.asarray(wide))
