"""The relaxation of `--method relaxed-margin`: its options, their validation, and the object."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jboost import relaxations
from jboost.base.types import ArrayLike
from jboost.cli.option import CV, LPBOOST, RELAXED_MARGIN, Option
from jboost.cli.precedence import gives_way

HARD, SOFT, NORM_BALL, NORM_PENALTY, ENTROPY = (
    "hard",
    "soft",
    "norm-ball",
    "norm-penalty",
    "entropy",
)
NAMES = (HARD, SOFT, NORM_BALL, NORM_PENALTY, ENTROPY)
UPDATES = ("fully_corrective", "pairwise", "line_search", "analytic")
INFINITY, PAIRWISE = "inf", "pairwise"  # the order, which a configuration file writes as a string
# The relaxations that each option belongs to.
_USERS = {
    "nu": (SOFT, ENTROPY),
    "order": (NORM_BALL, NORM_PENALTY),
    "radius": (NORM_BALL,),
    "scale": (NORM_PENALTY, ENTROPY),
}
_NO_NU = 1.0  # stands in Settings where the relaxation has no nu; nothing reads it

RELAXATION_OPTIONS = (
    Option(
        "relaxation",
        NAMES,
        SOFT,
        "How the margin is relaxed. hard: the least margin. soft: at most --nu of the weight may be"
        " given up. norm-ball: example weights in a ball of --order and --radius. norm-penalty:"
        " their norm of --order times --scale. entropy: a smooth soft margin of --nu and --scale.",
        methods=(RELAXED_MARGIN,),
    ),
    Option(
        "update",
        UPDATES,
        UPDATES[0],
        "How votes move in a round: over all hypotheses so far, by moving weight between two of"
        " them, along a line to the new one, or along it by a step in closed form.",
        methods=(RELAXED_MARGIN,),
    ),
    Option(
        "order",
        float,
        2.0,
        "Order of the norm of the example weights, for --relaxation norm-ball and norm-penalty: a"
        " number from 1, or inf.",
        methods=(RELAXED_MARGIN,),
        metavar="ORDER",
        low=1,
        words=(INFINITY,),
    ),
    Option(
        "scale",
        float,
        None,
        "Factor of --relaxation norm-penalty and entropy, in units of the margin.",
        methods=(RELAXED_MARGIN,),
        metavar="SCALE",
        low=0,
        low_open=True,
    ),
    Option(
        "vote_strength",
        float,
        None,
        "Votes of any size, which cost STRENGTH / 2 times the square of the sum of their sizes, in"
        " place of votes whose sizes sum to 1 at most. Not with --update pairwise.",
        methods=(RELAXED_MARGIN,),
        metavar="STRENGTH",
        low=0,
        low_open=True,
    ),
)


@dataclasses.dataclass(frozen=True)
class Relaxing:
    """The relaxation and the update of a program, without its nu."""

    relaxation: str = SOFT
    update: str = UPDATES[0]
    order: float | str = 2.0  # a number or "inf"
    radius: Any = None  # a number; None where the relaxation has none
    scale: Any = None  # as the radius
    vote_strength: Any = None  # a number; None for votes whose sizes sum to 1 at most

    def votes(self) -> Any:
        """The cost of votes as an object of `jboost.relaxations`."""
        if self.vote_strength is None:
            return relaxations.unit_ball()
        return relaxations.squared_norm(self.vote_strength)

    def make(self, nu: ArrayLike) -> Any:
        """The relaxation as an object of `jboost.relaxations`."""
        if self.relaxation == HARD:
            return relaxations.hard_margin()
        if self.relaxation == NORM_BALL:
            return relaxations.norm_ball(float(self.order), self.radius)
        if self.relaxation == NORM_PENALTY:
            return relaxations.norm_penalty(float(self.order), self.scale)
        if self.relaxation == ENTROPY:
            return relaxations.binary_entropy(nu, self.scale)
        return relaxations.soft_margin(nu=nu)


def relaxing_of(settings: Any) -> Relaxing:
    """The part of the settings that says which relaxation and update to use."""
    radius = settings.radius if isinstance(settings.radius, int | float) else None
    return Relaxing(
        settings.relaxation,
        settings.update,
        settings.order,
        radius,
        settings.scale,
        settings.vote_strength,
    )


def has_soft_margin(settings: Any) -> bool:
    """Whether the method maximises a soft margin of some nu."""
    return settings.method == LPBOOST or (
        settings.method == RELAXED_MARGIN and settings.relaxation == SOFT
    )


def resolve(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """Validates the options of the relaxation, and sets `nu` where the relaxation has none.

    Raises:
      ValueError: for a flag that the relaxation does not have, and for a number that it needs.
    """
    if values["method"] != RELAXED_MARGIN:
        return
    name = values["relaxation"]
    for option, users in _USERS.items():
        if is_flag.get(option) and name not in users:
            raise ValueError(
                f"--{option} is for --relaxation {' or '.join(users)}, and the relaxation is"
                f" {name}: change --relaxation or leave it out"
            )
    if name == NORM_BALL and not isinstance(values["radius"], int | float):
        raise ValueError("--relaxation norm-ball needs a number: give --radius R")
    if name in _USERS["scale"] and values["scale"] is None:
        raise ValueError(f"--relaxation {name} needs a number: give --scale SCALE")
    if values["vote_strength"] is not None and values["update"] == PAIRWISE:
        _settle_update(values, is_flag)
    if name == ENTROPY and (len(values["nu"] or ()) != 1 or CV in values["nu"]):
        raise ValueError(
            "--relaxation entropy needs one number in (0, 1], which cross-validation does not"
            " choose: give one --nu NU"
        )
    if name not in _USERS["nu"]:
        values["nu"] = (_NO_NU,)


def _settle_update(values: dict[str, Any], is_flag: Mapping[str, bool]) -> None:
    """`--update pairwise` keeps the size of the votes, which `--vote-strength` changes."""
    if gives_way("vote_strength", is_flag, to=("update",)):
        values["vote_strength"] = None
    elif gives_way("update", is_flag, to=("vote_strength",)):
        values["update"] = UPDATES[0]
    else:
        raise ValueError(
            "--vote-strength is for votes of any size, and --update pairwise moves votes between"
            " rules: take another --update"
        )
