"""What the table of all algorithms says: docs/many-devices.md is what tests/capabilities.py makes,
and each cell names a test or a reason.
"""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

import capabilities
import jboost
from benchmarks.algorithms import algorithms
from marks import slow_but
from placing import put
from public_api import public_functions

ROOT = capabilities.ROOT
TESTS = sorted(
    {test for cells in capabilities.TABLE.values() for cell in cells for test in cell.tests}
)
FILES = sorted({test.partition("::")[0] for test in TESTS})


def test_the_page_is_what_the_table_makes():
    assert capabilities.PAGE.read_text(encoding="utf-8") == capabilities.page(), (
        "python -m tests.capabilities writes it anew"
    )


def test_no_cell_is_without_tests_or_a_reason():
    for name, cells in capabilities.TABLE.items():
        assert len(cells) == len(capabilities.COLUMNS), name
        assert all(bool(cell.tests) != bool(cell.reason) for cell in cells), name


def test_every_public_algorithm_has_a_row():
    rows = {capabilities.function_of(name) for name in capabilities.TABLE}
    public = set(public_functions(capabilities.NOT_ALGORITHMS))
    assert public - rows - set(capabilities.NOT_ALGORITHMS) == set()
    assert rows - public == set()
    assert {name for name in capabilities.NOT_ALGORITHMS if "." in name} <= public
    assert set(capabilities.ALGORITHMS) > capabilities.VARIANTS


@pytest.mark.parametrize("file", FILES)
def test_the_named_tests_are_in_their_files(file):
    path = ROOT / "tests" / file
    functions = set(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert {
        re.split(r"::|\[", test)[1] for test in TESTS if test.startswith(f"{file}::")
    } <= functions


@pytest.mark.slow
def test_the_named_tests_have_these_parameters():
    files = [f"tests/{file}" for file in FILES]
    call = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        *files,
    ]
    collected = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    nodes = {line.removeprefix("tests/") for line in collected.splitlines()}
    assert [
        test for test in TESTS if f"tests/{test.partition('::')[0]}" in files and test not in nodes
    ] == []


MEMBERS = 4
SETS = [algorithms(32, seed=seed) for seed in range(MEMBERS)]
TRACEABLE = [name for name, algorithm in SETS[0].items() if algorithm.traceable]
CHEAP = ("projections.projection_capped_simplex", "lpboost.solve")
COMPARED = ("status", "loss", "lower_bound", "upper_bound", "error", "lower", "value")
TOLERANCE = 1e-3


def compared_parts(result):
    """What of a result is compared, by its path: statuses, losses and bounds, or all of a result
    that has none of these.
    """
    leaves = {
        jax.tree_util.keystr(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(result)
    }
    named = {path: leaf for path, leaf in leaves.items() if path.rpartition(".")[2] in COMPARED}
    return named or {
        path: leaf for path, leaf in leaves.items() if np.issubdtype(leaf.dtype, np.floating)
    }


def agree(found, other):
    """Equal statuses, brackets of one optimum, and numbers that are close."""
    for path, value in found.items():
        stem, _, field = path.rpartition(".")
        lower, upper = f"{stem}.lower_bound", f"{stem}.upper_bound"
        if field == "status":
            np.testing.assert_array_equal(value, other[path], err_msg=path)
        elif field in ("lower_bound", "upper_bound") and lower in found and upper in found:
            slack = TOLERANCE * np.maximum(1, np.abs(other[upper]))
            assert np.all(found[lower] <= other[upper] + slack), path
            assert np.all(other[lower] <= found[upper] + slack), path
        else:
            np.testing.assert_allclose(
                value, other[path], rtol=TOLERANCE, atol=TOLERANCE, err_msg=path
            )


@pytest.mark.parametrize("name", slow_but(TRACEABLE, *CHEAP))
def test_sharded_batch_gives_what_calls_of_their_own_give(name):
    members = [each[name] for each in SETS]
    mesh = Mesh(np.array(jax.devices()[:MEMBERS]), ("batch",), axis_types=(AxisType.Auto,))
    batch = jboost.sharding.shard_batch(
        jax.tree.map(lambda *leaves: np.stack(leaves), *(each.arrays for each in members)), mesh
    )
    run = members[0].run
    with jax.set_mesh(mesh):
        together = jax.jit(jax.vmap(run))(*batch)
    assert not any(leaf.sharding.is_fully_replicated for leaf in compared_parts(together).values())
    for row, member in enumerate(members):
        single = compared_parts(jax.device_get(run(*member.arrays)))
        agree(
            {path: leaf[row] for path, leaf in compared_parts(jax.device_get(together)).items()},
            single,
        )


# The others have no examples, or an entry in tests/contract.py, which
# tests/sharding/test_sharding.py runs on meshes.
SHARDED = [
    name
    for name in capabilities.ALGORITHMS
    if name in capabilities.TABLE
    and name not in capabilities.UNSHARDED
    and not capabilities.contract_name(name)
]


@pytest.mark.parametrize("name", slow_but(SHARDED, "projections.projection_capped_simplex"))
def test_sharded_examples_give_what_one_device_gives(name):
    algorithm = SETS[0][name]
    alone = compared_parts(jax.device_get(algorithm.run(*algorithm.arrays)))
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = Mesh(np.array(jax.devices()[:MEMBERS]), ("examples",), axis_types=(kind,))
        spread = jax.tree.map(lambda leaf, mesh=mesh: put(np.asarray(leaf), mesh), algorithm.arrays)
        agree(compared_parts(jax.device_get(algorithm.run(*spread))), alone)
