"""Figures of a combination of two classifiers: the plane of their scores with the separator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from jboost.base.types import ArrayLike
from jboost.pair.types import Separator
from jboost.plots.canvas import CLASSES, FAINT, INK, draw_points, extent, host_points, write_figure


def plot_separator(
    points: ArrayLike,
    labels: ArrayLike,
    separator: Separator,
    *,
    names: Sequence[str],
    path: str | os.PathLike[str],
    class_names: tuple[str, str] = ("-1", "+1"),
) -> None:
    """Draws the plane of two scores: both classes, the separator with its margin, and rings around
    the misclassified points.

    The view covers most points of both classes and most misclassified points. Outliers may lie
    outside the view; the figure tells their number.

    Args:
      points: [n, 2], finite.
      labels: [n], +1 or -1.
      separator: of these points, concrete.
      names: of the two scores, for the axes.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.
      class_names: the names of the classes -1 and +1.

    Raises:
      ValueError: if the separator belongs to other points, the points are too large for axes, or
        matplotlib does not support the format.

    >>> import jboost, pathlib, tempfile
    >>> points, labels = [[0.0, 0.0], [2.0, 0.0]], [-1, 1]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "plane.png"
    >>> plot_separator(
    ...     points,
    ...     labels,
    ...     jboost.pair.optimal_separator(points, labels),
    ...     names=["a", "b"],
    ...     path=path,
    ... )
    >>> path.stat().st_size > 10_000
    True
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    plane, signs = host_points(points, np.shape(separator.misclassified)[0]), np.asarray(labels)
    wrong = np.asarray(separator.misclassified)
    low, high = _view(plane, signs, wrong)
    figure = Figure(figsize=(7.6, 6.0), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    _draw_regions(axes, separator, low, high)
    draw_points(axes, plane, signs, wrong, class_names)
    _dress(axes, names)
    _count_outside(axes, plane, low, high)
    _draw_legend(axes, separator)
    _write_title(axes, separator, names, len(plane))
    write_figure(figure, path)


def _view(
    points: np.ndarray, signs: np.ndarray, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper corner of the view, [2] each. The view contains nine tenths of each
    class and of the misclassified points, and a border of a third of their extent.
    """
    if len(points) == 0:
        return np.full(2, -1.0), np.full(2, 1.0)
    groups = [points[group] for group in (signs < 0, signs > 0, wrong) if group.any()]
    low, high = np.inf, -np.inf
    for group in groups:
        lower, upper = np.quantile(group, [0.05, 0.95], axis=0)
        low, high = (
            np.minimum(low, lower - (upper - lower) / 3),
            np.maximum(high, upper + (upper - lower) / 3),
        )
    low, high = np.maximum(low, points.min(axis=0)), np.minimum(high, points.max(axis=0))
    size = extent(low, high)
    return low - 0.06 * size, high + 0.06 * size


def _draw_regions(axes: Any, separator: Separator, low: np.ndarray, high: np.ndarray) -> None:
    """Colours the two sides, and draws the line and the band of its margin. For a constant
    classifier the whole plane has one colour.
    """
    normal, anchor, bias = (
        np.asarray(part, np.float64)
        for part in (separator.normal, separator.anchor, separator.bias)
    )
    negative, positive = (colour for _, colour, _ in CLASSES)
    if not normal.any():
        axes.set_facecolor((positive if bias > 0 else negative, 0.07))
        return
    length = float(np.hypot(*normal))
    x, y = np.meshgrid(np.linspace(low[0], high[0], 2), np.linspace(low[1], high[1], 2))
    distance = (normal[0] * (x - anchor[0]) + normal[1] * (y - anchor[1]) + bias) / length
    far, margin = float(np.abs(distance).max()) + 1.0, float(separator.margin)
    # The distance is linear, so contours of its values at the corners are exact straight lines,
    # clipped to the view.
    axes.contourf(
        x,
        y,
        distance,
        levels=[-far, 0.0, far],
        colors=[(negative, 0.07), (positive, 0.07)],
        zorder=0,
    )
    if 0 < margin < far:
        axes.contourf(x, y, distance, levels=[-margin, margin], colors=[(INK, 0.13)], zorder=1)
        axes.contour(
            x,
            y,
            distance,
            levels=[-margin, margin],
            colors=INK,
            linewidths=0.7,
            linestyles="dashed",
            alpha=0.7,
            zorder=4,
        )
    axes.contour(x, y, distance, levels=[0.0], colors=INK, linewidths=1.6, zorder=4)


def _dress(axes: Any, names: Sequence[str]) -> None:
    """Writes the names of the axes, and sets the colours of axes, ticks and numbers."""
    axes.set_xlabel(f"score of {names[0]}", color=INK)
    axes.set_ylabel(f"score of {names[1]}", color=INK)
    axes.tick_params(colors=FAINT, labelcolor=INK, labelsize=9, length=3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(
            lambda value, position: f"{value:.10g}".replace("-", "\N{MINUS SIGN}")
        )
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


def _count_outside(axes: Any, points: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Writes the number of points outside the view, if there are any."""
    outside = int(((points < low) | (points > high)).any(axis=1).sum())
    if outside:
        axes.text(
            0.995,
            0.008,
            f"{outside:,} {'point' if outside == 1 else 'points'} outside the view",
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            fontsize=8,
            color=FAINT,
        )


def _draw_legend(axes: Any, separator: Separator) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles, texts = axes.get_legend_handles_labels()
    if np.any(separator.normal):
        handles += [
            Line2D([], [], color=INK, linewidth=1.6),
            Patch(facecolor=(INK, 0.13), edgecolor=INK, linewidth=0.7, linestyle="dashed"),
        ]
        texts += ["separator", f"margin ({float(separator.margin):.3g})"]
    columns = len(handles) if sum(map(len, texts)) < 80 else 3
    legend = axes.legend(
        handles,
        texts,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.11),
        ncols=columns,
        frameon=False,
        fontsize=9,
        handletextpad=0.4,
    )
    for handle in legend.legend_handles[: len(CLASSES)]:
        handle.set(sizes=[34], alpha=1)
    for handle in legend.legend_handles[len(CLASSES) : len(texts) - 2]:
        handle.set(sizes=[50], alpha=1)


def _write_title(axes: Any, separator: Separator, names: Sequence[str], num_points: int) -> None:
    loss, bound = float(separator.loss), float(separator.lower_bound)
    proof = (
        "no combination loses less"
        if loss == bound
        else f"no combination loses less than {bound:g}"
    )
    wrong = int(np.asarray(separator.misclassified).sum())
    axes.set_title(
        f"Optimal combination of {names[0]} and {names[1]}",
        loc="left",
        fontsize=13,
        color=INK,
        pad=24,
        fontweight="bold",
    )
    always = (
        ""
        if np.any(separator.normal)
        else f"always {'+1' if float(separator.bias) > 0 else '-1'}; "
    )
    margin = float(separator.margin)
    gap = f", margin {margin:.3g}" if 0 < margin < np.inf else ""
    text = f"{always}misclassifies {wrong:,} of {num_points:,}, weight {loss:g}{gap}: {proof}"
    axes.annotate(
        text,
        (0, 1),
        (0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=10,
        color=INK,
    )
