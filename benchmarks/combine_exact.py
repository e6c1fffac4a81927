"""The exact combination of three to six classifiers beside HiGHS: `python -m
benchmarks.combine_exact [--quick]`.

Each has a time limit. Where it ends first, the bounds at that moment are shown. The tables have 300
rows, as haberman has 306, and few or many rows that no vote gets right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import jboost
from benchmarks import harness
from benchmarks.peers import integer_program

NUM_ROWS, QUICK_ROWS = 300, 40
NUM_CLASSIFIERS = (3, 4, 5, 6)
NOISE = (0.02, 0.25)  # the share of labels that are flipped
SECONDS, QUICK_SECONDS = 30.0, 5.0


def make_case(
    num_rows: int, num_classifiers: int, noise: float, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Scores [m, d] of classifiers that each see the label with some error, and labels [m]."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=num_rows)
    scores = direction[:, None] + rng.normal(scale=0.5, size=(num_rows, num_classifiers))
    labels = np.where(scores.mean(axis=1) > 0, 1.0, -1.0)
    flipped = rng.random(num_rows) < noise
    return np.round(scores, 2).astype(np.float32), np.where(flipped, -labels, labels)


def measure(num_rows: int, num_classifiers: int, noise: float, limit: float) -> dict[str, Any]:
    """The errors, bounds and seconds of both on one table."""
    scores, labels = make_case(num_rows, num_classifiers, noise)
    jboost.combine.fit(scores, labels, strategy="exact", time_limit=1)  # compiles
    start = time.perf_counter()
    vote = jboost.combine.fit(scores, labels, strategy="exact", time_limit=limit)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    program = integer_program.least_loss(scores, labels, time_limit=limit)
    return {
        "rows": num_rows,
        "classifiers": num_classifiers,
        "noise": noise,
        "errors": float(vote.loss),
        "lower_bound": float(vote.lower_bound),
        "status": jboost.status.Status(int(vote.status)).name,
        "seconds": seconds,
        "highs_errors": program.loss,
        "highs_lower_bound": program.lower_bound,
        "highs_seconds": time.perf_counter() - start,
    }


def table(results: Mapping[str, Any]) -> str:
    """The records as a table in Markdown."""
    cells = [
        [
            f"{record['rows']} x {record['classifiers']}",
            f"{100 * record['noise']:g} %",
            f"{record['errors']:g}",
            f"{record['lower_bound']:g}",
            record["status"],
            harness.seconds_text(record["seconds"]),
            f"{record['highs_errors']:g}",
            f"{record['highs_lower_bound']:.2f}",
            harness.seconds_text(record["highs_seconds"]),
        ]
        for record in results["records"]
    ]
    titles = [
        "size",
        "flipped",
        "errors",
        "lower bound",
        "status",
        "seconds",
        "HiGHS: errors",
        "HiGHS: lower bound",
        "HiGHS: seconds",
    ]
    return (
        "The fewest errors of a vote of classifiers, by branch and cut and by HiGHS on the"
        f" mixed-integer program; each has {results['seconds']:g} seconds of the clock, and the"
        " compilation is not counted.\n\n" + harness.markdown_table(titles, cells)
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.combine_exact", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables, a short time limit")
    given = parser.parse_args()
    rows, limit = (QUICK_ROWS, QUICK_SECONDS) if given.quick else (NUM_ROWS, SECONDS)
    records = []
    for noise in NOISE:
        for num_classifiers in NUM_CLASSIFIERS:
            records.append(measure(rows, num_classifiers, noise, limit))
            print(records[-1], flush=True)
    results = {"records": records, "seconds": limit}
    print(table(results))
    if not given.quick:
        print(harness.write("combine_exact", results))


if __name__ == "__main__":
    main()
