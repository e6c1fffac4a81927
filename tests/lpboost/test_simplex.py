"""The simplex method of LP-Boost: vertices by HiGHS over degenerate games, warm starts over new
columns, masters of column generation.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from batches import few_at_once
from benchmarks.soft_margin_games import make_game
from jboost import learners, lp, lpboost
from jboost.base.status import Status
from linear_programs import lpboost_dual_program, lpboost_program
from oracles import highs

ROWS, COLUMNS, GAMES = 14, 8, 200
SIMPLEX = lpboost.SimplexConfig()


def degenerate_games(seed):
    """Margins [GAMES, ROWS, COLUMNS] of few values, with copied rows and columns, negated rows,
    hypotheses that are always right, wrong or silent.
    """
    random = np.random.default_rng(seed)
    games = random.choice([-1.0, 1.0], (GAMES, ROWS, COLUMNS), p=[0.4, 0.6])
    games[::4] = random.choice([-1.0, 0.0, 1.0], games[::4].shape)
    games[1::4] = random.uniform(-1, 1, games[1::4].shape)
    copied, doubled, conflict, constant = random.random((4, GAMES)) < 0.25
    games[copied, :, 1], games[copied, :, 5] = games[copied, :, 2], games[copied, :, 0]
    games[doubled, 3:6] = games[doubled, 6:9]
    games[conflict, 1] = -games[conflict, 0]
    games[constant, :, 3] = random.choice([-1.0, 0.0, 1.0], constant.sum())[:, None]
    weights = np.where(np.arange(GAMES)[:, None] % 3, 1.0, random.integers(1, 5, (GAMES, ROWS)))
    mask = random.random((GAMES, ROWS)) < np.where(np.arange(GAMES) % 5, 1.0, 0.7)[:, None]
    mask[:, 0] = True
    nus = random.choice([1e-3, 0.1, 0.25, 0.5, 1.0, 0.37], GAMES)
    return (
        games.astype(np.float32).astype(float),
        nus.astype(np.float32).astype(float),
        weights,
        mask,
    )


@functools.partial(jax.jit, static_argnames="config")
def solve_all(games, nus, weights, mask, tolerance, config=SIMPLEX):
    def one(problem):
        game, nu, weights, mask = problem
        return lpboost.solve(
            game, nu=nu, weights=weights, mask=mask, tolerance=tolerance, config=config
        )

    return few_at_once(one, (games, nus, weights, mask))


def optimum_by_highs(game, nu, weights, mask):
    """The optimum of (3) with D_i = p_i / nu: an example of weight k is k examples."""
    rows = np.repeat(game[mask], weights[mask].astype(int), axis=0)
    return highs.solve(lpboost_dual_program(rows, nu)).objective


@pytest.mark.slow
@pytest.mark.parametrize(("wide", "tolerance"), [(False, 1e-4), (True, 1e-8)])
def test_degenerate_games(wide, tolerance):
    parts = degenerate_games(1)
    with jax.enable_x64(wide):
        solved = jax.device_get(solve_all(*parts[:1], *map(jnp.asarray, parts[1:]), tolerance))
    assert (solved.status == Status.OPTIMAL).all()
    assert (solved.upper_bound - solved.lower_bound <= tolerance).all()
    for index, part in enumerate(zip(*parts, strict=True)):
        optimum = optimum_by_highs(*part)
        assert solved.lower_bound[index] <= optimum + 1e-9
        assert solved.upper_bound[index] >= optimum - 1e-9
        assert (solved.coefficients[index] >= 0).all()
        assert solved.coefficients[index].sum() == pytest.approx(1, abs=1e-6)
        assert (solved.example_weights[index][~part[3]] == 0).all()


def test_votes_are_those_of_a_vertex():
    games, nus, weights, mask = degenerate_games(2)
    with jax.enable_x64(True):
        solved = jax.device_get(
            solve_all(games, jnp.asarray(nus), np.ones_like(weights), np.ones_like(mask), 1e-8)
        )
    few = (solved.coefficients > 0).sum(axis=1)
    vertices = [
        highs.solve(lpboost_program(game, nu)).primal[:COLUMNS]
        for game, nu in zip(games, nus, strict=True)
    ]
    assert few.mean() <= 1.05 * (np.array(vertices) > 1e-9).sum(axis=1).mean()


@pytest.mark.slow
def test_columns_may_be_added_to_a_solution():
    shares = []
    for seed in range(6):
        game = np.random.default_rng(seed).choice([-1.0, 1.0], (60, 20))
        with jax.enable_x64(True):
            before, cold = (
                lpboost.solve(game[:, :count], nu=0.2, config=SIMPLEX) for count in (18, 20)
            )
            warm = lpboost.solve(game, nu=0.2, initial=before)
            assert int(cold.status) == int(warm.status) == Status.OPTIMAL
            assert float(warm.lower_bound) == pytest.approx(float(cold.lower_bound), abs=1e-9)
            shares.append(int(warm.num_iterations) / int(cold.num_iterations))
    assert np.mean(shares) <= 0.4  # for two columns
    with jax.enable_x64(True):
        again, steeper = (lpboost.solve(game, nu=nu, initial=warm) for nu in (0.2, 0.6))
        assert int(again.num_iterations) == 0
        assert float(steeper.lower_bound) == pytest.approx(
            highs.solve(lpboost_dual_program(game, 0.6)).objective, abs=1e-8
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [lp.FirstOrderConfig(), lp.InteriorPointConfig()],
    ids=["first order", "interior point"],
)
def test_other_methods_take_a_solution_too(config):
    game = np.random.default_rng(4).choice([-1.0, 1.0], (12, 6))
    before = lpboost.solve(game[:, :5], nu=0.3, tolerance=1e-2, config=config)
    after = lpboost.solve(game, nu=0.3, tolerance=1e-2, config=config, initial=before)
    assert int(after.status) == Status.OPTIMAL
    assert (
        after.lower_bound - 1e-6
        <= highs.solve(lpboost_dual_program(game, 0.3)).objective
        <= after.upper_bound + 1e-6
    )


@pytest.mark.slow
def test_a_solution_of_something_else_does_no_harm():
    random = np.random.default_rng(8)
    game, other = random.choice([-1.0, 1.0], (2, 60, 20))
    elsewhere = lpboost.solve(other, nu=0.2, config=SIMPLEX)
    spoiled = elsewhere._replace(
        warm=jax.tree.map(
            lambda leaf: leaf * jnp.nan if leaf.dtype.kind == "f" else leaf, elsewhere.warm
        )
    )
    optimum = highs.solve(lpboost_dual_program(game, 0.2)).objective
    # the basics in another order
    places = jnp.concatenate([elsewhere.warm.places[:20], elsewhere.warm.places[:19:-1]])
    for initial in (
        elsewhere,
        spoiled,
        elsewhere._replace(warm=elsewhere.warm._replace(places=places)),
    ):
        solved = lpboost.solve(game, nu=0.2, initial=initial)
        assert int(solved.status) == Status.OPTIMAL
        assert solved.lower_bound <= optimum + 1e-9
        assert solved.upper_bound >= optimum - 1e-9
    with jax.enable_x64(True):  # a solution in fewer digits
        assert (
            int(lpboost.solve(other, nu=0.2, tolerance=1e-8, initial=elsewhere).status)
            == Status.OPTIMAL
        )


@pytest.mark.slow
def test_the_method_is_that_of_the_solution_to_begin_with():
    game = np.ones((4, 3))
    for config in (lp.FirstOrderConfig(), lp.InteriorPointConfig()):
        before = lpboost.solve(game, tolerance=1e-2, config=config)
        assert type(lpboost.solve(game, tolerance=1e-2, initial=before).warm) is type(before.warm)
    with pytest.raises(ValueError, match="initial is a dict"):
        lpboost.solve(np.ones((200, 100)), initial={})


@pytest.mark.slow
def test_what_is_no_solution_to_begin_with():
    game = np.ones((4, 3))
    solved = lpboost.solve(game, config=SIMPLEX)
    with pytest.raises(ValueError, match="initial is a dict"):
        lpboost.solve(game, initial={})
    with pytest.raises(ValueError, match="initial is a solution of 4 x 3 margins: expected 5 rows"):
        lpboost.solve(np.ones((5, 3)), initial=solved)
    with pytest.raises(ValueError, match="at most 2 columns"):
        lpboost.solve(np.ones((4, 2)), initial=solved)
    with pytest.raises(ValueError, match="initial is by another method"):
        lpboost.solve(game, initial=solved, config=lp.InteriorPointConfig())
    with pytest.raises(ValueError, match="max_iterations"):
        lpboost.SimplexConfig(max_iterations=0)


def test_few_iterations_end_in_a_status_with_bounds():
    game = np.random.default_rng(5).choice([-1.0, 1.0], (60, 20))
    solved = lpboost.solve(
        game, nu=0.2, config=lpboost.SimplexConfig(max_iterations=3, refresh_every=2)
    )
    assert int(solved.status) == Status.ITERATION_LIMIT
    assert (
        solved.lower_bound
        <= highs.solve(lpboost_dual_program(game, 0.2)).objective
        <= solved.upper_bound
    )


@pytest.mark.slow
def test_iterations_are_no_more_than_allowed():
    game = np.random.default_rng(3).uniform(-1, 1, (40, 40))
    solved = lpboost.solve(game, nu=0.3, config=lpboost.SimplexConfig(max_iterations=1))
    assert (int(solved.num_iterations), int(solved.status)) == (1, Status.ITERATION_LIMIT)


@pytest.mark.slow
def test_checks_that_do_not_fill_the_iterations_allowed():
    game = np.random.default_rng(3).uniform(-1, 1, (12, 7))
    solved = lpboost.solve(game, nu=0.3, config=lp.FirstOrderConfig(max_iterations=50))
    assert (int(solved.num_iterations), int(solved.status)) == (40, Status.ITERATION_LIMIT)


@pytest.mark.slow
def test_tables_worked_out_anew_change_nothing():
    game = np.random.default_rng(6).choice([-1.0, 1.0], (60, 20))
    often = lpboost.solve(game, nu=0.2, config=lpboost.SimplexConfig(refresh_every=4))
    seldom = lpboost.solve(game, nu=0.2, config=SIMPLEX)
    assert int(often.status) == int(seldom.status) == Status.OPTIMAL
    np.testing.assert_allclose(often.coefficients, seldom.coefficients, atol=1e-5)


@pytest.mark.slow
def test_bases_that_rounding_has_spoilt_are_left():
    # of 200 of these games in float32, five had a pivot that was mostly rounding
    stumps = np.stack([make_game("stumps", 120, 40, seed) for seed in (4, 43, 124, 158, 179)])
    games, nu = np.concatenate([stumps, -stumps], axis=2), 0.02
    found = jax.jit(jax.vmap(lambda game: lpboost.solve(game, nu=nu, config=SIMPLEX)))(games)
    assert (found.status == int(Status.OPTIMAL)).all()
    ones = np.ones(games.shape[:2])
    for game, weights, lower, upper in zip(
        games, ones, found.lower_bound, found.upper_bound, strict=True
    ):
        optimum = optimum_by_highs(game.astype(float), nu, weights, weights > 0)
        assert optimum - 1e-3 <= lower <= optimum + 1e-6
        assert optimum - 1e-6 <= upper <= optimum + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
def test_masters_of_column_generation(wide):
    random = np.random.default_rng(7)
    features = random.normal(size=(40, 3)).astype(np.float32)
    labels = np.where(features[:, 0] + features[:, 1] + 0.5 * random.normal(size=40) > 0, 1, -1)
    margins = [np.ones(40)] + [
        np.where(column > threshold, 1.0, -1.0) for column in features.T for threshold in column
    ]
    margins = np.stack([sign * column * labels for column in margins for sign in (1, -1)], axis=1)
    optimum = highs.solve(lpboost_dual_program(margins, 0.3)).objective
    with jax.enable_x64(wide):
        fitted = lpboost.fit(
            jboost.make_dataset(features, labels),
            learners.stumps(num_proposed=3),
            nu=0.3,
            max_rounds=50,
            config=SIMPLEX,
        )
        fitted = jax.device_get(fitted._replace(ensemble=()))
    assert int(fitted.status) == Status.OPTIMAL
    assert fitted.certificate.lower_bound - 1e-7 <= optimum <= fitted.certificate.upper_bound + 1e-7
    assert fitted.certificate.upper_bound - fitted.certificate.lower_bound <= 1.001e-3


@pytest.mark.slow
def test_a_batch_of_solutions_is_no_start():
    margins = np.random.default_rng(0).choice([-1.0, 1.0], (3, 3, 5)).astype(np.float32)
    batch = jax.vmap(lambda one: lpboost.solve(one, nu=0.5))(margins)
    with pytest.raises(ValueError, match="initial is a solution of a batch of margins"):
        lpboost.solve(margins[0], nu=0.5, initial=batch)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-4, 1e-3])
def test_a_solution_of_almost_the_same_is_corrected(x64, noise):
    rng = np.random.default_rng(0)
    games = rng.uniform(-1, 1, (5, 60, 20))
    others = np.clip(games + noise * rng.uniform(-1, 1, games.shape), -1, 1)
    for game, other in zip(games, others, strict=True):
        before = lpboost.solve(game, nu=0.2, config=lpboost.SimplexConfig())
        warm, cold = (
            lpboost.solve(other, nu=0.2, initial=before),
            lpboost.solve(other, nu=0.2, config=lpboost.SimplexConfig()),
        )
        assert int(warm.status) == Status.OPTIMAL
        assert warm.num_iterations < cold.num_iterations
