"""The choice of the penalty on one split and on given folds, against fits of the parts."""

import functools

import jax
import numpy as np
import pytest

import jboost
from jboost import example_weights

SIZE, RADIUS = 24, 5.0
RNG = np.random.default_rng(8)
LABELS = np.where(np.arange(SIZE) % 2 == 0, 1, -1)
POINTS = (RNG.normal(size=(SIZE, 2)) + 0.6 * LABELS[:, None]).astype(np.float32)
PENALTIES = np.array([0.05, 0.1, 0.3, 1.0], np.float32)
MASK = np.arange(SIZE) < 22
SPLIT = np.arange(SIZE) % 4 < 2


@functools.cache
def wrong_of(fold):
    """The held-out examples that fits of the others get wrong, for each penalty."""
    held_out = np.array(fold)
    centre = POINTS[MASK].mean(axis=0)

    def fit(penalty):
        return example_weights.fit(
            POINTS, LABELS, mask=MASK & ~held_out, penalty=penalty, radius=RADIUS, centre=centre
        )

    models = jax.jit(jax.vmap(fit))(PENALTIES)
    predicted = np.asarray(jax.vmap(lambda model: jboost.predict(model, POINTS))(models))
    return (predicted != LABELS)[:, MASK & held_out].sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("folds", [SPLIT, np.stack([SPLIT, ~SPLIT])], ids=["split", "folds"])
def test_the_penalty_of_a_split_is_that_of_fits_of_its_parts(folds):
    choice = example_weights.choose_penalty(
        POINTS, LABELS, mask=MASK, penalties=PENALTIES, radius=RADIUS, held_out=folds
    )
    rows = folds.reshape(-1, SIZE)
    sizes = (rows & MASK).sum(axis=1)
    assert choice.fold_losses.shape == (len(rows), 4)
    # 0.05 is below 1 over the examples that are left, so that it is never chosen.
    assert choice.losses[0] == np.inf
    for fold, size, losses in zip(rows, sizes, np.asarray(choice.fold_losses), strict=True):
        # A score may be as good as 0.
        assert np.abs(losses[1:] * size - wrong_of(tuple(fold))[1:]).max() <= 1
    weighted = (np.asarray(choice.fold_losses) * sizes[:, None])[:, 1:].sum(axis=0) / sizes.sum()
    np.testing.assert_allclose(choice.losses[1:], weighted, rtol=1e-5)
    best = np.asarray(choice.losses).min()
    assert choice.penalty == PENALTIES[np.asarray(choice.losses) == best].min()


@pytest.mark.parametrize(
    "changed, text",
    [
        ({}, "key is None: pass a random key for the folds.*or a split as held_out"),
        ({"held_out": np.zeros(SIZE, bool)}, "held_out is False for all examples"),
        ({"held_out": ~MASK}, "held_out is False for all examples"),
        ({"held_out": np.ones((2, SIZE), bool)}, "held_out is True for all examples of a fold"),
        ({"held_out": MASK}, "held_out is True for all examples of a fold"),
        ({"held_out": SPLIT[:5]}, "held_out"),
        ({"held_out": SPLIT * 0.5}, "held_out"),
    ],
)
def test_bad_splits_are_named(changed, text):
    with pytest.raises(ValueError, match=text):
        example_weights.choose_penalty(
            POINTS, LABELS, mask=MASK, penalties=PENALTIES, radius=RADIUS, **changed
        )
