"""`jboost export`: the model of an output folder of `jboost fit` as code or data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from jboost import export as formats
from jboost import outputs
from jboost.cli.output import check_single_file
from jboost.cli.predict import read_folder
from jboost.cli.reading import recall_reading

NAMES = {"table": "data", "score": "score", "prediction": "prediction"}  # of the query of SQL
# File name extensions of each format. An export replaces only files with these extensions.
_ENDINGS = {
    "python": (".py",),
    "sql": (".sql",),
    "onnx": (".onnx",),
    "json": (".json",),
    "text": (".txt", ".text", ".md"),
}
FORMATS = tuple(_ENDINGS)
_WRITERS: dict[str, Callable[..., Any]] = {
    "python": formats.to_python,
    "sql": formats.to_sql,
    "onnx": formats.to_onnx,
    "json": formats.to_json,
    "text": formats.to_text,
}


def export(
    folder: str, kind: str, output: str, *, names: Mapping[str, str] = NAMES
) -> tuple[str, ...]:
    """Writes the model of an output folder in a format.

    Args:
      folder: an output folder of `jboost fit`.
      kind: one of `FORMATS`.
      output: a file, or - for the standard output, which is not available for ONNX.
      names: the names of the table and of its new columns, for SQL, by the keys of `NAMES`.

    Cells that the fit parsed, such as dates, are parsed by the export, too.

    Returns:
      Notes for the user.

    Raises:
      ValueError: if the format does not support the model, or if the file cannot be written.
    """
    if output == "-" and kind == "onnx":
        raise ValueError("an ONNX file is not text: name a file with --output, as model.onnx")
    if output != "-":
        check_single_file(output, _ENDINGS[kind])
    given = [name for name in NAMES if names[name] != NAMES[name]]
    if given and kind != "sql":
        raise ValueError(f"--{given[0]} is for --format sql: leave it out for {kind}")
    module, fitted, metadata = read_folder(folder)
    model, options, notes = module.exported(fitted)
    options |= {"kinds": recall_reading(metadata.get("reading") or {})[0]}
    if kind == "sql":
        options |= names
    with jax.enable_x64(metadata["precision"] == "float64"):
        content = _WRITERS[kind](model, **options)
    if output == "-":
        import click

        click.echo(content, nl=False)
        return notes
    data = content.encode() if isinstance(content, str) else content.SerializeToString()
    with outputs.file(output, endings=_ENDINGS[kind]) as temporary:
        temporary.write_bytes(data)
    return notes
