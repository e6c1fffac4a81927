"""Folds of Table 1 of Goldberg and Eckstein (2009): `jboost.l0.fit` under vmap against HiGHS.

Run `python -m benchmarks.l0_folds`. jboost fits all folds in one program, HiGHS fold by fold.

The folds are those of BCW at one literal, as `scripts/reproduce` makes them by its default
settings. Ours is the whole fit: relaxation with bounds over all hypotheses, and the vote. HiGHS
solves the relaxation alone, over all literals of either sign at once, with cuts added as they are
violated; it gets three of the folds, and its seconds are those of a fold.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from benchmarks.harness import Contender
from benchmarks.paper001 import folds, methods
from benchmarks.paper001.command import DEFAULT_CONFIG, DEFAULT_FOLDERS
from benchmarks.paper001.data import read_set
from benchmarks.peers import l0_relaxation as peers
from jboost.monomials import costs

SET, METHOD = "BCW", "l0"
# folds in one program; on a CPU they take turns
COUNTS = {"cpu": (1, 10), "gpu": (1, 10, 100, 200)}
NUM_OF_PEER = 3
PEER_TOLERANCE = 1e-4
# brackets of ours and of HiGHS may miss one another by so much: ours are of costs and a margin in
# float32
AGREEMENT = 1e-3


def literals(features: np.ndarray) -> np.ndarray:
    """The outputs [m, 2 + 4 N] of both constants and of all literals, which say their sign where
    they hold and 0 elsewhere.
    """
    ones = np.ones((len(features), 1))
    held = np.concatenate([features, 1 - features], axis=1)
    return np.concatenate([ones, -ones, held, -held], axis=1)


def _peer(
    parts: Sequence[folds.Prepared], labels: np.ndarray, settings: Mapping[str, Any]
) -> list[peers.Solved]:
    """The relaxations of some folds by HiGHS."""
    found = []
    for part in parts:
        rows = part.training
        num_training = int(rows.sum())
        outputs = literals(part.features[rows][:, : part.num_attributes])
        cost = costs.mdl(
            settings["kappa"], num_attributes=part.num_attributes, num_examples=num_training
        )
        price = cost(jnp.array([1]), *part.features.T.shape, 1).item()
        prices = np.r_[0, 0, np.full(outputs.shape[1] - 2, price)]
        found.append(
            peers.lazy(
                outputs,
                labels[rows],
                prices,
                settings["margin_times_m"] / num_training,
                tolerance=PEER_TOLERANCE,
            )
        )
    return found


def _ours(
    parts: Sequence[folds.Prepared], labels: np.ndarray, settings: Mapping[str, Any]
) -> Callable[[], Any]:
    knobs = {
        name: jnp.asarray(settings[name], jnp.float32)
        for name in ("kappa", "tolerance", "margin_times_m", "nu")
    }
    return functools.partial(
        methods.learn_folds,
        (METHOD,),
        methods.sizes_of(dict(settings), SET),
        parts,
        labels.astype(np.float32),
        knobs,
    )


def run(
    counts: Sequence[int], settings: Mapping[str, Any], data: Sequence[Path], *, repeats: int
) -> dict[str, Any]:
    """So many folds in one program, one number after the other."""
    table, labels, names = read_set(SET, data)
    num_replications = -(-max(counts) // settings["folds"])
    parts = [
        part
        for _, _, part in folds.prepare(
            table, labels, names, {**settings, "replications": num_replications}
        )
    ]
    measured, values = harness.race(
        [
            Contender(
                "HiGHS",
                lambda: _peer(parts[:NUM_OF_PEER], labels, settings),
                compiles=False,
                repeats=1,
            )
        ]
    )
    records = []
    for count in counts:
        contender = Contender("jboost", _ours(parts[:count], labels, settings), repeats=repeats)
        ours, found = harness.race([contender])
        facts = [of_methods[0] for of_methods in found["jboost"]]
        for number, highs in enumerate(values["HiGHS"][:count]):
            lower, upper = facts[number]["lower_bound"], facts[number]["upper_bound"]
            met = min(upper, highs.upper) - max(lower, highs.lower)
            assert met >= -AGREEMENT, f"fold {number}: {lower} to {upper}, HiGHS {highs}"
        accuracy = np.mean(
            [
                fact["right"] / (~part.training).sum()
                for fact, part in zip(facts, parts, strict=False)
            ]
        )
        record = {
            "folds": count,
            "measured": ours["jboost"],
            "accuracy": accuracy,
            "rules": np.mean([fact["support"] for fact in facts]),
        }
        record |= {
            "bounds_met": sum(fact["status"] == 0 for fact in facts),
            "rounds": max(fact["rounds"] for fact in facts),
        }
        records.append(record)
        seconds = getattr(ours["jboost"], harness.seconds_key(jax.default_backend()))
        print(
            f"{count} folds: {seconds:.3f} s, {seconds / count:.3f} a fold",
            file=sys.stderr,
            flush=True,
        )
    highs = [
        {"lower": one.lower, "upper": one.upper, "cuts": one.num_cuts, "rounds": one.num_rounds}
        for one in values["HiGHS"]
    ]
    return {
        "set": SET,
        "method": METHOD,
        "records": records,
        "highs": highs,
        "highs_measured": measured["HiGHS"],
        "settings": dict(settings),
    }


def table(results: Mapping[str, Any]) -> str:
    """Seconds a fold beside those of HiGHS."""
    platform = results["environment"]["platform"]
    key = harness.seconds_key(platform)
    peer = results["highs_measured"][key] / len(results["highs"])
    rows = []
    for record in results["records"]:
        each = record["measured"][key] / record["folds"]
        cells = [
            f"{record['folds']}",
            f"{each:.3f} s",
            harness.seconds_text(record["measured"]["compile_seconds"]),
            harness.seconds_text(peer),
        ]
        cells += [
            f"{peer / each:.1f}",
            f"{record['bounds_met']} of {record['folds']}",
            f"{record['accuracy']:.3f}",
            f"{record['rules']:.1f}",
        ]
        rows.append(cells)
    header = (
        "folds in one program",
        "a fold",
        "to compile, once",
        "HiGHS a fold",
        "times",
        "bounds met",
        "accuracy",
        "rules",
    )
    title = (
        f"L0-RBoost on folds of {results['set']} at one literal, {harness.seconds_words(platform)};"
        " HiGHS solves the relaxation alone."
    )
    return title + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.l0_folds", description=__doc__.split(": `python")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="one fold, into benchmarks-out")
    parser.add_argument(
        "--counts",
        type=int,
        nargs="+",
        metavar="N",
        help="folds in one program (default: 1 10, on a device 1 10 100 200)",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        default=DEFAULT_FOLDERS,
        help="folders with BCW.csv; else it is fetched from OpenML",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    harness.keep_to_one_thread()
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    settings = tomllib.loads(DEFAULT_CONFIG.read_text())
    counts = options.counts or (
        (1,) if options.quick else COUNTS.get(jax.default_backend(), COUNTS["gpu"])
    )
    harness.write("l0_folds", run(counts, settings, options.data, repeats=options.repeats), output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
