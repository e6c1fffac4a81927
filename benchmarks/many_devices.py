"""What algorithms send between devices and hold on each, from compiled programs: `python -m
benchmarks.many_devices`.

Programs are compiled, not run, for 1, 2, 4 and 8 simulated devices with the examples sharded over
them; the text that XLA compiled says what every device sends in a turn of each loop.

Searches that the host drives are run (`--only searches`) and their steps counted: simulated devices
share the cores of one machine, so seconds would say nothing.
"""

from __future__ import annotations

import argparse
import collections
import functools
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import jboost
from benchmarks import harness, pair_sweep

NUM_EXAMPLES, NUM_COLUMNS = 65536, 32
QUICK_EXAMPLES = 8192
NUM_POINTS, QUICK_POINTS = 100_000, 3000  # of the search for a line
DEVICES = (1, 2, 4, 8)
_KINDS = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
_COLLECTIVE = re.compile(rf"= (\(?.*?\)?) ({_KINDS})(?:-start)?\(")
_SHAPE = re.compile(r"(pred|[a-z]+\d+)\[([\d,]*)\]")
_HEAD = re.compile(r"^(ENTRY )?%(\S+) \(.*\{$")
_BODY = re.compile(r"while\(.*body=%([^,\s]+)")
_CALLED = re.compile(
    r"(?:calls|to_apply|true_computation|false_computation)=%([^,\s)]+)|branch_computations=\{([^}]*)\}"
)


def _boost(fit: Callable[..., Any], learner: Callable[[], Any]) -> Callable[..., Any]:
    return lambda features, labels: fit(
        jboost.make_dataset(features, labels), learner(), max_rounds=8
    )


def _game(game: Any) -> Any:
    return jboost.relaxed_margin.solve(game, jboost.relaxations.soft_margin(nu=0.1))


def _packed_game(bits: Any) -> Any:
    return _game(jboost.operators.PackedSigns(bits, np.float32(1), 8 * NUM_COLUMNS, False))


# name -> the function, and whether each argument is a matrix [m, n], one of uint8, or a vector [m]
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "projections.kl_projection_capped_simplex": (
        lambda x: jboost.projections.kl_projection_capped_simplex(x, 0.01),
        ("vector",),
    ),
    "projections.projection_capped_simplex": (
        lambda x: jboost.projections.projection_capped_simplex(x, 0.01),
        ("vector",),
    ),
    "projections.bregman_projection": (
        lambda x: jboost.projections.bregman_projection(x, jboost.projections.power_map(3.0), 0.01),
        ("vector",),
    ),
    "projections.projection_l1_ball": (jboost.projections.projection_l1_ball, ("vector",)),
    "relaxed_margin.solve": (_game, ("matrix",)),
    "relaxed_margin.solve_smoothed": (
        lambda game: jboost.relaxed_margin.solve_smoothed(
            game, jboost.relaxations.soft_margin(nu=0.1), smoothing=0.1
        ),
        ("matrix",),
    ),
    "relaxed_margin.solve, packed signs": (_packed_game, ("bytes",)),
    "relaxed_margin.fit": (
        _boost(jboost.relaxed_margin.fit, jboost.learners.literals),
        ("matrix", "vector"),
    ),
    "lpboost.solve": (lambda game: jboost.lpboost.solve(game, nu=0.1), ("matrix",)),
    "lpboost.fit": (_boost(jboost.lpboost.fit, jboost.learners.literals), ("matrix", "vector")),
    "adaboost.fit, literals": (
        _boost(jboost.adaboost.fit, jboost.learners.literals),
        ("matrix", "vector"),
    ),
    "adaboost.fit, stumps": (
        _boost(jboost.adaboost.fit, jboost.learners.stumps),
        ("matrix", "vector"),
    ),
    "adaboost.fit, quantised stumps": (
        _boost(jboost.adaboost.fit, jboost.learners.quantised_stumps),
        ("bytes", "vector"),
    ),
    "infoboost.fit, stumps": (
        _boost(jboost.infoboost.fit, jboost.learners.stumps),
        ("matrix", "vector"),
    ),
    "slipper.fit": (
        lambda features, labels: jboost.slipper.fit(
            jboost.make_dataset(features, labels),
            jboost.slipper.rules(4),
            key=jax.random.key(0),
            num_rounds=4,
        ),
        ("matrix", "vector"),
    ),
    "infoboost.fit, literals": (
        _boost(jboost.infoboost.fit, jboost.learners.literals),
        ("matrix", "vector"),
    ),
}


def compile_for(name: str, num_devices: int, num_examples: int = NUM_EXAMPLES) -> Any:
    """The program, its arguments sharded along their first axis over so many devices."""
    function, kinds = PROGRAMS[name]
    mesh = Mesh(
        np.array(jax.devices()[:num_devices]), ("examples",), axis_types=(AxisType.Explicit,)
    )
    shapes = {
        "matrix": (num_examples, NUM_COLUMNS),
        "bytes": (num_examples, NUM_COLUMNS),
        "vector": (num_examples,),
    }

    def argument(kind: str) -> jax.ShapeDtypeStruct:
        shape, dtype = shapes[kind], jnp.uint8 if kind == "bytes" else jnp.float32
        if num_devices == 1:
            return jax.ShapeDtypeStruct(shape, dtype)
        spec = PartitionSpec("examples", *[None] * (len(shape) - 1))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    return jax.jit(function).lower(*map(argument, kinds)).compile()


def collectives(text: str) -> list[tuple[str, int, int]]:
    """Of each collective operation of a compiled program: its kind, the bytes of its result, and in
    how many loops it stands.
    """
    found: dict[str, list[tuple[str, int]]] = collections.defaultdict(list)
    # computation -> computations in it, and loops between
    inside: dict[str, list[tuple[str, int]]] = collections.defaultdict(list)
    entry, current = "", ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            current = head[2]
            entry = current if head[1] else entry
            continue
        match = _COLLECTIVE.search(line)
        if match:
            found[current].append((match[2], bytes_of(match[1])))
        inside[current] += [(body, 1) for body in _BODY.findall(line)]
        for single, several in _CALLED.findall(line):
            inside[current] += [
                (name.strip().lstrip("%"), 0)
                for name in (single, *several.split(","))
                if name.strip()
            ]
    listed: list[tuple[str, int, int]] = []

    def visit(computation: str, depth: int) -> None:
        listed.extend((kind, size, depth) for kind, size in found[computation])
        for name, loops in inside[computation]:
            visit(name, depth + loops)

    visit(entry, 0)
    return listed


def bytes_of(shape: str) -> int:
    """The bytes of a shape in the text of XLA, or of several."""
    total = 0
    for dtype, dims in _SHAPE.findall(shape):
        width = 1 if dtype == "pred" else int(re.sub(r"\D", "", dtype)) // 8
        total += width * math.prod(int(size) for size in dims.split(",") if size)
    return total


def run(num_examples: int) -> list[dict[str, Any]]:
    """All programs on all numbers of devices."""
    results = []
    for name in PROGRAMS:
        for num_devices in DEVICES:
            compiled = compile_for(name, num_devices, num_examples)
            memory, sent = compiled.memory_analysis(), collectives(compiled.as_text())
            by_depth: dict[str, int] = collections.defaultdict(int)
            for _, size, depth in sent:
                by_depth[str(depth)] += size
            results.append(
                {
                    "algorithm": name,
                    "num_devices": num_devices,
                    "num_examples": num_examples,
                    "num_columns": NUM_COLUMNS,
                    "argument_bytes": memory.argument_size_in_bytes,
                    "temporary_bytes": memory.temp_size_in_bytes,
                    "sent_bytes_by_loops": dict(sorted(by_depth.items())),
                    "largest_gathered_bytes": max(
                        [size for kind, size, _ in sent if kind == "all-gather"], default=0
                    ),
                }
            )
            print(results[-1], flush=True)
    return results


def run_searches(num_points: int) -> list[dict[str, Any]]:
    """Branch and bound over lines on all numbers of devices: its steps, and whether the result is
    that of one device, bit for bit.
    """
    results: list[dict[str, Any]] = []
    for name in ("two Gaussians", "Ripley's mixture"):
        arrays = pair_sweep.make_data(name, num_points)
        first = None
        for num_devices in DEVICES:
            mesh = Mesh(np.array(jax.devices()[:num_devices]), ("examples",))
            given = jboost.sharding.shard_dataset(jboost.make_dataset(*arrays), mesh)
            points, labels = given[:2] if num_devices > 1 else map(jnp.asarray, arrays)
            steps: list[jboost.pair.BranchAndBoundInfo] = []
            found = jboost.sharding.gather(
                jboost.pair.optimal_separator(
                    points,
                    labels,
                    method="branch_and_bound",
                    on_step=functools.partial(lambda told, state, info: told.append(info), steps),
                )
            )
            first = first or found
            results.append(
                {
                    "data": name,
                    "num_points": num_points,
                    "num_devices": num_devices,
                    "num_steps": len(steps),
                    "most_waiting": max(info.num_entries for info in steps),
                    "is_that_of_one": all(map(np.array_equal, found, first)),
                }
            )
            print(results[-1], flush=True)
    return results


def searches_table(data: Mapping[str, Any]) -> str:
    """Markdown: the steps of branch and bound by the number of devices."""
    rows = [
        [
            each["data"],
            f"{each['num_points']:,}",
            str(each["num_devices"]),
            str(each["num_steps"]),
            f"{each['most_waiting']:,}",
            "yes" if each["is_that_of_one"] else "no",
        ]
        for each in data["results"]
    ]
    header = (
        "data",
        "points",
        "simulated devices",
        "steps of the host",
        "most waiting pairs",
        "bits of one device",
    )
    title = (
        "`pair.optimal_separator` by branch and bound: each step divides a chunk of cells on every"
        " device. Pairs are of a cell and a point, of 8 bytes, with padding."
    )
    return title + "\n\n" + harness.markdown_table(header, rows)


def many_devices_table(data: Mapping[str, Any]) -> str:
    """Markdown: eight devices beside one."""
    results = data["results"]
    one = {each["algorithm"]: each for each in results if each["num_devices"] == 1}
    rows = []
    for each in results:
        if each["num_devices"] == max(DEVICES):
            alone, sent = one[each["algorithm"]], each["sent_bytes_by_loops"]
            share = each["temporary_bytes"] / alone["temporary_bytes"]
            cells = [f"{sent.get(depth, 0):,}" for depth in ("0", "1", "2", "3")]
            rows.append(
                [
                    each["algorithm"],
                    *cells,
                    f"{each['largest_gathered_bytes']:,}",
                    f"{each['temporary_bytes'] / 1e6:.2f}",
                    f"{share:.3f}",
                ]
            )
    first = results[0]
    header = (
        "algorithm",
        "B once",
        "B a turn",
        "B in a loop inside",
        "B two inside",
        "B largest gathered",
        "MB temporary a device",
        "of one device",
    )
    title = (
        f"{first['num_examples']:,} x {first['num_columns']} float32 on eight simulated devices:"
        " bytes that a device receives, by loops."
    )
    return title + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_devices", description=__doc__.split(": `python")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="fewer examples, into benchmarks-out")
    parser.add_argument("--only", choices=("programs", "searches"), help="default both")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    # JAX has no device yet
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={max(DEVICES)}"
    )
    if options.only != "searches":
        size = QUICK_EXAMPLES if options.quick else NUM_EXAMPLES
        harness.write("many_devices", {"results": run(size)}, output)
    if options.only != "programs":
        size = QUICK_POINTS if options.quick else NUM_POINTS
        harness.write("many_devices_searches", {"results": run_searches(size)}, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
