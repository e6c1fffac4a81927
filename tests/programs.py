"""Programs of all public algorithms on a dozen examples, to be traced: a name, and a function of
arrays with the arrays.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jboost
from contract import CERTIFIED, TABLE, bits
from jboost import learners, lp, operators, projections, relaxations


def _of_fit(fit, learner, **options):
    return lambda data, labels, weights, mask: fit(
        jboost.make_dataset(data, labels, weights=weights, mask=mask), learner, **options
    )


def _of_margins(relaxation):
    return lambda data, labels, *_: jboost.relaxed_margin.solve(
        labels[:, None] * (2 * data - 1), relaxation, tolerance=1e-2
    )


def _of_rows(config):
    def solve(data, labels, weights, mask):
        room = jnp.full(labels.shape, -jnp.inf)
        program = lp.LinearProgram(
            labels[:4] * 1.0, operators.dense(data), room, weights, -jnp.ones((4,)), jnp.ones((4,))
        )
        return lp.solve(program, config=config)

    return solve


def _of_weights(method):
    return lambda data, labels, weights, mask: projections.kl_projection_capped_simplex(
        labels * weights, 0.2, method=method
    )


PLAIN = bits(1, 12)
RELAXATIONS = {
    "hard": relaxations.hard_margin(),
    "ball": relaxations.norm_ball(2, 0.5),
    "penalty": relaxations.norm_penalty(2, 0.5),
    "largest": relaxations.norm_penalty(np.inf, 0.5),
    "entropy": relaxations.binary_entropy(0.3, 1.0),
}
PROGRAMS = {
    **{entry.name: (entry.run, entry.problem(1, 12)) for entry in TABLE},
    **{entry.name: (entry.run, PLAIN) for entry in CERTIFIED if entry.traceable},
    "adaboost.fit": (_of_fit(jboost.adaboost.fit, learners.stumps(), max_rounds=5), PLAIN),
    "infoboost.fit": (_of_fit(jboost.infoboost.fit, learners.stumps(), max_rounds=5), PLAIN),
    "combine.pairwise.fit": (
        _of_fit(jboost.combine.pairwise.fit, learners.stumps(), max_rounds=5),
        PLAIN,
    ),
    "slipper.fit": (
        lambda *data: jboost.slipper.fit(jboost.make_dataset(*data[:2]), key=jax.random.key(0)),
        PLAIN,
    ),
    **{
        f"relaxed_margin.solve, {name}": (_of_margins(relaxation), PLAIN)
        for name, relaxation in RELAXATIONS.items()
    },
    **{
        f"lp.solve, {type(it).__name__}": (_of_rows(it), PLAIN)
        for it in (lp.FirstOrderConfig(), lp.InteriorPointConfig())
    },
    **{f"projections, {method}": (_of_weights(method), PLAIN) for method in ("sort", "newton")},
}
