"""The type of an option of the command line, and the names of the methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
MONOMIALS = "monomials"  # the learner of rules, which has options of l0
ANY_NUMBER = -1
UNCUT = "none"  # internal value of --cuts: numeric columns are not cut
SEARCH = "search"  # given instead of a margin: the best margin of l0 is searched
CV = "cv"  # given instead of a number: cross-validation chooses the number


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of the command line.

    `name` is the key in a configuration file. With dashes for underscores it is the flag.
    """

    name: str
    kind: type | tuple[str, ...]  # a tuple holds the choices
    default: Any
    help: str
    commands: tuple[str, ...] = ("fit", "evaluate")
    methods: tuple[str, ...] = METHODS
    # With ANY_NUMBER the flag may be repeated, and the key of a configuration file takes one value
    # or a list.
    num_values: int = 1
    metavar: str | None = None
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = True
    flags: tuple[str, ...] = ()  # other flags for the same option
    words: tuple[str, ...] = ()  # strings that are accepted instead of a number
    # strings that another command accepts instead of a number, with the message of this one
    refused: Mapping[str, str] | None = None
