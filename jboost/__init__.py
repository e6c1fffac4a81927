"""jboost: optax for boosting. Classifiers combined exactly and sparsely, on accelerators, with a
proof in the result.
"""

import importlib
from types import ModuleType

from jboost import (
    adaboost,
    checkpoints,
    combine,
    data,
    drive,
    ensemble,
    example_weights,
    export,
    files,
    infoboost,
    kernels,
    l0,
    layers,
    learners,
    losses,
    lp,
    lpboost,
    monomials,
    operators,
    pair,
    projections,
    relaxations,
    relaxed_margin,
    sharding,
    slipper,
    verify,
)
from jboost.base import boosting, folds, status
from jboost.base.padding import pad_dataset, stack_datasets, unstack
from jboost.base.predict import predict, predict_scores
from jboost.base.types import Dataset, make_dataset, validate

__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    """`jboost.sklearn`, which needs scikit-learn, is imported when it is first used."""
    if name == "sklearn":
        return importlib.import_module("jboost.sklearn")
    raise AttributeError(f"module 'jboost' has no attribute {name!r}")


__all__ = [
    "Dataset",
    "adaboost",
    "boosting",
    "checkpoints",
    "combine",
    "data",
    "drive",
    "ensemble",
    "example_weights",
    "export",
    "files",
    "folds",
    "infoboost",
    "kernels",
    "l0",
    "layers",
    "learners",
    "losses",
    "lp",
    "lpboost",
    "make_dataset",
    "monomials",
    "operators",
    "pad_dataset",
    "pair",
    "predict",
    "predict_scores",
    "projections",
    "relaxations",
    "relaxed_margin",
    "sharding",
    "slipper",
    "stack_datasets",
    "status",
    "unstack",
    "validate",
    "verify",
]
