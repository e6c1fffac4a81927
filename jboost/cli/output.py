"""The output folder of `jboost fit`: the names of its files, and whether it may be replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jboost import outputs
from jboost.report import build

MODEL, BASE, REPORT, FIGURE, MARGINS, GAP = (
    "model.npz",
    "base.skops",
    "report.json",
    "separator.png",
    "margins.png",
    "gap.png",
)
BOUNDARY, KINDS, FRONT = "boundary.png", "kinds.png", "front.png"
TRAINING_ERROR = ("training error", "its upper bound")  # the lines of GAP if no optimum is bounded
_FILES = {MODEL, BASE, REPORT, FIGURE, MARGINS, GAP, BOUNDARY, KINDS, FRONT}


def check_output(name: str, overwrite: bool) -> Path:
    """Returns the path of the output folder. Raises ValueError if a fit must not write there."""
    if not name:
        raise ValueError("the name of the output folder is empty: choose another --output")
    output = Path(name)
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output}: the output folder is a file: choose another --output")
    if Path.cwd().is_relative_to(output.resolve()):
        raise ValueError(
            f"{output}: the output folder is replaced, but it is or contains the current folder:"
            " choose another --output"
        )
    if not output.is_dir() or not any(output.iterdir()):
        return output
    if not overwrite:
        raise ValueError(
            f"{output}: the output folder already exists: add --overwrite, or choose another"
            " --output"
        )
    foreign = sorted({path.name for path in output.iterdir()} - _FILES)
    if foreign:
        raise ValueError(
            f"{output}: holds files that jboost did not write ({', '.join(foreign[:3])}), so it is"
            " not replaced: choose another --output"
        )
    return output


def check_single_file(path: str, endings: tuple[str, ...]) -> None:
    """Raises ValueError if a command must not write one file to `path`.

    Args:
      path: a file, a device or a pipe.
      endings: the endings of files that the command may replace.
    """
    outputs.check_file(path, endings=endings)
    folder = Path(os.path.realpath(path)).parent
    if (folder / MODEL).is_file() and not outputs.is_stream(path):
        raise ValueError(
            f"{path}: {folder} is an output folder of jboost fit (it has {MODEL}), in which only"
            " jboost fit writes: choose a file in another folder"
        )


def check_file(flag: str, path: str | None, endings: tuple[str, ...]) -> None:
    """Raises ValueError, naming the flag, if its file cannot be written to `path`.

    Args:
      flag: the name of the option.
      path: the value of the option, or None.
      endings: the endings that the name may have. Streams may have any name.
    """
    if path is None:
        return
    try:
        check_single_file(path, endings)
    except ValueError as error:
        raise ValueError(f"{flag} {error}") from None
    if not outputs.is_stream(path) and not path.lower().endswith(endings):
        raise ValueError(f"{flag} {path}: expected a name that ends in {' or '.join(endings)}")


def write_report(report: Mapping[str, Any], path: str | None, say: Any) -> None:
    """Writes the table of a command to its JSON file, unless `path` is None."""
    if path is not None:
        build.write(report, path)
        say(f"written     {path}")


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Stores the seconds that the context took in `seconds[name]`."""
    started = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - started
