"""The cuts of all pairs at once, none stored: where duals stand on a grid of the smaller class by the larger, one for each order of a pair.

Products are those of `jboost.operators.PairCuts`, one for each order. `either` of the instance has one cut for a pair, over the hypotheses of both.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops
from jboost.base.records import register
from jboost.base.types import Array
from jboost.l0 import cuts as pair_cuts
from jboost.l0.cuts import Refreshed, Wanted
from jboost.l0.types import Cuts, Instance
from jboost.operators.pair_cuts import PairCuts

_MOST = 2**31 - 1  # places are int32


def num_places(num_examples: int) -> int:
    """Of the grids of both orders together, static. Raises ValueError where there are more than can be numbered."""
    count = 2 * pair_cuts.num_few_places(num_examples) * num_examples
    if count > _MOST:
        raise ValueError(
            f"{num_examples} examples have {count} places for pairs, {4 * count} bytes for each vector of float32: "
            f"config.solver = AllPairsConfig() can number {_MOST}; another solver holds config.capacity cuts at a time"
        )
    return count


@register
@dataclasses.dataclass(frozen=True)
class Grid:
    """All cuts: K places, of [order, smaller class, any example]."""

    one_way: PairCuts  # the example of the smaller class is right
    other_way: PairCuts  # the example of the larger class is right
    is_pair: Array  # [P, m] bool
    either: Array  # [] bool

    @property
    def is_used(self) -> Array:
        """Which places are cuts, [K] bool."""
        return _strung(self.is_pair, self.is_pair & ~self.either)

    def covered(self, selected: Array) -> Array:
        """Two products of matrices."""
        one, other = self.one_way.matvec(selected), self.other_way.matvec(selected)
        return jnp.concatenate([one + jnp.where(self.either, other, 0.0), other])

    def serving(self, values: Array) -> Array:
        """Two products of matrices."""
        one, other = self._by_order(values)
        return self.one_way.rmatvec(one) + self.other_way.rmatvec(other)

    def most_serving(self, values: Array) -> Array:
        """The sums of products in 64 bits."""
        one, other = self._by_order(values)
        return brackets.add_brackets([self.one_way.bracket_rmatvec(one), self.other_way.bracket_rmatvec(other)])[1]

    def largest(self, values: Array) -> Array:
        """Hypothesis by hypothesis."""

        def look(most: tuple[Array, Array], column: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
            hits, misses, other_hits, other_misses, value = column
            one, other = (value * left[:, None] * right[None, :] for left, right in ((hits, misses), (other_hits, other_misses)))
            one = jnp.maximum(one, jnp.where(self.either, other, 0.0))
            return (jnp.maximum(most[0], one), jnp.maximum(most[1], other)), None

        nothing = jnp.zeros(self.is_pair.shape, values.dtype)
        columns = (self.one_way.hits.T, self.one_way.misses.T, self.other_way.hits.T, self.other_way.misses.T, values)
        most, _ = loops.scan(look, (nothing, nothing), columns)
        return _strung(*most)

    def both_ends(self, values: Array) -> Array:
        """Along the rows and the columns of the grid."""
        sums = values[: self.is_pair.shape[0], None] + values[None, :]
        return _strung(sums, sums)

    def lesser_end(self, values: Array) -> Array:
        """Along the rows and the columns of the grid."""
        least = jnp.minimum(values[: self.is_pair.shape[0], None], values[None, :])
        return _strung(least, least)

    def spread(self, values: Array, num_examples: int) -> Array:
        """Sums of rows and of columns."""
        one, other = jnp.reshape(values, (2, *self.is_pair.shape))
        total = jnp.where(self.is_pair, one + jnp.where(self.either, 0, other), 0)
        return jnp.sum(total, axis=0).at[: total.shape[0]].add(jnp.sum(total, axis=1))

    def _by_order(self, values: Array) -> tuple[Array, Array]:
        """What counts of each order, [P * m] both."""
        one, other = jnp.reshape(jnp.where(self.is_used, values, 0), (2, -1))
        return one, jnp.where(self.either, one, other)


def _strung(one: Array, other: Array) -> Array:
    return jnp.concatenate([jnp.ravel(one), jnp.ravel(other)])


def placed(instance: Instance, cuts: Cuts, values: Array) -> Array:
    """Values of listed cuts, 0 for empty slots, where they stand on the grid, [K]."""
    num_examples = instance.weights.shape[0]
    few = pair_cuts.num_few_places(num_examples)
    row, column = jnp.minimum(*cuts), jnp.maximum(*cuts)
    order = jnp.where((cuts.first > cuts.second) & ~instance.either, 1, 0)
    grid = jnp.zeros((2, few, num_examples), values.dtype).at[order, row, column].add(values, mode="drop")
    return jnp.ravel(grid)


@dataclasses.dataclass(frozen=True)
class EveryPair:
    """All cuts from the first round on: none comes, none goes."""

    def hold(self, instance: Instance, cuts: Cuts) -> Grid:
        """The grid of all pairs."""
        few = pair_cuts.num_few_places(instance.weights.shape[0])
        places = jnp.arange(instance.weights.shape[0])
        is_few, is_many = places < instance.num_few, (places >= instance.num_few) & (places < instance.num_real)
        is_near = pair_cuts.are_near(instance, instance.bits[:few], instance.bits)
        others = jnp.where(instance.either, instance.misses - instance.hits, instance.misses)
        return Grid(
            PairCuts(instance.hits[:few], instance.misses, None, None),
            PairCuts(others[:few], instance.hits, None, None),
            is_few[:few, None] & is_many[None, :] & is_near,
            instance.either,
        )

    def begin(self, instance: Instance, known: Cuts, values: Array) -> tuple[Cuts, Array]:
        """No list, and the values of known cuts on the grid."""
        return pair_cuts.empty(0, instance.weights.shape[0]), placed(instance, known, values)

    def listed(self, instance: Instance, cuts: Cuts) -> Cuts:
        """The examples of each place, m where there is no cut."""
        held = self.hold(instance, cuts)
        row, column = (lax.broadcasted_iota(jnp.int32, held.is_pair.shape, axis) for axis in (0, 1))
        ends = _strung(row, column), _strung(column, row)
        return Cuts(*(jnp.where(held.is_used, end, instance.weights.shape[0]) for end in ends))

    def refresh(
        self, instance: Instance, cuts: Cuts, importance: Array, wanted: Wanted, selected: Array, slacks: Array, threshold: Array
    ) -> Refreshed:
        """As it was."""
        none = jnp.zeros((), jnp.int32)
        return Refreshed(cuts, jnp.arange(importance.shape[0], dtype=jnp.int32), none, none)
