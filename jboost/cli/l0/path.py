"""L0-RBoost for several margins, for `jboost path`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jboost import l0
from jboost.base import padding
from jboost.base.boosting import Fit
from jboost.cli.l0 import prepared
from jboost.cli.options import Settings


def fit(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    settings: Settings,
    margins: Sequence[float],
    num_attributes: int,
) -> list[Fit]:
    """Returns a fit for each margin, in one program (`jboost.l0.path`).

    Args:
      bits: [m, N].
      labels: [m] -1 or +1.
      weights: [m] cost of an error on each row, or None.
      settings: all options, with one kappa and one vote.
      margins: rho of each fit, sorted.
      num_attributes: the number of bits without padding.
    """
    (kappa,), (vote,) = settings.kappa, settings.vote
    with jax.enable_x64(settings.precision == "float64"):
        dataset, make_learner, options = prepared.prepare(
            bits,
            labels,
            weights,
            np.ones(len(labels), bool),
            settings,
            num_attributes=num_attributes,
            has_gaps=bool(np.isnan(bits).any()),
        )
        fits = l0.path(
            dataset,
            make_learner(kappa),
            np.asarray(margins, settings.precision),
            search=prepared.search_of(vote, settings),
            **options,
        )
        return padding.unstack(jax.block_until_ready(fits))
