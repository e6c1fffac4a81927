"""Twenty real classifiers combined by exact pairs, against stacking and others: `python -m
benchmarks.combine [--data DIR]`. With `--packing`, what a certificate costs instead.

The rows of a data set are split in two halves, the same share of each class. Twenty classifiers of
scikit-learn are trained on the first; combinations are fitted to their out-of-fold scores there,
and judged once more on the second half, by the classifiers trained on all of the first.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np

import jboost
from benchmarks import harness, pair_data
from jboost.combine import bounds
from jboost.combine import votes as votes_of_combine

FOLDS = 5
SETS = {
    "CLVHEART": "CLVHEART.csv",
    "GERMAN": "IDA_GERMAN.csv",
    "IONOSPHERE": "IONOSPHERE.csv",
    "PIMA": "PIMA.csv",
}
SEEDS, QUICK_SEEDS = 2, 1
ROWS = 512  # all halves are padded to one size, so that one compilation serves all data sets
STRATEGIES = ("greedy", "hierarchical", "coordinate")  # of those for any number of classifiers
# How the columns of the table are called.
NAMES = {
    "best_single": "best single",
    "average": "average",
    "scikit_learn": "stacking (scikit-learn)",
    "stacking": "stacking (jboost)",
    "random": "random pairs",
    **{f"{strategy}_alone": f"{strategy}, without stacking" for strategy in STRATEGIES},
    **{strategy: strategy for strategy in STRATEGIES},
}
RIVALS = ("scikit_learn", "stacking")


def make_classifiers(seed: int) -> list[Any]:
    """Twenty classifiers of scikit-learn, of all kinds."""
    from sklearn import (
        discriminant_analysis,
        ensemble,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        svm,
        tree,
    )

    return [
        linear_model.LogisticRegression(C=1.0, max_iter=2000),
        linear_model.LogisticRegression(C=0.01, max_iter=2000),
        linear_model.RidgeClassifier(),
        linear_model.SGDClassifier(random_state=seed),
        discriminant_analysis.LinearDiscriminantAnalysis(),
        discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1),
        naive_bayes.GaussianNB(var_smoothing=1e-2),
        naive_bayes.BernoulliNB(),
        neighbors.KNeighborsClassifier(n_neighbors=3),
        neighbors.KNeighborsClassifier(n_neighbors=9, weights="distance"),
        neighbors.KNeighborsClassifier(n_neighbors=25),
        svm.SVC(C=1.0),
        svm.SVC(C=10.0),
        svm.SVC(kernel="poly", degree=2),
        tree.DecisionTreeClassifier(max_depth=1, random_state=seed),
        tree.DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=seed),
        ensemble.RandomForestClassifier(n_estimators=100, min_samples_leaf=3, random_state=seed),
        ensemble.ExtraTreesClassifier(n_estimators=100, min_samples_leaf=3, random_state=seed),
        ensemble.GradientBoostingClassifier(n_estimators=50, max_depth=2, random_state=seed),
        neural_network.MLPClassifier(
            hidden_layer_sizes=(16,), alpha=0.1, max_iter=500, random_state=seed
        ),
    ]


def score_halves(
    features: np.ndarray, labels: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores [n, 20] float32 and labels of the first half, out of fold; and of the second."""
    from sklearn.impute import SimpleImputer
    from sklearn.model_selection import StratifiedKFold, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, test = train_test_split(
        np.arange(len(labels)), test_size=0.5, stratify=labels, random_state=seed
    )
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    columns, others = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(len(make_classifiers(seed))):

            def fit(rows: np.ndarray, number: int = number) -> Any:
                return make_pipeline(
                    SimpleImputer(), StandardScaler(), make_classifiers(seed)[number]
                ).fit(features[rows], labels[rows])

            column = np.empty(len(train))
            for kept, held_out in folds.split(train, labels[train]):
                column[held_out] = score(fit(train[kept]), features[train[held_out]])
            columns.append(column)
            others.append(score(fit(train), features[test]))
    return (
        *(np.stack(part, axis=1).astype(np.float32) for part in (columns, others)),
        labels[train],
        labels[test],
    )


def score(pipeline: Any, features: np.ndarray) -> np.ndarray:
    """The decision function, or log-odds of probabilities kept 1e-3 away from 0 and 1."""
    if hasattr(pipeline, "decision_function"):
        return np.asarray(pipeline.decision_function(features))
    probabilities = np.clip(pipeline.predict_proba(features)[:, 1], 1e-3, 1 - 1e-3)
    return np.log(probabilities) - np.log1p(-probabilities)


def scikit_learn(scores: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Logistic stacking of scikit-learn, as it comes."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=5000).fit(scores.astype(np.float64), labels)
    return lambda other: np.asarray(model.decision_function(other.astype(np.float64)))


def votes(
    scores: np.ndarray, labels: np.ndarray, seed: int, *, alone: bool
) -> dict[str, Callable[[], Any]]:
    """What jboost fits, by name; `alone` for the strategies without stacking too."""
    combine = jboost.combine
    missing = ROWS - len(labels)
    examples = (np.pad(scores, ((0, missing), (0, 0))), np.pad(labels, (0, missing)))
    mask = np.arange(ROWS) < len(labels)
    return {
        "best_single": lambda: combine.best_single(*examples, mask=mask),
        "stacking": lambda: combine.stacking(*examples, mask=mask),
        "random": lambda: combine.random_pairing(*examples, mask=mask, key=jax.random.key(seed)),
        **{
            f"{name}_alone": lambda name=name: combine.fit(
                *examples, mask=mask, strategy=name, with_stacking=False
            )
            for name in STRATEGIES
            if alone
        },
        **{
            name: lambda name=name: combine.fit(*examples, mask=mask, strategy=name)
            for name in STRATEGIES
        },
    }


def losses(
    rule: Callable[[np.ndarray], np.ndarray], halves: Sequence[np.ndarray]
) -> dict[str, int]:
    """How many examples a real score misclassifies; a score of 0 says -1."""
    training, test, labels, other_labels = halves
    return {
        name: int((np.where(rule(part) > 0, 1, -1) != truth).sum())
        for name, part, truth in (("training", training, labels), ("test", test, other_labels))
    }


def run_split(
    features: np.ndarray, labels: np.ndarray, seed: int, *, alone: bool
) -> dict[str, Any]:
    """All combinations on one split."""
    halves = score_halves(features, labels, seed)
    scale = halves[0].std(axis=0)
    record: dict[str, Any] = {
        "average": losses(lambda part: (part / scale).mean(axis=1), halves),
        "scikit_learn": losses(scikit_learn(halves[0], halves[2]), halves),
    }
    contenders = [
        harness.Contender(name, call, repeats=1)
        for name, call in votes(halves[0], halves[2], seed, alone=alone).items()
    ]
    measurements, fitted = harness.race(contenders, fresh=False)
    for name, vote in fitted.items():
        record[name] = losses(
            lambda part, vote=vote: np.asarray(jboost.predict_scores(vote, part)), halves
        )
        assert record[name]["training"] <= float(vote.loss), f"{name}: loses more than it says"
        record[name] |= {
            "lower_bound": vote.lower_bound,
            "seconds": measurements[name],
            "status": harness.status_name(vote.status),
        }
    return record


def run(folder: Path, names: Sequence[str], *, num_seeds: int, alone: bool) -> dict[str, Any]:
    """Every data set that is there."""
    records, missing = [], []
    for name in names:
        paths = sorted(folder.rglob(SETS[name])) if folder.is_dir() else []
        if not paths:
            missing.append(name)
            print(f"{name}: no {SETS[name]} in the data folder, skipped", file=sys.stderr)
            continue
        features, labels = pair_data.read_table(paths[0])
        splits = [run_split(features, labels, seed, alone=alone) for seed in range(num_seeds)]
        above = [
            f"split {seed}: {strategy} above {rival}"
            for seed, split in enumerate(splits)
            for strategy in STRATEGIES
            for rival in RIVALS
            if split[strategy]["training"] > split[rival]["training"]
        ]
        records.append(
            {
                "above_stacking": above,
                "classifiers": len(make_classifiers(0)),
                "data": name,
                "size": len(labels),
                "splits": splits,
            }
        )
        shown = ", ".join(
            f"{key} {mean(splits, key, 'training'):.1f} / {mean(splits, key, 'test'):.1f}"
            for key in NAMES
            if key in splits[0]
        )
        print(f"{name}, n = {len(labels)}: {shown}; {above}", file=sys.stderr)
    return {"missing": missing, "records": records}


def mean(splits: Sequence[Mapping[str, Any]], name: str, part: str) -> float:
    """The mean over the splits of what a combination loses on the training or the test half."""
    return float(np.mean([split[name][part] for split in splits]))


def time_packing(size: int, num_columns: int, part: int) -> tuple[int, float, float]:
    """The pivots, the CPU seconds without compilation, and the bound of the certificate of normal
    scores. The labels are the sign of the first score plus noise of the same size, the guide votes
    for that score, and parts have at most `part` examples.
    """
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(size, num_columns))
    labels = np.where(scores[:, 0] + rng.normal(size=size) > 0, 1, -1)
    guide = np.eye(num_columns)[0]

    @jax.jit
    def pack(scores: jax.Array, labels: jax.Array, guide: jax.Array) -> tuple[jax.Array, jax.Array]:
        ones, everything = jax.numpy.ones(size), jax.numpy.ones(size, bool)
        examples = votes_of_combine.gather(scores, labels, ones, everything)
        packed = bounds.pack(examples, guide, jax.numpy.zeros(()))
        return packed.num_pivots, bounds.in_weights(packed.bound, examples)

    with mock.patch.object(bounds, "_MOST_IN_PART", part), jax.enable_x64(True):
        compiled = pack.lower(scores, labels, guide).compile()
        start = time.process_time()
        pivots, bound = jax.block_until_ready(compiled(scores, labels, guide))
        return int(pivots), time.process_time() - start, float(bound)


def packing_table(sizes: Sequence[tuple[int, int]], *, whole: bool) -> str:
    """What certificates cost and prove with parts and, if `whole`, without."""
    rows = []
    for size, num_columns in sizes:
        for part in (bounds._MOST_IN_PART, size) if whole else (bounds._MOST_IN_PART,):
            pivots, seconds, bound = time_packing(size, num_columns, part)
            cells = (size, num_columns, part, pivots, f"{seconds:.1f}", f"{bound:g}")
            rows.append(tuple(str(cell) for cell in cells))
            print(*rows[-1], file=sys.stderr, flush=True)
    header = ("n", "d", "examples in a part", "pivots", "CPU seconds", "bound")
    return harness.markdown_table(header, rows)


def combine_table(results: Mapping[str, Any]) -> str:
    """The rows of README: training and test losses, a row for each combination."""
    records = results["records"]
    header = (
        "combination",
        *(f"{record['data']}, {record['size']} rows" for record in records),
        "seconds",
    )
    rows = []
    for name, title in NAMES.items():
        if not all(name in split for record in records for split in record["splits"]):
            continue
        cells = [
            f"{mean(record['splits'], name, 'training'):.1f} /"
            f" {mean(record['splits'], name, 'test'):.1f}"
            for record in records
        ]
        times = [
            split[name]["seconds"]["run_seconds"]
            for record in records
            for split in record["splits"]
            if "seconds" in split[name]
        ]
        rows.append((title, *cells, f"{min(times):.2g} to {max(times):.2g}" if times else ""))
    count = len(records[0]["splits"]) if records else 0
    above = sum(len(record["above_stacking"]) for record in records)
    text = (
        "Twenty classifiers of scikit-learn combined: misclassified examples of the training half"
        f" / of the test half, mean over {count} splits. The combinations minimise the training"
        " loss on out-of-fold scores. Splits on which a strategy has a training loss above that of"
        f" a stacking: {above}."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def _read_size(text: str) -> tuple[int, int]:
    """n and d of "NxD"."""
    size, num_columns = text.split("x")
    return int(size), int(num_columns)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.combine", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=pair_data.DEFAULT_FOLDER,
        metavar="DIR",
        help="where the CSV files are; default ../shared/data",
    )
    parser.add_argument(
        "--sets", nargs="+", choices=SETS, metavar="NAME", help=f"default all: {', '.join(SETS)}"
    )
    parser.add_argument("--alone", action="store_true", help="the strategies without stacking too")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one set and one split, into benchmarks-out: for trying it out",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    parser.add_argument(
        "--packing",
        nargs="+",
        type=_read_size,
        metavar="NxD",
        help="print what the certificate of n examples of d normal scores costs, and nothing else",
    )
    parser.add_argument("--only-parts", action="store_true", help="no packing without parts")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    if options.packing:
        print(packing_table(options.packing, whole=not options.only_parts))
        return 0
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    names = options.sets or (("CLVHEART",) if options.quick else tuple(SETS))
    results = run(
        options.data, names, num_seeds=QUICK_SEEDS if options.quick else SEEDS, alone=options.alone
    )
    if not results["records"]:
        print("no data, nothing written", file=sys.stderr)
        return 0
    path = harness.write("combine", results, output).resolve()
    print(
        f"wrote {path.relative_to(harness.ROOT) if path.is_relative_to(harness.ROOT) else path}",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
