"""The costs of the columns of a pool, in `jboost.l0`, against the mixed-integer optimum of (15) and
the linear optimum of (18) over the columns, their negations and the constants.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import l0, learners, lpboost
from jboost.base.status import Status
from oracles import l0 as oracle

MARGIN = 0.2
RNG = np.random.default_rng(11)
OUTPUTS = RNG.choice([-1.0, 1.0], size=(14, 5)).astype(np.float32)
LABELS = np.where(OUTPUTS[:, :3].sum(axis=1) > 0, 1, -1)
COSTS = np.array([0.5, 2.5, 0.75, 0.0, 1.0], np.float32)
DATASET = jboost.make_dataset(OUTPUTS, LABELS)
SMALL = {"margin": MARGIN, "max_rounds": 20, "max_columns": 16}


def test_proposal_is_the_column_of_greatest_worth_less_its_cost():
    learner = learners.pool(costs=COSTS, num_proposed=5)
    weights = np.full(14, 1 / 14, np.float32)
    state = learner.init(None, DATASET)
    found = learner.propose(state, jnp.asarray(weights), costs=learner.prices(state))
    edges = (weights * LABELS) @ OUTPUTS
    worth = np.concatenate([edges - COSTS, -edges - COSTS])
    np.testing.assert_allclose(found.values, np.sort(worth)[::-1][:5], atol=1e-6)
    assert found.upper_bound >= worth.max()
    assert learner.least_price(state) == 0
    every = learner.every(state)
    np.testing.assert_array_equal(every.costs, np.r_[COSTS, COSTS])


@pytest.mark.slow
@pytest.mark.parametrize("costs", [COSTS, COSTS[::-1], np.full(5, 1.0)])
def test_bounds_are_those_of_the_pool_with_these_costs(costs):
    fitted = l0.fit(DATASET, learners.pool(costs=costs), **SMALL)
    ones = np.ones((14, 1))
    outputs = np.hstack([ones, -ones, OUTPUTS, -OUTPUTS])
    prices = np.r_[0, 0, costs, costs]
    certificate = fitted.certificate
    relaxed = oracle.optimum(outputs, LABELS, prices, MARGIN)
    assert fitted.status == Status.OPTIMAL
    assert certificate.lower_bound <= relaxed + 1e-5
    assert certificate.upper_bound >= relaxed - 1e-5
    assert certificate.upper_bound - certificate.lower_bound <= 2e-3 * max(1, relaxed)
    whole = oracle.integer_optimum(outputs, LABELS, prices, MARGIN)
    assert certificate.integer_lower_bound <= whole + 1e-5
    assert certificate.integer_upper_bound >= whole - 1e-5
    exact = l0.fit_exact(DATASET, learners.pool(costs=costs), **SMALL)
    assert exact.status == Status.OPTIMAL
    np.testing.assert_allclose(exact.certificate.integer_upper_bound, whole, atol=1e-3)


@pytest.mark.slow
def test_equal_costs_are_one_cost_and_costs_may_be_traced():
    alone = l0.fit(DATASET, learners.pool(cost=0.5), **SMALL)
    fit = jax.jit(lambda costs: l0.fit(DATASET, learners.pool(costs=costs), **SMALL))
    each = fit(jnp.full((5,), 0.5))
    for one, other in zip(
        jax.tree.leaves(alone.certificate), jax.tree.leaves(each.certificate), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    for wrong in (np.nan, np.inf, -1.0):
        refused = fit(jnp.full((5,), 0.5).at[1].set(wrong))
        assert refused.status == Status.INVALID_INPUT
        assert np.isnan(refused.certificate.lower_bound)
        assert np.isnan(jboost.predict_scores(refused.ensemble, DATASET.features)).all()


def test_costs_that_are_not_allowed_are_named():
    for costs, message in (
        ([1.0, -1.0], r"costs\[1\] is -1"),
        ([np.inf], r"costs\[0\] is inf"),
        ([[1.0]], "costs"),
        (["a"], "costs"),
    ):
        with pytest.raises(ValueError, match=message):
            learners.pool(costs=costs)
    with pytest.raises(ValueError, match="costs has 2 entries, but the features have 5 columns"):
        l0.fit(DATASET, learners.pool(costs=[1.0, 2.0]), **SMALL)


def test_boosters_without_costs_refuse_them():
    with pytest.raises(ValueError, match="learner has costs of its hypotheses, which LPBoost"):
        lpboost.fit(DATASET, learners.pool(costs=COSTS, negations=False), nu=0.5, max_rounds=2)
    with pytest.raises(ValueError, match="learner has costs of its hypotheses, which AdaBoost"):
        jboost.adaboost.fit(DATASET, learners.pool(costs=COSTS), max_rounds=2)
    with pytest.raises(ValueError, match="learner has costs of its hypotheses, which AdaBoost"):
        jboost.adaboost.fit(DATASET, learners.signs(learners.pool(costs=COSTS)), max_rounds=2)
