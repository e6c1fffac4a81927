"""Derivatives of public functions against central differences, in forward and reverse mode; what
has none says so.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import jboost
from jboost import lp, lpboost, relaxations, relaxed_margin
from jboost.base import derivatives
from marks import slow_but


def test_mean_exponential_has_the_derivative_of_the_mean_loss_and_keeps_its_bound():
    log_losses = jnp.log(jnp.array([0.1, 0.2, 0.3])) - jnp.array([0.5, -2.0, 8.0])
    log_losses = jnp.append(log_losses, -jnp.inf)

    def mean(log_losses):
        return jboost.losses.mean_exponential(
            jboost.losses.ExponentialLoss(log_losses, 4 + 2 * jnp.max(jnp.abs(log_losses[:3])))
        )

    losses = np.exp(np.asarray(log_losses, np.float64))
    assert losses.sum() <= mean(log_losses) <= losses.sum() * (1 + 1e-5)
    for jacobian in (jax.jacfwd, jax.jacrev, lambda function: jax.jit(jax.grad(function))):
        np.testing.assert_allclose(jacobian(mean)(log_losses), losses, rtol=1e-5)
    np.testing.assert_allclose(jax.hessian(mean)(log_losses), np.diag(losses), rtol=1e-5)


# --- what has none --------------------------------------------------------------------------------


def with_a_refused_part(x):
    return jnp.sum(x**2), derivatives.refuse(jnp.sin(x), "f(...).phase", "use f(...).size")


@pytest.mark.parametrize(
    "wrap", [lambda f: f, jax.jit, jax.checkpoint], ids=["plain", "jit", "remat"]
)
def test_refused_results_raise_in_reverse_mode_and_others_beside_them_do_not(wrap):
    x = jnp.arange(3.0)
    size, phase = (
        wrap(lambda x, place=place: jnp.sum(with_a_refused_part(x)[place])) for place in (0, 1)
    )
    np.testing.assert_array_equal(jax.grad(size)(x), 2 * x)
    np.testing.assert_array_equal(jax.vmap(jax.grad(size))(jnp.stack([x, x]))[1], 2 * x)
    np.testing.assert_array_equal(jax.hessian(size)(x), 2 * np.eye(3))
    assert jax.jvp(size, (x,), (x,))[1] == 2 * jnp.sum(x**2)
    assert np.isnan(jax.jvp(phase, (x,), (x,))[1])
    with pytest.raises(TypeError, match=r"f\(...\).phase has no derivative: use f\(...\).size"):
        jax.grad(phase)(x)
    with pytest.raises(TypeError, match="has no derivative"):
        jax.vmap(jax.grad(phase))(jnp.stack([x, x]))


# --- linear programs ------------------------------------------------------------------------------

METHODS = {"interior point": lp.InteriorPointConfig(), "first order": lp.FirstOrderConfig()}
VALUES = ("primal_objective", "dual_objective", "lower_bound", "upper_bound")


def at_least(side, config):
    """The program of least x + y with x + y <= side and x >= 0: infeasible where side
    is below 0.
    """
    return lp.solve(lp.make_program([1.0, 1.0], [[1.0, 1.0]], row_upper=side[None]), config=config)


@pytest.mark.parametrize("name", slow_but(METHODS))
def test_the_derivative_of_lp_solve_is_nan_without_a_solution_in_both_modes(name):
    def values(side):
        solution = at_least(side, METHODS[name])
        return {key: getattr(solution, key) for key in (*VALUES, "primal", "dual")}

    sides = jnp.array([-1.0, 1.0])
    for jacobian in (jax.jacfwd, jax.jacrev):
        slopes = jax.jit(jax.vmap(jacobian(values)))(sides)
        for key, slope in slopes.items():
            assert np.all(np.isnan(slope[0])), key
            assert np.all(np.isfinite(slope[1])), key


def boxed_program(seed):
    """A random program in boxes, whose solution is unique and not degenerate, as its numbers."""
    rng = np.random.default_rng(seed)
    matrix, point = rng.normal(size=(4, 6)), rng.uniform(0.2, 0.8, 6)
    return (
        rng.normal(size=6),
        matrix,
        matrix @ point - 0.1,
        matrix @ point + 0.1,
        np.zeros(6),
        np.ones(6),
    )


def optimal_value(objective, matrix, row_lower, row_upper, lower, upper):
    """By HiGHS."""
    rows, sides = np.concatenate([matrix, -matrix]), np.concatenate([row_upper, -row_lower])
    return linprog(objective, rows, sides, bounds=np.stack([lower, upper], 1)).fun


def slope_of(function, parts, directions, step=1e-6):
    """The derivative along the directions, by central differences."""
    ahead, behind = (
        function(
            *(part + sign * step * along for part, along in zip(parts, directions, strict=True))
        )
        for sign in (1, -1)
    )
    return (np.asarray(ahead) - np.asarray(behind)) / (2 * step)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_objectives_and_bounds_of_lp_solve_have_the_derivative_of_the_optimal_value(name, x64):
    parts = boxed_program(3)
    directions = [np.random.default_rng(4).normal(size=part.shape) for part in parts]
    expected = slope_of(optimal_value, parts, directions)

    def values(*parts):
        program = lp.LinearProgram(*parts)
        solution = lp.solve(program, tolerance=1e-9, config=METHODS[name])
        again = lp.recompute_bounds(program, jax.lax.stop_gradient(solution))
        return jnp.stack([*(getattr(solution, key) for key in VALUES), *again])

    arguments = [jnp.asarray(part) for part in parts]
    _, forward = jax.jvp(values, arguments, directions)
    jacobians = jax.jit(jax.jacrev(values, argnums=tuple(range(6))))(*arguments)
    reverse = sum(
        jnp.tensordot(jacobian, along, along.ndim)
        for jacobian, along in zip(jacobians, directions, strict=True)
    )
    np.testing.assert_allclose(forward, np.full(6, expected), rtol=1e-5)
    np.testing.assert_allclose(reverse, np.full(6, expected), rtol=1e-5)


@pytest.mark.slow
def test_the_hessian_of_an_optimal_value_is_that_of_differences_of_its_gradient(x64):
    objective, *rest = (jnp.asarray(part) for part in boxed_program(3))

    def value(pair):
        return lp.solve(
            lp.LinearProgram(pair[:6], rest[0], pair[6:], *rest[2:]), tolerance=1e-10
        ).lower_bound

    point = jnp.concatenate([objective, rest[1]])
    hessian = jax.jit(jax.hessian(value))(point)
    gradient = jax.jit(jax.grad(value))
    expected = np.stack([slope_of(gradient, [point], [along], step=1e-5) for along in np.eye(10)])
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(hessian, expected, atol=1e-5)


@pytest.mark.slow
def test_gradients_of_lp_solve_are_the_same_in_a_scan_and_in_a_batch(x64):
    objective, *rest = (jnp.asarray(part) for part in boxed_program(3))
    objectives = jnp.stack([objective, 2 * objective, objective[::-1]])

    def value(objective):
        solution = lp.solve(lp.LinearProgram(objective, *rest), tolerance=1e-9)
        return solution.upper_bound + jnp.sum(solution.primal**2)

    def scanned(objectives):
        return jax.lax.scan(
            lambda total, objective: (total + value(objective), None), 0.0, objectives
        )[0]

    expected = np.stack([jax.grad(value)(each) for each in objectives])
    one_by_one = jax.jit(jax.vmap(jax.grad(value)))(objectives)
    together = jax.jit(jax.grad(lambda objectives: jnp.sum(jax.vmap(value)(objectives))))(
        objectives
    )
    for found in (one_by_one, together, jax.jit(jax.grad(scanned))(objectives)):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_residuals_of_lp_solve_have_no_derivative_and_infeasible_programs_one_that_is_nan():
    assert np.isnan(
        jax.grad(lambda side: at_least(side, METHODS["interior point"]).primal_objective)(-1.0)
    )
    with pytest.raises(TypeError, match=r"jboost.lp.solve\(...\).duality_gap has no derivative"):
        jax.grad(lambda side: at_least(side, METHODS["interior point"]).duality_gap)(1.0)


def nearest_of_two(sides, derivative):
    """The least x that is at least both sides: degenerate where they are equal."""
    program = lp.make_program([1.0], [[1.0], [1.0]], row_lower=sides, lower=-9.0, upper=9.0)
    return lp.solve(program, derivative=derivative, config=METHODS["interior point"])


@pytest.mark.slow
def test_the_least_norm_derivative_of_a_degenerate_solution_is_the_mean_of_its_neighbours():
    slope = jax.jit(
        jax.jacrev(lambda sides, kind: nearest_of_two(sides, kind).primal[0]), static_argnums=1
    )
    np.testing.assert_allclose(slope(jnp.array([1.0, 1.0]), "least_norm"), [0.5, 0.5], atol=1e-3)
    assert sorted(np.round(slope(jnp.array([1.0, 1.0]), "vertex"), 3).tolist()) == [0, 1]
    for kind in ("vertex", "least_norm"):
        np.testing.assert_allclose(slope(jnp.array([1.0, 2.0]), kind), [0.0, 1.0], atol=1e-3)


# --- LP-Boost -------------------------------------------------------------------------------------

MASTERS = {
    "simplex": (lpboost.SimplexConfig(), None),
    "interior point": (lp.InteriorPointConfig(), 1e-9),
    "first order": (lp.FirstOrderConfig(), 1e-9),
    "game": (jboost.relaxed_margin.SolverConfig(), 1e-7),
}
GAME = np.random.default_rng(3)
MARGINS, WEIGHTS, NU = GAME.uniform(-1, 1, (12, 5)), GAME.uniform(0.5, 2, 12), np.array(0.37)
DIRECTIONS = GAME.normal(size=MARGINS.shape), GAME.normal(size=12), np.array(0.3)
ON_VOTES, ON_WEIGHTS = GAME.normal(size=5), GAME.normal(size=12)


def soft_margin_by_highs(margins, weights, nu):
    """Sums of the votes and of the example weights, and the largest soft margin twice."""
    rows, columns = margins.shape
    costs = np.concatenate([np.zeros(columns), [-1], weights / weights.sum() / nu])
    sides = np.concatenate([-margins, np.ones((rows, 1)), -np.eye(rows)], axis=1)
    sums = np.concatenate([np.ones(columns), np.zeros(1 + rows)])[None]
    found = linprog(
        costs,
        sides,
        np.zeros(rows),
        sums,
        [1],
        [(0, None)] * columns + [(None, None)] + [(0, None)] * rows,
    )
    return (
        ON_VOTES @ found.x[:columns],
        ON_WEIGHTS @ -found.ineqlin.marginals,
        -found.fun,
        -found.fun,
    )


def soft_margin(name, margins, weights, nu):
    config, tolerance = MASTERS[name]
    solution = lpboost.solve(margins, nu=nu, weights=weights, config=config, tolerance=tolerance)
    sums = ON_VOTES @ solution.coefficients, ON_WEIGHTS @ solution.example_weights
    return jnp.stack([*sums, solution.lower_bound, solution.upper_bound])


def check_soft_margin(name):
    expected = slope_of(soft_margin_by_highs, (MARGINS, WEIGHTS, NU), DIRECTIONS)
    arguments, function = (
        [jnp.asarray(part) for part in (MARGINS, WEIGHTS, NU)],
        functools.partial(soft_margin, name),
    )
    _, forward = jax.jit(lambda *parts: jax.jvp(function, parts, DIRECTIONS))(*arguments)
    jacobians = jax.jit(jax.jacrev(function, argnums=(0, 1, 2)))(*arguments)
    reverse = sum(
        jnp.tensordot(jacobian, along, along.ndim)
        for jacobian, along in zip(jacobians, DIRECTIONS, strict=True)
    )
    np.testing.assert_allclose(forward, expected, rtol=1e-4)
    np.testing.assert_allclose(reverse, expected, rtol=1e-4)


@pytest.mark.parametrize("name", slow_but(MASTERS))
def test_lpboost_solve_has_the_derivatives_of_its_linear_program_by_every_method(name, x64):
    check_soft_margin(name)


@pytest.mark.slow
def test_bounds_of_lpboost_solve_have_the_envelope_derivative():
    margins = jnp.asarray(MARGINS, jnp.float32)
    solution, gradient = jax.jit(
        lambda margins: (
            lpboost.solve(margins, nu=NU),
            jax.grad(lambda a: lpboost.solve(a, nu=NU).upper_bound)(margins),
        )
    )(margins)
    np.testing.assert_allclose(
        gradient, np.outer(solution.example_weights, solution.coefficients), atol=1e-6
    )


@pytest.mark.slow
def test_lpboost_solve_is_differentiated_in_batches_and_on_a_mesh(x64):
    margins = jnp.asarray(np.stack([MARGINS, MARGINS[::-1], -MARGINS]))

    def value(margins):
        return soft_margin("simplex", margins, jnp.asarray(WEIGHTS), 0.37) @ jnp.array(
            [0.0, 1.0, 1.0, 1.0]
        )

    expected = np.stack([jax.grad(value)(each) for each in margins])
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(value)))(margins), expected, atol=1e-9)
    np.testing.assert_allclose(
        jax.jit(jax.grad(lambda margins: jnp.sum(jax.vmap(value)(margins))))(margins),
        expected,
        atol=1e-9,
    )
    mesh = jax.make_mesh(
        (4,), ("examples",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:4]
    )
    spread = jax.device_put(
        margins[0], jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("examples"))
    )
    on_mesh = jax.grad(lambda margins: lpboost.solve(margins, nu=0.37, tolerance=1e-6).lower_bound)(
        spread
    )
    alone = jax.grad(lambda margins: lpboost.solve(margins, nu=0.37).lower_bound)(margins[0])
    np.testing.assert_allclose(on_mesh, alone, atol=1e-4)


# --- relaxed margins ------------------------------------------------------------------------------

RELAXATIONS = {
    "hard margin": lambda number: relaxations.hard_margin(),
    "soft margin": lambda number: relaxations.soft_margin(nu=0.8 * number),
    "norm ball": lambda number: relaxations.norm_ball(2, number),
    "norm penalty": lambda number: relaxations.norm_penalty(2, number),
    "largest penalty": lambda number: relaxations.norm_penalty(np.inf, number),
    "binary entropy": lambda number: relaxations.binary_entropy(number, 1.0),
}
EDGES = np.clip(MARGINS[:8, :4] + 0.3, -0.9, 0.9)


def relaxed(name, margins, weights, number, strength):
    votes = None if strength is None else relaxations.squared_norm(strength)
    return relaxed_margin.solve(
        margins, RELAXATIONS[name](number), weights=weights, tolerance=1e-8, votes=votes
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", RELAXATIONS)
@pytest.mark.parametrize("strength", [None, 0.7], ids=["unit ball", "squared norm"])
def test_bounds_of_relaxed_margin_solve_have_the_derivative_of_the_optimal_value(
    name, strength, x64
):
    arguments = [jnp.asarray(part) for part in (EDGES, WEIGHTS[:8], 0.5)] + (
        [] if strength is None else [jnp.asarray(strength)]
    )
    directions = [DIRECTIONS[0][:8, :4], DIRECTIONS[1][:8], np.array(1.0), np.array(1.0)][
        : len(arguments)
    ]

    @jax.jit
    def bounds(margins, weights, number, strength=None):
        solution = relaxed(name, margins, weights, number, strength)
        return jnp.stack([solution.lower_bound, solution.upper_bound])

    jacobians = jax.jit(jax.jacrev(bounds, argnums=tuple(range(len(arguments)))))(*arguments)
    for place, (jacobian, along) in enumerate(zip(jacobians, directions, strict=True)):
        moved = [
            along if other == place else np.zeros_like(direction)
            for other, direction in enumerate(directions)
        ]
        expected = slope_of(bounds, arguments, moved, step=1e-4)
        np.testing.assert_allclose(
            jnp.tensordot(jacobian, along, along.ndim), expected, atol=2e-3, err_msg=str(place)
        )


def test_bounds_of_relaxed_margin_solve_are_differentiated_and_points_refuse():
    margins = jnp.asarray(EDGES, jnp.float32)

    def found(margins):
        return relaxed_margin.solve(margins, relaxations.norm_penalty(2, 0.5))

    solution, gradient = jax.jit(
        lambda margins: (found(margins), jax.grad(lambda it: found(it).upper_bound)(margins))
    )(margins)
    np.testing.assert_allclose(
        gradient, np.outer(solution.example_weights, solution.coefficients), atol=1e-6
    )
    with pytest.raises(
        TypeError,
        match=(
            r"jboost.relaxed_margin.solve\(...\).coefficients has no derivative: differentiate"
            r" lower_bound"
        ),
    ):
        jax.grad(lambda margins: found(margins).coefficients[0])(margins)


def test_functions_without_derivatives_hold_no_tracers():
    @derivatives.without("count")
    def count(values, mask):
        return jnp.sum(jnp.where(mask, values, 0.0))

    with jax.check_tracer_leaks(True):
        jax.make_jaxpr(lambda values, mask: count(values, mask) + 1)(jnp.ones(2), jnp.ones(2, bool))
    with pytest.raises(TypeError, match="count has no derivative"):
        jax.jit(lambda values, mask: jax.grad(count)(values, mask))(jnp.ones(2), jnp.ones(2, bool))
