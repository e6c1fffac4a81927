"""`--checkpoint`, `--resume` and `--time-limit` of the method pair: the separator and its analyses
run in steps, one after the other, and their states may be saved. Without `--checkpoint` up to
`LARGEST_SWEEP` examples are one program each.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from jboost.base import loops
from jboost.base.loops import OnStep
from jboost.cli import checkpointing, limits
from jboost.cli.inputs import HostExamples
from jboost.cli.options import Settings
from jboost.pair import BranchAndBoundInfo, BranchAndBoundState, LeaveOneOutState, ParetoState


class PairState(NamedTuple):
    """The state of a run between two steps. A part is None before its first step, and its last
    state after its end.
    """

    separator: BranchAndBoundState | None
    leave_one_out: LeaveOneOutState | None
    front: ParetoState | None


_TITLES = {"separator": "pair", "leave_one_out": "leave-one-out", "front": "Pareto front"}


class Steps:
    """The parts of a run, each of which continues from its last state.

    Args:
      settings: all options.
      examples: of the run.

    Raises:
      ValueError: if the folder has checkpoints but --resume is not given, or if the checkpoints are
        of other data or options.
    """

    def __init__(self, settings: Settings, examples: HostExamples) -> None:
        self._settings, self._data = settings, dataclasses.asdict(examples)
        with jax.enable_x64(settings.precision == "float64"):
            self._last: PairState | None = checkpointing.saved(
                settings, lambda: PairState, self._data
            )

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[tuple[OnStep, Any]]:
        """Yields the arguments `on_step` and `initial` of a part, a field of `PairState`.

        Ctrl-C and the time limit end the part after its step. SIGTERM also ends the process at the
        end of the context.
        """
        last = PairState(None, None, None) if self._last is None else self._last
        with (
            limits.progress(_TITLES[part], 1) as show,
            checkpointing.saving(self._settings, show, self._data, self._last) as watch,
        ):

            def on_step(state: Any, info: Any) -> bool:
                self._last = last._replace(**{part: state})
                return loops.goes_on(watch, self._last, _text_of(info))

            yield on_step, getattr(last, part)


def _text_of(info: Any) -> str:
    """Returns the text of the progress bar."""
    return f"{info.num_cells} cells" if isinstance(info, BranchAndBoundInfo) else str(info)
