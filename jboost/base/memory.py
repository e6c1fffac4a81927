"""Memory sizes, for checks that refuse a computation before it runs out of memory."""

from __future__ import annotations

import os

from jboost.base import devices

# Bytes assumed where a device or system reports none. A round number; not tuned.
_DEFAULT_BYTES = 16 << 30


def of_device() -> int:
    """The bytes of memory of the default device; for a CPU those of the machine."""
    device = devices.default()
    stats = device.memory_stats()
    if stats is not None and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return of_machine() if device.platform == "cpu" else _DEFAULT_BYTES


def of_machine() -> int:
    """The bytes of the machine's memory, free or used."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # the system does not report it
        return _DEFAULT_BYTES
