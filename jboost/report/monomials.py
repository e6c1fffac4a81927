"""Functions for ensembles of monomials of any method: which monomials vote, and which of them hold
for a row.
"""

from __future__ import annotations

import numpy as np

from jboost.base.boosting import Ensemble


def voting(ensemble: Ensemble) -> np.ndarray:
    """The indices [r] of the slots with a nonzero vote, the largest vote first."""
    sizes = np.abs(np.asarray(ensemble.votes)[:, 0])
    order = np.argsort(-sizes, kind="stable")
    return order[sizes[order] > 0]


def fired(ensemble: Ensemble, bits: np.ndarray) -> np.ndarray:
    """Which monomials hold for which rows, [k, r] bool, in the order of `voting`.

    Args:
      ensemble: of monomials, concrete.
      bits: [k, N] of 0, 1, and NaN, for which neither literal holds.
    """
    literals = np.asarray(ensemble.hypotheses.literals)[voting(ensemble)]
    holds = np.ones((len(bits), len(literals)), bool)
    for rule, row in enumerate(literals):
        for bit in np.flatnonzero(row):
            holds[:, rule] &= bits[:, bit] == (row[bit] > 0)
    return holds
