"""Functions compared by value: equal where the same code was run with equal values, and nowhere
else.
"""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jboost.base.by_value import ByValue

SCALE, SETTINGS = 2.0, {"scale": 2.0}


def holding(value):
    """A function that holds a value in its cell."""
    return lambda: value


def with_default(value):
    def inner(number=value, *, other=value):
        return number, other

    return inner


def calling_itself(value):
    def inner(number):
        return inner(number - 1) if number else value

    return inner


def naming_a_global():
    return lambda: (SCALE, SETTINGS)


VALUES = [
    None,
    True,
    1,
    1.0,
    0.0,
    -0.0,
    float("nan"),
    "1",
    b"1",
    (1, 2),
    [1, 2],
    {"a": 1},
    {"a": 2},
    np.float32(1),
    np.arange(3.0),
    np.arange(3),
    np.zeros((3, 1)),
    np.zeros((1, 3)),
    jnp.arange(3.0),
    jnp.asarray(1.0),
    jnp.arange(3.0, dtype=jnp.bfloat16),
    jax.random.key(0),
    jax.random.key(1),
    jnp.tanh,
    np.dtype("float32"),
    optax.linear_schedule(1.0, 0.0, 3),
    optax.linear_schedule(1.0, 0.0, 4),
    functools.partial(jnp.sum, axis=0),
    functools.partial(jnp.sum, axis=1),
]


def test_by_value_tells_values_apart_by_kind_and_finds_equal_ones():
    for make in (holding, with_default, calling_itself):
        wrapped = [ByValue(make(value)) for value in VALUES]
        again = [ByValue(make(value)) for value in VALUES]
        for place, one in enumerate(wrapped):
            assert [index for index, other in enumerate(again) if one == other] == [place]
            assert hash(one) == hash(again[place])
    assert ByValue(holding(np.arange(3.0))) == ByValue(holding(np.arange(3.0)))
    assert ByValue(holding(1)) != ByValue(calling_itself(1))
    assert ByValue((holding(1), holding(2))) != ByValue((holding(2), holding(1)))


def test_by_value_falls_back_to_identity_for_what_it_cannot_compare():
    for make in (
        object,
        lambda: np.array([None, {}]),
        lambda: np.zeros(1 << 18),
        lambda: jax.jit(lambda: 0.0),
    ):
        value = make()
        assert ByValue(holding(value)) == ByValue(holding(value))
        assert ByValue(holding(value)) != ByValue(holding(make()))


def test_by_value_sees_another_global_and_another_definition(monkeypatch):
    before = ByValue(naming_a_global())
    assert before == ByValue(naming_a_global())
    for name, value in (("SCALE", 3.0), ("SETTINGS", {"scale": 3.0})):
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, value)
            assert ByValue(naming_a_global()) != before
    monkeypatch.setitem(SETTINGS, "scale", 4.0)
    assert ByValue(naming_a_global()) != before
    monkeypatch.undo()
    assert ByValue(naming_a_global()) == before
    sources = ["def helper(): return 1.0\ndef make(): return lambda: helper()"] * 2
    spaces = [{"__name__": "cells"} for _ in sources]
    for source, space in zip(sources, spaces, strict=True):
        exec(source, space)
    assert ByValue(spaces[0]["make"]()) != ByValue(spaces[1]["make"]())
    first = ByValue(spaces[0]["make"]())
    exec("def helper(): return 2.0", spaces[0])  # as a cell of a notebook that is run again
    assert ByValue(spaces[0]["make"]()) != first


@pytest.mark.parametrize(
    "make",
    [
        optax.adam,
        optax.lion,
        lambda rate: optax.sgd(optax.cosine_decay_schedule(rate, 10), momentum=0.9),
        lambda rate: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate)),
        lambda rate: optax.inject_hyperparams(optax.adam)(learning_rate=rate),
        lambda rate: optax.MultiSteps(optax.adam(rate), 2),
        lambda rate: optax.masked(optax.sgd(rate), {"a": True}),
        lambda rate: optax.partition(
            {"a": optax.sgd(rate), "b": optax.adam(0.2)}, lambda params: params
        ),
        lambda rate: optax.lookahead(optax.sgd(rate), 5, 0.1),
    ],
)
def test_by_value_compares_optimizers_by_their_numbers(make):
    one, same, other = (ByValue(make(rate)) for rate in (0.05, 0.05, 0.06))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other


def test_by_value_knows_whether_functions_hold_traced_numbers():
    seen = []

    def trace(rate):
        seen.append((ByValue(optax.adam(rate)).holds_traced, ByValue(optax.adam(0.1)).holds_traced))
        assert ByValue(holding(rate)) == ByValue(holding(rate))
        return rate

    jax.eval_shape(trace, 0.1)
    assert seen == [(True, False)]


def test_by_value_ends_on_cycles():
    nest = []
    nest.append(nest)
    holder = types.SimpleNamespace()
    holder.function = holding(holder)
    assert ByValue(holding(nest)) == ByValue(holding(nest))
    assert ByValue(holder.function) == ByValue(holding(holder))
