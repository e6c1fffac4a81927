"""A matrix in blocks of rows that are stored in the memory of the host, or in files, and are copied
to the device one after the other.

The host drives the products, outside `jit`. While the device computes with a block, the next block
is copied (double buffering). At most three blocks are on the device at a time. A GPU copies blocks
from pinned memory at the speed of its bus, without the CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import brackets, check, devices
from jboost.base.types import Array
from jboost.operators import sums
from jboost.operators.convert import is_operator
from jboost.operators.dense import Dense
from jboost.operators.types import Operator


class Streamed(Operator):
    """The operator of consecutive blocks of rows. It is not a pytree: its methods are called on the
    host, with concrete arrays.
    """

    def __init__(self, blocks: Sequence[Operator], shape: tuple[int, int]) -> None:
        self._blocks = tuple(blocks)
        self._shape = shape

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._shape

    @property
    def blocks(self) -> tuple[Operator, ...]:
        """The blocks, in the memory of the host."""
        return self._blocks

    def matvec(self, vector: Array) -> Array:
        """Block by block."""
        return jnp.concatenate(
            list(self._on_device(_forward, sums.cast("vector", vector, self.shape[1])))
        )

    def rmatvec(self, vector: Array) -> Array:
        """Block by block, each the term of a sum."""
        return _total(self._with_rows(_back, sums.cast("vector", vector, self.shape[0])))

    def row_norms(self, weights: Array) -> Array:
        """Block by block."""
        return jnp.concatenate(
            list(self._on_device(_row_norms, sums.cast("weights", weights, self.shape[1])))
        )

    def column_norms(self, weights: Array) -> Array:
        """Block by block, each the term of a sum."""
        return _total(self._with_rows(_column_norms, sums.cast("weights", weights, self.shape[0])))

    def bracket_matvec(self, vector: Array) -> tuple[Array, Array]:
        """Interval bounds of the blocks."""
        parts = list(self._on_device(_bracket_forward, sums.cast("vector", vector, self.shape[1])))
        return jnp.concatenate([low for low, _ in parts]), jnp.concatenate(
            [high for _, high in parts]
        )

    def bracket_rmatvec(self, vector: Array) -> tuple[Array, Array]:
        """Interval bounds of the blocks, added outwards."""
        return _add_brackets(
            list(self._with_rows(_bracket_back, sums.cast("vector", vector, self.shape[0])))
        )

    def largest_entry(self) -> Array:
        """The largest of the blocks."""
        return jnp.max(jnp.stack(list(self._on_device(_largest_entry))))

    def to_dense(self) -> Array:
        """All blocks, on the device."""
        return jnp.concatenate(list(self._on_device(_to_dense)))

    def _with_rows(self, product: Callable[..., Any], vector: Array) -> Iterator[Any]:
        """The products of the blocks with their parts of a vector of all rows."""
        starts = np.cumsum([0, *(block.shape[0] for block in self._blocks)])
        return self._on_device(
            product, parts=[vector[start:end] for start, end in itertools.pairwise(starts)]
        )

    def _on_device(
        self, product: Callable[..., Any], *shared: Array, parts: Sequence[Array] | None = None
    ) -> Iterator[Any]:
        """The products of the blocks. The next block is copied while the product of the current one
        is computed.
        """
        device = devices.default()
        memory = jax.sharding.SingleDeviceSharding(device, memory_kind=device.default_memory().kind)
        following, before = jax.device_put(self._blocks[0], memory), None
        for number in range(len(self._blocks)):
            block = following
            result = product(block, *shared, *(() if parts is None else (parts[number],)))
            if number + 1 < len(self._blocks):
                following = jax.device_put(self._blocks[number + 1], memory)
            jax.block_until_ready(before)
            before = result
            yield result


_forward = jax.jit(lambda block, vector: block.matvec(vector))
_back = jax.jit(lambda block, vector: block.rmatvec(vector))
_row_norms = jax.jit(lambda block, weights: block.row_norms(weights))
_column_norms = jax.jit(lambda block, weights: block.column_norms(weights))
_bracket_forward = jax.jit(lambda block, vector: block.bracket_matvec(vector))
_bracket_back = jax.jit(lambda block, vector: block.bracket_rmatvec(vector))
_largest_entry = jax.jit(lambda block: block.largest_entry())
_to_dense = jax.jit(lambda block: block.to_dense())
_add_brackets = jax.jit(brackets.add_brackets)


def _total(parts: Iterator[Array]) -> Array:
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def streamed(blocks: Sequence[Any], *, pinned: bool | None = None) -> Streamed:
    """The operator of blocks of rows that do not fit on the device together.

    `jboost.relaxed_margin.solve` accepts it, and then runs its loop on the host. Products equal
    those of the whole matrix up to rounding. Interval bounds hold for the whole matrix. Blocks of
    equal shapes share compiled products, so only the last block should have another shape.

    Args:
      blocks: one or more, [k, columns] each, in the order of their rows: `packed_signs` or `stored`
        operators, or matrices, which NumPy may map from files (`numpy.load(mmap_mode="r")`).
        Operators are copied to the host.
      pinned: whether blocks are copied to pinned memory, which must hold all of them. None chooses
        True if the device is not a CPU and has such memory.

    Raises:
      ValueError: naming the block that is not a matrix or has another number of columns; or if
        `pinned` is True and the device has no pinned memory.

    >>> import jax.numpy as jnp, jboost
    >>> operator = jboost.operators.streamed(
    ...     [jboost.operators.packed_signs([[1, -1]]), jboost.operators.packed_signs([[-1, -1]])]
    ... )
    >>> operator.shape, operator.matvec(jnp.array([2.0, 1.0])).tolist()
    ((2, 2), [1.0, -3.0])
    """
    check.choice("pinned", pinned, (None, False, True))
    if not isinstance(blocks, (list, tuple)) or not blocks:
        raise ValueError("blocks is no list of one block or more: there is nothing to stream")
    check.on_host(
        "jboost.operators.streamed",
        instead="pass the operator of one block to the compiled function",
        blocks=list(blocks),
    )
    parts = [_on_host(f"blocks[{index}]", block) for index, block in enumerate(blocks)]
    for index, part in enumerate(parts):
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"blocks[{index}] has {part.shape[1]} columns, blocks[0] has {parts[0].shape[1]}:"
                " expected as many"
            )
    device = devices.default()
    kinds = {memory.kind for memory in device.addressable_memories()}
    if pinned and "pinned_host" not in kinds:
        raise ValueError(
            f"pinned is True, but the memory of {device} is of kinds {sorted(kinds)}: pass"
            " pinned=False"
        )
    if pinned or (pinned is None and device.platform != "cpu" and "pinned_host" in kinds):
        parts = jax.device_put(
            parts, jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
        )
    return Streamed(parts, (sum(part.shape[0] for part in parts), parts[0].shape[1]))


def _on_host(name: str, block: Any) -> Operator:
    """The block with NumPy arrays."""
    if is_operator(block):
        operator: Operator = jax.tree.map(np.asarray, block)
        return operator
    host = block if isinstance(block, np.ndarray) else np.asarray(block)
    if host.ndim != 2 or host.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} has shape {list(host.shape)} and dtype {host.dtype}: expected a matrix of"
            " numbers [k, columns]"
        )
    is_float = host.dtype == jnp.dtype(jnp.result_type(float))
    return Dense(host if is_float else host.astype(jnp.result_type(float)))  # type: ignore[arg-type]
