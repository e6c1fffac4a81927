"""Converts the points of a front to lines in the float type of the result."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.pair.leave_one_out.near_optimal_lines import holds_gaps
from jboost.pair.pareto.walk import FoundFront, FrontPoint
from jboost.pair.sweep import visits
from jboost.pair.sweep.instance import Encoding, LineInstance, bound_loss, meets
from jboost.pair.sweep.line import Line, draw_line, misclassified
from jboost.pair.types import ParetoFront


def draw_front(
    instance: LineInstance, encoding: Encoding, found: FoundFront, result_dtype: jnp.dtype
) -> ParetoFront:
    """The front in the units of the data, each point with its bisector."""
    max_points = found.points.loss.shape[0]

    def draw(row: Array, front: ParetoFront) -> ParetoFront:
        point = jax.tree.map(lambda rows: rows[row], found.points)
        line, keeps = draw_line_of(
            instance, point, encoding.own_is_positive, encoding.unit, result_dtype
        )
        gap = jnp.sqrt(point.squared_gap.hi)
        loss = numerics.masked_sum(encoding.weights, instance.live & ~point.kept)
        return front._replace(
            losses=_write(front.losses, row, loss),
            margins=_write(front.margins, row, gap / 2 * encoding.unit),
            normals=_write(front.normals, row, line.normal),
            anchors=_write(front.anchors, row, line.anchor),
            biases=_write(front.biases, row, line.bias),
            status=unless_lost(
                front.status,
                keeps
                & meets(loss, bound_loss(point.loss, encoding.weight_unit, encoding.rounding)),
            ),
        )

    count = jnp.where(encoding.valid, found.count, 0)
    flat = jnp.zeros((max_points, 2), result_dtype)
    nothing = jnp.where(encoding.valid, jnp.inf, jnp.nan).astype(result_dtype)
    empty = ParetoFront(
        jnp.full(max_points, 1, result_dtype) * nothing,
        flat[:, 0],
        flat,
        flat,
        flat[:, 0],
        count,
        _status(instance, encoding, found),
    )
    return loops.fori_loop(jnp.zeros_like(count), count, draw, empty)


def _status(instance: LineInstance, encoding: Encoding, found: FoundFront) -> Array:
    """The status [] int32 of a front whose lines keep their points."""
    proven = encoding.faithful & holds_gaps(instance) & ~found.doubtful
    status = jnp.where(
        found.ended,
        jnp.where(proven, int(Status.OPTIMAL), int(Status.PRECISION_LIMIT)),
        int(Status.CAPACITY_LIMIT),
    )
    return jnp.where(encoding.valid, status, int(Status.INVALID_INPUT)).astype(jnp.int32)


def _write(rows: Array, row: Array, value: Array) -> Array:
    return lax.dynamic_update_index_in_dim(rows, value.astype(rows.dtype), row, 0)


def unless_lost(status: Array, keeps: Array) -> Array:
    """The status [] of a front: PRECISION_LIMIT instead of OPTIMAL if a line does not keep its
    points.
    """
    return jnp.where(
        ~keeps & (status == int(Status.OPTIMAL)), int(Status.PRECISION_LIMIT), status
    ).astype(jnp.int32)


def draw_line_of(
    instance: LineInstance,
    point: FrontPoint,
    own_is_positive: Array,
    unit: Array,
    result_dtype: jnp.dtype,
) -> tuple[Line, Array]:
    """The bisector between the kept points of the two classes, in the units of the data, and
    whether it keeps them after rounding, [] bool.
    """
    keeps_own = jnp.any(point.kept & instance.own)
    is_constant = point.squared_gap.hi == jnp.inf
    best = visits.Incumbent(
        loss=point.loss,
        margin=point.squared_gap.hi,
        is_constant=is_constant,
        on_own_side=jnp.where(is_constant, keeps_own, instance.own),
        normal=point.normal,
    )
    kept = instance._replace(live=point.kept)
    drawn = draw_line(kept, best, own_is_positive, "removed", unit, result_dtype)
    return drawn, is_constant | ~reduce.any_true(
        misclassified(kept, instance.own == own_is_positive, drawn, unit)
    )
