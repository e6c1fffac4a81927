"""Figures of results with matplotlib, without its global state. Each function makes one figure and
writes one file.
"""

from jboost.plots.curves import plot_bounds, plot_front, plot_margins, plot_path
from jboost.plots.points import plot_example_weights, plot_kinds
from jboost.plots.separators import plot_separator

__all__ = [
    "plot_bounds",
    "plot_example_weights",
    "plot_front",
    "plot_kinds",
    "plot_margins",
    "plot_path",
    "plot_separator",
]
