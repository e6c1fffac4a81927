"""One `l0.fit` for each of the paper's ten data sets, in one process: as they are, and padded to
sizes that they share.

`python -m benchmarks.shared_sizes --data ../shared/data/papers --data ../shared/data/more`; with
`--before FOLDER` the data sets as they are go through that checkout. Seconds are those of the
clock, from merged examples to the fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.paper001.data import read_set
from jboost.data import binarization, merging
from jboost.monomials import costs

CONFIGS = ("paper001-chosen-k1.toml", "paper001-unseen-k1.toml")
AS_THEY_ARE, SHARED = "as they are", "shared sizes"
_WORTH_COUNTING = 1.0  # seconds that XLA takes for a program
_BACKEND_EVENT = "/jax/core/compile/backend_compile_duration"


def fit_all(folders: Sequence[Path], *, is_padded: bool) -> list[dict[str, Any]]:
    """A record for each data set: its sizes, seconds, and the programs that took XLA long."""
    durations: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: durations.append(duration) if event == _BACKEND_EVENT else None
    )
    records = []
    for name, settings in _data_sets():
        dataset, num_rows = _merged(name, settings, folders)
        num_attributes = dataset.features.shape[1]
        if is_padded:
            dataset = _padded(dataset)
        durations.clear()
        begin = time.perf_counter()
        cost = costs.mdl(
            settings["kappa"],
            num_attributes=np.int32(num_attributes),
            num_examples=np.int32(num_rows),
        )
        learner = jboost.learners.monomials(
            settings["max_order"], cost=cost, num_proposed=settings["num_proposed"]
        )
        options = {
            "tolerance": settings["tolerance"],
            "max_rounds": settings["max_rounds"],
            "max_columns": settings["max_columns"],
        }
        fitted = jboost.l0.fit(
            dataset,
            learner,
            margin=settings["margin_times_m"] / num_rows,
            bound_integer=False,
            **options,
        )
        jax.block_until_ready(fitted)
        seconds = time.perf_counter() - begin
        found = {
            "lower_bound": float(fitted.certificate.lower_bound),
            "upper_bound": float(fitted.certificate.upper_bound),
        }
        long = sum(duration > _WORTH_COUNTING for duration in durations)
        records.append(
            {
                "set": name,
                "shape": list(dataset.features.shape),
                "seconds": seconds,
                "long_compilations": long,
                **found,
            }
        )
        print(records[-1], file=sys.stderr, flush=True)
    return records


def _data_sets() -> list[tuple[str, dict[str, Any]]]:
    configs = [
        tomllib.loads((harness.ROOT / "configs" / name).read_text(encoding="utf-8"))
        for name in CONFIGS
    ]
    return [(name, settings) for settings in configs for name in settings["sets"]]


def _merged(
    name: str, settings: Mapping[str, Any], folders: Sequence[Path]
) -> tuple[jboost.Dataset, int]:
    rows, labels, names = read_set(name, list(folders))
    binarizer = binarization.fit(
        rows,
        labels,
        names=names,
        cuts=settings["cuts"],
        missing="literal",
        min_separation=settings.get("min_separation"),
    )
    bits = np.nan_to_num(np.asarray(binarization.apply(binarizer, rows))).astype(np.float32)
    return merging.merge_equal(jboost.make_dataset(bits, labels)).dataset, len(labels)


def _padded(dataset: jboost.Dataset) -> jboost.Dataset:
    from jboost.cli import sizes

    num_rows, num_columns = dataset.features.shape
    return jboost.pad_dataset(
        dataset, num_examples=sizes.superlinear(num_rows), num_features=sizes.literals(num_columns)
    )


def run(folders: Sequence[Path], before: Path | None) -> list[dict[str, Any]]:
    """Both ways, each in a process that has compiled nothing."""
    ways = {AS_THEY_ARE: before or harness.ROOT, SHARED: harness.ROOT}
    return [
        {"way": way, "sets": _in_process(way, folders, checkout)} for way, checkout in ways.items()
    ]


def _in_process(way: str, folders: Sequence[Path], checkout: Path) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "jboost").symlink_to(checkout / "jboost")
        (Path(place) / "benchmarks").symlink_to(harness.ROOT / "benchmarks")
        environment = {
            **os.environ,
            "PYTHONPATH": place,
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            "OPENBLAS_NUM_THREADS": "1",
        }
        data = [text for folder in folders for text in ("--data", str(folder.resolve()))]
        command = [sys.executable, "-m", "benchmarks.shared_sizes", *data, "--one", way]
        done = subprocess.run(
            command, env=environment, cwd=place, stdout=subprocess.PIPE, text=True, check=True
        )
    records: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return records


def table(results: Mapping[str, Any]) -> str:
    """A row for each way."""
    rows = []
    for record in results["records"]:
        shapes = {tuple(each["shape"]) for each in record["sets"]}
        total = sum(each["seconds"] for each in record["sets"])
        long = sum(each["long_compilations"] for each in record["sets"])
        rows.append([record["way"], str(len(shapes)), str(long), harness.seconds_text(total)])
    title = (
        "One `l0.fit` for each of ten data sets in one process (`python -m"
        " benchmarks.shared_sizes`)."
    )
    return (
        title
        + "\n\n"
        + harness.markdown_table(
            ("data sets", "shapes", "programs that XLA took over 1 s for", "seconds in all"), rows
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.shared_sizes", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--data",
        action="append",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where the data sets are; may be given again",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="another checkout, for the data sets as they are",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=harness.RESULTS,
        metavar="DIR",
        help="default benchmarks/results",
    )
    parser.add_argument("--one", choices=(AS_THEY_ARE, SHARED), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(fit_all(options.data, is_padded=options.one == SHARED)))
        return 0
    harness.write("shared_sizes", {"records": run(options.data, options.before)}, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
