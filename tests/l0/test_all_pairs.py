"""The relaxation over all pairs at once: optima by HiGHS, certificates in rational arithmetic,
memory of the compiled program, iterations, meshes.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from benchmarks.l0_relaxation import make_pool
from jboost import l0
from jboost.base.status import Status
from jboost.l0 import relaxation
from jboost.l0.relaxation import all_pairs, solve
from oracles import l0 as oracle

LISTED = l0.RelaxationConfig(solver=l0.AllPairsConfig(block_bytes=2_000))
VECTORS = l0.RelaxationConfig(solver=l0.AllPairsConfig(block_bytes=2_000, lists_pairs=False))


def small_pool(seed, examples=16, columns=7, abstains=False):
    """Ties, two equal columns, free constants."""
    random = np.random.default_rng(seed)
    labels = np.where(np.arange(examples) % 3 == 0, 1, -1)
    outputs = np.where(random.random((examples, columns)) < 0.65, labels[:, None], -labels[:, None])
    if abstains:
        outputs[random.random(outputs.shape) < 0.3] = 0
    outputs[:, 0], outputs[:, 1], outputs[:, 4], outputs[1] = 1, -1, outputs[:, 3], outputs[0]
    return outputs, labels, np.r_[0, 0, random.uniform(0.2, 1.0, columns - 2)]


def assert_proven(solved, pool, margin, weights, optimum, mask=None):
    pairs, pair_weights = l0.list_pairs(solved, pool[1], mask=mask)
    assert solved.lower_bound <= optimum + 1e-9
    assert solved.upper_bound >= optimum - 2e-8
    assert oracle.proven(
        *pool, margin, weights, solved.example_weights, pairs, pair_weights
    ) >= float(solved.lower_bound)
    kept = weights > 0
    point = solved.coefficients, solved.selected, solved.slacks[kept]
    assert oracle.attained(
        pool[0][kept], pool[1][kept], pool[2], margin, weights[kept], *point
    ) <= float(solved.upper_bound)


@pytest.mark.slow
@pytest.mark.parametrize("abstains", [False, True], ids=["signs", "abstaining"])
@pytest.mark.parametrize("config", [LISTED, VECTORS], ids=["listed", "vectors"])
def test_all_pairs_match_highs_and_their_certificates_hold(config, abstains, x64):
    margin = 0.25
    for seed in range(4):
        pool = small_pool(seed, abstains=abstains)
        weights = np.where(
            np.arange(16) % 5 == 2, 0.0, np.random.default_rng(seed).integers(1, 4, 16)
        )
        solved = jax.device_get(
            l0.solve_relaxation(
                *pool, margin=margin, weights=weights, tolerance=1e-5, config=config
            )
        )
        kept = weights > 0
        optimum = oracle.optimum(pool[0][kept], pool[1][kept], pool[2], margin, weights[kept])
        assert int(solved.status) == Status.OPTIMAL
        assert solved.upper_bound - solved.lower_bound <= 1.001e-5 * max(optimum, weights.max())
        assert_proven(solved, pool, margin, weights, optimum, kept)


@pytest.mark.slow
def test_all_pairs_of_one_class_and_of_either_cuts(x64):
    outputs, labels, costs = small_pool(3, abstains=True)
    one_class = l0.solve_relaxation(
        outputs, np.ones(16), costs, margin=0.25, tolerance=1e-5, config=VECTORS
    )
    assert int(one_class.status) == Status.OPTIMAL
    assert int(one_class.num_cuts) == 0
    optimum = oracle.optimum(outputs, np.ones(16), costs, 0.25)
    assert one_class.lower_bound <= optimum + 1e-9 <= one_class.upper_bound + 2e-9
    config = l0.RelaxationConfig(cuts="either", solver=VECTORS.solver)
    either = l0.solve_relaxation(outputs, labels, costs, margin=0.25, tolerance=1e-5, config=config)
    optimum = oracle.optimum(outputs, labels, costs, 0.25, helps=oracle.tell_apart)
    assert int(either.status) == Status.OPTIMAL
    assert either.lower_bound <= optimum + 1e-9 <= either.upper_bound + 2e-9


@pytest.mark.slow
def test_all_pairs_take_a_third_of_the_iterations():
    """The method of `jboost.lp.first_order` over all pairs took 13,960 iterations to this gap, and
    11,280 in another version.
    """
    pool = make_pool("stumps", 100, 20)
    solved = l0.solve_relaxation(
        *pool, margin=0.2, tolerance=4e-5, config=l0.RelaxationConfig(solver=l0.AllPairsConfig())
    )
    assert int(solved.status) == Status.OPTIMAL
    assert float(solved.upper_bound - solved.lower_bound) <= 4.001e-5 * float(solved.upper_bound)
    assert int(solved.num_iterations) <= 3_760


def compiled(outputs, labels, costs, config):
    """The program, and the bytes of a vector of pairs."""
    data = relaxation.validate_program(
        outputs, labels, costs, weights=None, mask=None, column_mask=None
    )
    bits = relaxation.validate_features(None, data[4], config)
    layout = all_pairs.known_layout(config, data[0], data[1], data[4])
    numbers = jnp.asarray(0.1), jnp.asarray(1e-3)
    program = solve._solve.lower(
        (*data, bits), *numbers, None, config=config, layout=layout
    ).compile()
    return program, 4 * math.prod(layout.shape)


@pytest.mark.slow
def test_all_pairs_hold_three_vectors_and_a_block():
    random, examples, columns, block = np.random.default_rng(0), 2_000, 16, 2_000_000
    labels = np.where(np.arange(examples) % 2 == 0, 1, -1)
    outputs = np.where(
        random.random((examples, columns)) < 0.6, labels[:, None], -labels[:, None]
    ).astype(np.float32)
    solver = l0.AllPairsConfig(block_bytes=block, lists_pairs=False)
    config = l0.RelaxationConfig(max_pair_entries=block // 24, solver=solver)
    program, vector = compiled(outputs, labels, np.ones(columns, np.float32), config)
    found = program.memory_analysis()
    held = found.temp_size_in_bytes + found.output_size_in_bytes
    assert vector >= 4 * 1_000 * 1_000
    assert held <= 3.02 * vector + block + 20 * outputs.size * 4


@pytest.mark.slow
def test_a_start_from_a_vector_of_pairs_goes_on(x64):
    pool = small_pool(5)
    fit = functools.partial(l0.solve_relaxation, *pool, margin=0.25, config=VECTORS)
    before = fit(tolerance=1e-2)
    cold, warm = fit(tolerance=1e-6), fit(tolerance=1e-6, initial=before)
    assert warm.pair_weights.shape == before.pair_weights.shape
    assert float(warm.lower_bound) >= float(before.lower_bound) - 1e-9
    assert int(warm.num_iterations) <= int(cold.num_iterations)
    listed = l0.solve_relaxation(*pool, margin=0.25)
    assert int(fit(tolerance=1e-3, initial=listed).num_iterations) == 0
    with pytest.raises(ValueError, match="initial has pair weights of shape"):
        l0.solve_relaxation(*pool, margin=0.25, initial=before)


@pytest.mark.slow
def test_vectors_of_pairs_are_divided_over_a_mesh():
    pool = [np.asarray(part, np.float32) for part in small_pool(7, examples=402, columns=5)]
    config = l0.RelaxationConfig(solver=l0.AllPairsConfig(block_bytes=100_000, lists_pairs=False))
    fit = functools.partial(l0.solve_relaxation, margin=0.25, tolerance=1e-2, config=config)
    alone = fit(*pool)
    mesh = jax.make_mesh(
        (4,), ("examples",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,)
    )
    by_rows, whole = (
        NamedSharding(mesh, PartitionSpec("examples")),
        NamedSharding(mesh, PartitionSpec()),
    )
    # a multiple of four, of two copies
    pool = [np.concatenate([part, part[:2]]) for part in pool[:2]] + pool[2:]
    weights = np.r_[0.5, 0.5, np.ones(400), 0.5, 0.5].astype(np.float32)
    outputs, labels, weights = (jax.device_put(part, by_rows) for part in (*pool[:2], weights))
    together = fit(outputs, labels, jax.device_put(pool[2], whole), weights=weights)
    assert int(alone.status) == int(together.status) == Status.OPTIMAL
    assert together.lower_bound <= alone.upper_bound
    assert alone.lower_bound <= together.upper_bound
    for vector in (together.pair_weights, together.warm.dual.pair_weights):
        assert {shard.data.shape[0] for shard in vector.addressable_shards} == {
            vector.shape[0] // 4
        }


def test_what_all_pairs_do_not_take():
    for options in ({"block_bytes": 0}, {"lists_pairs": 1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            l0.AllPairsConfig(**options)
