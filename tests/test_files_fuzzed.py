"""Model files that are corrupted, truncated, enormous or hostile: `load` returns a model or raises
ValueError with one line; nothing else happens.
"""

import copy
import io
import json
import struct
import sys
import time
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

import jboost
import stored_models
from jboost import files

MODELS = sorted(Path(__file__).with_name("models").glob("*.npz"))
MODELS = [path for path in MODELS if path.stem != "scores"]
NUM_QUICK, NUM_ALL = 400, 10_000
SECONDS = 10.0  # a load takes milliseconds; a machine may be busy
# What a load of the smallest file allocates anyway, and JAX for each array of it.
LEAST_BYTES = 1 << 20
RATIO = 100


def learner_of(path):
    """What the file of 2026-11-27 does not hold."""
    given = {"networks": stored_models.network, "quantised": jboost.learners.quantised_stumps}
    return given[path.stem]() if path.stem in given else None


def load(path, data, learner):
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
    assert peak <= max(LEAST_BYTES, RATIO * len(data)), (peak, len(data))
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
    head = f"{{'descr': '{rng.choice(kinds)}', 'fortran_order': {order}, 'shape': {rng.choice(shapes)}, }}"
    text = head.encode().ljust(117) + b"\n"
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
    for path, data, learner in originals:  # what the first load imports is there now
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


FORBIDDEN = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
    "socket.connect",
    "exec",
    "ctypes",
)
_WATCHING = []


def _audit(event, arguments):
    if not _WATCHING:
        return
    if event == "open" and isinstance(arguments[0], str | bytes | Path):
        opened = str(arguments[0])
        assert opened.startswith(_WATCHING[0]) or ".py" in opened or "linecache" in opened, opened
    assert not event.startswith(("subprocess", "socket", "pickle", "shutil")), event
    assert event not in ("os.system", "os.exec", "os.fork", "os.remove", "os.rename"), event


sys.addaudithook(_audit)


class watched:  # noqa: N801 (a context, like contextlib's)
    def __init__(self, folder):
        self.folder = str(folder)

    def __enter__(self):
        _WATCHING.append(self.folder)

    def __exit__(self, *_):
        _WATCHING.clear()


def test_mutations_of_model_files_load_or_are_refused(tmp_path):
    found = check(tmp_path, NUM_QUICK, seed=0)
    assert set(found) == {mutate.__name__ for mutate in MUTATIONS}
    assert np.mean(sum(found.values(), [])) > 0.5  # noqa: RUF017


@pytest.mark.slow
def test_10000_mutations_of_model_files_load_or_are_refused(tmp_path):
    found = check(tmp_path, NUM_ALL, seed=1)
    assert sum(map(len, found.values())) == NUM_ALL
