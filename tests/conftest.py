"""Strict mode for every test: eight simulated devices, no silent rank promotion; warnings are
errors by pyproject.toml.
"""

import atexit
import collections
import gc
import os
import shutil
import tempfile
from pathlib import Path

# Most of a test's time is compilation, of which level 0 leaves a quarter; one thread, as the
# workers take the cores already.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    " --xla_cpu_use_fusion_emitters=false",
)
os.environ.setdefault("NPROC", "1")

import jax
import pytest

import costs

jax.config.update("jax_numpy_rank_promotion", "raise")
# A fifth of the time: no operation is lowered with the Python frames that it comes from, and what
# tracing makes, which stays, is seldom searched.
jax.config.update("jax_traceback_in_locations_limit", 0)
gc.set_threshold(50_000, 20, 10)


def _keep_compiled_programs():
    """In a folder of this run: its workers and commands read what others compiled, and nothing
    older; none writes into the user's folders.
    """
    folder = tempfile.mkdtemp(prefix="jboost-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, value in (
        ("jax_compilation_cache_dir", folder),
        ("jax_persistent_cache_min_compile_time_secs", 0),
    ):
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


if "PYTEST_XDIST_WORKER" not in os.environ:
    _keep_compiled_programs()


@pytest.fixture
def x64():
    """64-bit types enabled by the user, for the length of one test."""
    with jax.enable_x64(True):
        yield


class CompilationCounter:
    """Counts what the backend compiles while it is open."""

    def __init__(self):
        self.count = 0

    def __call__(self, event, duration, **_):
        self.count += event == "/jax/core/compile/backend_compile_duration"


_COUNTER = CompilationCounter()
jax.monitoring.register_event_duration_secs_listener(_COUNTER)


@pytest.fixture
def compilations():
    """A function that says how many compilations there were since the test began."""
    start = _COUNTER.count
    return lambda: _COUNTER.count - start


# Linux allows a process 65,530, and each compiled program keeps some: past that, compiling crashes
_MOST_MEMORY_MAPS = 30_000


@pytest.fixture(autouse=True)
def _few_memory_maps():
    """Lets go of compiled programs between two tests before they use up the memory maps of the
    process.
    """
    start = _COUNTER.count
    yield
    maps = Path("/proc/self/maps")
    if (
        _COUNTER.count > start
        and maps.exists()
        and maps.read_bytes().count(b"\n") > _MOST_MEMORY_MAPS
    ):
        jax.clear_caches()
        gc.collect()


def pytest_collection_modifyitems(items):
    """Marks tests by their costs, before `-m` selects some."""
    costs.mark(items, costs.read())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Measures the processor time of each test, its subprocesses included."""
    start = sum(os.times()[:4])
    result = yield
    costs.append(item.nodeid, sum(os.times()[:4]) - start)
    return result


_NUM_FILES_SHOWN = 15


def pytest_terminal_summary(terminalreporter):
    """Minutes of each file, the longest first, so that a budget can be kept."""
    seconds = collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "nodeid"):
                seconds[report.nodeid.split("::")[0]] += report.duration
    if sum(seconds.values()) > 60:
        terminalreporter.section("minutes per file")
        for name, total in seconds.most_common(_NUM_FILES_SHOWN):
            terminalreporter.write_line(f"{total / 60:6.2f}  {name}")
        terminalreporter.write_line(f"{sum(seconds.values()) / 60:6.2f}  all {len(seconds)} files")
