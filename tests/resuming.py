"""Runs that stop at a step and go on from the state of that step."""

import jax

import jboost
from jboost import checkpoints, drive
from jboost.checkpoints import fingerprint


def bits(tree):
    """The bytes of all leaves, by name."""
    named = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path): (str(leaf.dtype), fingerprint.on_host(leaf).tobytes())
        for path, leaf in named
        if hasattr(leaf, "dtype")
    }


def stop_after(steps):
    """An `on_step` that ends the loop after so many steps."""
    seen = []
    return lambda state, info: seen.append(state) or len(seen) < steps


def goes_on_from_every_step(run, kind, folder):
    """Stops `run(on_step=, initial=)` after each of its steps but the last, goes on from the
    checkpoint of that step, of a type, and compares the bits with those of the whole run. Returns
    the stopped results and the states.
    """
    seen = []
    whole = run(on_step=lambda state, info: seen.append(state), initial=None)
    assert len(seen) > 1
    stopped = []
    for number in range(1, len(seen)):
        place, told = folder / str(number), {"data": {"x": jax.numpy.zeros(3)}, "options": {}}
        with checkpoints.Checkpointer(place, **told) as checkpointer:
            watch = drive.all_of(checkpointer, stop_after(number))
            stopped.append(run(on_step=watch, initial=None))
        assert jboost.status.Status(int(stopped[-1].status)).name == "TIME_LIMIT"
        state = checkpoints.restore(place, kind, **told)
        assert bits(state) == bits(seen[number - 1])
        assert bits(run(on_step=None, initial=state)) == bits(whole), number
    assert bits(run(on_step=None, initial=seen[-1])) == bits(whole)
    return whole, stopped, seen
