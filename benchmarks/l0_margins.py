"""The best margin of (25) of Goldberg and Eckstein (2009) by search and by one linear program:
`python -m benchmarks.l0_margins`.

`jboost.l0.search_margin` branches on rho, with bounds. `jboost.l0.solve_linear_margin` has 2 in
place of 1 + rho. Over the same pool of stumps both bound the optimum of (25); the objective of (25)
at the margin of the linear program is that of `solve_relaxation` there. Penalties are shares of 1 /
m, as z grows with m.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jboost
from benchmarks import harness
from benchmarks.l0_relaxation import make_pool

SIZES = ((40, 12),)  # examples, and columns with the two constants
PENALTIES = (1.0, 4.0, 16.0, 64.0)  # times 1 / m; below, the optimum is at rho = 1
SEEDS = range(2)
COST = 1.0
OPTIONS = {"max_rounds": 12, "max_columns": 40, "max_margins": 24, "margin_tolerance": 0.01}


def measure(num_examples: int, num_columns: int, seed: int, share: float) -> dict[str, Any]:
    """Both margins and all bounds on one pool."""
    outputs, labels, _ = make_pool("stumps", num_examples, num_columns, seed)
    columns, penalty = outputs[:, 2:], share / num_examples
    pool = np.concatenate([outputs[:, :2], columns, -columns], axis=1)
    costs = np.r_[0, 0, np.full(2 * columns.shape[1], COST)]
    linear = jboost.l0.solve_linear_margin(pool, labels, costs, penalty=penalty)
    found = jboost.l0.search_margin(
        jboost.make_dataset(columns, labels),
        jboost.learners.pool(cost=COST, num_proposed=4),
        penalty=penalty,
        **OPTIONS,
    )
    margin = float(np.clip(linear.margin, 1e-3, 1.0))
    there = jboost.l0.solve_relaxation(pool, labels, costs, margin=margin)
    return {
        "num_examples": num_examples,
        "num_columns": num_columns,
        "seed": seed,
        "share": share,
        "margin": float(found.margin),
        "lower_bound": float(found.lower_bound),
        "upper_bound": float(found.upper_bound),
        "num_margins": int(found.num_margins),
        "linear_margin": float(linear.margin),
        "linear_upper_bound": float(linear.upper_bound),
        "attained_at_linear_margin": margin - penalty * float(there.upper_bound),
        "status": int(found.status),
        "linear_status": int(linear.status),
    }


def run(sizes: Sequence[tuple[int, int]], seeds: Sequence[int]) -> dict[str, Any]:
    """All pools and penalties."""
    records = []
    for size in sizes:
        for seed in seeds:
            for share in PENALTIES:
                records.append(measure(*size, seed, share))
                print(records[-1], file=sys.stderr, flush=True)
    return {"records": records, "cost": COST, **OPTIONS}


def table(results: Mapping[str, Any]) -> str:
    """Means over the seeds."""
    groups: dict[tuple[int, int, float], list[Mapping[str, Any]]] = {}
    for record in results["records"]:
        key = record["num_examples"], record["num_columns"], record["share"]
        groups.setdefault(key, []).append(record)
    names = (
        "margin",
        "lower_bound",
        "upper_bound",
        "num_margins",
        "linear_margin",
        "attained_at_linear_margin",
        "linear_upper_bound",
    )
    rows = [
        (
            f"{examples} x {columns}",
            f"{share:g} / m",
            *(f"{np.mean([record[name] for record in records]):.3g}" for name in names),
        )
        for (examples, columns, share), records in groups.items()
    ]
    header = ("pool", "penalty", "rho", "attained", "bound", "margins tried")
    header = (*header, "linear: rho", "attained there", "linear: bound")
    text = (
        "(25) by `search_margin` and by its linear variant, pools of stumps, means over the seeds."
        " Attained and bound are of the objective of (25)."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.l0_margins", description=__doc__.split(": `python")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="one pool, into benchmarks-out")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    sizes, seeds = (SIZES[:1], SEEDS[:1]) if options.quick else (SIZES, SEEDS)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    harness.write("l0_margins", run(sizes, seeds), output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
