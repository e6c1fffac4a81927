"""The margin rho that Goldberg and Eckstein (2009) take for a number of examples."""

from __future__ import annotations

_TIMES_EXAMPLES = 20.0  # Section 6: rho = 20 / M
# Each rule abstains or votes for one class, and the votes sum to 1. So with a margin above 1/2 no
# vote has examples of both classes right: the best one is that of the larger class. At 1/2 only two
# equal halves do, which the local search may miss.
_MOST = 0.4


def usual_margin(num_examples: float) -> float:
    """Returns 20 / m, at most 0.4.

    >>> usual_margin(200), usual_margin(24)
    (0.1, 0.4)
    """
    return min(_MOST, _TIMES_EXAMPLES / num_examples)
