"""docs/derivatives.md says the truth: each row against central differences or an error, and no
public function is missing.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import derivatives
from marks import slow_but
from public_api import public_functions

NAMES = {row.name: row for row in derivatives.rows()}
QUICK = (
    "losses.mean_exponential",
    "projections.projection_simplex",
    "operators.dense",
    "relaxations.soft_margin",
    "pair.confidence_weights",
)
REFUSED = [row.name for row in derivatives.without() if row.run is not None]
QUICK_REFUSED = (
    "losses.training_error",
    "relaxed_margin.solve, fields",
    "pair.optimal_separator, sweep",
    "lpboost.fit",
)


def test_the_page_of_derivatives_is_what_the_table_makes():
    assert derivatives.PAGE.read_text(encoding="utf-8") == derivatives.page(), (
        "python -m tests.derivatives writes it anew"
    )


def test_every_public_function_has_a_row_of_derivatives_or_a_reason():
    named = {
        derivatives.function_of(row.name) for row in (*derivatives.rows(), *derivatives.without())
    }
    public = set(public_functions(derivatives.EXEMPT))
    assert public - named - set(derivatives.EXEMPT) == set()
    assert {name for name in named if name not in public} == set()
    assert {name for name in derivatives.EXEMPT if "." in name} <= public
    assert not named & set(derivatives.EXEMPT)
    assert len(NAMES) == len(derivatives.rows())


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_derivatives_of_the_table_are_those_of_central_differences_in_both_modes(name, x64):
    row = NAMES[name]
    arguments = tuple(jnp.asarray(value, float) for value in row.arguments.values())
    rng = np.random.default_rng(1)
    zeros = tuple(jnp.zeros_like(value) for value in arguments)
    directions = [
        (*zeros[:place], jnp.asarray(rng.normal(size=value.shape)), *zeros[place + 1 :])
        for place, value in enumerate(arguments)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *directions)

    @jax.jit
    def slopes(arguments, stacked):
        def run(*arguments):
            return jnp.ravel(row.run(*arguments))

        def moved(sign):
            return jax.lax.map(
                lambda along: run(
                    *jax.tree.map(
                        lambda value, change: value + sign * row.step * change, arguments, along
                    )
                ),
                stacked,
            )

        differences = (moved(1.0) - moved(-1.0)) / (2 * row.step)
        forward = jax.lax.map(lambda along: jax.jvp(run, arguments, along)[1], stacked)
        value, pull = jax.vjp(run, *arguments)
        cotangent = jnp.cos(jnp.arange(value.size, dtype=float))
        gradients = pull(cotangent)
        reverse = [
            sum(jnp.sum(one * other) for one, other in zip(gradients, along, strict=True))
            for along in directions
        ]
        return differences, forward, jnp.stack(reverse), differences @ cotangent

    differences, forward, reverse, expected = (
        np.asarray(part) for part in slopes(arguments, stacked)
    )
    scale = 1 + np.abs(differences).max()
    assert np.all(np.abs(differences).max(axis=1) > 1e-3), "nothing depends on an argument"
    np.testing.assert_allclose(forward, differences, atol=row.tolerance * scale)
    np.testing.assert_allclose(
        reverse, expected, atol=row.tolerance * scale * np.sqrt(differences.shape[1])
    )


def floats_of(arguments):
    """The arguments as floats, where they are numbers, and a function that puts them in place."""
    leaves, structure = jax.tree.flatten(arguments)
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    places = [
        place for place, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]

    def put(floats):
        filled = dict(enumerate(leaves)) | dict(zip(places, floats, strict=True))
        return jax.tree.unflatten(structure, filled.values())

    return [leaves[place] for place in places], put


@pytest.mark.parametrize("name", slow_but(REFUSED, *QUICK_REFUSED))
def test_what_has_no_derivative_raises_in_reverse_mode(name):
    row = next(row for row in derivatives.without() if row.name == name)
    floats, put = floats_of(row.arguments)
    with pytest.raises(TypeError, match="has no derivative"):
        jax.eval_shape(jax.grad(lambda floats: row.run(*put(floats))), floats)
