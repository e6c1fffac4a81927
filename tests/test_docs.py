"""README and the pages in docs/: each public name has an entry in the API pages, each page is
reached from the index, links lead somewhere, and the site builds without a warning.
"""

import importlib.util
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import public_api
import public_signatures

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
WITHOUT_ALL = ("boosting", "drive", "files", "folds", "status")  # modules without `__all__`
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def module_of(name: str) -> types.ModuleType:
    """A module of the folder docs/."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def api_pages() -> list[str]:
    return [read(path) for path in (DOCS / "api").glob("*.md")]


# --- the API pages --------------------------------------------------------------------------------


@pytest.fixture
def entries():
    """The module docs/entries.py."""
    return module_of("entries")


def test_public_names_have_an_entry_each_in_the_api_pages(entries):
    missing, unknown = entries.differences(api_pages())
    assert not missing, (
        f"no entry in docs/api/ for {sorted(missing)}: add '.. autofunction:: NAME' or"
        " '.. autoclass:: NAME' to the page of the module"
    )
    assert not unknown, f"docs/api/ has entries of no public name: {sorted(unknown)}"
    names = entries.entries_of(api_pages())
    assert len(names) == len(set(names))


def test_public_functions_of_the_other_tables_are_among_the_entries(entries):
    names = set(entries.entries_of(api_pages()))
    functions = set(public_api.public_functions(exempt=WITHOUT_ALL))
    assert {f"jboost.{name}" for name in functions} <= names


def test_checker_finds_a_name_without_an_entry(entries):
    pages = api_pages()
    entry = ".. autofunction:: jboost.pair.optimal_separator\n"
    assert any(entry in page for page in pages)
    assert entries.differences([page.replace(entry, "") for page in pages]) == (
        {"jboost.pair.optimal_separator"},
        set(),
    )


def test_public_signatures_are_those_of_the_stored_list():
    stored = public_signatures.FILE.read_text(encoding="utf-8").splitlines()
    assert public_signatures.lines() == stored, (
        "the interface has changed: CHANGELOG says so, then run python -m tests.public_signatures"
    )


# --- pages and links ------------------------------------------------------------------------------


def children(page: Path) -> list[Path]:
    """The pages that the tables of contents of a page name."""
    tables = re.findall(r"^```\{toctree\}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    names = [line for table in tables for line in table.splitlines() if line and line[0] != ":"]
    return [page.parent / f"{name}.md" for name in names]


def test_pages_are_reached_from_the_index_once_each():
    reached = [DOCS / "index.md"]
    for page in reached:  # grows while it is read
        reached += children(page)
    assert len(reached) == len(set(reached))
    assert set(reached) == set(PAGES)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda path: path.name
)
def test_relative_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", read(page))):
        if not re.match(r"[a-z]+:|#", target):
            assert (page.parent / target.split("#")[0]).exists(), target


def test_picture_of_the_layers_is_of_the_table_in_contributing():
    layers = module_of("layers")
    picture = layers.draw(read(ROOT / "CONTRIBUTING.md"))
    assert read(layers.FIGURE) == picture, "run python docs/layers.py"


# --- README ---------------------------------------------------------------------------------------


def test_readme_is_short():
    prose = _FENCE.sub("", read(ROOT / "README.md"))
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "<!--"))]
    assert len(" ".join(lines).split()) <= 800


def test_readme_has_the_two_commands():
    blocks = _FENCE.findall(read(ROOT / "README.md"))
    commands = [line.split()[0] for block in blocks[:1] for line in block.splitlines()[1:-1]]
    assert commands == ["scripts/run", "scripts/test"]


# --- the site -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path):
    for package in ("sphinx", "myst_parser", "sphinx_book_theme"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: scripts/test --all installs the extra docs")
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", tmp_path / "trees"]
    result = subprocess.run(
        [sys.executable, *command, DOCS, tmp_path / "html"],
        cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    page = read(tmp_path / "html" / "api" / "pair.html")
    assert 'id="jboost.pair.optimal_separator"' in page
