"""Differentiable heads for networks: optimal votes over a network's outputs.

The votes are solved for in each training step, and gradients pass through the solution. A head is a
pair of pure functions over a small state, as in optax:

    state = head.init(num_features)
    logits, state = head.apply(state, features, labels)  # training: votes of this batch
    logits, _ = head.apply(state, features)              # prediction: the votes in the state

The state is a pytree of arrays. Store it next to the parameters: in flax as a variable of a
separate collection (`self.variable("votes", ...)`), in equinox as a field or an `eqx.nn.State`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost import pair, relaxed_margin
from jboost.base import check, derivatives, labelled
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike
from jboost.relaxations import Relaxation, soft_margin

__all__ = ["Head", "MarginHeadState", "PairHeadState", "margin_head", "pair_head"]


class Head(NamedTuple):
    """A head: two pure functions."""

    init: Callable[..., Any]
    """num_features -> state."""
    apply: Callable[..., tuple[Array, Any]]
    """(state, features [m, n], labels [m] or None, *, weights=None, mask=None) -> logits, state."""


class MarginHeadState(NamedTuple):
    """The votes of the last labelled batch, and the starting point of the next search."""

    votes: Array  # [n], or [n, k] for k classes; the l1 norm is at most 1
    logits_of_votes: Array  # [2 n] or [2 n, k]
    status: Array  # [] or [k] int32, of jboost.status


def margin_head(
    *,
    nu: ArrayLike = 0.1,
    smoothing: ArrayLike = 0.05,
    relaxation: Any = None,
    num_classes: int | None = None,
    scale: ArrayLike = 1.0,
) -> Head:
    """An LP-Boost head: the votes with the largest smoothed soft margin on the batch.

    In training, the votes w of either sign are those of `jboost.relaxed_margin.solve_smoothed` on
    the margins y_i f_j(x_i) of the batch. Gradients of the logits also pass through w, by the
    implicit function theorem (Amos and Kolter 2017, for quadratic programs). Newton's method starts
    at the votes of the last batch and takes a few steps. Features must lie in [-1, 1], such as
    those of a tanh.

    Args:
      nu: [] in (0, 1], the share of the batch whose margins count, as in LP-Boost.
      smoothing: [] positive, in units of margin. Smaller values give votes nearer to those of
        LP-Boost, with a derivative that grows as 1 / smoothing.
      relaxation: one of `jboost.relaxations`, in place of the soft margin of nu.
      num_classes: static; None for labels in {-1, +1} and logits [m]. With k, labels are integers
        from 0 to k - 1, each class has separate votes against the others, and logits are [m, k].
      scale: [] a factor of the logits. Votes have norm 1, so logits lie within +-scale. Use more
        than 1 with a cross-entropy.

    Returns:
      A `Head`. `init(num_features)` gives equal votes of 0. `apply(state, features, labels)` solves
      and returns the logits of the new votes with the new state; without labels it takes the votes
      of the state. `weights` and `mask` [m] are those of the examples. Padding may hold anything;
      its logits are 0.

    Raises:
      ValueError: naming the argument, also for labels out of range and an empty mask where they are
        known. A search that fails is a status in the state. Votes are NaN only for such labels and
        masks where they are traced, and for features that are not finite.

    >>> import jax.numpy as jnp, jboost
    >>> head = jboost.layers.margin_head(nu=0.5)
    >>> features, labels = jnp.array([[0.9, -0.2], [-0.8, 0.1], [0.7, 0.3]]), jnp.array([1, -1, 1])
    >>> logits, state = head.apply(head.init(2), features, labels)
    >>> jnp.sign(logits).tolist(), jboost.status.Status(int(state.status)).name
    ([1.0, -1.0, 1.0], 'OPTIMAL')
    """
    if relaxation is None:
        relaxation = soft_margin(nu=nu)
    if not isinstance(relaxation, Relaxation):
        raise ValueError(
            f"relaxation is a {type(relaxation).__name__}: expected one of jboost.relaxations"
        )
    if num_classes is not None:
        check.count("num_classes", num_classes, low=2)
    smoothing = check.number("smoothing", smoothing, low=0, high=check.LARGEST, open_low=True)
    scale = check.number("scale", scale, low=0, high=check.LARGEST, open_low=True)
    solve = functools.partial(_solve_votes, relaxation, smoothing)
    init = functools.partial(_init_margin_head, num_classes)
    return Head(init, functools.partial(_apply_margin_head, solve, scale, num_classes))


def _init_margin_head(num_classes: int | None, num_features: int) -> MarginHeadState:
    check.count("num_features", num_features, low=1)
    rest = () if num_classes is None else (num_classes,)
    return MarginHeadState(
        jnp.zeros((num_features, *rest)),
        jnp.zeros((2 * num_features, *rest)),
        jnp.zeros(rest, jnp.int32),
    )


def _apply_margin_head(
    solve: Callable[..., MarginHeadState],
    scale: Array,
    num_classes: int | None,
    state: MarginHeadState,
    features: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> tuple[Array, MarginHeadState]:
    _validate_margin_state(state, num_classes)
    matrix = check.numeric("features", features, shape=("m", state.votes.shape[0]), kinds="f")
    num_rows = matrix.shape[0]
    if mask is not None:
        # what padding holds would reach the gradient of the votes
        counts = check.numeric("mask", mask, shape=(num_rows,), kinds="b")
        matrix = jnp.where(counts[:, None], matrix, 0.0)
    if labels is not None:
        if num_rows == 0:
            raise ValueError(f"features has shape {list(matrix.shape)}: expected one row at least")
        signs = _signs(labels, num_classes, labelled.validate_weights(weights, mask, num_rows)[1])
        one = functools.partial(solve, features=matrix, weights=weights, mask=mask)
        if num_classes is None:
            state = one(state.logits_of_votes, signs)
        else:
            state = jax.vmap(one, in_axes=(1, 1), out_axes=MarginHeadState(1, 1, 0))(
                state.logits_of_votes, signs
            )  # type: ignore[arg-type]
    return scale.astype(matrix.dtype) * (matrix @ state.votes.astype(matrix.dtype)), state


def _validate_kind(state: Any, kind: type) -> None:
    if not isinstance(state, kind):
        raise ValueError(
            f"state is a {type(state).__name__}: expected a {kind.__name__}, as `init` gives it"
        )


def _validate_margin_state(state: Any, num_classes: int | None) -> None:
    """Raises ValueError unless it is a state of a margin head with as many classes."""
    _validate_kind(state, MarginHeadState)
    rest = () if num_classes is None else (num_classes,)
    votes = check.numeric("state.votes", state.votes, shape=("n", *rest), kinds="f")
    check.numeric(
        "state.logits_of_votes",
        state.logits_of_votes,
        shape=(2 * votes.shape[0], *rest),
        kinds="f",
    )


def _signs(labels: ArrayLike, num_classes: int | None, kept: Array) -> Array:
    """+1 and -1, [m] or [m, k] for k classes; NaN for a label that is traced and out of range.

    Raises:
      ValueError: naming `labels`, where they are known and one that counts is out of range; naming
        `mask`, where it is known and empty.
    """
    if check.are_known(kept):
        with jax.ensure_compile_time_eval():
            is_empty = not bool(jnp.any(kept))
        if is_empty:
            raise ValueError("mask is empty: keep one example at least")
    if num_classes is None:
        given = check.label_array("labels", labels, shape=kept.shape)
        labelled.validate_known_labels(given, kept)
        signs = given.astype(float)
        return jnp.where(jnp.abs(signs) == 1, signs, jnp.nan)
    classes = check.at_least_32_bits(check.numeric("labels", labels, shape=kept.shape, kinds="iu"))
    is_outside = (classes < 0) | (classes >= num_classes)
    if check.are_known(classes, kept) and bool((is_outside & kept).any()):
        wrong = int(classes[jnp.argmax(is_outside & kept)])
        raise ValueError(f"labels hold {wrong}: expected integers from 0 to {num_classes - 1}")
    is_own = classes[:, None] == jnp.arange(num_classes, dtype=classes.dtype)[None, :]
    signs = jnp.where(is_own, 1.0, -1.0)
    return jnp.where(is_outside[:, None], jnp.nan, signs)


def _solve_votes(
    relaxation: Any,
    smoothing: Array,
    initial: Array,
    labels: Array,
    features: Array,
    weights: ArrayLike | None,
    mask: ArrayLike | None,
) -> MarginHeadState:
    """The votes of either sign for a batch with labels [m], +1 and -1."""
    margins = labels[:, None] * features.astype(float)
    found = relaxed_margin.solve_smoothed(
        jnp.concatenate([margins, -margins], axis=1),
        relaxation,
        smoothing=smoothing,
        weights=weights,
        mask=mask,
        initial=jax.lax.stop_gradient(initial),
    )
    positive, negative = jnp.split(found.coefficients, 2)
    return MarginHeadState(positive - negative, found.logits, found.status)


class PairHeadState(NamedTuple):
    """The best line for two scores."""

    normal: Array  # [2]
    anchor: Array  # [2]
    bias: Array  # []
    # [] the weight of the errors on the examples it was fitted to, the least of any line
    loss: Array


def pair_head(**options: Any) -> Head:
    """A head for evaluation: the exact combination of two scores with the least 0-1 loss.

    Args:
      options: of `jboost.pair.optimal_separator`, such as `method` or `config`.

    Returns:
      A `Head`. `init()` predicts by the first score. `apply(state, scores, labels)` with scores [m,
      2] and labels in {-1, +1} finds the best line and gives its signed scores [m]; without labels
      the line of the state gives them. The logits are differentiable in the scores at a line that
      is held fixed. The state has no derivative: `jax.grad` of its loss raises a TypeError.

    Source: Boyarshinov and Magdon-Ismail (2005).

    >>> import jax.numpy as jnp, jboost
    >>> head = jboost.layers.pair_head()
    >>> scores, labels = (
    ...     jnp.array([[1.0, -1.0], [-1.0, 2.0], [-2.0, 1.0], [0.5, -2.0]]),
    ...     jnp.array([1, 1, -1, -1]),
    ... )
    >>> logits, state = head.apply(head.init(), scores, labels)
    >>> float(state.loss), jnp.sign(logits).tolist()
    (0.0, [1.0, 1.0, -1.0, -1.0])
    """
    return Head(_init_pair_head, functools.partial(_apply_pair_head, options))


def _init_pair_head(num_features: int = 2) -> PairHeadState:
    if num_features != 2:
        raise ValueError(
            f"num_features is {num_features}: expected 2, the scores that a pair head combines"
        )
    return PairHeadState(jnp.array([1.0, 0.0]), jnp.zeros(2), jnp.zeros(()), jnp.asarray(jnp.nan))


def _apply_pair_head(
    options: dict[str, Any],
    state: PairHeadState,
    scores: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> tuple[Array, PairHeadState]:
    _validate_kind(state, PairHeadState)
    for name, shape in (("normal", (2,)), ("anchor", (2,)), ("bias", ()), ("loss", ())):
        check.numeric(f"state.{name}", getattr(state, name), shape=shape, kinds="f")
    points = check.numeric("scores", scores, shape=("m", 2), kinds="f")
    if labels is not None:
        fixed = jax.lax.stop_gradient(points)
        found = pair.optimal_separator(fixed, labels, weights=weights, mask=mask, **options)
        # the logits of invalid scores or labels are NaN, not those of a constant
        bias = jnp.where(found.status == int(Status.INVALID_INPUT), jnp.nan, found.bias)
        state = _without_derivative(
            points, PairHeadState(found.normal, found.anchor, bias, found.loss)
        )
    kept = jax.lax.stop_gradient(state)
    offsets = points - kept.anchor.astype(points.dtype)[None, :]
    return offsets @ kept.normal.astype(points.dtype) + kept.bias.astype(points.dtype), state


def _without_derivative(points: Array, state: PairHeadState) -> PairHeadState:
    """The state, which depends on the points [m, 2] and has no derivative."""

    def rule(_: Any, tangents: tuple[Any, ...], results: PairHeadState) -> Any:
        remedy = "its logits have one, at a line that is held fixed"
        return derivatives.refused(results, tangents, "The state of a pair head", remedy)

    marked: PairHeadState = derivatives.define(lambda _, found: found, rule)(points, state)  # type: ignore[assignment]
    return marked
