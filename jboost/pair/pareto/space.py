"""The Pareto front of weight against margin of three classifiers, by all slabs through at most four
points.

The widest slab between two sets in space is carried by at most four points: two points of different
classes; a point and an edge; two edges; or a point and a triangle. So all such slabs are written
down, and the loss of each is the weight of the points that it does not keep. There are O(n^4) of
them, and the work is O(n^5). The margins on the front are then computed in fractions
(`jboost.pair.space.bisectors`).

The normal of a slab whose carriers are close to a line is rounded much. The loss of such a slab
counts only the points that it loses for certain. If it, or a slab too narrow for floats, might be
missing on the front, its width and its loss are computed in integers, and if it is missing the
status is PRECISION_LIMIT.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import devices, numerics
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.pair.pareto.steps import EndedError, FrontWatch, ParetoState, SlabsState
from jboost.pair.space import bisectors
from jboost.pair.space.bisectors import Bisector
from jboost.pair.sweep.instance import Encoding, pad_rows, read
from jboost.pair.types import ParetoFront

# Points this close to the border of a slab are on it, as a share of half their largest range. Two
# margins whose relative difference is less than the second number count as equal.
_ON_BORDER, _EQUAL = 2.0**-40, 2.0**-36
_SAME_WIDTH = 2.0**-20  # the relative error that the width of a slab in floats may have
# The rounding of a normal moves no height of a point over another one by more than this many units
# in the last place of the products that it is made of, by half the largest range. This is five
# times what the sums of the rounding errors bound, and so it holds for normals of rounding alone.
_ROUNDING = 128
# On grids of so many steps, products of coordinates are not rounded.
_GRID = 2.0**11
_MOST_NARROW = 5000  # slabs in doubt that integers decide
_ROWS = 16  # data sets are padded to a multiple of this many rows, which share programs
_HEIGHTS_AT_ONCE = 1 << 22  # of points over slabs
# The numbers of positive and negative points that carry a slab.
_CARRIERS = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 3))


class _Slabs(NamedTuple):
    """Slabs, each by the indices of the points that carry it; the last one is repeated."""

    positive: np.ndarray  # [c, 3] int32
    negative: np.ndarray  # [c, 3] int32


class _Evaluated(NamedTuple):
    losses: Array  # [c] int64; the largest integer for slabs without a width
    margins: Array  # [c], in the unit of the points
    # [c] int64, a lower bound of the loss of slabs that are narrow or whose normals are rounded
    # much; the largest integer for others
    narrow: Array
    most_margins: Array  # [c] upper bounds of the margins
    kept: Array  # [c, n] bool
    normals: Array  # [c, 3] to the positive side


class _Candidates(NamedTuple):
    """Slabs that no other one dominates, by increasing loss."""

    losses: np.ndarray  # [k] int64
    margins: np.ndarray  # [k]
    slabs: _Slabs


class _Narrow(NamedTuple):
    """Slabs in doubt: narrow ones, and those whose normals are rounded much."""

    losses: np.ndarray  # [k] int64, lower bounds
    margins: np.ndarray  # [k], upper bounds
    slabs: _Slabs


def solve(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    max_points: int,
    watch: FrontWatch,
    initial: ParetoState | None,
) -> ParetoFront:
    """`jboost.pair.pareto_front` of concrete points [n, 3]."""
    dtype = jnp.result_type(float)
    size = points.shape[0]
    padded = pad_rows(max(_ROWS, -(-size // _ROWS) * _ROWS), points, labels, weights, mask)
    ended = Status.OPTIMAL
    with jax.enable_x64(True):
        encoding = jax.device_get(_read(*padded))
        if not encoding.valid:
            return _empty(max_points, np.nan, Status.INVALID_INPUT, dtype)
        try:
            rows, proven = _front(encoding, watch, None if initial is None else initial.slabs)
        except EndedError:
            rows, proven, ended = [_constant(encoding)], True, Status.TIME_LIMIT
    front = _empty(max_points, np.inf, Status.OPTIMAL, dtype)
    proven = proven and bool(encoding.faithful)
    for index, row in enumerate(rows[:max_points]):
        proven = proven and _draw(front, index, encoding, row)
    status = ended if proven else Status.PRECISION_LIMIT
    status = Status.CAPACITY_LIMIT if len(rows) > max_points else status
    count = jnp.int32(min(len(rows), max_points))
    return jax.tree.map(jnp.asarray, front)._replace(count=count, status=jnp.int32(status))


@devices.host_jit
def _read(points: Array, labels: Array, weights: Array, mask: Array) -> Encoding:
    return read(points, labels, weights, mask, jnp.dtype("float64"))[1]


def _empty(max_points: int, nothing: float, status: Status, dtype: jnp.dtype) -> ParetoFront:
    """A front without points, in arrays of NumPy."""
    flat = np.zeros((max_points, 3), dtype)
    losses = np.full(max_points, nothing, dtype)
    return ParetoFront(
        losses,
        np.zeros(max_points, dtype),
        flat,
        flat.copy(),
        np.zeros(max_points, dtype),
        np.int32(0),
        np.int32(status),
    )


class _FrontRow(NamedTuple):
    """A point of the front."""

    loss: int
    kept: np.ndarray  # [n] bool
    bisector: Bisector | None  # None for a constant
    constant: int  # the class of a constant, else 0


def _constant(encoding: Encoding) -> _FrontRow:
    """The last point of the front."""
    positive, live, integers = encoding.positive, encoding.live, encoding.integers
    sums = [int(integers[side].sum()) for side in (positive, live & ~positive)]
    constant = 1 if sums[1] <= sums[0] else -1
    return _FrontRow(min(sums), positive if constant > 0 else live & ~positive, None, constant)


def _front(
    encoding: Encoding, watch: FrontWatch, initial: SlabsState | None
) -> tuple[list[_FrontRow], bool]:
    """The front, the constant last, and whether rounding left nothing undecided."""
    positive, live, integers = encoding.positive, encoding.live, encoding.integers
    last, points = _constant(encoding), encoding.points.astype(np.float64)
    found, narrow = _candidates(points, positive, live, integers, last.loss, watch, initial)
    rows: list[_FrontRow] = []
    widest, proven = Fraction(0), True
    for index in range(len(found.losses)):
        chosen = _Slabs(*(part[index : index + 1] for part in found.slabs))
        evaluated = jax.device_get(_evaluate(points, positive, live, integers, chosen))
        kept = evaluated.kept[0]
        bisector = bisectors.bisect(points, kept & positive, kept & ~positive, evaluated.normals[0])
        if bisector is None:
            proven = False
            continue
        least = Fraction(2 * float(found.margins[index])) * Fraction(1 - _SAME_WIDTH)
        proven = proven and bisector.squared_gap >= least**2
        if bisector.squared_gap <= widest * Fraction(1 + 2 * _EQUAL):
            continue
        widest = bisector.squared_gap
        rows.append(_FrontRow(int(found.losses[index]), kept, bisector, 0))
    rows.append(last)
    return rows, proven and not _is_one_missing(points, encoding, narrow, rows)


def _is_one_missing(
    points: np.ndarray, encoding: Encoding, narrow: _Narrow, rows: list[_FrontRow]
) -> bool:
    """Whether a slab in doubt has a width and is missing on the front, in integers."""
    if len(narrow.losses) > _MOST_NARROW:
        return True
    one, other = (np.flatnonzero(side) for side in (encoding.positive, encoding.live))
    other = np.setdiff1d(other, one)
    whole, unit = _whole_numbers(points)
    for loss, positive, negative in zip(narrow.losses.tolist(), *narrow.slabs, strict=True):
        upper, lower = whole[positive], whole[negative]
        normal = _normal(upper, lower)
        width = normal @ (upper[0] - lower[0])
        if width == 0:
            continue
        squared = Fraction(width**2, normal @ normal) * unit**2
        if _is_covered(rows, loss, squared):
            continue
        normal = normal if width > 0 else -normal
        lost = [
            one[(whole[one] - upper[0]) @ normal < 0],
            other[(whole[other] - lower[0]) @ normal > 0],
        ]
        loss = sum(int(encoding.integers[part].sum()) for part in lost)
        if not _is_covered(rows, loss, squared):
            return True
    return False


def _is_covered(rows: list[_FrontRow], loss: int, squared_gap: Fraction) -> bool:
    """Whether a point of the front loses no more than a slab and is no less wide."""
    for row in rows:
        if row.loss > loss:
            return False
        error = Fraction(_SAME_WIDTH if row.loss == loss else 2 * _EQUAL)
        if row.bisector is None or row.bisector.squared_gap >= squared_gap * (1 - error):
            return True
    return False


def _whole_numbers(points: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """Points [n, 3] as integers of Python, and their unit, a power of two."""
    exact = [[Fraction(float(x)) for x in point] for point in points]
    unit = max((x.denominator for point in exact for x in point), default=1)
    whole = np.array([[int(x * unit) for x in point] for point in exact], object)
    return whole.reshape(points.shape), Fraction(1, unit)


def _normal(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """The normal [3] of the slab that points [3, 3] of each class carry, all of them integers."""
    across = upper[0] - lower[0]
    edges = [side[i + 1] - side[i] for side in (upper, lower) for i in (0, 1)]
    edges = [edge for edge in edges if edge.any()]
    if not edges:
        return across
    first = edges[0]
    if len(edges) == 1:
        return (first @ first) * across - (first @ across) * first
    return np.cross(first, edges[1])


def _candidates(
    points: np.ndarray,
    positive: np.ndarray,
    live: np.ndarray,
    integers: np.ndarray,
    constant_loss: int,
    watch: FrontWatch,
    initial: SlabsState | None,
) -> tuple[_Candidates, _Narrow]:
    """The slabs of the front, which lose less than a constant, and those that may be missing."""
    none = _Slabs(*[np.zeros((0, 3), np.int32)] * 2)
    best = _Candidates(np.zeros(0, np.int64), np.zeros(0), none)
    narrow = _Narrow(np.zeros(0, np.int64), np.zeros(0), none)
    num_done = 0
    if initial is not None:
        best = _Candidates(initial.losses, initial.margins, _Slabs(*initial.carriers))
        narrow = _Narrow(
            initial.narrow_losses, initial.narrow_margins, _Slabs(*initial.narrow_carriers)
        )
        num_done = int(initial.num_done)
    at_once = max(256, _HEIGHTS_AT_ONCE // len(points))
    sides = np.flatnonzero(positive), np.flatnonzero(live & ~positive)
    for slabs in itertools.islice(_batches(sides, at_once), num_done, None):
        count = len(slabs.positive)
        missing = at_once - count
        padded = _Slabs(*(np.pad(part, ((0, missing), (0, 0)), mode="edge") for part in slabs))
        losses, margins, of_narrow, most_margins = (
            np.asarray(part)[:count]
            for part in _losses_of(points, positive, live, integers, padded)
        )
        kept = losses < constant_loss
        best = _merge(
            best,
            _Candidates(losses[kept], margins[kept], _Slabs(*(part[kept] for part in slabs))),
        )
        kept = of_narrow < constant_loss
        found = of_narrow[kept], most_margins[kept], _Slabs(*(part[kept] for part in slabs))
        narrow = _collect(narrow, _Narrow(*found), best)
        num_done += 1
        watch.slabs(_state_of(best, narrow, num_done))
    return best, narrow


def _batches(sides: tuple[np.ndarray, np.ndarray], at_once: int) -> Iterator[_Slabs]:
    """All slabs that points of the two sides carry, at most so many in a batch."""
    for num_positive, num_negative in _CARRIERS:
        one, other = _subsets(sides[0], num_positive), _subsets(sides[1], num_negative)
        for begin in range(0, len(one) * len(other), at_once):
            place = np.arange(begin, min(begin + at_once, len(one) * len(other)))
            yield _Slabs(one[place // len(other)], other[place % len(other)])


def _state_of(best: _Candidates, narrow: _Narrow, num_done: int) -> SlabsState:
    return SlabsState(
        *best[:2],
        np.stack(best.slabs),
        *narrow[:2],
        np.stack(narrow.slabs),
        np.asarray(num_done, np.int32),
    )


def _collect(one: _Narrow, other: _Narrow, best: _Candidates) -> _Narrow:
    """The slabs in doubt of both that `best` does not dominate, as many as are of use."""
    losses, margins = (np.concatenate([a, b]) for a, b in zip(one[:2], other[:2], strict=True))
    slabs = [np.concatenate([a, b]) for a, b in zip(one.slabs, other.slabs, strict=True)]
    widest = np.concatenate([[0.0], best.margins])
    widest = widest[np.searchsorted(best.losses, losses, side="right")]
    kept = np.flatnonzero(margins > widest)[: _MOST_NARROW + 1]
    return _Narrow(losses[kept], margins[kept], _Slabs(*(part[kept] for part in slabs)))


def _subsets(members: np.ndarray, size: int) -> np.ndarray:
    """All subsets of a size [s, 3] int32, the last member repeated."""
    found = np.array(list(itertools.combinations(members.tolist(), size)), np.int32)
    found = found.reshape(-1, size)
    return np.concatenate([found, np.repeat(found[:, -1:], 3 - size, axis=1)], axis=1)


def _merge(one: _Candidates, other: _Candidates) -> _Candidates:
    """The slabs of both that no other one dominates."""
    losses, margins = (np.concatenate([a, b]) for a, b in zip(one[:2], other[:2], strict=True))
    slabs = [np.concatenate([a, b]) for a, b in zip(one.slabs, other.slabs, strict=True)]
    order = np.lexsort((-margins, losses))
    wider = np.maximum.accumulate(np.concatenate([[0.0], margins[order]]))
    kept = order[margins[order] > wider[:-1]]
    return _Candidates(losses[kept], margins[kept], _Slabs(*(part[kept] for part in slabs)))


@devices.host_jit
def _losses_of(
    points: Array, positive: Array, live: Array, integers: Array, slabs: _Slabs
) -> tuple[Array, Array, Array, Array]:
    evaluated = _evaluate_all(points, positive, live, integers, slabs)
    return evaluated.losses, evaluated.margins, evaluated.narrow, evaluated.most_margins


@devices.host_jit
def _evaluate(
    points: Array, positive: Array, live: Array, integers: Array, slabs: _Slabs
) -> _Evaluated:
    return _evaluate_all(points, positive, live, integers, slabs)


def _evaluate_all(
    points: Array, positive: Array, live: Array, integers: Array, slabs: _Slabs
) -> _Evaluated:
    """What slabs keep and lose."""
    upper, lower = points[slabs.positive], points[slabs.negative]  # [c, 3, 3]
    across, origin = upper[:, 0] - lower[:, 0], lower[:, 0]
    normals, products = _normals(upper, lower, across)
    reach, is_on_grid = _reach(points, live), _is_on_grid(points, live)
    has_width = (_dot(normals, across) > 0) | ~is_on_grid
    length = jnp.sqrt(_dot(normals, normals))
    normals = normals / jnp.where(length > 0, length, 1.0)[:, None]
    rounding = _ROUNDING * float(jnp.finfo(points.dtype).eps) * reach
    is_rounded = (products > 0) & ~is_on_grid
    error = jnp.where(is_rounded, rounding * products / length, 0.0)
    heights = sum(normals[:, i, None] * (points[None, :, i] - origin[:, i, None]) for i in range(3))
    gap = _dot(normals, across)
    near = jnp.maximum(_ON_BORDER * reach, error)[:, None]
    kept = live[None] & jnp.where(positive[None], heights >= gap[:, None] - near, heights <= near)
    total = jnp.sum(integers)
    losses = total - jnp.sum(jnp.where(kept, integers[None], 0), axis=1)
    is_slab = gap > 2 * near[:, 0]
    is_in_doubt = ((length > 0) | (error > 0)) & (~is_slab | (error > _EQUAL / 2 * gap)) & has_width
    most = jnp.iinfo(losses.dtype).max
    return _Evaluated(
        jnp.where(is_slab, losses, most),
        gap / 2,
        jnp.where(is_in_doubt, losses, most),
        gap / 2 + error,
        kept,
        normals,
    )


def _normals(upper: Array, lower: Array, across: Array) -> tuple[Array, Array]:
    """Normals [c, 3] of slabs to the positive side, of any length, and how large the products are
    [c] whose differences they are; 0 for normals that are not rounded.
    """
    edges = jnp.stack(
        [
            upper[:, 1] - upper[:, 0],
            upper[:, 2] - upper[:, 1],
            lower[:, 1] - lower[:, 0],
            lower[:, 2] - lower[:, 1],
        ],
        axis=1,
    )
    is_edge = jnp.any(edges != 0, axis=2)
    # the first two edges; an edge of length 0 if there are fewer
    order = jnp.argsort(~is_edge, axis=1, stable=True)
    first, second = (
        jnp.take_along_axis(edges, order[:, k : k + 1, None], axis=1)[:, 0] for k in (0, 1)
    )
    count = jnp.sum(is_edge, axis=1, dtype=jnp.int32)
    squared, along = _dot(first, first), _dot(first, across)
    cross = jnp.stack(
        [
            first[:, (i + 1) % 3] * second[:, (i + 2) % 3]
            - first[:, (i + 2) % 3] * second[:, (i + 1) % 3]
            for i in range(3)
        ],
        axis=1,
    )
    turned = jnp.where(_dot(cross, across)[:, None] < 0, -cross, cross)
    rejected = squared[:, None] * across - along[:, None] * first
    kind = count[:, None]
    normals = jnp.where(kind == 0, across, jnp.where(kind == 1, rejected, turned))
    # a rejection has about twice the rounding errors of a cross product
    other = jnp.where(count == 1, 4 * squared * _dot(across, across), _dot(second, second))
    return normals, jnp.sqrt(squared * other)


def _reach(points: Array, live: Array) -> Array:
    """Half the largest range of the coordinates of the live points."""
    high = numerics.masked_max(points.T, live[None], fill=-jnp.inf)
    low = numerics.masked_min(points.T, live[None], fill=jnp.inf)
    return jnp.max(jnp.where(low <= high, high / 2 - low / 2, 0.0))


def _is_on_grid(points: Array, live: Array) -> Array:
    """Whether the live points are on a grid of so few steps that products are not rounded."""
    step = numerics.power_of_two_at_least(_reach(points, live)) * (2 / _GRID)
    steps = jnp.where(live[:, None], points / step, 0.0)
    return jnp.all((steps == jnp.round(steps)) & (jnp.abs(steps) < 2.0**52))


def _dot(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=1)


def _draw(front: ParetoFront, index: int, encoding: Encoding, row: _FrontRow) -> bool:
    """Writes a point of the front, and returns whether its rounded plane keeps its points."""
    live, points = encoding.live, encoding.points.astype(np.float64)
    front.losses[index] = encoding.weights[live & ~row.kept].sum()
    if row.bisector is None:
        front.margins[index], front.biases[index] = np.inf, row.constant
        return True
    normal = np.array([float(part) for part in row.bisector.normal])
    length = float(np.sqrt(float(row.bisector.squared_gap)))
    heights = points @ normal
    carrier = np.flatnonzero(row.kept & encoding.positive)
    carrier = carrier[np.argmin(heights[carrier])]
    front.normals[index] = normal / length
    front.anchors[index] = points[carrier]
    front.biases[index] = length / 2
    front.margins[index] = length / 2
    scores = (points - front.anchors[index].astype(np.float64)) @ front.normals[index].astype(
        np.float64
    ) + float(front.biases[index])
    signs = np.where(encoding.positive, 1, -1)
    return bool((signs * scores > 0)[row.kept].all())
