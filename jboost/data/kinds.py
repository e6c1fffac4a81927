"""What a column of a data file holds."""

from __future__ import annotations

import dataclasses

NUMBER, PERCENT, GROUPED, TRUTH, DATE, TEXT = (
    "number",
    "percent",
    "grouped",
    "truth",
    "date",
    "text",
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """How the cells of a column are read."""

    name: str  # NUMBER, PERCENT, GROUPED, TRUTH, DATE or TEXT
    group: str = ""  # the thousands separator of GROUPED
    order: str = ""  # of the parts of a DATE
    origin: float = 0.0  # the day that is 0, from the first of January 1970
    categories: tuple[str, ...] = ()  # of TEXT: those that training saw, where that is known

    @property
    def is_text(self) -> bool:
        return self.name == TEXT
