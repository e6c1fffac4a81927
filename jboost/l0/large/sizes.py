"""The numbers of rows, columns and cuts that a fit works on at a time."""

from __future__ import annotations

from jboost.l0.large.proof import Table

# The rows of the first relaxation, if there are many rows, and the factor from each relaxation to
# the next.
FIRST_ROWS, MORE_ROWS = 4096, 4
ENTRIES = 1 << 22  # the most entries (rows times columns) of the master
LEAST_COLUMNS = 64  # the least capacity for columns, for any number of rows
_FEW_COLUMNS = 256  # the capacity for tables of few monomials, which then share programs


def stages(num_rows: int) -> list[int]:
    """The numbers of rows of successive relaxations; if there are many rows, the first ones have
    only a part of them.
    """
    sizes = [FIRST_ROWS]
    while sizes[-1] * MORE_ROWS < num_rows:
        sizes.append(sizes[-1] * MORE_ROWS)
    return [num_rows] if num_rows <= 2 * FIRST_ROWS else [*sizes, num_rows]


def capacity(table: Table, max_columns: int) -> int:
    """The number of columns held at a time; it is smaller if there are many rows."""
    most = min(max(LEAST_COLUMNS, ENTRIES // len(table.labels)), max_columns)
    needed = max(2 * len(table.costs), _FEW_COLUMNS)  # small tables share a size
    return min(1 << (most.bit_length() - 1), 1 << (needed - 1).bit_length())
