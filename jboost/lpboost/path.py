"""LP-Boost for several values of nu: the columns found for one are kept for the next."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jboost.base import batching, boosting, check, derivatives, meshes, paths
from jboost.base.boosting import Fit, State
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.lpboost.booster import LPBoost, certificate_of, votes_of
from jboost.lpboost.fit import make_booster
from jboost.lpboost.master import Config


@meshes.takes_sharded
@derivatives.without("jboost.lpboost.path")
def path(
    dataset: Dataset,
    learner: Any,
    nus: ArrayLike,
    *,
    key: Array | None = None,
    max_rounds: int = 200,
    tolerance: ArrayLike = 1e-3,
    stop_on: Literal["provable", "all", "seen"] = "provable",
    config: Config | None = None,
) -> Fit:
    """`fit` for several values of nu in turn, in one compiled program. Columns are kept from one to
    the next, and each nu has its own certificate.

    For each nu, the master is first solved over the columns found so far. Certifying a nu close to
    the one before therefore takes few rounds, often a single one. Pass the nus in sorted order.

    Args:
      dataset: of m examples.
      learner: proposes hypotheses.
      nus: [L] in (0, 1].
      key: for learners that draw random numbers.
      max_rounds: the largest number of rounds over the whole path; static. Values of nu for which
        none are left end in ROUND_LIMIT.
      tolerance: [] the gap between the bounds at which to continue with the next nu.
      stop_on: as for `fit`.
      config: as for `fit`.

    Returns:
      A `Fit` with a leading axis [L] on every array; `num_rounds` and `trace` count the rounds of
      each nu alone. All ensembles hold the columns seen so far, with votes of their own.

    Raises:
      ValueError: what `fit` raises.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fits = jboost.lpboost.path(
    ...     dataset, jboost.learners.stumps(), [0.2, 0.4, 0.8], max_rounds=20
    ... )
    >>> (
    ...     bool((fits.certificate.upper_bound - fits.certificate.lower_bound <= 1e-3).all()),
    ...     fits.status.tolist(),
    ... )
    (True, [0, 0, 0])
    """
    nus = check.numbers("nus", nus, low=float(jnp.finfo(jnp.result_type(float)).tiny), high=1)
    booster = make_booster(learner, tolerance=tolerance, stop_on=stop_on, config=config)
    dataset = boosting.check_arguments(learner, dataset, max_rounds)
    return _path(booster, learner, dataset, key, nus, max_rounds=max_rounds)


@functools.partial(jax.jit, static_argnames=("max_rounds",))
def _path(*arguments: Any, max_rounds: int) -> Fit:
    """`_walk`, of a batch one data set after the other."""
    walk = functools.partial(_walk, max_rounds=max_rounds)
    fits: Fit = batching.in_chunks(walk, at_once=1)(*arguments)
    return fits


def _walk(
    booster: LPBoost,
    learner: Any,
    dataset: Dataset,
    key: Array | None,
    nus: Array,
    *,
    max_rounds: int,
) -> Fit:
    """The fits of all nus, each from the columns of the one before."""
    at_first = dataclasses.replace(booster, nu=nus[0])
    first = boosting.begin(at_first, learner, dataset, key=key, max_rounds=max_rounds)
    return paths.walk(first, nus, _reopen, dataset)


def _reopen(state: State, nu: Array) -> State:
    """The state for another nu: the columns are kept, and only they contribute to the bounds."""
    booster = dataclasses.replace(state.booster, nu=nu)
    is_feasible = booster.is_feasible(state.memory.prior)
    reopened, unproven = (
        booster.reopen(state.memory, state.ensemble.count),
        booster.without_proof(state.memory),
    )
    memory = jax.tree.map(lambda new, old: jnp.where(is_feasible, new, old), reopened, unproven)
    return state._replace(
        booster=booster,
        memory=memory,
        example_weights=memory.queried,
        ensemble=state.ensemble._replace(votes=votes_of(memory.proven)),
        certificate=certificate_of(memory.proven),
        status=jnp.where(is_feasible, int(Status.UNFINISHED), int(Status.INFEASIBLE)),
    )
