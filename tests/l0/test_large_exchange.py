"""The local search for votes over all monomials, against enumeration by loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import jboost
from jboost.l0.large import exchange, votes
from jboost.l0.large.greedy import GreedyRules
from jboost.l0.large.table import make_table
from jboost.l0.large.votes import MonomialVote, SignedMonomials

MARGIN = 0.07
SIZES = np.geomspace(1e-3, 1e3, 4001)  # of coefficients, in units of the sum of the others


def random_vote(seed: int, max_order: int):
    """A table of monomials and a vote of three of them."""
    rng = np.random.default_rng(seed)
    features = (rng.random((40, 4)) < 0.5).astype(float)
    features[rng.random(features.shape) < 0.2 * (seed % 2)] = np.nan
    labels = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    dataset = jboost.make_dataset(features, labels, weights=rng.integers(1, 4, 40).astype(float))
    table, _ = make_table(dataset, jboost.learners.monomials(max_order, kappa=0.3), MARGIN)
    chosen = rng.choice(len(table.costs), 3, replace=False)
    columns = SignedMonomials(chosen, rng.choice([-1, 1], 3).astype(np.int8))
    constants = np.array([0.3, 0.0]) if seed % 3 else np.zeros(2)
    return table, votes.at(table, columns, rng.random(3) + 0.1, constants)


def loss_of(table, outputs, coefficients, constant: float, total: float, paid: float) -> float:
    """(15) by a loop over rows, for outputs [m, k] of signed rules."""
    wrong = 0.0
    for row in range(len(table.labels)):
        score = constant + sum(outputs[row, k] * coefficients[k] for k in range(len(coefficients)))
        wrong += table.weights[row] * (table.labels[row] * score < table.margin * total)
    return wrong + paid


def outputs_of(table, vote: MonomialVote) -> np.ndarray:
    return table.covers(vote.columns.monomials).astype(float) * vote.columns.signs


@pytest.mark.parametrize(("seed", "max_order"), [(0, 1), (1, 2), (2, 3), (3, 2)])
def test_losses_of_exchanges_match_a_loop_over_monomials_and_rows(seed, max_order) -> None:
    table, vote = random_vote(seed, max_order)
    rest = exchange._without(table, vote, 1)
    outputs = outputs_of(table, vote)[:, [0, 2]]
    constant = vote.constants[0] - vote.constants[1]
    every = table.covers(np.arange(len(table.costs))).astype(float)
    for row, size in itertools.product((0, 1), (0.05, 0.4)):
        found = exchange._changes(table, rest, row, size)
        for monomial in range(len(table.costs)):
            more = np.column_stack([outputs, (1, -1)[row] * every[:, monomial]])
            total = rest.total + size
            expected = loss_of(table, more, [*rest.coefficients, size], constant, total, 0.0)
            np.testing.assert_allclose(found[monomial], expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_line_search_of_an_exchange_is_no_worse_than_a_grid(seed) -> None:
    table, vote = random_vote(seed, 2)
    rest = exchange._without(table, vote, 0)
    outputs = outputs_of(table, vote)
    constant = vote.constants[0] - vote.constants[1]

    def errors(size: float) -> float:
        coefficients = [size, *rest.coefficients]
        return loss_of(table, outputs, coefficients, constant, rest.total + size, 0.0)

    found = exchange._best_size(table, rest, table.labels * outputs[:, 0])
    assert errors(found) <= min(errors(size * rest.total) for size in SIZES[::20])


@pytest.mark.parametrize("seed", range(4))
def test_search_over_all_monomials_only_lowers_the_loss_it_names(seed) -> None:
    table, vote = random_vote(seed, 2)
    trials = [vote, *exchange.improved(table, vote, 3)]
    losses = [trial.loss for trial in trials]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
    last = trials[-1]
    assert last.num_rules <= 3
    costs = (
        table.costs[last.columns.monomials].sum() + table.constant_cost * (last.constants > 0).sum()
    )
    constant = last.constants[0] - last.constants[1]
    expected = loss_of(table, outputs_of(table, last), last.coefficients, constant, 1.0, costs)
    np.testing.assert_allclose(last.loss, expected, rtol=1e-12)
    for number in range(4):
        *_, other = exchange.varied(table, last, 3, number)
        assert other.loss == exchange.revalued(table, other).loss
        assert other.num_rules <= 3


def test_search_of_order_two_finds_the_best_rule_and_keeps_the_best_vote() -> None:
    """One rule separates the classes: any other vote has errors or costs more."""
    features = np.array(list(itertools.product([0.0, 1.0], repeat=4)) * 3)
    labels = np.where((features[:, 1] > 0) & (features[:, 3] < 1), 1.0, -1.0)
    dataset = jboost.make_dataset(features, labels)
    table, _ = make_table(dataset, jboost.learners.monomials(2, kappa=0.1), MARGIN)
    *_, found = exchange.improved(table, votes.constant(table), None)
    assert found.num_rules == 1
    np.testing.assert_allclose(found.loss, table.costs.max() + table.constant_cost)
    *_, again = exchange.improved(table, found, None)
    assert again is found


def test_votes_have_at_most_the_rules_that_are_allowed() -> None:
    """Of rules with equal votes the first are kept, and the loss is that of what is kept."""
    table, vote = random_vote(1, 2)
    equal = votes.at(table, vote.columns, np.full(3, 0.25), np.array([0.25, 0.0]))
    found = votes.limited(table, equal, 2)
    assert found.columns.monomials.tolist() == vote.columns.monomials[:2].tolist()
    total = float(found.coefficients.sum() + found.constants.sum())
    paid = float(table.costs[found.columns.monomials].sum()) + table.constant_cost * int(
        np.count_nonzero(found.constants)
    )
    expected = loss_of(
        table,
        outputs_of(table, found),
        found.coefficients,
        float(found.constants[0] - found.constants[1]),
        total,
        paid,
    )
    assert found.loss == pytest.approx(expected)
    assert votes.limited(table, equal, None).num_rules == 3
    rules = GreedyRules(vote.columns.monomials, np.array([1.0, -1.0, 1.0]), 0.0, 0.0)
    assert votes.of_rules(table, rules, 2).num_rules == 2
    *_, last = exchange.improved(table, found, 2)
    assert last.num_rules <= 2
