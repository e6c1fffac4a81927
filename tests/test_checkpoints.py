"""Checkpoints: a run that was stopped and goes on ends in the same bits, and what does not belong
to it is refused by name.
"""

import contextlib
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import jboost
from command_line import run_in
from jboost import (
    adaboost,
    checkpoints,
    combine,
    drive,
    example_weights,
    files,
    infoboost,
    l0,
    learners,
    lpboost,
    pair,
    relaxations,
    relaxed_margin,
    slipper,
)
from jboost.base import boosting, checksums
from jboost.checkpoints import fingerprint, storage
from marks import slow, slow_but
from resuming import bits, stop_after

ROOT = Path(__file__).parents[1]
ROUNDS = 6
STOP_AFTER = 2


def make_data(seed=0):
    generator = np.random.default_rng(seed)
    features = generator.integers(0, 2, (24, 4)).astype(np.float32)
    labels = np.where(features[:, 0] * features[:, 1] + 0.6 * generator.random(24) > 0.5, 1, -1)
    return jboost.make_dataset(features, labels)


DATASET, KEY = make_data(), jax.random.key(3)
STUMPS, MONOMIALS = learners.stumps(), learners.monomials(2, kappa=0.1)
BOOSTERS = {
    "adaboost": (adaboost, STUMPS, {}),
    "infoboost": (infoboost, learners.literals(), {"smoothing": 0.1}),
    "relaxed_margin": (
        relaxed_margin,
        STUMPS,
        {"relaxation": relaxations.soft_margin(nu=0.3), "tolerance": 1e-4},
    ),
    "lpboost": (lpboost, STUMPS, {"nu": 0.3, "tolerance": 1e-5}),
    "l0": (l0, MONOMIALS, {"margin": 0.1, "max_columns": 16}),
    "slipper": (slipper, slipper.rules(), {"num_rounds": ROUNDS}),
    "pairwise": (combine.pairwise, STUMPS, {}),
}


def options_of(name):
    method, learner, options = BOOSTERS[name]
    return method, learner, {"key": KEY, "max_rounds": ROUNDS, **options}


@pytest.mark.parametrize("name", slow_but(BOOSTERS, "adaboost", "lpboost"))
def test_resumed_fit_ends_in_the_bits_of_the_whole_one(name, tmp_path):
    method, learner, options = options_of(name)
    whole = method.fit(DATASET, learner, on_step=lambda state, info: None, **options)
    with checkpoints.Checkpointer(tmp_path, data=DATASET) as checkpointer:
        stopped = method.fit(
            DATASET, learner, on_step=drive.all_of(checkpointer, stop_after(STOP_AFTER)), **options
        )
    assert int(stopped.num_rounds) == STOP_AFTER < int(whole.num_rounds)

    like = method.init(DATASET, learner, **options)
    state = checkpoints.restore(tmp_path, like, data=DATASET)
    assert state.checksums.tolist() == checksums.of_dataset(DATASET).tolist()
    arrays = state._replace(checksums=None)
    assert jax.tree.structure(arrays) == jax.tree.structure(like)
    assert [(leaf.dtype, leaf.sharding) for leaf in jax.tree.leaves(arrays)] == [
        (leaf.dtype, leaf.sharding) for leaf in jax.tree.leaves(like)
    ]
    with checkpoints.Checkpointer(tmp_path, data=DATASET, initial=state) as checkpointer:
        resumed = method.fit(DATASET, learner, on_step=checkpointer, initial=state, **options)
    assert bits(resumed) == bits(whole)

    by_steps = state  # the public step is the round of `fit`
    while bool(boosting.unfinished(by_steps)):
        by_steps, _ = method.step(by_steps, DATASET)
    assert bits(method.finish(by_steps, DATASET)) == bits(whole)

    # the last state: nothing is left to do
    finished = checkpoints.restore(tmp_path, like, data=DATASET)
    assert bits(method.fit(DATASET, learner, initial=finished, **options)) == bits(whole)


def test_digest_of_bfloat16_numbers_is_that_of_their_bits():
    numbers = jax.numpy.arange(3, dtype="bfloat16")
    assert (
        fingerprint.digest(numbers)[""].split()[1]
        == fingerprint.digest(np.asarray(numbers).view(np.uint16))[""].split()[1]
    )


@pytest.mark.parametrize(
    "name",
    slow_but([name for name in BOOSTERS if name != "l0"], "adaboost", "infoboost", "slipper"),
)
def test_fit_by_rounds_ends_in_the_bits_of_the_one_program(name):
    method, learner, options = options_of(name)
    in_one = method.fit(DATASET, learner, **options)
    assert bits(method.fit(DATASET, learner, on_step=lambda state, info: None, **options)) == bits(
        in_one
    )


LIKE = adaboost.init(DATASET, STUMPS, max_rounds=ROUNDS)


def advanced(rounds):
    state = LIKE
    for _ in range(rounds):
        state, _ = adaboost.step(state, DATASET)
    return state


@pytest.fixture
def saved(tmp_path):
    """A folder with the states after one round and after two."""
    with checkpoints.Checkpointer(tmp_path, data=DATASET) as checkpointer:
        for rounds in (1, 2):
            checkpointer.save_now(advanced(rounds))
    return tmp_path


def restored_rounds(folder):
    return int(checkpoints.restore(folder, LIKE, data=DATASET).num_rounds)


# --- more than boosters ---------------------------------------------------------------------------


def test_fit_goes_on_by_itself(tmp_path):
    method, learner, options = options_of("slipper")
    options = {**options, "num_rounds": None, "num_folds": 2}
    whole = slipper.fit(DATASET, learner, on_step=lambda state, info: None, **options)
    part = checkpoints.fit(
        method, DATASET, learner, folder=tmp_path, on_step=stop_after(1), **options
    )
    assert int(part.num_rounds) == 1
    assert bits(checkpoints.fit(method, DATASET, learner, folder=tmp_path, **options)) == bits(
        whole
    )
    with pytest.raises(ValueError, match="options.*|key was uint32.* and is uint32"):
        checkpoints.fit(
            method, DATASET, learner, folder=tmp_path, **{**options, "key": jax.random.key(4)}
        )
    with pytest.raises(ValueError, match="num_rounds is None: pass it, or num_folds"):
        checkpoints.fit(method, DATASET, learner, folder=tmp_path, key=KEY)


def test_relaxed_margin_of_a_matrix_goes_on(tmp_path):
    margins = np.random.default_rng(0).uniform(-1, 1, (24, 8)).astype(np.float32)
    relaxation = relaxations.soft_margin(nu=0.3)
    options = {"tolerance": 1e-5, "config": relaxed_margin.SolverConfig(iterations_per_check=4)}
    data, told = (margins,), {"relaxation": relaxation, **options}
    whole = relaxed_margin.solve(margins, relaxation, on_step=lambda state, info: None, **options)
    with checkpoints.Checkpointer(tmp_path, data=data, options=told) as checkpointer:
        stopped = relaxed_margin.solve(
            margins, relaxation, on_step=drive.all_of(checkpointer, stop_after(1)), **options
        )
    assert jboost.status.Status(int(stopped.status)).name == "TIME_LIMIT"
    assert (
        float(stopped.lower_bound)
        <= float(whole.lower_bound)
        <= float(whole.upper_bound)
        <= float(stopped.upper_bound)
    )
    assert int(stopped.num_iterations) == 4 * 15 < int(whole.num_iterations)
    state = checkpoints.restore(tmp_path, relaxed_margin.SolveState, data=data, options=told)
    assert bits(relaxed_margin.solve(margins, relaxation, initial=state, **options)) == bits(whole)
    with pytest.raises(ValueError, match=r"relaxation\S* was .* and is"):
        checkpoints.restore(
            tmp_path,
            relaxed_margin.SolveState,
            data=data,
            options={**told, "relaxation": relaxations.soft_margin(nu=0.2)},
        )
    for changed, message in (
        ({"margins": margins[:23]}, "of a solve of other margins, weights and mask: pass"),
        ({"margins": -margins}, "of a solve of other margins: pass"),
        ({"relaxation": relaxations.soft_margin(nu=0.2)}, "of a solve of other relaxation: pass"),
        ({"votes": relaxations.squared_norm(1.0)}, "of a solve of other votes: pass"),
        ({"initial": state._replace(checksums=None)}, "initial has no checksums"),
        ({"initial": 3}, "initial is a int: expected a jboost.relaxed_margin.SolveState"),
    ):
        told = {"margins": margins, "relaxation": relaxation, "initial": state, **options}
        with pytest.raises(ValueError, match=message):
            relaxed_margin.solve(**(told | changed))


@pytest.mark.slow
def test_branch_and_bound_of_a_pair_goes_on(tmp_path):
    generator = np.random.default_rng(1)
    labels = np.where(generator.random(60) < 0.5, 1, -1)
    points = generator.normal(0.1 * labels[:, None], 1.0, (60, 2))
    options = {"config": pair.BranchAndBoundConfig(leaf_size=8), "method": "branch_and_bound"}
    data, told = {"points": points, "labels": labels}, {"tie_break": "margin"}
    whole = pair.optimal_separator(points, labels, **options)
    with checkpoints.Checkpointer(tmp_path, data=data, options=told) as checkpointer:
        stopped = pair.optimal_separator(
            points, labels, on_step=drive.all_of(checkpointer, stop_after(2)), **options
        )
    assert jboost.status.Status(int(stopped.status)).name == "TIME_LIMIT"
    state = checkpoints.restore(tmp_path, pair.BranchAndBoundState, data=data, options=told)
    assert state.frontiers
    assert bits(pair.optimal_separator(points, labels, initial=state, **options)) == bits(whole)
    with pytest.raises(ValueError, match="tie_break was 'margin' and is None"):
        checkpoints.restore(
            tmp_path, pair.BranchAndBoundState, data=data, options={"tie_break": None}
        )
    with pytest.raises(ValueError, match="options is None"):
        checkpoints.restore(tmp_path, pair.BranchAndBoundState, data=data)
    with pytest.raises(
        ValueError,
        match=(
            r"holds a jboost.*BranchAndBoundState, and like is jboost.*ExactState|State: pass that"
            r" type"
        ),
    ):
        checkpoints.restore(tmp_path, l0.ExactState, data=data, options=told)


def test_example_weights_of_many_examples_go_on(tmp_path):
    generator = np.random.default_rng(3)
    labels = np.where(generator.random(80) < 0.5, 1, -1)
    points = generator.normal(0.8 * labels[:, None], 1.0, (80, 2))
    options = {
        "penalty": 0.1,
        "radius": 10.0,
        "capacity": 24,
        "num_entering": 4,
        "tolerance": 1e-4,
        "max_rounds": 12,
    }
    data, told = (
        (points, labels),
        {name: options[name] for name in ("penalty", "radius", "capacity")},
    )
    whole = example_weights.fit_large(points, labels, **options)
    with checkpoints.Checkpointer(tmp_path, data=data, options=told) as checkpointer:
        stopped = example_weights.fit_large(
            points, labels, on_step=drive.all_of(checkpointer, stop_after(2)), **options
        )
    assert int(stopped.num_iterations) == 2 < int(whole.num_iterations)
    state = checkpoints.restore(tmp_path, example_weights.LargeState, data=data, options=told)
    assert bits(example_weights.fit_large(points, labels, initial=state, **options)) == bits(whole)
    with pytest.raises(ValueError, match="initial has 80 examples, and points has 70"):
        example_weights.fit_large(points[:70], labels[:70], initial=state, **options)
    others = (-points, labels, options), (points, -labels, options)
    for one, two, told in (*others, (points, labels, options | {"penalty": 3.0})):
        with pytest.raises(ValueError, match="initial is the state of a fit of other points"):
            example_weights.fit_large(one, two, initial=state, **told)
    finished = state._replace(num_rounds=12)
    assert (
        int(example_weights.fit_large(points, labels, initial=finished, **options).num_iterations)
        == 12
    )


@pytest.mark.slow
def test_exact_l0_goes_on(tmp_path):
    generator = np.random.default_rng(1)
    outputs, labels = (np.where(generator.random(shape) < 0.5, 1, -1) for shape in ((20, 8), 20))
    problem, seen = (outputs, labels, np.full(8, 0.3)), []
    options = {"margin": 0.1, "config": l0.ExactConfig(batch=2, capacity=64)}
    whole = l0.solve_exact(*problem, on_step=lambda state, info: seen.append(state), **options)
    with checkpoints.Checkpointer(tmp_path, data=problem, options={"margin": 0.1}) as checkpointer:
        checkpointer.save_now(seen[1])
    state = checkpoints.restore(tmp_path, l0.ExactState, data=problem, options={"margin": 0.1})
    assert bits(l0.solve_exact(*problem, initial=state, **options)) == bits(whole)
    with pytest.raises(ValueError, match=r"initial.*columns is int8.*expected int8"):
        l0.solve_exact(outputs[:, :7], labels, np.full(7, 0.3), initial=state, **options)


@pytest.mark.slow
def test_exact_fit_of_l0_goes_on_from_rounds_and_from_nodes(tmp_path):
    sizes = {"margin": 0.1, "max_rounds": 8, "max_columns": 16}
    options, seen = (
        {**sizes, "max_in_play": 12, "exact_config": l0.ExactConfig(batch=2, capacity=64)},
        [],
    )
    whole = l0.fit_exact(
        DATASET, MONOMIALS, on_step=lambda state, info: seen.append(state), **options
    )
    like = l0.ExactFitState(l0.init(DATASET, MONOMIALS, **sizes), None)
    assert (seen[0].search is None, seen[-1].search is None) == (True, False)
    for number in (0, -1):
        folder = tmp_path / str(number)
        with checkpoints.Checkpointer(folder, data=DATASET) as checkpointer:
            checkpointer.save_now(seen[number])
        state = checkpoints.restore(folder, like, data=DATASET)
        assert bits(
            l0.fit_exact(
                DATASET, MONOMIALS, initial=state, on_step=lambda state, info: None, **options
            )
        ) == bits(whole)


def make_monomials(kappa):
    return learners.monomials(1, kappa=kappa)


def make_pairs(kappa):
    return learners.monomials(2, kappa=kappa)


CHOICE = {
    "margins": [0.2],
    "kappas": [0.1, 1.0],
    "key": KEY,
    "num_folds": 2,
    "max_rounds": 3,
    "max_columns": 8,
}


@pytest.mark.exhaustive
def test_choice_of_l0_goes_on_from_every_path(tmp_path):
    seen = []
    whole = l0.choose(
        DATASET, make_monomials, on_step=lambda state, info: seen.append(state), **CHOICE
    )
    assert [int(state.num_done) for state in seen] == [1, 2, 3, 4]
    for number, state in enumerate(seen):
        folder = tmp_path / str(number)
        with checkpoints.Checkpointer(folder, data=DATASET, options={}) as checkpointer:
            checkpointer.save_now(state)
        held = checkpoints.restore(folder, l0.ChoiceState, data=DATASET, options={})
        assert bits(l0.choose(DATASET, make_monomials, initial=held, **CHOICE)) == bits(whole)
    stopped = l0.choose(DATASET, make_monomials, initial=seen[0], on_step=stop_after(1), **CHOICE)
    assert jboost.status.Status(int(stopped.status)).name == "TIME_LIMIT"
    np.testing.assert_array_equal(np.isnan(stopped.errors[:, 0, 0]), [False, True])


def test_rounds_of_the_fit_after_a_choice_of_l0_are_watched():
    rounds, paths = [], []
    options = CHOICE | {"kappas": [0.1]}
    watched = l0.choose(
        DATASET,
        make_monomials,
        on_step=lambda state, info: bool(paths.append(info)),  # ends the choice, not the fit
        on_round=lambda state, info: rounds.append(int(info.num_rounds)),
        **options,
    )
    assert paths == [(1, 2)]
    assert rounds == list(range(1, int(watched.fit.num_rounds) + 1))
    assert len(rounds) > 1
    fit_options = {name: CHOICE[name] for name in ("max_rounds", "max_columns")}
    alone = l0.fit(DATASET, make_monomials(0.1), margin=0.2, on_step=lambda *_: None, **fit_options)
    assert bits(watched.fit) == bits(alone)
    ended = l0.choose(DATASET, make_monomials, on_round=stop_after(1), **options)
    assert not np.isnan(ended.errors).any()
    assert int(ended.fit.num_rounds) == 1
    assert jboost.status.Status(int(ended.status)).name == "TIME_LIMIT"


def test_state_of_another_choice_of_l0_is_refused():
    state = l0.cross_validation._first_state(*choice_parts(DATASET, make_monomials, **CHOICE))
    for change, message in [
        ({"dataset": make_data(1)}, "of a choice of other features, labels and folds"),
        ({"make_learner": make_pairs}, "of a choice of other learner"),
        ({"key": jax.random.key(4)}, "of a choice of other folds"),
        ({"kappas": [0.1, 2.0]}, "other learner and margins, kappas or options"),
        ({"margins": [0.3]}, "of a choice of other margins, kappas or options"),
        ({"max_rounds": 4}, "of a choice of other margins, kappas or options"),
        ({"search": l0.RelaxedConfig()}, "of a choice of other margins, kappas or options"),
        ({"kappas": [0.1]}, r"initial.errors is float32\[2, 2, 1, 1\]: expected .*\[1, 2, 1, 1\]"),
        ({"initial": 3}, "initial is a int: expected a jboost.l0.ChoiceState"),
    ]:
        told = {"dataset": DATASET, "make_learner": make_monomials, "initial": state}
        with pytest.raises(ValueError, match=message):
            l0.choose(**(told | CHOICE | change))


def choice_parts(*arguments, **options):
    """What `l0.choose` makes of its arguments before the first path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(l0.cross_validation, "_drive", lambda *parts: parts)
        return l0.choose(*arguments, on_step=lambda *_: None, **options)[:4]


ROUNDS_OF_SEARCH = {"max_rounds": 3, "max_columns": 8}
SEARCH = {"penalty": 0.02, "margin_tolerance": 1e-4, "max_margins": 4, **ROUNDS_OF_SEARCH}


@pytest.mark.exhaustive
def test_search_of_margins_goes_on_from_every_margin(tmp_path):
    learner, seen = make_monomials(0.1), []
    whole = l0.search_margin(
        DATASET,
        learner,
        on_step=lambda state, search: None if state is None else seen.append((state, search)),
        **SEARCH,
    )
    assert [int(search.num_margins) for _, search in seen] == [1, 2, 3, 4]
    in_one = l0.search_margin(DATASET, learner, **SEARCH)
    assert int(in_one.status) == int(whole.status)
    for name in ("margins", "relaxation_lower_bounds", "lower_bound", "upper_bound"):
        np.testing.assert_allclose(getattr(in_one, name), getattr(whole, name), rtol=1e-4)
    first = l0.init(DATASET, learner, margin=1e-3, bound_integer=False, **ROUNDS_OF_SEARCH)
    like = l0.MarginSearchState(first, first, None)
    for number, (state, _) in enumerate(seen):
        folder = tmp_path / str(number)
        with checkpoints.Checkpointer(folder, data=DATASET, options={}) as checkpointer:
            checkpointer.save_now(state)
        held = checkpoints.restore(folder, like, data=DATASET, options={})
        assert bits(l0.search_margin(DATASET, learner, initial=held, **SEARCH)) == bits(whole)
    stopped = l0.search_margin(
        DATASET, learner, initial=seen[0][0], on_step=stop_after(1), **SEARCH
    )
    assert jboost.status.Status(int(stopped.status)).name == "TIME_LIMIT"
    assert int(stopped.num_margins) == 2  # ended between the rounds of the second margin
    assert float(seen[0][1].lower_bound) <= float(stopped.lower_bound)
    assert float(stopped.lower_bound) <= float(whole.lower_bound)
    assert float(whole.upper_bound) <= float(stopped.upper_bound)
    assert float(stopped.upper_bound) <= float(seen[0][1].upper_bound)
    first_round = l0.search_margin(DATASET, learner, on_step=stop_after(1), **SEARCH)
    assert jboost.status.Status(int(first_round.status)).name == "TIME_LIMIT"
    assert (int(first_round.num_margins), int(first_round.fit.num_rounds)) == (1, 1)
    assert jboost.status.Status(int(first_round.fit.status)).name == "TIME_LIMIT"
    assert -np.inf < float(first_round.lower_bound) <= float(whole.lower_bound)
    assert float(whole.upper_bound) <= float(first_round.upper_bound) < np.inf
    with pytest.raises(ValueError, match=r"initial.search.margins is float32\[4\]: expected .*5"):
        l0.search_margin(DATASET, learner, initial=seen[0][0], **(SEARCH | {"max_margins": 5}))


def test_state_of_another_search_of_margins_is_refused():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(l0.path.__globals__["checksums"], "require_same", record := RecordedParts())
        with pytest.raises(ValueError, match="recorded"):
            l0.search_margin(
                DATASET,
                make_monomials(0.1),
                initial=l0.MarginSearchState(None, None, None, np.zeros(8, np.uint32)),
                **SEARCH,
            )
    state = l0.MarginSearchState(None, None, None, record.expected)
    for change, message in [
        ({"dataset": make_data(1)}, "of a search of other features and labels: pass"),
        ({"learner": make_monomials(0.2)}, "of a search of other learner: pass"),
        ({"penalty": 0.03}, "of a search of other penalty: pass"),
        ({"least_margin": 0.1}, "of a search of other least_margin or options: pass"),
        ({"max_columns": 9}, "of a search of other least_margin or options: pass"),
        ({"key": jax.random.key(1)}, "of a search of other key: pass"),
        ({"initial": 3}, "initial is a int: expected a jboost.l0.MarginSearchState"),
        ({"initial": state._replace(checksums=None)}, "initial has no checksums"),
    ]:
        told = {"dataset": DATASET, "learner": make_monomials(0.1), "initial": state}
        with pytest.raises(ValueError, match=message):
            l0.search_margin(**(told | SEARCH | change))


class RecordedParts:
    """In place of `checksums.require_same`: keeps what the state should have had."""

    def __call__(self, given, expected, **described):
        self.expected = expected
        raise ValueError("recorded")


def test_a_state_is_placed_as_the_one_like_it(saved):
    mesh = jax.make_mesh((4,), ("examples",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("examples"))
    like = LIKE._replace(example_weights=jax.device_put(LIKE.example_weights, spread))
    state = checkpoints.restore(saved, like, data=DATASET)
    assert state.example_weights.sharding == spread
    assert bits(state) == bits(advanced(2))
    whole = jax.device_put(DATASET, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))
    # where data are does not matter
    assert bits(checkpoints.restore(saved, like, data=whole)) == bits(advanced(2))


# --- what is refused ------------------------------------------------------------------------------


def test_data_of_another_run_are_refused_by_name(saved):
    with pytest.raises(
        ValueError,
        match=(
            r"of another run: data.weights was float32.24. \w+ and is float32.24. \w+: pass the"
            r" data"
        ),
    ):
        checkpoints.restore(saved, LIKE, data=DATASET._replace(weights=2 * DATASET.weights))
    with pytest.raises(ValueError, match="data.extra was not there and is"):
        checkpoints.restore(saved, LIKE, data={**DATASET._asdict(), "extra": np.ones(3)})
    with pytest.raises(ValueError, match=r"data.labels was"):
        checkpoints.Checkpointer(
            saved, data=DATASET._replace(labels=-DATASET.labels), initial=advanced(1)
        )


def test_options_of_another_run_are_refused_by_name(saved):
    with pytest.raises(ValueError, match="booster.margin_precision was None and is float32.. 0.5"):
        checkpoints.restore(
            saved,
            adaboost.init(DATASET, STUMPS, max_rounds=ROUNDS, margin_precision=0.5),
            data=DATASET,
        )
    with pytest.raises(
        ValueError, match="learner was Stumps and is Literals|learner was .* and is"
    ):
        checkpoints.restore(
            saved, adaboost.init(DATASET, learners.literals(), max_rounds=ROUNDS), data=DATASET
        )
    with pytest.raises(ValueError, match="seed was not there and is 3"):
        checkpoints.restore(saved, LIKE, data=DATASET, options={"seed": 3})
    with pytest.raises(ValueError, match="of AdaBoost, and this run is of InfoBoost"):
        checkpoints.restore(saved, infoboost.init(DATASET, STUMPS, max_rounds=ROUNDS), data=DATASET)
    with pytest.raises(
        ValueError,
        match=r"hypotheses.feature was int32\[6\], and `like` has int32\[7\]: .*max_rounds",
    ):
        checkpoints.restore(
            saved, adaboost.init(DATASET, STUMPS, max_rounds=ROUNDS + 1), data=DATASET
        )


def test_functions_are_options_with_what_they_hold():
    def network(rate):
        return {"step": lambda x: rate * x}

    texts = [fingerprint.make("a", network(rate), {}, {})["options"] for rate in (0.1, 0.2, 0.1)]
    assert texts[0] == texts[2] != texts[1]
    assert texts[0]["step.rate"] == "0.1"


FUNCTIONS = """
def of(rate, power=2):
    def inside(x, words={"a", "b", "c", "d"}):
        return [y ** power for y in x if str(y) not in {"e", "f", "g", "h"}]
    return lambda x: rate * sum(inside(x))
"""


def test_functions_are_options_with_their_code_and_their_defaults(tmp_path):
    def default(rate, *, power=2):
        """A power."""
        return rate**power

    def another(rate, *, power=3):
        return rate**power

    def described(rate, *, power=2):
        """As the first one, in other words."""
        return rate**power

    for function in (another, described):
        function.__qualname__ = default.__qualname__
    different = [lambda x: x + 1, lambda x: x + 2, lambda x: x.min(), lambda x: x.max(), another]
    different += [lambda x, scale=1.0: x * scale, lambda x, scale=2.0: x * scale]
    different += [jax.jit(lambda x: x + 1), jax.jit(lambda x: x + 2), default]
    different += [np.ones(2).__add__, jboost.drive.StopOnSigterm().__call__]
    texts = [str(fingerprint.make("a", {"f": each}, {}, {})["options"]) for each in different]
    assert len(set(texts)) == len(texts), texts
    same = [fingerprint.make("a", {"f": each}, {}, {})["options"] for each in (default, described)]
    assert same[0] == same[1]

    exec(FUNCTIONS, found := {"__name__": "other"})
    here = fingerprint.make("a", {"f": found["of"](0.5), "of": found["of"]}, {}, {})["options"]
    program = (
        "import json, sys\nfrom jboost.checkpoints import fingerprint\n"
        f"exec({FUNCTIONS!r}, found := {{'__name__': 'other'}})\n"
        "options = {'f': found['of'](0.5), 'of': found['of']}\n"
        "print(json.dumps(fingerprint.make('a', options, {}, {})['options']))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    assert json.loads(ended.stdout) == here


def test_other_versions_are_refused(saved, monkeypatch):
    monkeypatch.setattr(files, "package_version", lambda name: "0.9.7")
    with pytest.raises(ValueError, match=r"was written by jboost .*, and this is jboost 0.9.7"):
        checkpoints.restore(saved, LIKE, data=DATASET)
    monkeypatch.undo()
    monkeypatch.setattr(fingerprint, "FORMAT_VERSION", 2)
    with pytest.raises(
        ValueError, match="has format jboost-checkpoint 1, expected jboost-checkpoint 2"
    ):
        checkpoints.restore(saved, LIKE, data=DATASET)


def test_a_folder_with_anything_else_is_refused_and_left_as_it_is(tmp_path, saved):
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years")
    with pytest.raises(ValueError, match="something else than checkpoints"):
        checkpoints.Checkpointer(other, data=DATASET)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match=r"thesis.tex: is a file"):
        checkpoints.Checkpointer(other / "thesis.tex", data=DATASET)
    with pytest.raises(ValueError, match="folder is empty"):
        checkpoints.Checkpointer("", data=DATASET)
    shutil.rmtree(other)
    with pytest.raises(
        ValueError, match=r"holds checkpoints, and this run does not go on from one"
    ):
        checkpoints.Checkpointer(saved, data=DATASET)
    assert restored_rounds(saved) == 2


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="there is no checkpoint"):
        checkpoints.restore(tmp_path / "none", LIKE, data=DATASET)
    assert checkpoints.latest(tmp_path / "none", LIKE, data=DATASET) is None
    assert not (tmp_path / "none").exists()
    with pytest.raises(TypeError, match="data"):
        checkpoints.Checkpointer(tmp_path)
    with pytest.raises(ValueError, match="data is empty"):
        checkpoints.Checkpointer(tmp_path, data=None)
    with pytest.raises(ValueError, match="every_seconds is -1"):
        checkpoints.Checkpointer(tmp_path, data=DATASET, every_seconds=-1)
    with pytest.raises(ValueError, match="every_seconds is '1'"):
        checkpoints.Checkpointer(tmp_path, data=DATASET, every_seconds="1")
    with pytest.raises(ValueError, match="options is a list: expected the options by name"):
        checkpoints.Checkpointer(tmp_path, data=DATASET, options=["margin"])
    with pytest.raises(ValueError, match=r"method is 'jboost.pair', which has no init and fit"):
        checkpoints.fit(pair, DATASET, STUMPS, folder=tmp_path)
    with pytest.raises(ValueError, match="keep is 0"):
        checkpoints.Checkpointer(tmp_path, data=DATASET, keep=0)
    checkpointer = checkpoints.Checkpointer(tmp_path, data=DATASET)
    with pytest.raises(ValueError, match="options is None, and a ndarray does not hold"):
        checkpointer.save_now(np.ones(3))
    checkpointer.close()
    with pytest.raises(ValueError, match="the checkpointer is closed"):
        checkpointer(LIKE)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(ValueError, match=r"pip install 'jboost\[checkpoints\]'"):
        checkpoints.Checkpointer(tmp_path / "new", data=DATASET)


def test_initial_of_another_fit_is_refused():
    for options, message in [
        ({"max_rounds": 7}, "initial is a state of a fit of max_rounds=6, and max_rounds is 7"),
        ({"margin_precision": 0.5}, "initial is a state of the booster AdaBoost"),
        ({"learner": learners.literals()}, "initial is a state of the learner Stumps"),
        ({"initial": "state"}, "initial is a str: expected a jboost.boosting.State"),
        (
            {"dataset": jboost.make_dataset(np.eye(3), [1, -1, 1])},
            r"initial.*is .*24.*: expected .*3",
        ),
    ]:
        told = {
            "dataset": DATASET,
            "learner": STUMPS,
            "max_rounds": ROUNDS,
            "initial": LIKE,
            **options,
        }
        with pytest.raises(ValueError, match=message):
            adaboost.fit(**told)


# --- the disk -------------------------------------------------------------------------------------


def test_the_newest_are_kept_and_damaged_or_half_written_ones_are_passed_over(saved):
    state = checkpoints.restore(saved, LIKE, data=DATASET)
    with checkpoints.Checkpointer(
        saved, data=DATASET, initial=state, every_seconds=0
    ) as checkpointer:
        checkpointer.save_now(advanced(3))
    assert sorted(path.name for path in saved.iterdir()) == ["1", "2", storage.MARK]
    shutil.copytree(saved / "2", saved / "3.orbax-checkpoint-tmp")  # as a kill leaves it
    for path in (saved / "2").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert restored_rounds(saved) == 2
    shutil.rmtree(saved / "2" / "fingerprint")
    assert restored_rounds(saved) == 2
    shutil.rmtree(saved / "1" / "state")
    with pytest.raises(ValueError, match="none of the 2 checkpoints can be read"):
        restored_rounds(saved)


@pytest.mark.parametrize("word", [b"shape", b"example_weights", b"float32", b"AdaBoost", b"Stumps"])
def test_a_flipped_bit_of_a_fingerprint_is_damage(word, saved):
    """Not another run, nor an error of Python."""
    path = saved / "1" / "fingerprint" / "metadata"
    text = path.read_bytes()
    assert word in text
    path.write_bytes(text.replace(word, bytes([word[0] ^ 1]) + word[1:], 1))
    assert restored_rounds(saved) == 1


@contextlib.contextmanager
def files_of_at_most(num_bytes):
    """Writes beyond so many bytes fail, as those to a full disk do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def trouble(kind, folder, patch):
    if kind == "vanished":
        shutil.rmtree(folder)
    elif kind == "full":
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 17))
    else:
        return files_of_at_most(64)
    return contextlib.nullcontext()


# What orbax still had in hand when a write failed is collected after its event loop is closed, and
# says so.
ORBAX_FAILS = pytest.param(
    "fails", marks=pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
)


@pytest.mark.parametrize("kind", ["vanished", "full", ORBAX_FAILS])
def test_trouble_with_the_disk_names_the_folder(kind, saved, monkeypatch):
    state = checkpoints.restore(saved, LIKE, data=DATASET)
    checkpointer = checkpoints.Checkpointer(saved, data=DATASET, initial=state)
    told = "could not be written.*free space.*earlier checkpoints are as they were"
    with trouble(kind, saved, monkeypatch), pytest.raises(OSError, match=told) as error:
        checkpointer.save_now(advanced(3))
    assert str(saved) in str(error.value)
    monkeypatch.undo()
    if kind != "vanished":
        assert restored_rounds(saved) == 2
    del error, checkpointer
    gc.collect()


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(OSError, match="no checkpoints can be written there .*permission"):
        checkpoints.Checkpointer(tmp_path / "new", data=DATASET)


# --- processes that end ---------------------------------------------------------------------------

# rounds, seconds between checkpoints, and seconds that a write may take beside them
KILLED_ROUNDS, INTERVAL, SLACK = 100, 0.2, 2.0
RUN = f"""
import pathlib, sys, time
import jax
import test_checkpoints as case
log = pathlib.Path(sys.argv[1])

def on_step(state, info):
    with log.open("a") as file:
        print(int(state.num_rounds), time.time(), file=file)
    time.sleep(0.01)

case.checkpoints.fit(
    case.adaboost, case.DATASET, case.STUMPS, folder=sys.argv[2], every_seconds={INTERVAL},
    on_step=on_step, max_rounds={KILLED_ROUNDS}
)
"""


def kill_at_random_moments(folder, num_kills, seed):
    """Starts the run again and again, killing it, and lets it end at last; after each kill at most
    one interval is lost.
    """
    log, checkpointed = folder / "log", folder / "checkpoints"
    generator = random.Random(seed)
    like = adaboost.init(DATASET, STUMPS, max_rounds=KILLED_ROUNDS)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "JAX_PLATFORMS": "cpu",
    }
    for is_last in [False] * num_kills + [True]:
        before = len(log.read_text().splitlines()) if log.exists() else 0
        command = [sys.executable, "-c", textwrap.dedent(RUN), log, checkpointed]
        if is_last:
            ended = subprocess.run(
                command,
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
                timeout=240,
                check=False,
            )
            assert ended.returncode == 0, ended.stderr
            break
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        while process.poll() is None and (
            not log.exists() or len(log.read_text().splitlines()) == before
        ):
            time.sleep(0.02)
        assert log.exists(), "the run ended before its first round"
        time.sleep(generator.uniform(0, 1))
        process.kill()
        process.wait()
        rounds, times = np.loadtxt(log, ndmin=2).T
        state = checkpoints.latest(checkpointed, like, data=DATASET, options={"key": None})
        saved = times[0] if state is None else times[rounds == int(state.num_rounds)][-1]
        # what this process did since the checkpoint, or since it began with an older one
        if len(times) > before:
            assert times[-1] - max(saved, times[before]) <= INTERVAL + SLACK
    return checkpoints.restore(checkpointed, like, data=DATASET, options={"key": None})


@pytest.mark.parametrize(
    "num_kills, seed",
    [
        (1, 1),
        slow(5, 5),
        *(pytest.param(1, seed, marks=pytest.mark.exhaustive) for seed in range(2, 52)),
    ],
)
def test_a_run_that_is_killed_goes_on_to_the_same_bits(num_kills, seed, tmp_path):
    last = kill_at_random_moments(tmp_path, num_kills, seed)
    whole = adaboost.fit(
        DATASET, STUMPS, max_rounds=KILLED_ROUNDS, on_step=lambda state, info: None
    )
    assert bits(adaboost.finish(last)) == bits(whole)


def write_table(folder, num_columns=2):
    generator = np.random.default_rng(0)
    scores = generator.random((60, num_columns)).round(3)
    answers = np.where(scores[:, :2].sum(axis=1) + 0.6 * generator.random(60) > 1.3, "yes", "no")
    rows = [",".join(map(str, [*row, answer])) for row, answer in zip(scores, answers, strict=True)]
    (folder / "data.csv").write_text("\n".join([",".join([*"abc"[:num_columns], "ill"]), *rows]))


METHODS = {
    "adaboost": (),
    "slipper": ("--num-rounds", 8, "--cuts", "quantiles", "--quantiles", 3),
    "pair": ("--scores", "a", "b"),
    "example-weights": ("--penalty", 0.05, "--penalty", 0.1, "--penalty", 0.3, "--folds", 2),
    "combine": ("--scores", "a", "b", "c", "--strategy", "exact"),
    "lpboost": ("--nu", 0.3, "--tolerance", 1e-6, "--learner", "pool"),
    "l0": ("--max-order", 3, "--cuts", "quantiles", "--quantiles", 4, "--rounds", 3),
}


def stop_and_resume(method, options, tmp_path, monkeypatch, *, is_due=lambda state: True):
    """Fits in the folders "whole" and "resumed", the latter in two parts. Returns the reports.
    SIGTERM stops the first part at the first state that is due.
    """
    write_table(tmp_path, num_columns=3 if method == "combine" else 2)
    fit = (
        "fit",
        "--data",
        "data.csv",
        "--label",
        "ill",
        "--method",
        method,
        "--precision",
        "float32",
        *options,
    )
    keep = ("--checkpoint", "states")

    assert run_in(tmp_path, *fit, *keep, "--output", "whole")[0] == 0
    shutil.rmtree(tmp_path / "states")
    call, states = checkpoints.Checkpointer.__call__, []

    def terminate(self, state, info=None):
        # None in the first vote of `l0.fit_large`
        if state is not None and is_due(state) and not states:
            states.append(state)
            signal.raise_signal(signal.SIGTERM)
        return call(self, state, info)

    monkeypatch.setattr(checkpoints.Checkpointer, "__call__", terminate)
    status, _, errors = run_in(tmp_path, *fit, *keep, "--resume", "--output", "stopped")
    assert status == 143
    assert "starts from the beginning: there is no checkpoint in states" in errors
    assert "stopped by SIGTERM; the state is saved in states: continue with --resume" in errors
    assert not (tmp_path / "stopped").exists()
    monkeypatch.undo()

    status, _, errors = run_in(tmp_path, *fit, *keep, "--output", "resumed")
    assert status == 2
    assert (
        "--checkpoint states: holds checkpoints of this run: continue from them with --resume"
        in errors
    )
    status, _, errors = run_in(
        tmp_path, *fit, *keep, "--resume", "--seed", 1, "--output", "resumed"
    )
    assert status == 2
    assert "states: the checkpoint is of another run: seed was 0 and is 1" in errors
    status, _, errors = run_in(tmp_path, *fit, *keep, "--resume", "--output", "resumed")
    assert (status, errors.strip()) == (0, "jboost: continues from the checkpoint in states")
    return [
        json.loads((tmp_path / name / "report.json").read_text()) for name in ("whole", "resumed")
    ]


@pytest.mark.parametrize(
    "method",
    [
        *slow_but([method for method in METHODS if method != "combine"], "adaboost"),
        pytest.param("combine", marks=pytest.mark.exhaustive),
    ],
)
def test_sigterm_saves_and_resume_ends_in_the_same_model(method, tmp_path, monkeypatch):
    reports = stop_and_resume(method, METHODS[method], tmp_path, monkeypatch)
    assert (tmp_path / "resumed" / "model.npz").read_bytes() == (
        tmp_path / "whole" / "model.npz"
    ).read_bytes()
    assert reports[0]["losses"] == reports[1]["losses"]


ANALYSES = ("--scores", "a", "b", "--loo", "--pareto")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["separator", "leave_one_out", "front"])
def test_sigterm_saves_the_analyses_of_a_pair(part, tmp_path, monkeypatch):
    reports = stop_and_resume(
        "pair",
        ANALYSES,
        tmp_path,
        monkeypatch,
        is_due=lambda state: getattr(state, part) is not None,
    )
    models = [(tmp_path / name / "model.npz").read_bytes() for name in ("whole", "resumed")]
    assert models[0] == models[1]
    for name in ("certificate", "leave_one_out", "pareto"):
        assert reports[0][name] == reports[1][name]
        assert reports[0][name]["status"] == "OPTIMAL"


@pytest.mark.slow
def test_ctrl_c_saves_the_analyses_of_a_pair(tmp_path, monkeypatch):
    write_table(tmp_path, num_columns=2)
    fit = ("fit", "--data", "data.csv", "--label", "ill", *ANALYSES)
    assert run_in(tmp_path, *fit, "--output", "whole")[0] == 0
    call = checkpoints.Checkpointer.__call__

    def interrupt(self, state, info=None):
        if state.leave_one_out is not None and state.front is None:
            signal.raise_signal(signal.SIGINT)
        return call(self, state, info)

    monkeypatch.setattr(checkpoints.Checkpointer, "__call__", interrupt)
    keep = ("--checkpoint", "states", "--output", "out")
    status, said, errors = run_in(tmp_path, *fit, *keep)
    assert (status, "ends with the best so far" in errors) == (0, True)
    assert "left out    the errors are not known (TIME_LIMIT)" in said
    part = json.loads((tmp_path / "out" / "report.json").read_text())
    assert part["certificate"]["status"] == "OPTIMAL"
    assert part["leave_one_out"]["error"] is None
    assert part["pareto"]["status"] == part["leave_one_out"]["status"] == "TIME_LIMIT"
    monkeypatch.undo()
    assert run_in(tmp_path, *fit, *keep, "--resume", "--overwrite")[0] == 0
    whole, resumed = (
        json.loads((tmp_path / name / "report.json").read_text()) for name in ("whole", "out")
    )
    assert resumed["leave_one_out"] == whole["leave_one_out"]
    assert resumed["pareto"] == whole["pareto"]


@pytest.mark.slow
def test_choice_of_the_number_of_rounds_goes_on_from_its_own_state(tmp_path, monkeypatch):
    options = ("--num-rounds", "cv", "--folds", 2, "--rounds", 3, *METHODS["slipper"][2:])
    reports = stop_and_resume("slipper", options, tmp_path, monkeypatch)
    models = [(tmp_path / name / "model.npz").read_bytes() for name in ("whole", "resumed")]
    assert models[0] == models[1]
    assert reports[0]["model"]["rounds"] == reports[1]["model"]["rounds"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(), ("--max-rules", "cv", "--folds", 2)], ids=["one", "chosen"])
def test_rules_of_few_literals_go_on_to_bounds_of_the_same_optimum(size, tmp_path, monkeypatch):
    """Their search for votes has a share of the time, so that the votes may differ."""
    options = ("--max-order", 1, "--cuts", "quantiles", "--quantiles", 4, *size)
    reports = stop_and_resume("l0", options, tmp_path, monkeypatch)
    whole, resumed = (report["model"]["certificate"] for report in reports)
    assert whole["status"] == resumed["status"] == "OPTIMAL"
    for name in ("lower_bound", "integer_lower_bound"):
        upper = name.replace("lower", "upper")
        assert whole[name] <= resumed[upper]
        assert resumed[name] <= whole[upper]
    assert reports[0].get("choice") == reports[1].get("choice")


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, options, part",
    [
        ("adaboost", ("--rounds", 8), "boosting"),
        pytest.param("combine", METHODS["combine"], None, marks=pytest.mark.exhaustive),
    ],
    ids=["adaboost", "combine"],
)
def test_ctrl_c_writes_the_best_so_far_and_saves(method, options, part, tmp_path, monkeypatch):
    write_table(tmp_path, num_columns=3 if method == "combine" else 2)
    table, precision = ("--data", "data.csv", "--label", "ill"), ("--precision", "float32")
    fit = ("fit", *table, "--method", method, *precision, *options)
    # in one program; of three classifiers that is the sweep, which may find another vote
    keep = ("--checkpoint", "whole states") if method == "combine" else ()
    assert run_in(tmp_path, *fit, *keep, "--output", "whole")[0] == 0
    call = checkpoints.Checkpointer.__call__

    def interrupt(self, state, info=None):
        signal.raise_signal(signal.SIGINT)
        return call(self, state, info)

    monkeypatch.setattr(checkpoints.Checkpointer, "__call__", interrupt)
    status, _, errors = run_in(tmp_path, *fit, "--checkpoint", "states", "--output", "out")
    assert status == 0
    assert "ends with the best so far" in errors
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    certificate = (report if part is None else report[part])["certificate"]
    assert certificate["status"] == "TIME_LIMIT"
    monkeypatch.undo()
    assert (
        run_in(
            tmp_path, *fit, "--checkpoint", "states", "--resume", "--output", "out", "--overwrite"
        )[0]
        == 0
    )
    assert (tmp_path / "out" / "model.npz").read_bytes() == (
        tmp_path / "whole" / "model.npz"
    ).read_bytes()


def test_resume_and_checkpoint_are_refused_where_they_mean_nothing(tmp_path):
    fit = ("fit", "--data", "sklearn:wine")
    assert (
        "name the folder with --checkpoint FOLDER"
        in run_in(tmp_path, *fit, "--method", "adaboost", "--resume")[2]
    )
    several = ("--kappa", 1, "--kappa", 2, "--checkpoint", "states")
    assert (
        "among several --margin, --kappa or --vote cannot be resumed: use --exact"
        in run_in(tmp_path, *fit, "--method", "l0", *several)[2]
    )
    assert (
        "--checkpoint is for the method"
        in run_in(tmp_path, *fit, "--method", "combine", "--checkpoint", "states")[2]
    )
    assert (
        "--checkpoint is for the method combine with --strategy exact, and the strategy is greedy"
        in run_in(tmp_path, *fit, "--method", "combine", "--checkpoint", "states")[2]
    )
    one = ("--penalty", 0.1, "--checkpoint", "states")
    assert (
        "--checkpoint is for the method example-weights with a choice of the penalty, and the"
        " penalty is 0.1: give --penalty cv or several values, or leave it out"
        in run_in(tmp_path, *fit, "--method", "example-weights", *one)[2]
    )
