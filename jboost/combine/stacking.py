"""Stacking: logistic regression on the scores of classifiers, by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array

_MAX_STEPS, _HALVINGS = 60, 12  # of Newton's method, and of a step in its line search
_LIFT = 16  # roundings added to the diagonal, since columns may be linearly dependent
_OFFSET_PENALTY = 1e-6  # keeps the offset finite if there is only one class


class LogOdds(NamedTuple):
    """A linear model of the log-odds of the class +1."""

    coefficients: Array  # [d]
    offset: Array  # []


class _LogisticNewton(NamedTuple):
    parameters: Array  # [d + 1]
    objective: Array  # []
    decrease: Array  # [] of the last step


def fit_log_odds(scores: Array, signs: Array, weights: Array, penalty: Array) -> LogOdds:
    """Minimises sum_i w_i log(1 + exp(-y_i f(x_i))) + penalty |c|^2 / 2 over f(x) = c . z(x) + b.

    The weights are scaled to mean 1, and z are the scores scaled to mean 0 and variance 1, so that
    the units of weights and scores do not matter. scikit-learn's `LogisticRegression` has
    C = 1 / penalty.

    Args:
      scores: [n, d] finite, 0 on padding.
      signs: [n] +1 or -1, 0 on padding.
      weights: [n], 0 on padding.
      penalty: [].

    Returns:
      The model in the units of the scores.
    """
    live = signs != 0
    size = jnp.maximum(jnp.sum(live), 1).astype(scores.dtype)
    heaviest = jnp.max(weights, initial=0.0)
    relative = numerics.safe_divide(weights, jnp.full_like(weights, heaviest))
    shares = numerics.safe_divide(relative, jnp.full_like(weights, jnp.sum(relative)))
    reach = jnp.max(jnp.abs(scores), axis=0, initial=0.0)
    scaled = numerics.safe_divide(scores, jnp.broadcast_to(reach, scores.shape))
    mean = jnp.sum(shares[:, None] * scaled, axis=0)
    centred = jnp.where(live[:, None], scaled - mean[None], 0.0)
    deviation = jnp.sqrt(jnp.sum(shares[:, None] * centred * centred, axis=0))
    deviation = jnp.where(deviation > 8 * jnp.finfo(scores.dtype).eps, deviation, 0.0)
    inputs = numerics.safe_divide(centred, jnp.broadcast_to(deviation, centred.shape))
    design = (
        jnp.concatenate([inputs, jnp.ones_like(inputs, shape=(len(live), 1))], axis=1)
        * signs[:, None]
    )
    # 1 for coefficients of constant scores, on which the loss does not depend
    ridge = jnp.append(jnp.where(deviation > 0, penalty / size, 1.0), _OFFSET_PENALTY).astype(
        scores.dtype
    )
    parameters = _minimise(design, shares, ridge)
    coefficients = numerics.safe_divide(parameters[:-1], deviation * reach)
    return LogOdds(
        coefficients,
        parameters[-1] - jnp.sum(numerics.safe_divide(parameters[:-1] * mean, deviation)),
    )


def _minimise(design: Array, shares: Array, ridge: Array) -> Array:
    """Parameters [d + 1] of least mean logistic loss of margins `design @ parameters`, with ridge
    penalties, by damped Newton steps.
    """
    eps = jnp.finfo(design.dtype).eps

    def margins(parameters: Array) -> Array:
        return jnp.matmul(design, parameters, precision=lax.Precision.HIGHEST)

    def objective(parameters: Array) -> Array:
        losses = jnp.where(shares > 0, shares * jax.nn.softplus(-margins(parameters)), 0.0)
        return jnp.sum(losses) + jnp.sum(ridge * parameters * parameters) / 2

    def step(state: _LogisticNewton) -> _LogisticNewton:
        doubts = jax.nn.sigmoid(-margins(state.parameters))
        direction = _newton_direction(design, shares, ridge, state.parameters, doubts)
        candidates = (
            state.parameters[None]
            - 0.5 ** jnp.arange(_HALVINGS, dtype=design.dtype)[:, None] * direction[None]
        )
        objectives = lax.map(objective, candidates)
        best = jnp.nanargmin(jnp.where(jnp.isnan(objectives), jnp.inf, objectives))
        falls = objectives[best] < state.objective
        parameters = jnp.where(falls, candidates[best], state.parameters)
        return _LogisticNewton(
            parameters,
            jnp.where(falls, objectives[best], state.objective),
            jnp.where(falls, state.objective - objectives[best], 0.0),
        )

    start = jnp.zeros_like(ridge)
    first = objective(start)
    state = _LogisticNewton(start, first, jnp.full_like(first, jnp.inf))
    last, _ = loops.bounded_loop(
        step, lambda state: state.decrease > 2 * eps * state.objective, state, max_checks=_MAX_STEPS
    )
    return last.parameters


def _newton_direction(
    design: Array, shares: Array, ridge: Array, parameters: Array, doubts: Array
) -> Array:
    """The Newton direction [d + 1], of which a step is subtracted. `doubts` [n] are the
    probabilities of the wrong class.
    """
    gradient = ridge * parameters - jnp.matmul(
        shares * doubts, design, precision=lax.Precision.HIGHEST
    )
    curvature = shares * doubts * (1 - doubts)
    hessian = jnp.matmul(
        design.T * curvature[None], design, precision=lax.Precision.HIGHEST
    ) + jnp.diag(ridge)
    lifted = hessian + jnp.diag(_LIFT * jnp.finfo(design.dtype).eps * jnp.diagonal(hessian))
    return jax.scipy.linalg.solve(lifted, gradient, assume_a="pos")
