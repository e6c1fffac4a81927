"""The command that reproduces Table 1: data from a folder and from OpenML, runs that are cut off,
and the table beside the published one.
"""

import json
import urllib.error
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from benchmarks.paper001 import command, data, folds, methods
from benchmarks.paper001 import lines as line_module
from benchmarks.paper001 import table as tables
from jboost.data import binarization

SETTINGS = """
sets = ["BCW"]
methods = ["l0", "lpboost", "slipper"]
max_order = 1
replications = 2
folds = 3
cuts = "class_changes"
margin_times_m = 20.0
kappa = 1.5
nu = 0.56
tolerance = 1e-3
max_rounds = 4
num_proposed = 1
max_columns = 32
"""


@pytest.fixture
def folder(tmp_path):
    """A data set of thirty rows, one column of numbers with a gap, one of text."""
    rows = [f"{'' if i == 4 else i % 7},{'ab'[i % 2]},{1 if i % 3 else -1}" for i in range(30)]
    (tmp_path / "BCW.csv").write_text("\n".join(["size,kind,label", *rows]) + "\n")
    (tmp_path / "settings.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def table():
    """Rows [40, 2] of numbers with equal ones among them, labels, and names."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 6, 40), rng.integers(0, 9, 40)]).astype(float)
    return rows, np.where((rows[:, 0] > 2) ^ (rng.random(40) < 0.2), 1.0, -1.0), ("size", "age")


def alike_for(group, *values):
    """What `methods.learn` returns where the methods of a group all found the same."""
    return tuple(np.full((len(group),), value) for value in values)


WITH_INNER = {"replications": 1, "folds": 2, "inner_folds": 3, "cuts": "class_changes"}


@pytest.mark.slow
def test_inner_folds_hold_out_every_training_row_once(table):
    rows, labels, names = table
    for _, _, part in folds.prepare(rows, labels, names, WITH_INNER):
        np.testing.assert_array_equal(part.inner.held_out.sum(axis=0), part.training)
        examples = methods.examples_of("l0-chosen", part, labels)
        counted = np.asarray(examples.dataset.mask)
        np.testing.assert_array_equal(
            examples.held_out.sum(axis=0), np.where(counted, examples.dataset.weights, 0)
        )
        assert examples.held_out.sum() == part.training.sum()
        # a row of several examples lies in several folds
        assert ((examples.held_out > 0).sum(axis=0) > 1).any()
        assert methods.examples_of("slipper", part, labels).dataset.labels.shape == (40,)


@pytest.mark.slow
def test_inner_folds_are_binarized_without_what_they_hold_out(table):
    """Whatever the labels of rows that are held out, the bits are those of the other rows, and
    equal rows have equal bits as before.
    """
    rows, labels, names = table
    ((_, _, part), *_) = folds.prepare(rows, labels, names, WITH_INNER)
    settings = {"cuts": "class_changes", "missing": "literal"}
    for held_out, bits in zip(part.inner.held_out, part.inner.features, strict=True):
        others = part.training & ~held_out
        alone = binarization.apply(
            binarization.fit(rows[others], labels[others], names=names, **settings), rows
        )
        np.testing.assert_array_equal(bits[:, : alone.shape[1]], alone)
        assert not bits[:, alone.shape[1] :].any()
    examples = methods.examples_of("l0-chosen", part, labels)
    merged = {
        (*row, *np.ravel(inner), label)
        for row, inner, label in zip(
            part.features, part.inner.features.swapaxes(0, 1), labels, strict=True
        )
    }
    held = np.flatnonzero(examples.dataset.mask)
    seen = {
        (
            *examples.dataset.features[row].tolist(),
            *np.ravel(examples.fold_features[:, row]),
            float(examples.dataset.labels[row]),
        )
        for row in held
    }
    assert seen <= merged
    assert len(seen) == len(held)


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on(folder, monkeypatch, capsys):
    calls = []

    def learn(group, sizes, examples, features, labels, training, knobs, key):
        if len(calls) == 5:
            calls.append("cut off")
            raise KeyboardInterrupt
        assert features.shape[0] == len(labels) == 30
        assert not features[:, knobs["num_attributes"] :].any()
        counted = examples.dataset.mask
        assert float(examples.dataset.weights[counted].sum()) == training.sum()
        assert (
            int(counted.sum()) < training.sum()
            if group == ("l0",)
            else int(counted.sum()) == training.sum()
        )
        calls.append((group, training.tobytes(), float(knobs["nu"])))
        right = int((~training).sum()) - 1
        return alike_for(group, right, int(training.sum()), 3, 0.1, 2, 0, 1.0, 2.0, np.nan)

    monkeypatch.setattr(methods, "learn", learn)
    arguments = [
        "--config",
        str(folder / "settings.toml"),
        "--data",
        str(folder),
        "--output",
        str(folder / "out.json"),
    ]
    with pytest.raises(KeyboardInterrupt):
        command.main(arguments)
    assert len(line_module.read_lines(folder / "out.jsonl")) == 5
    assert command.main(arguments) == 0
    lines = line_module.read_lines(folder / "out.jsonl")
    assert len(lines) == len({(it["method"], it["replication"], it["fold"]) for it in lines}) == 18
    calls.remove("cut off")
    assert len(set(calls)) == 18
    rows = json.loads((folder / "out.json").read_text())["rows"]
    assert [(row["method"], row["num_folds"], row["published_support"]) for row in rows] == [
        ("l0", 6, 9.1),
        ("lpboost", 6, 3.8),
        ("slipper", 6, 19.5),
    ]
    assert rows[0]["accuracy"] == pytest.approx(0.9)
    assert "0.963" in capsys.readouterr().out
    assert command.main(arguments) == 0
    assert len(calls) == 18
    (folder / "settings.toml").write_text(SETTINGS.replace("kappa = 1.5", "kappa = 1.0"))
    with pytest.raises(ValueError, match="lines of other settings"):
        command.main(arguments)


@pytest.mark.slow
def test_data_sets_side_by_side_are_as_one_after_the_other(folder):
    (folder / "VOTE.csv").write_text((folder / "BCW.csv").read_text().replace(",a,", ",c,"))
    settings = SETTINGS.replace('["BCW"]', '["VOTE", "BCW"]').replace(
        '["l0", "lpboost", "slipper"]', '["adaboost", "slipper"]'
    )
    (folder / "settings.toml").write_text(settings)
    found = []
    for jobs in ("1", "2"):
        output = folder / f"out-{jobs}.json"
        assert (
            command.main(
                [
                    "--config",
                    str(folder / "settings.toml"),
                    "--data",
                    str(folder),
                    "--jobs",
                    jobs,
                    "--output",
                    str(output),
                ]
            )
            == 0
        )
        found.append(
            [{**row, "cpu_seconds_each": None} for row in json.loads(output.read_text())["rows"]]
        )
    assert len(found[0]) == 4
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("names", [["adaboost"], ["l0", "lpboost", "slipper"]])
def test_folds_in_one_program_are_as_one_by_one(folder, names):
    (folder / "settings.toml").write_text(
        SETTINGS.replace('["l0", "lpboost", "slipper"]', json.dumps(names))
    )
    found = []
    for together in ("1", "4"):  # of two replications of three folds: four, and two that are left
        arguments = ["--together", together, "--output", str(folder / f"out-{together}.json")]
        assert (
            command.main(
                ["--config", str(folder / "settings.toml"), "--data", str(folder), *arguments]
            )
            == 0
        )
        lines = line_module.read_lines(folder / f"out-{together}.jsonl")
        found.append(
            sorted(
                ({**line, "cpu_seconds": None} for line in lines),
                key=lambda line: [line[key] for key in line_module.KEYS[:4]],
            )
        )
    assert len(found[0]) == 6 * len(names)
    for one, other in zip(*found, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert other[key] == (
                pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
            ), key


@pytest.mark.slow
def test_folds_that_do_not_fit_a_device_together_are_fewer(folder, fits, monkeypatch, capsys):
    def learn_together(group, sizes, examples, features, labels, training, knobs, key):
        num_folds = len(features)
        tried.append(num_folds)
        if num_folds > 2:
            raise jax.errors.JaxRuntimeError(
                "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
            )
        return tuple(
            np.full((num_folds, 1), value) for value in (1, 20, 3, 0.1, 2, 0, 1.0, 2.0, np.nan)
        )

    tried = []
    monkeypatch.setattr(methods, "learn_together", learn_together)
    assert command.main([*arguments_of(folder), "--together", "6"]) == 0
    assert tried == [6, 3, 2, 3, 2] * 3
    assert fits == ["l0"] * 2 + ["lpboost"] * 2 + ["slipper"] * 2  # threes are ones and twos
    assert len(line_module.read_lines(folder / "out.jsonl")) == 18
    assert (
        "6 folds do not fit the device's memory together: 3 are tried (--together)"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("option", ["--together", "--jobs"])
def test_counts_are_positive(folder, option, capsys):
    with pytest.raises(SystemExit):
        command.main([*arguments_of(folder), option, "0"])
    assert f"argument {option}: 0 is not a positive whole number" in capsys.readouterr().err


@pytest.mark.slow
def test_a_list_of_parameters_is_drawn(folder, monkeypatch):
    def learn(group, sizes, examples, features, labels, training, knobs, key):
        asked.add((*group, round(float(knobs["nu"]), 3), float(knobs["margin_times_m"])))
        return alike_for(group, 5, 20, 3, float(knobs["nu"]), 2, 0, 1.0, 2.0, np.nan)

    asked = set()
    monkeypatch.setattr(methods, "learn", learn)
    (folder / "settings.toml").write_text(
        SETTINGS.replace("nu = 0.56", "nu = [0.1, 0.5]").replace(
            "m = 20.0", "m = [1.0, 20.0, 40.0]"
        )
    )
    arguments = [
        "--config",
        str(folder / "settings.toml"),
        "--data",
        str(folder),
        "--output",
        str(folder / "out.json"),
    ]
    assert command.main(arguments) == 0
    assert asked == {
        ("l0", 0.1, 1),
        ("l0", 0.1, 20),
        ("l0", 0.1, 40),
        ("lpboost", 0.1, 1),
        ("lpboost", 0.5, 1),
        ("slipper", 0.1, 1),
    }
    rows = json.loads((folder / "out.json").read_text())["rows"]
    assert [(row["method"], row["parameter"], row["num_folds"]) for row in rows][:4] == [
        ("l0", 1, 6),
        ("l0", 20, 6),
        ("l0", 40, 6),
        ("lpboost", 0.1, 6),
    ]
    assert (folder / "out-bcw.png").stat().st_size > 10_000


def test_a_point_is_dominated_by_one_of_no_more_rules_and_greater_accuracy():
    def points(method, *pairs):
        return [
            {"set": "BCW", "method": method, "support": rules, "accuracy": accuracy}
            for rules, accuracy in pairs
        ]

    boosted = points("lpboost", (2, 0.8), (5, 0.9), (9, 0.91))
    sparse = points("l0", (2, 0.8), (4, 0.9), (8, 0.95))
    shown = tables.show_figures(boosted + sparse)
    # equal accuracies do not dominate, whatever the rules
    assert shown.splitlines()[2] == "| BCW | l0 | 1 of 3 | 0 of 3 | 0.950, 8.0 | 0.910, 9.0 |"
    more = tables.show_figures(boosted + points("l0", (2, 0.7), (6, 0.89), (7, 0.92)))
    assert more.splitlines()[2] == "| BCW | l0 | 1 of 3 | 2 of 3 | 0.920, 7.0 | 0.910, 9.0 |"


def test_numbers_of_a_table_with_text_and_gaps():
    table = np.array([[1.5, "a"], [np.nan, "b"], [2.0, np.nan]], dtype=object)
    expected = [[1.5, 1, 0], [np.nan, 0, 1], [2, np.nan, np.nan]]
    np.testing.assert_array_equal(folds.numbers_of(table), np.float32(expected))


def test_sizes_are_one_for_all_sets_or_one_for_each():
    settings = {"max_order": 5, "max_rounds": 4, "num_proposed": 1, "max_columns": 32}
    assert methods.sizes_of(settings | {"max_hypotheses": 9}, "VOTE").max_hypotheses == 9
    settings |= {"max_hypotheses": {"CLVHEART": 39, "SONAR": 21}, "inner_orders": [1, 2]}
    for name, limit in settings["max_hypotheses"].items():
        sizes = methods.sizes_of(settings, name)
        assert sizes.max_hypotheses == methods.VOTES["relaxed"](sizes).max_hypotheses == limit
        assert sizes.inner_orders == (1, 2)
        assert hash(sizes)
    with pytest.raises(ValueError, match="max_hypotheses has no value for VOTE, only for CLVHEART"):
        methods.sizes_of(settings, "VOTE")


def test_limits_of_rules_by_set_are_taken_and_missing_ones_refused(folder, fits, monkeypatch):
    asked = {}

    def learn(group, sizes, examples, features, labels, training, knobs, key):
        asked[float(labels.sum())] = sizes.max_hypotheses
        return alike_for(group, 1, 20, 3, 0.1, 2, 0, 1.0, 2.0, np.nan)

    monkeypatch.setattr(methods, "learn", learn)
    rows = (folder / "BCW.csv").read_text()
    (folder / "VOTE.csv").write_text(rows.replace(",1", ",-1", 1))
    text = SETTINGS.replace('["BCW"]', '["BCW", "VOTE"]').replace(
        '["l0", "lpboost", "slipper"]', '["l0-relaxed"]'
    )
    (folder / "settings.toml").write_text(text + "max_hypotheses = { BCW = 3 }\n")
    with pytest.raises(ValueError, match="max_hypotheses has no value for VOTE"):
        command.main([*arguments_of(folder), "--jobs", "1"])
    assert not asked
    (folder / "settings.toml").write_text(text + "max_hypotheses = { BCW = 3, VOTE = 5 }\n")
    assert command.main([*arguments_of(folder), "--jobs", "1"]) == 0
    assert sorted(asked.values()) == [3, 5]


@pytest.mark.slow
def test_order_and_number_of_rules_are_chosen(folder):
    """Labels are an exclusive or of two bits: order 2 is needed, which cross-validation finds."""
    chosen = (
        "inner_folds = 2\ninner_orders = [1, 2]\ninner_rules = [1, 4]\n"
        "inner_kappas = [0.1]\ninner_margins_times_m = [2.0]\n"
    )
    text = SETTINGS.replace('["l0", "lpboost", "slipper"]', '["l0-orders"]') + chosen
    (folder / "settings.toml").write_text(text.replace("replications = 2", "replications = 1"))
    rows = [f"{'ab'[i % 2]},{'cd'[i // 2 % 2]},{1 if i % 4 in (0, 3) else -1}" for i in range(40)]
    (folder / "BCW.csv").write_text("\n".join(["one,two,label", *rows]) + "\n")
    assert command.main([*arguments_of(folder), "--jobs", "1"]) == 0
    lines = line_module.read_lines(folder / "out.jsonl")
    assert [line["accuracy"] for line in lines] == [1.0] * 3
    assert all(line["literals"] > line["support"] > 1 for line in lines)
    (row,) = json.loads((folder / "out.json").read_text())["rows"]
    assert row["literals"] == pytest.approx(np.mean([line["literals"] for line in lines]))


@pytest.mark.slow
def test_votes_of_algorithm_1_and_boosting_on_numbers(folder):
    """The coefficients of the relaxation and its vertex have one objective; stumps see the numbers
    themselves, and one stump tells these labels apart.
    """
    chosen = '["l0-coefficients", "l0-vertex", "lpboost-stumps", "lpboost-trees"]'
    text = SETTINGS.replace('["l0", "lpboost", "slipper"]', chosen)
    (folder / "settings.toml").write_text(text.replace("nu = 0.56", "nu = 0.1"))
    rows = [f"{i},{'ab'[i % 2]},{1 if i > 12 else -1}" for i in range(30)]
    (folder / "BCW.csv").write_text("\n".join(["size,kind,label", *rows]) + "\n")
    assert command.main([*arguments_of(folder), "--jobs", "1"]) == 0
    lines = line_module.read_lines(folder / "out.jsonl")
    found = {(line["method"], line["replication"], line["fold"]): line for line in lines}
    assert len(found) == 4 * 6
    for (method, *place), line in found.items():
        if method == "l0-vertex":
            other = found["l0-coefficients", *place]
            assert line["support"] <= other["support"]
            assert line["lower_bound"] == pytest.approx(other["lower_bound"], rel=1e-3)
        if method.startswith("lpboost"):
            assert line["training_accuracy"] == 1
            assert line["accuracy"] >= 0.9


@pytest.mark.slow
def test_votes_of_algorithm_1_by_the_method_for_large_tables(folder):
    chosen = '["l0-large-coefficients", "l0-large-vertex"]'
    text = SETTINGS.replace('["l0", "lpboost", "slipper"]', chosen)
    (folder / "settings.toml").write_text(text.replace("replications = 2", "replications = 1"))
    rows = [f"{i},{'ab'[i % 2]},{1 if i > 12 else -1}" for i in range(30)]
    (folder / "BCW.csv").write_text("\n".join(["size,kind,label", *rows]) + "\n")
    assert command.main([*arguments_of(folder), "--jobs", "1"]) == 0
    lines = line_module.read_lines(folder / "out.jsonl")
    found = {(line["method"], line["fold"]): line for line in lines}
    assert len(found) == 2 * 3
    for fold in range(3):
        whole, vertex = (found[f"l0-large-{vote}", fold] for vote in ("coefficients", "vertex"))
        assert whole["status"] == vertex["status"] == "OPTIMAL"
        assert vertex["support"] <= whole["support"]
        assert whole["lower_bound"] == pytest.approx(vertex["lower_bound"], rel=1e-6)
        assert vertex["lower_bound"] <= vertex["upper_bound"] <= whole["upper_bound"]


def test_methods_that_share_their_rounds_are_one_group():
    named = ["l0-relaxed", "lpboost", "l0-vertex", "l0-large-vertex"]
    assert methods.sharing_rounds(named) == [
        ("l0-relaxed", "l0-vertex"),
        ("lpboost",),
        ("l0-large-vertex",),
    ]


def test_only_the_methods_whose_lines_are_missing_are_fitted(folder, fits):
    """Of methods that share their rounds, each has lines of its own."""
    text = SETTINGS.replace('["l0", "lpboost", "slipper"]', '["l0-relaxed", "l0-vertex"]')
    (folder / "settings.toml").write_text(text)
    assert command.main(arguments_of(folder)) == 0
    assert fits == ["l0-relaxed", "l0-vertex"] * 6
    lines = (folder / "out.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"l0-vertex"' not in line or '"fold": 1' not in line]
    (folder / "out.jsonl").write_text("\n".join(kept) + "\n")
    assert command.main(arguments_of(folder)) == 0
    assert fits[12:] == ["l0-vertex"] * 2
    assert len(line_module.read_lines(folder / "out.jsonl")) == 12


def test_what_the_folder_lacks_comes_from_openml(tmp_path, monkeypatch):
    def fetch(*, data_id, as_frame, parser):
        assert (data_id, as_frame) == (56, False)
        codes = np.array([[1.5, 0.0], [2.5, 1.0], [np.nan, np.nan]])
        target = np.array(["no", "yes", "no"], object)
        return SimpleNamespace(
            data=codes,
            target=target,
            feature_names=["size", "kind"],
            categories={"kind": ["a", "b"]},
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(
        SystemExit, match="number 56 at OpenML has 3 rows, where VOTE has 435: hand in --data"
    ):
        data.read_set("VOTE", [tmp_path])
    monkeypatch.setitem(data.OPENML, "VOTE", (56, 3))
    table, labels, names = data.read_set("VOTE", [tmp_path])
    assert names == ("size", "kind")
    assert labels.tolist() == [-1, 1, -1]
    assert table[:2].tolist() == [[1.5, "a"], [2.5, "b"]]
    assert all(value != value for value in table[2])
    binarizer = binarization.fit(table, labels, names=names, cuts="midpoints")
    assert binarization.apply(binarizer, binarization.encode(binarizer, table)).shape[0] == 3


def test_without_a_file_and_without_a_network(tmp_path, monkeypatch):
    def fetch(**options):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(
        SystemExit,
        match=r"BCW.csv is not there, and OpenML cannot be reached .*no route.*: hand in --data",
    ):
        data.read_set("BCW", [tmp_path])


def test_what_is_neither_there_nor_known_is_refused_before_anything_is_fitted(folder):
    (folder / "settings.toml").write_text(SETTINGS.replace('["BCW"]', '["BCW", "MUSHROOM"]'))
    with pytest.raises(
        SystemExit,
        match=r"MUSHROOM.csv is not there, and its number at OpenML is not known: hand in --data",
    ):
        command.main(arguments_of(folder))
    assert not (folder / "out.jsonl").exists()


def arguments_of(folder):
    return [
        "--config",
        str(folder / "settings.toml"),
        "--data",
        str(folder),
        "--output",
        str(folder / "out.json"),
    ]


@pytest.fixture
def fits(monkeypatch):
    """How many fits there were, all of them made at once."""

    def learn(group, sizes, examples, features, labels, training, knobs, key):
        made.extend(group)
        right = int((~training).sum())
        return alike_for(group, right, int(training.sum()), 3, 0.1, 2, 0, 1.0, 2.0, np.nan)

    made = []
    monkeypatch.setattr(methods, "learn", learn)
    return made


@pytest.mark.slow
def test_a_line_that_was_cut_off_is_made_again(folder, fits):
    command.main(arguments_of(folder))
    lines = folder / "out.jsonl"
    lines.write_text(lines.read_text()[:-30])
    assert command.main(arguments_of(folder)) == 0
    assert len(fits) == 19
    assert len(line_module.read_lines(lines)) == 18
    lines.write_text("{\n" + lines.read_text())
    with pytest.raises(ValueError, match=r"out.jsonl, line 1: .*: delete this line"):
        command.main(arguments_of(folder))


def test_what_is_there_is_said_and_only_what_is_asked_for_is_summed_up(folder, fits, capsys):
    command.main(arguments_of(folder))
    capsys.readouterr()
    command.main([*arguments_of(folder), "--replications", "1"])
    assert len(fits) == 18
    assert "BCW: 9 of 9 fits are taken from" in capsys.readouterr().err
    assert {row["num_folds"] for row in json.loads((folder / "out.json").read_text())["rows"]} == {
        3
    }


def test_only_sets_of_the_settings(folder, fits, capsys):
    with pytest.raises(SystemExit):
        command.main([*arguments_of(folder), "--only", "VOTE"])
    assert "argument --only: VOTE is not among the sets of" in capsys.readouterr().err
    assert fits == []


def test_lines_of_other_rows_are_refused(folder, fits):
    command.main([*arguments_of(folder), "--replications", "1"])
    (folder / "BCW.csv").write_text((folder / "BCW.csv").read_text().replace("\n3,", "\n4,", 1))
    with pytest.raises(ValueError, match="lines of other rows of BCW"):
        command.main(arguments_of(folder))


def test_a_peer_that_is_not_installed_is_left_out(folder, fits, monkeypatch, capsys):
    monkeypatch.setattr(methods.importlib.util, "find_spec", lambda name: None)
    (folder / "settings.toml").write_text(
        SETTINGS.replace('["l0", "lpboost", "slipper"]', '["slipper", "imodels-slipper"]')
    )
    assert command.main(arguments_of(folder)) == 0
    assert fits == ["slipper"] * 6
    assert (
        "imodels-slipper is left out: the package imodels is not installed"
        in capsys.readouterr().err
    )


def test_a_peer_stands_in_the_same_table(folder, monkeypatch, capsys):
    monkeypatch.setattr(methods.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setitem(
        methods.PEERS,
        "imodels-slipper",
        lambda features, labels, training: (int((~training).sum()), 0, 7),
    )
    (folder / "settings.toml").write_text(
        SETTINGS.replace('["l0", "lpboost", "slipper"]', '["imodels-slipper"]')
    )
    assert (
        command.main(
            [
                "--config",
                str(folder / "settings.toml"),
                "--data",
                str(folder),
                "--output",
                str(folder / "out.json"),
            ]
        )
        == 0
    )
    (row,) = json.loads((folder / "out.json").read_text())["rows"]
    assert (row["accuracy"], row["training_accuracy"], row["support"], row["num_folds"]) == (
        1.0,
        0.0,
        7.0,
        6,
    )
    assert capsys.readouterr().out.rstrip().endswith("| imodels-slipper | 1 | 1.0000 | 7.0 |")


@pytest.mark.slow
def test_l0_with_inner_folds_learns(folder):
    chosen = "\n".join(
        [
            "inner_folds = 2",
            "inner_kappas = [0.1, 1.5]",
            "inner_margins_times_m = [2.0]",
            'inner_votes = ["sparse", "relaxed"]',
        ]
    )
    text = (
        SETTINGS.replace('["l0", "lpboost", "slipper"]', '["l0-chosen"]').replace(
            "replications = 2", "replications = 1"
        )
        + chosen
    )
    (folder / "settings.toml").write_text(text)
    assert (
        command.main(
            [
                "--config",
                str(folder / "settings.toml"),
                "--data",
                str(folder),
                "--output",
                str(folder / "out.json"),
            ]
        )
        == 0
    )
    lines = line_module.read_lines(folder / "out.jsonl")
    assert len(lines) == 3
    assert all(
        line["lower_bound"] <= line["upper_bound"] and 0 <= line["accuracy"] <= 1 for line in lines
    )
