"""Maximum monomial agreement on one thread of C++: compiles `monomial_search.cpp` beside this file
once and runs it on an instance.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

SOURCE = Path(__file__).with_name("monomial_search.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++20")


class Found(NamedTuple):
    """A best monomial, and how it was found. Its value is computed from the weights as given, in
    float64.
    """

    value: float
    literals: tuple[int, ...]  # j for x_j, num_features + j for not x_j
    sign: int
    seconds: float  # of the search alone: no compilation, no process, no reading
    num_nodes: int  # taken up with a bound above the incumbent
    num_expanded: int  # of these, with a child above it
    num_children: int  # whose values were evaluated
    is_proven: bool  # False only if cap_seconds ran out
    details: dict[str, float]  # the other counts of the program, by its names


@functools.cache
def compiled() -> Path:
    """The program, compiled for this machine into a folder of temporary files unless it is there
    already.

    Raises:
      RuntimeError: if there is no g++, or it fails.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise RuntimeError("the C++ search needs g++ on the path: install it, or skip this peer")
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    key = hashlib.sha256(SOURCE.read_bytes() + version + " ".join(FLAGS).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"jboost-peers-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    program = folder / f"monomial_search-{key}"
    if not program.exists():
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            made = Path(fresh) / "program"
            done = subprocess.run(
                [compiler, *FLAGS, "-o", str(made), str(SOURCE)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise RuntimeError(f"g++ could not compile {SOURCE.name}:\n{done.stderr}")
            made.replace(program)
    return program


def search(
    features: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    *,
    costs: Sequence[float] | np.ndarray | None = None,
    pairs: np.ndarray | None = None,
    bits: int = 48,
    cap_seconds: float | None = None,
    options: Sequence[str] = (),
) -> Found:
    """The monomial and sign of largest agreement plus pair rewards minus cost.

    Args:
      features: [m, N], 0 or 1.
      labels: [m], +1 or -1.
      weights: [m]; below zero counts as zero.
      costs: by number of literals, nondecreasing; those left out, and infinite ones, are forbidden.
        None: every order is free.
      pairs: [k, 3]: i, i', v >= 0, earned by sign s if i is of class s and covered, and i' is of
        the other class and not covered.
      bits: all numbers are scaled to integers, so that together they sum to about 2 ** bits.
      cap_seconds: after which the best so far is returned.
      options: for the program, such as ("--flow", "classes").

    Raises:
      RuntimeError: if there is no g++, or the program fails.
      ValueError: if the costs decrease.
    """
    features, labels = np.asarray(features), np.asarray(labels)
    weights = np.maximum(np.asarray(weights, np.float64), 0)
    num_rows, num_features = features.shape
    costs = np.zeros(num_features + 1) if costs is None else np.asarray(costs, np.float64)
    finite = costs[np.isfinite(costs)]
    if (
        len(finite) == 0
        or np.any(np.diff(finite) < 0)
        or not np.isfinite(costs[: len(finite)]).all()
    ):
        raise ValueError("costs must hold costs[0] and not decrease")
    pairs = np.zeros((0, 3)) if pairs is None else np.asarray(pairs, np.float64)
    total = weights.sum() + pairs[:, 2].sum() + np.abs(finite).max()
    scale = float(2.0 ** (bits - np.ceil(np.log2(total)))) if total > 0 else 1.0

    whole = [
        np.array([num_rows, num_features, len(finite), len(pairs)]),
        np.rint(finite * scale),
        np.rint(weights * scale),
    ]
    whole.append(np.column_stack([pairs[:, :2], np.rint(pairs[:, 2] * scale)]))
    data = (
        b"".join(part.astype(np.int64).tobytes() for part in whole)
        + labels.astype(np.int8).tobytes()
        + features.astype(np.uint8).tobytes()
    )
    cap = () if cap_seconds is None else ("--cap", str(cap_seconds))
    done = subprocess.run(
        [str(compiled()), *cap, *options], input=data, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the C++ search failed: {done.stderr.decode().strip()}")
    lines = dict(line.partition(" ")[::2] for line in done.stdout.decode().splitlines())
    literals = tuple(int(literal) for literal in lines.pop("literals").split())
    numbers = {name: float(number) for name, number in lines.items()}
    sign = int(numbers.pop("sign"))

    value = _value(features, labels, weights, finite, pairs, literals, sign)
    found = numbers.pop("value") / scale
    if abs(value - found) > (num_rows + len(pairs) + 1) / scale:
        raise RuntimeError(f"the C++ search claims {found} for a monomial of value {value}")
    numbers["beam_value"] /= scale
    return Found(
        value=value,
        literals=literals,
        sign=sign,
        seconds=numbers.pop("seconds"),
        num_nodes=int(numbers.pop("nodes")),
        num_expanded=int(numbers.pop("expanded")),
        num_children=int(numbers.pop("children")),
        is_proven=bool(numbers.pop("proven")),
        details=numbers,
    )


def _value(
    features: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    costs: np.ndarray,
    pairs: np.ndarray,
    literals: tuple[int, ...],
    sign: int,
) -> float:
    columns = np.concatenate([features != 0, features == 0], axis=1)
    cover = np.all(columns[:, list(literals)], axis=1, keepdims=True)[:, 0]
    first, second = pairs[:, 0].astype(int), pairs[:, 1].astype(int)
    earned = (labels[first] == sign) & cover[first] & ~cover[second]
    cost = costs[len(literals)] if len(literals) < len(costs) else costs[-1]
    return float(sign * np.sum(weights[cover] * labels[cover]) + np.sum(pairs[earned, 2]) - cost)
