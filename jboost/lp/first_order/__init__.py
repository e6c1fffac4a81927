"""The primal-dual first-order method for linear programs."""

from jboost.lp.first_order.method import init, run, solve, step, unfinished
from jboost.lp.first_order.starts import extend, warm_start
from jboost.lp.first_order.state import FirstOrderConfig, WarmStart

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
