"""The first-order method for linear programs, against HiGHS and against programs whose answer is
known.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linear_programs
from batches import few_at_once
from jboost.base.status import Status
from jboost.lp import first_order, make_program
from jboost.lp.certificate.assess import assess, dual_side, primal_side
from jboost.lp.first_order import FirstOrderConfig, scaling
from jboost.lp.types import ProofConfig
from oracles import highs

UNPROVEN = ProofConfig(max_repaired_rows=0, max_repaired_columns=0, num_tightenings=0)
# one for nearly all: few compilations
CONFIG = FirstOrderConfig(max_iterations=40_000, proof=UNPROVEN, history_length=1000)
KINDS = {
    "optimal": {Status.OPTIMAL},
    "infeasible": {Status.PRIMAL_INFEASIBLE},
    "unbounded": {Status.DUAL_INFEASIBLE},
}


@functools.partial(jax.jit, static_argnames="config")
def solve(problem, tolerance, config=CONFIG, initial=None):
    return first_order.solve(problem, tolerance, config, initial)


@functools.partial(jax.jit, static_argnames="config")
def solve_all(problems, tolerance, config=CONFIG):
    return few_at_once(lambda problem: first_order.solve(problem, tolerance, config), problems)


@functools.partial(jax.jit, static_argnames="config")
def run(problem, tolerance, config=CONFIG, initial=None):
    return first_order.run(problem, tolerance, config, initial)


def to_program(known):
    return make_program(
        known.objective,
        known.matrix,
        row_lower=known.row_lower,
        row_upper=known.row_upper,
        lower=known.lower,
        upper=known.upper,
    )


def stack(programs):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(to_program, programs))


def boosting(num_examples, num_hypotheses, seed):
    """Margins [m, n] of stumps on Gaussian features, and the cap on an example weight."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(num_examples, 6))
    labels = np.sign(features @ random.normal(size=6) + 0.7 * random.normal(size=num_examples))
    chosen = features[:, random.integers(0, 6, num_hypotheses)]
    outputs = np.where(chosen > np.quantile(chosen, random.uniform(0.1, 0.9)), 1.0, -1.0)
    margins = labels[:, None] * outputs
    return margins * np.where(margins.sum(axis=0) < 0, -1.0, 1.0), 1 / (0.2 * num_examples)


def weights_program(margins, cap):
    """min beta over example weights and beta: the sum of weights first, then a row for each
    hypothesis.
    """
    num_examples, num_hypotheses = margins.shape
    matrix = np.vstack(
        [
            np.append(np.ones(num_examples), 0.0),
            np.hstack([margins.T, -np.ones((num_hypotheses, 1))]),
        ]
    )
    return linear_programs.make(
        "weights",
        np.append(np.zeros(num_examples), 1.0),
        matrix,
        row_lower=np.append(1.0, np.full(num_hypotheses, -np.inf)),
        row_upper=np.append(1.0, np.zeros(num_hypotheses)),
        lower=np.append(np.zeros(num_examples), -1.0),
        upper=np.append(np.full(num_examples, cap), 1.0),
    )


def votes_program(margins, cap):
    """The dual of `weights_program`: slacks, the margin, then a variable for each hypothesis."""
    num_examples, num_hypotheses = margins.shape
    matrix = np.block(
        [
            [np.eye(num_examples), -np.ones((num_examples, 1)), margins],
            [np.zeros((1, num_examples + 1)), np.ones((1, num_hypotheses))],
        ]
    )
    return linear_programs.make(
        "votes",
        np.concatenate([np.full(num_examples, cap), [-1.0], np.zeros(num_hypotheses)]),
        matrix,
        row_lower=np.append(np.zeros(num_examples), 1.0),
        row_upper=np.append(np.full(num_examples, np.inf), 1.0),
        lower=np.concatenate([np.zeros(num_examples), [-1.0], np.zeros(num_hypotheses)]),
        upper=np.concatenate([np.full(num_examples, 2.0), [1.0], np.ones(num_hypotheses)]),
    )


def check(known, solution, *, agreement):
    """Status and objectives of one solution against what is known of the program."""
    status, name = Status(int(solution.status)), known.name
    allowed = (
        {Status.PRIMAL_INFEASIBLE, Status.DUAL_INFEASIBLE}
        if name.startswith(linear_programs.DUALLY_INFEASIBLE)
        else KINDS[known.kind]
    )
    assert status in allowed, name
    if known.kind == "optimal":
        optimum = highs.solve(known).objective
        # what rounding is relative to
        scale = 1 + float(np.abs(known.objective * np.asarray(solution.primal)).sum())
        assert abs(float(solution.primal_objective) - optimum) <= agreement * scale, name
        assert abs(float(solution.dual_objective) - optimum) <= agreement * scale, name
        rounding = 1e-9 if agreement <= 1e-6 else 1e-6  # of HiGHS, and of the program in float32
        assert float(solution.lower_bound) <= optimum + rounding * scale, name
        assert np.all(np.asarray(solution.primal) >= known.lower.astype(solution.primal.dtype)), (
            name
        )
        assert np.all(np.asarray(solution.primal) <= known.upper.astype(solution.primal.dtype)), (
            name
        )
    else:
        assert not (status == Status.DUAL_INFEASIBLE and np.isposinf(solution.lower_bound)), name


@functools.cache
def solved(dtype, shapes=linear_programs.SHAPES[:2]):
    """Random programs of every kind with their solutions; both default float types are asked for
    under the right setting only.
    """
    assert jnp.result_type(float) == dtype
    pairs = []
    groups = linear_programs.by_shape(linear_programs.random_programs(120))
    for group in (groups[shape] for shape in shapes):
        solutions = jax.tree.map(
            np.asarray, solve_all(stack(group), {"float64": 1e-7, "float32": 1e-5}[dtype])
        )
        pairs += [
            (known, jax.tree.map(lambda leaf, i=i: leaf[i], solutions))
            for i, known in enumerate(group)
        ]
    return pairs


@pytest.mark.slow
def test_random_programs_in_float64(x64):
    for known, solution in solved("float64"):
        check(known, solution, agreement=1e-6)


@pytest.mark.slow
def test_random_programs_in_float32():
    """But those in units from 1/100 to 100, where float32 may lose a ray."""
    for known, solution in solved("float32"):
        if "scaled" not in known.name:
            check(known, solution, agreement=1e-4)


@pytest.mark.slow
def test_more_random_programs_in_float64(x64):
    for known, solution in solved("float64", linear_programs.SHAPES[2:]):
        check(known, solution, agreement=1e-6)


@pytest.mark.slow
def test_rays_prove_what_they_claim(x64):
    for known, solution in solved("float64"):
        if int(solution.status) == Status.PRIMAL_INFEASIBLE:
            gain, missed = _earned(solution.dual, known.row_lower, known.row_upper)
            paid, wrong = _earned(-solution.dual @ known.matrix, known.lower, known.upper)
            assert gain + paid > 0, known.name
            assert max(missed, wrong) <= 1e-4 * (gain + paid), known.name
        elif int(solution.status) == Status.DUAL_INFEASIBLE:
            ray, fall = solution.primal, -known.objective @ solution.primal
            off = (
                _stopped(known.matrix @ ray, known.row_lower, known.row_upper),
                _stopped(ray, known.lower, known.upper),
            )
            assert fall > 0, known.name
            assert max(off) <= 1e-4 * fall, known.name


def _earned(slopes, low, high):
    bound = np.where(slopes > 0, low, high)
    finite = np.isfinite(bound)
    return slopes[finite] @ bound[finite], np.abs(slopes[~finite]).max(initial=0.0)


def _stopped(ray, low, high):
    return max((-ray[np.isfinite(low)]).max(initial=0.0), ray[np.isfinite(high)].max(initial=0.0))


@pytest.mark.slow
def test_a_batch_equals_its_members(x64):
    members = [
        (known, together) for known, together in solved("float64") if known.matrix.shape == (12, 18)
    ][:12]
    # of unequal difficulty
    assert len({int(together.num_iterations) for _, together in members}) > 3
    for known, together in members:
        alone = solve(to_program(known), 1e-7)
        assert int(alone.status) == int(together.status)
        if known.kind == "optimal":
            np.testing.assert_allclose(
                alone.primal_objective, together.primal_objective, rtol=1e-5, atol=1e-5
            )
            assert abs(int(alone.num_iterations) - int(together.num_iterations)) <= 0.2 * int(
                alone.num_iterations
            )


@pytest.mark.slow
def test_boosting_programs_agree_and_prove_bounds(x64):
    margins, cap = boosting(60, 20, 3)
    weights, votes = (to_program(form(margins, cap)) for form in (weights_program, votes_program))
    optimum = highs.solve(weights_program(margins, cap)).objective
    for problem, sign in ((weights, 1), (votes, -1)):
        solution = solve(problem, 1e-8)
        assert int(solution.status) == Status.OPTIMAL
        assert optimum * sign - 1e-6 <= float(solution.lower_bound) <= optimum * sign + 1e-12
        assert float(solution.upper_bound) >= optimum * sign - 1e-12


def cold_start(problem):
    return first_order.WarmStart(
        jnp.zeros_like(problem.objective), jnp.zeros_like(problem.row_lower), jnp.zeros(())
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", [weights_program, votes_program])
def test_a_hypothesis_costs_no_more_than_it_changes(x64, form):
    """The last hypothesis is a copy of the first: what was optimal still is, extended by 0, and a
    quarter of the iterations is more than enough.
    """
    margins, cap = boosting(60, 20, 4)
    old, new = (
        to_program(form(part, cap)) for part in (margins, np.hstack([margins, margins[:, :1]]))
    )
    before = run(old, 1e-7, initial=cold_start(old))
    known = first_order.extend(
        first_order.warm_start(before),
        num_columns=new.objective.shape[0],
        num_rows=new.row_lower.shape[0],
    )
    cold = run(new, 1e-6, initial=cold_start(new))
    for initial in (known, known._replace(primal_weight=jnp.zeros(()))):
        warm = run(new, 1e-6, initial=initial)
        assert int(warm.status) == int(cold.status) == Status.OPTIMAL
        assert int(warm.num_iterations) <= int(cold.num_iterations) / 4


@pytest.mark.slow
def test_a_solution_is_a_warm_start(x64):
    margins, cap = boosting(60, 20, 4)
    problem = to_program(weights_program(margins, cap))
    solution = solve(problem, 1e-7)
    again = solve(problem, 1e-6, initial=solution)
    assert int(again.num_iterations) == CONFIG.iterations_per_check
    assert int(again.status) == Status.OPTIMAL
    with pytest.raises(ValueError, match="initial.primal has length 61: expected at most 3"):
        solve(make_program(np.ones(3), np.ones((30, 3)), row_lower=1.0), 1e-6, initial=solution)


@pytest.mark.slow
def test_history(x64):
    margins, cap = boosting(60, 20, 3)
    problem = to_program(weights_program(margins, cap))
    solution = solve(problem, 1e-6)
    checks = int(solution.num_iterations) // 40
    for line in solution.history:
        assert np.all(np.isfinite(line[:checks]))
        assert np.all(np.isposinf(line[checks:]))
    assert float(solution.history.duality_gaps[checks - 1]) <= 1e-6


@pytest.mark.slow
def test_limit_of_iterations_and_its_bounds(x64):
    margins, cap = boosting(60, 20, 3)
    known = weights_program(margins, cap)
    optimum = highs.solve(known).objective
    for limit, ran, length in ((25, 25, 0), (100, 80, 1)):
        solution = solve(
            to_program(known),
            1e-9,
            FirstOrderConfig(max_iterations=limit, history_length=length, proof=UNPROVEN),
        )
        assert int(solution.status) == Status.ITERATION_LIMIT
        assert int(solution.num_iterations) == ran
        assert solution.history.duality_gaps.shape == (length,)
        assert float(solution.lower_bound) <= optimum + 1e-12
        assert float(solution.upper_bound) >= optimum - 1e-12


def test_steps_are_what_solve_does(x64):
    margins, cap = boosting(60, 20, 3)
    problem, config = to_program(weights_program(margins, cap)), CONFIG
    step = jax.jit(functools.partial(first_order.step, tolerance=1e-6, config=config))
    state = jax.jit(functools.partial(first_order.init, config=config))(problem)
    while bool(first_order.unfinished(state)):
        state, info = step(state, problem)
    alone = solve(problem, 1e-6)
    primal = state.best.primal * state.scaling.columns / state.scaling.bound_scale
    assert int(info.num_iterations) == int(state.num_iterations)
    assert abs(int(alone.num_iterations) - int(info.num_iterations)) <= 0.2 * int(
        alone.num_iterations
    )
    np.testing.assert_allclose(
        problem.objective @ primal, alone.primal_objective, rtol=1e-5, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("field", ["objective", "operator", "row_lower", "lower"])
def test_nan_ends_at_once(x64, field):
    problem = to_program(linear_programs.make("two", [1.0, 1.0], [[1.0, 2.0]], row_lower=1.0))
    spoiled = problem._replace(
        **{field: jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), getattr(problem, field))}
    )
    solution = solve(spoiled, 1e-6)
    assert int(solution.status) == Status.INVALID_INPUT
    assert int(solution.num_iterations) == 0
    assert solution.lower_bound == -np.inf
    assert solution.upper_bound == np.inf


@pytest.mark.slow
def test_overflow_is_a_numerical_error():
    problem = to_program(
        linear_programs.make("huge", [1e30, 1.0], [[1e30, 2.0], [1.0, -1e-30]], row_lower=1e30)
    )
    assert int(solve(problem, 1e-5).status) in (
        Status.NUMERICAL_ERROR,
        Status.OPTIMAL,
        Status.ITERATION_LIMIT,
    )


@pytest.mark.slow
def test_scaling_brings_singular_values_below_one(x64):
    random = np.random.default_rng(5)
    matrix = (
        random.normal(size=(12, 9))
        * 10 ** random.uniform(-3, 3, (12, 1))
        * 10 ** random.uniform(-3, 3, 9)[None]
    )
    matrix[3], matrix[:, 4] = 0, 0
    problem = make_program(random.normal(size=9), matrix, row_lower=-1.0)
    for rounds in (1, 2, 10):
        factors = scaling.equilibrate(problem, rounds)
        scaled = np.asarray(factors.rows)[:, None] * matrix * np.asarray(factors.columns)[None]
        assert np.linalg.norm(scaled, 2) <= 1 + 1e-12
        assert np.linalg.norm(scaled, 2) >= 0.5
        assert float(factors.rows[3]) == 1
        assert float(factors.columns[4]) == 1


@pytest.mark.slow
def test_the_tiny_programs_of_the_literature(x64):
    """Shapes differ, so that each is a compilation: the first few."""
    known = [known for known in linear_programs.small_programs() if known.matrix.size <= 4][:4]
    for one in known:
        check(one, solve(to_program(one), 1e-8), agreement=1e-6)


def test_first_order_config_validates_sizes():
    with pytest.raises(ValueError, match="config.max_iterations is 0"):
        FirstOrderConfig(max_iterations=0)


@pytest.mark.slow
def test_residuals_are_those_of_the_points(x64):
    margins, cap = boosting(60, 20, 3)
    problem = to_program(weights_program(margins, cap))
    solution = solve(problem, 1e-6)
    quality = assess(
        problem, primal_side(problem, solution.primal), dual_side(problem, solution.dual)
    )
    for name in ("primal_residual", "dual_residual", "duality_gap"):
        np.testing.assert_allclose(
            getattr(solution, name), getattr(quality, name), rtol=1e-6, atol=1e-14
        )
