"""The estimators of `jboost.sklearn` beside those of scikit-learn on the same folds: `python -m
benchmarks.estimators --data DIR`.

Ten sets: the five of Goldberg and Eckstein (2009), and five on which nothing in jboost was tuned.
Every estimator has its default parameters, but for the time limit of `RuleClassifier`. Seconds of a
fit are those of the first fold, which compiles, and the mean of the others. EBM and the rules of
imodels take part where they are installed.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import jboost.sklearn as js
from benchmarks import harness
from jboost.data import readers

LABEL, SEED, NUM_FOLDS, MOST_ROWS = "label", 0, 3, 2000
SETS = {
    "BCW": "papers/BCW.csv",
    "CLVHEART": "papers/CLVHEART.csv",
    "HUHEART": "papers/HUHEART.csv",
    "SONAR": "papers/SONAR.csv",
    "VOTE": "papers/VOTE.csv",
    "CMC": "more/CMC.csv",
    "IONOSPHERE": "more/IONOSPHERE.csv",
    "TITANIC": "more/TITANIC.csv",
    "TWONORM": "more/TWONORM.csv",
    "RING": "more/RING.csv",
}
RULE_SECONDS = 30.0  # of RuleClassifier, for the folds of its calibration and the vote together


def encoded(estimator: Any) -> Any:
    """The estimator behind medians for missing numbers and columns of 0 and 1 for categories."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (texts, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, estimator)


def _histogram() -> Any:
    columns = make_column_transformer(
        (
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
            make_column_selector(dtype_exclude="number"),
        ),
        remainder="passthrough",
    )
    return make_pipeline(columns, HistGradientBoostingClassifier(random_state=SEED))


def _base() -> list[tuple[str, Any]]:
    return [
        ("logistic", LogisticRegression(max_iter=1000)),
        ("bayes", GaussianNB()),
        ("neighbours", KNeighborsClassifier()),
    ]


MODELS: dict[str, Callable[[], Any]] = {
    "RuleClassifier": lambda: js.RuleClassifier(cv=3, max_seconds=RULE_SECONDS, random_state=SEED),
    "SlipperClassifier": lambda: js.SlipperClassifier(cv=3, random_state=SEED),
    "LPBoostClassifier": lambda: js.LPBoostClassifier(cv=3, random_state=SEED),
    "RelaxedMarginClassifier": lambda: js.RelaxedMarginClassifier(cv=3, random_state=SEED),
    "AdaBoostClassifier": lambda: js.AdaBoostClassifier(cv=3, random_state=SEED),
    "InfoBoostClassifier": lambda: js.InfoBoostClassifier(cv=3, random_state=SEED),
    "ExampleWeightsClassifier": lambda: encoded(
        js.ExampleWeightsClassifier(cv=3, random_state=SEED)
    ),
    "OptimalVoteClassifier": lambda: encoded(js.OptimalVoteClassifier(_base(), cv=3)),
    "MarginThinner of a forest": lambda: encoded(
        js.MarginThinner(RandomForestClassifier(500, random_state=SEED), random_state=SEED)
    ),
    "scikit-learn AdaBoost": lambda: encoded(AdaBoostClassifier(random_state=SEED)),
    "scikit-learn HistGradientBoosting": _histogram,
    "scikit-learn LogisticRegression": lambda: encoded(LogisticRegression(max_iter=1000)),
    "scikit-learn RandomForest": lambda: encoded(RandomForestClassifier(500, random_state=SEED)),
    "scikit-learn Voting": lambda: encoded(VotingClassifier(_base(), voting="soft")),
    "scikit-learn Stacking": lambda: encoded(StackingClassifier(_base(), cv=3)),
}


def peers() -> dict[str, Callable[[], Any]]:
    """The classifiers of packages that may be missing."""
    found: dict[str, Callable[[], Any]] = {}
    try:
        from interpret.glassbox import ExplainableBoostingClassifier

        found["interpret EBM"] = functools.partial(ExplainableBoostingClassifier, n_jobs=1)
    except ImportError:
        print("interpret is not installed: no EBM", file=sys.stderr)
    try:
        from imodels import FIGSClassifier

        found["imodels FIGS"] = lambda: encoded(FIGSClassifier())
    except ImportError:
        print("imodels is not installed: no FIGS", file=sys.stderr)
    return found


def read(path: Path) -> tuple[Any, np.ndarray]:
    """The columns as a DataFrame and the labels, of at most `MOST_ROWS` rows that are drawn."""
    import pandas

    table = readers.read_table(path, label=LABEL)
    labels = np.asarray(table.labels) > 0
    frame = pandas.DataFrame(
        {name: table.numeric[name] for name in table.numeric}
        | {name: table.categorical[name] for name in table.categorical}
    )
    rows = np.random.default_rng(SEED).permutation(len(labels))[:MOST_ROWS]
    return frame.iloc[rows].reset_index(drop=True), labels[rows]


def evaluate(make: Callable[[], Any], frame: Any, labels: np.ndarray, num_folds: int) -> dict:
    """Means over the folds of the measures of one model."""
    folds = StratifiedKFold(num_folds, shuffle=True, random_state=SEED).split(frame, labels)
    rows, seconds = [], []
    for training, testing in folds:
        model = make()
        start = time.perf_counter()
        model.fit(frame.iloc[training], labels[training])
        seconds.append(time.perf_counter() - start)
        rows.append(_measures(model, frame.iloc[testing], labels[testing]))
    means = {name: _mean([row[name] for row in rows]) for name in rows[0]}
    return {**means, "first_seconds": seconds[0], "seconds": _mean(seconds[1:])}


def _measures(model: Any, frame: Any, labels: np.ndarray) -> dict[str, float | None]:
    said = model.predict(frame)
    has_scores = hasattr(model, "decision_function")
    scores = model.decision_function(frame) if has_scores else model.predict_proba(frame)[:, 1]
    last = model[-1] if hasattr(model, "steps") else model
    return {
        "balanced_accuracy": balanced_accuracy_score(labels, said),
        "auroc": roc_auc_score(labels, scores),
        "log_loss": log_loss(labels, model.predict_proba(frame)[:, 1])
        if hasattr(model, "predict_proba")
        else None,
        "rules": _size(last),
        "error": float((said != labels).mean()),
        "gap": _gap(last),
    }


def _size(model: Any) -> float | None:
    if hasattr(model, "rules_"):
        return float(len(model.rules_))
    return float(len(model.kept_)) if hasattr(model, "kept_") else None


def _gap(model: Any) -> float | None:
    certificate = getattr(model, "certificate_", None)
    if not hasattr(certificate, "lower_bound"):
        return None
    gap = float(certificate.upper_bound) - float(certificate.lower_bound)
    return gap if np.isfinite(gap) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def run(folder: Path, names: Sequence[str], models: Mapping[str, Any], num_folds: int) -> list:
    """One record for each set and model."""
    records = []
    for name in names:
        path = folder / SETS[name]
        if not path.exists():
            print(f"{path} is missing: {name} is left out", file=sys.stderr)
            continue
        frame, labels = read(path)
        for model, make in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = evaluate(make, frame, labels, num_folds)
            records.append({"set": name, "model": model, "num_rows": len(labels), **found})
            print(name, model, f"{found['balanced_accuracy']:.3f}", file=sys.stderr, flush=True)
    return records


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.estimators", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", type=Path, default=harness.ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="NAME")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="default all")
    parser.add_argument("--folds", type=int, default=NUM_FOLDS)
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    models = {**MODELS, **peers()}
    if options.models:
        models = {name: models[name] for name in options.models}
    records = run(options.data, options.sets or tuple(SETS), models, options.folds)
    if not records:
        print("no data, nothing written", file=sys.stderr)
        return 0
    results = {"num_folds": options.folds, "seed": SEED, "records": records}
    path = harness.write("estimators", results, options.output or harness.RESULTS)
    print(f"wrote {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
