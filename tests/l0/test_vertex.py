"""The vote of the relaxation at a vertex, against the simplex method of HiGHS on the program with
all cuts, and the rank of the rows that hold with equality.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import jboost
from jboost import l0
from jboost.base.status import Status
from jboost.l0 import booster
from jboost.l0.relaxation.instance import make_instance, unordered
from jboost.l0.types import CutIndices
from jboost.l0.votes import vertex
from oracles import l0 as oracle

MARGIN = 0.25
RNG = np.random.default_rng(4)
FEATURES = (RNG.random((3, 16, 4)) < 0.5).astype(np.float32)
LABELS = np.where((FEATURES[:, :, 0] > FEATURES[:, :, 1]) | (RNG.random((3, 16)) < 0.3), 1, -1)
FEATURES[2, 8:], LABELS[2, 8:] = FEATURES[2, :8], -LABELS[2, :8]  # no two classes apart
LEARNER = jboost.learners.monomials(2, kappa=0.1, num_proposed=4)
OPTIONS = {"margin": MARGIN, "tolerance": 1e-3, "max_rounds": 24, "max_columns": 40}


def pool(seed, m, n, abstains=False):
    """Outputs, labels, costs and weights of a random pool; some costs are 0."""
    rng = np.random.default_rng(seed)
    outputs = rng.choice([-1, 0, 1] if abstains else [-1, 1], size=(m, n))
    outputs[:, 0] = 1
    labels = np.where(rng.random(m) < 0.5, 1, -1)
    costs = rng.choice([0.0, 0.3, 0.7, 1.5], size=n)
    return outputs, labels, costs, rng.choice([0.5, 1.0, 3.0], size=m)


def conjunctions(seed, m, num_bits):
    """All conjunctions of two literals of random bits and their negations, all of one cost, with
    the two constants, and noisy labels of two rules.
    """
    rng = np.random.default_rng(seed)
    bits = rng.random((m, num_bits)) < 0.5
    literals = np.concatenate([bits, ~bits], axis=1)
    pairs = [
        pair
        for size in (1, 2)
        for pair in itertools.combinations(range(2 * num_bits), size)
        if len({literal % num_bits for literal in pair}) == size
    ]
    columns = [literals[:, list(pair)].all(axis=1).astype(float) for pair in pairs]
    outputs = np.stack(
        [np.ones(m), -np.ones(m), *(s * c for c in columns for s in (1, -1))], axis=1
    )
    rules = (bits[:, 0] & bits[:, 1]) | (~bits[:, 2] & bits[:, 3] & bits[:, 4])
    labels = np.where(rules ^ (rng.random(m) < 0.15), 1, -1)
    return outputs, labels, np.r_[0, 0, np.full(2 * len(pairs), 1.5)], np.ones(m)


@functools.partial(jax.jit, static_argnames=("either", "config"))
def find(outputs, labels, costs, weights, either, config):
    m, n = outputs.shape
    masks = jnp.ones(m, bool), jnp.ones(n, bool)
    margin = jnp.asarray(MARGIN, float)
    instance, _ = make_instance(outputs, labels, costs, weights, *masks, margin, either)
    nothing = CutIndices(jnp.full((1,), m, jnp.int32), jnp.full((1,), m, jnp.int32))
    found = vertex.find(instance, nothing, jnp.zeros((1,)), config)
    return found, unordered(instance, found.primal.slacks)


def solve(*data, either=False, config=None):
    """The vertex, and its slacks in the order of the data."""
    return jax.device_get(find(*data, either, config or l0.VertexConfig()))


def program_of(outputs, labels, costs, weights, either):
    helps = oracle.tell_apart if either else oracle.serves
    return oracle.make(outputs, labels, costs, MARGIN, weights, helps)


def by_simplex(program):
    """The optimum of HiGHS, by its dual simplex method."""
    is_equal = program.row_lower == program.row_upper
    found = linprog(
        program.objective,
        A_ub=-program.matrix[~is_equal],
        b_ub=-program.row_lower[~is_equal],
        A_eq=program.matrix[is_equal],
        b_eq=program.row_lower[is_equal],
        bounds=(0, None),
        method="highs-ds",
    )
    assert found.status == 0
    return found


def active_rows(program, point, tolerance):
    """The rows and bounds that hold with equality at a point, as one matrix."""
    reached = program.matrix @ point
    tight = np.abs(reached - program.row_lower) <= tolerance
    at_zero = np.abs(point) <= tolerance
    return program.matrix[tight], np.vstack([program.matrix[tight], np.eye(len(point))[at_zero]])


@pytest.mark.parametrize(
    ("seed", "m", "n", "abstains", "either"),
    [
        pytest.param(0, 8, 6, False, False),
        pytest.param(1, 12, 9, True, False, marks=pytest.mark.slow),
        pytest.param(2, 12, 9, True, True, marks=pytest.mark.slow),
        pytest.param(3, 24, 40, False, False, marks=pytest.mark.slow),
        pytest.param(4, 40, 12, False, True, marks=pytest.mark.slow),
    ],
)
def test_vertex_is_an_optimal_vertex_of_the_program_with_all_cuts(seed, m, n, abstains, either):
    with jax.enable_x64(True):
        data = pool(seed, m, n, abstains)
        found, slacks = solve(*data, either=either)
        assert found.status == Status.OPTIMAL
        program = program_of(*data, either)
        optimum = by_simplex(program).fun
        upper = float(found.upper_bound)
        assert abs(upper - optimum) <= 1e-6 * max(1.0, optimum)
        coefficients, selected = (np.asarray(part) for part in found.primal[:2])
        point = np.r_[coefficients, selected, slacks]
        assert (program.matrix @ point >= program.row_lower - 1e-12).all()
        rows, active = active_rows(program, point, 1e-6)
        assert np.linalg.matrix_rank(active, tol=1e-5) == len(point)
        assert np.count_nonzero(coefficients) <= np.linalg.matrix_rank(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "status"),
    [
        (l0.VertexConfig(max_pivots=1), Status.ITERATION_LIMIT),
        (l0.VertexConfig(max_rounds=1), Status.ITERATION_LIMIT),
        (l0.VertexConfig(num_cuts=1), Status.CAPACITY_LIMIT),
    ],
)
def test_vertex_that_was_not_found_says_what_was_missing(config, status):
    with jax.enable_x64(True):
        data = pool(5, 24, 12)
        found, slacks = solve(*data, config=config)
        assert found.status == status
        program = program_of(*data, False)
        point = np.r_[np.asarray(found.primal.coefficients), np.asarray(found.primal.selected)]
        point = np.r_[point, slacks]
        assert (program.matrix @ point >= program.row_lower - 1e-12).all()
        assert float(found.upper_bound) >= program.objective @ point - 1e-9


@pytest.mark.parametrize("m", [1, 2])
def test_vertex_of_hardly_any_examples(m):
    outputs, labels = np.array([[1, -1], [1, 1]])[:m], np.array([1, -1])[:m]
    found, slacks = solve(outputs, labels, np.array([0.5, 0.25]), np.ones(m))
    assert found.status == Status.OPTIMAL
    data = outputs, labels, np.array([0.5, 0.25]), np.ones(m)
    optimum = by_simplex(program_of(*data, False)).fun
    np.testing.assert_allclose(found.upper_bound, optimum, atol=1e-4)
    assert slacks.shape == (m,)


@functools.cache
def fits():
    def fit(problem):
        return l0.fit(jboost.make_dataset(*problem), LEARNER, search=l0.VertexConfig(), **OPTIONS)

    found = jax.jit(lambda *problems: jax.lax.map(fit, problems))(
        jnp.asarray(FEATURES), jnp.asarray(LABELS)
    )
    return jax.tree.map(np.asarray, found)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(3))
def test_vertex_is_the_vote_and_the_relaxation_of_a_fit(index):
    fitted = jax.tree.map(lambda leaf: leaf[index], fits())
    assert fitted.status == Status.OPTIMAL
    # moved by some units, so that rows keep a margin that they just have
    solved, some = fitted.relaxation, 100 * np.finfo(np.float32).eps
    np.testing.assert_allclose(fitted.ensemble.votes[:, 0], solved.coefficients[2:], atol=some)
    np.testing.assert_allclose(
        fitted.ensemble.constant, solved.coefficients[0] - solved.coefficients[1], atol=some
    )
    certificate = fitted.certificate
    assert certificate.lower_bound <= certificate.upper_bound <= solved.upper_bound
    gap = 2e-3 * max(1.0, solved.upper_bound)
    assert solved.upper_bound <= certificate.lower_bound + gap
    assert np.count_nonzero(solved.coefficients) <= 16 + 1
    # the central solution has many more hypotheses
    central = l0.fit(
        jboost.make_dataset(FEATURES[index], LABELS[index]),
        LEARNER,
        search=l0.CoefficientsConfig(),
        **OPTIONS,
    )
    assert np.count_nonzero(solved.coefficients) < np.count_nonzero(
        np.asarray(central.relaxation.coefficients)
    )


@pytest.mark.slow
def test_vertex_of_a_relaxation_that_was_not_solved_has_a_status_of_its_own():
    dataset = jboost.make_dataset(FEATURES[0], LABELS[0])
    state = l0.init(dataset, LEARNER, search=l0.VertexConfig(), **OPTIONS)
    fitted = l0.finish(state, dataset)
    assert fitted.status == Status.UNSOLVED_RELAXATION
    assert np.isfinite(jboost.predict_scores(fitted.ensemble, FEATURES[0])).all()


@pytest.mark.slow
def test_vertex_is_not_the_solution_where_a_used_column_was_overwritten():
    """The columns that are left have a vertex, but no relaxation was solved over them."""
    dataset = jboost.make_dataset(FEATURES[0], LABELS[0])
    state = l0.init(dataset, LEARNER, search=l0.VertexConfig(), **OPTIONS)
    for _ in range(2):
        state, _ = l0.step(state, dataset)
    assert l0.finish(state, dataset).status != Status.UNSOLVED_RELAXATION
    solved = state.memory.relaxation
    used = jnp.argmax(solved.coefficients[2:])[None] + 2
    lost = booster._without_columns(solved, used)
    state = state._replace(memory=state.memory._replace(relaxation=lost))
    fitted = l0.finish(state, dataset)
    assert fitted.status == Status.UNSOLVED_RELAXATION
    assert fitted.relaxation.upper_bound == np.inf


def test_vertex_of_columns_of_one_cost_is_found_in_32_bits():
    """Their dual steps are ties, which the perturbation of the costs breaks: in a table of float32
    it is lost in rounding errors, and the pivots did not end.
    """
    outputs, labels, costs, weights = conjunctions(2, 140, 7)
    found, _ = solve(*(np.float32(part) for part in (outputs, labels, costs, weights)))
    assert found.status == Status.OPTIMAL
    optimum = by_simplex(program_of(outputs, labels, costs, weights, False)).fun
    assert optimum - 1e-4 <= found.upper_bound <= optimum + 1e-3


@pytest.mark.parametrize(
    "search",
    [
        l0.CoefficientsConfig(),
        pytest.param(l0.SearchConfig(max_hypotheses=2), marks=pytest.mark.slow),
        pytest.param(l0.RelaxedConfig(3), marks=pytest.mark.slow),
        pytest.param(l0.VertexConfig(), marks=pytest.mark.slow),
    ],
)
def test_finish_with_another_search_equals_a_fit_with_it(search):
    """The rounds do not depend on the final vote."""
    dataset = jboost.make_dataset(FEATURES[0], LABELS[0])
    states = []
    expected = l0.fit(
        dataset,
        LEARNER,
        search=search,
        **OPTIONS,
        on_step=lambda state, _: states.append(state),
    )
    first = l0.init(dataset, LEARNER, search=l0.RelaxedConfig(2), **OPTIONS)
    last = states[-1]._replace(booster=first.booster, checksums=first.checksums)
    found = l0.finish(last, dataset, search=search)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.slow
def test_vertex_without_examples_of_weight_0():
    """`finish` gets the data set of the caller, as `init` does: zeros are not part of it."""
    rng = np.random.default_rng(9)
    features, labels = rng.integers(0, 2, (10, 3)), rng.choice([-1, 1], 10)
    weights = rng.choice([0, 0.5, 1, 3], 10)
    learner = jboost.learners.monomials(2, kappa=0.1, num_proposed=8)
    options = {"margin": 0.5, "max_columns": 64, "max_rounds": 30, "search": l0.VertexConfig()}
    dataset = jboost.make_dataset(features, labels, weights=weights)
    state = l0.init(dataset, learner, **options)
    for _ in range(7):
        state, _ = l0.step(state, dataset)
    found = l0.finish(state, dataset)
    expected = l0.finish(state, dataset._replace(mask=weights > 0))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert found.status == Status.OPTIMAL
    assert found.certificate.lower_bound <= found.certificate.upper_bound
    assert found.certificate.upper_bound == pytest.approx(6.08998, abs=1e-3)


def test_finish_names_a_search_that_is_none():
    dataset = jboost.make_dataset(FEATURES[0], LABELS[0])
    state = l0.init(dataset, LEARNER, **OPTIONS)
    with pytest.raises(ValueError, match="search is a str: expected a jboost.l0.SearchConfig"):
        l0.finish(state, dataset, search="vertex")


@pytest.mark.slow
def test_path_and_choose_take_a_vertex():
    dataset = jboost.make_dataset(FEATURES[0], LABELS[0])
    options = {"max_rounds": 12, "max_columns": 8, "bound_integer": False}
    fitted = l0.path(
        dataset,
        jboost.learners.monomials(1, kappa=0.1),
        [MARGIN],
        search=l0.VertexConfig(),
        **options,
    )
    assert fitted.status[0] == Status.OPTIMAL
    solved = fitted.relaxation.coefficients[0]
    np.testing.assert_allclose(fitted.ensemble.votes[0, :, 0], solved[2:], atol=2e-7)
    chosen = l0.choose(
        dataset,
        lambda kappa: jboost.learners.monomials(1, kappa=kappa),
        margins=[MARGIN],
        kappas=[0.1],
        key=jax.random.key(0),
        num_folds=2,
        search=[l0.VertexConfig()],
        **options,
    )
    assert chosen.errors.shape == (1, 1, 1)
    assert np.isfinite(np.asarray(chosen.errors)).all()


def test_sizes_of_a_vertex_config_are_checked():
    for name in ("max_pivots", "max_rounds", "num_cuts"):
        with pytest.raises(ValueError, match=name):
            l0.VertexConfig(**{name: 0})
