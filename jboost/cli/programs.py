"""Compiled programs on the command line: the persistent cache, the count of compilations, and the
notice on the terminal during a compilation.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import jax

from jboost import drive, outputs
from jboost.base import devices

_MOST_BYTES = 1 << 28  # size limit of the cache of compiled programs on each machine
_SECONDS_FILE = "seconds.json"
_BACKEND_EVENT = "/jax/core/compile/backend_compile_duration"
_HIT_EVENT = "/jax/compilation_cache/cache_hits"
# Modules of JAX that are on the stack during a compilation or a trace.
_COMPILING = ("compiler.py", "mlir.py", "partial_eval.py")
_DELAY, _INTERVAL = 1.0, 0.1  # seconds before the notice is shown, and between two checks
_SHORTEST_STORED = 1.0  # seconds; shorter compilations are not recorded
WATCHER = "jboost compilation notice"  # name of the thread
# Seconds of compilation, measured on two CPU cores, for the first command on a machine.
TYPICAL_SECONDS = {
    "fit l0": 15.0,
    "fit pair": 6.0,
    "fit combine": 12.0,
    "fit example-weights": 10.0,
    "fit slipper": 8.0,
    "fit relaxed-margin": 15.0,
    "fit lpboost": 15.0,
    "fit adaboost": 3.0,
    "fit infoboost": 2.0,
    "path l0": 15.0,
    "path lpboost": 6.0,
    "predict": 1.0,
}
# XLA ends the process if a flag is unknown. This is the last version of jaxlib that is known to
# have the flag for CPUs.
_LAST_WITH_OLDER_GENERATOR = (0, 11)


class Count(NamedTuple):
    """The number of programs that JAX requested from XLA."""

    compiled: int
    from_cache: int
    seconds: float  # total time of XLA for these programs

    def since(self, earlier: Count) -> Count:
        """Returns the difference to an earlier count."""
        compiled, from_cache = (
            self.compiled - earlier.compiled,
            self.from_cache - earlier.from_cache,
        )
        return Count(compiled, from_cache, self.seconds - earlier.seconds)


class _Counter:
    """Counts the compilation events of `jax.monitoring`."""

    def __init__(self) -> None:
        self.total, self.hits, self.seconds = 0, 0, 0.0

    def note_duration(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event == _BACKEND_EVENT:
            self.total += 1
            self.seconds += duration_secs

    def note_event(self, event: str, **_: str | int) -> None:
        self.hits += event == _HIT_EVENT


@functools.cache
def _counter() -> _Counter:
    counter = _Counter()
    jax.monitoring.register_event_duration_secs_listener(counter.note_duration)
    jax.monitoring.register_event_listener(counter.note_event)
    return counter


def count() -> Count:
    """Returns the number of programs of this process since the first call of this function."""
    counter = _counter()
    return Count(counter.total - counter.hits, counter.hits, counter.seconds)


def prepare() -> None:
    """Configures JAX and XLA for a command. Call it before any computation."""
    _enable_cache()
    _limit_blas_threads()
    _silence_alarms()
    given = os.environ.get("XLA_FLAGS", "")
    flags = [given]
    if importlib.metadata.entry_points(group="jax_plugins") and "command_buffer" not in given:
        flags.extend(_flags("gpu"))
    if (
        jax.version.__version_info__[:2] <= _LAST_WITH_OLDER_GENERATOR
        and "fusion_emitters" not in given
    ):
        flags.extend(_flags("cpu"))
    os.environ["XLA_FLAGS"] = " ".join(flags).strip()


def _flags(platform_name: str) -> list[str]:
    """Returns the compiler options of a platform in the format of XLA_FLAGS."""
    options = devices.COMPILER_OPTIONS[platform_name]
    return [
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in options.items()
    ]


def _silence_alarms() -> None:
    """Suppresses the messages of XLA about long compilations, unless the user has chosen a level.

    The level is one of C++. JAX sets it to 1 on import, and takes another one only together with
    that of its Python loggers, which keep their warnings here.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") != "1" or "JAX_LOGGING_LEVEL" in os.environ:
        return
    jax.config.update("jax_logging_level", "CRITICAL")
    for name in ("jax", "jaxlib"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _limit_blas_threads() -> None:
    """Limits OpenBLAS to one thread, unless OPENBLAS_NUM_THREADS is set.

    The factorisations of JAX on the CPU use the OpenBLAS of SciPy, whose idle threads spin.
    """
    import scipy.linalg  # noqa: F401  the library must be loaded before it can be limited
    import threadpoolctl

    if "OPENBLAS_NUM_THREADS" not in os.environ:
        threadpoolctl.threadpool_limits(1, user_api="blas")


def _enable_cache() -> None:
    """Enables the persistent compilation cache of JAX, in a folder of bounded size per machine.

    If JAX_COMPILATION_CACHE_DIR is set, that folder is used without a bound. If the folder is not
    writable, a warning is printed and the cache is disabled. If the environment has
    JAX_ENABLE_COMPILATION_CACHE=false, the cache is disabled without a warning.
    """
    config: Any = jax.config
    if not config.jax_enable_compilation_cache:
        return
    named = config.jax_compilation_cache_dir
    folder = named or str(_own_folder())
    if not _can_be_written(folder):
        print(
            f"jboost: warning: compiled programs are not kept, as {folder} cannot be written: set"
            " JAX_COMPILATION_CACHE_DIR to a folder that can, or"
            " JAX_ENABLE_COMPILATION_CACHE=false",
            file=sys.stderr,
        )
        jax.config.update("jax_enable_compilation_cache", False)
    elif not named:
        Path(folder).mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_compilation_cache_max_size", _MOST_BYTES)
        # Short compilations are cached too: a command has many of them.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def _can_be_written(folder: str) -> bool:
    """Whether the folder, or its nearest existing parent, is writable. URLs are left to JAX."""
    if "://" in folder:
        return True
    path = Path(folder).absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK | os.X_OK)


def _own_folder() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("jboost") / "compiled" / (platform.node() or "machine")


# --- the notice on the terminal ------------------------------------------------------------------


@contextlib.contextmanager
def notice(kind: str) -> Iterator[None]:
    """Shows a notice on the terminal while a compilation takes longer than a second.

    Args:
      kind: the command and method, the key under which the compile time is recorded.
    """
    console = drive.console()
    before = count()
    if not console.is_terminal:
        yield
    else:
        done = threading.Event()
        seconds = expected_seconds(kind)
        about = "" if seconds is None else f": about {max(round(seconds), 1)} s"
        text = f"compiling for these sizes{about}, once"
        watcher = threading.Thread(target=_watch, args=(done, text), name=WATCHER, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
    _remember(kind, count().since(before))


def _watch(done: threading.Event, text: str) -> None:
    """Shows the text while the main thread is in a long compilation, until `done` is set."""
    status, began = None, None
    while not done.wait(_INTERVAL):
        if not _is_compiling(sys._current_frames().get(threading.main_thread().ident or 0)):
            began = None
        elif began is None:
            began = time.monotonic()
        shows = began is not None and time.monotonic() - began > _DELAY
        if shows and status is None:
            status = drive.console().status(text)
            status.start()
        elif began is None and status is not None:
            status.stop()
            status = None
    if status is not None:
        status.stop()


def _is_compiling(frame: FrameType | None) -> bool:
    while frame is not None:
        folder, name = os.path.split(frame.f_code.co_filename)
        if frame.f_code is devices.compile_side_by_side.__code__:
            return True
        if name in _COMPILING and f"{os.sep}jax{os.sep}_src" in folder:
            return True
        frame = frame.f_back
    return False


def expected_seconds(kind: str) -> float | None:
    """Returns the expected compile time of a kind of command, or None if it is unknown.

    It is the time of the last such command on this machine, or else a typical one.
    """
    typical = TYPICAL_SECONDS.get(kind.replace("evaluate", "fit"))
    return _read_seconds().get(kind, typical)


def _remember(kind: str, programs: Count) -> None:
    folder = _folder()
    if folder is not None and programs.compiled and programs.seconds >= _SHORTEST_STORED:
        path = folder / _SECONDS_FILE
        with contextlib.suppress(OSError), outputs.file(path) as temporary:
            temporary.write_text(
                json.dumps(_read_seconds() | {kind: programs.seconds}), encoding="utf-8"
            )


def _read_seconds() -> dict[str, float]:
    """Returns the recorded compile time of each kind of command; {} if there is no record."""
    folder = _folder()
    try:
        noted = {} if folder is None else json.loads((folder / _SECONDS_FILE).read_text("utf-8"))
        return {str(kind): float(seconds) for kind, seconds in noted.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _folder() -> Path | None:
    """Returns the folder of the compilation cache, or None if it is disabled or not local."""
    config: Any = jax.config
    folder = config.jax_compilation_cache_dir if config.jax_enable_compilation_cache else None
    return None if folder is None or "://" in folder else Path(folder)
