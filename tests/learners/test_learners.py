"""Base learners against brute force: every stump and every column, one by one, in exact arithmetic.

Weights are integers over 64, so that sums are exact in any order and values can be compared with
==; the bounds are also tried on weights that are not, against rational sums.
"""

import dataclasses
import functools
import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jboost
from jboost import learners
from jboost.base.boosting import Proposal
from jboost.base.types import Dataset, make_dataset
from jboost.learners import criteria
from marks import slow

NUM_PROBLEMS, NUM_EXAMPLES, NUM_FEATURES = 120, 9, 4
OPTIMIZER = optax.adam(0.05)


def propose(learner, dataset, example_weights, key=None):
    proposal = learner.propose(learner.init(key, dataset), example_weights)
    again = jax.vmap(lambda hypothesis: learner.outputs(hypothesis, dataset.features))(
        proposal.hypotheses
    )
    return proposal._replace(state=()), again


propose_all = jax.jit(jax.vmap(propose))
propose_one = jax.jit(propose)


def problems(seed, values, missing=0.0):
    """Small data sets with ties, duplicates, missing values, weights 0, and padding that holds
    garbage.
    """
    rng = np.random.default_rng(seed)
    features = rng.choice(values, (NUM_PROBLEMS, NUM_EXAMPLES, NUM_FEATURES)).astype(np.float32)
    features[rng.random(features.shape) < missing] = np.nan
    features[: NUM_PROBLEMS // 4, :, 1] = features[: NUM_PROBLEMS // 4, :, 0]
    features[0] = features[0, :1]
    labels = rng.choice([-1, 1], (NUM_PROBLEMS, NUM_EXAMPLES))
    labels[1] = 1
    weights = rng.integers(0, 8, labels.shape) / np.float32(64)
    weights[2] = 0
    mask = rng.random(labels.shape) < rng.choice([0.5, 1.0], (NUM_PROBLEMS, 1))
    mask[:, 0] = True
    features[3, :, 2], features[4] = np.nan, np.nan
    features[~mask] = rng.choice([np.nan, np.inf, -3.0, 0.0], features.shape)[~mask]
    weights = np.where(mask, weights, 0).astype(np.float32)
    return features, labels, weights, mask


def on_device(features, labels, weights, mask):
    return jax.vmap(lambda x, y, used: make_dataset(x, y, mask=used))(
        features, labels, mask
    ), jnp.asarray(weights)


def edge_of(answers, labels, weights):
    return sum(
        Fraction(float(d)) * int(y) * Fraction(float(h))
        for d, y, h in zip(weights, labels, answers, strict=True)
    )


def z_of(answers, labels, weights):
    def weight(chosen):
        return float(np.sum(weights[chosen], dtype=np.float64))

    up, down, positive = answers > 0, answers < 0, labels > 0
    table = [
        weight(up & positive),
        weight(up & ~positive),
        weight(down & ~positive),
        weight(down & positive),
    ]
    return (
        weight(answers == 0) + 2 * np.sqrt(table[0] * table[1]) + 2 * np.sqrt(table[2] * table[3])
    )


def stumps_of(column, abstain):
    """The answers of all stumps on one feature, up to sign; the constant is not among them."""
    present = np.unique(column[~np.isnan(column)])
    for lower in present[:-1]:
        for left, right in ((-1, 1), *(((0, 1), (1, 0)) if abstain else ())):
            yield np.where(np.isnan(column), 0, np.where(column > lower, right, left))


def score_of(answers, labels, weights, criterion):
    return (
        abs(edge_of(answers, labels, weights))
        if criterion == "edge"
        else 1 - z_of(answers, labels, weights)
    )


def check_proposal(
    proposal, again, features, labels, weights, mask, criterion, scores, greatest_edge
):
    """One proposal against the scores of its best rivals, the best first."""
    outputs = np.asarray(proposal.outputs)
    assert (outputs[:, mask] == again[:, mask]).all()
    assert (outputs[:, ~mask] == 0).all()
    edges = [edge_of(answers[mask], labels[mask], weights[mask]) for answers in outputs]
    assert min(edges) >= 0
    assert greatest_edge <= Fraction(float(proposal.upper_bound)) <= greatest_edge + Fraction(4e-6)
    if criterion == "edge":
        assert [Fraction(float(value)) for value in proposal.values] == edges == scores
    else:
        np.testing.assert_allclose(proposal.values, scores, rtol=0, atol=1e-6)
        np.testing.assert_allclose(
            [1 - z_of(answers[mask], labels[mask], weights[mask]) for answers in outputs],
            scores,
            rtol=0,
            atol=1e-6,
        )


@pytest.mark.parametrize(
    ("criterion", "abstain"),
    [slow("edge", False), slow("edge", True), ("normalizer", False), slow("normalizer", True)],
)
def test_best_stumps_equal_brute_force(criterion, abstain):
    data = problems(0, [-2, -1, -0.0, 0.0, 1, 2], missing=0.1)
    num_proposed = 3
    proposals, again = propose_all(
        learners.stumps(abstain=abstain, criterion=criterion, num_proposed=num_proposed),
        *on_device(*data),
    )
    for index, (features, labels, weights, mask) in enumerate(zip(*data, strict=True)):
        labels_used, weights_used = labels[mask], weights[mask]
        score = functools.partial(
            score_of, labels=labels_used, weights=weights_used, criterion=criterion
        )
        constant = np.ones(mask.sum())
        by_feature = [list(stumps_of(column[mask], abstain)) for column in features.T]
        best = [score(constant), *(max(map(score, answers)) for answers in by_feature if answers)]
        best = sorted(best, reverse=True)
        nothing = score(0 * constant)
        best = (best + [nothing] * num_proposed)[:num_proposed]
        greatest = max(
            abs(edge_of(answers, labels_used, weights_used))
            for answers in (constant, *(row for rows in by_feature for row in rows))
        )
        proposal, said = jax.tree.map(lambda leaf: leaf[index], (proposals, np.asarray(again)))  # noqa: B023
        check_proposal(proposal, said, features, labels, weights, mask, criterion, best, greatest)


@pytest.mark.parametrize(
    ("kind", "criterion"),
    [
        slow("pool", "edge"),
        ("pool", "normalizer"),
        ("literals", "edge"),
        slow("literals", "normalizer"),
    ],
)
def test_best_columns_equal_brute_force(kind, criterion):
    data = problems(1, [-1, -0.5, 0, 0.25, 1] if kind == "pool" else [0, 1])
    features, labels, weights, mask = data
    features[3:5] = 0
    learner = getattr(learners, kind)(num_proposed=2, criterion=criterion)
    proposals, again = propose_all(learner, *on_device(*data))
    for index, (features, labels, weights, mask) in enumerate(zip(*data, strict=True)):
        columns = features[mask].T if kind == "pool" else np.where(features[mask].T > 0, 1, -1)
        scores = [score_of(column, labels[mask], weights[mask], criterion) for column in columns]
        greatest = max(abs(edge_of(column, labels[mask], weights[mask])) for column in columns)
        proposal, said = jax.tree.map(lambda leaf: leaf[index], (proposals, np.asarray(again)))  # noqa: B023
        check_proposal(
            proposal,
            said,
            features,
            labels,
            weights,
            mask,
            criterion,
            sorted(scores, reverse=True)[:2],
            greatest,
        )


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float32])
def test_literals_read_any_boolean_features(dtype):
    features = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
    labels, weights = np.array([-1, 1, -1, 1]), jnp.full(4, 0.25)
    learner = learners.literals(num_proposed=3)
    proposal, _ = propose_one(learner, make_dataset(features.astype(dtype), labels), weights)
    assert proposal.hypotheses.index.tolist() == [0, 1, 2]
    assert proposal.outputs[0].tolist() == labels.tolist()
    if dtype is not bool:
        as_signs, _ = propose_one(
            learner, make_dataset((2 * features - 1).astype(dtype), labels), weights
        )
        assert as_signs.outputs.tolist() == proposal.outputs.tolist()


@pytest.mark.parametrize("size", [(1, 1), slow((70, 1)), slow((5, 3))])
def test_sizes_and_constant_features(size):
    features, labels = np.zeros(size, np.float32), np.where(np.arange(size[0]) % 3, 1, -1)
    weights = np.full(size[0], 1 / 128, np.float32)
    proposal, again = propose_one(
        learners.stumps(num_proposed=size[1] + 1), make_dataset(features, labels), weights
    )
    edge = abs(edge_of(np.ones(size[0]), labels, weights))
    assert proposal.values.tolist() == [edge] + [0] * size[1]
    assert (again == proposal.outputs).all()
    assert np.isneginf(proposal.hypotheses.threshold[0])
    assert (proposal.outputs[1:] == 0).all()


def test_constant_classifier_answers_where_all_is_missing():
    dataset = make_dataset([[np.nan], [np.nan]], [-1, -1])
    proposal, again = propose_one(learners.stumps(), dataset, jnp.array([0.5, 0.5]))
    assert proposal.outputs.tolist() == again.tolist() == [[-1.0, -1.0]]


@pytest.mark.slow
def test_thresholds_part_any_two_neighbours():
    one, top = np.float32(1), np.finfo(np.float32).max
    tiny = np.finfo(np.float32).tiny
    pairs = [
        (one, np.nextafter(one, 2)),
        (np.nextafter(one, 0), one),
        (-top, top),
        (-np.inf, top),
        (-top, np.inf),
        (-np.inf, np.inf),
        (0, tiny),
        (-tiny, -0.0),
    ]
    pairs = np.array([*pairs, (-np.inf, -top), (top, np.inf), (2, 3)], np.float32)
    labels = np.tile([-1, 1], (len(pairs), 1))
    datasets = jax.vmap(make_dataset)(pairs[:, :, None], labels)
    proposals, again = propose_all(learners.stumps(), datasets, jnp.full(pairs.shape, 0.5))
    assert (proposals.outputs[:, 0] == labels).all()
    assert (again == proposals.outputs).all()
    thresholds = np.asarray(proposals.hypotheses.threshold[:, 0])
    assert ((pairs[:, 0] <= thresholds) & (thresholds < pairs[:, 1])).all()
    assert thresholds[-1] == 2.5


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["edge", "normalizer"])
def test_blocks_of_features_change_nothing(criterion, monkeypatch):
    rng = np.random.default_rng(2)
    dataset = make_dataset(rng.normal(size=(30, 7)).astype(np.float32), rng.choice([-1, 1], 30))
    weights = jnp.asarray(rng.integers(1, 9, 30) / np.float32(256))
    learner = learners.stumps(criterion=criterion, num_proposed=8)
    whole = jax.jit(lambda *data: propose(learner, *data))(dataset, weights)
    monkeypatch.setattr(sys.modules[type(learner).__module__], "_ENTRIES_AT_ONCE", 70)
    blocks = jax.jit(lambda *data: propose(learner, *data))(dataset, weights)
    jax.tree.map(np.testing.assert_array_equal, whole, blocks)
    assert learner.init(None, dataset).order.shape == (4, 2, 30)


@pytest.mark.slow
def test_bounds_hold_in_exact_arithmetic():
    rng = np.random.default_rng(3)
    num_examples = 500
    outputs = rng.uniform(-1, 1, (num_examples, 6)).astype(np.float32)
    labels = rng.choice([-1, 1], num_examples)
    outputs[:, 0] = labels * rng.uniform(0.9, 1, num_examples)
    weights = rng.uniform(size=(4, num_examples)) * 10.0 ** (
        np.array([[0], [-3], [-12], [-30]]) * rng.random((4, num_examples))
    )
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    dataset = make_dataset(outputs, labels)
    of_weights = jax.jit(
        jax.vmap(
            lambda learner, weights: propose(learner, dataset, weights)[0].upper_bound,
            in_axes=(None, 0),
        )
    )
    pool_bounds = of_weights(learners.pool(), weights)
    stump_bounds = [
        of_weights(learners.stumps(abstain=True, criterion=criterion), weights)
        for criterion in ("edge", "normalizer")
    ]
    order = np.argsort(outputs, axis=0)
    for index, row in enumerate(weights):
        greatest = max(abs(edge_of(column, labels, row)) for column in outputs.T)
        assert greatest <= Fraction(float(pool_bounds[index])) <= greatest + Fraction(4e-6)
        signed = [Fraction(float(d)) * int(y) for d, y in zip(row, labels, strict=True)]
        total = sum(signed)
        greatest = abs(total)
        for places in order.T:
            below = Fraction(0)
            for place in places:
                below += signed[place]
                greatest = max(greatest, abs(below), abs(total - below), abs(total - 2 * below))
        for bounds in stump_bounds:
            assert greatest <= Fraction(float(bounds[index])) <= greatest * (1 + Fraction(1, 2**22))


@pytest.mark.slow
def test_what_is_one_sided_is_exactly_so():
    rng = np.random.default_rng(4)
    labels = np.repeat([-1, 1], 600)
    weights = rng.uniform(0.1, 1, 1200).astype(np.float32)
    column = np.where(rng.random(1200) < 0.7, labels, -1).astype(np.float32)
    table = jax.jit(criteria.cells_of)(column[None, :], weights, labels)
    assert table.false_positive[0] == 0
    assert min(table.true_positive[0], table.true_negative[0], table.false_negative[0]) > 0
    weights[0], column[0] = 1e-30, 1
    assert jax.jit(criteria.cells_of)(column[None, :], weights, labels).false_positive[
        0
    ] == np.float32(1e-30)
    features = np.stack([labels, column], axis=1).astype(np.float32)
    for learner in (learners.pool(criterion="normalizer"), learners.stumps(criterion="normalizer")):
        proposal, _ = propose_one(learner, make_dataset(features, labels), weights / weights.sum())
        assert proposal.values.tolist() == [1.0]


@pytest.mark.slow
def test_signs_of_a_pool():
    features = np.array(
        [[0.5, 1.0, 0.1], [0.5, -0.1, 0.1], [-0.5, -1.0, 0.1], [0.5, 0.0, 0.0]], np.float32
    )
    labels, weights = np.array([1, 1, -1, -1]), jnp.full(4, 0.25)
    learner = learners.signs(learners.pool(num_proposed=3))
    proposal, again = propose_one(learner, make_dataset(features, labels), weights)
    assert proposal.hypotheses.index.tolist() == [0, 1, 2]
    assert proposal.outputs.tolist() == again.tolist() == np.sign(features.T).tolist()
    assert proposal.values.tolist() == [0.5, 0.25, 0.25]
    assert proposal.upper_bound == np.inf
    proposal, _ = propose_one(learner, make_dataset(np.sign(features), labels), weights)
    assert 0.5 <= proposal.upper_bound < 0.5 + 4e-6
    proposal, _ = propose_one(
        learners.signs(learners.stumps()), make_dataset(features, labels), weights
    )
    assert 0.5 <= proposal.upper_bound < 0.5 + 4e-6


def test_the_criterion_is_replaced_at_any_depth():
    learner = learners.replace_criterion(learners.signs(learners.stumps()), "normalizer")
    assert learner == learners.signs(learners.stumps(criterion="normalizer"))
    assert learner.criterion == "normalizer"
    assert learners.signs(learner) is learner
    assert dataclasses.replace(learners.pool(), criterion="normalizer") == learners.pool(
        criterion="normalizer"
    )
    trained = learners.trained(*learners.mlp((4,)), OPTIMIZER)
    assert learners.replace_criterion(trained, "normalizer") is trained
    assert learners.replace_criterion(print, "edge") is print


def test_hypotheses_in_words():
    names = ["age", "sex"]
    stump = learners.Stump(np.int32(0), np.float32(2.5), np.float32(-1), np.float32(1))
    assert learners.stumps().describe(stump, names) == "+1 if age > 2.5 else -1"
    assert learners.stumps().describe(stump._replace(left=np.float32(1)), names) == "+1 always"
    assert (
        learners.signs(learners.stumps()).describe(stump._replace(left=np.float32(0)), names)
        == "+1 if age > 2.5 else 0"
    )
    column = learners.Column(np.int32(1), np.float32(-1))
    assert learners.literals().describe(column, names) == "not sex"
    assert learners.pool().describe(column, names) == "-sex"


def test_stumps_on_bits_are_said_by_what_the_bits_ask():
    bit = learners.Stump(np.int32(0), np.float32(0.5), np.float32(1), np.float32(-1))
    assert (
        learners.stumps().describe(bit, ["'heart rate' == high"])
        == "-1 if 'heart rate' == high else +1"
    )
    assert learners.stumps().describe(bit, ["pulse is missing"]) == "-1 if pulse is missing else +1"
    # the name of a column of numbers
    assert learners.stumps().describe(bit, ["'a <= b'"]) == "-1 if 'a <= b' > 0.5 else +1"
    assert (
        learners.stumps().describe(bit._replace(threshold=np.float32(1.5)), ["a <= 3"])
        == "-1 if 'a <= 3' > 1.5 else +1"
    )


def test_literals_of_what_is_not_known_answer_nothing():
    features = np.array([[1, 0], [np.nan, 1], [0, np.nan]], np.float32)
    for sign in (1, -1):
        said = [
            learners.literals()
            .outputs(learners.Column(np.int32(place), np.float32(sign)), features)
            .tolist()
            for place in (0, 1)
        ]
        assert said == [[sign, 0, -sign], [-sign, sign, 0]]


XOR = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([-1, 1, 1, -1])


@pytest.mark.slow
def test_trained_networks_learn_xor_from_five_seeds_and_by_their_key():
    learner = learners.trained(*learners.mlp((8,)), OPTIMIZER, num_steps=150)
    padded = np.concatenate([XOR[0], [[np.nan, np.inf]]]), np.append(XOR[1], 1)
    dataset = make_dataset(*padded, mask=[True] * 4 + [False])
    weights = jnp.array([0.25, 0.25, 0.25, 0.25, 0])
    fit = jax.jit(jax.vmap(propose, in_axes=(None, None, None, 0)))
    proposals, again = fit(learner, dataset, weights, jax.random.split(jax.random.key(0), 5))
    assert (np.sign(proposals.outputs[:, 0, :4]) == XOR[1]).all()
    assert (proposals.outputs[:, 0, 4] == 0).all()
    np.testing.assert_allclose(again[:, 0, :4], proposals.outputs[:, 0, :4], rtol=1e-5)
    np.testing.assert_allclose(
        proposals.values[:, 0],
        (np.asarray(proposals.outputs[:, 0, :4]) * XOR[1]).mean(axis=1),
        rtol=1e-5,
    )
    assert np.isposinf(proposals.upper_bound).all()
    assert len(np.unique(np.asarray(proposals.values))) == 5
    same, _ = fit(learner, dataset, weights, jax.random.split(jax.random.key(0), 5))
    jax.tree.map(np.testing.assert_array_equal, same, proposals)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss, batch_size, warm_start",
    [("edge", None, True), ("logistic", 3, True), ("edge", 3, False)],
)
def test_trained_by_batches_and_from_a_warm_start(loss, batch_size, warm_start):
    learner = learners.trained(
        *learners.mlp((8,)),
        OPTIMIZER,
        num_steps=60,
        loss=loss,
        batch_size=batch_size,
        warm_start=warm_start,
    )
    dataset, weights = make_dataset(*XOR), jnp.array([0.4, 0.3, 0.3, 0.0])

    @jax.jit
    def three_rounds(key):
        def step(state, _):
            proposal = learner.propose(state, weights)
            return proposal.state, (proposal.values[0], proposal.outputs[0])

        return jax.lax.scan(step, learner.init(key, dataset), None, length=3)[1]

    values, outputs = three_rounds(jax.random.key(1))
    assert (np.sign(outputs[:, :3]) == XOR[1][:3]).all()
    if warm_start:
        assert values[0] < values[1] <= values[2]
    else:
        assert len(np.unique(values)) == 3


def test_a_model_that_goes_wrong_is_turned_round():
    def wrong(params, features):
        return params - features[:, 0]

    learner = learners.trained(
        lambda key, features: jnp.zeros(()), wrong, optax.sgd(0.0), num_steps=1
    )
    proposal, again = propose_one(
        learner, make_dataset([[1.0], [-1.0]], [1, -1]), jnp.array([0.5, 0.5]), jax.random.key(0)
    )
    assert proposal.hypotheses.sign.tolist() == [-1.0]
    np.testing.assert_allclose(proposal.outputs, np.tanh([[1.0, -1.0]]), rtol=1e-6)
    np.testing.assert_allclose(again, proposal.outputs, rtol=1e-6)


def _init(key, dataset):
    return dataset.features.T, dataset.labels


def _propose(state, example_weights):
    columns, labels = state
    edges = columns @ (labels * example_weights)
    return Proposal(jnp.arange(len(columns)), columns, edges, jnp.asarray(jnp.inf), state)


def _outputs(hypothesis, features):
    return features[:, hypothesis]


@pytest.mark.slow
def test_equal_calls_do_not_recompile(compilations):
    dataset = make_dataset(np.eye(4, 3, dtype=np.float32), [1, -1, 1, -1])
    weights = jnp.full(4, 0.25)
    make = (
        lambda: learners.pool(num_proposed=2),
        lambda: learners.literals(),
        lambda: learners.stumps(),
        lambda: learners.signs(learners.pool()),
        lambda: learners.from_functions(_init, _propose, _outputs),
        lambda: learners.trained(*learners.mlp((3,)), OPTIMIZER, num_steps=2),
    )
    keys = [None] * 5 + [jax.random.key(0)]
    first = [propose_one(one(), dataset, weights, key) for one, key in zip(make, keys, strict=True)]
    before = compilations()
    second = [
        propose_one(one(), dataset, weights, key) for one, key in zip(make, keys, strict=True)
    ]
    assert compilations() == before
    jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.mark.slow
def test_64_bits(x64):
    rng = np.random.default_rng(5)
    features, labels = rng.uniform(-1, 1, (50, 5)), rng.choice([-1, 1], 50)
    weights = rng.dirichlet(np.ones(50))
    features[1] = np.nextafter(features[0], 2)  # equal in float32
    dataset = make_dataset(features, labels)
    pool, _ = propose_one(learners.pool(), dataset, jnp.asarray(weights))
    stump, again = propose_one(learners.stumps(), dataset, jnp.asarray(weights))
    edges = [abs(edge_of(column, labels, weights)) for column in features.T]
    stumps = [
        abs(edge_of(answers, labels, weights))
        for column in features.T
        for answers in stumps_of(column, False)
    ]
    for proposal, exact in (
        (pool, max(edges)),
        (stump, max(*stumps, abs(edge_of(np.ones(50), labels, weights)))),
    ):
        assert (
            proposal.outputs.dtype
            == proposal.values.dtype
            == proposal.upper_bound.dtype
            == np.float64
        )
        assert abs(Fraction(float(proposal.values[0])) - exact) < 1e-13
        assert exact <= Fraction(float(proposal.upper_bound)) < exact + Fraction(1e-12)
    assert (again == stump.outputs).all()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: learners.pool(num_proposed=0), "num_proposed is 0"),
        (lambda: learners.pool(criterion="gini"), "criterion is 'gini'"),
        (lambda: learners.literals(num_proposed=1.5), "num_proposed is 1.5"),
        (lambda: learners.stumps(abstain=1), "abstain is 1"),
        (lambda: learners.stumps(criterion="z"), "criterion is 'z'"),
        (lambda: learners.replace_criterion(learners.pool(), "z"), "criterion is 'z'"),
        (lambda: learners.signs(None), "learner is None"),
        (lambda: learners.mlp(16), r"hidden_sizes is 16"),
        (lambda: learners.mlp((0,)), r"hidden_sizes\[0\] is 0"),
        (lambda: learners.from_functions(None, _propose, _outputs), "init is None"),
        (lambda: learners.trained(*learners.mlp(()), "adam"), "optimizer is 'adam'"),
        (lambda: learners.trained(*learners.mlp(()), OPTIMIZER, loss="hinge"), "loss is 'hinge'"),
        (lambda: learners.trained(*learners.mlp(()), OPTIMIZER, num_steps=0), "num_steps is 0"),
        (lambda: learners.trained(*learners.mlp(()), OPTIMIZER, batch_size=0), "batch_size is 0"),
        (lambda: learners.trained(None, None, OPTIMIZER), "init is None"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_costs_that_are_traced_are_named():
    for make in (learners.pool, learners.literals, learners.stumps):
        with pytest.raises(ValueError, match="cost is traced"):
            jax.eval_shape(lambda cost, make=make: jnp.zeros(make(cost=cost).num_proposed), 1.0)


@pytest.mark.slow
def test_bad_data_are_named():
    dataset = Dataset(jnp.zeros((3, 2)), jnp.ones(3), jnp.ones(3), jnp.ones(3, bool))
    for learner, message in (
        (learners.pool(num_proposed=3), "num_proposed is 3, but the features have 2 columns"),
        (learners.stumps(num_proposed=4), "num_proposed is 4"),
        (learners.trained(*learners.mlp(()), OPTIMIZER), "key is None"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.init(None, dataset)
    for learner in (learners.pool(), learners.stumps()):
        with pytest.raises(ValueError, match=r"costs has shape \[3\]: expected shape \[2\]"):
            learner.propose(learner.init(None, dataset), jnp.ones(3), costs=jnp.ones(3))
    model = learners.trained(lambda key, features: (), lambda params, features: features, OPTIMIZER)
    with pytest.raises(ValueError, match=r"apply returns \[3, 2\]"):
        model.propose(model.init(jax.random.key(0), dataset), jnp.ones(3))


@pytest.mark.parametrize("learner", [learners.pool(), slow(learners.monomials(1))])
def test_no_example_is_invalid_input(learner):
    fitted = jboost.adaboost.fit(jboost.make_dataset(np.zeros((0, 2)), []), learner, max_rounds=2)
    assert int(fitted.status) == jboost.status.Status.INVALID_INPUT
    assert int(fitted.num_rounds) == 0


def test_a_cost_function_of_one_number_is_named():
    dataset = Dataset(jnp.ones((3, 2)), jnp.ones(3), jnp.ones(3), jnp.ones(3, bool))
    for cost in (lambda *_: 1.0, lambda *_: jnp.ones(())):
        with pytest.raises(
            ValueError, match=r"cost\(orders, ...\) has shape \[\]: expected shape \[2\]"
        ):
            learners.monomials(2, cost=cost).init(None, dataset)
