"""The solution of a search in the units of the arguments: its value, its bound and its status."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, meshes, numerics
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.monomials import integers
from jboost.monomials.found import SearchOutcome
from jboost.monomials.problem import MonomialProblem, float_type_of
from jboost.monomials.types import Monomials, MonomialSolution, Rewards


@jax.jit
def make_solution(
    problem: MonomialProblem, outcome: SearchOutcome, columns: Array
) -> MonomialSolution:
    """The solution in terms of the caller's attributes and weights. `columns` [n] is N for padding
    attributes.
    """
    num_attributes, width = problem.features.shape[1], columns.shape[0]
    flags = integers.unpack(outcome.found.literals, 2 * width).astype(jnp.int8)
    literals = (
        jnp.zeros((flags.shape[0], num_attributes + 1), jnp.int8)
        .at[:, columns]
        .set(flags[:, :width] - flags[:, width:])[:, :num_attributes]
    )
    is_allowed = jnp.sum(jnp.abs(literals), axis=1, dtype=jnp.int32) < problem.costs.shape[0]
    is_found = (
        (outcome.found.values > jnp.iinfo(outcome.found.values.dtype).min)
        & is_allowed
        & problem.is_valid
    )
    values = jnp.where(is_found, _value(problem, literals, outcome.found.signs), -jnp.inf)
    # sorted anew: with rewards the search has lower bounds only, and integer costs are rounded down
    order = jnp.argsort(-values, stable=True)
    values = values[order]
    literals = jnp.where((values > -jnp.inf)[:, None], literals[order], 0)
    signs = jnp.where(values > -jnp.inf, outcome.found.signs[order], 1).astype(jnp.int8)
    above = integers.largest_value(
        outcome.bound, problem.power, jnp.min(problem.costs), problem.spare
    )
    upper = jnp.where(problem.is_valid, jnp.maximum(above, values[0]), jnp.inf)
    status = jnp.where(
        outcome.is_cut_off,
        int(Status.ITERATION_LIMIT),
        jnp.where(outcome.is_enough, int(Status.ENOUGH), int(Status.OPTIMAL)),
    )
    status = jnp.where(outcome.is_full, int(Status.CAPACITY_LIMIT), status)
    status = jnp.where(problem.is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
    return MonomialSolution(
        literals[0],
        signs[0],
        values[0],
        upper,
        Monomials(literals, signs, values),
        outcome.num_nodes,
        status,
    )


@meshes.takes_gathered
def covers(literals: ArrayLike, features: ArrayLike) -> Array:
    """Which examples [m, N] satisfy monomials [k, N] of +1, -1 and 0: [k, m] bool. Raises
    ValueError for shapes that do not agree.
    """
    table = check.numeric("features", features, shape=("m", "N"), kinds="fiub")
    signs = check.numeric("literals", literals, shape=("k", table.shape[1]), kinds="fi")
    dtype = float_type_of(table.dtype)
    wanted = jnp.concatenate([signs == 1, signs == -1], axis=1).astype(dtype)
    missed = jnp.concatenate([table != 1, table != 0], axis=1).astype(dtype)
    return numerics.times(wanted, missed.T) == 0


def _value(problem: MonomialProblem, literals: Array, signs: Array) -> Array:
    """(27) of monomials [k, N] with signs [k], in floats."""
    inside = covers(literals, problem.features)
    agreement = numerics.times(
        inside.astype(problem.weights.dtype), (problem.weights * problem.labels)[:, None]
    )[:, 0]
    worth = (
        signs.astype(agreement.dtype) * agreement
        - problem.costs[jnp.sum(jnp.abs(literals), axis=1, dtype=jnp.int32)]
    )
    if problem.pairs is None:
        return worth
    return worth + _paid(problem.pairs, problem.labels, inside, signs)


def _paid(rewards: Rewards, labels: Array, inside: Array, signs: Array) -> Array:
    """The rewards [k] that covers [k, m] with signs [k] gain, one monomial at a time."""
    first, second = rewards.pairs.T

    def of_one(cover: tuple[Array, Array]) -> Array:
        is_covered, sign = cover
        is_gained = is_covered[first] & ~is_covered[second] & (labels[first] == sign)
        return jnp.sum(jnp.where(is_gained, rewards.values, 0))

    return jnp.asarray(lax.map(of_one, (inside, signs)))
