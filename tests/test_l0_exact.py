"""Branch and bound on the sparse minimum disagreement problem (15), against its mixed-integer program by HiGHS."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import l0
from jboost.base.status import Status
from jboost.l0 import integer
from oracles import l0 as oracle
from test_l0 import integer_optimum

EXAMPLES, COLUMNS = 12, 8


def pools(count, seed):
    """Outputs [count, m, U], labels, costs and margins; constants that cost nothing first, some costs equal, some all different, a free column."""
    random = np.random.default_rng(seed)
    labels = np.where(random.random((count, EXAMPLES)) < 0.5, 1, -1)
    outputs = random.choice([-1, 0, 1], (count, EXAMPLES, COLUMNS), p=[0.3, 0.4, 0.3])
    outputs = np.where(random.random(outputs.shape) < random.uniform(0, 0.5, (count, 1, 1)), labels[:, :, None], outputs)
    outputs[::2] = np.where(outputs[::2] == 0, 1, outputs[::2])
    outputs[:, :, 0], outputs[:, :, 1] = 1, -1
    costs = np.where(np.arange(count)[:, None] % 3 == 0, 0.5, random.uniform(0.1, 1.5, (count, COLUMNS)))
    costs[:, :2] = 0
    costs[::5, 4] = 0
    labels[1] = 1
    return outputs, labels, costs.astype(np.float32), random.uniform(0.03, 0.6, count).astype(np.float32)


@functools.partial(jax.jit, static_argnames="config")
def solve_all(outputs, labels, costs, margins, config=None):
    def one(part):
        return l0.solve_exact(*part[:3], margin=part[3], tolerance=1e-3, config=config)

    return jax.lax.map(one, (outputs, labels, costs, margins))


def exact_errors(outputs, labels, margin, coefficients):
    shares = oracle.exactly(coefficients)
    reached = [
        int(label) * sum(int(said) * share for said, share in zip(row, shares, strict=True)) for row, label in zip(outputs, labels, strict=True)
    ]
    return sum(one < float(margin) for one in reached)


@pytest.mark.slow
def test_optima_are_those_of_the_mixed_integer_program():
    problems = pools(30, 0)
    found = jax.device_get(solve_all(*problems))
    for index, (outputs, labels, costs, margin) in enumerate(zip(*problems, strict=True)):
        optimum = integer_optimum(outputs, labels, costs, float(margin))
        assert found.lower_bound[index] <= optimum + 1e-5, index
        assert found.loss[index] == pytest.approx(optimum, abs=2e-3), index
        assert found.status[index] == Status.OPTIMAL, index
        coefficients = found.coefficients[index]
        loss = exact_errors(outputs, labels, margin, coefficients) + costs[coefficients > 0].sum()
        assert loss == pytest.approx(float(found.loss[index]), abs=1e-5)


@pytest.mark.slow
def test_limits_leave_valid_bounds():
    outputs, labels, costs, margins = pools(30, 1)
    for config in (l0.ExactConfig(max_batches=1), l0.ExactConfig(batch=2, capacity=3)):
        found = jax.device_get(solve_all(outputs, labels, costs, margins, config))
        for index in range(30):
            optimum = integer_optimum(outputs[index], labels[index], costs[index], float(margins[index]))
            assert found.lower_bound[index] <= optimum + 1e-5
            assert found.loss[index] >= optimum - 1e-5
        assert not np.all(found.status == Status.OPTIMAL)


def test_bounds_are_rounded_up_to_what_the_loss_can_be():
    weights, prices = jnp.ones(5), jnp.array([0, 0, 1.5, 1.5])
    for bound, wanted in ((0.2, 1.0), (1.0, 1.0), (1.2, 1.5), (1.6, 2.0), (2.1, 2.5), (2.6, 3.0), (7.3, 7.5), (-1.0, 0.0), (-np.inf, -np.inf)):
        assert float(integer.round_up(jnp.asarray(bound), weights, prices)) == pytest.approx(wanted, abs=1e-5)
    for others in ((weights * 0.5, prices), (weights, jnp.array([0, 0, 1.5, 1.4])), (weights, jnp.array([0, 1e-9]))):
        assert float(integer.round_up(jnp.asarray(1.2), *others)) == pytest.approx(1.2)
    assert float(integer.round_up(jnp.asarray(1.2), weights, jnp.zeros(3))) == pytest.approx(2)


def test_arguments_are_judged():
    with pytest.raises(ValueError, match="margin is 0"):
        l0.solve_exact([[1]], [1], [0.0], margin=0.0)
    with pytest.raises(ValueError, match=r"outputs\[0, 0\] is 2"):
        l0.solve_exact([[2]], [1], [0.0], margin=0.1)
    with pytest.raises(ValueError, match='cuts="either" is wanted'):
        l0.ExactConfig(relaxation=l0.RelaxationConfig())
    with pytest.raises(ValueError, match="config is a int"):
        l0.solve_exact([[1]], [1], [0.0], margin=0.1, config=3)


@pytest.mark.slow
def test_sizes_0_and_what_is_not_allowed():
    assert int(l0.solve_exact(np.zeros((0, 2)), np.zeros(0), [0.0, 0.0], margin=0.1).status) == Status.OPTIMAL
    assert int(l0.solve_exact(np.zeros((2, 0)), [1, -1], np.zeros(0), margin=0.1).status) == Status.INFEASIBLE
    bad = jax.jit(lambda outputs: l0.solve_exact(outputs, [1, -1], [0.5, 0.5], margin=0.1))(jnp.array([[jnp.nan, 1], [1, 1]]))
    assert int(bad.status) == Status.INVALID_INPUT
    assert np.isnan(float(bad.loss))
    assert jboost.status.explain(bad.status)
