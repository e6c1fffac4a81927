"""Maximum monomial agreement: many small instances by brute force, bounds in rational arithmetic,
known optima, limits, and bad input.
"""

import csv
import dataclasses
import functools
import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import jboost
from batches import few_at_once
from jboost import learners, lpboost
from jboost.base.status import Status
from jboost.learners.monomials import Monomial
from jboost.monomials import SearchConfig, costs, covers, greedy, maximum_agreement
from jboost.monomials.flow import residual_gains
from jboost.monomials.instance import layout, literals_of, make, of_sign
from jboost.monomials.integers import pack
from jboost.search import stack
from linear_programs import lpboost_dual_program
from oracles import highs
from oracles import monomials as oracle

PAPERS = Path(__file__).parents[3] / "shared" / "data" / "papers"
needs_papers = pytest.mark.skipif(
    not PAPERS.is_dir(), reason="the data sets of the papers are not here"
)

ROWS, ATTRIBUTES, COUNT = 10, 5, 500  # of one shape, so that tests share compilations
SMALL = SearchConfig(
    batch=4, children=12, capacity=512, beam_width=2, beam_depth=1, missing=True
)  # a beam that finds little, so that the search must


class Instances(NamedTuple):
    """Many instances in float64, exact in float32; rows that are masked out hold what they like."""

    features: Any  # [B, m, N]
    labels: Any  # [B, m]
    weights: Any  # [B, m]
    costs: Any  # [B, N + 1] or None
    pairs: Any  # [B, m, m] or None
    mask: Any  # [B, m]


def random_instances(
    count, rows, attributes, seed, *, with_costs=True, with_pairs=False, missing=True, garbage=True
):
    """Weights and costs that are multiples of 1/4, of many kinds: the value of every monomial is
    exact.
    """
    random = np.random.default_rng(seed)

    def share(chance):
        return random.random(count) < chance

    features = (
        random.random((count, rows, attributes)) < random.uniform(0.2, 0.9, (count, 1, 1))
    ).astype(float)
    copied = share(0.3)
    features[copied, rows // 2 :] = features[copied, : rows - rows // 2]
    twins = share(0.2)
    features[twins, :, attributes // 2] = features[twins, :, 0]
    opposite = share(0.1)
    features[opposite, :, -1] = 1 - features[opposite, :, 0]
    constant = share(0.1)
    features[constant, :, 0] = 1
    if missing:
        features[(random.random(features.shape) < 0.25) & share(0.4)[:, None, None]] = np.nan
        features[share(0.02)] = np.nan

    labels = np.where(
        random.random((count, rows)) < random.uniform(0.1, 0.9, (count, 1)), 1.0, -1.0
    )
    conflict = share(0.3)
    features[conflict, 1] = features[conflict, 0]
    labels[conflict, 1] = -labels[conflict, 0]
    one_class = share(0.05)
    labels[one_class] = labels[one_class, :1]
    target = share(0.3)  # labels of a monomial, with noise
    hits = np.all(features[:, :, :3] == 1, axis=2)
    labels[target] = np.where(hits ^ (random.random(hits.shape) < 0.1), 1.0, -1.0)[target]

    weights = random.integers(0, 9, (count, rows)).astype(float) / 4
    weights[share(0.2)] = 1.0
    weights[(random.random(weights.shape) < 0.5) & share(0.4)[:, None]] = 0.0
    weights[share(0.02)] = 0.0

    prices = None
    if with_costs:
        orders = np.arange(attributes + 1)
        prices = np.cumsum(random.integers(0, 4, (count, attributes + 1)), axis=1) / 4.0
        wild = share(0.3)
        prices[wild] = random.integers(0, 8, prices.shape)[wild] / 4
        prices[share(0.3)] = 0.0
        huge = share(0.05)
        prices[huge] += 1e4
        last = random.integers(0, attributes + 1, (count, 1))
        prices[(orders > last) & share(0.6)[:, None]] = np.inf
        gap = random.integers(0, attributes + 1, count)
        holes = share(0.2) & (np.isfinite(prices).sum(axis=1) > 1)
        prices[holes, gap[holes]] = np.inf
        prices[~np.isfinite(prices).any(axis=1), 0] = 0.5

    pairs = None
    if with_pairs:
        pairs = random.integers(1, 9, (count, rows, rows)) / 4.0
        pairs[random.random(pairs.shape) > random.uniform(0, 1, (count, 1, 1))] = 0.0
        one_order = share(0.3)
        pairs[one_order] = np.where(labels[one_order][:, :, None] > 0, pairs[one_order], 0)
        pairs[share(0.05)] = 0.0
        weights[share(0.2)] = 0.0

    mask = (
        np.arange(rows)[None, :]
        < np.where(share(0.6), rows, random.integers(0, rows + 1, count))[:, None]
    )
    mask &= (random.random(mask.shape) < 0.8) | ~share(0.2)[:, None]
    if with_costs:  # where nothing has weight, costs alone decide: a test of their own
        opposed = mask[:, :, None] & mask[:, None, :] & (labels[:, :, None] != labels[:, None, :])
        at_stake = 0 if pairs is None else np.where(opposed, pairs, 0).sum(axis=(1, 2))
        prices[np.where(mask, weights, 0).sum(axis=1) + at_stake == 0] = 0.0
    if garbage:
        features[~mask], labels[~mask], weights[~mask] = 7.0, 0.0, -1.0
        if pairs is not None:
            pairs[~mask] = np.nan
    return Instances(features, labels, weights, prices, pairs, mask)


def solve_one(instance, max_order, config):
    features, labels, weights, prices, pairs, mask = instance
    return maximum_agreement(
        features,
        labels,
        weights,
        max_order=max_order,
        costs=prices,
        pair_weights=pairs,
        mask=mask,
        config=config,
    )


@functools.partial(jax.jit, static_argnames=("max_order", "config"))
def solve_many(instances, max_order=None, config=SMALL):
    return few_at_once(lambda one: solve_one(one, max_order, config), instances, 5)


def device(instances):
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, bool if leaf.dtype == bool else float), instances
    )


def solve(instances, max_order=None, config=SMALL):
    return jax.tree.map(np.asarray, solve_many(device(instances), max_order, config))


def values_of(instances, literals):
    """[B, M, 2] of literals [M, N] or [B, M, N]."""
    features, labels, weights, prices, pairs, mask = instances
    pairs = None if pairs is None else np.where(mask[:, :, None] & mask[:, None, :], pairs, 0)
    return oracle.values(
        literals, features, labels, np.where(mask, weights, 0), costs=prices, pairs=pairs, mask=mask
    )


def optima(instances, max_order=None):
    num_attributes = instances.features.shape[2]
    literals = oracle.all_monomials(
        num_attributes, num_attributes if max_order is None else max_order
    )
    return values_of(instances, literals).max(axis=(1, 2))


def recomputed(instances, solved):
    """The values of the monomials returned."""
    both = values_of(instances, solved.literals[:, None, :])[:, 0]
    return np.where(solved.sign == 1, both[:, 0], both[:, 1])


def check_all(instances, solved, *, max_order=None):
    """All are solved, to the bit."""
    best = optima(instances, max_order)
    wrong = np.flatnonzero(solved.value != best)
    assert not len(wrong), (wrong[:5], solved.value[wrong[:5]], best[wrong[:5]])
    np.testing.assert_array_equal(recomputed(instances, solved), best)
    assert (solved.status == Status.OPTIMAL).all()
    assert (solved.upper_bound >= best).all()
    least = 0 if instances.costs is None else instances.costs.min(axis=1)
    slack = 1e-6 * (np.abs(best) + least)
    loose = np.flatnonzero(solved.upper_bound - best > slack)
    assert not len(loose), (loose[:5], solved.upper_bound[loose[:5]], best[loose[:5]])
    assert set(np.unique(solved.literals)) <= {-1, 0, 1}
    assert set(np.unique(solved.sign)) <= {-1, 1}
    np.testing.assert_array_equal(solved.others.literals[:, 0], solved.literals)
    np.testing.assert_array_equal(solved.others.values[:, 0], solved.value)
    return best


# --- brute force ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("with_pairs", "wide"),
    [(False, False), (True, False), (False, True)],
    ids=["weights", "pairs", "float64"],
)
def test_thousands_of_small_instances(with_pairs, wide):
    with jax.enable_x64(wide):
        for seed in range(3 if wide else 7):
            instances = random_instances(COUNT, ROWS, ATTRIBUTES, seed, with_pairs=with_pairs)
            solved = solve(instances)
            assert solved.value.dtype == (np.float64 if wide else np.float32)
            check_all(instances, solved)


@pytest.mark.slow
@pytest.mark.parametrize("max_order", [0, 1])
@pytest.mark.parametrize(
    ("with_pairs", "wide"),
    [(False, False), (True, False), (True, True)],
    ids=["weights", "pairs", "float64"],
)
def test_orders_that_need_no_search(max_order, with_pairs, wide):
    with jax.enable_x64(wide):
        for seed in range(2):
            instances = random_instances(COUNT, ROWS, ATTRIBUTES, 60 + seed, with_pairs=with_pairs)
            prices = instances.costs[:, : max_order + 1]
            prices[~np.isfinite(prices).any(axis=1), 0] = 0.5
            nothing = instances.costs.max(axis=1) == 0
            instances = instances._replace(costs=np.where(nothing[:, None], 0.0, prices))
            solved = solve(instances, max_order, dataclasses.replace(SMALL, num_best=3))
            check_all(instances, solved, max_order=max_order)
            values = values_of(instances, solved.others.literals)
            found = np.where(solved.others.signs == 1, values[..., 0], values[..., 1])
            are_found = np.isfinite(solved.others.values)
            np.testing.assert_array_equal(solved.others.values[are_found], found[are_found])
            assert (solved.others.values[:, 1:] <= solved.others.values[:, :-1]).all()


# every search goes on in instances of at most four literals
NARROW = dataclasses.replace(SMALL, narrow=4)


@pytest.mark.slow
@pytest.mark.parametrize("with_pairs", [False, True])
def test_thousands_of_small_instances_by_parts(with_pairs):
    for seed in range(3 if with_pairs else 7):
        instances = random_instances(
            COUNT, ROWS, ATTRIBUTES, 50 + seed, with_pairs=with_pairs, with_costs=seed % 2 == 0
        )
        check_all(instances, solve(instances, None, NARROW))


@pytest.mark.slow
@pytest.mark.parametrize("with_pairs", [False, True])
def test_the_sizes_of_other_devices_find_the_same(with_pairs, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    instances = random_instances(
        100, ROWS, ATTRIBUTES, 75, with_pairs=with_pairs, with_costs=with_pairs
    )
    check_all(
        instances, solve(instances, None, SearchConfig(beam_width=2, beam_depth=1, missing=True))
    )


@pytest.mark.slow
def test_thousands_of_small_instances_of_free_literals():
    for seed in range(7):
        instances = random_instances(COUNT, ROWS, ATTRIBUTES, 100 + seed, with_costs=False)
        check_all(instances, solve(instances))


@pytest.mark.slow
def test_more_attributes_than_a_word_has_bits():
    instances = random_instances(30, 12, 33, 200, with_costs=False)
    check_all(instances, solve(instances, 2), max_order=2)


@pytest.mark.slow
@pytest.mark.parametrize("attributes", [1, 2, 3, 8])
@pytest.mark.parametrize("with_pairs", [False, True])
def test_other_sizes(attributes, with_pairs):
    for rows in (2, 14):
        instances = random_instances(300, rows, attributes, 300, with_pairs=with_pairs)
        check_all(instances, solve(instances))


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        SearchConfig(missing=True, capacity=2048),
        SearchConfig(
            missing=True, capacity=512, beam_depth=0, num_matchings=0, num_nested=0, batch=1
        ),
    ],
)
@pytest.mark.parametrize("max_order", [0, 1, 2, 3, 4, None])
def test_every_order_with_other_settings(max_order, config):
    instances = random_instances(200, 16, 6, 400, with_costs=False)
    check_all(instances, solve(instances, max_order, config), max_order=max_order)


def row(instances, index, *, drop_masked=True):
    """One instance; without the rows that are masked out, unless told."""
    one = Instances(*(None if leaf is None else leaf[index] for leaf in instances))
    if not drop_masked:
        return one
    kept = one.mask
    pairs = None if one.pairs is None else one.pairs[kept][:, kept]
    return Instances(
        one.features[kept], one.labels[kept], one.weights[kept], one.costs, pairs, None
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["known", "missing", "pairs"])
def test_called_alone_it_finds_the_same(kind):
    """Equal examples are merged, idle ones left out; one bucket of sizes, so that all are solved by
    one program.
    """
    instances = random_instances(
        60, 8, 4, 500, with_pairs=kind == "pairs", missing=kind == "missing"
    )
    best = optima(instances)
    for index in range(60):
        one = row(instances, index, drop_masked=False)
        if kind == "missing":
            one.features[np.argmax(one.mask), 0] = np.nan
            best[index] = optima(jax.tree.map(lambda leaf: leaf[None], one))[0]
        alone = jax.tree.map(np.asarray, solve_one(one, None, SearchConfig()))
        assert (alone.value, alone.status) == (best[index], Status.OPTIMAL), index
        assert (
            recomputed(*(jax.tree.map(lambda leaf: leaf[None], part) for part in (one, alone)))
            == best[index]
        )
        assert (
            best[index]
            <= alone.upper_bound
            <= best[index] + 1e-6 * (abs(best[index]) + one.costs.min())
        )


@pytest.mark.slow
def test_literals_that_change_no_cover_may_pay():
    """Where higher orders cost less, an attribute that equals another one has its use."""
    table, labels, weights = (
        np.array([[1.0] * 4, [0.0] * 4]),
        np.array([1, -1]),
        np.array([0.5, 0.5]),
    )
    for prices in (
        [np.inf, np.inf, 0, np.inf, np.inf],
        [1, 1, 0, 0, 1],
        [np.inf, 0.5, 0.25, 0.125, 0.0],
    ):
        exact_check(table, labels, weights, prices=prices)


@pytest.mark.slow
def test_costs_decide_where_nothing_has_weight():
    instances = random_instances(COUNT, ROWS, ATTRIBUTES, 550, garbage=False)
    bare = instances._replace(
        weights=0 * instances.weights,
        costs=np.random.default_rng(0).integers(1, 9, (COUNT, ATTRIBUTES + 1)) / 4,
    )
    check_all(bare, solve(bare))
    for prices in PRICES["falling"], PRICES["one order"], PRICES["all equal"]:
        exact_check(TABLE, LABELS, np.zeros(8), prices=prices)


@pytest.mark.slow
def test_sizes_0_1_and_2():
    for rows in (0, 1, 2):
        for labels in itertools.product((-1, 1), repeat=rows):
            for first in (np.zeros(rows), np.ones(rows), np.arange(rows)):
                table, weights = (
                    np.stack([first, 1 - first, first * 0, first * 0 + 1], axis=1),
                    np.array([0.25, 0.75])[:rows],
                )
                solved = maximum_agreement(
                    table, np.array(labels, int), weights, max_order=None, costs=np.zeros(5)
                )
                assert (
                    float(solved.value)
                    == float(solved.upper_bound)
                    == oracle.best(table, np.array(labels), weights)
                )
                assert int(solved.status) == Status.OPTIMAL


@pytest.mark.slow
@pytest.mark.parametrize("with_pairs", [False, True])
def test_no_example_under_jit_is_as_none_alone(with_pairs):
    arguments = np.zeros((0, 2)), np.zeros(0), np.zeros(0)
    rewards = np.zeros((0, 0)) if with_pairs else None
    call = functools.partial(maximum_agreement, max_order=2, pair_weights=rewards)
    for prices in ([0.5, 0.25, 0.75], [0.25, 0.5, 0.75]):
        for solved in (
            call(*arguments, costs=np.array(prices)),
            jax.jit(call)(*arguments, costs=np.array(prices)),
        ):
            assert (float(solved.value), int(solved.status)) == (-0.25, Status.OPTIMAL)
            assert float(solved.upper_bound) >= -0.25
            assert solved.literals.shape == (2,)


@pytest.mark.slow
def test_no_attribute_and_one():
    none = maximum_agreement(np.zeros((2, 0)), [1, 1], [0.25, 0.5], max_order=None)
    assert (float(none.value), int(none.sign), none.literals.shape, int(none.status)) == (
        0.75,
        1,
        (0,),
        Status.OPTIMAL,
    )
    for features in itertools.product((0.0, 1.0, np.nan), repeat=2):
        table = np.array(features).reshape(2, 1)
        solved = maximum_agreement(table, [1, -1], [0.25, 0.75], max_order=None)
        assert (
            float(solved.value)
            == float(solved.upper_bound)
            == oracle.best(table, [1, -1], [0.25, 0.75])
        )


@pytest.mark.slow
@pytest.mark.parametrize("with_pairs", [False, True])
def test_rows_of_several_blocks_under_jit(with_pairs):
    """Rows that take part are gathered in few of the blocks, or in all of them."""
    instances = random_instances(24, 300, 4, 800, with_pairs=with_pairs, with_costs=not with_pairs)
    idle = np.arange(24)[:, None] % 3 > 0
    weights = np.where(
        idle & (np.random.default_rng(0).random((24, 300)) < 0.8), 0.0, instances.weights
    )
    pairs = (
        None
        if instances.pairs is None
        else np.where(np.arange(24)[:, None, None] % 3 > 1, 0.0, instances.pairs)
    )
    instances = instances._replace(weights=weights, pairs=pairs)
    for index, best in enumerate(optima(instances)):
        one = row(instances, index, drop_masked=False)
        solved = jax.tree.map(np.asarray, solve_under_jit(device(one)))
        assert (solved.value, solved.status) == (best, Status.OPTIMAL), index
        assert (
            recomputed(*(jax.tree.map(lambda leaf: leaf[None], part) for part in (one, solved)))
            == best
        )
        assert (
            best
            <= solved.upper_bound
            <= best + 1e-6 * (abs(best) + (0 if one.costs is None else one.costs.min()))
        )


@jax.jit
def solve_under_jit(instance):
    return solve_one(instance, None, SMALL)


@pytest.mark.slow
def test_few_and_many_pairs_of_sixty_rows():
    """Rewards are summed pair by pair where they are few, and by products where they are many; in
    several parts, and with little or much to flow.
    """
    instances = random_instances(30, 60, 5, 850, with_pairs=True, with_costs=False, missing=False)
    random = np.random.default_rng(1)
    density = np.repeat([0.003, 0.02, 0.3], 10)[:, None, None]
    pairs = np.where(random.random(instances.pairs.shape) < density, instances.pairs, 0.0)
    instances = instances._replace(
        pairs=pairs, weights=instances.weights * np.where(np.arange(30) % 2, 1.0, 0.0625)[:, None]
    )
    num_pairs = np.sum(pairs > 0, axis=(1, 2))
    assert num_pairs.min() < pairs[0].size / 64 < 256 < num_pairs.max()
    check_all(instances, solve(instances))


@pytest.mark.parametrize("num_rows", [0, 1, 7, 128, 129, 256, 300, 1023, 1025, 4601, 100_000])
def test_blocks_and_groups_hold_all_rows(num_rows, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")  # elsewhere blocks are larger
    whole = layout(num_rows).whole(num_rows)
    parts = layout(whole)
    assert num_rows <= whole <= 1.2 * num_rows
    assert parts.whole(whole) == whole
    assert parts.group % parts.block == 0
    assert 1 <= parts.block <= 128


@pytest.mark.slow
# of the wanted examples, and the rest of the unwanted ones
@pytest.mark.parametrize("share", [0.9, 0.1])
# of 160, that the batch uses: words of all, or of those in use
@pytest.mark.parametrize("num_literals", [150, 40])
@pytest.mark.parametrize("sign_index", [0, 1])
def test_what_flows_in_a_bound_is_a_transport_between_dominated_pairs(
    sign_index, num_literals, share, monkeypatch
):
    # elsewhere these few rows are one group
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    random = np.random.default_rng(num_literals)
    num_rows, num_attributes, num_nodes = 300, 80, 5
    assert num_rows > layout(layout(num_rows).whole(num_rows)).group  # more than one group
    covers = literals_of(
        jnp.asarray(random.random((2, num_rows, num_attributes)) < 0.5, jnp.float32), None
    )
    amounts, prices = (
        jnp.asarray(random.integers(0, 50, (2, num_rows)), jnp.int32),
        jnp.zeros((4,), jnp.int32),
    )
    both, _ = make(covers, amounts, None, prices, jnp.ones((num_attributes,), bool))
    instance = of_sign(both, jnp.asarray(sign_index))
    gains, losses = np.asarray(instance.amounts)
    size = gains.shape[0]
    used = random.permutation(2 * num_attributes)[:num_literals]
    usable = np.zeros((num_nodes, 2 * num_attributes), bool)
    for node in range(num_nodes):
        usable[node, used[: num_literals if node == 0 else 3 + node]] = True
    covered, removable = (
        random.random((size, num_nodes)) < share,
        random.random((size, num_nodes)) > share,
    )
    covered &= np.asarray(instance.rows.counts)[0][:, None]
    removable &= np.asarray(instance.rows.counts)[1][:, None]
    none = np.zeros_like(removable)
    order, in_order, _ = jax.jit(residual_gains, static_argnums=5)(
        instance, covered, removable, none, pack(jnp.asarray(usable)).T, 1024
    )
    left = np.zeros(covered.shape, int)
    left[np.asarray(order)] = np.asarray(in_order)
    assert not left[~covered].any()
    flowed = np.where(covered, gains[:, None], 0) - left
    assert np.all(flowed >= 0)
    for node in range(num_nodes):
        mine, theirs = np.asarray(instance.rows.covers)[:, :, 1:][:, :, usable[node]].astype(int)
        dominated = (mine @ (1 - theirs).T == 0) & covered[:, [node]] & removable[:, node]
        supply, room = flowed[:, node], losses
        assert _most_flow(dominated, supply, room) == supply.sum()  # all of it has a place
        # no pair was left out
        assert 2 * supply.sum() >= _most_flow(dominated, np.where(covered[:, node], gains, 0), room)
    assert flowed.sum(axis=0)[1:].min() > 0


def _most_flow(allowed, supply, room):
    """The largest flow from rows of some supply to columns of some room along allowed pairs, by
    SciPy.
    """
    rows, columns = allowed.shape
    first, second = np.nonzero(allowed)
    source, sink = rows + columns, rows + columns + 1
    begin = np.concatenate([np.full(rows, source), first, rows + np.arange(columns)])
    end = np.concatenate([np.arange(rows), rows + second, np.full(columns, sink)])
    most = np.concatenate([supply, np.full(first.size, supply.sum() + 1), room]).astype(np.int32)
    return maximum_flow(
        csr_array((most, (begin, end)), shape=(sink + 1, sink + 1)), source, sink
    ).flow_value


# --- what is enough -------------------------------------------------------------------------------


@jax.jit
def solve_for_enough(instances, enough):
    features, labels, weights, prices, _, mask = instances
    return jax.vmap(
        lambda *one: maximum_agreement(
            *one[:3], max_order=None, costs=one[3], mask=one[4], enough=one[5], config=SMALL
        )
    )(features, labels, weights, prices, mask, enough)


@pytest.mark.slow
def test_costs_whose_differences_are_rounded():
    """1000.1 - 0.1 is not a number of 24 bits: the dearer of two monomials is the better one by
    less than that hides.
    """
    weights, prices = np.float32([1001, 1000, 1001, 1000]), np.float32([np.inf, 0.1, 1000.1])
    solved = maximum_agreement(
        [[1, 1], [1, 0], [0, 1], [0, 0]], [1, -1, -1, 1], weights, max_order=2, costs=prices
    )
    best = max(1 - Fraction(float(prices[1])), 1001 - Fraction(float(prices[2])))
    assert Fraction(float(solved.upper_bound)) >= best
    assert float(solved.upper_bound) <= float(best) + 1e-3


@pytest.mark.slow
def test_what_the_beam_finds_is_enough_or_the_best_is_found():
    instances = random_instances(COUNT, ROWS, ATTRIBUTES, 900)
    best = optima(instances)
    for below in (-1.0, 0.0, 0.25, 1.0, np.inf):
        enough = (best - below).astype(np.float32)
        solved = jax.tree.map(np.asarray, solve_for_enough(device(instances), enough))
        is_enough = solved.status == Status.ENOUGH
        assert set(solved.status.tolist()) <= {Status.OPTIMAL, Status.ENOUGH}
        assert (solved.value > enough)[is_enough].all()
        np.testing.assert_array_equal(solved.value[~is_enough], best[~is_enough])
        np.testing.assert_array_equal(recomputed(instances, solved), solved.value)
        assert (solved.upper_bound >= best).all()
        assert is_enough.any() == (below > 0)
    assert "ENOUGH" in jboost.status.explain(Status.ENOUGH)


@pytest.mark.slow
@pytest.mark.parametrize("enough", [-np.inf, -5.0, -0.5, 0.0])
def test_an_order_that_is_not_allowed_is_never_enough(enough):
    """Only three literals are allowed, and the beam looks at two at most."""
    instance = random_instances(1, 12, 4, 950, with_costs=False, garbage=False)
    features, labels, weights = (
        np.nan_to_num(part[0])
        for part in (instance.features, instance.labels, instance.weights + 0.25)
    )
    prices = np.array([np.inf, np.inf, np.inf, 0.0])
    literals = oracle.all_monomials(4, 3)
    best = oracle.values(
        literals,
        features[None],
        labels[None],
        weights[None],
        costs=prices[None],
        pairs=None,
        mask=np.ones((1, 12), bool),
    ).max()
    solved = maximum_agreement(
        features,
        labels,
        weights,
        max_order=3,
        costs=prices,
        enough=enough,
        config=SearchConfig(beam_width=2, beam_depth=1),
    )
    assert (solved.value > enough) | (int(solved.status) == Status.OPTIMAL)
    assert np.abs(solved.literals).sum() == 3
    assert solved.value <= best <= solved.upper_bound


def test_bad_enough():
    arguments = ([[1], [0]], [1, -1], [0.5, 0.5])
    for enough, message in ((np.nan, "enough is nan"), ("much", "enough"), ([0.0, 1.0], "enough")):
        with pytest.raises(ValueError, match=message):
            maximum_agreement(*arguments, max_order=1, enough=enough)
    solved = jax.jit(lambda enough: maximum_agreement(*arguments, max_order=1, enough=enough))(
        np.float32(np.nan)
    )
    assert int(solved.status) == Status.INVALID_INPUT


# --- equal instances ------------------------------------------------------------------------------


@pytest.mark.slow
def test_order_labels_scale_and_padding_do_not_matter():
    """All in one call with `solve_many` of the brute force: members of unequal difficulty."""
    whole = random_instances(COUNT, ROWS, ATTRIBUTES, 600)
    solved = solve(whole)
    random = np.random.default_rng(0)
    features, labels, weights, prices, _, mask = whole
    rows, columns = random.permutation(ROWS), random.permutation(ATTRIBUTES)
    moved = solve(
        Instances(
            features[:, rows][:, :, columns],
            labels[:, rows],
            weights[:, rows],
            prices,
            None,
            mask[:, rows],
        )
    )
    np.testing.assert_array_equal(moved.value, solved.value)
    flipped = solve(whole._replace(labels=-labels))
    np.testing.assert_array_equal(flipped.value, solved.value)
    swapped = solve(whole._replace(features=np.where(mask[:, :, None], 1 - features, features)))
    np.testing.assert_array_equal(swapped.value, solved.value)
    for scale in (2.0**-20, 2.0**20, 2.0**-90, 2.0**90):
        scaled = solve(whole._replace(weights=weights * scale, costs=prices * scale))
        np.testing.assert_array_equal(scaled.value, (solved.value * scale).astype(np.float32))
        np.testing.assert_array_equal(scaled.literals, solved.literals)
    for scale in (1e-6, 1e6):
        scaled = solve(whole._replace(weights=weights * scale, costs=prices * scale))
        np.testing.assert_allclose(scaled.value, solved.value * scale, rtol=1e-5, atol=1e-5 * scale)
        assert (scaled.status == Status.OPTIMAL).all()
        assert (scaled.upper_bound >= scaled.value).all()
    clean = random_instances(COUNT, ROWS, ATTRIBUTES, 600, garbage=False)
    padded = solve(clean)
    for got, want in zip(jax.tree.leaves(padded), jax.tree.leaves(solved), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_vmap_equals_a_loop_and_jit_equals_a_call_alone(compilations):
    instances = random_instances(COUNT, ROWS, ATTRIBUTES, 700)
    together = solve(instances)
    inside = jax.jit(lambda one: solve_one(one, None, SMALL))
    for index in range(25):
        one = row(instances, index, drop_masked=False)
        jitted = jax.tree.map(np.asarray, inside(device(one)))
        for got, want in zip(jax.tree.leaves(jitted), jax.tree.leaves(together), strict=True):
            np.testing.assert_array_equal(got, want[index])
        before = compilations()
    assert compilations() == before


@pytest.mark.slow
def test_no_second_compilation(compilations):
    def call(seed):
        random = np.random.default_rng(seed)
        exact_check(
            TABLE[random.permutation(8)], LABELS, random.random(8) + 0.1, prices=random.random(5)
        )
        solve_many(device(random_instances(COUNT, ROWS, ATTRIBUTES, 800 + seed)))

    call(0)
    before = compilations()
    for seed in range(1, 6):
        call(seed)
    assert compilations() == before


# --- amounts of every size ------------------------------------------------------------------------


def exact_check(table, labels, weights, *, max_order=None, prices=None, pairs=None):
    """Value, bound and their distance against fractions of the very numbers that the search is
    given (float32).
    """
    weights = np.asarray(weights, np.float32)
    prices = None if prices is None else np.asarray(prices, np.float32)
    pairs = None if pairs is None else np.asarray(pairs, np.float32)
    solved = jax.tree.map(
        np.asarray,
        maximum_agreement(
            table, labels, weights, max_order=max_order, costs=prices, pair_weights=pairs
        ),
    )
    best = oracle.exact_best(table, labels, weights, max_order=max_order, costs=prices, pairs=pairs)
    mine = oracle.exact_value(
        solved.literals, solved.sign, table, labels, weights, costs=prices, pairs=pairs
    )
    total = sum(Fraction(float(amount)) for amount in weights) + (
        0 if pairs is None else sum(Fraction(float(amount)) for amount in pairs.reshape(-1))
    )
    least = Fraction(0) if prices is None else Fraction(float(prices.min()))
    tiny = Fraction(2**-20) * (total + least)
    assert solved.status == Status.OPTIMAL
    assert Fraction(float(solved.upper_bound)) >= best, (float(solved.upper_bound), float(best))
    assert best - mine <= tiny, (float(best), float(mine))
    assert abs(Fraction(float(solved.value)) - mine) <= tiny, (float(solved.value), float(mine))
    assert Fraction(float(solved.upper_bound)) - mine <= tiny, (
        float(solved.upper_bound),
        float(mine),
    )
    return solved


TABLE = np.array(
    [
        [0, 0, 1, 0],
        [1, 0, 1, 1],
        [0, 1, 1, 0],
        [1, 1, 0, 0],
        [0, 0, 0, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [1, 1, 1, 0],
    ],
    float,
)
LABELS = np.array([1, -1, 1, 1, -1, -1, 1, -1])

AMOUNTS = {
    "nothing": np.zeros(8),
    "huge": np.full(8, 1e37),
    "huge and unequal": np.linspace(1, 8, 8) * 1e36,
    "tiny": np.linspace(1, 8, 8) * 1e-36,
    "mixed": np.array([1e30, 1e-30, 1, 1e30, 1e-30, 1e-30, 1, 1e-30]),
    "all but one tiny": np.array([1e30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30]),
    "one": np.eye(8)[3],
    "thirds": np.full(8, 1 / 3),
    "next to each other": 1 + np.arange(8) * 2.0**-23,
    "near the least normal number": np.linspace(1, 8, 8) * 1.2e-38,
}


@pytest.mark.parametrize("name", AMOUNTS)
def test_weights_of_every_size(name):
    exact_check(TABLE, LABELS, AMOUNTS[name])


@pytest.mark.parametrize("prices", [None, [1.8014974e-38, 4.8e-38, 5e-38]])
@pytest.mark.parametrize("max_order", [1, 2])
def test_bounds_near_the_least_normal_number_hold(max_order, prices):
    """The rounding of such values, or a value itself, is below the normal range, which XLA takes
    as 0.
    """
    weights = np.float32([1.5e-38, 1.3e-38] if prices is None else [1e-37, 0])
    own = None if prices is None else np.float32(prices[: max_order + 1])
    solved = maximum_agreement([[0.0, 0.0]] * 2, [1, -1], weights, max_order=max_order, costs=own)
    best = Fraction(float(weights[0])) - Fraction(float(weights[1] if own is None else own[0]))
    assert best <= Fraction(float(solved.upper_bound)) <= best + Fraction(2e-37)


@pytest.mark.parametrize("max_order", [1, 2])
def test_weights_that_sum_to_nearly_the_largest_float_have_a_finite_bound(max_order):
    weights = np.float32([1.7e38, 1.7e38])
    solved = maximum_agreement([[0.0, 1.0], [1.0, 1.0]], [1, -1], weights, max_order=max_order)
    assert solved.status == Status.OPTIMAL
    assert float(solved.value) == float(solved.upper_bound) == float(weights[0])


PRICES = {
    "more than everything": [1e6, 2e6, 3e6, 4e6, 5e6],
    "more than everything, but for one": [1e6, 1e6, 1e6, 0.0, 1e6],
    "all equal": [1 / 3] * 5,
    "less than a unit": [0, 1e-12, 2e-12, 3e-12, 4e-12],
    "falling": [1, 0.7, 0.4, 0.2, 0.1],
    "one order": [np.inf, np.inf, 0.1, np.inf, np.inf],
    "the first order only": [0.3, np.inf, np.inf, np.inf, np.inf],
    "near the value": [0.33333, 0.333331, 0.9, 1.1, 1.3],
    "beyond all": [1e38, 1e38, 1e38, 1e38, 1.2e38],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRICES)
def test_costs_of_every_size(name):
    exact_check(TABLE, LABELS, np.linspace(0.1, 0.8, 8), prices=PRICES[name])
    exact_check(TABLE, LABELS, np.full(8, 1 / 7), prices=PRICES[name])


@pytest.mark.slow
def test_bounds_of_real_numbers_hold_in_fractions():
    random = np.random.default_rng(1)
    for _ in range(60):
        table = random.integers(0, 2, (8, 4)).astype(float)
        labels = random.choice([-1, 1], 8)
        weights = np.exp(random.normal(size=8) * random.choice([0.1, 1, 5, 20]))
        prices = np.sort(random.random(5)) * weights.sum() * random.choice([1e-6, 0.1, 1.0, 100.0])
        if random.random() < 0.5:
            prices += random.random() * weights.sum()
        exact_check(table, labels, weights, prices=prices)


@pytest.mark.slow
def test_pair_weights_of_every_size():
    random = np.random.default_rng(2)
    for scale, weights in (
        (1e-6, np.ones(8)),
        (1e30, np.ones(8)),
        (1.0, np.zeros(8)),
        (1e-30, np.zeros(8)),
        (1e-20, np.full(8, 1e10)),
    ):
        exact_check(TABLE, LABELS, weights, prices=np.zeros(5), pairs=random.random((8, 8)) * scale)


@pytest.mark.slow
def test_a_thousand_rows_of_eight_kinds_in_every_type():
    random = np.random.default_rng(3)
    place = random.integers(0, 8, 1000)
    table, labels, weights = (
        TABLE[place].astype(int),
        random.choice([-1, 1], 1000),
        random.random(1000).astype(np.float32),
    )
    want = oracle.best(table.astype(float), labels, weights)
    for features in (table, table.astype(bool), table.astype(np.uint8), table.astype(np.float16)):
        solved = maximum_agreement(features, labels, weights, max_order=None)
        assert float(solved.value) == pytest.approx(want, rel=1e-5)
        assert want <= float(solved.upper_bound) <= want * (1 + 1e-5)


@pytest.mark.slow
def test_wide_weights_of_narrow_features_are_not_rounded(x64):
    """Two examples alike, of opposite labels, whose weights differ by less than float32 tells
    apart.
    """
    table, weights = np.ones((2, 1), np.float32), np.array([1 + 2.0**-26, 1 - 2.0**-27])
    best = oracle.exact_best(table, [1, -1], weights)
    solved = maximum_agreement(table, [1, -1], weights, max_order=1)
    assert float(solved.value) == float(best) == 3 * 2.0**-27
    assert Fraction(float(solved.upper_bound)) >= best
    solved = maximum_agreement(
        table, [1, -1], weights.astype(np.float32), max_order=1, costs=np.array([2.0**-40, 1.0])
    )
    assert solved.value.dtype == np.float64


@pytest.mark.slow
def test_pairs_and_a_mask():
    instances = random_instances(1, 8, 4, 900, with_pairs=True, missing=False, garbage=False)
    features, labels, weights, prices, pairs, _ = row(instances, 0)
    mask = np.arange(8) % 3 > 0
    # on rows that do not count anything may stand
    pairs[~mask], weights[~mask], labels[~mask] = -1, np.nan, 0
    solved = solve_one(Instances(features, labels, weights, prices, pairs, mask), None, None)
    want = oracle.best(
        features[mask], labels[mask], weights[mask], costs=prices, pairs=pairs[mask][:, mask]
    )
    assert float(solved.value) == want


# --- limits and bad input -------------------------------------------------------------------------


def hard_instances(seed=0):
    """Labels at random: the beam finds little, and the bounds cut little."""
    random = np.random.default_rng(seed)
    features = random.integers(0, 2, (40, 30, 8)).astype(float)
    return Instances(
        features,
        random.choice([-1.0, 1.0], (40, 30)),
        random.integers(1, 9, (40, 30)) / 4,
        None,
        None,
        np.ones((40, 30), bool),
    )


@pytest.mark.slow
def test_limits_leave_valid_bounds():
    config = SearchConfig(
        batch=2, children=16, beam_width=1, beam_depth=0, capacity=14, max_steps=3
    )
    instances = hard_instances()
    solved = solve(instances, None, config)
    best = optima(instances)
    assert set(solved.status.tolist()) == {
        Status.OPTIMAL,
        Status.CAPACITY_LIMIT,
        Status.ITERATION_LIMIT,
    }
    assert (solved.value <= best).all()
    assert (solved.value < best).any()
    assert (solved.upper_bound >= best).all()
    assert (solved.upper_bound <= instances.weights.sum(axis=1)).all()
    np.testing.assert_array_equal(recomputed(instances, solved), solved.value)
    assert (solved.value == solved.upper_bound)[solved.status == Status.OPTIMAL].all()
    assert "CAPACITY_LIMIT" in jboost.status.explain(solved.status)


@functools.partial(jax.jit, static_argnames="config")
def greedy_many(instances, config):
    features, labels, weights, prices, _, mask = instances
    return jax.vmap(
        lambda *one: greedy(*one[:3], max_order=None, costs=one[3], mask=one[4], config=config)
    )(features, labels, weights, prices, mask)


@pytest.mark.slow
def test_greedy_is_below_the_optimum_and_its_bound_above_and_missing_values_need_a_word_under_jit():
    config = SearchConfig(beam_width=4, capacity=16)
    instances = random_instances(COUNT, ROWS, ATTRIBUTES, 1000)
    has_weight = instances.mask & (instances.weights > 0)  # other examples may hold any values
    counts = np.where(has_weight.any(axis=1)[:, None], has_weight, instances.mask)
    has_missing = (np.isnan(instances.features) & counts[:, :, None]).any(axis=(1, 2))
    found = jax.tree.map(np.asarray, greedy_many(device(instances), config))
    best = optima(instances)
    assert (found.status[has_missing] == Status.INVALID_INPUT).all()
    assert (found.value[has_missing] == -np.inf).all()
    assert (found.upper_bound[has_missing] == np.inf).all()
    known = ~has_missing
    assert known.sum() > 100
    assert set(found.status[known].tolist()) <= {Status.OPTIMAL, Status.ITERATION_LIMIT}
    assert (found.value <= best)[known].all()
    assert (found.value == best)[known].mean() > 0.5
    assert (found.upper_bound >= best)[known].all()
    is_proven = known & (found.status == Status.OPTIMAL)
    np.testing.assert_array_equal(found.value[is_proven], best[is_proven])
    finite = known & (found.value > -np.inf)
    np.testing.assert_array_equal(recomputed(instances, found)[finite], found.value[finite])


@pytest.mark.slow
def test_bad_values_under_jit():
    instances = random_instances(COUNT, ROWS, ATTRIBUTES, 1100)
    mask = np.ones((COUNT, ROWS), bool)
    for place, bad in (
        (0, 0.5),
        (0, np.inf),
        (0, -1.0),
        (1, 0.0),
        (1, 2.0),
        (1, np.nan),
        (2, -1.0),
        (2, np.nan),
        (2, np.inf),
        (3, -1.0),
        (3, np.nan),
    ):
        clean = random_instances(COUNT, ROWS, ATTRIBUTES, 1100, garbage=False)._replace(mask=mask)
        clean.weights[:7, 2] = 1.0  # with a weight of 0 it may hold any values
        clean[place][:7, ..., 2] = bad
        solved = solve(clean)
        assert (solved.status[:7] == Status.INVALID_INPUT).all(), (place, bad)
        assert (solved.status[7:] == Status.OPTIMAL).all()
        assert (solved.value[:7] == -np.inf).all()
        assert (solved.upper_bound[:7] == np.inf).all()
    instances.costs[:7] = np.inf
    assert (solve(instances).status[:7] == Status.INVALID_INPUT).all()


@pytest.mark.slow
def test_bad_pair_weights_under_jit():
    for bad in (-1.0, np.nan, np.inf):
        instances = random_instances(
            COUNT, ROWS, ATTRIBUTES, 1200, with_pairs=True, garbage=False
        )._replace(mask=np.ones((COUNT, ROWS), bool))
        instances.labels[:7, :2] = 1, -1
        instances.pairs[:7, 0, 1] = bad
        solved = solve(instances)
        assert (solved.status[:7] == Status.INVALID_INPUT).all()
        assert (solved.status[7:] == Status.OPTIMAL).all()


def test_bad_values_and_arguments():
    table, labels, weights = np.eye(3), [1, -1, 1], [0.2, 0.3, 0.5]

    def fails(message, features=table, labels=labels, weights=weights, **options):
        with pytest.raises(ValueError, match=message):
            maximum_agreement(features, labels, weights, **({"max_order": 2} | options))

    fails(
        r"features\[1, 2\] is 0.5.*jboost\.data\.binarization",
        np.where(np.arange(9).reshape(3, 3) == 5, 0.5, 0),
    )
    fails(r"features\[0, 0\] is inf", np.full((3, 3), np.inf))
    fails("features", np.ones(3))
    fails("features", np.full((3, 3), "a"))
    fails("features", None)
    fails("labels", labels=[1, -1])
    fails(r"labels\[1\] is 0: labels are -1 or \+1", labels=[1, 0, 1])
    fails("labels", labels=[1, np.nan, 1])
    fails(r"example_weights\[2\] is -1", weights=[1, 1, -1])
    fails(r"example_weights\[0\] is nan", weights=[np.nan, 1, -1])
    fails("example_weights", weights=[np.inf, 1, 1])
    fails("example_weights", weights=np.ones((3, 1)))
    fails("max_order is 4.*3 attributes", max_order=4)
    fails("max_order", max_order=-1)
    fails("max_order", max_order=1.5)
    fails("max_order", max_order=True)
    fails("costs", costs=[0, 1])
    fails("costs", costs=[0, 1, 2, 3])
    fails(r"costs\[1\] is -1", costs=[0, -1, 2])
    fails(r"costs\[1\] is nan", costs=[0, np.nan, 2])
    fails("costs are all", costs=[np.inf] * 3)
    fails("pair_weights", pair_weights=np.ones((3, 2)))
    fails(r"pair_weights\[0, 1\] is -1", pair_weights=[[0, -1, 0], [0, 0, 0], [0, 0, 0]])
    fails("pair_weights", pair_weights=np.full((3, 3), np.nan))
    fails("mask", mask=[1, 0, 1])
    fails("mask", mask=[True, False])
    fails("config", config={})
    fails(
        "features has 262145 rows",
        np.ones((262145, 1)),
        np.ones(262145),
        np.ones(262145),
        max_order=1,
    )
    many = np.broadcast_to(np.zeros(1, np.int8), (32769, 32769))
    fails(
        "pair_weights is of 32769 examples",
        np.ones((32769, 1)),
        np.ones(32769),
        np.ones(32769),
        max_order=1,
        pair_weights=many,
    )
    with pytest.raises(ValueError, match="max_order"):
        jax.jit(lambda w: maximum_agreement(table, labels, w, max_order=4))(jnp.ones(3))
    for name in ("capacity", "beam_width", "num_best", "batch", "children"):
        with pytest.raises(ValueError, match=rf"config\.{name}"):
            SearchConfig(**{name: 0})
    for name in ("max_steps", "beam_depth", "num_matchings", "num_nested", "narrow"):
        with pytest.raises(ValueError, match=rf"config\.{name}"):
            SearchConfig(**{name: -1})
    for wrong in ({}, 5):
        with pytest.raises(ValueError, match="config"):
            greedy(table, labels, weights, max_order=2, config=wrong)


# --- several monomials, covers, costs, the stack --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("with_pairs", [False, True])
def test_what_a_search_that_was_cut_off_returns_is_in_order(with_pairs):
    """Values that the search knew from below, or as costs cut off, are known in the end."""
    instances = random_instances(200, ROWS, ATTRIBUTES, 77, with_pairs=with_pairs)
    cheap = instances._replace(weights=instances.weights / 64)
    for part in (instances, cheap):
        for max_steps in (0, 1):
            solved = solve(
                part,
                None,
                SearchConfig(
                    beam_width=2, beam_depth=1, max_steps=max_steps, num_best=3, missing=True
                ),
            )
            assert (solved.others.values[:, 1:] <= solved.others.values[:, :-1]).all()
            np.testing.assert_array_equal(solved.value, solved.others.values.max(axis=1))
            np.testing.assert_array_equal(solved.literals, solved.others.literals[:, 0])
            assert (solved.upper_bound >= optima(part)).all()


@pytest.mark.slow
def test_rewards_that_the_beam_did_not_know_count():
    rewards = np.array([[4, 4, 0, 0], [4, 4, 4, 0], [4, 0, 0, 4], [0, 0, 4, 4]], float)
    config = SearchConfig(max_steps=0, beam_depth=1, num_best=3)
    features, labels = [[1, 0], [1, 1], [1, 1], [0, 0]], [1, -1, -1, 1]
    found = maximum_agreement(
        features, labels, [0.25] * 4, max_order=2, pair_weights=rewards, config=config
    )
    assert float(found.value) == 12.5
    assert found.literals.tolist() == [0, 1]
    assert int(found.sign) == -1


@pytest.mark.slow
@pytest.mark.parametrize("priced", [False, True])
def test_several_best_are_distinct_sorted_and_of_the_values_they_have(priced):
    config = SearchConfig(num_best=12)
    instances = random_instances(30, 8, 4, 1300, missing=False, garbage=False)
    if not priced:
        instances.costs[:] = 0
    best = optima(instances)
    for index in range(30):
        one = row(instances, index, drop_masked=False)
        solved = jax.tree.map(np.asarray, solve_one(one, None, config))
        literals, signs, values = solved.others
        used = values > -np.inf
        assert values[0] == solved.value == best[index]
        assert literals.shape == (12, 4)
        assert used[: used.sum()].all()
        assert (np.diff(values[used]) <= 0).all()
        both = oracle.values(
            literals[used], one.features, one.labels, one.weights, costs=one.costs, mask=one.mask
        )
        np.testing.assert_array_equal(
            np.where(signs[used] == 1, both[:, 0], both[:, 1]), values[used]
        )
        inside = oracle.covers(literals[used], one.features) & one.mask & (one.weights > 0)
        assert (
            len(
                {
                    (sign, *here)
                    for sign, here in zip(signs[used].tolist(), inside.tolist(), strict=True)
                }
            )
            == used.sum()
        ), index


@pytest.mark.slow
@pytest.mark.parametrize("max_order", [0, 1, 2])
def test_places_without_a_monomial_are_empty(max_order):
    """More places than monomials: none holds one of an order that is not allowed."""
    features = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 0]], np.float32)
    labels, weights = np.array([1, -1, -1, 1]), np.array([0.4, 0.1, 0.3, 0.2], np.float32)
    costs = np.linspace(0.5, 0.1, max_order + 1)
    solved = jax.tree.map(
        np.asarray,
        maximum_agreement(
            features,
            labels,
            weights,
            max_order=max_order,
            costs=costs,
            config=SearchConfig(num_best=40),
        ),
    )
    literals, signs, values = solved.others
    used = values > -np.inf
    orders = np.abs(literals).sum(axis=1)
    assert used.any()
    assert not used.all()
    assert (orders <= max_order).all()
    assert not literals[~used].any()
    both = oracle.values(literals[used], features, labels, weights, costs=costs)
    np.testing.assert_allclose(
        np.where(signs[used] == 1, both[:, 0], both[:, 1]), values[used], atol=1e-6
    )
    assert solved.value == pytest.approx(
        oracle.best(features, labels, weights, max_order=max_order, costs=costs), abs=1e-6
    )


def test_covers():
    random = np.random.default_rng(4)
    features = random.choice([0.0, 1.0, np.nan], (30, 6))
    literals = oracle.all_monomials(6, 3)
    np.testing.assert_array_equal(
        covers(jnp.asarray(literals), jnp.asarray(features)), oracle.covers(literals, features)
    )
    known = np.nan_to_num(features)
    for dtype in (bool, np.int8, np.int64, np.float16):
        np.testing.assert_array_equal(
            covers(literals, known.astype(dtype)), oracle.covers(literals, known)
        )
    # 256 attributes missed are 0 in 8 bits
    assert not covers(np.ones((1, 256), np.int8), np.zeros((1, 256), np.int8)).any()
    with pytest.raises(ValueError, match=r"literals has shape \[2\]: expected shape \[k, 2\]"):
        covers([1, 0], np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"literals has shape \[1, 3\]"):
        covers([[1, 0, 1]], np.zeros((3, 2)))


@pytest.mark.slow
def test_costs_are_those_of_the_paper():
    for num_attributes, num_examples, max_order in ((8, 16, 1), (72, 294, 5), (5, 3, 5)):
        orders = np.arange(1, max_order + 1)
        bits = [k + math.log2(math.comb(num_attributes, k)) + math.log2(max_order) for k in orders]
        found = costs.mdl(1.25)(
            jnp.asarray(orders), num_attributes, jnp.asarray(num_examples), max_order
        )
        np.testing.assert_allclose(
            found, np.array(bits) / math.log2(num_examples) + 1.25, rtol=2e-5
        )
        sizes = [math.log(2 ** (k + 1) * math.comb(num_attributes, k)) for k in orders]
        found = costs.rademacher(0.1)(
            jnp.asarray(orders), num_attributes, jnp.asarray(num_examples), max_order
        )
        np.testing.assert_allclose(
            found, 0.1 * np.sqrt(2 * num_examples * np.array(sizes)), rtol=2e-5
        )
    assert (
        np.isinf(costs.mdl(1.5, num_attributes=3)(jnp.arange(1, 6), 5, 16, 5)).tolist()
        == [False] * 3 + [True] * 2
    )


@pytest.mark.slow
def test_the_stack_is_a_list():
    random = np.random.default_rng(5)
    nodes = stack.start({"a": jnp.asarray(7), "b": jnp.zeros(2)}, capacity=20, slack=6)
    plain = [7]
    for step in range(200):
        size = int(random.integers(1, 6))
        taken, is_node, begin = stack.top(nodes, size)
        assert int(begin) == max(len(plain) - size, 0)
        assert np.asarray(taken["a"])[np.asarray(is_node)].tolist() == plain[-size:]
        assert np.asarray(is_node).sum() == len(plain[-size:])
        used = int(random.integers(0, min(size, len(plain)) + 1))
        new = random.integers(0, 1000, 6)
        num = int(random.integers(0, 7)) if len(plain) - used <= 14 else 0
        begin = len(plain) - used
        nodes = stack.put(
            nodes,
            {"a": jnp.asarray(new), "b": jnp.zeros((6, 2))},
            jnp.asarray(num),
            jnp.asarray(begin),
        )
        plain = plain[:begin] + new[:num].tolist()
        assert int(nodes.count) == len(plain), step
        if not plain:
            nodes, plain = (
                stack.put(
                    nodes,
                    {"a": jnp.asarray(new), "b": jnp.zeros((6, 2))},
                    jnp.asarray(1),
                    jnp.asarray(0),
                ),
                [int(new[0])],
            )
        if step % 7 == 0:
            nodes, plain = (
                stack.sorted_by(nodes, nodes.nodes["a"] // 10),
                sorted(plain, key=lambda value: value // 10),
            )


# --- the learner ----------------------------------------------------------------------------------


def small_dataset(seed=0, rows=30):
    random = np.random.default_rng(seed)
    features = random.integers(0, 2, (rows, 4)).astype(np.float32)
    labels = np.where((features[:, 0] * features[:, 1] > 0) ^ (random.random(rows) < 0.2), 1, -1)
    return features, labels


@pytest.mark.slow
def test_the_learner():
    features, labels = small_dataset()
    mask = np.arange(30) < 25
    dataset = jboost.make_dataset(
        np.where(mask[:, None], features, 9), np.where(mask, labels, 0), mask=mask
    )
    learner = learners.monomials(2, num_proposed=5, constant_cost=0.25, kappa=1.25)
    state = learner.init(None, dataset)
    weights = np.where(mask, np.random.default_rng(1).random(30), 0).astype(np.float32)
    weights /= weights.sum()
    proposal = learner.propose(state, jnp.asarray(weights))
    edges = np.asarray(proposal.outputs, np.float64) @ (
        np.where(mask, labels, 0) * weights.astype(np.float64)
    )
    best = oracle.best(features, labels, weights, max_order=2)
    np.testing.assert_allclose(proposal.values, edges, atol=1e-6)
    assert float(proposal.values[0]) == pytest.approx(best, abs=1e-6)
    assert best <= float(proposal.upper_bound) <= best + 1e-5
    assert (np.asarray(proposal.outputs)[:, ~mask] == 0).all()
    for index in range(5):
        hypothesis = jax.tree.map(lambda leaf, index=index: leaf[index], proposal.hypotheses)
        inside = oracle.covers(np.asarray(hypothesis.literals)[None], features)[0]
        np.testing.assert_array_equal(
            learner.outputs(hypothesis, features), np.where(inside, int(hypothesis.sign), 0)
        )
        np.testing.assert_array_equal(
            proposal.outputs[index, :25], np.where(inside, int(hypothesis.sign), 0)[:25]
        )
        order = int(np.abs(hypothesis.literals).sum())
        want = (
            0.25
            if order == 0
            else (order + math.log2(math.comb(4, order)) + 1) / math.log2(25) + 1.25
        )
        assert float(learner.price(state, hypothesis)) == pytest.approx(want, rel=1e-5)
    assert bool(learner.outputs_are_signs(state))

    np.testing.assert_allclose(
        learner.prices(state),
        [0.25, *(learner.price(state, monomial(k)) for k in (1, 2))],
        rtol=1e-6,
    )
    assert float(learner.least_price(state)) == float(learner.prices(state)[1:].min())
    assert (
        learner.describe(
            Monomial(jnp.array([1, 0, -1, 0], jnp.int8), jnp.asarray(-1, jnp.int8)),
            ["a", "b", "c", "d"],
        )
        == "-(a and not c)"
    )
    assert learner.describe(monomial(0), ["a", "b", "c", "d"]) == "always"


def monomial(order):
    return Monomial((jnp.arange(4) < order).astype(jnp.int8), jnp.ones((), jnp.int8))


@pytest.mark.slow
def test_the_learner_with_pair_weights_and_costs():
    features, labels = small_dataset()
    learner = learners.monomials(2, num_proposed=2)
    weights, pairs, prices = (
        np.full(30, np.float32(1 / 30)),
        np.random.default_rng(2).random((30, 30)),
        np.array([0.5, 0.1, 0.2]),
    )
    state = learner.init(None, jboost.make_dataset(features, labels))
    richer = learner.propose(state, jnp.asarray(weights), pair_weights=pairs, costs=prices)
    want = oracle.best(features, labels, weights, max_order=2, costs=prices, pairs=pairs)
    assert float(richer.values[0]) == pytest.approx(want, rel=1e-6)
    assert want <= float(richer.upper_bound) <= want * (1 + 1e-5)


def test_weights_whose_sum_no_float_holds():
    features, labels = np.eye(3), [1, -1, 1]
    with pytest.raises(
        ValueError,
        match=(
            r"example_weights sum to 6e\+38 in all, more than float32 holds \(3.4e\+38\): divide"
            r" all of them"
        ),
    ):
        maximum_agreement(features, labels, [3e38, 3e38, 1.0], max_order=1)
    pairs = np.full((3, 3), 2e38)
    with pytest.raises(
        ValueError, match=r"pair_weights sum to 8e\+38 in all, more than float32 holds"
    ):
        maximum_agreement(features, labels, np.ones(3), max_order=1, pair_weights=pairs)


def test_bad_learners():
    dataset = jboost.make_dataset(np.eye(3), [1, -1, 1])
    with pytest.raises(ValueError, match="max_order is 4"):
        lpboost.fit(dataset, learners.monomials(4))
    for name, options in {
        "max_order": {"max_order": -1},
        "num_proposed": {"max_order": 1, "num_proposed": 0},
        "cost": {"max_order": 1, "cost": "aic"},
        "cost is 3": {"max_order": 1, "cost": 3.0},
        "config is a str": {"max_order": 1, "config": "fast"},
    }.items():
        with pytest.raises(ValueError, match=name):
            learners.monomials(**options)
    for name in ("kappa", "constant_cost"):
        with pytest.raises(ValueError, match=name):
            learners.monomials(1, **{name: -1.0})
    wrong = jboost.make_dataset(np.eye(3) * 2, [1, -1, 1])
    for fit in (functools.partial(jboost.l0.fit, margin=0.1), lpboost.fit):
        with pytest.raises(
            ValueError, match=r"features\[0, 0\] is 2: expected 0 or 1 .*jboost\.data\.binarization"
        ):
            fit(wrong, learners.monomials(1))
        with pytest.raises(
            ValueError, match=r"features\[1, 1\] is nan: expected 0 or 1 .*missing=True"
        ):
            fit(
                wrong._replace(features=jnp.where(jnp.eye(3) == 1, jnp.array([1, jnp.nan, 1]), 0)),
                learners.monomials(1),
            )
    learner = learners.monomials(1)
    state = learner.init(None, jboost.make_dataset(np.eye(3) * 2, [1, -1, 1]))
    with pytest.raises(ValueError, match=r"features.*jboost\.data\.binarization"):
        learner.propose(state, jnp.ones(3) / 3)


@pytest.mark.slow
def test_lpboost_over_all_monomials():
    features, labels = small_dataset()
    fitted = lpboost.fit(jboost.make_dataset(features, labels), learners.monomials(2), nu=0.3)
    literals = oracle.all_monomials(4, 2)
    outputs = oracle.covers(literals, features).T.astype(float)
    margins = np.hstack([outputs, -outputs]) * labels[:, None]
    optimum = highs.solve(lpboost_dual_program(margins, 0.3)).objective
    assert int(fitted.status) == Status.OPTIMAL
    assert fitted.certificate.lower_bound - 1e-7 <= optimum <= fitted.certificate.upper_bound + 1e-7
    assert fitted.certificate.upper_bound - fitted.certificate.lower_bound <= 1.001e-3
    scores = np.asarray(jboost.predict_scores(fitted.ensemble, features), np.float64) * labels
    worst = np.sort(scores)[:9].mean()  # nu m = 9
    assert float(fitted.certificate.lower_bound) - 1e-6 <= worst <= optimum + 1e-6


# --- the authors' own instances -------------------------------------------------------------------


def authors_instance(key, weights_key=None):
    with np.load(PAPERS / "PEBBL_MMA.npz") as file:
        labels = 2 * file[f"{key}_y"].astype(int) - 1
        features = np.unpackbits(file[f"{key}_X"], axis=1)[:, : int(file[f"{key}_n"])]
        weights = (
            np.full(len(labels), 1 / len(labels))
            if weights_key is None
            else np.maximum(file[weights_key], 0)
        )
    return features, labels, weights


KNOWN = {
    "hung72": [None, "hung72_w23"],
    "testdata": [None],
    "clev35": [None],
    "pima33": [None],
    "cmc57": [None],
    "spam40": [None],
    "spam73": [None],
}


@pytest.mark.slow
@needs_papers
@pytest.mark.parametrize(
    ("key", "weights_key"), [(key, it) for key, names in KNOWN.items() for it in names]
)
def test_known_optima(key, weights_key):
    with (PAPERS / "PEBBL_MMA_optima.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    (want,) = [
        float(line["best_value"])
        for line in rows
        if line["npz_key"] == key and line["weights_key"] == (weights_key or "uniform 1/rows")
    ]
    features, labels, weights = authors_instance(key, weights_key)
    solved = maximum_agreement(features, labels, weights, max_order=None)
    assert int(solved.status) == Status.OPTIMAL
    assert float(solved.value) == pytest.approx(want, abs=1e-6)
    assert want - 1e-8 <= float(solved.upper_bound) <= want + 1e-5
    inside = oracle.covers(np.asarray(solved.literals)[None], features.astype(float))[0]
    assert int(solved.sign) * float(weights @ (labels * inside)) == pytest.approx(want, abs=1e-6)


def test_costs_of_orders_of_a_million_attributes():
    wanted = (1 + np.log2(1e6)) / 20 + 1.5
    np.testing.assert_allclose(
        costs.mdl(1.5)(jnp.array([1]), 1_000_000, jnp.asarray(2**20), 1), wanted, rtol=1e-6
    )


@pytest.mark.slow
def test_a_full_stack_that_hides_nothing_is_optimal():
    features = np.array(
        [[(index >> bit) & 1 for bit in range(3)] for index in range(8)] * 4, np.float32
    )
    labels = np.where(np.arange(32) < 26, -1, 1)
    found = maximum_agreement(
        features, labels, np.ones(32), max_order=3, config=SearchConfig(capacity=1, beam_depth=0)
    )
    assert float(found.value) == float(found.upper_bound) == 20
    assert int(found.status) == Status.OPTIMAL
