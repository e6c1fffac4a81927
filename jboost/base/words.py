"""Names of columns, categories and numbers inside the text of a rule."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_PLAIN = re.compile(r"[\w+-][\w.+/%#:-]*")
_RESERVED = {"and", "or", "not", "is", "missing", "always", "never"}
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_CONDITION = re.compile(r" (<=|<|>|==|!=) | is (not )?missing")


def quoted(name: str) -> str:
    """A name or a category in quotes, where blanks, a sign such as `<=` or a reserved word in it
    could be read as a part of the rule.

    >>> quoted("age"), quoted("blood pressure <= 3"), quoted("4"), quoted("'blood pressure'")
    ('age', "'blood pressure <= 3'", '4', "'blood pressure'")
    """
    is_quoted = len(name) > 1 and name[0] in "'\"" and name[-1] == name[0]
    return name if is_quoted or (_PLAIN.fullmatch(name) and name not in _RESERVED) else repr(name)


def is_condition(name: str) -> bool:
    """Whether the name of a bit is a condition: outside quotes it compares, or says what is
    missing.

    >>> (
    ...     is_condition("age <= 54.5"),
    ...     is_condition("'chest pain' is missing"),
    ...     is_condition("'a <= b'"),
    ...     is_condition("age"),
    ... )
    (True, True, False, False)
    """
    return bool(_CONDITION.search(_QUOTED.sub("", name)))


def as_condition(name: str) -> str:
    """The name of a bit as a condition: a text that compares stays as it is, another is quoted
    where it must be.

    >>> as_condition("age <= 54.5"), as_condition("chest pain")
    ('age <= 54.5', "'chest pain'")
    """
    return name if _CONDITION.search(name) else quoted(name)


def number(value: Any) -> str:
    """A float with as many digits as identify it within its type.

    >>> number(np.float32(0.1)), number(3.0), number(1e-7)
    ('0.1', '3', '1e-07')
    """
    scalar: Any = np.asarray(value)[()]
    is_usual = scalar == 0 or 1e-4 <= abs(scalar) < 1e9
    return (
        np.format_float_positional(scalar, trim="-")
        if is_usual
        else np.format_float_scientific(scalar, trim="-")
    )
