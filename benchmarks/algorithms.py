"""Every public algorithm with small inputs: what `benchmarks.compilation` measures, and what the
budget of StableHLO operations counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jboost
from jboost import l0, learners, lp, lpboost, pair, projections, relaxations, relaxed_margin

NUM_EXAMPLES = 200
_KAPPA, _MARGIN, _NU = 0.5, 0.2, 0.3


class Algorithm(NamedTuple):
    """One public function, ready to be called."""

    run: Callable[..., Any]
    """Arrays -> the result."""
    arrays: tuple[Any, ...]
    """Small inputs, NumPy arrays and pytrees of them."""
    traceable: bool = True
    """Whether it may stand under the caller's `jit` and `vmap`; the host drives the others."""


def options(module: str, text: str) -> argparse.ArgumentParser:
    """The options of a benchmark of all algorithms; `is_asked` reads `--only`."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{module}", description=text.split(": `python")[0] + "."
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="algorithms whose names hold this text; may be given again",
    )
    return parser


def is_asked(name: str, given: argparse.Namespace) -> bool:
    """Whether an algorithm is among those that `--only` names; all are without it."""
    return not given.only or any(text in name for text in given.only)


class _Inputs(NamedTuple):
    """What the algorithms are run on; labels follow the inputs but for some noise."""

    labels: np.ndarray  # [m] -1 or +1
    bits: np.ndarray  # [m, 10] of 0 and 1
    numbers: np.ndarray  # [m, 5]
    points: np.ndarray  # [m, 3] integers: scores of three classifiers
    outputs: np.ndarray  # [m, 20] of -1 and +1: the bits and their negations
    weights: np.ndarray  # [m] ones


def _make_inputs(num_examples: int, seed: int) -> _Inputs:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (num_examples, 10)).astype(np.float32)
    labels = np.where((bits[:, 0] + bits[:, 1] > 0) ^ (rng.random(num_examples) < 0.1), 1, -1)
    numbers = (rng.normal(size=(num_examples, 5)) + 0.5 * labels[:, None]).astype(np.float32)
    points = np.round(rng.normal(size=(num_examples, 3)) * 40 + labels[:, None] * 20).astype(
        np.float32
    )
    outputs = np.concatenate([2 * bits - 1, 1 - 2 * bits], axis=1)
    return _Inputs(labels, bits, numbers, points, outputs, np.ones(num_examples, np.float32))


def _make_program(seed: int) -> lp.LinearProgram:
    """60 rows and 40 columns, bounded and feasible."""
    rng = np.random.default_rng(seed)
    rows, bounds, objective = rng.normal(size=(60, 40)), rng.uniform(1, 2, 60), rng.normal(size=40)
    return lp.make_program(objective, rows, row_upper=bounds, lower=np.zeros(40), upper=np.ones(40))


def algorithms(num_examples: int = NUM_EXAMPLES, *, seed: int = 0) -> dict[str, Algorithm]:
    """All public algorithms by name, on the same small inputs; those of another seed have the same
    shapes.
    """
    inputs = _make_inputs(num_examples, seed)
    return {
        **_pairs(inputs),
        **_combinations(inputs),
        **_margins(inputs),
        **_boosters(inputs),
        **_linear_programs(seed),
        **_few_rules(inputs),
        **_weighted_examples(inputs),
    }


_SMALL = (569, 30)  # as many rows and columns as the data set of scikit-learn on breast cancer


def small_fits(*, seed: int = 0) -> dict[str, Algorithm]:
    """Fits of stumps to a small table, in one program and driven by the host: an accelerator beside
    its machine's CPU.
    """
    rng = np.random.default_rng(seed)
    num_rows, num_columns = _SMALL
    labels = np.where(rng.random(num_rows) < 0.37, 1, -1)
    features = (
        rng.normal(size=_SMALL) + rng.uniform(0, 0.8, num_columns) * labels[:, None]
    ).astype(np.float32)
    fits: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "adaboost.fit": (jboost.adaboost.fit, {"max_rounds": 100}),
        "relaxed_margin.fit": (
            relaxed_margin.fit,
            {"relaxation": relaxations.soft_margin(nu=0.1), "tolerance": 0.01},
        ),
        "lpboost.fit": (lpboost.fit, {"nu": 0.1}),
    }

    def algorithm(name: str, **watched: Any) -> Algorithm:
        fit, options = fits[name]

        def run(features: Any, labels: Any) -> Any:
            return fit(
                jboost.make_dataset(features, labels), learners.stumps(), **options, **watched
            )

        return Algorithm(run, (features, labels), traceable=not watched)

    rows = f"{num_rows} x {num_columns}"
    whole = {f"{name}, {rows}": algorithm(name) for name in fits}
    return whole | {
        f"lpboost.fit, {rows}, driven by the host": algorithm(
            "lpboost.fit", on_step=lambda state, info: True
        )
    }


def _pairs(inputs: _Inputs) -> dict[str, Algorithm]:
    two, three = inputs.points[:, :2], inputs.points[:30]
    labels, narrow = inputs.labels, pair.SweepConfig(word_bits=32)  # what a TPU takes by itself

    def by(solve: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        return lambda points, labels: solve(points, labels, **options)

    return {
        "pair.optimal_separator, sweep": Algorithm(
            by(pair.optimal_separator, method="sweep"), (two, labels)
        ),
        "pair.optimal_separator, branch and bound": Algorithm(
            by(pair.optimal_separator, method="branch_and_bound"), (two, labels), False
        ),
        "pair.optimal_separator, three classifiers": Algorithm(
            by(pair.optimal_separator), (three, labels[:30])
        ),
        "pair.leave_one_out": Algorithm(by(pair.leave_one_out, method="sweep"), (two, labels)),
        "pair.leave_one_out, branch and bound": Algorithm(
            by(pair.leave_one_out, method="branch_and_bound"), (two, labels), False
        ),
        "pair.pareto_front": Algorithm(
            by(pair.pareto_front, max_points=16, method="sweep"), (two, labels)
        ),
        "pair.pareto_front, branch and bound": Algorithm(
            by(pair.pareto_front, max_points=16, method="branch_and_bound"), (two, labels), False
        ),
        "pair.optimal_separator, 32-bit words": Algorithm(
            by(pair.optimal_separator, method="sweep", config=narrow), (two, labels)
        ),
        "pair.leave_one_out, 32-bit words": Algorithm(
            by(pair.leave_one_out, method="sweep", config=narrow), (two, labels)
        ),
        "pair.pareto_front, 32-bit words": Algorithm(
            by(pair.pareto_front, max_points=16, method="sweep", config=narrow), (two, labels)
        ),
        "pair.least_distance_separator": Algorithm(
            by(pair.least_distance_separator), (two, labels)
        ),
        "pair.least_squared_distance_separator": Algorithm(
            by(pair.least_squared_distance_separator), (two, labels)
        ),
    }


def _combinations(inputs: _Inputs) -> dict[str, Algorithm]:
    scores = np.concatenate([inputs.points, np.round(inputs.numbers[:, :1] * 20)], axis=1)

    def fit(strategy: str) -> Algorithm:
        return Algorithm(
            lambda scores, labels: jboost.combine.fit(scores, labels, strategy=strategy),
            (scores, inputs.labels),
        )

    def baseline(choose: Callable[..., Any]) -> Algorithm:
        return Algorithm(lambda scores, labels: choose(scores, labels), (scores, inputs.labels))

    fits = {
        f"combine.fit, {strategy}": fit(strategy)
        for strategy in ("greedy", "hierarchical", "coordinate")
    }
    return fits | {
        "combine.best_single": baseline(jboost.combine.best_single),
        "combine.stacking": baseline(jboost.combine.stacking),
        "combine.random_pairing": baseline(
            lambda *arrays: jboost.combine.random_pairing(*arrays, key=jax.random.key(0))
        ),
    }


def _margins(inputs: _Inputs) -> dict[str, Algorithm]:
    margins = inputs.labels[:, None] * inputs.outputs

    def solve(relaxation: Any) -> Algorithm:
        return Algorithm(
            lambda margins: relaxed_margin.solve(margins, relaxation, tolerance=1e-3), (margins,)
        )

    def project(project: Callable[..., Any], **options: Any) -> Algorithm:
        return Algorithm(lambda values: project(values, 0.05, **options), (inputs.numbers[:, 0],))

    return {
        "projections.kl_projection_capped_simplex, sort": project(
            projections.kl_projection_capped_simplex
        ),
        "projections.kl_projection_capped_simplex, newton": project(
            projections.kl_projection_capped_simplex, method="newton"
        ),
        "projections.bregman_projection": Algorithm(
            lambda values: projections.bregman_projection(values, projections.power_map(3.0), 0.05),
            (inputs.numbers[:, 0],),
        ),
        "projections.projection_capped_simplex": project(projections.projection_capped_simplex),
        "projections.projection_simplex": Algorithm(
            projections.projection_simplex, (inputs.numbers[:, 0],)
        ),
        "projections.projection_l1_ball": Algorithm(
            projections.projection_l1_ball, (inputs.numbers[:, 0],)
        ),
        "relaxed_margin.solve": solve(relaxations.soft_margin(nu=_NU)),
        "relaxed_margin.solve, norm penalty": solve(relaxations.norm_penalty(2, 0.5)),
        "relaxed_margin.solve, norm of order 3": solve(relaxations.norm_ball(3, 0.5)),
        "relaxed_margin.solve, binary entropy": solve(relaxations.binary_entropy(0.3, 1.0)),
        "relaxed_margin.solve_smoothed": Algorithm(
            lambda margins: relaxed_margin.solve_smoothed(
                margins, relaxations.soft_margin(nu=_NU), smoothing=0.1
            ),
            (margins,),
        ),
        "lpboost.solve": Algorithm(lambda margins: lpboost.solve(margins, nu=_NU), (margins,)),
        "lpboost.solve, interior point": Algorithm(
            lambda margins: lpboost.solve(margins, nu=_NU, config=lp.InteriorPointConfig()),
            (margins,),
        ),
    }


def _boosters(inputs: _Inputs) -> dict[str, Algorithm]:
    stumps, literals = learners.stumps(), learners.literals()

    def fit(
        fit: Callable[..., Any],
        learner: Any,
        features: np.ndarray,
        traceable: bool = True,
        **options: Any,
    ) -> Algorithm:
        return Algorithm(
            lambda features, labels: fit(jboost.make_dataset(features, labels), learner, **options),
            (features, inputs.labels),
            traceable,
        )

    key = jax.random.key(0)
    soft = relaxations.soft_margin(nu=0.2)
    return {
        "adaboost.fit": fit(jboost.adaboost.fit, stumps, inputs.numbers, max_rounds=20),
        "infoboost.fit": fit(jboost.infoboost.fit, literals, inputs.bits, max_rounds=20),
        "relaxed_margin.fit": fit(
            relaxed_margin.fit, stumps, inputs.numbers, relaxation=soft, tolerance=0.01
        ),
        "lpboost.fit": fit(lpboost.fit, stumps, inputs.numbers, nu=_NU),
        "lpboost.path": fit(lpboost.path, stumps, inputs.numbers, nus=jnp.array([0.2, 0.4, 0.8])),
        "slipper.fit": fit(
            jboost.slipper.fit, None, inputs.bits, key=key, num_rounds=10, max_rounds=10
        ),
        "slipper.choose_rounds": fit(
            jboost.slipper.choose_rounds, None, inputs.bits, key=key, max_rounds=10
        ),
        "combine.pairwise.fit": fit(
            jboost.combine.pairwise.fit, stumps, inputs.numbers, max_rounds=5
        ),
    }


def _linear_programs(seed: int) -> dict[str, Algorithm]:
    program = _make_program(seed)

    def solve(config: Any) -> Algorithm:
        return Algorithm(lambda program: lp.solve(program, config=config), (program,))

    return {
        "lp.solve, interior point": solve(lp.InteriorPointConfig()),
        "lp.solve, first order": solve(lp.FirstOrderConfig()),
    }


def _few_rules(inputs: _Inputs) -> dict[str, Algorithm]:
    labels, bits, outputs = inputs.labels, inputs.bits, inputs.outputs
    learner, costs = learners.monomials(2, kappa=_KAPPA), np.full(outputs.shape[1], 0.3, np.float32)

    def of_pool(
        solve: Callable[..., Any], size: int, traceable: bool = True, **options: Any
    ) -> Algorithm:
        arrays = (outputs[:size], labels[:size])
        return Algorithm(
            lambda outputs, labels: solve(outputs, labels, costs, **options), arrays, traceable
        )

    def of_data(
        fit: Callable[..., Any], size: int, traceable: bool = True, **options: Any
    ) -> Algorithm:
        arrays = (bits[:size], labels[:size])
        return Algorithm(
            lambda bits, labels: fit(jboost.make_dataset(bits, labels), **options),
            arrays,
            traceable,
        )

    def search(features: Any, labels: Any, weights: Any) -> Any:
        return jboost.monomials.maximum_agreement(features, labels, weights, max_order=3)

    def search_greedily(features: Any, labels: Any, weights: Any) -> Any:
        return jboost.monomials.greedy(features, labels, weights, max_order=3)

    def make_learner(kappa: Any) -> Any:
        return learners.monomials(1, kappa=kappa)

    few = len(labels) // 4
    folds = {
        "kappas": np.array([0.25, 1.0], np.float32),
        "key": jax.random.key(0),
        "num_folds": 2,
        "max_rounds": 10,
    }
    margins = np.array([0.1, 0.2], np.float32)
    return {
        "monomials.maximum_agreement": Algorithm(search, (bits, labels, inputs.weights)),
        "monomials.greedy": Algorithm(search_greedily, (bits, labels, inputs.weights)),
        "l0.solve_relaxation": of_pool(l0.solve_relaxation, len(labels), margin=_MARGIN),
        "l0.fit": of_data(l0.fit, len(labels), learner=learner, margin=_MARGIN, max_rounds=20),
        "l0.path": of_data(l0.path, len(labels), learner=learner, margins=margins, max_rounds=20),
        "l0.choose": of_data(
            l0.choose, few, traceable=False, make_learner=make_learner, margins=margins, **folds
        ),
        "l0.search_margin": of_data(
            l0.search_margin, few, traceable=False, learner=learner, penalty=2.0, max_rounds=20
        ),
        "l0.solve_exact": of_pool(
            l0.solve_exact, few, margin=_MARGIN, config=l0.ExactConfig(max_batches=10)
        ),
        "l0.solve_exact_unnormalised": of_pool(
            l0.solve_exact_unnormalised,
            few,
            largest=4.0,
            config=l0.ExactConfig(max_batches=10),
        ),
        "l0.fit_exact": of_data(
            l0.fit_exact, few, traceable=False, learner=learner, margin=_MARGIN, max_rounds=20
        ),
        "l0.fit_large": of_data(
            l0.fit_large,
            len(labels),
            traceable=False,
            learner=learner,
            margin=_MARGIN,
            max_rounds=20,
        ),
        "l0.choose_large": of_data(
            l0.choose_large,
            few,
            traceable=False,
            make_learner=lambda order, kappa: learners.monomials(order, kappa=kappa),
            max_orders=(1, 2),
            max_rules=(2, 4),
            margins=margins,
            **folds,
        ),
        "l0.strengthen": of_pool(l0.strengthen, few, margin=_MARGIN),
        "l0.solve_linear_margin": of_pool(l0.solve_linear_margin, few, penalty=0.05),
        "l0.solve_unnormalised": of_pool(l0.solve_unnormalised, few, largest=4.0),
    }


def _weighted_examples(inputs: _Inputs) -> dict[str, Algorithm]:
    points, labels = inputs.numbers[:, :2], inputs.labels

    def fit(fit: Callable[..., Any], traceable: bool = True, **options: Any) -> Algorithm:
        return Algorithm(
            lambda points, labels: fit(points, labels, **options), (points, labels), traceable
        )

    def weighted_disagreement(points: Any, weights: Any) -> Any:
        return jboost.kernels.weighted_disagreement(
            jboost.kernels.hyperplanes(4.0), points, points, weights
        )

    penalties = np.array([0.05, 0.2], np.float32)
    return {
        "kernels.disagreement": Algorithm(
            lambda points: jboost.kernels.disagreement(points, points, 4.0), (points,)
        ),
        "kernels.weighted_disagreement": Algorithm(weighted_disagreement, (points, inputs.weights)),
        "example_weights.fit": fit(jboost.example_weights.fit, penalty=0.1, radius=4.0),
        "example_weights.fit_large": fit(
            jboost.example_weights.fit_large, False, penalty=0.1, radius=4.0
        ),
        "example_weights.choose_penalty": fit(
            jboost.example_weights.choose_penalty,
            False,
            penalties=penalties,
            key=jax.random.key(0),
            num_folds=2,
            radius=4.0,
        ),
    }
