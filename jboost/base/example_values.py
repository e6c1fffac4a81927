"""Checks of the values of labelled examples, on the host."""

from __future__ import annotations

import jax
import numpy as np

from jboost.base import check

ArrayLike = jax.typing.ArrayLike


def _first_bad(name: str, values: np.ndarray, bad: np.ndarray, what: str, remedy: str) -> None:
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        position = ", ".join(map(str, index))
        shown = str(values[index]).removesuffix(".0")
        raise ValueError(
            f"{name}[{position}] is {shown}: {what} ({int(bad.sum())} such in all); {remedy}"
        )


def values(
    features: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    mask: ArrayLike,
    *,
    names: tuple[str, str, str] = ("features", "labels", "weights"),
) -> None:
    """Validates the values of labelled examples on the host; rows that are masked out, or of weight
    0, may hold anything.

    Raises:
      ValueError: naming the argument and the first bad entry, for NaN or infinite features, labels
        outside {-1, +1}, and weights that are negative or not finite, or all 0.
    """
    require_weights(weights, mask, name=names[2])
    counts = np.asarray(mask) & (np.asarray(weights) != 0)
    host_features = np.asarray(features)
    if host_features.dtype.kind not in "iub":
        as_float = host_features.astype(np.float64)
        bad = ~np.isfinite(as_float) & check.rows_alike(counts, as_float)
        _first_bad(
            names[0],
            as_float,
            bad,
            "not a finite number",
            "drop the row, fill the value in, or mask the row out",
        )
    require_labels(labels, counts, name=names[1])


def require_labels(labels: ArrayLike, mask: ArrayLike, *, name: str = "labels") -> None:
    """Raises ValueError, on the host, for the first of labels [m] that counts and is neither -1 nor
    +1, and says what maps them.
    """
    host, counts = np.asarray(labels), np.asarray(mask)
    signs = host.astype(np.float64)
    _first_bad(
        name,
        host,
        (np.abs(signs) != 1) & counts,
        "labels are -1 or +1",
        _label_remedy(name, np.unique(signs[counts])),
    )


def _label_remedy(name: str, classes: np.ndarray) -> str:
    if not np.isfinite(classes).all():
        return "mask out examples whose label is not known, or leave them out"
    if set(classes) <= {0.0, 1.0}:
        return f"map 0/1 labels by 2 * {name} - 1"
    if len(classes) == 2:
        return f"map the two classes by numpy.where({name} == {classes[1]:g}, 1, -1)"
    return (
        "map the two classes to -1 and +1; of more classes take one against the rest, as by"
        f" numpy.where({name} == {classes[-1]:g}, 1, -1)"
    )


def require_weights(weights: ArrayLike, mask: ArrayLike, *, name: str = "weights") -> None:
    """Raises ValueError, on the host, for the first of weights [m] that counts and is negative or
    not finite; and where all are 0.
    """
    host, counts = np.asarray(weights), np.asarray(mask)
    sizes = host.astype(np.float64)
    with np.errstate(invalid="ignore"):
        bad = ~((sizes >= 0) & np.isfinite(sizes)) & counts
    _first_bad(
        name,
        host,
        bad,
        "weights are finite and not negative",
        "a weight of 0, or mask False, leaves an example out",
    )
    tiny = float(np.finfo(host.dtype).tiny) if host.dtype.kind == "f" else 0.0
    bad = (sizes > 0) & (sizes < tiny) & counts
    _first_bad(
        name,
        host,
        bad,
        f"weights below {tiny:.3g} count as 0",
        "multiply all of them by a large number",
    )
    if counts.any() and not sizes[counts].any():
        raise ValueError(
            f"{name} are 0 for all {int(counts.sum())} examples: at least one must be above 0;"
            f" leave {name} out to count all alike"
        )
