"""The relaxation in the result of `l0.fit`, and the vote that is its solution, against HiGHS and
rational arithmetic over the columns that the fit holds.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import l0
from jboost.base.status import Status
from jboost.l0 import booster
from oracles import l0 as oracle

NUM_EXAMPLES, MARGIN, TOLERANCE, MAX_COLUMNS = 16, 0.25, 1e-3, 40
RNG = np.random.default_rng(4)
FEATURES = (RNG.random((4, NUM_EXAMPLES, 4)) < 0.5).astype(np.float32)
LABELS = np.where((FEATURES[:, :, 0] > FEATURES[:, :, 1]) | (RNG.random((4, 16)) < 0.3), 1, -1)
LABELS[2] = 1  # one class
FEATURES[3, 8:], LABELS[3, 8:] = FEATURES[3, :8], -LABELS[3, :8]  # no two classes apart
LEARNER = jboost.learners.monomials(2, kappa=0.1, num_proposed=4)
OPTIONS = {"margin": MARGIN, "tolerance": TOLERANCE, "max_rounds": 24, "max_columns": MAX_COLUMNS}


@functools.cache
def fits():
    def fit(problem):
        dataset = jboost.make_dataset(*problem)
        return l0.fit(dataset, LEARNER, search=l0.CoefficientsConfig(), **OPTIONS)

    found = jax.jit(lambda *problems: jax.lax.map(fit, problems))(
        jnp.asarray(FEATURES), jnp.asarray(LABELS)
    )
    return jax.tree.map(np.asarray, found)


def fit_of(index):
    return jax.tree.map(lambda leaf: leaf[index], fits())


def columns_of(fitted, features):
    """The outputs [m, 2 + capacity] and costs of the constants and of the slots."""
    literals, signs = (np.asarray(leaf) for leaf in fitted.ensemble.hypotheses)
    holds = (literals[None] == 0) | ((features[:, None, :] > 0) == (literals[None] > 0))
    outputs = np.where(holds.all(axis=2), signs, 0)
    ones = np.ones((len(features), 1), int)
    orders = np.count_nonzero(literals, axis=1)
    by_order = np.r_[0, LEARNER.cost(jnp.arange(1, 3), 4, NUM_EXAMPLES, 2)]
    return np.hstack([ones, -ones, outputs]), np.r_[0, 0, by_order[orders]].astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(4))
def test_relaxation_of_a_fit_is_solved_over_its_columns(index):
    fitted, features, labels = fit_of(index), FEATURES[index], LABELS[index]
    relaxation = fitted.relaxation
    outputs, costs = columns_of(fitted, features)
    is_used = np.arange(outputs.shape[1]) < 2 + fitted.ensemble.count
    assert (relaxation.coefficients[~is_used] == 0).all()
    held = outputs[:, is_used]
    point = (relaxation.coefficients[is_used], relaxation.selected[is_used], relaxation.slacks)
    cost = costs[is_used]
    value = oracle.attained(held, labels, cost, np.float32(MARGIN), np.ones(16), *point)
    assert value <= relaxation.upper_bound
    optimum = oracle.optimum(held, labels, cost, MARGIN)
    assert optimum <= float(relaxation.upper_bound) + 1e-5
    assert float(relaxation.upper_bound) <= optimum * (1 + 2 * TOLERANCE) + 2 * TOLERANCE
    assert float(relaxation.lower_bound) >= float(fitted.certificate.lower_bound) - 1e-2
    assert relaxation.upper_bound >= fitted.certificate.upper_bound
    assert (relaxation.example_weights >= 0).all()
    assert (relaxation.pair_weights >= 0).all()
    assert relaxation.warm.pairs.shape == relaxation.pairs.shape


@pytest.mark.slow
@pytest.mark.parametrize("index", range(4))
def test_coefficients_of_the_relaxation_are_the_vote(index):
    fitted = fit_of(index)
    assert fitted.status == Status.OPTIMAL
    unit = np.finfo(np.float32).eps
    coefficients = fitted.relaxation.coefficients
    np.testing.assert_allclose(fitted.ensemble.votes[:, 0], coefficients[2:], atol=unit)
    np.testing.assert_allclose(
        fitted.ensemble.constant, coefficients[0] - coefficients[1], atol=2 * unit
    )
    outputs, costs = columns_of(fitted, FEATURES[index])
    margins = LABELS[index] * (outputs @ coefficients.astype(np.float64))
    support = (coefficients > 0) & (coefficients >= unit)
    least = (margins < MARGIN - 1e-6).sum() + costs[support].sum()
    assert fitted.certificate.integer_upper_bound >= least - 1e-4


@pytest.mark.slow
def test_vote_of_a_relaxation_that_was_not_solved_has_a_status_of_its_own():
    dataset = jboost.make_dataset(FEATURES[0], LABELS[0])
    state = l0.init(dataset, LEARNER, search=l0.CoefficientsConfig(), **OPTIONS)
    fitted = l0.finish(state, dataset)
    assert fitted.status == Status.UNSOLVED_RELAXATION
    assert fitted.relaxation.status == Status.UNFINISHED
    assert fitted.relaxation.upper_bound == np.inf
    assert np.isfinite(jboost.predict_scores(fitted.ensemble, FEATURES[0])).all()
    text = jboost.status.explain(fitted.status)
    assert "the solution of the relaxation, and there is none" in text
    assert "max_columns" in text


def test_relaxation_is_not_solved_where_a_used_column_was_overwritten():
    cold = jboost.l0.relaxation.cold(4, 5, l0.RelaxationConfig(capacity=8))
    solved = booster._not_solved(cold)._replace(
        coefficients=jnp.array([0.5, 0.0, 0.5, 0.0, 0.0]),
        selected=jnp.array([0.5, 0.0, 0.5, 0.1, 0.0]),
        upper_bound=jnp.asarray(1.0),
        status=jnp.asarray(0, jnp.int32),
    )
    for slots, is_solved in (([4, 5, 9], True), ([1], True), ([3], False), ([4, 2], False)):
        kept = booster._without_columns(solved, jnp.array(slots))
        assert bool(np.isfinite(kept.upper_bound)) == is_solved
        assert (kept.status == Status.OPTIMAL) == is_solved
        inside = [slot for slot in slots if slot < 5]
        assert (kept.coefficients[jnp.array(inside)] == 0).all()
