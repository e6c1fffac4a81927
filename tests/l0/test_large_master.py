"""The master by NumPy, against the compiled one and against HiGHS."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from jboost.l0.large import master, master_on_host


def random_program(seed: int) -> master.MasterProgram:
    """Rows of both classes, columns of both signs with complements and repetitions, and cuts."""
    rng = np.random.default_rng(seed)
    num_rows, labels = 12, np.repeat([1, -1], 6).astype(np.float32)
    covered = rng.random((num_rows, 5)) < 0.5
    covered = np.concatenate([covered, ~covered, covered[:, :2]], axis=1)
    signs = np.where(rng.random(12) < 0.5, 1, -1)
    margins = (labels[:, None] * covered * signs[None, :]).astype(np.int8)
    first, second = rng.integers(0, 6, 9), rng.integers(6, 12, 9)
    serves = (covered[first] & ~covered[second] & (signs > 0)[None, :]).astype(np.int8)
    return master.MasterProgram(
        margins,
        serves,
        first.astype(np.int32),
        second.astype(np.int32),
        np.ones(9, np.float32),
        rng.uniform(0.1, 0.5, 12).astype(np.float32),
        np.asarray(0.05, np.float32),
        rng.uniform(0.5, 1.5, num_rows).astype(np.float32),
        labels,
        np.ones(12, bool),
        np.asarray(0.2, np.float32),
    )


def start_of(program: master.MasterProgram) -> master.MasterIterate:
    num_rows, num_columns = program.margins.shape
    sizes = (num_columns + 2, num_columns, num_rows, num_rows, len(program.is_cut))
    return master.MasterIterate(*(np.zeros(size, np.float32) for size in sizes))


def optimum(program: master.MasterProgram) -> float:
    """The value of the program by HiGHS: variables lambda, the two constants, delta and xi."""
    (num_rows, size), num_cuts = program.margins.shape, len(program.is_cut)
    margins, labels = program.margins.astype(float), program.labels.astype(float)
    slack = (1 + float(program.margin)) * np.eye(num_rows)
    nothing = np.zeros((num_rows, size))
    of_rows = np.hstack([margins, labels[:, None], -labels[:, None], nothing, slack])
    ends = np.eye(num_rows)[program.first] + np.eye(num_rows)[program.second]
    of_cuts = np.hstack([program.serves, np.zeros((num_cuts, 2)), program.serves, ends])
    costs = np.concatenate(
        [program.costs, [program.constant_cost] * 2, program.costs, program.weights]
    )
    number = 2 * size + 2
    found = optimize.linprog(
        costs,
        A_ub=-np.vstack([of_rows, of_cuts]),
        b_ub=-np.concatenate([np.full(num_rows, float(program.margin)), np.ones(num_cuts)]),
        A_eq=np.concatenate([np.ones(size + 2), np.zeros(size + num_rows)])[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * number + [(0, 1)] * num_rows,
        method="highs",
    )
    return float(found.fun)


@pytest.mark.parametrize("seed", range(3))
def test_master_on_host_converges_to_the_optimum_of_highs(seed: int) -> None:
    program = random_program(seed)
    found = master_on_host.improve(program, start_of(program), 1.0, 1500)
    value = (
        program.costs @ (found.coefficients[:-2] + found.extra)
        + program.constant_cost * found.coefficients[-2:].sum()
        + program.weights @ found.slacks
    )
    np.testing.assert_allclose(value, optimum(program), rtol=1e-3)


def test_master_on_host_iterates_as_the_compiled_one() -> None:
    for seed in range(3):
        program = random_program(seed)
        start, weight = start_of(program), np.asarray(2.0, np.float32)
        for count in (1, 5):
            found = master_on_host.improve(program, start, 2.0, count)
            expected = master.improve(program, start, weight, np.asarray(count, np.int32))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-5)


def test_columns_of_one_attribute_share_a_column_of_the_table() -> None:
    program = random_program(1)
    folded = master_on_host._fold(program)
    assert folded.table.shape[1] <= 5
    rng = np.random.default_rng(0)
    values, weights = rng.random(12), rng.random(12)
    np.testing.assert_allclose(folded.mixed(values), program.margins @ values, atol=1e-6)
    np.testing.assert_allclose(folded.edges(weights), weights @ program.margins, atol=1e-6)
