"""Evaluates the open classes of the remaining leaves exactly, in batches of one shape."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import numpy as np

from jboost.base.types import PyTree
from jboost.pair.branch_and_bound import leaf_visits as visits
from jboost.pair.branch_and_bound import search
from jboost.pair.branch_and_bound.frontiers import Leaves
from jboost.pair.branch_and_bound.leaf_visits import Classes
from jboost.pair.branch_and_bound.search import LineProblem
from jboost.pair.branch_and_bound.types import BranchAndBoundState

_VISITS = 16  # the number of centres or classes that are evaluated in one call


class LeafCentre(NamedTuple):
    """One centre of one leaf."""

    leaf: Leaves  # fields without the leading axis
    centre: np.int32


class OpenClass(NamedTuple):
    """One open class of lines through a place."""

    leaf: Leaves  # fields without the leading axis
    centre: np.int32
    classes: Classes
    chosen: np.int32
    loss: np.int64


Item = TypeVar("Item", LeafCentre, OpenClass)


def list_candidates(
    problem: LineProblem, state: BranchAndBoundState
) -> tuple[list[OpenClass], int]:
    """All open classes in the open leaves whose loss exceeds the least one there by at most
    `problem.excess`, and the least loss.
    """
    least = int(np.iinfo(np.int64).max)
    found: list[OpenClass] = []
    for part in state.open_leaves:
        rows, centres = np.nonzero(part.brackets.lower <= search.highest_loss(problem, state))
        items = [
            LeafCentre(member(part.leaves, int(row)), np.int32(centre))
            for row, centre in zip(rows, centres, strict=True)
        ]
        for batch in batches(items):
            stacked = stack(batch)
            classes = jax.tree.map(
                np.asarray,
                visits.open_classes(problem.points, problem.frame, stacked.leaf, stacked.centre),
            )
            losses = classes.losses[: len(batch)]
            least = min(least, int(losses.min()))
            for place, chosen in np.argwhere(
                (losses <= least + problem.excess) & (losses < np.iinfo(losses.dtype).max)
            ):
                leaf, centre = batch[place]
                found.append(
                    OpenClass(
                        leaf,
                        centre,
                        member(classes, place),
                        np.int32(chosen),
                        losses[place, chosen],
                    )
                )
    return [item for item in found if item.loss <= least + problem.excess], least


def batches(items: list[Item]) -> list[list[Item]]:
    """Batches of at most `_VISITS` items."""
    return [items[first : first + _VISITS] for first in range(0, len(items), _VISITS)]


def stack(batch: list[Item]) -> Item:
    """The items of a batch stacked in one record, padded to one size with the first item."""
    filled = batch + batch[:1] * (_VISITS - len(batch))
    stacked: Item = jax.tree.map(lambda *fields: np.stack(fields), *filled)
    return stacked


def member(stacked: PyTree, place: int) -> PyTree:
    """The item of a stacked record at index `place`."""
    return jax.tree.map(lambda field: field[place], stacked)
