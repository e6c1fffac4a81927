"""`jboost.l0.choose_large`: chooses the order, the number of rules, the margin and kappa by
cross-validation.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, checksums, derivatives, folds, loops, meshes
from jboost.base.boosting import Fit
from jboost.base.loops import OnStep
from jboost.base.predict import predict_scores
from jboost.base.status import Status
from jboost.base.types import Array, ArrayLike, Dataset, require_dataset
from jboost.l0.large import table
from jboost.l0.large.clock import Clock
from jboost.l0.large.fit import fit_large
from jboost.l0.large.state import LargeState
from jboost.l0.votes.local_search import SearchConfig
from jboost.learners.monomials import Monomials

# The share of the time limit for cross-validation; the fit of all examples has the rest.
_SHARE_OF_CHOICE = 0.6


class LargeChoice(NamedTuple):
    """The choice of least mean held-out error. Ties go to the lowest order, then to the fewest
    rules, the largest kappa and the largest margin.
    """

    fit: Fit  # of all examples, with the values chosen
    max_order: np.ndarray  # []
    max_rules: np.ndarray  # [], 0 for any number
    kappa: np.ndarray  # [] float64
    margin: np.ndarray  # [] rho
    # [O, R, K, L] mean held-out error of each order, number of rules, kappa and margin; NaN where
    # no fold was fitted
    errors: np.ndarray
    standard_errors: np.ndarray  # [O, R, K, L] of those means
    num_folds: np.ndarray  # [O, R, K, L] int, of the folds over which each mean is taken
    status: Array  # [] int32, that of `fit`; TIME_LIMIT if cross-validation ended early


class LargeChoiceState(NamedTuple):
    """The state of `jboost.l0.choose_large`, from which it continues as `initial`."""

    errors: np.ndarray  # [F, O, R, K, L] of each fold, NaN where not yet fitted
    num_done: int  # of the orders of all folds, in this order
    fit: LargeState | None  # of the last fit; None before its first round
    max_orders: np.ndarray  # [O]
    max_rules: np.ndarray  # [R], 0 for any number
    kappas: np.ndarray  # [K]
    margins: np.ndarray  # [L]
    checksum: int  # of the data set and the folds
    costs: int  # checksum of the costs of the learners


@dataclasses.dataclass(frozen=True)
class _Grid:
    """The values to choose from."""

    max_orders: tuple[int, ...]
    max_rules: tuple[int | None, ...]
    kappas: tuple[float, ...]
    margins: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.max_orders), len(self.max_rules), len(self.kappas), len(self.margins)

    def begin(self, num_folds: int, data: int, costs: int) -> LargeChoiceState:
        """The state before the first fold, for data and costs of these checksums."""
        return LargeChoiceState(
            np.full((num_folds, *self.shape), np.nan),
            0,
            None,
            np.asarray(self.max_orders),
            np.asarray([rules or 0 for rules in self.max_rules]),
            np.asarray(self.kappas, np.float64),
            np.asarray(self.margins, np.float64),
            data,
            costs,
        )


@meshes.takes_gathered
@derivatives.without("jboost.l0.choose_large")
def choose_large(
    dataset: Dataset,
    make_learner: Callable[[int, float], Monomials],
    *,
    max_orders: Sequence[int],
    max_rules: Sequence[int | None],
    margins: ArrayLike,
    kappas: ArrayLike,
    key: Array,
    num_folds: int = 5,
    held_out: ArrayLike | None = None,
    fold_features: Sequence[np.ndarray] | None = None,
    max_rounds: int = 100,
    tolerance: float = 1e-2,
    time_limit: float | None = None,
    on_step: OnStep | None = None,
    initial: LargeChoiceState | None = None,
) -> LargeChoice:
    """Chooses the options of `fit_large` by stratified cross-validation, and fits all examples.

    It chooses the order, the number of rules, kappa and the margin of smallest held-out error. The
    loop runs on the host.

    In the folds, only the first vote of `fit_large` is computed, without a relaxation: rules are
    added one by one, then each is exchanged for a better one.

    Args:
      dataset: of m examples, as for `fit_large`.
      make_learner: (order, kappa) -> `jboost.learners.monomials(order, kappa=kappa)`.
      max_orders: [O] from 1 to 3. All monomials of the largest order must fit into memory, in
        each fold and in all; that is checked before the first fold.
      max_rules: [R] the largest numbers of rules that vote; None for no limit.
      margins: [L] rho in (0, 1].
      kappas: [K], not negative.
      key: for the folds.
      num_folds: at least 2.
      held_out: [F, m] bool, instead of folds drawn with `key`.
      fold_features: F tables [m, N'], the features of all examples for each fold of `held_out`.
      max_rounds: as for `fit_large`, for the fit of all examples.
      tolerance: as for `fit_large`, for the fit of all examples.
      time_limit: seconds; cross-validation takes at most 60 % of it. A fit of a fold that exceeds
        them is ended and left out; a step or compilation in progress is completed.
      on_step: called with (state, text) after each fold of an order, with (None, `LargeFitInfo`)
        after each step of a fit in a fold, and with (state, `LargeFitInfo`) as for `fit_large` in
        the last fit. If it returns False in a fold, cross-validation ends with the fits so far,
        without the one in progress, and the last fit begins. If it returns False in the last fit,
        that ends too.
      initial: a `jboost.l0.LargeChoiceState` from which to continue, as passed to `on_step` of a
        choice with the same arguments; None for a choice from the beginning. A state of other
        rows, folds, candidates or costs of the learners is refused. `tolerance` and `max_rounds`
        may differ, as they only end the last fit. `time_limit` counts from this call. A
        cross-validation that was ended early goes on; if another candidate is then chosen, the
        last fit is done again.

    Returns:
      A `LargeChoice`.

    Raises:
      ValueError: naming the argument.

    >>> import jax
    >>> import jboost
    >>> dataset = jboost.make_dataset([[1, 1], [1, 0], [0, 1], [0, 0]] * 12, [1, -1, -1, 1] * 12)
    >>> learner = lambda order, kappa: jboost.learners.monomials(order, kappa=kappa)
    >>> chosen = jboost.l0.choose_large(
    ...     dataset,
    ...     learner,
    ...     max_orders=[1, 2],
    ...     max_rules=[1, 4],
    ...     margins=[0.1],
    ...     kappas=[0.1],
    ...     key=jax.random.key(0),
    ...     num_folds=2,
    ... )
    >>> int(chosen.max_order), float(chosen.errors.min())
    (2, 0.0)
    """
    clock = Clock(time_limit)
    require_dataset(dataset)
    grid = _check_grid(max_orders, max_rules, margins, kappas)
    check.watcher("on_step", on_step)
    masks = _check_folds(dataset, key, num_folds, held_out, fold_features)
    has_states = on_step is not None or initial is not None
    data = _checksum(dataset, masks, fold_features) if has_states else 0
    costs = _checksum_of_costs(dataset, make_learner, grid) if has_states else 0
    begun = grid.begin(len(masks), data, costs)
    if initial is not None:
        begun = _validate_initial(initial, begun)
    _check_sizes(grid, dataset, masks, fold_features)
    fitted_position = _first_of_least(_summary(begun.errors).means, grid)
    begun = _fill(begun, dataset, make_learner, grid, masks, fold_features, clock, on_step)
    errors, num_done = begun.errors, begun.num_done
    is_whole = num_done == len(masks) * len(grid.max_orders)
    summary = _summary(errors)
    position = _first_of_least(summary.means, grid)
    if position != fitted_position:
        begun = begun._replace(fit=None)
    order, rules = grid.max_orders[position[0]], grid.max_rules[position[1]]
    kappa, margin = grid.kappas[position[2]], grid.margins[position[3]]

    def watch(state: LargeState | None, info: Any) -> bool:
        return loops.goes_on(on_step, begun._replace(errors=errors.copy(), fit=state), info)

    fitted = fit_large(
        dataset,
        make_learner(order, kappa),
        margin=margin,
        tolerance=tolerance,
        max_rounds=max_rounds,
        search=SearchConfig(max_hypotheses=rules),
        time_limit=None if time_limit is None else max(clock.left, 0.0),
        on_step=None if on_step is None else watch,
        initial=begun.fit,
    )
    status = fitted.status if is_whole else jnp.asarray(int(Status.TIME_LIMIT), jnp.int32)
    chosen = (np.asarray(order), np.asarray(rules or 0), np.asarray(kappa), np.asarray(margin))
    return LargeChoice(fitted, *chosen, *summary, status)


class _Summary(NamedTuple):
    """The errors [F, O, R, K, L] over the folds that are known."""

    means: np.ndarray  # [O, R, K, L]
    spreads: np.ndarray  # [O, R, K, L]
    counts: np.ndarray  # [O, R, K, L]


def _summary(errors: np.ndarray) -> _Summary:
    counts = np.isfinite(errors).sum(axis=0)
    means = np.where(counts > 0, np.nansum(errors, axis=0) / np.maximum(counts, 1), np.nan)
    spreads = np.sqrt(
        np.nansum((errors - means) ** 2, axis=0)
        / (np.maximum(counts, 1) * np.maximum(counts - 1, 1))
    )
    return _Summary(means, spreads, counts)


def _check_sizes(
    grid: _Grid, dataset: Dataset, masks: np.ndarray, fold_features: Sequence[np.ndarray] | None
) -> None:
    """Raises ValueError, before the first fold, if a fit of the largest order would be refused
    for its size, in a fold or of all examples.
    """
    counts = np.asarray(dataset.mask) & (np.asarray(dataset.weights) != 0)
    features = [np.shape(dataset.features)[-1]]
    features += [] if fold_features is None else [np.shape(one)[-1] for one in fold_features]
    table.check_size(int(counts.sum()), max(features), max(grid.max_orders))


def _check_grid(
    max_orders: Sequence[int],
    max_rules: Sequence[int | None],
    margins: ArrayLike,
    kappas: ArrayLike,
) -> _Grid:
    """The grid. Raises ValueError, naming the argument."""
    for name, values in (("max_orders", max_orders), ("max_rules", max_rules)):
        if len(values) == 0:
            raise ValueError(f"{name} is empty: pass at least one value")
        for index, value in enumerate(values):
            if not (value is None and name == "max_rules"):
                check.count(f"{name}[{index}]", value, low=1)
    check.numbers("margins", margins, low=0, high=1, open_low=True)
    check.numbers("kappas", kappas, low=0)
    # in float64, so that the result reports the values as given
    prices, rhos = (np.asarray(values, np.float64).tolist() for values in (kappas, margins))
    return _Grid(tuple(max_orders), tuple(max_rules), tuple(prices), tuple(rhos))


def _check_folds(
    dataset: Dataset, key: Array, num_folds: int, held_out: Any, fold_features: Any
) -> np.ndarray:
    """The held-out examples of each fold, [F, m] bool. Raises ValueError, naming the argument."""
    if held_out is None:
        if fold_features is not None:
            raise ValueError(
                "fold_features is given and held_out is not: pass the held-out examples of each"
                " fold, [F, m] bool"
            )
        check.key("key", key)
        check.count("num_folds", num_folds, low=2)
        labels, mask = jnp.asarray(dataset.labels), jnp.asarray(dataset.mask)
        return np.asarray(folds.stratified_folds(key, labels, num_folds=num_folds, mask=mask))
    masks = np.asarray(held_out)
    if (
        masks.dtype != bool
        or masks.ndim != 2
        or masks.shape[1] != len(dataset.labels)
        or len(masks) < 2
    ):
        raise ValueError(
            f"held_out has shape {masks.shape} and dtype {masks.dtype}: expected [F,"
            f" {len(dataset.labels)}] bool with F >= 2"
        )
    if fold_features is not None and len(fold_features) != len(masks):
        raise ValueError(
            f"fold_features has {len(fold_features)} tables: expected {len(masks)}, one for each"
            " fold of held_out"
        )
    return masks


def _checksum(
    dataset: Dataset, masks: np.ndarray, fold_features: Sequence[np.ndarray] | None
) -> int:
    """A checksum of the rows and the folds."""
    tables = () if fold_features is None else fold_features
    return checksums.of_arrays(*map(np.asarray, (*dataset, masks, *tables)))


def _checksum_of_costs(
    dataset: Dataset, make_learner: Callable[[int, float], Monomials], grid: _Grid
) -> int:
    """A checksum of the costs of monomials and constants, of the learners of all orders and kappas.
    They are those for all examples. `fit_large` refuses other kinds of learners.
    """
    num_rows, num_bits = len(dataset.labels), np.shape(dataset.features)[-1]
    learners = itertools.starmap(make_learner, itertools.product(grid.max_orders, grid.kappas))
    return checksums.of_arrays(
        *(
            np.asarray(costs)
            for learner in learners
            if isinstance(learner, Monomials)
            for costs in (learner.price_list(num_bits, num_rows), learner.constant_cost)
        )
    )


def _validate_initial(initial: Any, begun: LargeChoiceState) -> LargeChoiceState:
    """A copy of a state. Raises ValueError, naming what differs, unless it is one of the choice
    that has begun.
    """
    if not isinstance(initial, LargeChoiceState):
        raise ValueError(
            f"initial is a {type(initial).__name__}: expected a jboost.l0.LargeChoiceState, as"
            " `on_step` of the same choice received it"
        )
    given, shape = initial.errors.shape, begun.errors.shape
    if given != shape:
        raise ValueError(
            f"initial holds errors {list(given)}: expected {list(shape)}, of folds,"
            " orders, numbers of rules, kappas and margins; pass the arguments of the run that made"
            " it, or leave it out"
        )
    for name in ("max_orders", "max_rules", "kappas", "margins"):
        values, wanted = (_shown(name, getattr(one, name)) for one in (initial, begun))
        if values != wanted:
            raise ValueError(
                f"initial is the state of a choice of {name} {values}: expected {wanted}; pass the"
                " arguments of the run that made it, or leave it out"
            )
    checksums.require_same(
        (initial.checksum, initial.costs),
        (begun.checksum, begun.costs),
        parts=("rows or folds", "costs of the learners"),
        what="choice",
    )
    return initial._replace(errors=initial.errors.copy())


def _shown(name: str, values: np.ndarray) -> tuple[Any, ...]:
    """The candidates as they were given."""
    given = tuple(values.tolist())
    return tuple(value or None for value in given) if name == "max_rules" else given


def _fill(
    begun: LargeChoiceState,
    dataset: Dataset,
    make_learner: Callable[[int, float], Monomials],
    grid: _Grid,
    masks: np.ndarray,
    fold_features: Sequence[np.ndarray] | None,
    clock: Clock,
    on_step: OnStep | None,
) -> LargeChoiceState:
    """Writes the errors [F, O, R, K, L] of a state, one order of a fold after the other. The first
    `num_done` of these are known. Returns the state when all are known, when the time is up, or
    when `on_step` ends the loop.
    """
    errors = begun.errors
    parts = list(itertools.product(range(len(masks)), range(len(grid.max_orders))))
    for number, (fold, index) in enumerate(parts[begun.num_done :], start=begun.num_done + 1):
        known = dataset if fold_features is None else dataset._replace(features=fold_features[fold])
        for rest in itertools.product(*(range(size) for size in grid.shape[1:])):
            learner = make_learner(grid.max_orders[index], grid.kappas[rest[1]])
            error = _error(
                known,
                masks[fold],
                learner,
                grid.max_rules[rest[0]],
                grid.margins[rest[2]],
                seconds=_SHARE_OF_CHOICE * clock.limit - clock.elapsed,
                on_step=on_step,
            )
            if error is None:
                return begun._replace(num_done=number - 1)
            errors[(fold, index, *rest)] = error
        with np.errstate(all="ignore"):
            best = float(np.nanmin(errors))
        text = f"fold {number} of {len(parts)}, least held-out loss {best:.2%}"
        done = begun._replace(errors=errors.copy(), num_done=number)
        if not loops.goes_on(on_step, done, text):
            return begun._replace(num_done=number)
    return begun._replace(num_done=len(parts))


def _error(
    dataset: Dataset,
    held_out: np.ndarray,
    learner: Monomials,
    max_rules: int | None,
    margin: float,
    *,
    seconds: float,
    on_step: OnStep | None,
) -> float | None:
    """The share of the held-out weight that the first vote on the other examples misclassifies; NaN
    if no weight is held out. A score of 0 predicts -1. None if `on_step` or the time limit of so
    many seconds, infinite without one, ended the fit.
    """
    clock, is_stopped = Clock(max(seconds, 0.0)), False
    if clock.left <= 0:
        return None

    def watch(state: LargeState | None, info: Any) -> bool:
        nonlocal is_stopped
        is_stopped = not loops.goes_on(on_step, None, info)
        return not is_stopped

    mask = np.asarray(dataset.mask)
    rest = dataset._replace(mask=mask & ~held_out)
    fitted = fit_large(
        rest,
        learner,
        margin=margin,
        max_rounds=0,
        search=SearchConfig(max_hypotheses=max_rules),
        time_limit=None if np.isinf(seconds) else seconds,
        on_step=None if on_step is None else watch,
    )
    if is_stopped or clock.left <= 0:
        return None
    tested = held_out & mask
    weights, labels = (np.asarray(part)[tested] for part in (dataset.weights, dataset.labels))
    if weights.sum() == 0:
        return np.nan
    scores = np.asarray(
        _scores(fitted.ensemble, np.asarray(dataset.features)[tested].astype(np.float32))
    )
    return float(weights[np.where(scores > 0, 1, -1) != labels].sum() / weights.sum())


_scores = jax.jit(predict_scores)


def _first_of_least(means: np.ndarray, grid: _Grid) -> tuple[int, ...]:
    """The index [4] of the least error. Ties go to the lowest order, then to the fewest rules, the
    largest kappa and the largest margin.
    """

    def rank(position: tuple[int, ...]) -> tuple[float, ...]:
        mean = means[position]
        rules = grid.max_rules[position[1]]
        return (
            mean if np.isfinite(mean) else np.inf,
            grid.max_orders[position[0]],
            np.inf if rules is None else rules,
            -grid.kappas[position[2]],
            -grid.margins[position[3]],
        )

    return min(np.ndindex(means.shape), key=rank)
