"""The boosting loop that all boosters share.

    dataset -> Learner.propose(example_weights) -> Proposal -> Booster.absorb(proposal) -> Absorbed
    -> ... -> Ensemble + Certificate

The learner proposes hypotheses. The booster takes their outputs and computes the next example
weights. A learner is a `Learner` or any other pytree with its three abstract methods. A booster is
anything with the methods of `Booster`. Both are pytrees, so that the numbers inside them may be
traced. `start`, `step` and `finish` run the rounds one by one. `run` runs them in one compiled
loop, and `drive` in a loop on the host, which a callback may stop.

The modules import each other in this order:

    types -> protocols -> validation, slots -> rounds -> drivers
"""

from jboost.base.boosting.drivers import (
    drive,
    fit,
    run,
)
from jboost.base.boosting.protocols import (
    Booster,
    Learner,
)
from jboost.base.boosting.rounds import (
    advance,
    begin,
    finish,
    start,
    step,
    unfinished,
    unless_invalid,
)
from jboost.base.boosting.slots import (
    before_first_round,
    enter_columns,
    spoil_unless,
    take_slot,
)
from jboost.base.boosting.types import (
    Absorbed,
    Certificate,
    Ensemble,
    Everything,
    Fit,
    Info,
    Proposal,
    State,
    Trace,
)
from jboost.base.boosting.validation import (
    check_arguments,
    check_kinds,
    has_negations,
    has_quick_answers,
    has_sound_weights,
    initial_distribution,
    is_valid,
    signs,
    validate_outputs,
    validate_size,
)

__all__ = [
    "Absorbed",
    "Booster",
    "Certificate",
    "Ensemble",
    "Everything",
    "Fit",
    "Info",
    "Learner",
    "Proposal",
    "State",
    "Trace",
    "advance",
    "before_first_round",
    "begin",
    "check_arguments",
    "check_kinds",
    "drive",
    "enter_columns",
    "finish",
    "fit",
    "has_negations",
    "has_quick_answers",
    "has_sound_weights",
    "initial_distribution",
    "is_valid",
    "run",
    "signs",
    "spoil_unless",
    "start",
    "step",
    "take_slot",
    "unfinished",
    "unless_invalid",
    "validate_outputs",
    "validate_size",
]
