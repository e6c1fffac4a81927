"""Batches in chunks on a CPU: each member's own result, in its own place, on its own device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from jboost.base import batching, numerics


def halvings(limit, values):
    """How often a member's sum can be halved, and its values with this number added."""
    count, _ = lax.while_loop(
        lambda state: state[1] > limit,
        lambda state: (state[0] + 1, state[1] / 2),
        (jnp.float32(0), jnp.sum(values)),
    )
    return count, values + count


def expected(limits, batch):
    counts = np.maximum(np.ceil(np.log2(batch.sum(axis=1) / limits)), 0).astype(np.float32)
    return counts, batch + counts[:, None]


def problems(size):
    """Powers of two, so that the logarithms of `expected` are exact."""
    rows = np.array([[2.0 ** (index % 11)] * 4 for index in range(size)], np.float32)
    return np.full(size, 4.0, np.float32), rows.reshape(size, 4)


@pytest.mark.parametrize("at_once", [1, 3, None])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 11, 16, 24])
def test_each_member_gets_its_own_result_in_its_place(size, at_once):
    limits, batch = problems(size)
    run = batching.in_chunks(halvings, at_once=at_once)
    found = jax.jit(jax.vmap(run))(limits, batch)
    for one, other in zip(found, expected(limits, batch), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_empty_batch_is_empty():
    counts, values = jax.vmap(batching.in_chunks(halvings, at_once=1))(*problems(0))
    assert counts.shape == (0,)
    assert values.shape == (0, 4)


def test_a_batch_of_batches_and_an_argument_that_all_share():
    limits, batch = problems(15)
    run = jax.vmap(jax.vmap(batching.in_chunks(halvings, at_once=1), (None, 0)), (None, 0))
    counts, values = jax.jit(run)(np.float32(4), batch.reshape(3, 5, 4))
    own = expected(limits, batch)
    np.testing.assert_array_equal(counts.reshape(15), own[0])
    np.testing.assert_array_equal(values.reshape(15, 4), own[1])


@pytest.mark.parametrize(("num_devices", "size"), [(8, 8), (8, 24), (4, 12), (2, 6)])
def test_a_batch_that_an_auto_mesh_shards_stays_on_its_devices(num_devices, size):
    mesh = jax.make_mesh(
        (num_devices,),
        ("sets",),
        axis_types=(jax.sharding.AxisType.Auto,),
        devices=jax.devices()[:num_devices],
    )
    given = problems(size)
    sharded = jax.device_put(given, NamedSharding(mesh, PartitionSpec("sets")))
    run = jax.jit(jax.vmap(batching.in_chunks(halvings, at_once=1)))
    compiled = run.lower(*sharded).compile()
    assert "all-gather" not in compiled.as_text()
    for one, other in zip(compiled(*sharded), expected(*given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_batching_rule_keeps_the_64_bits_of_the_scope_it_was_traced_in():
    """A jit within the scope is batched after the scope has ended."""
    inner = jax.jit(batching.in_chunks(lambda value: value + 2.0**-40, at_once=1))

    def run(value):
        return numerics.in_64_bits(
            lambda value: (inner(value.astype(jnp.float64)) - value > 0).astype(jnp.float32)
        )(value)

    found = jax.jit(jax.vmap(run))(np.ones(3, np.float32))
    np.testing.assert_array_equal(found, np.ones(3))
