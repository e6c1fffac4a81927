"""The linear variant of (25), against HiGHS with every cut a row, rational arithmetic, and (25)
itself on a grid of margins.
"""

import functools
from fractions import Fraction

import jax
import numpy as np
import pytest
from test_branch_and_cut import pools

from jboost import l0
from jboost.base.status import Status
from oracles import highs
from oracles import l0 as oracle

PENALTIES = (0.01, 0.05, 0.3)


@functools.partial(jax.jit, static_argnames=("wide", "config"))
def solve_all(outputs, labels, costs, penalties, weights, wide, config=None):
    return jax.lax.map(
        lambda part: l0.solve_linear_margin(
            *part[:3], penalty=part[3], weights=part[4], config=config
        ),
        (outputs, labels, costs, penalties, weights),
    )


def optimum(outputs, labels, costs, penalty, weights):
    """The greatest rho - penalty (xi + mu), by the simplex method."""
    m = len(outputs)
    base = oracle.make(outputs, labels, costs, 1.0, weights)  # (1 + rho) is 2
    column = np.zeros((len(base.matrix), 1))
    column[:m] = -1
    program = base._replace(
        objective=np.r_[penalty * base.objective, -1],
        matrix=np.hstack([base.matrix, column]),
        row_lower=np.r_[np.zeros(m), base.row_lower[m:]],
        lower=np.r_[base.lower, 0],
        upper=np.r_[base.upper, 1],
    )
    return -highs.solve(program).objective


def attained(found, outputs, labels, costs, penalty, weights):
    """rho - penalty (xi + mu), in rational arithmetic; the point must be feasible."""
    xi, mu, lam = (
        oracle.exactly(one) for one in (found.slacks, found.selected, found.coefficients)
    )
    rho = Fraction(float(found.margin))
    assert sum(lam) == 1
    assert min(mu - lam) >= 0
    assert min(lam) >= 0
    for i, row in enumerate(outputs * labels[:, None]):
        assert sum(int(sign) * one for sign, one in zip(row, lam, strict=True)) + 2 * xi[i] >= rho
    for one, other in oracle.pairs_of(labels):
        assert xi[one] + xi[other] + sum(mu[oracle.serves(outputs, labels, one, other)]) >= 1
    price = sum(oracle.exactly(weights) * xi) + sum(oracle.exactly(costs) * mu)
    return rho - Fraction(float(penalty)) * price


def proven(found, outputs, labels, costs, penalty, weights):
    """The upper bound of the duals, in rational arithmetic."""
    beta = Fraction(float(penalty))
    w, v = oracle.exactly(found.example_weights), oracle.exactly(found.pair_weights)
    assert min(w) >= 0
    assert min(v) >= 0
    served, load = np.full(outputs.shape[1], Fraction(0)), 2 * w
    for (one, other), dual in zip(found.pairs, v, strict=True):
        if dual:
            served[oracle.serves(outputs, labels, one, other)] += dual
            load[one] += dual
            load[other] += dual
    rest = beta * oracle.exactly(costs) - served
    edges = [
        sum(int(sign) * one for sign, one in zip(row, w, strict=True))
        for row in (outputs * labels[:, None]).T
    ]
    unpaid = beta * oracle.exactly(weights) - load
    least = min(max(one, 0) - edge for one, edge in zip(rest, edges, strict=True))
    return (
        max(0, 1 - sum(w))
        - sum(v)
        - least
        - sum(min(one, 0) for one in unpaid)
        - sum(min(one, 0) for one in rest)
    )


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True])
def test_bounds_are_of_the_linear_program_and_of_25(wide):
    count = 12
    outputs, labels, costs, _ = pools(count, 6)
    random = np.random.default_rng(6)
    penalties = np.resize(PENALTIES, count).astype(np.float32)
    weights = random.choice([1.0, 2.0, 0.5], outputs.shape[:2]).astype(np.float32)
    with jax.enable_x64(wide):
        found = jax.device_get(solve_all(outputs, labels, costs, penalties, weights, wide))
    assert (found.status == Status.OPTIMAL).all()
    for index in range(count):
        one = jax.tree.map(lambda leaf, index=index: leaf[index], found)
        part = outputs[index], labels[index], costs[index], penalties[index], weights[index]
        best = optimum(*(np.asarray(each, np.float64) for each in part))
        assert one.lower_bound <= best + 1e-9
        assert one.upper_bound >= best - 1e-9
        assert one.upper_bound - one.lower_bound <= (1e-6 if wide else 1e-3) * max(1, abs(best))
        assert attained(one, *part) >= float(one.lower_bound)
        assert proven(one, *part) <= float(one.upper_bound)
        for margin in (0.05, 0.2, 0.6, 1.0):
            value = oracle.optimum(*part[:3], margin, weights[index])
            assert margin - penalties[index] * value <= one.upper_bound + 1e-6


def test_one_pair_that_a_hypothesis_separates_has_margin_1():
    found = l0.solve_linear_margin([[1.0], [-1.0]], [1, -1], [0.5], penalty=0.5)
    assert found.status == Status.OPTIMAL
    np.testing.assert_allclose([found.margin, found.upper_bound], [1, 0.75], atol=2e-3)


@pytest.mark.slow
def test_rounds_end_at_the_tolerance():
    outputs, labels, costs, _ = (part[3] for part in pools(6, 6))
    solve = functools.partial(l0.solve_linear_margin, outputs, labels, costs, penalty=0.05)
    full, loose = solve(), solve(tolerance=0.5)
    assert full.status == loose.status == Status.OPTIMAL
    assert loose.num_rounds < full.num_rounds
    assert loose.lower_bound <= full.upper_bound
    assert loose.upper_bound >= full.lower_bound
    assert loose.upper_bound - loose.lower_bound <= 0.5


@pytest.mark.slow
def test_limits_sizes_and_what_is_not_allowed():
    outputs, labels, costs, _ = (part[3] for part in pools(6, 6))
    best = optimum(outputs, labels, costs, 0.05, np.ones(12))
    for config, status in (
        (l0.LinearMarginConfig(max_rounds=1), Status.ROUND_LIMIT),
        (l0.LinearMarginConfig(num_cuts=1), Status.CAPACITY_LIMIT),
    ):
        found = l0.solve_linear_margin(outputs, labels, costs, penalty=0.05, config=config)
        assert found.status == status
        assert found.lower_bound <= best + 1e-6
        assert found.upper_bound >= best - 1e-6
    none = l0.solve_linear_margin(np.zeros((2, 0)), [1, -1], np.zeros(0), penalty=0.1)
    assert none.status == Status.INFEASIBLE
    empty = l0.solve_linear_margin(np.zeros((0, 2)), np.zeros(0), [0.5, 0.25], penalty=0.1)
    np.testing.assert_allclose(empty.upper_bound, 1 - 0.025, atol=1e-3)
    with pytest.raises(ValueError, match="penalty"):
        l0.solve_linear_margin([[1.0]], [1], [0.5], penalty=0.0)
    with pytest.raises(ValueError, match=r"config\.num_cuts"):
        l0.LinearMarginConfig(num_cuts=0)
