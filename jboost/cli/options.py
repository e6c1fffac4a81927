"""The table of all options of the command line.

The flags, the keys of a configuration file, the defaults and the help texts are made from it.
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
ROUNDS, L0_ROUNDS = 100, 30  # a round of l0 adds more columns than a round of the others
# Arrays are allocated for all rounds, so their number is bounded. scikit-learn accepts seeds below
# 2**32.
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
    max_order: Any  # a number, or of l0 "cv"
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
        "Data file: text such as .csv, .csv.gz, .tsv or .txt; .parquet or .feather; - for the"
        " standard input; or sklearn:breast_cancer, sklearn:wine, sklearn:digits.",
        metavar="FILE",
    ),
    Option(
        "label",
        str,
        None,
        "Column with the labels; any two values, or more with --positive. Needed for files.",
        metavar="COLUMN",
    ),
    *READING_OPTIONS,
    Option(
        "method",
        METHODS,
        PAIR,
        "l0: few rules that people read, on all columns. pair: the exact optimal combination of two"
        " classifiers; of more it is combine. combine: a combination of three or more, exact or"
        " made of exact pairs. example-weights: a distribution over examples, on the numeric"
        " columns. slipper: the rules of Cohen and Singer, on all columns. The others: boosting of"
        " a learner, on all columns.",
    ),
    Option(
        "scores",
        str,
        None,
        "The columns that hold the scores of the classifiers: two for pair, three or more for"
        " combine.",
        methods=(PAIR, COMBINE),
        num_values=2,
        metavar="A B",
    ),
    Option(
        "classifiers",
        str,
        None,
        "Two base classifiers to train, out of forest, knn, lda, logistic, naive-bayes, qda, stump,"
        " svm, tree; three or more for combine. Without --scores: lda naive-bayes, and for combine"
        " forest, knn and svm beside them.",
        methods=(PAIR, COMBINE),
        num_values=2,
        metavar="A B",
    ),
    Option(
        "strategy",
        combine.STRATEGIES,
        "greedy",
        "How pairs are chosen: the best of all first, by clusters of classifiers that agree, or by"
        " exact moves in one plane after another. Or exact: the optimum, of three classifiers on up"
        " to about a thousand rows.",
        methods=(COMBINE,),
    ),
    Option(
        "learner",
        ("stumps", "pool", "literals", "mlp", "trees"),
        "stumps",
        "What is boosted: decision stumps; numeric columns themselves, in [-1, 1]; literals, one"
        " for each cut and category; a small neural network (scale the columns first); decision"
        " trees of --max-depth.",
        methods=BOOSTERS,
    ),
    Option(
        "max_depth",
        int,
        2,
        "The depth of --learner trees, 2 to 10. Of depth 2 each is the best of all, so that bounds"
        " cover all of them; deeper trees are greedy.",
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
        f"How many literals a rule may have; without it {ORDERS[L0]}, of slipper {ORDERS[SLIPPER]}."
        " Of l0, cv: cross-validation chooses 1, 2 or 3.",
        methods=(L0, SLIPPER),
        low=1,
        metavar="K",
        words=(CV,),
    ),
    Option(
        "margin",
        float,
        (AUTO,),
        "Margin rho in (0, 1] that a row must reach not to count as an error; auto is 20 / rows. Of"
        " several --margin, --kappa or --vote cross-validation chooses; cv stands for "
        + ", ".join(map(str, MARGINS))
        + ".",
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
        "What the coefficient of a rule costs, in errors; beside it a rule costs its literals. It"
        " may be repeated.",
        methods=(L0,),
        num_values=ANY_NUMBER,
        low=0,
        metavar="COST",
    ),
    Option(
        "cuts",
        ("class_changes", "midpoints", "quantiles"),
        None,
        "Where numeric columns are cut: wherever the class changes, as l0, slipper and --learner"
        " literals do without it, between all neighbouring values, or at quantiles. Other learners"
        " take numbers as they are without it.",
        methods=(L0, SLIPPER, *BOOSTERS),
    ),
    Option(
        "quantiles",
        int,
        10,
        "Parts into which --cuts quantiles cuts a column.",
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
        "Whether a rule may ask if a value is missing; with none, a missing value meets no"
        " condition.",
        methods=(L0, SLIPPER, *BOOSTERS),
    ),
    Option(
        "min_separation",
        int,
        None,
        "Keep the fewest cuts that tell rows of different classes apart in so many ways, for speed;"
        " without it all are kept.",
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
        "Which vote of the rules found: the one of fewest errors plus costs; that of the"
        " relaxation, approximated by a dozen rules, which mostly errs less on new rows; or that of"
        " the relaxation as it is, of all its rules. It may be repeated.",
        methods=(L0,),
        num_values=ANY_NUMBER,
    ),
    Option(
        "max_rules",
        int,
        None,
        "How many rules may vote, at most; without it twelve of --vote relaxed, and of --vote"
        " sparse as many as are worth their cost. cv: cross-validation chooses 2, 4, 8, 12 or 16.",
        methods=(L0,),
        low=1,
        metavar="N",
        words=(CV,),
    ),
    Option(
        "exact",
        float,
        0.0,
        "Go on by branch and cut, for so many seconds at most, until no vote has fewer errors plus"
        " costs; for some hundred rows and short rules.",
        methods=(L0,),
        commands=("fit",),
        metavar="SECONDS",
        low=0,
    ),
    Option(
        "max_columns",
        int,
        1024,
        "How many rules are held at a time while new ones are sought; more where the status is"
        " CAPACITY_LIMIT, and memory grows with it.",
        methods=(L0,),
        low=1,
        metavar="N",
    ),
    Option(
        "capacity",
        int,
        None,
        "How many cuts of pairs are held at a time; without it enough for most data. More where the"
        " status is CAPACITY_LIMIT.",
        methods=(L0,),
        low=1,
        metavar="N",
    ),
    Option(
        "max_in_play",
        int,
        128,
        "How many rules --exact branches on, at most; more where its status is CAPACITY_LIMIT.",
        methods=(L0,),
        commands=("fit",),
        low=1,
        metavar="N",
    ),
    Option(
        "rounds",
        int,
        None,
        f"How many hypotheses boosting may take, {ROUNDS} where nothing is said; of l0 how many"
        f" rounds of new rules, {L0_ROUNDS}; of slipper how many --num-rounds cv looks at.",
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
        "How many rules slipper takes; cv: as many as have the least loss in cross-validation.",
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
        "The class that the rules of slipper speak for: that of less weight, that of +1, or that"
        " of -1.",
        methods=(SLIPPER,),
    ),
    Option(
        "solver",
        ("simplex", "interior-point", "first-order"),
        "simplex",
        "What solves the linear programs; simplex begins each with the last one's solution and ends"
        " with few hypotheses, interior-point suits devices, first-order is for very many rows.",
        methods=(LPBOOST,),
    ),
    *RELAXATION_OPTIONS,
    Option(
        "nu",
        float,
        None,
        "Share of the weight that the soft margin may give up, in (0, 1]. With cv, or several as"
        " in --nu 0.05 --nu 0.2, cross-validation chooses. Without it cv; of --learner mlp, whose"
        f" fits take long, {NU_OF_NETWORKS}.",
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
        "Price C of a shortfall from the margin: 1 / rows at least, at 1 the hard margin. With cv,"
        " or several, cross-validation chooses.",
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
        "Fraction of the rows to choose the penalty on: one split, in place of --folds. The penalty"
        " chosen is then fitted to all rows.",
        methods=(EXAMPLE_WEIGHTS,),
        low=0,
        high=1,
        metavar="FRACTION",
    ),
    Option(
        "radius",
        float,
        AUTO,
        "Half-width R of the cube that hyperplanes are drawn from, in the unit of the columns"
        " (scale them first); auto: the least for the rows. Of --relaxation norm-ball the radius.",
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
        "Seconds from the start of the command, reading and compilation included, after which l0,"
        " slipper, boosting and choices by cross-validation end with the best so far; a compilation"
        " or step that runs ends first, and the other methods are one program. Without it l0 ends"
        " after --rounds.",
        low=0,
        low_open=True,
        metavar="SECONDS",
    ),
    Option(
        "tolerance",
        float,
        0.01,
        "Gap between the bounds of the soft margin at which to stop; of l0 between those of the"
        " costs, relative.",
        methods=(L0, *SOFT_MARGINS),
        low=0,
        low_open=True,
        metavar="GAP",
    ),
    Option(
        "train_scores",
        ("out-of-fold", "in-sample"),
        "out-of-fold",
        "Scores of trained classifiers that the combination is fitted to: of rows they did not see,"
        " or of their own training rows.",
        methods=(PAIR, COMBINE),
    ),
    Option(
        "weights",
        str,
        None,
        "Column with what it costs to misclassify each row, positive. Base classifiers are trained"
        " without it.",
        methods=(L0, PAIR, COMBINE, *BOOSTERS, SLIPPER),
        metavar="COLUMN",
    ),
    Option(
        "tie_break",
        ("margin", "none"),
        "margin",
        "Among all optimal separators: the one of largest margin, or any.",
        methods=(PAIR,),
    ),
    Option(
        "fat",
        ("removed", "flipped"),
        "removed",
        "Margin of the points without the misclassified ones, or with their labels flipped.",
        methods=(PAIR,),
    ),
    Option(
        "loo",
        bool,
        False,
        "Say, too, what the best line of all other rows does to each row.",
        methods=(PAIR,),
        commands=("fit",),
    ),
    Option(
        "pareto",
        bool,
        False,
        "Show, too, every best compromise between weight and margin.",
        methods=(PAIR,),
        commands=("fit",),
    ),
    Option("precision", ("float32", "float64"), "float64", "Of the scores and of the result."),
    Option(
        "device",
        devices.NAMES,
        devices.AUTO,
        "What computes; auto is the CPU for small tables, where an accelerator would take longer,"
        " else what JAX takes by default.",
    ),
    Option(
        "seed",
        int,
        0,
        "Of everything random.",
        low=0,
        high=_LARGEST_SEED,
        high_open=False,
        metavar="N",
    ),
    Option(
        "folds",
        int,
        5,
        "Folds for out-of-fold scores, for the choice of nu and of the penalty, and for"
        " cross-validation.",
        low=2,
        metavar="N",
    ),
    Option(
        "holdout",
        float,
        0.0,
        "Fraction of the rows kept apart, to judge all classifiers on.",
        commands=("fit",),
        low=0,
        high=1,
        metavar="FRACTION",
    ),
    Option(
        "checkpoint",
        str,
        None,
        "Folder of its own, where the state of the fit is saved every minute and at the end: after"
        " Ctrl-C, which writes the best so far too, and after SIGTERM, which writes nothing else"
        " and ends with status 143. Of l0 with --exact or --max-order 3 or more; choices by"
        " cross-validation are not saved, and made anew.",
        methods=(L0, PAIR, *BOOSTERS, SLIPPER),
        commands=("fit",),
        metavar="FOLDER",
    ),
    Option(
        "resume",
        bool,
        False,
        "Go on from the last state in --checkpoint, to the same result, bit for bit; where there is"
        " none, start. Checkpoints of other data or options are refused.",
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
