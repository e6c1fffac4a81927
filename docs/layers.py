"""Draws docs/figures/layers.svg from the table of modules in CONTRIBUTING.md.

`python docs/layers.py` writes it.
"""

from __future__ import annotations

import html
import sys
from pathlib import Path

HERE = Path(__file__).parent
FIGURE = HERE / "figures" / "layers.svg"
_WIDTH, _ROW, _GAP, _NAMES = 860, 52, 12, 150


def draw(contributing: str) -> str:
    """The picture as SVG: a bar for each layer, the lowest at the bottom."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:3]]
        for line in contributing.splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    height = len(rows) * (_ROW + _GAP) + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}"'
        f' height="{height}" font-family="sans-serif" font-size="14">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for index, (layer, modules) in enumerate(reversed(rows)):
        top = 8 + index * (_ROW + _GAP)
        middle = top + _ROW // 2 + 5
        names = html.escape(modules.replace("`", ""))
        parts += [
            f'<rect x="8" y="{top}" width="{_WIDTH - 16}" height="{_ROW}" rx="4" fill="#e8eef7"'
            ' stroke="#4a6fa5"/>',
            f'<text x="22" y="{middle}" font-weight="bold">{html.escape(layer)}</text>',
            f'<text x="{_NAMES}" y="{middle}" font-size="13">{names}</text>',
        ]
    parts += [
        f'<text x="{_WIDTH // 2}" y="{height - 14}" text-anchor="middle" fill="#444">'
        "A module imports only from layers below its own.</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    text = (HERE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    FIGURE.write_text(draw(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
