"""The documentation site: `scripts/docs` builds it into docs/_build/html.

Docstrings are written as plain text with code in single backticks. `_docstring` makes
reStructuredText of them, and adds the fields of a record with the comments beside them.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import io
import re
import sys
import textwrap
import tokenize
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

project = "jboost"
author = "The jboost developers"
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
default_role = "py:obj"
suppress_warnings = ["myst.strikethrough"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

html_theme = "sphinx_book_theme"
html_title = "jboost"
html_copy_source = False
html_theme_options = {
    "use_download_button": False,
    "show_navbar_depth": 1,
    "navbar_persistent": [],
}

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name for name in ("Array", "ArrayLike", "PyTree", "OnStep", "Initializer")
}
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # scikit-learn makes these, with references into its own documentation
    "exclude-members": "set_fit_request, set_score_request, set_callbacks",
}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
nitpicky = False

# Parts of a line that are left as they are: code in backticks, roles and links.
_CODE = re.compile(r"(``.+?``|:[a-z:]+:`[^`]+`|`[^`]+`)")
_ITEM = re.compile(r"(\* |- |\d\. )")
_SECTION = re.compile(r"(Args|Arguments|Attributes|Raises|Returns|Yields|Note|Example|Examples):$")


def _escape(line: str) -> str:
    """The line with the characters that reStructuredText takes for markup escaped."""
    bullet = re.match(r"\s*(\* |- |\d\. )?", line)
    start, rest = line[: bullet.end()], line[bullet.end() :]
    parts = _CODE.split(rest)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"([*|])", r"\\\1", parts[index])
        parts[index] = re.sub(r"_(?=\W|$)", r"\\_", parts[index])
        parts[index] = re.sub(r"(?<=\w)\^(-?\w+)", r"\\ :sup:`\1`\\ ", parts[index])
    return start + "".join(parts)


def _align_lists(lines: list[str]) -> list[str]:
    """Lists below a sentence moved to the margin, where indented they would be quotations."""
    found: list[str] = []
    shift = 0
    for line in lines:
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if text and indent < shift:
            shift = 0
        above = found[-1] if found else ""
        is_below_text = above.strip() != "" and not above.startswith((" ", "*", "-"))
        if _ITEM.match(text) and indent and is_below_text and not _SECTION.match(above):
            shift = indent
        found.append(line[shift:])
    return found


def _paragraphs(lines: list[str]) -> list[str]:
    """Escaped lines, with `::` in front of indented blocks that are neither lists nor sections,
    and a blank line around lists.
    """
    found: list[str] = []
    numbered: int | None = None  # the indentation of a numbered list
    literal: int | None = None  # the indentation of the line in front of a literal block
    for index, line in enumerate(lines):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if literal is not None and text and indent <= literal:
            literal = None
        if literal is not None or text.startswith((">>>", "... ")) or _in_doctest(lines, index):
            found.append(line)
            continue
        after = lines[index + 2] if index + 2 < len(lines) else ""
        starts_block = (
            (text.endswith(":") or re.match(r"\w+ = ", after.strip()))
            and text != ""
            and not _SECTION.match(text)
            and index + 1 < len(lines)
            and not lines[index + 1].strip()
            and len(after) - len(after.lstrip()) > indent
            and after.strip() != ""
            and not re.match(r"(\* |- |\d\. |>>>)", after.strip())
        )
        if starts_block:
            literal = indent
            found.append(_escape(line) + (":" if text.endswith(":") else " ::"))
            continue
        is_item = _ITEM.match(text)
        if (
            is_item
            and found
            and found[-1].strip()
            and not re.match(r"\s*(\* |- |\d\. )", found[-1])
        ):
            previous = found[-1]
            if len(previous) - len(previous.lstrip()) <= indent:
                found.append("")
        if is_item and text[0].isdigit():
            numbered = indent
        elif numbered is not None and text and indent <= numbered:
            numbered = None
        # what follows "1. " stands below the text, three characters in
        inner = " " if numbered is not None and indent == numbered + 2 and not is_item else ""
        found.append(inner + _escape(line))
    return found


def _in_doctest(lines: list[str], index: int) -> bool:
    """Whether a line is what an example prints: no blank line since its `>>>`."""
    while index >= 0 and lines[index].strip():
        if lines[index].strip().startswith(">>>"):
            return True
        index -= 1
    return False


def _fields(record: type) -> list[tuple[str, str]]:
    """The fields of a NamedTuple or a dataclass with the comments of the source about them."""
    try:
        source = textwrap.dedent(inspect.getsource(record))
    except (OSError, TypeError):
        return []
    comments = {
        token.start[0]: (
            token.string.lstrip("# "),
            token.start[1] == len(token.line) - len(token.line.lstrip()),
        )
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found = []
    body = ast.parse(source).body[0].body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id.startswith("_"):
            continue
        words = []
        line = node.lineno - 1
        while line in comments and comments[line][1]:
            words.insert(0, comments[line][0])
            line -= 1
        words += [
            comments[line][0]
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if line in comments
        ]
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            words.append(str(following.value.value))  # the docstring of the field
        default = _default(node.value)
        text = _escape(" ".join(" ".join(words).split()))
        found.append((node.target.id, text + (f" (default ``{default}``)" if default else "")))
    return found


def _default(value: ast.expr | None) -> str:
    """The default of a field as it stands in the source, that of a factory by what it returns."""
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
        given = {keyword.arg: keyword.value for keyword in value.keywords}
        value = given.get("default", given.get("default_factory"))
        if isinstance(value, ast.Lambda):
            value = value.body
    return ast.unparse(value) if value is not None else ""


def _docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    fresh = _paragraphs(_align_lists(lines))
    if what == "class" and isinstance(value, type):
        fields = _fields(value)
        if issubclass(value, enum.Enum):
            fields = [(member.name, f"``{member.value!r}``") for member in value]
        if fields:
            if fresh and fresh[-1].strip():
                fresh.append("")
            fresh.append("Attributes:")
            fresh += [f"  {field}: {text}".rstrip() for field, text in fields]
            fresh.append("")
    lines[:] = fresh


def _skip(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leaves out the fields of records, which `_docstring` lists."""
    is_field = not callable(value) and not isinstance(
        value, (property, functools.cached_property, enum.Enum, classmethod, staticmethod)
    )
    return True if what == "class" and is_field else None


def _check_entries(app: Any, env: Any) -> None:
    """Warns of public names without an entry, and of entries of no public name."""
    import entries  # of this folder
    from sphinx.util import logging

    pages = [path.read_text(encoding="utf-8") for path in (HERE / "api").glob("*.md")]
    for names, words in zip(
        entries.differences(pages), ("has no entry in docs/api/", "is no public name"), strict=True
    ):
        for name in sorted(names):
            logging.getLogger(__name__).warning("%s %s", name, words)


def setup(app: Any) -> None:
    from sphinx.util.inspect import TypeAliasForwardRef

    # `Array | None` shows its alias by name; Sphinx 9 does so for an alias alone
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name
    # napoleon, whose listener has priority 500, gets what _docstring made
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    app.connect("autodoc-skip-member", _skip)
    app.connect("env-check-consistency", _check_entries)
