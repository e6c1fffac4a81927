"""What the first call of every public algorithm costs: `python -m benchmarks.compilation`.

Each measurement is a process of its own that has compiled nothing before. Seconds are those of the
clock. A second checkout beside this one (`--before FOLDER`) is measured in turns with it, and so
are several platforms (`--platform cpu --platform cuda`). MPAX, where it is installed, and a plain
JAX sweep stand beside in the same run. `--side-by-side N` runs N processes at a time, of which one
at a time measures later calls.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks import harness, hlo
from benchmarks.algorithms import Algorithm, algorithms, small_fits

NUM_MEMBERS = 16  # of a batch
_MOST_SOURCES = 5
_REPEATS, _SECONDS = 10, 2.0  # of later calls: so many at least, and for so long
_BACKEND_EVENT = "/jax/core/compile/backend_compile_duration"
_TIMEOUT = 1800  # seconds of one measurement
_TURN = "JBOOST_BENCHMARK_TURN"  # names the file that a process locks while it measures later calls


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to call an algorithm."""

    name: str
    arrays: Callable[[Sequence[Algorithm]], tuple[Any, ...]]
    function: Callable[[Algorithm], Callable[..., Any]]
    traceable_only: bool


KINDS = {
    kind.name: kind
    for kind in (
        Kind("call", lambda members: members[0].arrays, lambda algorithm: algorithm.run, False),
        Kind(
            "inside jit",
            lambda members: members[0].arrays,
            lambda algorithm: jax.jit(lambda *arrays: algorithm.run(*arrays)),
            True,
        ),
        Kind(
            f"vmap of {NUM_MEMBERS}",
            lambda members: _stacked(members),
            lambda algorithm: jax.jit(jax.vmap(algorithm.run)),
            True,
        ),
    )
}


def _stacked(members: Sequence[Algorithm]) -> tuple[Any, ...]:
    stacked: tuple[Any, ...] = jax.tree.map(
        lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]),
        *(each.arrays for each in members),
    )
    return stacked


# --- one measurement, in a process of its own -----------------------------------------------------


def seconds_of(name: str, kind: Kind) -> dict[str, Any]:
    """Seconds of the first call, those of them that XLA took, and the best of later calls."""
    durations: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: durations.append(duration) if event == _BACKEND_EVENT else None
    )
    members = [
        contenders(seed)[name] for seed in range(NUM_MEMBERS if kind.name.startswith("vmap") else 1)
    ]
    call, arrays = kind.function(members[0]), jax.device_put(kind.arrays(members))
    jax.block_until_ready(arrays)
    durations.clear()
    begin = time.perf_counter()
    jax.block_until_ready(call(*arrays))
    first, num_programs, xla = time.perf_counter() - begin, len(durations), sum(durations)
    with _turn():
        warm = _best_of_later_calls(call, arrays)
    traced = max(first - xla - warm, 0.0)
    return {
        "first_seconds": first,
        "xla_seconds": xla,
        "trace_seconds": traced,
        "run_seconds": warm,
        "num_programs": num_programs,
    }


def _best_of_later_calls(call: Callable[..., Any], arrays: tuple[Any, ...]) -> float:
    later: list[float] = []
    while (len(later) < _REPEATS or sum(later) < _SECONDS) and sum(later) < 10:
        begin = time.perf_counter()
        jax.block_until_ready(call(*arrays))
        later.append(time.perf_counter() - begin)
    return min(later)


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Waits until no other process measures later calls."""
    with open(os.environ.get(_TURN, os.devnull), "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def counts_of(name: str, folder: Path) -> dict[str, Any]:
    """What the programs of a call are made of; XLA was told to write them to the folder before it
    began.
    """
    algorithm = contenders(0)[name]
    of_inputs = set(folder.iterdir()) if folder.exists() else set()
    jax.block_until_ready(algorithm.run(*algorithm.arrays))
    written = [path for path in sorted(folder.iterdir()) if path not in of_inputs]
    lowered = [path.read_text(encoding="utf-8") for path in written if path.suffix == ".mlir"]
    counts = hlo.count_kernels(
        path.read_text(encoding="utf-8") for path in written if path.name.endswith(hlo.OPTIMISED)
    )
    largest = dict(list(counts.sources.items())[:_MOST_SOURCES])
    operations = sum(hlo.count_operations(text) for text in lowered)
    return {"operations": operations, **counts._replace(sources=largest)._asdict()}


def contenders(seed: int) -> dict[str, Algorithm]:
    """The algorithms, and what stands beside them."""
    return {**algorithms(seed=seed), **small_fits(seed=seed), **_peers(seed)}


def _peers(seed: int) -> dict[str, Algorithm]:
    from benchmarks.peers import linear_programs as peers
    from benchmarks.peers import plain_sweep

    own = algorithms(seed=seed)
    found = {
        "plain JAX sweep, the loss alone": Algorithm(
            plain_sweep.least_loss, own["pair.optimal_separator, sweep"].arrays, False
        )
    }
    if peers.has_mpax():
        (program,) = own["lp.solve, first order"].arrays
        matrix = np.asarray(program.operator.matrix)
        parts = [
            np.asarray(part)[None]
            for part in (
                program.objective,
                matrix,
                program.row_lower,
                program.row_upper,
                program.lower,
                program.upper,
            )
        ]
        found["MPAX, dense"] = Algorithm(
            lambda *arrays: peers.mpax_batch(*arrays), tuple(parts), False
        )
    return found


# --- all of them ----------------------------------------------------------------------------------


class Measured(NamedTuple):
    """What is measured by processes of their own."""

    name: str
    kind: str
    float64: bool
    platform: str | None  # None for the one that JAX takes
    checkout: str


def run(
    measured: Sequence[Measured],
    checkouts: Mapping[str, Path],
    keep: Callable[[list[dict[str, Any]]], Any],
    *,
    side_by_side: int = 1,
    counts: bool = True,
) -> None:
    """Hands the records of those that are done, in their order, to `keep` after each of them, so
    that a run that is cut off loses none.
    """
    records: dict[int, dict[str, Any]] = {}
    lock = threading.Lock()
    with (
        tempfile.NamedTemporaryFile() as turn,
        concurrent.futures.ThreadPoolExecutor(side_by_side) as pool,
    ):

        def note(number: int, each: Measured) -> None:
            record = _record(each, checkouts[each.checkout], turn.name, counts)
            with lock:
                records[number] = record
                keep([records[number] for number in sorted(records)])

        for waiting in [pool.submit(note, number, each) for number, each in enumerate(measured)]:
            waiting.result()


def _record(measured: Measured, path: Path, turn: str, counts: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "algorithm": measured.name,
        "kind": measured.kind,
        "dtype": "float64" if measured.float64 else "float32",
    }
    record |= {"checkout": measured.checkout, "platform": measured.platform}
    record |= _in_process("seconds", measured, path, turn)
    if counts and measured.kind == "call" and "error" not in record:
        record |= _in_process("counts", measured, path, turn)
    _say(
        ", ".join(
            f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in record.items()
        )
    )
    return record


def list_measured(
    names: Sequence[str],
    kinds: Sequence[str],
    *,
    float64: bool,
    platforms: Sequence[str | None],
    checkouts: Sequence[str],
) -> list[Measured]:
    """All that apply; platforms and checkouts take turns."""
    known, peers = contenders(0), _peers(0)
    return [
        Measured(name, kind, x64, platform, checkout)
        for name, kind, x64, platform, checkout in itertools.product(
            names, kinds, (False, True), platforms, checkouts
        )
        if (known[name].traceable or not KINDS[kind].traceable_only)
        and (not x64 or (float64 and kind == "call" and name not in peers))
    ]


def _in_process(what: str, measured: Measured, checkout: Path, turn: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        place, dump = Path(folder) / "packages", Path(folder) / "dump"
        place.mkdir()
        (place / "jboost").symlink_to(checkout / "jboost")
        (place / "benchmarks").symlink_to(harness.ROOT / "benchmarks")
        environment = {
            **os.environ,
            "PYTHONPATH": str(place),
            "JAX_ENABLE_X64": str(measured.float64),
            _TURN: turn,
        }
        environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false", "OPENBLAS_NUM_THREADS": "1"}
        if measured.platform is not None:
            environment["JAX_PLATFORMS"] = measured.platform
        if what == "counts":
            flags = f"--xla_dump_to={dump} --xla_dump_hlo_as_text"
            environment |= {
                "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
                "JAX_DUMP_IR_TO": str(dump),
            }
        command = [
            sys.executable,
            "-m",
            "benchmarks.compilation",
            "--one",
            what,
            measured.name,
            measured.kind,
            str(dump),
        ]
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=place,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {_TIMEOUT} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(results: Mapping[str, Any]) -> str:
    """All records, a row each."""
    header = (
        "algorithm",
        "called",
        "checkout",
        "platform",
        "float",
        "programs",
        "StableHLO operations",
        "fusions (distinct)",
        "while loops",
        "trace and lower",
        "XLA",
        "later calls",
        "largest sources of fusions",
    )
    rows = [_row(record) for record in results["records"]]
    beside = (
        f" ({results['side_by_side']} processes in parallel)" if results["side_by_side"] > 1 else ""
    )
    title = (
        f"The first call of each public algorithm on {results['num_examples']} examples, in a new"
        f" process{beside}; elapsed seconds."
    )
    if "remark" in results:  # of results that were joined by hand
        title += f" {results['remark']}"
    return title + "\n\n" + harness.markdown_table(header, rows)


def _row(record: Mapping[str, Any]) -> list[str]:
    cells = [
        record["algorithm"],
        record["kind"],
        record["checkout"],
        record["platform"] or "",
        record["dtype"].removeprefix("float"),
    ]
    if "error" in record:
        return [*cells, *[""] * 7, record["error"]]
    seconds = [
        harness.seconds_text(record[key]) for key in ("trace_seconds", "xla_seconds", "run_seconds")
    ]
    if "fusions" not in record:
        return [*cells, str(record["num_programs"]), *[""] * 3, *seconds, ""]
    counts = [
        str(record["operations"]),
        f"{record['fusions']} ({record['distinct_fusions']})",
        str(record["while_loops"]),
    ]
    by_count = sorted(record["sources"].items(), key=lambda item: -item[1])
    sources = ", ".join(f"{name} {count}" for name, count in by_count)
    return [*cells, str(record["num_programs"]), *counts, *seconds, sources]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compilation", description=__doc__.split(": `python")[0] + "."
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="algorithms whose names hold this text; may be given again",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="another checkout, to be measured beside this one",
    )
    parser.add_argument(
        "--platform",
        action="append",
        metavar="NAME",
        help="as in JAX_PLATFORMS; may be given again; default JAX's own choice",
    )
    parser.add_argument(
        "--side-by-side", type=int, default=1, metavar="N", help="processes at a time; default 1"
    )
    parser.add_argument("--float64", action="store_true", help="with 64-bit types enabled as well")
    parser.add_argument(
        "--calls-only", action="store_true", help="neither batches nor calls inside of a jit"
    )
    parser.add_argument(
        "--seconds-only",
        action="store_true",
        help="without the counts of operations and fusions, which take a process of their own",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="default benchmarks/results, and benchmarks-out with --only",
    )
    parser.add_argument(
        "--one", nargs=4, metavar=("WHAT", "NAME", "KIND", "FOLDER"), help=argparse.SUPPRESS
    )
    options = parser.parse_args(arguments)
    if options.one:
        what, name, kind, folder = options.one
        print(
            json.dumps(
                seconds_of(name, KINDS[kind])
                if what == "seconds"
                else counts_of(name, Path(folder))
            )
        )
        return 0
    names = [
        name
        for name in contenders(0)
        if not options.only or any(text in name for text in options.only)
    ]
    checkouts = {"before": options.before.resolve()} if options.before else {}
    kinds = ["call"] if options.calls_only else list(KINDS)
    measured = list_measured(
        names,
        kinds,
        float64=options.float64,
        platforms=options.platform or [None],
        checkouts=[*checkouts, "this"],
    )
    output = options.output or (harness.TRIALS if options.only else harness.RESULTS)
    sizes = {
        "num_examples": len(algorithms()["adaboost.fit"].arrays[0]),
        "side_by_side": options.side_by_side,
    }

    def keep(records: list[dict[str, Any]]) -> None:
        harness.write("compilation", {**sizes, "records": records}, output)

    run(
        measured,
        {**checkouts, "this": harness.ROOT},
        keep,
        side_by_side=options.side_by_side,
        counts=not options.seconds_only,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
