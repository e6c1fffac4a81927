"""Data set, learner and options of L0-RBoost, for the functions of `jboost.l0` that take them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from jboost import l0, learners
from jboost.base.padding import pad_dataset
from jboost.base.types import Dataset
from jboost.cli import bits as bit_module
from jboost.cli import sizes
from jboost.cli.options import Settings
from jboost.data import merging
from jboost.monomials import SearchConfig, costs

NUM_PROPOSED = 64  # largest number of rules that one call of the learner returns
_VOTES: dict[str, Callable[..., Any]] = {
    "sparse": l0.SearchConfig,
    "relaxed": l0.RelaxedConfig,
    "coefficients": l0.CoefficientsConfig,
    "vertex": l0.VertexConfig,
}
_CONFIG = l0.RelaxationConfig(max_rounds=5)  # rounds of cuts between two calls of the learner


def prepare(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    *,
    num_attributes: int,
    has_gaps: bool,
    num_rows: int | None = None,
) -> tuple[Dataset, Partial, dict[str, Any]]:
    """Returns the merged and padded data set, a function from kappa to a learner, and the keyword
    arguments that all functions of `jboost.l0` share.

    The arguments are those of `jboost.cli.l0.method.fit`.
    """
    bits = bit_module.widened(bits, sizes.literals(bits.shape[1]))
    merged = merge(bits, labels, weights, chosen, num_rows, settings)
    make_learner = maker_of(settings, num_attributes, int(chosen.sum()), has_gaps)
    return merged.dataset, make_learner, options_of(settings)


def options_of(settings: Settings) -> dict[str, Any]:
    """Returns the keyword arguments that all functions of `jboost.l0` over a learner share."""
    return {
        "tolerance": settings.tolerance,
        "max_rounds": settings.rounds,
        "max_columns": settings.max_columns,
        "config": dataclasses.replace(_CONFIG, capacity=settings.capacity),
    }


def maker_of(settings: Settings, num_attributes: int, num_rows: int, has_gaps: bool) -> Partial:
    """Returns a function from kappa to a learner."""
    return Partial(_maker(settings.max_order, has_gaps), num_attributes, num_rows)


@functools.lru_cache
def _maker(max_order: int, has_gaps: bool) -> Callable[..., Any]:
    """Returns a function that makes a learner from the numbers of attributes and rows and kappa.

    The function is cached: JAX compiles again for a new function object.
    """
    config = SearchConfig(missing=has_gaps)

    def make_learner(num_attributes: Any, num_rows: Any, kappa: Any) -> Any:
        cost = costs.mdl(kappa, num_attributes=num_attributes, num_examples=num_rows)
        return learners.monomials(max_order, cost=cost, num_proposed=NUM_PROPOSED, config=config)

    return make_learner


def search_of(vote: str, settings: Settings) -> Any:
    """Returns the configuration of the final vote."""
    return (
        _VOTES[vote]()
        if settings.max_rules is None
        else _VOTES[vote](max_hypotheses=settings.max_rules)
    )


def merge(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    num_rows: int | None,
    settings: Settings,
) -> merging.Merged:
    """Merges equal rows among those where `chosen` [m] is True, and pads their number."""
    merged = merging.merge_equal(dataset_of(bits, labels, weights, chosen, settings.precision))
    most_rows = max(len(merged.dataset.labels), num_rows or 0)
    return merged._replace(
        dataset=pad_dataset(merged.dataset, num_examples=sizes.superlinear(most_rows))
    )


def dataset_of(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    precision: str,
) -> Dataset:
    sizes = np.ones(len(labels)) if weights is None else weights
    features, signs, prices, mask = (
        jax.numpy.asarray(part)
        for part in (bits, labels.astype(precision), sizes.astype(precision), chosen)
    )
    return Dataset(features, signs, prices, mask)
