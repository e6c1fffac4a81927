"""The interface of the interior point method to the rounds of cuts: the float type of a solve, and
its starting point without a warm start, from a smaller program, or from other cuts.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import loops, numerics, reduce
from jboost.base.numerics import matvec
from jboost.base.types import Array, PyTree
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.relaxation import newton, system
from jboost.l0.relaxation.cuts import ListedCuts
from jboost.l0.relaxation.system import VariableParts, WorkingSetPoint, WorkingSetProgram
from jboost.l0.types import Dual, Primal, RelaxationInstance, WarmStart
from jboost.lp.interior_point import InteriorPointConfig

# The complementary products of the first iterate, in units of the largest weight: without a warm
# start, and with one.
_FIRST_PRODUCT = 0.05
_RESUMED_PRODUCT = 3e-3
# A cut may be dropped if its dual, in units of the largest weight, is below this times its surplus.
_IDLE = 1e-2
# The distance of the first iterate from its bounds: this factor times the complementary product in
# units of the largest weight, clipped to the interval.
_LIFT, _LIFTS = 30.0, (1e-4, 0.1)
# 32 bits reach an error of `_COARSE`. From this number of examples on, a second program in 64 bits
# is worth its compilation.
_COARSE, _WORTH_TWO_FLOATS = 1e-3, 1024
_LEAST_UNIT = 1e-15  # largest weights outside [1e-15, 1e15] could overflow or underflow in 32 bits
_FULL = 0.95  # at the start, the duals of an example use at most this share of its weight


class WorkingSetStart(NamedTuple):
    """The data of a starting point. The first iterate is near these solutions, nearly feasible if
    they are feasible, and its complementary products are not much below `product`.
    """

    primal: Primal  # satisfies all cuts
    dual: Dual  # 0 for new cuts
    convexity: Array  # [] alpha
    product: Array  # [] positive


def enter(program: WorkingSetProgram, start: WorkingSetStart) -> WorkingSetPoint:
    """The first iterate of a solve."""
    above = _enter_primal(program, start)
    above_zero = jnp.where(program.is_used, jnp.concatenate(above), 1.0)
    below, convexity = _enter_dual(program, start, system.parts_of(program, above_zero))
    return WorkingSetPoint(
        jnp.stack([above_zero, jnp.where(program.is_used, jnp.concatenate(below), 0.0)]), convexity
    )


def _enter_primal(program: WorkingSetProgram, start: WorkingSetStart) -> VariableParts:
    """The primal of a start, moved inside its bounds."""
    primal, product, instance = start.primal, start.product, program.instance
    rho = instance.margin
    unit = jnp.maximum(instance.unit, jnp.finfo(product.dtype).tiny)
    lift = jnp.clip(_LIFT * product / unit, *_LIFTS)
    count = jnp.maximum(jnp.sum(instance.is_column), 1).astype(product.dtype)
    coefficients = jnp.where(
        instance.is_column, jnp.maximum(primal.coefficients, lift / count), 0.0
    )
    coefficients = coefficients / jnp.maximum(jnp.sum(coefficients), jnp.finfo(product.dtype).tiny)
    extra = jnp.clip(primal.selected - primal.coefficients, lift / count, 1 - lift)
    margins = matvec(instance.margins, coefficients)
    slacks = jnp.maximum(primal.slacks + lift, (rho + lift - margins) / (1 + rho))
    selected = jnp.where(instance.is_column, coefficients + extra, 0.0)
    covered = matvec(program.served, selected) + pair_cuts.gather(program.cuts, slacks) - 1
    return VariableParts(
        coefficients,
        extra,
        1 - extra,
        slacks,
        margins + (1 + rho) * slacks - rho,
        jnp.maximum(covered, lift),
    )


def _enter_dual(
    program: WorkingSetProgram, start: WorkingSetStart, above: VariableParts
) -> tuple[VariableParts, Array]:
    """The dual of a start, moved inside its bounds so that no complementary product with the primal
    `above` is far below the mean; and the multiplier of the convexity row.
    """
    dual, instance, rho = start.dual, program.instance, program.instance.margin
    used, least = system.parts_of(program, program.is_used), 0.1 * start.product
    weights = jnp.maximum(dual.example_weights, least / above.margins)
    pair_weights = jnp.where(
        used.cuts,
        jnp.maximum(
            dual.pair_weights, jnp.where(dual.pair_weights > 0, least, start.product) / above.cuts
        ),
        0.0,
    )
    load = (1 + rho) * weights + pair_cuts.scatter(program.cuts, pair_weights, weights.shape[0])
    keep = jnp.minimum(1.0, _FULL * numerics.safe_divide(instance.weights, load, fill=1.0))
    weights = weights * keep
    pair_weights = pair_weights * jnp.minimum(
        *(keep.at[end].get(mode="fill", fill_value=1.0) for end in program.cuts)
    )
    load, edges, served = system.columns_of(
        program, system.priced(program, jnp.concatenate([weights, pair_weights]))
    )
    reduced = instance.costs - served
    slope = reduced - edges
    convexity = jnp.minimum(
        start.convexity, reduce.least(jnp.where(instance.is_column, slope, jnp.inf)) - least
    )
    convexity = jnp.where(jnp.isfinite(convexity), convexity, 0.0)
    room = jnp.maximum(least / above.room, least / above.extra - reduced)
    of_slacks = jnp.maximum(instance.weights - load, least / above.slacks)
    below = VariableParts(
        jnp.maximum(slope - convexity, least / above.coefficients),
        reduced + room,
        room,
        of_slacks,
        weights,
        pair_weights,
    )
    return below, convexity


def product_of(program: WorkingSetProgram, point: WorkingSetPoint) -> Array:
    """The mean of the complementary products, []."""
    return reduce.total(point.sides[0] * point.sides[1]) / jnp.maximum(
        reduce.count(program.is_used, dtype=point.sides.dtype), 1
    )


def sides(program: WorkingSetProgram, point: WorkingSetPoint) -> tuple[Primal, Dual]:
    """The primal and dual solutions of an iterate."""
    primal = system.parts_of(program, jnp.where(program.is_used, point.sides[0], 0.0))
    dual = system.parts_of(program, point.sides[1])
    return Primal(primal.coefficients, primal.coefficients + primal.extra, primal.slacks), Dual(
        dual.margins, dual.cuts
    )


def _cast(tree: PyTree, *, dtype: jnp.dtype) -> PyTree:
    """The tree with its floats cast to another type."""
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree
    )


class WorkingSetSolution(NamedTuple):
    """The result of a solve over a working set."""

    iterate: Any
    primal: Primal
    dual: Dual
    importance: Array  # [K] positive for cuts that must stay
    num_iterations: Array  # [] int32


@dataclasses.dataclass(frozen=True)
class InteriorPointMethod:
    """The interior point method for the rounds of cuts; its iterate is a `WorkingSetStart`."""

    config: InteriorPointConfig
    share_of_gap = 0.1

    def begin(
        self, instance: RelaxationInstance, held: ListedCuts, primal: Primal, warm: WarmStart | None
    ) -> WorkingSetStart:
        """The start without or with a warm start."""
        unit = instance.unit
        if warm is None:
            nothing = Dual(
                jnp.zeros_like(instance.weights), jnp.zeros(held.is_used.shape, unit.dtype)
            )
            return WorkingSetStart(primal, nothing, unit + jnp.inf, _FIRST_PRODUCT * unit)
        return WorkingSetStart(primal, warm.dual, warm.convexity, _RESUMED_PRODUCT * unit)

    def solve(
        self,
        instance: RelaxationInstance,
        held: ListedCuts,
        iterate: WorkingSetStart,
        *,
        scale: Array,
        tolerance: Array,
    ) -> WorkingSetSolution:
        """Solves over a working set."""
        program = system.make_program(instance, held.cuts, held.served)
        point, count = self._iterated(program, enter(program, iterate), scale, tolerance)
        primal, dual = sides(program, point)
        beyond = system.parts_of(program, point.sides[0]).cuts
        importance = jnp.where(
            dual.pair_weights > _IDLE * beyond * instance.unit, dual.pair_weights, 0.0
        )
        return WorkingSetSolution(
            WorkingSetStart(primal, dual, point.convexity, product_of(program, point)),
            primal,
            dual,
            importance,
            count,
        )

    def _iterated(
        self, program: WorkingSetProgram, iterate: WorkingSetPoint, scale: Array, tolerance: Array
    ) -> tuple[WorkingSetPoint, Array]:
        """The last iterate and the number of iterations. A large program is solved in 32 bits if
        these reach the tolerance, otherwise in 64 bits.
        """
        narrow, wide, unit = jnp.dtype("float32"), jnp.dtype("float64"), program.instance.unit

        def in_float(dtype: jnp.dtype, tolerance: Array) -> tuple[WorkingSetPoint, Array]:
            cast = functools.partial(_cast, dtype=dtype)

            def iterated(
                program: WorkingSetProgram, iterate: WorkingSetPoint, scale: Array, tolerance: Array
            ) -> tuple[WorkingSetPoint, Array]:
                point, _, count = newton.solve(
                    *cast((program, iterate)),
                    scale=cast(scale),
                    tolerance=cast(tolerance),
                    config=self.config,
                )
                return _cast(point, dtype=iterate.convexity.dtype), count

            return (numerics.in_64_bits(iterated) if dtype == wide else iterated)(
                program, iterate, scale, tolerance
            )

        if program.instance.weights.shape[0] < _WORTH_TWO_FLOATS:
            return in_float(tolerance.dtype, tolerance)
        largest_cost = jnp.max(program.instance.costs, initial=0.0)
        fits_32_bits = (
            (tolerance >= _COARSE)
            & (unit > _LEAST_UNIT)
            & (jnp.maximum(unit, largest_cost) < 1 / _LEAST_UNIT)
        )
        return loops.one_of(
            fits_32_bits,
            tolerance,
            jnp.inf,
            functools.partial(in_float, narrow),
            functools.partial(in_float, wide),
        )

    def refresh(
        self,
        instance: RelaxationInstance,
        former_slot: Array,
        primal: Primal,
        iterate: WorkingSetStart,
    ) -> WorkingSetStart:
        """The start over the next working set, from a feasible point."""
        known = iterate.dual.pair_weights.at[former_slot].get(mode="fill", fill_value=0.0)
        return iterate._replace(primal=primal, dual=Dual(iterate.dual.example_weights, known))

    def sides(self, instance: RelaxationInstance, iterate: WorkingSetStart) -> tuple[Primal, Dual]:
        """The primal and dual solutions of an iterate."""
        return iterate.primal, iterate.dual

    def convexity(self, instance: RelaxationInstance, iterate: WorkingSetStart) -> Array:
        """The dual alpha of sum lambda = 1."""
        return iterate.convexity

    def primal_weight(self, iterate: WorkingSetStart) -> Array:
        """0, as the method has no primal weight."""
        return jnp.zeros_like(iterate.convexity)
