"""What the model file of l0 holds to prove the bounds of its rules: see `jboost.verify`.

It is stored for fits of `jboost.l0.fit_large` with rules of one or two literals. `jboost.verify`
does not check the bounds of other fits.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jboost import verify
from jboost.base.boosting import Fit
from jboost.cli.options import Settings
from jboost.l0.large import LargeCertificate, RelaxedPoint
from jboost.l0.pricing import PricingProof

_MOST_ORDER = 2  # the largest order whose bounds `jboost.verify` checks


def of_fit(fitted: Fit, bits: np.ndarray, settings: Settings, margin: float) -> dict[str, Any]:
    """Returns `proof`, a dict of arrays, or nothing.

    Args:
      fitted: the fit.
      bits: [m, N] the training rows.
      settings: all options.
      margin: rho.
    """
    found, learner = fitted.certificate, fitted.ensemble.learner
    if not isinstance(found, LargeCertificate) or learner.max_order > _MOST_ORDER:
        return {}
    with jax.enable_x64(settings.precision == "float64"):
        prices = np.asarray(learner.price_list(bits.shape[1], len(bits)), np.float64)
        margin = float(np.asarray(jax.numpy.asarray(margin, float)))  # as the fit rounds it
    arrays = {
        "margin": np.asarray(margin, np.float64),
        "costs": np.concatenate([[float(np.asarray(learner.constant_cost))], prices]),
        "lower_bound": found.lower_bound,
        "upper_bound": found.upper_bound,
        "integer_lower_bound": found.integer_lower_bound,
        "integer_upper_bound": found.integer_upper_bound,
        "relaxed": _duals(found.proof),
        "integer": _duals(found.integer_proof),
        "point": _point(found.point),
    }
    return {"proof": arrays}


def _duals(proof: PricingProof) -> dict[str, np.ndarray]:
    names = ("example_weights", "pairs", "pair_weights")
    return {name: np.asarray(getattr(proof, name)) for name in names}


def _point(point: RelaxedPoint) -> dict[str, np.ndarray]:
    names = ("coefficients", "constants", "selected", "slacks")
    columns = {name: np.asarray(getattr(point.hypotheses, name)) for name in ("literals", "sign")}
    return columns | {name: np.asarray(getattr(point, name)) for name in names}


def metadata(
    proof: dict[str, Any], bits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
) -> dict[str, Any]:
    """Returns the number and the checksum of the training rows, or nothing without a proof."""
    if not proof:
        return {}
    checksum = verify.checksum_of_rows(bits.astype(np.float64), labels, weights)
    return {"training": {"rows": len(labels), "sha256": checksum}}
