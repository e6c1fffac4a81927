"""`--margin search`: the best margin of (25) of Goldberg and Eckstein (2009)."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jboost import l0
from jboost.base import status
from jboost.base.status import Status
from jboost.cli.l0 import prepared
from jboost.cli.options import Settings


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
) -> dict[str, Any]:
    """Returns the best margin, its bounds and the margins that were tried, in types that JSON
    supports.

    The arguments are those of `jboost.cli.l0.method.fit`. The settings have one kappa and one vote.

    Raises:
      ValueError: if the data are invalid.
    """
    (kappa,), (vote,), penalty = settings.kappa, settings.vote, settings.margin_penalty
    assert penalty is not None
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
        found = l0.search_margin(
            dataset,
            make_learner(kappa),
            penalty=penalty,
            search=prepared.search_of(vote, settings),
            **options,
        )
        code = Status(int(found.status))
        if code is Status.INVALID_INPUT:
            raise ValueError(f"the search of the margin failed: {status.explain(code)}")
        return {**_numbers(found), "penalty": penalty}


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
