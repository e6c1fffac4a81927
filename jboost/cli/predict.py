"""`jboost predict` and `jboost inspect`: what is done with an output folder of `jboost fit`."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from jboost import files, outputs
from jboost.cli import boost_predict, combine_predict, example_weights_predict, l0_predict, pair_predict
from jboost.cli.options import BOOSTERS, COMBINE, EMBEDDED, EXAMPLE_WEIGHTS, L0, PAIR
from jboost.cli.output import MODEL
from jboost.data import embedded, readers

_ENDINGS = (".csv", ".tsv", ".txt")  # of the files that predictions may replace
# Each has read(path, metadata), text_columns(fitted), predict_columns(fitted, table) and show(fitted, say).
_ROOMS: dict[str, ModuleType] = {
    PAIR: pair_predict,
    COMBINE: combine_predict,
    EXAMPLE_WEIGHTS: example_weights_predict,
    L0: l0_predict,
    **dict.fromkeys(BOOSTERS, boost_predict),
}


def read_folder(folder: str) -> tuple[ModuleType, Any]:
    """The room of the method and the model that `fit` wrote; ValueError in one line if something is missing or damaged."""
    path = Path(folder) / MODEL
    if not path.is_file():
        raise ValueError(f"{folder}: no output folder of jboost fit: it has no {MODEL}")
    metadata = files.load_metadata(path)
    room = _ROOMS.get(metadata.get("method", PAIR), pair_predict)
    try:
        return room, room.read(path, metadata)
    except (KeyError, TypeError):
        raise ValueError(f"{path}: the model was not written by jboost fit: use jboost.files.load") from None


def predict(folder: str, data: str, output: str, *, explain: bool = False) -> int:
    """Writes the two scores, the combined score and the prediction of every row as CSV; of l0 and boosting, the score and the prediction.

    Args:
      folder: of a fit.
      data: a file as for fit, without need of a label; or an embedded data set.
      output: a .csv file, or - for the standard output.
      explain: whether to add the rules that hold for each row, of l0.

    Returns:
      The number of rows.
    """
    import polars

    if output != "-":
        outputs.check_file(output, endings=_ENDINGS)
    if output != "-" and os.path.exists(output) and os.path.exists(data) and os.path.samefile(output, data):
        raise ValueError(f"{output}: the predictions would replace the data: choose another --output")
    room, fitted = read_folder(folder)
    if explain and room is not l0_predict:
        raise ValueError(f"{folder}: the model has no rules to explain by: leave --explain out, or fit one with --method l0")
    texts = room.text_columns(fitted)
    table = embedded.load_table(data.removeprefix(EMBEDDED)) if data.startswith(EMBEDDED) else readers.read_table(data, text=texts)
    columns = room.predict_columns(fitted, table)
    if explain:
        columns |= {"rules": l0_predict.explain(fitted, table)}
    frame = polars.DataFrame(columns)
    if output == "-":
        import click

        click.echo(frame.write_csv(), nl=False)
        return frame.height
    with outputs.file(output, endings=_ENDINGS) as temporary:
        frame.write_csv(temporary)
    return frame.height


def inspect(folder: str, say: Any) -> None:
    """Shows the model, its formula and what is proven about it."""
    room, fitted = read_folder(folder)
    room.show(fitted, say)
