"""What `deterministic=True` costs: `python -m benchmarks.deterministic`.

Writes deterministic: CPU seconds of fits that are compiled already, and the bytes of temporary
arrays of their programs, with and without it.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.harness import Contender

ROWS, QUICK_ROWS = 5_000, 500
NAMES = {False: "other", True: "deterministic"}


def _boost(fit: Callable[..., Any], learner: Any, rounds: int) -> Callable[..., Any]:
    def run(features: Any, labels: Any, deterministic: bool) -> Any:
        dataset = jboost.make_dataset(features, labels)
        return fit(dataset, learner, max_rounds=rounds, deterministic=deterministic)

    return run


def _solve(features: Any, labels: Any, deterministic: bool) -> Any:
    return jboost.relaxed_margin.solve(
        features * labels[:, None],
        jboost.relaxations.soft_margin(nu=0.2),
        tolerance=1e-6,
        config=jboost.relaxed_margin.SolverConfig(max_iterations=40),
        deterministic=deterministic,
    )


# name -> the function of features, labels and `deterministic`, and the number of columns
FITS: dict[str, tuple[Callable[..., Any], int]] = {
    "adaboost.fit, stumps, 50 columns, 30 rounds": (
        _boost(jboost.adaboost.fit, jboost.learners.stumps(), 30),
        50,
    ),
    "infoboost.fit, stumps, 50 columns, 10 rounds": (
        _boost(jboost.infoboost.fit, jboost.learners.stumps(), 10),
        50,
    ),
    "adaboost.fit, pool, 200 columns, 30 rounds": (
        _boost(jboost.adaboost.fit, jboost.learners.pool(), 30),
        200,
    ),
    "relaxed_margin.solve, 100 columns, 40 iterations": (_solve, 100),
}


def make_data(num_rows: int, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs [m, N] in [-1, 1] and labels [m], float32, the same at every call."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(num_rows) < 0.5, 1.0, -1.0).astype(np.float32)
    noise = rng.normal(size=(num_rows, num_columns))
    return np.tanh(0.2 * labels[:, None] + noise).astype(np.float32), labels


def run(num_rows: int, *, repeats: int) -> dict[str, Any]:
    """All fits."""
    return {"records": [_record(name, num_rows, repeats) for name in FITS]}


def _record(name: str, num_rows: int, repeats: int) -> dict[str, Any]:
    function, num_columns = FITS[name]
    data = tuple(map(jax.numpy.asarray, make_data(num_rows, num_columns)))
    programs = {
        word: jax.jit(function, static_argnums=2).lower(*data, flag).compile()
        for flag, word in NAMES.items()
    }
    measured, _ = harness.race(
        [
            Contender(word, lambda program=program: program(*data), repeats=repeats)
            for word, program in programs.items()
        ],
        fresh=False,
    )
    record = {
        word: {
            "seconds": dataclasses.asdict(measured[word]),
            "temporary_bytes": program.memory_analysis().temp_size_in_bytes,
        }
        for word, program in programs.items()
    }
    print(f"{name}: {record}", file=sys.stderr)
    return {"name": name, "rows": num_rows, **record}


def table(results: Mapping[str, Any]) -> str:
    """The rows of the documentation: CPU seconds and temporary megabytes."""
    rows = [
        (
            record["name"],
            f"{record['rows']:,}",
            *(f"{record[word]['seconds']['cpu_seconds']:.3f}" for word in NAMES.values()),
            *(f"{record[word]['temporary_bytes'] / 1e6:,.1f}" for word in NAMES.values()),
        )
        for record in results["records"]
    ]
    return harness.markdown_table(
        (
            "fit",
            "rows",
            "CPU seconds, other",
            "CPU seconds, `deterministic=True`",
            "temporary MB, other",
            "temporary MB, `deterministic=True`",
        ),
        rows,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fits and writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.deterministic", description=(__doc__ or "").split(": `python")[0]
    )
    parser.add_argument("--quick", action="store_true", help="few rows, one repeat")
    parser.add_argument("--output", type=Path, help="the folder for results, benchmarks/results")
    options = parser.parse_args(arguments)
    harness.keep_to_one_thread()
    results = run(QUICK_ROWS if options.quick else ROWS, repeats=1 if options.quick else 3)
    harness.write("deterministic", results, options.output)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
