"""Chvatal-Gomory cuts from three rows with entries 0 and 1 each, such as pair cuts (Balas and Ng
1989). `jboost.l0.strengthen` has the argument for them.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array

# Each pair cut is combined with this many others, those that share most of the point with it, and
# the best third cut is searched for each combination.
_PARTNERS = 8


def rows_of(rows: Array, triples: Array) -> Array:
    """The new cuts [C, U + m] from the rows [P, U + m] of the pair cuts, 0 for empty slots."""
    is_used = triples[:, 0] >= 0
    counts = jnp.sum(rows[jnp.maximum(triples, 0)], axis=1)
    return jnp.where(is_used[:, None], jnp.ceil(counts / 2), 0.0)


def separate(rows: Array, is_pair: Array, point: Array) -> tuple[Array, Array]:
    """Distinct triples [k, 3] of rows [P, n], and the violations [k] of their cuts by a point [n].

    The left-hand side of a cut is half of two sums: of the left-hand sides of the three rows, and
    of the variables that occur in an odd number of these rows.
    """
    number = len(rows)
    reached = jnp.matmul(rows, point, precision=lax.Precision.HIGHEST)
    shared = jnp.matmul(rows * point[None, :], rows.T, precision=lax.Precision.HIGHEST)
    eye = jnp.eye(number, dtype=bool)
    allowed = is_pair[:, None] & is_pair[None, :] & ~eye
    _, partners = lax.top_k(jnp.where(allowed, shared, -jnp.inf), min(_PARTNERS, number))
    one, two = jnp.repeat(jnp.arange(number), partners.shape[1]), partners.reshape(-1)
    differ = jnp.abs(rows[one] - rows[two])
    odd = jnp.sum(differ * point[None, :], axis=1)[:, None] + reached[None, :]
    odd -= 2 * jnp.matmul(differ * point[None, :], rows.T, precision=lax.Precision.HIGHEST)
    value = (reached[one][:, None] + reached[two][:, None] + reached[None, :] + odd) / 2
    is_third = is_pair[None, :] & ~eye[one] & ~eye[two] & allowed[one, two][:, None]
    violation = jnp.where(is_third, 2 - value, -jnp.inf)
    third = jnp.argmax(violation, axis=1)
    triples = jnp.sort(jnp.stack([one, two, third], axis=1), axis=1).astype(jnp.int32)
    worst = jnp.max(violation, axis=1)
    order = jnp.lexsort((triples[:, 2], triples[:, 1], triples[:, 0]))
    triples, worst = triples[order], worst[order]
    repeats = jnp.concatenate(
        [jnp.zeros((1,), bool), jnp.all(triples[1:] == triples[:-1], axis=1)]
    )[: len(worst)]
    return triples, jnp.where(repeats, -jnp.inf, worst)
