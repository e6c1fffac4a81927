"""The linear program over a working set, and the linear system of a direction of the interior point
method (`newton`).

With mu = lambda + extra the program is: minimise weights . xi + c . (lambda + extra) s.t.
A lambda + (1 + rho) xi - margin = rho, S mu + E xi - cut = 1, sum lambda = 1, extra + room = 1;
lambda, extra, room, xi, margin, cut >= 0. A_iu = y_i H_iu. Row k of E has two ones, at the examples
of cut k; row k of S has ones at the hypotheses that the cut counts.

All non-negative variables are stored in one vector, and their duals in another one in the same
order (`VariableParts`). The system is solved for the direction of x = (xi, lambda, mu); the other
parts follow. The rows are the margins and the cuts, J x = (A lambda + (1 + rho) xi, S mu + E xi).

Cost of an iteration: xi is eliminated along the graph whose edges are the cuts. Examples of which
no two share a cut have a diagonal block. The other examples form a cover, with an end of each cut.
The minority class is a cover, and usually half of it is enough. So one Cholesky factor has the size
of the cover, and a second one twice the number of columns.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular

from jboost.base import devices, loops, numerics, reduce
from jboost.base.numerics import matvec, rmatvec, times, times_transposed
from jboost.base.types import Array
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import CutIndices, RelaxationInstance

# If the matrix of the graph has more entries per edge than this, a CPU computes products faster
# along the edges than with the matrix.
_DENSITY = 100
# The largest number of steps of conjugate gradients for a direction, by the bytes of a float.
MOST_REFINEMENTS = {4: 8, 8: 3}
# The relative residual of a direction, in the norm of the inverse, by the bytes of a float.
_EXACT = {4: 1e-2, 8: 1e-4}


class VariableParts(NamedTuple):
    """The parts of a vector with one number for each non-negative variable, or for its dual, in the
    order in which they are stored.
    """

    coefficients: Array  # [..., U] lambda
    extra: Array  # [..., U] mu - lambda
    room: Array  # [..., U] 1 - extra
    slacks: Array  # [..., m] xi
    margins: Array  # [..., m] surplus of each margin row; its dual is w
    cuts: Array  # [..., K] surplus of each cut; its dual is v


class WorkingSetPoint(NamedTuple):
    """An iterate, or a direction."""

    # [2, n] primal and dual; unused entries are 1 and 0 in an iterate, 0 in a direction
    sides: Array
    convexity: Array  # [] alpha


class WorkingSetProgram(NamedTuple):
    """The linear program over a working set."""

    instance: RelaxationInstance
    cuts: CutIndices
    served: Array  # [K, U] S
    is_used: Array  # [n] bool


class Cover(NamedTuple):
    """A set of examples that contains an example of each cut."""

    is_in: Array  # [m] bool
    places: Array  # [k] int32 indices of its examples; m for padding
    slots: Array  # [m] int32 index of each example in `places`; k for the others


def make_program(
    instance: RelaxationInstance, cuts: CutIndices, served: Array
) -> WorkingSetProgram:
    """The program over these cuts with the coefficients `served` [K, U] of mu."""
    is_real = jnp.arange(instance.weights.shape[0]) < instance.num_real
    columns = (instance.is_column,) * 3
    return WorkingSetProgram(
        instance,
        cuts,
        served,
        jnp.concatenate([*columns, is_real, is_real, pair_cuts.is_used(instance, cuts)]),
    )


def parts_of(program: WorkingSetProgram, vector: Array) -> VariableParts:
    """Splits a vector [..., n] into its parts."""
    (num_examples, num_columns), num_cuts = program.instance.margins.shape, program.served.shape[0]
    return VariableParts(*_split(vector, 3 * [num_columns] + 2 * [num_examples] + [num_cuts]))


def _split(vector: Array, sizes: list[int]) -> list[Array]:
    """Splits the last axis into pieces of these sizes."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [vector[..., end - size : end] for size, end in zip(sizes, ends, strict=True)]


def columns_of(program: WorkingSetProgram, vector: Array) -> list[Array]:
    """xi, lambda and mu of a vector [..., m + 2 U]."""
    num_examples, num_columns = program.instance.margins.shape
    return _split(vector, [num_examples, num_columns, num_columns])


def rows_of(program: WorkingSetProgram, vector: Array) -> list[Array]:
    """Margins and cuts of a vector [..., m + K]."""
    return _split(vector, [program.instance.margins.shape[0], program.served.shape[0]])


def reached(program: WorkingSetProgram, columns: Array) -> Array:
    """J x [m + K] of a vector [m + 2 U]."""
    slacks, coefficients, selected = columns_of(program, columns)
    margins = (
        matvec(program.instance.margins, coefficients) + (1 + program.instance.margin) * slacks
    )
    return jnp.concatenate(
        [margins, matvec(program.served, selected) + pair_cuts.gather(program.cuts, slacks)]
    )


def priced(program: WorkingSetProgram, rows: Array) -> Array:
    """The transpose of J times one vector [m + K] or several [k, m + K]: [m + 2 U] or
    [k, m + 2 U].
    """
    margins, cuts = rows_of(program, rows)
    slacks = (1 + program.instance.margin) * margins + pair_cuts.scatter(
        program.cuts, cuts, margins.shape[-1]
    )
    return jnp.concatenate(
        [slacks, rmatvec(program.instance.margins, margins), rmatvec(program.served, cuts)], axis=-1
    )


def is_in_cover(program: WorkingSetProgram) -> Array:
    """A small cover, [m] bool: from each cut the example that is in more cuts. It is the minority
    class if that is smaller.
    """
    num_examples = program.instance.weights.shape[0]
    degrees = pair_cuts.scatter(
        program.cuts, jnp.ones(program.cuts.first.shape, jnp.int32), num_examples
    )
    low, high = jnp.minimum(*program.cuts), jnp.maximum(*program.cuts)
    of_low, of_high = (degrees.at[end].get(mode="fill", fill_value=0) for end in (low, high))
    shared = (
        jnp.zeros((num_examples,), bool)
        .at[jnp.where(of_low >= of_high, low, high)]
        .set(True, mode="drop")
    )
    is_minority = jnp.arange(num_examples) < program.instance.num_minority
    return jnp.where(reduce.count(shared) <= program.instance.num_minority, shared, is_minority)


def cover_of(is_in: Array, size: int) -> Cover:
    """The cover of these examples, of static capacity `size`."""
    slots = jnp.where(is_in, jnp.cumsum(is_in, dtype=jnp.int32) - 1, size)
    places = (
        jnp.full((size,), is_in.shape[0], jnp.int32)
        .at[slots]
        .set(jnp.arange(is_in.shape[0], dtype=jnp.int32), mode="drop")
    )
    return Cover(is_in, places, slots)


class Graph(NamedTuple):
    """The cuts between the cover and the examples outside it, with their ratios of dual to
    primal.
    """

    outside: Array  # [K] int32 the example outside; m or more if both are in the cover
    inside: Array  # [K] int32 the slot in the cover; k for an empty slot
    ratio: Array  # [K]
    matrix: Array  # [m, k] sums of the ratios

    @property
    def is_sparse(self) -> bool:
        """Whether products are computed along edges."""
        return devices.platform() == "cpu" and _DENSITY * self.ratio.shape[0] < self.matrix.size

    def to_cover(self, values: Array) -> Array:
        """The transposed matrix times values [m, l]: [k, l]."""
        return (
            self._along_edges(values, self.outside, self.inside, self.matrix.shape[1])
            if self.is_sparse
            else times(self.matrix.T, values)
        )

    def from_cover(self, values: Array) -> Array:
        """The matrix times values [k, l]: [m, l]."""
        return (
            self._along_edges(values, self.inside, self.outside, self.matrix.shape[0])
            if self.is_sparse
            else times(self.matrix, values)
        )

    def _along_edges(self, values: Array, start: Array, end: Array, size: int) -> Array:
        gathered = values.at[start].get(mode="fill", fill_value=0.0) * self.ratio[:, None]
        return jnp.zeros((size, values.shape[1]), values.dtype).at[end].add(gathered, mode="drop")


class System(NamedTuple):
    """The linear system of a direction in x = (xi, lambda, mu), and the factors of a slightly
    regularised matrix.
    """

    program: WorkingSetProgram
    ratio: Array  # [n] of dual to primal
    cover: Cover
    graph: Graph
    inverse: Array  # [m] inverse diagonal of the eliminated examples; 0 in the cover
    roots: Array  # [k] scale of the cover
    factor: Array  # [k, k] Cholesky factor of the cover after elimination of the other examples
    # [m + k, 2 U] blocks that couple the columns with the eliminated examples and with the cover
    ties: Array
    unit: Array  # [2 U] scale of the columns
    top: Array  # [2 U, 2 U] Cholesky factor of the columns after elimination of all examples


def factorise(program: WorkingSetProgram, cover: Cover, ratio: Array) -> System:
    """The system for ratios [n] of dual to primal, and its factors."""
    instance, served, of = program.instance, program.served, parts_of(program, ratio)
    is_real = parts_of(program, program.is_used).slacks
    stiffness = 1 + instance.margin
    weighted = of.cuts[:, None] * served
    ends = _scatter_rows(
        program.cuts,
        jnp.concatenate([weighted, of.cuts[:, None]], axis=1),
        instance.margins.shape[0],
    )
    coupling, degrees = ends[:, :-1], ends[:, -1]
    own = jnp.where(is_real, stiffness**2 * of.margins + of.slacks, 1.0)
    inverse = jnp.where(cover.is_in, 0.0, 1 / (own + degrees))
    sides = jnp.concatenate([stiffness * of.margins[:, None] * instance.margins, coupling], axis=1)
    graph, among = _make_graph(program, cover, of.cuts)
    roots, factor, half_solved = _factorise_cover(cover, graph, among, own, inverse, sides)
    # The ratio of a margin after the elimination of its slack.
    left = of.margins * jnp.where(cover.is_in, 1.0, (degrees + of.slacks) * inverse)
    mixed = (-stiffness * of.margins * inverse)[:, None] * coupling
    whole = times_transposed(served, weighted)
    outer = _of_columns(
        instance.margins,
        left,
        mixed,
        whole - times_transposed(coupling, inverse[:, None] * coupling),
    )
    unit, top = _factorise_columns(instance, of, outer, whole, half_solved)
    return System(
        program,
        ratio,
        cover,
        graph,
        inverse,
        roots,
        factor,
        jnp.concatenate([sides, half_solved]),
        unit,
        top,
    )


def _scatter_rows(cuts: CutIndices, values: Array, num_examples: int) -> Array:
    """The sums [m, n] of the rows [K, n] of the cuts that contain an example."""
    sums = jnp.zeros((num_examples, values.shape[1]), values.dtype)
    return sums.at[jnp.concatenate(cuts)].add(jnp.concatenate([values, values]), mode="drop")


def _factorise_cover(
    cover: Cover, graph: Graph, among: Array, own: Array, inverse: Array, sides: Array
) -> tuple[Array, Array, Array]:
    """The matrix of the slacks in the cover after the elimination of the other slacks.

    Args:
      among: [k, k] lower triangular, the sums of ratios of cuts inside the cover.
      own: [m] the diagonal for each slack.
      inverse: [m] of the diagonal of the eliminated slacks, 0 in the cover.
      sides: [m, 2 n] the entries that join slacks and columns.

    Returns:
      The scaling [k] to a unit diagonal, the factor [k, k] of the scaled matrix, and the scaled
      `sides` of the cover [k, 2 n] after one triangular solve.
    """
    size = cover.places.shape[0]
    reduction = graph.to_cover(
        inverse[:, None] * jnp.concatenate([graph.matrix, sides, own[:, None]], axis=1)
    )
    # No entry of `among` cancels: a cut joins examples of opposite classes, while elimination
    # couples examples of the same class.
    among = among + among.T - reduction[:, :size]
    among = jnp.where(jnp.eye(size, dtype=bool), 0.0, among)
    # A sum of positive terms instead of a difference, so that the rounding error stays relative.
    kept = own.at[cover.places].get(mode="fill", fill_value=1.0) + reduction[:, -1]
    roots = jnp.where(
        cover.places < own.shape[0], lax.rsqrt(kept + reduce.total(jnp.abs(among))), 0.0
    )
    diagonal = jnp.eye(size, dtype=own.dtype) * (1 + 30 * jnp.finfo(own.dtype).eps)
    factor = lax.linalg.cholesky(
        diagonal + roots[:, None] * among * roots[None, :], symmetrize_input=False
    )
    of_cover = sides.at[cover.places].get(mode="fill", fill_value=0.0) - reduction[:, size:-1]
    return roots, factor, solve_triangular(factor, roots[:, None] * of_cover, lower=True)


def _of_columns(margins: Array, left: Array, mixed: Array, of_cuts: Array) -> Array:
    """The matrix [2 n, 2 n] of the columns in margins and in cuts, without the cover's share."""
    of_margins = jnp.concatenate([left[:, None] * margins, mixed], axis=1)
    of_margins = times_transposed(margins, of_margins)
    num_columns = margins.shape[1]
    of_cuts = jnp.concatenate([of_margins[:, num_columns:].T, of_cuts], axis=1)
    return jnp.concatenate([of_margins, of_cuts])


def _factorise_columns(
    instance: RelaxationInstance,
    of: VariableParts,
    outer: Array,
    whole: Array,
    half_solved: Array,
) -> tuple[Array, Array]:
    """The matrix of the columns after the elimination of all slacks.

    Args:
      instance: of m examples and U columns.
      of: the ratios of dual to primal.
      outer: [2 U, 2 U] the share of margins and cuts, without that of the cover.
      whole: [U, U] the share of the cuts before any elimination.
      half_solved: [k, 2 U] the sides of the cover after one triangular solve.

    Returns:
      The scaling [2 U] to a unit diagonal, and the factor [2 U, 2 U] of the scaled matrix, which is
      slightly regularised.
    """
    of_bounds = of.extra + of.room
    of_extra = jnp.diag(of_bounds)
    outer += jnp.block([[of_extra, -of_extra], [-of_extra, of_extra]])
    steepness = jnp.concatenate(
        [
            reduce.total(of.margins[:, None] * instance.margins**2, axis=0) + of.coefficients,
            jnp.diagonal(whole),
        ]
    )
    unit = numerics.inverse_root(steepness + jnp.tile(of_bounds, 2))
    of_coefficients = jnp.concatenate([of.coefficients, jnp.zeros_like(of_bounds)])
    added = of_coefficients * unit**2 + jnp.where(
        jnp.tile(instance.is_column, 2), 30 * jnp.finfo(whole.dtype).eps, 1.0
    )
    outer = outer - times_transposed(half_solved, half_solved)
    top = lax.linalg.cholesky(
        outer * unit[:, None] * unit[None, :] + jnp.diag(added), symmetrize_input=False
    )
    return unit, top


def _make_graph(program: WorkingSetProgram, cover: Cover, ratio: Array) -> tuple[Graph, Array]:
    """The graph, and the sums of ratios of cuts inside the cover, [k, k] lower triangular."""
    num_examples, size = cover.is_in.shape[0], cover.places.shape[0]
    first, second = (cover.slots.at[end].get(mode="fill", fill_value=size) for end in program.cuts)
    inside = jnp.minimum(first, second)
    are_both_in = (first < size) & (second < size)
    other = jnp.where(
        are_both_in,
        num_examples + jnp.maximum(first, second),
        jnp.where(first < size, program.cuts.second, program.cuts.first),
    )
    sums = (
        jnp.zeros((num_examples + size, size), ratio.dtype)
        .at[other, inside]
        .add(ratio, mode="drop")
    )
    return Graph(other, inside, ratio, sums[:num_examples]), sums[num_examples:]


def solve_roughly(system: System, right: Array) -> Array:
    """The approximate solution x [m + 2 U] from the factors alone, for a right-hand side of the
    same shape.
    """
    num_examples, size = system.inverse.shape[0], system.roots.shape[0]
    slacks, columns = right[:num_examples], right[num_examples:]
    own = system.inverse * slacks
    of_cover = (
        slacks.at[system.cover.places].get(mode="fill", fill_value=0.0)
        - system.graph.to_cover(own[:, None])[:, 0]
    )
    begun = solve_triangular(system.factor, system.roots * of_cover, lower=True)
    columns = columns - rmatvec(system.ties, jnp.concatenate([own, begun]))
    columns = cho_solve((system.top, True), system.unit * columns) * system.unit
    of_others, of_cover = _split(matvec(system.ties, columns), [num_examples, size])
    of_cover = system.roots * solve_triangular(system.factor, begun - of_cover, lower=True, trans=1)
    of_others = system.inverse * (
        slacks - of_others - system.graph.from_cover(of_cover[:, None])[:, 0]
    )
    return jnp.concatenate([of_others.at[system.cover.places].set(of_cover, mode="drop"), columns])


def apply(system: System, columns: Array, rows: Array) -> Array:
    """The matrix times x [m + 2 U], with its rows J x [m + K]."""
    program = system.program
    of, is_real = parts_of(program, system.ratio), parts_of(program, program.is_used).slacks
    slacks, coefficients, selected = columns_of(program, columns)
    of_extra = (of.extra + of.room) * (selected - coefficients)
    own = [
        jnp.where(is_real, of.slacks, 1.0) * slacks,
        of.coefficients * coefficients - of_extra,
        of_extra,
    ]
    return jnp.concatenate(own) + priced(program, system.ratio[-rows.shape[0] :] * rows)


class _Refined(NamedTuple):
    """The state of the conjugate gradients."""

    found: Array  # [m + 2 U] solution
    rest: Array  # [m + 2 U] residual
    toward: Array  # [m + 2 U] search direction
    size: Array  # [] squared norm of the residual
    whole: Array  # [] squared norm of the right-hand side
    is_coarse: Array  # [] bool
    count: Array  # [] int32


def solve_refined(system: System, right: Array, most: Array) -> Array:
    """The solution x [m + 2 U] for a right-hand side of the same shape.

    At most `most` [] steps of conjugate gradients, preconditioned by the factors, remove the error
    of the regularisation.
    """
    exact = _EXACT[right.dtype.itemsize] ** 2

    def refine(state: _Refined) -> _Refined:
        preconditioned = solve_roughly(system, state.rest)
        size = reduce.total(state.rest * preconditioned)
        whole = jnp.where(state.count == 0, size, state.whole)
        is_coarse = size > exact * whole
        return loops.cond(
            is_coarse,
            lambda: advanced(state, preconditioned, size, whole),
            lambda: state._replace(is_coarse=is_coarse),
        )

    def advanced(state: _Refined, preconditioned: Array, size: Array, whole: Array) -> _Refined:
        toward = preconditioned + numerics.safe_divide(size, state.size) * state.toward
        applied = apply(system, toward, reached(system.program, toward))
        length = numerics.safe_divide(size, jnp.maximum(reduce.total(toward * applied), 0.0))
        # The length of a single step is close to 1, and its difference to 1 may be rounding.
        length = jnp.where(most == 1, 1.0, length)
        found, rest = state.found + length * toward, state.rest - length * applied
        return _Refined(found, rest, toward, size, whole, jnp.ones((), bool), state.count + 1)

    nothing, size = jnp.zeros_like(right), jnp.full((), jnp.inf, right.dtype)
    first = _Refined(
        nothing, right, nothing, size, size, jnp.ones((), bool), jnp.zeros((), jnp.int32)
    )
    return loops.while_loop(
        lambda state: state.is_coarse & (state.count < most), refine, first
    ).found


def num_rows(program: WorkingSetProgram) -> tuple[int, int]:
    """The numbers of margins and of cuts."""
    return program.instance.margins.shape[0], program.served.shape[0]
