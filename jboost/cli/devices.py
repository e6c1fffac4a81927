"""The device of a command: the requested one, or the CPU for small tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax

AUTO = "auto"
NAMES = (AUTO, "cpu", "gpu", "tpu")
# Smallest number of table entries for which an accelerator saves time. Compared with the CPU of the
# same machine, fits on an H100 took 3 to 9 times as long for 569 x 30 and a tenth of the time for
# 3,000 x 200.
_FEWEST_ENTRIES = 1 << 16


def choose(name: str, num_rows: int, num_columns: int) -> str:
    """Sets the default device of JAX and returns its platform.

    Args:
      name: one of `NAMES`. "auto" is the CPU for small tables, if JAX has it, and otherwise the
        default of JAX.
      num_rows: the number of rows of the table.
      num_columns: the number of columns of the table.

    Raises:
      ValueError: if JAX does not have the platform on this machine. The message lists the available
        ones.
    """
    if name == AUTO:
        is_small = num_rows * num_columns < _FEWEST_ENTRIES
        name = "cpu" if is_small and _has("cpu") else jax.default_backend()
    try:
        device = jax.devices(name)[0]
    except RuntimeError as error:
        raise ValueError(
            f"device is {name}, and JAX finds none on this machine: choose"
            f" {' or '.join(_present())}, or auto"
        ) from error
    jax.config.update("jax_default_device", device)
    return name


def _has(name: str) -> bool:
    """Whether JAX has a platform; with JAX_PLATFORMS=cuda, say, it has no CPU."""
    try:
        return bool(jax.devices(name))
    except RuntimeError:
        return False


def _present() -> list[str]:
    return [jax.devices(name)[0].platform for name in NAMES[1:] if _has(name)]


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restores the default device of JAX at the end of the context."""
    config: Any = jax.config
    before = config.jax_default_device
    try:
        yield
    finally:
        jax.config.update("jax_default_device", before)
