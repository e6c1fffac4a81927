"""Exact combination of a pair of classifiers (Boyarshinov and Magdon-Ismail 2005): the separator of
least weight, and its largest margin.
"""

from jboost.pair.baselines import (
    DistanceSeparator,
    least_distance_separator,
    least_squared_distance_separator,
)
from jboost.pair.branch_and_bound import (
    BranchAndBoundConfig,
    BranchAndBoundInfo,
    BranchAndBoundState,
)
from jboost.pair.leave_one_out import LeaveOneOutState, leave_one_out
from jboost.pair.pareto import ParetoState, best_trade_off, pareto_front
from jboost.pair.separator import optimal_separator
from jboost.pair.space import PlaneSearchState
from jboost.pair.sweep import SweepConfig
from jboost.pair.types import LeaveOneOut, ParetoFront, Separator, TradeOff
from jboost.pair.weights import ConfidentLabels, confidence_weights

__all__ = [
    "BranchAndBoundConfig",
    "BranchAndBoundInfo",
    "BranchAndBoundState",
    "ConfidentLabels",
    "DistanceSeparator",
    "LeaveOneOut",
    "LeaveOneOutState",
    "ParetoFront",
    "ParetoState",
    "PlaneSearchState",
    "Separator",
    "SweepConfig",
    "TradeOff",
    "best_trade_off",
    "confidence_weights",
    "least_distance_separator",
    "least_squared_distance_separator",
    "leave_one_out",
    "optimal_separator",
    "pareto_front",
]
