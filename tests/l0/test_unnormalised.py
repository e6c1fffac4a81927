"""The program (9), whose votes are not normalised, against its linear and its mixed-integer program
by HiGHS.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize
from test_branch_and_cut import COLUMNS, EXAMPLES, pools

from jboost import l0
from jboost.base.status import Status
from oracles import l0 as oracle

LARGEST = (0.5, 4.0, 50.0)


@functools.partial(jax.jit, static_argnames="wide")
def solve_all(outputs, labels, costs, largest, weights, wide):
    return jax.vmap(
        lambda *part: l0.solve_unnormalised(*part[:3], largest=part[3], weights=part[4])
    )(outputs, labels, costs, largest, weights)


def optima(outputs, labels, costs, largest, weights):
    """The linear and the mixed-integer optimum of (9) in (lambda, mu, xi)."""
    m, n = outputs.shape
    objective = np.r_[np.zeros(n), costs, weights]
    right = np.hstack([labels[:, None] * outputs, np.zeros((m, n)), (m * largest + 1) * np.eye(m)])
    used = np.hstack([-np.eye(n), largest * np.eye(n), np.zeros((n, m))])
    rows = optimize.LinearConstraint(
        np.vstack([right, used]), np.r_[np.ones(m), np.zeros(n)], np.inf
    )
    bounds = optimize.Bounds(0, np.r_[np.full(n, np.inf), np.ones(n + m)])
    options = {"mip_rel_gap": 0.0}
    return [
        optimize.milp(
            objective, integrality=whole, constraints=rows, bounds=bounds, options=options
        ).fun
        for whole in (0, np.r_[np.zeros(n), np.ones(n + m)])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True])
def test_bounds_and_losses(wide):
    outputs, labels, costs, _ = pools(30, 4)
    random = np.random.default_rng(4)
    largest, weights = (
        np.resize(LARGEST, 30).astype(np.float32),
        random.choice([1.0, 2.0, 0.5], (30, EXAMPLES)).astype(np.float32),
    )
    with jax.enable_x64(wide):
        found = jax.device_get(solve_all(outputs, labels, costs, largest, weights, wide))
    assert (found.status == Status.OPTIMAL).all()
    for index in range(30):
        part = outputs[index], labels[index], costs[index], float(largest[index]), weights[index]
        relaxed, whole = optima(*(np.asarray(one, np.float64) for one in part))
        assert found.lower_bound[index] <= relaxed + 1e-9
        assert found.upper_bound[index] >= relaxed - 1e-9
        assert found.upper_bound[index] - found.lower_bound[index] <= (1e-6 if wide else 1e-3)
        assert found.loss[index] >= whole - 1e-5
        shares = oracle.exactly(found.coefficients[index])
        assert shares.min() >= 0
        assert shares.max() <= oracle.exactly([largest[index]])[0]
        reached = [
            sum(int(said) * share for said, share in zip(row, shares, strict=True))
            for row in outputs[index] * labels[index][:, None]
        ]
        paid = (
            sum(
                float(weight)
                for weight, one in zip(weights[index], reached, strict=True)
                if one < 1
            )
            + costs[index][shares > 0].sum()
        )
        assert paid == pytest.approx(float(found.loss[index]), abs=1e-5)
    assert found.coefficients.shape == (30, COLUMNS)
    assert (found.loss <= weights.sum(axis=1) + 1e-5).all()


@pytest.mark.slow
def test_sizes_0_and_what_is_not_allowed():
    empty = l0.solve_unnormalised(np.zeros((0, 2)), np.zeros(0), [0.5, 0.5], largest=1.0)
    assert (float(empty.loss), float(empty.lower_bound), empty.coefficients.shape) == (0, 0, (2,))
    none = l0.solve_unnormalised(np.zeros((2, 0)), [1, -1], np.zeros(0), largest=1.0)
    assert (float(none.loss), none.coefficients.shape) == (pytest.approx(2), (0,))
    with pytest.raises(ValueError, match="largest is 0"):
        l0.solve_unnormalised([[1]], [1], [0.5], largest=0.0)
    for tolerance in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="tolerance is"):
            l0.solve_unnormalised([[1]], [1], [0.5], largest=1.0, tolerance=tolerance)
    with pytest.raises(ValueError, match="config is a list"):
        l0.solve_unnormalised([[1]], [1], [0.5], largest=1.0, config=[])
    with pytest.raises(ValueError, match=r"outputs\[0, 0\] is 2"):
        l0.solve_unnormalised([[2]], [1], [0.5], largest=1.0)
    bad = jax.jit(lambda outputs: l0.solve_unnormalised(outputs, [1, -1], [0.5], largest=1.0))(
        jnp.array([[jnp.nan], [1.0]])
    )
    assert int(bad.status) == Status.INVALID_INPUT
    assert (float(bad.lower_bound), float(bad.upper_bound)) == (-np.inf, np.inf)
