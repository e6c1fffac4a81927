"""The base class of linear operators: matrices that need not be stored."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

import jax.numpy as jnp

from jboost.base.protocols import Protocol
from jboost.base.types import Array


class Operator(Protocol, abc.ABC):
    """A matrix A [rows, columns] as a pytree, with its two products, the products of absolute
    values, and interval bounds of the products. Make it a frozen dataclass under
    `jboost.base.records.register`. A class with the same methods and without the base works too,
    and is not checked.

    Hooks without a default:

    - `shape`: rows and columns, static; a property or a field.
    - `columns_at(index)`: some columns, [rows, k] floats, for indices [k] int32. An operator with
      this hook may be the features of a data set.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"columns_at", "shape"})

    if TYPE_CHECKING:  # at run time a property would hide a field of this name

        @property
        def shape(self) -> tuple[int, int]: ...

    @abc.abstractmethod
    def matvec(self, vector: Array) -> Array:
        """A x, [rows], of x [columns]."""

    @abc.abstractmethod
    def rmatvec(self, vector: Array) -> Array:
        """A'y, [columns], of y [rows]."""

    @abc.abstractmethod
    def row_norms(self, weights: Array) -> Array:
        """sum_j |a_ij| weights_j, [rows], for weights [columns] that are not negative."""

    @abc.abstractmethod
    def column_norms(self, weights: Array) -> Array:
        """sum_i |a_ij| weights_i, [columns], for weights [rows] that are not negative."""

    @abc.abstractmethod
    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Floats at or below and at or above the exact A x, [rows] each."""

    @abc.abstractmethod
    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Floats at or below and at or above the exact A'y, [columns] each."""

    def largest_entry(self) -> Array:
        """An upper bound [] of the absolute values of the entries. By default inf: none is
        known.
        """
        return jnp.full((), jnp.inf)

    @abc.abstractmethod
    def to_dense(self) -> Array:
        """The matrix, [rows, columns]."""
