"""The matrix of the coefficients of mu in the cuts of Goldberg and Eckstein (2009), which are
xi_i + xi_i' + sum of mu_u over S_ii' >= 1. The matrix is not stored.

S_ii' = {u : H_iu = y_i != H_i'u}. Let C_iu = 1[H_iu = y_i] (`hits`) and N_i'u = 1[H_i'u != y_i]
(`misses`). The product with mu is C diag(mu) N', read row by row as a vector. The product with a
vector V of pairs, as a matrix, is the diagonal of C' V N.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import brackets, check, labelled, numerics, reduce
from jboost.base.records import register
from jboost.base.types import Array, ArrayLike
from jboost.operators import sums
from jboost.operators.types import Operator


@register
@dataclasses.dataclass(frozen=True)
class PairCuts(Operator):
    """The cuts of all pairs (i, i'), in row i * q + i'. Rows of pairs that are not cuts are 0.
    Products take memory for p x q numbers.
    """

    hits: Array  # [p, U] 0 or 1
    misses: Array  # [q, U] 0 or 1
    # [p]; if labels are given, only pairs with labels of opposite sign are cuts. None: all pairs
    # are
    first_labels: Array | None
    second_labels: Array | None  # [q]

    @property
    def shape(self) -> tuple[int, int]:
        """Pairs and hypotheses."""
        return self.hits.shape[0] * self.misses.shape[0], self.hits.shape[1]

    @property
    def is_cut(self) -> Array:
        """Which rows are cuts, [p * q] bool."""
        return jnp.ravel(self._grid_of_cuts())

    def matvec(self, vector: Array) -> Array:
        """One product of matrices."""
        scaled = self.hits * sums.cast("vector", vector, self.shape[1])[None, :]
        return jnp.ravel(
            self._keep(jnp.matmul(scaled, self.misses.T, precision=lax.Precision.HIGHEST))
        )

    def rmatvec(self, vector: Array) -> Array:
        """One product of matrices."""
        return jnp.sum(
            self.hits
            * jnp.matmul(
                self._grid("vector", vector), self.misses, precision=lax.Precision.HIGHEST
            ),
            axis=0,
        )

    def row_norms(self, weights: Array) -> Array:
        """The product itself: no entry is negative."""
        return self.matvec(weights)

    def column_norms(self, weights: Array) -> Array:
        """The product itself: no entry is negative."""
        return self.rmatvec(weights)

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits, over slabs of the first examples."""
        vector = sums.cast("vector", vector, self.shape[1])
        num_first, num_second = self.hits.shape[0], self.misses.shape[0]
        if 0 in (num_first, num_second, self.shape[1]):
            return self.matvec(vector), self.matvec(vector)

        def bracket(hits: Array, misses: Array, vector: Array) -> Any:
            def of_one(one: Array) -> tuple[Array, Array]:
                return brackets.sum_products(
                    brackets.along(-1), self.shape[1], one[None, :] * misses, vector[None, :]
                )

            return lax.map(
                of_one, hits, batch_size=sums.chunk_size(num_second * self.shape[1], num_first)
            )

        low, high = numerics.in_64_bits(bracket)(self.hits, self.misses, vector)
        return jnp.ravel(self._keep(low)), jnp.ravel(self._keep(high))

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits, over slabs of hypotheses."""
        grid = self._grid("vector", vector)
        if 0 in (grid.size, self.shape[1]):
            return self.rmatvec(vector), self.rmatvec(vector)

        def bracket(hits: Array, misses: Array, grid: Array) -> Any:
            def of_one(pair: tuple[Array, Array]) -> tuple[Array, Array]:
                hit, miss = pair
                return brackets.sum_products(
                    brackets.each_by(jnp.sum), grid.size, hit[:, None] * miss[None, :], grid
                )

            return lax.map(
                of_one, (hits.T, misses.T), batch_size=sums.chunk_size(grid.size, self.shape[1])
            )

        return numerics.in_64_bits(bracket)(self.hits, self.misses, grid)

    def largest_entry(self) -> Array:
        """That of the products of the two largest factors."""
        return reduce.largest_size(self.hits) * reduce.largest_size(self.misses)

    def to_dense(self) -> Array:
        """All cuts."""
        entries = self.hits[:, None, :] * self.misses[None, :, :] * self._grid_of_cuts()[:, :, None]
        return jnp.reshape(entries, self.shape)

    def _grid_of_cuts(self) -> Array:
        if self.first_labels is None or self.second_labels is None:
            return jnp.ones((self.hits.shape[0], self.misses.shape[0]), bool)
        return self.first_labels[:, None] * self.second_labels[None, :] < 0

    def _keep(self, grid: Array) -> Array:
        return grid if self.first_labels is None else jnp.where(self._grid_of_cuts(), grid, 0)

    def _grid(self, name: str, vector: Array) -> Array:
        grid = jnp.reshape(
            sums.cast(name, vector, self.shape[0]), (self.hits.shape[0], self.misses.shape[0])
        )
        return self._keep(grid)


@register
@dataclasses.dataclass(frozen=True)
class PairCutList(Operator):
    """The cuts of a list of pairs. Rows of padding are 0. Products take memory for k x U
    numbers.
    """

    hits: Array  # [p, U] 0 or 1
    misses: Array  # [q, U] 0 or 1
    pairs: Array  # [k, 2] int32, -1 for padding

    @property
    def shape(self) -> tuple[int, int]:
        """Pairs and hypotheses."""
        return self.pairs.shape[0], self.hits.shape[1]

    @property
    def is_cut(self) -> Array:
        """Which rows are cuts, [k] bool."""
        return jnp.all(
            (self.pairs >= 0)
            & (self.pairs < jnp.array([[self.hits.shape[0], self.misses.shape[0]]])),
            axis=1,
        )

    def matvec(self, vector: Array) -> Array:
        """One product with the gathered rows."""
        return jnp.matmul(
            self.to_dense(),
            sums.cast("vector", vector, self.shape[1]),
            precision=lax.Precision.HIGHEST,
        )

    def rmatvec(self, vector: Array) -> Array:
        """One product with the gathered rows."""
        return jnp.matmul(
            sums.cast("vector", vector, self.shape[0]),
            self.to_dense(),
            precision=lax.Precision.HIGHEST,
        )

    def row_norms(self, weights: Array) -> Array:
        """The product itself: no entry is negative."""
        return self.matvec(weights)

    def column_norms(self, weights: Array) -> Array:
        """The product itself: no entry is negative."""
        return self.rmatvec(weights)

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits."""
        return brackets.bracket_dot(
            self.to_dense(), sums.cast("vector", vector, self.shape[1])[None, :]
        )

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits."""
        return brackets.bracket_dot(
            self.to_dense().T, sums.cast("vector", vector, self.shape[0])[None, :]
        )

    def largest_entry(self) -> Array:
        """That of the products of the two largest factors."""
        return reduce.largest_size(self.hits) * reduce.largest_size(self.misses)

    def to_dense(self) -> Array:
        """The gathered rows."""
        if 0 in (self.hits.shape[0], self.misses.shape[0]):
            return jnp.zeros_like(self.hits, shape=self.shape)
        places = jnp.where(
            self.is_cut[:, None], self.pairs, max(self.hits.shape[0], self.misses.shape[0])
        )
        first = self.hits.at[places[:, 0]].get(mode="fill", fill_value=0)
        return first * self.misses.at[places[:, 1]].get(mode="fill", fill_value=0)


def pair_cuts(
    hits: ArrayLike, misses: ArrayLike, *, pairs: ArrayLike | None = None
) -> PairCuts | PairCutList:
    """The cuts of pairs of examples: row (i, i') has the entries hits_iu * misses_i'u, u = 1 ... U.

    Args:
      hits: [p, U] 0 or 1.
      misses: [q, U] 0 or 1.
      pairs: [k, 2] integers, to make the rows of these pairs only; -1 makes a row of zeros. None
        for all p * q rows; the pair (i, i') is row i * q + i'.

    Returns:
      An operator. It also has `is_cut` [rows] bool, which is False for padding rows.

    Raises:
      ValueError: at trace time, if shapes do not fit; and, if the values are known, for entries
        other than 0 and 1 and for pairs out of range.

    >>> import jax.numpy as jnp, jboost
    >>> cuts = jboost.operators.pair_cuts([[1, 1, 0]], [[1, 0, 0], [1, 1, 1]])
    >>> cuts.matvec(jnp.array([1.0, 10.0, 100.0])).tolist()
    [1.0, 11.0]
    """
    first = sums.cast("hits", hits, "p", "U")
    second = sums.cast("misses", misses, "q", first.shape[1])
    for name, entries in (("hits", first), ("misses", second)):
        _validate(name, entries, lambda known: (known == 0) | (known == 1), "entries are 0 or 1")
    if pairs is None:
        return PairCuts(first, second, None, None)
    return PairCutList(first, second, _validate_pairs(pairs, first.shape[0], second.shape[0]))


def pair_cuts_of(
    outputs: ArrayLike,
    labels: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    pairs: ArrayLike | None = None,
) -> PairCuts | PairCutList:
    """The cuts of Goldberg and Eckstein (2009) for both orders of each pair. Row (i, i') of
    examples of opposite classes has a 1 where H_iu = y_i != H_i'u.

    Labels may be traced, so there are rows for all m * m pairs: the pair (i, i') is row i * m + i'.
    Rows of pairs within a class are 0. `is_cut` tells which rows are cuts. If labels are known
    before tracing, a `stack` of two `pair_cuts`, one for each order, avoids the rows of zeros and
    takes half the memory.

    Args:
      outputs: [m, U] H in -1, 0, +1.
      labels: [m] -1 or +1.
      mask: [m] bool, False for padding examples, whose rows are 0; None for all True.
      pairs: [k, 2] integers, to make the rows of these pairs only; -1 makes a row of zeros. None
        for all pairs.

    Raises:
      ValueError: at trace time, if shapes do not fit; and, if the values are known, for other
        outputs and labels and for pairs out of range.

    >>> import jboost
    >>> cuts = jboost.operators.pair_cuts_of([[1, 1], [-1, 1]], [1, -1])
    >>> cuts.to_dense().tolist(), cuts.is_cut.tolist()
    ([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], [False, True, True, False])
    """
    said = sums.cast("outputs", outputs, "m", "U")
    signs = sums.cast("labels", labels, said.shape[0])
    kept = (
        jnp.ones(signs.shape, bool)
        if mask is None
        else check.numeric("mask", mask, shape=signs.shape, kinds="b")
    )
    labelled.validate_known_labels(signs, kept)
    said, signs = jnp.where(kept[:, None], said, 0), jnp.where(kept, signs, 0)
    _validate("outputs", said, lambda known: np.isin(known, (-1, 0, 1)), "outputs are -1, 0 or +1")
    hits = (said == signs[:, None]).astype(said.dtype)
    misses = (said != -signs[:, None]).astype(said.dtype)  # in a cut y_i = -y_i'
    if pairs is None:
        return PairCuts(hits, misses, signs, signs)
    places = _validate_pairs(pairs, signs.shape[0], signs.shape[0])
    if signs.shape[0] == 0:
        return PairCutList(hits, misses, places)
    ends = signs.at[jnp.where(places < 0, signs.shape[0], places)].get(mode="fill", fill_value=0)
    return PairCutList(hits, misses, jnp.where((ends[:, 0] * ends[:, 1] < 0)[:, None], places, -1))


def _validate_pairs(pairs: ArrayLike, num_first: int, num_second: int) -> Array:
    places = check.numeric("pairs", pairs, shape=("k", 2), kinds="iu").astype(jnp.int32)
    limits = np.array([[num_first, num_second]])
    _validate(
        "pairs",
        places,
        lambda known: (known >= -1) & (known < limits),
        f"expected numbers below {num_first} and {num_second}, or -1 for padding",
    )
    return places


def _validate(name: str, array: Array, is_allowed: Any, wanted: str) -> None:
    if isinstance(array, jax.core.Tracer):
        return
    known = np.asarray(array)
    for place in np.argwhere(~is_allowed(known))[:1].tolist():
        raise ValueError(f"{name}{place} is {known[tuple(place)]:g}: {wanted}")
