"""The vote of the relaxation (18) of Goldberg and Eckstein (2009) at a vertex of its polytope.

The interior point method gives a central point of all optimal solutions, whose lambda is spread
over most columns. At a vertex, at most as many variables are positive as rows hold with equality,
so that few hypotheses vote. The columns of the central point contain an optimal vertex. The dual
simplex method (`jboost.lp.simplex.boxes`) finds one, of the program

    minimise  sum_i weight_i xi_i + sum_u c_u (lambda_u + d_u)  s.t.  lambda, d, xi >= 0

with mu = lambda + d, over a working set of pair cuts. It starts from the cuts of the largest duals
and adds the violated cuts of all pairs until there are none. Costs are perturbed by about eps^.75,
which changes the optimum by less than the tolerance of the relaxation, and makes the vertex unique.

The pivots are in 64 bits. In float32 the perturbation is lost in the rounding errors of the table
after some thousand pivots, and the method then cycles (seen with 188 examples and 346 columns).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, loops, numerics
from jboost.base.numerics import spread
from jboost.base.status import Status
from jboost.base.types import Array, PyTree
from jboost.l0.relaxation import certify, cut_rows
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import CutIndices, Primal, RelaxationInstance
from jboost.lp.simplex import boxes as boxed_simplex
from jboost.lp.simplex.boxes import BoxSolution, Tableau

# These are powers of the rounding unit: the perturbation of the costs, and the least violation of
# a cut that is added, a few times what the simplex method counts as none.
_SPREAD, _VIOLATED = 0.75, 0.6
# Round numbers; not tuned.
_MOST_NEW = 128  # cuts that a round adds
_FEW_CUTS = 64  # the default capacity is at least this


@dataclasses.dataclass(frozen=True)
class VertexConfig:
    """The final vote is lambda at a vertex of the optimal solutions of the last relaxation (18).
    Of all solutions those at vertices have few hypotheses: at most one for each row of the
    relaxation that holds with equality.
    """

    max_pivots: int = 20_000
    """The largest number of pivots of the simplex method."""
    max_rounds: int = 60
    """The largest number of linear programs. Each adds the cuts that the last solution violates."""
    num_cuts: int | None = None
    """The number of cuts held at a time. None for one per example plus one per column, at least
    64. The simplex table has a row of 2 U + m 64-bit numbers for each cut and for each example.
    """

    def __post_init__(self) -> None:
        check.count("config.max_pivots", self.max_pivots, low=1)
        check.count("config.max_rounds", self.max_rounds, low=1)
        if self.num_cuts is not None:
            check.count("config.num_cuts", self.num_cuts, low=1)


class Vertex(NamedTuple):
    """An optimal vertex of the relaxation, with the examples in the order of the instance."""

    primal: Primal
    upper_bound: Array  # [] attained by `primal`
    # [] int32 OPTIMAL; ITERATION_LIMIT where pivots or rounds were too few; CAPACITY_LIMIT where
    # `num_cuts` was too small. `primal` is feasible for any status.
    status: Array


class VertexState(NamedTuple):
    """The search after some linear programs, the last of which may be in progress."""

    cuts: CutIndices  # [K], m for an empty slot
    table: Tableau  # of these cuts
    primal: Primal  # of the last program
    is_optimal: Array  # [] bool, whether the last program was solved
    is_open: Array  # [] bool, whether the limit of pivots came before its end
    num_new: Array  # [] int32 cuts that the last solution violates and that were added
    lacks_slots: Array  # [] bool, whether a violated cut found no slot
    num_rounds: Array  # [] int32
    num_pivots: Array  # [] int32


def capacity_of(config: VertexConfig, shape: tuple[int, ...]) -> int:
    """The number of cuts held at a time for m examples and U columns, static."""
    everything = max(1, pair_cuts.num_pairs(shape[0]))
    most = max(sum(shape), _FEW_CUTS) if config.num_cuts is None else config.num_cuts
    return min(everything, most)


def find(
    instance: RelaxationInstance, known: CutIndices, importance: Array, config: VertexConfig
) -> Vertex:
    """The vertex, in the float type of the instance; the arguments are those of `begin`."""
    dtype = instance.margins.dtype

    def search(*given: PyTree) -> tuple[Primal, Array]:
        instance, known, importance = jax.tree.map(_widened, given)
        first = begin(instance, known, importance, config)
        last = advance(instance, first, config, config.max_pivots)
        return jax.tree.map(lambda part: numerics.narrow(part, dtype), last.primal), _status(last)

    point, status = numerics.in_64_bits(search)(instance, known, importance)
    return _feasible(instance, point, status)


def _widened(values: Array) -> Array:
    """Floats as float64; other arrays unchanged. To be called inside `numerics.in_64_bits`."""
    is_float = jnp.issubdtype(values.dtype, jnp.floating)
    return values.astype(jnp.dtype("float64")) if is_float else values


def begin(
    instance: RelaxationInstance, known: CutIndices, importance: Array, config: VertexConfig
) -> VertexState:
    """The state before the first program, with all rows basic.

    Args:
      instance: of (18) over the columns that the vertex may use.
      known: [K] cuts to start from, in the order of the instance.
      importance: [K] the cuts of the largest positive values are taken first.
      config: static.
    """
    capacity = capacity_of(config, instance.margins.shape)
    cuts = _first_cuts(instance, known, importance, capacity)
    none, yes = jnp.zeros((), jnp.int32), jnp.ones((), bool)
    table = boxed_simplex.begin(_matrix(instance, cuts), _objective(instance))
    point = Primal(
        *(jnp.zeros_like(part) for part in (instance.costs, instance.costs, instance.weights))
    )
    return VertexState(cuts, table, point, yes, ~yes, none + 1, ~yes, none, none)


def is_unfinished(state: VertexState, config: VertexConfig) -> Array:
    """Whether `advance` would go on, given more pivots."""
    has_more = state.is_open | (state.is_optimal & (state.num_new > 0))
    return (
        has_more & (state.num_rounds < config.max_rounds) & (state.num_pivots < config.max_pivots)
    )


def advance(
    instance: RelaxationInstance, state: VertexState, config: VertexConfig, max_pivots: Array | int
) -> VertexState:
    """The state at the end of the search, or after `max_pivots` pivots in all."""
    most = jnp.minimum(max_pivots, config.max_pivots)
    return loops.while_loop(
        lambda state: is_unfinished(state, config) & (state.num_pivots < most),
        lambda state: _round(instance, state, most),
        state,
    )


def conclude(instance: RelaxationInstance, last: VertexState) -> Vertex:
    """The point of a state, made feasible, and how the search ended."""
    return _feasible(instance, last.primal, _status(last))


def _status(last: VertexState) -> Array:
    missed = jnp.where(last.lacks_slots, int(Status.CAPACITY_LIMIT), int(Status.ITERATION_LIMIT))
    is_done = last.is_optimal & (last.num_new == 0) & ~last.lacks_slots
    return jnp.where(is_done, int(Status.OPTIMAL), missed).astype(jnp.int32)


def _feasible(instance: RelaxationInstance, point: Primal, status: Array) -> Vertex:
    point, least = certify.on_grid(instance, point)
    required = pair_cuts.search(instance, point.selected, point.slacks, _max_entries(instance))
    primal = certify.raised(instance, point, least, required)
    return Vertex(primal, certify.price(instance, primal), status)


def _max_entries(instance: RelaxationInstance) -> int:
    """The number of pairs searched at once: their memory is that of four copies of the outputs."""
    return max(4 * instance.margins.size, 1 << 16)


def _first_cuts(
    instance: RelaxationInstance, known: CutIndices, importance: Array, capacity: int
) -> CutIndices:
    """The most important known cuts, in a working set of this capacity, of which half is left to
    new ones.
    """
    worth = jnp.where(pair_cuts.is_used(instance, known), importance, 0.0)
    number = min(max(1, capacity // 2), worth.shape[0])
    values, chosen = lax.top_k(worth, number)
    empty = pair_cuts.empty(capacity, instance.weights.shape[0])
    return CutIndices(
        *(
            none.at[:number].set(jnp.where(values > 0, end[chosen], none[:number]))
            for none, end in zip(empty, known, strict=True)
        )
    )


def _cut_rows(instance: RelaxationInstance, cuts: CutIndices) -> Array:
    """Cuts [K] as rows over (lambda, d, xi), 0 for empty slots."""
    served, ends = cut_rows.from_pairs(instance, cuts)
    return jnp.concatenate([served, served, ends], axis=1)


def _matrix(instance: RelaxationInstance, cuts: CutIndices) -> Array:
    """The rows of the margins, of sum lambda = 1, and of the cuts."""
    num_examples, num_columns = instance.margins.shape
    dtype = instance.margins.dtype
    slacks = (1 + instance.margin) * jnp.eye(num_examples, dtype=dtype)
    of_margins = jnp.concatenate(
        [instance.margins, jnp.zeros_like(instance.margins), slacks], axis=1
    )
    total = jnp.concatenate(
        [jnp.ones((1, num_columns), dtype), jnp.zeros((1, num_columns + num_examples), dtype)],
        axis=1,
    )
    return jnp.concatenate([of_margins, total, _cut_rows(instance, cuts)])


def _objective(instance: RelaxationInstance) -> Array:
    """The perturbed costs of (lambda, d, xi), in units of the largest weight."""
    costs = jnp.concatenate([instance.costs, instance.costs, instance.weights]) / instance.unit
    eps = jnp.finfo(costs.dtype).eps
    return costs + eps**_SPREAD * spread(costs.shape[0], costs.dtype)


def _bounds(instance: RelaxationInstance, cuts: CutIndices) -> tuple[Array, Array]:
    """The lower and upper bounds of (lambda, d, xi) and then of the rows."""
    dtype = instance.margins.dtype
    is_real, is_cut = instance.weights > 0, pair_cuts.is_used(instance, cuts)
    one = jnp.ones((1,), dtype)
    lower = [
        jnp.zeros((2 * instance.costs.shape[0] + is_real.shape[0],), dtype),
        jnp.where(is_real, instance.margin, -jnp.inf),
        one,
        jnp.where(is_cut, 1.0, -jnp.inf),
    ]
    upper = [
        jnp.where(instance.is_column, 1.0, 0.0),
        jnp.where(instance.is_column, jnp.inf, 0.0),
        jnp.where(is_real, jnp.inf, 0.0),
        jnp.full(is_real.shape, jnp.inf),
        one,
        jnp.full(is_cut.shape, jnp.inf),
    ]
    return jnp.concatenate(lower).astype(dtype), jnp.concatenate(upper).astype(dtype)


def _round(instance: RelaxationInstance, state: VertexState, max_pivots: Array) -> VertexState:
    """Solves the program of the cuts held, and adds the cuts that its solution violates. A program
    that the limit of pivots interrupts keeps its cuts.
    """
    matrix = _matrix(instance, state.cuts)
    solution = boxed_simplex.solve(
        state.table,
        matrix,
        _objective(instance),
        *_bounds(instance, state.cuts),
        goal=jnp.asarray(jnp.inf, matrix.dtype),
        max_pivots=max_pivots - state.num_pivots,
    )
    is_open = ~solution.has_ended
    primal = _primal(instance, solution)
    required = pair_cuts.search(instance, primal.selected, primal.slacks, _max_entries(instance))
    num_examples = instance.weights.shape[0]
    size = min(_MOST_NEW, state.cuts.first.shape[0], 2 * num_examples)
    empty = pair_cuts.empty(size, num_examples)
    threshold = 4 * jnp.finfo(matrix.dtype).eps ** _VIOLATED
    found = pair_cuts.refresh(
        instance,
        empty,
        jnp.zeros((size,), matrix.dtype),
        required,
        primal.selected,
        primal.slacks,
        jnp.asarray(threshold, matrix.dtype),
    )
    added = jax.tree.map(lambda cut, none: jnp.where(is_open, none, cut), found.cuts, empty)
    cuts, table, num_new = _with_cuts(instance, state.cuts, solution, added)
    return VertexState(
        cuts,
        table,
        primal,
        solution.is_optimal,
        is_open,
        num_new,
        ~is_open & (num_new == 0) & (found.num_new > 0),
        state.num_rounds + (~is_open).astype(jnp.int32),
        state.num_pivots + solution.num_pivots,
    )


def _with_cuts(
    instance: RelaxationInstance, cuts: CutIndices, solution: BoxSolution, found: CutIndices
) -> tuple[CutIndices, Tableau, Array]:
    """The working set and the table with the cuts found, in free slots and then over basic cuts,
    those of the largest surplus first, and the number of cuts written. The dual of a basic cut is
    0: without it the solution stays optimal, so that the objective never decreases.
    """
    table, capacity = solution.table, cuts.first.shape[0]
    num_slots = table.slots.shape[0]
    indices = num_slots + instance.weights.shape[0] + 1 + jnp.arange(capacity, dtype=jnp.int32)
    is_basic = boxed_simplex.positions(table)[indices] >= num_slots
    surplus = jnp.where(pair_cuts.is_used(instance, cuts), solution.values[indices] - 1, jnp.inf)
    idle, slots = lax.top_k(jnp.where(is_basic, surplus, -jnp.inf), found.first.shape[0])
    is_written = pair_cuts.is_used(instance, found) & (idle > -jnp.inf)
    slot = jnp.where(is_written, slots, capacity)
    places = jnp.where(is_written, indices[slots], jnp.iinfo(jnp.int32).max)
    held = CutIndices(
        *(old.at[slot].set(new, mode="drop") for old, new in zip(cuts, found, strict=True))
    )
    table = boxed_simplex.replace(table, _cut_rows(instance, found), places)
    return held, table, jnp.sum(is_written, dtype=jnp.int32)


def _primal(instance: RelaxationInstance, solution: BoxSolution) -> Primal:
    """lambda, mu and xi of a solution."""
    num_columns = instance.costs.shape[0]
    size = 2 * num_columns + instance.weights.shape[0]
    values = jnp.maximum(solution.values[:size], 0.0)
    coefficients, rest, slacks = jnp.split(values, [num_columns, 2 * num_columns])
    return Primal(coefficients, coefficients + rest, slacks)
