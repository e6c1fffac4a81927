"""What learns from a fold, each method by its name in the settings, and what is said of what it has
learnt.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jboost
from benchmarks.paper001.folds import Prepared, alike
from benchmarks.peers import slipper
from jboost.data import merging
from jboost.monomials import costs

_ADABOOST_ROUNDS = 50
_TREE_DEPTH = 4  # of greedy trees, where Demiriz, Bennett and Shawe-Taylor (2002) take C4.5


class Sizes(NamedTuple):
    """What is compiled for."""

    max_order: int
    max_rounds: int
    num_proposed: int
    max_columns: int
    # of VOTES, what the cross-validation of l0-chosen chooses from
    inner_votes: tuple[str, ...] = ()
    # that approximate the vote of the relaxation; in the settings one number, or one for each set
    max_hypotheses: int = 12
    # hypotheses in the vote of fewest errors plus costs, None for as many as are worth it
    max_sparse: int | None = None
    # what l0-orders chooses from
    inner_orders: tuple[int, ...] = ()
    inner_rules: tuple[int, ...] = ()
    inner_seconds: float | None = None  # of the clock, for cross-validation and fit together


VOTE_OF = {  # the methods that share their rounds, with the final vote of each
    "l0": "sparse",
    "l0-relaxed": "relaxed",
    "l0-coefficients": "coefficients",
    "l0-vertex": "vertex",
}
VOTES = {
    "sparse": lambda sizes: jboost.l0.SearchConfig(max_hypotheses=sizes.max_sparse),
    "relaxed": lambda sizes: jboost.l0.RelaxedConfig(sizes.max_hypotheses),
    "coefficients": lambda sizes: jboost.l0.CoefficientsConfig(),
    "vertex": lambda sizes: jboost.l0.VertexConfig(),
}


class Examples(NamedTuple):
    """What a method learns from."""

    dataset: Any
    held_out: Any  # [F, rows] of the weights, by each inner fold; None where nothing is chosen
    fold_features: Any  # [F, rows, N'] bits of each inner fold; None likewise


def features_of(method: str, part: Prepared) -> np.ndarray:
    """What a method sees: the numbers of the table, or bits of them."""
    return part.numbers if method in ON_NUMBERS else part.features


def examples_of(method: str, part: Prepared, labels: np.ndarray) -> Examples:
    """The training rows, of which L0-RBoost gets equal ones as one; inner folds are of the rows as
    they were.
    """
    if not method.startswith("l0"):
        features = features_of(method, part)
        return Examples(jboost.make_dataset(features, labels, mask=part.training), None, None)
    looks = [part.features] if method != "l0-chosen" else [part.features, *part.inner.features]
    dataset = jboost.make_dataset(np.concatenate(looks, axis=1), labels, mask=part.training)
    merged = merging.merge_equal(dataset, num_rows=part.num_rows)
    features, *fold_features = np.split(
        np.asarray(merged.dataset.features),
        np.cumsum([bits.shape[1] for bits in looks[:-1]]),
        axis=1,
    )
    rows = merged.dataset._replace(features=features)
    if method != "l0-chosen":
        return Examples(rows, None, None)
    row_of = np.asarray(merged.row_of)
    held_out = np.stack(
        [np.bincount(row_of[chosen], minlength=part.num_rows) for chosen in part.inner.held_out]
    )
    return Examples(rows, held_out, np.stack(fold_features))


def _fit_l0(
    methods: Sequence[str],
    examples: Examples,
    make_learner: Any,
    knobs: Any,
    sizes: Sizes,
) -> list[Any]:
    """A fit for each of these methods, which share the rounds and differ in the final vote."""
    state = jboost.l0.init(
        examples.dataset,
        make_learner(knobs["kappa"]),
        margin=knobs["margin_times_m"] / knobs["num_training"],
        tolerance=knobs["tolerance"],
        bound_integer=False,
        max_rounds=sizes.max_rounds,
        max_columns=sizes.max_columns,
    )

    def goes_on(state: Any) -> Any:
        is_unfinished = state.status == int(jboost.status.Status.UNFINISHED)
        return is_unfinished & (state.num_rounds < sizes.max_rounds)

    state = jax.lax.while_loop(
        goes_on, lambda state: jboost.l0.step(state, examples.dataset)[0], state
    )
    return [
        jboost.l0.finish(state, examples.dataset, search=VOTES[VOTE_OF[method]](sizes))
        for method in methods
    ]


def _fit_l0_chosen(
    examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes
) -> Any:
    votes = [VOTES[vote](sizes) for vote in sizes.inner_votes]
    grid = {
        "margins": knobs["inner_margins_times_m"] / knobs["num_training"],
        "kappas": knobs["inner_kappas"],
    }
    room = {"max_rounds": sizes.max_rounds, "max_columns": sizes.max_columns, "search": votes}
    inner = {
        "held_out": examples.held_out,
        "fold_features": examples.fold_features,
        "bound_integer": False,
    }
    return jboost.l0.choose(
        examples.dataset,
        make_learner,
        key=key,
        tolerance=knobs["tolerance"],
        **grid,
        **room,
        **inner,
    ).fit


def _fit_lpboost(
    examples: Examples,
    make_learner: Any,
    key: Any,
    knobs: Any,
    sizes: Sizes,
    *,
    learner: Any = None,
) -> Any:
    """LP-Boost over monomials of the bits, or with a learner of its own."""
    return jboost.lpboost.fit(
        examples.dataset,
        learner or make_learner(knobs["kappa"]),
        nu=knobs["nu"],
        tolerance=knobs["tolerance"],
        max_rounds=sizes.max_rounds,
    )


def _fit_slipper(examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    # rules of its own, all options as they are
    return jboost.slipper.fit(examples.dataset, key=key)


def _fit_adaboost(examples: Examples, make_learner: Any, key: Any, knobs: Any, sizes: Sizes) -> Any:
    # over the same columns
    return jboost.adaboost.fit(
        examples.dataset, jboost.learners.literals(), max_rounds=_ADABOOST_ROUNDS
    )


FITS = {
    "adaboost": _fit_adaboost,
    "l0-chosen": _fit_l0_chosen,
    "lpboost": _fit_lpboost,
    "lpboost-stumps": functools.partial(_fit_lpboost, learner=jboost.learners.stumps()),
    "lpboost-trees": functools.partial(_fit_lpboost, learner=jboost.learners.trees(_TREE_DEPTH)),
    "slipper": _fit_slipper,
}
ON_NUMBERS = ("lpboost-stumps", "lpboost-trees")
# what `learn` returns, and for L0-RBoost and SLIPPER the literals in all rules
FOUND = (
    "right",
    "right_in_training",
    "support",
    "margin",
    "rounds",
    "status",
    "lower_bound",
    "upper_bound",
    "literals",
)
PEERS = {"imodels-slipper": slipper.fit_and_count}
PARAMETERS = {  # what may be a list in the settings, and is in the figures
    "l0": "margin_times_m",
    "l0-relaxed": "margin_times_m",
    "l0-coefficients": "margin_times_m",
    "l0-vertex": "margin_times_m",
    "l0-large-coefficients": "margin_times_m",
    "l0-large-vertex": "margin_times_m",
    "lpboost": "nu",
    "lpboost-stumps": "nu",
    "lpboost-trees": "nu",
}


@functools.partial(jax.jit, static_argnames=("methods", "sizes"))
def learn(
    methods: tuple[str, ...],
    sizes: Sizes,
    examples: Examples,
    features: Any,
    labels: Any,
    training: Any,
    knobs: Any,
    key: Any,
) -> tuple[Any, ...]:
    """What `_counts` says of one method, or of several that share their rounds: each with an axis
    of methods.
    """
    knobs = {**knobs, "num_training": jnp.sum(training)}

    def make_learner(kappa: Any) -> Any:
        cost = costs.mdl(
            kappa, num_attributes=knobs["num_attributes"], num_examples=knobs["num_training"]
        )
        return jboost.learners.monomials(
            sizes.max_order, cost=cost, num_proposed=sizes.num_proposed
        )

    if methods[0] in VOTE_OF:
        fits = _fit_l0(methods, examples, make_learner, knobs, sizes)
    else:
        (method,) = methods
        fits = [FITS[method](examples, make_learner, key, knobs, sizes)]
    counts = [_counts(fit, features, labels, training, knobs["nu"]) for fit in fits]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *counts)


def learn_on_host(
    method: str, sizes: Sizes, part: Prepared, labels: np.ndarray, knobs: dict[str, Any]
) -> tuple[Any, ...]:
    """As `learn`, for a method that the host drives."""
    num_training = int(part.training.sum())

    def make_learner(order: int, kappa: Any) -> Any:
        cost = costs.mdl(kappa, num_attributes=part.num_attributes, num_examples=num_training)
        return jboost.learners.monomials(order, cost=cost)

    fit = HOST[method](sizes, part, labels, knobs, make_learner)
    return _counts(fit, part.features, labels, part.training, knobs["nu"])


def _fit_large(
    sizes: Sizes, part: Prepared, labels: np.ndarray, knobs: Any, make_learner: Any, *, vote: str
) -> Any:
    """L0-RBoost by `l0.fit_large`, which takes up to three literals."""
    merged = merging.merge_bits(part.features[part.training], labels[part.training], None)
    return jboost.l0.fit_large(
        merged,
        make_learner(sizes.max_order, float(knobs["kappa"])),
        margin=float(knobs["margin_times_m"]) / int(part.training.sum()),
        tolerance=float(knobs["tolerance"]),
        max_rounds=sizes.max_rounds,
        max_columns=sizes.max_columns,
        search=VOTES[vote](sizes),
    )


def _fit_of_chosen_order(
    sizes: Sizes, part: Prepared, labels: np.ndarray, knobs: Any, make_learner: Any
) -> Any:
    """L0-RBoost whose order, number of rules, kappa and rho the inner folds choose."""
    num_training = int(part.training.sum())
    choice = jboost.l0.choose_large(
        jboost.make_dataset(part.features, labels, mask=part.training),
        make_learner,
        max_orders=sizes.inner_orders,
        max_rules=sizes.inner_rules,
        margins=np.asarray(knobs["inner_margins_times_m"]) / num_training,
        kappas=np.asarray(knobs["inner_kappas"]),
        key=part.key,
        held_out=part.inner.held_out,
        fold_features=list(part.inner.features),
        tolerance=float(knobs["tolerance"]),
        max_rounds=sizes.max_rounds,
        time_limit=sizes.inner_seconds,
    )
    return choice.fit._replace(status=choice.status)  # it says whether the time was enough


HOST = {  # one fold after the other
    "l0-orders": _fit_of_chosen_order,
    "l0-large-coefficients": functools.partial(_fit_large, vote="coefficients"),
    "l0-large-vertex": functools.partial(_fit_large, vote="vertex"),
}


def _counts(fit: Any, features: Any, labels: Any, training: Any, nu: Any) -> tuple[Any, ...]:
    """Right answers on held-out rows and on the others, support, the margin that a share nu of the
    others falls short of, rounds, status, bounds, literals.
    """
    scores = jboost.predict_scores(fit.ensemble, features)
    right = jnp.where(scores > 0, 1, -1) == labels
    votes = jnp.any(jnp.abs(fit.ensemble.votes) > 1e-6, axis=1)
    literals = getattr(fit.ensemble.hypotheses, "literals", None)
    num_literals = math.nan if literals is None else jnp.sum((literals != 0) & votes[:, None])
    margin = jnp.nanquantile(jnp.where(training, scores * labels, jnp.nan), nu)
    bounds = fit.certificate.lower_bound, fit.certificate.upper_bound
    return (
        jnp.sum(right & ~training),
        jnp.sum(right & training),
        jnp.sum(votes),
        margin,
        fit.num_rounds,
        fit.status,
        *bounds,
        num_literals,
    )


def sizes_of(settings: dict[str, Any], name: str) -> Sizes:
    """What is compiled for, under these settings, on the data set of this name.

    Raises:
      ValueError: if a setting lists its values by data set, and this one is missing.
    """
    return Sizes(
        **{
            field: _size_on(name, field, value)
            for field, value in settings.items()
            if field in Sizes._fields
        }
    )


def _size_on(name: str, field: str, value: Any) -> Any:
    """The value of a setting on a data set: one for all sets, or a table of them by set."""
    if isinstance(value, dict):
        if name not in value:
            raise ValueError(
                f"{field} has no value for {name}, only for {', '.join(value)}: add {name} = ..."
                " to the table, or give one number for all sets"
            )
        value = value[name]
    return tuple(value) if isinstance(value, list) else value


@functools.partial(jax.jit, static_argnames=("methods", "sizes"))
def learn_together(
    methods: tuple[str, ...],
    sizes: Sizes,
    examples: Examples,
    features: Any,
    labels: Any,
    training: Any,
    knobs: Any,
    key: Any,
) -> tuple[Any, ...]:
    """`learn` on several folds of one data set: all but labels and knobs have a first axis, and so
    has the number of attributes.
    """
    own = {name: 0 if name == "num_attributes" else None for name in knobs}
    return jax.vmap(functools.partial(learn, methods, sizes), in_axes=(0, 0, None, 0, own, 0))(
        examples, features, labels, training, knobs, key
    )


def evaluate(
    methods: tuple[str, ...],
    sizes: Sizes,
    parts: Sequence[Prepared],
    labels: np.ndarray,
    knobs: dict[str, Any],
) -> Iterator[list[dict[str, Any]]]:
    """What each of some methods that share their rounds finds on folds, in words and shares; of a
    peer accuracies and support alone.

    Several folds are one program, or as many programs as the memory of the device asks for.
    """
    start = time.perf_counter(), time.process_time()
    method = methods[0]
    if method in PEERS:
        results = [
            [dict(zip(FOUND, PEERS[method](part.features, labels, part.training), strict=False))]
            for part in parts
        ]
    elif method in HOST:
        results = [[_as_found(learn_on_host(method, sizes, part, labels, knobs))] for part in parts]
    else:
        try:
            results = learn_folds(methods, sizes, parts, labels, knobs)
        except jax.errors.JaxRuntimeError as error:
            half = len(parts) // 2
            if half == 0 or "RESOURCE_EXHAUSTED" not in str(error):
                raise
            print(
                f"{len(parts)} folds do not fit the device's memory together: {half} are tried"
                " (--together)",
                file=sys.stderr,
            )
            for some in (parts[:half], parts[half:]):
                yield from evaluate(methods, sizes, some, labels, knobs)
            return
    clock, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    num_fits = len(parts) * len(methods)
    took = (
        {"cpu_seconds": cpu / num_fits}
        if jax.default_backend() == "cpu"
        else {"seconds": clock / num_fits}
    )
    for part, found in zip(parts, results, strict=True):
        yield [_in_words(part, of_method, len(labels)) | took for of_method in found]


def _in_words(part: Prepared, found: dict[str, float], num_rows: int) -> dict[str, Any]:
    """What a method found on a fold: shares of right answers, and the name of the status."""
    num_training = int(part.training.sum())
    facts: dict[str, Any] = {
        "accuracy": found["right"] / (num_rows - num_training),
        "training_accuracy": found["right_in_training"] / num_training,
        **{name: found[name] for name in FOUND[2:] if name in found},
        "num_attributes": part.num_attributes,
    }
    if "status" in facts:
        facts["status"] = jboost.status.Status(int(facts["status"])).name
    return facts


def learn_folds(
    methods: tuple[str, ...],
    sizes: Sizes,
    parts: Sequence[Prepared],
    labels: np.ndarray,
    knobs: dict[str, Any],
) -> list[list[dict[str, float]]]:
    """What `learn` says of folds, a dictionary for each method in each of them: one program for
    all.
    """
    parts = alike(parts)
    examples = [examples_of(methods[0], part, labels) for part in parts]
    if len(parts) == 1:
        (part,) = parts
        result = learn(
            methods,
            sizes,
            examples[0],
            features_of(methods[0], part),
            labels,
            part.training,
            {**knobs, "num_attributes": part.num_attributes},
            part.key,
        )
        return [_found_by_each(result)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *examples)
    features = np.stack([features_of(methods[0], part) for part in parts])
    training, num_attributes = (
        np.stack([getattr(part, name) for part in parts]) for name in ("training", "num_attributes")
    )
    key = jnp.stack([part.key for part in parts])
    result = learn_together(
        methods,
        sizes,
        stacked,
        features,
        labels,
        training,
        {**knobs, "num_attributes": num_attributes},
        key,
    )
    return [
        _found_by_each([np.asarray(leaf)[place] for leaf in result]) for place in range(len(parts))
    ]


def _found_by_each(result: Sequence[Any]) -> list[dict[str, float]]:
    """What `learn` returns, a dictionary for each method."""
    return [_as_found(values) for values in zip(*map(np.asarray, result), strict=True)]


def _as_found(values: Sequence[Any]) -> dict[str, float]:
    """What `learn` returns, by name; without literals where rules have none."""
    found = dict(zip(FOUND, map(float, values), strict=True))
    return {
        name: value for name, value in found.items() if not math.isnan(value) or name != "literals"
    }


def sharing_rounds(methods: Sequence[str]) -> list[tuple[str, ...]]:
    """The methods in their order, in groups that share their rounds."""
    groups: dict[str, list[str]] = {}
    for method in methods:
        groups.setdefault("l0" if method in VOTE_OF else method, []).append(method)
    return [tuple(group) for group in groups.values()]


def present(methods: Sequence[str]) -> list[str]:
    """The methods without the peers whose package is not installed; says which are left out."""
    missing = [
        method
        for method in methods
        if method in PEERS and importlib.util.find_spec(method.partition("-")[0]) is None
    ]
    for method in missing:
        package = method.partition("-")[0]
        print(
            f"{method} is left out: the package {package} is not installed (pip install {package})",
            file=sys.stderr,
        )
    return [method for method in methods if method not in missing]
