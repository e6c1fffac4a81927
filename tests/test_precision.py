"""What is certified is certified of the numbers that are returned, whatever a compiler may leave out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from contract import CERTIFIED, TABLE, bits
from jboost import learners, lp, operators, projections, relaxations
from jboost.base import numerics
from precision import places_of_lost_rounding


def _entries(table):
    return [getattr(entry, "values", (entry,))[0] for entry in table]


def _of_fit(fit, learner, **options):
    return lambda data, labels, weights, mask: fit(jboost.make_dataset(data, labels, weights=weights, mask=mask), learner, **options)


def _of_margins(relaxation):
    return lambda data, labels, *_: jboost.relaxed_margin.solve(labels[:, None] * (2 * data - 1), relaxation, tolerance=1e-2)


def _of_rows(config):
    def solve(data, labels, weights, mask):
        room = jnp.full(labels.shape, -jnp.inf)
        program = lp.LinearProgram(labels[:4] * 1.0, operators.dense(data), room, weights, -jnp.ones((4,)), jnp.ones((4,)))
        return lp.solve(program, config=config)

    return solve


def _of_weights(method):
    return lambda data, labels, weights, mask: projections.kl_projection_capped_simplex(labels * weights, 0.2, method=method)


PLAIN = bits(1, 12)
RELAXATIONS = {
    "hard": relaxations.hard_margin(),
    "ball": relaxations.norm_ball(2, 0.5),
    "penalty": relaxations.norm_penalty(2, 0.5),
    "largest": relaxations.norm_penalty(np.inf, 0.5),
    "entropy": relaxations.binary_entropy(0.3, 1.0),
}
PROGRAMS = {
    **{entry.name: (entry.run, entry.problem(1, 12)) for entry in _entries(TABLE)},
    **{entry.name: (entry.run, PLAIN) for entry in _entries(CERTIFIED)},
    "adaboost.fit": (_of_fit(jboost.adaboost.fit, learners.stumps(), max_rounds=5), PLAIN),
    "infoboost.fit": (_of_fit(jboost.infoboost.fit, learners.stumps(), max_rounds=5), PLAIN),
    "combine.pairwise.fit": (_of_fit(jboost.combine.pairwise.fit, learners.stumps(), max_rounds=5), PLAIN),
    "slipper.fit": (lambda *data: jboost.slipper.fit(jboost.make_dataset(*data[:2]), key=jax.random.key(0)), PLAIN),
    **{f"relaxed_margin.solve, {name}": (_of_margins(relaxation), PLAIN) for name, relaxation in RELAXATIONS.items()},
    **{f"lp.solve, {type(it).__name__}": (_of_rows(it), PLAIN) for it in (lp.FirstOrderConfig(), lp.InteriorPointConfig())},
    **{f"projections, {method}": (_of_weights(method), PLAIN) for method in ("sort", "newton")},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_number_is_certified_in_more_digits_than_it_is_returned_in(name):
    run, problem = PROGRAMS[name]
    assert places_of_lost_rounding(run, *problem) == []


def test_planes_are_certified_as_they_are_returned():
    points = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    labels = np.where(np.arange(9) % 2, 1, -1)
    assert places_of_lost_rounding(lambda *data: jboost.pair.optimal_separator(*data), points, labels) == []


def _narrowed_and_widened(to):
    def widely(values):
        wide = values.astype("float64") / 3
        return (to(wide).reshape(-1, 1).astype("float64")[:, 0] - wide).astype("float32")

    return numerics.in_64_bits(widely)


def test_a_rounding_that_may_be_lost_is_found():
    values = jnp.arange(4.0)
    loose, sure = _narrowed_and_widened(lambda wide: wide.astype("float32")), _narrowed_and_widened(lambda wide: numerics.narrow(wide, "float32"))
    assert len(places_of_lost_rounding(loose, values)) == 1
    assert len(places_of_lost_rounding(lambda start: jax.lax.fori_loop(0, 3, lambda _, now: loose(now), start), values)) == 1
    assert places_of_lost_rounding(sure, values) == []


def test_narrow_rounds_as_a_conversion_does(x64):
    random = np.random.default_rng(0)
    values = np.concatenate([random.normal(size=10_000) * 2.0 ** random.integers(-125, 128, 10_000), [0, -0.0, np.inf, -np.inf, 1e300, 2.0**-126]])
    values = np.concatenate([values, 1 + np.arange(64) * 2.0**-25])  # every other one between two floats of 32 bits
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float32)
    wanted = np.where(np.abs(wanted) < np.finfo(np.float32).tiny, 0, wanted)
    np.testing.assert_array_equal(jax.jit(numerics.narrow, static_argnums=1)(values, "float32"), wanted)
    np.testing.assert_array_equal(numerics.held_in(jnp.asarray(values), "float32"), wanted.astype(np.float64))
    assert np.isnan(numerics.narrow(jnp.asarray(np.nan), "float32"))
    assert numerics.narrow(jnp.asarray([1e-40, -1e-40]), "float32").tolist() == [0, 0]
    assert numerics.held_in(jnp.asarray(wanted), "float64").dtype == np.float32
