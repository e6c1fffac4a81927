"""The leave-one-out error of the exact pair, without solving n times (Boyarshinov and Magdon-Ismail
2005, Section 3, corrected).

Let X be all points, W* their optimal loss (W_opt in the paper), Q the set of points that a
separator misclassifies, and w_i the weight of point i. Consider an optimal separator of X without
i. Its loss on X is at most W* + w_i if it misclassifies i (Lemma 3.5), and W* if it does not. The
near-optimal sets Q of X therefore determine the result for point i:

* Some Q contains i and loses less than W* + w_i. Then every optimal separator of X without i
  misclassifies i (Lemma 3.6, kind 2).
* Otherwise the optimal loss without i is also W*. Two groups of sets attain it. The first are the
  optimal sets of X. They classify i correctly, but the removal of i can change their bisector if i
  supports it. The second are the sets that contain i and lose exactly W* + w_i. Their bisector does
  not change. If a set of the second group differs from one of the first in i alone, both are the
  same separator of X without i, which counts once.

The algorithm in the paper counts only the second group and does not account for the change of the
bisector. The docstring of `leave_one_out` gives the definitions that are computed here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check, derivatives, devices, loops, meshes, numerics
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.geometry.exact import Wide, wide_where
from jboost.pair import sweep
from jboost.pair.arguments import checksums_of, validate_examples, validate_initial
from jboost.pair.branch_and_bound import (
    BranchAndBoundConfig,
    BranchAndBoundInfo,
    BranchAndBoundState,
    list_splits,
)
from jboost.pair.leave_one_out import near_optimal, space
from jboost.pair.leave_one_out.near_optimal import Capacity, Occurrences
from jboost.pair.leave_one_out.near_optimal_lines import compare_gaps, holds_gaps
from jboost.pair.leave_one_out.steps import LeaveOneOutState, without_errors
from jboost.pair.leave_one_out.verdicts import Near, Verdict, add_verdicts, matters_to
from jboost.pair.separator import LARGEST_SWEEP, validate_branch_and_bound, validate_sweep
from jboost.pair.space.separator import validate_config as validate_space_config
from jboost.pair.sweep import SweepConfig
from jboost.pair.sweep.instance import Encoding, LineInstance, encode, pad_rows, weight_bits
from jboost.pair.types import LeaveOneOut

# The initial capacity, in splits. Ordinary data have a few dozen.
_FIRST_CAPACITY = 256
# The most splits of points in space, which are listed on the host.
_FIRST_SPACE_CAPACITY = 1 << 14
# The smallest capacity of the arrays for splits that branch and bound has listed.
_LEAST_CAPACITY = 32
# The most memory that a repetition with a larger capacity may allocate for splits.
_MOST_BYTES = 2**31


class _Tally(NamedTuple):
    """The separators of largest margin so far, for every point left out."""

    squared_gap: Wide  # [n]
    right: Array  # [n] int32
    wrong: Array  # [n] int32
    doubtful: Array  # [] bool


@meshes.takes_sharded
@derivatives.without("jboost.pair.leave_one_out")
def leave_one_out(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    model: Literal["max_margin", "occurrence"] = "max_margin",
    max_separators: int | None = None,
    method: Literal["auto", "sweep", "branch_and_bound"] = "auto",
    config: SweepConfig | BranchAndBoundConfig | None = None,
    on_step: OnStep | None = None,
    initial: LeaveOneOutState | None = None,
) -> LeaveOneOut:
    """The exact leave-one-out errors of `optimal_separator`, at about the cost of one search.

    Each point is classified by the optimal separators of the other points. Several separators may
    attain the least weight, and they may classify the point differently. `model` defines the error:

      * "max_margin": among the separators of least weight of the other points, those of largest
        margin are equally likely. The error of a point is its weight times the share of those that
        misclassify it. (If there is no other point, both
        constant classifiers are equally likely.)
      * "occurrence": the model of Boyarshinov and Magdon-Ismail (2005). An occurrence is a pair of
        another example of the point's class and a cyclic class of oriented lines through that
        example (an open class, or one through further points) whose separator set has the least
        weight. The constant classifier that misclassifies the point's whole class is one more
        occurrence if it has the least weight. Each occurrence classifies by the bisector of its two
        hulls. All are equally likely.

    A point on a bisector is misclassified. The function may be jitted and vmapped. Its guarantees
    for general floats are those of `optimal_separator`. Squared margins that differ by less than
    2^-90 of their size count as equal.

    Args:
      points: [n, 2], real. Or [n, 3] for three classifiers, for the model "max_margin", outside jit
        and vmap. The sweep of planes takes O(m n^2 log n) work, and each near-optimal separator a
        search for its margin in fractions, on the host; it suits some hundred points.
      labels: [n], +1 or -1.
      weights: [n], not negative; a weight of 0 has the effect of `mask` False. None for ones.
      mask: [n] bool, False for padding rows.
      model: which separators are equally likely.
      max_separators: the capacity for distinct separators that may be optimal without some point;
        static. With None it starts at 256. Outside of jit and vmap the computation is then repeated
        with four times the capacity until all separators fit.
      method: "sweep", "branch_and_bound" or "auto". "branch_and_bound" suits very many points; it
        requires the model "max_margin" and does not work inside jit or vmap. "auto" chooses it
        above 8,192 points where it is supported, else "sweep". The errors do not depend on the
        method.
      config: static sizes, a `SweepConfig` or a `BranchAndBoundConfig`. None chooses them for the
        device.
      on_step: for branch and bound, which it selects, and for three classifiers; called on the host
        with (state, info) between steps of the search for near-optimal separators, with a
        `LeaveOneOutState` and a `BranchAndBoundInfo`, or with (axes so far, all axes) for three
        classifiers. False ends the search with status TIME_LIMIT, without errors. The sweep of two
        classifiers makes no steps.
      initial: a state that `on_step` received for the same data, from which the search continues,
        to the bits of the uninterrupted one. A state of other data is refused.

    Returns:
      `LeaveOneOut`. If the capacity does not suffice, the status is CAPACITY_LIMIT, errors are NaN
      and kinds are 0. The status is PRECISION_LIMIT if the points are not on an integer grid and
      rounding leaves the side of a point or a tie of margins undecided. It is also PRECISION_LIMIT
      if coordinates, of one axis or of both, lie more than 2^200 apart (2^20 with 32-bit words).

    Raises:
      ValueError: if a shape, a dtype or an option is wrong (at trace time), or if labels or weights
        are concrete and invalid. The message names the argument. Invalid values that are traced
        give status INVALID_INPUT and NaN.

    >>> import jboost
    >>> points = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0], [5.0, 0.0]]
    >>> result = jboost.pair.leave_one_out(points, [-1, -1, 1, 1, -1])
    >>> round(float(result.error), 3), result.kinds.tolist()
    (0.6, [1, 1, 2, 2, 2])
    """
    check.choice("model", model, ("max_margin", "occurrence"))
    points, labels, weights, mask = validate_examples(points, labels, weights, mask)
    if max_separators is not None:
        check.count("max_separators", max_separators, low=2)
    check.choice("method", method, ("auto", "sweep", "branch_and_bound"))
    examples = points, labels, weights, mask
    is_traced, is_watched = check.are_traced(*examples), not (on_step is None and initial is None)
    if is_watched:
        check.can_be_watched(on_step, (examples, initial), between="steps")
    if initial is not None:
        validate_initial(initial, LeaveOneOutState, examples, what="leave-one-out computation")
    if points.shape[1] == 3:
        sweep_config = _validate_for_space(model, method, config, is_traced)
        most = _FIRST_SPACE_CAPACITY if max_separators is None else max_separators
        return space.leave_one_out(
            *examples, max_separators=most, config=sweep_config, on_step=on_step, initial=initial
        )
    if method == "auto":
        is_supported = model == "max_margin" and not is_traced
        method = _choose_method(points.shape[0], config, is_supported, is_watched)
    if method == "branch_and_bound":
        _validate_for_cells(model, is_traced)
        bounds_config = validate_branch_and_bound(config)
        return _by_branch_and_bound(examples, max_separators, bounds_config, on_step, initial)
    sweep_config = validate_sweep(config, on_step, initial, points.dtype)
    return _by_growing_sweep(examples, max_separators, model == "max_margin", sweep_config)


def _choose_method(
    num_points: int, config: object, is_supported: bool, is_watched: bool
) -> Literal["sweep", "branch_and_bound"]:
    """The method for the number of points, unless another argument implies one. `is_supported`
    tells whether branch and bound computes this model of these arrays.
    """
    is_large = num_points > LARGEST_SWEEP and is_supported and not isinstance(config, SweepConfig)
    by_cells = is_large or is_watched or isinstance(config, BranchAndBoundConfig)
    return "branch_and_bound" if by_cells else "sweep"


def _validate_for_cells(model: str, is_traced: bool) -> None:
    """Raises ValueError for arguments that branch and bound does not support."""
    if model != "max_margin" or is_traced:
        raise ValueError(
            "method is 'branch_and_bound', which takes concrete arrays and the model"
            " 'max_margin': pass 'sweep'"
        )


def _by_growing_sweep(
    examples: tuple[Array, Array, Array, Array],
    max_separators: int | None,
    by_margin: bool,
    config: SweepConfig,
) -> LeaveOneOut:
    """The result of the sweep. It is repeated with a larger capacity if the capacity is not given
    and the arrays are concrete.
    """
    size = max(examples[0].shape[0], 2)
    most = size * (size - 1) + 2  # the number of strict splits of n points by lines
    capacity = min(max_separators or _FIRST_CAPACITY, most)
    is_traced = check.are_traced(*examples)
    while True:
        result = _by_sweep(*examples, by_margin=by_margin, num_splits=capacity, config=config)
        may_repeat = (
            max_separators is None and capacity < most and 4 * capacity * size <= _MOST_BYTES
        )
        if not may_repeat or is_traced or int(result.status) != Status.CAPACITY_LIMIT:
            return result
        capacity = min(4 * capacity, most)


def _validate_for_space(
    model: str, method: str, config: SweepConfig | BranchAndBoundConfig | None, is_traced: bool
) -> SweepConfig:
    """The resolved config for points in space. Raises ValueError, naming the argument, for options
    that require points in the plane.
    """
    for name, value, wanted in (("model", model, "max_margin"), ("method", method, "sweep")):
        if value not in (wanted, "auto"):
            raise ValueError(f"{name} is {value!r}, and points has three columns: pass {wanted!r}")
    if is_traced:
        raise ValueError(
            "points has three columns, for which the host drives the search, and the arguments are"
            " traced: call it outside jit and vmap"
        )
    return validate_space_config(config)


def _by_branch_and_bound(
    examples: tuple[Array, Array, Array, Array],
    max_separators: int | None,
    config: BranchAndBoundConfig,
    on_step: OnStep | None,
    initial: LeaveOneOutState | None,
) -> LeaveOneOut:
    result_dtype, mask = jnp.result_type(float), examples[3]
    num_points, known = mask.shape[0], None if on_step is None else checksums_of(*examples)

    def watch(state: BranchAndBoundState, info: BranchAndBoundInfo) -> bool:
        assert known is not None
        return loops.goes_on(on_step, LeaveOneOutState(state, None, known), info)

    found = list_splits(
        *examples,
        most_bytes=_MOST_BYTES,
        config=config,
        on_step=None if on_step is None else watch,
        initial=None if initial is None else initial.search,
    )
    if found.is_stopped:
        return without_errors(mask, Status.TIME_LIMIT, result_dtype)
    count = len(found.losses)
    capacity = max(_LEAST_CAPACITY, 1 << (count - 1).bit_length())
    fits = found.fits and (max_separators is None or count <= max_separators)
    with jax.enable_x64(True):
        rows = (
            jnp.asarray(np.pad(found.on_own_side, ((0, capacity - count), (0, 0)))),
            jnp.asarray(np.pad(found.losses, (0, capacity - count))),
        )
        result = _validate_splits(
            *found.arrays, *rows, jnp.int32(count), jnp.asarray(fits), result_dtype=result_dtype
        )
    return result._replace(errors=result.errors[:num_points], kinds=result.kinds[:num_points])


@devices.public_jit(static_argnames=("result_dtype",))
def _validate_splits(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    on_own_side: Array,
    losses: Array,
    count: Array,
    fits: Array,
    *,
    result_dtype: jnp.dtype,
) -> LeaveOneOut:
    """Leave-one-out errors from all splits [s, n] whose loss is at most the optimum plus the
    largest weight of a point. The first `count` splits are real.
    """
    instance, encoding = encode(points, labels, weights, mask, jnp.dtype("float64"))
    is_real = lax.iota(jnp.int32, losses.shape[0]) < count
    optimum = jnp.min(jnp.where(is_real, losses, jnp.iinfo(losses.dtype).max))
    is_cheap = is_real[:, None] & (instance.weights[None] > (losses - optimum)[:, None])
    always_wrong = jnp.any(is_cheap & (on_own_side != instance.own[None]), axis=0)
    near = Near(
        near_optimal.list_rows(on_own_side, losses, count), optimum, instance.live & ~always_wrong
    )
    return _conclude(instance, encoding, mask, *_by_margin(instance, near), fits, result_dtype)


@devices.public_jit(static_argnames=("by_margin", "num_splits", "config"))
def _by_sweep(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    by_margin: bool,
    num_splits: int,
    config: SweepConfig,
) -> LeaveOneOut:
    result_dtype = jnp.result_type(float)
    num_points = points.shape[0]
    padded = pad_rows(max(num_points, 2), points, labels, weights, mask)

    def solve(points: Array, labels: Array, weights: Array, mask: Array) -> LeaveOneOut:
        real = jnp.dtype("float32" if config.word_bits == 32 else "float64")
        instance, encoding = encode(points, labels, weights, mask, real)
        near, own, other = _gather(instance, num_splits, by_margin, config)
        fits = near.splits.count <= num_splits
        if by_margin:
            return _conclude(
                instance, encoding, mask, *_by_margin(instance, near), fits, result_dtype
            )
        fits &= (own.count <= own.split.shape[0]) & (other.count <= other.split.shape[0])
        counts = _by_occurrence(instance, near, own, other)
        return _conclude(instance, encoding, mask, near.undecided, counts, fits, result_dtype)

    result = config.program(solve)(*padded)
    return result._replace(errors=result.errors[:num_points], kinds=result.kinds[:num_points])


class _Counts(NamedTuple):
    """The numbers of equally likely separators that classify each point correctly and wrongly."""

    right: Array  # [n] int32
    wrong: Array  # [n] int32
    doubtful: Array  # [] bool, whether rounding makes a number uncertain


def _conclude(
    instance: LineInstance,
    encoding: Encoding,
    mask: Array,
    undecided: Array,
    counts: _Counts,
    fits: Array,
    result_dtype: jnp.dtype,
) -> LeaveOneOut:
    """The errors and kinds. Points that are not `undecided` [n] are always misclassified. `fits`
    tells whether all splits are in the list.
    """
    real = encoding.weights.dtype
    share = counts.wrong.astype(real) / jnp.maximum(counts.right + counts.wrong, 1).astype(real)
    errors = jnp.where(undecided, share, 1) * encoding.weights
    kinds = jnp.where(
        undecided, jnp.where(counts.wrong == 0, 1, jnp.where(counts.right == 0, 2, 3)), 2
    )
    proven = encoding.faithful & holds_gaps(instance) & ~counts.doubtful & _is_fine(encoding)
    status = jnp.where(proven, int(Status.OPTIMAL), int(Status.PRECISION_LIMIT))
    status = jnp.where(fits, status, int(Status.CAPACITY_LIMIT))
    known = encoding.valid & fits
    errors = jnp.where(mask, jnp.where(known, errors, jnp.nan), 0)
    count = jnp.maximum(jnp.sum(mask, dtype=jnp.int32), 1).astype(real)
    error = jnp.where(known, numerics.masked_sum(errors, mask) / count, jnp.nan)
    return LeaveOneOut(
        error=error.astype(result_dtype),
        errors=errors.astype(result_dtype),
        kinds=jnp.where(known & mask, kinds, 0).astype(jnp.int32),
        status=jnp.where(encoding.valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )


def _is_fine(encoding: Encoding) -> Array:
    """Whether the resolution of the integer weights is still sufficient relative to the total of
    the other weights, if the heaviest point is left out, [] bool.
    """
    rest = jnp.sum(encoding.weights) - jnp.max(encoding.weights, initial=0.0)
    return encoding.rounding <= rest * (
        encoding.weights.shape[0] * 2.0 ** (4 - weight_bits(encoding.weights.dtype))
    )


def _gather(
    instance: LineInstance, num_splits: int, by_margin: bool, config: SweepConfig
) -> tuple[Near, Occurrences, Occurrences]:
    """All near-optimal splits, and for the occurrence model their occurrences around the centres of
    each class.
    """
    size = instance.x.shape[0]
    centres, num_centres = sweep.list_centres(instance)
    bounds = sweep.bound_centres(instance, centres, num_centres, config, exact_angles=not by_margin)
    start = near_optimal.start_search(
        instance, Capacity(num_splits, 0 if by_margin else min(8 * num_splits, 4 * size * size))
    )
    found = near_optimal.gather(instance, centres, bounds, start, exact_classes=not by_margin)
    found = near_optimal.add_constants(instance, found)
    own, other = found.occurrences, start.occurrences
    if not by_margin:
        swapped = near_optimal.swap_classes(instance)
        centres, num_centres = sweep.list_centres(swapped, capacity=size)
        bounds = sweep.bound_centres(swapped, centres, num_centres, config, exact_angles=True)
        found = near_optimal.gather(
            swapped,
            centres,
            bounds,
            found._replace(occurrences=other),
            exact_classes=True,
            whole=instance,
        )
        other = found.occurrences
    return Near(found.splits, found.optimum, instance.live & ~found.always_wrong), own, other


def _by_margin(instance: LineInstance, near: Near) -> tuple[Array, _Counts]:
    """Which points [n] some optimal separator of the others classifies correctly, and how many
    separators of largest margin classify each point correctly and wrongly.
    """

    def add(tally: _Tally, row: Array, verdict: Verdict) -> _Tally:
        del row
        sign, doubtful = compare_gaps(instance, verdict.squared_gap, tally.squared_gap)
        wider, level = verdict.counts & (sign > 0), verdict.counts & (sign == 0)
        right, wrong = (flag.astype(jnp.int32) for flag in (verdict.right, ~verdict.right))
        return _Tally(
            squared_gap=wide_where(wider, verdict.squared_gap, tally.squared_gap),
            right=jnp.where(wider, right, jnp.where(level, tally.right + right, tally.right)),
            wrong=jnp.where(wider, wrong, jnp.where(level, tally.wrong + wrong, tally.wrong)),
            doubtful=tally.doubtful | verdict.doubtful | jnp.any(verdict.counts & doubtful),
        )

    def floor(tally: _Tally, relevant: Array) -> Array:
        least = numerics.masked_min(tally.squared_gap.hi, relevant, fill=jnp.inf)
        return jnp.sqrt(jnp.maximum(least, 0)) * (1 - 2.0**-16)

    nothing = jnp.zeros(instance.x.shape, jnp.int32)
    tally = _Tally(
        Wide(jnp.full_like(instance.x, -1), jnp.zeros_like(instance.x)),
        nothing,
        nothing,
        jnp.zeros((), bool),
    )
    tally = add_verdicts(instance, near, tally, add, floor)
    is_alone = jnp.sum(instance.live, dtype=jnp.int32) == 1  # both constants are then optimal
    counts = _Counts(
        jnp.where(is_alone, 1, tally.right), jnp.where(is_alone, 1, tally.wrong), tally.doubtful
    )
    return jnp.where(is_alone, instance.live, near.undecided), counts


def _by_occurrence(
    instance: LineInstance, near: Near, own: Occurrences, other: Occurrences
) -> _Counts:
    """The numbers of occurrences of each point's class that classify it correctly and wrongly."""

    def add(counted: tuple[Array, Array], row: Array, verdict: Verdict) -> tuple[Array, Array]:
        return (
            lax.dynamic_update_index_in_dim(counted[0], verdict.right, row, 0),
            counted[1] | verdict.doubtful,
        )

    def floor(counted: tuple[Array, Array], relevant: Array) -> Array:
        del counted, relevant
        return jnp.full((), -1, instance.x.dtype)

    start = jnp.zeros_like(near.splits.on_own_side), jnp.zeros((), bool)
    counted, doubtful = add_verdicts(instance, near, start, add, floor)
    own_weight = numerics.masked_sum(instance.weights, instance.own)
    class_weight = jnp.where(
        instance.own, own_weight, numerics.masked_sum(instance.weights, instance.live) - own_weight
    )
    gives_up = instance.live & (class_weight - instance.weights == near.optimum)
    counts = jnp.zeros(instance.x.shape, jnp.int32), gives_up.astype(jnp.int32)
    counts = _count_occurrences(instance, near, instance.own, own, counted, counts)
    return _Counts(
        *_count_occurrences(instance, near, instance.live & ~instance.own, other, counted, counts),
        doubtful,
    )


def _count_occurrences(
    instance: LineInstance,
    near: Near,
    members: Array,
    occurrences: Occurrences,
    verdicts: Array,
    counts: tuple[Array, Array],
) -> tuple[Array, Array]:
    place = lax.iota(jnp.int32, instance.x.shape[0])

    def step(index: Array, counts: tuple[Array, Array]) -> tuple[Array, Array]:
        right, wrong = counts
        row, centre = occurrences.split[index], occurrences.centre[index]
        at_centre = (
            members & (instance.x == instance.x[centre]) & (instance.y == instance.y[centre])
        )
        num_centres = jnp.sum(at_centre, dtype=jnp.int32)
        is_optimal = near.splits.losses[row] == near.optimum
        merged = (place == occurrences.merged[index, 0]) | (place == occurrences.merged[index, 1])
        counted = members & matters_to(instance, near, row) & ~(is_optimal & merged)
        number = jnp.where(counted, num_centres - at_centre.astype(jnp.int32), 0)
        verdict = verdicts[row]
        return right + jnp.where(verdict, number, 0), wrong + jnp.where(verdict, 0, number)

    count = jnp.minimum(occurrences.count, occurrences.split.shape[0])
    return loops.fori_loop(jnp.zeros_like(count), count, step, counts)
