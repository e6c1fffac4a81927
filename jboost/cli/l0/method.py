"""L0-RBoost (Goldberg and Eckstein, 2009) for the command line.

`fit` chooses kappa, margin and vote and fits the rules: in one program, by the fit of large tables,
or by branch and cut. The bits of the columns come from `folds`, the candidates from `candidates`,
data set, learner and options from `prepared`, the best margin from `margin_search`; `description`
describes the result for the report.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from jboost import drive, l0
from jboost.base import loops
from jboost.base.boosting import Fit
from jboost.base.loops import OnStep
from jboost.base.status import Status
from jboost.base.types import Dataset
from jboost.cli import bits as bit_module
from jboost.cli import checkpointing, limits, sizes
from jboost.cli.l0 import large as l0_large
from jboost.cli.l0 import margin_search
from jboost.cli.l0.candidates import margins
from jboost.cli.l0.choice import CandidateChoice, candidate_losses
from jboost.cli.l0.folds import Inner
from jboost.cli.l0.prepared import dataset_of, maker_of, merge, options_of, search_of
from jboost.cli.option import SEARCH
from jboost.cli.options import Settings
from jboost.data import merging
from jboost.report import l0 as report_module

# The share of the time that is left for the choice of kappa, margin and vote; the fit has the rest.
_SHARE_OF_CHOICE = 0.6


@dataclasses.dataclass(frozen=True)
class ChosenL0Fit:
    """A fit, the chosen settings, and the choice that found them."""

    fit: Fit
    settings: Settings  # with one kappa, margin and vote
    choice: CandidateChoice | None = None  # None if there was one candidate
    # number of branching hypotheses, number of nodes and status of branch and cut
    exact: dict[str, Any] | None = None
    margin_search: dict[str, Any] | None = None  # of --margin search


def fit(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    *,
    num_attributes: int,
    has_gaps: bool,
    inner: Inner | None = None,
    num_rows: int | None = None,
    seconds: float | None = None,
    on_step: OnStep | None = None,
) -> ChosenL0Fit:
    """Fits rules to the rows where `chosen` [m] is True.

    Equal rows are merged. Sizes are padded, so that fits of similar size share one compilation. If
    there are several kappas, margins or votes, cross-validation on the folds `inner` chooses. Ties
    are broken in favour of the largest kappa, then the largest margin. With --margin search, the
    margin is searched first, and the result is that of the margin found.

    Args:
      bits: [m, N]. The columns from `num_attributes` on are padding.
      labels: [m] -1 or +1.
      weights: [m] cost of an error on each row, or None.
      chosen: [m] bool.
      settings: all options.
      num_attributes: the number of bits without the padding.
      has_gaps: whether a bit may be NaN. The search then takes longer.
      inner: the result of `choosing_folds`, or None if there is one candidate.
      num_rows: the largest number of distinct rows among the calls that share one compilation, or
        None for a single call.
      seconds: the time for this fit, or None for the rest of the time limit.
      on_step: called after each round, after each path of margins or fold of an order of a choice,
        and after each margin of a search. If it returns False in a choice, that ends, and the fit
        of the best candidate so far follows.
    """
    rows = (bits, labels, weights, chosen)
    shape: dict[str, Any] = {
        "num_attributes": num_attributes,
        "has_gaps": has_gaps,
        "num_rows": num_rows,
    }
    if settings.margin == (SEARCH,):
        return _fit_best_margin(rows, settings, shape, seconds, on_step)
    if inner is None and l0_large.serves(settings, int(chosen.sum()), bits.shape[1]):
        return _fit_large(*rows, settings, seconds, on_step)
    if inner is not None and l0_large.chooses_size(settings):
        return _choose_size(*rows, settings, inner, seconds, on_step)
    found = _fit_merged(*rows, settings, **shape, inner=inner, seconds=seconds, on_step=on_step)
    if Status(int(found.fit.status)) is Status.INVALID_INPUT:
        raise ValueError(f"l0 found no vote: {report_module.certificate(found.fit)['explanation']}")
    return found


def _fit_best_margin(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray],
    settings: Settings,
    shape: dict[str, Any],
    seconds: float | None,
    on_step: OnStep | None,
) -> ChosenL0Fit:
    """Searches the margin and fits the vote of the best.

    Where Ctrl-C ended the search, or no time is left, it is the vote that the search has found. The
    state of the search is saved for --checkpoint, that of the fit is not.
    """
    begun = time.monotonic()
    searched = margin_search.search(*rows, settings, seconds=seconds, on_step=on_step, **shape)
    settings = dataclasses.replace(
        settings, margin=(searched.numbers["margin"],), checkpoint=None, resume=False
    )
    if on_step is not None and limits.is_over():
        return ChosenL0Fit(searched.fit, settings, margin_search=searched.numbers)
    left = None if seconds is None else max(seconds - (time.monotonic() - begun), 0.0)
    found = fit(*rows, settings, seconds=left, on_step=on_step, **shape)
    return dataclasses.replace(found, margin_search=searched.numbers)


def _fit_large(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    seconds: float | None,
    on_step: OnStep | None,
) -> ChosenL0Fit:
    """Fits rules of one to three literals for one kappa, margin and kind of vote."""
    (margin,) = margins(settings, int(chosen.sum()))
    (kappa,), (vote,) = settings.kappa, settings.vote
    everything = bool(chosen.all())
    if not everything:
        bits, labels, weights = (
            bits[chosen],
            labels[chosen],
            None if weights is None else weights[chosen],
        )
    with jax.enable_x64(settings.precision == "float64"):
        fitted = l0_large.fit(
            bits,
            labels,
            weights,
            settings,
            search_of(vote, settings),
            margin=margin,
            on_step=on_step,
            seconds=seconds,
        )
    return ChosenL0Fit(
        fitted, dataclasses.replace(settings, kappa=(kappa,), margin=(margin,), vote=(vote,))
    )


def _choose_size(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    inner: Inner,
    seconds: float | None,
    on_step: OnStep | None,
) -> ChosenL0Fit:
    """Chooses order, number of rules, kappa and margin by cross-validation and fits the vote."""
    rhos = margins(settings, int(chosen.sum()))
    with jax.enable_x64(settings.precision == "float64"):
        sized = l0_large.choose(
            bits,
            labels,
            weights,
            chosen,
            settings,
            rhos,
            inner.held_out,
            list(inner.bits),
            on_step=on_step,
            seconds=seconds,
        )
    choice = sized.choice
    rules = int(choice.max_rules) or None
    found = dataclasses.replace(
        settings,
        max_order=int(choice.max_order),
        max_rules=rules,
        kappa=(float(choice.kappa),),
        margin=(float(choice.margin),),
        vote=settings.vote[:1],
    )
    return ChosenL0Fit(
        choice.fit, found, l0_large.describe(sized, settings, rhos, len(inner.held_out))
    )


def _fit_merged(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    *,
    num_attributes: int,
    has_gaps: bool,
    inner: Inner | None,
    num_rows: int | None,
    seconds: float | None,
    on_step: OnStep | None,
) -> ChosenL0Fit:
    """Merges equal rows and fits rules to them. A choice among several candidates comes first."""
    until_end = limits.until(on_step, seconds)
    bits = bit_module.widened(bits, sizes.literals(bits.shape[1]))
    inner = None if inner is None else inner.widened(sizes.literals(inner.bits.shape[2]))
    with jax.enable_x64(settings.precision == "float64"):
        merged = merge(_with_folds(bits, inner), labels, weights, chosen, num_rows, settings)
        dataset = merged.dataset._replace(features=merged.dataset.features[:, : bits.shape[1]])
        make_learner = maker_of(settings, num_attributes, int(chosen.sum()), has_gaps)
        fixed = options_of(settings)
        rhos = margins(settings, int(chosen.sum()))
        if inner is None:
            one = dataclasses.replace(settings, margin=tuple(rhos))
            fit_one = _prove if settings.exact > 0 else _fit_one
            return fit_one(dataset, make_learner, one, fixed, until_end)
        folds = {
            "held_out": _hold_out(merged, weights, chosen, inner, settings),
            "fold_features": _fold_features(merged.dataset, inner),
        }
        found = _choose(
            dataset, make_learner, folds, settings, rhos, fixed, on_step, until_end, seconds
        )
        if settings.exact == 0:
            return found
        proven = _prove(dataset, make_learner, found.settings, fixed, until_end)
        return dataclasses.replace(proven, choice=found.choice)


def _fit_one(
    dataset: Dataset,
    make_learner: Partial,
    settings: Settings,
    fixed: dict[str, Any],
    on_step: OnStep | None,
) -> ChosenL0Fit:
    """Fits rules for one kappa, margin and kind of vote."""

    def watch(state: Any, info: Any) -> bool:
        return loops.goes_on(on_step, state, _bounds(info))

    (kappa,), (margin,), (vote,) = settings.kappa, settings.margin, settings.vote
    learner, options = (
        make_learner(kappa),
        {"margin": float(margin), "search": search_of(vote, settings), **fixed},
    )
    with checkpointing.kept(
        settings, watch, lambda: l0.init(dataset, learner, **options), dataset
    ) as (save, initial):
        return ChosenL0Fit(
            jax.block_until_ready(
                l0.fit(dataset, learner, on_step=save, initial=initial, **options)
            ),
            settings,
        )


def _prove(
    dataset: Dataset,
    make_learner: Partial,
    settings: Settings,
    fixed: dict[str, Any],
    on_step: OnStep | None,
) -> ChosenL0Fit:
    """Fits rules for one kappa and margin by branch and cut, within `settings.exact` seconds."""
    # The time is measured from the first batch of nodes on.
    limit = functools.cache(lambda: drive.time_limit(settings.exact))

    def watch(state: Any, info: Any) -> bool:
        is_search = hasattr(info, "num_nodes")
        nodes = f", {int(info.num_nodes)} nodes" if is_search else ""
        goes_on = loops.goes_on(on_step, state, f"{_bounds(info)}{nodes}")
        return goes_on and (not is_search or bool(limit()(state, info)))

    (kappa,), (margin,) = settings.kappa, settings.margin
    learner, options = make_learner(kappa), {"margin": float(margin), **fixed}

    def like() -> l0.ExactFitState:
        return l0.ExactFitState(l0.init(dataset, learner, **options), None)

    with checkpointing.kept(settings, watch, like, dataset) as (save, initial):
        exactly = {"max_in_play": settings.max_in_play, **options}
        proven = jax.block_until_ready(
            l0.fit_exact(dataset, learner, on_step=save, initial=initial, **exactly)
        )
    fitted = proven.columns._replace(ensemble=proven.ensemble, certificate=proven.certificate)
    return ChosenL0Fit(fitted, settings, exact=report_module.describe_search(proven))


def _bounds(info: Any) -> str:
    return f"bounds {max(float(info.lower_bound), 0.0):.4g} to {float(info.upper_bound):.4g}"


def _choose(
    dataset: Dataset,
    make_learner: Partial,
    folds: dict[str, Any],
    settings: Settings,
    rhos: list[float],
    fixed: dict[str, Any],
    on_step: OnStep | None,
    until_end: OnStep | None,
    seconds: float | None,
) -> ChosenL0Fit:
    """Chooses kappa, margin and vote by cross-validation, and fits the rules.

    The choice takes at most its share of the time. Ctrl-C ends only the choice: the fit follows.
    """
    within_share = limits.within_share(on_step, seconds, _SHARE_OF_CHOICE)
    errors: np.ndarray = np.zeros((0, 0))

    def watch(state: l0.ChoiceState, progress: tuple[int, int]) -> bool:
        nonlocal errors
        errors = state.errors
        best = float(np.fmin.reduce(errors, axis=None))
        goes_on = loops.goes_on(within_share, state, f"least held-out loss {best:.2%}")
        if on_step is not None and not goes_on:
            limits.go_on_after_choice()
        return goes_on

    votes = [search_of(vote, settings) for vote in settings.vote]
    grid: dict[str, Any] = {"margins": rhos, "kappas": settings.kappa, "search": votes}
    choice = l0.choose(
        dataset,
        make_learner,
        key=jax.random.key(settings.seed),
        on_step=watch,
        on_round=_watched_fit(until_end, settings),
        **folds,
        **grid,
        **fixed,
    )
    return ChosenL0Fit(
        jax.block_until_ready(choice.fit),
        _settings_at(choice.place, settings, rhos),
        _candidates(choice, errors, settings, rhos),
    )


def _watched_fit(until_end: OnStep | None, settings: Settings) -> OnStep | None:
    """Returns the callback of the fit after a choice, or None if there is no `until_end`."""
    if until_end is None:
        return None

    def watch(state: Any, info: Any) -> bool:
        # `_prove` follows a choice with --exact, and fits the rules again
        return settings.exact == 0 and loops.goes_on(until_end, state, _bounds(info))

    return watch


def _settings_at(place: Any, settings: Settings, rhos: list[float]) -> Settings:
    """Returns the settings with the kappa, margin and vote at a place of the grid."""
    row, column, depth = (int(number) for number in place)
    return dataclasses.replace(
        settings,
        kappa=(settings.kappa[row],),
        margin=(rhos[column],),
        vote=(settings.vote[depth],),
    )


def _candidates(
    choice: l0.Choice, errors: np.ndarray, settings: Settings, rhos: list[float]
) -> CandidateChoice:
    """Returns the candidates of a choice, with the `errors` [K, F, L, S] of its folds."""
    grid = {"kappa": settings.kappa, "margin": rhos, "vote": settings.vote}
    num_folds = np.isfinite(errors).sum(axis=1)
    losses = candidate_losses(grid, choice.errors, choice.standard_errors, num_folds)
    return CandidateChoice(losses, num_folds.size, errors.shape[1])


def _with_folds(bits: np.ndarray, inner: Inner | None) -> np.ndarray:
    """Returns the bits of each row, followed by those that it has in the folds."""
    return bits if inner is None else np.concatenate([bits, inner.side_by_side()], axis=1)


def _fold_features(dataset: Dataset, inner: Inner) -> Any:
    """Returns the bits of the merged rows in each fold, [F, r, N']: the last columns of
    `_with_folds`.
    """
    num_folds, _, width = inner.bits.shape
    features = dataset.features[:, dataset.features.shape[1] - num_folds * width :]
    return features.reshape(len(dataset.labels), num_folds, width).swapaxes(0, 1)


def _hold_out(
    merged: merging.Merged,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    inner: Inner,
    settings: Settings,
) -> np.ndarray:
    """Returns the weight of the merged rows that each fold holds out, [F, r]."""
    sizes = np.ones(len(chosen)) if weights is None else weights.astype(np.float64)
    row_of, num_rows = np.asarray(merged.row_of)[chosen], merged.dataset.labels.shape[0]
    whole = np.bincount(row_of, weights=sizes[chosen], minlength=num_rows)
    shares = [  # exactly 1 if all original rows of a merged row are held out
        np.bincount(row_of, weights=np.where(fold, sizes, 0)[chosen], minlength=num_rows)
        / np.where(whole > 0, whole, 1)
        for fold in inner.held_out
    ]
    return np.stack(shares).astype(settings.precision) * np.asarray(merged.dataset.weights)


def num_distinct(
    bits: np.ndarray, labels: np.ndarray, chosen: np.ndarray, inner: Inner | None, precision: str
) -> int:
    """Returns the number of distinct rows among those where `chosen` [m] is True."""
    return merging.merge_equal(
        dataset_of(_with_folds(bits, inner), labels, None, chosen, precision)
    ).dataset.labels.shape[0]
