"""L0-RBoost over many margins and prices: paths against single fits, the search (25) against a grid
by HiGHS, the choice against its own folds.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_booster import MAX_ORDER, TOLERANCE, every_monomial, mdl_costs

import jboost
from jboost.base.status import Status
from jboost.l0.path import MarginSearch, _intervals
from oracles import l0 as oracle

KAPPA = 0.3
MARGINS = [0.05, 0.2, 0.5, 1.0]


def problem(seed=0, num_examples=24, num_attributes=4):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 2, (num_examples, num_attributes)).astype(np.float32)
    labels = np.where(
        ((features[:, 0] == 1) & (features[:, 1] == 0)) ^ (rng.random(num_examples) < 0.1),
        1.0,
        -1.0,
    )
    return features, labels


def learner_of(kappa):
    return jboost.learners.monomials(MAX_ORDER, kappa=kappa, num_proposed=2)


def optima(features, labels, margins):
    """z of the relaxation over all monomials, at each margin."""
    outputs, cost = every_monomial(
        features, MAX_ORDER, mdl_costs(features.shape[1], len(labels), MAX_ORDER, KAPPA)
    )
    return np.array([oracle.optimum(outputs, labels, cost, margin) for margin in margins])


@pytest.mark.slow
def test_a_path_has_bounds_at_every_margin():
    features, labels = problem()
    dataset = jboost.make_dataset(features, labels)
    fits = jboost.l0.path(dataset, learner_of(KAPPA), MARGINS, max_rounds=80, tolerance=TOLERANCE)
    assert np.all(np.asarray(fits.status) == 0)
    wanted = optima(features, labels, MARGINS)
    assert np.all(np.asarray(fits.certificate.lower_bound) <= wanted + 1e-6)
    assert np.all(np.asarray(fits.certificate.upper_bound) >= wanted - 1e-6)
    np.testing.assert_allclose(fits.certificate.upper_bound, wanted, rtol=2e-3)
    assert np.all(
        np.asarray(fits.certificate.integer_lower_bound)
        <= np.asarray(fits.certificate.integer_upper_bound)
    )
    assert np.all(
        np.isfinite(np.asarray(fits.trace.edges)).sum(axis=1) == np.asarray(fits.num_rounds)
    )


@pytest.mark.slow
def test_the_search_for_the_margin_bounds_the_best_of_a_grid():
    features, labels = problem(1)
    dataset = jboost.make_dataset(features, labels)
    grid = np.linspace(0.02, 1.0, 50)
    relaxed = optima(features, labels, grid)
    for penalty in (0.02, 0.2):
        found = jboost.l0.search_margin(
            dataset,
            learner_of(KAPPA),
            penalty=penalty,
            margin_tolerance=0.02,
            max_rounds=40,
            tolerance=TOLERANCE,
        )
        assert int(found.status) == 0
        assert float(found.upper_bound) - float(found.lower_bound) <= 0.02
        best = np.max(grid - penalty * relaxed)
        assert best <= float(found.upper_bound) + 1e-6
        assert best >= float(found.lower_bound) - 0.02 - 1e-6
        tried = int(found.num_margins)
        there = optima(features, labels, [float(found.margin), *np.asarray(found.margins)[:tried]])
        assert float(found.lower_bound) <= float(found.margin) - penalty * there[0] + 1e-5
        assert np.all(np.asarray(found.relaxation_lower_bounds)[:tried] <= there[1:] + 1e-5)
        assert np.all(np.asarray(found.relaxation_upper_bounds)[:tried] >= there[1:] - 1e-5)
        assert np.all(np.isinf(np.asarray(found.margins)[tried:]))
    with pytest.raises(ValueError, match="least_margin is 0"):
        jboost.l0.search_margin(dataset, learner_of(KAPPA), penalty=0.1, least_margin=0.0)
    few = jboost.l0.search_margin(
        dataset,
        learner_of(KAPPA),
        penalty=0.02,
        margin_tolerance=1e-4,
        max_margins=2,
        max_rounds=40,
    )
    assert jboost.status.Status(int(few.status)).name == "ITERATION_LIMIT"
    assert float(few.lower_bound) <= np.max(grid - 0.02 * relaxed) <= float(few.upper_bound)


def test_promises_of_any_penalty_are_numbers():
    """Where z is 3 or more from a margin of 0.5 on, nothing from there is worth more than 1 - 3
    penalty, however much that is.
    """
    tried, floors = jnp.array([0.5, jnp.inf], jnp.float32), jnp.array([3.0, 0.0], jnp.float32)
    search = MarginSearch(None, *jnp.zeros(3), tried, floors, tried, jnp.int32(1), jnp.int32(0))
    for penalty in (0.1, 1e30, 2e38, float(jnp.finfo(jnp.float32).max)):
        promises = np.asarray(_intervals(search, jnp.float32(penalty))[1], np.float64)
        assert (
            1 - 3 * float(np.float32(penalty))
            <= promises[0]
            <= max(1 - 3 * penalty * (1 - 1e-6), -3.4e38) + 1e-6
        )
        assert promises[1] == -np.inf


@pytest.mark.slow
def test_the_choice_has_the_least_error_on_its_own_folds():
    features, labels = problem(2, 40)
    dataset, key = (
        jboost.make_dataset(features, labels, weights=np.arange(1, 41)),
        jax.random.key(3),
    )
    margins, kappas, searches = (
        [0.1, 0.5],
        [0.1, 3.0],
        (jboost.l0.SearchConfig(), jboost.l0.RelaxedConfig(2)),
    )
    options = {
        "margins": margins,
        "kappas": kappas,
        "key": key,
        "num_folds": 2,
        "max_rounds": 20,
        "search": searches,
    }
    chosen = jboost.l0.choose(dataset, learner_of, **options)
    held_out = np.asarray(jboost.folds.stratified_folds(key, labels, num_folds=2))
    weights = np.arange(1, 41.0)
    errors = np.zeros((2, 2, 2, 2))  # fold, kappa, margin, search
    for number, fold in enumerate(held_out):
        part = dataset._replace(mask=jnp.asarray(~fold))
        for row, kappa in enumerate(kappas):
            for place, search in enumerate(searches):
                fits = jboost.l0.path(
                    part,
                    learner_of(kappa),
                    margins,
                    max_rounds=40,
                    bound_integer=False,
                    search=search,
                )
                for column in range(2):
                    ensemble = jax.tree.map(lambda leaf, column=column: leaf[column], fits.ensemble)
                    wrong = np.asarray(jboost.predict(ensemble, features)) != labels
                    errors[number, row, column, place] = (weights * wrong)[fold].sum() / weights[
                        fold
                    ].sum()
    mean = errors.mean(axis=0)
    np.testing.assert_allclose(chosen.errors, mean, atol=1e-6)
    np.testing.assert_allclose(
        chosen.standard_errors, errors.std(axis=0, ddof=1) / np.sqrt(2), atol=1e-6
    )
    least = np.argwhere(mean <= mean.min() + 1e-9).tolist()
    best = max((kappas[row], margins[column], -place) for row, column, place in least)
    assert (float(chosen.kappa), float(chosen.margin), -int(chosen.place[2])) == pytest.approx(best)
    seen = []
    watched = jboost.l0.choose(
        dataset,
        learner_of,
        **options,
        on_step=lambda state, progress: seen.append((state, progress)),
    )
    assert [progress for _, progress in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [np.isnan(state.errors).sum() for state, _ in seen] == [12, 8, 4, 0]
    np.testing.assert_allclose(
        np.stack([state.errors[divmod(i, 2)] for i, (state, _) in enumerate(seen)]).reshape(
            2, 2, 2, 2
        ),
        np.moveaxis(errors, 0, 1),
        atol=1e-6,
    )
    np.testing.assert_array_equal(watched.place, chosen.place)
    again = jboost.l0.fit(
        dataset,
        learner_of(best[0]),
        margin=best[1],
        max_rounds=20,
        bound_integer=False,
        search=searches[-best[2]],
    )
    np.testing.assert_array_equal(
        jboost.predict(chosen.fit.ensemble, features), jboost.predict(again.ensemble, features)
    )
    assert int(chosen.status) == 0
    assert chosen.fit.certificate.integer_lower_bound > 0


def learner_of_gaps(kappa):
    return jboost.learners.monomials(
        1, kappa=kappa, config=jboost.monomials.SearchConfig(missing=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, np.nan])
def test_each_fold_may_know_the_rows_by_features_of_its_own(gap):
    """The errors are those of paths walked by hand; NaN may stand where nothing is left."""
    features = np.random.default_rng(4).integers(0, 2, (36, 4)).astype(np.float32)
    labels = 2 * features[:, 0] - 1
    folds = np.arange(len(labels)) % 3 == np.arange(3)[:, None]
    # the first alone sees what decides
    own = np.stack([features[:, (0, 1)], features[:, (1, 2)], features[:, (2, 3)]])
    own = np.where(folds[:, :, None], own + gap, own)
    dataset, margins = jboost.make_dataset(features, labels), [0.1, 0.3]
    options = {
        "margins": margins,
        "kappas": [0.3],
        "key": jax.random.key(0),
        "max_rounds": 12,
        "held_out": folds,
    }
    chosen = jboost.l0.choose(dataset, learner_of_gaps, **options, fold_features=own)
    errors = np.empty((3, 2))
    for number, fold in enumerate(folds):
        rows = jboost.make_dataset(own[number], labels, mask=~fold)
        fits = jboost.l0.path(
            rows, learner_of_gaps(0.3), margins, max_rounds=24, bound_integer=False
        )
        for column in range(2):
            ensemble = jax.tree.map(lambda leaf, column=column: leaf[column], fits.ensemble)
            errors[number, column] = (np.asarray(jboost.predict(ensemble, own[number])) != labels)[
                fold
            ].mean()
    np.testing.assert_allclose(chosen.errors[0, :, 0], errors.mean(axis=0), atol=1e-6)
    watched = jboost.l0.choose(
        dataset, learner_of_gaps, **options, fold_features=own, on_step=lambda *_: True
    )
    np.testing.assert_allclose(watched.errors, chosen.errors, atol=1e-6)
    whole = jboost.l0.choose(dataset, learner_of_gaps, **options)
    same = jboost.l0.choose(
        dataset, learner_of_gaps, **options, fold_features=np.stack([features] * 3)
    )
    np.testing.assert_array_equal(same.errors, whole.errors)
    assert not np.allclose(whole.errors, chosen.errors, atol=1e-3)


@pytest.mark.slow
def test_choose_validates_features_of_folds():
    features, labels = problem()
    dataset = jboost.make_dataset(features, labels)
    folds = np.arange(len(labels)) % 2 == np.arange(2)[:, None]
    options = {"margins": [0.1], "kappas": [1.0], "key": jax.random.key(0)}
    with pytest.raises(ValueError, match="fold_features is given but held_out is None"):
        jboost.l0.choose(dataset, learner_of, **options, fold_features=np.stack([features] * 2))
    with pytest.raises(ValueError, match=r"fold_features has shape \[3, "):
        jboost.l0.choose(
            dataset, learner_of, **options, held_out=folds, fold_features=np.stack([features] * 3)
        )
    wrong = np.stack([features] * 2)
    wrong[1, :, 2] = 0.5
    with pytest.raises(
        ValueError, match=r"fold_features\[1\]: features\[\d+, 2\] is 0.5: expected 0 or 1"
    ):
        jboost.l0.choose(dataset, learner_of, **options, held_out=folds, fold_features=wrong)


def test_path_search_margin_and_choose_validate_arguments():
    features, labels = problem()
    dataset, learner = jboost.make_dataset(features, labels), learner_of(KAPPA)
    with pytest.raises(ValueError, match="margins is empty"):
        jboost.l0.path(dataset, learner, [])
    with pytest.raises(ValueError, match=r"margins\[1\] is 2"):
        jboost.l0.path(dataset, learner, [0.5, 2.0])
    with pytest.raises(ValueError, match="penalty is 0"):
        jboost.l0.search_margin(dataset, learner, penalty=0.0)
    with pytest.raises(ValueError, match="penalty is inf"):
        jboost.l0.search_margin(dataset, learner, penalty=np.inf)
    with pytest.raises(ValueError, match=r"kappas\[0\] is -1"):
        jboost.l0.choose(dataset, learner_of, margins=[0.1], kappas=[-1.0], key=jax.random.key(0))
    with pytest.raises(ValueError, match="num_folds is 1"):
        jboost.l0.choose(
            dataset, learner_of, margins=[0.1], kappas=[1.0], key=jax.random.key(0), num_folds=1
        )
    with pytest.raises(ValueError, match="search is empty"):
        jboost.l0.choose(
            dataset, learner_of, margins=[0.1], kappas=[1.0], key=jax.random.key(0), search=()
        )
    with pytest.raises(ValueError, match="search is a str"):
        jboost.l0.choose(
            dataset,
            learner_of,
            margins=[0.1],
            kappas=[1.0],
            key=jax.random.key(0),
            search=[jboost.l0.SearchConfig(), "relaxed"],
        )
    with pytest.raises(ValueError, match="learner is a Rules without prices"):
        jboost.l0.choose(
            dataset,
            lambda kappa: jboost.slipper.rules(),
            margins=[0.1],
            kappas=[1.0],
            key=jax.random.key(0),
        )
    with pytest.raises(ValueError, match="make_learner is a int: expected a function"):
        jboost.l0.choose(dataset, 3, margins=[0.1], kappas=[1.0], key=jax.random.key(0))
    nothing = np.zeros((2, len(labels)), np.float32)
    with pytest.raises(ValueError, match="held_out is 0 for all examples in all folds"):
        jboost.l0.choose(
            dataset,
            learner_of,
            margins=[0.1],
            kappas=[1.0],
            key=jax.random.key(0),
            held_out=nothing,
        )
    held_out, no_features = (
        np.eye(2, len(labels), dtype=np.float32),
        np.zeros((2, len(labels), 0), np.float32),
    )
    with pytest.raises(
        ValueError, match=r"fold_features\[0\]: features has 0 columns: expected one at least"
    ):
        jboost.l0.choose(
            dataset,
            learner_of,
            margins=[0.1],
            kappas=[1.0],
            key=jax.random.key(0),
            held_out=held_out,
            fold_features=no_features,
        )


@pytest.mark.slow
def test_a_choice_without_held_out_weight_is_none():
    features, labels = problem()
    dataset = jboost.make_dataset(features, labels)

    def choose(held_out):
        return jboost.l0.choose(
            dataset,
            learner_of,
            margins=[0.2],
            kappas=[1.0],
            key=jax.random.key(0),
            max_rounds=4,
            held_out=held_out,
        ).status

    assert int(jax.jit(choose)(np.zeros((2, len(labels)), np.float32))) == Status.INVALID_INPUT


@pytest.mark.slow
def test_every_kappa_has_the_costs_of_its_learner():
    dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 6, [1] * 24)

    def learner(kappa):
        return jboost.learners.monomials(1, kappa=kappa, constant_cost=kappa)

    options = {"margins": [0.2], "key": jax.random.key(0), "num_folds": 2, "max_rounds": 4}
    chosen = jboost.l0.choose(dataset, learner, kappas=[0.0, 5.0], **options)
    # no hypothesis costs less
    assert (float(chosen.kappa), float(chosen.fit.certificate.upper_bound)) == pytest.approx(
        (5.0, 5.0), abs=1e-3
    )


@pytest.mark.slow
def test_a_choice_ends_when_it_is_told_to():
    dataset = jboost.make_dataset([[1.0, 0.0], [0.0, 1.0]] * 6, [1, -1] * 6)
    options = {"margins": [0.2], "key": jax.random.key(0), "num_folds": 2, "max_rounds": 3}
    chosen = jboost.l0.choose(
        dataset, learner_of, kappas=[0.1, 1.0], on_step=lambda *_: np.False_, **options
    )
    assert int(chosen.status) == Status.TIME_LIMIT
    assert (float(chosen.kappa), chosen.errors[:, 0, 0].tolist()) == (
        pytest.approx(0.1),
        [0.0, pytest.approx(np.nan, nan_ok=True)],
    )
