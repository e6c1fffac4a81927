"""Many small linear programs of one shape: feasible, infeasible, unbounded, degenerate, empty, and
with variables that are fixed.

    minimise objective . x  subject to  row_lower <= matrix x <= row_upper,  lower <= x <= upper

Plain numpy, nothing of the package. Entries are multiples of 1/4, so that float32 holds them and
sums are exact; those of the families "rough" and "impossible" are not.
"""

import numpy as np

from linear_programs import INF, Program

ROWS, COLUMNS = 5, 6


def random_status_programs(count, seed=0) -> list[Program]:
    """`count` programs of 5 rows and 6 columns, the families in turn."""
    programs = []
    for index in range(count):
        random = np.random.default_rng([seed, index])
        name, build = FAMILIES[index % len(FAMILIES)]
        programs.append(build(random)._replace(name=f"{name} #{index}"))
    return programs


def _quarters(random, *shape, most=8):
    return random.integers(-most, most + 1, shape) / 4


def _entries(random):
    return _quarters(random, ROWS, COLUMNS) * (random.random((ROWS, COLUMNS)) < 0.6)


def _program(objective, matrix, rows, columns):
    return Program("", objective, matrix, *rows, *columns, "unknown")


def _interval(random, middle, kinds):
    """Bounds around the numbers: of a kind each, among "equal", "lower", "upper", "both" and
    "none".
    """
    below, above = (
        middle - random.integers(0, 5, middle.shape) / 4,
        middle + random.integers(0, 5, middle.shape) / 4,
    )
    low = np.select([kinds == "equal", np.isin(kinds, ("lower", "both"))], [middle, below], -INF)
    return low, np.select(
        [kinds == "equal", np.isin(kinds, ("upper", "both"))], [middle, above], INF
    )


def _kinds(random, size, equal=0.2, lower=0.3, upper=0.2, both=0.2, none=0.1):
    return random.choice(
        ["equal", "lower", "upper", "both", "none"], size, p=[equal, lower, upper, both, none]
    )


def _feasible(random):
    """Around a point; the objective may fall without end."""
    matrix, point = _entries(random), _quarters(random, COLUMNS)
    rows, columns = (
        _interval(random, matrix @ point, _kinds(random, ROWS)),
        _interval(random, point, _kinds(random, COLUMNS)),
    )
    return _program(_quarters(random, COLUMNS), matrix, rows, columns)


def _boxed(random):
    """Around a point, all variables within two bounds: there is an optimum."""
    matrix, point = _entries(random), _quarters(random, COLUMNS)
    columns = _interval(random, point, np.full(COLUMNS, "both"))
    return _program(
        _quarters(random, COLUMNS),
        matrix,
        _interval(random, matrix @ point, _kinds(random, ROWS)),
        columns,
    )


def _infeasible(random):
    """One row asks for more than a combination of the others leaves, or for more than the bounds
    allow.
    """
    program = _boxed(random) if random.random() < 0.5 else _feasible(random)
    matrix, row_lower, row_upper = (
        program.matrix.copy(),
        program.row_lower.copy(),
        program.row_upper.copy(),
    )
    if random.random() < 0.5:
        matrix[-1] = -(matrix[0] + matrix[1])
        row_upper[:2], row_lower[:2] = [1, 2], -INF
        row_upper[-1], row_lower[-1] = -3 - random.integers(1, 5) / 4, -INF
    else:
        matrix[-1] = np.abs(matrix[-1])
        row_upper[-1], row_lower[-1] = -random.integers(1, 5) / 4, -INF
        return program._replace(
            matrix=matrix,
            row_lower=row_lower,
            row_upper=row_upper,
            lower=np.zeros(COLUMNS),
            upper=np.full(COLUMNS, INF),
        )
    return program._replace(matrix=matrix, row_lower=row_lower, row_upper=row_upper)


def _unbounded(random):
    """A direction that no row and no bound stops, along which the objective falls."""
    program = _feasible(random)
    direction = random.integers(-1, 2, COLUMNS) * 1.0
    direction[0] = 1.0
    matrix = program.matrix.copy()
    matrix[:, 0] -= matrix @ direction  # now matrix @ direction = 0
    low, high = (
        np.where(direction < 0, -INF, program.lower),
        np.where(direction > 0, INF, program.upper),
    )
    objective = program.objective.copy()
    objective[0] -= objective @ direction + 1
    middle = _quarters(random, COLUMNS)
    rows = _interval(random, matrix @ middle, _kinds(random, ROWS))
    columns = np.minimum(low, middle), np.maximum(high, middle)
    return _program(objective, matrix, rows, columns)


def _transport(random):
    """Two supplies and three demands in equalities one of which follows from the others."""
    shipped = random.integers(0, 9, (2, 3)) * 1.0
    matrix = np.zeros((ROWS, COLUMNS))
    for source in range(2):
        for target in range(3):
            matrix[[source, 2 + target], 3 * source + target] = 1
    sides = np.concatenate([shipped.sum(1), shipped.sum(0)])
    return _program(
        random.integers(1, 9, COLUMNS) * 1.0,
        matrix,
        (sides, sides),
        (np.zeros(COLUMNS), np.full(COLUMNS, INF)),
    )


def _degenerate(random):
    """Rows and columns twice, ties in the objective, rows that meet in the vertex."""
    program = _boxed(random)
    matrix, objective = program.matrix.copy(), random.integers(-1, 2, COLUMNS) * 1.0
    matrix[1], matrix[:, 1] = matrix[0], matrix[:, 0]
    point = np.clip(_quarters(random, COLUMNS), program.lower, program.upper)
    rows = _interval(
        random,
        matrix @ point,
        _kinds(random, ROWS, equal=0.6, lower=0.1, upper=0.1, both=0.1, none=0.1),
    )
    return _program(objective, matrix, rows, (program.lower, program.upper))


def _empty(random):
    """No entries at all, or hardly any; bounds of rows that hold 0, or do not."""
    matrix = _entries(random) * (random.random((ROWS, COLUMNS)) < random.choice([0.0, 0.1]))
    columns = _interval(
        random,
        _quarters(random, COLUMNS),
        _kinds(random, COLUMNS, equal=0.2, lower=0.3, upper=0.1, both=0.3, none=0.1),
    )
    rows = _interval(random, np.zeros(ROWS), _kinds(random, ROWS))
    if random.random() < 0.2:
        rows = np.where(random.random(ROWS) < 0.3, 0.25, rows[0]), np.maximum(rows[1], 0.25)
    return _program(_quarters(random, COLUMNS) * (random.random() < 0.8), matrix, rows, columns)


def _fixed(random):
    """All variables fixed by their bounds, or all but one or two."""
    matrix, point = _entries(random), _quarters(random, COLUMNS)
    kinds = np.full(COLUMNS, "equal")
    kinds[: random.integers(0, 3)] = "both"
    rows = _interval(
        random,
        matrix @ point,
        _kinds(random, ROWS, equal=0.5, lower=0.2, upper=0.1, both=0.1, none=0.1),
    )
    if random.random() < 0.2:
        rows = (
            np.where(np.arange(ROWS) == 0, rows[0] + 0.5, rows[0]),
            np.where(np.arange(ROWS) == 0, rows[1] + 0.5, rows[1]),
        )
    return _program(_quarters(random, COLUMNS), matrix, rows, _interval(random, point, kinds))


def _rough(random):
    """Around a point, with numbers of full length, held by float32 to the bit; equalities are met
    but for rounding.
    """
    matrix = (
        (random.normal(size=(ROWS, COLUMNS)) * (random.random((ROWS, COLUMNS)) < 0.7))
        .astype(np.float32)
        .astype(np.float64)
    )
    point = random.normal(size=COLUMNS)
    columns = _interval(
        random, point, _kinds(random, COLUMNS, equal=0.1, lower=0.4, upper=0.1, both=0.3, none=0.1)
    )
    rows = _interval(
        random,
        matrix @ point,
        _kinds(random, ROWS, equal=0.2, lower=0.3, upper=0.3, both=0.1, none=0.1),
    )
    program = _program(random.normal(size=COLUMNS), matrix, rows, columns)
    rounded = [part.astype(np.float32).astype(np.float64) for part in program[1:7]]
    return program._replace(**dict(zip(Program._fields[1:7], rounded, strict=True)))


def _rough_infeasible(random):
    """Numbers of full length in a box; a row, or the sum of three rows, asks for more than the box
    allows.
    """
    program = _rough(random)
    matrix = program.matrix.copy()
    low = np.where(np.isinf(program.lower), np.minimum(-4.0, program.upper), program.lower)
    high = np.where(np.isinf(program.upper), np.maximum(4.0, low), program.upper)
    row_lower, row_upper = np.full(ROWS, -INF), program.row_upper.copy()
    if random.random() < 0.5:
        row_lower[0] = np.maximum(matrix[0] * low, matrix[0] * high).sum() + 0.5
    else:
        matrix[2] = -(matrix[0] + matrix[1])
        row_lower[:3] = random.normal(size=3)
        row_lower[2] = 1.0 - row_lower[:2].sum()
    row_upper[:3] = INF
    parts = (matrix, row_lower, row_upper, low, high)
    rounded = [part.astype(np.float32).astype(np.float64) for part in parts]
    return _program(program.objective, rounded[0], rounded[1:3], rounded[3:])


FAMILIES = (
    ("feasible", _feasible),
    ("boxed", _boxed),
    ("infeasible", _infeasible),
    ("unbounded", _unbounded),
    ("transport", _transport),
    ("degenerate", _degenerate),
    ("empty", _empty),
    ("fixed", _fixed),
    ("rough", _rough),
    ("impossible", _rough_infeasible),
)
