"""Options of the method l0 that contradict each other: what gives way to a flag, and what is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jboost.cli.option import CV, L0, SEARCH
from jboost.cli.precedence import gives_way, named

# The votes that are solutions of the relaxation, of any number of rules.
_SOLUTIONS = ("coefficients", "vertex")
_SPARSE = ("sparse",)  # the default of --vote


def settle(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Replaces values of the configuration file that contradict flags, in `values`.

    Raises:
      ValueError: for other contradictions, and for a search of the margin without a penalty.
    """
    if values["method"] != L0:
        return
    _settle_exact(values, is_flag)
    _settle_solutions(values, is_flag)
    _settle_size(values, is_flag)
    _settle_margin_search(values, is_flag)


def _settle_exact(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """`--exact` has its own vote, of any number of rules."""
    others = [vote for vote in values["vote"] if vote != "sparse"]
    contradicting = {"vote": bool(others), "max_rules": values["max_rules"] is not None}
    for name, contradicts in contradicting.items():
        if values["exact"] > 0 and contradicts:
            if gives_way(name, is_flag, to=("exact",)):
                values[name] = _SPARSE if name == "vote" else None
            elif gives_way("exact", is_flag, to=(name,)):
                values["exact"] = 0.0
            elif name == "vote":
                raise ValueError(
                    "--exact computes the vote of least errors plus costs, but --vote"
                    f" {others[0]} requests another vote: choose one of them"
                )
            else:
                raise ValueError(
                    "--exact computes the best vote of any number of rules, but --max-rules limits"
                    " the number: choose one of them"
                )


def _settle_solutions(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """A vote that is a solution of the relaxation has no given number of rules, and no choice of
    the order.
    """
    vote = next((vote for vote in values["vote"] if vote in _SOLUTIONS), None)
    if vote is None:
        return
    if values["max_rules"] is not None:
        if gives_way("max_rules", is_flag, to=("vote",)):
            values["max_rules"] = None
        elif gives_way("vote", is_flag, to=("max_rules",)):
            values["vote"] = _SPARSE
            return
        else:
            raise ValueError(
                f"--max-rules {values['max_rules']}: --vote {vote} uses all rules of the solution"
                " of the relaxation: omit --max-rules, or use --vote relaxed"
            )
    if values["max_order"] == CV:
        raise ValueError(
            f"{named('max_order', CV, is_flag)}: the order cannot be chosen with"
            f" {named('vote', vote, is_flag)}: give a number to --max-order, or use another --vote"
        )


def _settle_size(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Cross-validation chooses the order and the number of rules among sparse votes only."""
    others = {
        name: value
        for name, value, contradicts in (
            ("exact", f"{values['exact']:g}", values["exact"] > 0),
            ("vote", "relaxed", "relaxed" in values["vote"]),
        )
        if contradicts
    }
    if not others:
        return
    if values["max_rules"] == CV and gives_way("max_rules", is_flag, to=tuple(others)):
        values["max_rules"] = None
    for name in ("max_order", "max_rules"):
        if values[name] == CV:
            given = " and ".join(named(other, others[other], is_flag) for other in others)
            raise ValueError(
                f"{named(name, CV, is_flag)} chooses among sparse votes of l0: omit {given}, or"
                f" give a number to --{name.replace('_', '-')}"
            )


def _settle_margin_search(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """`--margin search` is for one of each option, and needs a penalty, which is for it alone."""
    penalty = values["margin_penalty"]
    if SEARCH not in values["margin"]:
        if penalty is not None and gives_way("margin_penalty", is_flag, to=("margin",)):
            values["margin_penalty"] = None
        elif penalty is not None:
            raise ValueError(
                f"--margin-penalty {penalty:g} is for --margin {SEARCH}: leave it out, or search"
            )
        return
    for name in ("margin", "kappa", "vote"):
        if len(values[name]) > 1:
            flag = f"--{name}"
            where = flag if is_flag.get(name) else f"{name} in the configuration file"
            raise ValueError(
                f"--margin {SEARCH} is for one --margin, one --kappa and one --vote, and"
                f" {len(values[name])} values are given of {where}: give one to {flag}"
            )
    for name in ("max_order", "max_rules"):
        if values[name] == CV:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{named('margin', SEARCH, is_flag)} cannot be combined with"
                f" {named(name, CV, is_flag)}: give a number to {flag}, or to --margin"
            )
    if penalty is None:
        raise ValueError(
            f"--margin {SEARCH} needs the worth of an error in units of the margin: give"
            " --margin-penalty BETA, a number above 1 / rows"
        )


def settle_checkpoint(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """`--checkpoint` is not for a choice among margins, kappas or votes, whose state is not saved.

    The values are those after cv is replaced by its candidates.

    Raises:
      ValueError: if both are flags, or both are of the configuration file.
    """
    if values["method"] != L0 or values["checkpoint"] is None:
        return
    lists = ("margin", "kappa", "vote")
    is_one = all(len(values[name]) == 1 for name in lists)
    if is_one or values["exact"] > 0 or CV in (values["max_order"], values["max_rules"]):
        return
    if gives_way("checkpoint", is_flag, to=lists) and not is_flag.get("resume"):
        values["checkpoint"], values["resume"] = None, False
        return
    raise ValueError(
        f"--checkpoint {values['checkpoint']}: a choice by cross-validation among several"
        " --margin, --kappa or --vote cannot be resumed: use --exact, --max-order cv or"
        " --max-rules cv, or give one of each, or omit --checkpoint"
    )
