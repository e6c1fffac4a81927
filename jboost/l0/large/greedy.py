"""A first vote within seconds: rules are added one by one. Each is the best of all monomials for
the logistic loss, and all votes are refitted after it.

The gain of a rule is the squared slope over the curvature of the loss (a Newton step; Friedman,
Hastie and Tibshirani 2000). Two products of matrices give slope and curvature for all monomials.
Votes are refitted on the distinct patterns of the rules, which are far fewer than the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jboost.l0.large import separation
from jboost.l0.large.proof import MonomialTable
from jboost.monomials import products

_RIDGE = 1e-3  # the ridge penalty of the votes, which keeps them finite on separable data
# More of it, as a share of the largest weighted sum: a few roundings, so that heavy weights leave
# no singular matrix.
_SHARE_OF_RIDGE = 1e-14
_LEAST_GAIN = 1e-6  # the least relative decrease of the loss for which a rule is exchanged
_NUM_STEPS = 12  # the largest number of steps of Newton's method
_LARGEST_STEP = 4.0  # the largest change of a vote in a step, since the steps have no line search


class GreedyRules(NamedTuple):
    """Monomials and signed votes. A score is the constant plus the votes of the rules that hold."""

    columns: np.ndarray  # [k] int64, indices into the list of all monomials
    votes: np.ndarray  # [k] signed
    constant: float
    loss: float  # logistic, of the votes


def extend(table: MonomialTable, rules: GreedyRules) -> GreedyRules:
    """The rules with the one of the greatest gain added, and all votes refitted."""
    covered = table.covers(rules.columns)
    scores = covered @ rules.votes + rules.constant
    wrong = 1 / (1 + np.exp(np.clip(table.labels * scores, -500, 500)))
    slope = products.sums_of(table.literals, table.monomials, table.weights * table.labels * wrong)
    curvature = products.sums_of(
        table.literals, table.monomials, table.weights * wrong * (1 - wrong)
    )
    gains = slope**2 / (np.maximum(curvature, 0) + 1)
    gains[rules.columns] = -1
    gains[table.costs == np.inf] = -1
    best = int(np.argmax(gains))
    longer = GreedyRules(
        np.append(rules.columns, best), np.append(rules.votes, 0.0), rules.constant, rules.loss
    )
    return refit(table, longer)


def without_rules(table: MonomialTable) -> GreedyRules:
    """The best constant score."""
    return refit(table, GreedyRules(np.zeros(0, np.int64), np.zeros(0), 0.0, np.inf))


def refit(table: MonomialTable, rules: GreedyRules) -> GreedyRules:
    """The votes of least logistic loss, by Newton's method on the patterns of the rules."""
    covered = table.covers(rules.columns)
    both = np.concatenate([covered, (table.labels > 0)[:, None]], axis=1).astype(np.uint8)
    side = separation.group(both, np.arange(len(both)))
    weights = np.bincount(side.group_of, weights=table.weights, minlength=len(side.rows))
    design = np.concatenate([side.covered[:, :-1], np.ones((len(weights), 1))], axis=1).astype(
        float
    )
    labels = np.where(side.covered[:, -1] > 0, 1.0, -1.0)
    votes = np.append(rules.votes, rules.constant)
    for _ in range(_NUM_STEPS):
        wrong = 1 / (1 + np.exp(np.clip(labels * (design @ votes), -500, 500)))
        slope = design.T @ (weights * labels * wrong) - _RIDGE * votes
        curved = (design * (weights * wrong * (1 - wrong))[:, None]).T @ design
        ridge = _RIDGE + _SHARE_OF_RIDGE * float(np.max(np.diag(curved), initial=0.0))
        step = np.linalg.solve(curved + ridge * np.eye(len(votes)), slope)
        votes = votes + step * min(1.0, _LARGEST_STEP / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) < 1e-6:
            break
    loss = float(weights @ np.logaddexp(0, -labels * (design @ votes)))
    return GreedyRules(rules.columns, votes[:-1], float(votes[-1]), loss)


def exchanges(table: MonomialTable, rules: GreedyRules) -> Iterator[GreedyRules]:
    """Tries once for each rule to exchange it for the best other rule; yields the rules so far.

    An exchange is kept if it lowers the loss. The new rule is then the last one, so that the next
    rule to try moves to the index of the old one.
    """
    index = 0
    for _ in range(len(rules.columns)):
        changed = _exchange(table, rules, index)
        if changed.loss < rules.loss * (1 - _LEAST_GAIN):
            rules = changed
        else:
            index += 1
        yield rules


def _exchange(table: MonomialTable, rules: GreedyRules, index: int) -> GreedyRules:
    """The rules with the one at `index` replaced by the best other one."""
    kept = np.arange(len(rules.columns)) != index
    fewer = refit(table, rules._replace(columns=rules.columns[kept], votes=rules.votes[kept]))
    return extend(table, fewer)
