"""What a linear program of a new shape costs to compile and to run, by XLA as it is and with less care: `python -m benchmarks.compilation`.

Programs are those of benchmarks.linear_programs, one of 100 x 40; MPAX, where it is installed, solves the dual to 1e-4.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks import harness
from benchmarks.linear_programs import NU, dual_form
from benchmarks.peers import linear_programs as peers
from benchmarks.soft_margin_games import make_game
from jboost import lp, lpboost

OPTIONS = {
    "XLA as it is": {},
    "level 1": {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False},
    "level 0": {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
}
TOLERANCE = 1e-4


class Case(NamedTuple):
    """A function to compile for some arrays."""

    function: Any  # jitted
    arrays: tuple[Any, ...]
    traced: Callable[[], Any]  # a context to trace it in


def cases(rows: int, columns: int) -> dict[str, Case]:
    """One program each, by name; those of jboost in the float type that is enabled."""
    margins = make_game("stumps", rows, columns, 0).astype(float)
    program = tuple(jnp.asarray(part) for part in dual_form(margins))

    def by(config: Any) -> Case:
        solve = jax.jit(lambda *parts: lp.solve(lp.LinearProgram(*parts), config=config, tolerance=TOLERANCE))
        return Case(solve, program, contextlib.nullcontext)

    boost = jax.jit(lambda values: lpboost.solve(values, nu=NU, tolerance=TOLERANCE))
    found = {
        "interior point": by(lp.InteriorPointConfig()),
        "first order": by(lp.FirstOrderConfig()),
        "simplex of LP-Boost": Case(boost, (jnp.asarray(margins),), contextlib.nullcontext),
    }
    if peers.has_mpax():
        batch = tuple(part[None] for part in program)
        found["MPAX dense"] = Case(peers.mpax_solver(*batch[2:4], tolerance=TOLERANCE), batch, peers.mpax_traced)
    return found


def run(rows: int, columns: int, *, repeats: int) -> dict[str, Any]:
    """CPU seconds of each program under each set of options: to trace and lower, to compile, to run."""
    records = []
    for name, case in cases(rows, columns).items():
        for options_name, options in OPTIONS.items():
            jax.clear_caches()
            with case.traced():
                traced, lowered = _spent(lambda case=case: case.function.lower(*case.arrays))
            compiled_seconds, compiled = _spent(lambda lowered=lowered, options=options: lowered.compile(compiler_options=options))
            run_seconds = min(_spent(lambda compiled=compiled, case=case: jax.block_until_ready(compiled(*case.arrays)))[0] for _ in range(repeats))
            seconds = {"trace_seconds": traced, "compile_seconds": compiled_seconds, "run_seconds": run_seconds}
            records.append({"contender": name, "options": options_name, **seconds})
            _say(f"{name}, {options_name}: traced {traced:.2f}, compiled {compiled_seconds:.2f} s, run {1e3 * run_seconds:.2f} ms")
    return {"shape": [rows, columns], "options": OPTIONS, "tolerance": TOLERANCE, "records": records}


def _spent(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    value = call()
    return time.process_time() - begin, value


def table(results: Mapping[str, Any]) -> str:
    """What each program costs, a row each."""
    by_name: dict[str, dict[str, Any]] = {}
    for record in results["records"]:
        by_name.setdefault(record["contender"], {})[record["options"]] = record
    names = tuple(results["options"])
    rows = []
    for name, of in by_name.items():
        cells = [harness.seconds_text(of[options][key]) for key in ("compile_seconds", "run_seconds") for options in names]
        rows.append([name, harness.seconds_text(of[names[0]]["trace_seconds"]), *cells])
    header = ("program", "to trace", *(f"to {what}, {options}" for what in ("compile", "run") for options in names))
    size = "{} x {}".format(*results["shape"])
    title = (
        f"A linear program of LP-Boost of a new shape, {size}, to {results['tolerance']:.0e} in 32 bits, CPU seconds; level N: "
        "`xla_backend_optimization_level=N` and `xla_cpu_use_fusion_emitters=False`"
    )
    return title + "\n\n" + harness.markdown_table(header, rows)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compilation", description=__doc__.split(": `python")[0] + ".")
    parser.add_argument("--quick", action="store_true", help="a small program, into benchmarks-out")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    harness.keep_to_one_thread()
    size = (20, 5) if options.quick else (100, 40)
    harness.write("compilation", run(*size, repeats=options.repeats), options.output or (harness.TRIALS if options.quick else harness.RESULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
