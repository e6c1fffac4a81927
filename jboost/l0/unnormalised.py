"""The sparse minimum disagreement problem with votes that are not normalised.

This is the program (9) of Goldberg and Eckstein (2009). The module solves its linear relaxation and
computes a feasible point of both.

There is no constraint sum lambda = 1 and therefore no margin to choose: example i is right if y_i
H_i lambda >= 1. The program has lambda_u <= K mu_u, and at an optimum of the relaxation mu_u =
lambda_u / K. The relaxation is therefore a linear program of the hinge loss with the penalty sum
c_u lambda_u / K. This penalty is weak for large K.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, check, derivatives, devices, meshes, reduce
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.l0 import relaxation
from jboost.l0.relaxation.instance import make_instance
from jboost.l0.types import RelaxationInstance
from jboost.lp import LPSolution, make_program, solve
from jboost.lp.first_order import FirstOrderConfig
from jboost.lp.interior_point import InteriorPointConfig

# Assumed relative error of the solver. A smaller coefficient is taken as 0, and a margin that is
# this close to 1 as 1.
_SMALL = 1e-3


class Unnormalised(NamedTuple):
    """The primal and dual solutions of the relaxation of (9), and a feasible point of (9)."""

    coefficients: Array  # [U] lambda in [0, K]
    # [] objective of (9) at lambda: the weights of the examples with y_i H_i lambda < 1 plus the
    # costs of the hypotheses with lambda_u > 0; rounded up
    loss: Array
    lower_bound: Array  # [] on the relaxation, hence on (9)
    upper_bound: Array  # [] on the relaxation
    # [m] w in [0, weight / (M K + 1)], which prove the lower bound sum w + sum_u min(0, c_u - K
    # sum_i y_i H_iu w_i)
    example_weights: Array
    status: Array  # [] int32, of the linear program


@meshes.takes_gathered
@derivatives.without("jboost.l0.solve_unnormalised")
def solve_unnormalised(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    largest: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    config: InteriorPointConfig | FirstOrderConfig | None = None,
) -> Unnormalised:
    """The relaxation of (9) of Goldberg and Eckstein (2009) over a pool: errors plus costs of
    hypotheses, with votes that are not normalised and without a margin rho.

    Minimises sum_i weight_i xi_i + sum_u c_u mu_u s.t. y_i H_i lambda + (M K + 1) xi_i >= 1,
    0 <= lambda <= K mu, mu and xi in [0, 1], with M = m examples. Jittable and vmappable.

    Args:
      outputs: H [m, U], entries -1, 0, +1.
      labels: [m] -1 or +1.
      costs: c [U] >= 0.
      largest: [] K > 0, the largest value of a coefficient.
      weights: [m] cost of an error, not negative; 0 has the effect of `mask` False; None for ones.
      mask: [m] bool, False for examples that only pad; None for all True.
      column_mask: [U] bool, False for slots that hold no hypothesis; None for all True.
      tolerance: as for `jboost.lp.solve`.
      config: as for `jboost.lp.solve`.

    Returns:
      An `Unnormalised`: lower_bound <= optimum of (9) <= loss, which `coefficients` attain. With
      the status INVALID_INPUT the bounds are infinite.

    Raises:
      ValueError: naming the argument, for shapes, dtypes, and concrete values.

    >>> import jboost
    >>> found = jboost.l0.solve_unnormalised(
    ...     [[1, 1], [1, -1], [-1, -1]], [1, 1, -1], [0.5, 0.5], largest=4.0
    ... )
    >>> round(float(found.loss), 3), bool(found.lower_bound <= found.loss)
    (0.5, True)
    """
    data = relaxation.validate_program(
        outputs, labels, costs, weights=weights, mask=mask, column_mask=column_mask
    )
    largest = check.number("largest", largest, low=0, high=check.LARGEST, open_low=True).astype(
        float
    )
    if tolerance is not None:
        tolerance = check.number("tolerance", tolerance, low=0, open_low=True)
    if config is not None:
        check.record("config", config, InteriorPointConfig, FirstOrderConfig)
    shape = data[0].shape
    found = _solve(
        relaxation.with_one_masked(data) if 0 in shape else data, largest, tolerance, config=config
    )
    return found._replace(
        coefficients=found.coefficients[: shape[1]],
        example_weights=found.example_weights[: shape[0]],
    )


@devices.public_jit(static_argnames=("config",))
def _solve(
    data: tuple[Array, ...],
    largest: Array,
    tolerance: ArrayLike | None,
    *,
    config: InteriorPointConfig | FirstOrderConfig | None,
) -> Unnormalised:
    outputs, labels, costs, weights, mask, column_mask = data
    instance, is_valid = make_instance(
        outputs, labels, costs, weights, mask, column_mask, jnp.ones_like(largest)
    )
    is_valid &= (largest > 0) & (largest < jnp.inf)
    largest = jnp.where(is_valid, largest, 1.0)
    num_examples = instance.margins.shape[0]
    is_example = instance.weights > 0
    # A slack in the unit of a margin, s = (M K + 1) xi, keeps the matrix of moderate size.
    eps = jnp.finfo(largest.dtype).eps
    unit = (jnp.sum(is_example).astype(largest.dtype) * largest + 1) * (1 + 4 * eps)
    matrix = jnp.concatenate([instance.margins, jnp.eye(num_examples, dtype=largest.dtype)], axis=1)
    program = make_program(
        jnp.concatenate([instance.costs / largest, instance.weights / unit]),
        matrix,
        row_lower=jnp.where(is_example, 1.0, -jnp.inf),
        lower=0.0,
        upper=jnp.concatenate(
            [jnp.where(instance.is_column, largest, 0.0), jnp.where(is_example, unit, 0.0)]
        ),
    )
    solution = solve(program, tolerance=tolerance, config=config)
    coefficients, loss, attained = _best_near(instance, solution, largest, unit)
    duals = jnp.clip(solution.dual, 0.0, instance.weights / unit * (1 - 4 * eps))
    return Unnormalised(
        coefficients,
        jnp.where(is_valid, loss, jnp.inf),
        jnp.where(is_valid, jnp.maximum(_proven(instance, duals, largest), 0.0), -jnp.inf),
        jnp.where(is_valid, attained, jnp.inf),
        jnp.zeros((num_examples,), largest.dtype).at[instance.order].set(duals),
        jnp.where(is_valid, solution.status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _best_near(
    instance: RelaxationInstance, solution: LPSolution, largest: Array, unit: Array
) -> tuple[Array, Array, Array]:
    """The feasible point of (9) of least loss among 0, the solution and the cleaned solution; its
    loss; and the least objective of the relaxation at these points.
    """
    coefficients = jnp.clip(
        solution.primal[: instance.costs.shape[0]],
        0.0,
        jnp.where(instance.is_column, largest, 0.0),
    )
    points = jnp.stack(
        [jnp.zeros_like(coefficients), coefficients, _cleaned(instance, coefficients, largest)]
    )
    losses = jax.vmap(lambda point: _loss(instance, point))(points)
    attained = reduce.least(
        jax.vmap(lambda point: _relaxed(instance, point, largest, unit))(points)
    )
    best = jnp.argmin(losses)
    return points[best], losses[best], attained


def _cleaned(instance: RelaxationInstance, coefficients: Array, largest: Array) -> Array:
    """Returns the coefficients, with those within the error of the solver set to 0.

    The others are scaled up, so that margins close to 1 exceed 1.
    """
    kept = jnp.where(coefficients > _SMALL * jnp.max(coefficients, initial=0.0), coefficients, 0.0)
    reached = jnp.matmul(instance.margins, kept, precision=lax.Precision.HIGHEST)
    least = reduce.least(jnp.where(reached > 0.5, reached, jnp.inf))
    factor = jnp.where(least < jnp.inf, (1 + _SMALL) / jnp.where(least < jnp.inf, least, 1.0), 1.0)
    most = largest / jnp.maximum(jnp.max(kept, initial=0.0), jnp.finfo(kept.dtype).tiny)
    return jnp.minimum(kept * jnp.clip(factor, 1.0, jnp.maximum(most, 1.0)), largest)


def _proven(instance: RelaxationInstance, duals: Array, largest: Array) -> Array:
    """Returns the lower bound on the relaxation from the duals of the margins, rounded down."""
    signed = instance.margins.T * duals[None, :]
    ones = jnp.ones((), duals.dtype)
    left = jnp.concatenate([signed, instance.costs[:, None]], axis=1)
    right = jnp.concatenate(
        [jnp.full_like(signed, -largest), jnp.ones_like(instance.costs)[:, None]], axis=1
    )
    gained = jnp.minimum(brackets.bracket_dot(left, right)[0], 0.0)
    terms = jnp.concatenate([duals, gained])
    return brackets.bracket_dot(terms, jnp.broadcast_to(ones, terms.shape))[0]


def _relaxed(
    instance: RelaxationInstance, coefficients: Array, largest: Array, unit: Array
) -> Array:
    """Returns the objective of the relaxation at lambda, rounded up; inf if some xi exceeds 1."""
    reached, _ = brackets.bracket_dot(
        instance.margins, jnp.broadcast_to(coefficients, instance.margins.shape)
    )
    slacks = jnp.where(instance.weights > 0, jnp.maximum(1 - reached, 0.0), 0.0)
    shares = jnp.concatenate([slacks / unit, coefficients / largest]) * (
        1 + 16 * jnp.finfo(unit.dtype).eps
    )
    paid = brackets.bracket_dot(shares, jnp.concatenate([instance.weights, instance.costs]))[1]
    return jnp.where(jnp.all(slacks <= unit), paid, jnp.inf)


def _loss(instance: RelaxationInstance, coefficients: Array) -> Array:
    """Returns the objective of (9) at a point, rounded up.

    An example is right if its margin, rounded down, is at least 1.
    """
    reached, _ = brackets.bracket_dot(
        instance.margins, jnp.broadcast_to(coefficients, instance.margins.shape)
    )
    paid = jnp.concatenate(
        [(reached < 1).astype(reached.dtype), (coefficients > 0).astype(reached.dtype)]
    )
    return brackets.bracket_dot(paid, jnp.concatenate([instance.weights, instance.costs]))[1]
