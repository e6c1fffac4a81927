"""Costs of monomials that see the data, in L0-RBoost: `python -m benchmarks.l0_costs`.

Goldberg and Eckstein (2009, Section 7) leave penalties such as the Rademacher complexity to further
work. Three costs are compared on the same folds, at up to two literals: the description length
(28), Massart's bound on the Rademacher complexity, which sees k, N and m, and the empirical
complexity on the training rows. Both complexities are scaled so that one literal costs what (28)
takes for it in the same fold. What differs is then the cost of a second literal. Folds, bits and
margin are those of `configs/paper001-k1.toml`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.paper001 import folds
from benchmarks.paper001.command import DEFAULT_CONFIG, DEFAULT_FOLDERS
from benchmarks.paper001.data import read_set
from jboost.base.types import Array
from jboost.monomials import SearchConfig, costs

# Other sets by --sets: a fold of CLVHEART takes ten minutes on a shared CPU core, one of VOTE one.
SETS = ("VOTE",)
NUM_FOLDS = 10
MAX_ORDER = 2
NUM_DRAWS = 16
TOLERANCE = 1e-2  # of the bounds on the relaxation, so that a fold takes seconds
ORDERS = jnp.arange(1, MAX_ORDER + 1)
COSTS = ("description length", "Massart", "empirical Rademacher")


class Measured(NamedTuple):
    """What one fit gives, on one fold."""

    accuracy: Array  # [] of the held-out rows
    support: Array  # [] monomials that vote
    num_literals: Array  # [] of those, the mean
    lower_bound: Array  # [] on the relaxation
    upper_bound: Array  # []
    status: Array  # [] int32


def tables_of(part: folds.Prepared, kappa: float) -> dict[str, Array]:
    """The costs [K] of a fold by name."""
    counts = {
        "num_attributes": part.num_attributes,
        "num_examples": int(part.training.sum()),
    }
    length = costs.mdl(kappa, **counts)(ORDERS, part.num_attributes, 1, MAX_ORDER)
    massart = costs.rademacher(1.0, **counts)(ORDERS, part.num_attributes, 1, MAX_ORDER)
    # In columns that pad, neither literal holds.
    is_real = np.arange(part.features.shape[1]) < part.num_attributes
    empirical = jboost.monomials.rademacher_complexity(
        np.where(is_real, part.features, np.nan).astype(np.float32),
        part.key,
        max_order=MAX_ORDER,
        num_draws=NUM_DRAWS,
        mask=part.training,
        config=SearchConfig(missing=True),
    )
    scaled = (table * (length[0] / table[0]) for table in (massart, empirical))
    return dict(zip(COSTS, (length, *scaled), strict=True))


@functools.partial(jax.jit, static_argnames=("max_rounds", "num_proposed", "max_columns"))
def fit(
    features: Array,
    labels: Array,
    training: Array,
    table: Array,
    margin: Array,
    *,
    max_rounds: int,
    num_proposed: int,
    max_columns: int,
) -> Measured:
    """L0-RBoost on the training rows of a fold at costs [K]."""
    learner = jboost.learners.monomials(
        MAX_ORDER, cost=costs.by_order(table), num_proposed=num_proposed
    )
    fitted = jboost.l0.fit(
        jboost.make_dataset(features, labels, mask=training),
        learner,
        margin=margin,
        tolerance=TOLERANCE,
        max_rounds=max_rounds,
        max_columns=max_columns,
        bound_integer=False,
    )
    right = jnp.where(jboost.predict_scores(fitted.ensemble, features) > 0, 1, -1) == labels
    votes = jnp.abs(fitted.ensemble.votes[:, 0]) > 0
    literals = jnp.sum(fitted.ensemble.hypotheses.literals != 0, axis=1)
    support = jnp.sum(votes)
    return Measured(
        jnp.sum(right & ~training) / jnp.sum(~training),
        support,
        jnp.sum(jnp.where(votes, literals, 0)) / jnp.maximum(support, 1),
        fitted.certificate.lower_bound,
        fitted.certificate.upper_bound,
        fitted.status,
    )


def run(sets: Sequence[str], num_folds: int, data: Sequence[Path]) -> dict[str, Any]:
    """All costs on all folds of all sets."""
    settings = tomllib.loads(DEFAULT_CONFIG.read_text())
    settings |= {"replications": 1, "folds": NUM_FOLDS, "max_order": MAX_ORDER}
    sizes = {name: settings[name] for name in ("max_rounds", "num_proposed", "max_columns")}
    records = []
    for name in sets:
        table, labels, names = read_set(name, data)
        prepared = folds.prepare(table, labels, names, settings)
        for _, fold, part in itertools.islice(prepared, num_folds):
            margin = settings["margin_times_m"] / part.training.sum()
            inputs = (jnp.asarray(part.features), jnp.asarray(labels), jnp.asarray(part.training))
            for cost, prices in tables_of(part, settings["kappa"]).items():
                start = time.perf_counter()
                found = jax.device_get(fit(*inputs, prices, jnp.float32(margin), **sizes))
                record = {"set": name, "fold": fold, "cost": cost, "prices": prices.tolist()}
                record |= {key: value.item() for key, value in found._asdict().items()}
                records.append(record)
                print(
                    f"{name} {fold} {cost}: {record['prices']} accuracy {record['accuracy']:.3f},"
                    f" {record['support']} rules, {time.perf_counter() - start:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
    return {"records": records, "num_folds": num_folds, "num_draws": NUM_DRAWS}


def table(results: Mapping[str, Any]) -> str:
    """Accuracy and support by set and cost, with the standard error over the folds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in results["records"]:
        groups.setdefault((record["set"], record["cost"]), []).append(record)
    rows = []
    for (name, cost), records in groups.items():
        accuracies = np.array([record["accuracy"] for record in records])
        error = accuracies.std(ddof=1) / np.sqrt(len(records)) if len(records) > 1 else np.nan
        first, second = np.mean([record["prices"] for record in records], axis=0)
        rows.append(
            (
                name,
                cost,
                f"{first:.2f}, {second:.2f}",
                f"{accuracies.mean():.3f} ± {error:.3f}",
                f"{np.mean([record['support'] for record in records]):.1f}",
                f"{np.mean([record['num_literals'] for record in records]):.2f}",
            )
        )
    text = (
        f"L0-RBoost at up to {MAX_ORDER} literals, {results['num_folds']} of {NUM_FOLDS} folds, ±"
        " the standard error over them. One literal costs the same in all three rows of a set."
    )
    header = ("set", "cost", "one and two literals", "accuracy", "rules", "literals a rule")
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.l0_costs", description=__doc__.split(": `python")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="one fold, into benchmarks-out")
    parser.add_argument("--sets", nargs="+", default=SETS, metavar="NAME")
    parser.add_argument("--folds", type=int, default=NUM_FOLDS, metavar="N", help="of the ten")
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        default=DEFAULT_FOLDERS,
        help="folders with the sets; else they are fetched from OpenML",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    sets, num_folds = (SETS[:1], 1) if options.quick else (options.sets, options.folds)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    harness.write("l0_costs", run(sets, num_folds, options.data), output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
