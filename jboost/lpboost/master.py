"""The restricted master of LP-Boost: the dual of formulation (3) of Goldberg and Eckstein 2009 over
the columns seen.

    minimise beta  s.t.  sum_i u_i y_i h_j(x_i) <= beta for every column j,
    sum u = 1,
    0 <= u_i <= D_i

u are the example weights, beta is the largest edge, and the votes lambda are minus the duals of the
rows. D = 1 / (nu m), or with weights that count as multiplicities D_i = p_i / nu with p the share
of an example. The capacity is fixed: rows of unused slots never bind, and every round solves a
program of the same shape. This module proves nothing: the bounds are computed from its points, of
any precision.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost import operators
from jboost.base import check, meshes, numerics, reduce
from jboost.base.types import Array
from jboost.lp import first_order, interior_point
from jboost.lp.first_order import FirstOrderConfig, WarmStart
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lp.problem import LinearProgram
from jboost.lp.simplex import margin_tables
from jboost.lp.simplex import margins as margin_simplex
from jboost.lp.simplex.margin_tables import Basis
from jboost.lp.simplex.margins import SimplexConfig
from jboost.lp.types import NO_PROOF
from jboost.projections import projection_capped_simplex
from jboost.relaxations import games
from jboost.relaxations.caps import SoftMargin
from jboost.relaxations.games import RelaxedGame, SolverConfig
from jboost.relaxations.votes import UnitSimplex

Config = InteriorPointConfig | FirstOrderConfig | SimplexConfig | SolverConfig
Warm = Basis | WarmStart | tuple[()]
LARGEST_EDGE = 2.0  # a bound on beta that never binds, since edges are at most 1


def validate_config(config: Any) -> None:
    """Raises ValueError unless `config` is that of a solver of linear programs, or None."""
    if config is not None:
        check.record(
            "config", config, SimplexConfig, InteriorPointConfig, FirstOrderConfig, SolverConfig
        )


class MasterSolution(NamedTuple):
    """The primal and the dual solution of the master, feasible and of sum one up to rounding."""

    votes: Array  # [capacity]
    example_weights: Array  # [m]
    warm: Warm  # the warm start of the next master, for methods that have one
    num_iterations: Array  # [] int32


def start(config: Config, num_examples: int, capacity: int, dtype: Any) -> Warm:
    """The value of `warm` before the first master."""
    if isinstance(config, SimplexConfig):
        return margin_tables.nothing(num_examples, capacity, dtype)
    if isinstance(config, InteriorPointConfig | SolverConfig):
        return ()
    return WarmStart(
        jnp.zeros((num_examples + 1,), dtype),
        jnp.zeros((capacity + 1,), dtype),
        jnp.zeros((), dtype),
    )


def method_of(warm: Warm) -> Config:
    """The method that made a warm start, with default sizes."""
    if isinstance(warm, Basis):
        return SimplexConfig()
    if isinstance(warm, WarmStart):
        return FirstOrderConfig()
    return for_many_devices() if meshes.is_set() else InteriorPointConfig()


def for_many_devices() -> SolverConfig:
    """The method for examples that are sharded over a mesh. A step computes two products with the
    matrix and sums over the examples.

    The other methods concatenate vectors over examples and votes, which XLA gathers on every
    device, or extract single columns.
    """
    return SolverConfig(max_iterations=20_000)


def is_used_up(config: Config, num_iterations: Array) -> Array:
    """Whether a method that made so many iterations ended at its limit, [] bool."""
    return num_iterations + config.at_once > config.max_iterations


def finds_vertices(config: Config) -> bool:
    """Whether the solutions of a method are vertices, which have few votes."""
    return isinstance(config, SimplexConfig)


def grown(warm: Warm, num_new: int) -> Warm:
    """The warm start of a master with `num_new` more columns, appended at the end."""
    if isinstance(warm, Basis):
        return margin_tables.grown(warm, num_new)
    return (
        warm._replace(dual=jnp.insert(warm.dual, -1, jnp.zeros((num_new,))))
        if isinstance(warm, WarmStart)
        else warm
    )


def program(columns: Any, is_used: Array, caps: Array) -> LinearProgram:
    """The master as a linear program in (u, beta), with a row for every slot and one for sum u = 1.

    Args:
      columns: [capacity, m] y_i h_j(x_i), 0 for padding; a matrix or an operator.
      is_used: [capacity] bool.
      caps: [m] D_i, 0 for padding.
    """
    capacity, num_examples = columns.shape
    dtype = caps.dtype
    below, beside = jnp.ones((1, num_examples), dtype), -jnp.ones((capacity, 1), dtype)
    operator: operators.Operator
    if operators.is_operator(columns):
        operator = operators.bordered(columns, rows=below, columns=beside)
    else:
        operator = operators.dense(
            jnp.block([[columns, beside], [below, jnp.zeros((1, 1), dtype)]])
        )
    one = jnp.ones((1,), dtype)
    return LinearProgram(
        objective=jnp.zeros((num_examples + 1,), dtype).at[-1].set(1.0),
        operator=operator,
        row_lower=jnp.concatenate([jnp.full((capacity,), -jnp.inf, dtype), one]),
        row_upper=jnp.concatenate([jnp.where(is_used, 0.0, jnp.inf).astype(dtype), one]),
        lower=jnp.zeros((num_examples + 1,), dtype).at[-1].set(-LARGEST_EDGE),
        upper=jnp.concatenate([jnp.minimum(caps, 1.0), LARGEST_EDGE * one]),
    )


def solve(
    columns: Any,
    is_used: Array,
    caps: Array,
    *,
    before: MasterSolution,
    tolerance: Array,
    spare: Array,
    config: Config,
) -> MasterSolution:
    """Solves the master, to the precision that rounding allows.

    Args:
      columns: [capacity, m]; an operator only for the first-order methods.
      is_used: [capacity] bool.
      caps: [m].
      before: the last solution. Where the solver fails to find votes or example weights, these are
        returned. Its `warm` is that of `start` or of an earlier master; for a cold start of a
        simplex method it may be ().
      tolerance: [] for the residuals and the gap of the linear program.
      spare: [] how much of the sum of the votes may be dropped, smallest votes first. No vote of an
        interior point is exactly 0, and some votes of a vertex are only rounding errors.
      config: static; which method, and its sizes.
    """
    found = _solve_by(config, columns, is_used, caps, before, tolerance)
    weights = jnp.maximum(found.example_weights, 0.0)
    total = numerics.precise_sum(weights)
    weights = jnp.where((total > 0) & (total < jnp.inf), weights, before.example_weights)
    votes = jnp.where(is_used, jnp.maximum(found.votes, 0.0), 0.0)
    if not finds_vertices(config):
        weights = projection_capped_simplex(weights, caps, mask=caps > 0)
        votes = _distribution(votes, before.votes)
    votes = jnp.where(_is_small(votes, spare), 0.0, votes)
    return found._replace(votes=_distribution(votes, before.votes), example_weights=weights)


def _solve_by(
    config: Config,
    columns: Any,
    is_used: Array,
    caps: Array,
    before: MasterSolution,
    tolerance: Array,
) -> MasterSolution:
    warm: Any = before.warm
    if isinstance(config, SimplexConfig):
        vertex = margin_simplex.solve(
            columns, is_used, caps, basis=warm or None, tolerance=tolerance, config=config
        )
        return MasterSolution(
            vertex.votes, vertex.example_weights, vertex.basis, vertex.num_iterations
        )
    if isinstance(config, SolverConfig):
        return _play(config, columns, is_used, caps, before, tolerance)
    problem = program(columns, is_used, caps)
    if isinstance(config, InteriorPointConfig):
        # as it stands
        solution = interior_point.solve(
            problem, tolerance, dataclasses.replace(config, proof=NO_PROOF, scaling_rounds=0)
        )
        return MasterSolution(
            -solution.dual[:-1], solution.primal[:-1], (), solution.num_iterations
        )
    last = first_order.run(problem, tolerance, dataclasses.replace(config, proof=NO_PROOF), warm)
    found = first_order.warm_start(last)
    return MasterSolution(-found.dual[:-1], found.primal[:-1], found, last.num_iterations)


def _play(
    config: SolverConfig,
    columns: Array,
    is_used: Array,
    caps: Array,
    before: MasterSolution,
    tolerance: Array,
) -> MasterSolution:
    """Solves the master as a game between votes and example weights, from the last solution."""
    # caps are the shares of the examples divided by nu
    prior = jnp.where(caps > 0, caps / numerics.precise_sum(caps), 0.0)
    cap = numerics.precise_sum(caps) / numerics.precise_sum((caps > 0).astype(caps.dtype))
    game = RelaxedGame(columns.T, SoftMargin(cap, None), UnitSimplex(is_used), prior)
    best, num_iterations = games.play(
        game, tolerance, config, (before.votes, before.example_weights)
    )
    return MasterSolution(best.coefficients, best.example_weights, (), num_iterations)


def _distribution(votes: Array, otherwise: Array) -> Array:
    total = numerics.precise_sum(votes)
    is_known = (total > 0) & (total < jnp.inf)
    return jnp.where(is_known, votes / jnp.where(is_known, total, 1.0), otherwise)


def _is_small(votes: Array, spare: Array) -> Array:
    """Which of the votes [capacity] are the smallest, up to a total of `spare`. Of equal votes
    either all are included or none.
    """
    in_order = jnp.sort(votes)
    least_kept = reduce.least(jnp.where(jnp.cumsum(in_order) > spare, in_order, jnp.inf))
    return votes < least_kept
