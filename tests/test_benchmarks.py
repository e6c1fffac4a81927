"""The benchmarks run, their peers find what jboost finds, and the tables are made from their JSON.
No time is asserted.
"""

import json
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jboost
from benchmarks import (
    batches,
    combine_exact,
    estimators,
    harness,
    l0_folds,
    l0_stabilisation,
    pair_data,
    pair_sweep,
    reading,
    real_tables,
    table,
    trees,
)
from benchmarks.peers import integer_program, plain_sweep, tables
from jboost.l0.large import proof, relax
from jboost.l0.large import table as large_table
from jboost.l0.large.patterns import RowCuts
from jboost.l0.large.pool import ColumnPool

SIZE = 12  # one shape for all peers, so that each compiles once
SMALL = tuple(
    pair_sweep.make_data(name, SIZE, seed=seed) for name in pair_sweep.DATA for seed in range(4)
)


@pytest.fixture(autouse=True)
def _what_other_tests_compiled_stays(monkeypatch):
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    cache = jax.config.jax_enable_compilation_cache
    yield
    jax.config.update("jax_enable_compilation_cache", cache)


def optimum(points, labels, **options):
    return float(jboost.pair.optimal_separator(points, labels, tie_break=None, **options).loss)


def test_harness_tells_compilation_from_runs():
    calls = []
    measurement, value = harness.measure(lambda: calls.append(0) or jnp.zeros(3) + 1, repeats=3)
    assert value.tolist() == [1, 1, 1]
    assert len(calls) == 4
    assert measurement.num_runs == 3
    assert measurement.compile_seconds >= 0
    assert math.isfinite(measurement.run_seconds)
    assert math.isfinite(measurement.cpu_seconds)


def test_harness_races_fairly_and_stops_at_the_cap():
    calls = []
    contenders = [
        harness.Contender("a", lambda: calls.append("a"), repeats=2),
        harness.Contender("b", lambda: calls.append("b"), repeats=5, cap_seconds=0.0),
        harness.Contender("c", lambda: calls.append("c"), compiles=False, repeats=1),
    ]
    measurements, _ = harness.race(contenders, fresh=False)
    assert calls == ["a", "b", "c", "a", "b", "a"]
    assert {name: it.num_runs for name, it in measurements.items()} == {"a": 2, "b": 1, "c": 1}
    assert all(it.compile_seconds is None for it in measurements.values())
    assert set(harness.ratios(measurements, "a")) == {"b", "c"}


def test_peer_is_skipped_with_a_reason():
    peer = harness.Peer(cap_seconds=10.0, max_size=1000)
    assert peer.reason_to_skip(100) is None
    peer.note(100, 1.0)
    assert peer.reason_to_skip(300) is None
    assert "foreseen" in peer.reason_to_skip(400)
    assert "1000" in peer.reason_to_skip(1001)


def test_harness_writes_whole_files(tmp_path):
    path = harness.write(
        "tiny",
        {"records": [{"loss": np.float32(2), "seconds": harness.Measurement(1.0, 2.0, None, 3)}]},
        tmp_path / "new",
    )
    document = json.loads(path.read_text())
    assert path.name == f"tiny-{document['environment']['platform']}.json"
    assert document["records"] == [
        {
            "loss": 2.0,
            "seconds": {
                "run_seconds": 1.0,
                "cpu_seconds": 2.0,
                "compile_seconds": None,
                "num_runs": 3,
            },
        }
    ]
    assert {"cpu_count", "device", "jax", "jaxlib", "jboost", "platform", "python"} <= set(
        document["environment"]
    )
    assert list(document) == sorted(document)
    before = path.read_text()
    with pytest.raises(ValueError):  # NaN is not JSON
        harness.write("tiny", {"records": [math.nan]}, path.parent)
    with pytest.raises(TypeError, match="object"):
        harness.write("tiny", {"records": [object()]}, path.parent)
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.slow
def test_plain_sweep_equals_jboost():
    for points, labels in SMALL:
        assert float(plain_sweep.least_loss(points, labels)) == optimum(points, labels)
    points, labels = SMALL[0]
    weights = np.arange(1, SIZE + 1, dtype=np.float32)
    assert float(plain_sweep.least_loss(points, labels, weights)) == optimum(
        points, labels, weights=weights
    )
    assert float(plain_sweep.least_loss(points, np.ones(SIZE))) == 0


@pytest.mark.slow
def test_integer_program_equals_jboost():
    pytest.importorskip("highspy")
    for points, labels in SMALL[::3]:
        solution = integer_program.least_loss(points, labels)
        assert solution.status == "Optimal"
        # HiGHS's feasibility tolerance
        assert solution.loss == pytest.approx(solution.lower_bound, abs=1e-6)
        assert solution.loss == optimum(points, labels)
    assert integer_program.least_loss(points, np.ones(SIZE)).loss == 0


@pytest.mark.slow
def test_pair_sweep_writes_what_the_table_shows(tmp_path, capsys):
    pytest.importorskip("highspy")
    results, readme = tmp_path / "results", tmp_path / "README.md"
    arguments = [
        "--quick",
        "--sizes",
        str(SIZE),
        "--repeats",
        "1",
        "--output",
        str(results),
        "--only",
        "sweep",
    ]
    assert pair_sweep.main(arguments) == 0
    (path,) = results.iterdir()
    document = json.loads(path.read_text())
    assert [(record["data"], record["size"]) for record in document["records"]] == [
        (name, SIZE) for name in pair_sweep.DATA
    ]
    for record in document["records"]:
        assert set(record["contenders"]) == {"jboost", "jboost margin", "plain JAX", "HiGHS"}
        assert set(record["ratios_to_jboost"]) == {"jboost margin", "plain JAX", "HiGHS"}

    place = ["--files", str(readme), "--results", str(results)]
    readme.write_text("# A project\n")
    assert table.main(place) == 2  # no markers
    readme.write_text(
        "# A project\n\n<!-- benchmarks:begin -->\n<!-- benchmarks:end -->\n\nMore.\n"
    )
    assert table.main([*place, "--check"]) == 1
    assert table.main(place) == 0
    assert table.main([*place, "--check"]) == 0
    text = readme.read_text()
    assert text.startswith("# A project\n")
    assert text.endswith("\nMore.\n")
    assert all(f"| {name} | {SIZE} |" in text for name in pair_sweep.DATA)
    for record in document["records"]:
        record["optimum"] += 1
    path.write_text(json.dumps(document))
    assert table.main([*place, "--check"]) == 1
    (results / "unknown-cpu.json").write_text('{"name": "unknown"}')
    assert table.main(place) == 2
    assert readme.read_text() == text
    readme.write_text("<!-- nothing:begin -->\n<!-- nothing:end -->\n")
    assert table.main(place) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_tables_of_the_repository_are_those_of_its_results(capsys):
    assert table.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("noise", combine_exact.NOISE)
def test_highs_and_branch_and_cut_find_the_same_number_of_errors(noise):
    record = combine_exact.measure(24, 3, noise, 60.0)
    assert record["status"] == "OPTIMAL"
    assert record["errors"] == record["lower_bound"] == record["highs_errors"]
    assert record["highs_lower_bound"] == pytest.approx(record["errors"], abs=1e-6)
    results = {"records": [record], "seconds": 60.0}
    assert f"| 24 x 3 | {100 * noise:g} % |" in combine_exact.table(results)


def test_unfinished_and_skipped_peers_are_shown_as_such():
    seconds = {"run_seconds": 2.0, "cpu_seconds": 2.0, "compile_seconds": None, "num_runs": 1}
    ours = {"seconds": seconds, "ns_per_pair": 50.0}
    late = {"seconds": seconds, "status": "Time limit reached", "loss": 9.0, "same_loss": False}
    record = {"data": "d", "size": 1000, "optimum": 8.0, "ratios_to_jboost": {"HiGHS": 200.4}}
    record["contenders"] = {
        "jboost": ours,
        "jboost margin": ours,
        "plain JAX": {"skipped": "why"},
        "HiGHS": late,
    }
    row = pair_sweep.sweep_table({"records": [record]}).splitlines()[-1]
    assert row == "| d | 1,000 | 8 | 2 s | 50 | 2 s |  |  | 2 s (9) | > 200 |"


def test_best_threshold_is_the_best_of_all():
    score = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 3.0])
    for code in range(2 ** len(score)):
        labels = np.array([1 if code >> bit & 1 else -1 for bit in range(len(score))])
        cuts = [
            (np.where(sign * (score - cut) > 0, 1, -1) != labels).sum()
            for cut in (-1, 0.5, 1.5, 2.5, 4)
            for sign in (1, -1)
        ]
        assert pair_data.best_threshold_loss(score, labels) == min(cuts)


@pytest.mark.slow
def test_pair_data_skips_what_is_absent(tmp_path, capsys):
    pytest.importorskip("sklearn")
    assert (
        pair_data.main(["--data", str(tmp_path / "none"), "--output", str(tmp_path / "out")]) == 0
    )
    assert "skipped" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    points, labels = pair_sweep.make_data("Ripley's mixture", SIZE)
    lines = [f"{x},{y},{int(label > 0)}" for (x, y), label in zip(points, labels, strict=True)]
    (tmp_path / "RIPLEY_TR.csv").write_text("\n".join(["xs,ys,label", *lines]) + "\n")
    assert (
        pair_data.main(["--data", str(tmp_path), "--quick", "--output", str(tmp_path / "out")]) == 0
    )
    (path,) = (tmp_path / "out").iterdir()
    (record,) = json.loads(path.read_text())["records"]
    assert record["loss"] == optimum(points, labels)
    assert "| Ripley | 12 |" in pair_data.data_table({"records": [record]})


def test_the_peer_of_folds_gets_all_literals_of_either_sign():
    outputs = l0_folds.literals(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert outputs.T.tolist() == [
        [1, 1],
        [-1, -1],
        [0, 1],
        [1, 1],
        [1, 0],
        [0, 0],
        [0, -1],
        [-1, -1],
        [-1, 0],
        [0, 0],
    ]


def test_all_readers_find_all_rows(tmp_path):
    path = tmp_path / "table.csv"
    for kind in reading.TABLES:
        reading.write_table(path, kind, 50, 4)
        found = {way: reading.measure_one(str(path), kind, way) for way in reading.WAYS}
        assert {measured["num_rows"] for measured in found.values()} == {50}
        record = {
            "table": kind,
            "rows": 50,
            "columns": 4,
            "bytes": path.stat().st_size,
            "ways": found,
        }
        assert reading.table({"records": [record]}).count(f"| {kind} | 50 x 4, 0 MB |") == len(
            reading.WAYS
        )


def test_all_models_of_real_tables_see_the_same_rows(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    lines = [f"{row % 7},{'' if row % 5 == 0 else 'ab'[row % 2]},{row % 2}" for row in range(30)]
    (tmp_path / "small.csv").write_text("\n".join(["x,kind,label", *lines]) + "\n")
    folds = real_tables.TableOf("small.csv", {1: 1.0}, num_folds=3)
    monkeypatch.setattr(
        real_tables, "TABLES", {"folds": folds, "third": real_tables.TableOf("small.csv", {1: 1.0})}
    )
    assert len(list(real_tables.parts_of("third", tmp_path, tmp_path))) == 1
    tested = []
    for part in real_tables.parts_of("folds", tmp_path, tmp_path):
        training, test = (path.read_text().splitlines()[1:] for path in (part.training, part.test))
        assert sorted(training + test) == sorted(lines)
        assert part.test_labels.tolist() == [line.endswith("1") for line in test]
        tested += test
        with np.load(part.encoded) as held:
            rows = tables.Rows(held["training"], held["labels"], held["test"], held["is_category"])
        assert rows.is_category.tolist() == [False, True]
        assert np.isnan(rows.training[:, 1]).tolist() == [",," in line for line in training]
        record = tables.scored(tables.tree(rows), part.test_labels)
        assert record["accuracy"] >= 0.8  # the category is the label where it is known
        assert record["rules"] <= 2**tables.TREE_DEPTH
    assert sorted(tested) == sorted(lines)


def test_rows_of_a_known_vote_have_so_many_wrong_labels():
    columns, labels = real_tables.known_rows(20_000, 5)
    clean = sum(
        vote * ((columns[:, i] > p / 10) & (columns[:, j] > q / 10))
        for (i, p), (j, q), vote in real_tables.KNOWN_RULES
    )
    wrong = (clean + real_tables.KNOWN_CONSTANT > 0) != labels
    assert wrong.mean() == pytest.approx(real_tables.KNOWN_NOISE, abs=0.01)
    assert 0.3 < labels.mean() < 0.7


def test_processes_are_timed_and_stopped_and_say_why_they_failed():
    ended = real_tables.run_alone((sys.executable, "-c", "print(7)"), 60.0)
    assert (ended.status, ended.output) == ("ran", "7\n")
    assert (
        real_tables.run_alone((sys.executable, "-c", "import time; time.sleep(60)"), 0.2).status
        == "time limit"
    )
    assert (
        real_tables.run_alone((sys.executable, "-c", "raise SystemExit('no memory')"), 60.0).status
        == "failed: no memory"
    )


def test_real_tables_are_shown_with_what_is_known_of_each_model():
    bounds = {"lower_bound": 90.0, "upper_bound": 100.0}
    ran = {
        "status": "ran",
        "accuracy": 0.75,
        "auroc": 0.8,
        "rules": 3,
        "literals": 5,
        "seconds": 2.0,
        "megabytes": 300.0,
    }
    absent = {"status": "not installed", "seconds": 0.1, "megabytes": 20.0}
    splits = {"l0, order 2": [ran | {"certificate": bounds}] * 2, "EBM": [absent]}
    records = [
        {"table": "T", "model": model, "splits": found, **real_tables.mean_of(found)}
        for model, found in splits.items()
    ]
    rows = real_tables.table({"records": records}).splitlines()[2:]
    assert rows == [
        "| T | l0, order 2 | 0.750 | 0.800 | 3.0 | 5.0 | 2 s | 300 MB | 10.00% | ran |",
        "| T | EBM |  |  |  |  |  |  |  | not installed |",
    ]


def test_trees_get_the_same_rows_here_and_there(tmp_path):
    pytest.importorskip("sklearn")
    rows = [f"{row % 5 or ''},{'abc'[row % 3]},{row % 2}" for row in range(30)]
    file = tmp_path / trees.FILES["PIMA"]
    file.parent.mkdir()
    file.write_text("\n".join(["number,kind,label", *rows]) + "\n")
    (split,) = trees.read(["PIMA", "VOTE"], tmp_path)
    assert split.categorical == (1,)
    assert split.is_test.sum() == 10
    number, kind = split.features.T
    assert np.isnan(number).sum() == 6
    np.testing.assert_array_equal(kind, np.arange(30) % 3)
    np.testing.assert_array_equal(split.one_hot[:, 0], np.where(np.isnan(number), 2.5, number))
    np.testing.assert_array_equal(split.one_hot[:, 1], np.isnan(number))
    np.testing.assert_array_equal(split.one_hot[:, 2:].argmax(axis=1), kind)


def test_batches_stop_at_a_size_that_takes_too_long(monkeypatch):
    name = "projections.projection_simplex"
    one, some = batches.measure(name, sizes=(1, 3))
    assert (one["size"], some["size"]) == (1, 3)
    assert some["argument_bytes"] == 3 * one["argument_bytes"] > 0
    assert min(some["batch_seconds"], some["loop_seconds"], some["compile_seconds"]) > 0

    monkeypatch.setattr(batches, "_MOST_SECONDS", 0.0)
    measured, skipped = batches.measure(name, sizes=(1, 3))
    assert "foreseen" in skipped["skipped"]
    shown = batches.table({"records": {name: [measured, skipped]}})
    assert skipped["skipped"] in shown
    assert shown.count(name) == 2


def test_table_of_estimators_has_a_row_for_each_model_and_keeps_other_records():
    numbers = dict(
        zip(estimators._MEASURES, (0.8, 0.9, None, 0.25, 4.0, 0.01, 2.0, 1.0), strict=True)
    )
    old = [
        {"set": "VOTE", "model": "a", **numbers},
        {"set": "BCW", "model": "a", **numbers},
        {"set": "BCW", "model": "b", **numbers},
    ]
    new = [{"set": "BCW", "model": "b", **numbers, "balanced_accuracy": 0.6}]
    records = estimators._merged(old, new)
    assert [record["set"] for record in records] == ["BCW", "BCW", "VOTE"]
    shown = estimators.table({"records": records, "num_folds": 3})
    assert "| a | 0.800 | 0.900 |  | 0.250 | 4.0 | 0.010 | 2.0 | 1.0 |" in shown
    assert "| b | 0.600 |  |" in shown


def test_stabilised_duals_are_mixtures_or_lie_in_the_box():
    random = np.random.default_rng(0)
    features = random.integers(0, 2, (12, 3)).astype(np.float32)
    labels = np.where(np.arange(12) < 6, 1.0, -1.0)
    learner = jboost.learners.monomials(1)
    made, _ = large_table.make_table(jboost.make_dataset(features, labels), learner, 0.1)
    state = relax.begin(made, ColumnPool(made, 64), is_either=False)

    def duals():
        cuts = RowCuts(random.permutation(6)[:4], 6 + random.permutation(6)[:4], random.random(4))
        return proof.feasible(made, proof.TableDuals(random.random(12), cuts))

    def by_cut(duals):
        dense = np.zeros((12, 12))
        np.add.at(dense, (duals.cuts.inside, duals.cuts.outside), duals.cuts.weights)
        return dense

    best, own = duals(), duals()
    ways = {name: make() for name, make in l0_stabilisation.WAYS.items()}
    assert all(stabilise(state, own) is own for stabilise in ways.values())  # nothing is proven yet
    state.proven = proof.prove(made, best, proof.price(made, best))
    best = state.proven.duals
    for share in l0_stabilisation.SHARES:
        mixed = ways[f"smoothing, {share:g}"](state, own)
        np.testing.assert_allclose(
            mixed.example_weights, (1 - share) * own.example_weights + share * best.example_weights
        )
        np.testing.assert_allclose(by_cut(mixed), (1 - share) * by_cut(own) + share * by_cut(best))
    near = ways["box"](state, own)
    room = l0_stabilisation.FIRST_BOX + 1e-12
    assert (np.abs(near.example_weights - best.example_weights) <= room).all()
    assert (np.abs(by_cut(near) - by_cut(best)) <= room).all()
    assert (np.abs(own.example_weights - best.example_weights) > room).any()
