"""How a computation ended: one code for every result, with a message and a remedy on the host."""

from __future__ import annotations

import enum

import numpy as np

from jboost.base.check import ArrayLike


class Status(enum.IntEnum):
    """Codes stored as int32 in the last field of every result."""

    OPTIMAL = 0
    PRECISION_LIMIT = 1
    INVALID_INPUT = 2


_EXPLANATIONS = {
    Status.OPTIMAL: ("the result is optimal: its value is its certified bound, up to rounding", "nothing to do"),
    Status.PRECISION_LIMIT: (
        "what was returned could not be proven optimal in the float types at hand: `loss` is its true loss, and `lower_bound` is valid",
        "enable 64-bit types (jax.config.update('jax_enable_x64', True)) and pass float64 points, or rescale the points to a coarser grid",
    ),
    Status.INVALID_INPUT: (
        "a value in the input is not allowed: NaN or infinity in the points, a label outside {-1, +1}, or a weight that is not positive and finite",
        "call jboost.validate(jboost.make_dataset(...)) on the host: it names the argument and the first bad row",
    ),
}


def explain(code: ArrayLike) -> str:
    """The message and the remedy of a status code, on the host.

    Args:
      code: [] or [...], the `status` field of a result. Of a batch of codes the gravest is explained and the count is given.

    Returns:
      One line of text.

    Raises:
      ValueError: if the code is none of `Status`.

    >>> import jboost
    >>> jboost.status.explain(0)
    'OPTIMAL: the result is optimal: its value is its certified bound, up to rounding. Remedy: nothing to do.'
    """
    codes = np.asarray(code).reshape(-1)
    if codes.size == 0:
        raise ValueError("code is empty: hand in the `status` field of a result")
    worst = int(codes.max())
    if worst not in set(Status):
        raise ValueError(f"code is {worst}: the known codes are {[int(s) for s in Status]}")
    message, remedy = _EXPLANATIONS[Status(worst)]
    share = f" ({int((codes == worst).sum())} of {codes.size})" if codes.size > 1 else ""
    return f"{Status(worst).name}{share}: {message}. Remedy: {remedy}."
