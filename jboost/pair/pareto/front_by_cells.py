"""The front of concrete arrays. Cells of directions restrict the slabs that may be points of the
front, and exact problems of few points determine the slabs.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import devices, meshes, numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.pair import sweep
from jboost.pair.leave_one_out.near_optimal_lines import fat_line
from jboost.pair.pareto import slope_cells as cells
from jboost.pair.pareto.drawing import draw_front, draw_line_of, unless_lost
from jboost.pair.pareto.slabs import Slab, SlabProblem, take, widest_slabs
from jboost.pair.pareto.slope_cells import Cloud, Shortlist
from jboost.pair.pareto.steps import EndedError, FrontWatch, ParetoState, PlacesState, pack, unpack
from jboost.pair.pareto.subproblems import Ground, list_places
from jboost.pair.pareto.walk import WIDER, FoundFront, FrontPoint, best_constant
from jboost.pair.separator import LARGEST_SWEEP, optimal_separator
from jboost.pair.sweep.instance import Encoding, LineInstance, encode, pad_rows
from jboost.pair.sweep.line import Line
from jboost.pair.types import ParetoFront

_REAL = jnp.dtype("float64")
# A point of weight w is copied w times. There may be at most this many copies for each point.
_MOST_COPIES = 4
# The largest number of places to search: a constant, and a number for each loss.
_MOST_PLACES = 1 << 15, 8
# On coarse grids the sweep has few centres, and is used if there are fewer centres than
# (own points - first number) / second number.
_DUPLICATES = 64, 2
_PLACES_AT_ONCE = 256  # places that are searched in one call


class _WidestSlabs(NamedTuple):
    """The widest known slab for each loss between the losses of the first point and the
    constant.
    """

    losses: np.ndarray  # [J] integer
    squared_gap: np.ndarray  # [J, 2] double words; 0 if no slab is known
    slabs: list[tuple[SlabProblem, Slab] | None]  # [J]
    doubtful: bool


@meshes.takes_copies
def solve(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    max_points: int,
    watch: FrontWatch,
    initial: ParetoState | None,
) -> ParetoFront | None:
    """The front of concrete arrays. The arguments are those of `jboost.pair.pareto_front`, which
    validates them. Returns None if the method does not apply.

    It does not apply to invalid values, and to weights that are not small multiples of one unit. It
    also fails if rounding affects the first point, or leaves undecided whether a point is missing.
    The sweep may still succeed for nearly coincident directions.
    """
    result_dtype = jnp.result_type(float)
    examples = points, labels, weights, mask
    try:
        misclassified = _first_misclassified(examples, watch, initial)
    except EndedError:
        misclassified = None
        padded = pad_rows(_padded_size(points.shape[0], 64), *examples, np.zeros_like(mask))
    else:
        if misclassified is None:
            return None
        padded = pad_rows(_padded_size(points.shape[0], 64), *examples, misclassified)
    with jax.enable_x64(True):
        instance, encoding, centres, first, constant = _read(*padded)
        if misclassified is None:
            return _write_ends(instance, encoding, [constant], max_points, result_dtype)
        if float(encoding.rounding) > 0:
            return None
        try:
            widest = _find_widest(
                instance, np.asarray(centres), first, int(constant.loss), watch, initial
            )
        except EndedError:
            return _write_ends(instance, encoding, [first, constant], max_points, result_dtype)
        if widest is None or widest.doubtful:
            return None
        return _write_front(instance, encoding, first, constant, widest, max_points, result_dtype)


def _first_misclassified(
    examples: tuple[Array, Array, Array, Array], watch: FrontWatch, initial: ParetoState | None
) -> Array | None:
    """The points [n] that the optimal separator misclassifies, None if it is not known for certain.
    Raises EndedError if `on_step` ended the search for it.
    """
    points, labels, weights, mask = examples
    found = None if initial is None else initial.misclassified
    if found is None:
        is_watched = watch.is_open and points.shape[0] > LARGEST_SWEEP
        lightest = optimal_separator(
            points,
            labels,
            weights=weights,
            mask=mask,
            on_step=watch.first if is_watched else None,
            initial=None if initial is None else initial.first,
        )
        if int(lightest.status) == Status.TIME_LIMIT:
            raise EndedError
        if int(lightest.status) != Status.OPTIMAL:
            return None
        found = lightest.misclassified
    watch.misclassified = found
    return found


def _padded_size(num_points: int, least: int) -> int:
    """Rounds the size up to one of few sizes per octave, so that data sets of similar size share
    compiled programs. Sizes are multiples of `least`, a power of two.
    """
    step = max(least, (1 << num_points.bit_length()) // 8)
    return max(-(-num_points // step), 1) * step


@devices.public_jit
def _read(
    points: Array, labels: Array, weights: Array, mask: Array, misclassified: Array
) -> tuple[LineInstance, Encoding, Array, FrontPoint, FrontPoint]:
    """The problem, its centres (padded with -1), and the first and the last point of the front."""
    instance, encoding = encode(points, labels, weights, mask, _REAL)
    centres, num_centres = sweep.list_centres(instance)
    centres = jnp.where(lax.iota(jnp.int32, centres.shape[0]) < num_centres, centres, -1)
    kept = instance.live & ~misclassified
    start = jnp.zeros((), jnp.int32)
    line = fat_line(
        instance, kept & instance.own, kept & ~instance.own, (start, start), -jnp.ones((), _REAL)
    )
    loss = numerics.masked_sum(instance.weights, instance.live & misclassified)
    return (
        instance,
        encoding,
        centres,
        FrontPoint(loss, line.squared_gap, line.normal, kept),
        best_constant(instance),
    )


def _find_widest(
    instance: LineInstance,
    centres: np.ndarray,
    first: FrontPoint,
    constant: int,
    watch: FrontWatch,
    initial: ParetoState | None,
) -> _WidestSlabs | None:
    """The widest slab for each loss, or None if the weights, the duplicates or the number of slabs
    make the method unsuitable.
    """
    metric, own, live, weights = (
        np.asarray(part)
        for part in (instance.metric, instance.own, instance.live, instance.weights)
    )
    unit = int(np.gcd.reduce(weights)) or 1
    copies = weights // unit
    centres = centres[centres >= 0]
    if _has_many_copies(copies, own, centres):
        return None
    begin, end = int(first.loss) // unit + 1, constant // unit
    if begin >= end:
        return _WidestSlabs(np.zeros(0, np.int64), np.zeros((0, 2)), [], False)
    points = metric.T - metric[:, live].mean(axis=1)
    extent = np.abs(points[live]).max()
    ground = Ground(points / extent, own, live & ~own, weights, float(extent))
    first_gap = float(jnp.sqrt(first.squared_gap.hi))
    losses, least_gap = unit * np.arange(begin, end), first_gap * WIDER[8]
    if initial is not None and initial.places is not None:
        return _search_places(instance, ground, losses, unit, initial.places, watch)
    found = cells.shortlist(
        _gather(ground, copies, centres),
        begin,
        end,
        first_gap / extent,
        watch=watch.cells if watch.is_open else None,
        initial=None if initial is None else initial.cells,
    )
    if found is None or len(found.loss) > _MOST_PLACES[0] + _MOST_PLACES[1] * (end - begin):
        return None
    found = found._replace(centre=centres[found.centre])
    start = _first_places(ground, found, losses, least_gap, unit)
    return _search_places(instance, ground, losses, unit, start, watch)


def _gather(ground: Ground, copies: np.ndarray, centres: np.ndarray) -> Cloud:
    """The cloud of the points, each repeated as often as its weight."""
    counts = np.array([copies[ground.own].sum(), copies[ground.other].sum()], np.int32)
    sides = np.zeros((2, _padded_size(int(counts.max()), cells.BLOCK), 2))
    for side, (which, sign) in enumerate(((ground.own, 1), (ground.other, -1))):
        sides[side, : counts[side]] = sign * np.repeat(ground.points[which], copies[which], axis=0)
    return Cloud(sides, counts, ground.points[centres])


def _first_places(
    ground: Ground, found: Shortlist, losses: np.ndarray, least_gap: float, unit: int
) -> PlacesState:
    """The state before the first place: the most promising place of each loss is next."""
    loss_index = found.loss - losses[0] // unit
    least = np.full(len(losses), least_gap)
    scale = ground.extent / cells.ONE
    np.maximum.at(least, loss_index, found.attained * (scale * (1 - 2.0**-40)))
    reaches = _reaches(ground, found, loss_index, least)
    return PlacesState(
        found,
        np.flatnonzero(_are_first(loss_index) & reaches),
        np.asarray(False),
        np.asarray(0, np.int32),
        least,
        np.zeros(len(loss_index), bool),
        np.zeros((len(losses), 2)),
        pack([None] * len(losses)),
    )


def _are_first(loss_index: np.ndarray) -> np.ndarray:
    """Whether places [e] are the most promising ones of their losses."""
    return np.append(True, np.diff(loss_index) != 0)[: len(loss_index)]


def _reaches(
    ground: Ground, found: Shortlist, loss_index: np.ndarray, least: np.ndarray
) -> np.ndarray:
    """Whether a slab of each place [e] may be as wide as the widest known one of its loss."""
    reached: np.ndarray = (
        found.reach * (ground.extent / cells.ONE * (1 + 2.0**-40)) >= least[loss_index]
    )
    return reached


def _has_many_copies(copies: np.ndarray, own: np.ndarray, centres: np.ndarray) -> bool:
    """Whether the weights are large multiples of their unit, or most points are duplicates."""
    most_own = _DUPLICATES[0] + _DUPLICATES[1] * len(centres)
    return bool(copies.sum() > _MOST_COPIES * len(copies) or own.sum() > most_own)


def _search_places(
    instance: LineInstance,
    ground: Ground,
    losses: np.ndarray,
    unit: int,
    state: PlacesState,
    watch: FrontWatch,
) -> _WidestSlabs:
    """Searches the most promising place of each loss, and then all others that may contain a wider
    slab.
    """
    found, scale = state.found, ground.extent / cells.ONE
    loss_index = found.loss - losses[0] // unit
    widest = _WidestSlabs(losses, state.squared_gap.copy(), unpack(state.slabs, len(losses)), False)
    doubtful = state.doubtful.copy()
    while True:
        batches = list_places(
            ground, found, state.next, losses[loss_index], state.least[loss_index], _PLACES_AT_ONCE
        )
        for rows, places in itertools.islice(batches, int(state.num_done), None):
            slabs = jax.tree.map(np.asarray, widest_slabs(instance, places, scale / 4))
            doubtful[rows] = slabs.doubtful[: len(rows)]
            _keep_widest(widest, loss_index[rows], places, slabs)
            state = state._replace(num_done=state.num_done + np.int32(1))
            if watch.is_open:
                watch.places(_copied(state, widest, doubtful))
        known = np.maximum.accumulate(np.sqrt(widest.squared_gap[:, 0])) * (1 - 2.0**-40)
        least = np.maximum(state.least, known)
        if state.is_last:
            return widest._replace(doubtful=bool(doubtful.any()))
        reaches = _reaches(ground, found, loss_index, least)
        doubtful &= reaches
        state = state._replace(
            next=np.flatnonzero((~_are_first(loss_index) & reaches) | doubtful),
            is_last=np.asarray(True),
            num_done=np.asarray(0, np.int32),
            least=least,
        )


def _copied(state: PlacesState, widest: _WidestSlabs, doubtful: np.ndarray) -> PlacesState:
    """The state with copies of the results so far, which the search goes on to overwrite."""
    return state._replace(
        doubtful=doubtful.copy(),
        squared_gap=widest.squared_gap.copy(),
        slabs=pack(widest.slabs),
    )


def _keep_widest(
    widest: _WidestSlabs, loss_index: np.ndarray, places: SlabProblem, slabs: Slab
) -> None:
    """Stores the slabs that are wider than the widest known slab of the same loss."""
    for row, number in enumerate(loss_index):
        gap = slabs.squared_gap.hi[row], slabs.squared_gap.lo[row]
        if gap > tuple(widest.squared_gap[number]):
            widest.squared_gap[number] = gap
            widest.slabs[number] = jax.tree.map(lambda field, row=row: field[row], (places, slabs))


def _write_front(
    instance: LineInstance,
    encoding: Encoding,
    first: FrontPoint,
    constant: FrontPoint,
    widest: _WidestSlabs,
    max_points: int,
    result_dtype: jnp.dtype,
) -> ParetoFront:
    """The front: the first point, the slabs that are wider than all lighter ones, and
    the constant.
    """
    chosen, last = [], float(jnp.sqrt(first.squared_gap.hi))
    for number, squared_gap in enumerate(widest.squared_gap[:, 0]):
        if np.sqrt(squared_gap) >= last * WIDER[8]:
            chosen.append(number)
            last = np.sqrt(squared_gap)
    is_one = bool(jnp.isinf(first.squared_gap.hi))
    ended = is_one or len(chosen) + 2 <= max_points
    ends = _draw_ends(
        instance, encoding, _ends([first, constant], 1 if is_one else 2, ended), result_dtype
    )
    slabs = [
        slab for number in chosen[: max_points - 1] if (slab := widest.slabs[number]) is not None
    ]
    lines, keep = _draw_slabs(instance, encoding, slabs, result_dtype)
    ends = ends._replace(status=unless_lost(ends.status, jnp.bool_(keep)))
    gaps = np.sqrt(np.array([slab.squared_gap.hi for _, slab in slabs]))
    return _join(
        ends,
        lines,
        widest.losses[chosen[: max_points - 1]] * float(encoding.weight_unit),
        gaps / 2 * float(encoding.unit),
        max_points,
    )


def _write_ends(
    instance: LineInstance,
    encoding: Encoding,
    points: list[FrontPoint],
    max_points: int,
    result_dtype: jnp.dtype,
) -> ParetoFront:
    """The known ends of a front whose search was ended."""
    count = 1 if bool(jnp.isinf(points[0].squared_gap.hi)) else len(points)
    ends = _draw_ends(instance, encoding, _ends(points, count, True), result_dtype)
    ended = jnp.where(ends.status == int(Status.OPTIMAL), int(Status.TIME_LIMIT), ends.status)
    ends = ends._replace(status=ended.astype(jnp.int32))
    nothing = np.zeros(0)
    return _join(ends, [], nothing, nothing, max_points)


def _ends(points: list[FrontPoint], count: int, ended: bool) -> FoundFront:
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)
    return FoundFront(stacked, jnp.int32(count), jnp.bool_(ended), jnp.bool_(False))


@devices.public_jit(static_argnames="result_dtype")
def _draw_ends(
    instance: LineInstance, encoding: Encoding, found: FoundFront, result_dtype: jnp.dtype
) -> ParetoFront:
    return draw_front(instance, encoding, found, result_dtype)


def _draw_slabs(
    instance: LineInstance,
    encoding: Encoding,
    slabs: list[tuple[SlabProblem, Slab]],
    result_dtype: jnp.dtype,
) -> tuple[list[Line], bool]:
    """The bisectors of slabs, computed in groups of few sizes, and whether all keep their
    points.
    """
    lines: list[Any] = [None] * len(slabs)
    all_keep = True
    for size in {len(slab.kept) for _, slab in slabs}:
        rows = [row for row, (_, slab) in enumerate(slabs) if len(slab.kept) == size]
        for begin in range(0, len(rows), _PLACES_AT_ONCE):
            part = rows[begin : begin + _PLACES_AT_ONCE]
            padded = [slabs[row] for row in part] + [slabs[part[0]]] * (_PLACES_AT_ONCE - len(part))
            places, stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
            drawn, keep = jax.tree.map(
                np.asarray, _draw_batch(instance, encoding, places.points, stacked, result_dtype)
            )
            all_keep &= bool(keep.all())
            for place, row in enumerate(part):
                lines[row] = jax.tree.map(lambda field, place=place: field[place], drawn)
    return lines, all_keep


@devices.public_jit(static_argnames="result_dtype")
def _draw_batch(
    instance: LineInstance, encoding: Encoding, points: Array, slabs: Slab, result_dtype: jnp.dtype
) -> tuple[Line, Array]:
    """The bisectors of slabs, fields [P, ...], from the uncertain points of their places, and which
    of them keep their points, [P] bool.
    """

    def draw(part: tuple[Array, Slab]) -> tuple[Line, Array]:
        local, slab = take(instance, part[0]), part[1]
        point = FrontPoint(
            jnp.zeros((), local.weights.dtype), slab.squared_gap, slab.normal, slab.kept
        )
        return draw_line_of(local, point, encoding.own_is_positive, encoding.unit, result_dtype)

    return lax.map(draw, (points, slabs))


def _join(
    ends: ParetoFront, lines: list[Line], losses: np.ndarray, margins: np.ndarray, max_points: int
) -> ParetoFront:
    """The front with lines between its first and its last point, up to its capacity."""
    count = min(len(lines) + int(ends.count), max_points)
    middle = [losses, margins] + [
        np.array([getattr(line, name) for line in lines]) for name in ("normal", "anchor", "bias")
    ]
    fields: list[Array] = []
    for end, part, padding in zip(ends[:5], middle, (np.inf, 0, 0, 0, 0), strict=True):
        rows = np.full((max_points, *end.shape[1:]), padding, end.dtype)
        listed = [
            end[:1],
            part.reshape(-1, *end.shape[1:]).astype(end.dtype),
            end[1 : int(ends.count)],
        ]
        rows[:count] = np.concatenate(listed)[:count]
        fields.append(jnp.asarray(rows))
    return ParetoFront._make([*fields, jnp.int32(count), ends.status])
