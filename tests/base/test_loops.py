"""Loops and branches on a mesh: what is carried varies as a turn makes it vary, and every algorithm
runs on a data set of each device.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jboost
from jboost.base import loops
from jboost.lp import first_order, interior_point
from marks import slow, slow_but
from programs import PROGRAMS

WHOLE = ("adaboost.fit", "lpboost.solve")


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((jax.device_count(),), ("sets",), axis_types=(AxisType.Auto,))


def on_each_device(mesh, run):
    """A program of arrays [devices, ...], one row to a device."""

    def of_one(*rows):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], run(*(row[0] for row in rows)))

    return jax.jit(
        jax.shard_map(
            of_one, mesh=mesh, in_specs=PartitionSpec("sets"), out_specs=PartitionSpec("sets")
        )
    )


@pytest.mark.parametrize(
    "name",
    slow_but(
        PROGRAMS,
        "adaboost.fit",
        "lpboost.solve",
        "pair.leave_one_out",
        "lp.solve, InteriorPointConfig",
    ),
)
def test_every_algorithm_may_be_traced_under_shard_map(name, mesh):
    run, problem = PROGRAMS[name]
    on_each_device(mesh, run).trace(*(np.stack([field] * mesh.size) for field in problem))


@pytest.mark.slow
@pytest.mark.parametrize("name", [WHOLE[0], WHOLE[1]])
def test_a_data_set_on_each_device_is_as_one_alone(name, mesh):
    run, problem = PROGRAMS[name]
    batch = [
        np.stack([np.roll(field, place, axis=0) for place in range(mesh.size)]) for field in problem
    ]
    place = NamedSharding(mesh, PartitionSpec("sets"))
    together = jax.device_get(on_each_device(mesh, run)(*jax.device_put(batch, place)))
    alone = jax.jit(run)
    for row in range(mesh.size):
        jax.tree.map(
            lambda one, all_, row=row: np.testing.assert_array_equal(all_[row], one),
            alone(*(field[row] for field in batch)),
            together,
        )


@pytest.mark.slow
def test_loops_and_branches_take_constants_beside_what_varies(mesh):
    def run(row):
        total, _ = loops.scan(
            lambda now, x: ((now[0] + x, now[1] + now[0]), None),
            (jnp.zeros(()), jnp.zeros(())),
            row,
        )
        powers = loops.fori_loop(0, 3, lambda index, now: now * row[0] + index, jnp.ones(()))
        halved = loops.while_loop(
            lambda now: now[0] < 3,
            lambda now: (now[0] + 1, now[1] / 2 + row[1]),
            (0, jnp.zeros(())),
        )[1]
        chosen = loops.cond(row[0] > 1, lambda x: x, lambda _: jnp.zeros(()), row[2])
        one_of_three = loops.switch(
            row[0].astype(int), [lambda x: x[0], lambda _: jnp.ones(()), lambda x: x[1] + x[2]], row
        )
        none, _ = loops.scan(lambda now, x: (now, None), jnp.zeros(()), row[:0])
        return jnp.stack([*total, powers, halved, chosen, one_of_three, none])

    rows = np.arange(3.0 * mesh.size, dtype=np.float32).reshape(mesh.size, 3)
    found = on_each_device(mesh, run)(rows)
    for row, values in zip(rows, found, strict=True):
        np.testing.assert_allclose(values, run(jnp.asarray(row)), rtol=1e-6)


@pytest.mark.parametrize(
    ("solver", "config"),
    [
        (first_order, jboost.lp.FirstOrderConfig()),
        slow(interior_point, jboost.lp.InteriorPointConfig()),
    ],
    ids=["first_order", "interior_point"],
)
def test_a_loop_of_ones_own_over_the_steps_of_a_linear_program_may_be_traced(solver, config, mesh):

    def run(costs):
        program = jboost.lp.LinearProgram(
            costs,
            jboost.operators.identity(3),
            -jnp.ones(3),
            jnp.ones(3),
            -jnp.ones(3),
            jnp.ones(3),
        )

        def turn(state):
            return solver.step(state, program, tolerance=1e-3, config=config)[0]

        first = solver.init(program, config=config)
        return jax.lax.while_loop(
            lambda state: state.status == jboost.status.Status.UNFINISHED, turn, first
        ).best_error

    on_each_device(mesh, run).trace(np.ones((mesh.size, 3), np.float32))


def test_no_room_has_loops_of_its_own():
    root = Path(jboost.__file__).parent
    own = re.compile(r"\blax\.(scan|fori_loop|while_loop|cond|switch)\(")
    assert [
        str(path)
        for path in sorted(root.rglob("*.py"))
        if path != root / "base" / "loops.py" and own.search(path.read_text())
    ] == []
