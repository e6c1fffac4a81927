"""Flags and the configuration file that contradict each other: which value is kept, and what is
refused with the name of the option that was given.
"""

import pytest

from command_line import run_in
from jboost.cli import resolution

L0, BOOSTED, WEIGHTS = (
    {"method": method} for method in ("l0", "relaxed-margin", "example-weights")
)


def resolve(in_file, flags):
    values = {"data": "data.csv", "label": "ill"} | in_file | flags
    return resolution.resolve(values, dict.fromkeys(flags, True))


CONTRADICTIONS = [  # of the file, a flag, and an option of the file with the value that it gets
    (L0 | {"margin": ("search",), "margin_penalty": 0.05}, {"margin": (0.1,)}, "margin_penalty"),
    (WEIGHTS | {"radius": 5.0}, {"measure": "central"}, "radius"),
    (L0 | {"vote": ("relaxed",)}, {"exact": 5.0}, "vote"),
    (L0 | {"exact": 5.0}, {"vote": ("relaxed",)}, "exact"),
    (L0 | {"max_rules": 4}, {"exact": 5.0}, "max_rules"),
    (L0 | {"exact": 5.0}, {"max_rules": 4}, "exact"),
    (L0 | {"max_rules": 4}, {"vote": ("vertex",)}, "max_rules"),
    (L0 | {"vote": ("vertex",)}, {"max_rules": 4}, "vote"),
    (L0 | {"max_rules": "cv"}, {"vote": ("relaxed",)}, "max_rules"),
    (L0 | {"checkpoint": "states"}, {"kappa": (1.0, 2.0)}, "checkpoint"),
    (BOOSTED | {"vote_strength": 1.0}, {"update": "pairwise"}, "vote_strength"),
    (BOOSTED | {"update": "pairwise"}, {"vote_strength": 1.0}, "update"),
]


@pytest.mark.parametrize(("in_file", "flags", "name"), CONTRADICTIONS)
def test_a_flag_takes_precedence_over_the_file(in_file, flags, name):
    default = next(option.default for option in resolution.OPTIONS if option.name == name)
    settings = resolve(in_file, flags)
    assert getattr(settings, name) == default != in_file[name]
    for flag, value in flags.items():
        assert getattr(settings, flag) == value
    with pytest.raises(ValueError, match="--"):
        resolve(in_file | flags, {})
    with pytest.raises(ValueError, match="--"):
        resolve({}, in_file | flags)


def test_a_learner_and_a_method_take_precedence_over_options_of_others():
    cut = {"method": "lpboost", "cuts": "quantiles"}
    assert resolve(cut, {"learner": "pool"}).cuts == "none"
    rules = {"max_order": "cv", "learner": "monomials"}
    assert resolve(L0 | rules, {"method": "adaboost"}).max_order == 1


@pytest.mark.parametrize(
    ("in_file", "flags", "message"),
    [
        (
            L0 | {"kappa": (0.5, 1.5), "margin_penalty": 0.1},
            {"margin": ("search",)},
            "2 values are given of kappa in the configuration file: give one to --kappa",
        ),
        (
            L0 | {"max_order": "cv", "margin_penalty": 0.1},
            {"margin": ("search",)},
            "--margin search cannot be combined with max_order cv of the configuration file",
        ),
        (
            L0 | {"margin": ("search",), "margin_penalty": 0.1},
            {"max_order": "cv"},
            "margin search of the configuration file cannot be combined with --max-order cv",
        ),
        (
            L0 | {"max_order": "cv"},
            {"vote": ("vertex",)},
            "max_order cv of the configuration file: the order cannot be chosen with --vote vertex",
        ),
        (
            L0 | {"max_order": "cv"},
            {"exact": 5.0},
            "max_order cv of the configuration file chooses among sparse votes of l0: omit --exact",
        ),
        (
            {"method": "slipper", "max_order": "cv"},
            {},
            "max_order cv of the configuration file is for the method l0, and the method is slip",
        ),
        (
            {"method": "slipper"},
            {"max_order": "cv"},
            "--max-order cv is for the method l0, and the method is slipper: give a number",
        ),
        (
            L0 | {"checkpoint": "states"},
            {"kappa": (1.0, 2.0), "resume": True},
            "--checkpoint states: a choice by cross-validation",
        ),
    ],
)
def test_refusals_name_what_was_given(in_file, flags, message):
    with pytest.raises(ValueError, match=message):
        resolve(in_file, flags)


def test_a_flag_of_the_command_drops_the_penalty_of_the_file(tmp_path):
    (tmp_path / "search.toml").write_text(
        'data = "none.csv"\nlabel = "ill"\nmethod = "l0"\nmargin = "search"\n'
        "margin_penalty = 0.05\n",
        encoding="utf-8",
    )
    code, _, err = run_in(tmp_path, "fit", "--config", "search.toml", "--margin", "0.1")
    assert code == 2
    assert "none.csv: there is no such file" in err
