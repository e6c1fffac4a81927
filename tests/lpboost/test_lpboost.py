"""LP-Boost: optima by HiGHS over the full matrix, bounds recomputed in float64, the theorems about
formulation (3), paths over nu, and bad input.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from batches import few_at_once
from jboost import adaboost, drive, learners, lpboost, relaxed_margin
from jboost.base import records
from jboost.base.boosting import Proposal
from jboost.base.status import Status
from jboost.learners.columns import Column, Columns
from jboost.lp import interior_point
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.problem import LinearProgram, make_program
from jboost.lpboost.fit import make_booster
from linear_programs import lpboost_dual_program, lpboost_program, random_margins
from oracles import highs

ROWS, COLUMNS, ROUNDS, GAMES = 12, 7, 30, 24  # of one shape, so that tests share compilations


def random_games(count, seed):
    """Margins [count, ROWS, COLUMNS]: signs and reals in turn, some with copied columns,
    conflicting rows, or a column that is always right.
    """
    random = np.random.default_rng(seed)
    games = np.where(
        np.arange(count)[:, None, None] % 2, random.uniform(-1, 1, (count, ROWS, COLUMNS)), 1
    )
    games = np.where(
        np.arange(count)[:, None, None] % 2,
        games,
        random.choice([-1.0, 1.0], games.shape, p=[0.4, 0.6]),
    )
    copied, conflict, perfect = random.random((3, count)) < 0.15
    games[copied, :, 1] = games[copied, :, 2]
    games[conflict, 1] = -games[conflict, 0]
    games[perfect, :, 3] = 1.0
    return games.astype(np.float32)


def best(game, nu, *, negations):
    """The optimum of (3) over a pool."""
    game = np.asarray(game, np.float64)
    return highs.solve(
        lpboost_dual_program(np.hstack([game, -game]) if negations else game, nu)
    ).objective


def soft_value(margins, nu):
    """The mean of the worst share nu of the margins."""
    ordered = np.sort(margins)
    shares = np.clip(nu * len(ordered) - np.arange(len(ordered)), 0, 1)
    return float(ordered @ shares / (nu * len(ordered))) if nu * len(ordered) > 1 else ordered[0]


@functools.partial(jax.jit, static_argnames=("learner", "config"))
def fit_all(games, nus, learner, config=None, tolerance=1e-3):
    def one(game, nu):
        dataset = jboost.make_dataset(game, jnp.ones(game.shape[0]))
        fitted = lpboost.fit(
            dataset, learner, nu=nu, max_rounds=ROUNDS, tolerance=tolerance, config=config
        )
        return fitted, jboost.predict_scores(fitted.ensemble, game)

    return jax.vmap(one)(games, nus)


def all_games(games):
    """Games filled up to GAMES with copies of the first."""
    return np.concatenate([games, np.repeat(games[:1], GAMES - len(games), axis=0)])


def member(fits, index):
    """One of a batch of fits; of its ensemble the votes."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[index], fits._replace(ensemble=fits.ensemble.votes)
    )


AS_THEY_ARE, BOTH_SIGNS = learners.pool(negations=False), learners.pool()


def recompute(game, nu, certificate, votes, scores, *, negations):
    """Both bounds from the returned arrays alone, in float64, against HiGHS."""
    game, scores, votes = (np.asarray(part, np.float64) for part in (game, scores, votes))
    optimum = best(game, nu, negations=negations)
    lower, upper = float(certificate.lower_bound), float(certificate.upper_bound)
    assert lower <= optimum + 1e-9
    assert optimum <= upper + 1e-9
    assert (votes >= 0).all()
    assert votes.sum() == pytest.approx(1, abs=1e-6)
    assert lower <= soft_value(scores, nu) + 3e-7
    weights = np.asarray(certificate.example_weights, np.float64)
    weights = weights / weights.sum()
    assert (weights >= 0).all()
    over = np.maximum(weights - 1 / (nu * len(weights)), 0).sum()
    edges = weights @ game
    edge = np.abs(edges).max() if negations else edges.max()
    assert over <= 1e-6
    assert upper >= edge - 1e-12
    return optimum


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "wide"),
    [(AS_THEY_ARE, False), (AS_THEY_ARE, True), (BOTH_SIGNS, False)],
    ids=["float32", "float64", "negations"],
)
def test_no_false_certificate(learner, wide):
    for seed in (3, 4):
        games, nus = (
            random_games(GAMES, seed),
            np.random.default_rng(seed).uniform(0.02, 1, GAMES).astype(np.float32),
        )
        nus[:3] = 1.0, 1 / ROWS, 1e-3
        games[5] = -1.0  # all columns are wrong everywhere
        with jax.enable_x64(wide):
            fits, scores = jax.tree.map(
                np.asarray,
                fit_all(
                    jnp.asarray(games, float), jnp.asarray(nus, float), learner, tolerance=1e-3
                ),
            )
        for index in range(GAMES):
            one = member(fits, index)
            recompute(
                games[index],
                float(nus[index]),
                one.certificate,
                one.ensemble[:, 0],
                scores[index],
                negations=learner.has_negations,
            )
        assert (fits.status == Status.OPTIMAL).all()
        assert (fits.certificate.upper_bound - fits.certificate.lower_bound <= 1.001e-3).all()
        assert (fits.certificate.seen_upper_bound <= fits.certificate.upper_bound + 1e-5).all()


@pytest.mark.slow
def test_votes_are_as_few_as_those_of_a_vertex():
    games, nus = (
        random_games(GAMES, 5),
        np.random.default_rng(5).uniform(0.2, 1, GAMES).astype(np.float32),
    )
    # what an interior point shares its votes among
    games[:, :, 1], games[:, :, 4] = games[:, :, 2], -games[:, :, 5]
    fits, _ = jax.device_get(fit_all(jnp.asarray(games), jnp.asarray(nus), BOTH_SIGNS))
    assert (fits.status == Status.OPTIMAL).all()
    few = (fits.ensemble.votes[:, :, 0] > 0).sum(axis=1)
    both = np.concatenate([games, -games], axis=2).astype(np.float64)
    vertices = [
        highs.solve(lpboost_program(game, float(nu))).primal[: 2 * COLUMNS]
        for game, nu in zip(both, nus, strict=True)
    ]
    assert few.mean() <= 1.05 * (np.array(vertices) > 1e-9).sum(axis=1).mean()


@functools.partial(jax.jit, static_argnames="config")
def solve_all(games, nus, tolerance, config=None):
    return few_at_once(
        lambda problem: lpboost.solve(
            problem[0], nu=problem[1], tolerance=tolerance, config=config
        ),
        (games, nus),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("wide", "tolerance"), [(False, 1e-3), (True, 1e-8)])
def test_whole_matrices_many_at_once(wide, tolerance):
    games, nus = random_games(GAMES, 11), np.random.default_rng(12).uniform(0.02, 1, GAMES)
    with jax.enable_x64(wide):
        solved = jax.device_get(solve_all(jnp.asarray(games), jnp.asarray(nus), tolerance))
    assert (solved.status == Status.OPTIMAL).all()
    assert (solved.upper_bound - solved.lower_bound <= tolerance).all()
    for index, (game, nu) in enumerate(zip(games, nus, strict=True)):
        optimum = best(game, nu, negations=False)
        assert solved.lower_bound[index] <= optimum + 1e-9
        assert solved.upper_bound[index] >= optimum - 1e-9
        votes, weights = (
            np.asarray(part[index], np.float64)
            for part in (solved.coefficients, solved.example_weights)
        )
        assert (
            soft_value(np.asarray(game, np.float64) @ votes / votes.sum(), nu)
            >= solved.lower_bound[index] - 1e-6
        )
        assert (votes >= 0).all()
        assert weights.max() <= max(1, 1 / (nu * ROWS)) * (1 + 1e-5)


@pytest.mark.slow
def test_a_whole_matrix_that_is_not_allowed():
    with pytest.raises(ValueError, match="nu"):
        lpboost.solve(np.ones((3, 2)), nu=0.0)
    with pytest.raises(ValueError, match="no columns"):
        lpboost.solve(np.ones((3, 0)))
    with pytest.raises(ValueError, match="margins has no rows"):
        lpboost.solve(np.ones((0, 2)))
    with pytest.raises(ValueError, match="config"):
        lpboost.solve(np.ones((3, 2)), config={})
    assert (
        lpboost.solve(np.array([[-128, 1], [1, -1]], np.int8), nu=0.5).status
        == Status.INVALID_INPUT
    )
    games = np.stack(
        [
            np.full((ROWS, COLUMNS), np.nan),
            np.full((ROWS, COLUMNS), 2.0),
            *np.ones((GAMES - 2, ROWS, COLUMNS)),
        ]
    ).astype(np.float32)
    solved = solve_all(
        jnp.asarray(games),
        jnp.asarray([0.5, 0.5, 1.5, *np.full(GAMES - 3, 0.5)], jnp.float32),
        1e-3,
    )
    assert solved.status[:4].tolist() == [
        Status.INVALID_INPUT,
        Status.INVALID_INPUT,
        Status.INFEASIBLE,
        Status.OPTIMAL,
    ]
    assert np.isnan(solved.lower_bound[:2]).all()
    assert float(solved.lower_bound[3]) == pytest.approx(1, abs=1e-3)


def noisy_stump_data(rows, seed=0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 3)).astype(np.float32)
    return features, np.where(
        features[:, 0] + features[:, 1] + 0.5 * random.normal(size=rows) > 0, 1, -1
    )


def stump_margins(features, labels):
    columns = [np.ones(len(labels))] + [
        np.where(column > t, 1.0, -1.0) for column in features.T for t in column
    ]
    return np.stack(columns, axis=1) * labels[:, None]


@pytest.mark.slow
def test_stumps_are_certified_over_all_of_them_several_a_round():
    features, labels = noisy_stump_data(40)
    fitted = lpboost.fit(
        jboost.make_dataset(features, labels),
        learners.stumps(num_proposed=3),
        nu=0.3,
        max_rounds=50,
    )
    margins = stump_margins(features, labels)
    optimum = best(margins, 0.3, negations=True)
    assert int(fitted.status) == Status.OPTIMAL
    assert fitted.certificate.lower_bound - 1e-9 <= optimum <= fitted.certificate.upper_bound + 1e-9
    assert int(fitted.num_rounds) < int(fitted.ensemble.count) <= 3 * int(fitted.num_rounds)
    scores = np.asarray(jboost.predict_scores(fitted.ensemble, features), np.float64) * labels
    assert soft_value(scores, 0.3) >= float(fitted.certificate.lower_bound) - 1e-6


# --- theorems -------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="config")
def solve_program(program: LinearProgram, config=InteriorPointConfig()):
    return interior_point.solve(program, jnp.asarray(1e-9), config)


def formulation_4(margins, penalty):
    """min sum lambda + D' sum xi s.t. diag(y) H lambda + xi >= 1, in (lambda, xi)."""
    rows, columns = margins.shape
    return make_program(
        np.r_[np.ones(columns), np.full(rows, penalty)],
        np.hstack([margins, np.eye(rows)]),
        row_lower=np.ones(rows),
    )


def formulation_12(margins, penalty, bound):
    """min sum xi + C sum mu over Q_{H,y}: diag(y) H lambda + (M K + 1) xi >= 1, lambda <= K mu, xi
    and mu in [0, 1]; in (lambda, xi, mu).
    """
    rows, columns = margins.shape
    matrix = np.block(
        [
            [margins, (rows * bound + 1) * np.eye(rows), np.zeros((rows, columns))],
            [-np.eye(columns), np.zeros((columns, rows)), bound * np.eye(columns)],
        ]
    )
    objective = np.r_[np.zeros(columns), np.ones(rows), np.full(columns, penalty)]
    upper = np.r_[np.full(columns, np.inf), np.ones(rows + columns)]
    return make_program(
        objective, matrix, row_lower=np.r_[np.ones(rows), np.zeros(columns)], upper=upper
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["signs", "stumps"])
def test_the_three_formulations_are_one(x64, kind):
    """(3) is (4) with D' = D / optimum, scaled by rho; (4) is (12) with C = 1 / (D' (M + 1/K))
    (Goldberg and Eckstein 2009, Theorem 3.4).
    """
    rows, columns, nu, bound = 60, 20, 0.3, 50.0
    margins = random_margins(kind, rows, columns, seed=2)
    fitted = lpboost.fit(
        jboost.make_dataset(margins, np.ones(rows)),
        AS_THEY_ARE,
        nu=nu,
        tolerance=1e-7,
        max_rounds=60,
    )
    assert int(fitted.status) == Status.OPTIMAL
    optimum = float(fitted.certificate.lower_bound)
    assert optimum > 0.01

    third = highs.solve(lpboost_program(margins, nu))
    assert -third.objective == pytest.approx(optimum, abs=2e-7)
    votes, rho, shortfalls = np.split(third.primal, [columns, columns + 1])

    penalty = 1 / (nu * rows) / optimum  # D' of (4)
    fourth = formulation_4(margins, penalty)
    solved = solve_program(fourth)
    assert float(solved.primal_objective) == pytest.approx(1 / optimum, rel=1e-5)
    scaled = np.r_[votes, shortfalls] / rho
    assert (np.asarray(fourth.operator.matvec(jnp.asarray(scaled))) >= 1 - 1e-6).all()
    assert float(fourth.objective @ scaled) == pytest.approx(1 / optimum, rel=1e-5)

    price = 1 / (penalty * (rows + 1 / bound))  # C of (12)
    twelfth = formulation_12(margins, price, bound)
    relaxed = solve_program(twelfth)
    ratio = 1 / (penalty * (rows * bound + 1))
    assert float(relaxed.primal_objective) == pytest.approx(
        ratio * float(solved.primal_objective), rel=1e-6
    )
    # From (4) to (12): the image is feasible and optimal; from (12) to (4): mu = lambda / K, and so
    # is the preimage.
    votes, shortfalls = np.split(np.asarray(solved.primal), [columns])
    image = jnp.asarray(np.r_[votes, shortfalls / (rows * bound + 1), votes / bound])
    assert (
        np.asarray(twelfth.operator.matvec(image)) >= np.asarray(twelfth.row_lower) - 1e-6
    ).all()
    assert (image <= twelfth.upper + 1e-9).all()
    assert float(twelfth.objective @ image) == pytest.approx(
        float(relaxed.primal_objective), rel=1e-6
    )
    votes, shortfalls, used = np.split(np.asarray(relaxed.primal), [columns, columns + rows])
    np.testing.assert_allclose(used, votes / bound, atol=1e-6)
    preimage = jnp.asarray(np.r_[votes, shortfalls * (rows * bound + 1)])
    assert (np.asarray(fourth.operator.matvec(preimage)) >= 1 - 1e-5).all()
    assert float(fourth.objective @ preimage) == pytest.approx(
        float(solved.primal_objective), rel=1e-5
    )

    # At most a share nu of margin errors, at least a share nu of margins up to rho.
    reached = margins @ third.primal[:columns]
    assert (reached < rho - 1e-5).mean() <= nu <= (reached <= rho + 1e-5).mean()
    reached = np.asarray(jboost.predict_scores(fitted.ensemble, margins))
    assert (reached < rho - 1e-2).mean() <= nu <= (reached <= rho + 1e-2).mean()


@pytest.mark.slow
def test_weights_count_like_copies_and_padding_does_not_count():
    random = np.random.default_rng(5)
    game = random_games(1, seed=11)[0][:5]
    copies = np.array([1, 3, 2, 1, 5])
    labels = random.choice([-1.0, 1.0], 5)
    many = np.repeat(np.arange(5), copies)
    padding = np.full((ROWS - 5, COLUMNS), np.nan)
    datasets = [
        jboost.make_dataset(game[many] * labels[many, None], labels[many]),
        jboost.make_dataset(
            np.vstack([game * labels[:, None], padding]),
            np.r_[labels, np.zeros(ROWS - 5)],
            weights=np.r_[copies, np.full(ROWS - 5, -1)],
            mask=np.arange(ROWS) < 5,
        ),
    ]
    stacked = jax.tree.map(
        lambda *parts: jnp.stack([jnp.asarray(part, jnp.float32) for part in parts]), *datasets
    )
    stacked = stacked._replace(mask=stacked.mask > 0)
    fits = jax.vmap(
        lambda dataset: lpboost.fit(dataset, AS_THEY_ARE, nu=0.4, max_rounds=ROUNDS, tolerance=1e-4)
    )(stacked)
    optimum = best(game[many], 0.4, negations=False)
    assert (np.asarray(fits.status) == Status.OPTIMAL).all()
    assert (fits.certificate.lower_bound <= optimum + 1e-7).all()
    assert (fits.certificate.upper_bound >= optimum - 1e-7).all()
    assert (np.asarray(fits.certificate.example_weights[1, 5:]) == 0).all()


@pytest.mark.slow
def test_vmap_over_nu_equals_a_loop_with_one_compilation(compilations):
    game = random_games(1, seed=8)
    dataset = jboost.make_dataset(game[0], np.ones(ROWS))
    nus = [1e-3, 0.2, 0.5, 1.0]
    together, _ = fit_all(
        all_games(game), jnp.array(nus + [0.5] * (GAMES - 4)), AS_THEY_ARE, tolerance=1e-3
    )
    alone = [lpboost.fit(dataset, AS_THEY_ARE, nu=nus[0], max_rounds=ROUNDS)]
    before = compilations()
    alone += [
        lpboost.fit(dataset, AS_THEY_ARE, nu=nu, max_rounds=ROUNDS, tolerance=2e-3 * nu)
        for nu in nus[1:]
    ]
    assert compilations() == before
    for index, one in enumerate(alone):
        assert int(together.status[index]) == int(one.status) == Status.OPTIMAL
        np.testing.assert_allclose(
            together.certificate.lower_bound[index], one.certificate.lower_bound, atol=2e-3
        )
        np.testing.assert_allclose(
            together.certificate.upper_bound[index], one.certificate.upper_bound, atol=2e-3
        )
    assert float(alone[0].certificate.lower_bound) == pytest.approx(
        best(game[0], 1 / ROWS, negations=False), abs=1e-3
    )


@pytest.mark.slow
def test_first_order_masters_warm_started():
    games, nus = random_games(6, seed=4), np.linspace(0.2, 0.9, 6, dtype=np.float32)
    fits, scores = fit_all(
        games, nus, AS_THEY_ARE, FirstOrderConfig(max_iterations=4000), tolerance=2e-3
    )
    for index in range(6):
        one = member(fits, index)
        recompute(
            games[index],
            float(nus[index]),
            one.certificate,
            one.ensemble[:, 0],
            scores[index],
            negations=False,
        )
    assert (np.asarray(fits.status) == Status.OPTIMAL).all()


@pytest.mark.slow
def test_a_path_asks_first_what_a_fit_asks_first():
    features, labels = noisy_stump_data(20)
    dataset = jboost.make_dataset(features, labels)
    path = lpboost.path(dataset, learners.stumps(), [0.3], max_rounds=1)
    alone = lpboost.fit(dataset, learners.stumps(), nu=0.3, max_rounds=1)
    np.testing.assert_array_equal(
        path.certificate.example_weights[0], alone.certificate.example_weights
    )
    np.testing.assert_array_equal(path.certificate.upper_bound[0], alone.certificate.upper_bound)
    np.testing.assert_array_equal(path.certificate.lower_bound[0], alone.certificate.lower_bound)


@pytest.mark.slow
def test_a_path_is_certified_at_every_nu_and_saves_rounds():
    features, labels = noisy_stump_data(40)
    dataset = jboost.make_dataset(features, labels)
    nus = np.array([0.2, 0.25, 0.3, 0.4, 0.5], np.float32)
    fits = lpboost.path(dataset, learners.stumps(), nus, max_rounds=100, tolerance=1e-3)
    margins = stump_margins(features, labels)
    rounds = 0
    for index, nu in enumerate(nus):
        optimum = best(margins, float(nu), negations=True)
        alone = lpboost.fit(dataset, learners.stumps(), nu=nu)
        rounds += int(alone.num_rounds)
        lower, upper = (
            float(fits.certificate.lower_bound[index]),
            float(fits.certificate.upper_bound[index]),
        )
        assert lower - 1e-7 <= optimum <= upper + 1e-7
        assert upper - lower <= 1e-3 * 1.001
        assert lower == pytest.approx(float(alone.certificate.lower_bound), abs=1e-3)
        used = np.isfinite(fits.trace.edges[index])
        assert used.sum() == int(fits.num_rounds[index])
        assert used[: used.sum()].all()
        ensemble = jax.tree.map(
            lambda leaf, index=index: leaf[index], fits.ensemble._replace(learner=())
        )._replace(learner=learners.stumps())
        scores = np.asarray(jboost.predict_scores(ensemble, features), np.float64) * labels
        assert soft_value(scores, float(nu)) >= lower - 1e-6
    assert (np.asarray(fits.status) == Status.OPTIMAL).all()
    assert int(fits.num_rounds.sum()) < rounds

    # more rounds than there are
    finer = lpboost.path(dataset, learners.stumps(), nus[::-1], max_rounds=100, tolerance=1e-9)
    assert int(finer.num_rounds.sum()) <= 100
    assert set(np.asarray(finer.status).tolist()) <= {Status.PRECISION_LIMIT, Status.ROUND_LIMIT}
    for index, nu in enumerate(nus[::-1]):
        optimum = best(margins, float(nu), negations=True)
        assert (
            finer.certificate.lower_bound[index] - 1e-7
            <= optimum
            <= finer.certificate.upper_bound[index] + 1e-7
        )
        assert (
            finer.certificate.lower_bound[index] <= finer.certificate.seen_upper_bound[index] + 1e-7
        )


# --- a loop that is watched, and ends -------------------------------------------------------------


@pytest.mark.slow
def test_the_host_may_watch_and_stop():
    dataset = jboost.make_dataset(random_games(1, seed=30)[0], np.ones(ROWS))
    options = {"nu": 0.4, "max_rounds": ROUNDS}
    whole = lpboost.fit(dataset, AS_THEY_ARE, **options)
    seen = []
    watched = lpboost.fit(
        dataset, AS_THEY_ARE, on_step=lambda state, info: seen.append(state), **options
    )
    np.testing.assert_allclose(
        watched.certificate.lower_bound, whole.certificate.lower_bound, atol=1e-4
    )
    assert int(watched.status) == Status.OPTIMAL
    assert len(seen) == int(watched.num_rounds)

    stopped = lpboost.fit(
        dataset, AS_THEY_ARE, on_step=lambda state, info: int(info.num_rounds) < 2, **options
    )
    assert (int(stopped.status), int(stopped.num_rounds)) == (Status.TIME_LIMIT, 2)
    assert stopped.certificate.lower_bound <= whole.certificate.upper_bound
    assert stopped.certificate.upper_bound >= whole.certificate.lower_bound
    assert "TIME_LIMIT" in jboost.status.explain(stopped.status)
    state = seen[1]  # what on_step was given last goes on
    while int(state.status) == Status.UNFINISHED:
        state, _ = jax.jit(lpboost.step)(state, dataset)
    np.testing.assert_allclose(
        lpboost.finish(state).certificate.lower_bound, watched.certificate.lower_bound, rtol=1e-5
    )

    assert (
        int(lpboost.fit(dataset, AS_THEY_ARE, on_step=drive.time_limit(0.0), **options).num_rounds)
        == 1
    )
    with pytest.raises(ValueError, match="on_step"):
        jax.jit(lambda nu: lpboost.fit(dataset, AS_THEY_ARE, nu=nu, on_step=drive.time_limit(1.0)))(
            0.3
        )
    with pytest.raises(ValueError, match="seconds"):
        drive.time_limit(-1.0)


@pytest.mark.slow
def test_what_no_precision_can_do_ends_before_the_last_round():
    games, nus = random_games(GAMES, seed=6), np.full(GAMES, 0.4, np.float32)
    fits, _ = fit_all(games, nus, AS_THEY_ARE, tolerance=1e-9)
    assert set(np.asarray(fits.status).tolist()) <= {Status.PRECISION_LIMIT, Status.OPTIMAL}
    assert (np.asarray(fits.num_rounds) < ROUNDS).all()
    for index in range(GAMES):
        optimum = best(games[index], float(nus[0]), negations=False)
        assert (
            fits.certificate.lower_bound[index] - 1e-9
            <= optimum
            <= fits.certificate.upper_bound[index] + 1e-9
        )
        assert fits.certificate.upper_bound[index] - fits.certificate.lower_bound[index] < 1e-3


def broken_propose(state, example_weights):
    """The first column for ever, and no bound."""
    columns, labels = state.features, state.labels
    return Proposal(
        jnp.zeros((1,), jnp.int32),
        columns[:, :1].T,
        jnp.sum(example_weights * labels * columns[:, 0])[None],
        jnp.inf,
        state,
    )


@pytest.mark.slow
def test_a_learner_that_repeats_itself_ends():
    learner = learners.from_functions(
        lambda key, dataset: dataset, broken_propose, lambda hypothesis, features: features[:, 0]
    )
    dataset = jboost.make_dataset(random_games(1, seed=8)[0], np.ones(ROWS))
    every = lpboost.fit(dataset, learner, nu=0.3, max_rounds=ROUNDS, stop_on="all")
    assert int(every.status) == Status.PRECISION_LIMIT
    assert int(every.num_rounds) < ROUNDS
    assert np.isinf(every.certificate.upper_bound)
    # over the one column seen
    assert every.certificate.seen_upper_bound - every.certificate.lower_bound < 1e-3


# --- small and bad input --------------------------------------------------------------------------


@pytest.mark.slow
def test_small_and_degenerate_data():
    one = lpboost.fit(jboost.make_dataset([[0.5, -1.0]], [1]), AS_THEY_ARE, nu=0.5, max_rounds=4)
    assert int(one.status) == Status.OPTIMAL
    assert one.certificate.lower_bound <= 0.5 <= one.certificate.upper_bound
    # One class; opposite labels in one place; one real row; one row of each class.
    features = np.stack([np.arange(6.0), np.zeros(6), np.arange(6.0), np.arange(6.0)]).astype(
        np.float32
    )[:, :, None]
    labels = np.array([[1] * 6, [1, -1] * 3, [-1] * 6, [1, -1] * 3])
    masks = np.array([[True] * 6, [True] * 6, [True] + [False] * 5, [True] * 2 + [False] * 4])
    datasets = jax.vmap(lambda *parts: jboost.make_dataset(parts[0], parts[1], mask=parts[2]))(
        features, labels, masks
    )
    fits = jax.vmap(lambda dataset: lpboost.fit(dataset, learners.stumps(), nu=0.5, max_rounds=8))(
        datasets
    )
    assert (np.asarray(fits.status) == Status.OPTIMAL).all()
    # In one place both constants with votes of a half each: no vote does better on the worst half
    # than 0.
    for index, optimum in enumerate((1.0, 0.0, 1.0, 1.0)):
        assert fits.certificate.lower_bound[index] <= optimum <= fits.certificate.upper_bound[index]
        assert fits.certificate.upper_bound[index] - fits.certificate.lower_bound[index] <= 1.001e-3


def test_all_hypotheses_are_taken_at_once_where_they_are_listed_and_few():
    small, large = (
        jboost.make_dataset(np.ones((rows, columns), np.float32), np.ones(rows))
        for rows, columns in ((ROWS, COLUMNS), (4000, 80))
    )
    takes_all = make_booster(AS_THEY_ARE).takes_all
    assert takes_all(AS_THEY_ARE, small)
    assert takes_all(learners.monomials(1), small)
    assert not takes_all(AS_THEY_ARE, large)
    assert not takes_all(learners.monomials(2), small)  # a search that has quick answers
    assert not takes_all(learners.stumps(), small)
    assert lpboost.init(small, BOTH_SIGNS, max_rounds=1).ensemble.votes.shape == (2 * COLUMNS, 2)
    assert lpboost.init(large, AS_THEY_ARE, max_rounds=9).ensemble.votes.shape == (9, 2)


@pytest.mark.slow
def test_a_small_pool_takes_few_rounds_and_all_its_columns_have_slots():
    games, nus = (
        random_games(GAMES, 21),
        np.random.default_rng(22).uniform(0.05, 1, GAMES).astype(np.float32),
    )
    fits, _ = jax.device_get(
        fit_all(jnp.asarray(games), jnp.asarray(nus), AS_THEY_ARE, tolerance=1e-3)
    )
    assert (fits.status == Status.OPTIMAL).all()
    assert (fits.num_rounds <= 4).all()
    assert (fits.ensemble.count == COLUMNS).all()
    np.testing.assert_array_equal(
        fits.ensemble.hypotheses.index, np.tile(np.arange(COLUMNS), (GAMES, 1))
    )
    first = lpboost.fit(
        jboost.make_dataset(games[0], np.ones(ROWS)), AS_THEY_ARE, nu=nus[0], max_rounds=1
    )
    assert int(first.status) in (Status.ROUND_LIMIT, Status.OPTIMAL)
    assert first.certificate.lower_bound == pytest.approx(
        best(games[0], float(nus[0]), negations=False), abs=1e-3
    )


def test_large_tables_are_not_kept():
    booster = dataclasses.replace(make_booster(learners.stumps()), config=None)
    assert [type(booster.method(capacity)) for capacity in (100, 50_000)] == [
        lpboost.SimplexConfig,
        InteriorPointConfig,
    ]


@pytest.mark.slow
def test_an_example_of_hardly_any_weight():
    margins, weights = (
        np.array([[1.0, -1.0], [1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]),
        np.array([1.0, 1.0, 1.0, 1e-22]),
    )
    for config in (lpboost.SimplexConfig(), InteriorPointConfig()):
        solved = lpboost.solve(margins, nu=0.1, weights=weights, config=config)
        assert int(solved.status) == Status.OPTIMAL
        np.testing.assert_allclose(solved.coefficients, [1, 0], atol=1e-3)


@pytest.mark.slow
def test_a_traced_nu_that_is_not_allowed_proves_nothing_and_harms_no_other():
    dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    walk = jax.jit(lambda nus: lpboost.path(dataset, learners.stumps(), nus, max_rounds=10))
    fits = walk(jnp.array([0.0, 0.2, 2.0, jnp.nan, 0.2]))
    assert fits.status.tolist() == [
        Status.INFEASIBLE,
        Status.OPTIMAL,
        Status.INFEASIBLE,
        Status.INFEASIBLE,
        Status.OPTIMAL,
    ]
    bounds = fits.certificate
    assert bounds.lower_bound[jnp.array([0, 2, 3])].tolist() == [-1, -1, -1]
    assert bounds.upper_bound[jnp.array([0, 2, 3])].tolist() == [np.inf] * 3
    for index in (1, 4):
        assert bounds.lower_bound[index] - 1e-6 <= 1 / 3 <= bounds.upper_bound[index] + 1e-6


@pytest.mark.slow
def test_bad_values_and_arguments():
    with pytest.raises(ValueError, match="nu is .*e-41"):
        lpboost.solve([[1.0]], nu=1e-40)
    dataset = jboost.make_dataset(np.ones((3, 2)), np.ones(3))
    for nu in (0.0, -0.5, 1.5, np.nan):
        with pytest.raises(ValueError, match="nu"):
            lpboost.fit(dataset, AS_THEY_ARE, nu=nu)
        with pytest.raises(ValueError, match="nus"):
            lpboost.path(dataset, AS_THEY_ARE, [0.5, nu])
    with pytest.raises(ValueError, match="nus"):
        lpboost.path(dataset, AS_THEY_ARE, [])
    with pytest.raises(ValueError, match="stop_on"):
        lpboost.fit(dataset, AS_THEY_ARE, stop_on="never")
    with pytest.raises(ValueError, match="tolerance"):
        lpboost.fit(dataset, AS_THEY_ARE, tolerance=0.0)
    with pytest.raises(ValueError, match="config"):
        lpboost.fit(dataset, AS_THEY_ARE, config={})
    with pytest.raises(ValueError, match="negations"):
        learners.pool(negations=2)
    with pytest.raises(ValueError, match="dataset has no examples"):
        lpboost.fit(jboost.make_dataset(np.ones((0, 2)), []), AS_THEY_ARE)
    games = all_games(random_games(7, seed=0))
    games[5, 2, 1], games[6, 2, 1] = np.nan, 2.0
    fits, _ = fit_all(
        games,
        jnp.array([0.0, -0.5, 1.5, jnp.nan] + [0.5] * (GAMES - 4)),
        AS_THEY_ARE,
        tolerance=1e-3,
    )
    assert np.asarray(fits.status).tolist() == [Status.INFEASIBLE] * 4 + [Status.OPTIMAL] + [
        Status.INVALID_INPUT
    ] * 2 + [Status.OPTIMAL] * (GAMES - 7)
    for bound in (
        fits.certificate.lower_bound,
        fits.certificate.upper_bound,
        fits.certificate.seen_upper_bound,
    ):
        assert np.isnan(bound[4:]).tolist() == [False] + [True] * 2 + [False] * (GAMES - 7)


@pytest.mark.slow
def test_a_pool_without_negations():
    game = random_games(1, seed=9)[0]
    labels = np.where(np.arange(ROWS) % 3, 1, -1)
    dataset = jboost.make_dataset(game * labels[:, None], labels)
    learner = learners.pool(negations=False, num_proposed=COLUMNS)
    weights = np.random.default_rng(0).dirichlet(np.ones(ROWS)).astype(np.float32)
    for sign in (1, -1):
        proposal = learner.propose(
            learner.init(None, dataset._replace(labels=sign * dataset.labels)), jnp.asarray(weights)
        )
        edges = sign * weights.astype(np.float64) @ game
        assert np.asarray(proposal.hypotheses.index).tolist() == np.argsort(-edges).tolist()
        assert (proposal.hypotheses.sign == 1).all()
        np.testing.assert_allclose(proposal.values, np.sort(edges)[::-1], atol=1e-6)
        assert edges.max() <= float(proposal.upper_bound) <= edges.max() + 1e-5
    assert not learners.signs(learner).has_negations
    for room in (relaxed_margin.fit, relaxed_margin.init):
        with pytest.raises(ValueError, match="learner has hypotheses without their negations"):
            room(dataset, learner)
    fitted = adaboost.fit(dataset, AS_THEY_ARE, max_rounds=20)
    assert fitted.certificate.margin <= max(best(game, 1 / ROWS, negations=False), 0) + 1e-6
    assert (
        fitted.certificate.margin_upper_bound
        >= max(best(game, 1 / ROWS, negations=False), 0) - 1e-6
    )


# --- learners with quick answers ------------------------------------------------------------------


@records.register
@dataclasses.dataclass(frozen=True)
class Lazy:
    """A pool of columns of which the first that is good enough will do."""

    pool: Columns = dataclasses.field(metadata={"static": True})
    has_negations = False
    has_quick_answers = True

    def init(self, key, dataset):
        return self.pool.init(key, dataset)

    def propose(self, state, example_weights):
        return self.pool.propose(state, example_weights)

    def propose_above(self, state, example_weights, enough):
        best = self.pool.propose(state, example_weights)
        outputs = state.columns.reshape(-1, state.columns.shape[2])[: len(example_weights)].T
        edges = outputs @ (example_weights * state.labels)
        first = jnp.argmax(edges > enough)
        some = Proposal(
            Column(first[None], jnp.ones((1,))),
            outputs[first][None],
            edges[first][None],
            1.0,
            state,
        )
        return jax.tree.map(
            lambda one, other: jnp.where(edges[first] > enough, one, other), some, best
        )

    def outputs(self, hypothesis, features):
        return self.pool.outputs(hypothesis, features)


@pytest.mark.slow
def test_quick_answers_lead_to_the_same_optimum():
    """By the simplex method, which such learners get: the bound over all hypotheses comes from the
    questions that have no quick answer.
    """
    games, nus = all_games(random_games(16, seed=41)), np.linspace(0.15, 1.0, GAMES)
    fits, scores = fit_all(games, nus, Lazy(AS_THEY_ARE))
    assert (fits.status == Status.OPTIMAL).all()
    for index in range(16):
        fit = member(fits, index)
        optimum = recompute(
            games[index],
            nus[index],
            fit.certificate,
            fit.ensemble[:, 0],
            scores[index],
            negations=False,
        )
        assert (
            optimum - 1e-3
            <= fit.certificate.lower_bound
            <= optimum
            <= fit.certificate.upper_bound
            <= optimum + 1e-3
        )
