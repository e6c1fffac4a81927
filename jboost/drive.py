"""Progress bars, time limits, signals and interrupts for host-driven loops.

A host-driven loop takes a progress bar, a time limit or `StopOnSigterm` as its argument `on_step`.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from jboost.base import check, loops, processes
from jboost.base.loops import OnStep


@functools.cache
def console() -> Any:
    """Returns the shared console of rich on the standard error.

    All output during a computation must use it, so that the output does not overlap.
    """
    from rich.console import Console

    return Console(stderr=True)


@contextlib.contextmanager
def progress(description: str, num_steps: int, *, enabled: bool | None = None) -> Iterator[OnStep]:
    """Shows a progress bar on the standard error until the end of the block.

    Nothing is shown if the standard error is not a terminal.

    Args:
      description: a short description of the computation.
      num_steps: the number of calls of `on_step` that fill the bar.
      enabled: whether the bar is shown. None to show it on a terminal only.

    Yields:
      `on_step(state, info)` for a host-driven loop. It advances the bar by one step, shows `info`
      and returns True, so that the loop continues.

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
    """Returns an `on_step` that ends a host-driven loop after a time limit.

    The loop makes at least one step.

    Args:
      seconds: the time limit, counted from this call.

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
    """Combines several functions `on_step` into one.

    All of them are called after each step. The loop ends if any of them returns False.

    Args:
      on_steps: the functions, in the order of the calls. None is skipped. A function that returns
        None does not end the loop.

    Raises:
      ValueError: if an argument is not a function.

    >>> seen = []
    >>> on_step = all_of(time_limit(0.0), lambda state, info: seen.append(state), None)
    >>> on_step("state", "info"), seen
    (False, ['state'])
    """
    for number, on_step in enumerate(on_steps):
        check.watcher(f"on_steps[{number}]", on_step)

    def call(state: Any, info: Any) -> bool:
        # A list, not a generator: all functions are called even if the first returns False.
        results = [loops.goes_on(on_step, state, info) for on_step in on_steps]
        return all(results)

    return call


class StopOnSigterm:
    """An `on_step` that ends a host-driven loop after SIGTERM, as schedulers send it before they
    end a job. A `jboost.checkpoints.Checkpointer` in the same loop then saves the last state.

    It is a context manager: SIGTERM is handled in the block, and ignored after the first one. After
    the block the handler from before is installed again. In another thread than the main thread
    Python handles no signals, and the block does nothing.

    With several processes, each calls it after the same steps: SIGTERM in any of them ends the loop
    of all after the same step. Enter the block after `jboost.sharding.initialize_cluster`. There,
    JAX has installed a handler by which a process ignores SIGTERM outside of the block.

    Attributes:
      is_stopped: whether a loop was ended, the same in every process.

    >>> import jboost, signal
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> with StopOnSigterm() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     fitted = jboost.adaboost.fit(dataset, jboost.learners.stumps(), on_step=stop)
    >>> int(fitted.num_rounds), stop.is_stopped
    (1, True)
    """

    # `jax.experimental.multihost_utils.reached_preemption_sync_point` serves one counter of steps
    # in a process, and orbax calls it with the numbers of checkpoints.

    def __init__(self) -> None:
        self.is_stopped = False
        self._is_received = False
        self._before: Any = None

    def __call__(self, state: Any, info: Any) -> bool:
        del state, info
        self.is_stopped = self.is_stopped or bool(processes.flags(self._is_received).any())
        return not self.is_stopped

    def __enter__(self) -> StopOnSigterm:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note) or signal.SIG_DFL
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def _note(self, number: int, frame: Any) -> None:
        self._is_received = True


@contextlib.contextmanager
def lasting_interrupts() -> Iterator[None]:
    """Raises KeyboardInterrupt again if it was raised where Python ignores exceptions.

    Python ignores exceptions in some callbacks, such as that of JAX at garbage collection. Without
    this context manager, Ctrl-C during such a callback has no effect.

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
