"""Where a compiled program may keep more digits than its types have.

XLA leaves out a conversion to fewer bits and back with nothing but a change of shape between them
("excess precision"), on accelerators as a rule. What is returned in 32 bits and certified in 64
would then be certified in digits that no caller sees; `reduce_precision` is never left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp

_KEEP_VALUES = {
    "broadcast_in_dim",
    "concatenate",
    "copy",
    "dynamic_slice",
    "expand_dims",
    "gather",
    "reshape",
    "rev",
    "slice",
    "squeeze",
    "transpose",
}
# by reduce_precision; by a conversion alone; a loose number in more bits
ROUNDED, LOOSE, WIDENED = "rounded", "loose", "widened"


@dataclasses.dataclass
class _Facts:
    """What is known of the variables of one level of a program."""

    known: dict[Any, str] = dataclasses.field(default_factory=dict)

    def of(self, var: Any) -> str | None:
        return None if isinstance(var, jax.extend.core.Literal) else self.known.get(var)

    def note(self, variables: Any, facts: Any) -> None:
        self.known.update((var, fact) for var, fact in zip(variables, facts, strict=True) if fact)


def places_of_lost_rounding(function: Any, *arguments: Any) -> list[str]:
    """The lines of jboost in which a number is widened and used that XLA may not have rounded
    before, of a function of arrays.
    """
    return sorted(set(_visit(jax.make_jaxpr(function)(*arguments).jaxpr, [])[0]))


def _visit(jaxpr: Any, facts: list[str | None]) -> tuple[list[str], list[str | None]]:
    """The places within, and the facts of the results, given those of the arguments."""
    here, places = _Facts(), []
    here.note(jaxpr.invars, facts or [None] * len(jaxpr.invars))
    for eqn in jaxpr.eqns:
        before = [here.of(var) for var in eqn.invars]
        name = eqn.primitive.name
        if name == "reduce_precision":
            here.note(eqn.outvars, [ROUNDED])
        elif name == "convert_element_type":
            here.note(
                eqn.outvars,
                [_converted(before[0], eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype)],
            )
        elif name in _KEEP_VALUES:
            here.note(
                eqn.outvars,
                [max(set(before) - {None}, key=[ROUNDED, LOOSE, WIDENED].index, default=None)],
            )
        elif inner := list(_inner(eqn, before)):
            for part, given, results in inner:
                lost, after = _visit(part, given)
                places += lost
                if results is not None:
                    here.note(results, after)
        elif WIDENED in before:
            places.append(_line(eqn))
    return places, [here.of(var) for var in jaxpr.outvars]


def _converted(before: str | None, old: Any, new: Any) -> str | None:
    if not (jnp.issubdtype(old, jnp.floating) and jnp.issubdtype(new, jnp.floating)):
        return None
    if new.itemsize < old.itemsize:
        return None if before == ROUNDED else LOOSE
    return WIDENED if before == LOOSE and new.itemsize > old.itemsize else before


def _inner(eqn: Any, before: list[str | None]) -> Iterator[tuple[Any, list[str | None], Any]]:
    """The programs inside, with the facts of their arguments, and the variables that take their
    results.
    """
    parameters, name = eqn.params, eqn.primitive.name
    if name == "scan":
        yield parameters["jaxpr"].jaxpr, before, eqn.outvars
    elif name == "while":
        of_test, of_body = parameters["cond_nconsts"], parameters["body_nconsts"]
        yield parameters["cond_jaxpr"].jaxpr, before[:of_test] + before[of_test + of_body :], None
        yield parameters["body_jaxpr"].jaxpr, before[of_test:], eqn.outvars
    elif name == "cond":
        for branch in parameters["branches"]:
            yield branch.jaxpr, before[1:], eqn.outvars
    else:
        for value in parameters.values():
            if isinstance(value, jax.extend.core.ClosedJaxpr | jax.extend.core.Jaxpr):
                part = getattr(value, "jaxpr", value)
                if len(part.invars) == len(before) and len(part.outvars) == len(eqn.outvars):
                    yield part, before, eqn.outvars


def _line(eqn: Any) -> str:
    frames = [frame for frame in eqn.source_info.traceback.frames if "/jboost/" in frame.file_name]
    return " < ".join(
        f"{frame.file_name.rpartition('/jboost/')[2]}:{frame.line_num}" for frame in frames[:4]
    )
