"""`jboost.pair.optimal_separator` against a plain JAX sweep and an integer program: `python -m
benchmarks.pair_sweep`.

Writes pair_sweep (one data set a call), pair_batch (1,000 data sets in one call) and, with --large,
pair_memory. A (centre, point) pair is the unit of work: centres are the points of the smaller
class.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.harness import Contender, Peer
from benchmarks.peers import integer_program, plain_sweep

SIZES = (50, 100, 200, 300, 1000, 3000, 10_000)
QUICK_SIZES = (50, 300, 1000)
BATCH = (1000, 100)  # data sets, points in each
LARGE_SIZE = 100_000
SEED = 20_240_501


def gaussians(size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping round Gaussians."""
    labels = _balanced_labels(size, random)
    return random.normal(size=(size, 2)) + labels[:, None] * np.array([0.7, 0.3]), labels


def ripley(size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ripley's mixture: each class two Gaussians of variance 0.03 (Pattern Recognition and Neural
    Networks, 1996).
    """
    labels = _balanced_labels(size, random)
    means = np.array([[[-0.7, 0.3], [0.3, 0.3]], [[-0.3, 0.7], [0.4, 0.7]]])
    centres = means[(labels > 0).astype(int), random.integers(0, 2, size)]
    return centres + np.sqrt(0.03) * random.normal(size=(size, 2)), labels


def random_labels(size: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One round Gaussian whose labels say nothing."""
    return random.normal(size=(size, 2)), _balanced_labels(size, random)


def _balanced_labels(size: int, random: np.random.Generator) -> np.ndarray:
    return random.permutation(np.where(np.arange(size) % 2 == 0, 1, -1)).astype(np.int32)


DATA = {"two Gaussians": gaussians, "Ripley's mixture": ripley, "random labels": random_labels}


def make_data(name: str, size: int, *, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Points [n, 2] float32 and labels [n] int32, the same at every call."""
    points, labels = DATA[name](size, np.random.default_rng([seed, list(DATA).index(name), size]))
    return points.astype(np.float32), labels


def run_sweep(
    sizes: Iterable[int],
    *,
    repeats: int,
    cap_seconds: float,
    program_seconds: float,
    program_max_size: int,
) -> dict[str, Any]:
    """The sweep and its peers on every data set and size."""
    plain = Peer(cap_seconds=cap_seconds)
    # it has a time limit of its own
    program = Peer(cap_seconds=float("inf"), max_size=program_max_size)
    records = [
        _sweep_record(
            name,
            size,
            first=index == 0,
            plain=plain,
            program=program,
            program_seconds=program_seconds,
            repeats=repeats,
            cap=cap_seconds,
        )
        for size in sorted(sizes)
        for index, name in enumerate(DATA)
    ]
    return {"records": records}


def _sweep_record(
    name: str,
    size: int,
    *,
    first: bool,
    plain: Peer,
    program: Peer,
    program_seconds: float,
    repeats: int,
    cap: float,
) -> dict[str, Any]:
    points, labels = make_data(name, size)
    num_pairs = size * min(int((labels > 0).sum()), int((labels < 0).sum()))
    solve = functools.partial(jboost.pair.optimal_separator, points, labels, method="sweep")
    contenders = [
        Contender(
            "jboost", functools.partial(solve, tie_break=None), repeats=repeats, cap_seconds=cap
        ),
        Contender(
            "jboost margin",
            functools.partial(solve, tie_break="margin"),
            repeats=repeats,
            cap_seconds=cap,
        ),
    ]
    skipped = {"plain JAX": plain.reason_to_skip(size), "HiGHS": program.reason_to_skip(size)}
    if skipped["plain JAX"] is None:
        contenders.append(
            Contender(
                "plain JAX",
                lambda: plain_sweep.least_loss(points, labels),
                repeats=repeats,
                cap_seconds=cap,
            )
        )
    measurements, values = harness.race(contenders, fresh=first)
    if skipped["HiGHS"] is None:  # runs by itself: it may use all cores and two minutes
        call = functools.partial(
            integer_program.least_loss, points, labels, time_limit=program_seconds
        )
        its_measurements, its_values = harness.race(
            [Contender("HiGHS", call, compiles=False, repeats=1)], fresh=False
        )
        measurements |= its_measurements
        values |= its_values

    best = values["jboost"]
    optimum = float(best.loss)
    assert optimum == float(best.lower_bound) == float(values["jboost margin"].loss), (name, size)
    results: dict[str, Any] = {
        "jboost": {"margin": best.margin},
        "jboost margin": {"margin": values["jboost margin"].margin},
    }
    for ours, result in results.items():
        separator = values[ours]
        result |= {
            "loss": separator.loss,
            "lower_bound": separator.lower_bound,
            "status": harness.status_name(separator.status),
        }
    if "plain JAX" in values:
        plain.note(size, measurements["plain JAX"].run_seconds)
        results["plain JAX"] = {"loss": values["plain JAX"]}
        assert float(values["plain JAX"]) == optimum, (
            f"{name}, n = {size}: the plain sweep finds {float(values['plain JAX'])}, jboost"
            f" {optimum}"
        )
    if "HiGHS" in values:
        found = values["HiGHS"]
        assert found.loss >= optimum, (
            f"{name}, n = {size}: the integer program finds {found.loss}, jboost {optimum}"
        )
        results["HiGHS"] = {
            **found._asdict(),
            "same_loss": found.loss == optimum,
            "time_limit": program_seconds,
        }
    for contender, result in results.items():
        seconds = measurements[contender]
        result["seconds"] = seconds
        if contender != "HiGHS":
            result["ns_per_pair"] = seconds.run_seconds / num_pairs * 1e9
    record = {
        "contenders": (
            results | {peer: {"skipped": reason} for peer, reason in skipped.items() if reason}
        ),
        "data": name,
        "dtype": str(points.dtype),
        "num_pairs": num_pairs,
        "optimum": optimum,
        "ratios_to_jboost": harness.ratios(measurements, "jboost"),
        "size": size,
    }
    _say(f"{name}, n = {size}: {_times(measurements)}")
    return record


def run_batch(num_sets: int, size: int, *, repeats: int, cap_seconds: float) -> dict[str, Any]:
    """Many small data sets in one vmapped call, against a Python loop of calls that are compiled
    once.
    """
    records = []
    for name in DATA:
        sets = [make_data(name, size, seed=SEED + index) for index in range(num_sets)]
        points, labels = (np.stack(arrays) for arrays in zip(*sets, strict=True))
        batched = jax.jit(jax.vmap(jboost.pair.optimal_separator))

        def in_a_loop(
            sets: Sequence[tuple[np.ndarray, np.ndarray]] = sets,
        ) -> list[jboost.pair.Separator]:
            return [jboost.pair.optimal_separator(points, labels) for points, labels in sets]

        contenders = [
            Contender(
                "one call",
                functools.partial(batched, points, labels),
                repeats=repeats,
                cap_seconds=cap_seconds,
            ),
            Contender("a loop of calls", in_a_loop, repeats=repeats, cap_seconds=cap_seconds),
        ]
        measurements, values = harness.race(contenders)
        one, many = (
            values["one call"],
            jax.tree.map(lambda *leaves: np.stack(leaves), *values["a loop of calls"]),
        )
        for field, ours, theirs in zip(one._fields, one, many, strict=True):
            assert np.asarray(ours).tobytes() == theirs.tobytes(), (
                f"{name}: {field} of the batch differs from the loop"
            )
        records.append(
            {
                "contenders": {
                    who: {"seconds": it, "us_per_data_set": it.run_seconds / num_sets * 1e6}
                    for who, it in measurements.items()
                },
                "data": name,
                "dtype": str(points.dtype),
                "equal_to_the_bit": True,
                "num_sets": num_sets,
                "ratios_to_one_call": harness.ratios(measurements, "one call"),
                "size": size,
                "status": harness.status_name(one.status),
            }
        )
        _say(
            f"batch of {num_sets} x {size}, {name}: "
            + "; ".join(
                f"{who} {harness.seconds_text(it.run_seconds)}" for who, it in measurements.items()
            )
        )
    return {"records": records}


def run_large(size: int) -> dict[str, Any]:
    """One call in a process of its own, for its peak memory."""
    _say(f"one call at n = {size}, in a process of its own")
    command = [sys.executable, "-m", "benchmarks.pair_sweep", "--measure-memory", str(size)]
    answer = subprocess.run(
        command, cwd=harness.ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    record = json.loads(answer.stdout.splitlines()[-1])
    _say(
        f"n = {size}: {harness.seconds_text(record['seconds'])}, peak"
        f" {record['peak_bytes'] / 2**20:.0f} MiB"
    )
    return {"records": [record]}


def measure_memory(size: int) -> dict[str, Any]:
    """Peak memory of one call, first call and all, in this process: run it in a fresh one."""
    name = "two Gaussians"
    points, labels = make_data(name, size)
    jax.block_until_ready(jax.numpy.zeros(()))
    before = peak_resident_bytes()
    start = time.perf_counter()
    separator = jax.block_until_ready(jboost.pair.optimal_separator(points, labels))
    seconds = time.perf_counter() - start
    on_device = jax.devices()[0].memory_stats() or {}  # None on a CPU
    return {
        "bytes_before": before,
        "data": name,
        "device_peak_bytes": on_device.get("peak_bytes_in_use"),
        "dtype": str(points.dtype),
        "loss": float(separator.loss),
        "lower_bound": float(separator.lower_bound),
        "peak_bytes": peak_resident_bytes(),
        "seconds": seconds,
        "size": size,
        "status": harness.status_name(separator.status),
    }


def peak_resident_bytes() -> int:
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def sweep_table(results: Mapping[str, Any]) -> str:
    """The rows of README: losses and times by data set and size."""
    header = (
        "data",
        "n",
        "optimal loss",
        "jboost",
        "ns per pair",
        "with largest margin",
        "plain JAX",
        "ratio",
        "HiGHS",
        "ratio",
    )
    rows = []
    for record in results["records"]:
        run = {
            name: it["seconds"]["run_seconds"]
            for name, it in record["contenders"].items()
            if "seconds" in it
        }
        rows.append(
            (
                record["data"],
                f"{record['size']:,}",
                f"{record['optimum']:g}",
                harness.seconds_text(run["jboost"]),
                f"{record['contenders']['jboost']['ns_per_pair']:.2g}",
                harness.seconds_text(run["jboost margin"]),
                harness.seconds_text(run.get("plain JAX")),
                _ratio_text(record, "plain JAX"),
                harness.seconds_text(run.get("HiGHS")) + _unfinished(record),
                _ratio_text(record, "HiGHS"),
            )
        )
    ours = [
        it
        for record in results["records"]
        for name, it in record["contenders"].items()
        if name.startswith("jboost")
    ]
    compiling = [it["seconds"]["compile_seconds"] for it in ours]
    longest = max((seconds for seconds in compiling if seconds is not None), default=None)
    text = (
        "The optimal line for n points, one call, without compilation"
        + (f" (at most {longest:.1f} s, once for each n)" if longest is not None else "")
        + ". A pair is a (centre, point) pair, the unit of the sweep. `plain JAX` is the same sweep"
        " as arctan2, argsort and cumsum, and `HiGHS` the big-M integer program. All found the"
        " same loss; a number in brackets is the loss of HiGHS at its time limit. Ratios are to"
        " `jboost`."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def _ratio_text(record: Mapping[str, Any], peer: str) -> str:
    ratio = record["ratios_to_jboost"].get(peer)
    if ratio is None:
        return ""
    at_least = "> " if _unfinished(record) and peer == "HiGHS" else ""
    return f"{at_least}{ratio:,.{1 if ratio < 100 else 0}f}"


def _unfinished(record: Mapping[str, Any]) -> str:
    program = record["contenders"]["HiGHS"]
    return (
        ""
        if "skipped" in program or (program["status"] == "Optimal" and program["same_loss"])
        else f" ({program['loss']:g})"
    )


def batch_table(results: Mapping[str, Any]) -> str:
    """The rows of README: one call for many data sets."""
    header = ("data", "data sets", "n", "one call", "per data set", "a loop of calls", "ratio")
    rows = [
        (
            record["data"],
            f"{record['num_sets']:,}",
            f"{record['size']:,}",
            harness.seconds_text(record["contenders"]["one call"]["seconds"]["run_seconds"]),
            harness.seconds_text(record["contenders"]["one call"]["us_per_data_set"] * 1e-6),
            harness.seconds_text(record["contenders"]["a loop of calls"]["seconds"]["run_seconds"]),
            f"{record['ratios_to_one_call']['a loop of calls']:.1f}",
        )
        for record in results["records"]
    ]
    return (
        "Many data sets under `vmap`, with the largest margin; equal to the loop to the bit.\n\n"
        + harness.markdown_table(header, rows)
    )


def memory_table(results: Mapping[str, Any]) -> str:
    """The rows of README: peak memory."""
    header = (
        "data",
        "n",
        "seconds, compilation included",
        "peak memory of the process",
        "of it before the call",
    )
    rows = [
        (
            record["data"],
            f"{record['size']:,}",
            f"{record['seconds']:.0f}",
            *(f"{record[key] / 2**20:.0f} MiB" for key in ("peak_bytes", "bytes_before")),
        )
        for record in results["records"]
    ]
    return "Memory of one call with the largest margin.\n\n" + harness.markdown_table(header, rows)


def _times(measurements: Mapping[str, harness.Measurement]) -> str:
    return "; ".join(
        f"{who} {harness.seconds_text(it.run_seconds)}" for who, it in measurements.items()
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pair_sweep", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, few runs and short limits, into benchmarks-out: for trying it out",
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        metavar="N",
        help=f"number of points; default {' '.join(map(str, SIZES))}",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help="runs of each contender, of which the best counts; default 5, quick 2",
    )
    parser.add_argument(
        "--cap",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="a contender gets no further run after this; default %(default)s",
    )
    parser.add_argument(
        "--program-limit",
        type=float,
        metavar="SECONDS",
        help="time limit of HiGHS; default 120, quick 5",
    )
    parser.add_argument(
        "--program-max-size",
        type=int,
        default=200,
        metavar="N",
        help="HiGHS is not run past this size; default %(default)s",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    parser.add_argument(
        "--only", choices=("sweep", "batch", "memory"), nargs="+", help="default: sweep and batch"
    )
    parser.add_argument(
        "--large",
        type=int,
        nargs="?",
        const=LARGE_SIZE,
        metavar="N",
        help="also the memory of one call at N = 100,000: takes minutes",
    )
    parser.add_argument("--measure-memory", type=int, metavar="N", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure_memory is not None:
        print(json.dumps(measure_memory(options.measure_memory)))
        return 0
    jax.config.update("jax_enable_compilation_cache", False)
    quick = options.quick
    output = options.output or (harness.TRIALS if quick else harness.RESULTS)
    repeats = options.repeats or (2 if quick else 5)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "sweep": lambda: run_sweep(
            options.sizes or (QUICK_SIZES if quick else SIZES),
            repeats=repeats,
            cap_seconds=options.cap,
            program_seconds=options.program_limit or (5.0 if quick else 120.0),
            program_max_size=options.program_max_size,
        ),
        "batch": lambda: run_batch(
            *((100, 100) if quick else BATCH), repeats=repeats, cap_seconds=options.cap
        ),
        "memory": lambda: run_large(options.large or LARGE_SIZE),
    }
    wanted = options.only or ["sweep", "batch", *(["memory"] if options.large is not None else [])]
    for part in wanted:
        _say(f"wrote {_shown(harness.write(f'pair_{part}', parts[part](), output))}")
    return 0


def _shown(path: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(harness.ROOT) if path.is_relative_to(harness.ROOT) else path)


if __name__ == "__main__":
    sys.exit(main())
