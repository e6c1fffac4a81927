"""One batch of nodes of the branch and cut: their bounds, the best vote, and their children.

The search itself is `jboost.l0.branch_and_cut.solve`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import check, loops
from jboost.base.types import Array
from jboost.l0.branch_and_cut import branching, cutting, incumbents
from jboost.l0.branch_and_cut.cutting import Engine, Goal
from jboost.l0.branch_and_cut.node_program import NO, YES, Decisions, NodePool
from jboost.l0.votes import local_search
from jboost.l0.votes.local_search import FeasibleVote
from jboost.search import stack
from jboost.search.stack import Stack


@dataclasses.dataclass(frozen=True)
class ExactConfig:
    """Static sizes of the branch and cut."""

    batch: int = 8
    """The number of nodes that are removed from the stack and solved together."""
    capacity: int = 4096
    """The number of nodes that the stack holds. When it is full, the search ends with a valid
    bound.
    """
    max_batches: int = 10_000
    """The largest number of batches. After it the search ends with a valid bound."""
    num_cuts: int | None = None
    """The number of cuts held at a time. None for one per example plus two per column, at least 64.
    The memory of a cut is that of twice the columns plus the examples.
    """
    root_rounds: int = 40
    """The largest number of linear programs of the root. Each adds the cuts that the previous
    solution violates.
    """
    node_rounds: int = 4
    """The same for other nodes."""
    num_triples: int = 0
    """The largest number of Chvatal-Gomory cuts from triples of pair cuts that a linear program
    adds, as in `jboost.l0.strengthen`; 0 for none. A node then takes longer, and there may be fewer
    of them.
    """
    num_tried: int = 8
    """The number of branching candidates of a node that are tried (strong branching)."""
    tried_pivots: int = 15
    """The number of pivots of a trial."""
    search: local_search.SearchConfig = dataclasses.field(
        default_factory=lambda: local_search.SearchConfig(max_moves=50)
    )
    """The local search that starts from the best vote of each batch."""

    def __post_init__(self) -> None:
        for name in (
            "batch",
            "capacity",
            "max_batches",
            "root_rounds",
            "node_rounds",
            "num_tried",
            "tried_pivots",
        ):
            check.count(f"config.{name}", getattr(self, name), low=1)
        check.count("config.num_triples", self.num_triples, low=0)
        if self.num_cuts is not None:
            check.count("config.num_cuts", self.num_cuts, low=1)
        check.record("config.search", self.search, local_search.SearchConfig)
        validate_unlimited("config.search", self.search)


def validate_unlimited(name: str, search: Any) -> None:
    """Raises ValueError for a config that limits the number of hypotheses that vote."""
    most = getattr(search, "max_hypotheses", None)
    if most is not None:
        raise ValueError(
            f"{name}.max_hypotheses is {most}: the optimum is over any number of hypotheses; leave"
            " it out"
        )


class TreeNode(NamedTuple):
    decisions: Decisions
    bound: Array  # []


class ExactState(NamedTuple):
    """The state of the search between two batches."""

    stack: Stack
    best: FeasibleVote
    goal: Array  # [] the lesser of the loss of `best` and the cutoff
    floor: Array  # [] the least bound of the nodes that were dropped
    num_nodes: Array  # [] int32
    engine: Engine
    checksum: Array  # [] uint32 of the data, the domain and the cutoff


class _Batch(NamedTuple):
    """The state that is passed from one node of a batch to the next."""

    engine: Engine
    best: FeasibleVote
    lead: FeasibleVote  # the best vote rounded from a program of this batch
    goal: Array  # []
    floor: Array  # []


def advance_batch(
    pool: NodePool, state: ExactState, tolerance: Array, config: ExactConfig
) -> ExactState:
    """One batch, nodes of the least bounds first: computes their bounds, updates the best vote, and
    puts the children of nodes that may contain a better one on the stack.
    """
    nodes, is_node, begin = stack.top(state.stack, config.batch)
    max_rounds = jnp.where(state.num_nodes == 0, config.root_rounds, config.node_rounds)

    def work(
        batch: _Batch, part: tuple[TreeNode, Array]
    ) -> tuple[_Batch, tuple[TreeNode, TreeNode, Array]]:
        node, is_node = part
        goal = cutting.make_goal(pool, batch.goal, tolerance)
        is_open = is_node & (node.bound < goal.closing)
        return loops.cond(
            is_open,
            lambda: _process(pool, batch, node, goal, max_rounds, config),
            lambda: (_skipped(batch, node, is_node), (node, node, is_open)),
        )

    nowhere = state.best._replace(loss=jnp.full_like(state.best.loss, jnp.inf))
    first = _Batch(state.engine, state.best, nowhere, state.goal, state.floor)
    batch, (no, yes, is_parent) = loops.scan(work, first, (nodes, is_node), reverse=True)
    after = _with_children(state.stack, begin, (no, yes), is_parent, config)
    searched = local_search.search(
        pool.domain.instance_of(pool.instance), batch.lead, config=config.search
    )
    searched = pool.domain.reevaluated(pool.instance, searched)
    best = local_search.better(batch.best, searched)
    num_nodes = state.num_nodes + jnp.sum(is_node, dtype=jnp.int32)
    return ExactState(
        after,
        best,
        jnp.minimum(batch.goal, best.loss),
        batch.floor,
        num_nodes,
        batch.engine,
        state.checksum,
    )


def _with_children(
    nodes: Stack,
    begin: Array,
    pair: tuple[TreeNode, TreeNode],
    is_parent: Array,
    config: ExactConfig,
) -> Stack:
    """The stack with the two children [b] of each parent of a batch, least bounds on top, in place
    of the nodes from `begin` on.
    """
    children = jax.tree.map(lambda one, other: jnp.concatenate([one, other]), *pair)
    is_child = jnp.tile(is_parent, 2)
    order = jnp.argsort(jnp.where(is_child, -children.bound, jnp.inf))
    after = stack.put(
        nodes,
        jax.tree.map(lambda leaf: leaf[order], children),
        jnp.sum(is_child, dtype=jnp.int32),
        begin,
    )
    return _lowest_on_top(after, config)


def _skipped(batch: _Batch, node: TreeNode, is_node: Array) -> _Batch:
    """The batch after a node that is closed already."""
    return batch._replace(floor=jnp.minimum(batch.floor, jnp.where(is_node, node.bound, jnp.inf)))


def _process(
    pool: NodePool,
    batch: _Batch,
    node: TreeNode,
    goal: Goal,
    max_rounds: Array,
    config: ExactConfig,
) -> tuple[_Batch, tuple[TreeNode, TreeNode, Array]]:
    """Processes a node. Returns the batch after it, its two children, and whether they exist."""
    seen = cutting.visit(
        pool,
        batch.engine,
        node.decisions,
        node.bound,
        goal,
        max_rounds,
        num_triples=config.num_triples,
    )
    vote = incumbents.nearest(pool, seen)
    best = local_search.better(batch.best, vote)
    found = jnp.minimum(batch.goal, best.loss)
    after = cutting.make_goal(pool, found, goal.tolerance)
    goes_on = seen.bound < after.closing
    candidate = loops.cond(
        goes_on,
        lambda: _choose(pool, seen, found, config),
        lambda: branching.no_candidate(pool),
    )
    is_parent = goes_on & candidate.exists
    floor = jnp.minimum(
        batch.floor, jnp.where(~is_parent & (seen.bound < found), seen.bound, jnp.inf)
    )
    children = tuple(
        TreeNode(branching.decided(seen.decisions, candidate.place, value), seen.bound)
        for value in (NO, YES)
    )
    return _Batch(seen.engine, best, local_search.better(batch.lead, vote), found, floor), (
        *children,
        is_parent,
    )


def _choose(
    pool: NodePool, seen: cutting.Visit, goal: Array, config: ExactConfig
) -> branching.BranchingCandidate:
    """The decision to branch on in a node that was visited."""
    return branching.choose(
        pool,
        seen.engine.cuts,
        seen.decisions,
        seen.solution,
        goal,
        num_tried=config.num_tried,
        num_pivots=config.tried_pivots,
    )


def _lowest_on_top(nodes: Stack, config: ExactConfig) -> Stack:
    """Sorts the stack so that the nodes of least bounds are on top and the global bound rises. Once
    the stack is half full, the latest nodes stay on top, as depth first keeps fewer nodes open.
    """
    return loops.cond(
        nodes.count <= config.capacity // 2,
        lambda: stack.sorted_by(nodes, -nodes.nodes.bound),
        lambda: nodes,
    )
