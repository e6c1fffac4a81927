"""The modules of jboost belong to layers, and a module imports only from layers below its own
(CONTRIBUTING.md has the table in words).

The checker reads the sources, it imports nothing. An import counts everywhere: inside a
function or under TYPE_CHECKING too.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

LAYERS = (
    ("base",),
    ("projections", "operators", "geometry", "search"),
    ("lp", "monomials", "kernels", "relaxations"),
    ("pair", "learners", "losses"),
    (
        "ensemble",
        "adaboost",
        "infoboost",
        "relaxed_margin",
        "lpboost",
        "l0",
        "slipper",
        "example_weights",
        "combine",
    ),
    ("data", "files", "outputs", "sharding", "checkpoints", "drive", "layers", "export", "verify"),
    ("cli", "plots", "report", "sklearn"),
)
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names}
RUNTIME = frozenset({"jax", "jaxlib", "optax", "numpy", "chex"})
LOWEST_LAYER_WITH_EXTRAS = 5
# Modules of no layer. They may import every other, and no other may import them.
FRONT = frozenset({"jboost", "jboost.__main__"})
# (module, extra) for classes that subclass those of the extra: it is imported at the top, and
# `import jboost` does not import the module.
SUBCLASSES: frozenset[tuple[str | None, str]] = frozenset({("sklearn", "sklearn")})
# (module, module of the same layer that it may import). The command line calls the others. A model
# file is an output, and may hold a binarizer. Pairwise boosting calls learners as AdaBoost does.
# Checkpoints resume a driven loop; they are outputs, and store the version as a model file does. An
# export writes the conditions of a binarizer, and the version.
SAME_LAYER: frozenset[tuple[str, str]] = frozenset(
    {
        ("cli", "plots"),
        ("cli", "report"),
        ("files", "data"),
        ("files", "outputs"),
        ("combine", "adaboost"),
        ("checkpoints", "drive"),
        ("checkpoints", "files"),
        ("checkpoints", "outputs"),
        ("export", "data"),
        ("export", "files"),
    }
)


class Import(NamedTuple):
    target: str  # dotted, absolute; for "from a import b" it is a.b where that is a module, else a
    name: str  # dotted, as far as the statement names it
    line: int
    in_function: bool


def imports_of(module: str, source: str, modules: Mapping[str, bool]) -> Iterator[Import]:
    """All imports in the source; `modules` maps the name of each module of the package to whether
    it is a package itself.
    """

    def visit(node: ast.AST, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, alias.name, node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                package = module.split(".") if modules[module] else module.split(".")[:-1]
                above = package[: len(package) - (node.level - 1)]
                origin = ".".join([*above, origin] if origin else above)
            for alias in node.names:
                name = f"{origin}.{alias.name}"
                yield Import(name if name in modules else origin, name, node.lineno, in_function)
        inside = in_function or isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        )
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    yield from visit(ast.parse(source), False)


def find_violations(
    sources: Mapping[str, str], same_layer: frozenset[tuple[str, str]] = SAME_LAYER
) -> list[str]:
    """What is wrong with the imports of a package, one line each; `sources` maps paths like
    "jboost/base/types.py" to texts.
    """
    modules, texts, paths = {}, {}, {}
    for path, text in sources.items():
        parts = path.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        modules[module], texts[module], paths[module] = is_package, text, path

    violations = []
    edges: dict[str, set[str]] = {module: set() for module in modules}
    for module, text in texts.items():
        own = None if module in FRONT else module.split(".")[1]
        layer = len(LAYERS) if own is None else LAYER_OF.get(own)
        if layer is None:
            violations.append(f"{paths[module]}: the module {own} has no layer")
            continue
        for target, name, line, in_function in imports_of(module, text, modules):
            where = f"{paths[module]}:{line}"
            top = target.split(".")[0]
            if top == "jboost":
                if target in modules:
                    edges[module].add(target)
                target_top = name.split(".")[1] if "." in name else None
                target_layer = LAYER_OF.get(target_top) if target_top else None
                if target in FRONT and target_layer is None:
                    violations.append(
                        f"{where}: imports {name} from the top level; import it from the module"
                        " that defines it"
                    )
                elif target_layer is None:
                    violations.append(f"{where}: imports {name}, whose module has no layer")
                elif (
                    target_top != own
                    and target_layer >= layer
                    and (own, target_top) not in same_layer
                ):
                    violations.append(
                        f"{where}: {own} (layer {layer}) imports {name} (layer {target_layer})"
                    )
            elif top not in RUNTIME and top not in sys.stdlib_module_names:
                if own is None or layer < LOWEST_LAYER_WITH_EXTRAS:
                    violations.append(
                        f"{where}: imports the extra {top} below layer {LOWEST_LAYER_WITH_EXTRAS}"
                    )
                elif not in_function and (own, top) not in SUBCLASSES:
                    violations.append(f"{where}: imports the extra {top} outside a function")
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        violations.append("import cycle: " + " -> ".join(reversed(error.args[1])))
    return violations


def test_jboost_keeps_its_layers():
    root = Path(__file__).parents[1]
    sources = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.glob("jboost/**/*.py"))
    }
    assert "jboost/__init__.py" in sources
    assert find_violations(sources) == []


# --- the checker itself: packages made up for it --------------------------------------------------

HOUSE = {
    "jboost/__init__.py": (
        "from jboost import pair\nfrom jboost.base.types import Dataset\nfrom .adaboost import fit"
    ),
    "jboost/__main__.py": "from jboost.cli import main",
    "jboost/base/__init__.py": "",
    "jboost/base/types.py": (
        "import jax.numpy as jnp\nfrom typing import NamedTuple\nimport numpy as np"
    ),
    "jboost/base/check.py": (
        "from . import types\nfrom .types import Dataset\nfrom jboost.base import types as t"
    ),
    "jboost/pair/__init__.py": "from jboost.pair.sweep import optimal_separator",
    "jboost/pair/sweep.py": (
        "from ..base import types\nfrom jboost.geometry.angles import order\nimport optax, chex,"
        " jaxlib"
    ),
    "jboost/geometry/angles.py": "import jboost.base.types",
    "jboost/adaboost.py": (
        "from . import pair\nfrom .base.types import Dataset\ndef f():\n    from jboost import"
        " learners"
    ),
    "jboost/learners/__init__.py": "",
    "jboost/files.py": "def load():\n    import skops.io\n    from jboost import adaboost",
    "jboost/sklearn.py": "def make():\n    from sklearn.base import BaseEstimator",
    "jboost/cli.py": "def main():\n    import click",
}


def test_checker_accepts_a_house_in_order():
    assert find_violations(HOUSE) == []


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        (
            "jboost/base/types.py",
            "import jboost.pair.sweep",
            "base (layer 0) imports jboost.pair.sweep (layer 3)",
        ),
        (
            "jboost/base/types.py",
            "from ..pair import sweep",
            "base (layer 0) imports jboost.pair.sweep (layer 3)",
        ),
        (
            "jboost/base/__init__.py",
            "from .. import pair",
            "base (layer 0) imports jboost.pair (layer 3)",
        ),
        (
            "jboost/base/types.py",
            "def f():\n    from jboost import cli",
            "types.py:2: base (layer 0) imports jboost.cli (layer 6)",
        ),
        (
            "jboost/base/types.py",
            "class A:\n    if True:\n        import jboost.lp as lp",
            "base (layer 0) imports jboost.lp (layer 2)",
        ),
        (
            "jboost/pair/sweep.py",
            "from jboost.learners import x",
            "pair (layer 3) imports jboost.learners.x (layer 3)",
        ),
        (
            "jboost/plots.py",
            "from jboost.files import save\nfrom jboost import cli",
            "plots.py:2: plots (layer 6) imports jboost.cli (layer 6)",
        ),
        (
            "jboost/cli.py",
            "from jboost import make_dataset",
            "imports jboost.make_dataset from the top level",
        ),
        ("jboost/cli.py", "from . import *", "imports jboost.* from the top level"),
        ("jboost/cli.py", "import jboost", "imports jboost from the top level"),
        ("jboost/cli.py", "import jboost.attic", "imports jboost.attic, whose module has no layer"),
        ("jboost/attic/dust.py", "", "attic/dust.py: the module attic has no layer"),
        ("jboost/utils.py", "", "utils.py: the module utils has no layer"),
        (
            "jboost/plots.py",
            "from matplotlib import pyplot",
            "imports the extra matplotlib outside a function",
        ),
        (
            "jboost/lp/core.py",
            "def f():\n    import highspy",
            "imports the extra highspy below layer 5",
        ),
        ("jboost/lp/core.py", "import scipy.sparse", "imports the extra scipy below layer 5"),
        ("jboost/__init__.py", "def f():\n    import rich", "imports the extra rich below layer 5"),
        (
            "jboost/pair/sweep.py",
            "from jboost.pair import optimal_separator",
            "import cycle: jboost.pair",
        ),
        ("jboost/base/types.py", "from . import check", "import cycle: jboost.base"),
        (
            "jboost/base/types.py",
            "import jboost.base.types",
            "import cycle: jboost.base.types -> jboost.base.types",
        ),
    ],
)
def test_checker_finds(path, source, message):
    assert sum(message in violation for violation in find_violations(HOUSE | {path: source})) == 1


def test_checker_knows_neighbours():
    house = HOUSE | {"jboost/cli.py": "from jboost import sklearn"}
    assert find_violations(house, frozenset({("cli", "sklearn")})) == []
    assert len(find_violations(house, frozenset({("sklearn", "cli")}))) == 1


def test_the_table_in_contributing_is_this_one():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [
        line.split("|") for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()
    ]
    assert tuple(tuple(name.strip(" `/") for name in row[2].split(",")) for row in rows) == LAYERS
