"""The code of labels by a vote and its errors: lengths by (6) to (8), and messages that are read
back, for votes small enough to enumerate and for votes of monomials.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import jboost
from jboost import l0


def bits_of(count):
    """ceil(log2 count), by counting up."""
    bits = 0
    while 2**bits < count:
        bits += 1
    return bits


def expected_length(sizes, num_tables, num_examples, num_errors):
    row = bits_of(num_examples)
    model = len(sizes) * bits_of(num_tables) + sum(map(bits_of, sizes)) + (len(sizes) + 1) * row
    return model, model + num_errors * row


def wrong(outputs, coefficients, labels):
    """The examples with y H lambda <= 0, in fractions."""
    return sum(
        y * sum(Fraction(float(c)) * int(h) for c, h in zip(coefficients, row, strict=True)) <= 0
        for y, row in zip(labels, outputs, strict=True)
    )


def check_round_trip(book, places, outputs, coefficients, labels):
    code = l0.encode_labels(book, places, coefficients, labels)
    np.testing.assert_array_equal(l0.decode_labels(book, code), labels)
    assert code.support <= np.count_nonzero(coefficients)
    assert code.num_errors <= wrong(outputs, coefficients, labels)
    return code


def total_of(book, code, sizes):
    return l0.code_length(
        sizes,
        num_tables=len(book.table_sizes),
        num_examples=book.num_examples,
        num_errors=code.num_errors,
    ).total


def test_code_length_is_six_to_eight_of_the_paper():
    rng = np.random.default_rng(0)
    for _ in range(200):
        sizes = [int(size) for size in 2 ** rng.uniform(0, 40, rng.integers(0, 6))]
        num_tables, num_examples = (int(number) for number in rng.integers(1, 300, 2))
        num_errors = int(rng.integers(0, num_examples + 1))
        length = l0.code_length(
            sizes, num_tables=num_tables, num_examples=num_examples, num_errors=num_errors
        )
        model, total = expected_length(sizes, num_tables, num_examples, num_errors)
        assert (length.support, length.model, length.total) == (len(sizes), model, total)
        assert length.model <= length.linear_bound <= length.uniform_bound
        if sizes:
            row, table = bits_of(num_examples), bits_of(num_tables)
            assert length.linear_bound == model + (len(sizes) - 1) * row
            largest = max(map(bits_of, sizes))
            assert length.uniform_bound == len(sizes) * (table + 2 * row + largest)


def test_risk_bound_is_five_of_the_paper():
    assert l0.risk_bound(100, 1000, delta=0.01) == pytest.approx((100 + math.log(100)) / 1000)
    assert l0.risk_bound(0, 1, delta=1) == 0
    assert l0.risk_bound(0, 1, delta=1e-60) == pytest.approx(60 * math.log(10))  # 0 in float32


@pytest.mark.parametrize("num_examples, num_hypotheses", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2)])
def test_all_votes_and_labels_of_few_examples_are_read_back(num_examples, num_hypotheses):
    coefficients = (0.25, 1.0, 0.0)
    tables = [0] * num_hypotheses
    places = [(0, index) for index in range(num_hypotheses)]
    for entries in itertools.product((-1, 0, 1), repeat=num_examples * num_hypotheses):
        outputs = np.reshape(entries, (num_examples, num_hypotheses))
        book = l0.listed_code_book(outputs, tables)
        # For three examples those that start with two equal labels, or else it takes long.
        starts = ((1, 1),) if num_examples == 3 else ((-1,), (1,))
        rest = num_examples - len(starts[0])
        for start, end in itertools.product(starts, itertools.product((-1, 1), repeat=rest)):
            labels = (*start, *end)
            for vote in (coefficients[:num_hypotheses], coefficients[1 : 1 + num_hypotheses]):
                code = check_round_trip(book, places, outputs, vote, np.array(labels))
                sizes = [num_hypotheses] * code.support
                assert len(code.bits) == total_of(book, code, sizes)


@pytest.mark.parametrize("kind", ["signs", "abstaining", "duplicates", "equal votes"])
def test_random_votes_are_read_back_in_as_many_bits_as_six_counts(kind):
    rng = np.random.default_rng(3)
    supports = set()
    for num_examples, num_hypotheses in ((4, 4), (8, 8), (9, 5), (30, 12), (64, 20)):
        outputs = rng.choice([-1, 1], (num_examples, num_hypotheses))
        if kind == "abstaining":
            outputs *= rng.random(outputs.shape) < 0.5
        if kind == "duplicates":
            outputs[:, 1::2] = outputs[:, : num_hypotheses - num_hypotheses // 2][
                :, : num_hypotheses // 2
            ]
            outputs[1::2] = outputs[: num_examples // 2]
        coefficients = rng.dirichlet(np.ones(num_hypotheses)).astype(np.float32)
        if kind == "equal votes":
            coefficients[:] = 0.5
        tables = rng.integers(0, 3, num_hypotheses)
        book = l0.listed_code_book(outputs, tables)
        places = [
            (int(table), int((tables[:index] == table).sum())) for index, table in enumerate(tables)
        ]
        labels = np.where(outputs @ coefficients > 0, 1, -1)
        labels[rng.random(num_examples) < 0.2] *= -1
        code = check_round_trip(book, places, outputs, coefficients, labels)
        supports.add(code.support)
        used = _places_in(book, code)
        assert set(used) <= set(places)
        sizes = [book.table_sizes[table] for table, _ in used]
        assert len(code.bits) == total_of(book, code, sizes)
    assert max(supports) >= 5


def _places_in(book, code):
    """The places that a message starts with."""
    bits, places = list(code.bits), []

    def read(count):
        taken, bits[:count] = bits[:count], []
        return int("".join(str(int(bit)) for bit in taken) or "0", 2)

    for _ in range(code.support):
        table = read(bits_of(len(book.table_sizes)))
        places.append((table, read(bits_of(book.table_sizes[table]))))
    return places


@pytest.mark.parametrize("coefficients", [[1e-60, 0.0], [1.0, 1 - 2**-40], [1e60, 1e59]])
def test_coefficients_are_not_rounded_to_float32(coefficients):
    """The first vote was empty, the second 0 where it is positive, and the third refused."""
    outputs = [[1, -1], [1, 1], [-1, 0]]
    book, labels = l0.listed_code_book(outputs), [1, 1, -1]
    code = l0.encode_labels(book, [(0, 0), (0, 1)], coefficients, labels)
    assert code.num_errors == wrong(outputs, coefficients, labels) == 0


def test_all_examples_negative_and_all_positive_are_told_apart():
    outputs = np.array([[-1, 0, 0], [0, -1, 0], [0, 0, -1], [-1, -1, -1]])
    for side in (1, -1):
        book = l0.listed_code_book(side * outputs)
        places = [(0, index) for index in range(3)]
        labels = np.full(4, -side)
        code = check_round_trip(book, places, side * outputs, [0.2, 0.3, 0.5], labels)
        assert (code.support, code.num_errors) == (3, 0)


def test_monomial_code_book_has_every_monomial_once():
    rows = np.array([*itertools.product((0, 1), repeat=4), (np.nan, 1, 0, 1)])
    book = l0.monomial_code_book(rows, max_order=3)
    for order, size in enumerate(book.table_sizes):
        expected = set()
        for attributes in itertools.combinations(range(4), order):
            for wanted in itertools.product((0, 1), repeat=order):
                holds = (rows[:, list(attributes)] == list(wanted)).all(axis=1)
                expected |= {tuple(np.where(holds, sign, 0)) for sign in (-1, 1)}
        found = [tuple(book.outputs(order, index)) for index in range(size)]
        assert len(set(found)) == size
        assert set(found) == expected
    assert l0.monomial_code_book(np.zeros((2, 0))).table_sizes == (2,)


@pytest.mark.slow
def test_vote_of_a_fit_is_read_back():
    rng = np.random.default_rng(1)
    features = rng.random((48, 6)) < 0.5
    labels = np.where(features[:, 0] & features[:, 1] | (rng.random(48) < 0.15), 1, -1)
    learner = jboost.learners.monomials(2, kappa=0.1)
    dataset = jboost.make_dataset(features, labels)
    fitted = l0.fit(dataset, learner, margin=0.1, max_rounds=10, max_columns=32)
    places, coefficients = l0.places_of_monomials(fitted.ensemble)
    book = l0.monomial_code_book(features, max_order=2)
    outputs = np.array([book.outputs(*place) for place in places]).T
    scores = outputs @ coefficients
    np.testing.assert_allclose(scores, jboost.predict_scores(fitted.ensemble, features), atol=1e-6)
    code = check_round_trip(book, places, outputs, coefficients, labels)
    sizes = [book.table_sizes[table] for table, _ in places]
    assert len(code.bits) <= total_of(book, code, sizes)
    assert len(code.bits) < 48 * 6


GOOD = l0.listed_code_book([[1, 1], [-1, 1], [1, -1]])
CODE = l0.encode_labels(GOOD, [(0, 0), (0, 1)], [0.6, 0.4], [1, -1, 1])


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: l0.listed_code_book([[0.5]]), "outputs have values other than"),
        (lambda: l0.listed_code_book([[1, 1]], [0, -1]), "tables is"),
        (lambda: l0.monomial_code_book([[1, 0]], max_order=3), "max_order is 3, above the 2"),
        (lambda: l0.encode_labels(GOOD, [(0, 2)], [1.0], [1, 1, 1]), r"place \(0, 2\) is not"),
        (lambda: l0.encode_labels(GOOD, [(0, 0)], [-1.0], [1, 1, 1]), "negative or infinite"),
        (lambda: l0.encode_labels(GOOD, [(0, 0)], [1.0], [1, 0, 1]), r"labels\[1\] is 0"),
        (lambda: l0.encode_labels(GOOD, [(0, 0)], [1.0, 2.0], [1, 1, 1]), "coefficients"),
        (lambda: l0.decode_labels(GOOD, CODE._replace(bits=CODE.bits[:-1])), "fewer than"),
        (lambda: l0.decode_labels(GOOD, CODE._replace(bits=[*CODE.bits, True])), "errors need"),
        (
            lambda: l0.code_length([4], num_tables=1, num_examples=3, num_errors=4),
            "num_errors is 4",
        ),
        (
            lambda: l0.code_length([0], num_tables=1, num_examples=3, num_errors=0),
            r"table_sizes\[0\] is 0",
        ),
        (lambda: l0.risk_bound(1, 10, delta=0.0), "delta is 0"),
        (lambda: l0.risk_bound(-1, 10), "num_bits is -1"),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises(ValueError, match=text):
        call()
