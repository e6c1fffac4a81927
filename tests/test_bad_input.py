"""What the library says of bad input: each message names the argument, says what was given, and
what to do.

Nothing here is compiled: values are looked at before.
"""

import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars
import pytest
import scipy.sparse

import jboost
from jboost import (
    l0,
    learners,
    lp,
    lpboost,
    monomials,
    operators,
    pair,
    projections,
    relaxations,
    relaxed_margin,
)
from jboost.data import binarization, classifiers, cuts, merging
from jboost.data.table import Table

Status = jboost.status.Status
POINTS = np.array([[0, 0], [2, 1], [1, 3], [4, 1]], np.float32)
LABELS = np.array([-1, 1, -1, 1])
BITS = np.array([[1, 0], [1, 1], [0, 1], [0, 0]], np.float32)
DATA = jboost.make_dataset(BITS, LABELS)
OUTPUTS = 2 * BITS - 1
KEY = jax.random.key(0)
BINARIZER = binarization.fit(POINTS, LABELS)
FORBIDDEN = re.compile(r"wanted|[Hh]and(ed)? in\b|\bjudge|\broom\b|Tracer(Array|Bool)")


class Row(NamedTuple):
    """One call, and what its message has to say."""

    call: object
    argument: str
    given: str
    remedy: str


def with_labels(labels):
    return jboost.make_dataset(BITS, labels)


def weighing(*weights):
    return jboost.make_dataset(BITS, LABELS, weights=weights)


ZERO_ONE = [0, 1, 0, 1]
ZEROED = weighing(1, 0, 1, 1)
MAPPING = "map 0/1 labels by 2 * labels - 1"


def takers_of_datasets():
    """Every public function that takes a data set, as a function of it."""
    fits = {
        "adaboost.fit": lambda data: jboost.adaboost.fit(data, learners.literals()),
        "adaboost.init": lambda data: jboost.adaboost.init(data, learners.literals()),
        "infoboost.fit": lambda data: jboost.infoboost.fit(data, learners.literals()),
        "infoboost.init": lambda data: jboost.infoboost.init(data, learners.literals()),
        "lpboost.fit": lambda data: lpboost.fit(data, learners.literals()),
        "lpboost.init": lambda data: lpboost.init(data, learners.literals()),
        "lpboost.path": lambda data: lpboost.path(data, learners.literals(), [0.2]),
        "relaxed_margin.fit": lambda data: relaxed_margin.fit(data, learners.literals()),
        "relaxed_margin.init": lambda data: relaxed_margin.init(data, learners.literals()),
        "slipper.fit": lambda data: jboost.slipper.fit(data, key=KEY),
        "slipper.choose_rounds": lambda data: jboost.slipper.choose_rounds(
            data, key=KEY, max_rounds=3
        ),
        "combine.pairwise.fit": lambda data: jboost.combine.pairwise.fit(data, learners.literals()),
        "l0.fit": lambda data: l0.fit(data, learners.monomials(1), margin=0.1),
        "l0.fit, watched": lambda data: l0.fit(
            data, learners.monomials(1), margin=0.1, on_step=lambda state, info: None
        ),
        "l0.init": lambda data: l0.init(data, learners.monomials(1), margin=0.1),
        "l0.path": lambda data: l0.path(data, learners.monomials(1), [0.1]),
        "l0.search_margin": lambda data: l0.search_margin(data, learners.monomials(1), penalty=0.1),
        "l0.choose": lambda data: l0.choose(
            data,
            lambda kappa: learners.monomials(1, kappa=kappa),
            margins=[0.1],
            kappas=[0.1],
            key=KEY,
        ),
        "l0.fit_exact": lambda data: l0.fit_exact(data, learners.monomials(1), margin=0.1),
        "validate": jboost.validate,
        "data.merging.merge_equal": merging.merge_equal,
    }
    large = learners.monomials(1, kappa=0.1)
    return fits | {
        "l0.fit_large": lambda data: l0.fit_large(data, large, margin=0.1),
        "l0.choose_large": lambda data: l0.choose_large(
            data,
            lambda order, kappa: learners.monomials(order, kappa=kappa),
            max_orders=[1],
            max_rules=[1],
            margins=[0.1],
            kappas=[0.1],
            key=KEY,
        ),
    }


def takers_of_labels():
    """Every public function that takes labels, as a function of them."""
    arrays = {
        "pair.optimal_separator": lambda labels: pair.optimal_separator(POINTS, labels),
        "pair.leave_one_out": lambda labels: pair.leave_one_out(POINTS, labels),
        "pair.pareto_front": lambda labels: pair.pareto_front(POINTS, labels, max_points=4),
        "pair.least_distance_separator": lambda labels: pair.least_distance_separator(
            POINTS, labels
        ),
        "pair.least_squared_distance_separator": lambda labels: (
            pair.least_squared_distance_separator(POINTS, labels)
        ),
        "pair.confidence_weights": lambda labels: pair.confidence_weights(labels, np.full(4, 0.7)),
        "combine.fit": lambda labels: jboost.combine.fit(POINTS, labels),
        "combine.best_single": lambda labels: jboost.combine.best_single(POINTS, labels),
        "combine.stacking": lambda labels: jboost.combine.stacking(POINTS, labels),
        "combine.random_pairing": lambda labels: jboost.combine.random_pairing(
            POINTS, labels, key=KEY
        ),
        "example_weights.fit": lambda labels: jboost.example_weights.fit(
            POINTS, labels, penalty=1.0, radius=9.0
        ),
        "example_weights.fit_large": lambda labels: jboost.example_weights.fit_large(
            POINTS, labels, penalty=1.0, radius=9.0
        ),
        "example_weights.choose_penalty": lambda labels: jboost.example_weights.choose_penalty(
            POINTS, labels, penalties=[1.0], radius=9.0, key=KEY
        ),
        "example_weights.validate": lambda labels: jboost.example_weights.validate(
            POINTS, labels, radius=9.0
        ),
        "monomials.maximum_agreement": lambda labels: monomials.maximum_agreement(
            BITS, labels, np.ones(4), max_order=1
        ),
        "l0.solve_relaxation": lambda labels: l0.solve_relaxation(
            OUTPUTS, labels, [0.1, 0.1], margin=0.1
        ),
        "l0.solve_exact": lambda labels: l0.solve_exact(OUTPUTS, labels, [0.1, 0.1], margin=0.1),
        "l0.solve_unnormalised": lambda labels: l0.solve_unnormalised(
            OUTPUTS, labels, [0.1, 0.1], largest=2.0
        ),
        "l0.strengthen": lambda labels: l0.strengthen(OUTPUTS, labels, [0.1, 0.1], margin=0.1),
        "folds.stratified_folds": lambda labels: jboost.folds.stratified_folds(
            KEY, labels, num_folds=2
        ),
        "data.binarization.fit": lambda labels: binarization.fit(POINTS, labels),
        "data.binarization.select_support_set": lambda labels: binarization.select_support_set(
            BITS, labels
        ),
    }
    return arrays | {
        name: lambda labels, fit=fit: fit(with_labels(labels))
        for name, fit in takers_of_datasets().items()
    }


TAKERS = takers_of_labels()
NO_DATA_SETS = {
    f"features in place of a data set, {name}": Row(
        lambda take=take: take(BITS), "dataset", "ndarray", "expected a jboost.Dataset"
    )
    for name, take in takers_of_datasets().items()
}
OF_KEYS = {
    f"a key that is a text, {name}": Row(
        lambda start=start: start(DATA, learners.literals(), key="x"),
        "key",
        "'x'",
        "jax.random.key(0)",
    )
    for name, start in {
        "adaboost.fit": jboost.adaboost.fit,
        "adaboost.init": jboost.adaboost.init,
        "infoboost.fit": jboost.infoboost.fit,
        "lpboost.fit": lpboost.fit,
        "relaxed_margin.fit": relaxed_margin.fit,
        "l0.fit": lambda data, _, key: l0.fit(data, learners.monomials(1), margin=0.1, key=key),
    }.items()
}
OF_WATCHERS = {
    f"an on_step that is a text, {name}": Row(
        lambda fit=fit: fit(DATA, learners.literals(), on_step="x"),
        "on_step",
        "'x'",
        "expected a function",
    )
    for name, fit in {
        "adaboost.fit": jboost.adaboost.fit,
        "lpboost.fit": lpboost.fit,
        "relaxed_margin.fit": relaxed_margin.fit,
        "l0.fit": lambda data, _, on_step: l0.fit(
            data, learners.monomials(1), margin=0.1, on_step=on_step
        ),
    }.items()
}
HALF = relaxations.soft_margin(nu=0.5)
INFINITE = {
    f"{argument} that is infinite, {name}": Row(
        call, argument, f"{argument} is inf", "up to 3.40282e+38"
    )
    for name, argument, call in (
        (
            "solve_smoothed",
            "smoothing",
            lambda: relaxed_margin.solve_smoothed(OUTPUTS, HALF, smoothing=np.inf),
        ),
        (
            "solve_smoothed",
            "votes_smoothing",
            lambda: relaxed_margin.solve_smoothed(
                OUTPUTS, HALF, smoothing=0.1, votes_smoothing=np.inf
            ),
        ),
        ("margin_head", "smoothing", lambda: jboost.layers.margin_head(nu=0.5, smoothing=np.inf)),
        ("margin_head", "scale", lambda: jboost.layers.margin_head(nu=0.5, scale=np.inf)),
        (
            "least_squared_distance_separator",
            "ridge",
            lambda: pair.least_squared_distance_separator(POINTS, LABELS, ridge=np.inf),
        ),
        ("power_map", "order", lambda: projections.power_map(np.inf)),
        ("stored", "scale", lambda: operators.stored(OUTPUTS, "int8", scale=np.inf)),
    )
}
OF_LABELS = {
    f"0/1 labels, {name}": Row(
        lambda take=take: take(np.array(ZERO_ONE)), "labels", "labels[0] is 0", MAPPING
    )
    for name, take in TAKERS.items()
}
SEPARATE = pair.optimal_separator
TABLE = (
    OF_LABELS
    | NO_DATA_SETS
    | OF_KEYS
    | OF_WATCHERS
    | INFINITE
    | {
        "a time limit that is a text": Row(
            lambda: l0.fit_large(
                DATA, learners.monomials(1, kappa=0.1), margin=0.1, time_limit="x"
            ),
            "time_limit",
            "str",
            "expected",
        ),
        "labels of two numbers": Row(
            lambda: SEPARATE(POINTS, [1, 2, 1, 2]),
            "labels",
            "labels[1] is 2",
            "numpy.where(labels == 2, 1, -1)",
        ),
        "labels of three classes": Row(
            lambda: SEPARATE(POINTS, [1, 2, 3, 1]),
            "labels",
            "(2 such in all)",
            "one against the rest",
        ),
        "labels with a gap": Row(
            lambda: SEPARATE(POINTS, [1, np.nan, -1, 1]),
            "labels",
            "labels[1] is nan",
            "leave them out",
        ),
        "labels with a mask": Row(
            lambda: SEPARATE(POINTS, np.ma.array(LABELS, mask=[0, 0, 1, 0])),
            "labels",
            "labels[2] is nan",
            "leave them out",
        ),
        "boolean labels": Row(
            lambda: SEPARATE(POINTS, LABELS > 0),
            "labels",
            "booleans",
            "2 * numpy.asarray(labels) - 1",
        ),
        "labels of text": Row(
            lambda: with_labels(list("abab")),
            "labels",
            "texts",
            "numpy.where(labels == 'yes', 1, -1)",
        ),
        "too few labels": Row(
            lambda: SEPARATE(POINTS, [1, -1]), "labels", "shape [2]", "expected shape [4]"
        ),
        "no labels": Row(
            lambda: SEPARATE(POINTS, None), "labels", "None", "expected an array of shape [4]"
        ),
        "a negative weight": Row(
            lambda: jboost.adaboost.fit(weighing(1, 1, -2, 1), learners.literals()),
            "weights",
            "weights[2] is -2",
            "mask False",
        ),
        "a weight of NaN": Row(
            lambda: SEPARATE(POINTS, LABELS, weights=[1, 1, 1, np.nan]),
            "weights",
            "weights[3] is nan",
            "a weight of 0",
        ),
        "an infinite weight": Row(
            lambda: jboost.combine.fit(POINTS, LABELS, weights=[np.inf, 1, 1, 1]),
            "weights",
            "weights[0] is inf",
            "a weight of 0",
        ),
        "a weight of 1e300": Row(
            lambda: SEPARATE(POINTS, LABELS, weights=[1, 1e300, 1, 1]),
            "weights",
            "weights[1] is 1e+300",
            "divide all of weights",
        ),
        "a subnormal weight": Row(
            lambda: lpboost.solve(OUTPUTS, weights=[1, 1e-40, 1, 1]),
            "weights",
            "weights[1] is",
            "multiply all of them",
        ),
        "weights of 0": Row(
            lambda: SEPARATE(POINTS, LABELS, weights=np.zeros(4)),
            "weights",
            "0 for all 4 examples",
            "leave weights out",
        ),
        "a data set of weights 0": Row(
            lambda: lpboost.fit(weighing(0, 0, 0, 0), learners.literals()),
            "weights",
            "0 for all 4",
            "at least one must be above 0",
        ),
        "rows of weights 0": Row(
            lambda: relaxed_margin.solve(OUTPUTS, relaxations.hard_margin(), weights=np.zeros(4)),
            "weights",
            "0 for all 4",
            "leave weights out",
        ),
        "a pool of weights 0": Row(
            lambda: l0.solve_exact(OUTPUTS, LABELS, [0, 0], margin=0.1, weights=np.zeros(4)),
            "weights",
            "0 for all",
            "leave weights out",
        ),
        "too many weights": Row(
            lambda: pair.leave_one_out(POINTS, LABELS, weights=np.ones(5)),
            "weights",
            "shape [5]",
            "expected shape [4]",
        ),
        "a mask of numbers": Row(
            lambda: SEPARATE(POINTS, LABELS, mask=[1, 0, 1, 1]),
            "mask",
            "int32",
            "expected kinds boolean",
        ),
        "points of four classifiers": Row(
            lambda: SEPARATE(np.zeros((4, 4)), LABELS), "points", "[4, 4]", "[n, 2] or [n, 3]"
        ),
        "points of text": Row(
            lambda: SEPARATE([["a", "b"]] * 4, LABELS),
            "points",
            "list",
            "expected an array of shape",
        ),
        "ragged points": Row(
            lambda: SEPARATE([[1.0], [1.0, 2.0]], [1, -1]),
            "points",
            "unequal length",
            "expected an array of shape",
        ),
        "points of 1e300": Row(
            lambda: SEPARATE(POINTS.astype(np.float64) * 1e300, LABELS),
            "points",
            "points[1, 0] is 2e+300",
            "enable 64-bit types",
        ),
        "integers of 40 bits": Row(
            lambda: SEPARATE(np.full((4, 2), 2**40), LABELS), "points", "32 bits", "pass floats"
        ),
        "a frame as features": Row(
            lambda: jboost.make_dataset(polars.DataFrame({"a": ["x"]}), [1]),
            "features",
            "DataFrame",
            "jboost.data.binarization.fit",
        ),
        "a wrong option": Row(
            lambda: SEPARATE(POINTS, LABELS, fat="thin"),
            "fat",
            "'thin'",
            "the options are 'removed', 'flipped'",
        ),
        "a config of another kind": Row(
            lambda: SEPARATE(POINTS, LABELS, config={}),
            "config",
            "dict",
            "expected a jboost.pair.SweepConfig",
        ),
        "steps of the sweep": Row(
            lambda: SEPARATE(POINTS, LABELS, method="sweep", on_step=print),
            "on_step",
            "'sweep'",
            "leave it out",
        ),
        "branch and bound under jit": Row(
            lambda: jax.eval_shape(
                lambda points: SEPARATE(points, LABELS, method="branch_and_bound"), POINTS
            ),
            "method",
            "traced",
            "pass 'sweep'",
        ),
        "a pool that is empty": Row(
            lambda: l0.solve_relaxation(OUTPUTS, LABELS, [0.1], margin=0.1),
            "costs",
            "shape [1]",
            "expected shape [2]",
        ),
        "outputs beyond one": Row(
            lambda: l0.solve_exact(3 * OUTPUTS, LABELS, [0, 0], margin=0.1),
            "outputs",
            "is 3",
            "outputs are -1, 0 or +1",
        ),
        "a margin of 0": Row(
            lambda: l0.fit(DATA, learners.monomials(1), margin=0.0),
            "margin",
            "is 0",
            "expected a number above 0 up to 1",
        ),
        "a nu of 2": Row(
            lambda: lpboost.fit(DATA, learners.literals(), nu=2.0), "nu", "is 2", "up to 1"
        ),
        "a tolerance of NaN": Row(
            lambda: lpboost.solve(OUTPUTS, tolerance=np.nan),
            "tolerance",
            "nan",
            "expected a number above 0",
        ),
        "a tolerance of text": Row(
            lambda: lpboost.solve(OUTPUTS, tolerance="small"),
            "tolerance",
            "str",
            "expected an array of shape []",
        ),
        "no rounds": Row(
            lambda: jboost.adaboost.fit(DATA, learners.literals(), max_rounds=0),
            "max_rounds",
            "is 0",
            "expected an integer of at least 1",
        ),
        "rounds of 2.5": Row(
            lambda: jboost.adaboost.fit(DATA, learners.literals(), max_rounds=2.5),
            "max_rounds",
            "2.5",
            "expected an integer",
        ),
        "a learner of text": Row(
            lambda: jboost.adaboost.fit(DATA, "stumps"),
            "learner",
            "str",
            "pass one of jboost.learners",
        ),
        "a learner without prices": Row(
            lambda: l0.fit(DATA, jboost.slipper.rules(), margin=0.1),
            "learner",
            "Rules",
            "pass one with these methods",
        ),
        "arrays as a data set": Row(
            lambda: jboost.adaboost.fit((BITS, LABELS), learners.literals()),
            "dataset",
            "tuple",
            "make_dataset(features, labels)",
        ),
        "features that are no bits": Row(
            lambda: jboost.slipper.fit(jboost.make_dataset(POINTS, LABELS), key=KEY),
            "features",
            "is 2",
            "jboost.data.binarization",
        ),
        "features without columns": Row(
            lambda: jboost.adaboost.fit(
                jboost.make_dataset(BITS[:, :0], LABELS), learners.literals()
            ),
            "features",
            "0 columns",
            "pass features that vary",
        ),
        "an order of no attributes": Row(
            lambda: monomials.maximum_agreement(BITS[:, :0], LABELS, np.ones(4), max_order=1),
            "features",
            "0 columns",
            "pass features that vary",
        ),
        "an order too large": Row(
            lambda: monomials.maximum_agreement(BITS, LABELS, np.ones(4), max_order=3),
            "max_order",
            "is 3",
            "pass 2, or None",
        ),
        "an example weight of -1": Row(
            lambda: monomials.maximum_agreement(BITS, LABELS, [1, 1, -1, 1], max_order=1),
            "example_weights",
            "is -1",
            "expected a finite number from 0 up",
        ),
        "example weights of 3e38": Row(
            lambda: monomials.maximum_agreement(BITS, LABELS, np.full(4, 3e38), max_order=1),
            "example_weights",
            "sum to 1.2e+39",
            "divide all of them",
        ),
        "a key of 3": Row(
            lambda: jboost.slipper.fit(DATA, key=3),
            "key",
            "is 3",
            "expected a random key, as jax.random.key(0)",
        ),
        "one fold": Row(
            lambda: jboost.folds.stratified_folds(KEY, LABELS, num_folds=1),
            "num_folds",
            "is 1",
            "expected an integer of at least 2",
        ),
        "a cap below 1 / m": Row(
            lambda: relaxed_margin.solve(OUTPUTS, relaxations.soft_margin(0.1)),
            "relaxation",
            "4 examples",
            "raise its cap",
        ),
        "a relaxation of text": Row(
            lambda: relaxed_margin.solve(OUTPUTS, "soft"),
            "relaxation",
            "str",
            "expected one of jboost.relaxations",
        ),
        "a negative cap": Row(
            lambda: relaxations.soft_margin(-1.0), "cap", "is -1", "expected a number above 0"
        ),
        "cap and nu": Row(
            lambda: relaxations.soft_margin(0.5, nu=0.5),
            "cap",
            "and nu",
            "give exactly one of them",
        ),
        "a norm of order 0.5": Row(
            lambda: relaxations.norm_ball(0.5, 1.0),
            "order",
            "is 0.5: expected a number from 1 to infinity",
            "below 1 it is not a norm",
        ),
        "a penalty below 1 / m": Row(
            lambda: jboost.example_weights.fit(POINTS, LABELS, penalty=0.1, radius=9.0),
            "penalty",
            "is 0.1",
            "raise it to at least 1 / m",
        ),
        "neither radius nor kernel": Row(
            lambda: jboost.example_weights.fit(POINTS, LABELS, penalty=1.0),
            "radius",
            "kernel",
            "exactly one of them",
        ),
        "a radius too small": Row(
            lambda: jboost.example_weights.validate(POINTS, LABELS, radius=0.1),
            "radius",
            "is 0.1",
            "needs",
        ),
        "a point of NaN": Row(
            lambda: jboost.example_weights.validate(np.full((4, 2), np.nan), LABELS, radius=9.0),
            "points",
            "points[0, 0] is nan",
            "drop the row",
        ),
        "the simplex method for any program": Row(
            lambda: lp.solve(
                lp.make_program([1.0], [[1.0]], row_lower=1.0), config=lpboost.SimplexConfig()
            ),
            "config",
            "jboost.lpboost.SimplexConfig",
            "pass a jboost.lp.InteriorPointConfig or a jboost.lp.FirstOrderConfig",
        ),
        "a config of text for a master": Row(
            lambda: lpboost.solve(OUTPUTS, config="simplex"),
            "config",
            "str",
            "expected a jboost.lpboost.SimplexConfig or",
        ),
        "a cap of two numbers": Row(
            lambda: projections.projection_capped_simplex(np.ones(3), [1.0, 1.0]),
            "cap",
            "shape [2]",
            "expected shape [3]",
        ),
        "a sparse matrix that is none": Row(
            lambda: operators.sparse(np.eye(2)), "bcoo", "ndarray", "BCOO.fromdense makes one"
        ),
        "features of another width": Row(
            lambda: jboost.predict(
                pair.TradeOff(0, 0, np.ones(2), np.zeros(2), 0.0, 0.0, 0.0, 0), np.ones((1, 3))
            ),
            "features",
            "[1, 3]",
            "expected shape [k, 2]",
        ),
        "a fit as a model": Row(
            lambda: jboost.predict(jboost.boosting.Fit(0, 0, 0, 0, 0), POINTS),
            "model",
            "Fit",
            "its field `ensemble` is one",
        ),
        "a model of text": Row(
            lambda: jboost.predict("model", POINTS), "model", "str", "pass a fitted model"
        ),
        "a fit that was invalid": Row(
            lambda: jboost.predict(
                pair.TradeOff(
                    0, 0, np.ones(2), np.zeros(2), 0.0, 0.0, 0.0, int(Status.INVALID_INPUT)
                ),
                POINTS,
            ),
            "model",
            "INVALID_INPUT",
            "jboost.validate(dataset) names the argument",
        ),
        "an unknown status": Row(
            lambda: jboost.status.explain(77), "code", "is 77", "the known codes are"
        ),
        "a mixed column": Row(
            lambda: binarization.fit(
                polars.DataFrame({"age": polars.Series([1, 2, "oops", 3], dtype=polars.Object)}),
                LABELS,
            ),
            "features['age']",
            "'oops'",
            "correct it, make it missing",
        ),
        "a sparse matrix too large": Row(
            lambda: binarization.fit(
                scipy.sparse.csr_matrix((10**7, 10**6)), None, cuts="midpoints"
            ),
            "features",
            "[10000000, 1000000]",
            "pass fewer rows",
        ),
        "an infinite feature": Row(
            lambda: binarization.fit([[1.0], [np.inf]], [1, -1]),
            "features",
            "features[1, 0] is inf",
            "pass NaN if it is unknown",
        ),
        "cuts without labels": Row(
            lambda: cuts.cut_points([1.0, 2.0]),
            "labels",
            "None",
            '"midpoints" and "quantiles" do without',
        ),
        "a name that is not there": Row(
            lambda: binarization.fit(POINTS, LABELS, categorical=["y"]),
            "categorical",
            "'y'",
            "expected a name of an attribute",
        ),
        "columns of one value": Row(
            lambda: classifiers.fit_base(
                Table("people.csv", 4, {"age": np.ones(4)}, {}, {}, labels=LABELS), ["lda"]
            ),
            "people.csv",
            "no column ('age') takes two values on all rows",
            "give a column that varies",
        ),
        "a time of NaN": Row(
            lambda: jboost.drive.time_limit(np.nan), "seconds", "nan", "expected a number from 0 up"
        ),
    }
)


@pytest.mark.parametrize("name", TABLE)
def test_bad_input_is_named_shown_and_told_what_to_do(name):
    row = TABLE[name]
    with pytest.raises((ValueError, TypeError)) as caught:
        row.call()
    text = str(caught.value)
    assert re.search(rf"\b{re.escape(row.argument)}", text), text
    assert row.given in text, text
    assert row.remedy in text, text
    assert not FORBIDDEN.search(text), text


HOST = {
    "fit_large": (
        lambda points: jboost.example_weights.fit_large(points, LABELS, penalty=1.0, radius=9.0),
        "jboost.example_weights.fit does the same",
    ),
    "validate of points": (
        lambda points: jboost.example_weights.validate(points, LABELS, radius=9.0),
        "the status INVALID_INPUT",
    ),
    "binarization.fit": (
        lambda points: binarization.fit(points, LABELS),
        "jboost.data.binarization.apply may be traced",
    ),
    "binarization.fit, labels": (
        lambda points: binarization.fit(POINTS, points[:, 0]),
        "labels is traced",
    ),
    "binarization.apply of a list": (
        lambda points: binarization.apply(BINARIZER, [*points]),
        "pass one JAX array",
    ),
    "select_support_set": (
        lambda bits: binarization.select_support_set(bits, LABELS),
        "pass bits[:, attributes]",
    ),
    "cut_points": (
        lambda points: cuts.cut_points(points[:, 0], LABELS),
        "jboost.data.binarization.apply may be traced",
    ),
    "merge_equal": (
        lambda points: merging.merge_equal(jboost.make_dataset(points, LABELS)),
        "pass the merged data set",
    ),
    "validate": (
        lambda points: jboost.validate(jboost.make_dataset(points, LABELS)),
        "the status INVALID_INPUT",
    ),
    "explain": (lambda points: jboost.status.explain(points[0, 0]), "explain it afterwards"),
    "save": (lambda points: jboost.files.save(points, "model.npz"), "save it afterwards"),
    "time_limit": (
        lambda points: jboost.drive.time_limit(points[0, 0]),
        "nothing may watch a loop",
    ),
    "describe_monomial": (
        lambda points: binarization.describe_monomial(BINARIZER, points[:, 0]),
        "describe them afterwards",
    ),
}


@pytest.mark.parametrize("name", HOST)
@pytest.mark.parametrize("under", [jax.jit, jax.vmap])
def test_functions_of_the_host_say_so_where_they_are_traced(name, under):
    call, instead = HOST[name]
    with pytest.raises(ValueError, match="is traced, and jboost") as caught:
        jax.eval_shape(
            under(call)
            if under is jax.jit
            else under(lambda _, points: call(points), in_axes=(0, None)),
            *_arguments(under),
        )
    assert "runs on the host: call it outside jit, vmap and grad" in str(caught.value)
    assert instead in str(caught.value)


def _arguments(under):
    return (POINTS,) if under is jax.jit else (np.zeros(2), POINTS)


CONSTANT = {
    "validate of points": lambda: jboost.example_weights.validate(POINTS, LABELS, radius=9.0),
    "binarization.fit": lambda: binarization.fit(POINTS, LABELS).num_bits,
    "select_support_set": lambda: binarization.select_support_set(
        BITS, LABELS, mask=[True, True, True, False]
    ),
    "cut_points": lambda: cuts.cut_points(POINTS[:, 0], LABELS),
    "merge_equal": lambda: merging.merge_equal(ZEROED),
    "validate": lambda: jboost.validate(DATA),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_functions_of_the_host_may_be_called_with_constants_while_others_are_traced(name):
    def beside(number):
        CONSTANT[name]()
        return number

    jax.eval_shape(beside, 1.0)


@pytest.mark.slow
def test_a_large_fit_may_be_made_of_constants_while_others_are_traced():
    def beside(number):
        model = jboost.example_weights.fit_large(POINTS, LABELS, penalty=1.0, radius=9.0)
        return number * model.upper_bound

    assert (
        jax.jit(beside)(2.0)
        == 2 * jboost.example_weights.fit_large(POINTS, LABELS, penalty=1.0, radius=9.0).upper_bound
    )


@pytest.mark.parametrize("wide", [False, True])
def test_every_status_says_what_happened_and_what_to_do(wide):
    with jax.enable_x64(wide):
        texts = {status: jboost.status.explain(int(status)) for status in Status}
    for status, text in texts.items():
        message, remedy = (
            text.removeprefix(f"{status.name}: ").removesuffix(".").split(". Remedy: ")
        )
        assert message
        assert remedy
        assert not FORBIDDEN.search(text), text
        assert "more bits" not in text
        assert ("jax_enable_x64" in text) == (
            not wide and status in (Status.PRECISION_LIMIT, Status.NUMERICAL_ERROR)
        ), text
    assert "AdaBoost" in texts[Status.ROUND_LIMIT]


def test_the_simplex_method_of_lp_boost_has_one_public_name():
    assert "SimplexConfig" not in lp.__all__
    assert not hasattr(lp, "SimplexConfig")
    assert "SimplexConfig" in lpboost.__all__


def test_predictions_of_a_fit_that_was_invalid():
    """NaN scores; predictions of 0 where they are traced, and an error where they are not."""
    nothing = jboost.boosting.Ensemble(
        learners.literals(),
        learners.columns.Column(jnp.zeros(1, jnp.int32), jnp.ones(1)),
        jnp.full((1, 2), jnp.inf),
        jnp.nan,
        1,
    )
    assert np.isnan(jboost.predict_scores(nothing, BITS)).all()
    assert jax.jit(jboost.predict)(nothing, BITS).tolist() == [0] * 4
    assert jax.jit(lambda features: jboost.predict(nothing, features))(BITS).tolist() == [0] * 4
    for refused in (
        lambda: jboost.predict(nothing, BITS),
        lambda: jboost.ensemble.describe(nothing, ["a", "b"]),
    ):
        with pytest.raises(
            ValueError,
            match="status INVALID_INPUT, and predicts nothing: correct its data; jboost.validate",
        ):
            refused()
