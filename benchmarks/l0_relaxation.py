"""The relaxation of L0-RBoost with all pair cuts: `jboost.l0.solve_relaxation` against HiGHS:
`python -m benchmarks.l0_relaxation`.

Pools are both constants, free, and stumps or signed monomials on Gaussian features, at costs about
those of (28); rho = 20 / m. HiGHS gets the cuts lazily, found by one product of matrices, and on
the small pools all of them as rows too. Seconds of the CPU are to be compared with
OPENBLAS_NUM_THREADS=1 in the environment: HiGHS has one thread, and idle threads of BLAS spin.
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

from benchmarks import harness
from benchmarks.harness import Contender
from benchmarks.peers import l0_relaxation as peers
from jboost import l0

TOLERANCE = 1e-4
SIZES = ((100, 20), (683, 120), (3000, 200))
MAX_EXPLICIT = 10_000  # cuts
NUM_FEATURES, LABEL_NOISE = 20, 0.05


def make_pool(
    kind: str, num_examples: int, num_columns: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs [m, U] in -1, 0, +1, labels [m] and costs [U]."""
    random = np.random.default_rng([seed, num_examples, num_columns])
    features = random.normal(size=(num_examples, NUM_FEATURES))
    labels = np.sign(
        features @ random.normal(size=NUM_FEATURES) + 0.3 * random.normal(size=num_examples)
    )
    labels = np.where(random.random(num_examples) < LABEL_NOISE, -labels, labels)
    outputs = np.ones((num_examples, num_columns))
    outputs[:, 1] = -1
    for column in range(2, num_columns):
        if kind == "stumps":
            chosen = random.integers(0, NUM_FEATURES)
            outputs[:, column] = np.where(
                features[:, chosen] > features[random.integers(0, num_examples), chosen], 1, -1
            ) * random.choice([-1, 1])
        else:
            literals = random.choice(NUM_FEATURES, random.integers(1, 4), replace=False)
            covered = np.all(
                (features[:, literals] > 0) == random.integers(0, 2, len(literals)).astype(bool),
                axis=1,
            )
            outputs[:, column] = np.where(covered, 1 if labels[covered].sum() >= 0 else -1, 0)
    return outputs, labels, np.r_[0, 0, random.uniform(1.5, 2.5, num_columns - 2)]


def _ours(pool: tuple[np.ndarray, ...], margin: float, wide: bool) -> Callable[[], Any]:
    with jax.enable_x64(wide):
        outputs, labels, costs = (jnp.asarray(part, float) for part in pool)
        solve = jax.jit(
            lambda *data: l0.solve_relaxation(*data, margin=margin, tolerance=TOLERANCE)
        )

    def call() -> Any:
        with jax.enable_x64(wide):
            return jax.block_until_ready(solve(outputs, labels, costs))

    return call


def run_sizes(sizes: Sequence[tuple[int, int]], *, repeats: int) -> dict[str, Any]:
    """All contenders on all pools."""
    records = []
    for kind in ("stumps", "monomials"):
        for size in sizes:
            pool, margin = make_pool(kind, *size), 20 / size[0]
            contenders = [
                Contender(f"jboost {bits}", _ours(pool, margin, bits == "float64"), repeats=repeats)
                for bits in ("float32", "float64")
            ]
            contenders.append(
                Contender(
                    "HiGHS, cuts added lazily",
                    functools.partial(peers.lazy, *pool, margin, tolerance=TOLERANCE),
                    compiles=False,
                    repeats=repeats,
                )
            )
            if len(peers.all_pairs(pool[1])) <= MAX_EXPLICIT:
                contenders.append(
                    Contender(
                        "HiGHS, all cuts",
                        functools.partial(peers.explicit, *pool, margin),
                        compiles=False,
                        repeats=repeats,
                    )
                )
            measured, values = harness.race(contenders)
            lazy = values["HiGHS, cuts added lazily"]
            record = {
                "kind": kind,
                "shape": list(size),
                "num_pairs": len(peers.all_pairs(pool[1])),
                "measured": measured,
                "lazy": {
                    "lower": lazy.lower,
                    "upper": lazy.upper,
                    "cuts": lazy.num_cuts,
                    "rounds": lazy.num_rounds,
                },
            }
            for bits in ("float32", "float64"):
                one = jax.device_get(values[f"jboost {bits}"])
                record[bits] = {
                    "lower": float(one.lower_bound),
                    "upper": float(one.upper_bound),
                    "cuts": int(one.num_cuts),
                    "rounds": int(one.num_rounds),
                    "iterations": int(one.num_iterations),
                    "status": harness.status_name(one.status),
                    "bounds_hold": bool(
                        one.lower_bound <= lazy.upper + 1e-6
                        and lazy.lower - 1e-6 <= one.upper_bound
                    ),
                }
            records.append(record)
            seconds = {
                name: round(measurement.cpu_seconds, 3) for name, measurement in measured.items()
            }
            print(
                f"{kind} {size}: CPU s {seconds}, {record['float32']['status']},"
                f" {record['float64']['status']}",
                file=sys.stderr,
                flush=True,
            )
    return {"tolerance": TOLERANCE, "records": records}


def table(results: Mapping[str, Any]) -> str:
    """Seconds beside HiGHS's, and how wide our gaps are."""
    platform = results["environment"]["platform"]
    kind = harness.seconds_key(platform)
    names = ("jboost float32", "jboost float64", "HiGHS, cuts added lazily", "HiGHS, all cuts")
    rows = []
    for record in results["records"]:
        gaps = [
            f"{1 - record[bits]['lower'] / record[bits]['upper']:.0e}"
            for bits in ("float32", "float64")
        ]
        seconds = [
            harness.seconds_text(record["measured"].get(name, {}).get(kind)) for name in names
        ]
        shape = f"{record['shape'][0]:,} x {record['shape'][1]}"
        rows.append(
            (
                shape,
                record["kind"],
                f"{record['num_pairs']:,}",
                seconds[0],
                gaps[0],
                seconds[1],
                gaps[1],
                *seconds[2:],
            )
        )
    header = ("pool", "kind", "cuts", names[0], "gap", names[1], "gap", *names[2:])
    seconds_of = harness.seconds_words(platform)
    text = (
        f"The relaxation of L0-RBoost with all pair cuts, to a relative gap of"
        f" {results['tolerance']:.0e}; {seconds_of}."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.l0_relaxation", description=__doc__.split(":")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="a small pool, into benchmarks-out")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    harness.write(
        "l0_relaxation",
        run_sizes([(60, 16)] if options.quick else SIZES, repeats=options.repeats),
        output,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
