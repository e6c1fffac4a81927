"""`--checkpoint FOLDER` and `--resume`: the loop of a fit saved as it goes, and gone on with."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jboost import checkpoints, drive
from jboost.base.loops import OnStep
from jboost.cli import limits
from jboost.cli.options import OPTIONS, Settings

# Options that change nothing in the loop. The data are compared themselves, so that a file may have
# moved.
_APART = (
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
    """What a loop is driven with: `on_step` and `initial`, as --checkpoint and --resume ask for
    them.

    Without --checkpoint these are the `on_step` that is given, and None. With it SIGTERM ends the
    loop after its step; when the state is saved the process ends with status 143.

    Args:
      settings: all options.
      on_step: of progress and limits, or None.
      make_like: makes a state like that of the loop, or the type of it.
      data: what the loop sees, a pytree of arrays.

    Raises:
      ValueError: naming the option, for a folder with checkpoints without --resume; for checkpoints
        of other data or options.
    """
    if settings.checkpoint is None:
        yield on_step, None
        return
    options = {
        option.name: getattr(settings, option.name)
        for option in OPTIONS
        if _matters(option.name, settings)
    }
    folder, like = settings.checkpoint, make_like()
    initial = checkpoints.latest(folder, like, data=data, options=options)
    if initial is not None and not settings.resume:
        raise ValueError(
            f"--checkpoint {folder}: holds checkpoints of this run: go on from them with --resume,"
            " or name another folder"
        )
    if settings.resume:
        message = (
            "starts anew, as there is no checkpoint"
            if initial is None
            else "goes on from the checkpoint"
        )
        print(f"jboost: {message} in {folder}", file=sys.stderr)
    with (
        limits.terminated_after(f"the state is saved in {folder}: go on with --resume"),
        checkpoints.Checkpointer(folder, data=data, options=options, initial=initial) as save,
    ):
        yield drive.all_of(save, on_step), initial


def _matters(name: str, settings: Settings) -> bool:
    option = next(option for option in OPTIONS if option.name == name)
    return settings.method in option.methods and name not in _APART
