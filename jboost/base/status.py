"""Status codes of results, each with a message and a remedy."""

from __future__ import annotations

import enum

import jax.numpy as jnp
import numpy as np

from jboost.base import check
from jboost.base.check import ArrayLike


class Status(enum.IntEnum):
    """Codes stored as int32 in the last field of every result."""

    OPTIMAL = 0
    PRECISION_LIMIT = 1
    INVALID_INPUT = 2
    ROUND_LIMIT = 3
    NO_EDGE = 4
    INFEASIBLE = 5
    UNFINISHED = 6
    ITERATION_LIMIT = 7
    TIME_LIMIT = 8
    PRIMAL_INFEASIBLE = 9
    DUAL_INFEASIBLE = 10
    NUMERICAL_ERROR = 11
    CAPACITY_LIMIT = 12
    LOCAL_OPTIMUM = 13
    ENOUGH = 14
    UNSOLVED_RELAXATION = 15


# The order in which `explain` picks one code of a batch.
_BY_SEVERITY = (
    Status.INVALID_INPUT,
    Status.NUMERICAL_ERROR,
    Status.INFEASIBLE,
    Status.PRIMAL_INFEASIBLE,
    Status.DUAL_INFEASIBLE,
    Status.UNFINISHED,
    Status.UNSOLVED_RELAXATION,
    Status.NO_EDGE,
    Status.PRECISION_LIMIT,
    Status.TIME_LIMIT,
    Status.CAPACITY_LIMIT,
    Status.ITERATION_LIMIT,
    Status.ROUND_LIMIT,
    Status.LOCAL_OPTIMUM,
    Status.ENOUGH,
    Status.OPTIMAL,
)

# Placeholder for the advice on float types, which depends on whether 64-bit types are enabled.
_MORE_BITS = "{more bits}"
_ENABLE = "enable 64-bit types (jax.config.update('jax_enable_x64', True)) and pass float64 arrays"
_ENABLED = "pass float64 arrays if these were of fewer bits (64-bit types are enabled)"

_EXPLANATIONS = {
    Status.OPTIMAL: (
        (
            "the result is optimal within rounding and the tolerance; the bounds returned are"
            " valid, and further apart only where rounding leaves less proven. With a learner"
            " that cannot bound its edges, or if only the hypotheses seen were asked for, it is"
            " optimal over those that were proposed; `upper_bound` holds over all, and may be"
            " infinite"
        ),
        "nothing to do",
    ),
    Status.PRECISION_LIMIT: (
        (
            "what was returned could not be proven optimal in the float types at hand: its loss or"
            " margin and its bounds are true, and rounding keeps them apart"
        ),
        (
            f"{_MORE_BITS}, widen the tolerance where there is one, rescale the data to a coarser"
            " grid, or bring weights nearer to each other where they lie many orders of magnitude"
            " apart"
        ),
    ),
    Status.INVALID_INPUT: (
        (
            "a value in the input is not allowed: NaN or infinity in the points, a label outside"
            " {-1, +1}, a weight that is negative or not finite, or weights that are all 0; in a"
            " linear program NaN, a lower bound above its upper one, or an infinity of the wrong"
            " sign"
        ),
        (
            "call jboost.validate(jboost.make_dataset(...)) on the host, or"
            " jboost.lp.validate(program): it names the argument and the first bad row; outputs of"
            " hypotheses and entries of margins lie in [-1, 1]"
        ),
    ),
    Status.ROUND_LIMIT: (
        (
            "all rounds or iterations were used: what was returned and its bounds are valid. Where"
            " a tolerance was asked for, the gap between the bounds is wider; AdaBoost, InfoBoost"
            " and SLIPPER ask for none and end so as a rule"
        ),
        (
            "where a tolerance was asked for, raise max_rounds (or the iterations of the config) or"
            " widen the tolerance; for AdaBoost, InfoBoost and SLIPPER there is nothing to do,"
            " unless held-out examples speak for more rounds"
        ),
    ),
    Status.NO_EDGE: (
        (
            "under the certified example weights no hypothesis is better than chance by more than"
            " the upper bound, and no vote with a margin was found"
        ),
        (
            "look for conflicting examples (equal features, opposite labels), use a soft margin, or"
            " a learner with richer hypotheses; where the upper bound is above 0, a smaller"
            " tolerance decides whether there is a margin"
        ),
    ),
    Status.INFEASIBLE: (
        (
            "no distribution over the examples meets the relaxation: a cap below 1 / m, or a norm"
            " ball that misses the simplex"
        ),
        (
            "raise the cap to 1 / m at least (nu to at most 1), or the radius of a norm ball to"
            " m ** (1 / order - 1), which is 1 for order 1; m counts unmasked examples"
        ),
    ),
    Status.UNFINISHED: (
        "rounds remain: bounds so far are valid",
        "call step again, or use fit or solve, which run to the end",
    ),
    Status.ITERATION_LIMIT: (
        (
            "the solver used all its iterations: the points returned and the bounds they prove are"
            " valid, and further apart than asked for"
        ),
        (
            "raise max_iterations in the config, widen the tolerance, or pass the solution as"
            " `initial`, with a FirstOrderConfig, and go on"
        ),
    ),
    Status.TIME_LIMIT: (
        (
            "the loop was stopped from outside before it was done: the points returned and the"
            " bounds they prove are valid"
        ),
        "allow more time, or go on from the state that was reached",
    ),
    Status.PRIMAL_INFEASIBLE: (
        (
            "no point meets all rows and bounds of the linear program: `dual` is a ray that shows"
            " it, in exact arithmetic where `lower_bound` is inf, else but for rounding"
        ),
        "relax the rows on which `dual` is not 0",
    ),
    Status.DUAL_INFEASIBLE: (
        (
            "the linear program is unbounded, or neither it nor its dual has a feasible point: from"
            " any feasible point there is, the objective falls without end along the ray `primal`"
        ),
        "bound the variables on which `primal` is not 0",
    ),
    Status.NUMERICAL_ERROR: (
        (
            "rounding stopped the solver before its tolerance was met: the bounds are valid, the"
            " points are the best it had"
        ),
        (
            f"{_MORE_BITS}, rescale rows and columns whose entries differ by many orders of"
            " magnitude, or widen the tolerance"
        ),
    ),
    Status.CAPACITY_LIMIT: (
        (
            "the capacity for nodes, columns or cuts is used up: what is returned and its bounds"
            " are valid, and further apart than asked for"
        ),
        (
            "raise `capacity` in the config, `max_columns` of a booster or `max_in_play` of"
            " l0.fit_exact (--capacity, --max-columns and --max-in-play of the command line), or"
            " widen the tolerance"
        ),
    ),
    Status.LOCAL_OPTIMUM: (
        (
            "the heuristic came to its end: what it returned, a loss or a bound, is as it says, and"
            " nothing proves that there is no better one"
        ),
        "compare the other strategies or larger sizes, and `lower_bound` where it is not 0",
    ),
    Status.UNSOLVED_RELAXATION: (
        (
            "the vote asked for is the solution of the relaxation, and there is none: no round was"
            " finished, or columns of the solution were overwritten. What was returned is the best"
            " vote met; its bounds are valid"
        ),
        (
            "allow one round at least, raise `max_columns`, or take another final vote: `search` of"
            " jboost.l0.fit (--vote and --max-columns of the command line)"
        ),
    ),
    Status.ENOUGH: (
        (
            "what was returned is worth more than `enough`, so that no proof was tried; the bound"
            " is valid"
        ),
        "leave out `enough` for the best of all, with a proof",
    ),
}


def explain(code: ArrayLike) -> str:
    """The message and the remedy of a status code, on the host.

    Args:
      code: [] or [...], the `status` field of a result. For a batch of codes, the most severe one
        is explained and counted.

    Returns:
      One line of text.

    Raises:
      ValueError: if the code is none of `Status`, such as a whole result.

    >>> import jboost
    >>> jboost.status.explain(0)
    'OPTIMAL: the result is optimal within rounding and the tolerance; ... Remedy: nothing to do.'
    """
    check.on_host(
        "jboost.status.explain", instead="return the status, and explain it afterwards", code=code
    )
    if hasattr(code, "status"):
        raise ValueError(f"code is a {type(code).__name__}: pass its field `status`")
    codes = np.asarray(code).reshape(-1)
    if codes.size == 0:
        raise ValueError("code is empty: pass the `status` field of a result")
    unknown = sorted(set(codes.tolist()) - set(Status))
    if unknown:
        raise ValueError(f"code is {unknown[0]}: the known codes are {[int(s) for s in Status]}")
    worst = next(status for status in _BY_SEVERITY if status in codes)
    message, remedy = _EXPLANATIONS[worst]
    share = f" ({int((codes == worst).sum())} of {codes.size})" if codes.size > 1 else ""
    remedy = remedy.replace(
        _MORE_BITS, _ENABLED if jnp.result_type(float) == jnp.dtype("float64") else _ENABLE
    )
    return f"{worst.name}{share}: {message}. Remedy: {remedy}."
