"""The examples in scripts/examples, on small sizes, and the page docs/training.md that
shows them.
"""

import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jboost

ROOT = Path(__file__).parents[1]
EXAMPLES = ("robust_training", "boosted_networks", "lpboost_head")


@pytest.fixture
def example(monkeypatch):
    """A function that imports an example as its own script does."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "examples"))
    return importlib.import_module


@pytest.fixture
def run(example, tmp_path):
    """A function that runs an example with --quick and reads what it wrote."""

    def run_quick(name, *arguments):
        quick = ["--quick", "--output", str(tmp_path), *arguments]
        assert example(name).main(quick) == 0
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        return json.loads((tmp_path / f"{name}.json").read_text())

    return run_quick


def check_robust_training(results, scenarios):
    assert [record["scenario"] for record in results["records"]] == scenarios
    for record in results["records"]:
        methods = record["methods"]
        assert list(methods) == results["methods"]
        for name, found in methods.items():
            base, chosen = (methods[one]["chosen"]["index"] for one in ("cross-entropy", name))
            for score, difference in found["difference"].items():
                values = np.array(found["scores"][f"test {score}"])
                assert values.shape == (9, results["num_seeds"])
                others = np.array(methods["cross-entropy"]["scores"][f"test {score}"])
                mean = (values[chosen] - others[base]).mean()
                assert difference["mean"] == pytest.approx(mean, abs=1e-5)
                assert difference["low"] <= difference["mean"] <= difference["high"]


def test_robust_training_lowers_the_worst_losses(run):
    results = run("robust_training", "--scenarios", "label noise", "--methods", "CVaR")
    check_robust_training(results, ["label noise"])
    methods = results["records"][0]["methods"]
    # Of equal weight decay: the nets that CVaR trained have the least mean of the worst fifth.
    plain = methods["cross-entropy"]["configurations"].index([0.0, 0.01])
    worst = methods["CVaR"]["configurations"].index([0.2, 0.01])
    means = {
        score: [
            np.mean(methods[name]["scores"][score][index])
            for name, index in (("CVaR", worst), ("cross-entropy", plain))
        ]
        for score in ("training CVaR", "training mean loss")
    }
    assert means["training CVaR"][0] < means["training CVaR"][1]
    assert means["training mean loss"][0] > means["training mean loss"][1]


@pytest.mark.slow
def test_robust_training_runs_under_class_imbalance_and_on_images(run):
    results = run("robust_training", "--data", "breast_cancer", "digits")
    assert {record["data"] for record in results["records"]} == {"breast_cancer", "digits"}
    check_robust_training(results, ["label noise", "class imbalance"] * 2)
    assert len(results["methods"]) == 5


def test_boosted_networks_hold_their_bounds_and_compile_once(run):
    results = run("boosted_networks")
    (record,) = results["records"]
    curves = {name: np.array(values) for name, values in record["boosted"]["curves"].items()}
    assert all(values.shape == (results["num_seeds"], 4) for values in curves.values())
    assert (curves["training error"] <= curves["bound"]).all()
    assert (np.diff(curves["bound"], axis=1) <= 0).all()
    assert record["seconds"]["compilations_of_second_call"] == 0


def test_errors_by_round_are_those_of_the_first_votes(example):
    features = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    labels = np.where(features @ [1.0, 0.5, 0.25] > 0.1, 1, -1)
    votes = np.array([0.5, 0.3, 0.1])
    learner = types.SimpleNamespace(outputs=lambda column, features: jnp.tanh(features[:, column]))
    vote = jboost.ensemble.Ensemble(
        learner, jnp.arange(3), jnp.stack([votes, votes], axis=1), jnp.zeros(()), jnp.array(3)
    )
    errors = example("boosted_networks").errors_by_round(
        vote, jnp.asarray(features), jnp.asarray(labels)
    )
    for count in range(1, 4):
        scores = np.tanh(features[:, :count]) @ votes[:count]
        assert float(errors[count - 1]) == pytest.approx(np.mean((scores > 0) != (labels > 0)))


@pytest.mark.slow
def test_exact_pair_never_has_more_training_errors_than_a_head(run):
    results = run("lpboost_head")
    (record,) = results["records"]
    curves = {name: np.array(values) for name, values in record["curves"].items()}
    assert all(values.shape == (results["num_seeds"], 2) for values in curves.values())
    heads = np.minimum(curves["training error, linear"], curves["training error, lpboost"])
    assert (curves["fewest"] <= heads + 1e-6).all()
    assert np.abs(curves["training error, pair"] - curves["fewest"]).max() <= 1e-6


def test_exact_pair_that_loses_is_an_error(example):
    head = example("lpboost_head")
    names = [f"{part} error, {name}" for part in ("training", "test") for name in head.NAMES]
    curves = dict.fromkeys((*names, "fewest"), np.full((2, 1), 0.25))
    assert head.summarize(curves)["difference"]["pair"]["mean"] == 0
    with pytest.raises(AssertionError, match="more training errors"):
        head.summarize(curves | {"fewest": np.full((2, 1), 0.3)})


def test_splits_are_disjoint_and_have_their_flaws(example):
    robust, tools = example("robust_training"), example("tools")
    random = np.random.default_rng(0)
    numbers = np.arange(2000.0)
    data = tools.Data(numbers[:, None], np.where(random.random(2000) < 0.4, 1, -1))
    for scenario in robust.SHOWN:
        problem = robust.make_problem(data, scenario, seed=3)
        kept = [part.features[:, 0] for part in problem]
        scale = np.std(numbers) / np.concatenate(kept).std()
        rows = np.concatenate(kept)
        rows = np.round((rows - rows.min()) * scale)
        assert len(set(rows)) == len(rows), "an example is in two parts"
    noisy = robust.make_problem(data, "label noise", seed=3)
    assert [len(part.labels) for part in noisy] == [1050, 350, 600]
    skewed = robust.make_problem(data, "class imbalance", seed=3)
    assert np.sum(skewed.test.labels) == 0
    for part in (skewed.training, skewed.validation):
        assert 18 < np.sum(part.labels < 0) / np.sum(part.labels > 0) <= 20


def test_flips_are_of_three_labels_in_ten_and_spare_the_test_part(example):
    robust, tools = example("robust_training"), example("tools")
    signs = np.where(np.arange(4000) % 2 == 0, 1, -1)
    data = tools.Data(signs[:, None].astype(float), signs)
    problem = robust.make_problem(data, "label noise", seed=0)
    shares = [np.mean(np.sign(part.features[:, 0]) != part.labels) for part in problem]
    assert shares[0] == pytest.approx(0.3, abs=0.04)
    assert shares[1] == pytest.approx(0.3, abs=0.06)
    assert shares[2] == 0


def test_convolution_is_that_of_lax(example):
    robust = example("robust_training")
    images = jax.random.normal(jax.random.key(0), (5, 8, 8))
    kernel = jax.random.normal(jax.random.key(1), (9, 4))
    maps = robust.patches_of(images) @ kernel
    expected = jax.lax.conv_general_dilated(
        images[..., None],
        kernel.reshape(3, 3, 1, 4),
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    np.testing.assert_allclose(maps, expected, atol=1e-5)


def test_interval_is_that_of_the_t_test(example):
    values = np.random.default_rng(0).normal(size=20)
    found = example("tools").interval(values)
    expected = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(found, (values.mean(), expected.low, expected.high), rtol=1e-12)


def test_missing_extra_is_named(example, monkeypatch):
    tools = example("tools")
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(SystemExit, match=r"pip install 'jboost\[plots\]'"):
        tools.require_extras("matplotlib")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_say_first_what_one_learns(example, name):
    assert "What one learns from it" in "\n".join(example(name).__doc__.splitlines()[:4])


@pytest.mark.slow
def test_python_of_the_page_on_training_runs_as_written():
    text = (ROOT / "docs" / "training.md").read_text()
    program = "\n".join(part.split("```", 1)[0] for part in text.split("```python\n")[1:])
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=ROOT,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_tables_of_the_page_on_training_are_those_of_the_results(example):
    text = (ROOT / "docs" / "training.md").read_text()
    found = {
        name: json.loads(
            (ROOT / "benchmarks" / "results" / "examples" / f"{name}.json").read_text()
        )
        for name in EXAMPLES
    }
    tables = [example(name).table(results) for name, results in found.items()]
    tables.append(
        example("robust_training").strength_table(found["robust_training"], "CVaR", "label noise")
    )
    for table in tables:
        assert table in text, f"the page has another table than the results:\n{table}"
    assert all(
        (ROOT / "docs" / "figures" / f"{name}.png").stat().st_size < 100_000 for name in EXAMPLES
    )
