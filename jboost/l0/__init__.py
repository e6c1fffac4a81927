"""L0-RBoost: ensembles of few hypotheses with few errors, by a tightened linear relaxation
(Goldberg and Eckstein 2009).
"""

from jboost.l0.booster import L0, L0Certificate
from jboost.l0.branch_and_cut.batches import ExactConfig, ExactState
from jboost.l0.branch_and_cut.fit import ExactFit, ExactFitState, fit_exact
from jboost.l0.branch_and_cut.solve import Exact, solve_exact
from jboost.l0.branch_and_cut.unnormalised import solve_exact_unnormalised
from jboost.l0.cross_validation import Choice, ChoiceState, choose
from jboost.l0.description import CodeLength, code_length, risk_bound
from jboost.l0.driver import finish, fit, init, step
from jboost.l0.label_code import (
    CodeBook,
    LabelCode,
    decode_labels,
    encode_labels,
    listed_code_book,
    monomial_code_book,
    places_of_monomials,
)
from jboost.l0.large import (
    LargeCertificate,
    LargeChoice,
    LargeChoiceState,
    LargeState,
    RelaxedPoint,
    choose_large,
    fit_large,
)
from jboost.l0.linear_margin import LinearMargin, LinearMarginConfig, solve_linear_margin
from jboost.l0.path import MarginSearch, MarginSearchState, path, search_margin
from jboost.l0.relaxation import solve_relaxation
from jboost.l0.relaxation.all_pairs import list_pairs
from jboost.l0.strengthen import StrengthenConfig, Strengthened, StrengthenedFit, strengthen
from jboost.l0.types import AllPairsConfig, L0Fit, L0Relaxation, RelaxationConfig, WarmStart
from jboost.l0.unnormalised import Unnormalised, solve_unnormalised
from jboost.l0.votes.local_search import SearchConfig
from jboost.l0.votes.rounded import RelaxedConfig
from jboost.l0.votes.solution import CoefficientsConfig
from jboost.l0.votes.vertex import VertexConfig

__all__ = [
    "L0",
    "AllPairsConfig",
    "Choice",
    "ChoiceState",
    "CodeBook",
    "CodeLength",
    "CoefficientsConfig",
    "Exact",
    "ExactConfig",
    "ExactFit",
    "ExactFitState",
    "ExactState",
    "L0Certificate",
    "L0Fit",
    "L0Relaxation",
    "LabelCode",
    "LargeCertificate",
    "LargeChoice",
    "LargeChoiceState",
    "LargeState",
    "LinearMargin",
    "LinearMarginConfig",
    "MarginSearch",
    "MarginSearchState",
    "RelaxationConfig",
    "RelaxedConfig",
    "RelaxedPoint",
    "SearchConfig",
    "StrengthenConfig",
    "Strengthened",
    "StrengthenedFit",
    "Unnormalised",
    "VertexConfig",
    "WarmStart",
    "choose",
    "choose_large",
    "code_length",
    "decode_labels",
    "encode_labels",
    "finish",
    "fit",
    "fit_exact",
    "fit_large",
    "init",
    "list_pairs",
    "listed_code_book",
    "monomial_code_book",
    "path",
    "places_of_monomials",
    "risk_bound",
    "search_margin",
    "solve_exact",
    "solve_exact_unnormalised",
    "solve_linear_margin",
    "solve_relaxation",
    "solve_unnormalised",
    "step",
    "strengthen",
]
