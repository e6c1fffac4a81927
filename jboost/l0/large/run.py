"""The loop of a fit: a first vote, then rounds on relaxations over more and more rows. A part of
the time is spent on better votes.

Equation numbers are those of Goldberg and Eckstein 2009: (18) is the relaxation, and (15) is the
integer problem, which counts errors and rules.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jboost.base import loops
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.l0.large import (
    exchange,
    feasible,
    greedy,
    proof,
    relax,
    sizes,
    solutions,
    state,
    votes,
)
from jboost.l0.large.clock import Clock
from jboost.l0.large.feasible import PrimalPoint
from jboost.l0.large.greedy import GreedyRules
from jboost.l0.large.pool import ColumnPool
from jboost.l0.large.proof import MonomialTable
from jboost.l0.large.relax import LargeRelaxation
from jboost.l0.large.votes import MonomialVote, SignedMonomials
from jboost.l0.votes import local_search, rounded
from jboost.l0.votes.solution import CoefficientsConfig
from jboost.l0.votes.vertex import VertexConfig
from jboost.monomials import products

# Rules of the first vote are found on at most so many rows; the votes are refitted on all rows.
_ROWS_OF_RULES = 1 << 16
_MOST_FIRST_RULES = 24  # the most rules of a first vote, if the user sets no limit
_RULES_WITHOUT_GAIN = 4  # the first vote ends after so many consecutive rules without a gain
_ENOUGH_OF_A_PART = 0.1  # below this gap over a part of the rows, more rows are added
# The default of `max_cuts` for up to _MANY_ROWS rows, and for more rows.
_CUTS, _CUTS_OF_MANY_ROWS, _MANY_ROWS = 2048, 4096, 8192
_SHARE_ENTERING = 8  # the capacity divided by the columns of a sign that may enter in a round
_MOST_ENTERING = 128  # the most columns of a sign that enter in a round
_SHARE_OF_VOTES = 0.15  # the share of the time for the search for votes
_LAST_SEARCH = 30.0  # the most seconds of the last search, also without a time limit
# The share of the time for bounds over all rows, while a relaxation over a part is being solved.
_SHARE_OF_BOUNDS = 0.15
_RESERVED = 0.1  # the share of the time limit that is reserved for the last search
# The number of starting points of a search for votes after a round, and of the last search.
_STARTS_AT_ONCE, _ALL_STARTS = 2, 16
_NUM_VOTING = 46  # the number of columns in a search, in addition to those of the best vote
_FIRST_VARIATIONS = 8  # variations of the first vote from which a search starts; not tuned
_MOST_IDLE = 12  # it stops after so many rounds without a new column or cut or a smaller gap
_MOST_REFINED = 3  # the most passes over the rules of the first vote
_MOST_OF_VERTEX = 510  # the most columns of a vertex; with two constants 512


class LargeFitInfo(NamedTuple):
    """The argument of `on_step` after each step."""

    phase: str  # "vote", "relaxation", "integer" or "vertex"
    num_rounds: int
    lower_bound: float  # of the relaxation
    upper_bound: float
    integer_lower_bound: float  # of (15)
    best_loss: float  # of the best vote
    num_rules: int
    num_columns: int
    num_evicted: int  # columns that were replaced by others
    num_returned: int  # replaced columns that entered again


# The final votes that limit the number of rules, and those that are solutions of the relaxation.
FewRules = local_search.SearchConfig | rounded.RelaxedConfig
Solution = CoefficientsConfig | VertexConfig


class Run:
    """One fit: the best vote so far, and the relaxations."""

    def __init__(
        self,
        table: MonomialTable,
        search: FewRules | Solution,
        tolerance: float,
        max_rounds: int,
        max_cuts: int | None,
        clock: Clock,
        on_step: OnStep | None,
    ) -> None:
        self.table = table
        self.search = search
        self.max_rules = search.max_hypotheses if isinstance(search, FewRules) else None
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.max_cuts = max_cuts
        self.clock = clock
        self.on_step = on_step
        self.vote = votes.constant(table)
        self.rules = greedy.without_rules(table)
        self.first: LargeRelaxation | None = None  # with cuts of both orders
        self.second: LargeRelaxation | None = None  # with cuts that are valid for (15)
        self.upper_bound = np.inf  # of the relaxation over all rows
        self.point: PrimalPoint | None = None  # the point whose value is the upper bound
        self.trace: list[tuple[float, float]] = []
        self.is_stopped = False  # by `on_step`
        self.stage = 0  # index of the relaxation, over more and more rows
        self.is_integer = False  # whether the rounds are those of `second`
        self.num_idle = 0  # rounds without a new column or cut or a smaller gap
        self.last_step, self.last_rows = 0.0, 0  # seconds and rows of the last round
        self.spent_on_votes = 0.0
        # seconds spent on bounds over all rows, while a part of them is solved
        self.spent_on_bounds = 0.0

    @property
    def votes_a_solution(self) -> bool:
        """Whether the final vote is a solution of the relaxation, so that no other is searched."""
        return isinstance(self.search, CoefficientsConfig | VertexConfig)

    @functools.cached_property
    def problem(self) -> state.LargeProblem:
        """What the states of this fit belong to."""
        return state.problem_of(self.table, self.max_rules)

    @property
    def goes_on(self) -> bool:
        """Whether neither `on_step` nor the time limit has ended the fit."""
        return not self.is_stopped and self.clock.left > 0

    def _num_cuts(self, num_rows: int) -> int:
        return self.max_cuts or (_CUTS if num_rows <= _MANY_ROWS else _CUTS_OF_MANY_ROWS)

    def report(self, phase: str) -> None:
        """Calls `on_step`, which may end the fit. There is a state after each round."""
        if self.on_step is None:
            return
        relaxation = self.first
        held = None if relaxation is None else relaxation.pool
        info = LargeFitInfo(
            phase,
            len(self.trace),
            0.0 if relaxation is None else relaxation.lower_bound,
            self.upper_bound,
            0.0 if self.second is None else self.second.lower_bound,
            self.vote.loss,
            self.vote.num_rules,
            0 if held is None else int(held.is_used.sum()),
            0 if held is None else held.num_evicted,
            0 if held is None else held.num_returned,
        )
        now = None if relaxation is None else state.of_run(self)
        self.is_stopped |= not loops.goes_on(self.on_step, now, info)

    def keep_if_better(self, vote: MonomialVote) -> bool:
        """Keeps a vote if it is better than the best one so far. Returns whether it is."""
        if vote.loss < self.vote.loss and (
            self.max_rules is None or vote.num_rules <= self.max_rules
        ):
            self.vote = vote
            return True
        return False

    def find_first_vote(self) -> None:
        """Adds rules while they improve the vote, then exchanges rules for better ones."""
        part = proof.first_rows(self.table, _ROWS_OF_RULES)
        num_without_gain, best = 0, self.rules
        size = min(
            _MOST_FIRST_RULES if self.max_rules is None else self.max_rules,
            int((self.table.costs < np.inf).sum()),
        )
        while (
            self.goes_on
            and len(self.rules.columns) < size
            and num_without_gain < _RULES_WITHOUT_GAIN
        ):
            self.rules = greedy.extend(part, self.rules)
            is_better = self.keep_if_better(votes.of_rules(self.table, self.rules, self.max_rules))
            num_without_gain = 0 if is_better else num_without_gain + 1
            best = self.rules if is_better else best
            self.report("vote")
        if not self.goes_on:
            return
        grown = votes.of_rules(self.table, self.rules, self.max_rules)
        self.rules = best if self.max_rules is None else self.rules
        self._refine_rules(part)
        if len(part.labels) < len(self.table.labels):
            self.rules = greedy.refit(self.table, self.rules)
            self.keep_if_better(votes.of_rules(self.table, self.rules, self.max_rules))
        seconds = (1.0 if self.max_rounds == 0 else _RESERVED) * self.clock.limit
        starts, numbers = [self.vote, grown], range(_FIRST_VARIATIONS)
        self.exchange_rules(starts, numbers, min(seconds, _LAST_SEARCH))
        self.report("vote")

    def _refine_rules(self, part: MonomialTable) -> None:
        """Exchanges each rule for the best alternative, while that lowers the loss and less than a
        tenth of the time is spent. Without rounds nothing follows, so that all of the time is for
        the exchanges.
        """
        seconds = (1.0 if self.max_rounds == 0 else _RESERVED) * self.clock.limit
        for _ in range(_MOST_REFINED):
            before = self.rules.loss
            for rules in greedy.exchanges(part, self.rules):
                self.rules = rules
                self.keep_if_better(votes.of_rules(self.table, self.rules, self.max_rules))
                self.report("vote")
                if not self.goes_on or self.clock.elapsed > seconds:
                    return
            if self.rules.loss >= before:
                return

    @functools.cached_property
    def sample(self) -> MonomialTable:
        """The rows over which rules are exchanged, with the weight of all rows."""
        part = proof.first_rows(self.table, _ROWS_OF_RULES)
        return part._replace(weights=part.weights * (self.table.weights.sum() / part.weights.sum()))

    def exchange_rules(self, starts: list[MonomialVote], numbers: range, seconds: float) -> None:
        """Runs the local search over all monomials from votes, and then from variations of the best
        vote that have these numbers. It stops after so many seconds.
        """
        since = self.clock.elapsed

        def follow(trials: Iterator[MonomialVote]) -> None:
            found = None
            while self.goes_on and self.clock.elapsed - since < seconds:
                trial = next(trials, None)
                if trial is None:
                    break
                found = trial
            if found is not None:
                self.keep_if_better(exchange.revalued(self.table, found))

        for start in starts:
            own = votes.limited(self.sample, start, self.max_rules)
            follow(exchange.improved(self.sample, own, self.max_rules))
        for number in numbers:
            own = exchange.revalued(self.sample, self.vote)
            follow(exchange.varied(self.sample, own, self.max_rules, number))

    def tables(self) -> list[MonomialTable]:
        """The tables of the relaxations, of more and more rows."""
        return [proof.first_rows(self.table, size) for size in sizes.stages(len(self.table.labels))]

    def close_gap(self, max_columns: int) -> Status:
        """Does rounds on the relaxation with cuts of both orders, over more and more rows, and then
        on the one whose cuts are valid for (15). It continues from a state that was restored.
        """
        status = Status.TIME_LIMIT if not self.is_integer else Status.OPTIMAL
        tables = self.tables()
        for stage in [] if self.is_integer else range(self.stage, len(tables)):
            if not self.goes_on:
                return Status.TIME_LIMIT
            relaxation = self._begin_stage(stage, tables[stage], max_columns)
            status = self._rounds(relaxation, "relaxation")
            self._prove_of_votes(relaxation)
            if relaxation.num_rounds:
                self._bound_above(relaxation, stage == len(tables) - 1, np.inf)
            if status is not Status.OPTIMAL:
                return status
        if self.votes_a_solution or self.second is None or self.first is None:
            return status
        if self.first.point is not None:
            self.num_idle = self.num_idle if self.is_integer else 0
            self.is_integer = True
            self._rounds(self.second, "integer")
        return status

    def _begin_stage(self, stage: int, part: MonomialTable, max_columns: int) -> LargeRelaxation:
        """The relaxation over a part of the rows: the one before with more rows, or the one that
        was restored.
        """
        capacity = sizes.capacity(part, max_columns)
        if self.first is None:
            pool = _begin_pool(part, self.vote, self.rules, capacity)
            self.first = relax.begin(part, pool, is_either=False)
        elif stage > self.stage:
            self.first = relax.extended(
                self.first, part, self.first.pool.extended_to(part, capacity)
            )
            self.num_idle = 0
        self.stage = stage
        return self.first

    def _prove_of_votes(self, relaxation: LargeRelaxation) -> None:
        """Proves a lower bound on (15) from the duals of a relaxation."""
        if relaxation.proven is None:
            return
        fresh = relax.begin(relaxation.table, relaxation.pool, is_either=True)
        relax.prove_from(fresh, relax.as_either(relaxation.proven.duals, relaxation.table.labels))
        if self.second is None or fresh.lower_bound >= self.second.lower_bound:
            self.second = fresh

    def _rounds(self, relaxation: LargeRelaxation, phase: str) -> Status:
        num_rows = len(relaxation.table.labels)
        is_whole = num_rows == len(self.table.labels)
        capacity = self._num_cuts(num_rows)
        per_sign = min(_MOST_ENTERING, max(4, len(relaxation.pool.is_used) // _SHARE_ENTERING))
        tolerance = self.tolerance if is_whole else max(self.tolerance, _ENOUGH_OF_A_PART)
        # the time of a round is taken to be proportional to the number of rows
        last = self.last_step * (num_rows / max(self.last_rows, 1))
        while relaxation.gap > tolerance:
            if phase == "integer" and relaxation.num_rounds and self._votes_are_proven():
                break
            if self.num_idle >= _MOST_IDLE:
                return Status.PRECISION_LIMIT
            reserved = 0.0 if self.clock.limit == np.inf else _RESERVED * self.clock.limit
            if not self.goes_on or self.clock.left < reserved + last:
                return Status.TIME_LIMIT
            if relaxation.num_rounds >= self.max_rounds:
                return Status.ROUND_LIMIT
            begin, before = self.clock.elapsed, relaxation.gap
            num_new = relax.step(relaxation, capacity=capacity, per_sign=per_sign)
            if phase == "relaxation":
                self._bound_above(relaxation, is_whole, _SHARE_OF_BOUNDS * self.clock.elapsed)
                self.trace.append((relaxation.lower_bound, self.upper_bound))
            last = self.last_step = self.clock.elapsed - begin
            self.last_rows = num_rows
            self.improve_vote_for_a_while(relaxation)
            self.num_idle = 0 if relaxation.gap < before or num_new else self.num_idle + 1
            self.report(phase)
        return Status.OPTIMAL

    def _bound_above(self, relaxation: LargeRelaxation, is_whole: bool, seconds: float) -> None:
        """Updates the upper bound over all rows from the point of a round. For a round over a part
        of the rows this takes extra time, and happens only within its share of the time.
        """
        if not is_whole and self.spent_on_bounds > seconds:
            return
        since = self.clock.elapsed
        if is_whole and relaxation.point is not None:
            above, point = relaxation.upper_bound, relaxation.point
        else:
            given = feasible.on_all_rows(self.table, relax.master_point(relaxation))
            above, point, _ = feasible.near(self.table, given, is_either=False)
        if above < self.upper_bound:
            self.upper_bound, self.point = above, point
        self.spent_on_bounds += self.clock.elapsed - since

    def _votes_are_proven(self) -> bool:
        """Whether the bounds on (15) have met."""
        lower = 0.0 if self.second is None else self.second.lower_bound
        return self.vote.loss - lower <= self.tolerance * max(self.vote.loss, 1.0)

    def improve_vote_for_a_while(self, relaxation: LargeRelaxation) -> None:
        """Searches for a better vote over all monomials, within a share of the time."""
        if self.votes_a_solution:
            return
        budget = _SHARE_OF_VOTES * self.clock.elapsed - self.spent_on_votes
        if budget > 0:
            self.improve_vote(
                relaxation,
                begin=_STARTS_AT_ONCE * relaxation.num_rounds,
                count=_STARTS_AT_ONCE,
                seconds=budget,
            )

    def improve_vote(
        self, relaxation: LargeRelaxation, begin: int, count: int, seconds: float
    ) -> None:
        """Runs the local search from the best vote, from `count` of the starting points that the
        relaxation and the first rules give, and from as many variations of the best vote.
        """
        since = self.clock.elapsed
        starts = relaxation.pool.starting_points()
        chosen = [starts[index % len(starts)] for index in range(begin, begin + count)]
        numbers = range(begin, begin + count)
        self.exchange_rules([self.vote, *chosen], numbers, seconds)
        self.spent_on_votes += self.clock.elapsed - since

    def _problem(self, relaxation: LargeRelaxation) -> votes.PatternProblem:
        """The problem (15) over the columns of the best vote, the first rules, and the columns of
        largest lambda and of largest mu.
        """
        held = relaxation.pool
        slots = []
        for values in (held.coefficients[:-2], held.selected):
            largest = np.argsort(-values)[: _NUM_VOTING // 2]
            slots.append(largest[held.is_used[largest] & (values[largest] > 0)])
        parts = (
            self.vote.columns,
            *(held.columns(some) for some in slots),
            votes.columns_of(self.rules),
        )
        return votes.make_problem(self.table, _distinct(parts))

    def _in_problem(
        self, problem: votes.PatternProblem, relaxation: LargeRelaxation, values: np.ndarray
    ) -> Array:
        """Values [U] of the columns of the pool as coefficients of a problem, [n]."""
        held = relaxation.pool
        slots = np.flatnonzero(held.is_used & (values > 0))
        return votes.start_from(
            problem,
            MonomialVote(held.columns(slots), values[slots], held.coefficients[-2:], np.inf),
        )

    def finish(self, status: Status) -> Status:
        """Finds the final vote by the method that `search` specifies. Returns the status of the
        fit, given that of the relaxation.
        """
        relaxation = self.first
        if self.votes_a_solution:
            return self._vote_solution(status)
        if relaxation is None or relaxation.num_rounds == 0:
            return status
        if isinstance(self.search, rounded.RelaxedConfig):
            problem = self._problem(relaxation)
            values = np.asarray(
                self._in_problem(problem, relaxation, relaxation.pool.coefficients[:-2])
            )
            self.vote = votes.from_relaxation(problem, values, self.search)
            return status
        if not self._votes_are_proven():
            self.improve_vote(relaxation, begin=0, count=_ALL_STARTS, seconds=_LAST_SEARCH)
        return status

    def _watch_vertex(self) -> bool:
        """Reports a part of the search for a vertex. Returns whether the fit goes on."""
        self.report("vertex")
        return self.goes_on

    def _vote_solution(self, status: Status) -> Status:
        """Takes the point of the upper bound, or a vertex near it, as the final vote."""
        if self.first is None or self.point is None:
            return Status.UNSOLVED_RELAXATION
        self.vote = solutions.vote_of(self.table, self.point)
        if not isinstance(self.search, VertexConfig):
            return status
        if not self.goes_on:
            return Status.TIME_LIMIT
        known = (self.point.columns, relax.master_point(self.first).columns)
        columns = SignedMonomials(*(part[:_MOST_OF_VERTEX] for part in _distinct(known)))
        found = solutions.find_vertex(
            self.table, self.first, columns, self.search, self._watch_vertex
        )
        if found is None:
            return Status.TIME_LIMIT
        if found.status is not Status.OPTIMAL:
            return found.status
        if found.value > self.upper_bound + self.tolerance * max(self.upper_bound, 1.0):
            return Status.PRECISION_LIMIT
        self.vote = solutions.vote_of(self.table, found.point)
        if found.value < self.upper_bound:
            self.upper_bound, self.point = found.value, found.point
        return status


def _distinct(parts: tuple[SignedMonomials, ...]) -> SignedMonomials:
    """The columns of all parts in order, without repetitions."""
    monomials = np.concatenate([part.monomials for part in parts])
    signs = np.concatenate([part.signs for part in parts])
    _, first = np.unique(np.stack([monomials, signs], axis=1), axis=0, return_index=True)
    first = np.sort(first)
    return SignedMonomials(monomials[first], signs[first])


def _begin_pool(
    table: MonomialTable, vote: MonomialVote, rules: GreedyRules, capacity: int
) -> ColumnPool:
    """A pool of the rules of the first vote, and of the single literals with the largest absolute
    edges, which take at most half of the capacity.
    """
    held = ColumnPool(table, capacity)
    held.enter(_distinct((vote.columns, votes.columns_of(rules))), np.zeros(capacity))
    singles = np.flatnonzero((table.monomials.orders == 1) & (table.costs < np.inf))
    balance = np.where(
        table.labels > 0,
        table.weights[table.labels > 0].sum(),
        table.weights[table.labels < 0].sum(),
    )
    edges = products.sums(
        table.literals, table.weights * table.labels / np.maximum(balance, 1e-300)
    )
    edges_of_singles = np.diagonal(edges)[table.monomials.literals[0, singles]]
    order = np.argsort(-np.abs(edges_of_singles))[: max(capacity // 4, 1)]
    both = np.repeat(singles[order], 2), np.tile([1, -1], len(order)).astype(np.int8)
    held.enter(SignedMonomials(*both), np.zeros(capacity))
    return held
