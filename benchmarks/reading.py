"""Reading a large CSV file by `jboost.data.readers`, beside polars' own reader: `python -m
benchmarks.reading`.

Each reading is a process of its own. Seconds are those of the clock, the best of several; memory is
the greatest resident size beyond what the
process has before it reads. polars is told what jboost finds out: the separator, the decimal sign,
the spelling of missing values, and by `all rows`
to look at all of them before it decides what a column is, as jboost does.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars

from benchmarks import harness
from jboost.data import readers

WAYS = ("jboost", "polars, all rows", "polars, 100 rows")
TABLES = ("numbers", "numbers, gaps and text", "semicolons and decimal commas")
_LABEL, _SEED = "outcome", 0
_UNIT = 1024 if sys.platform == "darwin" else 1  # of ru_maxrss, in kilobytes


def write_table(path: Path, table: str, num_rows: int, num_columns: int) -> None:
    """A file of whole numbers and fractions in turns, and a label of two words in the last
    column."""
    random = np.random.default_rng(_SEED)
    columns: dict[str, Any] = {}
    for index in range(num_columns - 1):
        columns[f"x{index}"] = (
            random.integers(0, 1000, num_rows)
            if index % 2
            else random.normal(size=num_rows).round(4)
        )
    if table == TABLES[1]:
        gaps = random.uniform(size=num_rows) < 0.1
        columns["x0"] = [
            None if gap else value for gap, value in zip(gaps, columns["x0"], strict=True)
        ]
        columns["x1"] = random.choice(["red", "green", "blue"], num_rows)
    columns[_LABEL] = random.choice(["no", "yes"], num_rows)
    has_commas = table == TABLES[2]
    polars.DataFrame(columns).write_csv(
        path, separator=";" if has_commas else ",", decimal_comma=has_commas, null_value="NA"
    )


def read(path: str, table: str, way: str) -> int:
    """Reads a file in a way; the number of its rows."""
    if way == WAYS[0]:
        return readers.read_table(path, label=_LABEL).num_rows
    has_commas = table == TABLES[2]
    told: dict[str, Any] = {
        "separator": ";" if has_commas else ",",
        "decimal_comma": has_commas,
        "null_values": ["NA"],
    }
    return polars.read_csv(path, infer_schema_length=None if way == WAYS[1] else 100, **told).height


def measure_one(path: str, table: str, way: str) -> dict[str, Any]:
    """Seconds, and megabytes beyond those of this process so far."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    num_rows = read(path, table, way)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": seconds, "megabytes": peak * _UNIT / 1024, "num_rows": num_rows}


def run(num_rows: int, num_columns: int, repeats: int) -> list[dict[str, Any]]:
    """A record for each table, with what each way took at best."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for table in TABLES:
            path = Path(folder) / "table.csv"
            # a large process would pass its peak on
            _in_process("--write", str(path), table, str(num_rows), str(num_columns))
            runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for _ in range(repeats):
                for way in WAYS:
                    runs[way].append(_in_process("--one", str(path), table, way))
            best = {
                way: min(measured, key=lambda one: one["seconds"]) for way, measured in runs.items()
            }
            records.append(
                {
                    "table": table,
                    "rows": num_rows,
                    "columns": num_columns,
                    "bytes": path.stat().st_size,
                    "ways": best,
                }
            )
            print(records[-1], file=sys.stderr, flush=True)
    return records


def _in_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.reading", *arguments]
    done = subprocess.run(command, cwd=harness.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def table(results: Mapping[str, Any]) -> str:
    """A row for each table and way."""
    rows = []
    for record in results["records"]:
        for way, measured in record["ways"].items():
            size = f"{record['rows']:,} x {record['columns']}, {record['bytes'] / 1e6:.0f} MB"
            rows.append(
                [
                    record["table"],
                    size,
                    way,
                    harness.seconds_text(measured["seconds"]),
                    f"{measured['megabytes']:.0f} MB",
                ]
            )
    return harness.markdown_table(
        ("CSV file of", "size", "read by", "seconds", "memory at most"), rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reading", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--output",
        type=Path,
        default=harness.RESULTS,
        metavar="DIR",
        help="default benchmarks/results",
    )
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measure_one(*options.one)))
        return 0
    if options.write:
        path, kind, num_rows, num_columns = options.write
        write_table(Path(path), kind, int(num_rows), int(num_columns))
        print("{}")
        return 0
    harness.write(
        "reading", {"records": run(options.rows, options.columns, options.repeats)}, options.output
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
