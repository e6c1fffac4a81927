"""No public algorithm's program grows unnoticed: XLA compiles what it is given, and the user waits
for it.
"""

import json

import jax
import pytest

from benchmarks import operations
from benchmarks.algorithms import algorithms

BUDGETS = json.loads(operations.BUDGETS.read_text(encoding="utf-8"))
ALGORITHMS = algorithms()
SLACK = 1.05


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
