"""The sparse minimum disagreement problem with votes that are not normalised, (9) of Goldberg and
Eckstein (2009), over a pool, solved to proven optimality by branch and cut.

With lambda in units of K, (9) has the rows of (15) at the margin 1 / K, and votes in a box
(`domains.Box`). The search is that of `solve_exact` in this domain. The relaxation of (9) itself is
weak, as K is large. The bounds come from cuts, in which K hardly matters: those of pairs, and those
of combinations of margin rows, which say that one of the hypotheses on the side of a combination is
used or one of its examples is given up.
"""

from __future__ import annotations

import jax.numpy as jnp

from jboost.base import check, derivatives, devices, meshes
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.l0 import relaxation
from jboost.l0.branch_and_cut.batches import ExactConfig, ExactState
from jboost.l0.branch_and_cut.domains import Box
from jboost.l0.branch_and_cut.solve import (
    Data,
    Exact,
    search_pool,
    validate_tolerance,
)


@meshes.takes_gathered
@derivatives.without("jboost.l0.solve_exact_unnormalised")
def solve_exact_unnormalised(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    largest: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-4,
    cutoff: ArrayLike | None = None,
    config: ExactConfig | None = None,
    on_step: OnStep | None = None,
    initial: ExactState | None = None,
) -> Exact:
    """Solves (9) of Goldberg and Eckstein (2009) over a pool by branch and cut: errors plus costs
    of hypotheses, with votes that are not normalised and without a margin rho.

    Minimises sum_i weight_i I(y_i H_i lambda < 1) + sum_u c_u I(lambda_u > 0) over 0 <= lambda_u <=
    K. The vote may be empty; all examples are then errors. In place of the printed constant M K + 1
    of the slacks it has one of at least U K + 1, so that no vote is cut off. Jittable and
    vmappable. `solve_exact` solves (15), with normalised votes.

    Args:
      outputs: [m, U] -1, 0 or +1.
      labels: [m] -1 or +1.
      costs: [U] not negative.
      largest: [] K > 0, the largest value of a coefficient. The problem is easier for smaller K; an
        example cannot be right if K times the number of hypotheses is below 1. For large K rounding
        may leave a gap between the bounds, in float32 sooner than in float64.
      weights: [m] cost of an error, not negative; 0 has the effect of `mask` False; None for ones.
      mask: [m] bool, False for examples to ignore; None for all True.
      column_mask: [U] bool, False for unused slots; None for all True.
      tolerance: as for `solve_exact`.
      cutoff: as for `solve_exact`.
      config: as for `solve_exact`.
      on_step: as for `solve_exact`.
      initial: as for `solve_exact`.

    Returns:
      An `Exact`, with `coefficients` in [0, K]. Statuses are those of `solve_exact`; there is
      always a vote, so none is INFEASIBLE.

    Raises:
      ValueError: naming the argument, for shapes, dtypes, and concrete values.

    >>> import jboost
    >>> outputs = [[1, -1, 1], [1, -1, 0], [1, -1, 0], [1, -1, 1]]
    >>> found = jboost.l0.solve_exact_unnormalised(
    ...     outputs, [1, -1, -1, 1], [0.0, 0.0, 0.5], largest=10.0
    ... )
    >>> (
    ...     round(float(found.loss), 4),
    ...     round(float(found.lower_bound), 4),
    ...     jboost.status.Status(int(found.status)).name,
    ... )
    (0.5, 0.5, 'OPTIMAL')
    """
    settings = check.config("config", config, ExactConfig)
    data = relaxation.validate_program(
        outputs, labels, costs, weights=weights, mask=mask, column_mask=column_mask
    )
    largest = check.number("largest", largest, low=0, high=check.LARGEST, open_low=True).astype(
        float
    )
    tolerance = validate_tolerance("tolerance", tolerance, sum(data[0].shape))
    known = check.number(
        "cutoff", jnp.inf if cutoff is None else cutoff, low=0, high=jnp.inf
    ).astype(float)
    shape = data[0].shape
    data = relaxation.with_one_masked(data) if 0 in shape else data
    pool = Data._make((*data, _below(largest)))
    domain = Box(largest)
    found = search_pool(
        pool, tolerance, known, config=settings, domain=domain, on_step=on_step, initial=initial
    )
    coefficients = _in_units_of_one(domain, found)
    return found._replace(coefficients=coefficients[: shape[1]])


def _below(largest: Array) -> Array:
    """1 / K, rounded down, so that bounds for this margin hold for K."""
    return (1 / largest) * (1 - 4 * jnp.finfo(largest.dtype).eps)


@devices.host_jit
def _in_units_of_one(domain: Box, found: Exact) -> Array:
    """The coefficients of (9) whose loss the search computed."""
    return jnp.where(
        found.status == int(Status.INVALID_INPUT), jnp.nan, domain.scaled(found.coefficients)
    )
