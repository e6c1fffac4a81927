"""The benchmark tables of README.md, made from the JSON in `benchmarks/results`: `python -m benchmarks.table [--check]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    combine,
    example_weights,
    harness,
    infoboost_rounds,
    l0_exact,
    l0_relaxation,
    linear_programs,
    monomials,
    pair_branch_and_bound,
    pair_data,
    pair_leave_one_out,
    pair_space,
    pair_sweep,
    projections,
    soft_margin_games,
)

BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"

# The order here is the order in the README. A new benchmark is a new line.
TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "pair_sweep": pair_sweep.sweep_table,
    "pair_batch": pair_sweep.batch_table,
    "pair_memory": pair_sweep.memory_table,
    "pair_branch_and_bound": pair_branch_and_bound.table,
    "pair_space": pair_space.table,
    "pair_data": pair_data.data_table,
    "pair_leave_one_out": pair_leave_one_out.leave_one_out_table,
    "pair_pareto": pair_leave_one_out.pareto_table,
    "combine": combine.combine_table,
    "soft_margin_games": soft_margin_games.games_table,
    "soft_margin_batch": soft_margin_games.batch_table,
    "projections": projections.projections_table,
    "linear_programs": linear_programs.table,
    "growing_programs": linear_programs.growing_table,
    "monomials": monomials.table,
    "monomials_orders": monomials.table,
    "monomials_hard": monomials.table,
    "monomials_lpboost": monomials.table_lpboost,
    "l0_relaxation": l0_relaxation.table,
    "l0_exact": l0_exact.table,
    "example_weights": example_weights.table,
    "example_weights_large": example_weights.large_table,
    "infoboost_rounds": infoboost_rounds.rounds_table,
}


def render(results: Path) -> str:
    """All results of a folder as Markdown; results with the same environment stand under one line that describes it.

    Raises:
      ValueError: naming the file, if one is of no known benchmark.
    """
    documents = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}
    for path, document in documents.items():
        if document.get("name") not in TABLES:
            raise ValueError(f"{path.name} is of the benchmark {document.get('name')!r}: the known ones are {', '.join(TABLES)}")
    order = list(TABLES)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for document in sorted(documents.values(), key=lambda document: (document["environment"]["platform"], order.index(document["name"]))):
        groups.setdefault(_describe(document["environment"]), []).append(document)
    blocks = [f"**{place}**\n\n" + "\n\n".join(TABLES[it["name"]](it) for it in members) for place, members in groups.items()]
    return "\n\n".join(blocks) or "No results yet: run `python -m benchmarks.pair_sweep`."


def _describe(environment: Mapping[str, Any]) -> str:
    cores = f"{environment['cpu']}, {environment['cpu_count']} cores"
    where = cores if environment["platform"] == "cpu" else f"{environment['device']} ({cores})"
    versions = f"jboost {environment['jboost']}, jax {environment['jax']}, Python {environment['python']}"
    return f"{where}; {versions}; {environment['date']}"


def insert(text: str, tables: str) -> str:
    """The text with the tables between its two markers.

    Raises:
      ValueError: unless each marker is there once, and in order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"README needs one line {BEGIN} and, after it, one line {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{rest.split(END)[1]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__.split(":")[0] + ".")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if README is stale")
    parser.add_argument("--readme", type=Path, default=harness.ROOT / "README.md", metavar="FILE")
    parser.add_argument("--results", type=Path, default=harness.RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        text = options.readme.read_text(encoding="utf-8")
        fresh = insert(text, render(options.results))
    except (OSError, ValueError, KeyError) as error:
        print(f"{options.readme.name}: {error}", file=sys.stderr)
        return 2
    if fresh == text:
        return 0
    if options.check:
        print(f"{options.readme.name} is stale: run python -m benchmarks.table", file=sys.stderr)
        return 1
    options.readme.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
