"""The common style of the figures, their axes and views, and the checks of their arguments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import outputs
from jboost.base import check
from jboost.base.types import ArrayLike

# Blue and vermilion of Okabe and Ito, distinct with every kind of colour vision; the shapes
# differ too.
CLASSES = ((-1, "#0072B2", "o"), (1, "#D55E00", "^"))
INK, FAINT = "#222222", "#8a8a8a"
# The least extent of a view relative to the largest coordinate: smaller differences are lost in the
# rounding of floats.
_NARROWEST = 1e-12
_FARTHEST = 4e307  # the largest coordinate for which the corners of a view are finite


def host_numbers(name: str, value: ArrayLike, shape: tuple[int | str, ...]) -> np.ndarray:
    """An argument as float64, for any precision of JAX. Raises ValueError, naming it, for another
    shape.
    """
    check.on_host(
        "jboost.plots", instead="return the arrays, and draw them afterwards", **{name: value}
    )
    with jax.enable_x64(True):
        return check.host_array(name, value, shape=shape, kinds="fiu").astype(np.float64)


def host_points(points: ArrayLike, size: int | str = "n") -> np.ndarray:
    """Points [size, 2] in float64. Raises ValueError for another shape, and for points that are too
    large for axes.
    """
    plane = host_numbers("points", points, (size, 2))
    farthest = float(np.abs(plane).max(initial=0.0))
    if farthest > _FARTHEST:
        raise ValueError(
            f"points reach as far as {farthest:.3g}, and the axes of a figure {_FARTHEST:g} at"
            " most: rescale them"
        )
    return plane


def new_axes(title: str, subtitle: str) -> tuple[Any, Any]:
    """A figure with one pair of axes, in the common style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 5.0), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=13, color=INK, pad=24, fontweight="bold")
    axes.annotate(
        subtitle,
        (0, 1),
        (0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=10,
        color=INK,
    )
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=9, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)
    return figure, axes


def write_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    with outputs.file(path) as temporary:
        figure.savefig(temporary, format=Path(path).suffix.removeprefix(".") or None)


def extent(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The extent of a view along each axis, [2]. If all values are almost equal, the extent is
    large enough for floats to represent different coordinates.
    """
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where(high - low > _NARROWEST * largest, high - low, np.maximum(1.0, 0.1 * largest))


def draw_points(
    axes: Any,
    points: np.ndarray,
    signs: np.ndarray,
    wrong: np.ndarray,
    class_names: tuple[str, str],
) -> None:
    size = float(np.clip(12000 / max(len(points), 1), 9, 34))
    opacity = 0.75 if len(points) < 2000 else 0.45
    for (sign, colour, marker), name in zip(CLASSES, class_names, strict=True):
        own = signs == sign
        label = f"{name} ({int(own.sum()):,})"
        axes.scatter(
            *points[own].T,
            s=size,
            c=colour,
            marker=marker,
            alpha=opacity,
            edgecolors="white",
            linewidths=0.3,
            label=label,
            zorder=3,
        )
    if wrong.any():
        label = f"misclassified ({int(wrong.sum()):,})"
        # many rings are drawn smaller and lighter, so that the points stay visible
        crowd = float(np.clip(100 / wrong.sum(), 0, 1))
        look = {
            "s": 2.2 * size + 6 + 20 * crowd,
            "linewidths": 0.4 + 0.5 * crowd,
            "alpha": 0.3 + 0.7 * crowd,
        }
        axes.scatter(
            *points[wrong].T, facecolors="none", edgecolors=INK, label=label, zorder=5, **look
        )
