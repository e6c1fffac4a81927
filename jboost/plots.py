"""Figures of results with matplotlib, without its global state. Each function makes one figure and
writes one file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import outputs
from jboost.base import check
from jboost.base.types import ArrayLike
from jboost.pair.types import Separator

# Blue and vermilion of Okabe and Ito, distinct with every kind of colour vision; the shapes
# differ too.
_CLASSES = ((-1, "#0072B2", "o"), (1, "#D55E00", "^"))
_INK, _FAINT = "#222222", "#8a8a8a"

# The least extent of a view relative to the largest coordinate: smaller differences are lost in the
# rounding of floats.
_NARROWEST = 1e-12
_FARTHEST = 4e307  # the largest coordinate for which the corners of a view are finite
_MARGIN_BINS = 40  # bins of a histogram of margins
_GRID = 160  # the number of scores along each axis, from which a boundary is drawn
_LARGEST_CIRCLE = 34  # the diameter of the largest circle, in points
_MOST_MARKED = 60  # a curve with more rounds has no markers


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

    plane, signs = _points(points, np.shape(separator.misclassified)[0]), np.asarray(labels)
    wrong = np.asarray(separator.misclassified)
    low, high = _view(plane, signs, wrong)
    figure = Figure(figsize=(7.6, 6.0), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    _draw_regions(axes, separator, low, high)
    _draw_points(axes, plane, signs, wrong, class_names)
    _dress(axes, plane, separator, names, low, high)
    _write_title(axes, separator, names, len(plane))
    _write(figure, path)


def plot_kinds(
    points: ArrayLike,
    labels: ArrayLike,
    kinds: ArrayLike,
    *,
    names: Sequence[str],
    path: str | os.PathLike[str],
) -> None:
    """Draws the kinds of leave-one-out errors: points that all optimal lines of the other points
    classify correctly, points that all misclassify, and points that some misclassify.

    Args:
      points: [n, 2], finite.
      labels: [n], +1 or -1.
      kinds: [n] 1, 2 or 3, from `jboost.pair.leave_one_out`.
      names: of the two scores, for the axes.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.

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
    plane = _points(points)
    signs, verdicts = (
        _numbers("labels", labels, (len(plane),)),
        _numbers("kinds", kinds, (len(plane),)),
    )
    wrong, undecided = verdicts == 2, verdicts == 3
    figure, axes = _new_axes(
        "Leave-one-out",
        f"{int(wrong.sum()):,} of {len(plane):,} points are always wrong, {int(undecided.sum()):,}"
        " undecided",
    )
    for sign, colour, marker in _CLASSES:
        own = signs == sign
        axes.scatter(
            *plane[own].T,
            s=16,
            c=colour,
            marker=marker,
            alpha=0.6,
            edgecolors="white",
            linewidths=0.3,
            label=f"{sign:+d}",
            zorder=3,
        )
    for chosen, label, style in (
        (wrong, "always wrong", "solid"),
        (undecided, "undecided", "dotted"),
    ):
        if chosen.any():
            axes.scatter(
                *plane[chosen].T,
                s=60,
                facecolors="none",
                edgecolors=_INK,
                linestyles=style,
                label=label,
                zorder=5,
            )
    axes.set_xlabel(f"score of {names[0]}", color=_INK)
    axes.set_ylabel(f"score of {names[1]}", color=_INK)
    axes.legend(frameon=False, fontsize=9)
    _write(figure, path)


def plot_front(losses: ArrayLike, margins: ArrayLike, *, path: str | os.PathLike[str]) -> None:
    """Draws the Pareto front: the weight that is lost for each margin.

    Args:
      losses: [k] increasing, from `jboost.pair.pareto_front`.
      margins: [k] increasing. The margin of a constant classifier is infinite and is drawn at the
        edge.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.

    Raises:
      ValueError: if the two differ in length, or matplotlib does not support the format.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "front.png"
    >>> plot_front([0.0, 1.0, 2.0], [0.5, 0.9, float("inf")], path=path)
    >>> path.stat().st_size > 5_000
    True
    """
    weights = _numbers("losses", losses, ("k",))
    widths = _numbers("margins", margins, (len(weights),))
    is_finite = np.isfinite(widths)
    figure, axes = _new_axes(
        "Weight against margin",
        f"{len(weights):,} best compromises; no line has less weight and more margin than one of"
        " them",
    )
    marker = "o" if len(weights) <= _MOST_MARKED else None
    axes.step(
        widths[is_finite],
        weights[is_finite],
        where="pre",
        color=_CLASSES[1][1],
        marker=marker,
        markersize=4,
        zorder=3,
    )
    if not is_finite.all():
        axes.axhline(
            weights[~is_finite][0],
            color=_FAINT,
            linestyle="dashed",
            linewidth=1,
            label="a constant classifier: any margin",
        )
        axes.legend(frameon=False, fontsize=9)
    axes.set_xlabel("margin", color=_INK)
    axes.set_ylabel("weight given up", color=_INK)
    _write(figure, path)


def plot_margins(margins: ArrayLike, *, path: str | os.PathLike[str], title: str) -> None:
    """Draws the histogram of the normalized margins of an ensemble. Misclassified examples are to
    the left of 0, the others to the right.

    Args:
      margins: [n] y F(x) over the sum of the votes, in [-1, 1]. Finite margins beyond this interval
        are moved to its ends. Infinite margins, which infinite votes give, have separate bins at
        both ends.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.
      title: of the figure.

    Raises:
      ValueError: if a margin is NaN, or matplotlib does not support the format.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "margins.png"
    >>> plot_margins([-0.2, 0.1, 0.4, float("inf")], path=path, title="Training margins")
    >>> path.stat().st_size > 5_000
    True
    """
    values = _numbers("margins", margins, ("n",))
    if np.isnan(values).any():
        raise ValueError(
            f"margins[{int(np.isnan(values).argmax())}] is NaN: a margin is a number or infinite"
        )
    figure, axes = _new_axes(
        title, f"{int((values <= 0).sum()):,} of {len(values):,} examples have no positive margin"
    )
    counts, edges = np.histogram(
        np.clip(values[np.isfinite(values)], -1, 1), bins=_MARGIN_BINS, range=(-1, 1)
    )
    width, (negative, positive) = edges[1] - edges[0], (colour for _, colour, _ in _CLASSES)
    middles = edges[:-1] + width / 2
    axes.bar(
        middles,
        counts,
        width=0.9 * width,
        color=[_INK if middle < 0 else positive for middle in middles],
        zorder=3,
    )
    infinite = {-1.0: int((values == -np.inf).sum()), 1.0: int((values == np.inf).sum())}
    for side, count in infinite.items():
        if count:
            place = side * (1 + 2 * width)
            axes.bar(
                place,
                count,
                width=0.9 * width,
                color=negative,
                hatch="//",
                edgecolor="white",
                linewidth=0,
                zorder=3,
            )
            axes.annotate(
                f"settled: {count:,}",
                (place, count),
                (0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=_INK,
            )
    axes.axvline(0, color=_INK, linewidth=1)
    axes.set_xlabel("margin: label times score, over the sum of the votes", color=_INK)
    axes.set_ylabel("examples", color=_INK)
    axes.yaxis.get_major_locator().set_params(integer=True)
    _write(figure, path)


def plot_bounds(
    lower: ArrayLike, upper: ArrayLike, *, path: str | os.PathLike[str], title: str, quantity: str
) -> None:
    """Draws a lower and an upper bound per round, and the gap between them.

    Args:
      lower: [rounds]; entries that are not finite, such as the unused rounds of a `Trace`, are left
        out.
      upper: [rounds], likewise.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.
      title: of the figure.
      quantity: the name of the bounded quantity, for the axis.

    Raises:
      ValueError: if the two differ in length, or matplotlib does not support the format.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gap.png"
    >>> plot_bounds(
    ...     [0.0, 0.2, float("inf")],
    ...     [0.5, 0.3, float("inf")],
    ...     path=path,
    ...     title="Bounds",
    ...     quantity="margin",
    ... )
    >>> path.stat().st_size > 5_000
    True
    """
    lows = _numbers("lower", lower, ("rounds",))
    highs = _numbers("upper", upper, lows.shape)
    rounds = np.arange(1, len(lows) + 1)
    both = np.isfinite(lows) & np.isfinite(highs)
    gap = (
        f"gap {highs[both][-1] - lows[both][-1]:.3g} after {rounds[both][-1]:,} rounds"
        if both.any()
        else "no round with two bounds"
    )
    figure, axes = _new_axes(title, gap)
    axes.fill_between(
        rounds[both], lows[both], highs[both], color=_INK, alpha=0.08, linewidth=0, zorder=1
    )
    for bound, name, (_, colour, marker) in (
        (highs, "upper bound", _CLASSES[1]),
        (lows, "lower bound", _CLASSES[0]),
    ):
        known = np.isfinite(bound)
        size = 4 if known.sum() <= _MOST_MARKED else 0
        axes.plot(
            rounds[known],
            bound[known],
            color=colour,
            marker=marker,
            markersize=size,
            linewidth=1.5,
            label=name,
            zorder=3,
        )
    axes.set_xlabel("round", color=_INK)
    axes.set_ylabel(quantity, color=_INK)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=9)
    _write(figure, path)


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
    plane = _points(points)
    signs = _numbers("labels", labels, (len(plane),))
    weights = _numbers("example_weights", example_weights, (len(plane),))
    low, high = (
        (plane.min(axis=0), plane.max(axis=0))
        if len(plane)
        else (np.full(2, -1.0), np.full(2, 1.0))
    )
    size = _extent(low, high)
    low, high = low - 0.08 * size, high + 0.08 * size
    support = weights > 0
    figure, axes = _new_axes(
        "Decision boundary",
        f"{int(support.sum()):,} of {len(plane):,} examples have weight: circles, radius by weight",
    )
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    grid = np.stack(
        np.meshgrid(*(np.linspace(low[axis], high[axis], _GRID) for axis in range(2))), axis=-1
    )
    values = np.asarray(score(grid.reshape(-1, 2)), np.float64).reshape(_GRID, _GRID)
    negative, positive = (colour for _, colour, _ in _CLASSES)
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
            grid[..., 0], grid[..., 1], values, levels=[0.0], colors=_INK, linewidths=1.6, zorder=4
        )
    _draw_points(axes, plane, signs, np.zeros(len(plane), bool), class_names)
    if support.any():
        areas = _LARGEST_CIRCLE**2 * (weights[support] / weights.max()) ** 2
        axes.scatter(
            *plane[support].T, s=areas, facecolors="none", edgecolors=_INK, linewidths=1.2, zorder=5
        )
    axes.set_xlabel(names[0], color=_INK)
    axes.set_ylabel(names[1], color=_INK)
    axes.legend(frameon=False, fontsize=9)
    _write(figure, path)


def _numbers(name: str, value: ArrayLike, shape: tuple[int | str, ...]) -> np.ndarray:
    """An argument as float64, for any precision of JAX. Raises ValueError, naming it, for another
    shape.
    """
    check.on_host(
        "jboost.plots", instead="return the arrays, and draw them afterwards", **{name: value}
    )
    with jax.enable_x64(True):
        return check.host_array(name, value, shape=shape, kinds="fiu").astype(np.float64)


def _points(points: ArrayLike, size: int | str = "n") -> np.ndarray:
    """Points [size, 2] in float64. Raises ValueError for another shape, and for points that are too
    large for axes.
    """
    plane = _numbers("points", points, (size, 2))
    farthest = float(np.abs(plane).max(initial=0.0))
    if farthest > _FARTHEST:
        raise ValueError(
            f"points reach as far as {farthest:.3g}, and the axes of a figure {_FARTHEST:g} at"
            " most: rescale them"
        )
    return plane


def _new_axes(title: str, subtitle: str) -> tuple[Any, Any]:
    """A figure with one pair of axes, in the common style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 5.0), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=13, color=_INK, pad=24, fontweight="bold")
    axes.annotate(
        subtitle,
        (0, 1),
        (0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=10,
        color=_INK,
    )
    axes.tick_params(colors=_FAINT, labelcolor=_INK, labelsize=9, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_FAINT)
    return figure, axes


def _write(figure: Any, path: str | os.PathLike[str]) -> None:
    with outputs.file(path) as temporary:
        figure.savefig(temporary, format=Path(path).suffix.removeprefix(".") or None)


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
    size = _extent(low, high)
    return low - 0.06 * size, high + 0.06 * size


def _extent(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The extent of a view along each axis, [2]. If all values are almost equal, the extent is
    large enough for floats to represent different coordinates.
    """
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where(high - low > _NARROWEST * largest, high - low, np.maximum(1.0, 0.1 * largest))


def _draw_regions(axes: Any, separator: Separator, low: np.ndarray, high: np.ndarray) -> None:
    """Colours the two sides, and draws the line and the band of its margin. For a constant
    classifier the whole plane has one colour.
    """
    normal, anchor, bias = (
        np.asarray(part, np.float64)
        for part in (separator.normal, separator.anchor, separator.bias)
    )
    negative, positive = (colour for _, colour, _ in _CLASSES)
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
        axes.contourf(x, y, distance, levels=[-margin, margin], colors=[(_INK, 0.13)], zorder=1)
        axes.contour(
            x,
            y,
            distance,
            levels=[-margin, margin],
            colors=_INK,
            linewidths=0.7,
            linestyles="dashed",
            alpha=0.7,
            zorder=4,
        )
    axes.contour(x, y, distance, levels=[0.0], colors=_INK, linewidths=1.6, zorder=4)


def _draw_points(
    axes: Any,
    points: np.ndarray,
    signs: np.ndarray,
    wrong: np.ndarray,
    class_names: tuple[str, str],
) -> None:
    size = float(np.clip(12000 / max(len(points), 1), 9, 34))
    opacity = 0.75 if len(points) < 2000 else 0.45
    for (sign, colour, marker), name in zip(_CLASSES, class_names, strict=True):
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
            *points[wrong].T, facecolors="none", edgecolors=_INK, label=label, zorder=5, **look
        )


def _dress(
    axes: Any,
    points: np.ndarray,
    separator: Separator,
    names: Sequence[str],
    low: np.ndarray,
    high: np.ndarray,
) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.set_xlabel(f"score of {names[0]}", color=_INK)
    axes.set_ylabel(f"score of {names[1]}", color=_INK)
    axes.tick_params(colors=_FAINT, labelcolor=_INK, labelsize=9, length=3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(
            lambda value, position: f"{value:.10g}".replace("-", "\N{MINUS SIGN}")
        )
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_FAINT)
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
            color=_FAINT,
        )
    handles, texts = axes.get_legend_handles_labels()
    if np.any(separator.normal):
        handles += [
            Line2D([], [], color=_INK, linewidth=1.6),
            Patch(facecolor=(_INK, 0.13), edgecolor=_INK, linewidth=0.7, linestyle="dashed"),
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
    for handle in legend.legend_handles[: len(_CLASSES)]:
        handle.set(sizes=[34], alpha=1)
    for handle in legend.legend_handles[len(_CLASSES) : len(texts) - 2]:
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
        color=_INK,
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
        color=_INK,
    )
