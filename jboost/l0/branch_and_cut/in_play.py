"""The hypotheses that a better point of (15) of Goldberg and Eckstein (2009) may use: those whose
reduced cost is below the gap.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, devices, numerics
from jboost.base.boosting import Everything
from jboost.base.types import Array, Dataset, PyTree
from jboost.l0 import pricing
from jboost.l0.booster import L0
from jboost.l0.branch_and_cut import solve as exact
from jboost.l0.pricing import PricingProof
from jboost.l0.types import L0Fit
from jboost.learners import prices


class Play(NamedTuple):
    """The pool of hypotheses that a better point may use."""

    data: exact.Data
    hypotheses: PyTree  # leaves [capacity, ...]
    count: Array  # [] int32 number of these
    # [] lower bound on the points of (15) with a hypothesis that is not in the pool
    left_out: Array
    num_hypotheses: Array  # [] int32 hypotheses whose reduced cost is below the gap


@functools.partial(devices.host_jit, static_argnames=("max_in_play",))
def put_in_play(
    rounds: L0, fitted: L0Fit, dataset: Dataset, key: Array | None, *, max_in_play: int
) -> Play:
    """All hypotheses of the learner whose reduced cost is below the gap."""
    learner, known = fitted.ensemble.learner, fitted.certificate
    state = learner.init(key, dataset)
    every = learner.every(state)
    capacity = min(max_in_play, every.costs.shape[0])
    constant_cost, upper = (
        jnp.asarray(rounds.constant_cost, known.lower_bound.dtype),
        known.integer_upper_bound,
    )
    bounds = _lower_bounds(known.integer_proof, every, dataset, learner.least_price(state), upper)
    order = jnp.argsort(bounds)
    chosen = order[:capacity]
    left_out = jnp.min(
        jnp.where(jnp.arange(len(order)) >= capacity, bounds[order], jnp.inf), initial=jnp.inf
    )
    is_in_play = _are_cheapest(every.outputs[chosen], every.costs[chosen]) & (
        bounds[chosen] < upper
    )
    pool = jax.tree.map(lambda leaf: leaf[chosen], every)
    ones = jnp.where(dataset.mask, 1.0, 0.0).astype(pool.outputs.dtype)
    data = exact.Data(
        outputs=jnp.concatenate([jnp.stack([ones, -ones]), pool.outputs]).T,
        labels=boosting.signs(dataset),
        costs=jnp.concatenate([jnp.stack([constant_cost, constant_cost]), pool.costs]),
        weights=dataset.weights.astype(pool.outputs.dtype),
        mask=dataset.mask,
        column_mask=jnp.concatenate([jnp.ones((2,), bool), is_in_play]),
        margin=jnp.asarray(rounds.margin, pool.outputs.dtype),
    )
    return Play(
        data,
        pool.hypotheses,
        jnp.asarray(capacity, jnp.int32),
        left_out,
        jnp.sum(bounds < upper, dtype=jnp.int32),
    )


def _lower_bounds(
    proof: PricingProof, every: Everything, dataset: Dataset, least_price: Array, upper: Array
) -> Array:
    """Returns for each hypothesis a lower bound on the loss of points of (15) that use it, [U].

    The bounds hold for points of loss at most `upper`, and are rounded down. With mu_u = 1 the
    terms of mu_u and lambda_u in the Lagrangian are c_u - s_u - g_u lambda_u. This is linear in
    lambda_u and therefore minimal at 0 or 1. The proof of the bound of the relaxation has c_u + r -
    s_u - g_u >= alpha for all of lambda, and b r for all of mu.
    """
    weights, never_abstain = (
        proof.example_weights,
        jnp.all((every.outputs != 0) | ~dataset.mask[None, :]),
    )
    pairs = pricing.pair_list(proof, True, never_abstain)
    labels = boosting.signs(dataset)
    is_priced = every.costs < jnp.inf
    costs = jnp.where(is_priced, every.costs, 0.0)
    edge_and_cuts, cuts = (
        prices.worth(every.outputs.T, labels, part, pairs, costs).own
        for part in (weights, jnp.zeros_like(weights))
    )
    slack = prices.slack(weights, pairs, costs)
    reduced = (
        jnp.minimum(proof.excess - cuts, proof.excess - edge_and_cuts - proof.least) - 2 * slack
    )
    most = jnp.where(least_price > 0, 1 + numerics.safe_divide(upper, least_price), jnp.inf) * (
        1 + 8 * jnp.finfo(weights.dtype).eps
    )
    charge = jnp.where(
        proof.excess > 0, proof.excess * jnp.maximum(most - proof.selected_bound, 0.0), 0.0
    )
    bounds = proof.bound - charge + jnp.maximum(reduced, 0.0)
    bounds = bounds - 8 * jnp.finfo(weights.dtype).eps * (
        jnp.abs(proof.bound) + charge + jnp.abs(reduced)
    )
    return jnp.where(is_priced, jnp.where(jnp.isfinite(bounds), bounds, -jnp.inf), jnp.inf)


def _are_cheapest(outputs: Array, costs: Array) -> Array:
    """Returns whether each row [k, m] of -1, 0 and +1 is the cheapest among equal rows, [k] bool.

    Of equal rows with equal costs, only the first is the cheapest.
    """
    inner = jnp.matmul(outputs, outputs.T, precision=lax.Precision.HIGHEST)
    sizes = jnp.diagonal(inner)
    is_same = sizes[:, None] + sizes[None, :] == 2 * inner
    is_earlier = jnp.tri(outputs.shape[0], k=-1, dtype=bool)
    is_better = (costs[None, :] < costs[:, None]) | (
        (costs[None, :] == costs[:, None]) & is_earlier
    )
    return ~jnp.any(is_same & is_better, axis=1)
