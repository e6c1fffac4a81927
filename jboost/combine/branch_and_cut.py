"""The linear vote of least weighted 0-1 loss of d classifiers, by branch and cut on the errors.

A node decides for some examples whether they are right or wrong. The cuts are infeasible
subsystems: of each, an example must be wrong. The bound of a node is the weight decided to be wrong
plus a packing of subsystems (`packing`), in which the examples decided to be right cost nothing. A
subsystem with one example that is not decided decides it. The last program of the packing gives a
direction, whose best threshold gives a vote. A node branches on the undecided example that this
direction has most wrong.

Each batch of nodes is one compiled program; the loop runs on the host. Subsystems that floats do
not prove are checked in fractions before they count. Bounds are sums of integer weights.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import checksums, devices, loops, numerics, reduce
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.combine import agglomerate, infeasible, packing, proofs, votes
from jboost.combine.infeasible import SignedRows
from jboost.combine.packing import Packing
from jboost.combine.votes import Arithmetic, ScoredExamples, ThresholdVote
from jboost.pair.sweep.instance import bound_loss

OPEN, RIGHT, WRONG = 0, 1, 2
_BATCH = 32  # nodes of one program
_ROWS = 32  # data sets are padded to a multiple of this many sites, which share a program
_ARITHMETIC = Arithmetic("float64")  # of the directions during the search


class ExactState(NamedTuple):
    """The state of the search between two batches, on the host. Weights are integers."""

    decisions: np.ndarray  # [q, s] int8 of the open nodes: 0 open, 1 right, 2 wrong
    lost: np.ndarray  # [q] int64, the weight decided to be wrong
    bounds: np.ndarray  # [q] int64
    coefficients: np.ndarray  # [d] of the best vote
    offset: np.ndarray  # [] of the best vote, infinite for a constant classifier
    best: np.ndarray  # [] int64, the loss of the best vote
    floor: np.ndarray  # [] int64, the least bound of nodes that could not be closed
    num_nodes: np.ndarray  # [] int64
    checksum: np.ndarray  # [] int64, of the data


class ExactInfo(NamedTuple):
    """The progress after a batch, in the unit of the weights."""

    num_nodes: int
    num_open: int
    lower_bound: float
    upper_bound: float


class HostSites(NamedTuple):
    """The distinct points with the class of the larger weight at each, on the host."""

    points: np.ndarray  # [s, d] float64
    positive: np.ndarray  # [s] bool
    weights: np.ndarray  # [s] int64, by which the larger class exceeds the other
    base: int  # the weight of the smaller classes, which every vote loses


class Units(NamedTuple):
    """How integer weights relate to those of the examples."""

    unit: np.ndarray  # [] float64, the weight of the integer 1, a power of two
    rounding: np.ndarray  # [] the largest total error of the integers


class DeviceSites(NamedTuple):
    """The sites as padded arrays on the device."""

    rows: SignedRows
    examples: ScoredExamples


class _Visits(NamedTuple):
    """The results of a batch of nodes."""

    packing: Packing  # leading axis [b]
    is_forced: Array  # [b, s] bool, undecided sites that a proven subsystem decides to be wrong
    forced: Array  # [b] int64, their weight
    branch: Array  # [b] int32 the site to branch on
    is_wrong: Array  # [b] bool, whether the direction has that site wrong
    is_undecided: Array  # [b] bool, whether that site is undecided
    vote: ThresholdVote  # the best vote of the batch


def gather_sites(points: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> HostSites:
    """The sites of live examples [n] with integer weights."""
    distinct, number = np.unique(points + 0.0, axis=0, return_inverse=True)
    number = number.reshape(-1)
    sides = np.zeros((2, len(distinct)), np.int64)
    np.add.at(sides, (positive.astype(int), number), weights)
    excess = sides[1] - sides[0]
    kept = excess != 0
    return HostSites(
        distinct[kept], excess[kept] > 0, np.abs(excess)[kept], int(sides.min(0).sum())
    )


def search(
    sites: HostSites,
    directions: np.ndarray,
    units: Units,
    *,
    max_nodes: int,
    on_step: OnStep | None,
    initial: ExactState | None,
) -> tuple[ExactState, Status]:
    """Branch and cut, from the best vote along several directions.

    Args:
      sites: s of them.
      directions: [p, d].
      units: of the weights of the sites.
      max_nodes: after so many nodes, those of `initial` left out, no further batch starts.
      on_step: as of `jboost.combine.fit`.
      initial: a state to continue from, or None.

    Returns:
      The last state, and OPTIMAL, TIME_LIMIT, ITERATION_LIMIT or PRECISION_LIMIT.
    """
    with jax.enable_x64(True):
        problem = make_problem(sites)
        first = start(sites, problem, directions)
    state = first if initial is None else _validate_initial(initial, first)
    known: dict[tuple[int, ...], bool] = {}
    status = Status.OPTIMAL
    last_node = int(state.num_nodes) + max_nodes
    while len(state.bounds):
        if int(state.num_nodes) >= last_node:
            status = Status.ITERATION_LIMIT
            break
        with jax.enable_x64(True):
            state = advance(sites, problem, state, known)
        info = _info(sites, state, units)
        if not loops.goes_on(on_step, state, info) and len(state.bounds):
            status = Status.TIME_LIMIT
            break
    if status == Status.OPTIMAL and lower_bound(state) < int(state.best):
        status = Status.PRECISION_LIMIT
    return state, status


def make_problem(sites: HostSites) -> DeviceSites:
    """The sites as padded arrays. Call it in the 64-bit scope."""
    size = len(sites.weights)
    missing = max(_ROWS, -(-size // _ROWS) * _ROWS) - size
    columns = np.pad(sites.points, ((0, missing), (0, 0))).T
    positive, weights = np.pad(sites.positive, (0, missing)), np.pad(sites.weights, (0, missing))
    return _make_problem(columns, positive, weights)


@devices.host_jit
def _make_problem(columns: Array, positive: Array, weights: Array) -> DeviceSites:
    live = weights > 0
    one, yes = jnp.ones((), columns.dtype), jnp.ones((), bool)
    examples = ScoredExamples(
        columns, live, positive, weights.astype(columns.dtype), weights, one, 0 * one, yes, yes
    )
    return DeviceSites(infeasible.make_rows(columns, live, positive), examples)


def start(sites: HostSites, problem: DeviceSites, directions: np.ndarray) -> ExactState:
    """The state with the root, and the best vote along directions [p, d]."""
    vote = jax.device_get(_along(problem, directions))
    size = problem.examples.live.shape[0]
    return ExactState(
        np.zeros((1, size), np.int8),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        vote.coefficients,
        vote.offset,
        vote.loss,
        np.array(np.iinfo(np.int64).max),
        np.array(0),
        np.array(checksums.of_arrays(sites.points, sites.positive, sites.weights)),
    )


@devices.host_jit
def _along(problem: DeviceSites, directions: Array) -> ThresholdVote:
    return agglomerate.best_alone(problem.examples, directions, _ARITHMETIC)


def _validate_initial(initial: ExactState, first: ExactState) -> ExactState:
    if not isinstance(initial, ExactState):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.combine.ExactState, as"
            " `on_step` gets it"
        )
    checksums.require_same(
        initial.checksum,
        first.checksum,
        parts=("scores, labels, weights or mask",),
        what="search",
    )
    return initial


def lower_bound(state: ExactState) -> int:
    """The proven bound on the loss at the sites, in integer weights."""
    least = int(state.bounds.min()) if len(state.bounds) else int(state.best)
    return min(least, int(state.floor), int(state.best))


def _info(sites: HostSites, state: ExactState, units: Units) -> ExactInfo:
    least, best = sites.base + lower_bound(state), sites.base + int(state.best)
    with jax.enable_x64(True):
        lower, upper = jax.device_get(_in_weights(np.int64(least), np.int64(best), units))
    return ExactInfo(int(state.num_nodes), len(state.bounds), float(lower), float(upper))


@devices.host_jit
def _in_weights(least: Array, best: Array, units: Units) -> tuple[Array, Array]:
    """A lower and an upper bound of integer losses in the unit of the weights, rounded outwards."""
    unit, rounding = units
    upper = numerics.round_up(best, unit.dtype) * unit
    slack = 1 + 4 * float(jnp.finfo(unit.dtype).eps)
    return (
        bound_loss(least, unit, rounding),
        jnp.where(rounding > 0, (upper + rounding) * slack, upper),
    )


def advance(
    sites: HostSites, problem: DeviceSites, state: ExactState, known: dict[tuple[int, ...], bool]
) -> ExactState:
    """One batch, the nodes of the least bounds first."""
    order = np.lexsort((-state.lost, state.bounds))
    chosen, rest = order[:_BATCH], order[_BATCH:]
    decisions, lost, bounds = state.decisions[chosen], state.lost[chosen], state.bounds[chosen]
    missing = _BATCH - len(chosen)
    padded = np.pad(decisions, ((0, missing), (0, 0)), constant_values=WRONG)
    need = np.pad(int(state.best) - lost, (0, missing))
    visits = _visit(problem, padded, state.coefficients, state.offset, need)
    best, coefficients, offset = state.best, state.coefficients, state.offset
    if int(visits.vote.loss) < best:
        coefficients, offset, best, _ = jax.device_get(visits.vote)
    proven = _proven_bounds(sites, visits.packing, len(chosen), known)
    visited = _on_host(visits, len(chosen))
    bounds = np.maximum(bounds, lost + np.maximum(proven, visited.forced))
    is_open = bounds < best
    # The direction attains the bound, or nothing is left to decide: no child can do better.
    is_attained = visited.is_separated & ~visited.is_wrong
    is_done = is_open & (is_attained | ~visited.is_undecided)
    floor = min([int(state.floor), *bounds[is_done].tolist()])
    parents = np.flatnonzero(is_open & ~is_done)
    grown = _branch(parents, decisions, bounds, visited, np.asarray(problem.examples.integers))
    decisions, lost, bounds = (
        np.concatenate([old[rest], new]) for old, new in zip(state[:3], grown, strict=True)
    )
    is_left = bounds < best
    return ExactState(
        decisions[is_left],
        lost[is_left],
        bounds[is_left],
        coefficients,
        offset,
        best,
        np.array(floor),
        state.num_nodes + len(chosen),
        state.checksum,
    )


class _HostVisits(NamedTuple):
    """What a batch of nodes found, on the host and without padding."""

    branch: np.ndarray  # [b] int32
    is_wrong: np.ndarray  # [b] bool
    is_undecided: np.ndarray  # [b] bool
    is_separated: np.ndarray  # [b] bool, of the packing
    is_forced: np.ndarray  # [b, s] bool
    forced: np.ndarray  # [b] int64


def _on_host(visits: _Visits, num_nodes: int) -> _HostVisits:
    return _HostVisits(
        *(
            np.asarray(part)[:num_nodes]
            for part in (
                visits.branch,
                visits.is_wrong,
                visits.is_undecided,
                visits.packing.is_separated,
                visits.is_forced,
                visits.forced,
            )
        )
    )


def _branch(
    parents: np.ndarray,
    decisions: np.ndarray,
    bounds: np.ndarray,
    visited: _HostVisits,
    integers: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The decisions, the lost weights and the bounds of the children of some nodes."""
    children = [_children(decisions[p], visited.is_forced[p], visited.branch[p]) for p in parents]
    new = np.concatenate([np.zeros((0, decisions.shape[1]), np.int8), *children])
    lost = (new == WRONG) @ integers
    return new, lost, np.maximum(np.repeat(bounds[parents], 2), lost)


def _children(decisions: np.ndarray, is_forced: np.ndarray, site: int) -> np.ndarray:
    """The two children [2, s] of a node: the site right, and wrong."""
    both = np.repeat(np.where(is_forced, WRONG, decisions)[None], 2, axis=0).astype(np.int8)
    both[:, site] = RIGHT, WRONG
    return both


def _proven_bounds(
    sites: HostSites, found: Packing, num_nodes: int, known: dict[tuple[int, ...], bool]
) -> np.ndarray:
    """The bounds [num_nodes] of packings, with the subsystems that floats do not prove checked in
    fractions.
    """
    bounds = np.array(found.bound)[:num_nodes]
    counts, is_proven = np.asarray(found.count)[:num_nodes], np.asarray(found.is_proven)
    doubtful = ~is_proven[:num_nodes] & (np.arange(is_proven.shape[1]) < counts[:, None])
    if doubtful.any():
        members, amounts = np.asarray(found.members), np.asarray(found.amounts)
        for node, place in np.argwhere(doubtful):
            chosen = tuple(sorted(int(i) for i in members[node, place] if i >= 0))
            if chosen not in known:
                picked = list(chosen)
                labels = np.where(sites.positive[picked], 1, -1)
                known[chosen] = proofs.is_infeasible(sites.points[picked], labels)
            bounds[node] += amounts[node, place] if known[chosen] else 0
    return bounds


@devices.host_jit
def _visit(
    problem: DeviceSites, decisions: Array, coefficients: Array, offset: Array, need: Array
) -> _Visits:
    """The bounds and branching sites of a batch of nodes [b, s], which must be at least `need` [b]
    to be closed. The packings are guided by the best vote.
    """
    is_constant = jnp.isinf(offset)
    guide = infeasible.direction_of(
        problem.rows,
        jnp.where(is_constant, 0.0, coefficients),
        jnp.where(is_constant, jnp.sign(offset), offset),
    )
    visits = jax.vmap(lambda *node: _visit_one(problem, guide, *node))(decisions, need)
    return visits._replace(vote=votes.best_of(visits.vote))


def _visit_one(problem: DeviceSites, guide: Array, decisions: Array, need: Array) -> _Visits:
    rows, examples = problem
    live = examples.live
    size, is_open, hard = live.shape[0], live & (decisions == OPEN), live & (decisions == RIGHT)
    left = jnp.where(is_open, examples.integers, 0)
    start = packing.empty(rows.signed.shape[0], left, size)
    found = packing.pack(start, rows, hard, guide, need)
    takes = (found.members >= 0) & ~hard[jnp.maximum(found.members, 0)]
    is_single = found.is_proven & (jnp.sum(takes, axis=1, dtype=jnp.int32) == 1)
    places = jnp.where(takes & is_single[:, None], found.members, size)
    is_forced = jnp.zeros((size,), bool).at[places.reshape(-1)].set(True, mode="drop")
    heights = infeasible.heights(rows.signed, found.direction)
    is_candidate = is_open & ~is_forced
    lowest, branch = reduce.first_least(jnp.where(is_candidate, heights, jnp.inf))
    direction = found.direction[:-1] / rows.unit
    return _Visits(
        found,
        is_forced,
        numerics.masked_sum(examples.integers, is_forced),
        jnp.minimum(branch, size - 1).astype(jnp.int32),
        lowest <= 0,
        lowest < jnp.inf,
        votes.vote_along(examples, direction, _ARITHMETIC),
    )
