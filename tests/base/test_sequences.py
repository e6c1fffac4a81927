"""Running values, search in sequences, and work on marked places, against numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost.base import sequences

SIZES = (1, 2, 15, 16, 17, 500)


@pytest.mark.parametrize("size", SIZES)
def test_running_max_is_that_of_numpy(size):
    values = np.random.default_rng(size).normal(size=(3, size)).astype(np.float32)
    values[0, size // 2] = -np.inf
    found = jax.jit(sequences.running_max)(values)
    np.testing.assert_array_equal(found, np.maximum.accumulate(values, axis=1))


@pytest.mark.parametrize("size", SIZES)
def test_running_count_is_that_of_numpy(size):
    mask = np.random.default_rng(size).random((2, size)) < 0.3
    found = jax.jit(sequences.running_count)(mask)
    np.testing.assert_array_equal(found, np.cumsum(mask, axis=1))


@pytest.mark.parametrize("size", SIZES)
def test_first_reaching_is_searchsorted(size):
    random = np.random.default_rng(size)
    values = np.sort(random.integers(0, 9, size + 3))
    wanted = np.arange(-1, 12)
    found = jax.jit(lambda *them: sequences.first_reaching(them[0], 3, size, them[1]))(
        values, wanted
    )
    expected = np.minimum(np.searchsorted(values[3:], wanted), size - 1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
@pytest.mark.parametrize("size", [3, 128, 129, 1000])
def test_over_marked_evaluates_the_marked_places_alone(size, share):
    masks = np.random.default_rng(size).random((3, size)) < share
    values = np.arange(1, size + 1, dtype=np.int32)

    def squares(mask):
        return sequences.over_marked(
            mask, lambda places: jnp.asarray(values)[places] ** 2, jnp.int32(-1)
        )

    found = jax.jit(jax.vmap(squares))(masks)
    np.testing.assert_array_equal(found, np.where(masks, values**2, -1))
