"""Baselines: separators whose cost grows with the distance of the misclassified points.

Boyarshinov and Magdon-Ismail (2005), Section 4, note that such costs define a different problem
from theirs. This module implements two programs of the literature for comparison. Both use the
slacks xi_i = max(0, 1 - y_i (v . x_i + v0)).

The linear program of Bennett and Mangasarian (1992) minimises the sum, over the two classes, of the
weighted mean slack, so that v = 0 is never better than a line. The quadratic program, in the form
of Lee and Mangasarian (2001), minimises the same sum of squared slacks plus a ridge term. A
misclassified point of weight 1 costs 1 in `optimal_separator`. Here it costs its distance, or the
square of its distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost import lp
from jboost.base import check, derivatives, devices, loops, meshes, numerics
from jboost.base.predict import scores_of, unless_invalid
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.pair.arguments import validate_examples
from jboost.pair.sweep.instance import is_kept_by_cast

# The most steps of the Newton method, and the most halvings of each step.
_MOST_STEPS, _HALVINGS = 60, 12
# The bound of v and v0 if half the extent of the points is 1. A lower bound of the objective can be
# proven only if the variables are bounded.
_STEEPEST = 2.0**10
_AT_LIMIT = 1 - 2.0**-8  # the share of that bound from which it counts as reached


class DistanceSeparator(NamedTuple):
    """The separator score(x) = normal . (x - anchor) + bias of least total distance. A point of
    score 0 is misclassified.
    """

    normal: Array  # [d], 0 if no direction lowers the objective
    anchor: Array  # [d]
    bias: Array  # []
    objective: Array  # [], the sum of the mean slacks of the two classes for this line
    lower_bound: Array  # [], proven for the program in scaled coordinates
    loss: Array  # [], weight misclassified, as `optimal_separator` counts it
    status: Array  # [] int32


@scores_of.register
def _(model: DistanceSeparator, features: ArrayLike) -> Array:
    features = check.numeric("features", features, shape=("k", model.normal.shape[0]), kinds="fiu")
    return _scores(
        model.normal,
        model.anchor,
        unless_invalid(model, model.bias),
        features.astype(model.normal.dtype),
    )


def _scores(normal: Array, anchor: Array, bias: Array, points: Array) -> Array:
    return jnp.sum(normal[None] * (points - anchor[None]), axis=-1) + bias


@meshes.takes_gathered
@derivatives.without("jboost.pair.least_distance_separator")
def least_distance_separator(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> DistanceSeparator:
    """The line or plane of least mean slack, by a linear program; for comparison with
    `optimal_separator`, which counts errors instead.

    Gaps narrower than about 2^-10 of the extent of the points are not found: the status is
    PRECISION_LIMIT, and nothing is proven, where a steeper line may have less slack. The function
    may be jitted and vmapped.

    Args:
      points: [n, 2] or [n, 3], real, n at least 1.
      labels: [n], +1 or -1.
      weights: [n], not negative; a weight of 0 has the effect of `mask` False. None for ones.
      mask: [n] bool, False for padding rows.

    Returns:
      `DistanceSeparator`, the constant classifier if all points are of one class. The statuses are
      those of `jboost.lp.solve`. Without 64-bit types NUMERICAL_ERROR is common if gaps are narrow.
      The status is PRECISION_LIMIT, too, if the float type cannot represent the points or the line.
      If it cannot represent the points, nothing is proven.

    Raises:
      ValueError: at trace time, naming the argument, if a shape or a kind is wrong; for labels
        and weights that are known and not allowed. Other values that are not allowed give status
        INVALID_INPUT and NaN.

    >>> import jboost
    >>> separator = jboost.pair.least_distance_separator(
    ...     [[0.0, 0.0], [2.0, 0.0], [3.0, 1.0]], [-1, 1, 1]
    ... )
    >>> round(float(separator.objective), 4), float(separator.loss)
    (0.0, 0.0)
    """
    examples = validate_examples(points, labels, weights, mask)
    if examples[0].shape[0] == 0:
        raise ValueError("points has no rows: a linear program needs one at least")
    return _solve(*examples)


class _Scaled(NamedTuple):
    """The examples scaled to an extent of at most 2, and the inverse of the scaling."""

    points: Array  # [n, d], 0 where not live
    given: Array  # [n, d], in the units of the data
    labels: Array  # [n], 0 where not live
    weights: Array  # [n], 0 where not live
    share: Array  # [n] of the weight of the class
    anchor: Array  # [d]
    size: Array  # []
    valid: Array  # [] bool
    faithful: Array  # [] bool, whether the float type represents the points that were passed
    one_class: Array  # [] bool


def _scale(points: Array, labels: Array, weights: Array, mask: Array) -> _Scaled:
    dtype = jnp.result_type(float)
    faithful = is_kept_by_cast(jnp.where(mask[:, None], points, 0), dtype)
    points, labels, weights = (
        lax.stop_gradient(array).astype(dtype) for array in (points, labels, weights)
    )
    sound = (
        jnp.all(jnp.isfinite(points), axis=1)
        & (jnp.abs(labels) == 1)
        & (weights > 0)
        & jnp.isfinite(weights)
    )
    valid = jnp.all(sound | ~mask)
    live = mask & valid
    points = jnp.where(live[:, None], points, 0)
    labels, weights = jnp.where(live, labels, 0), jnp.where(live, weights, 0)
    low, high = (
        pick(jnp.where(live[:, None], points, fill), axis=0)
        for pick, fill in ((jnp.min, jnp.inf), (jnp.max, -jnp.inf))
    )
    some = jnp.any(live)
    anchor = jnp.where(some, low / 2 + high / 2, 0)
    extent = jnp.where(some, jnp.max(high / 2 - low / 2), 0)
    size = jnp.where(extent > 0, extent, 1)
    scaled = jnp.where(live[:, None], (points - anchor[None]) / size, 0)
    share = _shares(weights, labels > 0) + _shares(weights, labels < 0)
    one_class = ~(jnp.any(labels > 0) & jnp.any(labels < 0))
    return _Scaled(scaled, points, labels, weights, share, anchor, size, valid, faithful, one_class)


@devices.public_jit
def _solve(points: Array, labels: Array, weights: Array, mask: Array) -> DistanceSeparator:
    examples = _scale(points, labels, weights, mask)
    num_rows, dtype, live = points.shape[0], examples.points.dtype, examples.labels != 0
    num_free = points.shape[1] + 1
    signs = examples.labels[:, None]
    matrix = jnp.concatenate(
        [signs * examples.points, signs, jnp.eye(num_rows, dtype=dtype)], axis=1
    )
    free = jnp.full(num_free, _STEEPEST, dtype)
    program = lp.make_program(
        jnp.concatenate([jnp.zeros(num_free, dtype), examples.share]),
        matrix,
        row_lower=jnp.where(live, 1, -jnp.inf),
        lower=jnp.concatenate([-free, jnp.zeros(num_rows, dtype)]),
        upper=jnp.concatenate([free, jnp.where(live, jnp.inf, 0).astype(dtype)]),
    )
    solution = lp.solve(program)
    line, one = solution.primal[:num_free], jnp.ones((), dtype)
    # A bound above 0 is one for all lines only if the limit of their slopes does not hold this one.
    is_limited = (jnp.max(jnp.abs(line)) >= _AT_LIMIT * _STEEPEST) & (solution.lower_bound > 0)
    is_unproven = is_limited & (solution.status == int(Status.OPTIMAL))
    return _evaluate(
        examples,
        line,
        one,
        lambda slacks, _: jnp.sum(examples.share * slacks),
        jnp.where(is_limited, 0.0, solution.lower_bound),
        jnp.where(is_unproven, int(Status.PRECISION_LIMIT), solution.status),
    )


@meshes.takes_gathered
@derivatives.without("jboost.pair.least_squared_distance_separator")
def least_squared_distance_separator(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    ridge: ArrayLike = 1e-3,
) -> DistanceSeparator:
    """The line or plane of least mean squared slack plus ridge / 2 (|v|^2 + v0^2), by a quadratic
    program; for comparison with `optimal_separator`.

    The method is the finite Newton method (Mangasarian 2002) in the d + 1 unknowns. The function
    may be jitted and vmapped.

    Args:
      points: [n, 2] or [n, 3], real, n at least 1.
      labels: [n], +1 or -1.
      weights: [n], not negative; a weight of 0 has the effect of `mask` False. None for ones.
      mask: [n] bool, False for padding rows.
      ridge: [] positive, for coordinates scaled to a larger extent of 2. A smaller ridge finds
        narrower gaps.

    Returns:
      `DistanceSeparator`, with bounds for the program in scaled coordinates. The status is OPTIMAL
      if the bounds differ by at most 1e-6 (1e-3 without 64-bit types) of the objective, else
      ITERATION_LIMIT. If all points are of one class, the result is the best constant, and the
      bounds are over constants. The status is PRECISION_LIMIT if the float type cannot represent
      the points or the line. If it cannot represent the points, nothing is proven.

    Raises:
      ValueError: at trace time, naming the argument, if a shape or a kind is wrong, for a concrete
        ridge of 0 or less, and for labels and weights that are known and not allowed. Other values
        that are not allowed give status INVALID_INPUT and NaN.

    >>> import jboost
    >>> separator = jboost.pair.least_squared_distance_separator(
    ...     [[0.0, 0.0], [2.0, 0.0], [3.0, 1.0]], [-1, 1, 1]
    ... )
    >>> float(separator.loss), bool(separator.lower_bound <= separator.objective)
    (0.0, True)
    """
    examples = validate_examples(points, labels, weights, mask)
    if examples[0].shape[0] == 0:
        raise ValueError("points has no rows: a quadratic program needs one at least")
    ridge = jnp.asarray(
        check.number("ridge", ridge, low=0, high=check.LARGEST, open_low=True),
        jnp.result_type(float),
    )
    return _solve_quadratic(*examples, ridge)


@devices.public_jit
def _solve_quadratic(
    points: Array, labels: Array, weights: Array, mask: Array, ridge: Array
) -> DistanceSeparator:
    examples = _scale(points, labels, weights, mask)
    examples = examples._replace(valid=examples.valid & jnp.isfinite(ridge) & (ridge > 0))
    rows = examples.labels[:, None] * jnp.concatenate(
        [examples.points, jnp.ones_like(examples.points[:, :1])], axis=1
    )
    program = _Quadratic(rows, examples.labels, examples.share, ridge)
    tolerance = 1e-6 if rows.dtype.itemsize == 8 else 1e-3
    steps = 2.0 ** -jnp.arange(_HALVINGS, dtype=rows.dtype)

    def unfinished(now: _LineNewton) -> Array:
        return now.is_moving & (
            program.objective(now.line) - now.lower_bound > tolerance * program.objective(now.line)
        )

    start = jnp.zeros(rows.shape[1], rows.dtype)
    found, _ = loops.bounded_loop(
        lambda now: _newton(program, steps, now),
        unfinished,
        _LineNewton(start, jnp.zeros_like(ridge), jnp.ones((), bool)),
        max_checks=_MOST_STEPS,
    )
    met = program.objective(found.line) - found.lower_bound <= tolerance * program.objective(
        found.line
    )
    status = jnp.where(met, int(Status.OPTIMAL), int(Status.ITERATION_LIMIT))
    constant = jnp.where(jnp.any(examples.labels != 0), 1 / (1 + ridge / 2), 0.0)
    return _evaluate(examples, found.line, constant, program.value, found.lower_bound, status)


class _Quadratic(NamedTuple):
    """The quadratic program: minimise ridge / 2 |z|^2 + sum s xi^2 over the lines z = (v, v0)."""

    rows: Array  # [n, d + 1] y (x, 1) in scaled coordinates
    labels: Array  # [n], 0 where not live
    share: Array  # [n] s, the share of the weight of the class
    ridge: Array  # []

    def slacks(self, line: Array) -> Array:
        """xi [n]."""
        return jnp.where(
            self.labels != 0,
            jnp.maximum(1 - jnp.matmul(self.rows, line, precision=lax.Precision.HIGHEST), 0),
            0,
        )

    def value(self, slacks: Array, line: Array) -> Array:
        """The objective of a line with these slacks."""
        return self.ridge / 2 * jnp.sum(line * line) + jnp.sum(self.share * slacks**2)

    def objective(self, line: Array) -> Array:
        return self.value(self.slacks(line), line)

    def lower_bound(self, line: Array) -> Array:
        """The dual value at the multipliers 2 s xi, less a bound of the rounding error."""
        slacks = self.slacks(line)
        multipliers = 2 * self.share * slacks
        rounding = (self.rows.shape[0] + 16) * jnp.finfo(self.rows.dtype).eps
        combination = jnp.abs(jnp.matmul(multipliers, self.rows, precision=lax.Precision.HIGHEST))
        combination = combination + rounding * jnp.matmul(
            multipliers, jnp.abs(self.rows), precision=lax.Precision.HIGHEST
        )
        quadratic_part = jnp.sum(multipliers * slacks) / 2
        return jnp.sum(multipliers) * (1 - rounding) - (
            jnp.sum(combination**2) / (2 * self.ridge) + quadratic_part
        ) * (1 + rounding)


class _LineNewton(NamedTuple):
    """The state of the Newton method."""

    line: Array  # [d + 1] v and v0 in scaled coordinates
    lower_bound: Array  # []
    is_moving: Array  # [] bool


def _newton(program: _Quadratic, steps: Array, now: _LineNewton) -> _LineNewton:
    """One step in the Newton direction, of the best of the lengths `steps` [k], if it lowers the
    objective.
    """
    rows, share, ridge = program.rows, program.share, program.ridge
    slacks = program.slacks(now.line)
    active = jnp.where(slacks > 0, 2 * share, 0)
    gradient = ridge * now.line - jnp.matmul(
        2 * share * slacks, rows, precision=lax.Precision.HIGHEST
    )
    hessian = ridge * jnp.eye(rows.shape[1], dtype=rows.dtype) + jnp.matmul(
        rows.T * active[None], rows, precision=lax.Precision.HIGHEST
    )
    direction = -jnp.linalg.solve(hessian, gradient)
    lines = now.line[None] + steps[:, None] * direction[None]
    values = jax.vmap(program.objective)(lines)
    best = jnp.argmin(values)
    line = jnp.where(values[best] < program.objective(now.line), lines[best], now.line)
    return _LineNewton(
        line,
        jnp.maximum(now.lower_bound, program.lower_bound(line)),
        now.is_moving & jnp.any(line != now.line),
    )


def _evaluate(
    examples: _Scaled,
    line: Array,
    constant: Array,
    objective: Callable[[Array, Array], Array],
    lower_bound: Array,
    status: Array,
) -> DistanceSeparator:
    """The `DistanceSeparator` of a line [d + 1] in scaled coordinates. If all points are of one
    class, it is the best constant, of size `constant`. `objective` is a function of the slacks [n]
    and the line.
    """
    one_class, eps = examples.one_class, jnp.finfo(line.dtype).eps
    constant = jnp.where(jnp.any(examples.labels < 0), -constant, constant)
    flat = jnp.zeros_like(line).at[-1].set(constant)
    line = jnp.where(one_class, flat, line)
    normal, bias = line[:-1] / examples.size, line[-1]
    scores = examples.labels * _scores(normal, examples.anchor, bias, examples.given)
    slacks = jnp.where(examples.labels != 0, jnp.maximum(1 - scores, 0), 0)
    spoiled = jnp.where(examples.valid, 0, jnp.nan)
    worth = objective(slacks, line)
    status = jnp.where(one_class, int(Status.OPTIMAL), status)
    lower_bound = jnp.where(
        one_class, worth * (1 - (slacks.shape[0] + 16) * eps), jnp.maximum(lower_bound, 0)
    )
    is_lost = jnp.any((line[:-1] != 0) & (jnp.abs(normal) < jnp.finfo(normal.dtype).tiny))
    status = jnp.where(
        (status == int(Status.OPTIMAL)) & (is_lost | ~examples.faithful),
        int(Status.PRECISION_LIMIT),
        status,
    )
    lower_bound = jnp.where(examples.faithful, lower_bound, 0)
    return DistanceSeparator(
        normal=normal,
        anchor=examples.anchor,
        bias=bias,
        objective=worth + spoiled,
        lower_bound=jnp.maximum(lower_bound, 0) + spoiled,
        loss=jnp.sum(jnp.where((examples.labels != 0) & (scores <= 0), examples.weights, 0))
        + spoiled,
        status=jnp.where(examples.valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _shares(weights: Array, members: Array) -> Array:
    """The share of each member in the weight of its class; 0 for the other points."""
    own = numerics.to_unit(jnp.where(members, weights, 0))
    total = jnp.sum(own)
    return own / jnp.where(total > 0, total, 1)
