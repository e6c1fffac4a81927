"""The time limit of `fit_large`: a stopwatch, and computations that a limit need not wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import jax
import numpy as np

from jboost.base import check


class Clock:
    """A stopwatch with a time limit. `before` are the seconds of the run that is continued, which
    do not count for the limit. Raises ValueError, naming `time_limit`, unless the limit is None or
    a number of at least 0.
    """

    def __init__(self, limit: float | None, before: float = 0.0) -> None:
        self.limit = np.inf if limit is None else float(check.number("time_limit", limit, low=0))
        self._before, self._begin = before, time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds of the whole run."""
        return self._before + (time.monotonic() - self._begin)

    @property
    def left(self) -> float:
        """Seconds to the limit, infinite without one."""
        return self.limit - (time.monotonic() - self._begin)


def in_time(clock: Clock, threads: futures.Executor, compute: Callable[[], Any]) -> Any:
    """The result of a computation that compiles, or None if the time limit comes first. It then
    goes on in its thread, as a compilation cannot be interrupted.
    """
    if clock.limit == np.inf:
        return compute()
    if clock.left <= 0:
        return None
    is_double = bool(jax.config.read("jax_enable_x64"))
    computing = threads.submit(_with_floats, is_double, compute)
    is_done = not futures.wait([computing], timeout=max(clock.left, 0.0)).not_done
    return computing.result() if is_done else None


def _with_floats(is_double: bool, compute: Callable[..., Any], *arguments: Any) -> Any:
    """Compiles with the float types of the thread that fits. JAX keeps that setting per thread, and
    compiled programs depend on it.
    """
    with jax.enable_x64(is_double):
        return compute(*arguments)
