"""Rewards as lists of pairs: beside sums by NumPy, and searches beside brute force over all
monomials. No form of the rewards may have an array of all pairs of many examples.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import learners
from jboost.base.status import Status
from jboost.learners import prices
from jboost.monomials import Rewards, SearchConfig, maximum_agreement, rewards
from oracles import monomials as oracle

ROWS, BITS, PAIRS = 10, 5, 30
SMALL = SearchConfig(
    batch=4, children=16, capacity=256, beam_width=4, beam_depth=3, num_best=2, narrow=4
)


def listed(rng, num_rows, size):
    """Pairs with repetitions, pairs within a class, and empty slots; and their matrix."""
    pairs = rng.integers(-1, num_rows, (size, 2)).astype(np.int32)
    values = (rng.integers(0, 9, size) / 4).astype(np.float32)
    matrix = np.zeros((num_rows, num_rows), np.float32)
    used = (pairs >= 0).all(axis=1)
    np.add.at(matrix, tuple(pairs[used].T), values[used])
    return Rewards(pairs, values), matrix


def instance(seed):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 2, (ROWS, BITS)).astype(np.float32)
    labels = rng.choice([-1.0, 1.0], ROWS).astype(np.float32)
    weights = (rng.integers(0, 9, ROWS) / 4).astype(np.float32) * (seed % 3 > 0)
    costs = np.sort(rng.integers(0, 4, 4) / 4).astype(np.float32)
    return (features, labels, weights, costs), *listed(rng, ROWS, PAIRS)


@functools.partial(jax.jit, static_argnames="keeps_matrix")
def searched(parts, pair_weights, *, keeps_matrix):
    del keeps_matrix  # a program of its own for each form
    features, labels, weights, costs = parts
    return maximum_agreement(
        features,
        labels,
        weights,
        max_order=3,
        costs=costs,
        pair_weights=Rewards(*pair_weights),
        config=SMALL,
    )


@pytest.mark.slow
@pytest.mark.parametrize("keeps_matrix", [False, True])
def test_searches_with_a_list_find_the_optimum_over_all_monomials(keeps_matrix, monkeypatch):
    monkeypatch.setattr(rewards, "keeps_matrix", lambda *_: keeps_matrix)
    for seed in range(60):
        parts, pairs, matrix = instance(seed)
        features, labels, weights, costs = parts
        best = oracle.best(features, labels, weights, max_order=3, costs=costs, pairs=matrix)
        found = searched(parts, pairs, keeps_matrix=keeps_matrix)
        assert found.status == Status.OPTIMAL
        assert float(found.value) == best
        assert best <= float(found.upper_bound) <= best + 0.01  # costs are rounded


@pytest.mark.slow
@pytest.mark.parametrize("max_order", [1, 3])
def test_a_list_and_its_matrix_give_one_result(max_order):
    """For arrays that are known, where examples are left out first."""
    for seed in range(12):
        (features, labels, weights, costs), pairs, matrix = instance(seed)
        one, other = (
            maximum_agreement(
                features,
                labels,
                weights,
                max_order=max_order,
                costs=costs[: max_order + 1],
                pair_weights=given,
                config=SMALL,
            )
            for given in (pairs, matrix)
        )
        for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("keeps_matrix", [False, True])
def test_pairs_by_sign_and_below_a_node_add_up_as_their_matrix(keeps_matrix, monkeypatch):
    monkeypatch.setattr(rewards, "keeps_matrix", lambda *_: keeps_matrix)
    rng = np.random.default_rng(3)
    size, num_pairs, width = 7, 300, 4  # more pairs than one iteration adds
    sides, first, second = (rng.integers(0, top, num_pairs) for top in (2, size, size))
    values = rng.integers(0, 5, num_pairs)
    matrix = np.zeros((2, size, size), int)
    np.add.at(matrix, (sides, first, second), values)
    given = rewards.PairsOfClasses(
        *(jnp.asarray(part, jnp.int32) for part in (sides, first, second, values))
    )
    gained, others = rewards.totals(given, size)
    np.testing.assert_array_equal(gained, matrix.sum(axis=2))
    np.testing.assert_array_equal(others, matrix.sum(axis=1)[::-1])
    np.testing.assert_array_equal(rewards.sums_by_sign(given), matrix.sum(axis=(1, 2)))

    order = np.stack([rng.permutation(size) for _ in range(2)])
    both = rewards.by_sign(given, jnp.asarray(order))
    flags = rng.random((size, width)) < 0.5
    for sign in (0, 1):
        mine, theirs = order[sign], order[1 - sign]
        square = matrix[sign][np.ix_(mine, theirs)]
        part = jax.tree.map(lambda leaf, sign=sign: leaf[sign], both)
        check_sums(part, square, flags)
        counts = np.stack([rng.random(size) < 0.6 for _ in range(2)])
        kept_first = np.argsort(~counts, axis=1, kind="stable")
        inner = rewards.below(part, jnp.asarray(counts), jnp.asarray(kept_first))
        square = np.where(np.logical_and.outer(*counts), square, 0)
        check_sums(inner, square[np.ix_(*kept_first)], flags)


def check_sums(pairs, square, flags):
    """Sums over the pairs whose second example is flagged, beside those of the matrix."""
    size, width = flags.shape
    sums = rewards.sum_by_wanted(
        pairs, lambda _, unwanted: jnp.asarray(flags)[unwanted], size, width
    )
    np.testing.assert_array_equal(sums, square @ flags)
    assert int(pairs.number) <= (square > 0).sum() * 300
    assert (np.diff(pairs.wanted) >= 0).all()
    if pairs.matrix is not None:
        np.testing.assert_array_equal(pairs.matrix, square)


def test_a_matrix_is_kept_only_where_it_is_small_or_full(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert rewards.keeps_matrix(200, 10_000)
    assert not rewards.keeps_matrix(200, 600)  # sums over so few pairs are faster
    assert not rewards.keeps_matrix(2000, 64_000)
    assert rewards.keeps_matrix(2000, 1_000_000)


def test_bad_lists_of_pairs():
    table, labels, weights = np.eye(3), [1, -1, 1], np.ones(3)

    def fails(match, pairs, values):
        with pytest.raises(ValueError, match=match):
            maximum_agreement(
                table, labels, weights, max_order=2, pair_weights=Rewards(pairs, values)
            )

    fails(r"pair_weights.pairs\[1\] is \[0, 3\]: expected rows", [[0, 1], [0, 3]], [1.0, 1.0])
    fails(r"pair_weights.pairs\[0\] is \[-2, 1\]", [[-2, 1]], [1.0])
    fails(r"pair_weights.pairs has shape \[2\]", [0, 1], [1.0])
    fails(r"pair_weights.values has shape \[2\]: expected shape \[1\]", [[0, 1]], [1.0, 2.0])
    fails(r"pair_weights\[0, 1\] is -1: expected a finite number", [[0, 1]], [-1.0])


def test_pairs_out_of_range_under_jit_are_invalid_input():
    def solve(pairs):
        return maximum_agreement(
            np.eye(3), [1.0, -1.0, 1.0], np.ones(3), max_order=1, pair_weights=Rewards(pairs, [1.0])
        ).status

    assert jax.jit(solve)(jnp.array([[0, 3]])) == Status.INVALID_INPUT
    assert jax.jit(solve)(jnp.array([[0, 1]])) == Status.OPTIMAL


def test_worth_of_columns_with_a_list_is_that_of_its_definition():
    rng = np.random.default_rng(5)
    outputs = rng.integers(-1, 2, (ROWS, 6)).astype(np.float32)
    labels = np.where(np.arange(ROWS) < 9, rng.choice([-1.0, 1.0], ROWS), 0.0).astype(np.float32)
    pairs, matrix = listed(rng, ROWS, 700)
    weights = rng.random(ROWS).astype(np.float32) * (labels != 0)
    matrix[labels[:, None] * labels[None, :] >= 0] = 0  # neither padding nor pairs of a class
    found = prices.worth(
        jnp.asarray(outputs), jnp.asarray(labels), weights, Rewards(*map(jnp.asarray, pairs)), 0.25
    )
    for sign, worth in ((1, found.own), (-1, found.negated)):
        margins = sign * outputs * labels[:, None]
        served = np.einsum("iu,ij,ju->u", margins == 1, matrix, margins != -1)
        np.testing.assert_allclose(worth, weights @ margins + served - 0.25, rtol=1e-5)


@pytest.mark.slow
def test_stumps_with_a_list_are_the_best_of_all_splits():
    rng = np.random.default_rng(8)
    for seed in range(20):
        features = rng.integers(0, 4, (ROWS, 2)).astype(np.float32)
        features[rng.random(features.shape) < 0.1 * (seed % 3)] = np.nan
        labels = rng.choice([-1.0, 1.0], ROWS)
        weights = rng.random(ROWS).astype(np.float32)
        pairs, matrix = listed(rng, ROWS, PAIRS)
        matrix[labels[:, None] == labels[None, :]] = 0
        learner = learners.stumps(cost=0.25)
        state = learner.init(None, jboost.make_dataset(features, labels))
        found = learner.propose_for_pairs(
            state, jnp.asarray(weights), Rewards(*map(jnp.asarray, pairs)), learner.prices(state)
        )
        cuts = np.arange(3) + 0.5
        columns = np.where(
            np.isnan(features)[:, :, None], 0, np.where(features[:, :, None] > cuts, 1, -1)
        ).reshape(ROWS, -1)
        sides = [features.reshape(ROWS, 2, 1) > cuts, features.reshape(ROWS, 2, 1) < cuts]
        splits = np.logical_and(*(side.any(axis=0) for side in sides)).reshape(-1)
        margins = np.concatenate([columns, -columns], axis=1) * labels[:, None]
        margins = margins[:, np.tile(splits, 2)]
        served = np.einsum("iu,ij,ju->u", margins == 1, matrix, margins != -1)
        best = (weights @ margins + served - 0.25).max()
        assert float(found.values[0]) == pytest.approx(best, rel=1e-5)
        assert best <= float(found.upper_bound) * (1 + 1e-6)


def arrays_of(jaxpr):
    """The shapes of all results in a program and in the programs inside it."""
    for equation in jaxpr.eqns:
        yield from (variable.aval for variable in equation.outvars)
        for part in jax.tree.leaves(
            equation.params, is_leaf=lambda leaf: hasattr(leaf, "jaxpr") or hasattr(leaf, "eqns")
        ):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from arrays_of(inner)


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner",
    [learners.monomials(3), learners.pool(), learners.stumps()],
    ids=lambda x: type(x).__name__,
)
def test_a_round_of_l0_has_no_array_of_all_pairs(learner):
    num_examples = 1200
    rng = np.random.default_rng(0)
    dataset = jboost.make_dataset(
        rng.integers(0, 2, (num_examples, 6)).astype(np.float32), rng.choice([-1, 1], num_examples)
    )
    state = jax.eval_shape(
        lambda: jboost.l0.init(dataset, learner, margin=0.1, max_rounds=9, max_columns=16)
    )
    program = jax.make_jaxpr(lambda state: jboost.l0.step(state, dataset))(state)
    sizes = [np.prod(array.shape) for array in arrays_of(program.jaxpr) if hasattr(array, "shape")]
    assert max(sizes) < num_examples**2
