"""The relaxation of L0-RBoost: optima by HiGHS with every cut a row, certificates recomputed in
rational arithmetic, warm starts, and bad input.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from batches import few_at_once
from jboost import l0
from jboost.base.status import Status
from jboost.l0.relaxation import (
    all_pairs,
    certify,
    halpern,
    interior,
    newton,
    pair_blocks,
    system,
    validate_features,
)
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation.instance import make_instance, with_distances
from jboost.l0.relaxation.warm_start import capacity_of
from jboost.l0.types import CutIndices, Dual, Primal
from jboost.lp import FirstOrderConfig, InteriorPointConfig
from oracles import l0 as oracle

EXAMPLES, COLUMNS, COUNT = 14, 8, 56  # of one shape, so that tests share compilations
MARGINS = (0.01, 0.1, 0.5, 1.0)
INTERIOR = l0.RelaxationConfig()
FIRST_ORDER = l0.RelaxationConfig(solver=FirstOrderConfig(max_iterations=20_000))
ALL_PAIRS = l0.RelaxationConfig(solver=l0.AllPairsConfig(FirstOrderConfig(max_iterations=20_000)))


def random_pools(count, seed):
    """Outputs [count, m, U], labels, costs and margins: dense and sparse pools, free columns,
    copies, conflicts, one class or almost.
    """
    random = np.random.default_rng(seed)
    labels = np.where(
        random.random((count, EXAMPLES)) < random.uniform(0.15, 0.85, (count, 1)), 1, -1
    )
    outputs = random.choice([-1, 0, 1], (count, EXAMPLES, COLUMNS), p=[0.3, 0.4, 0.3])
    agrees = random.random(outputs.shape) < random.uniform(0, 0.6, (count, 1, 1))
    outputs = np.where(agrees, labels[:, :, None], outputs)
    outputs[: count // 2] = np.where(outputs[: count // 2] == 0, 1, outputs[: count // 2])
    outputs[:, :, 0], outputs[:, :, 1] = 1, -1
    costs = random.choice([0.02, 0.1, 0.5, 1.5], (count, 1)) * random.uniform(
        0.5, 1.5, (count, COLUMNS)
    )
    costs[random.random(count) < 0.5, :2] = 0
    costs[random.random(count) < 0.1, 3] = 0
    outputs[random.random(count) < 0.2, :, 5] = outputs[0, :, 4]
    conflict = random.random(count) < 0.3
    outputs[conflict, 1], labels[conflict, 1] = outputs[conflict, 0], -labels[conflict, 0]
    labels[3], labels[4, 1:] = 1, -1
    return outputs, labels, costs.astype(np.float32), np.resize(np.float32(MARGINS), count)


@functools.partial(jax.jit, static_argnames="config")
def solve_all(
    outputs,
    labels,
    costs,
    margins,
    tolerance,
    config=INTERIOR,
    weights=None,
    mask=None,
    column_mask=None,
    initial=None,
):
    def one(problem):
        outputs, labels, costs, margin, weights, mask, column_mask, initial = problem
        return l0.solve_relaxation(
            outputs,
            labels,
            costs,
            margin=margin,
            tolerance=tolerance,
            config=config,
            weights=weights,
            mask=mask,
            column_mask=column_mask,
            initial=initial,
        )

    return few_at_once(one, (outputs, labels, costs, margins, weights, mask, column_mask, initial))


def ones_for(outputs):
    """weights, mask and column_mask that change nothing."""
    count, examples, columns = outputs.shape
    return {
        "weights": np.ones((count, examples)),
        "mask": np.ones((count, examples), bool),
        "column_mask": np.ones((count, columns), bool),
    }


def member(solved, index):
    return jax.tree.map(lambda leaf: leaf[index], solved)


def recompute(one, outputs, labels, costs, margin, weights=None):
    """Both bounds from the returned arrays alone, in rational arithmetic."""
    weights = np.ones(len(labels)) if weights is None else weights
    attained = oracle.attained(
        outputs, labels, costs, margin, weights, one.coefficients, one.selected, one.slacks
    )
    proven = oracle.proven(
        outputs, labels, costs, margin, weights, one.example_weights, one.pairs, one.pair_weights
    )
    assert attained <= float(one.upper_bound)
    assert proven >= float(one.lower_bound)
    assert float(attained) >= one.upper_bound - 1e-5 * (1 + one.upper_bound)
    return proven, attained


@pytest.mark.slow
@pytest.mark.parametrize("max_entries", [4, 1000])
def test_pairs_that_some_hypotheses_tell_apart(max_entries):
    """The search for (24) against all pairs one by one."""
    random, search = (
        np.random.default_rng(7),
        jax.jit(pair_cuts.search, static_argnames="max_entries"),
    )
    for number in range(6):
        outputs, labels = (
            random.integers(-1, 2, (EXAMPLES, COLUMNS)),
            random.choice([-1, 1], EXAMPLES),
        )
        mask, only = random.random(EXAMPLES) < 0.9, random.random(COLUMNS) < 0.3
        selected, slacks = random.integers(0, 8, COLUMNS) / 8, random.integers(0, 8, EXAMPLES) / 8
        arrays = (
            outputs,
            labels,
            np.ones(COLUMNS),
            np.ones(EXAMPLES),
            mask,
            np.ones(COLUMNS, bool),
        )
        instance, _ = make_instance(*map(jnp.asarray, arrays), jnp.asarray(0.1))
        order = np.asarray(instance.order)
        found = search(
            instance,
            jnp.asarray(selected),
            jnp.asarray(slacks[order]),
            max_entries,
            only=jnp.asarray(only),
        )
        margins = outputs * labels[:, None]
        for place, i in enumerate(order):
            wanted = [-np.inf]
            for j in np.flatnonzero(mask & (labels != labels[i])) if mask[i] else ():
                served = [
                    (margins[a] == 1) & (outputs[a] != outputs[b]) for a, b in ((i, j), (j, i))
                ]
                if (served[0] | served[1])[only].any():
                    wanted.append(1 - min(selected[one].sum() for one in served) - slacks[j])
            assert found.least[place] == max(wanted), (number, i)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wide", "config", "tolerance"),
    [
        (False, INTERIOR, 3e-4),
        (True, INTERIOR, 1e-7),
        (False, l0.RelaxationConfig(selection="new_columns"), 3e-4),
        (False, FIRST_ORDER, 1e-3),
        (True, FIRST_ORDER, 1e-4),
        (False, ALL_PAIRS, 1e-3),
        (True, ALL_PAIRS, 1e-4),
    ],
    ids=[
        "interior-32",
        "interior-64",
        "new-columns-32",
        "first-order-32",
        "first-order-64",
        "all-pairs-32",
        "all-pairs-64",
    ],
)
def test_optima_and_certificates(wide, config, tolerance):
    for seed in (1, 2):
        pools = random_pools(COUNT, seed)
        with jax.enable_x64(wide):
            solved = jax.device_get(solve_all(*pools, tolerance, config, **ones_for(pools[0])))
        is_solved = solved.status == Status.OPTIMAL
        # rounding may stop one in float32
        assert is_solved.all() or (not wide and is_solved.mean() >= 0.95), np.bincount(
            solved.status
        )
        for index, pool in enumerate(zip(*pools, strict=True)):
            one, optimum = member(solved, index), oracle.optimum(*pool)
            assert one.lower_bound <= optimum + 1e-9
            assert one.upper_bound >= optimum - 2e-8
            assert not is_solved[
                index
            ] or one.upper_bound - one.lower_bound <= 1.001 * tolerance * max(1, one.upper_bound)
            recompute(one, *pool)


@pytest.mark.slow
def test_cuts_that_count_hypotheses_either_way():
    """A cut of (15) counts the hypotheses that tell its two examples apart; its optimum is no more
    than that of (18).
    """
    pools = random_pools(COUNT, 3)
    config, tolerance = l0.RelaxationConfig(cuts="either"), 3e-4
    solved = jax.device_get(solve_all(*pools, tolerance, config, **ones_for(pools[0])))
    assert (solved.status == Status.OPTIMAL).all(), np.bincount(solved.status)
    num_less = 0
    for index, pool in enumerate(zip(*pools, strict=True)):
        one, optimum = member(solved, index), oracle.optimum(*pool, helps=oracle.tell_apart)
        assert one.lower_bound <= optimum + 1e-9
        assert one.upper_bound >= optimum - 2e-8
        assert one.upper_bound - one.lower_bound <= 1.001 * tolerance * max(1, one.upper_bound)
        num_less += optimum < oracle.optimum(*pool) - 1e-6
    assert num_less > 5


@pytest.mark.slow
@pytest.mark.parametrize("max_pair_entries", [4_000_000, 20])
def test_cuts_between_near_examples_alone(max_pair_entries):
    """Section 7 of the paper: cuts of pairs whose distance is below a factor of the least."""
    outputs, labels, costs, margins = random_pools(COUNT, 13)
    random = np.random.default_rng(14)
    features = np.where(
        random.random((COUNT, EXAMPLES, 9)) < 0.1,
        np.nan,
        random.integers(0, 2, (COUNT, EXAMPLES, 9)),
    )
    features[:5, 1] = features[:5, 0]
    factor = 1.5
    config = l0.RelaxationConfig(distance_factor=factor, max_pair_entries=max_pair_entries)

    @jax.jit
    @jax.vmap
    def solve(outputs, labels, costs, margin, features):
        return l0.solve_relaxation(
            outputs, labels, costs, margin=margin, tolerance=3e-4, features=features, config=config
        )

    solved = jax.device_get(solve(outputs, labels, costs, margins, features))
    assert (solved.status == Status.OPTIMAL).mean() >= 0.95
    num_less = 0
    for index, pool in enumerate(zip(outputs, labels, costs, margins, strict=True)):
        pairs, bits = oracle.pairs_of(pool[1]), features[index]
        apart = np.array(
            [np.sum(np.abs(bits[first] - bits[second]) == 1) for first, second in pairs]
        )
        near = pairs[apart <= factor * max(apart.min(initial=99), 1)]
        optimum, one = oracle.optimum(*pool, pairs=near), member(solved, index)
        assert one.lower_bound <= optimum + 1e-9, index
        assert one.upper_bound >= optimum - 2e-8, index
        assert (
            one.status != Status.OPTIMAL
            or one.upper_bound - one.lower_bound <= 1.001 * 3e-4 * max(1, one.upper_bound)
        )
        num_less += optimum < oracle.optimum(*pool) - 1e-6
    assert num_less > 5


@pytest.mark.slow
def test_distances_are_counted_in_bits():
    config = l0.RelaxationConfig(distance_factor=2.0)
    with pytest.raises(ValueError, match="features is None, but config.distance_factor"):
        l0.solve_relaxation([[1], [-1]], [1, -1], [0.5], margin=0.1, config=config)
    with pytest.raises(
        ValueError, match=r"features\[1, 0\] is 0.5: distances are counted in 0 and 1"
    ):
        l0.solve_relaxation(
            [[1], [-1]], [1, -1], [0.5], margin=0.1, config=config, features=[[0.0], [0.5]]
        )
    traced = jax.jit(
        lambda features: l0.solve_relaxation(
            [[1], [-1]], [1, -1], [0.5], margin=0.1, config=config, features=features
        )
    )
    assert int(traced(jnp.array([[0.0], [0.5]])).status) == Status.INVALID_INPUT
    with pytest.raises(ValueError, match=r"config.distance_factor is far"):
        l0.RelaxationConfig(distance_factor="far")
    with pytest.raises(ValueError, match=r"config.distance_factor is 0.5"):
        l0.RelaxationConfig(distance_factor=0.5)


def test_validate_features_ignores_rows_of_padding():
    config, mask = l0.RelaxationConfig(distance_factor=1.5), jnp.array([True, True, False])
    assert validate_features([[0], [1], [7]], mask, config).tolist() == [[0], [1], [0]]
    with pytest.raises(ValueError, match=r"features\[2, 0\] is 7"):
        validate_features([[0], [1], [7]], ~mask, config)


@pytest.mark.slow
def test_certificates_of_random_duals_are_never_wrong():
    pools = random_pools(COUNT, 5)
    random = np.random.default_rng(6)
    capacity, tried = 40, 40

    @jax.jit
    def prove(outputs, labels, costs, margin, weights, pair_weights, places):
        instance, _ = make_instance(
            outputs,
            labels,
            costs,
            jnp.ones(EXAMPLES),
            jnp.ones(EXAMPLES, bool),
            jnp.ones(COLUMNS, bool),
            margin,
        )

        def one(weights, pair_weights, places):
            few = places[:, 0] % jnp.maximum(instance.num_minority, 1)
            many = instance.num_minority + places[:, 1] % jnp.maximum(
                instance.num_real - instance.num_minority, 1
            )
            there = (instance.num_minority > 0) & (places[:, 2] < 8)
            first, second = (
                jnp.where(places[:, 2] % 2 == 0, few, many),
                jnp.where(places[:, 2] % 2 == 0, many, few),
            )
            cuts = CutIndices(
                *(jnp.where(there, part, EXAMPLES).astype(jnp.int32) for part in (first, second))
            )
            held = pair_cuts.WorkingSet(capacity).hold(instance, cuts)
            dual = certify.allowed(instance, held, Dual(weights, pair_weights))
            pairs = jnp.stack(
                [instance.order.at[end].get(mode="fill", fill_value=-1) for end in cuts], axis=1
            )
            back = jnp.zeros(EXAMPLES).at[instance.order].set(dual.example_weights)
            return certify.prove_lower(instance, held, dual)[0], back, pairs, dual.pair_weights

        return jax.vmap(one)(weights, pair_weights, places)

    best = -np.inf
    for index in range(COUNT):
        pool = [np.asarray(part) for part in (part[index] for part in pools)]
        sizes = 10.0 ** random.uniform(-3, 0.5, (tried, 1))
        weights, pair_weights = (
            random.random((tried, EXAMPLES)) * sizes,
            random.random((tried, capacity)) * sizes[::-1],
        )
        lower, *dual = jax.device_get(
            prove(*pool, weights, pair_weights, random.integers(0, 10, (tried, capacity, 3)))
        )
        optimum = oracle.optimum(*pool)
        assert (lower <= optimum + 1e-9).all()
        best = max(best, (lower / max(optimum, 1e-6)).max())
        for number in range(0, tried, 20):
            assert oracle.proven(
                *pool, np.ones(EXAMPLES), *(part[number] for part in dual)
            ) >= float(lower[number])
    assert best > 0.3  # some say something


@pytest.mark.slow
def test_primal_repair_meets_all_cuts_from_any_point():
    pools = random_pools(COUNT, 7)
    random = np.random.default_rng(8)

    @jax.jit
    @jax.vmap
    def repair(outputs, labels, costs, margin, primal):
        instance, _ = make_instance(
            outputs,
            labels,
            costs,
            jnp.ones(EXAMPLES),
            jnp.ones(EXAMPLES, bool),
            jnp.ones(COLUMNS, bool),
            margin,
        )
        point, least = certify.on_grid(instance, primal)
        fixed = certify.raised(
            instance,
            point,
            least,
            pair_cuts.search(instance, point.selected, point.slacks, 3 * (EXAMPLES // 2)),
        )
        return fixed._replace(
            slacks=jnp.zeros(EXAMPLES).at[instance.order].set(fixed.slacks)
        ), certify.price(instance, fixed)

    points = Primal(
        *(random.uniform(-0.1, 1, (COUNT, size)) ** 3 for size in (COLUMNS, COLUMNS, EXAMPLES))
    )
    fixed, price = jax.device_get(repair(*pools, points))
    for index, pool in enumerate(zip(*pools, strict=True)):
        assert oracle.attained(*pool, np.ones(EXAMPLES), *member(fixed, index)) <= float(
            price[index]
        )


@pytest.mark.slow
def test_repair_rounds_by_units_of_two_however_much_is_selected():
    """Whatever the sum of mu: cuts are met in exact arithmetic, and slacks are a few units above
    what cuts and margins want of the point given.
    """
    random, (num_examples, num_columns), margin = (
        np.random.default_rng(10),
        (24, 256),
        np.float32(0.01),
    )
    outputs, labels = (
        random.choice([-1, 0, 1], (num_examples, num_columns), p=[0.05, 0.9, 0.05]),
        random.choice([-1, 1], num_examples),
    )
    all_of = jnp.ones(num_examples), jnp.ones(num_examples, bool), jnp.ones(num_columns, bool)
    instance, _ = make_instance(
        jnp.asarray(outputs), jnp.asarray(labels), jnp.zeros(num_columns), *all_of, margin
    )
    for total in (2, 20, 200):
        selected = (
            random.uniform(1 / num_columns, 2 * total / num_columns, num_columns)
            .clip(0, 1)
            .astype(np.float32)
        )
        primal = Primal(
            jnp.full(num_columns, 1 / num_columns), jnp.asarray(selected), jnp.zeros(num_examples)
        )
        point, least = certify.on_grid(instance, primal)
        fixed = certify.raised(
            instance, point, least, pair_cuts.search(instance, point.selected, point.slacks, 100)
        )
        slacks, lowest = np.zeros((2, num_examples), np.float32)
        slacks[instance.order], lowest[instance.order] = fixed.slacks, point.slacks
        attained = oracle.attained(
            outputs,
            labels,
            np.zeros(num_columns),
            margin,
            np.ones(num_examples),
            fixed.coefficients,
            fixed.selected,
            slacks,
        )
        assert attained <= float(certify.price(instance, fixed))
        mu, raised = oracle.exactly(selected), np.flatnonzero(slacks > lowest)
        assert len(raised) > 3 or total == 200
        for i in raised:
            others = [
                (
                    j,
                    min(
                        sum(mu[oracle.serves(outputs, labels, *ends)]) for ends in ((i, j), (j, i))
                    ),
                )
                for j in np.flatnonzero(labels != labels[i])
            ]
            assert (
                slacks[i]
                <= max(1 - float(lowest[j]) - float(served) for j, served in others) + 8 * 2.0**-23
            )


@pytest.mark.slow
def test_lower_bound_over_all_hypotheses_charges_the_excess():
    weights, pair_weights = jnp.array([0.5, 0.25]), jnp.array([0.25])
    proven = certify.lower_bound(
        weights, pair_weights, margin=jnp.array(0.5), excess=0.125, least=-0.25, selected_bound=2.0
    )
    exact = 0.5 * 0.75 + 0.25 - 2 * 0.125 - 0.25
    assert exact - 1e-7 <= float(proven) <= exact
    assert (
        float(
            certify.lower_bound(
                weights,
                pair_weights,
                margin=jnp.array(0.5),
                excess=0.0,
                least=-jnp.inf,
                selected_bound=2.0,
            )
        )
        == -np.inf
    )
    third = jnp.array([1 / 3])
    low = certify.lower_bound(
        third, third, margin=jnp.array(0.1), excess=0.0, least=0.0, selected_bound=1.0
    )
    exact = oracle.exactly(third)[0] * (1 + oracle.exactly(np.float32(0.1)).item())
    assert float(low) <= exact < float(low) + 1e-6


@pytest.mark.slow
def test_vmap_equals_a_loop_and_jit(compilations):
    pools = random_pools(COUNT, 9)
    together = solve_all(*pools, 3e-4, **ones_for(pools[0]))
    alone = [
        l0.solve_relaxation(outputs, labels, costs, margin=margin)
        for outputs, labels, costs, margin in [member(pools, 0)]
    ]
    before = compilations()
    alone += [
        l0.solve_relaxation(*pool[:3], margin=pool[3])
        for pool in (member(pools, index) for index in range(1, 5))
    ]
    assert compilations() == before
    for index, one in enumerate(alone):
        assert int(one.status) == int(together.status[index]) == Status.OPTIMAL
        np.testing.assert_allclose(
            one.lower_bound, together.lower_bound[index], rtol=6e-4, atol=3e-4
        )
        np.testing.assert_allclose(
            one.upper_bound, together.upper_bound[index], rtol=6e-4, atol=3e-4
        )


@pytest.mark.slow
def test_padding_weights_and_masks():
    """A pool, the same padded, and with an example thrice against a weight of 3: members of one
    call.
    """
    outputs, labels, costs, margins = random_pools(COUNT, 10)
    size, columns = 9, 5
    random = np.random.default_rng(3)
    padded = outputs.astype(np.float32)
    padded[:, size:], padded[:, :, columns:] = np.nan, np.nan
    prices = costs.copy()
    prices[:, columns:] = np.nan
    signs = labels.astype(np.float32)
    signs[:, size:] = 0
    copies = random.integers(1, 4, (COUNT, size))
    weights = np.where(
        np.arange(EXAMPLES) < size, np.pad(copies, ((0, 0), (0, EXAMPLES - size))), -1.0
    )
    mask, column_mask = (
        np.tile(np.arange(EXAMPLES) < size, (COUNT, 1)),
        np.tile(np.arange(COLUMNS) < columns, (COUNT, 1)),
    )
    solved = jax.device_get(
        solve_all(
            padded,
            signs,
            prices,
            margins,
            3e-4,
            weights=weights,
            mask=mask,
            column_mask=column_mask,
        )
    )
    assert (solved.status == Status.OPTIMAL).all()
    assert (solved.slacks[:, size:] == 0).all()
    assert (solved.example_weights[:, size:] == 0).all()
    assert (solved.coefficients[:, columns:] == 0).all()
    assert (solved.selected[:, columns:] == 0).all()
    assert (solved.pairs < size).all()
    for index in range(0, COUNT, 3):
        many = np.repeat(np.arange(size), copies[index])
        pool = outputs[index, :, :columns], labels[index], costs[index, :columns], margins[index]
        optimum = oracle.optimum(pool[0][many], pool[1][many], *pool[2:])
        assert solved.lower_bound[index] <= optimum + 1e-9
        assert solved.upper_bound[index] >= optimum - 1e-9
        one = member(solved, index)._replace(
            coefficients=solved.coefficients[index, :columns],
            selected=solved.selected[index, :columns],
        )
        one = one._replace(slacks=one.slacks[:size], example_weights=one.example_weights[:size])
        recompute(one, pool[0][:size], pool[1][:size], *pool[2:], weights[index, :size])


def noisy_stumps(examples, columns, seed):
    """Both constants, free, and stumps on Gaussian features."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(examples, 10))
    labels = np.where(features @ random.normal(size=10) + random.normal(size=examples) > 0, 1, -1)
    chosen = random.integers(0, 10, columns)
    outputs = np.where(
        features[:, chosen] > features[random.integers(0, examples, columns), chosen], 1, -1
    ) * random.choice([-1, 1], columns)
    outputs[:, 0], outputs[:, 1] = 1, -1
    return outputs, labels, np.r_[0, 0, random.uniform(1.5, 2.5, columns - 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [INTERIOR, FIRST_ORDER, ALL_PAIRS], ids=["interior", "first-order", "all-pairs"]
)
def test_a_warm_start_survives_added_columns(config, x64):
    outputs, labels, costs = noisy_stumps(60, 24, seed=11)
    fit = functools.partial(l0.solve_relaxation, margin=0.2, tolerance=1e-4, config=config)
    few = np.arange(24) < 20
    before = fit(outputs, labels, costs, column_mask=few)
    cold, warm = fit(outputs, labels, costs), fit(outputs, labels, costs, initial=before)
    assert [int(one.status) for one in (before, cold, warm)] == [Status.OPTIMAL] * 3
    optimum = oracle.optimum(outputs, labels, costs, 0.2)
    for one in (cold, warm):
        assert one.lower_bound <= optimum + 1e-9 <= one.upper_bound + 2e-9
    assert int(warm.num_iterations) < int(cold.num_iterations)
    recompute(jax.device_get(warm), outputs, labels, costs, 0.2)
    with pytest.raises(ValueError, match="examples"):
        l0.solve_relaxation(outputs[:50], labels[:50], costs, margin=0.2, initial=before)
    with pytest.raises(ValueError, match="columns"):
        l0.solve_relaxation(outputs[:, :20], labels, costs[:20], margin=0.2, initial=before)
    with pytest.raises(ValueError, match="initial"):
        l0.solve_relaxation(outputs, labels, costs, margin=0.2, initial=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("cuts", ["ordered", "either"])
def test_the_grid_of_all_pairs_says_what_a_list_of_them_says(cuts, x64):
    """Sums over cuts and what duals prove; distances and masks included."""
    outputs, labels, costs, margins = random_pools(COUNT, 31)
    random = np.random.default_rng(32)
    features = random.integers(0, 2, (COUNT, EXAMPLES, 9)).astype(float)
    mask = random.random((COUNT, EXAMPLES)) < 0.8
    layout = all_pairs.any_layout(
        l0.RelaxationConfig(solver=l0.AllPairsConfig(block_bytes=3_000)), EXAMPLES
    )
    size = math.prod(layout.shape)

    @jax.jit
    @jax.vmap
    def both(outputs, labels, costs, margin, mask, features, weights, pair_weights):
        instance, _ = make_instance(
            outputs,
            labels,
            costs,
            jnp.ones(EXAMPLES),
            mask,
            jnp.ones(COLUMNS, bool),
            margin,
            cuts == "either",
        )
        instance = with_distances(instance, features, 1.5)
        ends = all_pairs.listed(instance, layout)
        held = pair_cuts.WorkingSet(size).hold(instance, ends)
        dual = certify.allowed(
            instance, held, Dual(weights, jnp.where(held.is_used, pair_weights, 0))
        )
        known, pairs = (
            all_pairs.placed(instance, layout, ends, dual.pair_weights),
            pair_blocks.make_pairs(instance, layout),
        )
        sums = halpern.sums_of(pairs, layout, known, EXAMPLES)
        of_grid = (
            jnp.ravel(known),
            *sums,
            *halpern.prove(instance, pairs, layout, dual.example_weights, known),
            halpern.num_cuts(pairs, layout),
        )
        of_list = (
            held.serving(dual.pair_weights),
            held.spread(dual.pair_weights, EXAMPLES),
            *certify.prove_lower(instance, held, dual),
        )
        return of_grid, (dual.pair_weights, *of_list, jnp.sum(held.is_used))

    parts = random.random((COUNT, EXAMPLES)), random.random((COUNT, size))
    of_grid, of_list = jax.device_get(both(outputs, labels, costs, margins, mask, features, *parts))
    assert (of_list[-1] > 0).mean() > 0.8
    for one, other in zip(of_grid, of_list, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_all_pairs_have_numbers():
    with pytest.raises(ValueError, match=r"100000 examples have .* bytes .*\.capacity"):
        l0.solve_relaxation(
            np.ones((100_000, 1)), np.ones(100_000), np.ones(1), margin=0.1, config=ALL_PAIRS
        )
    with pytest.raises(ValueError, match="first_order"):
        l0.AllPairsConfig({})


@pytest.mark.slow
def test_all_pairs_of_no_example_and_of_one_class():
    for outputs, labels in (([[1, -1]], [1]), (np.zeros((0, 2)), []), ([[1], [1]], [1, 1])):
        solved = l0.solve_relaxation(
            outputs, labels, np.full(np.shape(outputs)[1], 0.5), margin=0.1, config=ALL_PAIRS
        )
        assert int(solved.status) == Status.OPTIMAL
        assert float(solved.lower_bound) <= 0.5 <= float(solved.upper_bound) + 1e-6
    known = l0.solve_relaxation([[1, -1]], [1], [0.5, 0.3], margin=0.1)
    again = l0.solve_relaxation(
        [[1, -1]], [1], [0.5, 0.3], margin=0.1, config=ALL_PAIRS, initial=known
    )
    assert int(again.status) == Status.OPTIMAL


@pytest.mark.slow
def test_a_warm_start_from_a_working_set_is_one_for_all_pairs(x64):
    outputs, labels, costs = noisy_stumps(60, 24, seed=33)
    fit = functools.partial(l0.solve_relaxation, outputs, labels, costs, margin=0.2)
    known = fit(tolerance=1e-6)
    cold, warm = (fit(tolerance=1e-3, config=ALL_PAIRS, initial=start) for start in (None, known))
    assert int(cold.status) == int(warm.status) == Status.OPTIMAL
    assert int(warm.num_iterations) < int(cold.num_iterations) / 2
    recompute(jax.device_get(warm), outputs, labels, costs, 0.2)


@pytest.mark.slow
def test_a_warm_start_of_other_examples_does_no_harm():
    """What it knows of pairs with an example that is masked out now, or of another class, is not
    held against the program.
    """
    outputs, labels, costs, margins = random_pools(COUNT, 29)
    known = solve_all(outputs, labels, costs, margins, 3e-4)
    random = np.random.default_rng(30)
    mask, flipped = (
        random.random((COUNT, EXAMPLES)) < 0.6,
        np.where(random.random((COUNT, EXAMPLES)) < 0.3, -labels, labels),
    )
    for changed in ((labels, mask), (flipped, np.ones_like(mask))):
        cold, warm = (
            jax.device_get(
                solve_all(outputs, changed[0], costs, margins, 3e-4, mask=changed[1], initial=start)
            )
            for start in (None, known)
        )
        assert (warm.status == Status.OPTIMAL).all()
        assert (warm.lower_bound <= cold.upper_bound).all()
        assert (cold.lower_bound <= warm.upper_bound).all()


@pytest.mark.slow
def test_too_little_room_for_cuts_is_said_and_the_bounds_hold():
    random = np.random.default_rng(12)
    labels = np.where(random.random(40) < 0.5, 1, -1)
    outputs = np.where(random.random((40, 10)) < 0.7, labels[:, None], -labels[:, None])
    costs = random.uniform(1, 2, 10)
    solved = l0.solve_relaxation(
        outputs, labels, costs, margin=0.2, config=l0.RelaxationConfig(capacity=5)
    )
    assert int(solved.status) == Status.CAPACITY_LIMIT
    assert "capacity" in jboost.status.explain(solved.status)
    assert solved.pairs.shape == (5, 2)
    assert solved.lower_bound <= oracle.optimum(outputs, labels, costs, 0.2) <= solved.upper_bound
    recompute(jax.device_get(solved), outputs, labels, costs, 0.2)
    rounds = l0.solve_relaxation(
        outputs, labels, costs, margin=0.2, config=l0.RelaxationConfig(max_rounds=1)
    )
    assert int(rounds.status) == Status.ROUND_LIMIT
    recompute(jax.device_get(rounds), outputs, labels, costs, 0.2)


@pytest.mark.slow
def test_what_is_too_small_to_have_cuts():
    nothing = l0.solve_relaxation(np.zeros((0, 2)), np.zeros(0), [0.5, 0.25], margin=0.5)
    assert int(nothing.status) == Status.OPTIMAL
    assert nothing.lower_bound <= 0.25 <= nothing.upper_bound
    single = l0.solve_relaxation([[1, -1]], [1], [0.5, 0.25], margin=0.5)
    assert single.lower_bound <= 0.4375 <= single.upper_bound
    assert int(single.status) == Status.OPTIMAL
    one_class = l0.solve_relaxation([[1, -1], [1, 1], [0, 1]], [1, 1, 1], [1.0, 2.0], margin=1.0)
    assert int(one_class.num_cuts) == 0
    assert (
        one_class.lower_bound
        <= oracle.optimum([[1, -1], [1, 1], [0, 1]], [1, 1, 1], [1.0, 2.0], 1.0)
        <= one_class.upper_bound
    )
    for pool in (np.zeros((2, 0)), np.ones((2, 1))):
        empty = l0.solve_relaxation(
            pool,
            [1, -1],
            np.ones(pool.shape[1]),
            margin=0.5,
            column_mask=np.zeros(pool.shape[1], bool),
        )
        assert int(empty.status) == Status.PRIMAL_INFEASIBLE
        assert float(empty.lower_bound) == float(empty.upper_bound) == np.inf


@pytest.mark.slow
def test_what_is_not_allowed():
    good = {"outputs": [[1, 0], [-1, 1]], "labels": [1, -1], "costs": [0.5, 0.5], "margin": 0.1}
    bad = {
        "outputs": ([[1, 2], [-1, 1]], [[np.nan, 0], [-1, 1]], [1, 2], [["a", "b"]]),
        "labels": ([1, 0], [1], [1, np.nan]),
        "costs": ([-1, 0.5], [np.nan, 0.5], [np.inf, 1], [1]),
        "margin": (0.0, 1.5, np.nan, [0.1]),
        "weights": ([-1, 1], [0, 0], [np.nan, 1], [1]),
        "mask": ([1, 0], [True]),
        "column_mask": ([1, 0], [True]),
        "tolerance": (0.0,),
        "config": ({}, FirstOrderConfig()),
    }
    for name, values in bad.items():
        for value in values:
            with pytest.raises(ValueError, match=name):
                l0.solve_relaxation(**(good | {name: value}))
    for options in ({"capacity": 0}, {"max_rounds": 0}, {"solver": {}}, {"max_pair_entries": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            l0.RelaxationConfig(**options)
    pools = [np.array(part, np.float32) for part in random_pools(COUNT, 13)]
    pools[0][0, 0, 0], pools[1][1, 0], pools[2][2, 0], pools[2][3, 0], pools[3][4] = (
        2,
        0,
        -1,
        np.nan,
        1.5,
    )
    solved = solve_all(*pools, 3e-4, **ones_for(pools[0]))
    assert (solved.status[:5] == Status.INVALID_INPUT).all()
    assert (solved.status[5:] == Status.OPTIMAL).all()
    assert (solved.lower_bound[:5] == -np.inf).all()
    assert (solved.upper_bound[:5] == np.inf).all()


@pytest.mark.slow
def test_both_methods_agree_on_a_larger_pool(x64):
    outputs, labels, costs = noisy_stumps(60, 24, seed=14)
    interior = l0.solve_relaxation(
        outputs,
        labels,
        costs,
        margin=0.2,
        tolerance=1e-9,
        config=l0.RelaxationConfig(solver=InteriorPointConfig()),
    )
    first = l0.solve_relaxation(
        outputs, labels, costs, margin=0.2, tolerance=1e-4, config=FIRST_ORDER
    )
    assert int(interior.status) == int(first.status) == Status.OPTIMAL
    optimum = oracle.optimum(outputs, labels, costs, 0.2)
    assert float(interior.upper_bound) == pytest.approx(optimum, rel=2e-9)
    assert first.lower_bound <= optimum <= first.upper_bound


@pytest.mark.parametrize(
    ("wide", "tolerance"), [(False, 3e-5), (True, 1e-9)], ids=["float32", "float64"]
)
@pytest.mark.slow
def test_large_programs_begin_in_32_bits_and_end_in_64(wide, tolerance, monkeypatch):
    monkeypatch.setattr(interior, "_WORTH_TWO_FLOATS", 1)
    dtypes, solve = set(), newton.solve
    monkeypatch.setattr(
        newton,
        "solve",
        lambda program, point, **options: (
            dtypes.add(str(point.convexity.dtype)),
            solve(program, point, **options),
        )[1],
    )
    outputs, labels, costs = noisy_stumps(61, 24, seed=15)
    margins = np.array([0.2, 0.4])
    with jax.enable_x64(wide):
        solved = jax.vmap(
            lambda margin: l0.solve_relaxation(
                outputs, labels, costs, margin=margin, tolerance=tolerance
            )
        )(jnp.asarray(margins, float))
        solved = jax.device_get(solved)
    optima = [oracle.optimum(outputs, labels, costs, margin) for margin in margins]
    assert dtypes == {"float32", "float64"}
    assert (solved.status == Status.OPTIMAL).all()
    np.testing.assert_allclose(solved.upper_bound, optima, rtol=2 * tolerance)
    np.testing.assert_array_less(solved.lower_bound, np.multiply(optima, 1 + 1e-7))


@pytest.mark.slow
def test_few_columns_leave_room_for_many_cuts():
    outputs, labels, costs = noisy_stumps(400, 16, seed=16)
    solved = l0.solve_relaxation(outputs, labels, costs, margin=0.05)
    assert int(solved.num_cuts) > 1024
    assert int(solved.status) == Status.OPTIMAL


@pytest.mark.parametrize("density", [0, 10**9], ids=["along edges", "by products"])
@pytest.mark.slow
def test_directions_solve_their_system(density, x64, monkeypatch):
    """The matrix written out: xi, lambda, mu of what a step minimises, with a ratio of dual to
    primal for each square.
    """
    monkeypatch.setattr(system, "_DENSITY", density)
    random, size, columns, held = np.random.default_rng(91), 40, 12, 70
    outputs, labels = (
        random.choice([-1.0, 0.0, 1.0], (size, columns)),
        np.where(np.arange(size) % 3 == 0, 1.0, -1.0),
    )
    ones = jnp.ones(size)
    instance, _ = make_instance(
        *map(jnp.asarray, (outputs, labels)),
        jnp.ones(columns),
        ones,
        ones > 0,
        jnp.ones(columns, bool),
        jnp.asarray(0.3),
    )
    few = int(instance.num_minority)
    is_shared = np.arange(held) < 50  # by one of four of the larger class
    mine = np.where(is_shared, random.integers(0, few, held), random.integers(0, 3, held))
    ends = random.permuted(
        [
            mine,
            np.where(
                is_shared, random.integers(few, few + 4, held), random.integers(few, size, held)
            ),
        ],
        axis=0,
    )
    ends = [np.where(np.arange(held) < 5, size, end) for end in ends]  # slots without a cut
    known = CutIndices(*(jnp.asarray(end, jnp.int32) for end in ends))
    program = system.make_program(instance, known, pair_cuts.rows(instance, known))
    ratio = (
        jnp.asarray(10 ** random.uniform(-3, 3, 3 * columns + 2 * size + held)) * program.is_used
    )
    push = jnp.asarray(random.normal(size=(2, size + 2 * columns)))
    is_in = system.is_in_cover(program)
    assert few >= jnp.sum(is_in) > jnp.sum(is_in[few:]) > 0  # of both classes
    assert np.pad(is_in, (0, 1), constant_values=True)[ends].any(axis=0).all()

    def solve(is_in, program, ratio, push):
        factors = system.factorise(program, system.cover_of(is_in, few), ratio)

        def directions(push):
            refined = system.solve_refined(factors, push, system.MOST_REFINEMENTS[8])
            return system.solve_roughly(factors, push), refined, system.reached(program, refined)

        return jax.vmap(directions)(push)

    of_both, of_the_smaller = (
        jax.jit(solve)(chosen, program, ratio, push) for chosen in (is_in, jnp.arange(size) < few)
    )

    joins = np.array(
        [
            [np.sum([end[cut] == place for end in ends]) for place in range(size)]
            for cut in range(held)
        ],
        float,
    )
    nothing = np.zeros((columns, size)), np.zeros((columns, columns)), np.eye(columns)
    of = system.parts_of(program, ratio)
    of_margins = np.hstack([1.3 * np.eye(size), instance.margins, np.zeros((size, columns))])
    of_cuts = np.hstack([joins, np.zeros((held, columns)), program.served])
    squares = [
        (np.hstack([nothing[0], nothing[2], nothing[1]]), of.coefficients),
        (np.hstack([nothing[0], -nothing[2], nothing[2]]), of.extra + of.room),
        (np.hstack([np.eye(size), np.zeros((size, 2 * columns))]), of.slacks),
        (of_margins, of.margins),
        (of_cuts, of.cuts),
    ]
    matrix = sum(rows.T @ (np.asarray(scale)[:, None] * rows) for rows, scale in squares)
    wanted = np.linalg.solve(matrix, np.transpose(push)).T
    for roughly, refined, rows in (of_both, of_the_smaller):
        for found in (roughly, refined):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9 * np.abs(wanted).max())
        np.testing.assert_allclose(
            rows,
            wanted @ np.vstack([of_margins, of_cuts]).T,
            rtol=1e-6,
            atol=1e-9 * np.abs(wanted).max(),
        )


@pytest.mark.slow
@pytest.mark.parametrize("config", [INTERIOR, FIRST_ORDER], ids=["interior point", "first order"])
def test_a_solution_in_float64_goes_on_from_the_proof_of_one_in_float32(config):
    """However few rounds it has: it begins with what was proven, and keeps the better of both."""
    outputs, labels, costs, _ = (part[0] for part in random_pools(5, 77))
    program = {"margin": 0.2, "tolerance": 1e-9}
    narrow = l0.solve_relaxation(outputs, labels, costs, margin=0.2)
    with jax.enable_x64(True):
        brief = dataclasses.replace(config, max_rounds=1)
        wide = l0.solve_relaxation(
            *(np.asarray(part, np.float64) for part in (outputs, labels, costs)),
            **program,
            config=brief,
            initial=narrow,
        )
    assert float(wide.lower_bound) >= float(narrow.lower_bound) - 1e-6
    assert float(wide.upper_bound) <= float(narrow.upper_bound) + 1e-6


# --- on a mesh ------------------------------------------------------------------------------------


@pytest.mark.parametrize("abstains", [False, True])
def test_each_device_searches_its_part_of_the_pairs(abstains):
    """With the results of one device, ties included, and an eighth of the rows of a slab on each of
    eight devices.
    """
    random = np.random.default_rng(6)
    outputs = random.choice([-1.0, 0.0, 1.0] if abstains else [-1.0, 1.0], (150, 12))
    labels = np.where(random.random(150) < 0.3, 1.0, -1.0)
    instance, _ = make_instance(
        *(jnp.asarray(part) for part in (outputs, labels, np.full(12, 0.5), np.ones(150))),
        jnp.arange(150) < 143,
        jnp.ones(12, bool),
        jnp.asarray(0.2),
        either=jnp.asarray(abstains),
    )
    selected = jnp.asarray(random.integers(0, 4, 12) / 4)
    slacks = jnp.asarray(random.integers(0, 5, 150) / 8)

    def search(instance, selected, slacks):
        return pair_cuts.search(instance, selected, slacks, 75 * 150)

    expected = jax.jit(search).lower(instance, selected, slacks).compile()
    mesh = jax.make_mesh((8,), ("examples",), axis_types=(jax.sharding.AxisType.Auto,))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    arguments = jax.device_put((instance, selected, slacks), whole)
    with jax.set_mesh(mesh):
        divided = jax.jit(lambda *given: search(*given)).lower(*arguments).compile()
    for found, one in zip(divided(*arguments), expected(instance, selected, slacks), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(one))
    bytes_of_one, bytes_of_each = (
        program.memory_analysis().temp_size_in_bytes for program in (expected, divided)
    )
    assert bytes_of_each < bytes_of_one / 3


@pytest.mark.parametrize(
    ("shape", "needed"), [((400, 12), 7.6), ((400, 16), 5.2), ((400, 24), 3.3), ((1000, 10), 3.1)]
)
def test_default_capacity_holds_the_cuts_of_few_columns(shape, needed):
    """The largest working sets of random stumps and outputs, in cuts per example, as
    `solve_relaxation` had them with a capacity of 8 per example.
    """
    assert capacity_of(l0.RelaxationConfig(), shape) >= needed * shape[0]


def test_default_capacity_does_not_grow_with_examples_where_columns_are_many():
    config = l0.RelaxationConfig()
    assert capacity_of(config, (500, 60)) == 1024
    assert capacity_of(config, (1500, 150)) == 1500 + 2 * 150
