"""Monomials of at most two literals with rewards for a list of pairs, against the dense matrix of
pairs by brute force.
"""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from jboost.base.status import Status
from jboost.monomials import short

ROWS, BITS, CUTS, BEST = 10, 4, 12, 3


def every_monomial(features: np.ndarray, max_order: int):
    """Covers and literals of all conjunctions on distinct bits, the one without literals too."""
    for order in range(max_order + 1):
        for bits in itertools.combinations(range(features.shape[1]), order):
            for answers in itertools.product((1, -1), repeat=order):
                literals = np.zeros(features.shape[1], int)
                literals[list(bits)] = answers
                holds = (literals == 0) | ((features == (literals > 0)) & ~np.isnan(features))
                yield holds.all(axis=1), literals, order


def dense_value(cover, sign, order, labels, weights, dense, costs) -> float:
    """(27) of Goldberg and Eckstein 2009, with the matrix of all pairs."""
    own, other = cover & (labels == sign), ~cover & (labels == -sign)
    return float(
        sign * (weights * labels)[cover].sum() + dense[np.ix_(own, other)].sum() - costs[order]
    )


def one_instance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = (rng.random((ROWS, BITS)) < 0.5).astype(np.float32)
    features[rng.random(features.shape) < 0.15 * (seed % 2)] = np.nan
    labels = np.where(rng.random(ROWS) < 0.5, 1, -1).astype(np.float32)
    weights = (rng.random(ROWS) * (rng.random(ROWS) < 0.8)).astype(np.float32)
    pairs, values = (
        rng.integers(-1, ROWS, (CUTS, 2)).astype(np.int32),
        rng.random(CUTS).astype(np.float32),
    )
    costs = np.array([0.1, 0.2, 0.35 if seed % 3 else np.inf], np.float32)
    dense = np.zeros((ROWS, ROWS))
    used = (pairs >= 0).all(axis=1)
    np.add.at(dense, tuple(pairs[used].T), values[used])
    found = short.best_of_all(
        *(jnp.asarray(part) for part in (features, labels, weights)),
        short.Rewards(jnp.asarray(pairs), jnp.asarray(values)),
        jnp.asarray(costs),
        num_best=BEST,
        takes_missing=True,
    )
    every = [
        dense_value(cover, sign, order, labels, weights, dense, costs)
        for cover, _, order in every_monomial(features, 2)
        for sign in (1, -1)
        if costs[order] < np.inf
    ]
    assert int(found.status) == Status.OPTIMAL
    assert float(found.value) == pytest.approx(max(every), abs=1e-5)
    assert max(every) - 1e-6 <= float(found.upper_bound) <= max(every) + 1e-4
    for literals, sign, value in zip(*(np.asarray(part) for part in found.others), strict=True):
        holds = ((literals == 0) | ((features == (literals > 0)) & ~np.isnan(features))).all(axis=1)
        assert value == pytest.approx(
            dense_value(holds, sign, np.abs(literals).sum(), labels, weights, dense, costs),
            abs=1e-5,
        )


def test_the_best_of_all_short_monomials_matches_the_dense_matrix_of_pairs() -> None:
    for seed in range(100):
        one_instance(seed)


@pytest.mark.slow
def test_the_best_of_all_short_monomials_matches_the_dense_matrix_of_pairs_2000_times() -> None:
    for seed in range(100, 2100):
        one_instance(seed)
