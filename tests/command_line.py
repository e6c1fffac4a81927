"""The command line run inside the process of a test."""

import contextlib
import io
import sys

import pytest

from jboost import cli


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
