"""The table of all options of the command line.

The flags, the keys of a configuration file, the defaults and the help texts are generated from it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jboost.cli.option import CV, L0, LPBOOST, METHODS, PAIR, SEARCH, Option
from jboost.cli.options.boosting import LEARNER_OPTIONS, MARGIN_OPTIONS, ROUND_OPTIONS
from jboost.cli.options.classifiers import CLASSIFIER_OPTIONS, SEPARATOR_OPTIONS
from jboost.cli.options.defaults import AUTO, MARGINS, MOST_ROUNDS, ORDERS
from jboost.cli.options.rules import RULE_OPTIONS
from jboost.cli.options.runs import RUN_OPTIONS
from jboost.cli.reading import READING_OPTIONS
from jboost.cli.relaxations import RELAXATION_OPTIONS

OPTIONS = (
    Option(
        "data",
        str,
        None,
        "Data file: .csv, .csv.gz, .tsv, .txt or other text; .parquet or .feather; - for the"
        " standard input. Or an embedded data set: sklearn:breast_cancer, sklearn:wine,"
        " sklearn:digits.",
        metavar="FILE",
    ),
    Option(
        "label",
        str,
        None,
        "Column of the labels. It must have two values, or more with --positive. Required for"
        " files.",
        metavar="COLUMN",
    ),
    *READING_OPTIONS,
    Option(
        "method",
        METHODS,
        PAIR,
        "l0: a small number of readable rules on all columns. pair: the exact optimal combination"
        " of two classifiers; with more than two it is combine. combine: a combination of three or"
        " more classifiers, exact or built from exact pairs. example-weights: a distribution over"
        " the examples, on the numeric columns. slipper: the rules of Cohen and Singer (1999), on"
        " all columns. relaxed-margin, lpboost, adaboost, infoboost: boosting of a learner, on all"
        " columns.",
    ),
    *CLASSIFIER_OPTIONS,
    *LEARNER_OPTIONS,
    *RULE_OPTIONS,
    *ROUND_OPTIONS,
    *RELAXATION_OPTIONS,
    *MARGIN_OPTIONS,
    *SEPARATOR_OPTIONS,
    *RUN_OPTIONS,
)

_PATH_METHODS = (L0, LPBOOST)
_ROUNDS_OF_PATH = 200  # as in the library
# Options of these methods that `jboost path` does not have, and one of `fit` that it has.
_NOT_OF_PATH, _OF_PATH = ("time_limit", "folds", "margin_penalty"), ("holdout",)
# The fields of options that differ in `jboost path`.
_IN_PATH: dict[str, dict[str, Any]] = {
    "method": {
        "kind": _PATH_METHODS,
        "default": L0,
        "help": "l0: few rules for several margins. lpboost: boosting for several values of nu.",
    },
    "max_order": {
        "help": (
            "Largest number of literals in a rule of l0 or --learner monomials. Default:"
            f" {ORDERS[L0]}."
        ),
    },
    "kappa": {
        "help": (
            "Cost of the coefficient of a rule, in errors. The literals of the rule cost extra."
        ),
    },
    "vote": {"help": "Final vote of the rules at each margin; `jboost fit` says what they are."},
    "max_rules": {
        "help": (
            "Largest number of rules in the vote. Default: 12 for --vote relaxed; no limit for"
            " --vote sparse."
        ),
    },
    "margin": {
        "default": (CV,),
        "words": (AUTO, CV),
        "refused": {
            SEARCH: "jboost path does not search the margin: give numbers, auto or cv, or use"
            " jboost fit"
        },
        "help": (
            "Margin rho of the path of l0, in (0, 1]. May be repeated. auto: 20 / rows, at most"
            f" 0.4. cv stands for the values {', '.join(map(str, MARGINS))}."
        ),
    },
    "nu": {
        "help": (
            "Value nu of the path of lpboost, in (0, 1]: the fraction of the weight that may fall"
            " short of the soft margin. May be repeated. Default: cv, which stands for the values"
            " 0.05 and 0.1 to 0.8."
        ),
    },
    "rounds": {
        "default": _ROUNDS_OF_PATH,
        "help": f"Largest number of rounds over the whole path, up to {MOST_ROUNDS}.",
    },
}


def options_of(command: str) -> tuple[Option, ...]:
    """Returns the options of a command."""
    if command != "path":
        return tuple(option for option in OPTIONS if command in option.commands)
    return tuple(
        dataclasses.replace(option, **_IN_PATH.get(option.name, {}))
        for option in OPTIONS
        if option.name not in _NOT_OF_PATH
        and ("evaluate" in option.commands or option.name in _OF_PATH)
        and set(_PATH_METHODS).intersection(option.methods)
    )
