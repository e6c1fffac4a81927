"""The state of a leave-one-out computation that the host drives, between two steps."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jboost.base.status import Status
from jboost.base.types import Array
from jboost.pair.branch_and_bound import BranchAndBoundState
from jboost.pair.types import LeaveOneOut


class ListedSplits(NamedTuple):
    """The near-optimal splits of three classifiers that were found so far."""

    on_own_side: np.ndarray  # [s, n] bool
    attained: np.ndarray  # [] int64, the least loss so far, in integer weights
    is_certain: np.ndarray  # [] bool, whether no order was in doubt
    num_done: np.ndarray  # [] int32, axes so far, in the order of their bounds


class LeaveOneOutState(NamedTuple):
    """The state of `leave_one_out` while near-optimal separators are listed."""

    search: BranchAndBoundState | None  # of two classifiers
    splits: ListedSplits | None  # of three classifiers
    checksums: np.ndarray  # [4] uint32, of points, labels, weights and mask


def without_errors(mask: Array, status: Status, dtype: jnp.dtype) -> LeaveOneOut:
    """The result [n] where the errors are not known."""
    errors = jnp.where(mask, jnp.nan, 0.0).astype(dtype)
    kinds = jnp.zeros(mask.shape, jnp.int32)
    return LeaveOneOut(jnp.asarray(jnp.nan, dtype), errors, kinds, jnp.int32(status))
