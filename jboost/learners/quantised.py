"""Decision stumps over features of at most 256 levels, kept as codes of 8 bits.

`stumps` stores the order and the values of every feature, 8 bytes per entry in 32 bits, and sums
along that order. Codes take one byte. A proposal computes a histogram of weights with 256 bins for
each feature, and sums along the codes. This takes O(m N + 256 N) and no sort (LightGBM, Ke et al.
2017, Algorithm 1).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, check, loops, numerics, records, reduce
from jboost.base.boosting import Proposal
from jboost.base.boosting.protocols import Learner
from jboost.base.types import Array, Dataset
from jboost.learners import criteria
from jboost.learners.sorted_features import entries_at
from jboost.learners.stumps import Stump, Stumps, _answers

_LEVELS = 256  # the number of values of a code of 8 bits


class QuantisedState(NamedTuple):
    """The state of the learner, which `propose` takes."""

    codes: Array  # [N, m] uint8
    is_split: Array  # [N, 256] whether an example has this code, and another has a larger one
    thresholds: Array  # [N, 256] halfway to the next code that occurs
    labels: Array  # [m] +1 or -1, 0 on padding


@dataclasses.dataclass(frozen=True)
class QuantisedStumps(Learner):
    """The learner behind `quantised_stumps`."""

    abstain: bool
    num_proposed: int

    def init(self, key: Array | None, dataset: Dataset) -> QuantisedState:
        """Finds which codes occur; `key` is not used."""
        del key
        boosting.validate_size(dataset)
        check.matrix("features", dataset.features)
        if dataset.features.dtype != jnp.uint8:
            raise ValueError(
                f"features have dtype {dataset.features.dtype}: expected codes of dtype uint8;"
                " learners.stumps takes other numbers"
            )
        num_features = dataset.features.shape[1]
        if self.num_proposed > num_features + 1:
            raise ValueError(
                f"num_proposed is {self.num_proposed}, but there is one stump a feature and the"
                f" constant, {num_features + 1} in all: propose at most as many"
            )
        codes, dtype = dataset.features.T, jnp.result_type(float)

        def find(_: None, row: Array) -> tuple[None, Array]:
            return None, jnp.zeros((_LEVELS,), bool).at[row].max(dataset.mask)

        _, is_present = loops.scan(find, None, codes)
        level = jnp.arange(_LEVELS, dtype=jnp.int32)[None, :]
        following = lax.cummin(jnp.where(is_present, level, _LEVELS), axis=1, reverse=True)
        following = jnp.pad(following[:, 1:], ((0, 0), (0, 1)), constant_values=_LEVELS)
        return QuantisedState(
            codes,
            is_present & (following < _LEVELS),
            (level + following).astype(dtype) / 2,
            boosting.signs(dataset),
        )

    def propose(
        self,
        state: QuantisedState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """The best stumps, at most one per feature, best first."""
        criteria.refuse_prices("learners.quantised_stumps", pair_weights, costs)
        plain, num_features = self._plain(), state.codes.shape[0]
        signed = example_weights * state.labels
        score, level, left, right, bound = self._search(state, signed)
        constant = plain._constant(example_weights, state.labels)
        values, chosen = numerics.top_k(jnp.concatenate([score, constant.score]), self.num_proposed)
        is_constant, has_split = chosen == num_features, values > -jnp.inf
        if num_features == 0:
            feature, threshold, columns = (
                jnp.zeros_like(chosen),
                jnp.zeros_like(values),
                jnp.zeros((self.num_proposed, signed.shape[0]), signed.dtype),
            )
            left, right = jnp.zeros_like(values), jnp.zeros_like(values)
        else:
            feature = jnp.where(is_constant, 0, chosen).astype(jnp.int32)
            threshold = entries_at(state.thresholds[feature], level[feature])
            left, right, columns = (
                left[feature],
                right[feature],
                state.codes[feature].astype(signed.dtype),
            )
        threshold = jnp.where(is_constant, -jnp.inf, jnp.where(has_split, threshold, 0.0))
        left = jnp.where(is_constant, constant.left, jnp.where(has_split, left, 0.0))
        right = jnp.where(is_constant, constant.right, jnp.where(has_split, right, 0.0))
        hypotheses = Stump(feature, threshold, left, right)
        outputs = jnp.where(
            state.labels[None, :] == 0, 0.0, jax.vmap(_answers)(hypotheses, columns)
        )
        upper_bound = jnp.maximum(reduce.largest(bound), constant.bound[0])
        return Proposal(hypotheses, outputs, jnp.where(has_split, values, 0.0), upper_bound, state)

    def outputs(self, hypothesis: Stump, features: Array) -> Array:
        """The outputs of a stump on features [k, N], codes or numbers of their scale, [k]."""
        return self._plain().outputs(hypothesis, features)

    def places(self, hypotheses: Stump) -> Array:
        """The feature of each stump, -1 for the constant."""
        return self._plain().places(hypotheses)

    def outputs_are_signs(self, state: QuantisedState) -> Array:
        """Always, [] bool."""
        del state
        return jnp.ones((), bool)

    def describe(self, hypothesis: Stump, names: Any) -> str:
        """The hypothesis in words."""
        return self._plain().describe(hypothesis, names)

    def _plain(self) -> Stumps:
        return Stumps(self.abstain, "edge", self.num_proposed)

    def _search(
        self, state: QuantisedState, signed: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """For the best split of each feature: edge, code, left and right output, and an upper bound
        on all edges; [N] each.
        """
        plain, dtype = self._plain(), signed.dtype

        def search(codes: Array, is_split: Array, signed: Array) -> tuple[Array, ...]:
            wide = signed.astype(jnp.float64)

            def sum_up(_: None, row: Array) -> tuple[None, Array]:
                return None, jnp.zeros((_LEVELS,), jnp.float64).at[row].add(wide)

            _, sums = loops.scan(sum_up, None, codes)
            left = lax.cumsum(sums, axis=1)
            total = left[:, -1]
            size = jnp.where(is_split, plain._edge(left, total[:, None] - left), -jnp.inf)
            greatest = reduce.largest(size)
            level = jnp.minimum(numerics.first_true(size == greatest[:, None]), _LEVELS - 1)
            left = entries_at(left, level)
            sides = plain._sides(left, total - left)
            bound = jnp.maximum(greatest, 0.0) + 4 * criteria.slack(signed)
            return (
                greatest.astype(dtype),
                level,
                *(side.astype(dtype) for side in sides),
                numerics.round_up(bound, dtype),
            )

        found: tuple[Array, Array, Array, Array, Array] = numerics.in_64_bits(search)(
            state.codes, state.is_split, signed
        )
        return found


records.register(QuantisedStumps, static=("abstain", "num_proposed"))


def quantised_stumps(*, abstain: bool = False, num_proposed: int = 1) -> QuantisedStumps:
    """A learner of decision stumps over codes of 8 bits. It finds the same stumps as `stumps` on
    the codes as numbers, with an eighth of the memory and without a sort.

    Codes stand for the levels of a feature, in their order; there is no code for a missing value.
    Thresholds lie halfway between neighbouring codes. Sums are computed in 64 bits, and
    `upper_bound` is at least the exact edge of every stump. Among splits whose edges differ only by
    rounding, it may propose another one than `stumps`.

    Args:
      abstain: whether stumps with output 0 on one side are also hypotheses.
      num_proposed: the number of stumps of a proposal, at most N + 1. If fewer features vary, the
        last ones have output 0 everywhere.

    Returns:
      A learner for features [m, N] of dtype uint8, by the edge; a hypothesis is a `Stump`.

    Raises:
      ValueError: naming the argument; for features of another dtype, and for `num_proposed` above
        N + 1, once the features are seen.

    >>> import jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> dataset = jboost.make_dataset(jnp.array([[1], [2], [4]], jnp.uint8), [-1, -1, 1])
    >>> learner = learners.quantised_stumps()
    >>> proposal = learner.propose(learner.init(None, dataset), jnp.array([0.5, 0.25, 0.25]))
    >>> proposal.hypotheses.threshold.tolist(), proposal.outputs.tolist()
    ([3.0], [[-1.0, -1.0, 1.0]])
    """
    check.choice("abstain", abstain, (False, True))
    check.count("num_proposed", num_proposed, low=1)
    return QuantisedStumps(abstain, num_proposed)
