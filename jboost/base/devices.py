"""The default device, arrays of NumPy on it, and `jit` with compiler options for its platform.

JAX does not allow compiler options inside `jit`. So a call there is one of `jax.jit`, and only a
call outside of all transformations has the options.

The default device is `jax.default_device` if that is set, else the first device of JAX's default
backend.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

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
    # XLA's older code generator compiles in two thirds of the time or less. Its code is as fast.
    "cpu": {"xla_cpu_use_fusion_emitters": False},
}


def default() -> jax.Device:
    """The default device."""
    settings: Any = jax.config
    named = settings.jax_default_device
    if named is None or isinstance(named, str):
        return jax.devices(named)[0]
    return cast(jax.Device, named)


def platform() -> str:
    """The platform of the default device: "cpu", "gpu" or "tpu"."""
    return default().platform


def from_host(array: np.ndarray) -> jax.Array:
    """An array of NumPy as one of JAX, with the values and the dtype of `jnp.asarray`.

    Nothing is compiled, where `jnp.asarray` compiles a program for each shape and dtype. The array
    is copied first: JAX would share its memory on a CPU, and see what is written to it later.

    Raises:
      TypeError: for a dtype that JAX does not know.

    >>> from_host(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    held = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), order="C")
    return jax.device_put(held)


def ones_beside(vector: Any, dtype: Any = float) -> jax.Array:
    """`jnp.ones(m, dtype)` for a vector [m]. Nothing is compiled for m where the vector is known
    and on one device.

    >>> ones_beside(from_host(np.array([3.0, 4.0])), bool).tolist()
    [True, True]
    """
    if isinstance(vector, jax.core.Tracer) or len(vector.devices()) > 1:
        return jnp.ones(vector.shape, dtype)
    return from_host(np.ones(vector.shape, dtype))


def key_of(seed: int) -> jax.Array:
    """`jax.random.key(seed)` for a seed in [0, 2^31). Nothing is compiled for the generator that
    JAX has without other settings.

    >>> bool(key_of(7) == jax.random.key(7))
    True
    """
    settings: Any = jax.config
    if settings.jax_default_prng_impl != "threefry2x32" or settings.jax_random_seed_offset:
        return jax.random.key(seed)
    # a key of Threefry is the two words of the seed
    return jax.random.wrap_key_data(from_host(np.array([0, seed], np.uint32)))


def host_jit(
    function: _Function | None = None, *, platforms: Sequence[str] = ("cpu", "gpu"), **options: Any
) -> Any:
    """`jax.jit` with compiler options for a step that a loop on the host calls.

    The options are left out inside a `jit`, and if an argument is traced. They are also left out
    if this version of XLA does not have them, if the environment variable `XLA_FLAGS` has them,
    and on platforms not in `platforms`. Other arguments are those of `jax.jit`. Without `function`
    it returns a decorator.
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
        leaves = jax.tree.leaves((args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return plain(*args, **kwargs)
        try:
            return compiled_for(platform())(*args, **kwargs)
        except ValueError as error:
            # JAX's error inside a `jit` of the caller, where all arguments are constants
            if "compiler_options" not in str(error):
                raise
            return plain(*args, **kwargs)

    call.lower = lambda *args, **kwargs: compiled_for(platform()).lower(*args, **kwargs)  # type: ignore[attr-defined]
    return call


def public_jit(function: _Function | None = None, **options: Any) -> Any:
    """`host_jit` for a public function that can be traced, with the options for a CPU alone.

    It is not for programs whose time goes to updates of an array in place in a loop, such as the
    table of a simplex method: XLA's older code generator does not vectorise them.
    """
    return host_jit(function, platforms=("cpu",), **options)


def compile_side_by_side(*lowered: Any) -> None:
    """Compiles lowered programs of `host_jit` in parallel threads.

    Later calls with arguments of the same shapes use the compiled programs.
    """
    with concurrent.futures.ThreadPoolExecutor(len(lowered)) as pool:
        for compiling in [pool.submit(each.compile) for each in lowered]:
            compiling.result()


def are_uncommitted(arrays: Any) -> bool:
    """Whether no array of a pytree is traced or committed to a device. A program can then be
    compiled from shapes alone, before its arguments are computed.
    """
    leaves = jax.tree.leaves(arrays)
    return not any(
        isinstance(leaf, jax.core.Tracer) or (isinstance(leaf, jax.Array) and leaf.committed)
        for leaf in leaves
    )


def computed_eagerly() -> contextlib.AbstractContextManager[None]:
    """A context in which operations on known arrays are computed eagerly, even where the caller is
    traced for other arguments.

    It has no effect where nothing is traced, because `jax.ensure_compile_time_eval` also compiles
    each constant of a program separately.
    """
    is_traced = isinstance(jnp.zeros(()), jax.core.Tracer)
    return jax.ensure_compile_time_eval() if is_traced else contextlib.nullcontext()


@functools.cache
def _known_options(name: str) -> dict[str, Any] | None:
    """The compiler options for a platform; None if there are none or XLA does not have them."""
    options = {
        option: value
        for option, value in COMPILER_OPTIONS.get(name, {}).items()
        if option not in _options_of_user()
    }
    if not options:
        return None
    try:
        jax.jit(lambda: 0.0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return None
    return options


def _options_of_user() -> set[str]:
    """The names of the options that the environment variable `XLA_FLAGS` sets, itself or by the
    file that it names.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if flags and not flags.startswith("-"):
        try:
            flags = Path(flags).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return set()
    return {flag.split("=")[0].removeprefix("--") for flag in flags.split()}
