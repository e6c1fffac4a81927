"""L0-RBoost over all monomials, against the full enumeration by HiGHS; and the problem (15),
against its mixed-integer program.
"""

import functools
import itertools
from fractions import Fraction
from types import SimpleNamespace

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.base.status import Status
from jboost.l0 import columns as l0_columns
from jboost.l0 import pricing
from jboost.l0.votes import local_search
from jboost.learners import prices
from jboost.monomials import costs
from marks import slow
from oracles import l0 as oracle

NUM_EXAMPLES, NUM_ATTRIBUTES, MAX_ORDER, MAX_ROUNDS = 14, 4, 2, 24
MARGINS, KAPPAS = (0.01, 0.1, 0.5, 1.0), (0.02, 0.3, 1.5)
TOLERANCE = 1e-3


def every_monomial(features, max_order, prices):
    """Outputs [m, U] of all monomials of both signs, constants first, and their costs [U]."""
    num_attributes = features.shape[1]
    columns, cost = [], []
    for order in range(max_order + 1):
        for attributes in itertools.combinations(range(num_attributes), order):
            for values in itertools.product((0, 1), repeat=order):
                cover = (
                    np.all(features[:, list(attributes)] == np.array(values, int)[None, :], axis=1)
                    if order
                    else np.ones(len(features), bool)
                )
                for sign in (1, -1):
                    columns.append(np.where(cover, sign, 0))
                    cost.append(prices[order])
    return np.stack(columns, axis=1), np.array(cost)


def mdl_costs(num_attributes, num_examples, max_order, kappa):
    from math import comb, log2

    return [0.0] + [
        (k + log2(comb(num_attributes, k)) + log2(max_order)) / log2(num_examples) + kappa
        for k in range(1, max_order + 1)
    ]


def make_instances(count, seed):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 2, (count, NUM_EXAMPLES, NUM_ATTRIBUTES)).astype(np.float32)
    labels = np.where(rng.random((count, NUM_EXAMPLES)) < 0.5, 1.0, -1.0).astype(np.float32)
    for index in range(0, count, 3):  # a concept behind some
        labels[index] = np.where((features[index, :, 0] == 1) & (features[index, :, 1] == 0), 1, -1)
    labels[:, 0], labels[:, 1] = 1, -1
    margins = rng.choice(MARGINS, count).astype(np.float32)
    kappas = rng.choice(KAPPAS, count).astype(np.float32)
    return features, labels, margins, kappas


@functools.cache
def fitted(max_rounds):
    features, labels, margins, kappas = make_instances(12, 0)

    def fit(problem):
        features, labels, margin, kappa = problem
        dataset = jboost.make_dataset(features, labels)
        learner = jboost.learners.monomials(MAX_ORDER, kappa=kappa, num_proposed=2)
        return jboost.l0.fit(
            dataset, learner, margin=margin, tolerance=TOLERANCE, max_rounds=max_rounds
        )

    problems = features, labels, margins, kappas
    return problems, jax.jit(lambda problems: jax.lax.map(fit, problems))(problems)


@pytest.mark.slow
def test_bounds_hold_the_optimum_over_all_monomials():
    (features, labels, margins, kappas), fits = fitted(MAX_ROUNDS)
    for index in range(len(labels)):
        outputs, cost = every_monomial(
            features[index],
            MAX_ORDER,
            mdl_costs(NUM_ATTRIBUTES, NUM_EXAMPLES, MAX_ORDER, kappas[index]),
        )
        optimum = oracle.optimum(outputs, labels[index], cost, float(margins[index]))
        lower, upper = (
            float(fits.certificate.lower_bound[index]),
            float(fits.certificate.upper_bound[index]),
        )
        assert lower <= optimum + 1e-6, index
        assert optimum <= upper + 1e-6, index
        assert upper - lower <= 2 * TOLERANCE * max(1.0, upper), (
            index,
            lower,
            upper,
            int(fits.status[index]),
        )


@pytest.mark.slow
def test_integer_bounds_hold_the_optimum_of_the_sparse_problem():
    (features, labels, margins, kappas), fits = fitted(MAX_ROUNDS)
    for index in range(0, len(labels), 2):
        outputs, cost = every_monomial(
            features[index],
            MAX_ORDER,
            mdl_costs(NUM_ATTRIBUTES, NUM_EXAMPLES, MAX_ORDER, kappas[index]),
        )
        optimum = oracle.integer_optimum(outputs, labels[index], cost, float(margins[index]))
        assert float(fits.certificate.integer_lower_bound[index]) <= optimum + 1e-5
        assert optimum <= float(fits.certificate.integer_upper_bound[index]) + 1e-5


@pytest.mark.slow
def test_the_ensemble_attains_the_integer_upper_bound():
    (features, labels, margins, kappas), fits = fitted(MAX_ROUNDS)
    prices = [mdl_costs(NUM_ATTRIBUTES, NUM_EXAMPLES, MAX_ORDER, kappa) for kappa in kappas]
    for index in range(len(labels)):
        votes = np.asarray(fits.ensemble.votes[index][:, 0], float)
        literals = np.asarray(fits.ensemble.hypotheses.literals[index])
        signs = np.asarray(fits.ensemble.hypotheses.sign[index], float)
        covers = np.all(
            (literals[:, None, :] == 0)
            | ((literals[:, None, :] > 0) == (features[index][None] == 1)),
            axis=2,
        )
        scores = (votes * signs) @ covers + float(fits.ensemble.constant[index])
        errors = np.sum(labels[index] * scores < margins[index] - 1e-6)
        paid = sum(prices[index][np.abs(literals[u]).sum()] for u in np.flatnonzero(votes))
        assert errors + paid == pytest.approx(
            float(fits.certificate.integer_upper_bound[index]), abs=1e-4
        )
        assert np.sum(votes) + abs(float(fits.ensemble.constant[index])) <= 1 + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("max_rounds", [MAX_ROUNDS, 1, 2])
def test_the_proof_can_be_worked_out_anew(max_rounds):
    """That of few rounds too, whose duals ask too much as they are."""
    (features, labels, margins, kappas), fits = fitted(max_rounds)
    assert np.all(fits.certificate.lower_bound > 0)
    for index in range(len(labels)):
        outputs, cost = every_monomial(
            features[index],
            MAX_ORDER,
            mdl_costs(NUM_ATTRIBUTES, NUM_EXAMPLES, MAX_ORDER, kappas[index]),
        )
        proof = jax.tree.map(
            lambda leaf, index=index: np.asarray(leaf[index]), fits.certificate.proof
        )
        w, v = oracle.exactly(proof.example_weights), oracle.exactly(proof.pair_weights)
        rho, excess = Fraction(float(margins[index])), Fraction(float(proof.excess))
        served = [Fraction(0)] * outputs.shape[1]
        load = (1 + rho) * w
        for (first, second), one in zip(proof.pairs, v, strict=True):
            if one:
                load[first] += one
                load[second] += one
                for u in np.flatnonzero(oracle.serves(outputs, labels[index], first, second)):
                    served[u] += one
        assert max(load) <= 1
        edges = [
            sum(Fraction(int(labels[index][i] * outputs[i, u])) * w[i] for i in range(NUM_EXAMPLES))
            for u in range(outputs.shape[1])
        ]
        reduced = [
            Fraction(float(c)) + excess - s - g for c, s, g in zip(cost, served, edges, strict=True)
        ]
        assert max(
            s - Fraction(float(c)) for c, s in zip(cost, served, strict=True)
        ) <= excess + Fraction(1, 10**6)
        assert min(reduced) >= Fraction(float(proof.least)) - Fraction(1, 10**5)
        bound = (
            rho * sum(w)
            + sum(v)
            - Fraction(float(proof.selected_bound)) * excess
            + Fraction(float(proof.least))
        )
        assert float(bound) >= float(proof.bound) - 1e-6


def random_problem(rng, num_columns=12, num_examples=20):
    outputs = rng.integers(-1, 2, (num_columns, num_examples)).astype(np.float32)
    return local_search.VoteInstance(
        jnp.asarray(outputs),
        jnp.asarray(rng.integers(1, 4, num_examples).astype(np.float32)),
        jnp.asarray(rng.random(num_columns).astype(np.float32)),
        jnp.asarray(rng.random(num_columns) < 0.9).at[0].set(True),
        jnp.asarray(np.float32(rng.choice(MARGINS))),
    )


def exact_loss(instance, coefficients):
    shares = oracle.exactly(coefficients)
    rows = np.asarray(instance.margins).astype(int)
    margin = Fraction(float(instance.margin))
    errors = sum(
        Fraction(float(weight))
        for column, weight in zip(rows.T, np.asarray(instance.weights), strict=True)
        if sum(int(sign) * share for sign, share in zip(column, shares, strict=True)) < margin
    )
    return errors + sum(
        Fraction(float(cost))
        for cost, share in zip(np.asarray(instance.costs), shares, strict=True)
        if share > 0
    )


@pytest.mark.slow
def test_points_are_on_the_simplex_and_their_loss_is_exact():
    rng = np.random.default_rng(1)
    problems = [random_problem(rng) for _ in range(200)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)
    starts = jnp.asarray(rng.random((200, 12)).astype(np.float32) * (rng.random((200, 12)) < 0.5))
    votes = jax.jit(jax.vmap(local_search.evaluate))(stacked, starts)
    found = jax.jit(
        jax.vmap(functools.partial(local_search.search, config=local_search.SearchConfig()))
    )(stacked, votes)
    for index, problem in enumerate(problems):
        for vote in (votes, found):
            coefficients = np.asarray(vote.coefficients[index])
            assert sum(oracle.exactly(coefficients)) == 1
            assert np.all(coefficients >= 0)
            assert np.all(coefficients[~np.asarray(problem.is_column)] == 0)
            assert (
                float(exact_loss(problem, coefficients))
                <= float(vote.loss[index])
                <= float(exact_loss(problem, coefficients)) + 1e-5
            )
        assert found.loss[index] <= votes.loss[index]


@pytest.mark.slow
def test_coefficients_of_many_columns_are_not_negative():
    """A coefficient of 280 units that is rounded up 30,000 times by a third of a unit leaves more
    than itself to be taken off.
    """
    size = 30_000
    instance = local_search.VoteInstance(
        jnp.ones((size, 1)), jnp.ones(1), jnp.zeros(size), jnp.ones(size, bool), jnp.asarray(0.5)
    )
    coefficients = np.asarray(local_search.evaluate(instance, jnp.ones(size)).coefficients)
    assert coefficients.min() >= 0
    assert coefficients.astype(np.float64).sum() == 1


@pytest.mark.slow
def test_one_move_from_the_best_point_brings_nothing_better():
    """The line search against a fine grid of t."""
    rng = np.random.default_rng(2)
    solve = jax.jit(
        lambda problem: local_search.search(
            problem, local_search.evaluate(problem, jnp.ones(6)), config=local_search.SearchConfig()
        )
    )
    for _ in range(20):
        problem = random_problem(rng, 6, 10)
        last = solve(problem)
        own = np.asarray(last.coefficients, float)
        for u in np.flatnonzero(np.asarray(problem.is_column)):
            for t in np.linspace(-own[u] / max(1 - own[u], 1e-9), 1, 301)[1:-1]:
                moved = (1 - t) * own
                moved[u] += t
                reached = np.asarray(problem.margins, float).T @ moved
                errors = np.sum(
                    np.asarray(problem.weights, float)[reached < float(problem.margin) + 1e-4]
                )
                loss = errors + np.sum(np.asarray(problem.costs, float)[moved > 1e-9])
                assert loss >= float(last.loss) - 1e-4


@pytest.mark.slow
def test_a_literal_stands_for_the_opposite_one_and_a_better_one_for_a_worse():
    bits, labels = np.array([1, 1, 1, 0, 0, 0, 0, 1.0]), np.array([1, 1, 1, -1, -1, -1, -1, 1.0])
    worse = np.array([1, 1, 0, 0, 0, 0, 0, 0.0])
    outputs = np.array([np.ones(8), -np.ones(8), bits, bits - 1, worse]).astype(np.float32)
    costs = jnp.array([0, 0, 0.5, 0.5, 0.5])
    instance = local_search.VoteInstance(
        jnp.asarray(outputs * labels), jnp.ones(8), costs, jnp.ones(5, bool), jnp.asarray(0.1)
    )
    solve = jax.jit(
        lambda start: local_search.search(
            instance,
            local_search.evaluate(instance, start),
            config=local_search.SearchConfig(),
            companions=(0, 1),
        )
    )
    for start in ([0.0, 0.0, 0.5, 0.5, 0.0], [0.0, 0.3, 0.0, 0.0, 0.7]):
        found = solve(jnp.array(start, jnp.float32))
        assert float(found.loss) == pytest.approx(0.5, rel=1e-6)
        assert np.sum(np.asarray(found.coefficients)[2:] > 0) == 1


@pytest.mark.slow
def test_votes_of_few_hypotheses_keep_to_what_is_allowed_and_come_near_the_best_of_them():
    rng = np.random.default_rng(5)
    problems = [random_problem(rng) for _ in range(30)]
    constants = np.stack([np.ones(20), -np.ones(20)]) * rng.choice([-1.0, 1.0], (30, 1, 20))
    problems = [
        problem._replace(
            margins=problem.margins.at[:2].set(pair),
            costs=0.1 * problem.costs.at[:2].set(0),
            is_column=problem.is_column.at[:2].set(True),
        )
        for problem, pair in zip(problems, constants, strict=True)
    ]
    starts = jnp.asarray(rng.dirichlet(np.ones(12), (30, 4)).astype(np.float32)).at[:, 0].set(0)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)
    most = 2
    config = local_search.SearchConfig(max_hypotheses=most)

    def best(problem, starts):
        def one(start):
            few = local_search.limited(
                jnp.where(problem.is_column, start, 0), config.max_hypotheses, (0, 1)
            )
            return local_search.search(
                problem, local_search.evaluate_near(problem, few), config=config, companions=(0, 1)
            )

        votes = jax.vmap(one)(starts)
        return jax.tree.map(lambda leaf: leaf[jnp.argmin(votes.loss)], votes)

    found = jax.device_get(jax.jit(jax.vmap(best))(stacked, starts))
    num_best = 0
    for index, problem in enumerate(problems):
        assert np.sum(found.coefficients[index, 2:] > 0) <= most
        assert float(found.loss[index]) == pytest.approx(
            float(exact_loss(problem, found.coefficients[index])), rel=1e-6
        )
        kept = np.flatnonzero(problem.is_column)
        margins, cost, weights = (
            np.asarray(part, float)
            for part in (problem.margins[kept], problem.costs[kept], problem.weights)
        )
        optimum = oracle.integer_optimum(
            margins.T,
            np.ones(20),
            cost,
            float(problem.margin),
            weights,
            (kept > 1).astype(float)[None, :],
            most,
        )
        assert optimum <= found.loss[index] + 1e-5
        num_best += found.loss[index] <= optimum + 1e-4
    assert num_best >= 15  # a local search from four points


@pytest.mark.slow
def test_a_pool_of_columns_is_priced_over_all_of_them():
    rng, cost = np.random.default_rng(4), 0.3
    for margin in (0.1, 0.5):
        columns = rng.integers(-1, 2, (16, 6)).astype(np.float32)
        labels = np.where(columns[:, 0] - columns[:, 1] > 0, 1.0, -1.0)
        fit = jboost.l0.fit(
            jboost.make_dataset(columns, labels),
            jboost.learners.pool(cost=cost, num_proposed=2),
            margin=margin,
            max_rounds=20,
        )
        outputs = np.hstack([np.ones((16, 1)), -np.ones((16, 1)), columns, -columns])
        optimum = oracle.optimum(outputs, labels, np.r_[0, 0, np.full(12, cost)], margin)
        assert (
            float(fit.certificate.lower_bound)
            <= optimum + 1e-6
            <= float(fit.certificate.upper_bound) + 2e-6
        )
        assert fit.certificate.upper_bound - fit.certificate.lower_bound <= 2e-3 * max(1.0, optimum)


def every_stump(features):
    """Outputs [m, S] of all stumps, both ways round, 0 where the feature is missing."""
    columns = []
    for column in features.T:
        present = np.unique(column[~np.isnan(column)])
        for low, high in itertools.pairwise(present):
            answers = np.where(np.isnan(column), 0, np.where(column > (low + high) / 2, 1, -1))
            columns += [answers, -answers]
    return np.stack(columns, axis=1)


@pytest.mark.slow
def test_stumps_are_priced_over_all_of_them():
    rng, cost = np.random.default_rng(5), 0.4
    features = rng.integers(0, 5, (18, 3)).astype(np.float32)
    features[rng.random((18, 3)) < 0.1] = np.nan
    labels = np.where(np.nan_to_num(features[:, 0]) + rng.integers(-1, 2, 18) > 2, 1.0, -1.0)
    learner = jboost.learners.stumps(cost=cost, num_proposed=3)
    fit = jboost.l0.fit(jboost.make_dataset(features, labels), learner, margin=0.2, max_rounds=20)
    outputs = np.hstack([np.ones((18, 1)), -np.ones((18, 1)), every_stump(features)])
    optimum = oracle.optimum(outputs, labels, np.r_[0, 0, np.full(outputs.shape[1] - 2, cost)], 0.2)
    assert (
        float(fit.certificate.lower_bound)
        <= optimum + 1e-6
        <= float(fit.certificate.upper_bound) + 2e-6
    )
    assert fit.certificate.upper_bound - fit.certificate.lower_bound <= 2e-3 * max(1.0, optimum)


@pytest.mark.slow
def test_the_worth_of_stumps_is_that_of_the_best_of_all():
    rng = np.random.default_rng(6)
    features = rng.integers(0, 4, (12, 3)).astype(np.float32)
    features[0, 0] = features[3, 1] = np.nan
    labels, weights = np.where(rng.random(12) < 0.5, 1.0, -1.0), rng.random(12).astype(np.float32)
    mask = np.arange(12) < 11
    weights[~mask] = 0
    between = (labels[:, None] * labels[None, :] < 0) & mask[:, None] & mask[None, :]
    pairs = np.where(between, rng.random((12, 12)), 0).astype(np.float32)
    learner = jboost.learners.stumps(cost=0.3, num_proposed=4)
    state = learner.init(None, jboost.make_dataset(features, labels, mask=mask))
    proposal = learner.propose(state, jnp.asarray(weights), pair_weights=jnp.asarray(pairs))
    outputs = every_stump(features[mask])
    hits = outputs == labels[mask][:, None]
    # of the other example: not right on the first's class
    misses = outputs != -labels[mask][:, None]
    edges = (labels * weights)[mask] @ outputs
    rewards = np.einsum("iu,ij,ju->u", hits, pairs[np.ix_(mask, mask)], misses)
    best = np.max(edges + rewards - 0.3)
    assert float(proposal.values[0]) == pytest.approx(best, abs=1e-5)
    assert best <= float(proposal.upper_bound) <= best + 1e-3
    assert np.isneginf(np.asarray(proposal.values)[3])
    assert np.all(np.asarray(proposal.outputs)[:, ~mask] == 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "wanted"),
    [([1, 1, 1, 1], 1), ([-1, -1, -1, -1], -1)],
)
def test_one_class_only_is_a_constant(labels, wanted):
    dataset = jboost.make_dataset(np.eye(4, 2, dtype=np.float32), labels)
    fit = jboost.l0.fit(dataset, jboost.learners.monomials(1), margin=0.2, max_rounds=4)
    assert np.all(np.asarray(jboost.predict(fit.ensemble, dataset.features)) == wanted)
    assert float(fit.certificate.integer_upper_bound) == 0


@pytest.mark.slow
def test_columns_are_generated_over_all_pairs_at_once_too():
    rng, margin = np.random.default_rng(6), 0.2
    columns = rng.integers(-1, 2, (16, 6)).astype(np.float32)
    labels = np.where(columns[:, 0] - columns[:, 1] > 0, 1.0, -1.0)
    config = jboost.l0.RelaxationConfig(solver=jboost.l0.AllPairsConfig())
    fit = jboost.l0.fit(
        jboost.make_dataset(columns, labels),
        jboost.learners.pool(cost=0.3),
        margin=margin,
        max_rounds=20,
        config=config,
    )
    outputs = np.column_stack([np.ones(16), -np.ones(16), columns, -columns])
    optimum = oracle.optimum(outputs, labels, np.r_[0, 0, np.full(12, 0.3)], margin)
    assert float(fit.certificate.lower_bound) <= optimum + 1e-6
    assert optimum <= float(fit.certificate.upper_bound) + 1e-6
    assert float(fit.certificate.upper_bound) - float(fit.certificate.lower_bound) <= 2e-3 * max(
        1.0, optimum
    )


def finds_the_optimum(bits, labels, prices, max_order, **options):
    """Whether `fit` closes on the optimum of (15) over monomials of these prices by order, finite
    ones.
    """
    features, signs = np.tile(np.float32(bits), (3, 1)), np.tile(np.float32(labels), 3)
    learner = jboost.learners.monomials(max_order, **options)
    found = jboost.l0.fit(
        jboost.make_dataset(features, signs), learner, margin=0.1, max_rounds=12
    ).certificate
    outputs, cost = every_monomial(features, len(prices) - 1, prices)
    optimum, relaxed = (
        oracle.integer_optimum(outputs, signs, cost, 0.1),
        oracle.optimum(outputs, signs, cost, 0.1),
    )
    assert float(found.integer_lower_bound) <= optimum + 1e-5
    assert float(found.integer_upper_bound) == pytest.approx(optimum, abs=1e-4)
    assert float(found.lower_bound) <= relaxed + 1e-6
    assert float(found.upper_bound) >= relaxed - 1e-6
    assert float(found.upper_bound) - float(found.lower_bound) <= 2e-3 * max(1.0, relaxed)


CORNER = [[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]], [1, -1, -1, -1]


@pytest.mark.slow
def test_orders_above_the_number_of_attributes_that_count_are_none():
    prices = [0.0] + [
        (k + np.log2(number) + np.log2(3)) / np.log2(12) + 0.1 for k, number in ((1, 2), (2, 1))
    ]
    finds_the_optimum(*CORNER, prices, 3, cost=costs.mdl(0.1, num_attributes=2))


@pytest.mark.slow
def test_constants_alone_where_all_else_costs_infinitely_much():
    finds_the_optimum(*CORNER, [0.0], 1, kappa=float("inf"))


@pytest.mark.slow
def test_a_literal_that_holds_of_all_examples_may_be_cheaper_than_a_constant():
    prices = [10.0, (1 + np.log2(3)) / np.log2(12) + 0.1]
    finds_the_optimum([[1, 1, 0]] * 4, [1, 1, 1, -1], prices, 1, kappa=0.1, constant_cost=10.0)


@pytest.mark.slow
def test_no_attribute_leaves_the_constants():
    constants = jboost.l0.fit(
        jboost.make_dataset(np.zeros((4, 0)), [1, -1, 1, 1]),
        jboost.learners.monomials(0),
        margin=0.2,
        max_rounds=4,
    )
    assert float(constants.certificate.integer_upper_bound) == pytest.approx(1)
    assert float(constants.certificate.integer_lower_bound) <= 1


@pytest.mark.slow
def test_conflicting_examples_are_errors():
    features = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.float32)
    dataset = jboost.make_dataset(features, [1, -1, -1, -1])
    fit = jboost.l0.fit(dataset, jboost.learners.monomials(1, kappa=0.01), margin=0.2, max_rounds=4)
    assert (
        float(fit.certificate.lower_bound) <= 1 <= float(fit.certificate.integer_upper_bound) + 1e-6
    )


@functools.partial(jax.jit, static_argnames="booster")
def fit_under_jit(booster, features, option):
    dataset, options = (
        jboost.make_dataset(features, [1, -1, -1, -1]),
        {"nu" if booster is jboost.lpboost else "margin": option},
    )
    return booster.fit(dataset, jboost.learners.monomials(1), max_rounds=4, **options)


@pytest.mark.parametrize("booster", [slow(jboost.lpboost), slow(jboost.l0)], ids=["lpboost", "l0"])
def test_features_that_are_not_bits_are_said_under_jit_too(booster):
    ended = fit_under_jit(booster, jnp.array([[1, 0], [1, 1], [0, 1], [0, 2]], jnp.float32), 0.5)
    assert int(ended.status) == jboost.status.Status.INVALID_INPUT
    assert np.isnan(float(ended.certificate.lower_bound))


def test_fit_validates_arguments():
    dataset = jboost.make_dataset(np.eye(3, dtype=np.float32), [1, -1, 1])
    learner = jboost.learners.monomials(1)
    with pytest.raises(ValueError, match="margin is 0"):
        jboost.l0.fit(dataset, learner, margin=0.0)
    with pytest.raises(ValueError, match=r"margin is 1\.5"):
        jboost.l0.fit(dataset, learner, margin=1.5)
    with pytest.raises(ValueError, match="learner is a Rules without prices"):
        jboost.l0.fit(dataset, jboost.slipper.rules(), margin=0.1)
    with pytest.raises(ValueError, match="search is a dict: expected a jboost.l0.SearchConfig"):
        jboost.l0.fit(dataset, learner, margin=0.1, search={})
    with pytest.raises(ValueError, match="bound_integer is 'no'"):
        jboost.l0.fit(dataset, learner, margin=0.1, bound_integer="no")
    with pytest.raises(ValueError, match="dataset has no examples"):
        jboost.l0.fit(jboost.make_dataset(np.zeros((0, 2)), []), learner, margin=0.1)
    for given in ((np.eye(3), [1, -1, 1]), np.eye(3)):
        with pytest.raises(ValueError, match=r"dataset is a .* jboost\.make_dataset"):
            jboost.l0.fit(given, learner, margin=0.1)
    with pytest.raises(ValueError, match=r"learner is stumps\(abstain=True\), which has no prices"):
        jboost.l0.fit(dataset, jboost.learners.stumps(abstain=True), margin=0.1)
    with pytest.raises(ValueError, match="max_order is 7, above the 3 attributes"):
        jboost.l0.fit(dataset, jboost.learners.monomials(7), margin=0.1)
    with pytest.raises(ValueError, match="constant_cost is -1"):
        jboost.learners.monomials(1, constant_cost=-1.0)


def test_mdl_costs_are_those_of_the_paper():
    wanted = mdl_costs(9, 100, 5, 1.5)[1:]
    assert np.asarray(costs.mdl(1.5)(jnp.arange(1, 6), 9, 100, 5)) == pytest.approx(
        wanted, rel=1e-5
    )


@pytest.mark.slow
def test_the_pair_matrix_adds_up_its_list():
    outputs = [[1, 1, -1, 1, -1], [1, -1, 1, 1, -1], [-1, 1, 1, 1, -1], [-1, -1, -1, 1, -1]]
    relaxation = jboost.l0.solve_relaxation(
        outputs, [1, 1, 1, -1], [0.3, 0.3, 0.3, 0.0, 0.0], margin=0.05
    )
    matrix = np.asarray(pricing.pair_matrix(relaxation))
    assert np.sum(relaxation.pair_weights) > 0.1
    assert matrix.sum() == pytest.approx(float(np.sum(relaxation.pair_weights)), abs=1e-6)
    for (first, second), one in zip(
        np.asarray(relaxation.pairs), np.asarray(relaxation.pair_weights), strict=True
    ):
        if one:
            assert matrix[first, second] >= one


def test_pairs_of_too_many_examples_are_refused(monkeypatch):
    monkeypatch.setattr(pricing.memory, "of_device", lambda: 16 << 30)
    many = relaxation_of(40_000)
    with pytest.raises(ValueError, match="dataset has 40000 examples: .* bytes"):
        pricing.pair_matrix(many)


def relaxation_of(num_examples):
    """As much of a relaxation as its pairs need."""
    zeros = np.zeros(num_examples, np.float32)
    names = dict.fromkeys(jboost.l0.L0Relaxation._fields)
    return jboost.l0.L0Relaxation(
        **{
            **names,
            "example_weights": zeros,
            "pairs": np.zeros((0, 2), np.int32),
            "pair_weights": zeros[:0],
        }
    )


@pytest.mark.slow
def test_columns_that_find_no_room_are_said():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (40, 12)).astype(np.float32)
    labels = np.where(bits[:, 0] + bits[:, 3] + bits[:, 5] + rng.random(40) > 2, 1, -1)
    dataset, learner = (
        jboost.make_dataset(bits, labels),
        jboost.learners.monomials(2, kappa=0.2, num_proposed=4),
    )
    tight, roomy = (
        jboost.l0.fit(dataset, learner, margin=0.5, max_rounds=40, max_columns=columns)
        for columns in (8, 96)
    )
    assert [jboost.status.Status(int(fitted.status)).name for fitted in (tight, roomy)] == [
        "CAPACITY_LIMIT",
        "OPTIMAL",
    ]
    assert int(tight.num_rounds) < 40
    assert tight.certificate.lower_bound <= roomy.certificate.upper_bound
    assert roomy.certificate.lower_bound <= tight.certificate.upper_bound


@pytest.mark.slow
def test_starts_of_the_local_search_are_the_largest_few():
    starts = np.asarray(local_search.sparse_starts(jnp.array([0.1, 0.0, 0.5, 0.2, 0.2])))
    np.testing.assert_allclose(starts[0], [0, 0, 0.5, 0.2, 0])
    np.testing.assert_allclose(starts[1], [0.1, 0, 0.5, 0.2, 0.2])
    np.testing.assert_allclose(starts[4], [0, 0, 1, 1, 1])
    np.testing.assert_allclose(starts[6], [1, 0, 1, 1, 1])
    assert not np.asarray(local_search.sparse_starts(jnp.zeros(2))).any()
    assert np.asarray(local_search.sparse_starts(jnp.arange(40.0)) > 0).sum(axis=1).tolist() == [
        2,
        4,
        8,
        16,
        3,
        6,
        12,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("either", [False, True])
def test_reduced_costs_are_those_of_the_definition(either):
    rng = np.random.default_rng(4)
    labels = np.where(np.arange(9) % 2 == 0, 1, -1)
    outputs, cost, w = rng.integers(-1, 2, (9, 12)), rng.random(12), rng.random(9)
    ends = np.array([(2 * i, 2 * j + 1) for i in range(5) for j in range(4)])
    pairs = np.where(rng.random(len(ends))[:, None] < 0.5, ends, ends[:, ::-1])
    v = np.where(np.arange(len(pairs)) % 7 > 0, rng.random(len(pairs)), 0)
    helps = oracle.tell_apart if either else oracle.serves
    served = sum(one * helps(outputs, labels, *pair) for one, pair in zip(v, pairs, strict=True))
    wanted = cost - served - np.maximum((w * labels) @ outputs - 0.3, 0)
    duals = SimpleNamespace(
        pairs=jnp.asarray(np.concatenate([pairs, [[-1, -1]]])),
        pair_weights=jnp.append(v, 0),
        example_weights=jnp.asarray(w),
        convexity=-0.3,
    )
    found = l0_columns.reduced_costs(
        jnp.asarray((outputs * labels[:, None]).T, float), jnp.asarray(cost), duals, either
    )
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("num_attributes", "max_order", "room"),
    [(1, 1, 6), (3, 1, 14), slow(2, None, 18), slow(30, 2, 40)],
)
def test_no_more_room_than_there_are_monomials(num_attributes, max_order, room):
    dataset = jboost.make_dataset(np.eye(30)[:, :num_attributes], np.ones(30))
    learner = jboost.learners.monomials(max_order)
    for booster, options in ((jboost.l0, {"margin": 0.1}), (jboost.lpboost, {"nu": 0.5})):
        rounds = 20 if booster is jboost.l0 else 40  # l0 asks two questions a round
        state = jax.eval_shape(
            lambda booster=booster, rounds=rounds, options=options: booster.init(
                dataset, learner, max_rounds=rounds, **options
            )
        )
        assert state.ensemble.votes.shape == (room, 2)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [(-1, 1), (-1, 0, 1)], ids=["never abstain", "may abstain"])
def test_what_hypotheses_are_paid_for_cuts_that_either_end_serves(answers):
    """By the definition: once if an end is right and the other not wrong. Those that abstain may be
    paid more, never less.
    """
    rng = np.random.default_rng(17)
    outputs, labels = (
        rng.choice(answers, (8, 20)).astype(np.float32),
        np.where(np.arange(8) < 3, 1.0, -1.0).astype(np.float32),
    )
    pairs = np.array([(i, j) for i in range(3) for j in range(3, 8)])
    duals = rng.random(len(pairs)).astype(np.float32)
    margins = outputs * labels[:, None]
    one, other = margins[pairs[:, 0]], margins[pairs[:, 1]]
    served = duals @ ((np.maximum(one, other) == 1) & (np.minimum(one, other) >= 0))
    priced = pricing.PricingDuals(jnp.zeros(8), jnp.asarray(pairs), jnp.asarray(duals))
    listed = pricing.pair_list(priced, True, 0 not in answers)
    paid = prices.worth(
        jnp.asarray(outputs), jnp.asarray(labels), jnp.zeros(8), listed, jnp.zeros(20)
    ).own
    assert (paid >= served - 1e-5).all()
    if 0 not in answers:
        np.testing.assert_allclose(paid, served, rtol=1e-5)
    pool = jboost.learners.pool()
    assert pool.never_abstains(pool.init(None, jboost.make_dataset(outputs, labels))) == (
        0 not in answers
    )
    stumps = jboost.learners.stumps()
    for features, wanted in (([[0.0], [1.0]], True), ([[0.0], [np.nan]], False)):
        assert (
            stumps.never_abstains(stumps.init(None, jboost.make_dataset(features, [1, -1])))
            == wanted
        )


def test_costs_are_finite_and_widths_agree():
    for make in (jboost.learners.pool, jboost.learners.literals, jboost.learners.stumps):
        with pytest.raises(ValueError, match="cost is inf"):
            make(cost=np.inf)
    with pytest.raises(ValueError, match="constant_cost is inf"):
        jboost.learners.monomials(1, constant_cost=np.inf)
    learner = jboost.learners.monomials(1)
    with pytest.raises(ValueError, match=r"features has shape \[3, 3\]: expected shape \[k, 2\]"):
        learner.outputs(
            jboost.learners.Monomial(jnp.array([1, 0], jnp.int8), jnp.int8(1)), np.eye(3)
        )


def price_of_ones_own(orders, num_attributes, num_examples, max_order):
    return orders + 0.5


@pytest.mark.slow
def test_bounds_that_little_costs_and_few_hypotheses_leave():
    """Two rows in conflict miss the margin, for one loss at least; so does one of three that no
    stump tells apart.
    """
    in_conflict = jboost.make_dataset(
        [[1.0], [1.0], [-1.0], [0.0]], [1, -1, -1, 1], mask=[True, True, True, False]
    )
    for cost in (0.0, 1e-9):
        bounds = jboost.l0.fit(in_conflict, jboost.learners.pool(cost=cost), margin=0.5).certificate
        assert 0.999 <= bounds.lower_bound <= 1 <= bounds.upper_bound <= 1.001
    alike = jboost.l0.fit(
        jboost.make_dataset([[0.0]] * 3, [1, -1, -1]), jboost.learners.stumps(), margin=0.5
    ).certificate
    assert 0.999 <= alike.lower_bound <= 1 <= alike.upper_bound <= 1.001
    apart = jboost.make_dataset([[1.0], [1.0], [-1.0], [-1.0]], [1, 1, -1, -1], weights=[1.5] * 4)
    for config in (None, jboost.l0.RelaxationConfig(cuts="either")):
        bounds = jboost.l0.fit(
            apart, jboost.learners.pool(cost=0.9), margin=0.5, config=config
        ).certificate
        assert (
            0.899 <= bounds.integer_lower_bound <= 0.9 + 1e-6 <= bounds.integer_upper_bound + 2e-6
        )


@pytest.mark.slow
def test_costs_of_ones_own_and_infinite_ones_and_rows_that_only_pad():
    padded = jboost.make_dataset(
        np.array([[1, 0], [0, 1], [np.nan, np.nan], [0, 0]], np.float32),
        [1, -1, 1, 1],
        mask=[True, True, False, False],
    )
    assert (
        jboost.l0.fit(padded, jboost.learners.monomials(1), margin=0.1, max_rounds=4).status
        == Status.OPTIMAL
    )
    three = jboost.make_dataset(np.eye(3, dtype=np.float32), [1, -1, 1])
    assert jboost.learners.monomials(1, cost=price_of_ones_own) == jboost.learners.monomials(
        1, cost=price_of_ones_own
    )
    assert (
        jboost.l0.fit(
            three, jboost.learners.monomials(1, cost=price_of_ones_own), margin=0.2
        ).status
        == Status.OPTIMAL
    )
    exact = jboost.l0.fit_exact(
        three, jboost.learners.monomials(1, kappa=np.inf), margin=0.2, max_rounds=4
    )
    assert exact.status == Status.OPTIMAL
    np.testing.assert_allclose(
        [exact.certificate.integer_lower_bound, exact.certificate.integer_upper_bound],
        1.0,
        rtol=1e-5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("num_folds", [4, 8])
def test_folds_that_hold_nothing_out_do_not_count(num_folds):
    """Without one of four equal rows the other class has more, and it is wrong about the one."""
    equal = jboost.make_dataset([[0.0]] * 4, [1, 1, -1, -1])
    grid = {
        "margins": [0.5],
        "kappas": [0.1],
        "key": jax.random.key(0),
        "num_folds": num_folds,
        "max_rounds": 4,
    }
    chosen = jboost.l0.choose(
        equal, lambda kappa: jboost.learners.monomials(1, kappa=kappa), **grid
    )
    assert (chosen.errors == 1).all()
    assert (chosen.standard_errors == 0).all()


@pytest.mark.slow
def test_a_tolerance_that_float64_carries_is_met(x64):
    rng = np.random.default_rng(0)
    features = rng.integers(0, 2, (40, 6)).astype(float)
    labels = np.where((features[:, 0] + features[:, 1] > 0) ^ (rng.random(40) < 0.2), 1, -1)
    learner = jboost.learners.monomials(2, kappa=0.2, num_proposed=4)
    fitted = jboost.l0.fit(
        jboost.make_dataset(features, labels),
        learner,
        margin=0.2,
        tolerance=1e-9,
        bound_integer=False,
    )
    assert int(fitted.status) == Status.OPTIMAL
    assert (
        fitted.certificate.upper_bound - fitted.certificate.lower_bound
        <= 1e-9 * fitted.certificate.upper_bound
    )


def test_what_is_wrong_with_features_and_margins_is_said():
    dataset = jboost.make_dataset([[0.3], [0.9], [0.1], [0.8]], [-1, 1, -1, 1])
    with pytest.raises(ValueError, match=r"features\[0, 0\] is 0.3: distances"):
        jboost.l0.fit(
            dataset,
            jboost.learners.stumps(),
            margin=0.1,
            config=jboost.l0.RelaxationConfig(distance_factor=2.0),
        )


@pytest.mark.slow
def test_a_margin_that_is_no_number_bounds_nothing():
    fitted = fit_under_jit(jboost.l0, jnp.eye(4, 2), jnp.nan)
    assert int(fitted.status) == Status.INVALID_INPUT
    assert np.isnan(
        [
            fitted.certificate.lower_bound,
            fitted.certificate.integer_lower_bound,
            fitted.certificate.integer_upper_bound,
        ]
    ).all()


def negative_price(orders, num_attributes, num_examples, max_order):
    return -1.0 * orders


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jboost.monomials.costs.mdl(-5.0), "kappa is -5: expected a number from 0"),
        (lambda: jboost.monomials.costs.rademacher(-5.0), "scale is -5: expected a number from 0"),
        (
            lambda: jboost.monomials.costs.rademacher(0.1, num_examples=np.nan),
            "num_examples is nan",
        ),
        (
            lambda: jboost.learners.monomials(2, cost=negative_price),
            "cost is -1 of monomials of order 1: expected costs from 0 up",
        ),
    ],
)
def test_costs_that_are_not_allowed_are_named(make, message):
    dataset = jboost.make_dataset(np.eye(3, dtype=np.float32), [1, -1, 1])
    with pytest.raises(ValueError, match=message):
        jboost.l0.fit(dataset, make(), margin=0.2)


def test_rademacher_costs_may_be_told_how_many_examples_there_were():
    rows, whole = (
        jboost.monomials.costs.rademacher(0.1, num_examples=number) for number in (None, 100)
    )
    orders = jnp.array([1, 2])
    np.testing.assert_allclose(
        whole(orders, 8, jnp.asarray(10), 2), rows(orders, 8, jnp.asarray(100), 2)
    )


@pytest.mark.slow
def test_cuts_that_find_no_room_are_a_status():
    rng = np.random.default_rng(3)
    dataset = jboost.make_dataset(
        rng.integers(0, 2, (40, 6)).astype(np.float32), rng.choice([-1, 1], 40)
    )
    learner, config = (
        jboost.learners.monomials(1, kappa=0.3),
        jboost.l0.RelaxationConfig(capacity=6),
    )
    fitted = jboost.l0.fit(dataset, learner, margin=0.2, max_rounds=40, config=config)
    assert fitted.status == Status.CAPACITY_LIMIT
    assert fitted.certificate.lower_bound <= fitted.certificate.upper_bound


def test_pricing_of_short_monomials_makes_no_matrix_of_all_pairs():
    num_examples = 100_000
    features = jax.ShapeDtypeStruct((num_examples, 6), jnp.float32)
    column = jax.ShapeDtypeStruct((num_examples,), jnp.float32)
    learner = jboost.learners.monomials(2, num_proposed=4)

    def price(features, labels, weights):
        state = learner.init(None, jboost.make_dataset(features, labels))
        duals = pricing.PricingDuals(weights, jnp.zeros((50, 2), jnp.int32), jnp.zeros((50,)))
        return pricing.solve(learner, state, duals, None, jnp.zeros((), bool)).upper_bound

    closed = jax.make_jaxpr(price)(features, column, column)
    assert largest_array(closed.jaxpr) < 100 * num_examples


def largest_array(jaxpr) -> int:
    """The number of entries of the largest array that a program makes, inner programs included."""
    sizes = [
        variable.aval.size
        for equation in jaxpr.eqns
        for variable in equation.outvars
        if hasattr(variable.aval, "size")
    ]
    inner = [
        largest_array(part)
        for equation in jaxpr.eqns
        for part in jax.extend.core.jaxprs_in_params(equation.params)
    ]
    return max([*sizes, *inner], default=0)
