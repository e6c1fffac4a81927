"""What InfoBoost records of its rounds, the rounds that Theorem 2 needs, and the risk bound."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import infoboost, learners
from jboost.base.boosting import Trace

ROUNDS = 6
RNG = np.random.default_rng(5)
FEATURES = RNG.random((6, 30, 5)) < 0.5
LABELS = np.where(FEATURES[:, :, :3].sum(axis=2) + (RNG.random((6, 30)) < 0.2) >= 2, 1, -1)
LABELS[1] = 1  # one class
LABELS[2] = np.where(FEATURES[2, :, 0] | FEATURES[2, :, 1], 1, -1)  # one-sided literals
LABELS[3] = np.where(FEATURES[3, :, 4], 1, -1)  # a perfect literal


@jax.jit
def _fits(smoothing):
    def fit(features, labels):
        dataset = jboost.make_dataset(features, labels)
        return infoboost.fit(dataset, learners.literals(), max_rounds=ROUNDS, smoothing=smoothing)

    return jax.vmap(fit)(jnp.asarray(FEATURES), jnp.asarray(LABELS))


@functools.cache
def fits(smoothing):
    return jax.tree.map(np.asarray, _fits(smoothing))


def replay(features, labels, hypotheses, smoothing):
    """Tau, gamma and Z of each round, in NumPy, for the outputs that were chosen."""
    distribution = np.full(len(labels), 1 / len(labels))
    for outputs in hypotheses:
        cells = {
            (h, y): distribution[(outputs == h) & (labels == y)].sum()
            for h, y in itertools.product((1, -1), repeat=2)
        }
        error = cells[1, -1] + cells[-1, 1]
        wrong = (cells[1, -1], cells[-1, 1]) if error <= 0.5 else (cells[-1, -1], cells[1, 1])
        gamma = 0.5 - sum(wrong)
        tau = wrong[0] / sum(wrong) if sum(wrong) else 0.0
        votes = {}
        for h in (1, -1):
            right, against = cells[h, h] + smoothing, cells[h, -h] + smoothing
            votes[h] = (
                0.0
                if right == against == 0
                else math.copysign(math.inf, right - against)
                if 0 in (right, against)
                else math.log(right / against) / 2
            )
        cast = np.array([votes[h] for h in outputs]) * outputs * labels
        distribution = distribution * np.exp(-np.where(distribution > 0, cast, 0.0))
        normalizer = distribution.sum()
        yield tau, gamma, normalizer
        if normalizer > 0:
            distribution = distribution / normalizer


@pytest.mark.parametrize("smoothing", [0.0, 0.05])
def test_trace_has_tau_gamma_and_normaliser_of_each_round(smoothing):
    fitted = fits(smoothing)
    for index in range(len(FEATURES)):
        one = jax.tree.map(lambda leaf, index=index: leaf[index], fitted)
        count = int(one.ensemble.count)
        outputs = [
            np.where(FEATURES[index][:, place], sign, -sign)
            for place, sign in itertools.islice(_literals(one), count)
        ]
        expected = list(replay(FEATURES[index], LABELS[index], outputs, smoothing))
        found = zip(one.trace.taus, one.trace.gammas, one.trace.normalizers, strict=True)
        for seen, wanted in zip(found, expected, strict=False):
            np.testing.assert_allclose(seen, wanted, atol=2e-5)
        used = int(one.num_rounds)
        assert used >= count
        for column in one.trace:
            assert np.isfinite(column[:used]).all()
            assert (column[used:] == np.inf).all()
        product = one.trace.normalizers[:used].prod()
        np.testing.assert_allclose(product, one.certificate.upper_bound, rtol=1e-4, atol=1e-6)


def _literals(fitted):
    """The attribute and the sign of each slot."""
    vote = fitted.ensemble
    unit = np.eye(FEATURES.shape[2], dtype=np.float32)
    for slot in range(vote.votes.shape[0]):
        hypothesis = jax.tree.map(lambda leaf, slot=slot: leaf[slot], vote.hypotheses)
        outputs = np.asarray(vote.learner.outputs(hypothesis, unit))
        base = np.asarray(vote.learner.outputs(hypothesis, 0 * unit[:1]))[0]
        place = int(np.argmax(outputs != base))
        yield place, outputs[place]


def test_normaliser_is_at_most_that_of_the_proof_of_theorem_2():
    fitted = fits(0.0)
    for index in range(len(FEATURES)):
        trace = jax.tree.map(lambda leaf, index=index: leaf[index], fitted.trace)
        for t in range(1, int(fitted.num_rounds[index])):
            tau, gamma = float(trace.taus[t]), float(trace.gammas[t])
            share = tau + gamma * (1 - 2 * tau)
            assert trace.normalizers[t] <= math.exp(-(gamma**2) / (2 * share)) + 1e-5


def test_trace_of_other_boosters_has_four_fields_and_no_measures():
    def start(features):
        dataset = jboost.make_dataset(features, LABELS[0])
        return jboost.adaboost.init(dataset, learners.literals(), max_rounds=ROUNDS)

    state = jax.eval_shape(start, FEATURES[0])
    assert isinstance(state.trace, Trace)
    assert len(state.trace) == 4


def test_rounds_needed_is_the_number_that_the_rate_of_its_proof_gives():
    for tau, gamma, epsilon in itertools.product(
        (0.0, 0.05, 0.25, 0.5), (1e-3, 0.1, 0.37, 0.5), (0.9, 0.05, 1e-9)
    ):
        share = Fraction(tau) + Fraction(gamma) * (1 - 2 * Fraction(tau))
        rate = float(Fraction(gamma) ** 2 / (2 * share))  # -ln Z of a round
        rounds = infoboost.rounds_needed(tau, gamma, epsilon)
        assert math.exp(-rate * (rounds - 1)) <= epsilon * (1 + 1e-9)
        assert math.exp(-rate * (rounds - 2)) > epsilon * (1 - 1e-9)
    assert infoboost.rounds_needed(0.5, 0.5, 1) == 1
    assert isinstance(infoboost.rounds_needed(np.float32(0.1), jnp.float32(0.1), 0.1), int)


@pytest.mark.parametrize("gamma", [1e-30, 1e-200])
def test_rounds_needed_is_exact_where_floats_are_not(gamma):
    """A division by 0, as the square underflowed; 1 + 1e-9 is 1 in float32, and was taken."""
    rounds = infoboost.rounds_needed(0.5, gamma, 0.1)
    assert abs(Fraction(rounds) * Fraction(gamma) ** 2 / Fraction(math.log(10)) - 1) < 1e-12
    with pytest.raises(ValueError, match="epsilon is 1.0000000"):
        infoboost.rounds_needed(0.5, gamma, 1 + 1e-9)


def test_rounds_needed_grows_with_tau_and_falls_with_gamma():
    of_tau = [infoboost.rounds_needed(tau, 0.05, 0.01) for tau in np.linspace(0, 0.5, 11)]
    of_gamma = [infoboost.rounds_needed(0.2, gamma, 0.01) for gamma in np.linspace(0.01, 0.5, 11)]
    assert of_tau == sorted(of_tau)
    assert of_gamma == sorted(of_gamma, reverse=True)


@pytest.mark.parametrize(
    "given, text",
    [
        ((0.6, 0.1, 0.1), "tau is 0.6: expected a number from 0 up to 0.5"),
        ((0.1, 0.0, 0.1), "gamma is 0"),
        ((0.1, 0.6, 0.1), "gamma is 0.6"),
        ((0.1, 0.1, 0.0), "epsilon is 0"),
        ((0.1, 0.1, math.nan), "epsilon is nan"),
    ],
)
def test_rounds_needed_names_the_number_out_of_range(given, text):
    with pytest.raises(ValueError, match=text):
        infoboost.rounds_needed(*given)
    with pytest.raises(ValueError, match="gamma is traced, and rounds_needed runs on the host"):
        jax.eval_shape(lambda gamma: infoboost.rounds_needed(0.1, gamma, 0.1), 0.1)


def most_labellings(num_points, num_votes):
    """The labellings of points by intervals of the first bits and two votes each, by enumeration
    of a fine grid of votes.
    """
    stumps = [np.where(np.arange(num_points) >= cut, 1, -1) for cut in range(num_points + 1)]
    grid = (-9.0, -3.0, -1.0, -0.4, 0.4, 1.0, 3.0, 9.0)
    seen = set()
    for chosen in itertools.combinations(stumps, num_votes):
        for votes in itertools.product(grid, repeat=2 * num_votes):
            score = sum(
                np.where(h > 0, votes[2 * t], votes[2 * t + 1]) * h for t, h in enumerate(chosen)
            )
            seen.add(tuple(score > 0))
    return len(seen)


def test_risk_bound_counts_all_labellings_of_votes_of_stumps():
    for num_points, num_rounds in itertools.product((4, 6), (1, 2)):
        bound = infoboost.risk_bound(
            0.0,
            num_rounds=num_rounds,
            vc_dimension=1,
            num_examples=10**9 * num_points,
            delta=1.0,
        )
        assert 0 < bound < 1
        growth = num_rounds * infoboost._log_growth(num_points, 1) + infoboost._log_growth(
            num_points, num_rounds + 1
        )
        assert math.log(most_labellings(num_points, num_rounds)) <= growth


def test_risk_bound_formula_and_limits():
    m, rounds, dimension, delta = 10**6, 7, 4, 0.01
    growth = rounds * dimension * math.log(2 * math.e * m / dimension)
    growth += (rounds + 1) * math.log(2 * math.e * m / (rounds + 1))
    expected = 0.125 + math.sqrt(8 * (math.log(4 / delta) + growth) / m)
    options = {"vc_dimension": dimension, "delta": delta}
    found = infoboost.risk_bound(0.125, num_rounds=rounds, num_examples=m, **options)
    assert found == pytest.approx(expected, rel=1e-12)
    assert infoboost.risk_bound(0.0, num_rounds=1, num_examples=1, **options) == 1
    more = infoboost.risk_bound(0.125, num_rounds=2 * rounds, num_examples=m, **options)
    assert found < more < 0.125 + (found - 0.125) * math.sqrt(2) * 1.01


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"training_error": 1.5}, "training_error is 1.5"),
        ({"delta": 0.0}, "delta is 0"),
        ({"num_rounds": -1}, "num_rounds is -1"),
        ({"vc_dimension": 1.5}, "vc_dimension is 1.5"),
        ({"num_examples": 0}, "num_examples is 0"),
    ],
)
def test_risk_bound_names_the_number_out_of_range(changed, text):
    given = {
        "training_error": 0.1,
        "num_rounds": 3,
        "vc_dimension": 2,
        "num_examples": 10,
        "delta": 0.1,
    }
    with pytest.raises(ValueError, match=text):
        infoboost.risk_bound(**(given | changed))
