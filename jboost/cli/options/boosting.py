"""Options of boosting: learners, rounds, and margins."""

from __future__ import annotations

from jboost.cli.option import (
    ANY_NUMBER,
    BOOSTERS,
    CV,
    EXAMPLE_WEIGHTS,
    L0,
    LPBOOST,
    MONOMIALS,
    RELAXED_MARGIN,
    SLIPPER,
    SOFT_MARGINS,
    Option,
)
from jboost.cli.options.defaults import AUTO, L0_ROUNDS, MOST_ROUNDS, NU_OF_NETWORKS, ROUNDS
from jboost.example_weights.defaults import MEASURES

LEARNER_OPTIONS = (
    Option(
        "learner",
        ("stumps", "pool", "literals", "mlp", "trees", MONOMIALS),
        "stumps",
        "Hypotheses to boost. stumps: decision stumps. pool: the numeric columns themselves, with"
        " values in [-1, 1]. literals: one hypothesis for each cut and category. mlp: a small"
        " neural network (scale the columns first). trees: decision trees of --max-depth."
        " monomials: rules of up to --max-order cuts and categories, found by an exact search, so"
        " that the bounds cover all of them.",
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
)

ROUND_OPTIONS = (
    Option(
        "rounds",
        int,
        None,
        f"Largest number of hypotheses in boosting (default {ROUNDS}); for l0, of rounds that add"
        f" rules (default {L0_ROUNDS}); for slipper, of rules that --num-rounds cv considers"
        f" (default {ROUNDS}).",
        methods=(L0, *BOOSTERS, SLIPPER),
        low=1,
        high=MOST_ROUNDS,
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
        high=MOST_ROUNDS,
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
)

MARGIN_OPTIONS = (
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
        "measure",
        MEASURES,
        AUTO,
        "Measure on classifiers. cube: the hyperplanes of the paper, for one or two columns, since"
        " its probabilities decrease exponentially with their number. isotropic: hyperplanes of"
        " uniform direction and distance. auto: cube for one or two columns, isotropic for more."
        " central: hyperplanes through the mean of the rows. stumps: thresholds in the ranges of"
        " random columns.",
        methods=(EXAMPLE_WEIGHTS,),
    ),
    Option(
        "radius",
        float,
        AUTO,
        "Half-width R of the cube from which hyperplanes are drawn, or their largest distance"
        " (--measure isotropic), in the unit of the columns (scale them first). auto: the smallest"
        " that the rows allow. With --relaxation norm-ball: the radius of the ball.",
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
        " slipper, boosting, combine with --strategy exact, pair above 8,192 rows, and"
        " cross-validation end with the best result so far. A running compilation or step is"
        " completed first; of a choice of l0 among several --kappa, --margin or --vote, a step is a"
        " fold with all margins. Choices of l0 and slipper take at most 0.6 of the time. The other"
        " methods run as one program and ignore the limit. Without it l0 ends after --rounds.",
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
)
