"""Messages about data files of the papers that are not there."""

import tomllib
from pathlib import Path

import pytest

from jboost.data import readers, sources
from jboost.data.known_files import how_to_get

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("name", ["ripley", "banana"])
def test_files_that_configurations_name_are_known(name):
    settings = tomllib.loads((CONFIGS / f"{name}.toml").read_text(encoding="utf-8"))
    text = how_to_get(settings["data"])
    assert text is not None
    assert settings["data"] in text or "benchmarks.mat" in text


@pytest.mark.parametrize("folder", [".", "nowhere"])
def test_a_missing_file_says_what_it_is_and_how_to_get_it(tmp_path, folder):
    path = tmp_path / folder / "RIPLEY_TE.csv"
    with pytest.raises(ValueError, match="Ripley's synthetic test set") as caught:
        sources.open_source(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}: there is no such file. It is ")
    assert "MASS::synth.te" in text
    assert "'RIPLEY_TE.csv'" in text
    assert "--data" in text
    with pytest.raises(ValueError, match="banana set"):
        readers.read_table(tmp_path / "BANANA.csv", label="label")


def test_other_missing_files_have_no_story(tmp_path):
    assert how_to_get("mine.csv") is None
    with pytest.raises(ValueError, match="there is no such file$"):
        sources.open_source(str(tmp_path / "mine.csv"))
