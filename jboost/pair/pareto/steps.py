"""The state of a Pareto front whose search the host drives, between two steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import loops
from jboost.base.loops import OnStep
from jboost.base.types import Array
from jboost.pair.arguments import checksums_of
from jboost.pair.branch_and_bound import BranchAndBoundInfo, BranchAndBoundState
from jboost.pair.pareto.slabs import Slab, SlabProblem
from jboost.pair.pareto.slope_cells import CellsState, Shortlist


class Packed(NamedTuple):
    """The widest known slab of some losses, with its place; uncertain points are padded."""

    number: np.ndarray  # [k] of the loss
    size: np.ndarray  # [k] uncertain points
    place: SlabProblem | None  # fields [k, ...]; None if k is 0
    slab: Slab | None


class PlacesState(NamedTuple):
    """The search for the widest slab of each loss, over places: pairs of a cell and a centre."""

    found: Shortlist  # e places
    next: np.ndarray  # the places that are searched now
    is_last: np.ndarray  # [] bool; before, only the most promising place of each loss is searched
    num_done: np.ndarray  # [] int32, batches of `next` that have been searched
    least: np.ndarray  # [J] the width of a known slab of each loss, before `next`
    doubtful: np.ndarray  # [e] bool, whether rounding leaves a wider slab undecided
    squared_gap: np.ndarray  # [J, 2] double words, of the widest slab of each loss
    slabs: Packed


class SlabsState(NamedTuple):
    """The slabs of three classifiers that no other one dominates, and those in doubt."""

    losses: np.ndarray  # [k] int64
    margins: np.ndarray  # [k]
    carriers: np.ndarray  # [2, k, 3] int32, the points of each class that carry a slab
    narrow_losses: np.ndarray  # [d] int64
    narrow_margins: np.ndarray  # [d]
    narrow_carriers: np.ndarray  # [2, d, 3] int32
    num_done: np.ndarray  # [] int32, batches so far


class ParetoState(NamedTuple):
    """The state of `pareto_front` between two steps. One part after the other is not None."""

    first: BranchAndBoundState | None  # the search for the first point
    misclassified: np.ndarray | None  # [n] bool, by the separator of the first point
    cells: CellsState | None  # while cells of directions are halved
    places: PlacesState | None  # while slabs are searched
    slabs: SlabsState | None  # of three classifiers
    checksums: np.ndarray  # [4] uint32, of points, labels, weights and mask


class EndedError(Exception):
    """`on_step` has ended the search."""


class FrontWatch:
    """Calls `on_step` with the state of each step, and raises EndedError if it returns False."""

    def __init__(self, on_step: OnStep | None, examples: tuple[Array, Array, Array, Array]) -> None:
        self.is_open = on_step is not None
        self.misclassified: Array | None = None
        self._on_step = on_step
        self._is_wide = jnp.result_type(float).itemsize == 8
        nothing = np.zeros(4, np.uint32)
        known = checksums_of(*examples) if self.is_open else nothing
        self._state = ParetoState(None, None, None, None, None, known)

    def first(self, state: BranchAndBoundState, info: BranchAndBoundInfo) -> bool:
        """A step of the search for the first point."""
        told = f"first point, {info.num_cells} cells"
        return loops.goes_on(self._on_step, self._state._replace(first=state), told)

    def cells(self, state: CellsState) -> None:
        """A step of the search for cells of directions."""
        self._tell(f"{len(state.number)} cells of directions", cells=state)

    def places(self, state: PlacesState) -> None:
        """A step of the search for slabs."""
        self._tell(f"{int(state.num_done)} batches, {len(state.next)} places", places=state)

    def slabs(self, state: SlabsState) -> None:
        """A step of the search for slabs in space."""
        self._tell(f"{int(state.num_done)} batches, {len(state.losses)} slabs", slabs=state)

    def _tell(self, info: str, **parts: Any) -> None:
        if self._on_step is None:
            return
        split = None if self.misclassified is None else np.asarray(self.misclassified)
        state = self._state._replace(misclassified=split, **parts)
        with jax.enable_x64(self._is_wide):
            goes_on = loops.goes_on(self._on_step, state, info)
        if not goes_on:
            raise EndedError


def pack(slabs: list[tuple[SlabProblem, Slab] | None]) -> Packed:
    """The slabs that are known, in arrays of one shape."""
    known = [(number, *each) for number, each in enumerate(slabs) if each is not None]
    numbers = np.array([number for number, _, _ in known], np.int64)
    sizes = np.array([len(slab.kept) for _, _, slab in known], np.int64)
    if not known:
        return Packed(numbers, sizes, None, None)

    def padded(array: np.ndarray, fill: Any) -> np.ndarray:
        return np.pad(array, (0, int(sizes.max()) - len(array)), constant_values=fill)

    places = [place._replace(points=padded(place.points, -1)) for _, place, _ in known]
    kept = [slab._replace(kept=padded(slab.kept, False)) for _, _, slab in known]
    place, slab = (
        jax.tree.map(lambda *leaves: np.stack(leaves), *parts) for parts in (places, kept)
    )
    return Packed(numbers, sizes, place, slab)


def unpack(packed: Packed, num_losses: int) -> list[tuple[SlabProblem, Slab] | None]:
    """The slabs of all losses, None where no slab is known."""
    slabs: list[tuple[SlabProblem, Slab] | None] = [None] * num_losses
    for row, (number, size) in enumerate(zip(packed.number, packed.size, strict=True)):
        place, slab = jax.tree.map(lambda leaf, row=row: leaf[row], (packed.place, packed.slab))
        slabs[number] = (
            place._replace(points=place.points[:size]),
            slab._replace(kept=slab.kept[:size]),
        )
    return slabs
