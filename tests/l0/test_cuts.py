"""Cuts, proofs and decisions of the branch and cut on (15), against all points of small problems in
rational arithmetic.
"""

import functools
import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jboost.l0.branch_and_cut import branching, cutting, node_program, row_cuts
from jboost.l0.branch_and_cut.domains import SimplexDomain
from jboost.l0.branch_and_cut.node_program import NO, OPEN, YES
from jboost.l0.relaxation import cut_rows
from jboost.l0.relaxation.instance import make_instance
from jboost.l0.votes import local_search
from oracles import l0 as oracle

EXAMPLES, COLUMNS, CUTS = 6, 5, 12
SHARES = (1, 2, 3, 5, 7)  # votes are these in any order, or nothing, over their sum
MARGINS = (0.125, 0.25, 0.5, 0.75, 1.0)


@functools.cache
def votes():
    """Points of the simplex: all supports, with equal and with unlike shares."""
    found = set()
    for shares in itertools.product((0, 1), repeat=COLUMNS):
        found.add(shares)
    for size in range(2, COLUMNS + 1):
        for places in itertools.combinations(range(COLUMNS), size):
            for values in itertools.permutations(SHARES[:size]):
                found.add(
                    tuple(
                        dict(zip(places, values, strict=True)).get(place, 0)
                        for place in range(COLUMNS)
                    )
                )
    return sorted(one for one in found if sum(one))


def pools(seed, count):
    """Instances of the search, as pools: abstentions in half, a free column, copies and opposites
    of columns, an example and a column masked.
    """
    random = np.random.default_rng(seed)
    outputs = random.choice([-1, 0, 1], (count, EXAMPLES, COLUMNS))
    outputs[::2] = np.where(outputs[::2] == 0, 1, outputs[::2])
    outputs[:, :, 0] = 1
    outputs[::3, :, 4] = -outputs[::3, :, 3]
    labels = random.choice([-1, 1], (count, EXAMPLES))
    costs = random.integers(0, 5, (count, COLUMNS)) / 4
    weights = random.integers(1, 5, (count, EXAMPLES)) / 2
    mask, column_mask = np.ones((count, EXAMPLES), bool), np.ones((count, COLUMNS), bool)
    mask[::4, 5], column_mask[::5, 2] = False, False
    data = tuple(
        jnp.asarray(one)
        for one in (
            outputs,
            labels,
            costs,
            weights,
            mask,
            column_mask,
            random.choice(MARGINS, count),
        )
    )

    def make(*data):
        return node_program.make_pool(make_instance(*data, either=True)[0], SimplexDomain())

    return jax.jit(jax.vmap(make))(*data)


def member(pool, index):
    return jax.tree.map(lambda leaf: np.asarray(leaf[index]), pool)


def points(instance):
    """(lambda, mu, xi, loss) of points of (15) that give up no example without need."""
    margin = Fraction(float(instance.margin))
    weights, costs = (
        [Fraction(float(one)) for one in part] for part in (instance.weights, instance.costs)
    )
    rows = instance.margins.astype(int).tolist()
    for shares in votes():
        if any(
            share and not is_column
            for share, is_column in zip(shares, instance.is_column, strict=True)
        ):
            continue
        whole = sum(shares)
        reached = [
            Fraction(sum(one * share for one, share in zip(row, shares, strict=True)), whole)
            for row in rows
        ]
        missed = [
            int(weight > 0 and one < margin) for one, weight in zip(reached, weights, strict=True)
        ]
        used = [int(share > 0) for share in shares]
        yield (
            shares,
            used,
            missed,
            sum(w for w, is_missed in zip(weights, missed, strict=True) if is_missed)
            + sum(c for c, is_used in zip(costs, used, strict=True) if is_used),
        )


def reached(rows, index, used, missed):
    """The left-hand side of a cut in rational arithmetic; what is free may be used, and examples
    given up, besides.
    """
    chosen = [
        Fraction(float(one))
        for one, is_used in zip(rows.selected[index], used, strict=True)
        if is_used
    ]
    given_up = [
        Fraction(float(one))
        for one, is_missed in zip(rows.slacks[index], missed, strict=True)
        if is_missed
    ]
    return sum(chosen, Fraction(0)) + sum(given_up, Fraction(0))


@pytest.mark.slow
def test_cuts_hold_of_all_points():
    pool = pools(0, 12)
    random = np.random.default_rng(1)
    given = jnp.asarray(
        random.exponential(size=(12, CUTS, EXAMPLES)) * (random.random((12, CUTS, EXAMPLES)) < 0.6)
    )
    selected, slacks = (
        jnp.asarray(random.random((12, COLUMNS))) / 3,
        jnp.asarray(random.random((12, EXAMPLES))) / 3,
    )

    @jax.jit
    @jax.vmap
    def cut(pool, weights, selected, slacks):
        instance = pool.instance
        weights = row_cuts.usable(jnp.where(instance.weights > 0, weights, 0.0))
        levels, violations = row_cuts.best_levels(
            instance, 1 + instance.margin, 1 + len(instance.costs), weights, selected, slacks
        )
        pairs, missing = row_cuts.violated_pairs(
            instance, selected, slacks, most=EXAMPLES, max_entries=10_000
        )
        of_margins = row_cuts.from_margins(instance, 1 + instance.margin, weights, levels)
        lower = row_cuts.from_margins(instance, 1 + instance.margin, weights, levels - 0.1)
        return (
            of_margins,
            lower,
            violations,
            1 - of_margins.reached(selected, slacks),
            cut_rows.from_pairs(instance, pairs),
            missing,
        )

    of_margins, lower, violations, recomputed, of_pairs, missing = jax.device_get(
        cut(pool, given, selected, slacks)
    )
    is_cut = np.isfinite(violations)
    assert is_cut.sum() > 100
    np.testing.assert_allclose(violations[is_cut], recomputed[is_cut], atol=1e-4)
    num_tight = num_pairs = 0
    for index in range(12):
        every = list(points(member(pool, index).instance))
        for rows in (of_margins, lower):
            mine = member(rows, index)
            for place in np.flatnonzero(is_cut[index]):
                least = min(reached(mine, place, used, missed) for _, used, missed, _ in every)
                assert least >= 1
                num_tight += least < 1 + 1e-4
        mine = member(of_pairs, index)
        for place in np.flatnonzero(np.isfinite(missing[index])):
            assert min(reached(mine, place, used, missed) for _, used, missed, _ in every) >= 1
            num_pairs += 1
    assert num_tight > 50
    assert num_pairs > 20


def random_decisions(random, pool):
    """Some of all questions answered."""
    sizes = pool.split_of.shape[0], pool.instance.weights.shape[0], pool.splits.shape[0]
    return node_program.Decisions(
        *(
            random.choice([OPEN, NO, YES], size, p=[0.7, 0.15, 0.15]).astype(np.int8)
            for size in sizes
        )
    )


def obeys(decisions, pool, used, missed):
    """Whether a point of (15), completed by free hypotheses and by examples given up for nothing,
    is one of the node.
    """
    split_of, num_splits = pool.split_of, len(decisions.splits)
    for place, is_used in enumerate(used):
        answer = decisions.columns[place]
        split = split_of[place]
        is_out = split < num_splits and decisions.splits[split] == NO
        if is_used and (answer == NO or is_out):
            return False
    return all(
        not (is_missed and answer == NO)
        for is_missed, answer in zip(missed, decisions.examples, strict=True)
    )


def completed(decisions, pool, used, missed):
    """mu and xi with what the node says is used or given up; a split that is to be used, by its
    cheapest hypothesis.
    """
    more = list(used)
    for place, answer in enumerate(decisions.columns):
        split = pool.split_of[place]
        is_out = split < len(decisions.splits) and decisions.splits[split] == NO
        if answer == YES and pool.instance.is_column[place] and not is_out:
            more[place] = 1
    for split, answer in enumerate(decisions.splits):
        members = [
            place for place in np.flatnonzero(pool.splits[split]) if decisions.columns[place] != NO
        ]
        if answer == YES and not any(more[place] for place in members):
            if not members:
                return None
            more[min(members, key=lambda place: pool.instance.costs[place])] = 1
    real = pool.instance.weights > 0
    return more, [
        int(is_missed or (answer == YES and is_real))
        for is_missed, answer, is_real in zip(missed, decisions.examples, real, strict=True)
    ]


@pytest.mark.slow
def test_what_duals_prove_holds_of_all_points_of_the_node():
    pool = pools(2, 20)
    random = np.random.default_rng(3)
    decisions = [random_decisions(random, member(pool, index)) for index in range(20)]
    stacked = jax.tree.map(
        lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *decisions
    )
    rows = jnp.asarray(
        random.exponential(size=(20, CUTS, EXAMPLES)) * (random.random((20, CUTS, EXAMPLES)) < 0.5)
    )
    is_in_use = jnp.asarray(random.random((20, CUTS)) < 0.7)
    w, s, v = (
        jnp.asarray(random.exponential(0.3, (20, size)) * (random.random((20, size)) < 0.5))
        for size in (EXAMPLES, COLUMNS // 2, CUTS)
    )

    @jax.jit
    @jax.vmap
    def prove(pool, decisions, weights, is_in_use, w, s, v):
        weights = row_cuts.usable(jnp.where(pool.instance.weights > 0, weights, 0.0))
        levels = jnp.full((CUTS,), -0.2)
        cuts = node_program.CutSet(
            row_cuts.from_margins(pool.instance, 1 + pool.instance.margin, weights, levels),
            is_in_use & jnp.any(weights > 0, axis=1),
        )
        return node_program.prove(
            pool,
            cuts,
            decisions,
            node_program.NodeDuals(jnp.where(pool.instance.weights > 0, w, 0.0), s, v),
        )

    proofs = jax.device_get(prove(pool, stacked, rows, is_in_use, w, s, v))
    num_points = num_gains = 0
    for index in range(20):
        mine, proof, said = member(pool, index), member(proofs, index), decisions[index]
        costs, weights = (
            [Fraction(float(one)) for one in part]
            for part in (mine.instance.costs, mine.instance.weights)
        )
        for _, used, missed, _ in points(mine.instance):
            if not obeys(said, mine, used, missed):
                continue
            whole = completed(said, mine, used, missed)
            if whole is None:
                continue
            more, given_up = whole
            loss = sum(c for c, one in zip(costs, more, strict=True) if one) + sum(
                g for g, one in zip(weights, given_up, strict=True) if one
            )
            assert Fraction(float(proof.bound)) <= loss
            for yes, no, answers in (
                (proof.if_used, proof.if_unused, more),
                (proof.if_given_up, proof.if_kept, given_up),
            ):
                for place, answer in enumerate(answers):
                    claim = yes[place] if answer else no[place]
                    assert Fraction(float(claim)) <= loss
                    num_gains += claim > proof.bound
            num_points += 1
    assert num_points > 500
    assert num_gains > 500


@pytest.mark.slow
def test_duals_of_a_program_prove_its_optimum():
    """At the root, without cuts, what is proven is the objective of the linear program by HiGHS."""
    pool = pools(4, 12)

    @jax.jit
    @jax.vmap
    def solve(pool):
        goal = cutting.make_goal(pool, jnp.asarray(jnp.inf), jnp.asarray(1e-4))
        decisions = node_program.everything_open(pool)
        seen = cutting.visit(
            pool,
            cutting.start(pool, 40),
            decisions,
            jnp.asarray(0.0),
            goal,
            jnp.asarray(1, jnp.int32),
        )
        return seen.bound, seen.solution.objective * pool.instance.unit

    bounds, objectives = jax.device_get(solve(pool))
    for index in range(12):
        of = member(pool, index).instance
        real = of.weights > 0
        rows, labels = of.margins[real][:, of.is_column], np.ones(real.sum())
        optimum = oracle.optimum(
            rows, labels, of.costs[of.is_column], float(of.margin), of.weights[real]
        )
        assert objectives[index] == pytest.approx(optimum, abs=1e-3)
        assert bounds[index] >= objectives[index] - 1e-3  # above it where losses are whole numbers


def test_visit_solves_an_unproven_program_again_from_the_first_table(monkeypatch):
    """The method claims without any proof that a row cannot be met, from all tables but the first.
    The bound is still that of the optimum.
    """
    pool = member(pools(4, 12), 0)
    solve = cutting.boxed_simplex.solve

    def fails_from_other_tables(table, rows, costs, lower, upper, **options):
        solution = solve(table, rows, costs, lower, upper, **options)
        is_first = jnp.all(table.slots == jnp.arange(table.slots.shape[0]))
        unproven = cutting.boxed_simplex.unsolved(table, lower)
        unproven = unproven._replace(has_ended=jnp.ones((), bool))
        return jax.tree.map(lambda one, other: jnp.where(is_first, one, other), solution, unproven)

    @jax.jit
    def bounds(pool):
        goal = cutting.make_goal(pool, jnp.asarray(jnp.inf), jnp.asarray(1e-4))
        decisions, first = node_program.everything_open(pool), cutting.start(pool, 40)
        one = jnp.asarray(1, jnp.int32)

        def seen_from(engine):
            return cutting.visit(pool, engine, decisions, jnp.asarray(0.0), goal, one)

        seen = seen_from(first)
        again = seen_from(first._replace(table=seen.solution.table))
        return seen, again

    monkeypatch.setattr(cutting.boxed_simplex, "solve", fails_from_other_tables)
    seen, again = jax.device_get(bounds(pool))
    assert not (seen.solution.table.slots == np.arange(len(seen.solution.table.slots))).all()
    assert seen.bound > 0
    assert (seen.num_rounds, again.num_rounds) == (1, 2)
    assert (seen.was_unproven, again.was_unproven, again.is_unproven) == (False, True, False)
    assert again.solution.is_optimal
    assert again.bound == seen.bound


def test_splits_are_the_hypotheses_that_tell_the_same_examples_apart():
    outputs = jnp.array(
        [
            [1, 1, -1, 1, 0, 1, 1],
            [1, -1, 1, 0, 1, 1, -1],
            [1, 1, -1, 1, 0, -1, 1],
            [1, -1, 1, 0, 1, -1, -1],
        ]
    )
    labels = jnp.array([1, -1, -1, 1])
    data = (
        outputs,
        labels,
        jnp.ones(7),
        jnp.ones(4),
        jnp.ones(4, bool),
        jnp.array([True] * 6 + [False]),
        jnp.asarray(0.5),
    )
    pool = jax.jit(
        lambda *data: node_program.make_pool(make_instance(*data, either=True)[0], SimplexDomain())
    )(*data)
    alone = len(pool.splits)
    split = pool.split_of[1]
    assert split < alone
    # Its opposite is of the same split; one that abstains instead moves by half as much, so it is
    # of another, as its opposite.
    np.testing.assert_array_equal(
        pool.split_of == split, [False, True, True, False, False, False, False]
    )
    np.testing.assert_array_equal(
        pool.split_of == pool.split_of[3], [False, False, False, True, True, False, False]
    )
    assert pool.split_of[3] < alone
    assert pool.split_of[0] == pool.split_of[5] == pool.split_of[6] == alone
    np.testing.assert_array_equal(pool.splits.sum(axis=1), [2, 2, 0])


@pytest.mark.slow
def test_a_decision_changes_one_answer():
    pool = jax.tree.map(lambda leaf: leaf[0], pools(5, 1))
    start = node_program.everything_open(pool)
    sizes = [len(part) for part in start]
    for place, (part, within) in enumerate(
        (part, within) for part, size in enumerate(sizes) for within in range(size)
    ):
        after = branching.decided(start, jnp.asarray(place), YES)
        for number, (old, new) in enumerate(zip(start, after, strict=True)):
            wanted = np.array(old)
            if number == part:
                wanted[within] = YES
            np.testing.assert_array_equal(new, wanted)


def test_what_is_enough_is_rounded_up_to_the_goal():
    """The least bound that counts as the goal: rounding takes it there, and nothing clearly below
    it.
    """
    random = np.random.default_rng(6)
    enough, round_up = jax.jit(local_search.enough), jax.jit(local_search.round_up)
    num_lower = 0
    for trial in range(60):
        weights = jnp.asarray(random.integers(1, 4, 5), float)
        prices = jnp.asarray(
            np.where(random.random(4) < 0.5, 0, random.choice([0.3, 1.7, 2.5])), float
        )
        if trial % 6 == 0:
            prices = jnp.asarray(random.random(4), float)
        errors, used = random.integers(0, 6), random.integers(0, 3)
        goal = jnp.asarray(errors + used * float(prices.max()), float)
        least = enough(goal, weights, prices)
        assert least <= goal
        assert round_up(least, weights, prices) >= goal * (1 - 1e-5)
        if least < goal - 1e-3:
            assert round_up(least - 1e-3, weights, prices) < goal - 1e-3
            num_lower += 1
    assert num_lower > 20
