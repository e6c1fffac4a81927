"""Heads and trained learners inside of models of flax and equinox."""

import functools

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jboost
from jboost import layers, learners

HEAD = layers.margin_head(nu=0.3, smoothing=0.1, scale=4.0)


def _batch(size=64):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(size, 4)).astype(np.float32)
    labels = np.where(features[:, 0] * features[:, 1] > 0, 1, -1)
    return jnp.asarray(features), jnp.asarray(labels)


class FlaxNetwork(nn.Module):
    """A hidden layer under a margin head, whose state is a variable of the collection `votes`."""

    @nn.compact
    def __call__(self, features, labels=None):
        hidden = jnp.tanh(nn.Dense(6)(features))
        votes = self.variable("votes", "head", lambda: HEAD.init(6))
        logits, votes.value = HEAD.apply(votes.value, hidden, labels)
        return logits


class EquinoxNetwork(eqx.Module):
    """The same, with the state of the head in an `eqx.nn.State`."""

    hidden: eqx.nn.Linear
    votes: eqx.nn.StateIndex

    def __init__(self, key):
        self.hidden = eqx.nn.Linear(4, 6, key=key)
        self.votes = eqx.nn.StateIndex(HEAD.init(6))

    def __call__(self, state, features, labels=None):
        hidden = jnp.tanh(jax.vmap(self.hidden)(features))
        logits, votes = HEAD.apply(state.get(self.votes), hidden, labels)
        return logits, state.set(self.votes, votes)


def _plain_losses(kernel, bias, num_steps):
    """Losses of gradient descent without a library of networks."""
    features, labels = _batch()

    def loss(params, state):
        logits, state = HEAD.apply(state, jnp.tanh(features @ params[0] + params[1][None]), labels)
        return jnp.mean(jax.nn.softplus(-labels * logits)), state

    params, state, found = (kernel, bias), HEAD.init(6), []
    step = jax.jit(jax.value_and_grad(loss, has_aux=True))
    for _ in range(num_steps):
        (value, state), gradient = step(params, state)
        params = jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient)
        found.append(float(value))
    return found, state


def test_margin_head_in_flax_trains_as_with_plain_arrays():
    features, labels = _batch()
    network = FlaxNetwork()
    variables = network.init(jax.random.key(0), features)
    params, votes = variables["params"], variables["votes"]
    dense = params["Dense_0"]
    expected, last = _plain_losses(dense["kernel"], dense["bias"], 3)

    @jax.jit
    def step(params, votes):
        def loss(params):
            logits, after = network.apply(
                {"params": params, "votes": votes}, features, labels, mutable=["votes"]
            )
            return jnp.mean(jax.nn.softplus(-labels * logits)), after["votes"]

        return jax.value_and_grad(loss, has_aux=True)(params)

    found = []
    for _ in range(3):
        (value, votes), gradient = step(params, votes)
        params = jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient)
        found.append(float(value))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(votes["head"].votes, last.votes, atol=1e-3)
    assert found[-1] < found[0]


def test_margin_head_in_equinox_trains_as_with_plain_arrays():
    features, labels = _batch()
    network, state = eqx.nn.make_with_state(EquinoxNetwork)(jax.random.key(1))
    expected, last = _plain_losses(network.hidden.weight.T, network.hidden.bias, 3)

    @eqx.filter_jit
    @functools.partial(eqx.filter_value_and_grad, has_aux=True)
    def step(network, state):
        logits, state = network(state, features, labels)
        return jnp.mean(jax.nn.softplus(-labels * logits)), state

    found = []
    for _ in range(3):
        (value, state), gradient = step(network, state)
        network = eqx.apply_updates(network, jax.tree.map(lambda g: -0.5 * g, gradient))
        found.append(float(value))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(state.get(network.votes).votes, last.votes, atol=1e-3)


def _error(fit, features, labels):
    return float(np.mean(np.asarray(jboost.predict(fit.ensemble, features)) != labels))


@pytest.mark.slow
def test_adaboost_trains_flax_models_with_batch_norm_and_dropout():
    features, labels = _batch()

    class Network(nn.Module):
        @nn.compact
        def __call__(self, features, train):
            hidden = nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(features))
            hidden = nn.Dropout(0.1, deterministic=not train)(jnp.tanh(hidden))
            return nn.Dense(1)(hidden)

    network = Network()

    def init(key, features):
        variables = network.init({"params": key}, features, train=False)
        return variables["params"], {"batch_stats": variables["batch_stats"]}

    def apply(params, state, features, *, key, is_training):
        scores, after = network.apply(
            {"params": params, **state},
            features,
            train=is_training,
            rngs={"dropout": key} if is_training else {},
            mutable=["batch_stats"],
        )
        return scores[:, 0], after if is_training else state

    learner = learners.trained(
        init, apply, optax.adam(0.03), num_steps=60, batch_size=32, stateful=True
    )
    fit = jboost.adaboost.fit(
        jboost.make_dataset(features, labels), learner, key=jax.random.key(0), max_rounds=4
    )
    assert int(fit.num_rounds) == 4
    assert _error(fit, features, labels) < 0.15
    statistics = jax.tree.leaves(fit.ensemble.hypotheses.state)
    assert max(float(jnp.abs(leaf).max()) for leaf in statistics) > 0


@pytest.mark.slow
def test_adaboost_trains_equinox_models():
    features, labels = _batch()

    def make(key):
        return eqx.nn.MLP(4, "scalar", 8, 1, jnp.tanh, key=key)

    _, static = eqx.partition(make(jax.random.key(0)), eqx.is_inexact_array)

    def init(key, features):
        return eqx.filter(make(key), eqx.is_inexact_array)

    def apply(params, features):
        return jax.vmap(eqx.combine(params, static))(features)

    learner = learners.trained(init, apply, optax.adam(0.05), num_steps=60)
    fit = jboost.adaboost.fit(
        jboost.make_dataset(features, labels), learner, key=jax.random.key(0), max_rounds=4
    )
    assert _error(fit, features, labels) < 0.15
