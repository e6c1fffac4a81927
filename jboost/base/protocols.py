"""Base classes of what users write for themselves: a class declares its hooks, and a misspelt hook
is an error when the class is created.

A class without the base works too, and is not checked. `hook`, `optional_hook` and
`missing_methods` read the hooks of both kinds of classes.
"""

from __future__ import annotations

import difflib
from typing import Any, ClassVar

# Chosen so that one wrong, missing or added letter in a name of five letters is close.
_CUTOFF = 0.8


class Protocol:
    """The base of all protocols. A direct subclass is a protocol: it declares hooks. A class below
    that implements it, and is checked.

    Hooks without a default are named in `optional`. The framework looks for them by name, because
    their absence has a meaning.
    """

    optional: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        """Raises TypeError for a public name that is no hook but is close to one."""
        super().__init_subclass__(**options)
        if Protocol in cls.__bases__:
            return
        declared, fields = _declared(cls), _fields(cls)
        for name in fields - set(vars(cls)):
            # `dataclasses` would take the inherited hook as the default of the field.
            if not name.startswith("_") and any(name in vars(base) for base in cls.__mro__[1:]):
                raise TypeError(
                    f"{cls.__name__}.{name}: a field with the name of a hook and no default; give"
                    " it a default, or store it under another name"
                )
        for name in vars(cls):
            if name.startswith("_") or name in declared or name in fields:
                continue
            close = difflib.get_close_matches(name, sorted(declared), n=1, cutoff=_CUTOFF)
            if close:
                protocol = _protocol(cls).__name__
                raise TypeError(
                    f"{cls.__name__}.{name}: not a hook of {protocol}; did you mean `{close[0]}`?"
                    " Rename it, or give it a leading underscore if it is private"
                )


def _protocol(cls: type) -> type:
    """The protocol that a class implements."""
    return next(base for base in cls.__mro__ if Protocol in base.__bases__)


def _declared(cls: type) -> frozenset[str]:
    """The public names of a class's protocol, and of all classes between them."""
    bases = [base for base in cls.__mro__[1:] if issubclass(base, Protocol)]
    names = {name for base in bases for name in (*vars(base), *_fields(base))}
    optional = frozenset().union(*(base.optional for base in bases))
    return frozenset(name for name in names if not name.startswith("_")) | optional


def _fields(cls: type) -> frozenset[str]:
    """The annotated names of a class's own body: the decorator that makes the dataclass runs
    later.
    """
    return frozenset(vars(cls).get("__annotations__", ()))


def hook(protocol: type[Protocol], value: Any, name: str) -> Any:
    """A declared hook of `value`: its own, or the default of the protocol for a class without the
    base.
    """
    default = vars(protocol)[name]
    return getattr(value, name) if hasattr(value, name) else default.__get__(value)


def optional_hook(protocol: type[Protocol], value: Any, name: str) -> Any:
    """A hook of `value` that the protocol declares without a default; None if it has none."""
    if name not in protocol.optional:
        raise KeyError(f"{protocol.__name__} declares no optional hook {name}")
    return getattr(value, name, None)


def missing_methods(protocol: type[Protocol], value: Any) -> list[str]:
    """The abstract methods of the protocol that `value` lacks, in the order of the protocol."""
    return [
        name
        for name, method in vars(protocol).items()
        if getattr(method, "__isabstractmethod__", False)
        and not callable(getattr(value, name, None))
    ]
