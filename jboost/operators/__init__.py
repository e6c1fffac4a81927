"""Linear operators: matrices, stored or not, with the products that the solvers need."""

from jboost.operators.adjoint import check_adjoint
from jboost.operators.blocks import Blocks, bordered, stack
from jboost.operators.convert import as_operator, is_operator
from jboost.operators.dense import Dense, dense
from jboost.operators.diagonal import Diagonal, Identity, Zeros, diagonal, identity, zeros
from jboost.operators.functions import FromFunctions, from_functions
from jboost.operators.packed import PackedSigns, packed_signs
from jboost.operators.pair_cuts import PairCutList, PairCuts, pair_cuts, pair_cuts_of
from jboost.operators.sparse import Sparse, sparse
from jboost.operators.stored import Stored, stored
from jboost.operators.streamed import Streamed, streamed
from jboost.operators.transposed import Transposed, transposed
from jboost.operators.types import Operator

__all__ = [
    "Blocks",
    "Dense",
    "Diagonal",
    "FromFunctions",
    "Identity",
    "Operator",
    "PackedSigns",
    "PairCutList",
    "PairCuts",
    "Sparse",
    "Stored",
    "Streamed",
    "Transposed",
    "Zeros",
    "as_operator",
    "bordered",
    "check_adjoint",
    "dense",
    "diagonal",
    "from_functions",
    "identity",
    "is_operator",
    "packed_signs",
    "pair_cuts",
    "pair_cuts_of",
    "sparse",
    "stack",
    "stored",
    "streamed",
    "transposed",
    "zeros",
]
