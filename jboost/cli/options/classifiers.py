"""Options of the combinations of classifiers: the classifiers, and the separator."""

from __future__ import annotations

from jboost import combine
from jboost.cli.option import BOOSTERS, COMBINE, L0, PAIR, SLIPPER, Option

CLASSIFIER_OPTIONS = (
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
        " optimum, of three classifiers for up to about a thousand rows, of four to eight by branch"
        " and cut, for which --time-limit is useful.",
        methods=(COMBINE,),
    ),
)

SEPARATOR_OPTIONS = (
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
        "Column with the cost of misclassifying each row, not negative. Rows of weight 0 are left"
        " out. Base classifiers are trained without the weights.",
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
)
