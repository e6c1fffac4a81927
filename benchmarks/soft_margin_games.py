"""Soft-margin games: `jboost.relaxed_margin.solve` against HiGHS, LP-Boost on HiGHS and the paper's
step: `python -m benchmarks.soft_margin_games`.

Games are random signs, and decision stumps on Gaussian features with noisy labels; nu is 0.1, so
that the cap is 1 / (0.1 m). Peers that end at an exact optimum have one time for both gaps. A peer
that reaches its limit is given with the gap it had reached.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from benchmarks.peers import soft_margin_programs as peers
from jboost import relaxations, relaxed_margin

NU = 0.1
SEED = 20_261_121
GAMES = (("signs", 1000, 1000), ("stumps", 1000, 1000), ("stumps", 10_000, 200))
QUICK_GAMES = (("signs", 100, 50), ("stumps", 100, 50))
TOLERANCES = (1e-2, 1e-3)
BATCH = (200, 200, 100)
NUM_FEATURES, LABEL_NOISE = 20, 0.05
PAPER_STEPS = 15_000


def make_game(kind: str, num_rows: int, num_columns: int, seed: int = SEED) -> np.ndarray:
    """A matrix of margins +-1, float32 [m, n]."""
    random = np.random.default_rng([seed, num_rows, num_columns])
    if kind == "signs":
        return random.choice([-1.0, 1.0], (num_rows, num_columns)).astype(np.float32)
    features = random.normal(size=(num_rows, NUM_FEATURES))
    labels = np.sign(
        features @ random.normal(size=NUM_FEATURES) + 0.3 * random.normal(size=num_rows)
    )
    labels = np.where(random.random(num_rows) < LABEL_NOISE, -labels, labels)
    chosen = random.integers(0, NUM_FEATURES, num_columns)
    thresholds = features[random.integers(0, num_rows, num_columns), chosen]
    return (labels[:, None] * np.where(features[:, chosen] > thresholds, 1, -1)).astype(np.float32)


def run_games(
    games: Sequence[tuple[str, int, int]], *, repeats: int, limit_seconds: float
) -> dict[str, Any]:
    """All contenders on all games and tolerances."""
    records = []
    for kind, num_rows, num_columns in games:
        game = make_game(kind, num_rows, num_columns)
        on_device = jnp.asarray(game)
        exact = {
            method: _clock(peers.whole_program, game.astype(float), NU, method)
            for method in ("highs-ds", "highs-ipm")
        }
        for tolerance in TOLERANCES:
            ours = _ours(on_device, tolerance)
            measurement, solution = harness.measure(ours, repeats=repeats)
            peers.paper_steps(on_device, NU, tolerance, 1)[0].block_until_ready()
            steps = _clock(
                lambda *problem: jax.device_get(peers.paper_steps(*problem)),
                on_device,
                NU,
                tolerance,
                PAPER_STEPS,
            )
            generated = _clock(
                peers.column_generation, game.astype(float), NU, tolerance, limit_seconds
            )
            seconds = {
                "HiGHS simplex": exact["highs-ds"][0],
                "HiGHS interior point": exact["highs-ipm"][0],
                "LP-Boost on HiGHS": generated[0],
                "the paper's step": steps[0],
            }
            optimum = exact["highs-ds"][1]
            records.append(
                {
                    "game": kind,
                    "shape": [num_rows, num_columns],
                    "tolerance": tolerance,
                    "optimum": optimum,
                    "lower_bound": float(solution.lower_bound),
                    "upper_bound": float(solution.upper_bound),
                    "bounds_hold": bool(
                        solution.lower_bound <= optimum + 1e-7
                        and optimum <= solution.upper_bound + 1e-7
                    ),
                    "num_iterations": int(solution.num_iterations),
                    "status": harness.status_name(solution.status),
                    "jboost": measurement,
                    "peer_seconds": seconds,
                    "gap_reached": {
                        "LP-Boost on HiGHS": float(generated[1]),
                        "the paper's step": float(steps[1][0]),
                    },
                    "paper_steps": int(steps[1][1]),
                    "ratios": {
                        name: value / measurement.run_seconds for name, value in seconds.items()
                    },
                }
            )
            _say(
                f"{kind} {num_rows} x {num_columns} to {tolerance:g}: {measurement.run_seconds:.3f}"
                f" s; {seconds}"
            )
    return {"nu": NU, "records": records}


def run_batch(num_games: int, num_rows: int, num_columns: int, *, repeats: int) -> dict[str, Any]:
    """Many games of either kind in one vmapped call, against as many calls of HiGHS:
    CPU seconds.
    """
    records = []
    for kind in ("signs", "stumps"):
        games = np.stack(
            [make_game(kind, num_rows, num_columns, seed) for seed in range(num_games)]
        )
        on_device = jnp.asarray(games)
        together = jax.jit(
            jax.vmap(
                lambda game: relaxed_margin.solve(
                    game, relaxations.soft_margin(nu=NU), tolerance=1e-3
                )
            )
        )
        measurement, solutions = harness.measure(
            lambda on_device=on_device, together=together: together(on_device), repeats=repeats
        )
        before = time.process_time()
        optima = np.array(
            [peers.whole_program(game.astype(float), NU, "highs-ds") for game in games]
        )
        cpu_seconds = time.process_time() - before
        gaps = np.asarray(solutions.upper_bound - solutions.lower_bound)
        holds = (np.asarray(solutions.lower_bound) <= optima + 1e-7) & (
            optima <= np.asarray(solutions.upper_bound) + 1e-7
        )
        records.append(
            {
                "game": kind,
                "num_games": num_games,
                "shape": [num_rows, num_columns],
                "jboost": measurement,
                "highs_cpu_seconds": cpu_seconds,
                "share_of_highs": (
                    getattr(measurement, harness.seconds_key(jax.default_backend())) / cpu_seconds
                ),
                "largest_gap": float(gaps.max()),
                "bounds_hold": bool(holds.all()),
            }
        )
        _say(
            f"{num_games} games of {kind}: {records[-1]['share_of_highs']:.3f} of the"
            f" {cpu_seconds:.2f} s of HiGHS"
        )
    return {"nu": NU, "records": records}


def _ours(game: jax.Array, tolerance: float) -> Callable[[], Any]:
    return lambda: relaxed_margin.solve(game, relaxations.soft_margin(nu=NU), tolerance=tolerance)


def _clock(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    value = call(*arguments)
    return time.perf_counter() - started, value


def games_table(results: Mapping[str, Any]) -> str:
    """The rows of README: seconds to a certified gap, and how many times as long the
    others take.
    """
    names = ("HiGHS simplex", "HiGHS interior point", "LP-Boost on HiGHS", "the paper's step")
    rows = [
        (
            record["game"],
            " x ".join(f"{size:,}" for size in record["shape"]),
            f"{record['tolerance']:g}",
            harness.seconds_text(record["jboost"]["run_seconds"]),
            *(_ratio(record, name) for name in names),
        )
        for record in results["records"]
    ]
    title = (
        "Soft-margin games to a certified gap, nu = 0.1: seconds of `relaxed_margin.solve`, and"
        " the seconds of the others divided by these."
    )
    note = "`>`: the gap was not reached within the limit."
    return f"{title} {note}\n\n" + harness.markdown_table(
        ("game", "m x n", "gap", "jboost", *names), rows
    )


def _ratio(record: Mapping[str, Any], name: str) -> str:
    unfinished = record["gap_reached"].get(name, 0.0) > record["tolerance"]
    return ("> " if unfinished else "") + f"{record['ratios'][name]:.3g}"


def batch_table(results: Mapping[str, Any]) -> str:
    """The rows of README: seconds of one vmapped call."""
    key = harness.seconds_key(results["environment"]["platform"])
    rows = [
        (
            record["game"],
            f"{record['num_games']} of {record['shape'][0]} x {record['shape'][1]}",
            f"{record['jboost'][key]:.2f}",
            f"{record['highs_cpu_seconds']:.2f}",
            f"{record['share_of_highs']:.2g}",
        )
        for record in results["records"]
    ]
    unit = "CPU s" if key == "cpu_seconds" else "s"
    header = ("game", "games", f"{unit}, one vmapped call", "CPU s, HiGHS one by one", "share")
    return "Many soft-margin games at once, all certified to 1e-3.\n\n" + harness.markdown_table(
        header, rows
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soft_margin_games", description=__doc__.split(":")[0] + "."
    )
    parser.add_argument("--quick", action="store_true", help="small games, into benchmarks-out")
    parser.add_argument("--only", choices=("games", "batch"), nargs="+", default=["games", "batch"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--limit",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="of LP-Boost; default %(default)s",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    output = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    if "games" in options.only:
        games = run_games(
            QUICK_GAMES if options.quick else GAMES,
            repeats=options.repeats,
            limit_seconds=options.limit,
        )
        harness.write("soft_margin_games", games, output)
    if "batch" in options.only:
        harness.write(
            "soft_margin_batch",
            run_batch(*((10, 50, 20) if options.quick else BATCH), repeats=options.repeats),
            output,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
