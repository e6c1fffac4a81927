"""`--checkpoint FOLDER` and `--resume`: saves the state of a fit and continues from it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jboost import checkpoints, drive
from jboost.base.loops import OnStep
from jboost.cli import limits
from jboost.cli.options import OPTIONS, Settings

# Options that do not change the loop. `data` is among them because the data themselves are
# compared: the file may have been moved.
_NOT_COMPARED = (
    "data",
    "output",
    "overwrite",
    "checkpoint",
    "resume",
    "time_limit",
    "exact",
    "device",
    "loo",
    "pareto",
)


@contextlib.contextmanager
def kept(
    settings: Settings, on_step: OnStep | None, make_like: Callable[[], Any], data: Any
) -> Iterator[tuple[OnStep | None, Any]]:
    """Yields the arguments `on_step` and `initial` of a loop, for --checkpoint and --resume: those
    of `saving` and `saved`. Without --checkpoint these are the given `on_step` and None.

    Args:
      settings: all options.
      on_step: the callback for progress and limits, or None.
      make_like: returns a state with the structure of the loop's state, or its type.
      data: the data of the loop, a pytree of arrays.

    Raises:
      ValueError: as for `saved`.
    """
    initial = saved(settings, make_like, data)
    with saving(settings, on_step, data, initial) as watch:
        yield watch, initial


def saved(settings: Settings, make_like: Callable[[], Any], data: Any) -> Any:
    """Returns the state from which --resume continues, or None if there is none.

    The arguments are those of `kept`.

    Raises:
      ValueError: if the folder has checkpoints but --resume is not given, or if the checkpoints are
        of other data or options.
    """
    folder = settings.checkpoint
    if folder is None:
        return None
    initial = checkpoints.latest(folder, make_like(), data=data, options=_compared(settings))
    if initial is not None and not settings.resume:
        raise ValueError(
            f"--checkpoint {folder}: holds checkpoints of this run: continue from them with"
            " --resume, or name another folder"
        )
    if settings.resume:
        message = (
            "starts from the beginning: there is no checkpoint"
            if initial is None
            else "continues from the checkpoint"
        )
        print(f"jboost: {message} in {folder}", file=sys.stderr)
    return initial


@contextlib.contextmanager
def saving(
    settings: Settings, on_step: OnStep | None, data: Any, initial: Any
) -> Iterator[OnStep | None]:
    """Yields an `on_step` that also saves the state, if --checkpoint is given.

    SIGTERM then ends the loop after the current step. The state is saved, and the process ends with
    status 143.

    Args:
      settings: all options.
      on_step: the callback for progress and limits, or None.
      data: the data of the loop, a pytree of arrays.
      initial: the result of `saved`.
    """
    folder = settings.checkpoint
    if folder is None:
        yield on_step
        return
    with (
        limits.terminated_after(f"the state is saved in {folder}: continue with --resume"),
        checkpoints.Checkpointer(
            folder, data=data, options=_compared(settings), initial=initial
        ) as save,
    ):
        yield drive.all_of(save, on_step)


def _compared(settings: Settings) -> dict[str, Any]:
    """Returns the options of a run that one that resumes it must have too."""
    return {
        option.name: getattr(settings, option.name)
        for option in OPTIONS
        if _matters(option.name, settings)
    }


def _matters(name: str, settings: Settings) -> bool:
    option = next(option for option in OPTIONS if option.name == name)
    return settings.method in option.methods and name not in _NOT_COMPARED
