"""The program (9) by branch and cut, against the mixed-integer program by HiGHS and rational
arithmetic.
"""

import functools
from fractions import Fraction

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_branch_and_cut import pools
from test_unnormalised import LARGEST, optima

import jboost
from jboost import l0
from jboost.base.status import Status
from jboost.l0.branch_and_cut.domains import Box
from oracles import l0 as oracle


@functools.partial(jax.jit, static_argnames=("wide", "config"))
def solve_all(outputs, labels, costs, largest, weights, wide, config=None):
    return jax.lax.map(
        lambda part: l0.solve_exact_unnormalised(
            *part[:3], largest=part[3], weights=part[4], config=config
        ),
        (outputs, labels, costs, largest, weights),
    )


def exact_loss(outputs, labels, costs, weights, coefficients):
    """The objective of (9), in rational arithmetic."""
    votes = oracle.exactly(coefficients)
    assert min(votes, default=0) >= 0
    reached = [
        sum(int(sign) * one for sign, one in zip(row, votes, strict=True) if sign)
        for row in outputs * labels[:, None]
    ]
    missed = sum(float(weight) for weight, one in zip(weights, reached, strict=True) if one < 1)
    return missed + float(costs[votes > 0].sum())


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True])
def test_optima_are_those_of_the_mixed_integer_program(wide):
    outputs, labels, costs, _ = pools(30, 4)
    random = np.random.default_rng(4)
    largest = np.resize((*LARGEST, 7.2, 57.6, 5_000.0), 30).astype(np.float32)
    weights = random.choice([1.0, 2.0, 0.5], outputs.shape[:2]).astype(np.float32)
    with jax.enable_x64(wide):
        found = jax.device_get(solve_all(outputs, labels, costs, largest, weights, wide))
    for index in range(30):
        part = outputs[index], labels[index], costs[index], float(largest[index]), weights[index]
        assert found.coefficients[index].max() <= largest[index]
        loss = exact_loss(*part[:3], weights[index], found.coefficients[index])
        assert found.loss[index] >= loss - 1e-6, index
        assert found.lower_bound[index] <= found.loss[index], index
        if largest[index] > 1e3:  # the tolerance of HiGHS times M K allows wrong examples
            continue
        _, whole = optima(*(np.asarray(one, np.float64) for one in part))
        assert found.lower_bound[index] <= whole + 1e-6, index
        assert found.loss[index] >= whole - 1e-5, index
        np.testing.assert_allclose(found.loss[index], whole, atol=2e-3, err_msg=str(index))
    # rounding to 32 bits leaves a gap where votes meet the margin with equality
    assert (found.status == Status.OPTIMAL).sum() >= (30 if wide else 28)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("largest", [7.2, 57.6, 5_000.0])
def test_votes_are_on_a_grid_on_which_all_sums_are_exact(largest, wide):
    """Whole multiples of a power of two, whose sum has no more bits than a float."""
    random = np.random.default_rng(0)
    dtype = np.float64 if wide else np.float32
    with jax.enable_x64(wide):
        box = Box(jnp.asarray(largest, dtype))
        given = jnp.asarray(np.append(random.random(20), 1.0), dtype)
        exact = oracle.exactly(box.scaled(given))
    assert max(exact) <= largest
    unit = Fraction(2) ** int(np.ceil(np.log2(largest))) * 32 * Fraction(float(np.finfo(dtype).eps))
    assert all((one / unit).denominator == 1 for one in exact)


def test_a_vote_of_equal_hypotheses_needs_enough_of_them():
    """Three hypotheses of which any two are right: with K = 1 all three are needed, as one half of
    the sum is missing otherwise; with K = .3 nothing is right, and the vote is empty.
    """
    outputs = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1]])
    for largest, expected in ((1.0, 0.3), (0.3, 3.0)):
        found = l0.solve_exact_unnormalised(outputs, [1, 1, 1], [0.1, 0.1, 0.1], largest=largest)
        assert found.status == Status.OPTIMAL
        np.testing.assert_allclose(found.loss, expected, atol=1e-5)
        assert (np.asarray(found.coefficients) > 0).all() == (expected < 1)


@pytest.mark.slow
def test_what_masks_and_limits_leave():
    outputs, labels, costs, _ = (part[3] for part in pools(30, 9))
    ones = np.ones(12)
    _, whole = optima(
        *(np.asarray(part, np.float64) for part in (outputs, labels, costs)), 4.0, ones
    )
    few = l0.ExactConfig(max_batches=1, root_rounds=1, batch=1)
    padded = np.pad(outputs, ((0, 3), (0, 2)))
    options = {
        "mask": np.arange(15) < 12,
        "column_mask": np.arange(10) < 8,
        "largest": 4.0,
        "config": few,
    }
    found = l0.solve_exact_unnormalised(
        padded, np.pad(labels, (0, 3)), np.pad(costs, (0, 2)), **options
    )
    assert found.lower_bound <= whole + 1e-5
    assert found.loss >= whole - 1e-5
    assert (np.asarray(found.coefficients[8:]) == 0).all()


@pytest.mark.slow
def test_a_stopped_search_goes_on_and_a_cutoff_prunes(tmp_path):
    outputs, labels, costs, _ = (part[3] for part in pools(30, 9))
    whole = optima(*(np.asarray(one, float) for one in (outputs, labels, costs)), 4.0, np.ones(12))
    config, states, bounds = l0.ExactConfig(batch=2, capacity=64, root_rounds=2), [], []
    solve = functools.partial(
        l0.solve_exact_unnormalised, outputs, labels, costs, largest=4.0, config=config
    )

    def watch(most, state, info):
        states.append(state)
        bounds.append(float(info.lower_bound))
        return len(states) < most

    full = solve(on_step=functools.partial(watch, 1_000))
    assert full.status == Status.OPTIMAL
    np.testing.assert_allclose(full.loss, whole[1], atol=2e-3)
    assert len(bounds) > 2
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]
    states.clear()
    bounds.clear()
    stopped = solve(on_step=functools.partial(watch, 2))
    assert (stopped.status, len(bounds)) == (Status.TIME_LIMIT, 2)
    assert bounds[1] <= stopped.lower_bound <= whole[1] + 1e-5
    data = (outputs, labels, costs)
    with jboost.checkpoints.Checkpointer(tmp_path, data=data, options={}) as checkpointer:
        checkpointer.save_now(states[1])
    state = jboost.checkpoints.restore(tmp_path, l0.ExactState, data=data, options={})
    chex.assert_trees_all_equal(solve(initial=state), full)
    # the loss of the optimum as cutoff: nothing better is found, in fewer nodes
    cut = solve(cutoff=full.loss, on_step=functools.partial(watch, 1_000))
    assert cut.status == Status.OPTIMAL
    assert cut.num_nodes < full.num_nodes
    assert cut.lower_bound <= full.loss <= cut.lower_bound + 1e-3
    # a cutoff below the optimum: the bound is not above it
    low = solve(cutoff=whole[1] / 2, on_step=functools.partial(watch, 1_000))
    assert low.lower_bound <= whole[1] / 2


@pytest.mark.slow
def test_sizes_0_and_what_is_not_allowed():
    nothing = l0.solve_exact_unnormalised(np.zeros((2, 0)), [1, -1], np.zeros(0), largest=2.0)
    np.testing.assert_allclose(nothing.loss, 2, rtol=1e-6)
    assert nothing.status == Status.OPTIMAL
    assert nothing.coefficients.shape == (0,)
    none = l0.solve_exact_unnormalised(np.zeros((0, 2)), np.zeros(0), [0.5, 0.5], largest=2.0)
    np.testing.assert_allclose(none.loss, 0, atol=1e-6)
    with pytest.raises(ValueError, match="largest"):
        l0.solve_exact_unnormalised([[1]], [1], [0.5], largest=0.0)
    invalid = jax.jit(
        lambda largest: l0.solve_exact_unnormalised([[1]], [1], [0.5], largest=largest)
    )(jnp.asarray(-1.0))
    assert invalid.status == Status.INVALID_INPUT
    assert jboost.status.explain(invalid.status)


@pytest.mark.slow
def test_a_state_of_another_problem_is_refused():
    outputs, labels, costs, _ = (part[3] for part in pools(30, 9))
    config, seen = l0.ExactConfig(batch=2, capacity=64, root_rounds=2), []
    options = {"config": config, "on_step": lambda state, info: seen.append(state)}
    l0.solve_exact_unnormalised(outputs, labels, costs, largest=4.0, **options)
    in_box = seen[0]
    seen.clear()
    l0.solve_exact(outputs, labels, costs, margin=0.25, **options)
    on_simplex = seen[0]
    message = "initial is the state of a search of other outputs, labels, costs, weights, masks, m"
    boxed = functools.partial(l0.solve_exact_unnormalised, config=config)
    for change in ({"largest": 5.0}, {"largest": 4.0, "cutoff": 1.0}):
        with pytest.raises(ValueError, match=message):
            boxed(outputs, labels, costs, initial=in_box, **change)
    for changed in ((outputs, -labels, costs), (outputs, labels, 2 * costs)):
        with pytest.raises(ValueError, match=message):
            boxed(*changed, largest=4.0, initial=in_box)
    with pytest.raises(ValueError, match=message):
        boxed(outputs, labels, costs, largest=4.0, initial=on_simplex)
    with pytest.raises(ValueError, match=message):
        l0.solve_exact(outputs, labels, costs, margin=0.25, config=config, initial=in_box)
    with pytest.raises(ValueError, match=message):
        l0.solve_exact(outputs, labels, costs, margin=0.3, config=config, initial=on_simplex)
