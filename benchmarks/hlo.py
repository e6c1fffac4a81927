"""Counts in the text of programs: StableHLO operations before XLA, kernels after it, and the
functions that the kernels come from.
"""

from __future__ import annotations

import collections
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_OPERATION = re.compile(r"= \"?(?:stablehlo|chlo)\.")
_KERNEL = re.compile(
    r"^\s+(?:ROOT )?%\S+ = (?:\((?:[^()]|\([^)]*\))*\)|\S+)"
    r" (fusion|sort|custom-call|dot|while)\((.*)$"
)
_COMPUTATION = re.compile(r"^(?:ENTRY )?%(\S+) \(")
_CALLED = re.compile(r"(?:calls|to_apply)=%([^,\s]+)")
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_TABLE_ROW = re.compile(r"^(\d+) (.*)$")
_NAMES = re.compile(r"%[^\s,()]+|, metadata=\{[^}]*\}|, backend_config=\{.*\}")
_PACKAGE = "/jboost/"
# how the name of a file ends in which XLA writes an optimised module
OPTIMISED = "pu_after_optimizations.txt"


class Counts(NamedTuple):
    """What XLA made of some programs."""

    fusions: int
    distinct_fusions: int
    """Fusions whose computations differ: XLA for CPUs compiles equal ones once."""
    products: int
    """Products of matrices."""
    sorts: int
    while_loops: int
    sources: dict[str, int]
    """Fusions by the function of the package that they come from, the largest counts first."""


def count_operations(text: str) -> int:
    """Operations of a StableHLO module, constants included."""
    return len(_OPERATION.findall(text))


def count_kernels(modules: Iterable[str]) -> Counts:
    """Counts over optimised HLO modules."""
    kinds: collections.Counter[str] = collections.Counter()
    sources: collections.Counter[str] = collections.Counter()
    distinct = set()
    for text in modules:
        module = _Module(text)
        for kind, rest in module.kernels():
            kinds[kind] += 1
            if kind == "fusion":
                distinct.add(module.digest(rest))
                sources[module.source(rest)] += 1
    ordered = dict(sources.most_common())
    return Counts(
        kinds["fusion"], len(distinct), kinds["dot"], kinds["sort"], kinds["while"], ordered
    )


class _Module:
    """One optimised module: its lines, its computations, and the tables of source locations at its
    top.
    """

    def __init__(self, text: str):
        self._lines = text.split("\n")
        self._computations: dict[str, list[str]] = {}
        tables: dict[str, dict[int, str]] = {}
        rows: dict[int, str] = {}
        body: list[str] = []
        for line in self._lines:
            if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
                rows = tables.setdefault(line, {})
            elif row := _TABLE_ROW.match(line):
                rows[int(row[1])] = row[2]
            elif begin := _COMPUTATION.match(line):
                body = self._computations.setdefault(begin[1], [])
            else:
                body.append(line)
        self._tables = tables

    def kernels(self) -> Iterator[tuple[str, str]]:
        """The kind of each kernel outside of fusions, and the rest of its line."""
        within = {
            name for line in self._lines if " fusion(" in line for name in _CALLED.findall(line)
        }
        for name, lines in self._computations.items():
            if name not in within:
                yield from (
                    (found[1], found[2]) for line in lines if (found := _KERNEL.match(line))
                )

    def digest(self, rest: str) -> str:
        """The same for fusions of equal computations."""
        names: dict[str, str] = {}
        lines = self._computations.get(self._called(rest), [rest])
        plain = [
            _NAMES.sub(
                lambda found: (
                    names.setdefault(found[0], f"%{len(names)}") if found[0][0] == "%" else ""
                ),
                line,
            )
            for line in lines
        ]
        return hashlib.sha256("\n".join(plain).encode()).hexdigest()

    def source(self, rest: str) -> str:
        """The function of the package that a fusion comes from, as file:function; "elsewhere" where
        no location is known.
        """
        for line in (rest, *reversed(self._computations.get(self._called(rest), []))):
            frame = _FRAME.search(line)
            while frame is not None:
                name, frame = self._frame(int(frame[1]))
                if name:
                    return name
        return "elsewhere"

    def _called(self, rest: str) -> str:
        found = _CALLED.search(rest)
        return found[1] if found else ""

    def _frame(self, number: int) -> tuple[str, re.Match[str] | None]:
        """The function of a stack frame, "" outside of the package, and the number of
        its parent.
        """
        row = self._tables["StackFrames"][number]
        place = self._tables["FileLocations"][_field(row, "file_location_id")]
        file = self._tables["FileNames"][_field(place, "file_name_id")].strip('"')
        function = (
            self._tables["FunctionNames"][_field(place, "function_name_id")]
            .strip('"')
            .replace(".<locals>", "")
        )
        parent = re.search(r"parent_frame_id=(\d+)", row)
        is_root = parent is None or int(parent[1]) in (0, number)
        return (f"{file.rpartition(_PACKAGE)[2]}:{function}" if _PACKAGE in file else ""), (
            None if is_root else parent
        )


def _field(row: str, name: str) -> int:
    found = re.search(rf"\b{name}=(\d+)", row)
    return int(found[1]) if found else 0
