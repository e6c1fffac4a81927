"""The exact combination of two classifiers.

The sweep is compiled in advance, so that the compile time and the run time are reported separately.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Literal

import jax
import numpy as np

from jboost.base.types import ArrayLike
from jboost.cli import sizes
from jboost.cli.inputs import HostExamples
from jboost.cli.options import Settings
from jboost.cli.pair.steps import Steps
from jboost.pair.separator import LARGEST_SWEEP, optimal_separator
from jboost.pair.types import Separator

Solver = Callable[[HostExamples], Separator]


def compile_solver(
    num_points: int, settings: Settings, steps: Steps | None = None
) -> tuple[Solver, float]:
    """Returns a solver for at most `num_points` examples, and the seconds of its compilation.

    Points are padded, so that similar sizes share a program. Above `LARGEST_SWEEP` points, and with
    `steps`, the solver is branch and bound. Its loop runs on the host, and its programs are
    compiled on first use.
    """
    started = time.perf_counter()
    by_margin, flipped = settings.tie_break == "margin", settings.fat == "flipped"
    if steps is not None:
        by_steps = functools.partial(_solve_by_steps, settings=settings, steps=steps)
        return by_steps, time.perf_counter() - started
    size = (
        min(sizes.quadratic(num_points), LARGEST_SWEEP)
        if num_points <= LARGEST_SWEEP
        else num_points
    )
    compiled = (
        _compile(size, settings.precision, by_margin, flipped)
        if size <= LARGEST_SWEEP
        else _solver(by_margin, flipped)
    )
    seconds = time.perf_counter() - started

    def run(examples: HostExamples) -> Separator:
        count, padded = len(examples.labels), examples.padded(size)
        with jax.enable_x64(settings.precision == "float64"):
            separator: Separator = compiled(
                padded.points, padded.labels, padded.weights, np.arange(size) < count
            )
            return jax.block_until_ready(
                separator._replace(misclassified=separator.misclassified[:count])
            )

    return run, seconds


def _solve_by_steps(examples: HostExamples, *, settings: Settings, steps: Steps) -> Separator:
    """Computes the same optimum by branch and bound, whose steps obey the limits and save the state
    for --checkpoint.
    """
    with (
        jax.enable_x64(settings.precision == "float64"),
        steps.of("separator") as (on_step, initial),
    ):
        separator = optimal_separator(
            examples.points,
            examples.labels,
            weights=examples.weights,
            tie_break="margin" if settings.tie_break == "margin" else None,
            fat="flipped" if settings.fat == "flipped" else "removed",
            method="branch_and_bound",
            on_step=on_step,
            initial=initial,
        )
        return jax.block_until_ready(separator)


@functools.lru_cache(maxsize=8)
def _compile(
    num_points: int, precision: str, by_margin: bool, flipped: bool
) -> Callable[..., Separator]:
    with jax.enable_x64(precision == "float64"):
        points, numbers, mask = (
            jax.ShapeDtypeStruct(shape, dtype)
            for shape, dtype in (
                ((num_points, 2), precision),
                ((num_points,), precision),
                ((num_points,), bool),
            )
        )
        return jax.jit(_solver(by_margin, flipped)).lower(points, numbers, numbers, mask).compile()


def _solver(by_margin: bool, flipped: bool) -> Callable[..., Separator]:
    tie_break: Literal["margin"] | None = "margin" if by_margin else None

    def solve_masked(
        points: ArrayLike, labels: ArrayLike, weights: ArrayLike, mask: ArrayLike
    ) -> Separator:
        return optimal_separator(
            points,
            labels,
            weights=weights,
            mask=mask,
            tie_break=tie_break,
            fat="flipped" if flipped else "removed",
        )

    return solve_masked


def in_float64(separator: Separator) -> Separator:
    """Returns the separator with float64 arrays.

    Predictions then agree with the evaluated loss, which uses float64. Call this function with
    64-bit types enabled.
    """
    return jax.tree.map(
        lambda leaf: leaf.astype(np.float64) if leaf.dtype == np.float32 else leaf, separator
    )
