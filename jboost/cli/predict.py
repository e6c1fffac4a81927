"""`jboost predict` and `jboost inspect`: what is done with an output folder of `jboost fit`."""

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
from jboost.cli.output import MODEL
from jboost.cli.pair import predict as pair_predict
from jboost.cli.reading import recall_reading
from jboost.cli.slipper import predict as slipper_predict
from jboost.data import embedded, readers
from jboost.data.dialect import Reading
from jboost.data.kinds import NUMBER, TEXT, Kind
from jboost.data.readers import NewRows
from jboost.data.table import UsedColumns

_ENDINGS = (".csv", ".tsv", ".txt")  # of the files that predictions may replace
_NOTE = "note"
# Each has read(path, metadata), used_columns(fitted), predict_columns(fitted, table),
# exported(fitted) and show(fitted, say); those of rules explain(fitted, table), too.
_MODULES: dict[str, ModuleType] = {
    PAIR: pair_predict,
    COMBINE: combine_predict,
    EXAMPLE_WEIGHTS: example_weights_predict,
    L0: l0_predict,
    SLIPPER: slipper_predict,
    **dict.fromkeys(BOOSTERS, boost_predict),
}


def read_folder(folder: str) -> tuple[ModuleType, Any, dict[str, Any]]:
    """The module of the method, the model that `fit` wrote, and its metadata.

    Raises:
      ValueError: in one line, if something is missing or damaged.
    """
    path = Path(folder) / MODEL
    if not path.is_file():
        raise ValueError(f"{folder}: {_flaw(Path(folder))}")
    metadata = files.load_metadata(path)
    try:
        module = _MODULES.get(metadata.get("method", PAIR), pair_predict)
        return module, module.read(path, metadata), metadata
    except (KeyError, TypeError):
        raise ValueError(
            f"{path}: the model was not written by jboost fit: use jboost.files.load"
        ) from None


def _flaw(folder: Path) -> str:
    """Why a path is no output folder."""
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
    """Writes the two scores, the combined score and the prediction of every row as CSV; of all
    others the score and the prediction.

    Args:
      folder: of a fit.
      data: a file as for fit, of which the columns matter that the model uses; or an embedded data
        set.
      output: a .csv file, or - for the standard output.
      explain: whether to add the rules that hold for each row, of l0 and slipper.
      reading: how the file is written, where it is otherwise than the training data.

    Returns:
      The number of rows, and what the user should know of them.
    """
    import polars

    if output != "-":
        outputs.check_file(output, endings=_ENDINGS)
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
            f"{folder}: the model has no rules to explain by: leave --explain out, or fit one with"
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
    """The rows of the data, read as the training data were where nothing else is said or shown."""
    if data.startswith(EMBEDDED):
        table = embedded.load_table(data.removeprefix(EMBEDDED))
        return NewRows(table, np.ones(table.num_rows, bool), ("",) * table.num_rows)
    kinds, like = recall_reading(kept or {})
    for names, unknown in zip(used, (Kind(NUMBER), Kind(TEXT)), strict=True):
        kinds |= {name: kinds.get(name, unknown) for name in names}
    wanted = {name: kinds[name] for names in used for name in names}
    return readers.read_new_rows(data, wanted, reading=given, like=like)


def _in_all_rows(columns: Mapping[str, Any], rows: NewRows) -> dict[str, Any]:
    """The columns of predictions with a gap where a row cannot be predicted, the identifiers before
    them, and the reasons behind."""
    import polars

    result: dict[str, Any] = (
        {} if rows.ids is None else {rows.id_name: [one or None for one in rows.ids]}
    )
    places = [
        int(place) if usable else None
        for place, usable in zip(np.cumsum(rows.is_usable) - 1, rows.is_usable, strict=True)
    ]
    if {*columns, _NOTE} & result.keys():
        raise ValueError(
            f"the column '{rows.id_name}' of --id has the name of a column of the predictions:"
            " rename it in the data"
        )
    for name, values in columns.items():
        result[name] = polars.Series(values).gather(polars.Series(places, dtype=polars.Int64))
    return (
        result
        if rows.is_usable.all()
        else result | {_NOTE: [reason or None for reason in rows.reasons]}
    )


def inspect(folder: str, say: Any) -> None:
    """Shows the model, its formula and what is proven about it."""
    module, fitted, _ = read_folder(folder)
    module.show(fitted, say)
