"""The loop over the axes that may be optimal: evaluates their classes one by one, in the order of
lower bounds of the loss. One step of the loop evaluates one class that is optimal so far. There is
no inner loop, which keeps `vmap` efficient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array, PyTree
from jboost.pair.sweep.visits import Chosen


class _CentreEnumeration(NamedTuple):
    """The state of the loop: the rank of a centre by lower bound, the last class evaluated there,
    and the best result so far.
    """

    rank: Array  # [] int32
    cursor: Array  # [] int32, -1 before the first class of a centre
    best: PyTree


def visit_by_bound(
    lower: Array,
    places: Array,
    open_classes: Callable[[Array], Any],
    separate: Callable[[Array, Any, Chosen], PyTree],
    start: PyTree,
    *,
    all_optima: bool,
) -> PyTree:
    """The best separator at c places, or `start` if none is better. Places are visited by
    increasing lower bound of their loss.

    Args:
      lower: [c] integer, lower bounds of the losses.
      places: [c] int32, the index of each place (a centre or an axis).
      open_classes: place -> classes, a record with `losses` and `margin_bounds` [k]. The loss is
        the largest integer where there is no class.
      separate: (place, classes, chosen) -> the separator of the chosen class. If its margin is at
        most the floor, the returned margin is any number up to the floor.
      start: a separator with `loss`, `margin` and `is_constant`.
      all_optima: compare the margins of all optimal separator sets, instead of taking the first.
    """
    lower, order = lax.sort((lower, places), num_keys=1)
    capacity = order.shape[0]

    def unfinished(state: _CentreEnumeration) -> Array:
        next_lower = numerics.take(lower, jnp.minimum(state.rank, capacity - 1))
        worth_it = next_lower < state.best.loss
        if all_optima:
            worth_it |= (next_lower == state.best.loss) & ~state.best.is_constant
        return (state.rank < capacity) & worth_it

    def visit(state: _CentreEnumeration) -> _CentreEnumeration:
        place = numerics.take(order, jnp.minimum(state.rank, capacity - 1))
        classes = open_classes(place)
        loss, first, last = _promising(classes.losses, classes.margin_bounds, state)
        size = classes.losses.shape[0]
        found, improves = first < size, loss < state.best.loss
        floor = jnp.where(found & ~improves, state.best.margin, jnp.where(found, -1, jnp.inf))
        candidate = separate(place, classes, Chosen(jnp.minimum(first, size - 1), loss, floor))
        better = found & (improves | (candidate.margin > state.best.margin))
        best = loops.cond(better, lambda: candidate, lambda: state.best)
        more = (last > first) & all_optima
        return _CentreEnumeration(
            jnp.where(more, state.rank, state.rank + 1), jnp.where(more, first, -1), best
        )

    first = _CentreEnumeration(jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32), start)
    return loops.while_loop(unfinished, visit, first).best


def _promising(
    losses: Array, margin_bounds: Array, state: _CentreEnumeration
) -> tuple[Array, Array, Array]:
    """The least loss of the classes [k] of a place that may improve on the best separator, and the
    first and the last class with this loss.

    If there is no such class, the first number is at least k and the last one is negative.
    """
    size, best = losses.shape[0], state.best
    number = lax.iota(jnp.int32, size)
    ties = (losses == best.loss) & (margin_bounds > best.margin) & (number > state.cursor)
    is_promising = (losses < best.loss) | ties
    loss = jnp.where(is_promising, losses, jnp.iinfo(losses.dtype).max)
    order, reverse = jnp.where(is_promising, number, size), jnp.where(is_promising, -number, 1)
    (least, first), (_, last) = reduce.lexicographic_leasts((loss, order), (loss, reverse))
    return least, first, -last


def reach(squared: Array, upper: Array) -> Array:
    """An upper bound [2n] of the margin of each class: half the distance from the centre to the
    nearest point of the other class that the class classifies correctly, rounded up.

    The bound holds because the centre itself is kept. With the own class on the left, a class keeps
    the upper points that the line has passed and the lower points that it has not passed. With the
    own class on the right it keeps the others.
    """
    halves = jnp.where(upper[None] == jnp.array([[True], [False]]), squared[None], jnp.inf)
    passed, ahead = lax.cummin(jnp.stack([halves, halves[::-1, ::-1]]), axis=2)
    ahead = jnp.pad(ahead[:, -2::-1], ((0, 0), (0, 1)), constant_values=jnp.inf)
    slack = 1 + 16 * jnp.finfo(squared.dtype).eps
    return jnp.sqrt(jnp.minimum(passed, ahead)).reshape(-1) * (slack / 2)
