"""The dual simplex method for programs that differ in bounds, against HiGHS."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from batches import few_at_once
from jboost.lp.simplex import boxes as boxed_simplex
from jboost.lp.simplex import break_points

VARIABLES, ROWS, PROGRAMS = 6, 8, 200


def programs(seed, count=PROGRAMS):
    """A [count, k, n], c, and bounds [count, n + k] by place: some variables and rows fixed, some
    rows free, some programs without a point.
    """
    random = np.random.default_rng(seed)
    matrix = random.choice([-1.0, 0.0, 1.0, 0.5], (count, ROWS, VARIABLES))
    objective = random.uniform(-3, 5, (count, VARIABLES))
    low = random.integers(-1, 2, (count, VARIABLES)).astype(float)
    high = low + random.integers(0, 3, low.shape)
    inside = np.einsum("pkn,pn->pk", matrix, random.uniform(low, high))
    room = (
        random.integers(0, 3, (2, *inside.shape))
        - np.where(random.random(count) < 0.25, 1.0, 0.0)[:, None]
    )
    least = np.where(random.random(inside.shape) < 0.3, -np.inf, inside - room[0])
    is_bounded = np.isfinite(least) & (random.random(inside.shape) < 0.6)
    most = np.where(is_bounded, np.maximum(inside + room[1], least), np.inf)
    return matrix, objective, np.hstack([low, least]), np.hstack([high, most])


def by_highs(matrix, objective, lower, upper):
    """The least objective, inf where no point meets all bounds."""
    size = matrix.shape[1]
    is_low, is_high = np.isfinite(lower[size:]), np.isfinite(upper[size:])
    found = linprog(
        objective,
        A_ub=np.vstack([-matrix[is_low], matrix[is_high]]),
        b_ub=np.r_[-lower[size:][is_low], upper[size:][is_high]],
        bounds=np.c_[lower[:size], upper[:size]],
    )
    assert found.status in (0, 2)
    return found.fun if found.status == 0 else np.inf


@jax.jit
def solve_all(matrices, objectives, lower, upper, goals):
    def one(problem):
        matrix, objective, low, high, goal = problem
        table = boxed_simplex.begin(matrix, objective)
        return boxed_simplex.solve(table, matrix, objective, low, high, goal=goal, max_pivots=500)

    return few_at_once(one, (matrices, objectives, lower, upper, goals))


def floats(*arrays):
    return tuple(jnp.asarray(one, jnp.result_type(float)) for one in arrays)


def proven(solution, index, matrix, objective, lower, upper):
    """What the reduced costs prove, after a look at whether they are some: c = r + A' y."""
    costs = np.asarray(solution.reduced_costs[index], float)
    own, of_rows = costs[:VARIABLES], costs[VARIABLES:]
    np.testing.assert_allclose(
        own + of_rows @ matrix, objective, atol=1e-3 * max(1, np.abs(costs).max())
    )
    at = np.where(costs >= 0, lower, upper)
    assert np.all(np.isfinite(at[np.abs(costs) > 1e-5]))
    return costs[np.isfinite(at)] @ at[np.isfinite(at)]


@pytest.mark.slow
def test_optima_are_those_of_highs():
    problems = programs(0)
    solution = jax.device_get(solve_all(*floats(*problems), jnp.full(PROGRAMS, 1e3)))
    optima = np.array([by_highs(*one) for one in zip(*problems, strict=True)])
    is_empty = np.isinf(optima)
    assert 20 < is_empty.sum() < PROGRAMS / 2
    np.testing.assert_array_equal(solution.is_optimal, ~is_empty)
    assert solution.has_ended.all()
    np.testing.assert_allclose(solution.objective[~is_empty], optima[~is_empty], atol=1e-4)
    for index, (matrix, objective, lower, upper) in enumerate(zip(*problems, strict=True)):
        bound = proven(solution, index, matrix, objective, lower, upper)
        if is_empty[index]:
            assert bound > 1e3 - 1
        else:
            values = solution.values[index]
            assert bound == pytest.approx(optima[index], abs=1e-3)
            np.testing.assert_allclose(matrix @ values[:VARIABLES], values[VARIABLES:], atol=1e-4)
            assert np.all((values > lower - 1e-3) & (values < upper + 1e-3))


@pytest.mark.slow
def test_a_goal_ends_the_method_with_a_proof():
    problems = programs(1)
    optima = np.array([by_highs(*one) for one in zip(*problems, strict=True)])
    goals = np.where(np.isinf(optima), 5.0, optima) - 1.5
    solution = jax.device_get(solve_all(*floats(*problems), jnp.asarray(goals, float)))
    assert np.all(solution.objective >= goals - 1e-4)
    assert not np.all(solution.is_optimal[np.isfinite(optima)])
    for index, problem in enumerate(zip(*problems, strict=True)):
        bound = proven(solution, index, *problem)
        assert goals[index] - 1e-3 <= bound <= optima[index] + 1e-3


@pytest.mark.slow
def test_other_bounds_go_on_from_the_last_table():
    """A table of one program begins another of the same matrix, with a row exchanged, as a table
    worked out anew does.
    """
    problems = programs(2)
    random = np.random.default_rng(3)
    matrices, objectives, lower, upper = problems
    first = solve_all(*floats(*problems), jnp.full(PROGRAMS, jnp.inf))
    is_basic = (
        np.asarray(jax.vmap(boxed_simplex.positions)(first.table))[:, VARIABLES:] >= VARIABLES
    )
    row = is_basic.argmax(axis=1)
    assert is_basic.any(axis=1).all()
    fresh_rows = random.choice([-1.0, 0.0, 1.0], (PROGRAMS, VARIABLES))
    changed = matrices.copy()
    every = np.arange(PROGRAMS)
    changed[every, row] = fresh_rows
    least, most = lower.copy(), upper.copy()
    least[every, VARIABLES + row], most[every, VARIABLES + row] = -1.0, np.inf
    most[:, 0] = least[:, 0]
    optima = np.array(
        [by_highs(*one) for one in zip(changed, objectives, least, most, strict=True)]
    )

    @jax.jit
    def go_on(table, rows, places, matrix, objective, low, high):
        def one(table, rows, places, matrix, objective, low, high):
            held = boxed_simplex.replace(table, rows[None], places[None])
            anew = boxed_simplex.refreshed(held, matrix, objective)
            found = boxed_simplex.solve(
                held, matrix, objective, low, high, goal=jnp.inf, max_pivots=500
            )
            return held, anew, found

        return jax.vmap(one)(table, rows, places, matrix, objective, low, high)

    places = jnp.asarray(VARIABLES + row, jnp.int32)
    held, anew, found = jax.device_get(
        go_on(first.table, *floats(fresh_rows), places, *floats(changed, objectives, least, most))
    )
    np.testing.assert_allclose(held.entries, anew.entries, atol=1e-3)
    np.testing.assert_array_equal(found.is_optimal, np.isfinite(optima))
    np.testing.assert_allclose(
        found.objective[found.is_optimal], optima[found.is_optimal], atol=1e-3
    )
    cold = jax.device_get(
        solve_all(*floats(changed, objectives, least, most), jnp.full(PROGRAMS, jnp.inf))
    )
    assert found.num_pivots.sum() < cold.num_pivots.sum()


@pytest.mark.slow
def test_penalties_are_below_what_answers_cost():
    random = np.random.default_rng(4)
    count = 100
    matrix = random.choice([-1.0, 0.0, 1.0], (count, ROWS, VARIABLES))
    objective = random.uniform(0.2, 2.0, (count, VARIABLES))
    lower = np.hstack([np.zeros((count, VARIABLES)), np.full((count, ROWS), 0.5)])
    upper = np.hstack([np.ones((count, VARIABLES)), np.full((count, ROWS), np.inf)])
    matrix[:, :, 0] = np.abs(matrix[:, :, 0])
    solution = solve_all(*floats(matrix, objective, lower, upper), jnp.full(count, jnp.inf))
    places = jnp.arange(VARIABLES, dtype=jnp.int32)
    price = jax.jit(jax.vmap(lambda *of: boxed_simplex.penalties(*of[:3], places, of[3])))
    falls, rises = jax.device_get(price(solution.table, *floats(lower, upper), solution.values))
    num_looked_at = 0
    for index in range(count):
        if not solution.is_optimal[index]:
            continue
        values = np.asarray(solution.values[index, :VARIABLES])
        for place in np.flatnonzero((values > 0.01) & (values < 0.99)):
            for penalty, answer in ((falls, 0.0), (rises, 1.0)):
                low, high = lower[index].copy(), upper[index].copy()
                low[place] = high[place] = answer
                cost = by_highs(matrix[index], objective[index], low, high) - float(
                    solution.objective[index]
                )
                assert penalty[index, place] <= cost + 1e-4
                num_looked_at += 1
    assert num_looked_at > 100
    assert (falls > 1e-3).any()
    assert (rises > 1e-3).any()


def test_pivots_that_run_out_are_told():
    problems = floats(*programs(5))

    @jax.jit
    def few(matrix, objective, lower, upper):
        table = boxed_simplex.begin(matrix, objective)
        return boxed_simplex.pivot_on(table, lower, upper, goal=jnp.inf, max_pivots=1)

    solution = jax.vmap(few)(*problems)
    assert int(solution.num_pivots.max()) == 1
    assert not bool(solution.has_ended.all())
    assert bool(jnp.all(solution.has_ended | ~solution.is_optimal))


def test_the_peak_is_where_the_function_climbs_no_more():
    random = np.random.default_rng(6)
    find = jax.jit(break_points.peak)
    for _ in range(100):
        lengths = np.where(random.random(5) < 0.2, np.inf, random.integers(0, 5, 5)).astype(float)
        drops, slope = random.integers(0, 4, 5).astype(float), float(random.integers(1, 8))

        def height(length, lengths=lengths, drops=drops, slope=slope):
            past = np.where(
                np.isfinite(lengths),
                np.maximum(length - np.where(np.isfinite(lengths), lengths, 0), 0),
                0,
            )
            return slope * length - drops @ past

        length, rest = (float(one) for one in find(*floats(lengths, drops, slope), 0.0))
        ends = np.unique(lengths[np.isfinite(lengths)])
        if not len(ends):
            assert (length, rest) == (np.inf, slope)
            continue
        assert rest == pytest.approx(height(length + 1e-3) / 1e-3 - height(length) / 1e-3, abs=1e-6)
        if rest > 0:
            assert length == ends[-1]
        else:
            assert height(length) == pytest.approx(max(height(end) for end in np.r_[0.0, ends]))
