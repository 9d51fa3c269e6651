"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest
from source_files import PACKAGES

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# Examples of a package read as its user writes them: its public names are there.
EVERYWHERE = {"np": "numpy", "nx": "networkx"}


def modules():
    names = ["toruscast"]
    for package in PACKAGES.values():
        name = f"toruscast.{package}"
        names.append(name)
        path = importlib.import_module(name).__path__
        names += [info.name for info in pkgutil.walk_packages(path, f"{name}.")]
    # `toruscast.jax` imports JAX, which may be missing, and has no examples.
    return [*names, "toruscast.torch_xla"]


@pytest.mark.parametrize("name", modules())
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    names = {short: importlib.import_module(full) for short, full in EVERYWHERE.items()}
    for package in ("toruscast.mapping", ".".join(name.split(".")[:2])):
        names |= vars(importlib.import_module(package))
    result = doctest.testmod(module, globs=names | vars(module), optionflags=OPTIONS)
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    found = [t for name in modules() for t in finder.find(importlib.import_module(name))]
    assert sum(len(test.examples) for test in found) > 100
