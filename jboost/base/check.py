"""Checks of arguments: shapes and kinds at trace time, values on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import devices, memory

ArrayLike = jax.typing.ArrayLike

LARGEST = float(np.finfo(np.float32).max)  # what any default float type holds
_KIND_NAMES = {"f": "floating", "i": "signed integer", "u": "unsigned integer", "b": "boolean"}


def host_array(name: str, value: Any, *, shape: tuple[int | str, ...], kinds: str) -> np.ndarray:
    """`numeric` on the host, for a function that may be called where something else is traced."""
    with jax.ensure_compile_time_eval():
        return np.asarray(numeric(name, value, shape=shape, kinds=kinds))


def are_traced(*values: Any) -> bool:
    """Whether an array in these pytrees is traced, so that its values are not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def are_known(*values: Any) -> bool:
    """Whether the values of all arrays in these pytrees can be read here: none is traced or held in
    part by other processes.
    """
    leaves = jax.tree.leaves(values)
    are_here = all(
        leaf.is_fully_addressable or leaf.is_fully_replicated
        for leaf in leaves
        if isinstance(leaf, jax.Array) and not are_traced(leaf)
    )
    return are_here and not are_traced(leaves)


def on_host(function: str, *, instead: str, **arguments: Any) -> None:
    """Raises ValueError if an argument of a function that runs on the host is traced.

    The message names the argument and ends with `instead`, which tells what to call instead.
    """
    for name, value in arguments.items():
        if are_traced(value):
            raise ValueError(
                f"{name} is traced, and {function} runs on the host: call it outside jit, vmap and"
                f" grad; {instead}"
            )


def _kind(dtype: Any) -> str:
    for kind, parent in (
        ("f", jnp.floating),
        ("i", jnp.signedinteger),
        ("u", jnp.unsignedinteger),
        ("b", jnp.bool_),
    ):
        if jnp.issubdtype(dtype, parent):
            return kind
    return "?"


def densified(name: str, value: Any) -> Any:
    """`value`, or the dense copy of a sparse matrix of scipy. Raises ValueError where that is
    larger than half the memory of the machine.
    """
    if not (hasattr(value, "toarray") and hasattr(value, "nnz") and hasattr(value, "shape")):
        return value
    num_bytes, most = (
        math.prod(value.shape) * np.dtype(value.dtype).itemsize,
        memory.of_machine() // 2,
    )
    if num_bytes > most:
        raise ValueError(
            f"{name} is a sparse matrix of shape {list(value.shape)}, whose dense copy takes"
            f" {num_bytes:,} bytes, and {most:,} are the most: pass fewer rows or columns"
        )
    return value.toarray()


def without_holes(name: str, value: Any) -> Any:
    """`value`, with NaN (None among objects) where an array of numpy.ma is masked. Raises
    ValueError for dtypes that hold neither.
    """
    if not np.ma.isMaskedArray(value):
        return value
    if not np.ma.is_masked(value):
        return value.data
    if value.dtype.kind in "fiub":
        numbers = np.array(value.data, np.result_type(value.dtype, np.float32))
        numbers[np.ma.getmaskarray(value)] = np.nan
        return numbers
    if value.dtype.kind in "OUS":
        cells = np.array(value.data, object)
        cells[np.ma.getmaskarray(value)] = None
        return cells
    raise ValueError(
        f"{name} has masked entries of dtype {value.dtype}: fill them in, as by its filled(), or"
        " pass floats"
    )


def _as_array(name: str, value: Any, wanted: str) -> jax.Array:
    if isinstance(value, jax.Array):
        return value
    value = without_holes(name, densified(name, value))
    try:
        host = np.asarray(value)
    except jax.errors.TracerArrayConversionError:
        return jnp.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} has rows of unequal length: expected an array of shape {wanted}"
        ) from error
    if host.dtype.kind in "OUSMm":
        remedy = (
            "; jboost.data.binarization.fit takes tables of texts and missing values"
            if hasattr(value, "columns")
            else ""
        )
        raise ValueError(
            f"{name} is not an array of numbers ({type(value).__name__}): expected an array of"
            f" shape {wanted}{remedy}"
        )
    with np.errstate(over="ignore"):
        try:
            array = devices.from_host(host)
        except TypeError as error:
            raise ValueError(
                f"{name} has dtype {host.dtype}, which JAX does not know: pass float32 or float64"
            ) from error
        if host.dtype.kind == "f" and np.any(
            np.isfinite(host) & ~np.isfinite(host.astype(array.dtype))
        ):
            _refuse_overflow(name, host, array.dtype)
    if host.dtype.kind in "iu" and np.any(host != host.astype(array.dtype)):
        raise ValueError(
            f"{name} holds integers that do not fit 32 bits: enable 64-bit types, or pass floats"
        )
    return array


def _refuse_overflow(name: str, host: np.ndarray, dtype: Any) -> None:
    position = np.argwhere(np.isfinite(host) & ~np.isfinite(host.astype(dtype)))[0].tolist()
    index = f"{position}" if position else ""
    raise ValueError(
        f"{name}{index} is {host[tuple(position)]:g}, more than {dtype} holds"
        f" ({float(jnp.finfo(dtype).max):.2g}): divide all of {name} by one large number, or enable"
        " 64-bit types (jax.config.update('jax_enable_x64', True))"
    )


def numeric(name: str, value: Any, *, shape: tuple[int | str, ...], kinds: str) -> jax.Array:
    """`value` as an array, if it has the expected shape and kind.

    Args:
      name: the caller's name of the argument, with which the message begins.
      value: anything that `jnp.asarray` takes.
      shape: the expected shape; a string stands for any size and is shown in the message. "..." at
        the end stands for any number of further axes.
      kinds: the allowed kinds of dtype, among "f", "i", "u" and "b".

    Raises:
      ValueError: naming the argument, its value, and what was expected.
    """
    wanted = "[" + ", ".join(str(size) for size in shape) + "]"
    if value is None:
        raise ValueError(f"{name} is None: expected an array of shape {wanted}")
    array = _as_array(name, value, wanted)
    if not _fits(array.shape, shape):
        raise ValueError(f"{name} has shape {list(array.shape)}: expected shape {wanted}")
    if _kind(array.dtype) not in kinds:
        allowed = ", ".join(_KIND_NAMES[kind] for kind in kinds)
        raise ValueError(f"{name} has dtype {array.dtype}: expected kinds {allowed}")
    return array


def at_least_32_bits(integers: jax.Array) -> jax.Array:
    """Integers as int32 where their own dtype is narrower, so that they can be compared with any
    number: one that does not fit it would wrap around.
    """
    return integers.astype(jnp.int32) if integers.dtype.itemsize < 4 else integers


def _fits(found: tuple[int, ...], shape: tuple[int | str, ...]) -> bool:
    if shape[-1:] == ("...",):
        shape = shape[:-1]
        found = found[: len(shape)]
    return len(found) == len(shape) and all(
        isinstance(want, str) or size == want for size, want in zip(found, shape, strict=True)
    )


def matrix(name: str, value: Any) -> None:
    """Raises ValueError for features that are not rows of columns, as images [m, H, W, C]."""
    shape = value.shape if hasattr(value, "shape") else np.shape(value)
    if len(shape) != 2:
        raise ValueError(
            f"{name} has shape {list(shape)}: expected [m, N], one number a column;"
            " jboost.learners.trained takes rows of any shape"
        )


def rows_alike(mask: Any, features: Any) -> Any:
    """A mask [m] as [m, 1, ...], to broadcast beside features [m, ...]."""
    return mask.reshape(mask.shape + (1,) * (features.ndim - 1))


def label_array(
    name: str, value: Any, *, shape: tuple[int | str, ...], kinds: str = "fiu"
) -> jax.Array:
    """`value` as an array of numbers. Raises ValueError as `numeric` does; for texts and booleans
    it says how to map them.
    """
    if not isinstance(value, jax.core.Tracer) and value is not None:
        kind = _kind(value.dtype) if isinstance(value, jax.Array) else _host_kind(value)
        if kind == "b":
            raise ValueError(
                f"{name} are booleans: labels are -1 or +1; map them by 2 * numpy.asarray({name}) -"
                f" 1, or numpy.where({name}, 1, -1)"
            )
        if kind in "OUST":
            raise ValueError(
                f"{name} are texts or objects: labels are -1 or +1; map the two classes, as by"
                f" numpy.where({name} == 'yes', 1, -1)"
            )
    return numeric(name, value, shape=shape, kinds=kinds)


def _host_kind(value: Any) -> str:
    try:
        return np.asarray(value).dtype.kind
    except (ValueError, jax.errors.TracerArrayConversionError):
        # of rows of unequal length, or of traced numbers
        return "?"


def has_columns(num_columns: int) -> None:
    """Raises ValueError for features without a column."""
    if num_columns == 0:
        raise ValueError(
            "features has 0 columns: expected one at least; jboost.data.binarization makes none of"
            " attributes that hold one value on all training rows, so pass features that vary"
        )


def choice(name: str, value: Any, options: tuple[Any, ...]) -> None:
    """Raises ValueError unless `value` is one of `options`."""
    if not any(type(value) is type(option) and value == option for option in options):
        raise ValueError(f"{name} is {value!r}: the options are {', '.join(map(repr, options))}")


def can_be_watched(on_step: Any, inputs: Any, *, between: str) -> None:
    """Raises ValueError unless `on_step` is a function or None, and where arrays are traced, which
    it cannot look at between two "rounds", say.
    """
    watcher("on_step", on_step)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(inputs)):
        raise ValueError(
            f"on_step is called on the host, between {between}, and the data are traced: leave it"
            " out under jit, vmap and grad"
        )


def like(name: str, value: Any, wanted: Any, *, kind: str) -> Any:
    """`value`. Raises ValueError, naming the part, unless it has the structure, shapes and dtypes
    of another pytree of this kind.
    """
    if type(value) is not type(wanted):
        raise ValueError(
            f"{name} is a {type(value).__name__}: expected a {kind}, as `on_step` gets it"
        )
    found, shapes = (
        {
            jax.tree_util.keystr(path): f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}"
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        }
        for tree in (value, wanted)
    )
    differing = [part for part in {**shapes, **found} if found.get(part) != shapes.get(part)]
    if differing:
        part = differing[0]
        raise ValueError(
            f"{name}{part} is {found.get(part, 'missing')}: expected"
            f" {shapes.get(part, 'no such array')}, as these data and options have it; pass a state"
            " that `on_step` was given for the same"
        )
    return value


def watcher(name: str, value: Any) -> None:
    """Raises ValueError unless `value` is a function or None."""
    if value is not None and not callable(value):
        raise ValueError(f"{name} is {value!r}: expected a function of state and info, or None")


def config(name: str, value: Any, *kinds: type[Any]) -> Any:
    """`value`, or the first of the kinds as it comes where it is None. Raises ValueError unless it
    is of one of the kinds.
    """
    if value is None:
        return kinds[0]()
    record(name, value, *kinds)
    return value


def record(name: str, value: Any, *kinds: type[Any]) -> None:
    """Raises ValueError unless `value` is a record of one of the kinds."""
    if not isinstance(value, kinds):
        options = " or ".join(
            getattr(kind, "PUBLIC_NAME", ".".join([*kind.__module__.split(".")[:2], kind.__name__]))
            for kind in kinds
        )
        raise ValueError(f"{name} is a {type(value).__name__}: expected a {options}")


def count(name: str, value: Any, *, low: int, high: int | None = None) -> None:
    """Raises ValueError unless `value` is a Python integer from `low` to `high`: sizes are
    static.
    """
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(
            f"{name} is {value!r}: expected an integer {allowed}, known before tracing"
        )


def key(name: str, value: Any) -> Any:
    """`value`, a random key of JAX of either kind, or ValueError."""
    is_typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    is_raw = isinstance(value, jax.Array | np.ndarray) and value.dtype == np.uint32
    if not (is_typed and value.ndim == 0) and not (is_raw and value.ndim == 1):
        found = (
            f"of shape {list(value.shape)}, {value.dtype}"
            if isinstance(value, jax.Array | np.ndarray)
            else f"{value!r}"
        )
        raise ValueError(f"{name} is {found}: expected a random key, as jax.random.key(0)")
    return value


def pytree_of_numbers(name: str, value: Any, *, remedy: str) -> None:
    """Raises ValueError if a leaf of `value` is no number or array, as of a class that JAX does not
    know.
    """
    for leaf in jax.tree.leaves(value):
        if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, int, float)):
            raise ValueError(f"{name} holds a {type(leaf).__name__}, which is no array: {remedy}")


def number(
    name: str, value: Any, *, low: float, high: float = np.inf, open_low: bool = False
) -> Any:
    """`value` as a scalar, checked on the host if it is concrete; traced values are not checked.

    Raises:
      ValueError: if it is no real scalar, is NaN, or lies outside [low, high] (with `open_low`, if
        it is `low`).
    """
    array = numeric(name, value, shape=(), kinds="fiu")
    if not isinstance(array, jax.core.Tracer):

        def is_outside(given: float) -> bool:
            return not ((low < given if open_low else low <= given) and given <= high)

        if is_outside(float(array)):
            (given,) = shown(float(array), wrong=is_outside)
            most = f" up to {high:g}" if high < np.inf else "" if open_low else " up"
            raise ValueError(
                f"{name} is {given}: expected a number {'above' if open_low else 'from'}"
                f" {low:g}{most}"
            )
    return array


def host_number(
    function: str,
    name: str,
    value: Any,
    *,
    low: float,
    high: float = np.inf,
    open_low: bool = False,
) -> float:
    """An argument of a formula on the host as a Python float, checked by `number` in 64 bits."""
    on_host(function, instead="its arguments are Python numbers", **{name: value})
    with jax.enable_x64(True):
        number(name, value, low=low, high=high, open_low=open_low)
    return float(np.asarray(value))


def shown(*values: float, wrong: Callable[..., bool]) -> list[str]:
    """The numbers in six digits, or in as many more as show what is wrong with them."""
    for digits in (6, 9, 17):
        texts = [f"{value:.{digits}g}" for value in values]
        if wrong(*map(float, texts)):
            break
    return texts


def numbers(
    name: str, values: Any, *, low: float, high: float = np.inf, open_low: bool = False
) -> Any:
    """`values` as a vector of the default float type, each checked by `number`.

    Raises ValueError, also for an empty vector.
    """
    array = numeric(name, values, shape=("L",), kinds="fiu").astype(float)
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty: expected one number at least")
    if not isinstance(array, jax.core.Tracer):
        for index, value in enumerate(array):
            number(f"{name}[{index}]", value, low=low, high=high, open_low=open_low)
    return array
