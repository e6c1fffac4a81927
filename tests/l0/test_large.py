"""`jboost.l0.fit_large` against brute force, HiGHS and its own certificate."""

from __future__ import annotations

import itertools
import math
import threading
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from scipy import optimize, sparse

import jboost
from jboost.base.status import Status
from jboost.base.types import Dataset
from jboost.data import merging
from jboost.l0.large import (
    clock,
    cross_validation,
    exchange,
    fit,
    greedy,
    master,
    patterns,
    relax,
    sizes,
    solutions,
    table,
)
from jboost.monomials import products

KAPPA = 0.4


def random_table(
    seed: int, *, num_rows: int | None = None, num_bits: int | None = None, gaps: float = 0.0
):
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
    holds = {
        (bit, sign): features[:, bit] == (sign > 0)
        for bit in range(features.shape[1])
        for sign in (1, -1)
    }
    found = []
    for order in range(1, max_order + 1):
        for bits in itertools.combinations(range(features.shape[1]), order):
            for signs in itertools.product((1, -1), repeat=order):
                found.append(
                    (
                        np.logical_and.reduce(
                            [holds[key] for key in zip(bits, signs, strict=True)]
                        ),
                        order,
                    )
                )
    return found


def outputs_and_orders(features: np.ndarray, max_order: int):
    """H [m, U] of the two constants (order 0) and of every monomial of both signs, and
    orders [U].
    """
    columns = [
        (sign * cover, order)
        for cover, order in all_monomials(features, max_order)
        for sign in (1, -1)
    ]
    ones = np.ones(len(features))
    outputs = np.stack([ones, -ones, *(column for column, _ in columns)], axis=1)
    return outputs, np.array([0, 0, *(order for _, order in columns)])


def serving(outputs: np.ndarray, labels: np.ndarray, first: int, second: int) -> np.ndarray:
    """S_ii' of Goldberg and Eckstein 2009, (17): hypotheses that are right on one example and not
    the answer of its class on the other.
    """
    return (outputs[first] == labels[first]) & (outputs[second] != labels[first])


def highs_optimum(outputs, labels, costs, weights, margin, *, cuts: str = "ordered") -> float:
    """(18) with all cuts, by HiGHS."""
    num_rows, num_columns = outputs.shape
    rows, bounds = [], []
    eye = np.eye(num_rows)
    nothing = np.zeros((num_rows, num_columns))
    rows.append(np.hstack([labels[:, None] * outputs, nothing, (1 + margin) * eye]))
    bounds.append(np.full(num_rows, margin))
    rows.append(
        np.hstack([-np.eye(num_columns), np.eye(num_columns), np.zeros((num_columns, num_rows))])
    )
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
        objective,
        A_ub=sparse.csr_matrix(-np.vstack(rows)),
        b_ub=-np.concatenate(bounds),
        A_eq=total,
        b_eq=[1.0],
        method="highs",
    )
    assert found.status == 0
    return found.fun


def recomputed_lower_bound(
    certificate_proof, outputs, labels, costs, weights, margin, *, cuts: str = "ordered"
) -> float:
    """What the returned duals prove over all hypotheses, term by term."""
    w, v = certificate_proof.example_weights, certificate_proof.pair_weights
    load = (1 + margin) * w + np.bincount(certificate_proof.pairs.ravel(), np.repeat(v, 2), len(w))
    assert np.all(w >= 0)
    assert np.all(v >= 0)
    assert np.all(load <= weights * (1 + 1e-9))
    served = np.zeros(outputs.shape[1])
    for (i, j), value in zip(certificate_proof.pairs, v, strict=True):
        forth, back = serving(outputs, labels, i, j), serving(outputs, labels, j, i)
        served += value * (forth if cuts == "ordered" else forth | back)
    assert np.all(served <= costs + 1e-9)
    alpha = np.min(costs - served - (w * labels) @ outputs)
    return margin * w.sum() + v.sum() + alpha


def feasible_value(
    point, features, labels, weights, prices, constant_cost: float, margin: float
) -> float:
    """The objective of the returned point, after a look at all its rows and cuts."""
    literals, signs = point.hypotheses
    outputs = np.stack(
        [
            np.zeros(len(labels)),
            *(sign * satisfied(features, one) for one, sign in zip(literals, signs, strict=True)),
        ],
        axis=1,
    )[:, 1:]
    costs = prices[np.abs(literals).sum(axis=1) - 1]
    counts = weights > 0
    scores = outputs @ point.coefficients + point.constants[0] - point.constants[1]
    assert abs(point.coefficients.sum() + point.constants.sum() - 1) < 1e-9
    assert np.all(point.selected >= point.coefficients - 1e-12)
    assert np.all((labels * scores + (1 + margin) * point.slacks >= margin - 1e-9) | ~counts)
    for i, j in itertools.product(
        np.flatnonzero((labels > 0) & counts), np.flatnonzero((labels < 0) & counts)
    ):
        for first, second in ((i, j), (j, i)):
            covered = point.selected[serving(outputs, labels, first, second)].sum()
            assert covered + point.slacks[i] + point.slacks[j] >= 1 - 1e-9
    return float(
        weights @ point.slacks + costs @ point.selected + constant_cost * point.constants.sum()
    )


def satisfied(features: np.ndarray, literals: np.ndarray) -> np.ndarray:
    """Where all literals [N] hold, [m]; neither holds of NaN."""
    return np.all(
        (literals == 0) | ((features == (literals > 0)) & ~np.isnan(features)), axis=1
    ).astype(float)


def one_instance(seed: int, search=None):
    """Bounds of one random table against HiGHS over all monomials, and both certificates
    recomputed. Returns the features that count, their labels and weights, and the fit.
    """
    features, labels, weights = random_table(seed, gaps=0.2 if seed % 3 == 0 else 0.0)
    max_order = min(features.shape[1], (1, 2, 2, 3)[seed % 4])
    constant_cost, margin = 0.1 * (seed % 2), (0.05, 0.5, 1.0)[seed % 3]
    learner = jboost.learners.monomials(max_order, kappa=KAPPA, constant_cost=constant_cost)
    data = Dataset(features, labels, weights, np.ones(len(labels), bool))
    fitted = fit.fit_large(
        data, learner, margin=margin, tolerance=5e-3, max_rounds=40, search=search
    )
    certificate, counts = fitted.certificate, weights > 0
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
    value = feasible_value(
        certificate.point, features, labels, weights, prices, constant_cost, margin
    )
    assert value <= certificate.upper_bound + 1e-7
    return (features[counts], labels[counts], weights[counts]), fitted


# a table of seed 34 has no monomials
@pytest.mark.parametrize("seed", [0, 1, 2, 34])
def test_fit_large_bounds_hold_of_highs_optimum(seed: int) -> None:
    one_instance(seed)


@pytest.mark.parametrize(
    ("seed", "search"),
    [
        (1, jboost.l0.CoefficientsConfig()),
        pytest.param(2, jboost.l0.CoefficientsConfig(), marks=pytest.mark.slow),
        *(
            pytest.param(seed, jboost.l0.VertexConfig(), marks=pytest.mark.slow)
            for seed in (1, 2, 4, 5, 7)
        ),
    ],
)
def test_fit_large_votes_with_a_solution_of_the_relaxation(seed: int, search) -> None:
    (features, labels, weights), fitted = one_instance(seed, search)
    assert fitted.status == Status.OPTIMAL
    point, margin = fitted.certificate.point, (0.05, 0.5, 1.0)[seed % 3]
    scores = np.asarray(jboost.predict_scores(fitted.ensemble, features), np.float64)
    wrong = weights[labels * scores < margin - 1e-6].sum()
    assert wrong <= fitted.certificate.integer_upper_bound + 1e-6
    if isinstance(search, jboost.l0.VertexConfig):
        # at a vertex, no more hypotheses vote than there are rows of the margins and the sum
        assert np.count_nonzero(fitted.ensemble.votes[:, 0]) <= len(labels) + 1
        return
    literals, signs = point.hypotheses
    outputs = np.array(
        [sign * satisfied(features, one) for one, sign in zip(literals, signs, strict=True)]
    )
    expected = point.coefficients @ outputs.reshape(-1, len(labels))
    expected = expected + point.constants[0] - point.constants[1]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_vertex_of_fit_large_is_an_optimal_vertex_with_few_rules(seed: int) -> None:
    """Against HiGHS over all monomials: the value at the end of a tight tolerance, and the rank of
    what holds with equality.
    """
    with jax.enable_x64(True):
        features, labels, weights = random_table(seed, num_rows=24, num_bits=4)
        keeps = weights > 0
        features, labels, weights = features[keeps], labels[keeps], weights[keeps]
        learner = jboost.learners.monomials(1, kappa=KAPPA)
        data = Dataset(features, labels, weights, np.ones(len(labels), bool))
        options = {"margin": 0.25, "tolerance": 1e-5, "max_rounds": 400}
        fitted = fit.fit_large(data, learner, search=jboost.l0.VertexConfig(), **options)
        spread = fit.fit_large(data, learner, search=jboost.l0.CoefficientsConfig(), **options)
        outputs, orders = outputs_and_orders(features, 1)
        prices = np.asarray(learner.price_list(features.shape[1], len(labels)), float)
        costs = np.where(orders == 0, 0.0, prices[orders - 1])
        optimum = highs_optimum(outputs, labels, costs, weights, 0.25)
        assert fitted.status == Status.OPTIMAL
        assert fitted.certificate.upper_bound == pytest.approx(optimum, rel=1e-4, abs=1e-4)
        assert np.count_nonzero(fitted.ensemble.votes[:, 0]) <= np.count_nonzero(
            spread.ensemble.votes[:, 0]
        )


def test_vertex_of_fit_large_names_the_number_of_rows(monkeypatch) -> None:
    monkeypatch.setattr(solutions, "MOST_ROWS", 3)
    data = Dataset(np.eye(4), np.array([1, 1, -1, -1]), np.ones(4), np.ones(4, bool))
    with pytest.raises(ValueError, match="VertexConfig and dataset has 4 rows: expected at most 3"):
        fit.fit_large(
            data, jboost.learners.monomials(1), margin=0.1, search=jboost.l0.VertexConfig()
        )


def test_the_search_for_a_vertex_in_parts_is_that_in_one_and_can_be_stopped(monkeypatch) -> None:
    features, labels, weights = random_table(1, num_rows=24, num_bits=4)
    data = Dataset(features, labels, weights, np.ones(len(labels), bool))
    learner = jboost.learners.monomials(1, kappa=KAPPA)
    options = {"margin": 0.25, "search": jboost.l0.VertexConfig()}
    whole = fit.fit_large(data, learner, **options)
    monkeypatch.setattr(solutions, "_LEAST_PIVOTS", 1)
    monkeypatch.setattr(solutions, "_ENTRIES_AT_ONCE", 1)
    phases = []

    def watch(state, info) -> None:
        phases.append(info.phase)

    parts = fit.fit_large(data, learner, on_step=watch, **options)
    assert phases.count("vertex") > 3
    assert parts.certificate.integer_upper_bound == whole.certificate.integer_upper_bound
    np.testing.assert_allclose(parts.ensemble.votes, whole.ensemble.votes, atol=1e-5)
    stopped = fit.fit_large(
        data, learner, on_step=lambda state, info: info.phase != "vertex", **options
    )
    spread = fit.fit_large(data, learner, margin=0.25, search=jboost.l0.CoefficientsConfig())
    assert stopped.status == Status.TIME_LIMIT
    np.testing.assert_array_equal(stopped.ensemble.votes, spread.ensemble.votes)


@pytest.mark.parametrize("search", [jboost.l0.CoefficientsConfig(), jboost.l0.VertexConfig()])
def test_rows_that_have_just_the_margin_have_it_after_rounding(search) -> None:
    """With the margin 0.3 the votes are 0.3, 0.3 and 0.4: most rows hold with equality."""
    rng = np.random.default_rng(4)
    features = rng.integers(0, 2, (60, 4)).astype(float)
    labels = np.where((features[:, 0] * features[:, 1] > 0) ^ (rng.random(60) < 0.2), 1, -1)
    data = jboost.make_dataset(features, labels)
    options = {"margin": 0.3, "search": search, "tolerance": 1e-4}
    learner = jboost.learners.monomials(2, kappa=0.05)
    fitted = fit.fit_large(data, learner, **options)
    scores = np.asarray(jboost.predict_scores(fitted.ensemble, data.features), np.float64)
    certificate = fitted.certificate
    wrong = float((labels * scores < 0.3).sum())
    assert wrong <= certificate.integer_upper_bound < certificate.upper_bound + 0.01
    if isinstance(search, jboost.l0.VertexConfig):
        small = jboost.l0.fit(data, learner, max_rounds=30, max_columns=64, **options)
        assert small.certificate.integer_upper_bound < certificate.upper_bound + 0.01


@pytest.mark.parametrize("search", [jboost.l0.CoefficientsConfig(), jboost.l0.VertexConfig()])
def test_solution_of_fit_large_without_a_round_says_so(search) -> None:
    data = Dataset(np.eye(4), np.array([1, 1, -1, -1]), np.ones(4), np.ones(4, bool))
    fitted = fit.fit_large(
        data, jboost.learners.monomials(1), margin=0.1, max_rounds=0, search=search
    )
    assert fitted.status == Status.UNSOLVED_RELAXATION
    assert fitted.certificate.upper_bound == np.inf


def falling_costs(orders, num_attributes, num_examples, max_order):
    """A monomial of two literals is cheaper than one of one."""
    return jnp.where(orders == 1, 2.0, 0.3)


@pytest.mark.parametrize(
    "learner",
    [
        jboost.learners.monomials(2, cost=falling_costs),
        jboost.learners.monomials(2, kappa=0.0, constant_cost=5.0),
    ],
    ids=["falling", "dear constants"],
)
def test_fit_large_bounds_hold_where_redundant_monomials_are_cheaper(learner) -> None:
    for seed in (3, 7):
        features, labels, weights = random_table(seed, num_rows=14, num_bits=3)
        certificate = fit.fit_large(
            make(features, labels, weights), learner, margin=0.3, tolerance=5e-3, max_rounds=40
        ).certificate
        counts = weights > 0
        prices = np.asarray(learner.price_list(3, counts.sum()), float)
        outputs, orders = outputs_and_orders(features, 2)
        costs = np.where(orders == 0, float(learner.constant_cost), prices[orders - 1])
        optimum = highs_optimum(outputs[counts], labels[counts], costs, weights[counts], 0.3)
        assert certificate.lower_bound - 1e-7 <= optimum <= certificate.upper_bound + 1e-7
        assert (
            recomputed_lower_bound(certificate.proof, outputs, labels, costs, weights, 0.3)
            >= certificate.lower_bound - 1e-7
        )


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_fit_large_bounds_hold_of_highs_optimum_on_300_tables(block: int) -> None:
    for seed in range(3 + 50 * block, 53 + 50 * block):
        one_instance(seed)


def rewards_by_brute_force(table: np.ndarray, inside, outside, values) -> np.ndarray:
    """The sum over pairs of rows of what each two literals are paid, from the dense matrix of
    pairs.
    """
    dense = np.zeros((len(table),) * 2)
    np.add.at(dense, (inside, outside), values)
    covers = table[:, :, None] & table[:, None, :]
    return np.einsum("iab,ij,jab->ab", covers.astype(float), dense, (~covers).astype(float))


def one_pricing(seed: int) -> None:
    """Sums and rewards of one random table against a dense matrix of all pairs."""
    rng = np.random.default_rng(seed)
    rows, bits, cuts = int(rng.integers(1, 12)), int(rng.integers(1, 5)), int(rng.integers(0, 20))
    features = (rng.random((rows, bits)) < 0.5).astype(float)
    features[rng.random((rows, bits)) < 0.3 * (seed % 2)] = np.nan
    literals = products.literals_of(features)
    table = np.concatenate([features == 1, features == 0], axis=1)
    values = rng.normal(size=rows)
    assert np.allclose(
        products.sums(literals, values), (table * values[:, None]).T @ table, atol=1e-12
    )
    inside, outside, amounts = (
        rng.integers(0, rows, cuts),
        rng.integers(0, rows, cuts),
        rng.random(cuts),
    )
    found = products.rewards(literals, inside, outside, amounts)
    assert np.allclose(found, rewards_by_brute_force(table, inside, outside, amounts), atol=1e-12)
    listed = products.every_monomial(literals, 3, keeps_redundant=False)
    covers = np.logical_and.reduce([table[:, one] for one in listed.literals])
    assert np.array_equal(literals.covers(listed), covers)
    distinct = {tuple(column) for column in covers.T} | {(False,) * rows, (True,) * rows}
    every = {
        tuple(table[:, a] & table[:, b] & table[:, c])
        for a, b, c in itertools.product(range(2 * bits), repeat=3)
    }
    assert every <= distinct  # what is left out covers what fewer literals do
    whole = products.every_monomial(literals, 3, keeps_redundant=True)
    assert len(whole.orders) == sum(
        math.comb(bits, order) * 2**order for order in range(1, min(bits, 3) + 1)
    )
    assert np.allclose(products.sums_of(literals, listed, values), values @ covers, atol=1e-12)
    dense = np.zeros((rows, rows))
    np.add.at(dense, (inside, outside), amounts)
    expected = np.einsum("iu,ij,ju->u", covers.astype(float), dense, (~covers).astype(float))
    assert np.allclose(
        products.rewards_of(literals, listed, inside, outside, amounts), expected, atol=1e-12
    )


def test_sums_and_rewards_match_the_dense_matrix_of_pairs() -> None:
    for seed in range(200):
        one_pricing(seed)


@pytest.mark.slow
def test_sums_and_rewards_match_the_dense_matrix_of_pairs_on_2000_tables() -> None:
    for seed in range(200, 2200):
        one_pricing(seed)


@pytest.mark.slow
def test_master_of_few_cuts_does_not_depend_on_the_capacity() -> None:
    rng = np.random.default_rng(0)
    margins = rng.integers(-1, 2, (6, 5)).astype(np.float32)
    labels = np.array([1, 1, 1, -1, -1, -1], np.float32)
    ends = np.array([[0, 3], [1, 4], [2, 5]], np.int32)
    serves = rng.integers(0, 2, (3, 5)).astype(np.float32)
    found = []
    for capacity in (3, 8, 16):  # three cuts are few in the last one alone
        spare = capacity - 3
        first, second = (np.pad(part, (0, spare)) for part in ends.T)
        program = master.MasterProgram(
            jnp.asarray(margins),
            jnp.asarray(np.pad(serves, ((0, spare), (0, 0)))),
            jnp.asarray(first),
            jnp.asarray(second),
            jnp.asarray((np.arange(capacity) < 3).astype(np.float32)),
            jnp.full(5, 0.2),
            jnp.zeros(()),
            jnp.ones(6),
            jnp.asarray(labels),
            jnp.ones(5, bool),
            jnp.asarray(0.3),
        )
        start = master.MasterIterate(*(jnp.zeros(size) for size in (7, 5, 6, 6, capacity)))
        point = master.improve(program, start, jnp.ones(()), jnp.asarray(40))
        assert np.asarray(point.pair_weights)[:3].sum() > 0
        found.append(np.concatenate([*point[:4], point.pair_weights[:3]]))
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)


@pytest.mark.slow
def test_master_of_few_columns_does_not_depend_on_the_capacity() -> None:
    rng = np.random.default_rng(0)
    margins = rng.integers(-1, 2, (6, 5)).astype(np.int8)
    serves = rng.integers(0, 2, (8, 5)).astype(np.int8)
    labels = np.array([1, 1, 1, -1, -1, -1], np.float32)
    first, second = np.array([0, 1, 2, 0, 1, 2, 0, 1]), np.array([3, 4, 5, 4, 5, 3, 5, 3])
    found = []
    for num_cuts in (2, 8):  # two cuts are few
        for capacity in (5, 12, 20):  # five columns are few in the last one alone
            spare, is_cut = capacity - 5, np.arange(8) < num_cuts
            program = master.MasterProgram(
                np.pad(margins, ((0, 0), (0, spare))),
                np.pad(serves * is_cut[:, None], ((0, 0), (0, spare))),
                np.where(is_cut, first, 0).astype(np.int32),
                np.where(is_cut, second, 0).astype(np.int32),
                is_cut.astype(np.float32),
                np.pad(np.full(5, 0.2, np.float32), (0, spare)),
                np.zeros((), np.float32),
                np.ones(6, np.float32),
                labels,
                np.arange(capacity) < 5,
                np.asarray(0.3, np.float32),
            )
            sizes = (capacity + 2, capacity, 6, 6, 8)
            start = master.MasterIterate(*(np.zeros(size, np.float32) for size in sizes))
            point = master.improve(program, start, np.ones((), np.float32), np.asarray(40))
            parts = [np.delete(point.coefficients, np.s_[5:capacity]), point.extra[:5], *point[2:]]
            assert parts[-1].sum() > 0
            assert not np.any(point.coefficients[5:capacity])
            found.append(np.concatenate(parts))
    for capacity in (1, 2):
        np.testing.assert_allclose(found[capacity], found[0], atol=1e-5)
        np.testing.assert_allclose(found[3 + capacity], found[3], atol=1e-5)


def test_spread_duals_keep_the_sums_of_patterns_and_the_capacity_of_rows() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        of_row = np.sort(rng.integers(0, 4, 20)).astype(np.int32)
        of_row = np.unique(of_row, return_inverse=True)[1].astype(np.int32)[rng.permutation(20)]
        number = int(of_row.max()) + 1
        capacity = rng.random(20)
        sums = np.bincount(of_row, capacity, number)
        pairs = np.array(list(itertools.permutations(range(number), 2)))
        duals = rng.random(len(pairs))
        load = np.bincount(pairs.ravel(), np.repeat(duals, 2), number)
        duals *= np.min(sums / np.maximum(load, 1e-9)) * 0.999
        groups = patterns.Patterns(np.arange(number), of_row, sums)
        found = patterns.spread(groups, capacity, pairs[:, 0], pairs[:, 1], duals)
        used = np.bincount(found.inside, found.weights, 20) + np.bincount(
            found.outside, found.weights, 20
        )
        assert np.all(used <= capacity + 1e-9)
        again = np.zeros((number, number))
        np.add.at(again, (of_row[found.inside], of_row[found.outside]), found.weights)
        assert np.allclose(again[pairs[:, 0], pairs[:, 1]], duals, atol=1e-9)


def make(features, labels, weights=None) -> Dataset:
    size = len(labels)
    return Dataset(
        np.asarray(features),
        np.asarray(labels),
        np.ones(size) if weights is None else np.asarray(weights),
        np.ones(size, bool),
    )


@pytest.mark.parametrize(
    ("features", "labels", "loss"),
    [
        ([[0.0]], [1], 0.0),  # one row
        ([[0.0], [1.0]], [1, -1], None),
        ([[1.0], [1.0]], [1, -1], 1.0),  # equal rows of both classes
        ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, 1, 1], 0.0),  # one class
        ([[1.0], [1.0], [1.0]], [1, -1, -1], 1.0),  # a constant column
        ([[np.nan], [np.nan]], [1, -1], 1.0),
    ],
)
def test_fit_large_of_small_and_degenerate_tables(features, labels, loss) -> None:
    data = make(features, labels)
    fitted = fit.fit_large(data, jboost.learners.monomials(1, kappa=KAPPA), margin=0.2)
    certificate = fitted.certificate
    assert 0 <= certificate.lower_bound <= certificate.upper_bound + 1e-9
    assert 0 <= certificate.integer_lower_bound <= certificate.integer_upper_bound + 1e-6
    if loss is not None:
        assert certificate.integer_upper_bound == pytest.approx(loss)
    assert int(fitted.status) == Status.OPTIMAL


@pytest.mark.parametrize("scale", [1e-3, pytest.param(1e6, marks=pytest.mark.slow)])
def test_fit_large_scales_with_weights(scale: float) -> None:
    features, labels, weights = random_table(3, num_rows=20, num_bits=3)
    learner = jboost.learners.monomials(2, kappa=0.0)
    found = fit.fit_large(make(features, labels, weights * scale), learner, margin=0.2).certificate
    counts = weights > 0
    prices = np.asarray(learner.price_list(3, counts.sum()), float)
    outputs, orders = outputs_and_orders(features[counts], 2)
    optimum = highs_optimum(
        outputs,
        labels[counts],
        np.where(orders == 0, 0.0, prices[orders - 1]),
        weights[counts] * scale,
        0.2,
    )
    assert found.lower_bound <= optimum * (1 + 1e-6)
    assert found.upper_bound >= optimum * (1 - 1e-6)
    assert found.integer_lower_bound <= found.integer_upper_bound * (1 + 1e-6)


def test_exchanges_go_on_to_the_next_rule_where_one_is_best_as_it_is() -> None:
    rng = np.random.default_rng(3)
    features = rng.integers(0, 2, (60, 5)).astype(np.float32)
    labels = np.where((features[:, 0] == 1) | (features[:, 1] * features[:, 2] == 1), 1, -1)
    made, _ = table.make_table(make(features, labels), jboost.learners.monomials(2), 1.0)
    rules = greedy.refit(made, greedy.GreedyRules(np.array([0, 1]), np.zeros(2), 0.0, np.inf))
    first, second = greedy.exchanges(made, rules)
    assert list(first.columns) == [0, 1]
    assert second.columns[0] == 0
    assert second.loss < 0.1 < rules.loss


def test_fit_large_votes_cost_what_the_certificate_says() -> None:
    features, labels, weights = random_table(11, num_rows=60, num_bits=4)
    learner = jboost.learners.monomials(2, kappa=KAPPA)
    margin = 0.1
    fitted = fit.fit_large(
        make(features, labels, weights),
        learner,
        margin=margin,
        search=jboost.l0.SearchConfig(max_hypotheses=2),
    )
    scores = np.asarray(jboost.predict_scores(fitted.ensemble, features), float)
    prices = np.asarray(learner.price_list(4, int((weights > 0).sum())), float)
    used = np.asarray(fitted.ensemble.votes)[:, 0] > 0
    orders = np.abs(np.asarray(fitted.ensemble.hypotheses.literals)).sum(axis=1)
    assert used.sum() <= 2
    loss = weights[labels * scores < margin].sum() + prices[orders[used] - 1].sum()
    assert fitted.certificate.integer_upper_bound == pytest.approx(loss, rel=1e-6)


def test_fit_large_stops_at_the_time_limit_and_when_the_watcher_says_so() -> None:
    features, labels, weights = random_table(5, num_rows=200, num_bits=4)
    data, learner = make(features, labels, weights), jboost.learners.monomials(2, kappa=0.1)
    seen = []

    def watch(state, info) -> bool:
        seen.append(info)
        return info.num_rounds < 1

    stopped = fit.fit_large(data, learner, margin=0.1, tolerance=0.0, on_step=watch)
    assert int(stopped.status) == Status.TIME_LIMIT
    assert seen[-1].num_rounds == 1
    assert stopped.certificate.lower_bound <= stopped.certificate.upper_bound
    assert all(later.best_loss <= earlier.best_loss for earlier, later in itertools.pairwise(seen))
    limited = fit.fit_large(data, learner, margin=0.1, tolerance=0.0, time_limit=0.0)
    assert int(limited.status) == Status.TIME_LIMIT
    assert int(limited.num_rounds) == 0
    assert limited.certificate.integer_upper_bound < np.inf
    assert limited.certificate.lower_bound == 0


def test_fit_large_starts_nothing_after_the_time_limit(monkeypatch) -> None:
    """Neither a search for votes nor a relaxation: both would run past the limit."""

    def fail(*arguments, **options):
        raise AssertionError("started after the time limit")

    for owner, name in ((relax, "begin"), (exchange, "improved")):
        monkeypatch.setattr(owner, name, fail)
    data = make(*random_table(5, num_rows=200, num_bits=4))
    learner = jboost.learners.monomials(2, kappa=0.1)
    limited = fit.fit_large(data, learner, margin=0.1, time_limit=0.0)
    assert int(limited.status) == Status.TIME_LIMIT
    assert limited.certificate.integer_upper_bound < np.inf


def test_fit_large_counts_the_errors_of_a_constant_beside_a_heavy_row() -> None:
    features, labels = np.eye(5)[:, :3], np.array([1, 1, -1, -1, -1])
    with jax.enable_x64(True):
        data = jboost.make_dataset(features, labels, weights=[1e18, 1.0, 1.0, 1.0, 1.0])
        learner = jboost.learners.monomials(1)
        ended = fit.fit_large(data, learner, margin=0.1, time_limit=0.0)
    assert float(ended.certificate.integer_upper_bound) == 3


def assert_is_constant_vote(limited, weights, labels) -> None:
    """The better constant, whose bounds hold whatever the costs of the monomials."""
    certificate = limited.certificate
    assert int(limited.status) == Status.TIME_LIMIT
    assert int(limited.ensemble.count) == int(limited.num_rounds) == 0
    heavier = max((-1, 1), key=lambda sign: weights[labels == sign].sum())
    assert np.sign(float(limited.ensemble.constant)) == heavier
    assert float(certificate.integer_upper_bound) == weights[labels != heavier].sum()
    assert float(certificate.integer_lower_bound) == float(certificate.lower_bound) == 0


def test_fit_large_does_not_wait_for_the_costs_after_the_time_limit(monkeypatch) -> None:
    """Their compilation took 1.4 s, at a limit of 0.2 s."""
    goes_on, ended, learner = threading.Event(), [], jboost.learners.monomials(2, kappa=0.1)
    priced = type(learner).price_list

    def price_for_long(*arguments):
        goes_on.wait(60)
        ended.append(arguments)
        return priced(*arguments)

    monkeypatch.setattr(type(learner), "price_list", price_for_long)
    features, labels, weights = random_table(5, num_rows=30, num_bits=3)
    begin = time.monotonic()
    limited = fit.fit_large(make(features, labels, weights), learner, margin=0.1, time_limit=0.05)
    assert time.monotonic() - begin < 30
    assert not ended
    assert_is_constant_vote(limited, weights, labels)
    goes_on.set()


def test_fit_large_looks_at_the_clock_between_the_stages_of_its_table(monkeypatch) -> None:
    """The costs are there at the last moment, and the list of monomials is not begun."""
    now, learner = [0.0], jboost.learners.monomials(2, kappa=0.1)
    priced = type(learner).price_list

    def price(*arguments):
        now[0] += 1.0
        return priced(*arguments)

    def fail(*arguments, **options):
        raise AssertionError("started after the time limit")

    monkeypatch.setattr(type(learner), "price_list", price)
    monkeypatch.setattr(products, "every_monomial", fail)
    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock.futures, "wait", lambda each, timeout: wait_for(*each))
    features, labels, weights = random_table(5, num_rows=30, num_bits=3)
    limited = fit.fit_large(make(features, labels, weights), learner, margin=0.1, time_limit=1.0)
    assert now == [1.0]
    assert_is_constant_vote(limited, weights, labels)


def wait_for(computing):
    computing.result()
    return types.SimpleNamespace(not_done=set())


def test_fit_large_of_many_rows_begins_with_a_part_of_them(monkeypatch) -> None:
    monkeypatch.setattr(sizes, "FIRST_ROWS", 64)
    features, labels, weights = random_table(7, num_rows=400, num_bits=4)
    learner = jboost.learners.monomials(2, kappa=KAPPA)
    fitted = fit.fit_large(make(features, labels, weights), learner, margin=0.1, tolerance=1e-2)
    outputs, orders = outputs_and_orders(features, 2)
    prices = np.asarray(learner.price_list(4, int((weights > 0).sum())), float)
    costs = np.where(orders == 0, 0.0, prices[orders - 1])
    certificate = fitted.certificate
    again = recomputed_lower_bound(certificate.proof, outputs, labels, costs, weights, 0.1)
    assert again >= float(certificate.lower_bound) - 1e-6
    assert certificate.lower_bound <= certificate.upper_bound
    assert int(fitted.status) == Status.OPTIMAL


class Ticks:
    """A clock for `jboost.l0.large.clock` that advances by one second with each round, so that two
    runs measure the same times.
    """

    def __init__(self, monkeypatch) -> None:
        self.now, step = 0.0, relax.step

        def tick(*args, **kwargs):
            self.now += 1.0
            return step(*args, **kwargs)

        monkeypatch.setattr(relax, "step", tick)
        monkeypatch.setattr(clock.time, "monotonic", lambda: self.now)


def leaves_of(found) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]


def assert_equal_bits(found, expected) -> None:
    for one, other in zip(leaves_of(found), leaves_of(expected), strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def stored(state, folder, data):
    """The state as a checkpoint returns it."""
    with jboost.checkpoints.Checkpointer(folder, data=data, options={}) as checkpointer:
        assert checkpointer(None)
        checkpointer.save_now(state)
    return jboost.checkpoints.restore(folder, type(state), data=data, options={})


def test_fit_large_resumes_from_a_checkpoint_and_ends_in_the_same_bits(
    monkeypatch, tmp_path
) -> None:
    Ticks(monkeypatch)
    features, labels, weights = random_table(5, num_rows=40, num_bits=3)
    data, learner = make(features, labels, weights), jboost.learners.monomials(1, kappa=0.1)
    options, seen = {"margin": 0.1, "tolerance": 0.0, "max_rounds": 3, "max_cuts": 32}, []
    whole = fit.fit_large(data, learner, on_step=lambda state, _: seen.append(state), **options)
    assert seen[0] is None  # of the first vote
    states = [state for state in seen if state is not None]
    state = stored(states[1], tmp_path, data)
    assert state.num_rounds == 2
    again = fit.fit_large(data, learner, initial=state, on_step=lambda *_: None, **options)
    assert_equal_bits(again, whole)
    # a state keeps its vote and its bounds, however little time is left
    ended = fit.fit_large(data, learner, initial=state, time_limit=0.0, **options)
    assert int(ended.status) == Status.TIME_LIMIT
    assert int(ended.num_rounds) == 2
    assert float(ended.certificate.integer_upper_bound) == pytest.approx(state.vote.loss, rel=1e-12)
    assert float(ended.certificate.lower_bound) == state.first.proven.bound


@pytest.mark.slow
def test_fit_large_refuses_a_state_of_another_problem(monkeypatch) -> None:
    """Its duals and its vote would prove and attain bounds that do not hold here."""
    Ticks(monkeypatch)
    features, labels, weights = random_table(5, num_rows=40, num_bits=3)
    data, learner = make(features, labels, weights), jboost.learners.monomials(1, kappa=0.1)
    options, seen = {"margin": 0.1, "tolerance": 0.0, "max_rounds": 2, "max_cuts": 32}, []
    fit.fit_large(data, learner, on_step=lambda state, _: seen.append(state), **options)
    few = jboost.l0.SearchConfig(max_hypotheses=1)
    other_rows = "initial is the state of a fit of other features, labels or weights: pass those"
    other_costs = "initial is the state of a fit of other costs of the learner: pass those"
    cases = [
        (make(features, -labels, weights), learner, {}, other_rows),
        (make(features, labels, 2 * weights), learner, {}, other_rows),
        (make(1 - features, labels, weights), learner, {}, other_rows),
        (data, jboost.learners.monomials(1, kappa=0.2), {}, other_costs),
        (data, learner, {"margin": 1.0}, r"initial is the state of a fit with margin 0\.1.*: exp"),
        (data, learner, {"search": few}, "initial is the state of a fit with max_hypotheses None"),
    ]
    for changed, priced, change, message in cases:
        with pytest.raises(ValueError, match=message):
            fit.fit_large(changed, priced, initial=seen[-1], **(options | change))


@pytest.mark.slow
@pytest.mark.parametrize(("max_columns", "max_cuts"), [(64, 256), (16, 64)])
def test_fit_large_resumes_after_any_round_and_ends_in_the_same_bits(
    max_columns, max_cuts, monkeypatch, tmp_path
) -> None:
    """Rounds over a part of the rows, over all of them, and on the integer problem. Columns are
    replaced if there are few.
    """
    monkeypatch.setattr(sizes, "FIRST_ROWS", 64)
    Ticks(monkeypatch)
    features, labels, weights = random_table(8, num_rows=400, num_bits=4)
    data, learner = make(features, labels, weights), jboost.learners.monomials(2, kappa=KAPPA)
    options = {"margin": 0.1, "tolerance": 0.02, "max_columns": max_columns, "max_cuts": max_cuts}
    options |= {"max_rounds": 40}
    seen = []
    whole = fit.fit_large(
        data, learner, on_step=lambda state, info: seen.append((state, info)), **options
    )
    assert seen[0][0] is None
    states = [state for state, info in seen if state is not None]
    stages = [(state.stage, state.is_integer) for state in states]
    if max_columns == 64:
        assert set(stages) == {(0, False), (1, False), (2, False), (2, True)}
    else:
        assert states[-1].first.num_evicted > 0
    for index in sorted({stages.index(stage) for stage in stages} | {len(states) - 1}):
        state = stored(states[index], tmp_path / str(index), data)
        again = fit.fit_large(data, learner, initial=state, on_step=lambda *_: None, **options)
        assert_equal_bits(again, whole)
    with pytest.raises(ValueError, match=r"initial is the state of a fit of .* rows and"):
        fit.fit_large(make(features[:50], labels[:50]), learner, initial=states[0], **options)
    with pytest.raises(ValueError, match=r"initial is a dict: expected a jboost\.l0\.LargeState"):
        fit.fit_large(data, learner, initial={}, **options)


@pytest.mark.slow
def test_choose_large_resumes_in_the_folds_and_in_the_last_fit(monkeypatch, tmp_path) -> None:
    Ticks(monkeypatch)
    features, labels, _ = random_table(2, num_rows=60, num_bits=3)
    options = {"max_orders": (1, 2), "max_rules": (1, 2), "margins": (0.1,), "kappas": (0.5,)}
    options |= {"key": jax.random.key(1), "num_folds": 3, "max_rounds": 3, "tolerance": 0.0}
    arguments = (
        make(features, labels),
        lambda order, kappa: jboost.learners.monomials(order, kappa=kappa),
    )
    seen = []
    whole = jboost.l0.choose_large(
        *arguments,
        on_step=lambda state, info: None if state is None else seen.append((state, info)),
        **options,
    )
    assert sum(isinstance(info, str) for _, info in seen) == 6
    for index in (1, 5, len(seen) - 1):
        state = stored(seen[index][0], tmp_path / str(index), arguments[0])
        again = jboost.l0.choose_large(
            *arguments, initial=state, on_step=lambda *_: None, **options
        )
        assert_equal_bits(again, whole)
    with pytest.raises(ValueError, match=r"initial holds errors \[3, 2, 2, 1, 1\]: expected"):
        jboost.l0.choose_large(*arguments, initial=state, **(options | {"max_orders": (1,)}))
    with pytest.raises(ValueError, match="initial is a int: expected a jboost"):
        jboost.l0.choose_large(*arguments, initial=3, **options)
    folds = np.arange(60) % 3 == np.arange(3)[:, None]
    for changed, change, message in (
        (
            arguments[0],
            {"margins": (0.2,)},
            r"initial is the state of a choice of margins \(0\.1,\)",
        ),
        (arguments[0], {"kappas": (0.4,)}, r"initial is the state of a choice of kappas \(0\.5,\)"),
        (arguments[0], {"max_orders": (2, 1)}, r"of max_orders \(1, 2\): expected \(2, 1\)"),
        (arguments[0], {"max_rules": (1, None)}, r"of max_rules \(1, 2\): expected \(1, None\)"),
        (
            arguments[0],
            {"held_out": folds},
            "initial is the state of a choice of other rows or folds: pass",
        ),
        (
            make(features, -labels),
            {},
            "initial is the state of a choice of other rows or folds: pass",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            jboost.l0.choose_large(changed, arguments[1], initial=state, **(options | change))

    def dearer(order, kappa):
        return jboost.learners.monomials(order, kappa=2 * kappa)

    message = "initial is the state of a choice of other costs of the learners: pass those"
    with pytest.raises(ValueError, match=message):
        jboost.l0.choose_large(arguments[0], dearer, initial=state, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learner": "stumps"}, "learner is a Stumps: expected jboost.learners.monomials"),
        ({"learner": "four"}, "learner.max_order is 4"),
        ({"margin": 0.0}, "margin is 0"),
        ({"max_rounds": -1}, "max_rounds is -1"),
        ({"max_cuts": 0}, "max_cuts is 0"),
        ({"time_limit": -1.0}, "time_limit is -1"),
        ({"features": [[2.0], [0.0]]}, r"features\[0, 0\] is 2: expected 0, 1 or NaN"),
        ({"labels": [3, -1]}, r"labels\[0\] is 3: labels are -1 or \+1"),
        ({"weights": [-1.0, 1.0]}, r"weights\[0\] is -1.0: expected a finite number from 0 up"),
        ({"weights": [0.0, 0.0]}, "dataset has no examples that count"),
    ],
)
def test_fit_large_names_what_is_wrong(change, message) -> None:
    learners = {"stumps": jboost.learners.stumps(), "four": jboost.learners.monomials(4)}
    options = {"margin": 0.1} | {
        name: value
        for name, value in change.items()
        if name in ("margin", "max_rounds", "max_cuts", "time_limit")
    }
    data = make(
        change.get("features", [[1.0], [0.0]]), change.get("labels", [1, -1]), change.get("weights")
    )
    with pytest.raises(ValueError, match=message):
        fit.fit_large(
            data, learners.get(change.get("learner"), jboost.learners.monomials(1)), **options
        )


def test_merge_bits_matches_merge_equal() -> None:
    rng = np.random.default_rng(0)
    for gaps in (0.0, 0.3):
        bits = (rng.random((60, 3)) < 0.5).astype(np.float32)
        bits[rng.random(bits.shape) < gaps] = np.nan
        labels, weights = (
            np.where(rng.random(60) < 0.5, 1, -1),
            rng.integers(1, 4, 60).astype(np.float32),
        )
        found = merging.merge_bits(bits, labels, weights)
        expected = merging.merge_equal(jboost.make_dataset(bits, labels, weights=weights)).dataset
        assert np.array_equal(
            found.features.astype(float), np.asarray(expected.features, float), equal_nan=True
        )
        assert np.array_equal(found.labels, np.asarray(expected.labels))
        assert np.array_equal(found.weights, np.asarray(expected.weights))


def test_choose_large_takes_the_size_of_least_held_out_error() -> None:
    rng = np.random.default_rng(0)
    features = (rng.random((120, 4)) < 0.5).astype(np.uint8)
    # a vote of two rules of two literals
    labels = np.where(features[:, 0] == features[:, 1], 1, -1)
    seen = []
    chosen = jboost.l0.choose_large(
        make(features, labels),
        lambda order, kappa: jboost.learners.monomials(order, kappa=kappa),
        max_orders=(1, 2),
        max_rules=(1, 2, 4),
        margins=(0.1,),
        kappas=(0.5,),
        key=jax.random.key(1),
        num_folds=3,
        max_rounds=1,
        on_step=lambda state, info: seen.append(info),
    )
    errors = np.asarray(chosen.errors)
    assert errors.shape == (2, 3, 1, 1)
    assert (int(chosen.max_order), int(chosen.max_rules)) == (2, 2)
    assert errors[1, 1, 0, 0] == 0.0
    # a vote of single literals has all rows of one of the four cells wrong
    cells = np.bincount(2 * features[:, 0] + features[:, 1])
    assert errors[0].min() >= cells.min() / len(labels) - 1e-6
    assert sum(isinstance(info, str) for info in seen) == 6
    assert (np.asarray(jboost.predict(chosen.fit.ensemble, features)) == labels).all()


def test_choose_large_that_is_stopped_says_so_and_takes_the_best_so_far() -> None:
    features, labels, _ = random_table(2, num_rows=60, num_bits=3)
    chosen = jboost.l0.choose_large(
        make(features, labels),
        lambda order, kappa: jboost.learners.monomials(order, kappa=kappa),
        max_orders=(1, 2),
        max_rules=(2,),
        margins=(0.1,),
        kappas=(0.5,),
        key=jax.random.key(1),
        num_folds=3,
        max_rounds=1,
        on_step=lambda state, info: not isinstance(info, str),
    )
    assert int(chosen.status) == Status.TIME_LIMIT
    assert int(chosen.max_order) == 1  # the only one that was fitted
    assert np.isnan(np.asarray(chosen.errors)[1]).all()
    np.testing.assert_array_equal(chosen.num_folds[:, 0, 0, 0], [1, 0])
    assert int(chosen.fit.num_rounds) == 1  # the last fit is not ended


CHOICE = {
    "max_orders": (1, 2),
    "max_rules": (2,),
    "margins": (0.1,),
    "kappas": (0.5,),
    "key": jax.random.key(1),
    "num_folds": 3,
    "max_rounds": 1,
}


def learner_of(order, kappa):
    return jboost.learners.monomials(order, kappa=kappa)


def test_choose_large_leaves_out_the_fit_of_a_fold_that_is_ended() -> None:
    features, labels, _ = random_table(2, num_rows=60, num_bits=3)
    seen = []

    def end_in_second_fit(state, info):
        seen.append(info)
        return isinstance(info, str) or not isinstance(seen[-2:][0], str)

    chosen = jboost.l0.choose_large(
        make(features, labels), learner_of, on_step=end_in_second_fit, **CHOICE
    )
    assert int(chosen.status) == Status.TIME_LIMIT
    np.testing.assert_array_equal(chosen.num_folds[:, 0, 0, 0], [1, 0])


def test_choose_large_gives_the_fits_of_folds_the_rest_of_their_share(monkeypatch) -> None:
    features, labels, _ = random_table(2, num_rows=60, num_bits=3)
    now, limits, fit_large = [0.0], [], cross_validation.fit_large

    def slow(dataset, learner, **options):
        limits.append(options["time_limit"])
        fitted = fit_large(dataset, learner, **options)
        now[0] += 700 if len(limits) == 3 else 10
        return fitted

    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(cross_validation, "fit_large", slow)
    chosen = jboost.l0.choose_large(make(features, labels), learner_of, time_limit=1000.0, **CHOICE)
    assert limits == [600.0, 590.0, 580.0, 280.0]
    assert int(chosen.status) == Status.TIME_LIMIT
    np.testing.assert_array_equal(chosen.num_folds[:, 0, 0, 0], [1, 1])  # without the third fit


def test_choose_large_goes_on_with_a_choice_that_was_ended(monkeypatch) -> None:
    Ticks(monkeypatch)
    features, labels, _ = random_table(2, num_rows=60, num_bits=3)
    arguments = (make(features, labels), learner_of)
    whole = jboost.l0.choose_large(*arguments, on_step=lambda *_: None, **CHOICE)
    seen = []

    def end_the_choice(state, info):
        seen.append(state)
        return not isinstance(info, str)

    jboost.l0.choose_large(*arguments, on_step=end_the_choice, **CHOICE)
    assert seen[-1].fit is not None
    again = jboost.l0.choose_large(*arguments, initial=seen[-1], on_step=lambda *_: None, **CHOICE)
    assert_equal_bits(again, whole)


def test_choose_large_refuses_what_does_not_fit_before_the_first_fold(monkeypatch) -> None:
    monkeypatch.setattr(cross_validation, "fit_large", pytest.fail)
    wide = make(np.zeros((12, 150), np.uint8), [1, -1] * 6)
    options = CHOICE | {"max_orders": (1, 3)}
    message = "150 bits, and there are .* monomials of up to 3 literals, above 4,000,000"
    with pytest.raises(ValueError, match=message):
        jboost.l0.choose_large(wide, learner_of, **options)
    narrow = make(np.zeros((12, 9), np.uint8), [1, -1] * 6)
    folds = np.arange(12) // 2 % 3 == np.arange(3)[:, None]
    own = [np.zeros((12, width), np.uint8) for width in (9, 150, 9)]
    with pytest.raises(ValueError, match=message):
        jboost.l0.choose_large(narrow, learner_of, held_out=folds, fold_features=own, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_orders": ()}, "max_orders is empty"),
        ({"max_rules": (0,)}, r"max_rules\[0\] is 0"),
        ({"margins": (2.0,)}, "margins"),
        ({"held_out": np.zeros((2, 3))}, r"held_out has shape \(2, 3\)"),
        ({"fold_features": [np.zeros((2, 1))]}, "fold_features is given and held_out is not"),
    ],
)
def test_choose_large_names_what_is_wrong(change, message) -> None:
    options = {
        "max_orders": (1,),
        "max_rules": (2,),
        "margins": (0.1,),
        "kappas": (1.0,),
        "key": jax.random.key(0),
    } | change
    with pytest.raises(ValueError, match=message):
        jboost.l0.choose_large(
            make([[1.0], [0.0]], [1, -1]),
            lambda order, kappa: jboost.learners.monomials(order),
            **options,
        )


def test_fit_large_says_before_it_starts_what_does_not_fit(monkeypatch) -> None:
    features, labels, _ = random_table(1, num_rows=40, num_bits=3)
    monkeypatch.setattr(table.memory, "of_device", lambda: 1000)
    with pytest.raises(
        ValueError,
        match=(
            r"40 rows of 3 bits: a fit takes about [0-9,]+ bytes, and there are 1,000; make fewer"
            r" bits"
        ),
    ):
        fit.fit_large(make(features, labels), jboost.learners.monomials(2), margin=0.1)
    monkeypatch.undo()
    wide = np.zeros((4, 2000), np.uint8)
    with pytest.raises(ValueError, match="monomials of up to 2 literals, above 4,000,000"):
        fit.fit_large(make(wide, [1, -1, 1, -1]), jboost.learners.monomials(2), margin=0.1)


@pytest.mark.parametrize("is_double", [False, True])
def test_fit_large_compiles_with_the_float_types_of_its_caller(is_double: bool) -> None:
    features, labels, weights = random_table(4, num_rows=30, num_bits=3)
    with jax.enable_x64(is_double):
        fitted = fit.fit_large(
            make(features, labels, weights),
            jboost.learners.monomials(2, kappa=KAPPA),
            margin=0.2,
            max_rounds=3,
        )
    assert fitted.ensemble.votes.dtype == (np.float64 if is_double else np.float32)
    assert fitted.certificate.lower_bound <= fitted.certificate.upper_bound


# --- devices --------------------------------------------------------------------------------------


def sharded(kind):
    """A data set of 203 rows, and the same over eight devices with axes of this kind."""
    features, labels, _ = random_table(3, num_rows=203, num_bits=6)
    dataset = jboost.make_dataset(features, labels)
    mesh = jax.make_mesh((8,), ("examples",), axis_types=(AxisType[kind],))
    return dataset, jboost.sharding.shard_dataset(dataset, mesh)


def assert_equal_leaves(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_fit_large_on_a_mesh_is_that_of_one_device(kind):
    alone, over_all = (
        jboost.l0.fit_large(
            dataset, jboost.learners.monomials(2, kappa=KAPPA), margin=0.2, max_rounds=2
        )
        for dataset in sharded(kind)
    )
    assert_equal_leaves(over_all.ensemble, alone.ensemble)
    assert over_all.certificate.lower_bound == alone.certificate.lower_bound
    assert over_all.certificate.upper_bound == alone.certificate.upper_bound


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_choose_large_on_a_mesh_is_that_of_one_device(kind):
    alone, over_all = (
        jboost.l0.choose_large(
            dataset,
            lambda order, kappa: jboost.learners.monomials(order, kappa=kappa),
            max_orders=(1, 2),
            max_rules=(2,),
            margins=np.array([0.2]),
            kappas=np.array([KAPPA]),
            key=jax.random.key(0),
            num_folds=2,
            max_rounds=1,
        )
        for dataset in sharded(kind)
    )
    np.testing.assert_array_equal(over_all.errors, alone.errors)
    assert_equal_leaves(over_all.fit.ensemble, alone.fit.ensemble)


@pytest.mark.parametrize("weight", [1e60, 1e-60])
def test_weights_beyond_the_types_of_the_duals_are_refused(weight) -> None:
    with jax.enable_x64(True):
        dataset = jboost.make_dataset([[1], [0]], [1, -1], weights=np.full(2, weight))
        with pytest.raises(ValueError, match="weights sum to"):
            jboost.l0.fit_large(dataset, jboost.learners.monomials(1), margin=0.1)


@pytest.mark.parametrize("weight", [1e18, 1e28])
def test_bounds_under_heavy_weights_hold(weight) -> None:
    with jax.enable_x64(True):
        labels = np.array([1, -1, -1, -1] * 3)
        dataset = jboost.make_dataset(
            [[1, 1], [1, 0], [0, 1], [0, 0]] * 3, labels, weights=np.full(12, weight)
        )
        learner = jboost.learners.monomials(2, kappa=0.1)
        bounds = jboost.l0.fit_large(dataset, learner, margin=0.1).certificate
        best = float(learner.price_list(2, 12)[1])  # one rule, which makes no error
        assert bounds.integer_lower_bound <= best * (1 + 1e-9)
        assert bounds.integer_upper_bound >= best * (1 - 1e-9)
        assert bounds.lower_bound <= bounds.upper_bound
