"""Device memory of every public algorithm, as a page of the documentation: `python -m
benchmarks.memory`.

Each algorithm is compiled for this machine's device at two numbers of examples, and not run. Bytes
are those of `compiled.memory_analysis()`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import jax

from benchmarks import harness
from benchmarks.algorithms import algorithms, is_asked, options

PAGE = harness.ROOT / "docs" / "memory.md"
SIZES = (512, 1024)  # numbers of examples


class Memory(NamedTuple):
    """Bytes of one compiled program."""

    arguments: int
    results: int
    temporary: int


def measure(name: str, num_examples: int) -> Memory:
    """Compiles an algorithm for a number of examples."""
    algorithm = algorithms(num_examples)[name]
    program = jax.jit(lambda *arrays: algorithm.run(*arrays)).lower(*algorithm.arrays)
    found = program.compile().memory_analysis()
    return Memory(
        found.argument_size_in_bytes, found.output_size_in_bytes, found.temp_size_in_bytes
    )


def names() -> list[str]:
    """The algorithms that are one program; the host drives the others."""
    return [name for name, algorithm in algorithms().items() if algorithm.traceable]


# --- the page -------------------------------------------------------------------------------------

_TEXT = """# Device memory

This page is written by `python -m benchmarks.memory` (JAX {version}, {device}).
`tests/test_budgets.py` compiles the algorithms and compares their temporary memory with it.

A compiled program holds its arguments, its results and temporary arrays; the device needs the sum.
The table has the bytes that XLA allocates (`compiled.memory_analysis()`) for {fewer:,} and
{more:,} examples of 2 to 20 columns, in float32. The column "for each example" is the temporary
memory that one more example takes between the two sizes. Where the temporary memory of the larger
size is more than twice that of the smaller one, it grows faster than the number of examples, as for
kernels, which have an entry for each pair of examples. A last column of 0 says that the benchmark
has the same number of examples at both sizes (30 for three classifiers), or that the problem has no
examples. The rows from `l0.solve_exact` to `l0.solve_unnormalised` have a quarter of the examples,
128 and 256: there one more example takes four times the last column. A batch takes the arguments
and the results of all data sets. Its temporary memory is that of one data set where a CPU runs one
after the other, that of as many as fit the cache where it runs them in chunks
([batches and devices](batches-and-devices.md)), else that of all.

Algorithms that the host drives are not one program. What `l0.fit_large`, streamed games and branch
and bound hold is said in their docstrings. Of examples that are sharded over a mesh each device
holds its part: `python -m benchmarks.many_devices` has the bytes.
"""
_HEADER = (
    "\n| algorithm | arguments | results | temporary, {fewer:,} examples"
    " | temporary, {more:,} examples | for each example |\n|---|---:|---:|---:|---:|---:|\n"
)


def row_of(name: str, fewer: Memory, more: Memory) -> str:
    """A line of the table; arguments and results are those of the larger number of examples."""
    each = (more.temporary - fewer.temporary) / (SIZES[1] - SIZES[0])
    cells = (more.arguments, more.results, fewer.temporary, more.temporary, round(each))
    return f"| {name} | " + " | ".join(f"{cell:,}" for cell in cells) + " |"


def read_rows(text: str) -> dict[str, dict[int, int]]:
    """Algorithm -> number of examples -> temporary bytes, from a page."""
    rows = (
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith("| algorithm")
    )
    return {
        cells[0]: {
            size: int(cell.replace(",", "")) for size, cell in zip(SIZES, cells[3:5], strict=True)
        }
        for cells in rows
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles all algorithms, or those that `--only` names, and writes their rows."""
    given = options("memory", __doc__).parse_args(arguments)
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    rows = {line[2:].split(" | ")[0]: line for line in lines if line.startswith("| ")}
    device = jax.devices()[0]
    head = (_TEXT + _HEADER).format(
        version=jax.__version__,
        device=device.device_kind if device.platform != "cpu" else "CPU",
        fewer=SIZES[0],
        more=SIZES[1],
    )
    for name in names():
        if is_asked(name, given):
            rows[name] = row_of(name, *(measure(name, size) for size in SIZES))
            print(rows[name], flush=True)
            ordered = [rows[each] for each in names() if each in rows]
            PAGE.write_text(head + "\n".join(ordered) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
