"""Many small problems of one shape through one compiled program."""

import functools

import jax
import numpy as np

_PER_CALL = 200


def few_at_once(solve, problems, together=10):
    """Results [s, ...] of `solve` for each of the problems [s, ...], to be traced: under vmap all
    wait for the hardest, here it holds up few.
    """
    count = jax.tree.leaves(problems)[0].shape[0]
    # filled with the first problems again, so that one program serves
    rows = np.arange(-(-count // together) * together) % count
    groups = jax.tree.map(lambda leaf: leaf[rows.reshape(-1, together)], problems)
    results = jax.lax.map(jax.vmap(solve), groups)
    return jax.tree.map(lambda leaf: leaf.reshape(len(rows), *leaf.shape[2:])[:count], results)


@functools.cache
def _compiled(solve, options):
    def one(problem):
        points, labels, weights, mask = problem
        return solve(points, labels, weights=weights, mask=mask, **dict(options))

    return jax.jit(functools.partial(few_at_once, one))


def solve_batch(solve, points, labels, weights, mask, **options):
    """Results [s, ...] of `solve(points, labels, weights=weights, mask=mask, **options)` for arrays
    [s, ...], on the host.
    """
    size = len(labels)
    rows = np.arange(-(-size // _PER_CALL) * _PER_CALL) % size  # the last call is filled likewise
    arrays = [np.asarray(array)[rows] for array in (points, labels, weights, mask)]
    run = _compiled(solve, tuple(sorted(options.items())))
    calls = range(0, len(rows), _PER_CALL)
    results = [
        jax.device_get(run(tuple(array[first : first + _PER_CALL] for array in arrays)))
        for first in calls
    ]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:size], *results)
