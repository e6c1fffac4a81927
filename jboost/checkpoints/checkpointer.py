"""An `on_step` that saves the state, and functions that restore it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jboost import drive, slipper
from jboost.base import check, processes
from jboost.base.boosting import Fit
from jboost.base.loops import OnStep
from jboost.base.types import Dataset
from jboost.checkpoints import fingerprint, states, storage
from jboost.checkpoints.states import Described
from jboost.checkpoints.storage import Store

_POLL_SECONDS = 0.05  # between two questions whether all processes have written; not tuned


class Checkpointer:
    """An `on_step` that saves the state of a loop at regular intervals, and at the end.

    A checkpoint is written in the background and appears under its name when it is complete. The
    state of the last step is saved when the `with` block ends, also after Ctrl-C and after an
    error. To save it after SIGTERM, end the loop by `jboost.drive.StopOnSigterm`.

    With several processes, each makes a `Checkpointer` and calls it after the same steps. An error
    of the disk in one of them is raised in all. Of a block that ends with an exception nothing is
    saved, because the other processes may not have ended it.

    Args:
      folder: a folder for the checkpoints of this run only; created if it does not exist.
      data: the data of the run, a `Dataset` or any pytree of arrays. A digest of each array is
        stored.
      options: by name, the options that the result depends on and that the state does not contain:
        numbers, strings, arrays, records. The state of a booster contains the booster, the learner
        and `max_rounds`, so None is allowed. For other states None is refused; pass {} if there are
        no options.
      initial: the state from which the loop continues, as `latest` returned it; None for a new run.
        A new run cannot use a folder with checkpoints, so that no checkpoint is overwritten.
      every_seconds: the least time between two checkpoints; 0 to begin one as soon as the previous
        one is on disk.
      keep: the number of checkpoints that are kept, the newest ones.

    Raises:
      ValueError: for a folder that contains other files, a folder with checkpoints of another run
        or without `initial`, arguments that are not allowed, or a missing package.
      OSError: naming the folder, and with several processes those that failed, if a checkpoint
        cannot be written. It is raised at the save or at the next step.

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
        _validate(data, options, every_seconds, keep)
        self._options, self._seconds = options, every_seconds
        self._data = fingerprint.digest(data)
        if not self._data:
            raise ValueError(
                "data is empty: expected the Dataset of the run, or a pytree with all its arrays"
            )
        self.folder = processes.together(lambda: storage.prepare_folder(folder))
        self._store = Store(self.folder, keep=keep)
        try:
            saved = self._store.numbers
            if saved and initial is None:
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
        self._number = saved[0] + 1 if saved else 0
        self._unsaved: Any = None
        self._due = time.monotonic() + every_seconds
        self._is_usable = True

    def __call__(self, state: Any, info: Any = None) -> bool:
        """Saves the state if a checkpoint is due. Returns True, so that the loop continues.

        A step without a state (None) saves nothing, such as one of the first vote of
        `jboost.l0.fit_large`.
        """
        del info
        self._require_usable()
        is_due = time.monotonic() >= self._due and not self._store.is_writing
        # One collective a step for both questions.
        error = _error_of(self._store.check)
        every = processes.flags(is_due, error is not None)
        if every[:, 1].any():
            self._guard(lambda: _raise(error))
        if state is None:
            return True
        self._unsaved = state
        if every[0, 0]:
            self._begin(state)
        return True

    def save_now(self, state: Any) -> None:
        """Saves a state, and returns when it is on disk."""
        self._require_usable()
        self._begin(state)
        self._wait()

    def close(self) -> None:
        """Saves the last state if it is not yet saved, and waits until it is on disk."""
        if not self._is_usable:
            return
        try:
            self._wait()
            if self._unsaved is not None:
                self.save_now(self._unsaved)
        finally:
            if self._is_usable:
                self._is_usable, self._unsaved = False, None
                self._store.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None and jax.process_count() > 1:
            # The other processes may be at another step: a save would wait for them.
            self._is_usable, self._unsaved = False, None
            return
        self.close()

    def _begin(self, state: Any) -> None:
        described = Described(state)
        arrays = states.to_store(described.arrays)
        # First what may fail in one process alone; orbax makes collectives.
        self._guard(lambda: self._store.check_disk(arrays))
        self._guard_own(lambda: self._store.write(self._number, arrays, self._make(described)))
        self._number, self._unsaved, self._due = (
            self._number + 1,
            None,
            time.monotonic() + self._seconds,
        )

    def _make(self, described: Described) -> dict[str, Any]:
        return _make(described, self._data, self._options)

    def _wait(self) -> None:
        """Waits until the last checkpoint is on disk, or until any process has an error. A process
        that waited for orbax alone would wait minutes for one that failed.
        """
        while jax.process_count() > 1:
            error = _error_of(self._store.check)
            every = processes.flags(self._store.is_writing, error is not None)
            if every[:, 1].any():
                self._guard(lambda own=error: _raise(own))  # type: ignore[misc]
            if not every[:, 0].any():
                break
            time.sleep(_POLL_SECONDS)
        self._guard(self._store.wait)

    def _guard(self, work: Any) -> None:
        """Calls `work`, which uses the disk, in all processes. An error of any is raised in all,
        and nothing is saved any more.
        """
        self._guard_own(lambda: processes.together(work))

    def _guard_own(self, work: Any) -> None:
        """As `_guard`, for work that is collective itself: each process raises its own error."""
        try:
            work()
        except OSError:
            self._is_usable, self._unsaved = False, None
            if jax.process_count() == 1:
                self._store.close()  # with several processes it would wait for the others
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
    """The newest complete state in a folder, as from `restore`; None if there is no checkpoint or
    no folder.

    Arguments and errors are those of `restore`.

    >>> import jboost, tempfile
    >>> dataset = jboost.make_dataset([[0.0], [1.0]], [1, -1])
    >>> like = jboost.adaboost.init(dataset, jboost.learners.stumps(), max_rounds=3)
    >>> latest(tempfile.mkdtemp(), like, data=dataset) is None
    True
    """
    check.on_host("jboost.checkpoints.latest", instead="nothing is read under these", data=data)
    # Agreed, so that no process creates the folder while another one looks for it.
    path = processes.together(lambda: storage.check_folder(folder))
    if not processes.flags((path / storage.MARK).exists()).all():
        return None
    store = Store(path)
    try:
        saved = store.numbers
        digest = fingerprint.digest(data) if saved else {}
        for number in saved:
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
    if saved:
        raise ValueError(
            f"{folder}: none of the {len(saved)} checkpoints can be read: see that the disk is"
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
    """The newest complete state in a folder. A checkpoint that cannot be read is skipped, and the
    one before it is tried.

    Args:
      folder: the folder that a `Checkpointer` wrote to.
      like: a state of the same fit, as its `init` returns it, for the structure, dtypes and
        shardings; or the type of the state, such as `jboost.pair.BranchAndBoundState`, if its
        shapes change from step to step. Fields that are None in `like`, such as `checksums`, are
        those of the state that was saved.
      data: the data of this run. Its digest must equal that of the run that wrote the checkpoint.
      options: the options that were passed to `Checkpointer`.

    Returns:
      The state, to be passed as `initial=` to the same fit, or to its `step`. The booster and the
      learner are those of `like`.

    Raises:
      ValueError: if there is no checkpoint; or for a checkpoint of other data, other options,
        another algorithm, another format, or another minor version of jboost. The message names all
        differences and what to do. Another version of JAX is allowed, but may round differently.

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
    """A boosting fit that continues from the newest checkpoint in a folder, if there is one, and
    saves checkpoints.

    The host runs the loop, one compiled round at a time. The result is bitwise the same, however
    often the run was stopped. It is also bitwise equal to that of `method.fit` with an `on_step`.
    Without an `on_step`, `method.fit` is a single program, which usually rounds in the same way;
    the one of `l0` does not.

    Args:
      method: a module with `init` and `fit`: `jboost.adaboost`, `infoboost`, `relaxed_margin`,
        `lpboost`, `l0` or `slipper`.
      dataset: of m examples.
      learner: the learner, which proposes hypotheses.
      folder: as for `Checkpointer`.
      every_seconds: as for `Checkpointer`.
      keep: as for `Checkpointer`.
      on_step: called after each round in addition, as in `method.fit`.
      **options: of `method.init` and `method.fit`. `slipper` needs `num_rounds`, or `num_folds` for
        cross-validation.

    Raises:
      ValueError: the errors of `method.fit`, `Checkpointer` and `restore`.
      OSError: the errors of `Checkpointer`.

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
    if not (hasattr(method, "init") and hasattr(method, "fit")):
        raise ValueError(
            f"method is {getattr(method, '__name__', method)!r}, which has no init and fit:"
            " expected a module such as jboost.adaboost; for other loops see"
            " jboost.checkpoints.Checkpointer"
        )
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


def _validate(data: Any, options: Any, every_seconds: Any, keep: Any) -> None:
    """Raises ValueError, naming the argument of `Checkpointer`, unless it is as described there."""
    check.on_host(
        "jboost.checkpoints.Checkpointer",
        instead="nothing is saved under these",
        data=data,
        every_seconds=every_seconds,
    )
    if not (isinstance(every_seconds, int | float | np.number) and every_seconds >= 0):
        raise ValueError(f"every_seconds is {every_seconds!r}: expected a number from 0 up")
    check.count("keep", keep, low=1)
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(
            f"options is a {type(options).__name__}: expected the options by name, as"
            ' {"margin": 0.1}, or None'
        )


def _make(
    described: Described, data: Mapping[str, str], options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The fingerprint of a state, with the options and the data of the caller."""
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
    """The state of a checkpoint; None if its arrays cannot be read. Raises ValueError if it belongs
    to another run.
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
    """Raises ValueError if the checkpoints of a folder belong to another run."""
    for number in store.numbers:
        found = store.read_fingerprint(number)
        if found is not None:
            fingerprint.check_version(found, folder)
            fingerprint.check_run(found, wanted, folder)
            return


def _error_of(work: Callable[[], None]) -> OSError | None:
    try:
        work()
    except OSError as error:
        return error
    return None


def _raise(error: OSError | None) -> None:
    if error is not None:
        raise error
