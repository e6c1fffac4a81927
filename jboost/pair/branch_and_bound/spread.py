"""Steps of the search that divide several chunks of the stack at once, each on a device of its own.

The points and the tree are on every device. A step takes the last chunks of the stack, at most one
for each device; divides each on its device, without any exchange; and puts all that is found
together on the host: the best line prunes what every device does next, and the children go back to
the one stack. So no device keeps work of its own, and the next step divides the work anew. States
are those of one device, and a search may go on with another number of devices.

The stack is sorted by depth, as on one device. Chunks of a depth come onto it only when none of
that depth or below is left: whenever a step takes a chunk, it takes all that are deeper. So for
each depth the stack has at most the children of D chunks, for D devices: it is at most D times as
large as that of one device.

If there are fewer chunks than devices, some devices wait. Children are therefore packed into
smaller chunks if there would be too few, down to the smallest standard size.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jboost.base import devices
from jboost.base.types import PyTree
from jboost.pair.branch_and_bound import cells, frontiers, leaves, search
from jboost.pair.branch_and_bound.cells import Division, Frontier, LineCells
from jboost.pair.branch_and_bound.leaves import Frame
from jboost.pair.branch_and_bound.search import Advance, LineProblem
from jboost.pair.branch_and_bound.sites import CurveSites, SiteTree
from jboost.pair.branch_and_bound.types import BranchAndBoundConfig, BranchAndBoundState, OpenLeaves

_AXIS = "chunks"


class Copies(NamedTuple):
    """The input of the search on every device of a mesh of one axis."""

    mesh: Mesh
    points: CurveSites
    tree: SiteTree
    frame: Frame


def stepper(problem: LineProblem, config: BranchAndBoundConfig) -> Advance:
    """The step of the search: on all devices of this process that hold the tree, or on one."""
    sharding = problem.tree.x.sharding
    holders = sorted(sharding.addressable_devices, key=lambda device: device.id)
    if len(holders) == 1 or not sharding.is_fully_replicated:
        return functools.partial(search.advance, problem, config)
    mesh = Mesh(np.array(holders), (_AXIS,), axis_types=(AxisType.Auto,))
    copies = Copies(mesh, *_held_by(mesh, (problem.points, problem.tree, problem.frame)))
    return functools.partial(advance, copies, problem, config)


def _held_by(mesh: Mesh, tree: PyTree) -> PyTree:
    """Replicated arrays, as arrays on a mesh of the devices of this process. Nothing is copied."""
    target = NamedSharding(mesh, PartitionSpec())

    def hold(leaf: jax.Array) -> jax.Array:
        held = {shard.device: shard.data for shard in leaf.addressable_shards}
        return jax.make_array_from_single_device_arrays(
            leaf.shape, target, [held[device] for device in mesh.devices.flat], dtype=leaf.dtype
        )

    return jax.tree.map(hold, tree)


def advance(
    copies: Copies,
    problem: LineProblem,
    config: BranchAndBoundConfig,
    state: BranchAndBoundState,
    beam: int = 0,
) -> BranchAndBoundState:
    """One step on all devices: divides the last frontiers, bounds the losses in their leaves, and
    puts their other runs on the stack as new frontiers.
    """
    limit = search.limit_of(problem, state)
    waiting, chunks = _take(state.frontiers, copies.mesh.size, limit)
    state = state._replace(frontiers=waiting)
    if not chunks:
        return state
    with jax.set_mesh(copies.mesh):
        frontier = _one_to_a_device(chunks, copies.mesh)
        division = divide(
            copies,
            frontier,
            limit,
            np.int32(beam),
            capacity=search.slots_for(chunks),
            leaf_size=config.leaf_size,
        )
        state = _sweep_leaves(copies, problem, state, frontier, division, config)
        children = _branch(copies, frontier, division, config)
    return state._replace(frontiers=(*waiting, *children))


def _take(
    frontiers: Sequence[Frontier], most: int, limit: np.int64
) -> tuple[tuple[Frontier, ...], list[Frontier]]:
    """The stack without its last frontiers, and at most `most` of these that are not discarded, the
    last one last.
    """
    waiting, chunks = list(frontiers), list[Frontier]()
    while waiting and len(chunks) < most:
        frontier = waiting.pop()
        if search.least_bound(frontier) < limit:
            chunks.append(frontier)
    return tuple(waiting), chunks[::-1]


def _one_to_a_device(chunks: Sequence[Frontier], mesh: Mesh) -> Frontier:
    """The chunks [D, ...], each on its device and padded to the largest. Devices without a chunk
    get one without cells.
    """
    hosted = [jax.tree.map(np.asarray, chunk) for chunk in chunks]
    num_entries = max(chunk.node.shape[0] for chunk in hosted)
    num_cells = max(chunk.cells.low.shape[0] for chunk in hosted)
    padded = [_resized(chunk, num_cells, num_entries) for chunk in hosted]
    empty = padded[0]._replace(
        cell=np.full(num_entries, -1, np.int32),
        node=np.full(num_entries, -1, np.int32),
        num_cells=np.int32(0),
    )
    padded += [empty] * (mesh.size - len(padded))
    target = NamedSharding(mesh, PartitionSpec(_AXIS))
    return jax.tree.map(lambda *parts: jax.device_put(np.stack(parts), target), *padded)


def _resized(frontier: Frontier, num_cells: int, num_entries: int) -> Frontier:
    """A frontier on the host with these capacities, which are sufficient for it."""

    def resize(array: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
        missing = max(0, size - array.shape[0])
        return np.pad(array[:size], (0, missing), constant_values=fill)

    return frontier._replace(
        cells=LineCells(*(resize(field, num_cells) for field in frontier.cells)),
        cell=resize(frontier.cell, num_entries, -1),
        node=resize(frontier.node, num_entries, -1),
    )


@functools.cache
def _on_each_device(
    function: Callable[..., Any], mesh: Mesh, num_whole: int, **static: Any
) -> Callable[..., Any]:
    """`function` of `num_whole` arguments that are the same on all devices, and of others [D, ...],
    of which each device gets its own; results are [D, ...].
    """

    def of_device(whole: tuple[Any, ...], own: tuple[Any, ...]) -> Any:
        found = function(*whole, *jax.tree.map(lambda leaf: leaf[0], own), **static)
        return jax.tree.map(lambda leaf: leaf[None], found)

    # Chunks are independent of each other, so `check_vma` has nothing to check.
    mapped = jax.shard_map(
        of_device,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec(_AXIS)),
        out_specs=PartitionSpec(_AXIS),
        check_vma=False,
    )
    run = devices.host_jit(mapped)
    return lambda *arguments: run(arguments[:num_whole], arguments[num_whole:])


def divide(
    copies: Copies,
    frontier: Frontier,
    limit: np.int64,
    beam: np.int32,
    *,
    capacity: int,
    leaf_size: int,
) -> Division:
    """`cells.divide` of the chunk of every device, fields [D, ...]."""
    run = _on_each_device(
        _divide,
        copies.mesh,
        3,
        capacity=capacity,
        leaf_size=leaf_size,
        num_sites=copies.points.x.shape[0],
    )
    found: Division = run(copies.tree, limit, beam, frontier)
    return found


def _divide(
    tree: SiteTree, limit: jax.Array, beam: jax.Array, frontier: Frontier, **static: int
) -> Division:
    found: Division = cells.divide(tree, frontier, limit, beam, **static)
    return found


def _sweep_leaves(
    copies: Copies,
    problem: LineProblem,
    state: BranchAndBoundState,
    frontier: Frontier,
    division: Division,
    config: BranchAndBoundConfig,
) -> BranchAndBoundState:
    num_leaves = np.asarray(division.totals)[:, 3]
    if not num_leaves.any():
        return state
    rows, width = search.leaf_shape(int(np.max(np.asarray(division.largest_leaf))), config)
    run = _on_each_device(
        _bracket,
        copies.mesh,
        2,
        num_leaves=rows,
        width=width,
        num_triples=search.triples_at_once(),
    )
    for begin in range(0, int(num_leaves.max()), rows):
        first, last = (
            np.minimum(place, num_leaves).astype(np.int32) for place in (begin, begin + rows)
        )
        found = jax.tree.map(
            np.asarray, run(copies.points, copies.frame, frontier, division, first, last)
        )
        for place in np.flatnonzero(first < last):
            own: OpenLeaves = jax.tree.map(lambda field, place=place: field[place], found)
            state = search.with_leaves(problem, state, own)
    return search.drop_leaves(problem, state)


def _bracket(
    points: CurveSites,
    frame: Frame,
    frontier: Frontier,
    division: Division,
    first: jax.Array,
    last: jax.Array,
    *,
    num_leaves: int,
    width: int,
    num_triples: int,
) -> OpenLeaves:
    batch = frontiers.collect_leaves(
        frontier, division, first, last, num_leaves=num_leaves, width=width
    )
    return OpenLeaves(batch, leaves.bracket_leaves(points, frame, batch, num_triples=num_triples))


def _branch(
    copies: Copies, frontier: Frontier, division: Division, config: BranchAndBoundConfig
) -> list[Frontier]:
    """The children of all chunks, in the order of the stack."""
    totals = np.asarray(division.totals)
    counts = [
        np.asarray(field)
        for field in (division.branch_rank, division.num_children, division.runs.num_bins)
    ]
    runs = [search.runs_of(*(field[place] for field in counts)) for place in range(len(totals))]
    share = -(-sum(int(each.loads.sum()) for each in runs) // len(runs))
    parts = [search.parts_of(each, config, share=share) if len(each.loads) else [] for each in runs]
    children: list[list[Frontier]] = [[] for _ in parts]
    for together in itertools.zip_longest(*parts, fillvalue=search.Part(0, 0, 0, 0)):
        run = _on_each_device(
            _child,
            copies.mesh,
            1,
            num_cells=max(part.num_cells for part in together),
            num_entries=max(part.num_entries for part in together),
            num_sites=copies.points.x.shape[0],
        )
        first, last = (
            np.array(column, np.int32)
            for column in zip(*(part[:2] for part in together), strict=True)
        )
        found = jax.tree.map(np.asarray, run(copies.tree, frontier, division, first, last))
        for place, part in enumerate(together):
            if part.last > part.first:
                own = jax.tree.map(lambda field, place=place: field[place], found)
                children[place].append(_resized(own, part.num_cells, part.num_entries))
    return [child for own in children for child in reversed(own)]


def _child(
    tree: SiteTree,
    frontier: Frontier,
    division: Division,
    first: jax.Array,
    last: jax.Array,
    **static: int,
) -> Frontier:
    found: Frontier = frontiers.branch(tree, frontier, division, first, last, **static)
    return found
