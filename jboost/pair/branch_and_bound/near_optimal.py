"""Lists all separator sets whose weight is near the optimum, for many points. Leave-one-out errors
are computed from them.

`jboost.pair.leave_one_out.near_optimal` searches around every centre. This module discards cells
that contain no near-optimal line.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jboost.base import loops, meshes
from jboost.base.loops import OnStep
from jboost.base.types import Array
from jboost.pair.branch_and_bound import leaf_visits as visits
from jboost.pair.branch_and_bound import search, spread
from jboost.pair.branch_and_bound.candidates import OpenClass, batches, list_candidates, stack
from jboost.pair.branch_and_bound.search import LineProblem
from jboost.pair.branch_and_bound.solve import info_of, pad, read, validate_initial
from jboost.pair.branch_and_bound.types import BranchAndBoundConfig, BranchAndBoundState


class NearSplits(NamedTuple):
    """Distinct splits of the padded points, by a line or by a constant classifier, whose loss is at
    most the optimum plus the weight of the heaviest point.
    """

    arrays: list[Array]  # points, labels, weights and mask, padded to [N, ...]
    # [s, N] bool, the side of the smaller class; False for points that are masked out
    on_own_side: np.ndarray
    losses: np.ndarray  # [s] int64, in integer weights of the points
    fits: bool  # whether all near-optimal splits are listed
    is_stopped: bool = False  # whether `on_step` ended the search


@meshes.takes_copies
def list_splits(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    most_bytes: int,
    config: BranchAndBoundConfig,
    on_step: OnStep | None = None,
    initial: BranchAndBoundState | None = None,
) -> NearSplits:
    """The near-optimal splits of concrete arrays, with the arguments of
    `jboost.pair.leave_one_out`. The list is incomplete if it would take more than `most_bytes`, and
    empty if `on_step` ended the search. States are those of the search.
    """
    padded = pad(points, labels, weights, mask)
    with jax.enable_x64(True):
        sites, unit, heaviest, valid = read(*padded)
        problem = search.prepare(sites, all_optima=True, excess=int(heaviest))
        state = search.start(problem) if initial is None else validate_initial(initial, problem)
        if not bool(valid):
            state = state._replace(frontiers=())
        advance, fits, step = spread.stepper(problem, config), True, 0
        if initial is None and state.frontiers:
            state = search.dive(advance, state, beam=config.beam)
    while state.frontiers and fits:
        with jax.enable_x64(True):
            state, step = advance(state, 0), step + 1
        fits = search.num_waiting(state) <= config.max_entries
        goes_on = loops.goes_on(on_step, state, info_of(state, step, float(unit)))
        if not goes_on and state.frontiers:
            nothing = np.zeros((0, padded[0].shape[0]), bool)
            return NearSplits(padded, nothing, np.zeros(0, np.int64), False, is_stopped=True)
    with jax.enable_x64(True):
        candidates, least = list_candidates(problem, search.drop_leaves(problem, state))
        return _distinct(
            problem,
            padded,
            candidates,
            min(least, problem.constant_loss) + problem.excess,
            most_bytes,
            fits,
        )


def _distinct(
    problem: LineProblem,
    padded: list[Array],
    candidates: list[OpenClass],
    highest: int,
    most_bytes: int,
    fits: bool,
) -> NearSplits:
    of_point, own_weights, other_weights = (
        np.asarray(part)
        for part in (problem.points.of_point, problem.points.own, problem.points.other)
    )
    live = np.asarray(padded[3])
    most = max(2, most_bytes // max(len(live), 1))
    rows: dict[bytes, tuple[np.ndarray, int]] = {}

    def add(on_own_side: np.ndarray, loss: int) -> None:
        split = on_own_side & live
        rows.setdefault(np.packbits(split).tobytes(), (split, loss))

    for is_own, loss in ((True, int(other_weights.sum())), (False, int(own_weights.sum()))):
        if loss <= highest:
            add(np.full(len(live), is_own), loss)
    near = [item for item in candidates if item.loss <= highest]
    for width in sorted({item.leaf.site.shape[0] for item in near}):
        for batch in batches([item for item in near if item.leaf.site.shape[0] == width]):
            leaf, _, classes, chosen, _ = stack(batch)
            sides = np.asarray(
                visits.split_sites(problem.points, problem.frame, leaf, classes, chosen)
            )
            for item, side in zip(batch, sides, strict=False):
                if len(rows) < most:
                    add(side[of_point], int(item.loss))
                else:
                    fits = False
    splits, losses = _sorted_by_bits(rows, len(live))
    return NearSplits(padded, splits, losses * int(problem.points.grain), fits)


def _sorted_by_bits(
    rows: dict[bytes, tuple[np.ndarray, int]], size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The splits [s, size] and their losses [s], in an order that does not depend on the search."""
    splits, losses = zip(*(rows[key] for key in sorted(rows)), strict=True) if rows else ((), ())
    return np.stack(splits) if splits else np.zeros((0, size), bool), np.array(losses, np.int64)
