"""Every public algorithm stands inside a program of the caller's: under `jit`, `grad` and `scan` at
once.
"""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.algorithms import algorithms
from programs import PROGRAMS

ALGORITHMS = algorithms()

DIFFERENTIABLE = ("lp.solve", "lpboost.solve", "relaxed_margin.solve", "projections")
WITHOUT = (
    "coefficients",
    "example_weights",
    "warm",
    "history",
    "primal_residual",
    "dual_residual",
    "duality_gap",
)


def _total(tree):
    """The sum of all floats but those of fields that some solver has no derivative of."""
    named = jax.tree_util.tree_leaves_with_path(tree)
    leaves = [
        leaf
        for path, leaf in named
        if not set(jax.tree_util.keystr(path).split(".")) & set(WITHOUT)
    ]
    return sum(
        jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    )


def _lower_scan(step, problem):
    """Two problems in a scan of the caller's jit, traced and lowered; nothing is compiled."""
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), jax.tree.map(jnp.asarray, problem))
    return jax.jit(
        lambda problems: jax.lax.scan(lambda _, one: (0, step(*one)), 0, problems)
    ).lower(twice)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_stands_under_the_callers_jit_and_scan_and_grad(name):
    run, problem = PROGRAMS[name]

    def derivative(data, labels, weights, mask):
        return jax.grad(
            lambda data, weights: _total(run(data, labels, weights, mask)), argnums=(0, 1)
        )(data, weights)

    if name.startswith(DIFFERENTIABLE):
        _lower_scan(derivative, problem)
    else:
        _lower_scan(run, problem)
        with pytest.raises(TypeError, match="has no derivative"):
            _lower_scan(derivative, problem)


@pytest.mark.parametrize(
    "name",
    [
        "pair.least_distance_separator",
        "pair.least_squared_distance_separator",
        "combine.best_single",
        "combine.stacking",
        "combine.random_pairing",
        "projections.bregman_projection",
        "projections.projection_capped_simplex",
        "projections.projection_simplex",
        "projections.projection_l1_ball",
        "relaxed_margin.solve_smoothed",
        "slipper.choose_rounds",
        "monomials.greedy",
        "l0.strengthen",
        "kernels.disagreement",
        "kernels.weighted_disagreement",
    ],
)
def test_others_stand_under_the_callers_jit_and_scan(name):
    algorithm = ALGORITHMS[name]
    assert algorithm.traceable
    _lower_scan(algorithm.run, algorithm.arrays)
