"""An interior point method for the relaxation over a working set of cuts: Mehrotra's predictor and corrector, and further correctors (Gondzio 1996).

With mu = lambda + extra: minimise weights . xi + c . (lambda + extra) s.t. A lambda + (1 + rho) xi - margin = rho, S mu + E xi - cut = 1,
sum lambda = 1, extra + room = 1; lambda, extra, room, xi, margin, cut >= 0. A_iu = y_i H_iu; E has two ones in a row, the ends of a cut, and S is
what serves it.

All variables that are not negative lie in one vector, and their duals in another one of the same order (`Parts`). A direction is found in
x = (xi, lambda, mu), the rest of it follows. Rows are the margins and the cuts, J x = (A lambda + (1 + rho) xi, S mu + E xi).

Work of an iteration: xi is eliminated by way of the graph of the cuts. Examples of which no two share a cut have a diagonal block, so one Cholesky
factor is left of the size of the others, which hold an end of each cut at least: the smaller class would do, and half of it does as a rule. Then
there is one of twice the number of columns. All right-hand sides of an iteration go through one loop: one copy is compiled.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular

from jboost.base import devices, loops, numerics, reduce
from jboost.base.numerics import matvec, rmatvec, times, times_transposed
from jboost.base.types import Array
from jboost.l0 import cuts as pair_cuts
from jboost.l0.types import Cuts, Instance

_TO_BOUNDARY = 0.995
_PROGRESS, _MAX_STALLED = 0.9, 5  # an iteration that leaves more of the error stalls, and so many in a row end the solve
_SHARE = 0.3  # of the tolerance, what the products are left to sum to: far below it rounding spoils the residuals
_WORTH_TWO = 512  # examples of the smaller class, from which a program for fewer to be left is worth its compilation
_FEWER = 9 / 16  # of the smaller class, what that one has room for
_DENSITY = 100  # entries of the graph to an edge, from which a CPU goes along edges faster than it multiplies matrices
_MOST_REFINEMENTS = {4: 8, 8: 3}  # products and solves with the factor for a direction, by the size of a float
_EXACT = {4: 1e-2, 8: 1e-4}  # of a right-hand side, in the norm of the inverse: what a direction may leave of it
_AMBITION = 0.3  # how much longer a step a further corrector aims at
_LONGER = 0.01  # by how much the two steps together are to be longer for a further corrector to count
_UNIT, _PREDICTOR, _CORRECTOR = range(3)  # stages of an iteration
_LEAST_RATE = 1e-30  # at which a part of an iterate falls, so that steps are finite


class Parts(NamedTuple):
    """One number for each of the variables that are not negative, or for their duals, in the order in which they lie in a vector."""

    coefficients: Array  # [..., U] lambda
    extra: Array  # [..., U] mu - lambda
    room: Array  # [..., U] 1 - extra
    slacks: Array  # [..., m] xi
    margins: Array  # [..., m] what a margin has beyond what it needs; its dual is w
    cuts: Array  # [..., K] what a cut has beyond 1; its dual is v


class Point(NamedTuple):
    """An iterate, or changes of it."""

    sides: Array  # [2, n] primal, 1 where unused, and dual, 0 where unused; of changes 0 where unused
    convexity: Array  # [] alpha


class Residuals(NamedTuple):
    """What an iterate misses."""

    duals: Array  # [m + 2 U] of x = (xi, lambda, mu)
    room: Array  # [U]
    rows: Array  # [m + K]
    convexity: Array  # []


class Program(NamedTuple):
    """The linear program over a working set."""

    instance: Instance
    cuts: Cuts
    served: Array  # [K, U] S
    is_used: Array  # [n] bool


class Cover(NamedTuple):
    """Examples among which each cut has an end."""

    is_in: Array  # [m] bool
    places: Array  # [k] int32 which they are; m for padding
    slots: Array  # [m] int32 where they stand among `places`; k for the others


def make_program(instance: Instance, cuts: Cuts, served: Array) -> Program:
    """The program over these cuts, served [K, U] as their rows say."""
    is_real = jnp.arange(instance.weights.shape[0]) < instance.num_real
    columns = (instance.is_column,) * 3
    return Program(instance, cuts, served, jnp.concatenate([*columns, is_real, is_real, pair_cuts.is_used(instance, cuts)]))


def _no_residuals(program: Program) -> Residuals:
    (num_examples, num_columns), num_cuts = program.instance.margins.shape, program.served.shape[0]
    sizes = (num_examples + 2 * num_columns,), (num_columns,), (num_examples + num_cuts,), ()
    duals, room, rows, convexity = (jnp.zeros(size, program.served.dtype) for size in sizes)
    return Residuals(duals, room, rows, convexity)


def parts_of(program: Program, vector: Array) -> Parts:
    """A vector [..., n], part by part."""
    (num_examples, num_columns), num_cuts = program.instance.margins.shape, program.served.shape[0]
    return Parts(*_split(vector, 3 * [num_columns] + 2 * [num_examples] + [num_cuts]))


def _split(vector: Array, sizes: list[int]) -> list[Array]:
    """Pieces of such sizes along the last axis."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [vector[..., end - size : end] for size, end in zip(sizes, ends, strict=True)]


def columns_of(program: Program, vector: Array) -> list[Array]:
    """xi, lambda and mu of a vector [..., m + 2 U]."""
    num_examples, num_columns = program.instance.margins.shape
    return _split(vector, [num_examples, num_columns, num_columns])


def _rows_of(program: Program, vector: Array) -> list[Array]:
    """Margins and cuts of a vector [..., m + K]."""
    return _split(vector, [program.instance.margins.shape[0], program.served.shape[0]])


def reached(program: Program, columns: Array) -> Array:
    """J x [m + K] of a vector [m + 2 U]."""
    slacks, coefficients, selected = columns_of(program, columns)
    margins = matvec(program.instance.margins, coefficients) + (1 + program.instance.margin) * slacks
    return jnp.concatenate([margins, matvec(program.served, selected) + pair_cuts.gather(program.cuts, slacks)])


def priced(program: Program, rows: Array) -> Array:
    """The transpose of J times one vector [m + K] or several [k, m + K]: [m + 2 U] or [k, m + 2 U]."""
    margins, cuts = _rows_of(program, rows)
    slacks = (1 + program.instance.margin) * margins + pair_cuts.scatter(program.cuts, cuts, margins.shape[-1])
    return jnp.concatenate([slacks, rmatvec(program.instance.margins, margins), rmatvec(program.served, cuts)], axis=-1)


def _is_in_cover(program: Program) -> Array:
    """For each cut the end that more cuts share, where that makes fewer than the smaller class, [m] bool."""
    num_examples = program.instance.weights.shape[0]
    degrees = pair_cuts.scatter(program.cuts, jnp.ones(program.cuts.first.shape, jnp.int32), num_examples)
    low, high = jnp.minimum(*program.cuts), jnp.maximum(*program.cuts)
    of_low, of_high = (degrees.at[end].get(mode="fill", fill_value=0) for end in (low, high))
    shared = jnp.zeros((num_examples,), bool).at[jnp.where(of_low >= of_high, low, high)].set(True, mode="drop")
    is_few = jnp.arange(num_examples) < program.instance.num_few
    return jnp.where(reduce.count(shared) <= program.instance.num_few, shared, is_few)


def _cover(is_in: Array, size: int) -> Cover:
    """Those examples, with room for so many, static."""
    slots = jnp.where(is_in, jnp.cumsum(is_in, dtype=jnp.int32) - 1, size)
    places = jnp.full((size,), is_in.shape[0], jnp.int32).at[slots].set(jnp.arange(is_in.shape[0], dtype=jnp.int32), mode="drop")
    return Cover(is_in, places, slots)


class Graph(NamedTuple):
    """The cuts between the cover and the examples outside it, with their ratios."""

    outside: Array  # [K] int32 the example; m or more for a cut without one
    inside: Array  # [K] int32 the slot of the cover; k for an empty slot
    ratio: Array  # [K]
    matrix: Array  # [m, k] their sums

    @property
    def is_sparse(self) -> bool:
        """Whether products go along edges."""
        return devices.platform() == "cpu" and _DENSITY * self.ratio.shape[0] < self.matrix.size

    def to_cover(self, values: Array) -> Array:
        """The transposed matrix times values [m, l]: [k, l]."""
        return self._along_edges(values, self.outside, self.inside, self.matrix.shape[1]) if self.is_sparse else times(self.matrix.T, values)

    def from_cover(self, values: Array) -> Array:
        """The matrix times values [k, l]: [m, l]."""
        return self._along_edges(values, self.inside, self.outside, self.matrix.shape[0]) if self.is_sparse else times(self.matrix, values)

    def _along_edges(self, values: Array, start: Array, end: Array, size: int) -> Array:
        gathered = values.at[start].get(mode="fill", fill_value=0.0) * self.ratio[:, None]
        return jnp.zeros((size, values.shape[1]), values.dtype).at[end].add(gathered, mode="drop")


class System(NamedTuple):
    """What is to be solved for a direction, a matrix in x = (xi, lambda, mu), and the factors of one next to it."""

    program: Program
    ratio: Array  # [n] of dual to primal
    cover: Cover
    graph: Graph
    inverse: Array  # [m] of the diagonal, of the examples that are eliminated; else 0
    roots: Array  # [k] scale of the cover
    factor: Array  # [k, k] Cholesky's of the cover, the other examples eliminated
    ties: Array  # [m + k, 2 U] the columns' rows in the eliminated, and in what is left of the cover
    unit: Array  # [2 U] scale of the columns
    top: Array  # [2 U, 2 U] Cholesky's of the columns, all examples eliminated


def factorise(program: Program, cover: Cover, ratio: Array) -> System:
    """The system for ratios [n] of dual to primal, and its factors."""
    instance, served, of = program.instance, program.served, parts_of(program, ratio)
    is_real = parts_of(program, program.is_used).slacks
    num_columns = served.shape[1]
    eps, size, stiff = jnp.finfo(served.dtype).eps, cover.places.shape[0], 1 + instance.margin
    graded = of.cuts[:, None] * served
    ends = pair_cuts.scatter_rows(program.cuts, jnp.concatenate([graded, of.cuts[:, None]], axis=1), instance.margins.shape[0])
    pulled, degrees = ends[:, :-1], ends[:, -1]
    own = jnp.where(is_real, stiff**2 * of.margins + of.slacks, 1.0)
    inverse = jnp.where(cover.is_in, 0.0, 1 / (own + degrees))
    sides = jnp.concatenate([stiff * of.margins[:, None] * instance.margins, pulled], axis=1)

    graph, among = _make_graph(program, cover, of.cuts)
    swept = graph.to_cover(inverse[:, None] * jnp.concatenate([graph.matrix, sides, own[:, None]], axis=1))
    among = among + among.T - swept[:, :size]  # between two of the cover, the other class's part is of one sign and its own of the other
    among = jnp.where(jnp.eye(size, dtype=bool), 0.0, among)
    kept = own.at[cover.places].get(mode="fill", fill_value=1.0) + swept[:, -1]  # no difference: rounding stays relative
    roots = jnp.where(cover.places < own.shape[0], lax.rsqrt(kept + reduce.total(jnp.abs(among))), 0.0)
    inner = jnp.eye(size, dtype=served.dtype) * (1 + 30 * eps) + roots[:, None] * among * roots[None, :]
    factor = lax.linalg.cholesky(inner, symmetrize_input=False)
    halved = solve_triangular(factor, roots[:, None] * (sides.at[cover.places].get(mode="fill", fill_value=0.0) - swept[:, size:-1]), lower=True)

    bend = of.extra + of.room
    left = of.margins * jnp.where(cover.is_in, 1.0, (degrees + of.slacks) * inverse)  # the rest is gone
    mixed = (-stiff * of.margins * inverse)[:, None] * pulled
    of_margins = jnp.concatenate([left[:, None] * instance.margins, mixed], axis=1)
    of_margins = times_transposed(instance.margins, of_margins)
    whole = times_transposed(served, graded)
    of_cuts = jnp.concatenate([of_margins[:, num_columns:].T, whole - times_transposed(pulled, inverse[:, None] * pulled)], axis=1)
    of_extra = jnp.diag(bend)
    outer = jnp.concatenate([of_margins, of_cuts]) + jnp.block([[of_extra, -of_extra], [-of_extra, of_extra]])
    outer = outer - times_transposed(halved, halved)
    steepness = jnp.concatenate([reduce.total(of.margins[:, None] * instance.margins**2, axis=0) + of.coefficients, jnp.diagonal(whole)])
    unit = numerics.inverse_root(steepness + jnp.tile(bend, 2))
    added = jnp.concatenate([of.coefficients, jnp.zeros_like(bend)]) * unit**2 + jnp.where(jnp.tile(instance.is_column, 2), 30 * eps, 1.0)
    top = lax.linalg.cholesky(outer * unit[:, None] * unit[None, :] + jnp.diag(added), symmetrize_input=False)
    return System(program, ratio, cover, graph, inverse, roots, factor, jnp.concatenate([sides, halved]), unit, top)


def _make_graph(program: Program, cover: Cover, ratio: Array) -> tuple[Graph, Array]:
    """The graph, and the sums [k, k] of cuts with both ends in the cover, below the diagonal."""
    num_examples, size = cover.is_in.shape[0], cover.places.shape[0]
    first, second = (cover.slots.at[end].get(mode="fill", fill_value=size) for end in program.cuts)
    inside = jnp.minimum(first, second)
    are_both_in = (first < size) & (second < size)
    other = jnp.where(are_both_in, num_examples + jnp.maximum(first, second), jnp.where(first < size, program.cuts.second, program.cuts.first))
    sums = jnp.zeros((num_examples + size, size), ratio.dtype).at[other, inside].add(ratio, mode="drop")
    return Graph(other, inside, ratio, sums[:num_examples]), sums[num_examples:]


def solve_roughly(system: System, right: Array) -> Array:
    """The solution x [m + 2 U] by the factors alone, for a right-hand side alike."""
    num_examples, size = system.inverse.shape[0], system.roots.shape[0]
    slacks, columns = right[:num_examples], right[num_examples:]
    own = system.inverse * slacks
    of_cover = slacks.at[system.cover.places].get(mode="fill", fill_value=0.0) - system.graph.to_cover(own[:, None])[:, 0]
    begun = solve_triangular(system.factor, system.roots * of_cover, lower=True)
    columns = columns - rmatvec(system.ties, jnp.concatenate([own, begun]))
    columns = cho_solve((system.top, True), system.unit * columns) * system.unit
    of_others, of_cover = _split(matvec(system.ties, columns), [num_examples, size])
    of_cover = system.roots * solve_triangular(system.factor, begun - of_cover, lower=True, trans=1)
    of_others = system.inverse * (slacks - of_others - system.graph.from_cover(of_cover[:, None])[:, 0])
    return jnp.concatenate([of_others.at[system.cover.places].set(of_cover, mode="drop"), columns])


def apply(system: System, columns: Array, rows: Array) -> Array:
    """The matrix times x [m + 2 U], with its rows J x [m + K]."""
    program = system.program
    of, is_real = parts_of(program, system.ratio), parts_of(program, program.is_used).slacks
    slacks, coefficients, selected = columns_of(program, columns)
    bent = (of.extra + of.room) * (selected - coefficients)
    own = [jnp.where(is_real, of.slacks, 1.0) * slacks, of.coefficients * coefficients - bent, bent]
    return jnp.concatenate(own) + priced(program, system.ratio[-rows.shape[0] :] * rows)


class _Refined(NamedTuple):
    """A solution on its way."""

    found: Array  # [m + 2 U]
    rest: Array  # [m + 2 U] what it misses
    toward: Array  # [m + 2 U]
    size: Array  # [] of the rest, squared
    whole: Array  # [] of the right-hand side
    is_coarse: Array  # [] bool
    count: Array  # [] int32


def solve_refined(system: System, right: Array, most: Array) -> Array:
    """The solution x [m + 2 U] for a right-hand side alike.

    By conjugate gradients, at most so many steps [], preconditioned by the factors: what was added to the diagonals is taken back.
    """
    exact = _EXACT[right.dtype.itemsize] ** 2

    def refine(state: _Refined) -> _Refined:
        bent = solve_roughly(system, state.rest)
        size = reduce.total(state.rest * bent)
        whole = jnp.where(state.count == 0, size, state.whole)
        is_coarse = size > exact * whole
        return loops.cond(is_coarse, lambda: advanced(state, bent, size, whole), lambda: state._replace(is_coarse=is_coarse))

    def advanced(state: _Refined, bent: Array, size: Array, whole: Array) -> _Refined:
        toward = bent + numerics.safe_divide(size, state.size) * state.toward
        applied = apply(system, toward, reached(system.program, toward))
        length = numerics.safe_divide(size, jnp.maximum(reduce.total(toward * applied), 0.0))
        length = jnp.where(most == 1, 1.0, length)  # of one step it is next to 1, and what is computed of it may be rounding
        found, rest = state.found + length * toward, state.rest - length * applied
        return _Refined(found, rest, toward, size, whole, jnp.ones((), bool), state.count + 1)

    nothing, size = jnp.zeros_like(right), jnp.full((), jnp.inf, right.dtype)
    first = _Refined(nothing, right, nothing, size, size, jnp.ones((), bool), jnp.zeros((), jnp.int32))
    return loops.while_loop(lambda state: state.is_coarse & (state.count < most), refine, first).found


def _num_rows(program: Program) -> tuple[int, int]:
    return program.instance.margins.shape[0], program.served.shape[0]


class _Aim(NamedTuple):
    """A direction."""

    targets: Array  # [n] by how much the complementary products are to change
    change: Point
    reach: Array  # [2] the steps at which the first part of either side is 0
    goal: Array  # [] what all products are to be


class _Stage(NamedTuple):
    """Between two right-hand sides of an iteration."""

    unit: Array  # [m + 2 U] x for a unit of alpha
    aim: _Aim
    trial: Point
    missing: Residuals  # of the trial


def _advance(program: Program, cover: Cover, point: Point, least: Array, num_correctors: int) -> tuple[Point, Residuals, Array]:
    """A predictor, a corrector and further ones, to products that sum to `least` at least; the next iterate, what it misses, and its lesser step.

    Stages are the unit of alpha, the predictor, the corrector, and those that aim further. Then `mend` takes back what rounding left of the dual
    residuals at the end of the direction; those of rows are no more than rounding there. The last stage is to look at the next iterate.
    """
    system = factorise(program, cover, point.sides[1] / point.sides[0])
    mend, most = _CORRECTOR + 1 + num_correctors, _MOST_REFINEMENTS[point.sides.dtype.itemsize]
    count = reduce.count(program.is_used, dtype=least.dtype)
    now = reduce.total(point.sides[0] * point.sides[1])

    def stage(number: Array, before: _Stage) -> _Stage:
        aim, is_mending = before.aim, number == mend
        ahead = jnp.where(number < mend, 0.0, jnp.where(is_mending, 1.0, _steps(aim.reach)))
        trial = _moved(point, aim.change, ahead)
        targets = jnp.where(program.is_used & ~is_mending, aim.targets + _pull(point, aim, number), 0.0)
        missing, right = _look(system, point, trial, targets, is_mending)

        def aimed() -> tuple[Array, _Aim]:
            found = solve_refined(system, jnp.where(number == _UNIT, _unit_of_alpha(program), right), jnp.where(is_mending, 1, most))
            unit = jnp.where(number == _UNIT, found, before.unit)
            change = _complete(system, point, missing, targets, unit, found)
            change = jax.tree.map(lambda new, old: jnp.where(is_mending, new + old, new), change, aim.change)
            reach = _reach(program, point, change)
            ahead = _moved(point, change, jnp.minimum(reach, 1.0)).sides
            centring = jnp.clip((reduce.total(ahead[0] * ahead[1]) / now) ** 3, 1e-6, 1.0)
            goal = jnp.minimum(jnp.maximum(centring, least / now), 1.0) * now / count
            is_longer = jnp.sum(jnp.minimum(reach, 1.0)) > jnp.sum(jnp.minimum(aim.reach, 1.0)) + _LONGER
            fresh = _Aim(targets, change, reach, jnp.where(number == _PREDICTOR, goal, aim.goal))
            is_taken = (number > _UNIT) & (is_longer | (number <= _CORRECTOR) | is_mending)
            return unit, loops.cond(is_taken, lambda: fresh, lambda: aim)

        unit, aim = loops.cond(number <= mend, aimed, lambda: (before.unit, aim))
        return _Stage(unit, aim, trial, missing)

    nothing = jax.tree.map(jnp.zeros_like, point)
    first = _Aim(jnp.zeros_like(point.sides[0]), nothing, jnp.zeros((2,), least.dtype), jnp.zeros_like(least))
    last = loops.fori_loop(0, mend + 2, stage, _Stage(jnp.zeros_like(_unit_of_alpha(program)), first, point, _no_residuals(program)))
    return last.trial, last.missing, jnp.min(_steps(last.aim.reach))


def _unit_of_alpha(program: Program) -> Array:
    """The right-hand side [m + 2 U] for it."""
    used = parts_of(program, program.is_used)
    return jnp.concatenate([jnp.zeros_like(used.slacks), used.coefficients, jnp.zeros_like(used.extra)]).astype(program.served.dtype)


def _moved(point: Point, change: Point, steps: Array) -> Point:
    """The point after steps [2], or [] for both sides, along a change."""
    both = jnp.broadcast_to(steps, (2,))
    return Point(point.sides + both[:, None] * change.sides, point.convexity + both[1] * change.convexity)


def _steps(reach: Array) -> Array:
    return jnp.minimum(_TO_BOUNDARY * reach, 1.0)


def _reach(program: Program, point: Point, change: Point) -> Array:
    """The steps [2] at which the first part of either side is 0."""
    sides = jnp.where(program.is_used[None, :], point.sides, 1.0)
    return 1 / jnp.maximum(-reduce.least(change.sides / sides), _LEAST_RATE)


def _pull(point: Point, aim: _Aim, number: Array) -> Array:
    """What takes the complementary products [n] ahead to the goal.

    Further correctors look a longer step ahead than the direction allows, take products to between a tenth of the goal and ten times it only, and
    large ones no further than that at once.
    """
    is_further = number > _CORRECTOR
    ahead = _moved(point, aim.change, jnp.where(is_further, jnp.minimum(aim.reach + _AMBITION, 1.0), 1.0)).sides
    product = ahead[0] * ahead[1]
    low, high = jnp.where(is_further, 0.1 * aim.goal, aim.goal), jnp.where(is_further, 10 * aim.goal, aim.goal)
    pull = jnp.clip(product, low, high) - product
    return jnp.where(is_further, jnp.maximum(pull, -10 * aim.goal), pull)


def _look(system: System, point: Point, trial: Point, targets: Array, is_mending: Array) -> tuple[Residuals, Array]:
    """What a trial point misses, 0 where unused, and the right-hand side [m + 2 U] for the change of products to targets.

    What rows miss is 0 also where it is no more than rounding, which a row near its bound would magnify.
    """
    program, instance = system.program, system.program.instance
    used, num_rows = parts_of(program, program.is_used), sum(_num_rows(program))
    is_used = jnp.concatenate([used.slacks, used.coefficients, used.coefficients])
    primal, dual = (parts_of(program, side) for side in trial.sides)
    columns = jnp.where(is_used, jnp.concatenate([primal.slacks, primal.coefficients, primal.coefficients + primal.extra]), 0.0)
    sides = jnp.concatenate([jnp.full_like(primal.margins, instance.margin), jnp.ones_like(primal.cuts)])
    of_rows = reached(program, columns) - trial.sides[0, -num_rows:] - sides
    of_rows = jnp.where(program.is_used[-num_rows:] & ~is_mending, _beyond_rounding(of_rows), 0.0)
    of_room = jnp.where(used.room & ~is_mending, _beyond_rounding(primal.extra + primal.room - 1), 0.0)

    push, ratio = targets / point.sides[0], parts_of(program, system.ratio)
    both = priced(program, jnp.stack([trial.sides[1, -num_rows:], push[-num_rows:] - system.ratio[-num_rows:] * of_rows]))
    turned = dual.room - dual.extra
    prices = [instance.weights - dual.slacks, -trial.convexity - dual.coefficients - turned, instance.costs + turned]
    of_duals = jnp.where(is_used, jnp.concatenate(prices) - both[0], 0.0)
    pushes = parts_of(program, push)
    to_extra = pushes.extra - pushes.room - ratio.room * of_room
    right = both[1] - of_duals + jnp.concatenate([pushes.slacks, pushes.coefficients - to_extra, to_extra])
    return Residuals(of_duals, of_room, of_rows, jnp.sum(columns_of(program, columns)[1]) - 1), right


def _beyond_rounding(residual: Array) -> Array:
    return jnp.where(jnp.abs(residual) > 16 * jnp.finfo(residual.dtype).eps, residual, 0.0)


def _complete(system: System, point: Point, missing: Residuals, targets: Array, unit: Array, found: Array) -> Point:
    """All parts of a direction, from the solutions [m + 2 U] for a unit of alpha and for the right-hand side."""
    program = system.program
    of_unit, of_found = (jnp.sum(columns_of(program, part)[1]) for part in (unit, found))
    convexity = (-missing.convexity - of_found) / jnp.where(of_unit > 0, of_unit, 1.0)
    columns = found + convexity * unit
    slacks, coefficients, selected = columns_of(program, columns)
    extra = selected - coefficients
    of_rows = reached(program, columns) + missing.rows
    primal = jnp.where(program.is_used, jnp.concatenate([coefficients, extra, -extra - missing.room, slacks, of_rows]), 0.0)
    return Point(jnp.stack([primal, targets / point.sides[0] - system.ratio * primal]), convexity)


class State(NamedTuple):
    """An iterate, and the best so far."""

    point: Point
    best: Point
    error: Array  # [] of the best
    num_iterations: Array  # [] int32
    num_stalled: Array  # [] int32 iterations in a row that brought little
    is_sound: Array  # [] bool


def error_of(program: Program, point: Point, missing: Residuals, scale: Array) -> Array:
    """The complementary products and what the residuals may cost, over a scale of the objective, []."""
    slacks, coefficients, selected = columns_of(program, missing.duals)
    margins, cuts = _rows_of(program, jnp.abs(missing.rows))
    lacks = jnp.concatenate([program.instance.weights * margins, parts_of(program, point.sides[1]).cuts * cuts])
    gap = reduce.total(jnp.concatenate([point.sides[0] * point.sides[1], jnp.abs(slacks), jnp.abs(selected), lacks]))
    return (gap + jnp.max(jnp.abs(coefficients + selected), initial=0.0)) / scale


def solve(program: Program, point: Point, *, scale: Array, tolerance: Array, config: Any) -> tuple[Point, Array, Array]:
    """Iterates until gap and residuals are within the tolerance, which may be infinite for no iteration.

    Returns the best iterate, its error, and the number of iterations.
    """
    is_in = _is_in_cover(program)
    most = pair_cuts.num_few_places(is_in.shape[0])
    fewer = int(_FEWER * most)

    def with_room(size: int, tolerance: Array) -> tuple[Point, Array, Array]:
        return _solve(program, _cover(is_in, size), point, scale, tolerance, config)

    if most < _WORTH_TWO:
        return with_room(most, tolerance)
    return loops.one_of(reduce.count(is_in) <= fewer, tolerance, jnp.inf, functools.partial(with_room, fewer), functools.partial(with_room, most))


def _solve(program: Program, cover: Cover, point: Point, scale: Array, tolerance: Array, config: Any) -> tuple[Point, Array, Array]:
    none = jnp.zeros((), jnp.int32)
    state = State(point, point, jnp.full_like(scale, jnp.inf), none, none, jnp.ones((), bool))

    def step(state: State) -> State:
        point, missing, length = _advance(program, cover, state.point, _SHARE * tolerance * scale, config.num_correctors)
        error = error_of(program, point, missing, scale)
        is_better = error < state.error
        num_stalled = jnp.where(error < _PROGRESS * state.error, 0, state.num_stalled + 1).astype(jnp.int32)
        best = loops.cond(is_better, lambda: point, lambda: state.best)
        is_sound = jnp.isfinite(error) & (length > 0)
        return State(point, best, jnp.where(is_better, error, state.error), state.num_iterations + 1, num_stalled, is_sound)

    def unfinished(state: State) -> Array:
        return (state.error > tolerance) & state.is_sound & (state.num_stalled < _MAX_STALLED)

    last, _ = loops.bounded_loop(step, unfinished, state, max_checks=config.max_iterations)
    return last.best, last.error, last.num_iterations
