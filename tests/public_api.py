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
                yield from (
                    f"{name}.{inner}.{each}"
                    for each, function in vars(member).items()
                    if _is_function(function) and function.__module__ == member.__name__
                    if not each.startswith("_")
                )
            elif _is_function(member):
                yield f"{name}.{inner}"


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type)
