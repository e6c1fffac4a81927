"""Genuine results of all methods that `jboost.verify` checks, what is true of them by the oracles,
and tampered copies.

`python -m tests.certificates` takes 2,000 genuine and 20,000 tampered results, and prints how many
were accepted and how long the checks took beside the solvers.
"""

import collections
import functools
import itertools
import math
import sys
import time
import types
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # as pytest does it

import jboost
from jboost import verify
from oracles import combine, highs, l0, leave_one_out, monomials, pair

_NEAR = 1e-6  # relative: what HiGHS's optimum may be off, in float64


class Case(NamedTuple):
    """A genuine result, its data, and whether the claims of a result on these data are false."""

    kind: str
    result: types.SimpleNamespace
    data: tuple[Any, ...]
    options: dict[str, Any]
    optimum: Any  # a number
    is_false: Callable[[Any], bool]
    nested: Callable[[Any], Any] = lambda result: result  # the record of these arrays

    def verify(self, result: Any) -> verify.Verification:
        return verify.verify(self.nested(result), *self.data, **self.options)


def _namespaces(results, count):
    """The results of a vmapped call, one by one, with NumPy arrays."""
    arrays = {
        name: np.asarray(value)
        for name, value in results._asdict().items()
        if isinstance(value, jax.Array)
    }
    for index in range(count):
        yield types.SimpleNamespace(**{name: array[index] for name, array in arrays.items()})


def _over(value, bound, spare):
    """Whether a number exceeds a bound clearly."""
    return value > bound + spare * (1 + abs(bound))


def _bounds_are_false(optimum, result):
    """Whether the bounds leave out the optimum, which HiGHS has found."""
    lower, upper = float(result.lower_bound), float(result.upper_bound)
    return bool(
        math.isnan(lower)
        or math.isnan(upper)
        or _over(lower, optimum, _NEAR)
        or _over(-upper, -optimum, _NEAR)
    )


# --- one function a kind --------------------------------------------------------------------------


@jax.jit
@jax.vmap
def _separate(points, labels, weights):
    return jboost.pair.optimal_separator(points, labels, weights=weights)


def pairs(rng, count):
    """Points on small grids and off them, of whole weights."""
    points = rng.integers(0, 5, (count, 9, 2)) / 1.0
    points[::2] = np.round(rng.normal(size=points[::2].shape) * 1024) / 1024
    labels, weights = rng.choice([-1, 1], (count, 9)), rng.integers(1, 5, (count, 9))
    results = _separate(points, labels, weights)
    for index, result in enumerate(_namespaces(results, count)):
        data = points[index], labels[index]
        least = pair.optimal_pair(*data, weights[index]).loss
        is_false = functools.partial(_separator_is_false, least, *data, weights[index])
        yield Case("pair", result, data, {"weights": weights[index]}, least, is_false)


def _separator_is_false(least, points, labels, weights, result):
    line = result.normal, result.anchor, result.bias
    with np.errstate(all="ignore"):
        loss, wrong = pair.check_separator(points, labels, weights, *line)
    return bool(
        not result.lower_bound <= least
        or result.loss != loss
        or (np.asarray(result.misclassified) != wrong).any()
        or (result.status == 0 and loss > least)
    )


@jax.jit
@jax.vmap
def _solve_program(objective, matrix, row_lower, row_upper):
    return jboost.lp.solve(
        jboost.lp.make_program(
            objective, matrix, row_lower=row_lower, row_upper=row_upper, upper=6.0
        )
    )


def programs(rng, count):
    """Equalities, rows of one and two bounds, in variables from 0 to 6; some are infeasible."""
    matrix = rng.integers(-3, 4, (count, 4, 6)) / 1.0
    reached = (matrix @ rng.integers(0, 5, (count, 6, 1)))[..., 0] + 0.0
    kinds = rng.integers(0, 3, reached.shape)
    row_lower = np.where(kinds == 1, -np.inf, reached - (kinds == 2))
    row_upper = np.where(kinds == 2, np.inf, reached + (kinds == 1))
    row_lower[::9, 0] = row_upper[::9, 0] = 200.0
    objective = np.round(rng.normal(size=(count, 6)) * 64) / 64
    results = _solve_program(objective, matrix, row_lower, row_upper)
    for index, result in enumerate(_namespaces(results, count)):
        program = types.SimpleNamespace(
            objective=objective[index],
            matrix=matrix[index],
            operator=matrix[index],
            row_lower=row_lower[index],
            row_upper=row_upper[index],
            lower=np.zeros(6),
            upper=np.full(6, 6.0),
        )
        optimum = highs.solve(program).objective
        is_false = functools.partial(_solution_is_false, optimum)
        yield Case("lp", result, (program,), {}, optimum, is_false)


def _solution_is_false(optimum, result):
    if math.isinf(optimum):
        return bool(result.upper_bound < math.inf)
    return _bounds_are_false(optimum, result) or result.status in (9, 10)


@jax.jit
@jax.vmap
def _solve_margins(margins, nu, weights):
    return jboost.lpboost.solve(margins, nu=nu, weights=weights)


def soft_margins(rng, count):
    """Margins between -1 and 1, of weighted examples."""
    margins = np.clip(np.round(rng.normal(0.2, 0.5, (count, 9, 4)) * 64) / 64, -1, 1)
    nus, weights = rng.integers(8, 60, count) / 64, rng.integers(1, 4, (count, 9)) / 1.0
    results = _solve_margins(margins, nus, weights)
    for index, result in enumerate(_namespaces(results, count)):
        caps = weights[index] / weights[index].sum() / nus[index]
        optimum = -_best_margin(margins[index], caps)
        options = {"nu": nus[index], "weights": weights[index], "votes": "simplex"}
        is_false = functools.partial(_bounds_are_false, optimum)
        yield Case("soft margin", result, (margins[index],), options, optimum, is_false)


def _best_margin(margins, caps):
    """min sum_i cap_i xi_i - rho s.t. A w + xi >= rho, sum w = 1."""
    m, n = margins.shape
    matrix = np.block(
        [[margins, np.eye(m), -np.ones((m, 1))], [np.ones((1, n)), np.zeros((1, m + 1))]]
    )
    return highs.solve(
        types.SimpleNamespace(
            objective=np.r_[np.zeros(n), caps, -1],
            matrix=matrix,
            row_lower=np.r_[np.zeros(m), 1],
            row_upper=np.r_[np.full(m, np.inf), 1],
            lower=np.r_[np.zeros(n + m), -np.inf],
            upper=np.full(n + m + 1, np.inf),
        )
    ).objective


@jax.jit
@jax.vmap
def _boost(features, labels, nu, weights):
    dataset = jboost.make_dataset(features, labels, weights=weights)
    return jboost.lpboost.fit(dataset, jboost.learners.stumps(), nu=nu, max_rounds=24)


def ensembles(rng, count):
    """Stumps on two attributes, with unknown values, of weighted examples."""
    features = rng.integers(0, 5, (count, 9, 2)).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    labels = rng.choice([-1, 1], (count, 9))
    nus, weights = rng.integers(8, 60, count) / 64, rng.integers(1, 4, (count, 9)) / 1.0
    fits = _boost(features, labels, nus, weights)
    parts = (fits.ensemble.hypotheses, fits.ensemble, fits.certificate, fits)
    arrays = [part._asdict() for part in parts]
    arrays = {name: np.asarray(a) for part in arrays for name, a in part.items() if name in _FLAT}
    for index in range(count):
        result = types.SimpleNamespace(**{name: array[index] for name, array in arrays.items()})
        caps = weights[index] / weights[index].sum() / nus[index]
        margins = _outputs_of_stumps(features[index]) * labels[index][:, None]
        optimum = -_best_margin(np.concatenate([margins, -margins], axis=1), caps)
        options, data = {"nu": nus[index], "weights": weights[index]}, (features[index],)
        data = (*data, labels[index])
        is_false = functools.partial(_bounds_are_false, optimum)
        yield Case("ensemble", result, data, options, optimum, is_false, _nested)


_FLAT = ("feature", "threshold", "left", "right", "votes", "constant", "example_weights")
_FLAT += ("lower_bound", "upper_bound", "status")


def _nested(flat):
    """The record of a fit from its arrays."""
    fields = dict(vars(flat))
    stump = {name: fields.pop(name) for name in ("feature", "threshold", "left", "right")}
    fields["ensemble"] = types.SimpleNamespace(
        learner=types.SimpleNamespace(abstain=False),
        hypotheses=types.SimpleNamespace(**stump),
        votes=fields.pop("votes"),
        constant=fields.pop("constant"),
    )
    return types.SimpleNamespace(**fields)


def _outputs_of_stumps(features):
    """The outputs [m, k] of the constant and of a stump at each threshold; 0 where unknown."""
    columns = [np.ones(len(features))]
    for column in features.T:
        for threshold in np.unique(column[~np.isnan(column)])[:-1]:
            sides = np.where(column > threshold, 1.0, -1.0)
            columns.append(np.where(np.isnan(column), 0.0, sides))
    return np.stack(columns, axis=1)


@jax.jit
@jax.vmap
def _relax(outputs, labels, costs, margin):
    return jboost.l0.solve_relaxation(outputs, labels, costs, margin=margin)


def relaxations(rng, count):
    """Pools of six hypotheses, the constant +1 first; some abstain."""
    outputs = rng.choice([-1, 0, 1], (count, 8, 6), p=[0.45, 0.1, 0.45])
    outputs[:, :, 0] = 1
    labels = np.where(rng.random((count, 8)) < 0.5, 1, -1)
    costs, margin = rng.integers(1, 64, (count, 6)) / 64, rng.integers(1, 9, count) / 8
    results = _relax(outputs, labels, costs, margin)
    for index, result in enumerate(_namespaces(results, count)):
        data = outputs[index], labels[index], costs[index]
        optimum = l0.optimum(*data, margin[index])
        is_false = functools.partial(_bounds_are_false, optimum)
        yield Case("relaxation", result, data, {"margin": margin[index]}, optimum, is_false)


_MARGIN, _NUM_BITS, _ORDER = 0.25, 3, 2


def rules(rng, count):
    """Rules of at most two of three bits, some unknown, of weighted examples."""
    learner = jboost.learners.monomials(_ORDER, kappa=0.3)
    table = rng.integers(0, 2, (count, 10, _NUM_BITS)).astype(np.float32)
    table[rng.random(table.shape) < 0.1] = np.nan
    labels, weights = rng.choice([-1, 1], (count, 10)), rng.integers(1, 9, (count, 10)) / 4
    costs = np.append(0.0, np.asarray(learner.price_list(_NUM_BITS, 10), float))
    nested = functools.partial(_nested_rules, costs)
    rounds = rng.integers(1, 20, count)
    flat = []
    for one in zip(table, labels, weights, rounds, strict=True):
        dataset = jboost.make_dataset(*one[:2], weights=one[2])
        fit = jboost.l0.fit_large(dataset, learner, margin=_MARGIN, max_rounds=int(one[3]))
        flat.append(_flat_rules(fit))
    for index, result in enumerate(flat):
        data = table[index], labels[index]
        outputs, sizes = every_rule(table[index], _ORDER)
        pool = outputs, labels[index], costs[sizes], _MARGIN, weights[index]
        optima = l0.optimum(*pool), l0.integer_optimum(*pool)
        is_false = functools.partial(_rules_are_false, optima)
        options = {"weights": weights[index]}
        yield Case("rules", result, data, options, optima[0], is_false, nested)


def every_rule(table, order):
    """Outputs [m, U] of both constants and of all signed rules of up to `order` literals, and their
    numbers of literals.
    """
    literals = [(column, value) for column in range(table.shape[1]) for value in (0, 1)]
    columns, sizes = [np.ones(len(table)), -np.ones(len(table))], [0, 0]
    for size in range(1, order + 1):
        for chosen in itertools.combinations(literals, size):
            if len({column for column, _ in chosen}) == size:
                covers = np.all([table[:, column] == value for column, value in chosen], axis=0)
                columns += [covers * 1.0, covers * -1.0]
                sizes += [size, size]
    return np.stack(columns, axis=1), np.array(sizes)


_BOUNDS = ("lower_bound", "upper_bound", "integer_lower_bound", "integer_upper_bound")
_DUALS = ("example_weights", "pairs", "pair_weights")
_POINT = ("coefficients", "constants", "selected", "slacks")


def _flat_rules(fit):
    """The arrays of a fit of rules."""
    found, ensemble = fit.certificate, fit.ensemble
    arrays = {name: getattr(found, name) for name in _BOUNDS}
    for kind, duals in (("relaxed", found.proof), ("integer", found.integer_proof)):
        arrays |= {f"{kind}_{name}": getattr(duals, name) for name in _DUALS}
    arrays |= {f"point_{name}": getattr(found.point, name) for name in _POINT}
    arrays |= {f"point_{k}": v for k, v in found.point.hypotheses._asdict().items()}
    arrays |= dict(ensemble.hypotheses._asdict(), votes=ensemble.votes, constant=ensemble.constant)
    return types.SimpleNamespace(**{name: np.array(array) for name, array in arrays.items()})


def _nested_rules(costs, flat):
    """The record of a fit from its arrays."""
    fields = vars(flat)

    def part(prefix):
        start = f"{prefix}_"
        found = {k.removeprefix(start): v for k, v in fields.items() if k.startswith(start)}
        return types.SimpleNamespace(**found)

    ensemble = types.SimpleNamespace(
        learner=types.SimpleNamespace(max_order=_ORDER),
        hypotheses=types.SimpleNamespace(literals=flat.literals, sign=flat.sign),
        votes=flat.votes,
        constant=flat.constant,
    )
    proof = types.SimpleNamespace(
        **{name: fields[name] for name in _BOUNDS},
        margin=np.array(_MARGIN),
        costs=costs,
        relaxed=part("relaxed"),
        integer=part("integer"),
        point=part("point"),
    )
    return types.SimpleNamespace(ensemble=ensemble, proof=proof)


def _rules_are_false(optima, result):
    """Whether the bounds leave out the optimum of the relaxation, or that of errors plus costs."""
    integer = types.SimpleNamespace(
        lower_bound=result.integer_lower_bound, upper_bound=result.integer_upper_bound
    )
    return _bounds_are_false(optima[0], result) or _bounds_are_false(optima[1], integer)


@jax.jit
@jax.vmap
def _agree(features, labels, weights, costs):
    return jboost.monomials.maximum_agreement(features, labels, weights, max_order=2, costs=costs)


def agreements(rng, count):
    """Five attributes, up to two literals."""
    features = rng.integers(0, 2, (count, 9, 5))
    labels = rng.choice([-1, 1], (count, 9))
    weights = rng.integers(1, 64, (count, 9)) / 512
    costs = np.sort(rng.integers(0, 8, (count, 3)) / 64)
    results = _agree(features, labels, weights, costs)
    for index, result in enumerate(_namespaces(results, count)):
        data = features[index], labels[index], weights[index]
        optimum = monomials.exact_best(*data, max_order=2, costs=costs[index])
        options = {"max_order": 2, "costs": costs[index]}
        is_false = functools.partial(_monomial_is_false, optimum, data, costs[index])
        yield Case("monomial", result, data, options, optimum, is_false)


def _monomial_is_false(optimum, data, costs, result):
    if not np.isin(result.literals, (-1, 0, 1)).all() or abs(result.literals).sum() > 2:
        return True
    if abs(result.sign) != 1 or not math.isfinite(result.value):
        return True
    exact = monomials.exact_value(result.literals, int(result.sign), *data, costs=costs)
    is_near = abs(Fraction(float(result.value)) - exact) <= Fraction(1, 2**18)
    return bool(not float(result.upper_bound) >= optimum or not is_near)


@jax.jit
@jax.vmap
def _leave_out(points, labels, weights):
    return jboost.pair.leave_one_out(points, labels, weights=weights, max_separators=32)


def left_out(rng, count):
    """Six points on a grid."""
    points = rng.integers(0, 6, (count, 6, 2)) / 1.0
    labels, weights = rng.choice([-1, 1], (count, 6)), rng.integers(1, 4, (count, 6))
    results = _leave_out(points, labels, weights)
    for index, result in enumerate(_namespaces(results, count)):
        data = points[index], labels[index]
        truth = leave_one_out.leave_one_out(*data, weights[index])
        is_false = functools.partial(_kinds_are_false, truth)
        options = {"weights": weights[index]}
        yield Case("leave one out", result, data, options, truth.error, is_false)


def _kinds_are_false(truth, result):
    errors = [float(error) for error in truth.errors]
    return bool(
        (result.kinds != truth.kinds).any()
        or not np.allclose(result.errors, errors, rtol=1e-5)
        or not np.isclose(float(result.error), float(truth.error), rtol=1e-5)
    )


@jax.jit
@jax.vmap
def _combine(scores, labels, weights):
    return jboost.combine.fit(scores, labels, weights=weights, with_stacking=False)


def combinations(rng, count):
    """Scores of four classifiers on a grid, of weighted examples."""
    scores = rng.integers(0, 4, (count, 8, 4)) / 1.0
    labels, weights = rng.choice([-1, 1], (count, 8)), rng.integers(1, 5, (count, 8)) / 1.0
    votes = _combine(scores, labels, weights)
    arrays = {name: np.asarray(getattr(votes, name)) for name in votes._fields[:-1]}
    arrays |= {name: np.asarray(getattr(votes.certificate, name)) for name in _SUBSYSTEMS}
    for index in range(count):
        result = types.SimpleNamespace(**{name: array[index] for name, array in arrays.items()})
        data = scores[index], labels[index]
        least = round(combine.least_loss_by_milp(*data, weights[index]))
        is_false = functools.partial(_vote_is_false, least, *data, weights[index])
        options = {"weights": weights[index]}
        yield Case("combination", result, data, options, least, is_false, _with_subsystems)


_SUBSYSTEMS = ("members", "multipliers", "amounts")


def _with_subsystems(flat):
    """The record of a vote from its arrays."""
    fields = dict(vars(flat))
    certificate = {name: fields.pop(name) for name in _SUBSYSTEMS}
    return types.SimpleNamespace(**fields, certificate=types.SimpleNamespace(**certificate))


def _vote_is_false(least, scores, labels, weights, result):
    numbers = (*result.coefficients, result.offset, result.loss)
    if not np.isfinite(numbers).all():
        return True
    wrong = combine.wrong_examples(result.coefficients, result.offset, scores, labels)
    loss = combine.exact_sum(weights, wrong)
    return bool(
        not float(result.lower_bound) <= least
        or result.loss != loss
        or (np.asarray(result.misclassified) != wrong).any()
        or (result.status == 0 and loss > least)
    )


KINDS = {
    "pair": pairs,
    "lp": programs,
    "soft margin": soft_margins,
    "relaxation": relaxations,
    "monomial": agreements,
    "leave one out": left_out,
    "ensemble": ensembles,
    "combination": combinations,
    "rules": rules,
}


# --- tampering ------------------------------------------------------------------------------------


def tamper(rng, case, other):
    """A copy of a result with one number changed, one bound moved past the truth, or an array
    rolled, or taken from another result."""
    result = types.SimpleNamespace(**{name: np.copy(a) for name, a in vars(case.result).items()})
    ways = (_change_number, _move_bound, _roll_array, _swap_array)
    ways[rng.integers(len(ways))](rng, case, result, other)
    return result


def _change_number(rng, case, result, other):
    names = [name for name, array in vars(result).items() if array.size]
    array = getattr(result, names[rng.integers(len(names))])
    index = tuple(rng.integers(size) for size in array.shape)
    if array.dtype.kind == "b":
        array[index] = not array[index]
    elif array.dtype.kind == "i":
        array[index] += rng.choice([-1, 1])
    else:
        changes = (0.0, -array[index], array[index] + rng.normal() * 10.0 ** -rng.integers(0, 5))
        extremes = (math.nan, math.inf, -math.inf)
        array[index] = (changes * 3 + extremes)[rng.integers(12)]


def _move_bound(rng, case, result, other):
    past = 10.0 ** -rng.uniform(0, 4) * (1 + abs(float(case.optimum)))
    if math.isinf(past):
        past = 1.0
    sides = [
        name for name in ("lower_bound", "upper_bound", "loss", "error") if hasattr(result, name)
    ]
    name = sides[rng.integers(len(sides))]
    sign = 1 if name in ("lower_bound", "error") else -1
    base = 0.0 if math.isinf(float(case.optimum)) else float(case.optimum)
    getattr(result, name)[...] = base + sign * past


def _roll_array(rng, case, result, other):
    names = [name for name, array in vars(result).items() if array.ndim]
    name = names[rng.integers(len(names))]
    setattr(result, name, np.roll(getattr(result, name), 1))


def _swap_array(rng, case, result, other):
    names = list(vars(result))
    name = names[rng.integers(len(names))]
    setattr(result, name, np.copy(getattr(other.result, name)))


class Tally(NamedTuple):
    """Counts of one kind."""

    num_genuine: int
    num_tampered: int
    num_false: int  # of the tampered ones
    refused: list  # reasons of genuine results that are not valid
    accepted: list  # tampered results that are false and valid
    solving: float  # seconds of all genuine results in one call, without compilation
    checking: float  # seconds for them, one by one


def survey(kind, rng, count, copies) -> Tally:
    """Checks genuine results and tampered copies of each."""
    next(KINDS[kind](rng, count))  # compiles
    start = time.perf_counter()
    drawn = KINDS[kind](rng, count)
    first = next(drawn)  # after all are solved
    solving = time.perf_counter() - start
    cases = [first, *drawn]
    begun = time.perf_counter()
    verdicts = [case.verify(case.result) for case in cases]
    checking = time.perf_counter() - begun
    refused = [v.reason for v in verdicts if not v.valid]
    num_false, accepted = 0, []
    for case in cases:
        for _ in range(copies):
            copy = tamper(rng, case, cases[rng.integers(len(cases))])
            is_false = case.is_false(copy)
            num_false += is_false
            if is_false and case.verify(copy).valid:
                accepted.append((case, copy))
            elif not is_false:
                case.verify(copy)  # never raises
    return Tally(count, count * copies, num_false, refused, accepted, solving, checking)


def main():
    rng, totals = np.random.default_rng(0), collections.Counter()
    for kind in KINDS:
        found = survey(kind, rng, 334, 10)
        lines = [
            f"{kind}: {found.num_genuine - len(found.refused)} of {found.num_genuine} valid;"
            f" {found.num_tampered} tampered, {found.num_false} false, of them"
            f" {len(found.accepted)} accepted; ms a result: solving"
            f" {1e3 * found.solving / found.num_genuine:.2f},"
            f" checking {1e3 * found.checking / found.num_genuine:.2f}",
            *found.refused[:3],
            *[str(copy) for _, copy in found.accepted[:2]],
        ]
        sys.stdout.write("\n  ".join(lines) + "\n")
        totals.update(genuine=found.num_genuine, tampered=found.num_tampered)
    sys.stdout.write(f"{dict(totals)}\n")


if __name__ == "__main__":
    main()
