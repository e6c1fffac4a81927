"""Trees beside those of scikit-learn, alone and boosted by AdaBoost: `python -m benchmarks.trees`.

All models see the same rows: a fixed stratified third tests. Numbers stay as they are, and
categories are columns of `categorical` here and one-hot columns there. A missing number is the
median there, with a bit that says so, as AdaBoost of scikit-learn takes no missing values. Trees of
depth 2 are the best of all by weighted error; deeper ones, and all of scikit-learn, are greedy by
the Gini impurity. The last row of a table is LP-Boost, certified over all trees of depth 2.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from jboost import adaboost, learners, lpboost, make_dataset, predict_scores, status
from jboost.data import embedded, readers
from jboost.data.table import Table
from jboost.learners.trees import Trees

FOLDER = harness.ROOT.parent / "shared" / "data"
FILES = {
    "HUHEART": "papers/HUHEART.csv",
    "VOTE": "papers/VOTE.csv",
    "GERMAN": "more/GERMAN.csv",
    "PIMA": "more/PIMA.csv",
}
BREAST_CANCER = "breast_cancer"
DEPTHS = (2, 4, 6)
ROUNDS, LPBOOST_ROUNDS = 50, 150
NU, TOLERANCE = 0.2, 1e-2
SEED = 0
_CAP_SECONDS = 20.0


class Split(NamedTuple):
    """The rows of a table, for both libraries."""

    name: str
    features: np.ndarray  # [m, N] float32, categories as numbers, NaN where missing
    categorical: tuple[int, ...]
    one_hot: np.ndarray  # [m, M] float32
    labels: np.ndarray  # [m] -1 or +1
    is_test: np.ndarray  # [m] bool

    def training(self) -> Any:
        """The data set that jboost fits."""
        rows = ~self.is_test
        return make_dataset(self.features[rows], self.labels[rows])


def read(names: Sequence[str], folder: Path) -> Iterator[Split]:
    """The tables that are there."""
    from sklearn.model_selection import StratifiedShuffleSplit

    for name in names:
        if name == BREAST_CANCER:
            table = embedded.load_table(name)
        elif (folder / FILES[name]).exists():
            table = readers.read_table(folder / FILES[name], label="label")
        else:
            print(f"{name}: no {folder / FILES[name]}", file=sys.stderr)
            continue
        assert table.labels is not None
        labels = table.labels.astype(np.int32)
        splitter = StratifiedShuffleSplit(1, test_size=1 / 3, random_state=SEED)
        _, test = next(splitter.split(labels, labels))
        yield Split(name, *_encode(table), labels, np.isin(np.arange(len(labels)), test))


def _encode(table: Table) -> tuple[np.ndarray, tuple[int, ...], np.ndarray]:
    """Features, the columns that are categories, and the same without missing values and with one
    column for each category.
    """
    numbers, width = list(table.numeric.values()), len(table.numeric)
    columns, bits = list(numbers), []
    for column in numbers:
        is_missing = np.isnan(column)
        bits += [np.where(is_missing, np.nanmedian(column), column)]
        bits += [is_missing.astype(float)] if is_missing.any() else []
    for values in table.categorical.values():
        known = sorted({value for value in values if value is not None})
        columns.append(
            np.array([known.index(one) if one is not None else np.nan for one in values])
        )
        bits += [(columns[-1] == place).astype(float) for place in range(len(known))]
    categorical = tuple(range(width, len(columns)))
    return (
        np.stack(columns, axis=1).astype(np.float32),
        categorical,
        np.stack(bits, axis=1).astype(np.float32),
    )


# --- models ---------------------------------------------------------------------------------------


def _one_tree(learner: Trees, dataset: Any) -> Any:
    """The tree under equal weights."""
    count = dataset.labels.shape[0]
    proposal = learner.propose(learner.init(None, dataset), jnp.full((count,), 1 / count))
    return jax.tree.map(lambda part: part[0], proposal.hypotheses)


def _ours(split: Split, depth: int, *, is_boosted: bool) -> tuple[Callable[[], Any], Any]:
    """How jboost fits, and how the result predicts."""
    learner, dataset = learners.trees(depth, categorical=split.categorical), split.training()
    if is_boosted:
        fit = jax.jit(functools.partial(adaboost.fit, learner=learner, max_rounds=ROUNDS))
        return lambda: fit(dataset), lambda fitted: predict_scores(fitted.ensemble, split.features)
    make = jax.jit(functools.partial(_one_tree, learner))
    return lambda: make(dataset), lambda tree: learner.outputs(tree, split.features)


def _theirs(split: Split, depth: int, *, is_boosted: bool) -> tuple[Callable[[], Any], Any]:
    """How scikit-learn fits, and how the result predicts."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    rows, labels = split.one_hot[~split.is_test], split.labels[~split.is_test]

    def fit() -> Any:
        tree = DecisionTreeClassifier(max_depth=depth, random_state=SEED)
        model = (
            AdaBoostClassifier(tree, n_estimators=ROUNDS, random_state=SEED) if is_boosted else tree
        )
        return model.fit(rows, labels)

    return fit, lambda fitted: fitted.predict(split.one_hot)


def _errors(split: Split, scores: Any) -> dict[str, float]:
    """Accuracies of scores; a score of 0 is a vote for -1."""
    is_right = np.where(np.asarray(scores) > 0, 1, -1) == split.labels
    return {
        "training_accuracy": float(is_right[~split.is_test].mean()),
        "accuracy": float(is_right[split.is_test].mean()),
    }


def run(splits: Iterator[Split], *, repeats: int) -> dict[str, Any]:
    """A record for each table, depth and model."""
    records = []
    for split in splits:
        for is_boosted in (False, True):
            for depth in DEPTHS:
                ways = {
                    "jboost": _ours(split, depth, is_boosted=is_boosted),
                    "scikit-learn": _theirs(split, depth, is_boosted=is_boosted),
                }
                measured, values = harness.race(
                    [
                        harness.Contender(name, fit, name == "jboost", repeats, _CAP_SECONDS)
                        for name, (fit, _) in ways.items()
                    ]
                )
                records += [
                    {
                        "table": split.name,
                        "model": "AdaBoost" if is_boosted else "tree",
                        "depth": depth,
                        "library": name,
                        "measurement": measured[name],
                        **_errors(split, predict(values[name])),
                    }
                    for name, (_, predict) in ways.items()
                ]
        records.append(_certified(split))
        print(f"{split.name} done", file=sys.stderr, flush=True)
    return {"nu": NU, "records": records, "rounds": ROUNDS, "tolerance": TOLERANCE}


def _certified(split: Split) -> dict[str, Any]:
    """LP-Boost over all trees of depth 2."""
    learner, dataset = learners.trees(2, categorical=split.categorical), split.training()
    fit = jax.jit(
        functools.partial(
            lpboost.fit, learner=learner, nu=NU, tolerance=TOLERANCE, max_rounds=LPBOOST_ROUNDS
        )
    )
    measured, fitted = harness.measure(lambda: fit(dataset), repeats=1)
    return {
        "table": split.name,
        "model": "LP-Boost",
        "depth": 2,
        "library": "jboost",
        "measurement": measured,
        "bounds": [fitted.certificate.lower_bound, fitted.certificate.upper_bound],
        "num_rounds": fitted.num_rounds,
        "status": status.Status(int(fitted.status)).name,
        **_errors(split, predict_scores(fitted.ensemble, split.features)),
    }


# --- results --------------------------------------------------------------------------------------


def table(results: Mapping[str, Any]) -> str:
    """A row for each table, model and depth."""
    rows, platform = [], results["environment"]["platform"]
    for record in results["records"]:
        seconds = record["measurement"]
        cells = [f"{record['training_accuracy']:.3f}", f"{record['accuracy']:.3f}"]
        cells.append(harness.seconds_text(seconds[harness.seconds_key(platform)]))
        cells.append(harness.seconds_text(seconds["compile_seconds"]))
        bounds = ""
        if "bounds" in record:
            low, high = record["bounds"]
            bounds = f"{low:.3f} to {high:.3f}, {record['num_rounds']} rounds"
        rows.append(
            (
                record["table"],
                record["model"],
                str(record["depth"]),
                record["library"],
                *cells,
                bounds,
            )
        )
    header = (
        "table",
        "model",
        "depth",
        "library",
        "training accuracy",
        "accuracy",
        harness.seconds_words(platform).split(",")[0],
        "compilation",
        "soft margin over all trees",
    )
    return (
        f"AdaBoost has at most {results['rounds']} rounds; LP-Boost has nu {results['nu']:g} and"
        f" tolerance {results['tolerance']:g}.\n\n{harness.markdown_table(header, rows)}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trees", description=__doc__.split(":")[0] + "."
    )
    names = (BREAST_CANCER, *FILES)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="TABLE")
    parser.add_argument(
        "--data", type=Path, default=FOLDER, metavar="DIR", help="default ../shared/data"
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="default %(default)s")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    results = run(read(options.only, options.data), repeats=options.repeats)
    path = harness.write("trees", results, options.output)
    print(f"wrote {path.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
