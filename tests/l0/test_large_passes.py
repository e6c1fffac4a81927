"""What `jboost.l0.fit_large` computes by NumPy where it is little work, and else by programs."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import jboost
from jboost.l0.large import separation
from jboost.l0.votes import local_search
from jboost.monomials import costs, products


def random_pairs(seed: int, *, is_either: bool):
    """Groups of 9 positive and 5 negative rows on 6 columns, and slacks of both."""
    rng = np.random.default_rng(seed)
    sides = [
        separation.group((rng.random((count, 6)) < 0.5).astype(np.uint8), np.arange(count))
        for count in (9, 5)
    ]
    selected = rng.dirichlet(np.ones(6))
    pairs = separation.GroupPairs(*sides, rng.choice([-1, 1], 6), selected, is_either)
    return pairs, *(0.3 * rng.random(len(side.rows)) for side in sides)


def cut_sums(pairs) -> np.ndarray:
    """For both orders of each pair, the sum of mu over the hypotheses that count, by a loop."""
    shape = 2, len(pairs.positive.rows), len(pairs.negative.rows)
    sums = np.zeros(shape)
    for _, first, second in np.ndindex(shape):
        own, other = pairs.positive.covered[first], pairs.negative.covered[second]
        for covers, misses, sign in ((own, other, 1), (other, own, -1)):
            for column in range(6):
                if covers[column] > misses[column] and pairs.signs[column] == sign:
                    order = (1 - sign) // 2
                    sums[order, first, second] += pairs.selected[column] / 2
    return np.broadcast_to(sums.sum(axis=0), shape) if pairs.is_either else sums


def check_pass(seed: int, *, is_either: bool) -> None:
    pairs, *slacks = random_pairs(seed, is_either=is_either)
    missing = 1 - cut_sums(pairs)
    found = separation.separate(pairs, *slacks)
    required = (
        (missing - slacks[1][None, None, :]).max(axis=(0, 2)),
        (missing - slacks[0][None, :, None]).max(axis=(0, 1)),
    )
    for one, other, expected in zip(
        found[:2], separation.required_slacks(pairs, *slacks), required, strict=True
    ):
        np.testing.assert_array_equal(one, other)
        assert (one >= expected).all()
        np.testing.assert_allclose(one, np.maximum(expected, 0), atol=1e-12)
    violations = missing - slacks[0][None, :, None] - slacks[1][None, None, :]
    groups = [{row: group for group, row in enumerate(side.rows)} for side in pairs[:2]]
    assert len(found.violated.amounts) > 0
    for inside, outside, amount in zip(*found.violated, strict=True):
        reached = [
            violations[order, groups[0][first], groups[1][second]]
            for order, first, second in ((0, inside, outside), (1, outside, inside))
            if first in groups[0] and second in groups[1]
        ]
        assert min(abs(np.array(reached) - amount)) < 1e-12
    np.testing.assert_allclose(found.violated.amounts.max(), violations.max(), atol=1e-12)


@pytest.mark.parametrize("is_either", [False, True])
@pytest.mark.parametrize("on_host", [separation._ON_HOST, 0])
def test_a_pass_over_all_pairs_is_that_of_a_loop(on_host, is_either, monkeypatch):
    monkeypatch.setattr(separation, "_ON_HOST", on_host)
    for seed in range(20):
        check_pass(seed, is_either=is_either)


@pytest.mark.parametrize("on_host", [products._ON_HOST, 0])
def test_products_of_tables_are_those_of_integers(on_host, monkeypatch):
    monkeypatch.setattr(products, "_ON_HOST", on_host)
    rng = np.random.default_rng(0)
    left, right = (rng.integers(0, 2, (300, width)).astype(np.uint8) for width in (7, 4))
    values = rng.integers(-(1 << 40), 1 << 40, 300)
    expected = (left.astype(np.int64) * values[:, None]).T @ right.astype(np.int64)
    np.testing.assert_array_equal(products._gram(left, right, values), expected)


def test_sparse_starts_on_host_are_those_of_the_program():
    rng = np.random.default_rng(1)
    for _ in range(50):
        values = rng.integers(0, 5, 40).astype(np.float32) / 4  # many are equal
        np.testing.assert_array_equal(
            local_search.sparse_starts_on_host(values),
            np.asarray(jax.jit(local_search.sparse_starts)(values)),
        )


def test_costs_of_tables_of_all_sizes_are_one_program(compilations):
    for kappa, size, count in ((1.5, 3, 50), (0.5, 9, 70)):
        cost = costs.mdl(kappa, num_attributes=size, num_examples=count)
        found = jboost.learners.monomials(2, cost=cost).price_list(size + 5, 10)
        expected = [
            (order + math.log2(math.comb(size, order)) + 1) / math.log2(count) + kappa
            for order in (1, 2)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert compilations() <= 1
