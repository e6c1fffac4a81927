"""The sparse minimum disagreement problem (15) of Goldberg and Eckstein (2009) over all hypotheses
of a learner, solved to proven optimality by price and branch.

The loss of a point of (15) that uses hypothesis u is at least the bound of the relaxation plus the
reduced cost of u. Hypotheses whose reduced cost is at least the gap are therefore not part of any
better point. Branch and cut over the other hypotheses gives the optimum over all hypotheses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jboost.base import boosting, check, derivatives, devices, loops, meshes
from jboost.base.boosting import Ensemble, State, drivers
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset, require_dataset
from jboost.l0 import driver
from jboost.l0.booster import L0, L0Certificate
from jboost.l0.branch_and_cut import solve as exact
from jboost.l0.branch_and_cut.batches import ExactConfig, ExactState, validate_unlimited
from jboost.l0.branch_and_cut.in_play import Play, put_in_play
from jboost.l0.types import L0Fit
from jboost.l0.votes import local_search


class ExactFit(NamedTuple):
    """The best model found, and the bounds over all hypotheses."""

    ensemble: Ensemble
    certificate: L0Certificate  # integer_lower_bound is over all hypotheses
    columns: L0Fit  # of `jboost.l0.fit`, before the branch and cut
    num_hypotheses: Array  # [] int32 hypotheses whose reduced cost is below the gap
    num_nodes: Array  # [] int32 of the branch and cut
    status: Array  # [] int32


class ExactFitState(NamedTuple):
    """The state between two rounds of columns, or between two batches of nodes."""

    rounds: State | None  # of `jboost.l0.fit`
    search: ExactState | None  # None before the branch and cut


@meshes.takes_gathered
@derivatives.without("jboost.l0.fit_exact")
def fit_exact(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    max_columns: int = 256,
    max_in_play: int = 128,
    exact_tolerance: ArrayLike = 1e-4,
    exact_config: ExactConfig | None = None,
    on_step: OnStep | None = None,
    initial: ExactFitState | None = None,
    **options: Any,
) -> ExactFit:
    """Solves (15) of Goldberg and Eckstein (2009) exactly, over all hypotheses of a learner.

    The objective is the sum of errors and costs. The method is `fit`, then the exclusion of
    hypotheses by their reduced costs, then branch and cut. It suits some hundred examples, and
    learners that can list their hypotheses: monomials of low order, and pools.

    Args:
      dataset: as for `jboost.l0.fit`.
      learner: with costs, as for `fit`, and with the method `every`.
      key: as for `fit`.
      max_rounds: of `fit`; static.
      max_columns: of `fit`; static.
      max_in_play: static; the largest number of hypotheses in the branch and cut. The time of a
        node grows with its square.
      exact_tolerance: [] the gap on (15) at which the model counts as optimal. It is relative to
        the loss if that is above 1.
      exact_config: static sizes of the branch and cut.
      on_step: called on the host with (state, info) after each round of columns, as by `fit`, and
        after each batch of nodes, as by `solve_exact`. The state is an `ExactFitState`. If it
        returns False, the fit ends. Not allowed under jit or vmap.
      initial: a state to continue from, which `on_step` received; None for a fit from the
        beginning. The result equals, bit for bit, that of a fit with an `on_step` that never stops
        it. A state of other features, labels, weights or mask is refused.
      **options: options of `fit`. The `max_hypotheses` of `search` must be None, because the
        optimum is over any number of hypotheses.

    Returns:
      An `ExactFit`. The status OPTIMAL means that no model of this kind has a smaller loss.
      CAPACITY_LIMIT means that more than `max_in_play` hypotheses have a reduced cost below the gap
      (raise `max_in_play`). Other statuses are those of `jboost.l0.solve_exact`. The bounds are
      over all hypotheses, for every status.

    Raises:
      ValueError: as for `fit`, for a learner that cannot list its hypotheses, and for a `search`
        with `max_hypotheses`.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, 1, -1, -1] * 3)
    >>> found = jboost.l0.fit_exact(
    ...     dataset,
    ...     jboost.learners.monomials(2, kappa=0.1),
    ...     margin=0.1,
    ...     max_rounds=10,
    ...     max_columns=32,
    ...     max_in_play=32,
    ... )
    >>> (
    ...     round(float(found.certificate.integer_lower_bound), 3),
    ...     jboost.status.Status(int(found.status)).name,
    ... )
    (0.937, 'OPTIMAL')
    """
    driver.validate_listed(learner)
    require_dataset(dataset)
    settings = check.config("exact_config", exact_config, ExactConfig)
    check.count("max_in_play", max_in_play, low=1)
    tolerance = exact.validate_tolerance(
        "exact_tolerance", exact_tolerance, dataset.mask.shape[-1] + max_in_play + 2
    )
    options = {**options, "max_columns": max_columns}
    validate_unlimited("search", driver.validate_search(options.get("search")))
    of_booster = {name: given for name, given in options.items() if name != "strengthen"}
    rounds, dataset = driver.begin_fit(dataset, learner, max_rounds=max_rounds, **of_booster)
    done, search = _validate_initial(initial)
    watcher = None if on_step is None else _ExactFitWatcher(on_step, done)
    arrays = (rounds, learner, dataset, key, tolerance)
    # with `strengthen` the later programs take the cuts too
    runs_through = on_step is None and initial is None and options.get("strengthen") is None
    if runs_through and devices.are_uncommitted(arrays):
        _compile(*arrays, max_rounds=max_rounds, max_in_play=max_in_play, config=settings)
    fitted = driver.fit(
        dataset, learner, key=key, max_rounds=max_rounds, on_step=watcher, initial=done, **options
    )
    play = put_in_play(rounds, fitted, dataset, key, max_in_play=max_in_play)
    if watcher is not None and not watcher.goes_on:
        return _without_search(fitted, play)
    known = fitted.certificate.integer_upper_bound
    watch = None if watcher is None else watcher.watch_search
    found = exact.search_pool(
        play.data, tolerance, known, config=settings, on_step=watch, initial=search
    )
    return _conclude(fitted, play, found, tolerance)


def _compile(
    rounds: L0,
    learner: Any,
    dataset: Dataset,
    key: Array | None,
    tolerance: Array,
    *,
    max_rounds: int,
    max_in_play: int,
    config: ExactConfig,
) -> None:
    """Compiles the programs of a fit side by side. Each is lowered for the shapes of the results of
    those before it.
    """
    fit = drivers.lower(
        rounds, learner, dataset, key=key, max_rounds=max_rounds, finish=driver.finish
    )
    fitted = fit.out_info
    into_play = put_in_play.lower(rounds, fitted, dataset, key, max_in_play=max_in_play)
    play = into_play.out_info
    search = exact.lower_search(
        play.data, tolerance, fitted.certificate.integer_upper_bound, config=config
    )
    end = _conclude.lower(fitted, play, search.out_info, tolerance)
    devices.compile_side_by_side(fit, into_play, search, end)


def _validate_initial(initial: Any) -> tuple[State | None, ExactState | None]:
    """The state of the rounds and that of the search, None for those that have not begun. Raises
    ValueError unless `initial` is an `ExactFitState` or None.
    """
    if initial is not None and not isinstance(initial, ExactFitState):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.l0.ExactFitState that"
            " `on_step` received"
        )
    return (None, None) if initial is None else initial


class _ExactFitWatcher:
    """Calls `on_step`, and stores its last result and the last state of the rounds.

    The fit needs both after the rounds have ended.
    """

    def __init__(self, on_step: OnStep, rounds: State | None) -> None:
        self.on_step, self.goes_on, self.rounds = on_step, True, rounds

    def __call__(self, state: State, info: Any) -> bool:
        self.rounds = state
        self.goes_on = loops.goes_on(self.on_step, ExactFitState(state, None), info)
        return self.goes_on

    def watch_search(self, state: ExactState, info: Any) -> bool:
        """Calls `on_step` after a batch of nodes."""
        return loops.goes_on(self.on_step, ExactFitState(self.rounds, state), info)


def _without_search(fitted: L0Fit, play: Play) -> ExactFit:
    """The result if `on_step` ends the fit before the branch and cut."""
    status = jnp.where(
        fitted.status == int(Status.INVALID_INPUT), fitted.status, int(Status.TIME_LIMIT)
    ).astype(jnp.int32)
    return ExactFit(
        fitted.ensemble,
        fitted.certificate,
        fitted,
        play.num_hypotheses,
        jnp.zeros((), jnp.int32),
        status,
    )


@devices.host_jit
def _conclude(fitted: L0Fit, play: Play, found: exact.Exact, tolerance: Array) -> ExactFit:
    """Returns the better of both models, and the bounds over all hypotheses."""
    known = fitted.certificate
    upper = known.integer_upper_bound
    is_new = found.loss < upper
    own = jnp.where(is_new, found.coefficients[2:], 0.0)
    constant = found.coefficients[0] - found.coefficients[1]
    fresh = Ensemble(
        fitted.ensemble.learner,
        play.hypotheses,
        jnp.stack([own, own], axis=1),
        constant,
        play.count,
    )
    size = max(fresh.votes.shape[0], fitted.ensemble.votes.shape[0])
    ensemble = jax.tree.map(
        lambda new, old: jnp.where(is_new, new, old),
        _with_slots(fresh, size),
        _with_slots(fitted.ensemble, size),
    )
    upper = jnp.where(is_new, found.loss, upper)
    lower = jnp.minimum(
        jnp.maximum(known.integer_lower_bound, jnp.minimum(found.lower_bound, play.left_out)), upper
    )
    is_closed = local_search.have_met(lower, upper, tolerance)
    missed = jnp.where(play.left_out < upper, int(Status.CAPACITY_LIMIT), found.status)
    status = jnp.where(is_closed, int(Status.OPTIMAL), missed)
    status = jnp.where(fitted.status == int(Status.INVALID_INPUT), fitted.status, status).astype(
        jnp.int32
    )
    certificate = known._replace(integer_lower_bound=lower, integer_upper_bound=upper)
    return ExactFit(
        boosting.unless_invalid(ensemble, status),
        certificate,
        fitted,
        play.num_hypotheses,
        found.num_nodes,
        status,
    )


def _with_slots(ensemble: Ensemble, size: int) -> Ensemble:
    """The ensemble with `size` slots, the last of them empty."""
    hypotheses = jax.tree.map(lambda leaf: _padded(leaf, size), ensemble.hypotheses)
    return ensemble._replace(hypotheses=hypotheses, votes=_padded(ensemble.votes, size))


def _padded(leaf: Array, size: int) -> Array:
    return jnp.pad(leaf, [(0, size - leaf.shape[0])] + [(0, 0)] * (leaf.ndim - 1))
