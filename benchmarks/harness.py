"""Measures callables, side by side, and writes what was measured as JSON.

Seconds of compilation are the first call minus a later run; seconds of a run are the best of
several, and the contenders of a race take turns, so that a noisy machine is noisy to all of them.
CPU seconds are those of the whole process during the best run.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jaxlib

import jboost

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# where quick runs go: git ignores it, and the tables do not show them
TRIALS = ROOT / "benchmarks-out"


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to the answer. After `cap_seconds` it gets no further run; a run that has begun is
    not cut off.
    """

    name: str
    call: Callable[[], Any]
    compiles: bool = True  # False: the first call is a run like the others
    repeats: int = 5
    cap_seconds: float = 60.0


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Seconds of one contender."""

    run_seconds: float  # best of num_runs
    cpu_seconds: float  # of the same run, all threads of the process
    compile_seconds: float | None  # None where nothing was compiled in this race
    num_runs: int


@dataclasses.dataclass
class Peer:
    """How far a peer is taken: not past `max_size`, nor to a size where it should take longer than
    `cap_seconds`.

    The seconds at a size are foreseen from the runs so far, which are taken to grow like size **
    growth.
    """

    cap_seconds: float
    max_size: float = math.inf
    growth: float = 2.0
    seen: dict[int, float] = dataclasses.field(default_factory=dict)

    def note(self, size: int, seconds: float) -> None:
        self.seen[size] = max(seconds, self.seen.get(size, 0.0))

    def reason_to_skip(self, size: int) -> str | None:
        if size > self.max_size:
            return f"not run past n = {self.max_size:.0f}"
        smaller = [other for other in self.seen if other < size]
        if smaller:
            last = max(smaller)
            foreseen = self.seen[last] * (size / last) ** self.growth
            if foreseen > self.cap_seconds:
                return (
                    f"about {foreseen:.0f} s foreseen from {self.seen[last]:.3g} s at n = {last},"
                    f" over the cap of {self.cap_seconds:.0f} s"
                )
        return None


def race(
    contenders: Sequence[Contender], *, fresh: bool = True
) -> tuple[dict[str, Measurement], dict[str, Any]]:
    """Runs the contenders in turns.

    Args:
      contenders: with different names.
      fresh: forget compiled functions first, so that the first call compiles; False if nothing new
        has to be compiled.

    Returns:
      What was measured, and what the first call of each returned, both by name.
    """
    if fresh:
        jax.clear_caches()
    first: dict[str, float] = {}
    spent: dict[str, float] = {}
    values: dict[str, Any] = {}
    runs: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in contenders}
    for contender in contenders:
        wall, cpu, values[contender.name] = _timed(contender.call)
        first[contender.name] = spent[contender.name] = wall
        if not contender.compiles:
            runs[contender.name].append((wall, cpu))
    for turn in range(max(contender.repeats for contender in contenders)):
        for contender in contenders:
            done = runs[contender.name]
            if (
                turn < contender.repeats
                and len(done) < contender.repeats
                and (not done or spent[contender.name] < contender.cap_seconds)
            ):
                wall, cpu, _ = _timed(contender.call)
                spent[contender.name] += wall
                done.append((wall, cpu))
    measurements = {}
    for contender in contenders:
        wall, cpu = min(runs[contender.name])
        compiled = max(first[contender.name] - wall, 0.0) if fresh and contender.compiles else None
        measurements[contender.name] = Measurement(wall, cpu, compiled, len(runs[contender.name]))
    return measurements, values


def measure(
    call: Callable[[], Any], *, repeats: int = 5, cap_seconds: float = 60.0
) -> tuple[Measurement, Any]:
    """One callable by itself: what was measured, and what its first call returned."""
    measurements, values = race([Contender("it", call, repeats=repeats, cap_seconds=cap_seconds)])
    return measurements["it"], values["it"]


def _timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    value = jax.block_until_ready(call())
    return time.perf_counter() - wall, time.process_time() - cpu, value


def make_small_loops_one_kernel() -> None:
    """Lets XLA compile a loop on a CPU whose step touches up to a megabyte, as a cache holds, as
    one kernel; to be called before all computation.

    By default that is so up to a kilobyte, and every operation of a larger loop is a kernel of its
    own, of some 50 ns whatever its size.
    """
    option = f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={1 << 20}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {option}".strip()


def keep_to_one_thread() -> None:
    """Has XLA work with one thread on a CPU, as its peers do: the others spin for milliseconds
    after each of its loops.

    To be called before it begins. Where there is an accelerator, compilation for it has all
    threads.
    """
    platforms = os.environ.get("JAX_PLATFORMS", "")
    has_accelerator = bool(importlib.metadata.entry_points(group="jax_plugins"))
    if platforms == "cpu" or not (platforms or has_accelerator):
        os.environ["NPROC"] = "1"


def seconds_key(platform: str) -> str:
    """Which seconds of a measurement are set against those of a peer on the CPU: an accelerator's
    work costs the CPU next to nothing.
    """
    return "cpu_seconds" if platform == "cpu" else "run_seconds"


def seconds_words(platform: str) -> str:
    """What a table calls them."""
    return (
        "CPU seconds"
        if platform == "cpu"
        else "elapsed seconds, those of HiGHS on the CPU of the same machine"
    )


def ratios(measurements: Mapping[str, Measurement], base: str) -> dict[str, float]:
    """How many times the run of `base` fits into the run of each other contender."""
    ours = measurements[base].run_seconds
    return {
        name: measurement.run_seconds / ours
        for name, measurement in measurements.items()
        if name != base
    }


def status_name(status: Any) -> str:
    """The name of the gravest of one or many status codes."""
    return jboost.status.explain(status).split(":")[0]


def environment() -> dict[str, Any]:
    """The device and the versions that a measurement depends on."""
    device = jax.devices()[0]
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu_model(),
        "cpu_count": usable,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": device.device_kind,
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "jboost": jboost.__version__,
        "num_devices": jax.device_count(),
        "platform": device.platform,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "x64": bool(jax.config.jax_enable_x64),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "threads": os.environ.get("NPROC", "all"),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def write(name: str, results: Mapping[str, Any], directory: Path | None = None) -> Path:
    """Writes results and environment to `<name>-<platform>.json`, whole or not at all.

    Args:
      name: of the benchmark, the key of its table in `benchmarks.table`.
      results: anything JSON can hold; dataclasses are written as objects, numpy numbers as numbers.
      directory: made if missing; None for `benchmarks/results`.
    """
    directory = RESULTS if directory is None else directory
    document = {"environment": environment(), "name": name, **results}
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False, default=_to_json) + "\n"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{document['environment']['platform']}.json"
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{name}-", suffix=".tmp")
    try:
        os.fchmod(handle, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a results file")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with the first column to the left and the others to the right."""
    ruler = [":---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ruler, *rows))


def seconds_text(seconds: float | None) -> str:
    """Seconds in the unit that suits them, to three digits."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{round(seconds / size, 1 if seconds < 100 * size else None):g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
