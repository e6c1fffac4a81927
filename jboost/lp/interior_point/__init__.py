"""The primal-dual interior point method for linear programs."""

from jboost.lp.interior_point.method import (
    InteriorPointConfig,
    finish,
    init,
    solve,
    step,
    unfinished,
)

__all__ = ["InteriorPointConfig", "finish", "init", "solve", "step", "unfinished"]
