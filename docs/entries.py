"""Which public names of jboost have an entry in docs/api/, for the build and for the tests."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator

import jboost

# Modules that `import jboost` does not import, because they need an extra.
_WITH_EXTRAS = ("sklearn",)
_ENTRY = re.compile(r"^\.\. auto(?:function|class|data):: (jboost\.\S+)$", re.MULTILINE)


def names_of(module: types.ModuleType) -> list[str]:
    """What a module declares in `__all__`; without one what it defines and does not hide."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def public_names(module: types.ModuleType = jboost, dotted: str = "jboost") -> Iterator[str]:
    """The dotted names below a module, those of the modules that it declares included."""
    extra = _WITH_EXTRAS if module is jboost else ()
    for name in (*names_of(module), *extra):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            yield from public_names(value, f"{dotted}.{name}")
        else:
            yield f"{dotted}.{name}"


def entries_of(pages: Iterable[str]) -> list[str]:
    """The names that the texts of API pages have entries for."""
    return [name for page in pages for name in _ENTRY.findall(page)]


def differences(pages: Iterable[str]) -> tuple[set[str], set[str]]:
    """Public names without an entry, and entries of no public name."""
    entries, public = set(entries_of(pages)), set(public_names())
    return public - entries, entries - public
