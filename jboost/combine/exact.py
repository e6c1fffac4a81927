"""The strategy "exact" of `jboost.combine.fit` by branch and cut, from concrete arrays to a
`LinearVote`.
"""

from __future__ import annotations

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import devices, loops
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array
from jboost.combine import bounds, branch_and_cut, infeasible, results, votes
from jboost.combine.branch_and_cut import ExactInfo, ExactState, Units
from jboost.combine.results import StrategyResult
from jboost.combine.types import LinearVote
from jboost.combine.votes import Arithmetic, ScoredExamples

_MAX_NODES = 1_000_000  # the default of `max_nodes`; a round number, not tuned


@devices.host_jit
def _gather(scores: Array, labels: Array, weights: Array, mask: Array) -> ScoredExamples:
    return votes.gather(scores, labels, weights, mask)


def fit(
    scores: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    directions: Array,
    *,
    end: float | None,
    max_nodes: int | None,
    on_step: OnStep | None,
    initial: ExactState | None,
) -> LinearVote:
    """The vote of least loss of concrete arrays. The arguments are those of `jboost.combine.fit`,
    which validates them, directions [p, d] to start from, and the time of `time.monotonic` at which
    to stop.
    """
    dtype = jnp.result_type(float)
    padded = results.padded(scores, labels, weights, mask)

    def watch(state: ExactState, info: ExactInfo) -> bool:
        return loops.goes_on(on_step, state, info) and (end is None or time.monotonic() < end)

    with jax.enable_x64(True):
        examples = jax.device_get(_gather(*padded))
    missing = padded[0].shape[1] - scores.shape[1]
    starts = np.pad(np.asarray(directions, np.float64), ((0, 0), (0, missing)))
    direction, least, status = starts[0], 0, Status.OPTIMAL
    if examples.valid and examples.faithful:
        most = _MAX_NODES if max_nodes is None else max_nodes
        direction, least, status = _search(examples, starts, most, watch, initial)
    short = Status.PRECISION_LIMIT if status == Status.OPTIMAL else status
    with jax.enable_x64(True):
        return _finish(
            scores, labels, weights, mask, direction, np.int64(least), int(short), dtype=dtype
        )


def _search(
    examples: ScoredExamples,
    starts: np.ndarray,
    max_nodes: int,
    watch: OnStep,
    initial: ExactState | None,
) -> tuple[np.ndarray, int, Status]:
    """The direction of the best vote, the lower bound in integer weights, and the status."""
    live = examples.live
    sites = branch_and_cut.gather_sites(
        examples.columns.T[live], examples.positive[live], examples.integers[live]
    )
    units = Units(examples.unit, examples.rounding)
    state, status = branch_and_cut.search(
        sites, starts, units, max_nodes=max_nodes, on_step=watch, initial=initial
    )
    return state.coefficients, sites.base + branch_and_cut.lower_bound(state), status


@functools.partial(devices.host_jit, static_argnames=("dtype",))
def _finish(
    scores: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    direction: Array,
    least: Array,
    short: Array,
    *,
    dtype: jnp.dtype,
) -> LinearVote:
    """The best vote along a direction [d] at many lengths, or of a classifier alone, with the
    proven bound `least` in integer weights. `short` is the status if its loss is above the bound.
    """

    def run(
        examples: ScoredExamples, arithmetic: Arithmetic, direction: Array, least: Array
    ) -> StrategyResult:
        directions = jnp.stack([direction, _widest(examples, direction)])
        vote = results.best_at_lengths(examples, directions, arithmetic)
        return results.found(vote)._replace(
            least=least, lower_bound=bounds.in_weights(least, examples)
        )

    return results.solve_votes(
        run, scores, labels, weights, mask, direction, least, short=short, dtype=dtype
    )


def _widest(examples: ScoredExamples, direction: Array) -> Array:
    """The direction [d] that has right, by the largest height, the examples that the best vote
    along a direction [d] has right. Heights are relative to the largest coefficient of scaled
    scores.
    """
    wide = Arithmetic("float64")
    vote = votes.vote_along(examples, direction, wide)
    offset = jnp.where(jnp.isinf(vote.offset), jnp.sign(vote.offset), vote.offset)
    coefficients = jnp.where(jnp.isinf(vote.offset), 0.0, vote.coefficients)
    wrong = votes.evaluate(examples, coefficients, offset, wide).wrong
    rows = infeasible.make_rows(examples.columns, examples.live, examples.positive)
    start = jnp.zeros(rows.signed.shape[0], rows.signed.dtype)
    found = infeasible.separate(rows, examples.live & ~wrong, jnp.zeros_like(wrong), start)
    return found.direction[:-1] / rows.unit
