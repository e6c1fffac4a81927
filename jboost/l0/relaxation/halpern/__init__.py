"""The relaxation over all pairs at once: reflected Halpern iterations with restarts, which end by
the certified gap.

With z = (x, y) and T one step of the primal-dual hybrid gradient method (Chambolle and Pock 2011),
z_{k+1} = (k+1)/(k+2) (2 T z_k - z_k) + z_0/(k+2) (Lu and Yang 2024, "Restarted Halpern PDHG for
linear programming", (4)). Restarts come when the fixed-point error |z - T z|_P has fallen enough,
and move the primal weight so that both sides have gone equally far since the last restart (Chen,
Sun, Yuan, Zhang and Zhao 2024, "HPR-LP"; Lu, Peng and Yang 2025, "cuPDLPx"). Two things differ from
`jboost.lp.first_order`: lambda stays on the simplex by projection, and every check proves both
bounds, so that no iteration is spent on residuals that are smaller than the gap needs.

Vectors of pairs: v, its anchor, and the best proven v. T v is computed again in each pass that
needs it.
"""

from jboost.l0.relaxation.halpern.iteration import State
from jboost.l0.relaxation.halpern.method import gap, init, is_stalled, step
from jboost.l0.relaxation.halpern.program import num_cuts, sums_of, unscaled
from jboost.l0.relaxation.halpern.proof import prove

__all__ = ["State", "gap", "init", "is_stalled", "num_cuts", "prove", "step", "sums_of", "unscaled"]
