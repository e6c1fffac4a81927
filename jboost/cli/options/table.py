"""The table of all options of the command line.

The flags, the keys of a configuration file, the defaults and the help texts are generated from it.
"""

from __future__ import annotations

from jboost.cli.option import METHODS, PAIR, Option
from jboost.cli.options.boosting import LEARNER_OPTIONS, MARGIN_OPTIONS, ROUND_OPTIONS
from jboost.cli.options.classifiers import CLASSIFIER_OPTIONS, SEPARATOR_OPTIONS
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
