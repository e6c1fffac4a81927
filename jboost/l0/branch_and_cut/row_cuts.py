"""Cuts for the sparse minimum disagreement problem (15) of Goldberg and Eckstein (2009), each from
many margin rows.

With weights a >= 0 on the rows sum_u y_i H_iu lambda_u + (1 + rho) xi_i >= rho, edges e_u = sum_i
a_i y_i H_iu, b = rho sum a and any level s < b,

    sum_u max(0, e_u - s) lambda_u + (1 + rho) sum_i a_i xi_i >= b - s

since sum lambda = 1. As lambda <= mu, lambda may be replaced by mu. As mu and xi are integral,
coefficients above the right-hand side may be reduced to it. So all points of (15) satisfy

    sum_u min(1, (e_u - s)^+ / (b - s)) mu_u + sum_i min(1, (1 + rho) a_i / (b - s)) xi_i >= 1

Level 0 needs no sum of lambda: it holds for all lambda in [0, 1]^U, as in (9) in units of K, where
1 + rho is another constant.

If rho <= 1/2, or no hypothesis abstains, a pair cut is this cut for equal weights on its two rows
and level 0. Coefficients are rounded up, so that the cuts are valid as stored.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import brackets
from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation.cut_rows import CutRows
from jboost.l0.types import CutIndices, RelaxationInstance

_LEAST_WEIGHT = 1e-5  # a row with a smaller share of the sum of the weights is left out
_LEAST_RISE = 1e-3  # least difference b - s, relative to rho, as coefficients are divided by it
_ROUNDING = 16  # rounding units by which coefficients are raised


def usable(row_weights: Array) -> Array:
    """Weights [..., m] without negative and tiny entries, scaled to a sum of about 1; all 0 if no
    entry is positive.
    """
    kept = jnp.maximum(row_weights, 0.0)
    total = jnp.sum(kept, axis=-1, keepdims=True)
    shares = jnp.where(total > 0, kept / jnp.where(total > 0, total, 1.0), 0.0)
    return jnp.where(shares > _LEAST_WEIGHT, shares, 0.0)


def from_margins(
    instance: RelaxationInstance, slack: Array, row_weights: Array, levels: Array
) -> CutRows:
    """The cuts of `usable` weights [C, m] at levels [C]; `slack` [] is the coefficient of xi in the
    margin rows, 1 + rho above. All coefficients are 1 if the level is not
    below b, which is trivially valid.
    """
    unit = _ROUNDING * jnp.finfo(levels.dtype).eps
    edges = brackets.bracket_dot(instance.margins.T[None, :, :], row_weights[:, None, :])[1]
    reach = brackets.bracket_dot(row_weights, jnp.broadcast_to(instance.margin, row_weights.shape))[
        0
    ]
    rise = (reach - levels)[:, None]
    is_below = rise > _LEAST_RISE * instance.margin
    raised = jnp.where(is_below, (1 + unit) / jnp.where(is_below, rise, 1.0), jnp.inf)

    def share(amounts: Array) -> Array:
        return jnp.where(
            amounts > 0, jnp.minimum(amounts * raised, 1.0), jnp.where(is_below, 0.0, 1.0)
        )

    return CutRows(share(edges - levels[:, None]), share(slack * row_weights))


def best_levels(
    instance: RelaxationInstance,
    slack: Array,
    num_levels: int,
    row_weights: Array,
    selected: Array,
    slacks: Array,
) -> tuple[Array, Array]:
    """For `usable` weights [C, m] the levels [C] whose cuts are violated most at mu and xi, and
    their violations [C]. The levels tried are the first `num_levels` of 0 and the edges.
    """

    def one(weights: Array) -> tuple[Array, Array]:
        edges = times(weights, instance.margins)
        reach = instance.margin * jnp.sum(weights)
        levels = jnp.concatenate([jnp.zeros((1,), edges.dtype), edges])[:num_levels]
        rise = reach - levels
        is_below = rise > _LEAST_RISE * instance.margin
        scale = 1 / jnp.where(is_below, rise, 1.0)[:, None]
        of_columns = jnp.clip((edges[None, :] - levels[:, None]) * scale, 0.0, 1.0)
        of_examples = jnp.minimum(slack * weights[None, :] * scale, 1.0)
        violations = jnp.where(
            is_below, 1 - times(of_columns, selected) - times(of_examples, slacks), -jnp.inf
        )
        best = jnp.argmax(violations)
        return levels[best], violations[best]

    levels, violations = lax.map(one, row_weights)
    return levels, jnp.where(jnp.any(row_weights > 0, axis=1), violations, -jnp.inf)


def are_new(rows: CutRows) -> Array:
    """Whether each row [C] differs from all rows before it, [C] bool."""
    both = jnp.concatenate(rows, axis=1)
    is_same = jax.vmap(lambda one: jnp.all(jnp.abs(both - one[None, :]) < 1e-4, axis=1))(both)
    return ~jnp.any(is_same & jnp.tri(both.shape[0], k=-1, dtype=bool), axis=1)


def violated_pairs(
    instance: RelaxationInstance, selected: Array, slacks: Array, *, most: int, max_entries: int
) -> tuple[CutIndices, Array]:
    """The `most` pair cuts with the largest violations, and their violations; at most one for each
    example.
    """
    required = pair_cuts.search(instance, selected, slacks, max_entries)
    num_examples = slacks.shape[0]
    numbers = jnp.arange(num_examples, dtype=jnp.int32)
    partner = jnp.minimum(required.partner, num_examples - 1)
    is_repeat = (required.partner[partner] == numbers) & (partner < numbers)
    violation = jnp.where(
        is_repeat | (required.partner >= num_examples), -jnp.inf, required.least - slacks
    )
    worst, examples = lax.top_k(violation, min(most, num_examples))
    return CutIndices(examples.astype(jnp.int32), required.partner[examples]), worst
