"""The estimators of `jboost.sklearn` beside those of scikit-learn on the same folds: `python -m
benchmarks.estimators --data DIR`.

Ten sets: the five of Goldberg and Eckstein (2009), and five on which nothing in jboost was tuned.
Every estimator has its default parameters, but for the time limit of `RuleClassifier`. Seconds of a
fit are processor seconds of all threads: those of the first fold, which compiles, and the mean of
the others. EBM and the rules of imodels take part where they are installed. With `--sets` or
`--models`, records of other sets and models in the file of results stay.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(num_folds, shuffle=True, random_state=SEED).split(frame, labels)
    rows, seconds = [], []
    for training, testing in folds:
        model = make()
        start = time.process_time()
        model.fit(frame.iloc[training], labels[training])
        seconds.append(time.process_time() - start)
        rows.append(_measures(model, frame.iloc[testing], labels[testing]))
    means = {name: _mean([row[name] for row in rows]) for name in rows[0]}
    return {**means, "first_seconds": seconds[0], "seconds": _mean(seconds[1:])}


def _measures(model: Any, frame: Any, labels: np.ndarray) -> dict[str, float | None]:
    from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

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
    from jboost.sklearn import OptimalVoteClassifier

    certificate = getattr(model, "certificate_", None)
    if hasattr(certificate, "lower_bound"):
        gap = float(certificate.upper_bound) - float(certificate.lower_bound)
    elif isinstance(model, OptimalVoteClassifier):
        loss, bound = certificate
        gap = loss - bound
    else:
        return None
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


_MEASURES = (
    "balanced_accuracy",
    "auroc",
    "log_loss",
    "error",
    "rules",
    "gap",
    "first_seconds",
    "seconds",
)
_DIGITS = (3, 3, 3, 3, 1, 3, 1, 1)


def table(results: Mapping[str, Any]) -> str:
    """Means over the sets of each model, and the balanced accuracy on each set."""
    records = results["records"]
    sets = list(dict.fromkeys(record["set"] for record in records))
    models = list(dict.fromkeys(record["model"] for record in records))
    found = {(record["model"], record["set"]): record for record in records}
    title = (
        f"Estimators of `jboost.sklearn` and of others on {len(sets)} sets of at most"
        f" {MOST_ROWS:,} rows, the same {results['num_folds']} folds, default parameters. Means"
        " over sets and folds. The certified gap is the upper less the lower bound of the"
        " certificate, each in the units of its own objective: errors, or a margin from -1 to 1."
        " The first fit on a set compiles what the sets before it did not; seconds are those of"
        " the processor."
    )
    if "remark" in results:  # of results that were joined by hand
        title += f" {results['remark']}"
    header = (
        "estimator",
        "balanced accuracy",
        "AUROC",
        "log loss",
        "test error",
        "rules or members",
        "certified gap",
        "first fit, s",
        "later fits, s",
    )
    rows = []
    for model in models:
        own = [found[model, name] for name in sets if (model, name) in found]
        means = [_mean([record[measure] for record in own]) for measure in _MEASURES]
        texts = [
            "" if mean is None else f"{mean:.{digits}f}"
            for mean, digits in zip(means, _DIGITS, strict=True)
        ]
        rows.append([model, *texts])
    of_sets = [
        [
            model,
            *(
                f"{found[model, name]['balanced_accuracy']:.3f}" if (model, name) in found else ""
                for name in sets
            ),
        ]
        for model in models
    ]
    return "\n\n".join(
        [
            title,
            harness.markdown_table(header, rows),
            "Balanced accuracy on each set:",
            harness.markdown_table(("estimator", *sets), of_sets),
        ]
    )


def _written(directory: Path, num_folds: int) -> list:
    """The records of an earlier run with the same folds."""
    paths = list(directory.glob("estimators-*.json"))
    found = json.loads(paths[0].read_text(encoding="utf-8")) if paths else {}
    return found["records"] if found.get("num_folds") == num_folds else []


def _merged(old: list, new: list) -> list:
    """The new records in place of the old ones of the same set and model, in the order of the
    sets.
    """
    by_key = {(record["set"], record["model"]): record for record in [*old, *new]}
    return sorted(by_key.values(), key=lambda record: list(SETS).index(record["set"]))


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
    from benchmarks.peers import estimators as peers

    models = {**peers.MODELS, **peers.peers()}
    if options.models:
        models = {name: models[name] for name in options.models}
    records = run(options.data, options.sets or tuple(SETS), models, options.folds)
    if not records:
        print("no data, nothing written", file=sys.stderr)
        return 0
    directory = options.output or harness.RESULTS
    if options.sets or options.models:
        records = _merged(_written(directory, options.folds), records)
    results = {"num_folds": options.folds, "seed": SEED, "records": records}
    path = harness.write("estimators", results, directory)
    print(f"wrote {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
