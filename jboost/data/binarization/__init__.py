"""Binarization: converts attributes with numbers, categories and missing values to bits.

The method is that of Boros, Hammer, Ibaraki and Kogan (1997). The bits are the binary attributes of
the monomials of Goldberg and Eckstein (2009). A bit is one condition, such as `age <= 54.5` for a
numeric attribute, `cp == 4` for a categorical one, or `chol is missing` for one with missing
values. `fit` uses only the training rows and returns a `Binarizer`. `apply` is a pure function of
it. `jboost.data.cuts` chooses the cuts, and `jboost.data.support_sets` selects bits.

A monomial over N bits is a vector of `literals` [N]: +1 if the bit must be 1, -1 if it must be 0, 0
if it is not used. A bit that is NaN satisfies neither literal. The same holds for a monomial as
text: a comparison with a missing value is false, so `x > 3` does not cover a row without x.
"""

from jboost.data.binarization.bits import apply, apply_on_host, encode
from jboost.data.binarization.conditions import Binarizer, Kind, describe_literal, describe_monomial
from jboost.data.binarization.training import fit
from jboost.data.support_sets import select_support_set

__all__ = [
    "Binarizer",
    "Kind",
    "apply",
    "apply_on_host",
    "describe_literal",
    "describe_monomial",
    "encode",
    "fit",
    "select_support_set",
]
