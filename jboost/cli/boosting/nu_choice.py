"""The nu of a soft margin by cross-validation: all folds and values in one compiled call, or a
value at a time with a callback.

The values go from the largest down, and end with the first that says nothing, which has no soft
margin above the tolerance on some fold, or loses more on held-out rows than the best so far by over
a standard error. The best soft margin never falls as nu grows, so that no smaller nu says more; and
votes for small nus take longest. LP-Boost and the relaxed margin maximise the same soft margin, as
all learners here have the negations of their hypotheses. So the folds of both are fitted by
LP-Boost, which takes a quarter of the time.
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
from jboost.cli.boosting.method import Plan
from jboost.cli.inputs import Source
from jboost.cli.option import CV, LPBOOST, SOFT_MARGINS
from jboost.cli.options import Settings

# at 1 the vote of largest mean margin is one hypothesis
GRID = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
# that the choice looks at: a loss on so many has a standard error of about one per cent
MOST_ROWS = 2048
_STREAM = 2  # the folds that choose nu are others than those of `evaluate`


@dataclasses.dataclass(frozen=True)
class Choice:
    """The nu that was chosen, and what each of the candidates lost on held-out rows."""

    nu: float
    # of each: nu, mean, standard_error, rates, soft_margins, says_something; None where it was not
    # tried
    losses: tuple[dict[str, Any], ...] = ()
    num_rows: int = 0  # that were looked at
    num_candidates: int = 0  # more than there are losses, where the choice was ended early


class _Fold(NamedTuple):
    """The rows on which a fold trains, and those on which it is tested; with a leading axis,
    several.
    """

    points: Array  # [m, N]
    labels: Array  # [m]
    weights: Array  # [m]
    training: Array  # [m] bool
    held_out: Array  # [m] bool


class _Best(NamedTuple):
    """What is known before the next value."""

    is_over: Array  # [] bool, no smaller nu is tried
    loss: Array  # [] the least mean loss so far
    spread: Array  # [] its standard error


class _Tried(NamedTuple):
    """What a value came to on each fold, NaN where it was not tried; with a leading axis, several
    values.
    """

    rates: Any  # [F] share of the held-out weight that is misclassified
    soft_margins: Any  # [F] proven of the vote


def describe(choice: Choice) -> dict[str, Any]:
    """The choice, ready for JSON."""
    return {
        "chosen": choice.nu,
        "losses": list(choice.losses),
        "rows": choice.num_rows,
        "candidates": choice.num_candidates,
    }


def values(settings: Settings) -> tuple[float, ...]:
    """The values of nu to choose from, the largest first; cv stands for those of `GRID`."""
    named = {float(value) for value in settings.nu if value != CV}
    return tuple(sorted(named | set(GRID if CV in settings.nu else ()), reverse=True))


def choose(source: Source, settings: Settings, *, on_step: OnStep | None = None) -> Choice:
    """The nu of least mean loss in stratified cross-validation; among equals the greatest. The
    largest, where none says anything.

    Args:
      source: the rows that may be looked at; of more than `MOST_ROWS` so many are drawn, of each
        class its share.
      settings: all options; with one nu there is no choice.
      on_step: called after each value of nu with (what was found so far, a text); False ends the
        choice with these values, and so does Ctrl-C.

    Raises:
      ValueError: naming the option, for more folds than the smaller class has rows.
    """
    candidates = values(settings)
    if settings.method not in SOFT_MARGINS or len(candidates) == 1:
        return Choice(candidates[0])
    part = source.rows(_drawn(source, settings.seed))
    found = _try_all(_folds(part, settings), candidates, settings, on_step)
    says_something = (found.soft_margins > settings.tolerance).all(axis=1)  # False of NaN
    means = found.rates.mean(axis=1)
    best = int(np.where(says_something, means, np.inf).argmin())
    table = [
        {
            "nu": nu,
            "mean": _finite(means[place]),
            "standard_error": _finite(_standard_error(found.rates[place])),
            "rates": [_finite(rate) for rate in found.rates[place]],
            "soft_margins": [_finite(value) for value in found.soft_margins[place]],
            "says_something": bool(says_something[place]),
        }
        for place, nu in enumerate(candidates[: len(means)])
    ]
    return Choice(candidates[best], tuple(table), part.table.num_rows, len(candidates))


def _drawn(source: Source, seed: int) -> np.ndarray:
    """Places of the rows that the choice looks at, in order."""
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
    """All folds in arrays [F, ...]; features are fitted to the training rows of each."""
    labels = source.table.labels
    assert labels is not None
    try:
        masks = inputs.hold_out_masks(labels, settings, stream=_STREAM)
    except ValueError as error:
        raise ValueError(f"{error}; or give one number to --nu, and nothing is chosen") from None
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
    """What the values came to, [L, F]; fewer where the choice was ended early."""
    parts = [candidates] if on_step is None else [(nu,) for nu in candidates]
    plan = dataclasses.replace(boost.plan_of(settings), method=LPBOOST)
    found: list[_Tried] = []
    with jax.enable_x64(settings.precision == "float64"):
        dtype = np.dtype(settings.precision)
        best = _Best(jnp.zeros((), bool), jnp.full((), jnp.inf, dtype), jnp.zeros((), dtype))
        held, tolerance, key = (
            _Fold(*(jnp.asarray(leaf) for leaf in folds)),
            jnp.asarray(settings.tolerance, dtype),
            jax.random.key(settings.seed),
        )
        for part in parts:
            try:
                best, tried = _walk(plan, held, jnp.asarray(part, dtype), best, tolerance, key)
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
    plan: Plan, folds: _Fold, nus: Array, best: _Best, tolerance: Array, key: Array
) -> tuple[_Best, _Tried]:
    """Tries the values one after the other, each on all folds at once; on a CPU the folds follow
    each other.
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

    def visit(best: _Best, nu: Array) -> tuple[_Best, _Tried]:
        tried = loops.cond(best.is_over, leave_out, try_one, nu)
        mean, says_nothing = jnp.mean(tried.rates), ~jnp.all(tried.soft_margins > tolerance)
        is_over = best.is_over | says_nothing | (mean > best.loss + best.spread)
        is_better = ~is_over & (mean < best.loss)
        spread = jnp.std(tried.rates, ddof=1) / math.sqrt(num_folds)
        return _Best(
            is_over,
            jnp.where(is_better, mean, best.loss),
            jnp.where(is_better, spread, best.spread),
        ), tried

    return loops.scan(visit, best, nus)


def _standard_error(rates: np.ndarray) -> float:
    return float(np.std(rates, ddof=1)) / math.sqrt(len(rates))


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
