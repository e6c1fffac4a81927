"""The linear relaxation of L0-RBoost over a pool of hypotheses, with all pair cuts: (18) of
Goldberg and Eckstein (2009).

Each round solves over a working set of cuts, searches all pairs for violated cuts, and proves both
bounds (`jboost.l0.relaxation.certify`). Names in the code: lambda is `coefficients`, mu `selected`,
xi `slacks`, rho `margin`, w `example_weights`, v `pair_weights`, alpha `convexity`.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp

from jboost.base import batching, check, derivatives, devices, meshes
from jboost.base.types import Array, ArrayLike
from jboost.l0.relaxation import all_pairs
from jboost.l0.relaxation.arguments import (
    validate_features,
    validate_program,
    with_one_masked,
    without_last,
)
from jboost.l0.relaxation.pair_blocks import PairLayout
from jboost.l0.relaxation.rounds import solve_instance
from jboost.l0.relaxation.warm_start import holds_all_pairs, warm_of
from jboost.l0.types import (
    L0Relaxation,
    RelaxationConfig,
    WarmStart,
)


@meshes.takes_gathered
@derivatives.without("jboost.l0.solve_relaxation")
def solve_relaxation(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    margin: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    features: ArrayLike | None = None,
    config: RelaxationConfig | None = None,
    initial: L0Relaxation | WarmStart | None = None,
) -> L0Relaxation:
    """Solves the relaxation (18) of Goldberg and Eckstein (2009), of the sparse minimum
    disagreement problem over a pool, with all pair cuts of both orders or with those of `config`.

    Minimises sum_i weight_i xi_i + sum_u c_u mu_u s.t. sum_u y_i H_iu lambda_u + (1 + rho)
    xi_i >= rho, sum lambda = 1, mu >= lambda >= 0, xi >= 0, xi_i + xi_i' + sum of mu over
    S_ii' >= 1 for all i, i' of opposite classes, S_ii' = {u : H_iu = y_i != H_i'u}. It may be
    jitted, and vmapped.

    Args:
      outputs: H [m, U], entries -1, 0, +1.
      labels: [m] -1 or +1.
      costs: c [U] >= 0.
      margin: [] rho in (0, 1].
      weights: [m] cost of a slack, not negative; 0 has the effect of `mask` False; None for ones.
      mask: [m] bool, False for examples that only pad; None for all True.
      column_mask: [U] bool, False for slots of the pool that hold no hypothesis; None for all True.
      tolerance: [] the gap between the bounds at which to stop, relative to the larger of the upper
        bound and the largest weight; None for 1e-6 in float64 and 3e-4 in float32. In float32 the
        solver usually reaches 1e-4, and 3e-5 from 1,024 examples on, where it ends in 64 bits.
      features: [m, N] of 0 and 1, NaN where unknown: the attributes that `config.distance_factor`
        compares.
      config: static; None for the interior point method with cuts added in rounds, at every size:
        `AllPairsConfig` was slower at every size measured.
      initial: a solution to start from. It has the same number of examples, at most as many columns
        and at most this capacity; its columns are the first of this pool. For the same columns the
        bounds are no worse than its own, up to rounding. So a float64 call can refine a float32
        solution.

    Returns:
      An `L0Relaxation` with lower_bound <= optimum over this pool <= upper_bound.
      `certify.lower_bound` proves the lower bound from example_weights and pair_weights.
      coefficients, selected and slacks attain the upper bound in exact arithmetic. Statuses:
      OPTIMAL; ROUND_LIMIT; CAPACITY_LIMIT if more cuts were needed than the capacity;
      ITERATION_LIMIT (`AllPairsConfig`); NUMERICAL_ERROR if rounding prevents a smaller gap;
      PRIMAL_INFEASIBLE without a column; INVALID_INPUT, with bounds -inf and inf. The bounds hold
      whatever the status is.

    Raises:
      ValueError: at trace time, naming the argument, for shapes that do not fit, and for invalid
        values where they are known.

    >>> import jboost
    >>> solution = jboost.l0.solve_relaxation(
    ...     [[1, 1], [1, -1], [-1, -1]], [1, 1, -1], [0.5, 0.5], margin=0.1
    ... )
    >>> (
    ...     round(float(solution.lower_bound), 3),
    ...     round(float(solution.upper_bound), 3),
    ...     jboost.status.Status(int(solution.status)).name,
    ... )
    (0.5, 0.5, 'OPTIMAL')
    """
    dtype = jnp.result_type(float)
    data = validate_program(
        outputs, labels, costs, weights=weights, mask=mask, column_mask=column_mask
    )
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(dtype)
    if tolerance is None:
        tolerance = 1e-6 if dtype == jnp.dtype("float64") else 3e-4
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(dtype)
    config = check.config("config", config, RelaxationConfig)
    shape = data[0].shape
    bits = validate_features(features, data[4], config)
    if holds_all_pairs(config, shape) and 0 not in shape:
        config = all_pairs.with_listing(config, shape[0])
        layout = all_pairs.known_layout(config, data[0], data[1], data[4])
        return _solve(
            (*data, bits),
            margin,
            tolerance,
            warm_of(initial, shape, config, layout),
            config=config,
            layout=layout,
        )
    if 0 in shape:
        return _solve_empty(data, bits, margin, tolerance, config)
    return _solve((*data, bits), margin, tolerance, warm_of(initial, shape, config), config=config)


def _solve_empty(
    data: tuple[Array, ...], bits: Array, margin: Array, tolerance: Array, config: RelaxationConfig
) -> L0Relaxation:
    """`_solve` without examples or without columns: it solves with a masked one of each."""
    padded = (*with_one_masked(data), jnp.pad(bits, ((0, 1), (0, 0))))
    solved = _solve(padded, margin, tolerance, None, config=config)
    return without_last(solved, data[0].shape)


@devices.public_jit(static_argnames=("config", "layout"))
def _solve(
    data: tuple[Array, ...],
    margin: Array,
    tolerance: Array,
    warm: WarmStart | None,
    *,
    config: RelaxationConfig,
    layout: PairLayout | None = None,
) -> L0Relaxation:
    either = jnp.asarray(config.cuts == "either")
    run = functools.partial(solve_instance, config, layout=layout)
    return batching.in_chunks(run, at_once=1)(data, margin, tolerance, either, warm)
