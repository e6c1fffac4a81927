"""`deterministic=True`: the same bits on one device and on a mesh of any number of devices."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import jboost
from benchmarks import many_devices
from jboost import learners, relaxations
from placing import mesh_of

SIZE = 101  # not a multiple of the number of devices, so that each mesh has another padding
MIN_ROWS = 16  # of each device


def data(seed=0, size=SIZE):
    """Features, outputs of classifiers in [-1, 1], labels and real weights."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(size, 5)).astype(np.float32)
    outputs = np.tanh(features + rng.normal(size=features.shape)).astype(np.float32)
    labels = np.where(features[:, 0] + rng.normal(size=size) > 0, 1.0, -1.0).astype(np.float32)
    return features, outputs, labels, rng.gamma(1.0, size=size).astype(np.float32)


def placed(features, num_devices):
    """On one device for 0, else on a mesh, with 16 rows or more on each."""
    size = len(features)
    _, _, labels, weights = data(size=size)
    dataset = jboost.make_dataset(features, labels, weights=weights)
    least = max(size, MIN_ROWS * max(num_devices, 1))
    dataset = jboost.pad_dataset(dataset, num_examples=least)
    if not num_devices:
        return dataset
    mesh = jboost.sharding.make_mesh(devices=jax.devices()[:num_devices])
    return jboost.sharding.shard_dataset(dataset, mesh)


def boosted(fit, learner, uses_outputs, **options):
    def run(num_devices):
        dataset = placed(data()[1 if uses_outputs else 0], num_devices)
        return fit(dataset, learner, max_rounds=4, deterministic=True, **options)

    return run


def solved(relaxation, votes=None):
    def run(num_devices):
        dataset = placed(data()[1], num_devices)
        return jboost.relaxed_margin.solve(
            dataset.features * dataset.labels[:, None],
            relaxation,
            votes=votes,
            weights=dataset.weights,
            mask=dataset.mask,
            config=jboost.relaxed_margin.SolverConfig(max_iterations=200),
            deterministic=True,
        )

    return run


STUMPS, POOL = learners.stumps(), learners.pool()
CASES = {
    "adaboost, pool": boosted(jboost.adaboost.fit, POOL, True),
    "adaboost, stumps": boosted(jboost.adaboost.fit, STUMPS, False),
    "adaboost, literals": boosted(jboost.adaboost.fit, learners.literals(), False),
    "adaboost, precision": boosted(
        jboost.adaboost.fit, learners.pool(num_proposed=3), True, margin_precision=0.1
    ),
    "infoboost, pool": boosted(jboost.infoboost.fit, POOL, True),
    "infoboost, stumps": boosted(jboost.infoboost.fit, STUMPS, False),
    "lpboost, pool": boosted(jboost.lpboost.fit, learners.pool(negations=False), True),
    "lpboost, stumps": boosted(jboost.lpboost.fit, STUMPS, False, nu=0.2),
    **{
        f"relaxed_margin.fit, {update}": boosted(
            jboost.relaxed_margin.fit, STUMPS, False, update=update
        )
        for update in ("fully_corrective", "pairwise", "line_search", "analytic")
    },
    "solve, soft margin": solved(relaxations.soft_margin(nu=0.2)),
    "solve, hard margin": solved(relaxations.hard_margin()),
    "solve, cap and squared norm": solved(
        relaxations.soft_margin(0.05), relaxations.squared_norm(1.0)
    ),
    "solve, elastic net": solved(relaxations.hard_margin(), relaxations.elastic_net(0.1, 1.0)),
}


def bits(tree, size=SIZE):
    """The bytes of each array by its name, without the padding of the examples."""
    padded = {-(-max(size, MIN_ROWS * number) // number) * number for number in (1, 2, 3, 4, 8)}
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(jboost.sharding.gather(tree)):
        array = np.asarray(leaf)
        kept = tuple(slice(size if length in padded else length) for length in array.shape)
        found[jax.tree_util.keystr(path)] = np.ascontiguousarray(array[kept]).tobytes()
    return found


def differences(one, other):
    """The fields that differ, but for the normalizers of InfoBoost, which are not covered."""
    assert one.keys() == other.keys()
    covered = [name for name in one if not name.endswith("trace.normalizers")]
    return [name for name in covered if one[name] != other[name]]


def test_fit_has_equal_bits_on_eight_devices():
    run = CASES["adaboost, pool"]
    assert differences(bits(run(0)), bits(run(8))) == []


def compare(sizes, devices):
    """Asserts equal bits of small fits; also run in a process of its own."""
    for size in sizes:
        outputs = data(size=size)[1]
        alone, *others = (
            bits(
                jboost.adaboost.fit(placed(outputs, num), POOL, max_rounds=4, deterministic=True),
                size,
            )
            for num in (0, *devices)
        )
        for num, other in zip(devices, others, strict=True):
            assert differences(alone, other) == [], (size, num)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 5, 9, 101, 129])
def test_fits_of_any_size_have_equal_bits(size):
    compare([size], (1, 2, 3, 8))


@pytest.mark.slow
def test_fits_have_equal_bits_at_the_default_optimization_of_xla():
    root = Path(__file__).parent
    program = "import test_deterministic as own; own.compare([2, 5, 101], (3, 8))"
    flags = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(map(str, (root, root.parent, root.parent.parent))),
    }
    subprocess.run(
        [sys.executable, "-c", program], cwd=root, env={**os.environ, **flags}, check=True
    )


def test_few_rows_on_a_device_are_refused():
    dataset = jboost.make_dataset(data()[1], data()[2])
    mesh = jboost.sharding.make_mesh(devices=jax.devices()[:8])
    spread = jboost.sharding.shard_dataset(dataset, mesh)
    with pytest.raises(ValueError, match="dataset has 104 rows on 8 device.*num_examples=128"):
        jboost.adaboost.fit(spread, POOL, deterministic=True)
    few = jboost.make_dataset(data()[1][:15], data()[2][:15])
    with pytest.raises(ValueError, match="dataset has 15 rows on 1 device"):
        jboost.adaboost.fit(few, POOL, deterministic=True)
    with pytest.raises(ValueError, match="margins has 15 rows on 1 device"):
        jboost.relaxed_margin.solve(few.features, relaxations.hard_margin(), deterministic=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_fits_have_equal_bits_on_any_number_of_devices(name):
    alone = bits(CASES[name](0))
    for num_devices in (1, 2, 4, 8):
        assert differences(alone, bits(CASES[name](num_devices))) == [], num_devices


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adaboost, stumps", "solve, soft margin"])
def test_fits_in_float64_have_equal_bits_on_any_number_of_devices(name, x64):
    alone = bits(CASES[name](0))
    assert differences(alone, bits(CASES[name](4))) == []


@pytest.mark.slow
def test_deterministic_fit_is_near_the_other_and_goes_on_from_its_states():
    dataset, states = placed(data()[1], 2), []
    options = {"max_rounds": 4, "deterministic": True}
    watched = jboost.adaboost.fit(
        dataset, POOL, on_step=lambda state, info: states.append(state), **options
    )
    continued = jboost.adaboost.fit(dataset, POOL, initial=states[1], **options)
    assert differences(bits(watched), bits(continued)) == []
    plain = jboost.adaboost.fit(dataset, POOL, max_rounds=4)
    assert np.allclose(plain.ensemble.votes, watched.ensemble.votes, rtol=1e-4)
    mesh = dataset.features.sharding.mesh
    assert watched.certificate.example_weights.sharding.mesh == mesh


@pytest.mark.slow
def test_deterministic_under_jit_has_the_bits_of_any_number_of_devices():
    def run(num_devices):
        return jax.jit(
            lambda dataset: jboost.adaboost.fit(dataset, POOL, max_rounds=4, deterministic=True)
        )(placed(data()[1], num_devices))

    assert differences(bits(run(0)), bits(run(4))) == []


def test_plain_fit_takes_a_mesh_of_one_device():
    one, alone = (
        jboost.adaboost.fit(placed(data()[1], number), POOL, max_rounds=4) for number in (1, 0)
    )
    assert differences(bits(one), bits(alone)) == []


def test_what_is_not_covered_is_refused_by_name():
    dataset = placed(data()[1], 0)
    packed = jboost.operators.packed_signs(np.sign(data()[1]))
    with pytest.raises(ValueError, match="learner is a .*with deterministic=True pass"):
        jboost.adaboost.fit(dataset, learners.monomials(max_order=1), deterministic=True)
    with pytest.raises(ValueError, match="dataset has features of type .*deterministic"):
        jboost.adaboost.fit(dataset._replace(features=packed), POOL, deterministic=True)
    with pytest.raises(ValueError, match="margins is a .*deterministic"):
        jboost.relaxed_margin.solve(packed, relaxations.hard_margin(), deterministic=True)
    with pytest.raises(ValueError, match="relaxation is a ChiSquareBall.*deterministic"):
        jboost.relaxed_margin.solve(data()[1], relaxations.chi_square_ball(0.5), deterministic=True)
    with pytest.raises(ValueError, match="relaxation is a .*deterministic"):
        jboost.relaxed_margin.fit(
            dataset, POOL, relaxation=relaxations.norm_ball(2, 0.3), deterministic=True
        )
    with pytest.raises(ValueError, match="deterministic is 2"):
        jboost.adaboost.fit(dataset, POOL, deterministic=2)
    with pytest.raises(ValueError, match="config is .*deterministic"):
        jboost.lpboost.fit(dataset, POOL, config=jboost.lpboost.SimplexConfig(), deterministic=True)


def test_relaxations_and_costs_declare_exact_sums():
    """Those that are tested above, and no other."""
    exact = (
        relaxations.hard_margin(),
        relaxations.soft_margin(0.2),
        relaxations.unit_ball(),
        relaxations.squared_norm(1.0),
        relaxations.elastic_net(0.1, 1.0),
    )
    others = (relaxations.chi_square_ball(0.5), relaxations.norm_ball(2, 0.3))
    assert all(each.has_exact_sums for each in exact)
    assert not any(each.has_exact_sums for each in others)
    groups = relaxations.group_ball([0, 0, 1, 1, 2])
    with pytest.raises(ValueError, match="votes is a GroupBall, and deterministic"):
        jboost.relaxed_margin.solve(data()[1], exact[0], votes=groups, deterministic=True)


def test_nothing_that_grows_with_the_examples_moves():
    mesh = mesh_of(8)
    features, labels = (
        jax.ShapeDtypeStruct(
            shape, np.float32, sharding=NamedSharding(mesh, PartitionSpec("examples"))
        )
        for shape in ((8192, 5), (8192,))
    )
    text = (
        jax.jit(
            lambda features, labels: jboost.adaboost.fit(
                jboost.make_dataset(features, labels), POOL, max_rounds=4, deterministic=True
            )
        )
        .lower(features, labels)
        .compile()
        .as_text()
    )
    found = many_devices.collectives(text)
    assert found
    assert max(size for _, size, _ in found) <= 1024
