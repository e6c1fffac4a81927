"""The relaxation (18) of Goldberg and Eckstein (2009) with every cut a row, by HiGHS; and
certificates in rational arithmetic. Shares nothing with the package.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy import optimize

from oracles import highs

INF = np.inf


class Program(NamedTuple):
    """minimise weights . xi + c . mu in (lambda, mu, xi)."""

    objective: np.ndarray
    matrix: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def pairs_of(labels) -> np.ndarray:
    """All pairs of opposite classes, both orders."""
    return np.array(
        [(i, j) for i, one in enumerate(labels) for j, other in enumerate(labels) if one != other],
        int,
    ).reshape(-1, 2)


def serves(outputs, labels, first, second) -> np.ndarray:
    """Which hypotheses are right on the first and do not say the same of the second, [U] bool."""
    return (outputs[first] == labels[first]) & (outputs[second] != labels[first])


def tell_apart(outputs, labels, first, second) -> np.ndarray:
    """Which hypotheses serve the pair or serve it the other way round, [U] bool: what a cut of (15)
    needs where hypotheses abstain.
    """
    return serves(outputs, labels, first, second) | serves(outputs, labels, second, first)


def make(outputs, labels, costs, margin, weights=None, helps=serves, pairs=None) -> Program:
    """All rows; `helps` says which hypotheses stand in the cut of a pair, `pairs` [k, 2] which have
    one, None for all.
    """
    outputs, labels, costs = (
        np.asarray(outputs, float),
        np.asarray(labels, float),
        np.asarray(costs, float),
    )
    m, n = outputs.shape
    weights = np.ones(m) if weights is None else np.asarray(weights, float)
    pairs = pairs_of(labels) if pairs is None else pairs
    cuts = np.zeros((len(pairs), 2 * n + m))
    for row, (first, second) in zip(cuts, pairs, strict=True):
        row[n : 2 * n] = helps(outputs, labels, first, second)
        row[2 * n + first] = row[2 * n + second] = 1
    matrix = np.vstack(
        [
            np.hstack([labels[:, None] * outputs, np.zeros((m, n)), (1 + margin) * np.eye(m)]),
            np.hstack([np.ones((1, n)), np.zeros((1, n + m))]),
            np.hstack([-np.eye(n), np.eye(n), np.zeros((n, m))]),
            cuts,
        ]
    )
    lower = np.r_[np.full(m, margin), 1, np.zeros(n), np.ones(len(pairs))]
    upper = np.r_[np.full(m, INF), 1, np.full(n + len(pairs), INF)]
    return Program(
        np.r_[np.zeros(n), costs, weights],
        matrix,
        lower,
        upper,
        np.zeros(2 * n + m),
        np.full(2 * n + m, INF),
    )


def optimum(outputs, labels, costs, margin, weights=None, helps=serves, pairs=None) -> float:
    """By the simplex method."""
    return highs.solve(make(outputs, labels, costs, margin, weights, helps, pairs)).objective


def integer_optimum(outputs, labels, cost, margin, weights=1.0, is_counted=0.0, most=np.inf):
    """(15) by HiGHS as a mixed-integer program in (lambda, mu, xi), with no more than `most` of the
    hypotheses that are counted.
    """
    m, n = outputs.shape
    rows = np.vstack(
        [
            np.hstack([labels[:, None] * outputs, np.zeros((m, n)), (1 + margin) * np.eye(m)]),
            np.hstack([np.ones((1, n)), np.zeros((1, n + m))]),
            np.hstack([-np.eye(n), np.eye(n), np.zeros((n, m))]),
            np.hstack([np.zeros((1, n)), is_counted * np.ones((1, n)), np.zeros((1, m))]),
        ]
    )
    low = np.r_[np.full(m, margin), 1, np.zeros(n), 0]
    high = np.r_[np.full(m, np.inf), 1, np.full(n, np.inf), most]
    found = optimize.milp(
        np.r_[np.zeros(n), cost, weights * np.ones(m)],
        constraints=optimize.LinearConstraint(rows, low, high),
        integrality=np.r_[np.zeros(n), np.ones(n + m)],
        bounds=optimize.Bounds(0, 1),
    )
    assert found.success
    return found.fun


def exactly(values) -> np.ndarray:
    """Fractions equal to floats."""
    return np.vectorize(lambda value: Fraction(float(value)), otypes=[object])(np.asarray(values))


def attained(outputs, labels, costs, margin, weights, coefficients, selected, slacks) -> Fraction:
    """The objective of a point, in rational arithmetic. Raises AssertionError, naming what it
    violates, unless it is feasible.
    """
    outputs, labels = np.asarray(outputs, int), np.asarray(labels, int)
    lam, mu, xi, rho = (
        exactly(coefficients),
        exactly(selected),
        exactly(slacks),
        Fraction(float(margin)),
    )
    assert sum(lam) == 1, f"sum lambda is {float(sum(lam))}"
    assert min(lam) >= 0, "lambda < 0"
    assert min(mu - lam) >= 0, "mu < lambda"
    assert min(xi, default=0) >= 0, "xi < 0"
    for i in range(len(labels)):
        signs = [int(sign) for sign in labels[i] * outputs[i]]
        assert (
            sum(sign * one for sign, one in zip(signs, lam, strict=True)) + (1 + rho) * xi[i] >= rho
        ), f"margin of {i}"
    for first, second in pairs_of(labels):
        assert xi[first] + xi[second] + sum(mu[serves(outputs, labels, first, second)]) >= 1, (
            f"cut of {first}, {second}"
        )
    return sum(exactly(weights) * xi) + sum(exactly(costs) * mu)


def proven(
    outputs, labels, costs, margin, weights, example_weights, pairs, pair_weights
) -> Fraction:
    """What w and v prove about a pool, in rational arithmetic, with mu <= 1. Raises AssertionError
    unless (19b) holds.
    """
    outputs, labels = np.asarray(outputs, int), np.asarray(labels, int)
    w, v, rho = exactly(example_weights), exactly(pair_weights), Fraction(float(margin))
    assert min(w, default=0) >= 0, "w < 0"
    assert min(v, default=0) >= 0, "v < 0"
    load = (1 + rho) * w
    served = np.full(outputs.shape[1], Fraction(0))
    for (first, second), one in zip(np.asarray(pairs), v, strict=True):
        if one == 0:
            continue
        assert labels[first] != labels[second], "no pair of opposite classes"
        load[first] += one
        load[second] += one
        served[serves(outputs, labels, first, second)] += one
    for i, one in enumerate(exactly(weights)):
        assert load[i] <= one, f"(19b) of {i}"
    edges = [
        sum(int(labels[i] * outputs[i, u]) * w[i] for i in range(len(labels)) if outputs[i, u])
        for u in range(outputs.shape[1])
    ]
    prices = exactly(costs)
    excess = max(max(served - prices), Fraction(0))
    least = min(prices + excess - served - np.array(edges, object))
    return rho * sum(w) + sum(v) - len(prices) * excess + least
