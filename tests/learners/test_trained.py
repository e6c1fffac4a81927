"""`learners.trained` beyond matrices and plain models, against NumPy: closed forms of gradients,
states and certificates.
"""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import jboost
from jboost import learners
from jboost.base.by_value import ByValue
from jboost.base.status import Status
from jboost.learners import draws
from marks import slow

NUM_EXAMPLES, IMAGE = 12, (4, 4, 2)
KEY = jax.random.key(0)


def images(seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(NUM_EXAMPLES, *IMAGE)).astype(np.float32)
    labels = np.where(features[:, :2].sum((1, 2, 3)) > 0, 1, -1)
    labels[0] = -labels[0]
    return features, labels


def weights_of(seed, size=NUM_EXAMPLES):
    return np.random.default_rng(seed).dirichlet(np.ones(size)).astype(np.float32)


def zeros(key, features):
    return jnp.zeros(features.shape[1:])


def linear(params, features):
    return features.reshape(len(features), -1) @ params.reshape(-1)


def linear_learner(optimizer, **settings):
    return learners.trained(zeros, linear, optimizer, **settings)


def gradient_at_zero(features, labels, weights):
    """Of the weighted logistic loss of a linear model whose parameters are 0, in float64."""
    return np.tensordot(
        -0.5 * weights.astype(np.float64) * labels, features.astype(np.float64), axes=1
    )


@jax.jit
def propose(learner, dataset, example_weights, key):
    return learner.propose(learner.init(key, dataset), example_weights)._replace(state=())


# --- features of any shape ------------------------------------------------------------------------


def init_convolution(key, features):
    channels = features.shape[-1]
    return {
        "kernel": jax.random.normal(key, (3, 3, channels, 2)),
        "head": jnp.ones((2,)),
        "bias": jnp.zeros(()),
    }


def apply_convolution(params, features):
    hidden = lax.conv_general_dilated(
        features, params["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.mean(jnp.tanh(hidden), axis=(1, 2)) @ params["head"] + params["bias"]


CONVOLUTION = learners.trained(init_convolution, apply_convolution, optax.adam(0.1), num_steps=5)


def check_fit(fitted, dataset, tolerance=1e-4):
    """Each row's score is the sum of its votes; returns these sums, in float64, and the training
    error.
    """
    outputs = np.asarray(jboost.ensemble.outputs(fitted.ensemble, dataset.features), np.float64)
    votes = np.asarray(fitted.ensemble.votes, np.float64)
    scores = float(fitted.ensemble.constant) + (
        np.where(outputs > 0, votes[:, :1], votes[:, 1:]) * outputs
    ).sum(axis=0)
    np.testing.assert_allclose(
        jboost.predict_scores(fitted.ensemble, dataset.features),
        scores,
        rtol=tolerance,
        atol=tolerance,
    )
    return scores, (np.where(scores > 0, 1, -1) != dataset.labels).mean()


def test_adaboost_fits_images_and_a_nan_in_one_ends_in_its_status():
    features, labels = images()
    dataset = jboost.make_dataset(features, labels)
    jboost.validate(dataset)
    fitted = jboost.adaboost.fit(dataset, CONVOLUTION, key=KEY, max_rounds=3)
    scores, error = check_fit(fitted, dataset)
    assert float(fitted.certificate.lower_bound) == pytest.approx(error)
    assert np.exp(-labels * scores).mean() == pytest.approx(
        float(fitted.certificate.upper_bound), rel=1e-4
    )
    features[5, 1, 2, 0] = np.nan
    spoilt = jboost.make_dataset(features, labels)
    with pytest.raises(ValueError, match=r"features\[5, 1, 2, 0\] is nan"):
        jboost.validate(spoilt)
    assert (
        int(jboost.adaboost.fit(spoilt, CONVOLUTION, key=KEY, max_rounds=3).status)
        == Status.INVALID_INPUT
    )
    masked = jboost.make_dataset(features, labels, mask=np.arange(NUM_EXAMPLES) != 5)
    assert (
        int(jboost.adaboost.fit(masked, CONVOLUTION, key=KEY, max_rounds=3).status)
        == Status.ROUND_LIMIT
    )


@pytest.mark.parametrize(
    "fit",
    [
        slow(jboost.infoboost.fit),
        slow(functools.partial(jboost.lpboost.fit, nu=0.3)),
        slow(
            functools.partial(
                jboost.relaxed_margin.fit, relaxation=jboost.relaxations.soft_margin(nu=0.3)
            )
        ),
        slow(jboost.slipper.fit),
    ],
)
def test_boosters_fit_images(fit):
    dataset = jboost.make_dataset(*images())
    learner = learners.signs(CONVOLUTION) if fit is jboost.slipper.fit else CONVOLUTION
    fitted = fit(dataset, learner, key=KEY, max_rounds=3)
    _, error = check_fit(fitted, dataset)
    assert error <= 1 / 4
    assert int(fitted.status) in (Status.OPTIMAL, Status.ROUND_LIMIT)


def test_mlp_flattens_images():
    features, labels = images()
    proposal = propose(
        learners.trained(*learners.mlp((3,)), optax.sgd(0.5), num_steps=3),
        jboost.make_dataset(features, labels),
        weights_of(1),
        KEY,
    )
    (hidden, bias), (last, constant) = jax.tree.map(
        lambda leaf: np.asarray(leaf[0], np.float64), proposal.hypotheses.params
    )
    scores = np.tanh(features.reshape(NUM_EXAMPLES, -1) @ hidden + bias) @ last[:, 0] + constant
    np.testing.assert_allclose(
        proposal.outputs[0], proposal.hypotheses.sign * np.tanh(scores), rtol=1e-4, atol=1e-6
    )


STUMP, COLUMN, MONOMIAL = (
    learners.Stump(0, 0.0, 1.0, -1.0),
    learners.Column(0, 1.0),
    learners.Monomial(jnp.ones(2), 1.0),
)


@pytest.mark.parametrize(
    "learner, hypothesis",
    [
        (learners.stumps(), STUMP),
        (learners.quantised_stumps(), STUMP),
        (learners.pool(), COLUMN),
        (learners.signs(learners.literals()), COLUMN),
        (learners.monomials(2), MONOMIAL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_learners_of_columns_refuse_images_by_name(learner, hypothesis):
    dataset = jboost.make_dataset(np.zeros((2, 3, 3), np.uint8), [1, -1])
    with pytest.raises(ValueError, match=r"features has shape \[2, 3, 3\]: expected \[m, N\]"):
        jboost.adaboost.fit(dataset, learner, max_rounds=2)
    with pytest.raises(ValueError, match=r"features has shape \[2, 3, 3\]: expected"):
        learner.outputs(hypothesis, dataset.features)


def test_other_methods_refuse_images_by_name():
    dataset = jboost.make_dataset(np.zeros((4, 3, 3)), [1, -1, 1, -1])
    for fit in (
        lambda: jboost.l0.fit(dataset, learners.literals(), margin=0.2),
        lambda: jboost.l0.fit_exact(dataset, learners.monomials(2), margin=0.2),
        lambda: jboost.slipper.fit(dataset, key=KEY),
        lambda: jboost.pad_dataset(dataset, num_features=4),
    ):
        with pytest.raises(ValueError, match=r"features has shape \[4, 3, 3\]: expected \[m, N\]"):
            fit()


def test_stack_pad_and_unstack_keep_images():
    features, labels = images()
    datasets = [
        jboost.make_dataset(features, labels),
        jboost.make_dataset(features[:5], labels[:5]),
    ]
    batch = jboost.stack_datasets(datasets)
    assert batch.features.shape == (2, NUM_EXAMPLES, *IMAGE)
    assert batch.mask.sum(axis=1).tolist() == [NUM_EXAMPLES, 5]
    for before, after in zip(datasets, jboost.unstack(batch), strict=True):
        np.testing.assert_array_equal(before.features, after.features)
    assert jboost.pad_dataset(datasets[1], num_examples=8).features.shape == (8, *IMAGE)
    with pytest.raises(ValueError, match=r"rows of shapes \[\[2\], \[2, 2\]\]: expected one shape"):
        jboost.stack_datasets(
            [jboost.make_dataset(np.zeros((1, *shape)), [1]) for shape in ((2, 2), (2,))]
        )
    with pytest.raises(ValueError, match=r"features has shape \[2\]: expected shape \[m, N, ...\]"):
        jboost.make_dataset(np.zeros(2), [1, -1])


@pytest.mark.slow
def test_images_over_a_mesh_and_in_folds_give_the_fits_of_one_device():
    features, labels = images()
    dataset = jboost.make_dataset(features, labels)
    alone = jboost.adaboost.fit(dataset, CONVOLUTION, key=KEY, max_rounds=2)
    spread = jboost.sharding.shard_dataset(dataset, jboost.sharding.make_mesh())
    assert spread.features.shape == (16, *IMAGE)
    fitted = jboost.adaboost.fit(spread, CONVOLUTION, key=KEY, max_rounds=2)
    np.testing.assert_allclose(
        fitted.certificate.upper_bound, alone.certificate.upper_bound, rtol=1e-4
    )
    held_out = jboost.folds.stratified_folds(KEY, labels, num_folds=2)
    fit_fold = jax.vmap(
        lambda held: jboost.adaboost.fit(
            dataset._replace(mask=~held), CONVOLUTION, key=KEY, max_rounds=2
        )
    )
    assert fit_fold(held_out).status.tolist() == [Status.ROUND_LIMIT] * 2


# --- optimizers: compilation, hyperparameters, extra arguments ------------------------------------


def test_predict_compiles_once_for_ensembles_of_one_shape(compilations):
    features, labels = images()
    ensembles = [
        jboost.adaboost.fit(
            jboost.make_dataset(features, sign * labels), CONVOLUTION, key=KEY, max_rounds=3
        ).ensemble
        for sign in (1, -1)
    ]
    jboost.predict(ensembles[0], features)
    before = compilations()
    jboost.predict(ensembles[1], features)
    assert compilations() == before


def scaled_model(scale):
    """A pair (init, apply) of closures."""
    return zeros, lambda params, features: scale * linear(params, features)


def test_equal_optimizers_and_models_do_not_recompile_and_other_numbers_do(compilations):
    dataset, weights = jboost.make_dataset(*images()), weights_of(2)

    def edge(rate, scale):
        learner = learners.trained(*scaled_model(scale), optax.adam(rate), num_steps=2)
        return float(propose(learner, dataset, weights, KEY).values[0])

    first = edge(0.05, 1.0)
    before = compilations()
    assert edge(0.05, 1.0) == first
    assert compilations() == before
    assert edge(0.1, 1.0) != first
    assert edge(0.05, 2.0) != first
    assert compilations() > before


INJECTED = optax.inject_hyperparams(optax.sgd)(learning_rate=1.0)


def test_hyperparams_are_the_numbers_of_the_optimizer_and_do_not_recompile(compilations):
    features, labels = images()
    dataset, weights = jboost.make_dataset(features, labels), weights_of(3)
    gradient = gradient_at_zero(features, labels, weights)

    def params_after_a_step(rate):
        chained = optax.chain(
            optax.identity(), optax.inject_hyperparams(optax.sgd)(learning_rate=1.0)
        )
        learner = linear_learner(chained, hyperparams={"learning_rate": rate}, num_steps=1)
        return propose(learner, dataset, weights, KEY).hypotheses.params[0]

    np.testing.assert_allclose(params_after_a_step(0.25), -0.25 * gradient, rtol=1e-4, atol=1e-7)
    before = compilations()
    np.testing.assert_allclose(params_after_a_step(0.5), -0.5 * gradient, rtol=1e-4, atol=1e-7)
    assert compilations() == before
    rates = np.array([0.1, 1.0, 10.0], np.float32)
    found = jax.vmap(params_after_a_step)(rates)
    np.testing.assert_allclose(found, -rates[:, None, None, None] * gradient, rtol=1e-4, atol=1e-6)


SCHEDULED = optax.inject_hyperparams(optax.sgd)(learning_rate=optax.linear_schedule(1.0, 0.0, 3))


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: linear_learner(INJECTED, hyperparams={"lr": 0.1}),
            "hyperparams holds 'lr', which is not a number that the optimizer injects",
        ),
        (
            lambda: linear_learner(SCHEDULED, hyperparams={"learning_rate": 0.1}),
            "hyperparams holds 'learning_rate'",
        ),
        (
            lambda: linear_learner(optax.sgd(0.1), hyperparams={"learning_rate": 0.1}),
            "hyperparams holds 'learning_rate'",
        ),
        (
            lambda: linear_learner(INJECTED, hyperparams={"learning_rate": [0.1]}),
            r"hyperparams\['learning_rate'\] has shape \[1\]",
        ),
        (
            lambda: linear_learner(INJECTED, hyperparams=0.1),
            "hyperparams is 0.1: expected numbers by name",
        ),
        (lambda: linear_learner(INJECTED, sampling="rejection"), "sampling is 'rejection'"),
        (lambda: linear_learner(INJECTED, stateful=1), "stateful is 1"),
        (
            lambda: linear_learner(INJECTED, stateful=True),
            r"init returns a .*: expected with stateful=True the pair \(params, state\)",
        ),
        (
            lambda: learners.trained(
                lambda *_: ((), ()), lambda *_, **__: 0.0, INJECTED, stateful=True
            ),
            "apply returns a float: expected",
        ),
        (
            lambda: learners.trained(
                lambda *_: ((), 0), lambda *_, **__: (jnp.zeros(2), 0.5), INJECTED, stateful=True
            ),
            "apply changes its state",
        ),
        (
            lambda: jax.eval_shape(lambda rate: linear_learner(optax.adam(rate)).hyperparams, 0.1),
            "optimizer holds a traced number",
        ),
    ],
)
def test_trained_names_what_is_wrong(make, message):
    dataset = jboost.make_dataset(np.ones((2, 3)), [1, -1])
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(propose, make(), dataset, jnp.array([0.5, 0.5]), KEY)


def test_trained_refuses_packed_features_and_no_examples_to_draw():
    packed = jboost.make_dataset(
        jboost.operators.packed_signs(np.ones((3, 2), np.int8)), [1, -1, 1]
    )
    with pytest.raises(ValueError, match="dataset has packed features"):
        linear_learner(INJECTED).init(KEY, packed)
    with pytest.raises(ValueError, match="no examples"):
        linear_learner(INJECTED, batch_size=2).init(KEY, jboost.make_dataset(np.zeros((0, 2)), []))


def test_optimizers_that_take_the_loss_get_it():
    rng = np.random.default_rng(4)
    features = rng.normal(size=(40, 2))
    labels = np.where(features @ [1.0, -2.0] + rng.logistic(size=40) > 0, 1, -1)
    weights = weights_of(4, 40)
    proposal = propose(
        linear_learner(optax.lbfgs(), num_steps=15),
        jboost.make_dataset(features, labels),
        weights,
        KEY,
    )
    params = np.asarray(proposal.hypotheses.params[0], np.float64)
    slopes = weights * labels / (1 + np.exp(labels * (features @ params)))
    # the gradient is 0 at the optimum alone: the loss is convex
    np.testing.assert_allclose(features.T @ slopes, 0, atol=1e-5)


# --- bfloat16 -------------------------------------------------------------------------------------


def init_bfloat16(key, features):
    return jax.random.normal(key, features.shape[1:], jnp.bfloat16)


def apply_bfloat16(params, features):
    return linear(params, features.astype(jnp.bfloat16))


# its state widens in a step
WIDENED = optax.inject_hyperparams(optax.adam, hyperparam_dtype=jnp.float32)(learning_rate=0.05)
BFLOAT16 = learners.trained(init_bfloat16, apply_bfloat16, WIDENED, num_steps=5)


ROUNDING = 2.0**-6  # of bfloat16 scores, which two programs round in two ways


def test_bfloat16_models_have_float32_edges_and_valid_certificates(tmp_path):
    features, labels = images()
    dataset, weights = jboost.make_dataset(features, labels), weights_of(9)
    proposal = propose(BFLOAT16, dataset, weights, KEY)
    assert proposal.hypotheses.params.dtype == jnp.bfloat16
    assert (
        proposal.outputs.dtype
        == proposal.values.dtype
        == proposal.hypotheses.sign.dtype
        == np.float32
    )
    assert float(proposal.values[0]) == pytest.approx(
        np.asarray(proposal.outputs[0], np.float64) @ (weights * labels), rel=1e-6
    )
    fitted = jboost.adaboost.fit(dataset, BFLOAT16, key=KEY, max_rounds=3)
    scores, error = check_fit(fitted, dataset, ROUNDING)
    assert float(fitted.certificate.lower_bound) == pytest.approx(error)
    assert np.exp(-labels * scores).mean() == pytest.approx(
        float(fitted.certificate.upper_bound), rel=ROUNDING
    )
    jboost.files.save(fitted.ensemble, tmp_path / "model")
    loaded = jboost.files.load(tmp_path / "model", learner=BFLOAT16)
    assert loaded.hypotheses.params.dtype == jnp.bfloat16
    np.testing.assert_array_equal(loaded.hypotheses.params, fitted.ensemble.hypotheses.params)


# --- models with a state and keys -----------------------------------------------------------------

MOMENTUM = 0.75


def init_normalised(key, features):
    state = {
        "mean": jnp.zeros(features.shape[1:]),
        "steps": jnp.zeros((), jnp.int32),
        "noise": jnp.zeros((4,)),
    }
    return {"weights": jax.random.normal(key, features.shape[1:])}, state


def apply_normalised(params, state, features, *, key, is_training):
    """Centred by the mean of the batch in training, by the running mean elsewhere; one input in two
    is dropped.
    """
    if not is_training:
        assert key is None
        return linear(params["weights"], features - state["mean"][None]), {"ignored": state["mean"]}
    mean, noise = jnp.mean(features, axis=0), jax.random.uniform(key)
    keep = jax.random.bernoulli(key, 0.5, features.shape)
    after = {
        "mean": MOMENTUM * state["mean"] + (1 - MOMENTUM) * mean,
        "noise": jnp.roll(state["noise"], 1).at[0].set(noise),
        "steps": state["steps"] + 1,
    }
    return linear(params["weights"], jnp.where(keep, features - mean[None], 0.0)), after


@pytest.mark.parametrize("warm_start", [False, True])
def test_states_and_keys_of_models_over_rounds(warm_start):
    features, labels = images()
    dataset, weights = jboost.make_dataset(features, labels), weights_of(5)
    num_steps = 2
    learner = learners.trained(
        init_normalised,
        apply_normalised,
        optax.sgd(0.1),
        num_steps=num_steps,
        stateful=True,
        warm_start=warm_start,
    )

    @jax.jit
    def two_rounds(key):
        def step(state, _):
            proposal = learner.propose(state, weights)
            return proposal.state, (
                jax.tree.map(lambda leaf: leaf[0], proposal.hypotheses),
                proposal.outputs[0],
            )

        return lax.scan(step, learner.init(key, dataset), None, length=2)[1]

    models, outputs = two_rounds(KEY)
    steps = np.array([num_steps, 2 * num_steps if warm_start else num_steps])
    assert models.state["steps"].tolist() == steps.tolist()
    mean = features.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(
        models.state["mean"],
        (1 - MOMENTUM**steps)[:, None, None, None] * mean,
        rtol=1e-4,
        atol=1e-6,
    )
    # each step has a key of its own
    assert len(np.unique(models.state["noise"])) == 2 * num_steps + (not warm_start or 1)
    for sign, params, running, said in zip(
        models.sign, models.params["weights"], models.state["mean"], outputs, strict=True
    ):
        centred = (features - np.asarray(running)).reshape(NUM_EXAMPLES, -1).astype(np.float64)
        np.testing.assert_allclose(
            said, sign * np.tanh(centred @ np.asarray(params).ravel()), rtol=1e-4, atol=1e-5
        )
    again = jax.vmap(lambda model: learner.outputs(model, features))(models)
    np.testing.assert_allclose(again, outputs, rtol=1e-4, atol=1e-6)


# --- minibatches ----------------------------------------------------------------------------------

SIGMAS = 5  # a right test fails once in two million numbers


@pytest.mark.parametrize("sampling", ["weighted", "uniform"])
def test_draws_have_the_chances_of_their_sampling_and_weights_that_undo_them(sampling):
    weights = weights_of(6, 10)
    counts = np.arange(10) % 4 != 3
    weights = np.where(counts, weights, 0) / weights[counts].sum()
    shape = 500, 200
    drawn = jax.jit(functools.partial(draws.draw, sampling=sampling, shape=shape))(
        KEY, weights, counts
    )
    chances = weights if sampling == "weighted" else counts / counts.sum()
    times = np.bincount(np.asarray(drawn.rows).ravel(), minlength=10)
    number = np.prod(shape)
    assert (
        np.abs(times - number * chances) <= SIGMAS * np.sqrt(number * chances * (1 - chances))
    ).all()
    np.testing.assert_allclose(
        drawn.weights, (weights / np.where(counts, chances, 1) / shape[1])[drawn.rows], rtol=1e-5
    )


def test_draws_reach_rows_of_tiny_chances_alike():
    size = 1 << 16  # rows of 2^-26 each beside one: 24 bits tell no four of them apart
    weights = np.full(size, 2.0**-26, np.float32)
    weights[0] = 1 - 2.0**-10
    number = 1 << 19
    drawn = jax.jit(functools.partial(draws.draw, sampling="weighted", shape=(1, number)))(
        KEY, weights, weights > 0
    )
    rows = np.asarray(drawn.rows).ravel()
    times = np.bincount(rows[rows > 0] % 4, minlength=4)
    assert (np.abs(times - number * 2.0**-12) <= SIGMAS * np.sqrt(number * 2.0**-12)).all()


@pytest.mark.parametrize("sampling", ["weighted", "uniform"])
def test_minibatch_gradients_are_right_on_average(sampling):
    features, labels = images()
    weights, mask = weights_of(7), np.arange(NUM_EXAMPLES) != 3
    weights = np.where(mask, weights, 0)
    learner = linear_learner(optax.sgd(1.0), num_steps=1, batch_size=3, sampling=sampling)
    dataset = jboost.make_dataset(features, labels, mask=mask)
    keys = jax.random.split(KEY, 4000)
    params = jax.jit(
        jax.vmap(lambda key: propose(learner, dataset, weights, key).hypotheses.params[0])
    )(keys)
    found = -np.asarray(params, np.float64)
    error = found.std(axis=0) / np.sqrt(len(keys))
    assert (
        np.abs(found.mean(axis=0) - gradient_at_zero(features, labels, weights)) <= SIGMAS * error
    ).all()
    assert (error < 0.02).all()


def test_rows_are_evaluated_in_blocks_to_the_same_outputs(monkeypatch):
    dataset, weights = jboost.make_dataset(*images()), weights_of(8)
    learner = linear_learner(optax.sgd(1.0), num_steps=1, batch_size=5)

    def evaluate():
        return jax.jit(lambda key: learner.propose(learner.init(key, dataset), weights).outputs)(
            KEY
        )

    whole = evaluate()
    monkeypatch.setattr(sys.modules[type(learner).__module__], "_LEAST_ROWS_AT_ONCE", 1)
    np.testing.assert_allclose(evaluate(), whole, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_eight_seeds_by_vmap_and_boosting_inside_a_scan_of_the_caller():
    features, labels = images()
    dataset = jboost.make_dataset(features, labels)
    learner = learners.trained(
        *learners.mlp((2,)), optax.adam(0.1), num_steps=3, batch_size=4, warm_start=True
    )

    @jax.jit
    @jax.vmap
    def boost(key):
        state = jboost.adaboost.init(dataset, learner, key=key, max_rounds=3)
        state, info = lax.scan(lambda now, _: jboost.adaboost.step(now, dataset), state, length=3)
        return jboost.adaboost.finish(state), info.edge

    fits, edges = boost(jax.random.split(KEY, 8))
    assert len(np.unique(np.asarray(edges))) == 24
    scores = jax.vmap(lambda fitted: jboost.predict_scores(fitted.ensemble, features))(fits)
    assert fits.certificate.lower_bound.tolist() == pytest.approx(
        (np.where(scores > 0, 1, -1) != labels).mean(axis=1).tolist()
    )


def test_learners_hold_their_functions_by_value():
    one, same = (learners.trained(*scaled_model(2.0), optax.adam(0.05)) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert isinstance(one.optimizer, ByValue)
    assert one != learners.trained(*scaled_model(3.0), optax.adam(0.05))
