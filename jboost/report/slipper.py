"""Reports of a run of SLIPPER: the rules as text with their votes and their covers, the
certificate, and the choice of the number of rounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jboost.base import status
from jboost.base.boosting import Ensemble, Fit
from jboost.data import binarization
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping
from jboost.report import verdict
from jboost.report.bounds import upper_text
from jboost.report.monomials import fired, voting

_ALWAYS = "always"


@dataclasses.dataclass(frozen=True)
class SlipperTextRule:
    """One rule that votes, which may be the default rule."""

    text: str  # `41.5 < age <= 64.5 and cp != 3`; `always` for the default rule
    label: str  # the class that it predicts
    vote: float  # positive for the class +1
    order: int  # literals
    covers_negative: int  # the number of rows of class -1 for which it holds
    covers_positive: int


def describe_rules(
    ensemble: Ensemble,
    binarizer: Binarizer,
    bits: np.ndarray,
    labels: np.ndarray,
    mapping: LabelMapping,
) -> list[SlipperTextRule]:
    """The rules as text with the numbers of rows that they cover, in the order of `voting`.

    Args:
      ensemble: of rules over the bits of `binarizer`, concrete.
      binarizer: of the bits.
      bits: [m, N] the training rows.
      labels: [m] -1 or +1.
      mapping: of the labels.
    """
    covered = fired(ensemble, bits)
    rules = []
    for index, slot in enumerate(voting(ensemble)):
        literals, vote = (
            np.asarray(ensemble.hypotheses.literals[slot]),
            float(ensemble.votes[slot, 0]),
        )
        rules.append(
            SlipperTextRule(
                text=binarization.describe_monomial(binarizer, literals),
                label=mapping.to_text(np.array([vote]))[0],
                vote=vote,
                order=int(np.abs(literals).sum()),
                covers_negative=int((covered[:, index] & (labels < 0)).sum()),
                covers_positive=int((covered[:, index] & (labels > 0)).sum()),
            )
        )
    return rules


def certificate(fit: Fit) -> dict[str, Any]:
    """The training error and its bound, the product of the normalisers, with an explanation of the
    status.
    """
    bounds = {
        name: float(getattr(fit.certificate, name)) for name in ("lower_bound", "upper_bound")
    }
    return {
        **bounds,
        "status": status.Status(int(fit.status)).name,
        "explanation": status.explain(fit.status),
    }


def describe(
    fit: Fit,
    ensemble: Ensemble,
    binarizer: Binarizer,
    bits: np.ndarray,
    labels: np.ndarray,
    mapping: LabelMapping,
    choice: Mapping[str, Any],
) -> dict[str, Any]:
    """The description of a fit for JSON.

    Args:
      fit: the fit, for its certificate.
      ensemble: the part of the fit's ensemble that votes.
      binarizer: of the bits.
      bits: [m, N] the training rows.
      labels: [m].
      mapping: of the labels.
      choice: of the number of rounds: `errors`, the held-out error by number of rounds that was
        tried; `candidates`, the number of these with those that were not tried; and `status`,
        TIME_LIMIT if the choice was ended early. Empty, 0 and None if the number was given.
    """
    num_rounds = int(fit.num_rounds)
    return {
        "num_rounds": num_rounds,
        "rounds": {"chosen": num_rounds, **choice},
        "attributes": {
            "bits": binarizer.num_bits,
            "constant_columns": list(binarizer.constant_attributes),
        },
        "rows": {"-1": int((labels < 0).sum()), "+1": int((labels > 0).sum())},
        "rules": [
            dataclasses.asdict(rule)
            for rule in describe_rules(ensemble, binarizer, bits, labels, mapping)
        ],
        "certificate": certificate(fit),
    }


def lines(
    model: Mapping[str, Any], mapping: LabelMapping, *, num_shown: int | None = None
) -> list[str]:
    """Rounds, rules, certificate and status, line by line.

    Args:
      model: the result of `describe`, with a `verdict`.
      mapping: of the labels.
      num_shown: the largest number of rules, None for all.
    """
    bounds, rules, totals = model["certificate"], model["rules"], model["rows"]
    shown = [
        (
            f"model       {mapping.positive} where the votes of the rules that hold sum to more"
            f" than 0, else {mapping.negative}"
        ),
        *_rounds_lines(model),
    ]
    for index, rule in enumerate(rules):
        if index == num_shown:
            shown.append(f"            ... and {len(rules) - index} more in the report")
            break
        condition = _ALWAYS if rule["text"] == _ALWAYS else f"if {rule['text']}"
        covers = (
            f"{rule['covers_positive']} of {totals['+1']} {mapping.positive},"
            f" {rule['covers_negative']} of {totals['-1']} {mapping.negative}"
        )
        shown.append(
            f"{'rules' if index == 0 else '':<12}{abs(rule['vote']):.4f} {rule['label']}"
            f" {condition}   [{covers}]"
        )
    return [
        *shown,
        (
            f"bounds      training error {bounds['lower_bound']:.6g} <="
            f" {upper_text(bounds['upper_bound'])}, the product of the normalisers"
        ),
        *verdict.lines(model["verdict"]),
        verdict.status_line(bounds["explanation"], model["verdict"]),
    ]


def _rounds_lines(model: Mapping[str, Any]) -> list[str]:
    """The number of rounds and its loss, and a note if its choice was ended early.

    >>> rounds = {"chosen": 2, "errors": [0.5, 0.25, 0.5], "candidates": 40}
    >>> line, note = _rounds_lines({"rounds": rounds | {"status": "TIME_LIMIT"}})
    >>> print(line)
    rounds      2 of up to 40, by cross-validation: held-out loss 25.00%
    >>> print(note.removeprefix("note: the choice of the number of rounds was "))
    ended by the time limit (or interrupted) after 3 of 40 rounds
    """
    errors, chosen = model["rounds"]["errors"], model["rounds"]["chosen"]
    if not errors:
        return [f"rounds      {chosen}"]
    num_candidates = model["rounds"].get("candidates", len(errors))  # older reports lack it
    line = (
        f"rounds      {chosen} of up to {num_candidates}, by cross-validation: held-out loss"
        f" {errors[chosen - 1]:.2%}"
    )
    if model["rounds"].get("status") != status.Status.TIME_LIMIT.name:
        return [line]
    return [
        line,
        "note: the choice of the number of rounds was ended by the time limit (or interrupted)"
        f" after {len(errors)} of {num_candidates} rounds",
    ]


def explanations(rules: Sequence[Mapping[str, Any]], holds: np.ndarray) -> list[str]:
    """The rules that hold for each row, in one text each.

    Args:
      rules: the result of `describe_rules`, as dictionaries.
      holds: [k, r] the result of `fired`.
    """
    texts = [
        f"{abs(rule['vote']):.4f} {rule['label']}"
        f" {_ALWAYS if rule['text'] == _ALWAYS else 'if ' + rule['text']}"
        for rule in rules
    ]
    return [
        "; ".join(text for text, is_held in zip(texts, row, strict=True) if is_held)
        for row in holds
    ]
