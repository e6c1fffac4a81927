"""The exact minimum-weight combination of two classifiers, from arrays to a `Separator`.

In the notation of Boyarshinov and Magdon-Ismail (2005), points [n, 2] are the scores (g_1, g_2) of
the two classifiers, `weights` is W, `misclassified` is Q, and `normal`, `anchor`, `bias` are the
line l. The steps are: arrays -> `instance` (scaled points, integer weights) -> bounds around all
centres (`sweep`) -> exact evaluation (`visits`) -> a line in the float type of the result, whose
loss is evaluated again (`line`).
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeVar

import jax.numpy as jnp

from jboost.base import check, derivatives, devices, meshes
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.pair import branch_and_bound, space, sweep
from jboost.pair.arguments import validate_examples, validate_initial
from jboost.pair.branch_and_bound import BranchAndBoundConfig, BranchAndBoundState
from jboost.pair.space import PlaneSearchState
from jboost.pair.sweep import SweepConfig, visits
from jboost.pair.sweep.instance import encode, pad_rows
from jboost.pair.sweep.line import certify, draw_line
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
    initial: BranchAndBoundState | PlaneSearchState | None = None,
) -> Separator:
    """The line that misclassifies the least weight, exactly, over all lines and both constant
    classifiers.

    All points of the smaller class serve as centres, and all lines through each centre are swept
    (Boyarshinov and Magdon-Ismail 2005, Theorem 2.3). Of all optimal separator sets the one of
    largest margin is taken, and its bisector is returned (Theorem 2.13). The work is O(m n log n)
    for m points in the smaller class. The function may be jitted, vmapped over data sets, and
    called with float32 or float64 points.

    Guarantees:
      * The search is exact for every finite input: repeated points, collinear points, both labels
        at one position, integer grids, general floats. No tolerance decides a tie. Comparisons that
        fast keys do not decide are repeated with exact predicates. 64-bit types need not be
        enabled. Points are used as they are after the cast to a float type (without 64-bit types,
        float64 input is rounded to float32 first).
      * Weights are rounded to multiples of 2^-60 of their total. This is exact for integers below
        2^53 in total, and for float32 weights within a factor of 2^36 / n of each other. Losses
        that differ by less count as equal.
      * `loss` is the loss of the returned arrays in float64 arithmetic. `lower_bound` is the
        optimum, rounded down. They are equal up to that rounding, and the status is OPTIMAL, with
        two exceptions, in which the status is PRECISION_LIMIT: the search found no line in the
        result's float type that attains the optimal set; or the weights differ so much that the
        rounding exceeds 2^-20 of the loss (2^-9 with 32-bit words). Optimality is not proven, and
        the bound is 0, if the cast changes points (integers beyond the float's precision, subnormal
        floats), or if products of their differences could underflow (coordinates that differ by a
        factor of 2^400, or 2^40 with 32-bit words).
      * `margin` is that of the returned line. Its direction is the best one up to the accuracy of a
        quotient of two floats (in float32 usually 2^-46, and 2^-25 close to slopes of small
        integers). The margin is smaller than the best one only if it is itself such a small part of
        the extent of the points. Margins of two optimal sets count as equal if they differ by less
        than 2^-48 (in the sweep with 32-bit words 2^-19) of their size.
      * With three classifiers the search is exact if each coordinate, scaled by its own power of
        two, is an integer of at most 25 bits. For other finite floats `lower_bound` is valid, and
        the status is PRECISION_LIMIT unless the loss equals the bound. Usually it does, except for
        points that are coplanar or collinear up to rounding. Planes through gaps much thinner than
        those of 11-bit grids need results in float64.
      * With `SweepConfig(word_bits=32)` weights are multiples of 2^-29 of their total, points have
        at most 32 bits, and directions of lines have 24 bits. Grids of 20 bits give the same
        results. Other points may give PRECISION_LIMIT more often. The program has no 64-bit types.
        A point counts as misclassified if the rounding of float64 may change the sign of its score.

    Args:
      points: [n, 2], real; the scores of the two classifiers on n examples. Or [n, 3] for three
        classifiers (Theorem 4.1). For them the sweep takes O(m n^2 log n) work and suits a few
        hundred points. Branch and bound over cells of planes takes much less and suits up to a
        hundred thousand points.
      labels: [n], +1 or -1.
      weights: [n], not negative, the cost of misclassifying each point, in any unit. A weight of 0
        has the effect of `mask` False. None for ones.
      mask: [n] bool, False for padding rows.
      tie_break: "margin" for the largest margin among all optimal separator sets; None for any
        optimal set, which is faster if there are many.
      fat: whether the margin is that of the points without the misclassified ones ("removed") or
        with their labels flipped ("flipped"). For a set of least weight both give the same line, by
        Lemma 2.2.
      method: "sweep", "branch_and_bound" or "auto". The host runs the loop of "branch_and_bound",
        which suits millions of points and always uses 64-bit words. It takes about n log n work if
        a line separates the data well, and up to n^2 if labels are random. "auto" chooses the sweep
        for up to 8,192 points (64 in space) and inside jit and vmap, else branch and bound. Both
        give the same loss, bound, margin and status. They may choose different separators of the
        same loss and margin. If points are sharded over several devices, each step of branch and
        bound divides a chunk of the search on each of them; the result is that of one device.
        With `tie_break=None` this holds for loss and bound, and the separator may be another one.
      config: static sizes, a `SweepConfig` or a `BranchAndBoundConfig`; None chooses them for the
        device.
      on_step: for branch and bound; called on the host between steps with (state, info), a
        `BranchAndBoundState` (a `PlaneSearchState` for three classifiers) and a
        `BranchAndBoundInfo`. If it returns False, the search ends with status TIME_LIMIT, the best
        separator so far and a valid bound. With three classifiers a sweep of the planes that remain
        follows the search, in one program.
      initial: for branch and bound; a state that `on_step` received for the same data, from which
        the search continues, on any number of devices. With two classifiers it must come from a
        search with the same `tie_break`, unless `tie_break` is None.

    Returns:
      A `Separator`; `margin` is in the units of `points`, `loss` and `lower_bound` in those of
      `weights`. For a constant classifier, normal is 0, bias is +1 or -1 and the margin is
      infinite. A constant classifier wins a tie, because its margin is larger.

    Raises:
      ValueError: at trace time, naming the argument, if a shape, a kind or an option is wrong; and,
        if labels and weights are known, for values that are not allowed. If they are traced (other
        labels, negative weights), and for NaN among points, the status is INVALID_INPUT and the
        loss is NaN. `jboost.validate` names the invalid value on the host.

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
    examples = validate_examples(points, labels, weights, mask)
    check.watcher("on_step", on_step)
    options: dict[str, Any] = {"all_optima": tie_break == "margin", "fat": fat}
    is_traced = check.are_traced(*examples)
    _validate_traced(method, config, on_step, initial, is_traced)
    num_points, num_classifiers = examples[0].shape
    if num_classifiers == 3:
        plane_config = space.validate_config(config)
        return _optimal_plane(examples, method, plane_config, on_step, initial, **options)
    if method == "auto":
        method = _choose_method(num_points, is_traced, config, on_step, initial)
    if method == "branch_and_bound":
        bounds_config = validate_branch_and_bound(config)
        return branch_and_bound.solve(
            *examples, config=bounds_config, on_step=on_step, initial=initial, **options
        )
    sweep_config = validate_sweep(config, on_step, initial, examples[0].dtype)
    return _optimal_separator(*examples, config=sweep_config, **options)


def _optimal_plane(
    examples: tuple[Array, Array, Array, Array],
    method: str,
    config: SweepConfig,
    on_step: OnStep | None,
    initial: Any,
    *,
    all_optima: bool,
    fat: Fat,
) -> Separator:
    """The result for points in space."""
    if method == "sweep":
        refuse_steps(on_step, initial)
    if initial is not None:
        validate_initial(initial, PlaneSearchState, examples, what="search")
    options: dict[str, Any] = {"all_optima": all_optima, "fat": fat, "config": config}
    is_large = not check.are_traced(*examples) and examples[0].shape[0] > _LARGEST_SPACE_SWEEP
    is_watched = on_step is not None or initial is not None
    if method == "branch_and_bound" or (method == "auto" and (is_large or is_watched)):
        return space.optimal_plane_by_cells(*examples, on_step=on_step, initial=initial, **options)
    return space.optimal_plane(*examples, **options)


def _validate_traced(
    method: str,
    config: object,
    on_step: OnStep | None,
    initial: BranchAndBoundState | PlaneSearchState | None,
    is_traced: bool,
) -> None:
    """Raises ValueError, naming the argument, if arrays are traced and an argument requires branch
    and bound, whose loop runs on the host.
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
    initial: BranchAndBoundState | PlaneSearchState | None,
) -> Literal["sweep", "branch_and_bound"]:
    """The method for the number of points, unless another argument implies a method."""
    if on_step is not None or initial is not None or isinstance(config, BranchAndBoundConfig):
        return "branch_and_bound"
    if is_traced or isinstance(config, SweepConfig) or num_points <= LARGEST_SWEEP:
        return "sweep"
    return "branch_and_bound"


def validate_sweep(
    config: object,
    on_step: OnStep | None,
    initial: object,
    dtype: jnp.dtype,
) -> SweepConfig:
    """The sizes of the sweep. Raises ValueError, naming the argument, for one of branch and bound,
    and for points of a `dtype` that has more bits than the words.
    """
    refuse_steps(on_step, initial)
    resolved = (validate_config(config, SweepConfig, "sweep") or SweepConfig()).resolved()
    if resolved.word_bits == 32 and dtype.itemsize > 4:
        raise ValueError(
            f"points has dtype {dtype}: config.word_bits = 32 takes points of at most 32 bits"
        )
    return resolved


def refuse_steps(on_step: OnStep | None, initial: object) -> None:
    """Raises ValueError, naming the argument, for one that watches or resumes the sweep."""
    for name, value in (("on_step", on_step), ("initial", initial)):
        if value is not None:
            raise ValueError(
                f"{name} is given, and the method is 'sweep', which makes no steps: leave it out,"
                " or pass method='branch_and_bound'"
            )


def validate_branch_and_bound(config: object) -> BranchAndBoundConfig:
    """The sizes of branch and bound. Raises ValueError for those of the sweep."""
    given = validate_config(config, BranchAndBoundConfig, "branch_and_bound")
    return given or BranchAndBoundConfig()


def validate_config(config: object, wanted: type[_Config], method: str) -> _Config | None:
    """The config, or None. Raises ValueError if it belongs to another method."""
    if config is not None and not isinstance(config, wanted):
        raise ValueError(
            f"config is a {type(config).__name__}: expected a jboost.pair.{wanted.__name__} for"
            f" method {method!r}"
        )
    return config


@devices.public_jit(static_argnames=("all_optima", "fat", "config"))
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
    solve = functools.partial(
        _solve, all_optima=all_optima, fat=fat, config=config, result_dtype=result_dtype
    )
    separator = config.program(solve)(*padded)
    return separator._replace(misclassified=separator.misclassified[:num_points])


def _solve(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    all_optima: bool,
    fat: Fat,
    config: SweepConfig,
    result_dtype: jnp.dtype,
) -> Separator:
    """The steps of the module docstring, for one data set, with types as wide as the words."""
    word = jnp.dtype("float32" if config.word_bits == 32 else "float64")
    instance, encoding = encode(points, labels, weights, mask, word)
    centres, num_centres = sweep.list_centres(instance)
    bounds = sweep.bound_centres(instance, centres, num_centres, config)
    best = visits.visit_centres(
        instance, centres, bounds, all_optima=all_optima, fat=fat, config=config
    )
    line = draw_line(instance, best, encoding.own_is_positive, fat, encoding.unit, result_dtype)
    return certify(
        encoding,
        line,
        loss=best.loss,
        bound=best.loss,
        status=jnp.full((), int(Status.OPTIMAL), jnp.int32),
        result_dtype=result_dtype,
    )
