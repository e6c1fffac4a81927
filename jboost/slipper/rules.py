"""The weak learner: in each round one rule, which is grown and pruned on a random split of the
examples, or the default rule.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost import learners
from jboost.base import boosting, check, loops, numerics
from jboost.base.boosting import Learner, Proposal
from jboost.base.records import register
from jboost.base.types import Array, Dataset
from jboost.learners import Monomial
from jboost.learners.criteria import refuse_prices
from jboost.learners.monomials import validate_bits
from jboost.monomials import covers, integers

_GROW_SHARE = 2 / 3  # of the weight of each class (Cohen and Singer 1999)


def confidence(right: Array, wrong: Array, num_examples: Array) -> Array:
    """C_R = ln((W+ + 1 / (2 m)) / (W- + 1 / (2 m))) / 2 for weights that sum to 1 over m examples.
    It is always finite.
    """
    smoothing = 0.5 / jnp.maximum(jnp.asarray(num_examples, right.dtype), 1)
    return 0.5 * (jnp.log(right + smoothing) - jnp.log(wrong + smoothing))


class RulesState(NamedTuple):
    """The state of the learner, which `propose` takes."""

    # [2 N, m] 1 where a literal holds, else 0; attributes first, then their negations; 0 on padding
    literals: Array
    is_positive: Array  # [m] bool, whether an example has the class that rules predict
    mask: Array  # [m] bool
    is_valid: Array  # [] bool, whether features are 0, 1 or NaN
    is_grown: Array  # [m] bool, the GrowSet of the last round
    key: Array  # for the next call


class _Growing(NamedTuple):
    is_covered: Array  # [m] bool
    chosen: Array  # [K] int32, the literals so far; 2 N in unused entries
    # [K + 1, 4] integers W+, W-, V+, V- of the rule with only its first 0 to K literals
    tables: Array
    length: Array  # [] int32
    is_growing: Array  # [] bool


@dataclasses.dataclass(frozen=True)
class Rules(Learner):
    """The learner behind `rules`."""

    max_order: int
    positive: str | int

    has_negations = False

    def init(self, key: Array | None, dataset: Dataset) -> RulesState:
        """Stores the key and the examples."""
        key = check.key("key", key)
        check.matrix("features", dataset.features)
        features = jnp.asarray(dataset.features).astype(jnp.result_type(float)).T
        is_known = (features == 0) | (features == 1) | jnp.isnan(features)
        literals = jnp.concatenate([features == 1, features == 0]) & dataset.mask[None, :]
        signs = boosting.signs(dataset)
        direction = jnp.ones((), signs.dtype)
        if self.positive == "minority":
            amounts, _ = _amounts(boosting.initial_distribution(dataset))
            direction = jnp.where(
                jnp.sum(jnp.where(signs > 0, amounts, -amounts)) > 0, -1.0, 1.0
            ).astype(signs.dtype)
        elif self.positive == -1:
            direction = -direction
        return RulesState(
            literals=literals.astype(features.dtype),
            is_positive=signs * direction > 0,
            mask=dataset.mask,
            is_valid=jnp.all(is_known | ~dataset.mask[None, :]),
            is_grown=jnp.zeros_like(dataset.mask),
            key=key,
        )

    def validate(self, dataset: Dataset) -> None:
        """Raises ValueError, naming the first feature that is neither 0 nor 1 nor NaN."""
        validate_bits(dataset, "rules", takes_missing=True)

    def propose(
        self,
        state: RulesState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """One rule, from a new split; its value is (sqrt(W+) - sqrt(W-))^2 on all examples."""
        refuse_prices("rules()", pair_weights, costs)
        key, key_split = jax.random.split(state.key)
        dtype = example_weights.dtype
        amounts, power = _amounts(jnp.where(state.mask, example_weights, 0.0))
        is_grown = _split(key_split, amounts, state.is_positive, state.mask)
        parts = jnp.stack([is_grown, is_grown, ~is_grown, ~is_grown], axis=1)
        classes = jnp.stack([state.is_positive, ~state.is_positive] * 2, axis=1)
        parts = jnp.where(parts & classes, amounts[:, None], 0)

        grown = _grow(state.literals, parts, min(self.max_order, state.literals.shape[0] // 2))
        shares = numerics.times_power_of_two(grown.tables.astype(dtype), -power)
        order = _prune(shares, grown.length, jnp.sum(state.mask))
        whole = grown.tables[:, :2] + grown.tables[:, 2:]
        advantage, default = _advantage(whole)[order], _advantage(whole)[0]
        is_better = (advantage > 0) & (advantage >= jnp.abs(default))
        order = jnp.where(is_better, order, 0)

        is_kept = jnp.arange(grown.chosen.shape[0]) < order
        used = (
            jnp.zeros(state.literals.shape[0], jnp.int8)
            .at[jnp.where(is_kept, grown.chosen, len(state.literals))]
            .set(1, mode="drop")
        )
        missed = numerics.times(used[None, :].astype(dtype), (1 - state.literals).astype(dtype))
        outputs = jnp.where((missed == 0) & state.mask[None, :], 1.0, 0.0).astype(dtype)
        half = state.literals.shape[0] // 2
        rule = Monomial((used[:half] - used[half:])[None, :], jnp.ones((1,), jnp.int8))
        value = jnp.where(is_better, advantage, default) ** 2
        value = numerics.times_power_of_two(value, -power)[None]
        outputs = jnp.where(state.is_valid, outputs, jnp.nan)
        return Proposal(
            rule,
            outputs,
            value,
            jnp.full((), jnp.inf, dtype),
            state._replace(is_grown=is_grown, key=key),
        )

    def outputs(self, hypothesis: Monomial, features: Array) -> Array:
        """1 where the literals hold, else 0, on features [k, N]: [k]."""
        num_attributes = hypothesis.literals.shape[-1]
        features = check.numeric(
            "features", features, shape=("k", num_attributes), kinds="fiub"
        ).astype(jnp.result_type(float))
        return jnp.where(covers(hypothesis.literals[None], features)[0], hypothesis.sign, 0).astype(
            features.dtype
        )

    def outputs_are_signs(self, state: RulesState) -> Array:
        """True: outputs are 0 or +1."""
        del state
        return jnp.ones((), bool)

    def describe(self, hypothesis: Monomial, names: Any) -> str:
        """The conjunction in words."""
        return learners.monomials(None).describe(hypothesis, names)


register(Rules, static=("max_order", "positive"))


def _amounts(example_weights: Array) -> tuple[Array, Array]:
    """Weights as integers, and the power of 2 by which they are scaled. Sums of integers are exact
    in any order, so that ties are exact.
    """
    power = integers.exponent(jnp.sum(example_weights))
    return integers.to_integers(example_weights, power), power


def _split(key: Array, amounts: Array, is_positive: Array, mask: Array) -> Array:
    """Which examples are in GrowSet, [m] bool. In random order, an example is included if the
    midpoint of its weight is within the share of its class.
    """
    size = len(amounts)
    group = jnp.where(mask, is_positive.astype(jnp.int32), 2)
    _, _, order = lax.sort(
        (group, jax.random.uniform(key, (size,)), lax.iota(jnp.int32, size)), num_keys=2
    )
    in_order = jnp.where(
        is_positive[order][:, None] == jnp.array([[True, False]]), amounts[order][:, None], 0
    )
    until, total = jnp.cumsum(in_order, axis=0), jnp.sum(in_order, axis=0)
    dtype = integers.float_of(amounts.dtype)
    is_within = (
        until.astype(dtype) - 0.5 * in_order.astype(dtype)
        <= _GROW_SHARE * total.astype(dtype)[None, :]
    )
    is_grown = jnp.where(is_positive[order], is_within[:, 0], is_within[:, 1])
    return jnp.zeros(size, bool).at[order].set(is_grown) & mask


def _advantage(table: Array) -> Array:
    """sqrt(W+) - sqrt(W-) from integers [..., 2 or more]."""
    roots = jnp.sqrt(table.astype(integers.float_of(table.dtype)))
    return roots[..., 0] - roots[..., 1]


def _grow(literals: Array, parts: Array, max_order: int) -> _Growing:
    """GrowRule: a product of matrices evaluates all literals at once."""
    num_examples = literals.shape[1]
    start = _Growing(
        is_covered=jnp.ones(num_examples, bool),
        chosen=jnp.full(max_order, literals.shape[0], jnp.int32),
        tables=jnp.zeros((max_order + 1, 4), parts.dtype).at[0].set(jnp.sum(parts, axis=0)),
        length=jnp.zeros((), jnp.int32),
        is_growing=jnp.ones((), bool),
    )
    if max_order == 0:
        return start

    def add_literal(rule: _Growing) -> _Growing:
        tables = integers.product(literals, jnp.where(rule.is_covered[:, None], parts, 0))
        advantages = jnp.where(tables[:, 0] + tables[:, 1] > 0, _advantage(tables), -jnp.inf)
        best = jnp.argmax(advantages)
        is_better = advantages[best] > _advantage(rule.tables[rule.length])
        index = jnp.where(is_better, rule.length, max_order + 1)
        return _Growing(
            is_covered=rule.is_covered & (~is_better | (literals[best] > 0)),
            chosen=rule.chosen.at[index].set(best.astype(jnp.int32), mode="drop"),
            tables=rule.tables.at[index + 1].set(tables[best], mode="drop"),
            length=rule.length + is_better.astype(jnp.int32),
            is_growing=is_better,
        )

    return loops.while_loop(
        lambda rule: rule.is_growing & (rule.length < max_order), add_literal, start
    )


def _prune(shares: Array, length: Array, num_examples: Array) -> Array:
    """PruneRule: the number of literals to keep, [] int32, from W+, W-, V+, V- [K + 1, 4] as shares
    of the weight.
    """
    vote = confidence(shares[:, 0], shares[:, 1], num_examples)
    loss = shares[:, 2] * jnp.expm1(-vote) + shares[:, 3] * jnp.expm1(vote)
    return jnp.argmin(jnp.where(jnp.arange(len(loss)) <= length, loss, jnp.inf)).astype(jnp.int32)


def rules(max_order: int = 16, *, positive: Literal["minority", 1, -1] = "minority") -> Rules:
    """The weak learner of SLIPPER: in each round one conjunction of literals, which is grown and
    pruned on a new split, or the default rule.

    The output of a rule is 1 where all its literals hold and 0 elsewhere; its vote may have either
    sign. `upper_bound` is +inf: it proves nothing.

    Args:
      max_order: the largest number of literals of a rule, static. It is limited to the number of
        attributes.
      positive: the label that rules predict: "minority" for the class of less weight (+1 if equal),
        or +1 or -1.

    Returns:
      A learner for features [m, N] of 0 and 1, or NaN where neither literal holds
      (`jboost.data.binarization` makes them); a hypothesis is a `jboost.learners.Monomial`. It
      needs a key. Other concrete features raise ValueError; traced ones give status INVALID_INPUT.

    Raises:
      ValueError: naming the argument.

    Cohen and Singer 1999.

    >>> import jax, jax.numpy as jnp, jboost
    >>> dataset = jboost.make_dataset(
    ...     [[1, 1], [1, 1], [1, 1], [1, 0], [0, 1], [0, 0], [1, 0], [0, 1]],
    ...     [1, 1, 1, -1, -1, -1, -1, -1],
    ... )
    >>> learner = rules()
    >>> state = jax.jit(learner.init)(jax.random.key(0), dataset)
    >>> jax.jit(learner.propose)(state, jnp.full(8, 1 / 8)).hypotheses.literals.tolist()
    [[1, 1]]
    """
    check.count("max_order", max_order, low=0)
    check.choice("positive", positive, ("minority", 1, -1))
    return Rules(max_order, positive)
