"""The linear programs (4) and (5) of Naish-Guzman, Holden and Paquet for a given matrix of
disagreements, and `fit`, which computes that matrix from points.
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import (
    batching,
    check,
    derivatives,
    devices,
    example_values,
    labelled,
    meshes,
    reduce,
)
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.example_weights import certify, game, iterations, working_set
from jboost.example_weights.types import ExampleWeightModel, sum_in_64_bits
from jboost.kernels import Kernel, hyperplanes, least_radius
from jboost.kernels.types import as_points

# A gap counts as closed below so many units of rounding of the largest disagreement, or below this
# share of the tolerance times the largest disagreement.
_FLOOR = 64
_SHARE_OF_TOLERANCE = 1e-5
# If the lower bound is not positive, an upper bound up to this multiple of the largest disagreement
# counts as 0. Keys are the bytes of a float.
_NOTHING = {4: 0.0, 8: 1e-8}


@dataclasses.dataclass(frozen=True)
class Config:
    """Static sizes of the solver."""

    max_iterations: int = 100
    sparse: bool = True  # whether weights outside the support become exact zeros

    def __post_init__(self) -> None:
        check.count("config.max_iterations", self.max_iterations, low=1)


class ExampleWeightsSolution(NamedTuple):
    """Weights of examples and of margins, and the bounds that they prove."""

    example_weights: Array  # [n] d
    row_weights: Array  # [m] u
    lower_bound: Array  # []
    upper_bound: Array  # []
    num_iterations: Array  # [] int32
    status: Array  # [] int32


def default_tolerance() -> float:
    """The relative gap that can be reached in the default float type."""
    return 1e-7 if jnp.result_type(float) == jnp.dtype("float64") else 1e-2


def solve_program(
    disagreement: Array,
    row_labels: Array,
    column_labels: Array,
    penalty: Array,
    tolerance: Array,
    is_valid: Array,
    config: Config,
) -> ExampleWeightsSolution:
    """Solves (5) over the rows and columns with labels other than 0. `disagreement` is [n, m],
    columns first. Under `vmap` it runs in chunks.
    """
    cold = functools.partial(_solve_cold, config)
    return batching.in_chunks(cold)(
        disagreement, row_labels, column_labels, penalty, tolerance, is_valid
    )


def _solve_cold(config: Config, *program: Array) -> ExampleWeightsSolution:
    return solve_warm(config, *program, initial=None)[0]


def solve_warm(
    config: Config,
    disagreement: Array,
    row_labels: Array,
    column_labels: Array,
    penalty: Array,
    tolerance: Array,
    is_valid: Array,
    *,
    initial: game.ScaledGamePoint | None,
) -> tuple[ExampleWeightsSolution, game.ScaledGamePoint]:
    """Solves one program from the last iterate of a similar program, or from none. Returns the
    solution and the last iterate.
    """
    num_rows = reduce.count(row_labels != 0, dtype=disagreement.dtype)
    program = game.make(
        disagreement, row_labels, column_labels, jnp.maximum(penalty, 1 / jnp.maximum(num_rows, 1))
    )
    floor = jnp.maximum(_FLOOR * jnp.finfo(disagreement.dtype).eps, _SHARE_OF_TOLERANCE * tolerance)
    aim = {"tolerance": 0.5 * tolerance, "floor": floor}
    solved, state = working_set.solve(
        program, **aim, max_iterations=config.max_iterations, prunes=config.sparse, initial=initial
    )
    is_used_up = iterations.is_open(solved, **aim) & iterations.still_improves(solved)
    weights = state.weights / reduce.total(state.weights)
    rows = game.allowed(program, state.row_weights)
    lower, upper = certify.prove(disagreement, row_labels, column_labels, penalty, weights, rows)
    nothing = _NOTHING[disagreement.dtype.itemsize] * program.scale
    status = _status_of(lower, upper, tolerance, floor * program.scale, nothing, is_used_up)
    is_valid = is_valid & (program.num_rows > 0) & (program.num_columns > 0)
    spoiled = jnp.where(is_valid, 0.0, jnp.nan)
    status = jnp.where(certify.is_feasible(penalty, row_labels), status, int(Status.INFEASIBLE))
    solution = ExampleWeightsSolution(
        example_weights=weights + spoiled,
        row_weights=rows + spoiled,
        lower_bound=lower + spoiled,
        upper_bound=upper + spoiled,
        num_iterations=state.num_iterations,
        status=jnp.where(is_valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32),
    )
    return solution, solved.point


def _status_of(
    lower: Array, upper: Array, tolerance: Array, floor: Array, nothing: Array, is_used_up: Array
) -> Array:
    gap = upper - lower
    is_none = (lower <= 0) & (
        ((upper <= 4 * floor) & (gap <= 8 * floor)) | ((upper <= nothing) & ~is_used_up)
    )
    status = jnp.where(is_used_up, int(Status.ITERATION_LIMIT), int(Status.PRECISION_LIMIT))
    is_optimal = jnp.isfinite(gap) & (
        gap <= tolerance * jnp.maximum(jnp.abs(lower), jnp.abs(upper))
    )
    status = jnp.where(is_optimal, int(Status.OPTIMAL), status)
    return jnp.where(is_none, int(Status.NO_EDGE), status)


@meshes.takes_sharded
@derivatives.without("jboost.example_weights.fit")
def fit(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    penalty: ArrayLike,
    radius: ArrayLike | None = None,
    kernel: Kernel | None = None,
    centre: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    config: Config | None = None,
) -> ExampleWeightModel:
    """The distribution over examples of largest soft margin, and its classifier (Naish-Guzman,
    Holden and Paquet, (4) and (5)).

    Maximises gamma - C sum_i xi_i s.t. y_i F_d(x_i) >= gamma - xi_i, d in the simplex, xi >= 0,
    with F_d(x) = sum_i d_i y_i (1/2 - P[h(x) != h(x_i)]) over random hypotheses h. It may be
    jitted, and vmapped over data sets and penalties. It computes a few dozen products and Cholesky
    factors of [m, m] matrices; for many thousands of examples use `fit_large`.

    Args:
      points: [m, d].
      labels: [m], +1 or -1.
      penalty: [] C > 0, the cost of a unit of shortfall. At 1 or more it gives the hard margin (4);
        below 1 / m the program is unbounded.
      radius: [] R, for the hyperplanes of the paper: their point nearest to the centre is uniform
        in the cube [-R, R]^d. Pass either `radius` or `kernel`.
      kernel: any measure that `jboost.kernels` makes.
      centre: [d], the origin of the measure. None stands for the mean of the points with a radius,
        as in the paper, and for the origin with a kernel.
      mask: [m] bool, False for rows that are only padding.
      tolerance: [] the gap between the bounds, relative to the larger of them; None for 1e-7 in
        float64 and 1e-2 in float32.
      config: static sizes.

    Returns:
      An `ExampleWeightModel`. `lower_bound` follows from `example_weights` and `upper_bound` from
      `row_weights` by `recompute_bounds`. Statuses: OPTIMAL; PRECISION_LIMIT or ITERATION_LIMIT
      with a wider gap; NO_EDGE where the best margin is 0 within the precision of the floats (in
      float64, 1e-8 of the largest disagreement), as for equal points of opposite labels under a
      hard margin; INFEASIBLE for a traced penalty below 1 / m; INVALID_INPUT, with NaN results, for
      NaN, labels other than +1 and -1, a point outside the measure, or no examples.

    Raises:
      ValueError: at trace time, naming the argument; for a concrete radius or penalty of 0 or less,
        and a concrete penalty below 1 / m.

    >>> import jboost
    >>> model = jboost.example_weights.fit(
    ...     [[-2.0, 0.0], [-1.0, 0.5], [1.0, 0.0], [2.0, 1.0]],
    ...     [-1, -1, 1, 1],
    ...     penalty=1.0,
    ...     radius=5.0,
    ... )
    >>> (
    ...     jboost.predict(model, [[-3.0, 0.0], [3.0, 0.0]]).tolist(),
    ...     bool(model.lower_bound <= model.upper_bound),
    ... )
    ([-1, 1], True)
    """
    inputs = prepare(points, labels, radius=radius, kernel=kernel, centre=centre, mask=mask)
    penalty = validate_penalty(penalty, inputs.mask)
    tolerance = default_tolerance() if tolerance is None else tolerance
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    return _fit(inputs, penalty, tolerance, config=check.config("config", config, Config))


class Inputs(NamedTuple):
    """Examples and a measure, whose shapes and types are checked."""

    points: Array  # [m, d]
    labels: Array  # [m]
    mask: Array  # [m] bool
    kernel: Kernel
    centre: Array  # [d]


def prepare(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    radius: ArrayLike | None,
    kernel: Kernel | None,
    centre: ArrayLike | None,
    mask: ArrayLike | None,
) -> Inputs:
    """The arguments of `fit` as arrays. Raises ValueError at trace time, naming the argument."""
    points = as_points("points", points, "d")
    if points.shape[0] == 0:
        raise ValueError("points has no examples: expected at least one, which may be masked out")
    signs, _, mask = labelled.validate_examples(labels, None, mask, points.shape[0])
    if (radius is None) == (kernel is None):
        raise ValueError(
            "radius and kernel: exactly one of them must be given, to define the hypotheses"
        )
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(
            f"kernel is a {type(kernel).__name__}: take one that jboost.kernels makes, such as"
            " custom(...)"
        )
    if centre is None:
        centre = (
            jnp.zeros(points.shape[1:], points.dtype) if radius is None else _mean(points, mask)
        )
    else:
        centre = check.numeric("centre", centre, shape=points.shape[1:], kinds="fiu").astype(
            points.dtype
        )
    return Inputs(
        points,
        signs.astype(points.dtype),
        mask,
        hyperplanes(radius) if kernel is None else kernel,  # type: ignore[arg-type]
        centre,
    )


def _mean(points: Array, mask: Array) -> Array:
    count = jnp.maximum(reduce.count(mask, dtype=points.dtype), 1)
    return reduce.total(jnp.where(mask[:, None], points, 0.0), axis=0) / count


def validate_penalty(penalty: ArrayLike, mask: Array) -> Array:
    """The penalty [], on the host where it is concrete. Raises ValueError if it is below 1 / m."""
    penalty = jnp.asarray(
        check.number("penalty", penalty, low=0, high=check.LARGEST, open_low=True), float
    )
    if not isinstance(penalty, jax.core.Tracer) and not isinstance(mask, jax.core.Tracer):
        with jax.ensure_compile_time_eval():
            # each process holds only a part of the mask, but every one of them gets the sum
            count = int(jnp.sum(mask))
        if count and float(penalty) * count < 1 - 4 * jnp.finfo(penalty.dtype).eps:
            raise ValueError(
                f"penalty is {float(penalty):g}, below 1 / m = {1 / count:g} for {count} examples:"
                " the program is unbounded there; raise it to at least 1 / m (1 or more gives"
                " the hard margin)"
            )
    return penalty


def validate(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    penalty: ArrayLike = 1.0,
    radius: ArrayLike | None = None,
    kernel: Kernel | None = None,
    centre: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> None:
    """Checks the values that `fit` takes, on the host.

    Raises:
      ValueError: naming the argument and the remedy: for NaN, labels outside {-1, +1}, no examples,
        a penalty below 1 / m, a radius that is too small for a point (with the radius needed), or a
        kernel that is not defined at a point.

    >>> import jboost
    >>> jboost.example_weights.validate(
    ...     [[0.0, 0.0], [0.0, 0.0], [12.0, 9.0]], [1, 1, -1], radius=1.0
    ... )
    Traceback (most recent call last):
      ...
    ValueError: radius is 1: the point 2, at (8, 6) from the centre, needs 9.00001 at least, or ...
    """
    given = {
        "points": points,
        "labels": labels,
        "penalty": penalty,
        "radius": radius,
        "kernel": kernel,
        "centre": centre,
        "mask": mask,
    }
    check.on_host(
        "jboost.example_weights.validate",
        instead="under these the status INVALID_INPUT reports such values",
        **given,
    )
    with jax.ensure_compile_time_eval():  # the caller may be traced for other arguments
        _validate(
            prepare(points, labels, radius=radius, kernel=kernel, centre=centre, mask=mask),
            penalty,
            radius,
        )


def _validate(inputs: Inputs, penalty: ArrayLike, radius: ArrayLike | None) -> None:
    example_values.values(
        inputs.points,
        inputs.labels,
        jnp.ones_like(inputs.labels),
        inputs.mask,
        names=("points", "labels", "weights"),
    )
    if not bool(np.asarray(inputs.mask).any()):
        raise ValueError(
            "points has no examples that count: pass at least one, or a mask that is True for one"
        )
    validate_penalty(penalty, inputs.mask)
    for name, part in (("centre", inputs.centre), ("kernel", inputs.kernel)):
        if not all(
            np.isfinite(np.asarray(leaf, np.float64)).all() for leaf in jax.tree.leaves(part)
        ):
            raise ValueError(f"{name} holds a number that is not finite: pass finite numbers")
    centred = inputs.points - inputs.centre[None, :]
    outside = np.asarray(~inputs.kernel.is_inside(centred) & inputs.mask)
    if not outside.any():
        return
    if radius is None:
        raise ValueError(
            f"points[{int(outside.argmax())}] lies where the kernel is not defined"
            f" ({int(outside.sum())} such in all): widen its range"
        )
    needed = np.where(np.asarray(inputs.mask), np.asarray(least_radius(centred)), 0)
    row = int(needed.argmax())
    where = ", ".join(f"{value:g}" for value in np.asarray(centred[row])[:6]) + (
        ", ..." if centred.shape[1] > 6 else ""
    )
    raise ValueError(
        f"radius is {float(jnp.asarray(radius)):g}: the point {row}, at ({where}) from the centre,"
        f" needs {_rounded_up(needed[row] * (1 + 1e-6))} at least, or the disagreements are not"
        " probabilities there"
    )


def _rounded_up(value: float) -> str:
    """A positive number rounded up to six digits."""
    six_digits = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)
    return f"{float(six_digits.create_decimal_from_float(float(value))):g}"


def is_sound(inputs: Inputs) -> Array:
    """Whether all values of examples and measure are allowed, []."""
    rows = reduce.all_true(jnp.isfinite(inputs.points), axis=1) & (jnp.abs(inputs.labels) == 1)
    rows = rows & inputs.kernel.is_inside(inputs.points - inputs.centre[None, :])
    numbers = [
        jnp.all(jnp.isfinite(leaf))
        for leaf in (*jax.tree.leaves(inputs.kernel), inputs.centre)
        if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    ]
    return reduce.all_true(rows | ~inputs.mask) & jnp.all(jnp.stack(numbers))


def is_price(penalty: Array) -> Array:
    """Whether a penalty is allowed."""
    return jnp.isfinite(penalty) & (penalty > 0)


def centred(inputs: Inputs) -> tuple[Array, Array]:
    """Points less the centre [m, d] and labels [m], both 0 where masked."""
    points = jnp.where(inputs.mask[:, None], inputs.points - inputs.centre[None, :], 0.0)
    return points, jnp.where(inputs.mask, inputs.labels, 0.0)


@devices.public_jit(static_argnames=("config",))
def _fit(inputs: Inputs, penalty: Array, tolerance: Array, *, config: Config) -> ExampleWeightModel:
    points, labels = centred(inputs)
    # computed without the penalty, so that `vmap` over penalties computes one matrix
    sound = is_sound(inputs)
    labels = jnp.where(sound, labels, 0.0)
    disagreement = jnp.where(
        sound, inputs.kernel.disagreement(points, points).astype(points.dtype), 0.0
    )
    solution = solve_program(
        disagreement, labels, labels, penalty, tolerance, sound & is_price(penalty), config
    )
    return make_model(inputs, points, labels, penalty, solution)


def make_model(
    inputs: Inputs, points: Array, labels: Array, penalty: Array, solution: ExampleWeightsSolution
) -> ExampleWeightModel:
    """The model that belongs to a solution."""
    weights = solution.example_weights
    is_lost = reduce.any_true(inputs.kernel.underflows(points) & (labels != 0))
    hides_edge = is_lost & (solution.status == int(Status.NO_EDGE))
    return ExampleWeightModel(
        kernel=inputs.kernel,
        centre=inputs.centre,
        points=points,
        labels=labels,
        example_weights=weights,
        row_weights=solution.row_weights,
        bias=sum_in_64_bits(labels * weights, 0.5),
        penalty=penalty,
        lower_bound=solution.lower_bound,
        upper_bound=solution.upper_bound,
        num_support=reduce.count(weights > 0),
        num_iterations=solution.num_iterations,
        status=jnp.where(hides_edge, int(Status.PRECISION_LIMIT), solution.status).astype(
            jnp.int32
        ),
    )
