"""The device that computes where arrays do not say: `jax.default_device` if it is set, else the first of JAX's default backend."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax

_Function = TypeVar("_Function", bound=Callable[..., Any])

# A whole loop of small steps becomes one CUDA graph, so that a GPU does not wait for the host between two steps.
_GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CONDITIONAL,WHILE,DYNAMIC_SLICE_FUSION",
    "xla_gpu_graph_min_graph_size": "1",
}


def default() -> jax.Device:
    """The device itself."""
    told: Any = jax.config
    named = told.jax_default_device
    if named is None or isinstance(named, str):
        return jax.devices(named)[0]
    return cast(jax.Device, named)


def platform() -> str:
    """Its platform: "cpu", "gpu" or "tpu"."""
    return default().platform


def host_jit(function: _Function | None = None, **options: Any) -> Any:
    """`jax.jit` for a step that a loop on the host calls, with concrete arrays: on a GPU its loops are CUDA graphs.

    JAX refuses such options of the compiler inside of a `jit`, `grad` or `vmap` of the caller's, so what may stand there is not to use this.
    Arguments are those of `jax.jit`; it may be called with the options alone, as a decorator.
    """
    if function is None:
        return functools.partial(host_jit, **options)
    plain, with_graphs = jax.jit(function, **options), jax.jit(function, compiler_options=_GRAPHS, **options)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (with_graphs if platform() == "gpu" else plain)(*args, **kwargs)

    return call
