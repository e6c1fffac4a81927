"""What is certified is certified of the numbers that are returned, whatever a compiler may leave
out.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.base import numerics
from marks import slow_but
from precision import places_of_lost_rounding
from programs import PROGRAMS


@pytest.mark.parametrize(
    "name",
    slow_but(
        PROGRAMS,
        "lpboost.solve",
        "relaxed_margin.solve",
        "adaboost.fit",
        "lp.solve, InteriorPointConfig",
    ),
)
def test_no_number_is_certified_in_more_digits_than_it_is_returned_in(name):
    run, problem = PROGRAMS[name]
    assert places_of_lost_rounding(run, *problem) == []


@pytest.mark.slow
def test_planes_are_certified_as_they_are_returned():
    points = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    labels = np.where(np.arange(9) % 2, 1, -1)
    assert (
        places_of_lost_rounding(lambda *data: jboost.pair.optimal_separator(*data), points, labels)
        == []
    )


def _narrowed_and_widened(to):
    def widely(values):
        wide = values.astype("float64") / 3
        return (to(wide).reshape(-1, 1).astype("float64")[:, 0] - wide).astype("float32")

    return numerics.in_64_bits(widely)


def test_a_rounding_that_may_be_lost_is_found():
    values = jnp.arange(4.0)
    loose, sure = (
        _narrowed_and_widened(lambda wide: wide.astype("float32")),
        _narrowed_and_widened(lambda wide: numerics.narrow(wide, "float32")),
    )
    assert len(places_of_lost_rounding(loose, values)) == 1
    assert (
        len(
            places_of_lost_rounding(
                lambda start: jax.lax.fori_loop(0, 3, lambda _, now: loose(now), start), values
            )
        )
        == 1
    )
    assert places_of_lost_rounding(sure, values) == []


def test_narrow_rounds_as_a_conversion_does(x64):
    random = np.random.default_rng(0)
    values = np.concatenate(
        [
            random.normal(size=10_000) * 2.0 ** random.integers(-125, 128, 10_000),
            [0, -0.0, np.inf, -np.inf, 1e300, 2.0**-126],
        ]
    )
    # every other one between two floats of 32 bits
    values = np.concatenate([values, 1 + np.arange(64) * 2.0**-25])
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float32)
    wanted = np.where(np.abs(wanted) < np.finfo(np.float32).tiny, 0, wanted)
    np.testing.assert_array_equal(
        jax.jit(numerics.narrow, static_argnums=1)(values, "float32"), wanted
    )
    np.testing.assert_array_equal(
        numerics.held_in(jnp.asarray(values), "float32"), wanted.astype(np.float64)
    )
    assert np.isnan(numerics.narrow(jnp.asarray(np.nan), "float32"))
    assert numerics.narrow(jnp.asarray([1e-40, -1e-40]), "float32").tolist() == [0, 0]
    assert numerics.held_in(jnp.asarray(wanted), "float64").dtype == np.float32
