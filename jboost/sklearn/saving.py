"""Model files of estimators, without pickle (`jboost.files`)."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jboost import files
from jboost.sklearn import boosters, rule_models
from jboost.sklearn.base import RuleVoteClassifier
from jboost.sklearn.calibration import Calibration, Isotonic, Sigmoid
from jboost.sklearn.features import Features
from jboost.sklearn.votes import Constant, Vote

_ESTIMATORS: dict[str, type[RuleVoteClassifier]] = {
    kind.__name__: kind
    for kind in (
        boosters.AdaBoostClassifier,
        boosters.InfoBoostClassifier,
        boosters.LPBoostClassifier,
        boosters.RelaxedMarginClassifier,
        rule_models.RuleClassifier,
        rule_models.SlipperClassifier,
    )
}
_FIELD = "estimator"  # of the metadata of a file


def save(estimator: RuleVoteClassifier, path: str | os.PathLike[str]) -> None:
    """Writes a fitted estimator of rules or stumps to a model file.

    The file holds what `predict` and `predict_proba` need, and the parameters. It holds no
    certificate.

    Args:
      estimator: fitted, of this module.
      path: the path of the file, usually ending in `.npz`. Its folder must exist.

    Raises:
      ValueError: naming the estimator or the parameter that a file cannot hold.

    >>> import numpy as np, pathlib, tempfile
    >>> from jboost.sklearn import AdaBoostClassifier
    >>> X = np.arange(20.0)[:, None]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> save(AdaBoostClassifier().fit(X, X[:, 0] > 9), path)
    >>> load(path).predict([[2.0], [15.0]]).tolist()
    [False, True]
    """
    if type(estimator).__name__ not in _ESTIMATORS:
        raise ValueError(
            f"estimator is a {type(estimator).__name__}: expected one of {', '.join(_ESTIMATORS)};"
            " others can be pickled"
        )
    check_is_fitted(estimator)
    parameters = estimator.get_params(deep=False)
    for name, value in parameters.items():
        try:
            json.dumps(value)
        except TypeError:
            raise ValueError(
                f"{name} is a {type(value).__name__}, which a file cannot hold: set it to None"
                " before saving"
            ) from None
    votes = [_described(vote) for vote in estimator.votes_]
    metadata = {
        "kind": type(estimator).__name__,
        "parameters": parameters,
        "classes": estimator.classes_.tolist(),
        "dtype": estimator.classes_.dtype.str,
        "num_features": int(estimator.n_features_in_),
        "names": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "num_rounds": int(estimator.n_iter_),
        "options": estimator.options_,
        "calibrators": [_described_calibration(one) for one in estimator.calibrators_],
    }
    files.save({"votes": votes}, path, metadata={_FIELD: metadata})


def load(path: str | os.PathLike[str]) -> RuleVoteClassifier:
    """Reads an estimator from a file that `save` wrote; `certificate_` is None.

    Raises:
      ValueError: naming the file, if it holds no estimator or is damaged.
    """
    metadata = files.load_metadata(path).get(_FIELD)
    if not isinstance(metadata, dict) or metadata.get("kind") not in _ESTIMATORS:
        raise ValueError(f"{path}: the file holds no estimator of jboost.sklearn; use jboost.files")
    votes = files.load(path)
    try:
        return _rebuilt(metadata, votes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{path}: the estimator in the file is damaged ({type(error).__name__}): save it again"
        ) from error


def _rebuilt(metadata: dict[str, Any], model: Any) -> RuleVoteClassifier:
    estimator = _ESTIMATORS[metadata["kind"]](**metadata["parameters"])
    estimator.classes_ = np.asarray(metadata["classes"], np.dtype(metadata["dtype"]))
    estimator.n_features_in_ = metadata["num_features"]
    if metadata["names"]:
        estimator.feature_names_in_ = np.asarray(metadata["names"], object)
    estimator.n_iter_, estimator.options_ = metadata["num_rounds"], metadata["options"]
    estimator.calibrators_ = [_read_calibration(one) for one in metadata["calibrators"]]
    estimator.votes_ = [_read(one) for one in model["votes"]]
    return estimator


def _described(vote: Any) -> dict[str, Any]:
    if isinstance(vote, Constant):
        return {"constant": np.asarray(vote.score)}
    return {
        "plain": np.asarray(vote.features.plain, np.int32),
        "binarizer": vote.features.binarizer,
        "ensemble": vote.ensemble,
        "counts": np.asarray([vote.num_rounds, vote.status], np.int32),
    }


def _read(entry: dict[str, Any]) -> Any:
    if "constant" in entry:
        return Constant(float(entry["constant"]))
    plain = tuple(int(column) for column in np.asarray(entry["plain"]))
    num_rounds, status = (int(count) for count in np.asarray(entry["counts"]))
    features = Features(plain, entry["binarizer"])
    return Vote(features, entry["ensemble"], None, num_rounds, status)


def _described_calibration(one: Calibration) -> dict[str, Any]:
    function = one.function
    numbers = (
        {"slope": function.slope, "intercept": function.intercept}
        if isinstance(function, Sigmoid)
        else {
            "scores": function.scores.tolist(),
            "probabilities": function.probabilities.tolist(),
        }
    )
    return {"base_rate": one.base_rate, "at_zero": one.at_zero, "function": numbers}


def _read_calibration(entry: dict[str, Any]) -> Calibration:
    numbers = entry["function"]
    function: Sigmoid | Isotonic = (
        Sigmoid(**numbers)
        if "slope" in numbers
        else Isotonic(*(np.asarray(numbers[name]) for name in ("scores", "probabilities")))
    )
    return Calibration(function, entry["base_rate"], entry["at_zero"])
