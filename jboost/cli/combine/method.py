"""The method combine on the command line: parses lists of more than two names, and fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jboost import combine
from jboost.cli import checkpointing, limits, sizes
from jboost.cli.inputs import HostExamples
from jboost.cli.options import Settings
from jboost.combine.strategies import is_driven_by_host
from jboost.combine.types import LinearVote

LISTS = ("--scores", "--classifiers")


def split_lists(arguments: Sequence[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Shortens the lists in the arguments to two names and returns the full lists separately.

    The options are declared in click with exactly two names.

    Raises:
      ValueError: if a list has fewer than two names.

    >>> split_lists(["--scores", "a", "b", "c", "--seed", "1"])
    (['--scores', 'a', 'b', '--seed', '1'], {'scores': ('a', 'b', 'c')})
    """
    rest: list[str] = []
    lists: dict[str, tuple[str, ...]] = {}
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        rest.append(argument)
        position += 1
        if argument in LISTS:
            end = position
            while end < len(arguments) and not arguments[end].startswith("-"):
                end += 1
            names = tuple(arguments[position:end])
            if len(names) < 2:
                raise ValueError(
                    f"{argument} takes two names or more, and"
                    f" {'one follows' if names else 'none follows'}: name more"
                )
            lists.pop(argument[2:], None)
            if len(names) > 2:
                lists[argument[2:]] = names
            rest += names[:2]
            position = end
    return rest, lists


def solve(
    examples: HostExamples, settings: Settings, *, num_rows: int
) -> tuple[LinearVote, LinearVote]:
    """Fits the combination and logistic stacking to the same examples.

    `num_rows` must be at least the number of examples. Calls with the same `num_rows` share a
    program. Branch and cut ends at the time limit, with the best vote so far. Its state is saved
    for --checkpoint.
    """
    count = len(examples.labels)
    points, labels, weights = dataclasses.astuple(examples.padded(sizes.quadratic(num_rows)))
    mask = np.arange(len(labels)) < count
    arguments: dict[str, Any] = {"weights": weights, "mask": mask, "strategy": settings.strategy}
    with (
        jax.enable_x64(settings.precision == "float64"),
        limits.progress("combine", 1) as watch,
    ):
        if is_driven_by_host(
            settings.strategy,
            points.shape[1],
            time_limit=settings.time_limit,
            checkpoint=settings.checkpoint,
        ):
            data = dataclasses.asdict(examples)
            with checkpointing.kept(settings, watch, lambda: combine.ExactState, data) as (
                save,
                initial,
            ):
                vote = combine.fit(points, labels, on_step=save, initial=initial, **arguments)
        else:
            vote = combine.fit(points, labels, **arguments)
        stacked = combine.stacking(points, labels, weights=weights, mask=mask)
        votes = (
            each._replace(misclassified=each.misclassified[:count]) for each in (vote, stacked)
        )
        result: tuple[LinearVote, LinearVote] = jax.block_until_ready(tuple(votes))
        return result
