"""Exact leave-one-out errors of the optimal separator (Boyarshinov and Magdon-Ismail
2005, Section 3).
"""

from jboost.pair.leave_one_out.solve import leave_one_out
from jboost.pair.leave_one_out.steps import LeaveOneOutState

__all__ = ["LeaveOneOutState", "leave_one_out"]
