"""Programs of LP-Boost: `jboost.lpboost.solve`, `fit` and `jboost.lp.solve` against HiGHS and MPAX:
`python -m benchmarks.linear_programs`.

Margins are those of benchmarks.soft_margin_games, nu is 0.1, votes are not negative. HiGHS gets
formulation (3) of Goldberg and Eckstein (2009) and its dual, each by simplex and by interior point.
The fastest of these four counts. MPAX, if it is installed, gets the dual by vmap, dense and sparse.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from benchmarks.harness import Contender
from benchmarks.peers import linear_programs as peers
from benchmarks.soft_margin_games import make_game
from jboost import learners, lp, lpboost, make_dataset

NU = 0.1
DEFAULT = "jboost"
LIKE_MPAX = "jboost, 32 bits to 1e-4"
BATCHES = ((100, 100, 40), (100, 250, 60))
SINGLES = ((1000, 120),)
POOLS = (50, 250, 60)
GROWING = ((200, 40), (500, 100))
KINDS = ("signs", "stumps")
SEEDS = 6


def primal_form(margins: np.ndarray) -> tuple[np.ndarray, ...]:
    """(3): votes, rho and slacks; minimise D sum xi - rho."""
    rows, columns = margins.shape
    matrix = np.block(
        [
            [margins, -np.ones((rows, 1)), np.eye(rows)],
            [np.ones((1, columns)), np.zeros((1, rows + 1))],
        ]
    )
    objective = np.r_[np.zeros(columns), -1.0, np.full(rows, 1 / (NU * rows))]
    low = np.r_[np.zeros(columns), -np.inf, np.zeros(rows)]
    return (
        objective,
        matrix,
        np.r_[np.zeros(rows), 1.0],
        np.r_[np.full(rows, np.inf), 1.0],
        low,
        np.full(columns + 1 + rows, np.inf),
    )


def dual_form(margins: np.ndarray) -> tuple[np.ndarray, ...]:
    """Its dual: example weights and the largest edge, which is minimised."""
    rows, columns = margins.shape
    matrix = np.block([[margins.T, -np.ones((columns, 1))], [np.ones((1, rows)), np.zeros((1, 1))]])
    objective = np.r_[np.zeros(rows), 1.0]
    row_lower, row_upper = np.r_[np.full(columns, -np.inf), 1.0], np.r_[np.zeros(columns), 1.0]
    return (
        objective,
        matrix,
        row_lower,
        row_upper,
        np.r_[np.zeros(rows), -1.0],
        np.r_[np.full(rows, 1 / (NU * rows)), 1.0],
    )


METHODS = {
    "jboost simplex": lpboost.SimplexConfig(),
    "jboost interior point": lp.InteriorPointConfig(),
}


def _many(
    margins: np.ndarray, config: Any, *, wide: bool = True, tolerance: float = 1e-8
) -> Callable[[], Any]:
    with jax.enable_x64(wide):
        on_device = jnp.asarray(margins)
        together = jax.jit(
            jax.vmap(lambda one: lpboost.solve(one, nu=NU, tolerance=tolerance, config=config))
        )

    def call() -> Any:
        with jax.enable_x64(wide):
            return jax.block_until_ready(together(on_device))

    return call


def _highs(margins: np.ndarray, form: Callable[..., Any], method: str) -> Callable[[], list[float]]:
    programs = [peers.prepare(*form(one)) for one in margins]
    return lambda: [peers.run(program, method) for program in programs]


def _mpax(margins: np.ndarray, sparse: bool) -> Callable[[], Any]:
    parts = [np.stack(part) for part in zip(*(dual_form(one) for one in margins), strict=True)]

    return lambda: jax.block_until_ready(
        peers.mpax_batch(*parts, tolerance=1e-4, use_sparse_matrix=sparse)
    )


def run_sizes(sizes: Sequence[tuple[int, int, int]], *, repeats: int) -> dict[str, Any]:
    """Batches of so many programs, in one call."""
    records = []
    for count, rows, columns in sizes:
        for kind in KINDS:
            margins = np.stack(
                [make_game(kind, rows, columns, seed) for seed in range(count)]
            ).astype(float)
            contenders = [
                Contender(name, _many(margins, config), repeats=3 * repeats)
                for name, config in METHODS.items()
            ]
            contenders.append(Contender(DEFAULT, _many(margins, None), repeats=3 * repeats))
            contenders.append(
                Contender(
                    LIKE_MPAX, _many(margins, None, wide=False, tolerance=1e-4), repeats=3 * repeats
                )
            )
            for form in (primal_form, dual_form):
                for method in ("simplex", "ipm"):
                    contenders.append(
                        Contender(
                            f"HiGHS {method}, {form.__name__}",
                            _highs(margins, form, method),
                            compiles=False,
                            repeats=repeats,
                        )
                    )
            mpax = {"MPAX dense": False, "MPAX sparse": True} if peers.has_mpax() else {}
            contenders += [
                Contender(name, _mpax(margins, sparse), repeats=2, cap_seconds=30)
                for name, sparse in mpax.items()
            ]
            measured, values = harness.race(contenders)
            ours = [jax.device_get(values[name]) for name in (DEFAULT, *METHODS)]
            alike = jax.device_get(values[LIKE_MPAX])
            optima = np.array(values["HiGHS simplex, dual_form"])
            spent = {
                name: getattr(it, harness.seconds_key(jax.default_backend()))
                for name, it in measured.items()
            }
            fastest = min(seconds for name, seconds in spent.items() if name.startswith("HiGHS"))
            record = {
                "programs": count,
                "shape": [rows, columns],
                "kind": kind,
                "measured": measured,
                "share_of_highs": spent[DEFAULT] / fastest,
                "share_of_highs_simplex": spent[DEFAULT] / spent["HiGHS simplex, primal_form"],
                "times_mpax": {
                    name: seconds / spent[DEFAULT]
                    for name, seconds in spent.items()
                    if name in mpax
                },
                "times_mpax_alike": {
                    name: seconds / spent[LIKE_MPAX]
                    for name, seconds in spent.items()
                    if name in mpax
                },
                "largest_gap_alike": float((alike.upper_bound - alike.lower_bound).max()),
                "largest_gap": max(
                    float((solved.upper_bound - solved.lower_bound).max()) for solved in ours
                ),
                "bounds_hold": all(
                    bool(
                        (
                            (solved.lower_bound <= optima + 1e-9)
                            & (optima <= solved.upper_bound + 1e-9)
                        ).all()
                    )
                    for solved in ours
                ),
                "iterations": [
                    [float(solved.num_iterations.mean()), int(solved.num_iterations.max())]
                    for solved in ours
                ],
            }
            records.append(record)
            rounded = {name: round(seconds, 4) for name, seconds in spent.items()}
            _say(
                f"{count} x {rows} x {columns} {kind}: {rounded} s, gap {record['largest_gap']:.1e}"
            )
    return {"nu": NU, "records": records}


def run_pools(count: int, rows: int, columns: int, *, repeats: int) -> dict[str, Any]:
    """So many pools fitted in one vmapped call of `lpboost.fit`, and HiGHS on their whole matrices
    one by one.
    """
    records = []
    for kind in KINDS:
        pools = np.stack([make_game(kind, rows, columns, seed) for seed in range(count)])
        for negations in (False, True):
            margins = np.concatenate([pools, -pools], axis=2) if negations else pools
            contenders = [
                Contender(
                    "lpboost.fit",
                    _fits(pools, learners.pool(negations=negations)),
                    repeats=3 * repeats,
                )
            ]
            for form in (primal_form, dual_form):
                contenders.append(
                    Contender(
                        f"HiGHS, {form.__name__}",
                        _highs(margins, form, "simplex"),
                        compiles=False,
                        repeats=repeats,
                    )
                )
            measured, values = harness.race(contenders)
            fits, optima = (
                jax.device_get(values["lpboost.fit"]),
                np.array(values["HiGHS, dual_form"]),
            )
            spent = {
                name: getattr(it, harness.seconds_key(jax.default_backend()))
                for name, it in measured.items()
            }
            ours, (lower, upper) = spent.pop("lpboost.fit"), fits.certificate[:2]
            records.append(
                {
                    "pools": count,
                    "shape": [rows, columns],
                    "kind": kind,
                    "negations": negations,
                    "measured": measured,
                    "times_highs": min(spent.values()) / ours,
                    "rounds": [float(fits.num_rounds.mean()), int(fits.num_rounds.max())],
                    "largest_gap": float((upper - lower).max()),
                    "bounds_hold": bool(
                        ((lower <= optima + 1e-7) & (optima <= upper + 1e-7)).all()
                    ),
                    "status": harness.status_name(fits.status),
                }
            )
            _say(
                f"{count} pools of {rows} x {columns} {kind}: {ours:.3f} s, HiGHS"
                f" {records[-1]['times_highs']:.2f} times as long"
            )
    return {"nu": NU, "records": records}


def _fits(pools: np.ndarray, learner: Any) -> Callable[[], Any]:
    """All fits in one call; rows are examples of label 1, so that outputs are margins."""
    on_device = jnp.asarray(pools)
    together = jax.jit(
        jax.vmap(
            lambda pool: lpboost.fit(make_dataset(pool, jnp.ones(pool.shape[0])), learner, nu=NU)
        )
    )
    return lambda: jax.block_until_ready(together(on_device))


def run_growing(sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Iterations from nothing, and from the solution without the last hypothesis: of the simplex
    method, and of the first-order one on both forms.
    """
    records = []
    for rows, columns in sizes:
        for kind in KINDS:
            for seed in range(SEEDS):
                margins = make_game(kind, rows, columns, seed).astype(float)
                instance = {"shape": [rows, columns], "kind": kind}
                records.append({**instance, "method": "simplex", **_grow_by_simplex(margins)})
                for form in (primal_form, dual_form):
                    records.append(
                        {
                            **instance,
                            "method": f"first order, {form.__name__}",
                            **_grow_by_first_order(margins, form),
                        }
                    )
    summary = {}
    for name in ("simplex", "first order"):
        shares = np.array(
            [
                record["warm"] / record["cold"]
                for record in records
                if record["method"].startswith(name)
            ]
        )
        summary[name] = {
            "programs": len(shares),
            "median_share": float(np.median(shares)),
            "largest_share": float(shares.max()),
            "at_most_a_quarter": float(np.mean(shares <= 0.25)),
        }
        _say(f"{name}, warm over cold: {summary[name]}")
    return {"records": records, "summary": summary}


def _grow_by_simplex(margins: np.ndarray) -> dict[str, Any]:
    with jax.enable_x64(True):
        config = lpboost.SimplexConfig()
        before, cold = (
            lpboost.solve(part, nu=NU, tolerance=1e-8, config=config)
            for part in (margins[:, :-1], margins)
        )
        warm = lpboost.solve(margins, nu=NU, tolerance=1e-8, initial=before)
        moved = float(abs(cold.lower_bound - before.lower_bound))
    return {
        "cold": int(cold.num_iterations),
        "warm": int(warm.num_iterations),
        "objective_moved": moved,
    }


def _grow_by_first_order(margins: np.ndarray, form: Callable[..., Any]) -> dict[str, Any]:
    config = lp.FirstOrderConfig()
    whole = _permuted(lp.LinearProgram(*form(margins)), *_new_column_last(form, *margins.shape))
    before = lp.solve(_without_last(whole, form), config=config, tolerance=1e-4)
    cold = lp.solve(whole, config=config, tolerance=1e-4)
    warm = lp.solve(whole, config=config, tolerance=1e-4, initial=before)
    moved = float(abs(cold.primal_objective - before.primal_objective))
    return {
        "cold": int(cold.num_iterations),
        "warm": int(warm.num_iterations),
        "objective_moved": moved,
    }


def _new_column_last(
    form: Callable[..., Any], rows: int, columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """The order of rows and variables in which the last hypothesis stands at the end."""
    if form is primal_form:
        return (
            np.arange(rows + 1),
            np.r_[np.delete(np.arange(columns + 1 + rows), columns - 1), columns - 1],
        )
    return np.r_[np.delete(np.arange(columns + 1), columns - 1), columns - 1], np.arange(rows + 1)


def _permuted(program: lp.LinearProgram, rows: np.ndarray, columns: np.ndarray) -> lp.LinearProgram:
    objective, matrix, row_lower, row_upper, lower, upper = program
    return lp.LinearProgram(
        objective[columns],
        matrix[rows][:, columns],
        row_lower[rows],
        row_upper[rows],
        lower[columns],
        upper[columns],
    )


def _without_last(program: lp.LinearProgram, form: Callable[..., Any]) -> lp.LinearProgram:
    objective, matrix, row_lower, row_upper, lower, upper = program
    if form is primal_form:
        return lp.LinearProgram(
            objective[:-1], matrix[:, :-1], row_lower, row_upper, lower[:-1], upper[:-1]
        )
    return lp.LinearProgram(objective, matrix[:-1], row_lower[:-1], row_upper[:-1], lower, upper)


def table(results: Mapping[str, Any]) -> str:
    """The rows of README: seconds, ours certified."""
    key = harness.seconds_key(results["environment"]["platform"])
    names = sorted(
        {name for record in results["records"] for name in record["measured"] if name != "jboost"}
    )
    rows = [
        (
            f"{record['programs']} of {record['shape'][0]:,} x {record['shape'][1]}",
            record["kind"],
            f"{record['largest_gap']:.0e}",
            harness.seconds_text(record["measured"]["jboost"][key]),
            *(_times(record, name, key) for name in names),
        )
        for record in results["records"]
    ]
    is_cpu = key == "cpu_seconds"
    title = (
        f"LP-Boost's linear program, nu = 0.1, one call: {'CPU seconds' if is_cpu else 'seconds'}"
        " of `lpboost.solve` in float64, its largest certified gap, and the seconds of the others"
        " divided by these: HiGHS one by one"
    )
    note = (
        ", on formulation (3) (primal form) and its dual; MPAX (float32, to 1e-4) by vmap, on the"
        " dual. All on one thread, jboost and MPAX with `NPROC=1` and the XLA option in README."
        if is_cpu
        else (
            " on one thread of the CPU, on formulation (3) (primal form) and its dual; `--plain`,"
            " with the GPU options in README."
        )
    )
    header = ("programs", "margins", "gap", "jboost", *(name.replace("_", " ") for name in names))
    return f"{title}{note}\n\n" + harness.markdown_table(header, rows)


def _times(record: Mapping[str, Any], name: str, key: str) -> str:
    if name not in record["measured"]:
        return ""
    return f"{record['measured'][name][key] / record['measured']['jboost'][key]:.3g}"


def pools_table(results: Mapping[str, Any]) -> str:
    """The rows of README: seconds of one vmapped call of `lpboost.fit`."""
    key = harness.seconds_key(results["environment"]["platform"])
    rows = [
        (
            (
                f"{record['pools']} of {record['shape'][0]:,} x {record['shape'][1]},"
                f" {record['kind']}{', and negations' if record['negations'] else ''}"
            ),
            f"{record['largest_gap']:.0e}",
            f"{record['rounds'][0]:.1f}",
            harness.seconds_text(record["measured"]["lpboost.fit"][key]),
            f"{record['times_highs']:.3g}",
        )
        for record in results["records"]
    ]
    unit = "CPU seconds" if key == "cpu_seconds" else "seconds"
    title = (
        f"Pools fitted in one vmapped call of `lpboost.fit`, nu = 0.1, gap 1e-3: {unit}, and times"
        " as many for HiGHS on whole matrices one by one"
    )
    header = ("pools", "gap", "rounds", "jboost", "HiGHS")
    return f"{title} (its simplex method, the faster of both forms).\n\n" + harness.markdown_table(
        header, rows
    )


def growing_table(results: Mapping[str, Any]) -> str:
    """One line: what a warm start saves."""
    parts = [
        f"{name} {part['median_share']:.2f} of the cold iterations in the median of"
        f" {part['programs']} programs, {part['largest_share']:.2f} at most, a quarter or less in"
        f" {part['at_most_a_quarter']:.0%}"
        for name, part in results["summary"].items()
    ]
    return (
        "LP-Boost's program after one more hypothesis, started from the solution before:"
        f" {'; '.join(parts)} (on the program and its dual, to 1e-4)."
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.linear_programs", description=__doc__.split(":")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="small programs, into benchmarks-out")
    parser.add_argument(
        "--only",
        choices=("batch", "pools", "growing"),
        nargs="+",
        default=["batch", "pools", "growing"],
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    parser.add_argument(
        "--plain",
        action="store_true",
        help=(
            "leave XLA as it is; else it has one thread, as HiGHS has, and small loops are one"
            " kernel"
        ),
    )
    options = parser.parse_args(arguments)
    if not options.plain:
        harness.make_small_loops_one_kernel()
        harness.keep_to_one_thread()
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    if "batch" in options.only:
        sizes = [(5, 30, 10)] if options.quick else [*BATCHES, *((1, *size) for size in SINGLES)]
        harness.write("linear_programs", run_sizes(sizes, repeats=options.repeats), output)
    if "pools" in options.only:
        pools = (3, 30, 10) if options.quick else POOLS
        harness.write("lpboost_pools", run_pools(*pools, repeats=options.repeats), output)
    if "growing" in options.only:
        harness.write(
            "growing_programs", run_growing([(30, 10)] if options.quick else GROWING), output
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
