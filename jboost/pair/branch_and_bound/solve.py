"""The certified optimal `Separator` by branch and bound, from concrete arrays. The loop runs on the
host.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import checksums, devices, loops, meshes
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.pair.branch_and_bound import leaf_visits as visits
from jboost.pair.branch_and_bound import search, spread
from jboost.pair.branch_and_bound.candidates import (
    OpenClass,
    batches,
    list_candidates,
    member,
    stack,
)
from jboost.pair.branch_and_bound.leaf_visits import SiteSeparation
from jboost.pair.branch_and_bound.margins import (
    RELATIVE_ERROR,
    FatSeparation,
    constant_separation,
    fatten,
)
from jboost.pair.branch_and_bound.search import LineProblem
from jboost.pair.branch_and_bound.sites import CurveSites, gather_sites
from jboost.pair.branch_and_bound.types import (
    BranchAndBoundConfig,
    BranchAndBoundInfo,
    BranchAndBoundState,
)
from jboost.pair.sweep.instance import LineInstance, encode, pad_rows
from jboost.pair.sweep.line import certify, draw_line
from jboost.pair.sweep.visits import Incumbent
from jboost.pair.types import Fat, Separator

_REAL = jnp.dtype("float64")
_MARGIN_TIE = 2.0**-48  # margins that differ by less count as equal, relative


@meshes.takes_copies
def solve(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    all_optima: bool,
    fat: Fat,
    config: BranchAndBoundConfig,
    on_step: OnStep | None,
    initial: object,
) -> Separator:
    """The optimum of concrete arrays. The arguments are those of `jboost.pair.optimal_separator`,
    which validates them.
    """
    result_dtype = jnp.result_type(float)
    num_points = points.shape[0]
    padded = pad(points, labels, weights, mask)
    with jax.enable_x64(True):
        sites, weight_unit, _, valid = read(*padded)
        problem = search.prepare(sites, all_optima=all_optima)
        state = search.start(problem) if initial is None else validate_initial(initial, problem)
        if not bool(valid):
            state = state._replace(frontiers=())
        advance = spread.stepper(problem, config)
        if initial is None and len(state.frontiers):
            state = search.dive(advance, state, beam=config.beam)
    state, status = _run(advance, state, on_step, float(weight_unit), config.max_entries)
    with jax.enable_x64(True):
        best, loss = _best_separation(problem, search.drop_leaves(problem, state), fat)
        bound = loss if status == Status.OPTIMAL else min(loss, search.lower_bound(state))
        separator = _finish(
            *padded,
            sites,
            best,
            np.int64(loss),
            np.int64(bound),
            np.int32(status),
            fat=fat,
            result_dtype=result_dtype,
        )
    return separator._replace(misclassified=separator.misclassified[:num_points])


def pad(*arrays: Array) -> list[Array]:
    """Arrays [n, ...] padded with rows of zeros to one of few sizes per octave, so that data sets
    of similar size share compiled programs.
    """
    return pad_rows(_padded_size(arrays[0].shape[0]), *arrays)


def _padded_size(num_points: int) -> int:
    size = 64
    while size < num_points:
        size *= 2
    step = max(64, size // 16) if size >= 2**16 else size
    return -(-num_points // step) * step if num_points else size


@devices.host_jit
def read(
    points: Array, labels: Array, weights: Array, mask: Array
) -> tuple[CurveSites, Array, Array, Array]:
    """The sites of the points, the unit of their weights, the weight of the heaviest point in this
    unit, and whether all values are allowed.
    """
    instance, encoding = encode(points, labels, weights, mask, _REAL)
    sites = gather_sites(instance)
    return (
        sites,
        encoding.weight_unit * sites.grain,
        jnp.max(instance.weights, initial=0) // sites.grain,
        encoding.valid,
    )


def validate_initial(initial: object, problem: LineProblem) -> BranchAndBoundState:
    """The state. Raises ValueError unless it is one of a search of the same data that keeps as many
    lines.
    """
    if not isinstance(initial, BranchAndBoundState):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.pair.BranchAndBoundState, as"
            " `on_step` gets it"
        )
    checksums.require_same(
        initial.checksum,
        search.checksum_of(problem.points),
        parts=("points, labels, weights or mask",),
        what="search",
    )
    if problem.all_optima and not initial.keeps_ties:
        raise ValueError(
            "initial is of a search with tie_break=None, and tie_break is 'margin': pass None, as"
            " lines that tie are no longer in it"
        )
    return initial


def info_of(state: BranchAndBoundState, step: int, unit: float) -> BranchAndBoundInfo:
    """The progress after a step, with losses in units of the weights."""
    return BranchAndBoundInfo(
        step=step,
        upper_bound=float(state.upper_bound) * unit,
        lower_bound=search.lower_bound(state) * unit,
        num_cells=sum(int(frontier.num_cells) for frontier in state.frontiers),
        num_entries=search.num_waiting(state),
    )


def _run(
    advance: search.Advance,
    state: BranchAndBoundState,
    on_step: OnStep | None,
    unit: float,
    max_entries: int,
) -> tuple[BranchAndBoundState, Status]:
    """Advances until no cell is left, and returns OPTIMAL, or until a limit is reached."""
    step = 0
    while state.frontiers:
        with jax.enable_x64(True):
            state = advance(state, 0)
        step += 1
        if (
            on_step is not None
            and not loops.goes_on(on_step, state, info_of(state, step, unit))
            and state.frontiers
        ):
            return state, Status.TIME_LIMIT
        if search.num_waiting(state) > max_entries:
            return state, Status.CAPACITY_LIMIT
    return state, Status.OPTIMAL


def _best_separation(
    problem: LineProblem, state: BranchAndBoundState, fat: Fat
) -> tuple[FatSeparation, int]:
    """The best separator among the open leaves and the constants, and its exact loss."""
    constant = constant_separation(problem.points)
    candidates, loss = list_candidates(problem, state)
    if not candidates or loss >= problem.constant_loss:
        return constant, problem.constant_loss
    if not problem.all_optima:
        candidates = candidates[:1]
    return _widest(problem, _separate(problem, candidates, fat), fat), loss


class _Split(NamedTuple):
    """A separation of all sites."""

    fat: FatSeparation
    sides: bytes  # the own side as bits, in the order of the sites


def _widest(
    problem: LineProblem, separations: list[tuple[float, OpenClass, SiteSeparation]], fat: Fat
) -> FatSeparation:
    """The separation of the largest margin. Of several it is the one whose own side comes last in
    the order of the sites, so it does not depend on the order of the search.
    """
    best: _Split | None = None
    seen: set[bytes] = set()
    for margin_bound, candidate, separation in separations:
        if best is not None and margin_bound < float(best.fat.margin) * (1 - RELATIVE_ERROR):
            break
        sides = np.packbits(
            visits.own_side(problem.points, problem.frame, candidate.leaf, separation)
        ).tobytes()
        if sides in seen:
            continue
        seen.add(sides)
        split = _Split(
            fatten(problem.points, problem.frame, candidate.leaf, separation, fat=fat), sides
        )
        if best is None or _is_chosen(split, best):
            best = split
    assert best is not None
    return best.fat


def _is_chosen(split: _Split, best: _Split) -> bool:
    """Whether a split comes before the best one so far."""
    margin, most = float(split.fat.margin), float(best.fat.margin)
    if margin <= most * (1 + _MARGIN_TIE) and margin >= most * (1 - _MARGIN_TIE):
        return split.sides > best.sides
    return margin > most


def _separate(
    problem: LineProblem, candidates: list[OpenClass], fat: Fat
) -> list[tuple[float, OpenClass, SiteSeparation]]:
    """The separations of the candidates, by decreasing upper bound of their margins."""
    bounded = []
    for width in sorted({item.leaf.site.shape[0] for item in candidates}):
        items = [item for item in candidates if item.leaf.site.shape[0] == width]
        for batch in batches(items):
            leaf, centre, classes, chosen, _ = stack(batch)
            separations = visits.separate(
                problem.points,
                problem.frame,
                leaf,
                centre,
                classes,
                chosen,
                fat=fat,
            )
            separations = jax.tree.map(np.asarray, separations)
            bounded += [
                (float(separations.margin_bound[place]), item, member(separations, place))
                for place, item in enumerate(batch)
            ]
    return sorted(bounded, key=lambda entry: -entry[0])


@devices.host_jit(static_argnames=("fat", "result_dtype"))
def _finish(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    sites: CurveSites,
    best: FatSeparation,
    loss: Array,
    bound: Array,
    status: Array,
    *,
    fat: Fat,
    result_dtype: jnp.dtype,
) -> Separator:
    """The line of a separation, from the sites nearest to it, with its loss on all points."""
    loss, bound = loss * sites.grain, bound * sites.grain
    _, encoding = encode(points, labels, weights, mask, _REAL)
    incumbent = Incumbent(
        loss=loss,
        margin=best.margin,
        is_constant=best.is_constant,
        on_own_side=jnp.tile(best.on_own_side[jnp.maximum(best.near, 0)], 2),
        normal=best.normal,
    )
    near = _near_instance(sites, best.near)
    line = draw_line(near, incumbent, encoding.own_is_positive, fat, encoding.unit, result_dtype)
    return certify(encoding, line, loss=loss, bound=bound, status=status, result_dtype=result_dtype)


def _near_instance(sites: CurveSites, near: Array) -> LineInstance:
    """The instance of the sites with indices `near`, those of the own class first. Negative indices
    are padding.
    """
    place = jnp.maximum(near, 0)
    points = jnp.tile(jnp.stack([sites.x[place], sites.y[place]]), 2)
    weights = jnp.where(
        jnp.concatenate([near, near]) >= 0,
        jnp.concatenate([sites.own[place], sites.other[place]]),
        0,
    )
    live = weights > 0
    own = live & (jnp.arange(2 * near.shape[0]) < near.shape[0])
    return LineInstance(points, points * sites.metric[:, None], own, live, weights, sites.on_grid)
