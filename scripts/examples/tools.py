"""What the examples share: data, paired intervals, options, and the files that they write."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jboost
from jboost.data import embedded, readers

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "more"
TEST_SHARE, VALIDATION_SHARE = 0.3, 0.25  # the second one of what is left by the first
LEVEL = 0.95  # of all intervals
_EXTRAS = {"sklearn": "sklearn", "matplotlib": "plots", "polars": "cli"}  # package: extra of jboost
_DIGITS = 6  # of the numbers in a results file


class Data(NamedTuple):
    """One data set of two classes."""

    features: np.ndarray  # [m, N], or [m, rows, columns] for images
    labels: np.ndarray  # [m] +1 or -1


class Part(NamedTuple):
    """Examples of one use."""

    features: Any  # [m, ...]
    labels: Any  # [m] +1 or -1


class Problem(NamedTuple):
    """One split."""

    training: Part
    validation: Part
    test: Part


class Rows(NamedTuple):
    """The indices of the examples of each part."""

    training: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Interval(NamedTuple):
    """A mean over seeds, and the interval of Student's t."""

    mean: float
    low: float
    high: float


def require_extras(*packages: str) -> None:
    """Raises SystemExit, naming the extra that has it, for a package that is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            extra = _EXTRAS[package]
            raise SystemExit(f"{package} is not installed: pip install 'jboost[{extra}]'")


def load(name: str, folder: Path = SHARED) -> Data | None:
    """A data set of scikit-learn, or the table NAME.csv of a folder; None if there is none."""
    if name in embedded.names():
        require_extras("sklearn")
        table = embedded.load_table(name)
    elif (folder / f"{name}.csv").exists():
        require_extras("polars")
        table = readers.read_table(folder / f"{name}.csv", label="label")
    else:
        print(f"{name} is left out: there is no {folder / name}.csv", file=sys.stderr)
        return None
    features = np.stack([table.numeric[column] for column in table.columns], axis=1)
    is_image = name == "digits"
    labels = np.asarray(table.labels)
    return Data(features.reshape(-1, 8, 8) if is_image else features, labels.astype(np.int32))


def load_all(names: Sequence[str]) -> tuple[dict[str, Data], list[str]]:
    """The data sets that are there by their names, and the names of those that are not."""
    found = {name: load(name) for name in names}
    kept = {name: data for name, data in found.items() if data is not None}
    return kept, [name for name in names if name not in kept]


def standardize(features: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Features with mean 0 and variance 1 by the columns of `by` [m, ...]; images as a whole."""
    axes = None if by.ndim > 2 else 0
    return ((features - by.mean(axis=axes)) / (by.std(axis=axes) + 1e-6)).astype(np.float32)


def split_rows(count: int, random: np.random.Generator) -> Rows:
    """A random split of so many examples."""
    num_test = int(TEST_SHARE * count)
    num_validation = int(VALIDATION_SHARE * (count - num_test))
    ends = [num_test, num_test + num_validation]
    test, validation, training = np.split(random.permutation(count), ends)
    return Rows(training, validation, test)


def take_rows(data: Data, rows: Rows, *, flawed: np.ndarray | None = None) -> Problem:
    """The parts, standardized by the training part.

    Args:
      data: m examples.
      rows: which of them are in which part.
      flawed: [m] the labels in training and validation, None for those of the data.
    """
    training = data.features[rows.training]
    seen = data.labels if flawed is None else flawed

    def take(chosen: np.ndarray, labels: np.ndarray) -> Part:
        return Part(standardize(data.features[chosen], training), labels[chosen])

    trained = take(rows.training, seen), take(rows.validation, seen)
    return Problem(*trained, take(rows.test, data.labels))


def stack(problems: Sequence[Problem]) -> Problem:
    """Problems of equal sizes as one, with a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *problems)


def random_problems(data: Data, num_seeds: int) -> Problem:
    """A random split for each seed, stacked."""
    draws = [np.random.default_rng(seed) for seed in range(num_seeds)]
    return stack([take_rows(data, split_rows(len(data.labels), random)) for random in draws])


def sizes_of(problems: Problem) -> dict[str, int]:
    """The number of examples of each part of stacked problems."""
    return {name: part.labels.shape[1] for name, part in problems._asdict().items()}


def interval(values: Any) -> Interval:
    """The mean of values [n], n > 1, and its interval of 95 % by Student's t."""
    from scipy import stats  # JAX depends on it

    numbers = np.asarray(values, float)
    quantile = stats.t.ppf(0.5 + LEVEL / 2, len(numbers) - 1)
    mean, half = numbers.mean(), quantile * numbers.std(ddof=1) / np.sqrt(len(numbers))
    return Interval(float(mean), float(mean - half), float(mean + half))


def percent(found: Mapping[str, float], sign: str = "") -> str:
    """An interval of shares as text, in per cent; with the sign "+", differences."""
    mean, low, high = (format(100 * found[name], f"{sign}.1f") for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def parse(
    document: str,
    arguments: Sequence[str] | None,
    *,
    seeds: int,
    add: Callable[[argparse.ArgumentParser], None] | None = None,
) -> Any:
    """The options of an example, whose docstring begins its help."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=document, formatter_class=style)
    parser.add_argument("--quick", action="store_true", help="small sizes, for trying it out")
    parser.add_argument("--seeds", type=int, metavar="N", help=f"default {seeds}, quick 3")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        default=Path("jboost-out"),
        help="of the JSON file; default %(default)s",
    )
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="default that of --output")
    if add is not None:
        add(parser)
    options = parser.parse_args(arguments)
    if options.seeds is None:
        options.seeds = 3 if options.quick else seeds
    if options.seeds < 2:
        parser.error(f"--seeds is {options.seeds}: expected 2 at least, for an interval")
    options.figures = options.figures or options.output
    require_extras("sklearn", "matplotlib")
    return options


def write_results(name: str, results: Mapping[str, Any], folder: Path) -> Path:
    """Writes results, and where they were measured, to NAME.json."""
    where = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "jboost": jboost.__version__,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    text = json.dumps(_rounded({"environment": where, **results}), allow_nan=False)
    path.write_text(text.replace('], "', '],\n"').replace("}, ", "},\n") + "\n", encoding="utf-8")
    print(f"wrote {path}", file=sys.stderr)
    return path


def _rounded(tree: Any) -> Any:
    """A tree with arrays as lists, and floats of few digits."""
    if isinstance(tree, Mapping):
        return {str(key): _rounded(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_rounded(value) for value in tree]
    if hasattr(tree, "tolist"):
        return _rounded(tree.tolist())
    return round(tree, _DIGITS) if isinstance(tree, float) else tree


def new_figure(width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes, without matplotlib's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(**options)
    for one in np.ravel(axes):
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.3)
    return figure, axes


def save_figure(figure: Any, name: str, folder: Path) -> None:
    """Writes NAME.png."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png")
    print(f"wrote {folder / name}.png", file=sys.stderr)
