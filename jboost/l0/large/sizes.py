"""How many rows, columns and cuts a fit works on at a time."""

from __future__ import annotations

from jboost.l0.large.proof import Table

# of the first relaxation, where rows are many; and how many times as many the next ones have
FIRST_ROWS, MORE_ROWS = 4096, 4
ENTRIES = 1 << 22  # of the master, rows times columns
LEAST_COLUMNS = 64
_FEW_COLUMNS = 256


def stages(num_rows: int) -> list[int]:
    """Of how many rows relaxations are solved one after another: a part first where
    rows are many.
    """
    sizes = [FIRST_ROWS]
    while sizes[-1] * MORE_ROWS < num_rows:
        sizes.append(sizes[-1] * MORE_ROWS)
    return [num_rows] if num_rows <= 2 * FIRST_ROWS else [*sizes, num_rows]


def capacity(table: Table, max_columns: int) -> int:
    """Columns held at a time: fewer where rows are many."""
    most = min(max(LEAST_COLUMNS, ENTRIES // len(table.labels)), max_columns)
    needed = max(2 * len(table.costs), _FEW_COLUMNS)  # small tables share a size
    return min(1 << (most.bit_length() - 1), 1 << (needed - 1).bit_length())
