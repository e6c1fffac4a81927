"""The soft margin of a game as a linear program for HiGHS, whole or by column generation, and the
step of Figure 1 in plain JAX.
"""

from __future__ import annotations

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

COLUMNS_PER_ROUND = 20


def whole_program(matrix: np.ndarray, nu: float, method: str) -> float:
    """The largest soft margin of votes of l1 norm up to 1, by HiGHS on all columns and their
    negations.
    """
    return _program(matrix, nu, method)[0]


def _program(matrix: np.ndarray, nu: float, method: str) -> tuple[float, np.ndarray]:
    rows, columns = matrix.shape
    cost = np.r_[np.zeros(2 * columns), np.full(rows, 1 / (nu * rows)), -1.0]
    margins = sparse.csr_matrix(np.hstack([-matrix, matrix, -np.eye(rows), np.ones((rows, 1))]))
    norm = sparse.csr_matrix(np.r_[np.ones(2 * columns), np.zeros(rows + 1)])
    bounds = [(0, None)] * (2 * columns + rows) + [(None, None)]
    found = linprog(
        cost,
        sparse.vstack([margins, norm]),
        np.r_[np.zeros(rows), 1.0],
        bounds=bounds,
        method=method,
    )
    return -found.fun, -found.ineqlin.marginals[:rows]


def column_generation(
    matrix: np.ndarray, nu: float, tolerance: float, limit_seconds: float
) -> float:
    """The gap that LP-Boost reaches: HiGHS on the columns so far, the 20 columns of largest edge
    added, until the gap is below the tolerance.
    """
    started = time.perf_counter()
    weights = np.full(len(matrix), 1 / len(matrix))
    chosen: list[int] = []
    upper, lower = np.inf, 0.0
    while upper - lower > tolerance and time.perf_counter() - started < limit_seconds:
        edges = np.abs(weights @ matrix)
        upper = min(upper, float(edges.max()))
        if upper - lower <= tolerance:
            break
        fresh = [int(j) for j in np.argsort(-edges) if int(j) not in set(chosen)][
            :COLUMNS_PER_ROUND
        ]
        chosen += fresh
        lower, weights = _program(matrix[:, chosen], nu, "highs-ds")
    return upper - lower


@functools.partial(jax.jit, static_argnames=("max_steps",))
def paper_steps(
    matrix: jax.Array, nu: float, tolerance: float, max_steps: int
) -> tuple[jax.Array, jax.Array]:
    """Figure 1 to the letter, on the whole matrix: the gap and the number of steps."""
    rows, columns = matrix.shape
    strength = tolerance / (2 * np.log(rows))
    cap = 1 / (nu * rows)

    def weigh(margins: jax.Array) -> jax.Array:
        logits = -margins / strength
        descending = -jnp.sort(-logits)
        behind = jax.lax.cumlogsumexp(descending, reverse=True)
        left = 1 - cap * jnp.arange(rows)
        scale = jnp.where(left > 0, jnp.log(jnp.maximum(left, 1e-30)) - behind, -jnp.inf)
        first = jnp.argmax(scale + descending <= jnp.log(cap))
        return jnp.minimum(cap, jnp.exp(logits + scale[first]))

    def attained(margins: jax.Array) -> jax.Array:
        ordered = jnp.sort(margins)
        return jnp.sum(ordered * jnp.clip(nu * rows - jnp.arange(rows), 0, 1)) * cap

    def step(state):
        votes, margins, lower, upper, count = state
        weights = weigh(margins)
        edges = weights @ matrix
        best = jnp.argmax(jnp.abs(edges))
        sign = jnp.sign(edges[best])
        direction = sign * matrix[:, best] - margins
        share = jnp.clip(
            strength * jnp.vdot(weights, direction) / jnp.max(jnp.abs(direction)) ** 2, 0, 1
        )
        votes = (1 - share) * votes + share * sign * (jnp.arange(columns) == best)
        margins = margins + share * direction
        return (
            votes,
            margins,
            jnp.maximum(lower, attained(margins)),
            jnp.minimum(upper, jnp.abs(edges[best])),
            count + 1,
        )

    def goes_on(state):
        return (state[3] - state[2] > tolerance) & (state[4] < max_steps)

    start = (
        jnp.zeros(columns),
        jnp.zeros(rows),
        jnp.zeros(()),
        jnp.full((), jnp.inf),
        jnp.zeros((), jnp.int32),
    )
    _, _, lower, upper, count = jax.lax.while_loop(goes_on, step, start)
    return upper - lower, count
