"""The device that a command computes on: what was asked for, or the CPU where an accelerator would
only wait for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax

AUTO = "auto"
NAMES = (AUTO, "cpu", "gpu", "tpu")
# Entries of the table from which on an accelerator is worth its start-up. On an H100 beside its
# machine's CPU fits of 569 x 30 took three to nine times as long, of 3,000 x 200 a tenth.
_ENTRIES_WORTH_IT = 1 << 16


def choose(name: str, num_rows: int, num_columns: int) -> str:
    """Has JAX compute on a device from here on, and says which platform it is.

    Args:
      name: of `NAMES`; "auto" is the CPU for small tables, else what JAX takes by default.
      num_rows: of the table.
      num_columns: of the table.

    Raises:
      ValueError: for a platform that this machine, or its JAX, does not have; it names those that
        there are.
    """
    if name == AUTO:
        is_small = num_rows * num_columns < _ENTRIES_WORTH_IT
        name = "cpu" if is_small else jax.default_backend()
    try:
        device = jax.devices(name)[0]
    except RuntimeError as error:
        raise ValueError(
            f"device is {name}, and JAX finds none here: choose {' or '.join(_present())}, or auto"
        ) from error
    jax.config.update("jax_default_device", device)
    return name


def _present() -> list[str]:
    found = []
    for name in NAMES[1:]:
        with contextlib.suppress(RuntimeError):
            found.append(jax.devices(name)[0].platform)
    return found


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """The default device is afterwards what it was before."""
    told: Any = jax.config
    before = told.jax_default_device
    try:
        yield
    finally:
        jax.config.update("jax_default_device", before)
