"""Pair cuts looked at all together, none stored but a working set.

The cut of (i, i'), of opposite classes, is xi_i + xi_i' >= 1 - sum of mu over S_ii', S_ii' = {u :
H_iu = y_i != H_i'u} (paper 001, (18)). With `hits` C_iu = 1[H_iu = y_i] and `misses`
N_i'u = 1[H_i'u != y_i] all sums are products C diag(mu) N', taken slab by slab in both orders. For
every example the search gives the partner that wants most of its slack, so that new cuts are spread
over the examples.

Where hypotheses abstain (H_iu = 0), (17) of the paper does not hold of all points of (15), against
its Theorem 4.1: with lambda = .4 on the constant +1 and .6 on a monomial that says -1 of i' alone,
both i (positive) and i' (negative) are right, and S_ii' is empty. What holds is one cut for each
pair, over the hypotheses that tell the two apart either way, S_ii' and S_i'i together (`either` of
the instance). Without abstention they are the same.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops
from jboost.base.records import register
from jboost.base.types import Array
from jboost.l0.types import Cuts, Instance

_ROWS_AT_ONCE = 256  # whose distances to all others are held together


class Wanted(NamedTuple):
    """What all cuts together want of each slack, the other slack as it is: 1 - sum of mu - xi of
    the partner, at most over all partners.
    """

    least: Array  # [m] -inf without a partner
    partner: Array  # [m] int32


def num_few_places(num_examples: int) -> int:
    """Room for the smaller class, static."""
    return num_examples // 2


def num_pairs(num_examples: int) -> int:
    """The most cuts there can be, both orders."""
    return 2 * (num_examples // 2) * (num_examples - num_examples // 2)


def search(
    instance: Instance, selected: Array, slacks: Array, max_entries: int, only: Array | None = None
) -> Wanted:
    """All cuts of both orders, in slabs of the larger class; if it is given, those alone that one
    of the hypotheses `only` [U] serves either way.

    With `selected` [U] and `slacks` [m] multiples of the power of two of which 2 has as many as a
    float can count, what is wanted is not rounded.
    """
    num_examples, num_columns = instance.hits.shape
    few = num_few_places(num_examples)
    nothing = Wanted(
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

    def look(carry: tuple[Array, Wanted, Wanted]) -> tuple[Array, Wanted, Wanted]:
        start, of_few, of_many = carry
        begin = jnp.minimum(start, num_examples - slab)
        hits, misses = (
            lax.dynamic_slice_in_dim(matrix, begin, slab)
            for matrix in (instance.hits, instance.misses)
        )
        one_way, other_way = _product(left, misses), _product(right, hits)  # [few, slab]
        served = jnp.where(instance.either, one_way + other_way, jnp.minimum(one_way, other_way))
        places = begin + jnp.arange(slab, dtype=jnp.int32)
        is_many = (places >= instance.num_few) & (places < instance.num_real)
        theirs = jnp.where(is_many, lax.dynamic_slice_in_dim(slacks, begin, slab), jnp.inf)
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
        for_few, for_many = left_over - theirs[None, :], left_over - own[:, None]
        best_few, best_many = jnp.max(for_few, axis=1), jnp.max(for_many, axis=0)
        who_few = jnp.min(
            jnp.where(for_few == best_few[:, None], places[None, :], num_examples), axis=1
        )
        who_many = jnp.min(
            jnp.where(for_many == best_many[None, :], numbers[:, None], num_examples), axis=0
        )
        is_more = best_few > of_few.least
        of_few = Wanted(
            jnp.where(is_more, best_few, of_few.least), jnp.where(is_more, who_few, of_few.partner)
        )
        old = Wanted(*(lax.dynamic_slice_in_dim(part, begin, slab) for part in of_many))
        taken = Wanted(
            jnp.where(is_many, best_many, old.least), jnp.where(is_many, who_many, old.partner)
        )
        of_many = Wanted(
            *(
                lax.dynamic_update_slice_in_dim(part, new, begin, 0)
                for part, new in zip(of_many, taken, strict=True)
            )
        )
        return start + slab, of_few, of_many

    first = (instance.num_few, Wanted(nothing.least[:few], nothing.partner[:few]), nothing)
    _, of_few, of_many = loops.while_loop(lambda carry: carry[0] < instance.num_real, look, first)
    least = of_many.least.at[:few].set(jnp.where(is_few, of_few.least, of_many.least[:few]))
    partner = of_many.partner.at[:few].set(jnp.where(is_few, of_few.partner, of_many.partner[:few]))
    return Wanted(least, jnp.where(least > -jnp.inf, partner, num_examples).astype(jnp.int32))


def distances(one: Array, other: Array) -> Array:
    """In how many attributes examples differ, [k, N] and [l, N] of -1 and +1: [k, l]; 0, not known,
    differs from nothing.
    """
    return (_product(jnp.abs(one), jnp.abs(other)) - _product(one, other)) / 2


def least_distance(bits: Array, is_few: Array, is_many: Array) -> Array:
    """Of all pairs of opposite classes, [], and 1 where that is less; bits [m, N], classes [m]
    bool.
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
    """Which pairs of examples have cuts, [k, l] bool."""
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
    """The rows [K, U] of the cuts in mu; 0 for empty slots."""
    mine, theirs = (instance.margins.at[end].get(mode="fill", fill_value=0) for end in cuts)
    return serves(mine, theirs, instance.either).astype(instance.margins.dtype)


def serves(mine: Array, theirs: Array, either: Array | bool) -> Array:
    """Which hypotheses stand in the cuts of pairs, by their margins -1, 0 or +1 on the first and
    the second example; none where both are 0.
    """
    return ((mine == 1) & (theirs != -1)) | (either & (mine == 0) & (theirs == 1))


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
    """The cuts of a working set, with their rows: K of them, empty slots among them."""

    cuts: Cuts
    served: Array  # [K, U] their rows in mu
    is_used: Array  # [K] bool

    def covered(self, selected: Array) -> Array:
        """The sum [K] of mu [U] over the hypotheses of each cut."""
        return jnp.matmul(self.served, selected, precision=lax.Precision.HIGHEST)

    def serving(self, values: Array) -> Array:
        """The sum [U] of the values [K] of the cuts that each hypothesis serves."""
        return jnp.matmul(values, self.served, precision=lax.Precision.HIGHEST)

    def most_serving(self, values: Array) -> Array:
        """`serving`, rounded up."""
        return brackets.bracket_dot(self.served.T, values[None, :])[1]

    def largest(self, values: Array) -> Array:
        """The largest value [U] of a hypothesis of each cut, [K], 0 at least."""
        return jnp.max(self.served * values[None, :], axis=1, initial=0.0)

    def both_ends(self, values: Array) -> Array:
        """The sum [K] of the values [m] of the examples of each cut."""
        return gather(self.cuts, values)

    def lesser_end(self, values: Array) -> Array:
        """The lesser [K] of the values [m] of the examples of each cut."""
        return jnp.minimum(*(values.at[end].get(mode="fill", fill_value=1.0) for end in self.cuts))

    def spread(self, values: Array, num_examples: int) -> Array:
        """The sums [m] of the values [K] of the cuts of each example."""
        return scatter(self.cuts, values, num_examples)


class Refreshed(NamedTuple):
    """A working set after new cuts came in."""

    cuts: Cuts
    place_before: Array  # [K] int32 where a cut stood, K for a new one or none
    num_new: Array  # [] int32
    num_left_out: Array  # [] int32 violated cuts there was no room for


@dataclasses.dataclass(frozen=True)
class WorkingSet:
    """Cuts that are violated come in, as many as there is room for; those that do not
    matter leave.
    """

    capacity: int

    def hold(self, instance: Instance, cuts: Cuts) -> Listed:
        """The cuts with their rows."""
        return Listed(cuts, rows(instance, cuts), is_used(instance, cuts))

    def begin(self, instance: Instance, known: Cuts, values: Array) -> tuple[Cuts, Array]:
        """The first working set, of known cuts with their values [K]."""
        return known, values

    def listed(self, instance: Instance, cuts: Cuts) -> Cuts:
        """The list itself."""
        return cuts

    def refresh(
        self,
        instance: Instance,
        cuts: Cuts,
        importance: Array,
        wanted: Wanted,
        selected: Array,
        slacks: Array,
        threshold: Array,
    ) -> Refreshed:
        """The next one."""
        return refresh(instance, cuts, importance, wanted, selected, slacks, threshold)


def refresh(
    instance: Instance,
    cuts: Cuts,
    importance: Array,
    wanted: Wanted,
    selected: Array,
    slacks: Array,
    threshold: Array,
) -> Refreshed:
    """The working set with the violated cuts that the search found, in the place of those that
    matter least.

    Args:
      instance: of m examples and U columns.
      cuts: of capacity K.
      importance: [K] positive for cuts that are not to go.
      wanted: by `search` at these `selected` [U] and `slacks` [m].
      selected: mu.
      slacks: xi.
      threshold: [] the least violation that counts.
    """
    num_examples, capacity = instance.hits.shape[0], cuts.first.shape[0]
    mine, theirs = jnp.arange(num_examples, dtype=jnp.int32), wanted.partner
    found = Cuts(jnp.concatenate([mine, theirs]), jnp.concatenate([theirs, mine]))
    has_partner = jnp.concatenate(
        [theirs < num_examples, (theirs < num_examples) & ~instance.either]
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
    place = jnp.where(stays & ~is_new[chosen], chosen, capacity).astype(jnp.int32)
    return Refreshed(kept, place, num_new, num_found - num_new)
