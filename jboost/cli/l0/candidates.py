"""The candidates of kappa, margin, vote and size of `--method l0`."""

from __future__ import annotations

from jboost.cli.l0 import large as l0_large
from jboost.cli.l0.margin_search import MOST_MARGINS
from jboost.cli.option import SEARCH
from jboost.cli.options import AUTO, Settings
from jboost.l0.margins import usual_margin


def margins(settings: Settings, num_rows: int) -> list[float]:
    """Returns the candidates of rho. "auto" is `usual_margin`."""
    named = [usual_margin(num_rows) if value == AUTO else float(value) for value in settings.margin]
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
    return len(settings.kappa) * settings.folds + settings.rounds
