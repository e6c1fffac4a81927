"""Packings of infeasible subsystems: each one by a linear program and in fractions, and the bounds
against the optimum.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost.combine import bounds, infeasible, packing, proofs, votes
from oracles import combine as oracle

SIZE, NUM_CLASSIFIERS, NUM_CASES = 14, 2, 24


def make_case(seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(SIZE, NUM_CLASSIFIERS))
    if seed % 2 == 0:
        scores = rng.integers(-2, 3, scores.shape).astype(float)
    labels = rng.choice([-1.0, 1.0], SIZE)
    weights = rng.integers(1, 5, SIZE).astype(float) if seed % 3 else np.ones(SIZE)
    mask = np.arange(SIZE) < SIZE - seed % 4
    return scores.astype(np.float32), labels, weights, mask


CASES = [make_case(seed) for seed in range(NUM_CASES)]


@pytest.fixture(scope="module")
def packed():
    """The packings of all cases by one program."""

    @jax.jit
    @jax.vmap
    def run(scores, labels, weights, mask):
        examples = votes.gather(scores, labels, weights, mask)
        guide = jnp.array([1.0, 0.5])  # any vote
        found = bounds.pack(examples, guide, jnp.zeros(()))
        return found, bounds.certify(found, examples, jnp.dtype("float64"))

    with jax.enable_x64(True):
        results = jax.device_get(run(*(np.stack(parts) for parts in zip(*CASES, strict=True))))
    return [jax.tree.map(lambda leaf, i=index: leaf[i], results) for index in range(NUM_CASES)]


def test_packing_has_infeasible_subsystems_with_amounts_within_the_weights(packed):
    num_proven = 0
    for (scores, labels, weights, mask), (_, certificate) in zip(CASES, packed, strict=True):
        taken = np.zeros(SIZE)
        for members, multipliers, amount in zip(*certificate[:3], strict=True):
            chosen = members[members >= 0]
            assert (multipliers > 0).sum() == len(chosen) == len(set(chosen.tolist()))
            assert (amount > 0) == (len(chosen) > 0)
            if len(chosen) == 0:
                continue
            assert mask[chosen].all()
            assert not oracle.is_separable(scores[chosen].astype(float), labels[chosen])
            rows = labels[chosen, None] * np.concatenate(
                [scores[chosen], np.ones((len(chosen), 1))], axis=1
            )
            np.testing.assert_allclose(multipliers[: len(chosen)] @ rows, 0, atol=1e-6)
            taken[chosen] += amount
            num_proven += 1
        assert (taken <= weights).all()
        assert certificate.lower_bound == certificate.amounts.sum()
        is_left = mask & (weights > taken)
        assert oracle.is_separable(scores[is_left].astype(float), labels[is_left])
    assert num_proven > 2 * NUM_CASES


def test_packing_bounds_the_optimum_and_is_no_less_than_conflicts(packed):
    total, optima = 0.0, 0.0
    for (scores, labels, weights, mask), (_, certificate) in zip(CASES, packed, strict=True):
        live = scores[mask].astype(float), labels[mask], weights[mask]
        optimum = oracle.least_loss_by_milp(*live)
        assert float(oracle.conflict_loss(*live)) <= certificate.lower_bound <= optimum
        total, optima = total + certificate.lower_bound, optima + optimum
    assert total > 0.6 * optima


def pairs_one_by_one(groups, positive, weights):
    """The pairs of equal scores by their definition: [(positive, negative, amount)]."""
    left, pairs = weights.tolist(), []
    for group in sorted(set(groups.tolist())):
        while True:
            sides = [
                [i for i in range(len(left)) if groups[i] == group and positive[i] == s and left[i]]
                for s in (True, False)
            ]
            if not all(sides):
                break
            one, other = sides[0][0], sides[1][0]
            amount = min(left[one], left[other])
            left[one], left[other] = left[one] - amount, left[other] - amount
            pairs.append((one, other, amount))
    return pairs, left


def test_pack_conflicts_makes_the_pairs_of_the_definition():
    rng = np.random.default_rng(3)
    shape = (60, SIZE)
    groups = np.sort(rng.integers(0, rng.integers(1, 9, (60, 1)), shape), axis=1).astype(np.int32)
    positive = rng.random(shape) < rng.random((60, 1))
    weights = rng.integers(0, rng.choice([2, 5, 10**12], (60, 1)), shape)

    @jax.jit
    @jax.vmap
    def run(groups, positive, weights):
        return packing.pack_conflicts(packing.empty(3, weights, SIZE), groups, positive)

    with jax.enable_x64(True):
        found = jax.device_get(run(groups, positive, weights))
    for index in range(60):
        one = jax.tree.map(lambda leaf, i=index: leaf[i], found)
        pairs, left = pairs_one_by_one(groups[index], positive[index], weights[index])
        expected = [(a, b, -1, -1) for a, b, _ in pairs]
        assert [tuple(row) for row in one.members[: one.count].tolist()] == expected
        assert one.amounts[: one.count].tolist() == [amount for _, _, amount in pairs]
        assert (one.left.tolist(), one.bound) == (left, one.amounts.sum())
        assert one.is_proven.sum() == one.count == len(pairs)
        assert (one.multipliers == (one.members >= 0)).all()


@pytest.mark.parametrize(
    "max_pivots",
    [40, *(pytest.param(limit, marks=pytest.mark.slow) for limit in (1, 1 << 17))],
)
def test_a_packing_of_parts_with_a_limit_of_pivots_is_valid(monkeypatch, max_pivots):
    monkeypatch.setattr(bounds, "_MOST_IN_PART", 5)
    monkeypatch.setattr(bounds, "_MAX_PIVOTS", max_pivots)

    @jax.jit
    def run(scores, labels, weights, mask):
        examples = votes.gather(scores, labels, weights, mask)
        found = bounds.pack(examples, jnp.array([1.0, 0.5]), jnp.zeros(()))
        return found, bounds.certify(found, examples, jnp.dtype("float64"))

    total, pivots = 0.0, []
    for case in CASES[:12]:
        scores, labels, weights, mask = case
        with jax.enable_x64(True):
            found, certificate = jax.device_get(run(*case))
        live = scores[mask].astype(float), labels[mask], weights[mask]
        bound = jboost.combine.recompute_bound(
            certificate, scores, labels, weights=weights, mask=mask
        )
        assert bound == Fraction(float(certificate.lower_bound))
        assert oracle.conflict_loss(*live) <= bound <= oracle.least_loss_by_milp(*live)
        total += float(bound - oracle.conflict_loss(*live))
        pivots.append(int(found.num_pivots))
    of_one_program = infeasible._PIVOTS_PER_ROW * (NUM_CLASSIFIERS + 2)
    assert max(pivots) <= max_pivots + of_one_program
    if max_pivots > 1:
        assert total > 3


def test_recompute_bound_gives_the_bound_and_sees_what_is_wrong(packed):
    for case, (_, certificate) in list(zip(CASES, packed, strict=True))[:8]:
        scores, labels, weights, mask = case

        def recompute(certificate, labels=labels, weights=weights, case=case):
            return jboost.combine.recompute_bound(
                certificate, case[0], labels, weights=weights, mask=case[3]
            )

        bound = Fraction(float(certificate.lower_bound))
        assert recompute(certificate) == bound
        assert recompute(certificate, labels=np.ones(SIZE)) == 0
        doubled = certificate._replace(amounts=2 * certificate.amounts)
        assert recompute(doubled) <= oracle.least_loss_by_milp(
            scores[mask].astype(float), labels[mask], weights[mask]
        )
        none = certificate._replace(members=np.full_like(certificate.members, -1))
        assert recompute(none) == 0


def test_recompute_bound_counts_repeated_indices_once(packed):
    certificate = packed[0][1]._replace(
        members=np.array([[0, 0, 1, 2]]), amounts=np.array([2.0]), multipliers=np.ones((1, 4))
    )
    points, labels = np.array([[0.0, 0], [1, 0], [2, 0]]), np.array([1, -1, 1])
    assert jboost.combine.recompute_bound(certificate, points, labels, weights=[2, 2, 2]) == 2
    once = certificate._replace(members=np.array([[0, 1, 1, 0]]))
    assert jboost.combine.recompute_bound(once, points, labels) == 0


def test_is_infeasible_takes_no_time_exponential_in_the_points():
    """Equal points of one class, and many infeasible subsystems."""
    points = np.zeros((12, 10))
    assert not proofs.is_infeasible(points, np.ones(12))
    assert proofs.is_infeasible(points, np.where(np.arange(12) < 11, 1, -1))
    wide = np.repeat(np.eye(8), 5, axis=0)
    assert not proofs.is_infeasible(wide, np.repeat(np.where(np.arange(8) % 2, 1, -1), 5))


def test_recompute_bound_names_a_wrong_shape(packed):
    with pytest.raises(ValueError, match="certificate has members of shape"):
        jboost.combine.recompute_bound(packed[0][1], np.zeros((SIZE, 3)), np.ones(SIZE))


def test_is_infeasible_agrees_with_linear_programs():
    rng = np.random.default_rng(0)
    counts = [0, 0]
    for _ in range(200):
        size, num_classifiers = rng.integers(1, 7), rng.integers(1, 4)
        points = rng.integers(-1, 2, (size, num_classifiers)).astype(float)
        labels = rng.choice([-1, 1], size)
        found = proofs.is_infeasible(points, labels)
        assert found == (not oracle.is_separable(points, labels))
        counts[found] += 1
    assert min(counts) > 20


def test_multipliers_solve_the_equations_exactly():
    points = np.array([[0.1, 0.2], [0.3, 0.7], [0.5, 0.1], [0.3, 0.3]])
    found = proofs.solve_multipliers(points, np.array([1, 1, 1, -1]))
    rows = [
        [Fraction(float(x)) * label for x in (*point, 1.0)]
        for point, label in zip(points, (1, 1, 1, -1), strict=True)
    ]
    assert min(found) > 0
    for column in range(3):
        assert sum(one * row[column] for one, row in zip(found, rows, strict=True)) == 0


@pytest.mark.slow
def test_prove_is_never_wrong_close_to_a_face():
    """A negative point at tiny distances of the side of a triangle of positive ones."""
    rng = np.random.default_rng(1)
    shifts = np.concatenate([[0.0], 10.0 ** rng.uniform(-18, -6, 199)]) * rng.choice([-1, 1], 200)
    corners = rng.normal(size=(200, 3, 2))
    inside = (corners[:, 0] + corners[:, 1]) / 2
    away = corners[:, 2] - inside
    points = np.concatenate([corners, (inside + shifts[:, None] * away)[:, None]], axis=1)
    labels = np.array([1, 1, 1, -1])

    @jax.jit
    @jax.vmap
    def run(columns):
        rows = infeasible.make_rows(columns, jnp.ones(4, bool), labels > 0)
        outcome = infeasible.separate(rows, jnp.ones(4, bool), jnp.zeros(4, bool), jnp.zeros(3))
        return outcome, infeasible.prove(rows, outcome)

    with jax.enable_x64(True):
        outcome, found = jax.device_get(run(points.transpose(0, 2, 1)))
    is_true = np.array([proofs.is_infeasible(each, labels) for each in points])
    assert not (found.is_proven & ~is_true).any()
    clear = np.abs(shifts) > 1e-9
    np.testing.assert_array_equal(found.is_proven[clear], is_true[clear])
    assert min(found.is_proven.sum(), (~is_true).sum()) > 40
    assert not (outcome.is_separated & is_true).any()


@pytest.mark.slow
def test_packing_of_no_examples():
    with jax.enable_x64(True):
        start = packing.empty(3, jnp.zeros(2, jnp.int64), 2)
        rows = infeasible.make_rows(jnp.zeros((2, 2)), jnp.zeros(2, bool), jnp.zeros(2, bool))
        found = jax.jit(packing.pack)(start, rows, jnp.zeros(2, bool), jnp.zeros(3), jnp.int64(5))
    assert int(found.count) == 0
    assert bool(found.is_separated)
