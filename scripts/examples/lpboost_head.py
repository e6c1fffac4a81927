"""An LP-Boost head trained end to end, beside a linear head, and the exact pair of the two.

What one learns from it: how `jboost.layers.margin_head` takes the place of the last layer of a network. In
each step its votes are those of largest smoothed soft margin on the minibatch, found anew, and the loss
moves the features below through them by implicit differentiation. Its state goes through the loop beside
the parameters. After each epoch `jboost.layers.pair_head` finds the line in the plane of both heads'
scores with the fewest errors of all lines, on the training part: never more than the better head has.

Both networks have the same first parameters below the head, minibatches, steps and optimizer. Nothing is
chosen by validation or test data. The scale of the LP-Boost head's logits is fixed beforehand.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tools
from tools import Part, Problem

from jboost import layers, losses

DATA_SETS = ("breast_cancer", "digits", "PIMA", "SPAMBASE", "RING")
HEADS = ("linear", "lpboost")
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
    return [
        (jax.random.normal(one, size) / np.sqrt(size[0]), jnp.zeros(size[1]))
        for one, size in zip(keys, sizes, strict=True)
    ]


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
    pair = layers.pair_head()
    scores = {}
    for part in ("training", "test"):
        features = getattr(problem, part).features
        scores[part] = jnp.stack([score(networks[name], heads[name], features) for name in HEADS], axis=1)
    _, line = pair.apply(pair.init(), scores["training"], problem.training.labels)
    found = {}
    for part, both in scores.items():
        labels = getattr(problem, part).labels
        combined, _ = pair.apply(line, both)
        for name, values in zip((*HEADS, "pair"), (*both.T, combined), strict=True):
            found[f"{part} error, {name}"] = error(values, labels)
    found["certified training error, pair"] = line.loss / problem.training.labels.shape[0]
    return found


def score(network: Network, head: Apply, features: jax.Array) -> jax.Array:
    """Scores [m] by the parameters, and the votes of the last minibatch."""
    body, own = network.params
    logits, _ = head(own, network.state, apply_body(body, features), None)
    return logits


def error(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """The share of scores [m] on the wrong side of 0."""
    return jnp.mean((scores > 0) != (labels > 0))
