"""Sizes to which commands pad rows and columns.

Tables of similar size then share compiled programs. While a fit takes less time than its
compilation, the padded sizes are powers of two. Above that, the padding adds at most a quarter of
the rows. It adds less if the running time grows faster than the number of rows.
"""

from __future__ import annotations

from jboost.base.padding import shared_size


def linear(num_rows: int) -> int:
    """Returns the padded number of rows for methods of linear time, such as boosting."""
    return shared_size(num_rows, least=256, doubles_to=4096)


def superlinear(num_rows: int) -> int:
    """Returns the padded number of rows for methods of superlinear time, such as l0.

    These fits mostly take less time than their compilation.
    """
    return shared_size(num_rows, least=256, doubles_to=1024)


def quadratic(num_rows: int) -> int:
    """Returns the padded number of rows for methods of quadratic time, such as pair."""
    return shared_size(num_rows, least=64, doubles_to=1024, steps=16)


def cubic(num_rows: int) -> int:
    """Returns the padded number of rows for methods of cubic time, such as example-weights."""
    return shared_size(num_rows, least=32, doubles_to=128, steps=16)


def columns(num_columns: int) -> int:
    """Returns the padded number of columns for methods of linear time in the columns."""
    return shared_size(num_columns, least=8, doubles_to=64)


def literals(num_columns: int) -> int:
    """Returns the padded number of columns for the search over monomials.

    With a small number of columns their number hardly affects the running time.
    """
    if num_columns <= _FEWEST_LITERALS:
        return _FEWEST_LITERALS
    return shared_size(num_columns, least=4 * _FEWEST_LITERALS)


_FEWEST_LITERALS = 32  # the least padded number of columns; a round number, not tuned
