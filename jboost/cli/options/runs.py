"""Options of a run: precision, device, folds, checkpoints and output."""

from __future__ import annotations

from jboost.cli import devices
from jboost.cli.option import Option
from jboost.cli.options.defaults import LARGEST_SEED

RUN_OPTIONS = (
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
        high=LARGEST_SEED,
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
        " state only and ends with status 143. Of choices by cross-validation those of l0 by"
        " --max-order cv or --max-rules cv, of slipper, and of the penalty of example-weights are"
        " saved; others are repeated, or refused by l0 without --exact. Of --margin search the"
        " state of the search is saved, and of example-weights that of the choice, not that of the"
        " fit that follows. Of combine for --strategy exact.",
        commands=("fit",),
        metavar="FOLDER",
    ),
    Option(
        "resume",
        bool,
        False,
        "Continue from the last state in --checkpoint, with a bit-identical result, except where a"
        " search for rules of l0, or a choice by cross-validation, is given a share of the time. If"
        " there is no state, start."
        " Checkpoints of other data or options are refused.",
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
