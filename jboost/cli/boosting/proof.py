"""What the model file of a boosted ensemble holds to prove its bounds: see `jboost.verify`.

Only bounds that `jboost.verify` can recompute are stored: those on a hard or soft margin of votes
of sizes that sum to 1 at most, over all stumps or monomials.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jboost import verify
from jboost.base.boosting import Fit
from jboost.cli.inputs import HostExamples
from jboost.cli.option import LPBOOST, MONOMIALS, RELAXED_MARGIN
from jboost.cli.options import Settings
from jboost.cli.relaxations import HARD, SOFT, has_soft_margin

_LEARNERS = ("stumps", MONOMIALS)


def is_stored(settings: Settings) -> bool:
    """Whether the bounds of a fit with these options can be proven from the model file."""
    if settings.learner not in _LEARNERS:
        return False
    if settings.method == RELAXED_MARGIN:
        return settings.relaxation in (HARD, SOFT) and settings.vote_strength is None
    return settings.method == LPBOOST


def arrays(fitted: Fit, settings: Settings, nu: float, *, num_rows: int) -> dict[str, Any]:
    """Returns the arrays of a proof by name, or none: the example weights of the training rows,
    both bounds, the status, and nu of a soft margin.
    """
    if not is_stored(settings):
        return {}
    bounds = fitted.certificate
    found = {
        "example_weights": bounds.example_weights[:num_rows],  # the others are padding
        "lower_bound": bounds.lower_bound,
        "upper_bound": bounds.upper_bound,
        "status": fitted.status,
    }
    if not has_soft_margin(settings):
        return found
    with jax.enable_x64(settings.precision == "float64"):
        return found | {"nu": np.asarray(nu, settings.precision)}


def metadata(examples: HostExamples, settings: Settings) -> dict[str, Any]:
    """Returns the number and the checksum of the training rows, or nothing without a proof."""
    if not is_stored(settings):
        return {}
    parts = examples.points, examples.labels, examples.weights
    return {"training": {"rows": len(examples.labels), "sha256": verify.checksum_of_rows(*parts)}}
