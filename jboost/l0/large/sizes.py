"""The numbers of rows, columns and cuts that a fit works on at a time."""

from __future__ import annotations

from jboost.base.padding import shared_size
from jboost.l0.large.proof import MonomialTable

# The rows of the first relaxation, if there are many rows, and the factor from each relaxation to
# the next.
FIRST_ROWS, MORE_ROWS = 4096, 4
ENTRIES = 1 << 22  # the most entries (rows times columns) of the master
LEAST_COLUMNS = 64  # the least capacity for columns, for any number of rows
# The capacity for tables of few monomials, and the least one for others, so that they share
# programs.
_FEW_COLUMNS, _MANY_COLUMNS = 256, 1024


def stages(num_rows: int) -> list[int]:
    """The numbers of rows of successive relaxations; if there are many rows, the first ones have
    only a part of them.
    """
    sizes = [FIRST_ROWS]
    while sizes[-1] * MORE_ROWS < num_rows:
        sizes.append(sizes[-1] * MORE_ROWS)
    return [num_rows] if num_rows <= 2 * FIRST_ROWS else [*sizes, num_rows]


def capacity(table: MonomialTable, max_columns: int) -> int:
    """The number of columns held at a time; it is smaller if there are many rows."""
    most = min(max(LEAST_COLUMNS, ENTRIES // len(table.labels)), max_columns)
    needed = 2 * len(table.costs)
    least = _FEW_COLUMNS if needed <= _FEW_COLUMNS else _MANY_COLUMNS
    return min(1 << (most.bit_length() - 1), shared_size(needed, least=least, steps=1))
