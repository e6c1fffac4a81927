"""A fit of `--method l0` for the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jboost import l0
from jboost.base.boosting import Ensemble, Fit
from jboost.cli.l0.candidates import margins
from jboost.cli.options import Settings
from jboost.cli.votes import scores
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping
from jboost.report import l0 as report_module

_ROUNDING = 1e-6  # relative rounding error of a cost in float32
_CUTS_USED_LABELS = (
    "the code length assumes cuts that were fixed in advance, but these cuts depend on the labels:"
    " the risk bound does not account for that"
)


def _beyond(total: float, part: float) -> float:
    """Returns `total - part`, or 0 if the difference is within rounding.

    >>> _beyond(3.0 + 1e-13, 3.0), _beyond(5.0, 3.0)
    (0.0, 2.0)
    """
    rest = total - part
    return rest if rest > _ROUNDING * total else 0.0


def describe(
    fitted: Fit,
    ensemble: Ensemble,
    binarizer: Binarizer,
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    mapping: LabelMapping,
    settings: Settings,
) -> dict[str, Any]:
    """Returns the description of a fit for the report, in types that JSON supports.

    Args:
      fitted: the fit; its certificate is described.
      ensemble: the rules with a vote.
      binarizer: the binarizer of the bits.
      bits: [m, N] the training rows.
      labels: [m].
      weights: [m] or None.
      mapping: the mapping of the labels.
      settings: all options, with one kappa, margin and vote.
    """
    with jax.enable_x64(settings.precision == "float64"):
        rules = report_module.describe_rules(ensemble, binarizer, bits, labels, mapping)
    (rho,) = margins(settings, len(labels))
    bounds = report_module.certificate(fitted)
    spent = sum(rule.cost for rule in rules)
    code = _code_length(rules, ensemble, binarizer, bits, labels, settings)
    cuts_used_labels = settings.cuts == "class_changes" or settings.min_separation is not None
    return {
        "max_order": settings.max_order,
        "margin": rho,
        "num_rounds": int(fitted.num_rounds),
        "attributes": {
            "bits": binarizer.num_bits,
            "constant_columns": list(binarizer.constant_attributes),
        },
        "rows": {"-1": int((labels < 0).sum()), "+1": int((labels > 0).sum())},
        "constant": float(ensemble.constant),
        "rules": [dataclasses.asdict(rule) for rule in rules],
        "cost_of_rules": spent,
        "margin_errors": _beyond(bounds["integer_upper_bound"] or spent, spent),
        "certificate": bounds,
        "proven": report_module.in_words(bounds, max_order=settings.max_order, margin=rho),
        "code_length": code,
        "risk_bound": l0.risk_bound(code["total"], len(labels), delta=report_module.DELTA),
        "delta": report_module.DELTA,
        "notes": [_CUTS_USED_LABELS] if cuts_used_labels else [],
    }


def _code_length(
    rules: Sequence[report_module.L0TextRule],
    ensemble: Ensemble,
    binarizer: Binarizer,
    bits: np.ndarray,
    labels: np.ndarray,
    settings: Settings,
) -> dict[str, Any]:
    values = scores(ensemble, bits, settings.precision)
    return report_module.code_length(
        [rule.order for rule in rules],
        has_constant=float(ensemble.constant) != 0,
        num_errors=int((labels * values <= 0).sum()),
        num_examples=len(labels),
        num_attributes=binarizer.num_bits,
        max_order=settings.max_order,
    )
