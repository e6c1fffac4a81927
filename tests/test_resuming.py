"""Loops that the host drives go on from the state of any step to the bits of the whole run, and
refuse a state of other data or options by name.
"""

import functools

import jax
import numpy as np
import pytest

import jboost
from jboost import example_weights, operators, pair, relaxations, relaxed_margin, slipper
from jboost.base.status import Status
from jboost.pair.leave_one_out import space as leave_one_out_in_space
from jboost.pair.pareto import front_by_cells, slope_cells
from jboost.pair.pareto import space as front_in_space
from resuming import bits, goes_on_from_every_step

RNG = np.random.default_rng(0)
LABELS = np.where(RNG.random(24) < 0.5, 1, -1)
POINTS = RNG.normal(0.8 * LABELS[:, None], 1.0, (24, 2)).astype(np.float32)
KEYS = jax.random.split(jax.random.key(0))


def refuses(run, states, changes):
    """That `run(**change, initial=state)` raises ValueError with these messages."""
    for change, message in changes:
        with pytest.raises(ValueError, match=message):
            run(**({"initial": states[0]} | change))


PENALTIES = {"penalties": [0.1, 0.3, 1.0], "radius": 6.0, "num_folds": 2}


def choose(points=POINTS, labels=LABELS, **options):
    return example_weights.choose_penalty(
        points, labels, **({"key": KEYS[0]} | PENALTIES | options)
    )


@pytest.mark.slow
def test_choice_of_the_penalty_goes_on_from_every_penalty(tmp_path):
    whole, stopped, states = goes_on_from_every_step(
        choose, example_weights.PenaltyChoiceState, tmp_path
    )
    assert len(states) == 3
    np.testing.assert_array_equal(choose().penalty, whole.penalty)
    for number, part in enumerate(stopped, start=1):
        np.testing.assert_array_equal(part.losses[:number], whole.losses[:number])
        assert np.isnan(part.losses[number:]).all()
        assert np.isnan(part.fold_losses[:, number:]).all()
        best = np.flatnonzero(part.losses[:number] == part.losses[:number].min())[0]
        np.testing.assert_allclose(part.penalty, PENALTIES["penalties"][best])
    refuses(
        choose,
        states,
        [
            ({"points": POINTS + 1}, "of a choice of other points and kernel or centre"),
            ({"labels": -LABELS}, "of a choice of other labels"),
            ({"mask": np.arange(24) > 0}, "of a choice of other mask, kernel or centre and folds"),
            ({"radius": 7.0}, "of a choice of other kernel or centre"),
            ({"centre": [0.0, 1.0]}, "of a choice of other kernel or centre"),
            ({"penalties": [0.1, 0.3, 2.0]}, "of a choice of other penalties"),
            ({"key": KEYS[1]}, "of a choice of other folds"),
            ({"tolerance": 0.1}, "of a choice of other tolerance or config"),
            ({"config": example_weights.Config()}, "of a choice of other tolerance or config"),
            ({"penalties": [0.1, 0.3]}, r"initial.wrong is float32\[2, 3\]: expected .*\[2, 2\]"),
            ({"num_folds": 3}, r"initial.points.* is float32\[2.*expected float32\[3"),
            ({"initial": 3}, "expected a jboost.example_weights.PenaltyChoiceState"),
            ({"on_step": 3}, "on_step is 3: expected a function"),
        ],
    )


BITS = RNG.integers(0, 2, (24, 4)).astype(np.float32)
DATASET = jboost.make_dataset(BITS, np.where(BITS[:, 0] * BITS[:, 1] + RNG.random(24) > 0.6, 1, -1))


def choose_rounds(dataset=DATASET, **options):
    return slipper.choose_rounds(
        dataset, **({"key": KEYS[0], "max_rounds": 3, "num_folds": 2} | options)
    )


@pytest.mark.slow
def test_choice_of_the_rounds_goes_on_from_every_round(tmp_path):
    whole, stopped, states = goes_on_from_every_step(choose_rounds, slipper.RoundsState, tmp_path)
    assert len(states) == 3
    np.testing.assert_allclose(choose_rounds().errors, whole.errors, rtol=1e-6)
    for number, part in enumerate(stopped, start=1):
        np.testing.assert_array_equal(part.errors[:number], whole.errors[:number])
        assert np.isnan(part.errors[number:]).all()
        assert part.num_rounds == np.argmin(part.errors[:number]) + 1
    refuses(
        choose_rounds,
        states,
        [
            ({"dataset": DATASET._replace(labels=-DATASET.labels)}, "of other labels: pass"),
            ({"dataset": DATASET._replace(features=1 - BITS)}, "of a choice of other features"),
            ({"learner": slipper.rules(max_order=2)}, "of a choice of other learner"),
            ({"key": KEYS[1]}, "of a choice of other key"),
            ({"max_rounds": 4}, r"initial.folds.* is int8\[2, 3.*expected int8\[2, 4"),
            ({"num_folds": 3}, r"initial.folds.* is bool\[2.*expected bool\[3"),
            ({"initial": 3}, "expected a jboost.slipper.RoundsState"),
        ],
    )


MATRIX = RNG.uniform(-1, 1, (24, 8)).astype(np.float32)


def solve_streamed(matrix=MATRIX, *, first=10, pinned=None, **options):
    blocks = operators.streamed([matrix[:first], matrix[first:]], pinned=pinned)
    given = {
        "relaxation": relaxations.soft_margin(nu=0.3),
        "tolerance": 1e-4,
        "config": relaxed_margin.SolverConfig(iterations_per_check=50),
    }
    return relaxed_margin.solve(blocks, **(given | options))


@pytest.mark.slow
def test_relaxed_margin_of_streamed_blocks_goes_on_from_every_check(tmp_path):
    whole, stopped, states = goes_on_from_every_step(
        solve_streamed, relaxed_margin.SolveState, tmp_path
    )
    assert bits(solve_streamed()) == bits(whole)
    assert bits(solve_streamed(pinned=True, initial=states[0])) == bits(whole)
    assert int(whole.status) == int(Status.OPTIMAL)
    assert int(whole.num_iterations) == 50 * len(states)
    for number, part in enumerate(stopped, start=1):
        assert int(part.num_iterations) == 50 * number
        assert float(part.lower_bound) <= float(whole.upper_bound)
        assert float(whole.lower_bound) <= float(part.upper_bound)
    refuses(
        solve_streamed,
        states,
        [
            ({"matrix": -MATRIX}, "of a solve of other margins: pass"),
            ({"first": 11}, "of a solve of other margins: pass"),
            ({"matrix": MATRIX[:23]}, "of a solve of other margins, weights and mask: pass"),
            ({"weights": np.full(24, 2.0)}, "of a solve of other weights: pass"),
            ({"mask": np.arange(24) > 0}, "of a solve of other mask: pass"),
            ({"relaxation": relaxations.soft_margin(nu=0.2)}, "of other relaxation: pass"),
            ({"votes": relaxations.squared_norm(1.0)}, "of other votes: pass"),
            ({"initial": states[0]._replace(checksums=None)}, "initial has no checksums"),
            ({"initial": 3}, "initial is a int: expected a jboost.relaxed_margin.SolveState"),
            ({"on_step": 3}, "on_step is 3: expected a function"),
        ],
    )


MANY = np.random.default_rng(1)
SIDES = np.where(MANY.random(60) < 0.5, 1, -1)
SPREAD = MANY.normal(0.1 * SIDES[:, None], 1.0, (60, 3)).round(2)


def other_examples(points, labels):
    """Changes of the data, and what the error says of them."""
    count = len(labels)
    return [
        ({"points": points + 1}, "of other points: pass"),
        ({"labels": -labels}, "of other labels: pass"),
        ({"weights": np.full(count, 2.0)}, "of other weights: pass"),
        ({"mask": np.arange(count) > 0}, "of other mask: pass"),
        ({"on_step": 3}, "on_step is 3: expected a function"),
    ]


def plane(points=SPREAD, labels=SIDES, **options):
    return pair.optimal_separator(points, labels, **options)


@pytest.mark.slow
@pytest.mark.parametrize("fat, tie_break", [("removed", "margin"), ("flipped", None)])
def test_branch_and_bound_in_space_goes_on_from_every_step(fat, tie_break, tmp_path):
    weights = np.random.default_rng(2).integers(1, 4, 60).astype(np.float32)
    run = functools.partial(plane, weights=weights, fat=fat, tie_break=tie_break)
    whole, stopped, states = goes_on_from_every_step(run, pair.PlaneSearchState, tmp_path)
    assert bits(run(method="branch_and_bound")) == bits(whole)
    assert int(whole.status) == int(Status.OPTIMAL)
    constant = min(weights[SIDES > 0].sum(), weights[SIDES < 0].sum())
    for part in stopped:
        scores = (SPREAD - np.asarray(part.anchor)) @ np.asarray(part.normal) + float(part.bias)
        assert (SIDES * scores <= 0).tolist() == part.misclassified.tolist()
        assert float(part.loss) == weights[np.asarray(part.misclassified)].sum() <= constant
        assert float(part.lower_bound) <= float(whole.loss) <= float(part.loss)
    assert float(stopped[-1].loss) < constant
    assert float(stopped[-1].lower_bound) > float(stopped[0].lower_bound) >= 0
    lines = pair.BranchAndBoundState((), (), 0, True, 0)
    others = [
        ({"initial": lines}, "expected a jboost.pair.PlaneSearchState"),
        ({"method": "sweep"}, "initial is given, and the method is 'sweep'"),
        ({"points": SPREAD[:, :2]}, "expected a jboost.pair.BranchAndBoundState"),
    ]
    refuses(run, states, other_examples(SPREAD, SIDES) + others)
    with pytest.raises(ValueError, match="on_step is given, which the host drives"):
        jax.jit(functools.partial(plane, on_step=print))(SPREAD)


@pytest.mark.slow
def test_a_search_in_space_that_is_stopped_knows_a_constant():
    """Without a better plane it is the constant classifier."""
    points, labels = np.zeros((5, 3)), np.array([1, 1, 1, -1, -1])
    points[0, 0] = 1.0
    found = plane(points, labels, on_step=lambda state, info: False)
    assert (float(found.loss), float(found.lower_bound)) == (2.0, 2.0)
    assert int(found.status) in (int(Status.OPTIMAL), int(Status.TIME_LIMIT))
    assert not np.asarray(found.normal).any()


def leave_one_out(points=SPREAD, labels=SIDES, *, num_scores, **options):
    return pair.leave_one_out(points[:, :num_scores], labels, **options)


@pytest.mark.slow
@pytest.mark.parametrize("num_scores", [2, 3])
def test_leave_one_out_goes_on_from_every_step(num_scores, tmp_path, monkeypatch):
    monkeypatch.setattr(leave_one_out_in_space, "_AXES_AT_ONCE", 40)
    run = functools.partial(leave_one_out, num_scores=num_scores)
    config = pair.BranchAndBoundConfig(leaf_size=4)
    options = {"config": config} if num_scores == 2 else {}
    whole, stopped, states = goes_on_from_every_step(
        functools.partial(run, **options), pair.LeaveOneOutState, tmp_path
    )
    unwatched = run(method="sweep")
    np.testing.assert_array_equal(whole.errors, unwatched.errors)
    np.testing.assert_array_equal(whole.kinds, unwatched.kinds)
    for part in stopped:
        assert np.isnan([part.error, *part.errors]).all()
        assert not part.kinds.any()
    search = pair.BranchAndBoundState((), (), 0, True, 0)
    others = [({"initial": search}, "expected a jboost.pair.LeaveOneOutState")]
    if num_scores == 2:
        others.append(({"method": "sweep"}, "initial is given, and the method is 'sweep'"))
        others.append(({"model": "occurrence"}, "takes concrete arrays and the model"))
    refuses(run, states, other_examples(SPREAD, SIDES) + others)
    with pytest.raises(ValueError, match="on_step is called on the host, between steps"):
        jax.jit(functools.partial(run, on_step=print))(SPREAD)


def pareto_front(points=SPREAD, labels=SIDES, *, num_scores, **options):
    return pair.pareto_front(points[:, :num_scores], labels, **({"max_points": 32} | options))


@pytest.mark.slow
@pytest.mark.parametrize("num_scores", [2, 3])
def test_pareto_front_goes_on_from_every_step(num_scores, tmp_path, monkeypatch):
    monkeypatch.setattr(slope_cells, "_FIRST_CELLS", 32)
    monkeypatch.setattr(front_by_cells, "_PLACES_AT_ONCE", 16)
    monkeypatch.setattr(front_in_space, "_HEIGHTS_AT_ONCE", 1 << 20)
    count = {2: 60, 3: 24}[num_scores]
    examples = {"points": SPREAD[:count], "labels": SIDES[:count]}
    run = functools.partial(pareto_front, num_scores=num_scores, **examples)
    whole, stopped, states = goes_on_from_every_step(run, pair.ParetoState, tmp_path)
    unwatched = run()
    np.testing.assert_array_equal(whole.losses, unwatched.losses)
    np.testing.assert_array_equal(whole.margins, unwatched.margins)
    last = int(whole.count) - 1
    for part in stopped:  # the first and the last point, or the last
        rows = [0, last] if num_scores == 2 else [last]
        assert int(part.count) == len(rows)
        for found, full in zip(part[:5], whole[:5], strict=True):
            np.testing.assert_allclose(found[: len(rows)], full[np.array(rows)], rtol=1e-6)
    kinds = {part for state in states for part in state._fields if getattr(state, part) is not None}
    assert kinds >= ({"cells", "places"} if num_scores == 2 else {"slabs"})
    others = [({"initial": 3}, "expected a jboost.pair.ParetoState")]
    if num_scores == 2:
        others.append(({"method": "sweep"}, "initial is given, and the method is 'sweep'"))
    refuses(run, states, other_examples(**examples) + others)
