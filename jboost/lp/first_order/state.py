"""The points and the state of the first-order method, and its static sizes."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import check, reduce
from jboost.base.types import Array
from jboost.lp.first_order.scaling import FirstOrderScaling
from jboost.lp.types import History, ProofConfig, validate_proof

# The largest primal weight in units of the scaled program; its inverse is the smallest.
_LARGEST_WEIGHT = 1e4


@dataclasses.dataclass(frozen=True)
class FirstOrderConfig:
    """Static sizes of the first-order method."""

    max_iterations: int = 100_000
    iterations_per_check: int = 40
    scaling_rounds: int = 2  # rounds of `equilibrate`
    proof: ProofConfig = dataclasses.field(default_factory=ProofConfig)
    history_length: int = 0  # the number of checks that `History` records

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)
        check.count("config.iterations_per_check", self.iterations_per_check, low=1)
        check.count("config.scaling_rounds", self.scaling_rounds, low=0)
        check.count("config.history_length", self.history_length, low=0)
        validate_proof(self.proof)

    @property
    def at_once(self) -> int:
        """Iterations between two checks."""
        return min(self.iterations_per_check, self.max_iterations)


class FirstOrderPoint(NamedTuple):
    """A primal and a dual point."""

    primal: Array  # [n]
    dual: Array  # [m]


class WarmStart(NamedTuple):
    """The first point and primal weight of a run, in the units of the program."""

    primal: Array  # [n]
    dual: Array  # [m]
    # [] the square root of the dual step over the primal step; 0 if unknown
    primal_weight: Array


class FirstOrderState(NamedTuple):
    """The state between checks; points are in the units of the scaled program."""

    scaling: FirstOrderScaling
    # the sums of absolute terms where all entries of the scaled point are 1
    row_sizes: Array  # [m]
    column_sizes: Array  # [n]
    # [n] each, given or implied bounds of the variables, in the units of the program
    tight: tuple[Array, Array]
    point: FirstOrderPoint  # z
    mapped: FirstOrderPoint  # T z; z itself at a restart
    anchor: FirstOrderPoint
    best: FirstOrderPoint  # the point of least error so far, or the ray that was found
    best_error: Array  # []
    norm: Array  # [] a lower bound of the largest singular value
    direction: Array  # [n] approximately the right singular vector of the largest singular value
    primal_weight: Array  # []
    # [] the discounted sum over restarts of log(primal distance / dual distance)
    imbalance: Array
    anchor_error: Array  # [] fixed-point error at the anchor
    last_error: Array  # [] fixed-point error at the last check
    num_since: Array  # [] int32 iterations since the restart
    num_iterations: Array  # [] int32
    history: History
    status: Array  # [] int32


def length_of(vector: Array) -> Array:
    return jnp.sqrt(reduce.total(vector * vector))


def clamped_weight(weight: Array) -> Array:
    return jnp.clip(weight, 1 / _LARGEST_WEIGHT, _LARGEST_WEIGHT)


def unscaled(point: FirstOrderPoint, scaling: FirstOrderScaling) -> FirstOrderPoint:
    return FirstOrderPoint(
        point.primal * (scaling.columns / scaling.bound_scale),
        point.dual * (scaling.rows / scaling.objective_scale),
    )
