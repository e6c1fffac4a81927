"""The choice of the penalty by cross-validation, or on one split: all folds and penalties in one
compiled call, in which each penalty starts from the last iterate of the penalty before.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jboost.base import check, derivatives, folds, loops, meshes, numerics, reduce
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
    # [k] mean error of each penalty over all held-out examples; +inf where a fold has no solution
    losses: Array
    fold_losses: Array  # [folds, k]; 0 where a fold is empty
    statuses: Array  # [folds, k] int32
    # [] int32: OPTIMAL, or the first other status among the folds of the penalty; among all folds
    # and penalties, where no penalty was chosen
    status: Array


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
    return _choose(
        inputs,
        penalties,
        key if split is None else None,
        split,
        tolerance,
        num_folds=num_folds,
        config=check.config("config", Config(sparse=False) if config is None else config, Config),
    )


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


@functools.partial(jax.jit, static_argnames=("num_folds", "config"))
def _choose(
    inputs: Inputs,
    penalties: Array,
    key: Array | None,
    split: Array | None,
    tolerance: Array,
    *,
    num_folds: int,
    config: Config,
) -> PenaltyChoice:
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

    def one_fold(is_out: Array) -> tuple[Array, Array]:
        training = jnp.where(is_out, 0.0, labels)
        program = (disagreement, training, training)

        def visit(before: game.Point, penalty: Array) -> tuple[game.Point, tuple[Array, Array]]:
            solution, last = solve_warm(config, *program, penalty, tolerance, valid, initial=before)
            signed = training * solution.example_weights
            scores = sum_in_64_bits(signed, 0.5) - jnp.matmul(
                disagreement, signed, precision=lax.Precision.HIGHEST
            )
            wrong = numerics.masked_sum(jnp.where((scores > 0) == (labels > 0), 0.0, 1.0), is_out)
            return last, (
                jnp.where(jnp.isfinite(solution.upper_bound), wrong, jnp.inf),
                solution.status,
            )

        count = jnp.maximum(reduce.count(training != 0, dtype=labels.dtype), 1)
        first = game.start(game.make(*program, jnp.maximum(penalties[0], 1 / count)))
        return loops.scan(visit, first, penalties)[1]

    wrong, statuses = jax.vmap(one_fold)(held_out)
    sizes = reduce.count(held_out, dtype=labels.dtype)
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
