"""Chvatal-Gomory cuts from triples of pair cuts: bounds against the mixed-integer optimum of (15),
and recomputed in rational arithmetic.
"""

import itertools
from fractions import Fraction

import jax
import numpy as np
import pytest
from test_branch_and_cut import pools

import jboost
from jboost import l0
from jboost.base.status import Status
from jboost.l0.branch_and_cut import triples
from oracles import l0 as oracle


@jax.jit
@jax.vmap
def strengthen_all(outputs, labels, costs, margins):
    return l0.strengthen(outputs, labels, costs, margin=margins)


def recompute(found, outputs, labels, costs, margin):
    """What the returned duals prove of (15) with unit weights, in fractions."""
    w, v, t = (
        oracle.exactly(part)
        for part in (found.example_weights, found.pair_weights, found.triple_weights)
    )
    assert min(w) >= 0
    assert min(v) >= 0
    assert min(t) >= 0
    m, n = outputs.shape
    rows = []
    for (first, second), weight in zip(found.pairs, v, strict=True):
        assert (first >= 0) or weight == 0
        row = np.zeros(n + m, int)
        if first >= 0:
            assert labels[first] != labels[second]
            row[:n] = oracle.tell_apart(outputs, labels, first, second)
            row[n + first] = row[n + second] = 1
        rows.append(row)
    given = sum(
        (row * weight for row, weight in zip(rows, v, strict=True) if weight),
        np.zeros(n + m, object),
    )
    for triple, weight in zip(found.triples, t, strict=True):
        assert triple[0] >= 0 or weight == 0
        if weight:
            assert len(set(triple.tolist())) == 3
            given = given + -(-sum(rows[place] for place in triple) // 2) * weight
    rho = Fraction(float(margin))
    edges = [sum(int(labels[i] * outputs[i, u]) * w[i] for i in range(m)) for u in range(n)]
    rest = [Fraction(float(cost)) - one for cost, one in zip(costs, given[:n], strict=True)]
    unpaid = [1 - one - (1 + rho) * weight for one, weight in zip(given[n:], w, strict=True)]
    least = min(max(one, 0) - edge for one, edge in zip(rest, edges, strict=True))
    return (
        rho * sum(w)
        + sum(v)
        + 2 * sum(t)
        + sum(min(one, 0) for one in unpaid)
        + sum(min(one, 0) for one in rest)
        + least
    )


def test_cuts_hold_at_all_points_of_0_and_1_that_their_rows_allow():
    """Of ten rows with up to four ones, all 1,024 points; and violations by hand."""
    random = np.random.default_rng(2)
    rows = (random.random((10, 10)) < 0.3).astype(np.float32)
    rows[np.arange(10), np.arange(10)] = 1
    is_row, point = np.arange(10) < 9, random.random(10).astype(np.float32)
    found, violations = (np.asarray(part) for part in triples.separate(rows, is_row, point))
    is_cut = np.isfinite(violations)
    chosen = found[is_cut]
    assert len(chosen) >= 9
    assert len(np.unique(chosen, axis=0)) == len(chosen)
    assert (np.diff(chosen, axis=1) > 0).all()
    assert chosen.max() < 9
    cuts = np.asarray(triples.rows_of(rows, chosen))
    np.testing.assert_array_equal(cuts, -(-rows[chosen].sum(axis=1) // 2))
    np.testing.assert_allclose(violations[is_cut], 2 - cuts @ point, atol=1e-5)
    points = np.array(list(itertools.product((0, 1), repeat=10)))
    for triple, cut in zip(chosen, cuts, strict=True):
        is_allowed = (points @ rows[triple].T >= 1).all(axis=1)
        assert (points[is_allowed] @ cut >= 2).all()
    # each is the best triple with two of its rows
    for triple, worst in zip(chosen, violations[is_cut], strict=True):
        best = [
            max(
                2 - np.ceil(rows[[*pair, third]].sum(axis=0) / 2) @ point
                for third in set(range(9)) - set(pair)
            )
            for pair in itertools.combinations(triple.tolist(), 2)
        ]
        assert min(best) <= worst + 1e-5
    unused = np.asarray(triples.rows_of(rows, np.full((2, 3), -1)))
    assert (unused == 0).all()


@pytest.mark.slow
def test_bounds_hold_of_the_integer_problem():
    problems = pools(30, 6)
    found = jax.device_get(strengthen_all(*problems))
    num_better = 0
    for index, (outputs, labels, costs, margin) in enumerate(zip(*problems, strict=True)):
        one = jax.tree.map(lambda leaf, index=index: leaf[index], found)
        assert (
            one.lower_bound <= oracle.integer_optimum(outputs, labels, costs, float(margin)) + 1e-5
        ), index
        assert one.lower_bound >= one.relaxation_bound
        if one.lower_bound > max(one.relaxation_bound, 0):
            assert recompute(one, outputs, labels, costs, margin) >= float(one.lower_bound)
        num_better += one.lower_bound > one.relaxation_bound + 1e-2
    assert num_better >= 3


@pytest.mark.slow
def test_an_odd_cycle_is_closed():
    """Three positive examples, each pair of which is told from the negative one by a hypothesis:
    two are needed, halves of three are not enough.
    """
    outputs = np.array(
        [[1, 1, -1, 1, -1], [1, -1, 1, 1, -1], [-1, 1, 1, 1, -1], [-1, -1, -1, 1, -1]]
    )
    labels, costs = np.array([1, 1, 1, -1]), np.array([0.3, 0.3, 0.3, 0, 0], np.float32)
    found = l0.strengthen(outputs, labels, costs, margin=0.05)
    optimum = oracle.integer_optimum(outputs, labels, costs, 0.05)
    assert float(found.relaxation_bound) == pytest.approx(0.45, abs=1e-3)
    assert float(found.lower_bound) == pytest.approx(0.6, abs=1e-3)
    assert found.lower_bound <= optimum + 1e-5
    assert int(found.num_cuts) > 0
    few = l0.strengthen(
        outputs, labels, costs, margin=0.05, config=l0.StrengthenConfig(num_pairs=2)
    )
    assert int(few.status) == Status.LOCAL_OPTIMUM  # a cut that was not looked at is violated
    assert float(few.lower_bound) == pytest.approx(0.45, abs=1e-3)


def test_what_is_not_allowed():
    with pytest.raises(ValueError, match='cuts="either" and distance_factor=None'):
        l0.StrengthenConfig(relaxation=l0.RelaxationConfig())
    with pytest.raises(ValueError, match="config is a int"):
        l0.strengthen([[1]], [1], [0.5], margin=0.1, config=3)
    pool = l0.StrengthenConfig(max_in_play=64)
    with pytest.raises(ValueError, match=r"config\.max_in_play is 64: the pool is given"):
        l0.strengthen([[1]], [1], [0.5], margin=0.1, config=pool)
    with pytest.raises(ValueError, match=r"config\.max_in_play"):
        l0.StrengthenConfig(max_in_play=0)
    with pytest.raises(ValueError, match="margin is 0"):
        l0.strengthen([[1]], [1], [0.5], margin=0.0)


@pytest.mark.slow
def test_sizes_0_and_values_that_are_traced():
    assert (
        int(l0.strengthen(np.zeros((2, 0)), [1, -1], np.zeros(0), margin=0.1).status)
        == Status.INFEASIBLE
    )
    empty = l0.strengthen(np.zeros((0, 2)), np.zeros(0), [0.5, 0.5], margin=0.1)
    assert float(empty.lower_bound) <= 0.5
    bad = jax.jit(lambda outputs: l0.strengthen(outputs, [1, -1], [0.5], margin=0.1))(
        np.array([[np.nan], [1.0]])
    )
    assert (int(bad.status), float(bad.lower_bound)) == (Status.INVALID_INPUT, -np.inf)


@pytest.mark.slow
def test_one_example_has_no_pair_for_a_grid():
    grid = l0.StrengthenConfig(
        relaxation=l0.RelaxationConfig(cuts="either", solver=l0.AllPairsConfig())
    )
    assert float(
        l0.strengthen([[1, 1]], [1], [0.5, 0.3], margin=0.1, config=grid).lower_bound
    ) == pytest.approx(0.3, abs=1e-3)


@pytest.mark.slow
def test_a_fit_has_the_bound_of_its_cuts_over_all_hypotheses():
    """The odd cycle again, over a learner: the relaxation proves .45, and no more than the cost of
    the last column; two of the hypotheses of .3 are needed.
    """
    labels = np.array([1, 1, 1, -1])
    cycle = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [-1, -1, -1]], np.float32)
    features = np.hstack([cycle, -labels[:, None]]).astype(np.float32)
    prices = np.array([0.3, 0.3, 0.3, 0.475], np.float32)
    dataset = jboost.make_dataset(features, labels)
    learner = jboost.learners.pool(costs=prices, negations=False)
    options = {"margin": 0.1, "max_rounds": 8, "max_columns": 4}
    plain = l0.fit(dataset, learner, **options)
    assert plain.strengthened == ()
    fitted = l0.fit(dataset, learner, strengthen=l0.StrengthenConfig(), **options)
    assert plain.certificate.integer_lower_bound <= 0.475 + 1e-3
    np.testing.assert_allclose(fitted.certificate.integer_lower_bound, 0.6, atol=1e-3)
    assert fitted.certificate.integer_lower_bound <= fitted.certificate.integer_upper_bound
    found = jax.device_get(fitted.strengthened)
    used = found.is_in_play
    ones = np.ones((4, 1))
    outputs = np.hstack([ones, -ones, features[:, found.hypotheses.index]])[:, used].astype(int)
    costs = np.r_[0, 0, prices[found.hypotheses.index]].astype(np.float32)[used]
    proven = recompute(found.pool, outputs, labels, costs, np.float32(0.1))
    assert proven >= float(found.pool.lower_bound)
    # the hypotheses left out allow no better point
    assert found.left_out >= fitted.certificate.integer_lower_bound - 1e-4


def test_an_exact_fit_with_cuts_from_triples_has_the_optimum():
    """The odd cycle: branch and cut proves the .6 that two hypotheses cost, with the cuts of the
    columns and those in its nodes.
    """
    labels = np.array([1, 1, 1, -1])
    cycle = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [-1, -1, -1]], np.float32)
    features = np.hstack([cycle, -labels[:, None]]).astype(np.float32)
    learner = jboost.learners.pool(
        costs=np.array([0.3, 0.3, 0.3, 0.7], np.float32), negations=False
    )
    found = l0.fit_exact(
        jboost.make_dataset(features, labels),
        learner,
        margin=0.1,
        max_rounds=8,
        max_columns=4,
        max_in_play=4,
        strengthen=l0.StrengthenConfig(),
        exact_config=l0.ExactConfig(num_triples=8),
    )
    assert int(found.status) == Status.OPTIMAL
    assert found.columns.strengthened != ()
    certificate = found.certificate
    assert float(certificate.integer_upper_bound) == pytest.approx(0.6, abs=1e-3)
    assert float(certificate.integer_lower_bound) == pytest.approx(0.6, abs=1e-3)


@pytest.mark.slow
def test_a_fit_that_was_stopped_has_no_cuts():
    dataset = jboost.make_dataset(np.eye(4, dtype=np.float32), [1, 1, 1, -1])
    learner = jboost.learners.pool(costs=np.full(4, 0.3, np.float32), negations=False)
    options = {"margin": 0.1, "max_rounds": 8, "max_columns": 4}
    fitted = l0.fit(
        dataset,
        learner,
        strengthen=l0.StrengthenConfig(),
        on_step=lambda state, info: False,
        **options,
    )
    assert fitted.status == Status.TIME_LIMIT
    assert fitted.strengthened == ()


def test_a_learner_that_cannot_list_its_hypotheses_is_refused():
    learner = jboost.learners.from_functions(*[lambda *_: None] * 3)
    dataset = jboost.make_dataset([[1.0], [-1.0]], [1, -1])
    with pytest.raises(ValueError, match="which cannot list its hypotheses"):
        l0.fit(dataset, learner, margin=0.1, strengthen=l0.StrengthenConfig())


@pytest.mark.slow
def test_cuts_from_triples_in_the_nodes_keep_the_optimum():
    outputs, labels, costs, margins = pools(12, 6)
    config = l0.ExactConfig(num_triples=8)
    found = jax.device_get(
        jax.jit(
            lambda *problems: jax.lax.map(
                lambda part: l0.solve_exact(*part[:3], margin=part[3], config=config), problems
            )
        )(outputs, labels, costs, margins)
    )
    for index in range(12):
        whole = oracle.integer_optimum(
            outputs[index], labels[index], costs[index], float(margins[index])
        )
        assert found.lower_bound[index] <= whole + 1e-5, index
        np.testing.assert_allclose(found.loss[index], whole, atol=2e-3, err_msg=str(index))
    with pytest.raises(ValueError, match=r"config\.num_triples"):
        l0.ExactConfig(num_triples=-1)
