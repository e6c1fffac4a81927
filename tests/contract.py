"""The contract table: every public algorithm is entered once, and tests/test_contract.py runs each entry through.

To add an algorithm: write a function that makes a tiny problem from a seed, and append an `Entry`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import jboost


class Problem(NamedTuple):
    """Examples as numpy arrays; weights are small integers, so that sums are exact."""

    data: np.ndarray  # [n, ...]
    labels: np.ndarray  # [n]
    weights: np.ndarray  # [n]
    mask: np.ndarray  # [n] bool


@dataclasses.dataclass(frozen=True)
class Entry:
    """One algorithm under contract."""

    name: str
    public: Callable[..., Any]
    """The public function, for its parameter names."""
    run: Callable[..., Any]
    """(data, labels, weights, mask) -> result."""
    problem: Callable[[int, int], Problem]
    """(seed, n) -> a problem of n examples; seeds differ in difficulty."""
    invariant: tuple[str, ...]
    """Fields that no permutation, padding or label flip changes."""
    scales: tuple[str, ...]
    """The fields among them that are in the unit of the weights."""
    per_example: tuple[str, ...]
    """Fields [n] that padding only lengthens."""


def _score_pairs(seed: int, size: int) -> Problem:
    """Integer scores of two classifiers: separable for seed 0, noisier for each later seed, with repeated points."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(size) % 3 == 0, 1, -1)
    data = np.round(rng.normal(size=(size, 2)) * 4 + labels[:, None] * (20 if seed == 0 else 4 / seed)).astype(np.float32)
    return Problem(data, labels, rng.integers(1, 5, size).astype(np.float32), np.ones(size, bool))


def _pair(tie_break):
    def run(data, labels, weights, mask):
        return jboost.pair.optimal_separator(data, labels, weights=weights, mask=mask, tie_break=tie_break)

    return run


def _score_triples(seed: int, size: int) -> Problem:
    """Integer scores of three classifiers: as of pairs, and a third that is noisy in all problems."""
    pairs = _score_pairs(seed, size)
    third = np.random.default_rng(seed + 100).integers(-6, 7, size) + 2 * pairs.labels
    return pairs._replace(data=np.concatenate([pairs.data, third[:, None].astype(np.float32)], axis=1))


def _combine(data, labels, weights, mask):
    return jboost.combine.fit(data, labels, weights=weights, mask=mask, strategy="greedy", with_stacking=False)


def _leave_one_out(data, labels, weights, mask):
    return jboost.pair.leave_one_out(data, labels, weights=weights, mask=mask)


class _Front(NamedTuple):
    """A Pareto front and, apart, its first loss."""

    lightest: Any
    losses: Any
    margins: Any
    count: Any
    status: Any


def _pareto(data, labels, weights, mask):
    front = jboost.pair.pareto_front(data, labels, weights=weights, mask=mask, max_points=16)
    return _Front(front.losses[0], front.losses, front.margins, front.count, front.status)


TABLE = (
    Entry(
        name="pair.optimal_separator",
        public=jboost.pair.optimal_separator,
        run=_pair("margin"),
        problem=_score_pairs,
        invariant=("loss", "lower_bound", "margin", "status"),
        scales=("loss", "lower_bound"),
        per_example=("misclassified",),
    ),
    pytest.param(
        Entry(
            name="pair.optimal_separator(tie_break=None)",
            public=jboost.pair.optimal_separator,
            run=_pair(None),
            problem=_score_pairs,
            invariant=("loss", "lower_bound", "status"),
            scales=("loss", "lower_bound"),
            per_example=("misclassified",),
        ),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Entry(
            name="pair.leave_one_out",
            public=jboost.pair.leave_one_out,
            run=_leave_one_out,
            problem=_score_pairs,
            invariant=("error", "status"),
            scales=("error",),
            per_example=("errors", "kinds"),
        ),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Entry(
            name="pair.pareto_front",
            public=jboost.pair.pareto_front,
            run=_pareto,
            problem=_score_pairs,
            invariant=("lightest", "margins", "count", "status"),
            scales=("lightest",),
            per_example=(),
        ),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Entry(
            name="combine.fit",
            public=jboost.combine.fit,
            run=_combine,
            problem=_score_triples,
            invariant=("loss", "lower_bound", "status"),
            scales=("loss", "lower_bound"),
            per_example=("misclassified",),
        ),
        marks=pytest.mark.slow,
    ),
)
