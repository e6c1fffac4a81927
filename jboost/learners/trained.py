"""A learner that trains a differentiable model with an optax optimizer, and a small network for it.

Papers 002 and 004 ask for a hypothesis of large edge under the distribution d; here gradient descent looks for one. It promises
nothing about the other hypotheses, so that its `upper_bound` is +inf.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jboost.base import boosting, check, loops, records
from jboost.base.boosting import Proposal
from jboost.base.types import Array, Dataset, PyTree
from jboost.learners import criteria

LOSSES = ("logistic", "edge")


class Model(NamedTuple):
    """A trained model, or its negation."""

    params: PyTree
    sign: Array  # [] +1 or -1


class TrainedState(NamedTuple):
    """What `propose` needs."""

    features: Array  # [m, N] floats, 0 on padding
    labels: Array  # [m] +1 or -1, 0 on padding
    key: Array  # for the next call
    params: PyTree  # where the next call starts, with a warm start; else ()


@dataclasses.dataclass(frozen=True)
class Trained:
    """The learner behind `trained`."""

    initialize: Callable[[Array, Array], PyTree]
    apply: Callable[[PyTree, Array], Array]
    optimizer: Any  # an optax.GradientTransformation
    num_steps: int
    batch_size: int | None
    loss: str
    warm_start: bool

    def init(self, key: Array | None, dataset: Dataset) -> TrainedState:
        """Keeps the key and the examples, and with a warm start the first parameters."""
        key = check.key("key", key)
        features = jnp.where(dataset.mask[:, None], _as_floats(dataset.features), 0.0)
        params: PyTree = ()
        if self.warm_start:
            key, first = jax.random.split(key)
            params = self.initialize(first, features)
        return TrainedState(features, boosting.signs(dataset), key, params)

    def propose(self, state: TrainedState, example_weights: Array, *, pair_weights: Array | None = None, costs: Array | None = None) -> Proposal:
        """One model, trained afresh or further, and negated if its edge is negative."""
        criteria.refuse_prices("trained", pair_weights, costs)
        key, key_params, key_batches = jax.random.split(state.key, 3)
        params = state.params if self.warm_start else self.initialize(key_params, state.features)
        scores = jax.eval_shape(self.apply, params, state.features)
        if not isinstance(scores, jax.ShapeDtypeStruct) or scores.shape != state.labels.shape:
            what = list(scores.shape) if isinstance(scores, jax.ShapeDtypeStruct) else scores
            raise ValueError(f"apply returns {what} on features {list(state.features.shape)}: expected one score a row, {list(state.labels.shape)}")
        params = self._fit(params, state, example_weights, key_batches)
        outputs = jnp.tanh(self.apply(params, state.features))[None, :]
        edges, _ = criteria.edges(outputs, example_weights * state.labels)
        sign = jnp.where(edges < 0, -1.0, 1.0).astype(edges.dtype)
        hypotheses = Model(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], params), sign)
        outputs = jnp.where(state.labels[None, :] == 0, 0.0, sign[:, None] * outputs)
        state = state._replace(key=key, params=params if self.warm_start else ())
        return Proposal(hypotheses, outputs, jnp.abs(edges), jnp.full((), jnp.inf, edges.dtype), state)

    def outputs(self, hypothesis: Model, features: Array) -> Array:
        """tanh of the model's scores on features [k, N], or its negation, [k]."""
        try:
            scores = self.apply(hypothesis.params, _as_floats(features))
        except jax.errors.JAXTypeError:
            raise
        except TypeError as error:
            raise ValueError(f"features has shape {list(jnp.shape(features))}, which `apply` does not take with these params: {error}") from error
        return hypothesis.sign * jnp.tanh(scores)

    def _fit(self, params: PyTree, state: TrainedState, example_weights: Array, key: Array) -> PyTree:
        total = jnp.sum(example_weights)
        cumulative = jnp.cumsum(example_weights)

        def batch(key: Array) -> tuple[Array, Array, Array]:
            if self.batch_size is None:
                return state.features, state.labels, example_weights
            # By resampling: each example with the probability that its weight gives it, so that the gradient is right on average.
            drawn = jax.random.uniform(key, (self.batch_size,), total.dtype) * total
            rows = jnp.minimum(jnp.searchsorted(cumulative, drawn, side="right"), len(cumulative) - 1)
            return state.features[rows], state.labels[rows], jnp.full((self.batch_size,), total / self.batch_size)

        def objective(params: PyTree, features: Array, labels: Array, weights: Array) -> Array:
            scores = self.apply(params, features)
            losses = jax.nn.softplus(-labels * scores) if self.loss == "logistic" else -labels * jnp.tanh(scores)
            return jnp.sum(weights * losses)

        def step(carry: tuple[PyTree, PyTree], key: Array) -> tuple[tuple[PyTree, PyTree], None]:
            params, memory = carry
            gradients = jax.grad(objective)(params, *batch(key))
            updates, memory = self.optimizer.update(gradients, memory, params)
            return (optax.apply_updates(params, updates), memory), None

        keys = jax.random.split(key, self.num_steps)
        (params, _), _ = loops.scan(step, (params, self.optimizer.init(params)), keys)
        return params


records.register(Trained, static=("initialize", "apply", "optimizer", "num_steps", "batch_size", "loss", "warm_start"))


def trained(
    init: Callable[[Array, Array], PyTree],
    apply: Callable[[PyTree, Array], Array],
    optimizer: Any,
    *,
    num_steps: int = 100,
    batch_size: int | None = None,
    loss: str = "logistic",
    warm_start: bool = False,
) -> Trained:
    """A learner that trains a differentiable model under the example weights; its outputs are tanh of the model's scores.

    Each proposal is one model: parameters drawn anew (or the last ones), `num_steps` steps of the optimizer on the weighted loss, and a
    change of sign if the edge comes out negative. The same key gives the same models. `upper_bound` is +inf: it proves nothing.

    Args:
      init: (key, features [m, N]) -> parameters, any pytree of float arrays.
      apply: (parameters, features [k, N]) -> [k] scores, any real numbers.
      optimizer: an optax.GradientTransformation. It is compared as an object: make it once, and nothing recompiles.
      num_steps: steps a proposal.
      batch_size: examples a step, drawn with replacement by their weights; None for all of them, weighted.
      loss: "logistic", sum_i d_i log(1 + exp(-y_i score_i)); "edge", -sum_i d_i y_i tanh(score_i).
      warm_start: whether a proposal goes on from the parameters of the one before.

    Returns:
      A learner for features [m, N] that are finite where not padding; a hypothesis is a `Model`: params, sign []. It needs a `key`.

    Raises:
      ValueError: naming the argument; for `key` None, or scores of a wrong shape, once the data are seen.

    Papers 002 and 004, the hypothesis of large edge, here by gradients.

    >>> import jax, jax.numpy as jnp, optax
    >>> import jboost
    >>> from jboost import learners
    >>> learner = learners.trained(*learners.mlp((8,)), optax.adam(0.05))
    >>> dataset = jboost.make_dataset([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [-1, 1, 1, -1])
    >>> state = learner.init(jax.random.key(0), dataset)
    >>> jnp.sign(learner.propose(state, jnp.full(4, 0.25)).outputs).tolist()
    [[-1.0, 1.0, 1.0, -1.0]]
    """
    for name, function in (("init", init), ("apply", apply)):
        if not callable(function):
            raise ValueError(f"{name} is {function!r}: expected a function, such as those of jboost.learners.mlp((16,))")
    if not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise ValueError(f"optimizer is {optimizer!r}: expected an optax.GradientTransformation, such as optax.adam(1e-2)")
    check.count("num_steps", num_steps, low=1)
    if batch_size is not None:
        check.count("batch_size", batch_size, low=1)
    check.choice("loss", loss, LOSSES)
    check.choice("warm_start", warm_start, (False, True))
    return Trained(init, apply, optimizer, num_steps, batch_size, loss, warm_start)


@dataclasses.dataclass(frozen=True)
class MLPInit:
    """Draws the parameters of `mlp`: a list of (matrix, bias), of variance 1 / fan-in."""

    hidden_sizes: tuple[int, ...]

    def __call__(self, key: Array, features: Array) -> PyTree:
        sizes = (features.shape[1], *self.hidden_sizes, 1)
        keys = jax.random.split(key, len(sizes) - 1)
        return [
            (jax.random.normal(key, shape) / math.sqrt(max(1, shape[0])), jnp.zeros(shape[1]))
            for key, shape in zip(keys, itertools.pairwise(sizes), strict=True)
        ]


def apply_mlp(params: PyTree, features: Array) -> Array:
    """The scores [k] of `mlp` on features [k, N]: affine maps with tanh between."""
    *hidden, last = params
    for matrix, bias in hidden:
        features = jnp.tanh(features @ matrix + bias[None, :])
    matrix, bias = last
    return (features @ matrix + bias[None, :])[:, 0]


def mlp(hidden_sizes: tuple[int, ...]) -> tuple[MLPInit, Callable[[PyTree, Array], Array]]:
    """A multilayer perceptron for `trained`: the pair (init, apply), with tanh between layers and one score a row.

    Args:
      hidden_sizes: of the layers between the features and the score; () for a linear model.

    Returns:
      init: (key, features [m, N]) -> parameters; apply: (parameters, features [k, N]) -> scores [k]. Equal sizes give equal pairs.

    Raises:
      ValueError: naming `hidden_sizes`, if it is no tuple of integers of at least 1.

    >>> from jboost import learners
    >>> learners.mlp((16,)) == learners.mlp((16,))
    True
    """
    if not isinstance(hidden_sizes, (tuple, list)):
        raise ValueError(f"hidden_sizes is {hidden_sizes!r}: expected a tuple of sizes, such as (16,)")
    for index, size in enumerate(hidden_sizes):
        check.count(f"hidden_sizes[{index}]", size, low=1)
    return MLPInit(tuple(int(size) for size in hidden_sizes)), apply_mlp


def _as_floats(features: Array) -> Array:
    return jnp.asarray(features).astype(jnp.result_type(float))
