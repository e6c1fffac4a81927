"""The primal-dual first-order method for linear programs."""

from jboost.lp.first_order.method import (
    FirstOrderConfig,
    WarmStart,
    extend,
    init,
    run,
    solve,
    step,
    unfinished,
    warm_start,
)

__all__ = [
    "FirstOrderConfig",
    "WarmStart",
    "extend",
    "init",
    "run",
    "solve",
    "step",
    "unfinished",
    "warm_start",
]
