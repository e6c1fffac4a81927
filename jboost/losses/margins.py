"""Margins of logits, and the soft margin of a batch as a training loss.

Source: Shalev-Shwartz and Singer (2008), Section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from jboost.base import check, labelled, reduce
from jboost.base.named_axis import AxisName
from jboost.base.types import Array, ArrayLike
from jboost.losses.robust import worst_case
from jboost.relaxations import soft_margin


def binary_margins(logits: ArrayLike, labels: ArrayLike) -> Array:
    """y_i g(x_i), [m], of logits [m] and labels [m] in {-1, +1}.

    Raises:
      ValueError: naming the argument, for wrong shapes, and for other labels where they are known;
        traced, these give NaN.

    >>> import jax.numpy as jnp, jboost
    >>> jboost.losses.binary_margins(jnp.array([2.0, 3.0]), jnp.array([1, -1])).tolist()
    [2.0, -3.0]
    """
    scores = check.numeric("logits", logits, shape=("m",), kinds="f")
    signs = check.numeric("labels", labels, shape=(scores.shape[0],), kinds="fiu")
    if check.are_known(signs) and bool(jnp.any(jnp.abs(signs.astype(float)) != 1)):
        raise ValueError(
            "labels hold other numbers than +1 and -1: for class numbers, pass logits [m, k]"
        )
    return jnp.where(jnp.abs(signs) == 1, scores * signs.astype(scores.dtype), jnp.nan)


def max_of_others_margins(logits: ArrayLike, labels: ArrayLike) -> Array:
    """The logit of the label minus the largest other logit, [m].

    It is positive if the prediction is right.

    Args:
      logits: [m, k] with k >= 2.
      labels: [m] integers from 0 to k - 1. A label out of range gives NaN if traced, else an error.

    Source: Crammer and Singer, On the algorithmic implementation of multiclass SVMs (2001).

    >>> import jax.numpy as jnp, jboost
    >>> jboost.losses.max_of_others_margins(jnp.array([[2.0, 3.0, 1.0]]), jnp.array([0])).tolist()
    [-1.0]
    """
    scores, is_own = _classes(logits, labels)
    own = jnp.sum(jnp.where(is_own, scores, 0.0), axis=1)
    others = reduce.largest(jnp.where(is_own, -jnp.inf, scores), axis=1)
    return jnp.where(is_own.any(axis=1), own - others, jnp.nan)


def one_vs_rest_margins(logits: ArrayLike, labels: ArrayLike) -> Array:
    """The logit of the label and the negations of the others, [m, k]: one margin for each class.

    Arguments as of `max_of_others_margins`; k may be 1.

    Source: Rifkin and Klautau, In defense of one-vs-all classification (2004).

    >>> import jax.numpy as jnp, jboost
    >>> jboost.losses.one_vs_rest_margins(jnp.array([[2.0, 3.0, 1.0]]), jnp.array([0])).tolist()
    [[2.0, -3.0, -1.0]]
    """
    scores, is_own = _classes(logits, labels, least=1)
    margins = jnp.where(is_own, scores, -scores)
    return jnp.where(is_own.any(axis=1, keepdims=True), margins, jnp.nan)


def soft_margin_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    nu: ArrayLike,
    margins: Callable[[Array, Array], Array] | None = None,
    smoothing: ArrayLike = 0.0,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis_name: AxisName = None,
) -> Array:
    """The negated soft margin of a batch, []: minus the mean of the worst share nu of the margins.

    It scales with the logits and has no minimum on separable data unless these are bounded. Bound
    them by `jnp.tanh` or by a norm of the last layer, as boosting bounds hypotheses and votes.

    Args:
      logits: [m] for labels in {-1, +1}, or [m, k] for classes.
      labels: [m].
      nu: [] in (0, 1].
      margins: (logits, labels) -> [m] or [m, k]. None for `binary_margins` of logits [m] and
        `max_of_others_margins` of logits [m, k]; `one_vs_rest_margins` counts each class of each
        example as an example.
      smoothing, weights, mask, axis_name: as of `solve_worst_case`; weights and mask are [m]. The
        labels and logits of padding may be anything, except for `margins` of one's own.

    Raises:
      ValueError: naming the argument.

    >>> import jax.numpy as jnp, jboost
    >>> float(
    ...     jboost.losses.soft_margin_loss(
    ...         jnp.array([0.5, -0.25, 0.75]), jnp.array([1, 1, 1]), nu=1 / 3
    ...     )
    ... )
    0.25
    """
    sizes, kept, num_rows = weights, mask, jnp.shape(logits)[:1]
    if (weights is not None or mask is not None) and num_rows:
        sizes, kept = labelled.validate_weights(weights, mask, num_rows[0])
        if margins is None or margins in _WITH_LABELS:
            logits, labels = _without_padding(logits, labels, kept)
    found = _margins_by(margins, logits, labels, num_rows)
    num_classes = found.size // max(found.shape[0], 1)

    def each(values: ArrayLike | None) -> Array | None:
        return None if values is None else jnp.repeat(jnp.asarray(values), num_classes)

    return worst_case(
        -found.reshape(-1),
        soft_margin(nu=nu),
        smoothing=smoothing,
        weights=each(sizes),
        mask=each(kept),
        axis_name=axis_name,
    )


_WITH_LABELS = (binary_margins, max_of_others_margins, one_vs_rest_margins)


def _margins_by(
    margins: Callable[[Array, Array], Array] | None,
    logits: ArrayLike,
    labels: ArrayLike,
    num_rows: tuple[int, ...],
) -> Array:
    """The margins [m] or [m, k] by a function, or by the usual one for None."""
    if margins is None:
        margins = binary_margins if jnp.ndim(logits) == 1 else max_of_others_margins
    if not callable(margins):
        raise ValueError(
            f"margins is a {type(margins).__name__}: expected a function (logits, labels) -> [m] or"
            " [m, k]"
        )
    found = jnp.asarray(margins(logits, labels))  # type: ignore[arg-type]
    if found.ndim not in (1, 2) or found.shape[:1] != num_rows:
        raise ValueError(
            f"margins returns shape {list(found.shape)}: expected [m] or [m, k], m = {num_rows[0]}"
        )
    return found


def _without_padding(logits: ArrayLike, labels: ArrayLike, kept: Array) -> tuple[Array, Array]:
    """Logits 0 and an allowed label in place of those of padding."""
    scores = check.numeric("logits", logits, shape=(kept.shape[0], "..."), kinds="f")
    given = check.numeric("labels", labels, shape=kept.shape, kinds="fiu")
    allowed = jnp.asarray(1 if scores.ndim == 1 else 0, given.dtype)
    rows = check.rows_alike(kept, scores)
    return jnp.where(rows, scores, 0.0), jnp.where(kept, given, allowed)


def _classes(logits: ArrayLike, labels: ArrayLike, *, least: int = 2) -> tuple[Array, Array]:
    """Logits [m, k], and whether a class is the label of an example [m, k] bool."""
    scores = check.numeric("logits", logits, shape=("m", "k"), kinds="f")
    num_classes = scores.shape[1]
    if num_classes < least:
        raise ValueError(f"logits has {num_classes} columns: expected {least} classes at least")
    classes = check.at_least_32_bits(
        check.numeric("labels", labels, shape=(scores.shape[0],), kinds="iu")
    )
    is_own = classes[:, None] == jnp.arange(num_classes, dtype=classes.dtype)[None, :]
    if check.are_known(classes) and not bool(is_own.any(axis=1).all()):
        raise ValueError(
            f"labels hold classes out of range: expected integers from 0 to {num_classes - 1}"
        )
    return scores, is_own
