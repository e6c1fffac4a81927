"""The Pareto front of weight against margin.

`front` is the public call. `walk` goes along the front by looks at single centres, whose slabs turn
over `arcs` of directions. `by_cells` asks the `cells` of directions, for every loss at once, which
`places` may hold its widest slab, and `slabs` settles each in a problem of a few points. `drawing`
turns what either has found into lines.
"""

from jboost.pair.pareto.front import best_trade_off, pareto_front

__all__ = ["best_trade_off", "pareto_front"]
