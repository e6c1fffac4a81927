"""README and the pages in docs/: each public name has an entry in the API pages, each page is
reached from the index, links lead somewhere, and the site builds without a warning.
"""

import importlib.util
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import jboost
import public_api

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
WITHOUT_ALL = ("boosting", "drive", "files", "folds", "status")  # modules without `__all__`
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^\.\. auto(?:function|class|data):: (jboost\.\S+)$", re.MULTILINE)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- the API pages --------------------------------------------------------------------------------


def names_of(module: types.ModuleType) -> list[str]:
    """What a module declares in `__all__`; without one what it defines and does not hide."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def public_names(module: types.ModuleType, dotted: str) -> Iterator[str]:
    """The dotted names below a module, those of the modules that it declares included."""
    for name in names_of(module):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            yield from public_names(value, f"{dotted}.{name}")
        else:
            yield f"{dotted}.{name}"


def missing_names(pages: list[str]) -> tuple[set[str], set[str]]:
    """Public names without an entry, and entries of no public name."""
    entries = {name for page in pages for name in _ENTRY.findall(page)}
    public = set(public_names(jboost, "jboost"))
    return public - entries, entries - public


def test_public_names_have_an_entry_each_in_the_api_pages():
    pages = [read(path) for path in (DOCS / "api").glob("*.md")]
    missing, unknown = missing_names(pages)
    assert not missing, (
        f"no entry in docs/api/ for {sorted(missing)}: add '.. autofunction:: NAME' or"
        " '.. autoclass:: NAME' to the page of the module"
    )
    assert not unknown, f"docs/api/ has entries of no public name: {sorted(unknown)}"
    entries = [name for page in pages for name in _ENTRY.findall(page)]
    assert len(entries) == len(set(entries))


def test_public_functions_of_the_other_tables_are_among_the_entries():
    pages = [read(path) for path in (DOCS / "api").glob("*.md")]
    entries = {name for page in pages for name in _ENTRY.findall(page)}
    functions = set(public_api.public_functions(exempt=WITHOUT_ALL))
    assert {f"jboost.{name}" for name in functions} <= entries


def test_checker_finds_a_name_without_an_entry():
    pages = [read(path) for path in (DOCS / "api").glob("*.md")]
    entry = ".. autofunction:: jboost.pair.optimal_separator\n"
    assert any(entry in page for page in pages)
    assert missing_names([page.replace(entry, "") for page in pages]) == (
        {"jboost.pair.optimal_separator"},
        set(),
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
    spec = importlib.util.spec_from_file_location("layers_picture", DOCS / "layers.py")
    layers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layers)
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
