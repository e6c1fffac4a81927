"""Base learners, which propose hypotheses under example weights."""

from jboost.base.boosting.protocols import Learner
from jboost.base.records import register
from jboost.learners.columns import Column, literals, pool
from jboost.learners.criteria import replace_criterion
from jboost.learners.functions import from_functions
from jboost.learners.monomials import Monomial, monomials
from jboost.learners.networks import mlp
from jboost.learners.quantised import quantised_stumps
from jboost.learners.signed import signs
from jboost.learners.stumps import Stump, stumps
from jboost.learners.trained import Model, trained
from jboost.learners.trees import Tree, trees

__all__ = [
    "Column",
    "Learner",
    "Model",
    "Monomial",
    "Stump",
    "Tree",
    "from_functions",
    "literals",
    "mlp",
    "monomials",
    "pool",
    "quantised_stumps",
    "register",
    "replace_criterion",
    "signs",
    "stumps",
    "trained",
    "trees",
]
