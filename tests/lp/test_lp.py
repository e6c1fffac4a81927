"""Linear programs: status, objective and both bounds against HiGHS and the literature; derivatives,
bad input, every status.
"""

import functools
from fractions import Fraction
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import jboost
import linear_programs
from batches import few_at_once
from benchmarks import hlo
from jboost import lp, operators
from jboost.base.status import Status
from jboost.lp import derivatives, interior_point
from jboost.lp.certificate import certify, conclude, tighten
from jboost.lp.interior_point import method
from jboost.lp.types import empty_history
from linear_programs import (
    DUALLY_INFEASIBLE,
    Program,
    assignment,
    lpboost_dual_program,
    lpboost_program,
    random_margins,
    random_programs,
    set_cover,
    small_programs,
    transport,
)
from marks import slow
from oracles import highs

SHAPE = (30, 40)
STATUS = {
    "optimal": Status.OPTIMAL,
    "infeasible": Status.PRIMAL_INFEASIBLE,
    "unbounded": Status.DUAL_INFEASIBLE,
}
INTERIOR = lp.InteriorPointConfig()


def padded(program, shape=SHAPE):
    """The same program with rows that bound nothing and variables that are fixed at 0."""
    rows, columns = program.matrix.shape
    more_rows, more_columns = shape[0] - rows, shape[1] - columns
    return program._replace(
        objective=np.pad(program.objective, (0, more_columns)),
        matrix=np.pad(program.matrix, ((0, more_rows), (0, more_columns))),
        row_lower=np.pad(program.row_lower, (0, more_rows), constant_values=-np.inf),
        row_upper=np.pad(program.row_upper, (0, more_rows), constant_values=np.inf),
        lower=np.pad(program.lower, (0, more_columns)),
        upper=np.pad(program.upper, (0, more_columns)),
    )


def stack(programs):
    """One batch, as `lp.solve` takes it under vmap."""
    return lp.LinearProgram(
        *(
            jnp.asarray(np.stack(part))
            for part in zip(*(program[1:7] for program in programs), strict=True)
        )
    )


@functools.partial(jax.jit, static_argnames="config")
def solve_all(batch, tolerance, config):
    return few_at_once(lambda program: lp.solve(program, tolerance=tolerance, config=config), batch)


def all_programs():
    """200 at random, and those that stand in books and fit the shape."""
    structured = [
        transport(4, 7, 1),
        transport(6, 6, 2),
        assignment(6, 3),
        set_cover(20, 30, 4),
        set_cover(30, 40, 5),
    ]
    programs = [*random_programs(200), *small_programs(), *structured]
    return [
        program
        for program in programs
        if program.matrix.shape[0] <= SHAPE[0] and program.matrix.shape[1] <= SHAPE[1]
    ]


def check(program, solution, accuracy):
    """Status and objective agree, and no bound is false: rounding of the known optimum itself is
    all that is forgiven.
    """
    status = Status(int(solution.status))
    wanted = STATUS[program.kind]
    either = program.name.startswith(DUALLY_INFEASIBLE) and status == Status.DUAL_INFEASIBLE
    assert status == wanted or either, program.name
    if program.kind == "optimal":
        optimum = highs.solve(program).objective if program.optimum is None else program.optimum
        assert abs(float(solution.primal_objective) - optimum) <= accuracy * (1 + abs(optimum)), (
            program.name
        )
        forgiven = (
            1e-9 * (1 + abs(optimum)) if program.optimum is None else 1e-12 * (1 + abs(optimum))
        )
        assert np.isfinite(solution.primal).all(), program.name
        assert float(solution.lower_bound) <= optimum + forgiven, program.name
        assert float(solution.upper_bound) >= optimum - forgiven, program.name
    if program.kind == "infeasible":
        assert solution.upper_bound == np.inf, program.name
    if program.kind == "unbounded":
        assert solution.lower_bound == -np.inf, program.name


def check_all(programs, solutions, accuracy):
    host = jax.device_get(solutions)
    for index, program in enumerate(programs):
        check(program, jax.tree.map(lambda leaf, index=index: leaf[index], host), accuracy)
    return host


@pytest.mark.slow
@pytest.mark.parametrize("shape", [SHAPE, (48, 40)])
def test_interior_point_agrees_in_float64(x64, shape):
    """Also where the rows outnumber the columns, so that the other normal matrix is factored."""
    programs = [padded(program, shape) for program in all_programs()]
    host = check_all(programs, solve_all(stack(programs), 1e-8, INTERIOR), 1e-6)
    known = [index for index, program in enumerate(programs) if program.kind == "optimal"]
    assert np.isfinite(host.lower_bound[known]).mean() > 0.55
    assert np.isfinite(host.upper_bound[known]).mean() > 0.4


@pytest.mark.slow
def test_interior_point_agrees_in_float32():
    programs = [padded(program) for program in all_programs()]
    solutions = solve_all(stack(programs), 1e-5, INTERIOR)
    gave_up = solutions.status == int(Status.NUMERICAL_ERROR)
    # the tolerance is about what float32 carries
    assert jnp.mean(gave_up) <= (0 if jax.default_backend() == "cpu" else 0.01)
    wanted = jnp.asarray([STATUS[program.kind] for program in programs])
    # which it reaches all the same
    check_all(
        programs, solutions._replace(status=jnp.where(gave_up, wanted, solutions.status)), 1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
def test_small_programs_without_upper_bounds_are_proven(wide):
    """A reduced cost of exactly 0, as at every vertex, costs no lower bound, and a row that is met
    closely no upper one.
    """
    random = np.random.default_rng(0)
    matrices, objectives, least = (
        random.integers(0, 4, (400, 3, 3)) + np.eye(3),
        random.integers(1, 6, (400, 3)),
        random.integers(0, 6, (400, 3)),
    )
    programs = [
        linear_programs.make("", *parts[:2], row_lower=parts[2])
        for parts in zip(objectives, matrices, least, strict=True)
    ]
    found = [highs.solve(program) for program in programs]
    optima = np.array([one.objective for one in found])
    with jax.enable_x64(wide):
        batch = stack(programs)
        at_vertices = jax.jit(
            lambda *parts: few_at_once(
                lambda part: lp.solve(part[0], config=lp.FirstOrderConfig(), initial=part[1:]),
                parts,
            )
        )
        vertices = [
            jnp.asarray(np.stack([getattr(one, name) for one in found]), float)
            for name in ("primal", "dual")
        ]
        interior = solve_all(batch, 1e-8 if wide else 1e-5, INTERIOR)
        assert np.isfinite(interior.upper_bound).mean() >= 0.98
        for solutions in (interior, at_vertices(batch, *vertices)):
            lower, upper = np.asarray(solutions.lower_bound), np.asarray(solutions.upper_bound)
            assert np.all(lower <= optima + 1e-12)
            assert np.all(upper >= optima - 1e-12)
            assert np.isfinite(lower).all()
            assert np.all(optima - lower <= (1e-6 if wide else 1e-3))


@pytest.mark.slow
def test_bounds_meet_where_all_variables_are_boxed(x64):
    """LP-Boost's dual: boxes everywhere, so that any dual proves a bound, and the equality is
    repaired.
    """
    programs = [
        lpboost_dual_program(random_margins(kind, 29, 12, seed), 0.2)
        for kind in ("signs", "stumps")
        for seed in range(10)
    ]
    programs = [padded(Program("", *program[1:]), (30, 30)) for program in programs]
    solutions = jax.device_get(solve_all(stack(programs), 1e-9, INTERIOR))
    optima = np.array([highs.solve(program).objective for program in programs])
    assert (solutions.lower_bound <= optima + 1e-9).all()
    assert (solutions.upper_bound >= optima - 1e-9).all()
    assert (solutions.upper_bound - solutions.lower_bound <= 1e-7).mean() >= 0.8
    assert (solutions.lower_bound >= optima - 1e-7).all()


@pytest.mark.slow
def test_formulation_3_and_its_dual_have_one_value(x64):
    margins = random_margins("signs", 29, 9, 5)
    primal, dual = lpboost_program(margins, 0.3), lpboost_dual_program(margins, 0.3)
    first = lp.solve(lp.LinearProgram(*primal[1:7]), tolerance=1e-9)
    second = lp.solve(lp.LinearProgram(*dual[1:7]), tolerance=1e-9)
    np.testing.assert_allclose(-first.primal_objective, second.primal_objective, atol=1e-7)
    votes = -second.dual[:9]
    np.testing.assert_allclose(np.sum(votes), 1, atol=1e-6)


def small():
    """min -3 x - 5 y over Wyndor's factory: x = 2, y = 6, -36."""
    return lp.make_program(
        [-3.0, -5.0], [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]], row_upper=[4.0, 12.0, 18.0]
    )


@pytest.mark.slow
def test_solution_is_consistent(x64):
    solution = lp.solve(small())
    np.testing.assert_allclose(solution.primal, [2, 6], atol=1e-6)
    np.testing.assert_allclose(solution.dual, [0, -1.5, -1], atol=1e-6)
    np.testing.assert_allclose(
        solution.reduced_costs,
        small().objective - small().operator.rmatvec(solution.dual),
        atol=1e-12,
    )
    assert solution.lower_bound <= -36 <= solution.upper_bound
    assert solution.upper_bound - solution.lower_bound < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("sparse", INTERIOR),
        ("functions", lp.FirstOrderConfig()),
        ("sparse", lp.FirstOrderConfig()),
        ("functions", INTERIOR),
        ("bordered", INTERIOR),
        ("bordered", lp.FirstOrderConfig()),
    ],
)
def test_operators_that_are_not_stored_whole(x64, kind, config):
    """Wyndor's factory again, by other operators; the bounds are finite, since its rows bound its
    variables.
    """
    program = small()
    matrix = program.operator.matrix
    operator = {
        "sparse": lambda: sparse.BCOO.fromdense(matrix),
        "bordered": lambda: operators.bordered(operators.diagonal([1.0, 2.0]), rows=matrix[2:]),
        "functions": lambda: operators.from_functions(jnp.matmul, _transposed, (3, 2), data=matrix),
    }[kind]()
    solution = lp.solve(program._replace(operator=operator), config=config)
    assert solution.status == Status.OPTIMAL
    np.testing.assert_allclose(solution.primal, [2, 6], atol=1e-5)
    assert solution.lower_bound <= -36 <= solution.upper_bound
    assert solution.lower_bound > -36.001


def _transposed(matrix, vector):
    return matrix.T @ vector


@pytest.mark.slow
def test_vmap_is_a_loop_and_members_may_differ_in_difficulty(x64):
    programs = [padded(program) for program in random_programs(9)]
    together = jax.device_get(solve_all(stack(programs), 1e-8, INTERIOR))
    for index, program in enumerate(programs):
        alone = lp.solve(lp.LinearProgram(*program[1:7]), config=INTERIOR)
        assert alone.status == together.status[index]
        assert alone.num_iterations == together.num_iterations[index]
        if program.kind == "optimal":
            np.testing.assert_allclose(
                alone.primal_objective, together.primal_objective[index], rtol=1e-9, atol=1e-9
            )


@pytest.mark.slow
def test_step_walks_the_same_path(x64):
    program, tolerance = small(), jnp.asarray(1e-8)
    state = interior_point.init(program, config=INTERIOR)
    step = jax.jit(functools.partial(interior_point.step, tolerance=tolerance, config=INTERIOR))
    while bool(interior_point.unfinished(state)):
        state, info = step(state, program)
    solution = interior_point.finish(state, program, config=INTERIOR)
    whole = lp.solve(program, tolerance=tolerance, config=INTERIOR)
    assert int(info.num_iterations) == int(solution.num_iterations) == int(whole.num_iterations)
    np.testing.assert_allclose(solution.primal, whole.primal, rtol=1e-12)


@pytest.mark.slow
def test_step_and_finish_cost_what_the_loop_body_and_the_end_of_solve_cost(x64):
    program, tolerance = small(), jnp.asarray(1e-8)
    init = functools.partial(interior_point.init, config=INTERIOR)
    state = jax.eval_shape(init, program)
    held, bare = state.run, state._replace(run=None)

    def operations(function, *arguments):
        return hlo.count_operations(jax.jit(function).lower(*arguments).as_text())

    step = functools.partial(interior_point.step, tolerance=tolerance, config=INTERIOR)
    finish = functools.partial(interior_point.finish, config=INTERIOR)
    of_step, of_finish = operations(step, state, program), operations(finish, state, program)
    assert of_step == operations(
        lambda run, state: method._step(run, state, tolerance, INTERIOR), held, bare
    )
    assert of_finish == operations(
        lambda run, state, program: method._finish(run, state, program, INTERIOR),
        held,
        bare,
        program,
    )
    of_init = operations(init, program)
    whole = operations(lambda program: interior_point.solve(program, tolerance, INTERIOR), program)
    assert of_step + of_finish + of_init < 1.05 * whole


def test_step_and_finish_need_the_set_up_of_init():
    program = small()
    init = functools.partial(interior_point.init, config=INTERIOR)
    state = jax.eval_shape(init, program)._replace(run=None)
    with pytest.raises(ValueError, match="state has no run: pass a state as `init`"):
        interior_point.step(state, program, tolerance=jnp.asarray(1e-6), config=INTERIOR)
    with pytest.raises(ValueError, match="state has no run: pass a state as `init`"):
        interior_point.finish(state, program, config=INTERIOR)


@pytest.mark.slow
def test_history_has_a_number_for_each_iteration(x64):
    solution = lp.solve(small(), config=lp.InteriorPointConfig(history_length=20))
    count = int(solution.num_iterations)
    gaps = np.asarray(solution.history.duality_gaps)
    assert np.isfinite(gaps[:count]).all()
    assert (gaps[count:] == np.inf).all()
    assert gaps[count - 1] <= 1e-8
    assert lp.solve(small()).history.duality_gaps.shape == (0,)


@pytest.mark.parametrize("config", [INTERIOR, slow(lp.FirstOrderConfig())])
def test_unbounded_where_no_row_bounds_anything(x64, config):
    """The dual point is 0 throughout: it gains nothing and misses nothing, and is no ray."""
    program = lp.LinearProgram(
        [-4.0, 1.0], [[3.0, -3.0]], -np.inf, np.inf, [-1.0, -1.0], [np.inf, 2.0]
    )
    assert lp.solve(program, config=config).status == Status.DUAL_INFEASIBLE


@pytest.mark.slow
@pytest.mark.parametrize("config", [INTERIOR, lp.FirstOrderConfig()])
def test_unbounded_though_all_but_one_value_of_most_variables_is_ruled_out(x64, config):
    """Duals gain exactly nothing on such rows and bounds, and what rounding leaves of that is no
    proof that no point is feasible.
    """
    inf = np.inf
    one_point = lp.make_program(
        [-1.0, -1.0, 1.0, 2.0, 2.0, 0.0],
        [
            [-2, 2, 2, 0, 1, 2],
            [-2, 2, 2, 0, 1, 2],
            [0, 0, 0, 0, 0, -3],
            [3, -2, 0, 0, 0, -2],
            [0, 3, -2, 0, 0, 0],
        ],
        row_lower=[-inf, -inf, -inf, 8.0, -inf],
        row_upper=[inf, -3.0, inf, 8.0, inf],
        lower=[2.0, -3.0, 1.0, -inf, 1.0, 2.0],
        upper=[2.0, inf, 1.0, inf, inf, inf],
    )
    at_a_bound = lp.make_program(
        [-15.0, 4.0, 3.0, 0.0, 1.0, 8.0],
        [
            [3, 0, 0, 0, 0, 0],
            [0, 0, -2, 0, 0, -2],
            [3, -3, 0, -2, -1, 0],
            [0, -1, 1, 2, 0, 0],
            [3, 0, 0, 0, 0, -2],
        ],
        row_lower=[-9.0, -inf, -inf, -inf, -inf],
        row_upper=[-9.0, inf, inf, inf, inf],
        lower=[-3.0, 2.0, -inf, -inf, -3.0, -1.0],
        upper=[-3.0, inf, 3.0, -1.0, -3.0, inf],
    )
    for program in (one_point, at_a_bound):
        solution = lp.solve(program, config=config)
        assert solution.status == Status.DUAL_INFEASIBLE
        assert solution.lower_bound == -inf


@pytest.mark.slow
def test_a_large_bound_does_not_hide_the_gap():
    """A dual that is off by rounding proves little where variables are bounded from afar."""
    solution = lp.solve(
        lp.make_program([1.0, 1.0], [[1.0, 2.0], [3.0, 1.0]], row_lower=1.0, upper=1e10),
        config=INTERIOR,
    )
    assert solution.status != Status.OPTIMAL or solution.duality_gap <= 4e-5
    np.testing.assert_allclose(solution.primal_objective, 0.6, atol=1e-4)


@pytest.mark.slow
def test_a_large_cost_does_not_hide_the_gap(x64):
    rng = np.random.default_rng(0)
    matrix, objective = rng.uniform(0.1, 1, (4, 5)), rng.uniform(0.5, 1.5, 5)
    objective[0] = 1e9
    program = lp.make_program(objective, matrix, row_lower=1.0)
    solution = lp.solve(program)
    assert solution.status == Status.OPTIMAL
    assert solution.duality_gap <= 4e-8
    np.testing.assert_allclose(solution.primal_objective, 1.6541479, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("big", [1e9, 1e20])
@pytest.mark.parametrize(
    "config", [INTERIOR, lp.FirstOrderConfig()], ids=["interior point", "first order"]
)
def test_a_large_bound_does_not_hide_a_missed_row(x64, config, big):
    """Neither of the row itself nor of another: at 0, with an error that is small beside the large
    bound, nothing is optimal.
    """
    ranged = lp.make_program(
        [1.0, 1.0], [[1.0, 2.0], [3.0, 1.0]], row_lower=1.0, row_upper=[big, np.inf]
    )
    solution = lp.solve(ranged, config=config)
    assert solution.status == Status.OPTIMAL
    np.testing.assert_allclose(solution.primal, [0.2, 0.4], atol=1e-7)
    assert 0.6 - 1e-7 <= solution.lower_bound <= 0.6 + 1e-15
    beside = lp.make_program(
        [1.0, 1.0, 0.0],
        [[1.0, 2.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        row_lower=[1.0, 1.0, big],
    )
    solution = lp.solve(beside, config=config)
    missed = 1 - np.array([[1.0, 2.0], [3.0, 1.0]]) @ np.asarray(solution.primal[:2])
    assert solution.status != Status.OPTIMAL or np.max(missed) <= 1e-7
    assert solution.lower_bound <= 0.6 <= solution.upper_bound


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [INTERIOR, lp.FirstOrderConfig()], ids=["interior point", "first order"]
)
def test_bounds_of_covers_without_upper_bounds(config):
    """Reduced costs of 0 up to rounding would prove nothing: the dual is multiplied until they have
    the right sign.
    """
    for seed in range(3):
        known = set_cover(15, 25, seed)
        program = lp.make_program(known.objective, known.matrix, row_lower=1.0)
        optimum = highs.solve(known._replace(upper=np.full(25, np.inf))).objective
        solution = lp.solve(program, config=config)
        assert solution.status == Status.OPTIMAL
        assert optimum - 2e-4 <= solution.lower_bound <= optimum + 1e-9
        # the dual, unbounded but for rows
        negated = lp.make_program(
            -known.row_lower, -known.matrix.T, row_lower=-known.objective, upper=10.0
        )
        assert -optimum - 2e-4 <= lp.solve(negated, config=config).lower_bound <= -optimum + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["afiro", "Chvatal 1983, cycling"])
def test_bounds_of_programs_from_books(x64, name):
    """Objectives of both signs and variables without upper bounds: the dual is moved until reduced
    costs near 0 have the right sign.
    """
    program = next(program for program in small_programs() if program.name == name)
    solution = lp.solve(lp.LinearProgram(*program[1:7]))
    optimum = highs.solve(program).objective
    assert optimum - 1e-6 * abs(optimum) <= solution.lower_bound <= optimum + 1e-9 * abs(optimum)


@pytest.mark.slow
def test_rows_that_are_almost_parallel_are_feasible():
    """x_0 - x_1 >= 1 and x_0 <= 1.0001 x_1: y = (1, -1) pays 1e-4 for a gain of 1, and
    is no ray.
    """
    program = lp.make_program(
        [1.0, 1.0], [[1.0, -1.0], [1.0, -1.0001]], row_lower=[1.0, -np.inf], row_upper=[np.inf, 0.0]
    )
    assert lp.solve(program, config=INTERIOR).status != Status.PRIMAL_INFEASIBLE


@pytest.mark.slow
@pytest.mark.parametrize("num_rows", [9, 40])
def test_more_rows_than_columns_in_float32(num_rows):
    """Small integers and free variables, by either normal matrix: springs of active rows turn
    rounding into forces.
    """
    rng = np.random.default_rng(7)
    programs, optima = [], []
    for _ in range(40):
        matrix, point = (
            rng.integers(-2, 3, (9, 4)).astype(float),
            rng.integers(-2, 3, 4).astype(float),
        )
        is_equality, reached = np.arange(9) < rng.integers(0, 4), matrix @ point
        dual = np.where(is_equality, rng.integers(-2, 3, 9), rng.integers(0, 3, 9)).astype(float)
        row_upper = np.where(is_equality, reached, np.inf)
        program = Program(
            "",
            matrix.T @ dual,
            matrix,
            np.where(is_equality | (dual > 0), reached, reached - 1),
            row_upper,
            *np.outer([-np.inf, np.inf], np.ones(4)),
            "optimal",
        )
        programs.append(padded(program, (num_rows, 4)))
        optima.append(program.objective @ point)
    solutions = jax.device_get(solve_all(stack(programs), 1e-5, INTERIOR))
    assert (solutions.status == Status.OPTIMAL).mean() >= 0.95
    np.testing.assert_allclose(solutions.primal_objective, optima, atol=1e-3)


# --- derivatives ----------------------------------------------------------------------------------


def boxed(seed, rows=4, columns=6):
    """A program whose solution is a vertex with room on all sides, with probability 1."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, columns))
    point = rng.uniform(0.2, 0.8, columns)
    row_lower = np.where(np.arange(rows) % 2 == 0, matrix @ point, -np.inf)
    row_upper = np.where(np.arange(rows) % 2 == 0, matrix @ point, matrix @ point + 0.1)
    return (
        rng.normal(size=columns),
        matrix,
        row_lower,
        row_upper,
        np.zeros(columns),
        np.ones(columns),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_derivatives_are_those_of_finite_differences(x64, seed):
    parts = [jnp.asarray(part) for part in boxed(seed)]
    rng = np.random.default_rng([seed, 1])
    directions = [
        jnp.where(jnp.isfinite(part), jnp.asarray(rng.normal(size=part.shape)), 0.0)
        for part in parts
    ]
    is_equality = parts[2] == parts[3]
    directions[3] = jnp.where(is_equality, directions[2], directions[3])

    def outputs(step):
        moved = [
            jnp.where(jnp.isfinite(part), part + step * direction, part)
            for part, direction in zip(parts, directions, strict=True)
        ]
        solution = lp.solve(lp.LinearProgram(*moved), tolerance=1e-12, config=INTERIOR)
        return (
            solution.primal,
            solution.dual,
            solution.reduced_costs,
            solution.primal_objective,
            solution.dual_objective,
        )

    outputs = jax.jit(outputs)
    _, tangents = jax.jvp(outputs, (jnp.zeros(()),), (jnp.ones(()),))
    ahead, behind = outputs(1e-5), outputs(-1e-5)
    for tangent, more, less in zip(tangents, ahead, behind, strict=True):
        np.testing.assert_allclose(tangent, (more - less) / 2e-5, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_gradients_agree_with_the_forward_mode(x64):
    objective, matrix, *bounds = (jnp.asarray(part) for part in boxed(7))
    goal = jnp.arange(1.0, 7.0)

    def loss(objective, matrix, row_upper):
        program = lp.LinearProgram(objective, matrix, bounds[0], row_upper, *bounds[2:])
        return jnp.sum(goal * lp.solve(program, tolerance=1e-11, config=INTERIOR).primal)

    arguments = (objective, matrix, bounds[1])
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*arguments)
    direction = jax.tree.map(
        lambda leaf: jnp.cos(jnp.arange(leaf.size, dtype=float)).reshape(leaf.shape), arguments
    )
    _, slope = jax.jvp(loss, arguments, direction)
    total = sum(jnp.sum(one * other) for one, other in zip(gradient, direction, strict=True))
    np.testing.assert_allclose(total, slope, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("price", "size"), [(1.0, 1e8), (1e-4, 1e8)])
def test_derivatives_in_other_units(price, size):
    """The first row's bound at `size`: x_0 falls by 0.2 for each unit of it, whatever the units of
    objective and bounds.
    """

    def first(bound):
        program = lp.make_program(
            [price, price], [[1.0, 2.0], [3.0, 1.0]], row_lower=jnp.array([bound, size])
        )
        return lp.solve(program, config=INTERIOR).primal[0]

    np.testing.assert_allclose(jax.grad(first)(size), -0.2, rtol=1e-4)


@pytest.mark.slow
def test_derivatives_do_not_depend_on_the_units_of_rows():
    """One compiled program in float32 for ten programs, whose rows are in units of 1e-4 to 1e4."""
    random = np.random.default_rng(11)
    matrix = random.normal(size=(10, 5, 4)).astype(np.float32)
    inside, units = random.uniform(0.5, 1.5, (10, 4)), 10.0 ** random.uniform(-4, 4, (10, 5, 1))
    row_upper = matrix @ inside[..., None] + random.uniform(0, 1, (10, 5, 1))
    costs = -np.abs(matrix).sum(axis=1) * random.uniform(0.5, 1, (10, 4))

    @jax.jit
    @jax.vmap
    def slope(cost, matrix, bound):
        def value(bound):
            return jnp.sum(
                lp.solve(
                    lp.make_program(cost, matrix, row_upper=bound, upper=3.0), config=INTERIOR
                ).primal
            )

        return jax.grad(value)(bound)

    plain = np.asarray(slope(costs, matrix, row_upper[..., 0]))
    scaled = np.asarray(slope(costs, matrix * units, (row_upper * units)[..., 0])) * units[..., 0]
    assert np.abs(plain).max() > 0.1
    np.testing.assert_allclose(scaled, plain, atol=2e-2 * np.abs(plain).max())


@pytest.mark.slow
def test_without_a_solution_there_is_no_derivative():
    program = lp.make_program([1.0], [[1.0]], row_lower=[1.0], upper=2.0)
    numbers = jnp.zeros(())
    for status in (
        Status.OPTIMAL,
        Status.PRIMAL_INFEASIBLE,
        Status.DUAL_INFEASIBLE,
        Status.INVALID_INPUT,
    ):
        solution = lp.LPSolution(
            jnp.ones(1),
            jnp.ones(1),
            jnp.zeros(1),
            *[numbers] * 7,
            jnp.zeros((), jnp.int32),
            empty_history(0, jnp.float32),
            jnp.int32(status),
        )
        change = derivatives.differentiate(
            program, program._replace(lower=jnp.zeros(1), upper=jnp.zeros(1)), solution
        )
        assert bool(jnp.isnan(change.primal_objective)) == (status != Status.OPTIMAL)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("choice", ["vertex", "least_norm"])
def test_an_equality_moves_with_the_bound_that_its_multiplier_belongs_to(sign, choice):
    """x_0 = 1 by a row and x_1 = 2 by its bounds, of which a cost of -1 holds the upper ones: the
    points did not move with these, although the objective did.
    """
    ones, none = jnp.array([1.0]), jnp.zeros(1)
    program = lp.make_program(
        [sign, sign],
        [[1.0, 0.0]],
        row_lower=ones,
        row_upper=ones,
        lower=jnp.array([-5.0, 2.0]),
        upper=jnp.array([5.0, 2.0]),
    )
    primal, dual = jnp.array([1.0, 2.0]), sign * ones
    unmoved = jax.tree.map(jnp.zeros_like, program)
    for which, moves in ((0, sign > 0), (1, sign < 0)):
        row = unmoved._replace(**{("row_lower", "row_upper")[which]: ones})
        held = unmoved._replace(**{("lower", "upper")[which]: jnp.array([0.0, 1.0])})
        for change, expected in ((row, [1.0, 0.0]), (held, [0.0, 1.0])):
            moved, priced = derivatives.move_points(program, change, primal, dual, choice)
            np.testing.assert_allclose(moved, np.array(expected) * moves, atol=1e-6)
            np.testing.assert_array_equal(priced, none)
            value = derivatives.change_of_objective(program, change, primal, dual)
            np.testing.assert_allclose(value, sign * np.sum(moved))


# --- what has no part in a program, and bounds anew -----------------------------------------------


def with_large_numbers(size):
    """README's program with a row that bounds nothing, a variable fixed at 0 and bounds that
    nothing reaches, all of that size.
    """
    return lp.LinearProgram(
        objective=jnp.array([-3.0, -5.0, 1.0, 0.5]),
        operator=jnp.array(
            [
                [1.0, 0.0, 1.0, size],
                [0.0, 2.0, 1.0, -size],
                [3.0, 2.0, 0.0, size],
                [-size, 0.0, size / 3, 1.0],
            ]
        ),
        row_lower=jnp.full((4,), -jnp.inf),
        row_upper=jnp.array([4.0, 12.0, 18.0, jnp.inf]),
        lower=jnp.array([0.0, -size, 0.0, 0.0]),
        upper=jnp.array([size, size, size, 0.0]),
    )


def with_rows_far_below(size):
    """README's program with bounds that no row comes near."""
    matrix, zero, none = (
        np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]]),
        np.zeros(2),
        np.full(2, np.inf),
    )
    return Program(
        f"far below {size}",
        np.array([-3.0, -5.0]),
        matrix,
        np.full(3, -size),
        np.array([4.0, 12.0, 18.0]),
        zero,
        none,
        "optimal",
        -36.0,
    )


def boxed_program(seed, rows, columns):
    """Small whole numbers, and a vertex where more meets than has to."""
    random = np.random.default_rng(seed)
    matrix, point = (
        random.integers(-4, 5, (rows, columns)).astype(float),
        random.integers(-3, 4, columns).astype(float),
    )
    objective = -matrix.T @ random.integers(0, 3, rows) - random.integers(-2, 3, columns)
    row_upper = matrix @ point + random.integers(0, 3, rows)
    lower, upper = point - random.integers(0, 3, columns), point + random.integers(0, 3, columns)
    return Program(
        f"boxed {seed}",
        objective,
        matrix,
        np.full(rows, -np.inf),
        row_upper,
        lower,
        upper,
        "optimal",
    )


def feasibility_program(seed, size):
    """Equations of small whole numbers with a solution in a box, part of which has no width;
    nothing to minimise.
    """
    random = np.random.default_rng(seed)
    matrix = random.integers(-4, 5, (4, 5)) * (random.random((4, 5)) < 0.5)
    point = random.integers(-3, 4, 5) * size
    lower, upper = point - random.integers(0, 3, 5) * size, point + random.integers(0, 3, 5) * size
    return Program(
        f"feasible {seed}",
        np.zeros(5),
        matrix.astype(float),
        matrix @ point,
        matrix @ point,
        lower,
        upper,
        "optimal",
        0.0,
    )


def with_a_bare_row(low, high):
    """A row without entries, whose bounds may leave 0 out."""
    matrix, kind = (
        np.array([[0.0, 0.0], [1.0, 1.0]]),
        "optimal" if low <= 0 <= high else "infeasible",
    )
    row_lower, row_upper = np.array([low, -np.inf]), np.array([high, 4.0])
    return Program(
        "bare row",
        np.array([-1.0, 0.0]),
        matrix,
        row_lower,
        row_upper,
        np.zeros(2),
        np.full(2, np.inf),
        kind,
        -4.0,
    )


AWKWARD = {
    "far bounds of rows": [with_rows_far_below(size) for size in (1e2, 1e3, 1e4, 1e6, 1e7)],
    "whole numbers": [boxed_program(seed, 30, 20) for seed in range(40)],
    "nothing to minimise": [feasibility_program(seed, 1.0) for seed in range(200)],
    "nothing to minimise, large": [feasibility_program(seed, 1e4) for seed in range(200)],
    "bare rows": [
        with_a_bare_row(*bounds)
        for bounds in ((0.01, 0.01), (1e-6, 4.0), (-3.0, -1e-6), (-0.01, 0.0))
    ],
}


@functools.cache
def solved_awkward(wide):
    """Solutions by name, all solved in one call."""
    with jax.enable_x64(wide):
        programs = [padded(program) for group in AWKWARD.values() for program in group]
        host = jax.device_get(solve_all(stack(programs), None, INTERIOR))
    ends = np.cumsum([len(group) for group in AWKWARD.values()])
    parts = zip(AWKWARD, ends - [len(group) for group in AWKWARD.values()], ends, strict=True)
    return {
        name: jax.tree.map(lambda leaf, begin=begin, end=end: leaf[begin:end], host)
        for name, begin, end in parts
    }


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_programs(name, wide):
    """float32: all but a few, as the tolerance is about what it carries, and those that are not
    OPTIMAL nearly so.
    """
    programs, host = AWKWARD[name], solved_awkward(wide)[name]
    is_solved = host.status == np.array([STATUS[program.kind] for program in programs])
    assert np.mean(~is_solved) <= (0 if wide else 0.1)
    errors = np.maximum(np.maximum(host.primal_residual, host.dual_residual), host.duality_gap)
    is_optimal = host.status == Status.OPTIMAL
    assert (errors[is_optimal] <= 4 * (1e-8 if wide else 1e-5)).all()
    for index, program in enumerate(programs):
        if program.kind == "infeasible":
            assert host.lower_bound[index] == np.inf
            continue
        optimum = highs.solve(program).objective if program.optimum is None else program.optimum
        accuracy = (1e-6 if wide else 1e-4) * (1 if is_solved[index] else 10)
        assert abs(host.primal_objective[index] - optimum) <= accuracy * (1 + abs(optimum)), (
            program.name
        )
        forgiven = 1e-9 * (1 + abs(optimum)) if program.optimum is None else 0.0
        assert host.lower_bound[index] <= optimum + forgiven, program.name
        assert host.upper_bound[index] >= optimum - forgiven, program.name


@pytest.mark.slow
def test_large_programs_of_whole_numbers_in_float32():
    programs = [boxed_program(seed, 60, 40) for seed in range(40)]
    host = jax.device_get(solve_all(stack(programs), None, INTERIOR))
    assert np.mean(host.status != Status.OPTIMAL) <= 0.1
    optima = np.array([highs.solve(program).objective for program in programs])
    assert (np.abs(host.primal_objective - optima) <= 1e-4 * (1 + np.abs(optima))).all()


def test_bounds_are_worked_out_of_what_has_points():
    program = lp.make_program([1.0], [[1.0]], row_lower=1.0)
    with pytest.raises(ValueError, match="solution is a NoneType without `primal`"):
        lp.recompute_bounds(program, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [INTERIOR, lp.FirstOrderConfig()], ids=["interior point", "first order"]
)
def test_large_numbers_that_decide_nothing_do_no_harm(config):
    programs = jax.vmap(with_large_numbers)(jnp.array([1e2, 1e4, 1e8, 1e12]))
    solutions = solve_all(programs, None, config)
    assert (solutions.status == Status.OPTIMAL).all()
    np.testing.assert_allclose(solutions.primal_objective, -36, rtol=1e-4)
    assert (solutions.lower_bound <= -36).all()
    assert (solutions.upper_bound >= -36).all()
    lower, upper = jax.vmap(lp.recompute_bounds)(programs, solutions)
    assert (lower >= solutions.lower_bound).all()
    assert (upper <= solutions.upper_bound).all()
    assert (lower <= -36).all()
    assert (upper >= -36).all()


@pytest.mark.slow
def test_bounds_worked_out_anew_are_those_of_the_solution_or_better():
    programs = [padded(program) for program in random_programs(60)]
    batch = stack(programs)
    solutions = solve_all(batch, None, lp.FirstOrderConfig(max_iterations=400))
    lower, upper = jax.jit(jax.vmap(lp.recompute_bounds))(batch, solutions)
    assert np.isfinite(solutions.upper_bound).any()
    assert (lower >= solutions.lower_bound).all()
    assert (upper <= solutions.upper_bound).all()
    with pytest.raises(ValueError, match=r"config.proof is a dict"):
        lp.recompute_bounds(
            with_large_numbers(1.0), jax.tree.map(lambda leaf: leaf[0], solutions), proof={}
        )


@pytest.mark.slow
def test_a_reduced_cost_below_the_normal_range_proves_nothing(x64):
    """c x with x >= r: y = c would do, and what is subtracted from c is off by less than any normal
    number, times an x that nothing bounds.
    """
    program = lp.LinearProgram(
        jnp.array([1e-307]),
        operators.identity(1),
        *(jnp.array([end]) for end in (-1e300, np.inf, -np.inf, np.inf)),
    )
    for dual in (1e-307, 0.9999999e-307, 1.0000001e-307):
        bound, _ = certify.prove_lower(program, jnp.array([dual]))
        assert bound == -np.inf or Fraction(float(bound)) <= Fraction(1e-307) * Fraction(-1e300)
    below, _ = certify.prove_lower(
        program._replace(row_lower=jnp.array([-1e307])), jnp.array([1e-310])
    )
    # y = 0 in its place: what is left of c is paid on an x that nothing bounds
    assert below == -np.inf


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((3, 3), r"solution.primal has shape \[3\]"), ((2, 2), r"solution.dual has shape \[2\]")],
)
def test_points_that_do_not_fit_are_named(sizes, message):
    primal, dual = map(jnp.zeros, sizes)
    with pytest.raises(ValueError, match=message):
        lp.recompute_bounds(small(), SimpleNamespace(primal=primal, dual=dual, status=0))


# --- statuses and bad input -----------------------------------------------------------------------


@pytest.mark.slow
def test_iteration_limit(x64):
    solution = lp.solve(small(), config=lp.InteriorPointConfig(max_iterations=2))
    assert solution.status == Status.ITERATION_LIMIT
    assert solution.lower_bound <= -36 <= solution.upper_bound


@pytest.mark.slow
def test_numerical_error_where_more_is_asked_than_floats_carry():
    program = set_cover(12, 20, 1)
    solution = lp.solve(lp.LinearProgram(*program[1:7]), tolerance=1e-12)
    assert solution.status == Status.NUMERICAL_ERROR
    assert solution.lower_bound <= highs.solve(program).objective <= solution.upper_bound


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("objective", [np.nan, 1.0]),
        ("objective", [np.inf, 1.0]),
        ("row_upper", [4.0, np.nan, 1.0]),
        ("lower", [5.0, 0.0]),
        ("row_lower", np.inf),
    ],
)
def test_values_that_are_not_allowed(part, value):
    program = small()._replace(upper=[1.0, 1.0], **{part: value})
    with pytest.raises(ValueError, match=part):
        lp.validate(program)
    solution = lp.solve(program)
    assert solution.status == Status.INVALID_INPUT
    assert solution.lower_bound == -np.inf
    assert solution.upper_bound == np.inf


def _spoiled(vector):
    return np.nan * vector


@pytest.mark.slow
@pytest.mark.parametrize("config", [INTERIOR, lp.FirstOrderConfig(max_iterations=40)])
def test_functions_that_return_no_numbers(config):
    program = lp.make_program(
        [1.0, 1.0], operators.from_functions(_spoiled, _spoiled, (2, 2)), row_lower=1.0
    )
    with pytest.raises(ValueError, match=r"operator.*nan"):
        lp.validate(program)
    assert lp.solve(program, config=config).status == Status.NUMERICAL_ERROR


@pytest.mark.slow
def test_an_entry_that_is_no_number():
    program = lp.make_program([1.0, 1.0], [[1.0, np.nan]], row_lower=1.0)
    with pytest.raises(ValueError, match=r"operator.*nan"):
        lp.validate(program)
    assert lp.solve(program).status == Status.INVALID_INPUT


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([1.0], [[1.0, 2.0]], 0.0, 1.0, 0.0, 1.0), "objective has shape"),
        (([1.0, 1.0], [[1.0, 2.0]], [0.0, 0.0], 1.0, 0.0, 1.0), "row_lower has shape"),
        (([1.0, 1.0], [[1.0, 2.0]], 0.0, 1.0, [0.0], 1.0), "lower has shape"),
        (([], np.zeros((1, 0)), 0.0, 1.0, 0.0, 1.0), "no columns"),
        (([1.0, 1.0], [1.0, 2.0], 0.0, 1.0, 0.0, 1.0), "shape"),
        (([1.0, 1.0], [[1.0, 2.0]], None, 1.0, 0.0, 1.0), "row_lower is None"),
    ],
)
def test_shapes_that_do_not_agree(parts, message):
    with pytest.raises(ValueError, match=message):
        lp.solve(lp.LinearProgram(*parts))


def test_arguments_of_the_wrong_type():
    with pytest.raises(ValueError, match="config"):
        lp.solve(small(), config={})
    with pytest.raises(ValueError, match="tolerance"):
        lp.solve(small(), tolerance=0.0)
    for config in (lp.InteriorPointConfig, lp.FirstOrderConfig):
        with pytest.raises(
            ValueError, match="config.proof is a NoneType: expected a jboost.lp.ProofConfig"
        ):
            config(proof=None)
    with pytest.raises(ValueError, match="LinearProgram"):
        lp.solve(([1.0], [[1.0]]))
    with pytest.raises(ValueError, match="initial"):
        lp.solve(small(), config=INTERIOR, initial=lp.solve(small(), config=INTERIOR))
    for initial in ("warm", {}, 3, (np.zeros(2),), (np.zeros(2), np.zeros(3), np.zeros(1))):
        with pytest.raises(ValueError, match="^initial is a .* a pair of primal"):
            lp.solve(small(), config=lp.FirstOrderConfig(), initial=initial)


@pytest.mark.slow
@pytest.mark.parametrize("config", [INTERIOR, lp.FirstOrderConfig()])
def test_a_program_without_rows(x64, config):
    solution = lp.solve(
        lp.LinearProgram([1.0, -2.0], np.zeros((0, 2)), 0.0, 1.0, [-1.0, 0.0], [1.0, 3.0]),
        config=config,
    )
    assert solution.status == Status.OPTIMAL
    np.testing.assert_allclose(solution.primal, [-1, 3], atol=1e-6)
    assert solution.lower_bound <= -7 <= solution.upper_bound


@pytest.mark.slow
def test_a_point_is_not_repaired_by_what_underflows():
    """x_0 = 0 by the first row, whose square is too small for a float, and x_0 = 1e-10 by the
    second.
    """
    matrix, rows, room = [[1e-12, 0.0], [1.0, 1.0]], [0.0, 1e-10], [1e-8, 0.0]
    program = lp.make_program(
        [0.0, 1.0], matrix, row_lower=rows, row_upper=rows, lower=np.negative(room), upper=room
    )
    assert lp.solve(program, config=lp.FirstOrderConfig(max_iterations=1)).upper_bound == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("config", [INTERIOR, lp.FirstOrderConfig()])
def test_scales_apart_in_one_row(x64, config):
    """1e-12 x + y + 1e12 z = 1 + 1e-12: the cheapest way is z alone."""
    program = lp.LinearProgram(
        [1.0, 1.0, 1.0], [[1e-12, 1.0, 1e12]], [1.0], [1.0], [0.0] * 3, [10.0] * 3
    )
    solution = lp.solve(program, config=config)
    assert solution.status == Status.OPTIMAL
    np.testing.assert_allclose(solution.primal_objective, 1e-12, atol=1e-7)
    assert solution.lower_bound <= 1e-12 <= solution.upper_bound


@pytest.mark.slow
def test_values_do_not_recompile(x64, compilations):
    solve = jax.jit(
        lambda objective: lp.solve(small()._replace(objective=objective), config=INTERIOR)
    )
    jax.block_until_ready(solve(jnp.array([-3.0, -5.0])))
    before = compilations()
    jax.block_until_ready(solve(jnp.array([-1.0, -5.0])))
    assert compilations() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [INTERIOR, lp.FirstOrderConfig()], ids=["interior point", "first order"]
)
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
def test_large_bounds_of_variables_are_no_rays(config, wide):
    """x1 = x2 with x1 >= size: a dual that leans on the large bound gains much, however far it is
    from a ray.
    """
    with jax.enable_x64(wide):

        @jax.jit
        def solve(size):
            program = lp.make_program(
                [1.0, 1.0],
                [[1.0, -1.0]],
                row_lower=0.0,
                row_upper=0.0,
                lower=jnp.stack([size, 0.0]),
            )
            return lp.solve(program, config=config)

        for size in (1e3, 1e5, 3e5, 1e6, 1.5e8, 1e9, 1e10):
            solution = solve(size)
            assert solution.status != Status.PRIMAL_INFEASIBLE, size
            assert solution.lower_bound <= 2 * size * (1 + 1e-6), size
            assert solution.upper_bound >= 2 * size * (1 - 1e-6), size
            infeasible = lp.solve(
                lp.make_program(
                    [1.0, 1.0],
                    [[1.0, -1.0]],
                    row_lower=0.0,
                    row_upper=0.0,
                    lower=[size, 0.0],
                    upper=[np.inf, 0.5 * size],
                ),
                config=config,
            )
            assert infeasible.status != Status.OPTIMAL, size


@pytest.mark.slow
def test_bounds_in_lists(x64):
    matrix = [[1.0, 2.0], [3.0, 1.0]]
    slope = jax.grad(
        lambda bound: (
            lp.solve(lp.make_program([1.0, 1.0], matrix, row_lower=[bound, 1.0])).primal_objective
        )
    )(1.0)
    np.testing.assert_allclose(slope, 0.4, rtol=1e-6)
    with pytest.raises(ValueError, match="row_upper"):
        lp.make_program([1.0], [[1.0]], row_upper=[[1.0], [1.0, 2.0]])


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [INTERIOR, lp.FirstOrderConfig()], ids=["interior point", "first order"]
)
def test_works_under_shard_map(config):
    mesh = jax.make_mesh((1,), ("programs",), axis_types=(jax.sharding.AxisType.Auto,))
    no_bound = np.full((1, 3), -np.inf)
    parts = (
        [[-3.0, -5.0]],
        [[[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]]],
        no_bound,
        [[4.0, 12.0, 18.0]],
        np.zeros((1, 2)),
        np.full((1, 2), 100.0),
    )

    def solve(*parts):
        return lp.solve(
            lp.LinearProgram(*(part[0] for part in parts)), config=config
        ).primal_objective[None]

    sharded = jax.jit(
        jax.shard_map(
            solve, mesh=mesh, in_specs=(jax.P("programs"),) * 6, out_specs=jax.P("programs")
        )
    )
    np.testing.assert_allclose(
        sharded(*(jnp.asarray(part, jnp.float32) for part in parts)), [-36.0], rtol=1e-4
    )


@pytest.mark.slow
def test_bounds_that_no_float_holds(x64):
    """Sums that overflow prove nothing, and products below the normal numbers are rounded away from
    the optimum.
    """
    no_rows = np.zeros((0, 1))
    assert lp.solve(lp.make_program([1e200], no_rows, lower=[1e200])).lower_bound == -np.inf
    assert (
        lp.solve(
            lp.make_program([1.0, 1.0], np.zeros((0, 2)), lower=[1.5e308, 1.5e308])
        ).lower_bound
        == -np.inf
    )
    with jax.enable_x64(False):
        assert (
            float(lp.solve(lp.make_program([1e-20], no_rows, lower=[-1e-21])).lower_bound) <= -1e-41
        )
    assert lp.solve(lp.make_program([1e-200], no_rows, lower=[-1e-200])).lower_bound < 0


@pytest.mark.slow
def test_first_order_method_where_squares_overflow():
    bounded = lp.make_program(
        [1.0, 1.0], [[1.0, 1.0], [1.0, -1.0]], row_lower=[1.0, -np.inf], row_upper=[np.inf, 1e20]
    )
    dear = lp.make_program([1e20, 1e20], [[1.0, 1.0]], row_lower=1.0)
    for program in (bounded, dear):
        solution = lp.solve(program, config=lp.FirstOrderConfig())
        assert np.isfinite(solution.primal).all()
        assert np.isfinite(solution.dual).all()
    assert solution.status == Status.OPTIMAL
    np.testing.assert_allclose(solution.primal_objective, 1e20, rtol=1e-4)


@pytest.mark.slow
def test_numbers_below_the_normal_range(x64):
    """They are refused; products that get there prove no more than they may."""
    for program in (
        lp.make_program([1e-310], [[1.0]], row_lower=0.0),
        lp.make_program([1.0], [[1e-310]], row_lower=0.0),
        lp.make_program([1e150], [[1.0]], row_lower=1e-310, upper=1.0),
        lp.make_program([1e305], [[1.0]], lower=[-2e-308]),
        lp.make_program([1.0], [[0.0]], lower=[1e-310], upper=[0.0]),
    ):
        assert lp.solve(program).status == Status.INVALID_INPUT
        with pytest.raises(
            ValueError, match="below the normal range of float64|no point is feasible"
        ):
            lp.validate(program)
    tight = tighten.tighten(
        lp.make_program(
            [-1.0, 0.0],
            [[1e-300, 1e-160]],
            row_upper=0.0,
            lower=[0.0, -1e-150],
            upper=[np.inf, 1.0],
        ),
        2,
    )
    assert tight.upper[0] >= 1e-10


def small_matrix(objective, matrix, row_lower, row_upper, lower, upper):
    parts = (
        np.array(part, float) for part in (objective, matrix, row_lower, row_upper, lower, upper)
    )
    return padded(Program("", *parts, kind="optimal"), (2, 3))


INF = np.inf
ILL_CONDITIONED = {  # by what bounds it, and its optimum
    "a row bounds what another makes look small": (
        ([0, -1000], [[1e6, 1], [0, 1e6]], [-INF, 0], [1000, INF], [0, 0], [INF, INF]),
        -1e6,
    ),
    "one variable is large": (
        ([100, 0, 1], [[1, 0, 0], [0, 1, 0]], [1, -INF], [INF, 1000], [0, 0, 1e6], [10, 1000, 1e6]),
        1000100.0,
    ),
    "nothing bounds a tiny objective": (([-1e-9], [[0]], [-INF], [INF], [0], [INF]), -INF),
    "a free variable beside a fixed one": (
        ([0, 0], [[1e6, 1], [0, 1e6]], [1000, 0], [1000, INF], [0, -INF], [0, INF]),
        0.0,
    ),
    "bounds one rounding apart": (
        (
            [1, 2],
            [[1, 1]],
            [1],
            [INF],
            [0.3, 0],
            [np.nextafter(np.float32(0.3), np.float32(1)), INF],
        ),
        1.7,
    ),
    "a bound beyond what one is to be told from": (([1], [[0]], [-INF], [INF], [1e8], [INF]), 1e8),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [INTERIOR, lp.FirstOrderConfig(max_iterations=4000)],
    ids=["interior point", "first order"],
)
def test_solve_claims_nothing_false_on_ill_conditioned_programs(config):
    """No bound is false, no ray is seen where bounds say that there is none, and what is called
    optimal is.
    """
    batch = stack([small_matrix(*parts) for parts, _ in ILL_CONDITIONED.values()])
    found = solve_all(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), batch), 1e-5, config)
    for index, (name, (_, optimum)) in enumerate(ILL_CONDITIONED.items()):
        solution = jax.tree.map(lambda leaf, index=index: leaf[index], found)
        size = 0.0 if np.isinf(optimum) else 1e-6 * abs(optimum)
        assert solution.lower_bound <= optimum + size, name
        assert solution.upper_bound >= optimum - size, name
        assert (solution.status == Status.DUAL_INFEASIBLE) == (optimum == -INF), name
        assert solution.status != Status.PRIMAL_INFEASIBLE, name
        if solution.status == Status.OPTIMAL:
            np.testing.assert_allclose(solution.primal_objective, optimum, rtol=1e-4, err_msg=name)
    statuses = dict(zip(ILL_CONDITIONED, found.status.tolist(), strict=True))
    solved = [
        "one variable is large",
        "bounds one rounding apart",
        "a bound beyond what one is to be told from",
    ]
    assert [statuses[name] for name in solved] == [Status.OPTIMAL] * 3


@pytest.mark.slow
@pytest.mark.parametrize("big", [1e18, 1e20, 1e30])
def test_bounds_whose_squares_overflow(big):
    rows, columns = [1.0, 1.0], [[1.0, 2.0], [3.0, 1.0]]
    for bounds in ({"row_upper": [big, np.inf]}, {"upper": [big, np.inf]}):
        solved = lp.solve(lp.make_program(rows, columns, row_lower=1.0, **bounds))
        assert float(solved.primal_objective) == pytest.approx(0.6, abs=1e-5)


@pytest.mark.slow
def test_a_box_too_narrow_to_matter():
    solved = lp.solve(lp.make_program([1.0, 1.0], [[1.0, 2.0]], row_lower=3.0, upper=[1e-20, 10.0]))
    assert (int(solved.status), float(solved.primal_objective)) == (
        Status.OPTIMAL,
        pytest.approx(1.5, abs=1e-4),
    )


@pytest.mark.slow
def test_a_large_row_makes_no_other_box_idle():
    program = lp.make_program(
        [1.0, 1.0, 1e-16],
        [[0.0, 0.0, 1.0], [1.0, 2.0, 0.0]],
        row_lower=[1e16, 3.0],
        upper=[10.0, 10.0, np.inf],
    )
    solved = lp.solve(program)
    assert int(solved.status) != Status.PRIMAL_INFEASIBLE
    assert np.dot([1, 2], solved.primal[:2]) >= 2.99


@pytest.mark.slow
def test_a_bound_implied_below_the_normal_range_is_rounded_outwards():
    tight = tighten.tighten(lp.make_program([-1e10, -2e10], [[1e10, 1e10]], row_upper=1e-30), 2)
    assert np.all(np.asarray(tight.upper, np.float64) >= 1e-40)
    lower, _ = certify.prove_lower(tight, jnp.array([-1.0]))
    assert float(lower) <= -2e-30


@pytest.mark.slow
def test_a_ray_that_was_refuted_is_not_returned():
    program = lp.make_program([1.0], [[1.0]], row_upper=5.0, upper=1.0)
    status, none = jnp.int32(Status.DUAL_INFEASIBLE), jnp.zeros(1)
    found = conclude.conclude(
        program,
        program,
        jnp.array([7.0]),
        none,
        num_iterations=0,
        history=empty_history(0, jnp.float32),
        status=status,
        proof=lp.ProofConfig(),
    )
    assert int(found.status) == Status.NUMERICAL_ERROR
    assert 0 <= float(found.primal[0]) <= 1


def test_what_is_invalid_in_a_linear_program_is_explained():
    text = jboost.status.explain(Status.INVALID_INPUT)
    assert "a lower bound above its upper one" in text
    assert "jboost.lp.validate(program)" in text
