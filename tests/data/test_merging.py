"""Equal examples as one: what is merged, and that nothing but the time to get there
depends on it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.data import merging
from jboost.monomials import costs


def repeated(seed=0, num_distinct=12, num_examples=60):
    """Few distinct rows, most of them more than once, some with both labels."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (num_distinct, 5))
    features = rows[rng.integers(0, num_distinct, num_examples)]
    labels = np.where(rng.random(num_examples) < 0.2, -1, 1) * np.where(
        features[:, 0] ^ features[:, 1], 1, -1
    )
    return features, labels


def test_what_is_merged():
    features = [[1.0, np.nan], [0.0, 2.0], [1.0, np.nan], [-0.0, 2.0], [0.0, 2.0], [7.0, 7.0]]
    dataset = jboost.make_dataset(
        features, [1, -1, 1, -1, 1, 1], weights=[1, 2, 3, 4, 5, 6], mask=[True] * 5 + [False]
    )
    merged = merging.merge_equal(dataset)
    np.testing.assert_array_equal(merged.dataset.features, [[1.0, np.nan], [0.0, 2.0], [0.0, 2.0]])
    assert merged.dataset.labels.tolist() == [1, -1, 1]
    assert merged.dataset.weights.tolist() == [4, 6, 5]
    assert merged.row_of.tolist() == [0, 1, 0, 1, 2, -1]
    wider = merging.merge_equal(dataset, num_rows=5)
    assert wider.dataset.mask.tolist() == [True, True, True, False, False]
    assert wider.dataset.labels.tolist() == [1, -1, 1, 1, 1]
    assert wider.dataset.weights.tolist() == [4, 6, 5, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_rows_and_weights_are_those_of_a_count(seed):
    features, labels = repeated(seed)
    weights = np.random.default_rng(seed).integers(1, 5, len(labels))
    merged = merging.merge_equal(jboost.make_dataset(features, labels, weights=weights))
    counts: dict = {}
    for row, label, weight in zip(
        features.tolist(), labels.tolist(), weights.tolist(), strict=True
    ):
        counts[(*row, label)] = counts.get((*row, label), 0) + weight
    found = zip(
        merged.dataset.features.tolist(),
        merged.dataset.labels.tolist(),
        merged.dataset.weights.tolist(),
        strict=True,
    )
    assert [((*row, label), weight) for row, label, weight in found] == list(counts.items())
    np.testing.assert_array_equal(np.asarray(merged.dataset.features)[merged.row_of], features)


def test_large_integers_are_not_rounded_together():
    with jax.enable_x64(True):
        features = np.array([[2**60], [2**60 + 1], [2**60]])
        assert merging.merge_equal(jboost.make_dataset(features, [1, 1, 1])).row_of.tolist() == [
            0,
            1,
            0,
        ]


def test_no_example_at_all():
    merged = merging.merge_equal(jboost.make_dataset(np.zeros((2, 3)), [1, 1], mask=[False, False]))
    assert merged.dataset.mask.tolist() == [False]
    assert merged.row_of.tolist() == [-1, -1]
    assert merging.merge_equal(
        jboost.make_dataset(np.zeros((0, 3)), np.zeros(0))
    ).dataset.features.shape == (1, 3)


def test_merge_equal_validates_arguments():
    dataset = jboost.make_dataset([[1], [0]], [1, -1])
    with pytest.raises(ValueError, match="num_rows is 1: the data set has 2 distinct examples"):
        merging.merge_equal(dataset, num_rows=1)
    with pytest.raises(ValueError, match="num_rows is 0"):
        merging.merge_equal(dataset, num_rows=0)
    with pytest.raises(
        ValueError, match="dataset is traced, and jboost.data.merging.merge_equal runs on the host"
    ):
        jax.jit(merging.merge_equal)(dataset)
    with pytest.raises(ValueError, match=r"weights\[1\] is -1"):  # a sum of 2 would hide it
        merging.merge_equal(jboost.make_dataset([[1], [1]], [1, 1], weights=[3, -1]))
    with pytest.raises(
        ValueError, match="weights of the examples equal to example 1 sum to .* scale weights down"
    ):
        merging.merge_equal(
            jboost.make_dataset([[0], [1], [1]], [1, 1, 1], weights=np.float32([1, 3e38, 3e38]))
        )
    with pytest.raises(ValueError, match=r"labels\[0\] is 0"):
        merging.merge_equal(jboost.make_dataset([[1], [1]], [0, 1]))


@pytest.mark.slow
def test_bounds_are_those_of_all_examples():
    features, labels = repeated()
    dataset = jboost.make_dataset(features, labels)
    # as many as there were: one compilation
    merged = merging.merge_equal(dataset, num_rows=60).dataset
    assert int(merged.mask.sum()) < 30

    def relaxed(rows):
        outputs = np.concatenate(
            [2 * np.asarray(rows.features) - 1, 1 - 2 * np.asarray(rows.features)], axis=1
        )
        return jboost.l0.solve_relaxation(
            outputs, rows.labels, np.full(10, 1.5), margin=0.2, weights=rows.weights, mask=rows.mask
        )

    one, other = relaxed(dataset), relaxed(merged)
    assert float(one.lower_bound) <= float(other.upper_bound) + 1e-4
    assert float(other.lower_bound) <= float(one.upper_bound) + 1e-4
    assert float(one.upper_bound) == pytest.approx(float(other.upper_bound), rel=1e-3)
    solved = [
        jboost.lpboost.solve(
            np.asarray(rows.labels)[:, None] * (2.0 * np.asarray(rows.features) - 1),
            nu=0.3,
            weights=rows.weights,
            mask=rows.mask,
        )
        for rows in (dataset, merged)
    ]
    assert float(solved[0].lower_bound) == pytest.approx(float(solved[1].lower_bound), abs=2e-4)


def learner_of(kappa):
    return jboost.learners.monomials(1, cost=costs.mdl(kappa, num_examples=60))


@pytest.mark.slow
def test_folds_may_share_a_row():
    features, labels = repeated(3)
    dataset, key = jboost.make_dataset(features, labels), jax.random.key(1)
    merged = merging.merge_equal(dataset, num_rows=60)
    is_held_out = np.asarray(jboost.folds.stratified_folds(key, labels, num_folds=3))
    held_out = np.zeros((3, merged.dataset.labels.shape[0]))
    for fold, chosen in zip(held_out, is_held_out, strict=True):
        np.add.at(fold, np.asarray(merged.row_of)[chosen], 1)
    options = {"margins": [0.1, 0.4], "kappas": [0.1, 2.0], "key": key, "max_rounds": 20}
    one = jboost.l0.choose(dataset, learner_of, num_folds=3, **options)
    other = jboost.l0.choose(merged.dataset, learner_of, held_out=held_out, **options)
    # an example or two: optima tie, and the votes differ
    np.testing.assert_allclose(one.errors, other.errors, atol=0.051)


@pytest.mark.parametrize("weight", [-1.0, np.nan])
def test_weights_that_are_not_allowed_are_seen(weight):
    features, labels = repeated()
    dataset = jboost.make_dataset(features, labels, weights=np.where(np.arange(60) == 3, weight, 1))
    with pytest.raises(
        ValueError, match=r"weights\[3\] is .*: weights are finite and not negative"
    ):
        jboost.l0.choose(
            dataset,
            learner_of,
            margins=[0.2],
            kappas=[1.0],
            key=jax.random.key(0),
            num_folds=2,
            max_rounds=4,
        )


@pytest.mark.slow
def test_choose_validates_held_out():
    features, labels = repeated()
    dataset = jboost.make_dataset(features, labels)
    options = {"margins": [0.1], "kappas": [1.0], "key": jax.random.key(0)}
    with pytest.raises(ValueError, match=r"held_out\[1, 2\] is 3"):
        jboost.l0.choose(
            dataset, learner_of, held_out=jnp.zeros((2, 60)).at[1, 2].set(3), **options
        )
    with pytest.raises(ValueError, match="held_out has 1 folds"):
        jboost.l0.choose(dataset, learner_of, held_out=np.zeros((1, 60)), **options)


def test_sums_that_an_integer_does_not_hold():
    for weights in (
        np.array([200, 200, 7], np.uint8),
        np.array([2_000_000_000, 2_000_000_000, 7], np.int32),
    ):
        with pytest.raises(ValueError, match="scale weights down"):
            merging.merge_equal(jboost.make_dataset([[1], [1], [0]], [1, 1, -1], weights=weights))
