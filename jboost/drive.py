"""What a person sees of long work, and how it is stopped: progress for host-driven loops, which
take it as `on_step`.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from jboost.base import check, loops
from jboost.base.loops import OnStep


@functools.cache
def console() -> Any:
    """The console of rich on the standard error: all that is shown while work goes on shares it, so
    that nothing overlaps.
    """
    from rich.console import Console

    return Console(stderr=True)


@contextlib.contextmanager
def progress(description: str, num_steps: int, *, enabled: bool | None = None) -> Iterator[OnStep]:
    """A bar on the standard error that goes away at the end; nothing where that is no terminal.

    Args:
      description: what is going on, in a few words.
      num_steps: how many calls of `on_step` make the bar full.
      enabled: True or False to decide by hand.

    Yields:
      `on_step(state, info)` for a host-driven loop: it moves the bar by one step, shows `info` and
      returns True, to go on.

    >>> with progress("counting", 3, enabled=False) as on_step:
    ...     [on_step(state, "") for state in range(3)]
    [True, True, True]
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = console() if enabled is None else Console(stderr=True, force_terminal=enabled)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[info]}", style="dim"),
    )
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task(description, total=num_steps, info="")

        def on_step(state: Any, info: Any) -> bool:
            bar.update(task, advance=1, info=str(info))
            return True

        yield on_step


def time_limit(seconds: float) -> OnStep:
    """An `on_step` that lets a host-driven loop go on until the time is up; at least one step is
    made.

    Args:
      seconds: from now on.

    Raises:
      ValueError: for a negative number or NaN.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fitted = jboost.lpboost.fit(dataset, jboost.learners.stumps(), on_step=time_limit(0.0))
    >>> int(fitted.num_rounds), jboost.status.Status(int(fitted.status)).name
    (1, 'TIME_LIMIT')
    """
    check.on_host(
        "jboost.drive.time_limit", instead="under these nothing may watch a loop", seconds=seconds
    )
    if not seconds >= 0:
        raise ValueError(f"seconds is {seconds}: expected a number from 0 up")
    deadline = time.monotonic() + seconds

    def on_step(state: Any, info: Any) -> bool:
        return time.monotonic() < deadline

    return on_step


def all_of(*on_steps: OnStep | None) -> OnStep:
    """One `on_step` of several: each is called after every step, and the loop ends where any
    returns False.

    Args:
      on_steps: in the order of the calls; None for none. What returns None does not end the loop.

    Raises:
      ValueError: for what is no function.

    >>> seen = []
    >>> on_step = all_of(time_limit(0.0), lambda state, info: seen.append(state), None)
    >>> on_step("state", "info"), seen
    (False, ['state'])
    """
    for number, on_step in enumerate(on_steps):
        check.watcher(f"on_steps[{number}]", on_step)

    def call(state: Any, info: Any) -> bool:
        # all are called, whatever the first says
        answers = [loops.goes_on(on_step, state, info) for on_step in on_steps]
        return all(answers)

    return call


@contextlib.contextmanager
def lasting_interrupts() -> Iterator[None]:
    """Ctrl-C counts even where it strikes in a callback whose exceptions Python ignores, as the one
    of JAX at garbage collection.

    >>> with lasting_interrupts():
    ...     pass
    """
    before = sys.unraisablehook

    def again(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before
