"""Errors plus costs of rules over all literals, to proven optimality: `jboost.l0.fit_exact` against
HiGHS: `python -m benchmarks.l0_exact`.

Rows of signs of Gaussian features, all literals of either sign at the costs of (28) as hypotheses,
rho = 19.5 / m. HiGHS gets all hypotheses at once as the integer program (15), and so much time.
Seconds of the CPU are to be compared with OPENBLAS_NUM_THREADS=1 in the environment.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.harness import Contender
from benchmarks.peers import l0_relaxation as peers

TOLERANCE = 1e-4
SETS = ((50, 0), (100, 0), (100, 1), (100, 2), (100, 3), (200, 0), (300, 0))  # rows and seeds
NUM_ATTRIBUTES, NUM_THAT_MATTER, LABEL_NOISE = 20, 3, 0.05
# over the number of rows; 20 over 100 rows is 1/5, which votes of 1, 2 and 2 fifths meet with
# equality, and so do not in floats
MARGIN = 19.5
MOST_BATCHES = 200  # of our branch and cut, eight nodes each
TIME_LIMIT = 60.0  # of HiGHS


def make_rows(num_examples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Attributes [m, N] of 0 and 1 and labels [m], which some of the attributes vote for."""
    random = np.random.default_rng([seed, num_examples])
    attributes = (random.normal(size=(num_examples, NUM_ATTRIBUTES)) > 0).astype(np.float32)
    votes = 2 * attributes[:, :NUM_THAT_MATTER].sum(axis=1) - NUM_THAT_MATTER
    return attributes, np.where(
        random.random(num_examples) < LABEL_NOISE, -np.sign(votes), np.sign(votes)
    ).astype(np.float32)


def _ours(
    attributes: np.ndarray, labels: np.ndarray, learner: Any, margin: float
) -> Callable[[], Any]:
    dataset = jboost.make_dataset(attributes, labels)
    config = jboost.l0.ExactConfig(max_batches=MOST_BATCHES)

    def call() -> Any:
        options = {"exact_tolerance": TOLERANCE, "exact_config": config, "max_rounds": 40}
        return jax.block_until_ready(
            jboost.l0.fit_exact(dataset, learner, margin=margin, **options)
        )

    return call


def run_sets(sets: Sequence[tuple[int, int]], *, repeats: int) -> dict[str, Any]:
    """Both contenders on all sets of rows."""
    learner = jboost.learners.monomials(1, num_proposed=16)
    records = []
    for size, seed in sets:
        attributes, labels = make_rows(size, seed)
        margin = min(1.0, MARGIN / size)
        state = learner.init(None, jboost.make_dataset(attributes, labels))
        every = learner.every(state)
        constants = jnp.stack([jnp.ones(size), -jnp.ones(size)])
        outputs = np.asarray(jnp.concatenate([constants, every.outputs]), np.float64).T
        costs = np.r_[0.0, 0.0, np.asarray(every.costs, np.float64)]
        peer = functools.partial(
            peers.integer,
            outputs,
            labels,
            costs,
            margin,
            tolerance=TOLERANCE,
            time_limit=TIME_LIMIT,
        )
        measured, values = harness.race(
            [
                Contender("jboost", _ours(attributes, labels, learner, margin), repeats=repeats),
                Contender("HiGHS", peer, compiles=False, repeats=repeats),
            ]
        )
        ours, theirs = jax.device_get(values["jboost"]), values["HiGHS"]
        bounds = ours.certificate
        record = {
            "rows": size,
            "seed": seed,
            "hypotheses": len(costs),
            "measured": measured,
            "jboost": {
                "lower": float(bounds.integer_lower_bound),
                "upper": float(bounds.integer_upper_bound),
                "nodes": int(ours.num_nodes),
                "status": harness.status_name(ours.status),
            },
            "HiGHS": theirs._asdict(),
            "bounds_hold": bool(
                bounds.integer_lower_bound <= theirs.upper + 1e-3
                and theirs.lower - 1e-3 <= bounds.integer_upper_bound
            ),
        }
        records.append(record)
        print(
            f"{size} rows, seed {seed}: {record['jboost']}, {record['HiGHS']}",
            file=sys.stderr,
            flush=True,
        )
    return {
        "tolerance": TOLERANCE,
        "time_limit": TIME_LIMIT,
        "max_batches": MOST_BATCHES,
        "records": records,
    }


def table(results: Mapping[str, Any]) -> str:
    """CPU seconds, nodes and bounds of both."""
    rows = []
    for record in results["records"]:
        ours, theirs = record["jboost"], record["HiGHS"]
        seconds = [
            harness.seconds_text(record["measured"][name]["cpu_seconds"])
            for name in ("jboost", "HiGHS")
        ]
        bounds = [f"{one['lower']:.4g} to {one['upper']:.4g}" for one in (ours, theirs)]
        nodes = (f"{ours['nodes']:,}", f"{theirs['num_nodes']:,}")
        rows.append(
            (
                f"{record['rows']:,}",
                str(record["seed"]),
                str(record["hypotheses"]),
                seconds[0],
                nodes[0],
                bounds[0],
                seconds[1],
                nodes[1],
                bounds[1],
            )
        )
    ends = f"bounds to {results['tolerance']:.0e} or {results['max_batches']} batches of nodes"
    text = (
        f"Errors plus costs of rules over all literals, {ends}; HiGHS gets the integer program and"
        f" {results['time_limit']:.0f} s. CPU seconds."
    )
    return (
        text
        + "\n\n"
        + harness.markdown_table(
            ("rows", "seed", "hypotheses", "jboost", "nodes", "bounds", "HiGHS", "nodes", "bounds"),
            rows,
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.l0_exact", description=__doc__.split(":")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="few rows, into benchmarks-out")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    harness.write(
        "l0_exact", run_sets([(40, 0)] if options.quick else SETS, repeats=options.repeats), output
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
