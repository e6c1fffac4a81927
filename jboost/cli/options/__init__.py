"""The options of the command line."""

from jboost.cli.options.defaults import (
    AUTO,
    EMBEDDED,
    L0_ROUNDS,
    MARGINS,
    NU_OF_NETWORKS,
    ORDERS,
    ROUNDS,
)
from jboost.cli.options.settings import Settings
from jboost.cli.options.table import OPTIONS, options_of

__all__ = [
    "AUTO",
    "EMBEDDED",
    "L0_ROUNDS",
    "MARGINS",
    "NU_OF_NETWORKS",
    "OPTIONS",
    "ORDERS",
    "ROUNDS",
    "Settings",
    "options_of",
]
