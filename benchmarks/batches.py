"""Many data sets in one call beside one call after the other: `python -m benchmarks.batches`.

For every public algorithm that can stand under `jax.vmap`: seconds, seconds of compilation and
memory of a batch of 1, 64 and 1,024 data sets of the same shapes and different values. The loop
calls one compiled program; its data lie on the device. Each algorithm has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import harness
from benchmarks.algorithms import Algorithm, algorithms, is_asked, options

SIZES = (1, 64, 1024)
NUM_DIFFERENT = 64  # data sets; larger batches repeat them
_REPEATS = 3
_MOST_SECONDS = 20.0  # foreseen for a batch or a loop; a larger one is not run
_TIMEOUT = 900  # seconds of one algorithm
_MIB = 2.0**20


def measure(name: str, sizes: Sequence[int] = SIZES) -> list[dict[str, Any]]:
    """A record for each size; those whose seconds, foreseen from the size before, exceed the limit
    have a reason instead.
    """
    members = [algorithms(seed=seed)[name] for seed in range(min(max(sizes), NUM_DIFFERENT))]
    single = jax.jit(lambda *arrays: members[0].run(*arrays))
    own_compile, single = _compiled(single, members[0].arrays)
    records: list[dict[str, Any]] = []
    for size in sizes:
        before = records[-1] if records else None
        if before is not None:
            slowest = max(before["batch_seconds"], before["loop_seconds"])
            foreseen = slowest * size / before["size"]
            if foreseen > _MOST_SECONDS:
                records.append({"size": size, "skipped": f"about {foreseen:.0f} s foreseen"})
                break
        records.append(_at_size(members, size, single, own_compile))
    return records


def _at_size(
    members: Sequence[Algorithm], size: int, single: Callable[..., Any], own_compile: float
) -> dict[str, Any]:
    parts = [jax.device_put(members[index % len(members)].arrays) for index in range(size)]
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *parts)
    seconds, batch = _compiled(jax.jit(jax.vmap(members[0].run)), stacked)
    arrays = jax.device_put(stacked)

    def loop() -> list[Any]:
        return [single(*part) for part in parts]

    batch_seconds, loop_seconds = _best_of_turns(lambda: batch(*arrays), loop)
    memory = batch.memory_analysis()
    return {
        "size": size,
        "batch_seconds": batch_seconds,
        "loop_seconds": loop_seconds,
        "compile_seconds": seconds,
        "compile_seconds_of_one": own_compile,
        "temporary_bytes": memory.temp_size_in_bytes,
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
    }


def _compiled(function: Any, arrays: Any) -> tuple[float, Any]:
    """Seconds of tracing and compiling, and the compiled function."""
    begin = time.perf_counter()
    compiled = function.lower(*arrays).compile()
    return time.perf_counter() - begin, compiled


def _best_of_turns(*calls: Callable[[], Any]) -> list[float]:
    best = [float("inf")] * len(calls)
    for _ in range(_REPEATS):
        for index, call in enumerate(calls):
            begin = time.perf_counter()
            jax.block_until_ready(call())
            best[index] = min(best[index], time.perf_counter() - begin)
    return best


def _in_process(name: str) -> list[dict[str, Any]]:
    environment = {
        **os.environ,
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "benchmarks.batches", "--one", name]
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=harness.ROOT,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [{"size": SIZES[0], "skipped": f"not done after {_TIMEOUT} s"}]
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return [{"size": SIZES[0], "skipped": lines[-1][:200]}]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(results: Mapping[str, Any]) -> str:
    """A row for each algorithm and size."""
    header = (
        "algorithm",
        "data sets",
        "one call",
        "loop of calls",
        "loop / one call",
        "compilation",
        "of one data set",
        "temporary memory",
    )
    title = (
        "Many data sets in one call of `jax.vmap` beside a loop over one compiled program. Best of"
        f" {_REPEATS} runs, seconds of the clock."
    )
    if "remark" in results:  # of results that were joined by hand
        title += f" {results['remark']}"
    rows = [
        _row(name, record) for name, records in results["records"].items() for record in records
    ]
    return title + "\n\n" + harness.markdown_table(header, rows)


def _row(name: str, record: Mapping[str, Any]) -> list[str]:
    if "skipped" in record:
        return [name, f"{record['size']:,}", record["skipped"], *[""] * 5]
    return [
        name,
        f"{record['size']:,}",
        harness.seconds_text(record["batch_seconds"]),
        harness.seconds_text(record["loop_seconds"]),
        f"{record['loop_seconds'] / record['batch_seconds']:.2f}",
        harness.seconds_text(record["compile_seconds"]),
        harness.seconds_text(record["compile_seconds_of_one"]),
        f"{record['temporary_bytes'] / _MIB:.1f} MiB",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures all algorithms, or those that `--only` names, and writes the results."""
    parser = options("batches", __doc__)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="default benchmarks/results, and benchmarks-out with --only",
    )
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(measure(given.one)))
        return 0
    names = [
        name
        for name, algorithm in algorithms().items()
        if algorithm.traceable and is_asked(name, given)
    ]
    directory = given.output or (harness.TRIALS if given.only else None)
    records: dict[str, Any] = {}
    for name in names:
        records[name] = _in_process(name)
        print(f"{name}: {records[name]}", file=sys.stderr, flush=True)
        path = harness.write("batches", {"records": records}, directory)
    print(path if names else "no algorithm of this name")
    return 0


if __name__ == "__main__":
    sys.exit(main())
