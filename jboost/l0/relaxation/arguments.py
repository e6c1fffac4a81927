"""The arguments of `solve_relaxation`, validated and padded."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, labelled
from jboost.base.types import Array, ArrayLike
from jboost.l0.types import (
    L0Relaxation,
    Primal,
    RelaxationConfig,
)


def validate_features(features: ArrayLike | None, mask: Array, config: RelaxationConfig) -> Array:
    """The features [m, N], 0 outside `mask` [m], if `config.distance_factor` is set, else an empty
    array [m, 0]. Raises ValueError for values other than 0, 1 and NaN.
    """
    num_examples = mask.shape[0]
    if config.distance_factor is None:
        return jnp.zeros((num_examples, 0))
    if features is None:
        raise ValueError(
            "features is None, but config.distance_factor counts the attributes in which examples"
            " differ: pass [m, N] of 0 and 1"
        )
    given = check.numeric("features", features, shape=(num_examples, "N"), kinds="fiub")
    given = jnp.where(mask[:, None], given, 0)
    if not isinstance(given, jax.core.Tracer):
        values = np.asarray(given, np.float64)
        for row, column in np.argwhere(~(np.isin(values, (0, 1)) | np.isnan(values)))[:1]:
            raise ValueError(
                f"features[{row}, {column}] is {values[row, column]:g}: distances are counted in 0"
                " and 1 (jboost.data.binarization)"
            )
    return jnp.asarray(given).astype(jnp.result_type(float))


def validate_program(
    outputs: ArrayLike,
    labels: ArrayLike,
    costs: ArrayLike,
    *,
    weights: ArrayLike | None,
    mask: ArrayLike | None,
    column_mask: ArrayLike | None,
) -> tuple[Array, ...]:
    """A pool as arrays (outputs, labels, costs, weights, mask, column_mask). Raises ValueError,
    naming the argument.
    """
    outputs = check.numeric("outputs", outputs, shape=("m", "U"), kinds="fiu")
    num_examples, num_columns = outputs.shape
    labels, weights, mask = labelled.validate_examples(labels, weights, mask, num_examples)
    costs = check.numeric("costs", costs, shape=(num_columns,), kinds="fiu")
    column_mask = (
        jnp.ones(num_columns, bool)
        if column_mask is None
        else check.numeric("column_mask", column_mask, shape=(num_columns,), kinds="b")
    )
    _validate_values(outputs, costs, mask, column_mask)
    return outputs, labels, costs, weights, mask, column_mask


def with_one_masked(data: tuple[Array, ...]) -> tuple[Array, ...]:
    """The data with one more example and one more column, both masked out."""
    outputs, *vectors = data
    return jnp.pad(outputs, ((0, 1), (0, 1))), *(jnp.pad(vector, (0, 1)) for vector in vectors)


def without_last(solution: L0Relaxation, shape: tuple[int, ...]) -> L0Relaxation:
    """The solution without the last example and the last column."""

    def primal(side: Any) -> dict[str, Array]:
        return {
            "coefficients": side.coefficients[: shape[1]],
            "selected": side.selected[: shape[1]],
            "slacks": side.slacks[: shape[0]],
        }

    warm = solution.warm
    dual = warm.dual._replace(example_weights=warm.dual.example_weights[: shape[0]])
    warm = warm._replace(primal=Primal(**primal(warm.primal)), dual=dual)
    return solution._replace(
        example_weights=solution.example_weights[: shape[0]], warm=warm, **primal(solution)
    )


def _validate_values(*data: Array) -> None:
    """Raises ValueError naming the first argument with an invalid value. Traced values are not
    checked.
    """
    if any(isinstance(part, jax.core.Tracer) for part in data):
        return
    outputs, costs, mask, column_mask = (np.asarray(part) for part in data)
    checks = {
        "outputs": (
            outputs,
            np.isin(outputs, (-1, 0, 1)) | ~mask[:, None] | ~column_mask[None, :],
            "outputs are -1, 0 or +1",
        )
    }
    checks["costs"] = (
        costs,
        ((costs >= 0) & (costs < np.inf)) | ~column_mask,
        "costs are finite and not negative",
    )
    for name, (values, is_allowed, rule) in checks.items():
        for index in np.argwhere(~is_allowed)[:1].tolist():
            raise ValueError(f"{name}{index} is {values[tuple(index)]:g}: {rule}")
