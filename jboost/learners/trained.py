"""A learner that trains a differentiable model with an optax optimizer under the example weights.

Boosting needs a hypothesis of large edge under a distribution over the examples (Freund and
Schapire 1997). Here gradient descent searches for one. It proves nothing about other hypotheses, so
that its `upper_bound` is +inf.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jboost.base import boosting, check, loops, meshes, records
from jboost.base.boosting import Proposal
from jboost.base.boosting.protocols import Learner
from jboost.base.by_value import ByValue
from jboost.base.types import Array, Dataset, PyTree, is_packed
from jboost.learners import criteria, draws, networks
from jboost.learners.draws import Draws
from jboost.learners.networks import Network, PlainNetwork, StatefulNetwork

LOSSES = ("logistic", "edge")
# The least size of a block of rows in evaluation. On a CPU, blocks of 64 to 8,192 images took the
# same time.
_LEAST_ROWS_AT_ONCE = 1024


class Model(NamedTuple):
    """A trained model, or its negation."""

    params: PyTree
    sign: Array  # [] +1 or -1
    state: PyTree = ()  # the state of a stateful model


class TrainedState(NamedTuple):
    """The state of the learner, which `propose` takes."""

    features: Array  # [m, ...] of the caller's dtype, 0 on padding
    labels: Array  # [m] +1 or -1, 0 on padding
    key: Array  # for the next call
    params: PyTree  # the first parameters of the next call, with a warm start; else ()
    model_state: PyTree  # the first state of the model, likewise


@dataclasses.dataclass(frozen=True)
class Trained(Learner):
    """The learner behind `trained`."""

    network: Network
    optimizer: ByValue  # an optax.GradientTransformation
    hyperparams: dict[str, Array]  # [] each
    num_steps: int
    batch_size: int | None
    sampling: str
    loss: str
    warm_start: bool

    def init(self, key: Array | None, dataset: Dataset) -> TrainedState:
        """Stores the key and the examples, and with a warm start the first parameters."""
        key = check.key("key", key)
        if is_packed(dataset.features):
            raise ValueError(
                "dataset has packed features: expected an array; pass features.to_dense()"
            )
        if self.batch_size is not None:
            boosting.validate_size(dataset)
        counts = check.rows_alike(dataset.mask, dataset.features)
        features = jnp.where(counts, dataset.features, jnp.zeros((), dataset.features.dtype))
        start: tuple[PyTree, PyTree] = ((), ())
        if self.warm_start:
            key, first = jax.random.split(key)
            start = self.network.initialize(first, _as_floats(features))
        return TrainedState(features, boosting.signs(dataset), key, *start)

    def propose(
        self,
        state: TrainedState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """One model, trained from new or from the last parameters, and negated if its edge is
        negative.
        """
        criteria.refuse_prices("trained", pair_weights, costs)
        key, key_params, key_steps = jax.random.split(state.key, 3)
        start = state.params, state.model_state
        if not self.warm_start:
            start = self.network.initialize(key_params, _as_floats(state.features))
        networks.check_network(self.network, *start, _as_floats(state.features), key_steps)
        params, model_state = self._fit(*start, state, example_weights, key_steps)
        outputs = jnp.tanh(self._scores(params, model_state, state.features))[None, :]
        edges, _ = criteria.edges(outputs, example_weights * state.labels)
        sign = jnp.where(edges < 0, -1.0, 1.0).astype(edges.dtype)
        one = functools.partial(jax.tree.map, lambda leaf: jnp.asarray(leaf)[None])
        hypotheses = Model(one(params), sign, one(model_state))
        outputs = jnp.where(state.labels[None, :] == 0, 0.0, sign[:, None] * outputs)
        after = (params, model_state) if self.warm_start else ((), ())
        state = TrainedState(state.features, state.labels, key, *after)
        return Proposal(
            hypotheses, outputs, jnp.abs(edges), jnp.full((), jnp.inf, edges.dtype), state
        )

    def outputs(self, hypothesis: Model, features: Array) -> Array:
        """tanh of the model's scores on features [k, ...], or its negation, [k]."""
        try:
            scores = self._scores(hypothesis.params, hypothesis.state, jnp.asarray(features))
        except jax.errors.JAXTypeError:
            raise
        except TypeError as error:
            raise ValueError(
                f"features has shape {list(jnp.shape(features))}, which `apply` does not take with"
                f" these params: {error}"
            ) from error
        return hypothesis.sign * jnp.tanh(scores)

    def _scores(self, params: PyTree, model_state: PyTree, features: Array) -> Array:
        """The scores [k] in evaluation, computed in blocks of rows if training uses minibatches."""

        def of_rows(rows: Array) -> Array:
            scores, _ = self.network.evaluate(
                params, model_state, _as_floats(rows), key=None, is_training=False
            )
            return _as_floats(scores)

        num_rows, block = features.shape[0], max(self.batch_size or 0, _LEAST_ROWS_AT_ONCE)
        if self.batch_size is None or num_rows <= block or meshes.is_set():
            return of_rows(features)
        padding = [(0, -num_rows % block)] + [(0, 0)] * (features.ndim - 1)
        blocks = jnp.pad(features, padding).reshape(-1, block, *features.shape[1:])
        _, scores = loops.scan(lambda carry, rows: (carry, of_rows(rows)), None, blocks)
        return scores.reshape(-1)[:num_rows]

    def _fit(
        self,
        params: PyTree,
        model_state: PyTree,
        state: TrainedState,
        example_weights: Array,
        key: Array,
    ) -> tuple[PyTree, PyTree]:
        """Parameters and state of the model after all steps."""
        key_draws, key_steps = jax.random.split(key)
        optimizer = optax.with_extra_args_support(self.optimizer.value)

        def step(
            carry: tuple[PyTree, PyTree, PyTree], item: tuple[Array, Draws | None]
        ) -> tuple[Any, None]:
            params, model_state, memory = carry
            key, drawn = item
            batch = _batch(state, example_weights, drawn)
            objective = functools.partial(
                self._objective, model_state=model_state, batch=batch, key=key
            )
            (value, model_state), gradients = jax.value_and_grad(objective, has_aux=True)(params)
            updates, memory = optimizer.update(
                gradients,
                memory,
                params,
                value=value,
                grad=gradients,
                value_fn=lambda params: objective(params)[0],
            )
            return (optax.apply_updates(params, updates), model_state, memory), None

        items = (
            jax.random.split(key_steps, self.num_steps),
            self._draws(state, example_weights, key_draws),
        )
        first = params, model_state, _with_hyperparams(optimizer.init(params), self.hyperparams)
        (params, model_state, _), _ = loops.scan(step, _cast_to_step(step, first, items), items)
        return params, model_state

    def _draws(self, state: TrainedState, example_weights: Array, key: Array) -> Draws | None:
        """The minibatches of all steps; None for all examples in every step."""
        if self.batch_size is None:
            return None
        shape = self.num_steps, self.batch_size
        return draws.draw(
            key, example_weights, state.labels != 0, sampling=self.sampling, shape=shape
        )

    def _objective(
        self, params: PyTree, *, model_state: PyTree, batch: tuple[Array, Array, Array], key: Array
    ) -> tuple[Array, PyTree]:
        """The weighted loss of a batch, and the state of the model after it."""
        features, labels, weights = batch
        scores, model_state = self.network.evaluate(
            params, model_state, _as_floats(features), key=key, is_training=True
        )
        scores = _as_floats(scores)
        losses = (
            jax.nn.softplus(-labels * scores)
            if self.loss == "logistic"
            else -labels * jnp.tanh(scores)
        )
        return jnp.sum(weights * losses), model_state


records.register(
    Trained,
    static=("network", "optimizer", "num_steps", "batch_size", "sampling", "loss", "warm_start"),
)


def trained(
    init: Callable[..., PyTree],
    apply: Callable[..., Any],
    optimizer: Any,
    *,
    hyperparams: Mapping[str, Any] | None = None,
    num_steps: int = 100,
    batch_size: int | None = None,
    sampling: str = "weighted",
    loss: str = "logistic",
    stateful: bool = False,
    warm_start: bool = False,
) -> Trained:
    """A learner that trains a differentiable model under the example weights by an optax optimizer.

    The outputs are tanh of the model's scores. Each proposal is one model. It is trained from new
    parameters (or the last ones) by `num_steps` steps of the optimizer on the weighted loss, and
    negated if its edge is negative. The same key gives the same models. `upper_bound` is +inf: it
    proves nothing.

    Models and dtypes. The model gets features as floats of the default type. Parameters and scores
    may be bfloat16. Losses, edges and outputs have the default float type, and bounds hold for the
    outputs of the training program. Other programs, predictions among them, may round bfloat16
    scores differently, by 2^-8 of their terms. `optax.inject_hyperparams` rounds numbers to the
    dtype of the parameters (0.999 to 1): give it `hyperparam_dtype=jax.numpy.float32`. A model
    that has a state (batch norm) or draws random numbers in training (dropout) needs the second
    form, `stateful=True`. With flax::

        def init(key, features):
            variables = net.init({"params": key}, features, train=False)
            return variables["params"], {"batch_stats": variables["batch_stats"]}


        def apply(params, state, features, *, key, is_training):
            scores, after = net.apply(
                {"params": params, **state},
                features,
                train=is_training,
                rngs={"dropout": key} if is_training else {},
                mutable=["batch_stats"],
            )
            return scores[:, 0], after if is_training else state

    With equinox, whose models hold functions beside arrays::

        _, static = eqx.partition(Net(jax.random.key(0)), eqx.is_inexact_array)


        def init(key, features):
            return eqx.filter(Net(key), eqx.is_inexact_array)


        def apply(params, features):
            return jax.vmap(eqx.combine(params, static))(features)

    A layer that mixes the rows of a batch, such as batch norm, also gets rows of padding unless
    `batch_size` is set: minibatches contain only examples.

    Compilation. `init`, `apply` and `optimizer` are compared by value. Functions made by the same
    code from equal numbers are equal, so that another `optax.adam(0.05)` causes no compilation. A
    different number does, except in `hyperparams`. Its numbers may also be traced, for instance to
    map one program over learning rates by `jax.vmap`.

    Args:
      init: (key, features [m, ...]) -> parameters, any pytree of float arrays. With
        `stateful`, -> (parameters, state), and the state is any pytree of arrays.
      apply: (parameters, features [k, ...]) -> [k] scores, any real numbers. With `stateful`,
        (parameters, state, features, *, key, is_training) -> (scores, state); in evaluation `key`
        is None, `is_training` is False, and the returned state is ignored.
      optimizer: an optax.GradientTransformation. Each update also gets `value`, `grad` and
        `value_fn` of its batch, for transformations that take them, such as `optax.lbfgs`. Those
        that need more (`obj_fn` of `optax.contrib.sophia`) raise their own errors.
      hyperparams: numbers by name, which replace those that `optimizer` was made with. It must be
        made by `optax.inject_hyperparams`, directly or within `optax.chain`. A schedule cannot be
        replaced.
      num_steps: steps per proposal.
      batch_size: examples per step, drawn with replacement; None for all of them. From 1,024 on, it
        is also the number of rows that are evaluated at a time.
      sampling: how the examples of a batch are drawn. "weighted" draws by the example weights, and
        all losses have equal weight. Every draw counts in full, even late in boosting, when a few
        examples have most of the weight. "uniform" draws all examples with equal probability and
        multiplies losses by m d_i. Batches then have the distribution of the data, as batch norm
        needs, but the variance of a gradient grows with m sum_i d_i^2. Both gradients are unbiased.
        (Rejection of uniform draws by d_i would also be unbiased, with a larger variance than
        "uniform".)
      loss: "logistic", sum_i d_i log(1 + exp(-y_i score_i)); "edge", -sum_i d_i y_i tanh(score_i).
      stateful: whether `init` and `apply` have the second form.
      warm_start: whether training starts from the parameters and the model state of the last
        proposal; the state of the optimizer is always new.

    Returns:
      A learner for features [m, N] or [m, ...] that are finite except on padding; a hypothesis is a
      `Model`: params, sign [], state. It needs a `key`.

    Raises:
      ValueError: naming the argument. Once the data are seen, also for `key` None, for scores or a
        state of a wrong shape, and for names in `hyperparams` that `optimizer` does not have.

    Freund and Schapire 1997, Section 4: the weak learner, here by gradients.

    >>> import jax, jax.numpy as jnp, optax
    >>> import jboost
    >>> from jboost import learners
    >>> learner = learners.trained(*learners.mlp((8,)), optax.adam(0.05))
    >>> dataset = jboost.make_dataset(
    ...     [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [-1, 1, 1, -1]
    ... )
    >>> state = learner.init(jax.random.key(0), dataset)
    >>> jnp.sign(learner.propose(state, jnp.full(4, 0.25)).outputs).tolist()
    [[-1.0, 1.0, 1.0, -1.0]]
    """
    _check_functions(init, apply)
    held = _hold_optimizer(optimizer)
    check.count("num_steps", num_steps, low=1)
    if batch_size is not None:
        check.count("batch_size", batch_size, low=1)
    check.choice("sampling", sampling, draws.SAMPLINGS)
    check.choice("loss", loss, LOSSES)
    check.choice("stateful", stateful, (False, True))
    check.choice("warm_start", warm_start, (False, True))
    form = StatefulNetwork if stateful else PlainNetwork
    numbers = _check_hyperparams(hyperparams)
    return Trained(
        form(ByValue((init, apply))),
        held,
        numbers,
        num_steps,
        batch_size,
        sampling,
        loss,
        warm_start,
    )


def _check_functions(init: Any, apply: Any) -> None:
    """Raises ValueError unless both are functions."""
    for name, function in (("init", init), ("apply", apply)):
        if not callable(function):
            raise ValueError(
                f"{name} is {function!r}: expected a function, such as those of"
                " jboost.learners.mlp((16,))"
            )


def _hold_optimizer(optimizer: Any) -> ByValue:
    """The optimizer, compared by value. Raises ValueError for other objects, and traced numbers."""
    if not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise ValueError(
            f"optimizer is {optimizer!r}: expected an optax.GradientTransformation, such as"
            " optax.adam(1e-2)"
        )
    held = ByValue(optimizer)
    if held.holds_traced:
        raise ValueError(
            "optimizer holds a traced number: pass it as one of `hyperparams`, to an optimizer that"
            " is made by optax.inject_hyperparams"
        )
    return held


def _check_hyperparams(hyperparams: Any) -> dict[str, Array]:
    """The numbers as arrays of the default float type. Raises ValueError for other values."""
    if hyperparams is None:
        return {}
    if not isinstance(hyperparams, Mapping) or not all(
        isinstance(name, str) for name in hyperparams
    ):
        raise ValueError(
            f"hyperparams is {hyperparams!r}: expected numbers by name, such as {{'learning_rate':"
            " 1e-2}"
        )
    return {
        name: _as_floats(check.numeric(f"hyperparams[{name!r}]", value, shape=(), kinds="fiu"))
        for name, value in sorted(hyperparams.items())
    }


def _with_hyperparams(memory: PyTree, hyperparams: Mapping[str, Array]) -> PyTree:
    """The first state of an optimizer, with its hyperparameters replaced by these numbers.

    Raises:
      ValueError: at trace time, for a name that the optimizer does not inject as a number.
    """
    names: set[str] = set()

    def replace(part: Any) -> Any:
        if not _is_injected(part):
            return part
        scheduled = getattr(part, "hyperparams_states", {})
        known = {name: number for name, number in hyperparams.items() if name in part.hyperparams}
        known = {name: number for name, number in known.items() if name not in scheduled}
        names.update(known)
        replaced = {
            name: number.astype(part.hyperparams[name].dtype) for name, number in known.items()
        }
        return part._replace(hyperparams={**part.hyperparams, **replaced})

    memory = jax.tree.map(replace, memory, is_leaf=_is_injected)
    for name in hyperparams:
        if name not in names:
            raise ValueError(
                f"hyperparams holds {name!r}, which is not a number that the optimizer injects:"
                " make it by optax.inject_hyperparams, as"
                " optax.inject_hyperparams(optax.adam)(learning_rate=1e-2)"
            )
    return memory


def _is_injected(part: Any) -> bool:
    """Whether a part of an optimizer's state is one of `optax.inject_hyperparams`."""
    return hasattr(part, "hyperparams") and hasattr(part, "inner_state")


def _cast_to_step(
    step: Callable[[PyTree, PyTree], tuple[PyTree, None]], carry: PyTree, items: PyTree
) -> PyTree:
    """The first values of a loop, cast to the dtypes after a step: the first step may widen the
    state of an optimizer.
    """
    after, _ = jax.eval_shape(step, carry, jax.tree.map(lambda leaf: leaf[0], items))
    return jax.tree.map(
        lambda leaf, kind: leaf if leaf.dtype == kind.dtype else leaf.astype(kind.dtype),
        carry,
        after,
    )


def _batch(
    state: TrainedState, example_weights: Array, drawn: Draws | None
) -> tuple[Array, Array, Array]:
    """Features, labels and loss weights of the examples that were drawn, or of all examples."""
    if drawn is None:
        return state.features, state.labels, example_weights
    return state.features[drawn.rows], state.labels[drawn.rows], drawn.weights


def _as_floats(numbers: Array) -> Array:
    return jnp.asarray(numbers).astype(jnp.result_type(float))
