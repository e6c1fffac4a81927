"""An operator that is defined by two functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import brackets, check, loops, numerics
from jboost.base.records import register
from jboost.base.types import Array, PyTree
from jboost.operators import sums
from jboost.operators.types import Operator


@register
@dataclasses.dataclass(frozen=True)
class FromFunctions(Operator):
    """The matrix whose columns are the values of the first function at the unit vectors. Norms and
    interval bounds compute these columns, one slab at a time.
    """

    data: PyTree  # the first argument of both functions, unless it is None
    forward: Callable[..., Array] = dataclasses.field(metadata={"static": True})
    adjoint: Callable[..., Array] = dataclasses.field(metadata={"static": True})
    shape: tuple[int, int] = dataclasses.field(metadata={"static": True})

    def matvec(self, vector: Array) -> Array:
        """The first function."""
        return _call(self.forward, self.data, sums.cast("vector", vector, self.shape[1]))

    def rmatvec(self, vector: Array) -> Array:
        """The second function."""
        return _call(self.adjoint, self.data, sums.cast("vector", vector, self.shape[0]))

    def row_norms(self, weights: Array) -> Array:
        """A sum over slabs of columns."""
        starts, size = self._starts()
        weights = jnp.pad(
            sums.cast("weights", weights, self.shape[1]), (0, starts.size * size - self.shape[1])
        )

        def add(total: Array, start: Array) -> tuple[Array, None]:
            part = lax.dynamic_slice(weights, (start,), (size,))
            return (
                total
                + jnp.matmul(part, jnp.abs(self._columns(start)), precision=lax.Precision.HIGHEST),
                None,
            )

        begin = jnp.zeros_like(weights, shape=(self.shape[0],))
        return loops.scan(add, begin, starts)[0]

    def column_norms(self, weights: Array) -> Array:
        """Slab by slab of columns."""
        weights = sums.cast("weights", weights, self.shape[0])
        starts, _ = self._starts()
        norms = lax.map(
            lambda start: jnp.matmul(
                jnp.abs(self._columns(start)), weights, precision=lax.Precision.HIGHEST
            ),
            starts,
        )
        return jnp.ravel(norms)[: self.shape[1]]

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits over slabs of columns."""
        starts, size = self._starts()
        vector = jnp.pad(
            sums.cast("vector", vector, self.shape[1]), (0, starts.size * size - self.shape[1])
        )
        num_rows, num_columns = self.shape
        allowed = bool(jax.config.read("jax_enable_x64"))

        def bracket(operator: FromFunctions, vector: Array, starts: Array) -> tuple[Array, Array]:
            def add(carry: tuple[Array, Array], start: Array) -> tuple[tuple[Array, Array], None]:
                with jax.enable_x64(allowed):  # for the user's function, types are as outside
                    columns = operator._columns(start)
                    part = lax.dynamic_slice(vector, (start,), (size,))
                total, slack = brackets.sum_and_slack(
                    brackets.along(0), num_columns, columns, part[:, None]
                )
                return (carry[0] + total, carry[1] + slack), None

            begin = (jnp.zeros((num_rows,), jnp.float64), jnp.zeros((num_rows,), jnp.float64))
            (total, slack), _ = loops.scan(add, begin, starts)
            return brackets.round_outwards(total, slack, vector.dtype)

        return numerics.in_64_bits(bracket)(self, vector, starts)

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Sums in 64 bits, slab by slab of columns."""
        vector = sums.cast("vector", vector, self.shape[0])
        starts, _ = self._starts()
        low, high = lax.map(
            lambda start: brackets.bracket_dot(self._columns(start), vector[None, :]), starts
        )
        return jnp.ravel(low)[: self.shape[1]], jnp.ravel(high)[: self.shape[1]]

    def to_dense(self) -> Array:
        """All columns."""
        starts, size = self._starts()
        columns = lax.map(self._columns, starts)
        return jnp.reshape(columns, (starts.size * size, self.shape[0]))[: self.shape[1]].T

    def _starts(self) -> tuple[Array, int]:
        """The first column of each slab, and the number of columns of a slab. Columns of the last
        slab beyond the matrix are 0.
        """
        size = sums.chunk_size(max(self.shape), self.shape[1])
        return size * jnp.arange(max(1, -(-self.shape[1] // size)), dtype=jnp.int32), size

    def _columns(self, start: Array) -> Array:
        """A slab of columns, [size, rows]."""
        _, size = self._starts()
        numbers = start + lax.iota(jnp.int32, size)
        units = (numbers[:, None] == lax.iota(jnp.int32, self.shape[1])[None, :]).astype(
            jnp.result_type(float)
        )
        columns = jax.vmap(lambda unit: _call(self.forward, self.data, unit))(units)
        return jnp.where((numbers < self.shape[1])[:, None], columns, 0)


def _call(function: Callable[..., Array], data: PyTree, vector: Array) -> Array:
    result = function(vector) if data is None else function(data, vector)
    return jnp.asarray(result).astype(jnp.result_type(float))


def from_functions(
    matvec: Callable[..., Array],
    rmatvec: Callable[..., Array],
    shape: tuple[int, int],
    *,
    data: PyTree | None = None,
) -> FromFunctions:
    """The operator of two functions of a vector that JAX can trace: the matrix A whose columns are
    the values of `matvec` at the unit vectors.

    Use functions defined in a module: they compare equal from call to call, so that nothing is
    compiled again. A lambda made in a loop is compiled each time. Arrays that may be traced, mapped
    or differentiated belong in `data`, not in a closure. `check_adjoint` tests whether `rmatvec` is
    the adjoint of `matvec`.

    Args:
      matvec: x [columns] -> A x [rows], linear; (data, x) -> A x if data is given.
      rmatvec: y [rows] -> A'y [columns], linear; (data, y) -> A'y if data is given.
      shape: rows and columns, static.
      data: a pytree of arrays, or None.

    Raises:
      ValueError: at trace time, naming the function that fails or whose result has the wrong shape.

    >>> import jax.numpy as jnp, jboost
    >>> differences = jboost.operators.from_functions(
    ...     jnp.diff, lambda y: -jnp.diff(y, prepend=0, append=0), (2, 3)
    ... )
    >>> differences.to_dense().tolist()
    [[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]]
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise ValueError(
            f"shape is {shape!r}: expected the number of rows and the number of columns"
        )
    for index, size in enumerate(shape):
        check.count(f"shape[{index}]", size, low=0)
    rows, columns = int(shape[0]), int(shape[1])
    check.pytree_of_numbers(
        "data", data, remedy="pass arrays, and other things by functools.partial"
    )
    data = jax.tree.map(jnp.asarray, data)
    for name, function, size, wanted in (
        ("matvec", matvec, columns, rows),
        ("rmatvec", rmatvec, rows, columns),
    ):
        _validate(name, function, data, size, wanted)
    return FromFunctions(data, matvec, rmatvec, (rows, columns))


def _validate(
    name: str, function: Callable[..., Array], data: PyTree, size: int, wanted: int
) -> None:
    if not callable(function):
        raise ValueError(f"{name} is a {type(function).__name__}: expected a function")
    try:
        hash(function)
    except TypeError as error:
        raise ValueError(
            f"{name} cannot be hashed, which jit needs: hand arrays in by data"
        ) from error
    vector = jax.ShapeDtypeStruct((size,), jnp.result_type(float))
    try:
        answer = jax.eval_shape(lambda vector: _call(function, data, vector), vector)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} fails on a vector of shape [{size}]: {error}") from error
    if answer.shape != (wanted,):
        raise ValueError(
            f"{name} of a vector of shape [{size}] has shape {list(answer.shape)}: expected shape"
            f" [{wanted}]"
        )
