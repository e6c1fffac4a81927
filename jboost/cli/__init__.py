"""The command line: `jboost fit`, `predict`, `evaluate`, `inspect`, `export` and `verify`.

`main` is the entry point. It turns every error into one line.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any

_INTERRUPTED, _BROKEN_PIPE = 130, 141
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
_NO_MEMORY = "RESOURCE_EXHAUSTED"  # as XLA says it


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process: status 0, 1 if `verify` finds a claim that is not
    proven, 2 after an error of the user, 130 after Ctrl-C.

    An error is one line on the standard error that says where and what to do; with
    JBOOST_TRACEBACK=1 it comes with its traceback.
    """
    try:
        _run(arguments)
    except KeyboardInterrupt:
        print("jboost: stopped; nothing was written", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        # what was open is closed; an interrupted compilation can crash the usual way out
        os._exit(_INTERRUPTED)
    except BrokenPipeError:  # as from `jboost predict ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        message = _told(error)
        if message is None or os.environ.get("JBOOST_TRACEBACK"):
            raise
        _fail(message)
    sys.exit(0)


def _told(error: Exception) -> str | None:
    """What is told of an error; None for a bug."""
    if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
        less = "--rounds, --folds, --cuts, --quantiles, --min-separation"
        return (
            f"out of memory ({error}): take fewer rows or columns, or less of what is asked for:"
            f" {less}"
        )
    return None if isinstance(error, RuntimeError) else str(error)


def _run(arguments: Sequence[str] | None) -> None:
    for package in _PACKAGES:
        # found and not imported: each command imports what it needs
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
