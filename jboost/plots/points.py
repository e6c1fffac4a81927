"""Figures of points in the plane: their kinds, and the boundary of a classifier with example
weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jboost.base.types import ArrayLike
from jboost.plots.canvas import (
    CLASSES,
    INK,
    draw_points,
    extent,
    host_numbers,
    host_points,
    new_axes,
    write_figure,
)

_GRID = 160  # the number of scores along each axis, from which a boundary is drawn
_LARGEST_CIRCLE = 34  # the diameter of the largest circle, in points


def plot_kinds(
    points: ArrayLike,
    labels: ArrayLike,
    kinds: ArrayLike,
    *,
    names: Sequence[str],
    path: str | os.PathLike[str],
    class_names: tuple[str, str] = ("-1", "+1"),
) -> None:
    """Draws the kinds of leave-one-out errors: points that all optimal lines of the other points
    classify correctly, points that all misclassify, and points that some misclassify.

    Args:
      points: [n, 2], finite.
      labels: [n], +1 or -1.
      kinds: [n] 1, 2 or 3, from `jboost.pair.leave_one_out`.
      names: of the two scores, for the axes.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.
      class_names: the names of the classes -1 and +1.

    Raises:
      ValueError: if the shapes do not agree, points are too large for axes, or matplotlib does not
        support the format.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "kinds.png"
    >>> plot_kinds(
    ...     [[0.0, 0.0], [2.0, 0.0], [1.0, 3.0]],
    ...     [-1, 1, -1],
    ...     [1, 2, 3],
    ...     names=["a", "b"],
    ...     path=path,
    ... )
    >>> path.stat().st_size > 5_000
    True
    """
    plane = host_points(points)
    signs, verdicts = (
        host_numbers("labels", labels, (len(plane),)),
        host_numbers("kinds", kinds, (len(plane),)),
    )
    wrong, undecided = verdicts == 2, verdicts == 3
    figure, axes = new_axes(
        "Leave-one-out",
        f"{int(wrong.sum()):,} of {len(plane):,} points are always wrong, {int(undecided.sum()):,}"
        " undecided",
    )
    _draw_classes(axes, plane, signs, class_names)
    for chosen, label, style in (
        (wrong, "always wrong", "solid"),
        (undecided, "undecided", "dotted"),
    ):
        if chosen.any():
            axes.scatter(
                *plane[chosen].T,
                s=60,
                facecolors="none",
                edgecolors=INK,
                linestyles=style,
                label=label,
                zorder=5,
            )
    axes.set_xlabel(f"score of {names[0]}", color=INK)
    axes.set_ylabel(f"score of {names[1]}", color=INK)
    axes.legend(frameon=False, fontsize=9)
    write_figure(figure, path)


def _draw_classes(
    axes: Any, points: np.ndarray, signs: np.ndarray, class_names: tuple[str, str]
) -> None:
    """Draws the points of both classes, small and all of one size."""
    for (sign, colour, marker), class_name in zip(CLASSES, class_names, strict=True):
        own = signs == sign
        axes.scatter(
            *points[own].T,
            s=16,
            c=colour,
            marker=marker,
            alpha=0.6,
            edgecolors="white",
            linewidths=0.3,
            label=class_name,
            zorder=3,
        )


def plot_example_weights(
    points: ArrayLike,
    labels: ArrayLike,
    example_weights: ArrayLike,
    score: Callable[[np.ndarray], np.ndarray],
    *,
    names: Sequence[str],
    path: str | os.PathLike[str],
    class_names: tuple[str, str] = ("-1", "+1"),
) -> None:
    """Draws the decision boundary in the plane, both classes, and around each example a circle
    whose radius is proportional to its weight.

    Args:
      points: [n, 2], finite.
      labels: [n], +1 or -1.
      example_weights: [n], not negative.
      score: [k, 2] -> [k], whose sign is the prediction.
      names: of the two coordinates.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.
      class_names: the names of the classes -1 and +1.

    Raises:
      ValueError: if a shape is wrong, points are too large for axes, or matplotlib does not support
        the format.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "boundary.png"
    >>> plot_example_weights(
    ...     [[0.0, 0.0], [1.0, 1.0]],
    ...     [-1, 1],
    ...     [0.5, 0.5],
    ...     lambda grid: grid.sum(axis=1) - 1,
    ...     names=["a", "b"],
    ...     path=path,
    ... )
    >>> path.stat().st_size > 10_000
    True
    """
    plane = host_points(points)
    signs = host_numbers("labels", labels, (len(plane),))
    weights = host_numbers("example_weights", example_weights, (len(plane),))
    low, high = (
        (plane.min(axis=0), plane.max(axis=0))
        if len(plane)
        else (np.full(2, -1.0), np.full(2, 1.0))
    )
    size = extent(low, high)
    low, high = low - 0.08 * size, high + 0.08 * size
    support = weights > 0
    figure, axes = new_axes(
        "Decision boundary",
        f"{int(support.sum()):,} of {len(plane):,} examples have weight: circles, radius by weight",
    )
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    _draw_boundary(axes, score, low, high)
    draw_points(axes, plane, signs, np.zeros(len(plane), bool), class_names)
    if support.any():
        areas = _LARGEST_CIRCLE**2 * (weights[support] / weights.max()) ** 2
        axes.scatter(
            *plane[support].T, s=areas, facecolors="none", edgecolors=INK, linewidths=1.2, zorder=5
        )
    axes.set_xlabel(names[0], color=INK)
    axes.set_ylabel(names[1], color=INK)
    axes.legend(frameon=False, fontsize=9)
    write_figure(figure, path)


def _draw_boundary(
    axes: Any, score: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> None:
    """Colours the two sides of the decision boundary in the view, and draws the boundary."""
    grid = np.stack(
        np.meshgrid(*(np.linspace(low[axis], high[axis], _GRID) for axis in range(2))), axis=-1
    )
    values = np.asarray(score(grid.reshape(-1, 2)), np.float64).reshape(_GRID, _GRID)
    negative, positive = (colour for _, colour, _ in CLASSES)
    axes.contourf(
        grid[..., 0],
        grid[..., 1],
        values > 0,
        levels=[-0.5, 0.5, 1.5],
        colors=[(negative, 0.07), (positive, 0.07)],
        zorder=0,
    )
    if values.min() < 0 < values.max():
        axes.contour(
            grid[..., 0], grid[..., 1], values, levels=[0.0], colors=INK, linewidths=1.6, zorder=4
        )
