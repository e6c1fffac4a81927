"""Reports of boosting runs: the certificate, and the rules as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jboost import ensemble as ensemble_module
from jboost.base import status
from jboost.base.boosting import Ensemble, Fit, Learner
from jboost.base.protocols import hook
from jboost.report import verdict
from jboost.report.bounds import lower_text, upper_text

_CLAIMS = {
    "relaxed-margin": ("soft margin", "largest soft margin of any vote"),
    "lpboost": ("soft margin", "largest soft margin of any vote"),
    "adaboost": ("training error", "training error <= product of the normalisers"),
    "infoboost": ("training error", "training error <= product of the normalisers"),
}
_MARGINS = {
    "hard": "hard margin",
    "soft": "soft margin",
    "norm-ball": "margin over a norm ball",
    "norm-penalty": "margin plus a norm penalty",
    "entropy": "margin with binary entropies",
}
_NUM_SHOWN = 12  # the largest number of rules in the text by default


def describe_fit(
    fit: Fit,
    method: str,
    learner: str,
    relaxation: str = "soft",
    *,
    vote_strength: float | None = None,
) -> dict[str, Any]:
    """The numbers of a fit, ready for JSON.

    Args:
      fit: concrete, of any booster.
      method: the name of the booster on the command line.
      learner: the name of the learner on the command line.
      relaxation: the name of the relaxation on the command line, of relaxed-margin.
      vote_strength: that of the cost of the votes, if they have one, of relaxed-margin.
    """
    return {
        "method": method,
        "learner": learner,
        **({"relaxation": relaxation} if method == "relaxed-margin" else {}),
        "num_rounds": int(fit.num_rounds),
        "num_hypotheses": num_voting(fit.ensemble),
        "certificate": certificate(fit, method, relaxation, vote_strength=vote_strength),
    }


def num_voting(ensemble: Ensemble) -> int:
    """The number of hypotheses with a nonzero vote."""
    return int(np.any(np.asarray(ensemble.votes) != 0, axis=1).sum())


def certificate(
    fit: Fit, method: str, relaxation: str = "soft", *, vote_strength: float | None = None
) -> dict[str, Any]:
    """The proven bounds, with their meaning; infinite bounds are None."""
    quantity, meaning = _CLAIMS[method]
    if method == "relaxed-margin":
        quantity = _MARGINS[relaxation]
        if vote_strength is not None:
            quantity += " minus the cost of the votes"
        meaning = f"largest {quantity} of any vote"
    bounds = {
        name: float(value)
        for name, value in fit.certificate._asdict().items()
        if np.ndim(value) == 0
    }
    return {
        "quantity": quantity,
        "meaning": meaning,
        **{name: value if math.isfinite(value) else None for name, value in bounds.items()},
        "status": status.Status(int(fit.status)).name,
        "explanation": status.explain(fit.status),
    }


def count(number: int) -> str:
    """A number of hypotheses, as text.

    >>> count(1), count(2)
    ('1 hypothesis', '2 hypotheses')
    """
    return f"{number} hypothes{'i' if number == 1 else 'e'}s"


def rules(ensemble: Ensemble, names: Sequence[str]) -> list[str] | None:
    """The hypotheses as text with their votes, the largest vote first; None if the learner cannot
    describe its hypotheses.

    Args:
      ensemble: concrete.
      names: of the features, quoted if necessary.
    """
    if not hook(Learner, ensemble.learner, "can_describe"):
        return None
    if num_voting(ensemble) == 0:
        return []
    return ensemble_module.describe(ensemble, names).split("\n")


def lines(
    fit: Mapping[str, Any], texts: Sequence[str] | None, *, num_shown: int | None = _NUM_SHOWN
) -> list[str]:
    """Rounds, bounds, status and the first rules, line by line.

    Args:
      fit: the result of `describe_fit`, with a `verdict`.
      texts: the result of `rules`.
      num_shown: the largest number of rules, None for all.
    """
    bounds = fit["certificate"]
    shown = [
        (
            f"ensemble    {count(fit['num_hypotheses'])} of the learner {fit['learner']} after"
            f" {fit['num_rounds']} rounds of {fit['method']}"
        ),
        f"bounds      {_bounds(bounds, fit['method'])}",
    ]
    if bounds.get("margin") is not None:
        shown.append(
            f"margin      {lower_text(bounds['margin'])} <= largest margin of any"
            f" vote{_up_to(bounds['margin_upper_bound'])}"
        )
    shown += [
        *verdict.lines(fit["verdict"]),
        verdict.status_line(bounds["explanation"], fit["verdict"]),
    ]
    if fit["num_hypotheses"] == 0:
        shown.append(
            "rules       none: no hypothesis improves on the empty vote, so every score is 0; more"
            " rounds or a greater nu may help"
        )
    for index, rule in enumerate(texts or ()):
        if index == num_shown:
            shown.append(f"            ... and {len(texts or ()) - index} more in the report")
            break
        shown.append(f"{'rules' if index == 0 else '':<12}{rule}")
    return shown


def choice_lines(choice: Mapping[str, Any]) -> list[str]:
    r"""The losses of all values of nu that were tried, and a note if the choice was ended early.

    >>> tried = {"nu": 0.3, "mean": 0.25, "standard_error": 0.01, "says_something": True}
    >>> losses = [tried, tried | {"nu": 0.2, "says_something": False}, {"nu": 0.1, "mean": None}]
    >>> print(
    ...     "\n".join(choice_lines({"chosen": 0.3, "losses": losses, "rows": 60, "candidates": 4}))
    ... )
    nu          0.3: held-out loss 25.00% ± 1.00%, chosen
                0.2: held-out loss 25.00% ± 1.00%, no soft margin above the tolerance
                0.1: not tried
    note: the choice of nu was ended after 3 of 4 values
    """
    losses, candidates = choice["losses"], choice["candidates"]
    shown = [
        f"{'nu' if index == 0 else '':<12}{_candidate(row, choice['chosen'])}"
        for index, row in enumerate(losses)
    ]
    return (
        shown
        if len(losses) == candidates
        else [
            *shown,
            f"note: the choice of nu was ended after {len(losses)} of {candidates} values",
        ]
    )


def _candidate(row: Mapping[str, Any], chosen: float) -> str:
    if row["mean"] is None:
        return f"{row['nu']:g}: not tried"
    reason = "" if row["says_something"] else ", no soft margin above the tolerance"
    return (
        f"{row['nu']:g}: held-out loss {row['mean']:.2%} ±"
        f" {row['standard_error']:.2%}{reason}{', chosen' if row['nu'] == chosen else ''}"
    )


def _bounds(bounds: Mapping[str, Any], method: str) -> str:
    if _CLAIMS[method][0] == "training error":
        return (
            f"training error {bounds['lower_bound']:.6g} <="
            f" {upper_text(bounds['upper_bound'])}, the product of the normalisers"
        )
    if bounds["upper_bound"] is None:
        return (
            f"{lower_text(bounds['lower_bound'])} <= {bounds['meaning']} over the hypotheses"
            f" seen{_up_to(bounds['seen_upper_bound'])}"
        )
    lower = lower_text(bounds["lower_bound"])
    return f"{lower} <= {bounds['meaning']}{_up_to(bounds['upper_bound'])}"


def _up_to(bound: float | None) -> str:
    return ", with no upper bound" if bound is None else f" <= {upper_text(bound)}"
