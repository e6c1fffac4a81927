"""Robust losses: against closed forms in extended precision and linear programs, finite
differences, and on a mesh.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jboost
from jboost import losses, relaxations
from jboost.base.status import Status
from marks import slow, slow_but
from test_relaxations import FACTORIES, least, random_margins, random_parameters, random_prior

SIZE = 24
EXACT = [name for name in FACTORIES if name not in ("quadratic", "offset")]
SMOOTH = (
    "penalty2",
    "entropy",
    "chi2penalty",
    "klball",
    "klpenalty",
    "ball2",
    "chi2ball",
    "ball3",
    "penalty1.5",
)
# relaxations with a number in units of the losses, the last one
SCALED = ("penalty1", "penalty2", "penaltyinf", "entropy", "chi2penalty", "klpenalty", "penalty1.5")
PARAMETERS = {
    "hard": (),
    "cap": (0.4,),
    "nu": (0.4,),
    "ball1": (1.3,),
    "ball2": (0.6,),
    "ball3": (0.5,),
    "penalty1.5": (0.5,),
    "penalty1": (0.4,),
    "penalty2": (0.5,),
    "penaltyinf": (0.7,),
    "entropy": (0.45, 0.6),
    "chi2ball": (0.6,),
    "chi2penalty": (0.4,),
    "klball": (0.3,),
    "klpenalty": (0.5,),
}


def relaxation_of(name, parameters):
    return FACTORIES[name](*parameters)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param is np.float64):
        yield request.param


# --- values ---------------------------------------------------------------------------------------


def random_batch(name, num_cases, dtype):
    """Losses, weights and parameters [num_cases, ...] of examples that end in padding, and the
    exact worst case of each.
    """
    rng = np.random.default_rng(11)
    padded, sizes, given, exact = [], [], [], []
    for index in range(num_cases):
        size = int(rng.integers(1, SIZE + 1))
        margins = random_margins(
            rng, size, ["uniform", "equal", "ties", "close", "votes"][index % 5]
        ).astype(dtype)
        prior = random_prior(rng, size, rng.choice(["equal", "random", "unequal"])).astype(dtype)
        parameters = tuple(dtype(each) for each in random_parameters(rng, name, size))
        wide = prior.astype(np.longdouble)
        exact.append(
            -least(
                name,
                tuple(map(np.longdouble, parameters)),
                margins.astype(np.longdouble),
                wide / wide.sum(),
            )
        )
        padded.append(np.concatenate([-margins, np.full(SIZE - size, np.nan, dtype)]))
        sizes.append(np.concatenate([prior, np.zeros(SIZE - size, dtype)]))
        given.append(parameters)
    columns = [jnp.asarray(np.array(column, dtype)) for column in zip(*given, strict=True)]
    return jnp.asarray(np.array(padded)), jnp.asarray(np.array(sizes)), columns, np.array(exact)


def assert_exact(name, num_cases, dtype):
    batch, sizes, parameters, exact = random_batch(name, num_cases, dtype)

    def solve(batch, sizes, *parameters):
        found = losses.solve_worst_case(
            batch, relaxation_of(name, parameters), weights=sizes, mask=sizes > 0
        )
        gradient = jax.grad(
            lambda each: losses.worst_case(
                each, relaxation_of(name, parameters), weights=sizes, mask=sizes > 0
            )
        )(batch)
        return found, gradient

    found, gradient = jax.jit(jax.vmap(solve))(batch, sizes, *parameters)
    is_possible = np.isfinite(exact)
    assert (np.asarray(found.status)[is_possible] == int(Status.OPTIMAL)).all()
    scale = (
        np.maximum(1.0, np.asarray(parameters[-1]))
        if parameters and ("penalty" in name or name == "entropy")
        else 1.0
    )
    tolerance = 4e-6 if dtype == np.float32 else 1e-11
    gap = np.abs(np.asarray(found.value, np.longdouble) - exact) / scale
    assert gap[is_possible].max() <= tolerance
    weights = np.asarray(found.example_weights, np.float64)[is_possible]
    assert np.abs(weights.sum(axis=1) - 1).max() <= 100 * np.finfo(dtype).eps
    assert (weights >= 0).all()
    assert (weights[np.asarray(sizes)[is_possible] == 0] == 0).all()
    np.testing.assert_array_equal(
        np.asarray(gradient)[is_possible], np.asarray(found.example_weights)[is_possible]
    )
    if name not in ("cap", "nu", "ball2", "ball3"):
        assert is_possible.all()


@pytest.mark.parametrize("name", slow_but(EXACT, "hard", "nu", "ball2", "klball"))
def test_worst_case_is_the_exact_maximum(name, dtype):
    assert_exact(name, 200, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_worst_case_is_the_exact_maximum_in_ten_thousand_cases(name, dtype):
    assert_exact(name, 10_000, dtype)


def test_chi_square_of_a_small_radius_and_very_unequal_weights():
    """Against the linear case of two examples, mean + sqrt(radius) deviations, and the least mean
    that keeps the radius.
    """
    heavy = losses.chi_square_dro(
        jnp.array([5.0, 0, 0, 0, 0, 0, 0, -1.0]),
        1e-8,
        weights=jnp.array([1e-12, 1e12, 1, 1e6, 1e-6, 1, 0, 3.0]),
    )
    assert 0 <= float(heavy) <= 1e-9
    values, sizes = (
        np.array([0.3, -1.2, 0.4, 2.0], np.float32),
        np.array([1.0, 1e3, 2.0, 5e-2], np.float32),
    )
    prior = sizes.astype(np.float64) / sizes.sum(dtype=np.float64)
    for radius in (1e-7, 1e-5, 1e-3, 1e-1):
        exact = -least(
            "chi2ball",
            (np.longdouble(np.float32(radius)),),
            -values.astype(np.longdouble),
            prior.astype(np.longdouble),
        )
        assert (
            abs(float(losses.chi_square_dro(values, radius, weights=sizes)) - float(exact)) <= 1e-6
        )


def test_cvar_equals_a_linear_program_and_the_mean_of_the_worst(x64):
    rng = np.random.default_rng(3)
    for nu in (0.1, 0.37, 1.0):
        values, sizes = rng.normal(size=12), rng.uniform(0.5, 2, 12)
        prior = sizes / sizes.sum()
        program = scipy.optimize.linprog(
            -values,
            A_eq=np.ones((1, 12)),
            b_eq=[1],
            bounds=[(0, p / nu) for p in prior],
            method="highs",
        )
        assert abs(float(losses.cvar(values, nu, weights=sizes)) + program.fun) <= 1e-12
    for k in (1, 3, 12):
        assert abs(float(losses.mean_of_worst(values, k)) - np.sort(values)[-k:].mean()) <= 1e-12


def test_named_losses_are_worst_cases_of_their_relaxations():
    values = jnp.asarray(np.random.default_rng(4).normal(size=SIZE), jnp.float32)
    pairs = [
        (losses.cvar(values, 0.3), relaxations.soft_margin(nu=0.3)),
        (losses.chi_square_dro(values, 0.7), relaxations.chi_square_ball(0.7)),
        (losses.kl_dro(values, 0.2), relaxations.kl_ball(0.2)),
        (losses.kl_dro(values, scale=0.2), relaxations.kl_penalty(0.2)),
    ]
    for value, relaxation in pairs:
        assert float(value) == float(losses.worst_case(values, relaxation))
    tilted = 0.2 * np.log(np.mean(np.exp(np.asarray(values, np.float64) / 0.2)))
    assert abs(float(pairs[3][0]) - tilted) <= 1e-6
    spread = np.asarray(values, np.float64)
    small = losses.chi_square_dro(values, 1e-3)
    assert abs(float(small) - (spread.mean() + np.sqrt(1e-3) * spread.std())) <= 1e-6


def test_the_adversary_of_a_relaxation_of_ones_own():
    def value(scale, d, prior):
        return scale * jnp.sum(jnp.where(prior > 0, d * d, 0.0)) / 2

    def conjugate(scale, z, prior):
        return jnp.sum(z * z) / (2 * scale)

    def argmin(scale, margins, strength, prior):
        return prior * jnp.exp((jnp.min(margins) - margins) / strength)

    relaxation = relaxations.from_functions(value, conjugate, argmin, parameters=2.0)
    values = jnp.array([0.3, 1.0, -0.5])
    found = losses.solve_worst_case(values, relaxation)
    theta = (1.3 - 2.0) / 2  # two are active: sum of (loss - theta) / 2 is 1
    expected = np.array([0.3 - theta, 1.0 - theta, 0.0]) / 2
    np.testing.assert_allclose(found.example_weights, expected, atol=2e-4)
    assert abs(float(found.value) - (expected @ np.asarray(values) - expected @ expected)) <= 1e-6


# --- derivatives ----------------------------------------------------------------------------------


def both_of(name, is_smoothed):
    """The worst case and the weights that attain it, [1 + m], of parameters, losses, smoothing and
    weights of the examples.
    """

    def both(parameters, values, smoothing, sizes):
        options = {"smoothing": smoothing} if is_smoothed else {}
        found = losses.solve_worst_case(
            values, relaxation_of(name, parameters), weights=sizes, **options
        )
        return jnp.concatenate([found.value[None], found.example_weights])

    return both


def difference(function, arguments, position, step=1e-6):
    """Central differences of a function of one of its arguments, the last axis that of
    its entries.
    """
    leaves, structure = jax.tree.flatten(arguments[position])
    columns = []
    for index, leaf in enumerate(leaves):
        base = np.asarray(leaf, np.float64)
        for entry in range(base.size):
            sides = []
            for sign in (1, -1):
                moved = base.copy().reshape(-1)
                moved[entry] += sign * step
                changed = [*leaves]
                changed[index] = jnp.asarray(moved.reshape(base.shape))
                given = [*arguments]
                given[position] = jax.tree.unflatten(structure, changed)
                sides.append(np.asarray(function(*given)))
            columns.append((sides[0] - sides[1]) / (2 * step))
    return np.stack(columns, axis=-1) if columns else np.zeros((*np.shape(function(*arguments)), 0))


def flat(derivative, leading=()):
    leaves = [np.asarray(leaf).reshape(*leading, -1) for leaf in jax.tree.leaves(derivative)]
    return np.concatenate(leaves, axis=-1) if leaves else np.zeros((*leading, 0))


@pytest.mark.parametrize("smoothing", [0.0, 0.3], ids=["exact", "smoothed"])
@pytest.mark.parametrize("name", slow_but(EXACT, "nu"))
def test_derivatives_are_finite_differences(name, smoothing, x64):
    rng = np.random.default_rng(5)
    parameters = tuple(jnp.asarray(each) for each in PARAMETERS[name])
    values, sizes = jnp.asarray(rng.normal(size=7)), jnp.asarray(rng.uniform(0.5, 1.5, 7))
    arguments = (parameters, values, jnp.asarray(smoothing), sizes)
    both = both_of(name, smoothing > 0)
    run = jax.jit(both)
    for differentiate in (jax.jacrev, jax.jacfwd):
        found = jax.jit(differentiate(both, (0, 1, 2, 3)))(*arguments)
        for position in (0, 1, 2, 3) if smoothing else (0, 1, 3):
            expected = difference(run, arguments, position)
            np.testing.assert_allclose(flat(found[position], (8,)), expected, atol=1e-6)
        np.testing.assert_allclose(found[1][0], run(*arguments)[1:], atol=1e-13)


@pytest.mark.parametrize("name", slow_but(EXACT, "klpenalty"))
def test_hessians_are_those_of_the_weights_and_gradients_are_batched(name, x64):
    parameters = tuple(jnp.asarray(each) for each in PARAMETERS[name])
    values = jnp.asarray(np.random.default_rng(6).normal(size=(2, 7)))

    def value(values):
        return losses.worst_case(values, relaxation_of(name, parameters))

    def adversary(values):
        return losses.worst_case_weights(values, relaxation_of(name, parameters))

    hessian, slopes = (
        jax.jit(jax.hessian(value))(values[0]),
        jax.jit(jax.vmap(jax.grad(value)))(values),
    )
    run = jax.jit(adversary)
    np.testing.assert_allclose(hessian, difference(run, (values[0],), 0), atol=1e-6)
    for row, slope in zip(values, slopes, strict=True):
        np.testing.assert_allclose(slope, run(row), atol=1e-13)


@pytest.mark.parametrize("name", slow_but(SMOOTH, "klpenalty"))
def test_mixed_second_derivatives_are_those_of_the_gradient(name, x64):
    parameters = tuple(jnp.asarray(each) for each in PARAMETERS[name])
    values = jnp.asarray(np.random.default_rng(6).normal(size=7))

    def value(parameters, values):
        return losses.worst_case(values, relaxation_of(name, parameters))

    gradient = jax.jit(jax.grad(value, (0, 1)))
    both = jax.jit(jax.jacfwd(gradient, (0, 1)))(parameters, values)
    for position in (0, 1):
        for row, part in enumerate(both):
            expected = difference(
                lambda *given, row=row: flat(gradient(*given)[row]), (parameters, values), position
            )
            rows = (
                [flat(each[position]) for each in part]
                if row == 0
                else list(flat(part[position], (7,)))
            )
            np.testing.assert_allclose(np.stack(rows), expected, atol=2e-5)


@pytest.mark.slow
def test_gradient_through_scan_and_checkpoint_moves_towards_a_minimum(x64):
    rng = np.random.default_rng(7)
    inputs, targets = jnp.asarray(rng.normal(size=(16, 3))), jnp.asarray(rng.normal(size=16))

    def loss(params):
        return losses.cvar((inputs @ params - targets) ** 2, 0.25, smoothing=0.05)

    def train(start, loss):
        def step(params, _):
            return params - 0.05 * jax.grad(loss)(params), loss(params)

        return jax.lax.scan(step, start, length=20)

    (_, plain), (_, again) = (
        jax.jit(functools.partial(train, loss=each))(jnp.zeros(3))
        for each in (loss, jax.checkpoint(loss))
    )
    assert plain[-1] < 0.9 * plain[0]
    np.testing.assert_allclose(plain, again, rtol=1e-12)
    slope = jax.jit(jax.grad(lambda start: train(start, loss)[1][-1]))
    expected = difference(lambda start: train(start, loss)[1][-1], (jnp.ones(3),), 0)
    np.testing.assert_allclose(slope(jnp.ones(3)), expected, atol=1e-5)


# --- dtypes, padding, bad input -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nu", "klball"])
def test_bfloat16_losses_are_accumulated_in_float32(name):
    rng = np.random.default_rng(8)
    values = jnp.asarray(rng.normal(size=512), jnp.bfloat16)
    relaxation = relaxation_of(name, PARAMETERS[name])
    with jax.numpy_dtype_promotion("strict"):
        value, gradient = jax.value_and_grad(lambda each: losses.worst_case(each, relaxation))(
            values
        )
    wide = losses.solve_worst_case(values.astype(jnp.float32), relaxation)
    assert (value.dtype, gradient.dtype) == (jnp.bfloat16, jnp.bfloat16)
    assert value == wide.value.astype(jnp.bfloat16)
    np.testing.assert_array_equal(gradient, wide.example_weights.astype(jnp.bfloat16))


@pytest.mark.parametrize("name", slow_but(EXACT, "nu", "klball"))
def test_broken_input_gives_nan_and_a_status(name):
    relaxation = relaxation_of(name, PARAMETERS[name])
    sound = np.array([0.5, 1.0, -0.3, 0.2], np.float32)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0, 0))
    def solve(values, sizes, mask):
        found = losses.solve_worst_case(values, relaxation, weights=sizes, mask=mask)
        return found, jax.grad(
            lambda each: losses.worst_case(each, relaxation, weights=sizes, mask=mask)
        )(values)

    values, sizes, masks = (
        np.tile(sound, (6, 1)),
        np.ones((6, 4), np.float32),
        np.ones((6, 4), bool),
    )
    values[0, 1], values[1, 1], values[2, 1] = np.nan, -np.inf, np.inf
    sizes[3, 1], masks[4] = -1.0, False
    values[5, 3], masks[5, 3] = np.nan, False  # padding may hold anything
    found, gradient = solve(values, sizes, masks)
    assert found.status.tolist() == [int(Status.INVALID_INPUT)] * 5 + [int(Status.OPTIMAL)]
    assert np.isnan(found.value[jnp.array([0, 1, 3, 4])]).all()
    assert found.value[2] == np.inf
    assert np.isnan(gradient[:5]).all()
    assert np.isfinite(found.value[5])
    assert gradient[5, 3] == 0


def test_a_cap_that_no_distribution_meets_is_an_error_or_nan():
    values = jnp.array([1.0, 2.0])
    with pytest.raises(ValueError, match=r"allows no distribution over 2 examples: raise its cap"):
        losses.worst_case(values, relaxations.soft_margin(0.4))
    traced = jax.jit(lambda cap: losses.solve_worst_case(values, relaxations.soft_margin(cap)))(0.4)
    assert np.isnan(traced.value)
    assert int(traced.status) == int(Status.INFEASIBLE)


@pytest.mark.parametrize(
    "message, call",
    [
        (
            r"losses has shape \[1, 2\]: expected shape \[m\]",
            lambda: losses.cvar(jnp.ones((1, 2)), 0.5),
        ),
        ("losses is empty", lambda: losses.cvar(jnp.ones(0), 0.5)),
        ("mask is empty", lambda: losses.cvar(jnp.ones(2), 0.5, mask=jnp.zeros(2, bool))),
        (r"weights has shape \[3\]", lambda: losses.cvar(jnp.ones(2), 0.5, weights=jnp.ones(3))),
        (
            r"weights\[1\] is -1",
            lambda: losses.cvar(jnp.ones(2), 0.5, weights=jnp.array([1.0, -1.0])),
        ),
        ("nu is 0", lambda: losses.cvar(jnp.ones(2), 0.0)),
        (
            "k is 3: expected at most the number of losses, 2",
            lambda: losses.mean_of_worst(jnp.ones(2), 3),
        ),
        ("radius is -1", lambda: losses.chi_square_dro(jnp.ones(2), -1.0)),
        ("radius and scale: give exactly one", lambda: losses.kl_dro(jnp.ones(2))),
        ("smoothing is -1", lambda: losses.cvar(jnp.ones(2), 0.5, smoothing=-1.0)),
        ("relaxation is a float", lambda: losses.worst_case(jnp.ones(2), 0.5)),
        (
            "groups holds 2: expected integers from 0 to 1",
            lambda: losses.group_dro(jnp.ones(2), jnp.array([0, 2]), 2, relaxations.hard_margin()),
        ),
        (
            "num_groups is 0",
            lambda: losses.group_dro(jnp.ones(2), jnp.zeros(2, int), 0, relaxations.hard_margin()),
        ),
        (
            "labels hold other numbers",
            lambda: losses.soft_margin_loss(jnp.ones(2), jnp.array([0, 1]), nu=0.5),
        ),
        (
            "labels hold classes out of range",
            lambda: losses.soft_margin_loss(jnp.ones((2, 3)), jnp.array([0, 3]), nu=0.5),
        ),
        (
            "logits has 1 columns",
            lambda: losses.max_of_others_margins(jnp.ones((2, 1)), jnp.zeros(2, int)),
        ),
    ],
)
def test_bad_arguments_of_losses_are_named(message, call):
    with pytest.raises(ValueError, match=message):
        call()


# --- groups and margins ---------------------------------------------------------------------------


def test_group_dro_is_the_worst_case_of_group_means(x64):
    rng = np.random.default_rng(9)
    values, groups, sizes = rng.normal(size=20), rng.integers(0, 4, 20), rng.uniform(0.5, 2, 20)
    means = np.array(
        [np.average(values[groups == g], weights=sizes[groups == g]) for g in range(4)]
    )

    def loss(values, relaxation):
        # two groups are empty
        return losses.group_dro(
            values, jnp.asarray(groups), 6, relaxation, weights=jnp.asarray(sizes)
        )

    assert abs(float(loss(values, relaxations.hard_margin())) - means.max()) <= 1e-12
    assert (
        abs(float(loss(values, relaxations.soft_margin(nu=0.5))) - np.sort(means)[-2:].mean())
        <= 1e-12
    )
    gradient = jax.grad(loss)(jnp.asarray(values), relaxations.soft_margin(nu=0.5))
    np.testing.assert_allclose(
        gradient,
        difference(lambda v: loss(v, relaxations.soft_margin(nu=0.5)), (jnp.asarray(values),), 0),
        atol=1e-7,
    )
    outside = jax.jit(
        lambda groups: losses.group_dro(values, groups, 4, relaxations.hard_margin())
    )(jnp.asarray(groups) + 1)
    assert np.isnan(outside)


def test_margins_of_logits_are_those_of_a_loop():
    rng = np.random.default_rng(10)
    logits, labels = rng.normal(size=(9, 4)).astype(np.float32), rng.integers(0, 4, 9)
    others = [
        row[label] - np.delete(row, label).max() for row, label in zip(logits, labels, strict=True)
    ]
    each = np.array(
        [
            [value if j == label else -value for j, value in enumerate(row)]
            for row, label in zip(logits, labels, strict=True)
        ]
    )
    np.testing.assert_allclose(losses.max_of_others_margins(logits, labels), others, rtol=1e-6)
    np.testing.assert_array_equal(losses.one_vs_rest_margins(logits, labels), each)
    assert (
        abs(float(losses.soft_margin_loss(logits, labels, nu=1 / 3)) + np.sort(others)[:3].mean())
        <= 1e-6
    )
    loss = losses.soft_margin_loss(logits, labels, nu=0.25, margins=losses.one_vs_rest_margins)
    assert abs(float(loss) + np.sort(each.ravel())[:9].mean()) <= 1e-6
    kept = losses.soft_margin_loss(
        logits, labels, nu=1.0, mask=np.arange(9) < 4, margins=losses.one_vs_rest_margins
    )
    assert abs(float(kept) + each[:4].mean()) <= 1e-6
    signs = np.where(labels > 1, 1, -1)
    binary = losses.soft_margin_loss(logits[:, 0], signs, nu=1.0, weights=np.arange(9.0))
    assert abs(float(binary) + np.average(signs * logits[:, 0], weights=np.arange(9.0))) <= 1e-6
    assert np.isnan(jax.jit(losses.max_of_others_margins)(logits, labels + 1)).any()


def test_max_of_others_margins_of_many_examples_are_nan_where_a_logit_is():
    logits, labels = np.zeros((2000, 3), np.float32), np.zeros(2000, int)
    logits[5, 2] = np.nan
    found = np.asarray(jax.jit(losses.max_of_others_margins)(logits, labels))
    assert np.isnan(found[5])
    assert not np.isnan(np.delete(found, 5)).any()


# --- several devices ------------------------------------------------------------------------------


def mesh_of(kind):
    return jax.make_mesh((8,), ("examples",), axis_types=(kind,))


@pytest.mark.parametrize("smoothing", [0.0, 0.3], ids=["exact", "smoothed"])
@pytest.mark.parametrize("name", slow_but(EXACT, "nu"))
def test_worst_case_in_shard_map_is_that_of_one_device(name, smoothing):
    rng = np.random.default_rng(12)
    values, sizes = (
        rng.normal(size=64).astype(np.float32),
        rng.uniform(0.5, 1.5, 64).astype(np.float32),
    )
    mask = rng.random(64) < 0.9
    relaxation = relaxation_of(name, {"ball2": (0.2,), "ball3": (0.1,)}.get(name, PARAMETERS[name]))
    part, whole = PartitionSpec("examples"), PartitionSpec()

    def local(values, sizes, mask, axis_name=None):
        def loss(values):
            return losses.worst_case(
                values,
                relaxation,
                smoothing=smoothing,
                weights=sizes,
                mask=mask,
                axis_name=axis_name,
            )

        return jax.value_and_grad(loss)(values)

    spread = jax.jit(
        jax.shard_map(
            functools.partial(local, axis_name="examples"),
            mesh=mesh_of(AxisType.Auto),
            in_specs=(part, part, part),
            out_specs=(whole, part),
        )
    )
    value, gradient = spread(values, sizes, mask)
    expected, alone = jax.jit(local)(values, sizes, mask)
    assert abs(float(value - expected)) <= 2e-6
    np.testing.assert_allclose(gradient, alone, atol=2e-6)
    assert "all-gather" not in spread.lower(values, sizes, mask).compile().as_text()


def test_group_dro_in_shard_map_is_that_of_one_device():
    rng = np.random.default_rng(13)
    values, groups = rng.normal(size=64).astype(np.float32), rng.integers(0, 5, 64)
    part = PartitionSpec("examples")
    loss = functools.partial(losses.group_dro, num_groups=5, relaxation=relaxations.kl_ball(0.2))
    spread = jax.shard_map(
        functools.partial(loss, axis_name="examples"),
        mesh=mesh_of(AxisType.Auto),
        in_specs=(part, part),
        out_specs=PartitionSpec(),
    )
    assert abs(float(jax.jit(spread)(values, groups) - loss(values, groups))) <= 1e-6


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def test_sharded_losses_outside_shard_map_are_those_of_one_device(kind):
    values = np.random.default_rng(14).normal(size=64).astype(np.float32)
    mesh = mesh_of(kind)
    spread = jax.device_put(values, NamedSharding(mesh, PartitionSpec("examples")))
    for found in (losses.cvar(spread, 0.3), jax.jit(lambda each: losses.cvar(each, 0.3))(spread)):
        assert abs(float(found) - float(losses.cvar(values, 0.3))) <= 1e-6


def test_ones_own_relaxation_refuses_an_axis():
    relaxation = relaxations.from_functions(
        lambda p, d, q: 0.0, lambda p, z, q: 0.0, lambda p, m, s, q: q
    )
    run = functools.partial(losses.worst_case, relaxation=relaxation, axis_name="examples")
    spread = jax.shard_map(
        run,
        mesh=mesh_of(AxisType.Auto),
        in_specs=PartitionSpec("examples"),
        out_specs=PartitionSpec(),
    )
    with pytest.raises(ValueError, match="axis_name is 'examples'"):
        spread(jnp.ones(8))


def test_large_batches_take_sums_instead_of_a_sort():
    """From 65,536 losses on."""
    values = np.random.default_rng(15).normal(size=1 << 16).astype(np.float32)
    worst = np.sort(values.astype(np.float64))[-6553:].mean()
    assert abs(float(losses.mean_of_worst(values, 6553)) - worst) <= 1e-6
    text = jax.jit(lambda each: losses.mean_of_worst(each, 6553)).lower(values).as_text()
    assert "sort" not in text


def test_exported_losses_lower_for_accelerators():
    def loss(values):
        return losses.worst_case(values, relaxations.soft_margin(nu=0.3))

    for platform in ("cuda", "tpu"):
        exported = jax.export.export(jax.jit(jax.grad(loss)), platforms=[platform])(
            jax.ShapeDtypeStruct((128,), jnp.float32)
        )
        assert exported.out_avals[0].shape == (128,)


def test_public_names_of_losses_are_reachable():
    assert jboost.losses.worst_case is losses.worst_case
    assert math.isclose(
        float(losses.worst_case(jnp.array([1.0, 2.0]), relaxations.hard_margin())), 2.0
    )


def test_solve_worst_case_of_balls_does_not_change_with_the_unit_of_the_losses():
    rows = np.outer([1e-30, 1.0, 1e30], [1.0, -2.0, 0.5, 0.25]).astype(np.float32)
    for relaxation in (relaxations.chi_square_ball(0.25), relaxations.kl_ball(0.25)):
        found = jax.jit(
            jax.vmap(lambda row, relaxation=relaxation: losses.worst_case_weights(row, relaxation))
        )(rows)
        np.testing.assert_allclose(found, found[1:2].repeat(3, 0), atol=1e-5)
        assert np.ptp(found[1]) > 0.1


def test_losses_name_an_argument_of_a_wrong_kind():
    class LooksLikeOne:
        argmin = None

    with pytest.raises(ValueError, match="^relaxation is a LooksLikeOne"):
        losses.worst_case(jnp.ones(2), LooksLikeOne())
    with pytest.raises(ValueError, match="^smoothing"):
        losses.cvar([1.0, 2.0], 0.5, smoothing=math.inf)
    with pytest.raises(ValueError, match="^axis_name"):
        losses.cvar([1.0, 2.0], 0.5, axis_name=3)
    with pytest.raises(ValueError, match="^margins"):
        losses.soft_margin_loss(
            jnp.ones(2), jnp.ones(2, int), nu=0.5, margins=lambda logits, labels: logits[:1]
        )


def test_group_dro_of_an_infinite_loss_is_infinite():
    found = losses.group_dro([math.inf, 1.0, 2.0], [0, 1, 1], 2, relaxations.hard_margin())
    assert found == math.inf


# --- groups, labels and weights as given ---------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32])
def test_narrow_labels_are_compared_with_every_class(dtype):
    """300 classes, of which 8 bits hold 256: the class 257 is not the class 1, nor 255 the class
    -1.
    """
    logits = np.zeros((1, 300), np.float32)
    logits[0, [1, 255, 257]] = 1.0, 2.0, 5.0
    labels = jnp.array([1], dtype)
    assert float(losses.max_of_others_margins(logits, labels)[0]) == -4.0
    assert losses.one_vs_rest_margins(logits, labels)[0, jnp.array([1, 257])].tolist() == [
        1.0,
        -5.0,
    ]
    if dtype == np.int8:
        outside = jax.jit(losses.max_of_others_margins)(logits, jnp.array([-1], dtype))
        assert np.isnan(outside).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32])
def test_group_dro_takes_narrow_group_numbers(dtype):
    groups = jnp.array([0, 0, 1], dtype)
    found = losses.group_dro(jnp.array([1.0, 3.0, 2.5]), groups, 200, relaxations.hard_margin())
    assert float(found) == 2.5


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, -np.inf])
def test_group_dro_of_a_wrong_weight_is_nan_where_it_is_traced(weight):
    @jax.jit
    @jax.value_and_grad
    def loss(values, weights):
        hard = relaxations.hard_margin()
        return losses.group_dro(values, jnp.array([0, 0, 1]), 2, hard, weights=weights)

    values = jnp.array([1.0, 3.0, 2.5])
    value, gradient = loss(values, jnp.array([weight, 2.0, 1.0]))
    assert np.isnan(value)
    assert np.isnan(gradient[jnp.array([1, 2])]).all()
    assert float(loss(values, jnp.array([1.0, 3.0, 1.0]))[0]) == 2.5


def test_means_and_weights_of_groups_near_the_end_of_the_float():
    largest = np.float32(3e38)
    values, groups = jnp.array([largest, largest, 1.0]), jnp.array([0, 0, 1])
    hard = relaxations.hard_margin()
    assert float(losses.group_dro(values, groups, 2, hard)) == largest
    small = jnp.array([1.0, 3.0, 1.5])
    assert float(losses.group_dro(small, groups, 2, hard, weights=values)) == 2.0
    for weights in (values, values / np.float32(2.0**120) / np.float32(2.0**120)):
        equal = losses.cvar(small[:2], 1.0, weights=weights[:2])
        assert float(equal) == 2.0


@pytest.mark.parametrize("small", [1e-25, 1e-30])
def test_weights_of_groups_count_within_their_group(small):
    big = 1e30
    values, weights = jnp.array([1.0, 1.0, 5.0, 3.0]), jnp.array([big, big, small, 3 * small])
    groups, hard = jnp.array([0, 0, 1, 1]), relaxations.hard_margin()

    def worst(values, weights):
        return losses.group_dro(values, groups, 2, hard, weights=weights)

    value, slope = jax.jit(jax.value_and_grad(worst))(values, weights)
    np.testing.assert_allclose(value, 3.5, rtol=1e-6)
    np.testing.assert_allclose(slope, [0, 0, 0.25, 0.75], rtol=1e-6)


def test_traced_labels_other_than_one_and_minus_one_give_nan():
    margins = jax.jit(losses.binary_margins)(jnp.ones(3), jnp.array([0, 2, -1]))
    np.testing.assert_array_equal(margins, [np.nan, np.nan, -1])
    loss = functools.partial(losses.soft_margin_loss, nu=0.5)
    assert np.isnan(jax.jit(loss)(jnp.ones(3), jnp.array([0, 1, -1])))


def test_padding_of_a_soft_margin_loss_may_hold_any_label_and_logit():
    mask = jnp.array([True, True, False])
    pairs = (
        (jnp.array([0.5, -0.25, jnp.nan]), jnp.array([1, -1, 0]), {}),
        (jnp.array([[2.0, 3.0], [1.0, 0.5], [jnp.nan, 0.0]]), jnp.array([0, 1, -1]), {}),
        (
            jnp.array([[2.0, 3.0], [1.0, 0.5], [jnp.nan, 0.0]]),
            jnp.array([0, 1, 7]),
            {"margins": losses.one_vs_rest_margins},
        ),
    )
    for logits, labels, options in pairs:

        def loss(logits, labels, options=options, **kept):
            return losses.soft_margin_loss(logits, labels, nu=0.5, **options, **kept)

        expected, slope = jax.value_and_grad(loss)(logits[:2], labels[:2])
        run = functools.partial(jax.value_and_grad(loss), mask=mask)
        for found, gradient in (run(logits, labels), jax.jit(run)(logits, labels)):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            np.testing.assert_allclose(gradient[:2], slope, atol=1e-6)
            assert (gradient[2] == 0).all()


@pytest.mark.parametrize(
    "message, options",
    [
        (r"^weights has shape \[3\]: expected shape \[2\]", {"weights": jnp.ones(3)}),
        (r"^weights has shape \[1, 2\]: expected shape \[2\]", {"weights": jnp.ones((1, 2))}),
        (r"^weights has shape \[\]: expected shape \[2\]", {"weights": 1.0}),
        (r"^weights\[1\] is -1", {"weights": np.array([1.0, -1.0])}),
        ("^weights is not an array of numbers", {"weights": ["a", "b"]}),
        ("^weights has rows of unequal length", {"weights": [[1.0], [1.0, 2.0]]}),
        (r"^mask has shape \[6\]: expected shape \[2\]", {"mask": np.ones(6, bool)}),
        ("^mask is empty", {"mask": np.zeros(2, bool)}),
    ],
)
def test_weights_and_masks_of_soft_margin_losses_are_named_as_given(message, options):
    with pytest.raises(ValueError, match=message):
        losses.soft_margin_loss(
            jnp.ones((2, 3)),
            jnp.array([0, 1]),
            nu=0.5,
            margins=losses.one_vs_rest_margins,
            **options,
        )


def test_numbers_that_no_loss_takes_are_named():
    values = jnp.array([1.0, 3.0, 2.5])
    mask = np.array([True, True, False])
    for options in ({"mask": mask}, {"weights": mask.astype(np.float32)}):
        with pytest.raises(
            ValueError, match="^k is 3: expected at most the number of losses.*, 2$"
        ):
            losses.mean_of_worst(values, 3, **options)
        assert float(losses.mean_of_worst(values, 2, **options)) == 2.0
    with pytest.raises(
        ValueError, match="^nu is 9.99995e-41: expected a number from 1.17549e-38 up to 1$"
    ):
        losses.cvar(values, 1e-40)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_of_group_dro_and_soft_margin_loss_in_shard_map(weighted):
    rng = np.random.default_rng(21)
    logits = rng.normal(size=(64, 3)).astype(np.float32)
    labels, groups = rng.integers(0, 3, 64), rng.integers(0, 5, 64)
    sizes = rng.uniform(0.5, 2, 64).astype(np.float32) if weighted else np.ones(64, np.float32)
    part, whole = PartitionSpec("examples"), PartitionSpec()

    def both(logits, labels, groups, sizes, axis_name=None):
        def loss(logits):
            each = losses.max_of_others_margins(logits, labels)
            options = {"weights": sizes if weighted else None, "axis_name": axis_name}
            return losses.soft_margin_loss(
                logits, labels, nu=0.3, margins=losses.one_vs_rest_margins, **options
            ) + losses.group_dro(-each, groups, 5, relaxations.kl_ball(0.2), **options)

        return jax.value_and_grad(loss)(logits)

    spread = jax.jit(
        jax.shard_map(
            functools.partial(both, axis_name="examples"),
            mesh=mesh_of(AxisType.Auto),
            in_specs=(part, part, part, part),
            out_specs=(whole, part),
        )
    )
    arguments = logits, labels, groups, sizes
    value, gradient = spread(*arguments)
    expected, alone = jax.jit(both)(*arguments)
    np.testing.assert_allclose(value, expected, atol=2e-6)
    np.testing.assert_allclose(gradient, alone, atol=2e-6)
    assert "all-gather" not in spread.lower(*arguments).compile().as_text()


# --- losses near the end of the float -------------------------------------------------------------

HUGE = np.float32(2.0**126)  # the losses below reach 2.25e38


@pytest.mark.parametrize(
    # the scale of binary entropy is limited to 2^60
    "name",
    slow_but([name for name in PARAMETERS if name != "entropy"], "chi2ball"),
)
@pytest.mark.parametrize("smoothing", [slow(0.0), 0.125])
def test_losses_near_the_end_of_the_float(name, smoothing):
    """Value, weights and derivatives of both modes are those of losses of size 1, in units that
    also multiply the smoothing and the scale of a penalty.
    """
    small = np.array([-2.5, 2.5, 1.625, 0.125], np.float32)
    parameters = PARAMETERS[name]
    large = parameters
    if name in SCALED:
        large = (*parameters[:-1], parameters[-1] * HUGE)

    def solve(values, relaxation, strength, unit):
        def of(values):
            found = losses.solve_worst_case(values, relaxation, smoothing=strength)
            return found.value / unit, found.example_weights

        value, weights = of(values)
        _, changes = jax.jvp(of, (values,), (unit * jnp.arange(4.0),))
        gradient = jax.grad(losses.worst_case)(values, relaxation, smoothing=strength)
        return value, weights, *changes, gradient

    near = solve(jnp.asarray(small), relaxation_of(name, parameters), smoothing, 1.0)
    far = solve(jnp.asarray(small * HUGE), relaxation_of(name, large), smoothing * HUGE, HUGE)
    for one, other in zip(far, near, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", slow_but(SCALED, "chi2penalty"))
def test_a_scale_that_is_lost_in_huge_losses_leaves_the_largest(name):
    values = jnp.array([-3e38, 3e38, 2e38, 0.0], jnp.float32)
    found = losses.solve_worst_case(values, relaxation_of(name, PARAMETERS[name]), smoothing=0.1)
    assert int(found.status) == int(Status.OPTIMAL)
    assert np.isfinite(np.asarray(found.example_weights)).all()
    if name != "entropy":  # it caps the weights
        np.testing.assert_allclose(found.value, 3e38, rtol=1e-6)


def greedy_weights(values, nu, weights):
    """The soft margin's example weights: the largest losses get their caps, w_i / (nu sum w), and
    the next ones the rest, in proportion to their caps.
    """
    caps, found, left = weights / (nu * weights.sum()), np.zeros(len(values)), 1.0
    for value in np.unique(values)[::-1]:
        ties = values == value
        found[ties] = caps[ties] * min(1.0, left / caps[ties].sum())
        left -= found[ties].sum()
    return found


@pytest.mark.parametrize("size", [1e7, 1e12, 3e27])
def test_binary_entropies_lost_in_huge_losses_leave_the_soft_margin(size):
    """The value and its derivatives in nu, the weights and the scale; that in the scale is minus
    the mean of log 2 - H of nu d_i / p_i.
    """

    def worst(nu, weights, scale, values):
        relaxation = jboost.relaxations.BinaryEntropy(nu, scale)
        return losses.worst_case(values, relaxation, weights=weights)

    found_by = jax.jit(
        lambda *numbers: (
            jax.value_and_grad(worst, argnums=(0, 1, 2))(*numbers),
            jax.jacfwd(worst, argnums=(0, 1, 2))(*numbers),
        )
    )
    rng = np.random.default_rng(int(math.log10(size)))
    for _ in range(20):
        values = np.round(rng.normal(size=6), 1)
        nu, weights = rng.uniform(0.1, 1), rng.uniform(0.5, 2, 6)
        given = (nu, weights, 1.0, size * values)
        (found, reverse), forward = found_by(*(jnp.asarray(one, jnp.float32) for one in given))
        expected = greedy_weights(values, nu, weights)
        np.testing.assert_allclose(found / size, expected @ values, rtol=1e-5, atol=1e-6)

        def value(nu, weights, values=values):
            return greedy_weights(values, nu, weights) @ values

        steps = [1e-7 * step for step in np.eye(7)]
        slopes = np.array(
            [
                (value(nu + step[0], weights + step[1:]) - value(nu - step[0], weights - step[1:]))
                / 2e-7
                for step in steps
            ]
        )
        coins = np.clip(nu * expected * weights.sum() / weights, 1e-300, 1 - 1e-16)
        entropy = -coins * np.log(coins) - (1 - coins) * np.log(1 - coins)
        by_scale = -np.average(math.log(2) - entropy, weights=weights)
        # beyond, the factors of the derivative in nu may overflow in reverse mode: it is infinite
        modes = (forward, reverse) if size < 1e20 else (forward,)
        for by_nu, by_weights, change in modes:
            np.testing.assert_allclose(by_nu / size, slopes[0], rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(by_weights / size, slopes[1:], rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(change, by_scale, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    # the derivative of binary entropies is in the test before
    "name",
    slow_but([name for name in SCALED if name != "entropy"], "chi2penalty"),
)
def test_derivatives_in_a_scale_that_is_lost_in_huge_losses(name):
    """They are minus f / scale of the worst distribution, and minus its relative entropy."""
    values = jnp.array([0.3, 1.7, -0.4, 0.9, 2.2], jnp.float32)

    def worst(numbers, size):
        relaxation = relaxation_of(name, (*PARAMETERS[name][:-1], numbers[0]))
        return losses.worst_case(size * values, relaxation, smoothing=numbers[1])

    at = jnp.array([PARAMETERS[name][-1], 0.1], jnp.float32)
    gradients = jax.jit(jax.vmap(jax.grad(worst), (None, 0)))(at, jnp.array([1e12, 3e27]))
    charge = {"chi2penalty": 4.0, "klpenalty": math.log(5)}.get(name, 1.0)
    np.testing.assert_allclose(gradients, [[-charge, -math.log(5)]] * 2, rtol=1e-4)


def test_exponential_loss_has_derivatives_in_weights_of_0_and_at_infinite_margins():
    dataset = jboost.make_dataset(
        [[0.0], [1.0], [2.0]], [1, -1, 1], weights=[1.0, 0.0, 2.0], mask=[True, True, False]
    )

    def mean(weights, margins):
        loss = losses.start_exponential(dataset._replace(weights=weights))
        return losses.mean_exponential(losses.add_margins(loss, margins))

    weights, margins = jnp.array([1.0, 0.0, 2.0]), jnp.array([0.5, jnp.inf, 0.0])
    _, change = jax.jvp(mean, (weights, margins), (jnp.ones(3), jnp.ones(3)))
    by_weights, by_margins = jax.grad(mean, argnums=(0, 1))(weights, margins)
    assert np.isfinite([change, *by_weights, *by_margins]).all()
    np.testing.assert_allclose(by_margins, [-np.exp(-0.5), 0, 0], rtol=1e-6)
