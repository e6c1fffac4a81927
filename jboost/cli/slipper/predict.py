"""`jboost predict`, `jboost inspect` and `jboost export` for models of the method slipper.

Most functions are those of l0. The text of the rules differs.
"""

from __future__ import annotations

from typing import Any

from jboost.cli.l0 import predict as l0_predict
from jboost.cli.l0.predict import (
    FittedRules,
    bits_of,
    exported,
    predict_columns,
    read,
    used_columns,
)
from jboost.data.table import Table
from jboost.report import monomials
from jboost.report import slipper as report_module

__all__ = ["explain", "exported", "predict_columns", "read", "show", "used_columns"]


def explain(fitted: FittedRules, table: Table) -> list[str]:
    """Returns the rules that hold for each row, as text."""
    return report_module.explanations(
        fitted.model["rules"], monomials.fired(fitted.ensemble, bits_of(fitted, table))
    )


def show(fitted: FittedRules, say: Any) -> None:
    """Prints the model, all its rules and its certificate."""
    l0_predict.show(fitted, say, report_module.lines)
