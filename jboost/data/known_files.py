"""The data files that configurations of this project name: what they are, and how to get them."""

from __future__ import annotations

_BANANA = (
    "the banana set of Raetsch's benchmarks, 5,300 rows of x1, x2 and label (1 for +1, 0 for -1):"
    " take the points and labels of the entry 'banana' in benchmarks.mat of"
    " github.com/tdiethe/gunnar_raetsch_benchmark_datasets, and write them as .csv"
)


def _ripley(part: str, name: str, rows: str) -> str:
    return (
        f"Ripley's synthetic {part} set (1996), {rows} rows of xs, ys and label, which is"
        f' {name} of the R package MASS: Rscript -e "write.csv(setNames(MASS::{name},'
        " c('xs', 'ys', 'label')), 'FILE.csv', row.names = FALSE)\" writes it"
    )


_FILES = {
    "RIPLEY_TR.csv": _ripley("training", "synth.tr", "250"),
    "RIPLEY_TE.csv": _ripley("test", "synth.te", "1,000"),
    "BANANA.csv": _BANANA,
}


def how_to_get(name: str) -> str | None:
    """What a file of this name is and how to get it, as the end of a message; None for a name that
    is not known.

    >>> how_to_get("RIPLEY_TR.csv")[:29]
    "Ripley's synthetic training s"
    >>> how_to_get("my.csv") is None
    True
    """
    found = _FILES.get(name)
    return None if found is None else found.replace("FILE.csv", name)
