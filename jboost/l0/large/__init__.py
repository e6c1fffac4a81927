"""L0-RBoost for large tables. All monomials of up to three literals are priced at once, and a first
vote is found within seconds.

Users call `fit`, which makes a `table`; `run` holds the loop, and `clock` its time limit. A round
is in `relax`: `patterns` -> `master` -> `separation` (upper bound) and `proof` (lower bound) ->
`pool`. Up to 4,096 rows, `master_on_host` takes the place of `master`. Votes come from `greedy`,
and `exchange` improves them; `state` holds what a fit continues from.
"""

from jboost.l0.large.cross_validation import LargeChoice, LargeChoiceState, choose_large
from jboost.l0.large.fit import LargeCertificate, RelaxedPoint, fit_large
from jboost.l0.large.run import LargeFitInfo
from jboost.l0.large.state import LargeState

__all__ = [
    "LargeCertificate",
    "LargeChoice",
    "LargeChoiceState",
    "LargeFitInfo",
    "LargeState",
    "RelaxedPoint",
    "choose_large",
    "fit_large",
]
