"""Programs (5) of Naish-Guzman, Holden and Paquet for HiGHS, one at a time: the rank-one part split
off, in units of the largest disagreement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import linear_programs


def prepare(disagreement: np.ndarray, labels: np.ndarray, penalty: float) -> tuple[Any, float]:
    """The program over (d, b, gamma, xi) as HiGHS takes it, and its unit: its optimum times minus
    the unit is that of (5).
    """
    size = len(labels)
    signed = labels[:, None] * labels[None, :] * disagreement
    unit = float(np.abs(signed).max())
    margins = np.concatenate(
        [-signed / unit, labels[:, None], -np.ones((size, 1)), np.eye(size)], axis=1
    )
    balance = np.concatenate([labels, [-2 * unit, 0], np.zeros(size)])
    total = np.concatenate([np.ones(size), [0, 0], np.zeros(size)])
    program = linear_programs.prepare(
        objective=np.concatenate([np.zeros(size + 1), [-1.0], np.full(size, penalty)]),
        matrix=np.concatenate([margins, balance[None], total[None]]),
        row_lower=np.concatenate([np.zeros(size + 1), [1.0]]),
        row_upper=np.concatenate([np.full(size, np.inf), [0.0, 1.0]]),
        lower=np.concatenate([np.zeros(size), [-np.inf, -np.inf], np.zeros(size)]),
        upper=np.full(2 * size + 2, np.inf),
    )
    return program, unit


def optimum(prepared: tuple[Any, float]) -> float:
    """The optimum of (5), by HiGHS's simplex on one thread: this is the part to be timed."""
    program, unit = prepared
    return -linear_programs.run(program) * unit


def support_vector_error(
    train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray, seed: int
) -> tuple[float, int]:
    """The test error of scikit-learn's SVC, its C and gamma chosen by 5-fold cross-validation, and
    its number of support vectors.
    """
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    grid = {"svc__C": 10.0 ** np.arange(-1, 4), "svc__gamma": 10.0 ** np.arange(-2, 2)}
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC()),
        grid,
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
    )
    machine = search.fit(train, labels).best_estimator_
    return float(np.mean(machine.predict(test) != truth)), int(machine[-1].n_support_.sum())
