"""One option of the command line: a flag, a key of a configuration file, a default and a help
text."""

from __future__ import annotations

import dataclasses
from typing import Any

L0, PAIR, RELAXED_MARGIN, LPBOOST, ADABOOST, INFOBOOST = (
    "l0",
    "pair",
    "relaxed-margin",
    "lpboost",
    "adaboost",
    "infoboost",
)
COMBINE, EXAMPLE_WEIGHTS, SLIPPER = "combine", "example-weights", "slipper"
SOFT_MARGINS = (RELAXED_MARGIN, LPBOOST)
BOOSTERS = (*SOFT_MARGINS, ADABOOST, INFOBOOST)
METHODS = (L0, PAIR, COMBINE, EXAMPLE_WEIGHTS, *BOOSTERS, SLIPPER)
ANY_NUMBER = -1
UNCUT = "none"  # of --cuts: numbers stay as they are
CV = "cv"  # in place of a number: cross-validation chooses it


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: `name` is its key in a configuration file and, with dashes, its flag."""

    name: str
    kind: type | tuple[str, ...]  # a tuple holds the choices
    default: Any
    help: str
    commands: tuple[str, ...] = ("fit", "evaluate")
    methods: tuple[str, ...] = METHODS
    # ANY_NUMBER: the flag may be repeated, and the key of a configuration file holds one value or a
    # list
    num_values: int = 1
    metavar: str | None = None
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = True
    flags: tuple[str, ...] = ()  # further spellings
    words: tuple[str, ...] = ()  # that may stand in place of a number
