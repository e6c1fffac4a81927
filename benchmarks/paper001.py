"""Table 1 of paper 001 (Goldberg, Eckstein 2009) reproduced: `scripts/reproduce [--config FILE] [--data DIR]`.

Every fold of every replication is one line of a JSON-lines file beside the results, written as soon as it is known: a run that was cut off goes on
where it was, and what the file holds is not fitted again. To fit all anew, name another --output. Data sets are worked on side by side, a process
each. At the end the lines become one JSON file with means and standard errors beside the published numbers.

Binarization is fitted on the training rows of each fold. All folds of a data set share one shape, hence one compilation: rows that are held out are
masked, attributes that a fold lacks are columns of zeros, and the costs know how many there really are. L0-RBoost gets equal training rows as one.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import hashlib
import importlib.util
import json
import multiprocessing
import os
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
from benchmarks.peers import slipper
from jboost.data import binarization, merging, readers
from jboost.monomials import costs

DEFAULT_CONFIG = harness.ROOT / "configs" / "paper001-k1.toml"
DEFAULT_FOLDERS = tuple(harness.ROOT.parent / "shared" / "data" / part for part in ("papers", "more"))
PUBLISHED = {  # accuracy, support: Table 1
    ("l0", 1): {"BCW": (0.963, 9.1), "VOTE": (0.950, 6.0), "CLVHEART": (0.846, 10.3), "HUHEART": (0.812, 10.4), "SONAR": (0.712, 7.2)},
    ("l0", 5): {"BCW": (0.950, 9.4), "VOTE": (0.960, 3.0), "CLVHEART": (0.833, 38.9), "HUHEART": (0.807, 27.4), "SONAR": (0.725, 21.3)},
    ("lpboost", 1): {"BCW": (0.925, 3.8), "VOTE": (0.957, 2.0), "CLVHEART": (0.774, 7.6), "HUHEART": (0.803, 3.8), "SONAR": (0.735, 8.6)},
    ("lpboost", 5): {"BCW": (0.937, 5.5), "VOTE": (0.957, 2.1), "CLVHEART": (0.810, 25.3), "HUHEART": (0.797, 11.2), "SONAR": (0.734, 30.8)},
    ("slipper", 1): {"BCW": (0.959, 19.5), "VOTE": (0.952, 3.9), "CLVHEART": (0.802, 14.0), "HUHEART": (0.802, 14.7), "SONAR": (0.674, 18.8)},
}
PUBLISHED |= {("l0-hinge", order): PUBLISHED["l0", order] for order in (1, 5)}  # which vote is the paper's it does not say
_ADABOOST_ROUNDS = 50
OPENML = {  # number and rows
    "BCW": (15, 699),
    "VOTE": (56, 435),
    "CLVHEART": (49, 303),
    "HUHEART": (51, 294),
    "SONAR": (40, 208),
    "PIMA": (37, 768),
    "GERMAN": (31, 1000),
    "IONOSPHERE": (59, 351),
    "TICTACTOE": (50, 958),
}


class Prepared(NamedTuple):
    """One fold, in the shape of all folds."""

    features: np.ndarray  # [m, N] of 0 and 1, padded
    training: np.ndarray  # [m] bool
    num_attributes: int
    num_rows: int  # of distinct training rows, at most


def read_set(name: str, folders: Sequence[Path]) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """A table [m, n] of numbers and text, labels [m], and the names of its columns: from the first folder that has it, or else from OpenML."""
    for path in (folder / f"{name}.csv" for folder in folders):
        if not path.is_file():
            continue
        table = readers.read_table(path, label="label")
        assert table.labels is not None
        return table.matrix(tuple(table.numeric), tuple(table.categorical)), table.labels, table.columns
    remedy = f"hand in --data with a folder that holds {name}.csv"
    number, num_rows = OPENML[name]
    try:
        fetched = read_openml(number)
    except OSError as error:
        raise SystemExit(f"{name}.csv is not there, and OpenML cannot be reached ({error}): {remedy}") from error
    if len(fetched[1]) != num_rows:
        raise SystemExit(f"number {number} at OpenML has {len(fetched[1])} rows, where {name} has {num_rows}: {remedy}")
    return fetched


def judge_sources(names: Sequence[str], folders: Sequence[Path]) -> None:
    """Refuses, before anything is fitted, data sets that are neither in the folders nor known at OpenML."""
    for name in names:
        if name not in OPENML and not any((folder / f"{name}.csv").is_file() for folder in folders):
            raise SystemExit(
                f"{name}.csv is not there, and its number at OpenML is not known: hand in --data with a folder that holds {name}.csv, "
                "or name other sets with --only"
            )


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
    """All folds, binarized by their training rows: replication, fold, and what is to be learnt from. One width and one number of rows for all."""
    width = num_rows = 0
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
        width = max(width, 16 * (max(bits.shape[1] for bits, _ in parts) // 16 + 1))  # one that pads at least: AdaBoost always has its constant
        distinct = max(int(merging.merge_equal(jboost.make_dataset(bits, labels, mask=training)).dataset.mask.sum()) for bits, training in parts)
        num_rows = max(num_rows, min(len(labels), 16 * -(-distinct // 16)))
        for index, (bits, training) in enumerate(parts):
            yield replication, index, Prepared(np.pad(bits, ((0, 0), (0, width - bits.shape[1]))), training, bits.shape[1], num_rows)


class Sizes(NamedTuple):
    """What is compiled for."""

    max_order: int
    max_rounds: int
    num_proposed: int
    max_columns: int
    inner_folds: int = 0  # of the cross-validation that chooses kappa, rho and the vote of l0-chosen
    inner_votes: tuple[str, ...] = ()  # of VOTES, what it chooses from
    spare: float = 0.0  # of the hinge loss, for fewer rules


VOTES = {"sparse": lambda sizes: jboost.l0.SearchConfig(), "hinge": lambda sizes: jboost.l0.HingeConfig(spare=sizes.spare)}


class Examples(NamedTuple):
    """What a method learns from."""

    dataset: Any
    held_out: Any  # [F, rows] of the weights, by each inner fold; None where nothing is chosen


def examples_of(method: str, part: Prepared, labels: np.ndarray, key: Any, sizes: Sizes) -> Examples:
    """The training rows, of which L0-RBoost gets equal ones as one; inner folds are drawn of the rows as they were."""
    dataset = jboost.make_dataset(part.features, labels, mask=part.training)
    if not method.startswith("l0"):
        return Examples(dataset, None)
    merged = merging.merge_equal(dataset, num_rows=part.num_rows)
    if method != "l0-chosen":
        return Examples(merged.dataset, None)
    is_held_out = np.asarray(jboost.folds.stratified_folds(key, labels, num_folds=sizes.inner_folds, mask=part.training))
    row_of = np.asarray(merged.row_of)
    return Examples(merged.dataset, np.stack([np.bincount(row_of[chosen], minlength=part.num_rows) for chosen in is_held_out]))


def _fit_l0(examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes, *, vote: str) -> Any:
    margin = knobs["margin_times_m"] / knobs["num_training"]
    room = {"max_rounds": sizes.max_rounds, "max_columns": sizes.max_columns, "search": VOTES[vote](sizes)}
    learner = make_learner(knobs["kappa"])
    return jboost.l0.fit(examples.dataset, learner, margin=margin, tolerance=knobs["tolerance"], bound_integer=False, **room)


def _fit_l0_chosen(examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    votes = [VOTES[vote](sizes) for vote in sizes.inner_votes]
    grid = {"margins": knobs["inner_margins_times_m"] / knobs["num_training"], "kappas": knobs["inner_kappas"]}
    room = {"max_rounds": sizes.max_rounds, "max_columns": sizes.max_columns, "search": votes, "held_out": examples.held_out}
    return jboost.l0.choose(examples.dataset, make_learner, key=key, tolerance=knobs["tolerance"], **grid, **room).fit


def _fit_lpboost(examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    learner = make_learner(knobs["kappa"])
    return jboost.lpboost.fit(examples.dataset, learner, nu=knobs["nu"], tolerance=knobs["tolerance"], max_rounds=sizes.max_rounds)


def _fit_slipper(examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    return jboost.slipper.fit(examples.dataset, key=key)  # rules of its own, all options as they are


def _fit_adaboost(examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    return jboost.adaboost.fit(examples.dataset, jboost.learners.literals(), max_rounds=_ADABOOST_ROUNDS)  # over the same columns


FITS = {
    "adaboost": _fit_adaboost,
    "l0": functools.partial(_fit_l0, vote="sparse"),
    "l0-hinge": functools.partial(_fit_l0, vote="hinge"),
    "l0-chosen": _fit_l0_chosen,
    "lpboost": _fit_lpboost,
    "slipper": _fit_slipper,
}
PEERS = {"imodels-slipper": slipper.fit_and_count}
PARAMETERS = {"l0": "margin_times_m", "l0-hinge": "margin_times_m", "lpboost": "nu"}  # what may be a list in the settings, and is in the figures


@functools.partial(jax.jit, static_argnames=("method", "sizes"))
def learn(method: str, sizes: Sizes, examples: Examples, features: Any, labels: Any, training: Any, knobs: Any, key: Any) -> tuple[Any, ...]:
    """Right answers on held-out rows and on the others, support, the margin that a share nu of the others falls short of, rounds, status, bounds."""
    knobs = {**knobs, "num_training": jnp.sum(training)}

    def make_learner(kappa: Any) -> Any:
        cost = costs.mdl(kappa, num_attributes=knobs["num_attributes"], num_examples=knobs["num_training"])
        return jboost.learners.monomials(sizes.max_order, cost=cost, num_proposed=sizes.num_proposed)

    fit = FITS[method](examples, make_learner, key, knobs, sizes)
    scores = jboost.predict_scores(fit.ensemble, features)
    right = jnp.where(scores > 0, 1, -1) == labels
    support = jnp.sum(jnp.any(jnp.abs(fit.ensemble.votes) > 1e-6, axis=1))
    margin = jnp.nanquantile(jnp.where(training, scores * labels, jnp.nan), knobs["nu"])
    bounds = fit.certificate.lower_bound, fit.certificate.upper_bound
    return jnp.sum(right & ~training), jnp.sum(right & training), support, margin, fit.num_rounds, fit.status, *bounds


def present(methods: Sequence[str]) -> list[str]:
    """The methods without the peers whose package is not installed; says which are left out."""
    missing = [method for method in methods if method in PEERS and importlib.util.find_spec(method.partition("-")[0]) is None]
    for method in missing:
        package = method.partition("-")[0]
        print(f"{method} is left out: the package {package} is not installed (pip install {package})", file=sys.stderr)
    return [method for method in methods if method not in missing]


def run_side_by_side(settings: dict[str, Any], folders: Sequence[Path], lines: Path, names: Sequence[str], jobs: int) -> None:
    """`run`, a process for each data set, so many at a time."""
    if min(jobs, len(names)) <= 1:
        return run(settings, folders, lines, names)
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for finished in [pool.submit(run, settings, folders, lines, [name]) for name in names]:
            finished.result()


def run(settings: dict[str, Any], folders: Sequence[Path], lines: Path, names: Sequence[str]) -> None:
    """All folds of the data sets that the file does not hold yet, one line for each method and each value of its parameter."""
    old, digest = read_lines(lines), digest_of(settings)
    before = {line["set"]: line["data"] for line in old if "data" in line}
    if any(line["settings"] != digest for line in old):
        raise ValueError(f"{lines} holds lines of other settings: delete it, or name another --output")
    done = {tuple(line[name] for name in KEYS) for line in old}
    sizes = sizes_of(settings)
    knobs = {name: settings[name] for name in KNOBS if name in settings} | {name: np.atleast_1d(settings[name])[0] for name in PARAMETERS.values()}
    runs = [(method, value) for method in settings["methods"] for value in values_of(settings, method)]
    for name in names:
        folds = [(replication, fold) for replication in range(settings["replications"]) for fold in range(settings["folds"])]
        asked = {(name, *place, *one) for place in folds for one in runs}
        if asked & done:
            print(f"{name}: {len(asked & done)} of {len(asked)} fits are taken from {lines}; another --output makes all anew", file=sys.stderr)
        if asked <= done:
            continue
        table, labels, names = read_set(name, folders)
        data = hashlib.sha256(repr((np.asarray(table).tolist(), labels.tolist())).encode()).hexdigest()[:12]
        if before.get(name, data) != data:
            raise ValueError(f"{lines} holds lines of other rows of {name}: delete it, or name another --output")
        for replication, fold, part in prepare(table, labels, names, settings):
            for method, value in runs:
                if (name, replication, fold, method, value) in done:
                    continue
                here = {**knobs, PARAMETERS[method]: value} if method in PARAMETERS else knobs
                key = jax.random.key(replication * settings["folds"] + fold)
                line = {"settings": digest, "data": data, "set": name, "replication": replication, "fold": fold, "method": method, "parameter": value}
                line |= judge(
                    method, sizes, part, labels.astype(np.float32), {name: jnp.asarray(knob, jnp.float32) for name, knob in here.items()}, key
                )
                with lines.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


def sizes_of(settings: dict[str, Any]) -> Sizes:
    """What is compiled for, under these settings."""
    return Sizes(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items() if name in Sizes._fields})


KNOBS = ("kappa", "tolerance", "inner_kappas", "inner_margins_times_m")
KEYS = ("set", "replication", "fold", "method", "parameter")


def values_of(settings: dict[str, Any], method: str) -> list[float | None]:
    """The values of the parameter of a method, one or several; None for a method that has none."""
    return np.atleast_1d(settings[PARAMETERS[method]]).tolist() if method in PARAMETERS else [None]


def judge(method: str, sizes: Sizes, part: Prepared, labels: np.ndarray, knobs: dict[str, Any], key: Any) -> dict[str, Any]:
    """What a method finds on one fold, in words and shares; of a peer accuracies and support alone."""
    start = time.process_time()
    found: dict[str, Any] = {}
    if method in PEERS:
        right, right_in_training, support = PEERS[method](part.features, labels, part.training)
    else:
        examples = examples_of(method, part, labels, key, sizes)
        result = learn(method, sizes, examples, part.features, labels, part.training, {**knobs, "num_attributes": part.num_attributes}, key)
        right, right_in_training, support, margin, rounds, status, lower, upper = map(float, result)
        status_name = jboost.status.Status(int(status)).name
        found = {"margin": margin, "rounds": rounds, "status": status_name, "lower_bound": lower, "upper_bound": upper}
    num_training = int(part.training.sum())
    return {
        "accuracy": right / (len(labels) - num_training),
        "training_accuracy": right_in_training / num_training,
        "support": support,
        **found,
        "num_attributes": part.num_attributes,
        "cpu_seconds": time.process_time() - start,
    }


def digest_of(settings: dict[str, Any]) -> str:
    """What tells settings apart under which a fold comes out otherwise."""
    matters = {key: value for key, value in settings.items() if key not in ("sets", "methods", "replications")}
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()[:12]


def mend_lines(path: Path) -> None:
    """Takes off a last line that was cut off while it was written."""
    text = path.read_text() if path.is_file() else ""
    whole, _, rest = text.rpartition("\n")
    if rest:
        path.write_text(whole + "\n" if whole else "")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of the file, none where there is no file.

    Raises:
      ValueError: if one cannot be read; it is named.
    """
    lines = []
    for number, line in enumerate(path.read_text().splitlines() if path.is_file() else (), start=1):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}: delete this line") from error
    return lines


def asked_for(lines: Sequence[dict[str, Any]], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of the lines that the settings ask for."""
    return [
        line
        for line in lines
        if line["set"] in settings["sets"]
        and line["method"] in settings["methods"]
        and line["replication"] < settings["replications"]
        and line["parameter"] in values_of(settings, line["method"])
    ]


def summarise(lines: Sequence[dict[str, Any]], max_order: int) -> list[dict[str, Any]]:
    """Means by set, method and parameter, with the standard error over folds, beside the published accuracy and support."""
    groups = collections.defaultdict(list)
    for line in lines:
        groups[line["method"], line["set"], line["parameter"]].append(line)
    rows = []
    for (method, name, parameter), mine in sorted(groups.items(), key=lambda item: (*item[0][:2], item[0][2] or 0)):
        wanted = [key for key in ("accuracy", "training_accuracy", "support", "margin") if key in mine[0]]
        means = {key: float(np.mean([line[key] for line in mine])) for key in wanted}
        published = PUBLISHED.get((method, max_order), {}).get(name, (None, None))
        rows.append(
            {
                "set": name,
                "method": method,
                "parameter": parameter,
                "max_order": max_order,
                "num_folds": len(mine),
                **means,
                "standard_error": float(np.std([line["accuracy"] for line in mine], ddof=1) / np.sqrt(len(mine))) if len(mine) > 1 else None,
                "published_accuracy": published[0],
                "published_support": published[1],
                "optimal": sum(line.get("status") == "OPTIMAL" for line in mine),
                "cpu_seconds_each": float(np.mean([line["cpu_seconds"] for line in mine])),
            }
        )
    return rows


COLUMNS = {  # of the table, by the title of each
    "data": lambda row: row["set"],
    "method": lambda row: row["method"] if row["parameter"] is None else f"{row['method']}, {PARAMETERS[row['method']]} {row['parameter']:g}",
    "K": lambda row: str(row["max_order"]),
    "folds": lambda row: str(row["num_folds"]),
    "accuracy": lambda row: f"{row['accuracy']:.3f}",
    "standard error": lambda row: f"{row['standard_error'] or 0:.3f}",
    "rules": lambda row: f"{row['support']:.1f}",
    "published accuracy, rules": lambda row: f"{row['published_accuracy']}, {row['published_support']}" if row["published_accuracy"] else "",
    "bounds met": lambda row: f"{row['optimal']} of {row['num_folds']}" if row["method"] in PARAMETERS else "",
    "CPU s a fold": lambda row: f"{row['cpu_seconds_each']:.2f}",
}


def show(rows: Sequence[dict[str, Any]]) -> str:
    """The table in Markdown, and the means over all data sets."""
    table = harness.markdown_table(list(COLUMNS), [[cell(row) for cell in COLUMNS.values()] for row in rows])
    return table + "\n\n" + show_means(rows)


def show_means(rows: Sequence[dict[str, Any]]) -> str:
    """The means over all data sets in Markdown."""
    return harness.markdown_table(["method", "data sets", "mean accuracy", "mean rules"], _means_by_method(rows))


def _means_by_method(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    groups = collections.defaultdict(list)
    for row in rows:
        groups[COLUMNS["method"](row)].append((row["accuracy"], row["support"]))
    return [
        [name, str(len(mine)), *(f"{mean:.{digits}f}" for mean, digits in zip(np.mean(mine, axis=0), (4, 1), strict=True))]
        for name, mine in groups.items()
    ]


PANELS = (("l0", "parameter", "rho M"), ("lpboost", "parameter", "nu"), ("lpboost", "margin", "margin achieved"))


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """One data set of Figures 2 to 11: accuracies and rules against what is tuned, and test accuracy against rules."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 6), layout="constrained")
    figure.suptitle(f"{rows[0]['set']}, K = {rows[0]['max_order']}, {rows[0]['num_folds']} folds")
    panels = figure.subplots(2, len(PANELS) + 1)
    colours = {"l0": "tab:blue", "lpboost": "tab:orange"}
    for (upper, lower), (method, abscissa, label) in zip(panels.T, PANELS, strict=False):
        mine = sorted((row for row in rows if row["method"] == method), key=lambda row: row[abscissa])
        place, tested, trained, rules = ([row[key] for row in mine] for key in (abscissa, "accuracy", "training_accuracy", "support"))
        upper.plot(place, tested, "o-", color=colours[method], label="test")
        upper.plot(place, trained, "o--", color=colours[method], alpha=0.5, label="training")
        lower.plot(place, rules, "o-", color=colours[method])
        upper.set(title=method, ylabel="accuracy")
        lower.set(xlabel=label, ylabel="rules")
        upper.legend(frameon=False)
    both, empty = panels.T[-1]
    empty.axis("off")
    for method, colour in colours.items():
        mine = [row for row in rows if row["method"] == method]
        both.plot([row["support"] for row in mine], [row["accuracy"] for row in mine], "o", color=colour, label=method)
    both.set(xlabel="rules", ylabel="test accuracy")
    both.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="settings, TOML (default: %(default)s)")
    parser.add_argument(
        "--data", type=Path, nargs="+", default=DEFAULT_FOLDERS, help="folders with BCW.csv and others; what is missing is from OpenML"
    )
    parser.add_argument("--only", nargs="*", default=(), metavar="SET", help="data sets, of those in the settings")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="data sets worked on side by side, a process each (default: as many as there are CPUs)"
    )
    parser.add_argument("--replications", type=int, help="in place of that in the settings")
    parser.add_argument("--output", type=Path, help="JSON file (default: benchmarks/results/paper001, by the name of the settings)")
    given = parser.parse_args(arguments)
    settings = tomllib.loads(given.config.read_text())
    if given.replications is not None:
        settings["replications"] = given.replications
    output = given.output or harness.RESULTS / "paper001" / f"{given.config.stem}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = output.with_suffix(".jsonl")
    for name in given.only:
        if name not in settings["sets"]:
            parser.error(f"argument --only: {name} is not among the sets of {given.config}: {', '.join(settings['sets'])}")
    names = given.only or settings["sets"]
    judge_sources(names, given.data)
    mend_lines(lines)
    run_side_by_side(settings | {"methods": present(settings["methods"])}, given.data, lines, names, given.jobs)
    rows = summarise(asked_for(read_lines(lines), settings), settings["max_order"])
    output.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")
    print(show(rows))
    if any(len(values_of(settings, method)) > 1 for method in settings["methods"]):
        for name in sorted({row["set"] for row in rows}):
            plot([row for row in rows if row["set"] == name], output.with_name(f"{output.stem}-{name.lower()}.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
