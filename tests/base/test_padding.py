"""Padded data sets: shapes, what is refused, and results that are those of the data set itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import learners
from jboost.base import padding


def _dataset(num_examples=40, num_features=5, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_examples, num_features))
    labels = np.where(features[:, 0] + 0.5 * rng.normal(size=num_examples) > 0, 1, -1)
    weights = rng.integers(1, 4, num_examples).astype(np.float32)
    return jboost.make_dataset(
        (features if dtype == np.float32 else features > 0).astype(dtype), labels, weights=weights
    )


def test_pad_dataset_adds_masked_examples_and_columns_of_zeros():
    for dtype in (np.float32, np.int32, np.bool_):
        dataset = _dataset(dtype=dtype)
        padded = jboost.pad_dataset(dataset, num_examples=48, num_features=8)
        assert padded.features.shape == (48, 8)
        assert [field.dtype for field in padded] == [field.dtype for field in dataset]
        np.testing.assert_array_equal(padded.features[:40, :5], dataset.features)
        assert not np.any(padded.features[40:])
        assert not np.any(padded.features[:, 5:])
        for field, own, filled in zip(padded[1:], dataset[1:], (1, 1, False), strict=True):
            np.testing.assert_array_equal(field[:40], own)
            assert np.all(np.asarray(field[40:]) == filled)
        jboost.validate(padded)


def test_pad_dataset_to_its_own_size_is_the_data_set():
    dataset = _dataset()
    assert jboost.pad_dataset(dataset) is dataset
    assert jboost.pad_dataset(dataset, num_examples=40, num_features=5) is dataset


def test_pad_dataset_of_nothing_and_under_vmap():
    empty = jboost.make_dataset(np.zeros((0, 0), np.float32), np.zeros(0, np.int32))
    assert jboost.pad_dataset(empty, num_examples=2, num_features=1).features.shape == (2, 1)
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), _dataset(seed=0), _dataset(seed=1))
    assert jax.vmap(lambda one: jboost.pad_dataset(one, num_examples=64))(batch).mask.shape == (
        2,
        64,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    (
        (
            {"num_examples": 39},
            "num_examples is 39, but the data set has 40 examples.*give 40 or more",
        ),
        (
            {"num_features": 4},
            "num_features is 4, but the data set has 5 columns of features.*give 5 or more",
        ),
        ({"num_examples": 40.0}, "num_examples is 40.0: expected an integer"),
        ({"num_features": True}, "num_features is True: expected an integer"),
    ),
)
def test_pad_dataset_refuses_sizes_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        jboost.pad_dataset(_dataset(), **options)


def test_pad_dataset_refuses_what_is_no_data_set():
    with pytest.raises(ValueError, match="dataset is a tuple: expected a jboost.Dataset"):
        jboost.pad_dataset((1, 2))


def test_shared_sizes_are_few_and_close():
    sizes = [padding.shared_size(size, least=16, doubles_to=128) for size in range(1, 5000)]
    assert all(shared >= size for size, shared in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert sorted(set(sizes))[:4] == [16, 32, 64, 128]
    assert max(shared / size for size, shared in enumerate(sizes, 1) if size > 128) <= 1.25
    assert len(set(sizes)) == 4 + 4 * 5 + 1  # up to 4096, and one above it
    fine = [padding.shared_size(size, steps=16) / size for size in range(16, 5000)]
    assert max(fine) <= 1 + 1 / 16
    assert padding.shared_size(0) == 1


def _fits():
    soft = jboost.relaxations.soft_margin(nu=0.3)
    stumps = learners.stumps()
    return {
        "adaboost": lambda data: jboost.adaboost.fit(data, stumps, max_rounds=8),
        "relaxed_margin": lambda data: jboost.relaxed_margin.fit(
            data, stumps, relaxation=soft, tolerance=0.01, max_rounds=40
        ),
        "lpboost": lambda data: jboost.lpboost.fit(data, stumps, nu=0.3, max_rounds=40),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", _fits())
def test_fits_of_padded_data_sets_are_those_of_the_data_sets(name):
    dataset = _dataset()
    fit = _fits()[name]
    plain, padded = fit(dataset), fit(jboost.pad_dataset(dataset, num_examples=48, num_features=8))
    assert int(plain.status) == int(padded.status)
    for ours, theirs in (
        (padded.certificate.lower_bound, plain.certificate.upper_bound),
        (plain.certificate.lower_bound, padded.certificate.upper_bound),
    ):
        assert ours <= theirs + 1e-6
    np.testing.assert_allclose(
        jboost.predict_scores(padded.ensemble, np.pad(dataset.features, ((0, 0), (0, 3)))),
        jboost.predict_scores(plain.ensemble, dataset.features),
        atol=0.05,
    )
