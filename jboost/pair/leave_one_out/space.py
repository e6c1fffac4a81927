"""The exact leave-one-out error of three classifiers, on the host.

The argument is that of `solve`: the near-optimal splits of all points determine the result for each
point. They are listed by the sweep of planes about axes through two points: a class of planes about
an axis makes one split. The bisectors of the splits, and those without a supporting point, are
computed in fractions (`jboost.pair.space.bisectors`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import devices, loops, numerics
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.geometry import angular
from jboost.pair.arguments import checksums_of
from jboost.pair.leave_one_out.steps import LeaveOneOutState, ListedSplits, without_errors
from jboost.pair.space import bisectors, hulls
from jboost.pair.space.axes import look_along
from jboost.pair.space.bisectors import Bisector
from jboost.pair.space.problem import PlaneProblem, encode
from jboost.pair.space.sweep import AllAxes, bound_all, list_axes
from jboost.pair.sweep import SweepConfig, look_around
from jboost.pair.sweep.instance import Encoding, pad_rows
from jboost.pair.types import LeaveOneOut

_ROWS = 16  # data sets are padded to a multiple of this many rows, which share programs
# The axes, and the pairs of hulls, of one call of a compiled program. Round numbers; not tuned.
_AXES_AT_ONCE = 256
_HULLS_AT_ONCE = 64


class _Start(NamedTuple):
    problem: PlaneProblem
    encoding: Encoding
    axes: AllAxes
    bounds: Array  # [a] int64, lower bounds of the loss of the planes about each axis


class _PlaneClasses(NamedTuple):
    """The classes of planes about axes [b]."""

    losses: (
        Array  # [b, 2, 2, n] by tilt, orientation and rank; the largest integer if there is none
    )
    tilted: Array  # [b, 2, n] bool, the points on the own side that are on the axis, by tilt
    position: Array  # [b, n] int32, the rank of each point
    upper: Array  # [b, n] bool
    off_axis: Array  # [b, n] bool
    is_certain: Array  # [b] bool, whether no order is in doubt


class _Found(NamedTuple):
    """The near-optimal splits."""

    on_own_side: np.ndarray  # [s, n] bool
    losses: np.ndarray  # [s] int64
    is_certain: bool
    status: Status  # CAPACITY_LIMIT or TIME_LIMIT for an incomplete list, else OPTIMAL


def leave_one_out(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    max_separators: int,
    config: SweepConfig,
    on_step: OnStep | None,
    initial: LeaveOneOutState | None,
) -> LeaveOneOut:
    """`jboost.pair.leave_one_out` of concrete points [n, 3], for the model "max_margin"."""
    size, dtype = points.shape[0], jnp.result_type(float)
    padded = pad_rows(max(_ROWS, -(-size // _ROWS) * _ROWS), points, labels, weights, mask)
    known = None if on_step is None else checksums_of(points, labels, weights, mask)

    def watch(splits: ListedSplits, info: tuple[int, int]) -> bool:
        state = splits if known is None else LeaveOneOutState(None, splits, known)
        return loops.goes_on(on_step, state, info)

    with jax.enable_x64(True):
        start = _start(*padded, config=config)
        data = jax.device_get((start.problem, start.encoding))
    problem, encoding = data
    if not encoding.valid:
        return without_errors(mask, Status.INVALID_INPUT, dtype)
    splits = None if initial is None else initial.splits
    found = _list_splits(start, problem, encoding, max_separators, watch, splits)
    if found.status != Status.OPTIMAL:
        return without_errors(mask, found.status, dtype)
    with jax.enable_x64(True):
        right, wrong, is_sure = _count(problem, encoding, found)
    return _conclude(encoding, mask, right, wrong, is_sure and found.is_certain)


def _conclude(
    encoding: Encoding, mask: Array, right: np.ndarray, wrong: np.ndarray, is_certain: bool
) -> LeaveOneOut:
    """The result for the numbers [n] of equally likely separators that classify each point
    correctly and wrongly. `is_certain` tells whether all of them were found.
    """
    size, dtype = mask.shape[0], jnp.result_type(float)
    share = wrong / np.maximum(right + wrong, 1)
    errors = np.where(encoding.live, share * encoding.weights, 0.0)
    kinds = np.where(wrong == 0, 1, np.where(right == 0, 2, 3)) * encoding.live
    count = max(int(np.asarray(mask).sum()), 1)
    rest = encoding.weights.sum() - encoding.weights.max(initial=0.0)
    is_proven = is_certain and encoding.faithful
    is_proven = is_proven and encoding.rounding <= rest * len(errors) * 2.0**-56
    return LeaveOneOut(
        jnp.asarray(errors.sum() / count, dtype),
        jnp.asarray(errors[:size], dtype),
        jnp.asarray(kinds[:size], jnp.int32),
        jnp.int32(Status.OPTIMAL if is_proven else Status.PRECISION_LIMIT),
    )


@functools.partial(devices.host_jit, static_argnames=("config",))
def _start(
    points: Array, labels: Array, weights: Array, mask: Array, *, config: SweepConfig
) -> _Start:
    problem, encoding = encode(points, labels, weights, mask)
    axes = list_axes(problem)
    return _Start(problem, encoding, axes, bound_all(problem, axes, config))


@devices.host_jit
def _classes(problem: PlaneProblem, axes: AllAxes, places: Array) -> _PlaneClasses:
    return jax.vmap(lambda place: _classes_about(problem, *axes.ends(place)))(places)


def _classes_about(problem: PlaneProblem, centre: Array, second: Array) -> _PlaneClasses:
    """All open classes of planes about one axis (`jboost.pair.space.visits`)."""
    axis = look_along(problem, centre, second)
    flat, origin = axis.flat, jnp.zeros(2, problem.points.dtype)
    radial = look_around(flat, origin)
    arguments = flat.points, origin, radial.off_centre
    order = loops.cond(
        problem.is_exact, angular.exact_half_turn_order, angular.half_turn_order, *arguments
    )
    sums = radial.start + jnp.cumsum(radial.steps[order.index])
    interval_ends = ~jnp.roll(order.joined, -1)
    most = jnp.iinfo(sums.dtype).max
    losses = axis.tilts[:, None, None] + jnp.stack([sums, radial.total - sums])[None]
    here = problem.live & ~radial.off_centre & ~axis.ahead & ~axis.behind
    tilted = jnp.stack([axis.ahead, axis.behind]) | here[None]
    return _PlaneClasses(
        jnp.where(interval_ends[None, None], losses, most),
        tilted,
        angular.positions(order),
        angular.is_upper(flat.x, flat.y),
        radial.off_centre,
        problem.is_exact
        | (~jnp.any(order.joined & radial.off_centre[order.index]) & (axis.doubt == 0)),
    )


def _list_splits(
    start: _Start,
    problem: PlaneProblem,
    encoding: Encoding,
    max_separators: int,
    watch: Callable[[ListedSplits, tuple[int, int]], bool],
    initial: ListedSplits | None,
) -> _Found:
    """All splits that lose at most the optimum plus the weight of the heaviest point, and both
    constants. `watch` is called after each batch of axes, and may end the list.
    """
    own, live, integers = problem.own, encoding.live, encoding.integers
    bounds, heaviest = np.asarray(start.bounds), int(integers.max(initial=0))
    order = np.argsort(bounds, kind="stable")
    state = _first_splits(own, live, integers) if initial is None else initial
    while True:
        rows, attained = state.on_own_side, int(state.attained)
        begin = int(state.num_done)
        places = order[begin : begin + _AXES_AT_ONCE]
        places = places[bounds[places] <= attained + heaviest]
        if not len(places):
            break
        classes = _classes_through(start, places)
        attained = min(attained, int(classes.losses.min()))
        rows = np.unique(np.concatenate([rows, _read(classes, attained + heaviest)]), axis=0)
        losses = _losses_of(rows, own, live, integers)
        rows = rows[losses <= attained + heaviest]
        state = ListedSplits(
            rows,
            np.asarray(attained, np.int64),
            np.asarray(bool(state.is_certain) and bool(classes.is_certain.all())),
            np.asarray(begin + len(places), np.int32),
        )
        if len(rows) > max_separators + 2:
            return _Found(rows, losses, bool(state.is_certain), Status.CAPACITY_LIMIT)
        is_last = len(places) < _AXES_AT_ONCE or begin + len(places) == len(order)
        if not watch(state, (int(state.num_done), len(order))) and not is_last:
            return _Found(rows, losses, bool(state.is_certain), Status.TIME_LIMIT)
    losses = _losses_of(rows, own, live, integers)
    is_near = losses <= losses.min() + heaviest
    fits = int(is_near.sum()) <= max_separators
    status = Status.OPTIMAL if fits else Status.CAPACITY_LIMIT
    return _Found(rows[is_near], losses[is_near], bool(state.is_certain), status)


def _classes_through(start: _Start, places: np.ndarray) -> _PlaneClasses:
    """The classes of planes through a batch of axes, on the host."""
    padded = np.pad(places, (0, _AXES_AT_ONCE - len(places)), mode="edge")
    with jax.enable_x64(True):
        classes: _PlaneClasses = jax.device_get(_classes(start.problem, start.axes, padded))
    return classes


def _first_splits(own: np.ndarray, live: np.ndarray, integers: np.ndarray) -> ListedSplits:
    """The constants, before the first axis."""
    rows = np.unique(np.stack([live, np.zeros_like(live)]), axis=0)
    attained = _losses_of(rows, own, live, integers).min()
    return ListedSplits(
        rows, np.asarray(attained, np.int64), np.asarray(True), np.asarray(0, np.int32)
    )


def _losses_of(
    on_own_side: np.ndarray, own: np.ndarray, live: np.ndarray, integers: np.ndarray
) -> np.ndarray:
    wrong = (on_own_side != own[None]) & live[None]
    return np.where(wrong, integers[None], 0).sum(axis=1)


def _read(classes: _PlaneClasses, limit: int) -> np.ndarray:
    """The splits [k, n] of the classes that lose at most the limit."""
    row, tilt, turned, rank = np.nonzero(classes.losses <= limit)
    on_left = classes.upper[row] != (classes.position[row] <= rank[:, None])
    sides = on_left != (turned[:, None] == 1)
    return np.where(classes.off_axis[row], sides, classes.tilted[row, tilt])


def _count(
    problem: PlaneProblem, encoding: Encoding, found: _Found
) -> tuple[np.ndarray, np.ndarray, bool]:
    """How many equally likely separators classify each point correctly and wrongly, [n] each, and
    whether all bisectors were found.
    """
    own, live, weights = problem.own, encoding.live, encoding.integers
    size = len(live)
    right, wrong = np.zeros(size, int), np.zeros(size, int)
    if live.sum() == 1:  # both constants are optimal for no point
        return live.astype(int), live.astype(int), True
    is_wrong = (found.on_own_side != own[None]) & live[None]
    excess = found.losses - found.losses.min()
    always = live & (is_wrong & (excess[:, None] < weights[None])).any(axis=0)
    wrong[always] = 1
    undecided: list[int] = np.flatnonzero(live & ~always).tolist()
    kept = live[None] & ~is_wrong
    points, metric = encoding.points.astype(np.float64), problem.metric
    optimal = np.flatnonzero(excess == 0)
    costs_as_much = is_wrong[:, undecided] & (excess[:, None] == weights[undecided])
    near = np.flatnonzero((excess == 0) | costs_as_much.any(axis=1))
    found_for = _bisectors(points, metric, own, kept, near, optimal, undecided)
    is_sure = True
    for i in undecided:
        rows = [(int(row), int(i)) for row in optimal]
        merged = {_without(found.on_own_side[row], i) for row in optimal}
        fats = [found_for.get(key, found_for[key[0], None]) for key in rows]
        fats += [
            found_for[int(row), None]
            for row in np.flatnonzero(is_wrong[:, i] & (excess == weights[i]))
            if _without(found.on_own_side[row], i) not in merged
        ]
        answers = _answers(fats, points[i], bool(own[i]))
        is_sure &= answers is not None
        right[i], wrong[i] = (1, 1) if answers is None else answers
    return right, wrong, is_sure


def _bisectors(
    points: np.ndarray,
    metric: np.ndarray,
    own: np.ndarray,
    kept: np.ndarray,
    near: np.ndarray,
    optimal: np.ndarray,
    undecided: list[int],
) -> dict[tuple[int, int | None], _Fat]:
    """The separators of the `near` rows of `kept` [s, n] with all points, None, and those of the
    `optimal` rows without each undecided point that supports them.
    """
    whole = _bisect_all(points, metric, own, [kept[row] for row in near])
    found: dict[tuple[int, int | None], _Fat] = {
        (int(row), None): fat for row, fat in zip(near, whole, strict=True)
    }
    keys = [
        (int(row), int(i))
        for row in optimal
        for i in undecided
        if _supports(found[int(row), None], points, own, kept[row], int(i))
    ]
    smaller = [kept[row] & (np.arange(len(own)) != i) for row, i in keys]
    found.update(zip(keys, _bisect_all(points, metric, own, smaller), strict=True))
    return found


class _Fat(NamedTuple):
    """The separator of largest margin of the points that a split keeps."""

    bisector: Bisector | None  # None for a constant, and if it was not found
    constant: int  # 1 if all points are of the own class, -1 if of the other one, else 0


def _bisect_all(
    points: np.ndarray, metric: np.ndarray, own: np.ndarray, kept: list[np.ndarray]
) -> list[_Fat]:
    """The separators of largest margin of sets of points, each [n] bool."""
    found = []
    for begin in range(0, len(kept), _HULLS_AT_ONCE):
        part = np.stack(kept[begin : begin + _HULLS_AT_ONCE])
        missing = _HULLS_AT_ONCE - len(part)
        normals = np.asarray(_directions(metric, own, np.pad(part, ((0, missing), (0, 0)))))
        for members, normal in zip(part, normals, strict=False):
            first, second = members & own, members & ~own
            constant = int(first.any()) - int(second.any())
            is_plane = first.any() and second.any()
            bisector = bisectors.bisect(points, first, second, normal) if is_plane else None
            found.append(_Fat(bisector, constant))
    return found


@devices.host_jit
def _directions(metric: Array, own: Array, kept: Array) -> Array:
    """The directions [b, 3] of the shortest distances of the two classes of kept points [b, n]."""

    def direction(kept: Array) -> Array:
        first, second = kept & own, kept & ~own
        last = kept.shape[0] - 1
        start = (
            jnp.minimum(numerics.first_true(first), last),
            jnp.minimum(numerics.first_true(second), last),
        )
        floor = jnp.full((), -1.0, metric.dtype)
        return hulls.hull_distance(metric, first, second, start=start, floor=floor).normal

    return jax.vmap(direction)(kept)


def _supports(fat: _Fat, points: np.ndarray, own: np.ndarray, kept: np.ndarray, i: int) -> bool:
    """Whether the separator may change without point i."""
    if fat.bisector is None:
        return bool(kept[i])
    members = np.arange(len(own)) == i
    return bool(
        bisectors.supports(fat.bisector, points, kept & own & members, kept & ~own & members)[i]
    )


def _without(row: np.ndarray, i: int) -> bytes:
    return np.delete(row, i).tobytes()


def _answers(fats: list[_Fat], point: np.ndarray, is_own: bool) -> tuple[int, int] | None:
    """How many of the separators of largest margin classify a point correctly and wrongly; None if
    a separator is missing. A constant has an infinite margin.
    """
    if any(fat.bisector is None and fat.constant == 0 for fat in fats):
        return None
    sides = [fat.constant for fat in fats if fat.constant]
    if not sides:
        largest = max(fat.bisector.squared_gap for fat in fats if fat.bisector)
        sides = [
            bisectors.side(fat.bisector, point)
            for fat in fats
            if fat.bisector and fat.bisector.squared_gap == largest
        ]
    num_right = sum(side == (1 if is_own else -1) for side in sides)
    return num_right, len(sides) - num_right
