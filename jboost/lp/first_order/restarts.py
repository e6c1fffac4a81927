"""Restarts, and the controller of the primal weight (Lu, Peng and Yang 2025, "cuPDLPx")."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import loops, reduce
from jboost.base.types import Array
from jboost.lp.first_order.state import FirstOrderPoint, FirstOrderState, clamped_weight

# Restarts (cuPDLPx): the decreases of the fixed-point error that trigger one, and the length of an
# epoch, as a share of all iterations, that does.
_SUFFICIENT, _NECESSARY, _ARTIFICIAL = 0.2, 0.5, 0.36
_PROPORTIONAL, _INTEGRAL, _FADING = 0.5, 0.01, 0.3  # the controller of the primal weight (cuPDLPx)


class Distance(NamedTuple):
    """Norms of one part of z, primal or dual."""

    largest: Array  # [] the largest |entry| of T z
    farthest: Array  # [] the largest |entry| of T z - z_0
    length: Array  # [] |T z|
    moved: Array  # [] |T z - z_0|
    error: Array  # [] |T z - z|


class Distances(NamedTuple):
    """The norms of both parts of z."""

    primal: Distance
    dual: Distance


def measure_distance(point: Array, mapped: Array, anchor: Array) -> Distance:
    move, error = mapped - anchor, mapped - point
    largest, farthest, *squares = reduce.several(
        (reduce.LARGEST, jnp.abs(mapped)),
        (reduce.LARGEST, jnp.abs(move)),
        (reduce.SUM, mapped * mapped),
        (reduce.SUM, move * move),
        (reduce.SUM, error * error),
    )
    return Distance(
        jnp.maximum(largest, 0.0),
        jnp.maximum(farthest, 0.0),
        *(jnp.sqrt(square) for square in squares),
    )


class _Epoch(NamedTuple):
    """The parts of a state that a restart changes."""

    point: FirstOrderPoint
    anchor: FirstOrderPoint
    primal_weight: Array  # []
    imbalance: Array  # []
    anchor_error: Array  # []
    last_error: Array  # []
    num_since: Array  # [] int32


def maybe_restart(
    state: FirstOrderState, distances: Distances, cross: Array, size: Array
) -> FirstOrderState:
    """Restarts from T z if the fixed-point error |z - T z|_P has decreased enough or the epoch is
    long. `cross` is the sum of (y - T y) A (x - T x).
    """
    far, steep = distances.primal.error, distances.dual.error

    def error_in(weight: Array) -> Array:
        return jnp.sqrt(jnp.maximum((weight * far**2 + steep**2 / weight) / size + 2 * cross, 0.0))

    error = error_in(state.primal_weight)
    restarts = (
        (error <= _SUFFICIENT * state.anchor_error)
        | ((error <= _NECESSARY * state.anchor_error) & (error > state.last_error))
        | (
            state.num_since.astype(error.dtype)
            >= _ARTIFICIAL * state.num_iterations.astype(error.dtype)
        )
    )

    def restart() -> _Epoch:
        weight, imbalance = _rebalance(state, distances)
        nothing, infinite = jnp.zeros_like(state.num_since), jnp.full_like(error, jnp.inf)
        return _Epoch(
            state.mapped, state.mapped, weight, imbalance, error_in(weight), infinite, nothing
        )

    def go_on() -> _Epoch:
        return _Epoch(
            state.point,
            state.anchor,
            state.primal_weight,
            state.imbalance,
            state.anchor_error,
            error,
            state.num_since,
        )

    epoch: _Epoch = loops.cond(restarts, restart, go_on)
    met = jnp.abs(cross) / jnp.maximum(far * steep, jnp.finfo(far.dtype).tiny)
    return state._replace(norm=jnp.maximum(state.norm, jnp.minimum(met, 1.0)), **epoch._asdict())


def _rebalance(state: FirstOrderState, distances: Distances) -> tuple[Array, Array]:
    """The primal weight and the imbalance after a restart. The controller balances the distances
    that the primal and the dual move between restarts.
    """
    moved, shifted = distances.primal.moved, distances.dual.moved
    tiny = jnp.finfo(moved.dtype).eps * (1 + distances.primal.length + distances.dual.length)
    is_known = (moved > tiny) & (shifted > tiny)
    excess = jnp.log(
        jnp.where(is_known, state.primal_weight * moved / jnp.where(is_known, shifted, 1.0), 1.0)
    )
    imbalance = _FADING * state.imbalance + excess
    change = _PROPORTIONAL * excess + _INTEGRAL * imbalance
    return (
        jnp.where(
            is_known, clamped_weight(state.primal_weight * jnp.exp(-change)), state.primal_weight
        ),
        imbalance,
    )
