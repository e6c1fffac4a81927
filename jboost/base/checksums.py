"""Checksums of arrays, by which a state is recognised as one of other data.

A checksum covers dtypes, shapes and bytes. It is a sum over rows, so that processes add the sums of
the rows that they hold, and no array is gathered. Two arrays that differ have equal checksums with
a probability of about 2^-32; these are no protection against data made to deceive.
"""

from __future__ import annotations

import math
import re
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check
from jboost.base.types import Dataset

_BYTES_AT_ONCE = 1 << 24  # of the rows that are hashed at a time; a round number, not tuned
_WORD = 8  # bytes
_LARGEST = 2**64 - 1
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the text of a function, other in each process


def of_arrays(*arrays: Any) -> int:
    """A checksum, below 2^32, of arrays [...] of NumPy or JAX, in this order.

    It does not depend on how the rows of an array are spread over devices. In several processes all
    must call it. Of an array whose rows are divided among processes, only the dtype and the shape
    count.

    >>> of_arrays(np.arange(3)) == of_arrays(np.arange(3)), of_arrays(np.arange(3), np.ones(2)) == 0
    (True, False)
    """
    found = 0
    for array in arrays:
        kind = zlib.crc32(f"{array.dtype}{list(array.shape)}".encode())
        words = np.array([found, _sum_of(array)], np.uint64)
        found = int(_mixed(_mixed(_mixed(words[:1] + np.uint64(kind)) + words[1:]))[0])
    return found >> 32


def of_dataset(dataset: Dataset) -> np.ndarray:
    """The checksums of features, labels, weights and mask, [4] uint32. Packed features count by
    their arrays, as another data set than dense ones.
    """
    return np.array([of_arrays(*jax.tree.leaves(part)) for part in dataset], np.uint32)


def of_tree(tree: Any) -> int:
    """A checksum, below 2^32, of the leaves of a pytree and of its structure. Functions in the
    structure count by their names; leaves may be texts.

    >>> of_tree({"a": 1.0}) == of_tree({"a": 2.0}), of_tree({"a": 1.0}) == of_tree({"b": 1.0})
    (False, False)
    """
    text = _ADDRESS.sub("", str(jax.tree.structure(tree)))
    structure = np.frombuffer(text.encode(), np.uint8)
    return of_arrays(structure, *map(_as_array, jax.tree.leaves(tree)))


def require_same(given: Any, expected: Any, *, parts: tuple[str, ...], what: str) -> None:
    """Raises ValueError, naming the parts of `initial` that differ, unless two arrays of checksums
    are equal.

    Args:
      given: [k] of the state.
      expected: [k] of this call.
      parts: k names of what the checksums are of.
      what: the computation that the state is of.
    """
    pairs = zip(np.atleast_1d(given), np.atleast_1d(expected), parts, strict=True)
    differing = [name for one, other, name in pairs if int(one) != int(other)]
    if differing:
        raise ValueError(
            f"initial is the state of a {what} of other {_listed(differing)}: pass those of the run"
            " that made it, or leave it out"
        )


def validate_state(
    initial: Any, first: Any, *, parts: tuple[str, ...], what: str, kind: str
) -> Any:
    """The state `initial`. Raises ValueError, naming what differs, unless it is a state of the
    computation that begins with `first`, which holds the checksums of this call.

    Args:
      initial: as `on_step` receives it.
      first: a state of the same class and shapes.
      parts: as for `require_same`.
      what: as for `require_same`.
      kind: the public name of the class.
    """
    given = check.like("initial", initial, first, kind=kind)
    require_same(given.checksums, first.checksums, parts=parts, what=what)
    return given


def without_checksums(
    initial: Any, first: Any, expected: np.ndarray, *, parts: tuple[str, ...], what: str, kind: str
) -> Any:
    """The state `initial` with `checksums` None. Raises ValueError, naming what differs, unless it
    is a state of the computation that begins with `first`.

    Args:
      initial: a state with a field `checksums`, as `on_step` receives it.
      first: a state of the same class, or its shapes, with `checksums` None.
      expected: [k] the checksums of this call.
      parts: as for `require_same`.
      what: as for `require_same`.
      kind: the public name of the class.
    """
    if type(initial) is not type(first):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a {kind}, as `on_step` gets it"
        )
    if initial.checksums is None:
        raise ValueError("initial has no checksums: pass a state as `on_step` gets it")
    require_same(initial.checksums, expected, parts=parts, what=what)
    return check.like("initial", initial._replace(checksums=None), first, kind=kind)


def _as_array(leaf: Any) -> Any:
    """The array of a leaf: the words of a random key, a number as a scalar, the bytes of a text."""
    if isinstance(leaf, str):
        return np.frombuffer(leaf.encode(), np.uint8)
    if not isinstance(leaf, jax.Array):
        return np.asarray(leaf)
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _sum_of(array: Any) -> int:
    """The sum of the hashes of all rows of an array, below 2^64."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_fully_replicated:
        return _sum_of_rows(np.asarray(array), 0)
    return _sum_over_processes(array)


def _sum_over_processes(array: jax.Array) -> int:
    """`_sum_of` an array that no process holds whole; 0 if its rows are divided."""
    from jax.experimental import multihost_utils

    shards = array.addressable_shards
    if any(shard.data.shape[1:] != array.shape[1:] for shard in shards):
        return 0
    own = sum(
        _sum_of_rows(np.asarray(shard.data), shard.index[0].start or 0)
        for shard in shards
        if shard.replica_id == 0
    )
    halves = np.array([(own >> 32) & (2**32 - 1), own & (2**32 - 1)], np.uint32)
    every = multihost_utils.process_allgather(halves).reshape(-1, 2).tolist()
    return int(sum((high << 32) + low for high, low in every)) & _LARGEST


def _sum_of_rows(rows: np.ndarray, begin: int) -> int:
    """The sum of the hashes of rows [r, ...], the first of which has the number `begin`."""
    rows = rows[None] if rows.ndim == 0 else rows
    size = math.prod(rows.shape[1:])
    width = size * rows.dtype.itemsize
    num_words = -(-width // _WORD)
    factors = _mixed(np.arange(1, num_words + 1, dtype=np.uint64)) | np.uint64(1)
    at_once = max(_BYTES_AT_ONCE // max(width, _WORD), 1)
    total = 0
    for first in range(0, len(rows), at_once):
        part = np.ascontiguousarray(rows[first : first + at_once]).reshape(-1)
        num_rows = min(at_once, len(rows) - first)
        padded = np.zeros((num_rows, num_words * _WORD), np.uint8)
        padded[:, :width] = part.view(np.uint8).reshape(num_rows, width)
        numbers = np.arange(begin + first, begin + first + num_rows, dtype=np.uint64)
        hashes = _mixed(padded.view(np.uint64) @ factors + _mixed(numbers))
        total += int(hashes.sum(dtype=np.uint64))
    return total & _LARGEST


def _mixed(words: np.ndarray) -> np.ndarray:
    """Words [k] of 64 bits, each with every bit spread over all of them: splitmix64 (Steele, Lea
    and Flood 2014), a bijection.
    """
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
