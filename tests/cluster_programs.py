"""What each process of tests/sharding/test_cluster.py runs: public functions on rows that every
process holds a part of, and on all rows by itself.

    python tests/cluster_programs.py FOLDER NAME...

Process 0 writes FOLDER/results.json: name -> [over all processes, by itself].
"""

import json
import pathlib
import sys

import jax
import numpy as np

import jboost

NUM_EXAMPLES = 32


def rows():
    """Bits and labels that follow two of them, and integer points, the same in every process."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (NUM_EXAMPLES, 4)).astype(np.float32)
    labels = np.where(
        (bits[:, 0] + bits[:, 1] > 0) ^ (rng.random(NUM_EXAMPLES) < 0.1), 1, -1
    ).astype(np.float32)
    points = (rng.integers(-5, 6, (NUM_EXAMPLES, 2)) + labels[:, None]).astype(np.float32)
    return bits, labels, points


def _fit(method, learner, **options):
    def run(bits, labels, mask):
        dataset = jboost.make_dataset(bits, labels, mask=mask)
        fitted = method.fit(dataset, learner(), **options)
        return fitted.certificate.lower_bound, fitted.certificate.upper_bound

    return run


def _margins(solve, *arguments, **options):
    def run(bits, labels, mask):
        both = jax.numpy.concatenate([2 * bits - 1, 1 - 2 * bits], axis=1)
        found = solve(labels[:, None] * both, *arguments, mask=mask, **options)
        return found.lower_bound, found.upper_bound

    return run


def _soft_margin(bits, labels, mask):
    return _margins(jboost.relaxed_margin.solve, jboost.relaxations.soft_margin(nu=0.3))(
        bits, labels, mask
    )


def _relaxation(bits, labels, mask):
    found = jboost.l0.solve_relaxation(
        2 * bits - 1, labels, np.full(4, 0.3, np.float32), margin=0.2, mask=mask
    )
    return found.lower_bound, found.upper_bound


def _separator(points, labels, mask):
    found = jboost.pair.optimal_separator(points, labels, mask=mask)
    return found.loss, found.lower_bound


def _front(points, labels, mask):
    return (jboost.pair.pareto_front(points, labels, mask=mask, max_points=16).losses[0],)


def _monomial(bits, labels, mask):
    found = jboost.monomials.maximum_agreement(
        bits, labels, np.ones(NUM_EXAMPLES, np.float32), max_order=2, mask=mask
    )
    return found.value, found.upper_bound


def _example_weights(bits, labels, mask):
    found = jboost.example_weights.fit(bits, labels, penalty=0.12, radius=4.0, mask=mask)
    return found.lower_bound, found.upper_bound


def _leave_one_out(points, labels, mask):
    return (jboost.pair.leave_one_out(points, labels, mask=mask).error,)


def _slipper(bits, labels, mask):
    dataset = jboost.make_dataset(bits, labels, mask=mask)
    fitted = jboost.slipper.fit(dataset, max_rounds=4, num_rounds=4, key=jax.random.key(0))
    return fitted.certificate.lower_bound, fitted.certificate.upper_bound


def _worst_case(bits, labels, mask):
    found = jboost.losses.solve_worst_case(
        bits[:, 0] - 0.3 * labels, jboost.relaxations.kl_ball(0.2), mask=mask
    )
    return found.value, found.example_weights.max()


def _smoothed(bits, labels, mask):
    both = jax.numpy.concatenate([2 * bits - 1, 1 - 2 * bits], axis=1)
    found = jboost.relaxed_margin.solve_smoothed(
        labels[:, None] * both, jboost.relaxations.soft_margin(nu=0.3), mask=mask
    )
    return found.value, found.coefficients.max()


_SIGNS = jboost.learners.literals
PROGRAMS = {
    "adaboost.fit": _fit(jboost.adaboost, _SIGNS, max_rounds=4),
    "infoboost.fit": _fit(jboost.infoboost, _SIGNS, max_rounds=4),
    "slipper.fit": _slipper,
    "relaxed_margin.fit": _fit(jboost.relaxed_margin, _SIGNS, max_rounds=4),
    "relaxed_margin.solve": _soft_margin,
    "relaxed_margin.solve_smoothed": _smoothed,
    "losses.solve_worst_case": _worst_case,
    "lpboost.fit": _fit(jboost.lpboost, _SIGNS, max_rounds=8, nu=0.3),
    "lpboost.solve": _margins(jboost.lpboost.solve, nu=0.3),
    "l0.fit": _fit(
        jboost.l0, lambda: jboost.learners.monomials(1, kappa=0.5), margin=0.2, max_rounds=10
    ),
    "l0.solve_relaxation": _relaxation,
    "pair.optimal_separator": _separator,
    "pair.leave_one_out": _leave_one_out,
    "pair.pareto_front": _front,
    "monomials.maximum_agreement": _monomial,
    "example_weights.fit": _example_weights,
}


def main(folder, names):
    jboost.sharding.initialize_cluster(timeout=60)
    mesh = jboost.sharding.make_mesh()
    bits, labels, points = rows()
    share = np.array_split(np.arange(NUM_EXAMPLES), jax.process_count())[jax.process_index()]
    found = {}
    for name in names:
        table = points if name.startswith("pair.") else bits
        spread = jboost.sharding.shard_dataset(
            jboost.make_dataset(table[share], labels[share]), mesh
        )
        over_all = PROGRAMS[name](spread.features, spread.labels, spread.mask)
        alone = PROGRAMS[name](table, labels, np.ones(NUM_EXAMPLES, bool))
        found[name] = [
            [float(value) for value in jboost.sharding.gather(part)] for part in (over_all, alone)
        ]
    if jax.process_index() == 0:
        (pathlib.Path(folder) / "results.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
