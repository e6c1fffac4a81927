"""Flags take precedence over the configuration file where the two contradict each other."""

from __future__ import annotations

from collections.abc import Mapping


def gives_way(name: str, is_flag: Mapping[str, bool], to: tuple[str, ...]) -> bool:
    """Whether the value of an option is from the configuration file, and one of the options `to`,
    which contradict it, is a flag. The caller then replaces the value by the default.

    >>> gives_way("radius", {"measure": True}, to=("measure",))
    True
    >>> gives_way("radius", {"measure": True, "radius": True}, to=("measure",))
    False
    """
    return not is_flag.get(name) and any(is_flag.get(other) for other in to)


def named(name: str, value: object, is_flag: Mapping[str, bool]) -> str:
    """An option with its value, for messages: as a flag, or as a key of the configuration file.

    >>> named("max_order", "cv", {"max_order": True}), named("max_order", "cv", {})
    ('--max-order cv', 'max_order cv of the configuration file')
    """
    if is_flag.get(name):
        return f"--{name.replace('_', '-')} {value}"
    return f"{name} {value} of the configuration file"
