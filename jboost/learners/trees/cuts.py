"""Quantised cuts: at most B thresholds for each feature of trees, and values as 8-bit codes.

A feature has B cuts. The code of a number is the number of thresholds below it. The code of a
category is the index of the category among the cuts, or B for a category without a cut. The code of
a missing value is B + 1. A histogram of weights over codes then gives the sums of both sides of all
cuts (LightGBM, Ke et al. 2017, Algorithm 1).

The index of a split is q if missing values go to the left side of cut q, and B + 1 + q if they go
to the right side. The cut q = B has no threshold: no present value is on its right side. The split
2 B + 1 therefore separates the missing values from all others.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array


def find(columns: Array, categorical: tuple[int, ...], num_cuts: int) -> Array:
    """Returns the ascending thresholds [N, B] of features [N, m], padded with +inf.

    Numbers are cut halfway between neighbouring values: between all of them, or at the B positions
    nearest to the quantiles l / (B + 1). The cuts of categories are the B most frequent categories.

    Args:
      columns: [N, m], NaN where a value is missing and on padding.
      categorical: the features that hold categories, static.
      num_cuts: B, static.
    """
    values = jnp.where(columns == 0, 0.0, columns)  # -0 and 0 are one value
    values = lax.sort(jnp.where(values == values, values, jnp.nan), dimension=1)
    _, thresholds = loops.scan(lambda _, row: (None, _halfway(row, num_cuts)), None, values)
    if categorical:
        chosen = jnp.asarray(categorical, jnp.int32)
        _, frequent = loops.scan(
            lambda _, row: (None, _frequent(row, num_cuts)), None, values[chosen]
        )
        thresholds = thresholds.at[chosen].set(lax.sort(frequent, dimension=1))
    return thresholds


def encode(columns: Array, thresholds: Array, is_category: Array) -> Array:
    """Returns the codes [N, m] uint8 of features [N, m]."""
    num_cuts = thresholds.shape[1]
    index = jnp.arange(num_cuts, dtype=jnp.int32)[:, None]

    def of_feature(_: None, part: tuple[Array, Array, Array]) -> tuple[None, Array]:
        row, own, has_categories = part
        num_below = reduce.count(row[None, :] > own[:, None], axis=0)
        cut = reduce.least(
            jnp.where(row[None, :] == own[:, None], index, jnp.int32(num_cuts)), axis=0
        )
        code = jnp.where(has_categories, jnp.minimum(cut, num_cuts), num_below)
        return None, jnp.where(row == row, code, num_cuts + 1).astype(jnp.uint8)

    _, codes = loops.scan(of_feature, None, (columns, thresholds, is_category))
    return codes


def right_sums(sums: Array, is_category: Array) -> Array:
    """Returns the sums on the right side of all splits, [..., 2 (B + 1)].

    Args:
      sums: [..., B + 2], the sums for each code.
      is_category: [...], broadcast against the leading axes of `sums`.
    """
    right = right_sums_of_present(sums, is_category)
    return jnp.concatenate([right, right + sums[..., -1:]], axis=-1)


def right_sums_of_present(sums: Array, is_category: Array) -> Array:
    """Returns the part [..., B + 1] of `right_sums` with missing values on the left side."""
    present, num_codes = sums[..., :-1], sums.shape[-1] - 1
    code = lax.iota(jnp.int32, num_codes)
    is_above = (code[:, None] > code[None, :]).astype(sums.dtype)
    # On CPUs, XLA computes a matrix product faster than a cumulative sum.
    above = numerics.times(present.reshape(-1, num_codes), is_above).reshape(present.shape)
    alone = jnp.concatenate([present[..., :-1], jnp.zeros_like(present[..., :1])], axis=-1)
    return jnp.where(is_category[..., None], alone, above)


def is_right(codes: Array, splits: Array, is_category: Array, num_cuts: int) -> Array:
    """Returns whether codes are on the right side of splits, [...] bool."""
    codes, cut = codes.astype(jnp.int32), splits % (num_cuts + 1)
    present = jnp.where(is_category, (codes == cut) & (cut < num_cuts), codes > cut)
    return jnp.where(codes == num_cuts + 1, splits > num_cuts, present)


def _after(row: Array, fill: float) -> Array:
    """Returns the successor of each entry along the last axis, and `fill` for the last entry."""
    padding = [(0, 0)] * (row.ndim - 1) + [(0, 1)]
    return jnp.pad(row[..., 1:], padding, constant_values=fill)


def _halfway(row: Array, num_cuts: int) -> Array:
    """Returns the thresholds [B] of sorted numbers [m] with NaN at the end."""
    following = _after(row, jnp.nan)
    halfway = row / 2 + following / 2
    halfway = jnp.where((row <= halfway) & (halfway < following), halfway, row)
    is_cut = numerics.in_64_bits(_nearest_to_quantiles)(
        row < following, reduce.count(row == row), jnp.int32(num_cuts)
    )
    return _compact(halfway, is_cut, num_cuts)


def _nearest_to_quantiles(is_gap: Array, num_values: Array, num_cuts: Array) -> Array:
    """Returns which gaps between sorted values are nearest to a quantile, [m] bool.

    The lower of two equally near gaps is used. If there are at most B gaps, all are used. Call the
    function with 64-bit types enabled, because products of counts may exceed 32 bits.

    A gap is assigned the quantiles between two midpoints: that with the gap before, and that with
    the next gap. The last gap is assigned all remaining quantiles.
    """
    size = is_gap.shape[0]
    below = lax.broadcasted_iota(jnp.int64, (size,), 0) + 1
    none = jnp.int64(2 * size + 2)
    following = lax.cummin(jnp.where(is_gap, below, none), axis=0, reverse=True)
    following = _after(following, none)
    levels = num_cuts.astype(jnp.int64) + 1
    up_to = (below + following) * levels // (2 * jnp.maximum(num_values, 1).astype(jnp.int64))
    up_to = jnp.where(is_gap, jnp.minimum(up_to, levels - 1), 0)
    before = jnp.pad(lax.cummax(up_to, axis=0)[:-1], (1, 0))
    return is_gap & ((up_to > before) | (reduce.count(is_gap) < levels))


def _frequent(row: Array, num_cuts: int) -> Array:
    """Returns the B most frequent of sorted categories [m] with NaN at the end."""
    position = jnp.arange(1, row.shape[0] + 1, dtype=jnp.int32)
    is_last = (row == row) & ~(row == _after(row, jnp.nan))
    up_to = jnp.where(is_last, position, 0)
    before = jnp.pad(lax.cummax(up_to, axis=0)[:-1], (1, 0))
    num_found = min(num_cuts, row.shape[0])
    count, index = numerics.top_k(jnp.where(is_last, up_to - before, 0), num_found)
    found = jnp.where(count > 0, row[index], jnp.inf)
    return jnp.pad(found, (0, num_cuts - num_found), constant_values=jnp.inf)


def _compact(values: Array, is_cut: Array, num_cuts: int) -> Array:
    """Returns the values [m] where `is_cut` is True, in order, padded with +inf to [B]."""
    slot = jnp.where(is_cut, lax.cumsum(is_cut.astype(jnp.int32)) - 1, num_cuts)
    return jnp.full((num_cuts,), jnp.inf, values.dtype).at[slot].set(values, mode="drop")
