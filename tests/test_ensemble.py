"""Scores of ensembles: exact sums that do not depend on the batch or on the order."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import ensemble, learners
from jboost.ensemble import Ensemble
from jboost.learners import Column, Stump

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def make_stumps(votes, constant, dtype, seed=0):
    """Stumps on five columns; the second half of the slots abstains on one side."""
    rng = np.random.default_rng(seed)
    size = len(votes)
    right = rng.choice([-1.0, 1.0], size)
    left = np.where(np.arange(size) < size // 2, -right, 0.0)
    fields = (rng.integers(0, 5, size), rng.normal(size=size), left, right)
    return Ensemble(
        learners.stumps(abstain=True),
        Stump(jnp.asarray(fields[0], jnp.int32), *(jnp.asarray(one, dtype) for one in fields[1:])),
        jnp.asarray(votes, dtype),
        jnp.asarray(constant, dtype),
        jnp.int32(size),
    )


def wide_votes(size, seed=1):
    """Votes of both signs over nine powers of ten."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, 2)) * 10.0 ** rng.integers(-9, 1, (size, 1))


def rows_of(num_rows, dtype, seed=2):
    return np.random.default_rng(seed).normal(size=(num_rows, 5)).astype(dtype)


@pytest.mark.slow
@DTYPES
def test_scores_do_not_depend_on_the_batch_or_the_order(dtype, monkeypatch):
    with jax.enable_x64(dtype == "float64"):
        model, rows = make_stumps(wide_votes(40), 0.1, dtype), rows_of(300, dtype)
        expected = np.asarray(jboost.predict_scores(model, rows))
        parts = [jboost.predict_scores(model, part) for part in np.split(rows, [1, 4, 200])]
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        order = np.random.default_rng(3).permutation(40)
        turned = model._replace(
            hypotheses=jax.tree.map(lambda leaf: leaf[order], model.hypotheses),
            votes=model.votes[order],
        )
        np.testing.assert_array_equal(jboost.predict_scores(turned, rows), expected)
        monkeypatch.setattr(ensemble, "_OUTPUTS_AT_ONCE", 900)  # blocks of three
        jax.clear_caches()
        np.testing.assert_array_equal(jboost.predict_scores(model, rows), expected)
        jax.clear_caches()


@DTYPES
def test_scores_are_the_exact_sums_of_votes_in_units(dtype):
    with jax.enable_x64(dtype == "float64"):
        model, rows = make_stumps(wide_votes(40), 0.1, dtype), rows_of(50, dtype)
        found = np.asarray(jboost.predict_scores(model, rows))
        outputs = np.asarray(ensemble.outputs(model, rows), float)
    unit = ensemble.vote_unit(model.votes, model.constant)
    votes = ensemble.votes_in_units(model.votes, unit)
    constant = float(ensemble.votes_in_units(model.constant, unit))
    for column, score in zip(outputs.T, found, strict=True):
        side = np.where(column > 0, votes[:, 0], votes[:, 1])
        exact = Fraction(constant) + sum(map(Fraction, (side * column).tolist()))
        assert score == np.dtype(dtype).type(float(exact))
        assert float(exact) == exact


@pytest.mark.slow
@DTYPES
def test_outputs_that_are_no_signs_are_rounded_to_units(dtype):
    rng = np.random.default_rng(4)
    with jax.enable_x64(dtype == "float64"):
        model = Ensemble(
            learners.pool(),
            Column(jnp.arange(12, dtype=jnp.int32), jnp.ones(12, jnp.int8)),
            jnp.asarray(rng.normal(size=(12, 2)), dtype),
            jnp.asarray(0.0, dtype),
            jnp.int32(12),
        )
        rows = rng.uniform(-1, 1, (60, 12)).astype(dtype)
        found = np.asarray(jboost.predict_scores(model, rows))
        parts = [jboost.predict_scores(model, part) for part in np.split(rows, [1, 7])]
        np.testing.assert_array_equal(np.concatenate(parts), found)
        # with the model as a constant of the program XLA knows the unit and may simplify with it
        closed = jax.jit(lambda rows: jboost.predict_scores(model, rows))(rows)
        np.testing.assert_array_equal(closed, found)
    unit = ensemble.vote_unit(model.votes, 0.0)
    votes = ensemble.votes_in_units(model.votes, unit)
    terms = rows.astype(float) * np.where(rows > 0, votes[:, 0], votes[:, 1])
    exact = (np.round(terms / unit) * unit).sum(axis=1)
    np.testing.assert_array_equal(found, exact.astype(dtype))


@pytest.mark.slow
@DTYPES
def test_units_of_traced_votes_are_those_of_the_host(dtype):
    for scale in (1.0, 2.0**-60, 3e30):
        for size in (0, 1, 3, 4, 31):
            with jax.enable_x64(dtype == "float64"):
                votes = jnp.asarray(wide_votes(size).reshape(-1, 2) * scale, dtype)
                votes = votes.at[2:3, 0].set(jnp.inf) if size > 2 else votes
                constant = jnp.asarray(0.1 * scale, dtype)
            with jax.enable_x64(True):
                unit = float(ensemble._unit_of(votes, constant))
                rounded = ensemble._in_units(votes, jnp.asarray(unit))
            assert unit == ensemble.vote_unit(votes, constant)
            expected = ensemble.votes_in_units(votes, unit)
            np.testing.assert_array_equal(rounded, np.where(np.isinf(expected), 0.0, expected))


def test_no_vote_vanishes_beside_a_large_one():
    model = make_stumps([[1.0, 1.0], [1e-30, 1e-30]], 0.0, "float32")
    stumps = Stump(jnp.zeros(2, jnp.int32), jnp.zeros(2), jnp.array([0.0, -1.0]), jnp.ones(2))
    model = model._replace(hypotheses=stumps)
    found = jboost.predict_scores(model, jnp.array([[-1.0], [1.0]]))
    assert found[0] < 0 < found[1]
    tiny = model._replace(votes=jnp.full((2, 2), 1e-37))
    assert jboost.predict(tiny, jnp.array([[-1.0], [1.0]])).tolist() == [-1, 1]


def test_first_infinite_vote_decides_and_invalid_fits_give_nan():
    votes = np.ones((4, 2))
    votes[1, 0], votes[2, 0] = np.inf, np.inf
    model = make_stumps(votes, 0.5, "float32")
    stumps = Stump(
        jnp.zeros(4, jnp.int32),
        jnp.array([0.0, 1.0, 2.0, 3.0]),
        -jnp.ones(4),
        jnp.array([1.0, 1.0, 1.0, 1.0]),
    )
    model = model._replace(hypotheses=stumps)
    found = jboost.predict_scores(model, jnp.array([[0.5], [1.5], [2.5]]))
    assert found.tolist() == [1.0 - 3.0 + 0.5, np.inf, np.inf]
    invalid = model._replace(constant=jnp.asarray(jnp.nan))
    assert np.isnan(jboost.predict_scores(invalid, jnp.array([[0.5], [1.5]]))).all()


@pytest.mark.slow
@DTYPES
def test_derivative_in_the_votes_is_the_output(dtype):
    with jax.enable_x64(dtype == "float64"):
        model, rows = make_stumps(wide_votes(6), 0.1, dtype), rows_of(9, dtype)

        def total(votes):
            return jboost.predict_scores(model._replace(votes=votes), rows)

        outputs = np.asarray(ensemble.outputs(model, rows))
        expected = np.stack([np.maximum(outputs, 0), np.minimum(outputs, 0)], axis=2)
        for derivative in (jax.jacrev(total), jax.jacfwd(total)):
            found = derivative(model.votes)
            np.testing.assert_array_equal(found, expected.transpose(1, 0, 2))
        decided = model._replace(votes=model.votes.at[0].set(jnp.inf))
        slope = jax.jacrev(lambda c: jboost.predict_scores(decided._replace(constant=c), rows))
        scores = np.asarray(jboost.predict_scores(decided, rows))
        np.testing.assert_array_equal(slope(model.constant), np.isfinite(scores))


@pytest.mark.slow
def test_scores_under_vmap_are_those_of_each_model():
    rows = rows_of(20, "float32")
    models = [make_stumps(wide_votes(5, seed), 0.1, "float32", seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    found = jax.vmap(jboost.predict_scores, (0, None))(stacked, rows)
    for model, scores in zip(models, found, strict=True):
        np.testing.assert_array_equal(jboost.predict_scores(model, rows), scores)


def test_an_infinite_constant_decides_after_infinite_votes():
    rows = np.ones((2, 5), np.float32)
    for constant in (np.inf, -np.inf):
        model = make_stumps([[0.5, 0.5], [0.25, 0.25]], constant, "float32")
        assert ensemble.vote_unit(model.votes, constant) == ensemble.vote_unit(model.votes, 0.0)
        assert jboost.predict_scores(model, rows).tolist() == [constant] * 2
    model = make_stumps([[np.inf, np.inf], [0.25, 0.25]], np.inf, "float32")
    found = np.asarray(ensemble.outputs(model, rows))[0]
    assert (jboost.predict_scores(model, rows) == found * np.inf).all()
