"""Declared hooks of learners, boosters, operators and kernels: their defaults, and the errors for
misspelt ones.
"""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import jboost
from jboost import kernels, learners, operators
from jboost.base import boosting, protocols


@learners.register
@dataclasses.dataclass(frozen=True)
class FirstColumn(learners.Learner):
    """Proposes the signs of the first column, whatever the weights."""

    scale: float = 1.0

    def init(self, key: Any, dataset: Any) -> Any:
        del key
        return {"features": dataset.features, "signs": boosting.signs(dataset)}

    def propose(
        self, state: Any, example_weights: Any, *, pair_weights: Any = None, costs: Any = None
    ) -> boosting.Proposal:
        del pair_weights, costs
        outputs = self.outputs(jnp.zeros(()), state["features"])[None]
        edges = outputs @ (example_weights * state["signs"])
        return boosting.Proposal(jnp.zeros((1,)), outputs, edges, jnp.full((), jnp.inf), state)

    def outputs(self, hypothesis: Any, features: Any) -> Any:
        del hypothesis
        return self.scale * jnp.sign(features[:, 0])


def test_learner_defaults() -> None:
    learner = FirstColumn()
    assert [field.name for field in dataclasses.fields(learner)] == ["scale"]
    assert learner.has_negations
    assert boosting.has_negations(learner)
    assert not learner.has_quick_answers
    assert not boosting.has_quick_answers(learner)
    assert learner.places(jnp.zeros(1)) is None
    assert not learner.never_abstains(None)
    assert not bool(learner.outputs_are_signs(None))
    learner.validate(jboost.make_dataset([[1.0]], [1]))  # accepts any features


def test_learner_subclass_fits_as_any_other() -> None:
    dataset = jboost.make_dataset([[0.2], [0.9], [-0.5]], [1, 1, -1])
    fit = jboost.adaboost.fit(dataset, FirstColumn(), max_rounds=2)
    assert (jboost.ensemble.scores(fit.ensemble, dataset.features) * dataset.labels > 0).all()


@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("price_", "price"),
        ("place", "places"),
        ("has_negation", "has_negations"),
        ("validates", "validate"),
        ("num_hypothesis", "num_hypotheses"),
        ("describes", "describe"),
    ],
)
def test_misspelt_hook_raises(name: str, hook: str) -> None:
    with pytest.raises(TypeError, match=rf"Odd\.{name}: not a hook of Learner; .* `{hook}`\?"):
        type("Odd", (FirstColumn,), {name: lambda self: None})


def test_names_that_are_no_error() -> None:
    own = {"_place": None, "budget": 3, "scale": 2.0, "places": lambda self, hypotheses: None}
    type("Own", (FirstColumn,), own)
    type("Field", (FirstColumn,), {"place": 1, "__annotations__": {"place": int}})


def test_field_must_not_take_a_hook_as_its_default() -> None:
    with pytest.raises(TypeError, match="Bad.has_negations: a field with the name of a hook"):
        type("Bad", (FirstColumn,), {"__annotations__": {"has_negations": bool}})


def test_abstract_methods_are_required() -> None:
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (learners.Learner,), {})()


def test_booster_defaults_and_misspelt_hooks() -> None:
    own = {name: lambda self, *arguments: None for name in ("capacity", "init", "absorb")}
    booster = type("Own", (boosting.Booster,), own)()
    assert booster.takes_each_once is False
    assert booster.takes_turns is False
    assert booster.takes_all(None, None) is False
    with pytest.raises(TypeError, match=r"Odd\.takes_turn: not a hook of Booster; .*`takes_turns`"):
        type("Odd", (boosting.Booster,), {**own, "takes_turn": True})
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (boosting.Booster,), {})()


class NoBase:
    """A class with three methods of a learner, and without the base."""

    init = propose = outputs = lambda self, *arguments: None


def test_hook_is_the_default_where_the_base_is_missing() -> None:
    learner = NoBase()
    assert protocols.missing_methods(learners.Learner, learner) == []
    assert protocols.missing_methods(learners.Learner, object()) == ["init", "propose", "outputs"]
    assert protocols.hook(learners.Learner, learner, "has_negations") is True
    assert protocols.hook(learners.Learner, learner, "places")(None) is None
    assert not protocols.hook(learners.Learner, learner, "outputs_are_signs")(None)
    learner.has_negations = False
    assert protocols.hook(learners.Learner, learner, "has_negations") is False
    assert protocols.optional_hook(learners.Learner, learner, "every") is None
    assert protocols.optional_hook(boosting.Booster, learner, "ask") is None


def test_hook_must_be_declared() -> None:
    with pytest.raises(KeyError, match="has_negation"):
        protocols.hook(learners.Learner, NoBase(), "has_negation")
    with pytest.raises(KeyError, match="Learner declares no optional hook evry"):
        protocols.optional_hook(learners.Learner, NoBase(), "evry")


def test_can_describe_follows_the_hook_and_the_inner_learner() -> None:
    silent, telling = FirstColumn(), learners.stumps()
    assert not silent.can_describe
    assert telling.can_describe
    assert not learners.signs(silent).can_describe
    assert learners.signs(telling).can_describe
    assert not protocols.hook(learners.Learner, NoBase(), "can_describe")
    dataset = jboost.make_dataset([[0.2], [0.9], [-0.5]], [1, 1, -1])
    fit = jboost.adaboost.fit(dataset, learners.signs(FirstColumn()), max_rounds=1)
    with pytest.raises(ValueError, match="ensemble is of a Signs, which has no describe"):
        jboost.ensemble.describe(fit.ensemble, ["x"])


PRODUCTS = {
    name: lambda self, vector: vector
    for name in (
        "matvec",
        "rmatvec",
        "row_norms",
        "column_norms",
        "bracket_matvec",
        "bracket_rmatvec",
    )
}


def test_operator_defaults_and_misspelt_hooks() -> None:
    own = {**PRODUCTS, "to_dense": lambda self: jnp.eye(2), "shape": (2, 2)}
    operator = type("Own", (operators.Operator,), own)()
    assert operators.is_operator(operator)
    assert operator.largest_entry() == jnp.inf
    for wrong, right in (("rmatvecs", "rmatvec"), ("largest_entrys", "largest_entry")):
        with pytest.raises(TypeError, match=rf"Odd\.{wrong}: not a hook of Operator; .*`{right}`"):
            type("Odd", (operators.Operator,), {**own, wrong: None})
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (operators.Operator,), PRODUCTS)()


@pytest.mark.parametrize("name", operators.__all__)
def test_operators_of_the_package_declare_their_hooks(name: str) -> None:
    member = getattr(operators, name)
    if isinstance(member, type):
        assert issubclass(member, operators.Operator)


def test_kernel_defaults_and_misspelt_hooks() -> None:
    own = {"disagreement": lambda self, a, b: None, "is_inside": lambda self, points: None}
    with pytest.raises(ValueError, match="draws no hypotheses"):
        type("Own", (kernels.Kernel,), own)().draw(None, None)
    with pytest.raises(TypeError, match=r"Odd\.draws: not a hook of Kernel; .*`draw`"):
        type("Odd", (kernels.Kernel,), {**own, "draws": None})


PACKAGE = Path(jboost.__file__).parent
# `verify` imports nothing of jboost: it reads models without their classes.
WITHOUT_PROTOCOLS = (PACKAGE / "verify.py",)


def looked_up(source: str) -> list[str]:
    """The calls `hasattr(learner, ...)` and `getattr(learner, ...)`, also of `x.learner`."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [
        ast.unparse(call)
        for call in calls
        if ast.unparse(call.func) in ("hasattr", "getattr")
        and ast.unparse(call.args[0]).rpartition(".")[2] in ("learner", "_learner")
    ]


def test_looked_up_finds_learners() -> None:
    source = (
        "hasattr(learner, 'a'); getattr(self.learner, 'b', 0); getattr(learners, 'c'); learner.d"
    )
    assert looked_up(source) == ["hasattr(learner, 'a')", "getattr(self.learner, 'b', 0)"]


def test_hooks_of_learners_are_read_by_the_protocol() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): calls
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in WITHOUT_PROTOCOLS and (calls := looked_up(path.read_text(encoding="utf-8")))
    }
    assert not found, "read hooks by jboost.base.protocols.hook and optional_hook"


def test_learners_of_jboost_have_the_base() -> None:
    made = (
        learners.stumps(),
        learners.monomials(1),
        learners.pool(),
        learners.literals(),
        jboost.slipper.rules(),
    )
    assert all(isinstance(learner, learners.Learner) for learner in made)
