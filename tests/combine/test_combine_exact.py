"""The strategy "exact" by branch and cut against HiGHS, brute force over subsets, and the sweeps in
the plane and in space.
"""

import time
from fractions import Fraction

import jax
import numpy as np
import pytest

import jboost
from jboost.base.status import Status
from jboost.combine import exact, strategies
from oracles import combine as oracle

SIZE, NUM_CLASSIFIERS = 24, 4


def go_on(state, info):
    """Watches, so that branch and cut runs for any number of classifiers."""
    del state, info


def make_case(seed, size=SIZE, num_classifiers=NUM_CLASSIFIERS):
    """Scores, labels, weights and mask. Even seeds have integer scores, with many ties, duplicates
    and degenerate subsets. Rows that are masked out hold garbage.
    """
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(size, num_classifiers))
    if seed % 2 == 0:
        scores = rng.integers(-2, 3, (size, num_classifiers)).astype(float)
        scores[size // 2 : size // 2 + 4] = scores[:4]
    labels = np.where(scores[:, 0] + 1.5 * rng.normal(size=size) > 0.3, 1.0, -1.0)
    weights = rng.integers(1, 4, size).astype(float) if seed % 3 else np.ones(size)
    mask = rng.random(size) < 0.9
    scores[~mask], labels[~mask], weights[~mask] = np.nan, 7, -1
    weights[np.flatnonzero(mask)[0]] = 0
    return scores.astype(np.float32), labels, weights, mask


def make_noisy_case():
    """Labels without a relation to the scores, for which the search takes several batches."""
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(64, NUM_CLASSIFIERS)).astype(np.float32)
    return scores, rng.choice([-1.0, 1.0], 64), np.ones(64), np.ones(64, bool)


def live_part(scores, labels, weights, mask):
    kept = mask & (weights > 0)
    return scores[kept].astype(float), labels[kept], weights[kept]


def check_optimum(vote, case):
    """That a vote is optimal, by its own numbers; its true loss by fractions."""
    scores, labels, weights, mask = case
    kept = mask & (weights > 0)
    assert Status(int(vote.status)) == Status.OPTIMAL
    assert vote.loss == vote.lower_bound
    wrong = oracle.wrong_examples(vote.coefficients, vote.offset, scores[kept], labels[kept])
    np.testing.assert_array_equal(np.asarray(vote.misclassified)[kept], wrong)
    assert not np.asarray(vote.misclassified)[~kept].any()
    assert float(oracle.exact_sum(weights[kept], wrong)) == vote.loss


def fit(case, **options):
    scores, labels, weights, mask = case
    return jboost.combine.fit(
        scores, labels, weights=weights, mask=mask, strategy="exact", **options
    )


@pytest.mark.parametrize("seed", range(6))
def test_exact_finds_the_optimum_of_highs_for_four_classifiers(seed):
    case = make_case(seed)
    vote = fit(case)
    check_optimum(vote, case)
    assert vote.loss == oracle.least_loss_by_milp(*live_part(*case))


def test_exact_by_branch_and_cut_of_one_classifier():
    labels = np.array([1, -1, 1, -1])
    vote = jboost.combine.fit(np.arange(4.0)[:, None], labels, strategy="exact", time_limit=100)
    assert (float(vote.loss), float(vote.lower_bound)) == (1, 1)
    assert Status(int(vote.status)) == Status.OPTIMAL
    assert vote.coefficients.shape == (1,)
    assert vote.certificate.members.shape == (4, 3)


@pytest.mark.parametrize("light", [1.5 * 2.0**-53, 2.0**-60, 0.3])
def test_bounds_of_a_batch_hold_whatever_the_rounding_of_the_weights(light):
    scores = np.repeat([[0.0], [1.0]], 2, axis=0) * np.ones((1, 4))
    weights = np.array([1, 1, light, light])
    infos = []
    with jax.enable_x64(True):
        jboost.combine.fit(
            scores,
            np.array([1, -1, 1, -1]),
            weights=weights,
            strategy="exact",
            on_step=lambda state, info: infos.append(info),
        )
    optimum = Fraction(1) + Fraction(light)
    assert infos
    for info in infos:
        assert Fraction(info.lower_bound) <= optimum <= Fraction(info.upper_bound)


@pytest.mark.slow
@pytest.mark.parametrize("num_classifiers", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_exact_by_branch_and_cut_agrees_with_the_sweeps(num_classifiers, seed):
    case = make_case(seed, num_classifiers=num_classifiers)
    vote = fit(case, on_step=go_on)
    check_optimum(vote, case)
    scores, labels, weights, mask = case
    separator = jboost.pair.optimal_separator(scores, labels, weights=weights, mask=mask)
    assert vote.loss == separator.loss == separator.lower_bound
    assert vote.margin <= separator.margin * (1 + 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("num_classifiers", [4, 6])
@pytest.mark.parametrize("seed", range(6))
def test_exact_finds_the_optimum_over_all_subsets(num_classifiers, seed):
    case = make_case(seed, size=9, num_classifiers=num_classifiers)
    case[1][case[3]] = np.random.default_rng(seed).choice([-1.0, 1.0], int(case[3].sum()))
    vote = fit(case)
    check_optimum(vote, case)
    assert float(vote.loss) == float(oracle.least_loss(*live_part(*case)))


@pytest.mark.slow
@pytest.mark.parametrize("num_classifiers", [5, 6, 7, 8])
def test_exact_finds_the_optimum_of_highs_for_up_to_eight_classifiers(num_classifiers):
    for seed in range(4):
        case = make_case(seed, size=32, num_classifiers=num_classifiers)
        case[1][case[3]] = np.random.default_rng(seed).choice([-1.0, 1.0], int(case[3].sum()))
        vote = fit(case)
        check_optimum(vote, case)
        assert vote.loss == oracle.least_loss_by_milp(*live_part(*case))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["line", "constant", "one class", "one site", "far"])
def test_exact_on_degenerate_scores(kind):
    rng = np.random.default_rng(3)
    scores = rng.integers(-2, 3, (SIZE, NUM_CLASSIFIERS)).astype(np.float32)
    labels = rng.choice([-1.0, 1.0], SIZE)
    if kind == "line":
        scores = np.arange(SIZE, dtype=np.float32)[:, None] * np.float32([1, -2, 3, 1])
    elif kind == "constant":
        scores[:, 1:] = 5
    elif kind == "one class":
        labels[:] = -1
    elif kind == "one site":
        scores[:] = 1
    else:
        scores = scores + np.float32(2.0**20)
    case = scores, labels, np.ones(SIZE), np.ones(SIZE, bool)
    vote = fit(case)
    check_optimum(vote, case)
    plain = scores.astype(float) - (2.0**20 if kind == "far" else 0)
    assert vote.loss == oracle.least_loss_by_milp(plain, labels, np.ones(SIZE))


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 2])
def test_exact_of_few_examples(size):
    vote = jboost.combine.fit(np.zeros((size, 4)), np.ones(size), strategy="exact")
    assert (float(vote.loss), float(vote.lower_bound)) == (0, 0)
    assert vote.misclassified.shape == (size,)
    opposite = np.where(np.arange(size) % 2, 1, -1)
    vote = jboost.combine.fit(np.zeros((size, 4)), opposite, strategy="exact")
    assert float(vote.loss) == float(vote.lower_bound) == size // 2


def test_exact_stopped_at_any_batch_has_valid_bounds_and_resumes_to_the_same_vote():
    case = make_noisy_case()
    states, infos = [], []

    def watch(state, info):
        states.append(state)
        infos.append(info)

    whole = fit(case, on_step=watch)
    optimum = float(whole.loss)
    assert len(states) > 2
    for info in infos:
        assert info.lower_bound <= optimum <= info.upper_bound
    bounds = [info.lower_bound for info in infos]
    assert bounds == sorted(bounds)
    for options, status in (
        ({"max_nodes": 1}, Status.ITERATION_LIMIT),
        ({"time_limit": 0}, Status.TIME_LIMIT),
        ({"on_step": lambda state, info: False}, Status.TIME_LIMIT),
    ):
        stopped = fit(case, **options)
        assert Status(int(stopped.status)) == status
        assert stopped.certificate.lower_bound <= stopped.lower_bound <= optimum <= stopped.loss
        assert stopped.lower_bound < stopped.loss
    after_two = fit(case, initial=states[1], max_nodes=1)
    assert Status(int(after_two.status)) == Status.ITERATION_LIMIT
    assert after_two.lower_bound >= infos[1].lower_bound
    resumed = fit(case, initial=states[1])
    jax.tree.map(np.testing.assert_array_equal, whole, resumed)


def test_exact_with_scores_that_are_not_finite():
    scores, labels, weights, mask = make_case(1)
    scores[np.flatnonzero(mask)[1], 2] = np.nan
    vote = fit((scores, labels, weights, mask))
    assert Status(int(vote.status)) == Status.INVALID_INPUT
    assert np.isnan([vote.loss, vote.lower_bound, vote.certificate.lower_bound]).all()


@pytest.mark.slow
def test_exact_in_float64_keeps_a_gap_that_float32_cannot(x64):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(SIZE, NUM_CLASSIFIERS)) * 1e-3 + 1e3
    labels = np.where(rng.random(SIZE) < 0.5, 1.0, -1.0)
    case = scores, labels, np.ones(SIZE), np.ones(SIZE, bool)
    vote = fit(case)
    assert vote.coefficients.dtype == np.float64
    check_optimum(vote, case)
    assert vote.loss == oracle.least_loss_by_milp((scores - 1e3) * 1e3, labels, np.ones(SIZE))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": -1}, "time_limit is -1"),
        ({"max_nodes": 0}, "max_nodes is 0"),
        ({"on_step": 3}, "on_step"),
        ({"initial": 3}, "initial is a int: expected a jboost.combine.ExactState"),
        ({"strategy": "greedy", "time_limit": 1}, "time_limit is given, and strategy is 'greedy'"),
        ({"strategy": "greedy", "max_nodes": 9}, "max_nodes is given, and strategy is 'greedy'"),
    ],
)
def test_bad_options_of_branch_and_cut_are_named(options, message):
    case = make_case(1)
    with pytest.raises(ValueError, match=message):
        jboost.combine.fit(
            case[0], case[1], weights=case[2], mask=case[3], **{"strategy": "exact", **options}
        )


def test_time_limit_counts_from_the_call_with_the_stacking_votes(monkeypatch):
    called = []
    monkeypatch.setattr(
        strategies,
        "_stacked",
        lambda *args: [called.append(time.monotonic()), np.zeros((2, NUM_CLASSIFIERS))][1],
    )
    monkeypatch.setattr(exact, "fit", lambda *args, end, **options: end)
    assert fit(make_case(1), time_limit=0.0) <= called[0]


@pytest.mark.slow
def test_max_nodes_selects_branch_and_cut_for_two_classifiers():
    case = make_case(1, num_classifiers=2)
    check_optimum(fit(case, max_nodes=10_000), case)
    with pytest.raises(ValueError, match="max_nodes is given and strategy is 'exact'"):
        jax.jit(lambda s: jboost.combine.fit(s, np.ones(SIZE), strategy="exact", max_nodes=5))(
            case[0]
        )


@pytest.mark.parametrize(
    ("strategy", "num_classifiers", "options", "expected"),
    [
        ("exact", 3, {}, False),
        ("exact", 4, {}, True),
        ("exact", 2, {"time_limit": 0.0}, True),
        ("exact", 2, {"time_limit": None, "max_nodes": 3}, True),
        ("greedy", 9, {}, False),
    ],
)
def test_is_driven_by_host(strategy, num_classifiers, options, expected):
    assert strategies.is_driven_by_host(strategy, num_classifiers, **options) == expected


def test_a_state_of_other_data_is_refused():
    states = []
    fit(make_case(7), on_step=lambda state, info: states.append(state), max_nodes=1)
    with pytest.raises(
        ValueError, match="initial is the state of a search of other scores, labels"
    ):
        fit(make_case(9), initial=states[0])


def test_branch_and_cut_refuses_traced_scores():
    case = make_case(1)
    with pytest.raises(ValueError, match="scores has 4 classifiers and strategy is 'exact'"):
        jax.jit(lambda scores: jboost.combine.fit(scores, np.ones(SIZE), strategy="exact"))(case[0])
