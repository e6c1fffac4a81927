"""The votes with the largest relaxed margin, smoothed so that they are unique and differentiable.

The objective is phi(A w) - votes_smoothing * KL(w || uniform), maximised over votes w in the
simplex. phi(A w) is the minimum of <A w, d> + f(d) + smoothing * KL(d || prior) over distributions
d. With w = softmax(z)
the optimality condition is z = A'd(A w) / votes_smoothing up to a constant: Newton's method finds
z. Its direction ascends the objective, which is concave in the votes. A line search halves the step
until the objective does not decrease.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, check, devices, labelled, loops, meshes, reduce
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.relaxations import envelope
from jboost.relaxed_margin.solve import check_feasible

# The largest change of a logit in one step. A round number; not tuned.
_LONGEST = 20.0
# Shares of a Newton step below this one are accepted: their change of the objective is rounding.
_LEAST_SHARE = 2.0**-10
# The most steps. A round number; not tuned.
_MAX_STEPS = 100


class SmoothedSolution(NamedTuple):
    """Votes and example weights of the smoothed problem."""

    coefficients: Array  # [n] votes, positive, of sum 1
    example_weights: Array  # [m]
    value: Array  # [] of the smoothed problem, up to rounding; not a certified bound
    logits: Array  # [n] of the votes; may be passed as `initial` of a similar problem
    num_iterations: Array  # [] int32
    status: Array  # [] int32: OPTIMAL, ITERATION_LIMIT, INFEASIBLE or INVALID_INPUT


@meshes.takes_sharded
def solve_smoothed(
    margins: ArrayLike,
    relaxation: Any,
    *,
    smoothing: ArrayLike = 0.05,
    votes_smoothing: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    initial: ArrayLike | None = None,
) -> SmoothedSolution:
    """The votes of largest smoothed relaxed margin, for training loops that differentiate them.

    As both smoothings go to 0, the votes converge to those of `jboost.relaxed_margin.solve` over
    votes that are not negative; the value differs by at most smoothing * log(1 / min
    p_i) + votes_smoothing * log n. Derivatives are those of the implicit function, in both modes
    and of any order, with respect to the margins, the numbers of the relaxation, both smoothings
    and the weights; `initial` has none.

    Args:
      margins: A [m, n], y_i h_j(x_i). A hypothesis whose negation counts has two columns.
      relaxation: f, such as `jboost.relaxations.soft_margin(nu=0.1)`.
      smoothing: [] positive, the strength of the entropy of the example weights, in units of
        margin.
      votes_smoothing: [] positive, the strength of the entropy of the votes. None for `smoothing`.
      weights: [m] importance of each example, not negative. None for ones.
      mask: [m] bool, False for padding rows.
      initial: [n] the logits of the solution of a similar problem, as a start.

    Returns:
      A `SmoothedSolution`; NaN with another status than OPTIMAL and ITERATION_LIMIT.

    Raises:
      ValueError: naming the argument; where values are known, also if no distribution meets the
        relaxation.

    Source: the saddle point of Shalev-Shwartz and Singer (2008), Theorem 7, with the entropies of
    Nesterov, Smooth minimization of non-smooth functions (2005).

    >>> import jboost
    >>> soft = jboost.relaxations.soft_margin(nu=0.5)
    >>> found = jboost.relaxed_margin.solve_smoothed([[1.0, -1.0], [1.0, 1.0]], soft, smoothing=0.1)
    >>> bool(found.coefficients[0] > 0.99), jboost.status.Status(int(found.status)).name
    (True, 'OPTIMAL')
    """
    matrix = check.numeric("margins", margins, shape=("m", "n"), kinds="fiu").astype(float)
    if 0 in matrix.shape:
        raise ValueError(f"margins has shape {list(matrix.shape)}: expected one row and one column")
    tau = check.number("smoothing", smoothing, low=0, high=check.LARGEST, open_low=True).astype(
        float
    )
    mu = (
        tau
        if votes_smoothing is None
        else check.number(
            "votes_smoothing", votes_smoothing, low=0, high=check.LARGEST, open_low=True
        ).astype(float)
    )
    sizes, kept = labelled.validate_weights(weights, mask, matrix.shape[0])
    start = (
        jnp.zeros(matrix.shape[1])
        if initial is None
        else check.numeric("initial", initial, shape=(matrix.shape[1],), kinds="f")
    )
    rows = Dataset(matrix, devices.ones_beside(kept), sizes, kept)
    check_feasible(relaxation, rows)
    return _solve(rows, relaxation, tau, mu, start.astype(float))


class _Game(NamedTuple):
    matrix: Array  # [m, n], 0 on padding
    relaxation: Any
    smoothing: Array  # []
    votes_smoothing: Array  # []
    prior: Array  # [m]


@jax.jit
def _solve(rows: Dataset, relaxation: Any, tau: Array, mu: Array, start: Array) -> SmoothedSolution:
    is_finite = jnp.all(jnp.isfinite(rows.features) | ~rows.mask[:, None])
    is_valid = boosting.is_valid(rows) & is_finite & relaxation.is_valid() & (tau > 0) & (mu > 0)
    is_real = rows.mask & is_valid
    prior = boosting.initial_distribution(rows._replace(mask=is_real))
    matrix = jnp.where(is_real[:, None], rows.features, 0.0)
    is_feasible = relaxation.is_feasible(prior)
    game = _Game(matrix, relaxation, tau, mu, prior)
    found, num_steps, is_there = _find(lax.stop_gradient(game), lax.stop_gradient(start))
    logits = lax.custom_root(
        functools.partial(_residual, game), found, lambda _, begin: begin, _solve_tangent
    )
    votes = jax.nn.softmax(logits)
    margins = _product(matrix, votes)
    value = envelope.minimum(relaxation, margins, tau, prior, None) - mu * _divergence(votes)
    status = jnp.where(is_there, int(Status.OPTIMAL), int(Status.ITERATION_LIMIT))
    status = jnp.where(is_feasible, status, int(Status.INFEASIBLE))
    spoiled = jnp.where(is_valid & is_feasible, 1.0, jnp.nan)
    return SmoothedSolution(
        coefficients=votes * spoiled,
        example_weights=envelope.minimiser(relaxation, margins, tau, prior, None) * spoiled,
        value=value * spoiled,
        logits=jnp.where(is_valid & is_feasible, lax.stop_gradient(found), 0.0),
        num_iterations=num_steps,
        status=jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


_product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def _divergence(votes: Array) -> Array:
    """The KL divergence of votes from uniform votes."""
    return jnp.sum(votes * jnp.log(jnp.maximum(votes, jnp.finfo(votes.dtype).tiny))) + jnp.log(
        float(votes.shape[0])
    )


def _residual(game: _Game, logits: Array) -> Array:
    """The difference of logits from those that their votes imply, [n]. The free constant is 0."""
    return _evaluate(game, logits)[0]


def _evaluate(game: _Game, logits: Array) -> tuple[Array, tuple[Array, Array]]:
    """The residual [n], and as auxiliary output the residual and the objective []."""
    votes = jax.nn.softmax(logits)
    margins = _product(game.matrix, votes)
    given = (game.relaxation, margins, game.smoothing, game.prior, None)
    weights = envelope.minimiser(*given)
    edges = _product(weights, game.matrix)
    residual = logits - (edges - jnp.mean(edges)) / game.votes_smoothing
    gain = envelope.objective(weights, *given) - game.votes_smoothing * _divergence(votes)
    return residual, (residual, gain)


def _solve_tangent(linear: Any, value: Array) -> Array:
    """Solves a linear map of [n] numbers by its matrix."""
    return jnp.linalg.solve(jax.jacobian(linear)(value), value)


class _SmoothedSearch(NamedTuple):
    logits: Array  # [n]
    gain: Array  # [] the objective there
    move: Array  # [n] the Newton step that is tried next, to be subtracted
    share: Array  # [] of the step that is tried next
    error: Array  # [] the largest entry of the step


def _find(game: _Game, start: Array) -> tuple[Array, Array, Array]:
    """The logits [n], the number of steps [], and whether they are a solution to rounding []."""
    dtype = start.dtype
    eps = jnp.finfo(dtype).eps
    largest = reduce.largest_size(game.matrix)
    newton = jax.jacfwd(functools.partial(_evaluate, game), has_aux=True)

    def step(now: _SmoothedSearch) -> _SmoothedSearch:
        tried = now.logits - now.share * now.move
        matrix, (residual, gain) = newton(tried)
        move = jnp.linalg.solve(matrix, residual)
        error = reduce.largest_size(move)
        move = move * jnp.minimum(1.0, _LONGEST / jnp.where(error > 0, error, 1.0))
        taken = _SmoothedSearch(tried, gain, move, jnp.ones((), dtype), error)
        rounding = 32 * eps * (largest + jnp.abs(now.gain))
        is_taken = (gain >= now.gain - rounding) | (now.share < _LEAST_SHARE)
        other = now._replace(share=0.5 * now.share, error=jnp.full((), jnp.inf, dtype))
        return jax.tree.map(lambda new, old: jnp.where(is_taken, new, old), taken, other)

    infinite = jnp.full((), jnp.inf, dtype)
    first = _SmoothedSearch(
        start - jnp.mean(start), -infinite, jnp.zeros_like(start), jnp.ones((), dtype), infinite
    )
    tolerance = 32 * eps * (1 + largest / game.votes_smoothing) * (1 + largest / game.smoothing)
    last, count = loops.bounded_loop(
        step, lambda now: now.error > tolerance, first, max_checks=_MAX_STEPS
    )
    return last.logits - last.share * last.move, count, last.error <= tolerance
