"""The linear program of a node of branch and cut on (15) or (9) of Goldberg and Eckstein (2009).

All nodes share one matrix; only the bounds of variables and rows differ. What differs between the
two problems is in `domains`.

Variables are lambda [U], mu [U] and xi [m]. Rows are the margins [m], mu - lambda >= 0 [U],
sum lambda, the sums of mu over hypotheses that split the examples in the same way [U // 2], and
the current cuts [K] (`row_cuts`). The bound of a node is valid for any duals >= 0.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jboost.base import brackets
from jboost.base.numerics import spread, sum_down, times
from jboost.base.types import Array
from jboost.l0.branch_and_cut.domains import SimplexDomain
from jboost.l0.relaxation.cut_rows import CutRows
from jboost.l0.types import RelaxationInstance
from jboost.lp.simplex.boxes import BoxSolution

OPEN, NO, YES = -1, 0, 1
# Costs are perturbed by different amounts of the order of this power of the rounding unit, which
# avoids degenerate steps of length 0.
_SPREAD = 0.75


class Decisions(NamedTuple):
    """The decisions of a node, each OPEN, NO or YES: whether a hypothesis is used, whether an
    example is given up, and whether any hypothesis of a split is used.
    """

    columns: Array  # [U] int8
    examples: Array  # [m] int8
    splits: Array  # [U // 2] int8


class NodePool(NamedTuple):
    """The data that all nodes share."""

    instance: RelaxationInstance  # with the cuts "either"
    domain: SimplexDomain  # of the votes: a `SimplexDomain` or a `Box`
    # [U] int32 the split of each hypothesis; U // 2 for one that shares it with no other
    split_of: Array
    splits: Array  # [U // 2, U] 1 for the hypotheses of each split, else 0


class CutSet(NamedTuple):
    """The current cuts; rows of unused slots are 0."""

    rows: CutRows
    is_used: Array  # [K] bool


class NodeDuals(NamedTuple):
    """The duals of the rows, not negative."""

    margins: Array  # [m] w
    splits: Array  # [U // 2]
    cuts: Array  # [K] v


class NodeProof(NamedTuple):
    """The lower bounds that duals prove on a node and on its children, rounded down."""

    bound: Array  # []
    if_used: Array  # [U] if hypothesis u is used
    if_unused: Array  # [U]
    if_given_up: Array  # [m] if example i is given up
    if_kept: Array  # [m]


def make_pool(instance: RelaxationInstance, domain: SimplexDomain) -> NodePool:
    """The instance with the splits of its hypotheses: u and v belong to one split if H_u = a H_v +
    b on all examples, with a = -1 or +1.

    The constant hypotheses, which usually cost nothing, can turn u into v. So excluding u alone
    changes the optimum little, while branching on the whole split does.
    """
    num_examples, num_columns = instance.margins.shape
    is_real = instance.weights > 0
    signs = jnp.where(jnp.arange(num_examples) < instance.num_minority, 1.0, -1.0)
    outputs = (instance.margins * signs[:, None]).T
    rises = jnp.where(is_real[None, :], outputs - outputs[:, :1], 0.0)
    first = jnp.take_along_axis(rises, jnp.argmax(rises != 0, axis=1)[:, None], axis=1)
    rises = rises * jnp.sign(first)
    inner = times(rises, rises.T)
    sizes = jnp.diagonal(inner)
    is_split = instance.is_column & (sizes > 0)
    is_same = (sizes[:, None] + sizes[None, :] == 2 * inner) & is_split[:, None] & is_split[None, :]
    first_of = jnp.argmax(is_same, axis=1)
    leads = is_split & (first_of == jnp.arange(num_columns)) & (jnp.sum(is_same, axis=1) > 1)
    numbers = jnp.cumsum(leads) - 1
    split_of = jnp.where(is_split & leads[first_of], numbers[first_of], num_columns // 2).astype(
        jnp.int32
    )
    members = (split_of[None, :] == jnp.arange(num_columns // 2)[:, None]).astype(
        instance.margins.dtype
    )
    return NodePool(instance, domain, split_of, members)


def no_cuts(pool: NodePool, capacity: int) -> CutSet:
    """A set of empty slots for cuts."""
    num_examples, num_columns = pool.instance.margins.shape
    dtype = pool.instance.margins.dtype
    return CutSet(
        CutRows(
            jnp.zeros((capacity, num_columns), dtype), jnp.zeros((capacity, num_examples), dtype)
        ),
        jnp.zeros((capacity,), bool),
    )


def everything_open(pool: NodePool) -> Decisions:
    """The decisions of the root: all open, but hypotheses without cost are used."""
    num_examples, num_columns = pool.instance.margins.shape
    columns = jnp.where(pool.instance.costs > 0, OPEN, YES).astype(jnp.int8)
    return Decisions(
        columns,
        jnp.full((num_examples,), OPEN, jnp.int8),
        jnp.full((num_columns // 2,), OPEN, jnp.int8),
    )


def matrix(pool: NodePool, cuts: CutSet) -> Array:
    """The matrix of all rows."""
    margins = pool.instance.margins
    slack = pool.domain.big(pool.instance) + pool.instance.margin
    (num_examples, num_columns), dtype = margins.shape, margins.dtype
    eye, none = jnp.eye(num_columns, dtype=dtype), jnp.zeros_like(margins.T)
    return jnp.concatenate(
        [
            jnp.concatenate(
                [
                    margins,
                    jnp.zeros_like(margins),
                    slack * jnp.eye(num_examples, dtype=dtype),
                ],
                axis=1,
            ),
            jnp.concatenate([-eye, eye, none], axis=1),
            jnp.concatenate(
                [
                    jnp.ones((1, num_columns), dtype),
                    jnp.zeros((1, num_columns + num_examples), dtype),
                ],
                axis=1,
            ),
            jnp.concatenate(
                [jnp.zeros_like(pool.splits), pool.splits, none[: pool.splits.shape[0]]], axis=1
            ),
            cut_rows(cuts.rows),
        ]
    )


def cut_rows(rows: CutRows) -> Array:
    """Cuts [C] as rows of the matrix."""
    return jnp.concatenate([jnp.zeros_like(rows.selected), rows.selected, rows.slacks], axis=1)


def objective(pool: NodePool) -> Array:
    """The perturbed costs of all variables, in units of the largest weight."""
    instance = pool.instance
    costs = (
        jnp.concatenate([jnp.zeros_like(instance.costs), instance.costs, instance.weights])
        / instance.unit
    )
    return costs + jnp.finfo(costs.dtype).eps ** _SPREAD * spread(costs.shape[0], costs.dtype)


def bounds(pool: NodePool, cuts: CutSet, decisions: Decisions) -> tuple[Array, Array]:
    """The lower and upper bounds of all variables and then of all rows, for the decisions."""
    instance = pool.instance
    dtype, (num_examples, num_columns) = instance.margins.dtype, instance.margins.shape
    is_real = instance.weights > 0
    allowed = may_be_used(pool, decisions).astype(dtype)
    is_used = jnp.where(decisions.columns == YES, allowed, 0.0)
    nothing = jnp.zeros_like(allowed)
    least, most = (
        jnp.where(is_real, part, 0.0)
        for part in (
            (decisions.examples == YES).astype(dtype),
            (decisions.examples != NO).astype(dtype),
        )
    )
    least_total, most_total = (jnp.full((1,), part, dtype) for part in pool.domain.total())
    required = jnp.where(decisions.splits == YES, 1.0, 0.0).astype(dtype)
    lower = [
        nothing,
        is_used,
        least,
        jnp.where(is_real, instance.margin, -jnp.inf),
        nothing,
        least_total,
        required,
        jnp.where(cuts.is_used, 1.0, -jnp.inf),
    ]
    limits = num_columns, required.shape[0], cuts.is_used.shape[0]
    free = [jnp.full((size,), jnp.inf, dtype) for size in (num_examples, *limits)]
    return jnp.concatenate(lower), jnp.concatenate(
        [allowed, allowed, most, free[0], free[1], most_total, free[2], free[3]]
    )


def may_be_used(pool: NodePool, decisions: Decisions) -> Array:
    """Whether the decisions allow the use of each hypothesis, [U] bool."""
    is_ruled_out = jnp.append(decisions.splits == NO, False)[pool.split_of]
    return pool.instance.is_column & (decisions.columns != NO) & ~is_ruled_out


def variables(pool: NodePool, solution: BoxSolution) -> tuple[Array, Array, Array]:
    """The variables lambda [U], mu [U] and xi [m] of a solution."""
    num_examples, num_columns = pool.instance.margins.shape
    votes, selected, slacks = jnp.split(
        solution.values[: 2 * num_columns + num_examples], [num_columns, 2 * num_columns]
    )
    return votes, selected, slacks


def duals(pool: NodePool, solution: BoxSolution) -> NodeDuals:
    """The duals of a solution, in the units of the instance."""
    num_examples, num_columns = pool.instance.margins.shape
    of_rows = solution.reduced_costs[2 * num_columns + num_examples :]
    kept = jnp.where(jnp.isfinite(of_rows), jnp.maximum(of_rows, 0.0), 0.0) * pool.instance.unit
    margins, _, rest = jnp.split(kept, [num_examples, num_examples + num_columns + 1])
    splits, cuts = jnp.split(rest, [num_columns // 2])
    return NodeDuals(jnp.where(pool.instance.weights > 0, margins, 0.0), splits, cuts)


def split_places(pool: NodePool) -> Array:
    """The indices of the sums over splits among variables and rows, [U // 2]."""
    num_examples, num_columns = pool.instance.margins.shape
    return 3 * num_columns + 2 * num_examples + 1 + jnp.arange(num_columns // 2, dtype=jnp.int32)


def cut_places(pool: NodePool, capacity: int) -> Array:
    """The indices of the cuts among variables and rows, [K]."""
    num_examples, num_columns = pool.instance.margins.shape
    return (
        3 * num_columns
        + 2 * num_examples
        + 1
        + num_columns // 2
        + jnp.arange(capacity, dtype=jnp.int32)
    )


def prove(pool: NodePool, cuts: CutSet, decisions: Decisions, duals: NodeDuals) -> NodeProof:
    """The bounds that duals prove: the Lagrangian at its minimum, where mu and xi are at the better
    end of their intervals, and lambda is where the domain has its least.

    Let c' be the costs less the duals of cuts and splits times their entries. An open mu_u >=
    lambda_u contributes min(0, c'_u) + max(0, c'_u) lambda_u.
    """
    instance = pool.instance
    given = jnp.concatenate([cuts.rows.selected, pool.splits]).T
    v = jnp.concatenate(
        [
            jnp.where(cuts.is_used, duals.cuts, 0.0),
            jnp.where(decisions.splits == YES, duals.splits, 0.0),
        ]
    )
    rest = _less(instance.costs, given, v)
    edges = brackets.bracket_dot(instance.margins.T, duals.margins[None, :])[1]
    unpaid = _unpaid(pool, cuts.rows.slacks, v[: cuts.is_used.shape[0]], duals.margins)
    allowed = may_be_used(pool, decisions)
    is_free, is_real = allowed & (decisions.columns == OPEN), instance.weights > 0
    is_undecided = is_real & (decisions.examples == OPEN)
    is_used = allowed & (decisions.columns == YES)
    of_domain = pool.domain.terms(rest, edges, is_free, is_used)
    of_examples = jnp.where(
        is_undecided,
        jnp.minimum(unpaid[0], 0.0),
        jnp.where(is_real & (decisions.examples == YES), unpaid[0], 0.0),
    )
    terms = jnp.concatenate(
        [duals.margins, v, of_domain.of_columns, of_examples, of_domain.least[None]]
    )
    by = jnp.concatenate(
        [
            jnp.broadcast_to(instance.margin, duals.margins.shape),
            jnp.ones((len(terms) - len(duals.margins),), terms.dtype),
        ]
    )
    bound = brackets.bracket_dot(terms, by)[0]
    return NodeProof(
        bound,
        jnp.where(is_free, sum_down(bound, of_domain.if_used), bound),
        jnp.where(is_free, sum_down(bound, of_domain.if_unused), bound),
        jnp.where(is_undecided, sum_down(bound, jnp.maximum(unpaid[0], 0.0)), bound),
        jnp.where(is_undecided, sum_down(bound, jnp.maximum(-unpaid[1], 0.0)), bound),
    )


def _less(prices: Array, entries: Array, values: Array) -> tuple[Array, Array]:
    """prices [k] less entries [k, K] times values [K], rounded down and up."""
    left = jnp.concatenate([prices[:, None], entries], axis=1)
    return brackets.bracket_dot(left, jnp.append(1.0, -values)[None, :])


def _unpaid(pool: NodePool, slacks: Array, v: Array, w: Array) -> tuple[Array, Array]:
    """weights - (big + rho) w - slacks' v, [m], rounded down and up."""
    instance, ones = pool.instance, jnp.ones_like(w)[:, None]
    big = pool.domain.big(instance)
    left = jnp.concatenate(
        [instance.weights[:, None], big * ones, instance.margin * ones, slacks.T], axis=1
    )
    right = jnp.concatenate(
        [ones, -w[:, None], -w[:, None], jnp.broadcast_to(-v[None, :], (w.shape[0], v.shape[0]))],
        axis=1,
    )
    return brackets.bracket_dot(left, right)
