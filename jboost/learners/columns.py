"""Learners whose hypotheses are the columns of the features: a pool of given classifiers, and the
literals of Boolean features.

Papers 002 and 004: column j is h_j, its edge (d'A)_j = sum_i d_i y_i h_j(x_i). Every column counts
with its negation, unless the pool has none.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import check, numerics, records, reduce, words
from jboost.base.boosting import Everything, Proposal, signs
from jboost.base.boosting.protocols import Learner
from jboost.base.types import Array, Dataset, is_packed
from jboost.learners import criteria, prices
from jboost.learners.criteria import Cells

# Examples whose terms are summed in the default precision before the sums go on in 64 bits: it
# costs what a plain product does (a third of the time of 64 bits throughout), and no edge is off by
# more than 32 roundings, 1.9e-6 in float32.
_ROWS_AT_ONCE = 32


class Column(NamedTuple):
    """One column of the features, or its negation."""

    index: Array  # [] int32
    sign: Array  # [] +1 or -1


class ColumnsState(NamedTuple):
    """What `propose` needs."""

    # [blocks, rows, N] outputs of all columns, 0 on padding and past the last example; or the
    # operator that has them packed, [m, N]
    columns: Any
    labels: Array  # [m] +1 or -1, 0 on padding


@dataclasses.dataclass(frozen=True)
class Columns(Learner):
    """The learner behind `pool` and `literals`."""

    num_proposed: int
    criterion: str
    boolean: bool  # features are Boolean, and every literal answers +1 or -1
    has_negations: bool = True  # whether the negation of a column is a hypothesis
    cost: float = 1.0  # of a column beside a misclassified example, for `jboost.l0`

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
        """The best columns, the best first, flipped so that no edge is negative if there are
        negations; or by what they earn under prices.
        """
        if pair_weights is not None or costs is not None:
            return self._priced(state, example_weights, pair_weights, costs)
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

    def _priced(
        self,
        state: ColumnsState,
        example_weights: Array,
        pair_weights: Array | None,
        costs: Array | None,
    ) -> Proposal:
        """The columns of greatest g + s - c (paper 001, (21)), for outputs -1, 0 and +1."""
        num_examples, num_columns = len(example_weights), state.columns.shape[-1]
        pairs, price = (
            prices.validate_pairs(pair_weights, num_examples, example_weights.dtype),
            self.prices(state),
        )
        if costs is not None:
            price = check.numeric("costs", costs, shape=(num_columns,), kinds="f")
        columns = _matrix(state)
        worth = prices.worth(columns, state.labels, example_weights, pairs, price)
        values = jnp.concatenate(
            [
                worth.own,
                worth.negated if self.has_negations else jnp.full_like(worth.negated, -jnp.inf),
            ]
        )
        best, place = numerics.top_k(values, self.num_proposed)
        index, sign = (
            place % num_columns,
            jnp.where(place < num_columns, 1.0, -1.0).astype(values.dtype),
        )
        outputs = sign[:, None] * jnp.take(columns, index, axis=1).T
        return Proposal(
            Column(index, sign),
            outputs,
            best,
            jnp.max(values) + prices.slack(example_weights, pairs, price),
            state,
        )

    def prices(self, state: ColumnsState) -> Array:
        """What `propose` takes as `costs`: [N], of each column."""
        return jnp.full((state.columns.shape[-1],), self.cost, state.labels.dtype)

    def price(self, state: ColumnsState, hypothesis: Column) -> Array:
        """What a column costs beside a misclassified example, []."""
        return self.prices(state)[hypothesis.index]

    def least_price(self, state: ColumnsState) -> Array:
        """The least cost of a column, []."""
        return jnp.asarray(self.cost, state.labels.dtype)

    def every(self, state: ColumnsState) -> Everything:
        """All columns, and their negations where they are hypotheses."""
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

    def num_hypotheses(self, num_columns: int) -> int:
        """How many columns there are on so many features, and negations where they are
        hypotheses.
        """
        return num_columns * (2 if self.has_negations else 1)

    def outputs(self, hypothesis: Column, features: Array) -> Array:
        """The column of features [k, N], or its negation, [k]."""
        check.matrix("features", features)
        if is_packed(features):
            packed: Any = features
            return hypothesis.sign * packed.columns_at(hypothesis.index[None])[:, 0]
        return hypothesis.sign * self._answers(jnp.take(features, hypothesis.index, axis=1))

    def places(self, hypotheses: Column) -> Array:
        """The column that each is."""
        return hypotheses.index

    def outputs_are_signs(self, state: ColumnsState) -> Array:
        """Whether all hypotheses answer -1, 0 or +1 alone, [] bool."""
        columns = _matrix(state) if is_packed(state.columns) else state.columns
        return jnp.all(columns == jnp.sign(columns))

    def never_abstains(self, state: ColumnsState) -> Array:
        """Whether no column answers 0 on an example, [] bool."""
        columns = _matrix(state)
        return jnp.all((columns != 0) | (state.labels == 0)[:, None])

    def describe(self, hypothesis: Column, names: Any) -> str:
        """The hypothesis in words."""
        name = words.as_condition(str(names[int(hypothesis.index)]))
        if self.boolean:
            return name if hypothesis.sign > 0 else f"not {name}"
        return name if hypothesis.sign > 0 else f"-{name}"

    def _refuse_packed(self) -> None:
        """Raises ValueError where packed features would not do."""
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
    """The outputs of all columns, [m, N], 0 on padding; packed ones are unpacked whole."""
    num_examples = state.labels.shape[0]
    if is_packed(state.columns):
        return jnp.where(state.labels[:, None] == 0, 0.0, state.columns.to_dense())
    matrix: Array = state.columns.reshape(-1, state.columns.shape[-1])[:num_examples]
    return matrix


def _chosen(state: ColumnsState, index: Array) -> Array:
    """The outputs of some columns, [k, m], 0 on padding."""
    if is_packed(state.columns):
        return jnp.where(state.labels[None, :] == 0, 0.0, state.columns.columns_at(index).T)
    columns = jnp.take(state.columns, index, axis=2)
    return columns.reshape(-1, index.shape[0])[: state.labels.shape[0]].T


def _in_blocks(rows: Array) -> Array:
    """Rows [m, ...] as [blocks, rows, ...], with zeros past the last; one block at least."""
    size = max(1, rows.shape[0])
    block = min(_ROWS_AT_ONCE, size)
    count = -(-size // block)
    padding = [(0, count * block - rows.shape[0])] + [(0, 0)] * (rows.ndim - 1)
    return jnp.pad(rows, padding).reshape(count, block, *rows.shape[1:])


def _edges(columns: Any, signed: Array, has_negations: bool) -> tuple[Array, Array]:
    """The edges [N] of columns [blocks, rows, N] under signed weights [m], and a bound [] that no
    exact edge exceeds (with negations, no |edge|).

    A sum of n products is off by n roundings at most, in units of the sum of their sizes, whatever
    the order and fused or not. Of packed columns the products are in 64 bits, and their interval
    bounds are those of the edges.
    """
    if is_packed(columns):
        low, high = columns.bracket_rmatvec(signed)
        return low / 2 + high / 2, jnp.max(jnp.maximum(high, -low) if has_negations else high)
    dtype = columns.dtype
    roundings = (columns.shape[1] + 1) * float(jnp.finfo(dtype).eps) / 2

    def finish(sums: Array, signed: Array) -> tuple[Array, Array]:
        edges = jnp.sum(sums.astype(jnp.float64), axis=0)
        slack = roundings * reduce.total(jnp.abs(signed.astype(jnp.float64))) + criteria.slack(
            signed
        )
        return edges.astype(dtype), numerics.round_up(
            jnp.max(jnp.abs(edges) if has_negations else edges) + slack, dtype
        )

    edges, bound = numerics.in_64_bits(finish)(
        jnp.sum(columns * _in_blocks(signed)[:, :, None], axis=1), signed
    )
    return edges, bound


def _cells(columns: Array, signed: Array) -> Cells:
    """The confusion tables [N] of columns [blocks, rows, N] under signed weights [m]; products with
    0 and 1, so that what is empty is 0.
    """
    signed = _in_blocks(signed).reshape(-1)
    columns = columns.reshape(len(signed), -1)
    weights = jnp.stack([jnp.maximum(signed, 0.0), jnp.maximum(-signed, 0.0)])

    kinds = jnp.stack([columns > 0, columns < 0, columns == 0], axis=1).astype(columns.dtype)
    sums = jnp.matmul(
        weights, kinds.reshape(len(signed), -1), precision=lax.Precision.HIGHEST
    ).reshape(2, 3, -1)
    (true_positive, false_negative, missed), (false_positive, true_negative, wrongly_missed) = sums
    return Cells(
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
    *, num_proposed: int = 1, criterion: str = "edge", negations: bool = True, cost: float = 1.0
) -> Columns:
    """A learner whose hypotheses are the columns of the features, the outputs of given classifiers,
    and their negations.

    The proposal holds the `num_proposed` best columns by |edge|, the best first, each flipped so
    that its edge is not negative. With the criterion "normalizer" the columns enter by their signs
    (0 abstains), and `values` are 1 - Z. In both cases `upper_bound` is no less than the exact
    |edge| of any column; it lies above the best edge by 2e-6 of the weight (4e-15 in 64 bits).
    Without negations the columns stand as they are, in order of their signed edges, which
    `upper_bound` bounds: for `jboost.lpboost`, whose votes are not negative.

    Args:
      num_proposed: how many columns, at most N.
      criterion: "edge", the least weighted error; "normalizer", the least Z.
      negations: whether the negation of a column is a hypothesis too.
      cost: what `jboost.l0` pays for a column beside misclassified examples; it takes columns of
        -1, 0 and +1.

    Returns:
      A learner for features [m, N] in [-1, 1]; a hypothesis is a `Column`: index [], sign [].
      Features may be packed by `jboost.operators.packed_signs` or `stored`: a proposal then unpacks
      the columns that it proposes alone. `jboost.l0` unpacks them all.

    Raises:
      ValueError: naming the argument; for `num_proposed` above N once the features are seen, and
        for packed features with "normalizer".

    Paper 002, Figure 1 (Z); paper 004, Figure 1 (the column of largest |edge|).

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
    )


def literals(*, num_proposed: int = 1, criterion: str = "edge", cost: float = 1.0) -> Columns:
    """A learner whose hypotheses are the 2 N literals of Boolean features: +1 where a feature is
    true and -1 elsewhere, or the opposite.

    A feature is true where it is above 0, so that {False, True}, {0, 1} and {-1, +1} of any dtype
    mean the same. A literal answers 0 where its feature is NaN, which says that it is not known.
    All else is as in `pool`.

    Args:
      num_proposed: how many literals, at most N.
      criterion: "edge", the least weighted error; "normalizer", the least Z.
      cost: what `jboost.l0` pays for a literal beside misclassified examples.

    Returns:
      A learner for features [m, N]; a hypothesis is a `Column`: index [], sign [].

    Raises:
      ValueError: naming the argument; for `num_proposed` above N once the features are seen.

    Paper 002, Section 4 (linear threshold functions over literals).

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
