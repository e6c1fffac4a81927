"""The sweep over all central points (Boyarshinov and Magdon-Ismail 2005): bounds of the least loss
around each centre, then an exact evaluation.
"""

from jboost.pair.sweep.brackets import (
    Radial,
    SweepConfig,
    Turn,
    attained_loss,
    bound_centres,
    divide_work,
    in_order,
    least_loss,
    list_centres,
    look_around,
)

__all__ = [
    "Radial",
    "SweepConfig",
    "Turn",
    "attained_loss",
    "bound_centres",
    "divide_work",
    "in_order",
    "least_loss",
    "list_centres",
    "look_around",
]
