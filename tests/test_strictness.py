"""Every public algorithm under the strict settings of JAX: promotion of types, leaked tracers, NaN,
rematerialisation, donated buffers.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from benchmarks.algorithms import algorithms
from jboost import layers, learners, losses, relaxations
from marks import slow_but
from programs import PROGRAMS

QUICK = ("lpboost.solve", "adaboost.fit", "lp.solve")
BESIDES = (  # those of the contract tables
    "pair.least_distance_separator",
    "pair.least_squared_distance_separator",
    "combine.best_single",
    "projections.kl_projection_capped_simplex, newton",
    "projections.bregman_projection",
    "projections.projection_capped_simplex",
    "projections.projection_simplex",
    "projections.projection_l1_ball",
    "relaxed_margin.solve, norm of order 3",
    "relaxed_margin.solve_smoothed",
    "slipper.choose_rounds",
    "monomials.greedy",
    "kernels.disagreement",
    "kernels.weighted_disagreement",
)
OTHERS = {name: it for name, it in algorithms(24).items() if name in BESIDES}
NAMES = (*PROGRAMS, *BESIDES)


def program(name):
    """The program, and its arrays: floats, masks, and what is no array."""
    if name in PROGRAMS:
        run, problem = PROGRAMS[name]
        return run, [
            jnp.asarray(part, bool if np.asarray(part).dtype == bool else float) for part in problem
        ]
    run, arrays, _ = OTHERS[name]
    return run, jax.tree.map(jnp.asarray, list(arrays))


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_no_type_is_promoted_in_silence(name):
    run, arrays = program(name)
    with jax.numpy_dtype_promotion("strict"):
        jax.make_jaxpr(run)(*arrays)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_tracer_leaks(name):
    run, arrays = program(name)
    with jax.check_tracer_leaks(True):
        jax.make_jaxpr(run)(*arrays)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_programs_stand_under_checkpoint(name):
    run, arrays = program(name)
    plain, again = (jax.eval_shape(function, *arrays) for function in (run, jax.checkpoint(run)))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), plain) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), again
    )


@pytest.mark.parametrize("name", slow_but(NAMES, "adaboost.fit"))
def test_no_nan_on_the_way(name):
    """Neither in the results nor in an operation outside of compiled programs, of which JAX looks
    at every one.
    """
    run, arrays = program(name)
    with jax.debug_nans(True):
        jax.block_until_ready(run(*arrays))


RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=(12, 3)).astype(np.float32)
LABELS = np.where(FEATURES[:, 0] + 0.3 * RANDOM.normal(size=12) > 0, 1, -1)
BOOSTERS = {
    "adaboost": (jboost.adaboost, learners.stumps(), FEATURES, {}),
    "infoboost": (jboost.infoboost, learners.stumps(), FEATURES, {}),
    "lpboost": (jboost.lpboost, learners.stumps(), FEATURES, {}),
    "relaxed_margin": (jboost.relaxed_margin, learners.stumps(), FEATURES, {}),
    "slipper": (jboost.slipper, None, FEATURES > 0, {"key": jax.random.key(0)}),
    "l0": (jboost.l0, learners.monomials(1, kappa=0.5), FEATURES > 0, {"margin": 0.2}),
}


@pytest.mark.parametrize("name", slow_but(BOOSTERS, "adaboost"))
def test_states_of_boosters_may_be_donated(name):
    package, learner, features, options = BOOSTERS[name]
    dataset = jboost.make_dataset(features.astype(np.float32), LABELS)
    state = package.init(dataset, learner, max_rounds=4, **options)
    expected, _ = package.step(state, dataset)
    places = [
        leaf.unsafe_buffer_pointer()
        for leaf in jax.tree.leaves(state)
        if leaf.size and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]
    assert len(set(places)) == len(places)
    found, _ = jax.jit(package.step, donate_argnums=0)(state, dataset)
    assert found.status == expected.status
    np.testing.assert_allclose(
        found.certificate.upper_bound, expected.certificate.upper_bound, rtol=1e-5
    )
    found, _ = jax.jit(package.step, donate_argnums=0)(found, dataset)  # the data are still there


TRAINING = {
    "worst_case": lambda x: losses.worst_case(x[:, 0], relaxations.chi_square_ball(0.3)),
    "cvar": lambda x: losses.cvar(x[:, 0], 0.4, smoothing=0.1),
    "group_dro": lambda x: losses.group_dro(
        x[:, 0], jnp.asarray(LABELS > 0, jnp.int8), 3, relaxations.kl_ball(0.2)
    ),
    "soft_margin_loss": lambda x: losses.soft_margin_loss(
        x, jnp.asarray(LABELS > 0, jnp.int32), nu=0.5, margins=losses.one_vs_rest_margins
    ),
    "margin_head": lambda x: jnp.sum(
        HEAD.apply(HEAD.init(3), jnp.tanh(x), jnp.asarray(LABELS))[0] ** 2
    ),
}
HEAD = layers.margin_head(nu=0.5)


@pytest.mark.parametrize("name", slow_but(TRAINING, "cvar"))
def test_losses_and_heads_are_differentiated_under_strict_settings(name):
    run = jax.value_and_grad(TRAINING[name])
    features = jnp.asarray(FEATURES)
    with jax.numpy_dtype_promotion("strict"):
        jax.make_jaxpr(run)(features.astype(jnp.bfloat16))
        with jax.check_tracer_leaks(True):
            jax.make_jaxpr(run)(features)
    with jax.debug_nans(True):
        value, gradient = jax.block_until_ready(jax.jit(run)(features))
    again = jax.jit(jax.value_and_grad(jax.checkpoint(TRAINING[name])))(features)
    np.testing.assert_allclose(again[0], value, rtol=1e-5)
    np.testing.assert_allclose(again[1], gradient, atol=1e-5)
