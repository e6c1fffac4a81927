"""Declared hooks of learners: their defaults, and the errors for misspelt ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import pytest

import jboost
from jboost import learners
from jboost.base import boosting


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
