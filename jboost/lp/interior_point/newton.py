"""The directions and the step lengths of the interior point method: Mehrotra's predictor and
corrector, and further correctors (Gondzio 1996).

An iteration computes the normal matrix K Theta^-1 K' by one product and factorises it by Cholesky.
The matrix has the smaller dimension of A, or the number of rows if that is more accurate. Then it
solves for a unit of tau, for the predictor, and for each corrector. All solves are iterations of
one loop, so that the body is compiled once. Variables without bounds and equality rows are
regularised by proximal terms, which do not change the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import cholesky, loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.interior_point.embedding import (
    Embedded,
    EmbeddingImages,
    EmbeddingPoint,
    EmbeddingResiduals,
    backward,
    forward,
    residuals,
    sides,
)

_TO_BOUNDARY = 0.995  # a step goes this share of the way to the boundary
_AMBITION = 0.3  # the increase of the step length that a further corrector aims at
# The first iterations of the loop of solves. All later ones are further correctors.
_UNIT, _PREDICTOR, _CORRECTOR = 0, 1, 2


class _Care(NamedTuple):
    """Settings that keep the rounding error of a float type small."""

    # The matrix of the rows is factorised instead of that of the columns, as its rounding error is
    # smaller, if there are at most this many rows,
    few_rows: int
    rows_to_a_column: int  # or at most this many rows for each column.
    refinements: int  # steps of iterative refinement of a direction
    roundings: int  # rounding errors added to the unit diagonal before the factorisation


_CARE = {  # by bytes
    4: _Care(few_rows=128, rows_to_a_column=2, refinements=2, roundings=4),
    8: _Care(few_rows=32, rows_to_a_column=1, refinements=0, roundings=30),
}


class _Pair(NamedTuple):
    """The primal and the dual part of a direction."""

    primal: Array  # [n + m] dw, 0 where fixed
    dual: Array  # [m] dy
    back: Array  # [n + m] K'dy


def _factor(program: Embedded, inverse: Array) -> Callable[[Array, Array], _Pair]:
    """Solves Theta dw - K'dy = push [n + m], K dw = target [m]; Theta^-1 [n + m] is 0
    where fixed.
    """
    num_rows, num_columns = program.matrix.shape
    care = _CARE[inverse.dtype.itemsize]
    by_rows = num_rows <= max(care.rows_to_a_column * num_columns, care.few_rows)
    return (
        _factor_rows(program, inverse, care) if by_rows else _factor_columns(program, inverse, care)
    )


def _factor_rows(program: Embedded, inverse: Array, care: _Care) -> Callable[[Array, Array], _Pair]:
    """Solves by the normal matrix A Theta_x^-1 A' + Theta_s^-1 [m, m].

    Nearly dependent rows, as at degenerate vertices, make the matrix ill-conditioned. Therefore the
    direction is refined: the residual is solved for again.
    """
    matrix, num_columns = program.matrix, program.matrix.shape[1]
    normal = jnp.matmul(
        matrix * inverse[None, :num_columns], matrix.T, precision=lax.Precision.HIGHEST
    )
    solve = _factor_normal(normal, inverse[num_columns:], care)

    def directions(push: Array, target: Array) -> _Pair:
        def refine(_: int, found: tuple[Array, Array]) -> tuple[Array, Array]:
            dual, back = found
            dual = dual + solve(target - forward(program, inverse * (back + push)))
            return dual, backward(program, dual)

        begun = (jnp.zeros_like(target), jnp.zeros_like(push))
        dual, back = loops.fori_loop(0, 1 + care.refinements, refine, begun)
        return _Pair(inverse * (back + push), dual, back)

    return directions


def _factor_columns(
    program: Embedded, inverse: Array, care: _Care
) -> Callable[[Array, Array], _Pair]:
    """Solves by the normal matrix 1 + Theta_x^-1/2 A' Theta_s A Theta_x^-1/2 [n, n].

    Equality rows get a large finite weight. The weights of active rows are large too, and amplify
    the rounding error of a direction. Therefore each direction is refined once.
    """
    num_columns = program.matrix.shape[1]
    stiffness = jnp.finfo(inverse.dtype).eps ** 0.5
    weights = 1 / jnp.where(program.is_fixed, stiffness, inverse)[num_columns:]
    roots = jnp.sqrt(inverse[:num_columns])
    scaled = program.matrix * roots[None, :]
    normal = jnp.matmul(scaled.T, scaled * weights[:, None], precision=lax.Precision.HIGHEST)
    solve = _factor_normal(normal, jnp.ones((num_columns,), inverse.dtype), care)
    is_fixed, moves = program.is_fixed[num_columns:], inverse > 0
    theta = 1 / jnp.where(moves, inverse, 1.0)

    def directions(push: Array, target: Array) -> _Pair:
        def solve_for_missing(_: int, so_far: tuple[_Pair, Array]) -> tuple[_Pair, Array]:
            pair, missing = so_far
            pull = jnp.where(moves, push - theta * pair.primal + pair.back, 0.0)
            outer = pull[num_columns:] + weights * missing
            primal = roots * solve(
                roots * pull[:num_columns] + numerics.times_transposed(scaled, outer)
            )
            reached = jnp.matmul(program.matrix, primal, precision=lax.Precision.HIGHEST) - missing
            dual = pull[num_columns:] - weights * reached
            slack = jnp.where(is_fixed, 0.0, reached)
            found = _Pair(jnp.concatenate([primal, slack]), dual, backward(program, dual))
            return jax.tree.map(jnp.add, pair, found), slack - reached

        begun = _Pair(jnp.zeros_like(push), jnp.zeros_like(target), jnp.zeros_like(push))
        return loops.fori_loop(0, 2, solve_for_missing, (begun, target))[0]

    return directions


def _factor_normal(normal: Array, diagonal: Array, care: _Care) -> Callable[[Array], Array]:
    """Solves (normal + diag(diagonal)) v = r for r [size] by Cholesky. The matrix is scaled to a
    diagonal of ones, and a few rounding units are added to it.
    """
    rounding = jnp.finfo(normal.dtype).eps
    total = cholesky.diagonal(normal) + diagonal
    unit = jnp.where(total > 0, lax.rsqrt(jnp.where(total > 0, total, 1.0)), 1.0)
    shift = jnp.where(total > 0, diagonal * unit**2 + care.roundings * rounding, 1.0)
    lower = cholesky.factor(normal * unit[:, None] * unit[None, :] + cholesky.on_diagonal(shift))
    return lambda right: unit * cholesky.solve(lower, unit * right)


class _EmbeddingTargets(NamedTuple):
    """The required changes of the complementary products."""

    sides: Array  # [2, n + m] 0 where there is no bound
    gap: Array  # []


class _Iterate(NamedTuple):
    """The data that all directions from one iterate share."""

    program: Embedded
    point: EmbeddingPoint
    image: EmbeddingImages
    residual: EmbeddingResiduals
    level_image: Array  # [m]
    slope: Array  # [n + m] sum over the sides of multiplier bound / slack
    solve: Callable[[Array, Array], _Pair]


class _EmbeddingDirections(NamedTuple):
    """The directions found so far."""

    unit: _Pair  # the direction for a unit of tau
    pivot: Array  # []
    targets: _EmbeddingTargets  # of the best direction
    direction: EmbeddingPoint  # the best: the changes of all parts
    length: Array  # [] the step at which the first complementary part would reach 0
    centring: Array  # [] share of the mean product that correctors aim at; 0 before them


def _prepare(
    program: Embedded, point: EmbeddingPoint, image: EmbeddingImages, level_image: Array
) -> _Iterate:
    pressure = point.multiplier / point.slack
    curvature, slope = (
        jnp.sum(pressure, axis=0),
        jnp.sum(_by_slack(program, point, point.multiplier), axis=0),
    )
    inverse = jnp.where(
        program.is_fixed, 0.0, 1 / jnp.maximum(curvature, jnp.finfo(curvature.dtype).eps ** 0.5)
    )
    return _Iterate(
        program,
        point,
        image,
        residuals(program, point, image),
        level_image,
        slope,
        _factor(program, inverse),
    )


def _by_slack(program: Embedded, point: EmbeddingPoint, values: Array) -> Array:
    """values [2, n + m] * bound / slack, computed without overflow for a distant bound. Its
    quotient is about 1, but its square may exceed the range of floats.
    """
    return values * (program.bound / point.slack)


def _right_hand_side(
    now: _Iterate, turn: Array, targets: _EmbeddingTargets, share: Array
) -> tuple[Array, Array]:
    """The right-hand sides push [n + m] and target [m]: for a unit of tau, or at a fixed tau for
    the targets and a share of the residuals.
    """
    push = jnp.sum(sides(targets.sides / now.point.slack), axis=0) - share * now.residual.dual
    push = jnp.where(turn == _UNIT, now.slope - now.program.cost, push)
    target = jnp.where(turn == _UNIT, -now.level_image, -share * now.image.rows)
    return jnp.where(now.program.is_fixed, 0.0, push), target


def _gap_slope(now: _Iterate, pair: _Pair) -> Array:
    """The terms [n + m] of the change of the gap by a direction, without the change by tau."""
    program = now.program
    return program.level * pair.back + jnp.where(
        program.is_fixed, 0.0, (program.cost + now.slope) * pair.primal
    )


def _take_unit(now: _Iterate, search: _EmbeddingDirections, pair: _Pair) -> _EmbeddingDirections:
    program, point = now.program, now.point
    unit = pair._replace(primal=pair.primal + program.level)
    bend = jnp.sum(_by_slack(program, point, point.multiplier) * program.bound, axis=0)
    return search._replace(
        unit=unit, pivot=reduce.total(_gap_slope(now, unit) - bend) - point.gap_dual / point.scale
    )


def _complete(
    now: _Iterate,
    search: _EmbeddingDirections,
    pair: _Pair,
    targets: _EmbeddingTargets,
    share: Array,
) -> EmbeddingPoint:
    """All parts of a direction, as an `EmbeddingPoint` of changes, from its parts in w and y at a
    fixed tau.
    """
    program, point = now.program, now.point
    paid = jnp.sum(sides(_by_slack(program, point, targets.sides)), axis=0)
    missing = (
        reduce.total(paid - _gap_slope(now, pair))
        - share * now.residual.gap
        - targets.gap / point.scale
    )
    scale = missing / search.pivot
    primal = pair.primal + scale * search.unit.primal
    slack = jnp.where(program.has_bound, sides(primal[None, :] - program.bound * scale), 0.0)
    return EmbeddingPoint(
        primal=primal,
        dual=pair.dual + scale * search.unit.dual,
        slack=slack,
        multiplier=(targets.sides - point.multiplier * slack) / point.slack,
        scale=scale,
        gap_dual=(targets.gap - point.gap_dual * scale) / point.scale,
    )


def _longest(program: Embedded, point: EmbeddingPoint, direction: EmbeddingPoint) -> Array:
    """The step length at which the first slack, multiplier, tau or kappa reaches 0; 1e30 if none
    does.
    """
    shrinking = direction.multiplier / jnp.where(program.has_bound, point.multiplier, 1.0)
    parts = jnp.minimum(direction.slack / point.slack, jnp.where(program.has_bound, shrinking, 0.0))
    fastest = jnp.minimum(direction.scale / point.scale, direction.gap_dual / point.gap_dual)
    return 1 / jnp.maximum(-jnp.minimum(reduce.least(parts, axis=(0, 1)), fastest), 1e-30)


def advance(
    program: Embedded,
    point: EmbeddingPoint,
    image: EmbeddingImages,
    level_image: Array,
    *,
    num_correctors: int,
) -> tuple[EmbeddingPoint, Array]:
    """One iteration of predictor and correctors: the next iterate, and the length of the step.

    The first corrector is Mehrotra's and is always taken. Each further corrector starts from the
    best direction so far and is taken if its step is longer.
    """
    now = _prepare(program, point, image, level_image)

    def solve(turn: Array, search: _EmbeddingDirections) -> _EmbeddingDirections:
        targets, share = _next_targets(now, search, turn), 1 - search.centring
        pair = now.solve(*_right_hand_side(now, turn, targets, share))
        return loops.cond(
            turn == _UNIT,
            lambda: _take_unit(now, search, pair),
            lambda: _take(now, search, turn, pair, targets, share),
        )

    search = loops.fori_loop(0, _CORRECTOR + 1 + num_correctors, solve, _begin(point, image))
    step = jnp.minimum(_TO_BOUNDARY * search.length, 1.0)
    return _normalised(
        program, jax.tree.map(lambda value, change: value + step * change, point, search.direction)
    ), step


def _begin(point: EmbeddingPoint, image: EmbeddingImages) -> _EmbeddingDirections:
    nothing: EmbeddingPoint = jax.tree.map(jnp.zeros_like, point)
    none, parts = jnp.zeros_like(point.scale), jnp.zeros_like(image.columns)
    return _EmbeddingDirections(
        _Pair(parts, nothing.dual, parts),
        none,
        _EmbeddingTargets(nothing.slack, none),
        nothing,
        none,
        none,
    )


def _next_targets(now: _Iterate, search: _EmbeddingDirections, turn: Array) -> _EmbeddingTargets:
    """The targets of the next direction.

    The predictor aims at products of 0. Mehrotra's corrector aims at the centre and subtracts the
    second-order term of the predictor. Further correctors move products that would be far from the
    goal closer to it (Gondzio 1996).
    """
    point, direction, goal = (
        now.point,
        search.direction,
        search.centring * now.residual.mean_product,
    )
    step = jnp.minimum(search.length + _AMBITION, 1.0)

    def aim(so_far: Array, parts: tuple[Array, Array], changes: tuple[Array, Array]) -> Array:
        product = parts[0] * parts[1]
        ahead = (parts[0] + step * changes[0]) * (parts[1] + step * changes[1])
        corrected = goal - product - changes[0] * changes[1]
        # the correction of large products is limited
        further = so_far + jnp.maximum(jnp.clip(ahead, 0.1 * goal, 10 * goal) - ahead, -10 * goal)
        return jnp.where(turn <= _CORRECTOR, corrected, further)

    sides = aim(
        search.targets.sides,
        (point.slack, point.multiplier),
        (direction.slack, direction.multiplier),
    )
    gap = aim(
        search.targets.gap, (point.scale, point.gap_dual), (direction.scale, direction.gap_dual)
    )
    return _EmbeddingTargets(jnp.where(now.program.has_bound, sides, 0.0), gap)


def _take(
    now: _Iterate,
    search: _EmbeddingDirections,
    turn: Array,
    pair: _Pair,
    targets: _EmbeddingTargets,
    share: Array,
) -> _EmbeddingDirections:
    """The search, with the direction to these targets if its step is longer."""
    direction = _complete(now, search, pair, targets, share)
    length = _longest(now.program, now.point, direction)
    left = 1 - jnp.minimum(length, 1.0)
    centring = jnp.where(
        turn == _PREDICTOR, jnp.clip(left**2 * jnp.minimum(left, 0.1), 1e-6, 1.0), search.centring
    )
    is_taken = (turn <= _CORRECTOR) | (length > 1.01 * search.length)
    return loops.cond(
        is_taken,
        lambda: search._replace(
            targets=targets, direction=direction, length=length, centring=centring
        ),
        lambda: search,
    )


def _normalised(program: Embedded, point: EmbeddingPoint) -> EmbeddingPoint:
    """The same ray of the embedding, scaled so that the larger of tau and kappa is 1, with slacks
    that are consistent with w.

    Long steps round w and the slacks differently, and the difference grows with tau. Close to a
    bound, w is recomputed from the slack. The slack of the other bound is recomputed from w.
    """
    size = jnp.maximum(point.scale, point.gap_dual)
    point = jax.tree.map(lambda leaf: leaf / size, point)
    bound = program.bound * point.scale
    distance = jnp.where(program.has_bound, point.slack, jnp.inf)
    least = reduce.least(distance, axis=0)
    # from a distant bound, w could only be computed with a large rounding error
    is_near = least <= 2 * jnp.abs(point.primal)
    is_nearest = distance == least[None, :]
    primal = jnp.where(
        is_near,
        jnp.where(is_nearest[0], bound[0] + point.slack[0], bound[1] - point.slack[1]),
        point.primal,
    )
    slack = jnp.where(is_near[None, :] & ~is_nearest, sides(primal[None, :] - bound), point.slack)
    return point._replace(primal=primal, slack=jnp.where(program.has_bound, slack, 1.0))
