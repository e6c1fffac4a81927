"""What the largest margin costs where many optimal separators tie: `python -m
benchmarks.tied_families`.

Each family is searched with `tie_break=None` and with `tie_break="margin"`. On alternating labels
in convex position about a quarter of the squared number of points of separators are optimal.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jboost
from benchmarks import harness
from benchmarks.harness import Contender

SIZES = (100, 400, 4000)
QUICK_SIZES = (40,)
SEED = 20_261_128
Data = tuple[np.ndarray, np.ndarray]


def circle(size: int, random: np.random.Generator) -> Data:
    """A regular polygon with alternating labels."""
    angle = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angle), np.sin(angle)], axis=1), _alternating(size)


def line(size: int, random: np.random.Generator) -> Data:
    """Integers on a line with alternating labels, moved off it by up to three units."""
    return np.stack([np.arange(size), random.integers(0, 4, size)], axis=1), _alternating(size)


def straight(size: int, random: np.random.Generator) -> Data:
    """Integers on a line with alternating labels."""
    return np.stack([np.arange(size), np.zeros(size)], axis=1), _alternating(size)


def checkerboard(size: int, random: np.random.Generator) -> Data:
    """A square grid with the labels of a checkerboard."""
    points = _grid(size)
    return points, np.where(points.sum(axis=1) % 2, 1, -1)


def polygons(size: int, random: np.random.Generator) -> Data:
    """Two regular polygons, one for each label, the corners of one between those of the other."""
    angle = 2 * np.pi * np.arange(size) / size
    radius = np.where(np.arange(size) % 2, 1, 1.2)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), _alternating(size)


def duplicates(size: int, random: np.random.Generator) -> Data:
    """Four points with random labels at each of a quarter as many integer positions."""
    places = random.integers(0, size, (max(size // 4, 1), 2))
    return places[np.arange(size) % len(places)], random.permutation(_alternating(size))


def parabola(size: int, random: np.random.Generator) -> Data:
    """Integers on a parabola with alternating labels."""
    x = np.arange(size) - size // 2
    return np.stack([x, x * x], axis=1), _alternating(size)


def lattice(size: int, random: np.random.Generator) -> Data:
    """A square grid with random labels."""
    return _grid(size), random.permutation(_alternating(size))


def nested(size: int, random: np.random.Generator) -> Data:
    """Two concentric regular polygons, each with alternating labels."""
    half = size // 2
    number = np.arange(size) % half
    angle, is_outer = 2 * np.pi * number / half, np.arange(size) >= half
    points = np.where(is_outer, 2, 1)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points, np.where((number + is_outer) % 2, 1, -1)


def _alternating(size: int) -> np.ndarray:
    return np.where(np.arange(size) % 2, 1, -1)


def _grid(size: int) -> np.ndarray:
    side = int(np.ceil(np.sqrt(size)))
    return np.stack(np.divmod(np.arange(size), side), axis=1)


FAMILIES: dict[str, Callable[[int, np.random.Generator], Data]] = {
    "alternating on a circle": circle,
    "alternating near a line": line,
    "alternating on a line": straight,
    "checkerboard": checkerboard,
    "interleaved polygons": polygons,
    "duplicates, random labels": duplicates,
    "alternating on a parabola": parabola,
    "grid, random labels": lattice,
    "nested polygons": nested,
}


def make_data(name: str, size: int) -> Data:
    """Points [n, 2] float32 and labels [n] int32, the same at every call."""
    points, labels = FAMILIES[name](size, np.random.default_rng([SEED, size]))
    return points.astype(np.float32), labels.astype(np.int32)


def run(sizes: Iterable[int], *, repeats: int, cap_seconds: float) -> dict[str, Any]:
    """Every family at every size."""
    return {
        "records": [
            _record(name, size, repeats, cap_seconds) for size in sorted(sizes) for name in FAMILIES
        ]
    }


def _record(name: str, size: int, repeats: int, cap_seconds: float) -> dict[str, Any]:
    points, labels = make_data(name, size)
    contenders = [
        Contender(
            contender,
            functools.partial(
                jboost.pair.optimal_separator, points, labels, tie_break=tie_break, method="sweep"
            ),
            repeats=repeats,
            cap_seconds=cap_seconds,
        )
        for contender, tie_break in (("any optimum", None), ("largest margin", "margin"))
    ]
    measurements, values = harness.race(contenders, fresh=False)
    any_optimum, best = values["any optimum"], values["largest margin"]
    assert float(best.loss) == float(any_optimum.loss), (name, size)
    assert float(best.margin) >= float(any_optimum.margin) * (1 - 2.0**-20), (name, size)
    print(
        f"{name}, n = {size}: "
        + "; ".join(
            f"{who} {harness.seconds_text(it.cpu_seconds)}" for who, it in measurements.items()
        ),
        file=sys.stderr,
    )
    return {
        "contenders": {
            who: {
                "loss": values[who].loss,
                "margin": None if np.isinf(values[who].margin) else values[who].margin,
                "seconds": measurements[who],
                "status": harness.status_name(values[who].status),
            }
            for who in measurements
        },
        "data": name,
        "dtype": str(points.dtype),
        "ratio_of_cpu_seconds": measurements["largest margin"].cpu_seconds
        / measurements["any optimum"].cpu_seconds,
        "size": size,
    }


def table(results: Mapping[str, Any]) -> str:
    """The rows of the page: CPU seconds with and without the largest margin."""
    header = ("data", "n", "optimal loss", "any optimum", "largest margin", "ratio")
    rows = [
        (
            record["data"],
            f"{record['size']:,}",
            f"{record['contenders']['any optimum']['loss']:g}",
            *(
                harness.seconds_text(record["contenders"][who]["seconds"]["cpu_seconds"])
                for who in ("any optimum", "largest margin")
            ),
            f"{record['ratio_of_cpu_seconds']:.1f}",
        )
        for record in results["records"]
    ]
    text = (
        "CPU seconds of the sweep where many separators are optimal, without compilation: any of"
        ' them (`tie_break=None`), or the one of largest margin (`tie_break="margin"`, the'
        " default)."
    )
    return text + "\n\n" + harness.markdown_table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tied_families", description=__doc__.split(": `python")[0] + "."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one small size and few runs, into benchmarks-out: for trying it out",
    )
    parser.add_argument(
        "--cap",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="a contender gets no further run after this; default %(default)s",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_compilation_cache", False)
    results = run(
        QUICK_SIZES if options.quick else SIZES,
        repeats=2 if options.quick else 5,
        cap_seconds=options.cap,
    )
    path = harness.write(
        "tied_families",
        results,
        options.output or (harness.TRIALS if options.quick else harness.RESULTS),
    )
    print(f"wrote {path.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
