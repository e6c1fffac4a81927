"""A choice among candidates of `--method l0` by cross-validation, for the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jboost.base.status import Status
from jboost.cli.options import Settings


@dataclasses.dataclass(frozen=True)
class CandidateChoice:
    """The candidates of a choice, and how far it came."""

    # For each candidate that was tried its kappa, margin and vote, the summary of its loss, and
    # max_order and max_rules if they are chosen.
    losses: tuple[dict[str, Any], ...]
    num_candidates: int  # with those that were not tried
    num_folds: int  # of a choice that is not ended early
    notes: tuple[str, ...] = ()  # on candidates that were left out

    @property
    def status(self) -> Status:
        """TIME_LIMIT if the choice was ended early, by the time limit or Ctrl-C."""
        num_done = sum(row["folds"] for row in self.losses)
        is_whole = num_done == self.num_candidates * self.num_folds
        return Status.OPTIMAL if is_whole else Status.TIME_LIMIT

    def describe(self, settings: Settings) -> dict[str, Any]:
        """Returns the description for the report, in types that JSON supports.

        Args:
          settings: with the values that were chosen.
        """
        (kappa,), (margin,), (vote,) = settings.kappa, settings.margin, settings.vote
        chosen: dict[str, Any] = {"kappa": kappa, "margin": margin, "vote": vote}
        if self.losses and "max_order" in self.losses[0]:
            chosen |= {"max_order": settings.max_order, "max_rules": settings.max_rules}
        return {
            "chosen": chosen,
            "losses": list(self.losses),
            "candidates": self.num_candidates,
            "folds": self.num_folds,
            "status": self.status.name,
            "notes": list(self.notes),
        }


def candidate_losses(
    grid: Mapping[str, Sequence[Any]],
    means: ArrayLike,
    standard_errors: ArrayLike,
    num_folds: np.ndarray,
) -> tuple[dict[str, Any], ...]:
    """Returns the values and the held-out loss of each candidate that was tried.

    Args:
      grid: the candidates of each option.
      means: of the held-out losses over the folds, an array with an axis for each option.
      standard_errors: of the same shape.
      num_folds: of the same shape, 0 where not tried.
    """
    means, standard_errors = np.asarray(means), np.asarray(standard_errors)
    return tuple(
        {
            **{
                name: values[number]
                for (name, values), number in zip(grid.items(), index, strict=True)
            },
            **_summary(means[index], standard_errors[index], num_folds[index]),
        }
        for index in np.ndindex(num_folds.shape)
        if num_folds[index]
    )


def _summary(mean: Any, standard_error: Any, num_folds: Any) -> dict[str, Any]:
    """Returns the held-out loss of a candidate. One fold has no standard error."""
    return {
        "mean": float(mean),
        "standard_error": float(standard_error) if num_folds > 1 else None,
        "folds": int(num_folds),
    }
