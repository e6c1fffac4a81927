"""Branch and bound over lines against the sweep: `python -m benchmarks.pair_branch_and_bound`.

Writes pair_branch_and_bound: seconds to the certified optimum with its largest margin, by data set
and size; peak memory of the process so far, in order of size. The sweep runs beside it up to a
size, and finds the same loss and margin.
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
from benchmarks import harness, pair_sweep
from benchmarks.harness import Contender

SIZES = {
    "two Gaussians": (10**4, 10**5, 10**6, 10**7),
    "Ripley's mixture": (10**4, 10**5, 10**6, 10**7),
    "random labels": (10**4,),
}
QUICK_SIZES = {
    "two Gaussians": (1000, 10**4),
    "Ripley's mixture": (1000,),
    "random labels": (1000,),
}


def run(
    sizes: Mapping[str, Iterable[int]], *, repeats: int, cap_seconds: float, largest_sweep: int
) -> dict[str, Any]:
    """Every data set at its sizes, the smallest first."""
    work = sorted((size, name) for name, its_sizes in sizes.items() for size in its_sizes)
    return {
        "records": [
            _record(name, size, repeats=repeats, cap=cap_seconds, largest_sweep=largest_sweep)
            for size, name in work
        ]
    }


def _record(
    name: str, size: int, *, repeats: int, cap: float, largest_sweep: int
) -> dict[str, Any]:
    points, labels = (jax.device_put(array) for array in pair_sweep.make_data(name, size))
    steps: list[jboost.pair.BranchAndBoundInfo] = []
    solve = functools.partial(jboost.pair.optimal_separator, points, labels)
    contenders = [
        Contender(
            "branch and bound",
            functools.partial(solve, method="branch_and_bound"),
            repeats=repeats,
            cap_seconds=cap,
        )
    ]
    if size <= largest_sweep:
        contenders.append(
            Contender(
                "sweep", functools.partial(solve, method="sweep"), repeats=repeats, cap_seconds=cap
            )
        )
    measurements, values = harness.race(contenders, fresh=False)
    best = values["branch and bound"]
    assert float(best.loss) == float(best.lower_bound), (name, size)
    if "sweep" in values:
        assert float(values["sweep"].loss) == float(best.loss), (name, size)
        assert np.isclose(float(values["sweep"].margin), float(best.margin), rtol=1e-5), (
            name,
            size,
        )
    solve(method="branch_and_bound", on_step=lambda _, info: steps.append(info))
    record = {
        "contenders": {who: {"seconds": seconds} for who, seconds in measurements.items()},
        "data": name,
        "dtype": str(points.dtype),
        "loss": best.loss,
        "margin": best.margin,
        "most_entries": max((info.num_entries for info in steps), default=0),
        "num_steps": len(steps),
        "peak_bytes": pair_sweep.peak_resident_bytes(),
        "size": size,
        "status": harness.status_name(best.status),
    }
    print(
        f"{name}, n = {size}: "
        + "; ".join(
            f"{who} {harness.seconds_text(it.run_seconds)}" for who, it in measurements.items()
        ),
        file=sys.stderr,
    )
    return record


def table(results: Mapping[str, Any]) -> str:
    """The rows of README: seconds and memory by data set and size."""
    header = (
        "data",
        "n",
        "optimal loss",
        "branch and bound",
        "CPU seconds",
        "sweep",
        "ratio",
        "peak memory",
    )
    rows = []
    for record in results["records"]:
        ours, sweep = (
            record["contenders"].get(who, {}).get("seconds")
            for who in ("branch and bound", "sweep")
        )
        rows.append(
            (
                record["data"],
                f"{record['size']:,}",
                f"{record['loss']:,.0f}",
                harness.seconds_text(ours["run_seconds"]),
                harness.seconds_text(ours["cpu_seconds"]),
                harness.seconds_text(sweep and sweep["run_seconds"]),
                f"{sweep['run_seconds'] / ours['run_seconds']:,.1f}" if sweep else "",
                f"{record['peak_bytes'] / 2**20:,.0f} MiB",
            )
        )
    text = (
        "The optimal line with its largest margin, certified, by branch and bound, without"
        " compilation. Memory is the peak of the process up to that row."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pair_branch_and_bound", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few runs, into benchmarks-out: for trying it out",
    )
    parser.add_argument(
        "--largest",
        type=int,
        default=10**7,
        metavar="N",
        help="leave out larger sizes; default %(default)s",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help="runs of each contender, of which the best counts; default 5, quick 2",
    )
    parser.add_argument(
        "--cap",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="a contender gets no further run after this; default %(default)s",
    )
    parser.add_argument(
        "--largest-sweep",
        type=int,
        default=10**4,
        metavar="N",
        help="the sweep is not run past this size; default %(default)s",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    wanted = QUICK_SIZES if options.quick else SIZES
    sizes = {
        name: [size for size in its_sizes if size <= options.largest]
        for name, its_sizes in wanted.items()
    }
    repeats = options.repeats or (2 if options.quick else 5)
    results = run(
        sizes, repeats=repeats, cap_seconds=options.cap, largest_sweep=options.largest_sweep
    )
    path = harness.write(
        "pair_branch_and_bound",
        results,
        options.output or (harness.TRIALS if options.quick else harness.RESULTS),
    )
    print(f"wrote {path.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
