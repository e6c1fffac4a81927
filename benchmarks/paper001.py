"""Table 1 of paper 001 (Goldberg, Eckstein 2009) reproduced: `scripts/reproduce [--config FILE] [--data DIR]`.

Every fold of every replication is one line of a JSON-lines file beside the results, written as soon as it is known: a run that was cut off goes on
where it was. At the end the lines become one JSON file with means and standard errors beside the published numbers.

Binarization is fitted on the training rows of each fold. All folds of a data set share one shape, hence one compilation: rows that are held out are
masked, attributes that a fold lacks are columns of zeros, and the costs know how many there really are.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jboost
from benchmarks import harness
from jboost.data import binarization, readers
from jboost.monomials import costs

DEFAULT_CONFIG = harness.ROOT / "configs" / "paper001-k1.toml"
DEFAULT_FOLDER = harness.ROOT.parent / "shared" / "data" / "papers"
PUBLISHED = {  # accuracy, support: Table 1
    ("l0", 1): {"BCW": (0.963, 9.1), "VOTE": (0.950, 6.0), "CLVHEART": (0.846, 10.3), "HUHEART": (0.812, 10.4), "SONAR": (0.712, 7.2)},
    ("l0", 5): {"BCW": (0.950, 9.4), "VOTE": (0.960, 3.0), "CLVHEART": (0.833, 38.9), "HUHEART": (0.807, 27.4), "SONAR": (0.725, 21.3)},
    ("lpboost", 1): {"BCW": (0.925, 3.8), "VOTE": (0.957, 2.0), "CLVHEART": (0.774, 7.6), "HUHEART": (0.803, 3.8), "SONAR": (0.735, 8.6)},
    ("lpboost", 5): {"BCW": (0.937, 5.5), "VOTE": (0.957, 2.1), "CLVHEART": (0.810, 25.3), "HUHEART": (0.797, 11.2), "SONAR": (0.734, 30.8)},
    ("slipper", 1): {"BCW": (0.959, 19.5), "VOTE": (0.952, 3.9), "CLVHEART": (0.802, 14.0), "HUHEART": (0.802, 14.7), "SONAR": (0.674, 18.8)},
}
OPENML = {"BCW": 15, "VOTE": 56, "CLVHEART": 53, "HUHEART": 51, "SONAR": 40}


class Prepared(NamedTuple):
    """One fold, in the shape of all folds."""

    features: np.ndarray  # [m, N] of 0 and 1, padded
    training: np.ndarray  # [m] bool
    num_attributes: int


def read_set(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """A table [m, n] of numbers and text, labels [m], and the names of its columns: from the folder, or from OpenML where it is not there."""
    path = folder / f"{name}.csv"
    if path.is_file():
        table = readers.read_table(path, label="label")
        assert table.labels is not None
        return table.matrix(tuple(table.numeric), tuple(table.categorical)), table.labels, table.columns
    return read_openml(OPENML[name])


def read_openml(number: int) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """The data set of a number at OpenML, as `read_set` gives it; the last class in order is the positive one. Fetched once, then kept."""
    from sklearn.datasets import fetch_openml

    fetched = fetch_openml(data_id=number, as_frame=False, parser="liac-arff")
    classes = sorted(set(map(str, fetched.target)))
    labels = np.where(np.array(list(map(str, fetched.target))) == classes[-1], 1.0, -1.0)
    names = tuple(map(str, fetched.feature_names))
    matrix = np.asarray(fetched.data).astype(object)
    for name, words in (fetched.categories or {}).items():
        column = names.index(name)
        matrix[:, column] = [np.nan if code != code else str(words[int(code)]) for code in matrix[:, column]]
    return matrix, labels, names


def folds_of(labels: np.ndarray, replication: int, num_folds: int) -> np.ndarray:
    """Which examples each fold holds out, [num_folds, m] bool, stratified."""
    return np.asarray(jboost.folds.stratified_folds(jax.random.key(replication), labels, num_folds=num_folds))


def prepare(table: np.ndarray, labels: np.ndarray, names: Sequence[str], settings: dict[str, Any]) -> Iterator[tuple[int, int, Prepared]]:
    """All folds, binarized by their training rows: replication, fold, and what is to be learnt from. One width for all."""
    width = 0
    for replication in range(settings["replications"]):
        held_out = folds_of(labels, replication, settings["folds"])
        parts = []
        for index in range(settings["folds"]):
            training = ~held_out[index]
            binarizer = binarization.fit(
                table, labels, mask=training, names=names, cuts=settings["cuts"], missing="literal", min_separation=settings.get("min_separation")
            )
            bits = np.nan_to_num(np.asarray(binarization.apply(binarizer, binarization.encode(binarizer, table))), nan=0.0)
            parts.append((bits.astype(np.float32), training))
        width = max(width, 16 * -(-max(bits.shape[1] for bits, _ in parts) // 16))
        for index, (bits, training) in enumerate(parts):
            yield replication, index, Prepared(np.pad(bits, ((0, 0), (0, width - bits.shape[1]))), training, bits.shape[1])


class Sizes(NamedTuple):
    """What is compiled for."""

    max_order: int
    max_rounds: int
    num_proposed: int
    max_columns: int


def _fit_l0(dataset: Any, learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    margin = knobs["margin_times_m"] / jnp.sum(dataset.mask)
    room = {"max_rounds": sizes.max_rounds, "max_columns": sizes.max_columns}
    return jboost.l0.fit(dataset, learner, margin=margin, tolerance=knobs["tolerance"], bound_integer=False, **room)


def _fit_lpboost(dataset: Any, learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    return jboost.lpboost.fit(dataset, learner, nu=knobs["nu"], tolerance=knobs["tolerance"], max_rounds=sizes.max_rounds)


def _fit_slipper(dataset: Any, learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    return jboost.slipper.fit(dataset, key=key)  # rules of its own, all options as they are


FITS = {"l0": _fit_l0, "lpboost": _fit_lpboost, "slipper": _fit_slipper}


@functools.partial(jax.jit, static_argnames=("method", "sizes"))
def learn(method: str, sizes: Sizes, features: Any, labels: Any, training: Any, num_attributes: Any, knobs: Any, key: Any) -> tuple[Any, ...]:
    """Right answers on held-out rows and on the others, support, rounds, status and the bounds, of one method on one fold."""
    dataset = jboost.make_dataset(features, labels, mask=training)
    cost = costs.mdl(knobs["kappa"], num_attributes=num_attributes)
    learner = jboost.learners.monomials(sizes.max_order, cost=cost, num_proposed=sizes.num_proposed)
    fit = FITS[method](dataset, learner, key, knobs, sizes)
    scores = jboost.predict_scores(fit.ensemble, features)
    right = jnp.where(scores > 0, 1, -1) == labels
    support = jnp.sum(jnp.any(jnp.abs(fit.ensemble.votes) > 1e-6, axis=1))
    bounds = fit.certificate.lower_bound, fit.certificate.upper_bound
    return jnp.sum(right & ~training), jnp.sum(right & training), support, fit.num_rounds, fit.status, *bounds


def run(settings: dict[str, Any], folder: Path, lines: Path, only: Sequence[str]) -> None:
    """All folds that the file does not hold yet."""
    old, digest = read_lines(lines), digest_of(settings)
    if any(line["settings"] != digest for line in old):
        raise ValueError(f"{lines} holds lines of other settings: delete it, or name another --output")
    done = {(line["set"], line["method"], line["replication"], line["fold"]) for line in old}
    sizes = Sizes(**{name: settings[name] for name in Sizes._fields})
    knobs = {name: jnp.float32(settings[name]) for name in ("kappa", "margin_times_m", "tolerance", "nu")}
    for name in only or settings["sets"]:
        wanted = [
            (name, method, replication, fold)
            for method in settings["methods"]
            for replication in range(settings["replications"])
            for fold in range(settings["folds"])
        ]
        if set(wanted) <= done:
            continue
        table, labels, names = read_set(name, folder)
        signs = labels.astype(np.float32)
        for replication, fold, part in prepare(table, labels, names, settings):
            for method in settings["methods"]:
                if (name, method, replication, fold) in done:
                    continue
                start = time.process_time()
                key = jax.random.key(replication * settings["folds"] + fold)
                result = learn(method, sizes, part.features, signs, part.training, part.num_attributes, knobs, key)
                right, right_in_training, support, rounds, status, lower, upper = map(float, result)
                num_training = int(part.training.sum())
                line = {
                    "settings": digest,
                    "set": name,
                    "method": method,
                    "replication": replication,
                    "fold": fold,
                    "accuracy": right / (len(labels) - num_training),
                    "training_accuracy": right_in_training / num_training,
                    "support": support,
                    "rounds": rounds,
                    "status": jboost.status.Status(int(status)).name,
                    "lower_bound": lower,
                    "upper_bound": upper,
                    "num_attributes": part.num_attributes,
                    "cpu_seconds": time.process_time() - start,
                }
                with lines.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


def digest_of(settings: dict[str, Any]) -> str:
    """What tells settings apart under which a fold comes out otherwise."""
    matters = {key: value for key, value in settings.items() if key not in ("sets", "methods", "replications")}
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()[:12]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of the file, none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def summarise(lines: Sequence[dict[str, Any]], max_order: int) -> list[dict[str, Any]]:
    """Mean accuracy and support by set and method, with the standard error over folds, beside the published ones."""
    rows = []
    for method, name in sorted({(line["method"], line["set"]) for line in lines}):
        mine = [line for line in lines if (line["method"], line["set"]) == (method, name)]
        accuracy, support = (np.array([line[key] for line in mine]) for key in ("accuracy", "support"))
        published = PUBLISHED.get((method, max_order), {}).get(name, (None, None))
        rows.append(
            {
                "set": name,
                "method": method,
                "max_order": max_order,
                "num_folds": len(mine),
                "accuracy": float(accuracy.mean()),
                "standard_error": float(accuracy.std(ddof=1) / np.sqrt(len(mine))) if len(mine) > 1 else None,
                "support": float(support.mean()),
                "published_accuracy": published[0],
                "published_support": published[1],
                "optimal": sum(line["status"] == "OPTIMAL" for line in mine),
                "cpu_seconds_each": float(np.median([line["cpu_seconds"] for line in mine])),
            }
        )
    return rows


def show(rows: Sequence[dict[str, Any]]) -> str:
    """The table as text."""
    head = f"{'set':10} {'method':9} {'K':>2} {'folds':>5} {'accuracy':>9} {'s.e.':>6} {'support':>8} {'published':>16} {'optimal':>8} {'CPU s':>7}"
    body = [
        f"{row['set']:10} {row['method']:9} {row['max_order']:2} {row['num_folds']:5} {row['accuracy']:9.3f} {row['standard_error'] or 0:6.3f} "
        f"{row['support']:8.1f} {row['published_accuracy'] or '':>9} {row['published_support'] or '':>6} {row['optimal']:8} "
        f"{row['cpu_seconds_each']:7.2f}"
        for row in rows
    ]
    return "\n".join([head, *body])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="settings, TOML (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER, help="folder with BCW.csv and the others; what is not there comes from OpenML")
    parser.add_argument("--only", nargs="*", default=(), metavar="SET", help="data sets, of those in the settings")
    parser.add_argument("--replications", type=int, help="in place of that in the settings")
    parser.add_argument("--output", type=Path, help="JSON file (default: benchmarks/results/paper001, by the name of the settings)")
    given = parser.parse_args(arguments)
    settings = tomllib.loads(given.config.read_text())
    if given.replications is not None:
        settings["replications"] = given.replications
    output = given.output or harness.RESULTS / "paper001" / f"{given.config.stem}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = output.with_suffix(".jsonl")
    run(settings, given.data, lines, given.only)
    rows = summarise(read_lines(lines), settings["max_order"])
    output.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")
    print(show(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
