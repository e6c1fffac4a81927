"""`jboost fit` for the boosting methods.

It fits an ensemble and writes a folder with the model, the report and two figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jboost import plots
from jboost.base.boosting import Fit
from jboost.base.status import Status
from jboost.cli import fitting, limits
from jboost.cli.boosting import features, nu_choice, proof
from jboost.cli.boosting import method as boost
from jboost.cli.boosting.nu_choice import ChosenNu
from jboost.cli.inputs import HostExamples, Source
from jboost.cli.option import SOFT_MARGINS
from jboost.cli.options import Settings
from jboost.cli.output import GAP, MARGINS, TRAINING_ERROR, timed
from jboost.cli.relaxations import has_soft_margin
from jboost.report import boosting, build, verdict
from jboost.report.rules import ScoreRule

_SEEN = ("lower bound", "upper bound over the hypotheses seen")  # of a learner without bounds
_REFUSED = (Status.INFEASIBLE, Status.INVALID_INPUT)


def fit(settings: Settings, say: Any) -> None:
    """Boosts, writes the output folder, and shows a summary.

    Args:
      settings: all options.
      say: prints text or a rich renderable.

    Raises:
      ValueError: if an option or the data are invalid. Nothing is written then.
    """
    opening = fitting.begin(settings)
    source, kept = opening.source, opening.kept
    with timed(opening.seconds, "features"):
        seen = features.fit(source.rows(kept), settings)
        examples = features.read_examples(seen, source.rows(kept), settings)
        others = opening.read_held_out(lambda part: features.read_examples(seen, part, settings))
    choice = _choose(source.rows(kept), opening.seconds, settings)
    with timed(opening.seconds, "boosting"):
        fitted = boost.boost(examples, np.ones(len(kept), bool), settings, choice.nu)
    _refuse(fitted, settings)

    losses = build.losses([make_rule(fitted, settings)], examples.in_float64(), others)
    description = _describe(fitted, losses, examples, choice, settings)
    fitting.end(
        opening,
        settings,
        say,
        model={
            "binarizer": seen.binarizer,
            "ensemble": fitted.ensemble,
            **proof.arrays(fitted, settings, choice.nu, num_rows=len(kept)),
        },
        metadata={
            **proof.metadata(examples, settings),
            "learner": settings.learner,
            **_columns(seen),
            "boosting": description,
        },
        sections={
            "data": opening.describe_data(features.left_out_notes(source.table, settings)),
            "boosting": description,
            "nu": nu_choice.describe(choice) if has_soft_margin(settings) else None,
            "rules": boosting.rules(fitted.ensemble, seen.names),
            "losses": losses,
        },
        draw=lambda folder: _draw(fitted, examples, settings, folder),
        lines=_lines,
    )


def _choose(source: Source, seconds: dict[str, float], settings: Settings) -> ChosenNu:
    """Chooses nu by cross-validation if the method has a soft margin and several values."""
    candidates = nu_choice.values(settings)
    if not has_soft_margin(settings) or len(candidates) == 1:
        return ChosenNu(candidates[0])
    with (
        timed(seconds, "choice of nu"),
        limits.progress("choice of nu", len(candidates)) as on_step,
    ):
        choice = nu_choice.choose(source, settings, on_step=on_step)
    limits.go_on_after_choice()
    return choice


def make_rule(fitted: Fit, settings: Settings) -> ScoreRule:
    """Returns the ensemble as a rule for the table of losses.

    A score of 0 predicts -1, as in `jboost.predict`.
    """
    detail = f"{settings.learner}: {boosting.count(boosting.num_voting(fitted.ensemble))}"
    return ScoreRule(
        settings.method,
        detail,
        lambda points: np.where(
            boost.scores(fitted.ensemble, points, settings.precision) > 0, 1, -1
        ),
    )


def _describe(
    fitted: Fit,
    losses: build.Losses,
    examples: HostExamples,
    choice: ChosenNu,
    settings: Settings,
) -> dict[str, Any]:
    """Returns the description of the fit for the report, with its verdict."""
    described = boosting.describe_fit(
        fitted,
        settings.method,
        settings.learner,
        settings.relaxation,
        vote_strength=settings.vote_strength,
    )
    return {
        **described,
        "verdict": _assess(described["certificate"], losses, examples, choice, settings),
    }


def _columns(seen: features.TableFeatures) -> dict[str, list[str]]:
    """Returns the names of the columns that the features are made from."""
    return {
        "numeric": list(seen.numeric),
        "categorical": list(seen.categorical),
        "plain": list(seen.plain),
    }


def _assess(
    bounds: Mapping[str, Any],
    losses: build.Losses,
    examples: HostExamples,
    choice: ChosenNu,
    settings: Settings,
) -> dict[str, Any]:
    """Returns the verdict: whether the vote is informative, and what to change if it is not."""
    _, labels, weights = examples.in_float64()
    reasons: list[str] = []
    remedy = "more --rounds, another --learner, or other columns"
    if has_soft_margin(settings):
        reasons = verdict.soft_margin_reasons(bounds)
        is_exhausted = bool(choice.losses) and not any(
            row["says_something"] for row in choice.losses
        )
        greater = f"a greater --nu than {choice.nu:g}, --nu cv, or a smaller --tolerance"
        remedy = (
            "another --learner or other columns: no tried nu has a soft margin above the tolerance"
            if is_exhausted
            else greater
        )
    return verdict.assess(
        losses[-1]["training"]["rate"], labels, weights, reasons=reasons, remedy=remedy
    )


def _refuse(fitted: Fit, settings: Settings) -> None:
    """Raises ValueError if the status says that there is no valid result."""
    found = Status(int(fitted.status))
    if found in _REFUSED:
        explanation = boosting.certificate(fitted, settings.method)["explanation"]
        raise ValueError(
            f"{settings.method} with the learner {settings.learner} found no vote: {explanation}"
        )


def _draw(fitted: Fit, examples: HostExamples, settings: Settings, folder: Path) -> None:
    title = f"{settings.method} of {settings.learner}"
    points, labels, _ = examples.in_float64()
    margins = boost.normalized_margins(
        fitted.ensemble, boost.scores(fitted.ensemble, points, settings.precision), labels
    )
    plots.plot_margins(margins, path=folder / MARGINS, title=f"Training margins: {title}")
    rounds = int(fitted.num_rounds)
    lower, upper, seen = (
        np.asarray(bound, np.float64)[:rounds]
        for bound in (
            fitted.trace.lower_bounds,
            fitted.trace.upper_bounds,
            fitted.trace.seen_upper_bounds,
        )
    )
    kind, names = _bounds_drawn(settings.method, upper)
    quantity = boosting.certificate(
        fitted, settings.method, settings.relaxation, vote_strength=settings.vote_strength
    )["quantity"]
    plots.plot_bounds(
        lower,
        seen if names == _SEEN else upper,
        path=folder / GAP,
        title=f"{kind}: {title}",
        quantity=quantity,
        names=names,
    )


def _bounds_drawn(method: str, upper: np.ndarray) -> tuple[str, tuple[str, str]]:
    """Returns what the figure of the bounds shows, and the names of its lines.

    >>> _bounds_drawn("lpboost", np.array([np.inf]))
    ('Bounds', ('lower bound', 'upper bound over the hypotheses seen'))
    >>> _bounds_drawn("adaboost", np.array([0.5]))[0]
    'Training error and its bound'
    """
    if method not in SOFT_MARGINS:
        return "Training error and its bound", TRAINING_ERROR
    if np.isfinite(upper).any():
        return "Certified bounds", ("lower bound", "upper bound")
    return "Bounds", _SEEN


def _lines(report: Mapping[str, Any]) -> list[str]:
    chosen = boosting.choice_lines(report["nu"]) if report["nu"] else []
    return [*chosen, *boosting.lines(report["boosting"], report["rules"])]
