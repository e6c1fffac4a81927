"""`jboost verify` proves both bounds of the boosted models that `jboost fit` writes."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest

import jboost
from command_line import run_in
from jboost import verify
from jboost.data.binarization import Binarizer

# Under nu = 0.5 two of these four rows may have all weight. Half of `a > 0.5` and half of the
# constant +1 have the margins 0, 0, 1 and 0.5; no stump tells the first two rows apart.
TABLE = "a,c,y,id\n0,u,no,p\n0,u,yes,q\n1,v,yes,r\n,v,yes,s\n"
FEATURES = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [np.nan, 0.0]])
LABELS = np.array([-1.0, 1.0, 1.0, 1.0])


def parts():
    """The arrays and the metadata of a model of stumps, as `jboost fit` stores them."""
    binarizer = Binarizer(
        attributes=np.array([1], np.int32),
        kinds=np.array([1], np.int32),
        thresholds=np.array([0.0]),
        missing_is_value=np.array([True, False]),
        names=("a", "c"),
        categories=(None, ("u", "v")),
        constant_attributes=(),
        coarse_attributes=(),
        num_redundant=1,
        num_unselected=0,
    )
    ensemble = jboost.ensemble.Ensemble(
        learner=jboost.learners.stumps(),
        hypotheses=jboost.learners.Stump(
            feature=np.array([0, 0], np.int32),
            threshold=np.array([0.5, -np.inf]),
            left=np.array([-1.0, 1.0]),
            right=np.array([1.0, 1.0]),
        ),
        votes=np.full((2, 2), 0.5),
        constant=np.zeros(()),
        count=np.array(2, np.int32),
    )
    arrays = {
        "binarizer": binarizer,
        "ensemble": ensemble,
        "example_weights": np.array([0.5, 0.5, 0.0, 0.0]),
        "lower_bound": np.zeros(()),
        "upper_bound": np.zeros(()),
        "status": np.zeros((), np.int32),
        "nu": np.array(0.5),
    }
    certificate = {"lower_bound": 0.0, "upper_bound": 0.0, "status": "OPTIMAL"}
    metadata = {
        "method": "lpboost",
        "learner": "stumps",
        "numeric": ["a"],
        "categorical": ["c"],
        "plain": ["a"],
        "labels": {"column": "y", "negative": "no", "positive": "yes"},
        "weights": None,
        "reading": None,
        "training": {"rows": 4, "sha256": verify.checksum_of_rows(FEATURES, LABELS)},
        "boosting": {"certificate": certificate},
    }
    return arrays, metadata


def write(folder, arrays=None, metadata=None, *, without=()):
    """A model with some parts changed or left out, and its data."""
    model, stated = parts()
    model |= arrays or {}
    stated |= metadata or {}
    (folder / "out").mkdir(exist_ok=True)
    kept = {name: value for name, value in model.items() if name not in without}
    kept_metadata = {name: value for name, value in stated.items() if name not in without}
    jboost.files.save(kept, folder / "out" / "model.npz", metadata=kept_metadata)
    (folder / "data.csv").write_text(TABLE, encoding="utf-8")


def check(folder, data="data.csv"):
    code, out, err = run_in(folder, "verify", "out", "--data", data)
    assert err == ""
    assert code == (0 if out.startswith("valid") else 1)
    return out


def test_verify_proves_both_bounds_of_a_boosted_model(tmp_path):
    write(tmp_path)
    assert check(tmp_path).splitlines() == [
        "valid",
        "lower bound  0",
        "upper bound  0",
        "reason       the largest soft margin of nu = 0.5 over all stumps lies between 0 and 0",
    ]


def test_the_file_of_verify_alone_proves_a_boosted_model_by_a_table_and_by_arrays(tmp_path):
    write(tmp_path)
    np.savez(tmp_path / "data.npz", features=FEATURES, labels=LABELS)
    for data in ("data.csv", "data.npz"):
        ended = subprocess.run(
            [sys.executable, "-I", verify.__file__, "out", data],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
        assert ended.stdout.startswith("valid")


def changed(name, **fields):
    record = parts()[0][name]
    return {
        name: record._replace(**fields)
        if hasattr(record, "_replace")
        else type(record)(**{**vars(record), **fields})
    }


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"lower_bound": np.array(0.25)}, "a lower bound of 0.25 is claimed, and 0 is proven"),
        ({"upper_bound": np.array(-0.25)}, "an upper bound of -0.25 is claimed, and 0 is proven"),
        ({"example_weights": np.array([0.5, 0.0, 0.5, 0.0])}, "an upper bound of 0 is claimed"),
        ({"example_weights": np.full(3, 0.25)}, "example_weights has shape [3]: expected [4]"),
        ({"example_weights": np.full(4, np.nan)}, "not finite"),
        ({"nu": np.array(1.0)}, "an upper bound of 0 is claimed, and 0.5 is proven"),
        ({"nu": np.array(-1.0)}, "nu is -1: expected a positive number"),
        ({"status": np.array(5, np.int32)}, "status is INFEASIBLE, and the caps"),
        ({"status": np.array(99, np.int32)}, "status is 99, which is no status of jboost"),
        ({"status": np.zeros(2, np.int32)}, "status has shape [2]"),
        ({"lower_bound": np.zeros((1, 1))}, "lower_bound has shape [1, 1]"),
        (changed("ensemble", votes=np.array([[0.9, 0.9], [0.1, 0.1]])), "lower bound of 0 is"),
        (changed("ensemble", votes=np.full((2, 2), 5.0)), "the sizes of its votes sum to 10"),
        (changed("binarizer", thresholds=np.array([1.0])), "the data are not the training rows"),
        (changed("binarizer", attributes=np.array([2])), "a column that is not among 2"),
        (changed("binarizer", kinds=np.array([3])), "a bit is of no known kind"),
        (changed("binarizer", categories=(None,)), "does not tell the categories"),
    ],
)
def test_verify_refuses_tampered_arrays_of_a_boosted_model(arrays, reason, tmp_path):
    write(tmp_path, arrays)
    out = check(tmp_path)
    assert out.startswith("NOT VALID")
    assert reason in out


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"boosting": {"certificate": {"lower_bound": 0.5}}}, "state lower_bound 0.5, and the"),
        ({"training": {"rows": 5, "sha256": ""}}, "have 4 rows, and the model was fitted to 5"),
        ({"training": {"rows": 4, "sha256": "0"}}, "and that of the training rows is 0"),
        ({"training": []}, "metadata.training is []: expected an object or null"),
        ({"plain": ["b"]}, "plain columns that are none of the table"),
        ({"plain": None}, "metadata.plain is None: expected a list of texts"),
        ({"numeric": 3}, "metadata.numeric is 3: expected a list of texts"),
    ],
)
def test_verify_refuses_metadata_that_do_not_fit_a_boosted_model(metadata, reason, tmp_path):
    write(tmp_path, metadata=metadata)
    out = check(tmp_path)
    assert out.startswith("NOT VALID")
    assert reason in out


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("1,v", "2,v", "the data are not the training rows"),
        ("1,v", "1,u", "the data are not the training rows"),
        ("0,u,no,p\n", "", "the data have 3 rows, and the model was fitted to 4"),
        ("0,u,no,p\n0,u,yes,q\n", "0,u,yes,q\n0,u,no,p\n", "the data are not the training rows"),
    ],
)
def test_verify_refuses_rows_that_are_not_those_of_the_fit(old, new, reason, tmp_path):
    write(tmp_path)
    (tmp_path / "data.csv").write_text(TABLE.replace(old, new), encoding="utf-8")
    if not new:  # two classes are left
        text = TABLE.replace("0,u,yes,q\n", "")
        (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    assert reason in check(tmp_path)


def test_verify_takes_the_rows_as_given_where_the_model_does_not_tell_them(tmp_path):
    """A file that was written by hand has no checksum. Its bounds are then proven for the data."""
    write(tmp_path, without=("training",))
    assert verify.verify_file(tmp_path / "out", tmp_path / "data.csv").valid
    text = TABLE.replace("0,u,no", "-1,u,no")
    (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    reason = verify.verify_file(tmp_path / "out", tmp_path / "data.csv").reason
    assert "an upper bound of 0 is claimed, and 1 is proven" in reason


def test_verify_says_that_a_folder_without_an_ensemble_has_no_certificate(tmp_path):
    write(tmp_path, without=("ensemble",))
    assert "has no certificate that can be checked" in check(tmp_path)


def test_verify_takes_no_mask_for_a_model_that_tells_its_rows(tmp_path):
    write(tmp_path)
    data = {"features": FEATURES, "labels": LABELS}
    assert verify.verify_file(tmp_path / "out", data).valid
    with pytest.raises(ValueError, match="mask is given: expected the training rows alone"):
        verify.verify_file(tmp_path / "out", data | {"mask": np.ones(4, bool)})


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({}, "it holds no example weights that prove its bounds"),
        ({"learner": "trees"}, "all hypotheses of the learner trees are not checked"),
        (
            {"method": "relaxed-margin", "boosting": {"relaxation": "norm-ball"}},
            "bounds with the relaxation norm-ball are not checked",
        ),
        ({"method": "adaboost"}, "its bound is one on the training error"),
        ({"method": "l0"}, "no duals that prove the bounds of its rules"),
    ],
)
def test_verify_says_what_a_folder_without_a_proof_lacks(metadata, reason, tmp_path):
    proof = ("training", "example_weights", "lower_bound", "upper_bound", "status", "nu")
    write(tmp_path, metadata=metadata, without=proof)
    assert reason in check(tmp_path)


@pytest.mark.parametrize("name", ["attributes", "kinds", "thresholds", "missing_is_value"])
def test_verify_never_raises_on_a_wrong_binarizer(name, tmp_path):
    for value in (np.zeros(0), np.zeros((2, 2)), np.array([np.inf]), np.array([1e9]), np.ones(3)):
        write(tmp_path, changed("binarizer", **{name: value}))
        assert not verify.verify_file(tmp_path / "out", tmp_path / "data.csv").valid


def random_table(seed=0, num=48):
    """Numbers with gaps, percentages, text, categories that are numbers, dates, weights of 0."""
    rng = np.random.default_rng(seed)
    numbers, colours = rng.normal(size=num), rng.choice(["red", "blue", "NA"], num)
    is_yes = numbers + 0.8 * (colours == "red") + rng.normal(size=num) > 0.3
    lines = ["a,share,colour,code,day,cost,y"]
    for row in range(num):
        number = "" if row % 11 == 5 else f"{float(numbers[row])}"
        day = f"2026-0{1 + row % 9}-1{row % 7}"
        share, code = f"{rng.integers(100)}%", rng.integers(3)
        label = "yes" if is_yes[row] else "no"
        lines.append(f"{number},{share},{colours[row]},{code},{day},{row % 4},{label}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "quantity"),
    [
        (("--method", "lpboost"), "soft margin of nu = 0.4 over all stumps"),
        (("--method", "lpboost", "--float32"), "soft margin of nu = 0.4 over all stumps"),
        (("--method", "relaxed-margin"), "soft margin of nu = 0.4 over all stumps"),
        (
            ("--method", "relaxed-margin", "--relaxation", "hard"),
            "hard margin over all stumps",
        ),
        (
            ("--method", "lpboost", "--learner", "monomials", "--max-order", "2"),
            "soft margin of nu = 0.4 over all monomials of up to 2 literals",
        ),
    ],
)
def test_verify_proves_the_bounds_of_a_boosted_fit(options, quantity, tmp_path):
    (tmp_path / "data.csv").write_text(random_table(), encoding="utf-8")
    precision = ("--precision", "float32" if "--float32" in options else "float64")
    method = [option for option in options if option != "--float32"]
    nu = () if "hard" in options else ("--nu", "0.4")
    columns = ("--label", "y", "--weights", "cost", "--categorical", "code", "--date", "day")
    shared = ("--data", "data.csv", *columns, "--holdout", "0.25", "--rounds", "40", *precision)
    code, _, err = run_in(tmp_path, "fit", *shared, *method, *nu, "--output", "out")
    assert code == 0, err
    found = check(tmp_path)
    assert found.startswith("valid"), found
    assert quantity in found
    path = tmp_path / "out" / "model.npz"
    stated = jboost.files.load_metadata(path)
    with jax.enable_x64(True):
        stored = jboost.files.load(path)
    assert stored["example_weights"].shape == (stated["training"]["rows"],)
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    proven = [float(line.split()[-1]) for line in found.splitlines()[1:3]]
    certificate = report["boosting"]["certificate"]
    assert certificate["lower_bound"] <= proven[0] <= proven[1] <= certificate["upper_bound"]
    # Without the weights of the rows they are other rows.
    reason = run_in(tmp_path, "verify", "out", "--data", "data.csv", "--weights", "share")[1]
    assert "was fitted to" in reason or "are not the training rows" in reason
    for name, change in (("lower_bound", 0.01), ("upper_bound", -0.01)):
        bound = stored["upper_bound" if name == "lower_bound" else "lower_bound"]
        jboost.files.save({**stored, name: np.asarray(bound) + change}, path, metadata=stated)
        assert "is claimed" in check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--method", "lpboost", "--learner", "trees"), "of the learner trees are not checked"),
        (
            ("--method", "relaxed-margin", "--relaxation", "norm-ball", "--radius", "0.5"),
            "the relaxation norm-ball",
        ),
        (
            ("--method", "relaxed-margin", "--vote-strength", "0.1"),
            "nor do fits with --vote-strength",
        ),
        (("--method", "adaboost"), "its bound is one on the training error"),
    ],
)
def test_fit_stores_no_proof_of_what_is_not_checked(options, reason, tmp_path):
    (tmp_path / "data.csv").write_text(random_table(), encoding="utf-8")
    shared = ("--data", "data.csv", "--label", "y", "--categorical", "code", "--ignore", "day")
    nu = () if "adaboost" in options or "norm-ball" in options else ("--nu", "0.4")
    code, _, err = run_in(
        tmp_path, "fit", *shared, *options, *nu, "--rounds", "3", "--output", "out"
    )
    assert code == 0, err
    with zipfile.ZipFile(tmp_path / "out" / "model.npz") as archive:
        assert not {"example_weights.npy", "nu.npy"} & set(archive.namelist())
    assert reason in check(tmp_path)
    assert Path(tmp_path / "out" / "model.npz").is_file()
