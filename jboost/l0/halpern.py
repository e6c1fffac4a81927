"""The relaxation over all pairs at once: reflected Halpern iterations with restarts, which end by the certified gap.

With z = (x, y) and T one step of the primal-dual hybrid gradient method (Chambolle and Pock 2011), z_{k+1} = (k+1)/(k+2) (2 T z_k - z_k) + z_0/(k+2)
(Lu and Yang 2024, "Restarted Halpern PDHG for linear programming", (4)). Restarts come when the fixed-point error |z - T z|_P has fallen enough, and
move the primal weight so that both sides have gone equally far since the last restart (Chen, Sun, Yuan, Zhang and Zhao 2024, "HPR-LP"; Lu, Peng and
Yang 2025, "cuPDLPx"). Two things differ from `jboost.lp.first_order`: lambda stays on the simplex by projection, and every check proves both bounds,
so that no iteration is spent on residuals that are smaller than the gap needs.

Vectors of pairs: v, its anchor, and the best proven v. T v is computed again in each pass that needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import brackets, loops, numerics
from jboost.base.types import Array
from jboost.l0 import certify, pair_blocks
from jboost.l0 import cuts as pair_cuts
from jboost.l0.pair_blocks import Block, Layout, Pairs, Sums
from jboost.l0.types import Instance, Primal
from jboost.projections import projection_capped_simplex

_SUFFICIENT, _NECESSARY, _ARTIFICIAL = 0.2, 0.8, 0.36  # restarts: cuPDLPx, Section 3
_PROPORTIONAL, _INTEGRAL, _FADING = 0.99, 0.01, 0.3  # the controller of the primal weight: cuPDLPx, Section 3
_LARGEST_CHANGE = 1e5  # of the primal weight from the first one, and its inverse
_SAFETY = 0.998  # step size times norm
_POWER_ITERATIONS = 20
_SCALING_ROUNDS = 2
_POWER = 4  # 2^4 is the order of the norm that stands for a maximum over the hypotheses of a cut
_STALLED = 0.99  # a gap that does not fall below this part of itself in as many iterations again as it took, and in the least number, does not fall
_LEAST_STALLED = 4_000


class Scaling(NamedTuple):
    """Factors of variables and of rows; one for lambda, so that its projection stays Euclidean, and one for all cuts."""

    columns: Primal  # coefficients [], selected [U], slacks [m]
    margins: Array  # [m]
    orders: Array  # [U]
    cuts: Array  # []


class Point(NamedTuple):
    """A scaled point without the duals of the cuts."""

    primal: Primal
    margins: Array  # [m] duals of the margins
    orders: Array  # [U] duals of mu >= lambda


class Best(NamedTuple):
    """What proves the bounds so far."""

    primal: Primal
    upper: Array  # []
    weights: Array  # [m] w
    pairs: Array  # [P, O, Q] v
    convexity: Array  # []
    lower: Array  # []


class State(NamedTuple):
    """Between two checks."""

    point: Point
    pairs: Array  # [P, O, Q] scaled duals of the cuts
    sums: Sums  # of `pairs`
    anchor: Point
    anchor_pairs: Array  # [P, O, Q]
    norm: Array  # [] the largest singular value, from below
    direction: Primal  # of the largest singular value, nearly
    first_weight: Array  # [] primal weight at the start
    primal_weight: Array  # []
    imbalance: Array  # [] faded sum of log primal move over dual move, at restarts
    anchor_error: Array  # [] fixed-point error at the anchor
    last_error: Array  # [] fixed-point error at the last check
    has_begun: Array  # [] bool, False before the look at the first point
    num_since: Array  # [] int32 iterations since the restart
    num_iterations: Array  # [] int32
    num_restarts: Array  # [] int32
    best: Best
    gap: Array  # [] relative
    marked_gap: Array  # [] the gap when it last fell much
    marked_at: Array  # [] int32 iterations then


class Program(NamedTuple):
    """What stays the same through all iterations."""

    instance: Instance
    pairs: Pairs
    scaling: Scaling
    is_real: Array  # [m] bool


def _dot(one: Any, other: Any) -> Array:
    parts = [jnp.sum(left * right) for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)]
    return sum(parts[1:], parts[0])


def _norm(tree: Any) -> Array:
    return jnp.sqrt(_dot(tree, tree))


def unscaled(primal: Primal, scaling: Scaling) -> Primal:
    """Variables in true units."""
    return Primal(*(part * factor for part, factor in zip(primal, scaling.columns, strict=True)))


def scale(instance: Instance, pairs: Pairs, layout: Layout) -> Scaling:
    """Equilibration by 2-norms (Ruiz 2001), the longest cut standing for all of them and the longest column of lambda for those.

    It took a fifth to a third fewer iterations than the preconditioner of Pock and Chambolle (2011) on `benchmarks.l0_relaxation.make_pool("stumps",
    100, 20, seed)` for the seeds 3, 6, 7, 10 and 11.
    """
    num_examples, num_columns = instance.margins.shape
    ones = jnp.ones((num_columns,), instance.costs.dtype)
    signs, one = jnp.abs(instance.margins), jnp.ones((), ones.dtype)
    start = Scaling(Primal(one, ones, jnp.ones_like(instance.weights)), jnp.ones_like(instance.weights), ones, one)

    def refine(_: Any, old: Scaling) -> Scaling:
        squares, weight = jax.tree.map(jnp.square, old), jnp.square(1 + instance.margin)
        sums = _sums_of_cuts(pairs, layout, num_examples)
        lengths = Primal(
            jnp.max(numerics.times(squares.margins, signs) + squares.orders),
            squares.orders + squares.cuts * sums.selected,
            squares.margins * weight + squares.cuts * sums.slacks,
        )
        columns = Primal(*(_balanced(*part) for part in zip(old.columns, lengths, strict=True)))
        sizes = Primal(*map(jnp.square, columns))
        margins = numerics.times(signs, jnp.broadcast_to(sizes.coefficients, ones.shape)) + weight * sizes.slacks
        orders = sizes.coefficients + sizes.selected
        rows = (margins, orders, _longest_cut(pairs, layout, sizes))
        return Scaling(columns, *(_balanced(*part) for part in zip(old[1:], rows, strict=True)))

    found = loops.fori_loop(0, _SCALING_ROUNDS, refine, start)
    columns = Primal(*(found.cuts * part for part in found.columns))
    return Scaling(columns, found.margins / found.cuts, found.orders / found.cuts, one)  # so that the duals of cuts have no factor


def _balanced(factors: Array, squares: Array) -> Array:
    """Factors over the roots of the 2-norms that rows or columns have with them; `squares` are those of the norms without them."""
    norms = factors * jnp.sqrt(squares)
    return factors * jnp.where(norms > 0, 1 / jnp.sqrt(jnp.where(norms > 0, norms, 1.0)), 1.0)


def _sums_of_cuts(pairs: Pairs, layout: Layout, num_examples: int) -> Sums:
    """How many cuts every hypothesis serves and every example is in."""

    def body(block: Block, *_: Any) -> Any:
        return (), pair_blocks.sums_of_block(block, block.is_cut.astype(block.rows.factors[0][0].dtype))

    _, results = pair_blocks.sweep(pairs, layout, body)
    return pair_blocks.gather_sums(results, layout, num_examples)


def _longest_cut(pairs: Pairs, layout: Layout, columns: Primal) -> Array:
    """The largest sum of a cut's entries times these values."""

    def body(block: Block, _: Any, __: Any, by_row: Array, whole: Any) -> Any:
        selected, by_column = whole
        return (), jnp.max(jnp.where(block.is_cut, _reached(block, selected, by_row, by_column), 0.0))

    by_row, by_column = pair_blocks.of_ends(columns.slacks, layout)
    return jnp.max(pair_blocks.sweep(pairs, layout, body, of_rows=by_row, whole=(columns.selected, by_column))[1])


def _reached(block: Block, selected: Array, by_row: Array, by_column: Array) -> Array:
    """xi_i + xi_i' + the sum of mu over the hypotheses of each cut, [R, O, Q]."""
    return block.covered(selected) + by_row[:, None, None] + by_column[None, None, :]


def _power_iterations(program: Program, layout: Layout, direction: Primal, count: Array) -> tuple[Array, Primal]:
    """A lower bound on the largest singular value, and the direction that gives the next."""
    cuts = program.scaling.cuts

    def body(block: Block, _: Any, __: Any, by_row: Array, whole: Any) -> Any:
        reached = jnp.where(block.is_cut, _reached(block, whole[0], by_row, whole[1]), 0.0)
        return (), (jnp.sum(reached * reached), pair_blocks.sums_of_block(block, reached))

    def iterate(_: Any, carry: tuple[Array, Primal]) -> tuple[Array, Primal]:
        size = jnp.maximum(_norm(carry[1]), jnp.finfo(cuts.dtype).tiny)
        unit = Primal(*(part / size for part in carry[1]))
        values = unscaled(unit, program.scaling)
        by_row, by_column = pair_blocks.of_ends(values.slacks, layout)
        _, (squares, results) = pair_blocks.sweep(program.pairs, layout, body, of_rows=by_row, whole=(values.selected, by_column))
        margins, orders = _small_rows(program, values)
        sums = pair_blocks.gather_sums(results, layout, values.slacks.shape[0])
        back = _back(program, margins, orders, Sums(*(cuts * part for part in sums)))
        return jnp.sqrt(_dot(margins, margins) + _dot(orders, orders) + cuts**2 * jnp.sum(squares)), back

    return loops.fori_loop(0, count, iterate, (jnp.zeros((), cuts.dtype), direction))


def _small_rows(program: Program, values: Primal) -> tuple[Array, Array]:
    """Scaled values of the margins [m] and of mu - lambda [U] at unscaled variables."""
    instance, scaling = program.instance, program.scaling
    reached = numerics.times(instance.margins, values.coefficients) + (1 + instance.margin) * values.slacks
    orders = jnp.where(instance.is_column, values.selected - values.coefficients, 0.0)
    return scaling.margins * jnp.where(program.is_real, reached, 0.0), scaling.orders * orders


def _back(program: Program, margins: Array, orders: Array, sums: Sums) -> Primal:
    """The product of the transposed scaled matrix with scaled duals, those of the cuts by their `sums` times the factor of the cuts."""
    instance, scaling = program.instance, program.scaling
    weights, differences = scaling.margins * margins, scaling.orders * orders
    parts = Primal(
        numerics.times(weights, instance.margins) - differences,
        differences + sums.selected,
        (1 + instance.margin) * weights + sums.slacks,
    )
    return unscaled(parts, scaling)


class Move(NamedTuple):
    """What T needs of the pairs: the dual step and the extrapolated primal point, in factors of the scaled cuts."""

    step: Array  # []
    least: Array  # [] right side of a scaled cut
    selected: Array  # [U]
    by_row: Array  # [P]
    by_column: Array  # [Q]


def _mapped(program: Program, state: State, layout: Layout, size: Array) -> tuple[Point, Move]:
    """T z but for the duals of the cuts, and how those move."""
    instance, scaling = program.instance, program.scaling
    point, factor = state.point, scaling.columns
    slope = _back(program, point.margins, point.orders, Sums(*(scaling.cuts * part for part in state.sums)))
    costs = unscaled(Primal(jnp.zeros_like(instance.costs), instance.costs, instance.weights), scaling)
    step = size / state.primal_weight
    trial = unscaled(Primal(*(old - step * (cost - pulled) for old, cost, pulled in zip(point.primal, costs, slope, strict=True))), scaling)
    coefficients = projection_capped_simplex(trial.coefficients, 1.0, mask=instance.is_column)
    selected = jnp.where(instance.is_column, jnp.clip(trial.selected, 0.0, 1.0), 0.0)
    slacks = jnp.where(program.is_real, jnp.clip(trial.slacks, 0.0, 1.0), 0.0)
    primal = Primal(*(part / scale for part, scale in zip((coefficients, selected, slacks), factor, strict=True)))
    ahead = unscaled(Primal(*(2 * new - old for new, old in zip(primal, point.primal, strict=True))), scaling)
    rise = size * state.primal_weight
    margins, orders = _small_rows(program, ahead)
    least = jnp.where(program.is_real, scaling.margins * instance.margin, 0.0)
    by_row, by_column = pair_blocks.of_ends(scaling.cuts * ahead.slacks, layout)
    move = Move(rise, scaling.cuts, scaling.cuts * ahead.selected, by_row, by_column)
    return Point(primal, jnp.maximum(point.margins + rise * (least - margins), 0.0), jnp.maximum(point.orders - rise * orders, 0.0)), move


def _trial(block: Block, pairs: Array, move: Any, by_row: Array) -> Array:
    """T v of a block, [R, O, Q]."""
    missing = move.least - _reached(block, move.selected, by_row, move.by_column)
    return jnp.where(block.is_cut, jnp.maximum(pairs + move.step * missing, 0.0), 0.0)


def _without_rows(move: Move) -> Move:
    return move._replace(by_row=jnp.zeros((0,), move.step.dtype))


def iterate(program: Program, state: State, layout: Layout, size: Array) -> State:
    """One reflected Halpern iteration: one pass over the pairs."""
    mapped, move = _mapped(program, state, layout, size)
    share = 1 / (state.num_since + 2).astype(size.dtype)

    def towards(old: Array, new: Array, anchor: Array) -> Array:
        reflected = new + (new - old)
        return reflected - share * (reflected - anchor)

    def body(block: Block, updated: Any, read: Any, by_row: Array, whole: Any) -> Any:
        move, share = whole
        new = _trial(block, updated[0], move, by_row)
        reflected = new + (new - updated[0])
        after = reflected - share * (reflected - read[0])
        return (after,), pair_blocks.sums_of_block(block, after)

    (pairs,), results = pair_blocks.sweep(
        program.pairs,
        layout,
        body,
        updated=(state.pairs,),
        read=(state.anchor_pairs,),
        of_rows=move.by_row,
        whole=(_without_rows(move), share),
    )
    sums = pair_blocks.gather_sums(results, layout, program.is_real.shape[0])
    point = jax.tree.map(towards, state.point, mapped, state.anchor)
    return state._replace(point=point, pairs=pairs, sums=sums, num_since=state.num_since + 1, num_iterations=state.num_iterations + 1)


class Ways(NamedTuple):
    """How far z has gone, and what T v sums up to."""

    primal_error: Array  # [] |T x - x|
    dual_error: Array  # []
    cross: Array  # [] (T y - y) A (T x - x)
    primal_moved: Array  # [] |T x - x_0|
    dual_moved: Array  # []
    sums: Sums  # of T v


def _measure(program: Program, state: State, layout: Layout, mapped: Point, move: Move) -> Ways:
    """One pass, which changes nothing."""

    def body(block: Block, _: Any, read: Any, by_row: Array, move: Any) -> Any:
        new = _trial(block, read[0], move, by_row)
        error, way = new - read[0], new - read[1]
        return (), (jnp.sum(error * error), jnp.sum(way * way), pair_blocks.sums_of_block(block, new))

    read = (state.pairs, state.anchor_pairs)
    _, (errors, ways, results) = pair_blocks.sweep(program.pairs, layout, body, read=read, of_rows=move.by_row, whole=_without_rows(move))
    sums = pair_blocks.gather_sums(results, layout, program.is_real.shape[0])
    change, gone = (jax.tree.map(jnp.subtract, mapped, other) for other in (state.point, state.anchor))
    rise = Sums(*(program.scaling.cuts * (new - old) for new, old in zip(sums, state.sums, strict=True)))
    cross = _dot(_back(program, change.margins, change.orders, rise), change.primal)
    dual_error, dual_moved = (jnp.sqrt(_dot(part[1:], part[1:]) + jnp.sum(squares)) for part, squares in ((change, errors), (gone, ways)))
    return Ways(_norm(change.primal), dual_error, cross, _norm(gone.primal), dual_moved, sums)


class Allowance(NamedTuple):
    """How a vector of pairs becomes one that (19b) allows: `certify.allowed`, with a norm of high order for the largest excess of a cut."""

    scale: Array  # [] from scaled to true
    excess: Array  # [] the largest 1 - share of a hypothesis
    excesses: Array  # [U] their powers, relative to it
    keep_rows: Array  # [P]
    keep_columns: Array  # [Q]


def _allowed_pairs(block: Block, trial: Array, allowance: Any, keep_row: Array) -> Array:
    """The true v of a block after both steps of `certify.allowed`, [R, O, Q]."""
    power = block.covered(allowance.excesses)
    for _ in range(_POWER):
        power = jnp.sqrt(power)
    share = jnp.maximum(1 - allowance.excess * power, 0.0)
    kept = jnp.minimum(keep_row[:, None, None], allowance.keep_columns[None, None, :])
    return certify.cleaned(certify.cleaned(allowance.scale * trial * share) * kept)


def _allow(program: Program, state: State, layout: Layout, move: Move, weights: Array, sums: Sums) -> tuple[Array, Allowance]:
    """Example weights [m] and the rule for pairs that together satisfy (19b) in exact arithmetic."""
    instance, scale = program.instance, program.scaling.cuts
    eps = float(jnp.finfo(scale.dtype).eps)
    served = scale * sums.selected
    limit = instance.costs * (1 - 64 * eps)
    excesses = jnp.where(served > limit, 1 - numerics.safe_divide(instance.costs, served) * (1 - 64 * eps), 0.0)
    excess = jnp.max(excesses, initial=0.0)
    powers = numerics.safe_divide(excesses, excess)
    for _ in range(_POWER):
        powers = powers * powers
    rows, columns = jnp.ones((layout.num_rows,), scale.dtype), jnp.ones((layout.num_columns,), scale.dtype)
    whole = Allowance(scale, excess, powers, rows, columns)

    def body(block: Block, _: Any, read: Any, of_rows: Any, whole: Any) -> Any:
        by_row, keep = of_rows
        values = _allowed_pairs(block, _trial(block, read[0], whole[0], by_row), whole[1], keep)
        return (), pair_blocks.bound_sums(values)[:2]

    of_rows, parts = (move.by_row, rows), (_without_rows(move), whole._replace(keep_rows=rows[:0]))
    _, (by_row, by_column) = pair_blocks.sweep(program.pairs, layout, body, read=(state.pairs,), of_rows=of_rows, whole=parts)
    ends = [
        pair_blocks.spread(jnp.ravel(by_row), columns * 0, layout, weights.shape[0]),
        pair_blocks.spread(rows * 0, pair_blocks.add_up(by_column), layout, weights.shape[0]),
    ]
    one = jnp.ones((), scale.dtype)
    _, load = brackets.bracket_dot(jnp.stack([weights, weights, *ends], axis=1), jnp.stack([one, instance.margin, one, one])[None, :])
    keep = jnp.where(load > instance.weights, numerics.safe_divide(instance.weights, load) * (1 - 8 * eps), 1.0)
    keep_rows, keep_columns = pair_blocks.of_ends(keep, layout)
    return certify.cleaned(weights * keep), whole._replace(keep_rows=keep_rows, keep_columns=keep_columns)


def _proof_of_block(block: Block, values: Array) -> tuple[Array, Array]:
    """What a lower bound needs of allowed pairs: sums by hypothesis [U], rounded up, and the sum [], rounded down."""
    return pair_blocks.most_serving(block, values), pair_blocks.bound_sums(values)[2]


def _prove_trial(program: Program, state: State, layout: Layout, move: Move, weights: Array, allowance: Allowance) -> tuple[Array, Array]:
    """The lower bound by T v and alpha: one pass."""

    def body(block: Block, _: Any, read: Any, of_rows: Any, whole: Any) -> Any:
        values = _allowed_pairs(block, _trial(block, read[0], whole[0], of_rows[0]), whole[1], of_rows[1])
        return (), _proof_of_block(block, values)

    of_rows, whole = (move.by_row, allowance.keep_rows), (_without_rows(move), allowance._replace(keep_rows=allowance.keep_rows[:0]))
    _, (served, sums) = pair_blocks.sweep(program.pairs, layout, body, read=(state.pairs,), of_rows=of_rows, whole=whole)
    return certify.prove_from_sums(program.instance, weights, pair_blocks.add_up(served), sums)


def prove(instance: Instance, pairs: Pairs, layout: Layout, weights: Array, values: Array) -> tuple[Array, Array]:
    """The lower bound that stored, allowed duals prove, [], and alpha, []."""

    def body(block: Block, _: Any, read: Any, __: Any, ___: Any) -> Any:
        return (), _proof_of_block(block, read[0])

    _, (served, sums) = pair_blocks.sweep(pairs, layout, body, read=(values,))
    return certify.prove_from_sums(instance, weights, pair_blocks.add_up(served), sums)


def _store(
    program: Program, state: State, layout: Layout, move: Move, allowance: Allowance, is_better: Array, restarts: Array
) -> tuple[Array, Array, Array]:
    """One pass: (v, anchor, best) with T v for v and the anchor at a restart, and the allowed T v for the best where it proves more."""

    def body(block: Block, updated: Any, read: Any, of_rows: Any, whole: Any) -> Any:
        move, allowance, is_better, restarts = whole
        anchor, best = updated
        trial = _trial(block, read[0], move, of_rows[0])
        best = jnp.where(is_better, _allowed_pairs(block, trial, allowance, of_rows[1]), best)
        return (jnp.where(restarts, trial, anchor), best), ()

    of_rows, rule = (move.by_row, allowance.keep_rows), allowance._replace(keep_rows=allowance.keep_rows[:0])
    updated, whole = (state.anchor_pairs, state.best.pairs), (_without_rows(move), rule, is_better, restarts)
    (anchor, best), _ = pair_blocks.sweep(program.pairs, layout, body, updated=updated, read=(state.pairs,), of_rows=of_rows, whole=whole)
    return jnp.where(restarts, anchor, state.pairs), anchor, best  # v is not updated in the pass: XLA would copy it, as two updates read it


def _upper(instance: Instance, primal: Primal, max_pair_entries: int) -> tuple[Primal, Array]:
    """A feasible point near this one, and its price."""
    point, least = certify.on_grid(instance, primal)
    wanted = pair_cuts.search(instance, point.selected, point.slacks, max_pair_entries)
    raised = certify.raised(instance, point, least, wanted)
    return raised, certify.price(instance, raised)


def check(program: Program, state: State, layout: Layout, size: Array, max_pair_entries: int) -> State:
    """Both bounds at T z, and a restart where it pays: four passes over the pairs and one search."""
    instance, scaling = program.instance, program.scaling
    mapped, move = _mapped(program, state, layout, jnp.where(state.has_begun, size, 0.0))
    ways = _measure(program, state, layout, mapped, move)
    weights = certify.cleaned(scaling.margins * mapped.margins)
    weights, allowance = _allow(program, state, layout, move, weights, ways.sums)
    lower, convexity = _prove_trial(program, state, layout, move, weights, allowance)
    primal, upper = _upper(instance, unscaled(mapped.primal, scaling), max_pair_entries)
    error, restarts = _should_restart(state, ways, size)
    is_better = lower > state.best.lower
    pairs, anchor_pairs, best_pairs = _store(program, state, layout, move, allowance, is_better, restarts)
    best = Best(
        jax.tree.map(lambda new, old: jnp.where(upper <= state.best.upper, new, old), primal, state.best.primal),
        jnp.minimum(upper, state.best.upper),
        jnp.where(is_better, weights, state.best.weights),
        best_pairs,
        jnp.where(is_better, convexity, state.best.convexity),
        jnp.where(is_better, lower, state.best.lower),
    )
    moved = state._replace(pairs=pairs, anchor_pairs=anchor_pairs, best=best, last_error=error)
    return _mark(_restarted(moved, mapped, ways, restarts, size), gap(instance, best))


def gap(instance: Instance, best: Best) -> Array:
    """Relative to the upper bound, or to the unit where that is more."""
    return (best.upper - best.lower) / jnp.maximum(jnp.where(jnp.isfinite(best.upper), best.upper, 0.0), instance.unit)


def _mark(state: State, gap: Array) -> State:
    """The state with its gap, and when that last fell."""
    falls = ~(gap > _STALLED * state.marked_gap)
    marked_gap, marked_at = jnp.where(falls, gap, state.marked_gap), jnp.where(falls, state.num_iterations, state.marked_at)
    return state._replace(gap=gap, marked_gap=marked_gap, marked_at=marked_at)


def is_stalled(state: State) -> Array:
    """Whether the gap has not fallen for long, [] bool: rounding forbids more."""
    return state.num_iterations - state.marked_at > jnp.maximum(state.marked_at, _LEAST_STALLED)


def _error(ways: Ways, weight: Array, size: Array) -> Array:
    """|z - T z|_P for a primal weight."""
    square = (weight * ways.primal_error**2 + ways.dual_error**2 / weight) / size + 2 * ways.cross
    return jnp.sqrt(jnp.maximum(square, 0.0))


def _should_restart(state: State, ways: Ways, size: Array) -> tuple[Array, Array]:
    """The fixed-point error, and whether it has fallen enough or the epoch is long."""
    error = _error(ways, state.primal_weight, size)
    restarts = (
        (error <= _SUFFICIENT * state.anchor_error)
        | ((error <= _NECESSARY * state.anchor_error) & (error > state.last_error))
        | (state.num_since.astype(error.dtype) >= _ARTIFICIAL * state.num_iterations.astype(error.dtype))
    )
    return error, restarts & (state.num_iterations > 0)


def _restarted(state: State, mapped: Point, ways: Ways, restarts: Array, size: Array) -> State:
    """The state after a restart from T z, whose pairs are stored already; as it is where there is none."""
    is_known = (ways.primal_moved > 0) & (ways.dual_moved > 0)
    excess = jnp.log(jnp.where(is_known, state.primal_weight * ways.primal_moved / jnp.where(is_known, ways.dual_moved, 1.0), 1.0))
    imbalance = _FADING * state.imbalance + excess
    weight = state.primal_weight * jnp.exp(-_PROPORTIONAL * excess - _INTEGRAL * imbalance)
    weight = jnp.clip(weight, state.first_weight / _LARGEST_CHANGE, state.first_weight * _LARGEST_CHANGE)
    weight = jnp.where(is_known, weight, state.primal_weight)
    after = state._replace(
        point=mapped,
        sums=ways.sums,
        anchor=mapped,
        primal_weight=weight,
        imbalance=imbalance,
        anchor_error=_error(ways, weight, size),
        last_error=jnp.full_like(size, jnp.inf),
        num_since=jnp.zeros_like(state.num_since),
        num_restarts=state.num_restarts + 1,
    )
    kept = state._replace(pairs=size, anchor_pairs=size, best=state.best._replace(pairs=size))  # no copies of vectors of pairs
    moved = after._replace(pairs=size, anchor_pairs=size, best=kept.best)
    chosen = jax.tree.map(lambda new, old: jnp.where(restarts, new, old), moved, kept)
    met = jnp.abs(ways.cross) / jnp.maximum(ways.primal_error * ways.dual_error, jnp.finfo(size.dtype).tiny)
    norm = jnp.maximum(state.norm, jnp.where(jnp.isfinite(met), met, 0.0))
    return chosen._replace(pairs=state.pairs, anchor_pairs=state.anchor_pairs, best=state.best, norm=norm)


def init(instance: Instance, layout: Layout, primal: Primal, weights: Array, pairs: Array, primal_weight: Array) -> tuple[Program, State]:
    """The program, and the state before the first iteration, at a point in true units.

    Args:
      instance: the relaxation.
      layout: static.
      primal: where to begin.
      weights: [m] w.
      pairs: [P, O, Q] v.
      primal_weight: [] 0 where it is not known.
    """
    cuts = pair_blocks.make_pairs(instance, layout)
    scaling = scale(instance, cuts, layout)
    program = Program(instance, cuts, scaling, jnp.arange(instance.weights.shape[0]) < instance.num_real)
    scaled = Primal(*(part / factor for part, factor in zip(primal, scaling.columns, strict=True)))
    point = Point(scaled, weights / scaling.margins, jnp.zeros_like(instance.costs))
    values, anchor_values = pairs, pairs
    zero, none = jnp.zeros((), values.dtype), jnp.zeros((), jnp.int32)
    infinite = zero + jnp.inf
    best = Best(primal, infinite, jnp.zeros_like(weights), jnp.zeros_like(values), zero, -infinite)
    first = jnp.where(primal_weight > 0, primal_weight, _first_weight(program))
    of_columns, of_examples = (numerics.spread(part.shape[0], values.dtype) for part in (scaled.selected, weights))
    state = State(
        point=point,
        pairs=values,
        sums=sums_of(cuts, layout, values, weights.shape[0]),
        anchor=point,
        anchor_pairs=anchor_values,
        norm=zero,
        direction=Primal(of_columns, of_columns, of_examples),
        first_weight=first,
        primal_weight=first,
        imbalance=zero,
        anchor_error=infinite,
        last_error=infinite,
        has_begun=jnp.zeros((), bool),
        num_since=none,
        num_iterations=none,
        num_restarts=none,
        best=best,
        gap=infinite,
        marked_gap=infinite,
        marked_at=none,
    )
    return program, loops.beside(state, program)


def sums_of(cuts: Pairs, layout: Layout, values: Array, num_examples: int) -> Sums:
    """The product of the transposed cuts with a vector of pairs."""

    def body(block: Block, _: Any, read: Any, __: Any, ___: Any) -> Any:
        return (), pair_blocks.sums_of_block(block, read[0])

    return pair_blocks.gather_sums(pair_blocks.sweep(cuts, layout, body, read=(values,))[1], layout, num_examples)


def num_cuts(cuts: Pairs, layout: Layout) -> Array:
    """How many cuts there are, [] int32."""

    def body(block: Block, *_: Any) -> Any:
        return (), jnp.sum(block.is_cut, dtype=jnp.int32)

    return jnp.sum(pair_blocks.sweep(cuts, layout, body)[1], dtype=jnp.int32)


def _first_weight(program: Program) -> Array:
    """The length of the scaled costs over that of the scaled right sides."""
    instance, scaling = program.instance, program.scaling
    costs = unscaled(Primal(jnp.zeros_like(instance.costs), instance.costs, instance.weights), scaling)
    num_cuts = jnp.sum(program.pairs.rows.is_few, dtype=scaling.cuts.dtype) * jnp.sum(program.pairs.columns.is_many, dtype=scaling.cuts.dtype)
    sides = jnp.sum(jnp.where(program.is_real, (scaling.margins * instance.margin) ** 2, 0.0)) + num_cuts * scaling.cuts**2
    weight = numerics.safe_divide(_norm(costs), jnp.sqrt(sides))
    return jnp.where(weight > 0, weight, 1.0)


def step(program: Program, state: State, layout: Layout, iterations: int, max_pair_entries: int) -> State:
    """Iterations between two checks, and the check; the first one is of the starting point."""
    count = jnp.where(state.norm > 0, 1, _POWER_ITERATIONS)
    norm, direction = _power_iterations(program, layout, state.direction, count)
    norm = jnp.maximum(state.norm, norm)
    size = _SAFETY / jnp.where(norm > 0, norm, 1.0)
    state = state._replace(norm=norm, direction=direction)
    ran = loops.fori_loop(0, jnp.where(state.has_begun, iterations, 0), lambda _, now: iterate(program, now, layout, size), state)
    return check(program, ran, layout, size, max_pair_entries)._replace(has_begun=jnp.ones((), bool))
