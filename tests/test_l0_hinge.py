"""The vote of least hinge loss over the columns that a relaxation selects, against HiGHS."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import jboost
from jboost.l0 import hinge, integer

NUM_EXAMPLES, NUM_COLUMNS, COUNT = 24, 9, 60
CONSTANTS = (0, 1)
AHEAD = 1.001  # of the margin
ROUNDING = {np.float32: 3e-6, np.float64: 2e-6}  # the tolerance of the program included


def make_pools(seed, dtype):
    """(margins [n, m], weights [m], costs [n], is_column [n], margin [], selected [n]), stacked; constants first."""
    rng = np.random.default_rng(seed)
    outputs = rng.choice([-1, 0, 1], (COUNT, NUM_COLUMNS, NUM_EXAMPLES))
    outputs[:, 0], outputs[:, 1] = 1, -1
    labels = rng.choice([-1, 1], (COUNT, 1, NUM_EXAMPLES))
    labels[::7] = 1
    outputs[3::5, 4] = outputs[3::5, 3]
    outputs[5::9, 5] = labels[5::9, 0]  # one column is right everywhere
    weights = rng.integers(0, 4, (COUNT, NUM_EXAMPLES)) * rng.choice([1, 1, 1, 0], (COUNT, NUM_EXAMPLES))
    weights[11] = 0
    is_column = rng.random((COUNT, NUM_COLUMNS)) < 0.9
    is_column[:, :2] = True
    selected = rng.choice([0, 1e-6, 0.3, 1], (COUNT, NUM_COLUMNS))
    selected[13] = 0
    costs, margins = rng.choice([0, 0.5, 1.7], (COUNT, NUM_COLUMNS)), rng.choice([0.05, 0.2, 0.5, 1.0], COUNT)
    return tuple(np.asarray(part, bool if part.dtype == bool else dtype) for part in (outputs * labels, weights, costs, is_column, margins, selected))


def find_all(pools, spare):
    def find(margins, weights, costs, is_column, margin, selected):
        instance = integer.Instance(margins, weights, costs, is_column, margin)
        return hinge.find(instance, selected, config=jboost.l0.HingeConfig(spare=spare), companions=CONSTANTS)

    return jax.device_get(jax.jit(jax.vmap(find))(*pools))


def least_hinge_loss(margins, weights, margin):
    """Over votes for the rows of margins [n, m], by HiGHS."""
    num_columns, num_examples = margins.shape
    return optimize.linprog(
        np.concatenate([np.zeros(num_columns), weights]),
        A_ub=-np.concatenate([margins.T, np.eye(num_examples)], axis=1),
        b_ub=np.full(num_examples, -margin),
        A_eq=np.concatenate([np.ones(num_columns), np.zeros(num_examples)])[None],
        b_eq=[1],
    ).fun


@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_votes_have_the_least_hinge_loss_and_few_columns(x64):
    with jax.enable_x64(x64):
        dtype = np.float64 if x64 else np.float32
        pools = make_pools(0, dtype)
        precise, sparse = find_all(pools, 0.0), find_all(pools, 0.4)
        for index, (margins, weights, costs, is_column, margin, selected) in enumerate(zip(*pools, strict=True)):
            allowed = is_column & ((selected > 0.1) | (np.arange(NUM_COLUMNS) < 2))
            shares = weights.astype(float) / max(weights.sum(), 1)
            wanted = AHEAD * float(margin)
            best = least_hinge_loss(margins[allowed].astype(float), shares, wanted)
            for found, spare in ((precise, 0.0), (sparse, 0.4)):
                votes = found.coefficients[index].astype(float)
                assert votes.sum() == 1, index
                assert (votes >= 0).all(), index
                assert (votes[~allowed] == 0).all(), index
                loss = np.sum(shares * np.maximum(wanted - votes @ margins, 0))
                assert loss <= best + spare * max(best, wanted * shares.max()) + ROUNDING[dtype], (index, spare, loss, best)
                exact = [sum(Fraction(vote) * int(entry) for vote, entry in zip(votes, row, strict=True)) for row in margins.T]
                errors = sum(int(weight) for weight, reached in zip(weights, exact, strict=True) if reached < Fraction(float(margin)))
                assert found.loss[index] == pytest.approx(errors + costs[votes > 0].sum(), rel=1e-5), index
            rules = [(found.coefficients[index][2:] > 0).sum() for found in (precise, sparse)]
            assert rules[1] <= rules[0], index
        assert (sparse.coefficients[:, 2:] > 0).sum() < (precise.coefficients[:, 2:] > 0).sum()


@pytest.mark.slow
def test_a_fit_may_end_in_the_vote_of_least_hinge_loss():
    rng = np.random.default_rng(3)
    features = rng.integers(0, 2, (2, 40, 6)).astype(np.float32)
    scores = features @ np.array([3, 2, 2, -2, -1, 0]) - 2 + rng.normal(0, 1.5, (2, 40))
    labels = np.where(scores > 0, 1.0, -1.0).astype(np.float32)

    def fit(features, labels, search):
        dataset = jboost.make_dataset(features, labels)
        return jboost.l0.fit(dataset, jboost.learners.monomials(1, kappa=0.1, num_proposed=4), margin=0.2, max_rounds=10, search=search)

    fits = {name: jax.jit(jax.vmap(lambda x, y, how=how: fit(x, y, how)))(features, labels) for name, how in CONFIGS.items()}
    for name, found in fits.items():
        margins = labels * jax.vmap(jboost.predict_scores)(found.ensemble, features)
        cost = jboost.monomials.costs.mdl(0.1)(jnp.array(1), 6, 40, 1)
        rules = (found.ensemble.votes[:, :, 0] > 0).sum(axis=1)
        attained = (margins < 0.2 - 1e-6).sum(axis=1) + rules * cost
        np.testing.assert_allclose(attained, found.certificate.integer_upper_bound, rtol=1e-5, err_msg=name)
        assert (found.certificate.integer_lower_bound <= found.certificate.integer_upper_bound).all(), name
        np.testing.assert_allclose(found.certificate.lower_bound, fits["sparse"].certificate.lower_bound, err_msg=name)
    losses = {
        name: np.maximum(0.2 - labels * jax.vmap(jboost.predict_scores)(found.ensemble, features), 0).sum(axis=1) for name, found in fits.items()
    }
    assert (losses["hinge"] < losses["sparse"]).all()


CONFIGS = {"sparse": jboost.l0.SearchConfig(), "hinge": jboost.l0.HingeConfig()}


@pytest.mark.parametrize("arguments", [{"spare": -0.1}, {"spare": float("nan")}, {"spare": jnp.array(0.1)}, {"spare": "few"}, {"max_iterations": 0}])
def test_bad_configs_are_named(arguments):
    with pytest.raises(ValueError, match=f"config.{next(iter(arguments))}"):
        jboost.l0.HingeConfig(**arguments)


def test_what_is_no_config_is_named():
    dataset = jboost.make_dataset([[1.0], [0.0]], [1, -1])
    with pytest.raises(ValueError, match=r"search is a str: .*HingeConfig"):
        jboost.l0.fit(dataset, jboost.learners.monomials(1), margin=0.5, search="hinge")
