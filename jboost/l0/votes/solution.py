"""The vote of the relaxation (18) of Goldberg and Eckstein (2009) as it is: their Algorithm 1
returns (xi, mu, lambda), and lambda is the vote.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class CoefficientsConfig:
    """The final vote is lambda, the solution of the last relaxation (18), rounded to multiples of
    the unit of the float type.

    lambda is not unique. The interior point method gives a central point of all solutions, which
    spreads over most columns that are held; a vertex would have fewer.
    """
