"""Maximum monomial agreement: `jboost.monomials.maximum_agreement` against a C++ search on one
thread: `python -m benchmarks.monomials`.

The instances are those of Goldberg and Eckstein (2009) (uniform weights, and weights that LP-Boost
met), and harder ones. Our seconds are those of whole calls, merging of equal examples included;
those of the C++ program are of its search alone. All optima found are asserted to agree. Then
LP-Boost itself over all monomials of any order, to proven optimality, against the optima that are
known.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.harness import Contender, Measurement
from benchmarks.peers import monomials as peer
from jboost import learners, lpboost
from jboost.base.boosting import Fit
from jboost.base.status import Status
from jboost.monomials import MonomialSolution, SearchConfig, maximum_agreement

FOLDER = harness.ROOT.parent / "shared" / "data" / "papers"
SETS = ("testdata", "clev35", "hung72", "pima33", "cmc57", "spam40", "spam73")
ORDERS = (2, 3, 4, 5)
HARD_ORDER = 5
QUICK = ("testdata", "clev35", "hung72_w23")
AGREEMENT = 1e-6  # values of the two searches
ROUNDING = 1e-7  # what weights lose in float32, which is what ours is given
TRIAL_STEPS = 20  # from which the steps that fit the limit are foreseen
PARTS = ("authors", "orders", "hard", "lpboost")
# w <= 3 / M, by column generation in C++
LPBOOST_OPTIMA = {"hung72": 0.07950304, "spam73": 0.14003870}
LPBOOST_NU = 1 / 3
LPBOOST_TOLERANCE = 1e-5
LPBOOST_BEAM = 128  # monomials: what a wider beam finds need not be searched for
LPBOOST_PROPOSED = 8  # hypotheses a round
LPBOOST_ROUNDS = {"hung72": 120, "spam73": 70}


class Instance(NamedTuple):
    """Examples with weights, and pair weights [k, 3] as rows (example, example, v) or None."""

    name: str
    features: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    pairs: np.ndarray | None = None


def _unpacked(file: Mapping[str, np.ndarray], key: str) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.unpackbits(file[f"{key}_X"], axis=1)[:, : int(file[f"{key}_n"])],
        2 * file[f"{key}_y"].astype(int) - 1,
    )


def authors_instances(folder: Path) -> list[Instance]:
    """Every set with uniform weights, and with each of its weight vectors; tiny negative weights
    are taken as 0.
    """
    instances = []
    with np.load(folder / "PEBBL_MMA.npz") as file:
        for key in SETS:
            features, labels = _unpacked(file, key)
            instances.append(Instance(key, features, labels, np.full(len(labels), 1 / len(labels))))
            names = sorted(
                (name for name in file.files if name.startswith(f"{key}_w")),
                key=lambda name: int(name.rpartition("w")[2]),
            )
            instances += [
                Instance(name, features, labels, np.maximum(file[name], 0)) for name in names
            ]
    return instances


def hard_instances(folder: Path) -> list[tuple[Instance, int | None]]:
    """Instances with the order up to which they are searched."""
    found: list[tuple[Instance, int | None]] = []
    with np.load(folder / "MMA_HARD.npz") as file, np.load(folder / "PEBBL_MMA.npz") as authors:
        for key in ("clevall_late", "german_late"):
            found.append(
                (Instance(key, *_unpacked(file, key), np.maximum(file[f"{key}_w"], 0)), HARD_ORDER)
            )
        features, labels = _unpacked(authors, "hung72")
        rows = file["hung72_pairs_V"]
        first, second = (
            np.flatnonzero(labels > 0)[rows[:, 0].astype(int)],
            np.flatnonzero(labels < 0)[rows[:, 1].astype(int)],
        )
        both = np.concatenate(
            [
                np.column_stack([first, second, rows[:, 2]]),
                np.column_stack([second, first, rows[:, 2]]),
            ]
        )
        found.append(
            (Instance("hung72_pairs", features, labels, np.zeros(len(labels)), both), None)
        )
    return found


def pair_matrix(instance: Instance) -> np.ndarray | None:
    """The pair weights [m, m]."""
    if instance.pairs is None:
        return None
    size = len(instance.labels)
    dense = np.zeros((size, size), np.float32)
    np.add.at(
        dense,
        (instance.pairs[:, 0].astype(int), instance.pairs[:, 1].astype(int)),
        instance.pairs[:, 2],
    )
    return dense


def search(instance: Instance, max_order: int | None, config: SearchConfig) -> MonomialSolution:
    """Ours, in float32."""
    features, weights = instance.features.astype(np.float32), instance.weights.astype(np.float32)
    rewards = pair_matrix(instance)
    return jax.block_until_ready(
        maximum_agreement(
            features,
            instance.labels,
            weights,
            max_order=max_order,
            pair_weights=rewards,
            config=config,
        )
    )


def _measured(
    call: Callable[[], MonomialSolution], repeats: int, cap_seconds: float = 60.0
) -> tuple[Measurement, MonomialSolution]:
    """Programs of equal sizes are compiled once for all instances: compile seconds are 0 for the
    others.
    """
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    measurements, values = harness.race(
        [Contender("jboost", call, compiles=False, repeats=repeats, cap_seconds=cap_seconds)],
        fresh=False,
    )
    ours = measurements["jboost"]
    return (
        dataclasses.replace(ours, compile_seconds=max(first - ours.run_seconds, 0.0)),
        values["jboost"],
    )


def steps_within(instance: Instance, max_order: int | None, seconds: float) -> int:
    """About as many steps as fit the limit, foreseen from a few: a loop in one program cannot look
    at the clock.
    """
    trial = functools.partial(search, instance, max_order, SearchConfig(max_steps=TRIAL_STEPS))
    idle = functools.partial(search, instance, max_order, SearchConfig(max_steps=0))
    with_steps, found = _measured(trial, 2)
    without, _ = _measured(idle, 2)
    if int(found.status) == Status.OPTIMAL:
        return SearchConfig().max_steps
    # one sign may end at once
    each = max(with_steps.run_seconds - without.run_seconds, 1e-6) / TRIAL_STEPS / 2
    return max(1, min(int(seconds / each), SearchConfig().max_steps))


def compare(
    instance: Instance, max_order: int | None, *, limit: float, repeats: int, foresee: bool
) -> dict[str, Any]:
    """One instance by both.

    Raises:
      AssertionError: if both prove an optimum, and not the same one, or a bound is wrong.
    """
    steps = steps_within(instance, max_order, limit) if foresee else SearchConfig().max_steps
    ours, found = _measured(
        functools.partial(search, instance, max_order, SearchConfig(max_steps=steps)),
        repeats,
        max(limit / 10, 1.0),
    )
    costs = None if max_order is None else np.zeros(max_order + 1)
    theirs = min(
        (
            peer.search(
                instance.features,
                instance.labels,
                instance.weights,
                costs=costs,
                pairs=instance.pairs,
                cap_seconds=limit,
            )
            for _ in range(min(repeats, 2))
        ),
        key=lambda one: one.seconds,
    )
    value, bound, status = (
        float(found.value),
        float(found.upper_bound),
        Status(int(found.status)).name,
    )
    where = f"{instance.name}, order {max_order}"
    if theirs.is_proven:
        assert value <= theirs.value + AGREEMENT, (
            f"{where}: {value} is above the optimum {theirs.value}"
        )
        assert bound >= theirs.value - ROUNDING, (
            f"{where}: the bound {bound} is below the optimum {theirs.value}"
        )
    if status == "OPTIMAL":
        assert value >= theirs.value - AGREEMENT, (
            f"{where}: {value} is not the optimum, {theirs.value} was found"
        )
    record = {
        "instance": instance.name,
        "rows": (
            int((instance.weights > 0).sum())
            if instance.pairs is None
            else len(np.unique(instance.pairs[:, 0]))
        ),
        "attributes": instance.features.shape[1],
        "max_order": max_order,
        "value": value,
        "upper_bound": bound,
        "status": status,
        "nodes": int(found.num_nodes),
        "max_steps": steps,
        "measured": ours,
        "peer_value": theirs.value,
        "peer_seconds": theirs.seconds,
        "peer_nodes": theirs.num_nodes,
        "peer_is_proven": theirs.is_proven,
    }
    took = (
        f"{ours.run_seconds:.3f} s ({ours.cpu_seconds:.3f} CPU, {ours.compile_seconds or 0:.1f} to"
        " compile)"
    )
    rival = (
        f"C++ {theirs.seconds:.3f} s, {theirs.num_nodes}"
        f" nodes{'' if theirs.is_proven else ', not proven'}"
    )
    _say(f"{where}: {took}, {value:.8f} to {bound:.8f} {status}, {record['nodes']} nodes; {rival}")
    return record


def boost(instance: Instance, repeats: int) -> dict[str, Any]:
    """LP-Boost over all monomials.

    Raises:
      AssertionError: where it is not proven optimal, or a bound is on the wrong side of the known
        optimum.
    """
    max_rounds = LPBOOST_ROUNDS[instance.name]
    dataset = jboost.make_dataset(instance.features.astype(np.float32), instance.labels)
    learner = learners.monomials(
        None, num_proposed=LPBOOST_PROPOSED, config=SearchConfig(beam_width=LPBOOST_BEAM)
    )

    def fit() -> Fit:
        return jax.block_until_ready(
            lpboost.fit(
                dataset, learner, nu=LPBOOST_NU, max_rounds=max_rounds, tolerance=LPBOOST_TOLERANCE
            )
        )

    ours, fitted = _measured(fit, repeats)
    lower, upper = float(fitted.certificate.lower_bound), float(fitted.certificate.upper_bound)
    optimum = LPBOOST_OPTIMA[instance.name]
    assert int(fitted.status) == Status.OPTIMAL, (
        f"{instance.name}: {jboost.status.explain(fitted.status)}"
    )
    assert lower <= optimum + 1e-8, (
        f"{instance.name}: the lower bound {lower} is above the optimum {optimum}"
    )
    assert upper >= optimum - 1e-8, (
        f"{instance.name}: the upper bound {upper} is below the optimum {optimum}"
    )
    _say(
        f"LP-Boost, {instance.name}: {ours.run_seconds:.1f} s, {lower:.8f} to {upper:.8f},"
        f" {int(fitted.num_rounds)} rounds"
    )
    rows, attributes = instance.features.shape
    columns = {
        "rounds": int(fitted.num_rounds),
        "columns": int(fitted.ensemble.count),
        "rules": int((fitted.ensemble.votes[:, 0] > 0).sum()),
    }
    bounds = {"lower_bound": lower, "upper_bound": upper, "known_optimum": optimum}
    return {
        "instance": instance.name,
        "rows": rows,
        "attributes": attributes,
        **bounds,
        **columns,
        "measured": ours,
    }


def run_lpboost(instances: Sequence[Instance], repeats: int) -> dict[str, Any]:
    """LP-Boost on every set whose optimum is known."""
    return {
        "nu": LPBOOST_NU,
        "tolerance": LPBOOST_TOLERANCE,
        "records": [boost(instance, repeats) for instance in instances],
    }


def table_lpboost(results: Mapping[str, Any]) -> str:
    """The rows of README, one for each set."""
    rows = [
        (
            record["instance"],
            f"{record['rows']:,} x {record['attributes']:,}",
            f"{record['lower_bound']:.7f}",
            f"{record['upper_bound']:.7f}",
            f"{record['known_optimum']:.8f}",
            str(record["rounds"]),
            str(record["columns"]),
            harness.seconds_text(record["measured"]["run_seconds"]),
            harness.seconds_text(record["measured"]["cpu_seconds"]),
        )
        for record in results["records"]
    ]
    title = (
        "LP-Boost over all monomials of any order, example weights of at most 3 / m, to a"
        f" certified gap of {LPBOOST_TOLERANCE:.0e}; {LPBOOST_PROPOSED} hypotheses a round at most,"
        f" beams of {LPBOOST_BEAM}."
    )
    header = (
        "set",
        "size",
        "lower bound",
        "upper bound",
        "optimum in C++",
        "rounds",
        "columns",
        "seconds",
        "CPU seconds",
    )
    return f"{title}\n\n" + harness.markdown_table(header, rows)


def summary(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds of all together."""
    return {
        "total_seconds": sum(record["measured"].run_seconds for record in records),
        "total_cpu_seconds": sum(record["measured"].cpu_seconds for record in records),
        "total_peer_seconds": sum(record["peer_seconds"] for record in records),
        "num_optimal": sum(record["status"] == "OPTIMAL" for record in records),
        "num_instances": len(records),
    }


def run(
    instances: Sequence[tuple[Instance, int | None]], *, limit: float, repeats: int, foresee: bool
) -> dict[str, Any]:
    """Compares on every instance with its order."""
    records = [
        compare(instance, order, limit=limit, repeats=repeats, foresee=foresee)
        for instance, order in instances
    ]
    total = summary(records)
    _say(
        "{num_optimal} of {num_instances} proven, {total_seconds:.2f} s, {total_cpu_seconds:.2f}"
        " CPU; C++ {total_peer_seconds:.2f}".format(**total)
    )
    return {"records": records, "limit_seconds": limit, **total}


def table(results: Mapping[str, Any]) -> str:
    """The rows of README, one for each instance and order."""
    key = harness.seconds_key(results["environment"]["platform"])
    rows = [
        (
            record["instance"].replace("_", " "),
            f"{record['rows']:,} x {record['attributes']:,}",
            "any" if record["max_order"] is None else str(record["max_order"]),
            f"{record['value']:.6f}",
            f"{record['upper_bound'] - record['value']:.0e}",
            f"{record['nodes']:,}",
            harness.seconds_text(record["measured"][key]),
            harness.seconds_text(record["peer_seconds"])
            + ("" if record["peer_is_proven"] else ", unproven"),
        )
        for record in results["records"]
    ]
    proven, rival = results["num_optimal"], results["total_peer_seconds"]
    seconds = sum(record["measured"][key] for record in results["records"])
    words = "CPU seconds" if key == "cpu_seconds" else "seconds"
    title = (
        f"Maximum monomial agreement, {proven} of {results['num_instances']} proven in"
        f" {seconds:.3g} {words} together; a C++ search on one thread with the same rules takes"
        f" {rival:.3g}. Rows are those of positive weight."
    )
    header = ("instance", "size", "order", "value", "gap", "nodes", "jboost", "C++")
    return f"{title}\n\n" + harness.markdown_table(header, rows)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.monomials", description=__doc__.split(": `python")[0] + "."
    )
    parser.add_argument(
        "--quick", action="store_true", help="a few small instances, into benchmarks-out"
    )
    parser.add_argument(
        "--only",
        choices=PARTS,
        nargs="+",
        default=list(PARTS),
        help="authors: any order; orders: up to 2 to 5 literals; hard; lpboost",
    )
    parser.add_argument("--instances", nargs="+", metavar="NAME", help="only these")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="about what a search of the hard instances may take on a CPU; default 120",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--data", type=Path, default=FOLDER, metavar="DIR", help="default ../shared/data/papers"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    harness.keep_to_one_thread()
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    wanted = options.instances or (QUICK if options.quick else None)
    try:
        authors, hard = authors_instances(options.data), hard_instances(options.data)
    except OSError as error:
        print(
            f"{error}: name the folder of PEBBL_MMA.npz and MMA_HARD.npz by --data", file=sys.stderr
        )
        return 2
    parts: dict[str, tuple[str, Sequence[tuple[Instance, int | None]], bool]] = {
        "authors": ("monomials", [(instance, None) for instance in authors], False),
        "orders": (
            "monomials_orders",
            [(instance, order) for instance in authors for order in ORDERS],
            False,
        ),
        "hard": ("monomials_hard", hard, jax.default_backend() == "cpu"),
    }
    for part in [name for name in parts if name in options.only]:
        name, instances, foresee = parts[part]
        chosen = [
            (instance, order)
            for instance, order in instances
            if wanted is None or instance.name in wanted
        ]
        if chosen:
            harness.write(
                name,
                run(chosen, limit=options.limit, repeats=options.repeats, foresee=foresee),
                output,
            )
    boosted = [
        instance
        for instance in authors
        if instance.name in LPBOOST_OPTIMA and (wanted is None or instance.name in wanted)
    ]
    if "lpboost" in options.only and boosted:
        harness.write("monomials_lpboost", run_lpboost(boosted, options.repeats), output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
