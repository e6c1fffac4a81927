"""The directions of the interior point method, and how far to go: Mehrotra's predictor and corrector, and further correctors (Gondzio 1996).

Work of an iteration: the normal matrix K Theta^-1 K' by one product, of the smaller size of A, or of its rows where that loses less; one Cholesky
factor; a solve with two right-hand sides and one for each corrector. Variables without bounds and rows that are equalities are regularised by
proximal terms that leave the solution where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_solve

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.lp.embedding import Embedded, Point, Residuals, backward, forward, sides

_TO_BOUNDARY = 0.995
_AMBITION = 0.3  # how much longer a step a further corrector aims at


class _Care(NamedTuple):
    """What a float type asks for, to lose little to rounding."""

    few_rows: int  # so many are cheap to factor where the columns are fewer still, and lose less
    rows_to_a_column: int  # up to which that is done however many there are
    refinements: int  # of a direction by its rows, for what it misses
    roundings: int  # added to a diagonal of ones, so that it can be factored


_CARE = {  # by bytes
    4: _Care(few_rows=128, rows_to_a_column=2, refinements=2, roundings=4),
    8: _Care(few_rows=32, rows_to_a_column=1, refinements=0, roundings=30),
}


class _Pair(NamedTuple):
    """Parts of k directions."""

    primal: Array  # [n + m, k] dw, 0 where fixed
    dual: Array  # [m, k] dy
    back: Array  # [n + m, k] K'dy


def _factor(program: Embedded, inverse: Array) -> Callable[[Array, Array], _Pair]:
    """Solves Theta dw - K'dy = push [n + m, k], K dw = target [m, k]; Theta^-1 [n + m] is 0 where fixed."""
    num_rows, num_columns = program.matrix.shape
    care = _CARE[inverse.dtype.itemsize]
    by_rows = num_rows <= max(care.rows_to_a_column * num_columns, care.few_rows)
    return _factor_rows(program, inverse, care) if by_rows else _factor_columns(program, inverse, care)


def _factor_rows(program: Embedded, inverse: Array, care: _Care) -> Callable[[Array, Array], _Pair]:
    """By the normal matrix A Theta_x^-1 A' + Theta_s^-1 [m, m].

    Rows that are nearly dependent, as at degenerate vertices, cost it digits: what a direction misses of the target is solved for again.
    """
    matrix, num_columns = program.matrix, program.matrix.shape[1]
    normal = jnp.matmul(matrix * inverse[None, :num_columns], matrix.T, precision=lax.Precision.HIGHEST)
    solve = _factor_normal(normal, inverse[num_columns:], care)

    def directions(push: Array, target: Array) -> _Pair:
        def refine(_: int, dual: Array) -> Array:
            primal = inverse[:, None] * (backward(program, dual) + push)
            return dual + solve(target - forward(program, primal))

        first = solve(target - forward(program, inverse[:, None] * push))
        dual = loops.fori_loop(0, care.refinements, refine, first)
        back = backward(program, dual)
        return _Pair(inverse[:, None] * (back + push), dual, back)

    return directions


def _factor_columns(program: Embedded, inverse: Array, care: _Care) -> Callable[[Array, Array], _Pair]:
    """By the normal matrix 1 + Theta_x^-1/2 A' Theta_s A Theta_x^-1/2 [n, n]; equalities are held by a stiff spring.

    Springs of active rows are stiff, and turn what rounding leaves of a direction into forces: each is solved for once more, for what it misses.
    """
    num_columns = program.matrix.shape[1]
    stiffness = jnp.finfo(inverse.dtype).eps ** 0.5
    weights = (1 / jnp.where(program.is_fixed, stiffness, inverse)[num_columns:])[:, None]
    roots = jnp.sqrt(inverse[:num_columns])[:, None]
    scaled = program.matrix * roots.T
    normal = jnp.matmul(scaled.T, scaled * weights, precision=lax.Precision.HIGHEST)
    solve = _factor_normal(normal, jnp.ones((num_columns,), inverse.dtype), care)
    is_fixed = program.is_fixed[num_columns:, None]
    moves = (inverse > 0)[:, None]
    theta = 1 / jnp.where(moves, inverse[:, None], 1.0)

    def solve_once(push: Array, target: Array) -> _Pair:
        outer = push[num_columns:] + weights * target
        primal = roots * solve(roots * push[:num_columns] + numerics.times_transposed(scaled, outer))
        reached = jnp.matmul(program.matrix, primal, precision=lax.Precision.HIGHEST) - target
        dual = push[num_columns:] - weights * reached
        return _Pair(jnp.concatenate([primal, jnp.where(is_fixed, 0.0, reached)]), dual, backward(program, dual))

    def directions(push: Array, target: Array) -> _Pair:
        first = solve_once(push, target)
        missing = jnp.where(moves, push - theta * first.primal + first.back, 0.0)
        return jax.tree.map(jnp.add, first, solve_once(missing, target - forward(program, first.primal)))

    return directions


def _factor_normal(normal: Array, diagonal: Array, care: _Care) -> Callable[[Array], Array]:
    """Solves (normal + diag(diagonal)) v = r for r [size, k] by Cholesky, on a diagonal of ones with rounding's worth added."""
    rounding = jnp.finfo(normal.dtype).eps
    total = jnp.diagonal(normal) + diagonal
    unit = jnp.where(total > 0, lax.rsqrt(jnp.where(total > 0, total, 1.0)), 1.0)[:, None]
    shift = jnp.where(total > 0, diagonal * unit[:, 0] ** 2 + care.roundings * rounding, 1.0)
    factor = lax.linalg.cholesky(normal * unit * unit.T + jnp.diag(shift), symmetrize_input=False)
    return lambda right: unit * cho_solve((factor, True), unit * right)


class _Inverses(NamedTuple):
    """What complementary parts are divided by, again and again."""

    slack: Array  # [2, n + m]
    multiplier: Array  # [2, n + m] 0 where there is no bound
    scale: Array  # []
    gap_dual: Array  # []


def _invert(program: Embedded, point: Point) -> _Inverses:
    multiplier = jnp.where(program.has_bound, 1 / jnp.where(program.has_bound, point.multiplier, 1.0), 0.0)
    return _Inverses(1 / point.slack, multiplier, 1 / point.scale, 1 / point.gap_dual)


class _Targets(NamedTuple):
    """What the complementary products are to become, less what they are."""

    sides: Array  # [2, n + m] 0 where there is no bound
    gap: Array  # []


class _Newton(NamedTuple):
    """What all directions from one iterate share."""

    solve: Callable[[Array, Array], _Pair]
    slope: Array  # [n + m] sum over the sides of multiplier bound / slack
    unit: _Pair  # for a unit of tau; k left out
    pivot: Array  # []


def _prepare_newton(program: Embedded, point: Point, inverses: _Inverses, residual: Residuals, targets: _Targets) -> tuple[_Newton, _Pair]:
    """The factor, the direction for a unit of tau, and the direction to the targets at a fixed tau, solved beside it."""
    share = program.bound * inverses.slack  # about 1 for a bound that is far, whose square no float may hold
    curvature, slope = (jnp.sum(point.multiplier * part, axis=0) for part in (inverses.slack, share))
    bend = jnp.sum(point.multiplier * share * program.bound, axis=0)
    inverse = jnp.where(program.is_fixed, 0.0, 1 / jnp.maximum(curvature, jnp.finfo(curvature.dtype).eps ** 0.5))
    solve = _factor(program, inverse)
    push, target = _right_hand_side(program, inverses, residual, targets, jnp.ones((), curvature.dtype))
    unit_push = jnp.where(program.is_fixed, 0.0, slope - program.cost)
    both = solve(jnp.stack([unit_push, push], axis=1), jnp.stack([-forward(program, program.level), target], axis=1))
    unit, towards = (_Pair(*(part[:, column] for part in both)) for column in range(2))
    unit = unit._replace(primal=unit.primal + program.level)
    pivot = jnp.sum(_pull(program, slope, unit) - bend) - point.gap_dual * inverses.scale
    return _Newton(solve, slope, unit, pivot), towards


def _right_hand_side(program: Embedded, inverses: _Inverses, residual: Residuals, targets: _Targets, share: Array) -> tuple[Array, Array]:
    push = jnp.sum(sides(targets.sides * inverses.slack), axis=0) - share * residual.dual
    return jnp.where(program.is_fixed, 0.0, push), -share * residual.primal


def _pull(program: Embedded, slope: Array, pair: _Pair) -> Array:
    """What a direction changes the gap by, less what tau does, [n + m]."""
    return program.level * pair.back + jnp.where(program.is_fixed, 0.0, (program.cost + slope) * pair.primal)


def _complete(
    program: Embedded, point: Point, inverses: _Inverses, residual: Residuals, targets: _Targets, share: Array, newton: _Newton, pair: _Pair
) -> Point:
    """All parts of a direction from its parts in w and y at a fixed tau; a `Point` of changes."""
    paid = jnp.sum(sides(program.bound * targets.sides * inverses.slack))
    missing = -share * residual.gap - targets.gap * inverses.scale + paid - jnp.sum(_pull(program, newton.slope, pair))
    scale = missing / newton.pivot
    primal = pair.primal + scale * newton.unit.primal
    slack = jnp.where(program.has_bound, sides(primal[None, :] - program.bound * scale), 0.0)
    return Point(
        primal=primal,
        dual=pair.dual + scale * newton.unit.dual,
        slack=slack,
        multiplier=(targets.sides - point.multiplier * slack) * inverses.slack,
        scale=scale,
        gap_dual=(targets.gap - point.gap_dual * scale) * inverses.scale,
    )


def _longest(inverses: _Inverses, direction: Point) -> Array:
    """The step at which the first complementary part reaches 0; 1e30 where none does."""
    slack, multiplier = jnp.min(direction.slack * inverses.slack), jnp.min(direction.multiplier * inverses.multiplier)
    scale, gap_dual = direction.scale * inverses.scale, direction.gap_dual * inverses.gap_dual
    fastest = jnp.minimum(jnp.minimum(slack, multiplier), jnp.minimum(scale, gap_dual))
    return 1 / jnp.maximum(-fastest, 1e-30)


def advance(program: Embedded, point: Point, residual: Residuals, *, num_correctors: int) -> tuple[Point, Array]:
    """A predictor, a corrector and further ones, from a point and what it misses; returns the next iterate and the length of the step.

    Corrector 0 is Mehrotra's, taken as it is; the others begin at the best so far, and count where they reach further.
    """
    one = jnp.ones((), point.scale.dtype)
    products = _Targets(jnp.where(program.has_bound, point.slack * point.multiplier, 0.0), point.scale * point.gap_dual)
    to_zero = _Targets(-products.sides, -products.gap)
    inverses = _invert(program, point)
    newton, pair = _prepare_newton(program, point, inverses, residual, to_zero)
    affine = _complete(program, point, inverses, residual, to_zero, one, newton, pair)
    left = 1 - jnp.minimum(_longest(inverses, affine), 1.0)
    centring = jnp.clip(left**2 * jnp.minimum(left, 0.1), 1e-6, 1.0)
    goal = centring * (products.gap + jnp.sum(products.sides)) / (1 + jnp.sum(program.has_bound, dtype=one.dtype))

    def aim(targets: _Targets) -> Point:
        push, right = _right_hand_side(program, inverses, residual, targets, 1 - centring)
        solved = newton.solve(push[:, None], right[:, None])
        return _complete(program, point, inverses, residual, targets, 1 - centring, newton, _Pair(*(part[:, 0] for part in solved)))

    corrected = _Targets(
        jnp.where(program.has_bound, goal - products.sides - affine.slack * affine.multiplier, 0.0),
        goal - products.gap - affine.scale * affine.gap_dual,
    )

    def correct(index: Array, best: tuple[_Targets, Point, Array]) -> tuple[_Targets, Point, Array]:
        targets, direction, length = best
        step = jnp.minimum(length + _AMBITION, 1.0)
        ahead = jax.tree.map(lambda value, change: value + step * change, point, direction)
        trial = _Targets(
            targets.sides + jnp.where(program.has_bound, _nearer(ahead.slack * ahead.multiplier, goal), 0.0),
            targets.gap + _nearer(ahead.scale * ahead.gap_dual, goal),
        )
        trial = jax.tree.map(lambda first, further: jnp.where(index == 0, first, further), corrected, trial)
        aimed = aim(trial)
        reach = _longest(inverses, aimed)
        return jax.tree.map(lambda new, old: jnp.where((index == 0) | (reach > 1.01 * length), new, old), (trial, aimed, reach), best)

    begun = (corrected, affine, jnp.zeros_like(one))
    _, direction, length = loops.fori_loop(0, 1 + num_correctors, correct, begun)
    step = jnp.minimum(_TO_BOUNDARY * length, 1.0)
    return _normalised(program, jax.tree.map(lambda value, change: value + step * change, point, direction)), step


def _nearer(product: Array, goal: Array) -> Array:
    """What takes complementary products to between a tenth of the goal and ten times it, and large ones no further than that at once."""
    return jnp.maximum(jnp.clip(product, 0.1 * goal, 10 * goal) - product, -10 * goal)


def _normalised(program: Embedded, point: Point) -> Point:
    """The same ray of the embedding, with the larger of tau and kappa equal to 1, and what a bound is away from w equal to its slack.

    Steps from far away round w and the slacks unlike, and what they differ by grows with tau: near a bound the slack tells where w is, and w tells
    the slack of the other bound.
    """
    size = jnp.maximum(point.scale, point.gap_dual)
    point = jax.tree.map(lambda leaf: leaf / size, point)
    bound = program.bound * point.scale
    distance = jnp.where(program.has_bound, point.slack, jnp.inf)
    least = jnp.min(distance, axis=0)
    is_near = least <= 2 * jnp.abs(point.primal)  # else the bound is far, and to count from there would round w
    is_nearest = distance == least[None, :]
    primal = jnp.where(is_near, jnp.where(is_nearest[0], bound[0] + point.slack[0], bound[1] - point.slack[1]), point.primal)
    slack = jnp.where(is_near[None, :] & ~is_nearest, sides(primal[None, :] - bound), point.slack)
    return point._replace(primal=primal, slack=jnp.where(program.has_bound, slack, 1.0))
