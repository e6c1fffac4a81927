"""`--margin search`: the best margin of (25) of Goldberg and Eckstein (2009)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jboost import drive, l0
from jboost.base import loops, status
from jboost.base.boosting import Fit, Learner
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Dataset
from jboost.cli import checkpointing, limits
from jboost.cli.l0 import prepared
from jboost.cli.options import Settings

MOST_MARGINS = 32  # tried by a search, as in the library
_LEAST = 1e-3  # the first margin tried, as in the library
_SHARE = 0.6  # of the time that is left, for the search; the fit has the rest


@dataclasses.dataclass(frozen=True)
class Searched:
    """The result of `search`."""

    fit: Fit  # at the best margin
    # the best margin, its bounds and the margins that were tried, in types that JSON supports
    numbers: dict[str, Any]


def search(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    *,
    num_attributes: int,
    has_gaps: bool,
    num_rows: int | None = None,
    seconds: float | None = None,
    on_step: OnStep | None = None,
) -> Searched:
    """Searches the margin, for a share of the time.

    The arguments are those of `jboost.cli.l0.method.fit`. The settings have one kappa and one vote.
    If the time is over or `on_step` returns False, the search ends after the current round with the
    best so far. With --checkpoint its state is saved.

    Raises:
      ValueError: if the data are invalid.
    """
    (kappa,), (vote,) = settings.kappa, settings.vote
    with jax.enable_x64(settings.precision == "float64"):
        dataset, make_learner, options = prepared.prepare(
            bits,
            labels,
            weights,
            chosen,
            settings,
            num_attributes=num_attributes,
            has_gaps=has_gaps,
            num_rows=num_rows,
        )
        options = {**options, "search": prepared.search_of(vote, settings)}
        watch = _limited(on_step, limits.left() if seconds is None else seconds)
        found = _search(dataset, make_learner(kappa), options, settings, watch)
        code = Status(int(found.status))
        if code is Status.INVALID_INPUT:
            raise ValueError(f"the search of the margin failed: {status.explain(code)}")
        return Searched(found.fit, {**_numbers(found), "penalty": settings.margin_penalty})


def _search(
    dataset: Dataset,
    learner: Learner,
    options: dict[str, Any],
    settings: Settings,
    watch: OnStep | None,
) -> l0.MarginSearch:
    """Searches the margin, from the saved state with --resume."""
    penalty = settings.margin_penalty
    assert penalty is not None

    def like() -> l0.MarginSearchState:
        first = l0.init(dataset, learner, margin=_LEAST, bound_integer=False, **options)
        return l0.MarginSearchState(first, first, None)  # type: ignore[arg-type]

    with checkpointing.kept(settings, watch, like, dataset) as (save, initial):
        return jax.block_until_ready(
            l0.search_margin(
                dataset,
                learner,
                penalty=penalty,
                least_margin=_LEAST,
                max_margins=MOST_MARGINS,
                on_step=save,
                initial=initial,
                **options,
            )
        )


def _limited(on_step: OnStep | None, left: float | None) -> OnStep | None:
    """Returns a callback that also ends the search when its share of the seconds `left` is used.
    None if there is neither a callback nor a limit.

    `on_step` is called after each margin. Between the rounds of a margin there is nothing to show:
    where there is an `on_step`, the time limit of the command and Ctrl-C are checked in its place.
    """
    if on_step is None and left is None:
        return None
    limit = None if left is None else drive.time_limit(max(_SHARE * left, 0.0))

    def watch(state: l0.MarginSearchState | None, search: l0.MarginSearch) -> bool:
        if state is None:
            goes_on = on_step is None or not limits.is_over()
        else:
            best = f"margin {float(search.margin):.4g}"
            bounds = f"bounds {float(search.lower_bound):.4g} to {float(search.upper_bound):.4g}"
            goes_on = loops.goes_on(on_step, state, f"{best}, {bounds}")
        return goes_on and loops.goes_on(limit, state, search)

    return watch


def _numbers(found: l0.MarginSearch) -> dict[str, Any]:
    count = int(found.num_margins)
    tried = [
        {"margin": float(margin), "lower_bound": float(lower), "upper_bound": float(upper)}
        for margin, lower, upper in zip(
            found.margins[:count],
            found.relaxation_lower_bounds[:count],
            found.relaxation_upper_bounds[:count],
            strict=True,
        )
    ]
    return {
        "margin": float(found.margin),
        "lower_bound": float(found.lower_bound),
        "upper_bound": float(found.upper_bound),
        "tried": tried,
        "status": Status(int(found.status)).name,
    }
