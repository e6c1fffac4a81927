"""Lists all separator sets whose weight is near the optimum, each once. Leave-one-out errors are
computed from them.

The definitions are those of Boyarshinov and Magdon-Ismail (2005), Section 3. A class of oriented
lines through a centre is open (no further point is on the line) or exact (further points are on it;
those of the own class count as correct, Definition 2.4). A *split* is the set of points on the own
side. Several classes may make the same split; each of them is an occurrence. Splits are compared by
a hash of their rows, and then bit by bit.

The search visits centres by increasing lower bound and stops when no later centre can have a
near-optimal set, so that most centres are visited at most once. All arrays have a fixed capacity
(`Capacity`). Entries beyond the capacity are not stored, but they are counted, so that the caller
can detect the overflow.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import angular
from jboost.pair import sweep
from jboost.pair.sweep.instance import LineInstance
from jboost.pair.sweep.visits import class_weights


class LineSplits(NamedTuple):
    """Distinct splits of the points by a line, in the order of the search. Rows from `count` on are
    empty.
    """

    on_own_side: Array  # [s, n] bool, False for points that are not live
    losses: Array  # [s] integer
    hashes: Array  # [s] unsigned
    count: Array  # [] int32, more than s if the capacity was exceeded


class Occurrences(NamedTuple):
    """Near-optimal classes of lines through a centre."""

    split: Array  # [o] int32, a row of `LineSplits`
    # [o] int32, an example at the centre; the class of the centre is that of the example
    centre: Array
    # [o, 2] int32, points whose removal merges this class with another class that also
    # misclassifies them; -1 for none
    merged: Array
    count: Array  # [] int32, more than o if the capacity was exceeded


class Search(NamedTuple):
    """The results of the search so far."""

    splits: LineSplits
    occurrences: Occurrences
    # [n] bool, misclassified by a split that loses less than the optimum plus the weight of the
    # point
    always_wrong: Array
    optimum: Array  # [] integer


class _Loop(NamedTuple):
    """The state of the loop over centres. The first pass finds the optimum, the second pass
    collects the near-optimal classes.
    """

    collects: Array  # [] bool, whether this is the second pass
    rank: Array  # [] int32, of the next centre
    search: Search


class Capacity(NamedTuple):
    """The capacities for splits and for occurrences."""

    splits: int
    occurrences: int


class _CentreView(NamedTuple):
    """All classes through one centre by rank in angular order. Open classes come first: those with
    the own class on the left, then those with it on the right.
    """

    losses: Array  # [2n], [4n] with exact classes; the largest integer where no class exists
    position: Array  # [n] int32, the rank of each point
    run_start: Array  # [n] int32, the first rank of the run that the rank belongs to
    single: Array  # [n] int32, the only point of the run that ends at this rank, else -1
    following: Array  # [n] int32, the same of the next run
    upper: Array  # [n] bool
    off_centre: Array  # [n] bool


def swap_classes(instance: LineInstance) -> LineInstance:
    """The same instance with the classes exchanged."""
    return instance._replace(own=instance.live & ~instance.own)


def empty_lists(instance: LineInstance, capacity: Capacity) -> tuple[LineSplits, Occurrences]:
    """Empty arrays for splits and occurrences."""
    size, weight_type = instance.x.shape[0], instance.weights.dtype
    word = jnp.uint64 if weight_type.itemsize == 8 else jnp.uint32
    none = jnp.zeros((), jnp.int32)
    splits = LineSplits(
        jnp.zeros((capacity.splits, size), bool),
        jnp.zeros(capacity.splits, weight_type),
        jnp.zeros(capacity.splits, word),
        none,
    )
    occurrences = Occurrences(
        jnp.zeros(capacity.occurrences, jnp.int32),
        jnp.zeros(capacity.occurrences, jnp.int32),
        jnp.full((capacity.occurrences, 2), -1, jnp.int32),
        none,
    )
    return splits, occurrences


def list_rows(on_own_side: Array, losses: Array, count: Array) -> LineSplits:
    """`LineSplits` from rows [s, n], of which the first `count` are real."""
    word = jnp.dtype("uint64" if losses.dtype.itemsize == 8 else "uint32")
    return LineSplits(
        on_own_side, losses, jax.vmap(lambda row: _hash(row, word))(on_own_side), count
    )


def add_split(
    splits: LineSplits, on_own_side: Array, loss: Array, wanted: Array
) -> tuple[LineSplits, Array]:
    """Adds a split where `wanted` is True and it is not listed yet. Also returns its row."""
    capacity = splits.on_own_side.shape[0]
    code = _hash(on_own_side, splits.hashes.dtype)
    known, first = _find(splits, on_own_side, code)
    is_new = wanted & ~known
    row = jnp.where(known, first, splits.count)
    fits = is_new & (row < capacity)
    place = jnp.minimum(row, capacity - 1)
    return LineSplits(
        on_own_side=_write(splits.on_own_side, place, on_own_side, fits),
        losses=_write(splits.losses, place, loss, fits),
        hashes=_write(splits.hashes, place, code, fits),
        count=splits.count + is_new.astype(jnp.int32),
    ), row


def is_listed(splits: LineSplits, on_own_side: Array) -> Array:
    """Whether a split is listed, [] bool."""
    return _find(splits, on_own_side, _hash(on_own_side, splits.hashes.dtype))[0]


def _find(splits: LineSplits, on_own_side: Array, code: Array) -> tuple[Array, Array]:
    capacity = splits.on_own_side.shape[0]
    alike = (splits.hashes == code) & (lax.iota(jnp.int32, capacity) < splits.count)
    first = numerics.first_true(alike)
    row = lax.dynamic_index_in_dim(
        splits.on_own_side, jnp.minimum(first, capacity - 1), keepdims=False
    )
    return (first < capacity) & reduce.all_true(row == on_own_side), first


def _write(rows: Array, place: Array, value: Array, wanted: Array) -> Array:
    old = lax.dynamic_index_in_dim(rows, place, keepdims=False)
    return lax.dynamic_update_index_in_dim(rows, jnp.where(wanted, value, old), place, 0)


def _hash(row: Array, word: jnp.dtype) -> Array:
    """The sum over the True entries of their mixed indices (the finaliser of splitmix64 by S.
    Vigna), [].
    """
    place = lax.iota(word, row.shape[0]) + 1
    if jnp.dtype(word).itemsize == 8:
        steps, factors = (30, 27, 31), (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
    else:
        steps, factors = (16, 13, 16), (0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35)
    mixed = place * jnp.asarray(factors[0], word)
    mixed = (mixed ^ (mixed >> steps[0])) * jnp.asarray(factors[1], word)
    mixed = (mixed ^ (mixed >> steps[1])) * jnp.asarray(factors[2], word)
    return numerics.masked_sum(mixed ^ (mixed >> steps[2]), row)


def start_search(instance: LineInstance, capacity: Capacity) -> Search:
    """The initial search. Its optimum is the smaller loss of the two constant classifiers."""
    never = jnp.zeros_like(instance.live)
    return Search(*empty_lists(instance, capacity), never, jnp.minimum(*class_weights(instance)))


def add_constants(instance: LineInstance, search: Search) -> Search:
    """Adds the two constant classifiers if they may be optimal without some point."""
    own_weight, other_weight = class_weights(instance)
    losses = jnp.stack([other_weight, own_weight])

    def add(number: Array, search: Search) -> Search:
        return _consider(instance, search, instance.live & (number == 0), losses[number])[0]

    return loops.fori_loop(0, 2, add, search)


def _consider(
    instance: LineInstance, search: Search, on_own_side: Array, loss: Array
) -> tuple[Search, Array, Array]:
    """Adds a split if it may be optimal without some point. Also returns its row, and whether it is
    listed.
    """
    excess = loss - search.optimum
    misclassified = instance.live & (on_own_side != instance.own)
    always_wrong = search.always_wrong | (misclassified & (instance.weights > excess))
    matters = (excess == 0) | reduce.any_true(
        misclassified & ~always_wrong & (instance.weights == excess)
    )
    splits, row = add_split(search.splits, on_own_side, loss, matters)
    return search._replace(splits=splits, always_wrong=always_wrong), row, matters


class _Collection(NamedTuple):
    """The state of the loop over the near-optimal classes of one centre."""

    cursor: Array  # [] int32, the last class, -1 before the first
    more: Array  # [] bool, whether another class follows
    search: Search


def gather(
    instance: LineInstance,
    centres: Array,
    bounds: Array,
    search: Search,
    *,
    exact_classes: bool,
    whole: LineInstance | None = None,
) -> Search:
    """Finds the optimum first, and then all classes through the centres that may be optimal without
    some point.

    Args:
      instance: the problem, its own class that of the centres.
      centres: [c] int32.
      bounds: [c] integer, lower bounds of the loss of the classes through each centre, including
        the exact classes if `exact_classes` is True.
      search: the results so far.
      exact_classes: whether lines through further points form classes of their own.
      whole: the original problem, if `instance` is that problem with the classes exchanged.

    Returns:
      The search. Its optimum is that of the problem if the centres are all points of the smaller
      class.
    """
    whole = instance if whole is None else whole
    lower, order = lax.sort((bounds, centres), num_keys=1)
    last = order.shape[0] - 1

    def is_near(loop: _Loop) -> Array:
        least = lower[jnp.minimum(loop.rank, last)]
        return (loop.rank <= last) & jnp.where(
            loop.collects, least <= _highest_loss(whole, loop.search), least < loop.search.optimum
        )

    def unfinished(loop: _Loop) -> Array:
        return ~loop.collects | is_near(loop)

    def visit(loop: _Loop) -> _Loop:
        centre = order[jnp.minimum(loop.rank, last)]
        view = _classes_through(instance, centre, exact_classes)
        goes_on = is_near(loop)
        least, highest = reduce.least(view.losses), _highest_loss(whole, loop.search)
        optimum = jnp.where(goes_on, jnp.minimum(loop.search.optimum, least), loop.search.optimum)
        start = _Collection(
            jnp.full((), -1, jnp.int32),
            loop.collects & (least <= highest),
            loop.search._replace(optimum=optimum),
        )
        search = _collect(instance, whole, view, centre, highest, start)
        return _Loop(loop.collects | ~goes_on, jnp.where(goes_on, loop.rank + 1, 0), search)

    start = _Loop(jnp.zeros((), bool), jnp.zeros((), jnp.int32), search)
    return loops.while_loop(unfinished, visit, start).search


def _collect(
    instance: LineInstance,
    whole: LineInstance,
    view: _CentreView,
    centre: Array,
    highest: Array,
    start: _Collection,
) -> Search:
    """Adds the classes through one centre that lose at most `highest`; `whole` as for `gather`."""
    swapped = whole is not instance
    place = lax.iota(jnp.int32, view.losses.shape[0])

    def collect(now: _Collection) -> _Collection:
        is_waiting = (view.losses <= highest) & (place > now.cursor)
        chosen, end = reduce.extremes(
            jnp.where(is_waiting, place, place.shape[0]), jnp.where(is_waiting, place, -1)
        )
        on_own_side, merged = _read_class(instance, view, chosen)
        search, row, listed = _consider(
            whole, now.search, instance.live & (on_own_side != swapped), view.losses[chosen]
        )
        occurrences = _add_occurrence(search.occurrences, row, centre, merged, listed)
        return _Collection(chosen, end > chosen, search._replace(occurrences=occurrences))

    return loops.while_loop(lambda now: now.more, collect, start).search


def _highest_loss(instance: LineInstance, search: Search) -> Array:
    """The largest loss of interest: the optimum plus the largest weight of a point that is not
    known to be always wrong.
    """
    return search.optimum + numerics.masked_max(
        instance.weights, instance.live & ~search.always_wrong, fill=0
    )


def _add_occurrence(
    occurrences: Occurrences, row: Array, centre: Array, merged: Array, wanted: Array
) -> Occurrences:
    capacity = occurrences.split.shape[0]
    if capacity == 0:
        return occurrences
    place = jnp.minimum(occurrences.count, capacity - 1)
    fits = wanted & (occurrences.count < capacity)
    return Occurrences(
        split=_write(occurrences.split, place, row, fits),
        centre=_write(occurrences.centre, place, centre, fits),
        merged=_write(occurrences.merged, place, merged, fits),
        count=occurrences.count + wanted.astype(jnp.int32),
    )


def _classes_through(instance: LineInstance, centre: Array, exact_classes: bool) -> _CentreView:
    """Every class through one centre, with every comparison exact."""
    size = instance.own.shape[0]
    at = instance.points[:, centre]
    radial = sweep.look_around(instance, at)
    num_off_centre = reduce.count(radial.off_centre)
    rank = lax.iota(jnp.int32, size)
    arguments = instance.points, at, radial.off_centre
    quick = angular.half_turn_order(*arguments)
    in_doubt = reduce.any_true(quick.joined) & ~instance.on_grid
    order = loops.cond(in_doubt, angular.exact_half_turn_order, lambda *_: quick, *arguments)

    begins = (rank < num_off_centre) & ~order.joined
    ends = jnp.append(begins[1:], False) | (rank == num_off_centre - 1)
    single = jnp.where(begins & ends, order.index, -1)
    following = jnp.where(rank == num_off_centre - 1, single[0], jnp.roll(single, -1))
    run_start = lax.cummax(jnp.where(begins, rank, 0)) if exact_classes else rank
    position = angular.positions(order)

    steps = radial.steps[order.index]
    passed = radial.start + jnp.cumsum(steps)
    losses = [passed, radial.total - passed]
    if exact_classes:
        losses += _on_the_line(losses, steps, instance.own[order.index], run_start)
    alone = (num_off_centre == 0) & (rank == 0)
    is_class = jnp.stack([ends | alone, *[ends] * (len(losses) - 1)])
    both = jnp.where(is_class, jnp.stack(losses) + radial.at_centre, jnp.iinfo(steps.dtype).max)
    upper = angular.is_upper(*(instance.points - at[:, None]))
    return _CentreView(
        both.reshape(-1), position, run_start, single, following, upper, radial.off_centre
    )


def _on_the_line(passed: list[Array], steps: Array, own: Array, run_start: Array) -> list[Array]:
    """The losses of the lines through each run, at the last rank of the run. Own points on the line
    are correct, other points on it are wrong.

    Args:
      passed: [n] twice, the loss after each rank, with the own class on the left and on the right.
      steps: [n] the change of the loss at each rank with the own class on the left.
      own: [n] bool, in angular order.
      run_start: [n] int32.
    """
    changes = jnp.stack([steps, -steps])
    right_or_wrong = jnp.where(own, jnp.minimum(changes, 0), jnp.maximum(changes, 0))
    on_line = jnp.cumsum(right_or_wrong, axis=1)
    before = jnp.stack(passed) - changes - (on_line - right_or_wrong)
    return [*(before[:, run_start] + on_line)]


def _read_class(instance: LineInstance, view: _CentreView, chosen: Array) -> tuple[Array, Array]:
    """Which points a class has on the own side, [n] bool, and the points whose removal merges it
    with another class, [2].
    """
    size = view.position.shape[0]
    kind, rank = chosen // size, chosen % size
    on_right, exact = kind % 2 == 1, kind >= 2
    begin = view.run_start[rank]
    passed = view.position < jnp.where(exact, begin, rank + 1)
    on_line = exact & (view.position >= begin) & (view.position <= rank)
    on_left = view.upper != passed
    on_own_side = ~view.off_centre | on_line | (on_left != on_right)
    merged = jnp.stack([view.single[rank], jnp.where(exact, -1, view.following[rank])])
    none_off_centre = ~reduce.any_true(view.off_centre)
    return on_own_side, jnp.where(none_off_centre, -1, merged)
