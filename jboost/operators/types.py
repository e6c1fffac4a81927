"""The interface of a linear operator: a matrix that need not be stored."""

from __future__ import annotations

from typing import Protocol

from jboost.base.types import Array


class Operator(Protocol):
    """A matrix A [rows, columns] as a pytree, with its two products, the products of absolute
    values, and interval bounds of the products.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, static."""

    def matvec(self, vector: Array) -> Array:
        """A x, [rows], of x [columns]."""

    def rmatvec(self, vector: Array) -> Array:
        """A'y, [columns], of y [rows]."""

    def row_norms(self, weights: Array) -> Array:
        """sum_j |a_ij| weights_j, [rows], for weights [columns] that are not negative."""

    def column_norms(self, weights: Array) -> Array:
        """sum_i |a_ij| weights_i, [columns], for weights [rows] that are not negative."""

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Floats at or below and at or above the exact A x, [rows] each."""

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Floats at or below and at or above the exact A'y, [columns] each."""

    def largest_entry(self) -> Array:
        """An upper bound [] of the absolute values of the entries; inf if none is known."""

    def to_dense(self) -> Array:
        """The matrix, [rows, columns]."""
