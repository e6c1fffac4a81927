"""Chooses the nu of a soft margin by cross-validation.

All folds and values are fitted in one compiled call, or one value at a time if there is a callback.

The values are tried in decreasing order. The search stops at the first value for which one of these
holds:

- On some fold the soft margin is not above the tolerance. The optimal soft margin does not increase
  as nu decreases, so all smaller values would fail as well.
- The held-out loss exceeds the best so far by more than one standard error.

This order saves time, because fits with a small nu take longest.

LP-Boost and the relaxed margin maximise the same soft margin, because all learners of the command
line contain the negations of their hypotheses. The folds are therefore fitted by LP-Boost for both
methods, which takes a quarter of the time.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import batching, loops
from jboost.base.loops import OnStep
from jboost.base.predict import predict_scores
from jboost.base.types import Array, Dataset
from jboost.cli import inputs, sizes
from jboost.cli.boosting import features
from jboost.cli.boosting import method as boost
from jboost.cli.boosting.method import BoostingPlan
from jboost.cli.inputs import Source
from jboost.cli.option import CV, LPBOOST, SOFT_MARGINS
from jboost.cli.options import Settings

# The candidates of --nu cv. 1 is not among them: one hypothesis then has the largest mean margin.
GRID = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
# The choice uses at most this many rows: the standard error of a loss is then about one per cent.
MOST_ROWS = 2048
_STREAM = 2  # random stream of the folds for the choice; `evaluate` uses another one


@dataclasses.dataclass(frozen=True)
class ChosenNu:
    """The chosen nu, and the held-out losses of the candidates."""

    nu: float
    # For each candidate: nu, mean, standard_error, rates, soft_margins, says_something. A number is
    # None if the candidate was not tried.
    losses: tuple[dict[str, Any], ...] = ()
    num_rows: int = 0  # number of rows used for the choice
    num_candidates: int = 0  # more than the number of losses if the choice was ended early


class _Fold(NamedTuple):
    """The training rows and the held-out rows of a fold. Several folds have a leading axis."""

    points: Array  # [m, N]
    labels: Array  # [m]
    weights: Array  # [m]
    training: Array  # [m] bool
    held_out: Array  # [m] bool


class _BestNu(NamedTuple):
    """The state of the search before the next value."""

    is_over: Array  # [] bool, True if no smaller nu is tried
    loss: Array  # [] smallest mean loss so far
    spread: Array  # [] its standard error


class _Tried(NamedTuple):
    """The results of one nu on each fold, NaN if it was not tried. Several values have a leading
    axis.
    """

    rates: Any  # [F] fraction of the held-out weight that is misclassified
    soft_margins: Any  # [F] certified soft margin of the vote


def describe(choice: ChosenNu) -> dict[str, Any]:
    """Returns the description of the choice for the report, in types that JSON supports."""
    return {
        "chosen": choice.nu,
        "losses": list(choice.losses),
        "rows": choice.num_rows,
        "candidates": choice.num_candidates,
    }


def values(settings: Settings) -> tuple[float, ...]:
    """Returns the candidates of nu in decreasing order; "cv" stands for the values of `GRID`."""
    named = {float(value) for value in settings.nu if value != CV}
    return tuple(sorted(named | set(GRID if CV in settings.nu else ()), reverse=True))


def choose(source: Source, settings: Settings, *, on_step: OnStep | None = None) -> ChosenNu:
    """Chooses the nu of smallest mean loss in stratified cross-validation.

    Only values with a soft margin above the tolerance on every fold are considered. If there are
    none, the largest value is chosen. Ties are broken in favour of the largest value.

    Args:
      source: the training rows. If there are more than `MOST_ROWS`, a random subset of that size is
        used, stratified by class.
      settings: all options. With a single nu there is no choice.
      on_step: called after each value of nu with the results so far and a text. If it returns
        False, the choice ends with these results. Ctrl-C has the same effect.

    Raises:
      ValueError: if there are more folds than rows of the minority class.
    """
    candidates = values(settings)
    if settings.method not in SOFT_MARGINS or len(candidates) == 1:
        return ChosenNu(candidates[0])
    part = source.rows(_drawn(source, settings.seed))
    found = _try_all(_folds(part, settings), candidates, settings, on_step)
    says_something = (found.soft_margins > settings.tolerance).all(axis=1)  # False for NaN
    means = found.rates.mean(axis=1)
    best = int(np.where(says_something, means, np.inf).argmin())
    table = [
        {
            "nu": nu,
            "mean": _finite(means[index]),
            "standard_error": _finite(_standard_error(found.rates[index])),
            "rates": [_finite(rate) for rate in found.rates[index]],
            "soft_margins": [_finite(value) for value in found.soft_margins[index]],
            "says_something": bool(says_something[index]),
        }
        for index, nu in enumerate(candidates[: len(means)])
    ]
    return ChosenNu(candidates[best], tuple(table), part.table.num_rows, len(candidates))


def _drawn(source: Source, seed: int) -> np.ndarray:
    """Returns the sorted indices of the rows that the choice uses."""
    labels = source.table.labels
    assert labels is not None
    share = min(1.0, MOST_ROWS / len(labels))
    generator = np.random.default_rng(seed)
    drawn = []
    for sign in (-1, 1):
        rows = np.flatnonzero(labels == sign)
        drawn.append(generator.permutation(rows)[: math.ceil(share * len(rows))])
    return np.sort(np.concatenate(drawn))


def _folds(source: Source, settings: Settings) -> _Fold:
    """Returns all folds in arrays [F, ...], with features fitted to the training rows of each."""
    labels = source.table.labels
    assert labels is not None
    try:
        masks = inputs.hold_out_masks(labels, settings, stream=_STREAM)
    except ValueError as error:
        raise ValueError(f"{error}; or give a single number to --nu") from None
    fitted = [features.fit(source.rows(np.flatnonzero(~held_out)), settings) for held_out in masks]
    width = boost.width_for(max(one.size for one in fitted), settings.learner)
    examples = [features.read_examples(one, source, settings) for one in fitted]
    rows = sizes.linear(len(labels))
    padded = [features.widened(one, width, settings.learner).padded(rows) for one in examples]
    points, signs, weights = (
        np.stack([getattr(one, name) for one in padded]) for name in ("points", "labels", "weights")
    )
    training, held_out = (
        np.pad(part, ((0, 0), (0, rows - len(labels))))
        for part in (~np.stack(masks), np.stack(masks))
    )
    return _Fold(points, signs, weights, training, held_out)


def _try_all(
    folds: _Fold, candidates: tuple[float, ...], settings: Settings, on_step: OnStep | None
) -> _Tried:
    """Returns the results [L, F] of the values; fewer than L if the choice was ended early."""
    parts = [candidates] if on_step is None else [(nu,) for nu in candidates]
    plan = dataclasses.replace(boost.plan_of(settings, folds.points), method=LPBOOST)
    found: list[_Tried] = []
    with jax.enable_x64(settings.precision == "float64"):
        dtype = np.dtype(settings.precision)
        best = _BestNu(jnp.zeros((), bool), jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype))
        arrays, tolerance, key = (
            _Fold(*(jnp.asarray(leaf) for leaf in folds)),
            jnp.asarray(settings.tolerance, dtype),
            jax.random.key(settings.seed),
        )
        for part in parts:
            try:
                best, tried = _walk(plan, arrays, jnp.asarray(part, dtype), best, tolerance, key)
                found.append(_Tried(*(np.asarray(leaf, np.float64) for leaf in tried)))
            except KeyboardInterrupt:
                if not found:
                    raise
                break
            if not loops.goes_on(on_step, found, f"nu {part[-1]:g}"):
                break
    return _Tried(*(np.concatenate(leaves) for leaves in zip(*found, strict=True)))


@functools.partial(jax.jit, static_argnames=("plan",))
def _walk(
    plan: BoostingPlan, folds: _Fold, nus: Array, best: _BestNu, tolerance: Array, key: Array
) -> tuple[_BestNu, _Tried]:
    """Tries the values one after another, each on all folds.

    The folds are batched on accelerators and run one after another on a CPU.
    """
    num_folds = folds.labels.shape[0]

    def one_fold(nu: Array, *leaves: Array) -> _Tried:
        fold = _Fold(*leaves)
        fitted = boost.fit_dataset(
            plan, Dataset(fold.points, fold.labels, fold.weights, fold.training), key, nu, tolerance
        )
        wrong = (predict_scores(fitted.ensemble, fold.points) > 0) != (fold.labels > 0)
        shares = jnp.where(fold.held_out, fold.weights, 0)
        return _Tried(
            jnp.sum(jnp.where(wrong, shares, 0)) / jnp.sum(shares), fitted.certificate.lower_bound
        )

    def try_one(nu: Array) -> _Tried:
        return jax.vmap(batching.in_chunks(one_fold, at_once=1))(
            jnp.broadcast_to(nu, (num_folds,)), *folds
        )

    def leave_out(nu: Array) -> _Tried:
        return _Tried(*(jnp.full((num_folds,), jnp.nan, nu.dtype) for _ in _Tried._fields))

    def visit(best: _BestNu, nu: Array) -> tuple[_BestNu, _Tried]:
        tried = loops.cond(best.is_over, leave_out, try_one, nu)
        mean, has_no_margin = jnp.mean(tried.rates), ~jnp.all(tried.soft_margins > tolerance)
        is_over = best.is_over | has_no_margin | (mean > best.loss + best.spread)
        is_better = ~is_over & (mean < best.loss)
        spread = jnp.std(tried.rates, ddof=1) / math.sqrt(num_folds)
        return _BestNu(
            is_over,
            jnp.where(is_better, mean, best.loss),
            jnp.where(is_better, spread, best.spread),
        ), tried

    return loops.scan(visit, best, nus)


def _standard_error(rates: np.ndarray) -> float:
    return float(np.std(rates, ddof=1)) / math.sqrt(len(rates))


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
