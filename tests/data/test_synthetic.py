"""Moments, reproducibility and transformations of the synthetic data sets."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.data import synthetic

SIZE = 20_000
GENERATORS = (synthetic.ripley_mixture, synthetic.two_gaussians, synthetic.random_labels)
FOUR_SIGMA = 4 / np.sqrt(SIZE / 2)  # of the mean of a class, for unit variance


def classes(dataset):
    features, labels = np.asarray(dataset.features), np.asarray(dataset.labels)
    return features[labels < 0], features[labels > 0]


@pytest.mark.slow
def test_ripley_has_its_moments():
    negative, positive = classes(synthetic.ripley_mixture(jax.random.key(1), SIZE))
    for points, centres in (
        (negative, [[-0.7, 0.3], [0.3, 0.3]]),
        (positive, [[-0.3, 0.7], [0.4, 0.7]]),
    ):
        centres = np.array(centres)
        variance = 0.03 + centres.var(axis=0)
        np.testing.assert_allclose(
            points.mean(axis=0), centres.mean(axis=0), atol=FOUR_SIGMA * np.sqrt(variance.max())
        )
        np.testing.assert_allclose(points.var(axis=0), variance, rtol=0.06)
    assert abs(len(positive) / SIZE - 0.5) < FOUR_SIGMA


@pytest.mark.slow
def test_two_gaussians_have_their_moments():
    negative, positive = classes(synthetic.two_gaussians(jax.random.key(2), SIZE, separation=3.0))
    np.testing.assert_allclose(negative.mean(axis=0), [-1.5, 0], atol=FOUR_SIGMA)
    np.testing.assert_allclose(positive.mean(axis=0), [1.5, 0], atol=FOUR_SIGMA)
    np.testing.assert_allclose(np.cov(positive.T), np.eye(2), atol=0.06)


def test_random_labels_say_nothing():
    dataset = synthetic.random_labels(jax.random.key(3), SIZE)
    assert np.abs(np.asarray(dataset.features)).max() <= 1
    for points in classes(dataset):
        np.testing.assert_allclose(points.mean(axis=0), 0, atol=FOUR_SIGMA)
        np.testing.assert_allclose(points.var(axis=0), 1 / 3, rtol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("generate", GENERATORS)
def test_a_key_decides_and_a_batch_of_keys_is_a_loop(generate):
    keys = jax.random.split(jax.random.key(0), 2)
    batch = jax.vmap(generate, in_axes=(0, None))(keys, 16)
    assert batch.features.shape == (2, 16, 2)
    for index, key in enumerate(keys):
        single = generate(key, 16)
        jboost.validate(single)
        np.testing.assert_array_equal(single.labels, batch.labels[index])
        np.testing.assert_allclose(single.features, batch.features[index], rtol=1e-6)
    assert not jnp.array_equal(batch.features[0], batch.features[1])


@pytest.mark.parametrize("generate", GENERATORS)
def test_sizes(generate):
    assert generate(jax.random.key(0), 0).features.shape == (0, 2)
    with pytest.raises(ValueError, match="num_examples is -1"):
        generate(jax.random.key(0), -1)


THRESHOLDS = (
    synthetic.r_of_k(1, 4),
    synthetic.r_of_k(4, 4),
    *(synthetic.random_threshold(jax.random.key(seed), 5) for seed in range(4)),
    synthetic.random_threshold(jax.random.key(0), 1, largest=1),
)


@pytest.mark.parametrize("function", THRESHOLDS)
def test_threshold_function_has_the_margin_and_bias_of_the_cube(function):
    coefficients = np.asarray(function.coefficients, float)
    k, total = len(coefficients), coefficients.sum()
    cube = np.array(list(itertools.product((0, 1), repeat=k)))
    scores = (2 * cube - 1) @ (coefficients / total) + 1 - float(function.bias)
    assert np.abs(scores).min() == pytest.approx(float(function.margin), abs=1e-6)
    expected = np.where(cube @ coefficients >= int(function.threshold), 1, -1)
    np.testing.assert_array_equal(np.sign(scores), expected)
    np.testing.assert_array_equal(synthetic.threshold_labels(function, cube), expected)


@pytest.mark.parametrize("function", THRESHOLDS)
def test_threshold_examples_stand_next_to_the_border(function):
    k = len(function.coefficients)
    dataset = synthetic.threshold_examples(jax.random.key(1), function, 400, num_features=7)
    features = np.asarray(dataset.features)
    assert features.shape == (400, 7)
    assert features.dtype == bool
    np.testing.assert_array_equal(dataset.labels, synthetic.threshold_labels(function, features))
    sums = features[:, :k] @ np.asarray(function.coefficients)
    largest = int(function.coefficients.max())
    assert (np.abs(sums - int(function.threshold) + 0.5) < largest).all()
    assert abs((np.asarray(dataset.labels) > 0).mean() - 0.5) < 0.12
    assert (np.abs(features[:, k:].mean(axis=0) - 0.5) < 0.12).all()


def test_threshold_examples_of_r_of_k_draw_every_subset_alike():
    dataset = synthetic.threshold_examples(jax.random.key(2), synthetic.r_of_k(2, 4), SIZE)
    negative, positive = classes(dataset)
    for rows, size in ((negative, 1), (positive, 2)):
        assert (rows.sum(axis=1) == size).all()
        _, counts = np.unique(rows, axis=0, return_counts=True)
        share = 1 / len(counts)
        assert len(counts) == math.comb(4, size)
        assert np.abs(counts / len(rows) - share).max() < 4 * np.sqrt(share / len(rows))


def test_threshold_sizes():
    function = synthetic.r_of_k(1, 3)
    assert synthetic.threshold_examples(jax.random.key(0), function, 0).features.shape == (0, 3)
    with pytest.raises(ValueError, match="r is 4, and k is 3"):
        synthetic.r_of_k(4, 3)
    with pytest.raises(ValueError, match="num_features is 2"):
        synthetic.threshold_examples(jax.random.key(0), function, 5, num_features=2)
    with pytest.raises(ValueError, match="features have 2 columns: expected at least 3"):
        synthetic.threshold_labels(function, np.zeros((1, 2)))
    with pytest.raises(ValueError, match="k is 0"):
        synthetic.random_threshold(jax.random.key(0), 0)
