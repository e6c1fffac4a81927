"""Table 1 of Goldberg and Eckstein (2009) reproduced: `scripts/reproduce [--config FILE]
[--data DIR]`.

Every fold of every replication is one line of a JSON-lines file beside the results, written as soon
as it is known: a run that was cut off goes on where it was, and what the file holds is not fitted
again. To fit all anew, name another --output. Data sets are worked on side by side, a process each.
At the end the lines become one JSON file with means and standard errors beside the published
numbers.

Binarization is fitted on the training rows of each fold, and anew on those of each inner fold where
settings are chosen. All folds of a data set share one shape, hence one compilation: rows that are
held out are masked, attributes that a fold lacks are columns of zeros, and the costs know how many
there really are. L0-RBoost gets equal training rows as one. On a device all folds of a data set are
one program.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path

import jax

from benchmarks import harness
from benchmarks.paper001.data import validate_sources
from benchmarks.paper001.figures import plot
from benchmarks.paper001.lines import asked_for, mend_lines, read_lines, values_of
from benchmarks.paper001.methods import present
from benchmarks.paper001.runs import run_side_by_side
from benchmarks.paper001.table import show, summarise

DEFAULT_CONFIG = harness.ROOT / "configs" / "paper001-k1.toml"
DEFAULT_FOLDERS = tuple(
    harness.ROOT.parent / "shared" / "data" / part for part in ("papers", "more")
)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="scripts/reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config", type=Path, default=DEFAULT_CONFIG, help="settings, TOML (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        default=DEFAULT_FOLDERS,
        help="folders with BCW.csv and others; what is missing is from OpenML",
    )
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="SET", help="data sets, of those in the settings"
    )
    parser.add_argument(
        "--jobs",
        type=_count,
        help=(
            "data sets worked on side by side, a process each (default: as many as there are CPUs;"
            " one at a time on a device)"
        ),
    )
    parser.add_argument(
        "--together",
        type=_count,
        help=(
            "folds of a data set in one program (default: one on a CPU, where they take turns; on a"
            " device all that its memory holds)"
        ),
    )
    parser.add_argument("--replications", type=int, help="in place of that in the settings")
    parser.add_argument(
        "--output",
        type=Path,
        help="JSON file (default: benchmarks/results/paper001, by the name of the settings)",
    )
    given = parser.parse_args(arguments)
    settings = tomllib.loads(given.config.read_text())
    if given.replications is not None:
        settings["replications"] = given.replications
    output = given.output or harness.RESULTS / "paper001" / f"{given.config.stem}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = output.with_suffix(".jsonl")
    for name in given.only:
        if name not in settings["sets"]:
            parser.error(
                f"argument --only: {name} is not among the sets of {given.config}:"
                f" {', '.join(settings['sets'])}"
            )
    names = given.only or settings["sets"]
    validate_sources(names, given.data)
    mend_lines(lines)
    is_cpu = jax.default_backend() == "cpu"
    jobs = given.jobs or (os.cpu_count() if is_cpu else None) or 1
    together = given.together or (1 if is_cpu else settings["replications"] * settings["folds"])
    run_side_by_side(
        settings | {"methods": present(settings["methods"])},
        given.data,
        lines,
        names,
        jobs=jobs,
        together=together,
    )
    rows = summarise(asked_for(read_lines(lines), settings), settings["max_order"])
    output.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")
    print(show(rows))
    if any(len(values_of(settings, method)) > 1 for method in settings["methods"]):
        for name in sorted({row["set"] for row in rows}):
            plot(
                [row for row in rows if row["set"] == name],
                output.with_name(f"{output.stem}-{name.lower()}.png"),
            )
    return 0
