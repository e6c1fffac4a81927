"""Model files: bit for bit, without pickle, whole or not at all."""

import dataclasses
import io
import json
import re
import types
import zipfile
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jboost
import stored_models
from jboost import files, learners
from jboost.data import binarization
from jboost.files import registry
from jboost.monomials import costs
from jboost.pair.baselines import DistanceSeparator
from jboost.pair.types import Separator, TradeOff
from marks import slow


def make_separator(dtype):
    number = jnp.asarray(0.1, dtype)
    return Separator(
        normal=jnp.array([1 / 3, -2e-30], dtype),
        anchor=jnp.array([-0.0, 7.5], dtype),
        bias=number,
        offset=number,
        loss=number,
        lower_bound=number,
        margin=jnp.asarray(np.inf, dtype),
        misclassified=jnp.array([True, False, True]),
        status=jnp.asarray(0, jnp.int32),
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def rewrite(path, member, change):
    """The archive again, with one member changed (or dropped where `change` gives None)."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = change(members[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            if data is not None:
                archive.writestr(name, data)


def change_header(path, **changes):
    rewrite(path, "header.json", lambda data: json.dumps(json.loads(data) | changes).encode())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_trip_is_bit_exact(path, dtype):
    with jax.enable_x64(dtype == "float64"):
        model = make_separator(dtype)
        files.save(model, path, metadata={"names": ["a", "b"]})
        loaded = files.load(path)
    assert type(loaded) is Separator
    for before, after in zip(model, loaded, strict=True):
        assert isinstance(after, jax.Array)
        assert (before.dtype, before.shape) == (after.dtype, after.shape)
        assert np.asarray(before).tobytes() == np.asarray(after).tobytes()
    assert files.load_metadata(path) == {"names": ["a", "b"]}


def test_lines_of_a_front_and_of_programs_come_back(path):
    one = jnp.ones(())
    line = {
        "normal": jnp.array([1.0, 2.0]),
        "anchor": jnp.array([0.5, 0.0]),
        "bias": one,
        "loss": one,
        "status": jnp.asarray(0, jnp.int32),
    }
    for model in (
        TradeOff(energy=one, index=jnp.asarray(0, jnp.int32), margin=one, **line),
        DistanceSeparator(objective=one, lower_bound=one, **line),
    ):
        files.save(model, path)
        np.testing.assert_array_equal(
            jboost.predict_scores(files.load(path), [[3.0, 1.0], [-4.0, 1.0]]), [5.5, -1.5]
        )


def test_numpy_reads_it_without_pickle(path):
    model = make_separator("float32")
    files.save(model, path)
    with np.load(path, allow_pickle=False) as archive:
        assert set(archive.files) == {*Separator._fields, "header.json"}
        np.testing.assert_array_equal(archive["normal"], model.normal)
        header = json.loads(archive["header.json"])
    assert (header["format"], header["format_version"], header["model"]["type"]) == (
        "jboost-model",
        1,
        "Separator",
    )
    assert header["model"]["fields"]["normal"] == {"dtype": "float32", "shape": [2]}


def test_equal_models_make_equal_files(path, tmp_path):
    files.save(make_separator("float32"), path)
    files.save(make_separator("float32"), tmp_path / "other.npz")
    assert path.read_bytes() == (tmp_path / "other.npz").read_bytes()


class Twins(NamedTuple):
    first: Separator
    second: Separator
    share: jax.Array


def test_a_fit_is_refused_with_the_field_that_can_be_saved(path):
    fitted = types.SimpleNamespace(ensemble=make_separator("float32"))
    with pytest.raises(ValueError, match="model is a SimpleNamespace: save its field `ensemble`"):
        files.save(fitted, path)


def test_other_models_register_with_one_line(path, monkeypatch):
    model = Twins(
        make_separator("float32"),
        make_separator("float32")._replace(bias=jnp.float32(2)),
        jnp.arange(3),
    )
    with pytest.raises(
        ValueError, match="model is a Twins: the types that can be saved are Binarizer, .*Separator"
    ):
        files.save(model, path)
    monkeypatch.setattr(registry, "TYPES", dict(registry.TYPES))
    files.register(Twins)
    files.save(model, path)
    loaded = files.load(path)
    assert isinstance(loaded.second, Separator)
    assert all(
        np.array_equal(before, after)
        for before, after in zip(jax.tree.leaves(model), jax.tree.leaves(loaded), strict=True)
    )
    monkeypatch.delitem(registry.TYPES, "Twins")
    with pytest.raises(
        ValueError,
        match="holds a Twins, which this jboost does not know; it knows Column, .*Separator",
    ):
        files.load(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "there is no such model file"),
        (lambda path: path.write_bytes(b""), "not a model file of jboost, or damaged"),
        (lambda path: path.write_bytes(b"normal text"), "not a model file of jboost, or damaged"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-40]),
            "not a model file of jboost, or damaged",
        ),
        (lambda path: np.savez(path, normal=np.ones(2)), "it has no header"),
        (lambda path: change_header(path, format="other"), "it has no header"),
        (
            lambda path: rewrite(path, "header.json", lambda data: b"{" + data),
            "the header of the model file is damaged",
        ),
        (
            lambda path: rewrite(path, "header.json", lambda data: b"[]"),
            "the header of the model file is damaged",
        ),
        (
            lambda path: change_header(path, format_version=2, jboost_version="9.1"),
            "has format 2, written by jboost 9.1.*install a newer jboost",
        ),
        (
            lambda path: change_header(path, model={"type": "Forest", "fields": {}}),
            "holds a Forest, which this jboost does not know",
        ),
        (
            lambda path: change_header(path, model={"type": "Separator", "fields": {}}),
            "do not fit this jboost",
        ),
        (
            lambda path: change_header(path, model={"kind": 3}),
            "the header of the model file is damaged",
        ),
        (
            lambda path: rewrite(path, "normal.npy", lambda data: None),
            "the array normal of the model file is missing or damaged",
        ),
        (
            lambda path: rewrite(path, "normal.npy", lambda data: data[:-2]),
            "the array normal of the model file is missing or damaged",
        ),
        (
            lambda path: rewrite(path, "normal.npy", lambda data: as_npy(np.ones(3))),
            r"normal is float64\[3\], the header says float32\[2\]",
        ),
        (
            lambda path: rewrite(path, "normal.npy", lambda data: as_npy(np.array([{}, {}]))),
            "the array normal of the model file is missing or damaged",
        ),
    ],
)
def test_damaged_files_are_refused(path, damage, message):
    files.save(make_separator("float32"), path)
    damage(path)
    with pytest.raises(ValueError, match=message) as caught:
        files.load(path)
    assert str(caught.value).startswith(f"{path}: ")


def as_npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_bits_that_flipped_are_found(path):
    files.save(make_separator("float32"), path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("anchor.npy").header_offset + 60
    data[place] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(
        ValueError, match="the array anchor of the model file is missing or damaged"
    ):
        files.load(path)


def test_64_bits_are_not_lost_silently(path):
    with jax.enable_x64(True):
        files.save(make_separator("float64"), path)
    with (
        jax.enable_x64(False),
        pytest.raises(ValueError, match="holds float64 arrays: enable 64-bit types first"),
    ):
        files.load(path)


def test_entries_of_a_dict_that_numpy_holds_in_64_bits_stay_there(path):
    held = {"bound": np.asarray(1 / 3), "pairs": np.arange(2), "votes": np.ones(2, np.float32)}
    files.save({"proof": held}, path)
    found = files.load(path)
    assert type(found["proof"]["bound"]) is type(found["proof"]["pairs"]) is np.ndarray
    assert found["proof"]["bound"] == 1 / 3
    assert isinstance(found["proof"]["votes"], jax.Array)


def test_a_learner_is_for_models_that_have_one(path):
    files.save({"model": make_separator("float32")}, path)
    with pytest.raises(ValueError, match="a dict has no learner"):
        files.load(path, learner=object())
    files.save(make_separator("float32"), path)
    with pytest.raises(ValueError, match="a Separator has no learner"):
        files.load(path, learner=object())


# --- ensembles ------------------------------------------------------------------------------------

NETWORK = learners.trained(*learners.mlp((3,)), optax.adam(1e-2), num_steps=2)


class Guess(NamedTuple):
    """A hypothesis of one's own."""

    sign: jax.Array


@dataclasses.dataclass(frozen=True)
class Guesses:
    """A learner of one's own."""

    size: int


def make_ensemble(learner, hypotheses=None):
    """An ensemble with settling, negative and tiny votes; the hypotheses are those of the learner's
    first proposal, twice.
    """
    dataset = jboost.make_dataset(
        [[1.0, -1.0, 1.0], [1.0, 1.0, -1.0], [-1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]], [1, 1, -1, -1]
    )
    if hypotheses is None:
        state = learner.init(jax.random.key(0), dataset)
        hypotheses = learner.propose(state, jnp.full(4, 0.25)).hypotheses
    hypotheses = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), hypotheses)
    votes = jnp.array([[jnp.inf, 0.1], [-0.0, 1e-30]], jnp.float32)
    return jboost.ensemble.Ensemble(
        learner, hypotheses, votes, jnp.float32(-1 / 3), jnp.int32(2)
    ), dataset.features


def assert_same(before, after):
    assert jax.tree.structure(before) == jax.tree.structure(after)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert isinstance(new, jax.Array)
        assert (old.dtype, old.shape, np.asarray(old).tobytes()) == (
            new.dtype,
            new.shape,
            np.asarray(new).tobytes(),
        )


@pytest.mark.parametrize(
    "learner",
    [
        slow(learners.stumps()),
        slow(learners.stumps(abstain=True, criterion="normalizer")),
        learners.pool(),
        slow(learners.literals(criterion="normalizer")),
        learners.signs(learners.pool()),
    ],
    ids=repr,
)
def test_ensembles_come_back_without_help(path, learner):
    model, features = make_ensemble(learner)
    files.save(model, path)
    for loaded in (files.load(path), files.load(path, learner=learner)):
        assert loaded.learner == learner
        assert_same(model, loaded)
    np.testing.assert_array_equal(
        jboost.predict_scores(files.load(path), features), jboost.predict_scores(model, features)
    )
    with pytest.raises(ValueError, match="leave `learner` out"):
        files.load(path, learner=learners.stumps(num_proposed=2))


@pytest.mark.parametrize(
    "learner", [slow(NETWORK), learners.signs(NETWORK)], ids=["trained", "signs"]
)
def test_a_learner_of_functions_is_handed_in(path, learner):
    model, features = make_ensemble(learner)
    files.save({"ensemble": model}, path)
    assert files.load(path, learner=learner)["ensemble"].learner == learner
    files.save(model, path)
    with np.load(path, allow_pickle=False) as archive:
        assert {"hypotheses.params.0.0", "hypotheses.params.1.1", "hypotheses.sign"} <= set(
            archive.files
        )
    with pytest.raises(
        ValueError,
        match=r"the learner, a Trained, holds what a file cannot: .*load\(path, learner=...\)",
    ):
        files.load(path)
    with pytest.raises(
        ValueError, match="learner is a Stumps, but the model was fitted with a Trained"
    ):
        files.load(path, learner=learners.stumps())
    for given in (learner, NETWORK):
        loaded = files.load(path, learner=given)
        assert loaded.learner == learner
        assert_same(model, loaded)
        np.testing.assert_array_equal(
            jboost.predict_scores(loaded, features), jboost.predict_scores(model, features)
        )


def price_by_order(orders, num_attributes, num_examples, max_order):
    """A cost function of one's own."""
    return orders + 0.5


MONOMIALS = learners.Monomial(jnp.array([[1, 0, -1]], jnp.int8), jnp.ones(1, jnp.int8))


@pytest.mark.parametrize(
    "cost", [slow("mdl"), costs.mdl(0.3, num_attributes=7), slow(costs.rademacher(0.1))], ids=repr
)
def test_monomials_come_back_with_their_costs(path, cost):
    learner = learners.monomials(2, cost=cost, num_proposed=3, constant_cost=0.25)
    model, _ = make_ensemble(learner, MONOMIALS)
    files.save({"ensemble": model, "more": [jnp.ones(2)]}, path)
    loaded = files.load(path)["ensemble"]
    assert loaded.learner == learner
    assert loaded.learner.config == learner.config
    assert jax.tree.structure(loaded) == jax.tree.structure(model)
    prices = [
        one.cost(jnp.arange(1, 3), 5, jnp.float32(40), 2) for one in (learner, loaded.learner)
    ]
    np.testing.assert_array_equal(*prices)
    features = jnp.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [jnp.nan, 0.0, 0.0]])
    np.testing.assert_array_equal(
        jboost.predict_scores(loaded, features), jboost.predict_scores(model, features)
    )


def test_monomials_with_a_cost_of_ones_own_are_handed_in(path):
    learner = learners.monomials(2, cost=price_by_order)
    model, _ = make_ensemble(learner, MONOMIALS)
    files.save(model, path)
    with pytest.raises(ValueError, match="the learner, a Monomials, holds what a file cannot"):
        files.load(path)
    assert files.load(path, learner=learner).learner is learner


def test_binarizers_keep_their_64_bits_and_words(path):
    rows = np.array([[0.1, "rot"], [0.2, None], [None, "grün"], [0.4, "rot"]], object)
    binarizer = binarization.fit(rows, [1, -1, 1, -1], names=["größe", "farbe"])
    files.save(binarizer, path)
    loaded = files.load(path)
    assert loaded.bit_names == binarizer.bit_names
    for field in dataclasses.fields(binarizer):
        before, after = getattr(binarizer, field.name), getattr(loaded, field.name)
        assert type(before) is type(after), field.name
        np.testing.assert_array_equal(np.asarray(before, object), np.asarray(after, object))
    assert loaded.thresholds.dtype == np.float64
    np.testing.assert_array_equal(
        binarization.apply(loaded, rows), binarization.apply(binarizer, rows)
    )

    def change(data):
        header = json.loads(data)
        header["model"]["settings"]["colour"] = 3
        return json.dumps(header).encode()

    rewrite(path, "header.json", change)
    with pytest.raises(ValueError, match="the Binarizer in the file does not fit this jboost"):
        files.load(path)


def test_hypotheses_of_ones_own(path, monkeypatch):
    monkeypatch.setattr(registry, "TYPES", dict(registry.TYPES))
    learner = learners.register(Guesses, static=("size",))(3)
    model, _ = make_ensemble(learner, {"a": Guess(jnp.ones(1)), "b": (jnp.zeros((1, 0)), [])})
    with pytest.raises(
        ValueError, match="model.hypotheses.a is a Guess: .*; jboost.files.register adds another"
    ):
        files.save(model, path)
    assert not path.exists()
    files.register(Guess)
    files.save(model, path)
    assert_same(model, files.load(path, learner=learner))
    with pytest.raises(ValueError, match="keys are strings"):
        files.save(model._replace(hypotheses={3: jnp.ones(2)}), path)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (
            {"type": "Stumps", "settings": {"depth": 2}},
            "the Stumps in the file does not fit this jboost",
        ),
        ({"type": "Trees", "settings": {}}, "the Trees in the file does not fit this jboost"),
        ({"type": "Signs", "settings": None}, "the header of the model file is damaged"),
        ({"type": 3, "settings": None}, "the header of the model file is damaged"),
    ],
)
def test_damaged_learners_are_refused(path, learner, message):
    files.save(make_ensemble(learners.stumps())[0], path)

    def change(data):
        header = json.loads(data)
        header["model"]["fields"]["learner"] = learner
        return json.dumps(header).encode()

    rewrite(path, "header.json", change)
    with pytest.raises(ValueError, match=message):
        files.load(path)


def test_only_arrays_of_numbers_are_saved(path):
    with pytest.raises(ValueError, match="model.bias is a str"):
        files.save(make_separator("float32")._replace(bias="big"), path)
    assert not path.exists()


def test_two_arrays_of_one_name(tmp_path):
    model = learners.Model(
        {"dense.bias": jnp.float32(1), "dense": {"bias": jnp.float32(2)}}, jnp.float32(1)
    )
    with pytest.raises(ValueError, match="two arrays by the name params.dense.bias"):
        files.save(model, tmp_path / "model.npz")


# --- files of older versions ----------------------------------------------------------------------

STORED = Path(__file__).parent / "models"


def test_stored_files_are_of_every_kind_that_is_registered():
    """`Rules` and the costs are records inside others; `CustomKernel` holds a function."""
    types = {
        kind
        for path in STORED.glob("*.npz")
        if path.stem != "scores"
        for kind in re.findall(
            r'"type": "(\w+)"', zipfile.ZipFile(path).read("header.json").decode()
        )
    }
    assert {kind.__name__ for kind in (*registry.KNOWN, *registry.KNOWN_RECORDS)} - types <= {
        "Rademacher",
        "SearchConfig",
    }


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in STORED.glob("*.npz") if path.stem != "scores")
)
def test_load_reads_files_of_an_older_version(name):
    given = {"networks": stored_models.network(), "quantised": learners.quantised_stumps()}
    model = files.load(STORED / f"{name}.npz", learner=given.get(name))
    with np.load(STORED / "scores.npz", allow_pickle=False) as expected:
        np.testing.assert_allclose(
            stored_models.scores(model, stored_models.features(name)), expected[name], rtol=1e-4
        )
    assert files.load_metadata(STORED / f"{name}.npz") == {"name": name}


def test_quantised_stumps_come_back_without_help(path):
    dataset = jboost.make_dataset(stored_models.LEVELS, stored_models.LABELS)
    fitted = jboost.adaboost.fit(dataset, learners.quantised_stumps(), max_rounds=2).ensemble
    files.save(fitted, path)
    assert_same(fitted, files.load(path))
