"""Base classifiers by name, trained by scikit-learn, whose real scores jboost combines."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jboost.base import check
from jboost.data.frames import is_missing
from jboost.data.table import Table, close_matches

if TYPE_CHECKING:
    import os

_LOWEST_PROBABILITY = 1e-3  # probabilities of classifiers that count examples are clipped to this


@dataclasses.dataclass(frozen=True)
class BaseFit:
    """Trained base classifiers, and the scores of the rows they were trained on."""

    names: tuple[str, ...]
    pipelines: tuple[Any, ...]  # scikit-learn pipelines, trained on all rows
    numeric: tuple[str, ...]  # the columns they read, in this order
    categorical: tuple[str, ...]
    scores: np.ndarray  # [m, number of names] float64
    source: Literal["out-of-fold", "in-sample"]  # of the scores
    notes: tuple[str, ...] = ()

    def predict_scores(self, table: Table) -> np.ndarray:
        """The scores of other rows, [k, number of names] float64; ValueError if a column is missing
        or of another kind.
        """
        matrix = table.matrix(self.numeric, self.categorical)
        if table.num_rows == 0:  # which scikit-learn refuses
            return np.empty((0, len(self.names)))
        with _quiet():
            return np.stack([score(pipeline, matrix) for pipeline in self.pipelines], axis=1)


def names() -> tuple[str, ...]:
    """The names of the available base classifiers.

    >>> names()
    ('forest', 'knn', 'lda', 'logistic', 'naive-bayes', 'qda', 'stump', 'svm', 'tree')
    """
    return tuple(sorted(_MODELS))


def fit_base(
    table: Table,
    classifiers: Sequence[str],
    *,
    seed: int = 0,
    folds: Sequence[np.ndarray] = (),
    scores: Literal["out-of-fold", "in-sample"] = "out-of-fold",
) -> BaseFit:
    """Trains base classifiers on all rows of a table and scores those rows.

    The scores of a classifier on its own training rows are too good, and a combination fitted to
    them would give the classifier too much weight. Therefore the scores of each fold come from
    classifiers that are trained without that fold. `scores="in-sample"` disables this. Missing
    numbers are replaced by the median, and an additional column marks them. Missing text is
    replaced by the most frequent text. Text is one-hot encoded; unknown text becomes zeros.

    Args:
      table: with labels.
      classifiers: distinct names from `names()`.
      seed: for the random parts of scikit-learn.
      folds: [m] bool each, True for held-out rows; each row is held out once. Used for out-of-fold
        scores only.
      scores: the origin of the scores of the training rows.

    Returns:
      A `BaseFit`. A score is the decision function or the log-odds of the class +1. It is finite,
      and positive scores predict +1.

    Raises:
      ValueError: if a name is unknown or given twice, if no column is left to learn from, or if the
        training rows of a fold are of one class.

    >>> from jboost.data import embedded
    >>> base = fit_base(embedded.load_table("wine"), ["lda", "tree"], scores="in-sample")
    >>> base.scores.shape
    (178, 2)
    """
    _check_names(classifiers)
    check.choice("scores", scores, ("out-of-fold", "in-sample"))
    if table.labels is None:
        raise ValueError(f"{table.source}: there are no labels to learn from: name their column")
    if not table.columns:
        raise ValueError(
            f"{table.source}: no column is left for the classifiers to learn from: the file holds"
            " the label (and the weights) alone"
        )
    numeric, categorical = tuple(table.numeric), tuple(table.categorical)
    matrix = table.matrix(numeric, categorical)
    _check_training_rows(table, matrix, len(numeric), folds)
    with _quiet() as messages:
        pipelines, columns = [], []
        for name in classifiers:
            with _named(name, table.source):
                pipeline, column = _train(
                    name, matrix, table.labels, len(numeric), seed, folds, scores
                )
                pipelines.append(pipeline)
                columns.append(column)
    return BaseFit(
        tuple(classifiers),
        tuple(pipelines),
        numeric,
        categorical,
        np.stack(columns, axis=1),
        scores,
        _as_notes(messages),
    )


def _check_training_rows(
    table: Table, matrix: np.ndarray, num_numeric: int, folds: Sequence[np.ndarray]
) -> None:
    """Raises ValueError if all rows, or those that a fold trains on, cannot train a classifier."""
    _check_variation(table, matrix, num_numeric, np.zeros(table.num_rows, bool), "all rows")
    for held_out in folds:
        _check_classes(table, held_out)
        _check_variation(table, matrix, num_numeric, held_out, "the rows that a fold trains on")


def _train(
    name: str,
    matrix: np.ndarray,
    labels: np.ndarray,
    num_numeric: int,
    seed: int,
    folds: Sequence[np.ndarray],
    scores: str,
) -> tuple[Any, np.ndarray]:
    """Returns the pipeline trained on all rows, and the scores of these rows."""
    pipeline = _fit(name, matrix, labels, num_numeric, seed)
    found = (
        score(pipeline, matrix)
        if scores == "in-sample"
        else _out_of_fold(name, matrix, labels, num_numeric, seed, folds)
    )
    if not np.all(np.isfinite(found)):
        raise ValueError("its scores are not finite; are all columns constant?")
    return pipeline, found


def score(pipeline: Any, matrix: np.ndarray) -> np.ndarray:
    """Finite real scores [k] of a trained pipeline; positive scores predict +1.

    The score is the decision function if the pipeline has one, else the log-odds of +1. The
    probabilities of classifiers that count examples, which may be 0, are clipped to
    [1e-3, 1 - 1e-3].
    """
    if hasattr(pipeline, "decision_function"):
        return np.asarray(pipeline.decision_function(matrix), np.float64)
    positive = list(pipeline.classes_).index(1.0)
    if not _counts_examples(pipeline):
        log_probabilities = np.asarray(pipeline.predict_log_proba(matrix), np.float64)
        return log_probabilities[:, positive] - log_probabilities[:, 1 - positive]
    probabilities = np.asarray(pipeline.predict_proba(matrix), np.float64)[:, positive]
    clipped = np.clip(probabilities, _LOWEST_PROBABILITY, 1 - _LOWEST_PROBABILITY)
    return np.log(clipped) - np.log1p(-clipped)


def _counts_examples(pipeline: Any) -> bool:
    from sklearn.naive_bayes import GaussianNB

    return not isinstance(pipeline[-1], GaussianNB)


def save_base(base: BaseFit, path: str | os.PathLike[str]) -> None:
    """Writes trained base classifiers to a file of skops, which contains no pickle. The scores are
    not written.
    """
    import skops.io

    skops.io.dump(
        {
            field: getattr(base, field)
            for field in ("names", "pipelines", "numeric", "categorical", "source")
        },
        path,
    )


def load_base(path: str | os.PathLike[str]) -> BaseFit:
    """Reads a file of `save_base`. No code in the file is executed.

    Raises:
      ValueError: if the file is missing or damaged, or contains types that the base classifiers of
        jboost do not use.
    """
    import skops.io

    try:
        unknown = sorted(set(skops.io.get_untrusted_types(file=path)) - _TRUSTED)
        if unknown:
            raise ValueError(
                f"{path}: the file holds types that jboost does not trust: {', '.join(unknown)}"
            )
        fields = skops.io.load(path, trusted=sorted(_TRUSTED))
        return BaseFit(scores=np.empty((0, len(fields["names"]))), **fields)
    except ValueError:
        raise
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file: fit the model again") from None
    except Exception as error:
        raise ValueError(
            f"{path}: not readable as base classifiers ({type(error).__name__}): fit the model"
            " again"
        ) from error


# --- the classifiers ------------------------------------------------------------------------------


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=100, min_samples_leaf=3, random_state=seed)


def _knn(seed: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(n_neighbors=9, weights="distance", algorithm="brute")


def _lda(seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis()


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000, random_state=seed)


def _naive_bayes(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB(var_smoothing=1e-2)


def _qda(seed: int) -> Any:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    return QuadraticDiscriminantAnalysis(reg_param=0.1)


def _stump(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=1, random_state=seed)


def _svm(seed: int) -> Any:
    from sklearn.svm import SVC

    return SVC(random_state=seed)


def _tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=seed)


_MODELS: dict[str, Callable[[int], Any]] = {
    "forest": _forest,
    "knn": _knn,
    "lda": _lda,
    "logistic": _logistic,
    "naive-bayes": _naive_bayes,
    "qda": _qda,
    "stump": _stump,
    "svm": _svm,
    "tree": _tree,
}
# The types in the pipelines above that skops does not trust by default: dtypes, and the arrays of a
# decision tree.
_TRUSTED = frozenset({"numpy.dtype", "sklearn.tree._tree.Tree"})


def _pipeline(name: str, num_numeric: int, num_columns: int, seed: int) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    )
    text = make_pipeline(
        SimpleImputer(missing_values=None, strategy="most_frequent", keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    positions = list(range(num_columns))
    parts = [("numbers", numbers, positions[:num_numeric]), ("text", text, positions[num_numeric:])]
    return make_pipeline(
        ColumnTransformer([part for part in parts if part[2]]), _MODELS[name](seed)
    )


def _fit(name: str, matrix: np.ndarray, labels: np.ndarray, num_numeric: int, seed: int) -> Any:
    return _pipeline(name, num_numeric, matrix.shape[1], seed).fit(matrix, labels)


def _out_of_fold(
    name: str,
    matrix: np.ndarray,
    labels: np.ndarray,
    num_numeric: int,
    seed: int,
    folds: Sequence[np.ndarray],
) -> np.ndarray:
    if not np.array_equal(np.sum(folds, axis=0), np.ones(len(labels))):
        raise ValueError(
            "folds do not hold every row out once: make them with jboost.folds.stratified_folds"
        )
    scores = np.empty(len(labels))
    for held_out in folds:
        scores[held_out] = score(
            _fit(name, matrix[~held_out], labels[~held_out], num_numeric, seed), matrix[held_out]
        )
    return scores


# --- checks and messages --------------------------------------------------------------------------


def _check_names(classifiers: Sequence[str]) -> None:
    for name in classifiers:
        if name not in _MODELS:
            raise ValueError(
                f"there is no base classifier '{name}'; {close_matches(name, names(), 'there are')}"
            )
    if len(set(classifiers)) < len(classifiers):
        raise ValueError(
            f"the base classifiers {', '.join(classifiers)} are not distinct: name different ones"
        )


def _check_classes(table: Table, held_out: np.ndarray) -> None:
    assert table.labels is not None
    if len(np.unique(table.labels[~held_out])) < 2:
        smaller = min(int((table.labels == sign).sum()) for sign in (-1, 1))
        raise ValueError(
            f"{table.source}: the smaller class has {smaller} row(s), so a fold leaves one class"
            " only to train on: give more rows"
        )


def _check_variation(
    table: Table, matrix: np.ndarray, num_numeric: int, held_out: np.ndarray, rows: str
) -> None:
    """Raises ValueError if no column takes two values. In a column of numbers, missing counts as a
    value.
    """
    if any(
        _varies(column, index < num_numeric) for index, column in enumerate(matrix[~held_out].T)
    ):
        return
    shown = ", ".join(repr(name) for name in table.columns[:12])
    raise ValueError(
        f"{table.source}: no column ({shown}) takes two values on {rows}, so no classifier can tell"
        " them apart: give a column that varies, or more rows"
    )


def _varies(column: np.ndarray, is_numeric: bool) -> bool:
    """Whether a column takes two values. In a numeric column, missing counts as a value, because an
    additional column marks it.
    """
    values = set(column.tolist())
    known = {value for value in values if not is_missing(value)}
    return len(known) > 1 or (is_numeric and 0 < len(known) < len(values))


@contextlib.contextmanager
def _named(name: str, source: str) -> Iterator[None]:
    """Adds the name of the classifier to an error of scikit-learn."""
    try:
        yield
    except (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"{source}: the base classifier '{name}' cannot be trained:"
            f" {str(error).strip().splitlines()[0]}"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[list[str]]:
    """Collects the warnings of scikit-learn instead of showing them."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        yield messages
        messages.extend(str(warning.message) for warning in caught)


def _as_notes(messages: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"scikit-learn warned: {message.strip().splitlines()[0]}"
        for message in dict.fromkeys(messages)
    )
