"""The final votes of `fit_large` that are solutions of the relaxation: lambda as the point of the
upper bound has it, or at a vertex of the optimal solutions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from jboost.base.padding import shared_size
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.l0.large import feasible, separation
from jboost.l0.large import votes as large_votes
from jboost.l0.large.feasible import MasterPoint, PrimalPoint
from jboost.l0.large.proof import MonomialTable
from jboost.l0.large.relax import LargeRelaxation
from jboost.l0.large.votes import MonomialVote, SignedMonomials
from jboost.l0.relaxation.instance import known_cuts, make_instance, unordered
from jboost.l0.types import RelaxationInstance
from jboost.l0.votes import vertex
from jboost.l0.votes.solution import LEAST_GAIN, TIGHT
from jboost.l0.votes.vertex import VertexConfig

# The largest number of rows of the data for a vertex: the simplex table has a row of as many
# numbers as there are rows for each row.
MOST_ROWS = 4096
_NUM_CONSTANTS = 2
# The search for a vertex may be stopped after so many pivots: enough that their work on the table
# outweighs that of a call.
_LEAST_PIVOTS, _ENTRIES_AT_ONCE = 16, 1 << 30
_LEAST_ROWS = 128  # of the program
_LEAST_COLUMNS = 32  # of the program; with more, the number is a power of two


class OptimalVertex(NamedTuple):
    """An optimal vertex, as a feasible point of the relaxation over all rows."""

    value: float
    point: PrimalPoint
    status: Status  # of `vertex.Vertex`


def vote_of(table: MonomialTable, point: PrimalPoint) -> MonomialVote:
    """The vote lambda of a point, in multiples of 2^-20. In a solution many rows have just the
    margin, and miss it after rounding: of two roundings the one of less loss is taken.
    """
    nearest = large_votes.at(table, point.columns, point.coefficients, point.constants)
    inner = large_votes.at(table, point.columns, *_moved_inside(table, point))
    return inner if inner.loss < nearest.loss else nearest


def _moved_inside(table: MonomialTable, point: PrimalPoint) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients [k] and constants [2] of a point, moved by so much that rows that have just
    the margin still have it after rounding, if all of them can gain.
    """
    columns, values = point.columns, np.concatenate([point.constants, point.coefficients])
    side, _ = large_votes.patterns_of(table, columns)
    labels = np.where(side.covered[:, -1] > 0, 1.0, -1.0)
    scores = side.covered[:, :-1] @ (point.coefficients * columns.signs)
    above = labels * (scores + point.constants[0] - point.constants[1]) - table.margin
    is_tight = np.abs(above) <= TIGHT
    # of the constants +1 and -1, and of the columns
    outputs = np.pad(side.covered[is_tight, :-1], ((0, 0), (_NUM_CONSTANTS, 0)), constant_values=1)
    signs, used = np.concatenate([[1.0, -1.0], columns.signs]), np.flatnonzero(values > 0)
    margins = labels[is_tight, None] * (outputs[:, used] * signs[used])
    gain = _equal_gain(margins)
    gains = margins @ gain
    gaining = gains > LEAST_GAIN
    if gaining.any():
        missing = (len(used) + 1) * large_votes.UNIT + max(0.0, -above[is_tight].min())
        values[used] = np.maximum(values[used] + gain * (missing / gains[gaining].min()), 0.0)
    return values[_NUM_CONSTANTS:], values[:_NUM_CONSTANTS]


def _equal_gain(margins: np.ndarray) -> np.ndarray:
    """The least change of coefficients [k] of sum 0 by which margins [n, k] gain as nearly as
    possible 1 each.
    """
    centred = margins - margins.mean(axis=1, keepdims=True)
    change, *_ = np.linalg.lstsq(centred.T @ centred, centred.sum(axis=0), rcond=1e-10)
    return change - change.mean()


def find_vertex(
    table: MonomialTable,
    state: LargeRelaxation,
    columns: SignedMonomials,
    config: VertexConfig,
    goes_on: Callable[[], bool],
) -> OptimalVertex | None:
    """A vertex of the optimal solutions of the relaxation over some columns, or None if it was
    told to stop.

    Args:
      table: all rows, at most `MOST_ROWS`.
      state: the last relaxation, whose cuts are the first ones.
      columns: those that the vertex may use, [k].
      config: of the search.
      goes_on: called after each part of the search; False stops it.
    """
    covered = table.covers(columns.monomials)
    side, weights = large_votes.patterns_of(table, columns)
    program = _program(table, columns, side, weights)
    pairs, importance = _cuts(state, side, len(program.weights))
    options = {"config": config, "is_either": state.is_either}
    with jax.enable_x64(True):  # `votes.vertex` says why
        search = _begin(program, pairs, importance, **options)
    pivots_at_once = max(_LEAST_PIVOTS, _ENTRIES_AT_ONCE // search.table.entries.size)
    while bool(vertex.is_unfinished(search, config)):
        most = np.asarray(search.num_pivots) + np.int32(pivots_at_once)
        with jax.enable_x64(True):
            search = _advance(program, search, most, **options)
        if not goes_on():
            return None
    with jax.enable_x64(True):
        found = jax.tree.map(np.asarray, _conclude(program, search, is_either=state.is_either))
    used = _NUM_CONSTANTS + len(columns.signs)
    constants = np.asarray(found.coefficients[:_NUM_CONSTANTS], np.float64)
    slacks = np.asarray(found.slacks, np.float64)[side.group_of]
    given = MasterPoint(
        columns,
        covered,
        np.asarray(found.coefficients[_NUM_CONSTANTS:used], np.float64),
        constants,
        np.asarray(found.selected[_NUM_CONSTANTS:used], np.float64),
        slacks,
    )
    given = _only_selected(given)
    value, point, _ = feasible.near(table, given, is_either=state.is_either)
    return OptimalVertex(value, point, Status(int(found.status)))


class _PatternProgram(NamedTuple):
    """The relaxation over patterns, padded: the constants +1 and -1 are the first columns."""

    outputs: np.ndarray  # [n, U]
    labels: np.ndarray  # [n]
    costs: np.ndarray  # [U]
    weights: np.ndarray  # [n], 0 for padding
    is_column: np.ndarray  # [U] bool
    margin: np.ndarray  # []


class _PatternVertex(NamedTuple):
    coefficients: Array  # [U]
    selected: Array  # [U]
    slacks: Array  # [n]
    status: Array  # []


def _instance(program: _PatternProgram, is_either: bool) -> RelaxationInstance:
    instance, _ = make_instance(
        program.outputs,
        program.labels,
        program.costs,
        program.weights,
        program.weights > 0,
        program.is_column,
        program.margin,
        is_either,
    )
    return instance


@functools.partial(jax.jit, static_argnames=("config", "is_either"))
def _begin(
    program: _PatternProgram,
    pairs: Array,
    importance: Array,
    *,
    config: VertexConfig,
    is_either: bool,
) -> vertex.VertexState:
    instance = _instance(program, is_either)
    return vertex.begin(instance, known_cuts(instance, pairs), importance, config)


@functools.partial(jax.jit, static_argnames=("config", "is_either"))
def _advance(
    program: _PatternProgram,
    search: vertex.VertexState,
    max_pivots: Array,
    *,
    config: VertexConfig,
    is_either: bool,
) -> vertex.VertexState:
    return vertex.advance(_instance(program, is_either), search, config, max_pivots)


@functools.partial(jax.jit, static_argnames=("is_either",))
def _conclude(
    program: _PatternProgram, search: vertex.VertexState, *, is_either: bool
) -> _PatternVertex:
    instance = _instance(program, is_either)
    found = vertex.conclude(instance, search)
    primal = found.primal
    return _PatternVertex(
        primal.coefficients, primal.selected, unordered(instance, primal.slacks), found.status
    )


def _program(
    table: MonomialTable,
    columns: SignedMonomials,
    side: separation.ClassGroups,
    weights: np.ndarray,
) -> _PatternProgram:
    dtype = np.dtype(np.float64)
    number, used = len(weights), _NUM_CONSTANTS + len(columns.signs)
    num_rows = shared_size(number, least=_LEAST_ROWS)
    num_columns = max(_LEAST_COLUMNS, 1 << (used - 1).bit_length())
    outputs = np.zeros((num_rows, num_columns), dtype)
    outputs[:number, 0], outputs[:number, 1] = 1, -1
    outputs[:number, 2:used] = side.covered[:, :-1] * columns.signs.astype(dtype)
    labels = np.ones(num_rows, dtype)
    labels[:number] = np.where(side.covered[:, -1] > 0, 1, -1)
    costs = np.zeros(num_columns, dtype)
    costs[:_NUM_CONSTANTS], costs[2:used] = table.constant_cost, table.costs[columns.monomials]
    padded = np.pad(weights, (0, num_rows - number)).astype(dtype)
    margin = np.asarray(table.margin, dtype)
    return _PatternProgram(outputs, labels, costs, padded, np.arange(num_columns) < used, margin)


def _cuts(
    state: LargeRelaxation, side: separation.ClassGroups, capacity: int
) -> tuple[np.ndarray, np.ndarray]:
    """The cuts of the largest duals as pairs of patterns [capacity, 2] and these duals, -1 and 0
    for empty slots.
    """
    cuts = state.cuts
    chosen = np.argsort(-cuts.duals, kind="stable")[:capacity]
    chosen = chosen[cuts.duals[chosen] > 0]
    pairs, duals = np.full((capacity, 2), -1, np.int32), np.zeros(capacity)
    ends = np.stack([side.group_of[cuts.inside[chosen]], side.group_of[cuts.outside[chosen]]], 1)
    pairs[: len(chosen)], duals[: len(chosen)] = ends, cuts.duals[chosen]
    return pairs, duals


def _only_selected(given: MasterPoint) -> MasterPoint:
    """The point without columns of mu 0, those of the largest mu first."""
    order = np.argsort(-given.selected, kind="stable")
    order = order[given.selected[order] > 0]
    return given._replace(
        columns=SignedMonomials(given.columns.monomials[order], given.columns.signs[order]),
        covered=given.covered[:, order],
        coefficients=given.coefficients[order],
        selected=given.selected[order],
    )
