"""The learner of Boolean monomials: conjunctions of literals whose output is the sign of a class
where they hold, else 0 (Goldberg and Eckstein 2009, Section 6).
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

from jboost.base import check, devices, records, words
from jboost.base.boosting import Everything, Proposal, signs
from jboost.base.boosting.protocols import Learner
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.monomials import Rewards, SearchConfig, costs, covers, maximum_agreement
from jboost.monomials.costs import CostFunction
from jboost.monomials.short import MOST_LITERALS, best_of_all
from jboost.monomials.types import MonomialSolution

_MOST_BYTES = 1 << 30  # the largest size of a list of all monomials


class Monomial(NamedTuple):
    """A conjunction of literals and the class that it predicts; without literals, a constant."""

    literals: Array  # [N] int8: +1 where the attribute must be 1, -1 where it must be 0
    sign: Array  # [] int8, +1 or -1


class MonomialsState(NamedTuple):
    """The state of the learner, which `propose` takes."""

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
        """Whether monomials may have more than one literal."""
        return self.max_order is None or self.max_order > 1

    def num_hypotheses(self, num_attributes: int) -> int:
        """The number of monomials of both signs, including the constants."""
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
        """The costs of monomials of 1 to K literals, [K]."""
        highest = num_attributes if self.max_order is None else self.max_order
        orders = devices.from_host(np.arange(1, highest + 1, dtype=np.int32))
        if isinstance(num_examples, int):
            num_examples = devices.from_host(np.asarray(num_examples, np.int32))
        prices = self.cost(orders, num_attributes, jnp.asarray(num_examples), highest)
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
        """The best monomials, best first. They are ranked by edge, or with `pair_weights` [m, m]
        and `costs` [K + 1] by (27), which `upper_bound` then bounds.
        """
        return self._answer(state, example_weights, pair_weights=pair_weights, costs=costs)

    def propose_above(
        self, state: MonomialsState, example_weights: Array, enough: Array
    ) -> Proposal:
        """The best monomials that a beam search finds, if one of them has an edge above `enough`
        []; nothing is proven in this case. Otherwise as `propose`.
        """
        return self._answer(state, example_weights, enough=enough)

    def propose_for_pairs(
        self, state: MonomialsState, example_weights: Array, rewards: Rewards, costs: Array
    ) -> Proposal:
        """`propose` with rewards for a list of pairs of examples, without a matrix of all pairs.

        All monomials of up to two literals are valued at once, if there are not too many literals;
        others are found by branch and bound.
        """
        if not self._values_all(state):
            return self._answer(state, example_weights, pair_weights=rewards, costs=costs)
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

    def _values_all(self, state: MonomialsState) -> bool:
        """Whether all monomials are valued at once."""
        return (
            self.max_order is not None
            and self.max_order <= 2
            and 2 * state.features.shape[1] <= MOST_LITERALS
        )

    def _answer(self, state: MonomialsState, example_weights: Array, **question: Any) -> Proposal:
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
        """All monomials of at least one literal, with both signs. Raises ValueError if there are
        too many to list.
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
        """Raises ValueError, naming the first feature that is not 0 or 1 (or NaN, if
        `config.missing` allows it), and for negative costs.
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
        """True: outputs are -1, 0 or +1."""
        return jnp.ones((), bool)

    def prices(self, state: MonomialsState) -> Array:
        """The costs by order, [K + 1], which `propose` takes as `costs`."""
        return state.prices

    def least_price(self, state: MonomialsState) -> Array:
        """The least cost of a monomial with literals, []."""
        return jnp.min(state.prices[1:], initial=jnp.inf)

    def price(self, state: MonomialsState, hypothesis: Monomial) -> Array:
        """The cost of a hypothesis, relative to that of a misclassified example, []."""
        return state.prices[jnp.sum(jnp.abs(hypothesis.literals), dtype=jnp.int32)]

    def describe(self, hypothesis: Monomial, names: Any) -> str:
        """The conjunction in words; in parentheses after a minus if the sign is -1."""
        literals = np.asarray(hypothesis.literals)
        literal_words = [
            (words.as_condition(str(names[index])), literals[index] > 0)
            for index in np.flatnonzero(literals)
        ]
        conjunction = (
            " and ".join(
                name if is_positive else f"not {name}" for name, is_positive in literal_words
            )
            or "always"
        )
        return conjunction if hypothesis.sign > 0 else f"-({conjunction})"


def validate_bits(dataset: Dataset, learner: str, *, takes_missing: bool) -> None:
    """Raises ValueError, naming the first feature that is not 0 or 1 (or NaN, if the learner
    allows it).
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
    """The costs of a learner [K], computed by one compiled program. Otherwise every operation would
    be compiled separately.
    """
    return learner.price_list(num_attributes, jnp.sum(mask))


def _validate_prices(prices: Array) -> None:
    """Raises ValueError for concrete costs [K] that are negative or NaN. A cost of inf excludes
    monomials of that order.
    """
    if isinstance(prices, jax.core.Tracer):
        return
    for index in np.flatnonzero(~(np.asarray(prices) >= 0))[:1]:
        raise ValueError(
            f"cost is {float(prices[index]):g} of monomials of order {index + 1}: expected costs"
            " from 0 up"
        )


def _all_literals(num_attributes: int, max_order: int) -> np.ndarray:
    """All conjunctions of 1 to `max_order` literals, [n, N] int8."""
    rows = [np.zeros((0, num_attributes), np.int8)]
    for order in range(1, max_order + 1):
        chosen = np.array(list(itertools.combinations(range(num_attributes), order)), int).reshape(
            -1, order
        )
        answers = np.array(list(itertools.product((1, -1), repeat=order)), np.int8)
        block = np.zeros((len(chosen), len(answers), num_attributes), np.int8)
        block[
            np.arange(len(chosen))[:, None, None],
            np.arange(len(answers))[None, :, None],
            chosen[:, None, :],
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

    The output of a monomial is its sign where all its literals hold, and 0 elsewhere. The proposal
    holds the best monomial, which is proven to be optimal, and the best others that the search
    found. `upper_bound` is at least the edge of every monomial. It is valid even if the search ends
    early.

    Args:
      max_order: K, the largest number of literals, at most the number of attributes; None for any.
      cost: the cost of a monomial for `jboost.l0`: "mdl" for (28) with `kappa`, or a function of
        `jboost.monomials.costs`.
      kappa: [] of (28), for the bits of a coefficient.
      constant_cost: [] the cost of a monomial without literals.
      num_proposed: the number of monomials of a proposal. With several, column generation
        (`jboost.l0`, `jboost.lpboost`) takes far fewer rounds.
      config: a `jboost.monomials.SearchConfig`, whose `num_best` is replaced by `num_proposed`.

    Returns:
      A learner for features [m, N] of 0 and 1, or NaN where neither literal holds
      (`jboost.data.binarization` makes them); a hypothesis is a
      `Monomial`: literals [N], sign [].

    Raises:
      ValueError: naming the argument; for `max_order` above N once the features are seen.

    Goldberg and Eckstein 2009, (27) and (28).

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
