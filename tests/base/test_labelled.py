"""Labels and weights that are known, traced, spread over devices, or in arrays of NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.base import labelled
from jboost.data import merging

WEIGHTS = np.array([1, 0, 2, 1, 1, 1, 0, 3], np.float32)
MASK = np.array([True, True, True, False, True, True, False, True])
WITHOUT = [True, False, True, False, True, True, False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_weights_of_0_are_masked_out_traced_or_not(dtype):
    for find in (labelled.without_zeros, jax.jit(labelled.without_zeros)):
        assert find(WEIGHTS.astype(dtype), MASK).tolist() == WITHOUT
        assert find(jnp.asarray(WEIGHTS, dtype), jnp.asarray(MASK)).tolist() == WITHOUT
        # which is seen as input that is not allowed
        assert find(np.zeros(8, dtype), MASK).tolist() == MASK.tolist()
        assert find(np.zeros(0, dtype), MASK[:0]).tolist() == []
    assert labelled.without_zeros(np.array([np.nan, -1.0]), np.ones(2, bool)).tolist() == [
        True,
        True,
    ]


def test_weights_that_are_spread_over_devices_stay_so():
    mesh = jax.make_mesh((8,), ("examples",))
    spread = jax.NamedSharding(mesh, jax.P("examples"))
    with jax.set_mesh(mesh):
        weights, mask = jax.device_put(WEIGHTS, spread), jax.device_put(MASK, spread)
        assert labelled.without_zeros(weights, mask).sharding == spread
        for of_mask in (mask, jnp.asarray(MASK)):
            assert labelled.without_zeros(weights, of_mask).tolist() == WITHOUT
            assert jax.jit(labelled.without_zeros)(weights, of_mask).tolist() == WITHOUT


def test_a_data_set_of_numpy_arrays_counts_as_one_of_jax():
    features, labels = np.zeros((8, 2), np.float32), np.where(MASK, 1, -1)
    dataset = jboost.Dataset(features, labels, WEIGHTS, MASK)
    assert labelled.counted(dataset).mask.tolist() == WITHOUT
    with pytest.raises(ValueError, match=r"labels\[0\] is 5"):
        labelled.counted(dataset._replace(labels=np.full(8, 5)))
    labelled.counted(dataset._replace(labels=np.where(WITHOUT, labels, 7)))  # they do not count


@pytest.mark.parametrize("labels", [[0, 1] * 4, [1.0, np.nan] * 4])
def test_labels_that_are_traced_are_not_looked_at(labels):
    jax.eval_shape(
        lambda labels: labelled.counted(jboost.make_dataset(np.zeros((8, 1)), labels)),
        np.array(labels),
    )
    with pytest.raises(ValueError, match="labels are -1 or"):
        labelled.counted(jboost.make_dataset(np.zeros((8, 1)), labels))


def test_equal_examples_of_weight_0_are_left_out():
    dataset = jboost.make_dataset([[1], [0], [1], [2]], [1, -1, 1, 7], weights=[1.0, 2.0, 3.0, 0.0])
    merged = merging.merge_equal(dataset)
    assert merged.dataset.weights.tolist() == [4, 2]
    assert merged.row_of.tolist() == [0, 1, 0, -1]
    jboost.validate(dataset)
