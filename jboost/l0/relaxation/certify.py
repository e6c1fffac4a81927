"""Bounds on the relaxation (18) of Goldberg and Eckstein (2009) that hold in exact arithmetic, each
from a dual or a primal point alone.

Lower bound: let w, v >= 0 satisfy (19b), (1 + rho) w_i + sum of v over the cuts of i <= weight_i.
Let s_u be the sum of v over the cuts that count u, g_u = sum_i y_i H_iu w_i, r = max_u
[s_u - c_u]_+, and b an upper bound on sum mu at an optimum. Then rho sum w + sum v - b r + min_u
(c_u + r - s_u - g_u) is a lower bound. The term b r makes the dual feasible; the printed (20) and
(22) omit it. Sums are rounded outwards.

Upper bound: lambda, mu and xi are multiples of 2^-nmant, nmant the number of bits of the fraction
of a float. So every sum below 2 is exact, also in products of matrices. A larger sum of mu is never
computed as less than 1, and a cut requires no more than 1. xi is the least that all cuts of both
orders require.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, numerics, reduce
from jboost.base.types import Array
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import Dual, Held, Primal, RelaxationInstance
from jboost.l0.votes import grids


def lower_bound(
    example_weights: Array,
    pair_weights: Array,
    *,
    margin: Array,
    excess: Array | float,
    least: Array,
    selected_bound: Array | float,
) -> Array:
    """The lower bound on the relaxation over all hypotheses that a dual proves, [], rounded down:
    the dual (19) of Goldberg and Eckstein (2009), with q >= 0 kept.

    Args:
      example_weights: [m] w >= 0 that satisfy (19b) together with v, as in an `L0Relaxation`.
      pair_weights: [K] v >= 0.
      margin: [] rho.
      excess: [] r, an upper bound on max_u [s_u - c_u]_+ over all hypotheses.
      least: [] a lower bound on min_u (c_u + r - s_u - g_u) over all hypotheses, with this r.
      selected_bound: [] b, an upper bound on sum mu at some optimum.

    >>> import jax.numpy as jnp
    >>> from jboost.l0.relaxation import certify
    >>> bound = certify.lower_bound(
    ...     jnp.array([1.0]),
    ...     jnp.array([0.5]),
    ...     margin=jnp.array(0.25),
    ...     excess=0.0,
    ...     least=-0.5,
    ...     selected_bound=1.0,
    ... )
    >>> round(float(bound), 6)
    0.25
    """
    dtype = example_weights.dtype
    margin, excess, least, bound = (
        jnp.asarray(part, dtype)[None] for part in (margin, excess, least, selected_bound)
    )
    ones = jnp.ones_like(pair_weights)
    left = jnp.concatenate([example_weights, pair_weights, excess, least])
    right = jnp.concatenate(
        [jnp.broadcast_to(margin, example_weights.shape), ones, -bound, jnp.ones((1,), dtype)]
    )
    is_known = jnp.isfinite(least[0]) & jnp.isfinite(excess[0])
    low, _ = brackets.bracket_dot(jnp.where(jnp.isfinite(left), left, 0.0), right)
    return jnp.where(is_known, low, -jnp.inf)


def allowed(instance: RelaxationInstance, held: Held, dual: Dual) -> Dual:
    """A dual near this one that satisfies (19b) in exact arithmetic, and s_u <= c_u for the pool up
    to rounding.
    """
    eps = float(jnp.finfo(instance.costs.dtype).eps)
    weights = cleaned(dual.example_weights)
    pair_weights = jnp.where(held.is_used, cleaned(dual.pair_weights), 0.0)
    sums = held.serving(pair_weights)
    is_over = sums > instance.costs * (1 - 64 * eps)
    share = jnp.where(is_over, numerics.safe_divide(instance.costs, sums) * (1 - 64 * eps), 1.0)
    shares = 1 - held.largest(1 - share)
    pair_weights = cleaned(jnp.where(shares > 0, pair_weights * shares, 0.0))
    heavy = _load(instance, held, Dual(weights, pair_weights))
    keep = jnp.where(
        heavy > instance.weights, numerics.safe_divide(instance.weights, heavy) * (1 - 8 * eps), 1.0
    )
    return Dual(cleaned(weights * keep), cleaned(pair_weights * held.lesser_end(keep)))


def cleaned(values: Array) -> Array:
    """The finite values above 1e-30, which is far from subnormal numbers; 0 for all others."""
    return jnp.where((values > 1e-30) & (values < jnp.inf), values, 0.0)


def _load(instance: RelaxationInstance, held: Held, dual: Dual) -> Array:
    """(1 + rho) w_i + sum of v over the cuts of i, [m], rounded up."""

    def load(weights: Array, pair_weights: Array, margin: Array, held: Held) -> Array:
        wide = brackets.widen(pair_weights)
        total = held.spread(wide, weights.shape[0]) + brackets.widen(weights) * (
            1 + brackets.widen(margin)
        )
        slack = total * ((pair_weights.shape[0] + 8) * 2.0**-52)
        return brackets.round_outwards(total, slack, weights.dtype)[1]

    return numerics.in_64_bits(load)(dual.example_weights, dual.pair_weights, instance.margin, held)


def prove_lower(instance: RelaxationInstance, held: Held, dual: Dual) -> tuple[Array, Array]:
    """The lower bound over the pool that a dual from `allowed` proves, [], and alpha, []. Without a
    column they are -inf and 0.
    """
    return prove_from_sums(
        instance, dual.example_weights, held.most_serving(dual.pair_weights), dual.pair_weights
    )


def prove_from_sums(
    instance: RelaxationInstance, example_weights: Array, served: Array, sums: Array
) -> tuple[Array, Array]:
    """`prove_lower` from sums of pair weights.

    Args:
      instance: of m examples and U columns.
      example_weights: [m] w.
      served: [U] sums over the cuts that count each hypothesis, rounded up.
      sums: [k] sums over disjoint parts of all cuts, rounded down.
    """
    _, edges = brackets.bracket_dot(instance.margins.T, example_weights[None, :])
    is_column, costs = instance.is_column, instance.costs
    above = brackets.bracket_dot(
        jnp.stack([served, -costs], axis=1), jnp.ones((1, 2), costs.dtype)
    )[1]
    excess = jnp.maximum(reduce.largest(jnp.where(is_column, above, 0.0)), 0.0)
    parts = jnp.stack([costs, jnp.broadcast_to(excess, costs.shape), -served, -edges], axis=1)
    reduced, _ = brackets.bracket_dot(parts, jnp.ones((1, 4), costs.dtype))
    least = reduce.least(jnp.where(is_column, reduced, jnp.inf))
    most = jnp.sum(is_column, dtype=costs.dtype)  # as mu <= 1 at some optimum
    proven = lower_bound(
        example_weights,
        sums,
        margin=instance.margin,
        excess=excess,
        least=least,
        selected_bound=most,
    )
    return proven, jnp.where(jnp.isfinite(least), least - excess, 0.0)


def on_grid(instance: RelaxationInstance, primal: Primal) -> tuple[Primal, Array]:
    """The point rounded to the grid, with lambda on the simplex and mu >= lambda; and the least
    slacks [m] that its margins allow, also on the grid.
    """
    dtype = instance.costs.dtype
    unit = jnp.asarray(2.0 ** -jnp.finfo(dtype).nmant, dtype)
    coefficients = grids.nearest(
        jnp.where(instance.is_column, cleaned(primal.coefficients), 0.0), instance.is_column, unit
    )
    selected = jnp.where(instance.is_column, jnp.minimum(cleaned(primal.selected), 1.0), 0.0)
    selected = jnp.maximum(jnp.round(selected / unit) * unit, coefficients)
    reached = jnp.matmul(instance.margins, coefficients, precision=lax.Precision.HIGHEST)

    def least_slacks(reached: Array, margin: Array) -> Array:
        margin = brackets.widen(margin)
        return numerics.round_up(
            (margin - brackets.widen(reached)) / (1 + margin) + 2.0**-50, reached.dtype
        )

    least = (
        jnp.ceil(
            jnp.maximum(numerics.in_64_bits(least_slacks)(reached, instance.margin), 0.0) / unit
        )
        * unit
    )
    least = jnp.where(jnp.arange(least.shape[0]) < instance.num_real, least, 0.0)
    slacks = (
        jnp.round(
            jnp.clip(jnp.where(jnp.isfinite(primal.slacks), primal.slacks, 1.0), 0.0, 2.0) / unit
        )
        * unit
    )
    return Primal(coefficients, selected, jnp.maximum(slacks, least)), least


def raised(
    instance: RelaxationInstance, primal: Primal, least: Array, required: pair_cuts.LeastSlacks
) -> Primal:
    """The point with the slacks of one class set to the least values with which all cuts hold; the
    class is the one for which that is cheaper.
    """
    is_minority = jnp.arange(least.shape[0]) < instance.num_minority
    full = jnp.maximum(least, required.least)
    candidates = (
        jnp.where(is_minority, full, primal.slacks),
        jnp.where(is_minority, primal.slacks, full),
    )
    prices = [jnp.sum(instance.weights * slacks) for slacks in candidates]
    return primal._replace(slacks=jnp.where(prices[0] <= prices[1], *candidates))


def price(instance: RelaxationInstance, primal: Primal) -> Array:
    """The objective of a feasible point, [], rounded up."""
    both = (
        jnp.concatenate([instance.weights, instance.costs]),
        jnp.concatenate([primal.slacks, primal.selected]),
    )
    return brackets.bracket_dot(*both)[1]
