"""Batches of nodes that are divided over the devices of a mesh: each works on its part, and results
are those of one device.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import jboost
from jboost.monomials import expand, instance
from jboost.monomials.batches import by_node
from marks import slow
from placing import mesh_of, put


@pytest.mark.parametrize("batch", [8, slow(5)])
def test_each_device_gets_its_columns_and_all_get_the_results(batch):
    columns, shift, parts = np.arange(2 * batch).reshape(2, batch), np.arange(3), []

    def work(columns, shift):
        parts.append(columns.shape)
        return columns[:1] + shift[:, None], columns[1:] ** 2

    run = functools.partial(by_node, work)
    alone = run((jnp.asarray(columns),), (shift,))
    with jax.set_mesh(mesh_of(4, kind=AxisType.Auto)):
        found = jax.jit(run)((columns,), (shift,))
    assert parts[:1] + parts[-1:] == [(2, batch), (2, 2)]
    for one, other in zip(found, alone, strict=True):
        assert np.array_equal(one, other)
        assert one.sharding.is_fully_replicated


@pytest.mark.exhaustive
def test_products_of_a_batch_take_an_eighth_of_the_work():
    rng = np.random.default_rng(0)
    covers = instance.literals_of(jnp.asarray(rng.integers(0, 2, (2, 64, 30)), jnp.float32), None)
    both, _ = instance.make(
        covers, jnp.ones((2, 64), jnp.int32), None, jnp.zeros(4, jnp.int32), jnp.ones(30, bool)
    )
    one = instance.of_sign(both, jnp.int32(0))
    nodes = jax.tree.map(lambda leaf: jnp.tile(leaf, (64, 1)), expand.root(one))

    def flops():
        return jax.jit(expand.measure).lower(one, nodes).compile().cost_analysis()["flops"]

    alone = flops()
    with jax.set_mesh(mesh_of(8, kind=AxisType.Auto)):
        assert flops() < 0.2 * alone


def random_problem(num_examples, num_attributes, seed=0):
    rng = np.random.default_rng([seed, num_examples])
    features = rng.integers(0, 2, (num_examples, num_attributes)).astype(np.float32)
    labels = rng.choice([-1, 1], num_examples)
    return features, labels, rng.integers(1, 9, num_examples).astype(np.float32)


@pytest.mark.exhaustive
@pytest.mark.parametrize("num_devices", [2, 3, 8])
@pytest.mark.parametrize("case", ["plain", "narrow", "rewards", "jit"])
def test_monomials_on_a_mesh_are_those_of_one_device(case, num_devices):
    """The number of nodes, too: every step is that of one device."""
    sizes = {"plain": (96, 12), "narrow": (96, 40), "rewards": (48, 8), "jit": (48, 8)}
    arrays = random_problem(*sizes[case])
    options = {"max_order": None, "config": jboost.monomials.SearchConfig(num_best=4, narrow=8)}
    if case == "rewards":
        rewards = np.random.default_rng(1).random((48, 48)) < 0.1
        options["pair_weights"] = rewards.astype(np.float32)
    solve = functools.partial(jboost.monomials.maximum_agreement, **options)
    solve = jax.jit(solve) if case == "jit" else solve
    one = solve(*arrays)
    assert int(one.num_nodes) > 1
    mesh = mesh_of(num_devices, kind=AxisType.Auto)
    found = solve(*(put(array, mesh) for array in arrays))
    for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(one), strict=True):
        assert np.array_equal(leaf, other)
