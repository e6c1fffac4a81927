"""Checksums of arrays, and states of other data, which fits refuse as `initial`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.base import checksums

MONOMIALS = jboost.learners.monomials(2, kappa=0.3)
L0 = {"margin": 0.1, "max_columns": 32}
FITS = {
    "adaboost": (jboost.adaboost.fit, jboost.learners.stumps(), {"max_rounds": 4}),
    "lpboost": (jboost.lpboost.fit, jboost.learners.stumps(), {"max_rounds": 4}),
    "relaxed_margin": (
        jboost.relaxed_margin.fit,
        jboost.learners.stumps(),
        {"max_rounds": 4, "relaxation": jboost.relaxations.hard_margin()},
    ),
    "l0": (jboost.l0.fit, MONOMIALS, {**L0, "max_rounds": 12}),
    "fit_exact": (jboost.l0.fit_exact, MONOMIALS, {**L0, "max_rounds": 12, "max_in_play": 32}),
}


def _data(seed: int = 0):
    features = np.random.default_rng(seed).integers(0, 2, (30, 4))
    return jboost.make_dataset(features, np.where(features[:, 0] > 0, 1, -1))


def _states(fit, data, learner, options):
    states = []

    def on_step(state, info):
        states.append(state)
        return True

    return states, fit(data, learner, on_step=on_step, **options)


@pytest.mark.parametrize(
    "name",
    ["adaboost", *(pytest.param(name, marks=pytest.mark.slow) for name in [*FITS][1:])],
)
def test_a_state_of_other_data_is_refused(name):
    """A state of data of the same sizes used to be accepted, with bounds that were not valid."""
    fit, learner, options = FITS[name]
    data = _data()
    states, whole = _states(fit, data, learner, options)
    others = {
        "features and labels": jboost.make_dataset(1 - data.features, -data.labels),
        "features": data._replace(features=data.features.at[3, 2].set(1 - data.features[3, 2])),
        "labels": data._replace(labels=data.labels.at[3].set(-data.labels[3])),
        "weights": data._replace(weights=data.weights.at[3].set(2.0)),
        "mask": data._replace(mask=data.mask.at[3].set(False)),
    }
    for differing, other in others.items():
        message = f"^initial is the state of a fit of other {differing}: pass those of the run"
        with pytest.raises(ValueError, match=message):
            fit(other, learner, initial=states[-1], **options)
    for state in (states[0], states[-1]):
        resumed = fit(data, learner, initial=state, **options)
        for one, same in zip(jax.tree.leaves(resumed), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(one, same)


@pytest.mark.slow
def test_steps_keep_the_checksums_and_states_without_are_accepted():
    fit, learner, options = FITS["adaboost"]
    data = _data()
    (first, *_), whole = _states(fit, data, learner, options)
    assert first.checksums.shape == (4,)
    assert first.checksums.dtype == np.uint32
    after, _ = jboost.adaboost.step(first, data)
    traced, _ = jax.jit(jboost.adaboost.step)(first, data)
    for state in (after, traced):
        np.testing.assert_array_equal(state.checksums, first.checksums)
    begun = jboost.adaboost.init(data, learner, **options)
    assert begun.checksums is None
    for state in (begun, first._replace(checksums=None)):
        resumed = fit(data, learner, initial=state, **options)
        np.testing.assert_array_equal(resumed.ensemble.votes, whole.ensemble.votes)


def test_a_checksum_is_of_values_shape_dtype_and_order():
    array = np.arange(12, dtype=np.int32).reshape(4, 3)
    variants = [
        array,
        array.reshape(3, 4),
        array.astype(np.int64),
        array.view(np.float32),
        array[::-1],
        array[:, ::-1],
        array + (np.arange(12).reshape(4, 3) == 7),
        array[:0],
        array[:, :0],
        array[..., None],
    ]
    found = [checksums.of_arrays(variant) for variant in variants]
    found += [checksums.of_arrays(*two) for two in itertools.permutations(variants[:2])]
    found += [checksums.of_arrays(np.float32(value)) for value in (1.0, 2.0)]
    assert len(set(found)) == len(found)
    assert all(0 <= value < 2**32 for value in found)
    assert checksums.of_arrays(jnp.asarray(array)) == checksums.of_arrays(np.asfortranarray(array))


def test_single_bits_and_exchanged_rows_change_a_checksum():
    bits = np.random.default_rng(0).integers(0, 2, (20, 9), dtype=np.uint8)
    known = {checksums.of_arrays(bits)}
    for row, column in np.ndindex(bits.shape):
        other = bits.copy()
        other[row, column] ^= 1
        known.add(checksums.of_arrays(other))
    assert len(known) == 1 + bits.size
    assert checksums.of_arrays(np.roll(bits, 1, axis=0)) not in known


def test_the_checksum_of_a_large_array_is_the_sum_over_its_parts(monkeypatch):
    array = np.random.default_rng(0).normal(size=(50, 7))
    whole = checksums.of_arrays(array)
    monkeypatch.setattr(checksums, "_BYTES_AT_ONCE", 100)
    assert checksums.of_arrays(array) == whole
    parts = [checksums._sum_of_rows(array[first : first + 20], first) for first in (0, 20, 40)]
    assert sum(parts) % 2**64 == checksums._sum_of_rows(array, 0)


@pytest.mark.parametrize("kinds", ["Auto", "Explicit"])
def test_a_checksum_does_not_depend_on_the_sharding(kinds):
    array = np.random.default_rng(0).normal(size=(24, 7)).astype(np.float32)
    devices = np.array(jax.devices()[:8]).reshape(4, 2)
    axis_types = (getattr(jax.sharding.AxisType, kinds),) * 2
    mesh = jax.sharding.Mesh(devices, ("examples", "batch"), axis_types=axis_types)
    for spec in (("examples",), (("examples", "batch"),), (), (None, None)):
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
        spread = jax.device_put(array, sharding)
        assert checksums.of_arrays(spread) == checksums.of_arrays(array)
        with jax.set_mesh(mesh):
            assert checksums._sum_over_processes(spread) == checksums._sum_of_rows(array, 0)
    square = jax.device_put(array[:, :6], jax.NamedSharding(mesh, jax.P("examples", "batch")))
    assert checksums.of_arrays(square) == checksums.of_arrays(array[:, :6])
    assert checksums._sum_over_processes(square) == 0


def test_the_message_lists_what_differs():
    parts = ("features", "labels", "weights")
    checksums.require_same([1, 2, 3], [1, 2, 3], parts=parts, what="fit")
    with pytest.raises(ValueError, match="of other features, labels and weights: pass"):
        checksums.require_same([1, 2, 3], [4, 5, 6], parts=parts, what="fit")
