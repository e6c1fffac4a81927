"""L0-RBoost for the command line: every column as bits, one fit, and what is said about it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jboost import drive, l0, learners
from jboost.base.boosting import Ensemble, Fit
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.base.types import Dataset
from jboost.cli.options import AUTO, Settings
from jboost.data import binarization, merging
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping, Table
from jboost.monomials import SearchConfig, costs
from jboost.report import l0 as report_room

NUM_PROPOSED = 64  # rules that the answer to a question may bring
_MARGIN_TIMES_ROWS = 20.0
_VOTES: dict[str, l0.SearchConfig | l0.HingeConfig] = {"sparse": l0.SearchConfig(), "hinge": l0.HingeConfig()}
_WIDTH = 8  # bits are padded to a multiple, so that folds share one shape
_CONFIG = l0.RelaxationConfig(max_rounds=5)  # of cuts, between two questions
_LOOKED = "the code length takes the cuts as agreed on beforehand, and these looked at the labels: read the risk bound with that in mind"


def read_rows(table: Table, numeric: tuple[str, ...], categorical: tuple[str, ...]) -> np.ndarray:
    """The named columns side by side, [m, n]: what a binarizer takes."""
    return table.matrix(numeric, categorical)


def binarize(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, names: tuple[str, ...], settings: Settings, source: str) -> Binarizer:
    """The bits that the training rows call for; ValueError where there are none, or fewer than a rule may have literals."""
    with jax.enable_x64(settings.precision == "float64"):
        binarizer = binarization.fit(
            rows,
            labels,
            weights=weights,
            names=names,
            cuts=settings.cuts,
            num_quantiles=settings.quantiles,
            missing=settings.missing,
            min_separation=settings.min_separation,
        )
    if binarizer.num_bits == 0:
        raise ValueError(f"{source}: no column takes two values on the training rows, so there is nothing to ask: give columns that vary")
    if settings.max_order > binarizer.num_bits:
        most = binarizer.num_bits
        raise ValueError(f"max_order is {settings.max_order}, and the columns of {source} give {most} bits: choose --max-order {most} or less")
    return binarizer


def bits_of(binarizer: Binarizer, rows: np.ndarray, precision: str, *, width: int | None = None) -> np.ndarray:
    """The bits [m, N] of rows, or [m, width] with columns of 0 after them."""
    with jax.enable_x64(precision == "float64"):
        bits = np.asarray(binarization.apply(binarizer, rows)).astype(precision)
    return bits if width is None else np.pad(bits, ((0, 0), (0, width - bits.shape[1])))


def common_width(binarizers: list[Binarizer]) -> int:
    """A width for the bits of all."""
    return _WIDTH * -(-max(one.num_bits for one in binarizers) // _WIDTH)


def margin(settings: Settings, num_rows: int) -> float:
    """rho; where nothing is said 20 / m, as in the paper."""
    return min(1.0, _MARGIN_TIMES_ROWS / num_rows) if settings.margin == AUTO else float(settings.margin)


def fit(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    *,
    num_attributes: int,
    has_gaps: bool,
    num_rows: int | None = None,
    on_step: drive.OnStep | None = None,
) -> Fit:
    """One fit on the rows where `chosen` [m] is True, equal ones as one; equal shapes share one compilation.

    Args:
      bits: [m, N], columns from `num_attributes` on only pad.
      labels: [m] -1 or +1.
      weights: [m] what an error costs, or None.
      chosen: [m] bool.
      settings: all options.
      num_attributes: how many bits there are.
      has_gaps: whether a bit may be NaN, which takes longer.
      num_rows: room for so many distinct rows; None for as many as there are.
      on_step: called after each round.
    """
    config = SearchConfig(missing=has_gaps)
    with jax.enable_x64(settings.precision == "float64"):
        cost = costs.mdl(settings.kappa, num_attributes=num_attributes, num_examples=int(chosen.sum()))
        learner = learners.monomials(settings.max_order, cost=cost, num_proposed=NUM_PROPOSED, config=config)
        dataset = merging.merge_equal(_dataset(bits, labels, weights, chosen, settings.precision), num_rows=num_rows).dataset

        def watch(state: Any, info: Any) -> bool:
            lower, upper = max(float(info.lower_bound), 0.0), float(info.upper_bound)
            return on_step is None or on_step(state, f"bounds {lower:.4g} to {upper:.4g}")

        fitted = l0.fit(
            dataset,
            learner,
            margin=margin(settings, int(chosen.sum())),
            tolerance=settings.tolerance,
            max_rounds=settings.rounds,
            config=_CONFIG,
            search=_VOTES[settings.vote],
            on_step=watch,
        )
        fitted = jax.block_until_ready(fitted)
    if Status(int(fitted.status)) is Status.INVALID_INPUT:
        raise ValueError(f"l0 found no vote: {report_room.certificate(fitted)['explanation']}")
    return fitted


def num_distinct(bits: np.ndarray, labels: np.ndarray, chosen: np.ndarray, precision: str) -> int:
    """How many distinct rows there are among those where `chosen` [m] is True."""
    return merging.merge_equal(_dataset(bits, labels, None, chosen, precision)).dataset.labels.shape[0]


def _dataset(bits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, chosen: np.ndarray, precision: str) -> Dataset:
    sizes = np.ones(len(labels)) if weights is None else weights
    features, signs, prices, mask = (jax.numpy.asarray(part) for part in (bits, labels.astype(precision), sizes.astype(precision), chosen))
    return Dataset(features, signs, prices, mask)


def voting_part(ensemble: Ensemble, num_attributes: int, precision: str) -> Ensemble:
    """The ensemble without slots that have no vote (one at least is left) and without columns that only pad."""
    kept = report_room.voting(ensemble)
    kept = kept if len(kept) else np.zeros(1, np.int64)
    with jax.enable_x64(precision == "float64"):
        hypotheses = jax.tree.map(lambda leaf: leaf[kept], ensemble.hypotheses)
        hypotheses = hypotheses._replace(literals=hypotheses.literals[:, :num_attributes])
        return ensemble._replace(hypotheses=hypotheses, votes=ensemble.votes[kept], count=jax.numpy.int32(len(kept)))


def scores(ensemble: Ensemble, bits: np.ndarray, precision: str) -> np.ndarray:
    """The scores [k] of bits [k, N], in float64."""
    with jax.enable_x64(precision == "float64"):
        return np.asarray(_scores(ensemble, bits.astype(precision)), np.float64)


_scores = jax.jit(predict_scores)


def describe(
    fitted: Fit,
    ensemble: Ensemble,
    binarizer: Binarizer,
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    mapping: LabelMapping,
    settings: Settings,
) -> dict[str, Any]:
    """All that is said about a fit, ready for JSON.

    Args:
      fitted: for its certificate.
      ensemble: its voting part.
      binarizer: of the bits.
      bits: [m, N] the training rows.
      labels: [m].
      weights: [m] or None.
      mapping: of the labels.
      settings: all options.
    """
    with jax.enable_x64(settings.precision == "float64"):
        rules = report_room.describe_rules(ensemble, binarizer, bits, labels, mapping)
    values = scores(ensemble, bits, settings.precision)
    rho = margin(settings, len(labels))
    bounds = report_room.certificate(fitted)
    spent = sum(rule.cost for rule in rules)
    code = report_room.code_length(
        [rule.order for rule in rules],
        has_constant=float(ensemble.constant) != 0,
        num_errors=int((labels * values <= 0).sum()),
        num_examples=len(labels),
        num_attributes=binarizer.num_bits,
        max_order=settings.max_order,
    )
    looked = settings.cuts == "class_changes" or settings.min_separation is not None
    return {
        "max_order": settings.max_order,
        "margin": rho,
        "num_rounds": int(fitted.num_rounds),
        "attributes": {"bits": binarizer.num_bits, "constant_columns": list(binarizer.constant_attributes)},
        "rows": {"-1": int((labels < 0).sum()), "+1": int((labels > 0).sum())},
        "constant": float(ensemble.constant),
        "rules": [dataclasses.asdict(rule) for rule in rules],
        "cost_of_rules": spent,
        "margin_errors": (bounds["integer_upper_bound"] or spent) - spent,
        "certificate": bounds,
        "proven": report_room.in_words(bounds, max_order=settings.max_order, margin=rho),
        "code_length": code,
        "risk_bound": report_room.risk_bound(code["total"], len(labels)),
        "delta": report_room.DELTA,
        "notes": [_LOOKED] if looked else [],
    }
