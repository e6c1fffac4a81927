"""Ends a long computation early with the best result so far, for `--time-limit` and Ctrl-C.

The time limit is counted from the start of the command. Loops end a little earlier, because
predictions, figures and files follow them. With `--checkpoint`, SIGTERM also ends the
loop after its step, and the state is saved. Without `--checkpoint`, SIGTERM ends the process at
once.
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
from jboost.base import loops
from jboost.base.loops import OnStep

_TERMINATED = 128 + signal.SIGTERM  # exit status, by the convention of shells

# The share of a time limit that is left for what follows the loops, and its most seconds: what
# followed those of a million rows (`KNOWN_VOTE` of benchmarks.real_tables).
_SHARE_OF_ENDING, _LONGEST_ENDING = 0.1, 20.0


class _CommandLimit:
    """The deadline of the running command, and whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.seconds: float | None = None
        self.is_interrupted = False
        self.is_terminated = False  # by SIGTERM: then no fit follows a choice


_limit = _CommandLimit()


@contextlib.contextmanager
def of_command(seconds: float | None) -> Iterator[None]:
    """Starts the time limit for `left` and `progress`; None means no limit."""
    _limit.begin, _limit.seconds = time.monotonic(), seconds
    _limit.is_interrupted = _limit.is_terminated = False
    try:
        yield
    finally:
        _limit.seconds = None


def left() -> float | None:
    """Returns the seconds after which loops end, or None if there is no limit."""
    if _limit.seconds is None:
        return None
    ending = min(_SHARE_OF_ENDING * _limit.seconds, _LONGEST_ENDING)
    return _limit.begin + _limit.seconds - ending - time.monotonic()


def is_attended() -> bool:
    """Whether a person may watch the command: the standard error is a terminal."""
    return sys.stderr.isatty()


def is_over() -> bool:
    """Whether loops must end: Ctrl-C was pressed, SIGTERM was received, or only the time reserved
    for the work after the loops is left.
    """
    rest = left()
    return _limit.is_interrupted or _limit.is_terminated or (rest is not None and rest <= 0)


def go_on_after_choice() -> None:
    """Lets the fit run whose options a choice settled that Ctrl-C ended. Another Ctrl-C ends the
    process.
    """
    _limit.is_interrupted = False


def within_share(on_step: OnStep | None, seconds: float | None, share: float) -> OnStep | None:
    """Returns the callback of a choice, which also ends it when its share of `seconds` is used;
    None if there is neither a callback nor a limit.

    Args:
      on_step: the callback, or None.
      seconds: the time for the choice and what follows it, or None for the rest of the command's
        limit.
      share: the share of the choice, from 0 to 1.
    """
    if seconds is not None:
        return until(on_step, share * seconds)
    total = left()
    if total is None:
        return on_step

    def watch(state: Any, info: Any) -> bool:
        goes_on = loops.goes_on(on_step, state, info)
        rest = left()
        return goes_on and (rest is None or rest >= (1 - share) * total)

    return watch


def until(on_step: OnStep | None, seconds: float | None) -> OnStep | None:
    """Returns the callback that also ends the loop after so many seconds, None for no limit; None
    if there is neither a callback nor a limit.
    """
    if seconds is None:
        return on_step
    return drive.all_of(drive.time_limit(max(seconds, 0.0)), on_step)


def check(phase: str) -> None:
    """Raises ValueError if the time limit expired during `phase`, before anything was fitted."""
    spent = time.monotonic() - _limit.begin
    if _limit.seconds is not None and spent >= _limit.seconds:
        raise ValueError(
            f"--time-limit {_limit.seconds:g} expired during {phase}, which ended after"
            f" {spent:.1f} s: give more seconds, or fewer rows"
        )


@contextlib.contextmanager
def progress(description: str, num_steps: int) -> Iterator[OnStep]:
    """Shows the progress bar of `drive.progress` and yields a callback that enforces the limits.

    The callback returns False if the time for loops has expired or Ctrl-C was pressed. The first
    Ctrl-C only ends the loop.
    """
    with drive.progress(description, num_steps) as show, _first_interrupt_ends_the_loop():

        def on_step(state: Any, info: Any) -> bool:
            show(state, info)
            return not is_over()

        yield on_step


@contextlib.contextmanager
def terminated_after(message: str) -> Iterator[None]:
    """Postpones the first SIGTERM to the end of the context.

    The first SIGTERM makes `is_over` True. At the end of the context `message` is printed on the
    standard error, and the process ends. The second SIGTERM ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, is_terminated = signal.getsignal(signal.SIGTERM), threading.Event()

    def note(number: int, frame: Any) -> None:
        is_terminated.set()
        _limit.is_terminated = True
        signal.signal(signal.SIGTERM, before)

    signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    if is_terminated.is_set():
        sys.stderr.write(f"jboost: stopped by SIGTERM; {message}\n")
        raise SystemExit(_TERMINATED)


@contextlib.contextmanager
def _first_interrupt_ends_the_loop() -> Iterator[None]:
    """The first Ctrl-C makes `is_over` True; the second one raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        _limit.is_interrupted = True
        signal.signal(signal.SIGINT, before)
        sys.stderr.write("\njboost: ends with the best so far; press Ctrl-C again to end at once\n")

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
