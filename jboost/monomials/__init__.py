"""Maximum monomial agreement: finds the conjunction of literals that agrees best with weighted
labels, by exact branch and bound.
"""

from jboost.monomials import costs
from jboost.monomials.complexity import rademacher_complexity
from jboost.monomials.solution import covers
from jboost.monomials.solve import greedy, maximum_agreement
from jboost.monomials.types import Monomials, MonomialSolution, Rewards, SearchConfig

__all__ = [
    "MonomialSolution",
    "Monomials",
    "Rewards",
    "SearchConfig",
    "costs",
    "covers",
    "greedy",
    "maximum_agreement",
    "rademacher_complexity",
]
