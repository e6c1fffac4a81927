"""Sizes to which commands pad rows and columns, so that tables of similar size share compiled
programs.

Where a fit takes less time than its compilation sizes double; beyond that rows grow by a quarter at
most, or by less where the work grows faster than they do and takes long.
"""

from __future__ import annotations

from jboost.base.padding import shared_size


def linear(num_rows: int) -> int:
    """Rows of work that grows with them, as of boosting."""
    return shared_size(num_rows, least=256, doubles_to=4096)


def superlinear(num_rows: int) -> int:
    """Rows of work that grows faster than they do and is mostly quicker than its compilation, as of
    the relaxation of l0.
    """
    return shared_size(num_rows, least=256, doubles_to=512)


def quadratic(num_rows: int) -> int:
    """Rows of work that grows with their square, as of pairs of classifiers."""
    return shared_size(num_rows, least=64, doubles_to=1024, steps=16)


def cubic(num_rows: int) -> int:
    """Rows of work that grows with their third power, as of example weights."""
    return shared_size(num_rows, least=32, doubles_to=128, steps=16)


def columns(num_columns: int) -> int:
    """Columns of work that grows with them."""
    return shared_size(num_columns, least=8, doubles_to=64)


def literals(num_columns: int) -> int:
    """Columns of a search over conjunctions of yes-or-no questions, most of whose time at few
    columns goes to other things than columns.
    """
    return _FEW if num_columns <= _FEW else shared_size(num_columns, least=4 * _FEW)


_FEW = 32
