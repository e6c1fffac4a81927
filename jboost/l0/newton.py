"""An interior point method for the relaxation over a working set of cuts: Mehrotra's predictor and corrector, and further correctors (Gondzio 1996).

With mu = lambda + extra: minimise weights . xi + c . (lambda + extra) s.t. A lambda + (1 + rho) xi - margin = rho, S mu + E xi - cut = 1,
sum lambda = 1, extra + room = 1; lambda, extra, room, xi, margin, cut >= 0. A_iu = y_i H_iu; E has two ones in a row, the ends of a cut, and S is
what serves it.

Work of an iteration: xi is eliminated by way of the graph of the cuts. Examples of which no two share a cut have a diagonal block, so one Cholesky
factor is left of the size of the others, which hold an end of each cut at least: the smaller class would do, and half of it does as a rule. Then
there is one of twice the number of columns. Further right-hand sides cost little.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular

from jboost.base import devices, loops, numerics
from jboost.base.numerics import times, times_transposed
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


class Parts(NamedTuple):
    """One number for each of the variables that are not negative, or for their duals."""

    coefficients: Array  # [U] lambda
    extra: Array  # [U] mu - lambda
    room: Array  # [U] 1 - extra
    slacks: Array  # [m] xi
    margins: Array  # [m] what a margin has beyond what it needs; its dual is w
    cuts: Array  # [K] what a cut has beyond 1; its dual is v


class Point(NamedTuple):
    """An iterate."""

    primal: Parts  # 1 where unused
    dual: Parts  # 0 where unused
    convexity: Array  # [] alpha


class Residuals(NamedTuple):
    """What an iterate misses."""

    coefficients: Array  # [U] dual
    extra: Array  # [U] dual
    slacks: Array  # [m] dual
    room: Array  # [U]
    margins: Array  # [m]
    cuts: Array  # [K]
    convexity: Array  # []


class Program(NamedTuple):
    """The linear program over a working set."""

    instance: Instance
    cuts: Cuts
    served: Array  # [K, U] S
    is_used: Parts  # bool


class Cover(NamedTuple):
    """Examples among which each cut has an end."""

    is_in: Array  # [m] bool
    places: Array  # [k] int32 which they are; m for padding
    slots: Array  # [m] int32 where they stand among `places`; k for the others


def _is_in_cover(program: Program) -> Array:
    """For each cut the end that more cuts share, where that makes fewer than the smaller class, [m] bool."""
    num_examples = program.instance.weights.shape[0]
    degrees = pair_cuts.scatter(program.cuts, jnp.ones(program.cuts.first.shape, jnp.int32), num_examples)
    low, high = jnp.minimum(*program.cuts), jnp.maximum(*program.cuts)
    of_low, of_high = (degrees.at[end].get(mode="fill", fill_value=0) for end in (low, high))
    shared = jnp.zeros((num_examples,), bool).at[jnp.where(of_low >= of_high, low, high)].set(True, mode="drop")
    is_few = jnp.arange(num_examples) < program.instance.num_few
    return jnp.where(jnp.sum(shared) <= program.instance.num_few, shared, is_few)


def _cover(is_in: Array, size: int) -> Cover:
    """Those examples, with room for so many, static."""
    slots = jnp.where(is_in, jnp.cumsum(is_in, dtype=jnp.int32) - 1, size)
    places = jnp.full((size,), is_in.shape[0], jnp.int32).at[slots].set(jnp.arange(is_in.shape[0], dtype=jnp.int32), mode="drop")
    return Cover(is_in, places, slots)


def make_program(instance: Instance, cuts: Cuts) -> Program:
    """The program over these cuts."""
    is_real = jnp.arange(instance.weights.shape[0]) < instance.num_real
    columns = (instance.is_column,) * 3
    return Program(instance, cuts, pair_cuts.rows(instance, cuts), Parts(*columns, is_real, is_real, pair_cuts.is_used(instance, cuts)))


def masked(program: Program, primal: Parts, dual: Parts) -> tuple[Parts, Parts]:
    """1 and 0 where unused."""
    fill = [
        jax.tree.map(lambda used, part, value=value: jnp.where(used, part, value), program.is_used, parts)
        for value, parts in ((1.0, primal), (0.0, dual))
    ]
    return fill[0], fill[1]


def residuals(program: Program, point: Point) -> Residuals:
    """All residuals, 0 where unused; those of rows also where they are no more than rounding, which a row near its bound would magnify."""
    instance, used = program.instance, program.is_used
    primal, dual, rho = point.primal, point.dual, instance.margin
    coefficients = jnp.where(used.coefficients, primal.coefficients, 0.0)
    slacks = jnp.where(used.slacks, primal.slacks, 0.0)
    selected = coefficients + jnp.where(used.extra, primal.extra, 0.0)
    reduced = instance.costs - times(dual.cuts, program.served)
    load = (1 + rho) * dual.margins + pair_cuts.scatter(program.cuts, dual.cuts, slacks.shape[0])
    reached = times(instance.margins, coefficients) + (1 + rho) * slacks - rho
    covered = times(program.served, selected) + pair_cuts.gather(program.cuts, slacks) - 1
    return Residuals(
        coefficients=jnp.where(used.coefficients, reduced - times(dual.margins, instance.margins) - point.convexity - dual.coefficients, 0.0),
        extra=jnp.where(used.extra, reduced - dual.extra + dual.room, 0.0),
        slacks=jnp.where(used.slacks, instance.weights - load - dual.slacks, 0.0),
        room=_beyond_rounding(jnp.where(used.room, primal.extra + primal.room - 1, 0.0)),
        margins=_beyond_rounding(jnp.where(used.margins, reached - primal.margins, 0.0)),
        cuts=_beyond_rounding(jnp.where(used.cuts, covered - primal.cuts, 0.0)),
        convexity=jnp.sum(coefficients) - 1,
    )


def _beyond_rounding(residual: Array) -> Array:
    return jnp.where(jnp.abs(residual) > 16 * jnp.finfo(residual.dtype).eps, residual, 0.0)


class _Push(NamedTuple):
    """Right-hand sides of the eliminated system, or its solution: xi, lambda, mu."""

    slacks: Array  # [m, k]
    columns: Array  # [2 U, k]


class _Refined(NamedTuple):
    """A solution on its way."""

    found: _Push
    rest: _Push  # what it misses
    toward: _Push
    size: Array  # [k] of the rest, squared


class _Solver(NamedTuple):
    """From right-hand sides of a system to its solutions."""

    roughly: Callable[[_Push], _Push]  # by the factors alone
    refined: Callable[[_Push], _Push]


def _factor(program: Program, cover: Cover, ratio: Parts) -> _Solver:
    """Solves the system in (xi, lambda, mu) for ratios of dual to primal."""
    instance, served, used = program.instance, program.served, program.is_used
    num_examples = instance.margins.shape[0]
    eps = jnp.finfo(served.dtype).eps
    size = cover.places.shape[0]
    graded = ratio.cuts[:, None] * served
    ends = pair_cuts.scatter(program.cuts, jnp.concatenate([graded, ratio.cuts[:, None]], axis=1), num_examples)
    stiff = 1 + instance.margin
    own = jnp.where(used.slacks, stiff**2 * ratio.margins + ratio.slacks, 1.0)
    diagonal = own + ends[:, -1]
    sides = jnp.concatenate([stiff * ratio.margins[:, None] * instance.margins, ends[:, :-1]], axis=1)  # [m, 2 U]
    inverse = jnp.where(cover.is_in, 0.0, 1 / diagonal)[:, None]  # of those eliminated

    first, second = (cover.slots.at[end].get(mode="fill", fill_value=size) for end in program.cuts)
    inside = jnp.minimum(first, second)  # the slot of a cut's end in the cover
    outside = jnp.where(first < size, jnp.where(second < size, num_examples, program.cuts.second), program.cuts.first)  # the other, if eliminated
    graph = jnp.zeros((num_examples, size), served.dtype).at[outside, inside].add(ratio.cuts, mode="drop")
    is_sparse = devices.platform() == "cpu" and _DENSITY * served.shape[0] < num_examples * size

    def along_edges(values: Array, start: Array, end: Array, size: int) -> Array:
        gathered = values.at[start].get(mode="fill", fill_value=0.0) * ratio.cuts[:, None]
        return jnp.zeros((size, values.shape[1]), values.dtype).at[end].add(gathered, mode="drop")

    def to_cover(values: Array) -> Array:
        """The transposed graph times values [m, k]."""
        return along_edges(values, outside, inside, size) if is_sparse else times_transposed(graph, values)

    def from_cover(values: Array) -> Array:
        """The graph times values of the cover [size, k]."""
        return along_edges(values, inside, outside, num_examples) if is_sparse else times(graph, values)

    among = jnp.zeros((size, size), served.dtype).at[jnp.maximum(first, second), inside].add(ratio.cuts, mode="drop")
    among = among + among.T - to_cover(graph * inverse)  # between two of the cover, the other class's part is of one sign and its own of the other
    among = jnp.where(jnp.eye(size, dtype=bool), 0.0, among)
    kept = own.at[cover.places].get(mode="fill", fill_value=1.0) + to_cover(inverse * own[:, None])[:, 0]  # no difference: rounding stays relative
    roots = jnp.where(cover.places < num_examples, lax.rsqrt(kept + jnp.sum(jnp.abs(among), axis=1)), 0.0)
    inner = jnp.eye(size, dtype=served.dtype) * (1 + 30 * eps) + roots[:, None] * among * roots[None, :]
    factor = lax.linalg.cholesky(inner, symmetrize_input=False)

    def through_factor(slacks: Array) -> Array:
        """The cover's right-hand side after the others are gone."""
        rest = roots[:, None] * (slacks.at[cover.places].get(mode="fill", fill_value=0.0) - to_cover(inverse * slacks))
        return solve_triangular(factor, rest, lower=True)

    halved = through_factor(sides)
    bend = ratio.extra + ratio.room
    pulled, left = ends[:, :-1], jnp.where(cover.is_in, 1.0, (ends[:, -1] + ratio.slacks) * inverse[:, 0])  # of a margin's own part, the rest is gone
    steep = times_transposed(instance.margins, (ratio.margins * left)[:, None] * instance.margins)
    mixed = times_transposed(instance.margins, (-stiff * ratio.margins * inverse[:, 0])[:, None] * pulled)
    gram = times_transposed(served, graded) - times_transposed(pulled, inverse * pulled)
    outer = jnp.block([[steep + jnp.diag(ratio.coefficients + bend), mixed - jnp.diag(bend)], [mixed.T - jnp.diag(bend), gram + jnp.diag(bend)]])
    outer = outer - times_transposed(halved, halved)
    steepness = jnp.concatenate([times(ratio.margins, instance.margins**2) + ratio.coefficients, times(ratio.cuts, served)]) + jnp.tile(bend, 2)
    unit = jnp.where(steepness > 0, lax.rsqrt(jnp.where(steepness > 0, steepness, 1.0)), 1.0)
    shift = jnp.where(jnp.concatenate([used.coefficients, used.coefficients]), 30 * eps, 1.0)
    top = lax.linalg.cholesky(outer * unit[:, None] * unit[None, :] + jnp.diag(shift), symmetrize_input=False)

    def backsolve(push: _Push) -> _Push:
        begun = through_factor(push.slacks)
        right = push.columns - times_transposed(sides, inverse * push.slacks) - times_transposed(halved, begun)
        columns = unit[:, None] * cho_solve((top, True), unit[:, None] * right)
        of_cover = roots[:, None] * solve_triangular(factor, begun - times(halved, columns), lower=True, trans=1)
        of_others = inverse * (push.slacks - times(sides, columns) - from_cover(of_cover))
        return _Push(of_others.at[cover.places].set(of_cover, mode="drop"), columns)

    def apply(found: _Push) -> _Push:
        coefficients, selected = jnp.split(found.columns, 2)
        of_margins = ratio.margins[:, None] * (times(instance.margins, coefficients) + stiff * found.slacks)
        of_cuts = ratio.cuts[:, None] * (times(served, selected) + pair_cuts.gather(program.cuts, found.slacks))
        of_slacks = jnp.where(used.slacks, ratio.slacks, 1.0)[:, None] * found.slacks
        of_slacks = of_slacks + stiff * of_margins + pair_cuts.scatter(program.cuts, of_cuts, num_examples)
        bent = bend[:, None] * (selected - coefficients)
        of_coefficients = times_transposed(instance.margins, of_margins) + ratio.coefficients[:, None] * coefficients - bent
        return _Push(of_slacks, jnp.concatenate([of_coefficients, times_transposed(served, of_cuts) + bent]))

    def refined(push: _Push) -> _Push:
        """By conjugate gradients, preconditioned by the factor: what was added to the diagonals is taken back."""
        bent = backsolve(push)
        whole = _dot(push, bent)

        def refine(state: _Refined) -> _Refined:
            reached = apply(state.toward)
            length = numerics.safe_divide(state.size, jnp.maximum(_dot(state.toward, reached), 0.0))[None, :]
            found = jax.tree.map(lambda value, change: value + length * change, state.found, state.toward)
            rest = jax.tree.map(lambda value, change: value - length * change, state.rest, reached)
            bent = backsolve(rest)
            size = _dot(rest, bent)
            turn = numerics.safe_divide(size, state.size)[None, :]
            return _Refined(found, rest, jax.tree.map(lambda value, old: value + turn * old, bent, state.toward), size)

        def is_coarse(state: _Refined) -> Array:
            return jnp.any(state.size > _EXACT[eps.dtype.itemsize] ** 2 * whole)

        first = _Refined(jax.tree.map(jnp.zeros_like, push), push, bent, whole)
        return loops.bounded_loop(refine, is_coarse, first, max_checks=_MOST_REFINEMENTS[eps.dtype.itemsize])[0].found

    return _Solver(backsolve, refined)


def _dot(left: _Push, right: _Push) -> Array:
    return sum(jnp.sum(one * other, axis=0) for one, other in zip(left, right, strict=True))


class _Newton(NamedTuple):
    """What all directions from an iterate share."""

    solver: _Solver
    ratio: Parts
    inverse: Parts  # of the primal
    dual_inverse: Parts  # 0 where unused
    unit: _Push  # for a unit of alpha, k = 1


def _right(program: Program, newton_inverse: Parts, ratio: Parts, missing: Residuals, targets: Parts) -> _Push:
    push = jax.tree.map(lambda target, inverse: target * inverse, targets, newton_inverse)
    of_margins = push.margins - ratio.margins * missing.margins
    of_cuts = push.cuts - ratio.cuts * missing.cuts
    through = times(of_cuts, program.served)
    of_coefficients = -missing.coefficients + times(of_margins, program.instance.margins) + through + push.coefficients
    of_extra = -missing.extra + through + push.extra - push.room - ratio.room * missing.room
    of_slacks = (
        -missing.slacks + (1 + program.instance.margin) * of_margins + pair_cuts.scatter(program.cuts, of_cuts, missing.slacks.shape[0]) + push.slacks
    )
    return _Push(of_slacks[:, None], jnp.concatenate([of_coefficients - of_extra, of_extra])[:, None])


def _complete(program: Program, newton: _Newton, missing: Residuals, targets: Parts, solved: _Push) -> Point:
    """All parts of a direction; a `Point` of changes."""
    used, instance = program.is_used, program.instance
    num_columns = instance.costs.shape[0]
    pull = jnp.sum(newton.unit.columns[:num_columns, 0])
    convexity = (-missing.convexity - jnp.sum(solved.columns[:num_columns, 0])) / jnp.where(pull > 0, pull, 1.0)
    slacks = jnp.where(used.slacks, (solved.slacks + convexity * newton.unit.slacks)[:, 0], 0.0)
    columns = (solved.columns + convexity * newton.unit.columns)[:, 0]
    coefficients, selected = (jnp.where(used.coefficients, part, 0.0) for part in (columns[:num_columns], columns[num_columns:]))
    extra = selected - coefficients
    reached = times(instance.margins, coefficients) + (1 + instance.margin) * slacks
    covered = times(program.served, selected) + pair_cuts.gather(program.cuts, slacks)
    primal = Parts(
        coefficients,
        extra,
        jnp.where(used.room, -extra - missing.room, 0.0),
        slacks,
        jnp.where(used.margins, reached + missing.margins, 0.0),
        jnp.where(used.cuts, covered + missing.cuts, 0.0),
    )
    dual = jax.tree.map(lambda target, inverse, ratio, change: target * inverse - ratio * change, targets, newton.inverse, newton.ratio, primal)
    return Point(primal, dual, convexity)


def _mended(program: Program, newton: _Newton, point: Point, direction: Point) -> Point:
    """The direction, with what rounding left of the dual residuals at its end taken back; those of rows are no more than rounding there."""
    left = residuals(program, jax.tree.map(jnp.add, point, direction))
    left = left._replace(**{row: jnp.zeros_like(getattr(left, row)) for row in ("room", "margins", "cuts")})
    nothing = jax.tree.map(jnp.zeros_like, newton.inverse)
    found = newton.solver.roughly(_right(program, newton.inverse, newton.ratio, left, nothing))
    return jax.tree.map(jnp.add, direction, _complete(program, newton, left, nothing, found))


def _longest(inverse: Parts, change: Parts) -> Array:
    """The step at which the first part reaches 0; 1e30 where none does."""
    fastest = jax.tree.map(lambda one, other: jnp.min(one * other, initial=0.0), inverse, change)
    return 1 / jnp.maximum(-jnp.min(jnp.stack(jax.tree.leaves(fastest))), 1e-30)


def _advance(program: Program, cover: Cover, point: Point, missing: Residuals, least: Array, num_correctors: int) -> tuple[Point, Array]:
    """A predictor, a corrector and further ones, to products that sum to `least` at least; the next iterate and the shorter of its steps."""
    one = jnp.ones((), point.convexity.dtype)
    products = jax.tree.map(jnp.multiply, point.primal, point.dual)
    inverse = jax.tree.map(lambda part: 1 / part, point.primal)
    ratio = jax.tree.map(jnp.multiply, point.dual, inverse)
    dual_inverse = jax.tree.map(lambda used, part: jnp.where(used, 1 / jnp.where(used, part, 1.0), 0.0), program.is_used, point.dual)
    solver = _factor(program, cover, ratio)
    num_columns = program.instance.costs.shape[0]
    ones = jnp.concatenate([program.is_used.coefficients, jnp.zeros((num_columns,), bool)]).astype(one.dtype)[:, None]
    to_zero = jax.tree.map(jnp.negative, products)
    first = _right(program, inverse, ratio, missing, to_zero)
    unit_push = _Push(jnp.zeros_like(first.slacks), ones)
    both = solver.refined(jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), unit_push, first))
    newton = _Newton(solver, ratio, inverse, dual_inverse, jax.tree.map(lambda part: part[:, :1], both))
    affine = _complete(program, newton, missing, to_zero, jax.tree.map(lambda part: part[:, 1:], both))

    def lengths(change: Point) -> tuple[Array, Array]:
        return _longest(inverse, change.primal), _longest(dual_inverse, change.dual)

    def total(parts: Parts) -> Array:
        return sum(jnp.sum(part) for part in parts)

    count = total(jax.tree.map(lambda used: used.astype(one.dtype), program.is_used))
    reach = [jnp.minimum(length, 1.0) for length in lengths(affine)]
    ahead = jax.tree.map(
        lambda value, change, dual, other: (value + reach[0] * change) * (dual + reach[1] * other),
        point.primal,
        affine.primal,
        point.dual,
        affine.dual,
    )
    now = total(products)
    centring = jnp.clip((total(ahead) / now) ** 3, 1e-6, 1.0)
    centring = jnp.minimum(jnp.maximum(centring, least / now), 1.0)
    goal = centring * now / count

    def aim(targets: Parts) -> Point:
        solved = newton.solver.refined(_right(program, inverse, ratio, missing, targets))
        return _complete(program, newton, missing, targets, solved)

    def used_only(parts: Parts) -> Parts:
        return jax.tree.map(lambda used, part: jnp.where(used, part, 0.0), program.is_used, parts)

    def correct(number: Array, best: tuple[Parts, Point, tuple[Array, Array]]) -> tuple[Parts, Point, tuple[Array, Array]]:
        """The first of these is the corrector itself; the others aim further, and count where that is longer."""
        targets, direction, reached = best
        steps = [jnp.minimum(length + _AMBITION, 1.0) for length in reached]
        trial = jax.tree.map(
            lambda target, value, change, dual, other: target + _nearer((value + steps[0] * change) * (dual + steps[1] * other), goal),
            targets, point.primal, direction.primal, point.dual, direction.dual,
        )  # fmt: skip
        trial = jax.tree.map(lambda first, further: jnp.where(number == 0, first, further), targets, used_only(trial))
        aimed = aim(trial)
        reach = lengths(aimed)
        is_better = jnp.minimum(reach[0], 1.0) + jnp.minimum(reach[1], 1.0) > jnp.minimum(reached[0], 1.0) + jnp.minimum(reached[1], 1.0) + 0.01
        return jax.tree.map(lambda new, old: jnp.where(is_better, new, old), (trial, aimed, reach), best)

    corrected = used_only(jax.tree.map(lambda product, change, other: goal - product - change * other, products, affine.primal, affine.dual))
    _, direction, _ = loops.fori_loop(0, 1 + num_correctors, correct, (corrected, jax.tree.map(jnp.zeros_like, affine), (-one, -one)))
    direction = _mended(program, newton, point, direction)
    steps = [jnp.minimum(_TO_BOUNDARY * length, 1.0) for length in lengths(direction)]
    primal = jax.tree.map(lambda value, change: value + steps[0] * change, point.primal, direction.primal)
    dual = jax.tree.map(lambda value, change: value + steps[1] * change, point.dual, direction.dual)
    return Point(primal, dual, point.convexity + steps[1] * direction.convexity), jnp.minimum(*steps)


def _nearer(product: Array, goal: Array) -> Array:
    """What takes complementary products to between a tenth of the goal and ten times it, and large ones no further than that at once."""
    return jnp.maximum(jnp.clip(product, 0.1 * goal, 10 * goal) - product, -10 * goal)


class State(NamedTuple):
    """An iterate, and the best so far."""

    point: Point
    missing: Residuals
    best: Point
    error: Array  # [] of the best
    num_iterations: Array  # [] int32
    num_stalled: Array  # [] int32 iterations in a row that brought little
    is_sound: Array  # [] bool


def error_of(program: Program, point: Point, missing: Residuals, scale: Array) -> Array:
    """The complementary products and what the residuals may cost, over a scale of the objective, []."""
    products = jax.tree.map(lambda one, other: jnp.sum(one * other), point.primal, point.dual)
    gap = sum(products)
    instance = program.instance
    paid = jnp.sum(jnp.abs(missing.slacks)) + jnp.max(jnp.abs(missing.coefficients), initial=0.0) + jnp.sum(jnp.abs(missing.extra))
    lacks = jnp.sum(instance.weights * jnp.abs(missing.margins)) + jnp.sum(point.dual.cuts * jnp.abs(missing.cuts))
    return (gap + paid + lacks) / scale


def solve(program: Program, point: Point, *, scale: Array, tolerance: Array, config: Any) -> tuple[Point, Array, Array]:
    """Iterates until gap and residuals are within the tolerance; returns the best iterate, its error, and the number of iterations."""
    is_in = _is_in_cover(program)
    most = pair_cuts.num_few_places(is_in.shape[0])
    fewer = int(_FEWER * most)

    def with_room(size: int, tolerance: Array) -> tuple[Point, Array, Array]:
        return _solve(program, _cover(is_in, size), point, scale, tolerance, config)

    if most < _WORTH_TWO:
        return with_room(most, tolerance)
    return loops.one_of(jnp.sum(is_in) <= fewer, tolerance, jnp.inf, functools.partial(with_room, fewer), functools.partial(with_room, most))


def _solve(program: Program, cover: Cover, point: Point, scale: Array, tolerance: Array, config: Any) -> tuple[Point, Array, Array]:
    missing = residuals(program, point)
    none = jnp.zeros((), jnp.int32)
    state = State(point, missing, point, error_of(program, point, missing, scale), none, none, jnp.ones((), bool))

    def step(state: State) -> State:
        point, length = _advance(program, cover, state.point, state.missing, _SHARE * tolerance * scale, config.num_correctors)
        missing = residuals(program, point)
        error = error_of(program, point, missing, scale)
        is_better = error < state.error
        num_stalled = jnp.where(error < _PROGRESS * state.error, 0, state.num_stalled + 1).astype(jnp.int32)
        best = jax.tree.map(lambda fresh, old: jnp.where(is_better, fresh, old), point, state.best)
        is_sound = jnp.isfinite(error) & (length > 0)
        return State(point, missing, best, jnp.where(is_better, error, state.error), state.num_iterations + 1, num_stalled, is_sound)

    def unfinished(state: State) -> Array:
        return (state.error > tolerance) & state.is_sound & (state.num_stalled < _MAX_STALLED)

    last, _ = loops.bounded_loop(step, unfinished, state, max_checks=config.max_iterations)
    return last.best, last.error, last.num_iterations
