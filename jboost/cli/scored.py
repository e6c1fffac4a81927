"""The scores that `jboost fit` combines, for the methods pair and combine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jboost.cli import inputs
from jboost.cli.fitting import Opening
from jboost.cli.inputs import HostExamples
from jboost.cli.options import Settings
from jboost.cli.output import BASE
from jboost.data import classifiers
from jboost.data.classifiers import BaseFit
from jboost.report import build


class ScoredRows(NamedTuple):
    """The scores of the training rows and of the held-out rows, and where they come from."""

    names: tuple[str, ...]  # of the classifiers
    examples: HostExamples  # the training rows
    # points, labels and weights of the held-out rows in float64, or None if there are none
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    base: BaseFit | None  # the trained classifiers; None if the scores are columns of the table

    def metadata(self) -> dict[str, Any]:
        """Returns the metadata of the model file."""
        names = list(self.names)
        return {"names": names, "score_columns": None if self.base else names}

    def describe(self, opening: Opening) -> dict[str, Any]:
        """Returns the sections of the report on the data and the classifiers."""
        return {
            "data": opening.describe_data(self.base.notes if self.base else ()),
            "base_classifiers": build.describe_base(self.names, self.base),
        }

    def save_base(self, folder: Path) -> None:
        """Writes the trained classifiers, if there are any, into the folder."""
        if self.base:
            classifiers.save_base(self.base, folder / BASE)


def score(opening: Opening, settings: Settings) -> ScoredRows:
    """Returns the scores of the rows of a fit. Trains the base classifiers, if there are any."""
    names = settings.scores or settings.classifiers
    assert names is not None
    training = opening.source.rows(opening.kept)
    examples, base = inputs.score_training_rows(training, settings)
    held_out = opening.read_held_out(lambda part: inputs.score_other_rows(part, settings, base))
    return ScoredRows(names, examples, held_out, base)
