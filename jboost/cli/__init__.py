"""The command line: `jboost fit`, `predict`, `evaluate`, `path`, `inspect`, `export` and `verify`.

`main` is the entry point. It turns every error into one line.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any

_INTERRUPTED, _BROKEN_PIPE = 130, 141  # exit statuses of shells: 128 + the number of the signal
_PACKAGES = (
    "click",
    "filelock",
    "matplotlib",
    "platformdirs",
    "polars",
    "rich",
    "sklearn",
    "skops",
    "threadpoolctl",
)
_NO_MEMORY = "RESOURCE_EXHAUSTED"  # the status in the message of XLA


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process.

    The exit status is 0 after success, 1 if `verify` finds a claim that is not proven, 2 after an
    invalid input and 130 after Ctrl-C. An error is printed as one line on the standard error. If
    the environment variable JBOOST_TRACEBACK is set, the traceback is printed.
    """
    try:
        _run(arguments)
    except KeyboardInterrupt:
        print("jboost: stopped; nothing was written", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        # All files are closed. The regular exit can crash after an interrupted compilation.
        os._exit(_INTERRUPTED)
    except BrokenPipeError:  # as from `jboost predict ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        message = _message(error)
        if message is None or os.environ.get("JBOOST_TRACEBACK"):
            raise
        _fail(message)
    sys.exit(0)


def _message(error: Exception) -> str | None:
    """Returns the message for the user, or None if the error is a bug."""
    if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
        less = "--rounds, --folds, --cuts, --quantiles, --min-separation"
        return (
            f"out of memory ({error}): use fewer rows or columns, or smaller values of these"
            f" options: {less}"
        )
    return None if isinstance(error, RuntimeError) else str(error)


def _run(arguments: Sequence[str] | None) -> None:
    for package in _PACKAGES:
        # The packages are only looked up: each command imports those that it uses.
        if importlib.util.find_spec(package) is None:
            _fail(f"the command line needs the package {package}: pip install 'jboost[cli]'")
    import click

    from jboost import drive
    from jboost.cli import programs
    from jboost.cli.commands import make_group

    programs.prepare()
    try:
        with drive.lasting_interrupts():
            make_group().main(args=arguments, prog_name="jboost", standalone_mode=False)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        _fail(_usage(error))


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context else ""
    return str(error.format_message()).rstrip(".") + hint


def _fail(message: str) -> None:
    print(f"jboost: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
