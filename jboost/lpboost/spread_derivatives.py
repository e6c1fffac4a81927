"""The derivative of LP-Boost for examples that are spread over the devices of a mesh.

The equations are those of `jboost.lp.derivatives`, for the program of `jboost.lpboost.master`. Its
variables are the example weights u [m] and beta, its rows the votes [n] and the sum of the weights.
Here beta and the last row are kept apart, so that no vector over the examples is lengthened, sorted
or gathered: devices exchange sums and matrices of the size of the votes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import derivatives, float_words, loops, meshes, numerics, reduce
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.lp.derivatives import SCALING_ROUNDS, exceeding, in_units, quotients_of
from jboost.lp.first_order.scaling import balanced
from jboost.lpboost import master

_NEVER_HELD = master.LARGEST_EDGE  # no edge reaches this bound on beta


class SpreadParts(NamedTuple):
    """A vector over the variables (example weights, beta) or over the rows (votes, their sum)."""

    many: Array  # [m] or [n]
    one: Array  # []


class _SpreadProgram(NamedTuple):
    columns: Array  # [n, m] margins, 0 for padding
    caps: Array  # [m] upper bounds of the example weights

    def rows(self, variables: SpreadParts) -> SpreadParts:
        """The matrix times (u, beta)."""
        edges = _product(self.columns, variables.many)
        return SpreadParts(edges - variables.one, reduce.total(variables.many))

    def prices(self, dual: SpreadParts) -> SpreadParts:
        """The transposed matrix times the duals of the rows."""
        margins = _product(dual.many, self.columns)
        return SpreadParts(margins + dual.one, -reduce.total(dual.many))


def _product(one: Array, other: Array) -> Array:
    return jnp.matmul(one, other, precision=lax.Precision.HIGHEST)


def differentiate(
    choice: str,
    columns: tuple[Array, Array],
    caps: tuple[Array, Array],
    dual: Array,
    solution: Any,
) -> Any:
    """The tangent of a solution.

    Args:
      choice: "vertex" or "least_norm", as for `jboost.lp.solve`.
      columns: the margins [n, m] and their tangents.
      caps: the upper bounds [m] of the example weights and their tangents.
      dual: rho [], the dual of the sum of the example weights.
      solution: a `jboost.lpboost.LPBoostSolution`.
    """
    program = _SpreadProgram(columns[0], caps[0])
    weights, votes = solution.example_weights, solution.coefficients
    points = SpreadParts(weights, reduce.largest(_product(program.columns, weights)))
    duals = SpreadParts(-votes, dual)
    reached = _product(columns[1], weights)
    priced = -_product(votes, columns[1])
    charge = jnp.minimum(-program.prices(duals).many, 0.0)  # reduced costs at caps
    objective = reduce.total(votes * reached) + jnp.sum(charge * caps[1])
    is_known = (solution.status == int(Status.OPTIMAL)) | (
        solution.status == int(Status.PRECISION_LIMIT)
    )
    known = derivatives.where(is_known, (reached, priced, caps[1]))
    of_weights, of_votes = _move(program, points, duals, known, choice)
    bounds = solution.lower_bound, solution.upper_bound
    lower, upper = (derivatives.where(jnp.isfinite(bound), objective) for bound in bounds)
    return derivatives.no_change(solution)._replace(
        coefficients=derivatives.where(is_known, of_votes),
        example_weights=derivatives.where(is_known, of_weights),
        lower_bound=lower,
        upper_bound=upper,
    )


class _Active(NamedTuple):
    """The bounds that are active at the solution; the sum of the example weights always is."""

    at_cap: Array  # [m] bool
    at_zero: Array  # [m] bool
    votes: Array  # [n] bool


def _move(
    program: _SpreadProgram,
    points: SpreadParts,
    duals: SpreadParts,
    changes: tuple[Array, Array, Array],
    choice: str,
) -> tuple[Array, Array]:
    """The tangents of the example weights [m] and the votes [n], by the least-norm solution of the
    equations of the active bounds.
    """
    reached, priced, raised = changes
    rows, variables = _scaling(program)
    active = _find_active(program, points, duals, (rows, variables), choice)
    is_held = active.at_cap | active.at_zero
    if choice != "vertex":
        rows, variables = jax.tree.map(jnp.ones_like, (rows, variables))
    scaled = rows.many[:, None] * program.columns * variables.many[None, :]
    is_used = active.votes[:, None] & ~is_held[None, :]
    last_row = jnp.where(is_held, 0.0, rows.one * variables.many)
    matrix = jnp.concatenate([jnp.where(is_used, scaled, 0.0), last_row[None, :]])
    beside = jnp.where(active.votes, -rows.many * variables.one, 0.0)
    inverse, _ = _pseudo_inverse(matrix.T, jnp.append(beside, 0.0))
    held = jnp.where(active.at_cap, raised, 0.0)
    missed = jnp.append(
        jnp.where(active.votes, rows.many * -(reached + _product(program.columns, held)), 0.0),
        -rows.one * reduce.total(held),
    )
    unpriced = jnp.where(is_held, 0.0, -variables.many * priced)
    of_rows = _product(unpriced, inverse)[:-1]
    return held + variables.many * _product(inverse, missed), -rows.many * of_rows


def _scaling(program: _SpreadProgram) -> tuple[SpreadParts, SpreadParts]:
    """The factors of rows and of variables by `jboost.lp.first_order.scaling.equilibrate`."""
    sizes = jnp.abs(program.columns)
    dtype = program.caps.dtype
    one = jnp.ones((), dtype)
    begin = (
        SpreadParts(jnp.ones(sizes.shape[:1], dtype), one),
        SpreadParts((program.caps != 0).astype(dtype), one),
    )

    def norms_of(rows: SpreadParts, variables: SpreadParts) -> tuple[SpreadParts, SpreadParts]:
        return (
            SpreadParts(
                _product(sizes, variables.many) + variables.one, reduce.total(variables.many)
            ),
            SpreadParts(_product(rows.many, sizes) + rows.one, reduce.total(rows.many)),
        )

    return balanced(begin, norms_of, SCALING_ROUNDS)


def _find_active(
    program: _SpreadProgram,
    points: SpreadParts,
    duals: SpreadParts,
    scaling: tuple[SpreadParts, SpreadParts],
    choice: str,
) -> _Active:
    """As `jboost.lp.derivatives.find_vertex` and `find_face`."""
    rows, variables = scaling
    reduced = SpreadParts(-program.prices(duals).many, 1 + reduce.total(duals.many))
    is_equal = program.caps == 0
    room = jnp.where(reduced.many > 0, points.many, program.caps - points.many)
    units = SpreadParts(*(numerics.safe_divide(1.0, part) for part in variables))
    of_weights = in_units(units.many, room, reduced.many)
    below = points.one - _product(program.columns, points.many)
    of_votes = in_units(rows.many, below, duals.many)
    if choice == "vertex":
        of_votes = of_votes[0], jnp.where(duals.many < 0, of_votes[1], 0.0)
        quotients = (
            jnp.where(is_equal, -1.0, quotients_of(*of_weights)),
            quotients_of(*of_votes),
        )
        is_weight, is_vote = _are_least(*quotients, program.caps.shape[0])
    else:
        room_of_beta = _NEVER_HELD + jnp.where(reduced.one > 0, 1, -1) * points.one
        of_beta = in_units(units.one, room_of_beta, reduced.one)
        of_total = in_units(rows.one, jnp.zeros_like(points.one), duals.one)
        is_weight, is_vote, _, _ = exceeding([of_weights, of_votes, of_beta, of_total])
    return _Active(
        at_cap=is_weight & (reduced.many < 0) & ~is_equal,
        at_zero=(is_weight & (reduced.many > 0)) | is_equal,
        votes=is_vote & (duals.many < 0),
    )


# --- the least of numbers that are spread ---------------------------------------------------------


def _are_least(first: Array, second: Array, number: int) -> tuple[Array, Array]:
    """Which of the entries [m] and [n] together are the `number` least finite ones; of equal
    entries the first ones.
    """
    keys = [float_words.ascending(lax.stop_gradient(values)) for values in (first, second)]
    threshold = _in_order(keys, jnp.int32(number))
    num_below = sum(reduce.count(key < threshold) for key in keys)
    tied = [key == threshold for key in keys]
    dtype = keys[0].dtype
    places = [
        jnp.where(
            is_tied,
            lax.iota(dtype, key.shape[0]) + jnp.asarray(begin, dtype),
            jnp.asarray(jnp.iinfo(dtype).max, dtype),
        )
        for is_tied, key, begin in zip(tied, keys, (0, first.shape[0]), strict=True)
    ]
    last = _in_order(places, number - num_below)
    is_first, is_second = (
        ((key < threshold) | (is_tied & (place <= last))) & (values < jnp.inf)
        for key, is_tied, place, values in zip(keys, tied, places, (first, second), strict=True)
    )
    return is_first, is_second


def _in_order(keys: list[Array], number: Array) -> Array:
    """The entry at a place, from 1, of all unsigned keys in ascending order, bit by bit."""
    dtype = keys[0].dtype
    num_bits, one = jnp.iinfo(dtype).bits, jnp.ones((), dtype)

    def next_bit(index: Array, word: Array) -> Array:
        tried = word | (one << (num_bits - 1 - index).astype(dtype))
        num_below = sum(reduce.count(key < tried) for key in keys)
        return jnp.where(num_below < number, tried, word)

    return loops.fori_loop(jnp.int32(0), jnp.int32(num_bits), next_bit, jnp.zeros((), dtype))


# --- the pseudo-inverse ---------------------------------------------------------------------------


@jax.custom_jvp
def _pseudo_inverse(long: Array, last: Array) -> tuple[Array, Array]:
    """The transposed pseudo-inverse, in rows [m, k] and [k], of the matrix whose rows are
    `long` [m, k], spread over the devices, and `last` [k].

    Each device factors its own rows by QR; the factors R of all devices, of k rows each, make up a
    matrix with the same singular values (Demmel, Grigori, Hoemmen and Langou 2012).
    """
    size, num_columns = long.shape
    padded = jnp.pad(long, ((0, -size % meshes.num_devices()), (0, 0)))
    orthogonal, upper = meshes.over_devices(lambda rows: tuple(jnp.linalg.qr(rows)), (padded,), ())
    tolerance = 10 * max(size + 1, num_columns) * float(jnp.finfo(long.dtype).eps)
    small = jnp.linalg.pinv(jnp.concatenate([upper, last[None, :]]), rtol=tolerance).T
    spread = meshes.over_devices(_product, (orthogonal, small[:-1]), ())
    return spread[:size], small[-1]


@_pseudo_inverse.defjvp
def _derivative_of_inverse(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Any, Any]:
    """Golub and Pereyra (1973), for a rank that does not change."""
    inverse = _pseudo_inverse(*primals)

    def inner(one: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
        return _product(one[0].T, other[0]) + jnp.outer(one[1], other[1])

    squares = inner(inverse, inverse)
    from_matrix, from_inverse = inner(primals, tangents), inner(inverse, tangents)
    rest = jnp.eye(squares.shape[0], dtype=squares.dtype) - inner(primals, inverse)
    own = _product(from_inverse, rest) - inner(tangents, inverse)
    changes = tuple(
        _product(tangent - _product(part, from_matrix), squares) + _product(part, own)
        for part, tangent in zip(inverse, tangents, strict=True)
    )
    return inverse, changes
