"""The values of all options."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Settings:
    """The validated values of all options of `fit`, `evaluate` and `path`."""

    data: str
    label: str | None
    positive: str | None
    id: str | None
    ignore: tuple[str, ...]
    categorical: tuple[str, ...]
    date: tuple[str, ...]
    separator: str | None
    decimal: str | None
    comment: str | None
    encoding: str | None
    missing_values: str | None
    method: str
    scores: tuple[str, ...] | None
    classifiers: tuple[str, ...] | None
    strategy: str
    learner: str
    max_depth: int
    max_order: Any  # a number, or "cv" for l0
    margin: tuple[float | str, ...]  # numbers or "auto"; or "search" alone
    margin_penalty: float | None
    kappa: tuple[float, ...]
    cuts: str
    quantiles: int
    missing: str
    min_separation: int | None
    vote: tuple[str, ...]
    max_rules: Any  # a number, None, or "cv"
    exact: float  # seconds, 0 for none
    max_columns: int
    capacity: int | None
    max_in_play: int
    rounds: int
    time_limit: float | None
    num_rounds: int | str  # a number or "cv"
    rules_for: str
    solver: str
    relaxation: str
    update: str
    order: float | str  # a number or "inf"
    scale: float | None
    vote_strength: float | None
    nu: tuple[float | str, ...]  # numbers or "cv"
    penalty: tuple[float | str, ...]  # numbers or "cv"
    validation: float  # 0 for folds
    measure: str
    radius: float | str  # a number or "auto"
    tolerance: float
    train_scores: str
    weights: str | None
    tie_break: str
    fat: str
    loo: bool
    pareto: bool
    precision: str
    device: str
    seed: int
    folds: int
    holdout: float
    checkpoint: str | None
    resume: bool
    output: str
    overwrite: bool
