"""Section 4 of Hatano as an experiment, how many rounds InfoBoost needs: `python -m
benchmarks.infoboost_rounds`.

Four parts. `oracle`: hypotheses whose false positives are a share tau of an error 1/2 - gamma,
whatever the weights; the exponent of the rounds in 1 / gamma should be 2 at tau = 1/2 and 1 at
tau = 0. `functions`: r-of-k functions over literals, against delta / rho^2. `weights`: the same for
threshold functions with random coefficients, with the rounds of Theorem 2 for the tau and gamma
that the fit had. `lemma`: how often a
literal as Lemma 2 promises is there (its sigma read as delta). Windows and seeds were fixed before
the first run.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import harness
from jboost import adaboost, infoboost, learners, make_dataset
from jboost.base.boosting import Proposal
from jboost.base.types import Array, Dataset
from jboost.data import synthetic

EPSILON = 0.05
NUM_EXAMPLES = 1 << 14
MAX_ROUNDS = 4096
WINDOWS = {
    0.0: (0.02, 0.03, 0.04, 0.06, 0.08),
    0.1: (0.03, 0.04, 0.06, 0.08, 0.12),
    0.5: (0.04, 0.06, 0.08, 0.12),
}
EXPECTED_EXPONENTS = {0.0: 1.0, 0.5: 2.0}
TOLERANCE = 0.15
SEEDS = (0, 1)
FUNCTIONS = tuple(
    (r, k) for k in (4, 8, 16, 24) for r in sorted({1, 2, k // 4, k // 2}) if 2 * r - 1 < k
)
NUM_FEATURES, NUM_ROWS, FUNCTION_EPSILON, FUNCTION_ROUNDS = 40, 2000, 0.01, 1024
WEIGHTED_SIZES, NUM_WEIGHTED = (8, 16, 24), 4  # k, and functions drawn of each k
NUM_DRAWS, LEMMA_FEATURES = 2000, 9


class OracleState(NamedTuple):
    """What the oracle needs."""

    labels: Array  # [m]
    key: Array


@learners.register
@dataclasses.dataclass(frozen=True)
class Oracle:
    """Answers each time with a false-positive weight tau / (1 - tau) times the false-negative one,
    and an error of 1/2 - gamma.

    Examples to be got wrong are drawn in random order while they fit in, so that the error is never
    greater, nor the share.
    """

    tau: Any
    gamma: Any

    def init(self, key: Array, dataset: Dataset) -> OracleState:
        return OracleState(dataset.labels, key)

    def propose(self, state: OracleState, example_weights: Array) -> Proposal:
        key, now = jax.random.split(state.key)
        order = jax.random.permutation(now, example_weights.shape[0])
        weights, labels = example_weights[order], state.labels[order]
        total = jnp.sum(weights)
        miss_positive, lost = _fill(
            jnp.where(labels > 0, weights, 0.0), (1 - self.tau) * (0.5 - self.gamma) * total
        )
        miss_negative, _ = _fill(
            jnp.where(labels < 0, weights, 0.0), lost * self.tau / (1 - self.tau)
        )
        wrong = miss_positive | miss_negative
        outputs = (
            jnp.zeros_like(weights)
            .at[order]
            .set(jnp.where(wrong, -labels, labels).astype(weights.dtype))[None, :]
        )
        values = jnp.sum(outputs * example_weights * state.labels, axis=1)
        return Proposal(
            jnp.zeros((1,), jnp.int32),
            outputs,
            values,
            jnp.full((), jnp.inf),
            state._replace(key=key),
        )

    def outputs(self, hypothesis: Array, features: Array) -> Array:
        raise ValueError("features are of other examples: the oracle knows its own alone")


def _fill(weights: Array, limit: Array) -> tuple[Array, Array]:
    taken = (jnp.cumsum(weights) <= limit) & (weights > 0)
    return taken, jnp.sum(jnp.where(taken, weights, 0.0))


@jax.jit
def _run_oracle(tau: Array, gamma: Array, key: Array) -> Any:
    labels = jnp.where(jnp.arange(NUM_EXAMPLES) % 2 == 0, 1, -1)
    dataset = make_dataset(jnp.zeros((NUM_EXAMPLES, 1)), labels)
    first = infoboost.init(dataset, Oracle(tau, gamma), key=key, max_rounds=MAX_ROUNDS)

    def goes_on(state: Any) -> Array:
        return (
            (state.certificate.upper_bound > EPSILON)
            & (state.status == first.status)
            & (state.num_rounds < MAX_ROUNDS)
        )

    last = lax.while_loop(goes_on, lambda state: infoboost.step(state, dataset)[0], first)
    return last.trace, last.num_rounds, last.status


def _first(bounds: np.ndarray, epsilon: float) -> int | None:
    below = np.flatnonzero(bounds <= epsilon)
    return int(below[0]) + 1 if below.size else None


def run_oracle(windows: Mapping[float, Sequence[float]], seeds: Sequence[int]) -> dict[str, Any]:
    """Rounds until the training error, and until the product of the normalisers, is EPSILON;
    exponents by least squares.
    """
    records = []
    for (tau, gammas), seed in itertools.product(windows.items(), seeds):
        for gamma in gammas:
            trace, num_rounds, _ = _run_oracle(
                jnp.float32(tau), jnp.float32(gamma), jax.random.key(seed)
            )
            used = int(num_rounds)
            record = {
                "bound": infoboost.rounds_needed(tau, gamma, EPSILON),
                "gamma": gamma,
                "least_gamma_seen": float(np.min(np.asarray(trace.edges)[:used]) / 2),
                "rounds_to_error": _first(np.asarray(trace.lower_bounds), EPSILON),
                "rounds_to_product": _first(np.asarray(trace.upper_bounds), EPSILON),
                "seed": seed,
                "tau": tau,
            }
            records.append(record)
            print(
                f"tau {tau} gamma {gamma}: {record['rounds_to_error']},"
                f" {record['rounds_to_product']} <= {record['bound']}",
                file=sys.stderr,
                flush=True,
            )
    exponents = {}
    for tau in windows:
        mine = [record for record in records if record["tau"] == tau]
        exponents[str(tau)] = {
            what: float(
                np.polyfit(
                    [-math.log(it["gamma"]) for it in mine],
                    [math.log(it[what] or MAX_ROUNDS) for it in mine],
                    1,
                )[0]
            )
            for what in ("rounds_to_error", "rounds_to_product")
        }
    exceeded = sum(
        (record["rounds_to_product"] or MAX_ROUNDS + 1) > record["bound"] for record in records
    )
    return {
        "epsilon": EPSILON,
        "exponents": exponents,
        "num_bound_exceeded": exceeded,
        "records": records,
    }


def make_function_data(r: int, k: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Balanced examples on the two sides next to the border of an r-of-k function; the last feature
    is always true, for a bias.
    """
    rng = np.random.default_rng([seed, r, k])
    labels = np.where(np.arange(NUM_ROWS) % 2 == 0, 1, -1)
    features = rng.random((NUM_ROWS, NUM_FEATURES + 1)) < 0.5
    features[:, :k] = (
        rng.random((NUM_ROWS, k)).argsort(axis=1) < np.where(labels > 0, r, r - 1)[:, None]
    )
    features[:, -1] = True
    return features, labels


def run_functions(functions: Sequence[tuple[int, int]], seeds: Sequence[int]) -> dict[str, Any]:
    """Rounds of InfoBoost and AdaBoost with literals until the training error is FUNCTION_EPSILON;
    None where it never was.
    """
    fits = _fits_of_literals()
    records = []
    for (r, k), seed in itertools.product(functions, seeds):
        dataset = make_dataset(*make_function_data(r, k, seed=seed))
        rho, delta = 1 / k, (2 * r - 1) / k
        rounds = {
            name: _first(np.asarray(fit(dataset).trace.lower_bounds), FUNCTION_EPSILON)
            for name, fit in fits.items()
        }
        records.append(
            {
                "delta": delta,
                "delta_over_rho_squared": delta / rho**2,
                "k": k,
                "r": r,
                "rho": rho,
                "rounds": rounds,
                "seed": seed,
            }
        )
        print(f"{r} of {k}: {rounds}", file=sys.stderr, flush=True)
    return {"epsilon": FUNCTION_EPSILON, "records": records}


def _fits_of_literals() -> dict[str, Any]:
    """InfoBoost and AdaBoost over literals, compiled once for all functions."""
    return {
        name: jax.jit(
            functools.partial(fit, learner=learners.literals(), max_rounds=FUNCTION_ROUNDS)
        )
        for name, fit in (("infoboost", infoboost.fit), ("adaboost", adaboost.fit))
    }


def run_weights(sizes: Sequence[int], num_functions: int) -> dict[str, Any]:
    """Rounds of InfoBoost and AdaBoost with literals on threshold functions with random
    coefficients, until the training error is FUNCTION_EPSILON.

    `bound` is Theorem 2 for the least gamma and the largest tau of the rounds that were needed,
    after the first one; None where a round had a share of false positives above 1/2.
    """
    fits, records = _fits_of_literals(), []
    for k, index in itertools.product(sizes, range(num_functions)):
        key = jax.random.fold_in(jax.random.key(k), index)
        function = synthetic.random_threshold(key, k)
        drawn = synthetic.threshold_examples(key, function, NUM_ROWS, num_features=NUM_FEATURES)
        # The last feature is always true, for a bias.
        features = jnp.pad(drawn.features, ((0, 0), (0, 1)), constant_values=True)
        dataset = make_dataset(features, drawn.labels)
        traces = {name: jax.tree.map(np.asarray, fit(dataset).trace) for name, fit in fits.items()}
        rounds = {
            name: _first(trace.lower_bounds, FUNCTION_EPSILON) for name, trace in traces.items()
        }
        rho, delta = float(function.margin), float(function.bias)
        record = {
            "bound": _bound_of_trace(traces["infoboost"], rounds["infoboost"]),
            "coefficients": function.coefficients.tolist(),
            "delta": delta,
            "delta_over_rho_squared": delta / rho**2,
            "index": index,
            "k": k,
            "rho": rho,
            "rounds": rounds,
            "threshold": int(function.threshold),
        }
        records.append(record)
        print(f"weights, k {k}: {rounds} <= {record['bound']}", file=sys.stderr, flush=True)
    return {"epsilon": FUNCTION_EPSILON, "records": records}


def _bound_of_trace(trace: infoboost.InfoTrace, used: int | None) -> int | None:
    """Theorem 2 for the worst round of a fit; by symmetry 1 - tau where false negatives are rare in
    every round.
    """
    if used is None or used < 2:
        return used
    taus, gammas = trace.taus[1:used], trace.gammas[1:used]
    tau = min(float(taus.max()), float((1 - taus).max()))
    if tau > 0.5:
        return None
    return infoboost.rounds_needed(tau, float(gammas.min()), FUNCTION_EPSILON)


def run_lemma(num_draws: int, *, seed: int) -> dict[str, Any]:
    """The share of random targets and distributions for which a literal meets (i) or (ii) of Lemma
    2, negated literals included.

    Targets sign(a.x + 1 - delta) with a >= 0 of sum 1 (r-of-k, or random integers scaled) and
    0 < delta < 1, the border halfway in a gap of the values of a.x and rho half the gap;
    distributions are Dirichlet draws of every sparseness on each class, half the mass on each.
    """
    rng = np.random.default_rng(seed)
    cube = np.array(list(itertools.product((-1, 1), repeat=LEMMA_FEATURES)))
    literals = np.hstack([cube, -cube])
    drawn = counts_i = counts_ii = either = 0
    while drawn < num_draws:
        integers = np.zeros(LEMMA_FEATURES, int)
        k = int(rng.integers(2, LEMMA_FEATURES + 1))
        integers[:k] = 1 if rng.random() < 0.5 else rng.integers(1, 6, k)
        a = integers / integers.sum()
        levels = np.unique(cube @ integers) / integers.sum()
        gap = int(rng.integers(0, len(levels) - 1))
        delta, rho = 1 + (levels[gap] + levels[gap + 1]) / 2, (levels[gap + 1] - levels[gap]) / 2
        if not 0 < delta < 1:
            continue
        drawn += 1
        scores = cube @ a + 1 - delta
        distribution = np.zeros(len(cube))
        for side in (scores > 0, scores < 0):
            near = side & (np.abs(scores) <= rho + 1e-9) if rng.random() < 0.5 else side
            shares = rng.gamma(10.0 ** rng.uniform(-2, 2), size=near.sum()) + 1e-300
            distribution[near] = shares / shares.sum() / 2
        positive = scores > 0
        fp = distribution[~positive] @ (literals[~positive] > 0)
        fn = distribution[positive] @ (literals[positive] < 0)
        error = fp + fn
        gamma, slack = 0.5 - error, 1e-9
        first = gamma >= rho / (2 * math.sqrt(delta)) - slack
        second = (gamma >= rho / 2 - slack) & (fp <= (2 * (delta - rho) + slack) * error + slack)
        counts_i, counts_ii, either = (
            counts_i + first.any(),
            counts_ii + second.any(),
            either + (first | second).any(),
        )
    return {
        "num_draws": num_draws,
        "share": either / num_draws,
        "share_i": counts_i / num_draws,
        "share_ii": counts_ii / num_draws,
    }


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Rounds over 1 / gamma, and rounds over delta / rho^2."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for tau, exponents in results["oracle"]["exponents"].items():
        mine = [
            record
            for record in results["oracle"]["records"]
            if record["tau"] == float(tau) and record["rounds_to_error"]
        ]
        label = f"tau = {tau}, exponent {exponents['rounds_to_error']:.2f}"
        left.loglog(
            [1 / it["gamma"] for it in mine],
            [it["rounds_to_error"] for it in mine],
            "o",
            label=label,
        )
    left.set(
        xlabel="1 / gamma", ylabel="rounds", title=f"training error {results['oracle']['epsilon']}"
    )
    for name, marker in (("infoboost", "o"), ("adaboost", "x")):
        mine = [record for record in results["functions"]["records"] if record["rounds"][name]]
        right.loglog(
            [it["delta_over_rho_squared"] for it in mine],
            [it["rounds"][name] for it in mine],
            marker,
            label=name,
        )
    right.set(
        xlabel="delta / rho²",
        ylabel="rounds",
        title=f"r of k, training error {results['functions']['epsilon']}",
    )
    left.legend()
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def rounds_table(results: Mapping[str, Any]) -> str:
    """The rows of README: rounds of r-of-k functions, under the exponents."""
    exponents = "; ".join(
        f"tau = {tau}: {it['rounds_to_error']:.2f}"
        for tau, it in results["oracle"]["exponents"].items()
    )
    by_function: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in results["functions"]["records"]:
        by_function.setdefault(
            (f"{record['r']} of {record['k']}", f"{record['delta_over_rho_squared']:.0f}"), []
        ).append(record["rounds"])
    rows = [
        (
            *function,
            *(
                " / ".join(str(rounds[name] or "not reached") for rounds in seeds)
                for name in ("infoboost", "adaboost")
            ),
        )
        for function, seeds in by_function.items()
    ]
    text = (
        "Rounds of InfoBoost grow like a power of 1 / gamma; the exponents measured are"
        f" {exponents}. Lemma 2's literal was found in {results['lemma']['share']:.1%} of"
        f" {results['lemma']['num_draws']} draws. Rounds to a training error of"
        f" {results['functions']['epsilon']} on r-of-k functions, with literals, one number for"
        " each seed:"
    )
    return "\n\n".join(
        (
            text,
            harness.markdown_table(("function", "delta / rho²", "InfoBoost", "AdaBoost"), rows),
            "The same for threshold functions with random coefficients. The bound is Theorem 2 for"
            " the worst tau and gamma of the fit.",
            _weights_table(results["weights"]["records"]),
        )
    )


def _weights_table(records: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{record['threshold']} of {sum(record['coefficients'])}, k = {record['k']}",
            f"{record['delta_over_rho_squared']:.0f}",
            *(str(record["rounds"][name] or "not reached") for name in ("infoboost", "adaboost")),
            str(record["bound"] or "none"),
        )
        for record in records
    ]
    return harness.markdown_table(
        ("function", "delta / rho²", "InfoBoost", "AdaBoost", "bound"), rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.infoboost_rounds", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few and easy cases, into benchmarks-out: for trying it out",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default benchmarks/results")
    options = parser.parse_args(arguments)
    windows = {0.0: (0.06, 0.08), 0.5: (0.12, 0.16)} if options.quick else WINDOWS
    seeds = SEEDS[:1] if options.quick else SEEDS
    results = {
        "lemma": run_lemma(100 if options.quick else NUM_DRAWS, seed=SEEDS[0]),
        "oracle": run_oracle(windows, seeds),
        "functions": run_functions(FUNCTIONS[:2] if options.quick else FUNCTIONS, seeds),
        "weights": run_weights(
            WEIGHTED_SIZES[:1] if options.quick else WEIGHTED_SIZES,
            1 if options.quick else NUM_WEIGHTED,
        ),
    }
    directory = options.output or (harness.TRIALS if options.quick else harness.RESULTS)
    path = harness.write("infoboost_rounds", results, directory)
    plot(results, directory / "infoboost_rounds.png")
    print(f"wrote {path.name} and infoboost_rounds.png", file=sys.stderr)
    measured = results["oracle"]["exponents"]
    failures = [
        f"tau = {tau}: exponent {measured[str(tau)]['rounds_to_error']:.2f}, {wanted:g} expected"
        for tau, wanted in EXPECTED_EXPONENTS.items()
        if not options.quick and abs(measured[str(tau)]["rounds_to_error"] - wanted) > TOLERANCE
    ]
    if results["oracle"]["num_bound_exceeded"]:
        failures.append(
            f"Theorem 2's bound was exceeded {results['oracle']['num_bound_exceeded']} times"
        )
    if results["lemma"]["share"] < 1:
        failures.append(
            f"Lemma 2's literal was found in {results['lemma']['share']:.2%} of draws only"
        )
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
