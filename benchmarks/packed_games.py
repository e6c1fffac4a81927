"""Soft-margin games over packed signs against float32 matrices: `python -m
benchmarks.packed_games`.

Games are random signs, +1 with probability 0.55; nu is 0.1. Each solve runs in a process of its
own, whose largest resident memory is that of the interpreter, of JAX, of the matrix and of the
solve. The peer is `relaxed_margin.solve` of the same game as a float32 matrix. The matrix is made
in blocks of rows, on the host, by the same generator for both; making it counts in memory and not
in seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from jboost import operators, relaxations, relaxed_margin

NU = 0.1
TOLERANCE = 1e-2
SEED = 20_261_127
AGREEMENT = 0.55
BLOCK_ROWS = 10_000
GAMES = ((100_000, 1000), (1_000_000, 1000))
QUICK_GAMES = ((2000, 100),)
STORES = ("packed", "float32")


def row_blocks(num_rows: int, num_columns: int) -> Iterator[np.ndarray]:
    """Margins of -1 and +1 as int8, a block of rows at a time."""
    for number, start in enumerate(range(0, num_rows, BLOCK_ROWS)):
        random = np.random.default_rng([SEED, number])
        shape = (min(BLOCK_ROWS, num_rows - start), num_columns)
        yield np.where(random.random(shape, np.float32) < AGREEMENT, 1, -1).astype(np.int8)


def make_game(store: str, num_rows: int, num_columns: int) -> Any:
    """The game as an operator of packed signs, or as a float32 matrix."""
    if store == "packed":
        return operators.packed_signs(row_blocks(num_rows, num_columns), zeros=False)
    matrix = np.empty((num_rows, num_columns), np.float32)
    for number, block in enumerate(row_blocks(num_rows, num_columns)):
        matrix[number * BLOCK_ROWS :][: len(block)] = block
    return jnp.asarray(matrix)


def run_one(store: str, num_rows: int, num_columns: int) -> dict[str, Any]:
    """One game in this process: seconds of the solve, with and without what it compiles, and of its
    two products, and the largest resident memory.
    """
    started = time.perf_counter()
    game = jax.block_until_ready(make_game(store, num_rows, num_columns))
    making = time.perf_counter() - started
    made_bytes = _largest_resident()

    def solve() -> Any:
        return relaxed_margin.solve(game, relaxations.soft_margin(nu=NU), tolerance=TOLERANCE)

    measurement, solution = harness.measure(solve, repeats=1)
    solve_bytes = _largest_resident()
    matrix = operators.as_operator(game)
    forward, back = (
        jax.jit(lambda matrix, x: matrix.matvec(x)),
        jax.jit(lambda matrix, y: matrix.rmatvec(y)),
    )
    x, y = jnp.ones((num_columns,)) / num_columns, jnp.ones((num_rows,)) / num_rows
    products = {
        name: harness.measure(lambda call=call, vector=vector: call(matrix, vector), repeats=3)[
            0
        ].run_seconds
        for name, call, vector in (("matvec", forward, x), ("rmatvec", back, y))
    }
    return {
        "store": store,
        "shape": [num_rows, num_columns],
        "seconds_to_make": making,
        "solve": {
            "compile_seconds": measurement.compile_seconds,
            "run_seconds": measurement.run_seconds,
        },
        "product_seconds": products,
        "matrix_bytes": int(sum(leaf.nbytes for leaf in jax.tree.leaves(game))),
        "largest_resident_bytes_once_made": made_bytes,
        "largest_resident_bytes": solve_bytes,
        "lower_bound": float(solution.lower_bound),
        "upper_bound": float(solution.upper_bound),
        "num_iterations": int(solution.num_iterations),
        "status": harness.status_name(solution.status),
        "dtype": str(solution.coefficients.dtype),
    }


def _largest_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_games(games: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """All games by both stores, each in a process of its own; the process without a game is the
    floor of memory.
    """
    records = []
    for num_rows, num_columns in games:
        found = {store: _in_process(store, num_rows, num_columns) for store in STORES}
        packed, dense = (found[store] for store in STORES)
        record: dict[str, Any] = {"shape": [num_rows, num_columns], "stores": found}
        if "failed" not in dense and "failed" not in packed:
            record["seconds_ratio"] = packed["solve"]["run_seconds"] / dense["solve"]["run_seconds"]
            record["memory_ratio"] = (
                packed["largest_resident_bytes"] / dense["largest_resident_bytes"]
            )
        records.append(record)
        print(
            json.dumps(
                {key: record.get(key) for key in ("shape", "seconds_ratio", "memory_ratio")}
            ),
            file=sys.stderr,
            flush=True,
        )
    return {"nu": NU, "tolerance": TOLERANCE, "agreement": AGREEMENT, "records": records}


def _in_process(store: str, num_rows: int, num_columns: int) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.packed_games",
        "--one",
        store,
        str(num_rows),
        str(num_columns),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        return {
            "failed": (
                ended.stderr.strip().splitlines() or [f"ended with code {ended.returncode}"]
            )[-1]
        }
    print(ended.stdout.strip().splitlines()[-1], file=sys.stderr, flush=True)
    answer: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return answer


def table(results: Mapping[str, Any]) -> str:
    """Seconds and memory of either store, a row a game."""
    rows = []
    for record in results["records"]:
        packed, dense = (record["stores"][store] for store in STORES)
        rows.append(
            (
                " x ".join(f"{size:,}" for size in record["shape"]),
                *(_seconds(one) for one in (packed, dense)),
                f"{record['seconds_ratio']:.2f}" if "seconds_ratio" in record else "",
                *(_gigabytes(one) for one in (packed, dense)),
                f"{record['memory_ratio']:.2f}" if "memory_ratio" in record else "",
            )
        )
    header = ("m x n", "s, packed", "s, float32", "ratio", "GB, packed", "GB, float32", "ratio")
    return "Soft-margin games to a certified gap of 1e-2, nu = 0.1.\n\n" + harness.markdown_table(
        header, rows
    )


def _seconds(one: Mapping[str, Any]) -> str:
    return "failed" if "failed" in one else f"{one['solve']['run_seconds']:.3g}"


def _gigabytes(one: Mapping[str, Any]) -> str:
    return "" if "failed" in one else f"{one['largest_resident_bytes'] / 1e9:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.packed_games", description=__doc__.split(":")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="a small game, into benchmarks-out")
    parser.add_argument(
        "--one",
        nargs=3,
        metavar=("STORE", "ROWS", "COLUMNS"),
        help="one game in this process, as a line of JSON",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    if options.one is not None:
        store, num_rows, num_columns = options.one
        print(json.dumps(run_one(store, int(num_rows), int(num_columns))))
        return 0
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    harness.write("packed_games", run_games(QUICK_GAMES if options.quick else GAMES), output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
