"""Arithmetic without rounding error on ordinary floats: expansions for signs, double words for values.

Everything here is written for either float type. On float64 a double word carries 106 bits, on float32 it carries 48,
which holds every product of two coordinate differences on an integer grid up to 2^20.

No constant but 0 may take part in an error-free sum: compilers fold (a + 1) - 1.

Symbols: T. J. Dekker 1971 for `two_product`, D. E. Knuth for `two_sum`, J. R. Shewchuk 1997, *Adaptive Precision
Floating-Point Arithmetic*, for expansions (`sign_of_sum` is his GROW-EXPANSION and relies on round to nearest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base.types import Array


class Wide(NamedTuple):
    """An unevaluated sum hi + lo with |lo| at most half a unit in the last place of hi."""

    hi: Array  # [...]
    lo: Array  # [...]


def two_sum(a: Array, b: Array) -> Wide:
    """a + b exactly."""
    total = a + b
    b_part = total - a
    return Wide(total, (a - (total - b_part)) + (b - b_part))


def _split(a: Array) -> tuple[Array, Array]:
    """a as a sum of two halves whose products with other halves are exact; by bits, so that fused operations cannot spoil it."""
    bits_dtype, dropped = {4: (jnp.uint32, 12), 8: (jnp.uint64, 27)}[a.dtype.itemsize]
    half = jnp.ones((), bits_dtype) << (dropped - 1)
    bits = ((lax.bitcast_convert_type(a, bits_dtype) + half) >> dropped) << dropped
    high = lax.bitcast_convert_type(bits, a.dtype)
    return high, a - high


def rounded_product(a: Array, b: Array) -> Array:
    """a * b rounded once and for all.

    A compiler may contract a product and a later sum into one operation with a single rounding, in one place and not in
    another; error-free sums of such a product are then wrong. The selection, which never changes a number, forbids it.
    """
    product = a * b
    return jnp.where(jnp.abs(product) <= jnp.finfo(product.dtype).max, product, jnp.inf)


def two_product(a: Array, b: Array) -> Wide:
    """a * b exactly, short of overflow and underflow."""
    product = rounded_product(a, b)
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return Wide(product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)


def sign_of_sum(terms: Sequence[Array]) -> Array:
    """The exact sign (-1, 0, +1 as int32) of a sum of floats."""
    expansion: list[Array] = []
    for term in terms:
        carried, grown = term, []
        for component in expansion:
            carried, rest = two_sum(carried, component)
            grown.append(rest)
        expansion = [*grown, carried]
    sign = jnp.zeros(expansion[0].shape, jnp.int32)
    for component in reversed(expansion):
        sign = jnp.where(sign == 0, jnp.sign(component).astype(jnp.int32), sign)
    return sign


def orientation(ax: Array, ay: Array, bx: Array, by: Array, cx: Array, cy: Array) -> Array:
    """The exact sign of the turn a -> b -> c: +1 if c lies to the left of the ray from a through b, 0 if the three are collinear."""
    products = [two_product(bx, cy), two_product(by, ax), two_product(ay, cx), two_product(-bx, ay), two_product(-ax, cy), two_product(-by, cx)]
    return sign_of_sum([part for product in products for part in product])


def wide_difference(a: Array, b: Array) -> Wide:
    """a - b exactly."""
    return two_sum(a, -b)


def wide_add(a: Wide, b: Wide) -> Wide:
    """a + b to twice the working precision."""
    high, low = two_sum(a.hi, b.hi), two_sum(a.lo, b.lo)
    inner = two_sum(high.hi, high.lo + low.hi)
    return two_sum(inner.hi, inner.lo + low.lo)


def wide_negative(a: Wide) -> Wide:
    """-a exactly."""
    return Wide(-a.hi, -a.lo)


def wide_multiply(a: Wide, b: Wide) -> Wide:
    """a * b to nearly twice the working precision."""
    product = two_product(a.hi, b.hi)
    return two_sum(product.hi, product.lo + (rounded_product(a.hi, b.lo) + rounded_product(a.lo, b.hi)))


def wide_divide(a: Wide, b: Wide) -> Wide:
    """a / b to nearly twice the working precision."""
    first = a.hi / b.hi
    rest = wide_add(a, wide_negative(wide_multiply(b, Wide(first, jnp.zeros_like(first)))))
    return two_sum(first, rest.hi / b.hi)


def wide_where(condition: Array, a: Wide, b: Wide) -> Wide:
    """a where `condition`, else b."""
    return Wide(jnp.where(condition, a.hi, b.hi), jnp.where(condition, a.lo, b.lo))


def wide_abs(a: Wide) -> Wide:
    """|a| exactly."""
    return wide_where(a.hi < 0, wide_negative(a), a)


def wide_argmin(values: Wide, mask: Array) -> Array:
    """The index of the least value among those in `mask` of a vector [n], n where the mask is empty; ties go to the lowest index."""
    least = jnp.min(jnp.where(mask, values.hi, jnp.inf), axis=-1, initial=jnp.inf)
    tied = mask & (values.hi == least)
    least_rest = jnp.min(jnp.where(tied, values.lo, jnp.inf), axis=-1, initial=jnp.inf)
    size = values.hi.shape[-1]
    index = lax.broadcasted_iota(jnp.int32, (size,), 0)
    return jnp.min(jnp.where(tied & (values.lo == least_rest), index, size), axis=-1, initial=size)
