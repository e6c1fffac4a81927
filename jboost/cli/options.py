"""The table of all options of the command line.

The flags, the keys of a configuration file, the defaults and the help texts are generated from it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jboost import combine
from jboost.cli import devices
from jboost.cli.option import (
    ANY_NUMBER,
    BOOSTERS,
    COMBINE,
    CV,
    EXAMPLE_WEIGHTS,
    L0,
    LPBOOST,
    METHODS,
    PAIR,
    RELAXED_MARGIN,
    SLIPPER,
    SOFT_MARGINS,
    Option,
)
from jboost.cli.reading import READING_OPTIONS
from jboost.cli.relaxations import RELAXATION_OPTIONS

EMBEDDED = "sklearn:"
AUTO = "auto"
NU_OF_NETWORKS = 0.1
MARGINS = (AUTO, 0.05, 0.1, 0.2, 0.4)  # the candidates of --margin cv
ORDERS = {L0: 1, SLIPPER: 16}
ROUNDS, L0_ROUNDS = 100, 30  # a round of l0 adds more columns than a round of other methods
# Arrays are allocated for all rounds, so the number of rounds is bounded. Counts are int32, and
# scikit-learn accepts seeds below 2**32.
_MOST_ROUNDS, _MOST, _LARGEST_SEED = 100_000, 2**31 - 1, 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Settings:
    """The validated values of all options of `fit` and `evaluate`."""

    data: str
    label: str | None
    positive: str | None
    id: str | None
    ignore: tuple[str, ...]
    categorical: tuple[str, ...]
    date: tuple[str, ...]
    separator: str | None
    decimal: str | None
    comment: str | None
    encoding: str | None
    missing_values: str | None
    method: str
    scores: tuple[str, ...] | None
    classifiers: tuple[str, ...] | None
    strategy: str
    learner: str
    max_depth: int
    max_order: Any  # a number, or "cv" for l0
    margin: tuple[float | str, ...]  # numbers or "auto"
    kappa: tuple[float, ...]
    cuts: str
    quantiles: int
    missing: str
    min_separation: int | None
    vote: tuple[str, ...]
    max_rules: Any  # a number, None, or "cv"
    exact: float  # seconds, 0 for none
    max_columns: int
    capacity: int | None
    max_in_play: int
    rounds: int
    time_limit: float | None
    num_rounds: int | str  # a number or "cv"
    rules_for: str
    solver: str
    relaxation: str
    update: str
    order: str
    scale: float | None
    nu: tuple[float | str, ...]  # numbers or "cv"
    penalty: tuple[float | str, ...]  # numbers or "cv"
    validation: float  # 0 for folds
    radius: float | str  # a number or "auto"
    tolerance: float
    train_scores: str
    weights: str | None
    tie_break: str
    fat: str
    loo: bool
    pareto: bool
    precision: str
    device: str
    seed: int
    folds: int
    holdout: float
    checkpoint: str | None
    resume: bool
    output: str
    overwrite: bool


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
    Option(
        "scores",
        str,
        None,
        "Columns of the scores of the classifiers: two for pair, three or more for combine.",
        methods=(PAIR, COMBINE),
        num_values=2,
        metavar="A B",
    ),
    Option(
        "classifiers",
        str,
        None,
        "Base classifiers to train, from forest, knn, lda, logistic, naive-bayes, qda, stump, svm,"
        " tree: two for pair, three or more for combine. Default without --scores: lda naive-bayes;"
        " for combine also forest, knn and svm.",
        methods=(PAIR, COMBINE),
        num_values=2,
        metavar="A B",
    ),
    Option(
        "strategy",
        combine.STRATEGIES,
        "greedy",
        "How pairs are chosen. greedy: the best pair first. hierarchical: by clusters of"
        " classifiers that agree. coordinate: by exact moves in one plane after another. exact: the"
        " optimum, for three classifiers and up to about a thousand rows.",
        methods=(COMBINE,),
    ),
    Option(
        "learner",
        ("stumps", "pool", "literals", "mlp", "trees"),
        "stumps",
        "Hypotheses to boost. stumps: decision stumps. pool: the numeric columns themselves, with"
        " values in [-1, 1]. literals: one hypothesis for each cut and category. mlp: a small"
        " neural network (scale the columns first). trees: decision trees of --max-depth.",
        methods=BOOSTERS,
    ),
    Option(
        "max_depth",
        int,
        2,
        "Depth of --learner trees, 2 to 10. At depth 2 the search finds the best tree, so the"
        " bounds cover all trees of depth 2. Deeper trees are grown greedily.",
        methods=BOOSTERS,
        low=2,
        high=10,
        high_open=False,
        metavar="DEPTH",
    ),
    Option(
        "max_order",
        int,
        None,
        f"Largest number of literals in a rule. Default: {ORDERS[L0]}; for slipper"
        f" {ORDERS[SLIPPER]}. For l0, cv: cross-validation chooses 1, 2 or 3.",
        methods=(L0, SLIPPER),
        low=1,
        metavar="K",
        words=(CV,),
    ),
    Option(
        "margin",
        float,
        (AUTO,),
        "Margin rho in (0, 1]. A row of smaller margin counts as an error. auto: 20 / rows. If"
        " several values of --margin, --kappa or --vote are given, cross-validation chooses. cv"
        " stands for the values " + ", ".join(map(str, MARGINS)) + ".",
        methods=(L0,),
        num_values=ANY_NUMBER,
        metavar="RHO",
        low=0,
        high=1,
        low_open=True,
        high_open=False,
        words=(AUTO, CV),
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
        " l0, slipper and --learner literals). midpoints: between all neighbouring values."
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
        high=_MOST,
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
        " ways; this saves time. By default all cuts are kept.",
        methods=(L0, SLIPPER),
        low=1,
        high=_MOST,
        high_open=False,
        metavar="N",
    ),
    Option(
        "vote",
        ("sparse", "relaxed", "coefficients"),
        ("sparse",),
        "Final vote of the rules. sparse: the vote with the least sum of errors and costs."
        " relaxed: the solution of the relaxation, approximated by a dozen rules; it usually has"
        " fewer errors on new rows. coefficients: the solution of the relaxation itself, with all"
        " its rules. May be repeated.",
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
    Option(
        "rounds",
        int,
        None,
        f"Largest number of hypotheses in boosting (default {ROUNDS}); for l0, of rounds that add"
        f" rules (default {L0_ROUNDS}); for slipper, of rules that --num-rounds cv considers"
        f" (default {ROUNDS}).",
        methods=(L0, *BOOSTERS, SLIPPER),
        low=1,
        high=_MOST_ROUNDS,
        high_open=False,
        metavar="N",
    ),
    Option(
        "num_rounds",
        int,
        CV,
        "Number of rules of slipper. cv: the number with the least loss in cross-validation.",
        methods=(SLIPPER,),
        low=1,
        high=_MOST_ROUNDS,
        high_open=False,
        metavar="N",
        words=(CV,),
    ),
    Option(
        "rules_for",
        ("minority", "positive", "negative"),
        "minority",
        "Class that the rules of slipper predict: the class of less weight, +1, or -1.",
        methods=(SLIPPER,),
    ),
    Option(
        "solver",
        ("simplex", "interior-point", "first-order"),
        "simplex",
        "Solver of the linear programs. simplex: starts from the solution of the previous program"
        " and ends with a small number of hypotheses. interior-point: suits accelerators."
        " first-order: for very many rows.",
        methods=(LPBOOST,),
    ),
    *RELAXATION_OPTIONS,
    Option(
        "nu",
        float,
        None,
        "Fraction of the weight that may fall short of the soft margin, in (0, 1]. With cv or"
        " several values, as in --nu 0.05 --nu 0.2, cross-validation chooses. Default: cv; for"
        f" --learner mlp, whose fits take long, {NU_OF_NETWORKS}.",
        methods=SOFT_MARGINS,
        num_values=ANY_NUMBER,
        metavar="NU",
        low=0,
        high=1,
        low_open=True,
        high_open=False,
        words=(CV,),
    ),
    Option(
        "penalty",
        float,
        (CV,),
        "Cost C of a shortfall from the margin, at least 1 / rows; 1 is the hard margin. With cv"
        " or several values cross-validation chooses.",
        methods=(EXAMPLE_WEIGHTS,),
        num_values=ANY_NUMBER,
        metavar="C",
        low=0,
        low_open=True,
        words=(CV,),
    ),
    Option(
        "validation",
        float,
        0.0,
        "Fraction of the rows on which the penalty is chosen: one split instead of --folds. The"
        " final fit uses the chosen penalty and all rows.",
        methods=(EXAMPLE_WEIGHTS,),
        low=0,
        high=1,
        metavar="FRACTION",
    ),
    Option(
        "radius",
        float,
        AUTO,
        "Half-width R of the cube from which hyperplanes are drawn, in the unit of the columns"
        " (scale them first). auto: the smallest that the rows allow. With --relaxation norm-ball:"
        " the radius of the ball.",
        methods=(EXAMPLE_WEIGHTS, RELAXED_MARGIN),
        low=0,
        low_open=True,
        metavar="R",
        words=(AUTO,),
    ),
    Option(
        "time_limit",
        float,
        None,
        "Seconds from the start of the command, including reading and compilation. After that l0,"
        " slipper, boosting and cross-validation end with the best result so far. A running"
        " compilation or step is completed first. The other methods run as one program and ignore"
        " the limit. Without it l0 ends after --rounds.",
        low=0,
        low_open=True,
        metavar="SECONDS",
    ),
    Option(
        "tolerance",
        float,
        0.01,
        "Gap at which to stop: between the bounds of the soft margin, or for l0 the relative gap"
        " between the bounds of the costs.",
        methods=(L0, *SOFT_MARGINS),
        low=0,
        low_open=True,
        metavar="GAP",
    ),
    Option(
        "train_scores",
        ("out-of-fold", "in-sample"),
        "out-of-fold",
        "Scores of the trained classifiers that the combination is fitted to. out-of-fold: of rows"
        " that were not used in training. in-sample: of the training rows themselves.",
        methods=(PAIR, COMBINE),
    ),
    Option(
        "weights",
        str,
        None,
        "Column with the cost of misclassifying each row, positive. Base classifiers are trained"
        " without it.",
        methods=(L0, PAIR, COMBINE, *BOOSTERS, SLIPPER),
        metavar="COLUMN",
    ),
    Option(
        "tie_break",
        ("margin", "none"),
        "margin",
        "Choice among all optimal separators. margin: the one of largest margin. none: any.",
        methods=(PAIR,),
    ),
    Option(
        "fat",
        ("removed", "flipped"),
        "removed",
        "Margin without the misclassified points (removed), or with their labels flipped"
        " (flipped).",
        methods=(PAIR,),
    ),
    Option(
        "loo",
        bool,
        False,
        "Also report how the best line of all other rows classifies each row (leave-one-out).",
        methods=(PAIR,),
        commands=("fit",),
    ),
    Option(
        "pareto",
        bool,
        False,
        "Also show the Pareto front of misclassified weight and margin.",
        methods=(PAIR,),
        commands=("fit",),
    ),
    Option(
        "precision",
        ("float32", "float64"),
        "float64",
        "Floating-point type of the scores and of the result.",
    ),
    Option(
        "device",
        devices.NAMES,
        devices.AUTO,
        "Device for the computation. auto: the CPU for small tables, where an accelerator is"
        " slower; otherwise the default device of JAX.",
    ),
    Option(
        "seed",
        int,
        0,
        "Seed of all random numbers.",
        low=0,
        high=_LARGEST_SEED,
        high_open=False,
        metavar="N",
    ),
    Option(
        "folds",
        int,
        5,
        "Number of folds for out-of-fold scores, for the choice of nu and of the penalty, and for"
        " cross-validation.",
        low=2,
        metavar="N",
    ),
    Option(
        "holdout",
        float,
        0.0,
        "Fraction of the rows held out, on which all classifiers are evaluated.",
        commands=("fit",),
        low=0,
        high=1,
        metavar="FRACTION",
    ),
    Option(
        "checkpoint",
        str,
        None,
        "Folder in which the state of the fit is saved every minute and at the end, used for"
        " nothing else. Ctrl-C saves the state and writes the best result so far. SIGTERM saves the"
        " state only and ends with status 143. For l0 it needs --exact or --max-order 3 or more."
        " Choices by cross-validation are not saved; they are repeated.",
        methods=(L0, PAIR, *BOOSTERS, SLIPPER),
        commands=("fit",),
        metavar="FOLDER",
    ),
    Option(
        "resume",
        bool,
        False,
        "Continue from the last state in --checkpoint, with a bit-identical result. If there is no"
        " state, start. Checkpoints of other data or options are refused.",
        methods=(L0, PAIR, *BOOSTERS, SLIPPER),
        commands=("fit",),
    ),
    Option(
        "output",
        str,
        "jboost-out",
        "Folder for the model, the report and the figures.",
        commands=("fit",),
        metavar="DIR",
    ),
    Option(
        "overwrite",
        bool,
        False,
        "Replace the output folder if an earlier fit wrote it.",
        commands=("fit",),
        flags=("--force",),
    ),
)
