"""The columns of the restricted relaxation: their reduced costs, which are kept, and which slots
new columns get.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jboost.base import loops, numerics
from jboost.base.types import Array
from jboost.l0.pricing import Priced
from jboost.l0.relaxation import cuts as pair_cuts
from jboost.l0.types import L0Relaxation

NUM_CONSTANTS = 2  # the columns 0 and 1 are the hypotheses +1 and -1
# A column may be overwritten if its value, mu + lambda - reduced cost / cost, is below this.
_WORTHLESS = 1e-3


def worth(
    margins: Array, costs: Array, solved: L0Relaxation, is_either: Array, must_stay: Array
) -> Array:
    """Returns the value of keeping each column, [n]: mu + lambda - reduced cost / cost.

    The value is inf for columns that must not be overwritten.

    Args:
      margins: [n, m].
      costs: [n].
      solved: the relaxation over these columns.
      is_either: [] bool, whether its cuts are those of either order.
      must_stay: [n] bool, the columns that must not be overwritten. The constants never are.
    """
    reduced = reduced_costs(margins, costs, solved, is_either)
    share = solved.selected + solved.coefficients - numerics.safe_divide(reduced, costs)
    return jnp.where(must_stay, jnp.inf, share).at[:NUM_CONSTANTS].set(jnp.inf)


def reduced_costs(
    margins: Array, costs: Array, solved: L0Relaxation, either: Array | bool = False
) -> Array:
    """The reduced costs c_u - s_u - [alpha + g_u]_+ of columns, [n].

    Args:
      margins: [n, m] y_i H_iu, 0 for padding.
      costs: [n].
      solved: the relaxation whose duals price the columns.
      either: [] bool, whether the cuts are "either".
    """
    ends = jnp.where(solved.pairs >= 0, solved.pairs, margins.shape[1])
    first, second = (margins.at[:, end].get(mode="fill", fill_value=0) for end in ends.T)
    serves = pair_cuts.serves(first, second, either).astype(costs.dtype)
    served = jnp.matmul(serves, solved.pair_weights, precision=lax.Precision.HIGHEST)
    edges = jnp.matmul(margins, solved.example_weights, precision=lax.Precision.HIGHEST)
    return costs - served - jnp.maximum(solved.convexity + edges, 0.0)


class Entered(NamedTuple):
    """The columns after a round."""

    outputs: Array  # [2 + capacity, m]
    costs: Array  # [2 + capacity]
    is_used: Array  # [2 + capacity] bool
    # [k] int32 the slot in the ensemble of each proposal; its capacity for one that is not stored
    slots: Array
    num_new: Array  # [] int32


def enter(
    outputs: Array, costs: Array, is_used: Array, priced: Priced, worth: Array, is_enabled: Array
) -> Entered:
    """Stores the proposed columns.

    New columns get free slots first, and then the slots of columns whose `worth` is below
    `_WORTHLESS`. A proposal that equals a stored column replaces it if it costs less.

    Args:
      outputs: [n, m].
      costs: [n].
      is_used: [n] bool.
      priced: the proposals. Entries of value -inf are empty.
      worth: [n] the result of `worth`.
      is_enabled: [] bool, whether to store any proposal.
    """
    size = costs.shape[0]
    # A constant keeps its slot. A proposal that equals it and costs less gets a slot of its own.
    is_proposed = jnp.arange(size) >= NUM_CONSTANTS
    available = jnp.argsort(jnp.where(is_used, worth, -1.0))
    num_available = jnp.sum(~is_used | (worth < _WORTHLESS), dtype=jnp.int32)

    def write(carry: tuple[Array, ...], item: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        outputs, costs, is_used, num_new = carry
        row, cost, is_proposal = item
        is_same = (
            jnp.all(outputs == row[None, :], axis=1) & is_used & (is_proposed | (costs <= cost))
        )
        index, is_known = jnp.argmax(is_same), jnp.any(is_same)
        pays = (
            is_enabled
            & is_proposal
            & jnp.where(
                is_known, is_proposed[index] & (cost < costs[index]), num_new < num_available
            )
        )
        slot = jnp.where(
            pays, jnp.where(is_known, index, available[jnp.minimum(num_new, size - 1)]), size
        ).astype(jnp.int32)
        carry = (
            outputs.at[slot].set(row, mode="drop"),
            costs.at[slot].set(cost, mode="drop"),
            is_used.at[slot].set(True, mode="drop"),
            num_new + (pays & ~is_known).astype(jnp.int32),
        )
        return carry, slot - NUM_CONSTANTS

    start = (outputs, costs, is_used, jnp.zeros((), jnp.int32))
    (outputs, costs, is_used, num_new), slots = loops.scan(
        write, start, (priced.outputs, priced.costs, priced.values > -jnp.inf)
    )
    return Entered(outputs, costs, is_used, slots, num_new)
