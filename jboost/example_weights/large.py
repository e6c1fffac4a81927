"""The linear program (5) of Naish-Guzman, Holden and Paquet for tens of thousands of examples, by
column generation; no array of size [m, m] is kept.

A restricted master holds all rows and few columns (the examples that may have weight). Its row
weights give the edges of all examples, which are computed in chunks. The examples of largest edge
enter. They are chosen apart from each other, since neighbours have nearly equal columns. Any row
weights prove an upper bound over all examples and any weights prove a lower bound, so that the gap
is certified in every round. `jboost.lpboost` does the same over hypotheses.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, checksums, derivatives, devices, loops, meshes, numerics
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.example_weights import certify
from jboost.example_weights.bounds import price_all
from jboost.example_weights.solve import (
    Config,
    ExampleWeightsSolution,
    Inputs,
    centred,
    is_price,
    is_sound,
    make_model,
    prepare,
    solve_program,
    validate_penalty,
)
from jboost.example_weights.types import ExampleWeightModel
from jboost.kernels import Kernel

# Columns that enter in one round differ by at least this share of the largest disagreement.
_APART = 0.02
_SHARE_OF_GAP = 0.1  # the tolerance of a master, as a share of the relative gap that remains
_COARSEST = 0.1  # the largest relative tolerance of a master


class LargeRoundInfo(NamedTuple):
    """One round."""

    round: int
    num_columns: int
    lower_bound: float
    upper_bound: float


class LargeState(NamedTuple):
    """The results after a round, from which the next round starts."""

    columns: np.ndarray  # [k] the examples that may have weight in the next round
    example_weights: np.ndarray  # [k] of the best lower bound, over best_columns
    best_columns: np.ndarray  # [k]
    row_weights: np.ndarray  # [m] of the best upper bound
    lower_bound: float
    upper_bound: float
    num_rounds: int
    status: int  # UNFINISHED while more rounds follow
    checksum: int | None = None  # of points, labels, kernel and penalty; None is not compared


@meshes.takes_gathered
@derivatives.without("jboost.example_weights.fit_large")
def fit_large(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    penalty: ArrayLike,
    radius: ArrayLike | None = None,
    kernel: Kernel | None = None,
    centre: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    tolerance: float = 1e-2,
    capacity: int = 256,
    num_entering: int = 32,
    max_rounds: int = 40,
    config: Config | None = None,
    on_step: OnStep | None = None,
    initial: LargeState | None = None,
) -> ExampleWeightModel:
    """`fit` by column generation over examples, for tens of thousands of them. The loop runs on the
    host, not under jit or vmap.

    A round costs one pass over all pairs of examples, 4 million entries at a time, and one program
    of [m, capacity].

    Args:
      points: [m, d]; labels, penalty, radius, kernel, centre and mask as of `fit`.
      labels: [m].
      penalty: [].
      radius: [].
      kernel: instead of a radius.
      centre: [d].
      mask: [m].
      tolerance: the gap between the bounds at which to stop, relative to the larger.
      capacity: how many examples may be candidates at a time, static.
      num_entering: how many candidates may enter in a round; no more than fit beside those of
        positive weight, but one at least.
      max_rounds: the number of rounds after which it ends with ROUND_LIMIT.
      config: static sizes of the solver of masters.
      on_step: called with (state, info) after each round; False ends the loop with TIME_LIMIT.
      initial: a `jboost.example_weights.LargeState` from which to continue, as passed to `on_step`
        of the same fit. The result is bitwise the same as without interruption. A state of other
        points, labels, kernel or penalty is refused. None for a fit from the start.

    Returns:
      An `ExampleWeightModel`; `num_iterations` counts rounds, its bounds hold over all examples.
      Statuses: OPTIMAL, NO_EDGE, ROUND_LIMIT, TIME_LIMIT and PRECISION_LIMIT.

    Raises:
      ValueError: as for `fit`, and as for `validate`: values for which `fit` only returns a status.

    >>> import jboost
    >>> points, labels = [[-2.0, 0.0], [-1.0, 0.5], [1.0, 0.0], [2.0, 1.0]], [-1, -1, 1, 1]
    >>> model = jboost.example_weights.fit_large(points, labels, penalty=1.0, radius=5.0)
    >>> (
    ...     jboost.predict(model, [[-3.0, 0.0], [3.0, 0.0]]).tolist(),
    ...     bool(model.lower_bound <= model.upper_bound),
    ... )
    ([-1, 1], True)
    """
    check.on_host(
        "jboost.example_weights.fit_large",
        instead=(
            "jboost.example_weights.fit does the same, for thousands of examples, and may be traced"
        ),
        points=points,
        labels=labels,
        penalty=penalty,
        radius=radius,
        kernel=kernel,
        centre=centre,
        mask=mask,
        tolerance=tolerance,
    )
    with devices.computed_eagerly():
        inputs = prepare(points, labels, radius=radius, kernel=kernel, centre=centre, mask=mask)
        price = validate_penalty(penalty, inputs.mask)
        _check_counts(capacity=capacity, num_entering=num_entering, max_rounds=max_rounds)
        check.number("tolerance", tolerance, low=0, open_low=True)
        check.watcher("on_step", on_step)
        _check_initial(initial, inputs, capacity)
        _check_values(inputs, price)
        config = check.config("config", config, Config)
        centred_points, signs = _centred(inputs)
        live = np.flatnonzero(np.asarray(signs) != 0)
        problem = _RoundInvariants(
            kernel=inputs.kernel,
            centred_points=centred_points,
            signs=signs,
            live=live,
            price=price,
            tolerance=tolerance,
            capacity=min(capacity, len(live)),
            num_entering=num_entering,
            config=config,
        )
        first = _begin(problem)
        state = first if initial is None else _resumed(initial, first)
        solution = _solution(problem, *_generate(problem, state, max_rounds, on_step))
        return _make_model(inputs, centred_points, signs, price, solution)


def _solution(
    problem: _RoundInvariants, state: LargeState, status: Status
) -> ExampleWeightsSolution:
    dtype = problem.centred_points.dtype
    weights = np.zeros(len(problem.centred_points), dtype)
    weights[state.best_columns] = state.example_weights
    return ExampleWeightsSolution(
        example_weights=jnp.asarray(weights),
        row_weights=jnp.asarray(state.row_weights),
        lower_bound=jnp.asarray(state.lower_bound, dtype),
        upper_bound=jnp.asarray(state.upper_bound, dtype),
        num_iterations=jnp.asarray(state.num_rounds, jnp.int32),
        status=jnp.asarray(int(status), jnp.int32),
    )


def _check_counts(**counts: int) -> None:
    """Raises ValueError, naming the argument, unless all are integers of 1 or more."""
    for name, value in counts.items():
        check.count(name, value, low=1)


def _check_values(inputs: Inputs, price: Array) -> None:
    """Raises ValueError unless an example counts and all values are allowed."""
    if not np.asarray(inputs.mask).any():
        raise ValueError(
            "points has no examples that count: pass one at least, or a mask that is True for one"
        )
    if not bool(_is_allowed(inputs, price)):
        raise ValueError(
            "points, labels, radius or penalty hold a value that is not allowed:"
            " jboost.example_weights.validate names it"
        )


@devices.host_jit
def _is_allowed(inputs: Inputs, price: Array) -> Array:
    return is_sound(inputs) & is_price(price)


# each one program where it is called from the host
_centred = devices.host_jit(centred)
_make_model = devices.host_jit(make_model)


def _check_initial(initial: LargeState | None, inputs: Inputs, capacity: int) -> None:
    """Raises ValueError unless a state fits these data and sizes."""
    if initial is None:
        return
    if not isinstance(initial, LargeState):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.example_weights.LargeState,"
            " as `on_step` gets it"
        )
    num_rows = len(np.asarray(inputs.mask))
    if len(initial.row_weights) != num_rows:
        raise ValueError(
            f"initial has {len(initial.row_weights)} examples, and points has {num_rows}: pass a"
            " state of the same data"
        )
    if len(initial.columns) > capacity:
        raise ValueError(
            f"initial has {len(initial.columns)} candidates, and capacity is {capacity}: pass the"
            " capacity of the fit that it comes from"
        )


def _resumed(initial: LargeState, first: LargeState) -> LargeState:
    """The state to continue. Raises ValueError if its bounds are those of another problem."""
    if initial.checksum is not None:
        checksums.require_same(
            initial.checksum,
            first.checksum,
            parts=("points, labels, kernel or penalty",),
            what="fit",
        )
    return initial._replace(checksum=first.checksum)


class _RoundInvariants(NamedTuple):
    """What stays the same from round to round."""

    kernel: Kernel
    centred_points: Array  # [m, d]
    signs: Array  # [m] the labels, 0 for an example that does not count
    live: np.ndarray  # the indices of the examples that count
    price: Array  # []
    tolerance: float
    capacity: int
    num_entering: int
    config: Config


def _generate(
    problem: _RoundInvariants, state: LargeState, max_rounds: int, on_step: OnStep | None
) -> tuple[LargeState, Status]:
    """Runs rounds until the gap is closed, none is left, or `on_step` ends them."""
    while state.num_rounds < max_rounds and state.status == int(Status.UNFINISHED):
        num_columns = len(state.columns)
        state = _one_round(problem, state)
        info = LargeRoundInfo(state.num_rounds, num_columns, state.lower_bound, state.upper_bound)
        if not loops.goes_on(on_step, state, info) and state.status != int(Status.OPTIMAL):
            return state, Status.TIME_LIMIT
    status = Status(state.status)
    return state, Status.ROUND_LIMIT if status is Status.UNFINISHED else status


def _begin(problem: _RoundInvariants) -> LargeState:
    columns = _first_columns(np.asarray(problem.signs), problem.live, max(1, problem.capacity // 2))
    return LargeState(
        columns=columns,
        example_weights=np.zeros(0),
        best_columns=columns[:0],
        row_weights=np.zeros(len(problem.centred_points)),
        lower_bound=-np.inf,
        upper_bound=np.inf,
        num_rounds=0,
        status=int(Status.UNFINISHED),
        checksum=checksums.of_arrays(
            *jax.tree.leaves((problem.centred_points, problem.signs, problem.kernel, problem.price))
        ),
    )


def _one_round(problem: _RoundInvariants, state: LargeState) -> LargeState:
    """Solves the restricted master, prices all examples, and lets the best of them enter."""
    wanted = min(max(_SHARE_OF_GAP * _relative_gap(state), 0.2 * problem.tolerance), _COARSEST)
    solution = _solve_master(problem, state.columns, wanted)
    weights = np.asarray(solution.example_weights)[: len(state.columns)]
    low, high = _priced(
        problem.kernel, problem.centred_points, problem.signs, problem.price, solution.row_weights
    )
    columns = state.columns
    state = state._replace(num_rounds=state.num_rounds + 1)
    if float(solution.lower_bound) > state.lower_bound:
        state = state._replace(
            example_weights=weights,
            best_columns=columns,
            lower_bound=float(solution.lower_bound),
        )
    if float(high) < state.upper_bound:
        state = state._replace(
            row_weights=np.asarray(solution.row_weights), upper_bound=float(high)
        )
    if _relative_gap(state) <= problem.tolerance:
        return state._replace(status=int(Status.OPTIMAL))
    room = problem.capacity - int((weights > 0).sum())  # beside the support
    most = min(problem.num_entering, max(room, 1))
    entering = _entering(problem, np.asarray(low), columns, float(solution.upper_bound), most)
    if len(entering) == 0 and int(solution.status) == int(Status.NO_EDGE):
        return state._replace(status=int(Status.NO_EDGE))
    if len(entering) == 0 and wanted <= 0.2 * problem.tolerance:
        return state._replace(status=int(Status.PRECISION_LIMIT))
    return state._replace(columns=_exchanged(columns, weights, entering, problem.capacity))


def _solve_master(
    problem: _RoundInvariants, columns: np.ndarray, tolerance: float
) -> ExampleWeightsSolution:
    """The program over the columns, padded to the capacity so that all rounds share a program."""
    return _master(
        problem.kernel,
        problem.centred_points,
        problem.signs,
        np.pad(columns, (0, problem.capacity - len(columns))),
        np.arange(problem.capacity) < len(columns),
        problem.price,
        jnp.asarray(tolerance, problem.centred_points.dtype),
        config=problem.config,
    )


def _relative_gap(state: LargeState) -> float:
    size = max(abs(state.lower_bound), abs(state.upper_bound))
    return (
        (state.upper_bound - state.lower_bound) / size if np.isfinite(size) and size > 0 else np.inf
    )


def _first_columns(signs: np.ndarray, live: np.ndarray, count: int) -> np.ndarray:
    """Examples of both classes, spread evenly over the rows."""
    parts = [live[signs[live] == sign] for sign in (-1, 1)]
    picks = [
        part[np.linspace(0, len(part) - 1, min(len(part), max(1, count // 2))).astype(int)]
        for part in parts
        if len(part)
    ]
    return np.unique(np.concatenate(picks))[: max(count, 1)]


def _entering(
    problem: _RoundInvariants, edges: np.ndarray, columns: np.ndarray, level: float, count: int
) -> np.ndarray:
    """The examples of largest edge among those with an edge above `level`, `count` at most, no two
    of them near each other.
    """
    live = problem.live
    score = np.full(len(edges), -np.inf)
    score[live] = edges[live]
    score[columns] = -np.inf
    score[score <= level] = -np.inf
    chosen: list[int] = []
    apart = 0.0
    while len(chosen) < count and np.isfinite(score.max()):
        best = int(score.argmax())
        chosen.append(best)
        near = np.asarray(_one_row(problem.kernel, problem.centred_points, best))
        apart = max(apart, _APART * float(near[live].max()))
        score[near <= apart] = -np.inf
        score[best] = -np.inf
    return np.array(chosen, columns.dtype)


def _exchanged(
    columns: np.ndarray, weights: np.ndarray, entering: np.ndarray, capacity: int
) -> np.ndarray:
    """The columns together with those that enter. Beyond the capacity, those of least weight are
    dropped.
    """
    num_kept = capacity - len(entering)
    kept = columns[np.sort(np.argsort(-weights, kind="stable")[:num_kept])]
    return np.concatenate([kept, entering])


@devices.host_jit
def _priced(
    kernel: Kernel, centred_points: Array, signs: Array, price: Array, row_weights: Array
) -> tuple[Array, Array]:
    """Lower bounds on the edges of all examples, [m], and the upper bound on the optimum that the
    row weights prove, [].
    """
    low, high = price_all(kernel, centred_points, signs, row_weights)
    highest = numerics.masked_max(high, signs != 0, fill=-jnp.inf)
    return low, jnp.where(certify.is_allowed(row_weights, signs, price), highest, jnp.inf)


@devices.host_jit
def _one_row(kernel: Kernel, centred_points: Array, index: Array) -> Array:
    return kernel.disagreement(centred_points[index][None], centred_points)[0]


@devices.host_jit(static_argnames=("config",))
def _master(
    kernel: Kernel,
    centred_points: Array,
    signs: Array,
    columns: Array,
    is_used: Array,
    price: Array,
    tolerance: Array,
    *,
    config: Config,
) -> ExampleWeightsSolution:
    disagreement = kernel.disagreement(centred_points[columns], centred_points).astype(
        centred_points.dtype
    )
    column_labels = jnp.where(is_used, signs[columns], 0.0)
    return solve_program(
        disagreement, signs, column_labels, price, tolerance, jnp.ones((), bool), config
    )
