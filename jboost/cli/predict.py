"""`jboost predict` and `jboost inspect`: what is done with an output folder of `jboost fit`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import files
from jboost.base import predict as predict_room
from jboost.cli import boost_predict, combine_predict, example_weights_predict, inputs, l0_predict, solve
from jboost.cli.boost_predict import FittedEnsemble
from jboost.cli.combine_predict import FittedVote
from jboost.cli.example_weights_predict import FittedExampleWeights
from jboost.cli.l0_predict import FittedRules
from jboost.cli.options import BOOSTERS, COMBINE, EMBEDDED, EXAMPLE_WEIGHTS, L0
from jboost.cli.output import BASE, MODEL
from jboost.data import classifiers, embedded, readers
from jboost.data.classifiers import BaseFit
from jboost.data.table import LabelMapping, Table
from jboost.pair.types import Separator
from jboost.report import build, text


@dataclasses.dataclass(frozen=True)
class Fitted:
    """An output folder, read back."""

    separator: Separator  # in float64
    names: tuple[str, ...]
    score_columns: tuple[str, ...] | None
    mapping: LabelMapping | None
    precision: str
    base: BaseFit | None


def read_folder(folder: str) -> Fitted | FittedEnsemble | FittedRules | FittedVote | FittedExampleWeights:
    """Reads what `fit` wrote; ValueError in one line if something is missing or damaged."""
    path = Path(folder)
    if not (path / MODEL).is_file():
        raise ValueError(f"{folder}: no output folder of jboost fit: it has no {MODEL}")
    metadata = files.load_metadata(path / MODEL)
    try:
        if metadata.get("method") == L0:
            return l0_predict.read_rules(path / MODEL, metadata)
        if metadata.get("method") == COMBINE:
            return combine_predict.read_vote(path / MODEL, metadata)
        if metadata.get("method") == EXAMPLE_WEIGHTS:
            return example_weights_predict.read_model(path / MODEL, metadata)
        if metadata.get("method") in BOOSTERS:
            return boost_predict.read_ensemble(path / MODEL, metadata)
        columns, labels, precision = metadata["score_columns"], metadata["labels"], metadata["precision"]
        names = tuple(metadata["names"])
        mapping = LabelMapping(**labels) if labels else None
    except (KeyError, TypeError):
        raise ValueError(f"{path / MODEL}: the model was not written by jboost fit: use jboost.files.load") from None
    with jax.enable_x64(True):
        separator = solve.in_float64(files.load(path / MODEL))
    base = None if columns else classifiers.load_base(path / BASE)
    return Fitted(separator, names, tuple(columns) if columns else None, mapping, precision, base)


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

    if output != "-" and os.path.exists(output) and os.path.exists(data) and os.path.samefile(output, data):
        raise ValueError(f"{output}: the predictions would replace the data: choose another --output")
    fitted = read_folder(folder)
    if explain and not isinstance(fitted, FittedRules):
        raise ValueError(f"{folder}: the model has no rules to explain by: leave --explain out, or fit one with --method l0")
    table = embedded.load_table(data.removeprefix(EMBEDDED)) if data.startswith(EMBEDDED) else readers.read_table(data, text=_text_columns(fitted))
    if isinstance(fitted, FittedRules):
        columns = l0_predict.predict_columns(fitted, table, explain=explain)
    elif isinstance(fitted, FittedExampleWeights):
        columns = example_weights_predict.predict_columns(fitted, table)
    elif isinstance(fitted, FittedVote):
        columns = combine_predict.predict_columns(fitted, table)
    else:
        columns = boost_predict.predict_columns(fitted, table) if isinstance(fitted, FittedEnsemble) else _predict_columns(fitted, table)
    frame = polars.DataFrame(columns)
    if output == "-":
        import click

        click.echo(frame.write_csv(), nl=False)
        return frame.height
    with files.atomic_file(output) as temporary:
        frame.write_csv(temporary)
    return frame.height


def _text_columns(fitted: Fitted | FittedEnsemble | FittedRules | FittedVote | FittedExampleWeights) -> tuple[str, ...]:
    """The columns that held text where the model was fitted, and so hold text wherever it is asked."""
    if isinstance(fitted, FittedRules):
        return fitted.categorical
    if isinstance(fitted, FittedEnsemble | FittedExampleWeights) or fitted.base is None:
        return ()
    return fitted.base.categorical


def _predict_columns(fitted: Fitted, table: Table) -> dict[str, Any]:
    points = inputs.score_rows(table, fitted.score_columns, fitted.base).astype(fitted.precision).astype(np.float64)
    with jax.enable_x64(True):
        scores = np.asarray(predict_room.predict_scores(fitted.separator, points))
        signs = np.asarray(predict_room.predict(fitted.separator, points))
    columns: dict[str, Any] = {f"score_{name}": points[:, axis] for axis, name in enumerate(fitted.names)}
    return columns | {"score": scores, "prediction": fitted.mapping.to_text(signs) if fitted.mapping else signs}


def inspect(folder: str, say: Any) -> None:
    """Shows the model, its formula and what is proven about it."""
    fitted = read_folder(folder)
    if isinstance(fitted, FittedEnsemble):
        boost_predict.show(fitted, say)
        return
    if isinstance(fitted, FittedRules):
        l0_predict.show(fitted, say)
        return
    if isinstance(fitted, FittedExampleWeights):
        example_weights_predict.show(fitted, say)
        return
    if isinstance(fitted, FittedVote):
        combine_predict.show(fitted, say)
        return
    kind = "score columns" if fitted.score_columns else "base classifiers"
    say(f"model       {type(fitted.separator).__name__}, {fitted.precision}, jboost {files.package_version('jboost')}")
    say(f"scores      {' and '.join(fitted.names)} ({kind})")
    if fitted.mapping:
        say(f"labels      {fitted.mapping}")
    for name in ("normal", "anchor", "bias"):
        say(f"{name:<12}{np.asarray(getattr(fitted.separator, name)).tolist()}")
    wrong = np.asarray(fitted.separator.misclassified)
    say(f"examples    {len(wrong)}, {int(wrong.sum())} misclassified")
    description = build.describe_separator(fitted.separator, fitted.names, fitted.mapping)
    for line in text.certificate_lines(build.certificate(fitted.separator), description):
        say(line)
