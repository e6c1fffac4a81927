"""Matrices in one, two, eight or sixteen bits an entry, against numpy's products in integers and
64-bit floats.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import jboost
from jboost import lp, lpboost, operators, relaxations, relaxed_margin
from jboost.base.status import Status
from jboost.operators import packed
from jboost.operators.stored import Stored
from marks import slow

SIZES = (0, 1, 7, 8, 9, 63, 64, 65)


def draw_signs(shape, *, zeros=False, seed=0, bias=0.5):
    random = np.random.default_rng(seed)
    signs = np.where(random.random(shape) < bias, 1, -1)
    return (
        np.where(random.random(shape) < 0.3, 0, signs).astype(np.int8)
        if zeros
        else signs.astype(np.int8)
    )


# --- packed signs ---------------------------------------------------------------------------------


@jax.jit
def all_products(operators_and_vectors):
    return [
        (operator.matvec(x), operator.rmatvec(y), operator.to_dense())
        for operator, x, y in operators_and_vectors
    ]


@pytest.mark.parametrize("zeros", [False, True])
def test_packed_signs_products_are_exact_for_integers(monkeypatch, zeros):
    monkeypatch.setattr(packed, "_FEWEST_ROWS", 4)  # several blocks, the last of which overlaps
    monkeypatch.setattr(packed, "_MOST_ROWS", 4)
    all_products.clear_cache()
    matrices = [draw_signs((18, size), zeros=zeros, seed=size) for size in SIZES]
    random = np.random.default_rng(1)
    vectors = [
        (random.integers(-1000, 1000, size), random.integers(-1000, 1000, 18)) for size in SIZES
    ]
    cases = [
        (operators.packed_signs(matrix, zeros=zeros), *pair)
        for matrix, pair in zip(matrices, vectors, strict=True)
    ]
    for matrix, (x, y), found in zip(matrices, vectors, all_products(cases), strict=True):
        assert found[0].dtype == found[1].dtype == jnp.int32
        np.testing.assert_array_equal(found[0], matrix.astype(np.int64) @ x)
        np.testing.assert_array_equal(found[1], y @ matrix.astype(np.int64))
        np.testing.assert_array_equal(found[2], matrix)
    all_products.clear_cache()


def test_packed_signs_takes_the_bits_that_it_says():
    assert operators.packed_signs(draw_signs((5, 17))).bits.shape == (5, 3)
    assert operators.packed_signs(draw_signs((5, 17), zeros=True)).bits.shape == (5, 6)
    assert operators.packed_signs(draw_signs((5, 17)), zeros=True).bits.shape == (5, 6)
    bits = operators.packed_signs([[1, -1, -1, 0, 1, 1, 1, -1, 1]]).bits
    assert bits.tolist() == [[0b01110001, 1, 0b10000110, 0]]


def test_packed_signs_of_blocks_equals_that_of_the_matrix():
    for zeros in (False, True):
        matrix = draw_signs((10, 13), zeros=zeros)
        whole = operators.packed_signs(matrix)
        blocks = [np.ones((0, 13)), matrix[:1], matrix[1:7].astype(float), matrix[7:]]
        for given in (
            iter(blocks),
            lambda blocks=blocks: blocks,
            lambda blocks=blocks: (block for block in blocks),
        ):
            assert operators.packed_signs(given) == whole
    mixed = [np.ones((2, 3)), np.array([[0, 1, -1]])]  # zeros in the second block alone
    np.testing.assert_array_equal(
        operators.packed_signs(iter(mixed)).to_dense(), np.concatenate(mixed)
    )


def test_packed_signs_inside_jit_equals_that_on_the_host():
    matrix = draw_signs((6, 10), zeros=True)
    assert jax.jit(operators.packed_signs)(matrix) == operators.packed_signs(matrix, zeros=True)
    signs = draw_signs((6, 10)).astype(np.float32)
    assert jax.jit(lambda signs: operators.packed_signs(signs, zeros=False))(
        signs
    ) == operators.packed_signs(signs)
    stacked = jax.vmap(operators.packed_signs)(np.stack([matrix, -matrix]))
    np.testing.assert_array_equal(jax.vmap(lambda one: one.to_dense())(stacked), [matrix, -matrix])
    assert jax.jit(lambda a: operators.packed_signs(a).largest_entry())(matrix * 2) == jnp.inf


def test_packed_signs_derivatives_are_the_products():
    matrix = draw_signs((12, 9), zeros=True).astype(np.float32)
    operator, random = operators.packed_signs(matrix), np.random.default_rng(2)
    x, y = (random.normal(size=size).astype(np.float32) for size in (9, 12))
    value, tangent = jax.jvp(operator.matvec, (x,), (2 * x,))
    np.testing.assert_allclose(tangent, 2 * value, rtol=1e-6)
    np.testing.assert_allclose(
        jax.vjp(operator.matvec, x)[1](y)[0], y @ matrix, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        jax.vjp(operator.rmatvec, y)[1](x)[0], matrix @ x, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(jax.vmap(operator.matvec)(np.eye(9)), matrix.T)


def test_packed_signs_sum_equal_terms_as_precisely_as_stated():
    operator = operators.packed_signs(np.ones((100_000, 3), np.int8))
    found = operator.rmatvec(jnp.full((100_000,), 0.1))
    np.testing.assert_allclose(found, 100_000 * np.float64(np.float32(0.1)), rtol=1e-4)


def test_packed_signs_products_take_little_memory():
    operator = operators.packed_signs(draw_signs((100_000, 1000)))
    assert operator.bits.nbytes == 12_500_000  # 400 MB in float32
    for product, size in (
        (packed.PackedSigns.matvec, 1000),
        (packed.PackedSigns.rmatvec, 100_000),
        (packed.PackedSigns.bracket_rmatvec, 100_000),
    ):
        compiled = (
            jax.jit(product).lower(operator, jax.ShapeDtypeStruct((size,), jnp.float32)).compile()
        )
        assert compiled.memory_analysis().temp_size_in_bytes <= 6_000_000


def test_packed_signs_adjoint():
    operators.check_adjoint(operators.packed_signs(draw_signs((40, 30), zeros=True)))
    operators.check_adjoint(operators.packed_signs(draw_signs((3000, 9))))


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([[1, -1], [1, 2]], {}, r"matrix_or_blocks\[1, 1\] is 2: expected -1, 0 or \+1"),
        ([[1, 0]], {"zeros": False}, r"matrix_or_blocks\[0, 1\] is 0: .* pass zeros=True"),
        ([[np.nan]], {}, r"matrix_or_blocks\[0, 0\] is nan"),
        ([1, -1], {}, r"matrix_or_blocks has shape \[2\]: expected shape \[rows, columns\]"),
        ([["a"]], {}, "matrix_or_blocks has dtype"),
        (iter([]), {}, "yields no block"),
        (
            iter([np.ones((1, 2)), np.ones((1, 3))]),
            {},
            r"the block from row 1 on has 3 columns, those before it 2",
        ),
        (iter([np.ones((3, 2)), np.full((1, 2), 3)]), {}, r"matrix_or_blocks\[3, 0\] is 3"),
        (lambda: 3, {}, "returns a int: expected an iterable"),
        ([[1]], {"zeros": 2}, "zeros is 2"),
    ],
)
def test_packed_signs_refuses(given, options, message):
    with pytest.raises(ValueError, match=message):
        operators.packed_signs(given, **options)


# --- stored ---------------------------------------------------------------------------------------


def test_stored_keeps_integers_and_rounds_to_bfloat16(monkeypatch):
    monkeypatch.setattr(sys.modules["jboost.operators.stored"], "_BLOCK_ENTRIES", 30)
    random = np.random.default_rng(3)
    integers = random.integers(-128, 128, (17, 6))
    operator = operators.stored(integers, scale=1 / 128)
    np.testing.assert_array_equal(operator.to_dense(), integers / 128)
    assert operator.matrix.dtype == jnp.int8
    assert operator.largest_entry() == np.abs(integers).max() / 128
    y = random.integers(-50, 50, 17)
    low, high = operator.bracket_rmatvec(y)
    np.testing.assert_array_equal(low, y @ integers / 128)  # no rounding anywhere
    np.testing.assert_array_equal(high, low)
    np.testing.assert_allclose(operator.rmatvec(y), y @ integers / 128, rtol=1e-5)
    real = random.normal(size=(17, 6))
    rounded = operators.stored(real, "bfloat16")
    assert np.all(np.abs(rounded.to_dense() - real) <= 2.0**-8 * np.abs(real))
    np.testing.assert_array_equal(
        rounded.to_dense(), jnp.asarray(real).astype(jnp.bfloat16).astype(jnp.float32)
    )
    for one in (operator, rounded):
        operators.check_adjoint(one)


def test_stored_products_take_little_memory():
    for operator in (
        operators.stored(np.ones((20_000, 1000), np.int8)),
        operators.stored(np.ones((20_000, 1000), np.float32), "bfloat16"),
    ):
        for product, size in (
            (Stored.matvec, 1000),
            (Stored.rmatvec, 20_000),
            (Stored.bracket_rmatvec, 20_000),
        ):
            compiled = (
                jax.jit(product)
                .lower(operator, jax.ShapeDtypeStruct((size,), jnp.float32))
                .compile()
            )
            assert compiled.memory_analysis().temp_size_in_bytes <= 2_500_000


def test_stored_refuses():
    for given, dtype, message in (
        ([[0.5]], "int8", r"matrix\[0, 0\] is 0.5: expected integers"),
        ([[1, 200]], "int8", r"matrix\[0, 1\] is 200"),
        ([[1]], "int4", "dtype is 'int4'"),
        ([1], "bfloat16", r"matrix has shape \[1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            operators.stored(given, dtype)
    with pytest.raises(ValueError, match="scale"):
        operators.stored([[1]], scale=-1.0)


# --- games ----------------------------------------------------------------------------------------


def optimum_of_game(matrix, nu, *, signed):
    """The largest soft margin by HiGHS; votes of either sign with |w|_1 <= 1, or of one sign with
    sum one.
    """
    num_rows = len(matrix)
    columns = np.hstack([matrix, -matrix]) if signed else matrix
    votes = columns.shape[1]
    costs = np.r_[np.zeros(votes), -1, np.full(num_rows, 1 / (nu * num_rows))]
    rows = np.hstack([-columns, np.ones((num_rows, 1)), -np.eye(num_rows)])
    total = np.r_[np.ones(votes), 0, np.zeros(num_rows)][None]
    bounds = [(0, None)] * votes + [(None, None)] + [(0, None)] * num_rows
    if signed:
        found = linprog(
            costs,
            A_ub=np.vstack([rows, total]),
            b_ub=np.r_[np.zeros(num_rows), 1],
            bounds=bounds,
            method="highs",
        )
    else:
        found = linprog(
            costs,
            A_ub=rows,
            b_ub=np.zeros(num_rows),
            A_eq=total,
            b_eq=[1],
            bounds=bounds,
            method="highs",
        )
    return -found.fun


def stores(matrix):
    return [operators.packed_signs(matrix, zeros=True), operators.stored(matrix)]


@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_relaxed_margin_solve_of_operators_bounds_the_optimum_of_highs(which):
    matrix = draw_signs((120, 15), zeros=True, bias=0.8)
    operator, relaxation = stores(matrix)[which], relaxations.soft_margin(nu=0.2)
    optimum = optimum_of_game(matrix.astype(float), 0.2, signed=True)
    assert optimum > 0.02
    found = relaxed_margin.solve(operator, relaxation)
    dense = relaxed_margin.solve(matrix, relaxation)
    assert found.status == dense.status == Status.OPTIMAL
    assert found.lower_bound - 1e-9 <= optimum <= found.upper_bound + 1e-9
    assert found.upper_bound - found.lower_bound <= 1e-3
    assert abs(found.lower_bound - dense.lower_bound) <= 1e-3
    margins = matrix.astype(np.float64) @ np.asarray(found.coefficients, np.float64)
    # the soft margin of these votes: the mean of the least nu m
    worst = np.sort(margins)[:24].mean()
    assert found.lower_bound <= worst + 1e-12
    weights = np.asarray(found.example_weights, np.float64)
    assert np.abs(weights / weights.sum() @ matrix).max() <= found.upper_bound + 1e-12


@pytest.mark.slow
def test_relaxed_margin_solve_of_operators_is_mapped_over_matrices_and_nus():
    matrices = np.stack([draw_signs((40, 6), zeros=True, bias=0.8, seed=seed) for seed in (1, 2)])
    nus = np.array([0.2, 0.4], np.float32)

    def solve(matrix, nu):
        return relaxed_margin.solve(
            operators.packed_signs(matrix), relaxations.soft_margin(nu=nu), tolerance=1e-3
        )

    found = jax.jit(jax.vmap(solve))(matrices, nus)
    for index, (matrix, nu) in enumerate(zip(matrices, nus, strict=True)):
        optimum = optimum_of_game(matrix.astype(float), float(nu), signed=True)
        assert found.status[index] == Status.OPTIMAL
        assert found.lower_bound[index] - 1e-6 <= optimum <= found.upper_bound[index] + 1e-6


@pytest.mark.slow
def test_relaxed_margin_solve_of_packed_signs_takes_the_memory_that_it_says():
    num_rows, num_columns = 100_000, 1000
    bits = jax.ShapeDtypeStruct((num_rows, num_columns // 8), jnp.uint8)
    operator = packed.PackedSigns(bits, jax.ShapeDtypeStruct((), jnp.float32), num_columns, False)
    solve = jax.jit(
        lambda operator: relaxed_margin.solve(operator, relaxations.soft_margin(nu=0.1))
    )
    memory = solve.lower(operator).compile().memory_analysis()
    # 1.2 GB for the float32 matrix
    assert memory.temp_size_in_bytes <= bits.size + 20 * 4 * num_rows + 4_000_000


def test_relaxed_margin_solve_of_an_operator_ignores_rows_that_pad():
    matrix = draw_signs((60, 8), bias=0.6)
    mask, relaxation = np.arange(60) < 40, relaxations.soft_margin(nu=0.3)
    found = relaxed_margin.solve(operators.packed_signs(matrix), relaxation, mask=mask)
    optimum = optimum_of_game(matrix[:40].astype(float), 0.3, signed=True)
    assert found.lower_bound - 1e-9 <= optimum <= found.upper_bound + 1e-9
    assert found.upper_bound - found.lower_bound <= 1e-3


def test_solvers_refuse_operators_whose_entries_are_too_large_or_not_known():
    assert (
        relaxed_margin.solve(operators.stored([[1, 2], [1, 1]]), relaxations.hard_margin()).status
        == Status.INVALID_INPUT
    )
    unknown = operators.from_functions(lambda x: x, lambda y: y, (2, 2))
    for solve in (
        lambda: relaxed_margin.solve(unknown, relaxations.hard_margin()),
        lambda: lpboost.solve(unknown),
    ):
        with pytest.raises(
            ValueError,
            match="margins is a FromFunctions, of which it is not known that entries lie in",
        ):
            solve()


def test_lpboost_solve_of_packed_signs_bounds_the_optimum_of_highs():
    matrix = draw_signs((120, 15), bias=0.55)
    operator = operators.packed_signs(matrix)
    found = lpboost.solve(operator, nu=0.2, tolerance=1e-3)
    optimum = optimum_of_game(matrix.astype(float), 0.2, signed=False)
    assert found.lower_bound - 1e-9 <= optimum <= found.upper_bound + 1e-9
    assert found.status == Status.OPTIMAL
    assert found.upper_bound - found.lower_bound <= 1e-3
    with pytest.raises(
        ValueError, match="config asks for the method of SimplexConfig, .*FirstOrderConfig"
    ):
        lpboost.solve(operator, config=lpboost.SimplexConfig())
    with pytest.raises(
        ValueError, match="config asks for the method of InteriorPointConfig, .*to_dense"
    ):
        lpboost.solve(operator, config=lp.InteriorPointConfig())


def test_operators_of_dense_matrices_take_the_way_of_matrices():
    matrix = draw_signs((60, 8), bias=0.6).astype(np.float32)
    one, other = (
        jboost.lpboost.solve(given, nu=0.3) for given in (matrix, operators.dense(matrix))
    )
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), one, other))


# --- pools of packed columns ----------------------------------------------------------------------


def pool_cases():
    features = draw_signs((200, 21), seed=4)
    labels = np.where(features[:, :7].sum(axis=1) + features[:, 8] > 0, 1, -1)
    mask = np.arange(200) % 11 != 0
    return features, labels, mask


@pytest.mark.parametrize("pack", [operators.packed_signs, slow(operators.stored)])
def test_adaboost_over_a_packed_pool_equals_that_over_the_matrix(pack):
    features, labels, mask = pool_cases()
    packed_features = pack(features)
    fits = [
        jboost.adaboost.fit(
            jboost.make_dataset(given, labels, mask=mask), jboost.learners.pool(), max_rounds=8
        )
        for given in (features.astype(float), packed_features)
    ]
    dense, found = fits
    np.testing.assert_array_equal(found.ensemble.hypotheses.index, dense.ensemble.hypotheses.index)
    np.testing.assert_allclose(found.ensemble.votes, dense.ensemble.votes, rtol=1e-4)
    np.testing.assert_allclose(found.trace.edges, dense.trace.edges, rtol=1e-4)
    scores = jboost.predict_scores(found.ensemble, packed_features)
    np.testing.assert_allclose(
        scores, jboost.predict_scores(found.ensemble, features.astype(float)), rtol=1e-5, atol=1e-5
    )
    jboost.validate(jboost.make_dataset(packed_features, labels))


@pytest.mark.slow
def test_a_packed_pool_proposes_what_the_matrix_does_with_valid_bounds():
    features, labels, mask = pool_cases()
    weights = np.random.default_rng(5).random(200) * mask
    weights = (weights / weights.sum()).astype(np.float32)
    edges = (weights.astype(np.float64) * labels) @ features
    for learner in (
        jboost.learners.pool(num_proposed=4),
        jboost.learners.pool(num_proposed=4, negations=False),
    ):
        dataset = jboost.make_dataset(operators.packed_signs(features), labels, mask=mask)
        state = learner.init(None, dataset)
        proposal = learner.propose(state, jnp.asarray(weights))
        sizes = np.abs(edges) if learner.has_negations else edges
        order = np.argsort(-sizes)[:4]
        np.testing.assert_array_equal(proposal.hypotheses.index, order)
        np.testing.assert_array_equal(
            proposal.outputs,
            np.where(mask, np.asarray(proposal.hypotheses.sign)[:, None] * features.T[order], 0),
        )
        assert sizes.max() <= float(proposal.upper_bound) <= sizes.max() + 1e-6
        assert bool(learner.outputs_are_signs(state))
        assert bool(learner.never_abstains(state))


@pytest.mark.slow
def test_l0_over_a_packed_pool_equals_that_over_the_matrix():
    features, labels, mask = (part[:30] for part in pool_cases())
    features = features[:, :6]
    learner = jboost.learners.pool(cost=0.5)
    fits = [
        jboost.l0.fit(
            jboost.make_dataset(given, labels, mask=mask), learner, margin=0.1, max_rounds=12
        )
        for given in (features, operators.packed_signs(features))
    ]
    assert fits[0].status == fits[1].status
    np.testing.assert_allclose(
        fits[0].certificate.lower_bound, fits[1].certificate.lower_bound, rtol=1e-4
    )
    np.testing.assert_allclose(
        fits[0].certificate.upper_bound, fits[1].certificate.upper_bound, rtol=1e-4
    )


def test_a_packed_pool_is_priced_for_l0_in_blocks_of_columns():
    """With as many values as for the matrix, and in a part of the memory of all columns.

    A block of 64 columns and 256 pairs takes 262 kB in any case, so the columns are many.
    """
    generator = np.random.default_rng(4)
    features, labels = generator.choice([-1.0, 1.0], (40, 12_000)), generator.choice([-1, 1], 40)
    pairs = np.where(labels[:, None] > labels[None, :], generator.random((40, 40)), 0)
    weights = generator.random(40)
    learner = jboost.learners.pool(cost=0.5)

    def propose(given):
        dataset = jboost.make_dataset(given, labels)
        state = learner.init(None, dataset)
        signs = learner.outputs_are_signs(state) & learner.never_abstains(state)
        return learner.propose(state, jnp.asarray(weights), pair_weights=jnp.asarray(pairs)), signs

    packed = operators.packed_signs(features)
    (found, are_signs), (expected, _) = propose(packed), propose(jnp.asarray(features))
    assert bool(are_signs)
    np.testing.assert_array_equal(found.hypotheses.index, expected.hypotheses.index)
    np.testing.assert_array_equal(found.outputs, expected.outputs)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-5)
    memory = jax.jit(propose).lower(packed).compile().memory_analysis()
    assert memory.temp_size_in_bytes < features.size * 4 / 2


def test_learners_refuse_packed_features_that_they_cannot_take():
    features, labels, _ = pool_cases()
    dataset = jboost.make_dataset(operators.packed_signs(features), labels)
    for learner, what in (
        (jboost.learners.literals(), "literals"),
        (jboost.learners.pool(criterion="normalizer"), "the criterion 'normalizer'"),
    ):
        with pytest.raises(
            ValueError, match=f"dataset has packed features, which {what} cannot take"
        ):
            jboost.adaboost.fit(dataset, learner)


# --- stumps over codes ----------------------------------------------------------------------------


@pytest.mark.parametrize("abstain", [False, True])
def test_quantised_stumps_propose_what_stumps_do_on_the_codes(abstain):
    random = np.random.default_rng(6)
    codes = np.stack([random.integers(0, 6, (50, 5)), random.integers(0, 256, (50, 5))]).astype(
        np.uint8
    )
    codes[:, :, 3] = 255  # a feature without a split
    labels, mask = random.choice([-1, 1], (2, 50)), random.random((2, 50)) < 0.9
    weights = random.integers(0, 5, (2, 50)) * mask / 1024  # ties, zeros, and sums without rounding
    found, wanted = (
        jax.jit(
            jax.vmap(
                lambda features, labels, mask, weights, learner=learner: propose_once(
                    learner, features, labels, mask, weights
                )
            )
        )(given, labels, mask, weights.astype(np.float32))
        for learner, given in (
            (jboost.learners.quantised_stumps(abstain=abstain, num_proposed=6), codes),
            (jboost.learners.stumps(abstain=abstain, num_proposed=6), codes.astype(np.float32)),
        )
    )
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)


def propose_once(learner, features, labels, mask, weights):
    proposal = learner.propose(
        learner.init(None, jboost.make_dataset(features, labels, mask=mask)), weights
    )
    return proposal._replace(state=None)


def test_adaboost_with_quantised_stumps_equals_that_with_stumps():
    random = np.random.default_rng(7)
    codes = random.integers(0, 256, (300, 4)).astype(np.uint8)
    labels = np.where(
        codes[:, 0].astype(int) + codes[:, 1] + random.integers(0, 60, 300) > 280, 1, -1
    )
    fits = [
        jboost.adaboost.fit(jboost.make_dataset(features, labels), learner, max_rounds=10)
        for learner, features in (
            (jboost.learners.quantised_stumps(), codes),
            (jboost.learners.stumps(), codes.astype(np.float32)),
        )
    ]
    np.testing.assert_array_equal(
        fits[0].ensemble.hypotheses.feature, fits[1].ensemble.hypotheses.feature
    )
    np.testing.assert_array_equal(
        fits[0].ensemble.hypotheses.threshold, fits[1].ensemble.hypotheses.threshold
    )
    np.testing.assert_allclose(fits[0].trace.edges, fits[1].trace.edges, rtol=1e-5)
    np.testing.assert_allclose(
        jboost.predict_scores(fits[0].ensemble, codes),
        jboost.predict_scores(fits[1].ensemble, codes),
        rtol=1e-4,
        atol=1e-5,
    )


def test_quantised_stumps_of_no_feature_are_the_constant_and_others_are_refused():
    learner = jboost.learners.quantised_stumps()
    dataset = jboost.make_dataset(np.zeros((3, 0), np.uint8), [1, -1, 1])
    proposal = learner.propose(learner.init(None, dataset), jnp.full((3,), 0.25))
    assert proposal.outputs.tolist() == [[1, 1, 1]]
    with pytest.raises(
        ValueError, match="features have dtype float32: expected codes of dtype uint8"
    ):
        jboost.adaboost.fit(jboost.make_dataset([[1.0]], [1]), learner)
    with pytest.raises(ValueError, match="num_proposed is 3"):
        jboost.adaboost.fit(
            jboost.make_dataset(np.zeros((2, 1), np.uint8), [1, -1]),
            jboost.learners.quantised_stumps(num_proposed=3),
        )
    with pytest.raises(ValueError, match="pair_weights is not None"):
        learner.propose(
            learner.init(None, dataset), jnp.full((3,), 0.25), pair_weights=jnp.zeros((3, 3))
        )


# --- streamed blocks ------------------------------------------------------------------------------


def test_streamed_products_are_those_of_the_matrix(tmp_path):
    matrix = draw_signs((50, 9), seed=8)
    np.save(tmp_path / "rows.npy", matrix[35:].astype(np.float32))
    blocks = [
        operators.packed_signs(matrix[:20]),
        operators.stored(matrix[20:35]),
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
    ]
    random = np.random.default_rng(9)
    x, y = random.integers(-50, 50, 9), random.integers(-50, 50, 50)
    for pinned in (None, True):
        operator = operators.streamed(blocks, pinned=pinned)
        assert operator.shape == (50, 9)
        wide = matrix.astype(np.int64)
        for found in (operator.matvec(x), *operator.bracket_matvec(x)):
            np.testing.assert_array_equal(found, wide @ x)
        np.testing.assert_array_equal(operator.rmatvec(y), y @ wide)
        low, high = operator.bracket_rmatvec(y)
        assert np.all((low <= y @ wide) & (y @ wide <= high) & (high - low <= 1e-3))
        np.testing.assert_array_equal(operator.row_norms(np.abs(x)), np.abs(x).sum() * np.ones(50))
        np.testing.assert_array_equal(
            operator.column_norms(np.abs(y)), np.abs(y).sum() * np.ones(9)
        )
        np.testing.assert_array_equal(operator.to_dense(), matrix)
        assert operator.largest_entry() == 1


def test_streamed_refuses():
    with pytest.raises(ValueError, match="blocks is no list of one block or more"):
        operators.streamed([])
    with pytest.raises(ValueError, match=r"blocks\[1\] has 3 columns, blocks\[0\] has 2"):
        operators.streamed([np.ones((1, 2)), np.ones((1, 3))])
    with pytest.raises(ValueError, match=r"blocks\[0\] has shape \[2\]"):
        operators.streamed([np.ones(2)])


@pytest.mark.slow
def test_relaxed_margin_solve_of_streamed_blocks_equals_that_of_one_operator():
    matrix = draw_signs((120, 15), bias=0.7)
    relaxation = relaxations.soft_margin(nu=0.2)
    whole = relaxed_margin.solve(operators.packed_signs(matrix), relaxation)
    streamed = operators.streamed(
        [operators.packed_signs(matrix[start : start + 50]) for start in (0, 50, 100)]
    )
    found = relaxed_margin.solve(streamed, relaxation)
    optimum = optimum_of_game(matrix.astype(float), 0.2, signed=True)
    assert found.status == Status.OPTIMAL
    assert found.lower_bound - 1e-9 <= optimum <= found.upper_bound + 1e-9
    assert found.upper_bound - found.lower_bound <= 1e-3
    assert abs(found.lower_bound - whole.lower_bound) <= 1e-3
    with pytest.raises(
        ValueError, match="margins are streamed from the host, which jit and vmap cannot do"
    ):
        jax.jit(lambda tolerance: relaxed_margin.solve(streamed, relaxation, tolerance=tolerance))(
            1e-3
        )
    large = operators.streamed([np.full((3, 2), 2.0)])
    assert relaxed_margin.solve(large, relaxations.hard_margin()).status == Status.INVALID_INPUT
    with pytest.raises(ValueError, match="margins are streamed"):
        lpboost.solve(streamed)


@pytest.mark.parametrize(
    "make",
    [
        jboost.operators.packed_signs,
        lambda signs: jboost.operators.stored(signs, "int8", scale=0.5),
    ],
)
def test_rows_divided_over_a_mesh_give_the_same_products(make):
    rng = np.random.default_rng(0)
    for num_rows in (8, 6):  # the second is not divided evenly
        operator = make(rng.choice([-1, 1], (num_rows, 11)))
        mesh = jax.sharding.Mesh(
            np.array(jax.devices()[:4]), ("examples",), axis_types=(jax.sharding.AxisType.Auto,)
        )
        right, left = (
            rng.normal(size=11).astype(np.float32),
            rng.normal(size=num_rows).astype(np.float32),
        )

        def products(operator, right, left):
            ways = (
                operator.matvec(right),
                operator.rmatvec(left),
                operator.column_norms(jnp.abs(left)),
                operator.row_norms(jnp.abs(right)),
            )
            return *ways, *operator.bracket_matvec(right), *operator.bracket_rmatvec(left)

        alone = jax.jit(products)(operator, right, left)
        with jax.set_mesh(mesh):
            found = jax.jit(products)(operator, right, left)
        assert all(
            np.allclose(one, other, rtol=1e-6, atol=1e-6)
            for one, other in zip(found, alone, strict=True)
        )
        exact = np.asarray(operator.to_dense(), np.float64) @ right.astype(np.float64)
        assert (np.asarray(found[4]) <= exact).all()
        assert (np.asarray(found[5]) >= exact).all()
