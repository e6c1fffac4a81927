"""A dual multiplied by a number near 1, so that the reduced costs of variables with one bound get the sign that this bound asks for.

An optimal dual leaves reduced costs at 0 up to rounding, and a wrong sign where the variable has no bound to hold it proves nothing at all. With
(1 - t) y in the place of y they are (1 - t) (c - A'y) + t c: where c has the right sign a small t > 0 is enough, where it has the wrong one t < 0.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base.types import Array
from jboost.lp.assess import Side, lean
from jboost.lp.problem import LinearProgram

_ROUNDINGS = 4  # of the size of a sum's terms, in units of rounding: by how much a sign is right to be sure of it


def stretch(problem: LinearProgram, tight: LinearProgram, dual: Side) -> Side:
    """The dual itself, shrunk or grown: of the three the one that proves most.

    Args:
      problem: m rows, n variables.
      tight: the same, with the bounds that follow from others; what a dual proves is what it proves with these.
      dual: [m] allowed.
    """
    objective = problem.objective
    toward = jnp.where(jnp.isinf(problem.upper), 1.0, -1.0)  # the sign asked for
    is_one_sided = jnp.isinf(problem.upper) != jnp.isinf(problem.lower)
    margin = _ROUNDINGS * jnp.finfo(objective.dtype).eps * (jnp.abs(objective) + dual.size)
    short = margin - toward * (objective - dual.product)
    slope = toward * dual.product  # of the reduced cost, that way, in t
    needed = jnp.where(slope != 0, short / jnp.where(slope != 0, slope, 1.0), 0.0)
    counts = is_one_sided & (short > 0) & (jnp.abs(needed) <= 1)
    needed = jnp.where(counts, needed, 0.0)
    best, most = dual, _proven(tight, dual)
    for share in (jnp.max(needed), jnp.min(needed)):
        now = _times(dual, 1 - share)
        proven = _proven(tight, now)
        best = Side(*(jnp.where(proven > most, new, old) for new, old in zip(now, best, strict=True)))
        most = jnp.maximum(most, proven)
    return best


def _times(dual: Side, factor: Array) -> Side:
    return Side(*(factor * part for part in dual))


def _proven(tight: LinearProgram, dual: Side) -> Array:
    """What the dual proves, but for rounding, []."""
    paid, _ = lean(dual.point, tight.row_lower, tight.row_upper)
    saved, wrong = lean(tight.objective - dual.product, tight.lower, tight.upper)
    return jnp.where(jnp.any(wrong > 0), -jnp.inf, jnp.sum(paid) + jnp.sum(saved))
