"""`fit` and `init` of LP-Boost, and the booster of their options."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp

from jboost.base import boosting, check, derivatives, devices, meshes
from jboost.base.boosting import Fit, State
from jboost.base.loops import OnStep
from jboost.base.types import Array, ArrayLike, Dataset
from jboost.lp.interior_point import InteriorPointConfig
from jboost.lpboost import master
from jboost.lpboost.booster import LPBoost
from jboost.lpboost.master import Config
from jboost.relaxations.games import SolverConfig


@meshes.takes_sharded
def init(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    **options: Any,
) -> State:
    """The state before the first round, for a loop of your own over `step(state, dataset)`.
    `finish(state)` gives the result. The arguments are those of `fit`.
    """
    return boosting.start(
        make_booster(learner, **options), learner, dataset, key=key, max_rounds=max_rounds
    )


@meshes.takes_sharded
@derivatives.without(
    "jboost.lpboost.fit",
    "differentiate the bounds of jboost.lpboost.solve over the outputs of its hypotheses",
)
def fit(
    dataset: Dataset,
    learner: Any,
    *,
    key: Array | None = None,
    max_rounds: int = 100,
    nu: ArrayLike = 0.1,
    tolerance: ArrayLike = 1e-3,
    stop_on: Literal["provable", "all", "seen"] = "provable",
    config: Config | None = None,
    on_step: OnStep | None = None,
    initial: State | None = None,
    deterministic: bool = False,
) -> Fit:
    """LP-Boost over all hypotheses of a learner, in one compiled loop (Goldberg and Eckstein 2009,
    formulation (3); Demiriz, Bennett, Shawe-Taylor 2002).

    Maximises rho - D sum_i xi_i s.t. y_i H_i lambda + xi_i >= rho, sum lambda = 1, lambda, xi >= 0
    with D = 1 / (nu m). This is the mean of the smallest margins, over a share nu of the examples.
    At the optimum at most a share nu of the examples has a margin below rho, and at least a share
    nu has a margin of rho or less (Raetsch et al. 2000). A nu below 1 / m gives the hard margin.

    Args:
      dataset: of m examples; `weights` count as multiplicities, D_i = p_i / nu with p_i the share
        of an example.
      learner: proposes hypotheses with outputs in [-1, 1]. All its proposals are taken. If it can
        list its hypotheses (`pool`, `literals` and single-literal `monomials`) and their number U
        satisfies U (U + m) <= 2^18, all of them enter in the first round. Votes are not negative:
        the learner decides whether negations count as hypotheses, as in
        `jboost.learners.pool(negations=False)`.
      key: for learners that draw random numbers.
      max_rounds: the largest number of rounds, one proposal each; static.
      nu: [] in (0, 1].
      tolerance: [] the gap between the bounds at which to stop; in float32 not below 1e-5.
      stop_on: the gap that ends the loop: "all" for that over all hypotheses, "seen" for that over
        the columns seen, "provable" for the former if the learner proves a bound and else the
        latter.
      config: static; the method for the restricted master: `jboost.lp.InteriorPointConfig()`, or,
        warm-started from round to round, `SimplexConfig()`, `jboost.lp.FirstOrderConfig()` or
        `jboost.relaxed_margin.SolverConfig()`. None chooses the last of these for examples that are
        sharded over devices. Otherwise it chooses the simplex method for a capacity of up to 2,048
        columns, on a CPU or for learners whose best hypothesis is expensive (monomials of several
        literals), and else the interior point method, which mostly computes large matrix products.
      on_step: called with (state, info) between rounds, on the host; False ends the loop with
        status TIME_LIMIT. Not under jit or vmap. `jboost.checkpoints` has one that saves the state.
      initial: a state from which to continue, as passed to `on_step` of the same fit or made by
        `init`; None for a fit from the start. The result is bitwise that of an uninterrupted fit
        with an `on_step`.
      deterministic: whether the result is the same, bit for bit, on one or several devices of one
        kind, with at least 16 rows on each. Sums over the examples are then exact in 64 bits, for
        any order; see "Equal bits on one or several devices" in the documentation for the limits
        and the cost. For `pool`, `literals` and `stumps` of stored features; static.

    Returns:
      A `Fit` whose certificate holds lower_bound <= optimum of (3) over all
      hypotheses <= upper_bound. The lower bound follows from the votes of the ensemble, and the
      upper bounds follow from `certificate.example_weights`, for any solver of the master. The
      status is PRECISION_LIMIT if a round gives no new column and no better bound.

    Raises:
      ValueError: at trace time, naming the argument; for a concrete nu outside (0, 1]. For a traced
        one the status is INFEASIBLE.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fitted = jboost.lpboost.fit(dataset, jboost.learners.stumps(), nu=0.2)
    >>> (
    ...     bool(fitted.certificate.lower_bound <= 1 / 3 <= fitted.certificate.upper_bound),
    ...     jboost.predict(fitted.ensemble, dataset.features).tolist(),
    ... )
    (True, [1, 1, -1, 1])
    """
    if deterministic:
        config = _config_for_any_devices(config)
    booster = make_booster(learner, nu=nu, tolerance=tolerance, stop_on=stop_on, config=config)
    return boosting.fit(
        booster,
        learner,
        dataset,
        key=key,
        max_rounds=max_rounds,
        on_step=on_step,
        initial=initial,
        deterministic=deterministic,
    )


def _config_for_any_devices(config: Any) -> Any:
    """The method of a deterministic fit. Raises ValueError for one that is not of sums alone."""
    if config is None:
        return master.for_many_devices()
    if not isinstance(config, SolverConfig):
        raise ValueError(
            f"config is {config!r}, and deterministic is True: pass"
            " jboost.relaxed_margin.SolverConfig(), or None"
        )
    return config


def make_booster(
    learner: Any,
    *,
    nu: ArrayLike = 0.1,
    tolerance: ArrayLike = 1e-3,
    stop_on: str = "provable",
    config: Config | None = None,
) -> LPBoost:
    """The booster of these options for a learner. Raises ValueError, naming the argument."""
    nu = check.number("nu", nu, low=float(jnp.finfo(jnp.result_type(float)).tiny), high=1).astype(
        float
    )
    tolerance = check.number("tolerance", tolerance, low=0, open_low=True).astype(float)
    check.choice("stop_on", stop_on, ("provable", "all", "seen"))
    master.validate_config(config)
    suits_pivots = devices.platform() == "cpu" or boosting.has_quick_answers(learner)
    return LPBoost(
        nu,
        tolerance,
        stop_on,
        InteriorPointConfig() if config is None and not suits_pivots else config,
    )
