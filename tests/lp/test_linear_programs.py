"""The linear programs of the other tests and their oracle: what is claimed of each program is what
HiGHS finds, with presolve and without.
"""

import collections

import jax
import numpy as np
import pytest

import linear_programs
from benchmarks.peers import linear_programs as peers
from oracles import highs

INF = np.inf
RANDOM = linear_programs.random_programs()


def agrees(program):
    """HiGHS's answer with presolve, once it is settled that it is the claimed one, and the same
    without presolve.
    """
    found, again = highs.solve(program), highs.solve(program, presolve=False)
    assert found.status == again.status == program.kind, program.name
    if program.kind == "optimal":
        assert found.objective == pytest.approx(again.objective, rel=1e-8, abs=1e-8), program.name
        if program.optimum is not None:
            assert found.objective == pytest.approx(program.optimum, rel=1e-8, abs=1e-8), (
                program.name
            )
        assert proven(program, found) == pytest.approx(found.objective, rel=1e-7, abs=1e-7), (
            program.name
        )
    return found


def proven(program, found):
    """The lower bound that the dual proves, after a look at the primal: a wrong sign of up to 1e-7
    at an infinite bound is let pass.
    """
    activity = program.matrix @ found.primal
    for values, low, high in (
        (activity, program.row_lower, program.row_upper),
        (found.primal, program.lower, program.upper),
    ):
        assert np.all((values >= low - 1e-6) & (values <= high + 1e-6)), program.name
    reduced = program.objective - program.matrix.T @ found.dual
    return held(found.dual, program.row_lower, program.row_upper) + held(
        reduced, program.lower, program.upper
    )


def held(multipliers, low, high):
    multipliers = np.where(np.abs(multipliers) < 1e-7, 0, multipliers)
    bound = np.select([multipliers > 0, multipliers < 0], [low, high], 0)
    return float(np.sum(multipliers * bound))


def test_random_programs_are_of_the_kind_claimed():
    for program in RANDOM:
        agrees(program)


def test_random_programs_are_a_fair_mix():
    counts = collections.Counter(program.kind for program in RANDOM)
    assert counts == {"optimal": 130, "infeasible": 35, "unbounded": 35}
    groups = linear_programs.by_shape(RANDOM)
    assert tuple(groups) == linear_programs.SHAPES
    assert all({program.kind for program in group} == set(counts) for group in groups.values())
    for program in RANDOM:
        assert np.all(program.row_lower <= program.row_upper), program.name
        assert np.all(program.lower <= program.upper), program.name
        values = np.concatenate([np.ravel(part) for part in program[1:7]])
        assert np.abs(values[np.isfinite(values)]).max() < 1e6


def test_random_programs_do_not_depend_on_their_number():
    for few, many in zip(linear_programs.random_programs(3), RANDOM, strict=False):
        assert few.name == many.name
        np.testing.assert_array_equal(few.matrix, many.matrix)


def test_a_program_whose_dual_is_infeasible_too():
    named = [
        program for program in RANDOM if program.name.startswith(linear_programs.DUALLY_INFEASIBLE)
    ]
    assert len(named) == 5
    for program in RANDOM:
        if program.kind == "infeasible":
            # the dual is feasible if and only if the cone of the recession directions has none
            # along which the objective falls
            flat = [np.where(np.isfinite(bound), 0, bound) for bound in program[3:7]]
            cone = program._replace(
                row_lower=flat[0], row_upper=flat[1], lower=flat[2], upper=flat[3]
            )
            assert highs.solve(cone).status == ("unbounded" if program in named else "optimal"), (
                program.name
            )


SMALL = linear_programs.small_programs()


@pytest.mark.parametrize("program", SMALL, ids=[program.name for program in SMALL])
def test_programs_of_the_literature(program):
    agrees(program)


def test_structured_programs():
    agrees(linear_programs.transport(4, 6, 1))
    agrees(linear_programs.assignment(7, 2))
    cover = linear_programs.set_cover(20, 30, 3)
    assert 0 < agrees(cover).objective <= cover.objective.sum()


@pytest.mark.parametrize("kind", ["signs", "stumps"])
@pytest.mark.parametrize("nu", [0.05, 0.1, 0.3])
def test_the_two_programs_of_lp_boost_are_dual(kind, nu):
    margins = linear_programs.random_margins(kind, 100, 40, 4)
    assert set(np.unique(margins)) == {-1, 1}
    primal, dual = (
        linear_programs.lpboost_program(margins, nu),
        linear_programs.lpboost_dual_program(margins, nu),
    )
    edge = agrees(dual).objective
    assert -agrees(primal).objective == pytest.approx(edge, abs=1e-8)
    assert 0 < edge < 1


def test_oracle_takes_degenerate_sizes():
    none = linear_programs.make("", [1.0, -1.0], np.zeros((0, 2)), lower=-1, upper=[INF, 2])
    assert highs.solve(none).objective == -3
    assert highs.solve(none._replace(lower=np.array([-INF, 0]))).status == "unbounded"


@pytest.mark.parametrize("method", ["simplex", "ipm"])
def test_peer_finds_the_optimum(method):
    for program in SMALL:
        if program.kind == "optimal":
            assert peers.highs(*program[1:7], method=method) == pytest.approx(
                program.optimum, rel=1e-7, abs=1e-7
            ), program.name
        else:
            with pytest.raises(RuntimeError, match="HiGHS ended with"):
                peers.highs(*program[1:7], method=method)


@pytest.mark.slow
def test_mpax_finds_the_optima_of_a_batch():
    pytest.importorskip("mpax")
    programs = [
        linear_programs.lpboost_dual_program(
            linear_programs.random_margins("signs", 30, 10, seed), 0.2
        )
        for seed in range(3)
    ]
    batch = [
        np.stack(parts).astype(np.float32)
        for parts in zip(*(program[1:7] for program in programs), strict=True)
    ]
    optima = [highs.solve(program).objective for program in programs]
    with jax.numpy_rank_promotion("allow"):  # MPAX relies on it
        np.testing.assert_allclose(peers.mpax_batch(*batch), optima, atol=1e-3)
