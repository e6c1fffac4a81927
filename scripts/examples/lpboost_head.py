"""An LP-Boost head trained end to end, beside a linear head, and the exact pair of the two.

What one learns from it: how `jboost.layers.margin_head` takes the place of the last layer of a
network. In each step its votes are those of largest smoothed soft margin on the minibatch, and the
loss moves the features below through them by implicit differentiation. Its state goes through the
loop beside the parameters; predictions take the votes on the whole training part. After each epoch
`jboost.layers.pair_head` finds the line in the plane of both heads' scores with the fewest training
errors of all lines: never more than the better head has.

Both networks have the same first parameters below the head, minibatches, steps and optimizer. The
numbers of the head were fixed beforehand; validation and test data choose nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tools
from tools import Part, Problem

from jboost import layers

DATA_SETS = ("breast_cancer", "digits", "PIMA")
HEADS = ("linear", "lpboost")
NAMES = (*HEADS, "pair")
LABELS = {"linear": "linear head", "lpboost": "LP-Boost head", "pair": "exact pair"}
NU, SMOOTHING, SCALE = 0.3, 0.05, 10.0
LEARNING_RATE = 1e-2


@dataclasses.dataclass(frozen=True)
class Setting:
    """How long, and how wide."""

    num_epochs: int
    steps_per_epoch: int
    batch_size: int
    width: int


class Network(NamedTuple):
    """What training carries: two layers of features, and a head with a state."""

    params: Any
    memory: Any  # of the optimizer
    state: Any  # of the head


# A head: (its parameters, its state, features, labels or None) -> (logits, its state).
Apply = Callable[..., tuple[jax.Array, Any]]


def make_head(name: str, key: jax.Array, width: int) -> tuple[Any, Any, Apply]:
    """Parameters, state, and function of a head."""
    if name == "linear":
        start = jax.random.normal(key, (width,)) / np.sqrt(width), jnp.zeros(())
        return start, (), lambda params, state, x, _: (x @ params[0] + params[1], state)
    head = layers.margin_head(nu=NU, smoothing=SMOOTHING, scale=SCALE)
    return (), head.init(width), lambda _, state, x, labels: head.apply(state, x, labels)


def init_body(key: jax.Array, num_features: int, width: int) -> Any:
    """Parameters of two layers."""
    sizes = ((num_features, width), (width, width))
    keys = jax.random.split(key, len(sizes))
    draws = [jax.random.normal(key, size) for key, size in zip(keys, sizes, strict=True)]
    return [(drawn / np.sqrt(drawn.shape[0]), jnp.zeros(drawn.shape[1])) for drawn in draws]


def apply_body(params: Any, features: jax.Array) -> jax.Array:
    """Features of the last layer [m, width], in [-1, 1]."""
    hidden = features.reshape(features.shape[0], -1)
    for matrix, bias in params:
        hidden = jnp.tanh(hidden @ matrix + bias[None, :])
    return hidden


@functools.partial(jax.jit, static_argnames=("setting",))
def train_all(problems: Problem, keys: jax.Array, *, setting: Setting) -> dict[str, Any]:
    """All seeds in one program: errors of both heads and of their pair, [seeds, epochs], by name.

    Args:
      problems: with a leading axis of seeds on each array.
      keys: [seeds].
    """
    return jax.vmap(functools.partial(train, setting=setting))(problems, keys)


def train(problem: Problem, key: jax.Array, *, setting: Setting) -> dict[str, Any]:
    """Both networks of one seed, and what they do after each epoch."""
    key_body, key_head, key_rows = jax.random.split(key, 3)
    num_rows = problem.training.labels.shape[0]
    optimizer = optax.adam(LEARNING_RATE)
    body = init_body(key_body, problem.training.features[0].size, setting.width)
    networks, heads = {}, {}
    for name in HEADS:
        params, state, heads[name] = make_head(name, key_head, setting.width)
        networks[name] = Network((body, params), optimizer.init((body, params)), state)

    def step(networks: dict[str, Network], rows: jax.Array) -> tuple[dict[str, Network], None]:
        batch = Part(problem.training.features[rows], problem.training.labels[rows])
        moved = {name: update(networks[name], heads[name], optimizer, batch) for name in HEADS}
        return moved, None

    def epoch(networks: dict[str, Network], rows: jax.Array) -> tuple[dict[str, Network], Any]:
        networks, _ = jax.lax.scan(step, networks, rows)
        return networks, measure(networks, heads, problem)

    shape = setting.num_epochs, setting.steps_per_epoch, setting.batch_size
    _, found = jax.lax.scan(epoch, networks, jax.random.randint(key_rows, shape, 0, num_rows))
    return found


def update(network: Network, head: Apply, optimizer: Any, batch: Part) -> Network:
    """One step on the cross-entropy of the head's logits."""

    def objective(params: Any) -> tuple[jax.Array, Any]:
        body, own = params
        logits, state = head(own, network.state, apply_body(body, batch.features), batch.labels)
        return jnp.mean(jax.nn.softplus(-batch.labels * logits)), state

    gradients, state = jax.grad(objective, has_aux=True)(network.params)
    updates, memory = optimizer.update(gradients, network.memory, network.params)
    return Network(optax.apply_updates(network.params, updates), memory, state)


def measure(networks: Mapping[str, Network], heads: Mapping[str, Apply], problem: Problem) -> Any:
    """Errors in training and test of both heads, and of their exact pair."""
    scores = [score(networks[name], heads[name], problem) for name in HEADS]
    training, test = (jnp.stack(parts, axis=1) for parts in zip(*scores, strict=True))
    pair = layers.pair_head()
    joined, line = pair.apply(pair.init(), training, problem.training.labels)
    unseen, _ = pair.apply(line, test)
    found = {"fewest": line.loss / problem.training.labels.shape[0]}
    for name, own, other in zip(NAMES, (*training.T, joined), (*test.T, unseen), strict=True):
        found[f"training error, {name}"] = error(own, problem.training.labels)
        found[f"test error, {name}"] = error(other, problem.test.labels)
    return found


def score(network: Network, head: Apply, problem: Problem) -> tuple[jax.Array, jax.Array]:
    """Scores [m] in training and in test, by the votes on the whole training part."""
    body, own = network.params
    features = apply_body(body, problem.training.features)
    training, state = head(own, network.state, features, problem.training.labels)
    test, _ = head(own, state, apply_body(body, problem.test.features), None)
    return training, test


def error(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """The share of scores [m] on the wrong side of 0."""
    return jnp.mean((scores > 0) != (labels > 0))


def summarize(curves: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Test errors after the last epoch, and differences to the linear head, with intervals.

    Raises:
      AssertionError: if the exact pair has more training errors than a head alone after any epoch.
    """
    best = np.minimum(*(curves[f"training error, {name}"] for name in HEADS))
    tolerance = np.finfo(best.dtype).eps
    is_least = curves["fewest"] <= best + tolerance
    assert is_least.all(), "the exact pair has more training errors than a head alone"
    last = {name: curves[f"test error, {name}"][:, -1] for name in NAMES}
    errors = {name: tools.interval(values)._asdict() for name, values in last.items()}
    others = {name: last[name] - last["linear"] for name in NAMES[1:]}
    differences = {name: tools.interval(values)._asdict() for name, values in others.items()}
    return {"test_error": errors, "difference": differences}


def run(names: Sequence[str], num_seeds: int, setting: Setting) -> dict[str, Any]:
    """A record for each data set that is there."""
    keys = jax.random.split(jax.random.key(0), num_seeds)
    loaded, missing = tools.load_all(names)
    records = []
    for name, data in loaded.items():
        problems = tools.random_problems(data, num_seeds)
        begin = time.perf_counter()
        curves = jax.tree.map(np.asarray, train_all(problems, keys, setting=setting))
        seconds = time.perf_counter() - begin
        sizes = tools.sizes_of(problems)
        records.append(
            {
                "data": name,
                "sizes": sizes,
                **summarize(curves),
                "curves": curves,
                "seconds": seconds,
            }
        )
    return {"records": records, "missing": missing}


def table(results: Mapping[str, Any]) -> str:
    """A row for each data set: test errors in per cent, and differences to the linear head."""
    lines = [
        "| data | linear head | LP-Boost head | difference | exact pair | difference |",
        "| :--- " + "| ---: " * 5 + "|",
    ]
    for record in results["records"]:
        cells = [record["data"], tools.percent(record["test_error"]["linear"])]
        for name in NAMES[1:]:
            cells.append(tools.percent(record["test_error"][name]))
            cells.append(tools.percent(record["difference"][name], "+"))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """Errors by epoch, the mean over seeds: training and test of both heads and their pair."""
    records = results["records"]
    figure, axes = tools.new_figure(10, 3.8, ncols=len(records), squeeze=False)
    for one, record in zip(axes[0], records, strict=True):
        for color, name in enumerate(NAMES):
            for part, style in (("test", "-"), ("training", ":")):
                values = 100 * np.mean(record["curves"][f"{part} error, {name}"], axis=0)
                epochs = np.arange(1, len(values) + 1)
                one.plot(epochs, values, style, color=f"C{color}", label=f"{LABELS[name]}, {part}")
        one.set_title(record["data"], fontsize=10)
        one.set_xlabel("epoch")
        one.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("error, per cent")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=9)
    tools.save_figure(figure, "lpboost_head", folder)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of this example alone."""
    names = ", ".join(DATA_SETS)
    parser.add_argument(
        "--data",
        nargs="+",
        choices=DATA_SETS,
        metavar="NAME",
        help=f"of {names}; default all, quick one",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, prints a table, writes lpboost_head.json and lpboost_head.png."""
    options = tools.parse(__doc__, arguments, seeds=20, add=add_options)
    setting = Setting(num_epochs=10, steps_per_epoch=20, batch_size=64, width=16)
    if options.quick:
        setting = Setting(num_epochs=2, steps_per_epoch=5, batch_size=32, width=4)
    results = run(options.data or DATA_SETS[: 1 if options.quick else None], options.seeds, setting)
    head = {"nu": NU, "smoothing": SMOOTHING, "scale": SCALE, "learning_rate": LEARNING_RATE}
    results = {
        "num_seeds": options.seeds,
        "setting": {**dataclasses.asdict(setting), **head},
        **results,
    }
    tools.write_results("lpboost_head", results, options.output)
    draw(results, options.figures)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
