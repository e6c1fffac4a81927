"""Learners whose hypotheses are the columns of the features: a pool of given classifiers, and the
literals of Boolean features.

Column j is the hypothesis h_j, and its edge is (d'A)_j = sum_i d_i y_i h_j(x_i) (Hatano;
Shalev-Shwartz and Singer 2008). The negation of a column is also a hypothesis, unless negations are
excluded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, exact_sums, numerics, records, reduce, words
from jboost.base.boosting import Everything, Proposal, signs
from jboost.base.boosting.protocols import Learner
from jboost.base.types import Array, ArrayLike, Dataset, PyTree, is_packed
from jboost.learners import criteria, prices
from jboost.learners.criteria import ConfusionCells
from jboost.monomials import Rewards

# Terms of so many examples are summed in the default precision, and these sums are added in 64
# bits. This takes as long as a plain product, a third of the time of 64 bits throughout. The error
# of an edge is at most 32 roundings, 1.9e-6 in float32.
_ROWS_AT_ONCE = 32
# Packed columns that are unpacked at a time. A round number; not tuned.
_COLUMNS_AT_ONCE = 64


class Column(NamedTuple):
    """One column of the features, or its negation."""

    index: Array  # [] int32
    sign: Array  # [] +1 or -1


class ColumnsState(NamedTuple):
    """The state of the learner, which `propose` takes."""

    # [blocks, rows, N] outputs of all columns, 0 on padding and past the last example; or an
    # operator [m, N] that holds them packed
    columns: Any
    labels: Array  # [m] +1 or -1, 0 on padding


@dataclasses.dataclass(frozen=True)
class Columns(Learner):
    """The learner behind `pool` and `literals`."""

    num_proposed: int
    criterion: str
    boolean: bool  # whether features are Boolean, so that every literal has outputs +1 and -1
    has_negations: bool = True  # whether the negation of a column is a hypothesis
    cost: float = 1.0  # of a column, relative to that of a misclassified example, for `jboost.l0`
    costs: Any = None  # [N] of each column, in place of `cost`

    def init(self, key: Array | None, dataset: Dataset) -> ColumnsState:
        """The outputs of all columns on the data set; `key` is not used."""
        del key
        check.matrix("features", dataset.features)
        num_columns = dataset.features.shape[1]
        if self.num_proposed > num_columns:
            check.has_columns(num_columns)
            raise ValueError(
                f"num_proposed is {self.num_proposed}, but the features have {num_columns} columns:"
                " propose at most as many"
            )
        if self.costs is not None and self.costs.shape[0] != num_columns:
            raise ValueError(
                f"costs has {self.costs.shape[0]} entries, but the features have {num_columns}"
                " columns: pass one cost for each column"
            )
        if is_packed(dataset.features):
            self._refuse_packed()
            return ColumnsState(dataset.features, signs(dataset))
        columns = jnp.where(dataset.mask[:, None], self._answers(dataset.features), 0.0)
        return ColumnsState(_in_blocks(columns), signs(dataset))

    def propose(
        self,
        state: ColumnsState,
        example_weights: Array,
        *,
        pair_weights: Array | None = None,
        costs: Array | None = None,
    ) -> Proposal:
        """The best columns, best first. With negations they are negated so that no edge is
        negative. Under prices they are ranked by worth.
        """
        if pair_weights is not None or costs is not None:
            pairs = prices.validate_pairs(pair_weights, len(example_weights), example_weights.dtype)
            return self.propose_for_pairs(state, example_weights, pairs, costs)
        signed = example_weights * state.labels
        edges, upper_bound = _edges(state.columns, signed, self.has_negations)
        values = jnp.abs(edges) if self.has_negations else edges
        if self.criterion == "normalizer":
            values = 1 - criteria.normalizer(_cells(state.columns, signed))
        values, index = numerics.top_k(values, self.num_proposed)
        sign = jnp.where((edges[index] < 0) & self.has_negations, -1.0, 1.0).astype(edges.dtype)
        return Proposal(
            Column(index, sign), sign[:, None] * _chosen(state, index), values, upper_bound, state
        )

    def propose_for_pairs(
        self,
        state: ColumnsState,
        example_weights: Array,
        rewards: Rewards,
        costs: Array | None,
    ) -> Proposal:
        """The columns of greatest worth g + s - c (Goldberg and Eckstein 2009, (21)), for outputs
        -1, 0 and +1 and a list of pairs of examples.
        """
        num_columns, price = state.columns.shape[-1], self.prices(state)
        if costs is not None:
            price = check.numeric("costs", costs, shape=(num_columns,), kinds="f")
        worth = _by_columns(
            state,
            lambda columns, costs: prices.worth(
                columns, state.labels, example_weights, rewards, costs
            ),
            price,
        )
        values = jnp.concatenate(
            [
                worth.own,
                worth.negated if self.has_negations else jnp.full_like(worth.negated, -jnp.inf),
            ]
        )
        best, chosen = numerics.top_k(values, self.num_proposed)
        index, sign = (
            chosen % num_columns,
            jnp.where(chosen < num_columns, 1.0, -1.0).astype(values.dtype),
        )
        outputs = sign[:, None] * _chosen(state, index)
        return Proposal(
            Column(index, sign),
            outputs,
            best,
            reduce.largest(values) + prices.slack(example_weights, rewards, price),
            state,
        )

    def prices(self, state: ColumnsState) -> Array:
        """The costs of all columns, [N], which `propose` takes as `costs`."""
        each = self.cost if self.costs is None else self.costs
        return jnp.broadcast_to(jnp.asarray(each, state.labels.dtype), (state.columns.shape[-1],))

    def price(self, state: ColumnsState, hypothesis: Column) -> Array:
        """The cost of a column, relative to that of a misclassified example, []."""
        return self.prices(state)[hypothesis.index]

    def least_price(self, state: ColumnsState) -> Array:
        """The least cost of a column, []."""
        return jnp.min(self.prices(state), initial=jnp.inf)

    def every(self, state: ColumnsState) -> Everything:
        """All columns, and their negations if these are hypotheses."""
        num_columns = state.columns.shape[-1]
        columns = _matrix(state).T
        index, ones = (
            jnp.arange(num_columns, dtype=jnp.int32),
            jnp.ones((num_columns,), columns.dtype),
        )
        plain = Everything(Column(index, ones), columns, self.prices(state))
        if not self.has_negations:
            return plain
        negated = Everything(Column(index, -ones), -columns, self.prices(state))
        return jax.tree.map(lambda one, other: jnp.concatenate([one, other]), plain, negated)

    @property
    def has_exact_sums(self) -> bool:
        """True: all sums are those of `jboost.base`. Packed features are another matter."""
        return True

    @property
    def has_costs(self) -> bool:
        """Whether each column has a cost of its own."""
        return self.costs is not None

    def num_hypotheses(self, num_columns: int) -> int:
        """The number of columns, or of columns and negations, for so many features."""
        return num_columns * (2 if self.has_negations else 1)

    def outputs(self, hypothesis: Column, features: Array) -> Array:
        """The column of features [k, N], or its negation, [k]."""
        check.matrix("features", features)
        if is_packed(features):
            packed: Any = features
            return hypothesis.sign * packed.columns_at(hypothesis.index[None])[:, 0]
        return hypothesis.sign * self._answers(jnp.take(features, hypothesis.index, axis=1))

    def places(self, hypotheses: Column) -> Array:
        """The index of the column of each hypothesis."""
        return hypotheses.index

    def outputs_are_signs(self, state: ColumnsState) -> Array:
        """Whether all outputs are -1, 0 or +1, [] bool."""
        if not is_packed(state.columns):
            return jnp.all(state.columns == jnp.sign(state.columns))
        return jnp.all(_by_columns(state, lambda some: jnp.all(some == jnp.sign(some), axis=0)))

    def never_abstains(self, state: ColumnsState) -> Array:
        """Whether no output is 0 on an example, [] bool."""
        is_padding = (state.labels == 0)[:, None]
        return jnp.all(_by_columns(state, lambda some: jnp.all((some != 0) | is_padding, axis=0)))

    def describe(self, hypothesis: Column, names: Any) -> str:
        """The hypothesis in words."""
        name = words.as_condition(str(names[int(hypothesis.index)]))
        if self.boolean:
            return name if hypothesis.sign > 0 else f"not {name}"
        return name if hypothesis.sign > 0 else f"-{name}"

    def _refuse_packed(self) -> None:
        """Raises ValueError for options that packed features do not support."""
        if self.boolean or self.criterion != "edge":
            what = "literals" if self.boolean else f"the criterion {self.criterion!r}"
            raise ValueError(
                f"dataset has packed features, which {what} cannot take: pass learners.pool() with"
                " criterion='edge', or features.to_dense()"
            )

    def _answers(self, columns: Array) -> Array:
        columns = jnp.asarray(columns)
        if self.boolean:
            return jnp.where(columns != columns, 0.0, jnp.where(columns > 0, 1.0, -1.0))
        return columns.astype(jnp.result_type(float))


def _matrix(state: ColumnsState) -> Array:
    """The outputs of all columns, [m, N], 0 on padding. Packed columns are all unpacked."""
    num_examples = state.labels.shape[0]
    if is_packed(state.columns):
        return jnp.where(state.labels[:, None] == 0, 0.0, state.columns.to_dense())
    matrix: Array = state.columns.reshape(-1, state.columns.shape[-1])[:num_examples]
    return matrix


def _by_columns(state: ColumnsState, function: Callable[..., PyTree], *each: Array) -> PyTree:
    """`function` of the outputs [m, k] of columns, and of what `each` [N] holds for them, with
    leaves [k], for all columns. Of packed columns a few are unpacked at a time.
    """
    if not is_packed(state.columns):
        return function(_matrix(state), *each)
    num_columns = state.columns.shape[-1]
    size = max(min(_COLUMNS_AT_ONCE, num_columns), 1)

    def of_some(start: Array) -> PyTree:
        index = jnp.minimum(start + jnp.arange(size, dtype=jnp.int32), num_columns - 1)
        return function(_chosen(state, index).T, *(leaf[index] for leaf in each))

    found = lax.map(of_some, size * jnp.arange(-(-num_columns // size), dtype=jnp.int32))
    return jax.tree.map(lambda leaf: leaf.reshape(-1)[:num_columns], found)


def _chosen(state: ColumnsState, index: Array) -> Array:
    """The outputs of some columns, [k, m], 0 on padding."""
    if is_packed(state.columns):
        return jnp.where(state.labels[None, :] == 0, 0.0, state.columns.columns_at(index).T)
    columns = jnp.take(state.columns, index, axis=2)
    return columns.reshape(-1, index.shape[0])[: state.labels.shape[0]].T


def _in_blocks(rows: Array) -> Array:
    """Rows [m, ...] as [blocks, rows, ...], padded with zeros; there is at least one block."""
    size = max(1, rows.shape[0])
    block = min(_ROWS_AT_ONCE, size)
    count = -(-size // block)
    padding = [(0, count * block - rows.shape[0])] + [(0, 0)] * (rows.ndim - 1)
    return jnp.pad(rows, padding).reshape(count, block, *rows.shape[1:])


def _edges(columns: Any, signed: Array, has_negations: bool) -> tuple[Array, Array]:
    """The edges [N] of columns [blocks, rows, N] under signed weights [m], and an upper bound [] on
    all exact edges (with negations, on all |edge|).

    The error of a sum of n products is at most n roundings of the sum of their sizes, in any order
    and with or without fused multiplications. For packed columns the products are computed in 64
    bits with interval bounds.
    """
    if is_packed(columns):
        low, high = columns.bracket_rmatvec(signed)
        sizes = jnp.maximum(high, -low) if has_negations else high
        return low / 2 + high / 2, reduce.largest(sizes)
    if exact_sums.are_on():
        return _exact_edges(columns, signed, has_negations)
    dtype = columns.dtype
    roundings = (columns.shape[1] + 1) * float(jnp.finfo(dtype).eps) / 2

    def finish(sums: Array, signed: Array) -> tuple[Array, Array]:
        edges = jnp.sum(sums.astype(jnp.float64), axis=0)
        slack = roundings * reduce.total(jnp.abs(signed.astype(jnp.float64))) + criteria.slack(
            signed
        )
        return edges.astype(dtype), numerics.round_up(
            reduce.largest(jnp.abs(edges) if has_negations else edges) + slack, dtype
        )

    edges, bound = numerics.in_64_bits(finish)(
        jnp.sum(columns * _in_blocks(signed)[:, :, None], axis=1), signed
    )
    return edges, bound


def _exact_edges(columns: Array, signed: Array, has_negations: bool) -> tuple[Array, Array]:
    """`_edges` in the scope of `exact_sums`."""
    dtype = columns.dtype

    def summed(columns: Array, signed: Array) -> tuple[Array, Array]:
        wide = _in_blocks(signed).astype(jnp.float64).reshape(-1)
        edges = exact_sums.products(wide, columns.reshape(len(wide), -1))
        largest = reduce.largest(jnp.abs(edges) if has_negations else edges)
        return edges.astype(dtype), numerics.round_up(largest + criteria.slack(signed), dtype)

    edges, bound = numerics.in_64_bits(summed)(columns, signed)
    return edges, bound


def _cells(columns: Array, signed: Array) -> ConfusionCells:
    """The confusion tables [N] of columns [blocks, rows, N] under signed weights [m]. They are
    products with 0 and 1, so that empty cells are exactly 0.
    """
    signed = _in_blocks(signed).reshape(-1)
    columns = columns.reshape(len(signed), -1)
    weights = jnp.stack([jnp.maximum(signed, 0.0), jnp.maximum(-signed, 0.0)])

    kinds = jnp.stack([columns > 0, columns < 0, columns == 0], axis=1).astype(columns.dtype)
    kinds = kinds.reshape(len(signed), -1)
    sums = (
        jnp.stack([numerics.product(row, kinds) for row in weights])
        if exact_sums.are_on()
        else jnp.matmul(weights, kinds, precision=lax.Precision.HIGHEST)
    ).reshape(2, 3, -1)
    (true_positive, false_negative, missed), (false_positive, true_negative, wrongly_missed) = sums
    return ConfusionCells(
        true_positive, false_positive, true_negative, false_negative, missed + wrongly_missed
    )


records.register(
    Columns,
    static=(
        "num_proposed",
        "criterion",
        "boolean",
        "has_negations",
        "cost",
    ),
)


def pool(
    *,
    num_proposed: int = 1,
    criterion: str = "edge",
    negations: bool = True,
    cost: float = 1.0,
    costs: ArrayLike | None = None,
) -> Columns:
    """A learner whose hypotheses are the columns of the features, the outputs of given classifiers,
    and their negations.

    The proposal holds the `num_proposed` best columns by |edge|, best first, each negated if its
    edge is negative. With the criterion "normalizer" only the signs of the columns count (0
    abstains), and `values` are 1 - Z. In both cases `upper_bound` is at least the exact |edge| of
    every column. It exceeds the best edge by at most 2e-6 of the weight (4e-15 in 64 bits).
    Without negations the columns are ranked by signed edges, and `upper_bound` bounds these. This
    is for `jboost.lpboost`, whose votes are not negative.

    Args:
      num_proposed: the number of columns of a proposal, at most N.
      criterion: "edge" for the least weighted error, "normalizer" for the least Z.
      negations: whether the negation of a column is also a hypothesis.
      cost: the cost of a column for `jboost.l0`, relative to that of a misclassified example.
        `jboost.l0` takes columns of -1, 0 and +1.
      costs: [N] not negative, the cost of each column and of its negation, in place of `cost`; may
        be traced. None for equal costs. Other boosters have no costs in their objective and raise
        ValueError for a learner with `costs`, and ignore `cost`.

    Returns:
      A learner for features [m, N] in [-1, 1]; a hypothesis is a `Column`: index [], sign [].
      Features may be packed by `jboost.operators.packed_signs` or `stored`: a proposal then unpacks
      only the columns that it proposes. `jboost.l0` unpacks all of them.

    Raises:
      ValueError: naming the argument; for `num_proposed` above N and another number of `costs`
        once the features are seen, and for packed features with "normalizer".

    Hatano, Figure 1 (Z); Shalev-Shwartz and Singer 2008, Figure 1 (the column of largest |edge|).

    >>> import jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> dataset = jboost.make_dataset([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]], [1, -1, -1])
    >>> learner = learners.pool()
    >>> proposal = learner.propose(learner.init(None, dataset), jnp.array([0.5, 0.25, 0.25]))
    >>> (
    ...     proposal.hypotheses.index.tolist(),
    ...     proposal.hypotheses.sign.tolist(),
    ...     proposal.values.tolist(),
    ... )
    ([1], [-1.0], [1.0])
    """
    check.count("num_proposed", num_proposed, low=1)
    check.choice("criterion", criterion, criteria.CRITERIA)
    check.choice("negations", negations, (False, True))
    return Columns(
        num_proposed,
        criterion,
        boolean=False,
        has_negations=negations,
        cost=prices.validate_cost(cost),
        costs=None if costs is None else prices.validate_costs(costs),
    )


def literals(*, num_proposed: int = 1, criterion: str = "edge", cost: float = 1.0) -> Columns:
    """A learner whose hypotheses are the 2 N literals of Boolean features: +1 where a feature is
    true and -1 elsewhere, or the opposite.

    A feature is true where it is above 0, so that {False, True}, {0, 1} and {-1, +1} of any dtype
    are equivalent. A literal has the output 0 where its feature is NaN, which marks a missing
    value. All else is as in `pool`.

    Args:
      num_proposed: the number of literals of a proposal, at most N.
      criterion: "edge" for the least weighted error, "normalizer" for the least Z.
      cost: the cost of a literal for `jboost.l0`, relative to that of a misclassified example.

    Returns:
      A learner for features [m, N]; a hypothesis is a `Column`: index [], sign [].

    Raises:
      ValueError: naming the argument; for `num_proposed` above N once the features are seen.

    Hatano, Section 4 (linear threshold functions over literals).

    >>> import jax.numpy as jnp
    >>> import jboost
    >>> from jboost import learners
    >>> dataset = jboost.make_dataset([[True, False], [True, True], [False, True]], [1, -1, -1])
    >>> learner = learners.literals()
    >>> learner.propose(learner.init(None, dataset), jnp.array([0.5, 0.25, 0.25])).outputs.tolist()
    [[1.0, -1.0, -1.0]]
    """
    check.count("num_proposed", num_proposed, low=1)
    check.choice("criterion", criterion, criteria.CRITERIA)
    return Columns(num_proposed, criterion, boolean=True, cost=prices.validate_cost(cost))
