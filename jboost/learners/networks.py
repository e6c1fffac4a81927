"""A common interface for the two forms of models that `trained` takes, and a multilayer perceptron.

The implementation of `trained` only uses a `Network`, which maps parameters, a state and features
to scores and a new state.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jboost.base import check
from jboost.base.by_value import ByValue
from jboost.base.types import Array, PyTree

_STATEFUL_INIT = "with stateful=True the pair (params, state)"
_STATEFUL_APPLY = "with stateful=True the pair (scores, state)"


@dataclasses.dataclass(frozen=True)
class Network(abc.ABC):
    """A model in the form that `trained` uses."""

    functions: ByValue  # (init, apply) of the caller

    @abc.abstractmethod
    def initialize(self, key: Array, features: Array) -> tuple[PyTree, PyTree]:
        """Parameters and state."""

    @abc.abstractmethod
    def evaluate(
        self,
        params: PyTree,
        state: PyTree,
        features: Array,
        *,
        key: Array | None,
        is_training: bool,
    ) -> tuple[Array, PyTree]:
        """Scores [k] of features [k, ...], and the new state."""


@dataclasses.dataclass(frozen=True)
class PlainNetwork(Network):
    """init: (key, features) -> params; apply: (params, features) -> scores."""

    def initialize(self, key: Array, features: Array) -> tuple[PyTree, PyTree]:
        """The parameters, and no state."""
        return self.functions.value[0](key, features), ()

    def evaluate(
        self,
        params: PyTree,
        state: PyTree,
        features: Array,
        *,
        key: Array | None,
        is_training: bool,
    ) -> tuple[Array, PyTree]:
        """The scores, and no state."""
        del key, is_training
        return self.functions.value[1](params, features), state


@dataclasses.dataclass(frozen=True)
class StatefulNetwork(Network):
    """init: (key, features) -> (params, state).

    apply: (params, state, features, *, key, is_training) -> (scores, state).
    """

    def initialize(self, key: Array, features: Array) -> tuple[PyTree, PyTree]:
        """The result of the user's `init`."""
        params, state = _pair(
            "init", self.functions.value[0](key, features), expected=_STATEFUL_INIT
        )
        return params, state

    def evaluate(
        self,
        params: PyTree,
        state: PyTree,
        features: Array,
        *,
        key: Array | None,
        is_training: bool,
    ) -> tuple[Array, PyTree]:
        """The result of the user's `apply`."""
        result = self.functions.value[1](params, state, features, key=key, is_training=is_training)
        scores, state = _pair("apply", result, expected=_STATEFUL_APPLY)
        return scores, state


def _pair(name: str, result: Any, *, expected: str) -> tuple[Any, Any]:
    if type(result) is not tuple or len(result) != 2:
        raise ValueError(f"{name} returns a {type(result).__name__}: expected {expected}")
    return result


def check_network(
    network: Network, params: PyTree, state: PyTree, features: Array, key: Array
) -> None:
    """Raises ValueError unless `apply` returns one score per row and a state of the same form."""

    def training(
        params: PyTree, state: PyTree, features: Array, key: Array
    ) -> tuple[Array, PyTree]:
        return network.evaluate(params, state, features, key=key, is_training=True)

    scores, after = jax.eval_shape(training, params, state, features, key)
    expected = features.shape[:1]
    if not isinstance(scores, jax.ShapeDtypeStruct) or scores.shape != expected:
        what = list(scores.shape) if isinstance(scores, jax.ShapeDtypeStruct) else scores
        raise ValueError(
            f"apply returns {what} on features {list(features.shape)}: expected one score a row,"
            f" {list(expected)}"
        )
    before, found = (_kinds_of(tree) for tree in (state, after))
    if found != before:
        raise ValueError(
            f"apply changes its state from {before} to {found}: keep the structure, shapes and"
            " dtypes"
        )


def _kinds_of(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)


@dataclasses.dataclass(frozen=True)
class MLPInit:
    """Draws the parameters of `mlp`: a list of (matrix, bias), of variance 1 / fan-in."""

    hidden_sizes: tuple[int, ...]

    def __call__(self, key: Array, features: Array) -> PyTree:
        sizes = (math.prod(features.shape[1:]), *self.hidden_sizes, 1)
        keys = jax.random.split(key, len(sizes) - 1)
        return [
            (jax.random.normal(key, shape) / math.sqrt(max(1, shape[0])), jnp.zeros(shape[1]))
            for key, shape in zip(keys, itertools.pairwise(sizes), strict=True)
        ]


def apply_mlp(params: PyTree, features: Array) -> Array:
    """The scores [k] of `mlp` on features [k, ...]: affine maps with tanh between."""
    *hidden, last = params
    features = features.reshape(features.shape[0], math.prod(features.shape[1:]))
    for matrix, bias in hidden:
        features = jnp.tanh(features @ matrix + bias[None, :])
    matrix, bias = last
    return (features @ matrix + bias[None, :])[:, 0]


def mlp(hidden_sizes: tuple[int, ...]) -> tuple[MLPInit, Callable[[PyTree, Array], Array]]:
    """A multilayer perceptron for `trained`, (init, apply): tanh between layers, one score a row.

    Args:
      hidden_sizes: of the layers between the features and the score; () for a linear model.

    Returns:
      init: (key, features [m, ...]) -> parameters; apply: (parameters, features [k, ...]) -> scores
        [k]. Rows of more axes are flattened. Equal sizes give equal pairs.

    Raises:
      ValueError: naming `hidden_sizes`, if it is not a tuple of positive integers.

    >>> from jboost import learners
    >>> learners.mlp((16,)) == learners.mlp((16,))
    True
    """
    if not isinstance(hidden_sizes, (tuple, list)):
        raise ValueError(
            f"hidden_sizes is {hidden_sizes!r}: expected a tuple of sizes, such as (16,)"
        )
    for index, size in enumerate(hidden_sizes):
        check.count(f"hidden_sizes[{index}]", size, low=1)
    return MLPInit(tuple(int(size) for size in hidden_sizes)), apply_mlp
