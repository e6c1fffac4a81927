"""Arrays that are sharded over a mesh: placement, the same answers as on one device, and what is
sent between devices.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import contract
import jboost
from benchmarks import many_devices
from jboost import relaxations
from jboost.base import members, meshes, reduce
from jboost.base.status import Status
from jboost.relaxations import thresholds
from marks import slow
from placing import mesh_of, put

ENTRIES = {entry.name: entry for entry in contract.TABLE + contract.CERTIFIED}
# Those that build their input from the sharded arrays before jboost sees it.
ENTRIES.pop("lp.solve")
CHEAP = ("relaxed_margin.solve",)


def table(num_examples=10, num_features=3, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_examples, num_features)).astype(np.float32)
    return jboost.make_dataset(features, np.where(features[:, 0] > 0, 1.0, -1.0).astype(np.float32))


# --- placement ------------------------------------------------------------------------------------


def test_make_mesh_takes_all_devices_along_the_first_axis():
    mesh = jboost.sharding.make_mesh()
    assert (mesh.axis_names, mesh.size) == (("examples",), len(jax.devices()))
    both = jboost.sharding.make_mesh((2, 2), ("batch", "examples"))
    assert dict(both.shape) == {"batch": 2, "examples": 2}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"axis_sizes": (100_000,)}, "axis_sizes is .* takes 100000 devices"),
        ({"axis_sizes": (2, 2)}, "axis_sizes is .* and axis_names is"),
        ({"axis_sizes": (0,)}, r"axis_sizes\[0\]"),
        ({"axis_names": ("a", "a")}, "axis_names"),
        ({"devices": []}, "devices is empty"),
    ],
)
def test_make_mesh_names_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        jboost.sharding.make_mesh(**arguments)


@pytest.mark.parametrize("num_examples", [0, 1, 7, 8])
def test_shard_dataset_pads_to_a_multiple_and_gather_brings_all_back(num_examples):
    dataset = table(num_examples)
    spread = jboost.sharding.shard_dataset(dataset, mesh_of(4))
    size = -(-num_examples // 4) * 4
    assert spread.features.shape == (size, 3)
    assert spread.features.sharding.spec == PartitionSpec("examples", None)
    back = jboost.sharding.gather(spread)
    assert all(isinstance(leaf, np.ndarray) for leaf in back)
    for found, given in zip(back, dataset, strict=True):
        assert np.array_equal(found[:num_examples], given)
    assert not back.mask[num_examples:].any()


def test_shard_batch_spreads_members_and_refuses_other_numbers():
    mesh = mesh_of(4, "batch")
    batch = jboost.stack_datasets([table(size, seed=size) for size in (3, 5, 4, 5)])
    spread = jboost.sharding.shard_batch(batch, mesh)
    assert spread.features.sharding.spec == PartitionSpec("batch", None, None)
    with pytest.raises(ValueError, match="tree holds 3 members"):
        jboost.sharding.shard_batch(np.zeros((3, 2)), mesh)
    with pytest.raises(ValueError, match="tree has leaves of first sizes"):
        jboost.sharding.shard_batch([np.zeros(4), np.zeros(8)], mesh)


def test_placement_names_the_axis_that_a_mesh_lacks():
    for call in (jboost.sharding.shard_dataset, jboost.sharding.shard_batch):
        with pytest.raises(ValueError, match="axis is 'rows', and the mesh has axes"):
            call(table(4), mesh_of(4), axis="rows")
    with pytest.raises(ValueError, match="mesh is a NoneType"):
        jboost.sharding.replicate(1.0, None)
    with pytest.raises(ValueError, match="tree is traced"):
        jax.jit(lambda values: jboost.sharding.gather(values))(np.zeros(3))


def test_arrays_on_two_meshes_are_refused_by_name():
    labels = put(np.ones(8, np.float32), Mesh(np.array(jax.devices()[4:8]), ("examples",)))
    with pytest.raises(
        ValueError, match=r"labels is sharded over a mesh .* and points over a mesh"
    ):
        jboost.pair.optimal_separator(put(np.zeros((8, 2), np.float32), mesh_of(4)), labels)


def test_initialize_cluster_does_nothing_in_one_process(monkeypatch):
    assert jboost.sharding.initialize_cluster(num_processes=1, process_id=0) == 1
    assert jboost.sharding.initialize_cluster() == 1  # though JAX has started
    monkeypatch.setenv("JBOOST_NUM_PROCESSES", "two")
    with pytest.raises(ValueError, match="JBOOST_NUM_PROCESSES is 'two'"):
        jboost.sharding.initialize_cluster()


def test_initialize_cluster_does_not_work_alone_where_there_are_others(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises((ValueError, RuntimeError)):
        jboost.sharding.initialize_cluster()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"num_processes": 2}, ValueError, "process_id is missing"),
        (
            {"num_processes": 2, "process_id": 2, "coordinator_address": "127.0.0.1:1"},
            ValueError,
            "process_id is 2 of 2",
        ),
        ({"num_processes": 2, "process_id": 1}, ValueError, "coordinator_address is missing"),
        (
            {"num_processes": 2, "process_id": 1, "coordinator_address": "here"},
            ValueError,
            "expected 'host:port'",
        ),
        (
            {
                "num_processes": 2,
                "process_id": 1,
                "coordinator_address": "127.0.0.1:1",
                "timeout": 1,
            },
            TimeoutError,
            "no coordinator answers at",
        ),
    ],
)
def test_initialize_cluster_names_what_is_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        jboost.sharding.initialize_cluster(**arguments)


def test_initialize_cluster_waits_for_a_coordinator_that_jax_detects(monkeypatch):
    slurm = {"JOB_ID": 7, "STEP_NODELIST": "127.0.0.1", "NTASKS": 2, "PROCID": 1, "LOCALID": 1}
    for name, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    monkeypatch.setenv("JAX_COORDINATOR_PORT", "1")
    with pytest.raises(TimeoutError, match=r"no coordinator answers at 127\.0\.0\.1:1 within 1 s"):
        jboost.sharding.initialize_cluster(timeout=1)


def test_initialize_cluster_passes_the_limits_of_time(monkeypatch):
    passed = {}
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **options: passed.update(options))
    jboost.sharding.initialize_cluster("127.0.0.1:1", 2, 0, timeout=7, shutdown_timeout=9)
    assert passed["initialization_timeout"] == 7
    assert passed["shutdown_timeout_seconds"] == 9
    assert passed["heartbeat_timeout_seconds"] <= 30


# --- stacks ---------------------------------------------------------------------------------------


def test_unstack_undoes_stack_datasets():
    sets = [table(size, seed=size) for size in (1, 5, 3)]
    batch = jboost.stack_datasets(sets)
    assert batch.features.shape == (3, 5, 3)
    for found, given in zip(jboost.unstack(batch), sets, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(found, given, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 4])
def test_margins_that_are_not_allowed_take_no_iterations(num_devices):
    margins = put(np.full((8, 2), np.nan, np.float32), mesh_of(num_devices))
    for found in (
        jboost.lpboost.solve(margins, nu=0.5),
        jboost.relaxed_margin.solve(margins, relaxations.soft_margin(nu=0.5)),
    ):
        assert (int(found.status), int(found.num_iterations)) == (Status.INVALID_INPUT, 0)


@pytest.mark.slow
def test_arrays_that_are_replicated_on_an_explicit_mesh_give_what_one_device_gives():
    """Their number of rows need not be a multiple of the devices."""
    margins = np.sin(np.arange(30.0)).reshape(10, 3).astype(np.float32)
    relaxation = relaxations.soft_margin(nu=0.3)
    alone = jboost.relaxed_margin.solve(margins, relaxation)
    mesh = jboost.sharding.make_mesh(devices=jax.devices()[4:])
    found = jboost.relaxed_margin.solve(jboost.sharding.replicate(margins, mesh), relaxation)
    assert found.coefficients.sharding.mesh == mesh
    for name in ("coefficients", "lower_bound", "upper_bound", "status"):
        np.testing.assert_allclose(getattr(found, name), getattr(alone, name), atol=1e-4)


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
def test_unstack_takes_a_sharded_batch(kind):
    sets = [table(size, seed=size) for size in (3, 5)]
    batch = jboost.sharding.shard_batch(jboost.stack_datasets(sets), mesh_of(2, "batch", kind))
    for found, given in zip(jboost.unstack(batch), sets, strict=True):
        jax.tree.map(np.testing.assert_array_equal, found, given)
        assert found.features.devices() == {jax.devices()[0]}
    keys = jax.random.split(jax.random.key(0))
    spread = jboost.sharding.shard_batch(keys, mesh_of(2, "batch", kind))
    assert [each == key for each, key in zip(jboost.unstack(spread), keys, strict=True)]


def test_unstack_takes_sizes_where_columns_were_added_and_divides_results():
    sets = [table(4, 2), table(4, 3)]
    found = jboost.unstack(jboost.stack_datasets(sets), sizes=[(4, 2), (4, 3)])
    assert [each.features.shape for each in found] == [(4, 2), (4, 3)]
    assert [float(each["a"]) for each in jboost.unstack({"a": np.array([1.0, 2.0])})] == [1.0, 2.0]
    with pytest.raises(ValueError, match="sizes has 1 entries"):
        jboost.unstack(jboost.stack_datasets(sets), sizes=[(4, 2)])
    with pytest.raises(ValueError, match=r"datasets\[0\] is a int"):
        jboost.stack_datasets([1])


def test_padding_of_a_stack_changes_no_fit():
    sets = [table(12, seed=1), table(9, seed=2)]
    fits = jax.vmap(
        lambda dataset: jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=3)
    )(jboost.stack_datasets(sets))
    for fitted, dataset in zip(jboost.unstack(fits), sets, strict=True):
        alone = jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=3)
        assert np.allclose(fitted.ensemble.votes, alone.ensemble.votes, rtol=1e-5)


# --- the same answers -----------------------------------------------------------------------------


def check_entry(name, kind, is_traced):
    entry = ENTRIES[name]
    is_exact = isinstance(entry, contract.Entry)
    problem = (entry.problem if is_exact else contract.bits)(1, 16)
    mesh = mesh_of(4, kind=kind)
    sharded = [put(part, mesh) for part in problem]
    if not is_traced:
        found = entry.run(*sharded)
    elif kind == AxisType.Explicit:
        found = jax.jit(entry.run)(*sharded)
    else:  # inside `jit` an array that XLA shards is like another one: the mesh has to be set
        with jax.set_mesh(mesh):
            found = jax.jit(entry.run)(*sharded)
    alone = entry.run(*problem)
    if not is_exact:
        assert found.status == alone.status
        rounding = 1e-4 * max(1.0, abs(float(alone.upper)))
        assert found.lower <= alone.upper + rounding
        assert alone.lower <= found.upper + rounding
        assert found.upper - found.lower <= entry.width * max(1.0, abs(float(found.upper)))
        return
    for field in (*entry.invariant, *entry.per_example):
        assert np.array_equal(getattr(found, field), getattr(alone, field), equal_nan=True), field


@pytest.mark.parametrize("name", CHEAP)
def test_public_functions_give_the_same_on_an_explicit_mesh(name):
    check_entry(name, AxisType.Explicit, is_traced=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(CHEAP)))
def test_all_public_functions_give_the_same_on_an_explicit_mesh(name):
    check_entry(name, AxisType.Explicit, is_traced=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, is_traced", [(AxisType.Auto, False), (AxisType.Auto, True), (AxisType.Explicit, True)]
)
@pytest.mark.parametrize(
    "name", sorted(name for name in ENTRIES if getattr(ENTRIES[name], "traceable", True))
)
def test_all_public_functions_give_the_same_on_other_meshes_and_under_jit(name, kind, is_traced):
    check_entry(name, kind, is_traced)


def test_results_are_on_the_mesh_of_the_caller():
    mesh = mesh_of(4)
    prediction = jboost.predict(
        jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1]),
        put(np.ones((8, 2), np.float32), mesh),
    )
    assert prediction.sharding == NamedSharding(mesh, PartitionSpec("examples"))


@pytest.mark.slow
def test_a_round_at_a_time_on_a_mesh_is_the_fit():
    dataset = jboost.sharding.shard_dataset(table(16), mesh_of(4))
    learner = jboost.learners.stumps()
    state = jboost.adaboost.init(dataset, learner, max_rounds=3)
    for _ in range(3):
        state, _ = jboost.adaboost.step(state, dataset)
    fitted = jboost.adaboost.fit(table(16), learner, max_rounds=3)
    assert np.allclose(
        jboost.adaboost.finish(state).ensemble.votes, fitted.ensemble.votes, rtol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_jitted", [True, False])
def test_a_spread_batch_needs_no_mesh_that_is_set(is_jitted):
    batch = jboost.sharding.shard_batch(
        jboost.stack_datasets([table(size, seed=size) for size in (6, 8, 7, 8)]),
        mesh_of(4, "batch"),
    )
    fit = jax.vmap(
        lambda dataset: jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=2)
    )
    found = (jax.jit(fit) if is_jitted else fit)(batch)
    assert found.ensemble.votes.sharding.spec[0] == "batch"
    alone = fit(jboost.sharding.gather(batch))
    assert np.allclose(found.ensemble.votes, alone.ensemble.votes, rtol=1e-5)


@pytest.mark.parametrize(
    "kind", [pytest.param(AxisType.Explicit, marks=pytest.mark.slow), AxisType.Auto]
)
def test_a_batch_stays_on_its_devices(kind):
    games = np.random.default_rng(0).choice([-1.0, 1.0], (8, 12, 4)).astype(np.float32)
    mesh = mesh_of(4, "batch", kind)

    def solve(games):
        return jax.vmap(lambda game: jboost.lpboost.solve(game, nu=0.3))(games)

    with jax.set_mesh(mesh):
        compiled = jax.jit(solve).lower(put(games, mesh)).compile()
        found = compiled(put(games, mesh))
    assert not found.coefficients.sharding.is_fully_replicated
    assert not re.search(r" all-gather(-start)?\(", compiled.as_text())
    assert np.allclose(found.upper_bound, solve(games).upper_bound, atol=1e-4)
    assert (found.status == int(Status.OPTIMAL)).all()


# --- what is sent and stored ----------------------------------------------------------------------

_SIZE = many_devices.QUICK_EXAMPLES
_SMALL = 64 * many_devices.NUM_COLUMNS + 128  # bytes: some numbers for each column, and a few more
FEW = ("projections.kl_projection_capped_simplex", "relaxed_margin.solve")
# What is gathered, in bytes: each for a reason that the documentation gives.
GATHERED = {
    # the example weights, and of the best feature its sorted column
    "adaboost.fit, stumps": 4 * _SIZE,
    "infoboost.fit, stumps": 4 * _SIZE,
    "projections.projection_l1_ball": 4 * _SIZE,  # the vector, which is sorted
    "slipper.fit": 4 * _SIZE,  # the numbers that split the examples
}
# What is summed over the devices where that is more: the matrix of a Newton step over the votes.
EXCHANGED = {
    "relaxed_margin.solve_smoothed": 4 * many_devices.NUM_COLUMNS * (many_devices.NUM_COLUMNS + 1)
}
# Of an eighth of the memory of one device; this one keeps a copy of its rows more than one device.
MOST_MEMORY = {"relaxed_margin.solve_smoothed": 1.4}


@pytest.mark.parametrize(
    "name",
    [
        name if name in FEW else pytest.param(name, marks=pytest.mark.slow)
        for name in many_devices.PROGRAMS
    ],
)
def test_nothing_that_grows_with_the_examples_is_gathered(name):
    found = many_devices.collectives(many_devices.compile_for(name, 8, _SIZE).as_text())
    assert found, "a program on eight devices that sends nothing is not divided"
    assert max(
        [size for kind, size, _ in found if kind == "all-gather"], default=0
    ) <= GATHERED.get(name, _SMALL)
    if name not in GATHERED:
        assert max(size for _, size, _ in found) <= EXCHANGED.get(name, _SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in many_devices.PROGRAMS if name not in GATHERED])
def test_each_of_eight_devices_holds_an_eighth(name):
    # some work arrays have a size of their own, which is less than an eighth of these examples
    one, eight = (
        many_devices.compile_for(name, number, many_devices.NUM_EXAMPLES).memory_analysis()
        for number in (1, 8)
    )
    assert eight.argument_size_in_bytes <= 1.3 * one.argument_size_in_bytes / 8
    share = MOST_MEMORY.get(name, 1.3) * one.temp_size_in_bytes / 8
    assert eight.temp_size_in_bytes <= share + 2**16


@pytest.mark.parametrize("dtype", [np.float32, slow(np.float64)])
def test_thresholds_by_sums_are_those_by_a_sort(dtype):
    """With ties, zeros of both signs, examples that do not count, and caps above 1."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for scale in (0.5, 2.0, 30.0):
            keys = rng.integers(-6, 7, (40, 37)).astype(dtype) / dtype(8)
            keys[:, ::5] = -keys[:, ::5]
            caps = scale * rng.random((40, 37)) / 37 * (rng.random((40, 37)) < 0.8) + (
                rng.random((40, 37)) < 0.02
            )
            keys = jnp.where(caps > 0, keys, jnp.inf).astype(jnp.float64)
            for one, weights in zip(keys, jnp.asarray(caps), strict=True):
                expected = thresholds._by_sort(one, weights)
                assert thresholds._by_sums(one, weights, jnp.dtype(dtype)) == expected


def test_least_entries_on_a_mesh_are_those_without():
    rng = np.random.default_rng(0)
    first, last = (
        rng.integers(0, 3, (5, 16)).astype(np.int32),
        np.tile(np.arange(16, dtype=np.int32), (5, 1)),
    )
    carried = [rng.normal(size=(5, 16)).astype(np.float32), rng.random((5, 16)) < 0.5]
    alone = reduce.lexicographic_least(first, last, carried=carried)
    both = reduce.lexicographic_leasts([first, last], [last])
    with jax.set_mesh(mesh_of(4, kind=AxisType.Auto)):
        found = jax.jit(
            lambda: reduce.lexicographic_least(
                jnp.asarray(first),
                jnp.asarray(last),
                carried=[jnp.asarray(part) for part in carried],
            )
        )()
        pair = jax.jit(
            lambda: reduce.lexicographic_leasts(
                [jnp.asarray(first), jnp.asarray(last)], [jnp.asarray(last)]
            )
        )()
    assert all(np.array_equal(one, other) for one, other in zip(found, alone, strict=True))
    assert all(
        np.array_equal(one, other)
        for one, other in zip(jax.tree.leaves(pair), jax.tree.leaves(both), strict=True)
    )


def test_packed_features_are_refused_by_shard_dataset():
    dataset = jboost.make_dataset(jboost.operators.packed_signs(np.ones((4, 3))), np.ones(4))
    with pytest.raises(ValueError, match="features of type PackedSigns"):
        jboost.sharding.shard_dataset(dataset, mesh_of(4))


def test_is_set_knows_meshes_of_examples_alone():
    assert not meshes.is_set()
    seen = {}
    for axis in ("examples", "batch"):
        with jax.set_mesh(mesh_of(4, axis, AxisType.Auto)):
            seen[axis] = meshes.is_set(), members.batch_axis()
    assert seen == {"examples": (True, None), "batch": (False, "batch")}
