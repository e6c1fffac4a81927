"""Strict mode for every test: eight simulated devices, no silent rank promotion; warnings are errors by pyproject.toml."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


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
