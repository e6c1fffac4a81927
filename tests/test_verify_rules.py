"""`jboost.verify` of the rules of l0: bounds over all monomials, and the files of `jboost fit`."""

import itertools
import subprocess
import sys
import types
from fractions import Fraction

import jax
import numpy as np
import pytest

import jboost
from certificates import every_rule
from command_line import run_in
from jboost import verify
from oracles import l0

MARGIN = Fraction(1, 4)


def random_table(seed):
    """Bits with gaps, labels and weights of a few rows, some of them equal."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (7, 3)).astype(float)
    table[rng.random(table.shape) < 0.1] = np.nan
    table[5:] = table[:2]
    labels = rng.choice([-1, 1], 7)
    labels[:2] = 1, -1
    return table, labels, rng.integers(1, 4, 7).astype(float)


def random_duals(seed, labels):
    """Duals at random, which satisfy no constraint of the dual program."""
    rng = np.random.default_rng(seed)
    positive, negative = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    pairs = [rng.permutation([rng.choice(positive), rng.choice(negative)]) for _ in range(5)]
    return types.SimpleNamespace(
        example_weights=rng.random(len(labels)) * rng.choice([0.1, 1.0]),
        pairs=np.array(pairs),
        pair_weights=rng.random(5) * rng.choice([0.05, 0.5]),
    )


def bound(duals, table, labels, weights, costs, either):
    examples = verify._read_examples(len(table), labels, weights, None, np.zeros(()))
    given = table, examples, verify._fractions(costs), MARGIN
    return verify._bound_over_monomials(duals, *given, either=either)


@pytest.mark.parametrize("either", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_bound_over_monomials_matches_that_of_the_pool_of_all_and_is_below_the_optimum(
    order, either
):
    for seed in range(12):
        table, labels, weights = random_table(seed)
        outputs, sizes = every_rule(table, order)
        costs = np.array([0.125, 0.5, 1.25])[: order + 1]
        duals = random_duals(seed, labels)
        found = bound(duals, table, labels, weights, costs, either)
        # the same bound by the check of a relaxation, over the listed pool
        cuts = "either" if either else "ordered"
        pool, kept, used = verify._read_pool(
            outputs, labels, costs[sizes], float(MARGIN), weights, None, None, either, np.zeros(())
        )
        listed = verify._relaxation_lower(duals, pool, kept, used)
        assert float(found) == pytest.approx(float(listed), abs=1e-12), cuts
        helps = l0.tell_apart if either else l0.serves
        optimum = l0.optimum(outputs, labels, costs[sizes], float(MARGIN), weights, helps)
        assert found <= optimum + 1e-9


def point_of(outputs, sizes, table, order, seed, labels):
    """A point of the relaxation over some monomials at random, in float64, which satisfies all
    margins and cuts; and its value by hand, in Fractions, without the weights and costs.
    """
    rng = np.random.default_rng(seed)
    literals = [(column, value) for column in range(table.shape[1]) for value in (0, 1)]
    chosen = [
        one
        for size in range(1, order + 1)
        for one in itertools.combinations(literals, size)
        if len({column for column, _ in one}) == size
    ]
    columns = rng.choice(np.arange(2, len(sizes)), 4, replace=False)
    rows = np.zeros((4, table.shape[1]), int)
    for row, column in zip(rows, columns, strict=True):
        for attribute, value in chosen[(column - 2) // 2]:
            row[attribute] = 1 if value else -1
    raw = rng.random(6)
    shares = raw / raw.sum()
    selected = np.maximum(rng.random(4), shares[2:])
    signed = labels[:, None] * outputs[:, [0, 1, *columns]]
    slacks = np.maximum((float(MARGIN) - signed @ shares) / (1 + float(MARGIN)) + 1e-9, 0)
    hits, misses = (signed[:, 2:] == 1) * selected, signed[:, 2:] != -1
    served = hits @ misses.T
    lacking = np.where(labels[:, None] != labels, 1 - served - slacks - slacks[:, None], 0)
    slacks += np.maximum(np.maximum(lacking, lacking.T).max(axis=1), 0) + 1e-9
    return types.SimpleNamespace(
        literals=rows,
        sign=np.where(columns % 2 == 0, 1, -1),
        coefficients=shares[2:],
        constants=shares[:2],
        selected=selected,
        slacks=slacks,
    )


@pytest.mark.parametrize("order", [1, 2])
def test_value_of_point_is_its_objective_and_above_the_optimum(order):
    for seed in range(12):
        table, labels, weights = random_table(seed)
        outputs, sizes = every_rule(table, order)
        costs = np.array([0.125, 0.5, 1.25])[: order + 1]
        point = point_of(outputs, sizes, table, order, seed, labels)
        examples = verify._read_examples(len(table), labels, weights, None, np.zeros(()))
        given = table, examples, verify._fractions(costs), MARGIN
        found, flaw = verify._value_of_point(point, *given)
        assert flaw == ""
        orders = abs(point.literals).sum(axis=1)
        value = weights @ point.slacks + costs[orders] @ point.selected
        assert float(found) == pytest.approx(value + costs[0] * point.constants.sum(), rel=1e-12)
        optimum = l0.optimum(outputs, labels, costs[sizes], float(MARGIN), weights)
        assert found >= optimum - 1e-9
        # without one of its slacks, the point violates a cut or still has a value that is attained
        for row in np.flatnonzero(point.slacks > 1e-6):
            lower = types.SimpleNamespace(**vars(point))
            lower.slacks = np.where(np.arange(len(labels)) == row, 0, point.slacks)
            changed, _ = verify._value_of_point(lower, *given)
            assert changed >= optimum - 1e-9


def test_flaw_of_cuts_sees_a_violation_of_the_last_bit(monkeypatch):
    """Two rows that one column tells apart: 1/2 + 1/4 + 1/4 = 1, and less by 2^-54."""
    point = verify._PointOfRelaxation(
        np.array([[True], [False]]), np.array([1, -1]), np.arange(2), np.array([1]), *(None,) * 2
    )
    exact = verify._fractions([0.25, 0.25])
    violates = "violates a cut"
    assert verify._flaw_of_cuts(point, verify._fractions([0.5]), exact) == violates
    # the cut of the other direction counts no column: the slacks alone must do
    full = verify._fractions([0.5, 0.5])
    for missing in (Fraction(0), Fraction(1, 2**54)):
        slacks = full.copy()
        slacks[0] -= missing
        flaw = verify._flaw_of_cuts(point, verify._fractions([0.5]), slacks)
        assert flaw == (violates if missing else "")
    assert "too large" in verify._flaw_of_cuts(point, verify._fractions([2.0**30]), full)
    monkeypatch.setattr(verify, "_MOST_PRODUCTS", 1)
    found = verify._flaw_of_cuts(point, verify._fractions([0.5]), full)
    assert found == "has cuts of 1 by 1 groups of rows, too many to check"


def test_bound_over_monomials_takes_duals_of_distinct_rows():
    """A dual of equal rows is the sum of theirs."""
    table = np.array([[1.0, 0.0], [0.0, np.nan], [1.0, 0.0], [1.0, 0.0]])
    labels, weights = np.array([1, -1, 1, -1]), np.array([1.0, 2.0, 3.0, 8.0])
    costs = np.array([0.0, 0.5])
    merged = types.SimpleNamespace(
        example_weights=[3.0, 1.0, 5.0], pairs=[[0, 1], [0, 2]], pair_weights=[0.5, 0.25]
    )
    whole = types.SimpleNamespace(
        example_weights=[0.75, 1.0, 2.25, 5.0],
        pairs=[[0, 1], [2, 1], [0, 3], [2, 3]],
        pair_weights=[0.125, 0.375, 0.0625, 0.1875],
    )
    found = [bound(one, table, labels, weights, costs, True) for one in (merged, whole)]
    assert found[0] == found[1]
    merged.example_weights = [1.0, 1.0]
    with pytest.raises(verify._RefutedError, match="has 2 entries: expected 3"):
        bound(merged, table, labels, weights, costs, True)


# Three rows of a bit that tells the classes apart but for the last row. By hand: the rule costs
# 1/2 and the votes 1/2 for `x` and 1/2 for -1 have the margins 1/2, 1/2 and -1/2.
FEATURES, LABELS = np.array([[1.0], [0.0], [0.0]]), np.array([1, -1, 1])


def make_result(**changes):
    duals = {"example_weights": np.zeros(3), "pairs": np.zeros((0, 2), int)}
    duals = types.SimpleNamespace(**duals, pair_weights=np.zeros(0))
    ensemble = types.SimpleNamespace(
        learner=types.SimpleNamespace(max_order=1),
        hypotheses=types.SimpleNamespace(literals=np.array([[1]]), sign=np.array([1])),
        votes=np.full((1, 2), 0.75),
        constant=np.array(-0.25),
    )
    fields = {
        "margin": np.array(0.25),
        "costs": np.array([0.0, 0.5]),
        "lower_bound": np.zeros(()),
        "integer_lower_bound": np.zeros(()),
        "integer_upper_bound": np.array(1.5),
        "integer": duals,
        "relaxed": duals,
    }
    for name, value in changes.items():
        (fields if name in fields else vars(ensemble))[name] = value
    return types.SimpleNamespace(ensemble=ensemble, proof=types.SimpleNamespace(**fields))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"integer_upper_bound": np.array(1.25)}, "an upper bound of 1.25 is claimed, and 1.5"),
        ({"integer_lower_bound": np.array(0.5)}, "a lower bound of 0.5 is claimed, and 0 is"),
        ({"lower_bound": np.array(0.5)}, "0.5 on the relaxation is claimed, and 0 is proven"),
        ({"constant": np.array(0.0)}, "an upper bound of 1.5 is claimed, and 2.5"),
        ({"votes": np.full((1, 2), -0.75)}, "an upper bound of 1.5 is claimed, and 2.5"),
        ({"votes": np.array([[0.75, 0.5]])}, "votes differ for the two outputs"),
        ({"margin": np.array(0.75)}, "an upper bound of 1.5 is claimed"),
        ({"margin": np.array(0.0)}, "is not that of a fit"),
        ({"costs": np.array([0.0, 1.0])}, "an upper bound of 1.5 is claimed, and 2 is"),
        ({"costs": np.array([0.0, 0.5, 0.5])}, "of one or two literals only"),
        ({"costs": np.array([np.inf, 0.5])}, "not finite numbers"),
        ({"costs": np.array([0.5, np.inf])}, "more literals than there are costs"),
        ({"integer": None}, "has no array `example_weights`"),
        ({"learner": types.SimpleNamespace()}, "of one or two literals only"),
    ],
)
def test_verify_rules_says_what_is_not_proven(changes, reason):
    assert verify.verify(make_result(), FEATURES, LABELS)[:3] == (True, 0, Fraction(3, 2))
    found = verify.verify(make_result(**changes), FEATURES, LABELS)
    assert not found.valid
    assert reason in found.reason


GARBAGE = (None, "x", [], [[]], np.nan, np.inf, -1.0, 1e300, np.zeros(0), np.ones((3, 3)), {})


@pytest.mark.parametrize("part", ["proof", "ensemble", "hypotheses", "integer"])
def test_verify_rules_never_raises_on_a_wrong_proof(part):
    def parts(result):
        return {"hypotheses": result.ensemble.hypotheses, "integer": result.proof.integer} | vars(
            result
        )

    for name in vars(parts(make_result())[part]):
        for garbage in GARBAGE:
            result = make_result()
            setattr(parts(result)[part], name, garbage)
            assert isinstance(verify.verify(result, FEATURES, LABELS), verify.Verification)


def test_the_upper_bound_of_a_fit_is_not_below_the_exact_sum_of_weights_and_costs():
    rows = np.arange(10)
    weights = 10.0 ** (3 * (rows % 4) - 3)
    table = np.stack([rows % 3 == 0, rows * 7 % 5 > 2, rows * 7 % 5 > 1], axis=1) * 1.0
    labels = np.where(rows % 2, 1, -1)
    with jax.enable_x64(True):
        learner = jboost.learners.monomials(1, kappa=0.1)
        dataset = jboost.make_dataset(table, labels, weights=weights)
        fitted = jboost.l0.fit_large(dataset, learner, margin=0.1)
        costs = np.concatenate([[0.0], np.asarray(learner.price_list(3, 10))])
    found = fitted.certificate
    proof = types.SimpleNamespace(
        margin=0.1,
        costs=costs,
        lower_bound=found.lower_bound,
        integer_lower_bound=found.integer_lower_bound,
        integer_upper_bound=found.integer_upper_bound,
        upper_bound=found.upper_bound,
        relaxed=found.proof,
        integer=found.integer_proof,
    )
    point = found.point
    proof.point = types.SimpleNamespace(
        **point._asdict(), literals=point.hypotheses.literals, sign=point.hypotheses.sign
    )
    result = types.SimpleNamespace(ensemble=fitted.ensemble, proof=proof)
    verification = verify.verify_rules(result, table, labels, weights=weights)
    assert verification.valid, verification.reason
    assert "and at most" in verification.reason
    proof.upper_bound = found.upper_bound * (1 - 1e-9)
    assert (
        "on the relaxation is claimed"
        in verify.verify_rules(result, table, labels, weights=weights).reason
    )


def test_a_table_of_one_column_has_no_rules_of_two_literals():
    """Their cost is infinite, and the bounds are those over rules of one literal."""
    costs = np.array([0.0, 0.5, np.inf])
    result = make_result(costs=costs, learner=types.SimpleNamespace(max_order=2))
    found = verify.verify(result, FEATURES, LABELS)
    assert found[:3] == (True, 0, Fraction(3, 2)), found.reason


def table_of_file(num=60):
    rng = np.random.default_rng(3)
    numbers, colours = rng.normal(size=(num, 2)).round(1), rng.choice(["red", "blue"], num)
    is_yes = numbers[:, 0] + (colours == "red") + 0.5 * rng.normal(size=num) > 0.4
    lines = ["a,b,colour,cost,y"]
    for row in range(num):
        first = "" if row % 13 == 4 else f"{float(numbers[row, 0])}"
        label = "yes" if is_yes[row] else "no"
        lines.append(f"{first},{float(numbers[row, 1])},{colours[row]},{row % 3},{label}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--max-order", "2", "--precision", "float32"),
        ("--max-order", "2", "--missing", "none", "--weights", "cost", "--holdout", "0.2"),
        ("--max-order", "cv", "--max-rules", "2"),
        ("--vote", "coefficients", "--weights", "cost"),
    ],
)
def test_verify_proves_the_bounds_of_rules_of_l0(options, tmp_path):
    (tmp_path / "data.csv").write_text(table_of_file(), encoding="utf-8")
    arguments = ("--data", "data.csv", "--label", "y", "--method", "l0", "--rounds", "20")
    code, _, err = run_in(tmp_path, "fit", *arguments, *options, "--output", "out")
    assert code == 0, err
    path = tmp_path / "out" / "model.npz"
    stated = jboost.files.load_metadata(path)
    code, out, _ = run_in(tmp_path, "verify", "out", "--data", "data.csv")
    if stated["model"]["max_order"] == "cv" or "training" not in stated:
        assert "no duals that prove the bounds of its rules" in out
        return
    assert out.startswith("valid"), out
    claimed = stated["model"]["certificate"]
    proven = [float(line.split()[-1]) for line in out.splitlines()[1:3]]
    assert claimed["integer_lower_bound"] <= proven[0]
    assert proven[1] <= claimed["integer_upper_bound"]
    ended = subprocess.run(
        [sys.executable, "-I", verify.__file__, "out", "data.csv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, out)
    with jax.enable_x64(True):
        stored = jboost.files.load(path)
    for name, change in (
        ("lower_bound", 0.01),
        ("integer_lower_bound", 0.01),
        ("integer_upper_bound", -0.01),
        ("upper_bound", -0.01),
    ):
        proof = {**stored["proof"], name: np.asarray(stored["proof"][name]) + change}
        changed = {**stated, "model": {**stated["model"], "certificate": None}}
        jboost.files.save({**stored, "proof": proof}, path, metadata=changed)
        out = run_in(tmp_path, "verify", "out", "--data", "data.csv")[1]
        assert "is claimed" in out
        jboost.files.save({**stored, "proof": proof}, path, metadata=stated)
        out = run_in(tmp_path, "verify", "out", "--data", "data.csv")[1]
        assert f"the metadata state {name}" in out
