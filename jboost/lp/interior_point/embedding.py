"""The homogeneous self-dual embedding of a linear program with a dense matrix.

With s = A x the program is: minimise cost . w over w = (x, s) with K w = 0, K = [A, -I],
low <= w <= high; embedded, low tau <= w <= high tau, and the dual is cost tau - K'y = zl - zu with
zl, zu >= 0. A solution has tau > 0; a ray that proves a program infeasible or unbounded has
tau = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.lp.problem import LinearProgram, bounds_nothing, row_sizes

_ROUNDINGS = 8  # bounds that differ by at most this many rounding errors count as equal
# The least distance of the first point from a bound, relative to the bound if that is large.
_LEAST_STEP = 2.0**-8
# The largest scale of a column; the inverse is the smallest. Columns of tiny entries stay small.
_LARGEST_SCALE = 1e4


class Embedded(NamedTuple):
    """A program as minimise cost . w, K w = 0, low <= w <= high, scaled. Arrays [2, n + m] hold the
    lower side, then the upper.
    """

    matrix: Array  # [m, n] rows without a finite bound are 0
    cost: Array  # [n + m]
    bound: Array  # [2, n + m] 0 where there is none
    has_bound: Array  # [2, n + m] bool, False where fixed
    is_fixed: Array  # [n + m] bool, low = high
    level: Array  # [n + m] the value of each fixed variable, 0 for the others


class EmbeddingPoint(NamedTuple):
    """An iterate of the embedding."""

    primal: Array  # [n + m] w
    dual: Array  # [m] y
    slack: Array  # [2, n + m] w - low tau and high tau - w, 1 where there is no bound
    multiplier: Array  # [2, n + m] zl and zu, 0 where there is no bound
    scale: Array  # [] tau
    gap_dual: Array  # [] kappa


class EmbeddingImages(NamedTuple):
    """The products of an iterate with the matrix."""

    rows: Array  # [m] K w, the residuals of the rows
    columns: Array  # [n + m] K'y


class EmbeddingStart(NamedTuple):
    """The first iterate, and the products that later iterations need."""

    point: EmbeddingPoint
    image: EmbeddingImages
    level_image: Array  # [m] K level


class EmbeddingResiduals(NamedTuple):
    """The residuals of the other equations of an iterate, and the mean complementary product."""

    dual: Array  # [n + m] cost tau - K'y - zl + zu, 0 where fixed
    gap: Array  # [] kappa + cost . w - dual objective
    mean_product: Array  # [] over the products slack * multiplier and tau * kappa


def sides(values: Array) -> Array:
    """The values [2, n + m] with the sign of the upper side reversed."""
    return values * jnp.array([[1.0], [-1.0]], values.dtype)


def embed(matrix: Array, problem: LinearProgram) -> Embedded:
    """The embedding of a program with a dense matrix."""
    is_idle = bounds_nothing(problem)
    of_rows = jnp.stack([problem.row_lower, problem.row_upper])
    bound = jnp.concatenate(
        [jnp.stack([problem.lower, problem.upper]), jnp.where(is_idle[None, :], 0.0, of_rows)],
        axis=1,
    )
    cost = jnp.concatenate([problem.objective, jnp.zeros_like(problem.row_lower)])
    sizes = jnp.abs(of_rows)
    least = reduce.least(jnp.where((sizes > 0) & jnp.isfinite(sizes), sizes, 1.0), axis=(0, 1))
    is_fixed = _are_one(bound[0], bound[1], cost, jnp.minimum(least, 1.0))
    has_bound = jnp.isfinite(bound) & ~is_fixed[None, :]
    return Embedded(
        matrix=jnp.where(is_idle[:, None], 0.0, matrix),
        cost=cost,
        bound=jnp.where(has_bound, bound, 0.0),
        has_bound=has_bound,
        is_fixed=is_fixed,
        level=jnp.where(is_fixed, bound[0], 0.0),
    )


def _are_one(low: Array, high: Array, cost: Array, least: Array) -> Array:
    """Whether two bounds count as equal: their distance is within rounding, or does not matter
    beside rows of size `least` or more.
    """
    largest, width, eps = (
        jnp.maximum(jnp.abs(low), jnp.abs(high)),
        high - low,
        jnp.finfo(low.dtype).eps,
    )
    is_idle = width * jnp.maximum(jnp.abs(cost), 1.0) <= eps**2 * least
    return (low == high) | (
        jnp.isfinite(largest) & (is_idle | (width <= _ROUNDINGS * eps * largest))
    )


def forward(program: Embedded, primal: Array) -> Array:
    """K w of w [n + m] or [n + m, k]."""
    num_columns = program.matrix.shape[1]
    return (
        jnp.matmul(program.matrix, primal[:num_columns], precision=lax.Precision.HIGHEST)
        - primal[num_columns:]
    )


def backward(program: Embedded, dual: Array) -> Array:
    """K'y of y [m]."""
    return jnp.concatenate([numerics.times(dual, program.matrix), -dual])


def start(program: Embedded) -> EmbeddingStart:
    """The first iterate, and products with the matrix."""
    point = _first_point(program)
    image, level_image = forward(program, jnp.stack([point.primal, program.level], axis=1)).T
    return EmbeddingStart(point, EmbeddingImages(image, backward(program, point.dual)), level_image)


def _first_point(program: Embedded) -> EmbeddingPoint:
    """The first point, with all complementary products equal to 1.

    Each variable is in the middle between its bounds, but at most about 1 away from a lower bound
    and from a single upper bound. Bounds so large that adding 1 hardly changes them are ignored,
    and the variable starts closer to 0.
    """
    has_low, has_high = program.has_bound
    low, high = program.bound
    to_low, to_high = (jnp.maximum(1.0, _LEAST_STEP * jnp.abs(end)) for end in (low, high))
    from_low = jnp.where(has_high, jnp.minimum(0.5 * (high - low), to_low), to_low)
    is_far = jnp.where(has_low, to_low, to_high) > 1
    lowest, highest = (
        jnp.where(has_low, low + from_low, -jnp.inf),
        jnp.where(has_high, high - jnp.where(has_low, from_low, to_high), jnp.inf),
    )
    near_bound = jnp.where(has_low, lowest, jnp.where(has_high, highest, program.level))
    primal = jnp.where(is_far, jnp.clip(0.0, lowest, highest), near_bound)
    slack = jnp.where(program.has_bound, sides(primal[None, :] - program.bound), 1.0)
    multiplier = jnp.where(program.has_bound, 1 / slack, 0.0)
    dual = jnp.sum(sides(multiplier), axis=0)[program.matrix.shape[1] :]
    one = jnp.ones((), primal.dtype)
    return EmbeddingPoint(primal, dual, slack, multiplier, one, one)


def images(program: Embedded, point: EmbeddingPoint) -> EmbeddingImages:
    """Both products of an iterate."""
    return EmbeddingImages(forward(program, point.primal), backward(program, point.dual))


def residuals(
    program: Embedded, point: EmbeddingPoint, image: EmbeddingImages
) -> EmbeddingResiduals:
    """The residuals of the embedding's equations."""
    reduced = program.cost * point.scale - image.columns
    dual = jnp.where(program.is_fixed, 0.0, reduced - jnp.sum(sides(point.multiplier), axis=0))
    earned = jnp.sum(sides(program.bound * point.multiplier), axis=0) + program.level * reduced
    products = jnp.sum(jnp.where(program.has_bound, point.slack * point.multiplier, 0.0), axis=0)
    objective, dual_objective, product, count = reduce.several(
        (reduce.SUM, program.cost * point.primal),
        (reduce.SUM, earned),
        (reduce.SUM, products),
        (reduce.SUM, jnp.sum(program.has_bound, axis=0, dtype=products.dtype)),
    )
    gap = point.gap_dual + objective - dual_objective
    return EmbeddingResiduals(dual, gap, (point.scale * point.gap_dual + product) / (1 + count))


class EmbeddingScaling(NamedTuple):
    """row * A * column has entries of size 1; objective and bounds are divided by their sizes."""

    row: Array  # [m]
    column: Array  # [n]
    objective: Array  # []
    bound: Array  # []


def scale(
    matrix: Array, problem: LinearProgram, rounds: int
) -> tuple[Array, LinearProgram, EmbeddingScaling]:
    """The matrix and the program scaled so that entries, objective and bounds are of size 1."""
    row, column = _equilibrate(matrix, problem, rounds)
    objective, lower, upper = (
        problem.objective * column,
        problem.lower / column,
        problem.upper / column,
    )
    size, of_variables = reduce.several(
        (reduce.LARGEST, _finite_size(objective)),
        (reduce.LARGEST, jnp.maximum(_finite_size(lower), _finite_size(upper))),
    )
    of_rows = jnp.maximum(reduce.largest(_finite_size(row_sizes(problem) * row)), 0.0)
    unit, bound = (
        jnp.where(size > 0, size, 1.0),
        jnp.where(of_rows > 0, of_rows, jnp.where(of_variables > 0, of_variables, 1.0)),
    )
    scaled = LinearProgram(
        objective=objective / unit,
        operator=(),
        row_lower=problem.row_lower * row / bound,
        row_upper=problem.row_upper * row / bound,
        lower=lower / bound,
        upper=upper / bound,
    )
    return (
        row[:, None] * matrix * column[None, :],
        scaled,
        EmbeddingScaling(row, column, unit, bound),
    )


def _equilibrate(matrix: Array, problem: LinearProgram, rounds: int) -> tuple[Array, Array]:
    """Ruiz's equilibration of the dense matrix: in each round, rows and columns are divided by the
    square root of their largest entry. Returns the scales of the rows [m] and of the columns [n].

    Rows without a finite bound and fixed variables are ignored.
    """
    counts = ~bounds_nothing(problem)[:, None] & (problem.lower < problem.upper)[None, :]
    sizes = jnp.where(counts, jnp.abs(matrix), 0.0)

    def halve(_: Array, scales: tuple[Array, Array]) -> tuple[Array, Array]:
        row, column = scales
        now = row[:, None] * sizes * column[None, :]
        largest = [jnp.maximum(reduce.largest(now, axis=axis), 0.0) for axis in (1, 0)]
        column = column * numerics.inverse_root(largest[1])
        return row * numerics.inverse_root(largest[0]), jnp.clip(
            column, 1 / _LARGEST_SCALE, _LARGEST_SCALE
        )

    return loops.fori_loop(
        0, rounds, halve, (jnp.ones_like(problem.row_lower), jnp.ones_like(problem.objective))
    )


def _finite_size(values: Array) -> Array:
    """|values|, with 0 for infinite ones and NaN."""
    return jnp.where(jnp.isfinite(values), jnp.abs(values), 0.0)
