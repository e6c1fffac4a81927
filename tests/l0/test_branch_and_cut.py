"""Branch and cut on the sparse minimum disagreement problem (15), against its mixed-integer program
by HiGHS.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_booster import every_monomial, mdl_costs

import jboost
from jboost import l0
from jboost.base.status import Status
from jboost.l0.votes import local_search
from oracles import l0 as oracle

PROBLEMS, EXAMPLES, COLUMNS = 30, 12, 8


def pools(count, seed):
    """Outputs [count, m, U], labels, costs and margins; constants that cost nothing first, some
    costs equal, some all different, a free column.
    """
    random = np.random.default_rng(seed)
    labels = np.where(random.random((count, EXAMPLES)) < 0.5, 1, -1)
    outputs = random.choice([-1, 0, 1], (count, EXAMPLES, COLUMNS), p=[0.3, 0.4, 0.3])
    outputs = np.where(
        random.random(outputs.shape) < random.uniform(0, 0.5, (count, 1, 1)),
        labels[:, :, None],
        outputs,
    )
    outputs[::2] = np.where(outputs[::2] == 0, 1, outputs[::2])
    outputs[:, :, 0], outputs[:, :, 1] = 1, -1
    costs = np.where(
        np.arange(count)[:, None] % 3 == 0, 0.5, random.uniform(0.1, 1.5, (count, COLUMNS))
    )
    costs[:, :2] = 0
    costs[::5, 4] = 0
    labels[1] = 1
    return (
        outputs,
        labels,
        costs.astype(np.float32),
        random.uniform(0.03, 0.6, count).astype(np.float32),
    )


@functools.partial(jax.jit, static_argnames="config")
def solve_padded(
    outputs, labels, costs, margins, weights, mask, column_mask, tolerance, config=None
):
    def one(outputs, labels, costs, margin, weights, mask, column_mask):
        options = {
            "margin": margin,
            "weights": weights,
            "mask": mask,
            "column_mask": column_mask,
            "tolerance": tolerance,
            "config": config,
        }
        return l0.solve_exact(outputs, labels, costs, **options)

    return jax.vmap(one)(outputs, labels, costs, margins, weights, mask, column_mask)


def padded(
    outputs, labels, costs, margins, tolerance=1e-3, weights=None, mask=True, column_mask=True
):
    """Problems [b, ...] as arguments of one shape, so that one program serves nearly all tests; the
    first problems come again at the end.
    """
    count, examples, columns = np.shape(outputs)
    rows = np.arange(PROBLEMS) % count
    more_examples, more_columns = (0, EXAMPLES - examples), (0, COLUMNS - columns)

    def filled(array, shape, *more):
        return np.pad(np.broadcast_to(array, shape), ((0, 0), *more))[rows]

    return (
        filled(np.asarray(outputs, float), (count, examples, columns), more_examples, more_columns),
        filled(np.asarray(labels, int), (count, examples), more_examples),
        filled(np.asarray(costs, np.float32), (count, columns), more_columns),
        np.asarray(margins, float)[rows],
        filled(
            np.asarray(1 if weights is None else weights, float), (count, examples), more_examples
        ),
        filled(mask, (count, examples), more_examples),
        filled(column_mask, (count, columns), more_columns),
        np.asarray(tolerance, float),
    )


def solve_all(*problems, config=None, **options):
    count, _, columns = np.shape(problems[0])
    found = jax.device_get(solve_padded(*padded(*problems, **options), config=config))
    return jax.tree.map(lambda leaf: leaf[:count], found)._replace(
        coefficients=found.coefficients[:count, :columns]
    )


def solve_one(outputs, labels, costs, margin, tolerance=1e-4, **options):
    more = {name: np.asarray(option)[None] for name, option in options.items()}
    found = solve_all(
        np.asarray(outputs)[None],
        np.asarray(labels)[None],
        np.asarray(costs)[None],
        [margin],
        tolerance=tolerance,
        **more,
    )
    return jax.tree.map(lambda leaf: leaf[0], found)


def exact_errors(outputs, labels, margin, coefficients):
    shares = oracle.exactly(coefficients)
    reached = [
        int(label) * sum(int(said) * share for said, share in zip(row, shares, strict=True))
        for row, label in zip(outputs, labels, strict=True)
    ]
    return sum(one < float(margin) for one in reached)


@pytest.mark.slow
def test_optima_are_those_of_the_mixed_integer_program():
    problems = pools(30, 0)
    found = solve_all(*problems)
    for index, (outputs, labels, costs, margin) in enumerate(zip(*problems, strict=True)):
        optimum = oracle.integer_optimum(outputs, labels, costs, float(margin))
        assert found.lower_bound[index] <= optimum + 1e-5, index
        assert found.loss[index] == pytest.approx(optimum, abs=2e-3), index
        assert found.status[index] == Status.OPTIMAL, index
        coefficients = found.coefficients[index]
        loss = exact_errors(outputs, labels, margin, coefficients) + costs[coefficients > 0].sum()
        assert loss == pytest.approx(float(found.loss[index]), abs=1e-5)


@pytest.mark.slow
def test_margins_that_are_met_with_equality():
    outputs, labels, costs, _ = pools(30, 2)
    margins = np.resize(np.float32([0.25, 0.5, 1.0]), 30)
    costs[::2] = 0
    found = solve_all(outputs, labels, costs, margins)
    for index in range(30):
        optimum = oracle.integer_optimum(
            outputs[index], labels[index], costs[index], float(margins[index])
        )
        assert found.lower_bound[index] <= optimum + 1e-5, index
        assert found.loss[index] == pytest.approx(optimum, abs=2e-3), index
        assert found.status[index] == Status.OPTIMAL, index


@pytest.mark.slow
def test_members_in_lockstep_are_those_one_after_the_other(monkeypatch):
    """As on accelerators, where a batch of searches stays whole."""
    problems = pools(6, 8)
    alone = solve_all(*problems)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together = jax.tree.map(
        lambda leaf: leaf[:6], jax.device_get(jax.jit(solve_padded.__wrapped__)(*padded(*problems)))
    )
    np.testing.assert_array_equal(together.status, Status.OPTIMAL)
    np.testing.assert_allclose(together.loss, alone.loss, atol=2e-3)
    np.testing.assert_allclose(together.lower_bound, alone.lower_bound, atol=2e-3)


@pytest.mark.slow
def test_a_margin_that_only_halves_meet():
    outputs = [
        [-1, -1, 0, 1, 1],
        [1, -1, 1, 0, 0],
        [-1, 1, 1, -1, 0],
        [-1, 1, -1, 1, 0],
        [0, 0, 0, -1, -1],
        [-1, 1, 0, 1, -1],
    ]
    labels = [1, -1, 1, -1, 1, -1]
    found = solve_one(outputs, labels, [0.0] * 5, 0.5)
    assert exact_errors(outputs, labels, 0.5, found.coefficients) == 2
    assert float(found.loss) == pytest.approx(2, abs=1e-6)
    assert int(found.status) == Status.OPTIMAL


@pytest.mark.slow
def test_what_rounding_leaves_is_no_hypothesis(x64):
    """The best vote is met with coefficients of 1e-16 besides, which are not to be paid for."""
    outputs, labels, costs, margins = (part[53] for part in pools(60, 105))
    found = solve_one(outputs, labels, costs, float(margins))
    optimum = oracle.integer_optimum(outputs, labels, costs, float(margins))
    assert (int(found.status), float(found.loss)) == (
        Status.OPTIMAL,
        pytest.approx(optimum, abs=1e-4),
    )


@pytest.mark.slow
def test_margins_that_are_small(x64):
    """A promise that cannot be kept costs about the margin: that is more than what its relaxation
    leaves open.
    """
    outputs, labels, costs, _ = pools(6, 7)
    found = solve_all(outputs, labels, costs, np.full(6, 1e-3))
    for index in range(6):
        optimum = oracle.integer_optimum(outputs[index], labels[index], costs[index], 1e-3)
        assert (int(found.status[index]), float(found.loss[index])) == (
            Status.OPTIMAL,
            pytest.approx(optimum, abs=2e-3),
        ), index


@pytest.mark.slow
def test_limits_leave_valid_bounds():
    outputs, labels, costs, margins = pools(30, 1)
    for config in (l0.ExactConfig(max_batches=1), l0.ExactConfig(batch=2, capacity=3)):
        found = solve_all(outputs, labels, costs, margins, config=config)
        for index in range(30):
            optimum = oracle.integer_optimum(
                outputs[index], labels[index], costs[index], float(margins[index])
            )
            assert found.lower_bound[index] <= optimum + 1e-5
            assert found.loss[index] >= optimum - 1e-5
        assert not np.all(found.status == Status.OPTIMAL)


@pytest.mark.slow
def test_the_bound_climbs_with_the_nodes():
    """The nodes of the least bounds come first: half of the nodes close more than a third of the
    gap of the first one.
    """
    random = np.random.default_rng(6)
    signs = random.choice([-1, 1], (40, 12))
    labels = np.where(random.random(40) < 0.3, -1, 1) * np.sign(signs[:, :3].sum(axis=1))
    outputs = np.hstack([np.ones((40, 1)), -np.ones((40, 1)), signs])
    costs = np.r_[0.0, 0.0, np.full(12, 0.4)]
    seen = []
    found = l0.solve_exact(
        outputs,
        labels,
        costs,
        margin=0.3,
        on_step=lambda state, info: seen.append((int(info.num_nodes), float(info.lower_bound))),
    )
    assert int(found.status) == Status.OPTIMAL
    assert float(found.loss) == pytest.approx(
        oracle.integer_optimum(outputs, labels, costs, 0.3), abs=1e-3
    )
    nodes, bounds = np.array(seen).T
    first, middle = bounds[0], bounds[nodes <= nodes[-1] / 2][-1]
    assert nodes[-1] > 50
    assert middle - first > (float(found.loss) - first) / 3


@pytest.mark.slow
def test_a_search_may_be_watched_and_stopped():
    outputs, labels, costs, margins = pools(30, 4)
    config = l0.ExactConfig(batch=1)
    whole = solve_all(outputs, labels, costs, margins, config=config)
    hardest = int(np.argmax(whole.num_nodes))
    problem = (outputs[hardest], labels[hardest], costs[hardest])
    options = {"margin": margins[hardest], "tolerance": 1e-3, "config": config}
    seen = []
    watched = l0.solve_exact(*problem, **options, on_step=lambda state, info: seen.append(info))
    assert (watched.loss, watched.lower_bound, watched.num_nodes) == (
        whole.loss[hardest],
        whole.lower_bound[hardest],
        whole.num_nodes[hardest],
    )
    assert [int(info.num_nodes) for info in seen] == list(range(1, len(seen) + 1))
    assert int(seen[-1].num_open) == 0
    lower = np.array([info.lower_bound for info in seen])
    assert np.all(np.diff(lower) >= 0)
    assert len(seen) > 2
    stopped = l0.solve_exact(*problem, **options, on_step=lambda state, info: False)
    assert (int(stopped.status), int(stopped.num_nodes)) == (Status.TIME_LIMIT, 1)
    assert float(stopped.lower_bound) == lower[0]
    assert float(stopped.loss) >= float(whole.loss[hardest]) - 1e-6
    with pytest.raises(ValueError, match="on_step is called on the host"):
        jax.jit(
            lambda cost: l0.solve_exact(
                *problem[:2], cost, **options, on_step=lambda state, info: None
            )
        )(problem[2])


@pytest.mark.slow
def test_a_model_may_be_watched_and_stopped():
    random = np.random.default_rng(5)
    bits = random.integers(0, 2, (20, 5)).astype(np.float32)
    dataset = jboost.make_dataset(
        bits, np.where(random.random(20) < 0.2, -1, np.where(bits[:, 0] + bits[:, 1] > 0, 1, -1))
    )
    learner = jboost.learners.monomials(1, kappa=0.1, num_proposed=4)
    options = {"margin": 0.3, "max_rounds": 20, "max_columns": 32, "max_in_play": 32}
    whole = l0.fit_exact(dataset, learner, **options)
    kinds = []
    watched = l0.fit_exact(
        dataset,
        learner,
        **options,
        on_step=lambda state, info: kinds.append(hasattr(info, "num_nodes")),
    )
    assert watched.certificate.integer_upper_bound == pytest.approx(
        float(whole.certificate.integer_upper_bound), abs=1e-4
    )
    assert kinds == sorted(kinds)
    assert (sum(kinds) > 0) == (int(watched.num_nodes) > 0)
    assert len(kinds) - sum(kinds) == int(watched.columns.num_rounds)
    for last in (20, 1):  # in the second fit the first round is the last
        stopped = l0.fit_exact(
            dataset,
            learner,
            **{**options, "max_rounds": last},
            on_step=lambda state, info: np.False_,
        )
        assert (int(stopped.status), int(stopped.columns.num_rounds), int(stopped.num_nodes)) == (
            Status.TIME_LIMIT,
            1,
            0,
        )
    assert stopped.certificate.integer_lower_bound <= whole.certificate.integer_upper_bound + 1e-5
    assert stopped.certificate.integer_upper_bound >= whole.certificate.integer_lower_bound - 1e-5


def test_the_best_pair_is_the_best_of_all_pairs():
    random = np.random.default_rng(6)
    find = jax.jit(local_search.best_pair)
    for _ in range(150):
        margins = random.integers(-1, 2, (6, 8)).astype(np.float32)
        weights, costs = (
            random.integers(1, 4, 8).astype(np.float32),
            random.random(6).astype(np.float32),
        )
        is_column, margin = random.random(6) < 0.6, np.float32(random.choice([0.2, 0.5, 0.6, 1.0]))
        found = find(local_search.VoteInstance(margins, weights, costs, is_column, margin))
        losses = {
            pair: costs[list(pair)].sum() + weights[margins[list(pair)].mean(axis=0) < margin].sum()
            for pair in itertools.combinations(np.flatnonzero(is_column).tolist(), 2)
        }
        assert float(found.loss) == pytest.approx(min(losses.values(), default=np.inf), abs=1e-4)
        assert not losses or losses[
            tuple(np.flatnonzero(found.coefficients).tolist())
        ] == pytest.approx(float(found.loss), abs=1e-4)


@pytest.mark.slow
def test_bounds_are_rounded_up_to_what_the_loss_can_be():
    weights, prices = jnp.ones(5), jnp.array([0, 0, 1.5, 1.5])
    for bound, wanted in (
        (0.2, 1.0),
        (1.0, 1.0),
        (1.2, 1.5),
        (1.6, 2.0),
        (2.1, 2.5),
        (2.6, 3.0),
        (7.3, 7.5),
        (-1.0, 0.0),
        (-np.inf, -np.inf),
    ):
        assert float(local_search.round_up(jnp.asarray(bound), weights, prices)) == pytest.approx(
            wanted, abs=1e-5
        )
    for whole in ([0, 1, 2, 5], [3, 7], [4096]):
        assert float(
            local_search.round_up(jnp.asarray(5.3), weights, jnp.array(whole, float))
        ) == pytest.approx(6)
    for others in (
        (weights * 0.5, prices),
        (weights, jnp.array([0, 0, 1.5, 1.4])),
        (weights, jnp.array([0, 1e-9])),
    ):
        assert float(local_search.round_up(jnp.asarray(1.2), *others)) == pytest.approx(1.2)
    assert float(local_search.round_up(jnp.asarray(1.2), weights, jnp.zeros(3))) == pytest.approx(2)
    assert float(
        local_search.round_up(jnp.asarray(1.2), weights, jnp.array([0, 1.5, np.inf]))
    ) == pytest.approx(1.5)


def test_solve_exact_validates_arguments():
    with pytest.raises(ValueError, match="margin is 0"):
        l0.solve_exact([[1]], [1], [0.0], margin=0.0)
    with pytest.raises(ValueError, match=r"outputs\[0, 0\] is 2"):
        l0.solve_exact([[2]], [1], [0.0], margin=0.1)
    with pytest.raises(ValueError, match="config.num_cuts is 0"):
        l0.ExactConfig(num_cuts=0)
    with pytest.raises(
        ValueError, match=r"config.search is a RelaxedConfig: expected a jboost.l0.SearchConfig"
    ):
        l0.ExactConfig(search=l0.RelaxedConfig())
    with pytest.raises(ValueError, match=r"config.relaxation is a NoneType"):
        l0.StrengthenConfig(relaxation=None)
    with pytest.raises(ValueError, match="config is a int"):
        l0.solve_exact([[1]], [1], [0.0], margin=0.1, config=3)


@pytest.mark.slow
def test_no_tolerance_is_that_of_rounding():
    solved = solve_one(
        [[1, -1, 1], [1, 1, -1], [-1, -1, 1]], [1, 1, -1], [0.3, 0.4, 0.7], 0.1, tolerance=0
    )
    assert int(solved.status) == Status.OPTIMAL
    assert float(solved.lower_bound) <= float(np.float32(0.3)) <= float(solved.loss)


@pytest.mark.slow
def test_sizes_0_and_what_is_not_allowed():
    assert (
        int(l0.solve_exact(np.zeros((0, 2)), np.zeros(0), [0.0, 0.0], margin=0.1).status)
        == Status.OPTIMAL
    )
    assert (
        int(l0.solve_exact(np.zeros((2, 0)), [1, -1], np.zeros(0), margin=0.1).status)
        == Status.INFEASIBLE
    )
    bad = solve_one([[np.nan, 1], [1, 1]], [1, -1], [0.5, 0.5], 0.1)
    assert int(bad.status) == Status.INVALID_INPUT
    assert np.isnan(float(bad.loss))
    assert jboost.status.explain(bad.status)


@pytest.mark.slow
@pytest.mark.parametrize("room", [64, 4])
def test_models_over_all_hypotheses_of_a_learner(room):
    random = np.random.default_rng(2)
    bits = random.integers(0, 2, (8, EXAMPLES, 4)).astype(np.float32)
    labels = np.where(
        random.random((8, EXAMPLES)) < 0.8,
        np.where(bits[:, :, 0] > bits[:, :, 1], 1, -1),
        random.choice([-1, 1], (8, EXAMPLES)),
    )
    margins, kappas = (
        random.uniform(0.05, 0.5, 8).astype(np.float32),
        random.uniform(0.0, 0.8, 8).astype(np.float32),
    )

    @jax.jit
    def fit_all(part):
        features, signs, margin, kappa = part
        dataset = jboost.make_dataset(features, signs)
        learner = jboost.learners.monomials(2, kappa=kappa, num_proposed=3)
        found = l0.fit_exact(
            dataset,
            learner,
            margin=margin,
            max_rounds=12,
            max_columns=64,
            max_in_play=room,
            exact_tolerance=1e-3,
        )
        return found, jboost.predict_scores(found.ensemble, features)

    founds, scores = jax.device_get(jax.lax.map(fit_all, (bits, labels, margins, kappas)))
    for index in range(8):
        outputs, costs = every_monomial(bits[index], 2, mdl_costs(4, EXAMPLES, 2, kappas[index]))
        optimum = oracle.integer_optimum(outputs, labels[index], costs, float(margins[index]))
        lower, upper = (
            founds.certificate.integer_lower_bound[index],
            founds.certificate.integer_upper_bound[index],
        )
        assert lower <= optimum + 1e-4
        assert upper >= optimum - 1e-4
        is_missed = labels[index] * scores[index] < margins[index] - 1e-5
        paid = is_missed.sum() + sum(
            price_of(founds, index, slot, kappas[index])
            for slot in np.flatnonzero(founds.ensemble.votes[index, :, 0] > 0)
        )
        assert paid <= upper + 1e-4
        if room == 64:
            assert founds.status[index] == Status.OPTIMAL
            assert upper == pytest.approx(optimum, abs=2e-3)
    assert room == 64 or not np.all(founds.status == Status.OPTIMAL)


def price_of(founds, index, slot, kappa):
    """What the hypothesis in a slot costs, by (28)."""
    order = int(np.abs(founds.ensemble.hypotheses.literals[index, slot].astype(int)).sum())
    return float(mdl_costs(4, EXAMPLES, 2, kappa)[order]) if order else 0.0


def test_learners_that_cannot_list_their_hypotheses_are_refused():
    dataset = jboost.make_dataset(np.zeros((3, 2), np.float32), [1, -1, 1])
    with pytest.raises(ValueError, match="cannot list its hypotheses"):
        l0.fit_exact(dataset, jboost.learners.stumps(), margin=0.1)
    with pytest.raises(ValueError, match="exact_config is a str"):
        l0.fit_exact(dataset, jboost.learners.monomials(1), margin=0.1, exact_config="all")
    for search in (l0.SearchConfig(max_hypotheses=3), l0.RelaxedConfig(3)):
        with pytest.raises(ValueError, match="max_hypotheses is 3: the optimum is over any number"):
            l0.fit_exact(dataset, jboost.learners.monomials(1), margin=0.1, search=search)
    wide = jboost.make_dataset(np.zeros((3, 60), np.float32), [1, -1, 1])
    learner = jboost.learners.monomials(5)
    with pytest.raises(ValueError, match="max_order is 5: the .* monomials of 60 attributes"):
        learner.every(learner.init(None, wide))


@pytest.mark.slow
def test_every_hypothesis_is_listed():
    random = np.random.default_rng(3)
    dataset = jboost.make_dataset(
        random.integers(0, 2, (6, 4)).astype(np.float32),
        [1, -1, 1, 1, -1, 1],
        mask=[True] * 5 + [False],
    )
    learner = jboost.learners.monomials(3, kappa=0.5)
    every = learner.every(learner.init(None, dataset))
    wanted = {
        literals
        for literals in itertools.product((-1, 0, 1), repeat=4)
        if 1 <= sum(map(abs, literals)) <= 3
    }
    listed = [
        (tuple(row), int(sign))
        for row, sign in zip(
            np.asarray(every.hypotheses.literals).tolist(), every.hypotheses.sign, strict=True
        )
    ]
    assert len(listed) == len(set(listed)) == 2 * len(wanted)
    assert {literals for literals, _ in listed} == wanted
    answers = jax.vmap(lambda one: learner.outputs(one, dataset.features))(every.hypotheses)
    assert np.array_equal(every.outputs[:, :5], answers[:, :5])
    assert not np.any(every.outputs[:, 5])
    columns = jboost.learners.pool(cost=0.3)
    bare = jboost.make_dataset(np.zeros((3, 0)), [1, -1, 1])
    every = jboost.learners.monomials(None).every(jboost.learners.monomials(None).init(None, bare))
    assert (every.outputs.shape, every.hypotheses.literals.shape) == ((0, 3), (0, 0))
    listed = columns.every(columns.init(None, dataset))
    assert np.array_equal(
        listed.outputs,
        np.concatenate([dataset.features.T, -dataset.features.T]) * np.asarray(dataset.mask),
    )
    assert listed.costs.tolist() == pytest.approx([0.3] * 8)


@pytest.mark.slow
def test_masked_columns_are_no_hypotheses():
    solved = solve_one(
        [[1, 1, 1], [1, -1, 1]], [1, -1], [0.0, 5.0, 5.0], 0.1, column_mask=[False, True, True]
    )
    # the second is right on both, for its cost; the last loses one more
    assert float(solved.loss) == pytest.approx(5.0, abs=1e-4)
    np.testing.assert_array_equal(solved.coefficients, [0, 1, 0])
    assert float(solved.lower_bound) == pytest.approx(5.0, abs=1e-3)


@pytest.mark.slow
def test_losses_that_overflow_are_not_optimal():
    labels, weights = np.array([1.0, 1.0, -1.0, -1.0]), np.full(4, 3e38, np.float32)
    dataset = jboost.make_dataset(np.ones((4, 1), np.float32), labels, weights=weights)
    fitted = jboost.l0.fit(dataset, jboost.learners.pool(), margin=0.5)
    exact = solve_one(np.array([[1.0, -1.0]] * 4), labels, np.zeros(2), 0.5, weights=weights)
    for status, upper in (
        (fitted.status, fitted.certificate.upper_bound),
        (exact.status, exact.loss),
    ):
        assert int(status) != Status.OPTIMAL or np.isfinite(upper)


@pytest.mark.slow
def test_more_effort_never_proves_less():
    """Branch and cut begins with what the rounds of columns proved, and keeps the better of both,
    however few hypotheses it may take in.
    """
    random = np.random.default_rng(11)
    bits = random.integers(0, 2, (60, 9)).astype(np.float32)
    labels = np.where(
        random.random(60) < 0.25,
        random.choice([-1, 1], 60),
        np.where(bits[:, 0] + bits[:, 1] + bits[:, 2] > 1, 1, -1),
    )
    dataset, learner = (
        jboost.make_dataset(bits, labels),
        jboost.learners.monomials(2, kappa=0.1, num_proposed=4),
    )
    fitted = l0.fit(dataset, learner, margin=0.2, max_rounds=12)
    for room in (8, 64):
        exact = l0.fit_exact(
            dataset,
            learner,
            margin=0.2,
            max_rounds=12,
            max_in_play=room,
            exact_config=l0.ExactConfig(max_batches=25),
        )
        for name, sign in (
            ("lower_bound", 1),
            ("integer_lower_bound", 1),
            ("upper_bound", -1),
            ("integer_upper_bound", -1),
        ):
            assert sign * float(getattr(exact.certificate, name)) >= sign * float(
                getattr(fitted.certificate, name)
            ), (room, name)


def test_each_program_of_a_fit_is_compiled_once():
    """Programs are compiled side by side for the shapes of results that are not there yet."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 2, (9, 3)).astype(np.float32)
    labels = np.where(bits[:, 0] > bits[:, 1], 1, -1)
    names = []

    def note(event, _, fun_name=None, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(fun_name)

    def fit():
        dataset = jboost.make_dataset(bits, labels)
        learner = jboost.learners.monomials(1, kappa=0.1)
        found = l0.fit_exact(
            dataset, learner, margin=0.2, max_rounds=6, max_columns=16, max_in_play=8
        )
        assert int(found.status) == Status.OPTIMAL
        return float(found.certificate.integer_lower_bound)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        found = fit()
        ours = ("_run", "_search", "put_in_play", "_conclude")
        assert [names.count(f"jit({name})") for name in ours] == [1] * len(ours)
        names.clear()
        assert fit() == found
        assert not names
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
