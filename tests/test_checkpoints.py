"""Checkpoints: a run that was stopped and goes on ends in the same bits, and what does not belong to it is refused by name."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import adaboost, checkpoints, drive, infoboost, l0, learners, lpboost, relaxations, relaxed_margin, slipper
from jboost.base import boosting
from jboost.checkpoints import fingerprint, storage

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
    "relaxed_margin": (relaxed_margin, STUMPS, {"relaxation": relaxations.soft_margin(nu=0.3), "tolerance": 1e-4}),
    "lpboost": (lpboost, STUMPS, {"nu": 0.3, "tolerance": 1e-5}),
    "l0": (l0, MONOMIALS, {"margin": 0.1, "max_columns": 16}),
    "slipper": (slipper, slipper.rules(), {"num_rounds": ROUNDS}),
}


def options_of(name):
    method, learner, options = BOOSTERS[name]
    return method, learner, {"key": KEY, "max_rounds": ROUNDS, **options}


def bits(tree):
    """The bytes of all leaves, by name."""
    named = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): (str(leaf.dtype), fingerprint.on_host(leaf).tobytes()) for path, leaf in named if hasattr(leaf, "dtype")}


def stop_after(steps):
    seen = []
    return lambda state, info: seen.append(state) or len(seen) < steps


@pytest.mark.parametrize("name", BOOSTERS)
def test_resumed_fit_ends_in_the_bits_of_the_whole_one(name, tmp_path):
    method, learner, options = options_of(name)
    whole = method.fit(DATASET, learner, on_step=lambda state, info: None, **options)
    with checkpoints.Checkpointer(tmp_path, data=DATASET) as checkpointer:
        stopped = method.fit(DATASET, learner, on_step=drive.all_of(checkpointer, stop_after(STOP_AFTER)), **options)
    assert int(stopped.num_rounds) == STOP_AFTER < int(whole.num_rounds)

    like = method.init(DATASET, learner, **options)
    state = checkpoints.restore(tmp_path, like, data=DATASET)
    assert jax.tree.structure(state) == jax.tree.structure(like)
    assert [(leaf.dtype, leaf.sharding) for leaf in jax.tree.leaves(state)] == [(leaf.dtype, leaf.sharding) for leaf in jax.tree.leaves(like)]
    with checkpoints.Checkpointer(tmp_path, data=DATASET, initial=state) as checkpointer:
        resumed = method.fit(DATASET, learner, on_step=checkpointer, initial=state, **options)
    assert bits(resumed) == bits(whole)

    by_steps = state  # the public step is the round of `fit`
    while bool(boosting.unfinished(by_steps)):
        by_steps, _ = method.step(by_steps, DATASET)
    assert bits(method.finish(by_steps, DATASET)) == bits(whole)

    finished = checkpoints.restore(tmp_path, like, data=DATASET)  # the last state: nothing is left to do
    assert bits(method.fit(DATASET, learner, initial=finished, **options)) == bits(whole)


@pytest.mark.parametrize(
    "name", ["adaboost", "infoboost", "slipper", *(pytest.param(name, marks=pytest.mark.slow) for name in ("relaxed_margin", "lpboost"))]
)
def test_fit_by_rounds_ends_in_the_bits_of_the_one_program(name):
    method, learner, options = options_of(name)
    in_one = method.fit(DATASET, learner, **options)
    assert bits(method.fit(DATASET, learner, on_step=lambda state, info: None, **options)) == bits(in_one)
