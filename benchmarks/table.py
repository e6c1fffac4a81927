"""The tables of README.md, docs/benchmarks.md and benchmarks/RESULTS.md, made from the JSON in
`benchmarks/results`: `python -m benchmarks.table [--check]`.

A block `<!-- NAME:begin -->` to `<!-- NAME:end -->` of one of the `blocks` below is replaced
wherever it stands.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    batches,
    combine,
    combine_exact,
    compilation,
    deterministic,
    estimators,
    example_weights,
    harness,
    infoboost_rounds,
    l0_costs,
    l0_exact,
    l0_folds,
    l0_margins,
    l0_relaxation,
    l0_stabilisation,
    linear_programs,
    many_devices,
    monomials,
    packed_games,
    pair_branch_and_bound,
    pair_data,
    pair_leave_one_out,
    pair_space,
    pair_sweep,
    projections,
    reading,
    real_tables,
    shared_sizes,
    soft_margin_games,
    tied_families,
    training,
    trees,
)
from benchmarks.paper001 import table as paper001

FILES = tuple(
    harness.ROOT / name for name in ("README.md", "docs/benchmarks.md", "benchmarks/RESULTS.md")
)
_MARKER = re.compile(r"^<!-- ([a-z0-9-]+):(begin|end) -->$", re.MULTILINE)

# The order here is the order of the tables. A new benchmark is a new line.
TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "pair_sweep": pair_sweep.sweep_table,
    "pair_batch": pair_sweep.batch_table,
    "pair_memory": pair_sweep.memory_table,
    "tied_families": tied_families.table,
    "pair_branch_and_bound": pair_branch_and_bound.table,
    "pair_space": pair_space.table,
    "pair_data": pair_data.data_table,
    "pair_leave_one_out": pair_leave_one_out.leave_one_out_table,
    "pair_pareto": pair_leave_one_out.pareto_table,
    "combine": combine.combine_table,
    "combine_exact": combine_exact.table,
    "soft_margin_games": soft_margin_games.games_table,
    "soft_margin_batch": soft_margin_games.batch_table,
    "packed_games": packed_games.table,
    "many_devices": many_devices.many_devices_table,
    "many_devices_searches": many_devices.searches_table,
    "deterministic": deterministic.table,
    "projections": projections.projections_table,
    "training": training.training_table,
    "linear_programs": linear_programs.table,
    "lpboost_pools": linear_programs.pools_table,
    "growing_programs": linear_programs.growing_table,
    "compilation": compilation.table,
    "batches": batches.table,
    "shared_sizes": shared_sizes.table,
    "reading": reading.table,
    "real_tables": real_tables.table,
    "monomials": monomials.table,
    "monomials_orders": monomials.table,
    "monomials_hard": monomials.table,
    "monomials_lpboost": monomials.table_lpboost,
    "l0_relaxation": l0_relaxation.table,
    "l0_stabilisation": l0_stabilisation.table,
    "l0_exact": l0_exact.table,
    "l0_folds": l0_folds.table,
    "l0_margins": l0_margins.table,
    "l0_costs": l0_costs.table,
    "example_weights": example_weights.table,
    "example_weights_settings": example_weights.settings_table,
    "example_weights_large": example_weights.large_table,
    "infoboost_rounds": infoboost_rounds.rounds_table,
    "trees": trees.table,
    "estimators": estimators.table,
}


def blocks(results: Path) -> dict[str, str]:
    """All tables of a folder of results, in Markdown, by the names of their blocks.

    Raises:
      ValueError: naming the file, if one is of no known benchmark.
    """
    tables = {"benchmarks": _benchmarks(results), "paper001-elsewhere": paper001.show_elsewhere()}
    for path in sorted((results / "paper001").glob("*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        tables |= {path.stem: paper001.show(rows), f"{path.stem}-means": paper001.show_means(rows)}
        if path.stem.startswith("paper001-figures"):
            tables[f"{path.stem}-dominated"] = paper001.show_figures(rows)
    return tables


def _benchmarks(results: Path) -> str:
    """All benchmarks; those with the same environment stand under one line that describes it."""
    documents = {
        path: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(results.glob("*.json"))
    }
    for path, document in documents.items():
        if document.get("name") not in TABLES:
            raise ValueError(
                f"{path.name} is of the benchmark {document.get('name')!r}: the known ones are"
                f" {', '.join(TABLES)}"
            )
    order = list(TABLES)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for document in sorted(
        documents.values(),
        key=lambda document: (document["environment"]["platform"], order.index(document["name"])),
    ):
        groups.setdefault(_describe(document["environment"]), []).append(document)
    return "\n\n".join(
        f"**{place}**\n\n" + "\n\n".join(map(_show, members)) for place, members in groups.items()
    )


def _show(document: Mapping[str, Any]) -> str:
    table = TABLES[document["name"]]
    return f"`python -m {table.__module__}`\n\n{table(document)}"


def _describe(environment: Mapping[str, Any]) -> str:
    count = environment["cpu_count"]
    cores = f"{environment['cpu']}, {count} core{'s' if count > 1 else ''}"
    where = cores if environment["platform"] == "cpu" else f"{environment['device']} ({cores})"
    versions = (
        f"jboost {environment['jboost']}, jax {environment['jax']}, Python {environment['python']}"
    )
    return f"{where}; {versions}; {environment['date']}"


def insert(text: str, tables: Mapping[str, str]) -> str:
    """The text with every block as the tables have it.

    Raises:
      ValueError: unless there are blocks, each with a beginning and an end and of a known name.
    """
    marks = [(match[1], match[2]) for match in _MARKER.finditer(text)]
    names = [name for name, _ in marks[::2]]
    if not names or marks != [(name, edge) for name in names for edge in ("begin", "end")]:
        raise ValueError(
            "no blocks, or a line <!-- NAME:begin --> without <!-- NAME:end --> after it"
        )
    for name in names:
        if name not in tables:
            raise ValueError(
                f"there are no results for the block {name!r}: those there are {', '.join(tables)}"
            )
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{tables[name]}\n\n{end}{rest.split(end)[1]}"
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table", description=__doc__.split(":")[0] + "."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if a file is stale"
    )
    parser.add_argument(
        "--files",
        type=Path,
        nargs="+",
        default=FILES,
        metavar="FILE",
        help="default: README.md, docs/benchmarks.md and benchmarks/RESULTS.md",
    )
    parser.add_argument("--results", type=Path, default=harness.RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    status = 0
    for path in options.files:
        try:
            text = path.read_text(encoding="utf-8")
            fresh = insert(text, blocks(options.results))
        except (OSError, ValueError, KeyError) as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            return 2
        if fresh != text and options.check:
            print(f"{path.name} is stale: run python -m benchmarks.table", file=sys.stderr)
            status = 1
        elif fresh != text:
            path.write_text(fresh, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
