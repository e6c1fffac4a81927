"""Robust losses beside optax's mean cross-entropy, plain JAX's top-k, and one sort: `python -m benchmarks.robust_losses`.

A training step of a network with each loss, and the value and gradient of each loss of a large
batch by itself. Losses run inside one jitted loop whose input the last gradient has moved.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from benchmarks import harness
from benchmarks.harness import Contender
from jboost import losses, relaxations

WIDTH, BATCH, NUM_CLASSES, LARGE = 512, 1024, 10, 1_000_000
NUM_STEPS, NUM_LARGE = 4, 3  # in one call
NU = 0.1
SEED = 20_261_128

LOSSES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "mean": jnp.mean,
    "plain JAX top-k": lambda values: jnp.mean(lax.top_k(values, max(1, int(NU * values.shape[0])))[0]),
    "cvar": lambda values: losses.cvar(values, NU),
    "cvar, smoothed": lambda values: losses.cvar(values, NU, smoothing=0.1),
    "chi_square_dro": lambda values: losses.chi_square_dro(values, 1.0),
    "kl_dro, radius": lambda values: losses.kl_dro(values, 0.5),
    "kl_dro, scale": lambda values: losses.kl_dro(values, scale=1.0),
    "binary entropy": lambda values: losses.worst_case(values, relaxations.binary_entropy(NU, 1.0)),
    "hard margin": lambda values: losses.worst_case(values, relaxations.hard_margin()),
}


def step_contenders(width: int, batch: int, *, repeats: int, cap_seconds: float) -> list[Contender]:
    """Steps of a network of three layers with each loss of the cross-entropies of a batch."""
    random = np.random.default_rng(SEED)
    sizes = (width, width, width, NUM_CLASSES)
    params = [jnp.asarray(random.normal(size=pair).astype(np.float32) / np.sqrt(pair[0])) for pair in itertools.pairwise(sizes)]
    inputs = jnp.asarray(random.normal(size=(batch, width)).astype(np.float32))
    labels = jnp.asarray(random.integers(0, NUM_CLASSES, batch))
    optimizer = optax.sgd(1e-2)

    def train(reduce: Callable[[jax.Array], jax.Array], params: Any) -> Any:
        def loss(params: Any) -> jax.Array:
            hidden = inputs
            for matrix in params[:-1]:
                hidden = jax.nn.relu(hidden @ matrix)
            each = optax.softmax_cross_entropy_with_integer_labels(hidden @ params[-1], labels)
            return reduce(each)

        def step(_: Any, carry: Any) -> Any:
            params, memory = carry
            updates, memory = optimizer.update(jax.grad(loss)(params), memory, params)
            return optax.apply_updates(params, updates), memory

        return lax.fori_loop(0, NUM_STEPS, step, (params, optimizer.init(params)))

    return [
        Contender(name, functools.partial(jax.jit(functools.partial(train, reduce)), params), repeats=repeats, cap_seconds=cap_seconds)
        for name, reduce in LOSSES.items()
    ]


def large_contenders(size: int, *, repeats: int, cap_seconds: float) -> list[Contender]:
    """Value and gradient of each loss of a large batch, and a sort of as many floats."""
    values = jnp.asarray(np.random.default_rng(SEED).exponential(size=size).astype(np.float32))

    def differentiate(reduce: Callable[[jax.Array], jax.Array], values: jax.Array) -> jax.Array:
        def turn(_: Any, now: jax.Array) -> jax.Array:
            value, gradient = jax.value_and_grad(reduce)(now)
            return now + 1e-3 * (gradient - value / size)

        return lax.fori_loop(0, NUM_LARGE, turn, values)

    def sort(values: jax.Array) -> jax.Array:
        return lax.fori_loop(0, NUM_LARGE, lambda _, now: now[::-1] + 1e-3 * jnp.sort(now), values)

    calls = {name: functools.partial(differentiate, reduce) for name, reduce in LOSSES.items()}
    calls["jnp.sort"] = sort
    return [Contender(name, functools.partial(jax.jit(call), values), repeats=repeats, cap_seconds=cap_seconds) for name, call in calls.items()]


def run(width: int, batch: int, large: int, *, repeats: int, cap_seconds: float) -> dict[str, Any]:
    """Seconds and ratios of both races."""
    options: dict[str, Any] = {"repeats": repeats, "cap_seconds": cap_seconds}
    steps, _ = harness.race(step_contenders(width, batch, **options))
    alone, _ = harness.race(large_contenders(large, **options))
    return {
        "step": _record(steps, "mean", NUM_STEPS, {"width": width, "batch": batch}),
        "large": _record(alone, "jnp.sort", NUM_LARGE, {"size": large}),
        "nu": NU,
    }


def _record(measurements: Mapping[str, Any], base: str, count: int, sizes: dict[str, int]) -> dict[str, Any]:
    return {
        **sizes,
        "dtype": "float32",
        "contenders": {
            name: {
                "seconds": it.run_seconds / count,
                "compile_seconds": it.compile_seconds,
                f"ratio_to_{base}": it.run_seconds / measurements[base].run_seconds,
            }
            for name, it in measurements.items()
        },
    }


def robust_losses_table(results: Mapping[str, Any]) -> str:
    """A row a loss: a training step, and the value and gradient of a large batch."""
    step, large = results["step"], results["large"]
    rows = []
    for name in (*LOSSES, "jnp.sort"):
        one, other = step["contenders"].get(name), large["contenders"][name]
        rows.append(
            (
                name,
                harness.seconds_text(one["seconds"]) if one else "",
                f"{one['ratio_to_mean']:.3f}" if one else "",
                harness.seconds_text(other["seconds"]),
                f"{other['ratio_to_jnp.sort']:.2f}",
            )
        )
    header = ("loss", f"step, batch {step['batch']:,}", "ratio to mean", f"alone, {large['size']:,}", "ratio to a sort")
    text = (
        f"A training step of a network of three layers of width {step['width']}, and the value and gradient of a loss of "
        f"{large['size']:,} numbers by itself. nu = {results['nu']:g}."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robust_losses", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes and few runs, into benchmarks-out: for trying it out")
    parser.add_argument("--repeats", type=int, help="runs of each contender, of which the best counts; default 7, quick 2")
    parser.add_argument("--cap", type=float, default=60.0, metavar="SECONDS", help="a contender gets no further run after this; default %(default)s")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    sizes = (32, 64, 1000) if options.quick else (WIDTH, BATCH, LARGE)
    results = run(*sizes, repeats=options.repeats or (2 if options.quick else 7), cap_seconds=options.cap)
    path = harness.write("robust_losses", results, options.output or (harness.TRIALS if options.quick else harness.RESULTS)).resolve()
    print(f"wrote {path.relative_to(harness.ROOT) if path.is_relative_to(harness.ROOT) else path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
