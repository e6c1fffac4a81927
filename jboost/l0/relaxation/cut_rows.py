"""Cuts as rows over mu and xi: those of pairs, and those of branch and cut."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base.numerics import times
from jboost.base.types import Array
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import CutIndices, RelaxationInstance


class CutRows(NamedTuple):
    """Cuts sum selected mu + sum slacks xi >= 1."""

    selected: Array  # [K, U]
    slacks: Array  # [K, m]

    def reached(self, selected: Array, slacks: Array) -> Array:
        """The left-hand sides [K] at mu [U] and xi [m]."""
        return times(self.selected, selected) + times(self.slacks, slacks)


def from_pairs(instance: RelaxationInstance, cuts: CutIndices) -> CutRows:
    """Pair cuts [K] as rows, 0 for empty slots."""
    indices = jnp.arange(instance.hits.shape[0])
    slacks = sum((end[:, None] == indices[None, :]).astype(instance.hits.dtype) for end in cuts)
    return CutRows(pair_cuts.rows(instance, cuts), slacks)
