"""The candidates of kappa, margin, vote and size of `--method l0`, and the options that exclude
each other.
"""

from __future__ import annotations

from jboost.cli.l0 import large as l0_large
from jboost.cli.l0.margin_search import MOST_MARGINS
from jboost.cli.option import CV, SEARCH
from jboost.cli.options import AUTO, Settings

_MARGIN_TIMES_ROWS = 20.0  # --margin auto is this over the number of rows, as in the paper
# The votes that are solutions of the relaxation, of any number of rules.
_SOLUTIONS = ("coefficients", "vertex")


def margins(settings: Settings, num_rows: int) -> list[float]:
    """Returns the candidates of rho. "auto" is 20 / m, as in Goldberg and Eckstein (2009)."""
    named = [
        min(1.0, _MARGIN_TIMES_ROWS / num_rows) if value == AUTO else float(value)
        for value in settings.margin
    ]
    return sorted(set(named))


def num_choices(settings: Settings) -> int:
    """Returns the number of candidates: combinations of kappa, margin, vote, order and number of
    rules.
    """
    orders, rules = l0_large.orders(settings), l0_large.numbers_of_rules(settings)
    return (
        len(settings.kappa) * len(settings.margin) * len(settings.vote) * len(orders) * len(rules)
    )


def num_steps(settings: Settings) -> int:
    """Returns the expected number of calls of `on_step` by `fit`.

    The steps of branch and cut are not included, because their number is not known in advance.
    """
    if num_choices(settings) == 1:
        num_margins = MOST_MARGINS if settings.margin == (SEARCH,) else 0
        return num_margins + settings.rounds
    if l0_large.chooses_size(settings):
        return settings.folds * len(l0_large.orders(settings)) + settings.rounds
    return len(settings.kappa) * settings.folds + (settings.rounds if settings.exact > 0 else 0)


def check_checkpoint(settings: Settings) -> None:
    """Raises ValueError if `--checkpoint` is given for a choice whose state cannot be saved."""
    is_saved = settings.exact > 0 or l0_large.chooses_size(settings) or num_choices(settings) == 1
    if settings.checkpoint is not None and not is_saved:
        raise ValueError(
            f"--checkpoint {settings.checkpoint}: a choice by cross-validation among several"
            " --margin, --kappa or --vote cannot be resumed: use --exact, --max-order cv or"
            " --max-rules cv, or give one of each, or omit --checkpoint"
        )


def check_vote(settings: Settings) -> None:
    """Raises ValueError if a vote that is a solution of the relaxation is combined with an option
    that it excludes: `--max-rules` or `--max-order cv`.
    """
    for vote in settings.vote:
        if vote in _SOLUTIONS and settings.max_rules is not None:
            raise ValueError(
                f"--max-rules {settings.max_rules}: --vote {vote} uses all rules of the solution of"
                " the relaxation: omit --max-rules, or use --vote relaxed"
            )
        if vote in _SOLUTIONS and settings.max_order == CV:
            raise ValueError(
                f"--max-order {CV}: the order cannot be chosen with --vote {vote}: give a number,"
                " or use another --vote"
            )
