"""The choice of the penalty by cross-validation, or on one split: all folds and penalties in one
compiled call, or one penalty at a time for a callback. Each penalty starts from the last iterate of
the penalty before.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import (
    check,
    checksums,
    derivatives,
    devices,
    folds,
    loops,
    meshes,
    numerics,
    reduce,
)
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.example_weights import game
from jboost.example_weights.solve import (
    Config,
    Inputs,
    centred,
    default_tolerance,
    is_price,
    is_sound,
    prepare,
    solve_warm,
)
from jboost.example_weights.types import sum_in_64_bits
from jboost.kernels import Kernel


class PenaltyChoice(NamedTuple):
    """The penalty of least error on held-out examples; among equal errors, the smallest penalty."""

    penalty: Array  # []
    # [k] mean error of each penalty over all held-out examples; +inf where a fold has no solution,
    # NaN of the penalties after the one at which `on_step` ended the choice
    losses: Array
    fold_losses: Array  # [folds, k]; 0 where a fold is empty
    statuses: Array  # [folds, k] int32
    # [] int32: OPTIMAL, or the first other status among the folds of the penalty; among all folds
    # and penalties, where no penalty was chosen
    status: Array


class PenaltyChoiceState(NamedTuple):
    """The state of `choose_penalty` between two penalties."""

    points: game.ScaledGamePoint  # fields [F, ...], the last iterate of each fold
    wrong: np.ndarray  # [F, k] held-out examples misclassified, +inf where not yet known
    statuses: np.ndarray  # [F, k] int32, TIME_LIMIT where not yet known
    num_done: np.ndarray  # [] int32, penalties so far
    checksums: np.ndarray  # [7] uint32, of what `_CHECKED` names


# what the checksums of a state are of
_CHECKED = (
    "points",
    "labels",
    "mask",
    "kernel or centre",
    "penalties",
    "folds",
    "tolerance or config",
)


@meshes.takes_gathered
@derivatives.without("jboost.example_weights.choose_penalty")
def choose_penalty(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    penalties: ArrayLike,
    key: Array | None = None,
    num_folds: int = 5,
    held_out: ArrayLike | None = None,
    radius: ArrayLike | None = None,
    kernel: Kernel | None = None,
    centre: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    config: Config | None = None,
    on_step: OnStep | None = None,
    initial: PenaltyChoiceState | None = None,
) -> PenaltyChoice:
    """Chooses the penalty by stratified k-fold cross-validation, or on a given split, in one
    compiled call.

    The matrix of disagreements is computed once, with the centre of all examples. A penalty below
    1 / m', with m' the number of examples of a training fold, is never chosen.

    Args:
      points: [m, d].
      labels: [m], +1 or -1.
      penalties: [k], preferably sorted: each one starts from the last iterate of the one before.
      key: a JAX random key, for the folds; not needed with `held_out`.
      num_folds: static, 2 or more; is ignored with `held_out`.
      held_out: [m] bool, the examples that a single split holds out, or [F, m] those of each of F
        folds, in place of folds drawn with `key`. Naish-Guzman, Holden and Paquet train on one half
        and validate on the other: `jboost.folds.stratified_folds(key, labels, num_folds=2)[0]`.
      radius: as for `fit`, like kernel, centre, mask, tolerance and config.
      on_step: called on the host after each penalty, with (state, (number of penalties so far, k)),
        a `PenaltyChoiceState`. The penalties are then tried one by one. False stops them: the
        choice is among the penalties so far, with status TIME_LIMIT. Not under jit or vmap.
      initial: a state from which to continue, as passed to `on_step` of a choice with the same
        arguments; None for a choice from the beginning. The result is bitwise that of an
        uninterrupted choice with an `on_step`. A state of other data, folds, penalties or options
        is refused.

    Returns:
      A `PenaltyChoice`. Where no penalty has a solution on all folds, `penalty` is NaN.

    Raises:
      ValueError: at trace time, naming the argument; for a known `held_out` that holds out nothing,
        or leaves nothing in a fold.

    >>> import jax, jboost
    >>> points, labels = (
    ...     [[-2.0, 0.0], [-1.0, 0.5], [-1.5, 1.0], [1.0, 0.0], [2.0, 1.0], [1.5, -1.0]],
    ...     [-1, -1, -1, 1, 1, 1],
    ... )
    >>> choice = jboost.example_weights.choose_penalty(
    ...     points, labels, penalties=[0.5, 1.0], radius=5.0, key=jax.random.key(0), num_folds=3
    ... )
    >>> float(choice.penalty), choice.losses.tolist()
    (0.5, [0.0, 0.0])
    >>> choice = jboost.example_weights.choose_penalty(
    ...     points, labels, penalties=[0.5, 1.0], radius=5.0, held_out=[0, 0, 1, 0, 1, 0]
    ... )
    >>> choice.fold_losses.tolist()
    [[0.0, 0.0]]
    """
    inputs = prepare(points, labels, radius=radius, kernel=kernel, centre=centre, mask=mask)
    penalties = check.numbers(
        "penalties", penalties, low=0, high=check.LARGEST, open_low=True
    ).astype(inputs.points.dtype)
    check.count("num_folds", num_folds, low=2)
    split = None if held_out is None else _validate_split(held_out, inputs.mask)
    if split is None and key is None:
        raise ValueError(
            "key is None: pass a random key for the folds, as jax.random.key(0), or a split as"
            " held_out"
        )
    tolerance = default_tolerance() if tolerance is None else tolerance
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    config = check.config("config", Config(sparse=False) if config is None else config, Config)
    given = _ChoiceArguments(inputs, penalties, key if split is None else None, split, tolerance)
    if on_step is None and initial is None:
        return _choose(given, num_folds=num_folds, config=config)
    check.can_be_watched(on_step, (given, initial), between="penalties")
    return _drive(given, num_folds=num_folds, config=config, on_step=on_step, initial=initial)


def _validate_split(held_out: ArrayLike, mask: Array) -> Array:
    """The split as folds [F, m] bool. Raises ValueError where a known one holds out nothing at all,
    or all of the examples.
    """
    shape: tuple[int | str, ...] = mask.shape if np.ndim(held_out) == 1 else ("F", *mask.shape)
    split = check.numeric("held_out", held_out, shape=shape, kinds="biu").astype(bool)
    folds_of = split.reshape(-1, mask.shape[0])
    if check.are_known(folds_of, mask):
        counts = np.asarray(folds_of & mask[None, :]).sum(axis=1)
        if not counts.any():
            raise ValueError("held_out is False for all examples: expected some to validate on")
        if (counts == int(np.asarray(mask).sum())).any():
            raise ValueError(
                "held_out is True for all examples of a fold: expected some to train on"
            )
    return folds_of


class _ChoiceArguments(NamedTuple):
    """The arguments of a choice."""

    inputs: Inputs
    penalties: Array  # [k]
    key: Array | None  # for the folds; None for a split
    split: Array | None  # [F, m] bool; None for folds drawn with the key
    tolerance: Array  # []


class _Trial(NamedTuple):
    """What all folds share, and their held-out examples."""

    disagreement: Array  # [m, m]
    labels: Array  # [m], 0 where masked, and of values that are not allowed
    penalties: Array  # [k]
    tolerance: Array  # []
    is_valid: Array  # [] bool
    is_out: Array  # [F, m] bool, of one fold [m]

    @property
    def program(self) -> tuple[Array, Array, Array]:
        """The disagreements, and the labels of rows and of columns, of one fold."""
        training = jnp.where(self.is_out, 0.0, self.labels)
        return self.disagreement, training, training


# the axes of one fold, for `vmap`
_OF_FOLD = _Trial(None, None, None, None, None, 0)  # type: ignore[arg-type]


@devices.public_jit(static_argnames=("num_folds", "config"))
def _choose(
    given: _ChoiceArguments,
    *,
    num_folds: int,
    config: Config,
) -> PenaltyChoice:
    trial = _make_trial(given, num_folds=num_folds)

    def one_fold(trial: _Trial) -> tuple[Array, Array]:
        visit = functools.partial(_visit, trial, config=config)
        return loops.scan(visit, _first_point(trial), trial.penalties)[1]

    return _conclude(trial, *jax.vmap(one_fold, in_axes=(_OF_FOLD,))(trial))


def _drive(
    given: _ChoiceArguments,
    *,
    num_folds: int,
    config: Config,
    on_step: OnStep | None,
    initial: PenaltyChoiceState | None,
) -> PenaltyChoice:
    """`_choose` with one call of a compiled program for each penalty, and `on_step` between
    them.
    """
    trial, points = _begin_on_host(given, num_folds=num_folds)
    state = _first_state(given.inputs, trial, points, config)
    if initial is not None:
        kind = "jboost.example_weights.PenaltyChoiceState"
        state = checksums.validate_state(initial, state, parts=_CHECKED, what="choice", kind=kind)
    num_all = trial.penalties.shape[0]
    for number in range(int(state.num_done), num_all):
        points, of_folds = _advance(trial, state.points, trial.penalties[number], config=config)
        wrong, statuses = state.wrong.copy(), state.statuses.copy()
        wrong[:, number], statuses[:, number] = of_folds
        state = PenaltyChoiceState(
            points, wrong, statuses, np.asarray(number + 1, np.int32), state.checksums
        )
        if not loops.goes_on(on_step, state, (number + 1, num_all)):
            break
    is_tried = np.arange(num_all) < state.num_done
    choice = _conclude_on_host(trial, state.wrong, state.statuses)
    is_cut_short = not is_tried.all() and bool(trial.is_valid)
    return choice._replace(
        losses=jnp.where(is_tried, choice.losses, jnp.nan),
        fold_losses=jnp.where(is_tried[None, :], choice.fold_losses, jnp.nan),
        status=jnp.asarray(int(Status.TIME_LIMIT), jnp.int32) if is_cut_short else choice.status,
    )


def _first_state(
    inputs: Inputs, trial: _Trial, points: game.ScaledGamePoint, config: Config
) -> PenaltyChoiceState:
    """The state before the first penalty."""
    counts = (trial.is_out.shape[0], trial.penalties.shape[0])
    parts = (
        inputs.points,
        inputs.labels,
        inputs.mask,
        (inputs.kernel, inputs.centre),
        trial.penalties,
        trial.is_out,
        (trial.tolerance, repr(config)),
    )
    return PenaltyChoiceState(
        points,
        np.full(counts, np.inf, trial.labels.dtype),
        np.full(counts, int(Status.TIME_LIMIT), np.int32),
        np.asarray(0, np.int32),
        np.array([checksums.of_tree(part) for part in parts], np.uint32),
    )


def _make_trial(given: _ChoiceArguments, *, num_folds: int) -> _Trial:
    inputs, penalties, key, split, tolerance = given
    points, labels = centred(inputs)
    valid = is_sound(inputs) & jnp.all(is_price(penalties))
    labels = jnp.where(valid, labels, 0.0)
    disagreement = jnp.where(
        valid, inputs.kernel.disagreement(points, points).astype(points.dtype), 0.0
    )
    held_out = (
        folds.stratified_folds(key, inputs.labels, num_folds=num_folds, mask=inputs.mask)
        if split is None
        else split & inputs.mask[None, :]
    )
    return _Trial(disagreement, labels, penalties, tolerance, valid, held_out)


def _first_point(trial: _Trial) -> game.ScaledGamePoint:
    """The iterate of one fold that the first penalty starts from."""
    _, training, _ = trial.program
    count = jnp.maximum(reduce.count(training != 0, dtype=training.dtype), 1)
    return game.start(game.make(*trial.program, jnp.maximum(trial.penalties[0], 1 / count)))


def _visit(
    trial: _Trial, before: game.ScaledGamePoint, penalty: Array, *, config: Config
) -> tuple[game.ScaledGamePoint, tuple[Array, Array]]:
    """The last iterate of one fold with a penalty; how many held-out examples are misclassified,
    and the status.
    """
    solution, last = solve_warm(
        config, *trial.program, penalty, trial.tolerance, trial.is_valid, initial=before
    )
    signed = trial.program[1] * solution.example_weights
    scores = sum_in_64_bits(signed, 0.5) - jnp.matmul(
        trial.disagreement, signed, precision=lax.Precision.HIGHEST
    )
    is_wrong = jnp.where((scores > 0) == (trial.labels > 0), 0.0, 1.0)
    wrong = numerics.masked_sum(is_wrong, trial.is_out)
    is_solved = jnp.isfinite(solution.upper_bound)
    return last, (jnp.where(is_solved, wrong, jnp.inf), solution.status)


def _conclude(trial: _Trial, wrong: Array, statuses: Array) -> PenaltyChoice:
    """The choice, from the number of misclassified examples and the status of each fold and penalty
    [F, k].
    """
    penalties = trial.penalties
    sizes = reduce.count(trial.is_out, dtype=trial.labels.dtype)
    losses = reduce.total(wrong, axis=0) / jnp.maximum(reduce.total(sizes), 1)
    best = jnp.min(jnp.where(losses == jnp.min(losses), penalties, jnp.inf))
    is_chosen = jnp.isfinite(jnp.min(losses))
    falls_short = (
        (statuses != int(Status.OPTIMAL)) & ((penalties == best)[None, :] | ~is_chosen)
    ).reshape(-1)
    status = jnp.where(
        jnp.any(falls_short), statuses.reshape(-1)[jnp.argmax(falls_short)], int(Status.OPTIMAL)
    ).astype(jnp.int32)
    return PenaltyChoice(
        jnp.where(is_chosen, best, jnp.nan),
        losses,
        wrong / jnp.maximum(sizes, 1)[:, None],
        statuses,
        status,
    )


@functools.partial(devices.host_jit, static_argnames=("num_folds",))
def _begin_on_host(
    given: _ChoiceArguments,
    *,
    num_folds: int,
) -> tuple[_Trial, game.ScaledGamePoint]:
    trial = _make_trial(given, num_folds=num_folds)
    return trial, jax.vmap(_first_point, in_axes=(_OF_FOLD,))(trial)


@functools.partial(devices.host_jit, static_argnames=("config",))
def _advance(
    trial: _Trial, before: game.ScaledGamePoint, penalty: Array, *, config: Config
) -> tuple[game.ScaledGamePoint, tuple[Array, Array]]:
    """`_visit` of all folds."""
    visit = functools.partial(_visit, config=config)
    found: tuple[game.ScaledGamePoint, tuple[Array, Array]] = jax.vmap(
        visit, in_axes=(_OF_FOLD, 0, None)
    )(trial, before, penalty)
    return found


_conclude_on_host = devices.host_jit(_conclude)
