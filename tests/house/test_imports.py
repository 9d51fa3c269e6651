"""Imports go one way, and nothing imports what could run a stranger's code or reach the network."""

import re
import sys
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

import pytest
from source_files import MODULES, PACKAGES, ROOT, imported

import toruscast
from toruscast.cli import app

# Each package and what it may import besides itself.
FOUNDATIONS = {
    "errors",
    "atomic",
    "files",
    "memory",
    "notebook",
    "plugins",
    "text",
    "typing",
    "validation",
    "workers",
    "_jit",
    "_lazy",
    "_llvm",
    "_scratch",
    "_slow",
    "__version__",
}
LADDER = ["mapping", "routing", "simulation", "features", "training", "decision", "search"]
LADDER += ["answers", "cli"]
MAY_IMPORT = {
    "scaling": set(),
    "datasets": {"mapping", "formats"},
    "formats": {"mapping"},
    "mesh": {"mapping", "formats", "routing", "simulation"},
    **{room: {*LADDER[:floor]} for floor, room in enumerate(LADDER)},
}
for room in ("training", "decision", "search", "answers", "cli"):
    MAY_IMPORT[room] |= {"datasets", "formats", "scaling"}
for room in ("search", "answers", "cli"):
    MAY_IMPORT[room] |= {"mesh"}
# The answer and the command of a room that holds everything for its users.
FACES = {"mesh/answer.py": {"answers"}, "mesh/command.py": {"answers", "cli"}}
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


def test_there_are_modules_to_check():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    file = path.relative_to(ROOT)
    package = file.parts[0]
    allowed = {package, *FOUNDATIONS, *MAY_IMPORT[package], *FACES.get(str(file), ())}
    for name in imported(path):
        top, *rest = name.split(".")
        assert top not in FORBIDDEN, name
        if top == "toruscast":
            room = rest[0].removeprefix("_") if rest[0] in PACKAGES.values() else rest[0]
            assert room in allowed, name
            # Some foundations are private to the package; parts of a room are private to the room.
            private = any(part.startswith("_") for part in rest[1:])
            assert room == package or not private, name


def test_no_name_hides_a_module():
    """`import a.b.c as m` takes attributes of a and of b."""
    for name in dir(toruscast):
        getattr(toruscast, name)
    for each in walk_packages(toruscast.__path__, "toruscast."):
        found = {}
        with suppress(ModuleNotFoundError):
            exec(f"import {each.name} as module", found)
            assert found["module"] is sys.modules[each.name], each.name


def test_top_package_re_exports_lazily_or_not_at_all():
    allowed = {*MAY_IMPORT, *FOUNDATIONS} - {"cli"}
    for name in imported(ROOT / "src" / "toruscast" / "__init__.py"):
        top, *rest = name.split(".")
        assert top not in FORBIDDEN
        assert top != "toruscast" or rest[0] in allowed


def test_the_check_sees_a_wrong_import(tmp_path):
    wrong = tmp_path / "mapping" / "wrong.py"
    wrong.parent.mkdir()
    wrong.write_text(
        "import toruscast\n"
        "def f():\n"
        "    from .._features import features\n"
        "    import os, pickle\n"
        "    toruscast.training.fit()\n"
    )
    assert set(imported(wrong, tmp_path)) == {
        "toruscast._features.features",
        "os",
        "pickle",
        "toruscast.training",
    }


def test_the_package_root_links_to_each_room():
    links = {
        p.name: str(p.readlink()) for p in (ROOT / "src/toruscast").iterdir() if p.is_symlink()
    }
    assert links == {name: f"../../{room}" for room, name in PACKAGES.items()}


def test_modules_that_are_named_in_text_are_there():
    """What is imported when first used, and what the fuzzer follows; commands by their modules."""
    text = "".join(path.read_text() for path in [*MODULES, ROOT / "tools" / "fuzz.py"])
    named = {*re.findall(r'\bSlow\("(toruscast[\w.]+)"\)', text)}
    named |= {*re.findall(r'^    "(toruscast\.[\w.]+)",$', text, re.M)}
    assert len(named) > 10
    # Files for launchers are named like modules.
    for name in named - {"toruscast.rankfile"}:
        file = ROOT.joinpath("src", *name.split("."))
        assert file.with_suffix(".py").is_file() or (file / "__init__.py").is_file(), name
    for module, name in app._MODULES.values():
        assert callable(getattr(import_module(module), name))
