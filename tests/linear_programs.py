"""Linear programs with a known answer: random ones of few shapes, the literature's, and those of
transport, assignment, covering and LP-Boost.

    minimise objective . x  subject to  row_lower <= matrix x <= row_upper,  lower <= x <= upper

Plain numpy, nothing of the package. A random program of kind "optimal" is built around a primal and
a dual point that prove each other optimal, an "infeasible" one around multipliers of the rows whose
combination no point within the bounds attains, an "unbounded" one around a feasible point and a ray
along which the objective falls. All bounds are in order: an infeasible program is never one of
crossed bounds.
"""

from typing import NamedTuple

import numpy as np

INF = np.inf
SHAPES = ((12, 18), (20, 10), (30, 40))  # of `random_programs`
# how the names of such programs begin: a solver may prove either
DUALLY_INFEASIBLE = "infeasible, its dual too"


class Program(NamedTuple):
    """A linear program and what is known of it."""

    name: str
    objective: np.ndarray  # [n]
    matrix: np.ndarray  # [m, n]
    row_lower: np.ndarray  # [m]
    row_upper: np.ndarray  # [m]
    lower: np.ndarray  # [n]
    upper: np.ndarray  # [n]
    kind: str  # optimal, infeasible or unbounded
    optimum: float | None = None  # None if it is not known, or there is none


def make(
    name,
    objective,
    matrix,
    *,
    row_lower=-INF,
    row_upper=INF,
    lower=0.0,
    upper=INF,
    kind="optimal",
    optimum=None,
) -> Program:
    """A `Program` from anything array-like; bounds may be scalars."""
    objective = np.array(objective, np.float64)
    matrix = np.array(matrix, np.float64).reshape(-1, len(objective))
    rows, columns = matrix.shape
    of_rows = (
        np.array(np.broadcast_to(np.asarray(bound, np.float64), rows))
        for bound in (row_lower, row_upper)
    )
    of_columns = (
        np.array(np.broadcast_to(np.asarray(bound, np.float64), columns))
        for bound in (lower, upper)
    )
    return Program(
        name,
        objective,
        matrix,
        *of_rows,
        *of_columns,
        kind,
        None if optimum is None else float(optimum),
    )


def by_shape(programs) -> dict[tuple[int, int], list[Program]]:
    """The programs grouped by (m, n), in order of first appearance: each group can be stacked for
    one vmapped call.
    """
    groups = {}
    for program in programs:
        groups.setdefault(program.matrix.shape, []).append(program)
    return groups


# --- random programs ------------------------------------------------------------------------------


def random_programs(count=200, seed=20_261_121) -> list[Program]:
    """Programs of the shapes `SHAPES`, of each 40 in a row 26 optimal, 7 infeasible and 7
    unbounded; the first ones do not depend on `count`.
    """
    programs = []
    for i in range(count):
        random = np.random.default_rng([seed, i])
        shape = SHAPES[i % len(SHAPES)]
        name, build = _PLAN[i % len(_PLAN)]
        program = build(random, *shape)
        programs.append(_shuffled(random, program)._replace(name=f"{name} #{i}"))
    return programs


def _around(random, matrix, primal, *, row_kinds, column_kinds, tie=0.2):
    """The program with `matrix` of which `primal` is an optimum.

    Rows and columns get bounds of the kinds asked for, which hold at `primal` or not, and
    multipliers of the signs that go with that; with probability `tie` the multiplier of a bound
    that holds is 0.
    """
    row_lower, row_upper, dual = _bounds(random, matrix @ primal, row_kinds, 0.6, tie)
    lower, upper, reduced = _bounds(random, primal, column_kinds, 0.6, tie)
    objective = matrix.T @ dual + reduced
    return Program(
        "",
        objective,
        matrix,
        row_lower,
        row_upper,
        lower,
        upper,
        "optimal",
        float(objective @ primal),
    )


def _bounds(random, values, kinds, held, tie):
    """Bounds of the kinds around values, and multipliers: > 0 only at a lower bound that holds, < 0
    only at an upper one.
    """
    size = len(values)
    kinds = np.broadcast_to(kinds, size)
    below, above, multipliers = np.full(size, -INF), np.full(size, INF), np.zeros(size)
    for i, kind in enumerate(kinds):
        sizes = _grid(random.uniform(0.5, 3.0, 3))
        holds = random.random() < held
        multiplier = 0.0 if random.random() < tie else sizes[2]
        if kind in ("equal", "fixed"):
            below[i] = above[i] = values[i]
            multipliers[i] = multiplier * random.choice([-1, 1])
        elif kind == "lower":
            below[i] = values[i] - (0 if holds else sizes[0])
            multipliers[i] = multiplier * holds
        elif kind == "upper":
            above[i] = values[i] + (0 if holds else sizes[1])
            multipliers[i] = -multiplier * holds
        elif kind == "both":
            side = random.choice([-1, 1])
            below[i] = values[i] - (0 if holds and side == 1 else sizes[0])
            above[i] = values[i] + (0 if holds and side == -1 else sizes[1])
            multipliers[i] = side * multiplier * holds
    return below, above, multipliers


def _grid(values):
    """The nearest multiples of 1/64: sums and products of such numbers are exact here, so that what
    is meant to hold holds to the bit.
    """
    return np.round(64 * values) / 64


def _entries(random, rows, columns, density=0.5):
    return _grid(random.normal(size=(rows, columns))) * (random.random((rows, columns)) < density)


def _row_kinds(random, size):
    return random.choice(
        ["equal", "lower", "upper", "both", "none"], size, p=[0.25, 0.25, 0.25, 0.15, 0.1]
    )


def _column_kinds(random, size):
    return random.choice(
        ["lower", "both", "upper", "none", "fixed"], size, p=[0.5, 0.2, 0.1, 0.12, 0.08]
    )


def _mixed(random, rows, columns):
    """Every kind of row and column."""
    matrix, primal = _entries(random, rows, columns), _grid(random.uniform(-3, 3, columns))
    return _around(
        random,
        matrix,
        primal,
        row_kinds=_row_kinds(random, rows),
        column_kinds=_column_kinds(random, columns),
    )


def _with_gaps(random, rows, columns):
    """Zero rows and zero columns, some of the latter with a cost."""
    matrix, primal = _entries(random, rows, columns), _grid(random.uniform(-3, 3, columns))
    matrix[random.choice(rows, 3, replace=False)] = 0
    matrix[:, random.choice(columns, 3, replace=False)] = 0
    return _around(
        random,
        matrix,
        primal,
        row_kinds=_row_kinds(random, rows),
        column_kinds=_column_kinds(random, columns),
    )


def _standard(random, rows, columns):
    """Equalities and non-negative variables; about as many variables off their bound as rows."""
    used = min(rows, columns // 2)
    primal = _grid(random.uniform(0.5, 3, columns)) * (np.arange(columns) < used)
    matrix = _entries(random, rows, columns)
    program = _around(random, matrix, primal, row_kinds="equal", column_kinds="none")
    reduced = _grid(random.uniform(0.2, 2, columns)) * (primal == 0)
    return program._replace(objective=program.objective + reduced, lower=np.zeros(columns))


def _inequalities(random, rows, columns):
    """Upper bounds on combinations, with entries of one sign, of non-negative variables."""
    matrix, primal = np.abs(_entries(random, rows, columns)), _grid(random.uniform(0, 3, columns))
    primal[random.random(columns) < 0.5] = 0
    program = _around(random, matrix, primal, row_kinds="upper", column_kinds="none", tie=0.0)
    reduced = _grid(random.uniform(0.2, 2, columns)) * (primal == 0)
    return program._replace(objective=program.objective + reduced, lower=np.zeros(columns))


def _degenerate(random, rows, columns):
    """Small integers, rows twice, ties everywhere: far more bounds hold than are needed."""
    matrix = random.integers(-1, 3, (rows, columns)) * (random.random((rows, columns)) < 0.5)
    matrix[rows // 2 : 2 * (rows // 2)] = matrix[: rows // 2]
    primal = random.integers(0, 2, columns).astype(float)
    kinds = random.choice(["equal", "lower", "upper"], rows)
    dual = random.integers(0, 3, rows) * np.select(
        [kinds == "lower", kinds == "upper"], [1, -1], random.choice([-1, 1], rows)
    )
    activity = matrix @ primal
    objective = matrix.T @ dual + random.integers(0, 2, columns) * (primal == 0)
    return make(
        "",
        objective,
        matrix,
        row_lower=np.where(kinds == "upper", -INF, activity),
        row_upper=np.where(kinds == "lower", INF, activity),
        optimum=objective @ primal,
    )


def _redundant(random, rows, columns):
    """Equalities of which a third are combinations of the others."""
    matrix, primal = _entries(random, rows, columns), _grid(random.uniform(0, 3, columns))
    independent = rows - rows // 3
    matrix[independent:] = (
        random.integers(-2, 3, (rows - independent, independent)) @ matrix[:independent]
    )
    return _around(
        random,
        matrix,
        primal,
        row_kinds="equal",
        column_kinds=random.choice(["lower", "both", "none"], columns, p=[0.6, 0.3, 0.1]),
    )


def _scaled(build):
    """What `build` makes, with rows and columns in other units: entries become 2^-14 to 2^14 times
    what they were, 6e-5 to 1.6e4.
    """

    def build_scaled(random, rows, columns):
        program = build(random, rows, columns)
        of_rows, of_columns = (2.0 ** random.integers(-7, 8, size) for size in (rows, columns))
        return program._replace(
            objective=program.objective * of_columns,
            matrix=of_rows[:, None] * program.matrix * of_columns,
            row_lower=program.row_lower * of_rows,
            row_upper=program.row_upper * of_rows,
            lower=program.lower / of_columns,
            upper=program.upper / of_columns,
        )

    return build_scaled


def _not_unique(random, rows, columns):
    """The objective is one of the rows, and every second column is there twice."""
    matrix = np.abs(_entries(random, rows, columns, 0.6))
    matrix[:, 1::2] = matrix[:, : 2 * (columns // 2) : 2]
    matrix[0] = np.repeat(random.integers(1, 4, (columns + 1) // 2), 2)[:columns]
    inner = _grid(random.uniform(0.5, 2, columns))
    activity = matrix @ inner
    row_lower = np.full(rows, -INF)
    row_lower[0] = activity[0]
    return make(
        "", matrix[0], matrix, row_lower=row_lower, row_upper=activity + 1, optimum=activity[0]
    )


def _one_point(random, rows, columns):
    """A single feasible point: a positive combination of the variables' distances from their bounds
    must be 0.
    """
    matrix, primal = _entries(random, rows, columns), _grid(random.uniform(-3, 3, columns))
    signs = random.choice([-1, 1], columns)
    row_lower, row_upper, _ = _bounds(random, matrix @ primal, _row_kinds(random, rows), 0.6, 0)
    matrix[0] = _grid(random.uniform(0.5, 2, columns)) * signs
    row_lower[0], row_upper[0] = -INF, matrix[0] @ primal
    objective = _grid(random.normal(size=columns))
    bounds = {
        "lower": np.where(signs == 1, primal, -INF),
        "upper": np.where(signs == -1, primal, INF),
    }
    return make(
        "",
        objective,
        matrix,
        row_lower=row_lower,
        row_upper=row_upper,
        optimum=objective @ primal,
        **bounds,
    )


def _determined(random, rows, columns):
    """A single feasible point: as many independent equalities as variables that are not fixed."""
    unknown = min(rows, columns) - 2
    matrix, primal = _entries(random, rows, columns), _grid(random.uniform(0, 3, columns))
    matrix[:unknown, :unknown] += 4 * np.eye(unknown)
    kinds = np.where(np.arange(columns) < unknown, "lower", "fixed")
    return _around(
        random,
        matrix,
        primal,
        row_kinds=np.where(np.arange(rows) < unknown, "equal", "none"),
        column_kinds=kinds,
    )


def _all_free(random, rows, columns):
    """Free variables only: the objective is a combination of the rows that hold."""
    matrix, primal = _entries(random, rows, columns), _grid(random.uniform(-3, 3, columns))
    kinds = random.choice(["lower", "upper", "both"], rows)
    return _around(random, matrix, primal, row_kinds=kinds, column_kinds="none")


def _box(random, rows, columns):
    """No row has a bound."""
    primal = _grid(random.uniform(-3, 3, columns))
    return _around(
        random,
        _entries(random, rows, columns),
        primal,
        row_kinds="none",
        column_kinds=_column_kinds(random, columns),
    )


def _no_objective(random, rows, columns):
    """Any feasible point will do."""
    program = _mixed(random, rows, columns)
    return program._replace(objective=np.zeros(columns), optimum=0.0)


def _padded(build):
    """What `build` makes of half the size, padded by rows without bounds or that always hold, and
    by variables fixed at 0 or without use.
    """

    def build_padded(random, rows, columns):
        small = build(random, rows // 2 + 1, columns // 2 + 1)
        more_rows, more_columns = rows - rows // 2 - 1, columns - columns // 2 - 1
        slack, zeros = np.where(np.arange(more_rows) % 2, INF, 1.0), np.zeros(more_columns)
        return small._replace(
            objective=np.append(small.objective, zeros),
            matrix=np.pad(small.matrix, ((0, more_rows), (0, more_columns))),
            row_lower=np.append(small.row_lower, -slack),
            row_upper=np.append(small.row_upper, slack),
            lower=np.append(small.lower, zeros),
            upper=np.append(small.upper, np.where(np.arange(more_columns) % 2, 1.0, 0.0)),
        )

    return build_padded


def _refuted(random, rows, columns):
    """Infeasible by multipliers of four rows: their combination cannot get where it must, by 1 to
    3.
    """
    matrix, point = _entries(random, rows, columns), _grid(random.uniform(-3, 3, columns))
    row_lower, row_upper, _ = _bounds(random, matrix @ point, _row_kinds(random, rows), 0.3, 0)
    lower, upper, _ = _bounds(
        random, point, random.choice(["lower", "both", "upper"], columns, p=[0.6, 0.3, 0.1]), 0.3, 0
    )
    rows_used = random.choice(rows, 4, replace=False)
    multipliers = np.append(random.choice([0.5, 1, 2], 3), 1) * random.choice([-1, 1], 4)
    last = rows_used[-1]
    slope = (
        _grid(random.uniform(0, 2, columns))
        * np.where(upper < INF, 1, -1)
        * (random.random(columns) < 0.7)
    )
    matrix[last] = (slope - multipliers[:-1] @ matrix[rows_used[:-1]]) * multipliers[-1]
    sides = matrix[rows_used] @ point
    largest = np.sum(slope * np.select([slope > 0, slope < 0], [upper, lower], 0))
    sides[-1] += (largest - multipliers @ sides + _grid(random.uniform(1, 3))) * multipliers[-1]
    row_lower[rows_used] = np.where(multipliers > 0, sides, -INF)
    row_upper[rows_used] = np.where(multipliers > 0, INF, sides)
    objective = _grid(random.uniform(0, 2, columns)) * np.where(lower > -INF, 1, -1)
    return Program("", objective, matrix, row_lower, row_upper, lower, upper, "infeasible")


def _spoilt(program, rows, row_lower, row_upper):
    """The program, infeasible by the new bounds of some rows. Its dual stays feasible if the rows
    had no bounds before.
    """
    low, high = program.row_lower.copy(), program.row_upper.copy()
    low[rows], high[rows] = row_lower, row_upper
    return program._replace(row_lower=low, row_upper=high, kind="infeasible", optimum=None)


def _mixed_but(random, matrix, unbounded_rows):
    """A mixed program with the matrix, some of whose rows have no bounds."""
    rows, columns = matrix.shape
    row_kinds = _row_kinds(random, rows)
    row_kinds[unbounded_rows] = "none"
    primal = _grid(random.uniform(-3, 3, columns))
    return _around(
        random, matrix, primal, row_kinds=row_kinds, column_kinds=_column_kinds(random, columns)
    )


def _out_of_reach(random, rows, columns):
    """Infeasible by the bounds of the variables in one row."""
    program = _mixed(random, rows, columns)
    program = program._replace(
        lower=np.maximum(program.lower, -4), upper=np.minimum(program.upper, 4)
    )
    row = random.integers(rows)
    largest = np.maximum(
        program.matrix[row] * program.lower, program.matrix[row] * program.upper
    ).sum()
    return _spoilt(program, row, largest + 1, random.choice([largest + 1, largest + 3, INF]))


def _contradicting(random, rows, columns):
    """Infeasible by two rows that are the same but for their bounds and a factor."""
    matrix = _entries(random, rows, columns)
    pair, factor, side = (
        random.choice(rows, 2, replace=False),
        random.choice([-2.0, 0.5]),
        _grid(random.normal()),
    )
    matrix[pair] = [[1], [factor]] * _grid(random.normal(size=columns))
    program = _mixed_but(random, matrix, pair)
    other = factor * (side + 1)
    if random.random() < 0.5:
        return _spoilt(program, pair, [side, other], [side, other])
    return _spoilt(
        program, pair, [-INF, min(other, factor * INF)], [side, max(other, factor * INF)]
    )


def _zero_row(random, rows, columns):
    """Infeasible by a row of zeros that must not be 0."""
    matrix, row = _entries(random, rows, columns), random.integers(rows)
    matrix[row] = 0
    return _spoilt(_mixed_but(random, matrix, row), row, 1, 2)


def _both_infeasible(random, rows, columns):
    """Infeasible, and so is the dual: two variables, down from 0 and up from 0, make a ray in which
    every row is 0 and the objective falls.
    """
    matrix, pair = _entries(random, rows, columns), random.choice(rows, 2, replace=False)
    matrix[:, 1] = matrix[:, 0]
    matrix[pair] = _grid(random.normal(size=columns))
    matrix[pair, 1] = matrix[pair, 0]
    program = _mixed_but(random, matrix, pair)
    objective, lower, upper = program.objective.copy(), program.lower.copy(), program.upper.copy()
    objective[:2], lower[:2], upper[:2] = (1, -1), (-INF, 0), (0, INF)
    return _spoilt(
        program._replace(objective=objective, lower=lower, upper=upper), pair, [-INF, 1], [-1, INF]
    )


def _with_ray(random, rows, columns, *, num_in_ray=4, num_rows_moved=0.5):
    """Unbounded: a feasible point, and a ray that leaves rows where they are or moves them off
    where they have no bound.
    """
    point = _grid(random.uniform(-3, 3, columns))
    matrix, row_kinds, column_kinds = (
        _entries(random, rows, columns),
        _row_kinds(random, rows),
        _column_kinds(random, columns),
    )
    support = random.choice(columns, num_in_ray, replace=False)
    column_kinds[support] = random.choice(["lower", "upper", "none"], num_in_ray)
    signs = np.select(
        [column_kinds == "lower", column_kinds == "upper"], [1, -1], random.choice([-1, 1], columns)
    )
    ray = np.zeros(columns)
    ray[support] = np.append(random.choice([0.5, 1, 2], num_in_ray - 1), 1)
    ray *= signs
    last = support[-1]
    moves = _grid(random.uniform(0, 1, rows)) * (random.random(rows) < num_rows_moved)
    moves *= np.select(
        [row_kinds == "lower", row_kinds == "upper", row_kinds == "none"], [1, -1, 1], 0
    )
    matrix[:, last] += (moves - matrix @ ray) * ray[last]
    objective = _grid(random.normal(size=columns))
    objective[last] += (_grid(random.uniform(-2, -0.5)) - objective @ ray) * ray[last]
    row_lower, row_upper, _ = _bounds(random, matrix @ point, row_kinds, 0.6, 0)
    lower, upper, _ = _bounds(random, point, column_kinds, 0.6, 0)
    return Program("", objective, matrix, row_lower, row_upper, lower, upper, "unbounded")


def _along_rows(random, rows, columns):
    """Unbounded along a ray of two variables in which no row changes."""
    return _with_ray(random, rows, columns, num_in_ray=2, num_rows_moved=0)


def _zero_column(random, rows, columns):
    """Unbounded by a variable in no row: a program with an optimum but for that."""
    matrix, column = _entries(random, rows, columns), random.integers(columns)
    matrix[:, column] = 0
    program = _around(
        random,
        matrix,
        _grid(random.uniform(-3, 3, columns)),
        row_kinds=_row_kinds(random, rows),
        column_kinds="lower",
    )
    objective = program.objective.copy()
    objective[column] = -1
    return program._replace(objective=objective, kind="unbounded", optimum=None)


def _shuffled(random, program):
    rows, columns = (random.permutation(size) for size in program.matrix.shape)
    return program._replace(
        objective=program.objective[columns],
        matrix=program.matrix[np.ix_(rows, columns)],
        row_lower=program.row_lower[rows],
        row_upper=program.row_upper[rows],
        lower=program.lower[columns],
        upper=program.upper[columns],
    )


_OPTIMAL = [
    *5 * [("mixed", _mixed)],
    *2 * [("zero rows and columns", _with_gaps)],
    *2 * [("standard", _standard)],
    *2 * [("inequalities", _inequalities)],
    *3 * [("degenerate", _degenerate)],
    *2 * [("redundant", _redundant)],
    *2 * [("scaled", _scaled(_mixed))],
    *2 * [("not unique", _not_unique)],
    ("one point", _one_point),
    ("determined", _determined),
    ("free variables", _all_free),
    ("box", _box),
    ("no objective", _no_objective),
    ("padded", _padded(_mixed)),
]
_INFEASIBLE = [
    ("infeasible, refuted by four rows", _refuted),
    ("infeasible, scaled", _scaled(_refuted)),
    ("infeasible, padded", _padded(_refuted)),
    ("infeasible, out of reach", _out_of_reach),
    ("infeasible, contradicting rows", _contradicting),
    ("infeasible, zero row", _zero_row),
    (DUALLY_INFEASIBLE, _both_infeasible),
]
_UNBOUNDED = [
    *2 * [("unbounded", _with_ray)],
    *2 * [("unbounded along the rows", _along_rows)],
    ("unbounded, scaled", _scaled(_with_ray)),
    ("unbounded, padded", _padded(_with_ray)),
    ("unbounded, zero column", _zero_column),
]
_PLAN = [  # the three lists dealt evenly
    part
    for _, part in sorted(
        (
            ((i + 0.5) / len(parts), part)
            for parts in (_OPTIMAL, _INFEASIBLE, _UNBOUNDED)
            for i, part in enumerate(parts)
        ),
        key=lambda dealt: dealt[0],
    )
]


# --- programs of the literature -------------------------------------------------------------------


def small_programs() -> list[Program]:
    """Textbook programs with their published optima, cycling examples, and the smallest of each
    kind.
    """
    return [
        _afiro(),
        *(_klee_minty(size) for size in (4, 5, 6)),
        *_cycling(),
        *_textbook(),
        _maximum_flow(),
        _shortest_path(),
        *_games(),
        _chebyshev(),
        *_tiny(),
    ]


# Netlib's AFIRO: a row is its side, its name, its right-hand side (rows of the form = or <=) and
# its terms.
_AFIRO = """
= R09 0 -X01 X02 X03
= R10 0 -1.06X01 X04
<= X05 80 X01
<= X21 0 -X02 1.4X14
= R12 0 -X06 -X07 -X08 -X09 X14 X15
= R13 0 -1.06X06 -1.06X07 -.96X08 -.86X09 X16
<= X17 80 X06 -X10
<= X18 0 X07 -X11
<= X19 0 X08 -X12
<= X20 0 X09 -X13
= R19 0 -X22 X23 X24 X25
= R20 0 -.43X22 X26
<= X27 500 X22
<= X44 0 -X23 1.4X36
= R22 0 -.43X28 -.43X29 -.39X30 -.37X31 X38
= R23 44 X28 X29 X30 X31 -X36 X37 X39
<= X40 500 X28 -X32
<= X41 0 X29 -X33
<= X42 0 X30 -X34
<= X43 0 X31 -X35
<= X45 0 2.364X10 2.386X11 2.408X12 2.429X13 -X25 2.191X32 2.219X33 2.249X34 2.279X35
<= X46 0 -X03 .109X22
<= X47 0 -X15 .109X28 .108X29 .108X30 .107X31
<= X48 0 .301X01 -X24
<= X49 0 .301X06 .313X07 .313X08 .326X09 -X37
<= X50 310 X04 X26
<= X51 300 X16 X38
"""
_AFIRO_COST = "-.4X02 -.32X14 -.6X23 -.48X36 10X39"


def _afiro():
    lines = [line.split() for line in _AFIRO.strip().splitlines()]
    rows = [_terms(line[3:]) for line in lines]
    names = sorted({name for row in rows for name in row})
    sides = np.array([float(line[2]) for line in lines])
    cost = _terms(_AFIRO_COST.split())
    return make(
        "afiro",
        [cost.get(name, 0) for name in names],
        [[row.get(name, 0) for name in names] for row in rows],
        row_lower=np.where([line[0] == "=" for line in lines], sides, -INF),
        row_upper=sides,
        optimum=-464.75314286,
    )


def _terms(words):
    coefficients = {}
    for word in words:
        factor, number = word.split("X")
        coefficients["X" + number] = float({"": "1", "-": "-1"}.get(factor, factor))
    return coefficients


def _klee_minty(size):
    """The cube on which Dantzig's rule visits all 2^size vertices (Klee and Minty, 1972, with
    powers of 5): the largest 2^(n-j) x_j is 5^n.
    """
    index = np.arange(size)
    matrix = np.eye(size) + np.tril(2.0 ** (index[:, None] - index + 1), -1)
    return make(
        f"Klee-Minty {size}",
        -(2.0 ** (size - 1 - index)),
        matrix,
        row_upper=5.0 ** (index + 1),
        optimum=-(5.0**size),
    )


def _cycling():
    """Programs on which the simplex method with Dantzig's rule cycles."""
    return [
        make(
            "Beale 1955",
            [-0.75, 150, -0.02, 6],
            [[0.25, -60, -0.04, 9], [0.5, -90, -0.02, 3], [0, 0, 1, 0]],
            row_upper=[0, 0, 1],
            optimum=-0.05,
        ),
        make(
            "Beale, second form",
            [-0.75, 20, -0.5, 6],
            [[0.25, -8, -1, 9], [0.5, -12, -0.5, 3], [0, 0, 1, 0]],
            row_upper=[0, 0, 1],
            optimum=-1.25,
        ),
        make(
            "Kuhn (Balinski and Tucker 1969)",
            [-2, -3, 1, 12],
            [[-2, -9, 1, 9], [1 / 3, 1, -1 / 3, -2], [2, 3, -1, -12]],
            row_upper=[0, 0, 2],
            optimum=-2,
        ),
        make(
            "Marshall and Suurballe 1969",
            [0, 0, 0, 0, -0.4, -0.4, 1.8],
            np.hstack(
                [np.eye(4), [[0.6, -6.4, 4.8], [0.2, -1.8, 0.6], [0.4, -1.6, 0.2], [0, 1, 0]]]
            ),
            row_lower=[0, 0, 0, 1],
            row_upper=[0, 0, 0, 1],
            optimum=-2,
        ),
        make(
            "Chvatal 1983, cycling",
            [-10, 57, 9, 24],
            [[0.5, -5.5, -2.5, 9], [0.5, -1.5, -0.5, 1], [1, 0, 0, 0]],
            row_upper=[0, 0, 1],
            optimum=-1,
        ),
    ]


def _textbook():
    energy, protein, calcium = (
        (110, 205, 160, 160, 420, 260),
        (4, 32, 13, 8, 4, 14),
        (2, 12, 54, 285, 22, 80),
    )
    distances = np.array([[2.5, 1.7, 1.8], [2.5, 1.8, 1.4]])
    return [
        make(
            "diet (Chvatal 1983)",
            [3, 24, 13, 9, 20, 19],
            [energy, protein, calcium],
            row_lower=[2000, 55, 800],
            upper=[4, 3, 2, 8, 2, 2],
            optimum=92.5,
        ),
        make(
            "production (Wyndor Glass)",
            [-3, -5],
            [[1, 0], [0, 2], [3, 2]],
            row_upper=[4, 12, 18],
            optimum=-36,
        ),
        make(
            "production (Reddy Mikks)",
            [-5, -4],
            [[6, 4], [1, 2], [-1, 1], [0, 1]],
            row_upper=[24, 6, 1, 2],
            optimum=-21,
        ),
        make(
            "radiation therapy (Hillier and Lieberman)",
            [0.4, 0.5],
            [[0.3, 0.1], [0.5, 0.5], [0.6, 0.4]],
            row_lower=[-INF, 6, 6],
            row_upper=[2.7, 6, INF],
            optimum=5.25,
        ),
        make(
            "blending (Ozark Farms)",
            [0.3, 0.9],
            [[1, 1], [0.21, -0.3], [0.03, -0.01]],
            row_lower=[800, -INF, 0],
            row_upper=[INF, 0, INF],
            optimum=7440 / 17,
        ),
        _transport(
            "transport (Dantzig 1963)",
            0.09 * distances,
            np.array([350, 600]),
            np.array([325, 300, 275]),
        )._replace(optimum=153.675),
    ]


def _incidence(num_nodes, arcs):
    matrix = np.zeros((num_nodes, len(arcs)))
    for j, (tail, head) in enumerate(arcs):
        matrix[tail, j], matrix[head, j] = -1, 1
    return matrix


def _maximum_flow():
    """The network of Cormen et al.: nodes s, v1 ... v4, t; the largest flow is 23."""
    capacities = {
        (0, 1): 16,
        (0, 2): 13,
        (1, 3): 12,
        (2, 1): 4,
        (2, 4): 14,
        (3, 2): 9,
        (3, 5): 20,
        (4, 3): 7,
        (4, 5): 4,
    }
    matrix = _incidence(6, list(capacities))
    return make(
        "maximum flow",
        matrix[0],
        matrix[1:5],
        row_lower=0,
        row_upper=0,
        upper=list(capacities.values()),
        optimum=-23,
    )


def _shortest_path():
    """Dijkstra's example of Cormen et al., nodes s, t, x, y, z: 9 from s to x. One of the
    equalities is redundant.
    """
    lengths = {
        (0, 1): 10,
        (0, 3): 5,
        (1, 2): 1,
        (1, 3): 2,
        (3, 1): 3,
        (3, 2): 9,
        (3, 4): 2,
        (2, 4): 4,
        (4, 2): 6,
        (4, 0): 7,
    }
    balance = [-1, 0, 1, 0, 0]
    return make(
        "shortest path",
        list(lengths.values()),
        _incidence(5, list(lengths)),
        row_lower=balance,
        row_upper=balance,
        optimum=9,
    )


def _games():
    # four regiments against three
    blotto = [[4, 0, 2, 1], [0, 4, 1, 2], [1, -1, 3, 0], [-1, 1, 0, 3], [-2, -2, 2, 2]]
    signs = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    return [
        _game("game, Colonel Blotto", blotto, 14 / 9),
        _game("game, rock paper scissors", signs, 0),
        _game("game, 2 x 2", [[3, -1], [-2, 1]], 1 / 7),
    ]


def _game(name, payoffs, value):
    """The row player's best mixture: the largest v such that each column pays v at least. The
    program's optimum is -v.
    """
    payoffs = np.array(payoffs, float)
    rows, columns = payoffs.shape
    return make(
        name,
        np.append(np.zeros(rows), -1),
        np.block([[payoffs.T, -np.ones((columns, 1))], [np.ones(rows), 0]]),
        row_lower=np.append(np.zeros(columns), 1),
        row_upper=np.append(np.full(columns, INF), 1),
        lower=np.append(np.zeros(rows), -INF),
        optimum=-value,
    )


def _chebyshev():
    """The polynomial of degree 3 nearest to x^4 on a grid with the extrema of the Chebyshev
    polynomial: it is 2^-3 away.
    """
    grid = np.cos(np.pi * np.arange(17) / 16)
    powers = np.vander(grid, 4, increasing=True)
    away = np.ones((len(grid), 1))
    return make(
        "Chebyshev approximation",
        [0, 0, 0, 0, 1],
        np.block([[powers, away], [powers, -away]]),
        row_lower=np.append(grid**4, np.full(17, -INF)),
        row_upper=np.append(np.full(17, INF), grid**4),
        lower=-INF,
        optimum=0.125,
    )


def _tiny():
    return [
        make("one variable, one row", [1], [[2]], row_lower=3, optimum=1.5),
        make("one variable, infeasible", [1], [[1]], row_lower=2, upper=1, kind="infeasible"),
        make("one variable, unbounded", [-1], [[1]], row_lower=2, kind="unbounded"),
        make("one variable, fixed", [3], [[1]], row_upper=5, lower=2, upper=2, optimum=6),
        make("no row", [1, -1, 0], np.zeros((0, 3)), lower=-1, upper=[INF, 2, INF], optimum=-3),
        make("nothing but zeros", [0, 0], np.zeros((2, 2)), row_upper=1, optimum=0),
        make(DUALLY_INFEASIBLE, [-1, -1], [[1, -1], [-1, 1]], row_upper=-1, kind="infeasible"),
        make(
            "parallel lines",
            [1, 1],
            [[1, 1], [2, 2]],
            row_lower=[1, 4],
            row_upper=[1, INF],
            kind="infeasible",
        ),
        make(
            "unbounded strip",
            [-1, -1],
            [[1, -1], [1, -1]],
            row_lower=[-1, -INF],
            row_upper=[INF, 1],
            kind="unbounded",
        ),
    ]


# --- structured programs --------------------------------------------------------------------------


def transport(num_sources, num_sinks, seed) -> Program:
    """Balanced transport at integer costs: supplies are not exceeded, demands are met."""
    random = np.random.default_rng([seed, num_sources, num_sinks])
    supplies, demands = random.integers(5, 20, num_sources), random.integers(5, 20, num_sinks)
    total = max(supplies.sum(), demands.sum())
    supplies[0] += total - supplies.sum()
    demands[0] += total - demands.sum()
    return _transport(
        f"transport {num_sources} x {num_sinks}",
        random.integers(1, 30, (num_sources, num_sinks)),
        supplies,
        demands,
    )


def _transport(name, costs, supplies, demands):
    sources, sinks = costs.shape
    leaving, arriving = (
        np.kron(np.eye(sources), np.ones(sinks)),
        np.kron(np.ones(sources), np.eye(sinks)),
    )
    return make(
        name,
        costs.ravel(),
        np.vstack([leaving, arriving]),
        row_lower=np.append(np.full(sources, -INF), demands),
        row_upper=np.append(supplies, demands),
    )


def assignment(size, seed) -> Program:
    """The assignment problem at integer costs, with the optimum of SciPy's Hungarian method."""
    from scipy.optimize import linear_sum_assignment

    costs = np.random.default_rng([seed, size]).integers(1, 100, (size, size))
    matrix = np.vstack([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
    optimum = costs[linear_sum_assignment(costs)].sum()
    return make(
        f"assignment {size}", costs.ravel(), matrix, row_lower=1, row_upper=1, optimum=optimum
    )


def set_cover(num_elements, num_sets, seed) -> Program:
    """The relaxation of covering all elements at the least cost: each element is in two sets at
    least.
    """
    random = np.random.default_rng([seed, num_elements, num_sets])
    contains = random.random((num_elements, num_sets)) < min(0.5, 4 / num_sets + 0.05)
    for row in contains:
        row[random.choice(num_sets, 2, replace=False)] = True
    costs = random.integers(1, 10, num_sets)
    return make(f"set cover {num_elements} x {num_sets}", costs, contains, row_lower=1, upper=1)


def lpboost_program(margins, nu) -> Program:
    """LP-Boost: maximise rho - D sum xi over votes lambda on the simplex, with D = 1 / (nu m).

    Args:
      margins: [m, n] of each example by each hypothesis, in [-1, 1].
      nu: in [1 / m, 1].

    Returns:
      The program in (lambda [n], rho, xi [m]), with m + 1 rows; minus its optimum is the soft
      margin.
    """
    examples, hypotheses = margins.shape
    ones = np.ones((examples, 1))
    return make(
        f"LP-Boost {examples} x {hypotheses}, nu {nu:g}",
        np.concatenate([np.zeros(hypotheses), [-1], np.full(examples, 1 / (nu * examples))]),
        np.block(
            [[margins, -ones, np.eye(examples)], [np.ones(hypotheses), 0, np.zeros(examples)]]
        ),
        row_lower=np.append(np.zeros(examples), 1),
        row_upper=np.append(np.full(examples, INF), 1),
        lower=np.concatenate([np.zeros(hypotheses), [-INF], np.zeros(examples)]),
    )


def lpboost_dual_program(margins, nu) -> Program:
    """The dual of `lpboost_program`: the weights u on the examples, up to D each, whose largest
    edge beta is the least.

    Returns:
      The program in (u [m], beta), with n + 1 rows; its optimum is the soft margin.
    """
    examples, hypotheses = margins.shape
    return make(
        f"LP-Boost's dual {examples} x {hypotheses}, nu {nu:g}",
        np.append(np.zeros(examples), 1),
        np.block([[margins.T, -np.ones((hypotheses, 1))], [np.ones(examples), 0]]),
        row_lower=np.append(np.full(hypotheses, -INF), 1),
        row_upper=np.append(np.zeros(hypotheses), 1),
        lower=np.append(np.zeros(examples), -1),
        upper=np.append(np.full(examples, 1 / (nu * examples)), 1),
    )


def random_margins(kind, m, n, seed) -> np.ndarray:
    """Margins +-1, float64 [m, n]. At 100 x 40 and 300 x 120 the soft margin was above 0 for nu
    from 0.05; a few stumps may have none.

    "signs": independent, right with a probability from 0.55 to 0.75 that varies with the
    hypothesis. "stumps": decision stumps on ten Gaussian features, with labels that are the
    majority of three of them, one in a hundred flipped.
    """
    random = np.random.default_rng([seed, m, n])
    if kind == "signs":
        return np.where(random.random((m, n)) < random.uniform(0.55, 0.75, n), 1.0, -1.0)
    if kind != "stumps":
        raise ValueError(f"kind is {kind!r}: signs or stumps is wanted")
    features = random.normal(size=(m, 10))
    chosen = random.integers(0, 10, n)
    outputs = np.where(
        features[:, chosen] > features[random.integers(0, m, n), chosen], 1.0, -1.0
    ) * random.choice([-1, 1], n)
    labels = np.sign(outputs[:, :3].sum(axis=1)) * np.where(random.random(m) < 0.01, -1, 1)
    return labels[:, None] * random.permutation(outputs, axis=1)
