"""Chvatal-Gomory cuts for the sparse minimum disagreement problem (15) of Goldberg and Eckstein
(2009), from three pair cuts each (Balas and Ng 1989).

Let x = (mu, xi). Half of the sum of three pair cuts a x >= 1 with entries 0 and 1 is
(a + a' + a'') x / 2 >= 3/2. mu and xi are integral at points of (15), so both sides may be rounded
up: a variable in none, one, two or three of the cuts gets the entry 0, 1, 1 or 2, and the
right-hand side becomes 2. A linear program with such rows proves a bound on (15), not on (18).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import batching, brackets, check, derivatives, devices, loops, meshes
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, PyTree
from jboost.l0 import relaxation
from jboost.l0.branch_and_cut import triples as triples_of
from jboost.l0.relaxation import cut_rows
from jboost.l0.relaxation.instance import make_instance
from jboost.l0.types import CutIndices, L0Relaxation, RelaxationConfig, RelaxationInstance
from jboost.lp import LinearProgram, make_program, solve

# Cuts that are violated by less are not added: the violation may be the error of the solver.
_LEAST_VIOLATION = 1e-3


@dataclasses.dataclass(frozen=True)
class StrengthenConfig:
    """Static sizes of the rounds of cutting planes."""

    num_rounds: int = 5
    """The number of linear programs; each has the cuts that the solution before violates."""
    num_pairs: int = 128
    """The number of pair cuts that are rows of the programs: those with the largest duals."""
    cuts_per_round: int = 32
    """The largest number of Chvatal-Gomory cuts that a round adds."""
    max_in_play: int | None = None
    """The largest number of hypotheses in the pool that the option `strengthen` of `jboost.l0.fit`
    makes: those of the least reduced costs. None for 128. Not allowed for `jboost.l0.strengthen`,
    which is given the pool.
    """
    relaxation: RelaxationConfig = dataclasses.field(
        default_factory=lambda: RelaxationConfig(cuts="either")
    )
    """How the pair cuts are found; its `cuts` must be "either"."""

    def __post_init__(self) -> None:
        for name in ("num_rounds", "num_pairs", "cuts_per_round"):
            check.count(f"config.{name}", getattr(self, name), low=1)
        if self.max_in_play is not None:
            check.count("config.max_in_play", self.max_in_play, low=1)
        check.record("config.relaxation", self.relaxation, RelaxationConfig)
        if self.relaxation.cuts != "either" or self.relaxation.distance_factor is not None:
            raise ValueError(
                'config.relaxation must have cuts="either" and distance_factor=None: other cuts are'
                " not valid for all points of (15), or are not searched"
            )


class Strengthened(NamedTuple):
    """A lower bound on (15) over a pool: the greater of the bound of the relaxation and of the
    bound that the duals here prove.

    Let s be the sums of v and t over the cuts that contain a variable, times its entries. Any
    w, v, t >= 0 prove the bound rho sum w + sum v + 2 sum t + min_u (max(0, c_u - s_u) - g_u) +
    sum_i min(0, weight_i - (1 + rho) w_i - s_i) + sum_u min(0, c_u - s_u).
    """

    lower_bound: Array  # []
    # [] of the relaxation without the new cuts, from `solve_relaxation` with cuts="either"
    relaxation_bound: Array
    example_weights: Array  # [m] w, duals of the margins
    pairs: Array  # [P, 2] int32, -1 for an empty slot
    pair_weights: Array  # [P] v
    triples: Array  # [C, 3] int32, indices of the pairs of each new cut; -1 for an empty slot
    triple_weights: Array  # [C] t
    num_cuts: Array  # [] int32 number of new cuts
    status: Array  # [] int32


class StrengthenedFit(NamedTuple):
    """The cuts that raise the lower bound of a fit on (15). They are those of a pool: of the
    hypotheses that a better point may use, up to `max_in_play` of them. The bound on (15) is the
    lesser of `pool.lower_bound` and `left_out`, rounded up to the next value of the loss.
    """

    pool: Strengthened  # columns 0 and 1 are the constants, column 2 + k is hypothesis k
    hypotheses: PyTree  # leaves [k, ...]
    is_in_play: Array  # [2 + k] bool, the columns of the pool
    left_out: Array  # [] lower bound on the points of (15) that use any other hypothesis
    num_hypotheses: Array  # [] int32 hypotheses whose reduced cost is below the gap


class _StrengthenState(NamedTuple):
    triples: Array  # [C, 3] int32
    count: Array  # [] int32
    lower: Array  # []
    best: tuple[Array, Array, Array]  # w, v, t


@meshes.takes_gathered
@derivatives.without("jboost.l0.strengthen")
def strengthen(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    margin: ArrayLike,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    column_mask: ArrayLike | None = None,
    config: StrengthenConfig | None = None,
) -> Strengthened:
    """A tighter lower bound on errors plus costs over a pool than that of the relaxation, by
    Chvatal-Gomory cuts from triples of pair cuts (named, but not pursued, by Goldberg and Eckstein
    2009; Balas and Ng 1989, "On the set covering polytope: I. All the facets with coefficients in
    {0, 1, 2}").

    For pools and data of moderate size: a round solves a dense linear program of m + P + C rows in
    2 U + m variables. Jittable and vmappable.

    Args:
      outputs: H [m, U], entries -1, 0, +1.
      labels: [m] -1 or +1.
      costs: c [U] >= 0.
      margin: [] rho in (0, 1].
      weights: [m] cost of an example that misses the margin, not negative; 0 has the effect of
        `mask` False; None for ones.
      mask: [m] bool, False for examples that only pad; None for all True.
      column_mask: [U] bool, False for slots that hold no hypothesis; None for all True.
      config: static sizes.

    Returns:
      A `Strengthened`. The status is LOCAL_OPTIMUM if the last solution violates none of the cuts
      that were searched, and ROUND_LIMIT if it violates one; the bound holds in either case. It is
      INFEASIBLE without a hypothesis, and INVALID_INPUT with a bound of -inf.

    Raises:
      ValueError: naming the argument, for shapes, dtypes, and concrete values.

    >>> import jboost
    >>> outputs = [[1, -1, -1, 1, -1], [-1, 1, -1, 1, -1], [-1, -1, 1, 1, -1], [-1, -1, -1, 1, -1]]
    >>> found = jboost.l0.strengthen(outputs, [1, 1, 1, -1], [0.6, 0.6, 0.6, 0.0, 0.0], margin=0.1)
    >>> bool(found.lower_bound >= found.relaxation_bound)
    True
    """
    settings = check.config("config", config, StrengthenConfig)
    if settings.max_in_play is not None:
        raise ValueError(
            f"config.max_in_play is {settings.max_in_play}: the pool is given, and is used whole;"
            " leave it out, or pass the config to jboost.l0.fit(strengthen=)"
        )
    data = relaxation.validate_program(
        outputs, labels, costs, weights=weights, mask=mask, column_mask=column_mask
    )
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(float)
    size = data[0].shape[0]
    found = strengthen_pool(
        relaxation.with_one_masked(data) if 0 in data[0].shape else data, margin, config=settings
    )
    return found._replace(example_weights=found.example_weights[:size])


@devices.public_jit(static_argnames=("config",))
def strengthen_pool(
    data: tuple[Array, ...], margin: Array, *, config: StrengthenConfig
) -> Strengthened:
    """`strengthen` for validated arrays."""
    strengthened: Strengthened = batching.in_chunks(
        functools.partial(_strengthen, config=config), at_once=1
    )(data, margin)
    return strengthened


def _strengthen(
    data: tuple[Array, ...], margin: Array, *, config: StrengthenConfig
) -> Strengthened:
    dtype = margin.dtype
    features = jnp.zeros((data[0].shape[0], 0), dtype)
    tolerance = jnp.asarray(1e-6 if dtype == jnp.dtype("float64") else 3e-4, dtype)
    relaxed = relaxation.solve_instance(
        config.relaxation, (*data, features), margin, tolerance, jnp.asarray(True), None
    )
    outputs, labels, costs, weights, mask, column_mask = data
    instance, is_valid = make_instance(
        outputs, labels, costs, weights, mask, column_mask, margin, True
    )
    is_hopeless = ~is_valid | ~jnp.any(column_mask)

    pairs, is_pair, rows = _heaviest_pairs(instance, relaxed, config.num_pairs)
    capacity = config.num_rounds * config.cuts_per_round

    def one_round(state: _StrengthenState, _: None) -> tuple[_StrengthenState, Array]:
        return _round(instance, rows, is_pair, state, config)

    last, num_found = loops.scan(
        one_round, _begin(instance, len(pairs), capacity), length=config.num_rounds
    )
    w, v, t = last.best
    known = jnp.maximum(relaxed.lower_bound, 0.0)
    ended = jnp.where(num_found[-1] > 0, int(Status.ROUND_LIMIT), int(Status.LOCAL_OPTIMUM))
    ended = jnp.where(jnp.any(column_mask), ended, int(Status.INFEASIBLE))
    return Strengthened(
        jnp.where(is_hopeless, relaxed.lower_bound, jnp.maximum(last.lower, known)),
        relaxed.lower_bound,
        jnp.zeros_like(w).at[instance.order].set(w),
        pairs,
        v,
        last.triples,
        t,
        last.count,
        jnp.where(is_valid, ended, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _heaviest_pairs(
    instance: RelaxationInstance, relaxed: L0Relaxation, most: int
) -> tuple[Array, Array, Array]:
    """The pairs [P, 2] with the largest duals, at most `most`; whether each is a pair and not an
    empty slot, [P] bool; and their cuts as rows [P, U + m].
    """
    _, indices = lax.top_k(relaxed.pair_weights, min(most, relaxed.pairs.shape[0]))
    pairs = relaxed.pairs[indices]
    position_of = (
        jnp.zeros_like(instance.order)
        .at[instance.order]
        .set(jnp.arange(len(instance.order), dtype=jnp.int32))
    )
    is_pair = jnp.all(pairs >= 0, axis=1)
    ends = jnp.where(is_pair[:, None], position_of[pairs], len(position_of))
    rows = cut_rows.from_pairs(instance, CutIndices(ends[:, 0], ends[:, 1]))
    return pairs, is_pair, jnp.concatenate(rows, axis=1)


def _begin(instance: RelaxationInstance, num_pairs: int, capacity: int) -> _StrengthenState:
    """The state without new cuts and with the bound 0, which needs no duals."""
    dtype = instance.weights.dtype
    no_duals = (
        jnp.zeros_like(instance.weights),
        jnp.zeros((num_pairs,), dtype),
        jnp.zeros((capacity,), dtype),
    )
    return _StrengthenState(
        jnp.full((capacity, 3), -1, jnp.int32),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), dtype),
        no_duals,
    )


def _round(
    instance: RelaxationInstance,
    rows: Array,
    is_pair: Array,
    state: _StrengthenState,
    config: StrengthenConfig,
) -> tuple[_StrengthenState, Array]:
    """Solves one linear program, proves the bound of its duals, and adds the cuts that its
    solution violates. Returns the next state and the number of cuts added.
    """
    num_examples, num_columns = instance.margins.shape
    extra, is_cut = triples_of.rows_of(rows, state.triples), state.triples[:, 0] >= 0
    is_example = instance.weights > 0
    program = _make_program(instance, jnp.concatenate([rows, extra]), is_pair, is_cut)
    solution = solve(program)
    dual = jnp.where(jnp.isfinite(solution.dual), jnp.maximum(solution.dual, 0.0), 0.0)
    w, v, t = (
        dual[:num_examples],
        dual[num_examples:][: len(rows)],
        dual[num_examples + len(rows) :][: len(extra)],
    )
    duals = (jnp.where(is_example, w, 0.0), jnp.where(is_pair, v, 0.0), jnp.where(is_cut, t, 0.0))
    lower = _proven(instance, rows, extra, *duals)
    is_better = lower > state.lower
    best = jax.tree.map(lambda new, old: jnp.where(is_better, new, old), duals, state.best)

    primal = jnp.clip(jnp.where(jnp.isfinite(solution.primal), solution.primal, 1.0), 0.0, 1.0)
    point = jnp.concatenate(
        [
            jnp.minimum(primal[:num_columns] + primal[num_columns : 2 * num_columns], 1.0),
            primal[2 * num_columns :],
        ]
    )
    triples, violations = triples_of.separate(rows, is_pair, point)
    found, chosen = lax.top_k(violations, min(config.cuts_per_round, len(violations)))
    is_found = found > _LEAST_VIOLATION
    slots = jnp.where(is_found, state.count + jnp.cumsum(is_found) - 1, len(state.triples))
    after = state.triples.at[slots].set(triples[chosen], mode="drop")
    num_found = jnp.sum(is_found, dtype=jnp.int32)
    return _StrengthenState(
        after, state.count + num_found, jnp.maximum(lower, state.lower), best
    ), num_found


def _make_program(
    instance: RelaxationInstance, cuts: Array, is_pair: Array, is_cut: Array
) -> LinearProgram:
    """The relaxation with pair cuts and rounded cuts.

    Its variables are (lambda, mu - lambda, xi), so that mu >= lambda is a bound. Rows of examples
    that do not count, and of cuts that are not in use, have no bound.
    """
    num_examples, num_columns = instance.margins.shape
    dtype = cuts.dtype
    selected, slacks = jnp.split(cuts, [num_columns], axis=1)
    of_examples = [
        instance.margins,
        jnp.zeros_like(instance.margins),
        (1 + instance.margin) * jnp.eye(num_examples, dtype=dtype),
    ]
    of_convexity = [
        jnp.ones((1, num_columns), dtype),
        jnp.zeros((1, num_columns + num_examples), dtype),
    ]
    matrix = jnp.concatenate(
        [
            jnp.concatenate(parts, axis=1)
            for parts in (of_examples, [selected, selected, slacks], of_convexity)
        ]
    )
    is_example = instance.weights > 0
    right = jnp.concatenate([jnp.where(is_pair, 1.0, -jnp.inf), jnp.where(is_cut, 2.0, -jnp.inf)])
    one = jnp.ones((1,), dtype)
    return make_program(
        jnp.concatenate([instance.costs, instance.costs, instance.weights]),
        matrix,
        row_lower=jnp.concatenate([jnp.where(is_example, instance.margin, -jnp.inf), right, one]),
        row_upper=jnp.concatenate([jnp.full((num_examples + len(right),), jnp.inf, dtype), one]),
        upper=jnp.concatenate(
            [jnp.tile(jnp.where(instance.is_column, 1.0, 0.0), 2), jnp.where(is_example, 1.0, 0.0)]
        ),
    )


def _proven(
    instance: RelaxationInstance, rows: Array, extra: Array, w: Array, v: Array, t: Array
) -> Array:
    """The lower bound on (15) that duals prove, rounded down.

    It is the Lagrangian at its minimum: each mu_u and xi_i is at the better end of [0, 1], and
    lambda is on one hypothesis. With the reduced costs c'_u and xi_i' it is z >= rho sum w +
    sum v + 2 sum t + sum_i min(0, xi_i') + sum_u min(0, c'_u) + min_u(max(0, c'_u) - g_u).
    """
    num_columns = instance.margins.shape[1]
    # [U + m, P + C]; the products are exact, as the entries of the rows are 0, 1 and 2.
    given = jnp.concatenate([rows, extra]).T * jnp.concatenate([v, t])[None, :]
    selected, slacks = given[:num_columns], given[num_columns:]

    def less(prices: Array, taken: Array) -> Array:
        terms = jnp.concatenate([prices[:, None], -taken], axis=1)
        return brackets.bracket_dot(terms, jnp.ones_like(terms))[0]

    rest = less(instance.costs, selected)
    edges = brackets.bracket_dot(instance.margins.T * w[None, :], jnp.ones((1, len(w)), w.dtype))[1]
    both = jnp.stack([jnp.maximum(rest, 0.0), -edges], axis=1)
    least = jnp.min(
        jnp.where(instance.is_column, brackets.bracket_dot(both, jnp.ones_like(both))[0], jnp.inf)
    )
    unpaid = _unpaid_slacks(instance, slacks, w)
    over = jnp.concatenate(
        [
            jnp.where(instance.weights > 0, jnp.minimum(unpaid, 0.0), 0.0),
            jnp.where(instance.is_column, jnp.minimum(rest, 0.0), 0.0),
        ]
    )
    terms = jnp.concatenate([w, v, 2 * t, over, least[None]])
    by = jnp.concatenate(
        [jnp.broadcast_to(instance.margin, w.shape), jnp.ones((len(terms) - len(w),), w.dtype)]
    )
    return brackets.bracket_dot(terms, by)[0]


def _unpaid_slacks(instance: RelaxationInstance, given: Array, w: Array) -> Array:
    """The reduced costs weight_i - (1 + rho) w_i - s_i of xi [m], rounded down. `given` [m, P + C]
    has the terms of s.
    """
    loads = jnp.concatenate([given, w[:, None], w[:, None]], axis=1)
    factors = jnp.concatenate(
        [
            jnp.ones_like(given),
            jnp.ones_like(w)[:, None],
            jnp.broadcast_to(instance.margin, w.shape)[:, None],
        ],
        axis=1,
    )
    weights = instance.weights
    left = jnp.concatenate([weights[:, None], -loads], axis=1)
    return brackets.bracket_dot(
        left, jnp.concatenate([jnp.ones_like(weights)[:, None], factors], axis=1)
    )[0]
