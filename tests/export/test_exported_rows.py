"""Exports say what the model says: on 10,000 rows with extreme, missing and unseen values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from exported_models import (
    NUM_ROWS,
    RUNNERS,
    assert_equal,
    make_binarizer,
    make_columns,
    make_rules,
    make_separator,
    make_table,
)
from jboost import learners
from jboost.combine.types import LinearVote
from jboost.data import binarization
from jboost.ensemble import Ensemble
from jboost.learners import Column, Stump
from marks import slow, slow_but

runners = pytest.mark.parametrize("runner", RUNNERS)
# The reader of JSON, which is not the package's, evaluates row by row in Python.
quick_runners = pytest.mark.parametrize("runner", slow_but(RUNNERS, "sqlite", "duckdb", "onnx"))


@runners
@pytest.mark.parametrize(
    "missing,votes",
    [
        ("literal", "integers"),
        slow("none", "reals"),
        slow("literal", "infinite"),
        slow("literal", "wide"),
    ],
)
def test_rules_of_every_kind_of_bit(runner, missing, votes):
    binarizer = make_binarizer(missing=missing)
    rng = np.random.default_rng(2)
    size = binarizer.num_bits + 20
    numbers = {
        "integers": rng.integers(-9, 10, size).astype(float),
        "reals": rng.normal(size=size),
        "wide": rng.normal(size=size),
        "infinite": np.where(rng.random(size) < 0.05, np.inf, rng.normal(size=size)),
    }[votes]
    columns, rows = make_table(binarizer)
    options = {
        "binarizer": binarizer,
        "exact": True,
    }
    with jax.enable_x64(votes == "wide"), np.errstate(over="ignore"):
        bits = np.pad(np.asarray(binarization.apply(binarizer, rows)), ((0, 0), (0, 3)))
        model = make_rules(binarizer, votes=numbers, dtype=bits.dtype)
        assert_equal(model, columns, bits, runner, **options)


@quick_runners
@pytest.mark.parametrize("votes", ["reals", "infinite"])
def test_stumps_on_numbers_and_bits(runner, votes):
    binarizer = make_binarizer()
    rng = np.random.default_rng(4)
    size, num_plain = 40, 2
    feature = rng.integers(0, num_plain + binarizer.num_bits, size)
    is_plain = feature < num_plain
    threshold = np.where(is_plain, rng.choice([0.1, -1e-40, 1e30, 0.0, 1.5], size), 0.5)
    left = rng.choice([-1.0, 0.0, 1.0], size)
    right = np.where(left == 0, rng.choice([-1.0, 1.0], size), -left)
    threshold[0], left[0], right[0] = -np.inf, 1.0, 1.0
    numbers = rng.normal(size=(size, 2))
    if votes == "infinite":
        numbers[5:8, 0] = np.inf
    model = Ensemble(
        learners.stumps(abstain=True),
        Stump(
            *(
                jnp.asarray(part, kind)
                for part, kind in (
                    (feature, "int32"),
                    (threshold, "float32"),
                    (left, "float32"),
                    (right, "float32"),
                )
            )
        ),
        jnp.asarray(numbers, "float32"),
        jnp.float32(0.5),
        jnp.int32(size),
    )
    columns, rows = make_table(binarizer)
    plain = make_columns(7, threshold[is_plain], num_plain)
    columns |= {f"plain {index}": plain[:, index] for index in range(num_plain)}
    features = np.concatenate([plain, binarization.apply(binarizer, rows)], axis=1)
    names = ["plain 0", "plain 1"]
    assert_equal(model, columns, features, runner, binarizer=binarizer, names=names, exact=True)


def make_columns_model(learner, votes):
    size = len(votes)
    index = np.arange(size) % 3
    sign = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    return Ensemble(
        learner,
        Column(jnp.asarray(index, "int32"), jnp.asarray(sign, "float32")),
        jnp.asarray(votes, "float32"),
        jnp.float32(0.125),
        jnp.int32(size),
    )


POOLS = {
    "pool": learners.pool(),
    "literals": learners.literals(),
    "signs": learners.signs(learners.pool()),
}


@quick_runners
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("is_infinite", [slow(False), True])
def test_pools_of_classifiers(runner, name, is_infinite):
    votes = np.random.default_rng(5).normal(size=(4, 2))
    votes[1] = votes[1, 0]
    if is_infinite:
        votes[2, 0] = np.inf
    features = make_columns(8, [0.0], 3).clip(-1, 1)
    columns = {f"x{index}": features[:, index] for index in range(3)}
    model = make_columns_model(POOLS[name], votes)
    assert_equal(model, columns, features, runner, scale=np.abs(votes[votes < 9]).sum())


SCORES = {
    "constant": ([0.0, 0.0], [0.0, 0.0], 1.0),
    "pair": ([1 / 3, -2.0], [0.1, 7.5], 0.1),
    "through an anchor": ([1.0, 0.0], [0.1, 0.0], 0.0),
    "three": ([1.0, -1.0, 1e-20], [0.1, 0.1, 1e30], 0.0),
    "tiny": ([1e-30, -1e-38], [0.0, 1e-30], 0.0),
}


@runners
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SCORES)
def test_votes_of_scores(runner, dtype, name):
    normal, anchor, bias = SCORES[name]
    with jax.enable_x64(dtype == "float64"):
        model = make_separator(dtype, normal, anchor, bias)
        size = len(normal)
        features = make_columns(9, [*anchor, bias], size)
        features[: NUM_ROWS // 4] = np.array(anchor)  # score 0, or that of the bias
        features[1 : NUM_ROWS // 4 : 2, 0] += 1e-8
        columns = {f"x{index}": features[:, index] for index in range(size)}
        assert_equal(model, columns, features, runner)


@runners
def test_a_linear_vote_of_three_classifiers(runner):
    fields = {"coefficients": [0.5, -0.25, 0.25], "offset": 0.25}
    rest = dict.fromkeys(("loss", "lower_bound", "margin"), 0.0)
    arrays = {name: jnp.asarray(value, "float32") for name, value in (fields | rest).items()}
    model = LinearVote(**arrays, misclassified=jnp.zeros(1, bool), status=jnp.int32(0))
    features = np.random.default_rng(1).integers(-1, 2, (NUM_ROWS, 3)).astype(float)  # ties
    columns = {f"x{index}": features[:, index] for index in range(3)}
    assert_equal(model, columns, features, runner, exact=True)
