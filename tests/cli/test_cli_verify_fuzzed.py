"""Model files whose header and arrays are changed field by field: `jboost.verify` and the commands
that read them give a reason, and no traceback.
"""

import copy
import io
import itertools
import json
import math
import zipfile

import numpy as np
import pytest
import test_cli_verify
import test_cli_verify_boosted as boosted

import jboost
import test_verify
from command_line import run_in
from jboost import verify
from jboost.cli import option
from jboost.data import kinds

VALUES = (None, -1, 5, "x", [], {}, [[]], math.nan)
OF_METHODS = {
    "lp": (),
    "soft margin": ("margins",),
    "relaxation": ("outputs", "labels", "costs"),
    "monomial": ("features", "labels", "example_weights"),
    "leave one out": ("points", "labels"),
}
KIND = {"group": "", "order": "", "origin": 0.0}
READING = {
    "separator": ",",
    "decimal": ".",
    "comment": None,
    "encoding": "utf-8",
    "missing_values": ["NA"],
    "id": None,
    "columns": {
        "a": {"name": "number", "categories": [], **KIND},
        "c": {"name": "text", "categories": ["u", "v"], **KIND},
    },
}
HELD_OUT = {"fraction": 0.0, "seed": 0}


def write_of_method(folder, name):
    """A result of `GENUINE`, and its data as arrays."""
    result, data, options = test_verify.GENUINE[name]
    stored = {key: np.asarray(value) for key, value in vars(result).items()}
    given = vars(data[0]) if name == "lp" else dict(zip(OF_METHODS[name], data, strict=True))
    jboost.files.save(stored, folder / "model.npz")
    np.savez(folder / "data.npz", **given, **options)
    return folder / "data.npz"


def write_pair(folder):
    test_cli_verify.make_model(folder, reading=READING, held_out=HELD_OUT)
    (folder / "out" / "model.npz").rename(folder / "model.npz")
    (folder / "data.csv").write_text(test_cli_verify.TABLE, encoding="utf-8")
    return folder / "data.csv"


def write_votes(folder):
    vote = test_verify.make_vote()
    certificate = jboost.combine.InfeasibleSubsystems(
        multipliers=np.array([[0.5, 1, 0.5]]), lower_bound=np.ones(()), **vars(vote.certificate)
    )
    vote = jboost.combine.LinearVote(**{**vars(vote), "certificate": certificate})
    metadata = {
        "method": "combine",
        "precision": "float64",
        "names": ["a"],
        "score_columns": ["a"],
        "strategy": "exact",
        "labels": {"column": "y", "negative": "0", "positive": "1"},
        "weights": "w",
        "reading": READING,
        "held_out": HELD_OUT,
    }
    jboost.files.save(vote, folder / "model.npz", metadata=metadata)
    (folder / "data.csv").write_text("a,y,w\n0,0,1\n1,1,1\n2,0,1\n", encoding="utf-8")
    return folder / "data.csv"


def write_boosted(folder, without=()):
    """Stumps of `jboost fit`, or the same without the parts of a table."""
    arrays, metadata = boosted.parts()
    metadata |= {"precision": "float64", "reading": READING, "held_out": HELD_OUT}
    kept = {name: value for name, value in arrays.items() if name not in without}
    jboost.files.save(kept, folder / "model.npz", metadata={} if without else metadata)
    if without:
        given = {"features": boosted.FEATURES, "labels": boosted.LABELS, "nu": 0.5}
        np.savez(folder / "data.npz", **given)
        return folder / "data.npz"
    (folder / "data.csv").write_text(boosted.TABLE, encoding="utf-8")
    return folder / "data.csv"


def proof_of_rules(monomial, bounds):
    """The proof of the vote +1 for all rows, of which the first is negative, by no duals."""
    duals = {
        "example_weights": np.zeros(4),
        "pairs": np.zeros((0, 2), np.int32),
        "pair_weights": np.zeros(0),
    }
    point = monomial._asdict() | {
        "coefficients": np.zeros(1),
        "selected": np.zeros(1),
        "constants": np.array([1.0, 0.0]),
        "slacks": np.array([1.0, 0.0, 0.0, 0.0]),
    }
    proof = {"margin": np.array(0.25), "costs": np.array([0.0, 1.0]), "point": point}
    proof |= {"integer": duals, "relaxed": duals}
    return proof | {name: np.array(value) for name, value in bounds.items()}


def write_rules(folder, proof=True):
    """A vote of monomials of `jboost fit --method l0`, or the same one of `lpboost`."""
    arrays, metadata = boosted.parts()
    monomial = jboost.learners.Monomial(literals=np.ones((1, 1), np.int8), sign=np.ones(1, np.int8))
    arrays["ensemble"] = jboost.ensemble.Ensemble(
        learner=jboost.learners.monomials(max_order=1),
        hypotheses=monomial,
        votes=np.zeros((1, 2)),
        constant=np.ones(()),
        count=np.array(1, np.int32),
    )
    bits = np.array([[1.0], [1.0], [0.0], [0.0]])
    training = {"rows": 4, "sha256": verify.checksum_of_rows(bits, boosted.LABELS)}
    metadata |= {"plain": [], "training": training, "learner": "monomials"}
    metadata |= {"precision": "float64", "reading": READING, "held_out": HELD_OUT}
    if proof:
        bounds = {"lower_bound": 0.0, "integer_lower_bound": 0.0}
        bounds |= {"upper_bound": 1.0, "integer_upper_bound": 1.0}
        arrays = {name: arrays[name] for name in ("binarizer", "ensemble")}
        arrays["proof"] = proof_of_rules(monomial, bounds)
        metadata |= {"method": "l0", "model": {"margin": 0.25, "certificate": bounds}}
    jboost.files.save(arrays, folder / "model.npz", metadata=metadata)
    (folder / "data.csv").write_text(boosted.TABLE, encoding="utf-8")
    return folder / "data.csv"


WRITERS = {
    **{name: lambda folder, name=name: write_of_method(folder, name) for name in OF_METHODS},
    "pair": write_pair,
    "combination": write_votes,
    "ensemble": lambda folder: write_boosted(folder, without=("binarizer", "nu")),
    "stumps of a fit": write_boosted,
    "monomials of a fit": lambda folder: write_rules(folder, proof=False),
    "rules": write_rules,
}


def paths(part, path=()):
    """The paths of all values in nested JSON."""
    if path:
        yield path
    parts = dict(enumerate(part)) if isinstance(part, list) else part
    for key, value in parts.items() if isinstance(parts, dict) else ():
        yield from paths(value, (*path, key))


def changed_headers(header):
    """Headers with one value of another type, or without it."""
    for path in paths(header):
        for value in (*VALUES, "deleted"):
            copied = copy.deepcopy(header)
            holder = copied
            for key in path[:-1]:
                holder = holder[key]
            if value == "deleted":
                del holder[path[-1]]
            else:
                holder[path[-1]] = value
            yield (*path, value), json.dumps(copied).encode()


def changed_arrays(array):
    """The bytes of .npy files with other shapes and types."""
    with np.errstate(all="ignore"):
        narrow = [array.astype(dtype) for dtype in (np.float16, np.int8, bool)]
    for other in (
        *narrow,
        np.zeros(()),
        np.zeros(0),
        np.ones((2, 3)),
        np.full((1, 1, 1), -1e300),
        array[..., None],
        np.full(array.shape, np.nan),
        np.full(array.shape, 99),
        np.full(array.shape, -(2**63)),
        array.astype(complex),
        array.astype(str),
    ):
        stream = io.BytesIO()
        np.save(stream, other)
        yield (other.shape, other.dtype), stream.getvalue()


def read(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def changes(members):
    """Each change as a name, a member and its new content."""
    for where, content in changed_headers(json.loads(members["header.json"])):
        yield where, "header.json", content
    for name in sorted(members.keys() - {"header.json"}):
        for where, content in changed_arrays(np.load(io.BytesIO(members[name]))):
            yield where, name, content


def fault_of(path, data):
    """What `verify_file` raises that is no error of the data."""
    try:
        found = verify.verify_file(path, data)
    except ValueError as error:  # the data lack a column or a class that the header names
        is_named = str(error).startswith(f"{data}: ") and "does not take" not in str(error)
        return None if is_named else error
    return None if isinstance(found, verify.Verification) else found


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", WRITERS)
def test_verify_file_never_raises_on_changed_headers_and_arrays(kind, step, tmp_path):
    data, changed = WRITERS[kind](tmp_path), tmp_path / "changed.npz"
    members = read(tmp_path / "model.npz")
    assert verify.verify_file(tmp_path / "model.npz", data).valid
    for where, name, content in itertools.islice(changes(members), 0, None, step):
        write(changed, members | {name: content})
        assert fault_of(changed, data) is None, (where, name)


def with_header(members, path, value):
    """The members of a model file with another value at a path in the header."""
    header = json.loads(members["header.json"])
    holder = header
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return members | {"header.json": json.dumps(header).encode()}


WRONG = [
    (("reading",), -1),
    (("reading", "encoding"), "x"),
    (("reading", "encoding"), 5),
    (("reading", "encoding"), "hex"),
    (("reading", "comment"), 5),
    (("reading", "separator"), 5),
    (("reading", "separator"), "--"),
    (("reading", "decimal"), -1),
    (("reading", "missing_values"), 1),
    (("reading", "missing_values"), [[]]),
    (("labels",), "x"),
    (("labels", "negative"), []),
    (("score_columns",), 7),
    (("weights",), {}),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_metadata_of_another_type_are_named(path, value, tmp_path):
    """By `verify`, the file of verify alone and `predict`."""
    data, out = write_pair(tmp_path), tmp_path / "out" / "model.npz"
    write(out, with_header(read(tmp_path / "model.npz"), ("metadata", *path), value))
    reason = f"metadata.{'.'.join(path)} is {value!r}: expected "
    found = verify.verify_file(out, data)
    assert (found.valid, found.reason.startswith(f"{out}: {reason}")) == (False, True)
    code, shown, err = run_in(tmp_path, "verify", "out", "--data", "data.csv")
    assert (code, err, f"out/model.npz: {reason}" in shown) == (1, "", True)
    code, shown, err = run_in(tmp_path, "predict", "out", "--data", "data.csv")
    assert (code, shown) == (2, "")
    assert f"out/model.npz: {reason}" in err


def test_predict_names_plain_columns_that_are_too_few(tmp_path):
    data = write_boosted(tmp_path)
    (tmp_path / "out").mkdir()
    members = read(tmp_path / "model.npz")
    stream = io.BytesIO()
    np.save(stream, np.array([1, 1], np.int32))  # the bit, which comes after the column
    members["ensemble.hypotheses.feature.npy"] = stream.getvalue()
    for plain, status in ((["a"], 0), ([], 2)):
        changed = with_header(members, ("metadata", "plain"), plain)
        write(tmp_path / "out" / "model.npz", changed)
        code, _, err = run_in(tmp_path, "predict", "out", "--data", data.name)
        assert code == status, err
        assert ("out/model.npz: metadata.plain has 0 columns" in err) == (status == 2)


@pytest.mark.parametrize("version", [99, 0, "x", None, math.nan, True, 1.0, "missing"])
def test_verify_refuses_other_format_versions(version, tmp_path):
    data = write_pair(tmp_path)
    members = read(tmp_path / "model.npz")
    header = json.loads(members["header.json"])
    header["format_version"] = version
    if version == "missing":
        del header["format_version"]
    write(tmp_path / "out" / "model.npz", members | {"header.json": json.dumps(header).encode()})
    shown = None if version == "missing" else version
    reason = f"format_version is {shown!r}: this verify.py reads up to 1"
    found = verify.verify_file(tmp_path / "out", data)
    assert (found.valid, reason in found.reason) == (False, True)
    code, out, _ = run_in(tmp_path, "verify", "out", "--data", "data.csv")
    assert (code, reason in out) == (1, True)


def without_certificate(folder):
    """Models that are not valid whatever the data are, and the reason."""
    data = write_boosted(folder)
    genuine = read(folder / "model.npz")
    arrays, metadata = boosted.parts()
    kept = {name: arrays[name] for name in ("binarizer", "ensemble")}
    jboost.files.save(kept, folder / "model.npz", metadata=metadata)
    yield "holds no example weights", read(folder / "model.npz"), data
    yield "metadata.plain is 5", with_header(genuine, ("metadata", "plain"), 5), data
    yield "format_version is 2", with_header(genuine, ("format_version",), 2), data


def test_a_model_without_a_certificate_is_not_valid_before_the_data_are_read(tmp_path):
    (tmp_path / "out").mkdir()
    for reason, members, data in without_certificate(tmp_path):
        write(tmp_path / "out" / "model.npz", members)
        for name in (data.name, "nowhere.csv", "nowhere.npz"):
            code, out, err = run_in(tmp_path, "verify", "out", "--data", name)
            assert (code, err, reason in out) == (1, "", True), (reason, name)
            assert verify.main([str(tmp_path / "out"), str(tmp_path / name)]) == 1
    write_boosted(tmp_path)
    write(tmp_path / "out" / "model.npz", read(tmp_path / "model.npz"))
    for name in ("nowhere.csv", "nowhere.npz"):
        code, out, err = run_in(tmp_path, "verify", "out", "--data", name)
        assert (code, out, name in err) == (2, "", True)
        assert verify.main([str(tmp_path / "out"), str(tmp_path / name)]) == 2


def test_a_reason_with_half_a_surrogate_is_printed(tmp_path):
    data = write_boosted(tmp_path)
    (tmp_path / "out").mkdir()
    path, value = ("metadata", "boosting", "certificate", "status"), "\ud800"
    write(tmp_path / "out" / "model.npz", with_header(read(tmp_path / "model.npz"), path, value))
    found = verify.verify_file(tmp_path / "out", data)
    shown = verify.describe(found).encode().decode()
    assert (found.valid, "state status \\ud800" in shown) == (False, True)


def test_verify_knows_all_methods_and_kinds_of_columns():
    """It stands alone, and so has lists of its own."""
    assert set(verify._FITTED) == set(option.METHODS)
    named = {kinds.NUMBER, kinds.PERCENT, kinds.GROUPED, kinds.TRUTH, kinds.DATE, kinds.TEXT}
    assert set(verify._COLUMNS) == named
