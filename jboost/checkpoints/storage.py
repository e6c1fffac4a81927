"""The folder of checkpoints, with orbax. A checkpoint is written under a temporary name and then
renamed, so that it is complete or does not exist.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jboost import outputs
from jboost.checkpoints.fingerprint import FORMAT, FORMAT_VERSION

MARK = "jboost-checkpoints.json"
_STATE, _FINGERPRINT = "state", "fingerprint"
_DIGEST = "digest"  # of all other entries of a fingerprint; orbax checks the arrays, but not JSON
_OWN = re.compile(rf"{re.escape(MARK)}|\.{re.escape(MARK)}\..*|[0-9]+(\.orbax-checkpoint-tmp.*)?")
_SPARE = 1 << 20  # bytes that a checkpoint takes in addition to its arrays


def _orbax() -> Any:
    """The orbax package, which is an optional dependency."""
    try:
        import orbax.checkpoint
    except ImportError as error:
        raise ValueError(
            f"checkpoints need the package orbax-checkpoint ({error}): pip install"
            " 'jboost[checkpoints]'"
        ) from None
    return orbax.checkpoint


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder as a path. Raises ValueError if it contains anything other than checkpoints."""
    if not os.fspath(folder):
        raise ValueError("folder is empty: expected the path of a folder for checkpoints")
    path = Path(os.path.abspath(folder))
    if path.exists() and not path.is_dir():
        raise ValueError(
            f"{folder}: is a file: expected a folder for checkpoints, name another path"
        )
    names = [entry.name for entry in path.iterdir()] if path.exists() else []
    others = sorted(name for name in names if not _OWN.fullmatch(name))
    if (names and MARK not in names) or others:
        known = f"{MARK} is missing" if MARK not in names else f"it holds {others[0]}"
        raise ValueError(
            f"{folder}: is a folder with something else than checkpoints in it ({known}): name an"
            " empty or a new folder"
        )
    return path


def prepare_folder(folder: str | os.PathLike[str]) -> Path:
    """Checks the folder by `check_folder` and creates it if necessary. Raises ValueError or
    OSError, naming the folder, if that is not possible.
    """
    path = check_folder(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError("no permission to write")
        if not (path / MARK).exists():
            with outputs.file(path / MARK) as temporary:
                temporary.write_text(
                    json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION}),
                    encoding="utf-8",
                )
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            f"{folder}: no checkpoints can be written there ({reason}): change its permissions, or"
            " name another folder"
        ) from None
    return path


def _digest_of(fingerprint: Mapping[str, Any]) -> str:
    """The SHA-256 of a fingerprint, as JSON."""
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()


class Store:
    """The checkpoints of a folder, numbered from 0."""

    def __init__(self, folder: Path, *, keep: int | None = None) -> None:
        self.folder = folder
        orbax = _orbax()
        self._args = orbax.args
        self._orbax = orbax
        is_writer = keep is not None
        options = orbax.CheckpointManagerOptions(
            max_to_keep=keep,
            create=False,
            cleanup_tmp_directories=is_writer,
            enable_async_checkpointing=is_writer,
        )
        self._manager = orbax.CheckpointManager(folder, options=options)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the complete checkpoints, the newest first."""
        return sorted(self._manager.all_steps(), reverse=True)

    @property
    def is_writing(self) -> bool:
        """Whether the last checkpoint is still being written."""
        return bool(self._manager.is_saving_in_progress())

    def check_disk(self, arrays: Mapping[str, Any]) -> None:
        """Raises OSError if the folder is gone or has no space for a checkpoint."""
        needed = sum(array.nbytes for array in arrays.values()) + _SPARE
        with self._explained():
            if not self.folder.is_dir():
                raise FileNotFoundError("the folder is gone")
            free = shutil.disk_usage(self.folder).free
            if free < needed:
                raise OSError(f"{free} bytes are free, and a checkpoint takes {needed}")

    def write(self, number: int, arrays: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
        """Starts to write a checkpoint, after `check_disk`. The arrays must not change until `wait`
        returns. All processes of a cluster must call it.
        """
        with self._explained():
            args = self._args.Composite(
                **{
                    _STATE: self._args.PyTreeSave(dict(arrays)),
                    _FINGERPRINT: self._args.JsonSave(
                        {**fingerprint, _DIGEST: _digest_of(fingerprint)}
                    ),
                }
            )
            self._manager.save(number, args=args, force=True)

    def check(self) -> None:
        """Raises an error that occurred in the background since the last call."""
        with self._explained():
            self._manager.check_for_errors()

    def wait(self) -> None:
        """Returns when the last checkpoint is on disk."""
        with self._explained():
            self._manager.wait_until_finished()
            self._manager.check_for_errors()

    def read_fingerprint(self, number: int) -> dict[str, Any] | None:
        """The fingerprint of a checkpoint; None if it cannot be read."""
        try:
            restored = self._manager.restore(
                number, args=self._args.Composite(**{_FINGERPRINT: self._args.JsonRestore()})
            )
            found = restored[_FINGERPRINT]
        except Exception:  # for any damage of the files, an earlier checkpoint may be complete
            return None
        if not isinstance(found, dict) or "structure" not in found:
            return None
        # checkpoints of versions before have no digest
        stored = found.pop(_DIGEST, None)
        return found if stored in (None, _digest_of(found)) else None

    def read_arrays(self, number: int, names: Mapping[str, Any]) -> dict[str, Any] | None:
        """The arrays of a checkpoint; None if they cannot be read.

        Args:
          number: of the checkpoint.
          names: the names of the arrays. The value is an array with the required sharding, if the
            array is spread over several processes, or None.
        """
        orbax = self._orbax

        def wanted(like: Any) -> Any:
            if isinstance(like, jax.Array) and not like.is_fully_addressable:
                return orbax.ArrayRestoreArgs(sharding=like.sharding, dtype=like.dtype)
            return orbax.RestoreArgs(restore_type=np.ndarray)

        arguments = {name: wanted(like) for name, like in names.items()}
        try:
            item = self._args.PyTreeRestore(item=dict.fromkeys(names, 0), restore_args=arguments)
            restored = self._manager.restore(number, args=self._args.Composite(**{_STATE: item}))
            return dict(restored[_STATE])
        except Exception:  # as above
            return None

    def close(self) -> None:
        """Waits for checkpoints that are being written, and ends the threads."""
        with contextlib.suppress(Exception):  # errors were raised by `wait`
            self._manager.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Converts disk errors to an OSError that names the folder and what to do. Raises
        RuntimeError for a lost process.
        """
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            raise RuntimeError(
                f"{self.folder}: another process was lost while a checkpoint was written"
                f" ({' '.join(str(error).split())[:300]}): start the job again with the same"
                " folder; it goes on from the last whole checkpoint"
            ) from error
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise OSError(
                f"{self.folder}: the checkpoint could not be written ({reason}): see that the"
                " folder exists, that it may be written to and that its disk has free space, then"
                " go on from the last checkpoint, or name another folder; earlier checkpoints are"
                " as they were"
            ) from error
