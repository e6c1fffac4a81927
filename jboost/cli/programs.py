"""Compiled programs on the command line: where they are kept, how many there were, what people see
meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
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

_MOST_BYTES = 1 << 28  # of compiled programs, for each machine
_SECONDS_FILE = "seconds.json"
_BACKEND_EVENT = "/jax/core/compile/backend_compile_duration"
_HIT_EVENT = "/jax/compilation_cache/cache_hits"
# of JAX: where Python is while it compiles or traces
_COMPILING = ("compiler.py", "mlir.py", "partial_eval.py")
_PATIENCE, _GLANCE = 1.0, 0.1  # seconds before anything is shown, and between two looks
_WORTH_KEEPING = 1.0  # seconds
WATCHER = "jboost compilation notice"  # the name of its thread
# Seconds of compilation on two CPU cores, where no earlier command has noted its own.
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
}
# XLA ends the process at a flag that it does not know: the last version of jaxlib that is known to
# have the one for CPUs.
_LAST_WITH_OLDER_GENERATOR = (0, 11)


class Count(NamedTuple):
    """Programs that JAX asked XLA for."""

    compiled: int
    from_cache: int
    seconds: float  # that XLA took for each of them, added up

    def since(self, earlier: Count) -> Count:
        """What has come after an earlier count."""
        compiled, from_cache = (
            self.compiled - earlier.compiled,
            self.from_cache - earlier.from_cache,
        )
        return Count(compiled, from_cache, self.seconds - earlier.seconds)


class _Counter:
    """Listens to JAX."""

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
    """All programs of this process since the first call of this function."""
    counter = _counter()
    return Count(counter.total - counter.hits, counter.hits, counter.seconds)


def prepare() -> None:
    """Settings of JAX and XLA for a command: to be called before anything is computed."""
    _keep()
    _factorise_on_one_thread()
    # without XLA's alarm about long compilations
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
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
    """The options of XLA for programs on a platform, as XLA_FLAGS has them."""
    options = devices.COMPILER_OPTIONS[platform_name]
    return [
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in options.items()
    ]


def _factorise_on_one_thread() -> None:
    """Factorisations by one thread, unless the user said how many: JAX's go through SciPy's
    OpenBLAS, whose idle threads spin.
    """
    import scipy.linalg  # noqa: F401  what is to be limited must be loaded
    import threadpoolctl

    if "OPENBLAS_NUM_THREADS" not in os.environ:
        threadpoolctl.threadpool_limits(1, user_api="blas")


def _keep() -> None:
    """Has compiled programs kept in a folder for each machine, of bounded size, for later commands.

    A folder that the user named (JAX_COMPILATION_CACHE_DIR) is used as it is. One that cannot be
    written is named in a warning, and nothing is kept. JAX_ENABLE_COMPILATION_CACHE=false keeps
    nothing without a word.
    """
    told: Any = jax.config
    if not told.jax_enable_compilation_cache:
        return
    named = told.jax_compilation_cache_dir
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
        # many small programs add up
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def _can_be_written(folder: str) -> bool:
    """Whether a folder, or the nearest one above it that is there, can be written; addresses of
    other kinds are left to JAX.
    """
    if "://" in folder:
        return True
    place = Path(folder).absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def _own_folder() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("jboost") / "compiled" / (platform.node() or "machine")


# --- what people see -----------------------------------------------------------------------------


@contextlib.contextmanager
def notice(kind: str) -> Iterator[None]:
    """Says on the terminal that programs are being compiled, once that takes over a second; it goes
    away afterwards.

    Args:
      kind: what is compiled, by which the seconds that it took the last time are known.
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
    """Shows the text while the main thread has been compiling for a while, until `done`."""
    status, began = None, None
    while not done.wait(_GLANCE):
        if not _is_compiling(sys._current_frames().get(threading.main_thread().ident or 0)):
            began = None
        elif began is None:
            began = time.monotonic()
        shows = began is not None and time.monotonic() - began > _PATIENCE
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
    """What a kind of command compiles for: what the last one took on this machine, or else what is
    typical; None where nothing is known.
    """
    typical = TYPICAL_SECONDS.get(kind.replace("evaluate", "fit"))
    return _read_seconds().get(kind, typical)


def _remember(kind: str, programs: Count) -> None:
    folder = _folder()
    if folder is not None and programs.compiled and programs.seconds >= _WORTH_KEEPING:
        path = folder / _SECONDS_FILE
        with contextlib.suppress(OSError), outputs.file(path) as temporary:
            temporary.write_text(
                json.dumps(_read_seconds() | {kind: programs.seconds}), encoding="utf-8"
            )


def _read_seconds() -> dict[str, float]:
    """Seconds by kind, as earlier commands noted them; {} where nothing is known."""
    folder = _folder()
    try:
        noted = {} if folder is None else json.loads((folder / _SECONDS_FILE).read_text("utf-8"))
        return {str(kind): float(seconds) for kind, seconds in noted.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _folder() -> Path | None:
    """Where compiled programs are kept, if that is a folder of this machine."""
    told: Any = jax.config
    folder = told.jax_compilation_cache_dir if told.jax_enable_compilation_cache else None
    return None if folder is None or "://" in folder else Path(folder)
