"""L0-RBoost for large tables: all monomials of up to two literals priced at once, a master on patterns, votes from the first seconds on.

`fit` holds the loop; a round is in `relax`: `patterns` -> `master` -> `separation` (upper bound) and `proof` (lower bound) -> `pool`. Votes come from
`greedy` and `votes`.
"""

from jboost.l0.large.choice import LargeChoice, choose_large
from jboost.l0.large.fit import Info, LargeCertificate, RelaxedPoint, fit_large

__all__ = ["Info", "LargeCertificate", "LargeChoice", "RelaxedPoint", "choose_large", "fit_large"]
