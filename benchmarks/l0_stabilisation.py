"""Where `l0.fit_large` prices its columns: at the duals of the master, at smoothed duals, or inside
a box: `python -m benchmarks.l0_stabilisation --data DIR`.

Column generation may need many rounds because its duals swing. Two remedies are compared with none:
smoothing towards the duals of the best bound (Wentges 1997), and a box around them (Marsten, Hogan,
Blankenship 1975) whose size follows the gain of the bound. The sets are the five of Goldberg and
Eckstein (2009), ten quantiles each; nothing else is tuned on them here. Seconds are those of the
processor without compilation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import jboost
from benchmarks import harness
from jboost.base.types import Dataset
from jboost.data import readers
from jboost.l0.large import patterns, proof, relax, sizes
from jboost.l0.large.pool import ColumnPool
from jboost.l0.large.proof import MonomialTable, TableDuals
from jboost.l0.large.relax import LargeRelaxation
from jboost.l0.large.table import make_table

SETS, LABEL = ("BCW", "VOTE", "HUHEART", "SONAR", "CLVHEART"), "label"
ORDERS, TOLERANCES, MARGIN = (1, 2), (1e-2, 1e-3), 0.05
MOST_ROUNDS, NUM_CUTS, PER_SIGN, MAX_COLUMNS = 100, 2048, 64, 2048
SHARES = (0.2, 0.5)  # of the duals of the best bound
# The half width of the box, relative to the weights of the rows: at first, the least and the most,
# and its factor after a round that improved the bound; after others it is divided by it.
FIRST_BOX, LEAST_BOX, MOST_BOX, BOX_FACTOR = 0.3, 0.02, 1.0, 1.5

Stabilise = Callable[[LargeRelaxation, TableDuals], TableDuals]


def unchanged(state: LargeRelaxation, duals: TableDuals) -> TableDuals:
    """The duals of the master."""
    del state
    return duals


def smoothing(share: float) -> Stabilise:
    """Duals that are (1 - share) times those of the master plus `share` times those of the best
    bound. Both satisfy the constraints of the rows, and so does the sum.
    """

    def stabilise(state: LargeRelaxation, duals: TableDuals) -> TableDuals:
        if state.proven is None:
            return duals
        best = state.proven.duals
        keys, own, other = _on_same_cuts(duals, best)
        weights = (1 - share) * duals.example_weights + share * best.example_weights
        return _duals(weights, keys, (1 - share) * own + share * other, duals.is_either)

    return stabilise


def box() -> Stabilise:
    """Duals of the master, moved into a box around those of the best bound."""
    size, last = FIRST_BOX, -np.inf

    def stabilise(state: LargeRelaxation, duals: TableDuals) -> TableDuals:
        nonlocal size, last
        if state.proven is None:
            return duals
        if last > -np.inf:
            grows = state.proven.bound > last
            size = float(np.clip(size * BOX_FACTOR ** (1 if grows else -1), LEAST_BOX, MOST_BOX))
        best, last = state.proven.duals, state.proven.bound
        keys, own, other = _on_same_cuts(duals, best)
        room = size * state.table.weights
        number = len(room)
        of_cut = np.minimum(room[keys // number], room[keys % number])
        weights = np.clip(
            duals.example_weights, best.example_weights - room, best.example_weights + room
        )
        return _duals(weights, keys, np.clip(own, other - of_cut, other + of_cut), duals.is_either)

    return stabilise


def _on_same_cuts(
    first: TableDuals, second: TableDuals
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All cuts of both, each as inside row times m plus outside row [K], and the duals of both."""
    number = len(first.example_weights)
    own, other = (
        duals.cuts.inside.astype(np.int64) * number + duals.cuts.outside
        for duals in (first, second)
    )
    keys = np.union1d(own, other)
    return (
        keys,
        np.bincount(np.searchsorted(keys, own), first.cuts.weights, len(keys)),
        np.bincount(np.searchsorted(keys, other), second.cuts.weights, len(keys)),
    )


def _duals(
    weights: np.ndarray, keys: np.ndarray, values: np.ndarray, is_either: bool
) -> TableDuals:
    kept, number = values > 0, len(weights)
    inside, outside = (
        (keys[kept] // number).astype(np.int32),
        (keys[kept] % number).astype(np.int32),
    )
    return TableDuals(weights, patterns.RowCuts(inside, outside, values[kept]), is_either)


WAYS: dict[str, Callable[[], Stabilise]] = {
    "none": lambda: unchanged,
    **{f"smoothing, {share:g}": lambda share=share: smoothing(share) for share in SHARES},
    "box": box,
}


def read(path: Path) -> Dataset:
    """The binarized rows of a set."""
    import pandas

    from jboost.sklearn import Binarizer

    table = readers.read_table(path, label=LABEL)
    labels = np.asarray(table.labels) > 0
    frame = pandas.DataFrame({**table.numeric, **table.categorical})
    bits = Binarizer(cuts="quantiles").fit_transform(frame, labels)
    return jboost.make_dataset(np.asarray(bits, np.float32), np.where(labels, 1.0, -1.0))


def generate(table: MonomialTable, stabilise: Stabilise) -> dict[str, Any]:
    """Rounds and processor seconds until the gap is below each tolerance."""
    capacity = sizes.capacity(table, MAX_COLUMNS)
    state = relax.begin(table, ColumnPool(table, capacity), is_either=False)
    of_master = relax._duals_of_rows

    def duals_of_rows(state: LargeRelaxation, grouped: patterns.Patterns) -> TableDuals:
        return stabilise(state, proof.feasible(state.table, of_master(state, grouped)))

    reached: dict[str, Any] = {}
    begin = time.process_time()
    with mock.patch.object(relax, "_duals_of_rows", duals_of_rows):
        while state.num_rounds < MOST_ROUNDS and state.gap > min(TOLERANCES):
            relax.step(state, capacity=NUM_CUTS, per_sign=PER_SIGN)
            for tolerance in TOLERANCES:
                if state.gap <= tolerance and f"{tolerance:g}" not in reached:
                    seconds = time.process_time() - begin
                    reached[f"{tolerance:g}"] = {"rounds": state.num_rounds, "seconds": seconds}
    return {
        "reached": reached,
        "rounds": state.num_rounds,
        "gap": float(state.gap),
        "evicted": state.pool.num_evicted,
        "returned": state.pool.num_returned,
    }


def run(folder: Path, names: Sequence[str], orders: Sequence[int]) -> list[dict[str, Any]]:
    """A record for each set, order and way."""
    records = []
    for name in names:
        path = folder / f"{name}.csv"
        if not path.exists():
            print(f"{path} is missing: {name} is left out", file=sys.stderr)
            continue
        dataset = read(path)
        for order in orders:
            table, _ = make_table(dataset, jboost.learners.monomials(max_order=order), MARGIN)
            generate(table, unchanged)  # compiles
            for way, make in WAYS.items():
                found = generate(table, make())
                records.append({"set": name, "order": order, "way": way, **found})
                print(records[-1], file=sys.stderr, flush=True)
    return records


def table(results: Mapping[str, Any]) -> str:
    """A row for each set and order, rounds and seconds of each way."""
    records = results["records"]
    title = (
        "Column generation of `l0.fit_large`: rounds, and processor seconds, until the gap of the"
        " relaxation is 1 % and .1 %, with duals as the master gives them, smoothed towards those"
        " of the best bound, and in a box around them."
    )
    header = ("set", "order", "gap", *WAYS)
    rows = [
        [
            name,
            str(order),
            f"{tolerance:.1%}",
            *(_cell(records, name, order, way, tolerance) for way in WAYS),
        ]
        for name, order in dict.fromkeys((record["set"], record["order"]) for record in records)
        for tolerance in TOLERANCES
    ]
    return title + "\n\n" + harness.markdown_table(header, rows)


def _cell(
    records: Sequence[Mapping[str, Any]], name: str, order: int, way: str, tolerance: float
) -> str:
    key = (name, order, way)
    found = next(
        record for record in records if (record["set"], record["order"], record["way"]) == key
    )
    reached = found["reached"].get(f"{tolerance:g}")
    if reached is None:
        return f"gap {found['gap']:.2%} after {found['rounds']}"
    return f"{reached['rounds']}, {harness.seconds_text(reached['seconds'])}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures all sets and orders, or those named, and writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.l0_stabilisation",
        description="Rounds of column generation with and without stabilised duals.",
    )
    default = harness.ROOT.parent / "shared" / "data" / "papers"
    parser.add_argument("--data", type=Path, default=default, help="folder of the five sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME")
    parser.add_argument("--orders", nargs="+", type=int, default=ORDERS, metavar="NUMBER")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    harness.keep_to_one_thread()
    records = run(options.data, options.sets, options.orders)
    if not records:
        print("no data, nothing written", file=sys.stderr)
        return 0
    print(f"wrote {harness.write('l0_stabilisation', {'records': records}, options.output)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
