"""Data sets that ship inside scikit-learn, as tables of two classes; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jboost.base import check
from jboost.data.table import Table, map_labels


def load_table(name: str) -> Table:
    """A data set of scikit-learn by name.

    Args:
      name: "breast_cancer" (569 rows, malignant against benign), "wine" (178 rows, the second
        cultivar against the two others) or "digits" (1,797 rows, odd against even).

    Returns:
      A `Table` with labels; the alphabetically greater class is +1.

    Raises:
      ValueError: if there is no data set of this name.

    >>> table = load_table("breast_cancer")
    >>> table.num_rows, len(table.columns), str(table.mapping)
    (569, 30, 'diagnosis: benign -> -1, malignant -> +1')
    """
    check.choice("the name of the embedded data set", name, names())
    import sklearn.datasets

    column, classes = _CLASSES[name]
    bunch: Any = getattr(sklearn.datasets, f"load_{name}")()
    source = f"sklearn:{name}"
    labels, mapping, notes = map_labels(
        source, column, [classes(target) for target in bunch.target]
    )
    numeric = {
        str(feature): np.asarray(bunch.data[:, index], np.float64)
        for index, feature in enumerate(bunch.feature_names)
    }
    return Table(source, len(labels), numeric, {}, {}, labels, mapping, notes)


def names() -> tuple[str, ...]:
    """The names that `load_table` accepts."""
    return tuple(_CLASSES)


_CLASSES: dict[str, tuple[str, Callable[[int], str]]] = {
    "breast_cancer": ("diagnosis", lambda target: ("malignant", "benign")[target]),
    "digits": ("parity", lambda target: ("even", "odd")[target % 2]),
    "wine": ("cultivar", lambda target: "second" if target == 1 else "other"),
}
