"""Default values and limits of options."""

from __future__ import annotations

from jboost.cli.option import L0, SLIPPER

EMBEDDED = "sklearn:"
AUTO = "auto"
NU_OF_NETWORKS = 0.1
MARGINS = (AUTO, 0.05, 0.1, 0.2, 0.4)  # the candidates of --margin cv
ORDERS = {L0: 1, SLIPPER: 16}
ROUNDS, L0_ROUNDS = 100, 30  # a round of l0 adds more columns than a round of other methods
# Arrays are allocated for all rounds, so the number of rounds is bounded. Counts are int32, and
# scikit-learn accepts seeds below 2**32.
MOST_ROUNDS, MOST, LARGEST_SEED = 100_000, 2**31 - 1, 2**32 - 1
