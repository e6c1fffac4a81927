"""The exact minimum-weight combination of three classifiers, from arrays to a `Separator`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import batching, check, devices, loops, meshes, numerics, reduce
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.pair.arguments import checksums_of
from jboost.pair.branch_and_bound import BranchAndBoundInfo
from jboost.pair.space import plane, visits
from jboost.pair.space.problem import PlaneProblem, encode
from jboost.pair.space.search import PlaneSearchState, Stopped, lower_bound, promising_axes
from jboost.pair.space.sweep import Axes, bound_all, list_axes
from jboost.pair.sweep import SweepConfig
from jboost.pair.sweep.instance import Encoding, pad_rows
from jboost.pair.sweep.line import certify
from jboost.pair.sweep.visits import Incumbent
from jboost.pair.types import Fat, Separator

# The largest ratio of the extents of two coordinates. With a larger ratio, products of metric
# coordinates lose the bits of the small coordinate.
_MOST_SPREAD = 2.0**22
# Data sets are padded to a multiple of this many rows, so that sets of similar size share compiled
# programs.
_ROWS = 64


def validate_config(config: object) -> SweepConfig:
    """The resolved config of the sweep in space. Raises ValueError, naming the argument, for one
    that requires points in the plane.
    """
    settings: SweepConfig = check.config("config", config, SweepConfig)
    if settings.word_bits == 32:
        raise ValueError(
            "config.word_bits is 32, and points has three columns: leave it at None, or pass 64"
        )
    return dataclasses.replace(settings, word_bits=64).resolved()


@devices.public_jit(static_argnames=("all_optima", "fat", "config"))
@meshes.takes_gathered
def optimal_plane(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    all_optima: bool,
    fat: Fat,
    config: SweepConfig,
) -> Separator:
    """The plane that misclassifies the least weight, over all planes and both constant classifiers.
    `jboost.pair.optimal_separator` calls it.

    The work is O(m n^2 log n) for m points in the smaller class: one sort for every pair of a
    centre and a second point (Boyarshinov and Magdon-Ismail 2005, Theorem 4.1). The comparisons are
    exact if each coordinate, scaled by its own power of two, is an integer of at most 25 bits. For
    other finite floats no tolerance is used either: if double words cannot order two numbers, the
    bounds become wider, and the status is PRECISION_LIMIT. The status is also PRECISION_LIMIT if
    the extent of one coordinate is more than 2^22 times that of another. Then the bound is valid,
    but the margin may be too small and the loss too large.

    Args:
      points: [n, 3], real.
      labels: [n], +1 or -1.
      weights: [n], positive.
      mask: [n] bool, False for padding rows.
      all_optima: take the largest margin among all optimal separator sets, instead of the first
        one.
      fat: "removed" or "flipped": margins without the misclassified points, or with their labels
        flipped.
      config: a resolved config with words of 64 bits.

    >>> import jax.numpy as jnp
    >>> from jboost.pair import SweepConfig
    >>> points = jnp.array([[0.0, 0, 0], [2.0, 0, 0], [0.0, 2, 0], [0.0, 0, 2], [1.0, 1, 1]])
    >>> labels, config = jnp.array([-1, 1, 1, 1, 1]), SweepConfig().resolved()
    >>> found = optimal_plane(
    ...     points,
    ...     labels,
    ...     jnp.ones(5),
    ...     jnp.ones(5, bool),
    ...     all_optima=True,
    ...     fat="removed",
    ...     config=config,
    ... )
    >>> float(found.loss), round(float(found.margin), 4)
    (0.0, 0.5774)
    """
    result_dtype = jnp.result_type(float)
    num_points = points.shape[0]
    padded = pad_rows(max(num_points, 2), points, labels, weights, mask)

    def solve(points: Array, labels: Array, weights: Array, mask: Array) -> Separator:
        problem, encoding = encode(points, labels, weights, mask)
        none = jnp.full((), jnp.iinfo(jnp.int64).max, problem.weights.dtype)
        return _best_about(
            problem,
            encoding,
            list_axes(problem),
            none,
            all_optima=all_optima,
            fat=fat,
            config=config,
            result_dtype=result_dtype,
        )

    separator = batching.in_chunks(numerics.in_64_bits(solve), at_once=1)(*padded)
    return separator._replace(misclassified=separator.misclassified[:num_points])


@meshes.takes_gathered
def optimal_plane_by_cells(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    all_optima: bool,
    fat: Fat,
    config: SweepConfig,
    on_step: OnStep | None = None,
    initial: PlaneSearchState | None = None,
) -> Separator:
    """`optimal_plane` for concrete arrays. Branch and bound restricts the axes of the sweep. If
    most axes remain, all are swept.

    `on_step` and `initial` are those of `jboost.pair.optimal_separator`, which validates them.
    """
    options: dict[str, Any] = {"all_optima": all_optima, "fat": fat, "config": config}
    num_points, result_dtype = points.shape[0], jnp.result_type(float)
    padded = pad_rows(max(_ROWS, -(-num_points // _ROWS) * _ROWS), points, labels, weights, mask)
    with jax.enable_x64(True):
        problem, unit = _read(*padded)
    watch = _watch(on_step, (points, labels, weights, mask), float(unit))
    with jax.enable_x64(True):
        found = promising_axes(problem, watch=watch, initial=initial)
    if found is None:
        return optimal_plane(points, labels, weights, mask, **options)
    with jax.enable_x64(True):
        separator = (
            _draw_stopped(*padded, found, fat=fat, result_dtype=result_dtype)
            if isinstance(found, Stopped)
            else _sweep_listed(
                *padded,
                found.axes,
                jnp.int64(found.attained + 1),
                **options,
                result_dtype=result_dtype,
            )
        )
    return separator._replace(misclassified=separator.misclassified[:num_points])


def _watch(
    on_step: OnStep | None, examples: tuple[Array, Array, Array, Array], unit: float
) -> Callable[[PlaneSearchState], bool]:
    """`on_step` as a function of the state only, in the caller's precision. `unit` is that of
    integer weights.
    """
    if on_step is None:
        return lambda state: True
    known, numbers = checksums_of(*examples), itertools.count(1)
    is_wide = jnp.result_type(float).itemsize == 8

    def watch(state: PlaneSearchState) -> bool:
        info = BranchAndBoundInfo(
            step=next(numbers),
            upper_bound=float(state.best.loss) * unit,
            lower_bound=lower_bound(state) * unit,
            num_cells=sum(len(part.face) for part in state.waiting),
            num_entries=sum(part.rows.size for part in state.waiting),
        )
        with jax.enable_x64(is_wide):
            return loops.goes_on(on_step, state._replace(checksums=known), info)

    return watch


@devices.public_jit
def _read(points: Array, labels: Array, weights: Array, mask: Array) -> tuple[PlaneProblem, Array]:
    """The problem, and the unit of its integer weights."""
    problem, encoding = encode(points, labels, weights, mask)
    return problem, encoding.weight_unit


@devices.public_jit(static_argnames=("all_optima", "fat", "config", "result_dtype"))
def _sweep_listed(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    axes: Axes,
    least_elsewhere: Array,
    **options: Any,
) -> Separator:
    problem, encoding = encode(points, labels, weights, mask)
    return _best_about(problem, encoding, axes, least_elsewhere, **options)


@devices.public_jit(static_argnames=("fat", "result_dtype"))
def _draw_stopped(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    found: Stopped,
    *,
    fat: Fat,
    result_dtype: jnp.dtype,
) -> Separator:
    """The best plane of a search that was stopped."""
    problem, encoding = encode(points, labels, weights, mask)
    constant = visits.best_constant(problem)
    split = visits.fat_split(problem, found.above, constant.loss, fat)
    best = jax.tree.map(functools.partial(jnp.where, found.is_constant), constant, split)
    best = best._replace(loss=jnp.asarray(found.attained, constant.loss.dtype))
    return _draw(
        problem,
        encoding,
        best,
        jnp.asarray(found.lower_bound, constant.loss.dtype),
        ended=Status.TIME_LIMIT,
        fat=fat,
        result_dtype=result_dtype,
    )


def _best_about(
    problem: PlaneProblem,
    encoding: Encoding,
    axes: Axes,
    least_elsewhere: Array,
    *,
    all_optima: bool,
    fat: Fat,
    config: SweepConfig,
    result_dtype: jnp.dtype,
) -> Separator:
    """The best plane about the given axes. Planes about other axes lose at least
    `least_elsewhere`.
    """
    bounds = bound_all(problem, axes, config)
    best = visits.visit_axes(problem, axes, bounds, all_optima=all_optima, fat=fat)
    least = jnp.minimum(reduce.least(bounds), least_elsewhere)
    bound = jnp.maximum(jnp.where(problem.is_exact, best.loss, jnp.minimum(best.loss, least)), 0)
    return _draw(
        problem,
        encoding,
        best,
        bound,
        ended=Status.OPTIMAL,
        fat=fat,
        result_dtype=result_dtype,
    )


def _draw(
    problem: PlaneProblem,
    encoding: Encoding,
    best: Incumbent,
    bound: Array,
    *,
    ended: Status,
    fat: Fat,
    result_dtype: jnp.dtype,
) -> Separator:
    """The result of a search that ended with this status, OPTIMAL or TIME_LIMIT."""
    drawn = plane.draw_plane(
        problem, best, encoding.own_is_positive, fat, encoding.unit, result_dtype
    )
    constant = plane.best_constant(problem, encoding.positive, encoding.integers)
    wrong, wrong_flat = (
        plane.misclassified(problem, encoding.positive, line, encoding.unit)
        for line in (drawn, constant)
    )
    falls_back = numerics.masked_sum(encoding.integers, wrong_flat) < numerics.masked_sum(
        encoding.integers, wrong
    )
    drawn = jax.tree.map(functools.partial(jnp.where, falls_back), constant, drawn)
    is_constant = best.is_constant | falls_back
    is_sure = (best.loss == bound) & (is_constant | (plane.spread(problem) <= _MOST_SPREAD))
    otherwise = Status.PRECISION_LIMIT if ended is Status.OPTIMAL else ended
    status = jnp.where(is_sure, int(ended), int(otherwise))
    return certify(
        encoding, drawn, loss=best.loss, bound=bound, status=status, result_dtype=result_dtype
    )
