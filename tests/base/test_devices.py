"""The device that computes by default, and programs for loops on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost.base import devices


def test_the_default_device_is_the_one_that_was_named():
    assert devices.default() == jax.devices()[0]
    assert devices.platform() == jax.default_backend()
    with jax.default_device(jax.devices("cpu")[1]):
        assert devices.default() == jax.devices("cpu")[1]
    with jax.default_device("cpu"):
        assert devices.platform() == "cpu"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool"])
def test_arrays_of_the_host_are_those_of_jax_numpy_and_compile_nothing(dtype, compilations):
    given = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    arrays = given, given.T, given[:, ::2], np.asarray(given[1, 2]), given[:0]
    before = compilations()
    found = [devices.from_host(array) for array in arrays]
    assert compilations() == before
    for array, one in zip(arrays, found, strict=True):
        expected = jnp.asarray(array)
        assert jax.typeof(one) == jax.typeof(expected)
        assert one.tolist() == expected.tolist()
        assert one.sharding == expected.sharding


def test_arrays_of_the_host_may_be_written_to_later():
    given = np.zeros(4096, np.float32)
    parts = [given[start:] for start in range(16)]  # of any alignment
    found = [devices.from_host(part) for part in parts]
    given[:] = 1
    assert not any(one.any() for one in found)


def test_arrays_of_the_host_have_the_types_of_the_user_and_are_constants_of_programs(x64):
    assert devices.from_host(np.zeros(2)).dtype == jnp.float64
    assert jax.jit(lambda value: value + devices.from_host(np.ones(2)))(1.0).tolist() == [2, 2]
    with pytest.raises(TypeError, match="float128|longdouble|complex256"):
        devices.from_host(np.zeros(2, np.longdouble))


def test_keys_of_seeds_are_those_of_jax_and_compile_nothing(compilations):
    seeds = [0, 1, 12345, np.iinfo(np.int32).max - 1]
    found = [devices.key_of(seed) for seed in seeds]
    assert compilations() == 0
    for seed, key in zip(seeds, found, strict=True):
        assert jax.typeof(key) == jax.typeof(jax.random.key(seed))
        assert bool(key == jax.random.key(seed))


def test_keys_of_seeds_are_those_of_another_generator():
    with jax.default_prng_impl("rbg"):
        assert bool(devices.key_of(3) == jax.random.key(3))


def test_ones_compile_nothing_for_known_vectors_and_are_no_constants_of_programs(compilations):
    weights = devices.from_host(np.array([2.0, 3.0, 4.0]))
    ones, mask = devices.ones_beside(weights), devices.ones_beside(weights, bool)
    assert compilations() == 0
    for found, expected in ((ones, jnp.ones(3)), (mask, jnp.ones(3, bool))):
        assert jax.typeof(found) == jax.typeof(expected)
        assert found.sharding == expected.sharding
        assert found.tolist() == expected.tolist()
    assert "broadcast" in str(jax.make_jaxpr(devices.ones_beside)(weights))


@pytest.fixture
def cubes():
    @devices.host_jit(static_argnames="power")
    def raised(values, power):
        return values**power

    return lambda values: raised(values, power=3)


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
def test_programs_of_the_host_may_also_stand_inside_a_program_of_the_callers(
    cubes, options, platform, monkeypatch
):
    assert platform == "tpu" or devices._known_options(platform) == options[platform]
    monkeypatch.setattr(devices, "platform", lambda: platform)
    values = jnp.arange(3.0)
    assert cubes(values).tolist() == [0, 1, 8]
    assert jax.jit(cubes)(values).tolist() == [0, 1, 8]  # where JAX refuses options of the compiler
    assert jax.vmap(jax.grad(cubes))(values).tolist() == [0, 3, 12]
    assert jax.lax.scan(lambda total, value: (total + cubes(value), None), 0.0, values)[0] == 9
    # constants of a program of the caller
    assert jax.jit(lambda factor: factor * cubes(values))(2.0).tolist() == [0, 2, 16]
    assert jax.grad(lambda factor: factor * cubes(values).sum())(2.0) == 9
    assert jax.vmap(lambda factor: factor * cubes(values).sum())(values).tolist() == [0, 9, 18]
    assert jax.lax.scan(lambda total, _: (total + cubes(values).sum(), None), 0.0, values)[0] == 27


def test_an_error_of_a_program_of_the_host_is_that_of_the_function():
    @devices.host_jit
    def failing(values):
        raise ValueError(f"values has {values.shape[0]} entries")

    with pytest.raises(ValueError, match="values has 3 entries"):
        failing(jnp.arange(3.0))


@pytest.fixture
def options(monkeypatch):
    """The options of XLA by platform, none of them looked at before, and none set by the tests."""
    wanted = dict(devices.COMPILER_OPTIONS)
    monkeypatch.setattr(devices, "COMPILER_OPTIONS", wanted)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    devices._known_options.cache_clear()
    yield wanted
    devices._known_options.cache_clear()


@pytest.mark.parametrize("platform", devices.COMPILER_OPTIONS)
def test_this_version_of_xla_knows_the_options(options, platform):
    assert devices._known_options(platform) == options[platform]


@pytest.mark.parametrize("flags", ["--{}=true", "--{}", "--xla_dump_to=x --{}=false", "FILE"])
def test_what_the_user_has_set_for_xla_holds(options, monkeypatch, tmp_path, flags):
    name = "xla_cpu_use_fusion_emitters"
    assert name in options["cpu"]
    path = tmp_path / "flags.txt"
    path.write_text(f"--{name}=true\n--xla_dump_to=x\n")
    monkeypatch.setenv("XLA_FLAGS", str(path) if flags == "FILE" else flags.format(name))
    assert devices._known_options("cpu") is None


@pytest.mark.parametrize("flags", ["", "--xla_cpu_use_fusion_emitters_too=1", "no/such/file"])
def test_other_flags_of_the_user_change_no_option(options, monkeypatch, flags):
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert devices._known_options("cpu") == options["cpu"]


@pytest.fixture
def options_seen(monkeypatch):
    """The compiler options of each call of `jax.jit`, which are then left out."""
    seen, jit = [], jax.jit

    def watched(*args, compiler_options=None, **rest):
        seen.append(compiler_options)
        return jit(*args, **rest)

    monkeypatch.setattr(jax, "jit", watched)
    return seen


def test_a_public_function_has_the_options_where_it_is_not_traced(options, options_seen):
    double = devices.public_jit(lambda values: 2 * values)
    assert jax.jit(double)(jnp.arange(3.0)).tolist() == [0, 2, 4]
    assert jax.vmap(double)(jnp.arange(3.0)).tolist() == [0, 2, 4]
    assert float(jax.grad(double)(1.0)) == 2
    assert not any(options_seen)
    assert double(jnp.arange(3.0)).tolist() == [0, 2, 4]
    assert options["cpu"] in options_seen


def test_options_that_xla_does_not_know_are_left_out(options, cubes):
    options["cpu"] = {"xla_of_another_time": True}
    assert devices._known_options("cpu") is None
    assert cubes(jnp.arange(3.0)).tolist() == [0, 1, 8]


def test_programs_of_the_host_are_compiled_with_the_options_of_the_platform(
    options, cubes, options_seen
):
    options["cpu"] = {"xla_cpu_use_fusion_emitters": False}
    assert devices._known_options("cpu") == options["cpu"]
    options_seen.clear()
    cubes(jnp.arange(3.0))
    assert options_seen == [options["cpu"]]


def test_programs_that_were_compiled_side_by_side_are_not_compiled_again(compilations):
    first, second = (
        devices.host_jit(lambda values, number=number: values * number) for number in (2, 3)
    )
    values = jnp.arange(4.0)
    devices.compile_side_by_side(first.lower(values), second.lower(values))
    before = compilations()
    assert first(values).tolist() == [0, 2, 4, 6]
    assert second(values).tolist() == [0, 3, 6, 9]
    assert compilations() == before


def test_traced_and_committed_arrays_are_told_from_others():
    free, placed = jnp.arange(3.0), jax.device_put(jnp.arange(3.0), jax.devices()[0])
    assert devices.are_uncommitted((np.arange(3.0), free, None, 1.0))
    assert not devices.are_uncommitted((free, placed))
    seen = []
    jax.jit(lambda values: seen.append(devices.are_uncommitted((free, values))))(free)
    assert seen == [False]


def test_known_arrays_are_computed_eagerly_where_another_is_traced(compilations):
    kept = []

    @jax.jit
    def doubled(values):
        with devices.computed_eagerly():
            kept.append(float(jnp.sum(jnp.arange(4.0))))
        return 2 * values

    assert doubled(jnp.ones(2)).tolist() == [2, 2]
    assert kept == [6]
    program = jax.jit(lambda values: values + jnp.arange(5.0) * jnp.arange(1.0, 6.0))
    values = jnp.ones(5)
    with devices.computed_eagerly():
        before = compilations()
        assert program(values).tolist() == [1, 3, 7, 13, 21]
    assert compilations() == before + 1  # constants are part of the program


def test_what_fails_to_compile_says_so():
    class Hopeless:
        def compile(self):
            raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        devices.compile_side_by_side(Hopeless())
