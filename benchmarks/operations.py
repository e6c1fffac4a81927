"""StableHLO operations of every public algorithm, for the budget that the tests keep: `python -m
benchmarks.operations`.

Nothing is compiled where an algorithm can be traced. Where the host drives it, all programs of one
call are counted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jax

from benchmarks import harness, hlo
from benchmarks.algorithms import Algorithm, algorithms, is_asked, options

BUDGETS = harness.ROOT / "tests" / "operations.json"


def count(algorithm: Algorithm) -> int:
    """Operations of the program of an algorithm, or of all programs that one call of it runs."""
    if algorithm.traceable:
        return hlo.count_operations(
            jax.jit(lambda *arrays: algorithm.run(*arrays)).lower(*algorithm.arrays).as_text()
        )
    return sum(hlo.count_operations(text) for text in programs_of_call(algorithm))


def programs_of_call(algorithm: Algorithm) -> list[str]:
    """The StableHLO modules of all programs that one call of an algorithm runs."""
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        before = jax.config.values["jax_dump_ir_to"]
        jax.config.update("jax_dump_ir_to", folder)
        try:
            jax.block_until_ready(algorithm.run(*algorithm.arrays))
        finally:
            jax.config.update("jax_dump_ir_to", before)
        return [path.read_text(encoding="utf-8") for path in Path(folder).glob("*.mlir")]


def main(arguments: Sequence[str] | None = None) -> int:
    given = options("operations", __doc__).parse_args(arguments)
    known = (
        json.loads(BUDGETS.read_text(encoding="utf-8"))["operations"] if BUDGETS.exists() else {}
    )
    counted = {}
    for name, algorithm in algorithms().items():
        if is_asked(name, given):
            counted[name] = count(algorithm)
            print(f"{counted[name]:7,d}  {name}  (budget {known.get(name, 'none')})", flush=True)
    ordered = {
        name: {**known, **counted}[name] for name in algorithms() if name in {**known, **counted}
    }
    BUDGETS.write_text(
        json.dumps({"jax": jax.__version__, "operations": ordered}, indent=2) + "\n",
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
