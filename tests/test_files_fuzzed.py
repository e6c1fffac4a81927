"""Model files that are corrupted, truncated, enormous or hostile: `load` returns a model or raises
ValueError with one line; nothing else happens.
"""

import contextlib
import copy
import io
import json
import os
import struct
import sys
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jboost
import stored_models
from jboost import files

MODELS = sorted(Path(__file__).with_name("models").glob("*.npz"))
MODELS = [path for path in MODELS if path.stem != "scores"]
NUM_QUICK, NUM_ALL = 300, 10_000
SECONDS = 10.0  # a load takes milliseconds; a machine may be busy
# What a load of the smallest file allocates anyway, and JAX for each array of it.
LEAST_BYTES = 1 << 20
RATIO = 100


def learner_of(path):
    """What the file of 2026-11-27 does not hold."""
    given = {"networks": stored_models.network, "quantised": jboost.learners.quantised_stumps}
    return given[path.stem]() if path.stem in given else None


def load(path, data, learner=None, *, least=LEAST_BYTES):
    """Loads data in place of the file; returns the message of a refusal, or None.

    Fails where anything but a ValueError of one line is raised, or where it takes long or more
    memory than 100 times the data.
    """
    path.write_bytes(data)
    tracemalloc.start()
    started = time.perf_counter()
    try:
        files.load(path, learner=learner)
        files.load_metadata(path)
        message = None
    except ValueError as error:
        message = str(error)
        assert message.startswith(f"{path}: "), message
        assert len(message) < 2000
    finally:
        seconds = time.perf_counter() - started
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seconds < SECONDS
    assert peak <= max(least, RATIO * len(data)), (peak, len(data))
    return message


# --- mutations ------------------------------------------------------------------------------------


def flip_bits(rng, data):
    data = bytearray(data)
    for place in rng.integers(len(data), size=rng.integers(1, 8)):
        data[place] ^= 1 << rng.integers(8)
    return bytes(data)


def set_bytes(rng, data):
    data = bytearray(data)
    start = int(rng.integers(len(data)))
    for place in range(start, min(len(data), start + int(rng.integers(1, 9)))):
        data[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(data)


def truncate(rng, data):
    return data[: rng.integers(len(data))]


def cut_out(rng, data):
    start, end = sorted(rng.integers(len(data), size=2))
    return data[:start] + data[end:]


def repeat(rng, data):
    start, end = sorted(rng.integers(len(data), size=2))
    return data[:end] + data[start:end] * int(rng.integers(1, 4)) + data[end:]


def exchange(rng, data):
    first, second = sorted(rng.integers(len(data), size=2))
    return data[second:] + data[first:second] + data[:first]


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(members, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def change_member(rng, data):
    """One member with other bytes, and the right checksum."""
    members = members_of(data)
    name = rng.choice(list(members))
    change = rng.choice([flip_bits, set_bytes, truncate, cut_out, repeat])
    members[name] = change(rng, members[name])
    return archive_of(members)


def rename_member(rng, data):
    members = members_of(data)
    name, other = rng.choice(list(members), 2)
    members[str(other) if rng.random() < 0.5 else f"../{name}"] = members.pop(name)
    return archive_of(members)


HOSTILE = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**400, 1e308, float("inf"), float("nan"), "", "x"),
    *([], {}, [[]], {"type": "Separator"}, {"type": ["x"]}, {"type": "dict", "fields": {}}),
    *({"dtype": "float32", "shape": [2**40]}, {"dtype": "object", "shape": []}),
    *({"type": "Binarizer", "settings": {}}, {"type": "SearchConfig", "settings": None}),
    *({"type": "list", "fields": {"0": 3}}, ["dtype", "shape"], "type", {"settings": 3}),
)


def places_of(value, path=()):
    """The paths of all values of a JSON document."""
    yield path
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from places_of(part, (*path, key))


def change_header(rng, data):
    """A value of the header replaced, dropped, or put elsewhere."""
    members = members_of(data)
    header = json.loads(members["header.json"])
    for _ in range(rng.integers(1, 4)):
        places = [path for path in places_of(header) if path]
        if not places:
            break
        *path, key = places[rng.integers(len(places))]
        parent = header
        for part in path:
            parent = parent[part]
        kind = rng.integers(4)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, dict):
            parent[str(rng.choice(["type", "fields", "settings", "dtype", "é.x"]))] = parent.pop(
                key
            )
        else:
            parent[key] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])
    members["header.json"] = json.dumps(header).encode()
    return archive_of(members)


def change_npy_header(rng, data):
    members = members_of(data)
    name = rng.choice([name for name in members if name.endswith(".npy")])
    kinds = ("<f4", "<f8", "|O", "<i8", "|S9999999", "<U99", "(9,)f4", "|V8", "c16", "x", ">f4")
    shapes = ("()", "(2,)", "(99999999999,)", "(-1,)", "(2.5,)", "(0, 10**9)", "[3]", "(1,)*999")
    order = rng.choice(["True", "False", "3"])
    head = (
        f"'descr': '{rng.choice(kinds)}', 'fortran_order': {order}, 'shape': {rng.choice(shapes)}"
    )
    text = f"{{{head}, }}".encode().ljust(117) + b"\n"
    version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x09\x09"])
    size = struct.pack("<I" if version == b"\x02\x00" else "<H", len(text))
    members[name] = b"\x93NUMPY" + version + size + text + members[name][128:]
    return archive_of(members)


def change_directory(rng, data):
    """A field of the local headers, the central directory or its end."""
    data = bytearray(data)
    kind = [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"][rng.integers(3)]
    starts = [place for place in range(len(data) - 4) if data[place : place + 4] == kind]
    start = starts[rng.integers(len(starts))]
    place = start + int(rng.integers(4, 46))
    value = rng.choice([0, 1, 9, 12, 14, 0x7FFF, 0xFFFF])
    data[place : place + 2] = struct.pack("<H", value)
    return bytes(data)


MUTATIONS = (
    *(flip_bits, set_bytes, truncate, cut_out, repeat, exchange, change_member, rename_member),
    *(change_header, change_header, change_header, change_npy_header, change_directory),
)


def check(tmp_path, count, seed):
    """Loads mutations of all stored models, with an audit that nothing is opened, imported, run or
    connected but the file.
    """
    rng = np.random.default_rng(seed)
    originals = [(path, path.read_bytes(), learner_of(path)) for path in MODELS]
    for path, data, learner in originals:
        files.load(path, learner=learner)  # the first load imports and compiles
        assert load(tmp_path / "model.npz", data, learner) is None, path
    found = {}
    for index in range(count):
        path, data, learner = originals[index % len(originals)]
        mutate = MUTATIONS[rng.integers(len(MUTATIONS))]
        mutated = mutate(rng, data)
        try:
            with watched(tmp_path):
                message = load(tmp_path / "model.npz", mutated, learner)
        except BaseException as error:
            raise AssertionError(f"seed {seed}, {index}: {path.stem}, {mutate.__name__}") from error
        found.setdefault(mutate.__name__, []).append(message is not None)
    return found


_WATCHING = []


def _audit(event, arguments):
    if not _WATCHING:
        return
    if event == "open" and isinstance(arguments[0], str):
        assert arguments[0].startswith(_WATCHING[0]), arguments
    assert not event.startswith(("subprocess", "socket", "pickle", "shutil", "ctypes")), event
    assert event not in ("exec", "import", "os.system", "os.exec", "os.fork", "os.remove"), event


sys.addaudithook(_audit)


@contextlib.contextmanager
def watched(folder):
    """Fails where Python opens a file out of the folder, starts a process or a connection."""
    _WATCHING.append(str(folder))
    try:
        yield
    finally:
        _WATCHING.clear()


def test_mutations_of_model_files_load_or_are_refused(tmp_path):
    found = check(tmp_path, NUM_QUICK, seed=0)
    assert set(found) == {mutate.__name__ for mutate in MUTATIONS}
    assert np.mean(sum(found.values(), [])) > 0.5  # noqa: RUF017


@pytest.mark.slow
def test_10000_mutations_of_model_files_load_or_are_refused(tmp_path):
    found = check(tmp_path, NUM_ALL, seed=1)
    assert sum(map(len, found.values())) == NUM_ALL


# --- files made to harm ---------------------------------------------------------------------------


def model_of(header, **arrays):
    members = {f"{name}.npy": content for name, content in arrays.items()}
    return {"header.json": header.encode(), **members}


def header_of(model="{}", metadata="{}"):
    start = '{"format": "jboost-model", "format_version": 1, "jboost_version": "0.1.0"'
    return f'{start}, "model": {model}, "metadata": {metadata}}}'


LIST = '{"type": "list", "fields": {}}'
LIMIT = 1 << 24  # as docs/model-files.md says
MANY = 60_000
BOMBS = {
    "objects": "[" + "{}," * MANY + "0]",
    "objects of one entry": "[" + '{"a":0},' * MANY + "0]",
    "lists": "[" + "[]," * MANY + "0]",
    "lists of one entry": "[" + "[9],".replace("9", "1.5") * MANY + "0]",
    "nested lists": "[" * 900 + "]" * 900,
    "numbers": "[" + "1.5," * MANY + "0]",
    "texts": "[" + '"ab",' * MANY + "0]",
    "entries": "{" + ",".join(f'"{index}":1' for index in range(MANY)) + "}",
    "wide texts": '"' + "ab" * MANY + "\U0001f600" + '"',
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a long number": "9" * 5000,
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_load_of_a_header_that_takes_memory_is_bounded(tmp_path, name, method):
    value = BOMBS[name]
    value = value if value.startswith("{") else f'{{"a": {value}}}'
    load(tmp_path / "model.npz", archive_of(model_of(header_of(LIST, value)), method), least=LIMIT)


def npy_of(shape, kind="|u1", content=b""):
    buffer = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + content


ARRAY = '{"type": "list", "fields": {"0": {"dtype": "uint8", "shape": [%d]}}}'
SIZE = 1 << 24


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_load_refuses_an_array_that_unpacks_to_much_more(tmp_path, method):
    content = npy_of((SIZE,), content=bytes(SIZE))
    data = archive_of(model_of(header_of(ARRAY % SIZE), **{"0": content}), method)
    message = load(tmp_path / "model.npz", data, least=LIMIT)
    assert "the array 0 of the model file is missing or damaged" in message or "header" in message


def test_load_refuses_a_directory_that_lies_about_sizes(tmp_path):
    content = npy_of((SIZE,), content=bytes(SIZE))
    data = archive_of(model_of(header_of(ARRAY % SIZE), **{"0": content}))
    real = struct.pack("<I", len(content))
    for size in (0, 1, 4096, 0xFFFFFFFE):
        lie = data.replace(real, struct.pack("<I", size))
        assert lie != data
        assert load(tmp_path / "model.npz", lie, least=LIMIT) is not None


def test_load_refuses_shapes_without_numbers(tmp_path):
    for size in (2**20, 2**40, 2**63, 2**70):
        data = archive_of(model_of(header_of(ARRAY % size), **{"0": npy_of((size,))}))
        assert "missing or damaged" in load(tmp_path / "model.npz", data)


def test_load_counts_an_array_as_often_as_it_is_named(tmp_path):
    """`a.a.a` is field a.a of a, a of a.a, and a of a of a: one member, unpacked for each."""
    array = '{"dtype": "uint8", "shape": [100000]}'
    inner = '{"type": "dict", "fields": {%s}}'
    model = f'"a.a": {array}'
    for _ in range(60):
        model = f'"a": {inner % model}, "a.a": {array}'
    names = {f"{'a.' * depth}a": npy_of((100_000,), content=bytes(100_000)) for depth in range(64)}
    data = archive_of(model_of(header_of(inner % model), **names))
    load(tmp_path / "model.npz", data, least=LIMIT)


def test_load_of_an_enormous_file_reads_its_end_alone(tmp_path):
    path = tmp_path / "model.npz"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # without blocks on the disk
    tracemalloc.start()
    with pytest.raises(ValueError, match="not a model file of jboost, or damaged"):
        files.load(path)
    assert tracemalloc.get_traced_memory()[1] < LIMIT
    tracemalloc.stop()


def test_load_refuses_a_model_in_place_of_an_array(tmp_path):
    members = members_of((MODELS[0].parent / "separator.npz").read_bytes())
    header = json.loads(members["header.json"])
    header["model"]["fields"]["normal"] = {"type": "dict", "fields": {}}
    members["header.json"] = json.dumps(header).encode()
    message = load(tmp_path / "model.npz", archive_of(members))
    assert message.endswith("damaged (normal of the Separator is no array)")


def test_load_takes_regular_files_alone(tmp_path):
    with pytest.raises(ValueError, match="is no regular file"):
        files.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="is no regular file"):
            files.load(tmp_path / "pipe")


def test_saved_files_load_however_well_they_compress(tmp_path):
    path = tmp_path / "model.npz"
    model = [jnp.zeros(1 << 22, np.int8)]
    files.save(model, path)
    np.testing.assert_array_equal(files.load(path)[0], model[0])


def test_old_files_of_zeros_load(tmp_path):
    """As version 0.1 wrote them: all is compressed."""
    shape = 4_000_000
    content = npy_of((shape,), content=bytes(shape))
    data = archive_of(model_of(header_of(ARRAY % shape), **{"0": content}))
    assert len(data) * 100 < shape
    assert load(tmp_path / "model.npz", data, least=LIMIT) is None
