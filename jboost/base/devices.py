"""The device that computes where arrays do not say: `jax.default_device` if it is set, else the
first of JAX's default backend.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import jax

_Function = TypeVar("_Function", bound=Callable[..., Any])

COMPILER_OPTIONS: dict[str, dict[str, Any]] = {
    # A whole loop of small steps becomes one CUDA graph, so that a GPU does not wait for the host
    # between two steps.
    "gpu": {
        "xla_gpu_enable_command_buffer": (
            "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CONDITIONAL,WHILE,DYNAMIC_SLICE_FUSION"
        ),
        "xla_gpu_graph_min_graph_size": "1",
    },
    # XLA's older code generator compiles in two thirds of the time or less, and what it makes runs
    # as fast.
    "cpu": {"xla_cpu_use_fusion_emitters": False},
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


def host_jit(
    function: _Function | None = None, *, platforms: Sequence[str] = ("cpu", "gpu"), **options: Any
) -> Any:
    """`jax.jit` for a step that a loop on the host calls: with the options of XLA that suit such
    steps on this platform.

    JAX refuses options of the compiler inside a `jit`, `grad` or `vmap` of the caller's. Where an
    argument is traced they are left out, and where this version of XLA does not know them, and on
    other platforms than those named here. Other arguments are those of `jax.jit`; it may be called
    with these alone, as a decorator.
    """
    if function is None:
        return functools.partial(host_jit, platforms=platforms, **options)
    plain = jax.jit(function, **options)

    @functools.cache
    def compiled_for(name: str) -> Any:
        return jax.jit(
            function,
            compiler_options=_known_options(name) if name in platforms else None,
            **options,
        )

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        is_traced = any(
            isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))
        )
        return (plain if is_traced else compiled_for(platform()))(*args, **kwargs)

    call.lower = lambda *args, **kwargs: compiled_for(platform()).lower(*args, **kwargs)  # type: ignore[attr-defined]
    return call


def compile_side_by_side(*lowered: Any) -> None:
    """Compiles programs in threads, as `lower` of `host_jit` gives them; calls with arguments of
    these shapes then find them compiled.
    """
    with concurrent.futures.ThreadPoolExecutor(len(lowered)) as pool:
        for compiling in [pool.submit(each.compile) for each in lowered]:
            compiling.result()


@functools.cache
def _known_options(name: str) -> dict[str, Any] | None:
    """The options of XLA for a platform; None where there are none, or this version does not know
    them.
    """
    wanted = COMPILER_OPTIONS.get(name)
    if wanted is None:
        return None
    try:
        jax.jit(lambda: 0.0, compiler_options=wanted).lower().compile()
    except jax.errors.JaxRuntimeError:
        return None
    return wanted
