"""The linear and the quadratic program for three classifiers, by HiGHS and scikit-learn."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from sklearn.svm import LinearSVC

import jboost
from jboost.base.status import Status
from oracles import highs

SIZE = 14


def make_sets(num_sets):
    rng = np.random.default_rng(11)
    points = rng.normal(size=(num_sets, SIZE, 3))
    labels = np.where(rng.random((num_sets, SIZE)) < 0.5, 1, -1)
    labels[:, :2] = [1, -1]
    points = points + 0.7 * labels[..., None]
    weights = rng.integers(1, 4, (num_sets, SIZE)).astype(float)
    mask = np.ones((num_sets, SIZE), bool)
    mask[::2, 10:] = False
    return points, labels, weights, mask


def shares_of(labels, weights):
    return sum(
        np.where(labels == sign, weights, 0) / weights[labels == sign].sum() for sign in (-1, 1)
    )


def solve_all(solve, sets):
    run = jax.jit(jax.vmap(lambda p, y, w, m: solve(p, y, weights=w, mask=m)))
    results = jax.device_get(run(*sets))
    return [jax.tree.map(lambda leaf, i=index: leaf[i], results) for index in range(len(sets[0]))]


def test_least_distance_of_three_classifiers_is_that_of_the_linear_program(x64):
    sets = make_sets(4)
    for points, labels, weights, mask, found in zip(
        *sets, solve_all(jboost.pair.least_distance_separator, sets), strict=True
    ):
        x, y, w = points[mask], labels[mask], weights[mask]
        size = len(y)
        program = SimpleNamespace(
            objective=np.concatenate([np.zeros(4), shares_of(y, w)]),
            matrix=np.concatenate([y[:, None] * x, y[:, None], np.eye(size)], axis=1),
            row_lower=np.ones(size),
            row_upper=np.full(size, np.inf),
            lower=np.concatenate([np.full(4, -np.inf), np.zeros(size)]),
            upper=np.full(size + 4, np.inf),
        )
        wanted = highs.solve(program).objective
        assert found.status == Status.OPTIMAL
        assert float(found.objective) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
        assert float(found.lower_bound) <= wanted + 1e-9
        scores = (x - found.anchor) @ found.normal + found.bias
        assert found.loss == w[y * scores <= 0].sum()


@pytest.mark.slow
def test_least_squared_distance_of_three_classifiers_is_that_of_the_quadratic_program(x64):
    sets = make_sets(6)
    for points, labels, weights, mask, found in zip(
        *sets, solve_all(jboost.pair.least_squared_distance_separator, sets), strict=True
    ):
        x, y, w = points[mask], labels[mask], weights[mask]
        low, high = x.min(axis=0), x.max(axis=0)
        scaled = (x - (low + high) / 2) / ((high - low).max() / 2)
        machine = LinearSVC(loss="squared_hinge", dual=False, C=1e3, tol=1e-12, max_iter=100_000)
        machine.fit(scaled, y, sample_weight=shares_of(y, w))
        line = np.append(machine.coef_[0], machine.intercept_)
        slacks = np.maximum(1 - y * (scaled @ line[:3] + line[3]), 0)
        objective = 1e-3 / 2 * (line**2).sum() + (shares_of(y, w) * slacks**2).sum()
        assert found.status == Status.OPTIMAL
        assert found.objective == pytest.approx(objective, rel=1e-5)
        assert found.lower_bound <= objective * (1 + 1e-9)


@pytest.mark.parametrize(
    "solve",
    [jboost.pair.least_distance_separator, jboost.pair.least_squared_distance_separator],
)
def test_baselines_refuse_other_numbers_of_classifiers(solve):
    with pytest.raises(ValueError, match=r"points has shape \[3, 4\]: expected shape \[n, 2\] or"):
        solve(np.zeros((3, 4)), np.ones(3))
