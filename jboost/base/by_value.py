"""Functions compared by what they hold.

`jax.jit` keeps a program for each static argument. Functions compare by identity, so that a fresh
`optax.adam(0.05)`, a pair of closures, costs a compilation although an equal one was compiled.
`ByValue` compares functions by their code and by the values of their cells, defaults and globals.
Two wrappers are equal only if the functions were made by the same `def` or `lambda`, run again with
equal values. What cannot be compared by value is compared by identity.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_MOST_BYTES = 1 << 20  # of an array that is compared by its entries: more takes long to copy


class _Identity:
    """An object that equals itself alone; it is kept alive, so that no other gets its `id`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclasses.dataclass(frozen=True, eq=False)
class ByValue:
    """A function, or a tuple of functions, that hashes and compares by value.

    The comparison is of the values at the time when the wrapper is made.

    >>> def multiplier(factor):
    ...     return lambda number: factor * number
    >>> one, same, other = (ByValue(multiplier(factor)) for factor in (2.0, 2.0, 3.0))
    >>> one == same, one == other
    (True, False)
    """

    value: Any

    def __post_init__(self) -> None:
        signature = _signature(self.value, {})
        object.__setattr__(self, "_signature", signature)
        object.__setattr__(self, "_hash", hash(signature))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue) and self._signature == other._signature  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return int(self._hash)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def holds_traced(self) -> bool:
        """Whether an array that the functions hold is traced."""
        return _holds_traced(self._signature)  # type: ignore[attr-defined]


def _holds_traced(signature: Hashable) -> bool:
    if isinstance(signature, tuple):
        return any(map(_holds_traced, signature))
    return isinstance(signature, _Identity) and isinstance(signature.value, jax.core.Tracer)


def _signature(value: Any, above: Mapping[int, int]) -> Hashable:
    """What equals the signature of an equal value, and of no other.

    Args:
      value: anything.
      above: the depth of each object that holds this one, by its `id`, so that a cycle ends.
    """
    if id(value) in above:
        return "cycle", above[id(value)]
    inside = {**above, id(value): len(above)}
    if isinstance(value, float):
        return float, value.hex()  # NaN equals NaN, and 0.0 is not -0.0
    if value is None or isinstance(value, bool | int | str | bytes):
        return type(value), value
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _signature_of_array(value)
    if isinstance(value, types.FunctionType):
        return (
            types.FunctionType,
            *(_signature(part, inside) for part in _parts_of_function(value)),
        )
    if isinstance(value, types.MethodType):
        return (
            types.MethodType,
            _signature(value.__self__, inside),
            _signature(value.__func__, inside),
        )
    if isinstance(value, functools.partial):
        return type(value), *(
            _signature(part, inside) for part in (value.func, value.args, value.keywords)
        )
    if isinstance(value, tuple | list):
        return type(value), *(_signature(part, inside) for part in value)
    if isinstance(value, dict):
        return dict, *(
            (_signature(key, inside), _signature(part, inside)) for key, part in value.items()
        )
    # settings, as of a schedule
    if type(value).__module__.split(".")[0] == "optax" and hasattr(value, "__dict__"):
        return type(value), _signature(vars(value), inside)
    return _signature_of_object(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[Any]:
    """What decides a function's results: code, defaults, cells, attributes, and globals by name."""
    yield _Identity(function.__code__)
    yield _Identity(function.__globals__)
    yield function.__defaults__
    yield function.__kwdefaults__
    yield vars(function)
    for cell in function.__closure__ or ():
        yield cell.cell_contents if cell != types.CellType() else _Identity(cell)
    for name in sorted(_names_in(function.__code__)):
        held = function.__globals__.get(name)
        yield _Identity(held) if isinstance(held, types.FunctionType) else held


def _names_in(code: types.CodeType) -> set[str]:
    """The names that code, and code within it, looks up outside of its own variables."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def _signature_of_array(array: Any) -> Hashable:
    if isinstance(array, jax.core.Tracer) or getattr(array, "is_fully_addressable", True) is False:
        return _Identity(array)
    # it may hold more, as a mask
    is_subclass = isinstance(array, np.ndarray) and type(array) is not np.ndarray
    if is_subclass or array.dtype == object or array.size * array.dtype.itemsize > _MOST_BYTES:
        return _Identity(array)
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    host = np.asarray(jax.random.key_data(array) if is_key else array)
    return (
        type(array),
        str(array.dtype),
        array.shape,
        getattr(array, "weak_type", False),
        host.tobytes(),
    )


def _signature_of_object(value: Any) -> Hashable:
    """The object itself where its class compares by value, else its identity."""
    compares: Any = type(value).__eq__
    if compares is object.__eq__:
        return _Identity(value)
    try:
        hash(value)
    except TypeError:
        return _Identity(value)
    return type(value), value
