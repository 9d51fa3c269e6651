"""Imports go one way, and nothing imports what could run a stranger's code or reach the network."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Each package and what it may import besides itself.
FOUNDATIONS = {"errors", "files", "typing", "validation", "wording", "_jit", "_lazy", "__version__"}
LADDER = ["mapping", "routing", "simulation", "features", "training", "report", "cli"]
MAY_IMPORT = {
    "scaling": set(),
    "datasets": {"mapping"},
    **{room: {*LADDER[:floor]} for floor, room in enumerate(LADDER)},
}
for room in ("training", "report", "cli"):
    MAY_IMPORT[room] |= {"datasets", "scaling"}
FORBIDDEN = {
    "pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "requests",
    "urllib",
    "http",
    "socket",
    "ftplib",
    "aiohttp",
    "httpx",
}
MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def imported(path):
    """Full names of all modules that a file imports, those inside functions too."""
    package = ["toruscast", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name != "toruscast")
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "toruscast":
            yield f"toruscast.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = [*base, *(node.module.split(".") if node.module else [])]
            # "from toruscast import features" names the package after the word import.
            yield from (".".join([*base, alias.name]) for alias in node.names)


def test_there_are_modules_to_check():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    package = path.relative_to(ROOT).parts[0]
    if "capture" in path.parts:
        pytest.skip("a script that stands alone")
    for name in imported(path):
        top, *rest = name.split(".")
        assert top not in FORBIDDEN, name
        if top == "toruscast":
            assert rest[0] in {package, *FOUNDATIONS, *MAY_IMPORT[package]}, name


def test_top_package_re_exports_lazily_or_not_at_all():
    allowed = {*LADDER, *FOUNDATIONS, "datasets"} - {"cli"}
    for name in imported(ROOT / "src" / "toruscast" / "__init__.py"):
        top, *rest = name.split(".")
        assert top not in FORBIDDEN
        assert top != "toruscast" or rest[0] in allowed


def test_the_check_sees_a_wrong_import(tmp_path, monkeypatch):
    wrong = tmp_path / "mapping" / "wrong.py"
    wrong.parent.mkdir()
    wrong.write_text(
        "import toruscast\n"
        "def f():\n"
        "    from ..features import extract\n"
        "    import os, pickle\n"
        "    toruscast.training.fit()\n"
    )
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert set(imported(wrong)) == {
        "toruscast.features.extract",
        "os",
        "pickle",
        "toruscast.training",
    }
