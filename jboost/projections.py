"""Projections on the simplex with a cap on every entry, by relative entropy and by Euclidean
distance.

Symbols of Shalev-Shwartz and Singer (2008, Figure 2): their u is exp(log_weights), their nu is
`cap`, and d = min(cap, xi u) with one multiplier xi for all entries. Divide the caps out,
key_i = log u_i - log cap_i, and d_i = cap_i min(1, exp(key_i - t)): an entry is capped where its
key is above the threshold t = -log xi, and t is where the sum over i is 1. Nothing is subtracted
from a running sum, what the caps leave of 1 is computed in 64 bits, and weights are seen only
relative to the largest that is not capped: log weights may span any range.

For any set C, xi_C = (1 - sum_C cap) / sum_{not C} u is at most xi, and equal to it where C holds
the capped entries; so each set improves on the one before that implied it. That is Newton's method
on a concave function, from the left.

`projection_simplex` and `projection_l1_ball` are those of optax, for sharded vectors too; they
sort, so these are gathered.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from optax import projections as optax_projections

from jboost.base import check, loops, meshes, named_axis, numerics, reduce
from jboost.base.named_axis import AxisName
from jboost.base.types import Array, ArrayLike

__all__ = [
    "kl_projection_capped_simplex",
    "projection_capped_simplex",
    "projection_l1_ball",
    "projection_simplex",
]

projection_l1_ball = meshes.takes_sharded(optax_projections.projection_l1_ball)
projection_simplex = meshes.takes_sharded(optax_projections.projection_simplex)

_WIDE = jnp.dtype("float64")
# entries from which on "auto" takes sums: inside `jit` a vector that XLA shards cannot be told from
# another
_SIZE_FOR_SUMS = 1 << 16
_ROUNDINGS = 4  # caps that sum to 1 up to so many units of rounding are the answer themselves


@meshes.takes_sharded
def kl_projection_capped_simplex(
    log_weights: ArrayLike, cap: ArrayLike, *, mask: ArrayLike | None = None, method: str = "auto"
) -> Array:
    """The distribution with no entry above its cap that is nearest to softmax(log_weights) in
    relative entropy.

    Args:
      log_weights: [m], finite, or -inf for a weight of 0, which stays 0.
      cap: [] or [m], positive; inf for none. In [m] a cap may be 0.
      mask: [m] boolean, False for entries that get 0 and never count, whatever they hold; None for
        all True.
      method: "sort", or "newton", which takes sums and maxima only, some ten times over: for
        entries that are sharded over devices (a sort would gather them), and faster on a CPU from a
        few thousand on. The two agree to rounding. "auto" takes "newton" where entries are known to
        be sharded, where a mesh of several devices is set, and from 65,536 entries on.

    Returns:
      [m], of the dtype of `log_weights` (the default float for integers), with sum 1. Where the
      caps of the entries of positive weight sum to less than 1, no such distribution exists, and
      these caps are returned. Differentiable in both modes, in `log_weights` and `cap`.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; and where the values are known
        (not inside jit or vmap), for caps that are negative or NaN or sum to less than 1, and for
        an empty mask. Inside, an empty mask gives zeros, and NaN gives NaN.

    Source: Shalev-Shwartz and Singer, On the Equivalence of Weak Learnability and Linear
    Separability (2008), Figure 2, with <= for <.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projections.kl_projection_capped_simplex(jnp.log(jnp.array([6.0, 1.0, 1.0])), 0.5).tolist()
    [0.5, 0.25, 0.25]
    """
    check.choice("method", method, ("auto", "sort", "newton"))
    arguments = _arguments("log_weights", log_weights, cap, mask)
    if method == "auto":
        method = "newton" if meshes.is_set() or arguments[0].shape[0] >= _SIZE_FOR_SUMS else "sort"
    return _kl_projection(*arguments, method)


def kl_projection_by_sums(
    log_weights: Array, cap: Array, mask: Array, *, axis_name: AxisName = None
) -> Array:
    """`kl_projection_capped_simplex` of vectors [m] by "newton", without a check of their values.

    With `axis_name` each device holds a part of the entries, as under `shard_map`.
    """
    return _kl_projection(log_weights, cap, mask, "newton", axis_name)


@meshes.takes_sharded
def projection_capped_simplex(
    x: ArrayLike, cap: ArrayLike, *, mask: ArrayLike | None = None
) -> Array:
    """The distribution with no entry above its cap that is nearest to x in Euclidean distance:
    clip(x - theta, 0, cap) for one theta.

    Args:
      x: [m], finite, or -inf for an entry that stays 0.
      cap: [] or [m], positive; inf for none. In [m] a cap may be 0.
      mask: [m] boolean, False for entries that get 0 and never count, whatever they hold; None for
        all True.

    Returns:
      [m], of the dtype of `x` (the default float for integers), with sum 1. Where the caps sum to
      less than 1, no such distribution exists, and the caps are returned. Differentiable in both
      modes, in `x` and `cap`.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; and where the values are known
        (not inside jit or vmap), for caps that are negative or NaN or sum to less than 1, and for
        an empty mask. Inside, an empty mask gives zeros, and NaN gives NaN.

    Source: Wang and Lu, Projection onto the capped simplex (2015), arXiv:1503.01002: the optimality
    conditions, with caps per entry.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projections.projection_capped_simplex(jnp.array([2.0, 0.5, 0.25]), 0.5).tolist()
    [0.5, 0.375, 0.125]
    """
    return _euclidean_projection(*_arguments("x", x, cap, mask))


# --- arguments ------------------------------------------------------------------------------------


def _arguments(name: str, values: Any, cap: Any, mask: Any) -> tuple[Array, Array, Array]:
    array = check.numeric(name, values, shape=("m",), kinds="fiu")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    size = array.shape[0]
    if not size:
        raise ValueError(f"{name} is empty: a distribution has one entry at least")
    is_vector = bool(getattr(cap, "ndim", isinstance(cap, list | tuple)))
    cap_array = check.numeric("cap", cap, shape=(size,) if is_vector else (), kinds="fiu").astype(
        array.dtype
    )
    mask_array = (
        jnp.ones(size, bool)
        if mask is None
        else check.numeric("mask", mask, shape=(size,), kinds="b")
    )
    if check.are_known(mask):
        _validate(
            values,
            cap,
            np.ones(size, bool) if mask is None else np.asarray(mask),
            float(jnp.finfo(array.dtype).eps),
        )
    return array, cap_array, mask_array


def _validate(values: Any, cap: Any, kept: np.ndarray, eps: float) -> None:
    """Raises ValueError for what is wrong with those values that are known."""
    if not kept.any():
        raise ValueError("mask is empty: keep one entry at least")
    if not check.are_known(cap):
        return
    caps = np.asarray(cap, np.float64)
    bad = ~(caps >= 0) & kept if caps.ndim else np.reshape(~(caps > 0), 1)
    if bad.any():
        place, value = (
            (f"cap[{np.argmax(bad)}]", caps[np.argmax(bad)]) if caps.ndim else ("cap", caps)
        )
        raise ValueError(
            f"{place} is {value}: caps are positive; use inf for no cap"
            + (", and 0 for an entry that stays 0" if caps.ndim else "")
        )
    if check.are_known(values):
        kept = kept & (np.asarray(values) != -np.inf)
    count = int(np.count_nonzero(kept))
    total = (
        float(np.sum(np.minimum(caps, 1), where=kept))
        if caps.ndim
        else count * min(float(caps), 1.0)
    )
    if total < 1 - 4 * _ROUNDINGS * eps:
        raise ValueError(
            f"cap is too small: the caps of the {count} entries that count sum to {total:.6g}, and"
            " a distribution sums to 1; "
            + (f"raise it to 1 / {count} at least" if count else "give one entry a positive weight")
        )


def _each(value: Array, size: int) -> Array:
    return jnp.broadcast_to(value, (size,))


def _widen(values: Array, cap: Array) -> tuple[Array, Array]:
    """Both in 32 bits or more; a cap of 1 or more never binds, and becomes 2, so that no rounding
    makes it bind.
    """
    wide = numerics.at_least_32_bits(values.dtype)
    return values.astype(wide), jnp.where(cap >= 1, 2, cap).astype(wide)


def _is_broken(values: Array, cap: Array, mask: Array) -> Array:
    """Where an entry that counts, or its cap, is no number that can be projected, [m] bool."""
    return mask & (jnp.isnan(values) | (values == jnp.inf) | jnp.isnan(_each(cap, values.shape[0])))


def _clean(values: Array, cap: Array, mask: Array) -> tuple[Array, Array]:
    """Values [m], -inf for entries that are 0 and NaN for those that are broken; caps [] or [m], in
    [m] 0 for entries that are 0.
    """
    wide, caps = _widen(values, cap)
    kept = mask & (wide != -jnp.inf) & ~(caps <= 0)
    wide = jnp.where(_is_broken(values, cap, mask), jnp.nan, jnp.where(kept, wide, -jnp.inf))
    return wide, jnp.where(kept, caps, 0) if caps.ndim else caps


def _finish(answer: Array, values: Array, caps: Array, left_by_all: Array, largest: Array) -> Array:
    """The answer, or the caps where they sum to 1 up to rounding, or to less; NaN where the input
    is none. Arguments as of and from `_clean`.
    """
    caps_are_it = left_by_all >= -_ROUNDINGS * jnp.finfo(values.dtype).eps
    answer = jnp.where(values == -jnp.inf, 0, jnp.where(caps_are_it, caps, answer))
    return jnp.where(jnp.isnan(largest), jnp.nan, answer)


def _derivative_sets(answer: Array, values: Array, cap: Array, mask: Array) -> tuple[Array, Array]:
    """Where the answer is the cap, and where it is not and counts."""
    size = values.shape[0]
    kept = mask & (values != -jnp.inf) & _each(cap > 0, size)
    capped = kept & _each(cap < 1, size) & (answer >= _each(cap, size))
    return capped, kept & ~capped


# --- what the caps leave of 1 ---------------------------------------------------------------------


def _counted(caps: Array) -> Array:
    """What `_left_of` is to be given the sum of, [] or [m] in 64 bits: caps, or ones where there is
    one cap for all.
    """
    return caps.astype(_WIDE) if caps.ndim else jnp.ones((), _WIDE)


def _left_of(caps: Array, counted: Array) -> Array:
    """1 minus the caps of some entries, [...], from the sum of `_counted` over them; in the 64-bit
    scope.

    It keeps its digits where it is small. One cap for all is multiplied exactly, so that the sign
    does not depend on how products are fused.
    """
    if caps.ndim:
        return 1 - counted
    cap = caps.astype(counted.dtype)
    high = lax.reduce_precision(cap, exponent_bits=11, mantissa_bits=24)
    return (1 - high * counted) - (cap - high) * counted


def _extremes(values: Array, caps: Array, axis_name: AxisName = None) -> tuple[Array, Array, Array]:
    """The least and the largest of the values that are not -inf, and what the caps of these leave
    of 1, in 64 bits; in the 64-bit scope.
    """
    is_zero = values == -jnp.inf
    least, largest, counted = named_axis.several(
        (reduce.LEAST, jnp.where(is_zero, jnp.inf, values)),
        (reduce.LARGEST, values),
        (reduce.SUM, jnp.where(is_zero, 0, _counted(caps))),
        axis_name=axis_name,
    )
    return least, largest, _left_of(caps, counted)


# --- relative entropy -----------------------------------------------------------------------------


class _Found(NamedTuple):
    """Which entries are capped, and what was seen on the way."""

    is_capped: Array  # [m] bool
    left_by_all: Array  # [] what all caps leave of 1
    largest: Array  # [] the largest log weight


@functools.partial(jax.jit, static_argnames=("method", "axis_name"))
def _kl_projection(
    log_weights: Array, cap: Array, mask: Array, method: str, axis_name: AxisName = None
) -> Array:
    return _kl_with_derivative(log_weights, cap, mask, method, axis_name)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _kl_with_derivative(
    log_weights: Array, cap: Array, mask: Array, method: str, axis_name: AxisName
) -> Array:
    logs, caps = _clean(log_weights, cap, mask)
    by_newton = functools.partial(_by_newton, axis_name=axis_name)
    found = _by_sort(logs, caps) if method == "sort" else numerics.in_64_bits(by_newton)(logs, caps)
    weigh = functools.partial(_weigh, axis_name=axis_name)
    answer = numerics.in_64_bits(weigh)(logs, caps, found.is_capped)
    return _finish(answer, logs, caps, found.left_by_all, found.largest).astype(log_weights.dtype)


def _weigh(logs: Array, caps: Array, is_capped: Array, axis_name: AxisName) -> Array:
    """The weights [m] that capped entries [m] leave for the others; in the 64-bit scope."""
    free = jnp.where(is_capped, -jnp.inf, logs)
    center = (
        reduce.largest(free) if axis_name is None else lax.pmax(reduce.largest(free), axis_name)
    )
    relative = jnp.exp(logs - jnp.where(center > -jnp.inf, center, 0))
    weight, counted = named_axis.several(
        (reduce.SUM, jnp.where(is_capped, 0, relative)),
        (reduce.SUM, jnp.where(is_capped, _counted(caps), 0)),
        axis_name=axis_name,
    )
    factor = jnp.maximum(_left_of(caps, counted).astype(logs.dtype), 0) / jnp.where(
        weight > 0, weight, 1
    )
    return jnp.where(is_capped, caps, jnp.minimum(relative * factor, caps))


@_kl_with_derivative.defjvp
def _kl_derivative(
    method: str,
    axis_name: AxisName,
    primals: tuple[Array, Array, Array],
    tangents: tuple[Array, Array, Any],
) -> tuple[Array, Array]:
    log_weights, cap, mask = primals
    size = log_weights.shape[0]
    answer = _kl_with_derivative(log_weights, cap, mask, method, axis_name)

    total = functools.partial(named_axis.linear_total, axis_name=axis_name)
    capped, free = _derivative_sets(answer, log_weights, cap, mask)
    log_tangent = jnp.where(free, tangents[0], 0)
    cap_tangent = jnp.where(capped, _each(tangents[1], size), 0)
    weight = jnp.where(free, answer, 0)
    share = numerics.safe_divide(weight, _each(total(weight), size))
    moved = weight * (log_tangent - total(share * log_tangent))
    return answer, cap_tangent + moved - share * total(cap_tangent)


# --- with a sort ----------------------------------------------------------------------------------


def _by_sort(logs: Array, caps: Array) -> _Found:
    """What is capped, from the sorted quotients of weights and caps.

    An entry is not capped if it and the entries behind it, were it just at its cap, would weigh no
    less than what the caps before it leave. What holds for an entry holds for all behind it: the
    question goes to the first entry of every block, then to all up to the next of these.
    """
    keys = (
        jnp.where(caps > 0, logs - jnp.log(jnp.where(caps > 0, caps, 1)), -jnp.inf)
        if caps.ndim
        else logs
    )
    size = logs.shape[0]
    length = math.isqrt(size - 1) + 1
    num_blocks = -(-size // length)
    ordered, sorted_caps = _sort_descending(keys, caps, num_blocks * length + 1)
    left = numerics.in_64_bits(_left_before)(caps, sorted_caps)
    # a factor for weights at their caps that would leave them about there
    nearly_one = 1 + _ROUNDINGS * jnp.finfo(logs.dtype).eps

    blocks, caps_of_blocks = (
        each[:-1].reshape(num_blocks, length) for each in (ordered, sorted_caps)
    )
    firsts = blocks[:, 0]
    within, num_kept = reduce.totals(
        caps_of_blocks * _decay(blocks, firsts[:, None]), (blocks != -jnp.inf).astype(blocks.dtype)
    )
    weights = within + _sums_behind(firsts, within)
    is_free = (weights * nearly_one >= left[:-1:length]) | (firsts == -jnp.inf)
    after, num_kept = reduce.several(
        (reduce.LEAST, jnp.where(is_free, lax.iota(jnp.int32, num_blocks), num_blocks)),
        (reduce.SUM, num_kept.astype(jnp.int32)),
    )
    block = jnp.maximum(after - 1, 0)
    left_by_all = numerics.in_64_bits(
        lambda cap, count: _left_of(cap, count.astype(_WIDE)).astype(cap.dtype)
    )(caps, num_kept)

    def line(values: Array) -> Array:
        return lax.dynamic_slice(values, (block * length,), (length + 1,))

    rest = jnp.where(block + 1 < num_blocks, weights[jnp.minimum(block + 1, num_blocks - 1)], 0)
    line_keys = line(ordered)
    line_caps = jnp.where(lax.iota(jnp.int32, length + 1) == length, rest, line(sorted_caps))
    factors = jnp.maximum(line(left), 0) / (line_caps + _sums_behind(line_keys, line_caps))
    place = jnp.minimum(
        numerics.first_true((factors <= nearly_one) & (line_keys > -jnp.inf)), length
    )
    if caps.ndim:  # keys are rounded more than log weights are
        return numerics.in_64_bits(_by_newton)(logs, caps, line_keys[place])
    return _Found(logs > line_keys[place], left_by_all, ordered[0])


def _decay(later: Array, earlier: Array) -> Array:
    """exp(later - earlier), and 0 where later is -inf."""
    return jnp.where(later > -jnp.inf, jnp.exp(later - earlier), 0)


def _sums_behind(keys: Array, weights: Array) -> Array:
    """The sum over all entries j behind i of weights_j exp(keys_j - keys_i), [n] for each i, of
    descending keys.
    """
    is_behind = lax.broadcasted_iota(jnp.int32, keys.shape * 2, 1) > lax.broadcasted_iota(
        jnp.int32, keys.shape * 2, 0
    )
    return reduce.total(
        jnp.where(is_behind, weights[None, :] * _decay(keys[None, :], keys[:, None]), 0)
    )


def _sort_descending(keys: Array, caps: Array, size: int) -> tuple[Array, Array]:
    """Keys in descending order and the caps in the same order, [size] both: filled up with keys of
    -inf, and with caps of 0 if there are several.
    """
    padding = (0, size - keys.shape[0])
    words, dtype = _descending_words(jnp.pad(keys, padding, constant_values=-jnp.inf)), keys.dtype
    if not caps.ndim:
        return _floats_of_words(lax.sort(words), dtype), _each(caps, size)
    caps = jnp.pad(caps, padding)
    if dtype.itemsize > 4:
        words, caps = lax.sort((words, caps), num_keys=1)
        return _floats_of_words(words, dtype), caps

    def compute(words: Array, caps: Array) -> tuple[Array, Array]:
        packed = (words.astype(jnp.uint64) << 32) | lax.bitcast_convert_type(
            caps, jnp.uint32
        ).astype(jnp.uint64)
        packed = lax.sort(packed)
        return (packed >> 32).astype(jnp.uint32), lax.bitcast_convert_type(
            (packed & 0xFFFFFFFF).astype(jnp.uint32), jnp.float32
        )

    words, caps = numerics.in_64_bits(compute)(words, caps)
    return _floats_of_words(words, dtype), caps


def _left_before(caps: Array, sorted_caps: Array) -> Array:
    """What the caps before each of the sorted entries leave of 1, [n]; in the 64-bit scope."""
    if not caps.ndim:
        return _left_of(caps, lax.iota(jnp.int32, sorted_caps.shape[0]).astype(_WIDE)).astype(
            caps.dtype
        )
    # two short sums instead of a long one
    within = jnp.cumsum(
        _counted(sorted_caps[:-1]).reshape(-1, math.isqrt(caps.shape[0] - 1) + 1), axis=1
    )
    rows = within[:, -1]
    sums = (jnp.cumsum(rows) - rows)[:, None] + within
    return (1 - jnp.concatenate([jnp.zeros(1, sums.dtype), sums.reshape(-1)])).astype(caps.dtype)


def _descending_words(values: Array) -> Array:
    """Unsigned integers whose ascending order is the descending order of floats: integers sort
    several times faster.
    """
    unsigned, sign = _word(values.dtype)
    bits = lax.bitcast_convert_type(values, unsigned)
    return jnp.where(bits >= sign, bits, ~(bits | sign))


def _floats_of_words(words: Array, dtype: jnp.dtype) -> Array:
    _, sign = _word(dtype)
    return lax.bitcast_convert_type(jnp.where(words >= sign, words, ~words & ~sign), dtype)


def _word(dtype: jnp.dtype) -> tuple[Any, Array]:
    unsigned = {4: jnp.uint32, 8: jnp.uint64}[dtype.itemsize]
    return unsigned, jnp.asarray(1 << (8 * dtype.itemsize - 1), unsigned)


# --- without a sort -------------------------------------------------------------------------------


class _Cut(NamedTuple):
    """A search for the threshold: the log of the factor by which free weights are to be divided."""

    cut: Array  # [] the next place to try, where the threshold is or below
    middle: Array  # [] between the two
    low: Array  # [] where the threshold is or above
    # [] 1 until the entries that are capped at `tried` imply that place itself, then 0
    goes_on: Array
    tried: Array  # []


def _by_newton(
    logs: Array, caps: Array, guess: Array | None = None, *, axis_name: AxisName = None
) -> _Found:
    """What is capped, by Newton's method from above, with bisection beside it; in the 64-bit scope.

    A set of capped entries implies a threshold that is not below the right one, and is the right
    one if it brings no other entry to its cap. Where much lies between, the middle of what is known
    of the threshold is the better place to look from.
    """
    lowest, largest, left_by_all = _extremes(logs, caps, axis_name)
    # so that differences to the threshold are exact; numbers of 32 bits are exact enough in 64
    if logs.dtype == _WIDE:
        origin = _search_cut(logs, caps, lowest, largest, guess, axis_name).tried
        logs, lowest, largest, guess = logs - origin, lowest - origin, largest - origin, None
    found = _search_cut(logs, caps, lowest, largest, guess, axis_name)
    return _Found(_decay_from(logs, found.tried) >= caps, left_by_all.astype(logs.dtype), largest)


def _decay_from(logs: Array, place: Array) -> Array:
    """exp(logs - place) for places in 64 bits; in the type of the logs, which is quicker, though
    the difference is exact.
    """
    high = numerics.held_in(place, logs.dtype)
    return jnp.exp((logs - high.astype(logs.dtype)) - (place - high).astype(logs.dtype))


def _search_cut(
    logs: Array,
    caps: Array,
    lowest: Array,
    largest: Array,
    guess: Array | None,
    axis_name: AxisName,
) -> _Cut:
    size, eps = named_axis.size(logs.shape[0], axis_name), float(jnp.finfo(logs.dtype).eps)
    # so much weight may be the rounding of what is lost below the least float
    underflow = size * float(jnp.finfo(logs.dtype).tiny) / eps
    rounding = (_ROUNDINGS + size**0.5 / 8) * eps  # of sums
    row, row_counted = _row(caps), _row(_counted(caps))

    def step(state: Array) -> Array:
        now, cuts = _Cut(*state), state[:2]
        relative = _decay_from(logs[None, :], cuts[:, None])
        is_capped = relative >= row
        weight, counted = named_axis.several(
            (reduce.SUM, jnp.where(is_capped, 0, relative)),
            (reduce.SUM, jnp.where(is_capped, row_counted, 0)),
            axis_name=axis_name,
        )
        left = _left_of(caps, counted).astype(logs.dtype)
        factor = jnp.maximum(left, 0) / jnp.maximum(weight, underflow)
        distance = jnp.log(factor).astype(cuts.dtype)
        implied = cuts - (distance - _ROUNDINGS * eps * jnp.maximum(jnp.abs(distance), 1))
        implied = jnp.where(weight < left, jnp.minimum(implied, cuts), implied)
        implied, is_above, is_full = lax.optimization_barrier((implied, weight >= left, left <= 0))

        cut = jnp.minimum(now.cut, jnp.min(implied))
        low = jnp.maximum(now.low, jnp.max(jnp.where(is_above, cuts, -jnp.inf)))
        is_there = (jnp.abs(implied[0] - now.cut) <= rounding) & (weight[0] > underflow)
        has_moved = (cut < now.cut) | (low > now.low)
        # all are capped from there on
        goes_on = ~is_full[0] & ~is_there & has_moved & (now.cut > lowest.astype(_WIDE))
        return jnp.stack(_Cut(cut, 0.5 * low + 0.5 * cut, low, goes_on.astype(_WIDE), now.cut))

    start, low = largest.astype(_WIDE) + math.log(size), lowest.astype(_WIDE)
    middle = 0.5 * low + 0.5 * start if guess is None else guess.astype(_WIDE)
    zero = jnp.zeros((), _WIDE)
    first = jnp.stack(_Cut(start, middle, low, zero + 1, zero))
    return _Cut(*loops.while_loop(lambda state: _Cut(*state).goes_on > 0, step, first))


def _row(caps: Array) -> Array:
    """Caps [] or [m] as [1, 1] or [1, m]."""
    return caps.reshape(1, -1)


# --- Euclidean ------------------------------------------------------------------------------------


@jax.jit
def _euclidean_projection(x: Array, cap: Array, mask: Array) -> Array:
    return _euclidean_with_derivative(x, cap, mask)


@jax.custom_jvp
def _euclidean_with_derivative(x: Array, cap: Array, mask: Array) -> Array:
    wide, caps = _clean(x, cap, mask)
    return numerics.in_64_bits(_project_euclidean)(wide, caps).astype(x.dtype)


@_euclidean_with_derivative.defjvp
def _euclidean_derivative(
    primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Any]
) -> tuple[Array, Array]:
    x, cap, mask = primals
    answer = _euclidean_with_derivative(x, cap, mask)
    capped, free = _derivative_sets(answer, x, cap, mask)
    free = free & (answer > 0)
    x_tangent = jnp.where(free, tangents[0], 0)
    cap_tangent = jnp.where(capped, _each(tangents[1], x.shape[0]), 0)
    theta_tangent = numerics.safe_divide(
        jnp.sum(x_tangent) + jnp.sum(cap_tangent), jnp.sum(free, dtype=answer.dtype)
    )
    return answer, cap_tangent + x_tangent - jnp.where(free, theta_tangent, 0)


def _project_euclidean(x: Array, caps: Array) -> Array:
    """The projection of what `_clean` returns; in the 64-bit scope."""
    lowest, largest, left_by_all = _extremes(x, caps)
    heights = x
    # so that differences to theta are exact; numbers of 32 bits are exact enough in 64
    if x.dtype == _WIDE:
        origin = _search_theta(x, caps, lowest, largest, left_by_all)
        heights, lowest, largest = x - origin, lowest - origin, largest - origin
    theta = _search_theta(heights, caps, lowest, largest, left_by_all)
    answer = jnp.clip(heights.astype(_WIDE) - theta, 0, caps.astype(_WIDE)).astype(x.dtype)
    return _finish(answer, x, caps, left_by_all.astype(x.dtype), largest)


class _Bracket(NamedTuple):
    """Three places to look at, and two between which a decreasing function is 1."""

    newton: Array  # []
    chord: Array  # []
    middle: Array  # []
    low: Array  # [] where the function is 1 or more
    high: Array  # [] where it is less
    excess_low: Array  # [] the function minus 1
    excess_high: Array  # []
    goes_on: Array  # [] 1, or 0 once `newton` is the place


def _search_theta(
    x: Array, caps: Array, lowest: Array, largest: Array, left_by_all: Array
) -> Array:
    """Where clip(x - theta, 0, cap) sums to 1, []: by Newton's method, with a chord and the middle
    of a bracket beside it.
    """
    eps, row = float(jnp.finfo(x.dtype).eps), _row(caps.astype(_WIDE))
    rounding = _ROUNDINGS * jnp.finfo(_WIDE).eps

    def next_places(
        newton: Array,
        low: Array,
        high: Array,
        excess_low: Array,
        excess_high: Array,
        goes_on: Array,
    ) -> Array:
        share = numerics.safe_divide(excess_low, excess_low - excess_high, fill=0.5)
        bracket = _Bracket(
            newton,
            low + share * (high - low),
            low + 0.5 * (high - low),
            low,
            high,
            excess_low,
            excess_high,
            goes_on.astype(_WIDE),
        )
        return jnp.stack(bracket)

    def step(state: Array) -> Array:
        now, places = _Bracket(*state), state[:3]
        heights = x.astype(_WIDE)[None, :] - places[:, None]
        is_free = (heights > 0) & (heights < row)
        total, num_free = reduce.several(
            (reduce.SUM, jnp.clip(heights, 0, row)), (reduce.SUM, is_free.astype(_WIDE))
        )
        excess = total - 1
        is_low = excess >= 0
        is_root = jnp.abs(excess) <= rounding * (x.shape[0] ** 0.5 + num_free * jnp.abs(places))
        root = places + numerics.safe_divide(excess, num_free)
        merit = jnp.where((num_free == 0) & ~is_root, jnp.inf, jnp.abs(excess))
        low = jnp.maximum(now.low, jnp.max(jnp.where(is_low, places, -jnp.inf)))
        high = jnp.minimum(now.high, jnp.min(jnp.where(is_low, jnp.inf, places)))
        best = jnp.min(merit)
        newton = jnp.where(
            best < jnp.inf,
            jnp.clip(jnp.max(jnp.where(merit == best, root, -jnp.inf)), low, high),
            high,
        )
        return next_places(
            jnp.where(is_root[0], root[0], newton),
            low,
            high,
            jnp.minimum(now.excess_low, jnp.min(jnp.where(is_low, excess, jnp.inf))),
            jnp.maximum(now.excess_high, jnp.max(jnp.where(is_low, -jnp.inf, excess))),
            ~is_root[0] & (high - low > 2 * eps * jnp.maximum(jnp.abs(low), jnp.abs(high))),
        )

    low, high = lowest.astype(_WIDE) - 1, largest.astype(_WIDE)
    start = next_places(high, low, high, -left_by_all, -jnp.ones((), _WIDE), jnp.ones((), bool))
    return _Bracket(
        *loops.while_loop(lambda state: _Bracket(*state).goes_on > 0, step, start)
    ).newton
