"""Every algorithm of the contract table, through what a user of JAX expects of it."""

import inspect

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from contract import CERTIFIED, TABLE, Problem, bits
from marks import slow_but

SIZE, PADDED = 13, 16
QUICK = (
    "pair.optimal_separator",
    "pair.optimal_separator, three classifiers",
    "pair.leave_one_out",
    "pair.pareto_front",
    "combine.fit",
)


def pad(problem, size=PADDED):
    """Rows of garbage behind a False mask."""
    extra = size - len(problem.labels)
    garbage = Problem(
        np.full((extra, *problem.data.shape[1:]), np.nan, problem.data.dtype),
        np.full(extra, 7),
        np.full(extra, -1.0),
        np.zeros(extra, bool),
    )
    return Problem(
        *(
            np.concatenate([field, more.astype(field.dtype)])
            for field, more in zip(problem, garbage, strict=True)
        )
    )


def permute(problem):
    order = np.random.default_rng(5).permutation(len(problem.labels))
    return Problem(*(field[order] for field in problem))


def members(entry):
    """Eight problems of one shape: the plain one, what must not change it, and others of unequal
    difficulty.
    """
    plain = entry.problem(1, SIZE)
    return {
        "plain": pad(plain),
        "permuted": permute(pad(plain)),
        "flipped": pad(plain)._replace(labels=-pad(plain).labels),
        "scaled": pad(plain)._replace(weights=pad(plain).weights * 4),
        "easy": pad(entry.problem(0, SIZE)),
        "hard": pad(entry.problem(4, SIZE)),
        "full": entry.problem(2, PADDED),
        "short": pad(entry.problem(3, 3)),
    }


def without(problem):
    """A problem with every third example masked out, and one where these weigh nothing and hold
    garbage.
    """
    is_out = np.arange(len(problem.labels)) % 3 == 1
    data, labels = problem.data.copy(), problem.labels.copy()
    data[is_out], labels[is_out] = np.nan, 7
    return problem._replace(mask=problem.mask & ~is_out), problem._replace(
        data=data, labels=labels, weights=np.where(is_out, 0, problem.weights)
    )


def stack(problems):
    return Problem(*(np.stack(fields) for fields in zip(*problems, strict=True)))


def equal(result, other, fields):
    for field in fields:
        np.testing.assert_array_equal(
            np.asarray(getattr(result, field)), np.asarray(getattr(other, field)), err_msg=field
        )


def quick(*names):
    """The entries, each slow but for these."""
    return slow_but(TABLE, *(entry for entry in TABLE if entry.name in names))


def name_of(entry):
    return entry.name


@pytest.fixture(scope="module", params=quick(*QUICK), ids=name_of)
def entry(request):
    return request.param


@pytest.fixture(scope="module")
def batched(entry):
    """All members through the caller's jit and vmap, sharded over the devices; and the compiled
    text.
    """
    batch = stack(members(entry).values())
    devices = jax.devices()[: len(batch.labels)]
    mesh = jax.make_mesh(
        (len(devices),), ("sets",), axis_types=(jax.sharding.AxisType.Auto,), devices=devices
    )
    sharded = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("sets")))
    compiled = jax.jit(jax.vmap(entry.run)).lower(*sharded).compile()
    results = jax.device_get(compiled(*sharded))
    by_name = {
        name: jax.tree.map(lambda leaf, row=row: leaf[row], results)
        for row, name in enumerate(members(entry))
    }
    return by_name, compiled.as_text()


@pytest.mark.parametrize("entry", quick("pair.optimal_separator"), indirect=True, ids=name_of)
def test_batch_equals_one_by_one(entry, batched):
    for name, problem in members(entry).items():
        jax.tree.map(
            np.testing.assert_array_equal, batched[0][name], jax.device_get(entry.run(*problem))
        )


def test_batch_needs_no_gather_between_devices(batched):
    assert "all-gather" not in batched[1]


def test_padding_changes_nothing(entry, batched):
    alone = entry.run(*entry.problem(1, SIZE))
    padded = batched[0]["plain"]
    equal(padded, alone, entry.invariant)
    for field in entry.per_example:
        np.testing.assert_array_equal(getattr(padded, field)[:SIZE], getattr(alone, field))
        assert not np.any(getattr(padded, field)[SIZE:])


def test_a_weight_of_0_counts_as_a_mask_that_is_false(entry):
    masked, zeroed = without(entry.problem(1, SIZE))
    jax.tree.map(np.testing.assert_array_equal, entry.run(*zeroed), entry.run(*masked))
    with pytest.raises(ValueError, match=f"weights are 0 for all {SIZE} examples"):
        entry.run(*zeroed._replace(weights=np.zeros_like(zeroed.weights)))


def test_permutation_and_label_flip_change_nothing(entry, batched):
    equal(batched[0]["permuted"], batched[0]["plain"], entry.invariant)
    equal(batched[0]["flipped"], batched[0]["plain"], entry.invariant)


def test_scaling_the_weights_scales_the_objective(entry, batched):
    plain, scaled = batched[0]["plain"], batched[0]["scaled"]
    equal(scaled, plain, [field for field in entry.invariant if field not in entry.scales])
    for field in entry.scales:
        assert getattr(scaled, field) == 4 * getattr(plain, field)


@pytest.mark.slow
def test_float64_agrees_and_is_float64(entry, batched):
    with jax.enable_x64(True):
        wide = entry.run(
            *(
                field.astype(np.float64) if field.dtype == np.float32 else field
                for field in entry.problem(1, SIZE)
            )
        )
    narrow = batched[0]["plain"]
    for field in entry.invariant:
        np.testing.assert_allclose(
            getattr(narrow, field), getattr(wide, field), rtol=4 * np.finfo(np.float32).eps
        )
    for leaf, other in zip(jax.tree.leaves(wide), jax.tree.leaves(narrow), strict=True):
        assert leaf.dtype == (np.float64 if other.dtype == np.float32 else other.dtype)


def test_new_values_and_numpy_inputs_do_not_compile(entry, compilations):
    first, second = entry.problem(1, SIZE), entry.problem(2, SIZE)
    entry.run(*first)
    entry.run(*jax.device_put(second))
    before = compilations()
    entry.run(*second)
    entry.run(*jax.device_put(first))
    assert compilations() == before


@pytest.mark.slow
def test_losses_of_the_best_have_no_derivative_and_say_so(entry):
    problem = entry.problem(1, SIZE)

    def total(weights):
        return sum(
            getattr(entry.run(problem.data, problem.labels, weights, problem.mask), field)
            for field in entry.scales
        )

    with pytest.raises(
        TypeError, match="has no derivative: its result is a constant to derivatives"
    ):
        jax.grad(total)(problem.weights)


def test_signature_has_the_field_names(entry):
    parameters = inspect.signature(entry.public).parameters
    keyword_only = {
        name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert {"weights", "mask"} <= keyword_only
    assert next(iter(parameters)) in ("points", "dataset", "features", "scores")
    assert all(parameters[name].default is None for name in ("weights", "mask"))


@pytest.fixture(scope="module", params=CERTIFIED, ids=name_of)
def certified(request):
    return request.param


def overlap(one, other):
    """Brackets of one optimum have it in common."""
    assert one.lower <= other.upper + 1e-6 * abs(other.upper), (one, other)
    assert other.lower <= one.upper + 1e-6 * abs(one.upper), (one, other)


def run_on_its_own(certified, problem):
    """As a program of the caller's, where it may be."""
    return jax.device_get(
        (jax.jit(certified.run) if certified.traceable else certified.run)(*problem)
    )


def test_brackets_are_of_one_optimum_however_it_is_asked_for(certified):
    plain = pad(bits(1, SIZE))
    single = {
        "plain": run_on_its_own(certified, plain),
        "permuted": run_on_its_own(certified, permute(plain)),
        "flipped": run_on_its_own(certified, plain._replace(labels=-plain.labels)),
    }
    for bracket in single.values():
        assert -np.inf < bracket.lower <= bracket.upper < np.inf
    assert single["plain"].upper - single["plain"].lower <= certified.width * max(
        1, abs(single["plain"].upper)
    )
    overlap(single["plain"], single["permuted"])
    overlap(single["plain"], single["flipped"])


def test_a_weight_of_0_counts_as_a_mask_that_is_false_in_every_bracket(certified):
    if not certified.weighted:
        pytest.skip("it takes no weights")
    masked, zeroed = (run_on_its_own(certified, problem) for problem in without(pad(bits(1, SIZE))))
    assert -np.inf < masked.lower <= masked.upper < np.inf
    assert zeroed == masked


@pytest.mark.slow
def test_a_batch_brackets_what_calls_of_their_own_bracket(certified):
    if not certified.traceable:
        pytest.skip("the host drives it")
    asked = [pad(bits(seed, SIZE)) for seed in (1, 0, 4)]  # of unequal difficulty
    batch = jax.device_get(jax.jit(jax.vmap(certified.run))(*stack(asked)))
    for row, problem in enumerate(asked):
        alone = run_on_its_own(certified, problem)
        assert -np.inf < alone.lower <= alone.upper < np.inf
        assert alone.status == batch.status[row]
        overlap(alone, jax.tree.map(lambda leaf, row=row: leaf[row], batch))


@pytest.mark.slow
def test_brackets_without_padding_and_in_64_bits_are_of_the_same_optimum(certified):
    plain = bits(1, SIZE)
    padded = run_on_its_own(certified, pad(plain))
    overlap(padded, jax.device_get(certified.run(*plain)))
    with jax.enable_x64(True):
        wide = jax.device_get(
            certified.run(
                *(
                    field.astype(np.float64) if field.dtype == np.float32 else field
                    for field in plain
                )
            )
        )
    assert wide.lower.dtype == np.float64
    overlap(padded, wide)
