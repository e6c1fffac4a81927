"""Optional analyses of `jboost fit --method pair`.

They are the leave-one-out error (`--loo`) and the Pareto front of misclassified weight and margin
(`--pareto`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import plots
from jboost.base.status import Status
from jboost.cli import sizes
from jboost.cli.inputs import HostExamples
from jboost.cli.options import Settings
from jboost.cli.output import FRONT, KINDS
from jboost.cli.pair.steps import Steps
from jboost.data.table import LabelMapping
from jboost.pair.leave_one_out import leave_one_out
from jboost.pair.pareto import pareto_front
from jboost.pair.types import LeaveOneOut, ParetoFront

_MOST_POINTS = 256  # of a front; of a longer one the points of least weight are kept


def analyse(
    examples: HostExamples, settings: Settings, steps: Steps | None
) -> tuple[LeaveOneOut | None, ParetoFront | None]:
    """Computes the requested analyses in the precision of the settings. With `steps` their states
    are saved for --checkpoint.
    """
    count = len(examples.labels)
    padded = examples.padded(sizes.quadratic(count))
    given: dict[str, Any] = {
        "points": padded.points,
        "labels": padded.labels,
        "weights": padded.weights,
        "mask": np.arange(len(padded.labels)) < count,
    }
    loo, front = None, None
    with jax.enable_x64(settings.precision == "float64"):
        if settings.loo:
            with _watched("leave_one_out", steps) as watch:
                loo = jax.block_until_ready(leave_one_out(**given, **watch))
            loo = loo._replace(errors=loo.errors[:count], kinds=loo.kinds[:count])
        if settings.pareto:
            with _watched("front", steps) as watch:
                front = jax.block_until_ready(
                    pareto_front(**given, max_points=_MOST_POINTS, **watch)
                )
    return loo, front


@contextlib.contextmanager
def _watched(part: str, steps: Steps | None) -> Iterator[dict[str, Any]]:
    """Yields the arguments `on_step` and `initial` of an analysis; none without `steps`."""
    if steps is None:
        yield {}
        return
    with steps.of(part) as (on_step, initial):
        yield {"on_step": on_step, "initial": initial}


def describe(loo: LeaveOneOut | None, front: ParetoFront | None, num_rows: int) -> dict[str, Any]:
    """Returns both analyses as sections of the report; None for one that was not requested."""
    sections: dict[str, Any] = {"leave_one_out": None, "pareto": None}
    if loo is not None:
        kinds = np.asarray(loo.kinds)
        sections["leave_one_out"] = {
            "error": _finite(loo.error),
            "errors": [_finite(error) for error in np.asarray(loo.errors, np.float64)],
            "kinds": kinds.tolist(),
            "counts": {
                name: int((kinds == kind).sum())
                for kind, name in enumerate(("always_right", "always_wrong", "both"), start=1)
            },
            "rows": num_rows,
            "status": Status(int(loo.status)).name,
        }
    if front is not None:
        losses, margins = _points(front)
        sections["pareto"] = {
            "losses": losses.tolist(),
            "margins": [_finite(margin) for margin in margins],
            "status": Status(int(front.status)).name,
        }
    return sections


def _finite(number: Any) -> float | None:
    return float(number) if np.isfinite(number) else None


def lines(sections: Mapping[str, Any]) -> list[str]:
    """Returns the lines of the summary."""
    shown = []
    loo, front = sections["leave_one_out"], sections["pareto"]
    if loo and loo["error"] is None:
        shown.append(f"left out    the errors are not known ({loo['status']})")
    elif loo:
        counts = loo["counts"]
        shown.append(
            f"left out    mean loss {loo['error']:.6g} per row; {counts['always_right']} rows"
            f" right, {counts['always_wrong']} wrong, {counts['both']} right or wrong depending on"
            f" the optimal line ({loo['status']})"
        )
    if front:
        last = front["losses"][-1]
        shown.append(
            f"front       {len(front['losses'])} Pareto-optimal points, from weight"
            f" {front['losses'][0]:g} to {last:g} ({front['status']})"
        )
    return shown


def draw(
    examples: HostExamples,
    loo: LeaveOneOut | None,
    front: ParetoFront | None,
    names: tuple[str, ...],
    mapping: LabelMapping,
    folder: Path,
) -> None:
    """Draws the figures of the requested analyses, of errors that are known only."""
    points, labels, _ = examples.in_float64()
    if loo is not None and np.isfinite(loo.error):
        plots.plot_kinds(
            points,
            labels,
            np.asarray(loo.kinds),
            names=names,
            path=folder / KINDS,
            class_names=(mapping.negative, mapping.positive),
        )
    if front is not None:
        plots.plot_front(*_points(front), path=folder / FRONT)


def _points(front: ParetoFront) -> tuple[np.ndarray, np.ndarray]:
    """Returns the losses and margins of the front."""
    count = int(front.count)
    return (
        np.asarray(front.losses, np.float64)[:count],
        np.asarray(front.margins, np.float64)[:count],
    )
