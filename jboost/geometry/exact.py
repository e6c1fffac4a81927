"""Exact signs of sums of floats by expansions, and values of twice the precision by double words.

All functions take float32 or float64. A double word has 106 bits for float64 and 48 bits for
float32. 48 bits hold every product of two coordinate differences on an integer grid up to 2^20.

No constant but 0 may be a term of an error-free sum: compilers fold (a + 1) - 1.

Symbols: T. J. Dekker 1971 for `two_product`, D. E. Knuth for `two_sum`, J. R. Shewchuk 1997,
*Adaptive Precision Floating-Point Arithmetic*, for expansions (`sign_of_sum` is his GROW-EXPANSION
and relies on round to nearest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import reduce
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
    """Splits a into a sum of two floats with half as many bits, whose products are exact.

    It works on the bits, because a compiler may fuse the arithmetic of Dekker's split.
    """
    bits_dtype, dropped = {4: (jnp.uint32, 12), 8: (jnp.uint64, 27)}[a.dtype.itemsize]
    half = jnp.ones((), bits_dtype) << (dropped - 1)
    bits = ((lax.bitcast_convert_type(a, bits_dtype) + half) >> dropped) << dropped
    high = lax.bitcast_convert_type(bits, a.dtype)
    return high, a - high


def rounded_product(a: Array, b: Array) -> Array:
    """a * b, rounded before it is used.

    A compiler may contract a product and a later sum into one operation with a single rounding, for
    one use of the product and not for another. Error-free sums of the product are then wrong. The
    `where`, which never changes a number, prevents this: twice an infinite product is itself.
    """
    product = a * b
    return jnp.where(jnp.abs(product) <= jnp.finfo(product.dtype).max, product, product + product)


def two_product(a: Array, b: Array) -> Wide:
    """a * b exactly, if nothing overflows or underflows."""
    product = rounded_product(a, b)
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return Wide(
        product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    )


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


def orientation(a: Array, b: Array, c: Array) -> Array:
    """The exact orientation of points a, b, c [2, ...].

    It is +1 if c is to the left of the ray from a through b, -1 to the right, 0 if they are
    collinear.
    """
    a, b, c = jnp.broadcast_arrays(a, b, c)
    # the sum of three cross products, each a difference of two products
    first, second = jnp.stack([b, c, a], axis=1), jnp.stack([c, a, b], axis=1)
    high, low = two_product(jnp.stack([first[0], -first[1]]), second[::-1])
    return sign_of_sum([part[axis, i] for i in range(3) for part in (high, low) for axis in (0, 1)])


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
    return two_sum(
        product.hi, product.lo + (rounded_product(a.hi, b.lo) + rounded_product(a.lo, b.hi))
    )


def wide_scale(a: Array, b: Wide) -> Wide:
    """a * b to nearly twice the working precision."""
    product = two_product(a, b.hi)
    return two_sum(product.hi, product.lo + rounded_product(a, b.lo))


def wide_divide(a: Wide, b: Wide) -> Wide:
    """a / b to nearly twice the working precision."""
    first = a.hi / b.hi
    rest = wide_add(a, wide_negative(wide_multiply(b, Wide(first, jnp.zeros_like(first)))))
    return two_sum(first, rest.hi / b.hi)


def wide_where(condition: Array, a: Wide, b: Wide) -> Wide:
    """a where `condition`, else b."""
    return Wide(jnp.where(condition, a.hi, b.hi), jnp.where(condition, a.lo, b.lo))


def wide_least(values: Wide, mask: Array) -> tuple[Array, Wide]:
    """The int32 index of the first minimum of values [..., n] in a mask, and the minimum.

    They are n and inf if the mask is empty.
    """
    high, low, index = reduce.lexicographic_least(*_keys(values, mask))
    return index, Wide(high, low)


def wide_leasts(
    values: Wide, first: Array, second: Array
) -> tuple[tuple[Array, Wide], tuple[Array, Wide]]:
    """`wide_least` for two masks."""
    found = reduce.lexicographic_leasts(_keys(values, first), _keys(values, second))
    one, other = ((index, Wide(high, low)) for high, low, index in found)
    return one, other


def _keys(values: Wide, mask: Array) -> tuple[Array, Array, Array]:
    """The lexicographic keys of values [..., n]; the largest keys outside of the mask."""
    size = mask.shape[-1]
    position = lax.broadcasted_iota(jnp.int32, mask.shape, mask.ndim - 1)
    return (
        jnp.where(mask, values.hi, jnp.inf),
        jnp.where(mask, values.lo, jnp.inf),
        jnp.where(mask, position, size),
    )
