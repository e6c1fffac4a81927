"""Decision stumps: one feature against one threshold, the best over all features and all
thresholds.

It finds the best hypothesis h under the distribution d, as the boosters of Hatano and of
Shalev-Shwartz and Singer 2008 require. `init` sorts every feature once. `propose` computes
cumulative sums over the sorted examples, in O(m N). Split p of a feature lies between positions p
and p + 1 of its order: examples up to position p are on the left side, the others on the right.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, check, meshes, numerics, records, reduce, words
from jboost.base.boosting import Proposal
from jboost.base.boosting.protocols import Learner
from jboost.base.types import Array, Dataset
from jboost.learners import criteria, prices, split_worth
from jboost.learners.criteria import ConfusionCells
from jboost.learners.sorted_features import (
    entries_at,
    is_split,
    over_blocks,
    sort_features,
    thresholds_of,
)
from jboost.monomials import Rewards

# Entries of a block of features. Each temporary array of float64 then has 4 MiB, which fits the
# cache of a processor (with four times as many, each entry took three times as long), and is enough
# work for an accelerator.
_ENTRIES_AT_ONCE = 1 << 19


class Stump(NamedTuple):
    """The output is `right` where the feature is above the threshold and `left` elsewhere. Where
    the feature is missing it is 0, unless left equals right.
    """

    feature: Array  # [] int32
    threshold: Array  # []
    left: Array  # [] -1, 0 or +1
    right: Array  # [] -1, 0 or +1


class StumpsState(NamedTuple):
    """The state of the learner, which `propose` takes. Features are stored in blocks. The last
    block is padded with features that are missing everywhere.
    """

    # [blocks, n, m] int32, the examples by ascending feature; missing ones and padding last
    order: Array
    values: Array  # [blocks, n, m] the features in that order, NaN where missing or padding
    labels: Array  # [m] +1 or -1, 0 on padding


class _BestSplit(NamedTuple):
    """The best split of each feature of a block."""

    score: Array  # [n] edge or 1 - Z; -inf for a feature without splits
    position: Array  # [n] int32, the p of the split
    left: Array  # [n]
    right: Array  # [n]
    bound: Array  # [n] an upper bound on |edge| of all stumps of the feature


@dataclasses.dataclass(frozen=True)
class Stumps(Learner):
    """The learner behind `stumps`."""

    abstain: bool
    criterion: str
    num_proposed: int
    cost: float = 1.0  # of a stump, relative to that of a misclassified example, for `jboost.l0`

    @property
    def has_exact_sums(self) -> bool:
        """True: all sums are those of `jboost.base`."""
        return True

    def init(self, key: Array | None, dataset: Dataset) -> StumpsState:
        """Sorts every feature; `key` is not used."""
        del key
        boosting.validate_size(dataset)
        check.matrix("features", dataset.features)
        num_examples, num_features = dataset.features.shape
        if self.num_proposed > num_features + 1:
            raise ValueError(
                f"num_proposed is {self.num_proposed}, but there is one stump a feature and the"
                f" constant, {num_features + 1} in all: propose at most as many"
            )
        num_blocks = max(1, -(-num_features // max(1, _ENTRIES_AT_ONCE // num_examples)))
        block = max(1, -(-num_features // num_blocks))
        block = -(-block // meshes.num_devices()) * meshes.num_devices()
        values = dataset.features.T.astype(jnp.result_type(float))
        values = jnp.where(dataset.mask[None, :], values, jnp.nan)
        values = jnp.pad(
            values, ((0, num_blocks * block - num_features), (0, 0)), constant_values=jnp.nan
        )
        order, values = over_blocks(sort_features, values.reshape(num_blocks, block, num_examples))
        return StumpsState(order, values, boosting.signs(dataset))

    def propose(
        self,
        state: StumpsState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """The best stumps, at most one per feature, best first. With `pair_weights` [m, m] and
        `costs` [N] they are ranked by g + s - c.
        """
        if pair_weights is not None or costs is not None:
            pairs = prices.validate_pairs(pair_weights, len(example_weights), example_weights.dtype)
            return self.propose_for_pairs(state, example_weights, pairs, costs)
        search = self._search_edges if self.criterion == "edge" else self._search_normalizers
        blocks = over_blocks(
            search, state.order, state.values, shared=example_weights * state.labels
        )
        best = jax.tree.map(lambda leaf: leaf.reshape(-1), blocks)
        num_features = best.score.shape[0]
        constant = self._constant(example_weights, state.labels)
        values, chosen = numerics.top_k(
            jnp.concatenate([best.score, constant.score]), self.num_proposed
        )
        is_constant, has_split = chosen == num_features, values > -jnp.inf
        # A feature without splits may have to be proposed. Its output is 0 everywhere, so that its
        # edge is 0 and its Z is the whole weight.
        nothing = (
            jnp.zeros_like(values)
            if self.criterion == "edge"
            else 1 - jnp.full_like(values, numerics.precise_sum(example_weights))
        )
        feature = jnp.where(is_constant, 0, chosen).astype(jnp.int32)
        block = state.order.shape[1]
        order, sorted_values = (
            leaf[feature // block, feature % block] for leaf in (state.order, state.values)
        )
        hypotheses = _chosen_stumps(best, constant, feature, is_constant, has_split, sorted_values)
        outputs = _outputs(state, hypotheses, order, sorted_values)
        upper_bound = jnp.maximum(reduce.largest(best.bound), constant.bound[0])
        return Proposal(
            hypotheses, outputs, jnp.where(has_split, values, nothing), upper_bound, state
        )

    def propose_for_pairs(
        self,
        state: StumpsState,
        example_weights: Array,
        rewards: Rewards,
        costs: Array | None,
    ) -> Proposal:
        """The stumps of greatest worth (Goldberg and Eckstein 2009, (21)), from the best split and
        sign of each feature, for a list of K pairs of examples. Each feature takes O(m + K).
        """
        if self.abstain:
            raise ValueError(
                "learner is stumps(abstain=True), which has no prices: pass stumps() or"
                " learners.monomials"
            )
        num_examples = len(example_weights)
        order, sorted_values = (
            leaf.reshape(-1, num_examples) for leaf in (state.order, state.values)
        )
        price = self._prices_or(costs, state)
        values, position, is_own = _best_by_feature(
            state, order, sorted_values, example_weights, rewards, price
        )
        values, feature = _padded_top_k(values, self.num_proposed)
        has_split = values > -jnp.inf
        right = jnp.where(has_split, jnp.where(is_own[feature], 1.0, -1.0), 0.0).astype(
            values.dtype
        )
        threshold = jnp.where(
            has_split, thresholds_of(sorted_values[feature], position[feature]), 0.0
        )
        hypotheses = Stump(feature.astype(jnp.int32), threshold, -right, right)
        outputs = _outputs(state, hypotheses, order[feature], sorted_values[feature])
        return Proposal(
            hypotheses,
            outputs,
            values,
            values[0] + prices.slack(example_weights, rewards, price),
            state,
        )

    def prices(self, state: StumpsState) -> Array:
        """The costs of a stump on each feature, padding included, [n]; `propose` takes them as
        `costs`.
        """
        return jnp.full(
            (state.order.shape[0] * state.order.shape[1],), self.cost, state.labels.dtype
        )

    def _prices_or(self, costs: Array | None, state: StumpsState) -> Array:
        """The costs [n], validated; those of `prices` for None."""
        if costs is None:
            return self.prices(state)
        num_blocks, block, _ = state.order.shape
        return check.numeric("costs", costs, shape=(num_blocks * block,), kinds="f")

    def price(self, state: StumpsState, hypothesis: Stump) -> Array:
        """The cost of a stump, relative to that of a misclassified example, []."""
        return self.prices(state)[hypothesis.feature]

    def least_price(self, state: StumpsState) -> Array:
        """The least cost of a stump, []."""
        return jnp.asarray(self.cost, state.labels.dtype)

    def outputs(self, hypothesis: Stump, features: Array) -> Array:
        """The outputs of a stump on features [k, N], [k]."""
        features = jnp.asarray(features)
        check.matrix("features", features)
        if features.shape[1] == 0:  # without features there are only constants
            return jnp.broadcast_to(hypothesis.right, features.shape[:1]).astype(float)
        column = jnp.take(features, hypothesis.feature, axis=1)
        return _answers(hypothesis, column.astype(jnp.result_type(float)))

    def places(self, hypotheses: Stump) -> Array:
        """The feature of each stump, -1 for the constant."""
        return jnp.where(hypotheses.left == hypotheses.right, -1, hypotheses.feature)

    def never_abstains(self, state: StumpsState) -> Array:
        """Whether no value is missing, [] bool; outputs are 0 only for missing values."""
        num_missing = jnp.sum(jnp.isnan(state.values), axis=-1)
        return jnp.all(
            (num_missing == jnp.sum(state.labels == 0)) | (num_missing == state.values.shape[-1])
        )

    def outputs_are_signs(self, state: StumpsState) -> Array:
        """Always, [] bool."""
        del state
        return jnp.ones((), bool)

    def describe(self, hypothesis: Stump, names: Any) -> str:
        """The hypothesis in words. A feature whose name is a condition is taken for a bit that is 1
        where the condition holds.
        """
        left, right = (
            f"{float(side):+.0f}" if side else "0" for side in (hypothesis.left, hypothesis.right)
        )
        if hypothesis.left == hypothesis.right:
            return f"{right} always"
        name = str(names[int(hypothesis.feature)])
        if words.is_condition(name) and 0 <= hypothesis.threshold < 1:  # a bit
            return f"{right} if {name} else {left}"
        return f"{right} if {words.quoted(name)} > {words.number(hypothesis.threshold)} else {left}"

    def _search_edges(self, order: Array, values: Array, signed: Array) -> _BestSplit:
        dtype = signed.dtype

        def search(order: Array, values: Array, signed: Array) -> _BestSplit:
            terms = jnp.where(values == values, signed[order], 0.0).astype(jnp.float64)
            left = numerics.cumulative_sum(terms)
            total = left[:, -1]
            size = self._edge(left, total[:, None] - left)
            size = jnp.where(is_split(values), size, -jnp.inf)
            greatest = reduce.largest(size)
            position = jnp.minimum(
                numerics.first_true(size == greatest[:, None]), size.shape[1] - 1
            )
            left = entries_at(left, position)
            left, right = self._sides(left, total - left)
            bound = jnp.maximum(greatest, 0.0) + 4 * criteria.slack(signed)
            return _BestSplit(
                greatest.astype(dtype),
                position,
                left.astype(dtype),
                right.astype(dtype),
                numerics.round_up(bound, dtype),
            )

        best: _BestSplit = numerics.in_64_bits(search)(order, values, signed)
        return best

    def _search_normalizers(self, order: Array, values: Array, signed: Array) -> _BestSplit:
        dtype = signed.dtype

        def tables(order: Array, values: Array, signed: Array) -> tuple[Array, ...]:
            gathered = signed[order]
            present = values == values
            missing = reduce.total(jnp.where(present, 0.0, jnp.abs(gathered)).astype(jnp.float64))[
                :, None
            ]
            sums = []
            for terms in (jnp.maximum(gathered, 0.0), jnp.maximum(-gathered, 0.0)):
                terms = jnp.where(present, terms, 0.0).astype(jnp.float64)
                above = jnp.pad(terms[:, 1:], ((0, 0), (0, 1)))
                sums += [
                    numerics.cumulative_sum(terms),
                    numerics.cumulative_sum(above, reverse=True),
                ]
            left_positive, right_positive, left_negative, right_negative = sums
            size = self._edge(left_positive - left_negative, right_positive - right_negative)
            greatest = reduce.largest(jnp.where(is_split(values), size, 0.0))
            bound = numerics.round_up(greatest + 4 * criteria.slack(signed), dtype)
            return (*(part.astype(dtype) for part in (*sums, missing)), bound)

        # One-sided stumps need no search: since 2 sqrt(ab) <= a + b, the same split with outputs on
        # both sides has no greater Z.
        *sums, missing, bound = numerics.in_64_bits(tables)(order, values, signed)
        left_positive, right_positive, left_negative, right_negative = sums
        z = criteria.normalizer(
            ConfusionCells(right_positive, right_negative, left_negative, left_positive, missing)
        )
        z = jnp.where(is_split(values), z, jnp.inf)
        least = reduce.least(z)
        position = jnp.minimum(numerics.first_true(z == least[:, None]), z.shape[1] - 1)
        left_positive, right_positive, left_negative, right_negative = (
            entries_at(part, position) for part in sums
        )
        edge = (right_positive - right_negative) - (left_positive - left_negative)
        right = jnp.where(edge < 0, -1.0, 1.0).astype(dtype)
        return _BestSplit(1 - least, position, -right, right, bound)

    def _edge(self, left: Array, right: Array) -> Array:
        """The greatest edge of the stumps at a split, given sum_i d_i y_i over the examples on its
        left and on its right side.
        """
        both = jnp.abs(right - left)
        return (
            jnp.maximum(both, jnp.maximum(jnp.abs(left), jnp.abs(right))) if self.abstain else both
        )

    def _sides(self, left: Array, right: Array) -> tuple[Array, Array]:
        """The left and right output of the stump of greatest edge at a split."""
        sign = jnp.where(right < left, -1.0, 1.0)
        if not self.abstain:
            return -sign, sign
        both = jnp.abs(right - left)
        left_alone = (jnp.abs(left) > both) & (jnp.abs(left) >= jnp.abs(right))
        right_alone = (jnp.abs(right) > both) & ~left_alone
        sign_left, sign_right = jnp.where(left < 0, -1.0, 1.0), jnp.where(right < 0, -1.0, 1.0)
        return (
            jnp.where(left_alone, sign_left, jnp.where(right_alone, 0.0, -sign)),
            jnp.where(right_alone, sign_right, jnp.where(left_alone, 0.0, sign)),
        )

    def _constant(self, example_weights: Array, labels: Array) -> _BestSplit:
        """The constant classifier, as a block of one."""
        ones = jnp.ones((1, labels.shape[0]), example_weights.dtype)
        edge, bound = criteria.edges(ones, example_weights * labels)
        score = jnp.abs(edge)
        if self.criterion == "normalizer":
            score = 1 - criteria.normalizer(criteria.cells_of(ones, example_weights, labels))
        sign = jnp.where(edge < 0, -1.0, 1.0).astype(edge.dtype)
        return _BestSplit(score, jnp.zeros((1,), jnp.int32), sign, sign, bound[None])


records.register(
    Stumps,
    static=(
        "abstain",
        "criterion",
        "num_proposed",
        "cost",
    ),
)


def _chosen_stumps(
    best: _BestSplit,
    constant: _BestSplit,
    feature: Array,
    is_constant: Array,
    has_split: Array,
    sorted_values: Array,
) -> Stump:
    """The best stumps of some features [k], or constants. Without a split the output is 0."""
    position = jnp.where(is_constant, 0, best.position[feature])
    threshold = jnp.where(
        is_constant, -jnp.inf, jnp.where(has_split, thresholds_of(sorted_values, position), 0.0)
    )
    left = jnp.where(is_constant, constant.left, jnp.where(has_split, best.left[feature], 0.0))
    right = jnp.where(is_constant, constant.right, jnp.where(has_split, best.right[feature], 0.0))
    return Stump(feature, threshold, left, right)


def _padded_top_k(values: Array, count: int) -> tuple[Array, Array]:
    """The greatest values and their indices, [count] each; -inf and 0 if there are fewer values."""
    values, index = numerics.top_k(values, min(count, len(values)))
    missing = (0, count - len(index))
    return jnp.pad(values, missing, constant_values=-jnp.inf), jnp.pad(index, missing)


def _best_by_feature(
    state: StumpsState,
    order: Array,
    sorted_values: Array,
    example_weights: Array,
    rewards: Rewards,
    price: Array,
) -> tuple[Array, Array, Array]:
    """The greatest worth of the stumps of each feature, the position of its split, and whether it
    is positive above it, [N] each.
    """
    num_examples = len(example_weights)
    rewards = prices.of_examples(rewards, state.labels)

    def best_of_feature(part: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        positions, row, cost = part
        column = row.at[positions].set(row, unique_indices=True)
        # an example is above the splits at the positions before its rank
        ranks = jnp.searchsorted(row, column).astype(jnp.int32)
        worth = numerics.in_64_bits(split_worth.of_splits)(
            jnp.where(jnp.isnan(column), -1, ranks), state.labels, example_weights, rewards
        )
        values = jnp.where(is_split(row[None]), worth - cost, -jnp.inf).reshape(-1)
        best = jnp.argmax(values)
        return values[best], best % num_examples, best < num_examples

    values, position, is_own = lax.map(best_of_feature, (order, sorted_values, price))
    return values, position, is_own


def _outputs(state: StumpsState, hypotheses: Stump, order: Array, sorted_values: Array) -> Array:
    """The outputs [k, m] of stumps, from the order and the sorted values [k, m] of their
    features.
    """
    columns = jax.vmap(lambda order, row: row.at[order].set(row, unique_indices=True))(
        order, sorted_values
    )
    return jnp.where(state.labels[None, :] == 0, 0.0, jax.vmap(_answers)(hypotheses, columns))


def _answers(stump: Stump, column: Array) -> Array:
    answers = jnp.where(column > stump.threshold, stump.right, stump.left)
    return jnp.where(jnp.isnan(column) & (stump.left != stump.right), 0.0, answers)


def stumps(
    *, abstain: bool = False, criterion: str = "edge", num_proposed: int = 1, cost: float = 1.0
) -> Stumps:
    """A learner of decision stumps: h(x) = right where x_j > threshold, left elsewhere, the best
    over all features and thresholds.

    Left and right are opposite signs; with `abstain`, one of them may be 0 instead. The constant
    classifier is among the hypotheses (threshold -inf, left = right). Thresholds lie halfway
    between neighbouring values; equal values are never separated. NaN is a missing value: the
    output of a stump is 0 there, except for the constant classifier.

    The proposal holds the best stump of each of the `num_proposed` best features, best first. The
    constant classifier competes like a feature of its own. Edges are not negative (with the
    criterion "normalizer", whose `values` are 1 - Z, up to rounding). `upper_bound` is at least the
    exact edge of every stump, for both criteria. Sums are computed in 64 bits, so that it lies only
    one rounding above the best edge. A proposal takes O(m N), after one sort of each feature in
    `init`.

    Args:
      abstain: whether stumps with output 0 on one side are also hypotheses.
      criterion: "edge" for the least weighted error, "normalizer" for the least Z.
      num_proposed: the number of stumps of a proposal, at most N + 1. If fewer features vary, the
        last ones have output 0 everywhere.
      cost: the cost of a stump for `jboost.l0`, relative to that of a misclassified example.
        `jboost.l0` takes only stumps that do not abstain.

    Returns:
      A learner for features [m, N]; a hypothesis is a `Stump`: feature [], threshold [], left [],
      right [].

    Raises:
      ValueError: naming the argument; for `num_proposed` above N + 1 once the features are seen.

    Hatano, Figure 1 (Z); Shalev-Shwartz and Singer 2008, Figure 1 (the largest edge).

    >>> import jax, jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> dataset = jboost.make_dataset([[1.0], [2.0], [4.0]], [-1, -1, 1])
    >>> learner = learners.stumps()
    >>> state = jax.jit(learner.init)(None, dataset)
    >>> proposal = jax.jit(learner.propose)(state, jnp.array([0.5, 0.25, 0.25]))
    >>> proposal.hypotheses.threshold.tolist(), proposal.outputs.tolist()
    ([3.0], [[-1.0, -1.0, 1.0]])
    """
    check.choice("abstain", abstain, (False, True))
    check.choice("criterion", criterion, criteria.CRITERIA)
    check.count("num_proposed", num_proposed, low=1)
    return Stumps(abstain, criterion, num_proposed, prices.validate_cost(cost))
