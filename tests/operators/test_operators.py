"""Operators against dense matrices of numpy, and their brackets against rational arithmetic."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse
from jax.experimental.sparse import BCOO
from scipy.sparse import csr_array

from jboost import operators
from marks import slow_but

CASES = ("ordinary", "huge", "small", "cancelling")


# --- operators and what they are ------------------------------------------------------------------


def apply(matrix, vector):
    return jnp.matmul(matrix, vector, precision="highest")


def apply_transposed(matrix, vector):
    return jnp.matmul(vector, matrix, precision="highest")


class Draw:
    """Numbers of one case, in one dtype."""

    def __init__(self, case, dtype, seed=0):
        self.random, self.case, self.dtype = np.random.default_rng(seed), case, dtype
        power = {"ordinary": 0, "cancelling": 0, "huge": 25, "small": -25}[case]
        self.scale = dtype(10.0) ** dtype(power * (1 if dtype is np.float32 else 7))

    def matrix(self, *shape):
        values = self.random.normal(size=shape).astype(self.dtype)
        if self.case == "cancelling":
            values[..., 1::2] = -values[..., : values.shape[-1] - 1 : 2]
        return values * self.scale

    def vector(self, size):
        values = self.random.normal(size=size).astype(self.dtype)
        if self.case == "cancelling":
            values[1::2] = np.nextafter(values[: size - 1 : 2], self.dtype(9))
        values *= self.scale ** self.dtype(0.5)
        if self.case == "small":
            # which a processor takes for 0
            values[0] = np.finfo(self.dtype).smallest_subnormal * 12345
        return values

    def bits(self, *shape):
        return self.random.integers(0, 2, shape)


def make_dense(draw):
    matrix = draw.matrix(5, 6)
    return operators.dense(matrix), matrix


def make_sparse(draw):
    matrix = draw.matrix(7, 6) * draw.bits(7, 6)
    matrix[2] = 0
    entries = 45  # more than there are: the last are padding
    rows, columns = np.nonzero(matrix)
    indices = np.full((entries, 2), (7, 6))
    indices[: len(rows)] = np.stack([rows, columns], axis=1)
    data = np.zeros(entries, draw.dtype)
    data[: len(rows)] = matrix[rows, columns]
    return operators.sparse(BCOO((jnp.asarray(data), jnp.asarray(indices)), shape=(7, 6))), matrix


def make_identity(draw):
    return operators.identity(4), np.eye(4, dtype=draw.dtype)


def make_diagonal(draw):
    values = draw.vector(6) if draw.case == "small" else draw.matrix(6)
    return operators.diagonal(values), np.diag(values)


def make_zeros(draw):
    return operators.zeros(3, 5), np.zeros((3, 5), draw.dtype)


def make_stack(draw):
    first, second = make_sparse(draw), make_dense(draw)
    return operators.stack([first[0], operators.zeros(2, 6), second[1]]), np.concatenate(
        [first[1], np.zeros((2, 6)), second[1]]
    )


def make_bordered(draw):
    (inner, inner_matrix), (core, core_matrix) = make_dense(draw), make_diagonal(draw)
    side = operators.stack([inner, operators.zeros(5, 1)], axis=1)  # blocks of blocks
    corner = draw.matrix(6, 6)
    operator = operators.bordered(
        side,
        rows=operators.stack([corner, draw.matrix(6, 1) * 0], axis=1),
        columns=np.ones((5, 6)),
        corner=core,
    )
    right = np.concatenate([np.ones((5, 6)), core_matrix])
    left = np.concatenate(
        [
            np.concatenate([inner_matrix, np.zeros((5, 1))], axis=1),
            np.concatenate([corner, np.zeros((6, 1))], axis=1),
        ]
    )
    return operator, np.concatenate([left, right], axis=1)


def make_pair_cuts(draw):
    hits, misses = draw.bits(4, 7), draw.bits(3, 7)
    return operators.pair_cuts(hits, misses), (hits[:, None] * misses[None, :]).reshape(12, 7)


def make_pair_list(draw):
    hits, misses = draw.bits(4, 7), draw.bits(3, 7)
    pairs = [[3, 2], [-1, -1], [0, 1], [3, 2], [2, 0]]
    matrix = np.stack([hits[i] * misses[j] if i >= 0 else 0 * hits[0] for i, j in pairs])
    return operators.pair_cuts(hits, misses, pairs=pairs), matrix


def cuts_by_definition(outputs, labels, mask):
    """Every pair, by the definition of S_ii'."""
    size = len(labels)
    return np.array(
        [
            [
                outputs[i, u] == labels[i] != outputs[k, u]
                and mask[i]
                and mask[k]
                and labels[i] == -labels[k]
                for u in range(outputs.shape[1])
            ]
            for i in range(size)
            for k in range(size)
        ],
        float,
    )


def draw_examples(draw):
    return (
        draw.random.integers(-1, 2, (4, 6)),
        np.array([1, -1, -1, 1]),
        np.array([True, True, True, draw.case != "huge"]),
    )


def make_pair_cuts_of(draw):
    outputs, labels, mask = draw_examples(draw)
    return operators.pair_cuts_of(outputs, labels, mask=mask), cuts_by_definition(
        outputs, labels, mask
    )


def make_pair_list_of(draw):
    outputs, labels, mask = draw_examples(draw)
    pairs = np.array([[0, 1], [0, 3], [2, 0], [-1, -1], [3, 1]])
    every = np.concatenate([cuts_by_definition(outputs, labels, mask), np.zeros((1, 6))])
    return (
        operators.pair_cuts_of(outputs, labels, mask=mask, pairs=pairs),
        every[np.where(pairs[:, 0] < 0, 16, 4 * pairs[:, 0] + pairs[:, 1])],
    )


def make_functions(draw):
    matrix = draw.matrix(5, 6)
    return (
        operators.from_functions(apply, apply_transposed, (5, 6), data=jnp.asarray(matrix)),
        matrix,
    )


def make_packed_signs(draw):
    matrix = draw.random.choice([-1, 1], (7, 11))
    return operators.packed_signs(matrix), matrix


def make_packed_signs_and_zeros(draw):
    matrix = draw.random.choice([-1, 0, 1], (6, 9))
    return operators.packed_signs(matrix, zeros=True), matrix


def make_stored_integers(draw):
    matrix = draw.random.integers(-128, 128, (5, 6))
    return operators.stored(matrix, scale=0.25), matrix * 0.25


def make_stored_halves(draw):
    operator = operators.stored(draw.random.normal(size=(5, 6)), "bfloat16", scale=0.75)
    return operator, np.asarray(operator.to_dense(), np.float64)


def make_transposed(draw):
    matrix = draw.random.integers(-128, 128, (5, 6))
    return operators.transposed(operators.stored(matrix)), matrix.T


MAKERS = {
    name.removeprefix("make_"): maker
    for name, maker in list(globals().items())
    if name.startswith("make_")
}
RECORDS = (
    "dense",
    "sparse",
    "identity",
    "diagonal",
    "zeros",
    "bordered",
    "pair_cuts_of",
    "pair_list",
    "functions",
    "packed_signs_and_zeros",
    "stored_halves",
)  # each once
every_operator = pytest.mark.parametrize("name", MAKERS)


def everything(operator, x, y):
    return {
        "matvec": operator.matvec(x),
        "rmatvec": operator.rmatvec(y),
        "row_norms": operator.row_norms(jnp.abs(x)),
        "column_norms": operator.column_norms(jnp.abs(y)),
        "bracket_matvec": operator.bracket_matvec(x),
        "bracket_rmatvec": operator.bracket_rmatvec(y),
        "to_dense": operator.to_dense(),
    }


alone = jax.jit(everything)
together = jax.jit(jax.vmap(everything))


@functools.cache
def members(name, dtype):
    """One operator of each case, with vectors: stacked operators, matrices, xs and ys."""
    draws = [Draw(case, dtype, seed) for seed, case in enumerate(CASES)]
    made = [MAKERS[name](draw) for draw in draws]
    rows, columns = made[0][1].shape
    vectors = [(draw.vector(columns), draw.vector(rows)) for draw in draws]
    stacked = jax.tree.map(
        lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]),
        *[operator for operator, _ in made],
    )
    return (
        stacked,
        [matrix for _, matrix in made],
        np.stack([x for x, _ in vectors]),
        np.stack([y for _, y in vectors]),
    )


def exact(matrix, vector):
    """The product in rational numbers."""
    numbers = [Fraction(float(value)) for value in vector]
    return [
        sum(
            (
                Fraction(float(entry)) * number
                for entry, number in zip(row, numbers, strict=True)
                if entry
            ),
            Fraction(0),
        )
        for row in matrix
    ]


def assert_encloses(bracket, wanted):
    for low, value, high in zip(
        *(np.asarray(side).tolist() for side in (bracket[0], wanted, bracket[1])), strict=True
    ):
        assert low == -np.inf or (low < np.inf and Fraction(low) <= value)
        assert high == np.inf or (high > -np.inf and value <= Fraction(high))


def check_member(found, matrix, x, y, eps, case):
    np.testing.assert_array_equal(found["to_dense"], matrix)
    for which, a, v in (("matvec", matrix, x), ("rmatvec", matrix.T, y)):
        wanted = exact(a, v)
        assert_encloses(found[f"bracket_{which}"], wanted)
        if case in ("ordinary", "cancelling"):
            a, v = a.astype(np.float64), v.astype(np.float64)
            norms = np.abs(a) @ np.abs(v)
            low, high = (side.astype(np.float64) for side in found[f"bracket_{which}"])
            # in 64 bits the sums have no bits to spare
            width = 8 if eps > 1e-10 else 4 * (len(v) + 4)
            assert (high - low <= width * eps * norms + (0 if eps > 1e-10 else 1e-280)).all()
            assert (np.abs(found[which] - (a @ v)) <= 16 * eps * norms).all()
            np.testing.assert_allclose(
                found["row_norms" if which == "matvec" else "column_norms"], norms, rtol=16 * eps
            )


# --- products, norms, brackets --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    slow_but(
        MAKERS,
        "dense",
        "identity",
        "diagonal",
        "zeros",
        "packed_signs",
        "packed_signs_and_zeros",
        "stored_halves",
    ),
)
def test_it_is_its_matrix_alone_and_mapped(name):
    stacked, matrices, xs, ys = members(name, np.float32)
    mapped = jax.tree.map(np.asarray, together(stacked, xs, ys))
    for index, case in enumerate(CASES):
        operator = jax.tree.map(lambda leaf, index=index: leaf[index], stacked)
        assert operator.shape == matrices[index].shape
        one = jax.tree.map(np.asarray, alone(operator, xs[index], ys[index]))
        other = jax.tree.map(lambda leaf, index=index: leaf[index], mapped)
        assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(one))
        for found in (one, other):
            check_member(found, matrices[index], xs[index], ys[index], 2.0**-23, case)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.usefixtures("x64")
def test_it_is_its_matrix_in_64_bits(name):
    stacked, matrices, xs, ys = members(name, np.float64)
    mapped = jax.tree.map(np.asarray, together(stacked, xs, ys))
    for index, case in enumerate(CASES):
        found = jax.tree.map(lambda leaf, index=index: leaf[index], mapped)
        assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(found))
        check_member(found, matrices[index], xs[index], ys[index], 2.0**-52, case)


@pytest.mark.slow
def test_subnormal_entries_count():
    matrix = np.array([[3e-41, 1.0], [-7e-42, 0.0]], np.float32)
    x = np.array([1e30, 1e-11], np.float32)
    listed = operators.Sparse(
        jnp.ravel(jnp.asarray(matrix)), jnp.array([0, 0, 1, 1]), jnp.array([0, 1, 0, 1]), (2, 2)
    )
    found = jax.jit(
        lambda all_of_them, x: [operator.bracket_matvec(x) for operator in all_of_them]
    )([operators.dense(matrix), listed, operators.diagonal(matrix[0])], x)
    for bracket, wanted in zip(found, (matrix, matrix, np.diag(matrix[0])), strict=True):
        assert_encloses(bracket, exact(wanted, x))
    tiny = operators.dense(np.array([[1e-20]], np.float32)).bracket_matvec(
        np.array([-3e-20], np.float32)
    )
    assert float(tiny[0][0]) <= -3e-40 <= float(tiny[1][0])


@pytest.mark.slow
def test_infinite_and_missing_numbers_prove_nothing():
    operator = operators.stack([operators.dense([[1.0, -1.0]]), operators.identity(2)])
    low, high = operator.bracket_matvec(np.array([np.inf, np.inf], np.float32))
    assert (float(low[0]), float(high[0])) != (0.0, 0.0)
    assert not low[0] > -np.inf
    assert np.isnan(
        operators.dense([[1.0, 0.0]]).bracket_matvec(np.array([np.nan, 0.0], np.float32))[0]
    ).all()


@pytest.mark.slow
def test_slabs_and_chunks(monkeypatch):
    monkeypatch.setattr(operators.sums, "MAX_ENTRIES", 24)
    draw = Draw("ordinary", np.float32, 7)
    for make in (make_functions, make_pair_cuts):
        operator, matrix = make(draw)
        rows, columns = matrix.shape
        x, y = draw.vector(columns), draw.vector(rows)
        found = jax.tree.map(np.asarray, jax.jit(lambda *args: everything(*args))(operator, x, y))
        check_member(found, matrix, x, y, 2.0**-23, "ordinary")


@pytest.mark.slow
def test_entries_of_one_place_add_up():
    data, indices = (
        np.array([1.0, 2.0, -5.0, 4.0], np.float32),
        np.array([[0, 1], [0, 1], [1, 0], [0, 1]]),
    )
    bcoo = BCOO((jnp.asarray(data), jnp.asarray(indices)), shape=(2, 2))
    x = np.array([1.0, 10.0], np.float32)
    operator = operators.sparse(bcoo)
    assert operator.data.shape == (4,)
    np.testing.assert_array_equal(operator.to_dense(), [[0, 7], [-5, 0]])
    np.testing.assert_array_equal(operator.row_norms(x), [70, 5])
    traced = jax.jit(lambda bcoo, x: everything(operators.sparse(bcoo), x, x))(bcoo, x)
    np.testing.assert_array_equal(traced["matvec"], [70, -5])
    np.testing.assert_array_equal(traced["to_dense"], [[0, 7], [-5, 0]])
    assert_encloses(traced["bracket_matvec"], [70, -5])


@pytest.mark.slow
def test_entries_of_one_place_that_cancel_under_jit():
    """What is rounded is the entry, once, and not each product anew: the brackets are those of the
    matrix.
    """
    indices = jnp.zeros((3, 2), jnp.int32)

    def made(data):
        return operators.sparse(BCOO((data, indices), shape=(1, 1)))

    data = jnp.array([2.0**24, 1.5, -(2.0**24)])
    operator, slope = jax.jit(
        lambda data: (made(data), jax.grad(lambda data: made(data).matvec(jnp.ones(1))[0])(data))
    )(data)
    assert operator.to_dense().tolist() == made(data).to_dense().tolist() == [[1.5]]
    assert operator.column_norms(jnp.ones(1)).tolist() == [1.5]
    assert slope.tolist() == [1, 1, 1]


@pytest.mark.slow
def test_no_rows_or_no_columns():
    none, nothing = np.zeros((0, 3)), np.zeros((2, 0))
    without_rows = [
        operators.dense(none),
        operators.sparse(BCOO((jnp.zeros(2), jnp.zeros((2, 2), jnp.int32)), shape=(0, 3))),
        operators.zeros(0, 3),
        operators.stack([operators.zeros(0, 3), none]),
        operators.pair_cuts(none, np.ones((2, 3))),
        operators.pair_cuts(np.ones((2, 3)), none),
        operators.pair_cuts(none, np.ones((2, 3)), pairs=np.zeros((0, 2), int)),
        operators.from_functions(apply, apply_transposed, (0, 3), data=jnp.asarray(none)),
        operators.packed_signs(none),
        operators.stored(none),
        operators.transposed(operators.packed_signs(none.T)),
    ]
    without_columns = [
        operators.dense(nothing),
        operators.pair_cuts(nothing[:1], nothing),
        operators.from_functions(apply, apply_transposed, (2, 0), data=jnp.asarray(nothing)),
        operators.packed_signs(nothing, zeros=True),
        operators.stored(nothing, "bfloat16"),
    ]
    all_of_them = without_rows + without_columns
    vectors = [
        (jnp.ones(operator.shape[1]), jnp.ones(operator.shape[0])) for operator in all_of_them
    ]
    at_once = jax.jit(
        lambda *lists: [everything(operator, *pair) for operator, pair in zip(*lists, strict=True)]
    )
    for operator, found in zip(all_of_them, at_once(all_of_them, vectors), strict=True):
        rows, columns = operator.shape
        assert found["to_dense"].shape == (rows, columns)
        for part in (found["matvec"], found["row_norms"], *found["bracket_matvec"]):
            np.testing.assert_array_equal(part, np.zeros(rows))
        for part in (found["rmatvec"], found["column_norms"], *found["bracket_rmatvec"]):
            np.testing.assert_array_equal(part, np.zeros(columns))
        operators.check_adjoint(operator)


def test_padded_pair_of_nothing_is_a_row_of_zeros():
    operator = operators.pair_cuts(np.zeros((0, 3)), np.ones((2, 3)), pairs=[[-1, -1]])
    np.testing.assert_array_equal(operator.matvec(np.ones(3, np.float32)), [0])
    assert operator.is_cut.tolist() == [False]


@pytest.mark.slow
def test_cuts_say_which_rows_they_are():
    outputs, labels = np.array([[1, 0], [-1, 1], [1, -1], [1, 1]]), np.array([1, -1, -1, 1])
    mask = np.array([True, True, True, False])
    cuts = jax.jit(operators.pair_cuts_of)(outputs, labels, mask=mask)
    np.testing.assert_array_equal(
        cuts.is_cut.reshape(4, 4), np.outer(labels * mask, labels * mask) < 0
    )
    both = operators.stack(
        [
            operators.pair_cuts(outputs[:1] == 1, outputs[1:3] != 1),
            operators.pair_cuts(outputs[1:3] == -1, outputs[:1] != -1),
        ]
    )
    np.testing.assert_array_equal(both.to_dense(), cuts.to_dense()[np.asarray(cuts.is_cut)])
    # padding may hold anything
    padded = operators.pair_cuts_of(np.array([[1.0], [np.nan]]), [1, np.nan], mask=[True, False])
    np.testing.assert_array_equal(padded.to_dense(), np.zeros((4, 1)))


@pytest.mark.parametrize("name", ["sparse", "functions", "pair_cuts_of"])
def test_derivatives_are_the_adjoint(name):
    operator, matrix = MAKERS[name](Draw("ordinary", np.float32))
    y = Draw("ordinary", np.float32).vector(matrix.shape[0])
    gradient = jax.jit(
        jax.grad(
            lambda x: (
                operator.matvec(x) @ y + sum(side.sum() for side in operator.bracket_matvec(x))
            )
        )
    )
    np.testing.assert_allclose(
        gradient(jnp.ones(matrix.shape[1])), matrix.T @ y, rtol=1e-5, atol=1e-5
    )


def test_new_functions_of_a_module_compile_nothing(compilations):
    product = jax.jit(lambda operator, x: operator.matvec(x))
    x = jnp.ones(3)
    matrices = [jnp.eye(3), 2 * jnp.eye(3)]
    product(operators.from_functions(apply, apply_transposed, (3, 3), data=matrices[0]), x)
    before = compilations()
    answer = product(operators.from_functions(apply, apply_transposed, (3, 3), data=matrices[1]), x)
    assert compilations() == before
    np.testing.assert_array_equal(answer, [2, 2, 2])


# --- adjoints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", slow_but(RECORDS, "dense", "identity", "diagonal", "zeros", "functions")
)
def test_products_are_adjoint(name):
    operators.check_adjoint(MAKERS[name](Draw("ordinary", np.float32))[0])


def both_matrices(pair, x):
    return apply(pair[0], x)


def both_matrices_transposed(pair, y):
    return apply_transposed(pair[1], y)


def broken(forward, backward):
    return operators.from_functions(
        both_matrices, both_matrices_transposed, forward.shape, data=(forward, backward)
    )


@pytest.mark.slow
def test_wrong_adjoints_are_found():
    random = np.random.default_rng(1)
    matrix = random.normal(size=(200, 100)).astype(np.float32)
    operators.check_adjoint(broken(matrix, matrix))
    for wrong in (
        -matrix,
        matrix * np.float32(1.001),
        np.roll(matrix, 1, axis=0),
        np.full_like(matrix, np.nan),
    ):
        with pytest.raises(ValueError, match="rmatvec is not the adjoint of matvec"):
            operators.check_adjoint(broken(matrix, wrong))
    for seed in range(5):
        i, j = random.integers(200), random.integers(100)
        wrong = matrix.copy()
        wrong[i, j] += 0.05
        with pytest.raises(
            ValueError,
            match=(
                rf"<A x, y> is .*, <x, A'y> is .*; entry \[{i}, {j}\] is .* by matvec and .* by"
                r" rmatvec"
            ),
        ):
            operators.check_adjoint(broken(matrix, wrong), key=jax.random.key(seed))
    signs = random.choice([-1, 1], (1000, 1000)).astype(np.float32)
    off = signs.copy()
    off[300, 700] *= 0.6
    operators.check_adjoint(broken(signs, signs))
    with pytest.raises(ValueError, match=r"entry \[300, 700\]"):
        operators.check_adjoint(broken(signs, off))
    square = random.normal(size=(20, 20)).astype(np.float32)
    with pytest.raises(ValueError, match="not the adjoint"):
        operators.check_adjoint(broken(square, square.T), num_trials=1)


def test_functions_that_add_something_are_no_products():
    with pytest.raises(ValueError, match=r"operator\.matvec of zeros is not 0"):
        operators.check_adjoint(operators.from_functions(lambda x: x + 1, lambda y: y, (3, 3)))
    with pytest.raises(ValueError, match=r"operator\.rmatvec of zeros is not 0"):
        operators.check_adjoint(operators.from_functions(lambda x: x, lambda y: y + 1, (3, 3)))


# --- what is taken and what is refused ------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", slow_but([sparse.BCOO, sparse.BCSR, sparse.COO, sparse.CSR, sparse.CSC], sparse.COO)
)
def test_all_kinds_of_sparse_matrices_are_taken(kind):
    matrix = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [3, 0, 0.5, 0]], np.float32)
    given = kind.fromdense(jnp.asarray(matrix))
    np.testing.assert_array_equal(operators.as_operator(given).to_dense(), matrix)
    np.testing.assert_array_equal(
        jax.jit(lambda given: operators.sparse(given).to_dense())(given), matrix
    )
    operators.check_adjoint(given)


def test_matrices_of_scipy_are_taken_as_dense_ones_where_these_fit():
    assert operators.as_operator(csr_array(np.eye(2))).matrix.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(
        ValueError,
        match=(
            r"operator is a sparse matrix of shape \[10000000, 1000000\], whose dense copy takes .*"
            r" bytes"
        ),
    ):
        operators.as_operator(csr_array((10**7, 10**6)))


@pytest.mark.slow
def test_as_operator():
    operator = operators.identity(2)
    assert operators.as_operator(operator) is operator
    assert isinstance(operators.as_operator(BCOO.fromdense(jnp.eye(2))), operators.Sparse)
    assert operators.as_operator(np.eye(2, dtype=bool)).matrix.dtype == np.float32
    with pytest.raises(ValueError, match=r"problem has shape \[2\]"):
        operators.as_operator([1.0, 2.0], name="problem")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: operators.dense([1.0]), r"matrix has shape \[1\]"),
        (lambda: operators.as_operator("A"), "operator is not an array of numbers"),
        (
            lambda: operators.sparse(np.eye(2)),
            "bcoo is a ndarray: expected a jax.experimental.sparse.BCOO",
        ),
        (
            lambda: operators.sparse(BCOO.fromdense(jnp.ones((2, 2, 2)))),
            r"bcoo has shape \[2, 2, 2\], n_batch=0, n_dense=0: expected a matrix",
        ),
        (
            lambda: operators.sparse(BCOO.fromdense(jnp.ones((2, 2)), n_dense=1)),
            "n_dense=1: expected a matrix",
        ),
        (lambda: operators.identity(-1), "size is -1"),
        (lambda: operators.zeros(2, 1.5), "columns is 1.5"),
        (lambda: operators.diagonal(np.eye(2)), r"values has shape \[2, 2\]"),
        (lambda: operators.stack([]), "operators is no list"),
        (lambda: operators.stack([np.eye(2)], axis=2), "axis is 2: the options are 0, 1"),
        (lambda: operators.stack([np.eye(2), [1.0]]), r"operators\[1\] has shape \[1\]"),
        (
            lambda: operators.stack([np.eye(2), np.eye(3)]),
            r"operators\[1\] has 3 columns, operators\[0\] has 2",
        ),
        (
            lambda: operators.stack([np.eye(2), np.eye(3)], axis=1),
            r"operators\[1\] has 3 rows, operators\[0\] has 2",
        ),
        (
            lambda: operators.bordered(np.eye(2), rows=np.eye(3)),
            r"rows has shape \[3, 3\]: operator has 2 columns",
        ),
        (
            lambda: operators.bordered(np.eye(2), columns=np.eye(3)),
            r"columns has shape \[3, 3\]: operator has 2 rows",
        ),
        (
            lambda: operators.bordered(np.eye(2), rows=np.eye(2), corner=[[1.0]]),
            r"corner has shape \[1, 1\]: .* \[2, 1\]",
        ),
        (lambda: operators.pair_cuts([[0, 2]], [[0, 1]]), r"hits\[0, 1\] is 2: entries are 0 or 1"),
        (
            lambda: operators.pair_cuts([[0, 1]], [[0.5, 1]]),
            r"misses\[0, 0\] is 0.5: entries are 0 or 1",
        ),
        (
            lambda: operators.pair_cuts([[0, 1]], [[1]]),
            r"misses has shape \[1, 1\]: expected shape \[q, 2\]",
        ),
        (
            lambda: operators.pair_cuts([[0, 1]], [[0, 1]], pairs=[[0, 1]]),
            r"pairs\[0, 1\] is 1: expected numbers below 1 and 1",
        ),
        (
            lambda: operators.pair_cuts([[0, 1]], [[0, 1]], pairs=[[0.0, 1.0]]),
            "pairs has dtype float32",
        ),
        (lambda: operators.pair_cuts_of([[0, 1]], [0]), r"labels\[0\] is 0: labels are -1 or \+1"),
        (lambda: operators.pair_cuts_of([[3, 1]], [1]), r"outputs\[0, 0\] is 3: outputs are"),
        (
            lambda: operators.from_functions(jnp.diff, jnp.diff, (2, 3)),
            r"rmatvec of a vector of shape \[2\] has shape \[1\]: expected shape \[3\]",
        ),
        (
            lambda: operators.from_functions(jnp.linalg.inv, jnp.diff, (2, 3)),
            r"matvec fails on a vector of shape \[3\]",
        ),
        (
            lambda: operators.from_functions(3, jnp.diff, (2, 3)),
            "matvec is a int: expected a function",
        ),
        (lambda: operators.from_functions(jnp.diff, jnp.diff, 3), "shape is 3"),
        (lambda: operators.from_functions(jnp.diff, jnp.diff, (2, 3.0)), r"shape\[1\] is 3.0"),
        (lambda: operators.from_functions(apply, apply, (2, 2), data="A"), "data holds a str"),
        (
            lambda: operators.identity(2).matvec(np.ones(3)),
            r"vector has shape \[3\]: expected shape \[2\]",
        ),
        (
            lambda: operators.sparse(BCOO.fromdense(jnp.eye(2))).rmatvec(np.ones(3)),
            r"vector has shape \[3\]",
        ),
        (
            lambda: operators.dense([[1.0, 2.0]]).matvec(np.ones(3)),
            r"vector has shape \[3\]: expected shape \[2\]",
        ),
        (
            lambda: operators.dense([[1.0, 2.0]]).column_norms(np.ones(3)),
            r"weights has shape \[3\]",
        ),
        (lambda: operators.check_adjoint(operators.identity(2), num_trials=0), "num_trials is 0"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_partial_sums_of_duplicates_may_overflow():
    indices = jnp.zeros((3, 2), jnp.int32)
    made = jax.jit(lambda data: operators.sparse(BCOO((data, indices), shape=(1, 1))).to_dense())
    assert made(jnp.array([3e38, 3e38, -3e38], jnp.float32)).tolist() == [[np.float32(3e38)]]


@pytest.mark.parametrize("make", ["as_operator", "stored", "sparse", "diagonal"])
def test_largest_entry_of_many_entries_is_nan_where_one_is(make):
    """Solvers take an operator whose largest entry is at most 1, and NaN may not pass for one."""
    values = np.random.default_rng(0).uniform(-1, 1, (100, 60)).astype(np.float32)

    @jax.jit
    def largest_entry(values):
        if make == "sparse":
            return operators.sparse(BCOO.fromdense(values, nse=values.size)).largest_entry()
        if make == "diagonal":
            return operators.diagonal(values.ravel()).largest_entry()
        if make == "stored":
            return operators.stored(values, "bfloat16").largest_entry()
        return operators.as_operator(values).largest_entry()

    assert 0.95 < largest_entry(values) <= 1
    values[7, 3] = np.nan
    assert jnp.isnan(largest_entry(values))
