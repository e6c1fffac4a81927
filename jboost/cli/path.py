"""`jboost path`: fits for several margins of l0, or several values of nu of LP-Boost, in one
program.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jboost import plots
from jboost.base.boosting import Fit
from jboost.base.status import Status
from jboost.cli import bits as bit_module
from jboost.cli import inputs, programs
from jboost.cli.boosting import features, nu_choice
from jboost.cli.boosting import fit as boost_fit
from jboost.cli.boosting import method as boost
from jboost.cli.inputs import Source
from jboost.cli.l0 import candidates, folds
from jboost.cli.l0 import path as l0_path
from jboost.cli.option import CV, L0
from jboost.cli.options import Settings
from jboost.cli.output import check_file, write_report
from jboost.cli.votes import make_rules, ones_for_none, voting_part
from jboost.data.table import LabelMapping
from jboost.report import boosting, build, text
from jboost.report import l0 as l0_report
from jboost.report.rules import ScoreRule

_FIGURES = (".png", ".svg", ".pdf")  # the endings of figures
_Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, labels and weights


class _Point(NamedTuple):
    """The fit for one value of the path."""

    value: float
    rule: ScoreRule
    num_rules: int
    num_rounds: int
    certificate: dict[str, Any]


def path(
    settings: Settings,
    report_path: str | None,
    figure_path: str | None,
    say: Any,
    *,
    place: Callable[[str], str],
) -> None:
    """Fits the path and shows the table of its values.

    Args:
      settings: all options.
      report_path: the JSON file for the table, or None.
      figure_path: the file for the figure, or None.
      say: prints text or a rich renderable.
      place: returns where the value of an option is given: its flag, or its key in a configuration
        file.

    Raises:
      ValueError: if an option or the data are invalid.
    """
    started, before = time.perf_counter(), programs.count()
    _require_one(settings, place)
    check_file("--report", report_path, build.ENDINGS)
    check_file("--figure", figure_path, _FIGURES)
    source = inputs.read_source(settings)
    assert source.table.labels is not None
    kept, apart = inputs.split_rows(source.table.labels, settings.holdout, settings.seed)
    parameter = "margin" if settings.method == L0 else "nu"
    rows = _fit_path(source, kept, apart, parameter, settings)
    notes = () if settings.method == L0 else features.left_out_notes(source.table, settings)
    seconds = {"all": time.perf_counter() - started}
    report: dict[str, Any] = {
        "command": "path",
        "method": settings.method,
        "device": source.device,
        "data": build.describe_data(source.table, len(apart), source.weights, notes),
        "path": rows,
        "programs": programs.count().since(before)._asdict(),
        "seconds": seconds,
        "settings": dataclasses.asdict(settings),
        "versions": build.versions(),
    }
    for line in text.data_lines(report["data"]):
        say(line)
    say(text.path_table(rows, parameter))
    for line in (*text.path_lines(rows, parameter), *text.run_lines(report)):
        say(line)
    write_report(report, report_path, say)
    if figure_path is not None:
        _draw(rows, parameter, figure_path)
        say(f"drawn       {figure_path}")


def _fit_path(
    source: Source, kept: np.ndarray, apart: np.ndarray, parameter: str, settings: Settings
) -> list[dict[str, Any]]:
    """Returns the rows of the table: a fit for each value, with its losses."""
    find = _path_of_l0 if settings.method == L0 else _path_of_lpboost
    training, read, points = find(source.rows(kept), settings)
    held_out = read(source.rows(apart)) if len(apart) else None
    return [_describe(parameter, point, training, held_out) for point in points]


def _draw(rows: Sequence[Mapping[str, Any]], parameter: str, figure_path: str) -> None:
    """Writes the figure of the table."""
    shares = {
        part: np.array([row[part]["rate"] for row in rows])
        for part in ("training", "held_out")
        if part in rows[0]
    }
    values, numbers = (np.array([row[name] for row in rows]) for name in (parameter, "num_rules"))
    plots.plot_path(values, numbers, **shares, parameter=parameter, path=figure_path)


def _require_one(settings: Settings, place: Callable[[str], str]) -> None:
    """Raises ValueError if several values are given of an option other than that of the path."""
    if settings.method != L0:
        return
    for name in ("kappa", "vote"):
        count = len(getattr(settings, name))
        if count > 1:
            raise ValueError(
                f"jboost path takes one --{name}, and {count} are given by {place(name)}: give one"
                f" to --{name}, or choose among them with jboost fit"
            )
    for name in ("max_order", "max_rules"):
        if getattr(settings, name) == CV:
            flag = "--" + name.replace("_", "-")
            raise ValueError(
                f"jboost path does not choose {flag}: give a number in place of the {CV} of"
                f" {place(name)}"
            )


def _path_of_l0(
    source: Source, settings: Settings
) -> tuple[_Rows, Callable[[Source], _Rows], Iterator[_Point]]:
    """Returns the training rows, a function that reads other rows, and the fits."""
    table, labels = source.table, source.table.labels
    assert labels is not None
    assert table.mapping is not None
    names = tuple(table.numeric), tuple(table.categorical)
    binarizer = folds.binarize(
        folds.read_rows(table, *names),
        labels,
        source.weights,
        table.columns,
        settings,
        table.source,
        is_path=True,
    )

    def read(part: Source) -> _Rows:
        assert part.table.labels is not None
        bits = bit_module.apply(binarizer, folds.read_rows(part.table, *names), settings.precision)
        return bits, part.table.labels, ones_for_none(part.weights, len(bits))

    training = read(source)
    rhos = candidates.margins(settings, len(labels))
    fits = l0_path.fit(training[0], labels, source.weights, settings, rhos, binarizer.num_bits)
    points = _points_of_l0(rhos, fits, training, binarizer.num_bits, table.mapping, settings)
    return training, read, points


def _points_of_l0(
    rhos: Sequence[float],
    fits: Sequence[Fit],
    training: _Rows,
    num_bits: int,
    mapping: LabelMapping,
    settings: Settings,
) -> Iterator[_Point]:
    """Yields the points of the path of l0, with the bounds that each has from smaller margins."""
    bounds = with_bounds_below([l0_report.certificate(fitted) for fitted in fits])
    for rho, fitted, certificate in zip(rhos, fits, bounds, strict=True):
        ensemble = voting_part(fitted.ensemble, num_bits, settings.precision)
        rules = make_rules(L0, ensemble, *training[1:], mapping, settings.precision)
        num_rules = boosting.num_voting(ensemble)
        yield _Point(rho, rules[-1], num_rules, int(fitted.num_rounds), certificate)


def with_bounds_below(certificates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the certificates of increasing margins, each with the greatest lower bounds of its
    own margin and the smaller ones.

    The optima of the relaxation (18) and of (15) do not decrease with the margin rho, so that a
    lower bound holds for all greater margins: in (18) an example needs a slack of at least
    1 - (1 + y H lambda) / (1 + rho), which does not decrease as |y H lambda| <= 1, and the cuts do
    not depend on rho; in (15) a vote misses a greater margin on the same examples and more. Without
    rounds at a margin this is the only bound.

    >>> names = ("lower_bound", "upper_bound", "integer_lower_bound", "integer_upper_bound")
    >>> numbers = [(3.0, 3.5, 4.0, 4.0), (0.0, 5.0, 0.0, None)]
    >>> below = with_bounds_below([dict(zip(names, four)) for four in numbers])
    >>> below[1]["lower_bound"], below[1]["integer_lower_bound"]
    (3.0, 4.0)
    """
    found: list[dict[str, Any]] = []
    for certificate in certificates:
        raised = dict(certificate)
        for kind in ("", "integer_"):
            name = f"{kind}lower_bound"
            known = [one[name] for one in (*found[-1:], certificate) if one[name] is not None]
            above = certificate[f"{kind}upper_bound"]  # above the optimum but for rounding
            raised[name] = max(known, default=None)
            if raised[name] is not None and above is not None:
                raised[name] = min(raised[name], max(above, certificate[name] or 0.0))
        found.append(raised)
    return found


def _path_of_lpboost(
    source: Source, settings: Settings
) -> tuple[_Rows, Callable[[Source], _Rows], Iterator[_Point]]:
    """Returns the training rows, a function that reads other rows, and the fits."""
    seen = features.fit(source, settings)

    def read(part: Source) -> _Rows:
        return features.read_examples(seen, part, settings).in_float64()

    nus = nu_choice.values(settings)
    fits = boost.path(features.read_examples(seen, source, settings), settings, nus)

    def points() -> Iterator[_Point]:
        for nu, fitted in zip(nus, fits, strict=True):
            yield _Point(
                nu,
                boost_fit.make_rule(fitted, settings),
                boosting.num_voting(fitted.ensemble),
                int(fitted.num_rounds),
                boosting.certificate(fitted, settings.method),
            )

    return read(source), read, points()


def _describe(
    parameter: str, point: _Point, training: _Rows, held_out: _Rows | None
) -> dict[str, Any]:
    """Returns a row of the table, in types that JSON supports.

    Raises:
      ValueError: if the fit found the data invalid.
    """
    if point.certificate["status"] == Status.INVALID_INPUT.name:
        explanation = point.certificate["explanation"]
        raise ValueError(f"no fit at {parameter} {point.value:g}: {explanation}")
    (losses,) = build.losses([point.rule], training, held_out)
    parts: dict[str, Any] = {
        part: losses[part] for part in ("training", "held_out") if part in losses
    }
    return {
        parameter: point.value,
        "num_rules": point.num_rules,
        "num_rounds": point.num_rounds,
        "certificate": point.certificate,
        **parts,
    }
