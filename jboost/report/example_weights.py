"""Reports of a classifier that is defined by example weights: its support and its certificate."""

from __future__ import annotations

from typing import Any

import numpy as np

from jboost.base import status
from jboost.base.status import Status
from jboost.data.table import LabelMapping
from jboost.example_weights import ExampleWeightModel
from jboost.kernels import (
    CentralHyperplanes,
    Hyperplanes,
    IsotropicHyperplanes,
    Kernel,
    RandomStumps,
)
from jboost.report import verdict

_NUM_SHOWN = 20  # the largest number of support examples in the text by default


# The measures by the class of the kernel: the value of --measure, and the text of the report.
_MEASURES: dict[type[Kernel], tuple[str, str]] = {
    Hyperplanes: (
        "cube",
        "hyperplanes whose nearest point to the centre is uniform in the cube of half-width"
        " {radius:g}",
    ),
    IsotropicHyperplanes: (
        "isotropic",
        "hyperplanes of uniform direction and of uniform distance up to {radius:g} from the centre",
    ),
    CentralHyperplanes: ("central", "hyperplanes through the centre, of uniform direction"),
    RandomStumps: ("stumps", "thresholds, uniform in the range of a random column"),
}
_TEXTS = dict(_MEASURES.values())


def radius_of(kernel: Kernel) -> float | None:
    """The radius of a measure, or None if it has none."""
    radius = getattr(kernel, "radius", None)
    return None if radius is None else float(radius)


def describe(model: ExampleWeightModel, names: tuple[str, ...]) -> dict[str, Any]:
    """The numbers, the support and the certificate for JSON. The examples of the support are sorted
    by weight.
    """
    weights = np.asarray(model.example_weights, np.float64)
    order = np.argsort(-weights, kind="stable")[: int((weights > 0).sum())]
    points = (np.asarray(model.points) + np.asarray(model.centre)[None, :]).astype(np.float64)
    code = Status(int(model.status))
    return {
        "names": list(names),
        "penalty": float(model.penalty),
        "measure": _MEASURES[type(model.kernel)][0],
        "radius": radius_of(model.kernel),
        "centre": np.asarray(model.centre, np.float64).tolist(),
        "num_examples": int((np.asarray(model.labels) != 0).sum()),
        "support": [
            {"weight": weights[i], "label": int(model.labels[i]), "point": points[i].tolist()}
            for i in order.tolist()
        ],
        "lower_bound": _finite(float(model.lower_bound)),
        "upper_bound": _finite(float(model.upper_bound)),
        "num_iterations": int(model.num_iterations),
        "status": code.name,
        "explanation": status.explain(code),
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def lines(
    description: dict[str, Any], mapping: LabelMapping, *, num_shown: int | None = _NUM_SHOWN
) -> list[str]:
    """The description as lines of text.

    Args:
      description: the result of `describe`, with a `verdict`.
      mapping: of the labels.
      num_shown: the largest number of support examples to list; None for all.
    """
    support, names = description["support"], description["names"]
    bounds = " to ".join(
        "unknown" if bound is None else f"{bound:.8g}"
        for bound in (description["lower_bound"], description["upper_bound"])
    )
    # Early versions of jboost wrote models of the cube, without the name of the measure.
    measure = _TEXTS[description.get("measure", "cube")].format(radius=description["radius"])
    shown = [
        f"measure     {measure}",
        (
            f"penalty     {description['penalty']:g} (at 1 and above the hard margin, below 1 /"
            " rows unbounded)"
        ),
        f"certificate the best soft margin is {bounds} ({description['status']})",
        f"support     {len(support)} of {description['num_examples']} examples have weight",
    ]
    shown += verdict.lines(description["verdict"])
    for example in support[:num_shown]:
        values = ", ".join(
            f"{name} {value:.4g}"
            for name, value in list(zip(names, example["point"], strict=True))[:6]
        )
        label = mapping.to_text(np.array([example["label"]]))[0]
        shown.append(
            f"  {example['weight']:.4f}  {label}  {values}{', ...' if len(names) > 6 else ''}"
        )
    if num_shown is not None and len(support) > num_shown:
        shown.append(f"  and {len(support) - num_shown} more")
    return shown


def choice_lines(choice: dict[str, Any]) -> list[str]:
    """The losses of the penalties that were tried."""
    if not choice["losses"]:
        return []
    tried = ", ".join(
        f"{row['penalty']:.4g}: "
        + (f"{row['mean']:.2%}" if row["mean"] is not None else "unbounded")
        for row in choice["losses"]
    )
    how = "by cross-validation" if choice.get("validation", 0) == 0 else "on one split"
    shown = [f"choice      penalty {choice['chosen']:.4g} {how} ({tried})"]
    num_tried, num_all = len(choice["losses"]), choice["candidates"]
    return (
        shown
        if num_tried == num_all
        else [
            *shown,
            f"note: the choice of the penalty was ended after {num_tried} of {num_all} values",
        ]
    )
