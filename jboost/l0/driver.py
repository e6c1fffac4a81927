"""Runs the booster of `jboost.l0`: `init`, `fit`, `finish`, and the final vote."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jboost.base import boosting, check, derivatives, devices, labelled, loops, meshes
from jboost.base.boosting import Learner, State
from jboost.base.loops import OnStep
from jboost.base.protocols import optional_hook
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.l0 import relaxation
from jboost.l0.booster import L0, L0Certificate, L0Memory, VoteConfig
from jboost.l0.branch_and_cut.in_play import put_in_play
from jboost.l0.columns import NUM_CONSTANTS
from jboost.l0.relaxation.instance import known_cuts, make_instance, unordered, with_distances
from jboost.l0.strengthen import StrengthenConfig, StrengthenedFit, strengthen_pool
from jboost.l0.types import L0Fit, L0Relaxation, RelaxationConfig
from jboost.l0.votes import local_search, rounded, vertex
from jboost.l0.votes.solution import CoefficientsConfig
from jboost.l0.votes.solution import vote_of as solution_vote
from jboost.l0.votes.vertex import VertexConfig

_CONSTANTS = tuple(range(NUM_CONSTANTS))
# Few rounds of cuts for each round of columns: the relaxation of the next round starts warm.
_DEFAULT_CONFIG = RelaxationConfig(max_rounds=8)
# The largest number of hypotheses in the pool of `strengthen`, by default.
_MAX_IN_PLAY = 128
# The smallest relative difference between the value of a vertex and that of the relaxation, by the
# bytes of a float: rounding allows no less.
_LEAST_TOLERANCE = {4: 3e-4, 8: 1e-8}


def make_booster(
    learner: Any,
    *,
    margin: ArrayLike,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | None = None,
    max_columns: int = 256,
    bound_integer: bool = True,
) -> L0:
    """The booster for a learner and these options. Raises ValueError naming an invalid argument."""
    margin = check.number("margin", margin, low=0, high=1, open_low=True).astype(float)
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    check.count("max_columns", max_columns, low=1)
    settings = check.config(
        "config", _DEFAULT_CONFIG if config is None else config, RelaxationConfig
    )
    check.choice("bound_integer", bound_integer, (True, False))
    return L0(
        margin,
        tolerance,
        constant_cost_of(learner),
        settings,
        validate_search(search),
        max_columns,
        bound_integer,
    )


def validate_search(search: Any) -> VoteConfig:
    """The config of the final vote; `SearchConfig()` for None. Raises ValueError for other
    types.
    """
    return check.config(
        "search",
        search,
        local_search.SearchConfig,
        rounded.RelaxedConfig,
        CoefficientsConfig,
        VertexConfig,
    )


def validate_learner(learner: Any) -> None:
    """Raises ValueError unless the learner has the methods of the pricing problem."""
    missing = [
        name
        for name in ("prices", "price", "least_price")
        if optional_hook(Learner, learner, name) is None
    ]
    if missing:
        raise ValueError(
            f"learner is a {type(learner).__name__} without {', '.join(missing)}: pass one"
            " with these methods, such as jboost.learners.monomials"
        )


def begin_fit(
    dataset: Dataset, learner: Any, *, max_rounds: int, **options: Any
) -> tuple[L0, Dataset]:
    """Validates the arguments of a fit, and returns the booster and the validated data set. Raises
    ValueError naming an invalid argument.
    """
    validate_learner(learner)
    dataset = boosting.check_arguments(learner, dataset, max_rounds)
    boosting.validate_size(dataset)
    booster = make_booster(learner, **options)
    relaxation.validate_features(dataset.features, dataset.mask, booster.config)
    return booster, dataset


def constant_cost_of(learner: Any) -> Array:
    """The `constant_cost` of the learner, or 0 if it has none, []."""
    declared = optional_hook(Learner, learner, "constant_cost")
    cost: Array = check.number(
        "constant_cost", 0.0 if declared is None else declared, low=0, high=check.LARGEST
    )
    return cost.astype(float)


@meshes.takes_gathered
@derivatives.without("init of a booster")
def init(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    **options: Any,
) -> State:
    """The state before the first round, for a custom loop of `step(state, dataset)` that ends with
    `finish(state, dataset)`. Takes the arguments of `fit`.
    """
    booster, dataset = begin_fit(dataset, learner, max_rounds=max_rounds, **options)
    return boosting.begin(booster, learner, dataset, key=key, max_rounds=max_rounds)


step = boosting.step


def reopen(state: State, margin: Array, dataset: Dataset) -> State:
    """The state for another margin: the columns and the warm start are kept, the bounds are not."""
    booster, old = dataclasses.replace(state.booster, margin=margin), state.memory
    memory = booster.begin(
        dataset, old.outputs, old.costs, old.is_used, old.warm, old.best.coefficients
    )
    return state._replace(
        booster=booster,
        memory=memory,
        ensemble=state.ensemble._replace(
            votes=booster.votes(memory.best), constant=booster.constant(memory.best)
        ),
        certificate=booster.certificate(memory),
        status=jnp.full((), int(Status.UNFINISHED), jnp.int32),
    )


def _has_solution(memory: L0Memory) -> Array:
    """Whether (18) was solved over columns that are all still held, [] bool."""
    return jnp.isfinite(memory.relaxation.upper_bound)


def _at_vertex(
    booster: L0, memory: L0Memory, dataset: Dataset, config: VertexConfig
) -> tuple[L0Relaxation, Array]:
    """The solution of the last relaxation at a vertex, and the status of the search for it. Without
    a vertex the solution is unchanged.
    """
    solved = memory.relaxation
    is_used = memory.is_used & ((solved.coefficients > 0) | (solved.selected > 0))
    instance, _ = make_instance(
        memory.outputs.T,
        boosting.signs(dataset),
        memory.costs,
        dataset.weights.astype(memory.outputs.dtype),
        dataset.mask,
        is_used,
        jnp.asarray(booster.margin, memory.outputs.dtype),
        booster.config.cuts == "either",
    )
    features = relaxation.validate_features(dataset.features, dataset.mask, booster.config)
    instance = with_distances(instance, features, booster.config.distance_factor)
    pairs, importance = solved.pairs, solved.pair_weights
    if importance.ndim > 1:  # `AllPairsConfig` without lists of pairs
        pairs, importance = jnp.full((1, 2), -1, jnp.int32), jnp.zeros((1,), importance.dtype)
    known = known_cuts(instance, pairs)
    found = vertex.find(instance, known, importance, config)
    finest = _LEAST_TOLERANCE[solved.upper_bound.dtype.itemsize]
    tolerance = jnp.maximum(booster.tolerance, finest) * jnp.maximum(
        solved.upper_bound, instance.unit
    )
    is_near = found.upper_bound <= solved.upper_bound + tolerance
    # Without a bound of the relaxation, any vertex would count as near.
    is_solved = _has_solution(memory)
    status = jnp.where(
        (found.status == int(Status.OPTIMAL)) & ~is_near, int(Status.PRECISION_LIMIT), found.status
    )
    at_vertex = solved._replace(
        coefficients=found.primal.coefficients,
        selected=found.primal.selected,
        slacks=unordered(instance, found.primal.slacks),
        upper_bound=found.upper_bound,
    )
    is_found = is_solved & (status == int(Status.OPTIMAL))
    return jax.tree.map(lambda new, old: jnp.where(is_found, new, old), at_vertex, solved), status


def _final_vote(
    memory: L0Memory, instance: local_search.VoteInstance, config: VoteConfig
) -> local_search.FeasibleVote:
    """The final vote over the current columns, by the method of the config."""
    if isinstance(config, rounded.RelaxedConfig):
        return rounded.find(instance, memory.warm.primal.coefficients, config=config)
    if isinstance(config, CoefficientsConfig | VertexConfig):
        found = solution_vote(instance, memory.relaxation.coefficients)
        return jax.tree.map(
            lambda new, old: jnp.where(_has_solution(memory), new, old), found, memory.best
        )
    return _sparse_vote(memory, instance, config)


def _sparse_vote(
    memory: L0Memory, instance: local_search.VoteInstance, config: local_search.SearchConfig
) -> local_search.FeasibleVote:
    """The best point of (15) that the local search finds. It starts from the best point so far,
    from the point of the relaxation, from sparse roundings of it and from the best pair.
    """
    primal = memory.warm.primal
    rounded = local_search.evaluate(
        instance, local_search.limited(memory.best.coefficients, config.max_hypotheses, _CONSTANTS)
    )
    whole = jnp.stack(
        [
            memory.best.coefficients,
            primal.coefficients,
            primal.selected,
            local_search.best_pair(instance).coefficients,
        ]
    )
    starts = jnp.concatenate(
        [
            whole,
            local_search.sparse_starts(primal.coefficients),
            local_search.sparse_starts(primal.selected),
        ]
    )

    def search(start: Array) -> local_search.FeasibleVote:
        limited = local_search.limited(start, config.max_hypotheses, _CONSTANTS)
        return local_search.search(
            instance,
            local_search.evaluate_near(instance, limited),
            config=config,
            companions=_CONSTANTS,
        )

    found = lax.map(search, starts)
    return local_search.better(
        rounded, jax.tree.map(lambda leaf: leaf[jnp.argmin(found.loss)], found)
    )


def _with_vote(
    certificate: L0Certificate, best: local_search.FeasibleVote, solution: L0Relaxation
) -> L0Certificate:
    """The certificate with the bounds that the final vote and the solution of (18) attain."""
    upper = certificate.upper_bound
    loss = jnp.where(jnp.isfinite(upper), best.loss, certificate.integer_upper_bound)
    upper = jnp.minimum(upper, solution.upper_bound)
    return certificate._replace(upper_bound=upper, seen_upper_bound=upper, integer_upper_bound=loss)


@meshes.takes_gathered
def finish(state: State, dataset: Dataset, *, search: VoteConfig | None = None) -> L0Fit:
    """The fit of a state: computes the final vote over its columns.

    Args:
      state: from `init`, `step`, or the `on_step` of `fit`.
      dataset: that of the state.
      search: static; the method of the final vote, as for `fit`, so that several votes can share
        the rounds. None for that of the state.

    Raises:
      ValueError: if `search` is not one of the configs that `fit` takes.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, 1, -1, -1] * 3)
    >>> learner = jboost.learners.monomials(1, kappa=0.1)
    >>> state = jboost.l0.init(dataset, learner, margin=0.2, max_rounds=5)
    >>> while state.status == jboost.status.Status.UNFINISHED and state.num_rounds < 5:
    ...     state, info = jboost.l0.step(state, dataset)
    >>> fit = jboost.l0.finish(state, dataset, search=jboost.l0.CoefficientsConfig())
    >>> jboost.predict(fit.ensemble, dataset.features).tolist()
    [1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1]
    """
    dataset = labelled.mask_zeros(dataset)
    if search is not None:
        booster = dataclasses.replace(state.booster, search=validate_search(search))
        state = state._replace(booster=booster)
    return _finish(state, dataset)


@devices.host_jit
def _finish(state: State, dataset: Dataset) -> L0Fit:
    fitted = boosting.finish(state)
    booster, memory = state.booster, state.memory
    instance = booster.instance(dataset, memory.outputs, memory.costs, memory.is_used)
    found = jnp.full((), int(Status.OPTIMAL), jnp.int32)
    if isinstance(booster.search, VertexConfig):
        solution, found = _at_vertex(booster, memory, dataset, booster.search)
        memory = memory._replace(relaxation=solution)
    best = _final_vote(memory, instance, booster.search)
    certificate = _with_vote(fitted.certificate, best, memory.relaxation)
    ensemble = fitted.ensemble._replace(votes=booster.votes(best), constant=booster.constant(best))
    ensemble = boosting.unless_invalid(ensemble, fitted.status)
    used_up = (fitted.status == int(Status.ROUND_LIMIT)) & booster.has_solved(memory)
    status = jnp.where(used_up, int(Status.OPTIMAL), fitted.status)
    if isinstance(booster.search, CoefficientsConfig | VertexConfig):
        found = jnp.where(_has_solution(memory), found, int(Status.UNSOLVED_RELAXATION))
    is_without = (found != int(Status.OPTIMAL)) & (status != int(Status.INVALID_INPUT))
    status = jnp.where(is_without, found, status)
    return L0Fit(
        ensemble,
        certificate,
        fitted.trace,
        fitted.num_rounds,
        memory.relaxation._replace(warm=memory.warm),
        (),
        status.astype(jnp.int32),
    )


@meshes.takes_gathered
@derivatives.without("jboost.l0.fit")
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    margin: ArrayLike,
    tolerance: ArrayLike = 1e-3,
    config: RelaxationConfig | None = None,
    search: VoteConfig | None = None,
    max_columns: int = 256,
    bound_integer: bool = True,
    strengthen: StrengthenConfig | None = None,
    on_step: OnStep | None = None,
    initial: State | None = None,
) -> L0Fit:
    """Fits a sparse ensemble by L0-RBoost (Goldberg and Eckstein 2009, Algorithm 1).

    Minimises sum_i weight_i I(y_i H_i lambda < rho) + sum_u c_u I(lambda_u > 0) over lambda >= 0,
    sum lambda = 1, which is (15). Column generation solves the relaxation (18) with all pair cuts,
    over all hypotheses of the learner. A local search then finds the vote.

    Args:
      dataset: of m examples; `weights` are the costs of misclassifying them.
      learner: a learner with costs and outputs -1, 0 or +1, such as `jboost.learners.monomials`.
        The two constants are further hypotheses, at its `constant_cost`. A custom learner needs
        these methods besides those of `jboost.learners.Learner`: `prices(state)`, an array of
        costs; `price(state, hypothesis)`, [] the cost of one; `least_price(state)`, [] the least
        cost of all. Its `propose` takes `pair_weights=` [m, m] and `costs=prices(state)`. The value
        of a hypothesis h is the sum of w_i y_i h(x_i) over i, plus the sum of v_ii' over all i, i'
        of opposite classes where h is right on i and not wrong on i', less its cost. `propose`
        returns the hypotheses of largest value and an `upper_bound` on all values. The method
        `never_abstains(state)`, [] bool, is optional. A learner may have the method
        `propose_for_pairs(state, example_weights, rewards, costs)`. It is called instead of
        `propose`, with the list of the K pairs that have a dual, a `jboost.monomials.Rewards`, and
        no matrix of all pairs is made. The learners of jboost have it.
      key: for learners that draw random numbers.
      max_rounds: static; the largest number of rounds, each with two pricing problems. A learner
        that proposes many hypotheses at once (`num_proposed`; the command line uses 64) needs far
        fewer rounds than a learner that proposes one.
      margin: [] rho in (0, 1]; Goldberg and Eckstein take 20 / m. With more than 1/2 no vote of
        monomials has examples of both classes right.
      tolerance: [] the gap between the bounds on (18) at which to stop. It is relative to the upper
        bound if that is more than 1. In float32 use at least 3e-4.
      config: static; how the relaxation is solved.
      search: static; the method of the final vote. `SearchConfig()`, the default, is a local search
        that minimises (15). `RelaxedConfig()` approximates the vote of the last relaxation by a
        dozen of its hypotheses. It usually has more hypotheses and fewer errors on new examples.
        Both have `max_hypotheses`, the largest number of hypotheses that vote; the bounds on (15)
        ignore this limit. `CoefficientsConfig()` returns the solution lambda of (18), as Algorithm
        1 does. `VertexConfig()` returns lambda at a vertex of the optimal solutions, with few
        hypotheses; `relaxation` is then this vertex. For both the status is UNSOLVED_RELAXATION if
        there is no solution. If no vertex was found, the vote is that of `CoefficientsConfig()`,
        and the status is ITERATION_LIMIT or CAPACITY_LIMIT by the limits of `VertexConfig`, or
        PRECISION_LIMIT if the value of the vertex exceeds that of the solution by more than the
        tolerance.
      max_columns: static; the largest number of hypotheses held at a time. When there are more, new
        ones overwrite those that are no longer used. The time of a round grows with its square.
      bound_integer: static; whether the rounds continue after (18) is solved, to compute a lower
        bound on (15) as well. It uses the relaxation with the cuts "either" of `RelaxationConfig`,
        because the cuts (17) of Goldberg and Eckstein are not valid for (15) if hypotheses abstain.
      strengthen: static; with a config, Chvatal-Gomory cuts from triples of pair cuts raise the
        lower bound on (15) after the rounds, as `jboost.l0.strengthen` does over a pool: here over
        the hypotheses whose reduced cost is below the gap. For learners with the method `every`.
        None for no such cuts. There are none after `on_step` has ended the rounds.
      on_step: called with (state, info) between rounds, on the host. If it returns False, the loop
        ends with status TIME_LIMIT. Not allowed under jit or vmap. `jboost.checkpoints` provides
        one that saves the state.
      initial: a state to continue from: one that `on_step` received in the same fit, or one from
        `init`; None for a fit from the beginning. The result equals, bit for bit, that of a fit
        with an `on_step` that never stops it. A state that `on_step` received in a fit of other
        features, labels, weights or mask is refused.

    Returns:
      An `L0Fit` with an `L0Certificate`: lower_bound <= optimum of (18), with the cuts of `config`,
      over all hypotheses <= upper_bound, and integer_lower_bound <= optimum of
      (15) <= integer_upper_bound, which the ensemble attains. The status refers to (18): OPTIMAL;
      PRECISION_LIMIT if further rounds find no new column while the gap is open; CAPACITY_LIMIT if
      columns that would close the gap find no free slot (raise `max_columns`), or cuts find none
      (raise `capacity` of `config`). `relaxation` is the last solution of (18): slacks, selected
      and coefficients as Algorithm 1 returns them, the duals, and the cuts.

    Raises:
      ValueError: for an invalid argument, which the message names. A margin outside (0, 1] is
        detected if it is concrete.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 3, [1, -1, -1, -1] * 3)
    >>> fitted = jboost.l0.fit(
    ...     dataset,
    ...     jboost.learners.monomials(2, kappa=0.1),
    ...     margin=0.1,
    ...     max_rounds=10,
    ...     max_columns=32,
    ... )
    >>> jboost.predict(fitted.ensemble, dataset.features).tolist()[:4]
    [1, -1, -1, -1]
    """
    if strengthen is not None:
        check.record("strengthen", strengthen, StrengthenConfig)
        validate_listed(learner)
    booster, dataset = begin_fit(
        dataset,
        learner,
        max_rounds=max_rounds,
        margin=margin,
        tolerance=tolerance,
        config=config,
        search=search,
        max_columns=max_columns,
        bound_integer=bound_integer,
    )
    options: dict[str, Any] = {"key": key, "max_rounds": max_rounds, "finish": finish}
    check.watcher("on_step", on_step)
    watch = None if on_step is None else _RoundsWatcher(on_step)
    fitted: Any = boosting.fit(booster, learner, dataset, on_step=watch, initial=initial, **options)
    if strengthen is None or (watch is not None and watch.is_stopped):
        return fitted
    return _strengthened(booster, fitted, dataset, key, config=strengthen)


class _RoundsWatcher:
    """Calls `on_step`, and stores whether it has ended the rounds."""

    def __init__(self, on_step: OnStep) -> None:
        self.on_step, self.is_stopped = on_step, False

    def __call__(self, state: State, info: Any) -> bool:
        self.is_stopped = not loops.goes_on(self.on_step, state, info)
        return not self.is_stopped


def validate_listed(learner: Any) -> None:
    """Raises ValueError for a learner that cannot list its hypotheses."""
    if optional_hook(Learner, learner, "every") is None:
        raise ValueError(
            f"learner is a {type(learner).__name__}, which cannot list its hypotheses: pass one"
            " with the method `every`, such as jboost.learners.monomials or pool"
        )


@functools.partial(devices.host_jit, static_argnames=("config",))
def _strengthened(
    booster: L0, fitted: L0Fit, dataset: Dataset, key: Array | None, *, config: StrengthenConfig
) -> L0Fit:
    """The fit with the lower bound on (15) that cuts from triples prove."""
    most = _MAX_IN_PLAY if config.max_in_play is None else config.max_in_play
    play = put_in_play(booster, fitted, dataset, key, max_in_play=most)
    found = strengthen_pool(play.data[:-1], play.data.margin, config=config)
    learner, known = fitted.ensemble.learner, fitted.certificate
    prices = jnp.append(learner.prices(learner.init(key, dataset)), booster.constant_cost)
    weights = jnp.where(dataset.mask, dataset.weights, 0)
    proven = local_search.round_up(jnp.minimum(found.lower_bound, play.left_out), weights, prices)
    lower = jnp.minimum(jnp.maximum(known.integer_lower_bound, proven), known.integer_upper_bound)
    is_valid = fitted.status != int(Status.INVALID_INPUT)
    lower = jnp.where(is_valid, lower, known.integer_lower_bound)
    return fitted._replace(
        certificate=known._replace(integer_lower_bound=lower),
        strengthened=StrengthenedFit(
            found, play.hypotheses, play.data.column_mask, play.left_out, play.num_hypotheses
        ),
    )
