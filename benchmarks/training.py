"""Robust losses and heads inside training steps: `python -m benchmarks.training`.

A step of a network with each loss beside optax's mean cross-entropy and plain JAX's top-k; the
value and gradient of each loss of a large batch beside one sort; a step of a small network with a
margin head beside a linear one. All run inside one jitted loop whose input the last step has moved.
Where PyTorch and its package `dro` are installed, their losses run beside them.
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

import jboost
from benchmarks import harness
from benchmarks.harness import Contender
from benchmarks.peers import robust_losses
from jboost import layers, losses, relaxations

WIDTH, BATCH, NUM_CLASSES, LARGE = 512, 1024, 10, 1_000_000
NUM_STEPS, NUM_LARGE, NUM_HEAD = 4, 3, 32  # in one call
HEAD_BATCH, HEAD_WIDTH = 256, 16
NU, NU_OF_HEAD = 0.1, 0.3
BALL = 1.4  # the radius of a ball, in units of the norm of equal weights
SEED = 20_261_128
# of the sets of distributions of PyTorch's dro: half of the radius of `chi_square_dro`
PEER_SIZES = {"cvar": NU, "chi_square_dro": 0.5}
RATE = 1e-2

LOSSES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "mean": jnp.mean,
    "plain JAX top-k": lambda values: jnp.mean(
        lax.top_k(values, max(1, int(NU * values.shape[0])))[0]
    ),
    "cvar": lambda values: losses.cvar(values, NU),
    "cvar, smoothed": lambda values: losses.cvar(values, NU, smoothing=0.1),
    "chi_square_dro": lambda values: losses.chi_square_dro(values, 1.0),
    "kl_dro, radius": lambda values: losses.kl_dro(values, 0.5),
    "kl_dro, scale": lambda values: losses.kl_dro(values, scale=1.0),
    "norm ball": lambda values: losses.worst_case(
        values, relaxations.norm_ball(2, BALL / values.shape[0] ** 0.5)
    ),
    "norm ball, order 3": lambda values: losses.worst_case(
        values, relaxations.norm_ball(3, BALL / values.shape[0] ** (2 / 3))
    ),
    "norm penalty": lambda values: losses.worst_case(
        values, relaxations.norm_penalty(2, float(values.shape[0] ** 0.5))
    ),
    "norm penalty, order 3": lambda values: losses.worst_case(
        values, relaxations.norm_penalty(3, float(values.shape[0] ** (2 / 3)))
    ),
    "binary entropy": lambda values: losses.worst_case(values, relaxations.binary_entropy(NU, 1.0)),
    "hard margin": lambda values: losses.worst_case(values, relaxations.hard_margin()),
}


def step_contenders(width: int, batch: int, *, repeats: int, cap_seconds: float) -> list[Contender]:
    """Steps of a network of three layers with each loss of the cross-entropies of a batch."""
    random = np.random.default_rng(SEED)
    sizes = (width, width, width, NUM_CLASSES)
    params = [
        jnp.asarray(random.normal(size=pair).astype(np.float32) / np.sqrt(pair[0]))
        for pair in itertools.pairwise(sizes)
    ]
    inputs = jnp.asarray(random.normal(size=(batch, width)).astype(np.float32))
    labels = jnp.asarray(random.integers(0, NUM_CLASSES, batch))
    optimizer = optax.sgd(RATE)

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

    peers = robust_losses.steps(
        [np.asarray(matrix) for matrix in params],
        np.asarray(inputs),
        np.asarray(labels),
        PEER_SIZES,
        rate=RATE,
        num_steps=NUM_STEPS,
    )
    options: dict[str, Any] = {"repeats": repeats, "cap_seconds": cap_seconds}
    own = [
        Contender(
            name, functools.partial(jax.jit(functools.partial(train, reduce)), params), **options
        )
        for name, reduce in LOSSES.items()
    ]
    return [*own, *(Contender(name, call, False, **options) for name, call in peers.items())]


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
    peers = robust_losses.gradients(np.asarray(values), PEER_SIZES, num_times=NUM_LARGE)
    options: dict[str, Any] = {"repeats": repeats, "cap_seconds": cap_seconds}
    own = [
        Contender(name, functools.partial(jax.jit(call), values), **options)
        for name, call in calls.items()
    ]
    return [*own, *(Contender(name, call, False, **options) for name, call in peers.items())]


def head_contenders(batch: int, width: int, *, repeats: int, cap_seconds: float) -> list[Contender]:
    """Steps of a network of one layer with a linear head, a margin head that begins anew or warm,
    and exact LP-Boost.
    """
    random = np.random.default_rng(SEED)
    inputs = jnp.asarray(random.normal(size=(batch, width)).astype(np.float32))
    noise = 0.3 * random.normal(size=batch).astype(np.float32)
    labels = jnp.where(inputs[:, 0] * inputs[:, 1] + noise > 0, 1.0, -1.0)
    matrix = jnp.asarray(random.normal(size=(width, width)).astype(np.float32) / np.sqrt(width))
    head = layers.margin_head(nu=NU_OF_HEAD, smoothing=0.05)

    def linear(features: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        return jnp.mean(features, axis=1), state

    def cold(features: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        return head.apply(head.init(width), features, labels)[0], state

    def warm(features: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        return head.apply(state, features, labels)

    def exact(features: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        margins = labels[:, None] * features
        both = jnp.concatenate([margins, -margins], axis=1)
        votes = jboost.lpboost.solve(both, nu=NU_OF_HEAD).coefficients
        return features @ (votes[:width] - votes[width:]), state

    def train(apply: Callable[..., Any], matrix: jax.Array) -> Any:
        def loss(matrix: jax.Array, state: Any) -> tuple[jax.Array, Any]:
            logits, state = apply(jnp.tanh(inputs @ matrix), state)
            return jnp.mean(jax.nn.softplus(-5 * labels * logits)), state

        def step(_: Any, carry: Any) -> Any:
            gradient, state = jax.grad(loss, has_aux=True)(*carry)
            return carry[0] - 0.05 * gradient, state

        return lax.fori_loop(0, NUM_HEAD, step, (matrix, head.init(width)))

    heads = {
        "linear": linear,
        "margin head": warm,
        "margin head, cold": cold,
        "lpboost.solve": exact,
    }
    return [
        Contender(
            name,
            functools.partial(jax.jit(functools.partial(train, apply)), matrix),
            repeats=repeats,
            cap_seconds=cap_seconds,
        )
        for name, apply in heads.items()
    ]


def run(width: int, batch: int, large: int, *, repeats: int, cap_seconds: float) -> dict[str, Any]:
    """Seconds and ratios of both races."""
    options: dict[str, Any] = {"repeats": repeats, "cap_seconds": cap_seconds}
    steps, _ = harness.race(step_contenders(width, batch, **options))
    alone, _ = harness.race(large_contenders(large, **options))
    heads, _ = harness.race(head_contenders(HEAD_BATCH, HEAD_WIDTH, **options))
    linear = heads["linear"].run_seconds
    beyond = {name: (it.run_seconds - linear) / NUM_HEAD for name, it in heads.items()}
    return {
        "head": (
            _record(heads, "linear", NUM_HEAD, {"batch": HEAD_BATCH, "width": HEAD_WIDTH})
            | {"seconds_beyond_linear": beyond}
        ),
        "step": _record(steps, "mean", NUM_STEPS, {"width": width, "batch": batch}),
        "large": _record(alone, "jnp.sort", NUM_LARGE, {"size": large}),
        "nu": NU,
    }


def _record(
    measurements: Mapping[str, Any], base: str, count: int, sizes: dict[str, int]
) -> dict[str, Any]:
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


def training_table(results: Mapping[str, Any]) -> str:
    """A row a loss: a training step, and the value and gradient of a large batch."""
    step, large = results["step"], results["large"]
    rows = []
    measured = {**step["contenders"], **large["contenders"]}
    ordered = [name for name in (*LOSSES, "jnp.sort") if name in measured]
    for name in dict.fromkeys((*ordered, *measured)):
        one, other = step["contenders"].get(name), large["contenders"].get(name)
        rows.append(
            (
                name,
                harness.seconds_text(one["seconds"]) if one else "",
                f"{one['ratio_to_mean']:.3f}" if one else "",
                harness.seconds_text(other["seconds"]) if other else "",
                f"{other['ratio_to_jnp.sort']:.2f}" if other else "",
            )
        )
    header = (
        "loss",
        f"step, batch {step['batch']:,}",
        "ratio to mean",
        f"alone, {large['size']:,}",
        "ratio to a sort",
    )
    text = (
        f"A training step of a network of three layers of width {step['width']}, and the value and"
        f" gradient of a loss of {large['size']:,} numbers alone. nu = {results['nu']:g}."
    )
    head = results["head"]
    beyond = head["seconds_beyond_linear"]
    head_rows = [
        (
            name,
            harness.seconds_text(it["seconds"]),
            harness.seconds_text(max(beyond[name], 0.0)),
            f"{it['compile_seconds']:.1f} s",
        )
        for name, it in head["contenders"].items()
    ]
    head_text = (
        f"A step of a network of one layer of width {head['width']} with each head, batch"
        f" {head['batch']}, and the seconds beyond a linear head."
    )
    tables = (
        harness.markdown_table(header, rows),
        head_text,
        harness.markdown_table(("head", "step", "beyond linear", "compile"), head_rows),
    )
    return text + "\n\n" + "\n\n".join(tables)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few runs, into benchmarks-out: for trying it out",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help="runs of each contender, of which the best counts; default 7, quick 2",
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
    sizes = (32, 64, 1000) if options.quick else (WIDTH, BATCH, LARGE)
    results = run(
        *sizes, repeats=options.repeats or (2 if options.quick else 7), cap_seconds=options.cap
    )
    path = harness.write(
        "training",
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
