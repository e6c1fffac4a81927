"""Small models of every kind that a file may hold, and what they predict.

`python -m tests.stored_models FOLDER` writes them. The files in tests/models were written by the
version of 2026-11-27, before the packages were laid out anew, those of trees when there were trees,
and `certified_vote` when votes had a certificate. A change of the format adds files beside them,
and replaces none.
"""

import sys
from pathlib import Path

import jax
import numpy as np
import optax

import jboost
from jboost import learners
from jboost.data import binarization

POINTS = np.random.default_rng(0).normal(size=(24, 2)).astype(np.float32)
LABELS = np.where(POINTS[:, 0] + 0.5 * POINTS[:, 1] > 0.1, 1, -1)
LABELS[:3] *= -1
BITS = (POINTS > 0).astype(np.float32)
LEVELS = np.clip(4 * (POINTS + 2), 0, 15).astype(np.uint8)
OF_BITS = ("literals", "monomials", "rules")


def features(name):
    """The features [24, 2] that the model of that name predicts."""
    return BITS if name in OF_BITS else LEVELS if name == "quantised" else POINTS


def network():
    """The learner of `networks`, which a file cannot hold."""
    return learners.trained(*learners.mlp((3,)), optax.adam(0.1), num_steps=3)


def models():
    """Each model by name."""

    def ensemble(fit, learner, name="", **options):
        return fit(jboost.make_dataset(features(name), LABELS), learner, **options).ensemble

    def weighted(**options):
        return jboost.example_weights.fit(POINTS, LABELS, penalty=0.5, **options)

    front = jboost.pair.pareto_front(POINTS, LABELS, max_points=64)
    boost, key = jboost.adaboost.fit, jax.random.PRNGKey(0)
    return {
        "binarizer": binarization.fit(POINTS, LABELS),
        "separator": jboost.pair.optimal_separator(POINTS, LABELS),
        "trade_off": jboost.pair.best_trade_off(
            front, lambda losses, margins: losses - 0.001 * margins
        ),
        "distance": jboost.pair.least_distance_separator(POINTS, LABELS),
        "linear_vote": jboost.combine.fit(POINTS, LABELS, with_stacking=False),
        "certified_vote": jboost.combine.fit(POINTS, LABELS, with_stacking=False),
        "stumps": ensemble(boost, learners.stumps(), max_rounds=3),
        "two_sided": ensemble(jboost.infoboost.fit, learners.stumps(), max_rounds=3),
        "quantised": ensemble(boost, learners.quantised_stumps(), "quantised", max_rounds=3),
        "trees": ensemble(boost, learners.trees(2, num_cuts=4), max_rounds=3),
        "greedy_trees": ensemble(boost, learners.trees(3, num_cuts=4), max_rounds=2),
        "literals": ensemble(jboost.lpboost.fit, learners.literals(), "literals", nu=0.5),
        "monomials": ensemble(boost, learners.monomials(2), "monomials", max_rounds=3),
        "rules": ensemble(jboost.slipper.fit, None, "rules", key=key, max_rounds=3, num_rounds=2),
        "networks": ensemble(boost, network(), max_rounds=2, key=key),
        "hyperplanes": weighted(radius=3.0),
        "isotropic": weighted(kernel=jboost.kernels.isotropic_hyperplanes(4.0)),
        "central": weighted(kernel=jboost.kernels.central_hyperplanes()),
        "random_stumps": weighted(kernel=jboost.kernels.stumps([-3.0, -3.0], [3.0, 3.0])),
    }


def scores(model, given):
    """[m] scores of a model, or the bits [m, b] of a binarizer."""
    if isinstance(model, binarization.Binarizer):
        return np.asarray(binarization.apply(model, given))
    return np.asarray(jboost.predict_scores(model, given))


def write(folder):
    """A file for each model, and one of their scores."""
    expected = {}
    for name, model in models().items():
        jboost.files.save(model, folder / f"{name}.npz", metadata={"name": name})
        expected[name] = scores(model, features(name))
    np.savez_compressed(folder / "scores.npz", **expected)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
