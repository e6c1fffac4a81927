"""Binarization: cuts, bits, support sets and their text, against brute force, exact decimals and a
reader of the text of its own.
"""

import csv
import datetime
import decimal
import itertools
import json
import re
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars
import pytest
import scipy.sparse

import jboost
from jboost.base import memory
from jboost.data import binarization, cuts, support_sets
from jboost.data.table import Table
from marks import slow

PAPERS = Path(__file__).parents[3] / "shared" / "data" / "papers"
needs_papers = pytest.mark.skipif(
    not PAPERS.is_dir(), reason="the data sets of the papers are not here"
)


def random_columns(rng, size):
    """A small column of one of several kinds: ties, constants, decimals, neighbours in float32 and
    in float64.
    """
    kind = rng.integers(5)
    if kind == 0:
        return rng.integers(0, 4, size).astype(float)
    if kind == 1:
        return np.round(rng.normal(size=size), int(rng.integers(0, 4)))
    if kind == 2:
        return np.full(size, rng.normal())
    start = np.float32(rng.normal() * 10.0 ** rng.integers(-40, 38))
    if kind == 3:
        steps = [start]
        for _ in range(3):
            steps.append(np.nextafter(steps[-1], np.float32(np.inf)))
        return rng.choice(np.array(steps, np.float64), size)
    return float(start) + np.spacing(float(start)) * rng.integers(-3, 4, size)


def random_signs(rng, size):
    return rng.choice([-1.0, 1.0], size)


# --- cuts -----------------------------------------------------------------------------------------


def flushed(value):
    single = np.float32(value)
    return 0.0 if abs(single) < np.finfo(np.float32).tiny else float(single)


def gaps_by_hand(values, labels, rule):
    """The pairs of neighbouring values of 32 bits that the rule parts, as (greatest below, least
    above) in 64 bits.
    """
    groups = {}
    for value, label in zip(values.tolist(), labels.tolist(), strict=True):
        groups.setdefault(flushed(value), []).append((value, label))
    gaps = []
    for low, high in itertools.pairwise(sorted(groups)):
        classes = {label for _, label in groups[low] + groups[high]}
        if rule == "midpoints" or len(classes) == 2:
            gaps.append((max(groups[low])[0], min(groups[high])[0]))
    return gaps


@pytest.mark.parametrize("rule", ["class_changes", "midpoints"])
def test_cuts_are_where_brute_force_has_them(rule):
    rng = np.random.default_rng(1)
    for _ in range(400):
        size = int(rng.integers(0, 9))
        values, labels = random_columns(rng, size), random_signs(rng, size)
        found = cuts.cut_points(values, labels, rule=rule)
        gaps = gaps_by_hand(values, labels, rule)
        assert len(found) == len(gaps)
        for cut, (low, high) in zip(found.tolist(), gaps, strict=True):
            assert low <= cut < high
            assert flushed(low) <= flushed(cut) < flushed(high)
            plain = flushed((low + high) / 2)
            if flushed(low) < plain < flushed(high) and high - low > 1e-3 * (abs(low) + abs(high)):
                middle, gap = (Fraction(low) + Fraction(high)) / 2, Fraction(high) - Fraction(low)
                assert abs(Fraction(cut) - middle) <= gap / 4 + Fraction(np.spacing(abs(cut)))


@pytest.mark.parametrize(
    ("low", "high", "cut"),
    [
        (54, 55, "54.5"),
        (0.1, 0.2, "0.15"),
        (2.3, 2.3 + 0.1 + 0.1, "2.4"),
        (40, 55, "47.5"),
        (110, 116, "113.0"),
        (-1, 1, "0.0"),
        (-9, 0, "-4.5"),
        (3.660, 3.681, "3.6705"),
        (0.1234567891234, 0.1234767891234, "0.12347"),
        (1e-30, 3e30, "1.5e+30"),
        (-3e38, 3e38, "0.0"),
        (123456789.5, 123456999.5, "123456900.0"),
        (0.1, float(np.nextafter(np.float32(0.1), np.float32(1))), None),
        (0.0, 1e-45, "none"),
        (1.0, 1.0 + 1e-12, "none"),
    ],
)
def test_the_decimal_between_two_values(low, high, cut):
    found = cuts.cut_points([high, low], rule="midpoints")
    if cut == "none":
        assert found.tolist() == []
    else:
        assert low <= found[0] < high
        assert cut is None or repr(float(found[0])) == cut


def test_float32_values_are_read_as_they_are_written():
    assert cuts.cut_points(np.array([0.1, 0.2], np.float32), rule="midpoints").tolist() == [0.15]
    assert cuts.cut_points(jnp.array([0.1, 0.2]), rule="midpoints").tolist() == [0.15]


def test_64_bits_are_told_apart_where_they_are_enabled(x64):
    values = [1.0, 1.0 + 1e-12, 1.0 + 2.0**-52, 5e-324, 0.0]
    found = cuts.cut_points(values, rule="midpoints")
    assert len(found) == 3  # 0 and the subnormal are one value
    binarizer = binarization.fit(np.array(values)[:, None], cuts="midpoints", drop_redundant=False)
    bits = binarization.apply(binarizer, np.array(values)[:, None])
    np.testing.assert_array_equal(bits, np.array(values)[:, None] <= binarizer.thresholds)
    assert binarizer.coarse_attributes == ("x0",)


def test_cuts_found_in_64_bits_hold_for_float32_features(x64):
    values = np.array([[0.0999999979], [0.1000000053]])
    binarizer = binarization.fit(values, [1, -1])
    assert binarizer.bit_names == ("x0 <= 0.1",)
    assert float(np.float32(values[0, 0])) > 0.1
    for dtype in (np.float32, np.float64):
        assert binarization.apply(binarizer, values.astype(dtype)).tolist() == [[1], [0]]


def test_quantiles_by_brute_force():
    rng = np.random.default_rng(2)
    for _ in range(200):
        size, num = int(rng.integers(0, 12)), int(rng.integers(2, rng.choice([7, 40])))
        values, weights = rng.integers(0, 6, size).astype(float), rng.integers(1, 5, size)
        distinct = sorted(set(values.tolist()))
        shares = [
            Fraction(int(weights[values <= value].sum()), int(weights.sum()))
            for value in distinct[:-1]
        ]
        places = (
            {
                min(range(len(shares)), key=lambda i: abs(shares[i] - Fraction(k, num)))
                for k in range(1, num)
            }
            if shares
            else set()
        )
        expected = [(distinct[i] + distinct[i + 1]) / 2 for i in sorted(places)]
        assert (
            cuts.cut_points(values, weights=weights, rule="quantiles", num_quantiles=num).tolist()
            == expected
        )


def test_more_quantiles_than_memory():
    values = np.arange(50.0)
    assert (
        cuts.cut_points(values, rule="quantiles", num_quantiles=2**31 - 1).tolist()
        == cuts.cut_points(values, rule="midpoints").tolist()
    )


# --- bits and their text --------------------------------------------------------------------------


def holds(text, row):
    """Whether a monomial's text holds for a row, a dict of numbers, texts and None for missing."""
    if text in ("always", "never"):
        return text == "always"
    return all(_condition(part, row) for part in text.split(" and "))


def _condition(text, row):
    if text.startswith("("):
        condition = text[1:].removesuffix(" or missing)")
        return row[condition.split(" ")[0]] is None or _condition(condition, row)
    if match := re.fullmatch(r"(\w+) is (not )?missing", text):
        return (row[match[1]] is None) != bool(match[2])
    if match := re.fullmatch(r"(\S+) < (\w+) <= (\S+)", text):
        return row[match[2]] is not None and float(match[1]) < row[match[2]] <= float(match[3])
    name, sign, operand = text.split(" ")
    value = row[name]
    if value is None:
        return False
    operand = operand if isinstance(value, str) else float(operand)
    return {
        "<=": lambda: value <= operand,
        ">": lambda: value > operand,
        "==": lambda: value == operand,
        "!=": lambda: value != operand,
    }[sign]()


def as_rows(names, table):
    return [
        {
            name: None if value is None or value != value else value
            for name, value in zip(names, row, strict=True)
        }
        for row in table.tolist()
    ]


def covers(literals, bits):
    wanted = np.asarray(literals)
    return ((wanted == 0) | (bits == (wanted > 0))).all(axis=1)


def random_table(rng, size):
    """Rows of two numbers, a number that is a category and, half the time, a text, with missing
    values in some columns; and fresh rows.
    """
    columns = [
        rng.integers(-3, 4, 2 * size) / 2.0,
        np.round(rng.normal(size=2 * size), 1),
        rng.integers(1, 4, 2 * size).astype(float),
    ]
    table = np.stack(columns, axis=1)
    table[rng.random(table.shape) < rng.choice([0.0, 0.3], 3)] = np.nan
    if rng.random() < 0.5:
        text = rng.choice(np.array(["red", "green", "blue", None], object), 2 * size)
        mixed = np.empty((2 * size, 4), object)
        mixed[:, :3], mixed[:, 3] = table, text
        table = mixed
    return table[:size], table[size:]


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["literal", "none"])
def test_text_says_what_bits_say(missing):
    rng = np.random.default_rng(3)
    for round_ in range(24):
        size = (0, 1, 5, 14)[round_ % 4]
        training, fresh = random_table(rng, size)
        names = ["a", "b", "c", "d"][: training.shape[1]]
        binarizer = binarization.fit(
            training,
            random_signs(rng, size),
            names=names,
            categorical=["c"],
            missing=missing,
            cuts=str(rng.choice(["class_changes", "midpoints", "quantiles"])),
            drop_redundant=bool(rng.integers(2)),
        )
        for table in (training, fresh):
            rows, bits = as_rows(names, table), np.asarray(binarization.apply(binarizer, table))
            assert bits.shape == (size, binarizer.num_bits)
            for index, name in enumerate(binarizer.bit_names):
                np.testing.assert_array_equal(
                    bits[:, index] == 1, [holds(name, row) for row in rows]
                )
                negation = binarization.describe_literal(binarizer, index, False)
                np.testing.assert_array_equal(
                    bits[:, index] == 0, [holds(negation, row) for row in rows]
                )
            for _ in range(10):
                literals = rng.choice([0, 0, 0, 1, -1], binarizer.num_bits)
                text = binarization.describe_monomial(binarizer, literals)
                np.testing.assert_array_equal(
                    covers(literals, bits), [holds(text, row) for row in rows], err_msg=text
                )
        known = np.asarray(binarization.apply(binarizer, training))
        assert all(len(set(column[~np.isnan(column)])) == 2 for column in known.T)
        if missing == "literal":
            assert not np.isnan(known).any()


def test_no_training_value_changes_side_in_32_bits():
    rng = np.random.default_rng(4)
    for _ in range(4):
        table = np.stack([random_columns(rng, 8) for _ in range(40)], axis=1)
        binarizer = binarization.fit(table, cuts="midpoints", drop_redundant=False)
        bits = np.asarray(binarization.apply(binarizer, table))
        assert bits.dtype == np.float32
        np.testing.assert_array_equal(bits, table[:, binarizer.attributes] <= binarizer.thresholds)
        np.testing.assert_array_equal(bits, binarization.apply(binarizer, table.astype(np.float32)))


def test_fit_chooses_bits_of_16_bit_numbers_as_apply_computes_them():
    values, signs = 2048 + 2.0 * np.arange(8)[:, None], [1, -1] * 4
    for dtype in (np.float16, jnp.bfloat16):
        half = (values * (16 if dtype is jnp.bfloat16 else 1)).astype(dtype)
        binarizer = binarization.fit(half, signs)
        assert binarizer.bit_names == binarization.fit(half.astype(np.float32), signs).bit_names
        np.testing.assert_array_equal(
            binarization.apply(binarizer, half), half.astype(np.float64) <= binarizer.thresholds
        )


def test_intervals_categories_and_contradictions():
    table = np.array([[1.0, 1, 5], [2, 2, np.nan], [3, 3, 6], [4, 4, 7], [5, 1, np.nan]])
    binarizer = binarization.fit(
        table, cuts="midpoints", names=["a", "c", "u"], categorical=["c"], drop_redundant=False
    )
    names = (
        "a <= 1.5",
        "a <= 2.5",
        "a <= 3.5",
        "a <= 4.5",
        "c == 1",
        "c == 2",
        "c == 3",
        "c == 4",
        "u <= 5.5",
        "u <= 6.5",
        "u is missing",
    )
    assert binarizer.bit_names == names

    def text(**chosen):
        literals = np.zeros(len(names), np.int8)
        for index, sign in chosen.values():
            literals[index] = sign
        return binarization.describe_monomial(binarizer, literals)

    assert text() == "always"
    assert text(x=(0, -1), y=(2, 1), z=(3, 1)) == "1.5 < a <= 3.5"
    assert text(x=(1, -1), y=(0, -1)) == "a > 2.5"
    assert text(x=(2, -1), y=(1, 1)) == "never"
    assert text(x=(4, -1), y=(6, -1), z=(0, 1)) == "a <= 1.5 and c != 1 and c != 3"
    assert text(x=(4, 1), y=(6, -1)) == "c == 1"
    assert text(x=(4, 1), y=(6, 1)) == "never"
    assert text(x=(8, -1)) == "(u > 5.5 or missing)"
    assert text(x=(8, -1), y=(9, 1)) == "5.5 < u <= 6.5"
    assert text(x=(8, -1), y=(10, -1)) == "u > 5.5"
    assert text(x=(8, -1), y=(10, 1)) == "u is missing"
    assert text(x=(8, 1), y=(10, 1)) == "never"
    assert text(x=(10, -1)) == "u is not missing"


@pytest.mark.slow
def test_redundant_bits_are_the_ones_brute_force_finds():
    rng = np.random.default_rng(5)
    for missing in ("literal", "none"):
        for _ in range(10):
            training, _ = random_table(rng, 5)
            labels = random_signs(rng, len(training))
            every = binarization.fit(
                training, labels, cuts="midpoints", missing=missing, drop_redundant=False
            )
            few = binarization.fit(training, labels, cuts="midpoints", missing=missing)
            kept = []
            for column, name in zip(
                np.asarray(binarization.apply(every, training)).T, every.bit_names, strict=True
            ):
                if not any(
                    np.array_equal(column, other, True) or np.array_equal(1 - column, other, True)
                    for other, _ in kept
                ):
                    kept.append((column, name))
            assert few.bit_names == tuple(name for _, name in kept)
            assert few.num_redundant == every.num_bits - few.num_bits


def test_rows_that_are_no_training_rows_change_nothing():
    rng = np.random.default_rng(6)
    features, labels, mask = (
        rng.normal(size=(30, 3)).round(1),
        random_signs(rng, 30),
        np.arange(30) < 20,
    )
    for options in ({}, {"min_separation": 2}, {"cuts": "quantiles"}):
        alone = binarization.fit(features[:20], labels[:20], **options)
        other_features, other_labels = features.copy(), labels.copy()
        other_features[20:], other_labels[20:] = np.inf, 7
        for masked in (
            binarization.fit(features, labels, mask=mask, **options),
            binarization.fit(other_features, other_labels, mask=mask, **options),
        ):
            for left, right in zip(jax.tree.leaves(alone), jax.tree.leaves(masked), strict=True):
                np.testing.assert_array_equal(left, right)
            assert jax.tree.structure(alone) == jax.tree.structure(masked)
    np.testing.assert_array_equal(
        binarization.apply(alone, features)[:20], binarization.apply(alone, features[:20])
    )
    texts = np.array([["red"], ["blue"], ["green"]], object)
    assert binarization.fit(texts, [1, -1, 1], mask=[True, True, False]).categories == (
        ("blue", "red"),
    )


def test_text_of_a_table_and_texts_never_seen():
    text = np.array(["red", "blue", None, "red"], dtype=object)
    table = Table(
        "memory",
        4,
        {"age": np.array([31, np.nan, 45.5, 28])},
        {"colour": text},
        {},
        np.array([-1.0, 1, -1, 1]),
    )
    binarizer = binarization.fit(
        table.matrix(["age"], ["colour"]), table.labels, names=table.columns
    )
    assert binarizer.bit_names == (
        "age <= 29.5",
        "age is missing",
        "colour == red",
        "colour is missing",
    )
    assert binarizer.num_redundant == 1  # colour == blue, where age is missing
    new = np.array([[30, "pink"], [None, "red"]], dtype=object)
    np.testing.assert_array_equal(binarization.apply(binarizer, new), [[0, 0, 0, 0], [0, 1, 1, 0]])
    np.testing.assert_array_equal(
        binarization.apply(binarizer, binarization.encode(binarizer, new)),
        binarization.apply(binarizer, new),
    )
    with pytest.raises(
        ValueError, match=r"features\[0, 0\] is 'old', but attribute 'age' was numeric in training"
    ):
        binarization.apply(binarizer, np.array([["old", "red"]], dtype=object))


def test_numbers_of_the_host_are_text_where_training_had_text():
    binarizer = binarization.fit(
        np.array([["1"], ["2"], ["A"]], object), [1, -1, 1], drop_redundant=False
    )
    bits = [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    for rows in (
        [[1], [2], [np.nan]],
        np.array([[1], [2], [7]]),
        np.array([[1], [2], [0]], np.float32),
        np.array([[1], ["2"], ["B"]], object),
    ):
        assert np.nan_to_num(binarization.apply(binarizer, rows)).tolist() == bits
        codes = binarization.encode(binarizer, rows)
        np.testing.assert_array_equal(
            binarization.apply(binarizer, codes), binarization.apply(binarizer, rows)
        )
        np.testing.assert_array_equal(binarization.encode(binarizer, codes), codes)
    assert binarization.apply(binarizer, jnp.array([[0.0], [1.0], [-1.0]])).tolist() == bits


@pytest.mark.slow
def test_apply_under_jit_and_vmap(compilations):
    rng = np.random.default_rng(7)
    features = rng.normal(size=(3, 10, 2)).astype(np.float32)
    features[0, 0, 0] = np.nan
    binarizer = binarization.fit(features[0], random_signs(rng, 10))
    expected = np.stack([binarization.apply(binarizer, member) for member in features])
    before = compilations()
    assert np.isfinite(expected[0]).all()
    binarization.apply(binarizer, features[1] + 1)
    assert compilations() == before
    batched = jnp.asarray(features)
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(lambda member: binarization.apply(binarizer, member)))(batched), expected
    )
    np.testing.assert_array_equal(jax.jit(binarization.apply)(binarizer, batched[0]), expected[0])
    np.testing.assert_array_equal(
        binarization.apply(binarizer, np.full((1, 2), 1e300)),
        binarization.apply(binarizer, np.full((1, 2), 1e30)),
    )
    whole = binarization.fit([[1], [5]], [1, -1])
    assert binarization.apply(whole, np.array([[2**40], [-(2**40)]])).tolist() == [[0], [1]]
    for dtype in (jnp.int32, jnp.uint8):
        assert binarization.apply(whole, jnp.array([[1], [5]], dtype)).tolist() == [[1], [0]]
    assert binarization.apply(whole, jnp.array([[True]])).tolist() == [[1]]


@pytest.mark.parametrize(
    ("features", "labels", "num_bits", "constant"),
    [
        (np.zeros((0, 2)), [], 0, ("x0", "x1")),
        (np.zeros((3, 0)), [1, -1, 1], 0, ()),
        ([[1.0, np.nan]], [1], 0, ("x0", "x1")),
        ([[1.0, 2.0], [1.0, 3.0]], [1, -1], 1, ("x0",)),
        ([[1.0], [2.0]], [1, 1], 0, ()),
        ([[1.0], [np.nan]], [1, 1], 1, ()),
        (np.array([[None], [None]]), [1, -1], 0, ("x0",)),
        ([[True], [False]], [1, -1], 1, ()),
    ],
)
def test_little_to_learn_from(features, labels, num_bits, constant):
    binarizer = binarization.fit(features, labels)
    assert (binarizer.num_bits, binarizer.constant_attributes) == (num_bits, constant)
    assert binarization.apply(binarizer, features).shape == (len(labels), num_bits)
    assert binarization.fit(features, labels, min_separation=1).num_bits <= num_bits
    assert binarization.describe_monomial(binarizer, np.zeros(num_bits, np.int32)) == "always"


def test_numbers_that_are_not_cut_give_bits_for_what_is_missing_alone():
    rows = np.array(
        [[1.5, "red", 7], [None, "blue", 7], [3.0, "red", None], [2.0, None, 7]], object
    )
    binarizer = binarization.fit(rows, names=["size", "colour", "same"], cuts="none")
    assert binarizer.bit_names == (
        "size is missing",
        "colour == red",
        "colour is missing",
        "same is missing",
    )
    assert binarizer.num_redundant == 1  # blue, where size is missing
    assert np.asarray(binarization.apply(binarizer, rows)).tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 1, 0, 1],
        [0, 0, 1, 0],
    ]
    assert binarization.fit(
        rows, names=["size", "colour", "same"], cuts="none", missing="none"
    ).bit_names == ("colour == blue",)


def test_one_class_has_midpoints_and_quantiles():
    for rule in ("midpoints", "quantiles"):
        assert binarization.fit([[1.0], [2.0]], [1, 1], cuts=rule).bit_names == ("x0 <= 1.5",)
        assert binarization.fit([[1.0], [2.0]], cuts=rule).bit_names == ("x0 <= 1.5",)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ([[1.0], [np.inf]], [1, -1]),
            {},
            r"features\[1, 0\] is inf: not a finite number .*pass NaN",
        ),
        (
            ([[9.0], [1.0], [-np.inf]], [1, 1, -1]),
            {"mask": [False, True, True]},
            r"features\[2, 0\] is -inf",
        ),
        (
            ([[1.0], [1e300]], [1, -1]),
            {},
            (
                r"features\[1, 0\] is 1e\+300, more than float32 holds \(3.4e\+38\): divide all of"
                r" features by one large"
            ),
        ),
        (([1.0, 2.0], [1, -1]), {}, r"features has shape \[2\]"),
        (([[1.0], [2.0, 3.0]], [1, -1]), {}, "features has rows of unequal length"),
        (([[1j], [2j]], [1, -1]), {}, "features has dtype complex64"),
        (([[1.0], [2.0]], [1, 0]), {}, r"labels\[1\] is 0: labels are -1 or \+1"),
        (([[1.0], [2.0]], [1]), {}, r"labels has shape \[1\]"),
        (([[1.0], [2.0]],), {}, 'labels is None: cuts "class_changes" needs labels'),
        (
            ([[1.0], [2.0]],),
            {"cuts": "midpoints", "min_separation": 1},
            "labels is None: min_separation needs labels",
        ),
        (
            ([[1.0], [2.0]], [1, -1]),
            {"cuts": "best"},
            "cuts is 'best': the options are 'class_changes', 'midpoints', 'quantiles'",
        ),
        (([[1.0], [2.0]], [1, -1]), {"missing": "drop"}, "missing is 'drop'"),
        (([[1.0], [2.0]], [1, -1]), {"num_quantiles": 1}, "num_quantiles is 1"),
        (([[1.0], [2.0]], [1, -1]), {"min_separation": 0}, "min_separation is 0"),
        (
            ([[1.0], [2.0]], [1, -1]),
            {"names": ["a", "b"]},
            "names holds 2 distinct entries: 1 distinct texts expected",
        ),
        (([[1.0, 1.0]], [1]), {"names": ["a", "a"]}, "names holds 1 distinct entries: 2"),
        (
            ([[1.0], [2.0]], [1, -1]),
            {"categorical": ["y"]},
            "categorical holds 'y': expected a name of an attribute",
        ),
        (([[1.0], [2.0]], [1, -1]), {"categorical": [1]}, "categorical holds 1: .*from 0 to 0"),
        (
            ([[1.0], [2.0]], [1, -1]),
            {"weights": [1, -1], "cuts": "quantiles"},
            r"weights\[1\] is -1",
        ),
        (
            (np.array([[1], [10**400]], object), [1, -1]),
            {},
            r"features\[1, 0\] is an integer of 1329 bits: pass a number below",
        ),
    ],
)
def test_bad_input_to_fit(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        binarization.fit(*arguments, **options)


def test_bad_input_elsewhere():
    binarizer = binarization.fit([[1.0], [2.0]], [1, -1])
    with pytest.raises(ValueError, match=r"features has shape \[1, 2\]: expected shape \[m, 1\]"):
        binarization.apply(binarizer, [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"features has shape \[1, 2\]: expected shape \[m, 1\]"):
        binarization.apply(binarizer, jnp.ones((1, 2)))
    with pytest.raises(ValueError, match="index is 1: there are 1 bits"):
        binarization.describe_literal(binarizer, 1, True)
    with pytest.raises(ValueError, match=r"literals has shape \[2\]"):
        binarization.describe_monomial(binarizer, [1, 0])
    with pytest.raises(ValueError, match=r"literals are \+1, -1 or 0"):
        binarization.describe_monomial(binarizer, [2])
    with pytest.raises(ValueError, match="values are not all finite"):
        cuts.cut_points([np.nan], [1])
    with pytest.raises(ValueError, match="bits are 0, 1 or NaN"):
        support_sets.select_support_set([[2]], [1])
    with pytest.raises(ValueError, match="costs are positive and finite"):
        support_sets.select_support_set([[1]], [1], costs=[0])


# --- support sets ---------------------------------------------------------------------------------


def differences(bits, labels):
    """[pairs, N] bool: which attributes tell each pair of opposite class apart."""
    pairs = [(a, b) for a in np.flatnonzero(labels > 0) for b in np.flatnonzero(labels < 0)]
    return np.array([np.abs(bits[a] - bits[b]) == 1 for a, b in pairs], bool).reshape(
        len(pairs), bits.shape[1]
    )


def is_support_set(differing, chosen, min_separation):
    wanted = np.minimum(differing.sum(axis=1), min_separation)
    return bool((differing[:, chosen].sum(axis=1) >= wanted).all())


def plain_greedy(differing, min_separation, costs):
    chosen = []
    while not is_support_set(differing, chosen, min_separation):
        short = differing[:, chosen].sum(axis=1) < np.minimum(differing.sum(axis=1), min_separation)
        gains = [
            0 if j in chosen else (differing[:, j] & short).sum() / costs[j]
            for j in range(differing.shape[1])
        ]
        chosen.append(int(np.argmax(gains)))
    for index in chosen[::-1]:
        rest = [j for j in chosen if j != index]
        if is_support_set(differing, rest, min_separation):
            chosen = rest
    return sorted(chosen)


@pytest.mark.slow
def test_support_sets_by_brute_force():
    rng = np.random.default_rng(8)
    for round_ in range(100):
        size, num_bits, min_separation = (
            int(rng.integers(0, 9)),
            int(rng.integers(0, 7)),
            int(rng.integers(1, 4)),
        )
        bits = rng.choice([0.0, 1.0, np.nan], (size, num_bits), p=[0.45, 0.45, 0.1])
        labels, costs = (
            random_signs(rng, size),
            rng.integers(1, 4, num_bits).astype(float) if round_ % 2 else np.ones(num_bits),
        )
        chosen = support_sets.select_support_set(
            bits, labels, min_separation=min_separation, costs=costs
        ).tolist()
        differing = differences(bits, labels)
        assert chosen == plain_greedy(differing, min_separation, costs)
        assert is_support_set(differing, chosen, min_separation)
        assert not any(
            is_support_set(differing, [j for j in chosen if j != index], min_separation)
            for index in chosen
        )
        best = min(
            costs[list(subset)].sum()
            for k in range(num_bits + 1)
            for subset in itertools.combinations(range(num_bits), k)
            if is_support_set(differing, list(subset), min_separation)
        )
        # Dobson 1982: greedy is within the harmonic number of the largest column.
        assert (
            best
            <= costs[chosen].sum()
            <= best
            * sum(1 / k for k in range(1, max(2, 1 + int(differing.sum(axis=0).max(initial=0)))))
        )


def test_many_attributes_lazily():
    rng = np.random.default_rng(9)
    bits, labels = rng.integers(0, 2, (24, 300)).astype(float), random_signs(rng, 24)
    for min_separation in (1, 5):
        chosen = support_sets.select_support_set(bits, labels, min_separation=min_separation)
        assert chosen.tolist() == plain_greedy(
            differences(bits, labels), min_separation, np.ones(300)
        )


def test_conflicting_duplicates_ask_for_nothing():
    assert support_sets.select_support_set([[1, 0], [1, 0]], [1, -1]).tolist() == []
    assert support_sets.select_support_set([[1, 0], [1, 0], [0, 1]], [1, -1, -1]).tolist() == [0]
    assert (
        support_sets.select_support_set(
            [[1], [0], [0]], [1, 1, -1], mask=[False, True, True]
        ).tolist()
        == []
    )
    binarizer = binarization.fit(
        [[1.0, 7.0], [1.0, 7.0], [2.0, 8.0]], [1, -1, -1], min_separation=1
    )
    assert (binarizer.bit_names, binarizer.num_redundant, binarizer.num_unselected) == (
        ("x0 <= 1.5",),
        1,
        0,
    )


# --- the data of the papers -----------------------------------------------------------------------


def read_paper(name, *, missing=np.nan, complete=False):
    with (PAPERS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    words = {"": missing, "y": 1.0, "n": 0.0}
    table = np.array(
        [[words[field] if field in words else float(field) for field in row] for row in rows]
    )
    if complete:
        table = table[~np.isnan(table).any(axis=1)]
    return table[:, :-1], np.where(table[:, -1] > 0, 1.0, -1.0), header[:-1]


COUNTED = [
    ("BCW (699, missing ignored)", "BCW", {}),
    ("BCW complete (683)", "BCW", {"complete": True}),
    ("VOTE (435, y/n, missing ignored)", "VOTE", {}),
    ("VOTE (435, n=0,?=.5,y=1)", "VOTE", {"missing": 0.5}),
    ("VOTE complete (232)", "VOTE", {"complete": True}),
    ("CLVHEART (303, missing ignored)", "CLVHEART", {}),
    ("CLVHEART complete (297)", "CLVHEART", {"complete": True}),
    ("HUHEART (294, missing ignored)", "HUHEART", {}),
    ("HUHEART reproc. (294, missing=-9)", "HUHEART_REPROCESSED", {"missing": -9.0}),
    ("SONAR (208)", "SONAR", {}),
    ("RIPLEY_TR (250)", "RIPLEY_TR", {}),
]


@needs_papers
@pytest.mark.parametrize(
    ("key", "name", "options"), [slow(*case) if "SONAR" in case else case for case in COUNTED]
)
def test_numbers_of_cuts_are_those_counted_elsewhere(key, name, options):
    counted = json.loads((PAPERS / "CUTPOINT_COUNTS.json").read_text(encoding="utf-8"))[key][
        "per_attribute"
    ]
    features, labels, names = read_paper(name, **options)
    for place, rule in enumerate(("midpoints", "class_changes")):
        binarizer = binarization.fit(
            features, labels, names=names, cuts=rule, missing="none", drop_redundant=False
        )
        found = np.bincount(binarizer.attributes, minlength=len(names)).tolist()
        assert dict(zip(names, found, strict=True)) == {
            attribute: counts[place] for attribute, counts in counted.items()
        }


@pytest.mark.slow
@needs_papers
@pytest.mark.parametrize(
    ("key", "name", "options", "separation"),
    [
        ("clev35", "CLVHEART", {"complete": True}, 4),
        ("hung72", "HUHEART_REPROCESSED", {"missing": -9.0}, 5),
    ],
)
def test_the_cuts_of_the_mma_authors_are_among_ours(key, name, options, separation):
    features, labels, names = read_paper(name, **options)
    theirs = json.loads((PAPERS / "PEBBL_MMA_cuts.json").read_text(encoding="utf-8"))[key]
    every = binarization.fit(features, labels, names=names, cuts="midpoints", drop_redundant=False)
    known = list(zip(every.attributes.tolist(), every.thresholds.tolist(), strict=True))
    wanted = [
        (names.index(attribute), cut) for attribute, points in theirs.items() for cut in points
    ]
    assert set(wanted) <= set(known)
    with np.load(PAPERS / "PEBBL_MMA.npz") as stored:
        bits = np.unpackbits(stored[f"{key}_X"], axis=1)[:, : int(stored[f"{key}_n"])]
        assert np.array_equal(labels > 0, stored[f"{key}_y"] == 1)
    chosen = [known.index(one) for one in wanted]
    np.testing.assert_array_equal(
        1 - np.asarray(binarization.apply(every, features))[:, chosen], bits
    )
    assert differences(bits.astype(float), labels).sum(axis=1).min() == separation
    ours = binarization.fit(features, labels, names=names, min_separation=separation)
    assert ours.num_bits <= len(wanted)
    assert (
        differences(np.asarray(binarization.apply(ours, features)), labels).sum(axis=1).min()
        >= separation
    )


def test_numbers_beside_text():
    """Integers of any size are categories of their own; what is neither text nor a finite number is
    named.
    """

    def column(*values):
        return np.array([[value] for value in values], object)

    ids = binarization.fit(
        column("n/a", 9007199254740993, 9007199254740992, 10**400),
        [1, -1, 1, -1],
        drop_redundant=False,
    )
    assert ids.categories == (
        tuple(sorted(["n/a", "9007199254740993", "9007199254740992", str(10**400)])),
    )
    for bad in (datetime.date(2020, 1, 1), b"red", np.inf):
        with pytest.raises(ValueError, match=r"features\[1, 0\] is .* in a column of text"):
            binarization.fit(column("red", bad), [1, -1])
        with pytest.raises(ValueError, match=r"features\[0, 0\] is .* in a column of text"):
            binarization.apply(binarization.fit(column("red", "blue"), [1, -1]), column(bad))


def test_more_pairs_than_memory_holds_are_refused_with_the_bytes_that_they_take(monkeypatch):
    monkeypatch.setattr(memory, "of_machine", lambda: 1_000)
    with pytest.raises(
        ValueError,
        match=(
            r"min_separation looks at all pairs of the 40 rows, which take 6,400 bytes, and there"
            r" are 1,000: leave"
        ),
    ):
        binarization.fit(
            np.arange(40.0)[:, None], np.where(np.arange(40) % 2, 1, -1), min_separation=1
        )


# --- DataFrames, masked arrays, sparse matrices ---------------------------------------------------

WHO = [1, -1, 1, -1, 1, -1]


def people():
    """Columns of all kinds that a DataFrame may have, with gaps."""
    start = datetime.datetime(2020, 1, 1, 12)
    return polars.DataFrame(
        {
            "age": [30, None, 50, 61, 44, 23],
            "pressure <= 3": [1.5, 2.5, float("nan"), 3.5, 4.5, 2.2],
            "city": ["New York", "Rome", None, "Rome", "Oslo", "and"],
            "smokes": [True, False, None, True, False, True],
            "when": [start + datetime.timedelta(days=day) for day in (0, 9, 1, 5, 3, 7)],
            "where": [
                datetime.datetime(2020, 1, 1, 1 + hour, tzinfo=datetime.UTC) for hour in range(6)
            ],
            "day": [datetime.date(1970, 1, 1 + day) for day in (0, 1, 4, 3, 2, 5)],
            "grade": polars.Series(["a", "b", "a", "b", "a", None], dtype=polars.Categorical),
            "price": [decimal.Decimal("1.5")] * 3 + [decimal.Decimal("2.5")] * 3,
        }
    )


def test_a_dataframe_gives_the_names_and_kinds_of_its_columns():
    binarizer = binarization.fit(people(), WHO, cuts="midpoints", drop_redundant=False)
    assert binarizer.names == tuple(people().columns)
    assert {
        "age <= 26.5",
        "'pressure <= 3' <= 1.85",
        "city == 'New York'",
        "city == 'and'",
        "smokes == True",
        "grade == a",
        "grade is missing",
    } <= set(binarizer.bit_names)
    assert {
        "age is missing",
        "'pressure <= 3' is missing",
        "city is missing",
        "smokes is missing",
        "when <= 18263",
        "day <= 2.5",
        "price <= 2",
    } <= set(binarizer.bit_names)
    bits = binarization.apply(binarizer, people())
    assert bits.shape == (6, binarizer.num_bits)
    np.testing.assert_array_equal(
        bits[:, binarizer.bit_names.index("smokes == True")], [1, 0, 0, 1, 0, 1]
    )
    np.testing.assert_array_equal(
        bits[:, binarizer.bit_names.index("age is missing")], [0, 1, 0, 0, 0, 0]
    )
    np.testing.assert_array_equal(
        bits[:, binarizer.bit_names.index("when <= 18263")], [1, 0, 0, 0, 0, 0]
    )


def test_a_dataframe_answers_by_the_names_of_its_columns():
    binarizer = binarization.fit(people(), WHO)
    shuffled = (
        people()
        .select(["smokes", *(name for name in reversed(people().columns) if name != "smokes")])
        .with_columns(other=polars.lit("x"))
    )
    np.testing.assert_array_equal(
        binarization.apply(binarizer, shuffled), binarization.apply(binarizer, people())
    )
    with pytest.raises(
        ValueError,
        match=(
            r"features has no column 'city': its columns are 'age', .*; pass the columns that the"
            r" bits were fitted on"
        ),
    ):
        binarization.apply(binarizer, people().drop("city"))
    renamed = binarization.fit(people(), WHO, names=list("abcdefghi"))
    assert (
        "a <= 26.5"
        in binarization.fit(people(), WHO, names=list("abcdefghi"), cuts="midpoints").bit_names
    )
    assert renamed.names == tuple("abcdefghi")


class NAType:
    """What pandas has for a value that is missing."""


def of_objects(*cells):
    return polars.DataFrame({"a": polars.Series(cells, dtype=polars.Object)})


@pytest.mark.parametrize(
    ("frame", "bits"),
    [
        (
            of_objects(1, NAType(), 3.5, np.float32(2), None, np.nan),
            ("a <= 1.5", "a <= 2.75", "a is missing"),
        ),
        (
            of_objects(True, False, NAType(), None, np.True_, False),
            ("a == False", "a == True", "a is missing"),
        ),
        (of_objects("x", "y", NAType(), "x", "y", np.nan), ("a == x", "a == y", "a is missing")),
        (
            of_objects(
                datetime.date(1970, 1, 2), datetime.datetime(1970, 1, 4), None, None, None, None
            ),
            ("a <= 2", "a is missing"),
        ),
        (polars.DataFrame({"a": [None] * 6}), ()),
    ],
)
def test_columns_of_objects_are_of_one_kind(frame, bits):
    binarizer = binarization.fit(frame, WHO, cuts="midpoints", drop_redundant=False)
    assert binarizer.bit_names == bits


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            of_objects(1, 2, "oops", 4, 5, 6),
            (
                r"features\['a'\] mixes numbers and texts: row 2, counted from 0, holds 'oops';"
                r" correct it, make it missing"
            ),
        ),
        (
            of_objects("x", "y", 7, "x", "y", "x"),
            r"features\['a'\] mixes texts and numbers: row 2, counted from 0, holds 7",
        ),
        (
            of_objects(True, 2, False, True, True, True),
            r"features\['a'\] mixes booleans and numbers: row 1, counted from 0, holds 2",
        ),
        (
            of_objects(*[{1}] * 6),
            (
                r"features\['a'\] holds values of type set: expected numbers, texts, booleans or"
                r" dates; drop the column"
            ),
        ),
        (
            polars.DataFrame({"a": [[1]] * 6}),
            r"features\['a'\] is a column of List\(Int64\): expected numbers, .*; drop the column",
        ),
        (
            polars.DataFrame({"a": [datetime.timedelta(days=1)] * 6}),
            r"features\['a'\] is a column of Duration",
        ),
        (
            people().lazy(),
            (
                r"features is a LazyFrame: expected a DataFrame .*; of a lazy one pass what"
                r" collect\(\) gives"
            ),
        ),
    ],
)
def test_columns_of_several_kinds_are_refused_by_name(frame, message):
    with pytest.raises(ValueError, match=message):
        binarization.fit(frame, WHO)


def test_masks_of_masked_arrays_are_missing_values():
    values, mask = (
        np.array([[1, 2], [3, 4], [5, 6]]),
        [[False, False], [True, False], [False, False]],
    )
    expected = binarization.fit(np.where(mask, np.nan, values), [1, -1, 1])
    for dtype in (int, float, object):
        masked = np.ma.array(values.astype(dtype), mask=mask)
        assert binarization.fit(masked, [1, -1, 1]).bit_names == expected.bit_names
        np.testing.assert_array_equal(
            binarization.apply(expected, masked),
            binarization.apply(expected, np.where(mask, np.nan, values)),
        )
    assert np.isnan(jboost.make_dataset(np.ma.array(values, mask=mask), [1, -1, 1]).features[1, 0])


def test_sparse_matrices_are_read_where_a_dense_copy_fits(monkeypatch):
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.coo_array):
        assert binarization.fit(kind(np.eye(3)), [1, -1, 1]).bit_names == (
            "x0 <= 0.5",
            "x1 <= 0.5",
            "x2 <= 0.5",
        )
        assert jboost.make_dataset(kind(np.eye(2)), [1, -1]).features.tolist() == [[1, 0], [0, 1]]
    monkeypatch.setattr(memory, "of_machine", lambda: 100)
    with pytest.raises(
        ValueError,
        match=(
            r"features is a sparse matrix of shape \[3, 3\], whose dense copy takes 72 bytes, and"
            r" 50 are the most: pass fewer"
        ),
    ):
        binarization.fit(scipy.sparse.csr_matrix(np.eye(3)), [1, -1, 1])
