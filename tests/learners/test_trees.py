"""Trees against all trees, one by one: the best of depth 2 in exact arithmetic, its bound by HiGHS
over the pool of all trees, and each greedy split against all splits of its node.

Weights are integers over 64, so that sums are exact in any order.
"""

import functools
import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from jboost import learners
from jboost.base.status import Status
from jboost.learners.trees import cuts
from linear_programs import lpboost_dual_program
from marks import slow
from oracles import highs

PROBLEMS, ROWS, COLUMNS, CUTS = 24, 10, 3, 3
CATEGORICAL = (2,)
BEST = learners.trees(2, num_cuts=CUTS, categorical=CATEGORICAL)
GREEDY = learners.trees(3, num_cuts=CUTS, categorical=CATEGORICAL)


# --- oracles --------------------------------------------------------------------------------------


def thresholds_of(column, num_cuts, is_category):
    """The cuts of values without NaN, by their definition."""
    values, counts = np.unique(column, return_counts=True)
    if is_category:
        order = sorted(range(len(values)), key=lambda place: (-counts[place], place))
        return sorted(float(values[place]) for place in order[:num_cuts])
    below = np.cumsum(counts)[:-1]
    chosen = set(range(len(below)))
    if len(below) > num_cuts:
        quantiles = [
            Fraction(level * int(counts.sum()), num_cuts + 1) for level in range(1, num_cuts + 1)
        ]
        chosen = {min(chosen, key=lambda gap: (abs(below[gap] - one), gap)) for one in quantiles}
    return [(float(values[gap]) + float(values[gap + 1])) / 2 for gap in sorted(chosen)]


def splits_of(features, categorical, num_cuts):
    """Whether each row is on the right side of each split, [K, m]; the first splits nothing."""
    rights = [np.zeros(len(features), bool)]
    for index, column in enumerate(features.T):
        missing, is_category = np.isnan(column), index in categorical
        for threshold in thresholds_of(column[~missing], num_cuts, is_category):
            right = column == threshold if is_category else column > threshold
            rights += [right & ~missing, right | missing]
        rights.append(missing)
    return np.unique(np.array(rights), axis=0)


def leaves_of_all(rights):
    """The leaf of each row in each tree of depth 2, [trees, m]."""
    trees = itertools.product(rights, repeat=3)
    return np.unique([2 * root + np.where(root, two, one) for root, one, two in trees], axis=0)


def edges_of(leaves, signed):
    """The edges of trees, [trees], of integers as integers."""
    return sum(np.abs(((leaves == leaf) * signed).sum(axis=1)) for leaf in range(4))


def problems(seed):
    """Small data sets with ties, duplicates, missing values, weights 0, one class, and padding that
    holds garbage.
    """
    rng = np.random.default_rng(seed)
    features = rng.choice(np.arange(6.0), (PROBLEMS, ROWS, COLUMNS)).astype(np.float32)
    features[rng.random(features.shape) < 0.15] = np.nan
    features[:4, :, 1] = features[:4, :, 0]
    features[4, :, 0], features[5, :, 2] = np.nan, 1.0
    features[6] = 1.0
    features[6, 0, 0] = 2.0  # one row differs
    features[7, :, 0] = [-np.inf, np.inf, *range(8)]
    features[8, 2:] = features[8, :1]  # almost all rows are alike
    labels = rng.choice([-1, 1], (PROBLEMS, ROWS))
    labels[9] = 1
    weights = rng.integers(0, 8, labels.shape)
    weights[10] = 0
    mask = rng.random(labels.shape) < rng.choice([0.5, 1.0], (PROBLEMS, 1))
    mask[:, :2] = True
    features[~mask] = rng.choice([np.nan, np.inf, -3.0, 0.0], features.shape)[~mask]
    features[4, :2, 1] = [0, 1]  # there is a cut
    return features, labels, np.where(mask, weights, 0), mask


@functools.cache
def compiled(learner):
    def propose(features, labels, weights, mask):
        dataset = jboost.make_dataset(features, labels, mask=mask)
        state = learner.init(None, dataset)
        proposal = learner.propose(state, weights)
        again = learner.outputs(jax.tree.map(lambda part: part[0], proposal.hypotheses), features)
        return proposal._replace(state=state), again

    return jax.jit(jax.vmap(propose))


def propose(learner, data):
    features, labels, weights, mask = data
    return jax.device_get(
        compiled(learner)(features, labels, (weights / 64).astype(np.float32), mask)
    )


# --- cuts -----------------------------------------------------------------------------------------


def test_cuts_are_those_nearest_to_quantiles_and_the_most_frequent_categories():
    data = problems(0)
    proposals, _ = propose(BEST, data)
    for index, (features, _, _, mask) in enumerate(zip(*data, strict=True)):
        for place, column in enumerate(features[mask].T):
            with np.errstate(invalid="ignore"):
                wanted = thresholds_of(column[~np.isnan(column)], CUTS, place in CATEGORICAL)
            found = proposals.state.thresholds[index, place]
            if index != 7 or place:  # infinite values have no midpoint
                assert found.tolist() == wanted + [np.inf] * (CUTS - len(wanted))


@pytest.mark.parametrize("num_cuts", [1, 2, 254])
def test_codes_tell_apart_what_cuts_tell_apart(num_cuts):
    column = np.concatenate([np.arange(300) % 40, [np.nan, -np.inf, np.inf, -0.0]]).astype("f4")
    thresholds = cuts.find(jnp.asarray(column)[None], (), num_cuts)
    codes = np.asarray(cuts.encode(jnp.asarray(column)[None], thresholds, jnp.zeros(1, bool)))[0]
    assert codes[300] == num_cuts + 1
    np.testing.assert_array_equal(
        np.delete(codes, 300),
        (np.delete(column, 300)[:, None] > np.asarray(thresholds[0])[None]).sum(axis=1),
    )
    if num_cuts == 254:
        assert len(np.unique(codes)) == 43


# --- the best tree of depth 2 ---------------------------------------------------------------------


def test_best_trees_equal_brute_force_over_all_trees():
    data = problems(1)
    proposals, again = propose(BEST, data)
    for index, (features, labels, weights, mask) in enumerate(zip(*data, strict=True)):
        rights = splits_of(features[mask], CATEGORICAL, CUTS) if index != 7 else None
        outputs = proposals.outputs[index, 0]
        np.testing.assert_array_equal(outputs[mask], again[index][mask])
        assert not outputs[~mask].any()
        assert set(outputs[mask]) <= {-1, 1}
        signed = weights * labels
        edge = int((outputs * signed).sum())
        assert edge == proposals.values[index, 0] * 64
        if rights is not None:
            assert edge == edges_of(leaves_of_all(rights), signed[mask]).max()
        assert edge / 64 <= proposals.upper_bound[index] <= edge / 64 + 2e-6


def test_the_bound_on_edges_holds_in_exact_arithmetic():
    rng = np.random.default_rng(2)
    features, labels, weights, mask = problems(2)
    weights = (rng.random(weights.shape) * 2.0 ** rng.integers(-20, 1, weights.shape)).astype("f4")
    weights[~mask] = 0
    proposals = jax.device_get(compiled(BEST)(features, labels, weights, mask))[0]
    for index in (0, 1, 2, 11, 12, 13):
        leaves = leaves_of_all(splits_of(features[index][mask[index]], CATEGORICAL, CUTS))
        terms = [
            int(label) * Fraction(float(weight))
            for label, weight in zip(labels[index], weights[index], strict=True)
        ]
        terms = np.array(terms)[mask[index]]
        edge = edges_of(leaves.astype(object), terms).max()
        assert edge <= Fraction(float(proposals.upper_bound[index]))
        assert float(proposals.upper_bound[index] - edge) <= 3e-7 * float(sum(abs(terms)))


def pool_of_all_trees(features, labels):
    """The margins [m, trees] of all trees of depth 2, negations included."""
    leaves = leaves_of_all(splits_of(features, CATEGORICAL, CUTS))
    votes = np.array(list(itertools.product([-1, 1], repeat=4)))
    outputs = np.unique(votes[:, leaves].reshape(-1, len(features)), axis=0)
    return (labels[None, :] * outputs).T


@pytest.mark.parametrize("method", ["lpboost", slow("relaxed_margin")])
def test_soft_margins_are_certified_over_all_trees_of_depth_2(method):
    features, labels, _, mask = problems(3)
    used = [index for index in range(11, PROBLEMS) if mask[index].all()][:3]
    labels[used[0]] = np.where(np.arange(ROWS) % 2, 1, -1)
    features[used[0], :, :2] = features[used[0], :1, :2]  # no tree is perfect
    for index in used:
        dataset = jboost.make_dataset(features[index], labels[index])
        if method == "lpboost":
            fitted = jboost.lpboost.fit(dataset, BEST, nu=0.4, tolerance=1e-3, max_rounds=40)
        else:
            soft = jboost.relaxations.soft_margin(nu=0.4)
            fitted = jboost.relaxed_margin.fit(
                dataset, BEST, relaxation=soft, tolerance=1e-2, max_rounds=200
            )
        best = highs.solve(
            lpboost_dual_program(pool_of_all_trees(features[index], labels[index]), 0.4)
        ).objective
        assert fitted.status == Status.OPTIMAL
        assert fitted.certificate.lower_bound <= best + 1e-6
        assert fitted.certificate.upper_bound >= best - 1e-6


# --- greedy trees ---------------------------------------------------------------------------------


def impurity_free(signed, rows):
    """S^2 / W of some rows, 0 of none."""
    weight = int(np.abs(signed[rows]).sum())
    return Fraction(int(signed[rows].sum()) ** 2, weight) if weight else Fraction(0)


def test_greedy_splits_have_the_least_gini_impurity_of_all_splits():
    data = problems(4)
    proposals, again = propose(GREEDY, data)
    for index, (features, labels, weights, mask) in enumerate(zip(*data, strict=True)):
        if index == 7:
            continue
        outputs, signed = proposals.outputs[index, 0], (weights * labels)[mask]
        np.testing.assert_array_equal(outputs[mask], again[index][mask])
        assert int((outputs[mask] * signed).sum()) == proposals.values[index, 0] * 64
        assert proposals.upper_bound[index] == np.inf
        rights = splits_of(features[mask], CATEGORICAL, CUTS)
        tree = jax.tree.map(lambda part, index=index: part[index, 0], proposals.hypotheses)
        nodes = {0: np.ones(mask.sum(), bool)}
        for node in range(7):
            rows, right = nodes[node], right_side(tree, node, features[mask])
            nodes[2 * node + 1], nodes[2 * node + 2] = rows & ~right, rows & right
            gains = [
                impurity_free(signed, rows & one) + impurity_free(signed, rows & ~one)
                for one in rights
                if signed[rows & one].any() and signed[rows & ~one].any()
            ]
            found = impurity_free(signed, rows & right) + impurity_free(signed, rows & ~right)
            assert abs(found - max(gains, default=impurity_free(signed, rows))) < 1e-9
        for leaf, vote in enumerate(tree.leaves):
            assert vote * signed[nodes[7 + leaf]].sum() >= 0


def right_side(tree, node, features):
    column, threshold = features[:, tree.feature[node]], tree.threshold[node]
    right = column == threshold if tree.feature[node] in CATEGORICAL else column > threshold
    return np.where(np.isnan(column), tree.missing_right[node], right & (threshold < np.inf))


@pytest.mark.parametrize("max_depth", [3, slow(6)])
def test_greedy_trees_are_those_of_scikit_learn(max_depth):
    tree = pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(5)
    features = rng.normal(size=(60, 4)).astype(np.float32)
    labels = np.where(features[:, 0] * features[:, 1] + rng.normal(size=60) > 0, 1, -1)
    weights = rng.random(60).astype(np.float32)
    learner = learners.trees(max_depth, num_cuts=60)
    mask = np.ones(60, bool)
    data = (features, labels, weights / weights.sum(), mask)
    proposal = compiled(learner)(*(part[None] for part in data))[0]
    peer = tree.DecisionTreeClassifier(max_depth=max_depth, random_state=0)
    peer.fit(features, labels, sample_weight=weights)
    np.testing.assert_array_equal(proposal.outputs[0, 0], peer.predict(features))


@pytest.mark.parametrize("learner", [BEST, GREEDY])
def test_empty_leaves_vote_as_the_subtree_around_them(learner):
    features, labels, weights, _ = problems(5)
    features[:] = 0
    features[:, 5:, 0] = 1
    labels[:], weights[:] = np.where(np.arange(ROWS) < 5, -1, 1), 1
    proposals, _ = propose(learner, (features, labels, weights, np.ones_like(labels, bool)))
    half = 2 ** (learner.max_depth - 1)
    assert (proposals.hypotheses.leaves == np.repeat([-1, 1], half)).all()
    assert not proposals.hypotheses.missing_right.any()  # none was missing: the left side


# --- boosters, files, words -----------------------------------------------------------------------


def checkerboard(seed=6, size=80):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 4, (size, 2)).astype(np.float32)
    labels = np.where((features[:, 0] + features[:, 1]) % 2 > 0, 1, -1)
    features[rng.random(features.shape) < 0.05] = np.nan
    return features, labels


@pytest.mark.parametrize(
    ("booster", "learner"),
    [
        (jboost.adaboost, BEST),
        (jboost.infoboost, GREEDY),
        slow(jboost.adaboost, GREEDY),
        slow(jboost.infoboost, BEST),
    ],
)
def test_boosters_lower_the_error_by_trees_and_files_hold_them(booster, learner, tmp_path):
    features, labels = checkerboard()
    features = np.concatenate([features, np.sign(features[:, :1])], axis=1)
    fitted = booster.fit(jboost.make_dataset(features, labels), learner, max_rounds=12)
    scores = np.asarray(jboost.predict_scores(fitted.ensemble, features))
    assert (np.sign(scores) == labels).mean() > 0.8
    assert np.mean(np.sign(scores) != labels) <= float(fitted.certificate.upper_bound) + 1e-6
    jboost.files.save(fitted.ensemble, tmp_path / "trees.npz")
    loaded = jboost.files.load(tmp_path / "trees.npz")
    assert loaded.learner == fitted.ensemble.learner
    np.testing.assert_array_equal(jboost.predict_scores(loaded, features), scores)


def test_a_batch_of_fits_is_a_loop_and_padding_changes_nothing():
    features, labels = checkerboard()
    features = np.concatenate([features, np.zeros((80, 1), np.float32)], axis=1)
    masks = np.random.default_rng(7).random((3, 80)) < 0.7

    def fit(features, labels, mask):
        dataset = jboost.make_dataset(features, labels, mask=mask)
        return jboost.adaboost.fit(dataset, GREEDY, max_rounds=4)

    together = jax.jit(jax.vmap(fit, in_axes=(None, None, 0)))(features, labels, masks)
    alone = jax.jit(fit)
    for index, mask in enumerate(masks):
        single, num_padded = alone(features, labels, mask), 80 - mask.sum()
        one = jax.tree.map(lambda leaf, index=index: leaf[index], together)
        jax.tree.map(
            np.testing.assert_array_equal, one.ensemble.hypotheses, single.ensemble.hypotheses
        )
        np.testing.assert_allclose(one.trace.edges, single.trace.edges, rtol=1e-6)
        moved = alone(
            np.pad(features[mask], ((0, num_padded), (0, 0)), constant_values=7.0),
            np.pad(labels[mask], (0, num_padded), constant_values=1),
            np.arange(80) < mask.sum(),
        )
        np.testing.assert_allclose(moved.trace.edges, single.trace.edges, rtol=1e-6)


def test_trees_in_words():
    leaves = np.array([1, -1, -1, -1, 1, 1, 1, -1], np.float32)
    tree = learners.Tree(
        np.array([0, 1, 2, 0, 0, 0, 0], np.int32),
        np.array([0.5, np.inf, 3, 1.5, np.inf, np.inf, 0.5], np.float32),
        np.array([0, 1, 1, 0, 0, 0, 0], bool),
        leaves,
    )
    assert GREEDY.describe(tree, ["age", "blood pressure", "kind"]) == (
        "((-1 if age > 0.5 else +1) if kind == 3 or kind is missing else +1) if age > 0.5 else"
        " (-1 if 'blood pressure' is missing else (-1 if age > 1.5 else +1))"
    )
    assert GREEDY.describe(tree, ["age > 3", "b", "c"]).endswith(
        " if age > 3 else (-1 if b is missing else (-1 if 'age > 3' > 1.5 else +1))"
    )
    assert GREEDY.places(tree).tolist() == [0, 1, 2, 0, -1, -1, 0]


# --- bad input and small sizes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: learners.trees(1), "max_depth is 1: expected an integer from 2 to 10"),
        (lambda: learners.trees(11), "max_depth is 11"),
        (lambda: learners.trees(2.0), "max_depth is 2.0"),
        (lambda: learners.trees(2, num_cuts=0), "num_cuts is 0: expected an integer from 1 to 254"),
        (lambda: learners.trees(2, num_cuts=255), "num_cuts is 255"),
        (lambda: learners.trees(2, categorical=3), "categorical is 3: expected the numbers of"),
        (lambda: learners.trees(2, categorical=(-1,)), "categorical is -1"),
        (lambda: learners.trees(2, categorical=("a",)), "categorical is 'a'"),
    ],
)
def test_bad_settings_of_trees_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_data_of_trees_are_named():
    rows = np.arange(4.0)[:, None]
    for features, labels, message in (
        (np.full((3, 2), 5.0), [1, -1, 1], "features have no cut: each of the 2 columns has one"),
        (np.full((3, 2), np.nan), [1, -1, 1], "features have no cut"),
        ([[1.0]], [1], "features have no cut"),
        # XLA compares subnormal numbers as 0
        (np.array([[1e-40], [2e-40]], np.float32), [1, -1], "features have no cut"),
        (np.zeros((3, 0)), [1, -1, 1], "features has 0 columns"),
        (np.zeros((3, 2, 2)), [1, -1, 1], "features has shape"),
        (np.zeros((0, 2)), [], "no examples"),
    ):
        with pytest.raises(ValueError, match=message):
            jboost.adaboost.fit(
                jboost.make_dataset(np.asarray(features, np.float32), labels), learners.trees(2)
            )
    with pytest.raises(ValueError, match="categorical holds 3, but the features have 1 columns"):
        jboost.adaboost.fit(
            jboost.make_dataset(rows, [1, -1, 1, 1]), learners.trees(2, categorical=[3])
        )
    learner = learners.trees(2)
    state = learner.init(None, jboost.make_dataset(rows, [1, -1, 1, 1]))
    with pytest.raises(ValueError, match="costs is not None"):
        learner.propose(state, jnp.full(4, 0.25), costs=jnp.zeros(1))


@pytest.mark.parametrize("learner", [BEST, slow(GREEDY)])
def test_traced_features_without_a_cut_are_invalid_input(learner):
    features = np.zeros((2, 6, 3), np.float32)
    features[1, 0, 0] = np.nan  # that is a cut
    labels = np.array([-1, 1, 1, 1, 1, 1])
    fit = jax.jit(
        jax.vmap(
            lambda rows: jboost.adaboost.fit(jboost.make_dataset(rows, labels), learner).status
        )
    )
    statuses = fit(features)
    assert statuses[0] == Status.INVALID_INPUT
    assert statuses[1] == Status.OPTIMAL


@pytest.mark.parametrize("max_depth", [slow(2), slow(4)])
def test_two_rows_and_64_bits(max_depth, x64):
    learner = learners.trees(max_depth)
    state = learner.init(None, jboost.make_dataset([[0.1], [0.1 + 1e-12]], [-1, 1]))
    proposal = learner.propose(state, jnp.array([0.25, 0.75]))
    assert proposal.outputs.tolist() == [[-1, 1]]
    assert proposal.values.dtype == jnp.float64
    assert proposal.upper_bound >= 1
