"""Boosting of small networks in one jitted program, for several seeds and learning rates at once.

What one learns from it: `jboost.learners.trained` makes a base learner of a network and an optax
optimizer; a whole fit of AdaBoost, training of every network included, is one compiled function;
`jax.vmap` maps it over splits, keys and learning rates; and other seeds or learning rates compile
nothing anew. The certificate of each round bounds the training error. Beside it stands one wider
network, of as many hidden units and steps as all small networks have together.

The learning rate of either is the one with the least mean validation error over seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tools
from tools import Problem

import jboost
from jboost import adaboost, ensemble, learners

DATA_SETS = ("breast_cancer", "digits", "PIMA", "SPAMBASE", "RING")
RATES = (0.003, 0.01, 0.03, 0.1)
OTHER_RATES = (0.002, 0.005, 0.02, 0.05)  # for the second call, which is timed
_SETTLED = 1e6  # in place of an infinite vote, which outweighs all others


@dataclasses.dataclass(frozen=True)
class Setting:
    """A booster of networks, up to its numbers."""

    hidden: int
    num_steps: int  # a round
    max_rounds: int


@functools.partial(jax.jit, static_argnames=("setting",))
def boost_all(
    problems: Problem,
    keys: jax.Array,
    rates: jax.Array,
    *,
    setting: Setting,
) -> dict[str, jax.Array]:
    """All fits in one program: arrays [rates, seeds, rounds], by name.

    Args:
      problems: with a leading axis of seeds on each array.
      keys: [seeds].
      rates: [rates] learning rates.
    """
    of_seeds = jax.vmap(functools.partial(boost, setting=setting), in_axes=(0, 0, None))
    return jax.vmap(of_seeds, in_axes=(None, None, 0))(problems, keys, rates)


def boost(
    problem: Problem,
    key: jax.Array,
    rate: jax.Array,
    *,
    setting: Setting,
) -> dict[str, jax.Array]:
    """One fit, and what each of its rounds [rounds] did."""
    optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=1e-2)
    learner = learners.trained(
        *learners.mlp((setting.hidden,)),
        optimizer,
        hyperparams={"learning_rate": rate},
        num_steps=setting.num_steps,
    )
    dataset = jboost.make_dataset(*problem.training)
    fitted = adaboost.fit(dataset, learner, key=key, max_rounds=setting.max_rounds)
    rounds = jnp.minimum(jnp.arange(setting.max_rounds), fitted.num_rounds - 1)
    return {
        "training error": fitted.trace.lower_bounds[rounds],
        "bound": fitted.trace.upper_bounds[rounds],
        "validation error": errors_by_round(fitted.ensemble, *problem.validation),
        "test error": errors_by_round(fitted.ensemble, *problem.test),
    }


def errors_by_round(vote: Any, features: jax.Array, labels: jax.Array) -> jax.Array:
    """The error of the first network, of the first two, and so on, [rounds]."""
    votes = jnp.clip(vote.votes[:, :1], -_SETTLED, _SETTLED)
    scores = jnp.cumsum(votes * ensemble.outputs(vote, features), axis=0)
    return jnp.mean((scores > 0) != (labels > 0)[None, :], axis=1)


class Compilations:
    """Counts what XLA compiles, from when it is made."""

    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, _: float, **__: Any) -> None:
        self.count += event == "/jax/core/compile/backend_compile_duration"


def timed(
    problems: Problem,
    keys: Any,
    rates: Any,
    setting: Setting,
) -> tuple[dict[str, np.ndarray], float]:
    """What `boost_all` finds, and the seconds that it takes."""
    begin = time.perf_counter()
    found = jax.block_until_ready(boost_all(problems, keys, rates, setting=setting))
    seconds = time.perf_counter() - begin
    return jax.tree.map(np.asarray, found), seconds


def summarize(found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Curves [seeds, rounds] of the learning rate with the least mean validation error."""
    validation = found["validation error"][:, :, -1].mean(axis=1)
    index = int(np.argmin(validation))
    last = found["test error"][index, :, -1]
    return {
        "learning_rate": RATES[index],
        "validation_error_by_rate": validation,
        "test_error": tools.interval(last)._asdict(),
        "curves": {name: values[index] for name, values in found.items()},
    }


def fit_twice(
    problems: Problem,
    keys: Any,
    rates: jax.Array,
    setting: Setting,
    compilations: Compilations,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What the first call finds, and the seconds of a second one with other keys and rates."""
    others = jax.random.split(jax.random.key(1), len(keys)), jnp.asarray(OTHER_RATES)
    found, first = timed(problems, keys, rates, setting)
    before = compilations.count
    _, second = timed(problems, *others, setting)
    return found, {
        "fits": len(rates) * len(keys),
        "compile": first - second,
        "run": second,
        "compilations_of_second_call": compilations.count - before,
    }


def run_one(
    data: tools.Data,
    num_seeds: int,
    setting: Setting,
    compilations: Compilations,
    *,
    compare: bool,
) -> dict[str, Any]:
    """The record of one data set; `compare` also times one fit after the other."""
    problems = jax.tree.map(jnp.asarray, tools.random_problems(data, num_seeds))
    keys, rates = jax.random.split(jax.random.key(0), num_seeds), jnp.asarray(RATES)
    found, seconds = fit_twice(problems, keys, rates, setting, compilations)
    if compare:
        seconds["run_one_at_a_time"] = seconds_one_at_a_time(problems, keys, rates, setting)
    wide = Setting(setting.hidden * setting.max_rounds, setting.num_steps * setting.max_rounds, 1)
    single, _ = timed(problems, keys, rates, wide)
    boosted, alone = summarize(found), summarize(single)
    differences = boosted["curves"]["test error"][:, -1] - alone["curves"]["test error"][:, -1]
    return {
        "sizes": tools.sizes_of(problems),
        "boosted": boosted,
        "one_wide_network": alone,
        "difference": tools.interval(differences)._asdict(),
        "seconds": seconds,
    }


def seconds_one_at_a_time(problems: Problem, keys: Any, rates: Any, setting: Setting) -> float:
    """The same fits by as many calls of a program for one, once it is compiled."""
    places = [slice(seed, seed + 1) for seed in range(len(keys))]
    calls = [(jax.tree.map(lambda leaf, at=at: leaf[at], problems), keys[at]) for at in places]
    timed(*calls[0], rates[:1], setting)
    return sum(timed(*call, rate[None], setting)[1] for call in calls for rate in rates)


def table(results: Mapping[str, Any]) -> str:
    """A row for each data set."""
    lines = [
        "| data | one small network | boosted | one wide network | difference | training, bound |",
        "| :--- " + "| ---: " * 5 + "|",
    ]
    for record in results["records"]:
        curves = {name: np.asarray(values) for name, values in record["boosted"]["curves"].items()}
        first = tools.interval(curves["test error"][:, 0])._asdict()
        ends = [100 * np.mean(curves[name][:, -1]) for name in ("training error", "bound")]
        cells = [
            tools.percent(first),
            tools.percent(record["boosted"]["test_error"]),
            tools.percent(record["one_wide_network"]["test_error"]),
        ]
        cells += [tools.percent(record["difference"], "+"), f"{ends[0]:.2g}, {ends[1]:.2g}"]
        lines.append(f"| {record['data']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """Error by round, a panel a data set: the mean over seeds, and the range of all seeds."""
    figure, axes = tools.new_figure(10, 3.8, ncols=len(results["records"]), squeeze=False)
    for one, record in zip(axes[0], results["records"], strict=True):
        for name, color in (("test error", "C0"), ("training error", "C1"), ("bound", "C7")):
            values = 100 * np.asarray(record["boosted"]["curves"][name])
            rounds = np.arange(1, values.shape[1] + 1)
            one.plot(
                rounds,
                values.mean(axis=0),
                color=color,
                label=name if name != "bound" else "certified bound of the training error",
            )
            ends = values.min(axis=0), values.max(axis=0)
            one.fill_between(rounds, *ends, color=color, alpha=0.2, linewidth=0)
        one.axhline(
            100 * record["one_wide_network"]["test_error"]["mean"],
            color="C0",
            linestyle=":",
            label="test error of one wide network",
        )
        one.set_title(record["data"], fontsize=10)
        one.set_xlabel("round")
        one.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("per cent")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=9)
    tools.save_figure(figure, "boosted_networks", folder)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of this example alone."""
    parser.add_argument(
        "--data",
        nargs="+",
        choices=DATA_SETS,
        metavar="NAME",
        help=f"of {', '.join(DATA_SETS)}; default the first two, quick one",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Boosts, prints a table, writes boosted_networks.json and boosted_networks.png."""
    options = tools.parse(__doc__, arguments, seeds=8, add=add_options)
    setting = Setting(hidden=4, num_steps=100, max_rounds=12)
    if options.quick:
        setting = Setting(hidden=2, num_steps=10, max_rounds=4)
    names = options.data or (DATA_SETS[:1] if options.quick else DATA_SETS[:2])
    compilations = Compilations()
    one = functools.partial(run_one, compilations=compilations, compare=not options.quick)
    loaded, missing = tools.load_all(names)
    records = [{"data": name, **one(data, options.seeds, setting)} for name, data in loaded.items()]
    results = {
        "num_seeds": options.seeds,
        "setting": dataclasses.asdict(setting),
        "rates": RATES,
        "missing": missing,
        "records": records,
    }
    tools.write_results("boosted_networks", results, options.output)
    draw(results, options.figures)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
