"""The largest margin among many tied optima, and the bounds that spare most of their margins."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batches
import jboost
from benchmarks import tied_families
from jboost.base import loops
from jboost.base.status import Status
from jboost.pair.sweep import margins, visits
from jboost.pair.sweep.instance import encode
from oracles.pair import optimal_pair

LARGEST = 12  # points; the oracle takes their cube for each optimal set

solve_batch = functools.partial(batches.solve_batch, jboost.pair.optimal_separator)


def rows(size, random):
    """Two rows of integers with alternating labels: many parallel support lines."""
    half = size // 2
    number = np.arange(size)
    points = np.stack([number % half, number // half * 3], axis=1)
    return points, np.where(points.sum(axis=1) % 2, 1, -1)


FAMILIES = (*tied_families.FAMILIES.values(), rows)


def tied_sets(num_sets, *, on_grid=False):
    """Padded points [s, n, 2], labels, weights and mask of small sets with many optima; two of
    three, or all, on a grid.
    """
    points = np.zeros((num_sets, LARGEST, 2))
    labels = np.ones((num_sets, LARGEST), np.int32)
    weights = np.ones((num_sets, LARGEST), np.int32)
    mask = np.zeros((num_sets, LARGEST), bool)
    for row in range(num_sets):
        random = np.random.default_rng([7, row])
        size = int(random.integers(4, LARGEST + 1))
        drawn, its_labels = FAMILIES[row % len(FAMILIES)](size, random)
        if on_grid or row // len(FAMILIES) % 3:
            drawn = np.round(drawn / max(np.abs(drawn).max(), 1) * 20)
        size = min(len(drawn), LARGEST)
        points[row, :size], labels[row, :size] = drawn[:size], its_labels[:size]
        mask[row, :size] = True
        if row % 5 == 4:
            weights[row] = random.integers(1, 3, LARGEST)
    return points, labels, weights, mask


def assert_largest_margins(num_sets, dtype=np.float32, *, on_grid=False, **options):
    """Loss and margin against exact arithmetic over all separators."""
    points, labels, weights, mask = tied_sets(num_sets, on_grid=on_grid)
    points = points.astype(dtype)
    separators = solve_batch(points, labels, weights, mask, **options)
    num_tied = 0
    for row in range(num_sets):
        live = mask[row]
        optimum = optimal_pair(points[row][live], labels[row][live], weights[row][live])
        squared = (
            optimum.margin_squared_flipped
            if options.get("fat") == "flipped"
            else optimum.margin_squared
        )
        assert separators.loss[row] == optimum.loss, row
        assert separators.lower_bound[row] == optimum.loss, row
        assert separators.margin[row] == pytest.approx(float(squared) ** 0.5, rel=1e-6), row
        num_tied += np.isfinite(separators.margin[row]) and optimum.num_optimal_sets > 1
    assert num_tied > num_sets / 4


def test_margin_of_tied_optima_is_the_largest():
    assert_largest_margins(30)


@pytest.mark.slow
@pytest.mark.parametrize("fat", ["removed", "flipped"])
def test_margins_of_hundreds_of_tied_sets(fat):
    assert_largest_margins(300, fat=fat)


@pytest.mark.slow
def test_margins_of_tied_sets_without_64_bit_types():
    assert_largest_margins(150, on_grid=True, config=jboost.pair.SweepConfig(word_bits=32))


@pytest.mark.slow
def test_margins_of_tied_sets_in_float64(x64):
    assert_largest_margins(150, dtype=np.float64)


@functools.cache
def steps_of(name, size):
    """The number of steps of the exact search of a family, and the separator."""
    count = []

    def counted(unfinished, step, state):
        if not isinstance(state, visits._SweepSearch):
            return while_loop(unfinished, step, state)
        last, number = while_loop(
            lambda both: unfinished(both[0]),
            lambda both: (step(both[0]), both[1] + 1),
            (state, jnp.zeros((), jnp.int32)),
        )
        jax.debug.callback(lambda it: count.append(int(it)), number)
        return last

    while_loop = loops.while_loop
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "while_loop", counted)
        jax.clear_caches()
        separator = jboost.pair.optimal_separator(
            *tied_families.make_data(name, size), method="sweep"
        )
        jax.block_until_ready(separator)
        jax.effects_barrier()
    jax.clear_caches()
    return count[0], separator


@pytest.mark.slow
@pytest.mark.parametrize("name", tied_families.FAMILIES)
def test_few_margins_are_computed_where_thousands_tie(name):
    # A step takes at most a sixteenth of the centres, so that 17 steps bound all.
    steps, separator = steps_of(name, 200)
    assert jboost.status.explain(separator.status).startswith("OPTIMAL")
    assert steps <= 26


@jax.jit
def _views_of_all(points, labels, weights, mask):
    instance, _ = encode(points, labels, weights, mask, jnp.dtype("float64"))
    centres = jnp.arange(len(points), dtype=jnp.int32)
    views, losses = visits._open_classes(instance, centres, 1)

    def margin(centre, view, number):
        chosen = visits.Chosen(number, jnp.zeros((), jnp.int64), -jnp.ones(()))
        return visits._fat_separator(instance, centre, view, chosen, "removed")

    numbers = jnp.arange(2 * len(points), dtype=jnp.int32)
    found = jax.vmap(
        lambda centre, view: jax.vmap(lambda number: margin(centre, view, number))(numbers)
    )(centres, views)
    losses = jnp.where(instance.own[:, None], losses, jnp.iinfo(losses.dtype).max)
    return instance, views, losses, found.margin, found.on_own_side


@jax.jit
def _bounds_of_all(instance, views, gap):
    places = jnp.arange(views.upper.shape[0], dtype=jnp.int32)
    limits = margins.limit_directions(instance, places, views, gap)
    return margins.bound_margins(instance, places, views, limits, limits.is_met)


@pytest.mark.slow
def test_no_bound_is_below_the_margin_of_an_optimal_set(x64):
    num_checked = 0
    for row, (points, labels, weights, mask) in enumerate(zip(*tied_sets(60), strict=True)):
        instance, views, losses, margin, sides = _views_of_all(
            points, labels, weights.astype(float), mask
        )
        margin, sides = np.asarray(margin), np.asarray(sides) & mask
        sets = {}
        least = losses.min()
        if least == jnp.iinfo(losses.dtype).max:  # all points are at one position
            continue
        for centre, number in np.argwhere(np.asarray(losses == least)):
            sets.setdefault(sides[centre, number].tobytes(), []).append((centre, number))
        for classes in sets.values():
            largest = max(margin[place] for place in classes)
            if not np.isfinite(largest):
                continue
            for share in (0, 0.5, 0.9, 0.999, 1):
                bounds = np.asarray(_bounds_of_all(instance, views, 2 * largest * share))
                assert max(bounds[place] for place in classes) >= largest * (1 - 1e-13), row
                num_checked += 1
    assert num_checked > 500


@pytest.mark.slow
@pytest.mark.parametrize("word_bits", [32, 64])
def test_search_ends_where_squares_of_coordinates_underflow(word_bits):
    random = np.random.default_rng(11)
    exponents = random.integers(-37, 37, (60, 8, 2))
    points = (random.normal(size=(60, 8, 2)) * 10.0**exponents).astype(np.float32)
    labels = np.where(random.random((60, 8)) < 0.5, 1, -1)
    ones, config = np.ones((60, 8)), jboost.pair.SweepConfig(word_bits=word_bits)
    separators = solve_batch(points, labels, ones, ones > 0, config=config)
    least = [optimal_pair(*parts).loss for parts in zip(points, labels, strict=True)]
    assert np.all(separators.lower_bound <= least)
    assert np.all(separators.loss >= least)
    proven = separators.status == int(Status.OPTIMAL)
    np.testing.assert_array_equal(separators.loss[proven], np.asarray(least)[proven])
    assert proven.any() == (word_bits == 64)  # 32 bits are too few for such differences
