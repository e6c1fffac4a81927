"""Statuses of linear programs, and what each lets bounds, objective, arrays and words be, over
random programs of every kind against HiGHS.

| status            | lower_bound              | upper_bound       | primal       | dual         |
|-------------------|--------------------------|-------------------|--------------|--------------|
| OPTIMAL           | at most the optimum      | at least the same | in tolerance | in tolerance |
| ITERATION_LIMIT,  | at most the optimum      | at least the same | in bounds    | finite       |
| NUMERICAL_ERROR   |                          |                   |              |              |
| PRIMAL_INFEASIBLE | inf if the ray proves it | inf               | in bounds    | a ray        |
| DUAL_INFEASIBLE   | -inf                     | inf               | a ray        | finite       |
| INVALID_INPUT     | -inf                     | inf               | (nothing)    | (nothing)    |

No bound is NaN. `recompute_bounds` finds the same or better ones.
"""

import collections
import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost import lp
from jboost.base.status import Status, explain
from marks import slow
from oracles import highs
from status_programs import random_status_programs

METHODS = {"interior point": lp.InteriorPointConfig(), "first order": lp.FirstOrderConfig()}
TOGETHER = 90  # programs in one call: one compiled program serves any number


@functools.partial(jax.jit, static_argnames="config")
def solve_and_recompute(batch, config):
    def one(program):
        solution = lp.solve(program, config=config)
        return solution, lp.recompute_bounds(program, solution)

    return jax.vmap(one)(batch)


def solve_all(programs, config):
    """Solutions and recomputed bounds of the programs, each on the host."""
    found = []
    for first in range(0, len(programs), TOGETHER):
        group = programs[first : first + TOGETHER]
        filled = (group + group[:1] * TOGETHER)[:TOGETHER]
        batch = lp.LinearProgram(
            *(
                jnp.asarray(np.stack(part))
                for part in zip(*(program[1:7] for program in filled), strict=True)
            )
        )
        results = jax.device_get(solve_and_recompute(batch, config))
        found += [
            jax.tree.map(lambda leaf, index=index: leaf[index], results)
            for index in range(len(group))
        ]
    return found


@functools.cache
def solved_by_highs(count):
    return [highs.solve(program) for program in random_status_programs(count)]


def ray_refutes(program, ray):
    """Whether a dual proves in exact arithmetic that there is no feasible point: it earns on rows
    what no point within the bounds can pay.
    """
    ray = [Fraction(float(entry)) for entry in ray]
    total = Fraction(0)
    for entry, low, high in zip(ray, program.row_lower, program.row_upper, strict=True):
        if entry:
            bound = low if entry > 0 else high
            if np.isinf(bound):
                return False
            total += entry * Fraction(float(bound))
    for column, low, high in zip(program.matrix.T, program.lower, program.upper, strict=True):
        slope = -sum(
            Fraction(float(value)) * entry for value, entry in zip(column, ray, strict=True)
        )
        if slope:
            bound = low if slope > 0 else high
            if np.isinf(bound):
                return False
            total += slope * Fraction(float(bound))
    return total > 0


def contradictions(program, oracle, solution, recomputed, accuracy):
    """What the solution says that is false, or that two of its parts disagree on; one line each."""
    status, lower, upper = (
        Status(int(solution.status)),
        float(solution.lower_bound),
        float(solution.upper_bound),
    )
    again = tuple(map(float, recomputed))
    small = 1e-7 * (1 + abs(oracle.objective)) if oracle.status == "optimal" else 0.0
    # equalities that are met but for rounding: in exact arithmetic there may be no point
    nearly_feasible = program.name.startswith("rough")
    rules = {
        "a bound is NaN": np.isnan([lower, upper, *again]).any(),
        "the bounds cross": lower > upper or again[0] > again[1],
        "recomputed bounds are worse": again[0] < lower or again[1] > upper,
        "the lower bound is above the optimum": (
            lower > oracle.objective + small or again[0] > oracle.objective + small
        ),
        "the upper bound is below the optimum": (
            upper < oracle.objective - small or again[1] < oracle.objective - small
        ),
        "no optimum, but OPTIMAL": (
            oracle.status != "optimal" and status == Status.OPTIMAL and not nearly_feasible
        ),
        "feasible, but PRIMAL_INFEASIBLE": (
            oracle.status != "infeasible" and status == Status.PRIMAL_INFEASIBLE
        ),
        "with an optimum, but DUAL_INFEASIBLE": (
            oracle.status == "optimal" and status == Status.DUAL_INFEASIBLE
        ),
        "DUAL_INFEASIBLE with a bound": (
            status == Status.DUAL_INFEASIBLE and (lower > -np.inf or upper < np.inf)
        ),
        "PRIMAL_INFEASIBLE with an upper bound": (
            status == Status.PRIMAL_INFEASIBLE and upper < np.inf
        ),
        "an infinite lower bound without that status": (
            lower == np.inf and status != Status.PRIMAL_INFEASIBLE
        ),
        "the ray proves infinity, the bound does not": (
            status == Status.PRIMAL_INFEASIBLE
            and lower < np.inf
            and ray_refutes(program, solution.dual)
        ),
        "infeasible in a box, but without a proof": (
            program.name.startswith("impossible")
            and not (status == Status.PRIMAL_INFEASIBLE and lower == np.inf)
        ),
        "the objective is not the optimum": (
            status == Status.OPTIMAL
            and oracle.status == "optimal"
            and not abs(float(solution.primal_objective) - oracle.objective)
            <= accuracy * (1 + abs(oracle.objective))
        ),
        "a point outside its bounds": (
            status in (Status.OPTIMAL, Status.NUMERICAL_ERROR, Status.PRIMAL_INFEASIBLE)
            and not np.all((solution.primal >= program.lower) & (solution.primal <= program.upper))
        ),
        "all variables are fixed, and a bound is infinite": (
            status == Status.OPTIMAL
            and np.array_equal(program.lower, program.upper)
            and not np.isfinite([lower, upper]).all()
        ),
    }
    return [
        f"{program.name}: {rule} ({status.name}, {lower} to {upper}, {oracle.status})"
        for rule, is_broken in rules.items()
        if is_broken
    ]


def check(count, method, wide):
    programs = random_status_programs(count)
    with jax.enable_x64(wide):
        solutions = solve_all(programs, METHODS[method])
    found, statuses = [], collections.Counter()
    for program, oracle, (solution, recomputed) in zip(
        programs, solved_by_highs(count), solutions, strict=True
    ):
        found += contradictions(program, oracle, solution, recomputed, 1e-6 if wide else 1e-3)
        statuses[Status(int(solution.status))] += 1
        statuses["solvable"] += oracle.status == "optimal"
        statuses["given up"] += oracle.status == "optimal" and solution.status != Status.OPTIMAL
        if solution.status == Status.PRIMAL_INFEASIBLE:
            statuses["proven"] += solution.lower_bound == np.inf
        if solution.status == Status.OPTIMAL:
            is_proven = bool(np.isfinite([solution.lower_bound, solution.upper_bound]).all())
            statuses["between bounds"] += is_proven
            statuses["transport"] += program.name.startswith("transport")
            statuses["transport between bounds"] += is_proven and program.name.startswith(
                "transport"
            )
    assert not found, "\n".join(found)
    told = dict(statuses)
    assert {Status.OPTIMAL, Status.PRIMAL_INFEASIBLE, Status.DUAL_INFEASIBLE} <= set(statuses), told
    # in float32 one in a hundred: numbers of six digits are too short for its tolerance. Which ones
    # depends on how a processor adds, so that a small sample may have two more
    assert statuses["given up"] <= 0.02 * statuses["solvable"] + 2, told
    assert statuses["proven"] >= 0.9 * statuses[Status.PRIMAL_INFEASIBLE], told
    assert statuses["transport between bounds"] >= 0.99 * statuses["transport"], told
    assert statuses["between bounds"] >= 0.9 * statuses[Status.OPTIMAL], told


@pytest.mark.parametrize(
    ("method", "wide"),
    [("interior point", False), slow("interior point", True), slow("first order", False)],
)
def test_statuses_and_bounds_agree(method, wide):
    check(180, method, wide)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
def test_statuses_and_bounds_agree_on_20000_programs(method, wide):
    check(5_000, method, wide)


def test_words_of_statuses_promise_no_more_than_the_bounds_hold():
    assert "meet" not in explain(Status.OPTIMAL)
    assert "lower_bound` is inf" in explain(Status.PRIMAL_INFEASIBLE)
