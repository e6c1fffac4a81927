"""SLIPPER against a plain NumPy one in float64, which is told the splits and nothing else."""

import csv
import functools
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jboost
from jboost import slipper
from jboost.base.status import Status
from jboost.base.types import Dataset, make_dataset
from jboost.data import binarization

NUM_SETS, NUM_EXAMPLES, NUM_ATTRIBUTES, NUM_ROUNDS = 80, 40, 6, 12
CLOSE = 2e-4  # relative, between float32 and float64 over all rounds
PAPERS = Path(__file__).parents[2] / "shared" / "data" / "papers"
RULES = slipper.rules(4)


def make_sets(seed):
    """Random sets: noisy conjunctions, missing values, garbage in the padding, weights that never
    tie.
    """
    rng = np.random.default_rng(seed)
    shape = (NUM_SETS, NUM_EXAMPLES)
    features = rng.choice([0.0, 1.0, np.nan], (*shape, NUM_ATTRIBUTES), p=[0.4, 0.55, 0.05]).astype(
        np.float32
    )
    truth = (features[..., 0] == 1) & (features[..., 1] == 0) | (features[..., 2] == 1) & (
        features[..., 3] == 1
    ) & (features[..., 4] == 1)
    noisy = rng.random(shape) < rng.choice([0.0, 0.1, 0.3], (NUM_SETS, 1))
    labels = np.where(truth ^ noisy, 1, -1)
    labels[::2] *= -1
    labels[10::40] = 1
    labels[11::40] = -1
    weights = rng.uniform(0.5, 2.0, shape).astype(np.float32)
    mask = rng.random(shape) < rng.choice([0.5, 1.0], (NUM_SETS, 1))
    mask[:, 0] = True
    features[~mask] = rng.choice([np.nan, np.inf, 0.3, 1.0], features.shape)[~mask]
    labels = np.where(mask, labels, 7)
    weights[~mask] = -1.0
    return Dataset(*(jnp.asarray(part) for part in (features, labels, weights, mask)))


SETS = make_sets(1)


class Replay(NamedTuple):
    fitted: jboost.boosting.Fit
    is_grown: jax.Array  # [T, m] the splits
    scores: jax.Array  # [m]


@functools.cache
def replayed(learner):
    """A compiled run over a batch, round by round, with the splits."""

    def one(dataset, key):
        state = slipper.init(dataset, learner, key=key, max_rounds=NUM_ROUNDS)

        def one_round(state, _):
            state, _ = slipper.step(state, dataset)
            return state, state.learner.is_grown

        state, is_grown = lax.scan(one_round, state, length=NUM_ROUNDS)
        fitted = slipper.finish(state)
        return Replay(fitted, is_grown, jboost.predict_scores(fitted.ensemble, dataset.features))

    return jax.jit(jax.vmap(one))


def keys(size=NUM_SETS):
    return jax.random.split(jax.random.key(3), size)


@functools.cache
def replay():
    return jax.tree.map(np.asarray, replayed(RULES)(SETS, keys()))


def of(tree, g):
    return jax.tree.map(lambda leaf: leaf[g], tree)


# --- the oracle


def meets(features, literal):
    attribute, value = literal
    return features[:, attribute] == value


def covers(features, conjunction):
    inside = np.ones(len(features), bool)
    for literal in conjunction:
        inside &= meets(features, literal)
    return inside


def z_tilde(right, wrong):
    return np.sqrt(right) - np.sqrt(wrong)


def confidence_of(right, wrong, m):
    return 0.5 * np.log((right + 0.5 / m) / (wrong + 0.5 / m))


def plain_slipper(features, labels, weights, splits, *, max_order, positive="minority"):
    """The whole algorithm on unpadded rows: {conjunction: confidence}, the product of the
    normalisers, and the rules round by round.
    """
    m = len(labels)
    d = weights / weights.sum()
    if positive == "minority":
        positive = -1 if d @ labels > 1e-9 else 1
    is_positive = labels == positive
    every = [(attribute, value) for value in (1, 0) for attribute in range(features.shape[1])]
    votes, product, history = {}, 1.0, []

    def weight(inside, positives, among):
        return d[inside & (is_positive == positives) & among].sum()

    for grown in splits:
        conjunction = []
        while len(conjunction) < max_order:
            inside = covers(features, conjunction)
            now = z_tilde(weight(inside, True, grown), weight(inside, False, grown))
            candidates = []
            for literal in every:
                more = inside & meets(features, literal)
                right, wrong = weight(more, True, grown), weight(more, False, grown)
                candidates.append(z_tilde(right, wrong) if right + wrong > 0 else -np.inf)
            best = int(np.argmax(candidates))
            if candidates[best] <= now:
                break
            conjunction.append(every[best])
        losses = []
        for length in range(len(conjunction) + 1):
            inside = covers(features, conjunction[:length])
            vote = confidence_of(weight(inside, True, grown), weight(inside, False, grown), m)
            v_right, v_wrong = weight(inside, True, ~grown), weight(inside, False, ~grown)
            losses.append(
                (1 - v_right - v_wrong) + v_right * np.exp(-vote) + v_wrong * np.exp(vote)
            )
        # the 1 in the formula blurs ties: the shortest is meant
        close = np.array(losses) <= min(losses) + 1e-15
        conjunction = conjunction[: int(np.argmax(close))]
        whole = np.ones(m, bool)
        inside = covers(features, conjunction)
        advantage = z_tilde(weight(inside, True, whole), weight(inside, False, whole))
        default = z_tilde(weight(whole, True, whole), weight(whole, False, whole))
        if advantage <= 0 or 1 - advantage**2 > 1 - default**2:
            conjunction, inside = [], whole
        vote = confidence_of(weight(inside, True, whole), weight(inside, False, whole), m)
        name = tuple(sorted(conjunction))
        votes[name] = votes.get(name, 0.0) + vote * positive
        history.append((name, vote))
        d = np.where(inside, d * np.exp(-vote * np.where(is_positive, 1, -1)), d)
        product *= d.sum()
        d = d / d.sum()
    return votes, product, history


def game(g):
    """One set without its padding, in float64."""
    features, labels, weights, mask = (np.asarray(leaf[g]) for leaf in SETS)
    return features[mask].astype(np.float64), labels[mask], weights[mask].astype(np.float64), mask


def votes_of(ensemble):
    """{conjunction: vote} of an ensemble."""
    found = {}
    for slot in range(int(ensemble.count)):
        literals = np.asarray(ensemble.hypotheses.literals[slot])
        name = tuple(
            sorted((int(place), int(literals[place] > 0)) for place in np.flatnonzero(literals))
        )
        assert name not in found
        assert ensemble.votes[slot, 0] == ensemble.votes[slot, 1]
        found[name] = float(ensemble.votes[slot, 0])
    assert not np.any(ensemble.votes[int(ensemble.count) :])
    return found


def same_votes(found, wanted, atol=CLOSE):
    assert set(found) == set(wanted)
    for name, vote in wanted.items():
        np.testing.assert_allclose(found[name], vote, rtol=CLOSE, atol=atol)


@pytest.mark.slow
def test_the_oracle_agrees():
    result = replay()
    num_rules = num_long = num_merged = num_default = 0
    for g in range(NUM_SETS):
        fitted = of(result.fitted, g)
        features, labels, weights, mask = game(g)
        splits = result.is_grown[g][:, mask]
        votes, product, history = plain_slipper(features, labels, weights, splits, max_order=4)
        same_votes(votes_of(fitted.ensemble), votes)
        np.testing.assert_allclose(fitted.certificate.upper_bound, product, rtol=CLOSE)
        scores = np.array(
            [
                sum(vote for name, vote in votes.items() if covers(row[None], name)[0])
                for row in features
            ]
        )
        np.testing.assert_allclose(result.scores[g][mask], scores, atol=1e-3)
        num_rules += len(votes)
        num_long += sum(len(name) >= 2 for name in votes)
        num_merged += len(history) - len(votes)
        num_default += sum(name == () for name, _ in history)
    assert num_rules > 200
    assert num_long > 100
    assert num_merged > 100
    assert num_default > 100


@pytest.mark.slow
def test_the_oracle_agrees_in_64_bits(x64):
    with jax.enable_x64(True):
        part = jax.tree.map(lambda leaf: leaf[:20], SETS)
        result = jax.tree.map(np.asarray, replayed(slipper.rules(2, positive=1))(part, keys(20)))
        assert result.fitted.certificate.upper_bound.dtype == np.float64
        for g in range(20):
            features, labels, weights, mask = game(g)
            votes, product, _ = plain_slipper(
                features, labels, weights, result.is_grown[g][:, mask], max_order=2, positive=1
            )
            same_votes(votes_of(of(result.fitted.ensemble, g)), votes, atol=1e-9)
            np.testing.assert_allclose(result.fitted.certificate.upper_bound[g], product, rtol=1e-9)


@pytest.mark.slow
def test_the_training_error_is_bounded():
    result = replay()
    assert (result.fitted.certificate.lower_bound <= result.fitted.certificate.upper_bound).all()
    assert (result.fitted.status == Status.ROUND_LIMIT).all()
    assert (np.diff(result.fitted.trace.upper_bounds, axis=1) < 1e-5).all()
    for g in range(NUM_SETS):
        features, labels, weights, _ = game(g)
        found = votes_of(of(result.fitted.ensemble, g))
        scores = sum(vote * covers(features, name) for name, vote in found.items())
        share = weights / weights.sum()
        assert share @ np.exp(-labels * scores) <= result.fitted.certificate.upper_bound[g]
        surely_wrong = share[labels * scores < -1e-4].sum()
        assert (
            surely_wrong - 1e-6
            <= result.fitted.certificate.lower_bound[g]
            <= result.fitted.certificate.upper_bound[g]
        )


@pytest.mark.slow
def test_rules_speak_for_the_positive_class():
    result = replay()
    for g in range(NUM_SETS):
        _, labels, weights, _ = game(g)
        minority = -1 if weights @ labels > 0 else 1
        assert all(
            vote * minority > 0
            for name, vote in votes_of(of(result.fitted.ensemble, g)).items()
            if name
        )


@pytest.mark.slow
def test_splits_are_two_thirds_of_each_class():
    result = replay()
    for g in range(NUM_SETS):
        _, labels, weights, mask = game(g)
        assert not result.is_grown[g][:, ~mask].any()
        first = result.is_grown[g][0][mask]  # the first round is weighed as the user weighs
        for sign in (1, -1):
            own = labels == sign
            if own.any():
                share = weights[own & first].sum() / weights[own].sum()
                assert abs(share - 2 / 3) <= 0.5 * weights[own].max() / weights[own].sum() + 1e-6
        if mask.sum() > 20:
            assert len(np.unique(result.is_grown[g], axis=0)) == NUM_ROUNDS


@pytest.mark.slow
def test_fit_is_the_loop_and_a_batch_is_a_loop():
    result = replay()
    inside = jax.jit(
        lambda dataset, key: slipper.fit(
            dataset, RULES, key=key, max_rounds=NUM_ROUNDS, num_rounds=NUM_ROUNDS
        )
    )
    for g in range(12):
        alone = slipper.fit(
            of(SETS, g), RULES, key=keys()[g], max_rounds=NUM_ROUNDS, num_rounds=NUM_ROUNDS
        )
        jax.tree.map(np.testing.assert_array_equal, alone, inside(of(SETS, g), keys()[g]))
        batched = of(result.fitted, g)
        jax.tree.map(
            np.testing.assert_array_equal, alone.ensemble.hypotheses, batched.ensemble.hypotheses
        )
        for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(batched), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_padding_changes_nothing():
    result = replay()
    g = next(g for g in range(NUM_SETS) if 10 <= SETS.mask[g].sum() < NUM_EXAMPLES)
    clean = of(SETS, g)
    clean = clean._replace(
        features=jnp.where(clean.mask[:, None], clean.features, 0.0),
        labels=jnp.where(clean.mask, clean.labels, 1),
    )
    clean = clean._replace(weights=jnp.where(clean.mask, clean.weights, 1.0))
    first = slipper.fit(
        of(SETS, g), RULES, key=keys()[g], max_rounds=NUM_ROUNDS, num_rounds=NUM_ROUNDS
    )
    second = slipper.fit(clean, RULES, key=keys()[g], max_rounds=NUM_ROUNDS, num_rounds=NUM_ROUNDS)
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert not result.fitted.certificate.example_weights[g][~np.asarray(clean.mask)].any()

    size = 24
    dataset = of(SETS, int(np.flatnonzero(np.asarray(SETS.mask).all(axis=1))[0]))
    short = Dataset(*(leaf[:size] for leaf in dataset))
    longer = dataset._replace(mask=jnp.arange(NUM_EXAMPLES) < size)
    alone = slipper.fit(short, RULES, key=keys()[0], max_rounds=NUM_ROUNDS, num_rounds=NUM_ROUNDS)
    padded = slipper.fit(longer, RULES, key=keys()[0], max_rounds=NUM_ROUNDS, num_rounds=NUM_ROUNDS)
    same_votes(votes_of(padded.ensemble), votes_of(alone.ensemble))
    np.testing.assert_allclose(
        padded.certificate.upper_bound, alone.certificate.upper_bound, rtol=1e-5
    )


@pytest.mark.slow
def test_label_flip_and_scale_of_the_weights():
    for g in range(4):
        dataset = of(SETS, g)
        plain = slipper.fit(
            dataset,
            slipper.rules(4, positive=1),
            key=keys()[g],
            max_rounds=NUM_ROUNDS,
            num_rounds=NUM_ROUNDS,
        )
        flipped = slipper.fit(
            dataset._replace(labels=-dataset.labels),
            slipper.rules(4, positive=-1),
            key=keys()[g],
            max_rounds=NUM_ROUNDS,
            num_rounds=NUM_ROUNDS,
        )
        same_votes(
            {name: -vote for name, vote in votes_of(flipped.ensemble).items()},
            votes_of(plain.ensemble),
        )
        scaled = dataset._replace(weights=dataset.weights * 4)
        again = slipper.fit(
            scaled,
            slipper.rules(4, positive=1),
            key=keys()[g],
            max_rounds=NUM_ROUNDS,
            num_rounds=NUM_ROUNDS,
        )
        jax.tree.map(np.testing.assert_array_equal, again, plain)


# --- the number of rounds


@pytest.mark.slow
def test_rounds_are_those_of_least_held_out_error():
    g = next(g for g in range(2, NUM_SETS) if np.asarray(SETS.mask[g]).all())
    dataset, key = of(SETS, g), jax.random.key(8)
    chosen = slipper.choose_rounds(dataset, RULES, key=key, max_rounds=NUM_ROUNDS, num_folds=3)
    key_folds, key_fits = jax.random.split(key)
    held = jboost.folds.stratified_folds(key_folds, dataset.labels, num_folds=3, mask=dataset.mask)

    def predicted(is_held, key, num_rounds):
        part = dataset._replace(mask=dataset.mask & ~is_held)
        fitted = slipper.fit(part, RULES, key=key, max_rounds=NUM_ROUNDS, num_rounds=num_rounds)
        return jboost.predict(fitted.ensemble, dataset.features)

    over_rounds = jax.vmap(predicted, in_axes=(None, None, 0))
    answers = jax.jit(jax.vmap(over_rounds, in_axes=(0, 0, None)))(
        held, jax.random.split(key_fits, 3), jnp.arange(1, NUM_ROUNDS + 1)
    )
    weights = np.asarray(dataset.weights, np.float64)
    wrong = (np.asarray(answers) != np.asarray(dataset.labels)) & np.asarray(held)[:, None, :]
    errors = (wrong * weights).sum(axis=(0, 2)) / weights.sum()
    np.testing.assert_allclose(chosen.errors, errors, atol=1e-6)
    assert errors.std() > 0
    assert chosen.num_rounds == 1 + np.argmax(errors < errors.min() + 1e-6)
    assert chosen.status == Status.OPTIMAL

    fitted = slipper.fit(dataset, RULES, key=key, max_rounds=NUM_ROUNDS, num_folds=3)
    key_choice, key_fit = jax.random.split(key)
    inner = slipper.choose_rounds(
        dataset, RULES, key=key_choice, max_rounds=NUM_ROUNDS, num_folds=3
    )
    assert fitted.num_rounds == inner.num_rounds
    by_hand = slipper.fit(
        dataset, RULES, key=key_fit, max_rounds=NUM_ROUNDS, num_rounds=inner.num_rounds
    )
    jax.tree.map(np.testing.assert_array_equal, fitted, by_hand)


@pytest.mark.slow
def test_choice_of_rounds_by_steps_is_that_of_the_one_program_and_may_end_early():
    dataset, options = of(SETS, 2), {"key": jax.random.key(8), "num_folds": 3}
    options |= {"max_rounds": NUM_ROUNDS}
    seen = []
    whole = slipper.choose_rounds(dataset, RULES, **options)
    watched = slipper.choose_rounds(
        dataset, RULES, on_step=lambda *step: seen.append(step), **options
    )
    numbers = range(1, NUM_ROUNDS + 1)
    assert [(state.num_done, info) for state, info in seen] == [
        (number, (number, NUM_ROUNDS)) for number in numbers
    ]
    np.testing.assert_allclose(watched.errors, whole.errors, atol=1e-6)
    assert watched.errors[watched.num_rounds - 1] <= whole.errors.min() + 1e-6
    assert (watched.status, watched.errors.dtype) == (whole.status, whole.errors.dtype)
    ended = slipper.choose_rounds(dataset, RULES, on_step=lambda _, done: done[0] < 3, **options)
    np.testing.assert_array_equal(ended.errors[:3], watched.errors[:3])
    assert np.isnan(ended.errors[3:]).all()
    assert ended.num_rounds == 1 + np.argmin(watched.errors[:3])
    assert ended.status == Status.TIME_LIMIT
    with pytest.raises(ValueError, match="on_step is called on the host, between rounds"):
        jax.jit(lambda data: slipper.choose_rounds(data, on_step=print, **options))(dataset)


@pytest.mark.slow
def test_a_batch_of_whole_fits():
    part = jax.tree.map(lambda leaf: leaf[:6], SETS)
    fits = jax.jit(
        jax.vmap(
            lambda dataset, key: slipper.fit(
                dataset, RULES, key=key, max_rounds=NUM_ROUNDS, num_folds=3
            )
        )
    )(part, keys(6))
    assert len(np.unique(fits.num_rounds)) > 1
    for g in range(6):
        alone = slipper.fit(of(SETS, g), RULES, key=keys(6)[g], max_rounds=NUM_ROUNDS, num_folds=3)
        assert alone.num_rounds == fits.num_rounds[g]
        same_votes(votes_of(of(fits.ensemble, g)), votes_of(alone.ensemble))


# --- what is degenerate


def no_nan(tree):
    return not any(np.isnan(leaf).any() for leaf in jax.tree.leaves(tree) if leaf.dtype.kind == "f")


ROWS = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 0]] * 3, np.float32)
SIGNS = np.array([1, 1, -1, -1] * 3, np.float32)
FIT = functools.partial(slipper.fit, key=jax.random.key(1), max_rounds=6, num_folds=3)


def check_degenerate(dataset, fitted, error):
    assert fitted.status == Status.ROUND_LIMIT
    assert no_nan(fitted._replace(trace=()))
    assert fitted.certificate.lower_bound <= fitted.certificate.upper_bound
    mask = np.asarray(dataset.mask)
    found = np.mean(
        (
            np.asarray(jboost.predict(fitted.ensemble, dataset.features))
            != np.asarray(dataset.labels)
        )[mask]
    )
    assert found <= fitted.certificate.upper_bound
    if error is not None:
        np.testing.assert_allclose(found, error, atol=1e-6)
    if error == 0.5:
        assert int(fitted.ensemble.count) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "features, labels, size, error",
    [
        (ROWS, np.abs(SIGNS), 12, 0.0),
        (ROWS, -np.abs(SIGNS), 12, 0.0),
        (ROWS, SIGNS, 1, 0.0),
        (ROWS[::-1], SIGNS[::-1], 1, 0.0),
        (ROWS[::-2], SIGNS[::-2], 2, None),
        (np.ones_like(ROWS), SIGNS, 12, 0.5),
        (np.full_like(ROWS, np.nan), SIGNS, 12, 0.5),
        (
            np.repeat(ROWS[:1], 12, axis=0),
            np.where(np.arange(12) < 4, 1.0, -1.0).astype(np.float32),
            12,
            1 / 3,
        ),
    ],
)
def test_degenerate_sets(features, labels, size, error):
    features, labels = np.resize(features, ROWS.shape), np.resize(labels, SIGNS.shape)
    dataset = make_dataset(features, labels, mask=np.arange(12) < size)
    check_degenerate(dataset, FIT(dataset), error)


@pytest.mark.slow
@pytest.mark.parametrize(
    "features, labels, error",
    [(ROWS[:1], SIGNS[:1], 0.0), (np.zeros((12, 0), np.float32), SIGNS, 0.5)],
)
def test_degenerate_shapes(features, labels, error):
    dataset = make_dataset(features, labels)
    check_degenerate(dataset, FIT(dataset), error)


@pytest.mark.slow
def test_no_example_is_invalid_input():
    for dataset in (
        make_dataset(np.zeros((0, 3), np.float32), np.zeros(0, np.float32)),
        make_dataset(ROWS, SIGNS, mask=np.zeros(12, bool)),
    ):
        fitted = FIT(dataset)
        assert fitted.status == Status.INVALID_INPUT
        assert fitted.num_rounds == fitted.ensemble.count == 0
        assert (
            slipper.choose_rounds(dataset, key=jax.random.key(1), max_rounds=6, num_folds=3).status
            == Status.INVALID_INPUT
        )


@pytest.mark.slow
def test_bad_values_end_in_invalid_input():
    def change(**fields):
        dataset = make_dataset(ROWS, SIGNS)
        return dataset._replace(
            **{name: getattr(dataset, name).at[1].set(value) for name, value in fields.items()}
        )

    traced, choose = (
        jax.jit(FIT),
        jax.jit(
            functools.partial(
                slipper.choose_rounds, key=jax.random.key(1), max_rounds=6, num_folds=3
            )
        ),
    )
    for dataset in (
        change(labels=0.0),
        change(labels=2.0),
        change(weights=-1.0),
        change(weights=np.nan),
    ):
        assert traced(dataset).status == Status.INVALID_INPUT
        assert choose(dataset).status == Status.INVALID_INPUT
    for value in (0.5, np.inf):
        assert traced(change(features=value)).status == Status.INVALID_INPUT
        for learn in (
            FIT,
            lambda dataset: slipper.choose_rounds(
                dataset, key=jax.random.key(1), max_rounds=6, num_folds=3
            ),
        ):
            with pytest.raises(
                ValueError,
                match=(
                    r"features\[1, 0\] is .*: expected 0 or 1 of rules; jboost.data.binarization"
                    r" makes such"
                ),
            ):
                learn(change(features=value))
    assert FIT(change(features=np.nan)).status == Status.ROUND_LIMIT
    assert FIT(change()).status == Status.ROUND_LIMIT


@pytest.mark.slow
def test_bad_arguments_are_named():
    dataset, key = make_dataset(ROWS, SIGNS), jax.random.key(0)
    for make, message in (
        (lambda: slipper.rules(-1), "max_order is -1"),
        (lambda: slipper.rules(positive=0), "positive is 0"),
        (lambda: slipper.rules(positive="majority"), "positive is 'majority'"),
        (lambda: slipper.fit(dataset), "key is None"),
        (lambda: slipper.init(dataset), "key is None"),
        (lambda: slipper.choose_rounds(dataset, key=None), "key is None"),
        (lambda: slipper.fit(dataset, key=key, max_rounds=0), "max_rounds is 0"),
        (lambda: slipper.init(dataset, key=key, max_rounds=0), "max_rounds is 0"),
        (lambda: slipper.fit(dataset, key=key, num_folds=1), "num_folds is 1"),
        (lambda: slipper.choose_rounds(dataset, key=key, num_folds=1), "num_folds is 1"),
        (lambda: slipper.fit(dataset, key=key, max_rounds=5, num_rounds=6), "num_rounds is 6"),
        (lambda: slipper.fit(dataset, key=key, num_rounds=0), "num_rounds is 0"),
        (
            lambda: slipper.fit(dataset, key=key, num_rounds=2.5),
            "num_rounds is 2.5: expected a whole number",
        ),
        (lambda: slipper.fit(dataset, "rules", key=key), "learner"),
        (
            lambda: RULES.propose(
                RULES.init(key, dataset), jnp.full(12, 1 / 12), costs=jnp.zeros(3)
            ),
            "costs is not None",
        ),
        (
            lambda: jax.jit(lambda d: slipper.fit(d, key=key, num_rounds=2, on_step=print))(
                dataset
            ),
            "on_step",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()


# --- the rest of the house


@pytest.mark.slow
def test_rules_in_words_and_in_files(tmp_path):
    features = np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 0]] * 8, np.float32)
    labels = np.where((features[:, 0] == 1) & (features[:, 1] == 0), 1, -1)
    fitted = slipper.fit(make_dataset(features, labels), key=jax.random.key(0), max_rounds=20)
    lines = jboost.ensemble.describe(fitted.ensemble, ["a", "b", "c"]).splitlines()
    assert any(line.endswith("[a and not b]") for line in lines)
    assert len(lines) == fitted.ensemble.count
    assert (jboost.predict(fitted.ensemble, features) == labels).all()
    path = tmp_path / "rules.npz"
    jboost.files.save(fitted.ensemble, path)
    loaded = jboost.files.load(path)
    assert loaded.learner == fitted.ensemble.learner == slipper.rules()
    np.testing.assert_array_equal(
        jboost.predict_scores(loaded, features), jboost.predict_scores(fitted.ensemble, features)
    )


@pytest.mark.slow
def test_the_host_may_watch_and_stop():
    dataset, seen = of(SETS, 2), []

    def on_step(state, info):
        seen.append(int(info.num_rounds))
        return len(seen) < 3

    stopped = slipper.fit(
        dataset, RULES, key=keys()[2], max_rounds=NUM_ROUNDS, num_rounds=NUM_ROUNDS, on_step=on_step
    )
    assert seen == [1, 2, 3]
    assert stopped.status == Status.TIME_LIMIT
    whole = slipper.fit(dataset, RULES, key=keys()[2], max_rounds=NUM_ROUNDS, num_rounds=3)
    jax.tree.map(
        np.testing.assert_array_equal, stopped._replace(status=0), whole._replace(status=0)
    )


@pytest.mark.slow
def test_another_learner():
    labels = np.where((ROWS[:, 0] == 1) ^ (np.arange(12) == 5), 1.0, -1.0).astype(np.float32)
    fitted = slipper.fit(
        make_dataset(ROWS, labels),
        jboost.learners.literals(),
        key=jax.random.key(0),
        max_rounds=6,
        num_rounds=1,
    )
    np.testing.assert_allclose(
        fitted.ensemble.votes[0], confidence_of(11 / 12, 1 / 12, 12), rtol=1e-5
    )
    wrong = np.mean(np.asarray(jboost.predict(fitted.ensemble, ROWS)) != labels)
    assert fitted.certificate.lower_bound <= wrong <= fitted.certificate.upper_bound


@pytest.mark.slow
def test_equal_calls_do_not_recompile(compilations):
    first, second = of(SETS, 0), of(SETS, 1)
    slipper.fit(first, slipper.rules(4), key=keys()[0], max_rounds=NUM_ROUNDS, num_folds=3)
    before = compilations()
    slipper.fit(second, slipper.rules(4), key=keys()[1], max_rounds=NUM_ROUNDS, num_folds=3)
    assert compilations() == before


# --- the data of the papers


def read_paper(name):
    with (PAPERS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    words = {"": np.nan, "y": 1.0, "n": 0.0}
    table = np.array(
        [[words[field] if field in words else float(field) for field in row] for row in rows]
    )
    return table[:, :-1], np.where(table[:, -1] > 0, 1, -1)


def cross_validated(name, *, seed=0, num_folds=10):
    """Accuracy, and rules of the ensembles, over stratified folds; bits are made of the training
    rows of each.
    """
    features, labels = read_paper(name)
    key_folds, *fold_keys = jax.random.split(jax.random.key(seed), num_folds + 1)
    held = np.asarray(jboost.folds.stratified_folds(key_folds, labels, num_folds=num_folds))
    bits = []
    for out in held:
        binarizer = binarization.fit(features, labels, mask=~out)
        bits.append(np.asarray(binarization.apply(binarizer, features), np.float32))
    width = max(one.shape[1] for one in bits)
    bits = np.stack(
        [np.pad(one, [(0, 0), (0, width - one.shape[1])], constant_values=np.nan) for one in bits]
    )

    def one_fold(bits, out, key):
        fitted = slipper.fit(make_dataset(bits, labels, mask=~out), key=key)
        return jboost.predict(fitted.ensemble, bits), fitted.ensemble.count, fitted.num_rounds

    answers, counts, rounds = jax.jit(jax.vmap(one_fold))(bits, held, jnp.stack(fold_keys))
    return np.mean((np.asarray(answers) == labels)[held]), np.mean(counts), np.mean(rounds)


@pytest.mark.slow
@pytest.mark.skipif(not PAPERS.is_dir(), reason="the data sets of the papers are not here")
@pytest.mark.parametrize("name, published", [("BCW", 0.958), ("VOTE", 0.952)])
def test_accuracy_is_near_the_published_one(name, published):
    accuracy, num_rules, _ = cross_validated(name)
    assert abs(accuracy - published) < 0.02
    assert 1 < num_rules < 40
