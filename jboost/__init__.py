"""jboost: optax for boosting. Classifiers combined exactly and sparsely, on accelerators, with a proof in the result."""

from jboost import data, files, pair
from jboost.base import folds, status
from jboost.base.predict import predict, predict_scores
from jboost.base.types import Dataset, make_dataset, validate

__version__ = "0.1.0"

__all__ = ["Dataset", "data", "files", "folds", "make_dataset", "pair", "predict", "predict_scores", "status", "validate"]
