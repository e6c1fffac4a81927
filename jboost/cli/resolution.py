"""Reads a configuration file, merges it with the flags, and validates the resulting settings.

A flag takes precedence over the configuration file. Options that contradict each other raise
ValueError.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jboost.cli import relaxations
from jboost.cli.l0 import contradictions
from jboost.cli.option import (
    ANY_NUMBER,
    BOOSTERS,
    COMBINE,
    CV,
    EXAMPLE_WEIGHTS,
    L0,
    MONOMIALS,
    PAIR,
    SLIPPER,
    UNCUT,
    Option,
)
from jboost.cli.options import (
    AUTO,
    EMBEDDED,
    L0_ROUNDS,
    MARGINS,
    NU_OF_NETWORKS,
    OPTIONS,
    ORDERS,
    ROUNDS,
    Settings,
)
from jboost.cli.precedence import gives_way, named
from jboost.cli.reading import require_file
from jboost.data.sources import STANDARD_INPUT
from jboost.data.table import close_matches
from jboost.example_weights.defaults import WITHOUT_RADIUS

_LEARNERS = {L0: MONOMIALS, SLIPPER: "rules"}
_LEARNERS_OF_BITS = ("literals", MONOMIALS)  # learners for which numbers are always cut
# Options of boosting that one learner has.
_OPTIONS_OF_LEARNERS = {
    "max_depth": "trees",
    "max_order": MONOMIALS,
    "min_separation": MONOMIALS,
}
# of the methods that combine classifiers, where none are named
_CLASSIFIERS = {
    PAIR: ("lda", "naive-bayes"),
    COMBINE: ("lda", "naive-bayes", "forest", "knn", "svm"),
}


def read_config(path: str | Path) -> dict[str, Any]:
    """Reads the options in a TOML file. A relative path in `data` is relative to that file.

    Raises:
      ValueError: if the file is missing or is not valid TOML, if a key is not an option (the
        message lists similar options), or if a value has the wrong type.
    """
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such configuration file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: not readable as TOML ({str(error).splitlines()[0]})") from None
    known = {option.name: option for option in OPTIONS}
    for key, value in values.items():
        if isinstance(value, dict):
            raise ValueError(
                f"{path}: [{key}] is a table: expected options at the top level, without tables"
            )
        if key not in known:
            raise ValueError(
                f"{path}: there is no option '{key}';"
                f" {close_matches(key, tuple(known), 'the options are')}"
            )
        _check_type(
            path, known[key], value, may_be_longer=values.get("method", PAIR) in (PAIR, COMBINE)
        )
        if known[key].num_values == ANY_NUMBER and not isinstance(value, list):
            values[key] = [value]
    data = values.get("data")
    if data is not None and data != STANDARD_INPUT and not data.startswith(EMBEDDED):
        values["data"] = str(Path(path).parent / data)
    return values


def resolve(values: Mapping[str, Any], is_flag: Mapping[str, bool]) -> Settings:
    """Returns the validated settings for the given option values.

    If a flag contradicts a value from the configuration file, the flag takes precedence, and the
    value is replaced by the default. Where the default would be another choice of the rules (of
    --max-order cv, or of several values of --kappa), the message names the configuration file.

    Args:
      values: the value of each option. Options that the command does not have get their defaults.
      is_flag: for each option, whether its value was given as a flag.

    Raises:
      ValueError: if options contradict each other, or if no data are given.
    """
    filled = {option.name: option.default for option in OPTIONS} | dict(values)
    _settle_labels(filled, is_flag)
    _settle_method(filled)
    _keep_to_method(filled, is_flag)
    _settle_scores(filled, is_flag)
    _settle_learner(filled, is_flag)
    _settle_order(filled, is_flag)
    contradictions.settle(filled, is_flag)
    _settle_checkpoint(filled, is_flag)
    if filled["resume"] and filled["checkpoint"] is None:
        raise ValueError(
            "--resume continues from a saved state: name the folder with --checkpoint FOLDER"
        )
    relaxations.resolve(filled, is_flag)
    _settle_radius(filled, is_flag)
    _settle_candidates(filled)
    contradictions.settle_checkpoint(filled, is_flag)
    _check_columns(filled)
    return Settings(**filled)


def _settle_labels(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Requires data, and a label column unless the data set brings its labels."""
    if values["data"] is None:
        raise ValueError(
            'no data: give --data FILE, or data = "..." in a file for --config, or try --data'
            " sklearn:breast_cancer"
        )
    embedded = values["data"].startswith(EMBEDDED)
    if embedded and values["label"] is not None:
        if is_flag.get("label") or not is_flag.get("data"):
            raise ValueError(
                f"{values['data']}: an embedded data set brings its labels: leave the label column"
                f" '{values['label']}' out"
            )
        values["label"] = None
    if embedded:
        require_file(values, is_flag)
    if not embedded and values["label"] is None:
        raise ValueError(f"{values['data']}: no label column: name it with --label COLUMN")


def _settle_method(values: dict[str, Any]) -> None:
    """More than two classifiers are for `combine`, even where `pair` is named."""
    count = max(len(values["scores"] or ()), len(values["classifiers"] or ()))
    if values["method"] == PAIR and count > 2:
        values["method"] = COMBINE


def _settle_scores(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Score columns or classifiers, not both; the default classifiers where neither is given."""
    if values["scores"] and values["classifiers"]:
        if bool(is_flag.get("scores")) == bool(is_flag.get("classifiers")):
            raise ValueError(
                "both score columns and classifiers are given: choose --scores or --classifiers"
            )
        values["classifiers" if is_flag.get("scores") else "scores"] = None
    if not values["scores"] and not values["classifiers"]:
        values["classifiers"] = _CLASSIFIERS.get(values["method"], values["classifiers"])
    _check_number(values)


def _settle_learner(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """The learner of a method that has only one, how numbers are cut for it, and its depth."""
    if values["method"] in _LEARNERS:
        values["learner"] = _LEARNERS[values["method"]]
    if values["cuts"] is None:
        cuts_alone = values["method"] not in BOOSTERS or values["learner"] in _LEARNERS_OF_BITS
        values["cuts"] = "class_changes" if cuts_alone else UNCUT
    elif values["method"] in BOOSTERS and values["learner"] == "pool":
        if not gives_way("cuts", is_flag, to=("learner",)):
            raise ValueError(
                "--cuts converts numbers to bits, but the learner pool uses the columns themselves:"
                " omit it, or use --learner stumps"
            )
        values["cuts"] = UNCUT
    if values["method"] in BOOSTERS:
        _keep_to_learner(values, is_flag)


def _keep_to_learner(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Raises ValueError for a flag that the learner does not have. A value from a configuration
    file is ignored and replaced by the default.
    """
    for option in OPTIONS:
        learner = _OPTIONS_OF_LEARNERS.get(option.name, values["learner"])
        if learner == values["learner"]:
            continue
        if is_flag.get(option.name):
            flag = "--" + option.name.replace("_", "-")
            raise ValueError(
                f"{flag} is for --learner {learner}, and the learner is {values['learner']}: omit"
                f" it, or use --learner {learner}"
            )
        values[option.name] = option.default


def _settle_order(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """The number of literals of a rule, which is chosen for l0 only."""
    if values["max_order"] == CV and values["method"] != L0:
        if not gives_way("max_order", is_flag, to=("method",)):
            raise ValueError(
                f"{named('max_order', CV, is_flag)} is for the method {L0}, and the method is"
                f" {values['method']}: give a number to --max-order, or leave it out"
            )
        values["max_order"] = None
    if values["max_order"] is None:
        values["max_order"] = ORDERS.get(values["method"], ORDERS[L0])


def _settle_radius(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """A radius is for the measures that have one."""
    if values["measure"] not in WITHOUT_RADIUS or values["radius"] == AUTO:
        return
    if gives_way("radius", is_flag, to=("measure",)):
        values["radius"] = AUTO
        return
    raise ValueError(
        f"--radius {values['radius']:g} is for --measure cube or isotropic, and the measure is"
        f" {values['measure']}: change --measure or leave it out"
    )


def _settle_checkpoint(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """A state is saved between steps, which not every run of `combine` and of example weights
    makes.
    """
    needed = _needed_for_steps(values)
    if needed is None:
        return
    for name in ("checkpoint", "resume"):
        if is_flag.get(name):
            raise ValueError(f"--{name} is for the method {values['method']} with {needed}")
        values[name] = None if name == "checkpoint" else False


def _needed_for_steps(values: Mapping[str, Any]) -> str | None:
    """The option with which the run makes steps, for a message; None where it makes steps."""
    if values["method"] == COMBINE and values["strategy"] != "exact":
        return (
            f"--strategy exact, and the strategy is {values['strategy']}: add --strategy exact or"
            " leave it out"
        )
    penalties = set(values["penalty"])
    if values["method"] == EXAMPLE_WEIGHTS and len(penalties) == 1 and CV not in penalties:
        (penalty,) = penalties
        return (
            f"a choice of the penalty, and the penalty is {penalty:g}: give --penalty cv or several"
            " values, or leave it out"
        )
    return None


def _settle_candidates(values: dict[str, Any]) -> None:
    """The defaults that depend on the method, and the candidates of a cross-validation."""
    if values["rounds"] is None:
        values["rounds"] = L0_ROUNDS if values["method"] == L0 else ROUNDS
    values["nu"] = values["nu"] or ((NU_OF_NETWORKS,) if values["learner"] == "mlp" else (CV,))
    if CV in values["margin"]:
        values["margin"] = [*(value for value in values["margin"] if value != CV), *MARGINS]
    for option in OPTIONS:
        if option.num_values == ANY_NUMBER:
            values[option.name] = tuple(dict.fromkeys(values[option.name]))


def _keep_to_method(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Raises ValueError for a flag that the method does not have.

    A value from a configuration file that is meant for another method is ignored and replaced by
    the default. The exception is `weights`: its column would become a feature if it were ignored.
    """
    for option in OPTIONS:
        if values["method"] in option.methods:
            continue
        if is_flag.get(option.name):
            flag = "--" + option.name.replace("_", "-")
            raise ValueError(
                f"{flag} is for the method {' or '.join(option.methods)}, and the method is"
                f" {values['method']}: change --method or leave it out"
            )
        if option.name == "weights" and values["weights"] is not None:
            raise ValueError(
                f"weights is '{values['weights']}', but the method {values['method']} does not use"
                " weights: remove it from the configuration, and its column from the data, because"
                " the column would become a feature"
            )
        values[option.name] = option.default


def _check_number(values: Mapping[str, Any]) -> None:
    for name in ("scores", "classifiers"):
        count = len(values[name] or ())
        if values["method"] == COMBINE and 0 < count < 3:
            raise ValueError(
                f"{name} has {count} names, and the method {COMBINE} takes three or more: add"
                f" names, or choose --method {PAIR}"
            )


def _check_columns(values: Mapping[str, Any]) -> None:
    used = [
        name
        for name in (values["label"], values["weights"], *(values["scores"] or ()))
        if name is not None
    ]
    for name in used:
        if used.count(name) > 1:
            raise ValueError(
                f"the column '{name}' is named twice, among --label, --weights and --scores: give"
                " each its own column"
            )
    apart = {
        "--id": [values["id"]],
        **{f"--{key}": values[key] for key in ("ignore", "categorical", "date")},
    }
    for flag, names in apart.items():
        for name in names:
            if name in used:
                raise ValueError(
                    f"the column '{name}' is named by {flag}, and by --label, --weights or"
                    " --scores: leave it out of one"
                )
    for flag, names in apart.items():
        for other, others in apart.items():
            for name in set(names) & set(others) if flag < other else ():
                if name is not None:
                    raise ValueError(
                        f"the column '{name}' is named by {flag} and by {other}: leave it out"
                        " of one"
                    )


def _check_type(
    path: str | Path, option: Option, value: Any, *, may_be_longer: bool = False
) -> None:
    if option.num_values == ANY_NUMBER:
        parts = value if isinstance(value, list) else [value]
        fits = bool(parts) and all(_is_one(option, part) for part in parts)
        expected = f"{_name_of_one(option)} or a list of them"
    elif option.num_values > 1:
        is_list = isinstance(value, list) and all(isinstance(part, str) for part in value)
        fits = is_list and (
            len(value) == option.num_values or (may_be_longer and len(value) > option.num_values)
        )
        expected = f"a list of {option.num_values} strings{' or more' if may_be_longer else ''}"
    else:
        fits, expected = _is_one(option, value), _name_of_one(option)
    if not fits:
        raise ValueError(f"{path}: {option.name} is {value!r}: expected {expected}")


def _is_one(option: Option, value: Any) -> bool:
    """Whether `value`, from a configuration file, is one valid value of the option."""
    if isinstance(option.kind, tuple):
        return value in option.kind
    if option.kind is float:
        return (
            isinstance(value, int | float) and not isinstance(value, bool)
        ) or value in option.words
    return type(value) is option.kind or value in option.words


def _name_of_one(option: Option) -> str:
    if isinstance(option.kind, tuple):
        return " or ".join(map(repr, option.kind))
    if option.kind is float:
        return " or ".join(["a number", *map(repr, option.words)])
    of_kind = {str: "a string", int: "a whole number", bool: "true or false"}[option.kind]
    return " or ".join([of_kind, *map(repr, option.words)])
