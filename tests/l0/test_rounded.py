"""The vote of a relaxation told by few of its hypotheses, against least squares by SciPy and a
greedy one in NumPy.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import jboost
from jboost.l0.votes import local_search, rounded

NUM_EXAMPLES, NUM_COLUMNS, COUNT = 26, 10, 80


def make_pools(seed, dtype):
    """(margins [n, m], weights [m], costs [n], is_column [n], margin [], lambda [n]), stacked;
    constants first.
    """
    rng = np.random.default_rng(seed)
    outputs = rng.choice([-1, 0, 1], (COUNT, NUM_COLUMNS, NUM_EXAMPLES))
    outputs[:, 0], outputs[:, 1] = 1, -1
    labels = rng.choice([-1, 1], (COUNT, 1, NUM_EXAMPLES))
    labels[::7] = 1
    outputs[3::5, 4] = outputs[3::5, 3]  # twice the same
    outputs[4::5, 6] = -outputs[4::5, 5]
    outputs[5::9, 7] = 1  # a constant
    weights = rng.integers(0, 4, (COUNT, NUM_EXAMPLES)) * rng.choice(
        [1, 1, 1, 0], (COUNT, NUM_EXAMPLES)
    )
    weights[11] = 0
    is_column = rng.random((COUNT, NUM_COLUMNS)) < 0.9
    is_column[:, :2] = True
    is_column[17, 2:] = False
    votes = (
        rng.dirichlet(np.ones(NUM_COLUMNS), COUNT)
        * is_column
        * (rng.random((COUNT, NUM_COLUMNS)) < 0.8)
    )
    votes[:, 0] += 1e-3
    votes[19, 2:] = 0
    votes /= votes.sum(axis=1, keepdims=True)
    costs, margins = (
        rng.choice([0, 0.5, 1.7], (COUNT, NUM_COLUMNS)),
        rng.choice([0.05, 0.2, 0.5, 1.0], COUNT),
    )
    return tuple(
        np.asarray(part, bool if part.dtype == bool else dtype)
        for part in (outputs * labels, weights, costs, is_column, margins, votes)
    )


def find_all(pools, max_hypotheses):
    def find(margins, weights, costs, is_column, margin, votes):
        instance = local_search.VoteInstance(margins, weights, costs, is_column, margin)
        return rounded.find(instance, votes, config=jboost.l0.RelaxedConfig(max_hypotheses))

    return jax.device_get(jax.jit(jax.vmap(find))(*pools))


def missed(margins, weights, scores, votes):
    """What the best multiple of some votes [n] misses of scores [m], squared, with a constant of
    either sign.
    """
    design = np.stack([votes[2:] @ margins[2:], margins[0]], axis=1) * np.sqrt(weights)[:, None]
    sought = scores * np.sqrt(weights)
    return np.sum((sought - design @ np.linalg.lstsq(design, sought, rcond=None)[0]) ** 2)


def greedy(margins, weights, is_column, scores, size):
    """The residual square of Lawson and Hanson's method that stops at `size` hypotheses."""
    roots = np.sqrt(weights)
    one = margins[0] * roots
    sought = scores * roots

    def least(chosen):
        design = np.concatenate([np.stack([one, -one]), margins[2:][chosen] * roots])
        found, _ = optimize.nnls(design.T, sought)
        return found[2:], sought - found @ design

    chosen, rest = [], least([])[1]
    while len(chosen) < size:
        others = np.array(
            [index for index in np.flatnonzero(is_column[2:]) if index not in chosen], int
        )
        spread = margins[2:][others] * roots - np.outer(
            margins[2:][others] @ (weights * margins[0]) / max(weights.sum(), 1), one
        )
        norms = np.sqrt((spread**2).sum(axis=1))
        alike = np.where(norms > 1e-2, spread @ rest / np.maximum(norms, 1e-2), -np.inf)
        if not len(others) or alike.max() <= 2e-3 * np.linalg.norm(sought):
            break
        chosen.append(int(others[alike.argmax()]))
        votes, rest = least(chosen)
        chosen = [index for index, vote in zip(chosen, votes, strict=True) if vote > 1e-9]
    return rest @ rest


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_with_room_for_all_the_scores_are_those_of_the_relaxation(x64):
    with jax.enable_x64(x64):
        pools = make_pools(0, np.float64 if x64 else np.float32)
        found = find_all(pools, NUM_COLUMNS)
        for index, (margins, weights, _, is_column, _, votes) in enumerate(
            zip(*pools, strict=True)
        ):
            told = found.coefficients[index].astype(float)
            assert told.sum() == 1, index
            assert (told >= 0).all(), index
            assert (told[~is_column] == 0).all(), index
            scores = votes.astype(float) @ margins
            assert missed(margins.astype(float), weights.astype(float), scores, told) <= 1e-4 * max(
                weights @ scores**2, 1e-3
            ), index


@pytest.mark.slow
def test_few_come_as_near_as_a_greedy_choice():
    pools = make_pools(1, np.float32)
    for size in (1, 3):
        found = find_all(pools, size)
        for index, (margins, weights, costs, is_column, margin, votes) in enumerate(
            zip(*(part.astype(float) for part in pools), strict=True)
        ):
            told = found.coefficients[index].astype(float)
            assert (told[2:] > 0).sum() <= size, index
            scores = votes @ margins
            wanted = greedy(margins, weights, is_column > 0, scores, size)
            assert (
                missed(margins, weights, scores, told)
                <= wanted + 5e-3 * (weights @ scores**2) + 1e-6
            ), index
            errors = weights @ (told @ margins < margin - 1e-7)
            assert found.loss[index] == pytest.approx(errors + costs[told > 0].sum(), rel=1e-5), (
                index
            )


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 20])
def test_a_fit_may_end_in_the_vote_of_its_relaxation(size):
    rng = np.random.default_rng(3)
    features = rng.integers(0, 2, (60, 8)).astype(np.float32)
    labels = np.where(
        features @ np.array([3, 2, 2, -2, -1, 1, 0, 0]) - 2 + rng.normal(0, 1.5, 60) > 0, 1.0, -1.0
    )
    learner, search = (
        jboost.learners.monomials(1, kappa=0.1, num_proposed=4),
        jboost.l0.RelaxedConfig(size),
    )
    found = jboost.l0.fit(
        jboost.make_dataset(features, labels), learner, margin=0.2, max_rounds=10, search=search
    )
    num_used = int((found.ensemble.votes[:, 0] > 0).sum())
    assert 0 < num_used <= size
    assert num_used > 2 or size == 2
    margins = labels * np.asarray(jboost.predict_scores(found.ensemble, features))
    cost = jboost.monomials.costs.mdl(0.1)(jnp.array(1), 8, 60, 1)
    np.testing.assert_allclose(
        (margins < 0.2 - 1e-6).sum() + num_used * cost,
        found.certificate.integer_upper_bound,
        rtol=1e-5,
    )
    assert found.certificate.integer_lower_bound <= found.certificate.integer_upper_bound


@pytest.mark.parametrize("size", [0, -1, 2.5, "few"])
def test_bad_sizes_are_named(size):
    with pytest.raises(ValueError, match=r"config.max_hypotheses"):
        jboost.l0.RelaxedConfig(size)
