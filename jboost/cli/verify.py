"""`jboost verify`: recomputes the certificate of a model from the data of its fit.

The table is read as `jboost fit` read it: in any format that it takes, without rows of weight 0 and
without rows that were held out. `jboost.verify` proves the rest, and shares no code with the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jboost import files
from jboost import verify as checker
from jboost.cli import inputs
from jboost.cli.option import PAIR
from jboost.cli.options import EMBEDDED
from jboost.cli.output import MODEL
from jboost.cli.reading import recall_reading
from jboost.data import embedded, readers
from jboost.data.dialect import Reading
from jboost.data.kinds import DATE, TEXT
from jboost.data.table import LabelMapping, Table
from jboost.verify import Verification


def verify(
    model: str,
    data: str,
    *,
    label: str | None = None,
    weights: str | None = None,
    max_points: int | None = None,
    max_nodes: int | None = None,
) -> Verification:
    """Checks a saved model by the data of its fit.

    Args:
      model: an output folder of `jboost fit`, or a file of `jboost.files.save`.
      data: the file or the embedded data set of the fit, or an .npz file of arrays by name.
      label: the column of labels; None for that of the fit.
      weights: the column of weights; None for that of the fit.
      max_points: the most points whose lines or planes are enumerated; None for the default of
        `jboost.verify`.
      max_nodes: the most nodes of the search for monomials; None for the default of
        `jboost.verify`.

    Returns:
      A `Verification`.

    Raises:
      ValueError: if there is no such model, or the data cannot be read.
    """
    path = _model_file(model)
    flaw, given = checker.flaw_of_file(path), data  # what no data can change comes first
    if not flaw and Path(data).suffix != ".npz":
        flaw, given = _read_data(path, data, label, weights)
    if flaw:
        return Verification(False, -math.inf, math.inf, flaw)
    return checker.verify_file(
        path,
        given,
        label=label,
        weights=weights,
        max_points=max_points,
        max_nodes=max_nodes,
    )


def _model_file(model: str) -> Path:
    path = Path(model)
    if not path.exists():
        raise ValueError(f"{model}: there is no such file or folder: name what jboost fit wrote")
    if path.is_dir() and not (path / MODEL).is_file():
        raise ValueError(f"{model}: no output folder of jboost fit: it has no {MODEL}")
    return path / MODEL if path.is_dir() else path


def _read_data(path: Path, data: str, label: str | None, weights: str | None) -> tuple[str, Any]:
    """Why the metadata of a model are not those of `jboost fit`, or "", and the data as the check
    takes them.
    """
    try:
        metadata = files.load_metadata(path)
    except ValueError as error:
        return str(error), data
    is_of_fit = (metadata.get("score_columns") or "training" in metadata) and metadata.get("labels")
    if not is_of_fit:
        return "", data
    flaw = checker.flaw_of_metadata(metadata)
    if flaw:
        return f"{path}: {flaw}", data
    try:
        return "", _read_arrays(data, metadata, label, weights)
    except (KeyError, TypeError):
        return f"{path}: the metadata lack a field of those of jboost fit", data


def _read_arrays(
    data: str, metadata: Mapping[str, Any], label: str | None, weights: str | None
) -> dict[str, np.ndarray]:
    """Returns scores or columns of features, labels and weights of the rows of the fit, by the
    names of the check.
    """
    weights = weights or metadata.get("weights")
    scores = metadata.get("score_columns")
    kinds = ("numeric", "categorical")
    numeric, categorical = (scores, []) if scores else (metadata[kind] for kind in kinds)
    columns = [*numeric, *categorical, *([weights] if weights else [])]
    table = _read_table(data, metadata, label, columns)
    assert table.labels is not None
    arrays = {"labels": table.labels}
    if scores:
        name = "points" if metadata.get("method", PAIR) == PAIR else "scores"
        arrays[name] = np.stack([table.numbers(name) for name in scores], axis=1)
    else:
        arrays["rows"] = table.matrix(numeric, categorical)
    if weights:
        arrays["weights"] = table.weights(weights)
        counts = arrays["weights"] > 0
        arrays = {name: values[counts] for name, values in arrays.items()}
    held_out = metadata.get("held_out") or {"fraction": 0.0, "seed": 0}  # absent in older files
    kept, _ = inputs.split_rows(arrays["labels"], held_out["fraction"], held_out["seed"])
    return {name: values[kept] for name, values in arrays.items()}


def _read_table(
    data: str, metadata: Mapping[str, Any], label: str | None, columns: list[str]
) -> Table:
    if data.startswith(EMBEDDED):
        return embedded.load_table(data.removeprefix(EMBEDDED))
    mapping = LabelMapping(**metadata["labels"])
    kinds, like = recall_reading(metadata.get("reading") or {})
    texts, dates = (
        tuple(name for name in columns if name in kinds and kinds[name].name == kind)
        for kind in (TEXT, DATE)
    )
    table = readers.read_table(
        data,
        label=label or mapping.column,
        reading=Reading(positive=mapping.positive, categorical=texts, dates=dates),
        columns=columns,
        like=like,
        no_features=columns,
    )
    rest = f"not {mapping.positive}"
    assert table.mapping is not None
    if table.mapping.negative == rest != mapping.negative:
        raise ValueError(
            f"{table.source}: column '{table.mapping.column}' holds more than the two classes of"
            f" the fit, {mapping.negative} and {mapping.positive}: give the data of the fit"
        )
    return table
