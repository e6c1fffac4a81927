"""64-bit types in the 32-bit programs of every public algorithm, as a table for the documentation:
`python -m benchmarks.wide_types`.

What can be traced is lowered by `jax.export` for CUDA and TPU and not compiled. What the host
drives is run on this machine's device, and the programs of one call are counted together.
"""

from __future__ import annotations

import collections
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from benchmarks import harness, operations
from benchmarks.algorithms import NUM_EXAMPLES, Algorithm, algorithms, is_asked, options

PAGE = harness.ROOT / "docs" / "64-bit-types.md"
PLATFORMS = ("cuda", "tpu")

_ARRAY = re.compile(r"tensor<((?:\d+x)*)(f64|i64|ui64)>")
# padding, dimensions and the like: no arrays of the program
_ATTRIBUTE = re.compile(r"dense<[^>]*> : tensor<[^>]*>|array<[^>]*>")
_NO_OPERATION = re.compile(
    r"\s*(?:func\.func|return|stablehlo\.return|reducer|module|#loc|\^bb|cond|do)\b"
)
_BIT_CAST = re.compile(r"stablehlo\.bitcast_convert.*f64|chlo\.next_after.*f64")
_LOCATION = re.compile(r"loc\(#loc(\d+)\)\s*$")
_LOCATION_ROW = re.compile(r"#loc(\d+) = (.*)$")
_FILE = re.compile(r"/(jboost/[\w/]+\.py)\"")
_REFERENCE = re.compile(r"#loc(\d+)")
_MOST_SOURCES = 3


class WideTypes(NamedTuple):
    """64-bit types in the text of StableHLO modules."""

    operations: int
    """All operations."""
    floats: int
    """Operations with a float64 operand or result."""
    integers: int
    """Operations with an operand or result of 64-bit integers, and none of float64."""
    bit_casts: int
    """Operations that read a float64 as bits or the other way round, the next float of
    another among them.
    """
    largest: str
    """The type of the largest 64-bit array, as "f64[200, 2]"; "" where there is none."""
    num_bytes: int
    """Of this array."""
    sources: tuple[str, ...]
    """The modules that most of the operations come from; empty where the text has no locations."""


def export(algorithm: Algorithm) -> Any:
    """What `jax.export` makes of an algorithm for CUDA and TPU."""
    return jax.export.export(jax.jit(lambda *arrays: algorithm.run(*arrays)), platforms=PLATFORMS)(
        *algorithm.arrays
    )


def texts_of(algorithm: Algorithm) -> list[str]:
    """The exported module; where the host drives the algorithm, all modules of one call on this
    machine's device.
    """
    return (
        [export(algorithm).mlir_module()]
        if algorithm.traceable
        else operations.programs_of_call(algorithm)
    )


def count(texts: Iterable[str]) -> WideTypes:
    """Counts over StableHLO modules."""
    total = floats = integers = bit_casts = num_bytes = 0
    largest, sources = "", collections.Counter[str]()
    for text in texts:
        total += operations.hlo.count_operations(text)
        module = _Locations(text)
        for line, types in _wide_lines(text):
            has_floats = any(dtype == "f64" for _, dtype in types)
            floats, integers = floats + has_floats, integers + (not has_floats)
            bit_casts += bool(_BIT_CAST.search(line))
            sources[module.source(line)] += 1
            for shape, dtype in types:
                size = 8 * math.prod(shape)
                if size > num_bytes:
                    largest, num_bytes = f"{dtype}{list(shape)}", size
    known = [name for name, _ in sources.most_common() if name]
    return WideTypes(
        total, floats, integers, bit_casts, largest, num_bytes, tuple(known[:_MOST_SOURCES])
    )


def _wide_lines(text: str) -> Iterator[tuple[str, list[tuple[tuple[int, ...], str]]]]:
    """The operations with 64-bit types, and their types: (shape, element type)."""
    for line in text.splitlines():
        if _ARRAY.search(line) and not _NO_OPERATION.match(line):
            bare = line if "stablehlo.constant" in line else _ATTRIBUTE.sub("", line)
            types = [
                (tuple(int(size) for size in dims.split("x")[:-1]), dtype)
                for dims, dtype in _ARRAY.findall(bare)
            ]
            if types:
                yield line, types


class _Locations:
    """The source locations of a module that was printed with them."""

    def __init__(self, text: str):
        rows = (_LOCATION_ROW.match(line) for line in text.splitlines() if line.startswith("#loc"))
        self._rows = {row[1]: row[2] for row in rows if row}
        self._known: dict[str, str] = {}

    def source(self, line: str) -> str:
        """The innermost module of the package, outside of base/ if there is one, that an operation
        comes from; "" where that is not known.
        """
        found = _LOCATION.search(line)
        return self._find(found[1]) if found else ""

    def _find(self, number: str) -> str:
        if number not in self._known:
            row = self._rows.get(number, "")
            named = _FILE.search(row)
            found = (
                [named[1]]
                if named
                else [name for name in map(self._find, _REFERENCE.findall(row)) if name]
            )
            self._known[number] = next(
                (name for name in found if not name.startswith("jboost/base/")), (*found, "")[0]
            )
        return self._known[number]


# --- the page -------------------------------------------------------------------------------------

_TEXT = """# Where 64-bit types are used in 32-bit programs

This page is written by `python -m benchmarks.wide_types` (JAX {version}). `tests/test_export.py`
lowers the algorithms and compares the counts with it.

Programs of jboost take and return 32-bit arrays unless the caller enables 64-bit types. Inside,
sums, certificates and comparisons that 32 bits cannot hold are done in `float64`, `int64` and
`uint64`. The table counts the StableHLO operations that have such an operand or result, constants
included, for m = {num_examples} examples of 2 to 20 columns (30 for three classifiers, 50 from
`l0.choose` to `l0.solve_unnormalised`).

**What it costs.** A CPU and a data-centre GPU have `float64` instructions. Consumer GPUs run them
at a small part of the rate of `float32`. A TPU has none. XLA rewrites a 64-bit program to 32-bit
operations there: a `float64` becomes an unevaluated sum of two `float32` (the tests of JAX skip
`float64` on a TPU with the words "float64 on TPU is ef57 double-double"), a 64-bit integer two
32-bit words. An accurate sum of two such pairs takes 20 operations of `float32`, a product about 10
with fused multiply-add and more without (Joldes, Muller and Popescu 2017). By this count 64-bit
arithmetic is an order of magnitude slower than 32-bit arithmetic, and its arrays take twice the
memory. A maintainer of JAX speaks of "the general slowness of 64-bit computations on TPU" (jax
issue 10145) without a number. **None of this was measured here: no TPU was at hand.**

**What may fail on a TPU.** XLA refused to rewrite a bit cast of a `float64`, with UNIMPLEMENTED,
when this was last reported (July 2025: jax issue 30629; also jax pull request 21108 and diffrax
issue 366). Programs with a number in the column "bit casts" are exported, but XLA for TPU may
refuse to compile them. A pair of `float32` also has the exponents of `float32` and fewer bits than
a `float64`, while proofs in `float64` assume 53 bits and correct rounding. So a bound that a TPU
worked out in `float64` is not proven, unless it is recomputed on a CPU or GPU.

**What needs no 64-bit types.** Rows with 0 depend on none of this. Among them are the pair
algorithms with `SweepConfig(word_bits=32)`, the default where JAX's default device is a TPU. The
choice is made while a program is traced: pass this config where a CPU exports a program for a TPU.

"""
_HEADER = (
    "| algorithm | operations | with float64 | with 64-bit integers only | bit casts of float64"
    " | largest 64-bit array | most of them in |\n|---|---:|---:|---:|---:|---|---|\n"
)
_HOST = """
For the algorithms marked with \\* the programs of one call on a CPU are counted together, those
that prepare arrays too: the host drives them, or may watch them by `on_step`.
"""


def row_of(name: str, counted: WideTypes) -> str:
    """A line of the table."""
    sources = ", ".join(f"`{source.removeprefix('jboost/')}`" for source in counted.sources)
    cells = (
        f"{counted.operations:,}",
        f"{counted.floats:,}",
        f"{counted.integers:,}",
        f"{counted.bit_casts:,}",
    )
    return (
        f"| {name} | {' | '.join(cells)} | {counted.largest or 'none'} | {sources or 'nowhere'} |"
    )


def read_rows(text: str) -> dict[str, tuple[int, ...]]:
    """Algorithm -> the four counts, from a page."""
    rows = (
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith("| algorithm")
    )
    return {
        cells[0].rstrip("*\\"): tuple(int(cell.replace(",", "")) for cell in cells[1:5])
        for cells in rows
    }


def main(arguments: Sequence[str] | None = None) -> int:
    given = options("wide_types", __doc__).parse_args(arguments)
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    rows = {line[2:].split(" | ")[0].rstrip("*\\"): line for line in lines if line.startswith("| ")}
    head = _TEXT.format(version=jax.__version__, num_examples=NUM_EXAMPLES) + _HEADER
    PAGE.parent.mkdir(exist_ok=True)
    for name, algorithm in algorithms().items():
        if is_asked(name, given):
            rows[name] = row_of(
                name if algorithm.traceable else rf"{name}\*", count(texts_of(algorithm))
            )
            print(rows[name], flush=True)
            ordered = [rows[each] for each in algorithms() if each in rows]
            PAGE.write_text(head + "\n".join(ordered) + "\n" + _HOST, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
