"""Pair cuts: a search over all of them, and a working set of those that are stored.

Equation numbers are those of Goldberg and Eckstein (2009). The cut of (i, i'), of opposite classes,
is xi_i + xi_i' >= 1 - sum of mu over S_ii', with S_ii' = {u : H_iu = y_i != H_i'u}, (18). With
`hits` C_iu = 1[H_iu = y_i] and `misses` N_i'u = 1[H_i'u != y_i] all sums are products C diag(mu)
N'. They are computed in slabs, for both orders of a pair. For every example the search finds the
partner whose cut requires the largest slack of it, so that new cuts are spread over the examples.

Where hypotheses abstain (H_iu = 0), the cuts (17) are not valid for all points of (15), contrary to
Theorem 4.1. Example: lambda is .4 on the constant +1 and .6 on a monomial that outputs -1 on i'
alone. Then both i (positive) and i' (negative) are right, but S_ii' is empty. The valid cut has one
sum for each pair, over the hypotheses that separate its examples in either direction: the union of
S_ii' and S_i'i (`either` of the instance). Without abstention both kinds of cuts are the same.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops, reduce
from jboost.base.records import register
from jboost.base.types import Array
from jboost.l0.types import Cuts, Instance

_ROWS_AT_ONCE = 256  # examples whose distances to all others are in memory at once


class LeastSlacks(NamedTuple):
    """The least value of each slack with which all its cuts hold, if no other slack changes: the
    maximum over all partners of 1 - sum of mu - xi of the partner.
    """

    least: Array  # [m] -inf without a partner
    partner: Array  # [m] int32 the partner of the maximum; m if there is none


def max_minority_size(num_examples: int) -> int:
    """The largest size of the minority class, static."""
    return num_examples // 2


def num_pairs(num_examples: int) -> int:
    """The largest number of cuts, both orders counted."""
    return 2 * (num_examples // 2) * (num_examples - num_examples // 2)


def search(
    instance: Instance, selected: Array, slacks: Array, max_entries: int, only: Array | None = None
) -> LeastSlacks:
    """Searches the cuts of all pairs, in slabs of the majority class. With `only` [U], a pair
    counts only if one of these hypotheses separates it in either direction.

    The result is exact, without rounding, if `selected` [U] and `slacks` [m] are multiples of
    2^-nmant, nmant the number of bits of the fraction of a float (`certify.on_grid`).
    """
    num_examples, num_columns = instance.hits.shape
    few = max_minority_size(num_examples)
    nothing = LeastSlacks(
        jnp.full((num_examples,), -jnp.inf, slacks.dtype), jnp.zeros((num_examples,), jnp.int32)
    )
    if few == 0 or num_columns == 0:
        return nothing._replace(partner=jnp.full((num_examples,), num_examples, jnp.int32))
    slab = max(1, min(num_examples, max_entries // few))
    left = instance.hits[:few] * selected[None, :]
    right = (
        jnp.where(
            instance.either, instance.misses[:few] - instance.hits[:few], instance.misses[:few]
        )
        * selected[None, :]
    )
    is_few = jnp.arange(few) < instance.num_few
    own = jnp.where(is_few, slacks[:few], jnp.inf)
    numbers = jnp.arange(few, dtype=jnp.int32)

    def search_slab(
        carry: tuple[Array, LeastSlacks, LeastSlacks],
    ) -> tuple[Array, LeastSlacks, LeastSlacks]:
        start, of_few, of_many = carry
        begin = jnp.minimum(start, num_examples - slab)
        hits, misses = (
            lax.dynamic_slice_in_dim(matrix, begin, slab)
            for matrix in (instance.hits, instance.misses)
        )
        one_way, other_way = _product(left, misses), _product(right, hits)  # [few, slab]
        served = jnp.where(instance.either, one_way + other_way, jnp.minimum(one_way, other_way))
        indices = begin + jnp.arange(slab, dtype=jnp.int32)
        is_many = (indices >= instance.num_few) & (indices < instance.num_real)
        of_slab = jnp.where(is_many, lax.dynamic_slice_in_dim(slacks, begin, slab), jnp.inf)
        is_near = are_near(
            instance, instance.bits[:few], lax.dynamic_slice_in_dim(instance.bits, begin, slab)
        )
        if only is not None:
            counts = only.astype(hits.dtype)[None, :]
            is_near &= (
                _product(instance.hits[:few] * counts, misses)
                + _product(instance.misses[:few] * counts, hits)
                > 0
            )
        left_over = jnp.where(is_near, 1 - served, -jnp.inf)
        in_rows = _greatest(left_over - of_slab[None, :], indices[None, :], 1, num_examples)
        in_columns = _greatest(left_over - own[:, None], numbers[:, None], 0, num_examples)
        of_few = _where(in_rows.least > of_few.least, in_rows, of_few)
        old = LeastSlacks(*(lax.dynamic_slice_in_dim(part, begin, slab) for part in of_many))
        of_many = LeastSlacks(
            *(
                lax.dynamic_update_slice_in_dim(part, new, begin, 0)
                for part, new in zip(of_many, _where(is_many, in_columns, old), strict=True)
            )
        )
        return start + slab, of_few, of_many

    first = (instance.num_few, LeastSlacks(nothing.least[:few], nothing.partner[:few]), nothing)
    _, of_few, of_many = loops.while_loop(
        lambda carry: carry[0] < instance.num_real, search_slab, first
    )
    first_rows = _where(is_few, of_few, LeastSlacks(of_many.least[:few], of_many.partner[:few]))
    least = of_many.least.at[:few].set(first_rows.least)
    partner = of_many.partner.at[:few].set(first_rows.partner)
    return LeastSlacks(least, jnp.where(least > -jnp.inf, partner, num_examples).astype(jnp.int32))


def _greatest(values: Array, numbers: Array, axis: int, none: int) -> LeastSlacks:
    """The maximum along an axis, and the least of the `numbers` that attain it, or `none`."""
    most = reduce.largest(values, axis=axis)
    attained = jnp.where(values == jnp.expand_dims(most, axis), numbers, none)
    return LeastSlacks(most, jnp.min(attained, axis=axis))


def _where(condition: Array, one: LeastSlacks, other: LeastSlacks) -> LeastSlacks:
    return LeastSlacks(
        *(jnp.where(condition, mine, its) for mine, its in zip(one, other, strict=True))
    )


def distances(one: Array, other: Array) -> Array:
    """The numbers of attributes in which examples [k, N] and [l, N] differ, [k, l]. Attributes are
    -1 and +1; an unknown attribute is 0 and differs from nothing.
    """
    return (_product(jnp.abs(one), jnp.abs(other)) - _product(one, other)) / 2


def least_distance(bits: Array, is_few: Array, is_many: Array) -> Array:
    """The least distance of a pair of opposite classes, [], at least 1. `bits` is [m, N], the
    classes are [m] bool.
    """

    def nearest(part: tuple[Array, Array]) -> Array:
        row, counts = part
        return jnp.min(
            jnp.where(is_many & counts, distances(row[None], bits)[0], jnp.inf), initial=jnp.inf
        )

    return jnp.maximum(
        jnp.min(lax.map(nearest, (bits, is_few), batch_size=_ROWS_AT_ONCE), initial=jnp.inf), 1.0
    )


def are_near(instance: Instance, one: Array, other: Array) -> Array:
    """Which pairs of examples are near enough to have cuts, [k, l] bool."""
    if instance.bits.shape[1] == 0:
        return jnp.ones((one.shape[0], other.shape[0]), bool)
    return distances(one, other) <= instance.reach


def have_cuts(instance: Instance, cuts: Cuts) -> Array:
    """Which pairs of a working set are near enough for a cut, [K] bool."""
    if instance.bits.shape[1] == 0:
        return jnp.ones(cuts.first.shape, bool)
    one, other = (instance.bits.at[end].get(mode="fill", fill_value=0) for end in cuts)
    return jnp.sum(one * other < 0, axis=1) <= instance.reach


def _product(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right.T, precision=lax.Precision.HIGHEST)


def empty(capacity: int, num_examples: int) -> Cuts:
    """A working set without cuts."""
    none = jnp.full((capacity,), num_examples, jnp.int32)
    return Cuts(none, none)


def is_used(instance: Instance, cuts: Cuts) -> Array:
    """Which slots hold a cut, [K] bool."""
    return cuts.first < instance.hits.shape[0]


def rows(instance: Instance, cuts: Cuts) -> Array:
    """The coefficients [K, U] of mu in the cuts; 0 for empty slots."""
    first, second = (instance.margins.at[end].get(mode="fill", fill_value=0) for end in cuts)
    return serves(first, second, instance.either).astype(instance.margins.dtype)


def serves(first: Array, second: Array, either: Array | bool) -> Array:
    """Whether the cuts of pairs count a hypothesis with margins -1, 0 or +1 on the first and the
    second example. False where both margins are 0.
    """
    return ((first == 1) & (second != -1)) | (either & (first == 0) & (second == 1))


def gather(cuts: Cuts, values: Array) -> Array:
    """The sum of the values [..., m] of both ends, [..., K]."""
    first, second = (values.at[..., end].get(mode="fill", fill_value=0) for end in cuts)
    return first + second


def scatter(cuts: Cuts, values: Array, num_examples: int) -> Array:
    """The sums [..., m] of the values [..., K] of the cuts that contain an example."""
    sums = jnp.zeros((*values.shape[:-1], num_examples), values.dtype)
    return sums.at[..., jnp.concatenate(cuts)].add(
        jnp.concatenate([values, values], axis=-1), mode="drop"
    )


def scatter_rows(cuts: Cuts, values: Array, num_examples: int) -> Array:
    """The sums [m, n] of the rows [K, n] of the cuts that contain an example."""
    sums = jnp.zeros((num_examples, values.shape[1]), values.dtype)
    return sums.at[jnp.concatenate(cuts)].add(jnp.concatenate([values, values]), mode="drop")


@register
@dataclasses.dataclass(frozen=True)
class Listed:
    """The cuts of a working set of capacity K, with their rows."""

    cuts: Cuts
    served: Array  # [K, U] coefficients of mu
    is_used: Array  # [K] bool

    def covered(self, selected: Array) -> Array:
        """The sum [K] of mu [U] over the hypotheses of each cut."""
        return jnp.matmul(self.served, selected, precision=lax.Precision.HIGHEST)

    def serving(self, values: Array) -> Array:
        """The sum [U] of the values [K] of the cuts that count each hypothesis."""
        return jnp.matmul(values, self.served, precision=lax.Precision.HIGHEST)

    def most_serving(self, values: Array) -> Array:
        """`serving`, rounded up."""
        return brackets.bracket_dot(self.served.T, values[None, :])[1]

    def largest(self, values: Array) -> Array:
        """The largest value [U] among the hypotheses of each cut, [K], at least 0."""
        return jnp.max(self.served * values[None, :], axis=1, initial=0.0)

    def both_ends(self, values: Array) -> Array:
        """The sum [K] of the values [m] of the two examples of each cut."""
        return gather(self.cuts, values)

    def lesser_end(self, values: Array) -> Array:
        """The lesser [K] of the values [m] of the two examples of each cut."""
        return jnp.minimum(*(values.at[end].get(mode="fill", fill_value=1.0) for end in self.cuts))

    def spread(self, values: Array, num_examples: int) -> Array:
        """The sums [m] of the values [K] over the cuts of each example."""
        return scatter(self.cuts, values, num_examples)


class Refreshed(NamedTuple):
    """A working set after new cuts were added."""

    cuts: Cuts
    former_slot: Array  # [K] int32 the former slot of each cut, K for a new cut or an empty slot
    num_new: Array  # [] int32
    num_left_out: Array  # [] int32 violated cuts that found no slot


@dataclasses.dataclass(frozen=True)
class WorkingSet:
    """The strategy that adds violated cuts up to the capacity and drops unimportant ones."""

    capacity: int

    def hold(self, instance: Instance, cuts: Cuts) -> Listed:
        """The cuts with their rows."""
        return Listed(cuts, rows(instance, cuts), is_used(instance, cuts))

    def begin(self, instance: Instance, known: Cuts, values: Array) -> tuple[Cuts, Array]:
        """The first working set, of known cuts with their values [K]."""
        return known, values

    def listed(self, instance: Instance, cuts: Cuts) -> Cuts:
        """The cuts as a list: unchanged."""
        return cuts

    def refresh(
        self,
        instance: Instance,
        cuts: Cuts,
        importance: Array,
        required: LeastSlacks,
        selected: Array,
        slacks: Array,
        threshold: Array,
    ) -> Refreshed:
        """The next working set."""
        return refresh(instance, cuts, importance, required, selected, slacks, threshold)


def refresh(
    instance: Instance,
    cuts: Cuts,
    importance: Array,
    required: LeastSlacks,
    selected: Array,
    slacks: Array,
    threshold: Array,
) -> Refreshed:
    """Adds the violated cuts that the search found to the working set. If it is full, they replace
    the least important cuts.

    Args:
      instance: of m examples and U columns.
      cuts: of capacity K.
      importance: [K] positive for cuts that must stay.
      required: the result of `search` at `selected` and `slacks`.
      selected: [U] mu.
      slacks: [m] xi.
      threshold: [] the least violation that counts.
    """
    num_examples, capacity = instance.hits.shape[0], cuts.first.shape[0]
    indices, partners = jnp.arange(num_examples, dtype=jnp.int32), required.partner
    found = Cuts(jnp.concatenate([indices, partners]), jnp.concatenate([partners, indices]))
    has_partner = jnp.concatenate(
        [partners < num_examples, (partners < num_examples) & ~instance.either]
    )
    found = Cuts(
        *(
            jnp.where(instance.either, end, part)
            for end, part in zip((jnp.minimum(*found), jnp.maximum(*found)), found, strict=True)
        )
    )
    found = Cuts(*(jnp.where(has_partner, part, num_examples) for part in found))
    reached = jnp.matmul(rows(instance, found), selected, precision=lax.Precision.HIGHEST) + gather(
        found, slacks
    )
    violation = jnp.where(has_partner, 1 - reached, 0.0)
    is_violated = violation > threshold

    both = Cuts(
        jnp.concatenate([cuts.first, found.first]), jnp.concatenate([cuts.second, found.second])
    )
    is_new = jnp.concatenate([jnp.zeros((capacity,), bool), jnp.ones(violation.shape, bool)])
    counts = jnp.concatenate([is_used(instance, cuts), is_violated])
    both = Cuts(*(jnp.where(counts, part, num_examples) for part in both))
    order = jnp.lexsort((is_new, both.second, both.first))
    ordered = Cuts(both.first[order], both.second[order])
    repeats = (ordered.first[1:] == ordered.first[:-1]) & (
        ordered.second[1:] == ordered.second[:-1]
    )
    counts = counts & ~jnp.zeros_like(counts).at[order[1:]].set(repeats)

    rank = jnp.concatenate(
        [jnp.where(importance > 0, 3.0 + importance, 0.5), 1 + jnp.minimum(violation, 1.0)]
    )
    chosen = jnp.argsort(-jnp.where(counts, rank, 0.0))[:capacity]
    stays = counts[chosen]
    kept = Cuts(*(jnp.where(stays, part[chosen], num_examples) for part in both))
    num_new = jnp.sum(stays & is_new[chosen], dtype=jnp.int32)
    num_found = jnp.sum(counts & is_new, dtype=jnp.int32)
    former = jnp.where(stays & ~is_new[chosen], chosen, capacity).astype(jnp.int32)
    return Refreshed(kept, former, num_new, num_found - num_new)
