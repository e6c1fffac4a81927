"""Projections on the simplex with a cap on every entry, by relative entropy and by Euclidean distance.

Symbols of Shalev-Shwartz and Singer (2008, Figure 2): their u is exp(log_weights), their nu is `cap`, and d = min(cap, xi u)
with one multiplier xi for all entries. Divide the caps out, key_i = log u_i - log cap_i, and d_i = cap_i min(1, exp(key_i - t)):
an entry is capped where its key is above the threshold t = -log xi, and t is where the sum over i is 1. Nothing is subtracted
from a running sum, what the caps leave of 1 is computed in 64 bits, and weights are seen only relative to the largest that is
not capped: log weights may span any range.

For any set C, xi_C = (1 - sum_C cap) / sum_{not C} u is at most xi, and equal to it where C holds the capped entries; so each set
improves on the one before that implied it. That is Newton's method on a concave function, from the left.

`projection_simplex` and `projection_l1_ball` are those of optax.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from optax.projections import projection_l1_ball, projection_simplex

from jboost.base import check, numerics
from jboost.base.loops import bounded_loop
from jboost.base.types import Array, ArrayLike

__all__ = ["kl_projection_capped_simplex", "projection_capped_simplex", "projection_l1_ball", "projection_simplex"]

_ROUNDINGS = 4  # caps that sum to 1 up to so many units of rounding are the answer themselves
_MAX_CHECKS = 256  # each halves the bracket at least: enough for all floats of 32 bits
_MAX_REFINEMENTS = 32  # one is the rule


def kl_projection_capped_simplex(log_weights: ArrayLike, cap: ArrayLike, *, mask: ArrayLike | None = None, method: str = "sort") -> Array:
    """The distribution with no entry above its cap that is nearest to softmax(log_weights) in relative entropy.

    Args:
      log_weights: [m], finite, or -inf for a weight of 0, which stays 0.
      cap: [] or [m], positive; inf for none. In [m] a cap may be 0.
      mask: [m] boolean, False for entries that get 0 and never count, whatever they hold; None for all True.
      method: "sort", or "newton", which takes sums and maxima only, some ten times over: for examples that are sharded over devices (a
        sort would gather them), and faster on a CPU from a few thousand on. The two agree to rounding.

    Returns:
      [m], of the dtype of `log_weights` (the default float for integers), with sum 1. Where the caps of the entries of positive weight
      sum to less than 1, no such distribution exists, and these caps are returned. Differentiable in both modes, in `log_weights` and `cap`.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; and where the values are known (not inside jit or vmap), for caps
        that are negative or NaN or sum to less than 1, and for an empty mask. Inside, an empty mask gives zeros, and NaN gives NaN.

    Source: Shalev-Shwartz and Singer, On the Equivalence of Weak Learnability and Linear Separability (2008), Figure 2, with <= for <.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projections.kl_projection_capped_simplex(jnp.log(jnp.array([6.0, 1.0, 1.0])), 0.5).tolist()
    [0.5, 0.25, 0.25]
    """
    check.choice("method", method, ("sort", "newton"))
    return _kl_projection(*_arguments("log_weights", log_weights, cap, mask), method)


def kl_projection_by_sums(log_weights: Array, cap: Array, mask: Array) -> Array:
    """`kl_projection_capped_simplex` of vectors [m] by "newton", for a caller who answers for their values: these are never judged."""
    return _kl_projection(log_weights, cap, mask, "newton")


def projection_capped_simplex(x: ArrayLike, cap: ArrayLike, *, mask: ArrayLike | None = None) -> Array:
    """The distribution with no entry above its cap that is nearest to x in Euclidean distance: clip(x - theta, 0, cap) for one theta.

    Args:
      x: [m], finite, or -inf for an entry that stays 0.
      cap: [] or [m], positive; inf for none. In [m] a cap may be 0.
      mask: [m] boolean, False for entries that get 0 and never count, whatever they hold; None for all True.

    Returns:
      [m], of the dtype of `x` (the default float for integers), with sum 1. Where the caps sum to less than 1, no such distribution
      exists, and the caps are returned. Differentiable in both modes, in `x` and `cap`.

    Raises:
      ValueError: naming the argument, for wrong shapes and kinds; and where the values are known (not inside jit or vmap), for caps
        that are negative or NaN or sum to less than 1, and for an empty mask. Inside, an empty mask gives zeros, and NaN gives NaN.

    Source: Wang and Lu, Projection onto the capped simplex (2015), arXiv:1503.01002: the optimality conditions, with caps per entry.

    >>> import jax.numpy as jnp
    >>> from jboost import projections
    >>> projections.projection_capped_simplex(jnp.array([2.0, 0.5, 0.25]), 0.5).tolist()
    [0.5, 0.375, 0.125]
    """
    return _euclidean_projection(*_arguments("x", x, cap, mask))


# --- arguments -------------------------------------------------------------------------------------------------------------


def _arguments(name: str, values: Any, cap: Any, mask: Any) -> tuple[Array, Array, Array]:
    array = check.numeric(name, values, shape=("m",), kinds="fiu")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float))
    size = array.shape[0]
    if not size:
        raise ValueError(f"{name} is empty: a distribution has one entry at least")
    is_vector = bool(getattr(cap, "ndim", isinstance(cap, list | tuple)))
    cap_array = check.numeric("cap", cap, shape=(size,) if is_vector else (), kinds="fiu").astype(array.dtype)
    mask_array = jnp.ones(size, bool) if mask is None else check.numeric("mask", mask, shape=(size,), kinds="b")
    if _is_known(mask):
        _judge(values, cap, np.ones(size, bool) if mask is None else np.asarray(mask), float(jnp.finfo(array.dtype).eps))
    return array, cap_array, mask_array


def _is_known(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return not any(isinstance(leaf, jax.core.Tracer) or (isinstance(leaf, jax.Array) and not leaf.is_fully_addressable) for leaf in leaves)


def _judge(values: Any, cap: Any, kept: np.ndarray, eps: float) -> None:
    """Raises ValueError for what is wrong with those values that are known."""
    if not kept.any():
        raise ValueError("mask is empty: keep one entry at least")
    if not _is_known(cap):
        return
    caps = np.asarray(cap, np.float64)
    bad = ~(caps >= 0) & kept if caps.ndim else np.reshape(~(caps > 0), 1)
    if bad.any():
        place, value = (f"cap[{np.argmax(bad)}]", caps[np.argmax(bad)]) if caps.ndim else ("cap", caps)
        raise ValueError(f"{place} is {value}: caps are positive; use inf for no cap" + (", and 0 for an entry that stays 0" if caps.ndim else ""))
    if _is_known(values):
        kept = kept & (np.asarray(values) != -np.inf)
    count = int(np.count_nonzero(kept))
    total = float(np.sum(np.minimum(caps, 1), where=kept)) if caps.ndim else count * min(float(caps), 1.0)
    if total < 1 - 4 * _ROUNDINGS * eps:
        raise ValueError(
            f"cap is too small: the caps of the {count} entries that count sum to {total:.6g}, and a distribution sums to 1; "
            + (f"raise it to 1 / {count} at least" if count else "give one entry a positive weight")
        )


def _each(value: Array, size: int) -> Array:
    return jnp.broadcast_to(value, (size,))


def _widen(values: Array, cap: Array) -> tuple[Array, Array]:
    """Both in 32 bits or more; a cap of 1 or more never binds, and becomes 2, so that no rounding makes it bind."""
    wide = jnp.promote_types(values.dtype, jnp.float32)
    return values.astype(wide), jnp.where(cap >= 1, 2, cap).astype(wide)


def _finish(answer: Array, values: Array, cap: Array, caps: Array, kept: Array, mask: Array) -> Array:
    """The answer, or the caps where they sum to 1 up to rounding, or to less; NaN where the input is none."""
    size = values.shape[0]
    caps_are_it = _remainder(caps, kept) >= -_ROUNDINGS * jnp.finfo(caps.dtype).eps
    answer = jnp.where(kept, jnp.where(caps_are_it, _each(caps, size), answer), 0).astype(values.dtype)
    broken = jnp.any(mask & (jnp.isnan(values) | (values == jnp.inf) | jnp.isnan(_each(cap, size))))
    return jnp.where(broken, jnp.nan, answer)


def _derivative_sets(answer: Array, values: Array, cap: Array, mask: Array) -> tuple[Array, Array]:
    """Where the answer is the cap, and where it is not and counts."""
    size = values.shape[0]
    kept = mask & (values != -jnp.inf) & _each(cap > 0, size)
    capped = kept & _each(cap < 1, size) & (answer >= _each(cap, size))
    return capped, kept & ~capped


# --- what the caps leave of 1 ----------------------------------------------------------------------------------------------


def _remainder(caps: Array, capped: Array) -> Array:
    """1 minus the caps [] or [m] of the capped entries [m], in 64 bits: it keeps its digits where it is small."""
    if not caps.ndim:
        return _remainder_of_count(caps, jnp.sum(capped, dtype=jnp.int32))

    def compute(caps: Array, capped: Array) -> Array:
        return (1.0 - jnp.sum(jnp.where(capped, caps.astype(jnp.float64), 0.0))).astype(caps.dtype)

    result: Array = numerics.in_64_bits(compute)(caps, capped)
    return result


def _remainder_of_count(cap: Array, count: Array) -> Array:
    """1 - cap * count, [...]: by products that are exact, so that its sign does not depend on how they are fused."""

    def compute(cap: Array, count: Array) -> Array:
        cap = jnp.broadcast_to(cap, count.shape).astype(jnp.float64)
        high = lax.reduce_precision(cap, exponent_bits=11, mantissa_bits=24)
        times = count.astype(jnp.float64)
        return ((1.0 - high * times) - (cap - high) * times).astype(dtype)

    dtype = cap.dtype
    result: Array = numerics.in_64_bits(compute)(cap, count)
    return result


def _remainders_of_prefixes(caps: Array) -> Array:
    """1 minus the sum of all entries up to and with each, row by row, [b, l]."""

    def compute(caps: Array) -> Array:
        within = jnp.cumsum(caps.astype(jnp.float64), axis=1)
        rows = within[:, -1]
        return (1.0 - ((jnp.cumsum(rows) - rows)[:, None] + within)).astype(caps.dtype)

    result: Array = numerics.in_64_bits(compute)(caps)
    return result


def _rough_remainder(caps: Array, capped: Array) -> Array:
    """As `_remainder`, to the rounding of a sum of the caps' own dtype: for a search."""
    return jnp.sum(jnp.where(capped, -caps, 0)) + 1 if caps.ndim else _remainder(caps, capped)


# --- relative entropy ------------------------------------------------------------------------------------------------------


class _Problem(NamedTuple):
    log_weights: Array  # [m], -inf where not kept
    caps: Array  # [] or [m], in (0, 1) or 2; in [m] 0 where not kept
    keys: Array  # [m], log_weights - log caps, but log_weights where the caps are []; -inf where not kept
    kept: Array  # [m] bool


@functools.partial(jax.jit, static_argnames="method")
def _kl_projection(log_weights: Array, cap: Array, mask: Array, method: str) -> Array:
    return _kl_with_derivative(log_weights, cap, mask, method)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _kl_with_derivative(log_weights: Array, cap: Array, mask: Array, method: str) -> Array:
    size = log_weights.shape[0]
    logs, caps = _widen(log_weights, cap)
    kept = mask & (logs != -jnp.inf) & _each(caps > 0, size)
    keys = logs = jnp.where(kept, logs, -jnp.inf)
    if caps.ndim:
        caps = jnp.where(kept, caps, 0)
        keys = jnp.where(kept, logs - jnp.log(jnp.where(kept, caps, 1)), -jnp.inf)
    problem = _Problem(logs, caps, keys, kept)
    answer = _by_sort(problem) if method == "sort" else _by_newton(problem)
    return _finish(answer, log_weights, cap, caps, kept, mask)


@_kl_with_derivative.defjvp
def _kl_derivative(method: str, primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Any]) -> tuple[Array, Array]:
    log_weights, cap, mask = primals
    size = log_weights.shape[0]
    answer = _kl_with_derivative(log_weights, cap, mask, method)
    capped, free = _derivative_sets(answer, log_weights, cap, mask)
    log_tangent = jnp.where(free, tangents[0], 0)
    cap_tangent = jnp.where(capped, _each(tangents[1], size), 0)
    weight = jnp.where(free, answer, 0)
    share = numerics.safe_divide(weight, _each(jnp.sum(weight), size))
    return answer, cap_tangent + weight * (log_tangent - jnp.sum(share * log_tangent)) - share * jnp.sum(cap_tangent)


def _refine(problem: _Problem, capped: Array) -> Array:
    """The projection, from capped entries [m] that are roughly the right ones: each set implies a multiplier, and that a better set."""
    logs, caps, _, kept = problem
    size = logs.shape[0]

    def weigh(capped: Array, left: Array) -> Array:
        free = kept & ~capped
        largest = numerics.masked_max(logs, free, fill=-jnp.inf)
        relative = jnp.where(kept, jnp.exp(jnp.minimum(logs - jnp.where(largest > -jnp.inf, largest, 0), 80)), 0)
        ratio = numerics.safe_divide(jnp.maximum(left, 0), numerics.masked_sum(relative, free))
        return relative * ratio

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        capped, left, _ = carry
        implied = weigh(capped, left) > _each(caps, size)
        implied_left = _remainder(caps, implied)
        accept = (implied_left > 0) & jnp.any(implied != capped)
        return jnp.where(accept, implied, capped), jnp.where(accept, implied_left, left), accept

    left = _remainder(caps, capped)
    capped, left = capped & (left > 0), jnp.where(left > 0, left, 1)
    start = (capped, left, jnp.ones((), bool))
    (capped, left, _), _ = bounded_loop(step, lambda carry: carry[2], start, max_checks=_MAX_REFINEMENTS)
    return jnp.where(capped, _each(caps, size), jnp.minimum(weigh(capped, left), _each(caps, size)))


# --- with a sort -----------------------------------------------------------------------------------------------------------


def _by_sort(problem: _Problem) -> Array:
    """The projection from the sorted keys.

    An entry is not capped if the entries behind it, were it just at its cap, would weigh no less than what the caps up to it leave.
    What holds for an entry holds for all behind it: the question goes to the first entry of every block, then to all of one block.
    """
    logs, caps, keys, kept = problem
    size, dtype = logs.shape[0], logs.dtype
    length = math.isqrt(size - 1) + 1
    num_blocks = -(-size // length)
    padding = num_blocks * length - size
    if caps.ndim:
        ordered, sorted_caps = _sort_descending(keys, caps)
        sorted_caps = jnp.pad(sorted_caps, (0, padding)).reshape(num_blocks, length)
        left = _remainders_of_prefixes(sorted_caps)
    else:
        ordered = _floats_of_words(lax.sort(_descending_words(keys)), dtype)
        sorted_caps = _each(caps, num_blocks * length).reshape(num_blocks, length)
        left = _remainder_of_count(caps, 1 + lax.iota(jnp.int32, num_blocks * length).reshape(num_blocks, length))
    ordered = jnp.pad(ordered, (0, padding), constant_values=-jnp.inf).reshape(num_blocks, length)

    firsts, first_caps = ordered[:, 0], sorted_caps[:, 0]
    inner = jnp.sum(sorted_caps[:, 1:] * _decay(ordered[:, 1:], firsts[:, None]), axis=1)
    behind = inner + _sums_behind(firsts, first_caps + inner)
    block = jnp.maximum(numerics.first_true((behind >= left[:, 0]) | (firsts == -jnp.inf)) - 1, 0)
    after = jnp.minimum(block + 1, num_blocks - 1)
    rest = jnp.where(block < after, first_caps[after] + behind[after], 0)
    line = ordered[block]
    line_behind = _sums_behind(line, sorted_caps[block]) + rest * _decay(_each(firsts[after], length), line)
    place = numerics.first_true((line_behind >= left[block]) & (line > -jnp.inf))
    inside = place < length  # else it is the first entry of the next block
    place = jnp.minimum(place, length - 1)
    largest = jnp.where(inside, line[place], firsts[after])
    if caps.ndim:
        return _refine(problem, kept & (keys > largest))
    remaining = jnp.where(inside, left[block, place], left[after, 0]) + caps
    total = 1 + jnp.where(inside, line_behind[place], behind[after]) / caps
    free = jnp.exp(jnp.minimum(logs - largest, 0)) * (remaining / total)
    return jnp.where(logs > largest, caps, jnp.minimum(free, caps))


def _decay(later: Array, earlier: Array) -> Array:
    """exp(later - earlier) for later <= earlier, and 0 where later is -inf."""
    return jnp.where(later > -jnp.inf, jnp.exp(jnp.minimum(later - jnp.where(earlier > -jnp.inf, earlier, 0), 0)), 0)


def _sums_behind(keys: Array, weights: Array) -> Array:
    """The sum over all entries j behind i of weights_j exp(keys_j - keys_i), [n] for each i, of descending keys."""
    shape = keys.shape * 2
    is_behind = lax.broadcasted_iota(jnp.int32, shape, 1) > lax.broadcasted_iota(jnp.int32, shape, 0)
    terms = weights[None, :] * _decay(jnp.broadcast_to(keys[None, :], shape), jnp.broadcast_to(keys[:, None], shape))
    return jnp.sum(jnp.where(is_behind, terms, 0), axis=1)


def _sort_descending(keys: Array, caps: Array) -> tuple[Array, Array]:
    """Keys in descending order, and the caps in the same order."""
    words = _descending_words(keys)
    if keys.dtype.itemsize > 4:
        words, caps = lax.sort((words, caps), num_keys=1)
        return _floats_of_words(words, keys.dtype), caps

    def compute(words: Array, caps: Array) -> tuple[Array, Array]:
        packed = (words.astype(jnp.uint64) << 32) | lax.bitcast_convert_type(caps, jnp.uint32).astype(jnp.uint64)
        packed = lax.sort(packed)
        return (packed >> 32).astype(jnp.uint32), lax.bitcast_convert_type((packed & 0xFFFFFFFF).astype(jnp.uint32), jnp.float32)

    words, caps = numerics.in_64_bits(compute)(words, caps)
    return _floats_of_words(words, keys.dtype), caps


def _descending_words(values: Array) -> Array:
    """Unsigned integers whose ascending order is the descending order of floats: integers sort several times faster."""
    unsigned, sign = _word(values.dtype)
    bits = lax.bitcast_convert_type(values, unsigned)
    return jnp.where(bits >= sign, bits, ~(bits | sign))


def _floats_of_words(words: Array, dtype: jnp.dtype) -> Array:
    _, sign = _word(dtype)
    return lax.bitcast_convert_type(jnp.where(words >= sign, words, ~words & ~sign), dtype)


def _word(dtype: jnp.dtype) -> tuple[Any, Array]:
    unsigned = {4: jnp.uint32, 8: jnp.uint64}[dtype.itemsize]
    return unsigned, jnp.asarray(1 << (8 * dtype.itemsize - 1), unsigned)


# --- without a sort --------------------------------------------------------------------------------------------------------


class _Probe(NamedTuple):
    """What is seen of a decreasing, piecewise smooth function at one place."""

    excess: Array  # [], the function minus 1
    sets: Array  # [s] int32, sizes of the nested sets that tell the pieces apart; -1 if the root is no more than a bound
    root: Array  # [], where this piece, continued, is 1
    merit: Array  # [], the root of the probe with the least is the best one; inf if there is no root
    near: Array  # [] bool, whether the root is about here: rounding can keep a search from leaving a place


def _search(evaluate: Callable[[Array], _Probe], low: Array, high: Array, total: Array, start: Array, *, num_sets: int) -> Array:
    """Where a decreasing function is 1: at each check it is seen at a Newton point, on the chord and in the middle of a bracket.

    The search ends when a Newton point lies on the piece that it was computed from, or when the bracket is down to rounding.

    Args:
      evaluate: [] -> `_Probe`.
      low: [], where the function is 1 or more.
      high: [], where it is 1 or less.
      total: [], the function at `low`, if it is about 0 at `high`.
      start: [], the first place to look at.
      num_sets: s.
    """
    eps = jnp.finfo(low.dtype).eps

    def step(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, excess_low, excess_high, newton, source, _ = carry
        chord = numerics.safe_divide(excess_low, excess_low - excess_high, fill=0.5)
        places = jnp.stack([newton, low + chord * (high - low), low + 0.5 * (high - low)])
        probe = jax.vmap(evaluate)(places)
        below = probe.excess >= 0
        at = jnp.argmax(jnp.where(below, places, -jnp.inf))
        moves = below[at] & (places[at] >= low)
        low, excess_low = jnp.where(moves, places[at], low), jnp.where(moves, probe.excess[at], excess_low)
        at = jnp.argmin(jnp.where(below, jnp.inf, places))
        moves = ~below[at] & (places[at] <= high)
        high, excess_high = jnp.where(moves, places[at], high), jnp.where(moves, probe.excess[at], excess_high)
        done = probe.near[0] & jnp.all((probe.sets[0] == source) & (source >= 0))
        best = jnp.argmin(probe.merit)
        is_root = probe.merit[best] < jnp.inf
        following = jnp.where(is_root, jnp.clip(probe.root[best], low, high), high)
        source = jnp.where(is_root, probe.sets[best], -1)
        return low, high, excess_low, excess_high, jnp.where(done, newton, following), source, done

    def unfinished(carry: tuple[Array, ...]) -> Array:
        low, high, *_, done = carry
        return ~done & (high - low > 2 * eps * jnp.maximum(jnp.abs(low), jnp.abs(high)))

    constants = (jnp.full(num_sets, -1, jnp.int32), jnp.zeros((), bool))
    carry = (low, high, total - 1, -jnp.ones_like(total), start, *constants)
    return bounded_loop(step, unfinished, carry, max_checks=_MAX_CHECKS)[0][4]


def _by_newton(problem: _Problem) -> Array:
    """The projection from a search for the threshold."""
    logs, caps, keys, kept = problem
    eps, floor = jnp.finfo(logs.dtype).eps, logs.shape[0] * jnp.finfo(logs.dtype).tiny  # so much underflows at most

    def is_capped(threshold: Array) -> Array:  # a key at the threshold counts as free: its weight is the same, and the sets do not flicker
        return kept & (keys > threshold + 4 * eps * jnp.maximum(jnp.abs(threshold), 1))

    def evaluate(threshold: Array) -> _Probe:
        capped = is_capped(threshold)
        relative = jnp.exp(jnp.minimum(keys - threshold, 0))
        weight = numerics.masked_sum(caps * relative if caps.ndim else relative, kept & ~capped)
        scale = jnp.ones_like(weight) if caps.ndim else caps
        left = _rough_remainder(caps, capped)
        distance = jnp.log(jnp.where(left > 0, left, 1) / (scale * jnp.maximum(weight, floor)))
        root = jnp.where(left > 0, threshold - distance, jnp.inf)
        sets = jnp.where(weight * eps > floor, jnp.sum(capped, dtype=jnp.int32), -1)
        return _Probe(scale * weight - left, sets[None], root, root, jnp.abs(distance) < 0.5)

    total = 1 - _remainder(caps, kept)
    low = numerics.masked_min(keys, kept, fill=jnp.inf)
    high = numerics.masked_max(keys, kept, fill=-jnp.inf) + jnp.log(jnp.maximum(total, 1))
    threshold = _search(evaluate, low, high, total, high, num_sets=1)
    return _refine(problem, is_capped(threshold))


# --- Euclidean -------------------------------------------------------------------------------------------------------------


@jax.jit
def _euclidean_projection(x: Array, cap: Array, mask: Array) -> Array:
    return _euclidean_with_derivative(x, cap, mask)


@jax.custom_jvp
def _euclidean_with_derivative(x: Array, cap: Array, mask: Array) -> Array:
    size = x.shape[0]
    wide, caps = _widen(x, cap)
    kept = mask & (wide != -jnp.inf) & _each(caps > 0, size)
    wide = jnp.where(kept, wide, 0)
    caps = jnp.where(kept, caps, 0) if caps.ndim else caps
    largest = numerics.masked_max(wide, kept, fill=-jnp.inf)
    low = numerics.masked_min(wide, kept, fill=jnp.inf) - largest
    low = low * (1 + 4 * jnp.finfo(low.dtype).eps) - 1
    high = jnp.zeros_like(low)
    total = 1 - _remainder(caps, kept)
    pivot = largest + _euclidean_search(wide - largest, caps, kept, low, high, total, high)
    y = wide - pivot  # differences to a place near theta are exact, so theta is found anew from there
    theta = _euclidean_search(y, caps, kept, low - 1 + (largest - pivot), largest - pivot + 1, total, high)
    capped, free = _euclidean_sets(y - theta, caps, kept)
    num_free = jnp.sum(free, dtype=jnp.int32).astype(y.dtype)
    theta = numerics.safe_divide(numerics.masked_sum(y, free) - _remainder(caps, capped), num_free, fill=theta)
    return _finish(jnp.clip(y - theta, 0, _each(caps, size)), x, cap, caps, kept, mask)


@_euclidean_with_derivative.defjvp
def _euclidean_derivative(primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Any]) -> tuple[Array, Array]:
    x, cap, mask = primals
    answer = _euclidean_with_derivative(x, cap, mask)
    capped, free = _derivative_sets(answer, x, cap, mask)
    free = free & (answer > 0)
    x_tangent = jnp.where(free, tangents[0], 0)
    cap_tangent = jnp.where(capped, _each(tangents[1], x.shape[0]), 0)
    theta_tangent = numerics.safe_divide(jnp.sum(x_tangent) + jnp.sum(cap_tangent), jnp.sum(free, dtype=answer.dtype))
    return answer, cap_tangent + x_tangent - jnp.where(free, theta_tangent, 0)


def _euclidean_sets(heights: Array, caps: Array, kept: Array) -> tuple[Array, Array]:
    """Entries at their cap, and entries between 0 and their cap, from x - theta."""
    capped = heights >= _each(caps, heights.shape[0])
    return kept & capped, kept & ~capped & (heights > 0)


def _euclidean_search(y: Array, caps: Array, kept: Array, low: Array, high: Array, total: Array, start: Array) -> Array:
    eps = jnp.finfo(y.dtype).eps

    def evaluate(theta: Array) -> _Probe:
        capped, free = _euclidean_sets(y - theta, caps, kept)
        num_free = jnp.sum(free, dtype=jnp.int32)
        excess = numerics.masked_sum(y - theta, free) - _rough_remainder(caps, capped)
        root = theta + numerics.safe_divide(excess, num_free.astype(y.dtype))
        is_flat = num_free == 0  # the root is then anywhere on this piece, or not on it
        merit = jnp.where(is_flat & (jnp.abs(excess) > _ROUNDINGS * eps), jnp.inf, jnp.abs(excess))
        return _Probe(excess, jnp.stack([jnp.sum(capped, dtype=jnp.int32), num_free]), root, merit, num_free >= 0)

    return _search(evaluate, low, high, total, start, num_sets=2)
