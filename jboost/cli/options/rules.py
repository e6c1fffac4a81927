"""Options of rules: their literals, their costs and their number."""

from __future__ import annotations

from jboost.cli.option import ANY_NUMBER, BOOSTERS, CV, L0, SEARCH, SLIPPER, Option
from jboost.cli.options.defaults import AUTO, MARGINS, MOST, ORDERS

RULE_OPTIONS = (
    Option(
        "max_order",
        int,
        None,
        f"Largest number of literals in a rule of l0, slipper or --learner monomials. Default:"
        f" {ORDERS[L0]}; for slipper {ORDERS[SLIPPER]}. For l0, cv: cross-validation chooses 1, 2"
        " or 3, of the sparse vote; orders of more than 4,000,000 rules are left out.",
        methods=(L0, SLIPPER, *BOOSTERS),
        low=1,
        metavar="K",
        words=(CV,),
    ),
    Option(
        "margin",
        float,
        (AUTO,),
        "Margin rho in (0, 1]. A row of smaller margin counts as an error. With more than 0.5 no"
        " vote of rules has rows of both classes right. auto: 20 / rows, at most 0.4. If several"
        " values of --margin, --kappa or --vote are given, cross-validation chooses. cv"
        " stands for the values " + ", ".join(map(str, MARGINS)) + ". search: the margin of largest"
        " rho - BETA times the optimum of the relaxation, with a proven bound (--margin-penalty).",
        methods=(L0,),
        num_values=ANY_NUMBER,
        metavar="RHO",
        low=0,
        high=1,
        low_open=True,
        high_open=False,
        words=(AUTO, CV, SEARCH),
    ),
    Option(
        "margin_penalty",
        float,
        None,
        "Factor BETA of --margin search: the margin that a unit of cost (an error) is worth. Up to"
        " 1 / rows, the largest margin is the best.",
        methods=(L0,),
        low=0,
        low_open=True,
        metavar="BETA",
    ),
    Option(
        "kappa",
        float,
        (1.5,),
        "Cost of the coefficient of a rule, in errors. The literals of the rule cost extra. May be"
        " repeated.",
        methods=(L0,),
        num_values=ANY_NUMBER,
        low=0,
        metavar="COST",
    ),
    Option(
        "cuts",
        ("class_changes", "midpoints", "quantiles"),
        None,
        "Thresholds of numeric columns. class_changes: wherever the class changes (the default of"
        " l0, slipper and --learner literals or monomials). midpoints: between all neighbouring"
        " values."
        " quantiles: at quantiles. By default the other learners use the numbers themselves.",
        methods=(L0, SLIPPER, *BOOSTERS),
    ),
    Option(
        "quantiles",
        int,
        10,
        "Number of parts into which --cuts quantiles divides a column.",
        methods=(L0, SLIPPER, *BOOSTERS),
        low=2,
        high=MOST,
        high_open=False,
        metavar="N",
    ),
    Option(
        "missing",
        ("literal", "none"),
        "literal",
        "literal: a rule may test whether a value is missing. none: a missing value meets no"
        " condition.",
        methods=(L0, SLIPPER, *BOOSTERS),
    ),
    Option(
        "min_separation",
        int,
        None,
        "Keep the smallest set of cuts that separates rows of different classes in at least N"
        " ways; this saves time. By default all cuts are kept. For l0, slipper and --learner"
        " monomials.",
        methods=(L0, SLIPPER, *BOOSTERS),
        low=1,
        high=MOST,
        high_open=False,
        metavar="N",
    ),
    Option(
        "vote",
        ("sparse", "relaxed", "coefficients", "vertex"),
        ("sparse",),
        "Final vote of the rules. sparse: the vote with the least sum of errors and costs."
        " relaxed: the solution of the relaxation, approximated by a dozen rules; it usually has"
        " fewer errors on new rows. coefficients: the solution of the relaxation itself, with all"
        " its rules. vertex: a vertex of the solutions of the relaxation, with few rules. May be"
        " repeated.",
        methods=(L0,),
        num_values=ANY_NUMBER,
    ),
    Option(
        "max_rules",
        int,
        None,
        "Largest number of rules in the vote. Default: 12 for --vote relaxed; no limit for --vote"
        " sparse. cv: cross-validation chooses 2, 4, 8, 12 or 16.",
        methods=(L0,),
        low=1,
        metavar="N",
        words=(CV,),
    ),
    Option(
        "exact",
        float,
        0.0,
        "Continue with branch and cut for at most this many seconds, until no vote has a smaller"
        " sum of errors and costs. Suitable for some hundred rows and short rules.",
        methods=(L0,),
        commands=("fit",),
        metavar="SECONDS",
        low=0,
    ),
    Option(
        "max_columns",
        int,
        1024,
        "Capacity for rules during the search. Memory grows with it. Increase it if the status is"
        " CAPACITY_LIMIT.",
        methods=(L0,),
        low=1,
        metavar="N",
    ),
    Option(
        "capacity",
        int,
        None,
        "Capacity for cuts of pairs. The default suffices for most data. Increase it if the status"
        " is CAPACITY_LIMIT.",
        methods=(L0,),
        low=1,
        metavar="N",
    ),
    Option(
        "max_in_play",
        int,
        128,
        "Largest number of rules that --exact branches on. Increase it if its status is"
        " CAPACITY_LIMIT.",
        methods=(L0,),
        commands=("fit",),
        low=1,
        metavar="N",
    ),
)
