"""Scores by the sampling scheme of Section 2, against the closed forms of the kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import example_weights, kernels

NUM_DRAWS = 4000
RNG = np.random.default_rng(2)
POINTS, LABELS = RNG.normal(size=(6, 2)).astype(np.float32), np.array([1, -1, 1, 1, -1, 0])
WEIGHTS = np.array([0.4, 0.3, 0.2, 0.0, 0.1, 0.0], np.float32)
CENTRE = np.array([0.5, -1.0], np.float32)
FEATURES = np.concatenate([POINTS[:2], RNG.normal(size=(3, 2)), np.zeros((1, 2))]) + CENTRE
KERNELS = {
    "hyperplanes": kernels.hyperplanes(5.0),
    "isotropic hyperplanes": kernels.isotropic_hyperplanes(7.0),
    "central hyperplanes": kernels.central_hyperplanes(),
    "stumps": kernels.stumps([-4.0, -5.0], [4.0, 6.0]),
}


def model_of(kernel, weights=WEIGHTS):
    zero, none = jnp.zeros(()), jnp.zeros((), jnp.int32)
    signed = weights * LABELS
    return example_weights.ExampleWeightModel(
        kernel=kernel,
        centre=jnp.asarray(CENTRE),
        points=jnp.asarray(POINTS),
        labels=jnp.asarray(LABELS, jnp.float32),
        example_weights=jnp.asarray(weights),
        row_weights=jnp.asarray(weights),
        bias=jnp.asarray(0.5 * signed.sum(), jnp.float32),
        penalty=zero,
        lower_bound=zero,
        upper_bound=zero,
        num_support=none,
        num_iterations=none,
        status=none,
    )


@pytest.mark.parametrize("name", KERNELS)
def test_sampled_scores_are_those_of_the_closed_form(name):
    model = model_of(KERNELS[name])
    sampled = example_weights.sample_scores(model, FEATURES, jax.random.key(5), num_draws=NUM_DRAWS)
    expected = np.asarray(jboost.predict_scores(model, FEATURES))
    errors = np.asarray(sampled.standard_errors)
    assert (errors <= 0.5 / np.sqrt(NUM_DRAWS - 1) * 1.001).all()
    assert (np.abs(np.asarray(sampled.scores) - expected) < 4 * errors + 1e-6).all()
    assert np.abs(expected).max() > 4 * errors.max()  # the check can fail


def test_a_point_of_all_the_weight_has_its_label():
    weights = np.eye(6, dtype=np.float32)[1]
    model = model_of(KERNELS["hyperplanes"], weights)
    sampled = example_weights.sample_scores(model, FEATURES, jax.random.key(0), num_draws=NUM_DRAWS)
    assert sampled.scores[1] == -0.5
    assert sampled.standard_errors[1] == 0


def test_the_number_of_draws_is_not_rounded_to_that_of_a_step():
    model = model_of(KERNELS["hyperplanes"])
    sampled = example_weights.sample_scores(model, FEATURES, jax.random.key(1), num_draws=3)
    halves = np.asarray(sampled.scores) * 6
    np.testing.assert_allclose(halves, np.round(halves), atol=1e-5)
    assert set(np.round(halves).astype(int)) <= {-3, -1, 1, 3}


def test_a_model_without_weights_has_no_scores():
    model = model_of(KERNELS["hyperplanes"], np.zeros(6, np.float32))
    sampled = example_weights.sample_scores(model, FEATURES, jax.random.key(1), num_draws=3)
    assert np.isnan(sampled.scores).all()


def one_threshold(scale, a, b):
    return jnp.abs(a[:, None, 0] - b[None, :, 0]) / scale


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"num_draws": 1}, "num_draws is 1"),
        ({"key": 3}, "key is 3"),
        ({"features": np.zeros((2, 3))}, "features"),
        ({"model": "mine"}, "model is a str"),
        ({"model": model_of(kernels.custom(one_threshold, 9.0))}, "draws no hypotheses"),
    ],
)
def test_bad_input_is_named(changed, text):
    given = {"model": model_of(KERNELS["hyperplanes"]), "features": FEATURES}
    given |= {"key": jax.random.key(0), "num_draws": 10} | changed
    with pytest.raises(ValueError, match=text):
        example_weights.sample_scores(
            given["model"], given["features"], given["key"], num_draws=given["num_draws"]
        )
