"""Where a solve of the relaxation starts, and how many cuts it holds."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jboost.base.types import Array
from jboost.l0.relaxation import all_pairs
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation.pair_blocks import PairLayout
from jboost.l0.types import (
    AllPairsConfig,
    Dual,
    L0Relaxation,
    Primal,
    RelaxationConfig,
    WarmStart,
)

# The default capacity is at least `_FEW_CUTS`. With few columns more cuts than examples may be
# binding. So the capacity per example is up to `_CUTS_PER_EXAMPLE`, and up to `_CUTS_AND_COLUMNS`
# divided by the number of columns, while the rows of the cuts have at most `_FEW_ENTRIES` entries.
# Found by trial on stumps of random data, 400 examples, margins from .02 to .4: 6.5 cuts per
# example were binding with 12 columns, 4.1 with 16, 1.7 with 24 and .3 with 40. Twice the capacity
# takes up to twice the time.
_FEW_CUTS, _CUTS_PER_EXAMPLE, _CUTS_AND_COLUMNS = 1024, 8, 96
_FEW_ENTRIES = 1 << 17


def capacity_of(config: RelaxationConfig, shape: tuple[int, ...]) -> int:
    """The number of cuts held at a time, static."""
    if holds_all_pairs(config, shape):
        return all_pairs.num_entries(shape[0])
    everything = max(1, pair_cuts.num_pairs(shape[0]))
    if config.capacity is not None:
        return min(everything, config.capacity)
    num_examples, num_columns = shape
    columns = max(num_columns, 1)
    of_few_columns = min(
        _CUTS_PER_EXAMPLE * num_examples,
        _CUTS_AND_COLUMNS * num_examples // columns,
        _FEW_ENTRIES // columns,
    )
    return min(everything, max(num_examples + 2 * num_columns, _FEW_CUTS, of_few_columns))


def _validate_layout(weights: Array, layout: PairLayout | None) -> None:
    """Raises ValueError unless unlisted pair weights have the shape of the layout."""
    expected = None if layout is None else list(layout.shape)
    if list(weights.shape) != expected:
        raise ValueError(
            f"initial has pair weights of shape {list(weights.shape)} whose pairs are not listed:"
            f" expected {expected or 'a list of pairs'}; compute it with"
            " AllPairsConfig(lists_pairs=True), then it can start any program of the same examples"
        )


def warm_of(
    initial: Any, shape: tuple[int, ...], config: RelaxationConfig, layout: PairLayout | None = None
) -> WarmStart | None:
    """`initial` padded to this number of columns and cuts. Raises ValueError if it does not fit."""
    if initial is None:
        return None
    warm = _of_proof(initial) if isinstance(initial, L0Relaxation) else initial
    if not isinstance(warm, WarmStart):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected an L0Relaxation or its `warm`"
        )
    capacity, dtype = capacity_of(config, shape), jnp.result_type(float)
    weights, is_vector = warm.dual.pair_weights, warm.dual.pair_weights.ndim == 3
    if is_vector:
        _validate_layout(weights, layout)
    elif all_pairs.keeps_vectors(config):
        capacity = weights.shape[0]

    if warm.primal.slacks.shape[0] != shape[0]:
        raise ValueError(f"initial has {warm.primal.slacks.shape[0]} examples: expected {shape[0]}")
    coefficients, selected = (
        _extended("columns", part, shape[1]).astype(dtype) for part in warm.primal[:2]
    )
    return WarmStart(
        Primal(coefficients, selected, warm.primal.slacks.astype(dtype)),
        Dual(
            warm.dual.example_weights.astype(dtype),
            (weights if is_vector else _extended("cuts", weights, capacity)).astype(dtype),
        ),
        warm.pairs if is_vector else _extended("cuts", warm.pairs, capacity, -1),
        warm.convexity.astype(dtype),
        warm.primal_weight.astype(dtype),
    )


def _extended(name: str, values: Array, size: int, fill: int = 0) -> Array:
    """The values, padded to this number of them. Raises ValueError if there are more."""
    missing = size - values.shape[0]
    if missing < 0:
        raise ValueError(
            f"initial has {values.shape[0]} {name}: expected at most {size}, the number in this"
            " program"
        )
    widths = [(0, missing)] + [(0, 0)] * (values.ndim - 1)
    return jnp.pad(values, widths, constant_values=fill)


def _of_proof(solution: L0Relaxation) -> WarmStart:
    """A warm start from the primal and dual solutions that prove the bounds, not from the last
    iterate. So the first round proves the same bounds without a solve.
    """
    return WarmStart(
        Primal(solution.coefficients, solution.selected, solution.slacks),
        Dual(solution.example_weights, solution.pair_weights),
        solution.pairs,
        solution.convexity,
        solution.warm.primal_weight,
    )


def cold(num_examples: int, num_columns: int, config: RelaxationConfig) -> WarmStart:
    """A warm start of the right shapes without any information."""
    dtype = jnp.result_type(float)
    capacity = capacity_of(config, (num_examples, num_columns))
    examples, columns, cuts = (
        jnp.zeros((size,), dtype) for size in (num_examples, num_columns, capacity)
    )
    pairs = jnp.full((capacity, 2), -1, jnp.int32)
    return WarmStart(
        Primal(columns, columns, examples),
        Dual(examples, cuts),
        pairs,
        jnp.full((), jnp.inf, dtype),
        jnp.zeros((), dtype),
    )


def holds_all_pairs(config: RelaxationConfig, shape: tuple[int, ...]) -> bool:
    """Whether the solver holds all pairs and there are any."""
    return isinstance(config.solver, AllPairsConfig) and pair_cuts.num_pairs(shape[0]) > 0
