"""`jboost.projections` against one `jnp.sort` and a plain JAX projection: `python -m
benchmarks.projections`.

Every contender runs inside one jitted loop of many projections, each of weights that the one before
has moved, so that what is measured is what a booster pays for one projection in its own loop.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import harness
from benchmarks.harness import Contender
from jboost import projections

SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (100, 1000)
NUM_CAPS = 3.0  # times the cap that all entries would share
SPREAD = 10.0  # standard deviation of the log weights
SEED = 20_240_501


def plain_projection(log_weights: jax.Array, cap: jax.Array) -> jax.Array:
    """Figure 2 of Shalev-Shwartz and Singer (2008) as one writes it down: sort, running sum, first
    index.
    """
    weights = jax.nn.softmax(log_weights)
    descending = -jnp.sort(-weights)
    behind = jnp.cumsum(descending[::-1])[::-1]
    left = 1 - cap * jnp.arange(weights.shape[0])
    first = jnp.argmax(left * descending <= cap * behind)
    return jnp.minimum(cap, weights * left[first] / behind[first])


CONTENDERS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "sort": lambda logs, cap: projections.kl_projection_capped_simplex(logs, cap),
    "newton": lambda logs, cap: projections.kl_projection_capped_simplex(
        logs, cap, method="newton"
    ),
    "sort, caps per entry": lambda logs, cap: projections.kl_projection_capped_simplex(
        logs, _per_entry(logs, cap)
    ),
    "newton, caps per entry": lambda logs, cap: projections.kl_projection_capped_simplex(
        logs, _per_entry(logs, cap), method="newton"
    ),
    "Euclidean": projections.projection_capped_simplex,
    "plain JAX": plain_projection,
    "jnp.sort": lambda logs, cap: jnp.sort(logs) * cap,
}


def _per_entry(logs: jax.Array, cap: jax.Array) -> jax.Array:
    return cap * jnp.linspace(0.5, 1.5, logs.shape[0], dtype=logs.dtype)


def make_data(size: int, *, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Log weights [m] and a cap [], float32, the same at every call."""
    random = np.random.default_rng([seed, size])
    return (SPREAD * random.normal(size=size)).astype(np.float32), np.float32(
        min(NUM_CAPS / size, 1.0)
    )


def run(sizes: Iterable[int], *, repeats: int, cap_seconds: float) -> dict[str, Any]:
    """Seconds of one projection, by size and contender."""
    records = []
    for size in sorted(sizes):
        logs, cap = make_data(size)
        num_inside = max(3, min(200, 1_000_000 // size))
        entrants = [
            Contender(
                name,
                functools.partial(_many(project, num_inside), logs, cap),
                repeats=repeats,
                cap_seconds=cap_seconds,
            )
            for name, project in CONTENDERS.items()
        ]
        measurements, _ = harness.race(entrants)
        answers = {
            name: np.asarray(jax.jit(CONTENDERS[name])(logs, cap), np.float64)
            for name in ("sort", "newton", "plain JAX")
        }
        assert np.abs(answers["sort"] - answers["newton"]).max() <= 1e-6 * cap, (
            f"m = {size}: the two methods differ"
        )
        contenders = {
            name: {"seconds": it, "us_per_projection": it.run_seconds / num_inside * 1e6}
            for name, it in measurements.items()
        }
        records.append(
            {
                "contenders": contenders,
                "dtype": str(logs.dtype),
                "excess_of_sum": {name: abs(answer.sum() - 1) for name, answer in answers.items()},
                "num_inside": num_inside,
                "ratios_to_jnp_sort": {
                    name: it.run_seconds / measurements["jnp.sort"].run_seconds
                    for name, it in measurements.items()
                },
                "size": size,
            }
        )
        times = "; ".join(
            f"{name} {harness.seconds_text(it.run_seconds / num_inside)}"
            for name, it in measurements.items()
        )
        print(f"m = {size}: {times}", file=sys.stderr, flush=True)
    return {"records": records}


def _many(
    project: Callable[[jax.Array, jax.Array], jax.Array], count: int
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    def loop(logs: jax.Array, cap: jax.Array) -> jax.Array:
        return lax.fori_loop(0, count, lambda _, now: 0.999 * now + 1e-3 * project(now, cap), logs)

    return jax.jit(loop)


def projections_table(results: Mapping[str, Any]) -> str:
    """The rows of README: time of one projection."""
    header = ("m", *CONTENDERS)
    rows = [
        (
            f"{record['size']:,}",
            *(
                harness.seconds_text(record["contenders"][name]["us_per_projection"] * 1e-6)
                for name in CONTENDERS
            ),
        )
        for record in results["records"]
    ]
    text = (
        "One projection of m example weights on the capped simplex, inside a jitted loop, beside"
        " one sort of as many floats. `plain JAX` is the paper's figure as a sort and a running"
        " sum. It is correct only if the range of the weights fits a float."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.projections", description=__doc__.splitlines()[0]
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
        metavar="M",
        help=f"number of examples; default {' '.join(map(str, SIZES))}",
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
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    results = run(
        options.sizes or (QUICK_SIZES if options.quick else SIZES),
        repeats=options.repeats or (2 if options.quick else 5),
        cap_seconds=options.cap,
    )
    path = harness.write(
        "projections",
        results,
        options.output or (harness.TRIALS if options.quick else harness.RESULTS),
    ).resolve()
    print(
        f"wrote {path.relative_to(harness.ROOT) if path.is_relative_to(harness.ROOT) else path}",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
