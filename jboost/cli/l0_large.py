"""L0-RBoost of rules of one or two literals for the command line: rows as bytes, equal ones merged, one `jboost.l0.fit_large`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jboost import l0, learners
from jboost.base import loops
from jboost.base.boosting import Fit
from jboost.base.loops import OnStep
from jboost.cli import limits
from jboost.cli.options import Settings
from jboost.data import merging
from jboost.monomials import costs

MOST_ORDER = 2
_ROUNDS_WITHOUT_END = 1_000_000  # with a time limit


def serves(settings: Settings) -> bool:
    """Whether the options ask for what `fit_large` does."""
    return settings.max_order <= MOST_ORDER and settings.exact == 0 and settings.max_order > 0


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
    """One fit for the one kappa of the settings.

    Args:
      bits: [m, N] of 0, 1 and NaN.
      labels: [m] -1 or +1.
      weights: [m] or None.
      settings: all options.
      search: the kind of final vote.
      margin: rho.
      on_step: called after each step.
      seconds: None for what is left of the time limit.
    """
    (kappa,) = settings.kappa
    dataset = merging.merge_bits(bits, labels, weights)
    cost = costs.mdl(kappa, num_attributes=bits.shape[1], num_examples=len(labels))
    left = limits.left() if seconds is None else seconds

    def watch(state: Any, info: Any) -> bool:
        return loops.goes_on(on_step, state, _progress(info))

    fitted = l0.fit_large(
        dataset,
        learners.monomials(settings.max_order, cost=cost),
        margin=margin,
        tolerance=settings.tolerance,
        max_rounds=settings.rounds if left is None else _ROUNDS_WITHOUT_END,
        max_columns=settings.max_columns,
        max_cuts=settings.capacity,
        search=search,
        time_limit=None if left is None else max(left, 0.0),
        on_step=watch,
    )
    return jax.block_until_ready(fitted)


def _progress(info: Any) -> str:
    """What the bar says after a step."""
    best = f"cost {info.best_loss:.4g} with {info.num_rules} rules"
    if info.num_rounds == 0:
        return best
    gap = (info.upper_bound - info.lower_bound) / max(info.upper_bound, 1.0)
    return f"{best}; relaxation {info.lower_bound:.4g} to {info.upper_bound:.4g} ({gap:.1%})"
