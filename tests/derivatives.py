"""The table of all public functions with a real result and of their derivatives: `python -m
tests.derivatives` writes docs/derivatives.md.

tests/test_derivatives_table.py checks every row: derivatives in both modes against central
differences, errors where there is none, and that every public function has a row or a reason.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # as pytest does it

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

import jboost
from benchmarks.algorithms import algorithms
from jboost import (
    kernels,
    layers,
    losses,
    lp,
    lpboost,
    operators,
    projections,
    relaxations,
    relaxed_margin,
)
from jboost.monomials import costs

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "derivatives.md"


@dataclasses.dataclass(frozen=True)
class Row:
    """One function, or a field of its result, as a function of arrays in 64 bits."""

    name: str
    run: Callable[..., Any]
    """The arguments, by name -> floats."""
    arguments: dict[str, Any]
    """In which it is differentiable, at a point where it is smooth."""
    remark: str = ""
    step: float = 1e-6
    tolerance: float = 1e-5


@dataclasses.dataclass(frozen=True)
class Without:
    """A function, or fields of its result, that raise where they are differentiated in reverse
    mode, and are NaN in forward mode.
    """

    name: str
    run: Callable[..., Any] | None
    """Arrays -> floats; None where the host drives it, which refuses arrays that are traced."""
    arguments: tuple[Any, ...] = ()
    remark: str = ""


# --- inputs ---------------------------------------------------------------------------------------

_RNG = np.random.default_rng(7)
_MARGINS = np.random.default_rng(3).uniform(-0.6, 0.9, (8, 4))
_WEIGHTS = _RNG.uniform(0.5, 2, 8)
_LOSSES = np.array([0.3, 1.7, -0.4, 0.9, 2.2])
_SHARES = np.array([0.1, 0.3, 0.2, 0.15, 0.25])
_POINTS = _RNG.normal(size=(3, 2))
_MATRIX = _RNG.normal(size=(3, 4))
_VECTOR = _RNG.normal(size=4)
_SIGNS = np.where(_RNG.random((5, 4)) < 0.5, -1, 1)
_LOG_LOSSES = np.log(_SHARES) - np.array([0.5, -1.0, 2.0, 0.1, -0.3])


def _exponential(log_losses: Any) -> losses.ExponentialLoss:
    return losses.ExponentialLoss(log_losses, jnp.full((), 4.0))


# --- rows -----------------------------------------------------------------------------------------


def _losses() -> list[Row]:
    def start(weights: Any) -> Any:
        return losses.start_exponential(
            jboost.make_dataset(np.zeros((5, 1)), [1, -1, 1, 1, -1], weights=weights)
        ).log_losses

    at = {"losses": _LOSSES}
    outputs = np.array([[0.3, -0.2, 0.9], [1.1, 0.4, -0.6]])
    return [
        Row("losses.start_exponential", start, {"weights": _SHARES}),
        Row(
            "losses.add_margins",
            lambda log_losses, margins: (
                losses.add_margins(_exponential(log_losses), margins).log_losses
            ),
            {"log_losses": _LOG_LOSSES, "margins": _LOSSES},
            "`log_losses`; `rounding` is that of a bound",
        ),
        Row(
            "losses.example_weights",
            lambda log_losses: losses.example_weights(_exponential(log_losses)),
            {"log_losses": _LOG_LOSSES},
        ),
        Row(
            "losses.mean_exponential",
            lambda log_losses: losses.mean_exponential(_exponential(log_losses)),
            {"log_losses": _LOG_LOSSES},
            "a bound, with the derivative of the mean loss",
        ),
        Row(
            "losses.worst_case",
            lambda losses_, nu: losses.worst_case(losses_, relaxations.soft_margin(nu=nu)),
            {"losses": _LOSSES, "nu": 0.5},
        ),
        Row(
            "losses.solve_worst_case",
            lambda losses_, scale: (
                losses.solve_worst_case(losses_, relaxations.kl_penalty(scale)).value
            ),
            {"losses": _LOSSES, "scale": 0.7},
            "`value`",
        ),
        Row(
            "losses.worst_case_weights",
            lambda losses_, scale: losses.worst_case_weights(
                losses_, relaxations.kl_penalty(scale)
            ),
            {"losses": _LOSSES, "scale": 0.7},
        ),
        Row("losses.cvar", losses.cvar, {**at, "nu": 0.5}),
        Row("losses.mean_of_worst", losses.mean_of_worst, {**at, "k": 2.5}),
        Row("losses.chi_square_dro", losses.chi_square_dro, {**at, "radius": 0.3}),
        Row(
            "losses.kl_dro",
            lambda losses_, radius: losses.kl_dro(losses_, radius=radius),
            {**at, "radius": 0.3},
        ),
        Row(
            "losses.binary_margins",
            lambda scores: losses.binary_margins(scores, np.array([1, -1, 1, 1, -1])),
            {"scores": _LOSSES},
        ),
        Row(
            "losses.max_of_others_margins",
            lambda scores: losses.max_of_others_margins(scores, np.array([0, 1])),
            {"scores": outputs},
        ),
        Row(
            "losses.one_vs_rest_margins",
            lambda scores: losses.one_vs_rest_margins(scores, np.array([0, 1])),
            {"scores": outputs},
        ),
        Row(
            "losses.group_dro",
            lambda losses_, radius, weights: losses.group_dro(
                losses_,
                np.array([0, 2, 0, 2, 3]),
                4,
                relaxations.kl_ball(radius),
                weights=weights,
            ),
            {**at, "radius": 0.2, "weights": _SHARES},
        ),
        Row(
            "losses.soft_margin_loss",
            lambda logits, nu, smoothing, weights: losses.soft_margin_loss(
                logits, np.array([0, 1]), nu=nu, smoothing=smoothing, weights=weights
            ),
            {"logits": outputs, "nu": 0.95, "smoothing": 0.05, "weights": _SHARES[:2]},
        ),
        Row(
            "losses.soft_margin_loss, one class against the others",
            lambda logits, nu, weights: losses.soft_margin_loss(
                logits,
                np.array([0, 1]),
                nu=nu,
                margins=losses.one_vs_rest_margins,
                weights=weights,
            ),
            {"logits": outputs, "nu": 0.55, "weights": _SHARES[:2]},
        ),
    ]


def _heads() -> list[Row]:
    features, labels = 0.9 * np.tanh(_MARGINS[:, :2]), np.array([1, -1, 1, 1, -1, 1, -1, 1])

    def logits(features: Any, weights: Any, nu: Any, smoothing: Any, scale: Any) -> Any:
        head = layers.margin_head(nu=nu, smoothing=smoothing, scale=scale)
        return head.apply(head.init(2), features, labels, weights=weights)[0]

    def votes(features: Any) -> Any:
        head = layers.margin_head(nu=0.6, num_classes=3)
        classes = np.array([0, 1, 2, 2, 1, 0, 0, 1])
        return head.apply(head.init(2), features, classes)[1].votes

    def of_line(scores: Any) -> Any:
        head = layers.pair_head()
        line = layers.PairHeadState(*map(jnp.asarray, ([0.3, -1.0], [0.1, 0.2], 0.2, 1.0)))
        return head.apply(line, scores)[0]

    numbers = {"nu": 0.95, "smoothing": 0.1, "scale": 3.0}
    return [
        Row(
            "layers.margin_head",
            logits,
            {"features": features, "weights": _WEIGHTS, **numbers},
            "logits of `apply`; `votes` of its state likewise, its other fields are where to begin",
        ),
        Row("layers.margin_head, votes of classes", votes, {"features": features}),
        Row(
            "layers.pair_head",
            of_line,
            {"scores": features},
            "logits, at the line of the state; the state itself raises",
        ),
    ]


def _projections() -> list[Row]:
    values = {"values": np.array([0.9, 0.4, -0.35, 0.2, 0.05])}
    return [
        Row("projections.projection_simplex", projections.projection_simplex, values),
        Row("projections.projection_l1_ball", projections.projection_l1_ball, values),
        Row(
            "projections.bregman_projection",
            lambda values, cap, order: projections.bregman_projection(
                values, projections.power_map(order), cap
            ),
            {**values, "cap": 0.45, "order": 2.5},
        ),
        Row(
            "projections.projection_capped_simplex",
            projections.projection_capped_simplex,
            {**values, "cap": 0.45},
        ),
        Row(
            "projections.kl_projection_capped_simplex",
            projections.kl_projection_capped_simplex,
            {**values, "cap": 0.3},
        ),
    ]


def _kernels() -> list[Row]:
    pair = {"points_a": _POINTS, "points_b": _POINTS[::-1] * 0.7 + 0.1}
    coefficients = {"coefficients": np.array([0.5, -1.0, 2.0])}
    others: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "central hyperplanes": (kernels.central_hyperplanes, {}),
        "isotropic hyperplanes": (kernels.isotropic_hyperplanes, {"radius": 4.0}),
        "stumps": (kernels.stumps, {"lower": np.full(2, -4.0), "upper": np.array([4.0, 5.0])}),
    }

    def weighted(
        make: Callable[..., Any], points_a: Any, points_b: Any, coefficients: Any, *numbers: Any
    ) -> Any:
        return kernels.weighted_disagreement(make(*numbers), points_a, points_b, coefficients)

    return [
        *(
            Row(
                f"kernels.weighted_disagreement, {name}",
                functools.partial(weighted, make),
                {**pair, **coefficients, **numbers},
            )
            for name, (make, numbers) in others.items()
        ),
        Row("kernels.disagreement", kernels.disagreement, {**pair, "radius": 4.0}),
        Row("kernels.least_radius", kernels.least_radius, {"points": _POINTS}),
        Row(
            "kernels.ball_probability",
            lambda lengths, radius: kernels.ball_probability(lengths, radius, 3),
            {"lengths": 2 + _SHARES, "radius": 2.0},
        ),
        Row(
            "kernels.weighted_disagreement",
            lambda points_a, points_b, coefficients: kernels.weighted_disagreement(
                kernels.hyperplanes(4.0), points_a, points_b, coefficients
            ),
            {**pair, **coefficients},
        ),
    ]


def _operators() -> list[Row]:
    def product(make: Callable[..., Any]) -> Callable[..., Any]:
        def run(entries: Any, vector: Any) -> Any:
            operator = make(entries)
            reached = operator.matvec(vector)
            return jnp.concatenate([reached, operator.rmatvec(jnp.sin(reached))])

        return run

    def of(
        name: str, make: Callable[..., Any], entries: Any = _MATRIX, vector: Any = _VECTOR
    ) -> Row:
        return Row(
            f"operators.{name}",
            product(make),
            {"entries": entries, "vector": vector},
            "both products",
        )

    places = np.array([[0, 1], [1, 3], [2, 0]])
    fixed = {
        "identity": operators.identity(4),
        "packed_signs": operators.packed_signs(_SIGNS),
        "stored": operators.stored(_SIGNS, "int8"),
        "pair_cuts": operators.pair_cuts(
            np.array([[1.0, 0.0, 1.0, 1.0]] * 2), np.array([[1.0, 1.0, 0.0, 1.0]])
        ),
    }
    return [
        of("dense", operators.dense),
        of("as_operator", operators.as_operator),
        of(
            "sparse",
            lambda entries: operators.sparse(
                sparse.BCOO((entries, jnp.asarray(places)), shape=(3, 4))
            ),
            np.array([0.5, -1.0, 2.0]),
        ),
        of("diagonal", operators.diagonal, _VECTOR),
        of("transposed", lambda entries: operators.transposed(operators.dense(entries)), _MATRIX.T),
        of(
            "stack",
            lambda entries: operators.stack([operators.dense(entries), operators.identity(4)]),
        ),
        of(
            "bordered",
            lambda entries: operators.bordered(operators.dense(entries), rows=jnp.ones((1, 4))),
        ),
        of(
            "from_functions",
            lambda entries: operators.from_functions(
                lambda x: entries @ x, lambda y: y @ entries, (3, 4)
            ),
        ),
        *(
            Row(
                f"operators.{name}",
                functools.partial(
                    lambda operator, vector: operator.rmatvec(jnp.sin(operator.matvec(vector))),
                    operator,
                ),
                {"vector": _RNG.normal(size=operator.shape[1])},
                "both products; its entries are no floats",
            )
            for name, operator in fixed.items()
        ),
    ]


def _formulas() -> list[Row]:
    cells = [np.array(weight) for weight in (0.4, 0.1, 0.3, 0.2, 0.0)]

    def votes(*four: Any) -> Any:
        return jboost.infoboost.votes(jboost.infoboost.ConfusionCells(*four, cells[4]))

    orders = np.arange(1, 4)

    def cost(make: Callable[..., Any], *numbers: Any) -> Any:
        return make(numbers[0], num_attributes=numbers[1], num_examples=numbers[2])(orders, 0, 0, 3)

    sizes = {"num_attributes": 8.0, "num_examples": 50.0}
    return [
        Row("monomials.costs.mdl", functools.partial(cost, costs.mdl), {"kappa": 1.5, **sizes}),
        Row(
            "monomials.costs.rademacher",
            functools.partial(cost, costs.rademacher),
            {"scale": 0.1, **sizes},
        ),
        Row(
            "monomials.costs.by_order",
            lambda table: costs.by_order(table)(orders, 8, 50, 3),
            {"table": np.array([0.5, 1.0, 2.0])},
        ),
        Row(
            "monomials.costs.log_binomial",
            lambda num_attributes: costs.log_binomial(num_attributes, orders),
            {"num_attributes": 8.0},
            "`orders` are integers",
        ),
        Row(
            "pair.confidence_weights",
            lambda probabilities: (
                jboost.pair.confidence_weights(np.array([1, 1, -1, 1, 1]), probabilities).weights
            ),
            {"probabilities": np.array([0.9, 0.2, 0.7, 0.6, 0.4])},
        ),
        Row(
            "slipper.confidence",
            lambda right, wrong: jboost.slipper.confidence(right, wrong, 8),
            {"right": 0.4, "wrong": 0.1},
        ),
        Row("infoboost.votes", votes, {f"cell {place}": cells[place] for place in range(4)}),
    ]


def _fitted_once(fit: Callable[[], Any]) -> Callable[[], Any]:
    """The model of the first call, of concrete arrays even if that call is traced."""

    @functools.cache
    def model() -> Any:
        with jax.ensure_compile_time_eval():
            return jax.tree.map(np.asarray, fit())

    return model


def _models() -> list[Row]:
    features = _RNG.normal(size=(4, 2))

    # Fitted when a row is checked, not when the rows are listed: every run of the tests lists them.
    @_fitted_once
    def separator() -> Any:
        return jboost.pair.optimal_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])

    @_fitted_once
    def vote() -> Any:
        return jboost.combine.fit([[0.0, 0.0], [2.0, 0.0]], [-1, 1])

    @_fitted_once
    def by_distance() -> Any:
        return jboost.pair.least_distance_separator([[0.0, 0.0], [2.0, 0.0]], [-1, 1])

    @_fitted_once
    def by_examples() -> Any:
        return jboost.example_weights.fit(_POINTS, [1, -1, 1], penalty=1.0, radius=4.0)

    @_fitted_once
    def ensemble() -> Any:
        dataset = jboost.make_dataset(_POINTS, [1, -1, 1])
        return jboost.adaboost.fit(dataset, jboost.learners.stumps(), max_rounds=2).ensemble

    def of_separator(features: Any, normal: Any, anchor: Any, bias: Any) -> Any:
        model = separator()._replace(normal=normal, anchor=anchor, bias=bias)
        return jboost.predict_scores(model, features)

    def of_vote(features: Any, coefficients: Any, offset: Any) -> Any:
        model = vote()._replace(coefficients=coefficients, offset=offset)
        return jboost.predict_scores(model, features)

    def of_distance(features: Any, normal: Any, anchor: Any, bias: Any) -> Any:
        model = by_distance()._replace(normal=normal, anchor=anchor, bias=bias)
        return jboost.predict_scores(model, features)

    def of_examples(features: Any, points: Any, example_weights: Any, bias: Any) -> Any:
        parts = {"points": points, "example_weights": example_weights, "bias": bias}
        return jboost.predict_scores(dataclasses.replace(by_examples(), **parts), features)

    def of_ensemble(votes: Any, constant: Any) -> Any:
        return jboost.predict_scores(ensemble()._replace(votes=votes, constant=constant), features)

    line = np.array([0.3, -1.0])
    by_votes = {"votes": np.array([[0.5, 0.8], [0.3, 0.2]]), "constant": 0.2}
    steps = (
        "in features as the hypotheses are: stumps, literals and monomials are steps, of derivative"
        " 0 between them"
    )
    return [
        Row(
            "predict_scores, Separator",
            of_separator,
            {"features": features, "normal": line, "anchor": line[::-1] * 0.5, "bias": 0.2},
        ),
        Row(
            "predict_scores, LinearVote",
            of_vote,
            {"features": features, "coefficients": line, "offset": 0.2},
        ),
        Row(
            "predict_scores, DistanceSeparator",
            of_distance,
            {"features": features, "normal": line, "anchor": line[::-1] * 0.5, "bias": 0.2},
        ),
        Row(
            "predict_scores, ExampleWeightModel",
            of_examples,
            {
                "features": features,
                "points": _POINTS * 0.8 + 0.1,
                "example_weights": np.array([5.0, 3.0, 7.0]),
                "bias": 0.2,
            },
        ),
        Row("predict_scores, Ensemble", of_ensemble, by_votes, steps),
        Row("ensemble.scores", of_ensemble, by_votes, steps),
    ]


def _relaxations() -> list[Row]:
    makers: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "soft_margin": (lambda nu: relaxations.soft_margin(nu=nu), {"nu": 0.5}),
        "norm_ball": (lambda radius: relaxations.norm_ball(2, radius), {"radius": 0.6}),
        "norm_penalty": (lambda scale: relaxations.norm_penalty(2, scale), {"scale": 0.6}),
        "norm_ball, order 3": (lambda radius: relaxations.norm_ball(3, radius), {"radius": 0.5}),
        "norm_penalty, order 1.5": (
            lambda scale: relaxations.norm_penalty(1.5, scale),
            {"scale": 0.6},
        ),
        "binary_entropy": (relaxations.binary_entropy, {"nu": 0.4, "scale": 0.8}),
        "kl_ball": (relaxations.kl_ball, {"radius": 0.3}),
        "kl_penalty": (relaxations.kl_penalty, {"scale": 0.6}),
        "chi_square_ball": (relaxations.chi_square_ball, {"radius": 0.3}),
        "chi_square_penalty": (relaxations.chi_square_penalty, {"scale": 0.6}),
    }

    def bound(make: Callable[..., Any], margins: Any, *numbers: Any) -> Any:
        made = make(*numbers)
        smoothed = made.smoothed_argmin(margins, jnp.asarray(0.3))
        return jnp.append(smoothed, made.lower_bound(margins))

    def value(make: Callable[..., Any], example_weights: Any, *numbers: Any) -> Any:
        made = make(*numbers)
        exact = made.value(example_weights / jnp.sum(example_weights))
        return jnp.stack([exact, made.charge(example_weights).value])

    def conjugate(make: Callable[..., Any], shortfalls: Any, *numbers: Any) -> Any:
        return make(*numbers).conjugate(shortfalls)

    rows = [
        Row(
            f"relaxations.{name}",
            functools.partial(bound, make),
            {"margins": _LOSSES, **numbers},
            "`lower_bound`, `smoothed_argmin`",
        )
        for name, (make, numbers) in makers.items()
    ]
    is_constraint = {name: "radius" in numbers for name, (_, numbers) in makers.items()}
    is_constraint["soft_margin"] = True
    rows.extend(
        Row(
            f"relaxations.{name}, value",
            functools.partial(value, make),
            {"example_weights": _SHARES + 0.1, **numbers},
            "`value`, and that of `charge`, whose `moved` raises",
        )
        for name, (make, numbers) in makers.items()
        if not is_constraint[name]
    )
    rows.extend(
        Row(
            f"relaxations.{name}, conjugate",
            functools.partial(conjugate, make),
            {"shortfalls": np.array([0.3, 1.7, 0.6, 0.9, 2.2]), **numbers},
            "`conjugate`",
        )
        for name, (make, numbers) in makers.items()
        # that of a norm penalty is 0 or inf
        if not name.startswith("norm_penalty")
    )
    rows.append(
        Row(
            "relaxations.hard_margin",
            lambda margins: relaxations.hard_margin().lower_bound(margins),
            {"margins": _LOSSES},
            "`lower_bound`",
        )
    )
    cost = Row(
        "relaxations.squared_norm",
        lambda strength, norm: relaxations.squared_norm(strength).cost(norm),
        {"strength": 0.7, "norm": 0.4},
        "`cost`",
    )
    votes = {"votes": np.array([0.4, -0.3, 0.2])}
    costs = [
        cost,
        Row(
            "relaxations.squared_two_norm",
            lambda strength, votes: relaxations.squared_two_norm(strength).proximal(votes, 0.5),
            {"strength": 0.7, **votes},
            "`proximal`",
        ),
        Row(
            "relaxations.elastic_net",
            lambda absolute, squared, votes: relaxations.elastic_net(absolute, squared).proximal(
                votes, 0.5
            ),
            {"absolute": 0.1, "squared": 0.7, **votes},
            "`proximal`",
        ),
    ]
    return [*rows, *costs]


def _programs() -> list[Row]:
    rng = np.random.default_rng(35)
    matrix, point = rng.normal(size=(4, 6)), rng.uniform(0.2, 0.8, 6)
    program = {
        "objective": rng.normal(size=6),
        "matrix": matrix,
        "row_lower": matrix @ point - 0.1,
        "row_upper": matrix @ point + 0.1,
        "lower": np.zeros(6),
        "upper": np.ones(6),
    }
    both = {"interior point": lp.InteriorPointConfig(), "first order": lp.FirstOrderConfig()}

    def solve(config: Any, fields: tuple[str, ...], *parts: Any) -> Any:
        solution = lp.solve(lp.LinearProgram(*parts), config=config, tolerance=1e-10)
        return jnp.concatenate([jnp.ravel(getattr(solution, field)) for field in fields])

    def again(*parts: Any) -> Any:
        program = lp.LinearProgram(*parts)
        return jnp.stack(
            lp.recompute_bounds(program, jax.lax.stop_gradient(lp.solve(program, tolerance=1e-10)))
        )

    points = ("primal", "dual", "reduced_costs")
    values = ("primal_objective", "dual_objective", "lower_bound", "upper_bound")
    degenerate = (
        "where the solution is unique and not degenerate; elsewhere see the option `derivative`"
    )
    return [
        *(
            Row(
                f"lp.solve, {name}, values",
                functools.partial(solve, config, values),
                program,
                _names(values),
                tolerance=1e-4,
            )
            for name, config in both.items()
        ),
        *(
            Row(
                f"lp.solve, {name}, points",
                functools.partial(solve, config, points),
                program,
                f"{_names(points)}: {degenerate}",
                tolerance=1e-3,
            )
            for name, config in both.items()
        ),
        Row("lp.recompute_bounds", again, program, "constant in the points", tolerance=1e-4),
    ]


def _names(fields: tuple[str, ...]) -> str:
    return ", ".join(f"`{field}`" for field in fields)


def _margin_solvers() -> list[Row]:
    arguments = {"margins": _MARGINS, "weights": _WEIGHTS, "nu": 0.37}
    masters = {
        "simplex": (lpboost.SimplexConfig(), None),
        "interior point": (lp.InteriorPointConfig(), 1e-9),
        "first order": (lp.FirstOrderConfig(), 1e-9),
        "games": (relaxed_margin.SolverConfig(), 1e-7),
    }

    def solve(config: Any, tolerance: Any, margins: Any, weights: Any, nu: Any) -> Any:
        found = lpboost.solve(margins, nu=nu, weights=weights, config=config, tolerance=tolerance)
        return jnp.concatenate(
            [
                found.coefficients,
                found.example_weights,
                jnp.stack([found.lower_bound, found.upper_bound]),
            ]
        )

    def relaxed(margins: Any, weights: Any, scale: Any, strength: Any) -> Any:
        found = relaxed_margin.solve(
            margins,
            relaxations.norm_penalty(2, scale),
            weights=weights,
            votes=relaxations.squared_norm(strength),
            tolerance=1e-9,
        )
        return jnp.stack([found.lower_bound, found.upper_bound])

    def smoothed(margins: Any, weights: Any, nu: Any, smoothing: Any) -> Any:
        soft = relaxations.soft_margin(nu=nu)
        found = relaxed_margin.solve_smoothed(margins, soft, weights=weights, smoothing=smoothing)
        return jnp.concatenate([found.coefficients, found.example_weights, found.value[None]])

    fields = (
        "`coefficients`, `example_weights`, `lower_bound`, `upper_bound`: the first two where they"
        " are unique and not degenerate"
    )
    numbers = {"margins": _MARGINS, "weights": _WEIGHTS, "scale": 0.5, "strength": 0.7}
    return [
        *(
            Row(
                f"lpboost.solve, {name}",
                functools.partial(solve, *options),
                arguments,
                fields,
                tolerance=1e-3,
            )
            for name, options in masters.items()
        ),
        Row(
            "relaxed_margin.solve_smoothed",
            smoothed,
            {"margins": _MARGINS, "weights": _WEIGHTS, "nu": 0.8, "smoothing": 0.2},
            "`coefficients`, `example_weights`, `value`, of any order; `logits` is where to begin",
        ),
        Row(
            "relaxed_margin.solve",
            relaxed,
            numbers,
            "`lower_bound`, `upper_bound`",
            step=1e-3,
            tolerance=1e-3,
        ),
    ]


@functools.cache
def rows() -> tuple[Row, ...]:
    """All rows of functions with derivatives."""
    makers = (
        _losses,
        _heads,
        _projections,
        _relaxations,
        _kernels,
        _operators,
        _formulas,
        _models,
        _programs,
        _margin_solvers,
    )
    return tuple(row for make in makers for row in make())


_SOLVERS = ("lp.solve", "lpboost.solve", "relaxed_margin.solve", "projections.", "kernels.")


def _total(tree: Any) -> Any:
    return sum(
        jnp.sum(leaf)
        for leaf in jax.tree.leaves(tree)
        if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    )


@functools.cache
def without() -> tuple[Without, ...]:
    """All rows of functions without."""
    tried = algorithms(16)
    fits = [
        Without(
            name,
            (lambda *arrays, run=entry.run: _total(run(*arrays))) if entry.traceable else None,
            entry.arrays,
        )
        for name, entry in tried.items()
        if not name.startswith(_SOLVERS)
    ]
    program, margins = tried["lp.solve, interior point"].arrays[0], np.asarray(_MARGINS, np.float32)
    measured = ("primal_residual", "dual_residual", "duality_gap", "history")
    points = ("coefficients", "example_weights")
    hard, scores = relaxations.hard_margin(), np.asarray(_LOSSES, np.float32)
    data = jboost.make_dataset(np.zeros((5, 1), np.float32), [1, -1, 1, 1, -1])
    model = tried["example_weights.fit"]

    def of_bounds(points: Any, labels: Any) -> Any:
        made = jax.lax.stop_gradient(model.run(points, labels))
        return _total(
            jboost.example_weights.recompute_bounds(dataclasses.replace(made, points=points))
        )

    def first_round(features: Any) -> Any:
        data = jboost.make_dataset(features, np.where(np.arange(8) % 3, 1, -1))
        return _total(jboost.adaboost.init(data, jboost.learners.stumps()).example_weights)

    return (
        Without(
            "lp.solve, fields",
            lambda it: _total([getattr(lp.solve(it), name) for name in measured]),
            (program,),
            _names(measured),
        ),
        Without(
            "relaxed_margin.solve, fields",
            lambda it: _total([getattr(relaxed_margin.solve(it, hard), name) for name in points]),
            (margins,),
            _names(points),
        ),
        Without(
            "losses.training_error",
            lambda weights: losses.training_error(data._replace(weights=weights), scores),
            (np.abs(scores),),
        ),
        Without(
            "losses.certify_nothing_voted",
            lambda weights: losses.certify_nothing_voted(
                data._replace(weights=weights)
            ).example_weights[0],
            (np.abs(scores),),
        ),
        Without(
            "adaboost.init",
            first_round,
            (margins,),
            "likewise `init`, `step` and `finish` of every booster",
        ),
        Without("example_weights.recompute_bounds", of_bounds, model.arrays),
        *fits,
    )


# Public functions without a row: what they return is no float of their own, or the row of another
# function says it.
EXEMPT = {
    "boosting": "the loop that boosters share; its users are rows",
    "checkpoints": "states on disk",
    "combine.pairwise.finish": "as `adaboost.init`",
    "combine.pairwise.init": "as `adaboost.init`",
    "combine.pairwise.step": "as `adaboost.init`",
    "combine.recompute_bound": "exact arithmetic on the host",
    "data": "tables on the host",
    "drive": "progress on the host",
    "ensemble.describe": "text",
    "ensemble.outputs": "outputs of the learner",
    "example_weights.compact": "takes rows of a model, on the host",
    "example_weights.sample_scores": "random draws; `jboost.predict_scores` has derivatives",
    "example_weights.validate": "checks values on the host",
    "export": "models as code and data; `to_jax` has the derivatives of `predict_scores`",
    "files": "model files",
    "folds": "draws folds",
    "infoboost.risk_bound": "a formula on the host",
    "infoboost.rounds_needed": "a formula on the host",
    "kernels.central_hyperplanes": "makes a kernel",
    "kernels.custom": "makes a kernel",
    "kernels.hyperplanes": "makes a kernel",
    "kernels.isotropic_hyperplanes": "makes a kernel",
    "kernels.stumps": "makes a kernel",
    "l0.code_length": "integers",
    "l0.decode_labels": "a coder on the host",
    "l0.encode_labels": "a coder on the host",
    "l0.list_pairs": "integers",
    "l0.listed_code_book": "makes a record",
    "l0.monomial_code_book": "makes a record",
    "l0.places_of_monomials": "reads a result",
    "l0.risk_bound": "a formula on the host",
    "learners": "make learners; `learners.trained` differentiates the caller's own function",
    "lp.extend": "makes a record",
    "lp.make_program": "makes a record",
    "lp.validate": "checks values on the host",
    "make_dataset": "makes a record",
    "monomials.covers": "booleans",
    "monomials.rademacher_complexity": "a mean of `monomials.maximum_agreement`",
    "operators.check_adjoint": "checks values on the host",
    "operators.is_operator": "a boolean",
    "operators.pair_cuts_of": "makes an operator as `operators.pair_cuts`",
    "operators.zeros": "its products are 0",
    "operators.streamed": "the host drives its products",
    "pad_dataset": "makes a record",
    "pair.best_trade_off": "picks an entry of a front",
    "predict": "integers",
    "relaxations.from_functions": "has the derivatives of the caller's functions",
    "relaxations.num_worst": "an integer",
    "relaxations.unit_ball": "has no numbers",
    "relaxations.group_ball": "has no numbers that are not integers",
    "projections.binary_entropy_map": "has no numbers",
    "projections.entropy_map": "has no numbers",
    "projections.mirror_map": "has the derivatives of the caller's functions",
    "projections.power_map": "its number has a derivative in projections.bregman_projection",
    "sharding": "places arrays",
    "slipper.rules": "makes a learner",
    "stack_datasets": "makes a record",
    "status": "text",
    "unstack": "makes records",
    "validate": "checks values on the host",
    "verify": "exact arithmetic on the host",
    **{
        f"{package}.{name}": "as `adaboost.init`"
        for package in ("adaboost", "infoboost", "l0", "lpboost", "relaxed_margin", "slipper")
        for name in ("init", "step", "finish")
        if (package, name) != ("adaboost", "init")
    },
}


def function_of(name: str) -> str:
    """The dotted name of the public function of a row."""
    return name.split(",")[0]


# --- the page -------------------------------------------------------------------------------------

_HEAD = """# Derivatives: which functions have them, and in what

This page is written by `python -m tests.derivatives`; `tests/test_derivatives_table.py` checks each
row. "Both modes" means that `jax.jvp` and `jax.vjp` give what central differences give in 64 bits,
in every argument named.

## The rules

- A certified bound keeps its value, rounded outwards, and has the derivative of what it bounds: the
  envelope theorem, at the points of the solution. An infinite bound has NaN.
- Without a solution (infeasible, unbounded, invalid) a derivative is NaN, in forward and in reverse
  mode.
- What has no derivative raises a `TypeError` that names it where `jax.grad` and `jax.vjp` use it,
  and is NaN under `jax.jvp`, which works out all tangents of a program whether they are used or
  not. Other fields of the same result can be differentiated. To take such a result for a constant,
  pass it, or what it depends on, through `jax.lax.stop_gradient`.
- No derivative is silently 0. It is 0 where the function is constant: scores of stumps as functions
  of the features, the numbers of a cap that does not bind.
- A weight of 0 has the effect of `mask` False: the example does not count, and the derivative in
  its weight is 0, though a positive weight would change the value.
- Entropies of example weights (`value`, `penalty` and `charge` of the KL penalty and of binary
  entropies) have the derivative minus infinity at an example weight of 0. Derivatives leave out
  that term, as those of an optimum need them, at which the weight stays 0.

## Degenerate solutions

Where bounds coincide, the solution of a linear program has a kink, and no derivative.
`jboost.lp.solve` and `jboost.lpboost.solve` have the option `derivative`. "vertex", the default,
takes the equations of as many active bounds as there are variables; at a kink more are active, and
which ones count is arbitrary. "least_norm" takes all active bounds, by least squares of least norm:
at the kink of x = max(a, 1) that is 1/2, and along a face of optimal points nothing moves. Away
from kinks the two are one. Objectives and bounds have the derivative that belongs to the points
returned, at kinks too. To round kinks off instead, take `jboost.relaxed_margin.solve_smoothed`.

![A vote of LP-Boost at a kink, and both derivatives](derivatives-degenerate.svg)

`python -m benchmarks.derivatives` draws the figure.

## Derivatives in float32

Derivatives of votes and example weights are no better than the points that the solver returns, and
these end at its tolerance. Of 16 random games of 30 x 5 by the interior point method in float32,
the distance from float64, relative to the largest entry: the median, and the largest
(`python -m benchmarks.derivatives --rounding`).

| tolerance | option | votes | example weights | d votes | d example weights |
|---:|---|---:|---:|---:|---:|
| 1e-04 | vertex | 1e-04, 7e-03 | 2e-04, 4e-03 | 2e-04, 3e-03 | 7e-05, 4e-03 |
| 1e-06 | vertex | 1e-06, 3e-05 | 2e-06, 2e-05 | 2e-06, 1e-05 | 8e-07, 2e-05 |
| 1e-04 | least_norm | 1e-04, 7e-03 | 2e-04, 4e-03 | 1e-04, 4e-01 | 2e-04, 4e-01 |
| 1e-06 | least_norm | 1e-06, 3e-05 | 2e-06, 4e-03 | 1e-06, 1e-05 | 1e-06, 3e-03 |

The loss is that of the tolerance, 1e-4 unless told otherwise in float32, not of rounding: pass
`tolerance=1e-6` where derivatives count. "least_norm" takes bounds for active by their size, and at
1e-4 it took a wrong one in some games.

## Functions with derivatives

| function | differentiable in | modes | remark |
|---|---|---|---|
"""

_WITHOUT = """
## Functions without: reverse mode raises, forward mode is NaN

| function | remark |
|---|---|
"""

_EXEMPT = """
## Functions without a row

| function | why |
|---|---|
"""


def page() -> str:
    """The text of docs/derivatives.md."""
    lines = [f"| {row.name} | {', '.join(row.arguments)} | both | {row.remark} |" for row in rows()]
    others = [
        f"| {row.name} |"
        f" {row.remark or ('' if row.run else 'the host drives it or may watch it')} |"
        for row in without()
    ]
    exempt = [f"| {name} | {reason} |" for name, reason in EXEMPT.items()]
    return (
        _HEAD
        + "\n".join(lines)
        + "\n"
        + _WITHOUT
        + "\n".join(others)
        + "\n"
        + _EXEMPT
        + "\n".join(exempt)
        + "\n"
    )


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
