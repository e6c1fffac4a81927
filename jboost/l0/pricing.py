"""What the duals of the relaxation ask of a learner, and what its answers prove: the pricing
problem of paper 001, (21), put right.

A hypothesis u may lower the optimum of (18) only if c_u - s_u < max(0, alpha + g_u), g_u = sum_i
y_i H_iu w_i its edge and s_u the sum of v over the cuts that it serves. The printed (21) leaves out
the 0. So there are two questions: the largest g_u + s_u - c_u, and the largest s_u - c_u.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, loops, memory, numerics
from jboost.base.types import Array, PyTree
from jboost.l0.relaxation import certify
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import L0Relaxation
from jboost.monomials.short import Rewards

_NUM_MATRICES = 16  # of pairs, in memory while a question is answered
_MOST_SPARED = 1e30  # what no sum of weights exceeds
_LEAST = 1e-30  # what is smaller may not be a normal number


class Asked(NamedTuple):
    """Duals of the relaxation, which satisfy (19b) and may prove a bound."""

    example_weights: Array  # [m] w
    pairs: Array  # [K, 2] int32, -1 for an empty slot
    pair_weights: Array  # [K] v


class Priced(NamedTuple):
    """The answers to both questions."""

    hypotheses: PyTree  # leaves [k, ...]
    outputs: Array  # [k, m] in -1, 0, +1
    costs: Array  # [k] c
    values: Array  # [k] g + s - c of the first, s - c of the rest
    upper_bound: Array  # [] of g_u + s_u - c_u over all hypotheses
    upper_bound_of_cuts: Array  # [] of s_u - c_u over all hypotheses
    least_cost: Array  # [] of a hypothesis that is no constant
    prices: Array  # [p] the costs that hypotheses may have
    state: PyTree
    asked: Asked
    relaxation: L0Relaxation  # over the columns so far


def between(best: Proof, solved: L0Relaxation, share: Array) -> Asked:
    """Duals on the way from those of a relaxation to those of the best proof, which are a `share`
    [] of the whole; as many cuts as one holds.

    Both satisfy (19b), which is convex; the smallest weights of cuts give way, which only lowers
    what is proven. No sum of roundings exceeds what is taken off.
    """
    eps = jnp.finfo(share.dtype).eps
    mine, theirs = (1 - share) * (1 - 8 * eps), share * (1 - 8 * eps)
    pairs = jnp.concatenate([solved.pairs, best.pairs])
    values = jnp.concatenate([mine * solved.pair_weights, theirs * best.pair_weights])
    order = jnp.lexsort((pairs[:, 1], pairs[:, 0]))
    pairs, values = pairs[order], values[order]
    is_first = jnp.concatenate([jnp.ones((1,), bool), jnp.any(pairs[1:] != pairs[:-1], axis=1)])[
        : len(values)
    ]
    groups = jnp.cumsum(is_first) - 1
    sums = jnp.where(is_first, jnp.zeros_like(values).at[groups].add(values)[groups], 0.0)
    heaviest, places = numerics.top_k(sums, solved.pair_weights.shape[0])
    kept = jnp.where((heaviest > 0)[:, None], pairs[places], -1)
    return Asked(
        _normal(mine * solved.example_weights + theirs * best.example_weights),
        kept,
        jnp.where(kept[:, 0] >= 0, _normal(heaviest), 0.0),
    )


def _normal(values: Array) -> Array:
    return jnp.where(values > _LEAST, values, 0.0)


def pair_matrix(
    asked: Asked | Proof, either: Array | bool = False, never_abstain: Array | bool = False
) -> Array:
    """The duals of the cuts, [m, m]; symmetric where a cut counts the hypotheses that tell its
    examples apart either way.

    A hypothesis is then paid for either end that it is right on while it is not wrong on the other:
    for one of them where it abstains on the other, and for both, with half of the dual each, if
    none ever abstains. Of those that may some are paid twice, which proves less and nothing false.
    """
    num_examples = asked.example_weights.shape[0]
    num_bytes, most = (
        _NUM_MATRICES * num_examples**2 * asked.pair_weights.dtype.itemsize,
        memory.of_device(),
    )
    if num_bytes > most:
        raise ValueError(
            f"dataset has {num_examples} examples: questions about their pairs take {num_bytes:,}"
            f" bytes, and there are {most:,}; merge equal ones into one with the sum of their"
            " weights (jboost.data.merging), of which coarser cuts make more, or take a sample"
        )
    inside = jnp.all(asked.pairs >= 0, axis=1)
    places = jnp.where(inside[:, None], asked.pairs, num_examples)
    empty = jnp.zeros((num_examples, num_examples), asked.pair_weights.dtype)
    matrix = empty.at[places[:, 0], places[:, 1]].add(asked.pair_weights, mode="drop")
    return jnp.where(either, jnp.where(never_abstain, 0.5, 1.0) * (matrix + matrix.T), matrix)


def ask(
    learner: Any,
    state: PyTree,
    asked: Asked,
    relaxation: L0Relaxation,
    either: Array | bool = False,
) -> Priced:
    """Both questions to a learner that can price: one with `prices`, `price` and `least_price`,
    whose `propose` takes pair weights and costs.

    It may say by a method `never_abstains(state)`, [] bool, that no hypothesis answers 0 on an
    example.
    """
    weights, prices = asked.example_weights, learner.prices(state)
    propose = _question(learner, state, asked, prices, either)

    def answer(state: PyTree, weights: Array) -> tuple[PyTree, tuple[PyTree, Array, Array, Array]]:
        said = propose(state, weights)
        return said.state, (said.hypotheses, said.outputs, said.values, said.upper_bound)

    state, (hypotheses, outputs, values, bounds) = loops.scan(
        answer, state, jnp.stack([weights, jnp.zeros_like(weights)])
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
        asked,
        relaxation,
    )


def _question(
    learner: Any, state: PyTree, asked: Asked, prices: Array, either: Array | bool
) -> Callable[[PyTree, Array], Any]:
    """The function that proposes under example weights: from the list of pairs where the learner
    takes one, else from the matrix of all pairs.
    """
    if hasattr(learner, "values_all") and learner.values_all(state):
        rewards = pair_list(asked, either)
        return lambda state, weights: learner.propose_for_pairs(state, weights, rewards, prices)
    declared = getattr(learner, "never_abstains", None)
    pairs = pair_matrix(asked, either, False if declared is None else declared(state))
    return lambda state, weights: learner.propose(state, weights, pair_weights=pairs, costs=prices)


def pair_list(asked: Asked, either: Array | bool = False) -> Rewards:
    """The duals of the cuts of hypotheses that may abstain, by pairs (i, i'), and by (i', i) where
    a cut counts either way, [2 K].
    """
    back = jnp.where(either, asked.pair_weights, 0.0)
    return Rewards(
        jnp.concatenate([asked.pairs, asked.pairs[:, ::-1]]),
        jnp.concatenate([asked.pair_weights, back]),
    )


def reduced_costs(
    margins: Array, costs: Array, solved: L0Relaxation, either: Array | bool = False
) -> Array:
    """c_u - s_u - [alpha + g_u]_+ of columns, by how much they are too dear: [n], with `margins`
    [n, m] y_i H_iu, 0 for padding.
    """
    places = jnp.where(solved.pairs >= 0, solved.pairs, margins.shape[1])
    mine, theirs = (margins.at[:, end].get(mode="fill", fill_value=0) for end in places.T)
    serves = pair_cuts.serves(mine, theirs, either).astype(costs.dtype)
    served = jnp.matmul(serves, solved.pair_weights, precision=lax.Precision.HIGHEST)
    edges = jnp.matmul(margins, solved.example_weights, precision=lax.Precision.HIGHEST)
    return costs - served - jnp.maximum(solved.convexity + edges, 0.0)


class Proof(NamedTuple):
    """A lower bound on the relaxation over all hypotheses, and all it takes to work it out anew:
    `certify.lower_bound`.
    """

    bound: Array  # []
    example_weights: Array  # [m] w
    pairs: Array  # [capacity, 2] int32
    pair_weights: Array  # [capacity] v
    excess: Array  # [] r
    least: Array  # [] below c_u + r - s_u - g_u of all hypotheses
    selected_bound: Array  # [] b


def prove(
    priced: Priced, signs: Array, *, margin: Array, constant_cost: Array, upper: Array
) -> Proof:
    """What the duals and the two answers prove, the duals as they are or smaller.

    Duals under which a hypothesis serves its cuts for more than its cost prove little. A share t of
    them asks t (s_u - c_u) - (1 - t) c_u instead, which may be negative for all (Farley 1990).

    Args:
      priced: the answers.
      signs: [m] labels, 0 for padding.
      margin: [] rho.
      constant_cost: [].
      upper: [] an upper bound on the relaxation.
    """
    share = _best_share(priced, signs, margin, constant_cost, upper)
    asked, above, above_of_cuts = _shrunk(priced, share)
    weights = asked.example_weights
    # -inf, where there is no hypothesis
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
    # mu = lambda may be assumed of the constants
    most = jnp.where(excess > 0, _most_selected(priced, signs, upper) * (1 + 8 * eps), 0.0)
    bound = certify.lower_bound(
        weights, asked.pair_weights, margin=margin, excess=excess, least=least, selected_bound=most
    )
    bound = jnp.where(jnp.isfinite(most), bound, -jnp.inf)
    return Proof(bound, weights, asked.pairs, asked.pair_weights, excess, least, most)


def _most_selected(priced: Priced, signs: Array, upper: Array) -> Array:
    """What mu sums to at most at an optimum, [].

    More than lambda it is by no more than costs allow, nor than there are cuts: for given lambda
    and xi what mu - lambda costs is least at a vertex of the cuts' rows, where no more entries than
    rows are positive, and none that lets mu exceed 1 is needed.
    """
    is_priced = priced.least_cost > 0
    by_cost = jnp.where(is_priced, upper / jnp.where(is_priced, priced.least_cost, 1.0), jnp.inf)
    return 1 + jnp.minimum(
        by_cost, 2 * jnp.sum(signs > 0, dtype=upper.dtype) * jnp.sum(signs < 0, dtype=upper.dtype)
    )


def _best_share(
    priced: Priced, signs: Array, margin: Array, constant_cost: Array, upper: Array
) -> Array:
    """The share t [] of the duals that proves most, or about that: one of the corners of what is
    proven, which is concave in t.
    """
    weights, pair_weights = priced.asked.example_weights, priced.asked.pair_weights
    least, above, above_of_cuts = priced.least_cost, priced.upper_bound, priced.upper_bound_of_cuts
    edge, worth = (
        jnp.abs(jnp.sum(signs * weights)),
        margin * jnp.sum(weights) + jnp.sum(pair_weights),
    )
    can_shrink = (least > 0) & (least < jnp.inf)
    serve_no_more_than_they_cost = numerics.safe_divide(
        least, least + jnp.maximum(above_of_cuts, 0.0), fill=1.0
    )
    no_better_than_constants = numerics.safe_divide(
        least - constant_cost, least + above - edge, fill=1.0
    )
    shares = jnp.stack(
        [jnp.ones_like(worth), serve_no_more_than_they_cost, no_better_than_constants]
    )
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


def _shrunk(priced: Priced, share: Array) -> tuple[Asked, Array, Array]:
    """A share [] of the duals, and bounds of the two answers to them, with room for what rounding
    does to the duals.
    """
    asked, eps = priced.asked, jnp.finfo(share.dtype).eps
    is_whole = share == 1
    weights, pair_weights = (
        jnp.where(is_whole, part, _normal(share * part))
        for part in (asked.example_weights, asked.pair_weights)
    )
    lost = 2 * eps * share * (
        jnp.sum(asked.example_weights) + jnp.sum(asked.pair_weights)
    ) + 2 * _LEAST * (weights.size + pair_weights.size)
    answers = jnp.stack([priced.upper_bound, priced.upper_bound_of_cuts])
    pieces = jnp.stack(
        [
            answers,
            *(jnp.full((2,), part) for part in (priced.least_cost, -priced.least_cost, lost)),
        ],
        axis=1,
    )
    _, above = brackets.bracket_dot(
        pieces, jnp.stack([share, share, jnp.ones_like(share), jnp.ones_like(share)])[None, :]
    )
    return Asked(weights, asked.pairs, pair_weights), *jnp.where(is_whole, answers, above)


def better(old: Proof, new: Proof, counts: Array) -> Proof:
    """The proof of the greater bound, the old one where the new one does not count."""
    takes = counts & (new.bound > old.bound)
    return Proof(*(jnp.where(takes, one, other) for one, other in zip(new, old, strict=True)))
