"""The best margin by one linear program: the variant of (25) of Goldberg and Eckstein (2009) with 2
in place of 1 + rho.

(25) maximises rho - beta z(rho), where z(rho) is the optimum of the relaxation (18). Its margin
rows y_i H_i lambda + (1 + rho) xi_i >= rho are not linear in rho and xi together. As rho <= 1, the
rows

    y_i H_i lambda + 2 xi_i >= rho

are weaker, and with them rho is a variable of a linear program. Its optimum is at least that of
(25): slacks are cheaper, and more so at small margins. `search_margin` solves (25) itself, by a
search over rho.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import batching, brackets, check, derivatives, devices, loops, meshes, numerics
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.l0 import relaxation
from jboost.l0.relaxation import certify, cut_rows
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation.instance import make_instance, numbers_of, unordered
from jboost.l0.types import CutIndices, Primal, RelaxationInstance
from jboost.l0.votes import grids
from jboost.lp import LinearProgram, LPSolution, make_program, solve

# The default capacity for cuts is at least this. A round number; not tuned.
_LEAST_CUTS = 1024
# The least violation of a cut that is added, by the bytes of a float, and the least dual of a cut
# that must stay, as a share of the largest. Round numbers; not tuned.
_VIOLATED, _SMALL = {4: 1e-3, 8: 1e-7}, 1e-6


@dataclasses.dataclass(frozen=True)
class LinearMarginConfig:
    """Static options of `solve_linear_margin`."""

    max_rounds: int = 30
    """The number of linear programs; each has the cuts that the solution before violates."""
    num_cuts: int | None = None
    """The number of cuts held at a time. None for two per example plus one per column, at least
    1024.
    """
    cuts: str = "ordered"
    """As in `RelaxationConfig`."""

    def __post_init__(self) -> None:
        check.count("config.max_rounds", self.max_rounds, low=1)
        if self.num_cuts is not None:
            check.count("config.num_cuts", self.num_cuts, low=1)
        check.choice("config.cuts", self.cuts, ("ordered", "either"))


class LinearMargin(NamedTuple):
    """A margin, and lower_bound <= optimum of the linear program <= upper_bound.

    Let s be the sums of v over the cuts that contain a variable and g_u = sum_i y_i H_iu w_i. Any
    w, v >= 0 prove that the optimum is at most max(0, 1 - sum w) - sum v - min_u (max(0, beta c_u -
    s_u) - g_u) - sum_i min(0, beta weight_i - 2 w_i - s_i) - sum_u min(0, beta c_u - s_u).
    """

    margin: Array  # [] rho in [0, 1]
    lower_bound: Array  # [] attained by margin, selected and slacks
    upper_bound: Array  # [] also on (25) over this pool, as the program is a relaxation of it
    coefficients: Array  # [U] lambda, on the simplex
    selected: Array  # [U] mu >= lambda
    slacks: Array  # [m] xi
    example_weights: Array  # [m] w, duals of the margins
    pairs: Array  # [K, 2] int32, -1 for an empty slot
    pair_weights: Array  # [K] v
    num_rounds: Array  # [] int32
    status: Array  # [] int32


class _BestLinearMargin(NamedTuple):
    margin: Array  # []
    lower: Array  # []
    primal: Primal
    upper: Array  # []
    example_weights: Array  # [m]
    cuts: CutIndices
    pair_weights: Array  # [K]


class _LinearMarginState(NamedTuple):
    cuts: CutIndices
    best: _BestLinearMargin
    num_new: Array  # [] int32 cuts added after the last program
    num_left_out: Array  # [] int32 violated cuts that found no slot
    num_rounds: Array  # [] int32


@meshes.takes_gathered
@derivatives.without("jboost.l0.solve_linear_margin")
def solve_linear_margin(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    penalty: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    config: LinearMarginConfig | None = None,
) -> LinearMargin:
    """The margin rho of largest rho - penalty (sum_i weight_i xi_i + sum_u c_u mu_u) in one linear
    program: (25) of Goldberg and Eckstein (2009) over a pool, with 2 in place of 1 + rho.

    Maximises over rho in [0, 1], lambda, mu and xi s.t. sum_u y_i H_iu lambda_u + 2 xi_i >= rho,
    sum lambda = 1, mu >= lambda >= 0, xi >= 0, and the pair cuts of (18). The optimum is an upper
    bound on (25) over this pool; the margin is a guess, which `solve_relaxation` or `fit`
    evaluates. `search_margin` solves (25) itself. For pools and data of moderate size: a round
    solves a dense linear program. Jittable and vmappable.

    Args:
      outputs: H [m, U], entries -1, 0, +1.
      labels: [m] -1 or +1.
      costs: c [U] >= 0.
      penalty: [] beta > 0.
      weights: [m] cost of a slack, not negative; 0 has the effect of `mask` False; None for ones.
      mask: [m] bool, False for examples that only pad; None for all True.
      column_mask: [U] bool, False for slots that hold no hypothesis; None for all True.
      tolerance: [] the gap between the bounds at which the rounds end, None for 1e-6 in float64
        and 1e-3 in float32. It is relative to the larger of 1 and the upper bound.
      config: static.

    Returns:
      A `LinearMargin`. The status is OPTIMAL; ROUND_LIMIT; CAPACITY_LIMIT if more cuts were needed
      than `num_cuts`; PRECISION_LIMIT; INFEASIBLE without a hypothesis; INVALID_INPUT, with bounds
      -inf and inf. The bounds hold for any status.

    Raises:
      ValueError: naming the argument, for shapes, dtypes, and concrete values.

    >>> import jboost
    >>> found = jboost.l0.solve_linear_margin(
    ...     [[1, 1], [1, -1], [-1, -1]], [1, 1, -1], [0.5, 0.5], penalty=0.1
    ... )
    >>> round(float(found.margin), 2), round(float(found.upper_bound), 2)
    (1.0, 0.95)
    """
    dtype = jnp.result_type(float)
    settings = check.config("config", config, LinearMarginConfig)
    data = relaxation.validate_program(
        outputs, labels, costs, weights=weights, mask=mask, column_mask=column_mask
    )
    penalty = check.number("penalty", penalty, low=0, high=check.LARGEST, open_low=True).astype(
        dtype
    )
    if tolerance is None:
        tolerance = 1e-6 if dtype == jnp.dtype("float64") else 1e-3
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(dtype)
    shape = data[0].shape
    data = relaxation.with_one_masked(data) if 0 in shape else data
    found = _solve(data, penalty, tolerance, config=settings)
    return found._replace(
        coefficients=found.coefficients[: shape[1]],
        selected=found.selected[: shape[1]],
        slacks=found.slacks[: shape[0]],
        example_weights=found.example_weights[: shape[0]],
    )


@devices.public_jit(static_argnames=("config",))
def _solve(
    data: tuple[Array, ...], penalty: Array, tolerance: Array, *, config: LinearMarginConfig
) -> LinearMargin:
    run = functools.partial(_solve_one, config=config)
    return batching.in_chunks(run, at_once=1)(data, penalty, tolerance)


def _solve_one(
    data: tuple[Array, ...], penalty: Array, tolerance: Array, *, config: LinearMarginConfig
) -> LinearMargin:
    either = config.cuts == "either"
    outputs, labels, costs, weights, mask, column_mask = data
    instance, is_valid = make_instance(
        outputs, labels, costs, weights, mask, column_mask, jnp.ones_like(penalty), either
    )
    is_valid &= (penalty > 0) & (penalty < jnp.inf)
    penalty = jnp.where(is_valid, penalty, 1.0)
    has_columns = jnp.any(instance.is_column)
    first = _begin(instance, config)

    def unfinished(state: _LinearMarginState) -> Array:
        is_open = is_valid & has_columns & ~_is_closed(state.best, tolerance)
        return is_open & (state.num_new > 0) & (state.num_rounds < config.max_rounds)

    last, _ = loops.bounded_loop(
        lambda state: _round(instance, penalty, state),
        unfinished,
        first,
        max_checks=config.max_rounds,
    )
    best = last.best
    status = jnp.where(has_columns, _status(last, tolerance), int(Status.INFEASIBLE))
    upper = jnp.where(has_columns | ~is_valid, best.upper, -jnp.inf)
    return LinearMargin(
        best.margin,
        jnp.where(is_valid, best.lower, -jnp.inf),
        jnp.where(is_valid, upper, jnp.inf),
        best.primal.coefficients,
        best.primal.selected,
        unordered(instance, best.primal.slacks),
        unordered(instance, best.example_weights),
        numbers_of(instance, best.cuts),
        best.pair_weights,
        last.num_rounds,
        jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _is_closed(best: _BestLinearMargin, tolerance: Array) -> Array:
    """Whether the gap between the bounds is at most the tolerance, [] bool; False at first, when
    the bounds are infinite.
    """
    gap = (best.upper - best.lower) / jnp.maximum(jnp.abs(best.upper), 1.0)
    return gap <= tolerance


def _status(state: _LinearMarginState, tolerance: Array) -> Array:
    """OPTIMAL, or why the rounds ended while the gap was open, []."""
    missed = jnp.where(state.num_new > 0, int(Status.ROUND_LIMIT), int(Status.PRECISION_LIMIT))
    missed = jnp.where(state.num_left_out > 0, int(Status.CAPACITY_LIMIT), missed)
    return jnp.where(_is_closed(state.best, tolerance), int(Status.OPTIMAL), missed)


def _begin(instance: RelaxationInstance, config: LinearMarginConfig) -> _LinearMarginState:
    """The state without cuts and bounds."""
    num_examples, num_columns = instance.margins.shape
    default = max(2 * num_examples + num_columns, _LEAST_CUTS)
    capacity = default if config.num_cuts is None else config.num_cuts
    capacity = min(capacity, max(1, pair_cuts.num_pairs(num_examples)))
    cuts, none = pair_cuts.empty(capacity, num_examples), jnp.zeros((), jnp.int32)
    zero, columns, examples = (
        jnp.zeros_like(part) for part in (instance.margin, instance.costs, instance.weights)
    )
    pair_weights = jnp.zeros((capacity,), zero.dtype)
    point = Primal(columns, columns, examples)
    best = _BestLinearMargin(
        zero, zero - jnp.inf, point, zero + jnp.inf, examples, cuts, pair_weights
    )
    return _LinearMarginState(cuts, best, none + 1, none, none)


def _round(
    instance: RelaxationInstance, penalty: Array, state: _LinearMarginState
) -> _LinearMarginState:
    """Solves one linear program, proves both bounds, and adds the cuts that it violates."""
    num_examples = instance.weights.shape[0]
    solution = solve(_make_program(instance, penalty, state.cuts))
    dual = jnp.where(jnp.isfinite(solution.dual), jnp.maximum(solution.dual, 0.0), 0.0)
    is_real, is_cut = instance.weights > 0, pair_cuts.is_used(instance, state.cuts)
    w = jnp.where(is_real, dual[:num_examples], 0.0)
    v = jnp.where(is_cut, dual[num_examples:][: is_cut.shape[0]], 0.0)
    upper = _proven(instance, penalty, state.cuts, w, v)
    margin, point, least = _on_grid(instance, solution)
    most = max(4 * instance.margins.size, 1 << 16)
    required = pair_cuts.search(instance, point.selected, point.slacks, most)
    primal = certify.raised(instance, point, least, required)
    lower = _attained(margin, penalty, certify.price(instance, primal))
    fresh = pair_cuts.refresh(
        instance,
        state.cuts,
        jnp.where(v > _SMALL * jnp.max(v, initial=0.0), 1.0, 0.0),
        required,
        point.selected,
        point.slacks,
        jnp.asarray(_VIOLATED[w.dtype.itemsize], w.dtype),
    )
    attains, proves = lower > state.best.lower, upper < state.best.upper
    new = _BestLinearMargin(margin, lower, primal, upper, w, state.cuts, v)
    chosen = [
        jax.tree.map(lambda one, other, better=better: jnp.where(better, one, other), *parts)
        for better, parts in (
            (attains, (new[:3], state.best[:3])),
            (proves, (new[3:], state.best[3:])),
        )
    ]
    best = _BestLinearMargin(*chosen[0], *chosen[1])
    return _LinearMarginState(
        fresh.cuts, best, fresh.num_new, fresh.num_left_out, state.num_rounds + 1
    )


def _make_program(instance: RelaxationInstance, penalty: Array, cuts: CutIndices) -> LinearProgram:
    """The program over (lambda, mu - lambda, xi, rho), minimised."""
    num_examples, num_columns = instance.margins.shape
    dtype = instance.margins.dtype
    (served, ends), is_cut = cut_rows.from_pairs(instance, cuts), pair_cuts.is_used(instance, cuts)
    of_examples = [
        instance.margins,
        jnp.zeros_like(instance.margins),
        2 * jnp.eye(num_examples, dtype=dtype),
        -jnp.ones((num_examples, 1), dtype),
    ]
    of_cuts = [served, served, ends, jnp.zeros((is_cut.shape[0], 1), dtype)]
    of_sum = [
        jnp.ones((1, num_columns), dtype),
        jnp.zeros((1, num_columns + num_examples + 1), dtype),
    ]
    matrix = jnp.concatenate(
        [jnp.concatenate(parts, axis=1) for parts in (of_examples, of_cuts, of_sum)]
    )
    is_real, one = instance.weights > 0, jnp.ones((1,), dtype)
    return make_program(
        jnp.concatenate([penalty * instance.costs] * 2 + [penalty * instance.weights, -one]),
        matrix,
        row_lower=jnp.concatenate(
            [jnp.where(is_real, 0.0, -jnp.inf), jnp.where(is_cut, 1.0, -jnp.inf), one]
        ),
        row_upper=jnp.concatenate(
            [jnp.full((num_examples + is_cut.shape[0],), jnp.inf, dtype), one]
        ),
        upper=jnp.concatenate(
            [
                jnp.tile(jnp.where(instance.is_column, 1.0, 0.0), 2),
                jnp.where(is_real, 1.0, 0.0),
                one,
            ]
        ),
    )


def _on_grid(instance: RelaxationInstance, solution: LPSolution) -> tuple[Array, Primal, Array]:
    """The margin, and the point on a grid on which sums are exact; and the least slacks [m] that
    its margins allow.
    """
    num_columns, dtype = instance.costs.shape[0], instance.costs.dtype
    primal = jnp.clip(jnp.where(jnp.isfinite(solution.primal), solution.primal, 0.0), 0.0, 1.0)
    given, rest, slacks = jnp.split(primal[:-1], [num_columns, 2 * num_columns])
    unit = jnp.asarray(2.0 ** -jnp.finfo(dtype).nmant, dtype)
    coefficients = grids.nearest(
        jnp.where(instance.is_column, given, 0.0), instance.is_column, unit
    )
    selected = jnp.where(instance.is_column, jnp.minimum(given + rest, 1.0), 0.0)
    selected = jnp.maximum(jnp.round(selected / unit) * unit, coefficients)
    margin = jnp.round(primal[-1] / unit) * unit
    reached = jnp.matmul(instance.margins, coefficients, precision=lax.Precision.HIGHEST)
    is_real = instance.weights > 0
    least = jnp.where(
        is_real, jnp.ceil(jnp.maximum(margin - reached, 0.0) / (2 * unit)) * unit, 0.0
    )
    slacks = jnp.where(is_real, jnp.round(slacks / unit) * unit, 0.0)
    return margin, Primal(coefficients, selected, jnp.maximum(slacks, least)), least


def _attained(margin: Array, penalty: Array, price: Array) -> Array:
    """rho - beta price, rounded down."""
    left = jnp.stack([margin, -penalty])
    return brackets.bracket_dot(left, jnp.stack([jnp.ones_like(price), price]))[0]


def _proven(
    instance: RelaxationInstance, penalty: Array, cuts: CutIndices, w: Array, v: Array
) -> Array:
    """The upper bound that duals prove, rounded up: less the Lagrangian of the minimum, where each
    mu_u, xi_i and rho is at the better end of [0, 1], and lambda is on one hypothesis.
    """
    num_examples = w.shape[0]
    served, ends = (part.T * v[None, :] for part in cut_rows.from_pairs(instance, cuts))

    def down(prices: Array, taken: Array) -> Array:
        """beta prices - sum of taken [k, q]."""
        left = jnp.concatenate([prices[:, None], -taken], axis=1)
        right = jnp.concatenate(
            [jnp.broadcast_to(penalty, prices.shape)[:, None], jnp.ones_like(taken)], axis=1
        )
        return brackets.bracket_dot(left, right)[0]

    rest = down(instance.costs, served)
    unpaid = down(instance.weights, jnp.concatenate([ends, w[:, None], w[:, None]], axis=1))
    edges = brackets.bracket_dot(
        instance.margins.T * w[None, :], jnp.ones((1, num_examples), w.dtype)
    )[1]
    of_lambda = numerics.sum_down(jnp.maximum(rest, 0.0), -edges)
    least = jnp.min(jnp.where(instance.is_column, of_lambda, jnp.inf))
    total = brackets.bracket_dot(w, jnp.ones_like(w))[0]
    of_margin = jnp.minimum(numerics.sum_down(total, -jnp.ones_like(total)), 0.0)
    terms = jnp.concatenate(
        [
            v,
            jnp.where(instance.weights > 0, jnp.minimum(unpaid, 0.0), 0.0),
            jnp.where(instance.is_column, jnp.minimum(rest, 0.0), 0.0),
            jnp.stack([least, of_margin]),
        ]
    )
    return -brackets.bracket_dot(terms, jnp.ones_like(terms))[0]
