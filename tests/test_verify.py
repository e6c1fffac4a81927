"""jboost.verify: it accepts genuine results, no false one, and runs where jax is not installed."""

import ast
import functools
import io
import itertools
import math
import re
import subprocess
import sys
import tracemalloc
import types
import zipfile
from fractions import Fraction
from pathlib import Path

import jax
import numpy as np
import pytest

import batches
import certificates
import jboost
from jboost import verify
from jboost.base.status import Status
from oracles import leave_one_out, monomials, pair, pair_space

FILE = Path(verify.__file__)
INF = math.inf


def record(**fields):
    return types.SimpleNamespace(**{name: np.asarray(value) for name, value in fields.items()})


# Two points on an axis, the line between them, by hand.
POINTS, LABELS = np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([-1, 1])


def line(**changes):
    fields = {
        "normal": [1.0, 0.0],
        "anchor": [1.0, 0.0],
        "bias": 0.0,
        "offset": -1.0,
        "loss": 0.0,
        "lower_bound": 0.0,
        "margin": 1.0,
        "misclassified": [False, False],
        "status": 0,
    }
    return record(**{**fields, **changes})


# --- genuine and tampered results -----------------------------------------------------------------


def check_survey(kind, count, copies, seed):
    found = certificates.survey(kind, np.random.default_rng(seed), count, copies)
    assert found.refused == []
    assert found.accepted == []
    assert found.num_false > found.num_tampered // 5  # the test has something to find


@pytest.mark.parametrize("kind", ["pair", "soft margin"])
def test_verify_accepts_genuine_results_and_no_false_ones(kind):
    check_survey(kind, 24, 6, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", certificates.KINDS)
def test_verify_accepts_2000_genuine_results_and_none_of_20000_tampered_ones_that_is_false(kind):
    check_survey(kind, 334, 10, seed=2)


@pytest.mark.slow
def test_verify_accepts_genuine_rules_and_no_false_ones():
    check_survey("rules", 6, 20, seed=3)


# --- pairs ----------------------------------------------------------------------------------------


def least_loss(points, labels, weights=None):
    points, labels = np.asarray(points), np.asarray(labels)
    examples = verify._read_examples(len(points), labels, weights, None, np.zeros(0))
    return verify._least_loss(points[examples.kept], examples)


def test_enumeration_of_verify_pair_is_the_brute_force_on_degenerate_sets():
    for points, labels, weights, mask in zip(*pair.random_degenerate_sets(3, 300, 9), strict=True):
        case = points[mask], labels[mask], weights[mask]
        assert least_loss(*case) == pair.optimal_pair(*case).loss


def test_enumeration_of_verify_pair_is_the_brute_force_in_space():
    rng = np.random.default_rng(4)
    for _ in range(12):
        points, labels = rng.integers(0, 3, (7, 3)), rng.choice([-1, 1], 7)
        assert (
            least_loss(points, labels)
            == pair_space.optimal_space(points, labels, np.ones(7, int)).loss
        )


@pytest.mark.slow
@pytest.mark.parametrize("fat", ["removed", "flipped"])
def test_verify_pair_accepts_genuine_separators_of_degenerate_sets(fat, x64):
    rng = np.random.default_rng(0)
    points, labels, weights, mask = pair.random_degenerate_sets(11, 1500, 9)
    # off the grid, so that some are collinear but for rounding, and rounding turns some signs
    points = points * rng.normal(size=(1500, 1, 1)) + rng.normal(size=(1500, 1, 2)) * 1e3
    separators = batches.solve_batch(
        jboost.pair.optimal_separator, points, labels, weights, mask, fat=fat
    )
    for index in range(1500):
        one = jax.tree.map(lambda leaf, index=index: leaf[index], separators)
        options = {"weights": weights[index], "mask": mask[index], "fat": fat}
        found = verify.verify(one, points[index], labels[index], **options)
        assert found.valid, found.reason


@pytest.mark.parametrize(
    ("points", "labels", "loss"),
    [
        (np.zeros((0, 2)), [], 0),
        ([[1.0, 2.0]], [1], 0),
        ([[1.0, 2.0]] * 3, [1, -1, -1], 1),
        ([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [1, -1, 1], 1),
        ([[1e300, 0.0], [-1e300, 1e-300], [0.0, 5e-301]], [1, 1, -1], 1),
        # of one positive, surrounded by negatives, the paper's Lemma 2.5 misses the constant
        ([[0, 0], [2, 1], [1, 2], [-1, 1], [-2, -1], [-1, -2], [1, -1]], [1] + [-1] * 6, 1),
    ],
)
def test_enumeration_of_verify_pair_on_few_points_and_extreme_values(points, labels, loss):
    assert least_loss(points, labels) == loss


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss": 1.0}, "loss is 1, and the separator misclassifies 0"),
        ({"lower_bound": 1.0}, "a lower bound of 1 is claimed, and 0 is proven"),
        ({"margin": 2.0}, "margin is 2, and its square should be 1"),
        ({"offset": 1.0}, "offset is 1, and bias - normal . anchor is -1"),
        ({"misclassified": [True, False]}, r"misclassified\[0\] is True"),
        ({"misclassified": [True]}, r"misclassified has shape \[1\]: expected \[2\]"),
        ({"normal": [math.nan, 0.0]}, "normal has entries that are not finite"),
        ({"normal": [-1.0, 0.0], "offset": 1.0}, "loss is 0, and the separator misclassifies 2"),
        ({"lower_bound": math.nan}, "lower_bound has entries that are not finite numbers"),
        ({"status": 2}, "its status is INVALID_INPUT"),
        ({"status": 99}, "status is 99, which is no status"),
        ({"normal": ["a", "b"]}, "normal has dtype <U1: expected numbers"),
    ],
)
def test_verify_pair_says_which_claim_is_wrong(changes, reason):
    assert verify.verify(line(), POINTS, LABELS).valid
    found = verify.verify(line(**changes), POINTS, LABELS)
    assert not found.valid
    assert re.search(reason, found.reason)


def test_verify_pair_says_that_status_optimal_is_wrong():
    separator = line(
        normal=[-1.0, 0.0], offset=1.0, loss=2.0, misclassified=[True, True], margin=INF
    )
    assert "status is OPTIMAL, and another" in verify.verify(separator, POINTS, LABELS).reason


def test_verify_pair_claims_nothing_beyond_max_points():
    assert verify.verify_pair(line(), POINTS, LABELS, max_points=1).valid  # it claims no bound
    points = np.array([[0.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    separator = line(misclassified=[True, False, False], loss=1.0, lower_bound=1.0)
    labels = [1, -1, 1]
    assert verify.verify_pair(separator, points, labels).valid
    found = verify.verify_pair(separator, points, labels, max_points=1)
    assert not found.valid
    assert found.lower == 0
    assert "raise max_points" in found.reason


def test_verify_pair_takes_no_side_of_a_score_of_zero():
    """A score of 0 is wrong by definition, whatever the result says."""
    points, labels = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0]]), [1, 1, -1, -1]  # XOR loses 1
    nothing = {"normal": [0.0, 0.0], "anchor": [0.0, 0.0], "offset": 0.0, "margin": INF}
    separator = line(**nothing, misclassified=[False] * 4, status=1)
    found = verify.verify(separator, points, labels)
    assert not found.valid
    assert (found.lower, found.upper) == (1, 4)
    assert "misclassified[0] is False" in found.reason
    lost = line(**nothing, misclassified=[True] * 4, loss=4.0, status=1)
    assert verify.verify(lost, points, labels).valid


def test_verify_pair_takes_no_loss_below_that_of_all_lines():
    points = np.array([[0.0, 0.0], [1 - 2.0**-52, 0.0], [1 + 2.0**-52, 0.0], [2.0, 0.0]])
    labels = [-1, 1, -1, 1]  # in the wrong order: every line loses 1
    fields = {"status": 1, "margin": 0.0, "anchor": [0.0, 0.0], "bias": -1.0}
    claims = line(**fields, misclassified=[False, True, False, False], loss=1.0)
    assert "no separator loses less" not in verify.verify(claims, points, labels).reason
    false = line(**fields, misclassified=[False] * 4, loss=0.0)
    assert "loss is 0, and no separator loses less than 1" in (
        verify.verify(false, points, labels).reason
    )


@pytest.mark.parametrize("fat", ["removed", "flipped"])
def test_verify_pair_checks_that_no_point_is_nearer_than_the_margin(fat):
    """Also where a point is so near that rounding decides its side."""
    points, labels = np.array([[0.0, 0.0], [2.0, 0.0], [1 - 2.0**-52, 0.0]]), [-1, 1, 1]
    fields = {"status": 1, "misclassified": [False, False, True], "loss": 1.0}
    fields |= {"anchor": [0.0, 0.0], "bias": -1.0}
    limit = 1.0 if fat == "removed" else 2.0**-48  # the distance, and the rounding of a score
    for margin, is_valid in ((limit, True), (0.0, True), (-1e-16, True), (2.5 * limit, False)):
        separator = line(**fields, margin=margin)
        found = verify.verify(separator, points, labels, fat=fat)
        assert found.valid == is_valid, (margin, found.reason)
    for margin in (1e9, INF):
        found = verify.verify(line(**fields, margin=margin), points, labels, fat=fat)
        assert "a point is nearer to the line" in found.reason


# --- linear programs ------------------------------------------------------------------------------


def program(objective, matrix, row_lower, row_upper, lower=0.0, upper=INF):
    return types.SimpleNamespace(
        objective=np.asarray(objective),
        operator=np.asarray(matrix),
        row_lower=np.asarray(row_lower),
        row_upper=np.asarray(row_upper),
        lower=np.asarray(lower),
        upper=np.asarray(upper),
    )


# Hillier and Lieberman's example: x = (2, 6), value -36, duals (0, -1.5, -1).
WYNDOR = program([-3.0, -5.0], [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]], -INF, [4.0, 12.0, 18.0])


def solution(**changes):
    fields = {"primal": [2.0, 6.0], "dual": [0.0, -1.5, -1.0], "status": 0}
    return record(**{**fields, "lower_bound": -36.0, "upper_bound": -36.0, **changes})


def test_verify_lp_proves_the_optimum_of_a_textbook():
    assert verify.verify(solution(), WYNDOR)[:3] == (True, -36, -36)
    off = solution(primal=[2.0 + 1e-9, 6.0 + 1e-9])  # misses two rows by rounding
    assert verify.verify(off, WYNDOR).upper == -36


@pytest.mark.parametrize(
    "changes",
    [{"lower_bound": -35.999}, {"upper_bound": -36.001}, {"dual": [1.0, 1.0, 1.0]}, {"status": 9}],
)
def test_verify_lp_refuses_what_is_not_proven(changes):
    found = verify.verify(solution(**changes), WYNDOR)
    assert not found.valid
    assert found.lower <= -36 <= found.upper


def test_verify_lp_checks_rays():
    crossed = program([1.0], [[1.0], [1.0]], [2.0, -INF], [INF, 1.0], lower=-INF)
    ray = record(primal=[0.0], dual=[1.0, -1.0], lower_bound=INF, upper_bound=INF, status=9)
    assert verify.verify(ray, crossed)[:2] == (True, INF)
    feasible = program([1.0], [[1.0], [1.0]], [1.0, -INF], [INF, 1.0], lower=-INF)
    assert not verify.verify(ray, feasible).valid
    falling = program([-1.0, 0.0], [[1.0, -1.0]], 0.0, 0.0)
    ray = record(primal=[1.0, 1.0], dual=[0.0], lower_bound=-INF, upper_bound=INF, status=10)
    assert verify.verify(ray, falling).valid
    assert not verify.verify(record(**{**vars(ray), "primal": [1.0, -1.0]}), falling).valid


def test_verify_lp_takes_programs_without_rows():
    bare = program([1.0, -1.0], np.zeros((0, 2)), np.zeros(0), np.zeros(0), upper=3.0)
    ends = record(primal=[0.0, 3.0], dual=np.zeros(0), lower_bound=-3.0, upper_bound=-3.0, status=0)
    assert verify.verify(ends, bare)[:3] == (True, -3, -3)


# --- soft margins, the relaxation, monomials, leave-one-out ---------------------------------------


# One hypothesis, +1, of one positive and one negative example, which cannot both be right.
POOL = [[1], [1]], [1, -1], [0.0]
RELAXATION = record(
    coefficients=[1.0],
    selected=[1.0],
    slacks=[0.0, 1.0],
    example_weights=[0.0, 0.5],
    pairs=[[1, 0]],
    pair_weights=[0.0],
    lower_bound=0.0,
    upper_bound=1.0,
    status=0,
)
VOTES = record(
    coefficients=[0.5, 0.5],
    example_weights=[0.5, 0.5, 0.0],
    lower_bound=0.25,
    upper_bound=0.375,
    status=0,
)


def test_verify_soft_margin_sorts_margins_and_caps_weights():
    margins = np.array([[1.0, -0.5], [-0.25, 1.0], [0.5, 0.5]])
    votes = VOTES
    found = verify.verify(votes, margins, nu=2 / 3, votes="simplex")
    # caps of one half but for rounding: margins 1/4 and 3/8 make 5/16, edges 3/8 and 1/4
    assert found.valid
    assert float(found.lower) == pytest.approx(5 / 16)
    assert float(found.upper) == pytest.approx(3 / 8)
    hard = jboost.relaxations.hard_margin()
    assert verify.verify(votes, margins, hard).lower == Fraction(1, 4)
    too_good = record(**{**vars(votes), "lower_bound": 0.26})
    assert not verify.verify(too_good, margins, hard).valid


def test_verify_soft_margin_refuses_votes_of_nothing():
    votes = record(
        coefficients=[0.0], example_weights=[1.0], lower_bound=0, upper_bound=1, status=0
    )
    assert "no vote" in verify.verify(votes, [[1.0]], votes="simplex").reason
    assert verify.verify(votes, [[1.0]], votes="ball").lower == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"votes": "any"}, "votes is 'any'"),
        ({"nu": 0.5, "cap": 0.5}, "nu and cap are both given"),
        ({"nu": -0.5}, "nu is -0.5"),
        ({"mask": [False] * 3}, "leave no example"),
        ({"relaxation": jboost.relaxations.squared_norm(1.0)}, "relaxation is a SquaredNorm"),
    ],
)
def test_verify_soft_margin_raises_on_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        verify.verify(VOTES, np.zeros((3, 2)), **options)


def test_verify_relaxation_refuses_pairs_of_one_class_and_cuts_that_are_missed():
    data, good = POOL, dict(vars(RELAXATION))
    assert verify.verify(RELAXATION, *data, margin=1.0)[:3] == (True, 1, 1)
    missed = record(**{**good, "slacks": [0.0, 0.5]})
    assert "all rows of margins" in verify.verify(missed, *data, margin=1.0).reason
    strange = record(**{**good, "pairs": [[0, 0]], "pair_weights": [0.5]})
    assert "not of opposite classes" in verify.verify(strange, *data, margin=1.0).reason
    unlisted = record(**{**good, "pair_weights": [[[0.5]]]})
    assert "list_pairs" in verify.verify(unlisted, *data, margin=1.0).reason


def test_search_of_verify_monomial_is_the_brute_force():
    rng = np.random.default_rng(5)
    for _ in range(30):
        features, labels = rng.integers(0, 2, (8, 4)), rng.choice([-1, 1], 8)
        weights, costs = rng.integers(0, 9, 8) / 8, rng.integers(0, 5, 4) / 16
        rewards = rng.integers(0, 3, (8, 8)) / 32
        best = monomials.exact_best(
            features, labels, weights, max_order=3, costs=costs, pairs=rewards
        )
        options = {"max_order": 3, "costs": costs, "pair_weights": rewards}
        data = features, labels, weights
        nothing = monomials.exact_value(np.zeros(4, int), 1, *data, costs=costs, pairs=rewards)
        claim = {"literals": np.zeros(4, int), "sign": 1, "value": float(nothing), "status": 3}
        exact = verify.verify(record(**claim, upper_bound=float(best)), *data, **options)
        assert exact.valid
        assert exact.upper == best
        ends = np.append(np.argwhere(rewards), [[-1, 2]], axis=0)
        listed = record(pairs=ends, values=np.append(rewards[rewards > 0], 5.0))
        options["pair_weights"] = listed
        assert verify.verify(record(**claim, upper_bound=float(best)), *data, **options) == exact
        below = verify.verify(record(**claim, upper_bound=float(best) - 1e-6), *data, **options)
        assert not below.valid
        assert below.upper >= best


def test_verify_monomial_says_that_its_search_ended():
    data = np.eye(6, dtype=int), [1, -1] * 3, np.ones(6)
    claim = record(literals=[0] * 6, sign=1, value=0.0, upper_bound=0.5, status=0)
    assert "raise max_nodes" in verify.verify(claim, *data, max_nodes=3).reason


@pytest.mark.parametrize("model", ["max_margin", "occurrence"])
def test_shares_of_verify_leave_one_out_are_those_of_the_oracle(model):
    rng = np.random.default_rng(6)
    for size in (0, 1, 2, 3, 5, 6):
        points, labels = rng.integers(0, 3, (size, 2)), rng.choice([-1, 1], size)
        truth = leave_one_out.leave_one_out(points, labels, model=model)
        result = record(
            error=float(truth.error),
            errors=np.array(truth.errors, float),
            kinds=np.array(truth.kinds, int),
            status=0,
        )
        found = verify.verify(result, points, labels, model=model)
        assert found.valid
        assert found.lower == truth.error
        if size:
            result.kinds[0] = result.kinds[0] % 3 + 1
            assert "kinds[0]" in verify.verify(result, points, labels, model=model).reason


# --- what is not known, and bad data --------------------------------------------------------------


def test_verify_says_that_an_ensemble_has_no_certificate():
    found = verify.verify(record(votes=[1.0], constant=0.0))
    assert not found.valid
    assert "has no certificate" in found.reason


@pytest.mark.parametrize(
    "fit",
    [jboost.pair.least_distance_separator, jboost.pair.least_squared_distance_separator],
)
def test_verify_says_that_a_distance_program_has_no_certificate(fit):
    found = verify.verify(fit(POINTS, LABELS), POINTS, LABELS)
    assert not found.valid
    assert "has no certificate that can be checked" in found.reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: verify.verify(line(), POINTS, [0, 1]), "labels has entries other than"),
        (lambda: verify.verify(line(), POINTS, LABELS[:1]), r"labels has shape \[1\]"),
        (lambda: verify.verify(line(), POINTS[0], LABELS), r"points has shape \[2\]"),
        (lambda: verify.verify(line(), POINTS, LABELS, weights=[-1, 1]), "weights has entries"),
        (lambda: verify.verify(line(), POINTS, LABELS, fat="thin"), "fat is 'thin'"),
        (lambda: verify.verify(line(), POINTS * np.nan, LABELS), "points has entries"),
        (lambda: verify.verify(solution(), program([1.0], [[1.0]], 0.0, [0.0, 1.0])), "row_upper"),
    ],
)
def test_verify_raises_on_bad_data(call, message):
    with pytest.raises(ValueError, match=message):
        call()


MONOMIAL = record(literals=[1], sign=1, value=0.5, upper_bound=0.5, status=0)
LEFT_OUT = record(error=1.0, errors=[1.0, 1.0], kinds=[2, 2], status=0)
GENUINE = {
    "pair": (line(), (POINTS, LABELS), {}),
    "lp": (solution(), (WYNDOR,), {}),
    "soft margin": (
        VOTES,
        ([[1.0, -0.5], [-0.25, 1.0], [0.5, 0.5]],),
        {"nu": 0.5, "votes": "ball"},
    ),
    "relaxation": (RELAXATION, POOL, {"margin": 1.0}),
    "monomial": (MONOMIAL, ([[1], [0]], [1, -1], [0.5, 0.5]), {}),
    "leave one out": (LEFT_OUT, (POINTS, LABELS), {}),
}
GARBAGE = (
    None,
    "text",
    object(),
    [],
    0,
    -1,
    7.5,
    1e300,
    -1e300,
    5e-324,
    INF,
    -INF,
    math.nan,
    True,
    1j,
    [[1.0], [2.0, 3.0]],
    np.zeros((2, 2, 2)),
)


@pytest.mark.parametrize("kind", GENUINE)
def test_verify_never_raises_on_a_wrong_certificate(kind):
    result, data, options = GENUINE[kind]
    assert verify.verify(result, *data, **options).valid
    for name, value in vars(result).items():
        array = np.asarray(value)
        filled = [np.full(array.shape, g) for g in GARBAGE if isinstance(g, int | float)]
        for garbage in (*GARBAGE, *filled):
            wrong = types.SimpleNamespace(**{**vars(result), name: garbage})
            assert isinstance(verify.verify(wrong, *data, **options), verify.Verification)
        missing = types.SimpleNamespace(**{k: v for k, v in vars(result).items() if k != name})
        assert not verify.verify(missing, *data, **options).valid


@pytest.mark.parametrize("kind", GENUINE)
def test_verify_refuses_results_of_float16(kind):
    """Data are rounded to the float type of the result: float16 would change them."""
    result, data, options = GENUINE[kind]
    fields = {name: np.asarray(value) for name, value in vars(result).items()}
    floats = {name: a.astype(np.float16) for name, a in fields.items() if a.dtype.kind == "f"}
    found = verify.verify(types.SimpleNamespace(**{**fields, **floats}), *data, **options)
    assert not found.valid
    assert "float16: expected float32 or float64" in found.reason


def test_verify_reads_bounds_of_integers_without_rounding():
    vast = program([1.0], [[1.0]], 2.0**53, INF)
    fields = {"primal": [2.0**53], "dual": [1.0], "upper_bound": INF}
    assert verify.verify(solution(**fields, lower_bound=2**53), vast).valid
    assert not verify.verify(solution(**fields, lower_bound=2**53 + 1), vast).valid


@pytest.mark.parametrize("kind", GENUINE)
def test_verify_takes_no_status_that_states_a_fact_of_another_method(kind):
    result, data, options = GENUINE[kind]
    for code, name in enumerate(verify._STATUSES):
        found = verify.verify(
            types.SimpleNamespace(**{**vars(result), "status": code}), *data, **options
        )
        if name in ("INFEASIBLE", "PRIMAL_INFEASIBLE", "DUAL_INFEASIBLE", "UNSOLVED_RELAXATION"):
            assert not found.valid, name
            assert name in found.reason
        elif name in verify._ENDINGS:
            assert found.valid, name


def test_verify_relaxation_takes_primal_infeasible_without_columns_only():
    data = POOL[0], POOL[1], POOL[2]
    empty = record(**{**vars(RELAXATION), "status": 9, "lower_bound": INF, "upper_bound": INF})
    assert verify.verify(empty, *data, margin=1.0, column_mask=[False]).valid
    assert "the pool has a column" in verify.verify(empty, *data, margin=1.0).reason


def wrong_numbers():
    """Calls with data that are not finite, and the argument that the error names."""
    bare = {"row_lower": -INF, "row_upper": INF}
    one = solution(primal=[0.0], dual=[0.0], lower_bound=1e9, upper_bound=INF)
    relaxed, pool = GENUINE["relaxation"][0], POOL[:2]
    for value in (INF, -INF, math.nan):
        for wrong, name in (
            (program([value], [[1.0]], **bare), "objective"),
            (program([1.0], [[value]], **bare), "operator"),
        ):
            yield (lambda wrong=wrong: verify.verify(one, wrong)), name
        for weights, options, name in (
            ([value, 0.5], {}, "example_weights"),
            ([0.5, 0.5], {"pair_weights": [[0.0, value], [0.0, 0.0]]}, "pair_weights"),
        ):
            call = functools.partial(verify.verify, MONOMIAL, [[1], [0]], [1, -1], weights)
            yield functools.partial(call, **options), name
        yield functools.partial(verify.verify, relaxed, *pool, [value], margin=1.0), "costs"
    for row in ({"row_lower": INF}, {"row_upper": -INF}, {"row_lower": 2.0, "row_upper": 1.0}):
        wrong = program([1.0], [[1.0]], **{**bare, **row})
        yield functools.partial(verify.verify, one, wrong), "row_lower exceeds row_upper"
    for bounds in ({"lower": INF}, {"lower": -INF, "upper": -INF}):
        wrong = program([1.0], [[1.0]], **bare, **bounds)
        yield functools.partial(verify.verify, one, wrong), "lower exceeds upper"


def test_verify_raises_on_data_that_are_not_finite():
    for call, name in wrong_numbers():
        with pytest.raises(ValueError, match=name):
            call()


# --- saved models, and the file alone -------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """A model file and a table of its data."""
    fields = {name: np.asarray(value, value.dtype) for name, value in vars(line()).items()}
    jboost.files.save(jboost.pair.Separator(**fields), tmp_path / "model.npz")
    (tmp_path / "data.csv").write_text("a,b,label\n0,0,-1\n2,0,1\n", encoding="utf-8")
    np.savez(tmp_path / "data.npz", points=POINTS, labels=LABELS, fat="removed")
    return tmp_path


@pytest.mark.parametrize("data", ["data.csv", "data.npz"])
def test_verify_file_reads_tables_and_arrays(saved, data):
    assert verify.verify_file(saved / "model.npz", saved / data).valid


def test_verify_file_never_raises_on_a_damaged_model(saved):
    content = (saved / "model.npz").read_bytes()
    for end in range(0, len(content), 97):
        (saved / "cut.npz").write_bytes(content[:end])
        assert not verify.verify_file(saved / "cut.npz", saved / "data.csv").valid


def npy(shape, data=b""):
    """A .npy file of a shape, whatever its data are."""
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def repacked(path, **members):
    """The archive of a model file with other members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        stored = {name: old.read(name) for name in old.namelist()}
        for name, data in {**stored, **members}.items():
            new.writestr(name, data)
    return stream.getvalue()


def with_bits(content, offset, value):
    """The archive with a field of all its entries changed: 8 is the flags, 10 the compression."""
    changed, start = bytearray(content), content.find(b"PK\x01\x02")
    while start >= 0:
        changed[start + offset] |= value
        start = content.find(b"PK\x01\x02", start + 4)
    return bytes(changed)


def hostile_archives(path):
    """Model files that are made to raise or to take memory."""
    content, magic = path.read_bytes(), b"\x93NUMPY\x01\x00\x10\x00"
    yield "encrypted", with_bits(content, 8, 1)
    yield "compression", with_bits(content, 10, 99)
    deep = b'{"format": "jboost-model", "model": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    for name, header in (("deep", deep), ("list", b"[1]"), ("vast", b" " * (50 << 20))):
        yield name, repacked(path, **{"header.json": header})
    for name, array in (
        ("vast shape", npy((10**15,))),
        ("negative shape", npy((-5,))),
        ("short", npy((2,), bytes(8))),
        ("long", npy((2,), bytes(24))),
        ("brackets", magic + b"(" * 16),
        ("zeros", magic + b"{'descr': " + bytes(6)),
    ):
        yield name, repacked(path, **{"normal.npy": array})


def test_verify_file_never_raises_on_an_archive_made_to_harm(saved):
    for name, content in hostile_archives(saved / "model.npz"):
        (saved / "bad.npz").write_bytes(content)
        tracemalloc.start()
        found = verify.verify_file(saved / "bad.npz", saved / "data.csv")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "no model file of jboost, or damaged" in found.reason, name
        assert most < 1 << 25, (name, most)


def test_verify_file_says_that_a_model_has_no_coefficients(saved):
    (saved / "bad.npz").write_bytes(repacked(saved / "model.npz", **{"normal.npy": npy((0,))}))
    found = verify.verify_file(saved / "bad.npz", saved / "data.csv")
    assert (found.valid, found.reason) == (False, "the model has no coefficients")


def test_verify_file_reads_a_learner_whose_settings_a_file_cannot_hold(tmp_path):
    fit = make_fit(learner=types.SimpleNamespace(x=1))
    hypotheses = jboost.learners.Stump(**vars(fit.ensemble.hypotheses))
    ensemble = jboost.ensemble.Ensemble(
        learner=fit.ensemble.learner,
        hypotheses=hypotheses,
        votes=fit.ensemble.votes,
        constant=fit.ensemble.constant,
        count=np.ones((), np.int32),
    )
    jboost.files.save(ensemble, tmp_path / "model.npz")
    found = verify.verify_file(tmp_path / "model.npz", "data.npz")
    assert "has no certificate that can be checked" in found.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,label\n0,-1\n", "has 1 columns of scores"),
        ("a,b,c\n0,0,1\n", "has no column label"),
        ("a,b,label\n0,x,1\n", "row 1 has 'x'"),
        ("a,b,label\n0,0,maybe\n", "row 1 has 'maybe'"),
        ("", "has 0 columns of scores"),
    ],
)
def test_verify_file_names_what_a_table_lacks(saved, text, message):
    (saved / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        verify.verify_file(saved / "model.npz", saved / "bad.csv")


def run_alone(folder, *arguments):
    """The file as a script where nothing of jboost and JAX can be imported."""
    code = (
        "import runpy, sys;"
        "sys.modules |= dict.fromkeys(('jax', 'jaxlib', 'optax', 'chex', 'jboost'));"
        f"sys.argv = ['verify.py', *{list(map(str, arguments))!r}];"
        f"runpy.run_path({str(FILE)!r}, run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def test_file_of_verify_runs_where_jax_is_not_installed(saved):
    ended = run_alone(saved, "model.npz", "data.csv")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0] == "valid"
    (saved / "data.csv").write_text("a,b,label\n0,0,1\n2,0,1\n", encoding="utf-8")
    ended = run_alone(saved, "model.npz", "data.csv")
    assert ended.returncode == 1
    assert "misclassified[0]" in ended.stdout
    ended = run_alone(saved, "model.npz", "nowhere.csv")
    assert ended.returncode == 2
    assert "nowhere.csv: cannot be read" in ended.stderr


def test_file_of_verify_imports_numpy_and_the_standard_library_only():
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names - {"numpy"} <= sys.stdlib_module_names


def test_a_model_of_example_weights_says_who_recomputes_its_bounds(tmp_path):
    points, labels = np.array([[-2.0, 0.0], [-1.0, 0.5], [1.0, 0.0], [2.0, 1.0]]), [-1, -1, 1, 1]
    model = jboost.example_weights.fit(points, labels, penalty=1.0, radius=5.0)
    jboost.files.save(model, tmp_path / "model.npz")
    found = [
        verify.verify(model, np.zeros((4, 1))),
        verify.verify_file(tmp_path / "model.npz", {"margins": np.zeros((4, 1))}),
    ]
    for each in found:
        assert not each.valid
        assert "jboost.example_weights.recompute_bounds" in each.reason


def test_sections_of_verify_have_at_most_300_lines():
    lines = FILE.read_text(encoding="utf-8").splitlines()
    starts = [i for i, text in enumerate(lines) if text.startswith("# ---")] + [len(lines)]
    for start, end in itertools.pairwise(starts):
        assert end - start <= 300, lines[start]


def test_verify_knows_every_status_of_jboost():
    assert tuple(Status(code).name for code in range(len(Status))) == verify._STATUSES


def odd_points(kind, num, rng):
    """Points of the plane: at random, of very different sizes, on and next to a line, subnormal."""
    line = np.arange(num)[:, None] * np.array([[0.1, 0.3]])
    found = (
        rng.normal(size=(num, 2)),
        rng.normal(size=(num, 2)) * 10.0 ** rng.integers(-300, 300, (num, 1)),
        line,
        line + rng.integers(-1, 2, (num, 2)) * 2.0**-52,
        rng.integers(-2, 3, (num, 2)) * 5e-324,
        rng.integers(-2, 3, (num, 2)).astype(float),
        rng.choice([-1.7e308, 1.7e308, 0.0, 1.0], (num, 2)),
    )
    return np.unique(found[kind], axis=0)


@pytest.mark.parametrize("kind", range(7))
def test_side_sums_in_the_plane_are_those_of_integers(kind):
    rng = np.random.default_rng(kind)
    for num in [*range(1, 12)] * 3:
        points = odd_points(kind, num, rng)
        vectors = verify._lifted(points)
        values = rng.integers(-9, 10, len(points)).astype(object)
        expected = {int(one) for sums in verify._side_sums(vectors, values) for one in sums}
        sums = verify._side_sums_in_the_plane(points, vectors, values)
        assert {int(one) for part in sums for one in part} == expected


@pytest.mark.parametrize("scale", [1.0, 0.25, 3.0e5])
def test_side_sums_of_a_grid_take_no_integer_arithmetic(scale, monkeypatch):
    """Products of differences of at most 26 bits are exact in float64, ties too."""
    points = scale * np.array([*itertools.product(range(7), repeat=2)], float) - 2 * scale
    vectors, rng = verify._lifted(points), np.random.default_rng(0)
    values = rng.integers(-9, 10, len(points)).astype(object)
    expected = {int(one) for sums in verify._side_sums(vectors, values) for one in sums}
    monkeypatch.delattr(verify, "_cross")
    sums = verify._side_sums_in_the_plane(points, vectors, values)
    assert {int(one) for part in sums for one in part} == expected


# --- votes of classifiers -------------------------------------------------------------------------


def make_vote(**changes):
    """A vote of one classifier on three examples, of which each vote has one wrong, by hand."""
    fields = {"coefficients": [1.0], "offset": -0.5, "loss": 1.0, "lower_bound": 1.0, "margin": 0.5}
    fields |= {"misclassified": [False, False, True], "status": 0}
    certificate = {"members": [[0, 1, 2]], "amounts": [1.0]}
    certificate |= {name: changes.pop(name) for name in tuple(certificate) if name in changes}
    return types.SimpleNamespace(
        **vars(record(**{**fields, **changes})), certificate=record(**certificate)
    )


SCORES, SIGNS = np.array([[0.0], [1.0], [2.0]]), np.array([-1, 1, -1])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss": 2.0}, "loss is 2"),
        ({"lower_bound": 2.0}, "a lower bound of 2 is claimed, and 1 is proven"),
        ({"misclassified": [True, False, True]}, "misclassified[0]"),
        ({"margin": 0.75}, "margin is 0.75"),
        ({"margin": INF}, "margin is inf"),
        ({"coefficients": [0.0], "offset": -1.0}, "misclassified[1]"),
        ({"coefficients": [0.0, 1.0]}, "coefficients has shape [2]"),
        ({"members": [[0, 1]]}, "members has shape"),
        ({"status": 2}, "INVALID_INPUT"),
    ],
)
def test_verify_combination_says_what_is_not_proven(changes, reason):
    assert verify.verify(make_vote(), SCORES, SIGNS)[:3] == (True, 1, 1)
    found = verify.verify(make_vote(**changes), SCORES, SIGNS)
    assert not found.valid
    assert reason in found.reason


def test_verify_combination_checks_that_no_example_is_nearer_than_the_margin():
    scores, signs = np.array([[0.0, 0.0], [2.0, 0.0], [1 + 1e-15, 0.0]]), [-1, 1, 1]
    fields = {"coefficients": [1.0, 0.0], "offset": -1.0, "loss": 0.0, "lower_bound": 0.0}
    fields |= {"misclassified": [False] * 3, "members": [[-1] * 4], "amounts": [0.0]}
    for margin, is_valid in ((1e-15, True), (0.0, True), (0.5, False), (1e9, False), (INF, False)):
        vote = make_vote(**fields, margin=margin)
        assert verify.verify(vote, scores, signs).valid == is_valid, margin
    fields |= {"misclassified": [False, False, True], "loss": 1.0, "status": 13}
    assert verify.verify(make_vote(**fields, margin=1.0), scores, signs).valid
    assert "nearer" in verify.verify(make_vote(**fields, margin=1.5), scores, signs).reason


def separating_votes(seed, num=3):
    """Votes without errors on scores far from 0, whose margin is computed in float64."""
    rng = np.random.default_rng(seed)
    for scale in np.repeat([1.0, 1e3, 1e6], num):
        scores = rng.normal(size=(12, 3)) * [1, 1e-3, 1e3] + 10 * scale
        coefficients = rng.normal(size=3)
        sums = scores @ coefficients
        low, high = np.sort(sums)[5:7]
        offset = -(low / 2 + high / 2)
        margin = np.min(np.abs(sums + offset)) / np.linalg.norm(coefficients)
        fields = {"coefficients": coefficients, "offset": offset, "margin": margin}
        fields |= {"loss": 0.0, "lower_bound": 0.0, "misclassified": [False] * 12}
        vote = make_vote(**fields, members=[[-1] * 5], amounts=[0.0])
        yield vote, scores, np.where(sums + offset > 0, 1, -1)


def test_verify_combination_takes_margins_of_scores_that_nearly_cancel():
    for vote, scores, labels in separating_votes(0):
        found = verify.verify(vote, scores, labels)
        assert found.valid, found.reason
        vote.margin = vote.margin * (1 + 1e-4)
        assert "its square should be" in verify.verify(vote, scores, labels).reason
        vote.margin = vote.margin * (1 - 2e-4)
        assert "its square should be" in verify.verify(vote, scores, labels).reason


@pytest.mark.slow
def test_verify_combination_accepts_fits_in_64_bits_of_scores_of_mixed_scales():
    rng = np.random.default_rng(2)
    with jax.enable_x64(True):
        for _ in range(20):
            scores = np.round(rng.normal(size=(24, 3)), 4) * rng.choice([1, 1e-3, 1e3], size=3)
            scores += rng.choice([0, 0, 1, 10])
            labels = rng.choice([-1, 1], 24)
            vote = jboost.combine.fit(scores, labels, strategy="coordinate", with_stacking=False)
            found = verify.verify(vote, scores, labels)
            assert found.valid, found.reason


def test_verify_combination_takes_the_bound_of_subsystems_that_are_proven():
    def bound(scores=SCORES, labels=SIGNS, **changes):
        return verify.verify(make_vote(**changes), scores, labels, max_points=0).lower

    assert bound() == 1
    assert bound(amounts=[0.5]) == Fraction(1, 2)
    assert bound(amounts=[2.0]) == 0  # more than the weights of three examples
    assert bound(members=[[0, 1, 2]] * 2, amounts=[0.5] * 2) == 1
    assert bound(members=[[0, 1, -1]]) == 0
    assert bound(members=[[0, 1, 9]]) == 0
    assert bound(scores=SCORES[[1, 0, 2]]) == 0  # separable
    old = make_vote()
    old.certificate = None  # in files of earlier versions
    assert verify.verify(old, SCORES, SIGNS, max_points=0).lower == 0
    assert verify.verify(old, SCORES, SIGNS).valid


def test_verify_combination_proves_no_bound_of_a_search_of_four_classifiers():
    scores = np.pad(SCORES, ((0, 0), (0, 3)))
    vote = make_vote(coefficients=[1.0, 0, 0, 0], members=np.full((1, 6), -1), amounts=[0.0])
    reason = verify.verify(vote, scores, SIGNS).reason
    assert "prove no larger lower bound" in reason
    assert "status is OPTIMAL" in reason
    with pytest.raises(ValueError, match="not finite"):
        verify.verify(vote, scores * np.nan, SIGNS)


@pytest.mark.slow
@pytest.mark.parametrize("num_classifiers", [1, 4])
def test_verify_combination_accepts_votes_of_any_scores_and_weights(num_classifiers):
    rng = np.random.default_rng(num_classifiers)
    for _ in range(6):
        scores = rng.normal(size=(14, num_classifiers)).astype(np.float32)
        labels, weights = rng.choice([-1, 1], 14), rng.random(14).astype(np.float32)
        weights[rng.random(14) < 0.2] = 0
        mask = rng.random(14) < 0.9
        given = {"weights": weights, "mask": mask}
        vote = jboost.combine.fit(scores, labels, with_stacking=False, **given)
        found = verify.verify(vote, scores, labels, **given)
        assert found.valid, found.reason
        certificate = vote.certificate
        exact = jboost.combine.recompute_bound(certificate, scores, labels, **given)
        assert found.lower >= exact
        if num_classifiers > 3:
            assert found.lower == exact
        assert found.lower >= float(vote.lower_bound)


def test_verify_combination_says_that_lines_through_many_points_are_not_tried():
    vote = make_vote()
    vote.certificate = None
    found = verify.verify_combination(vote, SCORES, SIGNS, max_points=2)
    assert "lower bounds of more than 2 points are not recomputed" in found.reason
    assert verify.verify_combination(vote, SCORES, SIGNS).valid


def test_verify_file_takes_votes_with_a_table_of_scores(tmp_path):
    vote = jboost.combine.LinearVote(**vars(make_vote()))
    certificate = jboost.combine.InfeasibleSubsystems(
        multipliers=np.array([[0.5, 1, 0.5]]),
        lower_bound=np.ones(()),
        **vars(vote.certificate),
    )
    jboost.files.save(vote._replace(certificate=certificate), tmp_path / "vote.npz")
    (tmp_path / "data.csv").write_text("a,label\n0,-1\n1,1\n2,-1\n", encoding="utf-8")
    np.savez(tmp_path / "data.npz", scores=SCORES, labels=SIGNS)
    for data in ("data.csv", "data.npz"):
        assert verify.verify_file(tmp_path / "vote.npz", tmp_path / data)[:3] == (True, 1, 1)


# --- ensembles ------------------------------------------------------------------------------------


def make_table(seed, num=40):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(num, 3)).round(1).astype(np.float32)
    table[rng.random(table.shape) < 0.1] = np.nan
    labels = np.where(np.nan_to_num(table[:, 0]) + rng.normal(size=num) > 0, 1, -1)
    return table, labels, rng.integers(0, 3, num).astype(np.float32)


def edges_of_stumps(table, signed, abstains):
    """The edges of all stumps and the constants, one by one."""
    outputs = [(1.0, 1.0), *([(0.0, 1.0), (1.0, 0.0)] if abstains else []), (-1.0, 1.0)]
    found = [abs(sum(signed))]
    for column in table.T.tolist():
        known = sorted(one for one in column if one == one)
        for threshold in [one for one in known if one < known[-1]]:
            for left, right in outputs[1:]:
                sides = [0 if x != x else right if x > threshold else left for x in column]
                found.append(abs(sum(int(side) * d for side, d in zip(sides, signed, strict=True))))
    return max(found)


@pytest.mark.parametrize("abstains", [False, True])
def test_largest_edge_of_stumps_matches_enumeration(abstains):
    for seed in range(20):
        table, labels, weights = make_table(seed, 1 + seed)
        signed = verify._fractions(weights * labels)
        found = verify._largest_edge_of_stumps(table, signed, abstains)
        assert found == edges_of_stumps(table, signed.tolist(), abstains)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stumps", "abstaining", "relaxed", "monomials"])
def test_verify_ensemble_accepts_genuine_fits_and_no_false_bound(name, tmp_path):
    table, labels, weights = make_table(7)
    features = (table > 0).astype(np.float32) if name == "monomials" else table
    dataset = jboost.make_dataset(features, labels, weights=weights)
    learner = {
        "abstaining": jboost.learners.stumps(abstain=True),
        "monomials": jboost.learners.monomials(2),
    }.get(name, jboost.learners.stumps())
    if name == "relaxed":
        relaxation = jboost.relaxations.soft_margin(nu=0.4)
        fit = jboost.relaxed_margin.fit(dataset, learner, relaxation=relaxation, max_rounds=60)
    else:
        fit = jboost.lpboost.fit(dataset, learner, nu=0.4, max_rounds=60)
    found = verify.verify(fit, features, labels, nu=0.4, weights=weights)
    assert found.valid, found.reason
    bounds = fit.certificate
    assert float(bounds.lower_bound) <= found.lower <= found.upper <= float(bounds.upper_bound)
    for change in ({"upper_bound": found.lower - 0.01}, {"lower_bound": found.upper + 0.01}):
        changed = {key: np.float32(value) for key, value in change.items()}
        false = fit._replace(certificate=bounds._replace(**changed))
        assert not verify.verify(false, features, labels, nu=0.4, weights=weights).valid
    assert not verify.verify(fit, features, -labels, nu=0.4, weights=weights).valid
    names = ("example_weights", "lower_bound", "upper_bound")
    stored = {one: getattr(bounds, one) for one in names} | {"status": fit.status}
    jboost.files.save({"ensemble": fit.ensemble} | stored, tmp_path / "fit.npz")
    data = {"features": features, "labels": labels, "weights": weights, "nu": 0.4}
    np.savez(tmp_path / "data.npz", **data)
    assert verify.verify_file(tmp_path / "fit.npz", tmp_path / "data.npz") == found


def make_fit(**changes):
    ensemble = types.SimpleNamespace(
        learner=types.SimpleNamespace(abstain=False),
        hypotheses=record(feature=[0], threshold=[0.5], left=[-1.0], right=[1.0]),
        votes=np.ones((1, 2)),
        constant=np.float64(0),
    )
    fields = {"example_weights": [0.5, 0.5], "lower_bound": 1.0, "upper_bound": 1.0, "status": 0}
    fit = record(**fields)
    fit.ensemble = ensemble
    for name, value in changes.items():
        setattr(fit if hasattr(fit, name) else ensemble, name, value)
    return fit


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"votes": np.array([[1.0, 2.0]])}, "votes differ"),
        ({"votes": np.array([[-1.0, -1.0]])}, "a lower bound of 1 is claimed, and -1 is proven"),
        ({"hypotheses": record(index=[0])}, "no array `literals`"),
        ({"hypotheses": record(literals=[[1, 0]], sign=[1])}, "not of these features"),
        ({"hypotheses": record(feature=[3], threshold=[0], left=[0], right=[1])}, "among 1"),
        (
            {"hypotheses": record(feature=[0], threshold=[0.5], left=[-2], right=[2])},
            "of the learner",
        ),
        (
            {"hypotheses": record(feature=[0], threshold=[0.5], left=[0], right=[1])},
            "of the learner",
        ),
        ({"hypotheses": record(feature=[0], threshold=[0.5], left=[-0.5], right=[1])}, "integers"),
        ({"hypotheses": record(feature=[0], threshold=[[0.5]], left=[], right=[1])}, "each vote"),
        ({"learner": types.SimpleNamespace()}, "not of stumps or monomials"),
        ({"example_weights": np.zeros(2)}, "no positive entry"),
        ({"upper_bound": np.float64(0.5)}, "an upper bound of 0.5 is claimed, and 1 is proven"),
        ({"status": np.int32(2)}, "INVALID_INPUT"),
        ({"votes": np.full((1, 2), 1.5)}, "no certificate that can be checked: the sizes of its"),
        ({"learner": types.SimpleNamespace(max_depth=2)}, "has no certificate"),
        ({"learner": types.SimpleNamespace(abstain=np.ones(2))}, "not of stumps or monomials"),
        ({"status": np.int32(5)}, "the caps of example weights sum to 2"),
        ({"status": np.int32(9)}, "status is PRIMAL_INFEASIBLE"),
        ({"status": np.int32(10)}, "status is DUAL_INFEASIBLE"),
    ],
)
def test_verify_ensemble_says_what_is_not_proven(changes, reason):
    features, labels = np.array([[0.0], [1.0]]), [-1, 1]
    assert verify.verify(make_fit(), features, labels).valid
    found = verify.verify(make_fit(**changes), features, labels)
    assert not found.valid
    assert reason in found.reason
    with pytest.raises(ValueError, match="leave no example"):
        verify.verify(make_fit(), features, labels, mask=[False, False])


def test_verify_ensemble_is_infeasible_exactly_where_the_caps_allow_no_weights():
    features, labels = np.array([[0.0], [1.0]]), [-1, 1]
    for cap, code, is_valid in ((0.01, 0, False), (0.01, 5, True), (0.5, 0, True), (0.5, 5, False)):
        found = verify.verify(make_fit(status=np.int32(code)), features, labels, cap=cap)
        assert found.valid == is_valid
        assert is_valid or "the caps of example weights sum to" in found.reason


def test_verify_ensemble_counts_stumps_that_separate_two_values_only():
    """A stump that tells known values from unknown ones is none of the learner's."""
    features, labels = np.array([[1.0], [1.0], [math.nan]]), [1, 1, -1]
    fit = make_fit(
        example_weights=np.array([0.25, 0.25, 0.5]),
        hypotheses=record(feature=[0], threshold=[-INF], left=[1.0], right=[1.0]),
        votes=np.zeros((1, 2)),
        lower_bound=np.float64(0),
        upper_bound=np.float64(0),
    )
    assert verify.verify(fit, features, labels)[:3] == (True, 0, 0)
    fit.ensemble.votes = np.ones((1, 2))
    assert "a lower bound of 0" in verify.verify(fit, features, labels).reason
    fit.ensemble.hypotheses.left = np.array([-1.0])
    assert "does not separate two values" in verify.verify(fit, features, labels).reason


def test_verify_ensemble_refuses_monomials_that_are_none_of_the_learner():
    features, labels = np.array([[0.0, 1.0], [1.0, 1.0]]), [-1, 1]
    literals, sign = np.array([[1, 0]]), np.array([1])
    fit = make_fit(learner=types.SimpleNamespace(max_order=1), lower_bound=np.float64(0))
    fit.upper_bound = np.float64(1)
    for wrong in ({}, {"literals": [[1, 1]]}, {"literals": [[2, 0]]}, {"sign": [3]}, {"sign": []}):
        fit.ensemble.hypotheses = record(**({"literals": literals, "sign": sign} | wrong))
        assert verify.verify(fit, features, labels).valid == (not wrong)
    fit.ensemble.hypotheses = record(literals=literals, sign=sign)
    fit.ensemble.learner.max_order = 10**12  # takes no more memory than that of all attributes
    assert verify.verify(fit, features, labels).valid
    fit.ensemble.learner.max_order = -1
    assert "max_order of the learner is -1" in verify.verify(fit, features, labels).reason


@pytest.mark.parametrize("part", ["fit", "ensemble", "hypotheses", "learner"])
def test_verify_never_raises_on_a_wrong_ensemble(part):
    def parts(fit):
        ensemble = fit.ensemble
        return {"fit": fit, "ensemble": ensemble, **vars(ensemble)}

    data = np.array([[0.0], [1.0]]), [-1, 1]
    for name, value in vars(parts(make_fit())[part]).items():
        shapes = [np.zeros(0), np.zeros((0, 2)), np.full((1, 1), 1.0)]
        if not isinstance(value, types.SimpleNamespace):
            numbers = [one for one in GARBAGE if isinstance(one, int | float)]
            shapes += [np.full(np.shape(value), one) for one in numbers]
        for garbage in (*GARBAGE, *shapes):
            fit = make_fit()
            setattr(parts(fit)[part], name, garbage)
            assert isinstance(verify.verify(fit, *data), verify.Verification)


def other_fits():
    """A fit of each booster or learner whose bounds are not those of a soft margin of stumps or
    monomials, and the options of the check.
    """
    table, labels, _ = make_table(7, 12)
    table = np.nan_to_num(table)
    dataset = jboost.make_dataset(table, labels)
    rules = jboost.make_dataset(table > 0, labels)
    stumps, relaxations = jboost.learners.stumps(), jboost.relaxations
    fits = {
        "adaboost": lambda: jboost.adaboost.fit(dataset, stumps, max_rounds=3),
        "infoboost": lambda: jboost.infoboost.fit(dataset, stumps, max_rounds=3),
        "slipper": lambda: jboost.slipper.fit(rules, num_rounds=3, key=jax.random.key(0)),
        "l0": lambda: jboost.l0.fit(dataset, stumps, margin=0.5, max_rounds=3),
        "trees": lambda: jboost.lpboost.fit(dataset, jboost.learners.trees(2), max_rounds=3),
        "pool": lambda: jboost.lpboost.fit(
            jboost.make_dataset(np.sign(table), labels), jboost.learners.pool(), max_rounds=3
        ),
        "votes": lambda: jboost.relaxed_margin.fit(
            dataset, stumps, votes=relaxations.squared_norm(0.01), max_rounds=5
        ),
        "relaxation": lambda: jboost.relaxed_margin.fit(
            dataset, stumps, relaxation=relaxations.kl_ball(0.1), max_rounds=3
        ),
    }
    options = {
        "votes": {"votes": relaxations.squared_norm(0.01)},
        "relaxation": {"relaxation": relaxations.kl_ball(0.1)},
    }
    return table, labels, fits, options


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["adaboost", "infoboost", "slipper", "l0", "trees", "pool", "votes", "relaxation"]
)
def test_verify_says_that_other_fits_have_no_certificate_that_can_be_checked(name):
    table, labels, fits, options = other_fits()
    found = verify.verify(fits[name](), table, labels, **options.get(name, {}))
    assert not found.valid
    assert "has no certificate that can be checked" in found.reason


def test_verify_accepts_no_fit_of_another_booster_whose_claims_are_those_of_a_soft_margin():
    fields = {"lower_bound": 1.0, "upper_bound": 1.0, "seen_upper_bound": 1.0}
    fields["example_weights"] = [0.5, 0.5]
    ensemble, data = make_fit().ensemble, (np.array([[0.0], [1.0]]), [-1, 1])
    fit = types.SimpleNamespace(ensemble=ensemble, certificate=record(**fields), status=0)
    assert verify.verify(fit, *data).valid
    for further in ("margin", "relaxation", "integer_lower_bound"):
        fit.certificate = record(**fields, **{further: 1.0})
        assert "has no certificate" in verify.verify(fit, *data).reason
        flat = types.SimpleNamespace(**vars(make_fit()), **{further: np.ones(())})
        for check in (verify.verify, verify.verify_ensemble):
            assert "has no certificate" in check(flat, *data).reason
    fit.certificate = record(**fields)
    fit.trace = record(edges=[], lower_bounds=[], upper_bounds=[], seen_upper_bounds=[], taus=[])
    assert "has no certificate" in verify.verify(fit, *data).reason
    del fit.certificate
    assert "has no certificate" in verify.verify(fit, *data).reason
