"""Every public name of jboost with its signature, one a line.

`python -m tests.public_signatures` writes tests/public_signatures.txt again. A line that changes or
goes is a change of the interface: CHANGELOG has it.
"""

import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jboost

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".txt")


def _public_names() -> Iterator[str]:
    """As the API pages list them."""
    spec = importlib.util.spec_from_file_location("docs_entries", ROOT / "docs" / "entries.py")
    entries = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entries)
    return entries.public_names()


def _value(name: str) -> Any:
    value: Any = jboost
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def describe(value: Any) -> str:
    """The parameters with their defaults, without types: `(scores, labels, *, weights=None)`."""
    if not callable(value):
        return f": {type(value).__name__}"
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(value).parameters.values()
    ]
    return re.sub(r"<function (\w+) at \w+>", r"\1", str(inspect.Signature(parameters)))


def lines() -> list[str]:
    return sorted(name + describe(_value(name)) for name in set(_public_names()))


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
