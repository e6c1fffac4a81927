"""The margin at which the caps of the examples with smaller margins reach a sum of one. It is found
by a sort, or for sharded examples by sums alone.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from jboost.base import exact_sums, float_words, loops, meshes, named_axis, numerics, reduce
from jboost.base.named_axis import AxisName
from jboost.base.types import Array
from jboost.relaxations import bounds
from jboost.relaxations.curves import Curve, CurvePoint, CurveProblem

# From so many examples on, sums take no longer than a sort. They are then used without a mesh, too,
# since under `jit` it is unknown whether examples are sharded.
_SIZE_FOR_SUMS = 1 << 16
_PROBES = 3  # the thresholds tested in one pass over the examples, which give two bits


def worst_threshold(keys: Array, caps: Array, dtype: Any, axis_name: AxisName = None) -> Array:
    """The greatest key such that the caps of all smaller keys sum to less than 1, [].

    Args:
      keys: [m] margins, inf for examples that do not count, in 64 bits.
      caps: [m] not negative, 0 for examples that do not count, in 64 bits.
      dtype: that of the margins before the conversion to 64 bits; all keys are exact in it.
      axis_name: of `shard_map`, if each device holds a part of the keys.
    """
    is_divided = axis_name is not None or meshes.is_set() or exact_sums.are_on()
    if is_divided or keys.shape[0] >= _SIZE_FOR_SUMS:
        return _by_sums(keys, caps, dtype, axis_name)
    return _by_sort(keys, caps)


def _by_sort(keys: Array, caps: Array) -> Array:
    ordered, in_order = lax.sort((keys, caps), num_keys=1, is_stable=False)
    before = jnp.cumsum(in_order) - in_order
    index = reduce.count((before < 1) & (in_order > 0)) - 1
    return ordered[jnp.maximum(index, 0)]


def _by_sums(keys: Array, caps: Array, dtype: Any, axis_name: AxisName = None) -> Array:
    """Determines the bits of the result from the highest down, two in each pass over the keys. Keys
    are compared as integers.
    """
    words = _ascending_words(jnp.where(caps > 0, keys, jnp.inf).astype(dtype))
    unsigned = words.dtype
    num_bits = 8 * unsigned.itemsize
    probes = jnp.arange(1, _PROBES + 1).astype(unsigned)

    def two_bits(index: Array, word: Array) -> Array:
        shift = (num_bits - 2 - 2 * index).astype(unsigned)
        tried = word | (probes << shift)
        is_below = words[None, :] < tried[:, None]
        below = named_axis.total(jnp.where(is_below, caps[None, :], 0.0), axis_name)
        return word | (jnp.sum(below < 1).astype(unsigned) << shift)

    word = loops.fori_loop(
        jnp.int32(0), jnp.int32(num_bits // 2), two_bits, jnp.zeros((), unsigned)
    )
    (largest,) = named_axis.several(
        (reduce.LARGEST, jnp.where(caps > 0, keys, -jnp.inf)), axis_name=axis_name
    )
    found = float_words.floats(jnp.minimum(word, _ascending_words(largest.astype(dtype))), dtype)
    return found.astype(keys.dtype)


def _ascending_words(values: Array) -> Array:
    """Unsigned integers in the same order as the floats; -0 is treated as 0."""
    return float_words.ascending(values + jnp.zeros((), values.dtype))


def _find_threshold(problem: CurveProblem) -> Array:
    """The margin at which the caps of smaller margins reach a sum of one."""
    relaxation, margins, _, prior, axis_name = problem
    dtype = margins.dtype

    def find(margins: Array, caps: Array) -> Array:
        keys = jnp.where(caps > 0, margins, jnp.inf)
        return worst_threshold(keys, caps, dtype, axis_name).astype(dtype)

    caps = jnp.minimum(relaxation.caps(prior, axis_name), 2.0)  # caps above 1 never bind
    return bounds.widely(find)(margins, caps)


def _at_threshold(threshold: Array, problem: CurveProblem) -> CurvePoint:
    relaxation, margins, _, prior, axis_name = problem
    caps = jnp.minimum(relaxation.caps(prior, axis_name), 2.0)
    full = jnp.where(margins < threshold, caps, 0.0)
    tied = jnp.where((margins == threshold) & (prior > 0), caps, 0.0)
    left = jnp.maximum(1 - named_axis.total(full, axis_name), 0.0)
    share = numerics.safe_divide(left, named_axis.total(tied, axis_name))
    return CurvePoint(full + share * tied, lambda: jnp.zeros_like(threshold))


AT_CAPS = Curve(_find_threshold, _at_threshold)
