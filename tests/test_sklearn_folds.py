"""The folds of the estimators, and the choice of a value by them."""

import numpy as np
import pytest

import jboost.sklearn as js
from jboost.sklearn import folds, tables
from jboost.sklearn.base import _Scored
from jboost.sklearn.watch import FitWatch


def fold_list(counts, codes, cv):
    """Folds of distinct rows that occur so many times."""
    rows = tables.LabelledRows(
        np.arange(len(counts))[:, None], np.array(codes), np.array(counts, float)
    )
    return folds.make(cv, rows, rows.table, rows.codes, rows.weights, None, 0)


def weights_of(part, num_rows):
    found = np.zeros(num_rows)
    found[part.table[:, 0].astype(int)] = part.weights
    return found


@pytest.mark.parametrize("scale", [1.0, 1e-3, 7e20])
def test_a_row_that_outweighs_a_fold_is_in_every_fold(scale):
    counts = np.array([11, 3, 2, 4, 1, 5, 5, 5, 5, 30]) * scale
    codes = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    parts = fold_list(counts, codes, 4)
    assert len(parts) == 4
    is_heavy = np.array([True, *[False] * 8, True])  # above 21 / 4 and 50 / 4
    held_out = np.zeros(10)
    for part in parts:
        testing, training = weights_of(part.testing, 10), weights_of(part.training, 10)
        np.testing.assert_allclose(testing + training, counts, rtol=1e-12)
        np.testing.assert_allclose(testing[is_heavy], counts[is_heavy] / 4, rtol=1e-12)
        assert ((testing == 0) | (training == 0))[~is_heavy].all()
        held_out += testing
    np.testing.assert_allclose(held_out, counts, rtol=1e-12)


def test_rows_of_equal_weight_are_whole_in_folds():
    for num_rows in range(2, 9):
        parts = fold_list([0.1] * 2 * num_rows, [0, 1] * num_rows, 5)
        assert len(parts) == min(num_rows, 5)
        assert all(set(part.testing.weights) == {0.1} for part in parts)


def test_equal_features_are_in_one_fold_whatever_their_classes():
    table = np.repeat(np.arange(12.0), 2)[:, None]
    codes = np.tile([0, 1], 12)
    keeps = np.ones(24, bool)
    keeps[[1, 3, 5, 20, 22]] = False  # some features of one class alone
    weights = np.ones(24)
    weights[[6, 7]] = 1, 30  # the second outweighs a fold: the first one is shared as well
    rows = tables.merge(table[keeps], codes[keeps], weights[keeps])
    parts = folds.make(3, rows, rows.table, rows.codes, rows.weights, None, 0)
    assert len(parts) == 3
    seen = []
    for part in parts:
        held, kept = (set(side.table[:, 0]) for side in (part.testing, part.training))
        assert held & kept == {3.0}
        assert set(part.training.codes) == {0, 1}
        is_shared = part.testing.table[:, 0] == 3
        np.testing.assert_allclose(part.testing.weights[is_shared], [1 / 3, 10])
        seen += [*(held - {3.0})]
    assert sorted(seen) == [one for one in np.unique(rows.table) if one != 3]


def test_rows_that_are_not_merged_are_shared_by_the_folds():
    table, codes = np.zeros((12, 1)), np.repeat([0, 1], 6)
    rows = tables.sort(table, codes)
    parts = folds.make(3, rows, table, codes, np.ones(12), None, 0)
    assert [len(part.testing.codes) for part in parts] == [4, 4, 4]
    assert all(np.bincount(part.testing.codes).tolist() == [2, 2] for part in parts)


def test_folds_of_distinct_features_share_the_rarest_class():
    rng = np.random.default_rng(0)
    for num_rows in (8, 40):
        table = rng.integers(0, 6, (num_rows, 1)).astype(float)
        rows = tables.merge(table, rng.integers(0, 3, num_rows), np.ones(num_rows))
        parts = folds.make(5, rows, rows.table, rows.codes, rows.weights, None, 0)
        for part in parts:
            assert not set(part.testing.table[:, 0]) & set(part.training.table[:, 0])
        total = sum(part.testing.weights.sum() for part in parts)
        assert not parts or total == num_rows


@pytest.mark.parametrize(
    "losses, chosen",
    [
        ([3, 3, 3, 1], 0.1),  # equal losses do not end the choice
        ([3, 4, 4, 1], 0.8),  # two worse ones do
        ([3, 4, 3, 1], 0.1),
        ([3, 2, 4, 4], 0.5),
        ([3, 3, 3, 3], 0.8),
    ],
)
def test_the_choice_of_nu_ends_after_two_worse_values(losses, chosen):
    class Fixed(js.LPBoostClassifier):
        def _cross_fit(self, parts, options, watch):
            return _Scored(*[np.full((1, 1), losses[len(self.seen)])] * 4)

        def _loss(self, scored):
            self.seen.append(float(scored.scores[0, 0]))
            return self.seen[-1]

    model = Fixed()
    model.seen = []
    options, _ = model._choose([None], FitWatch(model, None))
    assert options["nu"] == chosen
