"""The kinds of columns of a data file."""

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
class ColumnKind:
    """The format of the cells of a column."""

    name: str  # NUMBER, PERCENT, GROUPED, TRUTH, DATE or TEXT
    group: str = ""  # the thousands separator of GROUPED
    order: str = ""  # of the parts of a DATE
    origin: float = 0.0  # the day that becomes 0, in days since 1970-01-01
    categories: tuple[str, ...] = ()  # of TEXT: the categories of training, if known

    @property
    def is_text(self) -> bool:
        return self.name == TEXT
