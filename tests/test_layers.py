"""Heads over features, and the smoothed problem that the margin head solves: against a solver for
convex programs and finite differences.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

import jboost
from jboost import layers, relaxations
from jboost.base.status import Status
from jboost.relaxed_margin import solve_smoothed
from marks import slow_but

RELAXATIONS = {
    "nu": relaxations.soft_margin(nu=0.4),
    "hard": relaxations.hard_margin(),
    "entropy": relaxations.binary_entropy(0.4, 0.5),
    "klball": relaxations.kl_ball(0.3),
    "chi2ball": relaxations.chi_square_ball(0.5),
}


def game(seed, shape=(12, 4)):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def smoothed_optimum(margins, nu, tau, mu):
    """The dual of the smoothed soft-margin game over the simplex of example weights, by sequential
    quadratic programming.
    """
    size = len(margins)

    def objective(d):
        edges = d @ margins / mu
        top = edges.max()
        soft = mu * (top + np.log(np.mean(np.exp(edges - top))))
        return soft + tau * np.sum(d * np.log(size * np.maximum(d, 1e-300)))

    found = scipy.optimize.minimize(
        objective,
        np.full(size, 1 / size),
        method="SLSQP",
        bounds=[(1e-12, 1 / (nu * size))] * size,
        constraints=[{"type": "eq", "fun": lambda d: d.sum() - 1}],
        options={"maxiter": 500, "ftol": 1e-15},
    )
    return found.fun, found.x


@pytest.mark.parametrize("tau, mu", [(0.3, 0.3), (0.1, 0.2)])
def test_solve_smoothed_meets_its_dual(tau, mu, x64):
    for seed in range(3):
        margins = game(seed)
        found = solve_smoothed(margins, RELAXATIONS["nu"], smoothing=tau, votes_smoothing=mu)
        value, weights = smoothed_optimum(margins, 0.4, tau, mu)
        assert int(found.status) == int(Status.OPTIMAL)
        assert abs(float(found.value) - value) <= 1e-8
        np.testing.assert_allclose(found.example_weights, weights, atol=1e-5)
        edges = weights @ margins / mu
        np.testing.assert_allclose(
            found.coefficients,
            np.exp(edges - edges.max()) / np.exp(edges - edges.max()).sum(),
            atol=1e-5,
        )


def test_solve_smoothed_approaches_lpboost(x64):
    margins = game(5)
    exact = jboost.lpboost.solve(margins, nu=0.4)
    gaps = [
        abs(
            float(solve_smoothed(margins, RELAXATIONS["nu"], smoothing=tau).value)
            - float(exact.lower_bound)
        )
        for tau in (0.1, 0.01, 0.001)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    for gap, tau in zip(gaps, (0.1, 0.01, 0.001), strict=True):
        assert gap <= tau * (np.log(12) + np.log(4))


def central(function, arguments, position, step=1e-6):
    base = np.asarray(arguments[position], np.float64)
    columns = []
    for entry in range(base.size):
        sides = []
        for sign in (1, -1):
            moved = base.reshape(-1).copy()
            moved[entry] += sign * step
            sides.append(
                np.asarray(
                    function(
                        *arguments[:position],
                        jnp.asarray(moved.reshape(base.shape)),
                        *arguments[position + 1 :],
                    )
                )
            )
        columns.append((sides[0] - sides[1]) / (2 * step))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", slow_but(RELAXATIONS, "nu"))
def test_derivatives_of_solve_smoothed_are_finite_differences(name, x64):
    def both(margins, smoothing, sizes):
        found = solve_smoothed(margins, RELAXATIONS[name], smoothing=smoothing, weights=sizes)
        return jnp.append(found.coefficients, found.value)

    run = jax.jit(both)
    arguments = (
        jnp.asarray(game(6, (7, 3))),
        jnp.asarray(0.2),
        jnp.asarray(np.random.default_rng(7).uniform(0.5, 1.5, 7)),
    )
    for differentiate in (jax.jacrev, jax.jacfwd):
        found = jax.jit(differentiate(both, (0, 1, 2)))(*arguments)
        for position in range(3):
            expected = central(run, arguments, position)
            np.testing.assert_allclose(
                np.reshape(found[position], expected.shape), expected, atol=2e-6
            )


def test_solve_smoothed_converges_on_hard_games_in_float32():
    """Duplicate columns, constant columns, separable data, and small smoothing."""
    rng = np.random.default_rng(8)
    games = rng.uniform(-1, 1, (64, 24, 6)).astype(np.float32)
    games[:16, :, 1] = games[:16, :, 0]
    games[16:24] = np.sign(games[16:24])
    games[24:32, :, 0] = 1.0
    games[32] = 0.0

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None, 0))
    def solve(margins, tau, start):
        return solve_smoothed(margins, RELAXATIONS["nu"], smoothing=tau, initial=start)

    for tau in (0.3, 0.03, 0.01):
        found = solve(games, tau, jnp.zeros((64, 6)))
        assert (np.asarray(found.status) == int(Status.OPTIMAL)).all()
        again = solve(games, tau, found.logits)
        assert int(np.max(again.num_iterations)) <= 3
        np.testing.assert_allclose(found.coefficients.sum(axis=1), 1.0, atol=1e-5)


def test_solve_smoothed_names_bad_input_and_spoils_broken_data():
    for message, call in (
        ("margins has shape", lambda: solve_smoothed(jnp.ones((0, 2)), RELAXATIONS["nu"])),
        (
            "smoothing is 0",
            lambda: solve_smoothed(jnp.ones((2, 2)), RELAXATIONS["nu"], smoothing=0.0),
        ),
        (
            "votes_smoothing is -1",
            lambda: solve_smoothed(jnp.ones((2, 2)), RELAXATIONS["nu"], votes_smoothing=-1.0),
        ),
        (
            r"initial has shape \[3\]",
            lambda: solve_smoothed(jnp.ones((2, 2)), RELAXATIONS["nu"], initial=jnp.ones(3)),
        ),
        (
            "allows no distribution",
            lambda: solve_smoothed(jnp.ones((2, 2)), relaxations.soft_margin(0.3)),
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    broken = jax.jit(lambda margins: solve_smoothed(margins, RELAXATIONS["nu"]))(
        jnp.array([[jnp.nan, 1.0]])
    )
    assert int(broken.status) == int(Status.INVALID_INPUT)
    assert np.isnan(broken.coefficients).all()


# --- heads ----------------------------------------------------------------------------------------


def blobs(seed=0, size=64):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(size, 5)).astype(np.float32)
    return jnp.asarray(inputs), jnp.asarray(
        np.where(inputs[:, 0] * inputs[:, 1] + 0.2 * rng.normal(size=size) > 0, 1, -1)
    )


def test_a_network_with_a_margin_head_learns_what_a_linear_vote_cannot():
    inputs, labels = blobs()
    head = layers.margin_head(nu=0.3, smoothing=0.1, scale=6.0)
    optimizer = optax.adam(0.05)
    params = jax.random.normal(jax.random.key(0), (5, 8)) / 2

    def loss(params, state):
        logits, state = head.apply(state, jnp.tanh(inputs @ params) ** 2, labels)
        return jnp.mean(jax.nn.softplus(-labels * logits)), state

    @jax.jit
    def train(params):
        def step(carry, _):
            params, memory, state = carry
            (value, state), gradient = jax.value_and_grad(loss, has_aux=True)(params, state)
            updates, memory = optimizer.update(gradient, memory, params)
            return (optax.apply_updates(params, updates), memory, state), value

        return jax.lax.scan(step, (params, optimizer.init(params), head.init(8)), length=80)

    (params, _, state), values = train(params)
    assert int(state.status) == int(Status.OPTIMAL)
    assert values[-1] < 0.75 * values[0]
    logits, same = head.apply(state, jnp.tanh(inputs @ params) ** 2)
    np.testing.assert_array_equal(same.votes, state.votes)
    assert np.mean(np.sign(logits) == labels) > 0.8
    assert np.abs(state.votes).sum() <= 1 + 1e-5


def test_votes_of_a_margin_head_are_those_of_the_doubled_game(x64):
    features = game(9, (10, 3))
    labels = np.where(features[:, 0] > 0, 1, -1)
    head = layers.margin_head(nu=0.4, smoothing=0.2)
    logits, state = head.apply(head.init(3), jnp.asarray(features), jnp.asarray(labels))
    margins = labels[:, None] * features
    _, weights = smoothed_optimum(np.concatenate([margins, -margins], axis=1), 0.4, 0.2, 0.2)
    edges = np.concatenate([weights @ margins, -(weights @ margins)]) / 0.2
    shares = np.exp(edges - edges.max()) / np.exp(edges - edges.max()).sum()
    np.testing.assert_allclose(state.votes, shares[:3] - shares[3:], atol=1e-5)
    np.testing.assert_allclose(logits, features @ np.asarray(state.votes), atol=1e-12)


@pytest.mark.slow
def test_classes_of_a_margin_head_are_heads_of_their_own(x64):
    features = jnp.asarray(game(10, (12, 3)))
    labels = jnp.asarray(np.random.default_rng(11).integers(0, 3, 12))
    head, alone = (
        layers.margin_head(nu=0.4, num_classes=3, scale=2.0),
        layers.margin_head(nu=0.4, scale=2.0),
    )
    logits, state = head.apply(head.init(3), features, labels)
    assert logits.shape == (12, 3)
    for label in range(3):
        one, _ = alone.apply(alone.init(3), features, jnp.where(labels == label, 1, -1))
        np.testing.assert_allclose(logits[:, label], one, atol=1e-9)
    prediction, _ = head.apply(state, features)
    np.testing.assert_array_equal(prediction, logits)


def test_padding_of_a_batch_does_not_move_a_margin_head(x64):
    features, labels = game(12, (10, 3)), np.where(game(13, (10,)) > 0, 1, -1)
    head = layers.margin_head(nu=0.4)
    _, expected = head.apply(head.init(3), jnp.asarray(features), jnp.asarray(labels))
    padded = jnp.asarray(np.concatenate([features, np.full((2, 3), 0.5)]))
    mask = jnp.arange(12) < 10
    _, state = head.apply(head.init(3), padded, jnp.asarray(np.append(labels, [1, 1])), mask=mask)
    np.testing.assert_allclose(state.votes, expected.votes, atol=1e-9)


def test_pair_head_is_the_exact_separator_and_never_worse_than_either_score():
    rng = np.random.default_rng(14)
    head = layers.pair_head()
    for seed in range(4):
        scores = rng.normal(size=(20, 2)).astype(np.float32)
        labels = np.where(scores.sum(axis=1) + rng.normal(size=20) > 0, 1, -1)
        logits, state = head.apply(head.init(), jnp.asarray(scores), jnp.asarray(labels))
        errors = int(np.sum(np.where(np.asarray(logits) > 0, 1, -1) != labels))
        assert (
            errors
            == round(float(state.loss))
            == round(float(jboost.pair.optimal_separator(scores, labels).loss))
        ), seed
        assert errors <= min(
            int(np.sum(np.where(scores[:, j] > 0, 1, -1) != labels)) for j in range(2)
        )
    slope = jax.grad(lambda scores: head.apply(state, scores)[0].sum())(jnp.asarray(scores))
    np.testing.assert_allclose(slope, np.tile(state.normal, (20, 1)), rtol=1e-6)
    jitted, _ = jax.jit(head.apply)(head.init(), jnp.asarray(scores), jnp.asarray(labels))
    np.testing.assert_allclose(jitted, logits, atol=1e-6)


def test_logits_of_a_pair_head_with_invalid_scores_or_labels_are_nan():
    head = layers.pair_head()
    scores, labels = jnp.array([[1.0, 0.5], [-1.0, 0.0], [0.5, 2.0]]), jnp.array([1, -1, 1])
    apply = jax.jit(head.apply)
    for changed in ((scores.at[1, 0].set(jnp.nan), labels), (scores, labels.at[0].set(3))):
        logits, state = apply(head.init(), *changed)
        assert np.isnan(logits).all()
        assert np.isnan(state.loss)
        later, _ = apply(state, scores)
        assert np.isnan(later).all()


def apply_margin_head(features, labels, num_classes=None, **options):
    head = layers.margin_head(nu=0.5, num_classes=num_classes)
    return head.apply(head.init(features.shape[1]), features, labels, **options)


def test_labels_of_a_margin_head_out_of_range_give_nan_where_they_are_traced():
    features = jnp.asarray(game(15, (6, 2)), jnp.float32)
    good, wrong = jnp.array([1, -1, 1, 1, -1, 1]), jnp.array([1, 0, 1, 1, -1, 1])
    mask = jnp.arange(6) != 1

    @jax.jit
    def votes(labels, mask):
        _, state = apply_margin_head(features, labels, mask=mask)
        return state.votes, state.status

    found, status = votes(wrong, jnp.ones(6, bool))
    assert np.isnan(found).all()
    assert int(status) == int(Status.INVALID_INPUT)
    np.testing.assert_array_equal(votes(wrong, mask)[0], votes(good, mask)[0])
    np.testing.assert_allclose(
        apply_margin_head(features, wrong, mask=mask)[1].votes, votes(good, mask)[0], atol=1e-5
    )


@pytest.mark.slow
def test_classes_of_a_margin_head_out_of_range_give_nan_where_they_are_traced():
    features = jnp.asarray(game(15, (6, 2)), jnp.float32)
    run = jax.jit(lambda labels: apply_margin_head(features, labels, num_classes=3)[1].votes)
    for wrong in (3, -1):
        assert np.isnan(run(jnp.array([0, 1, 2, 1, 0, wrong], jnp.int8))).all()
    assert np.isfinite(run(jnp.array([0, 1, 2, 1, 0, 2], jnp.int8))).all()


def test_padding_of_a_margin_head_may_hold_nan():
    features, labels = (
        jnp.asarray(game(16, (7, 2)), jnp.float32),
        jnp.array([1, -1, 1, 1, -1, 1, 7]),
    )
    mask = jnp.arange(7) < 6

    @jax.jit
    @functools.partial(jax.value_and_grad, has_aux=True)
    def slope(features):
        logits, _ = apply_margin_head(features, labels, mask=mask)
        return jnp.sum(jnp.sin(3 * logits)), logits

    (_, logits), gradient = slope(features.at[6].set(jnp.nan))
    (_, expected), others = slope(features.at[6].set(0.5))
    assert logits[6] == 0
    np.testing.assert_array_equal(logits, expected)
    np.testing.assert_array_equal(gradient, others)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient[:6]).max() > 0
    assert (gradient[6] == 0).all()


def test_the_state_of_a_pair_head_has_no_derivative_and_its_logits_have_one():
    scores, labels = jnp.asarray(game(17, (8, 2)), jnp.float32), np.where(np.arange(8) % 3, 1, -1)
    head = layers.pair_head()

    def part(scores, name):
        logits, state = head.apply(head.init(), scores, labels)
        return (jnp.sum(logits) if name == "logits" else jnp.sum(getattr(state, name))), state

    slope, state = jax.grad(part, has_aux=True)(scores, "logits")
    np.testing.assert_allclose(slope, np.tile(state.normal, (8, 1)), rtol=1e-6)
    for name in ("loss", "normal", "bias"):
        with pytest.raises(TypeError, match="^The state of a pair head has no derivative"):
            jax.grad(part, has_aux=True)(scores, name)
    _, slopes = jax.jvp(lambda it: part(it, "loss")[0], (scores,), (scores,))
    assert np.isnan(slopes)

    def of_weights(weights):
        return head.apply(head.init(), scores, labels, weights=weights)[1].loss

    with pytest.raises(TypeError, match="^The state of a pair head has no derivative"):
        jax.grad(of_weights)(jnp.ones(8))


@pytest.mark.parametrize(
    "message, call",
    [
        ("num_classes is 1", lambda: layers.margin_head(num_classes=1)),
        ("num_features is 0", lambda: layers.margin_head().init(0)),
        ("nu is 2", lambda: layers.margin_head(nu=2.0)),
        (
            r"features has shape \[2, 3\]: expected shape \[m, 2\]",
            lambda: layers.margin_head().apply(layers.margin_head().init(2), jnp.ones((2, 3))),
        ),
        (
            r"labels has shape \[3\]",
            lambda: layers.margin_head().apply(
                layers.margin_head().init(2), jnp.ones((2, 2)), jnp.ones(3)
            ),
        ),
        (
            r"^features has shape \[0, 2\]: expected one row",
            lambda: apply_margin_head(jnp.ones((0, 2)), jnp.ones(0)),
        ),
        (
            r"^labels\[0\] is 0: labels are -1 or \+1",
            lambda: apply_margin_head(jnp.ones((2, 2)), jnp.array([0, 1])),
        ),
        (
            "^labels are booleans",
            lambda: apply_margin_head(jnp.ones((2, 2)), np.array([True, True])),
        ),
        (
            "^labels hold 3: expected integers from 0 to 2",
            lambda: apply_margin_head(jnp.ones((2, 2)), jnp.array([0, 3]), num_classes=3),
        ),
        (
            "^labels hold -1: expected integers from 0 to 2",
            lambda: apply_margin_head(jnp.ones((2, 2)), jnp.array([0, -1]), num_classes=3),
        ),
        (
            "^mask is empty",
            lambda: apply_margin_head(jnp.ones((2, 2)), jnp.ones(2), mask=np.zeros(2, bool)),
        ),
        (
            r"^mask has shape \[3\]",
            lambda: apply_margin_head(jnp.ones((2, 2)), jnp.ones(2), mask=np.ones(3, bool)),
        ),
        (
            "^state is a NoneType: expected a MarginHeadState",
            lambda: layers.margin_head().apply(None, jnp.ones((2, 2))),
        ),
        (
            r"^state.votes has shape \[2, 3\]: expected shape \[n\]",
            lambda: layers.margin_head().apply(
                layers.margin_head(num_classes=3).init(2), jnp.ones((2, 2))
            ),
        ),
        (
            r"^state.logits_of_votes has shape \[5\]: expected shape \[6\]",
            lambda: layers.margin_head().apply(
                layers.margin_head().init(3)._replace(logits_of_votes=jnp.zeros(5)),
                jnp.ones((2, 3)),
            ),
        ),
        (
            "^state is a MarginHeadState: expected a PairHeadState",
            lambda: layers.pair_head().apply(layers.margin_head().init(2), jnp.ones((2, 2))),
        ),
        (
            r"^state.anchor has shape \[3\]: expected shape \[2\]",
            lambda: layers.pair_head().apply(
                layers.pair_head().init()._replace(anchor=jnp.zeros(3)), jnp.ones((2, 2))
            ),
        ),
        ("^relaxation is a str: expected one", lambda: layers.margin_head(relaxation="nu")),
        ("num_features is 3: expected 2", lambda: layers.pair_head().init(3)),
        (
            r"scores has shape \[2, 3\]",
            lambda: layers.pair_head().apply(layers.pair_head().init(), jnp.ones((2, 3))),
        ),
    ],
)
def test_bad_arguments_of_heads_are_named(message, call):
    with pytest.raises(ValueError, match=message):
        call()
