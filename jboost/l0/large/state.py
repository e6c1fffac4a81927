"""The state of a fit between two rounds, as arrays that can be saved, and back.

Everything that follows from the data set is computed again. Times are part of the state, because
shares of them are spent on votes and bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jboost.base import checksums
from jboost.l0.large.feasible import PrimalPoint
from jboost.l0.large.greedy import GreedyRules
from jboost.l0.large.pool import ColumnPool, CutPool
from jboost.l0.large.proof import MonomialTable, TableBound
from jboost.l0.large.relax import LargeRelaxation
from jboost.l0.large.votes import MonomialVote, SignedMonomials


class HeldRelaxation(NamedTuple):
    """A relaxation over the first rows, with U columns, K cuts and g columns that were replaced."""

    is_either: bool
    monomials: np.ndarray  # [U] int64, -1 in empty slots
    signs: np.ndarray  # [U]
    coefficients: np.ndarray  # [U + 2] lambda
    extra: np.ndarray  # [U] mu - lambda
    num_evicted: int
    num_returned: int
    gone: np.ndarray  # [g, 2] int64, monomials and signs
    inside: np.ndarray  # [K] rows
    outside: np.ndarray  # [K]
    duals: np.ndarray  # [K]
    idle: np.ndarray  # [K] rounds
    slacks: np.ndarray  # [m]
    rates: np.ndarray  # [m]
    primal_weight: float
    upper_bound: float
    point: PrimalPoint | None
    proven: TableBound | None
    num_rounds: int


class LargeProblem(NamedTuple):
    """What the bounds of a fit hold for: a state of another problem is refused."""

    num_rows: int  # of the rows that count
    num_monomials: int
    margin: float
    max_hypotheses: int | None  # the limit on the votes, and so of their loss
    rows: int  # checksum of the bits, labels and weights
    costs: int  # checksum of the costs of monomials and constants


class LargeState(NamedTuple):
    """The state of `jboost.l0.fit_large` after a round, from which it continues as `initial`.

    Its fields may change with the version; `num_rounds` and the bounds are for display.
    """

    problem: LargeProblem
    stage: int  # index of the relaxation, over more and more rows
    is_integer: bool  # whether the last round was on the relaxation with cuts valid for (15)
    num_idle: int  # rounds without progress
    vote: MonomialVote
    rules: GreedyRules
    first: HeldRelaxation  # with cuts of both orders
    second: HeldRelaxation | None  # with cuts that are valid for (15)
    shares_columns: bool  # whether both relaxations have one pool of columns
    upper_bound: float
    point: PrimalPoint | None
    trace: np.ndarray  # [r, 2]
    seconds: float  # of all rounds so far
    seconds_of_votes: float
    seconds_of_bounds: float
    seconds_of_last_round: float
    rows_of_last_round: int

    @property
    def num_rounds(self) -> int:
        """The number of rounds on the first relaxation."""
        return len(self.trace)


def of_run(run: Any) -> LargeState:
    """The state of a `run.Run` that has begun its first relaxation."""
    assert run.first is not None
    return LargeState(
        problem=run.problem,
        stage=run.stage,
        is_integer=run.is_integer,
        num_idle=run.num_idle,
        vote=run.vote,
        rules=run.rules,
        first=_hold(run.first),
        second=None if run.second is None else _hold(run.second),
        shares_columns=run.second is not None and run.second.pool is run.first.pool,
        upper_bound=float(run.upper_bound),
        point=run.point,
        trace=np.array(run.trace, np.float64).reshape(-1, 2),
        seconds=run.clock.elapsed,
        seconds_of_votes=run.spent_on_votes,
        seconds_of_bounds=run.spent_on_bounds,
        seconds_of_last_round=run.last_step,
        rows_of_last_round=run.last_rows,
    )


def problem_of(table: MonomialTable, max_hypotheses: int | None) -> LargeProblem:
    """The problem of a table, with votes of at most so many rules."""
    return LargeProblem(
        len(table.labels),
        len(table.costs),
        table.margin,
        max_hypotheses,
        checksums.of_arrays(*table.literals, table.labels, table.weights),
        checksums.of_arrays(table.costs, np.float64(table.constant_cost)),
    )


def validate(state: Any, expected: LargeProblem) -> LargeState:
    """The state. Raises ValueError, naming what differs, unless it is one of a fit of the same
    problem.
    """
    if not isinstance(state, LargeState):
        raise ValueError(
            f"initial is a {type(state).__name__}: expected a jboost.l0.LargeState, as `on_step` of"
            " the same fit received it"
        )
    given = state.problem
    if given[:2] != expected[:2]:
        raise ValueError(
            f"initial is the state of a fit of {given[0]:,} rows and {given[1]:,} monomials:"
            f" expected {expected[0]:,} and {expected[1]:,}; pass the data set and the learner of"
            " the run that made it, or leave it out"
        )
    for name in ("margin", "max_hypotheses"):
        value, wanted = getattr(given, name), getattr(expected, name)
        if value != wanted:
            raise ValueError(
                f"initial is the state of a fit with {name} {value}: expected {wanted}; pass the"
                " options of the run that made it, or leave it out"
            )
    checksums.require_same(
        (given.rows, given.costs),
        (expected.rows, expected.costs),
        parts=("features, labels or weights", "costs of the learner"),
        what="fit",
    )
    return state


def restore(run: Any, state: LargeState, tables: list[MonomialTable]) -> None:
    """Sets a `run.Run` to a state, in place. `tables` are those of all stages."""
    table = tables[state.stage]
    run.stage, run.is_integer, run.num_idle = state.stage, state.is_integer, state.num_idle
    run.vote, run.rules = state.vote, state.rules
    run.first = _release(state.first, table)
    run.second = None if state.second is None else _release(state.second, _table_of(state, tables))
    if run.second is not None and state.shares_columns:
        run.second.pool = run.first.pool
    run.upper_bound, run.point = state.upper_bound, state.point
    run.trace = [(float(lower), float(upper)) for lower, upper in state.trace]
    run.spent_on_votes, run.spent_on_bounds = state.seconds_of_votes, state.seconds_of_bounds
    run.last_step, run.last_rows = state.seconds_of_last_round, state.rows_of_last_round


def _table_of(state: LargeState, tables: list[MonomialTable]) -> MonomialTable:
    """The table of the second relaxation. It may be that of an earlier stage."""
    assert state.second is not None
    number = len(state.second.slacks)
    return next(table for table in tables if len(table.labels) == number)


def _hold(relaxation: LargeRelaxation) -> HeldRelaxation:
    held, cuts = relaxation.pool, relaxation.cuts
    return HeldRelaxation(
        is_either=relaxation.is_either,
        monomials=np.where(held.is_used, held.monomials, -1),
        signs=held.signs.copy(),
        coefficients=held.coefficients.copy(),
        extra=held.extra.copy(),
        num_evicted=held.num_evicted,
        num_returned=int(held.num_returned),
        gone=np.array(sorted(held.gone), np.int64).reshape(-1, 2),
        inside=cuts.inside.copy(),
        outside=cuts.outside.copy(),
        duals=np.array(cuts.duals),
        idle=cuts.idle.copy(),
        slacks=np.array(relaxation.slacks),
        rates=np.array(relaxation.rates),
        primal_weight=relaxation.primal_weight,
        upper_bound=float(relaxation.upper_bound),
        point=relaxation.point,
        proven=relaxation.proven,
        num_rounds=relaxation.num_rounds,
    )


def _release(held: HeldRelaxation, table: MonomialTable) -> LargeRelaxation:
    cuts = CutPool()
    cuts.inside, cuts.outside = held.inside.copy(), held.outside.copy()
    cuts.duals, cuts.idle = held.duals.copy(), held.idle.copy()
    columns = ColumnPool.of_columns(
        table, SignedMonomials(held.monomials, held.signs), held.coefficients, held.extra
    )
    columns.num_evicted, columns.num_returned = held.num_evicted, held.num_returned
    columns.gone = {(int(monomial), int(sign)) for monomial, sign in held.gone}
    return LargeRelaxation(
        table,
        columns,
        held.is_either,
        cuts,
        held.slacks.copy(),
        held.rates.copy(),
        held.primal_weight,
        held.upper_bound,
        held.point,
        held.proven,
        held.num_rounds,
    )
