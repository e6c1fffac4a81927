"""The command line run inside the process of a test."""

import contextlib
import io
import signal
import sys

import pytest

from jboost import cli
from jboost.cli import limits


def run_in(folder, *arguments):
    """Runs jboost in a folder; returns (status, output, errors)."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.chdir(folder)
        patch.setattr("os._exit", sys.exit)
        with pytest.raises(SystemExit) as exit:
            cli.main([str(argument) for argument in arguments])
    return exit.value.code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def interrupted_after(num_steps, interrupt=lambda: signal.raise_signal(signal.SIGINT)):
    """Raises SIGINT after a number of steps of the command, or does what else is given."""
    progress, steps = limits.progress, iter(range(1, 1000))

    @contextlib.contextmanager
    def watched(*described):
        with progress(*described) as on_step:

            def watch(state, info):
                if next(steps) == num_steps:
                    interrupt()
                return on_step(state, info)

            yield watch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "progress", watched)
        yield
