"""The optimal combination of two real classifiers against the usual ones: `python -m
benchmarks.pair_data [--data DIR]`.

The two scores are coordinates (Ripley, banana) or out-of-fold scores of naive Bayes and logistic
regression. All losses are training losses of the combination, on the same float32 scores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jboost
from benchmarks import harness

DEFAULT_FOLDER = harness.ROOT.parent / "shared" / "data"
FOLDS = 5
# name: (file, are the two columns the scores themselves?)
SETS = {
    "Ripley": ("RIPLEY_TR.csv", True),
    "banana": ("BANANA.csv", True),
    "BCW": ("BCW.csv", False),
    "CLVHEART": ("CLVHEART.csv", False),
    "PIMA": ("PIMA.csv", False),
    "SPAMBASE": ("SPAMBASE.csv", False),
}
QUICK = ("Ripley", "CLVHEART", "PIMA")
# How the combinations are called in the JSON, and in the table.
RIVALS = {
    "first": "first classifier",
    "first_threshold": "its best threshold",
    "second": "second classifier",
    "second_threshold": "its best threshold",
    "average": "average of scores",
    "stacking": "logistic stacking",
}


def read_table(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, d] float64, missing values NaN, and labels [n] +1 or -1 from the last column, 0
    or 1.
    """
    table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=np.float64)
    return table[:, :-1], np.where(table[:, -1] > 0, 1, -1).astype(np.int32)


def out_of_fold_scores(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The log odds [n, 2] that Gaussian naive Bayes and logistic regression give to each example
    when trained without its fold.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scores = np.empty((len(labels), 2))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(features, labels):
        bayes = make_pipeline(SimpleImputer(), GaussianNB()).fit(features[train], labels[train])
        logistic = make_pipeline(
            SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=1000)
        ).fit(features[train], labels[train])
        log_odds = bayes[-1].predict_joint_log_proba(bayes[:-1].transform(features[test]))
        scores[test] = np.column_stack(
            [log_odds[:, 1] - log_odds[:, 0], logistic.decision_function(features[test])]
        )
    return scores


def rival_losses(scores: np.ndarray, labels: np.ndarray) -> dict[str, int]:
    """How many examples the usual combinations misclassify."""
    from sklearn.linear_model import LogisticRegression

    wide = scores.astype(np.float64)
    stacked = LogisticRegression(max_iter=1000).fit(wide, labels).decision_function(wide)

    def loss(score: np.ndarray) -> int:
        return int((np.where(score > 0, 1, -1) != labels).sum())

    return {
        "first": loss(wide[:, 0]),
        "first_threshold": best_threshold_loss(wide[:, 0], labels),
        "second": loss(wide[:, 1]),
        "second_threshold": best_threshold_loss(wide[:, 1], labels),
        "average": loss(wide.mean(axis=1)),
        "stacking": loss(stacked),
    }


def best_threshold_loss(score: np.ndarray, labels: np.ndarray) -> int:
    """The least loss of score > t or score < t over all t."""
    order = np.argsort(score, kind="stable")
    ends = np.append(np.diff(score[order]) > 0, True)
    # positives less negatives up to t
    below = np.concatenate([[0], np.cumsum(labels[order])[ends]])
    wrong = below + int((labels < 0).sum())  # of score > t
    return int(min(wrong.min(), (len(labels) - wrong).min()))


def run(folder: Path, names: Sequence[str], *, repeats: int) -> dict[str, Any]:
    """Every data set that is there."""
    records = []
    missing = []
    for name in names:
        file, are_scores = SETS[name]
        paths = sorted(folder.rglob(file)) if folder.is_dir() else []
        if not paths:
            missing.append(name)
            print(f"{name}: no {file} in the data folder, skipped", file=sys.stderr)
            continue
        features, labels = read_table(paths[0])
        scores = (features if are_scores else out_of_fold_scores(features, labels)).astype(
            np.float32
        )
        rivals = rival_losses(scores, labels)
        measurement, best = harness.measure(
            lambda scores=scores, labels=labels: jboost.pair.optimal_separator(scores, labels),
            repeats=repeats,
        )
        optimum = float(best.loss)
        for rival, loss in rivals.items():
            assert optimum <= loss, (
                f"{name}: the optimal combination misclassifies {optimum:g}, {rival} {loss}"
            )
        records.append(
            {
                "constants": [int((labels < 0).sum()), int((labels > 0).sum())],
                "data": name,
                "dtype": str(scores.dtype),
                "loss": optimum,
                "lower_bound": best.lower_bound,
                "margin": best.margin if np.isfinite(best.margin) else None,
                "rivals": rivals,
                "scores": "coordinates" if are_scores else "naive Bayes, logistic regression",
                "seconds": measurement,
                "size": len(labels),
                "status": harness.status_name(best.status),
            }
        )
        print(
            f"{name}, n = {len(labels)}: optimal {optimum:g}, "
            + ", ".join(f"{rival} {loss}" for rival, loss in rivals.items()),
            file=sys.stderr,
        )
    return {"missing": missing, "records": records}


def data_table(results: Mapping[str, Any]) -> str:
    """The rows of README: training losses."""
    header = ("data", "n", *RIVALS.values(), "optimal combination", "seconds")
    rows = [
        (
            record["data"],
            f"{record['size']:,}",
            *(str(record["rivals"][rival]) for rival in RIVALS),
            f"**{record['loss']:g}**",
            f"{record['seconds']['run_seconds']:.2g}",
        )
        for record in results["records"]
    ]
    text = (
        "Misclassified training examples of combinations of two classifiers: the two coordinates of"
        " Ripley and banana, elsewhere out-of-fold scores of naive Bayes and logistic regression."
        " No linear combination does better than the optimal one."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pair_data", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help="where the CSV files are; default ../shared/data",
    )
    parser.add_argument(
        "--sets", nargs="+", choices=SETS, metavar="NAME", help=f"default all: {', '.join(SETS)}"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sets and one run, into benchmarks-out: for trying it out",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    names = options.sets or (QUICK if options.quick else tuple(SETS))
    results = run(options.data, names, repeats=1 if options.quick else 5)
    if not results["records"]:
        print("no data, nothing written", file=sys.stderr)
        return 0
    path = harness.write("pair_data", results, output).resolve()
    print(
        f"wrote {path.relative_to(harness.ROOT) if path.is_relative_to(harness.ROOT) else path}",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
