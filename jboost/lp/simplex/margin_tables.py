"""The program of `jboost.lp.simplex.margins` as linear forms, and the table of a basis.

Forms, variables, slots, places and positions are defined there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import numerics, reduce
from jboost.base.numerics import times
from jboost.base.types import Array

# A power of the rounding unit: the size of the amounts by which margins are raised, and the
# smallest slope that is not flat.
_RAISED = 0.75
_NEAR = 1e-3  # the largest error of the inverse of the first basis, after its correction
_LEAST_VOTE = 0.5  # a power of the rounding unit: how far votes of the first basis may be below 0
_STEEP = 0.01  # slopes up to this share of the tolerance are flat
# The margins of a vote that is not in use. The objective of every vertex is larger, so such a vote
# stays 0.
_UNUSED = -2.0
FIXED = 2  # the number of fixed positions: the sum of the votes and the constant


class Basis(NamedTuple):
    """The votes and margins that are 0 at a vertex, and the variables as functions of them."""

    places: Array  # [n + m] int32 of the slots, then of the basic forms
    # [n + 2, n + 2] each variable, in a column, as a linear function of the slots, of the sum of
    # the votes and of the constant
    inverse: Array


class MarginProgram(NamedTuple):
    columns: Array  # [n, m]
    # [n + 2, n + m + 3] the form of each place, in a column, as coefficients of the variables
    forms: Array
    caps: Array  # [n + m + 3] the penalty of each place per unit below 0
    flat: Array  # [] slopes up to this count as 0


class MarginTable(NamedTuple):
    """The basic forms, and rho as the last of them, as linear functions of the slots, of the sum of
    the votes and of the constant.
    """

    # [n + 2, m + 1] the values where all slots are 0 are the sum of the last two rows
    entries: Array
    places: Array  # [n + m + 3] int32 by position
    # [n + m + 3] by position: the penalty where the form is below 0, else minus the penalty
    sides: Array
    norms: Array  # [n + 2] the squared norms of the rows, plus 1 for the slot itself
    slopes: Array  # [n + 2] the derivative of the objective with respect to each slot, upwards
    # [] bool, False at the optimum, and where rounding errors hide the end of a step
    has_moved: Array
    num_pivots: Array  # [] int32; -1 before slopes are computed


def nothing(num_examples: int, capacity: int, dtype: Any) -> Basis:
    """A placeholder for no basis: the method then starts with a single hypothesis."""
    size = capacity + FIXED
    return Basis(
        jnp.arange(capacity + num_examples, dtype=jnp.int32), jnp.full((size, size), jnp.nan, dtype)
    )


def grown(basis: Basis, num_new: int) -> Basis:
    """The basis with `num_new` additional votes, each of which is a slot."""
    num_votes = basis.inverse.shape[0] - FIXED
    places = jnp.where(basis.places < num_votes, basis.places, basis.places + num_new)
    new = num_votes + jnp.arange(num_new, dtype=jnp.int32)
    inverse = jnp.eye(num_votes + num_new + FIXED, dtype=basis.inverse.dtype)
    old = jnp.r_[:num_votes, num_votes + num_new, num_votes + num_new + 1]
    return Basis(
        jnp.concatenate([places[:num_votes], new, places[num_votes:]]),
        inverse.at[jnp.ix_(old, old)].set(basis.inverse),
    )


def make_program(columns: Array, is_used: Array, caps: Array, tolerance: Array) -> MarginProgram:
    dtype, (num_votes, num_examples) = columns.dtype, columns.shape
    rounding = jnp.finfo(dtype).eps ** _RAISED
    columns = jnp.where(is_used[:, None], columns, _UNUSED)
    raised = rounding * numerics.spread(num_examples, dtype)
    margins = jnp.concatenate([columns, jnp.full((1, num_examples), -1.0, dtype), raised[None, :]])
    rho = num_votes + num_examples
    variable, place = jnp.arange(num_votes + FIXED)[:, None], jnp.arange(rho + 1 + FIXED)[None, :]
    is_vote = variable < num_votes
    of_fixed = jnp.where(
        is_vote,
        place == rho + 1,
        place == variable + num_examples + jnp.where(variable > num_votes, 1, 0),
    )
    forms = jnp.where(
        (is_vote & (place == variable)) | of_fixed,
        1.0,
        jnp.pad(margins, ((0, 0), (num_votes, 1 + FIXED))),
    )
    unlimited = jnp.full((num_votes,), jnp.inf, dtype)
    caps = jnp.concatenate([unlimited, jnp.minimum(caps, 1.0), jnp.ones((1 + FIXED,), dtype)])
    return MarginProgram(
        columns, forms, caps, jnp.maximum(_STEEP * tolerance, rounding).astype(dtype)
    )


def first_basis(program: MarginProgram) -> Basis:
    """The basis of the single hypothesis with the largest edge, where rho is its least margin."""
    num_votes, num_examples = program.columns.shape
    caps = program.caps[num_votes : num_votes + num_examples]
    vote = lax.argmax(times(program.columns, caps), 0, jnp.int32)
    forms = program.forms[:, num_votes : num_votes + num_examples]
    margin = lax.argmin(jnp.where(caps > 0, forms[vote] + forms[-1], jnp.inf), 0, jnp.int32)
    place = jnp.arange(num_votes + num_examples, dtype=jnp.int32)
    places = jnp.where(
        place == vote, num_votes + margin, jnp.where(place == num_votes + margin, vote, place)
    )

    unit, variable = (
        jnp.arange(num_votes + FIXED)[:, None],
        jnp.arange(num_votes + FIXED)[None, :],
    )
    is_slot, form = unit < num_votes, forms[:, margin]
    of_vote = jnp.where(
        unit == vote, 0.0, jnp.where(is_slot, -1.0, jnp.where(unit == num_votes, 1.0, 0.0))
    )
    of_rho = (
        jnp.where(unit == vote, -1.0, jnp.where(unit == num_votes, 0.0, form[:, None]))
        + of_vote * form[vote]
    )
    others = jnp.where((unit == variable) & (unit != num_votes), 1.0, 0.0)
    inverse = jnp.where(variable == vote, of_vote, jnp.where(variable == num_votes, of_rho, others))
    return Basis(places, inverse.astype(program.forms.dtype))


def make_table(program: MarginProgram, basis: Basis) -> tuple[MarginTable, Array]:
    """The table of a basis, and whether the basis is a vertex, [] bool.

    First the inverse X is replaced by X (2 - K X), one Newton step. This squares its error, and
    computes the entries of new votes exactly.
    """
    num_votes, num_examples = program.columns.shape
    rho = num_votes + num_examples
    fixed = jnp.array([rho + 1, rho + 2], jnp.int32)
    places = jnp.concatenate(
        [basis.places[:num_votes], fixed, basis.places[num_votes:], jnp.array([rho], jnp.int32)]
    )
    forms = numerics.take(program.forms, places)
    slots, basics = forms[:, : num_votes + FIXED], forms[:, num_votes + FIXED :]
    inverse = 2 * basis.inverse - times(times(basis.inverse, slots), basis.inverse)
    entries = times(inverse, basics)
    values = entries[-2] + entries[-1]
    caps = numerics.take(program.caps, places)
    is_below = jnp.pad(
        (values < 0) & (places[num_votes + FIXED :] >= num_votes), (num_votes + FIXED, 0)
    ) | (places == rho)
    sides = jnp.where(is_below, caps, -caps)
    norms = 1 + times(entries * entries, jnp.ones_like(values))
    table = MarginTable(
        entries,
        places,
        sides,
        norms,
        jnp.zeros_like(norms),
        jnp.ones((), bool),
        jnp.full((), -1, jnp.int32),
    )
    return table, _is_vertex(slots, inverse)


def _is_vertex(slots: Array, inverse: Array) -> Array:
    """Whether the inverse belongs to the slots and no vote is negative, up to rounding."""
    num_votes = slots.shape[0] - FIXED
    probe = numerics.spread(slots.shape[0], slots.dtype)
    missed = times(inverse, times(slots, probe)) - probe
    votes = (inverse[-2] + inverse[-1])[:num_votes]
    return (reduce.largest(jnp.abs(missed)) <= _NEAR) & (
        reduce.least(votes) >= -(jnp.finfo(slots.dtype).eps ** _LEAST_VOTE)
    )


def basis_of(table: MarginTable) -> Basis:
    """The basis of a table, with the inverse that the table holds."""
    num_slots = table.slopes.shape[0]
    num_votes = num_slots - FIXED
    variables = jnp.append(
        positions(table)[:num_votes],
        jnp.array([table.places.shape[0] - 1, num_votes + 1], jnp.int32),
    )
    every = jnp.concatenate([jnp.eye(num_slots, dtype=table.entries.dtype), table.entries], axis=1)
    return Basis(
        jnp.concatenate([table.places[:num_votes], table.places[num_slots:-1]]),
        numerics.take(every, variables),
    )


def positions(table: MarginTable) -> Array:
    """The position of each place."""
    position = jnp.arange(table.places.shape[0], dtype=jnp.int32)
    return (
        jnp.zeros_like(table.places)
        .at[table.places]
        .set(position, unique_indices=True, mode="promise_in_bounds")
    )
