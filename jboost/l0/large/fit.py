"""`jboost.l0.fit_large`: finds a first vote within seconds, then improves votes and bounds.

It ends when the bounds meet or at the time limit.
"""

from __future__ import annotations

import functools
from concurrent import futures
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, derivatives, devices, meshes
from jboost.base.boosting import Ensemble, Fit, Trace
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import ArrayLike, Dataset, require_dataset
from jboost.l0.driver import validate_search
from jboost.l0.large import solutions
from jboost.l0.large.clock import Clock, in_time
from jboost.l0.large.feasible import PrimalPoint
from jboost.l0.large.proof import MonomialTable, TableBound
from jboost.l0.large.run import FewRules, Run, Solution
from jboost.l0.large.state import LargeState, restore, validate
from jboost.l0.large.table import make_table
from jboost.l0.large.votes import MonomialVote, SignedMonomials, upper_bound
from jboost.l0.pricing import PricingProof
from jboost.l0.votes.vertex import VertexConfig
from jboost.learners.monomials import Monomial, Monomials

_MOST_ORDER = 3  # the largest order for which all monomials are priced at once
# Ensembles have a multiple of so many slots, so that their predictions share compiled programs.
_SLOTS_AT_ONCE = 16


class RelaxedPoint(NamedTuple):
    """The point whose value is the upper bound of the relaxation."""

    hypotheses: Monomial  # [k] literals [k, N], sign [k]
    coefficients: np.ndarray  # [k] lambda
    constants: np.ndarray  # [2] of the constants +1 and -1
    selected: np.ndarray  # [k] mu
    slacks: np.ndarray  # [m] xi


class LargeCertificate(NamedTuple):
    """An `L0Certificate` in float64 NumPy arrays, and the point whose value is its upper bound."""

    lower_bound: np.ndarray  # [] of (18), proven by `proof`
    upper_bound: np.ndarray  # [] of (18), attained by `point`
    seen_upper_bound: np.ndarray  # [] the same
    example_weights: np.ndarray  # [m] w
    integer_lower_bound: np.ndarray  # [] of (15), proven by `integer_proof`
    integer_upper_bound: np.ndarray  # [] of (15), attained by the votes of the ensemble
    proof: PricingProof
    integer_proof: PricingProof
    point: RelaxedPoint


@meshes.takes_gathered
@derivatives.without("jboost.l0.fit_large")
def fit_large(
    dataset: Dataset,
    learner: Monomials,
    *,
    margin: ArrayLike,
    tolerance: float = 1e-2,
    max_rounds: int = 100,
    max_columns: int = 1024,
    max_cuts: int | None = None,
    search: FewRules | Solution | None = None,
    time_limit: float | None = None,
    on_step: OnStep | None = None,
    initial: LargeState | None = None,
) -> Fit:
    """Fits L0-RBoost to tables of up to a million rows, with monomials of one to three literals.

    The loop runs on the host; jit and vmap are not allowed. The method is that of Goldberg and
    Eckstein (2009). It differs from `fit` in three ways:

    - Matrix products (`jboost.monomials.products`) price all monomials at once, so that every round
      gives a lower bound over all of them.
    - The master program is formulated on the distinct patterns of its columns. It is solved only to
      the precision that the duals require.
    - A first vote is found before the first master is solved.

    Memory is about m (2 B + U) bytes, with B bits and U columns held, a dozen 64-bit numbers for
    each monomial, and 20 n U bytes for the master of n <= m patterns. It is estimated before any
    work, and a fit that is too large is refused.

    Args:
      dataset: features [m, N] of 0 and 1, and NaN where neither literal holds. Any dtype; bool and
        uint8 take the least memory. Merge equal rows first (`jboost.data.merging`).
      learner: `jboost.learners.monomials` of 1 to 3 literals, with its costs. Monomials of 3
        literals are feasible for few bits, since all of them are held.
      margin: [] rho in (0, 1].
      tolerance: the gap between the bounds on the relaxation at which to stop, relative to the
        upper bound.
      max_rounds: the number of rounds after which the fit ends with ROUND_LIMIT. 0 gives only the
        first vote, without bounds.
      max_columns: the capacity for columns. It is reduced if there are many rows.
      max_cuts: the capacity for pair cuts; None for 2048, or 4096 if there are many rows.
      search: the method of the final vote, as for `fit`: `SearchConfig()`, of which only
        `max_hypotheses` is used; `RelaxedConfig()`; or `CoefficientsConfig()` for lambda of the
        point of the upper bound, and `VertexConfig()` for lambda at a vertex of the optimal
        solutions, of at most 4,096 rows. For the last two no other votes are searched, and the
        bound on (15) is only what the proof of the relaxation gives.
      time_limit: seconds from the call, including compilation; None for no limit. A step in
        progress is completed. A compilation in progress is not waited for, but it cannot be
        interrupted: it goes on in a thread, and a Python that exits waits for its end. If the limit
        comes before any rule, the vote is the better constant, and the lower bounds are 0.
      on_step: called with (None, `LargeFitInfo`) after each rule of the first vote, and with
        (state, `LargeFitInfo`) after each round. If it returns False, the fit ends with TIME_LIMIT.
      initial: a `jboost.l0.LargeState` from which to continue, as passed to `on_step` of a fit with
        the same data set, learner and options; None for a fit from the beginning. A state of
        other rows, costs, margin or `max_hypotheses` is refused. `time_limit` counts from this
        call. The search for votes takes a share of the measured time, so that two
        runs are equal to the bit only in what does not depend on it: the bounds of the relaxation
        for up to 8,192 rows.

    Returns:
      A `Fit` whose ensemble holds the rules that vote, with a `LargeCertificate`. Statuses:
      OPTIMAL if the bounds on the relaxation have met; TIME_LIMIT; ROUND_LIMIT; PRECISION_LIMIT if
      no column or cut would help and the gap is still open. With `CoefficientsConfig()` and
      `VertexConfig()` also UNSOLVED_RELAXATION if no round was done; the vote is then the first
      one. With `VertexConfig()` also those of the search for a vertex: ITERATION_LIMIT,
      CAPACITY_LIMIT, and PRECISION_LIMIT if the vertex is worse than the point by more than the
      tolerance; the vote is then that of the point, as after the time limit.

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
    before = initial.seconds if isinstance(initial, LargeState) else 0.0
    clock = Clock(time_limit, before)
    require_dataset(dataset)
    rho, config = _check_options(
        learner, margin, tolerance, max_rounds, max_columns, max_cuts, search, on_step
    )
    # A compilation cannot be interrupted: after a time limit it goes on in its thread, for which
    # the interpreter waits when it exits.
    threads = futures.ThreadPoolExecutor(1)
    try:
        # The votes of a state that continues need the monomials, whatever the limit.
        patience = clock if initial is None else Clock(None)
        table, rows = make_table(
            dataset, learner, rho, in_time=functools.partial(in_time, patience, threads)
        )
        _check_rows_of_vertex(config, len(rows))
        run = Run(table, config, tolerance, max_rounds, max_cuts, clock, on_step)
        if initial is not None:
            restore(run, validate(initial, run.problem), run.tables())
        if initial is None:
            run.find_first_vote()
        status = run.close_gap(max_columns)
        status = run.finish(status)
    finally:
        threads.shutdown(wait=time_limit is None, cancel_futures=True)
    return _conclude(run, learner, rows, len(np.asarray(dataset.labels)), status)


def _check_options(
    learner: Any,
    margin: ArrayLike,
    tolerance: float,
    max_rounds: int,
    max_columns: int,
    max_cuts: int | None,
    search: Any,
    on_step: Any,
) -> tuple[float, FewRules | Solution]:
    """The margin and the kind of vote. Raises ValueError, naming the argument."""
    if not isinstance(learner, Monomials):
        raise ValueError(
            f"learner is a {type(learner).__name__}: expected jboost.learners.monomials(1), (2)"
            " or (3)"
        )
    if learner.max_order not in range(1, _MOST_ORDER + 1):
        raise ValueError(
            f"learner.max_order is {learner.max_order}: fit_large prices all monomials of one to"
            " three literals; pass jboost.learners.monomials(2), or use jboost.l0.fit"
        )
    check.on_host(
        "jboost.l0.fit_large",
        instead="jboost.l0.fit may be traced",
        margin=margin,
        tolerance=tolerance,
    )
    rho = float(check.number("margin", margin, low=0, high=1, open_low=True))
    check.number("tolerance", tolerance, low=0)
    check.count("max_rounds", max_rounds, low=0)
    check.count("max_columns", max_columns, low=1)
    if max_cuts is not None:
        check.count("max_cuts", max_cuts, low=1)
    check.watcher("on_step", on_step)
    vote = validate_search(search)
    return rho, vote


def _check_rows_of_vertex(config: FewRules | Solution, num_rows: int) -> None:
    """Raises ValueError if there are too many rows for a vertex."""
    if isinstance(config, VertexConfig) and num_rows > solutions.MOST_ROWS:
        raise ValueError(
            f"search is a VertexConfig and dataset has {num_rows:,} rows: expected at most"
            f" {solutions.MOST_ROWS:,}; pass CoefficientsConfig(), SearchConfig() or"
            " RelaxedConfig(), or merge equal rows (jboost.data.merging)"
        )


def _conclude(run: Run, learner: Monomials, rows: np.ndarray, num_rows: int, status: Status) -> Fit:
    """The ensemble of the best vote, and the certificate, with arrays over all rows of the data
    set.
    """
    table, vote = run.table, run.vote
    dtype = jnp.result_type(float)
    first, second = run.first, run.second  # None if the fit ended before
    proven = _proof(None if first is None else first.proven, rows, num_rows)
    integer_lower = 0.0 if second is None else second.lower_bound
    upper = np.asarray(run.upper_bound)
    certificate = LargeCertificate(
        np.asarray(0.0 if first is None else first.lower_bound),
        upper,
        upper,
        proven.example_weights,
        np.asarray(integer_lower),
        np.asarray(upper_bound(table, vote)),
        proven,
        _proof(None if second is None else second.proven, rows, num_rows),
        _point(table, run.point, rows, num_rows),
    )
    trace = np.asarray(run.trace or [(0.0, np.inf)], np.float64)
    lower, above, unknown = (
        devices.from_host(part.astype(dtype)) for part in (*trace.T, np.full(len(trace), np.nan))
    )
    shown = Trace(unknown, lower, above, above)
    return Fit(
        _ensemble(table, vote, learner, dtype),
        certificate,
        shown,
        devices.from_host(np.asarray(len(run.trace), np.int32)),
        devices.from_host(np.asarray(int(status), np.int32)),
    )


def _ensemble(table: MonomialTable, vote: MonomialVote, learner: Monomials, dtype: Any) -> Ensemble:
    """The rules that vote. The number of slots is rounded up, so that predictions share compiled
    programs.
    """
    size = max(-(-vote.num_rules // _SLOTS_AT_ONCE), 1) * _SLOTS_AT_ONCE
    coefficients = np.zeros((size, 2))
    coefficients[: vote.num_rules] = vote.coefficients[:, None]
    padded = jax.tree.map(
        lambda leaf: np.pad(
            leaf, [(0, size - len(leaf))] + [(0, 0)] * (leaf.ndim - 1), constant_values=1
        ),
        _hypotheses(table, vote.columns),
    )
    return Ensemble(
        learner,
        jax.tree.map(devices.from_host, padded),
        devices.from_host(coefficients.astype(dtype)),
        devices.from_host(np.asarray(vote.constants[0] - vote.constants[1], dtype)),
        devices.from_host(np.asarray(vote.num_rules, np.int32)),
    )


def _hypotheses(table: MonomialTable, columns: SignedMonomials) -> Monomial:
    """Monomials [k] as literals [k, N] and signs [k]."""
    literals = np.zeros((len(columns.signs), table.literals.num_literals // 2), np.int8)
    indices = np.arange(len(columns.signs))
    for ends in table.monomials.literals:
        chosen = ends[columns.monomials]
        literals[indices, table.literals.attributes[chosen]] = table.literals.answers[chosen]
    return Monomial(literals, columns.signs)


def _proof(proven: TableBound | None, rows: np.ndarray, num_rows: int) -> PricingProof:
    """A proof by rows of the data set. Without duals it proves the bound 0."""
    weights, zero = np.zeros(num_rows), np.zeros(())
    if proven is None or proven.bound <= 0:
        return PricingProof(
            zero, weights, np.zeros((0, 2), np.int32), np.zeros(0), zero, zero, zero
        )
    duals = proven.duals
    weights[rows[: len(duals.example_weights)]] = duals.example_weights
    pairs = np.stack([rows[duals.cuts.inside], rows[duals.cuts.outside]], axis=1).astype(np.int32)
    return PricingProof(
        np.asarray(proven.bound),
        weights,
        pairs,
        duals.cuts.weights,
        zero,
        np.asarray(proven.convexity),
        zero,
    )


def _point(
    table: MonomialTable, point: PrimalPoint | None, rows: np.ndarray, num_rows: int
) -> RelaxedPoint:
    slacks = np.zeros(num_rows)
    if point is None:
        nothing = SignedMonomials(np.zeros(0, np.int64), np.zeros(0, np.int8))
        return RelaxedPoint(
            _hypotheses(table, nothing), np.zeros(0), np.full(2, 0.5), np.zeros(0), slacks
        )
    slacks[rows] = point.slacks
    return RelaxedPoint(
        _hypotheses(table, point.columns),
        point.coefficients,
        point.constants,
        point.selected,
        slacks,
    )
