"""The learner of Boolean monomials: conjunctions of literals that answer the sign of a class where
they hold, else 0 (paper 001, Section 6).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, records, words
from jboost.base.boosting import Everything, Proposal, signs
from jboost.base.boosting.protocols import Learner
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.monomials import SearchConfig, costs, covers, maximum_agreement
from jboost.monomials.costs import CostFunction
from jboost.monomials.short import MOST_LITERALS, Rewards, best_of_all
from jboost.monomials.types import MonomialSolution

_MOST_BYTES = 1 << 30  # of the list of all monomials


class Monomial(NamedTuple):
    """A conjunction of literals and the class that it stands for; without literals, a constant."""

    literals: Array  # [N] int8: +1 where the attribute must be 1, -1 where it must be 0
    sign: Array  # [] int8, +1 or -1


class MonomialsState(NamedTuple):
    """What `propose` needs."""

    features: Array  # [m, N] 0, 1, or NaN where neither literal holds
    labels: Array  # [m] +1 or -1; 1 on padding
    mask: Array  # [m] bool
    prices: Array  # [K + 1] by order


@dataclasses.dataclass(frozen=True)
class Monomials(Learner):
    """The learner behind `monomials`."""

    cost: CostFunction
    constant_cost: ArrayLike
    max_order: int | None
    config: SearchConfig

    @property
    def has_quick_answers(self) -> bool:
        """Whether there is more to search than the single literals."""
        return self.max_order is None or self.max_order > 1

    def num_hypotheses(self, num_attributes: int) -> int:
        """How many monomials there are, of both signs, the constants among them."""
        highest = num_attributes if self.max_order is None else self.max_order
        return 2 * sum(math.comb(num_attributes, order) * 2**order for order in range(highest + 1))

    def init(self, key: Array | None, dataset: Dataset) -> MonomialsState:
        """The examples, and the prices of orders on them; `key` is not used."""
        del key
        check.matrix("features", dataset.features)
        num_attributes = dataset.features.shape[1]
        if self.max_order is not None and self.max_order > num_attributes:
            check.has_columns(num_attributes)
            raise ValueError(
                f"max_order is {self.max_order}, above the {num_attributes} attributes: pass"
                f" {num_attributes}, or None for any order"
            )
        prices = self.price_list(num_attributes, jnp.sum(dataset.mask))
        prices = jnp.concatenate([jnp.asarray(self.constant_cost, prices.dtype).reshape(1), prices])
        features = jnp.asarray(dataset.features).astype(jnp.result_type(float))
        labels = jnp.where(dataset.mask, signs(dataset), 1)
        return MonomialsState(features, labels, dataset.mask, prices)

    def price_list(self, num_attributes: int, num_examples: ArrayLike) -> Array:
        """What monomials of 1 to K literals cost, [K]."""
        highest = num_attributes if self.max_order is None else self.max_order
        prices = self.cost(
            jnp.arange(1, highest + 1), num_attributes, jnp.asarray(num_examples), highest
        )
        return check.numeric("cost(orders, ...)", prices, shape=(highest,), kinds="fiu").astype(
            jnp.result_type(float)
        )

    def propose(
        self,
        state: MonomialsState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """The best monomials, the best first: by edge, or with `pair_weights` [m, m] and `costs`
        [K + 1] by (27), which `upper_bound` bounds then.
        """
        return self._answer(state, example_weights, pair_weights=pair_weights, costs=costs)

    def propose_above(
        self, state: MonomialsState, example_weights: Array, enough: Array
    ) -> Proposal:
        """`propose`, with the best monomials that a beam search finds where one of them has an edge
        above `enough` []; nothing is proven then.
        """
        return self._answer(state, example_weights, enough=enough)

    def values_all(self, state: MonomialsState) -> bool:
        """Whether there is `propose_for_pairs`: monomials of up to two literals, out of not too
        many, are all valued at once.
        """
        return (
            self.max_order is not None
            and self.max_order <= 2
            and 2 * state.features.shape[1] <= MOST_LITERALS
        )

    def propose_for_pairs(
        self, state: MonomialsState, example_weights: Array, rewards: Rewards, costs: Array
    ) -> Proposal:
        """`propose` with rewards for a list of pairs of examples: no matrix of all
        pairs is made.
        """
        weights = jnp.where(state.mask, example_weights, 0)
        features = jnp.where(state.mask[:, None], state.features, 0)
        found = best_of_all(
            features,
            state.labels,
            weights,
            rewards,
            costs,
            num_best=self.config.num_best,
            takes_missing=self.config.missing,
        )
        return self._proposal(state, found, example_weights)

    def _answer(
        self, state: MonomialsState, example_weights: Array, **question: Array | None
    ) -> Proposal:
        found = maximum_agreement(
            state.features,
            state.labels,
            example_weights,
            max_order=self.max_order,
            mask=state.mask,
            config=self.config,
            **question,
        )
        return self._proposal(state, found, example_weights)

    def _proposal(
        self, state: MonomialsState, found: MonomialSolution, example_weights: Array
    ) -> Proposal:
        """The monomials of a solution, with their outputs on the examples."""
        best = Monomial(found.others.literals, found.others.signs)
        outputs = jnp.where(covers(best.literals, state.features), best.sign[:, None], 0).astype(
            example_weights.dtype
        )
        outputs = jnp.where(found.status == int(Status.INVALID_INPUT), jnp.nan, outputs)
        return Proposal(
            best,
            jnp.where(state.mask[None, :], outputs, 0.0),
            found.others.values,
            found.upper_bound,
            state,
        )

    def every(self, state: MonomialsState) -> Everything:
        """All monomials of one literal or more, with both signs. Raises ValueError where they are
        too many to be listed.
        """
        num_examples, num_attributes = state.features.shape
        number = self.num_hypotheses(num_attributes) - 2
        num_bytes = number * max(num_examples, num_attributes) * state.features.dtype.itemsize
        if num_bytes > _MOST_BYTES:
            raise ValueError(
                f"max_order is {len(state.prices) - 1}: the {number:,} monomials of"
                f" {num_attributes} attributes take {num_bytes:,} bytes, above {_MOST_BYTES:,};"
                " lower it, or select fewer attributes (`min_separation` of"
                " jboost.data.binarization.fit)"
            )
        literals = jnp.asarray(_all_literals(num_attributes, len(state.prices) - 1))
        covered = covers(literals, state.features) & state.mask[None, :]
        orders = jnp.sum(jnp.abs(literals), axis=1, dtype=jnp.int32)
        signs = jnp.ones(literals.shape[:1], literals.dtype)
        positive = Everything(
            Monomial(literals, signs), covered.astype(state.features.dtype), state.prices[orders]
        )
        negative = positive._replace(
            hypotheses=Monomial(literals, -signs), outputs=-positive.outputs
        )
        return jax.tree.map(lambda one, other: jnp.concatenate([one, other]), positive, negative)

    def validate(self, dataset: Dataset) -> None:
        """Raises ValueError, naming the first feature that is neither 0 nor 1, NaN allowed where
        `config.missing` says so, and costs below 0.
        """
        validate_bits(dataset, "monomials", takes_missing=self.config.missing)
        _validate_prices(_prices_of(self, dataset.features.shape[1], dataset.mask))

    def outputs(self, hypothesis: Monomial, features: Array) -> Array:
        """The sign where the literals hold, else 0, on features [k, N]: [k]."""
        num_attributes = hypothesis.literals.shape[-1]
        features = check.numeric(
            "features", features, shape=("k", num_attributes), kinds="fiub"
        ).astype(jnp.result_type(float))
        return jnp.where(covers(hypothesis.literals[None], features)[0], hypothesis.sign, 0).astype(
            features.dtype
        )

    def outputs_are_signs(self, state: MonomialsState) -> Array:
        """They are: -1, 0 or +1."""
        return jnp.ones((), bool)

    def prices(self, state: MonomialsState) -> Array:
        """What `propose` takes as `costs`: [K + 1] by order."""
        return state.prices

    def least_price(self, state: MonomialsState) -> Array:
        """The least cost of a monomial with literals, []."""
        return jnp.min(state.prices[1:], initial=jnp.inf)

    def price(self, state: MonomialsState, hypothesis: Monomial) -> Array:
        """What a hypothesis costs beside a misclassified example, []."""
        return state.prices[jnp.sum(jnp.abs(hypothesis.literals), dtype=jnp.int32)]

    def describe(self, hypothesis: Monomial, names: Any) -> str:
        """The conjunction in words, in parentheses after a minus where its answer is -1."""
        literals = np.asarray(hypothesis.literals)
        asked = [
            (words.as_condition(str(names[place])), literals[place] > 0)
            for place in np.flatnonzero(literals)
        ]
        conjunction = (
            " and ".join(name if is_positive else f"not {name}" for name, is_positive in asked)
            or "always"
        )
        return conjunction if hypothesis.sign > 0 else f"-({conjunction})"


def validate_bits(dataset: Dataset, learner: str, *, takes_missing: bool) -> None:
    """Raises ValueError, naming the first feature that is neither 0 nor 1, nor NaN where a learner
    takes that.
    """
    check.matrix("features", dataset.features)
    features, kept = np.asarray(dataset.features, np.float64), np.asarray(dataset.mask)
    is_bad = ~np.isin(features, (0, 1)) & kept[:, None]
    if takes_missing:
        is_bad &= ~np.isnan(features)
    for row, column in np.argwhere(is_bad)[:1]:
        remedy = (
            "SearchConfig(missing=True) takes NaN"
            if np.isnan(features[row, column])
            else "jboost.data.binarization makes such attributes"
        )
        raise ValueError(
            f"features[{row}, {column}] is {features[row, column]:g}: expected 0 or 1 of {learner};"
            f" {remedy}"
        )


@functools.partial(jax.jit, static_argnames="num_attributes")
def _prices_of(learner: Monomials, num_attributes: int, mask: Array) -> Array:
    """Prices of a learner [K], as one program: outside of one every operation is compiled by
    itself.
    """
    return learner.price_list(num_attributes, jnp.sum(mask))


def _validate_prices(prices: Array) -> None:
    """Raises ValueError for prices [K] that are known and below 0, or NaN; inf is the price of what
    is not allowed.
    """
    if isinstance(prices, jax.core.Tracer):
        return
    for place in np.flatnonzero(~(np.asarray(prices) >= 0))[:1]:
        raise ValueError(
            f"cost is {float(prices[place]):g} of monomials of order {place + 1}: expected costs"
            " from 0 up"
        )


def _all_literals(num_attributes: int, max_order: int) -> np.ndarray:
    """All conjunctions of one literal to so many, [n, N] int8."""
    rows = [np.zeros((0, num_attributes), np.int8)]
    for order in range(1, max_order + 1):
        places = np.array(list(itertools.combinations(range(num_attributes), order)), int).reshape(
            -1, order
        )
        answers = np.array(list(itertools.product((1, -1), repeat=order)), np.int8)
        block = np.zeros((len(places), len(answers), num_attributes), np.int8)
        block[
            np.arange(len(places))[:, None, None],
            np.arange(len(answers))[None, :, None],
            places[:, None, :],
        ] = answers[None]
        rows.append(block.reshape(-1, num_attributes))
    return np.concatenate(rows)


records.register(Monomials, static=("max_order", "config"))


def monomials(
    max_order: int | None,
    *,
    cost: str | CostFunction = "mdl",
    kappa: ArrayLike = 1.5,
    constant_cost: ArrayLike = 0.0,
    num_proposed: int = 1,
    config: SearchConfig | None = None,
) -> Monomials:
    """A learner whose hypotheses are all conjunctions of up to `max_order` literals, with either
    sign, found by exact branch and bound.

    A monomial answers its sign where all its literals hold and 0 elsewhere. The proposal holds the
    best one, which is proven, and the best others that the search met; `upper_bound` is above the
    edge of every monomial. Where the search ends early the bound is still valid.

    Args:
      max_order: K, the most literals, at most the number of attributes; None for any.
      cost: "mdl" for (28) with `kappa`, or a function of `jboost.monomials.costs`: what `jboost.l0`
        pays for a monomial.
      kappa: [] of (28), for the bits of a coefficient.
      constant_cost: [] what a monomial without literals costs.
      num_proposed: how many monomials a proposal holds; with several, column generation
        (`jboost.l0`, `jboost.lpboost`) takes far fewer rounds.
      config: a `jboost.monomials.SearchConfig`; its `num_best` gives way to `num_proposed`.

    Returns:
      A learner for features [m, N] of 0 and 1, or NaN where neither literal holds
      (`jboost.data.binarization` makes them); a hypothesis is a
      `Monomial`: literals [N], sign [].

    Raises:
      ValueError: naming the argument; for `max_order` above N once the features are seen.

    Paper 001, (27) and (28).

    >>> import jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]], [1, -1, -1, -1])
    >>> learner = learners.monomials(2)
    >>> proposal = learner.propose(learner.init(None, dataset), jnp.array([0.7, 0.1, 0.1, 0.1]))
    >>> proposal.hypotheses.literals.tolist(), proposal.outputs.tolist()
    ([[1, 1]], [[1.0, 0.0, 0.0, 0.0]])
    """
    if max_order is not None:
        check.count("max_order", max_order, low=0)
    check.count("num_proposed", num_proposed, low=1)
    if isinstance(cost, str):
        check.choice("cost", cost, ("mdl",))
        cost = costs.mdl(check.number("kappa", kappa, low=0))
    elif not callable(cost):
        raise ValueError(
            f"cost is {cost!r}: expected 'mdl' or a function of jboost.monomials.costs"
        )
    elif jax.tree_util.all_leaves([cost]):
        cost = costs.OwnCost(cost)
    constant_cost = check.number("constant_cost", constant_cost, low=0, high=check.LARGEST)
    settings = check.config("config", config, SearchConfig)
    return Monomials(
        cost, constant_cost, max_order, dataclasses.replace(settings, num_best=num_proposed)
    )
