"""Scores and text of an ensemble, the weighted vote of hypotheses that every booster returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, loops, numerics
from jboost.base.boosting import Ensemble, Learner
from jboost.base.predict import is_invalid, refuse_invalid, scores_of
from jboost.base.protocols import hook
from jboost.base.types import Array, ArrayLike, PyTree, is_packed

__all__ = ["Ensemble", "describe", "outputs", "scores"]

# The most outputs (hypotheses times rows) in memory at a time. A round number; not tuned.
_OUTPUTS_AT_ONCE = 1 << 22
# Integers up to 2^53 are exact in float64. Sums have at most 2^52 units.
_DIGITS = 52
_LEAST_UNIT = 2.0**-1000  # keeps units and quotients by them normal numbers


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
    first such hypothesis; otherwise an infinite constant decides. The score is NaN if the fit ended
    in INVALID_INPUT. Hypotheses are evaluated in blocks, so the memory does not grow with the
    capacity.

    Votes are added in 64 bits as multiples of a unit (`vote_unit`), so that no sum is rounded. The
    score of a row does not depend on the other rows, on the order of the hypotheses or on the
    device, as long as the outputs do not.

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


def vote_unit(votes: ArrayLike, constant: ArrayLike) -> float:
    """The unit of the votes: a power of two so large that sums of all votes and the constant have
    at most 2^52 units, which float64 holds exactly, for outputs in [-1, 1]. Of n votes the largest
    one then has at least 2^50 / (n + 1) units.

    Args:
      votes: [T, 2], known on the host.
      constant: [].

    >>> vote_unit([[1.0, 1.0], [0.5, 0.25]], 0.0) == 2.0**-50
    True
    """
    wide = np.asarray(votes, np.float64).reshape(-1, 2)
    used = int((wide != 0).any(axis=1).sum())
    numbers = np.append(wide, np.asarray(constant, np.float64))
    largest = np.abs(np.where(np.isinf(numbers), 0.0, numbers)).max()
    half, count = _power_at_least(largest / 2), _power_at_least(used + 1.0)
    return float(max(half * (count * 2.0 ** (1 - _DIGITS)), _LEAST_UNIT))


def votes_in_units(votes: ArrayLike, unit: float) -> np.ndarray:
    """The multiples of the unit that are added for finite votes [...]: the nearest ones, but never
    0 for a vote that is not. Infinite votes are kept.

    >>> votes_in_units([0.3, 1e-9, 0.0], 0.25).tolist()
    [0.25, 0.25, 0.0]
    """
    wide = np.asarray(votes, np.float64)
    sizes = np.maximum(np.round(np.abs(wide) / unit) * unit, unit)
    return np.where(wide != 0, np.sign(wide) * sizes, 0.0)


def _power_at_least(number: float) -> float:
    """The smallest power of two that is not below a positive number; 1 for 0."""
    mantissa, exponent = np.frexp(number)
    return float(np.ldexp(1.0, exponent - (mantissa == 0.5))) if number else 1.0


@jax.jit
def _sum_of_votes(ensemble: Ensemble, features: Any) -> Array:
    """The scores [k]. It is jitted because a loop outside `jit` is compiled in every call."""
    return _sum_in_units(ensemble, features)


@jax.custom_jvp
def _sum_in_units(ensemble: Ensemble, features: Any) -> Array:
    votes = jnp.asarray(ensemble.votes).astype(float)
    outside = bool(jax.config.read("jax_enable_x64"))

    def run(hypotheses: PyTree, votes: Array, features: Any, constant: Array) -> Array:
        unit = _unit_of(votes, constant)

        def add_block(
            carry: tuple[Array, Array], part: tuple[PyTree, Array, Array]
        ) -> tuple[tuple[Array, Array], None]:
            # `decided` [k] is the sign of the first infinite vote on each row, 0 before there is
            # one.
            total, decided = carry
            hypotheses, votes, rounded = part
            with jax.enable_x64(outside):  # the learner's types are those of the caller
                values = _outputs_of_block(ensemble.learner, hypotheses, votes, features)
                decided = loops.cond(
                    jnp.any(jnp.isinf(votes)),
                    lambda known: jnp.where(known == 0, _first_infinite(values, votes), known),
                    lambda known: known,
                    decided,
                )
            vote = jnp.where(values > 0, rounded[:, :1], jnp.where(values < 0, rounded[:, 1:], 0.0))
            terms = _to_multiples(vote * values.astype(rounded.dtype), unit)
            return (total + jnp.sum(terms, axis=0), decided), None

        num_rows = features.shape[0]
        start = (
            jnp.full((num_rows,), _in_units(constant, unit)),
            jnp.zeros((num_rows,), votes.dtype),
        )
        (total, decided), _ = loops.scan(
            add_block, start, _blocks((hypotheses, votes, _in_units(votes, unit)), num_rows)
        )
        score = _decide(total, decided, constant, is_invalid(ensemble))
        return _narrow(score, votes.dtype)

    return numerics.in_64_bits(run)(
        ensemble.hypotheses, votes, features, jnp.asarray(ensemble.constant)
    )


@_sum_in_units.defjvp
def _derivative_of_sum(
    primals: tuple[Ensemble, Any], tangents: tuple[Ensemble, Any]
) -> tuple[Array, Array]:
    """The derivative without the rounding to units; 0 where an infinite vote decides."""
    score = _sum_in_units(*primals)
    _, tangent = jax.jvp(_sum_without_units, primals, tangents)
    return score, jnp.where(jnp.isinf(score), 0.0, tangent)


def _sum_without_units(ensemble: Ensemble, features: Any) -> Array:
    votes = jnp.asarray(ensemble.votes).astype(float)

    def add_block(total: Array, part: tuple[PyTree, Array]) -> tuple[Array, None]:
        hypotheses, votes = part
        values = _outputs_of_block(ensemble.learner, hypotheses, votes, features)
        vote = jnp.where(values > 0, votes[:, :1], jnp.where(values < 0, votes[:, 1:], 0.0))
        return total + jnp.sum(jnp.where(jnp.isinf(vote), 0.0, vote) * values, axis=0), None

    num_rows = features.shape[0]
    start = jnp.full((num_rows,), ensemble.constant, votes.dtype)
    total, _ = loops.scan(add_block, start, _blocks((ensemble.hypotheses, votes), num_rows))
    return total


def _blocks(parts: PyTree, num_rows: int) -> PyTree:
    """Arrays [T, ...] as [T / block, block, ...], padded with 0."""
    capacity = jax.tree.leaves(parts)[-1].shape[0]
    block = max(1, min(capacity, _OUTPUTS_AT_ONCE // max(1, num_rows)))
    padding = -capacity % block

    def in_blocks(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, padding)] + [(0, 0)] * (leaf.ndim - 1)).reshape(
            (capacity + padding) // block, block, *leaf.shape[1:]
        )

    return jax.tree.map(in_blocks, parts)


def _outputs_of_block(learner: Any, hypotheses: PyTree, votes: Array, features: Any) -> Array:
    """The outputs [T, k] of hypotheses, 0 for those without a vote."""
    values = jax.vmap(lambda hypothesis: learner.outputs(hypothesis, features))(hypotheses)
    is_used = jnp.any(votes != 0, axis=1, keepdims=True)
    return jnp.where(is_used, values.astype(votes.dtype), 0.0)


def _first_infinite(values: Array, votes: Array) -> Array:
    """The sign [k] of the first infinite vote on each row, for outputs [T, k]; 0 for none."""
    vote = jnp.where(values > 0, votes[:, :1], jnp.where(values < 0, votes[:, 1:], 0.0))
    decides = jnp.isinf(vote)
    first = jnp.argmax(decides, axis=0)[None, :]
    sign = jnp.sign(jnp.take_along_axis(vote * values, first, axis=0)[0])
    return jnp.where(jnp.any(decides, axis=0), sign, 0.0)


def _decide(total: Array, decided: Array, constant: Array, is_spoiled: Array) -> Array:
    """The scores [k]: the sums, or infinite where `decided` is not 0, or where the constant is."""
    is_decided = (decided != 0) & ~is_spoiled
    total = jnp.where(jnp.isinf(constant), constant.astype(total.dtype), total)
    return jnp.where(is_decided, decided * jnp.inf, total)


def _unit_of(votes: Array, constant: Array) -> Array:
    """`vote_unit` of traced arrays, in the 64-bit scope."""
    wide = jnp.dtype("float64")
    used = jnp.sum(jnp.any(votes != 0, axis=1).astype(wide))
    numbers = jnp.append(votes.astype(wide), constant.astype(wide))
    largest = jnp.max(jnp.abs(jnp.where(jnp.isinf(numbers), 0.0, numbers)))
    half, count = (numerics.power_of_two_at_least(number) for number in (largest / 2, used + 1))
    return jnp.maximum(half * (count * 2.0 ** (1 - _DIGITS)), _LEAST_UNIT)


def _in_units(votes: Array, unit: Array) -> Array:
    """`votes_in_units` of traced arrays, in the 64-bit scope; 0 for infinite votes."""
    wide = jnp.where(jnp.isinf(votes), 0.0, votes).astype(jnp.dtype("float64"))
    sizes = jnp.maximum(_to_multiples(jnp.abs(wide), unit), unit)
    return jnp.where(wide != 0, jnp.sign(wide) * sizes, 0.0)


def _to_multiples(values: Array, unit: Array) -> Array:
    """The nearest multiples of the unit. XLA would simplify (values + c) - c for a constant c."""
    return jnp.round(values * (1 / unit)) * unit  # a power of two: both products are exact


def _narrow(scores: Array, dtype: Any) -> Array:
    """The scores in the type of the caller; none that is not 0 becomes 0."""
    least = float(jnp.finfo(dtype).tiny)
    kept = jnp.where(scores != 0, jnp.sign(scores) * jnp.maximum(jnp.abs(scores), least), 0.0)
    return kept.astype(dtype)


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
