"""Loops that the host drives go on from the state of any step to the bits of the whole run, and
refuse a state of other data or options by name.
"""

import jax
import numpy as np
import pytest

import jboost
from jboost import example_weights, slipper
from resuming import goes_on_from_every_step

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
