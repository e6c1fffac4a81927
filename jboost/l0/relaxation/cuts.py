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

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops, meshes, reduce
from jboost.base.records import register
from jboost.base.types import Array
from jboost.l0.types import CutIndices, RelaxationInstance

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
    instance: RelaxationInstance,
    selected: Array,
    slacks: Array,
    max_entries: int,
    only: Array | None = None,
) -> LeastSlacks:
    """Searches the cuts of all pairs, in slabs of the majority class. With `only` [U], a pair
    counts only if one of these hypotheses separates it in either direction. On a mesh each device
    searches the pairs of its part of the majority class.

    The result is exact, without rounding, if `selected` [U] and `slacks` [m] are multiples of
    2^-nmant, nmant the number of bits of the fraction of a float (`certify.on_grid`).
    """
    num_examples, num_columns = instance.hits.shape
    size = max_minority_size(num_examples)
    if size == 0 or num_columns == 0:
        return LeastSlacks(
            jnp.full((num_examples,), -jnp.inf, slacks.dtype),
            jnp.full((num_examples,), num_examples, jnp.int32),
        )
    most = max(1, max_entries // size)
    searched = (instance, selected, slacks, only)
    if meshes.is_set():
        of_minority, of_majority = _search_on_devices(*searched, most)
    else:
        of_minority, of_majority = _search_part(
            *searched, min(num_examples, most), instance.num_minority, instance.num_real
        )
    is_minority = jnp.arange(size) < instance.num_minority
    first_rows = _where(
        is_minority, of_minority, LeastSlacks(of_majority.least[:size], of_majority.partner[:size])
    )
    least = of_majority.least.at[:size].set(first_rows.least)
    partner = of_majority.partner.at[:size].set(first_rows.partner)
    return LeastSlacks(least, jnp.where(least > -jnp.inf, partner, num_examples).astype(jnp.int32))


def _search_on_devices(
    instance: RelaxationInstance,
    selected: Array,
    slacks: Array,
    only: Array | None,
    most: int,
) -> tuple[LeastSlacks, LeastSlacks]:
    """`_search_part` for the whole majority class, of which each device of the mesh has a part, in
    slabs of at most `most` examples.
    """
    devices = meshes.num_devices()
    width = min(-(-instance.hits.shape[0] // devices), most)
    share = -(-(instance.num_real - instance.num_minority) // devices)
    starts = instance.num_minority + share * jnp.arange(devices, dtype=jnp.int32)

    def on_device(
        start: Array,
        instance: RelaxationInstance,
        selected: Array,
        slacks: Array,
        only: Array | None,
    ) -> tuple[LeastSlacks, LeastSlacks]:
        begin = start[0]
        found = _search_part(instance, selected, slacks, only, width, begin, begin + share)
        return jax.tree.map(lambda leaf: leaf[None], found)

    of_minority, of_majority = meshes.over_devices(
        on_device, (starts,), (instance, selected, slacks, only)
    )
    # Devices have the examples in order: the partner is the one that a single search finds.
    none = instance.hits.shape[0]
    return (
        _greatest(of_minority.least, of_minority.partner, 0, none),
        _greatest(of_majority.least, of_majority.partner, 0, none),
    )


def _search_part(
    instance: RelaxationInstance,
    selected: Array,
    slacks: Array,
    only: Array | None,
    width: int,
    start: Array,
    stop: Array,
) -> tuple[LeastSlacks, LeastSlacks]:
    """The search over all pairs whose example of the majority class is one of `start` to `stop`, in
    slabs of `width`: of the first examples, which include the minority class, and of all as the
    majority class.
    """
    num_examples = instance.hits.shape[0]
    size = max_minority_size(num_examples)
    nothing = LeastSlacks(
        jnp.full((num_examples,), -jnp.inf, slacks.dtype), jnp.zeros((num_examples,), jnp.int32)
    )
    factors = _factors(instance, selected, size)
    is_minority = jnp.arange(size) < instance.num_minority
    own = jnp.where(is_minority, slacks[:size], jnp.inf)
    numbers = jnp.arange(size, dtype=jnp.int32)

    def search_slab(
        carry: tuple[Array, LeastSlacks, LeastSlacks],
    ) -> tuple[Array, LeastSlacks, LeastSlacks]:
        start, of_minority, of_majority = carry
        begin = jnp.minimum(start, num_examples - width)
        required = _required(instance, factors, begin, width, only)
        indices = begin + jnp.arange(width, dtype=jnp.int32)
        is_majority = (indices >= instance.num_minority) & (indices < instance.num_real)
        of_slab = jnp.where(is_majority, lax.dynamic_slice_in_dim(slacks, begin, width), jnp.inf)
        in_rows = _greatest(required - of_slab[None, :], indices[None, :], 1, num_examples)
        in_columns = _greatest(required - own[:, None], numbers[:, None], 0, num_examples)
        of_minority = _where(in_rows.least > of_minority.least, in_rows, of_minority)
        of_majority = _with_slab(of_majority, in_columns, is_majority, begin)
        return start + width, of_minority, of_majority

    first = (start, LeastSlacks(nothing.least[:size], nothing.partner[:size]), nothing)
    _, of_minority, of_majority = loops.while_loop(
        lambda carry: carry[0] < jnp.minimum(stop, instance.num_real), search_slab, first
    )
    return of_minority, of_majority


class _Factors(NamedTuple):
    """The factors of the sums of mu for the first P examples, which include the minority class."""

    forward: Array  # [P, U] C diag(mu)
    # [P, U] N diag(mu). For cuts "either", without the hypotheses that `forward` counts.
    backward: Array


def _factors(instance: RelaxationInstance, selected: Array, size: int) -> _Factors:
    forward = instance.hits[:size] * selected[None, :]
    backward = (
        jnp.where(
            instance.either, instance.misses[:size] - instance.hits[:size], instance.misses[:size]
        )
        * selected[None, :]
    )
    return _Factors(forward, backward)


def _required(
    instance: RelaxationInstance, factors: _Factors, begin: Array, width: int, only: Array | None
) -> Array:
    """The right side of (18) for the pairs of the first P examples and a slab of `width` others,
    [P, width]: 1 - sum of mu, for the order of the pair that requires more. -inf for a pair without
    a cut, and for one that no hypothesis of `only` separates.
    """
    size = factors.forward.shape[0]
    hits, misses, bits = (
        lax.dynamic_slice_in_dim(matrix, begin, width)
        for matrix in (instance.hits, instance.misses, instance.bits)
    )
    forward, backward = _product(factors.forward, misses), _product(factors.backward, hits)
    covered = jnp.where(instance.either, forward + backward, jnp.minimum(forward, backward))
    has_cut = are_near(instance, instance.bits[:size], bits)
    if only is not None:
        counts = only.astype(hits.dtype)[None, :]
        has_cut &= (
            _product(instance.hits[:size] * counts, misses)
            + _product(instance.misses[:size] * counts, hits)
            > 0
        )
    return jnp.where(has_cut, 1 - covered, -jnp.inf)


def _with_slab(all_rows: LeastSlacks, new: LeastSlacks, is_new: Array, begin: Array) -> LeastSlacks:
    """`all_rows`, with the entries of `new` from `begin` on where `is_new`."""
    old = LeastSlacks(
        *(lax.dynamic_slice_in_dim(part, begin, is_new.shape[0]) for part in all_rows)
    )
    return LeastSlacks(
        *(
            lax.dynamic_update_slice_in_dim(part, values, begin, 0)
            for part, values in zip(all_rows, _where(is_new, new, old), strict=True)
        )
    )


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


def least_distance(bits: Array, is_minority: Array, is_majority: Array) -> Array:
    """The least distance of a pair of opposite classes, [], at least 1. `bits` is [m, N], the
    classes are [m] bool.
    """

    def nearest(part: tuple[Array, Array]) -> Array:
        row, counts = part
        return jnp.min(
            jnp.where(is_majority & counts, distances(row[None], bits)[0], jnp.inf), initial=jnp.inf
        )

    return jnp.maximum(
        jnp.min(lax.map(nearest, (bits, is_minority), batch_size=_ROWS_AT_ONCE), initial=jnp.inf),
        1.0,
    )


def are_near(instance: RelaxationInstance, one: Array, other: Array) -> Array:
    """Which pairs of examples are near enough to have cuts, [k, l] bool."""
    if instance.bits.shape[1] == 0:
        return jnp.ones((one.shape[0], other.shape[0]), bool)
    return distances(one, other) <= instance.reach


def have_cuts(instance: RelaxationInstance, cuts: CutIndices) -> Array:
    """Which pairs of a working set are near enough for a cut, [K] bool."""
    if instance.bits.shape[1] == 0:
        return jnp.ones(cuts.first.shape, bool)
    one, other = (instance.bits.at[end].get(mode="fill", fill_value=0) for end in cuts)
    return jnp.sum(one * other < 0, axis=1) <= instance.reach


def _product(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right.T, precision=lax.Precision.HIGHEST)


def empty(capacity: int, num_examples: int) -> CutIndices:
    """A working set without cuts."""
    none = jnp.full((capacity,), num_examples, jnp.int32)
    return CutIndices(none, none)


def is_used(instance: RelaxationInstance, cuts: CutIndices) -> Array:
    """Which slots hold a cut, [K] bool."""
    return cuts.first < instance.hits.shape[0]


def rows(instance: RelaxationInstance, cuts: CutIndices) -> Array:
    """The coefficients [K, U] of mu in the cuts; 0 for empty slots."""
    first, second = (instance.margins.at[end].get(mode="fill", fill_value=0) for end in cuts)
    return serves(first, second, instance.either).astype(instance.margins.dtype)


def serves(first: Array, second: Array, either: Array | bool) -> Array:
    """Whether the cuts of pairs count a hypothesis with margins -1, 0 or +1 on the first and the
    second example. False where both margins are 0.
    """
    return ((first == 1) & (second != -1)) | (either & (first == 0) & (second == 1))


def gather(cuts: CutIndices, values: Array) -> Array:
    """The sum of the values [..., m] of both ends, [..., K]."""
    first, second = (values.at[..., end].get(mode="fill", fill_value=0) for end in cuts)
    return first + second


def scatter(cuts: CutIndices, values: Array, num_examples: int) -> Array:
    """The sums [..., m] of the values [..., K] of the cuts that contain an example."""
    sums = jnp.zeros((*values.shape[:-1], num_examples), values.dtype)
    return sums.at[..., jnp.concatenate(cuts)].add(
        jnp.concatenate([values, values], axis=-1), mode="drop"
    )


@register
@dataclasses.dataclass(frozen=True)
class ListedCuts:
    """The cuts of a working set of capacity K, with their rows."""

    cuts: CutIndices
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

    cuts: CutIndices
    former_slot: Array  # [K] int32 the former slot of each cut, K for a new cut or an empty slot
    num_new: Array  # [] int32
    num_left_out: Array  # [] int32 violated cuts that found no slot


@dataclasses.dataclass(frozen=True)
class WorkingSet:
    """The strategy that adds violated cuts up to the capacity and drops unimportant ones."""

    capacity: int

    def hold(self, instance: RelaxationInstance, cuts: CutIndices) -> ListedCuts:
        """The cuts with their rows."""
        return ListedCuts(cuts, rows(instance, cuts), is_used(instance, cuts))

    def begin(
        self, instance: RelaxationInstance, known: CutIndices, values: Array
    ) -> tuple[CutIndices, Array]:
        """The first working set, of known cuts with their values [K]."""
        return known, values

    def listed(self, instance: RelaxationInstance, cuts: CutIndices) -> CutIndices:
        """The cuts as a list: unchanged."""
        return cuts

    def refresh(
        self,
        instance: RelaxationInstance,
        cuts: CutIndices,
        importance: Array,
        required: LeastSlacks,
        selected: Array,
        slacks: Array,
        threshold: Array,
    ) -> Refreshed:
        """The next working set."""
        return refresh(instance, cuts, importance, required, selected, slacks, threshold)


def refresh(
    instance: RelaxationInstance,
    cuts: CutIndices,
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
    found, has_partner = _cuts_with(instance, required.partner)
    reached = jnp.matmul(rows(instance, found), selected, precision=lax.Precision.HIGHEST) + gather(
        found, slacks
    )
    violation = jnp.where(has_partner, 1 - reached, 0.0)
    is_violated = violation > threshold

    both = CutIndices(
        jnp.concatenate([cuts.first, found.first]), jnp.concatenate([cuts.second, found.second])
    )
    is_new = jnp.concatenate([jnp.zeros((capacity,), bool), jnp.ones(violation.shape, bool)])
    counts = jnp.concatenate([is_used(instance, cuts), is_violated])
    both = CutIndices(*(jnp.where(counts, part, num_examples) for part in both))
    order = jnp.lexsort((is_new, both.second, both.first))
    ordered = CutIndices(both.first[order], both.second[order])
    repeats = (ordered.first[1:] == ordered.first[:-1]) & (
        ordered.second[1:] == ordered.second[:-1]
    )
    counts = counts & ~jnp.zeros_like(counts).at[order[1:]].set(repeats)

    rank = jnp.concatenate(
        [jnp.where(importance > 0, 3.0 + importance, 0.5), 1 + jnp.minimum(violation, 1.0)]
    )
    chosen = jnp.argsort(-jnp.where(counts, rank, 0.0))[:capacity]
    stays = counts[chosen]
    kept = CutIndices(*(jnp.where(stays, part[chosen], num_examples) for part in both))
    num_new = jnp.sum(stays & is_new[chosen], dtype=jnp.int32)
    num_found = jnp.sum(counts & is_new, dtype=jnp.int32)
    former = jnp.where(stays & ~is_new[chosen], chosen, capacity).astype(jnp.int32)
    return Refreshed(kept, former, num_new, num_found - num_new)


def _cuts_with(instance: RelaxationInstance, partners: Array) -> tuple[CutIndices, Array]:
    """The cuts [2 m] of each example and its partner [m], in both orders, and which of these slots
    hold a cut, [2 m] bool. Of the cuts "either" only the first half does.
    """
    num_examples = partners.shape[0]
    indices = jnp.arange(num_examples, dtype=jnp.int32)
    found = CutIndices(jnp.concatenate([indices, partners]), jnp.concatenate([partners, indices]))
    has_partner = jnp.concatenate(
        [partners < num_examples, (partners < num_examples) & ~instance.either]
    )
    found = CutIndices(
        *(
            jnp.where(instance.either, end, part)
            for end, part in zip((jnp.minimum(*found), jnp.maximum(*found)), found, strict=True)
        )
    )
    return CutIndices(*(jnp.where(has_partner, part, num_examples) for part in found)), has_partner
