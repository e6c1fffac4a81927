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

NUM_ROWS, QUICK_ROWS = 300, 40
NUM_CLASSIFIERS = (3, 4, 5, 6)
NOISE = (0.02, 0.25)  # the share of labels that are flipped
SECONDS, QUICK_SECONDS = 30.0, 5.0
_LARGEST = 1e4  # of the coefficients of the program, in units of the least distance to the plane


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


def solve_by_highs(
    scores: np.ndarray, labels: np.ndarray, time_limit: float
) -> tuple[float, float]:
    """The least number of errors found, and HiGHS's lower bound: the mixed-integer program with a
    large constant, on scores scaled into [-1, 1].
    """
    from scipy import optimize, sparse

    num_rows, num_classifiers = scores.shape
    scaled = scores.astype(np.float64) / np.abs(scores).max()
    offset = num_classifiers * _LARGEST + 1
    big = 1 + _LARGEST * np.abs(scaled).sum(axis=1) + offset
    rows = sparse.hstack(
        [labels[:, None] * scaled, labels[:, None], sparse.diags(big)], format="csc"
    )
    size = num_classifiers + 1
    found = optimize.milp(
        np.r_[np.zeros(size), np.ones(num_rows)],
        constraints=optimize.LinearConstraint(rows, np.ones(num_rows), np.inf),
        integrality=np.r_[np.zeros(size), np.ones(num_rows)],
        bounds=optimize.Bounds(
            np.r_[np.full(num_classifiers, -_LARGEST), -offset, np.zeros(num_rows)],
            np.r_[np.full(num_classifiers, _LARGEST), offset, np.ones(num_rows)],
        ),
        options={"time_limit": time_limit},
    )
    if found.x is None:
        return float(num_rows), float(found.mip_dual_bound or 0.0)
    values = scaled @ found.x[:num_classifiers] + found.x[num_classifiers]
    return float((labels * values <= 0).sum()), float(found.mip_dual_bound)


def measure(num_rows: int, num_classifiers: int, noise: float, limit: float) -> dict[str, Any]:
    """The errors, bounds and seconds of both on one table."""
    scores, labels = make_case(num_rows, num_classifiers, noise)
    jboost.combine.fit(scores, labels, strategy="exact", time_limit=1)  # compiles
    start = time.perf_counter()
    vote = jboost.combine.fit(scores, labels, strategy="exact", time_limit=limit)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    errors, bound = solve_by_highs(scores, labels, limit)
    return {
        "rows": num_rows,
        "classifiers": num_classifiers,
        "noise": noise,
        "errors": float(vote.loss),
        "lower_bound": float(vote.lower_bound),
        "status": jboost.status.Status(int(vote.status)).name,
        "seconds": seconds,
        "highs_errors": errors,
        "highs_lower_bound": bound,
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
