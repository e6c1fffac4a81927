"""Checkpoints: the state of a loop is saved on disk with orbax (the extra `checkpoints`), so that a
run can be stopped and resumed.

    initial = jboost.checkpoints.latest(folder, like, data=dataset)  # None at first
    with jboost.checkpoints.Checkpointer(folder, data=dataset, initial=initial) as checkpointer:
        fitted = jboost.lpboost.fit(dataset, learner, on_step=checkpointer, initial=initial)

`fit` does this for the boosters in one call. A checkpoint stores a fingerprint of the data, the
options, the algorithm and the version of its run. A checkpoint of another run is refused with a
message that names the differences. The result of a resumed run is bitwise equal to that of a run
that was not stopped, with the same versions of jboost and JAX on the same kind of device.
"""

from jboost.checkpoints.checkpointer import Checkpointer, fit, latest, restore

__all__ = ["Checkpointer", "fit", "latest", "restore"]
