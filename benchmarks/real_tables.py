"""Few rules from real tables: `jboost fit --method l0` beside other classifiers: `python -m
benchmarks.real_tables --data DIR`.

Every pair of table and model is a process of its own, with a time limit and its peak of memory. All
models see the same rows: those of the table's own test file, of a fixed stratified third, or of
five folds. Seconds of jboost are those of the whole command, reading and compilation included, with
no compilation cache; those of the others begin with the rows in memory.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import harness
from benchmarks.peers import tables as peers
from jboost.data import readers

SEED = 0
LABEL, POSITIVE = "label", "1"
KNOWN = "KNOWN_VOTE"  # the table that is made here
NUM_FOLDS, SHARE_OF_TEST = 5, 1 / 3
POLL_SECONDS = 0.02
# beyond the time limit, for reading and a compilation that cannot be interrupted
GRACE_SECONDS = 120.0

# margin and kappa as they are
L0_OPTIONS = ("--method", "l0", "--cuts", "quantiles", "--quantiles", "10", "--force")
TIME_LIMIT = "--time-limit"
_FIT = "import sys; from jboost.cli import main; main(sys.argv[1:])"


@dataclasses.dataclass(frozen=True)
class TableOf:
    """Where a table is, which rows test, and what l0 is asked for."""

    training: str  # below the folder of data
    seconds: Mapping[int, float]  # by the order of rules, the time limit
    test: str | None = None
    num_folds: int | None = None  # None with `test`, and for one third that tests
    options: tuple[str, ...] = ()  # of l0, beside L0_OPTIONS


TABLES = {
    "PIMA": TableOf("PIMA.csv", {2: 30.0}, num_folds=NUM_FOLDS),
    "GERMAN": TableOf("GERMAN.csv", {2: 60.0}, num_folds=NUM_FOLDS),
    "KRVSKP": TableOf("KRVSKP.csv", {2: 30.0}),
    "MUSHROOM": TableOf("MUSHROOM.csv", {2: 30.0}),
    "SPAMBASE": TableOf("SPAMBASE.csv", {1: 20.0, 2: 60.0}),
    "MAGIC": TableOf("MAGIC.csv", {2: 60.0}),
    "ADULT": TableOf(
        "ADULT_TRAIN.csv", {2: 60.0}, test="ADULT_TEST.csv", options=("--max-rules", "12")
    ),
    "SKIN_UNIQUE": TableOf("SKIN_UNIQUE.csv", {2: 300.0}),
    KNOWN: TableOf("known_vote.csv", {2: 300.0}, test="known_vote_test.csv"),
}


class Part(NamedTuple):
    """One split of a table: files for the command, and an .npz file for the peers."""

    training: Path
    test: Path
    encoded: Path
    test_labels: np.ndarray  # [k] bool


# --- a table with a known vote --------------------------------------------------------------------

KNOWN_ROWS, KNOWN_TEST_ROWS, KNOWN_COLUMNS, KNOWN_NOISE = 1_000_000, 100_000, 20, 0.05
KNOWN_RULES = (  # of columns and deciles: both are above, and the vote
    ((0, 4), (1, 4), 1.0),
    ((2, 6), (3, 2), 1.0),
    ((4, 7), (5, 5), -1.0),
    ((6, 3), (7, 6), 1.0),
    ((8, 5), (9, 3), -1.0),
)
KNOWN_CONSTANT = -0.5


def known_rows(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform columns [m, 20], whose deciles are tenths, and labels [m] bool of the known vote, 5 %
    of them wrong.
    """
    random = np.random.default_rng([SEED, seed])
    columns = random.random((num_rows, KNOWN_COLUMNS), dtype=np.float32)
    score = np.full(num_rows, KNOWN_CONSTANT)
    for (first, first_decile), (second, second_decile), vote in KNOWN_RULES:
        score += vote * (
            (columns[:, first] > first_decile / 10) & (columns[:, second] > second_decile / 10)
        )
    return columns, (score > 0) ^ (random.random(num_rows) < KNOWN_NOISE)


def write_known(path: Path, num_rows: int, seed: int) -> None:
    """The rows as a .csv file."""
    import polars

    columns, labels = known_rows(num_rows, seed)
    held = {f"x{place}": columns[:, place] for place in range(KNOWN_COLUMNS)}
    polars.DataFrame({**held, LABEL: labels.astype(np.int8)}).write_csv(path, float_precision=6)


# --- splits ---------------------------------------------------------------------------------------


def parts_of(name: str, data: Path, folder: Path) -> Iterator[Part]:
    """The splits of a table, one at a time."""
    asked = TABLES[name]
    if name == KNOWN:
        data = folder
        write_known(data / asked.training, KNOWN_ROWS, 0)
        write_known(data / str(asked.test), KNOWN_TEST_ROWS, 1)
    if asked.test is not None:
        yield _encode(data / asked.training, data / asked.test, folder / "rows.npz")
        return
    lines = (data / asked.training).read_text(encoding="utf-8").splitlines()
    labels = np.array([line.rsplit(",", 1)[1] for line in lines[1:]])
    for number, test in enumerate(_splits(labels, asked.num_folds)):
        files = folder / f"training-{number}.csv", folder / f"test-{number}.csv"
        for path, chosen in zip(files, (~test, test), strict=True):
            path.write_text(
                "\n".join([lines[0], *(lines[1 + row] for row in np.flatnonzero(chosen))]) + "\n",
                encoding="utf-8",
            )
        yield _encode(*files, folder / "rows.npz")


def _splits(labels: np.ndarray, num_folds: int | None) -> Iterator[np.ndarray]:
    """Which rows test, [m] bool: stratified folds, or one stratified third."""
    from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

    if num_folds is None:
        splitter = StratifiedShuffleSplit(1, test_size=SHARE_OF_TEST, random_state=SEED)
    else:
        splitter = StratifiedKFold(num_folds, shuffle=True, random_state=SEED)
    for _, test in splitter.split(labels, labels):
        yield np.isin(np.arange(len(labels)), test)


def _encode(training: Path, test: Path, path: Path) -> Part:
    """Writes both parts as numbers: categories by their place among those of either part, NaN where
    missing.
    """
    tables = [readers.read_table(part, label=LABEL) for part in (training, test)]
    is_text = [
        name in tables[0].categorical or name in tables[1].categorical for name in tables[0].columns
    ]
    columns: list[list[np.ndarray]] = [[], []]
    for name, flag in zip(tables[0].columns, is_text, strict=True):
        read = [
            (one.categorical if flag and name in one.categorical else one.numeric)[name]
            for one in tables
        ]
        known = {
            text: code
            for code, text in enumerate(
                sorted({str(value) for part in read for value in part if value is not None})
            )
        }
        for held, part in zip(columns, read, strict=True):
            held.append(
                np.array([np.nan if value is None else known[str(value)] for value in part])
                if flag
                else part
            )
    matrices = [np.stack(held, axis=1).astype(np.float32) for held in columns]
    labels = [np.asarray(one.labels) > 0 for one in tables]
    np.savez(
        path,
        training=matrices[0],
        labels=labels[0],
        test=matrices[1],
        test_labels=labels[1],
        is_category=np.array(is_text),
    )
    return Part(training, test, path, labels[1])


# --- processes ------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """How a process ended."""

    status: str  # "ran", "time limit", or the last line of its errors
    seconds: float
    megabytes: float  # the most that it held
    output: str


def run_alone(command: Sequence[str], limit: float) -> Ended:
    """A command, killed after so many seconds."""
    place = {**os.environ, "PYTHONPATH": str(harness.ROOT), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=errors,
            env=place,
            cwd=harness.ROOT,
            start_new_session=True,
        )
        megabytes, is_late = 0.0, False
        while process.poll() is None:
            megabytes = max(megabytes, _peak_megabytes(process.pid))
            is_late = time.perf_counter() - begin > limit
            if is_late:
                # its own session: with all that it has started
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            else:
                time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - begin
        output.seek(0)
        errors.seek(0)
        said = errors.read().strip().splitlines() or ["no message"]
        status = (
            "time limit" if is_late else "ran" if process.returncode == 0 else f"failed: {said[-1]}"
        )
        return Ended(status, seconds, megabytes, output.read())


def _peak_megabytes(process: int) -> float:
    """The largest resident size of a process so far, 0 where the system does not say
    (Linux does).
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return max(
        (float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0
    )


# --- models ---------------------------------------------------------------------------------------


def run_l0(
    part: Part, order: int, seconds: float, options: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Rules by the command line, and what they say of the test part."""
    model, answers = folder / "model", folder / "answers.csv"
    asked = (
        "--label",
        LABEL,
        *L0_OPTIONS,
        *options,
        TIME_LIMIT,
        f"{seconds:g}",
        "--max-order",
        str(order),
        "--output",
        str(model),
    )
    ended = run_alone(
        (sys.executable, "-c", _FIT, "fit", "--data", str(part.training), *asked),
        seconds + GRACE_SECONDS,
    )
    record: dict[str, Any] = {
        "status": ended.status,
        "seconds": ended.seconds,
        "megabytes": ended.megabytes,
    }
    if ended.status != "ran":
        return record
    predicted = run_alone(
        (
            sys.executable,
            "-c",
            _FIT,
            "predict",
            str(model),
            "--data",
            str(part.test),
            "--output",
            str(answers),
        ),
        GRACE_SECONDS,
    )
    if predicted.status != "ran":
        return record | {"status": predicted.status}
    report = json.loads((model / "report.json").read_text(encoding="utf-8"))
    with answers.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = np.array([float(row["score"] or 0.0) for row in rows])
    orders = [rule["order"] for rule in report["model"]["rules"]]
    found = peers.Found(
        scores,
        np.array([row["prediction"] == POSITIVE for row in rows]),
        sum(order > 0 for order in orders),
        sum(orders),
    )
    return record | {
        **peers.scored(found, part.test_labels),
        "certificate": report["model"]["certificate"],
        "rounds": report["model"]["num_rounds"],
        "parts_of_seconds": report["seconds"],
    }


def run_peer(name: str, part: Part, limit: float, python: str) -> dict[str, Any]:
    """A peer by this interpreter if it has the package, else by another."""
    interpreter = sys.executable if importlib.util.find_spec(peers.PEERS[name].package) else python
    ended = run_alone(
        (interpreter, "-m", "benchmarks.peers.tables", name, str(part.encoded)), limit
    )
    record: dict[str, Any] = {
        "status": ended.status,
        "seconds": ended.seconds,
        "megabytes": ended.megabytes,
    }
    return record | (json.loads(ended.output.splitlines()[-1]) if ended.status == "ran" else {})


def run(
    names: Sequence[str],
    models: Sequence[str],
    data: Path,
    *,
    limit: float,
    l0_seconds: float | None,
    python: str,
) -> list[dict[str, Any]]:
    """A record for each table and model, with what was found on each split."""
    records: list[dict[str, Any]] = []
    for name in names:
        found: dict[str, list[dict[str, Any]]] = {}
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for part in parts_of(name, data, folder):
                if "l0" in models:
                    for order, seconds in TABLES[name].seconds.items():
                        allowed = seconds if l0_seconds is None else l0_seconds
                        found.setdefault(f"l0, order {order}", []).append(
                            run_l0(part, order, allowed, TABLES[name].options, folder)
                        )
                for peer in (one for one in peers.PEERS if one in models):
                    found.setdefault(peer, []).append(run_peer(peer, part, limit, python))
        for model, splits in found.items():
            records.append({"table": name, "model": model, "splits": splits, **mean_of(splits)})
            print(
                {key: value for key, value in records[-1].items() if key != "splits"},
                file=sys.stderr,
                flush=True,
            )
    return records


def mean_of(splits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over splits, the most memory, and the status of the first that did not run; numbers
    only where all splits have them.
    """
    statuses = [split["status"] for split in splits]
    status = next((one for one in statuses if one != "ran"), "ran")
    numbers: dict[str, Any] = {}
    for key in ("accuracy", "auroc", "rules", "literals", "seconds"):
        values = [split.get(key) for split in splits]
        numbers[key] = None if None in values else float(np.mean(np.array(values, float)))
    return {
        "status": status,
        **numbers,
        "megabytes": max(split["megabytes"] for split in splits),
        "version": splits[0].get("version"),
    }


# --- results --------------------------------------------------------------------------------------


def table(results: Mapping[str, Any]) -> str:
    """A row for each table and model."""
    rows = []
    for record in results["records"]:
        measures = [
            _number(record[key], digits)
            for key, digits in (("accuracy", 3), ("auroc", 3), ("rules", 1), ("literals", 1))
        ]
        seconds = (
            "" if record["status"] == "not installed" else harness.seconds_text(record["seconds"])
        )
        memory = "" if record["status"] == "not installed" else f"{record['megabytes']:.0f} MB"
        shown = [
            record["table"],
            record["model"],
            *measures,
            seconds,
            memory,
            _gap(record["splits"]),
            record["status"],
        ]
        rows.append(shown)
    header = (
        "table",
        "model",
        "accuracy",
        "AUROC",
        "rules",
        "literals",
        "seconds",
        "memory",
        "gap",
        "status",
    )
    found = harness.markdown_table(header, rows)
    # of results that were joined by hand
    return f"{results['remark']}\n\n{found}" if "remark" in results else found


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _gap(splits: Sequence[Mapping[str, Any]]) -> str:
    """The widest gap of the relaxation, of its upper bound; nothing for models without bounds."""
    bounds = [split["certificate"] for split in splits if "certificate" in split]
    if not bounds:
        return ""
    if any(bound["lower_bound"] is None or not bound["upper_bound"] for bound in bounds):
        return "none"
    return f"{max(1 - bound['lower_bound'] / bound['upper_bound'] for bound in bounds):.2%}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_tables", description=__doc__.split(":")[0] + "."
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of the .csv files, each with a last column `label` of 0 and 1",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=tuple(TABLES),
        default=list(TABLES),
        metavar="TABLE",
        help=f"of {', '.join(TABLES)}",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        choices=("l0", *peers.PEERS),
        default=["l0", *peers.PEERS],
        metavar="MODEL",
        help="default all",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="of a peer's process on a split; default %(default)s",
    )
    parser.add_argument(
        "--l0-limit",
        type=float,
        metavar="SECONDS",
        help="of l0, instead of the limits of the tables",
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="interpreter for packages that this one lacks; it needs scikit-learn",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=harness.RESULTS,
        metavar="DIR",
        help="default benchmarks/results",
    )
    options = parser.parse_args(arguments)
    limits = {"limit": options.limit, "l0_seconds": options.l0_limit}
    results = {
        "limit": options.limit,
        "l0_limit": options.l0_limit,
        "l0_options": list(L0_OPTIONS),
        "records": run(
            options.only, options.models, options.data.resolve(), **limits, python=options.python
        ),
    }
    harness.write("real_tables", results, options.output)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
