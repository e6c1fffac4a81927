"""The Rademacher complexity of monomials against full enumeration, and costs from a table."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.monomials import SearchConfig, costs, rademacher_complexity

NUM_EXAMPLES, NUM_ATTRIBUTES, NUM_DRAWS, MAX_ORDER = 20, 4, 8, 3
SIZES = {"max_order": MAX_ORDER, "num_draws": NUM_DRAWS, "config": SearchConfig(missing=True)}
KEY = jax.random.key(3)


def by_enumeration(features, mask):
    """The mean over the same labels of the largest |sum_i s_i u(x_i)| of each order."""
    labels = np.asarray(jax.random.rademacher(KEY, (NUM_DRAWS, len(features)), np.float32))
    means = []
    for order in range(1, MAX_ORDER + 1):
        largest = np.zeros(NUM_DRAWS)
        for attributes in itertools.combinations(range(features.shape[1]), order):
            for wanted in itertools.product((0, 1), repeat=order):
                holds = (features[:, list(attributes)] == list(wanted)).all(axis=1) & mask
                largest = np.maximum(largest, np.abs(labels @ holds))
        means.append(largest.mean())
    return means


def cases():
    rng = np.random.default_rng(6)
    features = (rng.random((4, NUM_EXAMPLES, NUM_ATTRIBUTES)) < 0.4).astype(np.float32)
    features[1, :, 2:] = np.nan  # columns that pad
    features[2] = features[2, :1]  # equal examples
    masks = np.ones((4, NUM_EXAMPLES), bool)
    masks[3, 7:] = False
    masks[2, 1:] = False
    return features, masks


@pytest.mark.parametrize("case", range(4))
def test_rademacher_complexity_is_that_of_all_monomials(case):
    features, masks = (values[case] for values in cases())
    found = rademacher_complexity(features, KEY, mask=masks, **SIZES)
    np.testing.assert_allclose(found, by_enumeration(features, masks), rtol=1e-5)
    orders = np.arange(1, MAX_ORDER + 1)
    size = [math.log(2 ** (k + 1) * math.comb(NUM_ATTRIBUTES, k)) for k in orders]
    assert (np.asarray(found) <= 2 * np.sqrt(2 * masks.sum() * np.array(size))).all()


def test_costs_by_order_are_those_of_the_table():
    table = jnp.array([1.0, 0.5])
    found = costs.by_order(table)(jnp.array([1, 2, 3]), 2, 10, 3)
    assert found.tolist() == [1.0, 0.5, np.inf]
    assert costs.by_order(table)(jnp.array([1, 2]), 1, 10, 2).tolist() == [1.0, np.inf]
    learner = jboost.learners.monomials(2, cost=costs.by_order(table))
    dataset = jboost.make_dataset(np.eye(3), [1, -1, 1])
    prices = learner.init(None, dataset).prices
    np.testing.assert_array_equal(prices, [0.0, 1.0, 0.5])


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: rademacher_complexity(np.eye(2), KEY, max_order=3), "max_order is 3, above the 2"),
        (lambda: rademacher_complexity(np.eye(2), 0, max_order=1), "key is 0"),
        (lambda: rademacher_complexity(np.eye(2), KEY, max_order=1, num_draws=0), "num_draws is 0"),
        (lambda: rademacher_complexity(np.eye(2), KEY, max_order=1, mask=[True]), "mask"),
        (lambda: costs.by_order([]), "table is empty"),
        (lambda: costs.by_order([1.0, -1.0]), r"table\[1\] is -1"),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises(ValueError, match=text):
        call()
