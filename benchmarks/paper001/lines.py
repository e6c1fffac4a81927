"""The file of lines: one for each fit, written as soon as it is known, and what tells
them apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper001.methods import PARAMETERS

KEYS = ("set", "replication", "fold", "method", "parameter")


def values_of(settings: dict[str, Any], method: str) -> list[float | None]:
    """The values of the parameter of a method, one or several; None for a method that has none."""
    return np.atleast_1d(settings[PARAMETERS[method]]).tolist() if method in PARAMETERS else [None]


def digest_of(settings: dict[str, Any]) -> str:
    """What tells settings apart under which a fold comes out otherwise."""
    matters = {
        key: value
        for key, value in settings.items()
        if key not in ("sets", "methods", "replications")
    }
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()[:12]


def mend_lines(path: Path) -> None:
    """Takes off a last line that was cut off while it was written."""
    text = path.read_text() if path.is_file() else ""
    whole, _, rest = text.rpartition("\n")
    if rest:
        path.write_text(whole + "\n" if whole else "")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of the file, none where there is no file.

    Raises:
      ValueError: if one cannot be read; it is named.
    """
    lines = []
    for number, line in enumerate(path.read_text().splitlines() if path.is_file() else (), start=1):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}: delete this line") from error
    return lines


def asked_for(lines: Sequence[dict[str, Any]], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of the lines that the settings ask for."""
    return [
        line
        for line in lines
        if line["set"] in settings["sets"]
        and line["method"] in settings["methods"]
        and line["replication"] < settings["replications"]
        and line["parameter"] in values_of(settings, line["method"])
    ]
