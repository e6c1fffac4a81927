"""Projections on the simplex with a cap on every entry, by relative entropy, by Euclidean distance,
and by other Bregman divergences.

Symbols of Shalev-Shwartz and Singer (2008, Figure 2): their u is exp(log_weights), their nu is
`cap`, and d = min(cap, xi u) with one multiplier xi for all entries. Dividing by the caps gives
key_i = log u_i - log cap_i and d_i = cap_i min(1, exp(key_i - t)), with the threshold t = -log xi.
An entry is capped if its key is above t, and t is where the d_i sum to 1.

Three rules keep the result exact for log weights of any range. No term is subtracted from a running
sum. The remainder 1 - (sum of the caps of capped entries) is computed in 64 bits. Weights are
computed relative to the largest weight that is not capped.

For any set C of entries, xi_C = (1 - sum_C cap) / sum_{not C} u is at most xi. The two are equal if
C is the set of capped entries. The set of entries that xi_C brings to their caps gives the next
lower bound, which is at least as large. This is Newton's method on a concave function, from the
left.

`bregman_projection` is the projection for any other separable h, by a search in the precision of
the caller.

`projection_simplex` and `projection_l1_ball` are the functions of optax, extended to sharded
vectors. They sort, so they gather a sharded vector.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from optax import projections as optax_projections

from jboost.base import meshes
from jboost.base.types import Array, ArrayLike, PyTree
from jboost.projections.bregman import (
    MirrorMap,
    binary_entropy_map,
    bregman_projection,
    entropy_map,
    mirror_map,
    power_map,
)
from jboost.projections.euclidean import projection_capped_simplex
from jboost.projections.relative_entropy import (
    kl_projection_by_sums as kl_projection_by_sums,
)
from jboost.projections.relative_entropy import (
    kl_projection_capped_simplex,
)

__all__ = [
    "MirrorMap",
    "binary_entropy_map",
    "bregman_projection",
    "entropy_map",
    "kl_projection_capped_simplex",
    "mirror_map",
    "power_map",
    "projection_capped_simplex",
    "projection_l1_ball",
    "projection_simplex",
]


def _of_optax(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function of optax, which relies on the promotion of types, also where it is "strict".

    It is computed in the default float type, as optax mixes the types of a tree with that one, and
    returns the float types of the tree.
    """

    @functools.wraps(function)
    def project(tree: PyTree, scale: ArrayLike = 1) -> PyTree:
        with jax.numpy_dtype_promotion("standard"):
            arrays = jax.tree.map(jnp.asarray, tree)
            float_type = jnp.result_type(float)
            wide = jax.tree.map(
                lambda leaf: leaf.astype(jnp.promote_types(leaf.dtype, float_type)), arrays
            )
            return jax.tree.map(
                lambda new, old: new.astype(old.dtype if _is_float(old) else new.dtype),
                function(wide, scale),
                arrays,
            )

    return project


def _is_float(array: Array) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating))


projection_l1_ball = meshes.takes_sharded(_of_optax(optax_projections.projection_l1_ball))
projection_simplex = meshes.takes_sharded(_of_optax(optax_projections.projection_simplex))
