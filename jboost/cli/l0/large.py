"""L0-RBoost of rules of one to three literals for the command line.

`fit` calls `jboost.l0.fit_large` on merged rows. `choose` chooses the order and the number of rules
by cross-validation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jboost import l0, learners
from jboost.base import loops, memory
from jboost.base.boosting import Fit
from jboost.base.loops import OnStep
from jboost.base.types import Dataset
from jboost.cli import checkpointing, limits
from jboost.cli.l0.choice import CandidateChoice, candidate_losses
from jboost.cli.option import CV
from jboost.cli.options import Settings
from jboost.data import merging
from jboost.l0.large import solutions, table
from jboost.monomials import costs

_ORDERS, _NUMBERS = (1, 2, 3), (2, 4, 8, 12, 16)  # candidates of --max-order cv, --max-rules cv
_PAIRS = 2  # up to this order, a fit that is too large is refused instead of searched otherwise
_UNLIMITED_ROUNDS = 1_000_000  # with a time limit, which then ends the fit


def orders(settings: Settings) -> tuple[int, ...]:
    """Returns the candidates of the order, the largest number of literals in a rule."""
    return _ORDERS if settings.max_order == CV else (settings.max_order,)


def numbers_of_rules(settings: Settings) -> tuple[int | None, ...]:
    """Returns the candidates of the largest number of rules."""
    return _NUMBERS if settings.max_rules == CV else (settings.max_rules,)


def chooses_size(settings: Settings) -> bool:
    """Whether cross-validation chooses the order or the number of rules."""
    return CV in (settings.max_order, settings.max_rules)


@dataclasses.dataclass(frozen=True)
class Sized:
    """A choice of order, number of rules, kappa and margin."""

    choice: l0.LargeChoice
    orders: tuple[int, ...]  # the candidates of the order
    left_out: tuple[str, ...]  # why other orders are no candidates


def _orders_that_fit(
    settings: Settings, num_rows: int, num_attributes: int, num_bits: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Returns the candidates of the order, and why others are left out. There is at least one
    candidate, which the choice refuses if it is too large.

    Args:
      settings: all options.
      num_rows: the number of rows of the fit.
      num_attributes: the number of bits of all rows.
      num_bits: the largest number of bits of the fits, with those of the folds.
    """
    asked = [order for order in orders(settings) if order <= num_attributes]
    reasons = {order: _too_large(num_rows, num_bits, order) for order in asked[1:]}
    return (
        tuple(order for order in asked if reasons.get(order) is None),
        tuple(reason for reason in reasons.values() if reason is not None),
    )


def _too_large(num_rows: int, num_bits: int, order: int) -> str | None:
    """Returns why a fit of this order is too large, or None."""
    number = table.num_monomials(num_bits, order)
    needed, most = table.num_bytes(num_rows, num_bits, order), memory.of_device()
    if number > table.MOST_MONOMIALS:
        why = f"{number:,} rules of {num_bits:,} bits, above {table.MOST_MONOMIALS:,}"
    elif needed > most:
        why = f"a fit takes about {needed / 1e9:,.1f} GB, and there are {most / 1e9:,.1f} GB"
    else:
        return None
    return f"rules of up to {order} literals are no candidates: {why}"


def choose(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    margins: list[float],
    held_out: np.ndarray,
    fold_bits: list[np.ndarray],
    *,
    on_step: OnStep | None,
    seconds: float | None,
) -> Sized:
    """Chooses order, number of rules, kappa and margin, and fits the rows where `chosen` is True.

    Orders whose monomials do not fit are left out. Ctrl-C in the choice ends only that: the fit of
    the best so far follows.

    Args:
      bits: [m, N].
      labels: [m].
      weights: [m] or None.
      chosen: [m] bool.
      settings: all options.
      margins: the candidates of rho.
      held_out: [F, m] bool.
      fold_bits: for each of the F folds the bits [m, N'] of all rows.
      on_step: called after each fold of an order, and after each step of the fit.
      seconds: the time limit, or None for the rest of the command's limit. The choice takes at most
        0.6 of it.
    """
    sizes = np.ones(len(labels)) if weights is None else weights
    dataset = Dataset(bits, labels, sizes, chosen)
    num_rows, num_attributes = int(chosen.sum()), bits.shape[1]
    ends = _rounds_and_time(seconds, settings)
    widest = max(num_attributes, *(one.shape[1] for one in fold_bits))
    tried, left_out = _orders_that_fit(settings, num_rows, num_attributes, widest)

    watch = _watched_choice(on_step)
    kept = checkpointing.kept(settings, watch, lambda: l0.LargeChoiceState, dataset)
    with kept as (save, initial):
        choice = l0.choose_large(
            dataset,
            functools.partial(_learner, num_attributes=num_attributes, num_rows=num_rows),
            max_orders=tried,
            max_rules=numbers_of_rules(settings),
            margins=np.asarray(margins),
            kappas=np.asarray(settings.kappa),
            key=jax.random.key(settings.seed),
            held_out=held_out,
            fold_features=fold_bits,
            tolerance=settings.tolerance,
            on_step=save,
            initial=initial,
            **ends,
        )
    return Sized(choice, tried, left_out)


def _learner(order: int, kappa: float, *, num_attributes: int, num_rows: int) -> Any:
    cost = costs.mdl(kappa, num_attributes=num_attributes, num_examples=num_rows)
    return learners.monomials(order, cost=cost)


def _watched_choice(on_step: OnStep | None) -> OnStep:
    """Returns the callback of a choice and of its fit. If it ends the choice, the fit follows."""

    def watch(state: Any, info: Any) -> bool:
        if state is None:  # a step of a fit in a fold, of which nothing is shown
            goes_on = on_step is None or not limits.is_over()
        else:
            shown = info if isinstance(info, str) else _progress(info)
            goes_on = loops.goes_on(on_step, state, shown)
        if not goes_on and (state is None or isinstance(info, str)):
            limits.go_on_after_choice()
        return goes_on

    return watch


def _rounds_and_time(seconds: float | None, settings: Settings) -> dict[str, Any]:
    """Returns the limits of rounds and time: the command's time limit for `seconds` None."""
    left = limits.left() if seconds is None else seconds
    return {
        "max_rounds": settings.rounds if left is None else _UNLIMITED_ROUNDS,
        "time_limit": None if left is None else max(left, 0.0),
    }


def describe(
    found: Sized, settings: Settings, margins: list[float], num_folds: int
) -> CandidateChoice:
    """Returns the candidates with the held-out loss of each that was fitted."""
    (vote,) = settings.vote
    grid: dict[str, Sequence[Any]] = {
        "max_order": found.orders,
        "max_rules": numbers_of_rules(settings),
        "kappa": settings.kappa,
        "margin": margins,
        "vote": (vote,),
    }
    means, standard_errors, folds_of_each = (
        np.expand_dims(part, -1)  # the axis of the only vote
        for part in (found.choice.errors, found.choice.standard_errors, found.choice.num_folds)
    )
    losses = candidate_losses(grid, means, standard_errors, folds_of_each)
    return CandidateChoice(losses, means.size, num_folds, found.left_out)


def serves(settings: Settings, num_rows: int, num_bits: int) -> bool:
    """Whether `fit` supports the options for so many rows and bits. Monomials of three literals
    that are too many to be listed are found by branch and bound instead.
    """
    order = settings.max_order
    return (
        settings.exact == 0
        and order in _ORDERS
        and (order <= _PAIRS or _too_large(num_rows, num_bits, order) is None)
        and ("vertex" not in settings.vote or num_rows <= solutions.MOST_ROWS)
    )


def fit(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    settings: Settings,
    search: Any,
    *,
    margin: float,
    on_step: OnStep | None,
    seconds: float | None = None,
) -> Fit:
    """Fits rules for the only kappa of the settings.

    Args:
      bits: [m, N] of 0, 1 and NaN.
      labels: [m] -1 or +1.
      weights: [m] or None.
      settings: all options.
      search: the configuration of the final vote.
      margin: rho.
      on_step: called after each step.
      seconds: the time limit, or None for the rest of the command's limit.
    """
    (kappa,) = settings.kappa
    dataset = merging.merge_bits(bits, labels, weights)
    learner = _learner(
        settings.max_order, kappa, num_attributes=bits.shape[1], num_rows=len(labels)
    )
    ends = _rounds_and_time(seconds, settings)

    def watch(state: Any, info: Any) -> bool:
        return loops.goes_on(on_step, state, _progress(info))

    with checkpointing.kept(settings, watch, lambda: l0.LargeState, dataset) as (save, initial):
        fitted = l0.fit_large(
            dataset,
            learner,
            margin=margin,
            tolerance=settings.tolerance,
            max_columns=settings.max_columns,
            max_cuts=settings.capacity,
            search=search,
            on_step=save,
            initial=initial,
            **ends,
        )
        return jax.block_until_ready(fitted)


def _progress(info: Any) -> str:
    """Returns the text of the progress bar after a step."""
    best = f"cost {info.best_loss:.4g} with {info.num_rules} rules"
    if info.num_rounds == 0:
        return best
    gap = (info.upper_bound - info.lower_bound) / max(info.upper_bound, 1.0)
    return f"{best}; relaxation {info.lower_bound:.4g} to {info.upper_bound:.4g} ({gap:.1%})"
