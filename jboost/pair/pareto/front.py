"""The Pareto front of weight against margin (Boyarshinov and Magdon-Ismail 2005, Section 4).

A separator set Q (Definition 2.1) may contain points that the line classifies correctly but that
are too close to it. W(Q) is the weight that is lost, and the margin is that of the other points
(Definition 2.12).

Method "sweep" computes the points of the front by increasing weight. After a point of margin g, the
next point is the widest slab among those of least weight that are wider than 2 g. A wider slab
never loses less, so that the loss found at a centre is a lower bound for all later visits. Only the
few centres whose bound is at most the next weight are visited again.

For many points these are still too many visits. Method "branch_and_bound" computes the widest slab
for each loss. It first bounds the width over cells of directions, for all losses at once
(`jboost.pair.pareto.slope_cells`). If the bounds do not decide, it solves problems of few points
exactly (`jboost.pair.pareto.subproblems`, `jboost.pair.pareto.slabs`).

The `energy` of `best_trade_off` is `E(W, mar)` in Section 4. An energy that grows with the weight
and falls with the margin has its minimum on the front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from jboost.base import check, derivatives, devices, meshes, numerics
from jboost.base.loops import OnStep
from jboost.base.types import Array, ArrayLike
from jboost.pair.arguments import validate_examples, validate_initial
from jboost.pair.pareto import front_by_cells as by_cells
from jboost.pair.pareto import space
from jboost.pair.pareto.drawing import draw_front
from jboost.pair.pareto.steps import FrontWatch, ParetoState
from jboost.pair.pareto.walk import sweep_front
from jboost.pair.separator import validate_sweep
from jboost.pair.sweep import SweepConfig
from jboost.pair.sweep.instance import encode, pad_rows
from jboost.pair.types import ParetoFront, TradeOff

# The most points for which "auto" chooses the sweep. Above it "branch_and_bound" is ten times
# faster, although it takes longer to compile.
_LARGEST_SWEEP = 1000


@meshes.takes_sharded
@derivatives.without("jboost.pair.pareto_front")
def pareto_front(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    max_points: int,
    method: Literal["auto", "sweep", "branch_and_bound"] = "auto",
    config: SweepConfig | None = None,
    on_step: OnStep | None = None,
    initial: ParetoState | None = None,
) -> ParetoFront:
    """All pairs (lost weight, margin) for which no separator is better in both, each with its
    separator.

    The first point is that of `optimal_separator`. The last point is the constant classifier that
    loses the lighter class. With the sweep the function may be jitted and vmapped. Margins that
    differ by less than a relative 2^-36 (2^-10 with words of 32 bits) count as equal, and only the
    point of least weight is returned. Weights are converted to integers whose total is 2^60, as in
    `optimal_separator`.

    Args:
      points: [n, 2], real. Or [n, 3] for three classifiers, outside jit and vmap: all slabs that at
        most four points carry are compared, in O(n^5) work, which suits about a hundred points.
      labels: [n], +1 or -1.
      weights: [n], not negative; a weight of 0 has the effect of `mask` False. None for ones.
      mask: [n] bool, False for padding rows.
      max_points: the capacity of the front, static. With unit weights the front has at most
        n / 2 + 1 points.
      method: "sweep", "branch_and_bound" or "auto". The host runs the loop of "branch_and_bound",
        which suits many points and does not work inside jit and vmap. It falls back to the sweep if
        the weights are not small multiples of one unit, or if most points are duplicates. "auto"
        chooses "branch_and_bound" above 1,000 points, if the arrays are concrete and no config is
        given, else the sweep. Losses and margins are the same. The methods may choose different
        lines of the same loss and margin.
      config: static sizes of the sweep.
      on_step: for branch and bound, which it selects, and for three classifiers; called on the host
        between steps of the search with (state, info), a `ParetoState` and a text of the progress.
        False ends the search with status TIME_LIMIT: the front then has those of its first and its
        last point that are known. The sweep of two classifiers makes no steps.
      initial: a state that `on_step` received for the same data, from which the search continues,
        to the bits of the uninterrupted one. A state of other data is refused.

    Returns:
      `ParetoFront` with k = max_points. If the front is longer, the status is CAPACITY_LIMIT and
      the k points of least weight are returned, which are correct. The status is PRECISION_LIMIT if
      rounding leaves undecided whether a lighter or wider slab exists, on points that are not an
      integer grid; if the float type cannot represent a line in one of the slabs; or if
      coordinates, of one axis or of both, lie more than 2^200 apart (2^20 with 32-bit words).

    Raises:
      ValueError: at trace time, naming the argument, if a shape, a kind or an option is wrong; and
        for labels and weights that are known and not allowed. Other values that are not allowed
        give status INVALID_INPUT, NaN losses and a count of 0.

    >>> import jboost
    >>> points = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [9.0, 0.0], [9.0, 1.0]]
    >>> front = jboost.pair.pareto_front(points, [-1, 1, -1, 1, 1], max_points=8)
    >>> int(front.count), front.losses[:2].tolist(), front.margins[:2].tolist()
    (2, [1.0, 2.0], [3.0, inf])
    """
    points, labels, weights, mask = validate_examples(points, labels, weights, mask)
    check.count("max_points", max_points, low=1)
    check.choice("method", method, ("auto", "sweep", "branch_and_bound"))
    if config is not None:
        check.record("config", config, SweepConfig)
    examples = points, labels, weights, mask
    is_traced, is_watched = check.are_traced(*examples), not (on_step is None and initial is None)
    if is_watched:
        check.can_be_watched(on_step, (examples, initial), between="steps")
    if initial is not None:
        validate_initial(initial, ParetoState, examples, what="Pareto front")
    if points.shape[1] == 3:
        _validate_for_space(method, config, is_traced)
        watch = FrontWatch(on_step, examples)
        return space.solve(*examples, max_points=int(max_points), watch=watch, initial=initial)
    _validate_traced(method, is_traced)
    is_large = (points.shape[0] > _LARGEST_SWEEP and not is_traced) or is_watched
    if method == "branch_and_bound" or (method == "auto" and is_large and config is None):
        watch = FrontWatch(on_step, examples)
        front = by_cells.solve(*examples, max_points=int(max_points), watch=watch, initial=initial)
        if front is not None:
            return front
        on_step = initial = None
    settings = validate_sweep(config, on_step, initial, points.dtype)
    return _pareto_front(*examples, max_points=int(max_points), config=settings)


def _validate_traced(method: str, is_traced: bool) -> None:
    """Raises ValueError if arguments are traced and the method is branch and bound."""
    if method == "branch_and_bound" and is_traced:
        raise ValueError(
            "method is 'branch_and_bound', which the host drives, and the arguments are traced:"
            " pass 'sweep' under jit and vmap"
        )


def _validate_for_space(method: str, config: SweepConfig | None, is_traced: bool) -> None:
    """Raises ValueError, naming the argument, for options that require points in the plane."""
    if method != "auto" or config is not None:
        name, value = ("method", method) if method != "auto" else ("config", type(config).__name__)
        raise ValueError(
            f"{name} is {value!r}, and points has three columns, for which there is one method:"
            " leave it out"
        )
    if is_traced:
        raise ValueError(
            "points has three columns, for which the host drives the search, and the arguments are"
            " traced: call it outside jit and vmap"
        )


@devices.public_jit(static_argnames=("max_points", "config"))
def _pareto_front(
    points: Array,
    labels: Array,
    weights: Array,
    mask: Array,
    *,
    max_points: int,
    config: SweepConfig,
) -> ParetoFront:
    result_dtype = jnp.result_type(float)
    padded = pad_rows(max(points.shape[0], 2), points, labels, weights, mask)

    def solve(points: Array, labels: Array, weights: Array, mask: Array) -> ParetoFront:
        instance, encoding = encode(
            points,
            labels,
            weights,
            mask,
            jnp.dtype("float32" if config.word_bits == 32 else "float64"),
        )
        return draw_front(
            instance, encoding, sweep_front(instance, max_points, config), result_dtype
        )

    return config.program(solve)(*padded)


@meshes.takes_sharded
def best_trade_off(front: ParetoFront, energy: Callable[[Array, Array], Array]) -> TradeOff:
    """The separator of least energy E(weight, margin), for an energy that does not decrease with
    the weight and does not increase with the margin.

    This is the problem of Section 4 of Boyarshinov and Magdon-Ismail (2005). The least value of
    such an energy over all separator sets is attained on the front.

    Args:
      front: a complete front (status OPTIMAL) from `pareto_front`. With an incomplete front, only
        its points are compared.
      energy: (losses [k], margins [k]) -> [k]; one margin is infinite. Entries that are NaN are
        ignored.

    Returns:
      `TradeOff`; of equal energies the point of least weight. If the front is empty, the energy is
      NaN.

    >>> import jboost
    >>> points = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [9.0, 0.0], [9.0, 1.0]]
    >>> front = jboost.pair.pareto_front(points, [-1, 1, -1, 1, 1], max_points=8)
    >>> best = jboost.pair.best_trade_off(front, lambda weight, margin: weight + 1 / margin)
    >>> round(float(best.energy), 3), float(best.margin)
    (1.333, 3.0)
    """
    front = jax.tree.map(jnp.asarray, front)
    energies = energy(front.losses, front.margins)
    if getattr(energies, "shape", None) != front.losses.shape:
        raise ValueError(
            f"energy returned shape {list(jnp.shape(energies))}: expected one number for each of"
            f" the {front.losses.shape[0]} points"
        )
    competes = (jnp.arange(front.losses.shape[0]) < front.count) & ~jnp.isnan(energies)
    least = numerics.masked_min(energies, competes, fill=jnp.inf)
    index = jnp.minimum(
        numerics.first_true(competes & (energies == least)), front.losses.shape[0] - 1
    )
    return TradeOff(
        energy=jnp.where(jnp.any(competes), energies[index], jnp.nan),
        index=index,
        normal=front.normals[index],
        anchor=front.anchors[index],
        bias=front.biases[index],
        loss=front.losses[index],
        margin=front.margins[index],
        status=front.status,
    )
