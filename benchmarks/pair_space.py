"""The best plane of three classifiers, by branch and bound over cells of planes and by the sweep:
`python -m benchmarks.pair_space`.

Writes pair_space: seconds to the certified optimum with its largest margin, by data set and size.
The sweep runs beside it up to a size, and finds the same loss and margin.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.harness import Contender

SIZES, QUICK_SIZES = (100, 300, 1000, 3000, 10_000, 100_000), (100,)
# of the classes from each other, by half of it either way, along every coordinate
SHIFT = {"two Gaussians": 0.6, "random labels": 0.0}
MOST_RANDOM = 3000  # labels that say nothing leave many more cells


def make_data(name: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Points [n, 3] float32 and labels [n] int32, the same at every call."""
    rng = np.random.default_rng([size, list(SHIFT).index(name)])
    labels = np.where(rng.random(size) < 0.5, 1, -1).astype(np.int32)
    return (rng.normal(size=(size, 3)) + SHIFT[name] * labels[:, None]).astype(np.float32), labels


def run(
    sizes: Sequence[int], *, repeats: int, cap_seconds: float, largest_sweep: int
) -> dict[str, Any]:
    """Both data sets at all sizes."""
    work = [
        (name, size)
        for size in sizes
        for name in SHIFT
        if name == "two Gaussians" or size <= MOST_RANDOM
    ]
    return {
        "records": [_record(name, size, repeats, cap_seconds, largest_sweep) for name, size in work]
    }


def _record(name: str, size: int, repeats: int, cap: float, largest_sweep: int) -> dict[str, Any]:
    points, labels = make_data(name, size)
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
    if "sweep" in values:
        assert float(values["sweep"].loss) == float(best.loss), (name, size)
        assert np.isclose(float(values["sweep"].margin), float(best.margin), rtol=1e-5), (
            name,
            size,
        )
    print(
        f"{name}, n = {size}: "
        + "; ".join(
            f"{who} {harness.seconds_text(it.run_seconds)}" for who, it in measurements.items()
        ),
        file=sys.stderr,
    )
    return {
        "contenders": {who: {"seconds": seconds} for who, seconds in measurements.items()},
        "data": name,
        "loss": best.loss,
        "lower_bound": best.lower_bound,
        "margin": best.margin,
        "size": size,
        "status": harness.status_name(best.status),
    }


def table(results: Mapping[str, Any]) -> str:
    """The rows of README: seconds by data set and size."""
    rows = []
    for record in results["records"]:
        ours, sweep = (
            record["contenders"].get(who, {}).get("seconds")
            for who in ("branch and bound", "sweep")
        )
        cells = [
            harness.seconds_text(ours["run_seconds"]),
            harness.seconds_text(ours["cpu_seconds"]),
        ]
        cells += [
            harness.seconds_text(sweep and sweep["run_seconds"]),
            f"{sweep['run_seconds'] / ours['run_seconds']:,.1f}" if sweep else "",
        ]
        rows.append(
            (
                record["data"],
                f"{record['size']:,}",
                f"{record['loss']:,.0f}",
                record["status"],
                *cells,
            )
        )
    text = (
        "The optimal plane of three classifiers with its largest margin, by branch and bound over"
        " cells of planes and by the sweep, without compilation."
    )
    header = (
        "data",
        "n",
        "optimal loss",
        "status",
        "branch and bound",
        "CPU seconds",
        "sweep",
        "ratio",
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pair_space", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one small size and few runs, into benchmarks-out: for trying it out",
    )
    parser.add_argument(
        "--largest",
        type=int,
        default=SIZES[-1],
        metavar="N",
        help="leave out larger sizes; default %(default)s",
    )
    parser.add_argument(
        "--largest-sweep",
        type=int,
        default=300,
        metavar="N",
        help="the sweep is not run past this size; default %(default)s",
    )
    parser.add_argument(
        "--cap",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="a contender gets no further run after this; default %(default)s",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    sizes = [size for size in (QUICK_SIZES if options.quick else SIZES) if size <= options.largest]
    results = run(
        sizes,
        repeats=2 if options.quick else 5,
        cap_seconds=options.cap,
        largest_sweep=options.largest_sweep,
    )
    path = harness.write(
        "pair_space",
        results,
        options.output or (harness.TRIALS if options.quick else harness.RESULTS),
    )
    print(f"wrote {path.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
