"""Branch and bound with its chunks on several devices: each works, and results are those of one."""

import collections
import importlib
import random

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import jboost
from jboost.base.status import Status
from jboost.pair import BranchAndBoundConfig
from jboost.pair.branch_and_bound import search, spread
from jboost.pair.branch_and_bound.cells import Frontier, LineCells
from jboost.pair.branch_and_bound.types import BranchAndBoundState
from oracles.pair import optimal_pair, random_degenerate_sets
from placing import mesh_of, put

DEEP = BranchAndBoundConfig(leaf_size=4, chunk_entries=512)
module_of_solve = importlib.import_module("jboost.pair.branch_and_bound.solve")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks as small as the sets, so that these make several."""
    for name, size in (("_SMALLEST_CHUNK", 512), ("_LEAF_SITES", 256), ("_LEAF_TRIPLES", 1024)):
        monkeypatch.setattr(search, name, size)


@pytest.fixture
def chunks(monkeypatch):
    """How many chunks with cells each device divided, {device: number}, and the numbers of each
    step.
    """
    counts, steps, divide = collections.Counter(), [], spread.divide

    def counting(copies, frontier, *args, **kwargs):
        division = divide(copies, frontier, *args, **kwargs)
        worked = {
            shard.device: int(np.sum(np.asarray(shard.data) > 0))
            for shard in frontier.num_cells.addressable_shards
        }
        assert {shard.device for shard in division.totals.addressable_shards} == set(worked)
        counts.update(worked)
        steps.append(sum(worked.values()))
        return division

    monkeypatch.setattr(spread, "divide", counting)
    return counts, steps


def overlapping(size, seed=0):
    rng = np.random.default_rng([seed, size])
    labels = rng.choice([-1, 1], size).astype(np.int32)
    return (rng.normal(size=(size, 2)) + 0.2 * labels[:, None]).astype(np.float32), labels


def solve(
    arrays, num_devices=1, kind=AxisType.Auto, method=jboost.pair.optimal_separator, **options
):
    """The result on the host. The arrays are sharded over so many devices."""
    if num_devices > 1:
        mesh = mesh_of(num_devices, kind=kind)
        arrays = [put(array, mesh) for array in arrays]
    points, labels, *others = arrays
    named = dict(zip(("weights", "mask"), others, strict=False))
    if method is jboost.pair.optimal_separator:
        options = {"config": DEEP} | options
    return jax.device_get(method(points, labels, method="branch_and_bound", **named, **options))


def assert_bits(found, expected, case=""):
    for name, one, other in zip(found._fields, found, expected, strict=True):
        assert np.array_equal(one, other, equal_nan=True), (name, one, other, case)


def frontier_of(num_entries, half_width, bound=0):
    cells = LineCells(*(np.zeros(2, dtype) for dtype in (bool, *"fff", *"lll", np.int32)))
    return Frontier(
        cells._replace(bound=np.full(2, bound)),
        np.zeros(num_entries, np.int32),
        np.zeros(num_entries, np.int32),
        np.int32(1),
        np.float64(half_width),
    )


def test_a_step_takes_the_last_chunks_and_discards_those_without_hope():
    stack = [
        frontier_of(8, 1.0 / depth, bound) for depth, bound in ((1, 0), (2, 9), (3, 0), (4, 0))
    ]
    waiting, taken = spread._take(stack, 2, np.int64(5))
    assert [each.half_width for each in waiting] == [1, 0.5]
    assert [each.half_width for each in taken] == [1 / 3, 1 / 4]
    waiting, taken = spread._take(stack, 8, np.int64(5))
    assert (len(waiting), len(taken)) == (0, 3)


def test_chunks_of_different_sizes_are_padded_and_devices_without_one_get_no_cells():
    mesh = mesh_of(3, "chunks", AxisType.Auto)
    put_there = spread._one_to_a_device([frontier_of(4, 1.0), frontier_of(8, 0.5)], mesh)
    assert put_there.node.shape == (3, 8)
    assert [len(shard.data) for shard in put_there.node.addressable_shards] == [1, 1, 1]
    assert np.array_equal(put_there.num_cells, [1, 1, 0])
    node = np.asarray(put_there.node)
    assert np.array_equal(node[0], [0, 0, 0, 0, -1, -1, -1, -1])
    assert (node[2] == -1).all()


def test_runs_are_packed_into_about_one_chunk_for_each_device():
    sizes = np.tile([[100, 1, 4]], (64, 1))
    runs = search.Runs(sizes, sizes[:, 0])
    for num_devices, expected in ((1, 2), (8, 13)):
        parts = search.parts_of(runs, BranchAndBoundConfig(), share=6400 // num_devices)
        assert len(parts) == expected
        assert [part.last for part in parts[:-1]] == [part.first for part in parts[1:]]
        assert (parts[0].first, parts[-1].last) == (0, 64)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_every_device_divides_chunks_and_the_result_is_that_of_one(chunks, kind):
    arrays = overlapping(400)
    one = solve(arrays)
    counts, steps = chunks
    assert not steps
    found = solve(arrays, 8, kind)
    assert_bits(found, one)
    assert found.status == Status.OPTIMAL
    assert set(counts) == set(jax.devices()[:8])
    assert min(counts.values()) > 0
    assert max(steps) == 8
    loss = optimal_pair(*overlapping(60)).loss
    assert (
        solve(
            [
                np.pad(array, [(0, 4)] + [(0, 0)] * (array.ndim - 1))
                for array in (*overlapping(60), np.ones(60, np.float32), np.ones(60, bool))
            ],
            8,
        ).loss
        == loss
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("num_devices", [2, 4, 8])
def test_degenerate_sets_on_several_devices(num_devices):
    for points, labels, weights, mask in zip(*random_degenerate_sets(71, 20, 24), strict=True):
        arrays = (
            points.astype(np.float32),
            labels.astype(np.int32),
            weights.astype(np.float32),
            mask,
        )
        for options in ({}, {"fat": "flipped"}):
            assert_bits(
                solve(arrays, num_devices, **options), solve(arrays, **options), points[mask]
            )
        found, one = (solve(arrays, number, tie_break=None) for number in (num_devices, 1))
        assert (found.loss, found.lower_bound, found.status) == (
            one.loss,
            one.lower_bound,
            one.status,
        )


@pytest.mark.exhaustive
def test_tied_margins_do_not_depend_on_the_order_of_the_search(monkeypatch):
    """On small grids several optimal sets have the largest margin, beginning with a square."""
    rng, listed = np.random.default_rng(5), module_of_solve.list_candidates
    orders = (
        list,
        lambda items: items[::-1],
        lambda items: random.Random(1).sample(items, len(items)),
    )
    square = np.array([[0, 0], [1, 1], [0, 1], [1, 0]]), np.array([1, 1, -1, -1])
    sets = [square]
    for size in rng.integers(4, 17, 100):
        sets.append((rng.integers(0, rng.integers(2, 5), (size, 2)), rng.choice([-1, 1], size)))
    for points, labels in sets:
        found = []
        for order in orders:

            def in_order(problem, state, order=order):
                candidates, least = listed(problem, state)
                return order(candidates), least

            monkeypatch.setattr(module_of_solve, "list_candidates", in_order)
            found.append(solve((points.astype(np.float32), labels)))
        assert_bits(found[1], found[0], points)
        assert_bits(found[2], found[0], points)


@pytest.mark.exhaustive
def test_a_stopped_search_goes_on_with_any_number_of_devices(tmp_path):
    arrays = overlapping(400)
    whole, states = solve(arrays), {}
    for num_devices in (1, 8):
        seen = []

        def stop(state, info, seen=seen):
            seen.append((state, info))
            return len(seen) < 2

        stopped = solve(arrays, num_devices, on_step=stop)
        state, info = seen[-1]
        assert stopped.status == Status.TIME_LIMIT
        assert info.lower_bound <= stopped.lower_bound <= whole.loss <= stopped.loss
        assert state.frontiers
        states[num_devices] = state
    for before, after in ((8, 1), (8, 2), (1, 8), (8, 8)):
        assert_bits(solve(arrays, after, initial=states[before]), whole, (before, after))
    data = {"points": arrays[0], "labels": arrays[1]}
    with jboost.checkpoints.Checkpointer(tmp_path, data=data, options={}) as checkpointer:
        checkpointer(states[8], None)
    restored = jboost.checkpoints.restore(tmp_path, BranchAndBoundState, data=data, options={})
    assert_bits(solve(arrays, 4, initial=restored), whole)


@pytest.mark.exhaustive
def test_the_stack_holds_the_children_of_few_chunks_at_each_depth(chunks):
    stacks = []
    solve(
        overlapping(1000, seed=2),
        8,
        on_step=lambda state, info: stacks.append([float(x.half_width) for x in state.frontiers]),
    )
    assert max(map(len, stacks)) > 8
    assert all(stack == sorted(stack, reverse=True) for stack in stacks)


@pytest.mark.exhaustive
def test_near_optimal_splits_and_fronts_are_those_of_one_device(chunks, monkeypatch):
    # so that the front takes its first point by branch and bound
    monkeypatch.setattr(importlib.import_module("jboost.pair.separator"), "LARGEST_SWEEP", 1)
    counts, _ = chunks
    for method in (jboost.pair.leave_one_out, jboost.pair.pareto_front):
        counts.clear()
        arrays = overlapping(200, seed=3)
        options = {"config": DEEP} if method is jboost.pair.leave_one_out else {"max_points": 128}
        one = solve(arrays, method=method, **options)
        found = solve(arrays, 8, method=method, **options)
        for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(one), strict=True):
            assert np.array_equal(leaf, other, equal_nan=True)
        assert sum(counts.values()) > 1
