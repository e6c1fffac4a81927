"""The data sets: a table, its labels and the names of its columns, from a folder or else from
OpenML.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jboost.data import readers

OPENML = {  # number and rows
    "BCW": (15, 699),
    "VOTE": (56, 435),
    "CLVHEART": (49, 303),
    "HUHEART": (51, 294),
    "SONAR": (40, 208),
    "PIMA": (37, 768),
    "GERMAN": (31, 1000),
    "IONOSPHERE": (59, 351),
    "TICTACTOE": (50, 958),
}


def read_set(name: str, folders: Sequence[Path]) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """A table [m, n] of numbers and text, labels [m], and the names of its columns: from the first
    folder that has it, or else from OpenML.
    """
    for path in (folder / f"{name}.csv" for folder in folders):
        if not path.is_file():
            continue
        table = readers.read_table(path, label="label")
        assert table.labels is not None
        return (
            table.matrix(tuple(table.numeric), tuple(table.categorical)),
            table.labels,
            table.columns,
        )
    remedy = f"hand in --data with a folder that holds {name}.csv"
    number, num_rows = OPENML[name]
    try:
        fetched = read_openml(number)
    except OSError as error:
        raise SystemExit(
            f"{name}.csv is not there, and OpenML cannot be reached ({error}): {remedy}"
        ) from error
    if len(fetched[1]) != num_rows:
        raise SystemExit(
            f"number {number} at OpenML has {len(fetched[1])} rows, where {name} has {num_rows}:"
            f" {remedy}"
        )
    return fetched


def drawn(
    table: np.ndarray, labels: np.ndarray, num_rows: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """So many rows of a larger set, drawn once for all; all rows for None."""
    if num_rows is None or len(labels) <= num_rows:
        return table, labels
    chosen = np.random.default_rng(0).permutation(len(labels))[:num_rows]
    return table[chosen], labels[chosen]


def validate_sources(names: Sequence[str], folders: Sequence[Path]) -> None:
    """Refuses, before anything is fitted, data sets that are neither in the folders nor known at
    OpenML.
    """
    for name in names:
        if name not in OPENML and not any((folder / f"{name}.csv").is_file() for folder in folders):
            raise SystemExit(
                f"{name}.csv is not there, and its number at OpenML is not known: hand in --data"
                f" with a folder that holds {name}.csv, or name other sets with --only"
            )


def read_openml(number: int) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """The data set of a number at OpenML, as `read_set` gives it; the last class in order is the
    positive one. Fetched once, then kept.
    """
    from sklearn.datasets import fetch_openml

    fetched = fetch_openml(data_id=number, as_frame=False, parser="liac-arff")
    classes = sorted(set(map(str, fetched.target)))
    labels = np.where(np.array(list(map(str, fetched.target))) == classes[-1], 1.0, -1.0)
    names = tuple(map(str, fetched.feature_names))
    matrix = np.asarray(fetched.data).astype(object)
    for name, words in (fetched.categories or {}).items():
        column = names.index(name)
        matrix[:, column] = [
            np.nan if code != code else str(words[int(code)]) for code in matrix[:, column]
        ]
    return matrix, labels, names
