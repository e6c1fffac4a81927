"""The exact minimum-weight combination of two classifiers, from arrays to a `Separator`.

In the notation of Boyarshinov and Magdon-Ismail (2005), points [n, 2] are the scores (g_1, g_2) of
the two classifiers, `weights` is W, `misclassified` is Q, and `normal`, `anchor`, `bias` are the
line l. The steps are: arrays -> `instance` (scaled points, integer weights) -> bounds around all
centres (`sweep`) -> exact evaluation (`visits`) -> a line in the float type of the result, whose
loss is evaluated again (`line`).
"""

from __future__ import annotations

import functools
from typing import Literal, TypeVar

import jax
import jax.numpy as jnp

from jboost.base import check, derivatives, labelled, meshes, numerics
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.pair import branch_and_bound, space, sweep
from jboost.pair.branch_and_bound import BranchAndBoundConfig, BranchAndBoundState
from jboost.pair.sweep import SweepConfig, visits
from jboost.pair.sweep.encoding import certify, encode, pad_rows
from jboost.pair.sweep.line import draw_line
from jboost.pair.types import Fat, Separator

# The most points for which "auto" chooses the sweep. Above it branch and bound is several times
# faster, although it takes longer to compile.
LARGEST_SWEEP = 8192
_LARGEST_SPACE_SWEEP = 64  # the same for points in space
_Config = TypeVar("_Config")


@meshes.takes_sharded
@derivatives.without("jboost.pair.optimal_separator")
def optimal_separator(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    tie_break: Literal["margin"] | None = "margin",
    fat: Fat = "removed",
    method: Literal["auto", "sweep", "branch_and_bound"] = "auto",
    config: SweepConfig | BranchAndBoundConfig | None = None,
    on_step: OnStep | None = None,
    initial: BranchAndBoundState | None = None,
) -> Separator:
    """The line that misclassifies the least weight, over all lines and both constant classifiers;
    exactly.

    All central points of the smaller class are swept at once (Boyarshinov and Magdon-Ismail 2005,
    Theorem 2.3); of all optimal separator sets the one of largest margin is taken, and its bisector
    returned (Theorem 2.13). O(m n log n) work for m points in the smaller class. It may be jitted,
    vmapped over data sets, and called on float32 or float64 points.

    What is promised when:
      * The search is exact for every finite input: points that repeat, collinear points, both
        labels at one place, integer grids, general floats. No tolerance decides a tie. Comparisons
        that quick keys leave open are redone with exact predicates; 64-bit types need not be
        enabled. Points are taken as they are after the cast to a float type (without 64-bit types
        float64 input is rounded to float32 first).
      * Weights are compared as multiples of 2^-60 of their total: exact for integers below 2^53 in
        total, and for float32 weights within a factor of 2^36 / n of each other. Losses that differ
        by less count as equal.
      * `loss` is the loss of the returned arrays, in float64 arithmetic; `lower_bound` is the
        optimum, rounded down. They are equal, up to that rounding, and the status is OPTIMAL,
        unless no line that the search could write in the result's float type stays within the
        optimal set, or weights lie so far apart that this rounding is more than 2^-20 of the loss
        (2^-9 with 32-bit words): PRECISION_LIMIT. Nor can optimality be claimed, and the bound is
        then 0, where points do not survive the cast (integers beyond the float, subnormal floats)
        or span so many binades that products of differences would underflow (2^400; 2^40 with
        32-bit words).
      * `margin` is that of the returned line, whose direction is the best one to the accuracy of a
        quotient of two floats (float32: 2^-46 as a rule, 2^-25 close to slopes of small integers).
        It falls short only where it is that small a part of the extent of the points.
      * With three classifiers the search is exact where each coordinate, scaled by its own power of
        two, is an integer of at most 25 bits. For other finite floats `lower_bound` is valid all
        the same, and the status is PRECISION_LIMIT unless the loss meets it: as a rule it does,
        short of points that are coplanar or collinear but for rounding. Planes through gaps much
        thinner than those of 11-bit grids need results in float64.
      * With `SweepConfig(word_bits=32)` weights are compared as multiples of 2^-29 of their total,
        points have at most 32 bits, and directions of lines have 24: grids of 20 bits get the same
        answers, other points may end in PRECISION_LIMIT more often. The program has no 64-bit
        types, and a point whose score the rounding of float64 may turn counts as misclassified.

    Args:
      points: [n, 2], real; the scores of the two classifiers on n examples. Or [n, 3] for three
        classifiers (Theorem 4.1): by the sweep O(m n^2 log n) work, for a few hundred points; by
        branch and bound over cells of planes far less, for up to a hundred thousand.
      labels: [n], +1 or -1.
      weights: [n], not negative, 0 as `mask` False; what it costs to misclassify each point, in any
        unit. None for ones.
      mask: [n] bool, False for rows that only pad.
      tie_break: "margin" for the largest margin among all optimal separator sets; None for some
        optimal set, which is faster where there are many.
      fat: whether the margin is that of the points without the misclassified ones ("removed") or
        with their labels flipped ("flipped"). For a set of least weight both are the same line, by
        Lemma 2.2.
      method: "sweep"; "branch_and_bound", which the host drives: about n log n work on data of
        which a line makes sense, up to n^2 where labels say nothing, for millions of points, always
        with 64-bit words; "auto" for the sweep up to 8,192 points (64 in space) and under jit and
        vmap, else branch and bound. Both give the same loss, bound, margin and status; of several
        separators with the same loss and margin they may choose different ones.
      config: static sizes, a `SweepConfig` or a `BranchAndBoundConfig`; chosen for the device where
        None.
      on_step: for branch and bound; called with (state, info) between steps, on the host, a
        `BranchAndBoundState` and a `BranchAndBoundInfo`; False ends the search with status
        TIME_LIMIT, the best separator so far and a valid bound.
      initial: for branch and bound; a state that `on_step` was given for the same data, to go on
        from; with the same `tie_break`, or with None.

    Returns:
      A `Separator`; `margin` is in the units of `points`, `loss` and `lower_bound` in those of
      `weights`. If the best is a constant classifier, normal is 0, bias +1 or -1, and the margin
      infinite; a constant that ties wins by its margin.

    Raises:
      ValueError: at trace time, naming the argument, where a shape, a kind or an option is wrong;
        where labels and weights are known, for values that are not allowed. Where they are traced
        (other labels, negative weights), and for NaN among points, the status is INVALID_INPUT and
        the loss NaN; `jboost.validate` names the value on the host.

    >>> import jboost
    >>> points = [[0.0, 0.0], [2.0, 0.0], [1.0, 3.0], [4.0, 1.0]]
    >>> separator = jboost.pair.optimal_separator(points, [-1, 1, -1, 1])
    >>> float(separator.loss), float(separator.lower_bound), round(float(separator.margin), 4)
    (0.0, 0.0, 0.9487)
    >>> jboost.status.explain(separator.status)[:7]
    'OPTIMAL'
    """
    check.choice("tie_break", tie_break, ("margin", None))
    check.choice("fat", fat, ("removed", "flipped"))
    check.choice("method", method, ("auto", "sweep", "branch_and_bound"))
    points = check.numeric("points", points, shape=("n", "2] or [n, 3"), kinds="fiu")
    if points.shape[1] not in (2, 3):
        raise ValueError(f"points has shape {list(points.shape)}: expected shape [n, 2] or [n, 3]")
    labels, weights, mask = labelled.validate_examples(labels, weights, mask, points.shape[0])
    check.watcher("on_step", on_step)
    all_optima = tie_break == "margin"
    is_traced = any(isinstance(array, jax.core.Tracer) for array in (points, labels, weights, mask))
    _validate_traced(method, config, on_step, initial, is_traced)
    if points.shape[1] == 3:
        plane_config = space.validate_options(config, on_step, initial)
        by_cells = method == "branch_and_bound" or (
            method == "auto" and not is_traced and points.shape[0] > _LARGEST_SPACE_SWEEP
        )
        search = space.optimal_plane_by_cells if by_cells else space.optimal_plane
        return search(
            points, labels, weights, mask, all_optima=all_optima, fat=fat, config=plane_config
        )
    if method == "auto":
        method = _choose_method(points.shape[0], is_traced, config, on_step, initial)
    if method == "branch_and_bound":
        bounds_config = (
            validate_config(config, BranchAndBoundConfig, method) or BranchAndBoundConfig()
        )
        return branch_and_bound.solve(
            points,
            labels,
            weights,
            mask,
            config=bounds_config,
            on_step=on_step,
            initial=initial,
            all_optima=all_optima,
            fat=fat,
        )
    for name, value in (("on_step", on_step), ("initial", initial)):
        if value is not None:
            raise ValueError(
                f"{name} is given, and the method is 'sweep', which makes no steps: leave it out,"
                " or pass method='branch_and_bound'"
            )
    sweep_config = (validate_config(config, SweepConfig, method) or SweepConfig()).resolved()
    if sweep_config.word_bits == 32 and points.dtype.itemsize > 4:
        raise ValueError(
            f"points has dtype {points.dtype}: config.word_bits = 32 takes points of at most 32"
            " bits"
        )
    return _optimal_separator(
        points, labels, weights, mask, all_optima=all_optima, fat=fat, config=sweep_config
    )


def _validate_traced(
    method: str,
    config: object,
    on_step: OnStep | None,
    initial: BranchAndBoundState | None,
    is_traced: bool,
) -> None:
    """Raises ValueError, naming the argument, where one asks for what the host drives and arrays
    are traced.
    """
    asked = [
        f"{name} is given"
        for name, value in (("on_step", on_step), ("initial", initial))
        if value is not None
    ]
    if method == "branch_and_bound":
        asked.append("method is 'branch_and_bound'")
    if isinstance(config, BranchAndBoundConfig):
        asked.append("config is a BranchAndBoundConfig")
    if asked and is_traced:
        raise ValueError(
            f"{asked[-1]}, which the host drives, and the arguments are traced: pass 'sweep' under"
            " jit and vmap"
        )


def _choose_method(
    num_points: int,
    is_traced: bool,
    config: SweepConfig | BranchAndBoundConfig | None,
    on_step: OnStep | None,
    initial: BranchAndBoundState | None,
) -> Literal["sweep", "branch_and_bound"]:
    """The method for the number of points, unless another argument implies a method."""
    if on_step is not None or initial is not None or isinstance(config, BranchAndBoundConfig):
        return "branch_and_bound"
    if is_traced or isinstance(config, SweepConfig) or num_points <= LARGEST_SWEEP:
        return "sweep"
    return "branch_and_bound"


def validate_config(config: object, wanted: type[_Config], method: str) -> _Config | None:
    """The config, or None. Raises ValueError if it belongs to another method."""
    if config is not None and not isinstance(config, wanted):
        raise ValueError(
            f"config is a {type(config).__name__}: expected a jboost.pair.{wanted.__name__} for"
            f" method {method!r}"
        )
    return config


@functools.partial(jax.jit, static_argnames=("all_optima", "fat", "config"))
def _optimal_separator(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    all_optima: bool,
    fat: Fat,
    config: SweepConfig,
) -> Separator:
    result_dtype = jnp.result_type(float)
    num_points = points.shape[0]
    padded = pad_rows(max(num_points, 2), points, labels, weights, mask)

    def solve(points: Array, labels: Array, weights: Array, mask: Array) -> Separator:
        instance, encoding = encode(
            points,
            labels,
            weights,
            mask,
            jnp.dtype("float32" if config.word_bits == 32 else "float64"),
        )
        centres, num_centres = sweep.list_centres(instance)
        bounds = sweep.bound_centres(instance, centres, num_centres, config)
        best = visits.visit_centres(instance, centres, bounds, all_optima=all_optima, fat=fat)
        line = draw_line(
            instance,
            best,
            encoding.own_is_positive,
            fat,
            encoding.unit,
            result_dtype,
        )
        status = jnp.full((), int(Status.OPTIMAL), jnp.int32)
        return certify(
            encoding,
            line,
            loss=best.loss,
            bound=best.loss,
            status=status,
            result_dtype=result_dtype,
        )

    separator = (numerics.in_64_bits(solve) if config.word_bits == 64 else solve)(*padded)
    return separator._replace(misclassified=separator.misclassified[:num_points])
