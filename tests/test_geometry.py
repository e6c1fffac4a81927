"""Exact predicates, angular order and hull distance against rational arithmetic."""

from fractions import Fraction
from functools import cmp_to_key

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.base import numerics
from jboost.geometry import angular, exact, hulls, linear
from jboost.pair.sweep import line
from marks import slow

DTYPES = (np.float32, np.float64)


@pytest.fixture(params=DTYPES, ids=["float32", "float64"])
def dtype(request):
    """A float type, with 64-bit types allowed where it needs them."""
    with jax.enable_x64(request.param is np.float64):
        yield request.param


def spread(rng, size, dtype):
    """Numbers over twenty binades, with exact repeats of sign and of value."""
    return (rng.standard_normal(size) * 2.0 ** rng.integers(-10, 10, size)).astype(dtype)


def rational(values):
    return [Fraction(float(value)) for value in np.asarray(values).reshape(-1)]


def test_error_free_sum_and_product(dtype):
    rng = np.random.default_rng(0)
    a, b = spread(rng, 3000, dtype), spread(rng, 3000, dtype)
    for function, operation in (
        (exact.two_sum, Fraction.__add__),
        (exact.two_product, Fraction.__mul__),
    ):
        result = jax.jit(function)(a, b)
        wanted = [operation(x, y) for x, y in zip(rational(a), rational(b), strict=True)]
        assert [
            h + lo for h, lo in zip(rational(result.hi), rational(result.lo), strict=True)
        ] == wanted


@pytest.mark.slow
def test_wide_arithmetic_survives_fusion(dtype):
    """A chain in one compiled program: products feed sums, where a compiler is tempted to contract
    them.
    """
    rng = np.random.default_rng(1)
    values = [spread(rng, 3000, dtype) for _ in range(4)]

    def chain(a, b, c, d):
        difference, other = exact.wide_difference(a, b), exact.wide_difference(c, d)
        size = exact.wide_where(difference.hi < 0, exact.wide_negative(difference), difference)
        area = exact.wide_add(
            exact.wide_multiply(difference, other),
            exact.wide_negative(exact.wide_multiply(other, size)),
        )
        return area, exact.wide_divide(difference, other)

    area, quotient = jax.jit(chain)(*values)
    bits = 2 * (jnp.finfo(dtype).nmant + 1) - 6
    for row, (a, b, c, d) in enumerate(zip(*map(rational, values), strict=True)):
        difference, other = a - b, c - d
        scale = abs(difference * other)
        wanted = difference * other - other * abs(difference)
        got = Fraction(float(area.hi[row])) + Fraction(float(area.lo[row]))
        assert abs(got - wanted) <= scale / 2**bits
        got = Fraction(float(quotient.hi[row])) + Fraction(float(quotient.lo[row]))
        assert abs(got - difference / other) <= abs(difference / other) / 2**bits
        assert abs(float(area.lo[row])) <= abs(float(area.hi[row])) * jnp.finfo(dtype).eps


def test_wide_products_are_exact_on_a_grid_of_20_bits():
    rng = np.random.default_rng(2)
    corners = rng.integers(-(2**20), 2**20 + 1, (4, 5000))
    near = corners.copy()
    # nearly parallel: the products all but cancel
    near[2:] = near[:2] + rng.integers(-1, 2, near[:2].shape)
    for points in (corners, near):
        a, b, c, d = points.astype(np.float32)

        def cross(a, b, c, d):
            first, second = exact.wide_difference(a, -b), exact.wide_difference(c, -d)
            other = exact.wide_difference(a, -d), exact.wide_difference(c, -b)
            return exact.wide_add(
                exact.wide_multiply(first, second), exact.wide_negative(exact.wide_multiply(*other))
            )

        result = jax.jit(cross)(a, b, c, d)
        a, b, c, d = (row.astype(object) for row in points)
        wanted = (a + b) * (c + d) - (a + d) * (c + b)
        assert (np.asarray(result.hi, np.float64) + np.asarray(result.lo, np.float64)).astype(
            object
        ).tolist() == wanted.tolist()


def test_orientation_is_exact(dtype):
    rng = np.random.default_rng(3)
    corners = rng.integers(-3, 4, (6, 4000)).astype(dtype)
    corners[:, :2000] += spread(rng, (6, 2000), dtype) / 1024
    along = rng.standard_normal(3000).astype(dtype)
    # on the line but for rounding
    corners[4, :3000] = (corners[0] + 1)[:3000] + along * (corners[2] - corners[0])[:3000] - 1
    corners[5, :3000] = corners[1, :3000] + along * (corners[3] - corners[1])[:3000]
    signs = np.asarray(jax.jit(exact.orientation)(*corners.reshape(3, 2, -1)))

    def wanted(ax, ay, bx, by, cx, cy):
        turn = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        return (turn > 0) - (turn < 0)

    assert signs.tolist() == [wanted(*row) for row in zip(*map(rational, corners), strict=True)]
    assert {-1, 0, 1} == set(signs.tolist())


def direction_sort(points, centre, live):
    """Places of the live points by exact mirrored angle, as a list of groups of equal direction."""

    def mirrored(place):
        dx, dy = points[place][0] - centre[0], points[place][1] - centre[1]
        return (dx, dy) if dy > 0 or (dy == 0 and dx > 0) else (-dx, -dy)

    def compare(a, b):
        turn = mirrored(a)[0] * mirrored(b)[1] - mirrored(a)[1] * mirrored(b)[0]
        return (turn < 0) - (turn > 0)

    groups = []
    for place in sorted(
        (place for place in range(len(points)) if live[place]), key=cmp_to_key(compare)
    ):
        if groups and compare(groups[-1][0], place) == 0:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [set(group) for group in groups]


def point_sets(rng, dtype):
    """Twelve points each: tiny grids, large grids with near ties, general floats with repeats,
    floats that are nearly collinear.
    """
    for kind in range(80):
        if kind % 4 == 0:
            points = rng.integers(-2, 3, (12, 2))
        elif kind % 4 == 1:
            base = rng.integers(1, 2**19, 2)
            points = base * rng.integers(-2, 3, (12, 1)) + rng.integers(-1, 2, (12, 2))
        elif kind % 4 == 2:
            points = spread(rng, (12, 2), dtype)
            points[6:9] = points[:3]
        else:
            points = rng.standard_normal((12, 1)).astype(dtype) * rng.standard_normal(
                (1, 2)
            ).astype(dtype)
        yield points.astype(dtype)


def test_angular_orders_against_rational_arithmetic(dtype):
    rng = np.random.default_rng(4)
    quick, slow = jax.jit(angular.half_turn_order), jax.jit(angular.exact_half_turn_order)
    for points in point_sets(rng, dtype):
        live = np.any(points != points[0], axis=1) & (rng.random(12) < 0.9)
        wanted = direction_sort(
            [tuple(map(Fraction, map(float, point))) for point in points],
            tuple(map(Fraction, map(float, points[0]))),
            live,
        )
        order = slow(points.T, points[0], live)
        starts = np.flatnonzero(~np.asarray(order.joined)[: live.sum()])
        groups = (
            [
                set(part.tolist())
                for part in np.split(np.asarray(order.index)[: live.sum()], starts[1:])
            ]
            if live.any()
            else []
        )
        assert groups == wanted
        order = quick(points.T, points[0], live)
        rank = {place: row for row, group in enumerate(wanted) for place in group}
        ranks = [rank.get(int(place), len(wanted)) for place in order.index]
        free = np.flatnonzero(~np.asarray(order.joined))
        for position in free[1:]:  # where the keys claim an order, it is the true one
            assert max(ranks[:position]) < ranks[position] or ranks[position] == len(wanted)


@pytest.mark.parametrize("num_close", [3, 60])
def test_exact_orders_of_runs_of_close_directions(x64, num_close):
    """Few joined points are corrected from the keys of one word, and many from two words."""
    random = np.random.default_rng(num_close)
    unit = 2.0**-50
    close = np.stack([np.ones(num_close), unit * random.permutation(num_close) / 64], axis=1)
    repeats = np.concatenate([close[:2] * 2, -close[:2]])  # collinear with the centre
    points = np.concatenate([np.zeros((1, 2)), close, repeats, random.normal(size=(9, 2))])
    centres = np.stack([points[0], points[-1]], axis=1)
    live = np.any(points[None] != centres.T[:, None], axis=2)
    quick = jax.vmap(angular.half_turn_order, in_axes=(None, 1, 0))(points.T, centres, live)
    assert (np.sum(np.asarray(quick.joined)[0]) > angular._FEW_JOINED) == (num_close > 32)
    orders = jax.jit(angular.exact_half_turn_orders)(points.T, centres, live, quick)
    exact_points = [tuple(map(Fraction, map(float, point))) for point in points]
    for row, centre in enumerate(centres.T):
        wanted = direction_sort(exact_points, tuple(map(Fraction, map(float, centre))), live[row])
        index, joined = np.asarray(orders.index)[row], np.asarray(orders.joined)[row]
        starts = np.flatnonzero(~joined[: live[row].sum()])
        groups = np.split(index[: live[row].sum()], starts[1:])
        assert [set(group.tolist()) for group in groups] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("size", [12, 65536, 100_000])
def test_keys_decide_a_large_grid_alone(x64, size):
    """Farey neighbours, the closest directions of a grid, get keys that differ; multiples of one
    direction get keys that do not.
    """
    bits = angular.grid_bits(np.dtype(np.float64), size)
    assert bits >= (20 if size <= 65536 else 19)
    side = 2**bits
    points = np.zeros((size, 2))
    points[1:5] = [(side, side - 1), (side - 1, side - 2), (side // 2, side // 2 - 1), (-2, -2)]
    points[5:7] = [(side // 4, side // 4 - 1), (-(side // 4), 1 - side // 4)]
    live = np.zeros(size, bool)
    live[1:7] = True
    order = angular.half_turn_order(jnp.asarray(points.T), jnp.zeros(2), live)
    wanted = direction_sort([tuple(map(int, point)) for point in points[:7]], (0, 0), live[:7])
    starts = np.flatnonzero(~np.asarray(order.joined)[:6])
    assert [
        set(part.tolist()) for part in np.split(np.asarray(order.index)[:6], starts[1:])
    ] == wanted


def exact_squared_distance(first, second):
    """Squared distance of two hulls of rational points, vertex against segment both ways; 0 is not
    looked for.
    """

    def to_segment(p, a, b):
        (px, py), (ax, ay), (bx, by) = p, a, b
        dx, dy = bx - ax, by - ay
        length = dx * dx + dy * dy
        t = (
            min(max(((px - ax) * dx + (py - ay) * dy) / length, Fraction(0)), Fraction(1))
            if length
            else Fraction(0)
        )
        return (px - ax - t * dx) ** 2 + (py - ay - t * dy) ** 2

    return min(
        to_segment(p, a, b)
        for one, two in ((first, second), (second, first))
        for p in one
        for a in two
        for b in two
    )


@pytest.mark.slow
def test_hull_distance_against_rational_arithmetic(dtype):
    rng = np.random.default_rng(5)
    floor = jnp.full((), -1, dtype)
    distance = jax.jit(
        jax.vmap(
            lambda points, own, other, start: hulls.hull_distance(
                points, own, other, start=start, floor=floor
            )
        )
    )
    points = np.concatenate(
        [rng.integers(-8, 9, (100, 10, 2)), rng.integers(-(2**20), 2**20, (100, 10, 2))]
    ).astype(dtype)
    points[150:] = rng.standard_normal((50, 10, 2)).astype(dtype)
    own = rng.random((200, 10)) < 0.5
    own[:, 0], own[:, 1] = True, False
    shift = (np.max(np.abs(points), axis=(1, 2)) * 2 + 1)[:, None] * own
    points[..., 0] += shift.astype(dtype)
    points[::2] = points[::2, :, ::-1]
    if dtype == np.float64:
        points[::4, :, 1] *= 2.0**-110  # the axis along which they are apart
    start = np.zeros(200, np.int32), np.ones(200, np.int32)
    result = distance(points.swapaxes(1, 2), own, ~own, start)
    for row in range(200):
        exact_points = [tuple(map(Fraction, map(float, point))) for point in points[row]]
        parts = [
            [
                point
                for point, side in zip(exact_points, own[row], strict=True)
                if side is np.bool_(wanted)
            ]
            for wanted in (True, False)
        ]
        wanted = float(exact_squared_distance(*parts)) ** 0.5
        assert abs(float(result.distance[row]) - wanted) <= 8 * jnp.finfo(dtype).eps * wanted


def test_scores_are_those_of_float64(dtype):
    """Against fractions: as near as float64 comes to them, and never without the sign."""
    assert np.sign(
        linear.score_points(
            np.float32([[1e-20], [-1e-20], [0]]), *np.float32([[1e-30], [0]]), np.float32(0)
        )
    ).tolist() == [1, -1, 0]
    rng = np.random.default_rng(7)
    points = rng.integers(-(2**20), 2**20, (300, 3))
    normal, anchor, bias = (
        rng.standard_normal(3).astype(dtype),
        points[0].astype(dtype),
        dtype(2.0**-20),
    )
    points[1:100] = points[0]
    scores = np.asarray(linear.score_points(points, normal, anchor, bias))
    exact_normal, exact_anchor, (exact_bias,) = map(rational, (normal, anchor, bias))
    for score, point in zip(scores, points.tolist(), strict=True):
        terms = [a * (x - c) for a, x, c in zip(exact_normal, point, exact_anchor, strict=True)]
        wanted = float(sum(terms) + exact_bias)
        assert abs(float(score) - wanted) <= 2.0**-50 * float(sum(map(abs, terms))) + jnp.finfo(
            dtype
        ).eps * abs(wanted)
        assert np.sign(score) == np.sign(wanted)


def signs(values):
    return np.array([(value > 0) - (value < 0) for value in values])


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int8, jnp.bfloat16])
def test_certain_signs_are_those_of_rational_arithmetic_and_of_float64(kind):
    rng = np.random.default_rng(4)
    normal, bias = np.float32([0.7, -1.3]), np.float32(1e-3)
    if jnp.issubdtype(kind, jnp.integer):
        most = np.iinfo(kind).max
        points, unit = (
            rng.integers(-most, most, (500, 2)).astype(kind),
            np.float32(max(1, most // 2**17 + 1)),
        )
    else:
        points, unit = spread(rng, (500, 2), kind), np.float32(2.0**-8)
    anchor = points[0].astype(np.float32)
    if kind == np.float32:  # next to the line
        points[::2, 1] = anchor[1] + (normal[0] * (points[::2, 0] - anchor[0]) + bias) / -normal[1]
    exactly = [
        normal_x * (x - anchor_x) + normal_y * (y - anchor_y) + rational(bias)[0]
        for (normal_x, normal_y), (anchor_x, anchor_y) in [(rational(normal), rational(anchor))]
        for x, y in map(rational, points)
    ]
    found = jax.jit(linear.certain_signs)(
        points, normal, anchor, bias, np.float32(2.0 ** np.ceil(np.log2(unit)))
    )
    np.testing.assert_array_equal(found, signs(exactly))
    np.testing.assert_array_equal(found, np.sign(linear.score_points(points, normal, anchor, bias)))


def test_certain_signs_leave_open_what_float64_may_round_to_the_other_side():
    side = np.float32(2.0**20)
    points = np.float32([[side, side], [side, side], [0, 0], [side, -side]])
    normal = np.float32([1, -1])
    for bias, wanted in (
        (0, [0, 0, 0, 1]),
        (2.0**-40, [0, 0, 1, 1]),
        (2.0**-20, [1, 1, 1, 1]),
        (-(2.0**-20), [-1, -1, -1, 1]),
    ):
        found = linear.certain_signs(
            points, normal, np.zeros(2, np.float32), np.float32(bias), np.float32(8)
        )
        assert found.tolist() == wanted
    constant = linear.certain_signs(
        points, np.zeros(2, np.float32), np.zeros(2, np.float32), np.float32(-1), np.float32(8)
    )
    assert constant.tolist() == [-1, -1, -1, -1]


def test_directions_of_float32_enclose_any_direction(x64):
    rng = np.random.default_rng(6)
    vectors = rng.standard_normal((600, 2))
    vectors[500:550, 0] *= 1e-9
    vectors[550:, 1] *= 1e-12
    vectors[:4] = [(0, 1), (-3, 0), (5, -5), (2**20 - 1, 2**20)]
    found = jax.jit(
        jax.vmap(lambda vector: line.enclosing_directions(vector, np.dtype(np.float32)))
    )(vectors)
    x, y = np.moveaxis(np.asarray(found), 2, 0)
    assert np.array_equal(x, x.astype(np.float32))
    assert np.array_equal(y, y.astype(np.float32))
    assert np.array_equal(np.stack([x[:4, 0], y[:4, 0]], axis=1), vectors[:4])
    assert np.all(x * vectors[:, :1] + y * vectors[:, 1:] > 0)
    turn = (
        (x * vectors[:, 1:] - y * vectors[:, :1])
        / np.hypot(x, y)
        / np.hypot(vectors[:, :1], vectors[:, 1:])
    )
    assert np.all((turn.min(axis=1) <= 0) & (turn.max(axis=1) >= 0))
    assert np.median(np.abs(turn).min(axis=1)) < 2.0**-46


@pytest.mark.slow
def test_64_bit_scope_works_inside_every_transformation():
    def widened(x):
        def sort_if_wide(value):
            large = value.astype(jnp.float64) * 2.0**40
            # a 32-bit sum would lose the 1
            return jnp.sort(value + ((large + 1) - large) - 1).astype(jnp.float32)

        return numerics.in_64_bits(sort_if_wide)(x)

    x = np.arange(8, dtype=np.float32)[::-1].copy()
    wanted = np.sort(x)
    assert not jax.config.jax_enable_x64
    np.testing.assert_array_equal(widened(x), wanted)
    np.testing.assert_array_equal(jax.jit(widened)(x), wanted)
    np.testing.assert_array_equal(jax.vmap(jax.jit(widened))(np.stack([x, x]))[1], wanted)
    np.testing.assert_array_equal(
        jax.lax.scan(lambda carry, _: (widened(carry), 0), x, None, length=2)[0], wanted
    )
    assert not np.any(np.asarray(jax.grad(lambda value: jnp.sum(widened(value)))(x)))
    mesh = jax.make_mesh((jax.device_count(),), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded = jax.shard_map(widened, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))
    if 8 % jax.device_count() == 0:
        assert set(np.asarray(jax.jit(sharded)(x)).tolist()) == set(x.tolist())
    with pytest.raises(TypeError, match="64-bit results"):
        numerics.in_64_bits(lambda value: value.astype(jnp.float64))(x)


@pytest.mark.parametrize("kind", [slow(np.float32), np.int32])
def test_scores_of_points_have_derivatives(kind):
    """Those of normal . (x - anchor) + bias; points in whole numbers are constants."""
    rng = np.random.default_rng(3)
    points = rng.integers(-5, 6, (4, 2)).astype(kind)
    normal, anchor, moved = (jnp.asarray(rng.normal(size=2), jnp.float32) for _ in range(3))

    def scores(normal, anchor, bias):
        return linear.score_points(points, normal, anchor, bias)

    value, change = jax.jvp(
        scores, (normal, anchor, jnp.float32(0.5)), (moved, moved, jnp.float32(2.0))
    )
    np.testing.assert_allclose(
        value, (points - np.asarray(anchor)) @ np.asarray(normal) + 0.5, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        change,
        (points - np.asarray(anchor)) @ np.asarray(moved) - normal @ moved + 2,
        rtol=1e-5,
        atol=1e-5,
    )
    if kind == np.float32:
        slopes = jax.grad(
            lambda points: jnp.sum(linear.score_points(points, normal, anchor, jnp.float32(0.5)))
        )(points)
        np.testing.assert_allclose(slopes, np.tile(normal, (4, 1)), rtol=1e-6)


def test_rounded_product_keeps_the_sign_of_an_overflow_and_nan():
    large = jnp.float32(1e30)
    assert exact.rounded_product(large, -large) == -jnp.inf
    assert exact.rounded_product(large, large) == jnp.inf
    assert jnp.isnan(exact.rounded_product(jnp.float32(jnp.nan), large))


def test_separator_predicts_the_side_of_a_score_that_overflows():
    separator = jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])
    separator = separator._replace(normal=jnp.array([1e20, 0.0]))
    assert jboost.predict(separator, [[-1e30, 0.0], [1e30, 0.0]]).tolist() == [-1, 1]
