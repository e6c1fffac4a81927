"""The public functions of jboost, for the tables that must have a row for each."""

import types
from collections.abc import Collection, Iterator

import jboost


def public_functions(exempt: Collection[str]) -> Iterator[str]:
    """The dotted names of all public functions but those of packages that are exempt as a whole.

    Of a method in a module of its own, such as `combine.pairwise`, it is `fit`.
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
                yield from (f"{name}.{inner}.{each}" for each in ("fit",) if hasattr(member, each))
            elif callable(member) and not isinstance(member, type):
                yield f"{name}.{inner}"
