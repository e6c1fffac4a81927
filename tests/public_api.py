"""The public functions of jboost, for the tables that must have a row for each."""

import types
from collections.abc import Collection, Iterator

import jboost


def public_functions(exempt: Collection[str]) -> Iterator[str]:
    """The dotted names of all public functions but those of packages that are exempt as a whole;
    also those of modules in a package, such as `combine.pairwise.fit`.
    """
    for name in jboost.__all__:
        value = getattr(jboost, name)
        if name in exempt or isinstance(value, type):
            continue
        if not isinstance(value, types.ModuleType):
            yield name
            continue
        for inner in value.__all__:
            member = getattr(value, inner)
            if isinstance(member, types.ModuleType):
                yield from (f"{name}.{inner}.{each}" for each in _functions_of(member))
            elif _is_function(member):
                yield f"{name}.{inner}"


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type)


def _functions_of(module: types.ModuleType) -> list[str]:
    """The names in `__all__`, or else of what is defined there."""
    functions = {name: value for name, value in vars(module).items() if _is_function(value)}
    own = [name for name, value in functions.items() if value.__module__ == module.__name__]
    return [
        name
        for name in getattr(module, "__all__", own)
        if name in functions and not name.startswith("_")
    ]
