"""How long tests take, and so which command runs them.

`scripts/test` runs in some minutes what takes little time: every example of the documentation, the
contract of every public algorithm, and all other tests below `MOST_SECONDS`. `scripts/test --all`
adds the tests above that, and those marked slow; continuous integration runs it. `scripts/test
--exhaustive` adds the tests marked slow that take more than `MOST_SLOW_SECONDS`, and others that
take more than `MOST_SECONDS_IN_ALL`.

`tests/costs.txt` has the seconds of tests above `MOST_SECONDS`; a test that is not in it is taken
to be cheap. `JBOOST_TEST_COSTS=FILE scripts/test --exhaustive` appends what it measures to a file,
and `python -m tests.costs FILE` writes `tests/costs.txt` from it.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".txt")
# By these, the three commands take 5 to 10 minutes, 20 to 40 minutes and some hours on two cores.
MOST_SECONDS, MOST_SLOW_SECONDS, MOST_SECONDS_IN_ALL = 0.2, 1.0, 8.0
# Of these nothing is left out by its cost: each runs in the default command.
ALWAYS = (
    "tests/test_contract.py::test_brackets",
    "tests/test_contract.py::test_padding",
    "tests/sharding/test_cluster.py::test_two_processes_agree_with_one_shortly",
    "tests/test_checkpoints.py::test_a_run_that_is_killed_goes_on_to_the_same_bits[1-1]",
)
# And of these each runs in `scripts/test --all`.
ALWAYS_IN_ALL = (
    "tests/sharding/test_cluster.py::",
    "tests/l0/test_branch_and_cut.py::test_each_program_of_a_fit_is_compiled_once",
    "tests/test_checkpoints.py::test_a_run_that_is_killed_goes_on_to_the_same_bits[5-5]",
    "tests/cli/test_cli_programs.py::test_broken_entries_of_the_cache_change_no_result",
    "tests/test_capabilities.py::test_the_named_tests_have_these_parameters",
    "tests/test_sklearn.py::test_check_estimator_passes[AdaBoostClassifier]",
    "tests/export/test_exported_trees.py::test_trees_of_every_booster_are_exported[adaboost-2]",
    "tests/test_budgets.py::test_operations_are_within_the_budget[example_weights.",
    "tests/test_budgets.py::test_operations_are_within_the_budget[pair.",
    "tests/test_budgets.py::test_temporary_memory_is_what_the_page_says[lpboost.solve]",
    "tests/test_budgets.py::test_temporary_memory_is_what_the_page_says[relaxed_margin.solve]",
)


def read(path: Path = FILE) -> dict[str, float]:
    """Seconds by the name of the test."""
    pairs = (line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    return {name: float(seconds) for seconds, name in pairs}


def mark(items: list[pytest.Item], seconds: Mapping[str, float]) -> None:
    """Marks tests by their costs: `slow` those above `MOST_SECONDS`, and `exhaustive` those above
    `MOST_SECONDS_IN_ALL`, or above `MOST_SLOW_SECONDS` if they are marked slow already.
    """
    for item in items:
        cost = seconds.get(item.nodeid, 0.0)
        if item.get_closest_marker("slow"):
            if cost > MOST_SLOW_SECONDS and not item.nodeid.startswith(ALWAYS_IN_ALL):
                item.add_marker("exhaustive")
        elif cost > MOST_SECONDS and _may_be_left_out(item):
            item.add_marker("slow")
            if cost > MOST_SECONDS_IN_ALL and not item.nodeid.startswith(ALWAYS_IN_ALL):
                item.add_marker("exhaustive")


def _may_be_left_out(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and not item.nodeid.startswith(ALWAYS)


def append(name: str, seconds: float) -> None:
    """Appends the seconds of a test to the file that JBOOST_TEST_COSTS names, if it is set."""
    if path := os.environ.get("JBOOST_TEST_COSTS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{seconds:.2f} {name}\n")


def write(measured: Path) -> None:
    """Writes `tests/costs.txt` from a file of measurements; the last one of a test counts."""
    found = {name: cost for name, cost in read(measured).items() if cost > MOST_SECONDS}
    lines = [f"{cost:.2f} {name}" for name, cost in sorted(found.items())]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
