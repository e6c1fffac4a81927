"""An `on_step` that saves the state, and what reads it back."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jboost import drive, slipper
from jboost.base import check
from jboost.base.boosting import Fit
from jboost.base.loops import OnStep
from jboost.base.types import Dataset
from jboost.checkpoints import fingerprint, states, storage
from jboost.checkpoints.states import Described
from jboost.checkpoints.storage import Store


class Checkpointer:
    """An `on_step` that saves the state of a loop every so many seconds, and at the end.

    A checkpoint is written in the background and appears under its name when it is whole. The state
    of the last step is saved when the `with` block ends, however it ends: after Ctrl-C and after an
    error too.

    Args:
      folder: for the checkpoints of this run alone; made where there is none.
      data: the data of the run, a `Dataset` or any pytree of arrays. A digest of each array is
        stored.
      options: what the result depends on and the state does not hold, by name: numbers, strings,
        arrays, records. A booster's state holds the booster, the learner and `max_rounds`; None is
        refused for other states. {} says that there is nothing.
      initial: the state that the loop goes on from, as `latest` gave it; None for a run from the
        start, which a folder with checkpoints is refused to: nothing that could be gone on from is
        overwritten.
      every_seconds: between two checkpoints, at least; 0 for one whenever the one before is on the
        disk.
      keep: how many checkpoints are kept, the newest ones.

    Raises:
      ValueError: for a folder with anything else in it, a folder with checkpoints of another run or
        without `initial`, arguments that are not allowed, or a missing package.
      OSError: naming the folder, where a checkpoint cannot be written: at the save, or at the next
        step after it.

    >>> import jboost, tempfile
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> learner, folder = jboost.learners.stumps(), tempfile.mkdtemp()
    >>> with Checkpointer(folder, data=dataset) as checkpointer:
    ...     on_step = jboost.drive.all_of(checkpointer, jboost.drive.time_limit(0.0))
    ...     part = jboost.adaboost.fit(dataset, learner, max_rounds=3, on_step=on_step)
    >>> initial = latest(folder, jboost.adaboost.init(dataset, learner, max_rounds=3), data=dataset)
    >>> fitted = jboost.adaboost.fit(dataset, learner, max_rounds=3, initial=initial)
    >>> int(part.num_rounds), int(fitted.num_rounds)
    (1, 3)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        data: Any,
        options: Mapping[str, Any] | None = None,
        initial: Any = None,
        every_seconds: float = 60,
        keep: int = 2,
    ) -> None:
        check.on_host(
            "jboost.checkpoints.Checkpointer",
            instead="nothing is saved under these",
            data=data,
            every_seconds=every_seconds,
        )
        if not every_seconds >= 0:
            raise ValueError(f"every_seconds is {every_seconds}: expected a number from 0 up")
        check.count("keep", keep, low=1)
        self._options, self._seconds = options, every_seconds
        self._data = fingerprint.digest(data)
        if not self._data:
            raise ValueError(
                "data is empty: expected the Dataset of the run, or a pytree with all its arrays"
            )
        self.folder = storage.prepare_folder(folder)
        self._store = Store(self.folder, keep=keep)
        try:
            numbers = self._store.numbers
            if numbers and initial is None:
                raise ValueError(
                    f"{folder}: holds checkpoints, and this run does not go on from one: pass"
                    " initial=jboost.checkpoints.latest(...) here and to the loop, or name another"
                    " folder"
                )
            if initial is not None:
                described = Described(initial)
                _check_run(self._store, self._make(described), folder)
        except BaseException:
            self._store.close()
            raise
        self._number = numbers[0] + 1 if numbers else 0
        self._unsaved: Any = None
        self._due = time.monotonic() + every_seconds
        self._is_usable = True

    def __call__(self, state: Any, info: Any = None) -> bool:
        """Saves the state if it is time, and returns True: the loop goes on."""
        del info
        self._require_usable()
        self._guard(self._store.check)
        self._unsaved = state
        if _agreed(time.monotonic() >= self._due and not self._store.is_writing):
            self._begin(state)
        return True

    def save_now(self, state: Any) -> None:
        """Saves a state, and returns when it is on the disk."""
        self._require_usable()
        self._begin(state)
        self._guard(self._store.wait)

    def close(self) -> None:
        """Saves the last state, if it is not saved, and waits until it is on the disk."""
        if not self._is_usable:
            return
        try:
            self._guard(self._store.wait)
            if self._unsaved is not None:
                self.save_now(self._unsaved)
        finally:
            self._is_usable, self._unsaved = False, None
            self._store.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def _begin(self, state: Any) -> None:
        described = Described(state)
        arrays = states.to_store(described.arrays)
        self._guard(lambda: self._store.write(self._number, arrays, self._make(described)))
        self._number, self._unsaved, self._due = (
            self._number + 1,
            None,
            time.monotonic() + self._seconds,
        )

    def _make(self, described: Described) -> dict[str, Any]:
        return _make(described, self._data, self._options)

    def _guard(self, work: Any) -> None:
        """Does what may fail at the disk; after a failure nothing is saved any more."""
        try:
            work()
        except OSError:
            self._is_usable, self._unsaved = False, None
            self._store.close()
            raise

    def _require_usable(self) -> None:
        if not self._is_usable:
            raise ValueError("the checkpointer is closed: make another one for another loop")


def latest(
    folder: str | os.PathLike[str],
    like: Any,
    *,
    data: Any,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """The newest state in a folder that is whole, as `restore` gives it; None where there is no
    checkpoint, and no folder.

    Takes and raises what `restore` does.

    >>> import jboost, tempfile
    >>> dataset = jboost.make_dataset([[0.0], [1.0]], [1, -1])
    >>> like = jboost.adaboost.init(dataset, jboost.learners.stumps(), max_rounds=3)
    >>> latest(tempfile.mkdtemp(), like, data=dataset) is None
    True
    """
    check.on_host("jboost.checkpoints.latest", instead="nothing is read under these", data=data)
    path = storage.check_folder(folder)
    if not (path / storage.MARK).exists():
        return None
    store = Store(path)
    try:
        numbers = store.numbers
        digest = fingerprint.digest(data) if numbers else {}
        for number in numbers:
            found = store.read_fingerprint(number)
            state = (
                None
                if found is None
                else _read(store, number, found, like, digest, options, folder)
            )
            if state is not None:
                return state
    finally:
        store.close()
    if numbers:
        raise ValueError(
            f"{folder}: none of the {len(numbers)} checkpoints can be read: see that the disk is"
            " sound, or name another folder"
        )
    return None


def restore(
    folder: str | os.PathLike[str],
    like: Any,
    *,
    data: Any,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """The newest state in a folder that is whole; one that cannot be read is passed over for the
    one before it.

    Args:
      folder: that a `Checkpointer` wrote to.
      like: a state of the same fit, as its `init` makes it, for the structure, dtypes and
        shardings; or the type of the state, as `jboost.pair.BranchAndBoundState`, where its shapes
        change from step to step.
      data: of this run; its digest must be that of the run that wrote the checkpoint.
      options: as `Checkpointer` was given them.

    Returns:
      The state, for `initial=` of the same fit, or for its `step`. The booster and the learner are
      those of `like`.

    Raises:
      ValueError: where there is no checkpoint; for a checkpoint of other data, other options,
        another algorithm, another format, or another minor version of jboost, naming all that
        differs and what to do. Another version of JAX is no reason; XLA may then round otherwise.

    >>> import jboost, tempfile
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> learner, folder = jboost.learners.stumps(), tempfile.mkdtemp()
    >>> state = jboost.adaboost.init(dataset, learner, max_rounds=3)
    >>> with Checkpointer(folder, data=dataset) as checkpointer:
    ...     checkpointer.save_now(jboost.adaboost.step(state, dataset)[0])
    >>> int(restore(folder, state, data=dataset).num_rounds)
    1
    >>> restore(folder, state, data=dataset._replace(labels=-dataset.labels))
    Traceback (most recent call last):
      ...
    ValueError: ...: the checkpoint is of another run: data.labels was int32[4] ... and is ...
    """
    state = latest(folder, like, data=data, options=options)
    if state is None:
        raise ValueError(
            f"{folder}: there is no checkpoint: name the folder that a Checkpointer wrote to, or"
            " start without one (see `latest`)"
        )
    return state


def fit(
    method: Any,
    dataset: Dataset,
    learner: Any,
    *,
    folder: str | os.PathLike[str],
    every_seconds: float = 60,
    keep: int = 2,
    on_step: OnStep | None = None,
    **options: Any,
) -> Fit:
    """A fit by boosting that goes on from the newest checkpoint in a folder, if there is one, and
    saves its own.

    It is driven from the host, one compiled round at a time, and ends in the same bits however
    often it was stopped in between. Those are the bits of `method.fit` with an `on_step`. Without
    one it is a single program, which rounds alike as a rule; that of `l0` does not.

    Args:
      method: a module with `init` and `fit`: `jboost.adaboost`, `infoboost`, `relaxed_margin`,
        `lpboost`, `l0` or `slipper`.
      dataset: of m examples.
      learner: what proposes hypotheses.
      folder: as of `Checkpointer`.
      every_seconds: as of `Checkpointer`.
      keep: as of `Checkpointer`.
      on_step: called after each round too, as of `method.fit`.
      **options: of `method.init` and `method.fit`. `slipper` needs `num_rounds`, or `num_folds` for
        cross-validation.

    Raises:
      ValueError: what `method.fit`, `Checkpointer` and `restore` raise.
      OSError: what `Checkpointer` raises.

    >>> import jboost, tempfile
    >>> dataset = jboost.make_dataset([[0.0], [1.0], [2.0], [3.0]], [1, 1, -1, 1])
    >>> fitted = fit(
    ...     jboost.adaboost,
    ...     dataset,
    ...     jboost.learners.stumps(),
    ...     folder=tempfile.mkdtemp(),
    ...     max_rounds=3,
    ... )
    >>> jboost.predict(fitted.ensemble, dataset.features).tolist()
    [1, 1, -1, 1]
    """
    check.watcher("on_step", on_step)
    if method is slipper and options.get("num_rounds") is None and options.get("num_folds") is None:
        raise ValueError(
            "num_rounds is None: pass it, or num_folds for the number that cross-validation chooses"
        )
    first = method.init(dataset, learner, **options)
    recorded = {"key": options.get("key")}
    initial = latest(folder, first, data=dataset, options=recorded)
    with Checkpointer(
        folder,
        data=dataset,
        options=recorded,
        initial=initial,
        every_seconds=every_seconds,
        keep=keep,
    ) as checkpointer:
        begin = first if initial is None else initial
        fitted: Fit = method.fit(
            dataset, learner, on_step=drive.all_of(checkpointer, on_step), initial=begin, **options
        )
    return fitted


def _make(
    described: Described, data: Mapping[str, str], options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The fingerprint of a state and what the caller says of it."""
    if options is None and not described.options:
        raise ValueError(
            f"options is None, and a {described.algorithm} does not hold the options of its run:"
            ' pass those that the result depends on, as options={"margin": 0.1}, or {} where'
            " there are none"
        )
    return fingerprint.make(
        described.algorithm, {**described.options, **(options or {})}, data, described.structure
    )


def _read(
    store: Store,
    number: int,
    found: Mapping[str, Any],
    like: Any,
    data: Mapping[str, str],
    options: Mapping[str, Any] | None,
    folder: Any,
) -> Any:
    """The state of a checkpoint; None where its arrays cannot be read. Raises ValueError where it
    is of another run.
    """
    fingerprint.check_version(found, folder)
    structure = found["structure"]
    if states.is_type(like):
        if structure.get("type") != states.type_name(like):
            raise ValueError(
                f"{folder}: the checkpoint holds a {structure.get('type')}, and like is"
                f" {states.type_name(like)}: pass that type"
            )
        if options is None:
            raise ValueError(
                "options is None, and like is a type: pass the options that the Checkpointer of"
                f" {folder} was given"
            )
        wanted = fingerprint.make(like.__name__, options, data, structure)
    else:
        wanted = _make(Described(like), data, options)
    fingerprint.check_run(found, wanted, folder)
    like = None if states.is_type(like) else like
    states.check_like(structure, like, folder)
    arrays = {} if like is None else Described(like).arrays
    names = {
        leaf["name"]: arrays.get(leaf["name"])
        for leaf in states.leaves_of(structure)
        if np.prod(leaf["shape"], dtype=int)
    }
    read = store.read_arrays(number, names)
    return None if read is None else states.rebuild(structure, like, read, folder)


def _check_run(store: Store, wanted: Mapping[str, Any], folder: Any) -> None:
    """Raises ValueError where the checkpoints of a folder are of another run."""
    for number in store.numbers:
        found = store.read_fingerprint(number)
        if found is not None:
            fingerprint.check_version(found, folder)
            fingerprint.check_run(found, wanted, folder)
            return


def _agreed(is_due: bool) -> bool:
    """What the first of several processes says: all of them save, or none does."""
    if jax.process_count() == 1:
        return is_due
    from jax.experimental import multihost_utils

    return bool(multihost_utils.broadcast_one_to_all(np.asarray(is_due)))
