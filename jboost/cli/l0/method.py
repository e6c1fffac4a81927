"""L0-RBoost (Goldberg and Eckstein, 2009) for the command line.

The columns are converted to bits. Then kappa, margin and vote are chosen and the rules are fitted.
The result is described for the report.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from jboost import drive, l0, learners
from jboost.base import loops
from jboost.base.boosting import Ensemble, Fit
from jboost.base.loops import OnStep
from jboost.base.padding import pad_dataset
from jboost.base.status import Status
from jboost.base.types import Dataset
from jboost.cli import bits as bit_module
from jboost.cli import checkpointing, inputs, sizes
from jboost.cli.l0 import large as l0_large
from jboost.cli.option import CV
from jboost.cli.options import AUTO, Settings
from jboost.cli.votes import scores
from jboost.data import merging
from jboost.data.binarization import Binarizer
from jboost.data.table import LabelMapping, Table
from jboost.monomials import SearchConfig, costs
from jboost.report import l0 as report_module

NUM_PROPOSED = 64  # largest number of rules that one call of the learner returns
_MARGIN_TIMES_ROWS = 20.0  # --margin auto is this over the number of rows, as in the paper
_MOST_LITERALS = 3  # largest order that --max-order cv considers
_VOTES: dict[str, Callable[..., Any]] = {
    "sparse": l0.SearchConfig,
    "relaxed": l0.RelaxedConfig,
    "coefficients": l0.CoefficientsConfig,
    "vertex": l0.VertexConfig,
}
# The votes that are solutions of the relaxation, of any number of rules.
_SOLUTIONS = ("coefficients", "vertex")
_ROUNDING = 1e-6  # relative rounding error of a cost in float32
_STREAM = 3  # random stream of the folds for the choice; `evaluate` uses another one
_CONFIG = l0.RelaxationConfig(max_rounds=5)  # rounds of cuts between two calls of the learner
_CUTS_USED_LABELS = (
    "the code length assumes cuts that were fixed in advance, but these cuts depend on the labels:"
    " the risk bound does not account for that"
)


def read_rows(table: Table, numeric: tuple[str, ...], categorical: tuple[str, ...]) -> np.ndarray:
    """Returns the named columns as one array [m, n] for a binarizer."""
    return table.matrix(numeric, categorical)


def binarize(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    names: tuple[str, ...],
    settings: Settings,
    source: str,
) -> Binarizer:
    """Fits the binarizer to the training rows.

    Raises:
      ValueError: if there are no bits, or fewer bits than literals allowed in a rule.
    """
    binarizer = bit_module.binarizer_of(rows, labels, weights, names, settings)
    bit_module.refuse_none(binarizer, source)
    if settings.max_order != CV and settings.max_order > binarizer.num_bits:
        most = binarizer.num_bits
        raise ValueError(
            f"max_order is {settings.max_order}, and the columns of {source} give {most} bits:"
            f" choose --max-order {most} or less"
        )
    return binarizer


@dataclasses.dataclass(frozen=True)
class Inner:
    """The folds for the choice of kappa, margin and vote.

    Each fold has its own bits, which are fitted to the training rows of the fold.
    """

    held_out: np.ndarray  # [F, m] bool, within the training rows
    bits: np.ndarray  # [F, m, N'], padded with columns of 0

    def widened(self, width: int) -> Inner:
        """Returns the folds with padding columns, so that there are `width` columns."""
        return Inner(self.held_out, bit_module.widened(self.bits, width))

    def side_by_side(self) -> np.ndarray:
        """Returns the bits of all folds, [m, F N']."""
        return np.concatenate(list(self.bits), axis=1)

    def have_gaps(self, chosen: np.ndarray) -> bool:
        """Whether the bits of the training rows of any fold contain NaN."""
        return bool((np.isnan(self.bits).any(axis=2) & chosen & ~self.held_out).any())


def choosing_folds(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    names: tuple[str, ...],
    settings: Settings,
) -> Inner | None:
    """Returns stratified folds of the rows where `chosen` [m] is True, each with its own bits.

    The result is None if there is only one candidate.
    """
    if num_choices(settings) == 1:
        return None
    held_out = np.zeros((settings.folds, len(labels)), bool)
    held_out[:, chosen] = inputs.hold_out_masks(labels[chosen], settings, stream=_STREAM)
    binarizers = [
        bit_module.binarizer_of(rows, labels, weights, names, settings, mask=chosen & ~fold)
        for fold in held_out
    ]
    width = max(
        common_width(binarizers), _MOST_LITERALS if settings.max_order == CV else settings.max_order
    )
    return Inner(
        held_out,
        np.stack(
            [bit_module.apply(one, rows, settings.precision, width=width) for one in binarizers]
        ),
    )


def common_width(binarizers: list[Binarizer]) -> int:
    """Returns the largest number of bits of the binarizers."""
    return max(one.num_bits for one in binarizers)


def margins(settings: Settings, num_rows: int) -> list[float]:
    """Returns the candidates of rho. "auto" is 20 / m, as in Goldberg and Eckstein (2009)."""
    named = [
        min(1.0, _MARGIN_TIMES_ROWS / num_rows) if value == AUTO else float(value)
        for value in settings.margin
    ]
    return sorted(set(named))


def num_choices(settings: Settings) -> int:
    """Returns the number of candidates: combinations of kappa, margin, vote, order and number of
    rules.
    """
    orders, rules = l0_large.orders(settings), l0_large.numbers_of_rules(settings)
    return (
        len(settings.kappa) * len(settings.margin) * len(settings.vote) * len(orders) * len(rules)
    )


def num_steps(settings: Settings) -> int:
    """Returns the expected number of calls of `on_step` by `fit`.

    The steps of branch and cut are not included, because their number is not known in advance.
    """
    if num_choices(settings) == 1:
        return settings.rounds
    if l0_large.chooses_size(settings):
        return settings.folds * len(l0_large.orders(settings)) + settings.rounds
    return len(settings.kappa) * settings.folds + (settings.rounds if settings.exact > 0 else 0)


@dataclasses.dataclass(frozen=True)
class Found:
    """A fit, the chosen settings, and the held-out losses of the candidates."""

    fit: Fit
    settings: Settings  # with one kappa, margin and vote
    # For each candidate its kappa, margin and vote, the mean and standard error of its loss, and
    # max_order and max_rules if they are chosen. Empty if there was one candidate.
    losses: tuple[dict[str, Any], ...]
    # number of branching hypotheses, number of nodes and status of branch and cut
    exact: dict[str, Any] | None = None


def check_checkpoint(settings: Settings) -> None:
    """Raises ValueError if `--checkpoint` is given for a fit whose state cannot be saved."""
    if settings.checkpoint is None or settings.exact > 0:
        return
    is_one_program = num_choices(settings) > 1 or CV in (settings.max_order, settings.max_rules)
    if is_one_program or l0_large.serves(settings):
        kind = (
            "chooses by cross-validation"
            if is_one_program
            else f"has rules of up to {settings.max_order} literals"
        )
        raise ValueError(
            f"--checkpoint {settings.checkpoint}: a fit of l0 that {kind} cannot be resumed: use"
            " --exact, or one --margin, --kappa and --vote with --max-order 3 or more, or omit"
            " --checkpoint"
        )


def check_vote(settings: Settings) -> None:
    """Raises ValueError if a vote that is a solution of the relaxation is combined with an option
    that it excludes: `--max-rules` or `--max-order cv`.
    """
    for vote in settings.vote:
        if vote in _SOLUTIONS and settings.max_rules is not None:
            raise ValueError(
                f"--max-rules {settings.max_rules}: --vote {vote} uses all rules of the solution of"
                " the relaxation: omit --max-rules, or use --vote relaxed"
            )
        if vote in _SOLUTIONS and settings.max_order == CV:
            raise ValueError(
                f"--max-order {CV}: the order cannot be chosen with --vote {vote}: give a number,"
                " or use another --vote"
            )


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
) -> Found:
    """Fits rules to the rows where `chosen` [m] is True.

    Equal rows are merged. Sizes are padded, so that fits of similar size share one compilation. If
    there are several kappas, margins or votes, cross-validation on the folds `inner` chooses. Ties
    are broken in favour of the largest kappa, then the largest margin.

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
      on_step: called after each round, or after each path of margins if there is a choice.
    """
    if inner is None and l0_large.serves(settings):
        return _fit_large(bits, labels, weights, chosen, settings, seconds, on_step)
    if inner is not None and l0_large.chooses_size(settings):
        return _choose_size(bits, labels, weights, chosen, settings, inner, seconds, on_step)
    bits = bit_module.widened(bits, sizes.literals(bits.shape[1]))
    inner = None if inner is None else inner.widened(sizes.literals(inner.bits.shape[2]))
    with jax.enable_x64(settings.precision == "float64"):
        looks = bits if inner is None else np.concatenate([bits, inner.side_by_side()], axis=1)
        merged = merging.merge_equal(_dataset(looks, labels, weights, chosen, settings.precision))
        most_rows = max(len(merged.dataset.labels), num_rows or 0)
        merged = merged._replace(
            dataset=pad_dataset(merged.dataset, num_examples=sizes.superlinear(most_rows))
        )
        dataset = merged.dataset._replace(features=merged.dataset.features[:, : bits.shape[1]])
        make_learner = Partial(
            _maker(settings.max_order, has_gaps), num_attributes, int(chosen.sum())
        )
        fixed: dict[str, Any] = {
            "tolerance": settings.tolerance,
            "max_rounds": settings.rounds,
            "max_columns": settings.max_columns,
            "config": dataclasses.replace(_CONFIG, capacity=settings.capacity),
        }
        rhos = margins(settings, int(chosen.sum()))
        if inner is None:
            fit_one = _prove if settings.exact > 0 else _fit_one
            found = fit_one(
                dataset,
                make_learner,
                dataclasses.replace(settings, margin=tuple(rhos)),
                fixed,
                on_step,
            )
        else:
            features = merged.dataset.features[:, bits.shape[1] :].reshape(
                len(dataset.labels), *inner.bits.shape[::2]
            )
            folds = {
                "held_out": _hold_out(merged, weights, chosen, inner, settings),
                "fold_features": features.swapaxes(0, 1),
            }
            found = _choose(dataset, make_learner, folds, settings, rhos, fixed, on_step)
            if settings.exact > 0:
                found = dataclasses.replace(
                    _prove(dataset, make_learner, found.settings, fixed, on_step),
                    losses=found.losses,
                )
    if Status(int(found.fit.status)) is Status.INVALID_INPUT:
        raise ValueError(f"l0 found no vote: {report_module.certificate(found.fit)['explanation']}")
    return found


def _fit_large(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    settings: Settings,
    seconds: float | None,
    on_step: OnStep | None,
) -> Found:
    """Fits rules of one or two literals for one kappa, margin and kind of vote."""
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
            _search(vote, settings),
            margin=margin,
            on_step=on_step,
            seconds=seconds,
        )
    return Found(
        fitted, dataclasses.replace(settings, kappa=(kappa,), margin=(margin,), vote=(vote,)), ()
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
) -> Found:
    """Chooses order, number of rules, kappa and margin by cross-validation and fits the vote."""
    rhos = margins(settings, int(chosen.sum()))
    with jax.enable_x64(settings.precision == "float64"):
        choice = l0_large.choose(
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
    rules = int(choice.max_rules) or None
    found = dataclasses.replace(
        settings,
        max_order=int(choice.max_order),
        max_rules=rules,
        kappa=(float(choice.kappa),),
        margin=(float(choice.margin),),
        vote=settings.vote[:1],
    )
    return Found(choice.fit, found, l0_large.losses(choice, settings, rhos))


@functools.lru_cache
def _maker(max_order: int, has_gaps: bool) -> Callable[..., Any]:
    """Returns a function that makes a learner from the numbers of attributes and rows and kappa.

    The function is cached: JAX compiles again for a new function object.
    """
    config = SearchConfig(missing=has_gaps)

    def make_learner(num_attributes: Any, num_rows: Any, kappa: Any) -> Any:
        cost = costs.mdl(kappa, num_attributes=num_attributes, num_examples=num_rows)
        return learners.monomials(max_order, cost=cost, num_proposed=NUM_PROPOSED, config=config)

    return make_learner


def _search(vote: str, settings: Settings) -> Any:
    """Returns the configuration of the final vote."""
    return (
        _VOTES[vote]()
        if settings.max_rules is None
        else _VOTES[vote](max_hypotheses=settings.max_rules)
    )


def _fit_one(
    dataset: Dataset,
    make_learner: Partial,
    settings: Settings,
    fixed: dict[str, Any],
    on_step: OnStep | None,
) -> Found:
    """Fits rules for one kappa, margin and kind of vote."""

    def watch(state: Any, info: Any) -> bool:
        return loops.goes_on(on_step, state, _bounds(info))

    (kappa,), (margin,), (vote,) = settings.kappa, settings.margin, settings.vote
    learner, options = (
        make_learner(kappa),
        {"margin": float(margin), "search": _search(vote, settings), **fixed},
    )
    with checkpointing.kept(
        settings, watch, lambda: l0.init(dataset, learner, **options), dataset
    ) as (save, initial):
        return Found(
            jax.block_until_ready(
                l0.fit(dataset, learner, on_step=save, initial=initial, **options)
            ),
            settings,
            (),
        )


def _prove(
    dataset: Dataset,
    make_learner: Partial,
    settings: Settings,
    fixed: dict[str, Any],
    on_step: OnStep | None,
) -> Found:
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
    return Found(fitted, settings, (), report_module.describe_search(proven))


def _bounds(info: Any) -> str:
    return f"bounds {max(float(info.lower_bound), 0.0):.4g} to {float(info.upper_bound):.4g}"


def _choose(
    dataset: Dataset,
    make_learner: Partial,
    folds: dict[str, Any],
    settings: Settings,
    rhos: list[float],
    fixed: dict[str, Any],
    on_step: Any,
) -> Found:
    def watch(errors: Any, progress: tuple[int, int]) -> bool:
        return loops.goes_on(on_step, errors, f"held-out loss {float(errors.min()):.2%}")

    votes = [_search(vote, settings) for vote in settings.vote]
    grid: dict[str, Any] = {"margins": rhos, "kappas": settings.kappa, "search": votes}
    choice = l0.choose(
        dataset,
        make_learner,
        key=jax.random.key(settings.seed),
        on_step=watch,
        **folds,
        **grid,
        **fixed,
    )
    means, spreads = (
        np.asarray(choice.errors, np.float64),
        np.asarray(choice.standard_errors, np.float64),
    )
    candidates = list(np.ndindex(means.shape))
    losses: list[dict[str, Any]] = [
        {
            "kappa": settings.kappa[index[0]],
            "margin": rhos[index[1]],
            "vote": settings.vote[index[2]],
            "mean": means[index],
            "standard_error": spreads[index],
        }
        for index in candidates
    ]
    best = losses[candidates.index(tuple(int(number) for number in choice.place))]
    chosen = dataclasses.replace(
        settings, kappa=(best["kappa"],), margin=(best["margin"],), vote=(best["vote"],)
    )
    return Found(jax.block_until_ready(choice.fit), chosen, tuple(losses))


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
    if inner is not None:
        bits = np.concatenate([bits, inner.side_by_side()], axis=1)
    return merging.merge_equal(
        _dataset(bits, labels, None, chosen, precision)
    ).dataset.labels.shape[0]


def _dataset(
    bits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    chosen: np.ndarray,
    precision: str,
) -> Dataset:
    sizes = np.ones(len(labels)) if weights is None else weights
    features, signs, prices, mask = (
        jax.numpy.asarray(part)
        for part in (bits, labels.astype(precision), sizes.astype(precision), chosen)
    )
    return Dataset(features, signs, prices, mask)


def _beyond(total: float, part: float) -> float:
    """Returns `total - part`, or 0 if the difference is within rounding.

    >>> _beyond(3.0 + 1e-13, 3.0), _beyond(5.0, 3.0)
    (0.0, 2.0)
    """
    rest = total - part
    return rest if rest > _ROUNDING * total else 0.0


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
    """Returns the description of a fit for the report, in types that JSON supports.

    Args:
      fitted: the fit; its certificate is described.
      ensemble: the rules with a vote.
      binarizer: the binarizer of the bits.
      bits: [m, N] the training rows.
      labels: [m].
      weights: [m] or None.
      mapping: the mapping of the labels.
      settings: all options, with one kappa, margin and vote.
    """
    with jax.enable_x64(settings.precision == "float64"):
        rules = report_module.describe_rules(ensemble, binarizer, bits, labels, mapping)
    values = scores(ensemble, bits, settings.precision)
    (rho,) = margins(settings, len(labels))
    bounds = report_module.certificate(fitted)
    spent = sum(rule.cost for rule in rules)
    code = report_module.code_length(
        [rule.order for rule in rules],
        has_constant=float(ensemble.constant) != 0,
        num_errors=int((labels * values <= 0).sum()),
        num_examples=len(labels),
        num_attributes=binarizer.num_bits,
        max_order=settings.max_order,
    )
    cuts_used_labels = settings.cuts == "class_changes" or settings.min_separation is not None
    return {
        "max_order": settings.max_order,
        "margin": rho,
        "num_rounds": int(fitted.num_rounds),
        "attributes": {
            "bits": binarizer.num_bits,
            "constant_columns": list(binarizer.constant_attributes),
        },
        "rows": {"-1": int((labels < 0).sum()), "+1": int((labels > 0).sum())},
        "constant": float(ensemble.constant),
        "rules": [dataclasses.asdict(rule) for rule in rules],
        "cost_of_rules": spent,
        "margin_errors": _beyond(bounds["integer_upper_bound"] or spent, spent),
        "certificate": bounds,
        "proven": report_module.in_words(bounds, max_order=settings.max_order, margin=rho),
        "code_length": code,
        "risk_bound": l0.risk_bound(code["total"], len(labels), delta=report_module.DELTA),
        "delta": report_module.DELTA,
        "notes": [_CUTS_USED_LABELS] if cuts_used_labels else [],
    }
