"""What runs between two steps of a fit: the time limit, and the callbacks of scikit-learn."""

from __future__ import annotations

import time
from typing import Any


class FitClock:
    """A time limit that is shared among the fits of several votes.

    Args:
      max_seconds: the time limit, counted from now; None for none.
    """

    def __init__(self, max_seconds: float | None) -> None:
        self._end = None if max_seconds is None else time.monotonic() + max_seconds
        self._end_of_fit = self._end
        self._num_fits = 1  # still to come

    @property
    def left(self) -> float | None:
        """Seconds that are left to the fit of the current vote; None without a limit."""
        return _seconds_to(self._end_of_fit)

    @property
    def is_over(self) -> bool:
        """Whether nothing more should be started."""
        return _seconds_to(self._end) == 0.0

    def plan(self, num_fits: int) -> None:
        """Shares the time among so many fits of votes."""
        self._num_fits = num_fits

    def begin_fit(self) -> None:
        """Begins the fit of the next vote."""
        whole = _seconds_to(self._end)
        if whole is not None:
            self._end_of_fit = time.monotonic() + whole / max(self._num_fits, 1)
        self._num_fits -= 1


class FitWatch(FitClock):
    """Ends a fit when its time is over or a callback asks for it.

    Args:
      estimator: the estimator that is fitted.
      max_seconds: the time limit, counted from now; None for none.
    """

    def __init__(self, estimator: Any, max_seconds: float | None) -> None:
        super().__init__(max_seconds)
        self._estimator = estimator
        self._context = estimator._init_callback_context(max_subtasks=None)
        self._context.call_on_fit_task_begin(estimator=estimator)
        self._has_callbacks = bool(getattr(estimator, "_skl_callbacks", []))
        self._is_stopped = False

    @property
    def is_needed(self) -> bool:
        """Whether a fit must run step by step."""
        return self._end is not None or self._has_callbacks

    @property
    def is_over(self) -> bool:
        """Whether nothing more should be started."""
        return self._is_stopped or super().is_over

    def on_step(self, state: Any, info: Any) -> bool:
        """Called after each step; False ends the fit with its best result so far."""
        del state
        context = self._context.subcontext(task_name="round")
        context.call_on_fit_task_begin(estimator=self._estimator)
        metadata = info._asdict() if hasattr(info, "_asdict") else {"info": info}
        self._is_stopped |= bool(
            context.call_on_fit_task_end(estimator=self._estimator, metadata=metadata)
        )
        return not (self.is_over or self.left == 0.0)

    def end(self) -> None:
        """Tells the callbacks that the fit has ended."""
        self._context.call_on_fit_task_end(estimator=self._estimator)


def _seconds_to(end: float | None) -> float | None:
    return None if end is None else max(end - time.monotonic(), 0.0)
