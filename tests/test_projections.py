"""Projections on the capped simplex against bisection in 64 bits, optimality conditions and finite
differences.
"""

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from jboost import projections
from marks import slow, slow_but

METHODS = ("sort", "newton")
SIZE = 24  # every case is padded to it, so that one compilation serves all
GARBAGE = np.array([np.nan, np.inf, -np.inf, 1e30, 0.0])


def kl(method):
    return functools.partial(projections.kl_projection_capped_simplex, method=method)


def batched(function):
    """jit(vmap) of a projection in three arguments: values, cap, mask."""
    return jax.jit(jax.vmap(lambda values, cap, mask: function(values, cap, mask=mask)))


# --- oracles: numpy in 64 bits, by bisection ------------------------------------------------------


def bisect(total, low, high):
    """Where each of the decreasing functions `total`, [n] -> [n], is 1."""
    for _ in range(120):
        middle = 0.5 * (low + high)
        above = total(middle) >= 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (0.5 * (low + high))[:, None]


def oracle(kind, values, cap, mask, eps):
    """Projections [n, m] of values [n, m] in 64 bits; caps that sum to 1 up to rounding, or to
    less, are the answer.
    """
    caps = np.broadcast_to(cap if cap.ndim == 2 else cap[:, None], values.shape)
    kept = mask & (values > -np.inf) & np.greater(caps, 0, where=mask, out=np.zeros_like(mask))
    caps = np.where(kept, np.minimum(caps, 2), 0).astype(np.float64)
    values = np.where(kept, values, 0).astype(np.float64)
    values = np.where(kept, values - values.max(axis=1, where=kept, initial=-np.inf)[:, None], 0)
    if kind == "kl":
        keys = np.where(kept, values - np.log(caps, where=kept, out=np.zeros_like(caps)), -np.inf)
        low, high = keys.min(axis=1, where=kept, initial=np.inf) - 1, keys.max(axis=1) + 4
        threshold = bisect(
            lambda t: np.sum(caps * np.exp(np.minimum(keys - t[:, None], 0)), axis=1), low, high
        )
        answer = caps * np.exp(np.minimum(keys - threshold, 0))
    else:
        low = values.min(axis=1, where=kept, initial=np.inf) - 1
        theta = bisect(
            lambda t: np.sum(np.clip(values - t[:, None], 0, caps), axis=1), low, np.zeros_like(low)
        )
        answer = np.clip(values - theta, 0, caps)
    return np.where((caps.sum(axis=1) <= 1 + 4 * eps)[:, None], caps, answer)


# --- cases ----------------------------------------------------------------------------------------


def make_case(random, index, *, per_entry):
    """values [m], cap [] or [m], float32: spans from 1e-3 to 1e5, ties, weights of 0, caps from
    just enough to none.
    """
    size = int(random.choice([1, 2, 3, 7, SIZE]))
    values = random.normal(size=size) * 10.0 ** random.choice([-3, 0, 1, 2, 5])
    if index % 3 == 0:
        values = np.round(values / np.abs(values).max() * 2) * np.abs(values).max()  # ties
    positive = np.ones(size, bool)
    if index % 5 == 0 and size > 2:
        positive[random.integers(size)] = False
    if not per_entry:
        count = positive.sum()
        cap = random.choice(
            [
                1 / count,
                1.0,
                np.inf,
                3.0,
                1 / random.integers(1, count + 1),
                1 / random.uniform(1, count + 1e-9),
            ]
        )
    else:
        cap = random.random(size) ** 3 * positive + 1e-3
        if index % 2 == 0 and size > 2:
            cap[random.integers(size)] = 0
        cap *= random.choice([1.0, 1.1, 2.0, 10.0]) / np.sum(cap[positive])
        if index % 7 == 0:
            cap[random.integers(size)] = random.choice([1.0, np.inf])
    return np.where(positive, values, -np.inf).astype(np.float32), np.asarray(cap, np.float32)


def pad(random, values, cap):
    """The case in [SIZE], with garbage where the mask is False; the kept entries stay in order."""
    mask = np.zeros(SIZE, bool)
    mask[np.sort(random.permutation(SIZE)[: len(values)])] = True
    padded, caps = (
        random.choice(GARBAGE, SIZE).astype(np.float32),
        random.choice(GARBAGE, SIZE).astype(np.float32),
    )
    padded[mask] = values
    caps[mask] = cap
    return padded, caps if cap.ndim else cap, mask


@functools.cache
def cases(per_entry, count=400):
    random = np.random.default_rng(11 + per_entry)
    raw = [make_case(random, index, per_entry=per_entry) for index in range(count)]
    padded = [pad(random, *case) for case in raw]
    return raw, tuple(np.stack(parts) for parts in zip(*padded, strict=True))


@functools.cache
def answers(kind, per_entry):
    _, batch = cases(per_entry)
    return oracle(kind, *batch, np.finfo(np.float32).eps)


def assert_close(found, wanted, *, rtol, atol):
    assert found.dtype.kind == "f"
    worst = np.argmax(np.abs(found - wanted) - rtol * wanted, axis=None) // found.shape[-1]
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, err_msg=f"case {worst}")


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_entry", [False, slow(True)])
@pytest.mark.parametrize("method", METHODS)
def test_kl_projection_is_that_of_bisection(method, per_entry):
    _, batch = cases(per_entry)
    found = np.asarray(batched(kl(method))(*batch))
    wanted = answers("kl", per_entry)
    assert found.dtype == np.float32
    # exp of -80 has lost 80 units of rounding
    assert_close(found.astype(np.float64), wanted, rtol=1e-5, atol=1e-30)
    # others divide and exponentiate to two units of rounding
    accuracy = 5e-7 if jax.default_backend() == "cpu" else 1e-6
    np.testing.assert_allclose(
        found.sum(axis=1, dtype=np.float64), wanted.sum(axis=1), rtol=accuracy
    )


@pytest.mark.parametrize("per_entry", [False, True])
def test_euclidean_projection_is_that_of_bisection(per_entry):
    _, batch = cases(per_entry)
    found = np.asarray(batched(projections.projection_capped_simplex)(*batch))
    wanted = answers("euclidean", per_entry)
    assert found.dtype == np.float32
    assert_close(found.astype(np.float64), wanted, rtol=0, atol=2e-7)
    # others divide and exponentiate to two units of rounding
    accuracy = 5e-7 if jax.default_backend() == "cpu" else 1e-6
    np.testing.assert_allclose(
        found.sum(axis=1, dtype=np.float64), wanted.sum(axis=1), rtol=accuracy
    )


@pytest.mark.parametrize(
    "project", [*map(slow, map(kl, METHODS)), projections.projection_capped_simplex]
)
def test_padding_batching_and_scanning_change_nothing(project):
    raw, batch = cases(True)
    chosen = [index for index, (values, _) in enumerate(raw) if len(values) == 7][:6]
    values, caps, masks = (part[chosen] for part in batch)
    alone = np.stack([project(*raw[index]) for index in chosen])
    in_a_loop = np.stack(
        [project(*case[:2], mask=case[2]) for case in zip(values, caps, masks, strict=True)]
    )
    scanned = jax.lax.scan(
        lambda carry, case: (carry, project(*case[:2], mask=case[2])), 0, (values, caps, masks)
    )[1]
    mapped = batched(project)(values, caps, masks)
    np.testing.assert_allclose(in_a_loop[masks].reshape(alone.shape), alone, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(scanned, in_a_loop, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(mapped, in_a_loop, rtol=1e-6, atol=1e-7)
    assert not in_a_loop[~masks].any()


@pytest.mark.slow
@pytest.mark.parametrize("per_entry", [False, True])
def test_many_examples_meet_the_optimality_conditions(per_entry):
    size = 50_021  # no square, and no multiple of its root
    random = np.random.default_rng(5)
    logits = (20 * random.normal(size=size)).astype(np.float32)
    cap = (
        np.float32(3.7 / size)
        if not per_entry
        else (random.random(size) ** 2 * 8 / size).astype(np.float32)
    )
    found = {method: np.asarray(kl(method)(logits, cap)).astype(np.float64) for method in METHODS}
    assert_close(found["sort"], found["newton"], rtol=2e-6, atol=1e-37)
    for answer in found.values():
        capped, seen = answer >= cap, answer > 1e-30
        assert 1000 < capped.sum() < size - 1000
        assert abs(answer.sum() - 1) < 5e-7
        # log xi where free, no more than that where capped
        multiplier = np.log(answer, where=seen, out=np.full(size, -np.inf)) - logits
        free = multiplier[seen & ~capped]
        assert free.max() - free.min() < 3e-5
        assert multiplier[capped].max() <= free.max() + 3e-5


@pytest.mark.parametrize("method", METHODS)
def test_named_cases(method):
    case = functools.partial(np.array, dtype=np.float32)
    staircase = case(np.linspace(0, 1e5, 20))
    batch = [
        (np.zeros(20, np.float32), 0.3, np.full(20, 0.05)),  # all tied
        # the last weight is fractional
        (staircase, 0.3, np.array([0.0] * 16 + [0.1, 0.3, 0.3, 0.3])),
        (staircase, 1 / 20, np.full(20, 0.05)),
        (staircase, 0.25, np.array([0.0] * 16 + [0.25] * 4)),  # the caps fill the simplex exactly
        (-staircase, np.inf, np.eye(20)[0]),
        (case([0.0] * 10 + [-np.inf] * 10), 0.1, np.array([0.1] * 10 + [0.0] * 10)),
        (
            case([0.0, 0.0, -40.0] + [-np.inf] * 17),
            0.5,
            np.array([0.5, 0.5, np.exp(-40.0) / 2] + [0.0] * 17),
        ),
        (case([3e38] + [-3e38] * 19), 0.05, np.full(20, 0.05)),
        (case([1e30] + [-1e30] * 18 + [-np.inf]), 0.5, np.array([0.5] + [0.5 / 18] * 18 + [0.0])),
    ]
    logits, cap, wanted = (
        np.stack([np.asarray(part, np.float32) for part in parts])
        for parts in zip(*batch, strict=True)
    )
    found = jax.jit(jax.vmap(kl(method)))(logits, cap)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.slow
def test_steps_that_are_lost_in_rounding():
    random = np.random.default_rng(0)
    logits = random.normal(size=(20, 1000))
    # log xi is far below a unit of rounding
    logits = (1e9 * np.sign(logits) * np.abs(logits) ** 1.5).astype(np.float32)
    found = [
        np.asarray(
            jax.jit(jax.vmap(lambda logits, method=method: kl(method)(logits, 0.0015)))(logits)
        )
        for method in METHODS
    ]
    np.testing.assert_allclose(found[0].sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "kind, method, per_entry",
    [
        ("kl", "sort", False),
        ("kl", "sort", True),
        ("kl", "newton", True),
        ("euclidean", None, True),
    ],
)
def test_in_64_bits(kind, method, per_entry):
    values, cap, mask = cases(per_entry)[1]
    values, cap = values.astype(np.float64), cap.astype(np.float64)
    project = kl(method) if method else projections.projection_capped_simplex
    found = batched(project)(values, cap, mask)
    assert found.dtype == np.float64
    wanted = oracle(kind, values, cap, mask, np.finfo(np.float64).eps)
    # the bisection stops at 1e-11 on spans of 1e5
    assert_close(np.asarray(found), wanted, rtol=1e-9 if kind == "kl" else 0, atol=1e-10)


@pytest.mark.slow
def test_dtypes():
    assert projections.kl_projection_capped_simplex([0, 1, 2], 1).dtype == np.float32
    half = projections.kl_projection_capped_simplex(jnp.arange(4, dtype=jnp.bfloat16), 0.5)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(
        half.astype(np.float32),
        projections.kl_projection_capped_simplex(np.arange(4), 0.5),
        rtol=1e-2,
    )
    assert (
        projections.projection_capped_simplex(jnp.arange(4, dtype=jnp.float16), 0.5).dtype
        == jnp.float16
    )


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "project", [kl("sort"), projections.projection_capped_simplex], ids=["kl", "euclidean"]
)
@pytest.mark.parametrize("per_entry", [False, True])
def test_derivatives_are_those_of_finite_differences(project, per_entry):
    random = np.random.default_rng(2)
    count, size, step = 40, 6, 1e-6
    values = random.normal(size=(count, size)) * (
        1 if isinstance(project, functools.partial) else 0.2
    )
    values[:, 2] = -np.inf
    values[:, 5] = np.nan
    mask = np.arange(size) < 5
    cap = random.uniform(0.27, 0.9, (count, size) if per_entry else count)
    values_tangent = np.where(np.isfinite(values), random.normal(size=values.shape), 0)
    cap_tangent, cotangent = random.normal(size=cap.shape), random.normal(size=values.shape)

    @jax.jit
    @jax.vmap
    def differentiate(values, cap, values_tangent, cap_tangent, cotangent):
        def function(values, cap):
            return project(values, cap, mask=mask)

        forward = jax.jvp(function, (values, cap), (values_tangent, cap_tangent))[1]
        backward = jax.vjp(function, values, cap)[1](cotangent)
        difference = [
            function(values + way * step * values_tangent, cap + way * step * cap_tangent)
            for way in (1, -1)
        ]
        return (
            function(values, cap),
            forward,
            backward,
            (difference[0] - difference[1]) / (2 * step),
        )

    answer, forward, backward, difference = differentiate(
        values, cap, values_tangent, cap_tangent, cotangent
    )
    assert np.isfinite(forward).all()
    assert all(np.isfinite(part).all() for part in backward)
    caps = np.broadcast_to(cap if per_entry else cap[:, None], values.shape)
    gap = np.where(mask & np.isfinite(values), caps - answer, 1)
    assert ((gap == 0).sum(axis=1) >= 1).sum() > 10  # there are capped entries
    near = ((gap > 0) & (gap < 1e-4)).any(axis=1)  # a kink
    assert near.sum() < 5
    np.testing.assert_allclose(np.asarray(forward)[~near], np.asarray(difference)[~near], atol=1e-7)
    paired = np.sum(backward[0] * values_tangent, axis=1) + np.sum(
        (backward[1] * cap_tangent).reshape(count, -1), axis=1
    )
    np.testing.assert_allclose(paired, np.sum(forward * cotangent, axis=1), atol=1e-12)
    assert not np.asarray(backward[0])[:, [2, 5]].any()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_saturated_answers_are_finite(method):
    logits = jnp.array([[0.0, -1e5, -1e30, -jnp.inf], [0.0, 0.0, 0.0, 0.0], [1e5, 0.0, -1e5, 1e3]])
    cap = jnp.array([jnp.inf, 0.25, 0.5])
    jacobians = jax.jit(jax.vmap(jax.jacrev(kl(method), argnums=(0, 1))))(logits, cap)
    assert all(np.isfinite(part).all() for part in jacobians)
    np.testing.assert_array_equal(jacobians[0], np.zeros((3, 4, 4)))


# --- many devices ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="a CPU simulates as many devices as one likes"
)
def test_examples_sharded_over_devices_are_never_gathered():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("examples",))
    assert mesh.size == 8
    random = np.random.default_rng(3)
    values = (5 * random.normal(size=512)).astype(np.float32)
    caps = (random.random(512) / 64).astype(np.float32)

    def project(values, caps):
        by_scalar = projections.kl_projection_capped_simplex(values, 0.01, method="newton")
        return (
            by_scalar,
            projections.kl_projection_capped_simplex(values, caps, method="newton"),
            projections.projection_capped_simplex(values, caps),
        )

    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("examples"))
    sharded = jax.jit(project).lower(*jax.device_put((values, caps), place)).compile()
    text = sharded.as_text()
    gathered = [
        math.prod(int(size) for size in shape.split(",") if size)
        for shape in re.findall(r"= \w+\[([\d,]*)\]\S* all-gather\(", text)
    ]
    assert gathered or "all-reduce" in text
    # sums of three probes from each device: never a number for each example
    assert max(gathered, default=0) <= 3 * mesh.size
    for found, wanted in zip(
        sharded(*jax.device_put((values, caps), place)), jax.jit(project)(values, caps), strict=True
    ):
        assert found.sharding.is_equivalent_to(place, 1)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("project", [*map(kl, METHODS), projections.projection_capped_simplex])
def test_traced_input_that_cannot_be_projected(project):
    values = np.array(
        [
            [0.0, 1.0, 2.0],
            [0.0, np.nan, 2.0],
            [0.0, 1.0, np.inf],
            [0.0, np.nan, 2.0],
            [0.0, 1.0, 2.0],
            [0.0, 1.0, 2.0],
        ],
        np.float32,
    )
    cap = np.array([0.25, 1.0, 1.0, 1.0, 1.0, np.nan], np.float32)
    mask = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1]], bool)
    found = np.asarray(batched(project)(values, cap, mask))
    np.testing.assert_array_equal(found[0], [0.25] * 3)  # too small a cap: the caps themselves
    assert np.isnan(found[[1, 2, 5]]).all()
    assert found[3, 1] == 0
    np.testing.assert_allclose(found[3].sum(), 1, rtol=1e-6)  # NaN behind the mask does not count
    np.testing.assert_array_equal(found[4], np.zeros(3))  # an empty mask


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"cap": 0.3},
            (
                r"cap is too small: the caps of the 3 entries that count sum to 0.9, .* raise it to"
                r" 1 / 3 at least"
            ),
        ),
        ({"cap": [0.3, 0.3, 0.3]}, "cap is too small"),
        ({"cap": 0.4, "mask": [True, True, False]}, r"the 2 entries that count sum to 0.8"),
        ({"values": [0.0, 0.0, -np.inf], "cap": 0.4}, r"the 2 entries that count sum to 0.8"),
        ({"values": [-np.inf] * 3}, "give one entry a positive weight"),
        ({"cap": 0.0}, "cap is 0.0: caps are positive; use inf for no cap"),
        ({"cap": -1}, "cap is -1.0: caps are positive"),
        ({"cap": np.nan}, "cap is nan: caps are positive"),
        (
            {"cap": [1.0, -0.5, 1.0]},
            r"cap\[1\] is -0.5: caps are positive; .* 0 for an entry that stays 0",
        ),
        ({"cap": [[1.0]]}, r"cap has shape \[1, 1\]: expected shape \[3\]"),
        ({"cap": [1.0, 1.0]}, r"cap has shape \[2\]: expected shape \[3\]"),
        ({"cap": None}, "cap is None"),
        ({"mask": [False] * 3}, "mask is empty: keep one entry at least"),
        ({"mask": [1, 1, 1]}, "mask has dtype int"),
        ({"values": []}, "is empty: a distribution has one entry at least"),
        ({"values": [[0.0]]}, "expected shape"),
    ],
)
def test_known_values_are_refused(arguments, message):
    arguments = {"values": [0.0, 1.0, 2.0], "cap": 1.0, "mask": None} | arguments
    for project in (
        projections.kl_projection_capped_simplex,
        projections.projection_capped_simplex,
    ):
        with pytest.raises(ValueError, match=message):
            project(arguments["values"], arguments["cap"], mask=arguments["mask"])


def test_method_and_names_are_refused():
    with pytest.raises(
        ValueError, match="method is 'bisect': the options are 'auto', 'sort', 'newton'"
    ):
        projections.kl_projection_capped_simplex([0.0], 1.0, method="bisect")
    with pytest.raises(ValueError, match="log_weights has shape"):
        projections.kl_projection_capped_simplex(0.0, 1.0)
    with pytest.raises(ValueError, match="cap is too small"):  # known, though the logits are not
        jax.jit(lambda logits: projections.kl_projection_capped_simplex(logits, 0.1))(np.zeros(4))


@pytest.mark.slow
def test_caps_that_lack_only_rounding_are_accepted():
    for count in (7, 49):
        cap = np.float32(1) / np.float32(count)
        for method in METHODS:
            np.testing.assert_allclose(
                kl(method)(np.arange(count), cap), np.full(count, 1 / count), rtol=1e-6
            )


def test_new_values_compile_nothing(compilations):
    project = kl("newton")
    project(np.arange(11.0), 0.3)
    before = compilations()
    project(np.arange(11.0) ** 2, 0.7)
    assert compilations() == before


@pytest.mark.slow
def test_the_projections_of_optax_are_here():
    np.testing.assert_allclose(projections.projection_simplex(jnp.array([2.0, 0.5])), [1.0, 0.0])
    np.testing.assert_allclose(projections.projection_l1_ball(jnp.array([2.0, 0.0])), [1.0, 0.0])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("project", "expected"),
    [
        (projections.projection_simplex, [1.5, 0, 0]),
        (projections.projection_l1_ball, [1.25, 0, -0.25]),
    ],
)
def test_the_projections_of_optax_return_the_float_types_they_take(project, expected, wide):
    """With 64-bit types enabled, `projection_l1_ball` of float32 was a TypeError."""
    with jax.enable_x64(wide):
        for dtype in ("float32", "bfloat16", *(["float64"] if wide else [])):
            found = project(jnp.array([2.0, 0.5, -1.0], dtype), 1.5)
            assert found.dtype == dtype
            np.testing.assert_allclose(np.asarray(found, float), expected, atol=0.01)
        tree = {"one": jnp.array([2.0, 0.5], "float32"), "other": jnp.array([1], "int32")}
        found = project(tree)
        assert found["one"].dtype == "float32"
        assert found["other"].dtype == jnp.result_type(float)


@pytest.mark.slow
def test_newton_where_equal_caps_leave_nothing(x64):
    """1 - k * (1 / k) is 0 or a rounding of it, and must be the same wherever it is looked at."""
    random = np.random.default_rng(0)
    logs = np.full((99, 150), -np.inf)
    for index, size in enumerate(range(2, 101)):
        logs[index, : size + index % 7] = (
            random.normal(size=size + index % 7) * (1.0, 30.0, 1e4)[index % 3]
        )
    caps = 1 / np.arange(2.0, 101.0)
    found = {
        name: jax.vmap(
            lambda x, cap, name=name: projections.kl_projection_capped_simplex(x, cap, method=name)
        )(logs, caps)
        for name in ("sort", "newton")
    }
    np.testing.assert_allclose(found["newton"].sum(axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(found["newton"], found["sort"], atol=1e-15)


def test_kl_projection_by_sums_does_not_validate_arguments():
    for mask, cap, wanted in ((False, 1.0, 0.0), (True, 0.25, 0.25), (True, 1.0, 0.5)):
        found = projections.kl_projection_by_sums(jnp.zeros(2), jnp.array(cap), jnp.full(2, mask))
        np.testing.assert_array_equal(found, [wanted, wanted])


# --- Bregman projections --------------------------------------------------------------------------

MAPS = {
    "entropy": projections.entropy_map,
    "binary": projections.binary_entropy_map,
    "power1.5": lambda: projections.power_map(1.5),
    "power2": lambda: projections.power_map(2.0),
    "power4": lambda: projections.power_map(4.0),
    "own": lambda: projections.mirror_map(burg_gradient, burg_inverse, parameters=1.0),
}


def burg_gradient(scale, points):
    return -scale / points


def burg_inverse(scale, duals):
    return jnp.where(duals < 0, -scale / jnp.where(duals < 0, duals, -1.0), jnp.inf)


def potential(name, d):
    """h(d), summed over the last axis, by numpy."""
    if name == "entropy":
        return scipy.special.xlogy(d, d).sum(-1)
    if name == "binary":
        return (scipy.special.xlogy(d, d) + scipy.special.xlogy(1 - d, 1 - d)).sum(-1)
    if name == "own":
        with np.errstate(divide="ignore"):
            return -np.log(d).sum(-1)
    order = float(name.removeprefix("power"))
    return (d**order).sum(-1) / order


@functools.cache
def bregman_cases():
    rng = np.random.default_rng(41)
    values = rng.normal(size=(12, 6)) * 10.0 ** rng.uniform(-2, 1, (12, 1))
    values[3:5] = values[3:5].round()  # ties
    caps = rng.uniform(0.17, 0.6, (12, 1)) * np.ones((1, 6))
    caps[::4] = np.inf
    caps[1::4] *= rng.uniform(1, 2, (3, 6))
    return values, caps


@pytest.mark.parametrize("name", slow_but(MAPS, "own"))
def test_bregman_projections_beat_all_points_around_them(name, x64):
    """argmin of h(d) - <theta, d>, which is B_h(d || grad h*(theta)) up to a constant."""
    values, caps = bregman_cases()
    mirror = MAPS[name]()
    project = jax.jit(jax.vmap(lambda v, c: projections.bregman_projection(v, mirror, c)))
    found = np.asarray(project(values, caps))
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    assert np.all(found >= 0)
    assert np.all(found <= caps)
    rng = np.random.default_rng(42)
    for theta, cap, d in zip(values, caps, found, strict=True):
        moves = rng.normal(size=(6000, 6)) * 10.0 ** rng.uniform(-6, 0, (6000, 1))
        moves *= rng.random((6000, 6)) < 0.5
        around = d + moves - moves.mean(axis=1, keepdims=True)
        around = around[np.all((around >= 0) & (around <= cap), axis=1)]
        others = np.minimum(rng.dirichlet(np.ones(6), 500), cap)
        around = np.concatenate([around, others[np.abs(others.sum(axis=1) - 1) < 1e-12]])
        assert len(around) > 20
        best = potential(name, d) - theta @ d
        assert np.min(potential(name, around) - around @ theta) >= best - 1e-11 * (1 + abs(best))


@pytest.mark.slow
def test_bregman_projections_are_those_of_their_own_functions(x64):
    values, caps = bregman_cases()
    for name, other in (
        ("entropy", projections.kl_projection_capped_simplex),
        ("power2", projections.projection_capped_simplex),
    ):
        mirror = MAPS[name]()
        found = jax.vmap(lambda v, c, mirror=mirror: projections.bregman_projection(v, mirror, c))(
            values, caps
        )
        np.testing.assert_allclose(found, jax.vmap(other)(values, caps), atol=1e-12)


@pytest.mark.parametrize("name", slow_but(MAPS, "power4"))
def test_bregman_projections_in_float32_with_padding(name):
    values, caps = bregman_cases()
    mirror = MAPS[name]()
    project = jax.jit(
        jax.vmap(lambda v, c, kept: projections.bregman_projection(v, mirror, c, mask=kept))
    )
    clean = project(values.astype(np.float32), caps, np.ones((12, 6), bool))
    padded = project(
        np.concatenate([values, np.full((12, 2), np.nan)], axis=1).astype(np.float32),
        np.concatenate([caps, np.full((12, 2), np.nan)], axis=1),
        np.arange(8) < np.full((12, 1), 6),
    )
    assert clean.dtype == np.float32
    np.testing.assert_allclose(np.sum(clean, axis=1, dtype=float), 1, atol=1e-6)
    assert not np.any(padded[:, 6:])
    np.testing.assert_allclose(padded[:, :6], clean, atol=2e-7)
    with jax.enable_x64(True):
        fine = jax.vmap(lambda v, c: projections.bregman_projection(v, MAPS[name](), c))(
            values.astype(np.float32).astype(float), caps.astype(np.float32).astype(float)
        )
    np.testing.assert_allclose(clean, fine, atol=2e-4 if name == "power4" else 3e-6)


@pytest.mark.parametrize("name", slow_but(["binary", "power1.5", "own"], "binary"))
def test_bregman_projections_have_the_derivatives_of_differences(name, x64):
    values, caps = (part[[1, 4, 6]] for part in bregman_cases())
    steps = np.random.default_rng(43).normal(size=(2, 3, 6)) * [[[1.0]], [[0.05]]]
    mirror = MAPS[name]()

    def run(values, caps):
        return jax.vmap(lambda v, c: projections.bregman_projection(v, mirror, c))(values, caps)

    _, slope = jax.jvp(run, (values, caps), tuple(steps))
    ends = [run(values + t * steps[0], caps + t * steps[1]) for t in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, atol=1e-6)
    weights = np.cos(np.arange(18.0)).reshape(3, 6)
    gradient = jax.grad(lambda *parts: jnp.sum(weights * run(*parts)), argnums=(0, 1))(values, caps)
    total = sum(float(np.sum(g * step)) for g, step in zip(gradient, steps, strict=True))
    assert abs(total - float(np.sum(weights * slope))) < 1e-9


@pytest.mark.slow
def test_bregman_projections_differentiate_in_their_parameters(x64):
    theta = jnp.array([0.7, 0.2, -0.4, 0.1])
    for make, at in (
        (projections.power_map, 3.0),
        (lambda p: projections.mirror_map(burg_gradient, burg_inverse, parameters=p), 0.8),
    ):

        def run(number, make=make):
            return projections.bregman_projection(theta, make(number), 0.6)[0]

        difference = (run(at + 1e-6) - run(at - 1e-6)) / 2e-6
        assert abs(float(jax.grad(run)(at)) - float(difference)) < 1e-7


def test_bregman_projections_differentiate_where_a_capped_entry_overflows():
    """exp(200) is inf in float32. The free entries are a softmax that sums to 1/2."""
    theta = jnp.array([200.0, 0.0, 0.1], jnp.float32)

    def run(theta, cap):
        return projections.bregman_projection(theta, projections.entropy_map(), cap)

    value, pull = jax.vjp(run, theta, jnp.full(3, 0.5, jnp.float32))
    share = 1 / (1 + np.exp(-0.1))
    np.testing.assert_allclose(value, [0.5, 0.5 * (1 - share), 0.5 * share], atol=1e-6)
    moved, by_cap = pull(jnp.array([0.0, 0.0, 1.0], jnp.float32))
    slope = 0.5 * share * (1 - share)
    np.testing.assert_allclose(moved, [0.0, -slope, slope], atol=1e-6)
    np.testing.assert_allclose(by_cap, [-share, 0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("name", slow_but(MAPS, "power4"))
def test_bregman_projections_of_few_entries_and_tight_caps(name):
    mirror, nothing = MAPS[name](), -np.inf
    project = functools.partial(projections.bregman_projection, mirror=mirror)
    assert project(jnp.array([-3.0])).tolist() == [1.0]
    assert project(jnp.array([2.0, 2.0]), cap=0.5).tolist() == [0.5, 0.5]
    assert project(jnp.array([0.5, nothing, 0.5])).tolist() == [0.5, 0.0, 0.5]
    np.testing.assert_array_equal(
        jax.jit(lambda v, c: project(v, cap=c))(jnp.zeros(3), jnp.full(3, 0.25)), 0.25
    )
    far = project(jnp.array([1e6, 0.0, -1e6]), cap=0.75)
    np.testing.assert_allclose(far, [0.75, 0.25, 0.0], atol=2e-6)
    assert np.all(np.isnan(jax.jit(project)(jnp.array([np.nan, 0.0]))))
    assert not np.any(jax.jit(project)(jnp.zeros(2), mask=np.zeros(2, bool)))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("order", [6.0, 10.0, 20.0])
def test_projections_of_flat_powers_have_sum_one(order, x64):
    """In 64 bits, a distribution is the projection of its own dual point; in 32 bits small dual
    points are rounded to 0.
    """
    rng = np.random.default_rng(6)
    with jax.enable_x64(x64):
        mirror = projections.power_map(order)
        project = jax.jit(jax.vmap(lambda theta: projections.bregman_projection(theta, mirror)))
        duals = jnp.asarray(rng.normal(size=(100, 3)))
        found = np.asarray(project(duals), np.float64)
        is_told = np.isfinite(found).all(axis=1)
        assert is_told.mean() >= (0.9 if order > 10 and not x64 else 1)
        found, duals = found[is_told], duals[is_told]
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
        nu = np.max(np.asarray(duals) - found ** (order - 1), axis=1)  # of an entry above 0
        expected = np.maximum(np.asarray(duals, np.float64) - nu[:, None], 0) ** (1 / (order - 1))
        near = 4e-4 if order > 10 and not x64 else 1e-5
        np.testing.assert_allclose(expected.max(axis=1), found.max(axis=1), atol=near)
        if x64:
            points = jnp.asarray(rng.dirichlet(np.ones(3), 100))
            np.testing.assert_allclose(project(mirror.gradient(points)), points, atol=1e-9)


def test_projection_without_a_level_of_sum_one_is_nan():
    """Weights of power 400 are too small for a float."""
    mirror = projections.power_map(400.0)
    theta = jnp.array([0.7, 0.2])
    assert np.isnan(projections.bregman_projection(theta, mirror)).all()
    slope = jax.grad(lambda theta: projections.bregman_projection(theta, mirror)[0])(theta)
    assert np.isnan(slope).all()


@pytest.mark.parametrize("size", [1e8, 1e12, 1e30])
def test_projections_of_large_entries_have_sum_one(size):
    squares = functools.partial(projections.bregman_projection, mirror=projections.power_map(2.0))
    for function in (projections.projection_capped_simplex, squares):
        project = functools.partial(function, cap=0.75)
        np.testing.assert_array_equal(project(jnp.array([size, 1.0, 0.0]))[0], 0.75)
        np.testing.assert_allclose(project(jnp.array([size, 1.0, 0.0])).sum(), 1)
        np.testing.assert_array_equal(project(jnp.array([size, size, -size])), [0.5, 0.5, 0])


def test_binary_entropies_whose_capped_entries_nearly_exhaust_the_weight():
    theta = jnp.array([1.0418, -22.3308, -38.5972])
    mirror = projections.binary_entropy_map()
    found = projections.bregman_projection(theta, mirror, 0.5)
    np.testing.assert_allclose(found, [0.5, 0.5, 8.6e-8], atol=2e-7)


def test_bregman_projections_name_bad_arguments():
    power = projections.power_map(3.0)
    for message, build in (
        ("mirror is a PjitFunction", lambda: projections.bregman_projection(jnp.ones(2), jnp.exp)),
        ("order is 1", lambda: projections.power_map(1.0)),
        ("gradient is a int", lambda: projections.mirror_map(3, burg_inverse)),
        (
            "parameters holds a str",
            lambda: projections.mirror_map(burg_gradient, burg_inverse, parameters="a"),
        ),
        ("dual_point is empty", lambda: projections.bregman_projection(jnp.ones(0), power)),
        ("cap", lambda: projections.bregman_projection(jnp.ones(2), power, 0.2)),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            build()


@pytest.mark.parametrize("offset", [1e3, 1e5, 1e7])
def test_bregman_projections_do_not_depend_on_a_common_offset(offset):
    """The rounding of the dual points is the same in both; that of the level must not add to it."""
    values = np.float32(offset + np.arange(6))
    found = projections.bregman_projection(values, projections.binary_entropy_map())
    near = projections.bregman_projection(
        values - np.float32(offset), projections.binary_entropy_map()
    )
    np.testing.assert_allclose(found, near, atol=1e-6)
