"""The Pareto front of weight against margin.

`front` has the public functions. `walk` computes the points of the front one after the other: it
searches the slabs that touch single centres, with the help of `arcs` of directions.
`front_by_cells` uses `slope_cells`, cells of directions that bound the widest slab for all losses
at once. `subproblems` builds a problem of few points for each remaining pair of a cell and a
centre, and `slabs` solves it. `drawing` converts the points of either method to lines. `steps` has
the states of searches that the host drives.
"""

from jboost.pair.pareto.front import best_trade_off, pareto_front
from jboost.pair.pareto.steps import ParetoState

__all__ = ["ParetoState", "best_trade_off", "pareto_front"]
