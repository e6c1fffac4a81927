"""Agreement between the processes of a cluster.

An error in one process of several leaves the others waiting for it in their next collective. What
may fail in one process alone, such as a look at the disk, therefore runs under `together`: the
error is raised in every process.

All functions here are collective: every process must call them, in the same order. With one
process they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import numpy as np

_Result = TypeVar("_Result")

_ERRORS: tuple[type[Exception], ...] = (ValueError, OSError)  # 1 and 2 in `_raise_for`
_TEXT_BYTES = 1024  # of the message of a process; the rest is cut


def flags(*values: bool) -> np.ndarray:
    """The values of every process, [num_processes, num_values]."""
    row = np.array(values, bool)
    return row[None] if jax.process_count() == 1 else _rows(row)


def numbers(values: Sequence[int]) -> np.ndarray:
    """As many whole numbers of 32 bits of every process, [num_processes, num_values]."""
    row = np.array(values, np.int32)
    return row[None] if jax.process_count() == 1 else _rows(row)


def texts(text: str) -> list[str]:
    """The text of every process, cut after a kilobyte."""
    if jax.process_count() == 1:
        return [text]
    row = np.zeros(_TEXT_BYTES, np.uint8)
    encoded = np.frombuffer(text.encode()[:_TEXT_BYTES], np.uint8)
    row[: encoded.size] = encoded
    return [bytes(own).rstrip(b"\0").decode(errors="replace") for own in _rows(row)]


def together(work: Callable[[], _Result]) -> _Result:
    """The result of `work()`, which makes no collective.

    Raises:
      ValueError, OSError: that of `work`. If it fails in any process, every process raises the
        error, which names the processes and their messages.
    """
    if jax.process_count() == 1:
        return work()
    try:
        result, error = work(), None
    except _ERRORS as caught:
        error = caught
    raise_for(error)
    return result


def raise_for(error: Exception | None) -> None:
    """Raises the error of any process in every process; None where this one has none."""
    if jax.process_count() == 1:
        if error is not None:
            raise error
        return
    kind = next((1 + i for i, its in enumerate(_ERRORS) if isinstance(error, its)), 0)
    kinds = numbers([kind])[:, 0]
    if not kinds.any():
        return
    said = texts("" if error is None else str(error))
    failed = np.flatnonzero(kinds)
    text = "; ".join(f"process {number} of {kinds.size}: {said[number]}" for number in failed)
    raise _ERRORS[kinds[failed[0]] - 1](text) from error


def _rows(row: np.ndarray) -> np.ndarray:
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(row))
