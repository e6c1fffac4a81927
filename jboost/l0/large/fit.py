"""`jboost.l0.fit_large`: a first vote in seconds, then better votes and bounds until they meet or the time is up."""

from __future__ import annotations

import time
from concurrent import futures
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, loops, memory
from jboost.base.boosting import Ensemble, Fit, Trace
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.l0 import relaxed
from jboost.l0.booster import VoteConfig, judge_search
from jboost.l0.large import greedy, proof, relax, votes
from jboost.l0.large.greedy import Rules
from jboost.l0.large.pool import Pool
from jboost.l0.large.proof import Proven, Table
from jboost.l0.large.relax import PrimalPoint, Relaxation
from jboost.l0.large.votes import Columns, Vote
from jboost.l0.pricing import Proof
from jboost.learners.monomials import Monomial, Monomials
from jboost.monomials import products

_MOST_ORDER = 3
_MOST_MONOMIALS = 4_000_000  # of one sign, whose values are held at once
_ROWS_OF_RULES = 1 << 16  # from which rules of the first vote are found; votes are refitted on all rows
_MOST_FIRST_RULES = 24  # of a first vote, where the number of rules is not limited
_VAIN_RULES = 4  # rules in a row that do not better the first vote, after which it ends
_ENTRIES = 1 << 22  # of the master, rows times columns
_LEAST_COLUMNS = 64
_ARRAYS_OF_ROWS, _COPIES_OF_MASTER, _ARRAYS_OF_MONOMIALS = 24, 4, 6  # that a fit holds at a time, for an estimate of its memory
_FIRST_ROWS, _MORE_ROWS = 4096, 4  # of the first relaxation, where rows are many; and how many times as many the next ones have
_ENOUGH_OF_A_PART = 0.1  # gap over a part of the rows from which it goes on with more rows
_CUTS, _CUTS_OF_MANY_ROWS, _MANY_ROWS = 2048, 4096, 8192
_SHARE_ENTERING = 8  # of the capacity, the columns of a sign that enter in a round
_MOST_ENTERING = 128
_SHARE_OF_VOTES = 0.15  # of the time, what the search for votes may take
_LAST_SEARCH = 30.0  # seconds of the last search, without a time limit too
_SHARE_OF_BOUNDS = 0.15  # of the time, what bounds over all rows may take while a part is solved
_RESERVED = 0.1  # of the time limit, for the last search
_STARTS_AT_ONCE, _ALL_STARTS = 2, 16  # of a search for votes after a round, and of the last one
_NUM_VOTING = 46  # columns among which votes are looked for, beside those of the best vote
_MOST_IDLE = 12  # rounds without a new column or cut or a smaller gap
_MOST_REFINED = 3  # passes over the rules of the first vote


class Info(NamedTuple):
    """What a watcher sees after each step."""

    phase: str  # "vote", "relaxation" or "integer"
    num_rounds: int
    lower_bound: float  # of the relaxation
    upper_bound: float
    integer_lower_bound: float  # of (15)
    best_loss: float  # of the best vote
    num_rules: int
    num_columns: int
    num_evicted: int  # columns that made room for others
    num_returned: int  # of those, columns that came back


class RelaxedPoint(NamedTuple):
    """The point that attains the upper bound of the relaxation."""

    hypotheses: Monomial  # [k] literals [k, N], sign [k]
    coefficients: np.ndarray  # [k] lambda
    constants: np.ndarray  # [2] of the constants +1 and -1
    selected: np.ndarray  # [k] mu
    slacks: np.ndarray  # [m] xi


class LargeCertificate(NamedTuple):
    """An `L0Certificate` in float64 NumPy arrays, and the point that attains its upper bound."""

    lower_bound: np.ndarray  # [] of (18), proven by `proof`
    upper_bound: np.ndarray  # [] of (18), attained by `point`
    seen_upper_bound: np.ndarray  # [] the same
    example_weights: np.ndarray  # [m] w
    integer_lower_bound: np.ndarray  # [] of (15), proven by `integer_proof`
    integer_upper_bound: np.ndarray  # [] of (15), attained by the votes of the ensemble
    proof: Proof
    integer_proof: Proof
    point: RelaxedPoint


def fit_large(
    dataset: Dataset,
    learner: Monomials,
    *,
    margin: ArrayLike,
    tolerance: float = 1e-2,
    max_rounds: int = 100,
    max_columns: int = 1024,
    max_cuts: int | None = None,
    search: VoteConfig | None = None,
    time_limit: float | None = None,
    on_step: OnStep | None = None,
) -> Fit:
    """`fit` for tables of up to a million rows and monomials of one to three literals; host-driven, not under jit or vmap.

    Goldberg and Eckstein 2009, with other means than `fit`: all monomials are valued at once by products of matrices
    (`jboost.monomials.products`), so every round proves a lower bound over all of them; the master works on distinct
    patterns of its columns and is solved as far as its duals are of use; and a first vote is there before the first
    master. Memory is about m (B + U) bytes and 8 L^2, with B bits and L = 2 B literals and U columns held, and
    20 n U bytes for the master of n <= m patterns.

    Args:
      dataset: features [m, N] of 0 and 1, and NaN where neither literal holds; any dtype, bool and uint8 take least
        memory. Equal rows are best merged before (`jboost.data.merging`).
      learner: `jboost.learners.monomials` of 1 to 3 literals, whose costs count; of 3 with few bits, as all monomials are held.
      margin: [] rho in (0, 1].
      tolerance: the gap between the bounds on the relaxation at which to stop, relative to the upper one.
      max_rounds: after which it ends with ROUND_LIMIT; 0 for the first vote alone, of which nothing is proven.
      max_columns: columns held at a time; with many rows fewer are.
      max_cuts: pair cuts held at a time; None for 2048, and 4096 where rows are many.
      search: how the final vote is found, as of `fit`: `SearchConfig()`, whose `max_hypotheses` counts and whose
        `max_moves` is ignored, or `RelaxedConfig()`.
      time_limit: seconds from the call on, compilation included; None for none. A running step ends first.
      on_step: called with (None, `Info`) after each rule of the first vote and each round; False ends with TIME_LIMIT.

    Returns:
      A `Fit` whose ensemble holds the rules that vote, with a `LargeCertificate`. Statuses: OPTIMAL, where the bounds on
      the relaxation have met; TIME_LIMIT; ROUND_LIMIT; PRECISION_LIMIT, where no column and no cut is missing and the
      gap is still open.

    Raises:
      ValueError: naming the argument.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, -1, -1, -1] * 3)
    >>> fitted = jboost.l0.fit_large(dataset, jboost.learners.monomials(2, kappa=0.1), margin=0.1)
    >>> jboost.predict(fitted.ensemble, dataset.features).tolist()[:4]
    [1, -1, -1, -1]
    >>> bool(fitted.certificate.lower_bound <= fitted.certificate.upper_bound)
    True
    """
    clock = Clock(time_limit)
    rho, config = _check_options(learner, margin, tolerance, max_rounds, max_columns, max_cuts, search, time_limit, on_step)
    table, rows = make_table(dataset, learner, rho)
    run = _Run(table, config, tolerance, max_rounds, max_cuts, clock, on_step)
    with futures.ThreadPoolExecutor(2) as threads:  # programs that do not depend on each other compile side by side
        run.begin_compiling(threads, max_columns)
        run.find_first_vote()
        status = run.close_gap(max_columns)
    run.finish()
    return _conclude(run, learner, rows, len(np.asarray(dataset.labels)), status)


def _check_options(
    learner: Any,
    margin: ArrayLike,
    tolerance: float,
    max_rounds: int,
    max_columns: int,
    max_cuts: int | None,
    search: Any,
    time_limit: float | None,
    on_step: Any,
) -> tuple[float, VoteConfig]:
    """The margin and the kind of vote. Raises ValueError, naming the argument."""
    if not isinstance(learner, Monomials):
        raise ValueError(f"learner is a {type(learner).__name__}: expected jboost.learners.monomials(1), (2) or (3)")
    if learner.max_order not in range(1, _MOST_ORDER + 1):
        raise ValueError(
            f"learner.max_order is {learner.max_order}: fit_large values all monomials of one to three literals; "
            "pass jboost.learners.monomials(2), or use jboost.l0.fit"
        )
    check.on_host("jboost.l0.fit_large", instead="jboost.l0.fit may be traced", margin=margin, tolerance=tolerance)
    rho = float(check.number("margin", margin, low=0, high=1, open_low=True))
    check.number("tolerance", tolerance, low=0)
    check.count("max_rounds", max_rounds, low=0)
    check.count("max_columns", max_columns, low=1)
    if max_cuts is not None:
        check.count("max_cuts", max_cuts, low=1)
    if time_limit is not None:
        check.number("time_limit", time_limit, low=0)
    check.watcher("on_step", on_step)
    return rho, judge_search(search)


def make_table(dataset: Dataset, learner: Monomials, margin: float) -> tuple[Table, np.ndarray]:
    """Every monomial over the rows that count, and which rows those are. Raises ValueError for values that are not allowed."""
    check.on_host("jboost.l0.fit_large", instead="jboost.l0.fit may be traced", dataset=dataset)
    features, labels, weights = (np.asarray(part) for part in dataset[:3])
    is_kept = np.asarray(dataset.mask) & (weights != 0)
    _check_values(features, labels, weights, is_kept)
    rows = _mixed(np.flatnonzero(is_kept), labels)
    max_order = learner.max_order or 1
    _check_number(2 * features.shape[1], max_order)
    _check_memory(len(rows), features.shape[1], max_order)
    literals = products.literals_of(features[rows])
    listed = products.every_monomial(literals, max_order)
    prices = np.asarray(learner.price_list(features.shape[1], len(rows)), np.float64)
    costs = prices[listed.orders - 1]
    table = Table(
        literals,
        listed,
        costs,
        np.sign(labels[rows]).astype(np.int8),
        weights[rows].astype(np.float64),
        margin,
        float(np.asarray(learner.constant_cost)),
    )
    return table, rows


def _check_number(num_literals: int, max_order: int) -> None:
    """Raises ValueError where the values of all monomials would not fit."""
    number = products.num_monomials(num_literals, max_order)
    if number > _MOST_MONOMIALS:
        raise ValueError(
            f"dataset has {num_literals // 2} bits, and there are {number:,} monomials of up to {max_order} literals, above {_MOST_MONOMIALS:,}: "
            "lower max_order, or make fewer bits (coarser cuts, min_separation of jboost.data.binarization.fit)"
        )


def num_bytes(num_rows: int, num_bits: int, max_order: int) -> int:
    """About how many bytes a fit holds at its peak.

    Bits as bytes twice, the columns of the pool, the master of all rows with its least columns, products of literals, and a dozen
    numbers for each monomial and sign.
    """
    rows = num_rows * (2 * num_bits + _LEAST_COLUMNS + 8 * _ARRAYS_OF_ROWS)
    master = 4 * _COPIES_OF_MASTER * min(num_rows * _LEAST_COLUMNS, max(_ENTRIES, num_rows * _LEAST_COLUMNS))
    monomials = 2 * 8 * _ARRAYS_OF_MONOMIALS * products.num_monomials(2 * num_bits, max_order)
    return rows + master + monomials


def _check_memory(num_rows: int, num_bits: int, max_order: int) -> None:
    """Raises ValueError where a fit would take more than there is, with what would fit."""
    needed, most = num_bytes(num_rows, num_bits, max_order), memory.of_device()
    if needed > most:
        raise ValueError(
            f"dataset has {num_rows:,} rows of {num_bits:,} bits: a fit takes about {needed:,} bytes, and there are {most:,}; make fewer bits "
            f"(coarser cuts), take monomials of fewer literals, or about {int(num_rows * most / needed):,} of the rows"
        )


def _mixed(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rows [r] in an order of which any first part has both classes in proportion, at random, where they are many."""
    if len(rows) <= 2 * _FIRST_ROWS:
        return rows
    keys = np.empty(len(rows))
    shuffled = np.random.default_rng(0).permutation(len(rows))
    for sign in (1, -1):
        places = shuffled[labels[rows][shuffled] == sign]
        keys[places] = (np.arange(len(places)) + 0.5) / max(len(places), 1)
    return rows[np.argsort(keys, kind="stable")]


def _check_values(features: np.ndarray, labels: np.ndarray, weights: np.ndarray, is_kept: np.ndarray) -> None:
    if not is_kept.any():
        raise ValueError("dataset has no examples that count: pass one at least with mask True and weight above 0")
    bad = is_kept & ~((weights > 0) & (weights < np.inf))
    for row in np.flatnonzero(bad)[:1]:
        raise ValueError(f"weights[{row}] is {weights[row]}: expected a finite number from 0 up")
    for row in np.flatnonzero(is_kept & (np.abs(labels) != 1))[:1]:
        raise ValueError(f"labels[{row}] is {labels[row]}: expected +1 or -1")
    for column in range(features.shape[1]):
        values = features[:, column]
        wrong = is_kept & (values != 0) & (values != 1)
        if values.dtype.kind == "f":
            wrong &= ~np.isnan(values)
        for row in np.flatnonzero(wrong)[:1]:
            raise ValueError(f"features[{row}, {column}] is {values[row]:g}: expected 0, 1 or NaN; jboost.data.binarization makes such attributes")


class Clock:
    """Seconds since the start, and how many are left."""

    def __init__(self, limit: float | None) -> None:
        self.limit = np.inf if limit is None else float(limit)
        self._begin = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds to the limit, infinite without one."""
        return self.limit - self.elapsed


class _Run:
    """One fit: the best vote, the relaxations, and what the watcher says."""

    def __init__(
        self,
        table: Table,
        search: VoteConfig,
        tolerance: float,
        max_rounds: int,
        max_cuts: int | None,
        clock: Clock,
        on_step: OnStep | None,
    ) -> None:
        self.table = table
        self.search = search
        self.most = search.max_hypotheses
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.max_cuts = max_cuts
        self.clock = clock
        self.on_step = on_step
        self.vote = votes.constant(table)
        self.rules = greedy.without_rules(table)
        self.first: Relaxation | None = None  # with cuts of both orders
        self.second: Relaxation | None = None  # with cuts that hold of (15)
        self.upper_bound = np.inf  # of the relaxation over all rows
        self.point: PrimalPoint | None = None  # that attains it
        self.trace: list[tuple[float, float]] = []
        self.compiling: dict[str, futures.Future[None]] = {}
        self.is_stopped = False  # by the watcher
        self.last_step, self.last_rows = 0.0, 0  # seconds of the last round, and its rows
        self.spent_on_votes = 0.0
        self.spent_on_bounds = 0.0  # over all rows, from points of a part

    @property
    def goes_on(self) -> bool:
        """Whether neither the watcher nor the clock ends the fit."""
        return not self.is_stopped and self.clock.left > 0

    def begin_compiling(self, threads: futures.Executor, max_columns: int) -> None:
        """The master and the search for votes, where their sizes are known before there is a first vote."""
        if self.max_rounds == 0:
            return
        stage = proof.first_rows(self.table, _stages(len(self.table.labels))[0])
        size, capacity = relax.size_of(len(stage.labels)), _capacity(stage, max_columns)
        if size is not None and len(self.table.costs):
            self.compiling["master"] = threads.submit(relax.warm_up, size, capacity, self._num_cuts(len(stage.labels)))
        if len(self.table.costs):
            self.compiling["votes"] = threads.submit(votes.warm_up, len(self.table.labels), self.most)

    def _compiled(self, name: str) -> None:
        """Waits for a program that is being compiled."""
        if name in self.compiling:
            self.compiling.pop(name).result()

    def _num_cuts(self, num_rows: int) -> int:
        return self.max_cuts or (_CUTS if num_rows <= _MANY_ROWS else _CUTS_OF_MANY_ROWS)

    def tell(self, phase: str) -> None:
        """Shows where the fit stands, and notes whether the watcher ends it."""
        relaxation = self.first
        held = None if relaxation is None else relaxation.pool
        info = Info(
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
        self.is_stopped |= not loops.goes_on(self.on_step, None, info)

    def take(self, vote: Vote) -> bool:
        """Keeps the better vote; whether it is the new one."""
        if vote.loss < self.vote.loss and (self.most is None or vote.num_rules <= self.most):
            self.vote = vote
            return True
        return False

    def find_first_vote(self) -> None:
        """Rules one by one, while they better the vote; then some in place of others."""
        part = proof.first_rows(self.table, _ROWS_OF_RULES)
        vain, best = 0, self.rules
        size = min(_MOST_FIRST_RULES if self.most is None else self.most, int((self.table.costs < np.inf).sum()))
        while self.goes_on and len(self.rules.columns) < size and vain < _VAIN_RULES:
            self.rules = greedy.extend(part, self.rules)
            is_better = self.take(votes.of_rules(self.table, self.rules, self.most))
            vain = 0 if is_better else vain + 1
            best = self.rules if is_better else best
            self.tell("vote")
        self.rules = best if self.most is None else self.rules
        self._refine_rules(part)
        if len(part.labels) < len(self.table.labels):
            self.rules = greedy.refit(self.table, self.rules)
            self.take(votes.of_rules(self.table, self.rules, self.most))

    def _refine_rules(self, part: Table) -> None:
        """Each rule in turn for the best one in its place, as long as that pays and a tenth of the time allows."""
        for _ in range(_MOST_REFINED):
            before = self.rules.loss
            for _ in range(len(self.rules.columns)):  # the first one goes, and its successor comes last
                if not self.goes_on or self.clock.elapsed > _RESERVED * self.clock.limit:
                    return
                self.rules = greedy.exchange(part, self.rules, 0)
                self.take(votes.of_rules(self.table, self.rules, self.most))
                self.tell("vote")
            if self.rules.loss >= before:
                return

    def close_gap(self, max_columns: int) -> Status:
        """Rounds on the relaxation of both orders, on more and more rows, and then on the one that holds of (15)."""
        status = Status.TIME_LIMIT
        for size in _stages(len(self.table.labels)):
            part = proof.first_rows(self.table, size)
            capacity = _capacity(part, max_columns)
            if self.first is None:
                self.first = relax.begin(part, _begin_pool(part, self.vote, self.rules, capacity), is_either=False)
            else:
                self.first = relax.extended(self.first, part, self.first.pool.on(part, capacity))
            status = self._rounds(self.first, "relaxation")
            self._prove_of_votes(self.first)
            if self.first.num_rounds:
                self._bound_above(self.first, size == len(self.table.labels), np.inf)
            if status is not Status.OPTIMAL:
                return status
        if self.second is not None and self.first is not None and self.first.point is not None:
            self._rounds(self.second, "integer")
        return status

    def _prove_of_votes(self, relaxation: Relaxation) -> None:
        """A lower bound on (15) from the duals at hand."""
        if relaxation.proven is None:
            return
        fresh = relax.begin(relaxation.table, relaxation.pool, is_either=True)
        relax.prove_from(fresh, relax.as_either(relaxation.proven.duals, relaxation.table.labels))
        if self.second is None or fresh.lower_bound >= self.second.lower_bound:
            self.second = fresh

    def _rounds(self, relaxation: Relaxation, phase: str) -> Status:
        num_rows = len(relaxation.table.labels)
        is_whole = num_rows == len(self.table.labels)
        capacity = self._num_cuts(num_rows)
        self._compiled("master")
        per_sign = min(_MOST_ENTERING, max(4, len(relaxation.pool.is_used) // _SHARE_ENTERING))
        tolerance = self.tolerance if is_whole else max(self.tolerance, _ENOUGH_OF_A_PART)
        last, idle = self.last_step * num_rows / max(self.last_rows, 1), 0  # of so many more rows
        while relaxation.gap > tolerance:
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
            self.take_from_point(relaxation)
            self.tell(phase)
            if self._votes_are_proven():
                break
            idle = 0 if relaxation.gap < before or num_new else idle + 1
            if idle >= _MOST_IDLE:
                return Status.PRECISION_LIMIT
        return Status.OPTIMAL

    def _bound_above(self, relaxation: Relaxation, is_whole: bool, seconds: float) -> None:
        """The upper bound over all rows, from the point of a round; of a part of the rows as far as the seconds spent so far allow."""
        if not is_whole and self.spent_on_bounds > seconds:
            return
        since = self.clock.elapsed
        if is_whole and relaxation.point is not None:
            above, point = relaxation.upper_bound, relaxation.point
        else:
            given = relax.on_all_rows(self.table, relax.mixture(relaxation))
            above, point, _ = relax.feasible_point(self.table, given, is_either=False)
        if above < self.upper_bound:
            self.upper_bound, self.point = above, point
        self.spent_on_bounds += self.clock.elapsed - since

    def _votes_are_proven(self) -> bool:
        """Whether the bounds on (15) have met."""
        lower = 0.0 if self.second is None else self.second.lower_bound
        return self.vote.loss - lower <= self.tolerance * max(self.vote.loss, 1.0)

    def take_from_point(self, relaxation: Relaxation) -> None:
        """A better vote from the columns of the relaxation, in a part of the time."""
        budget = _SHARE_OF_VOTES * self.clock.elapsed - self.spent_on_votes
        is_compiled = "votes" not in self.compiling or self.compiling["votes"].done()
        if budget > 0 and is_compiled:
            self.improve_vote(relaxation, begin=_STARTS_AT_ONCE * relaxation.num_rounds, count=_STARTS_AT_ONCE, seconds=budget)

    def improve_vote(self, relaxation: Relaxation, begin: int, count: int, seconds: float) -> None:
        """The local search from the best vote, and from so many of the starting points that the relaxation and the first rules give."""
        since = self.clock.elapsed
        self._compiled("votes")
        problem = self._problem(relaxation)
        held = relaxation.pool
        starts = [votes.start_from(problem, self.vote)]
        for values in (held.coefficients[:-2], held.selected):
            given = self._in_problem(problem, relaxation, values)
            starts += [jnp.asarray(row) for row in np.unique(np.asarray(votes.starting_points(given)), axis=0)]
        others = [starts[1 + place % (len(starts) - 1)] for place in range(begin, begin + count)]
        for start in [starts[0], *others]:
            loss = np.inf
            while self.goes_on and self.clock.elapsed - since < seconds:
                found, start = votes.improve(problem, start, self.most)
                self.take(found)
                if found.loss >= loss:
                    break
                loss = found.loss
        self.spent_on_votes += self.clock.elapsed - since

    def _problem(self, relaxation: Relaxation) -> votes.Problem:
        """(15) over the columns of the best vote, the first rules, and those of the largest lambda and the largest mu."""
        held = relaxation.pool
        slots = []
        for values in (held.coefficients[:-2], held.selected):
            largest = np.argsort(-values)[: _NUM_VOTING // 2]
            slots.append(largest[held.is_used[largest] & (values[largest] > 0)])
        parts = (self.vote.columns, *(held.columns(some) for some in slots), votes.columns_of(self.rules))
        return votes.make_problem(self.table, _distinct(parts))

    def _in_problem(self, problem: votes.Problem, relaxation: Relaxation, values: np.ndarray) -> Array:
        """Values [U] of the columns of the pool as coefficients of a problem, [n]."""
        held = relaxation.pool
        slots = np.flatnonzero(held.is_used & (values > 0))
        return votes.start_from(problem, Vote(held.columns(slots), values[slots], held.coefficients[-2:], np.inf))

    def finish(self) -> None:
        """The final vote, as the search asks for it."""
        relaxation = self.first
        if relaxation is None or relaxation.num_rounds == 0 or self._votes_are_proven():
            return
        if isinstance(self.search, relaxed.RelaxedConfig):
            problem = self._problem(relaxation)
            values = np.asarray(self._in_problem(problem, relaxation, relaxation.pool.coefficients[:-2]))
            self.vote = votes.from_relaxation(problem, values, self.search)
            return
        self.improve_vote(relaxation, begin=0, count=_ALL_STARTS, seconds=_LAST_SEARCH)


def _distinct(parts: tuple[Columns, ...]) -> Columns:
    """Columns one after another, each once."""
    monomials = np.concatenate([part.monomials for part in parts])
    signs = np.concatenate([part.signs for part in parts])
    _, first = np.unique(np.stack([monomials, signs], axis=1), axis=0, return_index=True)
    first = np.sort(first)
    return Columns(monomials[first], signs[first])


def _stages(num_rows: int) -> list[int]:
    """Of how many rows relaxations are solved one after another: a part first where rows are many."""
    sizes = [_FIRST_ROWS]
    while sizes[-1] * _MORE_ROWS < num_rows:
        sizes.append(sizes[-1] * _MORE_ROWS)
    return [num_rows] if num_rows <= 2 * _FIRST_ROWS else [*sizes, num_rows]


def _capacity(table: Table, max_columns: int) -> int:
    """Columns held at a time: fewer where rows are many."""
    most = min(max(_LEAST_COLUMNS, _ENTRIES // len(table.labels)), max_columns)
    needed = max(2 * len(table.costs), _LEAST_COLUMNS)
    return min(1 << (most.bit_length() - 1), 1 << (needed - 1).bit_length())


def _begin_pool(table: Table, vote: Vote, rules: Rules, capacity: int) -> Pool:
    """The rules of the first vote, and single literals as far as a part of the pool goes, the most telling first."""
    held = Pool(table, capacity)
    held.enter(_distinct((vote.columns, votes.columns_of(rules))), np.zeros(capacity))
    singles = np.flatnonzero((table.monomials.orders == 1) & (table.costs < np.inf))
    balance = np.where(table.labels > 0, table.weights[table.labels > 0].sum(), table.weights[table.labels < 0].sum())
    edges = products.sums(table.literals, table.weights * table.labels / np.maximum(balance, 1e-300))
    told = np.diagonal(edges)[table.monomials.literals[0, singles]]
    order = np.argsort(-np.abs(told))[: max(capacity // 4, 1)]
    both = np.repeat(singles[order], 2), np.tile([1, -1], len(order)).astype(np.int8)
    held.enter(Columns(*both), np.zeros(capacity))
    return held


def _conclude(run: _Run, learner: Monomials, rows: np.ndarray, num_rows: int, status: Status) -> Fit:
    """The ensemble of the best vote, and the certificate, with arrays over all rows of the data set."""
    table, vote = run.table, run.vote
    dtype = jnp.result_type(float)
    hypotheses = _hypotheses(table, vote.columns)
    size = max(vote.num_rules, 1)
    coefficients = np.zeros((size, 2))
    coefficients[: vote.num_rules] = vote.coefficients[:, None]
    padded = jax.tree.map(lambda leaf: np.pad(leaf, [(0, size - len(leaf))] + [(0, 0)] * (leaf.ndim - 1), constant_values=1), hypotheses)
    ensemble = Ensemble(
        learner,
        jax.tree.map(jnp.asarray, padded),
        jnp.asarray(coefficients, dtype),
        jnp.asarray(vote.constants[0] - vote.constants[1], dtype),
        jnp.asarray(vote.num_rules, jnp.int32),
    )
    first, second = run.first, run.second
    assert first is not None
    proven = _proof(first.proven, rows, num_rows)
    integer_lower = 0.0 if second is None else second.lower_bound
    upper = np.asarray(run.upper_bound)
    certificate = LargeCertificate(
        np.asarray(first.lower_bound),
        upper,
        upper,
        proven.example_weights,
        np.asarray(integer_lower),
        np.asarray(vote.loss),
        proven,
        _proof(None if second is None else second.proven, rows, num_rows),
        _point(table, run.point, rows, num_rows),
    )
    trace = np.asarray(run.trace or [(0.0, np.inf)], np.float64)
    lower, above = (jnp.asarray(part, dtype) for part in trace.T)
    shown = Trace(jnp.full_like(lower, jnp.nan), lower, above, above)
    return Fit(ensemble, certificate, shown, jnp.asarray(len(run.trace), jnp.int32), jnp.asarray(int(status), jnp.int32))


def _hypotheses(table: Table, columns: Columns) -> Monomial:
    """Monomials [k] as literals [k, N] and signs [k]."""
    literals = np.zeros((len(columns.signs), table.literals.num_literals // 2), np.int8)
    places = np.arange(len(columns.signs))
    for ends in table.monomials.literals:
        chosen = ends[columns.monomials]
        literals[places, table.literals.attributes[chosen]] = table.literals.answers[chosen]
    return Monomial(literals, columns.signs)


def _proof(proven: Proven | None, rows: np.ndarray, num_rows: int) -> Proof:
    """A proof by rows of the data set; without duals it proves that no cost is negative."""
    weights, zero = np.zeros(num_rows), np.zeros(())
    if proven is None or proven.bound <= 0:
        return Proof(zero, weights, np.zeros((0, 2), np.int32), np.zeros(0), zero, zero, zero)
    duals = proven.duals
    weights[rows[: len(duals.example_weights)]] = duals.example_weights
    pairs = np.stack([rows[duals.cuts.inside], rows[duals.cuts.outside]], axis=1).astype(np.int32)
    return Proof(np.asarray(proven.bound), weights, pairs, duals.cuts.weights, zero, np.asarray(proven.convexity), zero)


def _point(table: Table, point: PrimalPoint | None, rows: np.ndarray, num_rows: int) -> RelaxedPoint:
    slacks = np.zeros(num_rows)
    if point is None:
        nothing = Columns(np.zeros(0, np.int64), np.zeros(0, np.int8))
        return RelaxedPoint(_hypotheses(table, nothing), np.zeros(0), np.full(2, 0.5), np.zeros(0), slacks)
    slacks[rows] = point.slacks
    return RelaxedPoint(_hypotheses(table, point.columns), point.coefficients, point.constants, point.selected, slacks)
