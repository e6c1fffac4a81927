"""No public algorithm's program grows unnoticed, in operations, for which the user waits while XLA
compiles them, or in memory.
"""

import json
import os
import subprocess
import sys

import jax
import pytest

from benchmarks import harness, memory, operations
from benchmarks.algorithms import algorithms

BUDGETS = json.loads(operations.BUDGETS.read_text(encoding="utf-8"))
ALGORITHMS = algorithms()
MEMORY = memory.read_rows(memory.PAGE.read_text(encoding="utf-8"))
SLACK = 1.05
SLACK_OF_MEMORY = 1.3  # processors differ in cores, and in what XLA fuses


def test_every_algorithm_has_a_budget():
    assert list(BUDGETS["operations"]) == list(ALGORITHMS)


def _marks(name):
    # the host drives it: all its programs are compiled and run
    return () if ALGORITHMS[name].traceable else pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in ALGORITHMS])
def test_operations_are_within_the_budget(name):
    if jax.__version__ != BUDGETS["jax"]:
        pytest.skip(
            f"the budgets are of jax {BUDGETS['jax']}: other versions lower to other operations"
        )
    found, budget = operations.count(ALGORITHMS[name]), BUDGETS["operations"][name]
    assert found <= SLACK * budget, (
        f"{name} lowers to {found} StableHLO operations, and its budget is {budget}: make the"
        " program smaller, or record what it costs with `python -m benchmarks.operations --only"
        f" '{name}'` and say in the commit what it buys"
    )
    assert budget <= SLACK * found, (
        f"{name} lowers to {found} operations, and its budget is {budget}: record what was gained"
    )


def test_every_algorithm_in_one_program_has_a_row_of_memory():
    assert list(MEMORY) == memory.names()


def _temporary_bytes(name, size):
    """In a process of its own, which compiles as users do: tests compile without optimisation."""
    program = f"from benchmarks import memory\nprint(memory.measure({name!r}, {size}).temporary)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={key: value for key, value in os.environ.items() if key != "XLA_FLAGS"},
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", memory.names())
def test_temporary_memory_is_what_the_page_says(name):
    if f"(JAX {jax.__version__}, CPU)" not in memory.PAGE.read_text(encoding="utf-8"):
        pytest.skip("docs/memory.md is of another version of JAX, which allocates otherwise")
    size = memory.SIZES[0]
    found, stated = _temporary_bytes(name, size), MEMORY[name][size]
    remedy = f"docs/memory.md is stale: python -m benchmarks.memory --only '{name}'"
    assert found <= SLACK_OF_MEMORY * stated, f"{name} takes {found} bytes, not {stated}: {remedy}"
    assert stated <= SLACK_OF_MEMORY * found, f"{name} takes {found} bytes, not {stated}: {remedy}"
