"""The contract tables: every public algorithm is entered once, and tests/test_contract.py runs each
entry through.

To add an algorithm: write a function that makes a tiny problem from a seed, and append to `TABLE`
what is exact, to `CERTIFIED` what brackets an optimum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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
    """Integer scores of two classifiers: separable for seed 0, noisier for each later seed, with
    repeated points.
    """
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(size) % 3 == 0, 1, -1)
    data = np.round(
        rng.normal(size=(size, 2)) * 4 + labels[:, None] * (20 if seed == 0 else 4 / seed)
    ).astype(np.float32)
    return Problem(data, labels, rng.integers(1, 5, size).astype(np.float32), np.ones(size, bool))


def _pair(tie_break):
    def run(data, labels, weights, mask):
        return jboost.pair.optimal_separator(
            data, labels, weights=weights, mask=mask, tie_break=tie_break
        )

    return run


def _score_triples(seed: int, size: int) -> Problem:
    """Integer scores of three classifiers: as of pairs, and a third that is noisy in
    all problems.
    """
    pairs = _score_pairs(seed, size)
    third = np.random.default_rng(seed + 100).integers(-6, 7, size) + 2 * pairs.labels
    return pairs._replace(
        data=np.concatenate([pairs.data, third[:, None].astype(np.float32)], axis=1)
    )


def _combine(data, labels, weights, mask):
    return jboost.combine.fit(
        data, labels, weights=weights, mask=mask, strategy="greedy", with_stacking=False
    )


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
    is_first = jnp.arange(len(front.losses)) == 0  # JAX takes no entry of what a mesh shards
    lightest = jnp.sum(jnp.where(is_first, front.losses, 0))
    return _Front(lightest, front.losses, front.margins, front.count, front.status)


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
    Entry(
        name="pair.optimal_separator(tie_break=None)",
        public=jboost.pair.optimal_separator,
        run=_pair(None),
        problem=_score_pairs,
        invariant=("loss", "lower_bound", "status"),
        scales=("loss", "lower_bound"),
        per_example=("misclassified",),
    ),
    Entry(
        name="pair.optimal_separator, three classifiers",
        public=jboost.pair.optimal_separator,
        run=_pair("margin"),
        problem=_score_triples,
        invariant=("loss", "lower_bound", "status"),
        scales=("loss", "lower_bound"),
        per_example=("misclassified",),
    ),
    Entry(
        name="pair.leave_one_out",
        public=jboost.pair.leave_one_out,
        run=_leave_one_out,
        problem=_score_pairs,
        invariant=("error", "status"),
        scales=("error",),
        per_example=("errors", "kinds"),
    ),
    Entry(
        name="pair.pareto_front",
        public=jboost.pair.pareto_front,
        run=_pareto,
        problem=_score_pairs,
        invariant=("lightest", "margins", "count", "status"),
        scales=("lightest",),
        per_example=(),
    ),
    Entry(
        name="combine.fit",
        public=jboost.combine.fit,
        run=_combine,
        problem=_score_triples,
        invariant=("loss", "lower_bound", "status"),
        scales=("loss", "lower_bound"),
        per_example=("misclassified",),
    ),
)


class Bracket(NamedTuple):
    """What is proven of an optimum."""

    lower: Any  # []
    upper: Any  # []
    status: Any  # []


@dataclasses.dataclass(frozen=True)
class Certified:
    """One algorithm that brackets an optimum."""

    name: str
    run: Callable[..., Bracket]
    """(data, labels, weights, mask) of bits -> the bracket."""
    width: float = 0.02
    """How far apart its ends may be on the plain problem, relative to the larger of the
    upper one and 1; inf where nothing is promised.
    """
    traceable: bool = True
    """Whether it may stand under the caller's `jit` and `vmap`; the host drives the others."""
    weighted: bool = True
    """Whether it takes the weights of examples."""


def bits(seed: int, size: int) -> Problem:
    """Four attributes of 0 and 1, and labels that follow two of them but for some noise."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2, (size, 4)).astype(np.float32)
    labels = np.where((data[:, 0] + data[:, 1] > 0) ^ (rng.random(size) < 0.05 * seed), 1, -1)
    return Problem(data, labels, rng.integers(1, 5, size).astype(np.float32), np.ones(size, bool))


def _both_signs(data):
    """Outputs of the attributes and of their negations."""
    return jnp.concatenate([2 * data - 1, 1 - 2 * data], axis=1)


def _of_fit(fit, **options):
    def run(data, labels, weights, mask):
        fitted = fit(jboost.make_dataset(data, labels, weights=weights, mask=mask), **options)
        return Bracket(
            fitted.certificate.lower_bound, fitted.certificate.upper_bound, fitted.status
        )

    return run


def _of_margins(solve, *arguments, **options):
    def run(data, labels, weights, mask):
        found = solve(
            labels[:, None] * _both_signs(data), *arguments, weights=weights, mask=mask, **options
        )
        return Bracket(found.lower_bound, found.upper_bound, found.status)

    return run


def _of_outputs(solve, upper, **options):
    def run(data, labels, weights, mask):
        found = solve(
            _both_signs(data),
            labels,
            np.full(8, 0.3, np.float32),
            weights=weights,
            mask=mask,
            **options,
        )
        return Bracket(found.lower_bound, getattr(found, upper), found.status)

    return run


def _of_path(path, **options):
    """The second of two fits."""

    def run(data, labels, weights, mask):
        fits = path(jboost.make_dataset(data, labels, weights=weights, mask=mask), **options)
        return jax.tree.map(
            lambda leaf: leaf[1],
            Bracket(fits.certificate.lower_bound, fits.certificate.upper_bound, fits.status),
        )

    return run


def _soft_margin(data, labels, weights, mask):
    """The largest soft margin of the attributes and their negations, as a linear program with a row
    for each example.
    """
    counted = jnp.where(mask, weights, 0)
    margins = jnp.where(mask[:, None], labels[:, None] * _both_signs(data), 0)
    (size, num_votes), dtype = margins.shape, counted.dtype
    rows = jnp.concatenate([margins, jnp.where(mask, -1, 0)[:, None], jnp.eye(size)], axis=1)
    total = jnp.concatenate([jnp.ones(num_votes), jnp.zeros(size + 1)])[None, :]
    objective = jnp.concatenate(
        [jnp.zeros(num_votes), -jnp.ones(1), counted / (0.3 * jnp.sum(counted))]
    )
    program = jboost.lp.LinearProgram(
        objective=objective.astype(dtype),
        operator=jboost.operators.dense(jnp.concatenate([rows, total]).astype(dtype)),
        row_lower=jnp.append(jnp.zeros(size, dtype), -jnp.inf),
        row_upper=jnp.append(jnp.full(size, jnp.inf, dtype), 1),
        lower=jnp.concatenate(
            [jnp.zeros(num_votes, dtype), -jnp.ones(1, dtype), jnp.zeros(size, dtype)]
        ),
        upper=jnp.concatenate([jnp.ones(num_votes + 1, dtype), jnp.full(size, 2, dtype)]),
    )
    found = jboost.lp.solve(program)
    return Bracket(found.lower_bound, found.upper_bound, found.status)


def _example_weights(fit):
    def run(data, labels, weights, mask):
        del weights
        found = fit(data, labels, penalty=0.12, radius=4.0, mask=mask)
        return Bracket(found.lower_bound, found.upper_bound, found.status)

    return run


def _maximum_agreement(data, labels, weights, mask):
    found = jboost.monomials.maximum_agreement(data, labels, weights, max_order=3, mask=mask)
    return Bracket(found.value, found.upper_bound, found.status)


CERTIFIED = (
    Certified("lpboost.solve", _of_margins(jboost.lpboost.solve, nu=0.3)),
    Certified(
        "lpboost.fit", _of_fit(jboost.lpboost.fit, learner=jboost.learners.literals(), nu=0.3)
    ),
    Certified(
        "relaxed_margin.solve",
        _of_margins(
            jboost.relaxed_margin.solve, jboost.relaxations.soft_margin(nu=0.3), tolerance=1e-3
        ),
    ),
    Certified(
        "relaxed_margin.fit",
        _of_fit(jboost.relaxed_margin.fit, learner=jboost.learners.literals(), tolerance=1e-2),
    ),
    Certified(
        "l0.fit",
        _of_fit(
            jboost.l0.fit,
            learner=jboost.learners.monomials(2, kappa=0.5),
            margin=0.2,
            max_rounds=20,
        ),
    ),
    Certified(
        "l0.solve_relaxation", _of_outputs(jboost.l0.solve_relaxation, "upper_bound", margin=0.2)
    ),
    Certified(
        "l0.solve_linear_margin",
        _of_outputs(jboost.l0.solve_linear_margin, "upper_bound", penalty=0.1),
    ),
    # no margin of few rules is .17, so that rounding decides no example
    Certified("l0.solve_exact", _of_outputs(jboost.l0.solve_exact, "loss", margin=0.17)),
    Certified(
        "l0.solve_exact_unnormalised",
        _of_outputs(jboost.l0.solve_exact_unnormalised, "loss", largest=3.7),
    ),
    Certified(
        "l0.solve_unnormalised",
        _of_outputs(jboost.l0.solve_unnormalised, "loss", largest=4.0),
        width=math.inf,
    ),
    Certified("example_weights.fit", _example_weights(jboost.example_weights.fit), weighted=False),
    Certified(
        "example_weights.fit_large",
        _example_weights(jboost.example_weights.fit_large),
        traceable=False,
        weighted=False,
    ),
    Certified("lp.solve", _soft_margin, weighted=False),
    Certified(
        "lpboost.path",
        _of_path(
            jboost.lpboost.path,
            learner=jboost.learners.literals(),
            nus=np.array([0.2, 0.3], np.float32),
        ),
    ),
    Certified(
        "l0.path",
        _of_path(
            jboost.l0.path,
            learner=jboost.learners.monomials(1, kappa=0.5),
            margins=np.array([0.1, 0.2], np.float32),
            max_rounds=20,
        ),
    ),
    Certified("monomials.maximum_agreement", _maximum_agreement),
)
