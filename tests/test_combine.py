"""Combinations of many classifiers against fractions, brute force over all hyperplanes,
scikit-learn, and their own promises.
"""

import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from batches import few_at_once
from benchmarks import combine as benchmark
from jboost.combine import LinearVote
from oracles import combine as oracle
from oracles.pair_space import optimal_space

SIZE, NUM_CLASSIFIERS, NUM_CASES = 12, 4, 88
KINDS = (
    "grid",
    "normal",
    "signs",
    "constant",
    "conflicts",
    "one class",
    "few",
    "repeated",
    "units",
    "invalid",
    "tiny",
)


def make_case(seed):
    """Scores, labels, weights, mask of one kind of problem; rows that are masked out
    hold garbage.
    """
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    labels = np.where(rng.random(SIZE) < 0.4, 1.0, -1.0)
    scores = rng.integers(-3, 4, (SIZE, NUM_CLASSIFIERS)).astype(float)
    weights = rng.integers(1, 5, SIZE).astype(float)
    num_live = SIZE
    if kind == "normal":
        scores = rng.normal(size=scores.shape) + labels[:, None] * rng.random(NUM_CLASSIFIERS)
        weights = rng.random(SIZE) + 0.1
    elif kind == "signs":
        scores = np.sign(scores + 0.5)
        weights = np.ones(SIZE)
    elif kind == "constant":
        scores[:, rng.integers(0, NUM_CLASSIFIERS, 2)] = rng.integers(-1, 2)
    elif kind == "conflicts":
        scores[SIZE // 2 :] = scores[: SIZE // 2]
    elif kind == "one class":
        labels[:] = rng.choice([-1, 1])
    elif kind == "few":
        num_live = int(rng.integers(0, 4))
    elif kind == "repeated":
        scores[:, 1], scores[:, 2] = scores[:, 0], -scores[:, 0]
    elif kind == "units":
        scores = rng.normal(size=scores.shape) * np.array([1e6, 1.0, 1e-6, 1e12])
    elif kind == "tiny":
        num_live = 7
    mask = np.arange(SIZE) < num_live
    scores[~mask], labels[~mask], weights[~mask] = np.nan, 7, -1
    if kind == "invalid":
        row = rng.integers(0, SIZE)
        (scores, labels[:, None], weights[:, None])[seed // len(KINDS) % 3][row] = np.nan
    return scores.astype(np.float32), labels.astype(np.float32), weights.astype(np.float32), mask


CASES = [make_case(seed) for seed in range(NUM_CASES)]
BATCH = tuple(np.stack(parts) for parts in zip(*CASES, strict=True))


def solve_all(run):
    """One compiled call over all cases."""

    def one(case):
        scores, labels, weights, mask = case
        return run(scores, labels, weights=weights, mask=mask)

    results = jax.device_get(jax.jit(lambda cases: few_at_once(one, cases))(BATCH))
    return [
        jax.tree.map(lambda leaf, index=index: leaf[index], results) for index in range(NUM_CASES)
    ]


def check_vote(vote, case):
    """Everything that is promised of any result for one case."""
    scores, labels, weights, mask = case
    live = [part[mask] for part in (scores, labels, weights)]
    if not all(np.isfinite(part).all() for part in live):
        assert vote.status == jboost.status.Status.INVALID_INPUT
        assert np.isnan(
            [*vote.coefficients, vote.offset, vote.loss, vote.lower_bound, vote.margin]
        ).all()
        return
    scores, labels, weights = live
    wrong = oracle.wrong_examples(vote.coefficients, vote.offset, scores, labels)
    np.testing.assert_array_equal(vote.misclassified[mask], wrong)
    assert not vote.misclassified[~mask].any()
    np.testing.assert_allclose(float(vote.loss), float(oracle.exact_sum(weights, wrong)), rtol=1e-6)
    conflicts = oracle.conflict_loss(scores, labels, weights)
    assert float(conflicts) * (1 - 1e-6) <= vote.lower_bound <= vote.loss
    assert vote.certificate.lower_bound == vote.lower_bound
    recomputed = jboost.combine.recompute_bound(vote.certificate, *case[:2], **_named(case))
    np.testing.assert_allclose(float(recomputed), float(vote.lower_bound), rtol=1e-6)
    is_optimal = vote.status == jboost.status.Status.OPTIMAL
    assert is_optimal == (vote.loss == vote.lower_bound)
    assert is_optimal or vote.status == jboost.status.Status.LOCAL_OPTIMUM
    length = np.linalg.norm(vote.coefficients.astype(float))
    heights = np.abs(scores.astype(float) @ vote.coefficients.astype(float) + float(vote.offset))[
        ~wrong
    ]
    margin = heights.min() / length if length and len(heights) else np.inf
    np.testing.assert_allclose(float(vote.margin), margin, rtol=1e-5)


def _named(case):
    return {"weights": case[2], "mask": case[3]}


def is_valid(case):
    return all(np.isfinite(part[case[3]]).all() for part in case[:3])


@pytest.fixture(scope="module")
def beside():
    """The best classifier and stacking on all cases, and the coordinate moves: one program."""

    def run(scores, labels, *, weights, mask):
        arguments = {"weights": weights, "mask": mask}
        moves = jboost.combine.fit(scores, labels, strategy="coordinate", **arguments)
        return (
            jboost.combine.best_single(scores, labels, **arguments),
            jboost.combine.stacking(scores, labels, **arguments),
            moves,
        )

    return solve_all(run)


@pytest.fixture(scope="module")
def greedy():
    return solve_all(lambda *arrays, **more: jboost.combine.fit(*arrays, strategy="greedy", **more))


@pytest.mark.slow
def test_every_result_is_what_it_says(beside, greedy):
    for case, votes, paired in zip(CASES, beside, greedy, strict=True):
        for vote in (*votes, paired):
            check_vote(vote, case)


@pytest.mark.slow
def test_combinations_lose_no_more_than_the_best_classifier_and_stacking(beside, greedy):
    for case, (single, stacked, moves), paired in zip(CASES, beside, greedy, strict=True):
        if is_valid(case):
            assert moves.loss <= min(single.loss, stacked.loss)
            assert paired.loss <= min(single.loss, stacked.loss)


@pytest.mark.slow
def test_best_single_is_the_best_threshold_of_all(beside):
    for case, (single, _, _) in zip(CASES, beside, strict=True):
        if not is_valid(case):
            continue
        scores, labels, weights = (part[case[3]].astype(float) for part in case[:3])
        thresholds = [-np.inf, *np.unique(scores)]
        losses = [
            weights[np.where(sign * scores[:, axis] > sign * threshold, 1, -1) != labels].sum()
            for axis, threshold, sign in itertools.product(
                range(NUM_CLASSIFIERS), thresholds, (-1, 1)
            )
            if len(labels)
        ]
        np.testing.assert_allclose(float(single.loss), min(losses, default=0.0), rtol=1e-6)


@pytest.mark.slow
def test_bounds_hold_the_optimum(beside, greedy):
    checked = 0
    for seed, (case, (_, _, moves), paired) in enumerate(zip(CASES, beside, greedy, strict=True)):
        if KINDS[seed % len(KINDS)] in ("tiny", "few"):
            optimum = oracle.least_loss(*(part[case[3]].astype(float) for part in case[:3]))
            assert moves.lower_bound <= optimum <= min(moves.loss, paired.loss)
            checked += 1
    assert checked >= 2 * NUM_CASES // len(KINDS)


@pytest.mark.slow
def test_stacking_is_logistic_regression(beside):
    from sklearn.linear_model import LogisticRegression

    for seed, (case, (_, stacked, _)) in enumerate(zip(CASES, beside, strict=True)):
        if (
            KINDS[seed % len(KINDS)] not in ("normal", "grid", "repeated")
            or len(np.unique(case[1])) == 1
        ):
            continue
        scores, labels, weights, _ = (part.astype(float) for part in case)
        mean = np.average(scores, axis=0, weights=weights)
        deviation = np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=weights))
        model = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000)
        model.fit((scores - mean) / deviation, labels, sample_weight=weights / weights.mean())
        np.testing.assert_allclose(
            stacked.coefficients * deviation, model.coef_[0], rtol=2e-3, atol=2e-4
        )
        np.testing.assert_allclose(
            stacked.offset + mean @ stacked.coefficients, model.intercept_[0], rtol=2e-3, atol=2e-4
        )


@pytest.mark.slow
def test_predict_errs_on_the_examples_that_are_misclassified(beside):
    for case, (_, stacked, moves) in list(zip(CASES, beside, strict=True))[:3]:
        scores, labels, _, _ = case
        for vote in (stacked, moves):
            np.testing.assert_array_equal(
                np.asarray(jboost.predict(vote, scores)) != labels, vote.misclassified
            )


@pytest.mark.slow
def test_model_files_keep_every_bit(tmp_path, greedy):
    vote = jax.tree.map(jnp.asarray, greedy[0])
    jboost.files.save(vote, tmp_path / "vote.npz")
    again = jboost.files.load(tmp_path / "vote.npz")
    assert isinstance(again, LinearVote)
    jax.tree.map(np.testing.assert_array_equal, vote, again)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": np.zeros(3)}, "scores has shape"),
        ({"labels": np.ones(2)}, "labels has shape"),
        ({"weights": np.ones(2)}, "weights has shape"),
        ({"strategy": "best"}, "strategy is 'best'"),
        (
            {"scores": np.zeros((3, 9)), "strategy": "exact"},
            "strategy is 'exact', which takes at most 8 classifiers, and scores has 9",
        ),
        ({"with_stacking": 1}, "with_stacking is 1"),
        ({"max_sweeps": 0}, "max_sweeps is 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        jboost.combine.fit(**{"scores": np.zeros((3, 3)), "labels": np.ones(3), **arguments})


def test_benchmark_skips_what_is_absent_and_makes_its_table(tmp_path, capsys):
    assert (
        benchmark.main(["--data", str(tmp_path / "none"), "--output", str(tmp_path / "out")]) == 0
    )
    assert not (tmp_path / "out").exists()
    assert "nothing written" in capsys.readouterr().err
    split = {
        name: {"training": 3, "test": 4, "seconds": {"run_seconds": 0.5}}
        for name in benchmark.NAMES
    }
    table = benchmark.combine_table(
        {"records": [{"above_stacking": [], "data": "PIMA", "size": 768, "splits": [split, split]}]}
    )
    assert "| greedy | 3.0 / 4.0 | 0.5 to 0.5 |" in table


@pytest.mark.slow
def test_a_vote_refuses_other_numbers_of_classifiers(greedy):
    with pytest.raises(ValueError, match="features has shape"):
        jboost.predict(greedy[0], np.zeros((2, 3)))


# --- slow -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        lambda *arrays, **more: jboost.combine.fit(*arrays, strategy="hierarchical", **more),
        lambda *arrays, **more: jboost.combine.fit(
            *arrays, strategy="hierarchical", with_stacking=False, **more
        ),
        lambda *arrays, **more: jboost.combine.fit(
            *arrays, strategy="greedy", with_stacking=False, **more
        ),
        lambda *arrays, **more: jboost.combine.fit(
            *arrays, strategy="coordinate", with_stacking=False, **more
        ),
        lambda *arrays, **more: jboost.combine.random_pairing(
            *arrays, key=jax.random.key(1), **more
        ),
    ],
    ids=["hierarchical", "hierarchical alone", "greedy alone", "coordinate alone", "random"],
)
def test_other_strategies(run, beside, request):
    for case, (single, stacked, _), vote in zip(CASES, beside, solve_all(run), strict=True):
        check_vote(vote, case)
        if is_valid(case):
            assert vote.loss <= single.loss
            if request.node.callspec.id == "hierarchical":
                assert vote.loss <= stacked.loss


@pytest.mark.slow
def test_more_sweeps_never_lose_more(beside):
    short = solve_all(
        lambda *arrays, **more: jboost.combine.fit(
            *arrays, strategy="coordinate", max_sweeps=1, **more
        )
    )
    for case, once, (_, _, moves) in zip(CASES, short, beside, strict=True):
        check_vote(once, case)
        assert not is_valid(case) or moves.loss <= once.loss


@pytest.mark.slow
@pytest.mark.parametrize("num_classifiers", [0, 1, 2])
def test_up_to_two_classifiers_are_solved_exactly(num_classifiers):
    arrays = (BATCH[0][..., :num_classifiers], *BATCH[1:])
    votes = jax.device_get(
        jax.jit(jax.vmap(lambda s, y, w, m: jboost.combine.fit(s, y, weights=w, mask=m)))(*arrays)
    )
    for index, case in enumerate(CASES):
        if KINDS[index % len(KINDS)] in ("tiny", "few", "signs"):
            live = [part[index][case[3]].astype(float) for part in arrays[:3]]
            optimum = (
                float(oracle.least_loss(*(part[:8] for part in live)))
                if len(live[1]) <= 8
                else None
            )
            assert votes.status[index] == jboost.status.Status.OPTIMAL
            assert votes.loss[index] == votes.lower_bound[index]
            assert optimum is None or votes.loss[index] == optimum


@pytest.mark.slow
def test_three_classifiers_exactly():
    """One compiled call over sets on grids, against all splits by planes."""
    num_sets, size = 40, 9
    rng = np.random.default_rng(5)
    grids = rng.integers(-2, 3, (num_sets, size, 3)).astype(np.float32)
    labels = np.where(rng.random((num_sets, size)) < 0.5, 1, -1)
    weights = rng.integers(1, 4, (num_sets, size)).astype(np.float32)
    # units that are further apart than the sweeps of planes take, in every second set
    units = np.where(np.arange(num_sets)[:, None] % 2, np.float32([1, 2.0**20, 2.0**-20]), 1)
    scores = grids * units[:, None, :].astype(np.float32)
    votes = jax.device_get(
        jax.vmap(
            lambda *arrays: jboost.combine.fit(*arrays[:2], weights=arrays[2], strategy="exact")
        )(scores, labels, weights)
    )
    for index in range(num_sets):
        vote = jax.tree.map(lambda leaf, index=index: leaf[index], votes)
        assert (
            vote.loss
            == vote.lower_bound
            == optimal_space(grids[index], labels[index], weights[index]).loss
        )
        assert vote.status == jboost.status.Status.OPTIMAL
        wrong = oracle.wrong_examples(vote.coefficients, vote.offset, scores[index], labels[index])
        np.testing.assert_array_equal(vote.misclassified, wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size, strategy", [(0, "greedy"), (1, "hierarchical"), (2, "coordinate"), (3, "greedy")]
)
def test_few_examples_without_a_mask(size, strategy):
    scores = np.arange(size * 5, dtype=np.float32).reshape(size, 5) % 7
    labels = np.where(np.arange(size) % 2, 1, -1)
    vote = jboost.combine.fit(scores, labels, strategy=strategy)
    assert vote.loss == 0
    assert vote.status == jboost.status.Status.OPTIMAL
    assert vote.misclassified.shape == (size,)


@pytest.mark.slow
def test_float64_is_used_where_it_is_enabled(x64):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(40, 5)) + 1e9, np.where(rng.random(40) < 0.5, 1, -1)
    votes = [
        jboost.combine.fit(scores, labels, strategy=strategy)
        for strategy in ("greedy", "hierarchical", "coordinate")
    ]
    for vote in votes:
        assert vote.coefficients.dtype == np.float64
        wrong = oracle.wrong_examples(vote.coefficients, vote.offset, scores, labels)
        np.testing.assert_array_equal(vote.misclassified, wrong)
        assert vote.loss < min((labels > 0).sum(), (labels < 0).sum())


@pytest.mark.slow
def test_pairwise_boosting_never_loses_more():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(60, 4)).astype(np.float32)
    labels = np.where(features[:, 0] * features[:, 1] > 0.6, 1, -1)
    weights = rng.integers(1, 4, 60).astype(np.float32)
    mask = np.arange(60) < 57
    dataset = jboost.make_dataset(features, labels, weights=weights, mask=mask)
    fitted = jboost.combine.pairwise.fit(dataset, jboost.learners.stumps(), max_rounds=25)
    errors = np.asarray(fitted.trace.upper_bounds)[: int(fitted.num_rounds)]
    assert (np.diff(errors) <= 0).all()
    assert errors[-1] == fitted.certificate.upper_bound
    assert fitted.certificate.lower_bound == 0
    for vote, at_most in (
        (fitted, 1.0),
        (jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=25), np.inf),
    ):
        wrong = (np.asarray(jboost.predict(vote.ensemble, features)) != labels) & mask
        error = weights[wrong].sum() / weights[mask].sum()
        assert fitted.certificate.upper_bound <= error * (1 + 1e-6) + 1e-7
        assert at_most == np.inf or error <= fitted.certificate.upper_bound


@pytest.mark.slow
def test_pairwise_boosting_by_hand_and_over_data_sets():
    rng = np.random.default_rng(4)
    features = rng.integers(-4, 5, (3, 20, 3)).astype(np.float32)
    labels = np.where(features[..., 0] + features[..., 1] > features[..., 2], 1, -1)
    labels[2] = 1

    def run(features, labels):
        return jboost.combine.pairwise.fit(
            jboost.make_dataset(features, labels), jboost.learners.stumps(), max_rounds=4
        )

    together = jax.vmap(run)(features, labels)
    np.testing.assert_array_equal(together.status[2], jboost.status.Status.OPTIMAL)
    for index in range(3):
        alone = run(features[index], labels[index])
        np.testing.assert_array_equal(together.trace.upper_bounds[index], alone.trace.upper_bounds)
    dataset = jboost.make_dataset(features[0], labels[0])
    state = jboost.combine.pairwise.init(dataset, jboost.learners.stumps(), max_rounds=4)
    for _ in range(4):
        state, _ = jboost.combine.pairwise.step(state, dataset)
    np.testing.assert_array_equal(
        jboost.combine.pairwise.finish(state).certificate.upper_bound,
        together.certificate.upper_bound[0],
    )


def test_parameter_names():
    parameters = inspect.signature(jboost.combine.fit).parameters
    assert list(parameters)[:2] == ["scores", "labels"]
    assert all(parameters[name].default is None for name in ("weights", "mask"))


@pytest.mark.slow
def test_no_strategy_loses_more_than_the_best_classifier():
    """Integer scores on a narrow band, for which hardly any direction of float32 keeps
    the optimum.
    """
    scores, labels, weights = (
        [[1000000, -3999998], [1000004, -3999996], [1000003, -3999997]],
        [-1, -1, 1],
        [100.0, 1.0, 40.0],
    )
    best = jboost.combine.best_single(scores, labels, weights=weights).loss
    assert jboost.combine.fit(scores, labels, weights=weights).loss <= best


@pytest.mark.slow
def test_an_optimum_that_only_some_lengths_keep():
    band, neighbours = (
        [[1000000, -3999998], [1000004, -3999996], [1000003, -3999997]],
        [[100000000, 0], [100000000, 0], [100000008, 0]],
    )
    for scores in (band, neighbours):
        vote = jboost.combine.fit(scores, [-1, -1, 1], weights=[1.0, 1.0, 1.0])
        assert (int(vote.status), float(vote.loss), jboost.predict(vote, scores).tolist()) == (
            jboost.status.Status.OPTIMAL,
            0,
            [-1, -1, 1],
        )
        assert not oracle.wrong_examples(vote.coefficients, vote.offset, scores, [-1, -1, 1]).any()


@pytest.mark.slow
def test_votes_on_weights_too_far_apart_are_not_called_optimal():
    vote = jboost.combine.fit([[0, 0], [1, 0], [2, 0]], [1, -1, -1], weights=[1e20, 1.0, 1.0])
    assert vote.loss == 0 or (vote.status, vote.lower_bound) == (
        jboost.status.Status.PRECISION_LIMIT,
        0,
    )


def test_predictions_keep_the_sign_of_small_scores():
    nothing = np.float32(0)
    vote = LinearVote(
        np.float32([1e-30, 0]), nothing, nothing, nothing, nothing, np.zeros(2, bool), np.int32(0)
    )
    assert jboost.predict(vote, np.float32([[1e-20, 0], [-1e-20, 0]])).tolist() == [1, -1]


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_stacking_leaves_a_constant_column_alone(penalty):
    labels, scores = [-1, 1, -1, 1], np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
    alone = jboost.combine.stacking(scores, labels, penalty=penalty)
    beside = jboost.combine.stacking(
        np.concatenate([scores, np.ones_like(scores)], axis=1), labels, penalty=penalty
    )
    np.testing.assert_allclose(beside.coefficients, [float(alone.coefficients[0]), 0.0], rtol=1e-4)
    assert beside.loss == alone.loss
    twice = jboost.combine.stacking(
        np.concatenate([scores, scores], axis=1), labels, penalty=penalty
    )
    assert twice.loss == alone.loss
    with pytest.raises(ValueError, match="penalty is inf"):
        jboost.combine.stacking(scores, labels, penalty=np.inf)


@pytest.mark.slow
def test_traced_penalties_that_are_not_allowed():
    votes = jax.vmap(
        lambda penalty: jboost.combine.stacking(
            np.float32([[0], [1], [2], [3]]), [-1, 1, -1, 1], penalty=penalty
        )
    )(np.float32([1, np.nan, -1, np.inf]))
    assert (votes.status == jboost.status.Status.INVALID_INPUT).tolist() == [
        False,
        True,
        True,
        True,
    ]
    assert (
        np.isnan(votes.coefficients[:, 0]).tolist()
        == np.isnan(votes.loss).tolist()
        == [False, True, True, True]
    )


@pytest.mark.slow
def test_margins_of_scores_whose_squares_overflow(x64):
    for size in (1e200, 1e-200):
        assert float(
            jboost.combine.stacking(np.array([[-size], [size]]), [-1, 1]).margin
        ) == pytest.approx(size)


@pytest.mark.slow
def test_pairwise_errors_of_weights_whose_sum_overflows(x64):
    for weight in (1.0, 1e308):
        dataset = jboost.make_dataset([[0.0], [1.0], [1.0]], [1, -1, 1], weights=np.full(3, weight))
        fitted = jboost.combine.pairwise.fit(dataset, jboost.learners.stumps(), max_rounds=3)
        assert 1 / 3 <= fitted.certificate.upper_bound < 0.334
