"""The sparse minimum disagreement problem (15) of Goldberg and Eckstein (2009) over a pool, solved
to proven optimality by branch and cut.

A node fixes some decisions: whether a hypothesis is used (mu_u), whether an example may miss the
margin (xi_i), and whether any hypothesis of a set is used. The hypotheses of such a set split the
examples in the same way. The linear program of a node is that of the root with other bounds
(`node_program`). The simplex method starts from the final table of the previous node. Cuts come
from pairs and from combinations of margin rows (`row_cuts`). The weights of a combination are taken
from a row of the simplex table. The cuts are valid for all nodes. The duals also fix variables: a
value is excluded if its bound is at least the best loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import batching, check, checksums, derivatives, devices, loops, meshes
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.l0 import relaxation
from jboost.l0.branch_and_cut import cutting, node_program
from jboost.l0.branch_and_cut.batches import (
    ExactConfig,
    ExactState,
    TreeNode,
    advance_batch,
)
from jboost.l0.branch_and_cut.domains import SimplexDomain
from jboost.l0.branch_and_cut.node_program import NodePool
from jboost.l0.votes import local_search
from jboost.search import stack

_SIMPLEX = SimplexDomain()
# What the checksum of a state is of.
_PARTS = "outputs, labels, costs, weights, masks, margin (or `largest`) or cutoff"


class Exact(NamedTuple):
    """The best point of (15) found, and a lower bound on the optimum."""

    coefficients: Array  # [U] lambda, on the simplex in exact arithmetic
    loss: Array  # [] of the coefficients, rounded up
    lower_bound: Array  # [] on the optimum of (15)
    num_nodes: Array  # [] int32, nodes taken off the stack
    # [] int32: OPTIMAL, ITERATION_LIMIT, TIME_LIMIT, CAPACITY_LIMIT, PRECISION_LIMIT, INFEASIBLE,
    # INVALID_INPUT
    status: Array


class Data(NamedTuple):
    """An instance of (15) over a pool."""

    outputs: Array  # [m, U]
    labels: Array  # [m]
    costs: Array  # [U]
    weights: Array  # [m]
    mask: Array  # [m] bool
    column_mask: Array  # [U] bool
    margin: Array  # []


class BranchAndCutInfo(NamedTuple):
    """The progress after a batch."""

    num_nodes: Array  # [] int32, so far
    num_open: Array  # [] int32
    lower_bound: Array  # [] on the optimum of (15)
    upper_bound: Array  # [] the lesser of the best loss so far and the cutoff


@meshes.takes_gathered
@derivatives.without("jboost.l0.solve_exact")
def solve_exact(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    margin: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-4,
    cutoff: ArrayLike | None = None,
    config: ExactConfig | None = None,
    on_step: OnStep | None = None,
    initial: ExactState | None = None,
) -> Exact:
    """Solves (15) of Goldberg and Eckstein (2009) over a pool by branch and cut.

    Minimises the weight of the examples that miss the margin plus the costs of the hypotheses, over
    all votes. It suits pools and data of moderate size, such as all literals of some hundred
    examples. The search can be stopped after any batch. Jittable and vmappable.

    If the best votes meet the margin only with equality (for example 1/5 with votes of 1/5, 2/5 and
    2/5), rounding may make them miss it. A gap between the bounds then remains.

    Args:
      outputs: [m, U] -1, 0 or +1.
      labels: [m] -1 or +1.
      costs: [U] not negative.
      margin: [] rho in (0, 1].
      weights: [m] cost of an example that misses the margin, not negative; 0 has the effect of
        `mask` False; None for ones.
      mask: [m] bool, False for examples to ignore; None for all True.
      column_mask: [U] bool, False for unused slots; None for all True.
      tolerance: [] the gap at which the loss counts as optimal. It is relative to the loss if that
        is above 1. With 0 it is the smallest gap that rounding allows.
      cutoff: [] a loss that some point is known to attain, or None. Only points of smaller loss are
        searched. `lower_bound` is at most the cutoff, and OPTIMAL means that the lesser of the
        cutoff and `loss` is the optimum.
      config: static sizes.
      on_step: called with (state, info) after each batch, on the host. If it returns False, the
        search ends with status TIME_LIMIT. Not allowed under jit or vmap.
      initial: an `ExactState` to continue from, which `on_step` received for the same problem and
        cutoff; None for a search from the root. A state of another problem is refused. The result
        equals, bit for bit, that of a search with an `on_step` that never stops it.
        `config.max_batches` counts from here.

    Returns:
      An `Exact`. The bound is valid for the statuses ITERATION_LIMIT, CAPACITY_LIMIT, TIME_LIMIT
      and PRECISION_LIMIT. The last one means that nodes without open decisions could not be closed
      in the float type. The status is INFEASIBLE if there are no columns.

    Raises:
      ValueError: naming the argument, for shapes, dtypes, and concrete values.

    >>> import jboost
    >>> outputs = [[1, -1, 1], [1, -1, 0], [1, -1, 0], [1, -1, 1]]
    >>> found = jboost.l0.solve_exact(outputs, [1, -1, -1, 1], [0.0, 0.0, 0.5], margin=0.1)
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
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(float)
    tolerance = validate_tolerance("tolerance", tolerance, sum(data[0].shape))
    known = check.number(
        "cutoff", jnp.inf if cutoff is None else cutoff, low=0, high=jnp.inf
    ).astype(float)
    shape = data[0].shape
    pool = Data._make((*(relaxation.with_one_masked(data) if 0 in shape else data), margin))
    found = search_pool(pool, tolerance, known, config=settings, on_step=on_step, initial=initial)
    return found._replace(coefficients=found.coefficients[: shape[1]])


def validate_tolerance(name: str, tolerance: ArrayLike, num_terms: int) -> Array:
    """The tolerance, raised to the rounding error of a loss with so many terms. Raises ValueError
    below 0.
    """
    given = check.number(name, tolerance, low=0).astype(float)
    return jnp.maximum(given, 2 * _rounding(num_terms, given.dtype))


def _rounding(num_terms: int, dtype: Any) -> float:
    """The relative error of a loss rounded up (`brackets`). It does not depend on the number of
    terms in float32, which is summed in 64 bits.
    """
    units = 4 if jnp.dtype(dtype).itemsize == 4 else 2 * num_terms + 8
    return units * float(jnp.finfo(dtype).eps)


def search_pool(
    data: Data,
    tolerance: Array,
    cutoff: Array,
    *,
    config: ExactConfig,
    domain: SimplexDomain = _SIMPLEX,
    on_step: OnStep | None = None,
    initial: ExactState | None = None,
) -> Exact:
    """`solve_exact` for validated arrays. With the domain `Box`, `data.margin` is 1 / K, and the
    result is that of (9) in units of K.
    """
    if on_step is None and initial is None:
        search: Callable[..., Exact] = functools.partial(_search, config=config)
        if check.are_traced((data, domain, tolerance, cutoff)):
            search = batching.in_chunks(search, at_once=1)
        return search(data, domain, tolerance, cutoff)
    check.can_be_watched(on_step, (data, tolerance, cutoff, initial), between="batches")
    pool, state, is_valid = _begin(data, domain, cutoff, config=config)
    state = state._replace(checksum=_checksum(data, domain, cutoff))
    if initial is not None:
        state = _validate_initial(initial, state)
    if bool(_unfinished(state, config)):
        ends_by_itself = _finish.lower(
            pool, state, tolerance, is_valid, jnp.zeros((), bool), config=config
        )
        devices.compile_side_by_side(
            _advance.lower(pool, state, tolerance, config=config), ends_by_itself
        )
    goes_on = True
    for _ in range(config.max_batches):
        if not goes_on or not bool(_unfinished(state, config)):
            break
        state, info = _advance(pool, state, tolerance, config=config)
        goes_on = loops.goes_on(on_step, state, info)
    return _finish(pool, state, tolerance, is_valid, jnp.asarray(not goes_on), config=config)


def lower_search(
    data: Data, tolerance: Array, cutoff: Array, *, config: ExactConfig
) -> jax.stages.Lowered:
    """The program of `search_pool` without `on_step`, lowered. Shapes may stand for arrays."""
    return _search.lower(data, _SIMPLEX, tolerance, cutoff, config=config)


def _checksum(data: Data, domain: SimplexDomain, cutoff: Array) -> Array:
    """A checksum of what the bounds of a state hold for."""
    name = np.frombuffer(type(domain).__name__.encode(), np.uint8)
    found = checksums.of_arrays(name, *jax.tree.leaves((data, domain, cutoff)))
    return jnp.asarray(found, jnp.uint32)


def _validate_initial(initial: ExactState, first: ExactState) -> ExactState:
    """The state to continue from. Raises ValueError unless it is one of the same problem."""
    given: ExactState = check.like("initial", initial, first, kind="jboost.l0.ExactState")
    checksums.require_same(given.checksum, first.checksum, parts=(_PARTS,), what="search")
    return given


@functools.partial(jax.jit, static_argnames=("config",))
def _search(
    data: Data, domain: SimplexDomain, tolerance: Array, cutoff: Array, *, config: ExactConfig
) -> Exact:
    """The whole search as one compiled program."""
    pool, state, is_valid = _begin(data, domain, cutoff, config=config)

    def step(state: ExactState) -> ExactState:
        return advance_batch(pool, state, tolerance, config)

    last, _ = loops.bounded_loop(
        step, lambda state: _unfinished(state, config), state, max_checks=config.max_batches
    )
    return _finish(pool, last, tolerance, is_valid, jnp.zeros((), bool), config=config)


@devices.host_jit(static_argnames=("config",))
def _begin(
    data: Data, domain: SimplexDomain, cutoff: Array, *, config: ExactConfig
) -> tuple[NodePool, ExactState, Array]:
    """The pool, the state with the root on the stack, and whether all values are valid. The stack
    is empty if there is nothing to search.
    """
    instance, is_valid = domain.make_instance(data)
    pool = node_program.make_pool(instance, domain)
    root = TreeNode(node_program.everything_open(pool), jnp.zeros_like(data.margin))
    best = domain.first_vote(instance)
    nodes = stack.start(root, capacity=config.capacity, slack=2 * config.batch)
    is_hopeless = ~is_valid | ~domain.has_vote(data.column_mask)
    nodes = nodes._replace(count=jnp.where(is_hopeless, 0, nodes.count))
    engine = cutting.start(pool, _num_cuts(config, data.outputs.shape))
    return (
        pool,
        ExactState(
            nodes,
            best,
            jnp.minimum(best.loss, cutoff),
            jnp.full_like(best.loss, jnp.inf),
            jnp.zeros((), jnp.int32),
            engine,
            jnp.zeros((), jnp.uint32),
        ),
        is_valid,
    )


def _num_cuts(config: ExactConfig, shape: tuple[int, ...]) -> int:
    return max(shape[0] + 2 * shape[1], 64) if config.num_cuts is None else config.num_cuts


def _unfinished(state: ExactState, config: ExactConfig) -> Array:
    return (state.stack.count > 0) & (state.stack.count <= config.capacity)


@devices.host_jit(static_argnames=("config",))
def _advance(
    pool: NodePool, state: ExactState, tolerance: Array, *, config: ExactConfig
) -> tuple[ExactState, BranchAndCutInfo]:
    """One batch, for a loop on the host."""
    after = advance_batch(pool, state, tolerance, config)
    return after, BranchAndCutInfo(
        after.num_nodes, after.stack.count, _lower_bound(pool, after), after.goal
    )


def _lower_bound(pool: NodePool, state: ExactState) -> Array:
    is_left = jnp.arange(state.stack.nodes.bound.shape[0]) < state.stack.count
    left = jnp.min(jnp.where(is_left, state.stack.nodes.bound, jnp.inf))
    attained = state.goal * (1 - _rounding(sum(pool.instance.margins.shape), left.dtype))
    return jnp.minimum(jnp.minimum(state.floor, left), attained)


@devices.host_jit(static_argnames=("config",))
def _finish(
    pool: NodePool,
    last: ExactState,
    tolerance: Array,
    is_valid: Array,
    is_stopped: Array,
    *,
    config: ExactConfig,
) -> Exact:
    """The result of a search."""
    lower = _lower_bound(pool, last)
    is_closed = local_search.have_met(lower, last.goal, tolerance)
    ended = jnp.where(is_stopped, int(Status.TIME_LIMIT), int(Status.ITERATION_LIMIT))
    ended = jnp.where(last.stack.count > config.capacity, int(Status.CAPACITY_LIMIT), ended)
    ended = jnp.where(last.stack.count == 0, int(Status.PRECISION_LIMIT), ended)
    status = jnp.where(is_closed, int(Status.OPTIMAL), ended)
    has_columns = pool.domain.has_vote(pool.instance.is_column)
    status = jnp.where(has_columns, status, int(Status.INFEASIBLE))
    status = jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)
    is_sound = is_valid & has_columns
    return Exact(
        jnp.where(is_sound, last.best.coefficients, jnp.nan),
        jnp.where(is_sound, last.best.loss, jnp.where(is_valid, jnp.inf, jnp.nan)),
        jnp.where(is_sound, lower, jnp.where(is_valid, jnp.inf, jnp.nan)),
        last.num_nodes,
        status,
    )
