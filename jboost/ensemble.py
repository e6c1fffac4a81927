"""Scores and text of an ensemble, the weighted vote of hypotheses that every booster returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, loops
from jboost.base.boosting import Ensemble, Learner
from jboost.base.predict import is_invalid, refuse_invalid, scores_of
from jboost.base.protocols import hook
from jboost.base.types import Array, ArrayLike, PyTree, is_packed

__all__ = ["Ensemble", "describe", "outputs", "scores"]

# The most outputs (hypotheses times rows) in memory at a time. A round number; not tuned.
_OUTPUTS_AT_ONCE = 1 << 22


def outputs(ensemble: Ensemble, features: Array) -> Array:
    """The outputs [capacity, k] of all hypotheses on features [k, N].

    Outputs of unused slots are undefined.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> ensemble = jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=1).ensemble
    >>> outputs(ensemble, dataset.features).tolist()
    [[-1.0, 1.0, 1.0]]
    """
    return jax.vmap(lambda hypothesis: ensemble.learner.outputs(hypothesis, features))(
        ensemble.hypotheses
    )


def scores(ensemble: Ensemble, features: Any) -> Array:
    """The score of each row: the constant plus all votes.

    If a hypothesis with an infinite vote applies to the row, the score is +inf or -inf, by the
    first such hypothesis. The score is NaN if the fit ended in INVALID_INPUT. Hypotheses are
    evaluated in blocks, so the memory does not grow with the capacity.

    Args:
      ensemble: of capacity T.
      features: [k, N] or [k, ...], rows of the shape that the ensemble was fitted on.

    Returns:
      [k] scores in the default float type.

    Raises:
      ValueError: at trace time, if `features` is no array of numbers, or its rows have a shape that
        the learner does not take; where the ensemble's values are known also if it has too few
        columns.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> ensemble = jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=1).ensemble
    >>> (scores(ensemble, dataset.features) > 0).tolist()
    [False, True, True]
    """
    if not is_packed(features):
        features = check.numeric("features", features, shape=("k", "N", "..."), kinds="fiub")
    _validate_width(ensemble, features.shape[1])
    return _sum_of_votes(ensemble, features)


@jax.jit
def _sum_of_votes(ensemble: Ensemble, features: Any) -> Array:
    """The scores [k]. It is jitted because a loop outside `jit` is compiled in every call."""
    capacity, num_rows = ensemble.votes.shape[0], features.shape[0]
    block = max(1, min(capacity, _OUTPUTS_AT_ONCE // max(1, num_rows)))
    padding = -capacity % block

    def blocks(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, padding)] + [(0, 0)] * (leaf.ndim - 1)).reshape(
            (capacity + padding) // block, block, *leaf.shape[1:]
        )

    def add_block(
        carry: tuple[Array, Array], part: tuple[PyTree, Array]
    ) -> tuple[tuple[Array, Array], None]:
        # `decided` [k] is the sign of the first infinite vote on each row, 0 before there is one.
        total, decided = carry
        hypotheses, votes = part
        values = jax.vmap(lambda hypothesis: ensemble.learner.outputs(hypothesis, features))(
            hypotheses
        )
        is_used = jnp.any(votes != 0, axis=1, keepdims=True)
        values = jnp.where(is_used, values.astype(votes.dtype), 0.0)
        vote = jnp.where(values > 0, votes[:, :1], jnp.where(values < 0, votes[:, 1:], 0.0))
        decides = jnp.isinf(vote)
        total += jnp.sum(jnp.where(decides, 0.0, vote) * values, axis=0)
        first = jnp.argmax(decides, axis=0)[None, :]
        sign = jnp.sign(jnp.take_along_axis(vote * values, first, axis=0)[0])
        return (total, jnp.where((decided == 0) & jnp.any(decides, axis=0), sign, decided)), None

    votes = jnp.asarray(ensemble.votes).astype(float)
    start = (
        jnp.full((num_rows,), ensemble.constant, votes.dtype),
        jnp.zeros((num_rows,), votes.dtype),
    )
    (total, decided), _ = loops.scan(
        add_block, start, jax.tree.map(blocks, (ensemble.hypotheses, votes))
    )
    return jnp.where(
        (decided == 0) | is_invalid(ensemble), total, jnp.where(decided > 0, jnp.inf, -jnp.inf)
    )


def _validate_width(ensemble: Ensemble, num_features: int) -> None:
    """Raises ValueError if a hypothesis in use is known to read a column that does not exist."""
    places = hook(Learner, ensemble.learner, "places")(ensemble.hypotheses)
    if (
        places is None
        or isinstance(places, jax.core.Tracer)
        or isinstance(ensemble.count, jax.core.Tracer)
    ):
        return
    last = int(np.max(np.asarray(places)[: int(ensemble.count)], initial=-1))
    if last >= num_features:
        raise ValueError(
            f"features has {num_features} columns, and the ensemble reads column {last}: pass"
            " the columns that it was fitted on"
        )


@is_invalid.register
def _(model: Ensemble) -> Array:
    return jnp.isnan(model.constant)


@scores_of.register
def _(model: Ensemble, features: ArrayLike) -> Array:
    return scores(model, features)


def describe(ensemble: Ensemble, names: Sequence[str]) -> str:
    """The ensemble as text, one rule per line: a condition, and the votes if it is true or false.

    Args:
      ensemble: concrete arrays, of a learner with a method `describe(hypothesis, names)`.
      names: the names of the N features.

    Returns:
      Lines of text: rules with infinite votes first, in the order of the rounds, then the others in
      descending order of their votes. Unused slots are left out.

    Raises:
      ValueError: if the learner cannot describe hypotheses, if there are fewer names than features
        in use, or if the fit ended in INVALID_INPUT.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> ensemble = jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=1).ensemble
    >>> "age > 0.5" in describe(ensemble, ["age"])
    True
    """
    if not hook(Learner, ensemble.learner, "can_describe"):
        raise ValueError(
            f"ensemble is of a {type(ensemble.learner).__name__}, which has no describe(hypothesis,"
            " names): add that method to the learner"
        )
    check.on_host(
        "jboost.ensemble.describe",
        instead="return the ensemble, and describe it afterwards",
        ensemble=ensemble,
    )
    refuse_invalid(ensemble)
    votes, names = np.asarray(ensemble.votes), [" ".join(str(name).splitlines()) for name in names]
    sizes = np.abs(votes).max(axis=1)
    order = [
        *np.flatnonzero(np.isinf(sizes)),
        *(slot for slot in np.argsort(-sizes, kind="stable") if 0 < sizes[slot] < np.inf),
    ]
    lines = [_rule(ensemble, int(slot), votes[slot], names) for slot in order]
    constant = float(ensemble.constant)
    return (
        "\n".join([*lines, *([f"{constant:+.4g} always"] if constant else [])])
        or "no hypothesis votes"
    )


def _rule(ensemble: Ensemble, slot: int, votes: Any, names: Sequence[str]) -> str:
    hypothesis = jax.tree.map(lambda leaf: np.asarray(leaf[slot]), ensemble.hypotheses)
    try:
        what = ensemble.learner.describe(hypothesis, names)
    except IndexError:
        raise ValueError(
            f"names holds {len(names)} texts, and the ensemble reads more features: pass one name"
            " for each feature"
        ) from None
    weight = (
        f"{votes[0]:.4g}"
        if votes[0] == votes[1]
        else f"{votes[0]:.4g} if positive, {votes[1]:.4g} if negative"
    )
    return f"{weight} * [{what}]"
