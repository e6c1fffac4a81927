"""How much memory there is, for what is refused where it needs more."""

from __future__ import annotations

import os

from jboost.base import devices

_WHERE_NOT_KNOWN = 16 << 30


def of_device() -> int:
    """Bytes of the device that computes by default; on a CPU those of the machine."""
    device = devices.default()
    stats = device.memory_stats()
    if stats is not None and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    return of_machine() if device.platform == "cpu" else _WHERE_NOT_KNOWN


def of_machine() -> int:
    """Bytes of the machine's memory, whether free or not."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not known there
        return _WHERE_NOT_KNOWN
