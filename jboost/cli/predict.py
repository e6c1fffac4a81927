"""`jboost predict` and `jboost inspect`, which read an output folder of `jboost fit`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from jboost import files, outputs
from jboost.cli.boosting import predict as boost_predict
from jboost.cli.combine import predict as combine_predict
from jboost.cli.example_weights import predict as example_weights_predict
from jboost.cli.l0 import predict as l0_predict
from jboost.cli.option import BOOSTERS, COMBINE, EXAMPLE_WEIGHTS, L0, PAIR, SLIPPER
from jboost.cli.options import EMBEDDED
from jboost.cli.output import MODEL, check_single_file
from jboost.cli.pair import predict as pair_predict
from jboost.cli.reading import recall_reading
from jboost.cli.slipper import predict as slipper_predict
from jboost.data import embedded, readers
from jboost.data.dialect import Reading
from jboost.data.kinds import NUMBER, TEXT, ColumnKind
from jboost.data.readers import NewRows
from jboost.data.table import UsedColumns
from jboost.verify import flaw_of_metadata

_ENDINGS = (".csv", ".tsv", ".txt")  # predictions replace only files with these extensions
_NOTE = "note"
# Each module has read(path, metadata), used_columns(fitted), predict_columns(fitted, table),
# exported(fitted) and show(fitted, say). The modules of l0 and slipper also have
# explain(fitted, table).
_MODULES: dict[str, ModuleType] = {
    PAIR: pair_predict,
    COMBINE: combine_predict,
    EXAMPLE_WEIGHTS: example_weights_predict,
    L0: l0_predict,
    SLIPPER: slipper_predict,
    **dict.fromkeys(BOOSTERS, boost_predict),
}


def read_folder(folder: str) -> tuple[ModuleType, Any, dict[str, Any]]:
    """Returns the module of the method, the model of an output folder, and its metadata.

    Raises:
      ValueError: if a file is missing or damaged.
    """
    path = Path(folder) / MODEL
    if not path.is_file():
        raise ValueError(f"{folder}: {_flaw(Path(folder))}")
    metadata = files.load_metadata(path)
    flaw = flaw_of_metadata(metadata)
    if flaw:
        raise ValueError(f"{path}: {flaw}")
    try:
        module = _MODULES.get(metadata.get("method", PAIR), pair_predict)
        return module, module.read(path, metadata), metadata
    except (KeyError, TypeError):
        raise ValueError(
            f"{path}: the model was not written by jboost fit: use jboost.files.load"
        ) from None


def _flaw(folder: Path) -> str:
    """Returns the reason why a path is not an output folder."""
    if folder.is_dir():
        return f"no output folder of jboost fit: it has no {MODEL}"
    return (
        f"is a file: name the folder that jboost fit wrote, as {folder.parent}"
        if folder.exists()
        else "there is no such folder"
    )


def predict(
    folder: str, data: str, output: str, *, explain: bool = False, reading: Reading = Reading()
) -> tuple[int, tuple[str, ...]]:
    """Writes the score and the prediction of every row as CSV.

    For the methods pair and combine the scores of the classifiers are written too.

    Args:
      folder: an output folder of `jboost fit`.
      data: a file with the columns that the model uses, or an embedded data set.
      output: a .csv file, or - for the standard output.
      explain: whether to add a column with the rules that hold, for l0 and slipper.
      reading: the format of the file where it differs from that of the training data.

    Returns:
      The number of rows, and notes for the user.
    """
    import polars

    if output != "-":
        check_single_file(output, _ENDINGS)
    if (
        output != "-"
        and os.path.exists(output)
        and os.path.exists(data)
        and os.path.samefile(output, data)
    ):
        raise ValueError(
            f"{output}: the predictions would replace the data: choose another --output"
        )
    module, fitted, metadata = read_folder(folder)
    if explain and not hasattr(module, "explain"):
        raise ValueError(
            f"{folder}: --explain requires a model of rules: omit --explain, or fit a model with"
            " --method l0 or slipper"
        )
    rows = _read_rows(data, module.used_columns(fitted), metadata.get("reading"), reading)
    columns = module.predict_columns(fitted, rows.table)
    if explain:
        columns |= {"rules": module.explain(fitted, rows.table)}
    frame = polars.DataFrame(_in_all_rows(columns, rows))
    if output == "-":
        import click

        click.echo(frame.write_csv(), nl=False)
        return frame.height, rows.notes
    with outputs.file(output, endings=_ENDINGS) as temporary:
        frame.write_csv(temporary)
    return frame.height, rows.notes


def _read_rows(
    data: str, used: UsedColumns, kept: Mapping[str, Any] | None, given: Reading
) -> NewRows:
    """Reads the rows with the given format, or by default with that of the training data."""
    if data.startswith(EMBEDDED):
        table = embedded.load_table(data.removeprefix(EMBEDDED))
        return NewRows(table, np.ones(table.num_rows, bool), ("",) * table.num_rows)
    kinds, like = recall_reading(kept or {})
    for names, unknown in zip(used, (ColumnKind(NUMBER), ColumnKind(TEXT)), strict=True):
        kinds |= {name: kinds.get(name, unknown) for name in names}
    used_kinds = {name: kinds[name] for names in used for name in names}
    return readers.read_new_rows(data, used_kinds, reading=given, like=like)


def _in_all_rows(columns: Mapping[str, Any], rows: NewRows) -> dict[str, Any]:
    """Returns the columns of the prediction file.

    Rows that cannot be predicted have null. The column of identifiers comes first. If there are
    nulls, the last column has the reasons.
    """
    import polars

    result: dict[str, Any] = (
        {} if rows.ids is None else {rows.id_name: [one or None for one in rows.ids]}
    )
    indices = [
        int(index) if usable else None
        for index, usable in zip(np.cumsum(rows.is_usable) - 1, rows.is_usable, strict=True)
    ]
    if {*columns, _NOTE} & result.keys():
        raise ValueError(
            f"the column '{rows.id_name}' of --id has the name of a column of the predictions:"
            " rename it in the data"
        )
    for name, values in columns.items():
        result[name] = polars.Series(values).gather(polars.Series(indices, dtype=polars.Int64))
    return (
        result
        if rows.is_usable.all()
        else result | {_NOTE: [reason or None for reason in rows.reasons]}
    )


def inspect(folder: str, say: Any) -> None:
    """Prints the model, its formula and its certificate."""
    module, fitted, _ = read_folder(folder)
    module.show(fitted, say)
