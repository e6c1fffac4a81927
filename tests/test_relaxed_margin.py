"""Relaxed margins: bounds judged by float64 recomputation and by HiGHS, the steps of `fit`, and bad
input.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import linprog

import jboost
from batches import few_at_once
from jboost import learners, relaxations, relaxed_margin
from jboost.base.status import Status
from jboost.relaxed_margin import SolverConfig
from jboost.relaxed_margin.solve import status_of
from marks import slow_but

ROWS, COLUMNS = 12, 7


def random_games(count, seed, rows=ROWS, columns=COLUMNS):
    """Games of +-1, of reals, and of stumps in turn; some with a constant column, copied columns,
    conflicting rows.
    """
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (count, rows, columns))
    reals = rng.uniform(-1, 1, (count, rows, columns))
    feature = rng.normal(size=(count, rows, 1))
    stumps = np.where(feature > rng.normal(size=(count, 1, columns)), 1.0, -1.0) * rng.choice(
        [-1.0, 1.0], (count, rows, 1)
    )
    kind = rng.integers(0, 3, count)[:, None, None]
    games = np.where(kind == 0, signs, np.where(kind == 1, reals, stumps))
    games[rng.random(count) < 0.1, :, 0] = 1.0
    copied = rng.random(count) < 0.2
    games[copied, :, 1] = games[copied, :, 2]
    conflict = rng.random(count) < 0.2
    games[conflict, 1] = -games[conflict, 0]
    return games


def soft_value(margins, nu):
    """The mean of the worst nu of the margins, the last counted in part."""
    ordered = np.sort(margins)
    shares = np.clip(nu * len(ordered) - np.arange(len(ordered)), 0, 1)
    return float(ordered @ shares / (nu * len(ordered)))


def soft_optimum(matrix, nu):
    """The largest soft margin by HiGHS."""
    rows, columns = matrix.shape
    cost = np.r_[np.zeros(2 * columns), np.full(rows, 1 / (nu * rows)), -1.0]
    constraints = np.hstack([-matrix, matrix, -np.eye(rows), np.ones((rows, 1))])
    norm = np.r_[np.ones(2 * columns), np.zeros(rows + 1)][None]
    bounds = [(0, None)] * (2 * columns + rows) + [(None, None)]
    found = linprog(
        cost,
        np.vstack([constraints, norm]),
        np.r_[np.zeros(rows), 1.0],
        bounds=bounds,
        method="highs",
    )
    return -found.fun


@functools.partial(jax.jit, static_argnames="hard")
def solve_all(games, nus, hard=False):
    config = SolverConfig(max_iterations=2000, iterations_per_check=40)

    def one(problem):
        game, nu = problem
        relaxation = relaxations.hard_margin() if hard else relaxations.soft_margin(nu=nu)
        return relaxed_margin.solve(game, relaxation, tolerance=2e-3, config=config)

    return few_at_once(one, (games, nus))


def check(games, nus, solutions):
    """Recomputes both bounds of every game in float64, from the returned arrays alone."""
    for game, nu, solution in zip(games, nus, zip(*solutions, strict=True), strict=True):
        coefficients, weights, lower, upper = (
            np.asarray(field, np.float64) for field in solution[:4]
        )
        game = np.asarray(game, np.float64)
        assert np.abs(coefficients).sum() <= 1
        assert (weights >= 0).all()
        assert lower <= soft_value(game @ coefficients, nu) + 1e-14
        weights = weights / weights.sum()
        over = np.maximum(weights - 1 / (nu * len(weights)), 0).sum()
        assert over <= 1e-5
        assert upper >= np.abs(weights @ game).max() - 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
def test_no_false_certificate(wide, hard):
    with jax.enable_x64(wide):
        games = jnp.asarray(random_games(2500, seed=1 + 2 * hard + wide))
        rng = np.random.default_rng(3)
        nus = jnp.asarray(np.full(2500, 1e-9) if hard else rng.uniform(1 / ROWS, 1, 2500))
        solutions = jax.device_get(solve_all(games, nus, hard=hard))
        games, nus = np.asarray(games, np.float64), np.asarray(nus, np.float64)
    if hard:
        nus = np.full(len(games), 1 / ROWS)
    check(games, nus, solutions)
    for index in range(0, 2500, 40):
        optimum = soft_optimum(games[index], nus[index])
        assert solutions.lower_bound[index] <= optimum + 1e-9 <= solutions.upper_bound[index] + 2e-9
    assert np.mean(solutions.upper_bound - solutions.lower_bound <= 2e-3) > 0.97


@pytest.mark.slow
def test_larger_game_meets_highs_and_its_tolerance():
    game = random_games(1, seed=9, rows=120, columns=60)[0]
    solution = relaxed_margin.solve(game, relaxations.soft_margin(cap=1 / 12), tolerance=1e-3)
    optimum = soft_optimum(game, 0.1)
    assert solution.lower_bound <= optimum + 1e-9
    assert optimum <= solution.upper_bound + 1e-9
    assert solution.upper_bound - solution.lower_bound <= 1e-3
    assert int(solution.status) == jboost.status.Status.OPTIMAL


@pytest.mark.slow
def test_weights_count_like_copies_and_padding_does_not_count():
    game = random_games(1, seed=4)[0]
    relaxation = relaxations.soft_margin(nu=0.4)
    doubled = relaxed_margin.solve(np.vstack([game, game[:3]]), relaxation, tolerance=1e-4)
    weighted = relaxed_margin.solve(
        game, relaxation, weights=np.r_[np.full(3, 2.0), np.ones(ROWS - 3)], tolerance=1e-4
    )
    padded = relaxed_margin.solve(
        np.vstack([game, np.full((3, COLUMNS), np.nan)]),
        relaxation,
        weights=np.r_[np.full(3, 8.0), np.full(ROWS - 3, 4.0), np.full(3, -1.0)],
        mask=np.arange(ROWS + 3) < ROWS,
        tolerance=1e-4,
    )
    for other in (weighted, padded):
        assert other.lower_bound <= doubled.upper_bound
        assert doubled.lower_bound <= other.upper_bound
        assert int(other.status) == 0


RELAXATIONS = {
    "ball 3": relaxations.norm_ball(3, 0.3),
    "penalty 1.5": relaxations.norm_penalty(1.5, 0.3),
    "hard": relaxations.hard_margin(),
    "soft": relaxations.soft_margin(nu=0.3),
    "ball": relaxations.norm_ball(2, 0.4),
    "penalty 1": relaxations.norm_penalty(1, 0.2),
    "penalty 2": relaxations.norm_penalty(2, 0.3),
    "penalty inf": relaxations.norm_penalty(jnp.inf, 0.5),
    "entropy": relaxations.binary_entropy(0.3, 0.2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RELAXATIONS)
def test_bounds_meet_for_every_relaxation(name):
    """Theorem 7: primal and dual meet, on a random and on a structured matrix; both values
    recomputed from the relaxation's own f and f*.
    """
    relaxation = RELAXATIONS[name]
    for seed in (0, 5):
        game = random_games(1, seed=seed)[0]
        solution = relaxed_margin.solve(game, relaxation, tolerance=1e-3)
        assert 0 <= solution.upper_bound - solution.lower_bound <= 1e-3
        reached = game @ np.asarray(solution.coefficients, np.float64)
        thresholds = np.linspace(-1.5, 1.5, 3001)
        gain = jax.vmap(
            lambda gamma, reached: gamma - relaxation.conjugate(gamma - reached), (0, None)
        )
        values = gain(jnp.asarray(thresholds), jnp.asarray(reached))
        assert abs(float(np.max(values)) - float(solution.lower_bound)) < 3e-3


@pytest.mark.slow
def test_squared_norm_in_place_of_the_ball():
    """For the hard margin the best votes are those of the ball scaled by rho / strength, worth
    rho^2 / (2 strength).
    """
    game = np.array([[1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])
    solution = relaxed_margin.solve(
        game, relaxations.hard_margin(), votes=relaxations.squared_norm(0.5), tolerance=1e-4
    )
    assert solution.lower_bound <= 1 / 9 <= solution.upper_bound
    assert float(jnp.abs(solution.coefficients).sum()) == pytest.approx(2 / 3, abs=0.02)


GROUPS = np.array([0, 0, 1, 1, 2, 2])
PRICES = {
    "two norm": lambda: relaxations.squared_two_norm(0.3),
    "elastic net": lambda: relaxations.elastic_net(0.1, 0.3),
    "groups": lambda: relaxations.group_ball(GROUPS + 5),
}


def price_of_votes(name, votes):
    """g of votes [n] in float64."""
    if name == "groups":
        norms = np.sqrt(np.bincount(GROUPS, votes**2))
        return 0.0 if norms.sum() <= 1 + 1e-12 else np.inf
    absolute = 0.1 if name == "elastic net" else 0.0
    return absolute * np.abs(votes).sum() + 0.15 * np.sum(votes**2)


def price_of_edges(name, edges):
    """g* of edges [n] in float64."""
    if name == "groups":
        return np.sqrt(np.bincount(GROUPS, edges**2)).max()
    absolute = 0.1 if name == "elastic net" else 0.0
    return np.sum(np.maximum(np.abs(edges) - absolute, 0) ** 2) / 0.6


def least_over_weights(name, game, cap):
    """The minimum of g*(A'd) over distributions with no entry above the cap, by sequential
    quadratic programming.
    """
    size = len(game)
    rules = [{"type": "eq", "fun": lambda x: x[:size].sum() - 1}]
    start = np.append(np.full(size, 1 / size), 2.0)
    if name == "groups":
        rules += [
            {"type": "ineq", "fun": lambda x, k=k: x[-1] - np.sum((x[:-1] @ game)[k] ** 2)}
            for k in (group == GROUPS for group in range(3))
        ]
        found = scipy.optimize.minimize(
            lambda x: x[-1],
            start,
            method="SLSQP",
            bounds=[(0, cap)] * size + [(0, None)],
            constraints=rules,
            options={"ftol": 1e-14, "maxiter": 500},
        )
        return np.sqrt(found.fun)
    return scipy.optimize.minimize(
        lambda x: price_of_edges(name, x[:-1] @ game),
        start,
        method="SLSQP",
        bounds=[(0, cap)] * size + [(0, 3)],
        constraints=rules,
        options={"ftol": 1e-14, "maxiter": 500},
    ).fun


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "groups")) for name in PRICES]
)
def test_prices_of_votes_meet_the_dual(name):
    """Both bounds are recomputed from the arrays; the optimum is that of another solver."""
    rng = np.random.default_rng(31)
    games = np.clip(rng.uniform(-0.7, 1, (2, 12, 6)), -1, 1).astype(np.float32)
    found = jax.jit(
        jax.vmap(
            lambda game: relaxed_margin.solve(
                game, relaxations.soft_margin(nu=0.5), votes=PRICES[name](), tolerance=1e-4
            )
        )
    )(games)
    for index, game in enumerate(games.astype(float)):
        one = jax.tree.map(lambda leaf, index=index: np.asarray(leaf[index], float), found)
        weights = one.example_weights / one.example_weights.sum()
        primal = np.sort(game @ one.coefficients)[:6].mean() - price_of_votes(
            name, one.coefficients
        )
        excess = np.maximum(weights - 1 / 6, 0).sum()
        dual = price_of_edges(name, weights @ game)
        assert primal - 1e-5 <= one.lower_bound <= primal + 1e-7
        assert dual - 1e-7 <= one.upper_bound <= dual + 1e-5 + 20 * excess
        assert one.upper_bound - one.lower_bound <= 1e-4
        best = least_over_weights(name, game, 1 / 6)
        assert one.lower_bound - 1e-6 <= best <= one.upper_bound + 1e-6
        assert best > 0.02


@pytest.mark.parametrize("name", PRICES)
def test_proximal_maps_of_prices_beat_points_around_them(name, x64):
    rng = np.random.default_rng(32)
    for step in (0.05, 0.7):
        votes = rng.normal(size=6) * np.array([1, 1, 0.1, 0.02, 1, 0.0])
        found = np.asarray(PRICES[name]().proximal(jnp.asarray(votes), jnp.asarray(step)))

        def value(w, votes=votes, step=step):
            return np.sum((w - votes) ** 2) / 2 + step * price_of_votes(name, w)

        around = found + rng.normal(size=(4000, 6)) * 10.0 ** rng.uniform(-5, 0, (4000, 1))
        assert np.isfinite(value(found))
        assert min(map(value, around)) >= value(found) - 1e-9


def test_prices_are_conjugates_of_each_other(x64):
    rng = np.random.default_rng(33)
    for name, make in PRICES.items():
        price = make()
        edges = rng.uniform(-1, 1, 6)
        for moved in (0.0, 0.2):
            found = float(price.conjugate_of(jnp.asarray(edges), jnp.asarray(moved)))
            exact = price_of_edges(name, np.abs(edges) + moved)
            assert exact <= found <= exact * (1 + 1e-12)
        votes = np.asarray(price.allowed(jnp.asarray(rng.normal(size=6))))
        exact = price_of_votes(name, votes)
        assert exact <= float(price.cost_of(jnp.asarray(votes))) <= exact * (1 + 1e-12)
        assert votes @ edges - exact <= price_of_edges(name, edges)


def test_costs_of_votes_that_cannot_be_taken_are_named():
    dataset = jboost.make_dataset(np.eye(4), [1, 1, -1, -1])
    with pytest.raises(ValueError, match="^votes is a ElasticNet, and fit takes costs of"):
        relaxed_margin.fit(dataset, learners.pool(), votes=PRICES["elastic net"]())
    with pytest.raises(ValueError, match="^update is 'pairwise', which"):
        relaxed_margin.fit(
            dataset, learners.pool(), update="pairwise", votes=relaxations.squared_norm(1.0)
        )
    with pytest.raises(ValueError, match=r"^votes has groups of shape \(6,\), and margins 4"):
        relaxed_margin.solve(np.eye(4), relaxations.hard_margin(), votes=PRICES["groups"]())
    with pytest.raises(ValueError, match="^groups holds -1"):
        relaxations.group_ball([0, -1])
    with pytest.raises(ValueError, match="^absolute is -1"):
        relaxations.elastic_net(-1.0, 1.0)
    with pytest.raises(ValueError, match="^squared is 0"):
        relaxations.elastic_net(0.0, 0.0)
    traced = jax.jit(
        lambda groups: relaxed_margin.solve(
            np.eye(2), relaxations.hard_margin(), votes=relaxations.group_ball(groups)
        )
    )(jnp.array([0, 2]))
    assert int(traced.status) == int(Status.INVALID_INPUT)


@pytest.mark.parametrize(
    "update", slow_but(["fully_corrective", "analytic", "line_search"], "line_search")
)
def test_updates_reach_the_optimum_of_the_squared_norm(update):
    """For the hard margin it is rho^2 / (2 strength), with rho the margin of the unit ball."""
    game = np.array([[1.0, 1.0, -1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])
    labels = np.array([1, -1, 1])
    fitted = relaxed_margin.fit(
        jboost.make_dataset(game * labels[:, None], labels),
        learners.pool(),
        relaxation=relaxations.hard_margin(),
        votes=relaxations.squared_norm(0.5),
        tolerance=0.02,
        update=update,
        max_rounds=1200,
    )
    certificate = fitted.certificate
    assert certificate.lower_bound <= 1 / 9 <= certificate.upper_bound
    assert certificate.upper_bound - certificate.lower_bound <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("update", ["fully_corrective", "analytic", "pairwise", "line_search"])
def test_every_update_reaches_the_optimum_over_a_pool(update):
    game = random_games(1, seed=12)[0]
    labels = np.where(np.arange(ROWS) % 2, 1, -1)
    dataset = jboost.make_dataset(game * labels[:, None], labels)
    fitted = relaxed_margin.fit(
        dataset,
        learners.pool(),
        relaxation=relaxations.soft_margin(nu=0.5),
        tolerance=0.05,
        update=update,
        max_rounds=2000,
    )
    optimum = soft_optimum(game, 0.5)
    certificate = fitted.certificate
    assert int(fitted.status) == jboost.status.Status.OPTIMAL
    assert certificate.lower_bound - 1e-9 <= optimum <= certificate.upper_bound + 1e-9
    assert certificate.seen_upper_bound <= certificate.upper_bound + 1e-6
    scores = np.asarray(jboost.predict_scores(fitted.ensemble, dataset.features), np.float64)
    assert soft_value(scores * labels, 0.5) >= float(certificate.lower_bound) - 1e-6
    edges = np.abs(np.asarray(certificate.example_weights, np.float64) @ game)
    assert edges.max() <= float(certificate.upper_bound) + 1e-6


@pytest.mark.slow
def test_the_paper_s_step_keeps_its_promise():
    """T <= 32 log(m) / eps^2 (Theorem 9)."""
    games = random_games(6, seed=21)
    tolerance = 0.3
    promised = int(32 * np.log(ROWS) / tolerance**2)

    def rounds(game):
        dataset = jboost.make_dataset(game, jnp.ones(ROWS))
        fitted = relaxed_margin.fit(
            dataset,
            learners.pool(),
            relaxation=relaxations.soft_margin(nu=0.3),
            tolerance=tolerance,
            update="analytic",
            max_rounds=promised,
        )
        return fitted.num_rounds, fitted.status

    num_rounds, status = jax.vmap(rounds)(jnp.asarray(games, jnp.float32))
    assert (np.asarray(status) == jboost.status.Status.OPTIMAL).all()
    assert (np.asarray(num_rounds) <= promised).all()


@pytest.mark.slow
def test_stumps_are_certified_over_all_of_them():
    rng = np.random.default_rng(2)
    features, labels = rng.normal(size=(30, 2)), rng.choice([-1, 1], 30)
    dataset = jboost.make_dataset(features, labels)
    fitted = relaxed_margin.fit(
        dataset,
        learners.stumps(),
        relaxation=relaxations.soft_margin(nu=0.5),
        tolerance=5e-3,
        max_rounds=100,
    )
    columns = [np.ones(30)] + [
        np.where(features[:, j] > t, 1, -1) for j in range(2) for t in features[:, j]
    ]
    optimum = soft_optimum(np.stack(columns, axis=1) * labels[:, None], 0.5)
    assert fitted.certificate.lower_bound - 1e-9 <= optimum <= fitted.certificate.upper_bound + 1e-9
    assert int(fitted.status) == 0


@pytest.mark.slow
def test_a_trained_network_proves_nothing_and_says_so():
    import optax

    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 2))
    labels = np.where(features[:, 0] * features[:, 1] > 0, 1, -1)
    dataset = jboost.make_dataset(features, labels)
    learner = learners.trained(*learners.mlp((4,)), optax.adam(0.05), num_steps=20)
    fit = jax.jit(
        lambda key: relaxed_margin.fit(
            dataset,
            learner,
            key=key,
            relaxation=relaxations.soft_margin(nu=0.3),
            max_rounds=4,
            tolerance=1e-3,
        )
    )
    fitted = jax.vmap(fit)(jax.random.split(jax.random.key(0), 5))
    assert np.isinf(fitted.certificate.upper_bound).all()
    assert np.isfinite(fitted.certificate.seen_upper_bound).all()
    assert (fitted.certificate.lower_bound <= fitted.certificate.seen_upper_bound).all()
    with pytest.raises(ValueError, match="key"):
        relaxed_margin.fit(dataset, learner, max_rounds=2)


@pytest.mark.slow
def test_step_by_hand_is_fit():
    game = random_games(1, seed=30)[0]
    dataset = jboost.make_dataset(game, np.ones(ROWS))
    options = {
        "relaxation": relaxations.soft_margin(nu=0.4),
        "tolerance": 0.01,
        "update": "pairwise",
    }
    state = relaxed_margin.init(dataset, learners.pool(), max_rounds=20, **options)
    state, info = jax.jit(
        lambda state: jax.lax.scan(
            lambda now, _: relaxed_margin.step(now, dataset), state, length=25
        )
    )(state)
    fitted = relaxed_margin.fit(dataset, learners.pool(), max_rounds=20, **options)
    by_hand = relaxed_margin.finish(state)
    np.testing.assert_allclose(
        by_hand.certificate.lower_bound, fitted.certificate.lower_bound, rtol=1e-5
    )
    assert int(by_hand.num_rounds) == int(fitted.num_rounds) == int(info.num_rounds[-1])


@pytest.mark.slow
def test_a_pool_no_better_than_chance_ends_at_once():
    game = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    solution = relaxed_margin.solve(game, relaxations.hard_margin())
    fitted = relaxed_margin.fit(
        jboost.make_dataset(game, np.ones(3)), learners.pool(), relaxation=relaxations.hard_margin()
    )
    assert int(solution.status) == int(fitted.status) == jboost.status.Status.NO_EDGE
    assert float(solution.lower_bound) == float(fitted.certificate.lower_bound) == 0
    assert solution.upper_bound <= 1e-3
    assert int(fitted.num_rounds) < 100


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (3, 0)])
def test_tiny_games(shape):
    solution = relaxed_margin.solve(np.ones(shape), relaxations.soft_margin(nu=1.0))
    value = float(shape[1] > 0)
    assert solution.lower_bound <= value <= solution.upper_bound + 1e-30
    assert solution.upper_bound - solution.lower_bound <= 1e-3
    assert solution.coefficients.shape == shape[1:]


@pytest.mark.slow
def test_infeasible_relaxations():
    game = np.ones((4, 2))
    for relaxation in (relaxations.soft_margin(0.2), relaxations.norm_ball(2, 0.4)):
        with pytest.raises(ValueError, match="relaxation"):
            relaxed_margin.solve(game, relaxation)
        with pytest.raises(ValueError, match="relaxation"):
            relaxed_margin.fit(
                jboost.make_dataset(game, np.ones(4)), learners.pool(), relaxation=relaxation
            )
    traced = jax.jit(lambda cap: relaxed_margin.solve(game, relaxations.soft_margin(cap)))(0.2)
    assert int(traced.status) == jboost.status.Status.INFEASIBLE
    assert np.isinf(traced.upper_bound)
    with pytest.raises(ValueError, match="radius"):
        relaxations.norm_ball(1, 0.5)


@pytest.mark.slow
def test_bad_values_and_arguments():
    soft = relaxations.soft_margin(nu=0.5)
    for game in (np.array([[1.0, np.nan]]), np.array([[2.0, 0.0]])):
        assert int(relaxed_margin.solve(game, soft).status) == jboost.status.Status.INVALID_INPUT
    assert (
        int(relaxed_margin.solve(np.ones((2, 2)), soft, mask=np.zeros(2, bool)).status)
        == jboost.status.Status.INVALID_INPUT
    )
    dataset = jboost.make_dataset(np.ones((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="update"):
        relaxed_margin.fit(dataset, learners.pool(), update="corrective")
    with pytest.raises(ValueError, match="update"):
        relaxed_margin.fit(
            dataset, learners.pool(), update="pairwise", votes=relaxations.squared_norm(1.0)
        )
    with pytest.raises(ValueError, match="stop_on"):
        relaxed_margin.fit(dataset, learners.pool(), stop_on="never")
    with pytest.raises(ValueError, match="tolerance"):
        relaxed_margin.solve(np.ones((2, 2)), soft, tolerance=0.0)
    with pytest.raises(ValueError, match="config"):
        relaxed_margin.solve(np.ones((2, 2)), soft, config={})
    with pytest.raises(ValueError, match="config"):
        relaxed_margin.fit(dataset, learners.pool(), config={})
    with pytest.raises(ValueError, match="relaxation"):
        relaxed_margin.solve(np.ones((2, 2)), "soft")


@pytest.mark.slow
def test_nothing_is_certified_from_outputs_that_are_not_allowed():
    fit = jax.jit(lambda dataset: relaxed_margin.fit(dataset, learners.pool(), max_rounds=5))
    for features, labels in ((np.full((3, 2), 2.0), [1, 1, 1]), (np.ones((3, 2)), [1, 1, 5])):
        fitted = fit(jboost.make_dataset(features, np.array(labels)))
        assert int(fitted.status) == jboost.status.Status.INVALID_INPUT
        assert np.isnan(fitted.certificate.lower_bound)
        assert np.isnan(fitted.certificate.upper_bound)


@pytest.mark.slow
def test_vmap_over_nu_equals_a_loop():
    game = random_games(1, seed=8)[0]
    nus = jnp.array([0.2, 0.5, 0.9])
    together = jax.vmap(lambda nu: relaxed_margin.solve(game, relaxations.soft_margin(nu=nu)))(nus)
    for index, nu in enumerate(nus):
        alone = relaxed_margin.solve(game, relaxations.soft_margin(nu=nu))
        np.testing.assert_allclose(together.lower_bound[index], alone.lower_bound, atol=1e-3)
        assert int(together.status[index]) == int(alone.status) == 0


@pytest.mark.slow
def test_no_false_certificate_where_only_rounding_is_left():
    """Sign matrices to the last digit of float32, where steps shrink to nothing: weights stay a
    distribution, bounds valid.
    """
    random = np.random.default_rng(5)
    games = random.choice([-1.0, 1.0], size=(60, 6, 4))
    found = jax.jit(
        jax.vmap(
            lambda game: relaxed_margin.solve(
                game, relaxations.hard_margin(), tolerance=1e-6, config=SolverConfig(20_000)
            )
        )
    )(games)
    values = np.array([max(-_least_edge(game), 0.0) for game in games])
    np.testing.assert_allclose(found.example_weights.sum(axis=1), 1, atol=1e-5)
    assert (found.lower_bound <= values + 1e-9).all()
    assert (found.upper_bound >= values - 1e-9).all()
    assert (found.upper_bound - found.lower_bound <= 1e-3).all()


def _least_edge(game):
    """Minus the least over distributions of the largest |edge|, by HiGHS."""
    num_examples, num_columns = game.shape
    ones = -np.ones((num_columns, 1))
    rows = np.vstack([np.hstack([game.T, ones]), np.hstack([-game.T, ones])])
    return -linprog(
        np.append(np.zeros(num_examples), 1.0),
        A_ub=rows,
        b_ub=np.zeros(2 * num_columns),
        A_eq=[np.append(np.ones(num_examples), 0.0)],
        b_eq=[1.0],
        bounds=[(0, None)] * (num_examples + 1),
    ).fun


@pytest.mark.slow
def test_weights_of_any_size_count():
    """The hard margin does not depend on positive weights, however small their share is, nor on
    their unit.
    """
    game = [[1.0], [-1.0]]
    for weights in ([1e30, 1e-30], [3e38, 3e38], [2e-38, 2e-38]):
        solution = relaxed_margin.solve(game, relaxations.hard_margin(), weights=weights)
        assert solution.lower_bound <= 0 <= solution.upper_bound <= 1e-3
    fitted = relaxed_margin.fit(
        jboost.make_dataset([[0.0], [1.0]], [1, -1], weights=[3e38, 3e38]), learners.stumps()
    )
    assert fitted.certificate.lower_bound > 0.99
    with pytest.raises(ValueError, match=r"weights\[1\].*count as 0.*multiply"):
        jboost.validate(jboost.make_dataset([[0.0], [1.0]], [1, -1], weights=[1.0, 1e-40]))
    with pytest.raises(ValueError, match=r"weights\[1\].*count as 0.*multiply"):
        relaxed_margin.solve(game, relaxations.hard_margin(), weights=[1.0, 1e-40])


@pytest.mark.slow
@pytest.mark.parametrize("update", ["pairwise", "line_search", "analytic"])
def test_every_update_votes_against_a_hypothesis_of_negative_edge(update):
    dataset = jboost.make_dataset([[1.0], [-0.1], [-0.1]], [1, 1, 1])
    options = {
        "relaxation": relaxations.soft_margin(nu=1.0),
        "update": update,
        "tolerance": 0.05,
        "max_rounds": 200,
    }
    fitted = relaxed_margin.fit(dataset, learners.signs(learners.pool()), **options)
    assert fitted.certificate.lower_bound >= 1 / 3 - 0.05
    assert fitted.ensemble.votes[0, 0] < -0.8
    np.testing.assert_array_equal(jboost.predict(fitted.ensemble, dataset.features), [-1, 1, 1])


def test_wrong_arguments_are_named():
    dataset = jboost.make_dataset([[0.0], [1.0]], [1, -1])
    with pytest.raises(ValueError, match="relaxation is a NoneType"):
        relaxed_margin.solve([[1.0], [-1.0]], None)
    with pytest.raises(ValueError, match="votes is a str"):
        relaxed_margin.fit(dataset, learners.stumps(), votes="x")
    with pytest.raises(ValueError, match="dataset is a tuple"):
        relaxed_margin.fit(([[1.0]], [1]), learners.stumps())
    with pytest.raises(ValueError, match="learner is a NoneType without init"):
        relaxed_margin.fit(dataset, None)
    with pytest.raises(ValueError, match="dataset has no examples"):
        relaxed_margin.fit(jboost.make_dataset(np.zeros((0, 2)), []), learners.pool())
    with pytest.raises(ValueError, match="margins has no rows"):
        relaxed_margin.solve(np.zeros((0, 3)), relaxations.soft_margin(nu=0.5))


@pytest.mark.slow
def test_a_price_of_votes_and_a_penalty_meet():
    """One vote of edge 1 for one example: 1 / (2 strength) and the penalty."""
    solution = relaxed_margin.solve(
        [[1.0]],
        relaxations.norm_penalty(1, 0.5),
        votes=relaxations.squared_norm(0.1),
        config=SolverConfig(4000),
    )
    assert int(solution.status) == jboost.status.Status.OPTIMAL
    assert solution.lower_bound <= 5.5 <= solution.upper_bound


@pytest.mark.slow
def test_data_from_outside_a_trace_are_taken_as_they_are():
    dataset, soft, caps = (
        jboost.make_dataset([[0.0], [1.0]], [1, -1]),
        relaxations.soft_margin(nu=0.5),
        relaxations.soft_margin(0.3),
    )

    def fit(tolerance, relaxation):
        state = relaxed_margin.init(
            dataset, learners.stumps(), relaxation=relaxation, tolerance=tolerance
        )
        weights = {"weights": dataset.weights, "mask": dataset.mask}
        solution = relaxed_margin.solve(
            jnp.ones((2, 1)), relaxation, tolerance=tolerance, **weights
        )
        return (
            relaxed_margin.fit(
                dataset, learners.stumps(), relaxation=relaxation, tolerance=tolerance
            ).status,
            state.status,
            solution.status,
        )

    jax.eval_shape(lambda tolerance: fit(tolerance, soft), 0.05)
    jax.eval_shape(
        lambda tolerances: jax.lax.map(lambda tolerance: fit(tolerance, soft), tolerances),
        jnp.full(2, 0.05),
    )
    with pytest.raises(ValueError, match="allows no distribution over 2 examples"):
        jax.eval_shape(lambda tolerance: fit(tolerance, caps), 0.05)


@pytest.mark.slow
def test_init_says_what_fit_says_of_weights_that_are_not_allowed():
    init = jax.jit(lambda dataset: relaxed_margin.init(dataset, learners.stumps()))
    for wrong in ({"weights": [np.nan, 1.0]}, {"mask": [False, False]}, {"weights": [0.0, 0.0]}):
        state = init(jboost.make_dataset([[1.0], [2.0]], [1, -1], **wrong))
        assert int(state.status) == jboost.status.Status.INVALID_INPUT
        assert np.isnan(state.certificate.upper_bound)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["pairwise", "line_search", "analytic"])
def test_every_update_moves_votes_towards_examples_of_little_weight(update):
    """The hard margin 1 / 2 does not depend on weights; the promise of the paper's step is one
    about the least share.
    """
    weights, tolerance = [1e6, 1.0], 0.5 if update == "analytic" else 0.01
    dataset = jboost.make_dataset([[1.0, 0.0], [0.0, 1.0]], [1, 1], weights=weights)
    promised = int(32 * np.log(sum(weights)) / tolerance**2) if update == "analytic" else 20
    options = {
        "relaxation": relaxations.hard_margin(),
        "update": update,
        "tolerance": tolerance,
        "max_rounds": promised,
    }
    fitted = relaxed_margin.fit(dataset, learners.pool(), **options)
    assert int(fitted.status) == jboost.status.Status.OPTIMAL
    assert (
        fitted.certificate.lower_bound
        <= 0.5
        <= fitted.certificate.upper_bound
        <= fitted.certificate.lower_bound + tolerance
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda number: (relaxations.soft_margin(nu=1.0), relaxations.squared_norm(number)),
        lambda number: (relaxations.norm_ball(2, number), relaxations.unit_ball()),
    ],
)
def test_traced_parameters_that_are_not_allowed_end_in_a_status(build):
    def solve(number):
        relaxation, votes = build(number)
        return relaxed_margin.solve([[1.0]], relaxation, votes=votes)

    solutions = jax.jit(jax.vmap(solve))(jnp.array([1.0, -1.0]))
    assert solutions.status.tolist() == [
        jboost.status.Status.OPTIMAL,
        jboost.status.Status.INVALID_INPUT,
    ]
    assert np.isnan([solutions.lower_bound[1], solutions.upper_bound[1]]).all()
    dataset = jboost.make_dataset([[1.0], [2.0]], [1, -1])
    state = jax.jit(
        lambda number: relaxed_margin.init(
            dataset, learners.stumps(), relaxation=build(number)[0], votes=build(number)[1]
        )
    )(-1.0)
    assert int(state.status) == jboost.status.Status.INVALID_INPUT
    assert np.isnan(state.certificate.lower_bound)


def test_bounds_that_cross_are_not_optimal():
    yes = jnp.ones((), bool)
    for lower, upper, wanted in (
        (1.0, 0.5, "NUMERICAL_ERROR"),
        (1.0, 1 - 1e-6, "OPTIMAL"),
        (0.5, 1.0, "ROUND_LIMIT"),
    ):
        status = status_of(
            relaxations.soft_margin(nu=0.5),
            jnp.float32(lower),
            jnp.float32(upper),
            jnp.float32(1e-3),
            yes,
            yes,
        )
        assert jboost.status.Status(int(status)).name == wanted


@pytest.mark.slow
def test_integers_have_no_magnitude_that_overflows():
    assert (
        int(
            relaxed_margin.solve(
                np.array([[-128]], np.int8), relaxations.soft_margin(nu=1.0)
            ).status
        )
        == jboost.status.Status.INVALID_INPUT
    )
    fitted = relaxed_margin.fit(
        jboost.make_dataset(np.array([[-128]], np.int8), [1]),
        learners.pool(),
        relaxation=relaxations.hard_margin(),
    )
    assert int(fitted.status) == jboost.status.Status.INVALID_INPUT
