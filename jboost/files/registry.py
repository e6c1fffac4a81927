"""The types that a model file can hold."""

from __future__ import annotations

import dataclasses
from typing import Any

from jboost.base.boosting import Ensemble
from jboost.combine.types import InfeasibleSubsystems, LinearVote
from jboost.data.binarization import Binarizer
from jboost.example_weights.types import ExampleWeightModel
from jboost.kernels import (
    CentralHyperplanes,
    Hyperplanes,
    IsotropicHyperplanes,
    RandomStumps,
)
from jboost.learners.columns import Column, Columns
from jboost.learners.monomials import Monomial, Monomials
from jboost.learners.quantised import QuantisedStumps
from jboost.learners.stumps import Stump, Stumps
from jboost.learners.trained import Model
from jboost.learners.trees import ExactTrees, GreedyTrees, Tree
from jboost.monomials import SearchConfig
from jboost.monomials.costs import MDL, Rademacher
from jboost.pair.baselines import DistanceSeparator
from jboost.pair.types import Separator, TradeOff
from jboost.slipper import Rules

TYPES: dict[str, Any] = {}
RECORDS: dict[str, Any] = {}
CONTAINERS: dict[str, Any] = {kind.__name__: kind for kind in (dict, list, tuple)}


def register(model_type: Any) -> None:
    """Registers a type under its name, so that `save` and `load` accept it.

    Args:
      model_type: a NamedTuple of arrays and registered models, such as a custom hypothesis. Or a
        frozen dataclass whose fields are numbers, strings, arrays, registered dataclasses or tuples
        of these, such as a learner or a cost function.
    """
    (RECORDS if dataclasses.is_dataclass(model_type) else TYPES)[model_type.__name__] = model_type


KNOWN: tuple[Any, ...] = (
    Separator,
    TradeOff,
    DistanceSeparator,
    LinearVote,
    InfeasibleSubsystems,
    Ensemble,
    Column,
    Monomial,
    Stump,
    Model,
    Tree,
)
KNOWN_RECORDS: tuple[Any, ...] = (
    Columns,
    Rules,
    Stumps,
    QuantisedStumps,
    ExactTrees,
    GreedyTrees,
    Monomials,
    MDL,
    Rademacher,
    SearchConfig,
    Binarizer,
    ExampleWeightModel,
    Hyperplanes,
    IsotropicHyperplanes,
    CentralHyperplanes,
    RandomStumps,
)
for _known in (*KNOWN, *KNOWN_RECORDS):
    register(_known)
