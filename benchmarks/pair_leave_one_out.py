"""Leave-one-out errors and Pareto fronts of the exact pair against one search: `python -m
benchmarks.pair_leave_one_out`.

Writes pair_leave_one_out (both models beside one `optimal_separator`) and pair_pareto (whole
fronts).
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.harness import Contender
from benchmarks.pair_sweep import DATA, make_data

SIZES = (1000, 10_000, 100_000)
LARGEST_OCCURRENCE = 1000  # points; this model takes the sweep, whatever the size
FRONT_SIZES = (300, 1000, 3000, 10_000)
FRONT_METHODS = ("sweep", "branch_and_bound")
LARGEST_SWEPT_FRONT = 1000  # points; ten times as many take six minutes
QUICK_SIZES = (300,)
MODELS = ("max_margin", "occurrence")


def run_leave_one_out(sizes: Iterable[int], *, repeats: int, cap_seconds: float) -> dict[str, Any]:
    """One search, and what it does to each point left out, by size and data set."""
    return {
        "records": [
            _leave_one_out_record(name, size, repeats, cap_seconds)
            for size in sorted(sizes)
            for name in DATA
        ]
    }


def _leave_one_out_record(name: str, size: int, repeats: int, cap_seconds: float) -> dict[str, Any]:
    points, labels = make_data(name, size)
    models = [model for model in MODELS if model != "occurrence" or size <= LARGEST_OCCURRENCE]
    search = functools.partial(jboost.pair.optimal_separator, points, labels)
    contenders = [Contender("one search", search, repeats=repeats, cap_seconds=cap_seconds)]
    for model in models:
        call = functools.partial(jboost.pair.leave_one_out, points, labels, model=model)
        contenders.append(Contender(model, call, repeats=repeats, cap_seconds=cap_seconds))
    measurements, values = harness.race(contenders)
    results: dict[str, Any] = {"one search": {"loss": values["one search"].loss}}
    for model in models:
        result = values[model]
        kinds = np.bincount(np.asarray(result.kinds), minlength=4)[1:].tolist()
        results[model] = {
            "error": result.error,
            "kinds": kinds,
            "status": harness.status_name(result.status),
        }
    for contender, result in results.items():
        result["seconds"] = measurements[contender]
        result["cpu_ratio"] = (
            measurements[contender].cpu_seconds / measurements["one search"].cpu_seconds
        )
    ratios = harness.ratios(measurements, "one search")
    _say(
        f"{name}, n = {size}: "
        + "; ".join(f"{model} {ratio:.2f} searches" for model, ratio in ratios.items())
    )
    return {
        "contenders": results,
        "data": name,
        "dtype": str(points.dtype),
        "ratios_to_one_search": ratios,
        "size": size,
    }


def run_pareto(sizes: Iterable[int], *, repeats: int, cap_seconds: float) -> dict[str, Any]:
    """Whole fronts, by size, data set and method."""
    return {
        "records": [
            _pareto_record(name, size, repeats, cap_seconds)
            for size in sorted(sizes)
            for name in DATA
        ]
    }


def _pareto_record(name: str, size: int, repeats: int, cap_seconds: float) -> dict[str, Any]:
    points, labels = make_data(name, size)
    contenders = []
    for method in FRONT_METHODS:
        if method != "sweep" or size <= LARGEST_SWEPT_FRONT:
            call = functools.partial(
                jboost.pair.pareto_front, points, labels, max_points=size // 2 + 1, method=method
            )
            contenders.append(Contender(method, call, repeats=repeats, cap_seconds=cap_seconds))
    measurements, values = harness.race(contenders)
    front = values["branch_and_bound"]
    for method, other in values.items():
        for field in ("losses", "margins"):
            ours, theirs = (np.asarray(getattr(each, field)) for each in (front, other))
            assert ours.tobytes() == theirs.tobytes(), (
                f"{name}, n = {size}: {field} of {method} differ"
            )
    seconds = "; ".join(
        f"{method} {harness.seconds_text(it.run_seconds)}" for method, it in measurements.items()
    )
    _say(f"front of {name}, n = {size}: {int(front.count)} points, {seconds}")
    return {
        "contenders": {
            method: {"seconds": it, "status": harness.status_name(values[method].status)}
            for method, it in measurements.items()
        },
        "count": front.count,
        "data": name,
        "dtype": str(points.dtype),
        "last_loss": front.losses[int(front.count) - 1],
        "loss": front.losses[0],
        "margin": front.margins[0],
        "size": size,
    }


def leave_one_out_table(results: Mapping[str, Any]) -> str:
    """The rows of README: times, errors and kinds."""
    header = (
        "data",
        "n",
        "one search",
        *(
            f"{model}{what}"
            for model in MODELS
            for what in ("", ": ratio", ": CPU ratio", ": error", ": kinds 1 / 2 / 3")
        ),
    )
    rows = []
    for record in results["records"]:
        row = [
            record["data"],
            f"{record['size']:,}",
            harness.seconds_text(record["contenders"]["one search"]["seconds"]["run_seconds"]),
        ]
        for model in MODELS:
            result = record["contenders"].get(model)
            if result is None:
                row += [""] * 5
                continue
            row += [
                harness.seconds_text(result["seconds"]["run_seconds"]),
                f"{record['ratios_to_one_search'][model]:.1f}",
            ]
            row += [
                f"{result['cpu_ratio']:.1f}",
                f"{result['error']:.4f}",
                " / ".join(map(str, result["kinds"])),
            ]
        rows.append(tuple(row))
    text = (
        "Leave-one-out errors of the optimal line, with unit weights, and one search for that line"
        " (the largest margin among all optima): by the sweep up to 8,192 points, by branch and"
        " bound above. Ratios are to that search, of seconds and of CPU seconds."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def pareto_table(results: Mapping[str, Any]) -> str:
    """The rows of README: lengths and times of fronts."""
    header = (
        "data",
        "n",
        "method",
        "points on the front",
        "losses",
        "time",
        "CPU seconds",
        "per point",
    )
    rows = []
    for record in results["records"]:
        for method, result in record["contenders"].items():
            seconds = result["seconds"]
            row = [
                record["data"],
                f"{record['size']:,}",
                method,
                str(record["count"]),
                f"{record['loss']:g} to {record['last_loss']:g}",
            ]
            row += [harness.seconds_text(seconds["run_seconds"]), f"{seconds['cpu_seconds']:.2f}"]
            rows.append((*row, harness.seconds_text(seconds["run_seconds"] / record["count"])))
    return (
        "The Pareto front of weight against margin, by the sweep up to 1,000 points and by"
        " branch and bound. Losses and margins of both are bitwise equal.\n\n"
        + harness.markdown_table(header, rows)
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pair_leave_one_out", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few runs, into benchmarks-out: for trying it out",
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        metavar="N",
        help=f"points for leave-one-out; default {' '.join(map(str, SIZES))}",
    )
    parser.add_argument(
        "--front-sizes",
        type=int,
        nargs="+",
        metavar="N",
        help=f"points for fronts; default {' '.join(map(str, FRONT_SIZES))}",
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
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    parser.add_argument(
        "--only", choices=("leave_one_out", "pareto"), nargs="+", help="default: both"
    )
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    limits = {"repeats": options.repeats or (2 if options.quick else 5), "cap_seconds": options.cap}
    sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    front_sizes = options.front_sizes or (QUICK_SIZES if options.quick else FRONT_SIZES)
    parts = {
        "leave_one_out": lambda: run_leave_one_out(sizes, **limits),
        "pareto": lambda: run_pareto(front_sizes, **limits),
    }
    for part in options.only or parts:
        _say(f"wrote {harness.write(f'pair_{part}', parts[part](), output).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
