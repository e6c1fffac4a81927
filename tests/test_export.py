"""Every public algorithm in one program is lowered for CUDA and TPU, with the 64-bit types that
docs/64-bit-types.md states.
"""

import jax
import numpy as np
import pytest

import jboost
from benchmarks import wide_types
from benchmarks.algorithms import algorithms
from jboost.pair import SweepConfig
from marks import slow_but

ALGORITHMS = algorithms()
TRACEABLE = [name for name, algorithm in ALGORITHMS.items() if algorithm.traceable]
# one program, if large, where nothing watches
WITHOUT_ON_STEP = (
    "l0.choose",
    "l0.search_margin",
    "l0.fit_exact",
    "example_weights.choose_penalty",
)
# a loop on the host is no program
HOST_DRIVEN = [name for name in ALGORITHMS if name not in (*TRACEABLE, *WITHOUT_ON_STEP)]
CHEAP = (
    "pair.optimal_separator, 32-bit words",
    "projections.kl_projection_capped_simplex, newton",
    "relaxed_margin.solve",
    "lpboost.solve",
    "adaboost.fit",
    "slipper.fit",
)
SLACK = 1.05  # of a count; how many parts a sort has depends on the number of processors
PAGE = wide_types.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", slow_but(TRACEABLE, *CHEAP))
def test_every_algorithm_in_one_program_is_exported_for_cuda_and_tpu(name):
    exported = wide_types.export(ALGORITHMS[name])
    assert exported.platforms == wide_types.PLATFORMS
    counted = wide_types.count([exported.mlir_module()])
    if "32-bit words" in name:
        assert (counted.floats, counted.integers, counted.largest) == (0, 0, "")
    if f"(JAX {jax.__version__})" not in PAGE:
        pytest.skip(
            "docs/64-bit-types.md is of another version of JAX, which lowers to other operations"
        )
    stated = wide_types.read_rows(PAGE)[name]
    if not are_near(counted[:4], stated):
        # functions that earlier tests traced in another context are in the module a second time
        jax.clear_caches()
        counted = wide_types.count([wide_types.export(ALGORITHMS[name]).mlir_module()])
    message = f"docs/64-bit-types.md is stale: python -m benchmarks.wide_types --only '{name}'"
    assert are_near(counted[:4], stated), f"{message}: {counted}"


def are_near(counted, stated):
    """Whether counts are those of the page, but for the slack."""
    return all(
        (found == 0) == (known == 0) and known / SLACK - 2 <= found <= known * SLACK + 2
        for found, known in zip(counted, stated, strict=True)
    )


def test_the_page_of_64_bit_types_has_every_algorithm():
    assert list(wide_types.read_rows(PAGE)) == list(ALGORITHMS)


@pytest.mark.parametrize("name", HOST_DRIVEN)
def test_what_the_host_drives_says_so_where_it_is_exported(name):
    with pytest.raises((ValueError, TypeError), match=r"traced|concrete|host|jit"):
        wide_types.export(ALGORITHMS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_ON_STEP)
def test_what_the_host_may_watch_is_exported_where_it_does_not(name):
    assert wide_types.export(ALGORITHMS[name]).platforms == wide_types.PLATFORMS


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
@pytest.mark.parametrize("options", [{"tie_break": None}, {"fat": "flipped"}])
def test_sweep_with_32_bit_words_has_no_64_bit_types(dtype, options):
    def solve(points, labels, weights, mask):
        config = SweepConfig(word_bits=32)
        return jboost.pair.optimal_separator(
            points, labels, weights=weights, mask=mask, method="sweep", config=config, **options
        )

    shapes = [
        jax.ShapeDtypeStruct(shape, kind)
        for shape, kind in (((12, 2), dtype), ((12,), "int32"), ((12,), "float32"), ((12,), "bool"))
    ]
    counted = wide_types.count([jax.jit(solve).lower(*shapes).as_text()])
    assert counted.operations > 1000
    assert (counted.floats, counted.integers) == (0, 0)


def test_count_finds_arrays_and_no_attributes():
    def narrow(values):
        return jax.numpy.cumsum(jax.numpy.pad(values, 3)[::2])

    def wide(values):
        with jax.enable_x64(True):
            bits = jax.lax.bitcast_convert_type(
                jax.lax.convert_element_type(values, "float64"), "uint64"
            )
            return (bits >> np.uint64(40)).astype("int32")

    values = np.ones(5, np.float32)
    text = jax.jit(narrow).lower(values).as_text()
    assert "i64" in text  # sizes of padding
    assert wide_types.count([text])[1:5] == (0, 0, 0, "")
    counted = wide_types.count([jax.jit(wide).lower(values).as_text()])
    assert (counted.floats, counted.bit_casts, counted.largest, counted.num_bytes) == (
        2,
        1,
        "f64[5]",
        40,
    )
    assert counted.integers >= 2
