"""Model files of estimators, without pickle (`jboost.files`)."""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from jboost import files
from jboost.base.boosting import Ensemble
from jboost.data.binarization import Binarizer
from jboost.example_weights import ExampleWeightModel
from jboost.sklearn import boosters, calibration, rule_models, stored
from jboost.sklearn.base import VoteClassifier
from jboost.sklearn.example_weights import ExampleWeightsClassifier, PointsVote
from jboost.sklearn.features import FeatureMap
from jboost.sklearn.votes import ClassVote, Constant

_ESTIMATORS: dict[str, type[VoteClassifier]] = {
    kind.__name__: kind
    for kind in (
        boosters.AdaBoostClassifier,
        boosters.InfoBoostClassifier,
        boosters.LPBoostClassifier,
        boosters.RelaxedMarginClassifier,
        rule_models.RuleClassifier,
        rule_models.SlipperClassifier,
        ExampleWeightsClassifier,
    )
}
_FIELD = "estimator"  # of the metadata of a file


def save(estimator: VoteClassifier, path: str | os.PathLike[str]) -> None:
    """Writes a fitted estimator of rules, stumps or example weights to a model file.

    The file holds what `predict` and `predict_proba` need, and the parameters. It holds no
    certificate, but for the bounds of `ExampleWeightsClassifier`.

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
    votes, calibrators = estimator.votes_, estimator.calibrators_
    if estimator.calibration is not None and len(calibrators) != len(votes):
        raise ValueError(
            f"calibration is {estimator.calibration!r}, and the estimator was fitted without: fit"
            " it again, or set calibration to None before saving"
        )
    metadata = {
        "kind": type(estimator).__name__,
        **stored.describe_parameters(estimator.get_params(deep=False)),
        "classes": estimator.classes_.tolist(),
        "dtype": estimator.classes_.dtype.str,
        "num_features": int(estimator.n_features_in_),
        "names": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "num_rounds": int(estimator.n_iter_),
        "options": stored.plain(estimator.options_),
        "base_rates": estimator._base_rates.tolist(),
        "calibrators": [stored.describe_calibration(one) for one in calibrators],
    }
    files.save({"votes": [_described(vote) for vote in votes]}, path, metadata={_FIELD: metadata})


def load(path: str | os.PathLike[str]) -> VoteClassifier:
    """Reads an estimator from a file that `save` wrote; `certificate_` is None, but of
    `ExampleWeightsClassifier`.

    Raises:
      ValueError: naming the file, if it holds no estimator or is damaged.
    """
    metadata = files.load_metadata(path).get(_FIELD)
    kind = metadata.get("kind") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(kind, str) or kind not in _ESTIMATORS:
        raise ValueError(f"{path}: the file holds no estimator of jboost.sklearn; use jboost.files")
    votes = files.load(path)
    try:
        return _rebuilt(metadata, votes)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise ValueError(
            f"{path}: the estimator in the file is damaged ({type(error).__name__}): save it again"
        ) from error


def _rebuilt(metadata: dict[str, Any], model: Any) -> VoteClassifier:
    estimator = _ESTIMATORS[metadata["kind"]](**stored.read_parameters(metadata))
    calibration.validate(estimator.calibration)
    estimator.classes_ = stored.read_classes(metadata)
    estimator.n_features_in_ = stored.read_count(metadata["num_features"], 1)
    names = stored.read_names(metadata, estimator.n_features_in_)
    if names:
        estimator.feature_names_in_ = np.asarray(names, object)
    estimator.n_iter_ = stored.read_count(metadata["num_rounds"], 0)
    estimator.options_ = dict(metadata["options"])
    estimator.votes_ = [_read(one, estimator.n_features_in_) for one in model["votes"]]
    num_votes = len(estimator._targets()) if len(estimator.classes_) > 1 else 0
    stored.expect(len(estimator.votes_) == num_votes, "votes")
    estimator.calibrators_ = [stored.read_calibration(one) for one in metadata["calibrators"]]
    is_calibrated = len(estimator.calibrators_) == num_votes
    is_without = estimator.calibration is None and not estimator.calibrators_
    stored.expect(is_calibrated or is_without, "calibrators")
    estimator._base_rates = stored.read_base_rates(metadata, estimator.calibrators_)
    return estimator


def _described(vote: Any) -> dict[str, Any]:
    if isinstance(vote, Constant):
        return {"constant": np.asarray(vote.score)}
    seen = {
        "plain": np.asarray(vote.features.plain, np.int32),
        "binarizer": vote.features.binarizer,
    }
    if isinstance(vote, PointsVote):
        return {**seen, "model": vote.model}
    return {
        **seen,
        "ensemble": vote.ensemble,
        "counts": np.asarray([vote.num_rounds, vote.status], np.int32),
    }


def _read(entry: dict[str, Any], num_features: int) -> Any:
    if "constant" in entry:
        score = float(entry["constant"])
        stored.expect(bool(np.isfinite(score)), "constant")
        return Constant(score)
    seen = _features(entry, num_features)
    if "model" in entry:
        return PointsVote(seen, _points_model(entry["model"], seen))
    ensemble = entry["ensemble"]
    stored.expect(isinstance(ensemble, Ensemble), "ensemble")
    num_rounds, status = (int(count) for count in np.asarray(entry["counts"]))
    return ClassVote(seen, ensemble, None, num_rounds, status)


def _features(entry: dict[str, Any], num_features: int) -> FeatureMap:
    binarizer = entry["binarizer"]
    stored.expect(isinstance(binarizer, Binarizer), "binarizer")
    stored.expect(len(binarizer.names) == len(binarizer.categories) == num_features, "binarizer")
    plain = tuple(int(column) for column in np.asarray(entry["plain"]))
    stored.expect(all(0 <= column < num_features for column in plain), "plain")
    return FeatureMap(plain, binarizer)


def _points_model(model: Any, seen: FeatureMap) -> ExampleWeightModel:
    """The model, with its arrays on the host. `jboost.files` has checked them."""
    stored.expect(isinstance(model, ExampleWeightModel), "model")
    model = jax.tree.map(np.asarray, model)
    stored.expect(model.points.shape[1] == max(seen.size, 1), "model")
    return model  # type: ignore[no-any-return]
