"""Sorts the examples of a relaxation, the minority class first, and restores the order of the
caller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jboost.base.types import Array
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import CutIndices, RelaxationInstance, WarmStart


def make_instance(
    outputs: Array,
    labels: Array,
    costs: Array,
    weights: Array,
    mask: Array,
    column_mask: Array,
    margin: Array,
    either: Array | bool = False,
) -> tuple[RelaxationInstance, Array]:
    """The relaxation with sorted examples, and whether all values are valid, [] bool. If they are
    not, valid values replace all of them.
    """
    dtype = jnp.result_type(float)
    matters = mask[:, None] & column_mask[None, :]
    given = _CallerValues(
        outputs=jnp.where(matters, outputs, 0).astype(dtype),
        labels=jnp.where(mask, labels, 1).astype(dtype),
        costs=jnp.where(column_mask, costs, 0).astype(dtype),
        weights=jnp.where(mask, weights, 1).astype(dtype),
        margin=margin,
    )
    given, is_valid = _if_valid(given)
    order, num_minority = _sort_by_class(given.labels, mask)
    signed = (given.outputs * given.labels[:, None])[order]
    matters = matters[order]
    instance = RelaxationInstance(
        margins=jnp.where(matters, signed, 0),
        hits=jnp.where(matters & (signed == 1), 1, 0).astype(dtype),
        misses=jnp.where(matters & (signed != -1), 1, 0).astype(dtype),
        weights=jnp.where(mask, given.weights, 0)[order],
        costs=given.costs,
        is_column=column_mask,
        margin=given.margin,
        unit=_unit_of_loss(given, mask),
        either=jnp.asarray(either),
        num_minority=num_minority,
        num_real=jnp.sum(mask, dtype=jnp.int32),
        order=order,
        bits=jnp.zeros((order.shape[0], 0), dtype),
        reach=jnp.full((), jnp.inf, dtype),
    )
    return instance, is_valid


class _CallerValues(NamedTuple):
    """The values of the caller. Values of padding are valid."""

    outputs: Any  # [m, U]
    labels: Any  # [m]
    costs: Any  # [U]
    weights: Any  # [m]
    margin: Any  # []


_INSTEAD = _CallerValues(outputs=0, labels=1, costs=0, weights=1, margin=1)  # of values not allowed


def _if_valid(given: _CallerValues) -> tuple[_CallerValues, Array]:
    """The values, or valid values if one of them is not valid; and whether all are, [] bool."""
    is_valid = _are_valid(given)
    values = (jnp.where(is_valid, *pair) for pair in zip(given, _INSTEAD, strict=True))
    return _CallerValues(*values), is_valid


def _are_valid(given: _CallerValues) -> Array:
    are_valid = (
        jnp.all((given.outputs == -1) | (given.outputs == 0) | (given.outputs == 1))
        & jnp.all(jnp.abs(given.labels) == 1)
        & (given.margin > 0)
        & (given.margin <= 1)
    )
    return (
        are_valid
        & jnp.all((given.costs >= 0) & (given.costs < jnp.inf))
        & jnp.all((given.weights > 0) & (given.weights < jnp.inf))
    )


def _sort_by_class(labels: Array, mask: Array) -> tuple[Array, Array]:
    """The indices [m] of the minority class, the majority class and the padding, and the size of
    the minority class. If the classes tie, the positive class counts as the minority.
    """
    is_positive, is_negative = mask & (labels > 0), mask & (labels < 0)
    minority_is_positive = jnp.sum(is_positive) <= jnp.sum(is_negative)
    is_minority, is_majority = (
        jnp.where(minority_is_positive, is_positive, is_negative),
        jnp.where(minority_is_positive, is_negative, is_positive),
    )
    order = jnp.argsort(
        jnp.where(is_minority, 0, jnp.where(is_majority, 1, 2)), stable=True
    ).astype(jnp.int32)
    return order, jnp.sum(is_minority, dtype=jnp.int32)


def with_distances(
    instance: RelaxationInstance, features: Array, factor: float | None
) -> RelaxationInstance:
    """The instance with cuts only for pairs at a distance of at most `factor` times the least
    distance of a pair; None for all pairs. The distance is the number of attributes that differ.
    """
    if factor is None:
        return instance
    bits = jnp.where(features == 1, 1.0, jnp.where(features == 0, -1.0, 0.0)).astype(
        instance.margins.dtype
    )[instance.order]
    indices = jnp.arange(bits.shape[0])
    is_minority = indices < instance.num_minority
    least = pair_cuts.least_distance(
        bits, is_minority, ~is_minority & (indices < instance.num_real)
    )
    return instance._replace(bits=bits, reach=factor * least)


def _unit_of_loss(given: _CallerValues, mask: Array) -> Array:
    """The largest weight, or else the largest cost, or else 1, []."""
    return _first_positive(
        jnp.max(jnp.where(mask, given.weights, 0), initial=0), jnp.max(given.costs, initial=0)
    )


def _first_positive(*values: Array) -> Array:
    """The first positive value, 1 if there is none."""
    unit = jnp.ones((), values[0].dtype)
    for value in reversed(values):
        unit = jnp.where(value > 0, value, unit)
    return unit


def known_cuts(instance: RelaxationInstance, pairs: Array) -> CutIndices:
    """The cuts of pairs [K, 2] of examples in the order of the caller, with indices in the order of
    the instance. Pairs that are not of opposite classes, or have no cut in this instance, are left
    out.
    """
    num_examples = instance.weights.shape[0]
    position = (
        jnp.zeros((num_examples + 1,), jnp.int32)
        .at[instance.order]
        .set(jnp.arange(num_examples, dtype=jnp.int32))
        .at[-1]
        .set(num_examples)
    )
    inside = jnp.all((pairs >= 0) & (pairs < num_examples), axis=1)
    ends = position[jnp.where(inside[:, None], pairs, num_examples)]
    cuts = CutIndices(ends[:, 0], ends[:, 1])
    are_opposite = (jnp.min(ends, axis=1) < instance.num_minority) & (
        jnp.max(ends, axis=1) >= instance.num_minority
    )
    inside = (
        inside
        & are_opposite
        & jnp.all(ends < instance.num_real, axis=1)
        & pair_cuts.have_cuts(instance, cuts)
    )
    return CutIndices(*(jnp.where(inside, end, num_examples) for end in cuts))


def ordered(instance: RelaxationInstance, warm: WarmStart) -> WarmStart:
    """The warm start with its examples in the order of the instance."""
    primal, dual = warm.primal, warm.dual
    return warm._replace(
        primal=primal._replace(slacks=primal.slacks[instance.order]),
        dual=dual._replace(example_weights=dual.example_weights[instance.order]),
    )


def unordered_start(instance: RelaxationInstance, warm: WarmStart) -> WarmStart:
    """The warm start with its examples in the order of the caller, and with mu = 0 in slots without
    a column.
    """
    primal, dual = warm.primal, warm.dual
    return warm._replace(
        primal=primal._replace(
            selected=jnp.where(instance.is_column, primal.selected, 0.0),
            slacks=unordered(instance, primal.slacks),
        ),
        dual=dual._replace(example_weights=unordered(instance, dual.example_weights)),
    )


def unordered(instance: RelaxationInstance, values: Array) -> Array:
    """Values [m] in the order of the instance, rearranged to the order of the caller."""
    return jnp.zeros_like(values).at[instance.order].set(values)


def numbers_of(instance: RelaxationInstance, cuts: CutIndices) -> Array:
    """The pairs [K, 2] with indices in the order of the caller, -1 for an empty slot."""
    return jnp.stack(
        [instance.order.at[end].get(mode="fill", fill_value=-1) for end in cuts], axis=1
    )
