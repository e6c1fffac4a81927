"""Infeasible subsystems: examples that no linear vote with an offset has all right, with their
multipliers, by a primal simplex method.

Let z_i be the signed row y_i (x_i, 1) of example i. By Farkas, some v has z_i . v > 0 for all i of
a set if and only if no multipliers lambda >= 0, not all 0, have sum_i lambda_i z_i = 0. The program

    minimise |sum_i lambda_i z_i|_1  s.t.  sum_i lambda_i = 1,  lambda >= 0

has the dual: maximise t s.t. z_i . v >= t, |v_j| <= 1. Its optimum is 0 if the set is infeasible,
and a basis then has at most d + 2 examples. Otherwise v has them all right.

The multipliers are rounded. `prove` shows in interval arithmetic, or exactly for multipliers that
are small integers, that exact ones exist near them. All functions here run in the 64-bit scope.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.types import Array
from jboost.geometry import exact

# Rows are scaled to entries of size at most 1, so that these are relative to the data.
_TOLERANCE = 1e-11  # a sum |sum_i lambda_i z_i|_1, or a reduced cost, that counts as 0
_LEAST_PIVOT = 1e-9  # the smallest entry that may be a pivot
_LEAST_MULTIPLIER = 1e-9  # a multiplier that counts as positive, relative to the largest
_PIVOTS_PER_ROW = 40  # the limit of pivots; degenerate ones could cycle
# Integer multiples of the smallest multiplier that are tried as exact multipliers.
_MOST_MULTIPLE = 24
_NEARLY_INTEGER = 1e-6


class SignedRows(NamedTuple):
    """Signed rows. Their scale and origin change no infeasible subsystem."""

    signed: Array  # [d + 1, n] float64, y_i ((x_i - centre) / unit, 1), of size at most 1
    centre: Array  # [d]
    unit: Array  # [d] powers of two
    is_exact: Array  # [] bool, whether no centred coordinate was rounded


class SubsystemOutcome(NamedTuple):
    """The result of one program."""

    members: Array  # [d + 2] int32 examples of the basis, n or more for slacks
    multipliers: Array  # [d + 2] of the members
    inverse: Array  # [d + 2, d + 2] of the basis
    direction: Array  # [d + 1] v
    is_infeasible: Array  # [] bool, up to rounding
    is_separated: Array  # [] bool, whether v has all usable examples right, up to rounding
    num_pivots: Array  # [] int32


class Subsystem(NamedTuple):
    """An infeasible subsystem of examples."""

    members: Array  # [d + 2] int32, -1 for unused slots
    multipliers: Array  # [d + 2] positive for members, 0 for unused slots
    is_proven: Array  # [] bool


class _Basis(NamedTuple):
    members: Array  # [k] int32; n + 2 j and n + 2 j + 1 are the two slacks of row j
    inverse: Array  # [k, k]
    values: Array  # [k] of the members
    direction: Array  # [k - 1]
    has_ended: Array  # [] bool
    is_separated: Array  # [] bool
    num_pivots: Array  # [] int32


def make_rows(columns: Array, live: Array, positive: Array) -> SignedRows:
    """The signed rows of examples with scores `columns` [d, n]; rows are 0 where not live.

    The centre is the middle of the range, rounded to few bits, if this rounds no coordinate.
    """
    is_live = jnp.broadcast_to(live, columns.shape)
    low = numerics.masked_min(columns, is_live, fill=jnp.inf)
    high = numerics.masked_max(columns, is_live, fill=-jnp.inf)
    has_any = low <= high
    middle = jnp.where(has_any, low / 2 + high / 2, 0.0)
    grain = numerics.power_of_two_at_least(jnp.where(has_any, high / 2 - low / 2, 1.0)) / 8
    grain = jnp.where(grain > 0, grain, 1.0)
    rounded = jnp.round(middle / grain) * grain
    rounded = jnp.where(jnp.isfinite(rounded), rounded, 0.0)
    shifted = exact.two_sum(columns, jnp.broadcast_to(-rounded[:, None], columns.shape))
    is_kept = reduce.all_true((shifted.lo == 0) | ~is_live, axis=-1)
    centre = jnp.where(is_kept, rounded, 0.0)
    centred = jnp.where(is_kept[:, None], shifted.hi, columns)
    reach = numerics.masked_max(jnp.abs(centred), is_live, fill=0.0)
    unit = jnp.where(reach > 0, numerics.power_of_two_at_least(reach), 1.0)
    scaled = jnp.where(is_live, centred / unit[:, None], 0.0)
    is_exact = reduce.all_true((scaled * unit[:, None] == centred) | ~is_live, axis=(0, 1))
    signs = jnp.where(live, jnp.where(positive, 1.0, -1.0), 0.0).astype(columns.dtype)
    signed = jnp.concatenate([scaled * signs[None], signs[None]])
    return SignedRows(signed, centre, unit, is_exact & jnp.all(jnp.isfinite(unit)))


def separate(rows: SignedRows, usable: Array, preferred: Array, near: Array) -> SubsystemOutcome:
    """An infeasible subsystem of the usable examples, or a direction that has them all right.

    Args:
      rows: of n examples.
      usable: [n] bool.
      preferred: [n] bool, examples that enter a basis before others.
      near: [d + 1] a direction; the first example is the one that it has most wrong.
    """
    signed = rows.signed
    size, num_rows = signed.shape[1], signed.shape[0]

    def step(basis: _Basis) -> _Basis:
        return _pivot(signed, usable, preferred, basis)

    limit = _PIVOTS_PER_ROW * (num_rows + 1)
    first = _first_basis(signed, usable, near)
    last = loops.while_loop(
        lambda basis: ~basis.has_ended & (basis.num_pivots < limit), step, first
    )
    slack = numerics.masked_sum(last.values, last.members >= size)
    return SubsystemOutcome(
        last.members,
        last.values,
        last.inverse,
        last.direction,
        last.has_ended & ~last.is_separated & (slack <= _TOLERANCE),
        last.is_separated,
        last.num_pivots,
    )


def _first_basis(signed: Array, usable: Array, near: Array) -> _Basis:
    num_rows, size = signed.shape
    lowest, start = reduce.first_least(jnp.where(usable, heights(signed, near), jnp.inf))
    is_any = lowest < jnp.inf
    start = jnp.minimum(start, size - 1)
    row = signed[:, start]
    sign = jnp.where(row > 0, -1.0, 1.0).astype(signed.dtype)
    index = jnp.arange(num_rows, dtype=jnp.int32)
    slacks = size + 2 * index + (sign < 0).astype(index.dtype)
    inverse = jnp.zeros((num_rows + 1, num_rows + 1), signed.dtype)
    inverse = inverse.at[index, index].set(sign).at[:-1, -1].set(-sign * row).at[-1, -1].set(1.0)
    return _Basis(
        jnp.concatenate([slacks, start[None]]).astype(jnp.int32),
        inverse,
        inverse[:, -1],
        near,
        ~is_any,
        ~is_any,
        jnp.zeros((), jnp.int32),
    )


def heights(signed: Array, direction: Array) -> Array:
    """The heights z_i . v [n] of a direction v [d + 1] over the columns z_i of `signed`."""
    return jnp.sum(exact.rounded_product(signed, direction[:, None]), axis=0)


def direction_of(rows: SignedRows, coefficients: Array, offset: Array) -> Array:
    """The direction [d + 1] of a vote with coefficients [d] and an offset."""
    moved = offset + jnp.sum(coefficients * rows.centre)
    return jnp.concatenate([coefficients * rows.unit, moved[None]])


def _pivot(signed: Array, usable: Array, preferred: Array, basis: _Basis) -> _Basis:
    """One pivot, or the end."""
    num_rows, size = signed.shape
    costs = (basis.members >= size).astype(signed.dtype)
    entering = _choose_entering(signed, usable, preferred, basis, costs)
    objective = jnp.sum(jnp.where(costs > 0, basis.values, 0.0))
    is_zero = objective <= _TOLERANCE

    column = _column_of(signed, entering.member, entering.slack)
    change = jnp.sum(exact.rounded_product(basis.inverse, column[None]), axis=1)
    values = jnp.maximum(basis.values, 0.0)
    ratios = jnp.where(change > _LEAST_PIVOT, values / change, jnp.inf)
    length = jnp.min(ratios)
    is_tied = ratios <= length
    order = jnp.where(is_tied, change + 4.0 * num_rows * costs, -jnp.inf)
    _, leaving = reduce.first_largest(order)
    is_leaving = lax.iota(leaving.dtype, num_rows + 1) == leaving
    ends = entering.is_none | is_zero | (length == jnp.inf)
    pivot = jnp.where(ends, 1.0, change[leaving])
    row = basis.inverse[leaving] / pivot
    inverse = jnp.where(is_leaving[:, None], row[None], basis.inverse - change[:, None] * row[None])
    moved = jnp.where(
        is_leaving, values[leaving] / pivot, values - change * (values[leaving] / pivot)
    )
    return _Basis(
        jnp.where(is_leaving & ~ends, entering.member, basis.members),
        jnp.where(ends, basis.inverse, inverse),
        jnp.where(ends, basis.values, moved),
        entering.direction,
        ends,
        entering.is_none & ~is_zero,
        basis.num_pivots + (~ends).astype(jnp.int32),
    )


class _Entering(NamedTuple):
    """The member that enters a basis."""

    member: Array  # [] int32
    slack: Array  # [] the slack of least reduced cost; the member if that is a slack
    direction: Array  # [k - 1] of the duals
    is_none: Array  # [] bool, whether no reduced cost is negative


def _choose_entering(
    signed: Array, usable: Array, preferred: Array, basis: _Basis, costs: Array
) -> _Entering:
    """The example or slack of least reduced cost; preferred examples come first."""
    duals = jnp.sum(exact.rounded_product(costs[:, None], basis.inverse), axis=0)
    direction, height = -duals[:-1], duals[-1]
    reduced = jnp.where(usable, heights(signed, direction) - height, jnp.inf)
    least_preferred, first_preferred = reduce.first_least(jnp.where(preferred, reduced, jnp.inf))
    least, first = reduce.first_least(reduced)
    of_slacks = jnp.stack([1 + direction, 1 - direction], axis=1).reshape(-1)
    least_slack, slack = reduce.first_least(of_slacks)
    is_first = least_preferred < -_TOLERANCE
    is_slack = ~is_first & (least_slack < least)
    member = jnp.where(
        is_first, first_preferred, jnp.where(is_slack, signed.shape[1] + slack, first)
    ).astype(jnp.int32)
    is_none = jnp.minimum(least, least_slack) >= -_TOLERANCE
    return _Entering(member, slack, direction, is_none)


def _column_of(signed: Array, member: Array, slack: Array) -> Array:
    """The column [k] of an example, or of the slack if the member is one."""
    num_rows, size = signed.shape
    place = jnp.minimum(member, size - 1)
    toward = (1 - 2 * (slack % 2)).astype(signed.dtype)
    of_slack = jnp.where(lax.iota(slack.dtype, num_rows) == slack // 2, toward, 0.0)
    head = jnp.where(member >= size, of_slack, signed[:, place])
    tail = jnp.where(member >= size, 0.0, 1.0)
    return jnp.concatenate([head, tail[None]]).astype(signed.dtype)


def prove(rows: SignedRows, outcome: SubsystemOutcome) -> Subsystem:
    """The subsystem of an infeasible outcome, and whether exact multipliers are proven to exist."""
    signed = rows.signed
    size = signed.shape[1]
    is_example = outcome.members < size
    members = jnp.minimum(outcome.members, size - 1)
    values = jnp.where(is_example, outcome.multipliers, 0.0)
    is_used = values > _LEAST_MULTIPLIER * jnp.max(values)
    picked = jnp.concatenate([signed[:, members], jnp.ones((1, len(members)), signed.dtype)])
    integers, are_exact = _as_integers(picked[:-1], jnp.where(is_used, values, 0.0))
    is_certain = jnp.all(is_example) & _has_positive_solution(picked, outcome.inverse)
    kept = is_used | (is_certain & ~are_exact)
    multipliers = jnp.where(are_exact, integers, jnp.where(kept, values, 0.0))
    return Subsystem(
        jnp.where(kept, outcome.members, -1).astype(jnp.int32),
        multipliers,
        rows.is_exact & outcome.is_infeasible & (are_exact | is_certain),
    )


def _as_integers(picked: Array, values: Array) -> tuple[Array, Array]:
    """The least integer multiples of the multipliers [k] that are nearly integers, and whether they
    combine the rows `picked` [d + 1, k] to exactly 0.
    """
    smallest = jnp.min(jnp.where(values > 0, values, jnp.inf))
    ratios = values / jnp.where(smallest < jnp.inf, smallest, 1.0)
    multiples = jnp.arange(1, _MOST_MULTIPLE + 1, dtype=values.dtype)[:, None] * ratios[None]
    far = jnp.max(jnp.abs(multiples - jnp.round(multiples)), axis=1)
    chosen = jnp.minimum(numerics.first_true(far <= _NEARLY_INTEGER), _MOST_MULTIPLE - 1)
    integers = jnp.round(multiples[chosen])
    product = exact.two_product(jnp.broadcast_to(integers, picked.shape), picked)

    def add(state: tuple[Array, Array], term: Array) -> tuple[tuple[Array, Array], None]:
        total, is_exact = state
        summed = exact.two_sum(total, term)
        return (summed.hi, is_exact & (summed.lo == 0)), None

    start = jnp.zeros(picked.shape[0], picked.dtype), jnp.ones(picked.shape[0], bool)
    (total, is_exact), _ = loops.scan(add, start, product.hi.T)
    is_zero = jnp.all(is_exact & (total == 0)) & jnp.all(product.lo == 0)
    return integers, is_zero & (smallest < jnp.inf) & (jnp.max(integers) < 2.0**40)


def _has_positive_solution(basis: Array, inverse: Array) -> Array:
    """Whether `basis` [k, k] is regular and all entries of its exact solution for the last unit
    vector are positive, [] bool.

    With an approximate inverse R, and alpha = |I - R B| < 1, the exact solution is within
    |R (e - B x)| / (1 - alpha) of any x, in the largest entry.
    """
    size = basis.shape[0]
    rounding = (size + 8) * float(jnp.finfo(basis.dtype).eps)  # of a sum of `size` products
    unit = jnp.eye(size, dtype=basis.dtype)
    inverse = inverse + numerics.times(inverse, unit - numerics.times(basis, inverse))
    defect = jnp.abs(unit - numerics.times(inverse, basis)) + rounding * (
        unit + numerics.times(jnp.abs(inverse), jnp.abs(basis))
    )
    alpha = (1 + rounding) * jnp.max(jnp.sum(defect, axis=1))
    solution = inverse[:, -1]
    rest = jnp.abs(unit[:, -1] - numerics.times(basis, solution)) + rounding * (
        unit[:, -1] + numerics.times(jnp.abs(basis), jnp.abs(solution))
    )
    error = (1 + rounding) * jnp.max(numerics.times(jnp.abs(inverse), rest))
    return (alpha < 0.5) & (jnp.min(solution) > (1 + rounding) * error / (1 - alpha))
