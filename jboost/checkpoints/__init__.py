"""Runs that may be stopped and go on: the state of a loop on the disk, by orbax (the extra
`checkpoints`).

    initial = jboost.checkpoints.latest(folder, like, data=dataset)  # None at first
    with jboost.checkpoints.Checkpointer(folder, data=dataset, initial=initial) as checkpointer:
        fitted = jboost.lpboost.fit(dataset, learner, on_step=checkpointer, initial=initial)

`fit` does this for the boosters in one call. A checkpoint knows the data, the options, the
algorithm and the version that it is of: one of another run is refused with the names of what
differs. A resumed run ends in the same bits as one that was not stopped, with the same versions of
jboost and JAX on the same kind of device.
"""

from jboost.checkpoints.checkpointer import Checkpointer, fit, latest, restore

__all__ = ["Checkpointer", "fit", "latest", "restore"]
