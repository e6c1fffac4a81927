"""Every public algorithm stands inside a program of the caller's: under `jit`, `grad` and `scan` at once."""

import jax
import jax.numpy as jnp
import pytest

from programs import PROGRAMS

# These end in a loop whose length is not known before it runs, through which JAX has no reverse mode; it says so.
NO_REVERSE_MODE = ("l0.fit", "adaboost.fit", "infoboost.fit", "combine.pairwise.fit")


def _total(tree):
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating))


def _lower_scan(step, problem):
    """Two problems in a scan of the caller's jit, traced and lowered; nothing is compiled."""
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), jax.tree.map(jnp.asarray, problem))
    return jax.jit(lambda problems: jax.lax.scan(lambda _, one: (0, step(*one)), 0, problems)).lower(twice)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_stands_under_the_callers_jit_and_scan_and_grad(name):
    run, problem = PROGRAMS[name]

    def derivative(data, labels, weights, mask):
        return jax.grad(lambda weights: _total(run(data, labels, weights, mask)))(weights)

    if name in NO_REVERSE_MODE:
        _lower_scan(run, problem)
        with pytest.raises((ValueError, NotImplementedError), match=r"[Dd]ifferentiation"):
            _lower_scan(derivative, problem)
    else:
        _lower_scan(derivative, problem)
