"""The figure and the table of docs/derivatives.md: votes of LP-Boost and their derivatives by both
options, over a margin that moves through kinks, and what they lose in float32.

`python -m benchmarks.derivatives` writes docs/derivatives-degenerate.svg; with `--rounding` it
prints the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jboost

_FIGURE = Path(__file__).parents[1] / "docs" / "derivatives-degenerate.svg"
_NU = 0.01  # the hard margin
_KINK = 14 / 15
_OPTIONS = ("vertex", "least_norm")


def votes_and_slopes(entries: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The first vote [k] and its derivatives [k] by each option, for values [k] of a margin.

    Two hypotheses and three examples: up to 14/15 the second example holds the votes, from there on
    the third.
    """

    def vote(entry: Any, derivative: Any) -> Any:
        margins = jnp.array([[-0.4, 0.5], [0.0, -0.3], [0.6, -0.1]]).at[1, 0].set(entry)
        solution = jboost.lpboost.solve(
            margins,
            nu=_NU,
            config=jboost.lp.InteriorPointConfig(),
            derivative=derivative,
        )
        return solution.coefficients[0]

    found = jax.jit(jax.vmap(lambda entry: vote(entry, "vertex")))(entries)
    slopes = {
        option: np.asarray(
            jax.jit(jax.vmap(jax.grad(lambda entry, option=option: vote(entry, option))))(entries)
        )
        for option in _OPTIONS
    }
    return np.asarray(found), slopes


def draw(path: Path = _FIGURE) -> None:
    """Writes the figure."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "jboost"
    import matplotlib.pyplot as plt

    with jax.enable_x64(True):
        entries = np.append(np.linspace(0.6, 1.0, 40), _KINK)
        votes, slopes = votes_and_slopes(entries)
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(6, 4.5), constrained_layout=True
    )
    order = np.argsort(entries)
    above.plot(entries[order], votes[order], color="black")
    above.set_ylabel("vote")
    for option, marker in zip(_OPTIONS, ("o", "x"), strict=True):
        below.plot(entries, slopes[option], marker, markersize=4, fillstyle="none", label=option)
    below.set_ylabel("its derivative")
    below.set_xlabel("one margin")
    below.legend()
    figure.savefig(path, metadata={"Date": None})


_SIZE, _COLUMNS, _NU_OF_GAMES = 30, 5, 0.3
_SEEDS = range(16)
_TOLERANCES = (1e-4, 1e-6)  # that of float32 by itself, and about the least it reaches


def _solve_games(
    games: np.ndarray, moves: np.ndarray, option: Any, dtype: Any
) -> Callable[[float], list[np.ndarray]]:
    """A function of a tolerance: votes, example weights and their derivatives along moves, by the
    interior point method.
    """

    def points(game: Any, tolerance: Any) -> Any:
        found = jboost.lpboost.solve(
            game,
            nu=_NU_OF_GAMES,
            config=jboost.lp.InteriorPointConfig(),
            tolerance=tolerance,
            derivative=option,
        )
        return found.coefficients, found.example_weights

    @jax.jit
    def all_points(tolerance: Any, games: Any, moves: Any) -> Any:
        return jax.vmap(
            lambda game, move: jax.jvp(lambda game: points(game, tolerance), (game,), (move,))
        )(games, moves)

    def solve(tolerance: float) -> list[np.ndarray]:
        with jax.enable_x64(dtype == np.float64):
            found = all_points(tolerance, games.astype(dtype), moves.astype(dtype))
            return [np.asarray(part, np.float64) for part in jax.tree.leaves(found)]

    return solve


def rounding() -> Iterator[str]:
    """Lines of Markdown: how far float32 is from float64, relative to the largest entry; the median
    and the largest of 16 random games.
    """
    yield "| tolerance | option | votes | example weights | d votes | d example weights |"
    yield "|---:|---|---:|---:|---:|---:|"
    rngs, shape = [np.random.default_rng(seed) for seed in _SEEDS], (_SIZE, _COLUMNS)
    games = np.stack([rng.uniform(-0.6, 0.9, shape) for rng in rngs])
    games = games.astype(np.float32)  # the same numbers in both types
    moves = np.stack([rng.normal(size=shape) for rng in rngs]).astype(np.float32)
    for option in _OPTIONS:
        exact = _solve_games(games, moves, option, np.float64)(1e-10)
        solve = _solve_games(games, moves, option, np.float32)
        for tolerance in _TOLERANCES:
            errors = (
                np.abs(one - other).max(axis=1) / np.abs(one).max(axis=1)
                for one, other in zip(exact, solve(tolerance), strict=True)
            )
            cells = [f"{np.median(error):.0e}, {error.max():.0e}" for error in errors]
            yield f"| {tolerance:.0e} | {option} | {' | '.join(cells)} |"


if __name__ == "__main__":
    if "--rounding" in sys.argv[1:]:
        for line in rounding():
            print(line, flush=True)
    else:
        draw()
