"""The pricing problem of the relaxation, (21) of Goldberg and Eckstein (2009) in a corrected form,
and the lower bound that its solution proves.

A hypothesis u can lower the optimum of (18) only if c_u - s_u < max(0, alpha + g_u). Here g_u =
sum_i y_i H_iu w_i is its edge, and s_u is the sum of v over the cuts that count it. The printed
(21) omits the 0. So there are two pricing problems: maximise g_u + s_u - c_u, and maximise
s_u - c_u.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import brackets, loops, memory, numerics
from jboost.base.boosting import Learner
from jboost.base.protocols import hook, optional_hook
from jboost.base.types import Array, PyTree
from jboost.l0.relaxation import certify
from jboost.l0.types import L0Relaxation
from jboost.monomials import Rewards

# Estimated number of matrices of all pairs that are in memory while a learner solves the pricing
# problem.
_NUM_MATRICES = 16
_MOST_SPARED = 1e30  # a finite number above every sum of weights, in place of infinity
_LEAST = 1e-30  # smaller weights become 0: products with them may be subnormal


class PricingDuals(NamedTuple):
    """The duals of the relaxation to price with; they satisfy (19b)."""

    example_weights: Array  # [m] w
    pairs: Array  # [K, 2] int32, -1 for an empty slot
    pair_weights: Array  # [K] v


class Priced(NamedTuple):
    """The solutions of both pricing problems."""

    hypotheses: PyTree  # leaves [k, ...]
    outputs: Array  # [k, m] in -1, 0, +1
    costs: Array  # [k] c
    values: Array  # [k] g + s - c in the first half, s - c in the second
    upper_bound: Array  # [] on g_u + s_u - c_u over all hypotheses
    upper_bound_of_cuts: Array  # [] on s_u - c_u over all hypotheses
    least_cost: Array  # [] of the hypotheses other than the constants
    prices: Array  # [p] the costs that hypotheses may have
    state: PyTree
    duals: PricingDuals
    relaxation: L0Relaxation  # over the current columns


def smoothed(best: PricingProof, solved: L0Relaxation, share: Array) -> PricingDuals:
    """Smoothed duals (Wentges 1997): (1 - share) times those of a relaxation plus `share` [] times
    those of the best proof.

    Both duals satisfy (19b), and so does their convex combination. The capacity is that of one
    relaxation: the smallest weights of cuts are dropped, which only lowers the bound. The factors
    are reduced by 8 rounding units, so that rounding cannot violate (19b).
    """
    eps = jnp.finfo(share.dtype).eps
    of_solved, of_best = (1 - share) * (1 - 8 * eps), share * (1 - 8 * eps)
    pairs = jnp.concatenate([solved.pairs, best.pairs])
    values = jnp.concatenate([of_solved * solved.pair_weights, of_best * best.pair_weights])
    order = jnp.lexsort((pairs[:, 1], pairs[:, 0]))
    pairs, values = pairs[order], values[order]
    is_first = jnp.concatenate([jnp.ones((1,), bool), jnp.any(pairs[1:] != pairs[:-1], axis=1)])[
        : len(values)
    ]
    groups = jnp.cumsum(is_first) - 1
    sums = jnp.where(is_first, jnp.zeros_like(values).at[groups].add(values)[groups], 0.0)
    heaviest, indices = numerics.top_k(sums, solved.pair_weights.shape[0])
    kept = jnp.where((heaviest > 0)[:, None], pairs[indices], -1)
    return PricingDuals(
        _normal(of_solved * solved.example_weights + of_best * best.example_weights),
        kept,
        jnp.where(kept[:, 0] >= 0, _normal(heaviest), 0.0),
    )


def _normal(values: Array) -> Array:
    return jnp.where(values > _LEAST, values, 0.0)


def pair_matrix(
    duals: PricingDuals | PricingProof,
    either: Array | bool = False,
    never_abstain: Array | bool = False,
) -> Array:
    """The rewards of `pair_list` as a matrix [m, m], for learners without `propose_for_pairs`."""
    num_examples = duals.example_weights.shape[0]
    num_bytes, most = (
        _NUM_MATRICES * num_examples**2 * duals.pair_weights.dtype.itemsize,
        memory.of_device(),
    )
    if num_bytes > most:
        raise ValueError(
            f"dataset has {num_examples} examples: the matrices of their pairs take {num_bytes:,}"
            f" bytes, but the device has {most:,}; give the learner the method `propose_for_pairs`,"
            " which takes a list of pairs, merge equal examples into one with the sum of their"
            " weights (jboost.data.merging), discretise the attributes more coarsely so that more"
            " examples are equal, or take a sample"
        )
    rewards = pair_list(duals, either, never_abstain)
    is_used = jnp.all(rewards.pairs >= 0, axis=1)
    ends = jnp.where(is_used[:, None], rewards.pairs, num_examples)
    empty = jnp.zeros((num_examples, num_examples), rewards.values.dtype)
    return empty.at[ends[:, 0], ends[:, 1]].add(rewards.values, mode="drop")


def solve(
    learner: Any,
    state: PyTree,
    duals: PricingDuals,
    relaxation: L0Relaxation,
    either: Array | bool = False,
) -> Priced:
    """Solves both pricing problems with a learner. It has `prices`, `price` and `least_price`, and
    its `propose` takes pair weights and costs.

    The second problem, without the edges, is the first with example weights 0. The learner may have
    a method `never_abstains(state)`, [] bool: whether no hypothesis outputs 0 on any example.
    """
    weights, prices = duals.example_weights, learner.prices(state)
    propose = _proposer(learner, state, duals, prices, either)

    def solve_one(
        state: PyTree, weights: Array
    ) -> tuple[PyTree, tuple[PyTree, Array, Array, Array]]:
        proposal = propose(state, weights)
        return proposal.state, (
            proposal.hypotheses,
            proposal.outputs,
            proposal.values,
            proposal.upper_bound,
        )

    state, (hypotheses, outputs, values, bounds) = loops.scan(
        solve_one, state, jnp.stack([weights, jnp.zeros_like(weights)])
    )
    hypotheses, outputs, values = jax.tree.map(jnp.concatenate, (hypotheses, outputs, values))
    costs = jax.vmap(lambda hypothesis: learner.price(state, hypothesis))(hypotheses)
    return Priced(
        hypotheses,
        outputs,
        costs,
        values,
        bounds[0],
        bounds[1],
        learner.least_price(state),
        prices,
        state,
        duals,
        relaxation,
    )


def _proposer(
    learner: Any, state: PyTree, duals: PricingDuals, prices: Array, either: Array | bool
) -> Callable[[PyTree, Array], Any]:
    """The function from the state and example weights to a proposal. It passes a list of pairs to
    learners that take one, and the matrix of all pairs to others.
    """
    never_abstains = hook(Learner, learner, "never_abstains")(state)
    propose = optional_hook(Learner, learner, "propose_for_pairs")
    if propose is not None:
        rewards = pair_list(duals, either, never_abstains)
        return lambda state, weights: propose(state, weights, rewards, prices)
    pairs = pair_matrix(duals, either, never_abstains)
    return lambda state, weights: learner.propose(state, weights, pair_weights=pairs, costs=prices)


def pair_list(
    duals: PricingDuals | PricingProof,
    either: Array | bool = False,
    never_abstain: Array | bool = False,
) -> Rewards:
    """The duals of the cuts as a list of ordered pairs, [2 K]. The reversed pairs (i', i) have
    weight only for the cuts "either".

    With the cuts "either", the reward of a hypothesis counts an ordered pair (i, i') if the
    hypothesis is right on i and not wrong on i'. A hypothesis that abstains on one of the examples
    is counted for one order, and a hypothesis that is right on both for both orders. If no
    hypothesis abstains, each order therefore gets half of the dual. Otherwise each order gets the
    whole dual, and some hypotheses get it twice. The bound is then weaker, but still valid.
    """
    share = jnp.where(either & jnp.asarray(never_abstain), 0.5, 1.0)
    values = share.astype(duals.pair_weights.dtype) * duals.pair_weights
    return Rewards(
        jnp.concatenate([duals.pairs, duals.pairs[:, ::-1]]),
        jnp.concatenate([values, jnp.where(either, values, 0.0)]),
    )


class PricingProof(NamedTuple):
    """A lower bound on the relaxation over all hypotheses, and the arguments of
    `certify.lower_bound` from which it follows.
    """

    bound: Array  # []
    example_weights: Array  # [m] w
    pairs: Array  # [capacity, 2] int32
    pair_weights: Array  # [capacity] v
    excess: Array  # [] r
    least: Array  # [] a lower bound on c_u + r - s_u - g_u over all hypotheses
    selected_bound: Array  # [] b


def prove(
    priced: Priced, signs: Array, *, margin: Array, constant_cost: Array, upper: Array
) -> PricingProof:
    """Returns the best lower bound that follows from the solutions of the two pricing problems.

    The bound is that of the duals times a factor t in (0, 1]. If s_u > c_u for some hypothesis, the
    duals themselves give a weak bound. With the factor, s_u - c_u becomes t (s_u - c_u) -
    (1 - t) c_u, which may be negative for all hypotheses (Farley 1990).

    Args:
      priced: the solutions of both pricing problems.
      signs: [m] labels, 0 for padding.
      margin: [] rho.
      constant_cost: [].
      upper: [] an upper bound on the relaxation.
    """
    share = _best_share(priced, signs, margin, constant_cost, upper)
    duals, above, above_of_cuts = _shrunk(priced, share)
    weights = duals.example_weights
    # Without hypotheses, `above` is -inf.
    excess, above = jnp.maximum(above_of_cuts, 0.0), jnp.maximum(above, -_MOST_SPARED)
    ends = brackets.bracket_dot(
        (signs * weights)[None, :], jnp.ones((1, weights.shape[0]), weights.dtype)
    )
    edge_of_constant = jnp.maximum(jnp.abs(ends[0][0]), jnp.abs(ends[1][0]))
    pieces = jnp.stack(
        [
            jnp.stack([excess, -above, jnp.zeros_like(excess)]),
            jnp.stack([excess, constant_cost, -edge_of_constant]),
        ]
    )
    least = jnp.min(brackets.bracket_dot(pieces, jnp.ones_like(pieces))[0])
    eps = jnp.finfo(weights.dtype).eps
    # The constants do not enter the sum: some optimum has mu = lambda for them.
    most = jnp.where(excess > 0, _most_selected(priced, signs, upper) * (1 + 8 * eps), 0.0)
    bound = certify.lower_bound(
        weights, duals.pair_weights, margin=margin, excess=excess, least=least, selected_bound=most
    )
    bound = jnp.where(jnp.isfinite(most), bound, -jnp.inf)
    return PricingProof(bound, weights, duals.pairs, duals.pair_weights, excess, least, most)


def _most_selected(priced: Priced, signs: Array, upper: Array) -> Array:
    """Returns an upper bound on sum mu at some optimum, [].

    sum lambda is 1. There are two bounds on sum (mu - lambda). The first is the upper bound on the
    objective divided by the least cost. The second is the number of cuts: for given lambda and xi
    the cost of mu - lambda is minimal at a vertex of the rows of the cuts. A vertex has at most as
    many positive entries as there are rows, and no entry of mu has to exceed 1.
    """
    is_priced = priced.least_cost > 0
    by_cost = jnp.where(is_priced, upper / jnp.where(is_priced, priced.least_cost, 1.0), jnp.inf)
    return 1 + jnp.minimum(
        by_cost, 2 * jnp.sum(signs > 0, dtype=upper.dtype) * jnp.sum(signs < 0, dtype=upper.dtype)
    )


def _best_share(
    priced: Priced, signs: Array, margin: Array, constant_cost: Array, upper: Array
) -> Array:
    """Returns the factor t [] of the duals with approximately the greatest bound.

    The bound is concave and piecewise linear in t. The candidates are t = 1 and two break points:
    the factor for which no s_u exceeds the cost, and the one for which no hypothesis is better than
    the constants.
    """
    weights, pair_weights = priced.duals.example_weights, priced.duals.pair_weights
    least, above, above_of_cuts = priced.least_cost, priced.upper_bound, priced.upper_bound_of_cuts
    edge, worth = (
        jnp.abs(jnp.sum(signs * weights)),
        margin * jnp.sum(weights) + jnp.sum(pair_weights),
    )
    can_shrink = (least > 0) & (least < jnp.inf)
    share_of_costs = numerics.safe_divide(least, least + jnp.maximum(above_of_cuts, 0.0), fill=1.0)
    share_of_constants = numerics.safe_divide(least - constant_cost, least + above - edge, fill=1.0)
    shares = jnp.stack([jnp.ones_like(worth), share_of_costs, share_of_constants])
    shares = jnp.where(
        can_shrink & (shares > 0) & (shares < 1 - 8 * jnp.finfo(shares.dtype).eps), shares, 1.0
    )
    spared = (1 - shares) * jnp.where(can_shrink, least, 0.0)
    excess = jnp.maximum(shares * above_of_cuts - spared, 0.0)
    lost = jnp.where(excess > 0, excess * _most_selected(priced, signs, upper), 0.0)
    proven = (
        shares * worth
        - lost
        + excess
        + jnp.minimum(spared - shares * above, constant_cost - shares * edge)
    )
    return shares[jnp.argmax(jnp.where(jnp.isnan(proven), -jnp.inf, proven))]


def _shrunk(priced: Priced, share: Array) -> tuple[PricingDuals, Array, Array]:
    """Returns the duals times a share [], and upper bounds on the two pricing problems with them.

    The bounds include the rounding errors of the duals.
    """
    duals, eps = priced.duals, jnp.finfo(share.dtype).eps
    is_whole = share == 1
    weights, pair_weights = (
        jnp.where(is_whole, part, _normal(share * part))
        for part in (duals.example_weights, duals.pair_weights)
    )
    lost = 2 * eps * share * (
        jnp.sum(duals.example_weights) + jnp.sum(duals.pair_weights)
    ) + 2 * _LEAST * (weights.size + pair_weights.size)
    bounds = jnp.stack([priced.upper_bound, priced.upper_bound_of_cuts])
    pieces = jnp.stack(
        [
            bounds,
            *(jnp.full((2,), part) for part in (priced.least_cost, -priced.least_cost, lost)),
        ],
        axis=1,
    )
    _, above = brackets.bracket_dot(
        pieces, jnp.stack([share, share, jnp.ones_like(share), jnp.ones_like(share)])[None, :]
    )
    return PricingDuals(weights, duals.pairs, pair_weights), *jnp.where(is_whole, bounds, above)


def better(old: PricingProof, new: PricingProof, counts: Array) -> PricingProof:
    """Returns the proof with the greater bound; always the old one if `counts` is False."""
    takes = counts & (new.bound > old.bound)
    return PricingProof(
        *(jnp.where(takes, one, other) for one, other in zip(new, old, strict=True))
    )
