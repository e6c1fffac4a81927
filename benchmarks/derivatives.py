"""The figure of docs/derivatives.md: votes of LP-Boost and their derivatives by both options, over
a margin that moves through kinks.

`python -m benchmarks.derivatives` writes docs/derivatives-degenerate.svg.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    draw()
