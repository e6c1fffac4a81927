"""Reports of a run of L0-RBoost.

They contain the rules as text, the rules that cover a row, the certificate, the code length and the
risk bound.

The code length (6) and the risk bound (5) are those of Goldberg and Eckstein (2009), with
ln(1 / delta) instead of the printed ln delta in (5). ||lambda||_0 is the `support`, M the number of
examples, N the number of binary attributes, K the largest number of literals in a rule, and U_k the
rules of k literals.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jboost import l0
from jboost.base import status
from jboost.base.boosting import Ensemble, Fit
from jboost.base.status import Status
from jboost.data import binarization
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping
from jboost.l0 import ExactFit
from jboost.report.bounds import lower_text, upper_text
from jboost.report.monomials import fired, voting

# why the search of the margin ended, by its status
_END_OF_SEARCH = {
    Status.OPTIMAL.name: "the bounds are as near as asked for",
    Status.TIME_LIMIT.name: "ended by the time limit (or interrupted) with the best so far; the"
    " bounds are valid",
}
_FAR = (
    "the bounds are valid, and further apart than asked for; a smaller --tolerance or more --rounds"
    " bring them nearer"
)
DELTA = 0.05  # the risk bound holds with probability 1 - DELTA


@dataclasses.dataclass(frozen=True)
class L0TextRule:
    """One monomial that votes."""

    text: str  # `41.5 < age <= 64.5 and cp != 3`
    label: str  # the class that the rule predicts
    sign: int  # +1 or -1, the same
    coefficient: float
    order: int  # literals
    cost: float  # in errors
    covers_negative: int  # the number of rows of class -1 for which it holds
    covers_positive: int


def describe_rules(
    ensemble: Ensemble,
    binarizer: Binarizer,
    bits: np.ndarray,
    labels: np.ndarray,
    mapping: LabelMapping,
) -> list[L0TextRule]:
    """Returns the rules as text with the numbers of rows they cover, in the order of `voting`.

    Args:
      ensemble: of monomials, concrete.
      binarizer: of the bits that the monomials use.
      bits: [m, N] the training rows.
      labels: [m] -1 or +1.
      mapping: from -1 and +1 to the labels of the user.
    """
    covered = fired(ensemble, bits)
    prices = costs(ensemble, bits)
    rules = []
    for index, slot in enumerate(voting(ensemble)):
        literals, sign = (
            np.asarray(ensemble.hypotheses.literals[slot]),
            int(ensemble.hypotheses.sign[slot]),
        )
        order = int(np.abs(literals).sum())
        rules.append(
            L0TextRule(
                text=binarization.describe_monomial(binarizer, literals),
                label=mapping.to_text(np.array([sign]))[0],
                sign=sign,
                coefficient=float(ensemble.votes[slot, 0]),
                order=order,
                cost=float(prices[order]),
                covers_negative=int((covered[:, index] & (labels < 0)).sum()),
                covers_positive=int((covered[:, index] & (labels > 0)).sum()),
            )
        )
    return rules


def costs(ensemble: Ensemble, bits: np.ndarray) -> np.ndarray:
    """The cost of a monomial by order, in errors, [K + 1]; the first is that of a constant."""
    learner, num_attributes = ensemble.learner, bits.shape[1]
    highest = num_attributes if learner.max_order is None else learner.max_order
    prices = np.asarray(
        learner.cost(np.arange(1, highest + 1), num_attributes, np.float32(len(bits)), highest),
        np.float64,
    )
    return np.concatenate([[float(learner.constant_cost)], prices])


def certificate(fit: Fit) -> dict[str, Any]:
    """The bounds of the relaxation (18), and of errors and costs (15), with an explanation of the
    status. Infinite bounds are None.
    """
    named = ("lower_bound", "upper_bound", "integer_lower_bound", "integer_upper_bound")
    bounds = {name: float(getattr(fit.certificate, name)) for name in named}
    return {
        **{name: value if math.isfinite(value) else None for name, value in bounds.items()},
        "status": status.Status(int(fit.status)).name,
        "explanation": status.explain(fit.status),
    }


def describe_search(found: ExactFit) -> dict[str, Any]:
    """Returns the size and the status of the branch and cut, ready for JSON."""
    named = {"hypotheses": int(found.num_hypotheses), "nodes": int(found.num_nodes)}
    return named | {
        "status": status.Status(int(found.status)).name,
        "explanation": status.explain(found.status),
    }


def search_lines(search: Mapping[str, Any]) -> list[str]:
    """The result of the branch and cut as one line.

    >>> search_lines(
    ...     {"hypotheses": 12, "nodes": 40, "status": "OPTIMAL", "explanation": "OPTIMAL: ..."}
    ... )
    ['search      12 rules in play after reduced costs, 40 nodes: OPTIMAL: ...']
    """
    return [
        f"search      {search['hypotheses']:,} rules in play after reduced costs,"
        f" {search['nodes']:,} nodes: {search['explanation']}"
    ]


def margin_lines(search: Mapping[str, Any]) -> list[str]:
    r"""The best margin that was found, its certificate, and the status of the search.

    >>> print(
    ...     "\n".join(
    ...         margin_lines(
    ...             {
    ...                 "margin": 0.25,
    ...                 "penalty": 0.5,
    ...                 "lower_bound": -1.5,
    ...                 "upper_bound": -1.495,
    ...                 "tried": [{"margin": 0.001}, {"margin": 0.25}],
    ...                 "status": "OPTIMAL",
    ...             }
    ...         )
    ...     )
    ... )
    margin      0.25: -1.5 <= largest margin - 0.5 * relaxation <= -1.495 for margins from 0.001
                2 margins tried: OPTIMAL: the bounds are as near as asked for
    """
    tried = search["tried"]
    return [
        f"margin      {search['margin']:.6g}: {lower_text(search['lower_bound'])} <= largest margin"
        f" - {search['penalty']:g} * relaxation <= {upper_text(search['upper_bound'])} for margins"
        f" from {min(one['margin'] for one in tried):g}",
        f"{'':<12}{len(tried)} margins tried: {search['status']}:"
        f" {_END_OF_SEARCH.get(search['status'], _FAR)}",
    ]


def in_words(bounds: Mapping[str, Any], *, max_order: int | None, margin: float) -> str:
    """Returns one sentence about the bound for all models of this kind.

    Args:
      bounds: the result of `certificate`.
      max_order: K, None for any order.
      margin: rho.

    >>> bounds = {"integer_lower_bound": 40.0, "integer_upper_bound": 42.0}
    >>> in_words(bounds, max_order=2, margin=0.1)
    'no vote of monomials of up to 2 literals with margin 0.1 can cost less than 40 ...'
    """
    literals = (
        "any number of literals"
        if max_order is None
        else f"up to {max_order} literals"
        if max_order > 1
        else "one literal"
    )
    hypotheses = "constants" if max_order == 0 else f"monomials of {literals}"
    kind = f"no vote of {hypotheses} with margin {margin:.4g}"
    lower, upper = bounds["integer_lower_bound"] or 0.0, bounds["integer_upper_bound"]
    if upper is None:
        return "there is no bound: the search stopped before it found a vote"
    if lower <= 0:
        return (
            f"this vote costs {upper_text(upper)} (errors plus costs of rules), and there is no"
            " lower bound for other votes yet: allow more rounds or time"
        )
    known = (
        f"{kind} can cost less than {lower_text(lower)} (errors plus costs of rules); this one"
        f" costs {upper_text(upper)}"
    )
    return (
        f"{known}, and so is the best"
        if upper <= lower
        else f"{known}, so it is within {100 * (upper - lower) / lower:.3g} % of the best"
    )


def code_length(
    orders: Sequence[int],
    *,
    has_constant: bool,
    num_errors: int,
    num_examples: int,
    num_attributes: int,
    max_order: int | None,
) -> dict[str, Any]:
    """The length in bits of the labels by (6), encoded by the model and its errors.

        |lambda|_0 ceil(log2 T) + sum over u with lambda_u > 0 of ceil(log2 |U_k(u)|)
        + (|lambda|_0 + 1) ceil(log2 M) + errors ceil(log2 M)

    T = K + 1 tables: one for each order, and one for the two constants, of order 0.
    |U_k| = 2^(k + 1) C(N, k) is the number of choices of the attributes, their signs and the class.
    (28) does not count the class.

    Args:
      orders: of the rules with a vote.
      has_constant: whether a constant has a vote.
      num_errors: rows with y g(x) <= 0.
      num_examples: M.
      num_attributes: N.
      max_order: K, None for N.

    Returns:
      model, errors and total in bits, and the support.

    >>> code_length(
    ...     [1, 2],
    ...     has_constant=False,
    ...     num_errors=3,
    ...     num_examples=100,
    ...     num_attributes=8,
    ...     max_order=2,
    ... )
    {'support': 2, 'model': 38, 'errors': 21, 'total': 59}
    """
    used = [*orders, *([0] if has_constant else [])]
    highest = num_attributes if max_order is None else max_order
    length = l0.code_length(
        [2 ** (order + 1) * math.comb(num_attributes, order) for order in used],
        num_tables=highest + 1,
        num_examples=num_examples,
        num_errors=num_errors,
    )
    return {
        "support": length.support,
        "model": length.model,
        "errors": length.errors,
        "total": length.total,
    }


def lines(
    model: Mapping[str, Any], mapping: LabelMapping, *, num_shown: int | None = None
) -> list[str]:
    """The rules, the certificate and the bounds, line by line.

    Args:
      model: the result of `jboost.cli.l0.method.describe`.
      mapping: of the labels.
      num_shown: the largest number of rules, None for all.
    """
    bounds, code, rules = model["certificate"], model["code_length"], model["rules"]
    shown = [f"model       {_vote(model, mapping)}"]
    totals = model["rows"]
    for index, rule in enumerate(rules):
        if index == num_shown:
            shown.append(f"            ... and {len(rules) - index} more in the report")
            break
        covers = (
            f"{rule['covers_positive']} of {totals['+1']} {mapping.positive},"
            f" {rule['covers_negative']} of {totals['-1']} {mapping.negative}"
        )
        shown.append(
            f"{'rules' if index == 0 else '':<12}{rule['coefficient']:.4f} {rule['label']} if"
            f" {rule['text']}   [{covers}]"
        )
    missed = (
        f"{model['margin_errors']:.6g} for rows that miss the margin {model['margin']:.4g},"
        f" {model['cost_of_rules']:.6g} for rules"
    )
    shown += [
        f"certificate {model['proven']}",
        f"cost        {upper_text(bounds['integer_upper_bound'])}: {missed}",
        (
            f"relaxation  {lower_text(bounds['lower_bound'])} <= optimum <="
            f" {upper_text(bounds['upper_bound'])}, after {model['num_rounds']} rounds"
        ),
        f"status      of the relaxation: {bounds['explanation']}",
        (
            f"code length {code['total']} bits for {totals['+1'] + totals['-1']} labels:"
            f" {code['model']} for the model, {code['errors']} for its errors"
        ),
        f"risk bound  {_risk(model['risk_bound'])}",
    ]
    return shown + [f"note: {note}" for note in model["notes"]]


def choice_lines(choice: Mapping[str, Any]) -> list[str]:
    r"""The held-out losses of all values of kappa, margin and vote that were tried, and notes on
    those that were not.

    Args:
      choice: the `chosen` kappa, margin and vote; the `losses` of those that were fitted, each with
        the number of its `folds`; the number of `candidates`, and of `folds` for each; the
        `status`, TIME_LIMIT if the choice ended early; and `notes`. The last three may be absent.

    >>> one = {"kappa": 1.5, "margin": 0.1, "vote": "sparse"}
    >>> choice_lines(
    ...     {
    ...         "chosen": one,
    ...         "losses": [one | {"mean": 0.05, "standard_error": 0.01}],
    ...         "candidates": 1,
    ...     }
    ... )
    ['choice      kappa 1.5, margin 0.1, vote sparse: held-out loss 5.00% ± 1.00%, chosen']
    >>> tried = one | {"mean": 0.05, "standard_error": None, "folds": 1}
    >>> early = {"candidates": 2, "folds": 5, "status": "TIME_LIMIT"}
    >>> print("\n".join(choice_lines({"chosen": one, "losses": [tried]} | early)))
    choice      kappa 1.5, margin 0.1, vote sparse: held-out loss 5.00% in 1 of 5 folds, chosen
    note: the choice ended early (time limit or Ctrl-C): 1 of 10 fits, of 2 candidates in 5 folds
    """
    lines = [
        f"{'choice' if index == 0 else '':<12}{_size(row)}kappa {row['kappa']:g}, margin"
        f" {row['margin']:.4g}, vote {row['vote']}: {_loss(row, choice.get('folds', 0))}"
        f"{', chosen' if choice['chosen'].items() <= row.items() else ''}"
        for index, row in enumerate(choice["losses"])
    ]
    lines += [f"note: {note}" for note in choice.get("notes", [])]
    if choice.get("status") == Status.TIME_LIMIT.name:
        num_done = sum(row["folds"] for row in choice["losses"])
        lines.append(
            f"note: the choice ended early (time limit or Ctrl-C): {num_done} of"
            f" {choice['candidates'] * choice['folds']} fits, of {choice['candidates']} candidates"
            f" in {choice['folds']} folds"
        )
    return lines


def _loss(row: Mapping[str, Any], num_folds: int) -> str:
    """The held-out loss of a candidate, and in how many folds it was fitted if not in all."""
    spread = row["standard_error"]
    text = f"held-out loss {row['mean']:.2%}" + ("" if spread is None else f" ± {spread:.2%}")
    done = row.get("folds", num_folds)
    return text if done == num_folds else f"{text} in {done} of {num_folds} folds"


def _size(row: Mapping[str, Any]) -> str:
    """The order and the number of rules of a candidate, if they are chosen too."""
    if "max_order" not in row:
        return ""
    rules = (
        "any number of rules" if row["max_rules"] is None else f"at most {row['max_rules']} rules"
    )
    return f"{row['max_order']} literals, {rules}, "


def explanations(rules: Sequence[Mapping[str, Any]], holds: np.ndarray) -> list[str]:
    """The rules that hold for each row, in one text each.

    Args:
      rules: the result of `describe_rules`, as dictionaries.
      holds: [k, r] the result of `fired`.
    """
    texts = [f"{rule['coefficient']:.4f} {rule['label']} if {rule['text']}" for rule in rules]
    return [
        "; ".join(text for text, is_held in zip(texts, row, strict=True) if is_held)
        for row in holds
    ]


def _vote(model: Mapping[str, Any], mapping: LabelMapping) -> str:
    constant, positive, negative = model["constant"], mapping.positive, mapping.negative
    if not model["rules"]:
        return f"{positive if constant > 0 else negative} always"
    head = f"{positive} where the rules for {positive} that hold outweigh those for {negative}"
    if constant == 0:
        return f"{head}, else {negative}"
    by = (
        f"by more than {-constant:.4g}"
        if constant < 0
        else f"or fall short by less than {constant:.4g}"
    )
    return f"{head} {by}, else {negative}"


def _risk(bound: float) -> str:
    text = f"{bound:.4g} for the error on as many new rows, with probability {1 - DELTA:.4g}"
    return text if bound < 1 else f"{text}: the bound is vacuous"
