"""The files of the package, and what they import."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    "mapping",
    "formats",
    "routing",
    "simulation",
    "features",
    "training",
    "decision",
    "mesh",
    "search",
    "scaling",
    "answers",
    "cli",
    "datasets",
)
# ``toruscast.features``, ``mesh`` and ``search`` are functions.
PACKAGES = {room: f"_{room}" if room in ("features", "mesh", "search") else room for room in ROOMS}
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
SOURCE = MODULES


def name_of(path):
    """Full name of a module."""
    room, *rest = path.relative_to(ROOT).with_suffix("").parts
    parts = [PACKAGES.get(room, room), *rest]
    return ".".join(["toruscast", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def imported(path, root=ROOT, types=True):
    """Full names of all modules that a file imports, those inside functions too.

    Without ``types``, those that only type checkers see are left out.
    """
    room, *rest = path.relative_to(root).parts[:-1]
    package = ["toruscast", PACKAGES.get(room, room), *rest]
    tree = ast.parse(path.read_text())
    if not types:
        tree = _AtRunTime().visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name != "toruscast")
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "toruscast":
            yield f"toruscast.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = [*base, *(node.module.split(".") if node.module else [])]
            # "from toruscast import mapping" names the package after the word import.
            yield from (".".join([*base, alias.name]) for alias in node.names)


class _AtRunTime(ast.NodeTransformer):
    def visit_If(self, node):
        return None if getattr(node.test, "id", "") == "TYPE_CHECKING" else node
