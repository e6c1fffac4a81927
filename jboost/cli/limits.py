"""What ends long work early with the best so far: `--time-limit`, counted from the start of the
command, and Ctrl-C.

SIGTERM ends it too where the state is saved, by `--checkpoint`; without that it ends the process at
once, as ever.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from jboost import drive
from jboost.base.loops import OnStep

_TERMINATED = 128 + signal.SIGTERM  # the exit status, as shells have it


class _Limit:
    """The deadline of the command that runs, and whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.seconds: float | None = None
        self.is_interrupted = False


_limit = _Limit()


@contextlib.contextmanager
def of_command(seconds: float | None) -> Iterator[None]:
    """Within it `left` and `progress` count the seconds from here on; None for no limit."""
    _limit.begin, _limit.seconds, _limit.is_interrupted = time.monotonic(), seconds, False
    try:
        yield
    finally:
        _limit.seconds = None


def left() -> float | None:
    """The seconds that are left, None where there is no limit."""
    return None if _limit.seconds is None else _limit.begin + _limit.seconds - time.monotonic()


def is_over() -> bool:
    """Whether the time is up, or Ctrl-C was pressed."""
    rest = left()
    return _limit.is_interrupted or (rest is not None and rest <= 0)


def check(phase: str) -> None:
    """Raises ValueError where the time was over before anything was fitted."""
    rest = left()
    if rest is not None and rest <= 0:
        spent = time.monotonic() - _limit.begin
        raise ValueError(
            f"--time-limit {_limit.seconds:g} was over after {phase}, which took until second"
            f" {spent:.1f}: give more seconds, or fewer rows"
        )


@contextlib.contextmanager
def progress(description: str, num_steps: int) -> Iterator[OnStep]:
    """The bar of `drive.progress`, whose `on_step` is False once the time is up, or after Ctrl-C,
    which the first time only ends the loop.
    """
    with drive.progress(description, num_steps) as show, _first_interrupt_ends_the_loop():

        def on_step(state: Any, info: Any) -> bool:
            show(state, info)
            return not is_over()

        yield on_step


@contextlib.contextmanager
def terminated_after(told: str) -> Iterator[None]:
    """Within it the first SIGTERM makes `is_over` True; at the end the process then ends, with
    `told` on the standard error.

    The second SIGTERM ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, is_terminated = signal.getsignal(signal.SIGTERM), threading.Event()

    def note(number: int, frame: Any) -> None:
        is_terminated.set()
        _limit.is_interrupted = True
        signal.signal(signal.SIGTERM, before)

    signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    if is_terminated.is_set():
        sys.stderr.write(f"jboost: stopped by SIGTERM; {told}\n")
        raise SystemExit(_TERMINATED)


@contextlib.contextmanager
def _first_interrupt_ends_the_loop() -> Iterator[None]:
    """The first Ctrl-C sets a flag that `is_over` reads; the second one interrupts as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        _limit.is_interrupted = True
        signal.signal(signal.SIGINT, before)
        sys.stderr.write("\njboost: ends with the best so far; Ctrl-C again to end at once\n")

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
