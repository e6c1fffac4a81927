"""The relaxation over all pairs at once: reflected Halpern iterations with restarts, until the
certified gap is small enough.

Let z = (x, y) and let T be one step of the primal-dual hybrid gradient method (Chambolle and Pock
2011). The iteration is z_{k+1} = (k+1)/(k+2) (2 T z_k - z_k) + z_0/(k+2) (Lu and Yang 2024,
"Restarted Halpern PDHG for linear programming", (4)). It restarts when the fixed-point error
|z - T z|_P has fallen enough. A restart changes the primal weight so that the primal and the dual
iterate move equally far (Chen, Sun, Yuan, Zhang and Zhao 2024, "HPR-LP"; Lu, Peng and Yang 2025,
"cuPDLPx"). There are two differences to `jboost.lp.first_order`. A projection keeps lambda on the
simplex. Every check proves both bounds, so that the residuals become no smaller than the gap
requires.

Three vectors of pairs are stored: v, its anchor, and the best proven v. T v is computed anew in
each pass that needs it.
"""

from jboost.l0.relaxation.halpern.iteration import HalpernState
from jboost.l0.relaxation.halpern.method import gap, init, is_stalled, step
from jboost.l0.relaxation.halpern.program import num_cuts, sums_of, unscaled
from jboost.l0.relaxation.halpern.proof import prove

__all__ = [
    "HalpernState",
    "gap",
    "init",
    "is_stalled",
    "num_cuts",
    "prove",
    "step",
    "sums_of",
    "unscaled",
]
