"""All fits that the settings ask for and the file of lines does not hold."""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import itertools
import json
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from benchmarks.paper001 import methods
from benchmarks.paper001.data import drawn, read_set
from benchmarks.paper001.folds import Prepared, prepare
from benchmarks.paper001.lines import KEYS, digest_of, read_lines, values_of

KNOBS = ("kappa", "tolerance", "inner_kappas", "inner_margins_times_m")


def run_side_by_side(
    settings: dict[str, Any],
    folders: Sequence[Path],
    lines: Path,
    names: Sequence[str],
    *,
    jobs: int,
    together: int,
) -> None:
    """`run`, a process of one thread for each data set, so many at a time."""
    if min(jobs, len(names)) <= 1:
        return run(settings, folders, lines, names, together)
    harness.keep_to_one_thread()  # of the processes to come
    with concurrent.futures.ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        for finished in [
            pool.submit(run, settings, folders, lines, [name], together) for name in names
        ]:
            finished.result()


def run(
    settings: dict[str, Any],
    folders: Sequence[Path],
    lines: Path,
    names: Sequence[str],
    together: int,
) -> None:
    """All folds of the data sets that the file does not hold yet, so many in one program: a line
    for each method and value of its parameter.
    """
    old, digest = read_lines(lines), digest_of(settings)
    before = {line["set"]: line["data"] for line in old if "data" in line}
    if any(line["settings"] != digest for line in old):
        raise ValueError(
            f"{lines} holds lines of other settings: delete it, or name another --output"
        )
    done = {tuple(line[name] for name in KEYS) for line in old}
    sizes = {name: methods.sizes_of(settings, name) for name in names}
    knobs = {name: settings[name] for name in KNOBS if name in settings} | {
        name: np.atleast_1d(settings[name])[0] for name in methods.PARAMETERS.values()
    }
    runs = [
        (group, value)
        for group in methods.sharing_rounds(settings["methods"])
        for value in values_of(settings, group[0])
    ]
    for name in names:
        folds = [
            (replication, fold)
            for replication in range(settings["replications"])
            for fold in range(settings["folds"])
        ]
        asked = {
            (name, *place, method, value)
            for place in folds
            for group, value in runs
            for method in group
        }
        if asked & done:
            print(
                f"{name}: {len(asked & done)} of {len(asked)} fits are taken from {lines}; another"
                " --output makes all anew",
                file=sys.stderr,
            )
        if asked <= done:
            continue
        table, labels, columns = read_set(name, folders)
        table, labels = drawn(table, labels, settings.get("rows"))
        data = hashlib.sha256(
            repr((np.asarray(table).tolist(), labels.tolist())).encode()
        ).hexdigest()[:12]
        if before.get(name, data) != data:
            raise ValueError(
                f"{lines} holds lines of other rows of {name}: delete it, or name another --output"
            )
        prepared = prepare(table, labels, columns, settings)
        while folds := list(itertools.islice(prepared, together)):
            for group, value in runs:
                here = (
                    {**knobs, methods.PARAMETERS[group[0]]: value}
                    if group[0] in methods.PARAMETERS
                    else knobs
                )
                numbers = {name: jnp.asarray(knob, jnp.float32) for name, knob in here.items()}
                for missing, todo in _not_done(folds, done, name, group, value):
                    found = methods.evaluate(
                        missing,
                        sizes[name],
                        [part for _, _, part in todo],
                        labels.astype(np.float32),
                        numbers,
                    )
                    for (replication, fold, _), facts in zip(todo, found, strict=True):
                        start = {
                            "settings": digest,
                            "data": data,
                            "set": name,
                            "replication": replication,
                            "fold": fold,
                        }
                        for method, of_method in zip(missing, facts, strict=True):
                            line = start | {"method": method, "parameter": value, **of_method}
                            _write(line, lines)


def _not_done(
    folds: Sequence[tuple[int, int, Prepared]],
    done: set[tuple[Any, ...]],
    name: str,
    group: tuple[str, ...],
    value: float | None,
) -> Iterator[tuple[tuple[str, ...], list[tuple[int, int, Prepared]]]]:
    """The methods of a group whose lines are missing, with the folds that lack just these."""
    by_missing = collections.defaultdict(list)
    for fold in folds:
        missing = tuple(method for method in group if (name, *fold[:2], method, value) not in done)
        by_missing[missing].append(fold)
    by_missing.pop((), None)
    yield from by_missing.items()


def _write(line: dict[str, Any], lines: Path) -> None:
    with lines.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)
