"""Classifiers beside few rules on one table, each in a process of its own: `python -m
benchmarks.peers.tables MODEL FILE`.

FILE is an .npz file of `benchmarks.real_tables`: numbers with NaN where missing, and codes 0, 1,
... of categories. Only SLIPPER imports jax, so that another interpreter, with the version of numpy
that a package asks for, may run the others. Prints one line of JSON.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SEED = 0
NUM_STUMPS, TREE_DEPTH, MOST_RULES, NUM_QUANTILES = 50, 4, 12, 10
_SHARED_MODULES = ("sklearn.compose", "sklearn.impute", "sklearn.preprocessing", "sklearn.metrics")


class Rows(NamedTuple):
    """A training part and a test part."""

    training: np.ndarray  # [m, n] float32, NaN where missing
    labels: np.ndarray  # [m] bool
    test: np.ndarray  # [k, n]
    is_category: np.ndarray  # [n] bool


class Found(NamedTuple):
    """What a model says of the test part, and its size; None where rules or literals mean nothing
    for it.
    """

    scores: np.ndarray  # [k] the greater, the more likely positive
    predictions: np.ndarray  # [k] bool
    rules: int | None
    literals: int | None


def _one_hot(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with the median where missing, and a column for each category seen in training."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    encoder = make_column_transformer(
        (SimpleImputer(strategy="median"), ~rows.is_category),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32),
            rows.is_category,
        ),
    )
    return encoder.fit_transform(rows.training), encoder.transform(rows.test)


def _quantile_bits(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """A bit for each decile of a number and for each category."""
    training, test = _one_hot(rows)
    numbers = int((~rows.is_category).sum())
    shares = np.arange(1, NUM_QUANTILES) / NUM_QUANTILES
    cuts = [np.unique(np.quantile(column, shares)) for column in training[:, :numbers].T]

    def bits(matrix: np.ndarray) -> np.ndarray:
        asked = [(matrix[:, place, None] <= points[None, :]) for place, points in enumerate(cuts)]
        return np.concatenate([*asked, matrix[:, numbers:] > 0], axis=1).astype(float)

    training, test = bits(training), bits(test)
    varies = (training != training[:1]).any(axis=0)
    return training[:, varies], test[:, varies]


def _of_sklearn(
    model: Any, training: np.ndarray, rows: Rows, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    model.fit(training, rows.labels)
    return model.predict_proba(test)[:, 1], model.predict(test).astype(bool)


def slipper(rows: Rows) -> Found:
    """`jboost.slipper` on deciles and categories as `jboost.data.binarization` makes them; a rule
    without literals does not count.
    """
    import jax

    import jboost
    from jboost.data import binarization

    signs = np.where(rows.labels, 1, -1)
    binarizer = binarization.fit(
        rows.training,
        signs,
        categorical=np.flatnonzero(rows.is_category).tolist(),
        cuts="quantiles",
    )
    dataset = jboost.make_dataset(binarization.apply(binarizer, rows.training), signs)
    ensemble = jboost.slipper.fit(dataset, key=jax.random.key(SEED)).ensemble
    scores = np.asarray(jboost.predict_scores(ensemble, binarization.apply(binarizer, rows.test)))
    votes = np.abs(np.asarray(ensemble.votes)).max(axis=1) > 0
    lengths = np.abs(np.asarray(ensemble.hypotheses.literals)).sum(axis=1)[votes]
    return Found(scores, scores > 0, int((lengths > 0).sum()), int(lengths.sum()))


def adaboost(rows: Rows) -> Found:
    """scikit-learn's AdaBoost of 50 stumps; a rule is a stump."""
    from sklearn.ensemble import AdaBoostClassifier

    training, test = _one_hot(rows)
    model = AdaBoostClassifier(n_estimators=NUM_STUMPS, random_state=SEED)
    answers = _of_sklearn(model, training, rows, test)
    return Found(*answers, len(model.estimators_), len(model.estimators_))


def gradient_boosting(rows: Rows) -> Found:
    """scikit-learn's HistGradientBoosting, all options as they are."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(categorical_features=rows.is_category, random_state=SEED)
    return Found(*_of_sklearn(model, rows.training, rows, rows.test), None, None)


def tree(rows: Rows) -> Found:
    """A decision tree of depth 4; a rule is a leaf, its literals the questions on the way there."""
    from sklearn.tree import DecisionTreeClassifier

    training, test = _one_hot(rows)
    model = DecisionTreeClassifier(max_depth=TREE_DEPTH, random_state=SEED)
    answers = _of_sklearn(model, training, rows, test)
    depths = np.zeros(model.tree_.node_count, int)
    for node, (left, right) in enumerate(
        zip(model.tree_.children_left, model.tree_.children_right, strict=True)
    ):
        if left >= 0:
            depths[[left, right]] = depths[node] + 1
    return Found(
        *answers, int(model.get_n_leaves()), int(depths[model.tree_.children_left < 0].sum())
    )


def explainable_boosting(rows: Rows) -> Found:
    """interpret's EBM in one process, all other options as they are; a rule is a term
    of its sum.
    """
    from interpret.glassbox import ExplainableBoostingClassifier

    kinds = ["nominal" if flag else "continuous" for flag in rows.is_category]
    model = ExplainableBoostingClassifier(feature_types=kinds, n_jobs=1, random_state=SEED)
    answers = _of_sklearn(model, rows.training, rows, rows.test)
    return Found(*answers, len(model.term_names_), None)


def figs(rows: Rows) -> Found:
    """imodels' FIGS with at most 12 splits; a rule is a split."""
    from imodels import FIGSClassifier

    training, test = _one_hot(rows)
    model = FIGSClassifier(max_rules=MOST_RULES, random_state=SEED)
    answers = _of_sklearn(model, training, rows, test)
    return Found(*answers, int(model.complexity_), int(model.complexity_))


def faster_risk(rows: Rows) -> Found:
    """FasterRisk's first score card of at most 12 bits, which are deciles and categories; a rule is
    a bit with points.
    """
    from fasterrisk.fasterrisk import RiskScoreClassifier, RiskScoreOptimizer

    training, test = _quantile_bits(rows)
    optimizer = RiskScoreOptimizer(
        X=training, y=np.where(rows.labels, 1.0, -1.0), k=min(MOST_RULES, training.shape[1])
    )
    optimizer.optimize()
    multipliers, intercepts, coefficients = optimizer.get_models()
    model = RiskScoreClassifier(multipliers[0], intercepts[0], coefficients[0])
    size = int(np.count_nonzero(coefficients[0]))
    return Found(
        np.asarray(model.predict_prob(test)), np.asarray(model.predict(test)) > 0, size, size
    )


class Peer(NamedTuple):
    """A model, and the module that it needs."""

    fit: Callable[[Rows], Found]
    module: str

    @property
    def package(self) -> str:
        """What is to be installed."""
        return self.module.partition(".")[0]


PEERS = {
    "SLIPPER": Peer(slipper, "jboost.slipper"),
    "AdaBoost, 50 stumps": Peer(adaboost, "sklearn.ensemble"),
    "HistGradientBoosting": Peer(gradient_boosting, "sklearn.ensemble"),
    "tree of depth 4": Peer(tree, "sklearn.tree"),
    "EBM": Peer(explainable_boosting, "interpret.glassbox"),
    "FIGS": Peer(figs, "imodels"),
    "FasterRisk": Peer(faster_risk, "fasterrisk.fasterrisk"),
}


def scored(found: Found, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy and AUROC on the test part, and the size of the model."""
    from sklearn.metrics import roc_auc_score

    return {
        "accuracy": float(np.mean(found.predictions == labels)),
        "auroc": float(roc_auc_score(labels, found.scores)),
        "rules": found.rules,
        "literals": found.literals,
    }


def main(name: str, path: str) -> int:
    peer = PEERS[name]
    if importlib.util.find_spec(peer.package) is None:
        print(json.dumps({"status": "not installed"}))
        return 0
    with np.load(path) as held:
        rows = Rows(held["training"], held["labels"], held["test"], held["is_category"])
        test_labels = held["test_labels"]
    warnings.simplefilter("ignore")
    for module in (peer.module, *_SHARED_MODULES):  # before the clock runs
        importlib.import_module(module)
    begin = time.perf_counter()
    found = peer.fit(rows)
    seconds = time.perf_counter() - begin
    names = importlib.metadata.packages_distributions().get(peer.package)
    version = importlib.metadata.version(names[0]) if names else None  # a checkout has none
    print(
        json.dumps(
            {"status": "ran", "version": version, "seconds": seconds, **scored(found, test_labels)}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
