"""`jboost.l0.fit_large` against brute force, HiGHS and its own certificate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, sparse

import jboost
from jboost.base.types import Dataset
from jboost.l0.large import fit

KAPPA = 0.4


def random_table(seed: int, *, num_rows: int | None = None, num_bits: int | None = None, gaps: float = 0.0):
    """Bits with a noisy rule, labels and weights."""
    rng = np.random.default_rng(seed)
    rows, bits = num_rows or int(rng.integers(2, 24)), num_bits or int(rng.integers(1, 5))
    features = (rng.random((rows, bits)) < 0.5).astype(float)
    labels = np.where((features[:, 0] > 0) ^ (rng.random(rows) < 0.25), 1, -1)
    features[rng.random((rows, bits)) < gaps] = np.nan
    weights = rng.choice([1.0, 1.0, 2.0, 0.5, 0.0], rows)
    weights[0] = 1.0
    return features, labels, weights


def all_monomials(features: np.ndarray, max_order: int):
    """Covers and orders of every conjunction of literals on distinct bits, by brute force."""
    holds = {(bit, sign): features[:, bit] == (sign > 0) for bit in range(features.shape[1]) for sign in (1, -1)}
    found = []
    for order in range(1, max_order + 1):
        for bits in itertools.combinations(range(features.shape[1]), order):
            for signs in itertools.product((1, -1), repeat=order):
                found.append((np.logical_and.reduce([holds[key] for key in zip(bits, signs, strict=True)]), order))
    return found


def outputs_and_orders(features: np.ndarray, max_order: int):
    """H [m, U] of the two constants (order 0) and of every monomial of both signs, and orders [U]."""
    columns = [(sign * cover, order) for cover, order in all_monomials(features, max_order) for sign in (1, -1)]
    ones = np.ones(len(features))
    outputs = np.stack([ones, -ones, *(column for column, _ in columns)], axis=1)
    return outputs, np.array([0, 0, *(order for _, order in columns)])


def serving(outputs: np.ndarray, labels: np.ndarray, first: int, second: int) -> np.ndarray:
    """S_ii' of Goldberg and Eckstein 2009, (17): hypotheses that are right on one example and not the answer of its class on the other."""
    return (outputs[first] == labels[first]) & (outputs[second] != labels[first])


def highs_optimum(outputs, labels, costs, weights, margin, *, cuts: str = "ordered") -> float:
    """(18) with all cuts, by HiGHS."""
    (num_rows, num_columns) = outputs.shape
    rows, bounds = [], []
    eye = np.eye(num_rows)
    nothing = np.zeros((num_rows, num_columns))
    rows.append(np.hstack([labels[:, None] * outputs, nothing, (1 + margin) * eye]))
    bounds.append(np.full(num_rows, margin))
    rows.append(np.hstack([-np.eye(num_columns), np.eye(num_columns), np.zeros((num_columns, num_rows))]))
    bounds.append(np.zeros(num_columns))
    pairs = [(i, j) for i in np.flatnonzero(labels > 0) for j in np.flatnonzero(labels < 0)]
    for i, j in pairs:
        forth, back = serving(outputs, labels, i, j), serving(outputs, labels, j, i)
        for served in (forth, back) if cuts == "ordered" else (forth | back,):
            rows.append(np.concatenate([np.zeros(num_columns), served, eye[i] + eye[j]])[None])
            bounds.append(np.ones(1))
    objective = np.concatenate([np.zeros(num_columns), costs, weights])
    total = np.concatenate([np.ones(num_columns), np.zeros(num_columns + num_rows)])[None]
    found = optimize.linprog(
        objective, A_ub=sparse.csr_matrix(-np.vstack(rows)), b_ub=-np.concatenate(bounds), A_eq=total, b_eq=[1.0], method="highs"
    )
    assert found.status == 0
    return found.fun


def recomputed_lower_bound(certificate_proof, outputs, labels, costs, weights, margin, *, cuts: str = "ordered") -> float:
    """What the returned duals prove over all hypotheses, term by term."""
    w, v = certificate_proof.example_weights, certificate_proof.pair_weights
    load = (1 + margin) * w + np.bincount(certificate_proof.pairs.ravel(), np.repeat(v, 2), len(w))
    assert np.all(w >= 0) and np.all(v >= 0) and np.all(load <= weights * (1 + 1e-9))
    served = np.zeros(outputs.shape[1])
    for (i, j), value in zip(certificate_proof.pairs, v, strict=True):
        forth, back = serving(outputs, labels, i, j), serving(outputs, labels, j, i)
        served += value * (forth if cuts == "ordered" else forth | back)
    assert np.all(served <= costs + 1e-9)
    alpha = np.min(costs - served - (w * labels) @ outputs)
    return margin * w.sum() + v.sum() + alpha


def feasible_value(point, features, labels, weights, prices, constant_cost: float, margin: float) -> float:
    """The objective of the returned point, after a look at all its rows and cuts."""
    literals, signs = point.hypotheses
    outputs = np.stack([np.zeros(len(labels)), *(sign * satisfied(features, one) for one, sign in zip(literals, signs, strict=True))], axis=1)[:, 1:]
    costs = prices[np.abs(literals).sum(axis=1) - 1]
    counts = weights > 0
    scores = outputs @ point.coefficients + point.constants[0] - point.constants[1]
    assert abs(point.coefficients.sum() + point.constants.sum() - 1) < 1e-9
    assert np.all(point.selected >= point.coefficients - 1e-12)
    assert np.all((labels * scores + (1 + margin) * point.slacks >= margin - 1e-9) | ~counts)
    for i, j in itertools.product(np.flatnonzero((labels > 0) & counts), np.flatnonzero((labels < 0) & counts)):
        for first, second in ((i, j), (j, i)):
            covered = point.selected[serving(outputs, labels, first, second)].sum()
            assert covered + point.slacks[i] + point.slacks[j] >= 1 - 1e-9
    return float(weights @ point.slacks + costs @ point.selected + constant_cost * point.constants.sum())


def satisfied(features: np.ndarray, literals: np.ndarray) -> np.ndarray:
    """Where all literals [N] hold, [m]; neither holds of NaN."""
    return np.all((literals == 0) | ((features == (literals > 0)) & ~np.isnan(features)), axis=1).astype(float)


def one_instance(seed: int) -> None:
    """Bounds of one random table against HiGHS over all monomials, and both certificates recomputed."""
    features, labels, weights = random_table(seed, gaps=0.2 if seed % 3 == 0 else 0.0)
    max_order = 1 if features.shape[1] == 1 or seed % 4 == 0 else 2
    constant_cost, margin = 0.1 * (seed % 2), (0.05, 0.5, 1.0)[seed % 3]
    learner = jboost.learners.monomials(max_order, kappa=KAPPA, constant_cost=constant_cost)
    data = Dataset(features, labels, weights, np.ones(len(labels), bool))
    certificate = fit.fit_large(data, learner, margin=margin, tolerance=1e-3).certificate
    counts = weights > 0
    prices = np.asarray(learner.price_list(features.shape[1], counts.sum()), float)
    outputs, orders = outputs_and_orders(features, max_order)
    costs = np.where(orders == 0, constant_cost, prices[orders - 1])
    program = outputs[counts], labels[counts], costs, weights[counts], margin
    ordered, either = highs_optimum(*program), highs_optimum(*program, cuts="either")
    assert certificate.lower_bound <= ordered + 1e-7
    assert certificate.upper_bound >= ordered - 1e-7
    assert certificate.integer_lower_bound <= either + 1e-7
    assert certificate.upper_bound - certificate.lower_bound <= 2e-2 * max(ordered, 1.0)
    for proof, bound, cuts in (
        (certificate.proof, certificate.lower_bound, "ordered"),
        (certificate.integer_proof, certificate.integer_lower_bound, "either"),
    ):
        again = recomputed_lower_bound(proof, outputs, labels, costs, weights, margin, cuts=cuts)
        assert again >= float(proof.bound) - 1e-7
        assert max(float(proof.bound), 0.0) == pytest.approx(float(bound), abs=1e-9)
    value = feasible_value(certificate.point, features, labels, weights, prices, constant_cost, margin)
    assert value <= certificate.upper_bound + 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_fit_large_bounds_hold_of_highs_optimum(seed: int) -> None:
    one_instance(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_fit_large_bounds_hold_of_highs_optimum_on_300_tables(block: int) -> None:
    for seed in range(6 + 50 * block, 56 + 50 * block):
        one_instance(seed)
