"""Robust training of small networks, under label noise and under class imbalance.

What one learns from it: how to put a robust loss of jboost where the mean of the cross-entropies
was, in one jitted program for all seeds, strengths and methods; and what that gains or costs on
clean test data, by paired differences to cross-entropy. Losses that raise the weight of examples
with large losses raise that of wrong labels too.

Two scenarios: 30 % of the labels are flipped, in training and in validation; or one class has one
example for twenty of the other. Test data are clean, and balanced in the second scenario. Data:
breast cancer and digits (odd against even) of scikit-learn, and numeric tables of
../shared/data/more where they are.

Every method has nine configurations, and takes the one with the best mean validation score over
seeds: cross-entropy nine weight decays, each robust loss three strengths and three weight decays of
the same range. Validation data have the flaws of the training data; test data choose nothing. A
seed means the same split, flips, first parameters and minibatches in all methods.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tools
from tools import Part, Problem

from jboost import learners, losses, relaxations

NOISE, IMBALANCE = 0.3, 20
NU = 0.2  # of the capped adversary, and of the training CVaR that is reported
DATA_SETS = ("breast_cancer", "digits", "PIMA", "SPAMBASE", "RING")
# By which score validation data choose, and others that are shown.
SHOWN = {"label noise": ("accuracy",), "class imbalance": ("balanced accuracy", "worst class")}
BASE = "cross-entropy"
DECAYS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.6, 1.0)  # those of cross-entropy
HIDDEN, CHANNELS, PATCH = 32, 8, 3
ENDS = ("mean", "low", "high")

# From the losses [b] of a minibatch, the classes [b] (0 or 1) and a strength to one number.
Loss = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


class Method(NamedTuple):
    """A loss, and its configurations."""

    loss: Loss
    strengths: tuple[float, ...]
    weight_decays: tuple[float, ...] = (0.01, 0.3, 1.0)

    @property
    def configurations(self) -> list[tuple[float, float]]:
        """Pairs of a strength and a weight decay."""
        return list(itertools.product(self.strengths, self.weight_decays))


METHODS = {
    BASE: Method(lambda values, _, __: jnp.mean(values), (0.0,), DECAYS),
    "CVaR": Method(lambda values, _, nu: losses.cvar(values, nu), (0.2, 0.5, 0.8)),
    "capped adversary": Method(
        lambda values, _, smoothing: losses.worst_case(
            values,
            relaxations.soft_margin(nu=NU),
            smoothing=smoothing,
        ),
        (0.3, 1.0, 3.0),
    ),
    "KL-DRO": Method(lambda values, _, radius: losses.kl_dro(values, radius), (0.02, 0.1, 0.5)),
    "group DRO of the classes": Method(
        lambda values, classes, smoothing: losses.group_dro(
            values,
            classes,
            2,
            relaxations.hard_margin(),
            smoothing=smoothing,
        ),
        (0.05, 0.2, 1.0),
    ),
}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How long, and by which minibatches."""

    num_steps: int
    batch_size: int
    learning_rate: float = 1e-2


# --- data ----------------------------------------------------------------------------------------


def make_problem(data: tools.Data, scenario: str, seed: int) -> Problem:
    """A random split: with flipped labels, or few of class +1 and a balanced test part."""
    random = np.random.default_rng(seed)
    if scenario == "class imbalance":
        return tools.take_rows(data, _split_with_imbalance(data.labels, random))
    rows = tools.split_rows(len(data.labels), random)
    flawed = np.where(random.random(len(data.labels)) < NOISE, -data.labels, data.labels)
    return tools.take_rows(data, rows, flawed=flawed)


def _split_with_imbalance(labels: np.ndarray, random: np.random.Generator) -> tools.Rows:
    """A balanced test part; in the others, one example of class +1 for twenty of class -1."""
    majority, minority = (random.permutation(np.flatnonzero(labels == sign)) for sign in (-1, 1))
    num_test = int(tools.TEST_SHARE * min(len(majority), len(minority)))
    test = np.concatenate([majority[:num_test], minority[:num_test]])
    majority = majority[num_test : num_test + IMBALANCE * (len(minority) - num_test)]
    minority = minority[num_test : num_test + math.ceil(len(majority) / IMBALANCE)]
    cuts = [math.ceil(tools.VALIDATION_SHARE * len(rows)) for rows in (majority, minority)]
    validation = np.concatenate([majority[: cuts[0]], minority[: cuts[1]]])
    training = np.concatenate([majority[cuts[0] :], minority[cuts[1] :]])
    return tools.Rows(training, validation, test)


# --- networks ------------------------------------------------------------------------------------


def patches_of(images: jax.Array) -> jax.Array:
    """All patches [m, rows, columns, 9] of 3 x 3 pixels of images [m, rows + 2, columns + 2]."""
    rows, columns = (size - PATCH + 1 for size in images.shape[1:])
    shifts = itertools.product(range(PATCH), repeat=2)
    parts = [images[:, top : top + rows, left : left + columns] for top, left in shifts]
    return jnp.stack(parts, axis=-1)


def init_convolutional(key: jax.Array, images: jax.Array) -> Any:
    """Parameters: 8 filters, and a perceptron on their means over squares of 2 x 2."""
    key_kernel, key_rest = jax.random.split(key)
    kernel = jax.random.normal(key_kernel, (PATCH**2, CHANNELS)) / PATCH
    init, _ = learners.mlp((HIDDEN,))
    return kernel, init(key_rest, _convolve(kernel, images))


def apply_convolutional(params: Any, images: jax.Array) -> jax.Array:
    """Scores [m]."""
    kernel, rest = params
    return learners.mlp((HIDDEN,))[1](rest, _convolve(kernel, images))


def _convolve(kernel: jax.Array, images: jax.Array) -> jax.Array:
    """The convolution, as a product with patches, and means over squares of 2 x 2."""
    maps = jax.nn.relu(patches_of(images) @ kernel)
    count, rows, columns, channels = maps.shape
    return maps.reshape(count, rows // 2, 2, columns // 2, 2, channels).mean(axis=(2, 4))


# --- training ------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("names", "sizes"))
def train_all(
    problems: Problem,
    keys: jax.Array,
    *,
    names: tuple[str, ...],
    sizes: Sizes,
) -> dict[str, dict[str, jax.Array]]:
    """All methods in one program: scores of shape [configurations, seeds], by method and by name.

    Args:
      problems: with a leading axis of seeds on each array.
      keys: [seeds].
    """

    def of_method(method: Method) -> Any:
        of_seeds = jax.vmap(
            functools.partial(train, loss=method.loss, sizes=sizes),
            in_axes=(0, 0, None),
        )
        of_pairs = jax.vmap(of_seeds, in_axes=(None, None, 0))
        return of_pairs(problems, keys, jnp.asarray(method.configurations))

    trained = [of_method(METHODS[name]) for name in names]
    params = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trained)
    found = jax.vmap(lambda params: jax.vmap(score)(params, problems))(params)
    ends = np.cumsum([len(METHODS[name].configurations) for name in names])[:-1]
    parts = {score: jnp.split(values, ends) for score, values in found.items()}
    return {
        name: {score: values[index] for score, values in parts.items()}
        for index, name in enumerate(names)  # in the order of the concatenation
    }


def train(problem: Problem, key: jax.Array, pair: jax.Array, *, loss: Loss, sizes: Sizes) -> Any:
    """The parameters of one network; pair [2] is the strength of the loss and a weight decay."""
    init, apply = network_of(problem)
    strength, weight_decay = pair
    optimizer = optax.adamw(sizes.learning_rate, weight_decay=weight_decay)
    key_params, key_rows = jax.random.split(key)
    params = init(key_params, problem.training.features)

    def objective(params: Any, rows: jax.Array) -> jax.Array:
        labels = problem.training.labels[rows]
        each = jax.nn.softplus(-labels * apply(params, problem.training.features[rows]))
        return loss(each, (labels > 0).astype(jnp.int32), strength)

    def step(carry: Any, rows: jax.Array) -> Any:
        params, memory = carry
        updates, memory = optimizer.update(jax.grad(objective)(params, rows), memory, params)
        return (optax.apply_updates(params, updates), memory), None

    shape = sizes.num_steps, sizes.batch_size
    batches = jax.random.randint(key_rows, shape, 0, problem.training.labels.shape[0])
    (params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), batches)
    return params


def network_of(problem: Problem) -> tuple[Callable[..., Any], Callable[..., jax.Array]]:
    """(init, apply): convolutional for images, else a perceptron."""
    is_image = problem.training.features.ndim > 2
    return (init_convolutional, apply_convolutional) if is_image else learners.mlp((HIDDEN,))


def score(params: Any, problem: Problem) -> dict[str, jax.Array]:
    """Scores of one network on all parts, and its mean loss and CVaR in training."""
    _, apply = network_of(problem)
    each = jax.nn.softplus(-problem.training.labels * apply(params, problem.training.features))
    found = {"training mean loss": jnp.mean(each), "training CVaR": losses.cvar(each, NU)}
    for name, part in (("validation", problem.validation), ("test", problem.test)):
        shares = measure(apply, params, part)
        found |= {f"{name} {score}": value for score, value in shares.items()}
    return found


def measure(apply: Callable[..., jax.Array], params: Any, part: Part) -> dict[str, jax.Array]:
    """Shares of examples that are right: of all, the mean of both classes, the worse class."""
    is_right = (apply(params, part.features) > 0) == (part.labels > 0)
    by_class = jnp.stack([jnp.mean(is_right, where=part.labels == sign) for sign in (-1, 1)])
    return {
        "accuracy": jnp.mean(is_right),
        "balanced accuracy": jnp.mean(by_class),
        "worst class": jnp.min(by_class),
    }


# --- results -------------------------------------------------------------------------------------


def choose(
    method: str,
    scores: Mapping[str, Any],
    scenario: str,
    strength: float | None = None,
) -> int:
    """The configuration, of one strength or of all, with the best mean validation score."""
    means = np.mean(scores[f"validation {SHOWN[scenario][0]}"], axis=1)
    strengths = np.array(METHODS[method].configurations)[:, 0]
    is_allowed = True if strength is None else strengths == strength
    return int(np.argmax(np.where(is_allowed, means, -1.0)))


def summarize(found: Mapping[str, Mapping[str, Any]], scenario: str) -> dict[str, Any]:
    """Of each method: all scores, the configuration chosen, its differences to cross-entropy."""
    base = choose(BASE, found[BASE], scenario)

    def compare(name: str, index: int) -> dict[str, Any]:
        differences = {}
        for score in ("accuracy", "balanced accuracy", "worst class"):
            ours, theirs = found[name][f"test {score}"][index], found[BASE][f"test {score}"][base]
            differences[score] = tools.interval(ours - theirs)._asdict()
        strength, weight_decay = METHODS[name].configurations[index]
        chosen = {"index": index, "strength": strength, "weight_decay": weight_decay}
        return {"chosen": chosen, "difference": differences}

    summary = {}
    for name, scores in found.items():
        of_each = [choose(name, scores, scenario, one) for one in METHODS[name].strengths]
        summary[name] = {
            "configurations": METHODS[name].configurations,
            **compare(name, choose(name, scores, scenario)),
            "by_strength": [compare(name, index) for index in of_each],
            "scores": scores,
        }
    return summary


def table(results: Mapping[str, Any]) -> str:
    """A row for each scenario, data set and score: cross-entropy, and differences in points."""
    names = [name for name in results["methods"] if name != BASE]
    lines = [
        "| scenario | data | score | cross-entropy | " + " | ".join(names) + " |",
        "| :--- " * 3 + "| ---: " * (1 + len(names)) + "|",
    ]
    for record in results["records"]:
        for score in SHOWN[record["scenario"]]:
            base = record["methods"][BASE]
            mean = np.mean(base["scores"][f"test {score}"], axis=1)[base["chosen"]["index"]]
            found = [record["methods"][name]["difference"][score] for name in names]
            cells = [record["scenario"], record["data"], score, f"{100 * mean:.1f}"]
            cells += [tools.percent(one, "+") for one in found]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def strength_table(results: Mapping[str, Any], name: str, scenario: str) -> str:
    """Differences of a method to cross-entropy in points: a row a data set, a column a strength."""
    score, strengths = SHOWN[scenario][0], METHODS[name].strengths
    lines = [
        "| data | " + " | ".join(f"{strength:g}" for strength in strengths) + " |",
        "| :--- " + "| ---: " * len(strengths) + "|",
    ]
    for record in results["records"]:
        if record["scenario"] == scenario:
            found = [one["difference"][score] for one in record["methods"][name]["by_strength"]]
            cells = [record["data"], *(tools.percent(one, "+") for one in found)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """Paired differences with intervals, a panel for each scenario and score."""
    scenarios = dict.fromkeys(record["scenario"] for record in results["records"])
    panels = [(scenario, score) for scenario in scenarios for score in SHOWN[scenario]]
    figure, axes = tools.new_figure(10, 4.2, ncols=len(panels), squeeze=False)
    for one, (scenario, score) in zip(axes[0], panels, strict=True):
        records = [record for record in results["records"] if record["scenario"] == scenario]
        _draw_panel(one, records, score)
        names = [record["data"] for record in records] if one is axes[0, 0] else []
        one.set_yticks(-np.arange(len(records)) if names else [], names)
        one.set_title(f"{scenario}:\n{score}", fontsize=10)
    axes[0, len(panels) // 2].set_xlabel(
        "points above cross-entropy on test data, intervals of 95 %"
    )
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(handles[0]), fontsize=9)
    tools.save_figure(figure, "robust_training", folder)


def _draw_panel(axes: Any, records: Sequence[Mapping[str, Any]], score: str) -> None:
    """A row for each data set, in which the methods stand below each other."""
    names = [name for name in METHODS if name != BASE and name in records[0]["methods"]]
    for shift, name in enumerate(names):
        found = [record["methods"][name]["difference"][score] for record in records]
        means, lows, highs = 100 * np.array([[item[key] for item in found] for key in ENDS])
        heights = -np.arange(len(records)) - (shift - (len(names) - 1) / 2) / (len(names) + 1)
        style = {"fmt": "os^D"[shift], "markersize": 4, "capsize": 2, "label": name}
        axes.errorbar(means, heights, xerr=[means - lows, highs - means], **style)
    axes.axvline(0, color="black", linewidth=1)


def run(
    names: Sequence[str],
    scenarios: Sequence[str],
    methods: Sequence[str],
    num_seeds: int,
    sizes: Sizes,
) -> dict[str, Any]:
    """A record for each scenario and data set that is there."""
    keys = jax.random.split(jax.random.key(0), num_seeds)
    loaded, missing = tools.load_all(names)
    records = []
    for name, data in loaded.items():
        for scenario in scenarios:
            seeds = range(num_seeds)
            problems = tools.stack([make_problem(data, scenario, seed) for seed in seeds])
            found = train_all(problems, keys, names=tuple(methods), sizes=sizes)
            found = {method: jax.tree.map(np.asarray, found[method]) for method in methods}
            record = {"scenario": scenario, "data": name, "sizes": tools.sizes_of(problems)}
            records.append({**record, "methods": summarize(found, scenario)})
            print(f"{name}, {scenario}: done", file=sys.stderr, flush=True)
    return {
        "num_seeds": num_seeds,
        "methods": methods,
        "training": dataclasses.asdict(sizes),
        "missing": missing,
        "records": records,
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of this example alone."""
    parser.add_argument(
        "--data",
        nargs="+",
        choices=DATA_SETS,
        metavar="NAME",
        help=f"of {', '.join(DATA_SETS)}; default all, quick the first",
    )
    names = tuple(SHOWN)
    parser.add_argument("--scenarios", nargs="+", choices=names, default=names, help="default both")
    names = tuple(name for name in METHODS if name != BASE)
    parser.add_argument("--methods", nargs="+", choices=names, default=names, help="default all")


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, prints a table, writes robust_training.json and robust_training.png."""
    options = tools.parse(__doc__, arguments, seeds=20, add=add_options)
    sizes, names = Sizes(num_steps=500, batch_size=64), DATA_SETS
    if options.quick:
        sizes, names = Sizes(num_steps=30, batch_size=32), DATA_SETS[:1]
    methods = [name for name in METHODS if name == BASE or name in options.methods]
    results = run(options.data or names, options.scenarios, methods, options.seeds, sizes)
    tools.write_results("robust_training", results, options.output)
    draw(results, options.figures)
    print(table(results))
    if "label noise" in options.scenarios and "CVaR" in methods:
        print("\nCVaR under label noise, by nu:\n" + strength_table(results, "CVaR", "label noise"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
