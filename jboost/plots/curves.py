"""Figures of curves: Pareto fronts, margins, the bounds of the rounds, and paths."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from jboost.base.types import ArrayLike
from jboost.plots.canvas import CLASSES, FAINT, INK, host_numbers, new_axes, write_figure

_MARGIN_BINS = 40  # bins of a histogram of margins
_MOST_MARKED = 60  # a curve with more rounds has no markers


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
    weights = host_numbers("losses", losses, ("k",))
    widths = host_numbers("margins", margins, (len(weights),))
    is_finite = np.isfinite(widths)
    figure, axes = new_axes(
        "Weight against margin",
        f"{len(weights):,} best compromises; no line has less weight and more margin than one of"
        " them",
    )
    marker = "o" if len(weights) <= _MOST_MARKED else None
    axes.step(
        widths[is_finite],
        weights[is_finite],
        where="pre",
        color=CLASSES[1][1],
        marker=marker,
        markersize=4,
        zorder=3,
    )
    if not is_finite.all():
        axes.axhline(
            weights[~is_finite][0],
            color=FAINT,
            linestyle="dashed",
            linewidth=1,
            label="a constant classifier: any margin",
        )
        axes.legend(frameon=False, fontsize=9)
    axes.set_xlabel("margin", color=INK)
    axes.set_ylabel("weight given up", color=INK)
    write_figure(figure, path)


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
    values = host_numbers("margins", margins, ("n",))
    if np.isnan(values).any():
        raise ValueError(
            f"margins[{int(np.isnan(values).argmax())}] is NaN: a margin is a number or infinite"
        )
    figure, axes = new_axes(
        title, f"{int((values <= 0).sum()):,} of {len(values):,} examples have no positive margin"
    )
    counts, edges = np.histogram(
        np.clip(values[np.isfinite(values)], -1, 1), bins=_MARGIN_BINS, range=(-1, 1)
    )
    width, positive = edges[1] - edges[0], CLASSES[1][1]
    middles = edges[:-1] + width / 2
    axes.bar(
        middles,
        counts,
        width=0.9 * width,
        color=[INK if middle < 0 else positive for middle in middles],
        zorder=3,
    )
    for side in (-1.0, 1.0):
        _draw_infinite(axes, side, int((values == side * np.inf).sum()), width)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_xlabel("margin: label times score, over the sum of the votes", color=INK)
    axes.set_ylabel("examples", color=INK)
    axes.yaxis.get_major_locator().set_params(integer=True)
    write_figure(figure, path)


def _draw_infinite(axes: Any, side: float, count: int, width: float) -> None:
    """Draws the number of infinite margins of one sign at its end, if there are any."""
    if not count:
        return
    place = side * (1 + 2 * width)
    axes.bar(
        place,
        count,
        width=0.9 * width,
        color=CLASSES[0][1],
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
        color=INK,
    )


def plot_bounds(
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    path: str | os.PathLike[str],
    title: str,
    quantity: str,
    names: tuple[str, str] = ("lower bound", "upper bound"),
) -> None:
    """Draws a lower and an upper bound per round, and the gap between them.

    Args:
      lower: [rounds]; entries that are not finite, such as the unused rounds of a `Trace`, are left
        out.
      upper: [rounds], likewise.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.
      title: of the figure.
      quantity: the name of the bounded quantity, for the axis.
      names: of the two lines.

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
    lows = host_numbers("lower", lower, ("rounds",))
    highs = host_numbers("upper", upper, lows.shape)
    rounds = np.arange(1, len(lows) + 1)
    both = np.isfinite(lows) & np.isfinite(highs)
    gap = (
        f"gap {highs[both][-1] - lows[both][-1]:.3g} after {rounds[both][-1]:,} rounds"
        if both.any()
        else "no round with two bounds"
    )
    figure, axes = new_axes(title, gap)
    axes.fill_between(
        rounds[both], lows[both], highs[both], color=INK, alpha=0.08, linewidth=0, zorder=1
    )
    for bound, name, look in ((highs, names[1], CLASSES[1]), (lows, names[0], CLASSES[0])):
        known = np.isfinite(bound)
        size = 4 if known.sum() <= _MOST_MARKED else 0
        _draw_curve(axes, rounds[known], bound[known], name, look, markersize=size)
    axes.set_xlabel("round", color=INK)
    axes.set_ylabel(quantity, color=INK)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=9)
    write_figure(figure, path)


def _draw_curve(
    axes: Any,
    places: np.ndarray,
    values: np.ndarray,
    label: str,
    look: tuple[int, str, str],
    *,
    markersize: int,
) -> None:
    """Draws a curve in the colour and with the marker of a class, one of `CLASSES`."""
    _, colour, marker = look
    axes.plot(
        places,
        values,
        color=colour,
        marker=marker,
        markersize=markersize,
        linewidth=1.5,
        label=label,
        zorder=3,
    )


def plot_path(
    values: ArrayLike,
    num_rules: ArrayLike,
    training: ArrayLike,
    held_out: ArrayLike | None = None,
    *,
    parameter: str,
    path: str | os.PathLike[str],
) -> None:
    """Draws the share of wrong examples and the number of rules against the parameter of a path.

    Args:
      values: [k] of the parameter, in any order.
      num_rules: [k] rules that vote at each value.
      training: [k] shares of wrong training examples, in [0, 1].
      held_out: [k] shares of wrong held-out examples; None for none.
      parameter: its name, for the axis.
      path: of the picture; its ending selects the format (.png, .svg, .pdf). Written atomically.

    Raises:
      ValueError: if the arrays differ in length, or matplotlib does not support the format.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "path.png"
    >>> plot_path([0.1, 0.3], [4, 2], [0.05, 0.1], [0.2, 0.15], parameter="margin", path=path)
    >>> path.stat().st_size > 5_000
    True
    """
    points = host_numbers("values", values, ("k",))
    order = np.argsort(points, kind="stable")
    rules = host_numbers("num_rules", num_rules, points.shape)
    shares = {"training": host_numbers("training", training, points.shape)}
    if held_out is not None:
        shares["held out"] = host_numbers("held_out", held_out, points.shape)
    figure, axes = new_axes(
        f"Loss and rules against {parameter}",
        f"{len(points):,} fits, {_range_of(rules)} rules",
    )
    looks = dict(zip(("held out", "training"), CLASSES, strict=True))
    for name, share in shares.items():
        percentages = 100 * share[order]
        _draw_curve(axes, points[order], percentages, f"wrong, {name}", looks[name], markersize=4)
    axes.set_xlabel(parameter, color=INK)
    axes.set_ylabel("wrong examples, per cent", color=INK)
    beside = _draw_rules(axes, points[order], rules[order])
    lines = [*axes.get_lines(), *beside.get_lines()]
    axes.legend(
        lines,
        [line.get_label() for line in lines],
        loc="lower right",
        bbox_to_anchor=(1, 1),  # beside the title: lines of two axes leave no corner free for sure
        ncols=len(lines),
        frameon=False,
        fontsize=9,
    )
    write_figure(figure, path)


def _draw_rules(axes: Any, points: np.ndarray, rules: np.ndarray) -> Any:
    """Draws the numbers of rules against an axis on the right, which it returns."""
    beside = axes.twinx()
    beside.plot(points, rules, color=FAINT, linestyle="dashed", linewidth=1.5, label="rules")
    beside.set_ylabel("rules", color=INK)
    beside.set_ylim(bottom=0)
    beside.yaxis.get_major_locator().set_params(integer=True)
    return beside


def _range_of(counts: np.ndarray) -> str:
    """The least and the largest of some counts, as text."""
    if len(counts) == 0:
        return "no"
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
